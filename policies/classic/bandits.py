"""Single-agent baselines for `federated_bandit_v0`: every agent runs one independently, with one arm per slot.

Ties go to the first arm. Arrays are [B, M, K]. A replica with no pulls so far is treated as a new run.
"""

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.federated_bandit.arm_elimination import ArmElimination
from taciturn.envs.federated_bandit.fast import AgentKnowledge, EpochPlan
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.policies.base import Policy
from taciturn.policies.families.bandit_indices import (
    elimination_radius,
    horizon_budget,
    kl_ucb_budget,
    kl_upper_bound,
    moss_index,
    pinsker_bound,
    ucb1_index,
    ucb1_narrow,
    ucb1_width,
)
from taciturn.validation import Bools, Floats, Ints


class ArmPolicy(Policy):
    """Base of policies with a `choose` that picks an arm from an agent's own counts and means; they never upload."""

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, FederatedBandit) and not issubclass(view.world, ArmElimination)
        self.require(fits, "federated_bandit", view)
        self._layout = view.roles[self.role].layout
        self.start((view.num_envs, view.params.num_agents, view.params.arms), view.params.horizon)

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        """Prepare for `shape` (B, M, K) and T slots."""
        self._shape, self._horizon = shape, horizon

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        part = self._layout.slices
        counts = obs[..., part["counts"]].astype(np.float64)
        # Observed means have single precision; since rewards are 0 or 1, rounding their sum makes them exact.
        return self.choose(counts, np.rint(counts * obs[..., part["means"]]) / np.maximum(counts, 1))

    def epochs(self, view: PublicView) -> EpochPlan:
        """The fast form of these policies, which calls `plan`."""
        return EpochPlan(self.plan)

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """The choice of `act`, in full precision: the arms of one slot, and no uploads."""
        return self.choose(knowledge.counts, knowledge.means), np.zeros(room.shape, np.bool_)

    def choose(self, counts: Array, means: Floats) -> Ints:
        """Arms int64[B, M] for each agent's own pulls and sample means, [B, M, K]."""
        raise NotImplementedError


class UCB1(ArmPolicy):
    """The arm with the highest upper confidence bound (Auer, Cesa-Bianchi & Fischer 2002)."""

    fast = ArmPolicy.epochs
    public_schedule = True

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._row = np.arange(shape[0] * shape[1]).reshape(shape[:2]) * shape[2]
        self._time = np.full(shape[0], -2)  # time of the last plan; it pulled `_pulled`
        self._pulled = self._row
        self._means = self._narrow = self._index = np.zeros(shape)

    def choose(self, counts: Array, means: Floats) -> Ints:
        return ucb1_index(counts, means, counts.sum(-1, keepdims=True)).argmax(-1)

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """The same as `choose`, bit for bit, with cached means and 1 / sqrt(n), updated only for the arms last
        pulled."""
        time, counts, sums = knowledge.time[:, 0], knowledge.counts, knowledge.sums
        if (time == self._time + 1).all():
            n = counts.reshape(-1)[self._pulled]
            self._means.reshape(-1)[self._pulled] = sums.reshape(-1)[self._pulled] / n
            self._narrow.reshape(-1)[self._pulled] = 1.0 / np.sqrt(n)
        else:
            self._means, self._narrow, self._index = knowledge.means, ucb1_narrow(counts), np.empty(counts.shape)
        np.multiply(self._narrow, ucb1_width(time)[:, None, None], out=self._index)
        self._index += self._means
        arms = self._index.argmax(-1)
        self._time, self._pulled = time.copy(), self._row + arms
        return arms, np.zeros(room.shape, np.bool_)


class KLUCB(ArmPolicy):
    """The upper confidence bound for Bernoulli rewards (Garivier & Cappe 2011).

    Args:
        c: weight of ln ln t; the paper proves its bound for 3 and recommends 0.
    """

    fast = ArmPolicy.epochs
    public_schedule = True

    def __init__(self, c: float = 0.0) -> None:
        self.c = number("c", c, at_least=0)

    def choose(self, counts: Array, means: Floats) -> Ints:
        return kl_ucb_choice(counts, means, self.c)


def kl_ucb_choice(counts: Array, means: Floats, c: float = 0.0) -> Ints:
    """The arms with the highest KL-UCB index, int64[...], for counts and means [..., K]."""
    return highest_bound(counts, means, kl_ucb_budget(counts.sum(-1, keepdims=True), c))


