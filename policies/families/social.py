"""Policies of social learning: reading observations, removing the bias of perturbed replies, and writing plans.

They act in `gossip_bandit_v0` and `social_bandit_v0`. An action is a plan: the option to pull (K for none), and
whether to adopt it if its signal is 0 and if its signal is 1.
"""

from typing import Any

import gymnasium
import numpy as np

from taciturn.channels.replies import unbiased
from taciturn.envs.core import Array, PublicView
from taciturn.envs.core.preferences import ReadMessages, join_plan, read_messages
from taciturn.envs.gossip_bandit.rule import GossipRule
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.policies.base import Policy
from taciturn.validation import Bools, Floats, Ints


def option_to_pull(
    weights: Floats, own: Array, uniform: Floats, threshold: float = np.inf, explore: float = 0.0
) -> Ints:
    """The option that each agent pulls, [...], K for none: drawn from its share Fhat of the total weight [Chen 8].

    Args:
        weights: [..., K], >= 0; the Ftilde of the paper.
        own: int[...], the agents' preferences, -1 for none.
        uniform: [...], a uniform number for each agent.
        threshold, explore: see `GossipRule`.
    """
    options = weights.shape[-1]
    total = weights[..., 0].copy()
    for k in range(1, options):
        total += weights[..., k]
    some = total > 0
    mine = np.take_along_axis(weights, np.maximum(own, 0)[..., None].astype(np.int64), -1)[..., 0]
    keeps = (own >= 0) & (mine / np.where(some, total, 1.0) >= threshold)
    if explore:
        tries = (own < 0) & (uniform < explore)
        anything = np.minimum((uniform / explore * options).astype(np.int64), options - 1)
        rest = (uniform - explore) / (1.0 - explore) if explore < 1 else uniform
        uniform = np.where(own < 0, rest, uniform)
    mark, below = uniform * total, np.zeros(total.shape)
    option = np.zeros(total.shape, np.int64)
    for k in range(options - 1):
        below += weights[..., k]
        option += below <= mark
    option = np.where(some & ~keeps, option, options)
    return np.where(tries, anything, option) if explore else option


def sample(weights: Array, rng: np.random.Generator) -> tuple[Ints, Bools]:
    """Draw an option with probability proportional to `weights` [..., K] [Tao 8].

    Returns:
        The options, [...], and whether any weight was positive, [...]; if none was, the option means nothing.
    """
    edges = np.empty((weights.shape[-1], *weights.shape[:-1]))
    total = np.zeros(weights.shape[:-1])
    for k, edge in enumerate(edges):  # three times faster than cumsum along a short axis
        total = np.add(total, weights[..., k], out=edge)
    point = rng.random(total.shape) * total
    return np.minimum((edges <= point).sum(0), len(edges) - 1), total > 0


class SocialPolicy(Policy):
    """Base of the policies of social learning."""

    def begin(self, view: PublicView) -> None:
        role = view.roles[self.role]
        fields = role.layout.fields
        fits = {"counts", "received", "own"} <= fields.keys() and "preference" in view.channels
        self.require(fits, "the worlds of social learning", view)
        self._layout, self._options = role.layout, fields["own"][0]
        self._flat = isinstance(role.action_space, gymnasium.spaces.Discrete)
        self._scale, self._distribution = float(view.reply_scale), view.reply_distribution
        mechanism = view.channels["preference"].mechanism
        self._reads_distribution = mechanism is not None and mechanism.takes_levels
        self._shape = (view.num_envs, role.num_agents)
        self._view = view
        self.prepare(view)

    def prepare(self, view: PublicView) -> None:
        """Read further data of the view that a subclass needs, and clear its memory of earlier runs."""

    def unpack(self, obs: Array) -> dict[str, Array]:
        """The fields of observations [B, rows, D]; stores the noise of their messages where agents choose its level."""
        seen = self._layout.unpack(obs)
        if self._reads_distribution:
            q = seen["q"].astype(np.float64)
            p = seen["p"].astype(np.float64) if "p" in seen else 1 - q
            self._distribution = p[..., None], q[..., None]
        return seen

    def read_messages(self, obs: Array) -> ReadMessages:
        """Decode observations [B, rows, D]."""
        if self._reads_distribution:
            self.unpack(obs)
        return read_messages(self._layout, obs, self._scale)

    def plan(self, option: Array, on_zero: Any = 0, on_one: Any = 1) -> Array:
        """Actions: pull `option` int64[B, rows], and adopt it on signal 0 if `on_zero`, on signal 1 if `on_one`."""
        return join_plan(option, on_zero, on_one, self._flat)

    def agents(self) -> Ints:
        """The agents that the rows belong to, [B, rows]."""
        acting = self._view.acting(self.role)
        return np.broadcast_to(np.arange(self._shape[1]), self._shape) if acting is None else acting


class Proportional(SocialPolicy):
    """Base of the policies that pull an option with probability proportional to a function of its count (see
    `GossipRule`)."""

    memoryless = True
    _threshold: float = np.inf
    _explore: float = 0.0
    _adopts: tuple[bool, bool] = (False, True)

    def weights(self, counts: Array, received: Array) -> Array:
        """The weight of each option, float64[..., K], >= 0; here its unbiased share, or 0 if that is negative."""
        return np.maximum(unbiased(counts, received, *self._distribution), 0.0)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        read_messages = self.read_messages(obs)
        weights = self.weights(read_messages.counts, read_messages.received)
        uniform = self.rng.random(read_messages.own.shape)
        option = option_to_pull(weights, read_messages.own, uniform, self._threshold, self._explore)
        return self.plan(option, *self._adopts)

    def gossip_rule(self, view: PublicView) -> GossipRule | None:
        """The fast form in `gossip_bandit_v0` if every agent asked replies: the weight of each possible count."""
        if not issubclass(view.world, GossipBandit):
            return None
        replies = view.params.num_agents if view.params.asks == "all" else 1
        counts = np.arange(replies + 1.0)[:, None]
        weights = self.weights(counts, np.full(replies + 1, float(replies)))[:, 0]
        return GossipRule(weights, self._threshold, self._explore, self._adopts)
