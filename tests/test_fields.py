"""The owners of the fields of a State: what observations are passed, and that a replay finds what passes otherwise."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Discrete
from worlds import Consensus, Gossip, Peeking
from worlds import Params as TinyParams

from taciturn import registry
from taciturn.envs.core import (
    Array,
    Channel,
    Functions,
    HiddenTruth,
    Layout,
    Replicas,
    Role,
    fields,
    fill,
    private,
    uniform,
)
from taciturn.testing import Case, replayed
from taciturn.validation import Bools, Floats, Ints
from taciturn.wrappers import BitwiseRandomizedResponse

PRIVATE = {"arm": BitwiseRandomizedResponse(1.0)}


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = 4
    horizon: int = 12
    secret: float = 0.25


@dataclass(frozen=True)
class State:
    """Agents pull one of two arms, and then hear which arm a random peer says that it pulled."""

    undeclared: Ints
    time: Ints = fields.public()
    means: Floats = fields.hidden(lambda p: 2)
    arm: Ints = fields.own(lambda p: p.num_agents)
    won: Floats = fields.own(lambda p: p.num_agents)
    message: Floats = fields.own(lambda p: (p.num_agents, 2))
    delivered: Floats = fields.received(lambda p: (p.num_agents, 2))
    heard: Floats = fields.received(lambda p: (p.num_agents, 2))
    peer: Ints = fields.public(lambda p: p.num_agents)
    message_levels: Bools = fields.public(lambda p: p.num_agents)


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    fill(arrays.means, rng, 0)


def pull(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.arm[agent] = private(agent, actions[agent])
        arrays.won[agent] = private(agent, uniform(rng, 1) < arrays.means[arrays.arm[agent]])
        arrays.reward[agent] = arrays.won[agent]
        arrays.message_levels[agent] = True
        for k in range(2):
            arrays.message[agent, k] = arrays.arm[agent] == k
        arrays.peer[agent] = (agent + 1 + int(uniform(rng, 2) * (params.num_agents - 1))) % params.num_agents
    state.time += 1


def meet(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    for agent in range(params.num_agents):
        for k in range(2):
            arrays.heard[agent, k] = arrays.delivered[arrays.peer[agent], k]
    return False, state.time >= params.horizon


def observe(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1] = seen.won, seen.heard[1]


class Copycat(Replicas[State]):
    name: ClassVar[str] = "copycat"
    params: Params
    hidden = frozenset({"secret"})
    state_type, sources = State, ("means", "rewards", "peers")
    functions = Functions(reset=begin, act=pull, receive=meet, observe=observe)
    sends: ClassVar[tuple[str, str]] = ("message", "delivered")

    def make_roles(self) -> tuple[Role, ...]:
        return (Role("agent", self.params.num_agents, Layout(won=(1, 0, 1), heard=(1, 0, 1)), Discrete(2)),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("arm", "one_hot", observer="neighbour", unit="event"),)

    def between(self, live: Array) -> None:
        self.deliver("arm", *self.sends, live, senders=self.column("message_levels"))


def copycat(**changes: Any) -> Copycat:
    functions = {name: changes.pop(name) for name in Functions._fields if name in changes}
    return type("Copycat", (Copycat,), changes | {"functions": Copycat.functions._replace(**functions)})(Params(), 2)


# The usual way: one replica.


def peeks(what: str) -> Any:
    """An `observe` that reads something in place of what was heard."""
    scope: dict[str, Any] = {}
    exec(f"def observe(seen, params, out):\n    out[0], out[1] = seen.won, {what}\n", scope)
    return scope["observe"]


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("seen.means[0]", AttributeError, "field 'means' of the State must be declared as own, received or public"),
        ("seen.undeclared", AttributeError, "field 'undeclared' of the State must be declared as own"),
        ("params.secret", AttributeError, "secret"),
        ("seen.arm[seen.peer[seen.agent]]", TypeError | IndexError, "index|subscript"),
        ("seen.message[seen.peer[seen.agent], 1]", IndexError, "too many indices"),
    ],
)
def test_nothing_else_is_passed_to_observations(what: str, error: Any, message: str) -> None:
    env = copycat(observe=peeks(what))
    with pytest.raises(error.__args__ if hasattr(error, "__args__") else error, match=message):
        env.reset(seed=0)


@pytest.mark.slow
def test_compiled_observations_see_the_same() -> None:
    env = copycat()
    env._loops.played = 1e18  # compiled at once
    plain, actions = copycat(), np.zeros((2, 4), np.int64)
    assert np.array_equal(env.reset(seed=0)[0], plain.reset(seed=0)[0])
    for _ in range(5):
        assert np.array_equal(env.step(actions).observation, plain.step(actions).observation)


@pytest.mark.parametrize("sends", [("means", "delivered"), ("message", "arm"), ("delivered", "delivered")])
def test_messages_are_made_of_own_fields_and_arrive_in_received_ones(sends: tuple[str, str]) -> None:
    env = copycat(sends=sends)
    env.reset(seed=0)
    with pytest.raises(TypeError, match=r"must be declared as (own|received) to be used in `deliver`"):
        env.step(np.zeros((2, 4), np.int64))


def test_roles_see_their_own_fields() -> None:
    env = registry.entry("arm_elimination_v0").world.population(1, num_agents=3, num_arms=2)
    seen = {name for name, owner in fields.owners(env.state_type).items() if owner.seen_by("coordinator")}
    assert {"broadcast", "active", "pulled"} < seen
    assert not seen & {"counts", "sums", "private", "quality"}


def test_roles_of_fields_are_checked() -> None:
    wrong = type("Wrong", (), {"__annotations__": {"x": Ints}, "x": fields.own(role="nobody")})
    with pytest.raises(TypeError, match="role of field 'x' must be one of agent, not 'nobody'"):
        fields.check_roles(dataclass(wrong), ("agent",))
    several = type("Several", (), {"__annotations__": {"x": Ints}, "x": fields.own()})
    with pytest.raises(TypeError, match="role of field 'x' must be given, as there are several: a, b"):
        fields.check_roles(dataclass(several), ("a", "b"))


def test_a_state_must_declare_fields() -> None:
    class Bare(Consensus):
        state_type = dict

    with pytest.raises(TypeError, match="a State must be a dataclass that declares the owners of its fields, not dict"):
        Bare(TinyParams(), 2)


# Every way: a replay finds what passes beside the channels.


def informs_peers(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """A private arm is written into a field that holds what was received."""
    for agent in range(params.num_agents):
        arrays.heard[agent, 1] = arrays.arm[arrays.peer[agent]]
    return False, state.time >= params.horizon


def rewards_peers(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = meet(state, arrays, params, rng, reward)
    for agent in range(params.num_agents):
        reward[agent] = arrays.won[arrays.peer[agent]]
    return over


def ends_by_luck(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    meet(state, arrays, params, rng, reward)
    return arrays.won.sum() == params.num_agents, state.time >= params.horizon


def meets_by_luck(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = meet(state, arrays, params, rng, reward)
    state.time += arrays.won[0] == 1.0
    return over


def sends_for_peers(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    pull(state, arrays, actions, params, rng)
    for agent in range(params.num_agents):
        for k in range(2):
            arrays.message[agent, k] = arrays.arm[arrays.peer[agent]] == k


def sends_about_peers(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    pull(state, arrays, actions, params, rng)
    for agent in range(params.num_agents):
        arrays.message_levels[agent] = state.time != 3 or arrays.arm[arrays.peer[agent]] == 1  # early, and never again


LEAKS: dict[str, tuple[dict[str, Any], str]] = {
    "observation": (
        {"receive": informs_peers},
        "observations of agent in heard must not depend on private data of agent",
    ),
    "reward": ({"receive": rewards_peers}, "reward of agent must not depend"),
    "end": ({"receive": ends_by_luck}, "end of the run must not depend"),
    "time": ({"receive": meets_by_luck}, "clock of the run must not depend .* in turn 1 of copycat"),
    "who sends": ({"act": sends_about_peers}, "messages of others on channel 'arm' must not depend"),
    "message": ({"act": sends_for_peers}, "messages of others on channel 'arm' must not depend"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_replay_finds_what_passes_beside_the_channel(leak: str) -> None:
    changes, message = LEAKS[leak]
    with pytest.raises(AssertionError, match=message):
        replayed(copycat(**changes), PRIVATE)


def test_a_replay_says_what_it_changed() -> None:
    found = replayed(copycat(), PRIVATE)
    assert (found.turns, found.deliveries) == (12, 12)
    # Two agents, three replicas, two private numbers a turn; their arms and messages are turned over in each.
    assert found.replaced == 2 * 3 * 2 * 12
    assert found.changed["arm"] >= 2 * 3 * 12
    assert "entries changed" in str(found)


def test_nothing_changed_is_not_nothing_leaked() -> None:
    def pull_openly(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
        for agent in range(params.num_agents):
            arrays.arm[agent] = actions[agent]
        state.time += 1

    with pytest.raises(AssertionError, match="private data of agent 0 were not changed in copycat: pass what agents"):
        replayed(copycat(act=pull_openly), PRIVATE)


class Masking(Consensus):
    """An agent may vote for the first option only if its neighbour's opinion is high."""

    def action_mask(self, role: str) -> Array:
        mask = np.ones((*self.state.opinion.shape, 3), np.int8)
        mask[:, :, 0] = np.roll(self.state.opinion, 1, 1) > 0.5
        return mask


