"""Agents with memory for `gossip_bandit_v0`: one on its own, and one that listens to a single answer of each other
agent."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.policies.families.social import SocialPolicy
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism, NoPrivacy, Scheduled
from taciturn.validation import Bools, Floats, Ints

WORLDS = 512
AGENTS = 256


class Remembering(SocialPolicy):
    """Base of the policies that count each agent's pulls and signals in `gossip_bandit_v0`."""

    def prepare(self, view: PublicView) -> None:
        fits = issubclass(view.world, GossipBandit) and view.params.reward == "pull"
        self.require(fits, "gossip_bandit with reward='pull'", view)
        self._counted = np.zeros((*self._shape, self._options, 2), np.int32)  # pulls, and those with signal 1
        self._pulled: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def own(self) -> tuple[Ints, Ints]:
        """Signals 1 and 0 of each option, [B, rows, K], of the agents that act."""
        pulls, ones = np.moveaxis(self._counted[np.arange(self._shape[0])[:, None], self.agents()], -1, 0)
        return ones, pulls - ones

    def pull(self, option: Ints, adopts: tuple[Bools, Bools]) -> Array:
        """Actions: pull `option` [B, rows], and adopt it on signal 0 and on signal 1 where `adopts` says so."""
        self._pulled = self.agents(), option
        return self.plan(option, *adopts)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        agents, option = self._pulled
        replicas = np.arange(self._shape[0])[:, None]
        self._counted[replicas, agents, option, 0] += 1
        self._counted[replicas, agents, option, 1] += reward.astype(np.int32)
        if done.any():
            self.forget(done)

    def forget(self, over: Bools) -> None:
        """Clear the memory of the runs that are over, bool[B]: the next ones begin without a word."""
        self._counted[over] = 0


class HoldTheBest(Remembering):
    """Each agent is on its own: it pulls by Thompson sampling from Beta posteriors (Thompson 1933), and adopts an
    option only if its posterior mean is then the largest.

    `IsolatedThompson` adopts whatever it pulls, and so holds what it explores.
    """

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        ones, zeros = self.own()
        option = np.argmax(self.rng.beta(1.0 + ones, 1.0 + zeros), -1)
        return self.pull(option, holds(ones, zeros, option))


def holds(ones: Ints, zeros: Ints, option: Ints) -> tuple[Bools, Bools]:
    """Whether the posterior mean of `option` [...] is the largest after one more signal 0, and after a 1; of signals
    [..., K]."""
    mean = (1.0 + ones) / (2.0 + ones + zeros)
    chosen = option[..., None]
    others = np.where(np.arange(mean.shape[-1]) == chosen, -1.0, mean).max(-1)
    hits, misses = (np.take_along_axis(x, chosen, -1)[..., 0] for x in (ones, zeros))
    low, high = ((1.0 + hits + signal) / (3.0 + hits + misses) for signal in (0, 1))
    return low > others, high > others


class Tables(NamedTuple):
    """What a listener knows of possible worlds.

    Attributes:
        qualities: float64[WORLDS, K].
        shares: float64[WORLDS, K], of agents on their own that would hold each option at a moment.
    """

    qualities: Floats
    shares: Floats


@lru_cache(maxsize=32)
def tables(num_options: int, moment: float) -> Tables:
    """Quasi-random qualities, uniform on [0, 1]^K (a scrambled Sobol sequence), and by simulation what agents on their
    own (`HoldTheBest`) hold after `moment` expected ticks, beginning with a random option. The numbers are the same for
    everybody who computes them."""
    from scipy.stats import qmc

    qualities = qmc.Sobol(num_options, rng=0).random(WORLDS)
    rng, shape = np.random.default_rng(0), (WORLDS, AGENTS, num_options)
    ones, zeros = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    held, ticks = rng.integers(0, num_options, shape[:2]), rng.poisson(moment, shape[:2])
    for tick in range(ticks.max(initial=0)):
        option = np.argmax(rng.beta(1.0 + ones, 1.0 + zeros), -1)
        hit = rng.random(option.shape) < np.take_along_axis(qualities, option, -1)
        plays = tick < ticks
        adopts = np.where(hit, *reversed(holds(ones, zeros, option)))
        held = np.where(plays & adopts, option, held)
        pulled = (option[..., None] == np.arange(num_options)) & plays[..., None]
        ones += pulled & hit[..., None]
        zeros += pulled & ~hit[..., None]
    counts = (held[..., None] == np.arange(num_options)).sum(1)
    return Tables(qualities, (counts + 0.5) / (AGENTS + 1.0))


