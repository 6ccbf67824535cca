"""Estimates with their uncertainty. The estimands follow Agarwal, Schwarzer, Castro, Courville & Bellemare 2021, 'Deep
reinforcement learning at the edge of the statistical precipice' (NeurIPS 34), called R below. Their 95% percentile
bootstrap covers the mean of 3 runs only 73% of the time, so this module uses other intervals, which hold for few runs.

Scores are `[runs]`, or `[runs, tasks]` for several tasks together; run i of every task may share its seed, so runs, not
scores, are assumed independent. Intervals are individual 95% intervals, unless `at_level` says otherwise. Fewer than
`FEWEST` runs give no interval: its bounds are NaN.

Trainings may fail rarely, and ten without a failure do not rule failures out, so no interval computed from the scores
alone is valid for their mean. For trainings, use `failures`, `median` and `guarded_mean` instead.

`tools/interval_coverage.py` measures the coverage of all of them. Scores must be finite; anything else raises
ValueError.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
LEVEL = 0.95  # level of intervals, unless `at_level` says otherwise
FEWEST = 3  # least number of runs for an interval
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
    """Mean over runs and tasks. Its interval is Student's after the transformation of Hall 1992, 'On the removal of
    skewness by transformation' (J. R. Statist. Soc. B 54, pages 221 to 228), which extends further on the side of the
    longer tail."""
    rows = _checked(scores).mean(axis=1)
    value, runs = float(rows.mean()), len(rows)
    if runs < FEWEST:
        return Estimate(value, np.nan, np.nan)
    error, skew = rows.std(ddof=1) / np.sqrt(runs), _skew(rows)
    high, low = (error * _back(w, skew, runs) for w in (-_t(runs - 1), _t(runs - 1)))
    return Estimate(value, float(value - low), float(value - high))


def failures(scores: ArrayLike, worst: float, *, higher_is_better: bool = True) -> Estimate:
    """The share of runs that are worse than `worst`, with the exact interval of Clopper & Pearson 1934 (Biometrika 26,
    pages 404 to 413)."""
    x = _one_task(scores)
    return _exact_share(int(np.count_nonzero(_failed(x, worst, higher_is_better))), len(x))


def of_runs(values: ArrayLike) -> Estimate:
    """The mean over runs; for values that are each 0 or 1, with the exact interval of Clopper and Pearson, since the
    interval of `mean` may leave [0, 1]."""
    x = _one_task(values)
    ones = int(np.count_nonzero(x == 1))
    if 0 < ones < len(x) == ones + np.count_nonzero(x == 0):
        return _exact_share(ones, len(x))
    return mean(x)


def median(scores: ArrayLike) -> Estimate:
    """The median, with the exact interval of the sign test, between two order statistics. No interval below 6 runs."""
    x = np.sort(_one_task(scores))
    from scipy.special import bdtr

    # The interval between the scores of rank r + 1 from below and above misses with probability 2 P(Binomial <= r).
    outside = 2 * bdtr(np.arange(len(x) // 2), len(x), 0.5)
    rank = int(np.count_nonzero(outside <= 1 - _level.get())) - 1
    bounds = (np.nan, np.nan) if rank < 0 else (float(x[rank]), float(x[-1 - rank]))
    return Estimate(float(np.median(x)), *bounds)


def guarded_mean(scores: ArrayLike, worst: float, *, higher_is_better: bool = True) -> Estimate:
    """Mean of runs, any of which may fail: one that is worse than `worst` counts as `worst`.

    The bounds combine the interval of the share of failures (`failures`) with the interval of the mean of the other
    runs (`mean`), which allows for failures too rare to be seen. No interval if fewer than `FEWEST` runs did not fail.
    """
    x = _one_task(scores)
    bad = _failed(x, worst, higher_is_better)
    value = float(np.where(bad, worst, x).mean())
    if np.count_nonzero(~bad) < FEWEST:
        return Estimate(value, np.nan, np.nan)
    share, rest = failures(x, worst, higher_is_better=higher_is_better), mean(x[~bad])
    low, high = (rest.low, rest.high) if higher_is_better else (rest.high, rest.low)
    ends = [failed * worst + (1 - failed) * end for failed, end in ((share.high, low), (share.low, high))]
    return Estimate(value, min(ends), max(ends))


def iqm(scores: ArrayLike) -> Estimate:
    """Interquartile mean: the mean of the middle half of all runs of all tasks (R, section 4.3). Its interval is the
    interval of Tukey & McLaughlin 1963 (Sankhya A 25, pages 331 to 352) for trimmed means, from the runs' means over
    tasks after Winsorising."""
    x = _checked(scores)
    ordered, cut = np.sort(x, axis=None), x.size // 4
    remaining = ordered[cut : x.size - cut]
    rows = np.clip(x, remaining[0], remaining[-1]).mean(axis=1)
    runs, left = len(x), remaining.size / x.shape[1]
    # With one task, the remaining runs count; with many, the cuts hardly depend on any run.
    counted = runs - (runs - left) * 2 / (x.shape[1] + 1)
    if runs < FEWEST:
        return Estimate(float(remaining.mean()), np.nan, np.nan)
    spread = ((rows - rows.mean()) ** 2).sum()
    return _student(remaining.mean(), np.sqrt(spread * counted / (counted - 1)) / left, counted - 1)


def difference(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Mean of `x - y`, where run i of both had the same seed, with the interval of `mean`."""
    a, b = _pair(x, y)
    return mean(a - b)


