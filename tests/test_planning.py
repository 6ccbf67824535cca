"""The exact plan, the Gittins indices and the knowledge gradient, against other ways to compute them, and against
`HoldTheBest` in runs."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from test_designed_social import optimum

import taciturn
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.policies import (
    BayesPlan,
    CentralisedHoldTheBest,
    CentralisedKnowledgeGradient,
    FiniteHorizonGittins,
    GittinsIndex,
    HoldTheBest,
    HorizonKLUCB,
)
from taciturn.policies.designed.planning import (
    GRID,
    LEVELS,
    bayes_plan,
    gittins_indices,
    knowledge_gradient,
    stopping_indices,
)
from taciturn.validation import Floats


def regret(world: Any, params: dict[str, Any], policy: Any, runs: int, seed: int) -> Floats:
    """The popularity regret of each run."""
    found: Floats = taciturn.simulate(world.population(runs, **params), policy, seed=seed).metrics["popularity_regret"]
    return found


def test_the_plan_of_two_options_is_the_optimum() -> None:
    """`optimum` tells the agent the qualities after its ticks, which bounds it from below; here it keeps its option,
    which bounds it from above. With 14 ticks in a run of 4 expected ones the bounds meet."""
    value, *_ = bayes_plan(14, 4.0)((0, 0), ((0, 0),), 0)
    assert 2 / 3 - value / 4.0 == pytest.approx(optimum(4.0, 14), abs=1e-4)


def test_a_run_has_the_value_of_its_plan() -> None:
    """Agents with four options; 4 standard errors, false alarm 6e-5."""
    ticks, horizon = 8, 4.0
    value, *_ = bayes_plan(ticks, horizon)((0, 0), ((0, 0),) * 3, 0)
    found = regret(gossip_bandit_v0, {"num_agents": 10, "horizon": horizon}, BayesPlan(ticks), 600, 3)
    assert found.mean() == pytest.approx(4 / 5 - value / horizon, abs=4 * found.std() / math.sqrt(found.size))


@cache
def index(ones: int, zeros: int, left: int) -> float:
    """The Gittins index by its other definition: the largest expected reward per expected round, over rules that stop
    within `left` rounds (found by bisection)."""
    low, high = 0.0, 1.0
    for _ in range(40):
        charge = (low + high) / 2

        @cache
        def gain(hits: int, misses: int, rounds: int, charge: float = charge) -> float:
            if rounds == 0:
                return 0.0
            mean = (1 + hits) / (2 + hits + misses)
            later = mean * gain(hits + 1, misses, rounds - 1) + (1 - mean) * gain(hits, misses + 1, rounds - 1)
            return max(0.0, mean - charge + later)

        low, high = (charge, high) if gain(ones, zeros, left) > 0 else (low, charge)
    return low


@pytest.mark.parametrize(("ones", "zeros", "left"), [(0, 0, 1), (0, 0, 2), (2, 1, 6), (0, 3, 12), (5, 5, 20)])
def test_gittins_indices_by_stopping(ones: int, zeros: int, left: int) -> None:
    assert gittins_indices(20)[left, ones, zeros] == pytest.approx(index(ones, zeros, left), abs=1.01 / (GRID + 1))


@pytest.mark.parametrize(
    ("ones", "zeros", "left"), [(0, 0, 1), (0, 0, 2), (2, 1, 6), (0, 3, 12), (5, 5, 20), (9, 0, 9)]
)
def test_indices_of_an_arms_own_pulls_and_those_left(ones: int, zeros: int, left: int) -> None:
    n = ones + zeros
    found = stopping_indices(n + left, n + 2)[n * (n + 1) // 2 + ones]
    assert found == pytest.approx(index(ones, zeros, left), abs=0.1 / LEVELS)


def test_an_arm_has_its_mean_once_no_pull_is_left() -> None:
    np.testing.assert_allclose(stopping_indices(1, 3), [1 / 2, 1 / 3, 2 / 3, 1 / 4, 1 / 2, 3 / 4], rtol=1e-6)


@pytest.mark.parametrize("stretch", [1.0, 2.0])
def test_the_arm_of_the_largest_index(stretch: float) -> None:
    """Between tables, too, and for arms of few and many pulls: its index by stopping is at most 0.001 below the
    largest."""
    rng, policy, horizon = np.random.default_rng(0), FiniteHorizonGittins(stretch), 26
    policy.reset(federated_bandit_v0.population(1, num_agents=1, num_arms=3, horizon=horizon), rng)
    for _ in range(30):
        counts = rng.integers(0, 9, 3) * rng.integers(0, 2, 3)
        counts[0] = 9
        ones = rng.binomial(counts, 0.3 + 0.4 * rng.random(3))
        left = int(1 + stretch * (horizon - counts.sum() - 1))
        exact = [index(s, n - s, left) for n, s in zip(counts.tolist(), ones.tolist(), strict=True)]
        arm = policy.choose(counts[None, None], (ones / np.maximum(counts, 1))[None, None]).item()
        assert exact[arm] >= max(exact) - 0.001


def test_indices_alone_are_better_than_a_budget_of_divergence() -> None:
    """With many arms, in paired runs; 4 standard errors, false alarm 3e-5 if they were equal."""
    world: dict[str, Any] = {"num_agents": 1, "num_arms": 20, "horizon": 300}
    runs = [
        taciturn.simulate(federated_bandit_v0.population(1000, **world), one, seed=7).metrics["regret_per_agent"]
        for one in (FiniteHorizonGittins(), HorizonKLUCB())
    ]
    assert (runs[1] - runs[0]).mean() > 4 * (runs[1] - runs[0]).std() / math.sqrt(1000)


def test_the_knowledge_gradient_by_quadrature() -> None:
    """The mean of the best option after its signals, minus the best mean now."""
    mean, n, signals = np.array([0.5, 0.4, 0.7]), np.array([4, 2, 6]), 0.5
    spread = np.sqrt(mean * (1 - mean) / (3 + n) * signals / (1 + signals))
    places, weights = np.polynomial.hermite_e.hermegauss(200)
    for k, found in enumerate(knowledge_gradient(mean, n, signals)):
        rival = np.delete(mean, k).max()
        best = (np.maximum(mean[k] + spread[k] * places, rival) * weights).sum() / weights.sum()
        assert found * signals * (n[k] + 2) == pytest.approx(best - mean.max(), abs=2e-3)


GOSSIP: dict[str, Any] = {"num_agents": 20, "horizon": 20.0}
SOCIAL: dict[str, Any] = {"num_agents": 20, "horizon": 50, "signals": "per_agent"}


@pytest.mark.parametrize(
    ("world", "params", "better", "worse", "runs"),
    [
        (gossip_bandit_v0, GOSSIP, CentralisedKnowledgeGradient(), CentralisedHoldTheBest(), 8000),
        (social_bandit_v0, SOCIAL, GittinsIndex(), HoldTheBest(1.79, 0.567), 600),
    ],
    ids=["gradient", "index"],
)
def test_they_are_better_than_tuned_optimism(world: Any, params: Any, better: Any, worse: Any, runs: int) -> None:
    """In paired runs; 4 standard errors, false alarm 3e-5 each if they were equal."""
    gain = regret(world, params, worse, runs, 7) - regret(world, params, better, runs, 7)
    assert gain.mean() > 4 * gain.std() / math.sqrt(runs)


@pytest.mark.parametrize(
    ("policy", "world", "params", "words"),
    [
        (BayesPlan(2), social_bandit_v0, SOCIAL, "gossip_bandit with at most 4 options"),
        (BayesPlan(2), gossip_bandit_v0, {"num_options": 5}, "gossip_bandit with at most 4 options"),
        (GittinsIndex(), gossip_bandit_v0, GOSSIP, "social_bandit with a horizon of at most 200"),
        (GittinsIndex(), social_bandit_v0, {"horizon": 201}, "social_bandit with a horizon of at most 200"),
        (CentralisedKnowledgeGradient(), social_bandit_v0, SOCIAL, "gossip_bandit"),
        (FiniteHorizonGittins(), gossip_bandit_v0, GOSSIP, "federated_bandit"),
        (
            FiniteHorizonGittins(),
            federated_bandit_v0,
            {"horizon": 4001},
            "federated_bandit with a horizon of at most 4000",
        ),
    ],
)
def test_where_they_do_not_fit(policy: Any, world: Any, params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        taciturn.simulate(world.population(1, **params), policy, seed=0)
