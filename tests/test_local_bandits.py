"""Bandits that are private in the local model: the law of an answer, pulls by hand, and jumps against steps."""

from typing import Any

import numpy as np
import pytest
from laws import fits
from scipy import special, stats

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.policies import LDPUCBB, LDPUCBL
from taciturn.policies.classic import local_bandits, private_indices
from taciturn.validation import Array, Floats

BOTH: tuple[Any, ...] = (LDPUCBL, LDPUCBB)


def started(policy: Any, runs: int, arms: int, horizon: int, seed: int = 0) -> Any:
    policy.rng = np.random.default_rng(seed)
    policy.start((runs, 1, arms), horizon)
    return policy


def answers(policy: Any, pulls: int, earned: int, runs: int = 40_000) -> Floats:
    """Sums of the answers of `pulls` of the only arm that earned `earned` in all, pulled at once."""
    started(policy, runs, 1, pulls)
    none = np.zeros((runs, 1, 1), np.int64)
    room = np.full((runs, 1), pulls)
    assert (policy.pulls(none, none, room) == pulls).all()
    policy.pulls(none + pulls, none + earned, room * 0)
    found: Floats = policy._answers[:, 0, 0]
    return found


@pytest.mark.parametrize(("pulls", "earned"), [(1, 0), (1, 1), (7, 3), (7, 7)])
def test_answers_to_rewards_are_randomised_responses(pulls: int, earned: int) -> None:
    """Each with odds e^epsilon of being right. False alarm rate 1e-4; a loss of 1.2 in place of 1 is detected."""
    right = special.expit(1.0)
    law = np.convolve(
        stats.binom.pmf(np.arange(earned + 1), earned, right),
        stats.binom.pmf(np.arange(pulls - earned + 1), pulls - earned, 1 - right),
    )
    for epsilon, holds in ((1.0, True), (1.2, False)):
        counted = np.bincount(answers(LDPUCBB(epsilon), pulls, earned).astype(int), minlength=pulls + 1)
        assert (fits(counted, law) > 1e-4) == holds


@pytest.mark.parametrize("earned", [0, 1])
def test_answers_have_laplace_noise(earned: int) -> None:
    """False alarm rate 1e-4 (Kolmogorov-Smirnov); noise of 0.9 of the scale is detected."""
    drawn = answers(LDPUCBL(0.5), 1, earned)
    assert stats.kstest(drawn, stats.laplace(earned, 2.0).cdf).pvalue > 1e-4
    assert stats.kstest(drawn, stats.laplace(earned, 1.8).cdf).pvalue < 1e-4


def by_hand(rewards: Floats, width: float, least: float) -> list[int]:
    """Arms of the rule, on rewards [T, K] without noise."""
    n, sums, arms = np.zeros(rewards.shape[1]), np.zeros(rewards.shape[1]), []
    for slot in range(1, len(rewards) + 1):
        few = [k for k in range(len(n)) if n[k] <= least * np.log(slot + 1)]
        if few:
            arm = few[0]
        else:
            arm = int(np.argmax([sums[k] / n[k] + width * np.sqrt(np.log(slot) / n[k]) for k in range(len(n))]))
        n[arm] += 1
        sums[arm] += rewards[slot - 1, arm]
        arms.append(arm)
    return arms


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("epsilon", [0.8, 40.0])
def test_pulls_by_hand(kind: Any, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "law", lambda self: (0.0, 0.0, 1.0))  # the answer is the reward
    rewards = (np.random.default_rng(2).random((1500, 3)) < [0.2, 0.9, 0.4]).astype(float)
    policy = started(kind(epsilon), 1, 3, 1500)
    counts, sums, found = np.zeros((1, 1, 3)), np.zeros((1, 1, 3)), []
    for row in rewards:
        arm = int(policy.choose(counts, sums / np.maximum(counts, 1))[0, 0])
        counts[0, 0, arm] += 1
        sums[0, 0, arm] += row[arm]
        found.append(arm)
    width = np.sqrt(2) + (np.sqrt(32) / epsilon if kind is LDPUCBL else 0)
    assert found == by_hand(rewards, width, 4.0 if kind is LDPUCBL else 0.0)
    assert counts.min() > 20


def test_formulas_by_hand() -> None:
    assert private_indices.laplace_width(2.0) == pytest.approx(np.sqrt(2) + 2 * np.sqrt(2))
    assert private_indices.response_probabilities(np.log(3)) == pytest.approx((0.25, 0.75))
    assert private_indices.response_probabilities(800.0) == (0.0, 1.0)
    found = private_indices.local_lower_bound(np.array([0.8, 0.6, 0.3]), 0.5)
    assert found == pytest.approx((5 + 2) / (np.e * (np.exp(0.5) - 1) ** 2))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_no_answers_beat_the_local_lower_bound(epsilon: float) -> None:
    """Randomised responses are private in the local model, and the bound of Lai & Robbins on them is no smaller."""
    for means in ([0.9, 0.8, 0.1], [0.02, 0.01], [0.6, 0.5, 0.4]):
        p, q = 1 - special.expit(-epsilon), special.expit(-epsilon)
        answered = q + (p - q) * np.array(means)
        divergence = special.rel_entr(answered[1:], answered[0]) + special.rel_entr(1 - answered[1:], 1 - answered[0])
        reached = ((means[0] - np.array(means[1:])) / divergence).sum()
        assert private_indices.local_lower_bound(np.array(means), epsilon) <= reached


def regrets(policy: Any, runs: int, seed: int, *, fast: bool, horizon: int = 1000) -> Floats:
    env = federated_bandit_v0.population(runs, num_agents=2, qualities=(0.1, 0.9, 0.5), horizon=horizon)
    return taciturn.simulate(env, policy, seed=seed, fast=fast).metrics["regret"]


@pytest.mark.parametrize("kind", BOTH)
def test_jumps_are_steps_where_nothing_is_random(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards are certain, answers are rewards, and the run is cut at odd moments."""
    monkeypatch.setattr(kind, "law", lambda self: (0.0, 0.0, 1.0))
    found: list[Array] = []
    for fast in (True, False):
        env = federated_bandit_v0.population(2, num_agents=2, qualities=(1.0, 0.0, 1.0), horizon=900)
        taciturn.simulate(env, kind(50.0), seed=0, fast=fast, until=[7, 21, 210, 211, 900], record=["regret"])
        found.append(env.state.counts)
    assert (found[0] == found[1]).all()
    assert found[0].min() > 0


@pytest.mark.parametrize(("kind", "mean", "error"), [(LDPUCBL, 706.6, 4.3), (LDPUCBB, 425.4, 5.5)])
def test_regret_is_that_of_the_rules_of_the_authors_code(kind: Any, mean: float, error: float) -> None:
    """100 runs by these rules, one pull at a time, with counts that begin at 1: 5,000 slots, epsilon 1. False alarm
    rate below 1e-5 (4.5 standard errors)."""
    env = federated_bandit_v0.population(200, num_agents=1, qualities=(0.9, 0.8, 0.7, 0.6, 0.5), horizon=5000)
    found = taciturn.simulate(env, kind(1.0), seed=5).metrics["regret"]
    assert abs(found.mean() - mean) < 4.5 * np.hypot(error, found.std() / np.sqrt(len(found)))


@pytest.mark.parametrize("kind", BOTH)
def test_without_numba_they_are_the_same(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = regrets(kind(), 3, 5, fast=True, horizon=300)
    monkeypatch.setattr(local_bandits, "compiled", lambda function: function)
    assert (regrets(kind(), 3, 5, fast=True, horizon=300) == found).all()
