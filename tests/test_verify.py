"""Stored results that come out again, and those that do not."""

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from taciturn.bench import catalogue
from taciturn.bench.results import Cell, Group, Progress, Result, Results
from taciturn.bench.store import environment
from taciturn.bench.study import Score, Study
from taciturn.bench.submission import ORIGIN, Submission, packed, unpacked
from taciturn.bench.verify import (
    AS_STORED,
    DIFFERENT,
    FRESH,
    NOISE,
    REDRAWN,
    SAME,
    TRAINED,
    Check,
    described_checks,
    equal,
    fewest_inside,
    fresh_cell,
    pool,
    verify,
)
from taciturn.envs.core import Streams


class Noise(Study):
    """A normal number a seed, and one that is always the same."""

    name = "noise2024-1"
    title = "Noise"
    score = Score("value")

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{"level": level} for level in (0, 1)], range(10))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        value = cell.config["level"] + np.random.default_rng(cell.seed).normal()
        return Result({"always": 1.0, "never": math.inf, "value": value})


class Paired(Noise):
    name = "paired"
    only_own_seeds = True

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        assert cell.seed < FRESH
        return super().run(cell)


class Trained(Noise):
    name = "noise2024-2"

    def trains(self, config: Any) -> bool:
        return True


def kept(folder: Path, study: Study, change: Any = lambda metrics: metrics, **origin: Any) -> None:
    """Store a study's results, changed."""
    groups = []
    for level in (0, 1):
        cells = [cell for cell in study.cells(False) if cell.config["level"] == level]
        found = [change(dict(study.run(cell).metrics)) for cell in cells]
        metrics = {name: np.array([one[name] for one in found]) for name in found[0]}
        groups.append(Group({"level": level}, np.arange(10), metrics, {}, np.full(10, 1.0 + level)))
    origin = dict.fromkeys(ORIGIN, "said") | origin
    (folder / f"{study.name}.json").write_text(
        packed(Submission(study.name, origin, Results(groups))), encoding="utf-8"
    )


def again(folder: Path, study: Study) -> list[Check]:
    cells = pool([(study, folder / f"{study.name}.json")], 9.0).cells
    assert len(cells) == 20
    return verify(cells, np.random.default_rng(0), backend="serial", progress=False)


def test_results_that_are_kept_as_they_were_have_the_same_bits(tmp_path: Path) -> None:
    kept(tmp_path, Noise())
    checks = again(tmp_path, Noise())
    assert {one.outcome for one in checks} == {SAME}
    assert described_checks(checks)["outcomes"] == {SAME: 20, DIFFERENT: 0}
    assert described_checks(checks)["fresh_expected_inside"] == round(20 * 9 / 11, 1)
    assert described_checks(checks)["fresh_inside"] >= fewest_inside(checks)


def test_six_digits_are_said_to_be_six_digits(tmp_path: Path) -> None:
    kept(tmp_path, Noise(), lambda metrics: metrics | {"value": float(f"{metrics['value']:.6g}")})
    assert {one.outcome for one in again(tmp_path, Noise())} == {AS_STORED}
    kept(tmp_path, Noise(), lambda metrics: metrics | {"value": float(f"{metrics['value']:.5g}")})
    assert DIFFERENT in {one.outcome for one in again(tmp_path, Noise())}


def test_counts_are_the_same_and_real_numbers_have_a_tolerance() -> None:
    assert equal(12.0, 12.0, 1e-9)
    assert not equal(1e10, 1e10 + 1, 1e-9), "counts have no tolerance"
    assert equal(0.3, 0.1 + 0.2, 1e-9)
    assert equal(1.0, 1 - 1e-12, 1e-9), "a real number that happens to be whole"
    assert not equal(0.3, 0.3 * (1 + 2e-9), 1e-9)
    assert equal(0.0, -3e-17, 1e-9), "what is left of a difference"
    assert equal(math.inf, math.inf, 1e-9)
    assert not any(equal(1.5, other, 1e-9) for other in (math.nan, math.inf))


