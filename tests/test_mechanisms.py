"""The privacy mechanisms, against laws written here by hand.

Statistical checks are seeded. Fewer than 100 p-values are held against `ALPHA`, some 300 standard scores against 5.5 or
more (4e-8 each): a false alarm in the whole file has probability below 1e-4. Where it says "power", a typical mistake
is put in and must be caught.
"""

import math
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import count, pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from distributions import fits, same_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr

from taciturn.privacy import losses, samplers
from taciturn.privacy.losses import LaplaceLoss
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Blocks,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Mechanism,
    Memoized,
    NoPrivacy,
    Scheduled,
    Shuffled,
    TreeAggregation,
    UnaryEncoding,
    discrete_gaussian,
    discrete_laplace,
    exact_bernoulli,
    exact_bernoulli_exp,
    gaussian_delta,
    k_ary_response,
)
from taciturn.testing import check_mechanism

Array = npt.NDArray[Any]
ALPHA = 5e-7
EPSILONS = (0.1, 1.0, 3.0)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def one_hot(values: Array | int, options: int) -> Array:
    return (np.asarray(values)[..., None] == np.arange(options)).astype(np.int64)


def z(samples: Array, mean: Array | float) -> Array:
    """Standard score of the sample mean, over axis 0."""
    return np.abs(samples.mean(0) - mean) / (samples.std(0) / math.sqrt(len(samples)))


def z_variance(samples: Array, variance: Array | float) -> Array:
    """Standard score of the sample variance."""
    return z((samples - samples.mean(0)) ** 2, variance)


def bits_distribution(p: float, q: float, x: Array) -> dict[tuple[int, ...], float]:
    """The law of the answer to one vector of bits."""
    return {
        y: math.prod((p if one else q) if bit else (1 - p if one else 1 - q) for bit, one in zip(y, x, strict=True))
        for y in product((0, 1), repeat=len(x))
    }


def bit_mechanisms(epsilon: float, sampler: str = "fast") -> list[tuple[Any, float, float]]:
    """Mechanisms with the p and q of their papers."""
    half, whole = math.exp(epsilon / 2), math.exp(epsilon)
    return [
        (BitwiseRandomizedResponse(epsilon, sampler), half / (half + 1), 1 / (half + 1)),
        (UnaryEncoding(epsilon, "symmetric", sampler), half / (half + 1), 1 / (half + 1)),
        (UnaryEncoding(epsilon, "optimised", sampler), 0.5, 1 / (whole + 1)),
    ]


FINITE: list[Mechanism] = [
    *(mechanism for epsilon in EPSILONS for mechanism, _, _ in bit_mechanisms(epsilon)),
    *(KaryRandomizedResponse(e, 4) for e in (0.1, 2.0, 20.0)),
    *(Exponential(e, 1.0) for e in EPSILONS),
]
REAL: list[Any] = [
    *(Laplace(2.0, 0.5, sampler) for sampler in ("fast", "exact")),
    *(Gaussian(1.0, 1e-5, 0.5, sampler) for sampler in ("fast", "exact")),
]
REPEATED = [Memoized(BitwiseRandomizedResponse(1.0)), Scheduled(BitwiseRandomizedResponse(1.0), at=2)]
SHUFFLED = [Shuffled(BitwiseRandomizedResponse(1.0)), Shuffled(KaryRandomizedResponse(2.0, 4))]
OTHERS = [NoPrivacy(), TreeAggregation(1.0, 100, 1.0), Blocks(1.0, 1.0), *REPEATED, *SHUFFLED]
ALL: list[Any] = [*FINITE, *REAL, *OTHERS]


def name(mechanism: Mechanism) -> str:
    return f"{type(mechanism).__name__}-{mechanism.epsilon:.2g}-{getattr(mechanism, 'sampler', '')}"


# The law of each mechanism.


@pytest.mark.parametrize("sampler", ["fast", "exact"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bits_follow_their_law(epsilon: float, sampler: str) -> None:
    x = np.array([0, 1, 0])
    for mechanism, p, q in bit_mechanisms(epsilon, sampler):
        assert (mechanism.p, mechanism.q) == (pytest.approx(p), pytest.approx(q))
        assert mechanism.gap == pytest.approx(p - q)
        y = mechanism.perturb(np.tile(x, (40_000, 1)), generator())
        counts = np.bincount(y @ [4, 2, 1], minlength=8)
        assert fits(counts, np.array(list(bits_distribution(p, q, x).values()))) > ALPHA


@pytest.mark.parametrize("sampler", ["fast", "exact"])
@pytest.mark.parametrize("e", [0.1, 2.0, 20.0])
def test_k_ary_follows_the_papers_law(e: float, sampler: str) -> None:
    mechanism = KaryRandomizedResponse(e, 5, sampler)
    y = mechanism.perturb(np.full(50_000, 3), generator())
    distribution = np.full(5, 1 / (e + 5))
    distribution[3] = (e + 1) / (e + 5)
    assert fits(np.bincount(y, minlength=5), distribution) > ALPHA
    assert mechanism.epsilon == pytest.approx(math.log(distribution[3] / distribution[0]))
    assert KaryRandomizedResponse(epsilon=mechanism.epsilon, num_values=5).budget == pytest.approx(e)
    assert KaryRandomizedResponse(e, 5, epsilon=mechanism.epsilon) == KaryRandomizedResponse(e, num_values=5)


def test_k_ary_with_a_budget_each() -> None:
    budget = np.tile([0.0, 1.0, 8.0], (60_000, 1))
    y = k_ary_response(np.ones_like(budget, dtype=int), budget, 3, generator())
    for column, e in enumerate((0.0, 1.0, 8.0)):
        assert fits(np.bincount(y[:, column], minlength=3), np.array([1, e + 1, 1]) / (e + 3)) > ALPHA


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_laplace_and_gaussian_follow_their_law(sampler: str) -> None:
    x = np.full(50_000, 3.0)
    noise = Laplace(0.5, 2.0, sampler).perturb(x, generator()) - x
    assert stats.kstest(noise, stats.laplace(scale=4.0).cdf).pvalue > ALPHA
    gaussian = Gaussian(sensitivity=1.0, sampler=sampler, noise_multiplier=3.0)
    assert stats.kstest(gaussian.perturb(x, generator()) - x, stats.norm(scale=3.0).cdf).pvalue > ALPHA


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_exponential_follows_its_law(sampler: str) -> None:
    scores = np.array([0.3, 1.0, -0.5, 0.9])
    mechanism = Exponential(3.0, 0.5, sampler)
    distribution = np.exp(3.0 * scores / (2 * 0.5))
    distribution /= distribution.sum()
    assert mechanism.probabilities(scores) == pytest.approx(distribution, rel=1e-6)
    y = mechanism.perturb(np.tile(scores, (40_000, 1)), generator())
    assert fits(np.bincount(y, minlength=4), distribution) > ALPHA
    assert (
        fits(np.bincount(y, minlength=4), distribution**2 / (distribution**2).sum()) < ALPHA
    )  # power: the factor 2 forgotten


def test_sensitivity_of_the_message_or_the_mechanisms_own() -> None:
    x, each = np.zeros((20_000, 3, 2)), np.array([0.1, 1.0, 10.0])
    for sampler in ("fast", "exact"):
        told = np.broadcast_to(each, (20_000, 3))
        y = Laplace(2.0, sampler=sampler).perturb(x, generator(), told)
        for agent, sensitivity in enumerate(each):
            assert stats.kstest(y[:, agent].ravel(), stats.laplace(scale=sensitivity / 2).cdf).pvalue > ALPHA
        assert Laplace(2.0, sampler=sampler).variance(x, told)[0, :, 0] == pytest.approx(2 * (each / 2) ** 2, rel=1e-6)
        own = Laplace(2.0, 10.0, sampler)
        assert (own.perturb(x, generator(), told) == own.perturb(x, generator())).all()
    with pytest.raises(ValueError, match=r"sensitivity must be given with the message or as Laplace"):
        Laplace(1.0).perturb(x, generator())


# Exact samplers.


class Scripted:
    """Stands in for a Generator, and hands out what it was told."""

    def __init__(self, *draws: Any) -> None:
        self.draws = list(draws)

    def integers(self, *_: Any, **__: Any) -> Any:
        return self.draws.pop(0)


@pytest.mark.parametrize("scale", [1, 2, 7, 60])
def test_discrete_laplace_follows_its_pmf(scale: int) -> None:
    y = discrete_laplace(scale, (60_000,), generator())
    support = np.arange(-40 * scale, 40 * scale + 1)
    pmf = np.tanh(1 / (2 * scale)) * np.exp(-np.abs(support) / scale)
    assert pmf.sum() == pytest.approx(1)
    counts = np.bincount(y + 40 * scale, minlength=support.size)
    assert fits(counts, pmf) > ALPHA
    doubled = pmf * np.where(support == 0, 2, 1)
    assert fits(counts, doubled / doubled.sum()) < ALPHA or scale > 50  # power: both signs of zero kept


@pytest.mark.parametrize("sigma", [1, 2, 9])
def test_discrete_gaussian_follows_its_pmf(sigma: int) -> None:
    y = discrete_gaussian(sigma, (60_000,), generator())
    support = np.arange(-20 * sigma, 20 * sigma + 1)
    pmf = np.exp(-(support**2) / (2 * sigma**2))
    assert fits(np.bincount(y + 20 * sigma, minlength=support.size), pmf / pmf.sum()) > ALPHA
    rounded = np.diff(ndtr(np.append(support - 0.5, support[-1] + 0.5) / sigma))
    if sigma == 1:  # power: a rounded normal is not a discrete Gaussian
        assert fits(np.bincount(y + 20 * sigma, minlength=support.size), rounded) < ALPHA


def test_exact_samplers_take_a_scale_each() -> None:
    scale = np.tile([1, 5], (40_000, 1))
    for sampler, distribution in ((discrete_laplace, np.abs), (discrete_gaussian, np.square)):
        y = sampler(scale, scale.shape, generator())
        for column, s in enumerate((1, 5)):
            support = np.arange(-250, 251)
            pmf = np.exp(-distribution(support) / (s if sampler is discrete_laplace else 2 * s**2))
            assert fits(np.bincount(y[:, column] + 250, minlength=501), pmf / pmf.sum()) > ALPHA


@pytest.mark.parametrize(("a", "b"), [(0, 1), (1, 3), (3, 3), (7, 2), (2**40 + 1, 2**42)])
def test_exact_bernoulli_exp(a: int, b: int) -> None:
    drawn = exact_bernoulli_exp(np.full(50_000, a), b, generator())
    assert stats.binomtest(int(drawn.sum()), drawn.size, math.exp(-a / b)).pvalue > ALPHA
    drawn = exact_bernoulli_exp(np.full(50_000, a), np.full(50_000, b), generator(1))
    assert stats.binomtest(int(drawn.sum()), drawn.size, math.exp(-a / b)).pvalue > ALPHA


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(1, 65537), Fraction(3, 2**18 + 1), Fraction(1, 10**6)])
def test_exact_bernoulli_is_exact(p: Fraction) -> None:
    digits = partial(samplers.ratio_digits, p)
    words = np.arange(2**16, dtype=np.uint16)
    below, above = (
        exact_bernoulli(digits, words.shape, Scripted(words, *[more] * 3))  # type: ignore[arg-type]
        for more in (0, 2**48 - 1)
    )
    assert above.sum() == math.floor(p * 2**16)  # words surely below p
    assert below.sum() == math.ceil(p * 2**16)  # and the one that may be, decided by further bits
    tie = digits(16)
    assert not exact_bernoulli(digits, (1,), Scripted(np.array([tie], np.uint16), digits(64) - (tie << 48) + 1)).any()  # type: ignore[arg-type]
    drawn = exact_bernoulli(digits, (10**6,), generator())
    assert stats.binomtest(int(drawn.sum()), drawn.size, float(p)).pvalue > ALPHA


