"""Estimates and intervals: right on known laws, and clear about what they refuse."""

import math

import numpy as np
import pytest
from scipy import stats

from taciturn.bench import statistics
from taciturn.bench.statistics import Estimate


def test_intervals_of_three_runs_cover_the_truth_as_often_as_they_say() -> None:
    """2,000 samples of 3 normals: Student's interval covers their mean exactly 95% of the time, the paired difference
    likewise, Fieller's the ratio; 2 points are four standard errors: false alarm below 1e-4. A
    percentile bootstrap covers 73%."""
    rng = np.random.default_rng(1)
    covered = np.zeros(3)
    for x, luck in zip(rng.normal(3.0, 2.0, (2000, 3)), rng.normal(50.0, 5.0, (2000, 3)), strict=True):
        estimates = statistics.mean(x), statistics.difference(luck + x, luck), statistics.ratio(luck + x - 3, luck)
        covered += [low <= truth <= high for truth, (_, low, high) in zip((3, 3, 1), estimates, strict=True)]
    assert (abs(covered / 2000 - 0.95) < 0.02).all(), covered


@pytest.mark.parametrize("tasks", [1, 4])
def test_the_interval_of_the_interquartile_mean_covers_it(tasks: int) -> None:
    """2,000 samples of 4 runs whose tasks share luck. Between 92% and 97% where 93% to 95.5% are measured with many
    more: over three and a half standard errors (0.55 points at most; the seed is fixed), false alarm below 3e-4 before
    the seed was chosen."""
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(2000, 4, 1)) * (tasks > 1) + rng.normal(size=(2000, 4, tasks))
    covered = [low <= 0 <= high for _, low, high in map(statistics.iqm, scores)]
    assert 0.915 < np.mean(covered) < 0.975


def test_the_mean_is_students() -> None:
    x = np.random.default_rng(2).exponential(size=7)
    theirs = stats.ttest_1samp(x, 0).confidence_interval(0.95)
    assert statistics.mean(x)[1:] == pytest.approx((theirs.low, theirs.high))
    assert statistics.p_value(x, 0 * x) == pytest.approx(stats.ttest_1samp(x, 0).pvalue)
    assert statistics.p_value(x, x + 1) < 1e-9
    assert statistics.p_value(x, x) == 1
    assert math.isnan(statistics.p_value([1, 2], [2, 1]))


def test_the_interquartile_mean_is_tukey_and_mclaughlins() -> None:
    """By hand: of 1, 2, 4, 8, 16, 99 the middle four are left, and 2, 2, 4, 8, 16, 16 after Winsorising, whose squares
    about their mean 8 add up to 216: the error is sqrt(216 / (4 * 3)), and t has 3 degrees of freedom."""
    half = stats.t.ppf(0.975, 3) * math.sqrt(216 / 12)
    assert statistics.iqm([4, 1, 99, 2, 16, 8]) == pytest.approx((7.5, 7.5 - half, 7.5 + half))


def test_the_interquartile_mean_is_of_all_runs_of_all_tasks() -> None:
    """Pooled, the tasks 0 and 100 fall away; the mean of each task's own middle half would be 150 / 4."""
    scores = np.array([[0.0, 20.0, 30.0, 100.0]] * 8)
    assert statistics.iqm(scores).value == 25.0


def test_fieller_by_hand() -> None:
    """The bounds are where Student's test of `x - bound y` is at 5%; a mean of `y` that might be 0 gives the whole
    line."""
    x, y = np.array([2.0, 3.0, 4.0, 4.5]), np.array([1.0, 2.0, 2.5, 2.2])
    _, low, high = statistics.ratio(x, y)
    for bound in (low, high):
        assert stats.ttest_1samp(x - bound * y, 0).pvalue == pytest.approx(0.05)
    assert statistics.ratio([1, 2, 3], [0.1, 0.1, 30])[1:] == (-math.inf, math.inf)


def test_wilson_and_newcombe_by_hand() -> None:
    """Wilson: statsmodels 0.14 gives [0, 0.5615] and [0.2077, 0.9385] for 0 and 2 of 3. Newcombe's method 5 does not
    collapse either when all runs win: its lower bound p has `(1 - p)^2 = z^2 V(p)`."""
    assert statistics.probability_of_improvement([0, 0, 0], [1, 1, 1], paired=True) == pytest.approx(
        (0, 0, 0.5615), abs=1e-4
    )
    two = statistics.probability_of_improvement([2, 2, 0], [1, 1, 1], paired=True)
    assert two == pytest.approx((2 / 3, 0.2077, 0.9385), abs=1e-4)
    value, low, high = statistics.probability_of_improvement([4, 5, 6, 7], [1, 2, 3])
    assert (value, high) == (1, 1)
    variance = low * (1 - low) / 12 * (1 + 2.5 * (1 - low) / (2 - low) + 2.5 * low / (1 + low))
    assert 0.4 < low < 0.7
    assert (1 - low) ** 2 == pytest.approx(1.959964**2 * variance, rel=1e-4)
    mirrored = statistics.probability_of_improvement([1, 2, 3], [4, 5, 6, 7])
    assert mirrored == pytest.approx((0, 0, 1 - low), abs=1e-6)


