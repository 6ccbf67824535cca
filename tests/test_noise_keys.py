"""Noise of two configurations with one seed: subtracting it must not give the data."""

from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

import taciturn
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, recommender_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.envs.gossip_bandit.ticks import NOISE
from taciturn.policies import Random
from taciturn.seeding import described
from taciturn.wrappers import BitwiseRandomizedResponse, Laplace, PrivatizeObservation, TreeAggregation


def noise_of(mechanism: Any, seed: int = 0, horizon: int = 40, **params: Any) -> Array:
    """What the first uploads of agents that always upload are off by, in units of a noise of epsilon 1."""
    env = federated_bandit_v0.population(2, num_agents=3, num_arms=1, qualities=(1.0,), horizon=horizon, **params)
    env.reset(seed=seed, options={"channels": {"means": ChannelConfig(mechanism)}})
    env.step(np.ones((2, 3), np.int64))
    found: Array = (env.state.private[:, :, 0] - 1.0) * mechanism.epsilon
    return found


def test_two_levels_with_one_seed_do_not_give_the_data() -> None:
    """With one noise for both, the mean would be (e2 y2 - e1 y1) / (e2 - e1), exactly."""
    one, other, again = (noise_of(Laplace(epsilon)) for epsilon in (1.0, 2.0, 1.0))
    np.testing.assert_array_equal(one, again)
    assert not np.isclose(one, other, rtol=1e-6, atol=1e-9).any()
    assert not np.isclose(one, noise_of(Laplace(1.0), horizon=41), rtol=1e-6, atol=1e-9).any()


def test_everything_else_keeps_its_numbers() -> None:
    """Rewards are the same with and without noise, and at any level."""
    found = []
    for privacy in (None, {"means": Laplace(1.0)}, {"means": Laplace(5.0)}):
        env = federated_bandit_v0.population(3, num_agents=3, num_arms=2, horizon=50)
        found.append(taciturn.simulate(env, Random(), seed=4, privacy=privacy, record=["reward"]).trace)
    np.testing.assert_equal(found[0], found[1])
    np.testing.assert_equal(found[0], found[2])


def test_levels_that_speakers_choose_do_not_share_noise() -> None:
    found = []
    for action in (3, 4):
        env: Any = federated_bandit_v0.population(
            2, num_agents=3, num_arms=1, qualities=(1.0,), horizon=40, message_levels="chosen"
        )
        env.reset(seed=0)
        env.step({"communicator": np.full((2, 3), action)})
        env.step({"agent": np.ones((2, 3), np.int64)})
        found.append((env.state.private[:, :, 0] - 1.0) * env.grid[action])
    assert not np.isclose(found[0], found[1], rtol=1e-6, atol=1e-9).any()


def test_noise_that_a_world_draws_itself_has_keys_too() -> None:
    """Gossip's from a source of its own, the third party's from a key; other sources stay."""
    sources, keys = [], []
    for epsilon in (1.0, 2.0, 1.0):
        gossip: Any = gossip_bandit_v0.population(2, num_agents=4)
        distribution = ChannelConfig(BitwiseRandomizedResponse(epsilon))
        gossip.reset(seed=0, options={"channels": {"preference": distribution}})
        sources.append(gossip._rngs[:, :, 0])
        shop: Any = recommender_v0.population(2, num_agents=2, num_items=6, horizon=5)
        shop.reset(seed=0, options={"channels": {"statistics": ChannelConfig(TreeAggregation(epsilon))}})
        keys.append(shop.third_party.accounts["statistics"].key.copy())
    differ = (sources[0] != sources[1]).any(0)
    assert np.flatnonzero(differ).tolist() == [NOISE]
    np.testing.assert_array_equal(sources[0], sources[2])
    assert (keys[0] != keys[1]).all()
    np.testing.assert_array_equal(keys[0], keys[2])


def test_noise_on_environments_from_elsewhere_has_keys_too() -> None:
    plain, found = gymnasium.make("CartPole-v1").reset(seed=0)[0], []
    for epsilon in (1.0, 2.0):
        env = PrivatizeObservation(gymnasium.make("CartPole-v1"), Laplace(epsilon), bounds=(-1000.0, 1000.0))
        found.append((env.reset(seed=0)[0] - plain) * epsilon)
    assert not np.isclose(found[0], found[1], rtol=1e-3).any()


class Opaque:
    def __init__(self, level: float) -> None:
        self.level = level


@dataclass
class Outer:
    inner: Any


def test_configurations_as_text() -> None:
    """Equal numbers are equal, the last digit counts, and no address shows."""
    assert described(1) == described(1.0) == described(np.float64(1))
    assert described(0.1) != described(np.nextafter(0.1, 1))
    assert described(np.zeros(2000)) != described(np.eye(1, 2000)[0])
    assert described({"a": 1, "b": 2}) == described({"b": 2, "a": 1})
    for make in (Outer, lambda inner: [inner], lambda inner: {"x": inner}):
        assert described(make(Opaque(1.0))) == described(make(Opaque(1.0))) != described(make(Opaque(2.0)))
    assert described(lambda: 0) == described(lambda: 1)