def ratio(x: ArrayLike, y: ArrayLike) -> Estimate:
    """Ratio of means `mean(x) / mean(y)` of paired runs. As in Fieller 1954 (J. R. Statist. Soc. B 16, pages 175 to
    185), its interval holds every r for which the mean of `x - r y` might be 0, here by the interval of `mean` with one
    degree of freedom less (from four runs on), since two means are estimated; it is the whole line if the mean of `y`
    might be 0. `y` must be positive."""
    if (np.asarray(y) <= 0).any():
        raise ValueError(f"y must be positive to divide by, and its smallest value is {np.min(y)}")
    return share(x, y)


def share(x: ArrayLike, y: ArrayLike) -> Estimate:
    """As `ratio`, but single values of `y` may have any sign, for instance for the share of a gap between two
    policies."""
    a, b = (z.mean(axis=1) for z in _pair(x, y))
    value, runs = float(a.mean() / b.mean()), len(a)
    if runs < FEWEST:
        return Estimate(value, np.nan, np.nan)
    t = _t(max(runs - 2, 2))
    if abs(_studentised(b)) <= t:
        return Estimate(value, -np.inf, np.inf)
    # The moments of x - (value + d) y = rest - d y are polynomials in d.
    rest, y_away = a - value * b, b - b.mean()
    rest -= rest.mean()
    squares = [float((rest ** (2 - k) * y_away**k).sum()) for k in range(3)]
    cubes = [float((rest ** (3 - k) * y_away**k).sum()) for k in range(4)]
    y_mean, largest = float(b.mean()), float(np.abs(a).max())

    def inside(d: float) -> float:
        """Positive if the mean of x - (value + d) y might be 0, where d is the distance from the estimate."""
        spread = squares[0] - 2 * d * squares[1] + d**2 * squares[2]
        error = math.sqrt(max(spread, 0.0) / (runs - 1) / runs)
        if error <= 1e-15 * largest:
            return t if d == 0 else -math.inf
        third = cubes[0] - 3 * d * cubes[1] + 3 * d**2 * cubes[2] - d**3 * cubes[3]
        skew = third * runs / (runs - 1) / (runs - 2) / (error * math.sqrt(runs)) ** 3
        return t - abs(_there(-d * y_mean / error, skew, runs))

    return Estimate(value, *(value + _edge(inside, side, max(1.0, abs(value))) for side in (-1.0, 1.0)))


