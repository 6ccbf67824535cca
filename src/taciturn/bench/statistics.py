"""Estimates with their uncertainty. The estimands follow Agarwal, Schwarzer, Castro, Courville & Bellemare 2021, 'Deep
reinforcement learning at the edge of the statistical precipice' (NeurIPS 34), called R below. Their 95% percentile
bootstrap covers the mean of 3 runs only 73% of the time, so the intervals here are others, which hold for few runs.

Scores are `[runs]`, or `[runs, tasks]` where several tasks are judged together; run i of every task may share its seed,
so runs, not scores, are assumed independent. Intervals are at 95%, each by itself, unless `at_level` says
otherwise. Fewer than `FEWEST` runs give none: its bounds are NaN.
`benchmarks/interval_coverage.py` measures how often they hold: as stated for normal scores and for scores of skewness
1; less often for the mean of exponential scores, and of scores with a rare second mode, which few runs do not show.
Scores must be finite: anything else is refused with a ValueError.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95  # of intervals, unless `at_level` says otherwise
FEWEST = 3  # runs that give an interval
_level = ContextVar("level", default=LEVEL)


class Estimate(NamedTuple):
    """A value and the bounds of its confidence interval."""

    value: float
    low: float
    high: float


@contextmanager
def at_level(level: float) -> Iterator[None]:
    """Make intervals at this level."""
    before = _level.set(level)
    try:
        yield
    finally:
        _level.reset(before)


def mean(scores: ArrayLike) -> Estimate:
    """Mean over runs and tasks; Student's interval."""
    rows = _checked(scores).mean(axis=1)
    if len(rows) < FEWEST:
        return Estimate(float(rows.mean()), np.nan, np.nan)
    return _student(rows.mean(), rows.std(ddof=1) / np.sqrt(len(rows)), len(rows) - 1)


def iqm(scores: ArrayLike) -> Estimate:
    """Interquartile mean: the mean of the middle half of all runs of all tasks (R, section 4.3); its interval is that
    of the trimmed mean by Tukey & McLaughlin 1963 (Sankhya A 25, pages 331 to 352), from the runs' means over tasks
    after Winsorising."""
    x = _checked(scores)
    ordered, cut = np.sort(x, axis=None), x.size // 4
    kept = ordered[cut : x.size - cut]
    rows = np.clip(x, kept[0], kept[-1]).mean(axis=1)
    runs, left = len(x), kept.size / x.shape[1]
    # With one task, the remaining runs count; with many, the cuts hardly depend on any run.
    counted = runs - (runs - left) * 2 / (x.shape[1] + 1)
    if runs < FEWEST:
        return Estimate(float(kept.mean()), np.nan, np.nan)
    spread = ((rows - rows.mean()) ** 2).sum()
    return _student(kept.mean(), np.sqrt(spread * counted / (counted - 1)) / left, counted - 1)


