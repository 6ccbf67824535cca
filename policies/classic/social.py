"""Textbook baselines of social learning, for `gossip_bandit_v0` and `social_bandit_v0`."""

import numpy as np

from taciturn.channels.replies import unbiased
from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.families.bandit_indices import ucb1_index
from taciturn.policies.families.social import Proportional, SocialPolicy, sample
from taciturn.validation import Bools, Floats


class Voter(Proportional):
    """Adopt an option drawn in proportion to its unbiased share of the messages, whatever its signal.

    The voter model (Clifford & Sudbury 1973; Holley & Liggett 1975), which learns nothing about quality.
    """

    _adopts = (True, True)
    fast = Proportional.gossip_rule


class CopyOnReward(Proportional):
    """Pull an option drawn in proportion to its unbiased share of the messages, and adopt it if its signal is 1."""

    fast = Proportional.gossip_rule


class FollowMajority(SocialPolicy):
    """Adopt the option with the largest unbiased share, ties broken at random; keep the current option if no share is
    positive."""

    memoryless = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        read_messages = self.read_messages(obs)
        shares = unbiased(read_messages.counts, read_messages.received, *self._distribution)
        tied = shares == shares.max(-1, keepdims=True)
        option = np.argmax(tied * (1.0 + self.rng.random(shares.shape)), -1)
        nothing = shares.max(-1) <= 0
        kept = np.where(read_messages.own >= 0, read_messages.own, self._options)
        return self.plan(np.where(nothing, kept, option), 1, 1)


class WinStay(SocialPolicy):
    """Win-stay, lose-shift (Robbins 1952, Bulletin of the American Mathematical Society 58), with the messages as a
    second opinion.

    Pull the current option, or without one the option with the largest unbiased share, ties broken at random. Keep it
    if its signal is 1. If its signal is 0, keep the current option if no share is larger, and otherwise hold no option.
    """

    memoryless = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        read_messages = self.read_messages(obs)
        shares = unbiased(read_messages.counts, read_messages.received, *self._distribution)
        largest = shares == shares.max(-1, keepdims=True)
        drawn = np.argmax(largest * (1.0 + self.rng.random(shares.shape)), -1)
        option = np.where(read_messages.own >= 0, read_messages.own, drawn)
        supported = np.take_along_axis(largest, option[..., None], -1)[..., 0]
        return self.plan(option, (read_messages.own >= 0) & supported, 1)


class Uniform(SocialPolicy):
    """Adopt a uniformly random option, whatever its signal."""

    memoryless = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return self.plan(self.rng.integers(0, self._options, obs.shape[:2]), 1, 1)


class OracleOption(SocialPolicy):
    """Adopt the best option, which the policy reads from the hidden truth."""

    needs_truth = True
    memoryless = True

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        best = self._view.truth.state.qualities.argmax(1)
        return self.plan(np.broadcast_to(best[:, None], obs.shape[:2]), 1, 1)


class Isolated(SocialPolicy):
    """Base of the single-agent bandits: each agent ignores all messages, counts its own pulls and signals, and adopts
    the pulled option.

    These agents have a memory, unlike the agents in the papers. They read signals from the reward: in
    `social_bandit_v0` it is the signal of the option held at the start of the round, and in `gossip_bandit_v0` of the
    option pulled.
    """

    def prepare(self, view: PublicView) -> None:
        shape = (*self._shape, self._options)
        self._pulls, self._signals = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        self._delayed = issubclass(view.world, SocialBandit)
        self._chosen = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def restart(self, where: Array) -> None:
        self._pulls[where], self._signals[where] = 0, 0

    def index(self, pulls: Array, signals: Array) -> Floats:
        """Index of each option, [B, rows, K]; the agent pulls an option with the largest."""
        raise NotImplementedError

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        replicas, agents = np.arange(len(obs))[:, None], self.agents()
        index = self.index(self._pulls[replicas, agents], self._signals[replicas, agents])
        tied = index == index.max(-1, keepdims=True)
        option = np.argmax(tied * (1.0 + self.rng.random(index.shape)), -1)
        self._chosen = agents, self.read_messages(obs).own if self._delayed else option
        return self.plan(option, 1, 1)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        agents, option = self._chosen
        rows, columns = np.nonzero((option >= 0) & ~done[:, None])
        at = rows, agents[rows, columns], option[rows, columns]
        self._pulls[at] += 1
        self._signals[at] += reward[rows, columns].astype(np.int32)


