"""Whether stored results can be reproduced: cells drawn at random, with their own seeds and with fresh ones."""

import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taciturn import seeding
from taciturn.bench.results import Cell, Group, Progress, Result, Results, canonical
from taciturn.bench.store import Store, environment
from taciturn.bench.study import Score, Study
from taciturn.bench.submission import KEPT_DIGITS, rounded, unpacked
from taciturn.bench.tasks.benchmark import TRAINER
from taciturn.policies.learned.stored import FILE, pretrained_files, read, training_of

FRESH = 3_000_000
"""Fresh seeds are drawn from here on: no cell of a study has one, and no setting was tuned on one."""
SAME, TRAINED, DIFFERENT = "the same bits", "trained on another processor, to other numbers", "different"
REDRAWN = "of other draws, since the numbers that a seed gives to their environment have changed"
NOISE = "of other noise, since the numbers that a seed gives to noise have changed"
EXPECTED = NOISE, REDRAWN
DREW_NOISE = "drew noise"  # a metric that `Again` adds
AS_STORED = f"equal in the {KEPT_DIGITS} digits stored"
ZERO = 1e-12
"""Real numbers no further apart than this are equal, since their difference has no significant digits."""
RARE = 1e-3
"""Fresh results count as differently distributed if the probability of so few among the stored ones is at most
this."""


def retrained(name: str, folder: Path) -> str:
    """Repeat the training of an agent shipped with the package, in a new folder, and compare the weights: `SAME`,
    `TRAINED` or `DIFFERENT`."""
    from taciturn.bench.train import train
    from taciturn.bench.trained import arithmetic

    file = pretrained_files()[name]
    about = training_of(file)
    again = train(about["task"], seed=about["seed"], out=folder) / FILE
    (_, stored), (_, now) = read(file), read(again)
    if stored.keys() == now.keys() and all(np.array_equal(stored[key], now[key]) for key in stored):
        return SAME
    return DIFFERENT if about.get("arithmetic") == arithmetic() else TRAINED


class Drawn(NamedTuple):
    """A stored cell, its metrics, the stored values of its configuration at all seeds, the processor it ran on (empty
    if not recorded), and the version of its streams of random numbers."""

    study: Study
    cell: Cell
    metrics: dict[str, float]
    others: Group
    processor: str
    streams: int


class Check(NamedTuple):
    """A cell run again.

    Attributes:
        drawn: the stored cell.
        outcome: `SAME`, `AS_STORED`, "equal to N digits", `TRAINED`, `REDRAWN`, `NOISE` or `DIFFERENT`.
        differing: stored and new value of each metric that differs.
        inside: whether the study's score with a fresh seed lies within the range of the stored seeds; None if the study
            has no fresh seeds.
    """

    drawn: Drawn
    outcome: str
    differing: dict[str, tuple[float, float]]
    inside: bool | None

    @property
    def chance(self) -> float:
        """The least probability that one more value of the same distribution lies within the range of n seeds:
        (n - 1)/(n + 1)."""
        runs = len(self.drawn.others.seeds)
        return max(0.0, (runs - 1) / (runs + 1))


class Again(Study):
    """Some cells of a study, with their own seeds and with fresh ones, that record whether they drew noise."""

    def __init__(self, study: Study, cells: Sequence[Cell]) -> None:
        self.study, self.chosen = study, list(cells)
        self.name, self.title, self.score = study.name, study.title, study.score  # type: ignore[misc]

    def cells(self, quick: bool) -> list[Cell]:
        return self.chosen

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        seeding.CONFIGURED.clear()
        result = self.study.run(cell, progress)
        return replace(result, metrics={**result.metrics, DREW_NOISE: float(bool(seeding.CONFIGURED))})


class Pool(NamedTuple):
    """The stored cells that can be run again; the number of cells that take too long, and of cells that the studies no
    longer have."""

    cells: list[Drawn]
    too_long: int
    unknown: int


def pool(stored: Iterable[tuple[Study, Path]], longest: float) -> Pool:
    """The cells of studies in their files, except those that took more than `longest` seconds. Raises StoreError if a
    file was not written by `tools/store_results.py`."""
    result, too_long, unknown = list[Drawn](), 0, 0
    for study, file in stored:
        known = {(canonical(cell.config), cell.seed): cell for cell in study.cells(quick=False)}
        kept = unpacked(file)
        for group in kept.results:
            study.match_stored(group)
            for place, seed in enumerate(group.seeds):
                cell = known.get((canonical(group.config), int(seed)))
                unknown += cell is None
                too_long += cell is not None and group.wall_seconds[place] > longest
                if cell is not None and group.wall_seconds[place] <= longest:
                    metrics = {name: float(values[place]) for name, values in group.metrics.items()}
                    origin = kept.origins[group.made_by[place]]
                    on, streams = str(origin.get("processor", "")), int(origin.get("streams", 1))
                    result.append(Drawn(study, cell, metrics, group, on, streams))
    return Pool(result, too_long, unknown)


