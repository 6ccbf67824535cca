"""Replicas that end at different times: Gymnasium's autoreset modes, frozen replicas, partial resets."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from cases import CASES, IDS, chosen, draw, every, every_id, every_mode, of, seen
from gymnasium.vector import AutoresetMode

from taciturn.envs.core import Array, Controlled
from taciturn.policies import Random

# Vector environments.

# Has a meaning at a reset too: agents may speak as a run begins.
SPENT = ("messages", "epsilon_message", "epsilon_basic")
# Gymnasium's resets the other role's policy at every episode, and in ours it goes on.
CONTROLLED = ("tests/Individual-v0", "tests/Platform-v0")
# Others act before the agent does, and info tells of it.
TOLD_AT_ONCE = (*CONTROLLED, "taciturn/GossipBandit-v0")


def holds(info: dict[str, Any], key: str, num_envs: int) -> Array:
    """For which replicas an info key has a meaning, by Gymnasium's convention."""
    if key not in info:
        return np.zeros(num_envs, np.bool_)
    mask: Array = np.broadcast_to(info.get(f"_{key}", True), (num_envs,))
    return mask


def named(info: dict[str, Any]) -> set[str]:
    return {key for key in info if not key.startswith("_")}


def make_both(env_id: str, mode: AutoresetMode, num_envs: int) -> dict[str, Any]:
    kwargs = {**IDS[env_id], "num_envs": num_envs}
    return {
        "ours": gymnasium.make_vec(env_id, vectorization_mode="vector_entry_point", autoreset_mode=mode, **kwargs),
        "sync": gymnasium.make_vec(env_id, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **kwargs),
    }


@pytest.mark.api
@every_mode
@pytest.mark.parametrize("env_id", [env_id for env_id in IDS if env_id not in CONTROLLED])
def test_vector_env_is_gymnasiums_of_one_replica(env_id: str, mode: AutoresetMode) -> None:
    envs = make_both(env_id, mode, 1)
    ours, sync = envs["ours"], envs["sync"]
    assert ours.metadata["autoreset_mode"] is mode
    for space in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, space) == getattr(sync, space)
    np.testing.assert_array_equal(ours.reset(seed=0)[0], sync.reset(seed=0)[0])
    ours.action_space.seed(0)
    for _ in range(150):
        actions = ours.action_space.sample()
        one, other = ours.step(actions), sync.step(actions)
        for a, b in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        assert_same_info(one[4], other[4])
        if mode is AutoresetMode.DISABLED and (one[2] | one[3]).any():
            for env in envs.values():
                env.reset(options={"reset_mask": np.ones(1, np.bool_)})


def assert_same_info(ours: dict[str, Any], sync: dict[str, Any]) -> None:
    """The same values of one replica; our masks also say where a value has no meaning, which Gymnasium cannot know."""
    assert set(ours) == set(sync)
    for key in named(ours):
        assert holds(ours, key, 1) <= holds(sync, key, 1), key
        if isinstance(ours[key], dict):
            assert_same_info(ours[key], sync[key])
        elif holds(sync, key, 1):
            np.testing.assert_array_equal(ours[key][0], sync[key][0])
            assert np.asarray(ours[key]).dtype == np.asarray(sync[key]).dtype, key


@pytest.mark.api
@every_mode
@every_id
def test_autoreset(env_id: str, mode: AutoresetMode) -> None:
    """Gymnasium's conventions, which its own vector environment and ours both keep."""
    told: dict[str, set[str]] = {}
    for who, env in make_both(env_id, mode, 3).items():
        _, begun = env.reset(seed=0)
        env.action_space.seed(0)
        told[who] = set()
        resets = np.zeros(3, np.bool_)
        ends, apart = 0, False
        for _ in range(200):
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            ended = terminated | truncated
            assert env.observation_space.contains(observation)
            assert [x.dtype for x in (reward, terminated, truncated)] == [np.float64, np.bool_, np.bool_]
            assert not (reward[resets] != 0).any()
            assert not ended[resets].any()
            final = info.pop("final_info", {})
            if mode is AutoresetMode.SAME_STEP and ended.any():
                np.testing.assert_array_equal(info.pop("_final_info"), ended)
                np.testing.assert_array_equal(info.pop("_final_obs"), ended)
                for last, is_last in zip(info.pop("final_obs"), ended, strict=True):
                    assert env.single_observation_space.contains(last) if is_last else last is None
                resets = ended
            assert not any((holds(final, key, 3) & ~resets).any() for key in named(final))
            for key in named(info) - {"action_mask", *SPENT} if env_id not in TOLD_AT_ONCE else ():
                np.testing.assert_array_equal(info[key][resets], begun[key][resets])
            told[who] |= {f"final {key}" for key in final} | set(info)
            if mode is AutoresetMode.NEXT_STEP:
                resets = ended
            elif mode is AutoresetMode.SAME_STEP:
                resets = np.zeros(3, np.bool_)
            elif ended.any():
                fresh, _ = env.reset(options={"reset_mask": ended})
                np.testing.assert_array_equal(fresh[~ended], observation[~ended])
            ends += int(ended.sum())
            apart |= bool(ended.any() and not ended.all())
        assert ends > 3
        assert apart or env_id not in ("tests/Corridor-v0", "taciturn/RoundStopping-v0")
        env.close()
    assert told["ours"] == told["sync"]


