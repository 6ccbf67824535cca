"""Elimination without a trusted curator: the noise of all users together and what it hides, sums modulo m, elimination
by hand, and jumps against steps."""

from typing import Any

import numpy as np
import pytest
from distributions import fits
from scipy import special, stats

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.validation import Array, Floats, Ints
from taciturn.wrappers import audit
from taciturn_papers.chowdhury2023 import indices
from taciturn_papers.chowdhury2023.distributed_bandits import (
    DistDPSE,
    DistRDPSE,
    ShuffleElimination,
    binomial_delta,
    noise_bits,
)

ALL: tuple[Any, ...] = (DistDPSE, DistRDPSE, ShuffleElimination)
FAR = 4000  # beyond which noise is negligible here


def discrete_laplace(x: Array, scale: float) -> Floats:
    found: Floats = stats.dlaplace.pmf(x, 1 / scale)
    return found


def started(policy: Any, shape: tuple[int, int, int] = (1, 1, 2), horizon: int = 10_000) -> Any:
    policy.rng = np.random.default_rng(0)
    policy.start(shape, horizon)
    return policy


def test_shares_of_polya_noise_add_up_to_discrete_laplace_noise() -> None:
    """By the Fourier transforms of their laws: n shares of Polya(1/n, beta) are a geometric number."""
    users, scale, size = 12, 5.0, 4096
    share = stats.nbinom.pmf(np.arange(size), 1 / users, 1 - np.exp(-1 / scale))
    spectrum = np.abs(np.fft.fft(share) ** users) ** 2  # of the difference of two sums of shares
    distribution = np.fft.ifft(spectrum).real[:60]
    np.testing.assert_allclose(distribution, discrete_laplace(np.arange(60), scale), atol=1e-12)


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("kind", [DistDPSE, DistRDPSE])
def test_the_noise_of_all_users_has_its_law(kind: Any, wrong: bool) -> None:
    """False alarm rate 1e-4 (chi-square); noise for an epsilon that is a tenth larger is detected."""
    epsilon, precision = 0.4, 3.0
    drawn = started(kind(epsilon * (1.1 if wrong else 1))).noise(np.array([[precision]]), (20_000, 2)).ravel()
    x = np.arange(-FAR, FAR)
    mean = (precision / epsilon) ** 2 / 2
    distribution = discrete_laplace(x, precision / epsilon) if kind is DistDPSE else stats.skellam.pmf(x, mean, mean)
    assert (fits(np.bincount(drawn + FAR, minlength=x.size), distribution) > 1e-4) != wrong


@pytest.mark.parametrize("users", [2, 16, 100])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_what_the_server_hears_costs_epsilon(users: int, epsilon: float) -> None:
    """The exact law of the sum modulo m, for sums of rewards that differ by 1."""
    policy = started(DistDPSE(epsilon, 0.1))
    precision = float(policy.precision(np.array(float(users))))
    reach = float(policy.reach(np.array(precision)))
    assert precision == np.ceil(epsilon * np.sqrt(users))
    assert reach == np.ceil(precision / epsilon * np.log(20))
    modulo = int(users * precision + 2 * reach + 1)
    x = np.arange(-400 * modulo, 400 * modulo + 1)
    noise = discrete_laplace(x, precision / epsilon)
    first, second = (np.bincount((x + int(precision) * earned) % modulo, noise, modulo) for earned in (0, 1))
    loss = np.abs(np.log(first / second)).max()
    assert 0.8 * epsilon < loss <= epsilon + 1e-6


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_skellam_noise_keeps_its_renyi_privacy(epsilon: float, scale: float) -> None:
    """Against the divergence itself, for a batch of 16 users."""
    policy = started(DistRDPSE(epsilon, 0.1, scale=scale))
    precision = float(policy.precision(np.array(16.0)))
    x = np.arange(-FAR, FAR)
    with np.errstate(divide="ignore"):  # e^-v I_x(v) is the probability of x at variance v
        first, second = (np.log(special.ive(abs(x - shift), (precision / epsilon) ** 2)) for shift in (0, precision))
    seen = np.isfinite(first) & np.isfinite(second)
    for alpha in (2, 3, 8):
        exact = special.logsumexp(alpha * first[seen] + (1 - alpha) * second[seen]) / (alpha - 1)
        assert 0.2 * alpha * epsilon**2 < exact <= indices.skellam_renyi(alpha, epsilon, scale)
    assert indices.skellam_renyi(2, 0.5, 10.0) == pytest.approx(0.25 + 0.75 / 400 + 0.75 / 1000)