@pytest.mark.parametrize(
    ("world", "message"),
    [(Peeking, "observations of agent in heard must not"), (Masking, "action mask of agent must not")],
)
def test_worlds_that_show_private_data_are_found(world: type[Consensus], message: str) -> None:
    replayed(Consensus(TinyParams(), 2))
    with pytest.raises(AssertionError, match=message):
        replayed(world(TinyParams(), 2))


def test_a_world_without_channels_has_nothing_to_replay() -> None:
    with pytest.raises(ValueError, match="env must have a channel, and gossip has none"):
        replayed(Gossip(TinyParams(), 2))


@pytest.mark.parametrize("world", [one.name for one in registry.WORLDS])
def test_arrays_of_agents_have_a_row_for_each(world: str) -> None:
    """Or one row, where all have the same; an agent would be passed somebody else's row otherwise."""
    population = Case(world).population(2)
    population.reset(seed=0)
    state = population.state
    counts = {name: role.num_agents for name, role in population.roles.items()}
    counts |= {channel.sender: channel.num_senders for channel in population.channels.values()}
    known = fields.owners(type(state))
    for name, owner in known.items():
        values = getattr(state, name)
        if owner.each and values.ndim > 1 and values.size:
            role = owner.role or next(iter(population.roles))
            assert values.shape[1] in (1, counts[role]), (name, values.shape)