def test_without_autoreset_an_ended_replica_refuses_to_step() -> None:
    env = CASES["corridor"].vector_env(num_envs=3, autoreset_mode="Disabled")
    env.reset(seed=0)
    while not env.population.done.any():
        env.step(np.full(3, 2))
    state = env.population.state
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"replicas \[.*\] are done: reset\(options="):
        env.step(np.full(3, 2))
    assert env.population.state is state


def test_reset_mask_must_mark_some_replica() -> None:
    env = CASES["corridor"].vector_env(num_envs=2)
    env.reset(seed=0)
    for mask in (np.zeros(2, np.bool_), np.ones(3, np.bool_), np.ones(2)):
        with pytest.raises(ValueError, match=r"reset_mask must mark|where must be bool\[2\]"):
            env.reset(options={"reset_mask": mask})


# Replicas.


@every
def test_done_replicas_are_frozen_until_they_are_reset(name: str) -> None:
    population, rng = CASES[name].population(num_envs=4), np.random.default_rng(0)
    population.reset(seed=0)
    cycle = 1 if population.turns is None else len(population.turns)
    for _ in range(3 * cycle):
        population.step(chosen(population, draw(population, rng)))
    population.reset(where=np.array([False, True, False, True]))
    while not population.done.any():
        population.step(chosen(population, draw(population, rng)))
    assert not population.done.all()
    ended = population.done.copy()
    frozen = [of(population.state, i) for i in range(4)]
    sent = {key: channel.messages().copy() for key, channel in population.channels.items()}
    flags = population.terminated.copy(), population.truncated.copy()
    observation = {role: rows[ended] for role, rows in seen(population).items()}
    for _ in range(2 * cycle):
        if population.done.all():
            break
        step = population.step(chosen(population, draw(population, rng)))
        rewards = step.reward.values() if isinstance(step.reward, dict) else [step.reward]
        assert not any(reward[ended].any() for reward in rewards)
        assert not any(holds(step.info, key, 4)[ended].any() for key in named(step.info))
    for i in np.flatnonzero(ended).tolist():
        np.testing.assert_equal(of(population.state, i), frozen[i])
    for before, after in zip(flags, (population.terminated, population.truncated), strict=True):
        np.testing.assert_array_equal(before[ended], after[ended])
    for key, channel in population.channels.items():
        np.testing.assert_array_equal(sent[key][ended], channel.messages()[ended])
    np.testing.assert_equal({role: rows[ended] for role, rows in seen(population).items()}, observation)

    if len(population.roles) > 1 and population.turn != population.turns[0]:  # type: ignore[index]
        population.step(chosen(population, draw(population, rng)))
    others = {i: of(population.state, i) for i in np.flatnonzero(~ended).tolist()}
    done = population.done.copy()
    population.reset(where=ended)
    np.testing.assert_array_equal(population.done, done & ~ended)
    for i, state in others.items():
        np.testing.assert_equal(of(population.state, i), state)
    for channel in population.channels.values():
        assert (channel.messages()[ended] <= 1).all()  # what agents say as they begin
    population.step(chosen(population, draw(population, rng)))


@pytest.mark.parametrize("role", ["platform", "individual"])
def test_controlled_role_meets_the_others(role: str) -> None:
    """One step of the controlled role and the others' turn are two turns of the world, with the same luck."""
    case = CASES[role]
    population, inner = case.population(num_envs=2), tiny.auction_v0.population(num_envs=2)
    assert isinstance(population, Controlled)
    (other,) = population.others
    policy, rng = Random(), np.random.default_rng(0)
    observation, _ = population.reset(seed=3)
    expected, _ = inner.reset(seed=3)
    policy.reset(inner, inner.stream(f"policy/{other}"), other)
    if role == "individual":
        expected, *_ = inner.step({other: policy.act(expected[other])})
    np.testing.assert_array_equal(observation, expected[role])
    while not population.done.all():
        actions = draw(population, rng)[role]
        step = population.step(actions)
        first = inner.step({role: actions})
        earned = first.reward[role].copy()
        if not inner.done.all():
            second = inner.step({other: policy.act(first.observation[other])})
            earned += second.reward.get(role, 0.0)
            np.testing.assert_array_equal(step.observation, second.observation[role])
        np.testing.assert_array_equal(step.reward, earned)
        np.testing.assert_array_equal(step.truncated, inner.truncated)
    assert population.clock().tolist() == [12, 12]


@pytest.mark.parametrize("role", ["platform", "individual"])
def test_controlled_partial_reset(role: str) -> None:
    population, rng = CASES[role].population(num_envs=3), np.random.default_rng(0)
    population.reset(seed=3)
    for _ in range(4):
        population.step(draw(population, rng)[role])
    before = [of(population.state, i) for i in range(3)]
    where = np.array([False, True, False])
    for bad in ({"where": where[:2]}, {"where": where, "seed": -1}):
        with pytest.raises(ValueError, match=r"where must be|seed must be"):
            population.reset(**bad)
    for mask in (np.zeros(3, np.bool_), where):
        population.reset(where=mask)
        for i in np.flatnonzero(~mask).tolist():
            np.testing.assert_equal(of(population.state, i), before[i])
    assert population.clock().tolist() == [4, 0, 4]
    assert role == "platform" or population.state.price[1] > 0
    while not population.done.all():
        population.step(draw(population, rng)[role])
    assert population.clock().tolist() == [12, 12, 12]
