"""What the PettingZoo forms of phased and of gossiping worlds do; `taciturn.testing.forms` compares all forms of every
world."""

from typing import Any
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from cases import CASES

from taciturn.envs.core import World
from taciturn.envs.core.around import Around
from taciturn.testing.cases import by_agent, random_actions, seen


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
        actions = random_actions(population, rng)
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


class AsArrays(Around):
    """A world whose single steps are played as arrays, as those of populations around a world are."""

    name = "as_arrays"
    turn = property(lambda self: self.inner.turn)
    default_action = property(lambda self: self.inner.default_action)

    def make_roles(self) -> Any:
        return tuple(self.inner.roles.values())

    def around(self, inner: Any, duplicate: Any) -> Any:
        raise NotImplementedError

    def reset(self, **options: Any) -> Any:
        return self.inner.reset(**options)

    def step(self, *given: Any, **named: Any) -> Any:
        return self.inner.step(*given, **named)


@pytest.mark.parametrize("name", ["auction", "elicitation_v0"])
def test_a_single_step_plays_several_turns(name: str) -> None:
    """Its own way, that of arrays, and turn by turn: rewards add up, later infos fill in what had no meaning, and
    nothing is played after the end, nor if a later turn's action is refused."""
    at_once, inner, apart = (CASES[name].population(1) for _ in range(3))
    as_arrays = AsArrays(inner)
    rng = np.random.default_rng(0)
    for env in (at_once, as_arrays, apart):
        env.reset(seed=1)
        env.step({"platform": env.default_action("platform")})
    while not apart.done[0]:
        actions = {role: rows[0] for role, rows in random_actions(apart, rng).items()}
        with pytest.raises(ValueError, match="of role 'platform' must lie in"):
            at_once.step_one({"individual": actions["individual"], "platform": actions["platform"] - 1e9})
        found = at_once.step_one(actions)
        np.testing.assert_equal(as_arrays.step_one(actions), found)
        seen, rewards, *ends, info = apart.step_one({"individual": actions["individual"]})
        unknown = apart.no_meaning()
        if not any(ends):
            seen, more, *ends, told = apart.step_one({"platform": actions["platform"]})
            rewards = {role: np.add(paid, more[role]).tolist() for role, paid in rewards.items()}
            info |= {key: told[key] for key in unknown}
        np.testing.assert_equal((seen, rewards, *ends, info), found)


def test_parallel_step_reports_an_end_in_the_opening_turn() -> None:
    def go_bankrupt(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
        return state.time == 2, False

    class Bankrupt(tiny.Auction):
        functions = tiny.Auction.functions._replace(receive=tiny.Auction.functions.receive | {"platform": go_bankrupt})

    env = World(Bankrupt, tiny.Params).parallel_env()
    env.reset(seed=0)
    actions = by_agent(random_actions(env.population, np.random.default_rng(0)))
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
    env = tiny.consensus_v0.env(num_agents=50)
    env.reset(seed=0)
    population: Any = env.population
    step, run = Mock(wraps=population.step_one), Mock(wraps=population._run_one)
    monkeypatch.setattr(population, "step_one", step)
    monkeypatch.setattr(population, "_run_one", run)
    for agent in env.agents[:-1]:
        assert env.agent_selection == agent
        env.last()
        env.step(0)
    assert (step.call_count, run.call_count) == (0, 0)
    env.step(0)
    assert step.call_count == 1