def test_binary_digits_are_those_of_the_number() -> None:
    for bits in (16, 64, 160):
        third = samplers.logistic_digits(math.log(0.5), bits) / 2**bits
        assert third == pytest.approx(1 / 3, abs=2**-15)
        assert samplers.exp_digits(2, bits) / 2**bits == pytest.approx(math.exp(-2), abs=2**-16)
        assert samplers.logistic_digits(0.0, bits) == 2 ** (bits - 1)
        assert samplers.logistic_digits(-1e9, bits) == 0
        assert samplers.logistic_digits(1e9, bits) == 2**bits - 1
        assert samplers.exp_digits(3, 160) >> (160 - bits) == samplers.exp_digits(3, bits)


def test_geometric_decides_ties_with_further_bits() -> None:
    for v in (1, 3, 40):
        tie, more = samplers.exp_digits(v, 64), samplers.exp_digits(v, 112) & (2**48 - 1)
        for extra, expected in ((more + 1, v - 1), (more - 1, v)):
            assert samplers._decide_geometric(tie, Scripted(extra)) == expected  # type: ignore[arg-type]
        assert samplers._geometric(1, Scripted(np.array([tie], np.uint64), more + 1))[0] == v - 1  # type: ignore[arg-type]
        assert samplers._geometric(2, Scripted(np.array([tie - 1, tie + 1], np.uint64))).tolist() == [v, v - 1]  # type: ignore[arg-type]
    assert samplers._geometric(1, Scripted(np.array([0], np.uint64), 0, 0, 2**40))[0] > 45  # type: ignore[arg-type]


@given(
    st.floats(1e-6, 1e6),
    st.floats(1e-4, 1e3),
    st.floats(-1e4, 1e4),
    st.floats(0, 1),
)
def test_the_grid_never_costs_more_than_claimed(sensitivity: float, epsilon: float, first: float, share: float) -> None:
    grid = samplers.Grid.of(np.asarray(sensitivity), 1 / epsilon)
    assert Fraction(float(grid.reach)) / int(grid.scale) <= Fraction(epsilon)
    assert Fraction(float(grid.reach)) * Fraction(float(grid.step)) >= Fraction(sensitivity)
    assert float(np.log2(grid.step)).is_integer()
    slack = 2.0**-23 * (1 + 1 / epsilon)
    assert 1 <= grid.scale * grid.step / (sensitivity / epsilon) <= 1 + slack
    x0 = first * sensitivity
    x1 = x0 + share * sensitivity
    if Fraction(x1) - Fraction(x0) <= Fraction(sensitivity):
        rounded = grid.round(np.array([x0, x1]))
        assert 0 <= rounded[1] - rounded[0] <= grid.reach
        assert (np.abs(rounded * grid.step - [x0, x1]) <= grid.step / 2).all()


def test_ties_are_rounded_alike_so_that_inputs_stay_as_close() -> None:
    grid = samplers.Grid.of(np.ones(()), 1.0)
    halves = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 0.5 - 2**-54])
    assert grid.round(halves * grid.step).tolist() == [-1, 0, 1, 2, 3, 0]


def test_numbers_beyond_the_grid_are_clipped_and_raise_nothing() -> None:
    """An error would tell that a private number is large. Two that are a sensitivity apart stay as close."""
    grid = samplers.Grid.of(np.ones(()), 1.0)
    far = grid.round(np.array([-1e300, 2.0**52 * float(grid.step), 2.0**52 * float(grid.step) + 1, 1e300]))
    assert far.tolist() == [-(2**52), 2**52, 2**52, 2**52]
    assert (Laplace(1.0, 1.0, "exact").perturb(np.array([1e30, -1e30]), generator()) * [1, -1] > 2.0**27).all()


