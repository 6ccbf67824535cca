"""Tiny worlds, one for each way of taking turns, on which the core and the views are tested."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Array, Channel, Layout, Population, Role, World, fields, integer

Transition = tuple[Any, dict[str, Array], Array, Array, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = 4
    horizon: int = 12

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1)
        integer("horizon", self.horizon, at_least=1)


class Tiny(Population[Any]):
    """Base of the tiny worlds: a clock, and the total reward as measure and outcome."""

    params: Params

    def nobody(self) -> Array:
        return np.zeros(self.num_envs, np.bool_)

    def measures(self) -> dict[str, Callable[[], Array]]:
        state = self.state
        return {"earned": lambda: state.earned, "time": lambda: state.time}

    def outcome(self) -> dict[str, Array]:
        return {"earned": self.state.earned.copy()}


@dataclass(frozen=True)
class Opinions:
    opinion: Array = fields.own()  # float64[B, N]
    heard: Array = fields.received()  # float64[B, N]: mean of the opinions that arrived
    shares: Array = fields.received(each=False)  # float64[B, 3]: of the votes, by option
    earned: Array = fields.hidden()  # float64[B]
    time: Array = fields.public()  # int64[B]


class Consensus(Tiny):
    """All agents vote at once and hear the mean opinion; the reward is the share of votes for the same option, plus a
    random number."""

    name = "consensus"

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(opinion=(1, 0, 1), heard=(1, 0, 1), shares=(3, 0, 1))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(3)),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (
            Channel("opinion", "bounded", observer="neighbour", unit="event"),
            Channel("vote", "one_hot", observer="server", unit="event"),
        )

    def initial(self) -> Opinions:
        opinion = self.private(self.stream("opinions").random((self.num_envs, self.params.num_agents)))
        return Opinions(
            opinion=opinion,
            heard=np.full_like(opinion, 0.5),
            shares=np.full((self.num_envs, 3), 1 / 3),
            earned=np.zeros(self.num_envs),
            time=np.zeros(self.num_envs, np.int64),
        )

    def transition(self, state: Opinions, actions: dict[str, Array]) -> Transition:
        votes = actions["agent"]
        one_hot = votes[:, :, None] == np.arange(3)
        sums, received = self.channels["vote"].tally(one_hot.sum(1), lambda: one_hot)
        speaks = votes > 0
        opinions, delivered = self.channels["opinion"].send(state.opinion, speaks, sensitivity=1.0)
        heard = (opinions * delivered).sum(1) / np.maximum(delivered.sum(1), 1)
        shares = sums / np.maximum(received, 1)[:, None]
        luck = self.luck().random(votes.shape)
        reward = np.take_along_axis(shares, votes, 1) + luck
        new = Opinions(
            opinion=0.9 * state.opinion + 0.1 * heard[:, None],
            heard=np.broadcast_to(heard[:, None], votes.shape),
            shares=shares,
            earned=state.earned + reward.sum(1),
            time=state.time + 1,
        )
        info = {"time": new.time, "luck": {"agent": luck}, "votes": received, "_votes": received > 0}
        return new, {"agent": reward}, self.nobody(), new.time >= self.params.horizon, info

    def empty_info(self) -> dict[str, Any]:
        return {"time": 0, "luck": {"agent": 0.0}, "votes": 0}

    def luck(self) -> np.random.Generator:
        return self.stream("luck")

    def observe_role(self, state: Opinions, role: str, rows: Array | None = None) -> Array:
        shares = np.broadcast_to(state.shares[:, None], (*state.opinion.shape, 3))
        return self.roles[role].layout.pack(opinion=state.opinion, heard=state.heard, shares=shares)


class Broken(Consensus):
    """Consensus with an unseeded generator, which the determinism test must detect."""

    name = "broken"

    def luck(self) -> np.random.Generator:
        return np.random.default_rng()


class Peeking(Consensus):
    """Consensus in which agents observe their neighbour's opinion in place of what they heard."""

    name = "peeking"

    def observe_role(self, state: Opinions, role: str, rows: Array | None = None) -> Array:
        shares = np.broadcast_to(state.shares[:, None], (*state.opinion.shape, 3))
        peers = np.roll(state.opinion, 1, 1)
        return self.roles[role].layout.pack(opinion=state.opinion, heard=peers, shares=shares)


@dataclass(frozen=True)
class Rumours:
    opinion: Array = fields.own()  # float64[B, N]
    speaker: Array = fields.public()  # int64[B, 1]: who acts next
    earned: Array = fields.hidden()  # float64[B]
    time: Array = fields.public()  # int64[B]