def test_sums_modulo_m_by_hand() -> None:
    """Integers, user by user; noise up to tau is read rightly, and beyond that it wraps round."""
    rng = np.random.default_rng(4)
    users, precision, reach = 20, 3, 11
    modulo = users * precision + 2 * reach + 1
    for _ in range(200):
        rewards, shares = rng.integers(0, 2, users), rng.integers(-3, 4, users)
        messages = [(int(r) * precision + int(e)) % modulo for r, e in zip(rewards, shares, strict=True)]
        heard = sum(messages) % modulo
        expected = (heard - modulo if heard > users * precision + reach else heard) / precision
        given = (np.array(x) for x in (rewards.sum(), shares.sum(), users, precision, reach))
        assert indices.secure_sum(*given) == expected
        if abs(shares.sum()) <= reach:
            assert expected == pytest.approx(rewards.sum() + shares.sum() / precision)


def tail(found: tuple[Any, float], p: float) -> float:
    sigma, h = found
    return float(sigma * np.sqrt(np.log(2 / p)) + h * np.log(2 / p))


@pytest.mark.parametrize("p", [0.2, 0.01, 1e-5])
@pytest.mark.parametrize("kind", ALL)
def test_noise_stays_within_its_tail(kind: Any, p: float) -> None:
    """Exactly, for batches of 4 and 64 users. Half the tail would not do for small p."""
    for users in (4, 64):
        policy = started(kind(0.5))
        bound = tail(policy.tail(np.array(users)), p)
        if kind is ShuffleElimination:
            bits, chance = policy.noise_bits(np.array([users]))
            distribution = stats.binom(bits[0], chance[0])
            beyond = distribution.sf(np.floor(bits[0] * chance[0] + bound)) + distribution.cdf(
                np.ceil(bits[0] * chance[0] - bound) - 1
            )
        else:
            precision = float(policy.precision(np.array(float(users))))
            mean = (precision / 0.5) ** 2 / 2
            distribution = stats.dlaplace(0.5 / precision) if kind is DistDPSE else stats.skellam(mean, mean)
            beyond = 2 * distribution.sf(np.floor(bound * precision))
        assert beyond <= p


def test_the_radius_by_hand() -> None:
    found = indices.batch_radius(np.array([64]), np.array([3]), np.array([5]), 0.1, 2.0, 0.5)
    first, second = np.log(4 * 5 * 9 / 0.1), np.log(2 * 5 * 9 / 0.1)
    assert found[0] == pytest.approx(np.sqrt(first / 128) + (2 * np.sqrt(second) + second / 2) / 64)
    assert indices.laplace_tail(0.5) == pytest.approx((2 * np.sqrt(2), 2.0))
    assert indices.skellam_tail(0.5, 10.0) == pytest.approx((4 + np.sqrt(2) / 5, 0.2))


