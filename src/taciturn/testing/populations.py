"""Checks of the array form: refused input changes nothing, replicas end separately, the core sets the run length, and
private data go through the hook `Population.private`."""

import contextlib
import math
import warnings
from copy import deepcopy
from types import SimpleNamespace
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

import taciturn
from taciturn.compiling import compiled
from taciturn.envs.core import (
    Array,
    ChannelConfig,
    ControlledAgent,
    NotCompiled,
    Played,
    Population,
    Replicas,
    Rollout,
    loops,
)
from taciturn.policies import Random
from taciturn.testing.cases import (
    Case,
    chosen,
    dressed,
    dresses,
    fingerprint,
    holds,
    is_compiled,
    named,
    of,
    raises,
    random_actions,
    same_for_all,
    seen,
    world_check,
)


def after_reset(case: Case, num_envs: int = 2) -> Population[Any]:
    population, rng = case.population(num_envs=num_envs), np.random.default_rng(0)
    population.reset(seed=0)
    for _ in range(2):
        population.step(chosen(population, random_actions(population, rng)))
    return population


def spoilt(actions: Any, space: gymnasium.Space[Any]) -> list[Any]:
    """Actions of one role, invalid in every possible way."""
    out = [actions[:, :0], actions[:1], actions[..., None], actions.tolist()[0], None, "wait", {"agent": actions}]
    if isinstance(space, Box):
        outside = np.array([np.nan, np.inf, -np.inf])
    else:
        assert isinstance(space, Discrete | MultiDiscrete)
        outside = np.array([-1, int(np.max(space.n if isinstance(space, Discrete) else space.nvec)), 10**6])
    for value in [*outside, 0.5 + 1j, np.nan]:
        wrong = actions.astype(np.result_type(actions, value))
        wrong[-1, -1] = value
        out.append(wrong)
    return out


@world_check()
def wrong_actions_change_nothing(case: Case) -> None:
    population = after_reset(case)
    actions = chosen(population, random_actions(population, np.random.default_rng(1)))
    wrong: list[Any] = []
    if isinstance(actions, dict):
        for role_name, own in actions.items():
            wrong += [actions | {role_name: bad} for bad in spoilt(own, population.roles[role_name].action_space)]
        wrong += [{}, {**actions, "nobody": own}, own, None, [actions]]
    else:
        wrong = spoilt(actions, next(iter(population.roles.values())).action_space)
    before = fingerprint(population)
    for bad in wrong:
        with raises(ValueError, r"actions (of role '\w+' )?must "):
            population.step(bad)
        assert fingerprint(population) == before
    population.step(actions)


@world_check()
def reset_comes_before_step(case: Case) -> None:
    population, aec, parallel = case.population(num_envs=2), case.env(), case.parallel_env()
    for early in (
        population.observe,
        lambda: population.step(None),
        lambda: population.reset(where=np.eye(2)[0] > 0),
        lambda: aec.step(None),
        aec.last,
        aec.agent_iter,
        lambda: parallel.step({}),
    ):
        with raises(gymnasium.error.ResetNeeded, r"call reset\(\) before"):
            early()
    rng = np.random.default_rng(0)
    population.reset(seed=0)
    while not population.done.all():
        population.step(chosen(population, random_actions(population, rng)))
    before = fingerprint(population)
    with raises(gymnasium.error.ResetNeeded, r"every replica of \w+ is done: call reset"):
        population.step(chosen(population, random_actions(population, rng)))
    assert fingerprint(population) == before
    population.reset()
    assert not population.done.any()


@world_check()
def everything_describes_itself(case: Case) -> None:
    population = case.population(2)
    population.reset(seed=0)
    whole = getattr(population, "inner", population)
    policies = {role: Random() for role in whole.roles}
    things: list[Any] = [
        population,
        population.streams,
        population.view(),
        population.view().params,
        Rollout(whole, policies),
        case.parallel_env(),
        case.env(),
        case.world,
        *population.roles.values(),
        *population.channels.values(),
    ]
    if len(whole.roles) == 1:
        things.append(ControlledAgent(whole, next(iter(whole.roles)), 0, policies))
    if "private" in dresses(case):
        things += [dressed(one, case, "private") for one in (population, case.parallel_env(), case.env())]
        things.append(taciturn.simulate(things[-3], {role: Random() for role in population.roles}, seed=0).accountant)
    for thing in things:
        assert " object at 0x" not in repr(thing), type(thing)
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 1500


