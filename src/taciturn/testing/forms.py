"""Checks that the forms of an environment agree: the same seed gives the same bits, and every form gives the same
trajectory."""

import copy
import hashlib
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from taciturn.envs.core import AECView, Array, ParallelView, Population, SingleEnv, VectorView
from taciturn.testing.cases import (
    Case,
    by_agent,
    chosen,
    is_compiled,
    random_actions,
    same_for_all,
    seen,
    world_check,
)

Trajectory = Iterator[list[Any]]

STEPS = 150  # steps within which runs of a small environment end


def views(case: Case) -> dict[str, Callable[[], Any]]:
    """The forms of an environment, `{name: function that makes it}`; Gymnasium's forms control one agent."""
    results: dict[str, Callable[[], Any]] = {
        "array": partial(case.population, 3),
        "parallel": case.parallel_env,
        "aec": case.env,
    }
    if case.has_id:
        vector = partial(case.make_vec, num_envs=3, vectorization_mode="vector_entry_point")
        results |= {"single": case.make} | {mode.value: partial(vector, autoreset_mode=mode) for mode in AutoresetMode}
    return results


def play(env: Any, rng: np.random.Generator) -> Iterator[Any]:
    """The results of random actions, step by step, in any form that was just reset; each result ends with the info.
    Runs that end begin again."""
    inner = getattr(env, "unwrapped", env)
    population = getattr(inner, "population", inner)
    if isinstance(inner, SingleEnv | VectorView):
        env.action_space.seed(int(rng.integers(2**31)))
    while True:
        if isinstance(inner, Population):
            if env.done.all():
                yield env.reset()
            yield tuple(env.step(chosen(env, random_actions(population, rng))))
        elif isinstance(inner, AECView):
            if not env.agents:
                env.reset()
            last = env.last()
            yield env.agent_selection, *last
            actions = by_agent(random_actions(population, rng))
            env.step(None if last[2] or last[3] else actions[env.agent_selection])
        elif isinstance(inner, ParallelView):
            if not env.agents:
                yield env.reset()
            yield env.step(by_agent(random_actions(population, rng)))
        else:
            ended = population.done.copy()
            if isinstance(inner, SingleEnv) and ended.any():
                yield env.reset()
            elif env.metadata.get("autoreset_mode") is AutoresetMode.DISABLED and ended.any():
                yield env.reset(options={"reset_mask": ended})
            yield env.step(env.action_space.sample())


def write(value: Any, into: Any) -> None:
    """Feed all bits of nested dicts, sequences, arrays and scalars to a hash."""
    if isinstance(value, dict):
        for key in sorted(value):
            into.update(repr(key).encode())
            write(value[key], into)
    elif isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == object):
        for part in value:
            write(part, into)
    elif isinstance(value, np.ndarray):
        into.update(value.dtype.str.encode() + repr(value.shape).encode() + value.tobytes())
    else:
        into.update(f"{type(value).__name__} {value!r}".encode())


def digest(value: Any) -> str:
    into = hashlib.sha256()
    write(value, into)
    return into.hexdigest()


@world_check(over=views)
def seed_decides_every_bit(case: Case, view: str) -> None:
    def run(seed: int) -> Iterator[str]:
        env = views(case)[view]()
        yield digest(env.reset(seed=seed))
        yield from map(digest, islice(play(env, np.random.default_rng(0)), STEPS))

    first = list(run(1))
    assert list(run(1)) == first
    # Another seed's run is played until it differs.
    assert any(part != known for part, known in zip(run(2), first, strict=True))


def flat(by: dict[str, Any], names: list[str]) -> Array:
    return np.concatenate([np.ravel(by.get(name, 0.0)) for name in names])