def difference(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Mean of `x - y`, where run i of both had the same seed; Student's interval."""
    a, b = _pair(x, y)
    return mean(a - b)


def ratio(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Ratio of means `mean(x) / mean(y)` of paired runs, with the interval of Fieller 1954 (J. R. Statist. Soc. B 16,
    pages 175 to 185), which is the whole line if the mean of `y` might be 0. `y` must be positive."""
    if (np.asarray(y) <= 0).any():
        raise ValueError(f"y must be positive to divide by, and its smallest value is {np.min(y)}")
    return share(x, y)


def share(x: ArrayLike, y: ArrayLike) -> Estimate:
    """The same where single values of `y` may have any sign, such as the share of a gap between two policies."""
    a, b = (z.mean(axis=1) for z in _pair(x, y))
    value, runs = float(a.mean() / b.mean()), len(a)
    if runs < FEWEST:
        return Estimate(value, np.nan, np.nan)
    # The bounds are the roots of (mean(a) - ratio mean(b))^2 = t^2 var(a - ratio b) / runs.
    (aa, ab), (_, bb) = np.outer(means := (a.mean(), b.mean()), means) - _t(runs - 1) ** 2 * np.cov(a, b) / runs
    if bb <= 0:
        return Estimate(value, -np.inf, np.inf)
    half = np.sqrt(max(ab**2 - aa * bb, 0.0))
    return Estimate(value, float((ab - half) / bb), float((ab + half) / bb))


def probability_of_improvement(x: ArrayLike, y: ArrayLike, *, paired: bool = False) -> Estimate:
    """`P(X > Y) + P(X = Y) / 2`, averaged over tasks: the probability that a run of X beats a run of Y (R, section
    4.3).

    Paired: the share of seeds on which X beats Y, with Wilson's interval. Unpaired: the share of all pairs of runs
    (Mann-Whitney statistic), with the interval of method 5 of Newcombe 2006 (Statistics in Medicine 25, pages 559 to
    573).
    """
    if paired:
        a, b = _pair(x, y)
        return _wilson(_wins(a, b))
    a, b = _checked(x), _checked(y)
    tasks = a.shape[1]
    if tasks != b.shape[1]:
        raise ValueError(f"x and y must have the same number of tasks, not {tasks} and {b.shape[1]}")
    wins = _wins(a[:, None], b[None, :]).mean(axis=2)
    value, runs = float(wins.mean()), min(wins.shape)
    if runs < FEWEST:
        return Estimate(value, np.nan, np.nan)
    n = sum(wins.shape) / 2 - 1

    def variance(p: float) -> float:
        return p * (1 - p) * (1 + n * (1 - p) / (2 - p) + n * p / (1 + p)) / wins.size

    ours = sum(wins.mean(axis=1 - axis).var(ddof=1) / wins.shape[axis] for axis in (0, 1))  # DeLong et al. 1988
    alike, z = _gain(variance(value), ours, runs, tasks), _t(np.inf)

    from scipy.optimize import brentq

    def beyond(p: float) -> float:
        return (value - p) ** 2 - z**2 * variance(p) / alike

    low = brentq(beyond, 0, min(value, 1 - 1e-9)) if value > 0 else 0.0
    return Estimate(value, low, brentq(beyond, max(value, 1e-9), 1) if value < 1 else 1.0)


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Share of runs that score above each threshold, averaged over tasks (R, section 4.2), and the bounds of Wilson's
    interval at each threshold by itself: three vectors as long as `thresholds`."""
    x = _checked(scores)
    estimates = [_wilson((x > threshold).astype(float)) for threshold in np.asarray(thresholds, dtype=float)]
    value, low, high = np.array(estimates).reshape(-1, 3).T
    return value, low, high


def p_value(x: ArrayLike, y: ArrayLike) -> float:
    """The p-value of Student's test that the mean of `x - y` is 0, where run i of both had the same seed; NaN below
    `FEWEST` runs."""
    a, b = _pair(x, y)
    rows = (a - b).mean(axis=1)
    if len(rows) < FEWEST:
        return np.nan
    error = rows.std(ddof=1) / np.sqrt(len(rows))
    if error == 0:
        return float(rows.mean() == 0)
    from scipy.special import stdtr

    return float(2 * stdtr(len(rows) - 1, -abs(rows.mean()) / error))


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values: whoever calls those below 5% different makes any mistake at most 5% of the time (Holm
    1979, Scand. J. Statist. 6, pages 65 to 70). NaN, where there was no test, stays NaN and
    does not count."""
    p = np.asarray(p_values, dtype=float)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested])]
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted


def _checked(scores: ArrayLike) -> Floats:
    """Scores as `[runs, tasks]`."""
    x = np.asarray(scores, dtype=float)
    if x.ndim not in (1, 2) or x.size == 0:
        raise ValueError(f"scores must be [runs] or [runs, tasks] and not empty, not of shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"scores must be finite, and {np.count_nonzero(~np.isfinite(x))} of {x.size} are not")
    return x.reshape(len(x), -1)


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    a, b = _checked(x), _checked(y)
    if a.shape != b.shape:
        raise ValueError(f"x and y must be paired, run by run, not of shapes {a.shape} and {b.shape}")
    return a, b


def _wins(a: Floats, b: Floats) -> Floats:
    return np.asarray((a > b) + 0.5 * (a == b))


def _t(freedom: float) -> float:
    """Student's quantile; the normal one if `freedom` is infinite."""
    return _quantile(freedom, _level.get())


@cache
def _quantile(freedom: float, level: float) -> float:
    from scipy.special import stdtrit  # scipy.stats takes longer to import than a small run takes

    return float(stdtrit(freedom, (1 + level) / 2))


def _student(value: float, error: float, freedom: float) -> Estimate:
    half = _t(freedom) * error
    return Estimate(float(value), float(value - half), float(value + half))


def _wilson(shares: Floats) -> Estimate:
    """The mean of shares `[runs, tasks]` in [0, 1], with the interval of Wilson 1927 (J. Am. Statist. Assoc. 22, pages
    209 to 212)."""
    rows = shares.mean(axis=1)
    p, runs = float(rows.mean()), len(rows)
    if runs < FEWEST:
        return Estimate(p, np.nan, np.nan)
    n, z = runs * _gain(p * (1 - p) / runs, rows.var(ddof=1) / runs, runs, shares.shape[1]), _t(np.inf)
    middle, half = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    low, high = (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)
    return Estimate(p, float(low) if p > 0 else 0.0, float(high) if p < 1 else 1.0)


def _gain(one: float, found: float, runs: int, tasks: int) -> float:
    """How many independent tasks the tasks of a run are worth: between 1, if they are all alike, and their number.

    `one` is the variance of the estimate with one task, `found` the variance between runs, which is inflated for few
    runs (Korn & Graubard 1998, Survey Methodology 24, pages 193 to 201).
    """
    if found == 0:
        return tasks if one > 0 else 1
    return float(np.clip(one / found * (_t(np.inf) / _t(runs - 1)) ** 2, 1, tasks))
