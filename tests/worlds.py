"""Tiny worlds, one for each way of taking turns, on which the core and the views are tested."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np

from taciturn.envs.core import (
    Array,
    Channel,
    Functions,
    Layout,
    Replicas,
    Role,
    World,
    fields,
    integer,
    private,
    uniform,
)
from taciturn.validation import Bools, Floats, Ints

OPTIONS = 3


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = 4
    horizon: int = 12

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1)
        integer("horizon", self.horizon, at_least=1)


class Tiny(Replicas[Any]):
    """Base of the tiny worlds: a clock, and the total reward as measure and outcome."""

    params: Params

    def measures(self) -> dict[str, Callable[[], Array]]:
        return {name: partial(self.column, name) for name in ("earned", "time")}

    def outcome(self) -> dict[str, Array]:
        return {"earned": self.column("earned").copy()}


def agents(params: Params) -> int:
    return params.num_agents


def added(values: Any) -> float:
    """The sum of the values, one by one: NumPy adds many in another order than compiled code."""
    total = 0.0
    for value in values:
        total += value
    return total


@dataclass(frozen=True)
class Opinions:
    opinion: Floats = fields.own(agents)
    vote: Ints = fields.own(agents)
    luck: Floats = fields.own(agents)
    delivered: Floats = fields.received(agents)  # the opinions that arrived,
    arrived: Ints = fields.received(each=False)  # their number,
    heard: Floats = fields.received(agents)  # and their mean
    sums: Floats = fields.received(lambda p: OPTIONS, each=False)  # of the votes that arrived, by option,
    votes: Ints = fields.received(each=False)  # their number,
    some_votes: Bools = fields.received(each=False)  # whether there are any,
    shares: Floats = fields.received(lambda p: OPTIONS, each=False)  # and the shares of options
    earned: Floats = fields.hidden()
    time: Ints = fields.public()


OPINIONS, LUCK = 0, 1  # the sources of random numbers of `Consensus`


def think(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.opinion[agent] = private(agent, uniform(rng, OPINIONS))
        arrays.heard[agent] = 0.5
    arrays.shares[:] = 1 / OPTIONS


def vote(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.vote[agent], arrays.luck[agent] = actions[agent], uniform(rng, LUCK)
    state.time += 1


def count(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Votes and opinions arrive."""
    state.some_votes = state.votes > 0
    for option in range(OPTIONS):
        arrays.shares[option] = arrays.sums[option] / max(state.votes, 1)
    mean = added(arrays.delivered) / max(state.arrived, 1)
    for agent in range(params.num_agents):
        arrays.heard[agent] = mean
        reward[agent] = arrays.shares[arrays.vote[agent]] + arrays.luck[agent]
        state.earned += reward[agent]
    return False, state.time >= params.horizon


def sway(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """`count`, and opinions move towards the mean."""
    over = count(state, arrays, params, rng, reward)
    for agent in range(params.num_agents):
        arrays.opinion[agent] = 0.9 * arrays.opinion[agent] + 0.1 * arrays.heard[agent]
    return over


def observe_opinions(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1] = seen.opinion, seen.heard
    for option in range(OPTIONS):
        out[2 + option] = seen.shares[option]


class Consensus(Tiny):
    """All agents vote at once and hear the mean opinion; the reward is the share of votes for the same option, plus a
    random number."""

    name = "consensus"
    state_type: ClassVar[Any] = Opinions
    sources = ("opinions", "luck")
    info_fields: ClassVar[tuple[str, ...]] = ("time", "votes")
    info_by_agent: ClassVar[dict[str, tuple[str, str]]] = {"luck": ("agent", "luck")}
    info_valid_if: ClassVar[dict[str, str]] = {"votes": "some_votes"}
    functions = Functions(reset=think, act=vote, receive=sway, observe=observe_opinions)

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(opinion=(1, 0, 1), heard=(1, 0, 1), shares=(OPTIONS, 0, 1))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(OPTIONS)),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (
            Channel("opinion", "bounded", observer="neighbour", unit="event"),
            Channel("vote", "one_hot", observer="server", unit="event"),
        )

    def between(self, live: Array) -> None:
        votes = self.column("vote")
        one_hot = (votes[:, :, None] == np.arange(OPTIONS)).astype(np.int64)
        sums, received = self.channels["vote"].tally(one_hot.sum(1), lambda: one_hot)
        self.column("sums")[live], self.column("votes")[live] = sums[live], received[live]
        delivered = self.deliver("opinion", "opinion", "delivered", live, senders=votes > 0, sensitivity=1.0)
        self.column("arrived")[live] = delivered.sum(1)[live]


