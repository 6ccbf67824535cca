"""Baselines for the worlds of social learning: what agents do who hear what others prefer, or do without.

They act in `gossip_bandit_v0` and `social_bandit_v0`: an action is a plan, which option to pull and whether to take it up on signal 0 and
on signal 1; K stands for no option.
"""

from typing import Any, NamedTuple

import gymnasium
import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.gossip_bandit.ticks import GossipRule, choose
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.base import Policy
from taciturn.policies.classic.bandit_indices import ucb1_index

__all__ = [
    "FollowMajority",
    "Heard",
    "ImitateIfBetter",
    "Isolated",
    "IsolatedEpsilonGreedy",
    "IsolatedThompson",
    "IsolatedUCB",
    "OracleOption",
    "Proportional",
    "SocialPolicy",
    "Uniform",
    "Voter",
    "unbiased",
]


class Heard(NamedTuple):
    """What agents heard, and what they prefer."""

    counts: Array  # float64[B, rows, K], whole numbers: messages with each option's bit set
    received: Array  # float64[B, rows], whole numbers: messages
    own: Array  # int64[B, rows]: the preference, -1 for none


def unbiased(counts: Array, received: Array, p: float, q: float) -> Array:
    """The share of the messages that name each option by right, (H - q) / (p - q), float64[..., K]; 0 where none was received.

    H = counts / received; p and q are the probabilities that a bit is read as 1 where it is 1, and where it is 0. Under bitwise randomised
    response this is ((e^(epsilon/2) + 1) H - 1) / (e^(epsilon/2) - 1).
    """
    heard = received[..., None] > 0
    share = counts / np.where(heard, received[..., None], 1.0)
    return np.where(heard, (share - q) / (p - q), 0.0)


class SocialPolicy(Policy):
    """Base of the policies of social learning: reads what agents see and writes plans."""

    def begin(self, view: PublicView) -> None:
        role = view.roles[self.role]
        fields = role.layout.fields
        if not {"counts", "received", "own"} <= fields.keys() or "preference" not in view.channels:
            raise ValueError(f"{type(self).__name__} acts in the worlds of social learning, not in {view.name!r}")
        self._layout, self._options = role.layout, fields["own"][0]
        self._flat = isinstance(role.action_space, gymnasium.spaces.Discrete)
        self._scale, self._law = float(view.reply_scale), view.reply_law
        self._shape = (view.num_envs, role.num_agents)
        self._view = view
        self.prepare(view)

    def prepare(self, view: PublicView) -> None:
        """Read what else the run's parameters tell."""

    def heard(self, obs: Array) -> Heard:
        """What observations [B, rows, D] say."""
        seen = self._layout.unpack(obs)
        counts, received = (np.rint(seen[name].astype(np.float64) * self._scale) for name in ("counts", "received"))
        return Heard(counts, received, np.where(seen["own"].any(-1), seen["own"].argmax(-1), -1))

    def plan(self, option: Array, on_zero: Any = 0, on_one: Any = 1) -> Array:
        """Actions: to pull `option` int64[B, rows] and take it up on signal 0, on signal 1."""
        zero, one = (np.broadcast_to(np.asarray(takes, np.int64), option.shape) for takes in (on_zero, on_one))
        return 4 * option + 2 * zero + one if self._flat else np.stack([option, zero, one], -1)

    def who(self, obs: Array) -> Array:
        """Which agents the rows are, int64[B, rows]."""
        acting = self._view.acting(self.role)
        everyone = np.broadcast_to(np.arange(self._shape[1]), self._shape)
        return everyone if acting is None else acting


class Proportional(SocialPolicy):
    """Base of the policies that pull an option in proportion to a weight of what they heard of it (a `GossipRule`)."""

    _threshold: float = np.inf
    _explore: float = 0.0
    _take_up: tuple[bool, bool] = (False, True)

    def weights(self, counts: Array, received: Array) -> Array:
        """Of each option, float64[..., K], >= 0: its unbiased share of what was heard, from 0 up."""
        return np.maximum(unbiased(counts, received, *self._law), 0.0)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        heard = self.heard(obs)
        weights = self.weights(heard.counts, heard.received)
        option = choose(weights, heard.own, self.rng.random(heard.own.shape), self._threshold, self._explore)
        return self.plan(option, *self._take_up)

    def gossip_rule(self, view: PublicView) -> GossipRule | None:
        """The fast form in `gossip_bandit_v0`, where all who are asked reply: the weight of each count that can be heard."""
        if not issubclass(view.world, GossipBandit):
            return None
        replies = view.params.num_agents if view.params.asks == "all" else 1
        counts = np.arange(replies + 1.0)[:, None]
        weights = self.weights(counts, np.full(replies + 1, float(replies)))[:, 0]
        return GossipRule(weights, self._threshold, self._explore, self._take_up)