# Parameters that are hidden from policies.

SECRETS = {
    "gossip_bandit_v0": {"num_agents": 3, "num_options": 2, "qualities": (0.9173, 0.125)},
    "social_bandit_v0": {"num_agents": 3, "num_options": 2, "qualities": (0.9173, 0.125)},
    "federated_bandit_v0": {"num_agents": 3, "qualities": (0.9173, 0.125)},
    "arm_elimination_v0": {"num_agents": 3, "qualities": (0.9173, 0.125)},
    "elicitation_v0": {"num_individuals": 3, "theta": (0.9173, 0.0827)},
}


def holds(value: Any, number: float) -> bool:
    """Whether a number is in an array, or in a tuple of such."""
    if isinstance(value, tuple | list):
        return any(holds(one, number) for one in value)
    return isinstance(value, np.ndarray | float) and bool(np.isclose(value, number).any())


@pytest.mark.parametrize("world", SECRETS)
def test_no_public_parameter_holds_hidden_ones(world: str) -> None:
    population = registry.entry(world).world.population(1, **SECRETS[world])
    params, found = population.view().params, []
    for name in dir(population.params):
        try:
            value = getattr(params, name)
        except (HiddenTruth, AttributeError):
            continue
        found += [name] if not name.startswith("__") and holds(value, 0.9173) else []
    assert found == []
    assert any(holds(getattr(population.params, name, None), 0.9173) for name in population.hidden)


# The table of docs/privacy.md.


def test_the_table_of_the_docs_has_every_channel_with_its_observer_and_unit() -> None:
    text = (Path(__file__).parents[1] / "docs/privacy.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    told = {(row[0], word) for row in rows if len(row) == 5 for word in re.findall("`([a-z]+)`", row[1])}
    seen = set()
    for world in registry.WORLDS:
        graphs = [{"topology": "ring"}] if world.name == "federated_bandit_v0" else []
        for more in ({}, *graphs):
            for channel in world.world.population(1, **dict(world.small) | more).channels.values():
                name = world.name.removesuffix("_v0").replace("_", " ")
                (row,) = [one for one in rows if one[0] == name and one[1].startswith(f"`{channel.name}`")]
                assert f"`{channel.observer}`" in row[2]
                assert row[2].endswith(f"; `{channel.unit}`")
                assert row[4]
                seen.add((name, channel.name))
    assert seen == told