def test_low_bits_of_fast_laplace_tell_inputs_apart_and_those_of_exact_do_not() -> None:
    """Mironov 2012: some answers can be reached from one input only. Near 0, x1 = 1 gives 1 + a double near -1: a
    multiple of 2^-53. x0 = 0 gives doubles near 0, whose last bit is worth 2^-59 or less."""

    def lattice(mechanism: Laplace, x: float) -> tuple[Array, Array]:
        y = mechanism.perturb(np.full(10**6, x), generator())
        near = y[np.abs(y) < 1 / 64]
        return near, near * 2.0**53 % 1 == 0

    for sampler in ("fast", "exact"):
        mechanism = Laplace(1.0, 1.0, sampler)
        (first, from_zero), (second, from_one) = (lattice(mechanism, x) for x in (0.0, 1.0))
        assert min(len(first), len(second)) > 5000
        assert from_one.all()
        if sampler == "fast":
            assert from_zero.mean() < 0.05  # 19 answers in 20 prove that the input was not 1
        else:
            assert (np.concatenate([first, second]) % samplers.Grid.of(np.ones(()), 1.0).step == 0).all()


# What the receiver makes of it.


@pytest.mark.parametrize("sampler", ["fast", "exact"])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bits_debias_and_variance(epsilon: float, sampler: str) -> None:
    x = one_hot(np.full(60_000, 1), 3)
    for mechanism, _, _ in bit_mechanisms(epsilon, sampler):
        y = mechanism.perturb(x, generator())
        estimate = mechanism.debias(y)
        assert z(estimate, x[0]).max() < 5.5
        assert z_variance(estimate, mechanism.variance(x)[0]).max() < 5.5
        assert mechanism.debias(y.sum(0), len(y)) == pytest.approx(estimate.sum(0))
        assert z(y, x[0]).max() > 5.5  # power: not debiased
        wrong = replace(mechanism, epsilon=2 * epsilon).debias(y)
        assert z(wrong, x[0]).max() > 5.5  # power: debiased with e^eps


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_k_ary_debias_and_variance(sampler: str) -> None:
    mechanism, x = KaryRandomizedResponse(2.0, 4, sampler), np.full(60_000, 2)
    y = mechanism.perturb(x, generator())
    estimate = mechanism.debias(y)
    assert estimate.shape == (60_000, 4)
    assert z(estimate, one_hot(2, 4)).max() < 5.5
    assert z_variance(estimate, mechanism.variance(x)[0]).max() < 5.5
    assert mechanism.debias(np.bincount(y, minlength=4), len(y)) == pytest.approx(estimate.sum(0))
    assert z((y[:, None] == np.arange(4)).astype(float), one_hot(2, 4)).max() > 5.5  # power: not debiased


@pytest.mark.parametrize("mechanism", REAL, ids=name)
def test_noise_is_unbiased_and_of_the_variance_stated(mechanism: Any) -> None:
    x = np.full(60_000, 0.3)
    y = mechanism.debias(mechanism.perturb(x, generator()))
    assert z(y, 0.3) < 5.5
    assert z_variance(y, mechanism.variance(x)[0]) < 5.5
    assert z_variance(y, 1.1 * mechanism.variance(x)[0]) > 5.5  # power


def test_receivers_of_memoized_answers_and_of_bare_values() -> None:
    x = one_hot(np.full(60_000, 1), 3)
    mechanism, rng = Memoized(UnaryEncoding(1.0)), generator()
    state = mechanism.start((60_000,))
    mechanism.step(x, rng, state)
    estimate = mechanism.debias(mechanism.step(x, rng, state))
    assert z(estimate, x[0]).max() < 5.5
    assert z_variance(estimate, mechanism.variance(x)[0]).max() < 5.5
    assert (NoPrivacy().debias(NoPrivacy().perturb(x, rng)) == x).all()
    assert (NoPrivacy().variance(x) == np.zeros(x.shape)).all()


# Sums drawn at once.

COUNTED = [mechanism for mechanism in FINITE if mechanism.closed_counts]


@pytest.mark.parametrize("mechanism", COUNTED, ids=name)
def test_perturb_counts_has_the_law_of_summed_messages(mechanism: Any) -> None:
    histogram, samples = np.array([3, 0, 1, 2]), 30_000
    values = np.repeat(np.arange(4), histogram)
    if isinstance(mechanism, KaryRandomizedResponse):
        y = mechanism.perturb(np.tile(values, (samples, 1)), generator())
        summed = (y[..., None] == np.arange(4)).sum(1)
    else:
        summed = mechanism.perturb(np.tile(one_hot(values, 4), (samples, 1, 1)), generator()).sum(1)
    counted = mechanism.perturb_counts(np.tile(histogram, (samples, 1)), generator(1))
    assert counted.shape == summed.shape
    assert same_distribution(summed, counted) > ALPHA


def test_counts_of_agents_without_a_value() -> None:
    mechanism, histogram, samples = BitwiseRandomizedResponse(1.0), np.array([2, 1]), 30_000
    messages = np.concatenate([one_hot(np.array([0, 0, 1]), 2), np.zeros((4, 2), int)])
    summed = mechanism.perturb(np.tile(messages, (samples, 1, 1)), generator()).sum(1)
    counted = mechanism.perturb_counts(np.tile(histogram, (samples, 1)), generator(1), 7)
    assert same_distribution(summed, counted) > ALPHA
    estimate = mechanism.debias(counted, 7)
    assert z(estimate, histogram).max() < 5.5


@pytest.mark.parametrize("mechanism", COUNTED, ids=name)
def test_counts_of_many_shapes(mechanism: Any) -> None:
    for shape in ((4,), (3, 4), (2, 3, 4)):
        histogram = generator().integers(0, 10**6, shape)
        counted = mechanism.perturb_counts(histogram, generator())
        assert counted.shape == shape
        assert counted.dtype == np.int64
        assert (counted >= 0).all()
        assert (counted <= histogram.sum(-1, keepdims=True)).all()
    assert (NoPrivacy().perturb_counts(histogram, generator()) == histogram).all()
    with pytest.raises(TypeError, match="no closed law for sums of messages"):
        Laplace(1.0).perturb_counts(histogram, generator())


# What it costs.


def outcomes(mechanism: Any, first: int, second: int) -> tuple[Array, Array, Array, Array, Array]:
    """All answers of a finite mechanism, with their probabilities from two adjacent inputs, and the inputs."""
    if isinstance(mechanism, KaryRandomizedResponse):
        distributions = np.full((2, 4), 1 / (mechanism.budget + 4))
        distributions[[0, 1], [first, second]] *= mechanism.budget + 1
        return np.arange(4), distributions[0], distributions[1], np.array(first), np.array(second)
    if isinstance(mechanism, Exponential):
        scores = np.array([[0.5, 0.2, -0.4, 0.9], [-0.5, 1.2, 0.6, -0.1]])  # at distance 1
        distributions = np.exp(mechanism.epsilon * scores / 2)
        distributions /= distributions.sum(1, keepdims=True)
        return np.arange(4), distributions[0], distributions[1], scores[0], scores[1]
    x = one_hot(np.array([first, second]), 4)
    table = [bits_distribution(mechanism.p, mechanism.q, vector) for vector in x]
    y = np.array(list(table[0]))
    return y, np.array(list(table[0].values())), np.array(list(table[1].values())), x[0], x[1]


@pytest.mark.parametrize("mechanism", FINITE, ids=name)
def test_log_likelihood_ratio_of_finite_mechanisms(mechanism: Any) -> None:
    y, first, second, x0, x1 = outcomes(mechanism, 0, 2)
    ratio = mechanism.log_likelihood_ratio(
        y, np.broadcast_to(x0, (len(y), *x0.shape)), np.broadcast_to(x1, (len(y), *x1.shape))
    )
    assert ratio == pytest.approx(np.log(first / second))
    bound = mechanism.epsilon * (1 + 1e-12)
    assert np.abs(ratio).max() <= bound
    if not isinstance(mechanism, Exponential):
        assert np.abs(ratio).max() == pytest.approx(mechanism.epsilon)


@pytest.mark.parametrize("mechanism", REAL, ids=name)
def test_log_likelihood_ratio_of_noise(mechanism: Any) -> None:
    y = np.linspace(-3, 3, 101)
    ratio = mechanism.log_likelihood_ratio(y, 0.1, 0.6)
    scale = float(mechanism.scale(y))
    distribution = stats.laplace if isinstance(mechanism, Laplace) else stats.norm
    expected = distribution.logpdf(y, 0.1, scale) - distribution.logpdf(y, 0.6, scale)
    assert ratio == pytest.approx(expected, abs=1e-6)
    if isinstance(mechanism, Laplace):
        assert np.abs(ratio).max() <= mechanism.epsilon * (1 + 1e-12)