def test_delta_of_binomial_noise_is_that_of_its_definition() -> None:
    for bits, chance, epsilon in ((30, 0.5, 0.7), (200, 0.5, 0.2), (500, 0.02, 1.0), (9, 0.4, 0.1), (40, 0.8, 0.5)):
        distribution = np.append(0, stats.binom.pmf(np.arange(bits + 1), bits, chance)), None
        one = np.append(distribution[0], 0)
        ways = (np.maximum(a - np.exp(epsilon) * b, 0).sum() for a, b in ((one[1:], one[:-1]), (one[:-1], one[1:])))
        assert binomial_delta(bits, chance, epsilon) == pytest.approx(max(ways), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("users", [2, 16, 4096])
def test_noise_bits_suffice_and_no_fewer_do(users: int, epsilon: float) -> None:
    bits, chance = noise_bits(users, epsilon, 1e-5)
    assert bits % users == 0
    assert binomial_delta(bits, chance, epsilon) <= 1e-5
    if bits > users:
        assert binomial_delta(bits - users, chance, epsilon) > 1e-5
    else:
        assert binomial_delta(bits, 0.99 * chance, epsilon) > 1e-5


def test_shuffled_bits_add_up_with_binomial_noise() -> None:
    """False alarm rate 1e-4 (chi-square); a tenth more noise bits are detected."""
    policy = started(ShuffleElimination(1.0, 0.1, 4.0, 1e-4))
    epoch = policy.schedule(np.array([3]), np.array([2]))
    bits, chance = noise_bits(64, 1.0, 1e-4)
    sums = np.full((30_000, 2), 40.0)
    heard = policy.noisy(sums, epoch) * 64 - 40 + bits * chance
    counted = np.bincount(np.rint(heard).astype(int).ravel(), minlength=2 * bits)
    x = np.arange(2 * bits)
    assert np.allclose(heard, np.rint(heard))
    assert fits(counted, stats.binom.pmf(x, bits, chance)) > 1e-4
    assert fits(counted, stats.binom.pmf(x, round(1.1 * bits), chance)) < 1e-4


def pulled(policy: Any, rewards: Floats) -> Array:
    """How often one agent pulls each arm, if the rewards are `rewards` [T, K]."""
    started(policy, (1, 1, rewards.shape[1]), len(rewards))
    counts, sums = np.zeros((1, 1, rewards.shape[1])), np.zeros((1, 1, rewards.shape[1]))
    for row in rewards:
        arm = policy.choose(counts, sums / np.maximum(counts, 1))[0, 0]
        counts[0, 0, arm] += 1
        sums[0, 0, arm] += row[arm]
    return counts[0, 0]


@pytest.mark.parametrize("kind", ALL)
def test_elimination_by_hand(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise: batches of 2, 4, 8, ... pulls, and the batch in which each arm goes follows from its gap."""
    monkeypatch.setattr(kind, "noisy", lambda self, sums, epoch: sums / epoch.pulls[:, None])
    policy, worth = kind(1.0, 0.1), np.array([1.0, 0.0, 0.6])
    found = pulled(policy, np.tile([1.0, 0.0, 0.6], (12_000, 1)))
    active, total, by_hand = np.ones(3, bool), 0, np.zeros(3)
    for batch in range(1, 20):
        size, alive = 2**batch, active.sum()
        if alive == 1:
            break
        by_hand[active] += size
        total += size * alive
        first, second = np.log(4 * alive * batch**2 / 0.1), np.log(2 * alive * batch**2 / 0.1)
        if kind is ShuffleElimination:
            bits, chance = noise_bits(size, 1.0, 1e-6)
            sigma, h = np.sqrt(2 * bits * chance * (1 - chance)), 1 / 3
        else:
            sigma, h = (np.sqrt(2), 1.0) if kind is DistDPSE else (2 + np.sqrt(2) / 10, 0.1)
        radius = np.sqrt(first / (2 * size)) + (sigma * np.sqrt(second) + h * second) / size
        active &= worth + radius >= (worth - radius)[active].max()
    by_hand[0] += 12_000 - total
    assert total < 12_000
    assert found.tolist() == by_hand.tolist()


def regrets(policy: Any, runs: int, seed: int, *, fast: bool = True, horizon: int = 2000) -> Floats:
    env = federated_bandit_v0.population(runs, num_agents=2, qualities=(0.1, 0.95, 0.5), horizon=horizon)
    return taciturn.simulate(env, policy, seed=seed, fast=fast).metrics["regret"]


@pytest.mark.parametrize("kind", ALL)
def test_jumps_have_the_law_of_steps(kind: Any) -> None:
    """False alarm rate 1e-4 (Kolmogorov-Smirnov); another epsilon is detected."""
    jumps, steps = (regrets(kind(1.0, 0.1), 200, seed, fast=fast) for seed, fast in ((1, True), (2, False)))
    assert stats.ks_2samp(jumps, steps).pvalue > 1e-4
    assert stats.ks_2samp(regrets(kind(0.5, 0.1), 200, 3), steps).pvalue < 1e-4


MEANS = (0.9, 0.6, 0.3, 0.5)


@pytest.mark.parametrize(("kind", "mean", "error"), [(DistDPSE, 1194.0, 6.0), (DistRDPSE, 1005.2, 8.3)])
def test_regret_is_that_of_the_rules_of_the_authors_code(kind: Any, mean: float, error: float) -> None:
    """600 runs by these rules with noise from every user, arms in random order, and Polya numbers as the paper defines
    them. False alarm rate below 1e-5 (4.5 standard errors)."""
    env = federated_bandit_v0.population(1000, num_agents=1, qualities=MEANS, horizon=20_000)
    found = taciturn.simulate(env, kind(0.3, 0.1, 4.0), seed=1).metrics["regret"]
    assert abs(found.mean() - mean) < 4.5 * np.hypot(error, found.std() / np.sqrt(found.size))


@pytest.mark.parametrize("published", [False, True])
def test_an_audit_tells_the_papers_noise_from_that_of_the_authors_code(published: bool) -> None:
    """That code draws Polya numbers whose P(0) is e^(-epsilon / (g n)), where it should be (1 - e^(-epsilon / g))^(1 /
    n): the sum of a batch of 64 users hides hardly anything. False alarm rate 1e-4 (that of the auditor)."""
    epsilon, users = 1.0, 64
    policy = started(DistDPSE(epsilon))
    precision = policy.precision(np.array([[float(users)]]))

    def sums(earned: int, rng: np.random.Generator, trials: int) -> Ints:
        policy.rng = rng
        if published:
            odds = np.exp(-epsilon / precision[0, 0])  # of a geometric number of failures, in place of 1 - odds
            noise = rng.geometric(odds, (trials, 1)) - rng.geometric(odds, (trials, 1))
        else:
            noise = policy.noise(precision, (trials, 1))
        return np.asarray(earned * int(precision[0, 0]) + noise)

    found = audit(sums, pair=(0, 1), trials=20_000, confidence=1 - 1e-4, claimed=epsilon)
    assert found.verdict == ("violated" if published else "consistent")


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("users", [3, 400])
def test_noise_of_shuffled_bits_has_the_delta_stated(users: int, delta: float) -> None:
    """The sum of one more or one less bit with that noise, summed over all outcomes; and less noise would not do."""
    policy = ShuffleElimination(0.8, delta=delta)
    bits, chance = (float(x[0]) for x in policy.noise_bits(np.array([users])))

    def excess(bits: float, chance: float) -> float:
        distribution = stats.binom.pmf(np.arange(-1, bits + 2), bits, chance)
        one, other = distribution[1:], distribution[:-1]
        return max(float(np.maximum(p - np.exp(0.8) * q, 0).sum()) for p, q in ((one, other), (other, one)))

    assert excess(bits, chance) <= delta * (1 + 1e-6)
    assert (excess(bits - users, chance) if chance == 0.5 else excess(bits, chance * 0.99)) > delta


@pytest.mark.parametrize(("kind", "trust"), [(DistDPSE, "distributed"), (ShuffleElimination, "shuffle")])
def test_they_say_whom_they_trust_and_name_mistaken_parameters(kind: Any, trust: str) -> None:
    assert kind.trust == trust
    assert DistRDPSE.trust == "distributed"
    for name, value in (("epsilon", 0), ("beta", 1.0), ("growth", 1.0)):
        with pytest.raises(ValueError, match=f"{name} must be"):
            kind(**{name: value})
    with pytest.raises(ValueError, match="scale must be"):
        DistRDPSE(scale=0.5)
    with pytest.raises(ValueError, match="delta must be"):
        ShuffleElimination(delta=0.0)
