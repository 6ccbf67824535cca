"""The two forms of plans in the worlds of social learning."""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import gossip_bandit_v0, social_bandit_v0
from taciturn.policies import PPCL, PrivateSocialLearning


@pytest.mark.parametrize(
    ("world", "policy", "params"),
    [
        (gossip_bandit_v0, PPCL(), {"num_agents": 5, "horizon": 5.0}),
        (social_bandit_v0, PrivateSocialLearning(0.7, 0.1), {"num_agents": 30, "signals": "per_agent", "horizon": 5}),
    ],
)
def test_flat_actions_are_the_same_plans(world: Any, policy: Any, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    plans, flats = (
        world.population(4, flat_actions=flat, qualities=(0.9, 0.5, 0.1), **params) for flat in (False, True)
    )
    for env in (plans, flats):
        env.reset(seed=0)
    while not plans.done.all():
        plan = rng.integers(0, [4, 2, 2], (*plans.observe().shape[:2], 3))
        one, other = plans.step(plan), flats.step(plan @ [4, 2, 1])
        np.testing.assert_array_equal(one.observation, other.observation)
        np.testing.assert_array_equal(one.reward, other.reward)
    first, then = (taciturn.simulate(env, policy, seed=0).metrics for env in (plans, flats))
    np.testing.assert_equal(first, then)
