"""`SampledLoss`: no sampled message says more than it costs, where samples can be enumerated or integrated."""

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest

from taciturn.envs.core import Array, Channel
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.composition import METHODS, ORDERS
from taciturn.privacy.losses import ExponentialLoss, PrivacyLoss, pure
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    Exponential,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    NoPrivacy,
    SampledLoss,
    Shuffled,
    TreeAggregation,
)

Distribution = dict[tuple[int, ...], float]

ALPHAS = np.array([1.2, 2.0, 3.0, 8.0, 50.0])


def k_ary_distributions(epsilon: float, size: int) -> list[Array]:
    e = math.exp(epsilon)
    return [np.where(np.arange(size) == value, e, 1.0) / (e + size - 1) for value in range(size)]


def kary(epsilon: float, size: int) -> PrivacyLoss:
    return KaryRandomizedResponse(epsilon=epsilon, num_values=size).loss()


def of_sample(values: tuple[int, ...], distributions: list[Array], drawn: int) -> Array:
    """The law of the number of messages of each kind, where `drawn` of the users answer, all samples equally likely."""
    size = len(distributions)
    shape = (drawn + 1,) * size
    total = np.zeros(shape)
    samples = list(itertools.combinations(values, drawn))
    for sample in samples:
        for answers in itertools.product(range(size), repeat=drawn):
            chance = math.prod(
                float(distributions[value][answer]) for value, answer in zip(sample, answers, strict=True)
            )
            total[tuple(np.bincount(answers, minlength=size))] += chance / len(samples)
    return total[total > 0]


