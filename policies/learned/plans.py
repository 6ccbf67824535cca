"""Public plans of federated bandits with few weights, optimised by evolution."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population, PublicView
from taciturn.envs.federated_bandit.model import noise_of_sums
from taciturn.policies.designed.arm_elimination import GrowingSchedule
from taciturn.policies.designed.federated_bandit import MOST_BATCHES, REWARD_VARIANCE, DividedPlan
from taciturn.policies.families.bandit_indices import kl_upper_bound
from taciturn.validation import Floats, Ints, vector

SEEN = 6
NEWTON = 4
"""Newton steps for the index, which need not be exact."""
Simulator = Callable[[Floats, int, int], tuple[Floats, int]]


def scaled(usual: float, exponent: Floats) -> Floats:
    """`usual` times e^exponent, within a factor of e^4."""
    found: Floats = usual * np.exp(np.clip(exponent, -4.0, 4.0))
    return found


class Index:
    """The index by which agents divide the arms one after another: the largest q with n kl(m, q) <= a log(1 + c L / n),
    where m and n are mean and pulls of an arm's Beta posterior, an earlier agent's choice of the arm adds the worth of
    its message to n, and L is the number of remaining pulls. Constants are a = 0.6 e^(u x), c = 0.3 e^(v x), for
    weights u and v and features x of an arm: 1, log n, log of the remaining share of the run, m, whether the arm leads,
    and its distance from the leading arm in standard deviations.

    Args:
        weights: u and v, [12].
        counts, hits: pulls and ones of each arm so far, [R, K].
        left: remaining pulls, [R, 1].
        total: pulls of a whole run.
        worth: number of pulls that a choice counts as.
    """

    def __init__(self, weights: Floats, counts: Floats, hits: Floats, left: Floats, total: float, worth: float) -> None:
        n = counts + 2.0
        mean = (1.0 + hits) / n
        spread = np.sqrt(mean * (1 - mean) / (n + 1))
        leads = np.argmax(mean - spread, -1)[:, None]
        m, s = (np.take_along_axis(x, leads, -1) for x in (mean, spread))
        apart = np.clip((mean - m) / np.sqrt(spread**2 + s**2), -4.0, 4.0) / 2
        over = np.broadcast_to(np.log(left / total + 0.02) / 2 + 0.3, mean.shape)
        own = np.arange(mean.shape[-1]) == leads
        x = np.stack([np.ones_like(mean), np.log(n) / 4 - 0.7, over, mean - 0.7, own, apart], -1)
        self._a, self._c = scaled(0.6, x @ weights[:SEEN]), scaled(0.3, x @ weights[SEEN : 2 * SEEN])
        self._n, self._mean, self._left, self._worth = n, mean, left, worth

    def of(self, rows: Any, taken: Floats) -> Floats:
        """The indices of the arms [rows, K, J] after `taken` [J] agents have chosen them."""
        n = self._n[rows, :, None] + taken * self._worth
        budget = self._a[rows, :, None] * np.log1p(self._c[rows, :, None] * self._left[rows, :, None] / n)
        return kl_upper_bound(n, np.broadcast_to(self._mean[rows, :, None], n.shape), budget, NEWTON)

    def divide(self, agents: int) -> Ints:
        """The arms of the agents, [R, M]."""
        ends = self.of(slice(None), np.array([0.0, agents - 1.0]))
        best = np.argmax(ends[..., 0], 1)
        others = np.where(np.arange(ends.shape[1]) == best[:, None], -np.inf, ends[..., 0]).max(1)
        found = np.repeat(best[:, None], agents, 1)
        # In the other rows all agents take the best arm: its index stays the largest after all choices but the last.
        rows = np.flatnonzero(ends[np.arange(len(best)), best, 1] <= others)
        if rows.size:
            index = self.of(rows, np.arange(float(agents))).reshape(rows.size, -1)
            found[rows] = np.argsort(-index, axis=-1, kind="stable")[:, :agents] // agents
        return found


class EvolvedPlan(DividedPlan):
    """`DividedPlan` with an index and batches given by 16 weights, which evolution optimises.

    `Index` divides the pulls among agents, given the averages. Without a mechanism, all agents upload after every pull,
    and divide the arms again each time at first, later after 2% of the run so far. An average of an arm then equals the
    mean of its reporters' means so far, and the pooled mean weighs the newest report of each agent by its pulls. With
    noise the estimate is `DividedPlan`'s, and weights w set the growth of batches: the first has e^w pulls, each is
    1 + 0.25 e^w times as long as the one before, at most 40 e^w pulls, and no batch begins that would end after a
    share 1 / (1 + e^(-2.2 - w)) of the run.

    Args:
        weights: weights of the index, and of the growth, the longest, the share and the first length, float64[16].
    """

    public_schedule = True

    def __init__(self, weights: Sequence[float] | Array | None = None) -> None:
        super().__init__()
        self.weights = self.first_weights() if weights is None else vector("weights", weights, size=2 * SEEN + 4)

    @staticmethod
    def first_weights(rng: np.random.Generator | None = None) -> Floats:
        """The weights that reproduce the constants of `DividedPlan`."""
        return np.zeros(2 * SEEN + 4)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._open = self._mechanism is None or self._mechanism.kind == "none"

    def lengths(self) -> list[int]:
        """Lengths of the batches; without a mechanism, one pull each at first, later 2% of the run so far."""
        if self._open:
            found = list[int]()
            while (time := sum(found)) < self._horizon:
                found.append(min(max(1, time // 50), self._horizon - time))
            return found
        growth, longest, until, first = np.clip(self.weights[2 * SEEN :], -2.5, 2.5).tolist()
        length, found, share = math.exp(first), list[int](), 1 / (1 + math.exp(-2.2 - until))
        while len(found) < MOST_BATCHES:
            whole = max(1, round(min(length, 40 * math.exp(longest))))
            if sum(found) + whole + (found or [whole])[0] * (self._stints - 1) > self._horizon * share:
                break
            found.append(whole)
            length = max(length * (1 + 0.25 * math.exp(growth)), length + 0.5)
        return found

    def _start(self, agents: int) -> None:
        if not self._open:
            super()._start(agents)
            return
        self._agents, shape = agents, (self._envs, agents, self._arms)
        self._turns, self._told, self._last = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2], np.int64)
        lengths = self.lengths()
        self._starts = dict(zip(np.cumsum([0, *lengths]).tolist(), lengths, strict=False))

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        if obs.shape[1] != self._agents:
            self._start(obs.shape[1])
        return self._after_each(obs) if self._open else super().act(obs, mask)

    def _after_each(self, obs: Array) -> Array:
        """The pulls of a slot, given all averages so far; agents divide the arms again when a batch begins."""
        parts = self._layout.slices
        time, average = (
            obs[:, 0, parts["time"]][:, 0].astype(np.int64),
            obs[:, 0, parts["broadcast"]].astype(np.float64),
        )
        begins = (time == 0)[:, None, None]
        reported = (self._last[..., None] == np.arange(self._arms)) & ~begins
        self._turns = np.where(begins, 0.0, self._turns + reported)
        self._told = np.where(reported, average[:, None], np.where(begins, 0.0, self._told))
        for now in np.unique(time).tolist():
            rows = np.flatnonzero(time == now)
            if now == 0:
                self._last[rows] = np.arange(self._agents) % self._arms
            elif now in self._starts:
                counts, hits = self._turns[rows].sum(1), (self._turns[rows] * self._told[rows]).sum(1)
                left = np.full((rows.size, 1), (self._horizon - now) * self._agents)
                self._last[rows] = self._divide(counts, hits, left, float(self._starts[now]))
        return self._last + self._arms

    def _divide(self, counts: Floats, hits: Floats, left: Array, worth: Floats | float) -> Ints:
        total = float(self._horizon * self._agents)
        return Index(self.weights, counts, hits, np.asarray(left, np.float64), total, float(worth)).divide(self._agents)

    def simulator(self, world: Population[Any]) -> Simulator | None:
        """A simulator that plays whole batches in one call, and counts every report separately, for environments that
        broadcast averages; after the batches all agents pull the best arm. None if instances are not independent
        uniform means."""
        p: Any = world.params
        if not isinstance(p.qualities, str) or p.qualities != "uniform" or p.num_agents < p.arms:
            return None
        world.reset(seed=0)
        plan = EvolvedPlan()
        plan.reset(world, np.random.default_rng(0))
        plan._agents, plan._stints = p.num_agents, 1
        return plan._simulated

    def _simulated(self, weights: Floats, runs: int, seed: int) -> tuple[Floats, int]:
        """The regret of an agent in `runs` runs, and the total number of pulls."""
        rng, self.weights, agents, time = np.random.default_rng(seed), weights, self._agents, 0
        means = rng.random((runs, self._arms))
        gaps = means.max(1, keepdims=True) - means
        weight, sums, regret = np.zeros(means.shape), np.zeros(means.shape), np.zeros(runs)
        for length in self.lengths():
            noise = float(noise_of_sums(self._mechanism, np.array(length)))
            each = length * REWARD_VARIANCE / (REWARD_VARIANCE + noise / length)  # pulls that a report counts as
            if time == 0:
                arms = np.broadcast_to(np.arange(agents) % self._arms, (runs, agents))
            else:
                left = np.full((runs, 1), float((self._horizon - time) * agents))
                arms = self._divide(weight, np.clip(sums, 0.0, weight), left, each)
            pulling = (arms[..., None] == np.arange(self._arms)).sum(1)
            regret += length * (pulling * gaps).sum(1) / agents
            told = rng.binomial(pulling * length, means) / length
            if noise:
                told = told + rng.normal(0.0, 1.0, means.shape) * np.sqrt(pulling * noise) / length
            weight, sums, time = weight + pulling * each, sums + each * told, time + length
        best = np.argmax((1 + np.clip(sums, 0.0, weight)) / (2 + weight), 1)
        regret += (self._horizon - time) * gaps[np.arange(runs), best]
        return regret, runs * self._horizon * agents


class EvolvedSchedule(GrowingSchedule):
    """`GrowingSchedule` with growth, a, c, first pulls and threshold given by 12 weights, which evolution optimises.

    With features x of the state (1, log of the pulls so far, log of the active arms, the best mean) the growth is 1 +
    0.15 e^(w x) and a is 0.6 e^(u x); c is 0.3 e^r, the first pulls are 2 e^s, and the threshold is multiplied by
    e^(o (1 - time left) + d), where d applies only with two active arms.

    Args:
        weights: w, u, r, s, o, d, float64[12].
    """

    public_schedule = True

    def __init__(self, weights: Sequence[float] | Array | None = None) -> None:
        super().__init__()
        self.weights = self.first_weights() if weights is None else vector("weights", weights, size=12)

    @staticmethod
    def first_weights(rng: np.random.Generator | None = None) -> Floats:
        """The weights that reproduce the constants of `GrowingSchedule`."""
        return np.zeros(12)

    def simulator(self, world: Population[Any]) -> None:
        """None: candidates play in practice environments."""

    def constants(self, active: Ints, best: Floats, time_left: Floats) -> tuple[Any, Any, Any, Any, Any]:
        w = self.weights
        x = np.stack([np.ones(len(best)), np.log1p(self._total) / 5, np.log(active) / 2.3, best - 0.7], 1)
        first = max(1.0, round(float(scaled(2.0, w[9]))))
        factor = np.exp(np.clip(w[10] * (1 - time_left) + w[11] * (active == 2), -2.0, 2.0))
        return first, 1 + scaled(0.15, x @ w[:4]), scaled(0.6, x @ w[4:8]), scaled(0.3, w[8]), factor