@world_check(over=dresses)
def a_late_info_equals_an_early_one(case: Case, dress: str) -> None:
    def infos(at_once: bool) -> list[Any]:
        population, rng = dressed(case.population(2), case, dress), np.random.default_rng(0)
        population.reset(seed=0)
        steps: list[Any] = []
        while not population.done.all():
            steps.append(population.step(chosen(population, random_actions(population, rng))))
            if at_once:
                steps[-1] = SimpleNamespace(info=deepcopy(steps[-1].info))
        population.channel_configs = {}
        population.reset(seed=1, options={"horizon": shorter(population)})
        return [step.info for step in steps]

    np.testing.assert_equal(infos(False), infos(True))


@world_check()
def done_replicas_are_frozen_until_they_are_reset(case: Case) -> None:
    population, rng = case.population(num_envs=4), np.random.default_rng(0)
    population.reset(seed=0)
    cycle = 1 if population.turns is None else len(population.turns)
    for _ in range(3 * cycle):
        population.step(chosen(population, random_actions(population, rng)))
    population.reset(where=np.array([False, True, False, True]))
    while not population.done.any():
        population.step(chosen(population, random_actions(population, rng)))
    assert not population.done.all()
    ended = population.done.copy()
    frozen = [of(population.state, i) for i in range(4)]
    sent = {key: channel.messages().copy() for key, channel in population.channels.items()}
    flags = population.terminated.copy(), population.truncated.copy()
    observation = {role: rows[ended] for role, rows in seen(population).items()}
    for _ in range(2 * cycle):
        if population.done.all():
            break
        step = population.step(chosen(population, random_actions(population, rng)))
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
        population.step(chosen(population, random_actions(population, rng)))
    others = {i: of(population.state, i) for i in np.flatnonzero(~ended).tolist()}
    done = population.done.copy()
    population.reset(where=ended)
    np.testing.assert_array_equal(population.done, done & ~ended)
    for i, state in others.items():
        np.testing.assert_equal(of(population.state, i), state)
    for channel in population.channels.values():
        assert (channel.messages()[ended] <= 1).all()  # messages that agents send as they begin
    population.step(chosen(population, random_actions(population, rng)))


@world_check()
def replicas_that_do_not_play_stay_as_they_are(case: Case) -> None:
    population, rng = case.population(num_envs=4), np.random.default_rng(0)
    population.reset(seed=0)
    where = np.array([True, False, True, False])
    before = [of(population.state, i) for i in range(4)]
    sent = {key: channel.messages().copy() for key, channel in population.channels.items()}
    for _ in range(1 if population.turns is None else len(population.turns)):
        step = population.step(chosen(population, random_actions(population, rng)), where)
        rewards = step.reward.values() if isinstance(step.reward, dict) else [step.reward]
        assert not any(reward[~where].any() for reward in rewards)
    for i, state in enumerate(before):
        same = repr(of(population.state, i)) == repr(state)
        assert same != where[i], f"replica {i} {'stayed as it was' if same else 'has changed'}"
    for key, channel in population.channels.items():
        np.testing.assert_array_equal(sent[key][~where], channel.messages()[~where])
    assert not population.done[~where].any()


def shorter(population: Population[Any]) -> float:
    """About half of the run: a whole number if the clock counts."""
    half = population.params.horizon / 2
    return math.ceil(half) if isinstance(population.params.horizon, int) else half


def played(population: Population[Any], options: dict[str, Any] | None) -> list[Any]:
    """Everything visible in a run of random actions."""
    results = [population.reset(seed=3, options=options)[0]]
    rng = np.random.default_rng(4)
    while not population.done.all():
        step = population.step(chosen(population, random_actions(population, rng)))
        results += [step.observation, step.reward, step.terminated, step.truncated, population.clock()]
    return [*results, population.metrics()]


