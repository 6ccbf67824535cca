"""Every total and every budget against the exact privacy of what was sent: losses are convolved, transcripts enumerated
and adversaries played out in this file alone, from what each mechanism's source says of its law."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.special import logsumexp
from scipy.stats import binom, norm

from taciturn.envs.core import Array, Channel, ChannelConfig, Streams
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.budget import Budget
from taciturn.privacy.composition import METHODS
from taciturn.privacy.losses import PrivacyLoss, pure
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    ChosenLevels,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    Memoized,
    SampledLoss,
    Scheduled,
    Shuffled,
    ShuffledLoss,
    UnaryEncoding,
)
from taciturn.privacy.shuffling import clone_probabilities

# A law of losses log P/Q: the losses, and their probabilities under P.
Losses = tuple[Array, Array]
Sent = list[tuple[Losses, int]]


def of_pair(first: Any, second: Any) -> Losses:
    p, q = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return np.log(p / q), p


def backwards(losses: Losses) -> Losses:
    """The losses log Q/P under Q."""
    at, p = losses
    return -at, p * np.exp(-at)


def both(first: Losses, second: Losses) -> Losses:
    return np.add.outer(first[0], second[0]).ravel(), np.outer(first[1], second[1]).ravel()


def response(epsilon: float) -> Losses:
    p = 1 / (1 + math.exp(-epsilon))
    return of_pair([p, 1 - p], [1 - p, p])


def bits(epsilon: float) -> Losses:
    return both(response(epsilon / 2), response(epsilon / 2))


def optimised(epsilon: float) -> Losses:
    q = 1 / (math.exp(epsilon) + 1)
    one = of_pair([0.5, 0.5], [q, 1 - q])
    return both(one, backwards(one))


def k_ary(epsilon: float, size: int = 4) -> Losses:
    distribution = np.array([math.exp(epsilon), *[1] * (size - 1)]) / (math.exp(epsilon) + size - 1)
    return of_pair(distribution, np.roll(distribution, 1))


def selection(epsilon: float) -> Losses:
    """Of 30 options, one loses and all others gain a sensitivity."""
    scores = np.array([1.0, *[0] * 29])
    distribution, other = (np.exp(epsilon * u / 2) / np.exp(epsilon * u / 2).sum() for u in (scores, 1 - scores))
    return of_pair(distribution, other)


def laplace(epsilon: float) -> Losses:
    """In cells, which tell no more than the number itself."""
    x = np.linspace(0, 1, 51)
    distribution = -np.diff(np.exp(-epsilon * x)) / 2
    ends = np.array([0.5, *distribution, math.exp(-epsilon) / 2])
    return of_pair(ends, ends[::-1])


def gaussian(mu: float) -> Losses:
    edges = np.arange(-6, 6 + mu, 0.02)
    p, q = (np.diff(norm.cdf(np.array([-np.inf, *edges, np.inf]), shift)) for shift in (mu, 0.0))
    seen = (p > 1e-16) & (q > 1e-16)
    return of_pair(p[seen], q[seen])


def sampled(losses: Losses, rate: float) -> Losses:
    at, p = losses
    q = p * np.exp(-at)
    return of_pair(rate * p + (1 - rate) * q, q)


def shuffled(epsilon: float, ones: int, others: int) -> Losses:
    """The number of ones among binary responses, of whom `ones` others hold 1; the sender holds 1, or 0."""
    p = 1 / (1 + math.exp(-epsilon))
    rest = np.convolve(
        binom.pmf(np.arange(ones + 1), ones, p), binom.pmf(np.arange(others - ones + 1), others - ones, 1 - p)
    )
    return of_pair(np.convolve(rest, [1 - p, p]), np.convolve(rest, [p, 1 - p]))


def composed(sent: Sent) -> Losses:
    """The sum of independent losses on a grid, each rounded down, without outcomes that have hardly a chance, so that
    the result tells no more than they do. Rounding takes at most a tenth of a standard deviation."""
    variances = [count * float(p @ at**2 - (p @ at) ** 2) for (at, p), count in sent]
    step = math.sqrt(sum(variances)) / 10 / sum(count for _, count in sent)
    low, distribution = 0, np.ones(1)

    def added(one: Array, first: int, other: Array, second: int) -> tuple[Array, int]:
        found = np.maximum(fftconvolve(one, other), 0)
        ends = np.searchsorted(np.cumsum(found), [1e-9, found.sum() - 1e-9])
        return found[ends[0] : ends[1] + 1], first + second + int(ends[0])

    for (at, p), count in sent:
        place = np.floor(at / step).astype(int)
        power, begin, left = np.bincount(place - place.min(), p), int(place.min()), count
        while left:
            if left % 2:
                distribution, low = added(distribution, low, power, begin)
            if left := left // 2:
                power, begin = added(power, begin, power, begin)
    return (low + np.arange(len(distribution))) * step, distribution


def epsilons_of(sent: Sent, deltas: Sequence[float]) -> list[float]:
    """Of messages sent, at each delta, in the worse direction: the last point of the grid at which delta is exceeded, 0
    if there is none."""
    found = [0.0] * len(deltas)
    for losses in (composed(sent), composed([(backwards(one), count) for one, count in sent])):
        at, p = (x[losses[0] >= 0] for x in losses)
        first, second = (np.cumsum(distribution[::-1])[::-1] for distribution in (p, p * np.exp(-at)))
        excess = first - np.exp(at) * second
        found = [max(one, *at[excess > delta][-1:], 0.0) for one, delta in zip(found, deltas, strict=True)]
    return found


# How a message of a given size is charged, and what it tells; `size` is epsilon, or mu of Gaussian noise. If `events`
# change at once, numbers and scores move so many times as far, and randomised responses no farther.
KINDS: dict[str, tuple[Callable[[float], PrivacyLoss], Callable[[float], Losses], bool]] = {
    "bits": (lambda size: BitwiseRandomizedResponse(size).loss(), bits, True),
    "optimised": (lambda size: UnaryEncoding(size).loss(), optimised, True),
    "k-ary": (lambda size: KaryRandomizedResponse(epsilon=size, num_values=4).loss(), k_ary, True),
    "selection": (lambda size: Exponential(size).loss(), selection, False),
    "Laplace": (lambda size: Laplace(size).loss(), laplace, False),
    "laplace on a grid": (lambda size: Laplace(size, sampler="exact").loss(), laplace, False),
    "gaussian": (lambda size: Gaussian.from_rho(size**2 / 2).loss(), gaussian, False),
    "any": (pure, response, False),
    "sampled": (
        lambda size: SampledLoss(KaryRandomizedResponse(epsilon=size, num_values=2).loss(), 0.25),
        lambda size: sampled(response(size), 0.25),
        True,
    ),
    "sampled gaussian": (
        lambda size: SampledLoss(Gaussian.from_rho(size**2 / 2).loss(), 0.25),
        lambda size: sampled(gaussian(size), 0.25),
        True,
    ),
    "shuffled": (
        lambda size: ShuffledLoss(KaryRandomizedResponse(epsilon=size, num_values=2).loss(), 4),
        lambda size: shuffled(size, 0, 3),
        True,
    ),
    "shuffled bits": (
        lambda size: Shuffled(BitwiseRandomizedResponse(size)).summed_loss(4),
        lambda size: both(shuffled(size / 2, 0, 3), backwards(shuffled(size / 2, 0, 3))),
        True,
    ),
}
LEVELS: dict[str, tuple[float, Callable[[float], Losses], bool]] = {
    "randomized_response": (ChosenLevels(BitwiseRandomizedResponse(1.0)).zcdp, bits, True),
    "laplace": (ChosenLevels(Laplace(1.0)).zcdp, laplace, False),
    "k_ary_randomized_response": (0.5, response, True),
}


def accountant_of(disjoint: bool = False) -> Accountant:
    return Accountant(1, 1, [Channel("x", "bounded", observer="server", unit="event", disjoint=disjoint)])


def bounds(accountant: Accountant, delta: float, unit: Any = None) -> dict[str, float]:
    """By all methods but `pld`, and by the odometer."""
    found = {method: float(accountant.epsilon(delta, method=method, unit=unit)[0, 0]) for method in METHODS[:4]}
    return found | {"odometer": float(accountant.odometer(delta, unit=unit)[0, 0])}


def charge_level(accountant: Accountant, kind: str, level: float, events: int | None = None) -> None:
    zcdp = LEVELS[kind][0]
    accountant.charge_levels("x", np.full((1, 1), level), kind=kind, zcdp=zcdp, events=events)


DELTAS = 0.1, 1e-3, 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_no_total_is_less_than_the_exact_one(seed: int) -> None:
    """Random messages of two kinds, and at chosen levels of two: all together, the costliest alone on a disjoint
    channel, and those whose events all change at once."""
    rng = np.random.default_rng(seed)
    sent: Sent = []
    grouped: Sent = []
    events = int(rng.integers(2, 4))
    accountants = [accountant_of(), accountant_of(disjoint=True)]
    for kind in rng.permutation([kind for kind in KINDS if kind != "sampled gaussian"])[:2]:  # it takes long
        loss, distribution, local = KINDS[kind]
        size, count = rng.integers(1, 17) * 0.05, int(rng.choice([1, 3, 20, 60]))
        for accountant in accountants:
            accountant.charge("x", loss(size), np.array([count]), events=events)
        sent.append((distribution(size), count))
        grouped.append((distribution(size if local else events * size), count))
    for kind in rng.permutation([*LEVELS])[:2]:
        _, distribution, local = LEVELS[kind]
        for level in rng.choice([0.05, 0.2, 0.5, 1.0], 4):
            for accountant in accountants:
                charge_level(accountant, kind, level, events)
            sent.append((distribution(level), 1))
            grouped.append((distribution(level if local else events * level), 1))
    costliest = np.max([epsilons_of([(one, 1)], DELTAS) for one, _ in sent], axis=0)
    for accountant, unit, truth in (
        (accountants[0], None, epsilons_of(sent, DELTAS)),
        (accountants[0], "user", epsilons_of(grouped, DELTAS)),
        (accountants[1], "event", costliest),
    ):
        for delta, exact in zip(DELTAS, truth, strict=True):
            for method, bound in bounds(accountant, delta, unit).items():
                assert bound >= exact, (unit, delta, method)


# Where more than the exact epsilon is reported: the worst of so many options, and of all pairs of worlds, is another.
CLOSE = {"selection": 25, "sampled": 2.5, "sampled gaussian": 2.5, "shuffled": 1.7, "shuffled bits": 1.7}


@pytest.mark.parametrize("kind", [*KINDS, *LEVELS])
def test_totals_of_many_small_messages_are_close(kind: str) -> None:
    """400 messages of the same kind, at a delta at which their mean loss weighs more than its spread: the exact
    epsilon, and not much more."""
    accountant, size, count = accountant_of(), 0.3, 400
    if kind in LEVELS:
        distribution = LEVELS[kind][1](size)
        for _ in range(count):
            charge_level(accountant, kind, size)
    else:
        loss, make, _ = KINDS[kind]
        distribution = make(size)
        accountant.charge("x", loss(size), np.array([count]))
    (exact,) = epsilons_of([(distribution, count)], [0.3])
    found = bounds(accountant, 0.3)
    assert exact <= min(found.values()) <= CLOSE.get(kind, 1.4) * exact
    if kind in LEVELS or kind in ("any", "Laplace"):
        assert found["advanced"] <= (3.0 if kind == "randomized_response" else 1.6) * exact
        assert found["zcdp"] <= 1.4 * exact
        assert found["odometer"] <= 2.2 * exact


def test_distributions_count_chosen_levels_and_the_costliest_of_disjoint_messages() -> None:
    """By privacy loss distributions: 20 chosen levels beside 30 counted messages; and one clear Gaussian message among
    100 that tell less."""
    pytest.importorskip("dp_accounting")
    accountant, apart = accountant_of(), accountant_of(disjoint=True)
    accountant.charge("x", KINDS["bits"][0](0.2), np.array([30]))
    for _ in range(20):
        charge_level(accountant, "laplace", 0.1)
    for mu, count in ((0.1, 100), (0.8, 1)):
        apart.charge("x", KINDS["gaussian"][0](mu), np.array([count]))
    scenes: list[tuple[Accountant, Any, Sent]] = [
        (accountant, None, [(bits(0.2), 30), (laplace(0.1), 20)]),
        (apart, "event", [(gaussian(0.8), 1)]),
    ]
    for one, unit, sent in scenes:
        (exact,) = epsilons_of(sent, [1e-4])
        assert exact <= one.epsilon(1e-4, method="pld", unit=unit)[0, 0] <= 1.5 * exact


def largest_divergence(losses: Losses, order: float) -> float:
    """The Renyi divergence, in the worse direction."""
    return max(float(logsumexp((order - 1) * at, b=p)) / (order - 1) for at, p in (losses, backwards(losses)))


ORDERS = np.array([1.01, 1.5, 2.0, 5.0, 20.0, 80.0])


@pytest.mark.parametrize("kind", KINDS)
def test_no_loss_is_less_than_that_of_its_law(kind: str) -> None:
    """Of a message, and of one of which three units change: the largest loss, and Renyi divergences."""
    make, distribution, local = KINDS[kind]
    for units, size in itertools.product((1, 3), (0.1, 0.5, 2.0)):
        loss, losses = make(size).group(units), distribution(size if local else units * size)
        if "gaussian" not in kind:
            assert max(np.abs(losses[0])) <= loss.epsilon * (1 + 1e-9)
        exact = np.array([largest_divergence(losses, order) for order in ORDERS])
        assert (exact <= loss.rdp(ORDERS) * (1 + 1e-9) + 1e-12).all()
        assert (exact <= loss.rho * ORDERS * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("kind", LEVELS)
def test_sums_of_chosen_levels_bound_the_losses_of_their_law(kind: str) -> None:
    """Mean, square and Renyi divergence of the losses, of which one or three units change; and the mean is at most
    epsilon^2 / 2."""
    rng, accountant, sent = np.random.default_rng(0), accountant_of(), []
    _, distribution, local = LEVELS[kind]
    for level in rng.choice([0.1, 0.5, 2.0], 9):
        charge_level(accountant, kind, level)
        sent.append(level)
    (account,) = accountant.accounts
    for units in (1, 3):
        losses = [distribution(level if local else units * level) for level in sent]
        epsilon, drift, squares, rho = (float(x[0, 0]) for x in account.sums(False, units))  # type: ignore[union-attr]
        levels = units * np.array(sent)
        np.testing.assert_allclose([epsilon, squares], [levels.sum(), levels @ levels])
        response_mean = float((levels * np.tanh(levels / 2)).sum())  # of the response that dominates the message
        assert max(response_mean, sum(float(at @ p) for at, p in losses)) <= drift <= squares / 2 * (1 + 1e-9)
        for order in ORDERS:
            assert sum(largest_divergence(one, order) for one in losses) <= order * rho * (1 + 1e-9)


# Clones.


def distributions(kind: str, epsilon: float, options: int) -> list[Array]:
    """The laws of all messages, of senders that hold each option, and of one that holds none where it may."""
    if kind == "k-ary":
        e = math.exp(epsilon)
        return [np.where(np.arange(options) == held, e, 1.0) / (e + options - 1) for held in range(options)]
    q = 1 / (math.exp(epsilon / 2) + 1) if kind == "bits" else 1 / (math.exp(epsilon) + 1)
    p = 1 - q if kind == "bits" else 0.5
    messages = np.array(list(itertools.product((0, 1), repeat=options)))
    chances = np.where(np.eye(options + 1, options)[:, None] == 1, p, q)
    return list(np.where(messages == 1, chances, 1 - chances).prod(-1))


@pytest.mark.parametrize(("kind", "options"), [("k-ary", 2), ("k-ary", 5), ("bits", 3), ("bits", 4), ("optimised", 3)])
def test_others_are_clones_with_the_probability_stated(kind: str, options: int) -> None:
    """R_i >= a Q_0 + a Q_1 + z Q_z message by message, whatever the other sender holds; with more clones it would not
    be."""
    for epsilon in (0.3, 1.0, 4.0):
        response = KaryRandomizedResponse(epsilon=epsilon, num_values=options)
        loss = response.loss() if kind == "k-ary" else KINDS[kind][0](epsilon)
        a, z = clone_probabilities(loss)
        first, second, *others = distributions(kind, epsilon, options)
        ratio, p = np.log(first / second), math.exp(epsilon)
        up, down = ratio > epsilon - 1e-9, ratio < 1e-9 - epsilon
        same = np.abs(ratio) < 1e-9
        for other in (first, second, *others):
            assert (other[up] * (1 + 1e-9) >= first[up] / p).all()
            assert (other[down] * (1 + 1e-9) >= second[down] / p).all()
        hidden = same & np.all([other * (1 + 1e-9) >= first for other in (second, *others)], axis=0)
        np.testing.assert_allclose([a, a, z], [first[up].sum() / p, second[down].sum() / p, first[hidden].sum()])


@pytest.mark.parametrize("kind", ["k-ary", "bits"])
def test_many_senders_cost_what_the_sum_over_all_outcomes_says(kind: str) -> None:
    """At 300 senders, of which blocks are formed: `ShuffledLoss`'s pair, added up over its T, m and a_0 one by one; at
    most 4% more is stated."""
    epsilon, senders = 1.0, 300
    p = math.exp(epsilon)
    h = math.exp(epsilon / 2)
    a, z = (1 / (p + 2), 1 / (p + 2)) if kind == "k-ary" else (1 / (h + 1) ** 2, h / (h + 1) ** 2)
    ternary = KaryRandomizedResponse(epsilon=epsilon, num_values=3)
    local = ternary if kind == "k-ary" else BitwiseRandomizedResponse(epsilon)
    loss = ShuffledLoss(local.loss(), senders)

    def likely(size: Any, chance: float) -> Array:
        spread = 6 * math.sqrt(size * chance * (1 - chance))
        return np.arange(max(0, round(size * chance - spread)), min(size, round(size * chance + spread)) + 1)

    at, exact = np.array([0.02, 0.1, 0.2]), np.zeros(3)
    own, others = (p + 1) * a + z, 2 * a + z
    for clones in likely(senders - 1, others):
        t = int(clones) + 1
        m = likely(t, 2 * a / others)[:, None]
        zero = likely(int(m[-1, 0]), 0.5)
        chance = own * binom.pmf(clones, senders - 1, others) * binom.pmf(m, t, 2 * a / others) * others / own
        distribution = chance * binom.pmf(zero, m, 0.5)
        first, second = (distribution * (1 + (p - 1) * np.maximum(n, 0) / t) for n in (zero, m - zero))
        exact += [np.maximum(first - math.exp(x) * second, 0).sum() for x in at]
    stated = loss.delta(at)
    assert (exact <= stated * (1 + 1e-6)).all()
    assert (stated <= 1.04 * exact).all()


# Adversaries.


@pytest.mark.parametrize("chosen", [False, True], ids=["messages", "chosen levels"])
@pytest.mark.parametrize(
    "budget",
    [Budget(2.0), *(Budget(e, d, method=m) for m in ("zcdp", "rdp") for e, d in ((2.0, 0.1), (1.5, 0.02)))],
    ids=lambda budget: f"{budget.method}-{budget.delta}",
)
def test_no_adaptive_adversary_gets_more_than_a_budget(budget: Any, chosen: bool) -> None:
    """One that chooses the level of each binary response, and when to stop, by what it has seen: the exact value of
    its game is at most delta, and at least a sixth of it. Whom the budget lets send is asked of agents with all
    histories at once."""
    levels = np.array([0.25, 0.5, 1.0])
    histories = np.array(list(itertools.product(range(25), range(9), range(4))))  # more than any of the budgets allows
    accountant = Accountant(1, len(histories), [Channel("x", "one_hot", observer="server", unit="event")])
    for count in range(24):
        for level, sent in zip(levels, histories.T, strict=True):
            who = (sent > count)[None]
            if chosen:
                accountant.charge_levels("x", who * level, kind="pure")
            else:
                accountant.charge("x", pure(level), each=who)
    losses = np.arange(-200, 201) * 0.25
    stop = np.maximum(-np.expm1(budget.epsilon - losses), 0)
    worth: dict[tuple[int, ...], Array] = {}
    allowed = {
        level: budget.allows(accountant, np.full((1, len(histories)), level) if chosen else pure(level), "x")[0]
        for level in levels.tolist()
    }
    for number in np.argsort(-histories.sum(1), kind="stable"):
        best = stop
        for i, level in enumerate(levels.tolist()):
            after = tuple(histories[number] + np.eye(3, dtype=int)[i])
            if allowed[level][number] and after in worth:
                p, step = 1 / (1 + math.exp(-level)), round(level / 0.25)
                best = np.maximum(best, p * np.roll(worth[after], -step) + (1 - p) * np.roll(worth[after], step))
        worth[tuple(histories[number])] = best
    value = float(worth[0, 0, 0][losses == 0][0])
    assert budget.delta / 6 <= value <= budget.delta + 1e-12


# Transcripts.

SCRIPT: list[int] = []
CHANCE: list[float] = []


class Scripted(BitwiseRandomizedResponse):
    """Answers as the script says, and notes how probable that is."""

    def perturb(self, x: Any, rng: Any, sensitivity: Any = None) -> Array:
        answer = np.array([SCRIPT.pop(0) for _ in range(x.size)]).reshape(x.shape)
        CHANCE.extend(np.where(answer == x, self.p, self.q).ravel())
        return answer.astype(x.dtype)


TWO = np.eye(2, dtype=np.int64)


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        (Scripted(1.0), None),
        (Scripted(1.0), Budget(2.0)),
        (Scheduled(Scripted(1.0), at=2), None),
        (Memoized(Scripted(1.0)), Budget(1.0)),
        (ChosenLevels(Scripted(1.0)), None),
        (ChosenLevels(Scripted(1.0), repeats=False), Budget(1.25)),
    ],
    ids=["each", "each within a budget", "scheduled", "memoised", "levels", "levels that fit"],
)
@pytest.mark.parametrize("sends", [(True, True, True), (False, True, True), (True, False, False)], ids=str)
def test_no_transcript_tells_more_than_was_charged(mechanism: Any, budget: Any, sends: Any) -> None:
    """Of one agent in three rounds, by enumeration of all answers, for all data: the largest ratio of the chances of
    what was read, who sent included, is what an accountant says at user level; in a run of objects that were used
    before."""
    channel = Channel("x", "one_hot", observer="server", unit="event", num_senders=1)
    told: list[dict[Any, float]] = []
    charged = set()
    for values in itertools.product((0, 1), repeat=3):
        distribution: dict[Any, float] = {}
        for script in itertools.product((0, 1), repeat=6):
            accountant = Accountant(1, 1, [channel])
            channel.install(ChannelConfig(mechanism, budget), accountant)
            channel.draw_from(Streams(0))
            channel.reset(1)
            SCRIPT[:], CHANCE[:] = script, []
            read = []
            for value, now, level in zip(values, sends, (0.5, 0.0, 1.0), strict=True):
                channel.levels = np.full((1, 1), level)
                y, there = channel.send(TWO[[[value]]], np.full((1, 1), now))
                read.append((*y.ravel().tolist(), *there.ravel().tolist()))
            distribution[tuple(read)] = distribution.get(tuple(read), 0.0) + math.prod(CHANCE) / 2 ** len(SCRIPT)
            charged.add(round(float(accountant.epsilon(0.0, "max", "basic", unit="user")[0]), 9))
        assert math.isclose(sum(distribution.values()), 1.0)
        told.append(distribution)
    exact = max(abs(math.log(one[key] / other[key])) for one, other in itertools.permutations(told, 2) for key in one)
    assert exact == pytest.approx(max(charged), abs=1e-9)
