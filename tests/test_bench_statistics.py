"""Estimates and intervals: right on known laws, and clear about what they refuse."""

import math

import numpy as np
import pytest
from scipy import stats

from taciturn.bench import statistics
from taciturn.bench.statistics import Estimate


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """2,000 samples of 40 normals. The percentile interval covers the mean with `P(|t_39| < 1.960 sqrt(39/40))` = 94.0%, a
    little less with 400 resamples; five standard errors (2.7 points) are allowed: false alarm below 1e-5. A 90% interval
    (88.8%) falls outside."""
    rng = np.random.default_rng(1)
    covered = 0
    for repeat in range(2000):
        _, low, high = statistics.mean(rng.normal(3.0, 2.0, size=40), resamples=400, seed=repeat)
        covered += low <= 3.0 <= high
    assert abs(covered / 2000 - 0.937) < 0.027


def test_interval_agrees_with_scipy() -> None:
    x = np.random.default_rng(2).exponential(size=30)
    ours = statistics.mean(x, resamples=20_000)
    theirs = stats.bootstrap((x,), np.mean, method="percentile", n_resamples=20_000, rng=0).confidence_interval
    assert ours[1:] == pytest.approx((theirs.low, theirs.high), abs=0.02)


def test_strata_are_resampled_by_task() -> None:
    """Tasks that differ by 100 add nothing to the interval, runs do."""
    scores = np.random.default_rng(3).normal(size=(20, 5))
    near, far = statistics.mean(scores), statistics.mean(scores + 100 * np.arange(5))
    assert far.high - far.low == pytest.approx(near.high - near.low)


def test_interquartile_mean_ignores_the_tails() -> None:
    scores = np.arange(16.0).reshape(8, 2)
    assert statistics.iqm(scores).value == pytest.approx(7.5)
    scores[0, 0], scores[-1, -1] = -1e6, 1e9
    assert statistics.iqm(scores).value == pytest.approx(7.5)


def test_paired_seeds_share_their_luck() -> None:
    rng = np.random.default_rng(4)
    luck = rng.normal(scale=10, size=20)
    x, y = 101 + luck + rng.normal(scale=0.1, size=20), 100 + luck
    difference = statistics.difference(x, y)
    assert 0.9 < difference.low < 1.0 < difference.high < 1.1
    ratio = statistics.ratio(x, y)
    assert 1.0 < ratio.low < ratio.value < ratio.high < 1.02
    assert statistics.probability_of_improvement(x, y, paired=True) == Estimate(1.0, 1.0, 1.0)
    assert statistics.probability_of_improvement(x, y).value < 0.7


def test_probability_of_improvement_is_the_mann_whitney_statistic() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 6, size=(25, 3)), rng.integers(0, 5, size=(30, 3))
    ours = statistics.probability_of_improvement(x, y)
    u = [stats.mannwhitneyu(x[:, task], y[:, task]).statistic / (25 * 30) for task in range(3)]
    assert ours.value == pytest.approx(np.mean(u))
    assert ours.low < ours.value < ours.high
    assert statistics.probability_of_improvement(x, x).value == 0.5
    assert statistics.probability_of_improvement([1, 2, 3, 4], [1, 1, 4, 4], paired=True).value == 0.5


def test_probability_of_improvement_covers_the_truth() -> None:
    """`P(X > Y) = Phi(1 / sqrt 2)` for unit normals one apart. 1,000 repeats at 95%: outside 91% to 98% is over four
    standard errors (0.7 points) from the 94% to 95% that the bootstrap reaches at 40 runs: false alarm below 1e-4."""
    rng, truth, covered = np.random.default_rng(6), stats.norm.cdf(1 / math.sqrt(2)), 0
    for repeat in range(1000):
        x, y = rng.normal(1, 1, 40), rng.normal(0, 1, 40)
        _, low, high = statistics.probability_of_improvement(x, y, resamples=300, seed=repeat)
        covered += low <= truth <= high
    assert 0.91 < covered / 1000 < 0.98


def test_performance_profile_is_the_share_above() -> None:
    value, low, high = statistics.performance_profile([[1, 2], [3, 4]], [0, 1, 2.5, 4])
    np.testing.assert_allclose(value, [1, 0.75, 0.5, 0])
    assert (low <= value).all()
    assert (value <= high).all()


def test_one_seed_has_no_interval_and_equal_seeds_a_point() -> None:
    for statistic in (statistics.mean, statistics.iqm):
        one = statistic([2.0])
        assert one.value == 2.0
        assert math.isnan(one.low)
        assert math.isnan(one.high)
        assert statistic([2.0] * 20) == Estimate(2.0, 2.0, 2.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_must_be_finite(bad: float) -> None:
    for statistic in (statistics.mean, statistics.iqm):
        with pytest.raises(ValueError, match="scores must be finite, and 1 of 2 are not"):
            statistic([1.0, bad])
    for pair in (statistics.difference, statistics.ratio, statistics.probability_of_improvement):
        with pytest.raises(ValueError, match="finite"):
            pair([1.0, bad], [1.0, 1.0])
    with pytest.raises(ValueError, match="finite"):
        statistics.performance_profile([bad], [0.0])


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="not empty"):
        statistics.mean([])
    with pytest.raises(ValueError, match="paired, run by run"):
        statistics.difference([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="same number of tasks"):
        statistics.probability_of_improvement(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="y must be positive"):
        statistics.ratio([1.0], [0.0])


def test_intervals_are_seeded() -> None:
    x = np.random.default_rng(7).normal(size=10)
    assert statistics.mean(x, seed=1) == statistics.mean(x, seed=1)
    assert statistics.mean(x, seed=1) != statistics.mean(x, seed=2)