def worlds(size: int, users: int, changed: int = 1) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of data that differ in what the first `changed` users hold."""
    found = []
    for rest in itertools.combinations_with_replacement(range(size), users - changed):
        for first, second in itertools.permutations(itertools.product(range(size), repeat=changed), 2):
            found.append(((*first, *rest), (*second, *rest)))
    return found


def hockey_stick(first: Array, second: Array, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


def renyi(first: Array, second: Array, alpha: float) -> float:
    return log_renyi(np.log(first), np.log(second), alpha)


def log_renyi(first: Array, second: Array, alpha: float) -> float:
    return float(np.logaddexp.reduce(alpha * first + (1 - alpha) * second) / (alpha - 1))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize(("size", "users", "drawn"), [(2, 3, 1), (2, 5, 1), (3, 4, 1), (2, 4, 2), (3, 4, 3), (2, 3, 3)])
def test_no_sample_says_more_than_it_costs(size: int, users: int, drawn: int, epsilon: float) -> None:
    """All data of all users, and all samples. If one user is drawn the deltas, and the largest loss, are the truth, and
    the divergence is at least half of the bound."""
    distributions, loss = k_ary_distributions(epsilon, size), SampledLoss(kary(epsilon, size), drawn / users)
    at = loss.epsilon * np.array([-0.5, 0.0, 0.2, 0.6, 0.99])
    pairs = [tuple(of_sample(world, distributions, drawn) for world in both) for both in worlds(size, users)]
    truth = np.array([max(hockey_stick(p, q, x) for p, q in pairs) for x in at])
    assert (truth <= loss.delta(at) * (1 + 1e-9) + 1e-15).all()
    divergence = np.array([max(renyi(p, q, alpha) for p, q in pairs) for alpha in ALPHAS])
    assert (divergence <= loss.rdp(ALPHAS) * (1 + 1e-9)).all()
    assert (divergence <= loss.rho * ALPHAS * (1 + 1e-9)).all()
    largest = max(float(np.log(p / q).max()) for p, q in pairs)
    assert largest <= loss.epsilon * (1 + 1e-12)
    if drawn == 1:
        np.testing.assert_allclose(loss.delta(at), truth, rtol=1e-9)
        assert largest == pytest.approx(loss.epsilon)
        assert (divergence >= 0.5 * loss.rdp(ALPHAS)).all()


@pytest.mark.parametrize("drawn", [1, 2])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_no_gaussian_mixture_says_more_than_it_costs(mu: float, drawn: int) -> None:
    """Three users hold numbers between 0 and 1, and the sum over those drawn has noise of deviation 1 / mu. Densities
    are integrated on a grid; the largest delta is the claim, and the largest divergence at least 0.45 of it."""
    loss, step = SampledLoss(Gaussian.from_rho(mu**2 / 2).loss(), drawn / 3), 1 / 256
    x = np.arange(-14.0, 14.0 + 2 * mu + 8 * mu, step)
    orders, at = np.array([1.3, 2.0, 4.0, 6.0]), np.array([-0.3, 0.0, 0.2, 0.7])

    def log_density(values: tuple[float, ...]) -> Array:
        sums = [mu * sum(sample) for sample in itertools.combinations(values, drawn)]
        distribution = np.logaddexp.reduce([-((x - one) ** 2) / 2 for one in sums])
        return np.asarray(distribution + math.log(step / len(sums) / math.sqrt(2 * math.pi)))

    pairs = [
        (log_density((first, *rest)), log_density((second, *rest)))
        for rest in itertools.combinations_with_replacement((0.0, 0.5, 1.0), 2)
        for first, second in itertools.permutations((0.0, 0.4, 1.0), 2)
    ]
    truth = np.array([max(hockey_stick(np.exp(p), np.exp(q), one) for p, q in pairs) for one in at])
    assert (truth <= loss.delta(at) * (1 + 1e-4)).all()
    np.testing.assert_allclose(truth, loss.delta(at), rtol=1e-4 if drawn == 1 else 0.2)
    divergence = np.array([max(log_renyi(p, q, alpha) for p, q in pairs) for alpha in orders])
    assert (divergence <= loss.rdp(orders) * (1 + 1e-6)).all()
    assert (divergence >= 0.45 * loss.rdp(orders)).all()


def wang(epsilon: Any, largest: float, rate: float, alpha: int) -> float:
    """Wang, Balle & Kasiviswanathan (2019), Theorem 9: `epsilon(j)` is the divergence of order j, at integer orders."""

    def power(j: int) -> float:
        return min(2.0, math.expm1(largest) ** j) if largest < 100 else 2.0

    second = min(4 * math.expm1(epsilon(2)), math.exp(epsilon(2)) * power(2))
    terms = 1 + rate**2 * math.comb(alpha, 2) * second
    for j in range(3, alpha + 1):
        terms += rate**j * math.comb(alpha, j) * math.exp((j - 1) * epsilon(j)) * power(j)
    return math.log(terms) / (alpha - 1)


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.5])
@pytest.mark.parametrize(
    "loss",
    [kary(0.5, 2), kary(3.0, 4), BitwiseRandomizedResponse(1.0).loss(), Laplace(1.0).loss(), Exponential(0.5).loss()],
    ids=lambda loss: f"{loss.kind}-{loss.epsilon:.2g}",
)
def test_the_divergence_is_below_the_general_bound(loss: PrivacyLoss, rate: float) -> None:
    sampled = SampledLoss(loss, rate)
    known = pure(loss.epsilon) if loss.dominating_pair() is None and loss.kind == "exponential" else loss
    for alpha in (2, 3, 5, 12, 30):
        bound = wang(lambda j: float(worst(known).rdp(j)), loss.epsilon, rate, alpha)
        ours = float(sampled.rdp(float(alpha)))
        assert 0 < ours <= bound
        assert ours <= float(loss.rdp(float(alpha))) * (1 + 1e-12)


def worst(loss: PrivacyLoss) -> PrivacyLoss:
    """Of a loss of which only epsilon is known: that of binary response."""
    return kary(loss.epsilon, 2) if type(loss) is PrivacyLoss else loss


@pytest.mark.parametrize("mu", [0.02, 0.5, 1.0, 2.0])
@pytest.mark.parametrize(("drawn", "users"), [(1, 3), (2, 3), (1, 100), (10, 1000)])
def test_gaussian_noise_costs_no_more_than_dp_accounting_says(mu: float, drawn: int, users: int) -> None:
    """Not even 1e-6 more where alpha mu is in reach, and at least 0.18 of it (it has a factor of 4 at small rates)."""
    import dp_accounting  # type: ignore[import-untyped]
    from dp_accounting.rdp import rdp_privacy_accountant as rdp  # type: ignore[import-untyped]

    orders = np.array([1.5, 2.0, 3.0, 8.0, 20.0])
    accountant = rdp.RdpAccountant(orders.tolist(), dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.GaussianDpEvent(1 / mu)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(users, drawn, event))
    ours = SampledLoss(Gaussian.from_rho(mu**2 / 2).loss(), drawn / users).rdp(orders)
    assert (ours <= np.array(accountant.rdp) * (1 + 1e-6)).all()
    assert (ours >= 0.18 * np.array(accountant.rdp)).all()


LOSSES: list[PrivacyLoss] = [
    kary(1.0, 3),
    BitwiseRandomizedResponse(2.0).loss(),
    Laplace(1.0).loss(),
    Laplace(0.3, 1.0, sampler="exact").loss(),
    TreeAggregation(1.0, 15, 1.0).loss(),
    Exponential(1.0, 1.0).loss(),
    pure(0.7),
    Gaussian.from_rho(0.3).loss(),
    Shuffled(KaryRandomizedResponse(epsilon=1.0, num_values=3)).summed_loss(10),
    NoPrivacy().loss(),
]
named = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.kind}-{loss.epsilon:.2g}")


@named
def test_sampling_amplifies_and_drawing_all_does_not(loss: PrivacyLoss) -> None:
    rates = [0.001, 0.1, 0.5, 0.9, 1.0]
    sampled = [SampledLoss(loss, rate) for rate in rates]
    curves = np.array([one.rdp(ALPHAS) for one in sampled])
    assert (curves <= loss.rdp(ALPHAS) * (1 + 1e-12)).all()
    if math.isfinite(loss.rho):
        assert (np.diff(curves, axis=0) >= 0).all()
        assert curves[0, 0] < 0.01 * curves[-1, 0]
    deltas = np.array([one.delta(np.array([-0.3, 0.0, 0.01, 0.3])) for one in sampled])
    assert (np.diff(deltas, axis=0) >= -1e-15).all()
    assert sampled[-1].epsilon == pytest.approx(loss.epsilon)
    assert all(one.rho <= loss.rho for one in sampled)
    if math.isfinite(loss.epsilon):
        assert sampled[0].rho < 1e-3 * loss.rho


@named
def test_the_parts_of_a_loss_agree(loss: PrivacyLoss) -> None:
    """The pair has the profile that is claimed, or lies above it by less than 1e-4; Renyi divergences at all orders
    between those of the accountant stay below alpha rho."""
    sampled = SampledLoss(loss, 0.2)
    pair = sampled.dominating_pair()
    assert (pair is None) == math.isinf(loss.epsilon)
    orders = np.concatenate([np.geomspace(1.0001, 3e6, 3000), 1 + np.geomspace(1e-8, 1, 50)])
    assert (sampled.divergence(orders) <= orders * sampled.rho * (1 + 1e-9)).all() or pair is None
    if pair is not None:
        first, second = np.exp(pair[0]), np.exp(pair[1])
        assert first.sum() == pytest.approx(1)
        np.testing.assert_allclose(np.sort(first), np.sort(second), rtol=1e-6)
        for at in np.linspace(-1.1, 1.1, 9) * sampled.epsilon:
            assert -1e-12 <= hockey_stick(first, second, at) - sampled.delta(at) <= 1e-4


@named
@pytest.mark.parametrize("rate", [0.02, 0.6])
def test_totals_are_amplified_by_every_method_that_can(loss: PrivacyLoss, rate: float) -> None:
    """A total is at most that of messages of known senders, and at least what one message costs by its exact delta.

    Of a tree and of a selection only epsilon gives the pair, so that privacy loss distributions are no smaller."""
    sampled, delta = SampledLoss(loss, rate), 1e-5
    ours, plain = totals(sampled, 40, delta), totals(loss, 40, delta)
    coarse = isinstance(loss, ExponentialLoss) or getattr(loss, "nodes", 1) > 1
    assert all(ours[method] <= plain[method] * (1 + 1e-3) for method in METHODS[: 4 if coarse else 5])
    assert ours["rdp"] <= (0.1 if rate < 0.1 else 1.0 if coarse else 0.98) * plain["rdp"]
    if math.isfinite(loss.epsilon):
        assert ours["basic"] == pytest.approx(40 * sampled.epsilon)
    for method, total in ours.items():
        assert total == math.inf or sampled.delta(total) <= delta, method


def totals(loss: PrivacyLoss, count: int, delta: float) -> dict[str, float]:
    accountant = Accountant(1, 1, [Channel("vote", "one_hot", observer="server", unit="event")])
    accountant.charge("vote", loss, everyone=np.array([count]))
    return {method: float(accountant.epsilon(delta, method=method)[0, 0]) for method in METHODS}


def test_three_rounds_cost_no_less_than_they_say() -> None:
    """One of three users answers in each of three rounds: all outcomes. Every total is above the truth, and that of
    `pld` close to it."""
    epsilon, delta = 1.0, 0.01
    distributions, loss = k_ary_distributions(epsilon, 2), SampledLoss(kary(epsilon, 2), 1 / 3)
    found = []
    for both in worlds(2, 3):
        p, q = (of_sample(world, distributions, 1) for world in both)
        found.append(
            tuple(np.einsum("i,j,k->ijk", distribution, distribution, distribution).ravel() for distribution in (p, q))
        )
    low, high = 0.0, 3 * epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if max(hockey_stick(p, q, middle) for p, q in found) > delta else (low, middle)
    ours = totals(loss, 3, delta)
    assert all(total >= high - 1e-9 for total in ours.values())
    assert ours["pld"] <= 1.1 * high
    assert ours["basic"] == pytest.approx(3 * math.log1p(math.expm1(1.0) / 3))


@pytest.mark.parametrize(("mu", "rate", "count"), [(1.0, 0.1, 1), (1.0, 0.01, 500), (0.3, 0.5, 40), (3.0, 0.002, 20)])
def test_distributions_of_sampled_gaussian_noise(mu: float, rate: float, count: int) -> None:
    """At least what dp-accounting says of the two laws of Poisson samples, which have the same profile one at a time
    (the one at positive epsilons, the other at negative), and at most 20% more, as the pair has the larger halves of
    both; smaller than by Renyi divergences. One message costs what its exact delta says, within 0.2%."""
    from dp_accounting.pld import privacy_loss_distribution as pld  # type: ignore[import-untyped]

    delta, loss = 1e-5, SampledLoss(Gaussian.from_rho(mu**2 / 2).loss(), rate)
    ours = totals(loss, count, delta)
    peer = pld.from_gaussian_mechanism(1 / mu, sampling_prob=rate, value_discretization_interval=1e-4)
    theirs = peer.self_compose(count).get_epsilon_for_delta(delta)
    assert theirs * (1 - 1e-3) - 2e-4 <= ours["pld"] <= theirs * 1.2 + 1e-3
    assert ours["pld"] < 0.97 * ours["rdp"]
    if count == 1:
        assert loss.delta(ours["pld"]) <= delta <= loss.delta(0.998 * ours["pld"])


@pytest.mark.parametrize(("users", "drawn"), [(3, 1), (4, 2), (5, 2)])
def test_two_users_at_once(users: int, drawn: int) -> None:
    """Of `group(2)` of users' separate messages: those of both change at once, and epsilon of the sample doubles."""
    epsilon = 0.8
    distributions, local = k_ary_distributions(epsilon, 2), kary(epsilon, 2)
    loss = SampledLoss(pure(local.epsilon), drawn / users).group(2)
    assert loss == SampledLoss(pure(local.epsilon).group(2), 2 * drawn / users)
    pairs = [tuple(of_sample(world, distributions, drawn) for world in both) for both in worlds(2, users, changed=2)]
    at = np.array([0.0, 0.1, 0.3, 0.6, 1.2])
    truth = np.array([max(hockey_stick(p, q, x) for p, q in pairs) for x in at])
    assert (truth <= loss.delta(at) + 1e-15).all()
    alone = SampledLoss(local, drawn / users)
    assert truth[0] > alone.delta(0.0)  # so one user's loss would not do
    assert alone.group(1) == alone
    assert SampledLoss(local, 0.7).group(2) == SampledLoss(local, 1.0)


