"""A schedule for the coordinator of `arm_elimination_v0`, with constants tuned on training streams."""

from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.envs.federated_bandit.arm_elimination import ArmElimination, action
from taciturn.policies.base import Policy
from taciturn.policies.families.trust_models import TRUST
from taciturn.validation import Floats, Ints

STEPS = 12
"""Iterations towards the fixed point of the threshold."""


class GrowingSchedule(Policy):
    """Total pulls grow by a factor, and the elimination threshold is larger the more of the run is left.

    After J epochs every agent has pulled each active arm n times in total. An arm is eliminated if its average is below
    the best by at least the g that solves

        g = sqrt(2 a log(1 + c left / (k n)) (m (1 - m) + (m - g) (1 - m + g) + 2 J s / n) / (M n)),

    where `left` slots remain, k arms are active, M agents upload, m is the best average before the last of these
    epochs, and s is the noise variance in each agent's sum of an epoch's rewards. (With Laplace noise at level epsilon,
    s = 2 / epsilon^2; if noise is added once to the sum of all, 1/M of that.) The bracket divided by M n is the
    variance of the difference between the averages of the best arm and of an arm that is g worse; m includes two extra
    hits and two extra misses, as in the interval of Agresti & Coull (1998). The logarithm weighs the cost of a wrong
    elimination, which is proportional to the time left, against the extra pulls for more certainty.

    Args:
        first: pulls of each arm by each agent in the first epoch.
        growth: growth factor of the total pulls from epoch to epoch, > 1.
        a, c: constants of the threshold, > 0.
        trust_model: the party that agents trust under a privacy budget: "local", none; "distributed", a secure sum of
            their uploads; "central", a curator who averages them.
    """

    public_schedule = True

    def __init__(
        self, first: int = 2, growth: float = 1.15, a: float = 0.6, c: float = 0.3, trust_model: str = "local"
    ) -> None:
        self.first = integer("first", first, at_least=1)
        self.growth = number("growth", growth, above=1, at_most=1e6)
        self.a, self.c = number("a", a, above=0), number("c", c, above=0)
        self.trust_model = choice("trust_model", trust_model, TRUST)

    def begin(self, view: PublicView) -> None:
        self.require(issubclass(view.world, ArmElimination), "arm_elimination", view)
        self._layout, self._horizon = view.roles[self.role].layout, view.params.horizon
        self._agents, self._arms = view.params.num_agents, view.params.arms
        self._mechanism: Any = view.channels["means"].mechanism
        self._total: Ints = np.zeros(view.num_envs, np.int64)
        self._noise: Floats = np.zeros(view.num_envs)

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Any]:
        """All of `epsilon_budget` on each message or average, by Laplace noise, since each reward enters only one."""
        return {"means": TRUST[self.trust_model](epsilon_budget)}

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs[:, 0].astype(np.float64))
        fresh = seen["rounds"] == 0
        self._total, self._noise = np.where(fresh, 0, self._total), np.where(fresh, 0.0, self._noise)
        left = np.rint(seen["time_left"] * self._horizon)
        plays = seen["active"].reshape(len(obs), -1) > 0
        active = np.maximum(plays.sum(-1), 1)
        best = self._cautious(np.where(plays, seen["means"].reshape(len(obs), -1), 0.0).max(-1))
        most = np.maximum(left // active, 1)
        first, growth, a, c, factor = self.constants(active, best, seen["time_left"])
        wanted = np.where(self._total == 0, first, np.ceil(self._total * growth) - self._total)
        pulls = np.clip(wanted, 1, most).astype(np.int64)
        self._total += pulls
        self._noise += self._noise_of(pulls)
        n = self._total
        certainty = np.log1p(c * np.maximum(left - active * pulls, 0) / (active * n))
        threshold = np.zeros(len(obs))
        for _ in range(STEPS):
            worse = np.clip(best - threshold, 0, 1)
            variance = best * (1 - best) + worse * (1 - worse) + 2 * self._noise / n
            threshold = np.sqrt(2 * a * certainty * variance / (self._agents * n))
        share = np.where(most > 1, np.log(pulls) / np.log(np.maximum(most, 2)), 0.0)
        return action(share, np.minimum(factor * threshold, 1.0), 1.0)[:, None]

    def constants(self, active: Ints, best: Floats, time_left: Floats) -> tuple[Any, Any, Any, Any, Any]:
        """First pulls, growth, a, c, and a factor of the threshold, for each replica or for all, given the number of
        active arms, the best average and the remaining share of the run, [B] each."""
        return self.first, self.growth, self.a, self.c, 1.0

    def _cautious(self, best: Floats) -> Floats:
        """The best average [B] with two extra hits and two extra misses; noise lets it count as fewer pulls."""
        n = self._agents * self._total / (1 + 4 * self._noise / np.maximum(self._total, 1))
        return (n * np.clip(best, 0, 1) + 2) / (n + 4)

    def _noise_of(self, pulls: Ints) -> Floats:
        """The variance of the noise in a sum of `pulls` rewards, [B]."""
        if self._mechanism is None or self._mechanism.kind == "none":
            return np.zeros(pulls.shape)
        of_mean = self._mechanism.variance_of_mean(np.full(pulls.shape, 0.5), 1.0 / pulls, self._agents)
        result: Floats = pulls**2 * self._agents * of_mean
        return result