def test_no_privacy_tells_all_and_costs_everything() -> None:
    loss = NoPrivacy().loss()
    assert (loss.epsilon, loss.rho) == (math.inf, math.inf)
    assert np.isinf(loss.rdp([1.5, 10.0])).all()
    x = generator().random((3, 2))
    assert (NoPrivacy().perturb(x, generator()) == x).all()
    assert NoPrivacy().log_likelihood_ratio([1, 2, 1, 3], [1, 1, 1, 1], [2, 2, 1, 2])[:3].tolist() == [
        math.inf,
        -math.inf,
        0,
    ]


ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 32.0, 200.0])


@pytest.mark.parametrize("mechanism", FINITE, ids=name)
def test_rdp_is_the_divergence_between_the_laws(mechanism: Any) -> None:
    _, first, second, _, _ = outcomes(mechanism, 0, 2)
    loss = mechanism.loss()
    for alpha, bound in zip(ORDERS, loss.rdp(ORDERS), strict=True):
        for p, q in ((first, second), (second, first)):
            exponents = alpha * np.log(p) + (1 - alpha) * np.log(q)
            divergence = np.logaddexp.reduce(exponents) / (alpha - 1)
            assert divergence <= bound * (1 + 1e-9)
            if not isinstance(mechanism, Exponential):
                assert divergence == pytest.approx(bound)
    pair = loss.dominating_pair()
    assert (pair is None) == isinstance(mechanism, Exponential)
    if pair is not None:
        assert np.exp(pair[0]).sum() == pytest.approx(1)
        assert sorted(pair[0]) == pytest.approx(sorted(pair[1]))


@pytest.mark.parametrize("epsilon", [1e-2, 0.1, 1.0, 3.0, 10.0])
def test_rho_of_bits_is_a_quarter_of_epsilon_squared(epsilon: float) -> None:
    """rho bounds D_alpha / alpha at every order, and for small epsilon nothing smaller does."""
    orders = 1 + np.logspace(-3, 4, 200)
    for mechanism, p, q in bit_mechanisms(epsilon):
        divergence = sum(
            np.logaddexp(
                orders * math.log(a) + (1 - orders) * math.log(b),
                orders * math.log1p(-a) + (1 - orders) * math.log1p(-b),
            )
            for a, b in ((p, q), (q, p))
        ) / (orders - 1)
        rho = mechanism.loss().rho
        assert rho == epsilon**2 / 4
        assert (divergence <= orders * rho * (1 + 1e-6)).all()
        if epsilon <= 0.1:
            assert (divergence / orders).max() > 0.99 * rho
            assert (divergence / orders).max() < epsilon**2 / 2 * 0.51  # power: the generic bound is twice too large


def renyi_integrand(alpha: float, epsilon: float, x: float) -> float:
    """P(x)^alpha Q(x)^(1 - alpha) of Laplace densities of scale 1 / epsilon around 0 and 1."""
    return epsilon / 2 * math.exp(-epsilon * (alpha * abs(x) + (1 - alpha) * abs(x - 1)))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_rdp_of_laplace(epsilon: float) -> None:
    fast, exact = Laplace(epsilon, 1.0).loss(), Laplace(epsilon, 1.0, "exact").loss()
    for alpha in (1.5, 4.0, 30.0):
        integrand = partial(renyi_integrand, alpha, epsilon)

        ends = (-math.inf, 0.0, 1.0, math.inf)
        total = sum(integrate.quad(integrand, *pair, epsabs=0.0)[0] for pair in pairwise(ends))
        assert fast.rdp(alpha) == pytest.approx(math.log(total) / (alpha - 1))
        assert exact.rdp(alpha) == pytest.approx(fast.rdp(alpha))
        for reach in (1, 2, 5):
            grid = np.arange(-4000, 4001)
            exponents = -(epsilon / reach) * (alpha * np.abs(grid) + (1 - alpha) * np.abs(grid - reach))
            norm = math.log(math.tanh(epsilon / reach / 2))
            divergence = (norm + np.logaddexp.reduce(exponents)) / (alpha - 1)
            coarse = losses._laplace_rdp(np.array(alpha), epsilon, reach)
            assert coarse == pytest.approx(divergence)
            assert coarse >= fast.rdp(alpha)  # coarser grids tell more: the loss assumes the coarsest of its epsilon


def test_tree_costs_its_levels() -> None:
    tree, one = TreeAggregation(1.0, 1000, 1.0).loss(), Laplace(0.1, 1.0).loss()
    assert tree.epsilon == 1.0
    assert tree.rho == pytest.approx(10 * one.rho)
    assert tree.rdp(ORDERS) == pytest.approx(10 * one.rdp(ORDERS))
    assert (TreeAggregation(1.0).loss().rdp(ORDERS) >= tree.rdp(ORDERS)).all()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-6), (1.0, 0.2), (20.0, 1e-9)])
def test_gaussian_is_calibrated_tightly(epsilon: float, delta: float) -> None:
    mechanism = Gaussian(epsilon, delta)
    sigma = mechanism.noise_multiplier

    def excess(x: float) -> float:
        return max(0.0, stats.norm.pdf(x, 1, sigma) - math.exp(epsilon) * stats.norm.pdf(x, 0, sigma))

    start = sigma**2 * epsilon + 0.5  # the density ratio is e^epsilon here
    assert integrate.quad(excess, start, start + 40 * sigma, epsabs=0, limit=200)[0] == pytest.approx(delta, rel=1e-5)
    assert gaussian_delta(epsilon, sigma) <= delta < gaussian_delta(epsilon, sigma * (1 - 1e-6))
    if epsilon <= 1:
        assert sigma < math.sqrt(2 * math.log(1.25 / delta)) / epsilon  # power: the classical sigma is not the least
    assert mechanism.loss().epsilon == math.inf
    assert mechanism.loss().rdp(ORDERS) == pytest.approx(ORDERS / (2 * sigma**2))


def test_gaussian_from_rho_and_multiplier() -> None:
    assert Gaussian.from_rho(0.02).loss().rho == pytest.approx(0.02)
    mechanism = Gaussian(sensitivity=2.0, noise_multiplier=1.5)
    assert mechanism.variance(np.zeros(2)).tolist() == [9.0, 9.0]
    assert mechanism.epsilon == math.inf
    known = Gaussian(1.0, 1e-6)
    assert replace(known, sampler="exact").noise_multiplier == known.noise_multiplier
    with pytest.raises(ValueError, match=r"noise_multiplier must be >= 4.22"):
        Gaussian(1.0, 1e-6, noise_multiplier=4.0)


# Trees.


def test_the_scale_ln_costs_what_its_levels_make_of_it() -> None:
    """Of Zhou et al. 2021: 10 levels, each of scale ln(1000) / epsilon, spend 10 / ln(1000) times epsilon."""
    tree, exact = TreeAggregation(2.0, 1000, scale="ln"), TreeAggregation(2.0, 1000)
    assert tree.block_scale(1000, 1.0) == pytest.approx(math.log(1000) / 2)
    loss = tree.loss()
    assert isinstance(loss, LaplaceLoss)
    assert loss.epsilon == pytest.approx(2.0 * 10 / math.log(1000))
    assert loss.nodes == 10
    stream = np.ones(7)
    noise = [distribution.perturb(stream, generator(), 1.0) - np.cumsum(stream) for distribution in (tree, exact)]
    np.testing.assert_allclose(noise[0], noise[1] * math.log(1000) / 10)
    for horizon in (None, 1):
        with pytest.raises(ValueError, match=r"horizon must be at least 2 with scale='ln', not "):
            TreeAggregation(2.0, horizon, scale="ln")
    with pytest.raises(ValueError, match="scale must be one of 'levels', 'ln', not 'log2'"):
        TreeAggregation(2.0, scale="log2")