def test_a_sampled_loss_is_a_value() -> None:
    loss = SampledLoss(kary(1.0, 3), 0.25)
    assert pickle.loads(pickle.dumps(loss)) == loss == SampledLoss(kary(1.0, 3), 0.25)
    assert hash(loss) == hash(SampledLoss(kary(1.0, 3), 0.25))
    assert loss != SampledLoss(kary(1.0, 3), 0.26)
    assert loss.delta(np.array([[0.1, 1e5]])).shape == (1, 2)
    assert loss.delta(1e5) == 0
    for one in (loss, SampledLoss(Gaussian.from_rho(0.1).loss(), 0.25)):
        assert one.rdp(ORDERS).shape == ORDERS.shape
        assert one.rdp(2.0) == one.rdp([2.0])[0]


def test_wrong_arguments_are_refused() -> None:
    local = kary(1.0, 2)
    for wrong in (0, -0.1, 1.1, math.nan, True, None):
        with pytest.raises(ValueError, match=r"rate must be a finite number > 0 and <= 1, not"):
            SampledLoss(local, wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"loss must be a PrivacyLoss, not 0\.3"):
        SampledLoss(0.3, 0.3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at must hold finite numbers only, not nan"):
        SampledLoss(local, 0.3).delta([0.1, math.nan])
    with pytest.raises(ValueError, match="alpha must hold numbers > 1"):
        SampledLoss(local, 0.3).rdp([1.0])
