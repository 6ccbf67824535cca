"""How often the 95% intervals of `taciturn.bench.statistics` hold the truth, for few runs and where failures are rare.

Shares of `REPEATS` samples. Scores are of four laws, of which in one a run in ten fails; failures count as `WORST`,
where a statistic counts them. Ratios of means are of paired scores, 0.8 y + 0.3 z over y. Shares of wins and of runs
above a threshold depend on how often X wins: each repeat draws that probability between 5% and 95%, because with few
runs the coverage at one probability goes up and down with it. The four tasks of `4 tasks` share half of each run's
luck. A sample for which no interval is given (`FEWEST`, or too few for the sign test) is not counted, and a dash stands
where none has one.

Where failures are rare a seed's score is the mean of a batch of runs. Batches are drawn from laws of which one run in
100 or in 300 fails, which then makes 93% or 89% of the variance, and from `PLAYED` runs of the benchmark's agents in
arm elimination, of which about one in 100 loses the best arm; scores from these and from runs of the reference.
`python tools interval_coverage table` prints the docs' tables from what was recorded.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import record
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.comparisons import kinds, playing
from taciturn.bench.levels import own_configuration
from taciturn.bench.scores import at_budget
from taciturn.bench.tasks import NO_BUDGET_LIMIT, NO_COMMUNICATION, STANDARD, TASK_AGENT, TASKS

Floats = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results"
REPEATS = 6000
RUNS = (3, 5, 10, 20)
COVERAGE_SEED = 5_000_000
"""Runs are played with seeds from here on, which no table has."""
WORST = 4.0  # of random play, where the scores of others are near 10
GRID = (np.arange(100_000) + 0.5) / 100_000


def failing() -> Floats:
    """Quantiles of scores near 10, of which one in ten is near 2."""
    x = np.linspace(-4, 16, 400_001)
    return np.interp(GRID, 0.9 * stats.norm.cdf(x, 10) + 0.1 * stats.norm.cdf(x, 2), x)


# Quantiles of the laws at GRID.
LAWS = {
    "normal": stats.norm.ppf(GRID, 10),
    "skewness 1": stats.gamma.ppf(GRID, 4),
    "lognormal, sigma 1": stats.lognorm.ppf(GRID, 1),
    "one in ten fails": failing(),
}


def rarely_failing(share: float) -> Floats:
    """Quantiles of scores near 10, of which this share is near -40."""
    x = np.linspace(-70, 16, 800_001)
    return np.interp(GRID, (1 - share) * stats.norm.cdf(x, 10) + share * stats.norm.cdf(x, -40, 5), x)


PLAYED = 20_000
BATCHES = ((10, 40), (10, 100), (10, 1000), (20, 1000))
"""Seeds, and runs of each."""
ARMS = "arm_elimination_v0"


def played_runs(task_name: str, budget: float | str) -> tuple[Floats, Floats]:
    """The regrets of the benchmark's hand-designed agent in arm elimination, and those of one coordinator on its
    own."""
    task = next(one for one in TASKS.values() if (one.env, one.name, one.budget) == (ARMS, task_name, budget))
    free = next(one for one in TASKS.values() if (one.env, one.name, one.budget) == (ARMS, STANDARD, NO_BUDGET_LIMIT))
    agents = next(one for one in kinds.entries_of(task, quick=False) if one["kind"] == TASK_AGENT)
    alone = next(one for one in kinds.entries_of(free, quick=False) if one["kind"] == NO_COMMUNICATION)
    result = list[Floats]()
    for config, played_task in ((agents, task), (alone, free)):
        agent = bring(config["policy"], **config["policy_params"])
        world = playing.population(config, 1, "choice of a level", played_task.variant)
        own = None if isinstance(played_task.budget, str) else own_configuration(agent, world, played_task.budget)
        runs = [
            playing.played(played_task, agent, config, 1000, COVERAGE_SEED + seed, own).metrics[task.measure]
            for seed in range(PLAYED // 1000)
        ]
        result.append(np.concatenate(runs))
    return result[0], result[1]


def of_batches(own: Floats, alone: Floats | None) -> dict[str, float]:
    """By batches, how often the interval holds the mean of `own`, or its score on the scale from the mean of `alone` to
    0, of which both are drawn anew."""
    rng, shares = np.random.default_rng(1), dict[str, float]()
    for seeds, runs in BATCHES:
        held = 0
        for _ in range(REPEATS // 3):
            x = rng.choice(own, (seeds, runs)).mean(1)
            if alone is None:
                (_, low, high), truth = statistics.mean(x), float(own.mean())
            else:
                low_end = rng.choice(alone, (seeds, runs)).mean(1)
                _, low, high = statistics.share(x - low_end, -low_end)
                truth = 1 - float(own.mean() / alone.mean())
            held += low <= truth <= high
        shares[f"{seeds} x {runs:,}"] = round(held / (REPEATS // 3), 4)
    return shares


class Sampler:
    """Draws from a law."""

    def __init__(self, quantiles: Floats, seed: int) -> None:
        self.quantiles, self.rng = quantiles, np.random.default_rng(seed)
        self.mean = float(quantiles.mean())
        self.middle = float(quantiles[(GRID > 0.25) & (GRID < 0.75)].mean())

    def scores(self, runs: int, tasks: int = 1) -> Floats:
        """`[runs, tasks]`."""
        luck = self.rng.normal(size=(runs, 1)) if tasks > 1 else 0.0
        normal = np.sqrt(0.5 if tasks > 1 else 1.0) * self.rng.normal(size=(runs, tasks)) + np.sqrt(0.5) * luck
        return self.quantiles[(ndtr(normal) * GRID.size).astype(int).clip(0, GRID.size - 1)]

    def of_mean(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        return self.mean, statistics.mean(self.scores(runs, tasks))

    def of_failures(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        truth = float((self.quantiles < WORST).mean())
        return truth, statistics.failures(self.scores(runs)[:, 0], WORST)

    def of_others(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        x, truth = self.scores(runs)[:, 0], float(np.median(self.quantiles[self.quantiles >= WORST]))
        rest = x[x >= WORST]
        return truth, statistics.median(rest) if rest.size else NONE

    def of_guarded(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        truth = float(np.maximum(self.quantiles, WORST).mean())
        return truth, statistics.guarded_mean(self.scores(runs)[:, 0], WORST)

    def of_score(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        """On a scale whose ends are known from as many runs."""
        low, wide = self.rng.normal(0, 0.3, (2, runs))
        return self.mean, statistics.share(self.scores(runs)[:, 0] - low, 1 + wide)

    def of_difference(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        shared = self.rng.normal(scale=10, size=(runs, tasks))
        return self.mean, statistics.difference(shared + self.scores(runs, tasks), shared)

    def of_ratio(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        y, z = self.scores(runs, tasks), self.scores(runs, tasks)
        return 1.1, statistics.ratio(0.8 * y + 0.3 * z, y)

    def of_iqm(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        return self.middle, statistics.iqm(self.scores(runs, tasks))

    def of_wins(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        wins = self.rng.uniform(0.05, 0.95)
        threshold = self.quantiles[int((1 - wins) * GRID.size)]
        scores = self.scores(runs, tasks)
        return wins, statistics.probability_of_improvement(scores - threshold, 0 * scores)

    def of_profile(self, runs: int, tasks: int) -> tuple[float, statistics.Estimate]:
        above = self.rng.uniform(0.05, 0.95)
        profile = statistics.performance_profile(
            self.scores(runs, tasks), [self.quantiles[int((1 - above) * GRID.size)]]
        )
        return above, statistics.Estimate(*(float(part[0]) for part in profile))


Draw = Callable[[Sampler, int, int], tuple[float, statistics.Estimate]]
STATISTICS: dict[str, tuple[Draw, int]] = {
    "mean": (Sampler.of_mean, 1),
    "paired difference of means": (Sampler.of_difference, 1),
    "score between two references": (Sampler.of_score, 1),
    "share of failed trainings": (Sampler.of_failures, 1),
    "median of the other trainings": (Sampler.of_others, 1),
    "mean of trainings, failures as random play": (Sampler.of_guarded, 1),
    "paired ratio of means": (Sampler.of_ratio, 1),
    "interquartile mean": (Sampler.of_iqm, 1),
    "share of seeds won": (Sampler.of_wins, 1),
    "performance profile": (Sampler.of_profile, 1),
    "mean over 4 tasks": (Sampler.of_mean, 4),
    "interquartile mean over 4 tasks": (Sampler.of_iqm, 4),
    "share of seeds won over 4 tasks": (Sampler.of_wins, 4),
}


OF_TRAININGS = (
    "share of failed trainings",
    "median of the other trainings",
    "mean of trainings, failures as random play",
)
FAILING = ("normal", "one in ten fails")
LAW_FREE = ("share of seeds won", "performance profile")
"""Statistics that depend on how often one score is above another alone."""
NONE = statistics.Estimate(np.nan, np.nan, np.nan)


def distributions_of(name: str) -> tuple[str, ...]:
    """Those under which a statistic is used: of trainings, of which any may fail, or of seeds; `mean` also where a run
    in ten fails, to show why it is not used there."""
    if name in OF_TRAININGS:
        return FAILING
    if name in LAW_FREE:
        return ("normal",)
    return tuple(
        distribution
        for distribution in LAWS
        if distribution != "one in ten fails" or name in ("mean", "interquartile mean")
    )


def coverage(draw: Draw, distribution: str, runs: int, tasks: int) -> float | None:
    """The share of intervals that hold the truth; None if fewer than half of the samples have one."""
    sampler, held, given = Sampler(LAWS[distribution], runs), 0, 0
    for _ in range(REPEATS):
        truth, (_, low, high) = draw(sampler, runs, tasks)
        given += not np.isnan(low)
        held += low <= truth <= high
    return held / given if given >= REPEATS / 2 else None


def table() -> str:
    """Markdown, in percent."""
    recorded = json.loads((RESULTS / "interval_coverage.json").read_text(encoding="utf-8"))
    columns = [str(runs) for runs in recorded["runs"]]
    lines = [f"| statistic | distribution of scores | {' | '.join(columns)} |", "|---|---|" + "---|" * len(columns)]
    for name, distributions in recorded["coverage"].items():
        for distribution, shares in distributions.items():
            lines.append(f"| {name} | {distribution} | {' | '.join(map(percent, shares.values()))} |")
    batches = recorded["batches"]
    columns = list(next(iter(batches.values())))
    lines += ["", f"| statistic; seeds x runs of each | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [f"| {name} | {' | '.join(map(percent, shares.values()))} |" for name, shares in batches.items()]
    return "\n".join(lines)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def main(arguments: list[str]) -> None:
    if arguments == ["table"]:
        print(table())
        return
    results: dict[str, Any] = {}
    batches = {f"mean, one in {n} fails": of_batches(rarely_failing(1 / n), None) for n in (100, 300)}
    for task, budget in ((STANDARD, NO_BUDGET_LIMIT), (STANDARD, 1.0), ("crowd", NO_BUDGET_LIMIT), ("crowd", 1.0)):
        own, alone = played_runs(task, budget)
        where = f"arm elimination, {task}{at_budget(budget)}"
        batches[f"mean, {where}"], batches[f"score, {where}"] = of_batches(own, None), of_batches(own, alone)
    print(batches, flush=True)
    if arguments == ["batches"]:
        recorded = json.loads((RESULTS / "interval_coverage.json").read_text(encoding="utf-8"))
        record("interval_coverage", recorded | {"batches": batches}, ("taciturn", "numpy", "scipy"), folder=RESULTS)
        return
    for name, (draw, tasks) in STATISTICS.items():
        results[name] = {}
        for distribution in distributions_of(name):
            shares = {runs: coverage(draw, distribution, runs, tasks) for runs in RUNS}
            results[name][distribution] = {runs: share and round(share, 4) for runs, share in shares.items()}
            print(name, distribution, results[name][distribution], flush=True)
    result = {"repeats": REPEATS, "runs": RUNS, "coverage": results, "batches": batches}
    record("interval_coverage", result, ("taciturn", "numpy", "scipy"), folder=RESULTS)