def highest_bound(counts: Array, means: Floats, budget: Floats) -> Ints:
    """The arms with the highest `kl_upper_bound`, int64[...], for counts and means [..., K] and a `budget` that
    broadcasts with them.

    Pinsker's inequality bounds each index from above. The exact index is computed only for arms with a Pinsker bound of
    at least the exact index of the arm with the highest Pinsker bound, since no other arm can have the highest index.
    """
    budget = np.broadcast_to(budget, counts.shape)
    above = pinsker_bound(counts, means, budget)
    top = above.argmax(-1)[..., None]
    at_top: list[Array] = [np.take_along_axis(values, top, -1) for values in (counts, means, budget)]
    some = above >= kl_upper_bound(at_top[0], at_top[1], at_top[2])
    index = np.full(counts.shape, -np.inf)
    index[some] = kl_upper_bound(counts[some], means[some], budget[some])
    return index.argmax(-1)


class HorizonKLUCB(ArmPolicy):
    """KL-UCB for a known horizon T: the time left, divided by pulls, in place of the time so far.

    The index of an arm with n pulls and s rewards of 1 is the largest q with

        (n + 2) kl((1 + s) / (n + 2), q) <= a ln(1 + c left / (n + 2)),

    where `left` slots remain. Its mean is the posterior mean under a uniform prior, so an arm has an index before its
    first pull. With the sample mean, and a ln(T / n) for the right side, it is KL-UCB-H+ (Lai 1987; Kaufmann 2018, "On
    Bayesian index policies for sequential resource allocation"), which approximates the Gittins index of a finite
    horizon. Exploration stops towards the end. `a` and `c` were tuned on training streams (5 arms, 1000 slots).

    Args:
        a, c: constants of the index, > 0.
    """

    fast = ArmPolicy.epochs
    public_schedule = True

    def __init__(self, a: float = 0.5, c: float = 0.5) -> None:
        self.a, self.c = number("a", a, above=0), number("c", c, above=0)

    def choose(self, counts: Array, means: Floats) -> Ints:
        left = self._horizon - counts.sum(-1, keepdims=True)
        return highest_horizon_index(counts, counts * means, left, self.a, self.c)


def highest_horizon_index(counts: Array, sums: Floats, left: Array, a: float, c: float) -> Ints:
    """The arms with the highest index of `HorizonKLUCB`, int64[...], for pulls and sums of rewards [..., K] and `left`,
    the number of remaining pulls, which broadcasts with them."""
    n = counts + 2.0
    return highest_bound(n, (1 + sums) / n, horizon_budget(n, left, a, c))


class MOSS(ArmPolicy):
    """Minimax optimal for a known horizon T (Audibert & Bubeck 2009)."""

    fast = ArmPolicy.epochs
    public_schedule = True

    def choose(self, counts: Array, means: Floats) -> Ints:
        return moss_index(counts, means, self._horizon, self._shape[2]).argmax(-1)


class ThompsonSampling(ArmPolicy):
    """The best arm in a sample from the posteriors Beta(1 + successes, 1 + failures), under uniform priors (Thompson
    1933)."""

    fast = ArmPolicy.epochs
    public_schedule = True

    def choose(self, counts: Array, means: Floats) -> Ints:
        successes = counts * means
        return self.rng.beta(1 + successes, 1 + np.maximum(counts - successes, 0)).argmax(-1)


class SuccessiveElimination(ArmPolicy):
    """Round-robin over active arms; arms two radii below the best are eliminated (Even-Dar, Mannor & Mansour 2006,
    Algorithm 3).

    Args:
        delta: the probability of ever eliminating the best arm; None: 1/T.
    """

    fast = ArmPolicy.epochs
    public_schedule = True

    def __init__(self, delta: float | None = None) -> None:
        self.delta = None if delta is None else number("delta", delta, above=0, below=1)

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._active = np.ones(shape, np.bool_)

    def choose(self, counts: Array, means: Floats) -> Ints:
        self._active[counts.sum((1, 2)) == 0] = True
        pulled = np.where(self._active, counts, np.inf)
        least = pulled.min(-1)
        even = (least == np.where(self._active, counts, 0).max(-1)) & (least > 0)
        if even.any():
            delta = 1 / self._horizon if self.delta is None else self.delta
            best = np.where(self._active, means, -np.inf).max(-1)
            threshold = np.where(even, best - 2 * elimination_radius(least, self._shape[2], delta), -np.inf)
            self._active &= means > threshold[:, :, None]
            pulled = np.where(self._active, counts, np.inf)
        return pulled.argmin(-1)
