"""The noisy share dynamics of Tao et al. 2023. Each statistical test's false-alarm rate is below 1e-4, at fixed
seeds."""

import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.bench.papers.tao2023 import share_dynamics
from taciturn.bench.papers.tao2023.settings import BOUND, H, signals, society
from taciturn.bench.papers.tao2023.share_dynamics import (
    agents_needed,
    bit_noise,
    expected_estimate,
    lift,
    mean_dynamics,
    noisy_weights,
    rectified,
    sigma,
    theorem,
)
from taciturn.bench.results import Cell
from taciturn.envs.social_bandit.world import multiplicative_weights, ordered_means, social_bandit_v0
from taciturn.policies import PrivateSocialLearning
from taciturn.wrappers import BitwiseRandomizedResponse

Z = 4.5  # of a normal: beyond it with probability 7e-6


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_noise_of_a_bit_is_the_mechanisms() -> None:
    mechanism = BitwiseRandomizedResponse(1.0)
    bits = mechanism.perturb(np.zeros((1, 400_000), np.bool_), rng(0))
    unbiased = (bits - mechanism.q) / (mechanism.p - mechanism.q)
    assert abs(unbiased.mean()) < Z * bit_noise(1.0) / math.sqrt(bits.size)
    assert unbiased.std() == pytest.approx(bit_noise(1.0), rel=0.01)
    assert bit_noise(None) == 0


def test_moments_of_a_rectified_normal() -> None:
    means, sd, size = np.array([-0.05, 0.0, 0.01, 0.3]), 0.03, 400_000
    drawn = np.maximum(means + sd * rng(1).standard_normal((size, 4)), 0)
    first, variance = rectified(means, sd)
    assert (abs(drawn.mean(0) - first) < Z * drawn.std(0) / math.sqrt(size) + 1e-12).all()
    assert drawn.var(0) == pytest.approx(variance, rel=0.02)
    exact = rectified(means, 0.0)
    assert exact[0] == pytest.approx(np.maximum(means, 0))
    assert exact[1] == pytest.approx(np.zeros(4))


@pytest.mark.parametrize("shares", [np.full(20, 0.05), np.append(0.9, np.full(19, 0.1 / 19))])
def test_expected_estimate_is_what_clipped_noise_gives(shares: np.ndarray) -> None:
    drawn = np.maximum(shares + 0.02 * rng(2).standard_normal((200_000, 20)), 0)
    estimates = drawn / drawn.sum(1, keepdims=True)
    error = estimates.std(0) / math.sqrt(len(drawn))
    assert (abs(estimates.mean(0) - expected_estimate(shares, 0.02)) < Z * error + 1e-3 * shares).all()
    if shares[0] > 0.5:
        assert abs(estimates.mean(0) - shares)[0] > 100 * error[0], "the leak"


def agents_regret(noise: str, replicas: int) -> np.ndarray:
    """Regret of 300 agents in 60 rounds where signals are certain."""
    env = social_bandit_v0.population(
        replicas, num_agents=300, qualities=(1.0, 0.0, 0.0), copies=300, dissemination="aggregated", perturbation=noise
    )
    policy = PrivateSocialLearning(0.55, 0.001)
    privacy = {"preference": BitwiseRandomizedResponse(2.0)}
    return taciturn.simulate(env, policy, seed=3, until=60, privacy=privacy).metrics["regret"]


def test_shares_and_noise_agree_with_agents() -> None:
    phi = np.tile([1.0, 0.0, 0.0], (60, 1))
    setting: dict[str, Any] = {"num_agents": 300, "copies": 300, "epsilon": 2.0, "seed": 4, "beta": 0.55, "mu": 0.001}
    both = ("per_round", "per_token")
    alone = {noise: 1 - noisy_weights(phi, **setting, noise=noise, replicas=3000).mean() for noise in both}
    for noise, other in (both, both[::-1]):
        agents = agents_regret(noise, 60)
        error = agents.std(ddof=1) / math.sqrt(60)
        assert abs(agents.mean() - alone[noise]) < Z * error + 0.005
        assert abs(agents.mean() - alone[other]) > Z * error + 0.005, "the other noise is told apart"


