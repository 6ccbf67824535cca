"""A world, a policy and a mechanism of another package: agents guess a bit that each of them has seen noisily, and hear
a noisy vote."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.envs.core import (
    Array,
    Channel,
    Functions,
    Layout,
    PublicView,
    Replicas,
    Role,
    World,
    fields,
    integer,
    number,
    private,
    uniform,
)
from taciturn.envs.core.descriptor import Descriptor
from taciturn.policies import Policy
from taciturn.privacy.base import Given, Mechanism
from taciturn.privacy.losses import KaryLoss
from taciturn.validation import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = 9
    accuracy: float = 0.7
    horizon: int = 20

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1)
        number("accuracy", self.accuracy, at_least=0.5, at_most=1)
        integer("horizon", self.horizon, at_least=1)


@dataclass(frozen=True)
class State:
    truth: Ints = fields.hidden()
    signal: Ints = fields.own(lambda p: p.num_agents)  # what each agent sees in this step
    guess: Ints = fields.own(lambda p: p.num_agents)
    vote: Floats = fields.own(lambda p: (p.num_agents, 2))  # the guess, one-hot
    votes: Floats = fields.received(lambda p: (p.num_agents, 2))  # the votes that arrived in the last step,
    arrived: Ints = fields.received(each=False)  # their number,
    shares: Floats = fields.received(lambda p: 2, each=False)  # and the shares of both options
    right: Floats = fields.hidden()  # guesses that were right so far, mean over agents
    time: Ints = fields.public()


TRUTH, SIGHTS = 0, 1  # the sources of random numbers


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    state.truth = int(uniform(rng, TRUTH) * 2)
    arrays.shares[0], arrays.shares[1] = 0.5, 0.5
    see(state, arrays, params, rng)


def see(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Each agent sees the truth with probability `accuracy`, and otherwise its opposite."""
    for agent in range(params.num_agents):
        wrong = uniform(rng, SIGHTS) >= params.accuracy
        arrays.signal[agent] = private(agent, 1 - state.truth if wrong else state.truth)


def vote(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    for agent in range(params.num_agents):
        arrays.guess[agent] = actions[agent]
        for option in range(2):
            arrays.vote[agent, option] = actions[agent] == option
    state.time += 1


def count(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    for option in range(2):
        total = 0.0
        for agent in range(params.num_agents):
            total += arrays.votes[agent, option]
        arrays.shares[option] = total / max(state.arrived, 1)
    for agent in range(params.num_agents):
        reward[agent] = arrays.guess[agent] == state.truth
        state.right += reward[agent] / params.num_agents
    see(state, arrays, params, rng)
    return False, state.time >= params.horizon


def observe(seen: Any, params: Any, out: Any) -> None:
    for option in range(2):
        out[option], out[2 + option] = seen.signal == option, seen.shares[option]


class Rumour(Replicas[State]):
    """Agents guess a hidden bit in every step, from a fresh noisy sight of it and the votes of the last step."""

    name = "rumour"
    params: Params
    state_type, sources, info_fields = State, ("truth", "sights"), ("right",)
    functions = Functions(reset=begin, act=vote, receive=count, observe=observe)

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(signal=(2, 0, 1), votes=(2, 0, 1))
        return (Role("agent", self.params.num_agents, layout, Discrete(2)),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("vote", "one_hot", observer="public", unit="event"),)

    def between(self, live: Array) -> None:
        arrived = self.deliver("vote", "vote", "votes", live, sensitivity=2.0)
        self.column("arrived")[live] = arrived.sum(1)[live]


rumour_v0 = World(Rumour, Params)

# What others must know of it. An entry point may also name the bare world.
KNOWN = Descriptor(
    name="rumour_v0",
    module="rumour",
    small={"num_agents": 4, "horizon": 12},
    size="num_agents",
    others="Sceptic",
    mechanisms={"vote": "Shrug:0.5"},
)

# Its part of the benchmark. Without it the world has no tasks, and no rows in tables.
TASKS = """
measure = "right"
higher = true
bounds = [0, 20]
steps = 20_000
classic = ["Sceptic"]
variants.crowd = { what = "99 agents instead of 9", params = { num_agents = 99 } }
variants.lost = { what = "half of the votes are lost", faults = { vote = ["LossyChannel", { probability = 0.5 }] } }
attacks = { mechanism = "Shrug:{}", runs = [{ policies = ["Sceptic"], params = { num_agents = 4, horizon = 12 } }] }
"""


class Sceptic(Policy):
    """Follow the votes if they are clear enough, and otherwise your own sight."""

    def __init__(self, clear: float = 0.2) -> None:
        self.clear = number("clear", clear, at_least=0, at_most=1)

    def begin(self, view: PublicView) -> None:
        self._layout = view.roles[self.role].layout

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        lead = seen["votes"][..., 1] - seen["votes"][..., 0]
        return np.where(np.abs(lead) > self.clear, lead > 0, seen["signal"][..., 1] > 0).astype(np.int64)


@dataclass(frozen=True)
class Shrug(Mechanism):
    """Vote as you think with probability 1 - shrug, and for one of the two options at random otherwise.

    It is the k-ary randomised response for two options, whose epsilon is log((2 - shrug) / shrug).

    Args:
        shrug: > 0 and < 1.
    """

    payloads = frozenset({"one_hot"})
    kind: ClassVar[str] = "k_ary_randomized_response"
    payload_dims: ClassVar[int] = 1
    shrug: float = 0.5

    def __post_init__(self) -> None:
        number("shrug", self.shrug, above=0, below=1)

    @property
    def epsilon(self) -> float:  # type: ignore[override]  # which is an attribute where it is the parameter
        return float(np.log((2 - self.shrug) / self.shrug))

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        votes = np.asarray(x)
        flips = rng.random(votes.shape[:-1]) < self.shrug / 2
        return np.where(flips[..., None], votes[..., ::-1], votes)

    def debias(self, y: ArrayLike, num_messages: ArrayLike = 1) -> Array:
        return (np.asarray(y) - np.asarray(num_messages)[..., None] * self.shrug / 2) / (1 - self.shrug)

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        return np.full(np.shape(x), self.shrug / 2 * (1 - self.shrug / 2) / (1 - self.shrug) ** 2)

    def loss(self, sensitivity: Given = None) -> KaryLoss:
        return KaryLoss(self.epsilon, self.epsilon**2 / 2, num_values=2)

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        answer, first, second = (np.asarray(one)[..., 0] for one in (y, x0, x1))
        return self.epsilon * ((answer == first).astype(np.float64) - (answer == second))
