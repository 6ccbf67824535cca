"""Agents that come with the package: what they were trained for, that they come out again, and what they are worth."""

import json
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import train_all
from scipy import stats

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.tasks import BENCHMARKS, STANDARD, TASKS
from taciturn.bench.trained import arithmetic, digest
from taciturn.bench.verify import TRAINED as ELSEWHERE
from taciturn.cli import main
from taciturn.policies.learned.stored import FILE, pretrained_files, pretrained_for, training_of
from taciturn.policies.learned.trained import MILESTONES

pytest.importorskip("torch")


def test_agents_that_come_with_the_package_play_and_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["taciturn", "list", "pretrained", "--json"])
    with pytest.raises(SystemExit):
        main()
    rows = json.loads(capsys.readouterr().out)["pretrained"]
    assert rows
    for row in rows:
        assert row.keys() == {"name", "task", "budget", "seed"}
        task = row["task"] + ("" if row["budget"] == "none" else f"@{row['budget']}")
        assert task in TASKS
        assert row["budget"] in ("none", "10", "3", "1")
        assert bring(f"pretrained:{row['name']}").weights is not None
        assert pretrained_for(task, row["seed"]) == row["name"]
    assert pretrained_for("taciturn/GossipBandit-v0/standard", 10**6) is None
    with pytest.raises(ValueError, match="pretrained:NAME must name one of"):
        bring("pretrained:nobody")
    monkeypatch.setattr(sys, "argv", ["taciturn", "run", "taciturn/Elicitation-v0/standard", "--policy"])
    sys.argv += ["pretrained:elicitation-standard-0", "--seeds", "20", "--json"]
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["metrics"]["score"]["mean"] > 0.99


@pytest.mark.parametrize("name", pretrained_files())
def test_agents_that_come_with_the_package_were_trained_for_the_tasks_as_they_are(name: str) -> None:
    """A task that changes voids what was trained for it: then train it again, by `python tools train_all`."""
    about = training_of(pretrained_files()[name])
    assert about["digest"] == digest(TASKS[about["task"]])
    assert train_all.name_of(about["task"], about["seed"]) == name
    steps = [int(row[1]) for row in train_all.stored_curves() if row[0] == name]
    assert len(steps) == 1 + len(MILESTONES)
    assert steps == sorted(steps)
    assert steps[-1] >= about["steps"] > steps[-2]


def test_the_digest_changes_with_all_that_a_learner_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task for task in TASKS.values() if task.name == STANDARD]
    assert len({digest(task) for task in tasks}) == len(tasks)
    social = TASKS["taciturn/SocialBandit-v0/standard"]
    known = BENCHMARKS[social.env]
    found = {digest(social), digest(social._replace(measure="regret"))}
    for change in ({"world": {**known.world, "num_agents": 21}}, {"for_learners": {"flat_actions": True}}):
        monkeypatch.setitem(BENCHMARKS, social.env, replace(known, **change))
        found.add(digest(social))
    assert len(found) == 4


def test_the_cheapest_training_gives_the_same_bits_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the arithmetic with which it was trained; with another one, other numbers are no difference."""
    monkeypatch.setattr(sys, "argv", ["taciturn", "verify", "trainings", "--seed", "0", "--longest", "1", "--strict"])
    with pytest.raises(SystemExit):
        main()
    assert "longest must be at least" in capsys.readouterr().err
    took = {row[0]: float(row[2]) for row in train_all.stored_curves()}  # until the last evaluation of each
    cheapest = min(took.values())
    sys.argv = f"taciturn verify trainings --seed 0 --longest {cheapest} --strict --json".split()
    with pytest.raises(SystemExit) as end:
        main()
    found = json.loads(capsys.readouterr().out)
    about = training_of(pretrained_files()[found["agent"]])
    same = about["arithmetic"] == arithmetic()
    assert found["outcome"] in ("the same bits",) if same else ("the same bits", ELSEWHERE)
    assert not end.value.code


def test_trainings_are_stored_once_they_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_all, "PRETRAINED_FOLDER", tmp_path / "pretrained")
    monkeypatch.setattr(train_all, "CURVES", tmp_path / "trainings.csv")
    for name, finished in (("b", None), ("a", "now"), ("c", "now")):
        folder = tmp_path / "trained" / name
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"finished": finished}))
        (folder / FILE).write_text(name)
        (folder / "evaluations.csv").write_text(f"steps,seconds,mean,median,worst,score\n0,1,{ord(name)},3,4,5\n")
    (tmp_path / "trained" / "new").mkdir()
    for _ in range(2):
        assert train_all.store(tmp_path / "trained") == ["a", "c"]
        assert sorted(file.stem for file in (tmp_path / "pretrained").iterdir()) == ["a", "c"]
        assert train_all.stored_curves() == [["a", "0", "1", "97", "3", "4"], ["c", "0", "1", "99", "3", "4"]]


def test_the_mean_over_trainings_allows_for_both_choices() -> None:
    """Of 400 draws of 8 trainings and 40 runs with their own effects, the interval holds the truth at least as often as
    it says, by a binomial test at 1e-4."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        values = rng.normal(size=(8, 1)) + rng.normal(size=(1, 40)) + rng.normal(size=(8, 40))
        _, low, high = train_all.over_trainings(values)
        held += low <= 0 <= high
    assert stats.binomtest(held, 400, 0.95, "less").pvalue > 1e-4
    assert held < 400
    one = rng.normal(size=(1, 40))
    assert train_all.over_trainings(one) == statistics.mean(one[0])


def test_the_page_shows_what_was_judged() -> None:
    results = json.loads(train_all.RESULTS.read_text(encoding="utf-8"))
    assert train_all.page(results) == train_all.PAGE.read_text(encoding="utf-8")
    for name, found in results.items():
        assert found["agents"] == train_all.agents_of(name)[: len(found["agents"])]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="these kernels are for x86")
def test_the_fingerprint_tells_kernels_apart() -> None:
    """Haswell's kernels add fused products, Prescott's cannot; without a setting, it is this machine's own."""
    code = "from taciturn.bench.trained import arithmetic; print(arithmetic())"
    told = {
        kernel: subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "OPENBLAS_CORETYPE": kernel}, check=True,
            capture_output=True, text=True,
        ).stdout.strip()
        for kernel in ("Haswell", "Prescott", os.environ.get("OPENBLAS_CORETYPE", ""))
    }  # fmt: skip
    assert told["Haswell"] != told["Prescott"]
    assert told[os.environ.get("OPENBLAS_CORETYPE", "")] == arithmetic()