class Voter(Proportional):
    """Take up what somebody else prefers, whatever its signal: an option drawn by its unbiased share of what was heard.

    The voter model (Clifford & Sudbury 1973; Holley & Liggett 1975), which learns nothing of quality.
    """

    _take_up = (True, True)
    fast = Proportional.gossip_rule


class ImitateIfBetter(Proportional):
    """Pull what somebody else prefers, drawn by its unbiased share of what was heard, and take it up if its signal is 1."""

    fast = Proportional.gossip_rule


class FollowMajority(SocialPolicy):
    """Take up the option that most of what was heard names, ties broken at random; keep one's own where nothing was heard."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        heard = self.heard(obs)
        shares = unbiased(heard.counts, heard.received, *self._law)
        tied = shares == shares.max(-1, keepdims=True)
        option = np.argmax(tied * (1.0 + self.rng.random(shares.shape)), -1)
        nothing = (heard.received == 0) | (shares.max(-1) <= 0)
        kept = np.where(heard.own >= 0, heard.own, self._options)
        return self.plan(np.where(nothing, kept, option), 1, 1)


class Uniform(SocialPolicy):
    """Take up an option drawn uniformly, whatever its signal."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.plan(self.rng.integers(0, self._options, obs.shape[:2]), 1, 1)


class OracleOption(SocialPolicy):
    """Take up the best option, which it is told."""

    needs_truth = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        truth = self._view.truth
        given = np.broadcast_to(truth.params.qualities, (len(obs), self._options))
        best = getattr(truth.state, "qualities", given).argmax(1)
        return self.plan(np.broadcast_to(best[:, None], obs.shape[:2]), 1, 1)


class Isolated(SocialPolicy):
    """Base of the agents that hear nobody and remember everything: each keeps pulls and signals of its own, and takes up what it pulls.

    They have the memory that the worlds' own agents lack. A signal is read off the reward: in `social_bandit_v0` that of the option held
    as a round begins, in `gossip_bandit_v0` that of the option pulled.
    """

    def prepare(self, view: PublicView) -> None:
        shape = (*self._shape, self._options)
        self._pulls, self._signals = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self._late = issubclass(view.world, SocialBandit)
        self._chosen = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def index(self, pulls: Array, signals: Array) -> Array:
        """What to pull the option with the most of, float64[B, rows, K]."""
        raise NotImplementedError

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        replicas, agents = np.arange(len(obs))[:, None], self.who(obs)
        index = self.index(self._pulls[replicas, agents], self._signals[replicas, agents])
        tied = index == index.max(-1, keepdims=True)
        option = np.argmax(tied * (1.0 + self.rng.random(index.shape)), -1)
        self._chosen = agents, self.heard(obs).own if self._late else option
        return self.plan(option, 1, 1)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        agents, option = self._chosen
        rows, columns = np.nonzero(option >= 0)
        at = rows, agents[rows, columns], option[rows, columns]
        self._pulls[at] += 1
        self._signals[at] += reward[rows, columns].astype(np.int32)


class IsolatedUCB(Isolated):
    """UCB1 (Auer, Cesa-Bianchi & Fischer 2002)."""

    def index(self, pulls: Array, signals: Array) -> Array:
        return ucb1_index(pulls, signals / np.maximum(pulls, 1), pulls.sum(-1, keepdims=True))


class IsolatedThompson(Isolated):
    """Thompson sampling from Beta posteriors with uniform priors (Thompson 1933)."""

    def index(self, pulls: Array, signals: Array) -> Array:
        return self.rng.beta(1.0 + signals, 1.0 + pulls - signals)


class IsolatedEpsilonGreedy(Isolated):
    """The option of the best mean so far, any other with probability `epsilon`; what was never pulled comes first.

    Args:
        epsilon: in [0, 1].
    """

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = number("epsilon", epsilon, at_least=0, at_most=1)

    def index(self, pulls: Array, signals: Array) -> Array:
        means = np.where(pulls > 0, signals / np.maximum(pulls, 1), 2.0)
        explores = self.rng.random(means.shape[:-1]) < self.epsilon
        return np.where(explores[..., None], self.rng.random(means.shape), means)