def turns_of_array(case: Case, num_envs: int = 1) -> Trajectory:
    """The trajectory of the first replica of an array form."""
    population = case.population(num_envs)
    population.reset(seed=3)
    first = np.arange(num_envs) == 0
    for turn in count():
        if population.done[0]:
            population.reset(where=first)
        rows = {role: population.acting(role) for role in population.roles}
        step = population.step(chosen(population, same_for_all(population, turn)))
        rewards: dict[str, float] = {}
        for role, values in (step.reward if len(rows) > 1 else {next(iter(rows)): step.reward}).items():
            acting = rows[role]
            places = range(values.shape[1]) if acting is None else acting[0]
            rewards |= {f"{role}_{i}": value for i, value in zip(places, values[0], strict=True)}
        observations = by_agent(seen(population))
        names = population.possible_agents
        yield [flat(observations, names), flat(rewards, names), bool(step.terminated[0]), bool(step.truncated[0])]


def turns_of_aec(case: Case) -> Trajectory:
    env = case.env()
    env.reset(seed=3)
    names = env.possible_agents
    for turn in count():
        actions = by_agent(same_for_all(env.population, turn))
        state = env.population.state
        while env.population.state is state:
            assert not any(env.rewards.values()) or env._given == 0
            env.step(actions[env.agent_selection])
        observations = {name: env.observe(name) for name in names}
        agent = env.agent_selection
        yield [flat(observations, names), flat(env.rewards, names), env.terminations[agent], env.truncations[agent]]
        if env.terminations[agent] or env.truncations[agent]:
            for _ in names:
                assert env.agents
                env.step(None)
            assert not env.agents
            env.reset()


def steps_of_parallel(case: Case) -> Trajectory:
    env = case.parallel_env()
    env.reset(seed=3)
    names = env.possible_agents
    for turn in count():
        if not env.agents:
            env.reset()
        observations, rewards, terminated, truncated, _ = env.step(by_agent(same_for_all(env.population, turn)))
        yield [flat(observations, names), flat(rewards, names), terminated[names[0]], truncated[names[0]]]


def steps_of_single(case: Case) -> Trajectory:
    env = case.single_env()
    env.reset(seed=3)
    for turn in count():
        observation, reward, terminated, truncated, info = env.step(same_for_all(env.population, turn)[env.role][0, 0])
        assert [type(reward), type(terminated), type(truncated)] == [float, bool, bool]
        if env.population.action_mask(env.role) is not None:
            np.testing.assert_array_equal(info["action_mask"], env.action_masks())
        yield [observation, [reward], terminated, truncated]
        if terminated or truncated:
            env.reset()


def steps_of_vector(case: Case, num_envs: int) -> Trajectory:
    """The trajectory of the first replica of Gymnasium's vector form."""
    env = case.vector_env(num_envs, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=3)
    for turn in count():
        step = env.step(same_for_all(env.population, turn)[env.role][:, 0])
        observation, reward, terminated, truncated = (part[0] for part in step[:4])
        yield [observation, [reward], bool(terminated), bool(truncated)]
        if (ended := step[2] | step[3]).any():
            env.reset(options={"reset_mask": ended})


@world_check()
def forms_agree(case: Case) -> None:
    """The forms of an environment give the same trajectory: the array, AEC and Parallel forms and, with one agent,
    Gymnasium's; for a compiled environment with any number of replicas."""
    one, many = turns_of_array(case), [turns_of_aec(case)]
    if not case.phased:
        many.append(steps_of_parallel(case))
    if case.sole:
        many.append(steps_of_single(case))
    if is_compiled(case):
        many.append(turns_of_array(case, 3))
        if case.sole:
            many += [steps_of_vector(case, 1), steps_of_vector(case, 3)]
    for expected, *others in islice(zip(one, *many, strict=True), 120):
        for other in others:
            for a, b in zip(expected, other, strict=True):
                np.testing.assert_array_equal(a, b)


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
}


@world_check(over=lambda case: COPIES)
def a_copy_in_mid_episode_goes_on_alike(case: Case, duplicate: str) -> None:
    for make in views(case).values():
        env = make()
        env.reset(seed=0)
        list(islice(play(env, np.random.default_rng(1)), 7))
        other = COPIES[duplicate](env)
        ahead, again = (list(islice(play(one, np.random.default_rng(2)), 20)) for one in (env, other))
        assert digest(again) == digest(ahead)