def test_tasks_that_agree_tell_no_more_than_one_and_others_up_to_their_number() -> None:
    rng = np.random.default_rng(8)
    one = (rng.random((30, 1)) < 0.6).astype(float)
    alike, apart = np.repeat(one, 4, axis=1), (rng.random((30, 4)) < 0.6).astype(float)
    widths = [
        high - low
        for _, low, high in (
            statistics.probability_of_improvement(x, np.full_like(x, 0.5), paired=True) for x in (one, alike, apart)
        )
    ]
    assert widths[0] == pytest.approx(widths[1])
    assert 0.45 < widths[2] / widths[0] < 0.75
    runs = [statistics.probability_of_improvement(x, rng.random(x.shape)) for x in (one, alike, apart)]
    assert all(0 <= low < value < high <= 1 for value, low, high in runs)


def test_holm_by_hand() -> None:
    """Three times the smallest, twice the next but not less than the former; one that was not tested does not count."""
    np.testing.assert_allclose(statistics.holm([0.04, math.nan, 0.01, 0.018]), [0.04, math.nan, 0.03, 0.036])
    np.testing.assert_allclose(statistics.holm([0.5, 0.4]), [0.8, 0.8])
    assert statistics.holm([]).size == 0


def test_tasks_that_differ_add_nothing_to_the_interval() -> None:
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
    assert statistics.probability_of_improvement(x, y, paired=True) == pytest.approx((1.0, 0.8389, 1.0), abs=1e-4)
    assert statistics.probability_of_improvement(x, y).value < 0.7


def test_probability_of_improvement_is_the_mann_whitney_statistic() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 6, size=(25, 3)), rng.integers(0, 5, size=(30, 3))
    ours = statistics.probability_of_improvement(x, y)
    u = [stats.mannwhitneyu(x[:, task], y[:, task]).statistic / (25 * 30) for task in range(3)]
    assert ours.value == pytest.approx(np.mean(u))
    assert ours.low < ours.value < ours.high
    assert statistics.probability_of_improvement(x, x).value == pytest.approx(0.5)
    assert statistics.probability_of_improvement([1, 2, 3, 4], [1, 1, 4, 4], paired=True).value == 0.5


def test_probability_of_improvement_covers_the_truth() -> None:
    """`P(X > Y) = Phi(1 / sqrt 2)` for unit normals one apart, 5 runs of one and 7 of the other (counts that differ,
    and few). 1,500 repeats at 95% to 96%: outside 92.5% to 98.5% is over four standard errors (0.56 points): false
    alarm below 1e-4."""
    rng, truth, covered = np.random.default_rng(6), stats.norm.cdf(1 / math.sqrt(2)), 0
    for _ in range(1500):
        _, low, high = statistics.probability_of_improvement(rng.normal(1, 1, 5), rng.normal(0, 1, 7))
        covered += low <= truth <= high
    assert 0.925 < covered / 1500 < 0.985


def test_performance_profile_is_the_share_above() -> None:
    value, low, high = statistics.performance_profile([[1, 2], [3, 4], [1, 4]], [0, 1, 2.5, 4])
    np.testing.assert_allclose(value, [1, 4 / 6, 0.5, 0])
    assert (low <= value).all()
    assert (value <= high).all()


def test_fewer_than_three_runs_have_no_interval_and_equal_ones_a_point() -> None:
    for few in ([2.0], [2.0, 3.0]):
        estimates = [
            statistics.mean(few),
            statistics.iqm(few),
            statistics.difference(few, few),
            statistics.ratio(few, few),
        ]
        estimates += [statistics.probability_of_improvement(few, few, paired=paired) for paired in (True, False)]
        estimates += [statistics.probability_of_improvement(few, [1.0, 2.0, 3.0])]
        estimates += [Estimate(*(float(part[0]) for part in statistics.performance_profile(few, [0.0])))]
        for estimate in estimates:
            assert [math.isnan(part) for part in estimate] == [False, True, True]
    for statistic in (statistics.mean, statistics.iqm):
        assert statistic([2.0, 3.0]).value == 2.5
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
