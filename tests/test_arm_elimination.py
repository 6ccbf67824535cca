"""The coordinator's world, in which a step is an epoch of the federated bandit."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributions import fits
from scipy import stats

import taciturn
from taciturn.compiling.counter_streams import sources_of
from taciturn.envs import arm_elimination_v0, federated_bandit_v0
from taciturn.envs.core import Array
from taciturn.envs.federated_bandit.arm_elimination import (
    ArmElimination,
    decode_action,
    draw_uploaders,
    epoch_mean,
    pulls_per_arm,
)
from taciturn.envs.federated_bandit.federation import SOURCES
from taciturn.policies import CDPMAB, EliminationSchedule, Random
from taciturn.policies.reference.arm_elimination import participants
from taciturn.wrappers import Laplace, Privatize

FEW: dict[str, Any] = {"num_agents": 5, "num_arms": 4, "qualities": "grid", "horizon": 1000}


def world(num_envs: int = 1, **params: Any) -> ArmElimination:
    population: ArmElimination = arm_elimination_v0.population(num_envs, **FEW | params)
    return population


def action(env: ArmElimination, *choices: float) -> Array:
    return np.tile(arm_elimination_v0.action(*choices), (env.num_envs, 1, 1))


def test_actions_are_read_as_they_are_made() -> None:
    choices = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, 0.04, 0.6]])
    found = [decode_action(made) for made in arm_elimination_v0.action(*choices.T)]
    np.testing.assert_allclose(found, choices, atol=1e-6)
    assert abs(arm_elimination_v0.action(2.0, 3.0, -1.0)).max() == 1


def test_pulls_go_from_one_to_all_that_fit() -> None:
    shares, most = (0.0, 1.0, 0.5, 0.5, 0.3, 0.0), (100, 100, 100, 1, 0, 0)
    assert [pulls_per_arm(*one) for one in zip(shares, most, strict=True)] == [1, 100, 10, 1, 0, 0]


def test_rewards_are_regrets_as_heard() -> None:
    """The expected reward is minus regret and cost per slot and agent, minus 1 - mu*: within 5 standard errors over
    2,000 runs (6e-7)."""
    env, rng = world(2000), np.random.default_rng(0)
    for privacy in (None, {"means": Laplace(epsilon=2.0)}):
        run_env = Privatize(env, "means", privacy["means"]) if privacy else env
        run_env.reset(seed=0)
        total = np.zeros(2000)
        while not run_env.done.all():
            total += run_env.step(rng.uniform(-1, 1, (2000, 1, 3)).astype(np.float32)).reward[:, 0]
        metrics = run_env.metrics()
        expected = -(metrics["regret"] + metrics["cost"]) / 5000 - (1 - 0.875)
        difference = total - expected
        assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(2000)
        # The test detects rewards that take the best mean to be 0.01 higher.
        assert abs(difference.mean() + 0.01) > 5 * difference.std() / np.sqrt(2000)


def test_epoch_mean_is_of_this_epoch() -> None:
    env = world(qualities=[1.0, 0.0, 1.0, 0.0])
    env.reset(seed=0)
    for _ in range(3):
        env.step(action(env, 0.3, 1.0, 0.4))
        one = SimpleNamespace(**{name: values[0] for name, values in vars(env.state).items()})
        np.testing.assert_allclose([epoch_mean(one, k) for k in range(4)], [1, 0, 1, 0], atol=1e-12)


def test_uploaders_are_drawn_without_replacement() -> None:
    """All sets of 2 of 5 agents alike, and one set independent of the next: chi-square tests, false alarm rate 1e-5
    each."""
    arrays = SimpleNamespace(order=np.arange(5), asks=np.zeros(5, np.bool_))
    rng, sets = sources_of(3, "", SOURCES, np.arange(1))[0], []
    for _ in range(10_000):
        draw_uploaders(arrays, 2, SimpleNamespace(num_agents=5), rng)
        assert sorted(arrays.order) == [0, 1, 2, 3, 4]
        sets.append(tuple(np.flatnonzero(arrays.asks)))
    places = np.unique(sets, axis=0, return_inverse=True)[1].ravel()
    assert stats.chisquare(np.bincount(places)).pvalue > 1e-5
    assert len(np.unique(places)) == 10
    assert fits(np.histogram2d(places[:-1], places[1:], 10)[0], np.ones(100)) > 1e-5


def test_the_schedule_is_algorithm_1() -> None:
    """Runs by the coordinator have the same law as CDPMAB's: two-sample tests, 1e-6."""
    params: dict[str, Any] = {"num_agents": 20, "num_arms": 4, "qualities": "grid", "horizon": 20_000}
    env = arm_elimination_v0.population(600, **params)
    coordinated = taciturn.simulate(env, EliminationSchedule(1.0, 0.5), privacy="paper", seed=1)
    agents = federated_bandit_v0.population(600, **params)
    played = taciturn.simulate(agents, CDPMAB(1.0, 0.5), privacy="paper", seed=2)
    for key in ("regret", "active_arms", "epsilon_basic"):
        assert stats.ks_2samp(coordinated.metrics[key], played.metrics[key], method="asymp").pvalue > 1e-6
    other = taciturn.simulate(env, EliminationSchedule(1.0, 1.0), privacy="paper", seed=1)
    assert stats.ks_2samp(other.metrics["regret"], played.metrics["regret"], method="asymp").pvalue < 1e-6
    np.testing.assert_array_equal(coordinated.metrics["identified"], 1)