def vote_by_chance(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    vote(state, arrays, actions, params, rng)
    arrays.luck[:] = np.random.default_rng().random(params.num_agents)


class Broken(Consensus):
    """Consensus with an unseeded generator, which the determinism test must detect."""

    name = "broken"
    compile = False
    functions = Consensus.functions._replace(act=vote_by_chance)


def peek(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = sway(state, arrays, params, rng, reward)
    for agent in range(params.num_agents):
        arrays.heard[agent] = arrays.opinion[agent - 1]
    return over


class Peeking(Consensus):
    """Consensus in which agents observe their neighbour's opinion in place of what they heard."""

    name = "peeking"
    functions = Consensus.functions._replace(receive=peek)


@dataclass(frozen=True)
class Rumours:
    opinion: Floats = fields.own(agents)
    mean: Floats = fields.public()  # of the opinions
    high: Floats = fields.public()
    spread: Floats = fields.public()
    speaker: Ints = fields.public(lambda p: 1)  # who acts next
    earned: Floats = fields.hidden()
    time: Ints = fields.public()


def draw_speaker(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    arrays.speaker[0] = int(uniform(rng, 1) * params.num_agents)
    low, high = 1.0, 0.0
    for opinion in arrays.opinion:
        low, high = min(low, opinion), max(high, opinion)
    state.mean, state.high, state.spread = added(arrays.opinion) / params.num_agents, high, high - low


def begin_rumours(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.opinion[agent] = 0.6 + 0.4 * uniform(rng, 0)
    draw_speaker(state, arrays, params, rng)


def move(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    speaker, steps = arrays.speaker[0], (-0.1, 0.1, -1.0)
    arrays.reward[0] = arrays.opinion[speaker]
    state.earned += arrays.opinion[speaker]
    arrays.opinion[speaker] = min(1.0, max(0.0, arrays.opinion[speaker] + steps[actions[0]]))
    state.time += 1


def pass_on(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    draw_speaker(state, arrays, params, rng)
    return state.high < 0.5, state.time >= params.horizon


def observe_rumours(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1], out[2] = seen.opinion, seen.mean, seen.agent + 1


class Gossip(Tiny):
    """One random agent at a time lowers, raises or forgets its opinion; the episode ends when no opinion is above
    1/2."""

    name = "gossip"
    state_type, sources, acts, info_fields = Rumours, ("opinions", "clock"), "speaker", ("spread",)
    functions = Functions(reset=begin_rumours, act=move, receive=pass_on, observe=observe_rumours)

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(opinion=(1, 0, 1), others=(1, 0, 1), place=(1, 0, self.params.num_agents))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(3)),)


@dataclass(frozen=True)
class Market:
    value: Floats = fields.own(agents, role="individual")  # of the good to each individual
    buys: Ints = fields.own(agents, role="individual")
    bought: Ints = fields.received(agents, role="platform", each=False)  # as the platform heard it
    price: Floats = fields.public()  # announced last
    sold: Floats = fields.received(role="platform", each=False)  # share of the individuals who bought last
    announced: Bools = fields.public()  # whether the last turn was the platform's,
    closed: Bools = fields.public()  # or the individuals'
    earned: Floats = fields.hidden()
    time: Ints = fields.public()  # campaigns


def draw_values(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.value[agent] = private(agent, 0.1 + 0.9 * uniform(rng, 0))


def announce(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    state.price, state.announced, state.closed = actions[0, 0], True, False


def wait(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    return False, False


def buy(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.buys[agent] = actions[agent]
    state.announced, state.closed = False, True


def sell(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    state.sold = added(arrays.bought) / params.num_agents
    reward[0] = state.price * state.sold
    for agent in range(params.num_agents):
        if arrays.bought[agent]:
            reward[1 + agent] = arrays.value[agent] - state.price
    state.earned += reward[0]
    state.time += 1
    draw_values(state, arrays, params, rng)
    return False, state.time >= params.horizon


def observe_market(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1], out[2] = seen.price, seen.sold, 1.0


def observe_price(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1] = seen.value, seen.price


def fill_market_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    if state.announced:
        info.price = state.price
    if state.closed:
        info.sold = state.sold


class Auction(Tiny):
    """The platform announces a price, then each individual decides whether to buy."""

    name = "auction"
    turns = (("platform",), ("individual",))
    state_type, sources, info_fields = Market, ("values",), ("price", "sold")
    info_valid_if: ClassVar[dict[str, str]] = {"price": "announced", "sold": "closed"}
    functions = Functions(
        reset=draw_values,
        act={"platform": announce, "individual": buy},
        receive={"platform": wait, "individual": sell},
        observe={"platform": observe_market, "individual": observe_price},
        info=fill_market_info,
    )

    def make_roles(self) -> tuple[Role, ...]:
        return (
            Role(
                "platform",
                1,
                Layout(price=(1, 0, 1), sold=(1, 0, 1), bias=(1, 0, 1)),
                gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32),
            ),
            Role(
                "individual",
                self.params.num_agents,
                Layout(value=(1, 0, 1), price=(1, 0, 1)),
                gymnasium.spaces.Discrete(2),
            ),
        )

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("purchase", "categorical", observer="platform", unit="event", sender="individual"),)

    def between(self, live: Array) -> None:
        if self.turn == ("individual",):
            self.deliver("purchase", "buys", "bought", live)

    def default_action(self, role: str) -> Array:
        return np.full((self.num_envs, 1, 1), 0.5, np.float32)


@dataclass(frozen=True)
class Walk:
    place: Ints = fields.public()  # 0..5
    slipped: Bools = fields.public()
    arrived: Bools = fields.public()
    earned: Floats = fields.hidden()
    time: Ints = fields.public()


def start(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    state.place = 1 + int(3 * uniform(rng, 0))


def walk(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    state.slipped = uniform(rng, 1) < 0.2
    if not state.slipped:
        state.place = min(5, max(0, state.place + actions[0] - 1))
    state.arrived = state.place == 5
    arrays.reward[0] = state.place - 1.0
    state.earned += arrays.reward[0]
    state.time += 1


def arrive(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    return state.arrived, state.time >= params.horizon


def observe_place(seen: Any, params: Any, out: Any) -> None:
    for place in range(6):
        out[place] = seen.place == place
    out[6] = seen.time % 2


def fill_walk_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    info.slipped = state.slipped
    if state.arrived:
        info.arrived_at = state.time


class Corridor(Tiny):
    """One walker on slippery ground goes from the middle of a corridor to its right end; moves into a wall are
    masked."""

    name = "corridor"
    state_type, sources = Walk, ("start", "slips")
    info_valid_if: ClassVar[dict[str, str]] = {"arrived_at": "arrived"}
    functions = Functions(reset=start, act=walk, receive=arrive, observe=observe_place, info=fill_walk_info)

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(place=(6, 0, 1), even=(1, 0, 1))
        return (Role("walker", 1, layout, gymnasium.spaces.Discrete(3)),)

    def empty_info(self) -> dict[str, Any]:
        return {"slipped": False, "arrived_at": 0}

    def action_mask(self, role: str) -> Array:
        place = self.column("place")
        return np.stack([place > 0, np.ones(self.num_envs), place < 5], -1)[:, None].astype(np.int8)


consensus_v0, broken_v0, gossip_v0 = World(Consensus, Params), World(Broken, Params), World(Gossip, Params)
peeking_v0 = World(Peeking, Params)
auction_v0, corridor_v0 = World(Auction, Params), World(Corridor, Params)
