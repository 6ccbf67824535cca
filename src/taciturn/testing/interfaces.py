"""Checks of every interface: the suites of Gymnasium, PettingZoo and Stable-Baselines3, and further checks."""

import contextlib
import copy
import dataclasses
import importlib.util
import os
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import pettingzoo
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from taciturn import registry
from taciturn.envs.core import AECView, ParallelView, Played, VectorView, fields
from taciturn.testing.cases import (
    Case,
    chosen,
    dressed,
    dresses,
    holds,
    named,
    raises,
    random_actions,
    seen,
    world_check,
)
from taciturn.testing.forms import play, views
from taciturn.wrappers.channels import added_configs

with warnings.catch_warnings():
    # PettingZoo warns about the way its own example environments are made.
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    from pettingzoo.test import api_test, max_cycles_test, parallel_api_test, render_test, state_test


def has_id(case: Case) -> bool:
    """Whether `gymnasium.make` can make the case's environment."""
    return case.has_id


def has_stable_baselines() -> bool:
    return importlib.util.find_spec("stable_baselines3") is not None


@contextlib.contextmanager
def pettingzoo_warnings(case: Case) -> Iterator[None]:
    """Ignore PettingZoo's warnings about all environments with MultiDiscrete actions or with roles that have different
    observations."""
    roles = case.population().roles.values()
    with warnings.catch_warnings():
        if len({repr(role.layout) for role in roles}) > 1:
            warnings.filterwarnings("ignore", "Agents have different observation space sizes")
            warnings.filterwarnings("ignore", "Observations are different shapes")
        if any(isinstance(role.action_space, gymnasium.spaces.MultiDiscrete) for role in roles):
            warnings.filterwarnings("ignore", "Action space for each agent probably should be")
        yield


@world_check(over=dresses, api=True)
def pettingzoo_api(case: Case, dress: str) -> None:
    with pettingzoo_warnings(case):
        api_test(dressed(case.env(), case, dress), num_cycles=40)


@world_check(over=dresses, api=True)
def pettingzoo_parallel_api(case: Case, dress: str) -> None:
    with pettingzoo_warnings(case):
        parallel_api_test(dressed(case.parallel_env(), case, dress), num_cycles=40)


@world_check(api=True)
def pettingzoo_render(case: Case) -> None:
    with mock.patch.dict(os.environ, SDL_VIDEODRIVER="dummy"):  # no window opens
        render_test(case.env)


@world_check(applies=lambda case: case.runs_to_its_horizon, api=True)
def pettingzoo_max_cycles(case: Case) -> None:
    max_cycles_test(case)


@world_check(applies=has_id, over=dresses, api=True)
def gymnasium_check_env(case: Case, dress: str) -> None:
    # It warns that the environment is a wrapper. Pictures take long, and each wrapper passes them on in "both".
    warnings.filterwarnings("ignore", ".*is different from the unwrapped version")
    check_env(dressed(case.make().unwrapped, case, dress), skip_render_check=dress not in ("plain", "both"))


@world_check(applies=lambda case: case.has_id and has_stable_baselines(), over=dresses)
def sb3_check_env(case: Case, dress: str) -> None:
    from stable_baselines3.common import env_checker

    warnings.filterwarnings("ignore", "We recommend you to use a symmetric and normalized Box action space")
    env_checker.check_env(dressed(case.make().unwrapped, case, dress))


def kinds(info: dict[str, Any], masks: bool = False) -> dict[str, Any]:
    """The types of the values of an info (a plain dict), by key, nested for values by agent; without keys that may be
    missing."""
    assert type(info) is dict, "C code would bypass the methods that a subclass overrides"
    results: dict[str, Any] = {}
    for key, value in info.items():
        if key.removeprefix("_") in ("final_obs", "final_info", "terminal_observation"):
            continue
        assert key.removeprefix("_") != "reward"
        if isinstance(value, dict):
            results[key] = kinds(value)
        elif isinstance(value, np.ndarray):
            assert value.dtype.kind in "biuf", (key, value)
            results[key] = value.dtype, value.shape
        else:
            assert type(value) in (bool, int, float), (key, value)
            results[key] = type(value)
    if masks:
        names = {key.removeprefix("_") for key in info}
        assert set(results) >= {f"_{key}" for key in names if key not in ("final_obs", "final_info")}
    return results