def test_last_digits_are_no_difference(tmp_path: Path) -> None:
    kept(tmp_path, Noise(), lambda metrics: metrics | {"value": metrics["value"] * (1 + 1e-10)})
    assert {one.outcome for one in again(tmp_path, Noise())} == {"equal to 9 digits"}

    class Coarser(Noise):
        def tolerance(self, config: Any) -> float:
            return 1e-4

    kept(tmp_path, Coarser(), lambda metrics: metrics | {"value": metrics["value"] * (1 + 1e-5)})
    assert {one.outcome for one in again(tmp_path, Coarser())} == {"equal to 4 digits"}
    assert {one.outcome for one in again(tmp_path, Noise())} == {DIFFERENT}


def test_a_training_may_differ_on_another_processor_alone(tmp_path: Path) -> None:
    changed: Any = lambda metrics: metrics | {"value": metrics["value"] + 0.1}  # noqa: E731
    here = environment()["processor"]
    for study, where, outcome in (
        (Trained(), "another", TRAINED),
        (Trained(), here, DIFFERENT),
        (Noise(), "", DIFFERENT),
    ):
        kept(tmp_path, study, changed, processor=where)
        assert {one.outcome for one in again(tmp_path, study)} == {outcome}


def test_what_earlier_streams_drew_may_differ(tmp_path: Path) -> None:
    class Noisy(Noise):
        def run(self, cell: Cell, progress: Any = None) -> Result:
            rng = Streams(cell.seed).noise("channel/x", "Laplace(1)")
            return replace(super().run(cell), metrics={**super().run(cell).metrics, "noise": rng.normal()})

    class Redrawn(Noise):
        def drawn_since(self, config: Any) -> int:
            return 3

    changed: Any = lambda metrics: metrics | {"value": metrics["value"] + 0.1}  # noqa: E731
    for study, more, outcome in (
        (Redrawn(), {"streams": 2}, REDRAWN),
        (Redrawn(), {"streams": 3}, DIFFERENT),
        (Noisy(), {}, NOISE),
        (Noisy(), {"streams": 2}, DIFFERENT),
        (Noise(), {}, DIFFERENT),
    ):
        kept(tmp_path, study, changed, **more)
        checks = again(tmp_path, study)
        assert {one.outcome for one in checks} == {outcome}
        assert bool(described_checks(checks)["different_cells"]) is (outcome == DIFFERENT)


def test_each_cell_has_the_processor_and_the_streams_of_the_run_that_made_it(tmp_path: Path) -> None:
    file = tmp_path / "noise2024-1.json"
    kept(tmp_path, Noise(), processor="VAX 9000", streams=2, others=[{"command": "earlier"}])
    stored = unpacked(file)
    made = np.arange(10) % 2
    groups = Results(replace(group, origins=made) for group in stored.results)
    file.write_text(packed(stored._replace(results=groups)), encoding="utf-8")
    drawn = pool([(Noise(), file)], 9.0).cells
    assert {(one.cell.seed % 2, one.processor, one.streams) for one in drawn} == {(0, "VAX 9000", 2), (1, "", 1)}


def test_a_metric_that_changed_or_is_gone_differs_and_is_named(tmp_path: Path) -> None:
    kept(tmp_path, Noise(), lambda metrics: metrics | {"always": 1 + 1e-5})
    checks = again(tmp_path, Noise())
    assert {one.outcome for one in checks} == {DIFFERENT}
    assert {name for one in checks for name in one.differing} == {"always"}
    kept(tmp_path, Noise(), lambda metrics: metrics | {"gone": 1.0})
    assert math.isnan(again(tmp_path, Noise())[0].differing["gone"][1])


def test_results_of_another_law_are_seen_by_fresh_seeds(tmp_path: Path) -> None:
    """Kept numbers that lie ten standard deviations away: none of the fresh ones lies among them."""
    kept(tmp_path, Noise(), lambda metrics: metrics | {"value": metrics["value"] + 10})
    checks = again(tmp_path, Noise())
    assert sum(one.inside is True for one in checks) == 0
    assert fewest_inside(checks) == stats.binom(20, 9 / 11).ppf(1e-3) == 10


def test_studies_whose_seeds_are_paired_with_others_get_no_fresh_ones(tmp_path: Path) -> None:
    kept(tmp_path, Paired())
    checks = again(tmp_path, Paired())
    assert {one.inside for one in checks} == {None}
    assert (described_checks(checks)["fresh"], fewest_inside(checks)) == (0, 0)


