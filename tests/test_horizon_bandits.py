"""KL-UCB for a known horizon, alone and pooled, and agents that act alike: their indices, and what they gain."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.policies import KLUCB, CentralisedKLUCB, CentralisedOracle, HorizonKLUCB, Synchronised, ThompsonSampling
from taciturn.policies.classic.bandits import highest_horizon_index
from taciturn.policies.families.bandit_indices import bernoulli_divergence

TASK: dict[str, Any] = {"num_agents": 5, "num_arms": 5, "horizon": 1000}


def regret(policy: Any, runs: int, seed: int, **params: Any) -> Any:
    run = taciturn.simulate(federated_bandit_v0.population(runs, **TASK | params), policy, seed=seed)
    return run.metrics["regret_per_agent"]


def less(first: Any, second: Any) -> bool:
    """Whether the first mean is below the second by 4 standard errors: false alarm below 1e-4. Runs of one seed have
    the same arms, so they are paired."""
    saved = second - first
    return bool(saved.mean() > 4 * saved.std() / math.sqrt(saved.size))


def solved(n: float, mean: float, left: float, a: float, c: float) -> float:
    """The index of an arm, by a root finder."""
    right = a * math.log(1 + c * left / n) / n
    if bernoulli_divergence(np.array(mean), np.array(1 - 1e-14)) < right:
        return 1.0

    def excess(q: float) -> float:
        return float(bernoulli_divergence(np.array(mean), np.array(q)) - right)

    return float(brentq(excess, mean, 1 - 1e-14))


def test_the_arm_of_the_highest_index() -> None:
    """Against indices that a root finder solves for, and with no pull of an arm as one of the cases."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        counts = rng.integers(0, 30, 6) * rng.integers(0, 2, 6)
        sums = rng.binomial(counts, rng.random(6))
        left = int(rng.integers(1, 900))
        index = [
            solved(n + 2, (1 + s) / (n + 2), left, 0.7, 0.4)
            for n, s in zip(counts.tolist(), sums.tolist(), strict=True)
        ]
        got = highest_horizon_index(counts, sums.astype(float), np.array([left]), 0.7, 0.4)
        assert index[int(got)] == pytest.approx(max(index), abs=1e-9)


def test_nothing_is_explored_at_the_end() -> None:
    """With one slot left the best arm by the posterior mean is pulled, and with 1000 one that is little known."""
    means, counts = np.array([0.6, 0.5]), np.array([100.0, 2.0])
    policy = HorizonKLUCB(0.5, 0.5)
    for horizon, arm in ((103, 0), (1102, 1)):
        policy.start((1, 1, 2), horizon)
        assert policy.choose(counts[None, None], means[None, None]).item() == arm


def test_a_horizon_that_is_known_is_worth_something() -> None:
    alone, drawn, timeless = (
        regret(policy, 100, 3, horizon=400, num_agents=2) for policy in (HorizonKLUCB(), ThompsonSampling(), KLUCB())
    )
    assert less(alone, drawn)
    assert less(alone, timeless)


def test_one_agent_pools_with_nobody() -> None:
    """The same run, bit for bit."""
    centralised, alone = (
        regret(kind(0.6, 0.2), 20, 0, num_agents=1, horizon=200) for kind in (CentralisedKLUCB, HorizonKLUCB)
    )
    np.testing.assert_array_equal(centralised, alone)


def test_pooled_agents_try_several_arms_at_once() -> None:
    policy = CentralisedKLUCB(0.8, 0.3)
    policy.start((1, 6, 4), 500)
    nothing = np.zeros((1, 6, 4))
    np.testing.assert_array_equal(np.bincount(policy.choose(nothing, nothing)[0], minlength=4), [2, 2, 1, 1])
    known = np.zeros((1, 6, 4)) + np.array([0, 0, 60, 0])
    taken = policy.choose(known, np.array([0, 0, 0.99, 0]) + nothing)[0]
    assert (taken == 2).any()
    assert set(taken) > {2}, "others are not known at all"


def test_pooling_is_worth_more_than_an_oracle_that_sends_everybody_the_same_way() -> None:
    kinds = (CentralisedKLUCB(), CentralisedOracle(), HorizonKLUCB())
    centralised, oracle, alone = (regret(policy, 60, 3, horizon=300) for policy in kinds)
    assert less(centralised, oracle)
    assert less(centralised, 2 * alone / 3), "others matter"


@pytest.mark.parametrize(("growth", "last"), [(1.0, list(range(1, 17))), (2.0, [1, 2, 3, 4, 8, 16])])
def test_agents_that_act_alike_upload_as_an_arms_pulls_grow(growth: float, last: list[int]) -> None:
    """With one arm that always pays and one that never does: the good one's pulls double (growth 2), and the bad one
    is pulled twice in the first slots."""
    env = federated_bandit_v0.population(1, num_agents=3, qualities=(1.0, 0.0), horizon=20)
    policy = Synchronised("kl-ucb", growth)
    obs, _ = env.reset(seed=0)
    policy.reset(env, np.random.default_rng(0))
    ends = []
    for slot in range(16):
        action = policy.act(obs)[0]
        assert (action == action[0]).all()
        if action[0] >= 2:
            ends.append(slot + 1)
        obs = env.step(action[None]).observation
    pulls = env.state.counts[0, 0]
    if growth == 1:
        assert ends == last
    assert pulls[1] <= 3
    assert policy._pulls[0].sum() >= 16
    if growth == 2:
        assert len(ends) <= 8, ends


@pytest.mark.parametrize("index", ["thompson", "kl-ucb"])
def test_acting_alike_saves_exploring(index: str) -> None:
    alike, alone = (regret(policy, 60, 3, horizon=500) for policy in (Synchronised(index), ThompsonSampling()))
    assert less(alike, 0.8 * alone)