class Listener(Remembering):
    """Listens to one answer of each agent, drawn at a public moment and repeated to everybody (`Scheduled`).

    Until the moment, the answers are zeros, and agents are on their own. An agent weighs 512 possible worlds, theta,
    uniform on [0, 1]^K: by its own signals, and by the number c_k of heard answers in which the bit of option k is set.

        log w(theta) = sum_k ones_k log theta_k + zeros_k log(1 - theta_k) + c_k log r_k + (n - c_k) log(1 - r_k),
        r_k = q + (p - q) S_k(theta),

    where n answers arrived, a bit is read as 1 with probability p if it is 1 and q if it is 0, and S_k(theta) is the
    share of agents on their own that would hold option k at that moment in that world. (The bits of an agent's answer
    are taken as independent.) It pulls by Thompson sampling: the best option of a world drawn by these weights. It
    adopts an option only if its posterior mean is then the largest.

    Where replies are fresh, an agent listens to those of its first tick after the moment, and to no others.

    Args:
        epsilon: of the answer that `simulate(privacy="paper")` installs; None: an answer without noise.
        moment: when answers are drawn, in expected ticks of an agent's clock, > 0.
    """

    def __init__(self, epsilon: float | None = 3.0, moment: float = 3.0) -> None:
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, above=0)
        self.moment = number("moment", moment, above=0, at_most=1000)

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        """One answer at the moment: every tick of anyone asks everybody."""
        law = NoPrivacy() if self.epsilon is None else BitwiseRandomizedResponse(self.epsilon)
        at = max(1, round(self.moment * view.params.num_agents))
        return {"preference": Scheduled(law, at=at)}

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        fits = view.params.asks == "all" and view.params.initial_preferences in ("even", "random")
        self.require(fits, "gossip_bandit where all are asked and all begin with a preference", view)
        mechanism = view.channels["preference"].mechanism
        moment = mechanism.at / view.params.num_agents if isinstance(mechanism, Scheduled) else self.moment
        known, (p, q) = tables(self._options, moment), self._law
        reads = np.clip(q + (p - q) * known.shares, 1e-6, 1 - 1e-6)
        theta = np.clip(known.qualities, 1e-12, 1 - 1e-12)
        self._theta, self._logs = theta, (np.log(theta).T, np.log1p(-theta).T)
        self._answers = np.log(reads).T, np.log1p(-reads).T
        self._heard: Floats = np.zeros((*self._shape, self._options + 1))  # bits set, and number of answers
        self._from = 0.0 if isinstance(mechanism, Scheduled) else moment
        self._ticks = np.zeros(self._shape, np.int64)

    def listen(self, obs: Array) -> Floats:
        """The answers that the agents know, the first that they hear: counts, and their number, [B, rows, K + 1]."""
        at = np.arange(self._shape[0])[:, None], self.agents()
        heard = self.heard(obs)
        known = self._heard[at].any(-1) | ~heard.counts.any(-1) | (self._ticks[at] < self._from)
        answers = np.concatenate([heard.counts, heard.received[..., None]], -1)
        self._heard[at] = np.where(known[..., None], self._heard[at], answers)
        self._ticks[at] += 1
        return self._heard[at]

    def forget(self, over: Bools) -> None:
        super().forget(over)
        self._heard[over], self._ticks[over] = 0, 0

    def log_weights(self, ones: Ints, zeros: Ints, heard: Floats) -> Floats:
        """log w of each world, [B, rows, WORLDS], of signals [B, rows, K] and answers as in `listen`."""
        counts, received = heard[..., :-1], heard[..., -1:]
        found = ones.astype(np.float64) @ self._logs[0] + zeros.astype(np.float64) @ self._logs[1]
        return found + counts @ self._answers[0] + (received - counts) @ self._answers[1]

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        ones, zeros = self.own()
        logs = self.log_weights(ones, zeros, self.listen(obs))
        drawn = np.argmax(logs + self.rng.gumbel(size=logs.shape), -1)
        option = np.argmax(self._theta[drawn], -1)
        weights = np.exp(logs - logs.max(-1, keepdims=True))
        chance = self._theta[:, option].transpose(1, 2, 0)  # of signal 1, by world
        means = ((weights * like) @ self._theta for like in (1 - chance, chance))
        on_zero, on_one = (np.argmax(mean, -1) == option for mean in means)
        return self.pull(option, (on_zero, on_one))
