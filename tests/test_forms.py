"""The forms of a world are one world: the same seed gives the same bits, and every form tells the same story."""

import copy
import hashlib
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from cases import CASES, MODES, PHASED, SOLE, Case, by_agent, chosen, draw, every, seen
from gymnasium.vector import AutoresetMode

from taciturn.envs.core import AECView, Array, ParallelView, VectorView, World

# The same seed gives the same bits.

Trajectory = Iterator[list[Any]]
FORMS: dict[str, Callable[[Case, int], Trajectory]] = {}


def form(play: Callable[[Case, int], Trajectory]) -> Callable[[Case, int], Trajectory]:
    FORMS[play.__name__] = play
    return play


@form
def array(case: Case, seed: int) -> Trajectory:
    population, rng = case.population(num_envs=3), np.random.default_rng(0)
    yield [population.reset(seed=seed)]
    while True:
        if population.done.all():
            yield [population.reset()]
        yield [*population.step(chosen(population, draw(population, rng)))]


@form
def parallel(case: Case, seed: int) -> Trajectory:
    env, rng = case.parallel_env(), np.random.default_rng(0)
    yield [env.reset(seed=seed)]
    while True:
        if not env.agents:
            yield [env.reset()]
        yield [*env.step(by_agent(draw(env.population, rng)))]


@form
def aec(case: Case, seed: int) -> Trajectory:
    env, rng = case.env(), np.random.default_rng(0)
    env.reset(seed=seed)
    actions = by_agent(draw(env.population, rng))
    while True:
        if not env.agents:
            env.reset()
        observation, reward, terminated, truncated, info = env.last()
        yield [env.agent_selection, observation, reward, terminated, truncated, info]
        if env.agent_selection == env.possible_agents[0]:
            actions = by_agent(draw(env.population, rng))
        env.step(None if terminated or truncated else actions[env.agent_selection])


@form
def single(case: Case, seed: int) -> Trajectory:
    env, rng = case.single_env(), np.random.default_rng(0)
    yield [env.reset(seed=seed)]
    while True:
        step = env.step(draw(env.population, rng)[env.role][0, 0])
        yield [*step]
        if step[2] or step[3]:
            yield [env.reset()]


def vector_form(mode: AutoresetMode) -> Callable[[Case, int], Trajectory]:
    def vector(case: Case, seed: int) -> Trajectory:
        env, rng = case.vector_env(num_envs=3, autoreset_mode=mode), np.random.default_rng(0)
        yield [env.reset(seed=seed)]
        while True:
            step = env.step(draw(env.population, rng)[env.role][:, 0])
            yield [*step]
            ended = step[2] | step[3]
            if mode is AutoresetMode.DISABLED and ended.any():
                yield [env.reset(options={"reset_mask": ended})]

    return vector


FORMS |= {mode.value: vector_form(mode) for mode in MODES}


def write(value: Any, into: Any) -> None:
    """Feed a nest of dicts, sequences, arrays and scalars, all bits of it, to a hash."""
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


def assert_seed_decides(play: Callable[[Case, int], Trajectory], case: Case) -> None:
    first, again, other = (digest(list(islice(play(case, seed), 250))) for seed in (1, 1, 2))
    assert again == first
    assert other != first


@pytest.mark.parametrize(
    ("name", "play"),
    [(name, play) for name in CASES for play in FORMS if name in SOLE or play in ("array", "aec", "parallel")],
)
def test_seed_decides_every_bit(name: str, play: str) -> None:
    assert_seed_decides(FORMS[play], CASES[name])


@pytest.mark.parametrize("play", ["array", "aec", "parallel"])
def test_unseeded_luck_is_caught(play: str) -> None:
    with pytest.raises(AssertionError):
        assert_seed_decides(FORMS[play], Case(tiny.broken_v0))


# One world, many forms.


def flat(by: dict[str, Any], names: list[str]) -> Array:
    return np.concatenate([np.ravel(by.get(name, 0.0)) for name in names])


def turns_of_array(case: Case) -> Trajectory:
    population, rng = case.population(), np.random.default_rng(5)
    population.reset(seed=3)
    while True:
        if population.done[0]:
            population.reset()
        actions = draw(population, rng)
        rows = {role: population.acting(role) for role in population.roles}
        step = population.step(chosen(population, actions))
        rewards: dict[str, float] = {}
        for role, values in (step.reward if len(rows) > 1 else {next(iter(rows)): step.reward}).items():
            acting = rows[role]
            places = range(values.shape[1]) if acting is None else acting[0]
            rewards |= {f"{role}_{i}": value for i, value in zip(places, values[0], strict=True)}
        observations = by_agent(seen(population))
        names = population.possible_agents
        yield [flat(observations, names), flat(rewards, names), bool(step.terminated[0]), bool(step.truncated[0])]


def turns_of_aec(case: Case) -> Trajectory:
    env, rng = case.env(), np.random.default_rng(5)
    env.reset(seed=3)
    names = env.possible_agents
    while True:
        actions = by_agent(draw(env.population, rng))
        state = env.population.state
        while env.population.state is state:
            assert not any(env.rewards.values()) or env._collected == []
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
    env, rng = case.parallel_env(), np.random.default_rng(5)
    env.reset(seed=3)
    names = env.possible_agents
    while True:
        if not env.agents:
            env.reset()
        observations, rewards, terminated, truncated, _ = env.step(by_agent(draw(env.population, rng)))
        yield [flat(observations, names), flat(rewards, names), terminated[names[0]], truncated[names[0]]]