@world_check()
def parameter_option_and_until_give_the_same_run(case: Case) -> None:
    whole = case.population(2)
    horizon = shorter(whole)
    named = case.population(2, horizon=horizon)
    first, second = played(named, None), played(whole, {"horizon": horizon})
    assert len(first) == len(second)
    np.testing.assert_equal(first, second)
    assert whole.horizon == named.horizon == horizon
    assert {role: str(r.layout.space()) for role, r in whole.roles.items()} == {
        role: str(r.layout.space()) for role, r in named.roles.items()
    }
    if len(whole.roles) == 1:
        for fast in (False, True):
            runs = [
                taciturn.simulate(env, Random(), seed=5, until=until, fast=fast)
                for env, until in ((named, None), (whole, horizon))
            ]
            np.testing.assert_equal(runs[0].metrics, runs[1].metrics)
    whole.reset(seed=0)
    assert whole.horizon == case.population().params.horizon, "a reset without options goes back to the parameters"


@world_check()
def a_run_may_outlast_its_parameters(case: Case) -> None:
    """A run made for twice the horizon h and a run lengthened from h to 2h are the same; a view made for h refuses
    2h."""
    horizon = case.population().params.horizon
    named, stretched = case.population(2, horizon=2 * horizon), case.population(2)
    np.testing.assert_equal(played(named, None), played(stretched, {"horizon": 2 * horizon}))
    view = case.env() if len(stretched.roles) > 1 or len(stretched.possible_agents) > 1 else case.single_env()
    before = fingerprint(view.population)
    with raises(ValueError, "horizon must be at most"):
        view.reset(seed=0, options={"horizon": 2 * horizon})
    assert fingerprint(view.population) == before
    view.reset(seed=0, options={"horizon": shorter(view.population)})
    assert view.population.horizon == shorter(case.population())


@world_check()
def a_rejected_reset_changes_nothing(case: Case) -> None:
    population = case.population(3)
    population.reset(seed=1)
    rng = np.random.default_rng(2)
    for _ in range(len(population.turns or ((),))):
        population.step(chosen(population, random_actions(population, rng)))
    unknown = {"nowhere": ChannelConfig()}
    refused: list[dict[str, Any]] = [{"seed": seed} for seed in (-1, 1.5, "one", True)]
    refused += [{"options": {"horizon": h}} for h in (0, -1, math.nan, math.inf, "long", True, [3])]
    refused += [{"options": {"channels": channels}} for channels in (unknown, 5, [1])]
    refused += [{"options": [1]}, *({"where": where} for where in (np.ones(2, np.bool_), np.ones(3), [1, 0, 1], True))]
    refused += [{"where": np.array([True, False, False]), "options": {"horizon": 5}}]
    for channel in population.channels:
        refused.append({"options": {"channels": {channel: "private"}}})
    before = fingerprint(population)
    for arguments in refused:
        for more in ({}, {"seed": 7}):
            with raises(ValueError, r"must|has the channels|can change only"):
                population.reset(**more | arguments)
            assert fingerprint(population) == before, arguments


@world_check()
def max_cycles_where_the_clock_counts_steps(case: Case) -> None:
    kind = case.world._population
    made = {key: value for key, value in case.params.items() if key not in {"horizon", *kind.aliases}}
    if case.counts_steps:
        assert case.world.population(**made, max_cycles=3).params.horizon == 3
        view = case.world.parallel_env(**made, max_cycles=3)
        view.reset(seed=0)
        cycles = 0
        while view.agents:
            actions = random_actions(view.population, np.random.default_rng(cycles))
            view.step({f"{role}_{i}": action for role, rows in actions.items() for i, action in enumerate(rows[0])})
            cycles += 1
        assert cycles <= 3
        assert cycles == 3 or not case.runs_to_its_horizon
    else:
        with raises(ValueError, "max_cycles counts steps, which"):
            case.world.population(**made, max_cycles=3)


@world_check()
def every_world_calls_its_run_length_horizon(case: Case) -> None:
    world = case.world
    assert "horizon" in world.parameters
    for alias, known in world._population.aliases.items():
        value = getattr(case.population().params, known)
        assert getattr(world.population(**{alias: value}).params, known) == value
        with raises(ValueError, "name the same: give one of them"):
            world.population(**{alias: value, known: value})