def infos_of_forms(case: Case, dress: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(agent, its info) at every step and reset of every form of an environment, with a reset in mid-run."""
    for form, make in views(case).items():
        env: Any = dressed(make(), case, dress)
        rng = np.random.default_rng(0)
        for steps in (9, 60):
            begun = env.reset(seed=0)
            for made in chain([begun] if begun else [], islice(play(env, rng), steps)):
                info = made[-1]
                if form == "parallel":
                    yield from info.items()
                    continue
                yield (made[0] if form == "aec" else form), info
                if "final_info" in info:
                    yield form, info["final_info"]


def infos_of_rows(case: Case, dress: str) -> Iterator[tuple[str, dict[str, Any]]]:
    from taciturn.wrappers.sb3 import RowsVecEnv

    rows = RowsVecEnv(dressed(case.population(2), case, dress), seed=0)
    rows.reset()
    yield from (("row", info) for info in rows.reset_infos)
    for _ in range(60):
        actions = np.stack([rows.action_space.sample() for _ in range(rows.num_envs)])
        yield from (("row", info) for info in rows.step(actions)[3])


def assert_alike(infos: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """An agent's infos always have the same keys, with the same types."""
    known: dict[str, Any] = {}
    for who, info in infos:
        vector = who in ("array", *(mode.value for mode in AutoresetMode))
        assert known.setdefault(who, kinds(info, vector)) == kinds(info, vector), who
    assert known


@world_check(over=dresses)
def info_has_the_same_keys_and_types_at_every_step(case: Case, dress: str) -> None:
    assert_alike(infos_of_forms(case, dress))
    if case.one_role and has_stable_baselines():
        assert_alike(infos_of_rows(case, dress))
    env, aec = dressed(case.parallel_env(), case, dress), dressed(case.env(), case, dress)
    aec.reset(seed=0)
    for infos in (env.reset(seed=0)[1], aec.infos):
        assert len({id(info) for info in infos.values()}) == len(infos), "each agent has its own dict"


@world_check(api=True)
def agents_that_act_in_turns_are_not_parallelizable(case: Case) -> None:
    """PettingZoo's `aec_to_parallel` would change the game: an agent's observations change within a cycle."""
    env = case.env()
    if not isinstance(env.population, Played):  # its agent observes the other agents' actions in between
        assert env.metadata["is_parallelizable"] is not (case.one_by_one or case.phased)


@world_check(api=True)
def pettingzoo_state(case: Case) -> None:
    with pettingzoo_warnings(case):
        # These occur at the beginning of a run, and if the hidden state is all that there is.
        warnings.filterwarnings("ignore", "State numpy array is all zeros|State is a single number")
        state_test(case.env(), case.parallel_env())


@world_check()
def state_leaves_out_hidden_truth_unless_it_is_asked_for(case: Case) -> None:
    env = case.parallel_env()
    before = env.state_space
    env.reset(seed=0)
    population = env.population
    known = {field.name for field in dataclasses.fields(population.state)}
    secret = fields.of_kind(type(population.state), fields.HIDDEN)
    public, state = env.state(), population.state
    assert env.state_space is before
    env.truth_in_state = True
    whole = env.state()
    sizes = {name: getattr(state, name)[0].size for name in known}
    assert (public.size, whole.size) == (sum(sizes.values()) - sum(sizes[name] for name in secret), sum(sizes.values()))
    assert env.state_space.contains(whole)
    for name in known:
        if sizes[name]:
            other = np.where(np.isfinite(getattr(state, name)), 0.7 + 2.0 * getattr(state, name), 0.0)
            with mock.patch.object(type(population), "state", dataclasses.replace(state, **{name: other})):
                env.truth_in_state = False
                assert np.array_equal(env.state(), public) is (name in secret), name
                env.truth_in_state = True
                assert not np.array_equal(env.state(), whole), name


@world_check(applies=has_id, api=True)
def frames_are_collected(case: Case) -> None:
    env = case.make(render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    frames: Any = env.render()
    assert [type(frame) for frame in frames] == [np.ndarray] * 2


@world_check()
def observations_lie_in_their_space(case: Case) -> None:
    population, rng = case.population(num_envs=3), np.random.default_rng(0)
    population.reset(seed=0)
    for _ in range(150):
        for role, observation in seen(population).items():
            space = population.roles[role].layout.space()
            assert observation.shape == (3, population.roles[role].num_agents, *space.shape)
            assert observation.dtype == np.float32
            assert all(space.contains(row) for replica in observation for row in replica)
        population.step(chosen(population, random_actions(population, rng)))
        if population.done.all():
            population.reset()


@world_check()
def observations_are_fresh_buffers(case: Case) -> None:
    population, rng = case.population(num_envs=2), np.random.default_rng(0)
    population.reset(seed=0)
    before = {role: rows.copy() for role, rows in seen(population).items()}
    for role, rows in seen(population).items():
        rows[:] = 7
        np.testing.assert_array_equal(seen(population)[role], before[role])
    first = population.observe()
    kept = copy.deepcopy(first)
    population.step(chosen(population, random_actions(population, rng)))
    np.testing.assert_equal(first, kept)


@world_check()
def every_view_renders(case: Case) -> None:
    views: list[Any] = [case.parallel_env]
    if case.sole:
        views.append(case.single_env)
    for make in views:
        for mode, kind in (("ansi", str), ("rgb_array", np.ndarray)):
            env = make(render_mode=mode)
            env.reset(seed=0)
            assert isinstance(env.render(), kind)
            env.close()
        with raises(ValueError, "render_mode must be one of None, 'human', 'ansi', 'rgb_array', not 'x'"):
            make(render_mode="x")
    if case.sole:
        vector = VectorView(case.population(2), render_mode="ansi")
        vector.reset(seed=0)
        assert [type(frame) for frame in vector.render()] == [str, str]


@world_check(applies=has_id, over=dresses, api=True)
def a_spec_in_json_makes_the_same_environment(case: Case, dress: str) -> None:
    env = dressed(case.make(), case, dress)
    text = env.spec.to_json()
    again: Any = gymnasium.make(EnvSpec.from_json(text))
    assert again.spec.to_json() == text
    np.testing.assert_equal(env.reset(seed=0), again.reset(seed=0))
    env.action_space.seed(0)
    for _ in range(12):
        action = env.action_space.sample()
        step = env.step(action)
        np.testing.assert_equal(step, again.step(action))
        if step[2] or step[3]:
            break
    assert added_configs(again) == added_configs(env)
    assert bool(added_configs(again)) is (dress != "plain")


@world_check(applies=lambda case: case.id in getattr(pettingzoo, "parallel_registry", ()), api=True)
def pettingzoo_registry(case: Case) -> None:
    for kind, view in (("parallel", ParallelView), ("aec", AECView)):
        assert isinstance(pettingzoo.make(kind, case.id, **case.params), view)


@world_check(applies=lambda case: bool(case.others) and case.one_role, over=lambda case: (0, 2))
def a_controlled_agent_acts_as_in_the_population(case: Case, place: int) -> None:
    """One agent's observations, rewards and actions in two runs; in the second, this check steps the population, with
    the same policy and seed."""
    population, policy = case.population(), registry.make_policy(str(case.others))
    (role,) = population.roles
    env: Any = case.make(agent=f"{role}_{place}" if place else place).unwrapped
    for run in range(2):
        env.action_space.seed(run)
        observation, _ = env.reset(seed=run)
        population.reset(seed=run)
        policy.reset(population, population.stream(f"policy/{role}"))
        open_reward, steps, turns = None, 0, 0
        while not population.done[0]:
            rows = population.acting(role)
            row = 0 if rows is not None and rows[0, 0] == place else place if rows is None else None
            seen_now = population.observe()
            actions = np.array(policy.act(seen_now, population.action_mask(role)))
            if row is not None:
                np.testing.assert_array_equal(observation, seen_now[0, row])
                if population.action_mask(role) is not None:
                    np.testing.assert_array_equal(env.action_masks(), population.action_mask(role)[0, row])  # type: ignore[index]
                actions[0, row] = action = env.action_space.sample()
                observation, open_reward, _, truncated, _ = env.step(action)
                steps += 1
            step, turns = population.step(actions), turns + 1
            policy.update(seen_now, actions, step.reward, population.done)
            if row is not None:
                assert open_reward == step.reward[0, row]
        assert truncated
        assert steps > 3
        assert steps < turns if case.one_by_one else steps == turns
        np.testing.assert_equal(env.population.metrics(), population.metrics())


# Has a meaning at a reset too: agents may send as a run begins.
SPENT = ("messages", "epsilon_message", "epsilon_basic")


def make_both(case: Case, mode: AutoresetMode, num_envs: int) -> dict[str, Any]:
    return {
        "ours": case.make_vec(num_envs=num_envs, vectorization_mode="vector_entry_point", autoreset_mode=mode),
        "sync": case.make_vec(num_envs=num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}),
    }


@world_check(applies=has_id, over=lambda case: AutoresetMode, api=True)
def vector_env_is_gymnasiums_of_one_replica(case: Case, mode: AutoresetMode) -> None:
    envs = make_both(case, mode, 1)
    ours, sync = envs["ours"], envs["sync"]
    assert ours.metadata["autoreset_mode"] is mode
    for space in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        assert getattr(ours, space) == getattr(sync, space)
    np.testing.assert_array_equal(ours.reset(seed=0)[0], sync.reset(seed=0)[0])
    ours.action_space.seed(0)
    ends = 0
    for step in range(150):
        actions = ours.action_space.sample()
        one, other = ours.step(actions), sync.step(actions)
        for a, b in zip(one[:4], other[:4], strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype
        assert_same_info(one[4], other[4])
        ends += int((one[2] | one[3]).sum())
        if mode is AutoresetMode.DISABLED and (one[2] | one[3]).any():
            for env in envs.values():
                env.reset(options={"reset_mask": np.ones(1, np.bool_)})
        elif ends > 2 and step >= 50:
            break


def assert_same_info(ours: dict[str, Any], sync: dict[str, Any]) -> None:
    """Check that both infos of one replica have the same values. Our masks may also exclude values without meaning,
    which Gymnasium cannot recognise."""
    assert set(ours) == set(sync)
    for key in named(ours):
        assert holds(ours, key, 1) <= holds(sync, key, 1), key
        if isinstance(ours[key], dict):
            assert_same_info(ours[key], sync[key])
        elif holds(sync, key, 1):
            np.testing.assert_array_equal(ours[key][0], sync[key][0])
            assert np.asarray(ours[key]).dtype == np.asarray(sync[key]).dtype, key


@world_check(applies=has_id, over=lambda case: AutoresetMode, api=True)
def autoreset(case: Case, mode: AutoresetMode) -> None:
    """Gymnasium's conventions, in its own vector environment and in ours."""
    keys: dict[str, set[str]] = {}
    early: set[str] = set()  # keys with a meaning as a run begins: others may have acted
    for who, env in make_both(case, mode, 3).items():
        _, begun = env.reset(seed=0)
        if who == "ours":
            early = {key for key in named(begun) if holds(begun, key, 3).any()}
        env.action_space.seed(0)
        keys[who] = set()
        resets = np.zeros(3, np.bool_)
        ends = 0
        for step in range(200):
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
            for key in () if case.one_by_one else named(info) - {"action_mask", *SPENT, *early}:
                np.testing.assert_array_equal(info[key][resets], begun[key][resets])
            keys[who] |= {f"final {key}" for key in final} | set(info)
            if mode is AutoresetMode.NEXT_STEP:
                resets = ended
            elif mode is AutoresetMode.SAME_STEP:
                resets = np.zeros(3, np.bool_)
            elif ended.any():
                fresh, _ = env.reset(options={"reset_mask": ended})
                np.testing.assert_array_equal(fresh[~ended], observation[~ended])
            ends += int(ended.sum())
            if ends > 6 and step >= 50 and not ended.any():
                break
        assert ends > 3
        env.close()
    assert keys["ours"] == keys["sync"]