def verify(cells: Sequence[Drawn], rng: np.random.Generator, **how: Any) -> list[Check]:
    """Run cells again, with their own seeds and with fresh ones; `how` are options of `run_study`. Raises ValueError if
    one fails."""
    from taciturn.bench.runner import run_study

    fresh = [fresh_cell(one, rng) for one in cells]
    asked: dict[str, list[Cell]] = {}
    for one, other in zip(cells, fresh, strict=True):
        asked.setdefault(one.study.name, []).extend(cell for cell in (one.cell, other) if cell is not None)
    studies = {one.study.name: one.study for one in cells}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "again")
        summary = run_study([Again(studies[name], some) for name, some in asked.items()], store, **how)
        if summary.failed:
            why = summary.failed[0].read_text(encoding="utf-8")
            raise ValueError(f"{len(summary.failed)} of {summary.planned} cells failed, the first with: {why}")
        results = {name: store.results(name) for name in studies}
    return [
        checked(
            one,
            metrics_of(results[one.study.name], one.cell),
            None if other is None else metrics_of(results[one.study.name], other),
        )
        for one, other in zip(cells, fresh, strict=True)
    ]


def fresh_cell(drawn: Drawn, rng: np.random.Generator) -> Cell | None:
    """The cell with a fresh seed; None if its study has none, or if its agent comes from a stored training: with a
    fresh seed, it would first train for minutes (`taciturn verify trainings` trains one again)."""
    config = drawn.cell.config
    if drawn.study.only_own_seeds or config.get("policy") == TRAINER:
        return None
    return Cell(drawn.cell.study, config, FRESH + int(rng.integers(2**31)))


def metrics_of(results: Results, cell: Cell) -> dict[str, float]:
    """The metrics of a cell."""
    group = results.find(cell.config)
    assert group is not None
    place = int(np.flatnonzero(group.seeds == cell.seed)[0])
    return {name: float(values[place]) for name, values in group.metrics.items()}


def checked(drawn: Drawn, again: dict[str, float], fresh: dict[str, float] | None) -> Check:
    """Compare a cell's stored results with its rerun, and with a fresh seed."""
    study, config = drawn.study, drawn.cell.config
    tolerance = study.tolerance(config)
    pairs = {name: (stored, again.get(name, math.nan)) for name, stored in drawn.metrics.items()}
    exact = {name for name, (stored, now) in pairs.items() if stored == now}
    as_stored = {name for name, (stored, now) in pairs.items() if stored == rounded([now])[0]}
    close = {name for name, pair in pairs.items() if equal(*pair, tolerance)}
    differing = {name: pair for name, pair in pairs.items() if name not in exact | as_stored | close}
    if differing:
        elsewhere = drawn.processor != environment()["processor"]
        outcome = TRAINED if elsewhere and study.trains(config) else DIFFERENT
        if drawn.streams < study.drawn_since(config):
            outcome = REDRAWN
        elif drawn.streams < seeding.NOISE_SINCE and again.get(DREW_NOISE):
            outcome = NOISE
    elif len(exact) == len(pairs):
        outcome = SAME
    else:
        outcome = AS_STORED if as_stored - exact - close else f"equal to {-math.log10(tolerance):.0f} digits"
    if fresh is None:
        return Check(drawn, outcome, differing, None)
    metric = evaluated_by(study.score, drawn.others)
    values, value = drawn.others.metrics[metric], fresh.get(metric, math.nan)
    # Stored values may be rounded, and a fresh one at the edge is rounded in the same way.
    inside = any(values.min() <= x <= values.max() for x in (value, rounded([value])[0]))
    return Check(drawn, outcome, differing, inside)


def equal(stored: float, now: float, tolerance: float) -> bool:
    """Whether two numbers are the same count, or the same real number up to a relative tolerance."""
    if stored.is_integer() and now.is_integer():
        return stored == now
    return math.isclose(stored, now, rel_tol=tolerance, abs_tol=ZERO)


def apart(stored: float, now: float) -> float:
    """The difference of two numbers, relative to the larger one; NaN if one is missing."""
    return abs(stored - now) / max(abs(stored), abs(now)) if stored != now else 0.0


def evaluated_by(score: Score, group: Group) -> str:
    """The study's score if the group has it, else the first metric that differs between seeds."""
    varying = [name for name, values in group.metrics.items() if np.unique(values).size > 1]
    return next(iter([name for name in (score.metric,) if name in group.metrics] + varying), next(iter(group.metrics)))


def fewest_inside(checks: Sequence[Check]) -> int:
    """The smallest unsurprising number of scores inside the stored range: if results have the stored distribution,
    fewer have a probability of at most `RARE`."""
    distribution = np.ones(1)
    for one in evaluated(checks):
        distribution = np.convolve(distribution, [1 - one.chance, one.chance])
    return int(np.count_nonzero(np.cumsum(distribution) <= RARE))


def evaluated(checks: Sequence[Check]) -> list[Check]:
    """The checks with a fresh seed."""
    return [check for check in checks if check.inside is not None]


def described_checks(checks: Sequence[Check]) -> dict[str, Any]:
    """The outcome as JSON values."""
    now = environment()
    outcomes = {SAME: 0} | Counter(sorted(check.outcome for check in checks if check.outcome != DIFFERENT))
    return {
        "cells": len(checks),
        "outcomes": outcomes | {DIFFERENT: sum(check.outcome == DIFFERENT for check in checks)},
        "different_cells": [
            {
                "cell": check.drawn.cell.label,
                "outcome": check.outcome,
                "stored_on": check.drawn.processor,
                "stored_and_now": check.differing,
            }
            for check in checks
            if check.differing and check.outcome not in EXPECTED
        ],
        "fresh": len(evaluated(checks)),
        "fresh_inside": sum(check.inside is True for check in checks),
        "fresh_expected_inside": round(sum(one.chance for one in evaluated(checks)), 1),
        "fresh_fewest": fewest_inside(checks),
        "cores": os.cpu_count(),
        **{name: now[name] for name in ("taciturn", "python", "platform", "processor", "libraries")},
    }
