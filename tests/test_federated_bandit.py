"""Federated arm elimination: the equations, the three topologies, slots against epochs, and what goes wrong."""

import numpy as np

import tacit
from tacit.envs import federated_bandit_v0
from tacit.policies import CDPMAB

METRICS = {"regret", "regret_per_agent", "cost", "rounds", "active_arms", "identified", "epsilon_max"}


def test_the_whole_job() -> None:
    env = federated_bandit_v0.population(
        num_envs=4, num_agents=50, qualities="grid", num_arms=100, horizon=100_000, topology="server",
        server_link_cost=25.0, agent_link_cost=1.0,
    )  # fmt: skip
    run = tacit.simulate(env, CDPMAB(epsilon=1.0, participation=1.0, rounds=None), privacy="paper", seed=0)
    assert run.metrics.keys() >= METRICS
    assert all(value.shape == (4,) for value in run.metrics.values())
    np.testing.assert_array_equal(run.metrics["identified"], 1)
    np.testing.assert_array_equal(run.metrics["active_arms"], 1)
    np.testing.assert_array_equal(run.metrics["cost"], 25 * 50 * run.metrics["rounds"])
    np.testing.assert_allclose(run.metrics["epsilon_max"], 50)
    np.testing.assert_array_equal(env.clock(), 100_000)