def test_without_noise_and_with_many_agents_it_is_equation_34() -> None:
    phi = (rng(5).random((300, 5)) < ordered_means(5)).astype(np.float64)
    limit = (multiplicative_weights(phi, 0.55, 0.01)[:-1] * phi).sum(1)
    setting: dict[str, Any] = {"copies": 10**6, "seed": 6, "beta": 0.55, "mu": 0.01, "replicas": 2}
    many = noisy_weights(phi, num_agents=10**11, epsilon=None, **setting)
    assert abs(many - limit).max() < 1e-3
    assert abs(noisy_weights(phi, num_agents=3000, epsilon=1.0, **setting) - limit).max() > 0.1


def test_signals_are_those_of_the_run() -> None:
    entries = society(30, 4, rounds=25)
    env = social_bandit_v0.population(1, **{**entries["env_params"], "copies": 5})
    privacy = {"preference": BitwiseRandomizedResponse(1.0)}
    run = taciturn.simulate(
        env, PrivateSocialLearning(), seed=7, until=range(1, 26), record=["signals"], privacy=privacy
    )
    assert np.array_equal(run.trace["signals"][:, 0], signals(Cell("any", entries, 7)))
    assert not np.array_equal(run.trace["signals"][:, 0], signals(Cell("any", entries, 8)))


def test_agents_needed_meet_the_bound_and_half_of_them_do_not() -> None:
    log10 = agents_needed(10, 2.0, "root", rounds=3000)
    n = 10**log10 * np.array([0.5, 1.0, 2.0])
    values = mean_dynamics(ordered_means(10), 2.0, n / 2, H / 2 * np.sqrt(n), 3000)
    assert values[1] == pytest.approx(BOUND, abs=2e-3)
    assert values[0] > values[1] > values[2]


def test_what_theorem_5_2_asks_for() -> None:
    asked = theorem(20, 1.0, 10_000)
    assert asked["rounds"] == pytest.approx(36_738, abs=1)
    assert asked["exploration"] > 1
    assert asked["deviation"] == pytest.approx(math.sqrt(60 * 20 * math.log(1e4) / 0.67))
    delta = math.log(0.505 / 0.495)
    epoch = math.log(20) / delta**2  # rounds, in each of which the proof lets a relative error grow fivefold
    assert asked["log10_copies"] == pytest.approx(2 * (math.log10(asked["c"] / delta) + epoch * math.log10(5)))


def test_lift_is_where_the_mean_dynamics_ends() -> None:
    """With noise of each agent's own, late rounds of the mean dynamics stand where the cut and selection balance."""
    eta, heard = ordered_means(20), np.array([3e5, 1e6])
    late, early = (mean_dynamics(eta, 1.0, np.full(2, np.inf), heard, rounds) for rounds in (6000, 3000))
    expected = [lift(eta, sigma(1.0, math.inf, one))[1] for one in heard]
    assert 2 * late - early == pytest.approx(expected, rel=0.1)
    assert lift(eta, 0.0) == (0.0, 0.0)


def test_without_noise_an_estimate_is_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of copies is the adopters' share on average, however few the copies are; with noise it is not."""
    moved: list[float] = []

    def watched(heard: Any, sd: Any) -> Any:
        estimate = expected_estimate(heard, sd)
        moved.append(float(np.abs(estimate - heard).max()))
        return estimate

    monkeypatch.setattr(share_dynamics, "expected_estimate", watched)
    phi = signals(Cell("s", society(300, 20, None, rounds=20), 0))
    for epsilon, cut in ((None, False), (1.0, True)):
        moved.clear()
        noisy_weights(phi, num_agents=300, copies=5, epsilon=epsilon, seed=0)
        assert (max(moved) > 1e-9) == cut
