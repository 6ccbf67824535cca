"""`ShuffledLoss`: no shuffled message says more than it costs, where all that an observer can see is enumerated."""

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from taciturn.envs.core import Array, Channel
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.composition import METHODS
from taciturn.privacy.losses import PrivacyLoss, pure
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    NoPrivacy,
    Shuffled,
    ShuffledBitsLoss,
    ShuffledLoss,
    UnaryEncoding,
)
from taciturn.privacy.shuffling import MOST_SENDERS

Distribution = dict[tuple[int, ...], float]

ORDERS = np.array([1.5, 2.0, 5.0, 20.0, 100.0])


def bits_distributions(p: float, q: float, size: int) -> list[Array]:
    """The laws of the 2^size messages, of senders that hold each value and of one that holds none."""
    messages = list(itertools.product((0, 1), repeat=size))
    held = [[int(i == value) for i in range(size)] for value in range(size)] + [[0] * size]

    def distribution(bits: list[int]) -> Array:
        one = [p if bit else q for bit in bits]
        return np.array([math.prod(a if y else 1 - a for a, y in zip(one, m, strict=True)) for m in messages])

    return [distribution(bits) for bits in held]


def k_ary_distributions(epsilon: float, size: int) -> list[Array]:
    e = math.exp(epsilon)
    return [np.where(np.arange(size) == value, e, 1.0) / (e + size - 1) for value in range(size)]


def half(epsilon: float) -> float:
    return 1 / (math.exp(epsilon / 2) + 1)


CASES: dict[str, tuple[Callable[[float], Any], Callable[[float], list[Array]], int]] = {
    "binary": (lambda e: KaryRandomizedResponse(epsilon=e, num_values=2), lambda e: k_ary_distributions(e, 2), 7),
    "ternary": (lambda e: KaryRandomizedResponse(epsilon=e, num_values=3), lambda e: k_ary_distributions(e, 3), 7),
    "two bits": (BitwiseRandomizedResponse, lambda e: bits_distributions(1 - half(e), half(e), 2), 5),
    "three bits": (BitwiseRandomizedResponse, lambda e: bits_distributions(1 - half(e), half(e), 3), 4),
    "optimised": (UnaryEncoding, lambda e: bits_distributions(0.5, 1 / (math.exp(e) + 1), 3), 4),
}


def multiset(distributions: list[Array]) -> Distribution:
    """The law of how many of the senders send each message."""
    found: Distribution = {(0,) * len(distributions[0]): 1.0}
    for distribution in distributions:
        longer: Distribution = {}
        for counts, probability in found.items():
            for message, chance in enumerate(distribution):
                more = (*counts[:message], counts[message] + 1, *counts[message + 1 :])
                longer[more] = longer.get(more, 0.0) + probability * float(chance)
        found = longer
    return found


def pairs(distributions: list[Array], num_senders: int) -> list[tuple[Array, Array]]:
    """The laws of the multiset in all adjacent worlds: one sender's value changes, whatever the others hold."""
    found = []
    for others in itertools.combinations_with_replacement(range(len(distributions)), num_senders - 1):
        rest = [distributions[value] for value in others]
        worlds = [multiset([*rest, distribution]) for distribution in distributions]
        for first, second in itertools.permutations(worlds, 2):
            found.append((np.array([first[key] for key in first]), np.array([second[key] for key in first])))
    return found