class Gossip(Tiny):
    """One random agent at a time lowers, raises or forgets its opinion; the episode ends when no opinion is above
    1/2."""

    name = "gossip"

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(opinion=(1, 0, 1), others=(1, 0, 1), place=(1, 0, self.params.num_agents))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(3)),)

    def draw_speaker(self) -> Array:
        return self.stream("clock").integers(0, self.params.num_agents, (self.num_envs, 1))

    def initial(self) -> Rumours:
        shape = (self.num_envs, self.params.num_agents)
        return Rumours(
            opinion=self.stream("opinions").uniform(0.6, 1.0, shape),
            speaker=self.draw_speaker(),
            earned=np.zeros(self.num_envs),
            time=np.zeros(self.num_envs, np.int64),
        )

    def transition(self, state: Rumours, actions: dict[str, Array]) -> Transition:
        move = np.array([-0.1, 0.1, -1.0])[actions["agent"]]
        opinion = state.opinion.copy()
        own = np.take_along_axis(opinion, state.speaker, 1)
        np.put_along_axis(opinion, state.speaker, np.clip(own + move, 0, 1), 1)
        new = Rumours(opinion, self.draw_speaker(), state.earned + own[:, 0], state.time + 1)
        info = {"spread": opinion.max(1) - opinion.min(1)}
        return new, {"agent": own}, opinion.max(1) < 0.5, new.time >= self.params.horizon, info

    def empty_info(self) -> dict[str, Any]:
        return {"spread": 0.0}

    def acting(self, role: str) -> Array:
        speaker: Array = self.state.speaker
        return speaker

    def observe_role(self, state: Rumours, role: str, rows: Array | None = None) -> Array:
        everyone = np.broadcast_to(np.arange(self.params.num_agents), state.opinion.shape)
        rows = everyone if rows is None else rows
        opinion = np.take_along_axis(state.opinion, rows, 1)
        others = np.broadcast_to(state.opinion.mean(1, keepdims=True), rows.shape)
        return self.roles[role].layout.pack(opinion=opinion, others=others, place=rows + 1)


@dataclass(frozen=True)
class Market:
    value: Array = fields.own(role="individual")  # float64[B, N]: of the good to each individual
    price: Array = fields.public()  # float64[B]: announced last
    sold: Array = fields.received(
        role="platform", each=False
    )  # float64[B]: share of the individuals who bought in the last campaign
    earned: Array = fields.hidden()  # float64[B]
    time: Array = fields.public()  # int64[B]: campaigns


class Auction(Tiny):
    """The platform announces a price, then each individual decides whether to buy."""

    name = "auction"
    turns = (("platform",), ("individual",))

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

    def draw_value(self) -> Array:
        return self.private(self.stream("values").uniform(0.1, 1.0, (self.num_envs, self.params.num_agents)))

    def initial(self) -> Market:
        nothing = np.zeros(self.num_envs)
        return Market(self.draw_value(), nothing, nothing, nothing, np.zeros(self.num_envs, np.int64))

    def transition(self, state: Market, actions: dict[str, Array]) -> Transition:
        if "platform" in actions:
            new = replace(state, price=actions["platform"][:, 0, 0].astype(np.float64))
            return new, {"platform": np.zeros((self.num_envs, 1))}, self.nobody(), self.nobody(), {"price": new.price}
        buys, _ = self.channels["purchase"].send(actions["individual"])
        sold = buys.mean(1)
        income = state.price * sold
        new = Market(self.draw_value(), state.price, sold, state.earned + income, state.time + 1)
        reward = {"platform": income[:, None], "individual": (state.value - state.price[:, None]) * buys}
        return new, reward, self.nobody(), new.time >= self.params.horizon, {"sold": sold}

    def empty_info(self) -> dict[str, Any]:
        return {"price": 0.0, "sold": 0.0}

    def default_action(self, role: str) -> Array:
        return np.full((self.num_envs, 1, 1), 0.5, np.float32)

    def observe_role(self, state: Market, role: str, rows: Array | None = None) -> Array:
        layout = self.roles[role].layout
        if role == "platform":
            bias = np.ones((self.num_envs, 1))
            return layout.pack(price=state.price[:, None], sold=state.sold[:, None], bias=bias)
        return layout.pack(value=state.value, price=np.broadcast_to(state.price[:, None], state.value.shape))


@dataclass(frozen=True)
class Walk:
    place: Array = fields.public()  # int64[B], 0..5
    earned: Array = fields.hidden()  # float64[B]
    time: Array = fields.public()  # int64[B]


class Corridor(Tiny):
    """One walker on slippery ground goes from the middle of a corridor to its right end; moves into a wall are
    masked."""

    name = "corridor"

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(place=(6, 0, 1), even=(1, 0, 1))
        return (Role("walker", 1, layout, gymnasium.spaces.Discrete(3)),)

    def initial(self) -> Walk:
        place = self.stream("start").integers(1, 4, self.num_envs)
        return Walk(place, np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64))

    def transition(self, state: Walk, actions: dict[str, Array]) -> Transition:
        slips = self.stream("slips").random(self.num_envs) < 0.2
        move = np.where(slips, 0, actions["walker"][:, 0] - 1)
        place = np.clip(state.place + move, 0, 5)
        reward = place - 1.0
        new = Walk(place, state.earned + reward, state.time + 1)
        info = {"slipped": slips, "arrived_at": new.time, "_arrived_at": place == 5}
        return new, {"walker": reward[:, None]}, place == 5, new.time >= self.params.horizon, info

    def empty_info(self) -> dict[str, Any]:
        return {"slipped": False, "arrived_at": 0}

    def action_mask(self, role: str) -> Array:
        place = self.state.place
        return np.stack([place > 0, np.ones(self.num_envs), place < 5], -1)[:, None].astype(np.int8)

    def observe_role(self, state: Walk, role: str, rows: Array | None = None) -> Array:
        place = (state.place[:, None] == np.arange(6)).astype(np.float64)
        return self.roles[role].layout.pack(place=place[:, None], even=(state.time % 2)[:, None])


consensus_v0, broken_v0, gossip_v0 = World(Consensus, Params), World(Broken, Params), World(Gossip, Params)
peeking_v0 = World(Peeking, Params)
auction_v0, corridor_v0 = World(Auction, Params), World(Corridor, Params)
