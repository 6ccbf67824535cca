"""Agents whose network is trained by playing: what they see of a world, and how they act."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.core.preferences import heard
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.base import Policy
from taciturn.policies.designed.listener import one_answer
from taciturn.policies.learned.networks import Decisions, Head, Number, Numbers, Plan, Point, Weights, forward
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism
from taciturn.validation import Ints, shown
from taciturn.wrappers.remembering import SocialMemory

FADES = np.float32(0.6)
"""What a running mean of messages keeps from turn to turn."""
WIDE = 20.0
"""Fields with a larger range are seen by their logarithms, too."""


class PlainFeatures:
    """The observation as it is, for a world of which nothing else is known: one option, whose features are the fields,
    and the logarithms log(1 + x) of those >= 0 with a wide range."""

    size, common = 0, 1
    scaled = False

    def __init__(self, view: PublicView, role: str) -> None:
        fields, space = view.roles[role].layout.fields, view.roles[role].action_space
        wide = [np.full(size, low >= 0 and high > WIDE) for size, low, high in fields.values()]
        self._wide = np.flatnonzero(np.concatenate(wide))
        self.size = view.roles[role].layout.size + self._wide.size
        self.head = head_of(space)

    def see(self, obs: Array, agents: Ints) -> tuple[Array, Array]:
        rows = obs.reshape(-1, 1, obs.shape[-1])
        more = np.log1p(np.maximum(rows[..., self._wide], 0))
        return np.concatenate([rows, more], -1, dtype=np.float32), np.ones((len(rows), 1), np.float32)

    def learn(self, action: Array, reward: Array, agents: Ints, done: Array) -> None:
        """Nothing is remembered."""

    def forget(self, where: Array) -> None:
        """Nothing is remembered."""


def head_of(space: gymnasium.spaces.Space[Any]) -> Head:
    """How a network acts in a space; ValueError if none of the suite's kinds fits."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return Number(space, 1)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return Numbers(space)
    if isinstance(space, gymnasium.spaces.Box) and space.is_bounded():
        return Point(space)
    raise ValueError(f"actions must be Discrete, MultiDiscrete or a bounded Box to be learned, not {shown(space)}")


class SocialFeatures:
    """What agents of social learning know of each option, from `SocialMemory` and what they hear now.

    Of an option: mean and standard deviation of the posterior after its own signals, how far the mean is below the
    largest, log(1 + signals), the share of messages that name it without the mechanism's bias, now, as a running mean
    and over all messages so far, how far the running mean is below the largest, whether it holds the option, and the
    standard deviation of the noise. In common: the share of the run that is over, log(1 + turns), log(1 + turns left),
    whether it holds anything, and independent answers heard per agent.
    """

    size, common = 10, 5
    scaled = True

    def __init__(self, view: PublicView, role: str) -> None:
        self._memory, known = SocialMemory(view, view.world, role), view.roles[role]
        self._layout, self._scale, self._law = known.layout, float(view.reply_scale), view.reply_law
        self._agents, self._ends = view.params.num_agents, float(view.horizon)
        if not issubclass(view.world, SocialBandit):
            self._ends *= float(view.params.rate)
        options = known.layout.fields["own"][0]
        self._mean = np.zeros((view.num_envs, known.num_agents, options), np.float32)
        self._all = np.ones(view.num_envs, np.bool_)
        self.head: Head = Plan(isinstance(known.action_space, gymnasium.spaces.Discrete))

    def see(self, obs: Array, agents: Ints) -> tuple[Array, Array]:
        memory, at, (p, q) = self._memory, (np.arange(len(agents))[:, None], agents), self._law
        memory.hear(obs, agents, self._all)
        known, held = memory.known(agents), memory.held(agents)
        now = heard(self._layout, obs, self._scale)
        told = now.received[..., None]
        share = np.where(told > 0, (now.counts / np.maximum(told, 1) - q) / (p - q), 0.0).astype(np.float32)
        turns, left, n = known["turns"], known["turns_left"], (known["hits"] + known["misses"]).astype(np.float32)
        before = np.where(turns[..., None] > 0, self._mean[at], share)
        running = self._mean[at] = FADES * before + (1 - FADES) * share
        mean = (1 + known["hits"]) / (2 + n)
        parts = (
            mean, np.sqrt(mean * (1 - mean) / (3 + n)), mean - mean.max(-1, keepdims=True), np.log1p(n) / 2, share,
            running, known["heard"], running - running.max(-1, keepdims=True),
            held[..., None] == np.arange(n.shape[-1]), np.sqrt(known["noise"]),
        )  # fmt: skip
        option = np.stack(parts, -1, dtype=np.float32, casting="unsafe").reshape(-1, n.shape[-1], self.size)
        answers = np.minimum(known["answers"] / self._agents, 2.0)
        common = turns / max(self._ends, 1), np.log1p(turns) / 3, np.log1p(left) / 3, held >= 0, answers
        return option, np.stack(common, -1, dtype=np.float32, casting="unsafe").reshape(-1, self.common)

    def learn(self, action: Array, reward: Array, agents: Ints, done: Array) -> None:
        self._memory.learn(action, reward, agents, ~done)

    def forget(self, where: Array) -> None:
        self._memory.forget(where)