@world_check(applies=lambda case: bool(case.privacy) and not isinstance(case.population(), Played))
def agents_data_pass_the_hook(case: Case) -> None:
    """`Population.private` gets the agents' data of every replica, and the same data are drawn as without this hook."""
    plain = case.population(3)
    drawn: list[Array] = []

    def private(_: Any, data: Array, agents: Array | None = None) -> Array:
        drawn.append(data.copy())
        return data

    acting = {role: Random() for role in plain.roles}
    runs = [
        taciturn.simulate(env, acting, seed=5, fast=False) for env in (plain.alike(3), plain.alike(3, private=private))
    ]
    assert drawn, f"{case.name} must pass its agents' private observations through self.private"
    np.testing.assert_equal(runs[0].metrics, runs[1].metrics)


def of_replica(values: Any, replica: int) -> Any:
    """The values of one replica, from values [B, ...] or a dict of them by role."""
    return {role: own[replica] for role, own in values.items()} if isinstance(values, dict) else values[replica]


def run_of(population: Replicas[Any], replica: int, steps: int = 60) -> list[Any]:
    """Everything in one replica, with actions that are the same in every population; runs that end begin again."""
    everything: list[Any] = [of_replica(population.reset(seed=5)[0], replica)]
    for step in range(steps):
        played = population.step(chosen(population, same_for_all(population, step)))
        info = {key: of_replica(values, replica) for key, values in played.info.items()}
        everything += [of_replica(part, replica) for part in tuple(played)[:4]] + [info]
        if (played.terminated | played.truncated)[replica]:
            alone = np.arange(population.num_envs) == replica
            everything.append(of_replica(population.reset(where=alone)[0], replica))
        elif population.done.all():
            break
    return everything


@world_check(applies=is_compiled)
def a_replica_is_the_same_run_in_every_population(case: Case) -> None:
    """A replica has the same run alone, among 7, among 1,000, and in a shard that begins with a later replica; and
    compiled, in threads, uncompiled, and first uncompiled and then compiled."""
    kind, params = case.world._population, case.population().params

    def played(num_envs: int, replica: int, compile_from: float, first: int = 0, threads: int = 1) -> list[Any]:
        compiles = mock.patch.object(compiled, "COMPILE_FROM", compile_from)
        splits = mock.patch.multiple(loops, num_threads=lambda: threads, PART=1)
        with compiles, splits:
            return run_of(kind(params, num_envs, first), replica)

    expected = played(1, 0, math.inf)
    for num_envs, compile_from, threads in (
        (1, 0, 1),
        (1, 20, 1),
        (7, 0, 1),
        (7, 0, 3),
        (7, math.inf, 1),
        (1000, 0, 2),
    ):
        np.testing.assert_equal(played(num_envs, 0, compile_from, threads=threads), expected)
    expected = played(7, 5, math.inf)
    for num_envs, replica, first in ((1000, 5, 0), (2, 1, 4), (1, 0, 5)):
        np.testing.assert_equal(played(num_envs, replica, 0, first, threads=2), expected)
    with contextlib.suppress(AssertionError):
        np.testing.assert_equal(played(7, 4, 0), expected)
        raise RuntimeError("two replicas had the same luck")


@world_check(applies=lambda case: isinstance(case.population(), Replicas))
def a_world_is_compiled(case: Case) -> None:
    """The compiler takes every function of the environment; if it refuses one, a warning says so, and play goes on."""
    population: Any = case.population(2)
    with warnings.catch_warnings(), mock.patch.object(compiled, "COMPILE_FROM", 0):
        warnings.simplefilter("error", NotCompiled)
        population.reset(seed=0)
        population.step(chosen(population, random_actions(population, np.random.default_rng(0)))).info  # noqa: B018
        assert population._loops.compiles is compiled.may_compile()

        def broken(state: Any, arrays: Any, params: Any, info: Any) -> None:
            info.messages = vars(state)

        if compiled.may_compile():
            other: Any = case.population(2)
            changed = mock.patch.object(type(other), "functions", other.functions._replace(info=broken))
            with (
                changed,
                raises(NotCompiled, rf"{population.name} plays uncompiled: broken, line \d+ of populations.py: "),
            ):
                other.reset(seed=0)