class IsolatedUCB(Isolated):
    """UCB1 (Auer, Cesa-Bianchi & Fischer 2002)."""

    def index(self, pulls: Array, signals: Array) -> Floats:
        return ucb1_index(pulls, signals / np.maximum(pulls, 1), pulls.sum(-1, keepdims=True))


class IsolatedThompson(Isolated):
    """Thompson sampling from Beta posteriors with uniform priors (Thompson 1933)."""

    def index(self, pulls: Array, signals: Array) -> Floats:
        return self.rng.beta(1.0 + signals, 1.0 + pulls - signals)


class IsolatedEpsilonGreedy(Isolated):
    """Pull the option with the largest mean, or with probability `epsilon` a random one; untried options come first.

    Args:
        epsilon: probability of a uniformly random option, in [0, 1].
    """

    def __init__(self, epsilon: float = 0.1) -> None:
        self.epsilon = number("epsilon", epsilon, at_least=0, at_most=1)

    def index(self, pulls: Array, signals: Array) -> Floats:
        means = np.where(pulls > 0, signals / np.maximum(pulls, 1), 2.0)
        explores = self.rng.random(means.shape[:-1]) < self.epsilon
        return np.where(explores[..., None], self.rng.random(means.shape), means)


class GosInE(IsolatedUCB):
    """UCB1 on a small set of options per agent; recommendations replace the worse options.

    After Chawla, Sankararaman, Ganesh & Shakkottai 2020, "The gossiping insert-eliminate algorithm for multi-agent
    bandits". Agent i permanently owns the options i, i + N, ... (at least one), and has two more. Phase j ends at round
    ceil((1 + j)^(1 + growth)). Then a recommendation replaces the option of these two with fewer pulls in the phase,
    unless the agent already has the recommended option.

    The paper's agents ask one neighbour for its most pulled option. Here they draw an option from the unbiased shares
    of the received messages, so the noise of the channel affects the recommendation. All agents must have the same
    rounds, so the policy acts in `social_bandit_v0` only.

    Args:
        growth: exponent that lengthens the phases, in (0, 20].
    """

    def __init__(self, growth: float = 1.0) -> None:
        self.growth = number("growth", growth, above=0, at_most=20)

    def prepare(self, view: PublicView) -> None:
        self.require(issubclass(view.world, SocialBandit), "social_bandit, where agents share their rounds", view)
        super().prepare(view)
        (_, agents), options = self._shape, self._options
        self._sticky = np.arange(options) % agents == np.arange(agents)[:, None] % min(agents, options)
        two = (np.arange(agents)[:, None] + [1, 2]) % options
        self._extra: Array = np.broadcast_to(two, (*self._shape, 2)).copy()
        self._before = self._pulls.copy()
        self._two = two
        self._round, self._phase = np.zeros(self._shape[0], np.int64), np.ones(self._shape[0], np.int64)

    def restart(self, where: Array) -> None:
        super().restart(where)
        self._extra[where], self._before[where], self._round[where], self._phase[where] = self._two, 0, 0, 1

    def active(self) -> Bools:
        """The options of each agent, [B, N, K]."""
        options = np.arange(self._options)
        result: Bools = self._sticky | (self._extra[..., :1] == options) | (self._extra[..., 1:] == options)
        return result

    def index(self, pulls: Array, signals: Array) -> Floats:
        return np.where(self.active(), super().index(pulls, signals), -np.inf)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._round += 1
        ends = self._round >= np.ceil((1 + self._phase) ** (1 + self.growth))
        if ends.any():
            self._phase += ends
            self.exchange(obs, ends)
        return super().act(obs, mask)

    def exchange(self, obs: Array, ends: Bools) -> None:
        """End a phase in the replicas `ends` bool[B]: replace the less pulled of the two variable options by a
        recommendation."""
        read_messages = self.read_messages(obs)
        advice, known = sample(
            np.maximum(unbiased(read_messages.counts, read_messages.received, *self._distribution), 0.0), self.rng
        )
        news = ends[:, None] & known & ~np.take_along_axis(self.active(), advice[..., None], -1)[..., 0]
        worse = np.argmin(np.take_along_axis(self._pulls - self._before, self._extra, -1), -1)[..., None]
        kept = np.take_along_axis(self._extra, worse, -1)
        np.put_along_axis(self._extra, worse, np.where(news[..., None], advice[..., None], kept), -1)
        self._before[ends] = self._pulls[ends]
