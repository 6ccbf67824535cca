"""Tuned settings are those that won, and a user's own file is read, or a line says what is wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tune
from test_train import SHORT

from taciturn.bench.results import TUNING_SEEDS
from taciturn.bench.tasks import TASKS
from taciturn.bench.train import train
from taciturn.bench.tuned import tuned as searched

TUNING = Path(__file__).parent.parent / "tools/results/tuning.json"
OWN = """
PPO:
  found: {command: taciturn train round_stopping, seeds: "7", budget: one try}
  settings: {n_steps: 16, batch_size: 64}
"""


def test_designed_and_published_agents_are_searched_alike_wherever_they_play() -> None:
    """`tools/results/tuning.json` has each agent with parameters to search, in each standard task and total, by
    one budget; what won is what the benchmark plays."""
    kept = json.loads(TUNING.read_text(encoding="utf-8"))
    wanted = {f"{task.id}:{policy}": (task, policy) for task, policy, _ in tune.jobs()}
    assert kept["entries"].keys() == wanted.keys()
    for name, (task, policy) in wanted.items():
        found = kept["entries"][name]
        assert searched(task, policy) == found["chosen"], name
        assert 0 < len(found["tried"]) <= kept["budget"]["trials"] == tune.TRIALS
        finals = {json.dumps(one["settings"]): one["final"] for one in found["tried"] if one["final"] is not None}
        assert finals[json.dumps(found["chosen"])] == max(finals.values()), name


def test_a_search_that_is_refused_everywhere_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(iter(TASKS.values()))
    monkeypatch.setattr(tune, "score", lambda *given: -np.inf)
    monkeypatch.setattr(tune, "drawn", lambda *given: [{}])
    with pytest.raises(ValueError, match="UCB1 refuses all settings"):
        tune.search(task, "UCB1", "classic")


def test_the_settings_that_stand_play_the_final_however_they_did_before(monkeypatch: pytest.MonkeyPatch) -> None:
    task, standing = next(iter(TASKS.values())), {"a": 0}
    monkeypatch.setattr(tune, "drawn", lambda *given: [standing, *({"a": n} for n in range(1, 6))])
    few = tune.RUNS  # the worst in few runs, and the best in many

    def score(task: Any, policy: str, kind: str, own: Any, runs: int, seed: int) -> float:
        return float(own["a"] if seed == TUNING_SEEDS[0] else -own["a"] + (runs < 7 * few))

    monkeypatch.setattr(tune, "score", score)
    found = tune.search(task, "UCB1", "classic", 7)
    assert (found["chosen"], found["final"]) == (standing, 7)
    assert sum(one["final"] is not None for one in found["tried"]) == tune.FINALISTS + 1


def settings_of(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = manifest["training"]["settings"]
    return found


def test_train_takes_a_users_own_settings(tmp_path: Path) -> None:
    (tmp_path / "round_stopping.yml").write_text(OWN)
    more: dict[str, Any] = {"settings": {"batch_size": 32}}
    own = train("round_stopping", out=tmp_path / "own", **SHORT, file=tmp_path / "round_stopping.yml", **more)
    assert settings_of(own) == {"n_steps": 16, "batch_size": 32}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PPO: [", " must be a YAML file of settings: while parsing"),
        ("# \xe9\n", " must be a YAML file of settings: unacceptable character"),
        ("- PPO", r": the file must be a mapping with names as keys, not \['PPO'\]"),
        ("PPO: 3", ": PPO must be a mapping with names as keys, not 3"),
        ("PPO: {setings: {}}", ": PPO.setings must be called found or settings"),
        ("PPO: {found: {}}", ": PPO must have settings"),
        ("PPO: {settings: fast}", ": PPO.settings must be a mapping with names as keys, not 'fast'"),
        ("A2C: {settings: {}}", " must have an entry 'PPO', and has A2C"),
        ("PPO: {settings: {learning_rat: 0.1}}", ": .* unexpected keyword argument 'learning_rat'"),
        ("PPO: {settings: {gamma: high}}", ": gamma must be a number, as 0.003 or 3.0e-3, not 'high'"),
        ("NeuralBandit: {settings: {step: 1}}", ": NeuralBandit got an unexpected .* 'step': did you mean 'steps'"),
        ("NeuralBandit: {settings: {explore: -1}}", ": explore must be a finite number >= 0, not -1"),
        ("NeuralBandit: {settings: {seed: 2}}", ": .* multiple values for keyword argument 'seed'"),
    ],
)
def test_a_mistaken_file_is_named_with_its_key(text: str, said: str, tmp_path: Path) -> None:
    file, out = tmp_path / "mine.yml", tmp_path / "agent"
    file.write_text(text, encoding="latin-1")
    algorithm = "NeuralBandit" if text.startswith("Neural") else "PPO"
    with pytest.raises(ValueError, match=r"mine\.yml" + said) as error:
        train("round_stopping", out=out, **SHORT | {"algorithm": algorithm}, file=file)
    assert "\n" not in str(error.value)
    assert not out.exists()
    with pytest.raises(ValueError, match=r"nowhere\.yml must be a YAML file of settings: .* No such file"):
        train("round_stopping", out=out, **SHORT, file=tmp_path / "nowhere.yml")


def test_the_command_line_takes_a_file(tmp_path: Path, command: Any) -> None:
    # PowerShell writes UTF-16.
    (tmp_path / "mine.yml").write_text("PPO: {settings: {gamma: 9e-1}}", encoding="utf-16")
    words = [
        "--algorithm",
        "PPO",
        "--steps",
        "8",
        "--out",
        str(tmp_path / "agent"),
        "--settings",
        str(tmp_path / "mine.yml"),
    ]
    assert (
        command("train", "round_stopping", *words)[2]
        .strip()
        .endswith("mine.yml: gamma must be a number, as 0.003 or 3.0e-3, not '9e-1'")
    )
