"""Agents with memory for `gossip_bandit_v0` and `social_bandit_v0`, independent or centralised."""

from typing import NamedTuple

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.families.social import SocialPolicy
from taciturn.validation import Bools, Floats, Ints

TIES = 1e-9
"""Indices that differ by less than this count as ties, broken at random."""


class Belief(NamedTuple):
    """The beliefs of agents [...] about the qualities of K options.

    Attributes:
        mean: posterior means, float64[..., K].
        spread: posterior standard deviations, float64[..., K].
    """

    mean: Floats
    spread: Floats


def beta_belief(ones: Array, zeros: Array) -> Belief:
    """Beta posteriors with uniform priors after signals [..., K]: the mean m = (1 + ones) / (2 + n) and the variance
    m (1 - m) / (3 + n), where n = ones + zeros."""
    n = ones + zeros
    mean = (1.0 + ones) / (2.0 + n)
    return Belief(mean, np.sqrt(mean * (1 - mean) / (3.0 + n)))


def holds(ones: Array, zeros: Array, option: Ints) -> tuple[Bools, Bools]:
    """Whether the posterior mean of `option` [...] is the largest after one more signal 0, and after a 1, given signals
    [..., K]."""
    mean = (1.0 + ones) / (2.0 + ones + zeros)
    chosen = option[..., None]
    others = np.where(np.arange(mean.shape[-1]) == chosen, -1.0, mean).max(-1)
    hits, misses = (np.take_along_axis(x, chosen, -1)[..., 0] for x in (ones, zeros))
    low, high = ((1.0 + hits + signal) / (3.0 + hits + misses) for signal in (0, 1))
    return low > others, high > others


def most_hopeful(belief: Belief, optimism: Array | float, rng: np.random.Generator) -> Ints:
    """The option with the largest mean + optimism * spread, [...], ties broken at random; `optimism` is broadcast to
    the means [..., K]."""
    index = belief.mean + optimism * belief.spread
    return np.argmax(index + TIES * rng.random(index.shape), -1)


def improves(belief: Belief, held: Ints, option: Ints) -> Ints:
    """The option with the largest mean if the agent holds a worse one, or none (-1 in `held`); otherwise `option`
    [...]."""
    padded = np.concatenate([belief.mean, np.full((*held.shape, 1), -1.0)], -1)
    now = np.take_along_axis(padded, held[..., None], -1)[..., 0]
    return np.where(now < belief.mean.max(-1) - TIES, np.argmax(belief.mean, -1), option)


class Pulled(NamedTuple):
    """The last actions of the agents that acted, [B, rows]."""

    agents: Ints
    held: Ints  # the option held before, -1 for none
    option: Ints


class Remembering(SocialPolicy):
    """Base of the policies that count each agent's signals, pull the option with the highest index, and hold the best.

    The signal of a pull is the reward in `gossip_bandit_v0`. In `social_bandit_v0` the reward is the signal of the
    option held when the round began. There an agent adopts the pulled option on either signal, because a refusal would
    leave it without an option for a round. It learns the option's quality from the rewards that follow.
    """

    optimism: float
    fading: float

    def prepare(self, view: PublicView) -> None:
        self._rounds = issubclass(view.world, SocialBandit)
        fits = self._rounds or (issubclass(view.world, GossipBandit) and view.params.reward == "pull")
        self.require(fits, "social_bandit, and in gossip_bandit with reward='pull'", view)
        self._ends = float(view.horizon) * (1.0 if self._rounds else float(view.params.rate))
        self._counted = np.zeros((*self._shape, self._options, 2), np.int32)  # signals 1 and 0
        self._ticks = np.zeros(self._shape, np.int64)
        agents = self.agents()
        self._last = Pulled(agents, np.full(agents.shape, -1), np.full(agents.shape, -1))

    def at(self) -> tuple[Ints, Ints]:
        """Index of the acting agents, for arrays [B, N, ...]."""
        return np.arange(self._shape[0])[:, None], self.agents()

    def own(self) -> tuple[Ints, Ints]:
        """Signals 1 and 0 of each option, [B, rows, K], for the acting agents."""
        ones, zeros = np.moveaxis(self._counted[self.at()], -1, 0)
        return ones, zeros

    def _count(self, option: Ints, failed: Bools) -> None:
        """Count a signal of `option` [B, rows] (-1: none) for each agent that acted last."""
        at = np.nonzero(option >= 0)
        self._counted[at[0], self._last.agents[at], option[at], failed[at].astype(np.int64)] += 1

    def hope(self) -> Floats:
        """The factor of the spread, a (1 - t/T)^f, [B, rows, 1], at tick or round t of T expected ones."""
        left = np.maximum(1.0 - self._ticks[self.at()] / self._ends, 0.0)
        return (self.optimism * left**self.fading)[..., None]

    def pull(self, option: Ints, held: Ints, adopts: tuple[Bools, Bools]) -> Array:
        """Actions: pull `option` [B, rows], and adopt it on signal 0 and on signal 1 where `adopts` says so."""
        self._last = Pulled(self.agents(), held, option)
        self._ticks[self.at()] += 1
        return self.plan(option, *adopts)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        option = self._last.held if self._rounds else self._last.option
        self._count(np.where(done[:, None], -1, option), reward == 0)

    def restart(self, where: Array) -> None:
        self._counted[where], self._ticks[where] = 0, 0


