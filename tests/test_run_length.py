"""The core owns run length: by parameter, by reset option and by `until` it is the same run, and a refused reset changes nothing."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
import worlds as tiny
from cases import CASES, chosen, draw, every, forms, ledger_state

import taciturn
from taciturn.envs.core import ChannelConfig, Controlled, Population, Role, World
from taciturn.policies import Random
from taciturn.wrappers import BitwiseRandomizedResponse, LossyChannel


def shorter(population: Population[Any]) -> float:
    """About half the run: a whole number where the clock counts."""
    half = population.params.horizon / 2
    return math.ceil(half) if isinstance(population.params.horizon, int) else half


def bits(population: Population[Any]) -> bytes:
    """Everything that a reset may change, byte by byte."""
    inner = population.inner if isinstance(population, Controlled) else population
    channels = {
        name: (c.everyone, c.each, c.live, c.stopped, c.config, c._memory, c._fault_memory)
        for name, c in inner.channels.items()
    }
    spaces = {name: (role.layout.low, role.layout.high, str(role.action_space)) for name, role in inner.roles.items()}
    own = population.terminated, population.truncated, inner.terminated, inner.truncated, inner.turn, population.params
    return pickle.dumps([inner._state, inner.streams, channels, spaces, own, inner.params, ledger_state(inner)])


def played(population: Population[Any], options: dict[str, Any] | None) -> list[Any]:
    """All that anybody sees of a run of random actions."""
    found = [population.reset(seed=3, options=options)[0]]
    rng = np.random.default_rng(4)
    while not population.done.all():
        step = population.step(chosen(population, draw(population, rng)))
        found += [step.observation, step.reward, step.terminated, step.truncated, population.clock()]
    return [*found, population.metrics()]


@every
def test_parameter_option_and_until_give_the_same_run(name: str) -> None:
    case = CASES[name]
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


@every
def test_a_run_may_be_longer_than_the_parameters_say(name: str) -> None:
    """Two runs, made for 2 h and lengthened to it from h, are the same; a view that is made for h refuses."""
    case = CASES[name]
    horizon = case.population().params.horizon
    named, stretched = case.population(2, horizon=2 * horizon), case.population(2)
    np.testing.assert_equal(played(named, None), played(stretched, {"horizon": 2 * horizon}))
    view = case.env() if len(stretched.roles) > 1 or len(stretched.possible_agents) > 1 else case.single_env()
    before = bits(view.population)
    with pytest.raises(ValueError, match="horizon must be at most"):
        view.reset(seed=0, options={"horizon": 2 * horizon})
    assert bits(view.population) == before
    view.reset(seed=0, options={"horizon": shorter(view.population)})
    assert view.population.horizon == shorter(case.population())


@every
def test_a_rejected_reset_changes_nothing(name: str) -> None:
    population = CASES[name].population(3)
    population.reset(seed=1)
    rng = np.random.default_rng(2)
    for _ in range(len(population.turns or ((),))):
        population.step(chosen(population, draw(population, rng)))
    unknown = {"nowhere": ChannelConfig()}
    refused: list[dict[str, Any]] = [{"seed": seed} for seed in (-1, 1.5, "one", True)]
    refused += [{"options": {"horizon": h}} for h in (0, -1, math.nan, math.inf, "long", True, [3])]
    refused += [{"options": {"channels": channels}} for channels in (unknown, 5, [1])]
    refused += [{"options": [1]}, {"where": np.ones(2, np.bool_)}, {"where": np.ones(3)}]
    refused += [{"where": np.array([True, False, False]), "options": {"horizon": 5}}]
    for channel in population.channels:
        refused.append({"options": {"channels": {channel: "private"}}})
    before = bits(population)
    for arguments in refused:
        for more in ({}, {"seed": 7}):
            with pytest.raises(ValueError, match=r"must|has the channels|can change only"):
                population.reset(**more | arguments)
            assert bits(population) == before, arguments


class Limited(tiny.Consensus):
    """Refuses a run length while it makes its roles, half way through a reset."""

    def make_roles(self) -> tuple[Role, ...]:
        if self.params.horizon > 20:
            raise ValueError(f"horizon must be at most 20 here, not {self.params.horizon}")
        return super().make_roles()


def test_what_a_world_refuses_late_changes_nothing_either() -> None:
    population = World(Limited, tiny.Params).population(2)
    population.reset(seed=0)
    before = bits(population)
    with pytest.raises(ValueError, match="horizon must be at most 20 here, not 21"):
        population.reset(seed=1, options={"horizon": 21})
    assert bits(population) == before


class Bare(tiny.Consensus):
    """A world that writes nothing about run length but reads `params.horizon`."""


def test_a_clock_of_steps_comes_to_the_last_whole_one() -> None:
    env = World(Bare, tiny.Params).population()
    run = taciturn.simulate(env, Random(), seed=0, until=[2, 4.5], record=["time"])
    assert (env.horizon, env.clock().tolist()) == (4, [4])
    assert run.trace["time"].tolist() == [[2], [4]]


def test_a_new_world_needs_to_write_nothing() -> None:
    env = World(Bare, tiny.Params).population(horizon=5)
    assert taciturn.simulate(env, Random(), seed=0, until=10).times.tolist() == [10]
    assert env.clock().tolist() == [10]


def test_parameters_without_a_horizon_are_refused() -> None:
    class NoHorizon:
        num_agents = 3

    with pytest.raises(TypeError, match="the parameters of consensus must have a horizon"):
        tiny.Consensus(NoHorizon())


@every
def test_max_cycles_where_the_clock_counts_steps(name: str) -> None:
    case = CASES[name]
    kind = case.world._population
    made = {key: value for key, value in case.params.items() if key not in {"horizon", *kind.aliases}}
    if kind.clock_unit == "step":
        assert case.world.population(**made, max_cycles=3).params.horizon == 3
        view = case.world.parallel_env(**made, max_cycles=3)
        view.reset(seed=0)
        cycles = 0
        while view.agents:
            actions = draw(view.population, np.random.default_rng(cycles))
            view.step({f"{role}_{i}": action for role, rows in actions.items() for i, action in enumerate(rows[0])})
            cycles += 1
        assert cycles <= 3
        assert cycles == 3 or name in ("gossip", "corridor"), "those may end before"
    else:
        with pytest.raises(ValueError, match="max_cycles counts steps, which"):
            case.world.population(**made, max_cycles=3)


@every
def test_every_world_calls_its_run_length_horizon(name: str) -> None:
    world = CASES[name].world
    assert "horizon" in world.parameters
    for alias, known in world._population.aliases.items():
        value = getattr(CASES[name].population().params, known)
        assert getattr(world.population(**{alias: value}).params, known) == value
        with pytest.raises(ValueError, match="name the same: give one of them"):
            world.population(**{alias: value, known: value})


def test_observations_of_a_longer_run_are_not_cut_off() -> None:
    """Seen before: a federated bandit made for 10 slots and reset to 30 showed slot 10 for ever."""
    env = CASES["federated_bandit_v0"].world.population(num_agents=2, num_arms=2, horizon=10)
    env.reset(seed=0, options={"horizon": 30})
    for _ in range(25):
        step = env.step(np.zeros((1, 2), np.int64))
    assert env.roles["agent"].layout.unpack(step.observation)["time"].tolist() == [[25, 25]]
    env = CASES["round_stopping_v0"].world.population(horizon=1.0)
    env.reset(seed=0, options={"horizon": 50.0})
    assert env.roles["server"].layout.unpack(env.observe())["time_left"].tolist() == [[50]]


def test_a_reset_keeps_wrappers_and_faults_apart() -> None:
    for form, env in forms().items():
        population = getattr(env, "population", env)
        env.reset(seed=0, options={"channels": {"update": ChannelConfig(faults=(LossyChannel(0.5),))}})
        assert not population.channels["update"].sums_have_a_law, form
        env.reset(seed=0)
        assert population.channels["update"].sums_have_a_law, form
    bits_on = ChannelConfig(BitwiseRandomizedResponse(1.0))
    env = tiny.consensus_v0.population()
    env.reset(seed=0, options={"channels": {"vote": bits_on}, "horizon": 3})
    assert env.ledger is not None
    env.reset(seed=0)
    assert env.ledger is None
    assert env.horizon == 12