class BruteForceTree:
    """Every node of the binary tree over the stream, noised when it is complete; an answer adds the fewest nodes that
    cover its prefix."""

    def __init__(self, stream: Array, scale: float, rng: np.random.Generator) -> None:
        noise = iter(rng.laplace(0.0, scale, len(stream)))
        self.nodes: dict[tuple[int, int], float] = {}
        for end in range(1, len(stream) + 1):
            level = max(j for j in range(end.bit_length()) if end % 2**j == 0)
            self.nodes[end - 2**level, end] = stream[end - 2**level : end].sum() + next(noise)

    def prefix(self, end: int) -> float:
        total, start = 0.0, 0
        while start < end:
            size = 1 << ((end - start).bit_length() - 1)
            total += self.nodes[start, start + size]
            start += size
        return total


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13, 100])
def test_tree_equals_brute_force(length: int) -> None:
    stream, mechanism = generator(5).random(length), TreeAggregation(1.0, sensitivity=1.0)
    levels = math.floor(math.log2(length)) + 1
    tree = BruteForceTree(stream, levels / 1.0, generator())
    whole = mechanism.perturb(stream, generator())
    assert whole == pytest.approx([tree.prefix(end) for end in range(1, length + 1)])
    state, rng = mechanism.start((), horizon=length), generator()
    assert [float(mechanism.step(value, rng, state)) for value in stream] == pytest.approx(whole)
    with pytest.raises(ValueError, match=f"a stream has had its {length} values"):
        mechanism.step(0.5, rng, state)
    exact = TreeAggregation(1.0, length, 1.0, "exact")
    state, rng = exact.start((2,)), generator()
    answers = [exact.step(np.full(2, value), rng, state) for value in stream]
    assert (np.abs(np.stack(answers)[:, 0] - np.cumsum(stream)) < 40 * levels * levels).all()


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_tree_is_unbiased_with_the_variance_stated(sampler: str) -> None:
    mechanism = TreeAggregation(2.0, 20, 0.5, sampler)
    stream = np.tile(np.linspace(0, 0.5, 20), (20_000, 1))
    whole = mechanism.perturb(stream, generator())
    state, rng = mechanism.start((20_000,)), generator(1)
    stepped = np.stack([mechanism.step(stream[:, t], rng, state) for t in range(20)], axis=1)
    blocks = np.array([bin(t).count("1") for t in range(1, 21)])
    assert mechanism.variance(stream)[0] == pytest.approx(blocks * 2 * (5 * 0.5 / 2.0) ** 2, rel=1e-6)
    for y in (whole, stepped):
        assert z(y, stream[0].cumsum()).max() < 6
        assert z_variance(y, mechanism.variance(stream)[0]).max() < 6
        assert stats.spearmanr(y[:, 7] - y[:, 3], y[:, 3])[0] < 0  # 8 = one block, which shares nothing with that of 4
        assert z((y[:, 9] - y[:, 7]) ** 2, 0.25).max() > 6
    assert np.corrcoef(whole, rowvar=False) == pytest.approx(np.corrcoef(stepped, rowvar=False), abs=0.05)


@pytest.mark.parametrize("sampler", ["fast", "exact"])
def test_first_answer_of_a_tree_is_one_laplace_draw(sampler: str) -> None:
    tree = TreeAggregation(0.5, 100, 2.0, sampler)
    distribution = stats.laplace(scale=7 * 2.0 / 0.5)
    first = tree.perturb(np.full((40_000, 2), 1.5), generator())[:, 0] - 1.5
    state = tree.start((40_000,))
    stepped = tree.step(np.full(40_000, 1.5), generator(1), state) - 1.5
    assert stats.kstest(first, distribution.cdf).pvalue > ALPHA
    assert stats.kstest(stepped, distribution.cdf).pvalue > ALPHA
    assert stats.kstest(stepped, stats.laplace(scale=6 * 2.0 / 0.5).cdf).pvalue < ALPHA  # power: a level forgotten


@pytest.mark.parametrize("horizon", [1, 10, 1000, 10**6, 10**12])
def test_state_of_a_tree_grows_with_the_logarithm_of_its_horizon(horizon: int) -> None:
    tree, rng = TreeAggregation(1.0, horizon, 1.0), generator()
    state = tree.start((5,))
    for _ in range(min(horizon, 40)):
        tree.step(np.ones(5), rng, state)
    arrays = [value for value in vars(state).values() if isinstance(value, np.ndarray)]
    assert sum(array.size for array in arrays) == 5 * (math.floor(math.log2(horizon)) + 1 + 3)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 7, 8, 16])
def test_tree_keeps_its_promise_and_one_level_fewer_does_not(horizon: int) -> None:
    class OneLevelFewer(TreeAggregation):
        def levels(self, horizon: int | None = None) -> int:
            return max(1, super().levels(horizon) - 1)

    def worst(mechanism: TreeAggregation) -> float:
        """Largest log-likelihood ratio over changes of one value: at the answers that tell most, and at drawn ones."""
        x0, x1 = np.zeros((50, horizon, horizon)), np.tile(np.eye(horizon), (50, 1, 1))
        drawn = mechanism.perturb(x0, generator())
        lowest = np.broadcast_to(-100.0 * np.arange(1, horizon + 1), x0.shape)
        return float(max(np.abs(mechanism.log_likelihood_ratio(y, x0, x1)).max() for y in (drawn, lowest)))

    assert worst(TreeAggregation(1.5, sensitivity=1.0)) <= 1.5 * (1 + 1e-9)
    if horizon in (2, 4, 8, 16):  # the first value lies in a block of every level
        assert worst(TreeAggregation(1.5, sensitivity=1.0)) == pytest.approx(1.5)
        assert worst(OneLevelFewer(1.5, sensitivity=1.0)) > 1.5 * 1.2


def test_tree_is_charged_once_a_stream_and_keeps_little() -> None:
    mechanism, rng = TreeAggregation(1.0, sensitivity=1.0), generator()
    state, charges = mechanism.start((3, 2), horizon=1000), np.zeros((3, 2), int)
    for t in range(1000):
        where = rng.random((3, 2)) < 0.5
        before = None if state.total is None else state.total.copy()
        y = mechanism.step(np.ones((3, 2)), rng, state, where=where)
        charges += state.fresh
        assert y.shape == (3, 2)
        if before is not None:
            assert (state.total - before == where).all()
        if t == 600:
            assert (charges == 1).all()
            state.reset(np.array([True, False, False]))
            assert (state.time[0] == 0).all()
            assert (state.time[1:] > 0).all()
    assert charges.tolist() == [[2, 2], [1, 1], [1, 1]]
    assert state.total is not None
    assert state.noise is not None
    assert state.time.size + state.total.size + state.noise.size == 6 * (10 + 2)


def test_a_tree_that_was_reset_is_a_new_one() -> None:
    mechanism = TreeAggregation(1.0, 10, 1.0)
    used, new = mechanism.start((3,)), mechanism.start((3,))
    for _ in range(7):
        mechanism.step(np.ones(3), generator(), used)
    used.reset()
    for t in range(5):
        assert (mechanism.step(np.ones(3), generator(t), used) == mechanism.step(np.ones(3), generator(t), new)).all()


def test_tree_streams_of_vectors() -> None:
    mechanism, rng = TreeAggregation(1e6, 7, 1.0), generator()
    x, state = rng.random((7, 2, 3, 4)), mechanism.start((2, 3))
    for t in range(7):
        y = mechanism.step(x[t], rng, state, where=np.array([True, False]))
        assert y[0] == pytest.approx(x[: t + 1, 0].sum(0), abs=1e-3)
    assert (y[1] == 0).all()
    told = TreeAggregation(1.0)
    state = told.start((2, 3), horizon=7, sensitivity=np.full((2, 3), 0.5))
    assert told.step(x[0], rng, state).shape == (2, 3, 4)


# Permanent answers.


