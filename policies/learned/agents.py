"""Agents with a network trained by playing: its inputs, and its actions."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.policies.base import Policy
from taciturn.policies.designed.listener import one_answer
from taciturn.policies.learned.networks import Decisions, Head, Number, Numbers, Point, Weights, forward
from taciturn.policies.learned.social_features import SocialFeatures, remembers
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism
from taciturn.validation import Ints, shown

WIDE = 20.0
"""Fields with a larger range are also given as logarithms."""


class PlainFeatures:
    """The raw observation, for environments without special features: one option with the fields as features, and
    the logarithms log(1 + x) of fields >= 0 with a wide range.

    Args:
        view, role: of the environment and the agents.
        wide: the numbers of the observation that also have a logarithm, in an environment whose ranges differ from
            those of the training; None: those with a wide range here.
    """

    size, common = 0, 1
    scaled = False

    def __init__(self, view: PublicView, role: str, wide: Array | None = None) -> None:
        fields, space = view.roles[role].layout.fields, view.roles[role].action_space
        here = np.concatenate([np.full(size, low >= 0 and high > WIDE) for size, low, high in fields.values()])
        self.wide = np.flatnonzero(here) if wide is None else wide.astype(np.int64)
        self.size = here.size + self.wide.size
        ranges = np.concatenate([np.full(size, high - low, np.float64) for size, low, high in fields.values()])
        self.least = np.concatenate([ranges, np.log1p(ranges[self.wide])]) / 100
        self.head = head_of(space)

    def see(self, obs: Array, agents: Ints) -> tuple[Array, Array]:
        rows = obs.reshape(-1, 1, obs.shape[-1])
        more = np.log1p(np.maximum(rows[..., self.wide], 0))
        return np.concatenate([rows, more], -1, dtype=np.float32), np.ones((len(rows), 1), np.float32)

    def learn(self, action: Array, reward: Array, agents: Ints, done: Array) -> None:
        """Does nothing: these features have no memory."""

    def forget(self, where: Array) -> None:
        """Does nothing: these features have no memory."""


def head_of(space: gymnasium.spaces.Space[Any]) -> Head:
    """The network head for an action space; ValueError if no head of the suite fits."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return Number(space, 1)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return Numbers(space)
    if isinstance(space, gymnasium.spaces.Box) and space.is_bounded():
        return Point(space)
    raise ValueError(f"actions must be Discrete, MultiDiscrete or a bounded Box to be learned, not {shown(space)}")


class NetworkAgent(Policy):
    """Acts by one small network for all agents and options (`taciturn.policies.learned.networks`).

    In `gossip_bandit_v0` and `social_bandit_v0` its inputs are an agent's memory (`SocialFeatures`), and in other
    environments the observation (`PlainFeatures`). Under a privacy budget, agents of social learning give one answer,
    at a public moment, and repeat it to every agent (`Scheduled`).

    Args:
        weights: the network's weights, `{name: array}`.
        greedy: whether to take the most likely action, ties at random, instead of a drawn one.
        moment: time of the answer, in expected ticks of an agent's clock, or in rounds.
    """

    def __init__(self, weights: Weights | None = None, greedy: bool = False, moment: float = 4.0) -> None:
        given: Mapping[str, Any] = {} if weights is None else weights
        self.weights = {name: np.asarray(value, np.float32) for name, value in given.items()}
        self.greedy, self.moment = bool(greedy), number("moment", moment, above=0, at_most=1000)
        self.record: list[Decisions] | None = None

    def begin(self, view: PublicView) -> None:
        self.features: Any = (
            SocialFeatures(view, self.role)
            if remembers(view)
            else PlainFeatures(view, self.role, self.weights.get("wide"))
        )
        self.head: Head = self.features.head
        sizes = {"option": self.features.size, "common": self.features.common}
        outputs = self.weights["out"].shape[-1] if self.weights else self.head.outputs
        fits = all(self.weights[name].shape[0] == size for name, size in sizes.items() if self.weights)
        self.require(fits and outputs == self.head.outputs, "environments like the one it was trained in", view)
        self._view, self._rows = view, np.arange(view.roles[self.role].num_agents)

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Mechanism] | None:
        """The whole budget on the one answer, in environments where agents receive one another's preferences."""
        return one_answer(BitwiseRandomizedResponse(epsilon_budget), self.moment, view) if remembers(view) else None

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        acting = self._view.acting(self.role)
        agents = np.broadcast_to(self._rows, obs.shape[:2]) if acting is None else acting
        self._agents = agents
        option, common = self.features.see(obs, agents)
        if "shift" in self.weights:
            option = (option - self.weights["shift"]) * self.weights["scale"]
        open_ = None if mask is None else mask.reshape(len(option), -1).astype(np.float32)
        out = forward(self.weights, option, common)
        choice = self.head.draw(out, self.weights, self.rng, open_, self.greedy)
        if self.record is not None:
            self.record.append(Decisions(option, common, choice, open_, agents.copy()))
        action = self.head.action(choice)
        return action.reshape(*obs.shape[:2], *action.shape[1:])

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self.features.learn(action, reward, self._agents, done)

    def restart(self, where: Array) -> None:
        self.features.forget(where)