def test_agents_of_stored_trainings_get_no_fresh_seeds(tmp_path: Path) -> None:
    """With one they would train anew, for minutes."""
    kept(tmp_path, Noise())
    drawn = pool([(Noise(), tmp_path / f"{Noise.name}.json")], 9.0).cells[0]
    for policy in ("TrainedAgent", "Listener"):
        one = drawn._replace(cell=Cell(Noise.name, {"level": 0, "policy": policy}, 0))
        assert (fresh_cell(one, np.random.default_rng(0)) is None) == (policy == "TrainedAgent")


def test_what_takes_longer_and_what_is_of_another_version_is_counted(tmp_path: Path) -> None:
    kept(tmp_path, Noise())
    found = pool([(Noise(), tmp_path / "noise2024-1.json")], 1.5)
    assert (len(found.cells), found.too_long, found.unknown) == (10, 10, 0)
    text = (tmp_path / "noise2024-1.json").read_text(encoding="utf-8")
    (tmp_path / "noise2024-1.json").write_text(text.replace('"level": 1', '"level": 2'), encoding="utf-8")
    found = pool([(Noise(), tmp_path / "noise2024-1.json")], 9.0)
    assert (len(found.cells), found.too_long, found.unknown) == (10, 0, 10)


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch, command: Any, tmp_path: Path) -> Any:
    """Call `taciturn verify` on the kept results of `Noise`, which runs in this process."""
    monkeypatch.setattr(catalogue, "load_studies", lambda: {"noise2024-1": Noise(), "paired": Paired()})
    from taciturn.bench import runner

    run_study = runner.run_study
    here = {"backend": "serial", "workers": None}
    monkeypatch.setattr(runner, "run_study", lambda *args, **how: run_study(*args, **how | here))

    return partial(command, "verify", "--kept", str(tmp_path))


def test_the_command_says_what_it_drew_and_what_came_out(verified: Any, tmp_path: Path) -> None:
    kept(tmp_path, Noise())
    kept(tmp_path, Paired())
    code, out, _ = verified("noise2024", "--cells", "7", "--seed", "5")
    assert code == 0
    first, second, third, last = out.splitlines()
    assert first == "7 of 20 stored cells, drawn with seed 5"
    assert second == f"with their own seeds: 7 {SAME}, 0 {DIFFERENT}"
    assert "of 7 within the range of the stored ones; 5.7 are expected" in third
    assert "numpy" in last
    code, out, _ = verified("--cells", "40", "--json")
    assert (code, json.loads(out)["cells"], json.loads(out)["fresh"]) == (0, 40, 20)
    drawn = [
        json.loads(verified("noise2024-1", "--cells", "3", "--seed", "5", "--json")[1])["fresh_inside"] for _ in "ab"
    ]
    assert drawn[0] == drawn[1]


def test_a_difference_is_news_and_an_error_if_asked_for(verified: Any, tmp_path: Path) -> None:
    kept(tmp_path, Noise(), lambda metrics: metrics | {"always": 2.0}, processor="VAX 9000, F_float")
    code, out, _ = verified("--cells", "7")
    assert code == 0
    assert "different: noise2024-1: level=0, seed=" in out
    assert "always: stored 2, recomputed 1 (rel. 5.0e-01); stored on VAX 9000, F_float" in out
    assert verified("--cells", "7", "--strict")[0] == 1
    kept(tmp_path, Noise(), lambda metrics: metrics | {"value": metrics["value"] + 10})
    code, out, _ = verified("--cells", "20", "--json", "--strict")
    assert (code, json.loads(out)["fresh_inside"]) == (1, 0)
    kept(tmp_path, Noise())
    assert verified("--cells", "20", "--strict")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("noise2023",), "unknown study or page 'noise2023'"),
        (("--longest", "0.5"), "cells of noise2024-1 take more than 0.5 s"),
        (("--cells", "0"), "--cells"),
        (("--kept", "nowhere"), "--kept must be a folder of stored results"),
    ],
)
def test_what_cannot_be_verified_is_one_line(
    verified: Any, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    kept(tmp_path, Noise())
    code, out, err = verified(*words)
    assert (code != 0, out) == (True, "")
    assert message in err
    assert len(err.splitlines()) == 1