def test_memoized_answers_stay_while_the_value_stays() -> None:
    mechanism, rng = Memoized(BitwiseRandomizedResponse(0.1)), generator()
    values = rng.integers(0, 8, (4, 5))
    state = mechanism.start((4, 5))
    first = mechanism.step(one_hot(values, 8), rng, state)
    assert state.fresh.all()
    for _ in range(5):
        assert (mechanism.step(one_hot(values, 8), rng, state) == first).all()
        assert not state.fresh.any()
    changed = np.zeros((4, 5), bool)
    changed[1, 2] = changed[3, 0] = True
    second = mechanism.step(one_hot((values + changed) % 8, 8), rng, state)
    assert (state.fresh == changed).all()
    assert (second[~changed] == first[~changed]).all()
    state.reset(np.array([True, False, False, False]))
    mechanism.step(one_hot((values + changed) % 8, 8), rng, state)
    assert state.fresh[0].all()
    assert not state.fresh[1:].any()
    state.reset()
    where = np.zeros((4, 5), bool)
    where[2] = True
    y = mechanism.step(one_hot(values, 8), rng, state, where=where)
    assert (state.fresh == where).all()
    assert not state.known[0].any()
    assert y.shape == (4, 5, 8)


@pytest.mark.parametrize(
    "inner", [KaryRandomizedResponse(1.0, 4), Laplace(1.0), Exponential(1.0, 1.0), UnaryEncoding(1.0)], ids=name
)
def test_memoized_has_the_law_of_its_mechanism(inner: Any) -> None:
    mechanism, rng = Memoized(inner), generator()
    x = np.full(30_000, 1) if inner.payload_dims == 0 else np.tile(one_hot(1, 4), (30_000, 1))
    told = np.ones(30_000) if isinstance(inner, Laplace) else None
    state = mechanism.start((30_000,))
    mechanism.step(x, rng, state, sensitivity=told)
    y = mechanism.step(x, rng, state, sensitivity=told)
    plain = inner.perturb(x, generator(1), told)
    if isinstance(inner, Laplace):
        assert stats.ks_2samp(y, plain).pvalue > ALPHA
    else:
        assert same_distribution(y, plain) > ALPHA
    assert (mechanism.epsilon, mechanism.loss(), mechanism.kind) == (inner.epsilon, inner.loss(), inner.kind)
    state = mechanism.start(())
    assert mechanism.step(x[0], rng, state, sensitivity=1.0).shape == y.shape[1:]


def test_memoized_values_keep_their_fractions_whatever_came_first() -> None:
    for inner in (Laplace(1.0, 1.0), NoPrivacy()):
        mechanism, rng = Memoized(inner), generator()
        state = mechanism.start((2,))
        mechanism.step(np.array([1, 2]), rng, state)
        halves = mechanism.step(np.array([0.5, 2.0]), rng, state)
        assert state.fresh.tolist() == [True, False]
        assert (mechanism.step(np.array([0.5, 2.0]), rng, state) == halves).all()
        assert not state.fresh.any()
    assert halves.tolist() == [0.5, 2.0]


# Bad input.

BAD_NUMBERS = st.one_of(
    st.floats(max_value=0.0), st.sampled_from([math.nan, math.inf, -math.inf, None, "1", b"1", True, [1.0], 1j])
)


@given(BAD_NUMBERS)
def test_parameters_are_checked(bad: Any) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: BitwiseRandomizedResponse(bad),
        lambda: KaryRandomizedResponse(bad, 3),
        lambda: KaryRandomizedResponse(num_values=3, epsilon=bad),
        lambda: UnaryEncoding(bad),
        lambda: Laplace(bad),
        lambda: Laplace(1.0, bad or 0),
        lambda: Gaussian(bad, 1e-6),
        lambda: Gaussian(1.0, bad),
        lambda: Gaussian(1.0, 1.5),
        lambda: Gaussian.from_rho(bad),
        lambda: Exponential(bad),
        lambda: TreeAggregation(bad),
        lambda: KaryRandomizedResponse(1.0, bad),
        lambda: TreeAggregation(1.0, bad or 0),
        lambda: Memoized(bad),
        lambda: Memoized(TreeAggregation(1.0)),
        lambda: Scheduled(bad, at=1),
        lambda: Scheduled(NoPrivacy(), at=bad or 0),
        lambda: BitwiseRandomizedResponse(1.0, bad),
        lambda: UnaryEncoding(1.0, "other"),
        lambda: UnaryEncoding(1.0, sampler="opendp"),
        lambda: Laplace(1.0, sampler=bad),
        lambda: TreeAggregation(1.0, sampler="opendp"),
    ]
    for make in makers:
        with pytest.raises(ValueError, match=r"^\w+ must be "):
            make()


EACH: list[Any] = [
    *(BitwiseRandomizedResponse(1.0, sampler) for sampler in ("fast", "exact")),
    *(UnaryEncoding(1.0, sampler=sampler) for sampler in ("fast", "exact")),
    *(KaryRandomizedResponse(1.0, 4, sampler) for sampler in ("fast", "exact")),
    *(Laplace(1.0, sampler=sampler) for sampler in ("fast", "exact")),
    *(Gaussian(1.0, 1e-6, sampler=sampler) for sampler in ("fast", "exact")),
    *(Exponential(1.0, sampler=sampler) for sampler in ("fast", "exact")),
    *(TreeAggregation(1.0, 4, sampler=sampler) for sampler in ("fast", "exact")),
    *(Blocks(1.0, sampler=sampler) for sampler in ("fast", "exact")),
    *REPEATED,
    Memoized(Laplace(1.0)),
    NoPrivacy(),
]
NOISE = [each for each in EACH if hasattr(each, "sensitivity")]
NOT_NUMBERS: list[Any] = [
    "a",
    "1",
    b"1",
    None,
    {},
    [1j],
    np.array([1j]),
    [[1.0], [1.0, 2.0]],
    np.array(["2020"], "M8[s]"),
    [10**30],
]


def good(mechanism: Any) -> Array:
    """Two messages."""
    if mechanism.kind == "k_ary_randomized_response":
        return np.array([0, 3])
    return (
        one_hot(np.array([1, 3]), 4) if mechanism.kind == "randomized_response" else np.linspace(0, 1, 8).reshape(2, 4)
    )


def spoil(data: st.DataObject, mechanism: Any, *, answer: bool = False) -> Any:
    """Messages, or answers to them, with something wrong in one place."""
    if mechanism.kind == "none" or data.draw(st.booleans()):
        return data.draw(st.sampled_from(NOT_NUMBERS))
    if mechanism.kind == "k_ary_randomized_response" or (answer and mechanism.kind == "exponential"):
        wrong: list[Any] = [-1, 4, 2**62, 0.5, math.nan, True]
        x = np.array([0, 3])
    elif mechanism.kind == "randomized_response":
        wrong, x = [2, -1, 0.5, math.nan, math.inf, -math.inf], good(mechanism)
        if not answer and data.draw(st.booleans()):
            return np.array([[0, 1, 0, 1], [0, 0, 0, 0]])
    else:
        wrong, x = [math.nan, math.inf, -math.inf], good(mechanism)
    entry = data.draw(st.sampled_from(wrong))
    x = x.astype(np.bool_ if entry is True else np.result_type(x, type(entry)))
    x.flat[data.draw(st.integers(0, x.size - 1))] = entry
    return x


def refuses(method: Callable[..., Any], *args: Any, **named: Any) -> None:
    """It raises a sentence that says what must be, and leaves generator, state and whatever else it was given as they
    were."""
    before = pickle.dumps((args, named))
    with pytest.raises(ValueError, match=r"^[\w, ]+ must "):
        method(*args, **named)
    assert pickle.dumps((args, named)) == before