def always(option: Ints) -> tuple[Bools, Bools]:
    """The plan in `social_bandit_v0`: adopt on either signal."""
    return np.ones(option.shape, np.bool_), np.ones(option.shape, np.bool_)


class HoldTheBest(Remembering):
    """Each agent acts alone, and pulls the option with the largest index.

    The index is

        m_k + a (1 - t/T)^f s_k,

    where m_k and s_k are the mean and the standard deviation of its Beta posterior, at tick or round t of T expected
    ones (an upper bound as in Bayes-UCB, Kaufmann, Cappe & Garivier 2012, in a normal approximation).

    In `gossip_bandit_v0` an agent adopts an option only if that option's posterior mean is then the largest; if its
    current option does not have the largest mean, it pulls the best option to adopt it. In `social_bandit_v0` it adopts
    every option that it pulls, as `IsolatedThompson` does in both.

    Args:
        optimism: a, >= 0.
        fading: f, >= 0; 0: optimism lasts.
    """

    def __init__(self, optimism: float = 2.0, fading: float = 0.0) -> None:
        self.optimism = number("optimism", optimism, at_least=0, at_most=1000)
        self.fading = number("fading", fading, at_least=0, at_most=1000)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        held = self.read_messages(obs).own
        ones, zeros = self.known(held)
        belief = beta_belief(ones, zeros)
        option = self.choose(belief, ones + zeros)
        if self._rounds:
            return self.pull(option, held, always(option))
        option = improves(belief, held, option)
        return self.pull(option, held, holds(ones, zeros, option))

    def known(self, held: Ints) -> tuple[Ints, Ints]:
        """Signals 1 and 0 of each option, [B, rows, K], that the agents use."""
        return self.own()

    def choose(self, belief: Belief, pulls: Ints) -> Ints:
        """The options to pull, [B, rows], if there is no better one to adopt immediately, given the known `pulls`
        [B, rows, K]."""
        return most_hopeful(belief, self.hope(), self.rng)


class CentralisedHoldTheBest(HoldTheBest):
    """Centralised `HoldTheBest`: all agents use the signals of all, immediately and without privacy.

    In `social_bandit_v0`, where agents act simultaneously, they choose one after another. The spread of an option
    counts the others' pulls of it in this round, and the agents that hold it, since their rewards are still to come:

        s_k^2 = m_k (1 - m_k) / (3 + n_k + pending_k)

    (batches after Desautels, Krause & Burdick 2014). With `signals="shared"` a signal of a round is counted once, for
    any number of observers, holders count as one, and pending_k is infinite after one pull. A reference for full
    information. It is centralised, so it has no rank.

    Args:
        optimism: a, >= 0.
        fading: f, >= 0; 0: optimism lasts.
    """

    centralised = True

    def __init__(self, optimism: float = 4.0, fading: float = 0.0) -> None:
        super().__init__(optimism, fading)

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        self._same = self._rounds and view.params.signals == "shared"
        self._seen = np.zeros((self._shape[0], self._options), np.bool_)  # signals already counted in this round

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._seen[:] = False
        super().update(obs, action, reward, done)

    def _count(self, option: Ints, failed: Bools) -> None:
        if not self._same:
            super()._count(option, failed)
            return
        replica, row = np.nonzero(option >= 0)
        seen = np.zeros((*self._seen.shape, 2), np.bool_)
        seen[replica, option[replica, row], failed[replica, row].astype(np.int64)] = True
        self._counted[:, 0] += seen & ~self._seen[..., None]
        self._seen |= seen.any(-1)

    def known(self, held: Ints) -> tuple[Ints, Ints]:
        holders = (held[..., None] == np.arange(self._options)).sum(1) * self._rounds
        self._waiting = np.minimum(holders, 1) if self._same else holders
        ones, zeros = np.moveaxis(self._counted.sum(1, keepdims=True), -1, 0)
        shape = (*held.shape, self._options)
        return np.broadcast_to(ones, shape), np.broadcast_to(zeros, shape)

    def choose(self, belief: Belief, pulls: Ints) -> Ints:
        chosen, pending = np.empty(pulls.shape[:2], np.int64), self._waiting.astype(np.float64)
        hope, replicas = self.hope(), np.arange(len(pulls))
        for row in range(pulls.shape[1]):
            variance = belief.spread[:, row] ** 2 * (3.0 + pulls[:, row]) / (3.0 + pulls[:, row] + pending)
            one = Belief(belief.mean[:, row], np.sqrt(variance))
            chosen[:, row] = most_hopeful(one, hope[:, row], self.rng)
            pending[replicas, chosen[:, row]] += np.inf if self._same else 1
        return chosen