def remembers(view: PublicView) -> bool:
    """Whether `SocialFeatures` fit a world."""
    rounds = issubclass(view.world, SocialBandit)
    return rounds or (issubclass(view.world, GossipBandit) and view.params.reward == "pull")


class NetworkAgent(Policy):
    """Acts by one small network for all agents and options (`taciturn.policies.learned.networks`).

    In `gossip_bandit_v0` and `social_bandit_v0` it sees what an agent remembers (`SocialFeatures`), and in other worlds
    the observation (`PlainFeatures`). Under a total, agents of social learning give one answer, at a public moment, and
    repeat it to everybody (`Scheduled`).

    Args:
        weights: of the network, `{name: array}`.
        greedy: whether to take the most likely action instead of a drawn one.
        moment: of the answer, in expected ticks of an agent's clock, or in rounds.
    """

    def __init__(self, weights: Weights | None = None, greedy: bool = False, moment: float = 4.0) -> None:
        given: Mapping[str, Any] = {} if weights is None else weights
        self.weights = {name: np.asarray(value, np.float32) for name, value in given.items()}
        self.greedy, self.moment = bool(greedy), number("moment", moment, above=0, at_most=1000)
        self.record: list[Decisions] | None = None

    def begin(self, view: PublicView) -> None:
        kind = SocialFeatures if remembers(view) else PlainFeatures
        self.features: Any = kind(view, self.role)
        self.head: Head = self.features.head
        sizes = {"option": self.features.size, "common": self.features.common}
        outputs = self.weights["out"].shape[-1] if self.weights else self.head.outputs
        fits = all(self.weights[name].shape[0] == size for name, size in sizes.items() if self.weights)
        self.require(fits and outputs == self.head.outputs, "worlds like the one it was trained in", view)
        self._view, self._rows = view, np.arange(view.roles[self.role].num_agents)

    def within(self, view: PublicView, total: float) -> dict[str, Mechanism] | None:
        """All of the total on the one answer, where agents hear one another's preferences."""
        return one_answer(BitwiseRandomizedResponse(total), self.moment, view) if remembers(view) else None

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        acting = self._view.acting(self.role)
        agents = np.broadcast_to(self._rows, obs.shape[:2]) if acting is None else acting
        self._agents = agents
        option, common = self.features.see(obs, agents)
        if "shift" in self.weights:
            option = (option - self.weights["shift"]) * self.weights["scale"]
        open_ = None if mask is None else mask.reshape(len(option), -1).astype(np.float32)
        out = forward(self.weights, option, common)
        choice = self.head.draw(out, self.weights, None if self.greedy else self.rng, open_)
        if self.record is not None:
            self.record.append(Decisions(option, common, choice, open_, agents.copy()))
        action = self.head.action(choice)
        return action.reshape(*obs.shape[:2], *action.shape[1:])

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self.features.learn(action, reward, self._agents, done)

    def restart(self, where: Array) -> None:
        self.features.forget(where)