@pytest.mark.parametrize("mechanism", EACH, ids=name)
@given(data=st.data())
def test_bad_messages_are_refused_by_every_method(mechanism: Any, data: st.DataObject) -> None:
    x, bad, bad_answer = good(mechanism), spoil(data, mechanism), spoil(data, mechanism, answer=True)
    y = np.array([0, 1]) if mechanism.kind == "exponential" else x
    refuses(mechanism.perturb, bad, generator(), 1.0)
    if mechanism.stateful:
        state = mechanism.start((2,), sensitivity=1.0)
        mechanism.step(x, generator(), state, sensitivity=1.0)
        refuses(mechanism.step, bad, generator(), state, sensitivity=1.0)
    refuses(mechanism.log_likelihood_ratio, bad_answer, x, x, 1.0)
    refuses(mechanism.log_likelihood_ratio, y, bad, x, 1.0)
    refuses(mechanism.log_likelihood_ratio, y, x, bad, 1.0)
    if mechanism.kind != "exponential":
        refuses(mechanism.variance, bad, 1.0)
        refuses(mechanism.debias, data.draw(st.sampled_from([*NOT_NUMBERS, [math.nan] * 4, [math.inf] * 4])))


@pytest.mark.parametrize("mechanism", EACH, ids=name)
def test_wrong_shapes_are_refused_by_every_method(mechanism: Any) -> None:
    x = good(mechanism)
    y = np.array([0, 1]) if mechanism.kind == "exponential" else x
    longer = np.concatenate([x, x[:1]])
    for bad in (longer, x[..., :-1], x[..., :1]) if mechanism.payload_dims else (longer,):
        refuses(mechanism.log_likelihood_ratio, y, bad, x, 1.0)
        refuses(mechanism.log_likelihood_ratio, y, x, bad, 1.0)
    refuses(mechanism.log_likelihood_ratio, np.concatenate([y, y[:1]]), x, x, 1.0)
    if mechanism.payload_dims:
        refuses(mechanism.perturb, 1, generator(), 1.0)
        refuses(mechanism.log_likelihood_ratio, y, 1, x, 1.0)
        if mechanism.kind != "exponential":
            refuses(mechanism.variance, 1, 1.0)
    if mechanism.kind in ("exponential", "tree", "blocks"):
        refuses(mechanism.perturb, np.zeros((2, 0)), generator(), 1.0)
    if mechanism.kind == "tree":
        refuses(mechanism.perturb, np.zeros((2, 5)), generator(), 1.0)
        refuses(TreeAggregation(1.0, sensitivity=1.0).start, (2,), horizon=0)
        refuses(TreeAggregation(1.0, sensitivity=1.0).start, (2,))
        refuses(TreeAggregation(1.0, 5).start, (2,))


@pytest.mark.parametrize("mechanism", [each for each in EACH if each.stateful], ids=name)
def test_wrong_shapes_and_states_are_refused_by_steps(mechanism: Any) -> None:
    x, state = good(mechanism), mechanism.start((2,), sensitivity=1.0)
    mechanism.step(x, generator(), state, sensitivity=1.0)
    longer = np.concatenate([x, x[:1]])
    for bad in (longer, x[..., :-1], x[..., :1]) if mechanism.payload_dims else (longer,):
        refuses(mechanism.step, bad, generator(), state, sensitivity=1.0)
    for where in ([1, 0], np.ones(3, bool), np.ones((2, 9), bool), "a", math.nan):
        refuses(mechanism.step, x, generator(), state, where=where, sensitivity=1.0)
    for shape in (2, "a", (2.0,), (-1,), (True,), [2], None):
        refuses(mechanism.start, shape, horizon=4, sensitivity=1.0)
    for other in (None, 3, TreeAggregation(1.0, 4, 1.0)):
        refuses(mechanism.step, x, generator(), other, sensitivity=1.0)


@pytest.mark.parametrize("mechanism", [each for each in EACH if each.kind != "none" and each.closed_counts], ids=name)
@given(data=st.data())
def test_bad_counts_are_refused(mechanism: Any, data: st.DataObject) -> None:
    histogram = data.draw(
        st.sampled_from(
            [3, [-1, 2, 2, 0], [0.5, 1, 1, 1], [math.nan] * 4, [math.inf] * 4, [True] * 4, *NOT_NUMBERS, [2**62] * 4]
        )
    )
    refuses(mechanism.perturb_counts, histogram, generator())
    messages = data.draw(st.sampled_from([2, -1, 3.5, [7, 7], math.nan, math.inf, 2**62, "a", [[3]]]))
    refuses(mechanism.perturb_counts, [1, 2, 0, 0], generator(), messages)
    for wrong in (-1, math.nan, math.inf, [7, 7, 7], [[3]], "a", b"3", 1j):
        refuses(mechanism.debias, np.zeros((2, 4)), wrong)
    refuses(mechanism.debias, 1.5, 3)


def test_k_ary_counts_are_of_all_its_values() -> None:
    mechanism = KaryRandomizedResponse(1.0, 4)
    refuses(mechanism.perturb_counts, [1, 2, 0], generator())
    refuses(mechanism.perturb_counts, [1, 2, 0, 0], generator(), 4)
    refuses(mechanism.debias, [1.0, 2.0, 0.0], 3)


@pytest.mark.parametrize("mechanism", NOISE, ids=name)
@given(bad=BAD_NUMBERS.filter(lambda bad: bad != [1.0]), share=st.sampled_from([1, 1e-9, 1e9]))
def test_bad_sensitivities_are_refused_by_every_method(mechanism: Any, bad: Any, share: float) -> None:
    again = {"noise_multiplier": math.nan} if isinstance(mechanism, Gaussian) else {}
    x, mechanism = good(mechanism), replace(mechanism, epsilon=mechanism.epsilon * share, **again)
    y = np.array([0, 1]) if mechanism.kind == "exponential" else x
    if bad is not None:
        refuses(mechanism.loss, bad)
    unusable = {1: [], 1e-9: [1e308], 1e9: [5e-324]}[share]  # noise without end, or none
    for sensitivity in (bad, [1.0, 2.0, 3.0], *unusable):
        refuses(mechanism.perturb, x, generator(), sensitivity)
        refuses(mechanism.log_likelihood_ratio, y, x, x, sensitivity)
        if mechanism.kind != "exponential":
            refuses(mechanism.variance, x, sensitivity)
        if mechanism.stateful:
            refuses(mechanism.start, (2,), sensitivity=sensitivity)


@given(st.data())
def test_any_array_is_answered_or_refused(data: st.DataObject) -> None:
    """Whatever comes in: an answer of the right shape, or a ValueError before anything is drawn."""
    mechanism = data.draw(st.sampled_from(ALL))
    shape = data.draw(st.sampled_from([(), (1,), (4,), (2, 4), (0, 4), (3, 1, 2)]))
    elements = st.sampled_from([0, 1, 2, -1, 0.5, 1.0, math.nan, math.inf, 1e300, 2**62])
    size = math.prod(shape)
    x = np.array(data.draw(st.lists(elements, min_size=size, max_size=size)))
    x = x.astype(data.draw(st.sampled_from([x.dtype.str, "f8", "O"]))).reshape(shape)
    rng = generator()
    before = rng.bit_generator.state
    try:
        y = mechanism.perturb(x, rng)
    except ValueError:
        assert rng.bit_generator.state == before
    else:
        assert y.shape == (shape[:-1] if isinstance(mechanism, Exponential) else shape)


def test_rdp_checks_its_orders() -> None:
    for alpha in (1.0, 0.5, [2.0, math.nan], "a"):
        with pytest.raises(ValueError, match="alpha must"):
            Laplace(1.0).loss().rdp(alpha)


# The rest.


@pytest.mark.parametrize("mechanism", ALL, ids=name)
def test_every_mechanism_passes_the_checks_for_those_of_other_packages(mechanism: Any) -> None:
    check_mechanism(mechanism)


@dataclass(frozen=True)
class Loud(BitwiseRandomizedResponse):
    """Flips bits as if its epsilon were three times as large."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return BitwiseRandomizedResponse(3 * self.epsilon).perturb(x, rng)


@dataclass(frozen=True)
class Moody(BitwiseRandomizedResponse):
    """Draws from a generator of its own."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return super().perturb(x, np.random.default_rng([7, next(COUNT)]))


@dataclass(frozen=True)
class Understated(Laplace):
    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        return super().variance(x, sensitivity) / 100

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return super().perturb(x, rng, sensitivity) + 0.05


COUNT = count()


