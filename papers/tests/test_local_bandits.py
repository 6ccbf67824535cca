"""A bandit that is private in the local model: the law of an answer, pulls by hand, and jumps against steps."""

from typing import Any

import numpy as np
import pytest
from distributions import fits
from scipy import special, stats

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.validation import Array, Floats
from taciturn_papers.chowdhury2023 import indices, local_bandits
from taciturn_papers.chowdhury2023.local_bandits import LDPUCBB


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
    distribution = np.convolve(
        stats.binom.pmf(np.arange(earned + 1), earned, right),
        stats.binom.pmf(np.arange(pulls - earned + 1), pulls - earned, 1 - right),
    )
    for epsilon, holds in ((1.0, True), (1.2, False)):
        counted = np.bincount(answers(LDPUCBB(epsilon), pulls, earned).astype(int), minlength=pulls + 1)
        assert (fits(counted, distribution) > 1e-4) == holds


def by_hand(rewards: Floats) -> list[int]:
    """Arms of the rule, on rewards [T, K] without noise."""
    n, sums, arms = np.zeros(rewards.shape[1]), np.zeros(rewards.shape[1]), []
    for slot in range(1, len(rewards) + 1):
        few = np.flatnonzero(n == 0)
        if few.size:
            arm = int(few[0])
        else:
            arm = int(np.argmax([sums[k] / n[k] + np.sqrt(2 * np.log(slot) / n[k]) for k in range(len(n))]))
        n[arm] += 1
        sums[arm] += rewards[slot - 1, arm]
        arms.append(arm)
    return arms


def test_pulls_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LDPUCBB, "distribution", lambda self: (0.0, 1.0))  # the answer is the reward
    rewards = (np.random.default_rng(2).random((1500, 3)) < [0.2, 0.9, 0.4]).astype(float)
    policy = started(LDPUCBB(), 1, 3, 1500)
    counts, sums, found = np.zeros((1, 1, 3)), np.zeros((1, 1, 3)), []
    for row in rewards:
        arm = int(policy.choose(counts, sums / np.maximum(counts, 1))[0, 0])
        counts[0, 0, arm] += 1
        sums[0, 0, arm] += row[arm]
        found.append(arm)
    assert found == by_hand(rewards)
    assert counts.min() > 20


def test_formulas_by_hand() -> None:
    assert indices.response_probabilities(np.log(3)) == pytest.approx((0.25, 0.75))
    assert indices.response_probabilities(800.0) == (0.0, 1.0)
    found = indices.local_lower_bound(np.array([0.8, 0.6, 0.3]), 0.5)
    assert found == pytest.approx((5 + 2) / (np.e * (np.exp(0.5) - 1) ** 2))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_no_answers_beat_the_local_lower_bound(epsilon: float) -> None:
    """Randomised responses are private in the local model, and the bound of Lai & Robbins on them is no smaller."""
    for means in ([0.9, 0.8, 0.1], [0.02, 0.01], [0.6, 0.5, 0.4]):
        p, q = 1 - special.expit(-epsilon), special.expit(-epsilon)
        answered = q + (p - q) * np.array(means)
        divergence = special.rel_entr(answered[1:], answered[0]) + special.rel_entr(1 - answered[1:], 1 - answered[0])
        reached = ((means[0] - np.array(means[1:])) / divergence).sum()
        assert indices.local_lower_bound(np.array(means), epsilon) <= reached


def regrets(policy: Any, runs: int, seed: int, *, fast: bool, horizon: int = 1000) -> Floats:
    env = federated_bandit_v0.population(runs, num_agents=2, qualities=(0.1, 0.9, 0.5), horizon=horizon)
    return taciturn.simulate(env, policy, seed=seed, fast=fast).metrics["regret"]


def test_jumps_have_the_law_of_steps() -> None:
    """False alarm rate 1e-4 (Kolmogorov-Smirnov); another epsilon is detected."""
    jumps, steps = (regrets(LDPUCBB(2.0), 250, seed, fast=fast) for seed, fast in ((1, True), (2, False)))
    other = regrets(LDPUCBB(1.0), 250, 3, fast=True)
    assert stats.ks_2samp(jumps, steps).pvalue > 1e-4
    assert stats.ks_2samp(other, steps).pvalue < 1e-4


def test_jumps_are_steps_where_nothing_is_random(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards are certain, answers are rewards, and the run is cut at odd moments."""
    monkeypatch.setattr(LDPUCBB, "distribution", lambda self: (0.0, 1.0))
    found: list[Array] = []
    for fast in (True, False):
        env = federated_bandit_v0.population(2, num_agents=2, qualities=(1.0, 0.0, 1.0), horizon=900)
        taciturn.simulate(env, LDPUCBB(50.0), seed=0, fast=fast, until=[7, 21, 210, 211, 900], record=["regret"])
        found.append(env.state.counts)
    assert (found[0] == found[1]).all()
    assert found[0].min() > 0


def test_regret_is_that_of_the_rules_of_the_authors_code() -> None:
    """100 runs by these rules, one pull at a time, with counts that begin at 1: 5,000 slots, epsilon 1. False alarm
    rate below 1e-5 (4.5 standard errors)."""
    env = federated_bandit_v0.population(200, num_agents=1, qualities=(0.9, 0.8, 0.7, 0.6, 0.5), horizon=5000)
    found = taciturn.simulate(env, LDPUCBB(1.0), seed=5).metrics["regret"]
    assert abs(found.mean() - 425.4) < 4.5 * np.hypot(5.5, found.std() / np.sqrt(len(found)))


def test_pulls_are_the_same_if_they_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    found = regrets(LDPUCBB(), 3, 5, fast=True, horizon=300)
    monkeypatch.setattr(local_bandits, "compiled", lambda function: function)
    assert (regrets(LDPUCBB(), 3, 5, fast=True, horizon=300) == found).all()


def test_it_is_local_and_names_mistaken_parameters() -> None:
    assert LDPUCBB.trust == "local"
    with pytest.raises(ValueError, match="epsilon must be a finite number > 0"):
        LDPUCBB(0)
