"""An agent for `gossip_bandit_v0` and `social_bandit_v0` that uses a single answer of each other agent."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from taciturn.channels.replies import distinct
from taciturn.envs.core import Array, PublicView, choice, number
from taciturn.envs.core.preferences import SILENT
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.designed.social import (
    Belief,
    Remembering,
    always,
    beta_belief,
    holds,
    improves,
    most_hopeful,
)
from taciturn.privacy.composition import ORDERS, rdp_epsilon
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism, NoPrivacy, Scheduled, Shuffled
from taciturn.privacy.shuffling import MOST_EPSILON
from taciturn.validation import Bools, Floats, Ints

WORLDS = 512
AGENTS = 256


class Tables(NamedTuple):
    """A listener's table of possible instances.

    Attributes:
        qualities: float64[WORLDS, K].
        shares: float64[WORLDS, K], shares of agents acting alone that would hold each option at a moment.
    """

    qualities: Floats
    shares: Floats


@lru_cache(maxsize=32)
def tables(
    num_options: int, moment: float, rounds: bool = False, optimism: float = 2.0, fading: float = 0.0, ends: float = 1.0
) -> Tables:
    """Quasi-random qualities, uniform on [0, 1]^K (a scrambled Sobol sequence), and the shares of simulated agents
    without messages (`HoldTheBest`) that hold each option after `moment`; they begin with a random option. The numbers
    are the same for every agent who computes them.

    Args:
        num_options: K.
        moment: in expected ticks of an agent's clock, or in rounds.
        rounds: whether agents act in rounds, as in `social_bandit_v0`.
        optimism, fading: parameters of `HoldTheBest`.
        ends: number of ticks or rounds at which optimism ends.
    """
    from scipy.stats import qmc

    qualities = qmc.Sobol(num_options, rng=0).random(WORLDS)
    rng, shape = np.random.default_rng(0), (WORLDS, AGENTS, num_options)
    ones, zeros = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    held = rng.integers(0, num_options, shape[:2])
    ticks = np.full(shape[:2], round(moment)) if rounds else rng.poisson(moment, shape[:2])
    options = np.arange(num_options)
    for tick in range(ticks.max(initial=0)):
        belief = beta_belief(ones, zeros)
        hope = optimism * max(1.0 - tick / ends, 0.0) ** fading
        option, plays = most_hopeful(belief, hope, rng), tick < ticks
        signals = rng.random(shape) < qualities[:, None]
        if rounds:
            seen, held = held[..., None] == options, option
        else:
            option = improves(belief, held, option)
            hit = np.take_along_axis(signals, option[..., None], -1)[..., 0]
            seen = (option[..., None] == options) & plays[..., None]
            held = np.where(plays & np.where(hit, *reversed(holds(ones, zeros, option))), option, held)
        ones += seen & signals
        zeros += seen & ~signals
    counts = (held[..., None] == options).sum(1)
    return Tables(qualities, (counts + 0.5) / (AGENTS + 1.0))


def one_answer(mechanism: Mechanism, moment: float, view: PublicView) -> dict[str, Mechanism]:
    """One answer by `mechanism`, drawn at a moment given in expected ticks of an agent's clock or in rounds.
    `Scheduled` counts messages instead: all agents send one before each round, or at each tick of any agent."""
    rounds = issubclass(view.world, SocialBandit)
    at = 1 + round(moment) if rounds else round(moment * view.params.num_agents)
    return {"preference": Scheduled(mechanism, at=max(1, at))}


@lru_cache(256)
def shuffled_level(total: float, delta: float, others: int) -> float:
    """The largest epsilon, within 0.1%, of an answer by `BitwiseRandomizedResponse` that costs at most `total` at
    `delta`, by Renyi divergence, if it is shuffled among the answers of `others` agents; at least `total`."""

    def fits(level: float) -> bool:
        loss = Shuffled(BitwiseRandomizedResponse(level)).summed_loss(others)
        return bool(rdp_epsilon(loss.rdp(ORDERS), delta)[0] <= total)

    low, high = total, total + MOST_EPSILON
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class Listener(Remembering):
    """Uses one answer of each agent, drawn at a public moment and repeated to every agent (`Scheduled`).

    Until the moment, the answers are zeros, and agents act alone (`HoldTheBest`). An agent weighs 512 possible
    instances, theta, uniform on [0, 1]^K, by its own signals and by the answers:

        log w(theta) = sum_k ones_k log theta_k + zeros_k log(1 - theta_k) + c n (h_k log r_k + (1 - h_k) log(1 - r_k)),
        r_k = q + (p - q) ((1 - d) S_k(theta) + d / K),

    where h_k is the share of the received copies with the bit of option k set, n is the number of independent answers
    that they count as (`distinct`: repeated copies of an answer are no new evidence), a bit is read as 1 with
    probability p if it is 1 and q if it is 0, and S_k(theta) is the share of agents acting alone that would hold option
    k at that moment under theta. (The bits of an agent's answer are assumed independent, and agents are assumed to have
    acted alone; c < 1 makes up for both.) From then on the means and spreads under these weights replace its own
    posterior's.

    If replies are fresh, each drawn when it is requested, an agent starts to use them at its first tick after the
    moment. Any number of them counts as at most one answer of each agent.

    Args:
        epsilon: level of the answer that `simulate(privacy="paper")` installs; None: an answer without noise.
        moment: when answers are drawn, in expected ticks of an agent's clock or in rounds, > 0.
        optimism: as in `HoldTheBest`.
        fading: as in `HoldTheBest`.
        doubt: d, the share of answers that may name any option, in [0, 1].
        temper: c, the weight of an answer relative to a full likelihood, in [0, 1].
        memory: the weight of fresh replies at the next tick, in [0, 1]; copies of an answer count as long as the run
            lasts.
        trust_model: the party that agents trust under a privacy budget: "local", none; "shuffle", a shuffler that hides
            the senders; every agent then answers every agent, and each answer may have more epsilon than the budget.
        delta: delta of the budget, in (0, 1), if answers are shuffled.
    """

    def __init__(
        self,
        epsilon: float | None = 3.0,
        moment: float = 3.0,
        optimism: float = 2.0,
        fading: float = 0.0,
        doubt: float = 0.0,
        temper: float = 1.0,
        memory: float = 0.5,
        trust_model: str = "local",
        delta: float = 1e-5,
    ) -> None:
        self.trust_model = choice("trust_model", trust_model, ("local", "shuffle"))
        self.delta = number("delta", delta, above=0, below=1)
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, above=0)
        self.moment = number("moment", moment, above=0, at_most=1000)
        self.optimism = number("optimism", optimism, at_least=0, at_most=1000)
        self.fading = number("fading", fading, at_least=0, at_most=1000)
        self.doubt = number("doubt", doubt, at_least=0, at_most=1)
        self.temper = number("temper", temper, at_least=0, at_most=1)
        self.memory = number("memory", memory, at_least=0, at_most=1)

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        """One answer at the moment."""
        return one_answer(
            NoPrivacy() if self.epsilon is None else BitwiseRandomizedResponse(self.epsilon), self.moment, view
        )

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Mechanism]:
        """The whole budget on the one answer."""
        if self.trust_model == "local":
            return one_answer(BitwiseRandomizedResponse(epsilon_budget), self.moment, view)
        others = max(view.params.num_agents - 1, 1)  # the reader of the answers knows its own
        level = shuffled_level(epsilon_budget, self.delta, others)
        return one_answer(Shuffled(BitwiseRandomizedResponse(level)), self.moment, view)

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        p = view.params
        fits = (self._rounds or p.asks == "all") and isinstance(p.initial_preferences, str)
        fits = fits and p.initial_preferences in ("even", "random")
        mechanism = view.channels["preference"].mechanism
        fits = fits and not (mechanism is not None and mechanism.takes_levels)
        worlds = "worlds of social learning where all are asked, all begin with a preference, and levels are fixed"
        self.require(fits, worlds, view)
        self._once, moment = isinstance(mechanism, Scheduled), self.moment
        if isinstance(mechanism, Scheduled):
            moment = mechanism.at - 1.0 if self._rounds else mechanism.at / p.num_agents
        known = tables(self._options, moment, self._rounds, self.optimism, self.fading, self._ends)
        shares, (p_bit, q_bit) = known.shares, self._distribution
        shares = (1 - self.doubt) * shares + self.doubt / self._options
        reads = np.clip(q_bit + (p_bit - q_bit) * shares, 1e-6, 1 - 1e-6)
        theta = np.clip(known.qualities, 1e-12, 1 - 1e-12)
        self._logs = np.concatenate([np.log(x) for x in (theta, 1 - theta, reads, 1 - reads)], 1).T
        products = theta[:, :, None] * theta[:, None]
        self._features = np.concatenate([np.ones((WORLDS, 1)), theta, products.reshape(WORLDS, -1)], 1)
        self._received: Floats = np.zeros((*self._shape, self._options + 2))  # bits set, copies, and requests
        self._from = 0.0 if self._once else moment

    def listen(self, counts: Floats, received: Floats) -> Floats:
        """Process the copies that agents now receive, bits [B, rows, K] and number [B, rows]; returns the numbers of
        independent answers, by bit and in total, that all copies so far count as, [B, rows, K + 1]."""
        at = self.at()
        before = self._received[at]
        hears = counts.any(-1) | (before[..., -1] > 0) if self._once else self._ticks[at] >= self._from
        new = np.concatenate([counts, received[..., None], (received > 0)[..., None]], -1)
        kept = before * (1.0 if self._once else self.memory)
        self._received[at] = np.where(hears[..., None], kept + new, before)
        bits, copies, requests = np.split(self._received[at], [self._options, self._options + 1], -1)
        total = self._shape[1]
        share = 1.0 / total if self._rounds else copies / (np.maximum(requests, 1e-300) * total)
        answers = self.temper * distinct(copies, total, share)
        return np.concatenate([bits / np.maximum(copies, 1e-300) * answers, answers], -1)

    def restart(self, where: Array) -> None:
        super().restart(where)
        self._received[where] = 0

    def log_weights(self, ones: Ints, zeros: Ints, answers: Floats) -> Floats:
        """log w of each instance, [B, rows, WORLDS], given signals [B, rows, K] and answers as `listen` returns them.
        In single precision, some choices would depend on the order of a sum, and thus on the processor."""
        counts, number = answers[..., :-1], answers[..., -1:]
        return np.asarray(np.concatenate([ones, zeros, counts, number - counts], -1) @ self._logs)

    def moments(self, logs: Floats) -> tuple[Floats, Floats]:
        """The means of theta_k, [B, rows, K], and of theta_k theta_l, [B, rows, K, K], given `log_weights`."""
        sums = np.exp(logs - logs.max(-1, keepdims=True)) @ self._features
        means = sums[..., 1:] / sums[..., :1]
        return means[..., : self._options], means[..., self._options :].reshape(*logs.shape[:2], self._options, -1)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        read_messages = self.read_messages(obs)
        held = read_messages.own
        ones, zeros = self.own()
        answers = self.listen(read_messages.counts, read_messages.received)
        listens, belief = answers[..., -1:] > 0, beta_belief(ones, zeros)
        products = np.zeros(())
        if listens.any():
            mean, products = self.moments(self.log_weights(ones, zeros, answers))
            spread = np.sqrt(np.maximum(np.diagonal(products, axis1=-2, axis2=-1) - mean**2, 0.0))
            belief = Belief(np.where(listens, mean, belief.mean), np.where(listens, spread, belief.spread))
        option = most_hopeful(belief, self.hope(), self.rng)
        if self._rounds:
            return self.pull(option, held, always(option))
        option = improves(belief, held, option)
        on_zero, on_one = holds(ones, zeros, option)
        if listens.any():
            with_one = np.take_along_axis(products, option[..., None, None], -2)[..., 0, :]  # times P(1)
            best = (np.argmax(x, -1) == option for x in (belief.mean - with_one, with_one))
            on_zero, on_one = (np.where(listens[..., 0], x, y) for x, y in zip(best, (on_zero, on_one), strict=True))
        return self.pull(option, held, (on_zero, on_one))


class OneAnswerOracle(Listener):
    """`Listener` that gets one answer of every agent when they are drawn, from the options held then.

    A reference for the value of one answer per agent, without random requests or losses. It is not ranked, because no
    agent receives all answers.

    Args:
        epsilon, moment, optimism, fading, doubt, temper, memory: as for `Listener`.
    """

    centralised = True

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        mechanism, total = view.channels["preference"].mechanism, self._shape[1]
        self._at = 1 + round(self.moment) if self._rounds else round(self.moment * total)
        if isinstance(mechanism, Scheduled):
            self._at = mechanism.at
        self._silent = self._rounds and view.params.without_preference == SILENT
        # All begin with a random option; agents that have not acted yet do not show it.
        self._first = self.rng.integers(0, self._options, self._shape)
        self._holds = self._first.copy()
        self._adopts = always(self._last.option)
        self._drawn = np.zeros((self._shape[0], self._options + 1))  # bits set, and answers
        self._waits = np.ones(self._shape[0], np.bool_)

    def listen(self, counts: Floats, received: Floats) -> Floats:
        """One answer of each agent from the moment on, whatever is received."""
        acted = self._ticks.min(1) if self._rounds else self._ticks.sum(1)
        due = (acted >= self._at - 1) & self._waits
        if due.any():
            p, q = self._distribution
            bits = self.rng.random((*self._shape, self._options)) < np.where(
                self._holds[..., None] == np.arange(self._options), p, q
            )
            message_levels = (self._holds >= 0) | (not self._silent)
            answers = np.concatenate([bits, np.ones((*self._shape, 1))], -1) * message_levels[..., None]
            self._drawn[due] = answers.sum(1)[due]
            self._waits &= ~due
        return np.broadcast_to(self.temper * self._drawn[:, None], (*counts.shape[:2], self._options + 1))

    def restart(self, where: Array) -> None:
        super().restart(where)
        self._drawn[where], self._waits[where], self._holds[where] = 0, True, self._first[where]

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._holds[self.at()] = self.read_messages(obs).own
        return super().act(obs, mask)

    def pull(self, option: Ints, held: Ints, adopts: tuple[Bools, Bools]) -> Array:
        self._adopts = adopts
        return super().pull(option, held, adopts)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        if not self._rounds:  # in this environment the reward is the signal
            adopted = np.where(reward == 0, *self._adopts)
            at = np.arange(len(self._holds))[:, None], self._last.agents
            held = np.where(adopted, self._last.option, self._last.held)
            self._holds[at] = np.where(done[:, None], self._holds[at], held)
        super().update(obs, action, reward, done)