@pytest.mark.parametrize("wrong", [Loud(1.0), Moody(1.0), Understated(1.0)], ids=repr)
def test_the_checks_find_what_is_wrong(wrong: Mechanism) -> None:
    with pytest.raises(AssertionError):
        check_mechanism(wrong)


def test_input_is_left_alone_and_its_dtype_kept() -> None:
    for dtype in (np.bool_, np.uint8, np.int64, np.float32):
        x = one_hot(np.arange(4), 4).astype(dtype)
        y = BitwiseRandomizedResponse(1.0).perturb(x, generator())
        assert y.dtype == dtype
        assert (x == one_hot(np.arange(4), 4)).all()
    for kind, sampler in product((np.uint8, np.uint64, np.int32), ("fast", "exact")):
        y = KaryRandomizedResponse(1e9, 4, sampler).perturb(np.arange(4, dtype=kind), generator())
        assert y.dtype == np.int64
        assert y.tolist() == [0, 1, 2, 3]
    assert k_ary_response(2, 1e9, 4, generator()) == 2
    wide = one_hot(np.arange(300), 300)
    assert BitwiseRandomizedResponse(50.0).perturb(wide, generator()).sum() == 300


def test_losses_know_extremes() -> None:
    for epsilon in (1e-8, 1e3, 1e7):
        for mechanism in (BitwiseRandomizedResponse(epsilon), UnaryEncoding(epsilon), Laplace(epsilon, 1.0)):
            divergence = mechanism.loss().rdp(np.array([1.0001, 2.0, 1e6]))
            assert np.isfinite(divergence).all()
            assert (divergence <= epsilon).all()
        for sampler in ("fast", "exact"):
            y = BitwiseRandomizedResponse(epsilon, sampler).perturb(one_hot(np.arange(4), 4), generator())
            assert epsilon < 1 or (y == one_hot(np.arange(4), 4)).all()


# OpenDP as oracle.


def test_opendp_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(
        ImportError, match=r"sampler 'opendp' needs opendp: run pip install '\.\[secure\]' in a clone of taciturn"
    ):
        Laplace(1.0, 1.0, "opendp").perturb(0.0, generator())


def test_opendp_has_the_same_laws() -> None:
    pytest.importorskip("opendp.prelude")
    size = 10_000
    bits = one_hot(generator().integers(0, 4, size), 4)
    for exact, other in ((m, replace(m, sampler="opendp")) for m in (BitwiseRandomizedResponse(1.0, "exact"),)):
        assert (
            same_distribution(
                np.c_[bits, exact.perturb(bits, generator())], np.c_[bits, other.perturb(bits, generator())]
            )
            > ALPHA
        )
    values = np.full(size, 2)
    k_ary = KaryRandomizedResponse(2.0, 4, "exact")
    assert (
        same_distribution(
            k_ary.perturb(values, generator()), replace(k_ary, sampler="opendp").perturb(values, generator())
        )
        > ALPHA
    )
    scores = np.tile([0.3, 1.0, -0.5, 0.9], (size, 1))
    chosen = Exponential(3.0, 0.5, "exact")
    assert (
        same_distribution(
            chosen.perturb(scores, generator()), replace(chosen, sampler="opendp").perturb(scores, generator())
        )
        > ALPHA
    )
    x = np.full(size, 0.25)
    for noisy in (Laplace(0.5, 2.0, "exact"), Gaussian(sensitivity=1.0, sampler="exact", noise_multiplier=3.0)):
        one, two = noisy.perturb(x, generator()), replace(noisy, sampler="opendp").perturb(x, generator())
        assert stats.ks_2samp(one, two).pvalue > ALPHA
        assert z_variance(two, noisy.variance(x)[0]) < 5.5
    told = Laplace(1.0, sampler="opendp").perturb(np.zeros((3, 2)), generator(), np.array([1e-6, 1.0, 1e6]))
    assert np.abs(told[0]).max() < 1e-3 < 1e3 < np.abs(told[2]).max()


def test_opendp_states_the_same_costs() -> None:
    dp: Any = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    bitwise = BitwiseRandomizedResponse(1.7)
    vector = dp.m.make_randomized_response_bitvec(
        dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=2 * bitwise.q
    )
    assert vector.map(1) == pytest.approx(bitwise.epsilon)
    k_ary = KaryRandomizedResponse(2.0, 4)
    assert dp.m.make_randomized_response([0, 1, 2, 3], k_ary.p).map(1) == pytest.approx(k_ary.epsilon)
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    laplace, gaussian = Laplace(0.5, 2.0), Gaussian.from_rho(0.1, 2.0)
    assert dp.m.make_laplace(*space, scale=float(laplace.scale(0.0))).map(2.0) == pytest.approx(0.5)
    assert dp.m.make_gaussian(*space, scale=float(gaussian.scale(0.0))).map(2.0) == pytest.approx(0.1)
    scores = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    selection = Exponential(1.0, 0.5)
    noisy_max = dp.m.make_noisy_max(*scores, dp.zero_concentrated_divergence(), scale=2 * 0.5 / 1.0)
    assert noisy_max.map(0.5) == pytest.approx(selection.loss().rho)


def test_binary_k_ary_response_has_no_third_answer() -> None:
    """With two values it is a flipped bit: RDP by the two-point formula."""
    loss = KaryRandomizedResponse(epsilon=1.0, num_values=2).loss()
    p, alpha = np.e / (1 + np.e), 3.0
    expected = np.log(p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)) / (alpha - 1)
    np.testing.assert_allclose(loss.rdp(np.array([alpha])), [expected])


LEVELS: dict[str, Callable[[Any], Any]] = {
    "epsilon of bits": BitwiseRandomizedResponse,
    "epsilon of OUE": UnaryEncoding,
    "budget of k-ary": lambda e: KaryRandomizedResponse(e, 4),
    "epsilon of Laplace": Laplace,
    "epsilon of Gaussian": lambda e: Gaussian(e, 1e-5),
    "rho of Gaussian": Gaussian.from_rho,
    "noise_multiplier of Gaussian": lambda m: Gaussian(noise_multiplier=m),
    "epsilon of Exponential": Exponential,
    "epsilon of tree": lambda e: TreeAggregation(e, 8),
    "epsilon of blocks": Blocks,
}


@pytest.mark.parametrize("made", LEVELS)
def test_levels_beyond_all_numbers_are_refused_by_name(made: str) -> None:
    """Squares of what is accepted are numbers; NumPy's scalars are."""
    for level in (1e300, 1e-300, 10**400, 10**5000, np.float64(1e200)):
        with pytest.raises(ValueError, match=rf"^{made.split()[0]} must (lie between|be a finite number)") as error:
            LEVELS[made](level)
        assert len(str(error.value)) < 120
    orders = np.array([1.001, 2.0, 1e6])
    for level in (1e-99, 1e99):
        loss = LEVELS[made](level).loss()
        assert (loss.rdp(orders) >= 0).all()
        assert 0 <= loss.rho < math.inf
    for scalar in (np.float32(2), np.float64(2), np.int64(2), np.array(2.0)):
        assert LEVELS[made](scalar) == LEVELS[made](2.0)
        assert type(LEVELS[made](scalar).loss().rho) is float


@pytest.mark.parametrize("number", [10**400, 10**5000, 2**63], ids=range(3))
def test_whole_numbers_beyond_what_is_counted_are_refused_by_name(number: int) -> None:
    with pytest.raises(ValueError, match="num_values must be an integer"):
        KaryRandomizedResponse(1.0, number)
    with pytest.raises(ValueError, match="horizon must be an integer"):
        TreeAggregation(1.0, number)
    with pytest.raises(ValueError, match="horizon must be an integer"):
        TreeAggregation(1.0, sensitivity=1.0).start((2,), horizon=number)
    assert KaryRandomizedResponse(1.0, np.uint8(4)) == KaryRandomizedResponse(1.0, 4)  # type: ignore[arg-type]
    assert TreeAggregation(1.0, np.int32(4)) == TreeAggregation(1.0, 4)  # type: ignore[arg-type]
