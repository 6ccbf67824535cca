"""The network inputs for social learning: each agent's knowledge of each option, in one compiled pass over all
agents."""

from typing import Any, NamedTuple

import gymnasium
import numpy as np

from taciturn.compiling.compiled import Functions
from taciturn.envs.core import Array, PublicView
from taciturn.envs.core.preferences import split_plan
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.envs.social_bandit.world import SocialBandit
from taciturn.policies.learned.networks import Plan
from taciturn.privacy.mechanisms import Memoized, Scheduled
from taciturn.validation import Floats, Ints

OPTION = (
    "mean", "spread", "behind", "signals", "share", "running", "heard", "running behind", "own", "noise",
)  # fmt: skip
COMMON = "time", "turns", "left", "holds", "answers"
FADES = 0.6
"""The decay of a running mean of messages per turn."""
FUNCTIONS = Functions()  # of this file; their work is a number of decisions


class Numbers(NamedTuple):
    """The constants of a run.

    Attributes:
        counts, received, own: where these fields of the observation begin.
        scale: the divisor of numbers of messages in observations.
        p, q: the probabilities that a bit is read as 1 if it is 1 (p) and if it is 0 (q).
        others: the number of agents, N.
        ends: expected number of turns of an agent.
        rounds: whether all act simultaneously, and an agent infers the signal of its pull from its next preference.
        repeated: whether agents repeat an answer, so copies are no new evidence.
        waits: whether messages before the answers are zeros.
    """

    counts: int
    received: int
    own: int
    scale: float
    p: float
    q: float
    others: float
    ends: float
    rounds: bool
    repeated: bool
    waits: bool


class Memory(NamedTuple):
    """The agents' memory, [B, N, ...]; see `taciturn.wrappers.remembering.SocialMemory`."""

    signals: Ints  # [B, N, K, 2], signals 0 and 1 of each option
    bits: Floats  # [B, N, K], summed over all copies received
    copies: Floats  # [B, N, 2], and the number of requests with any
    running: Floats  # [B, N, K]
    turns: Ints
    held: Ints  # -1: none
    asked: Ints  # the option with a signal that shows in the agent's next preference
    wanted: Ints  # the signal on which it is adopted


class Given(NamedTuple):
    """The arguments of the compiled functions."""

    n: Numbers
    m: Memory
    agents: Ints  # [B, rows]
    obs: Array  # float32[B, rows, D]
    option: Array  # float32[B, rows, K, F], to be filled
    common: Array  # float32[B, rows, G], to be filled


class Learned(NamedTuple):
    """The arguments after the turn."""

    n: Numbers
    m: Memory
    agents: Ints  # [B, rows]
    pulled: Ints  # [B, rows], K or more: none
    on_zero: Ints
    on_one: Ints
    reward: Floats
    live: Ints  # [B]


def see(g: Any) -> None:
    """Process the observations, and fill the features."""
    n, m, options = g.n, g.m, g.option.shape[2]
    for b in range(g.agents.shape[0]):
        for r in range(g.agents.shape[1]):
            a = g.agents[b, r]
            holds, any_bit, best_mean, best_share = -1, False, 0.0, -1e9
            for k in range(options):
                if g.obs[b, r, n.own + k] > 0:
                    holds = k
                if round(g.obs[b, r, n.counts + k] * n.scale) > 0:
                    any_bit = True
            if m.asked[b, a] >= 0:
                told = m.wanted[b, a] if holds == m.asked[b, a] else 1 - m.wanted[b, a]
                m.signals[b, a, m.asked[b, a], told] += 1
                m.asked[b, a] = -1
            m.held[b, a] = holds
            received = float(round(g.obs[b, r, n.received] * n.scale))
            if any_bit or m.copies[b, a, 1] > 0 if n.waits else received > 0:
                for k in range(options):
                    m.bits[b, a, k] += round(g.obs[b, r, n.counts + k] * n.scale)
                m.copies[b, a, 0] += received
                m.copies[b, a, 1] += received > 0
            copies, answers = m.copies[b, a, 0], m.copies[b, a, 0]
            if n.repeated and copies > 0:
                part = 1 / n.others if n.rounds else min(1.0, copies / (m.copies[b, a, 1] * n.others))
                answers = 1 / (1 / n.others + (1 - part) / copies)
            turns = m.turns[b, a]
            for k in range(options):
                ones, zeros = m.signals[b, a, k, 1], m.signals[b, a, k, 0]
                mean = (1 + ones) / (2.0 + ones + zeros)
                share, estimate, noise = 0.0, 0.0, 0.0
                if received > 0:
                    share = (round(g.obs[b, r, n.counts + k] * n.scale) / received - n.q) / (n.p - n.q)
                if copies > 0:
                    estimate = (m.bits[b, a, k] / copies - n.q) / (n.p - n.q)
                    inside = min(max(estimate, 0.0), 1.0)
                    noise = inside * n.p * (1 - n.p) + (1 - inside) * n.q * (1 - n.q)
                    noise = noise / ((n.p - n.q) * (n.p - n.q) * answers)
                m.running[b, a, k] = 0.6 * m.running[b, a, k] + 0.4 * share if turns > 0 else share
                best_mean, best_share = max(best_mean, mean), max(best_share, m.running[b, a, k])
                g.option[b, r, k, 0] = mean
                g.option[b, r, k, 1] = (mean * (1 - mean) / (3.0 + ones + zeros)) ** 0.5
                g.option[b, r, k, 3] = np.log1p(float(ones + zeros)) / 2
                g.option[b, r, k, 4] = share
                g.option[b, r, k, 5] = m.running[b, a, k]
                g.option[b, r, k, 6] = estimate
                g.option[b, r, k, 8] = holds == k
                g.option[b, r, k, 9] = noise**0.5
            for k in range(options):
                g.option[b, r, k, 2] = g.option[b, r, k, 0] - best_mean
                g.option[b, r, k, 7] = m.running[b, a, k] - best_share
            g.common[b, r, 0] = turns / max(n.ends, 1.0)
            g.common[b, r, 1] = np.log1p(float(turns)) / 3
            g.common[b, r, 2] = np.log1p(max(n.ends - turns, 0.0)) / 3
            g.common[b, r, 3] = holds >= 0
            g.common[b, r, 4] = min(answers / n.others, 2.0)