def _edge(inside: Callable[[float], float], side: float, scale: float) -> float:
    """The point where `inside` falls below 0, starting from 0 in one direction; infinite if it does not."""
    if inside(0.0) <= 0:
        return 0.0
    from scipy.optimize import brentq

    near, far = 0.0, 1e-9 * scale
    while inside(side * far) > 0:
        near, far = far, 2 * far
        if far > 1e12 * scale:
            return side * math.inf
    if math.isinf(inside(side * far)):
        return side * near
    return float(brentq(inside, side * near, side * far))


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> Estimate:
    """`P(X > Y) + P(X = Y) / 2`, averaged over tasks (R, section 4.3): the share of seeds with a better run of X than
    of Y, with Wilson's interval."""
    a, b = _pair(x, y)
    return _wilson((a > b) + 0.5 * (a == b))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Share of runs that score above each threshold, averaged over tasks (R, section 4.2), and the bounds of Wilson's
    interval at each threshold by itself: three vectors as long as `thresholds`."""
    x = _checked(scores)
    estimates = [_wilson((x > threshold).astype(float)) for threshold in np.asarray(thresholds, dtype=float)]
    value, low, high = np.array(estimates).reshape(-1, 3).T
    return value, low, high


def p_value(x: ArrayLike, y: ArrayLike) -> float:
    """The p-value of the test that the mean of `x - y` is 0, where run i of both had the same seed: the level at which
    the interval of `difference` would end at 0. NaN below `FEWEST` runs."""
    a, b = _pair(x, y)
    rows = (a - b).mean(axis=1)
    runs = len(rows)
    if runs < FEWEST:
        return np.nan
    from scipy.special import stdtr

    return float(2 * stdtr(runs - 1, -abs(_studentised(rows))))


def sign_test(x: ArrayLike, y: ArrayLike) -> float:
    """The exact two-sided p-value of the hypothesis that a run of `x` is as often above the run of `y` with the same
    seed as below it; ties do not count. It is distribution-free, and does not measure the size of the difference."""
    a, b = (_one_task(z) for z in (x, y))
    above, below = (int(np.count_nonzero(z)) for z in (a > b, a < b))
    from scipy.special import bdtr

    return float(min(1.0, 2 * bdtr(min(above, below), above + below, 0.5))) if above + below else 1.0


def share_at_power(runs: int, level: float, power: float) -> float:
    """The smallest share of better runs at which the sign test with `runs` runs rejects at `level` with probability
    `power`; infinite if it never does."""
    from scipy.optimize import brentq
    from scipy.special import bdtr, bdtrc

    # Rejected if this few are worse, or this few are better.
    few = int(np.count_nonzero(2 * bdtr(np.arange(runs + 1), runs, 0.5) <= level)) - 1
    if few < 0:
        return math.inf
    return float(brentq(lambda share: bdtrc(runs - few - 1, runs, share) - power, 0.5, 1.0))


def effect_at_power(half_width: float, runs: int, power: float) -> float:
    """The smallest difference at which an interval of this half width, for a mean of `runs` runs, excludes 0 with
    probability `power`."""
    return half_width * (1 + _quantile(np.inf, 2 * power - 1) / _quantile(runs - 1, LEVEL)) if runs > 1 else math.inf


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values: if those below 5% are rejected, the probability of any false rejection is at most 5%
    (Holm 1979, Scand. J. Statist. 6, pages 65 to 70). NaN, for a missing test, stays NaN and does not count."""
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


def _one_task(scores: ArrayLike) -> Floats:
    """Scores `[runs]`."""
    x = _checked(scores)
    if x.shape[1] > 1:
        raise ValueError(f"scores must be [runs], of one task, not of shape {x.shape}")
    return x[:, 0]


def _failed(x: Floats, worst: float, higher_is_better: bool) -> NDArray[np.bool_]:
    return np.asarray(x < worst if higher_is_better else x > worst)


def _exact_share(count: int, runs: int) -> Estimate:
    from scipy.special import betaincinv

    tail = (1 - _level.get()) / 2
    low = betaincinv(count, runs - count + 1, tail) if count else 0.0
    high = betaincinv(count + 1, runs - count, 1 - tail) if count < runs else 1.0
    return Estimate(count / runs, float(low), float(high))


def _skew(rows: Floats) -> float:
    """Sample skewness, 0 if all values are equal."""
    n, away = len(rows), rows - rows.mean()
    spread = away.std(ddof=1)
    return float((away**3).sum() * n / ((n - 1) * (n - 2)) / spread**3) if spread > 0 else 0.0


def _there(t: float, skew: float, runs: int) -> float:
    """Hall's transformation of a studentised mean: W = T + a T^2 / 3 + a^2 T^3 / 27 + a / 6, with a = skewness /
    sqrt(runs)."""
    a = skew / math.sqrt(runs)
    return float(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)


def _studentised(rows: Floats) -> float:
    """The mean divided by its standard error, transformed; infinite if the error is 0 and the mean is not."""
    error = rows.std(ddof=1) / np.sqrt(len(rows))
    if error <= 1e-15 * np.abs(rows).max():
        return 0.0 if abs(rows.mean()) <= error else float(np.sign(rows.mean()) * np.inf)
    return _there(rows.mean() / error, _skew(rows), len(rows))


def _back(w: float, skew: float, runs: int) -> float:
    """The inverse of `_there`: T = 3 / a ((1 + a (W - a / 6))^(1/3) - 1)."""
    a = skew / np.sqrt(runs)
    return float(3 / a * (np.cbrt(1 + a * (w - a / 6)) - 1)) if abs(a) > 1e-6 else w


def _pair(x: ArrayLike, y: ArrayLike) -> tuple[Floats, Floats]:
    a, b = _checked(x), _checked(y)
    if a.shape != b.shape:
        raise ValueError(f"x and y must be paired, run by run, not of shapes {a.shape} and {b.shape}")
    return a, b


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
    """The effective number of independent tasks among a run's tasks: between 1, if they are all alike, and their
    number.

    `one` is the variance of the estimate with one task, `found` the variance between runs, which is inflated for few
    runs (Korn & Graubard 1998, Survey Methodology 24, pages 193 to 201).
    """
    if found == 0:
        return tasks if one > 0 else 1
    return float(np.clip(one / found * (_t(np.inf) / _t(runs - 1)) ** 2, 1, tasks))