def test_the_schedule_beats_random() -> None:
    env = arm_elimination_v0.population(200, horizon=30_000)
    reference = taciturn.simulate(env, EliminationSchedule(), privacy="paper", seed=0).metrics["regret"]
    chance = taciturn.simulate(env, Random(), seed=0).metrics["regret"]
    assert reference.mean() < 0.7 * chance.mean()


def test_edges() -> None:
    one = world(3, num_arms=1, num_agents=1)
    run = taciturn.simulate(one, EliminationSchedule(), seed=0)
    np.testing.assert_array_equal(run.metrics["regret"], 0)
    np.testing.assert_array_equal(run.metrics["rounds"], 1)
    with pytest.raises(ValueError, match="topology must be 'server' for a coordinator, not 'ring'"):
        world(topology="ring")
    with pytest.raises(ValueError, match="EliminationSchedule acts in arm_elimination, not in 'federated_bandit'"):
        taciturn.simulate(federated_bandit_v0.population(), EliminationSchedule(), seed=0)
    with pytest.raises(ValueError, match="CDPMAB acts in federated_bandit, not in 'arm_elimination'"):
        taciturn.simulate(one, CDPMAB(), seed=0)


def test_participants_are_rounded_up() -> None:
    """N = ceil(p M), where p M is a whole number but for rounding too."""
    found = [participants(p, size) for p, size in ((0.25, 10), (0.3, 10), (0.7, 10), (0.01, 5), (1.0, 7))]
    assert found == [3, 3, 7, 1, 7]


def test_no_round_follows_the_last_one() -> None:
    """Two rounds that aim at a gap of .9 leave arms that differ by .01; then the agents play what is best so far."""
    env = federated_bandit_v0.population(3, num_agents=4, qualities=(0.5, 0.49, 0.48), horizon=20_000)
    run = taciturn.simulate(env, CDPMAB(epsilon=10.0, rounds=2, gap=0.9), seed=0, privacy="paper")
    assert run.metrics["rounds"].tolist() == [2, 2, 2]
    more = taciturn.simulate(env, CDPMAB(epsilon=10.0, rounds=4, gap=0.9), seed=0, privacy="paper")
    assert more.metrics["rounds"].tolist() == [4, 4, 4], "which no elimination has prevented"