def learn(g: Any) -> None:
    """Process the plans and the rewards of a turn."""
    n, m, options = g.n, g.m, g.m.signals.shape[2]
    for b in range(g.agents.shape[0]):
        for r in range(g.agents.shape[1]):
            if g.live[b] == 0:
                continue
            a, pulled = g.agents[b, r], g.pulled[b, r]
            rewarded = m.held[b, a] if n.rounds else pulled
            if 0 <= rewarded < options:
                m.signals[b, a, rewarded, 1 if g.reward[b, r] > 0 else 0] += 1
            if n.rounds and pulled < options and g.on_zero[b, r] != g.on_one[b, r] and pulled != rewarded:
                m.asked[b, a], m.wanted[b, a] = pulled, g.on_one[b, r]
            m.turns[b, a] += 1


def played(function: Any, given: Any) -> None:
    """Call a function of this file."""
    FUNCTIONS.play(function, given, given.agents.size)


class SocialFeatures:
    """The agents' memory of a run of `gossip_bandit_v0` or `social_bandit_v0`, as inputs of a network.

    For each option (`OPTION`): mean and standard deviation of the posterior given the agent's own signals, the gap of
    the mean to the largest, log(1 + signals), the debiased share of messages that name it (now, as a running mean, and
    over all messages so far), the gap of the running mean to the largest, whether the agent holds it, and the standard
    deviation of the noise. In common (`COMMON`): the share of the turns done, log(1 + turns), log(1 + turns left),
    whether it holds any option, and independent answers received per agent.
    """

    size, common = len(OPTION), len(COMMON)
    scaled = True

    def __init__(self, view: PublicView, role: str) -> None:
        known, mechanism = view.roles[role], view.channels["preference"].mechanism
        self._flat = isinstance(known.action_space, gymnasium.spaces.Discrete)
        self._options = known.layout.fields["own"][0]
        self.head = Plan(self._flat)
        rounds = issubclass(view.world, SocialBandit)
        parts, (p, q) = known.layout.slices, view.reply_distribution
        self._numbers = Numbers(
            parts["counts"].start,
            parts["received"].start,
            parts["own"].start,
            float(view.reply_scale),
            float(p),
            float(q),
            float(view.params.num_agents),
            float(view.horizon) * (1.0 if rounds else float(view.params.rate)),
            rounds,
            isinstance(mechanism, Scheduled | Memoized),
            isinstance(mechanism, Scheduled),
        )
        shape, k = (view.num_envs, known.num_agents), self._options
        whole = [np.zeros(shape, np.int64) for _ in range(4)]
        self._memory = Memory(
            np.zeros((*shape, k, 2), np.int64),
            np.zeros((*shape, k)),
            np.zeros((*shape, 2)),
            np.zeros((*shape, k)),
            *whole,
        )
        self._memory.asked[:] = -1

    def see(self, obs: Array, agents: Ints) -> tuple[Array, Array]:
        """The features [R, K, F] and [R, G] after observations [B, rows, D] of `agents` [B, rows]."""
        option = np.empty((*agents.shape, self._options, self.size), np.float32)
        common = np.empty((*agents.shape, self.common), np.float32)
        whole = np.ascontiguousarray(agents, np.int64)
        played(see, Given(self._numbers, self._memory, whole, np.ascontiguousarray(obs, np.float32), option, common))
        return option.reshape(-1, self._options, self.size), common.reshape(-1, self.common)

    def learn(self, action: Array, reward: Array, agents: Ints, done: Array) -> None:
        """Process a turn [B, rows, ...] of the replicas that are not `done` bool[B]."""
        pulled, zero, one = (np.ascontiguousarray(part, np.int64) for part in split_plan(action, self._flat))
        reward, whole = np.ascontiguousarray(reward, np.float64), np.ascontiguousarray(agents, np.int64)
        played(learn, Learned(self._numbers, self._memory, whole, pulled, zero, one, reward, (~done).astype(np.int64)))

    def forget(self, where: Array) -> None:
        """Clear the memory of the replicas `where` bool[B]."""
        for values in self._memory:
            values[where] = 0
        self._memory.asked[where] = -1


def remembers(view: PublicView) -> bool:
    """Whether `SocialFeatures` support an environment."""
    rounds = issubclass(view.world, SocialBandit)
    return rounds or (issubclass(view.world, GossipBandit) and view.params.reward == "pull")
