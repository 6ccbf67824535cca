"""The core owns run length: by parameter, by reset option and by `until` it is the same run, and a refused reset
changes nothing."""

import numpy as np
import pytest
import worlds as tiny
from cases import CASES, forms

import taciturn
from taciturn.envs.core import ChannelConfig, Role, World
from taciturn.policies import Random
from taciturn.testing.cases import fingerprint
from taciturn.wrappers import BitwiseRandomizedResponse, LossyChannel


class Limited(tiny.Consensus):
    """Refuses a run length while it makes its roles, half way through a reset."""

    def make_roles(self) -> tuple[Role, ...]:
        if self.params.horizon > 20:
            raise ValueError(f"horizon must be at most 20 here, not {self.params.horizon}")
        return super().make_roles()


def test_what_a_world_refuses_late_changes_nothing_either() -> None:
    population = World(Limited, tiny.Params).population(2)
    population.reset(seed=0)
    before = fingerprint(population)
    with pytest.raises(ValueError, match="horizon must be at most 20 here, not 21"):
        population.reset(seed=1, options={"horizon": 21})
    assert fingerprint(population) == before


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
        assert not population.channels["update"].sums_have_closed_form, form
        env.reset(seed=0)
        assert population.channels["update"].sums_have_closed_form, form
    bits_on = ChannelConfig(BitwiseRandomizedResponse(1.0))
    env = tiny.consensus_v0.population()
    env.reset(seed=0, options={"channels": {"vote": bits_on}, "horizon": 3})
    assert env.accountant is not None
    env.reset(seed=0)
    assert env.accountant is None
    assert env.horizon == 12