@every
def test_forms_agree(name: str) -> None:
    one, many = turns_of_array(CASES[name]), [turns_of_aec(CASES[name])]
    if name not in PHASED:
        many.append(steps_of_parallel(CASES[name]))
    for _ in range(120):
        expected = next(one)
        for other in many:
            for a, b in zip(expected, next(other), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", SOLE)
def test_single_env_agrees_with_the_array_form(name: str) -> None:
    array_form, env, rng = turns_of_array(CASES[name]), CASES[name].single_env(), np.random.default_rng(5)
    env.reset(seed=3)
    for _ in range(120):
        observation, reward, terminated, truncated, info = env.step(draw(env.population, rng)[env.role][0, 0])
        assert [type(reward), type(terminated), type(truncated)] == [float, bool, bool]
        for a, b in zip(next(array_form), [observation, reward, terminated, truncated], strict=True):
            np.testing.assert_array_equal(a, b)
        if env.population.action_mask(env.role) is not None:
            np.testing.assert_array_equal(info["action_mask"], env.action_masks())
        if terminated or truncated:
            env.reset()


def test_parallel_step_of_a_phased_world_is_a_campaign() -> None:
    """Individuals answer the announcement that stands; the platform's action is the next; the first is the default."""
    case, rng = CASES["auction"], np.random.default_rng(0)
    env, population = case.parallel_env(), case.population()
    observations, _ = env.reset(seed=4)
    population.reset(seed=4)
    default = population.default_action("platform")
    population.step({"platform": default})
    assert observations["individual_0"][1] == default[0, 0, 0] == 0.5
    for campaign in range(1, case.params.get("horizon", 12) + 1):
        actions = draw(population, rng)
        sale = population.step({"individual": actions["individual"]})
        if not population.done[0]:
            population.step({"platform": actions["platform"]})
        observations, rewards, terminated, truncated, _ = env.step(by_agent(actions))
        for agent, row in by_agent(seen(population)).items():
            np.testing.assert_array_equal(observations[agent], row)
            assert rewards[agent] == by_agent(sale.reward)[agent]
            assert terminated[agent] is False
            assert truncated[agent] is (campaign == 12)
    assert env.agents == []
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(by_agent(actions))


def test_parallel_step_reports_an_end_in_the_opening_turn() -> None:
    class Bankrupt(tiny.Auction):
        def transition(self, state: Any, actions: dict[str, Array]) -> tiny.Transition:
            new, reward, terminated, truncated, info = super().transition(state, actions)
            return new, reward, terminated | ((new.time == 2) & ("platform" in actions)), truncated, info

    env = World(Bankrupt, tiny.Params).parallel_env()
    env.reset(seed=0)
    actions = by_agent(draw(env.population, np.random.default_rng(0)))
    assert not any(env.step(actions)[2].values())
    assert all(env.step(actions)[2].values())
    assert env.agents == []


def test_aec_of_gossip_selects_who_acts() -> None:
    env = CASES["gossip"].env()
    env.reset(seed=0)
    selected = set()
    for _ in range(30):
        speaker = env.population.state.speaker[0, 0]
        assert env.agent_selection == f"agent_{speaker}"
        selected.add(speaker)
        env.step(1)
        assert env.rewards[f"agent_{speaker}"] > 0
        assert sum(value != 0 for value in env.rewards.values()) == 1
    assert len(selected) == 4
    assert not env.metadata["is_parallelizable"]


def test_aec_does_nothing_until_the_turn_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Case(tiny.consensus_v0, num_agents=50).env()
    env.reset(seed=0)
    step, observe_role = Mock(wraps=env.population.step), Mock(wraps=env.population.observe_role)
    monkeypatch.setattr(env.population, "step", step)
    monkeypatch.setattr(env.population, "observe_role", observe_role)
    for agent in env.agents[:-1]:
        assert env.agent_selection == agent
        env.last()
        env.step(0)
    assert (step.call_count, observe_role.call_count) == (0, 0)
    env.step(0)
    assert step.call_count == 1


# Copies.


def views(name: str) -> dict[str, Any]:
    case = CASES[name]
    out: dict[str, Any] = {"parallel": case.parallel_env(), "aec": case.env()}
    if name in SOLE:
        out |= {"single": case.single_env(), "vector": case.vector_env(num_envs=3, autoreset_mode="SameStep")}
    return out


def go_on(env: Any, steps: int, rng: np.random.Generator) -> list[Any]:
    record: list[Any] = []
    for _ in range(steps):
        actions = draw(env.population, rng)
        if isinstance(env, AECView):
            if not env.agents:
                env.reset()
            observation, reward, terminated, truncated, info = env.last()
            record.append([observation, reward, terminated, truncated, info])
            env.step(None if terminated or truncated else by_agent(actions)[env.agent_selection])
        elif isinstance(env, ParallelView):
            record.append(env.step(by_agent(actions)))
            if not env.agents:
                record.append(env.reset())
        elif isinstance(env, VectorView):
            record.append(env.step(actions[env.role][:, 0]))
        else:
            record.append(env.step(actions[env.role][0, 0]))
            if env.population.done[0]:
                record.append(env.reset())
    return record


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
@every
def test_a_copy_in_mid_episode_goes_on_alike(name: str, duplicate: Callable[[Any], Any]) -> None:
    for env in views(name).values():
        env.reset(seed=0)
        go_on(env, 7, np.random.default_rng(1))
        other = duplicate(env)
        ahead = go_on(env, 40, np.random.default_rng(2))
        assert digest(go_on(other, 40, np.random.default_rng(2))) == digest(ahead)
