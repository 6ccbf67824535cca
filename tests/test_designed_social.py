"""Agents designed to listen: their posterior, their simulation of others, their privacy, and what it is worth."""

import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import gossip_bandit_v0
from taciturn.policies import HoldTheBest, IsolatedThompson, Listener
from taciturn.policies.designed.social import holds, tables
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize, audit

TASK: dict[str, Any] = {"num_agents": 20, "horizon": 20.0}


def test_what_is_adopted_has_the_largest_posterior_mean() -> None:
    ones, zeros = np.array([[2, 0, 1], [0, 0, 0]]), np.array([[1, 0, 1], [0, 0, 0]])
    # Means 3/5, 1/2, 1/2; the second would have 1/3 after a 0 and 2/3 after a 1. Ties are not enough.
    np.testing.assert_array_equal(holds(ones, zeros, np.array([1, 0])), [[False, False], [True, True]])
    np.testing.assert_array_equal(holds(ones, zeros, np.array([0, 0])), [[False, False], [True, True]])
    np.testing.assert_array_equal(holds(ones[:1], zeros[:1], np.array([2]))[1], [False])


@pytest.mark.parametrize("world", [12, 19])
def test_the_simulation_is_the_world_with_agents_on_their_own(world: int) -> None:
    """Shares of 256 simulated agents against 2,000 of the world, within 5 standard errors: false alarm below 1e-5."""
    known = tables(4, 3.0)
    env = gossip_bandit_v0.population(1, num_agents=2000, qualities=tuple(known.qualities[world]), horizon=3.0)
    shares = taciturn.simulate(env, HoldTheBest(), seed=1, record=["popularity"], until=[3.0]).trace["popularity"][
        -1, 0
    ]
    error = np.sqrt(shares * (1 - shares) * (1 / 256 + 1 / 2000)) + 1 / 256
    assert (np.abs(shares - known.shares[world]) < 5 * error).all(), (shares, known.shares[world])
    assert np.abs(shares - 0.25).max() > 0.1, "they have learned"


def test_the_weights_are_those_of_bayes() -> None:
    """Against products of Bernoulli probabilities, one by one."""
    env = gossip_bandit_v0.population(1, num_agents=5, num_options=2, horizon=4.0)
    policy, law = Listener(2.0, moment=2.0), BitwiseRandomizedResponse(2.0)
    private = Privatize(env, "preference", policy.prescribes(env.view(policy))["preference"])
    private.reset(seed=0)
    policy.reset(private, np.random.default_rng(0))
    ones, zeros, counts = (
        np.array([[[2, 0]]]),
        np.array([[[1, 3]]]),
        np.array([[[3.0, 1.0, 4.0]]]),
    )  # one answer was lost
    found = policy.log_weights(ones, zeros, counts)[0, 0]
    theta, shares = tables(2, 2.0)
    for world in (0, 17, 300):
        expected = 0.0
        for k in range(2):
            bit = law.q + (law.p - law.q) * shares[world, k]
            chances = [theta[world, k]] * int(ones[0, 0, k]) + [1 - theta[world, k]] * int(zeros[0, 0, k])
            chances += [bit] * int(counts[0, 0, k]) + [1 - bit] * int(4 - counts[0, 0, k])
            expected += sum(map(math.log, chances))
        assert found[world] == pytest.approx(expected)
    silent = policy.log_weights(ones, zeros, np.zeros((1, 1, 3)))[0, 0]
    assert silent[17] == pytest.approx(sum(ones[0, 0] * np.log(theta[17]) + zeros[0, 0] * np.log(1 - theta[17])))


@pytest.fixture(scope="module")
def regrets() -> dict[str, Any]:
    """Of 200 runs, on seeds that the settings were not chosen on."""
    env = gossip_bandit_v0.population(200, without_preference="zeros", **TASK)
    policies = {"copying": IsolatedThompson(), "alone": HoldTheBest()}
    policies |= {f"at {e:g}": Listener(e) for e in (10.0, 3.0)} | {"exact": Listener(None)}
    return {
        name: taciturn.simulate(env, policy, seed=5, privacy="paper" if isinstance(policy, Listener) else None)
        for name, policy in policies.items()
    }


def test_listening_pays_under_a_total(regrets: dict[str, Any]) -> None:
    """Pairs of runs of the same seeds; 4 standard errors, false alarm below 1e-4 each."""
    regret = {name: run.metrics["popularity_regret"] for name, run in regrets.items()}
    for better, worse in (("alone", "copying"), ("at 3", "alone"), ("at 10", "alone"), ("exact", "alone")):
        gain = regret[worse] - regret[better]
        assert gain.mean() > 4 * gain.std() / math.sqrt(gain.size), (better, worse, gain.mean())
    for name, total in (("at 10", 10.0), ("at 3", 3.0)):
        for unit in ("event", "user"):
            np.testing.assert_array_equal(regrets[name].ledger.total(0.0, method="basic", unit=unit), total)
    assert np.isinf(regrets["exact"].ledger.total(0.0, method="basic")).all()


def test_listeners_reveal_no_more_than_their_answer() -> None:
    env = gossip_bandit_v0.population(1, num_agents=4, num_options=2, horizon=6.0, without_preference="zeros")
    policy = Listener(3.0, moment=2.0)
    private = Privatize(env, "preference", policy.prescribes(env.view(policy))["preference"])
    found = audit(private, policy=policy, change=(0, 1), trials=4000, confidence=0.9999)
    assert found.claimed == 3.0
    assert 0.1 < found.certified <= 3.0


@pytest.mark.parametrize("given", [{"asks": "one"}, {"initial_preferences": "none"}, {"reward": "preference"}])
def test_where_it_cannot_act(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Listener acts in gossip_bandit"):
        taciturn.simulate(gossip_bandit_v0.population(1, num_agents=6, **given), Listener(), seed=0)
    with pytest.raises(ValueError, match="moment must be"):
        Listener(moment=0.0)


@pytest.mark.parametrize("policy", [HoldTheBest(), Listener(None, moment=1.0)], ids=repr)
def test_a_run_that_is_over_is_forgotten(policy: Any) -> None:
    """In its replica alone."""
    env = gossip_bandit_v0.population(2, num_agents=5, horizon=8.0)
    obs, _ = env.reset(seed=0)
    policy.reset(env, np.random.default_rng(0))
    while not env.done.any():
        actions = policy.act(obs)
        step = env.step(actions)
        policy.update(obs, actions, step.reward, env.done)
        obs = step.observation
    memory = [policy._counted, *([policy._heard, policy._ticks] if isinstance(policy, Listener) else [])]
    for values in memory:
        assert not values[env.done].any()
        assert env.done.all() or values[~env.done].any()