def hockey_stick(first: Array, second: Array, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_no_multiset_says_more_than_it_costs(case: str, epsilon: float) -> None:
    """All data of up to 6 others. Up to a quarter of the local epsilon the largest true delta is at least a stated
    share of the bound; for ternary response of up to four senders they are equal, at epsilon 0 for any number."""
    make, distributions_of, most = CASES[case]
    at = np.array([-0.2, 0.0, 0.1, 0.25, 0.5, 0.8]) * epsilon
    least = {"binary": 0.8, "ternary": 0.95}.get(case, 0.55)
    for num_senders in range(1, most + 1):
        loss = ShuffledLoss(make(epsilon).loss(), num_senders)
        found = pairs(distributions_of(epsilon), num_senders)
        truth = np.array([max(hockey_stick(p, q, x) for p, q in found) for x in at])
        bound = loss.delta(at)
        assert (truth <= bound * (1 + 1e-9) + 1e-15).all()
        assert (truth[:4] >= least * bound[:4]).all(), (num_senders, truth / bound)
        if case == "ternary":
            equal = slice(0, 4) if num_senders <= 4 else [1]
            np.testing.assert_allclose(truth[equal], bound[equal], rtol=1e-9)
        divergence = np.array([[renyi(p, q, alpha) for alpha in ORDERS] for p, q in found])
        assert (divergence <= loss.rdp(ORDERS) * (1 + 1e-9)).all()
        assert (divergence <= loss.rho * ORDERS * (1 + 1e-9)).all()


def renyi(first: Array, second: Array, alpha: float) -> float:
    terms = alpha * np.log(first) + (1 - alpha) * np.log(second)
    return float(np.logaddexp.reduce(terms) / (alpha - 1))


def test_hiding_the_own_message_among_those_who_are_no_clones_would_be_too_little() -> None:
    """Ternary response at epsilon 1 of two senders: the counts of messages from Q_0 and Q_1, without that of the clones
    that tell nothing, are less than the truth."""
    epsilon, at = 1.0, 0.8
    e = math.exp(epsilon)
    a = 1 / (e + 2)

    def chance(first: int, second: int, senders: int) -> float:
        """Of the counts of clones, trinomial; 0 if a count is negative."""
        if min(first, second, senders - first - second) < 0:
            return 0.0
        return float(binom.pmf(first + second, senders, 2 * a) * binom.pmf(first, first + second, 0.5))

    def distribution(first: int, second: int, own: float) -> float:
        rest = (1 - (e + 1) * a) * chance(first, second, 1)
        return own * a * chance(first - 1, second, 1) + (e + 1 - own) * a * chance(first, second - 1, 1) + rest

    counts = [(i, j) for i in range(3) for j in range(3 - i)]
    p, q = (np.array([distribution(i, j, own) for i, j in counts]) for own in (e, 1.0))
    distributions = k_ary_distributions(epsilon, 3)
    truth = max(hockey_stick(*pair, at) for pair in pairs(distributions, 2))
    assert hockey_stick(p, q, at) < 0.5 * truth
    assert truth <= ShuffledLoss(KaryRandomizedResponse(epsilon=epsilon, num_values=3).loss(), 2).delta(at)


def test_two_rounds_cost_no_less_than_they_say() -> None:
    """Binary response of 3 senders: two rounds, by enumeration of all outcomes for all data of the others. Every method
    is above the truth; `rdp` and `pld` are below the local mechanism's, and `pld` is close."""
    epsilon, num_senders, rounds, delta = 1.0, 3, 2, 0.02
    worlds = [
        (np.outer(p, p).ravel(), np.outer(q, q).ravel()) for p, q in pairs(k_ary_distributions(epsilon, 2), num_senders)
    ]
    low, high = 0.0, rounds * epsilon
    for _ in range(60):
        middle = (low + high) / 2
        spent = max(hockey_stick(p, q, middle) for p, q in worlds) > delta
        low, high = (middle, high) if spent else (low, middle)
    local = KaryRandomizedResponse(epsilon=epsilon, num_values=2).loss()
    shuffled, alone = totals(ShuffledLoss(local, num_senders), rounds, delta), totals(local, rounds, delta)
    assert all(total >= high - 1e-9 for total in shuffled.values())
    assert shuffled["basic"] == rounds * epsilon
    assert all(shuffled[method] < alone[method] for method in ("rdp", "pld"))
    assert shuffled["pld"] <= 1.2 * high


def totals(loss: PrivacyLoss, count: int, delta: float) -> dict[str, float]:
    accountant = Accountant(1, 1, [Channel("vote", "one_hot", observer="server", unit="event")])
    accountant.charge("vote", loss, everyone=np.array([count]))
    return {method: float(accountant.epsilon(delta, method=method)[0, 0]) for method in METHODS}


def stronger_clones(epsilon: float, num_senders: int, at: float) -> float:
    """Feldman, McMillan & Talwar (2023), Theorem 3.1, as it is written: C ~ Bin(n-1, 2p) with p = 1 / (e^epsilon + 1),
    A ~ Bin(C, 1/2), Delta ~ Bern(e^epsilon p), and the pair (A + Delta, C - A + 1 - Delta) against (A + 1 - Delta, C -
    A + Delta)."""
    p = 1 / (math.exp(epsilon) + 1)
    first: Distribution = {}
    second: Distribution = {}
    for c in range(num_senders):
        for a in range(c + 1):
            chance = float(binom.pmf(c, num_senders - 1, 2 * p) * binom.pmf(a, c, 0.5))
            for own, probability in ((1, 1 - p), (0, p)):
                for distribution, key in ((first, (a + own, c - a + 1 - own)), (second, (a + 1 - own, c - a + own))):
                    distribution[key] = distribution.get(key, 0.0) + chance * probability
    return sum(max(first[key] - math.exp(at) * second.get(key, 0.0), 0.0) for key in first)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("num_senders", [1, 2, 9, 60])
def test_binary_response_has_the_stronger_clones_of_the_paper(epsilon: float, num_senders: int) -> None:
    loss = ShuffledLoss(KaryRandomizedResponse(epsilon=epsilon, num_values=2).loss(), num_senders)
    for at in np.array([0.0, 0.05, 0.3, 0.7]) * epsilon:
        assert loss.delta(at) == pytest.approx(stronger_clones(epsilon, num_senders, float(at)), rel=1e-9, abs=1e-14)


def without_blocks(epsilon: float, num_values: int, num_senders: int, at: Array) -> Array:
    """Delta of the pair of `ShuffledLoss` for K-ary response, summed over T, m and a_0 up to 9 standard deviations from
    their means: what is left out, less than 1e-17, counts for nothing."""
    p = math.exp(epsilon)
    a = 1 / (p + num_values - 1)
    z = (num_values - 2) * a

    def near(size: int, chance: float) -> Array:
        spread = 9 * math.sqrt(size * chance * (1 - chance)) + 3
        return np.arange(max(0, int(size * chance - spread)), min(size, int(size * chance + spread)) + 1)

    found = np.zeros(len(at))
    for clones in near(num_senders - 1, 2 * a + z):
        t = int(clones) + 1
        m = near(t, 2 * a / (2 * a + z))[:, None]
        ones = np.arange(0, m.max() + 1)[None]
        distribution = binom.pmf(clones, num_senders - 1, 2 * a + z) * binom.pmf(m, t, 2 * a / (2 * a + z))
        distribution = (
            distribution * binom.pmf(ones, m, 0.5) * (2 * a + z)
        )  # b times the chance that the sender is among the T
        first, second = 1 + (p - 1) * ones / t, 1 + (p - 1) * (m - ones) / t
        for i, x in enumerate(at):
            found[i] += (distribution * np.maximum(first - math.exp(x) * second, 0)).sum()
    return found


@pytest.mark.parametrize(("epsilon", "num_values"), [(1.0, 3), (2.5, 7)])
def test_blocks_of_rows_dominate_and_lose_little(epsilon: float, num_values: int) -> None:
    """With 700 senders, many T and m are put into one row."""
    loss = ShuffledLoss(KaryRandomizedResponse(epsilon=epsilon, num_values=num_values).loss(), 700)
    at = epsilon * np.array([0.0, 0.02, 0.1, 0.2])
    exact, ours = without_blocks(epsilon, num_values, 700, at), loss.delta(at)
    assert (ours >= exact * (1 - 1e-9) - 1e-15).all()
    assert (ours <= exact * 1.1 + 1e-9).all()


@pytest.mark.parametrize("make", [BitwiseRandomizedResponse, UnaryEncoding, lambda e: KaryRandomizedResponse(e, 7)])
@pytest.mark.parametrize("num_senders", [1, 3, 40, 1000, 30_000])
def test_the_pair_on_a_grid_dominates_closely(make: Callable[[float], Any], num_senders: int) -> None:
    """Its profile lies above the exact one at all signs of epsilon, by less than 2% where delta exceeds 1e-7."""
    loss = ShuffledLoss(make(2.0).loss(), num_senders)
    first, second = (np.exp(distribution) for distribution in loss.dominating_pair())
    assert first.sum() == pytest.approx(1, rel=1e-9)
    np.testing.assert_allclose(np.sort(first), np.sort(second), rtol=1e-9)
    at = loss.epsilon * np.concatenate([-np.geomspace(1e-4, 1, 30), [0.0], np.geomspace(1e-4, 1, 30)])
    ours, exact = np.array([hockey_stick(first, second, x) for x in at]), loss.delta(at)
    assert (ours >= exact * (1 - 1e-8) - 1e-14).all()
    assert (ours <= exact * 1.02 + 1e-9).all()


def test_a_single_sender_is_not_hidden() -> None:
    for make in (BitwiseRandomizedResponse, UnaryEncoding, lambda e: KaryRandomizedResponse(epsilon=e, num_values=5)):
        local = make(1.5).loss()
        pair = local.dominating_pair()
        assert pair is not None
        loss = ShuffledLoss(local, 1)
        np.testing.assert_allclose(loss.rdp(ORDERS), local.rdp(ORDERS), rtol=1e-12)
        for at in (-0.5, 0.0, 0.7, 1.4, 1.6):
            assert loss.delta(at) == pytest.approx(hockey_stick(np.exp(pair[0]), np.exp(pair[1]), at), abs=1e-15)


@pytest.mark.parametrize("make", [BitwiseRandomizedResponse, UnaryEncoding, lambda e: KaryRandomizedResponse(e, 3)])
def test_more_senders_hide_more(make: Callable[[float], Any]) -> None:
    losses = [ShuffledLoss(make(1.0).loss(), size) for size in (1, 2, 3, 10, 100, 200, 1000, 5000)]
    at = np.array([0.0, 0.003, 0.02, 0.1, 0.5])
    deltas = np.array([loss.delta(at) for loss in losses])
    assert (np.diff(deltas, axis=0) <= 1e-15).all()
    curves = np.array([loss.rdp(ORDERS) for loss in losses])
    assert (np.diff(curves, axis=0) < 0).all()


def test_senders_beyond_a_million_are_not_counted() -> None:
    local = KaryRandomizedResponse(epsilon=1.0, num_values=2).loss()
    most = ShuffledLoss(local, MOST_SENDERS)
    assert ShuffledLoss(local, 10 * MOST_SENDERS) == most
    assert 0 < most.delta(0.001) < ShuffledLoss(local, MOST_SENDERS // 2).delta(0.001)


def test_a_local_message_that_tells_all_is_not_hidden() -> None:
    local = BitwiseRandomizedResponse(50.0).loss()
    loss = ShuffledLoss(local, 1000)
    np.testing.assert_allclose(loss.rdp(ORDERS), local.rdp(ORDERS))
    assert loss.delta(40.0) == pytest.approx(1.0, abs=1e-4)
    assert ShuffledLoss(BitwiseRandomizedResponse(29.0).loss(), 1000).delta(20.0) == pytest.approx(1.0, abs=2e-3)
    assert loss.delta(60.0) == 0


def test_shuffled_messages_are_those_of_the_mechanism() -> None:
    inner = UnaryEncoding(1.0)
    mechanism = Shuffled(inner)
    x = np.eye(4, dtype=int)[[0, 3, 3]]
    histogram = np.array([5, 0, 2, 3])
    first, second = (one.perturb(x, np.random.default_rng(1)) for one in (mechanism, inner))
    np.testing.assert_array_equal(first, second)
    sums = [one.perturb_counts(histogram, np.random.default_rng(1), np.array(12)) for one in (mechanism, inner)]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(mechanism.debias(sums[0], 12), inner.debias(sums[0], 12))
    np.testing.assert_array_equal(mechanism.variance(x), inner.variance(x))
    np.testing.assert_array_equal(
        mechanism.log_likelihood_ratio(first, x, x[::-1]), inner.log_likelihood_ratio(first, x, x[::-1])
    )
    assert mechanism.loss() == inner.loss()
    assert mechanism.summed_loss(30) == ShuffledLoss(inner.loss(), 30)
    assert (mechanism.kind, mechanism.payloads) == (inner.kind, inner.payloads)
    assert mechanism.closed_counts
    assert not mechanism.stateful


def test_a_shuffled_loss_is_a_value() -> None:
    loss = ShuffledLoss(BitwiseRandomizedResponse(1.0).loss(), 30)
    assert pickle.loads(pickle.dumps(loss)) == loss == ShuffledLoss(BitwiseRandomizedResponse(1.0).loss(), 30)
    assert hash(loss) != hash(ShuffledLoss(loss.loss, 31))
    assert loss.group(7) == loss  # one message, however much of its sender's data have changed
    assert loss.epsilon == 1
    assert loss.rho < loss.loss.rho
    first, _ = loss.dominating_pair()
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0


@pytest.mark.parametrize("wrong", [pure(1.0), Laplace(1.0).loss(), NoPrivacy().loss(), None, 3])
def test_only_randomised_response_is_shuffled(wrong: Any) -> None:
    with pytest.raises(ValueError, match="loss must be the loss of BitwiseRandomizedResponse, UnaryEncoding or Kary"):
        ShuffledLoss(wrong, 10)


def test_wrong_arguments_are_refused() -> None:
    local = BitwiseRandomizedResponse(1.0).loss()
    for wrong in (0, -1, 2.0, True, math.nan):
        with pytest.raises(ValueError, match="num_senders must be an integer >= 1"):
            ShuffledLoss(local, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loss must be the loss of"):
        ShuffledLoss(ShuffledLoss(local, 3), 3)
    with pytest.raises(ValueError, match=r"mechanism must be BitwiseRandomizedResponse, .* not Laplace"):
        Shuffled(Laplace(1.0))
    with pytest.raises(ValueError, match="mechanism must be one without state"):
        Shuffled(Memoized(BitwiseRandomizedResponse(1.0)))
    with pytest.raises(ValueError, match="mechanism must be one without state"):
        Shuffled(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at must hold finite numbers"):
        ShuffledLoss(local, 3).delta(math.nan)


# Sums of bits.


def column_distribution(holders: int, others: int, own: float, p: float, q: float) -> Array:
    """P(how many of `others` + 1 senders set a bit), of whom `holders` others hold the option; the sender itself sets
    it with probability `own`."""
    distribution = np.convolve(
        binom.pmf(np.arange(holders + 1), holders, p),
        binom.pmf(np.arange(others - holders + 1), others - holders, q),
    )
    return np.convolve(distribution, [1 - own, own])


def excess(first: Array, second: Array, epsilon: float) -> float:
    """The hockey-stick divergence of order e^epsilon."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("local", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("others", [0, 1, 4, 12, 40])
def test_sums_of_bits_say_no_more_than_they_cost(local: float, others: int) -> None:
    """A sender's option changes from the first to the second; whatever the others hold, the numbers of bits set say no
    more than the claim, at each epsilon and each Renyi order. The third bit and further ones have the same law in both
    worlds. With 40 others, the worst data leak at least a fifth of the claimed divergence of order 2."""
    mechanism = BitwiseRandomizedResponse(local)
    p, q = mechanism.p, mechanism.q
    claimed = Shuffled(mechanism).summed_loss(others + 1)
    assert isinstance(claimed, ShuffledBitsLoss)
    pair = claimed.bit.dominating_pair()
    distribution, other = (np.exp(np.add.outer(one, one)) for one in pair)
    worst = 0.0
    for holders in {(i, j) for i in (0, others // 2, others) for j in (0, others // 2, others) if i + j <= others}:
        worlds = [
            np.multiply.outer(
                *(column_distribution(m, others, own, p, q) for m, own in zip(holders, owns, strict=True))
            )
            for owns in ((p, q), (q, p))
        ]
        for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
            bound = excess(distribution, other, epsilon) + 1e-12
            assert max(excess(worlds[0], worlds[1], epsilon), excess(worlds[1], worlds[0], epsilon)) <= bound
        for order in (1.5, 2.0, 8.0):
            there = np.minimum(*worlds) > 1e-300
            one, two = (np.log(world[there]) for world in worlds)
            found = float(np.logaddexp.reduce(order * one + (1 - order) * two)) / (order - 1)
            assert found <= float(claimed.rdp(np.array([order]))[0]) + 1e-9
            worst = max(worst, found / float(claimed.rdp(np.array([order]))[0])) if order == 2.0 else worst
    assert worst > (0.99 if others == 0 else 0.2)


def test_bits_shuffled_by_themselves_hide_better_than_vectors() -> None:
    for local, senders in ((1.0, 30), (2.5, 100)):
        loss = BitwiseRandomizedResponse(local).loss()
        alone, vectors = Shuffled(BitwiseRandomizedResponse(local)).summed_loss(senders), ShuffledLoss(loss, senders)
        assert alone.epsilon == vectors.epsilon == local
        assert (alone.rdp(ORDERS) < vectors.rdp(ORDERS)).all()
        assert alone.rho < vectors.rho < loss.rho
    with pytest.raises(ValueError, match="loss must be that of BitwiseRandomizedResponse"):
        ShuffledBitsLoss(UnaryEncoding(1.0).loss(), 5)  # type: ignore[arg-type]


def test_totals_of_bits_by_privacy_loss_distributions() -> None:
    """That of one round is the exact hockey-stick of the two bits' pairs, up to the grid; `rdp` is larger."""
    pytest.importorskip("dp_accounting")
    loss = Shuffled(BitwiseRandomizedResponse(2.5)).summed_loss(99)
    accountant = Accountant(1, 1, [Channel("preference", "one_hot", observer="neighbour", unit="event", num_senders=1)])
    accountant.charge("preference", loss, np.ones(1, np.int64))
    exact, wide = (float(accountant.epsilon(1e-5, method=method)[0, 0]) for method in ("pld", "rdp"))
    assert isinstance(loss, ShuffledBitsLoss)
    distribution, other = (np.exp(np.add.outer(one, one)) for one in loss.bit.dominating_pair())
    assert excess(distribution, other, exact) <= 1e-5 <= excess(distribution, other, 0.95 * exact)
    assert exact < wide
