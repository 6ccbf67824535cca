"""Estimates with their uncertainty, after Agarwal, Schwarzer, Castro, Courville & Bellemare 2021, 'Deep reinforcement
learning at the edge of the statistical precipice' (NeurIPS 34), called R below.

Scores are `[runs]`, or `[runs, tasks]` where several tasks are judged together. Intervals are 95% percentile bootstrap intervals
(Efron & Tibshirani 1993, section 13.3), seeded, and stratified by task: each task resamples its own runs (R, section 4.1). One run
per task gives no interval: its bounds are NaN. Scores must be finite: anything else is refused with a ValueError.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import trim_mean

Floats = NDArray[np.float64]
RESAMPLES = 4000
LEVEL = 0.95  # of all intervals


class Estimate(NamedTuple):
    """A value and the bounds of its confidence interval."""

    value: float
    low: float
    high: float


def mean(scores: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Mean over runs and tasks."""
    x = _checked(scores)
    return _interval(x.mean(), _resample(x, resamples, seed).mean(axis=(1, 2)), len(x))


def iqm(scores: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Interquartile mean: the mean of the middle half of all runs of all tasks (R, section 4.3)."""
    x = _checked(scores)
    draws = trim_mean(_resample(x, resamples, seed).reshape(resamples, -1), 0.25, axis=1)
    return _interval(trim_mean(x, 0.25, axis=None), draws, len(x))


def difference(x: ArrayLike, y: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Mean of `x - y`, where run i of both had the same seed: pairs are resampled together."""
    a, b = _pair(x, y)
    return mean(a - b, resamples=resamples, seed=seed)


def ratio(x: ArrayLike, y: ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Ratio of means `mean(x) / mean(y)` of paired runs: pairs are resampled together. `y` must be positive."""
    a, b = _pair(x, y)
    if (b <= 0).any():
        raise ValueError(f"y must be positive to divide by, and its smallest value is {b.min()}")
    numerator, denominator = (_resample(z, resamples, seed).mean(axis=(1, 2)) for z in (a, b))
    return _interval(a.mean() / b.mean(), numerator / denominator, len(a))


def probability_of_improvement(
    x: ArrayLike, y: ArrayLike, *, paired: bool = False, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """`P(X > Y) + P(X = Y) / 2`, averaged over tasks: the probability that a run of X beats a run of Y (R, section 4.3).

    Paired: the share of seeds on which X beats Y; unpaired: the share of all pairs of runs (Mann-Whitney statistic).
    """
    if paired:
        return mean(_wins(*_pair(x, y)), resamples=resamples, seed=seed)
    a, b = _checked(x), _checked(y)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"x and y must have the same number of tasks, not {a.shape[1]} and {b.shape[1]}")
    rng = np.random.default_rng(seed)
    value, draws = 0.0, np.zeros(resamples)
    for task in range(a.shape[1]):
        wins = _wins(a[:, None, task], b[None, :, task])
        value += wins.mean()
        times_a, times_b = (rng.multinomial(n, np.full(n, 1 / n), size=resamples) for n in wins.shape)
        draws += np.einsum("ri,ij,rj->r", times_a, wins, times_b, optimize=True) / wins.size
    return _interval(value / a.shape[1], draws / a.shape[1], min(len(a), len(b)))


def performance_profile(
    scores: ArrayLike, thresholds: ArrayLike, *, resamples: int = RESAMPLES // 4, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Share of runs that score above each threshold, averaged over tasks (R, section 4.2), and the
    pointwise bounds of its interval: three vectors as long as `thresholds`."""
    x = _checked(scores)
    draws = _resample(x, resamples, seed)
    estimates = [
        _interval((x > t).mean(), (draws > t).mean(axis=(1, 2)), len(x)) for t in np.asarray(thresholds, dtype=float)
    ]
    value, low, high = np.array(estimates).reshape(-1, 3).T
    return value, low, high


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


def _resample(x: Floats, resamples: int, seed: int) -> Floats:
    """Bootstrap samples `[resamples, runs, tasks]`, runs drawn with replacement within each task.

    The same seed and shape draw the same runs, which keeps pairs together.
    """
    indices = np.random.default_rng(seed).integers(len(x), size=(resamples, *x.shape))
    return x[indices, np.arange(x.shape[1])]


def _interval(value: float, draws: ArrayLike, runs: int) -> Estimate:
    if runs < 2:
        return Estimate(float(value), np.nan, np.nan)
    low, high = np.quantile(np.asarray(draws), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))
