"""WINTALL, and the individuals' answers to it: Jiang 2020, chapter 2."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.elicitation import payments
from taciturn.envs.elicitation.costs import Cost, as_cost, kind_of
from taciturn.envs.elicitation.elementary import of_arrays
from taciturn.envs.elicitation.game import Announcement
from taciturn.envs.elicitation.reporting import KaryReport
from taciturn.policies.families.best_response import (
    CLOSED,
    answer_to_winner,
    best_epsilon,
    best_of_gain,
    theorem_2_holds,
)
from taciturn.policies.families.elicitation import ExactIndividuals, Individuals, Platform
from taciturn.validation import Floats


class Wintall(Platform):
    """Winners take all: pay g'(e) (M + e) e / (M f - 1) to each report of the most popular value, with share f.

    It warns if Theorem 2 does not hold: individuals may then prefer another budget than the target e, even if they meet
    the theorem's assumptions.

    Args:
        target: e; None: the environment's target.
    """

    def check(self, view: PublicView) -> None:
        m = view.params.num_values
        aims = {self.aim(target) for target in view.params.targets}
        if failing := sorted(e for e in aims if not theorem_2_holds(view.cost, e, m)):
            warnings.warn(
                f"Theorem 2 does not hold for {view.params.cost!r} at target {failing[0]:g} and M = {m}: the payoff is "
                "not concave, and individuals may prefer another budget",
                stacklevel=4,
            )

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> Announcement:
        e = self.aim(target)
        return Announcement("wintall", e, float(cost.marginal(e)))

    @staticmethod
    def payment(
        count: ArrayLike, num_reports: ArrayLike, num_values: int, epsilon: ArrayLike, marginal_cost: ArrayLike
    ) -> Any:
        """The payment to each report of the winner (equation 2.22); 0 for a degenerate tally.

        Args:
            count: reports of the winner, [...].
            num_reports: N, all reports, [...].
            num_values: M.
            epsilon: e.
            marginal_cost: g'(e).

        Returns:
            float, or float64[...].
        """
        given = count, num_reports, num_values, epsilon, marginal_cost
        paid = np.asarray(payments.wintall_payment(*map(np.asarray, given)))
        return float(paid) if paid.ndim == 0 else paid


class TargetQuality(Individuals):
    """All individuals choose the target, the equilibrium of Theorem 2."""

    def answer(self, seen: dict[str, Array]) -> Array:
        return seen["target"]


class BestResponse(Individuals):
    """Best response of an individual that is certain of its belief: it expects the platform's estimate to equal the
    belief, whatever it reports.

    Under `wintall` the winner is then certain, and the payment is equation 2.18 at the belief. Under rules that
    compare reports, peers are expected to choose the target budget.
    """

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._only_winners = only_winners(view)
        self._belief, self._most = np.zeros((0, 0, 0)), np.zeros((0, 0))

    def closed_form(self, view: PublicView) -> Callable[..., None] | None:
        return answer_one if only_winners(view) and kind_of(view.cost) in CLOSED else None

    def answer(self, seen: dict[str, Array]) -> Array:
        if self._only_winners:
            best, payoff = self.against_winners(seen)
            return np.where(payoff >= 0, best, -1.0)
        belief = self.beliefs(seen)
        return self.best(seen, belief, self.prizes(seen, belief))[1]

    def against_winners(self, seen: dict[str, Array]) -> tuple[Floats, Floats]:
        """The budgets [B, N] with the largest payoffs, and these payoffs, if only reports of the most probable value
        [B, N] are paid."""
        view, m = self._view, self._view.params.num_values
        if not np.array_equal(seen["belief"], self._belief):
            self._belief, self._most = seen["belief"].copy(), self.beliefs(seen).max(-1)
        target, scale = (seen[name].astype(np.float64) for name in ("target", "scale"))
        _, slope = payments.winning_report(self._most[..., None], target, view.reporting)
        paid = np.minimum(payments.winner_payment(scale, slope), view.params.payment_cap)
        factor, bound = self.cost_factors(seen), view.params.max_epsilon
        return best_of_gain(paid / m, paid * (self._most - 1 / m), m, view.cost, factor, bound)

    def prizes(self, seen: dict[str, Array], belief: Floats) -> Floats:
        """The expected payment for each report, [B, N, x]."""
        view = self._view
        target, scale = (seen[name].astype(np.float64) for name in ("target", "scale"))
        winner, slope = payments.winning_report(belief, target, view.reporting)
        wins = np.arange(view.reporting.num_reports) == winner[..., None]
        certain = payments.winner_payment(scale, slope)[..., None] * wins
        if tuple(view.params.rules) == ("wintall",):
            return np.minimum(certain, view.params.payment_cap)
        rule = self.rules(seen)
        rule, scale, reports = rule[..., None], scale[..., None], np.arange(wins.shape[-1])
        posted = reports == seen.get("value", np.zeros(target.shape)).astype(np.int64)[..., None]
        reference = seen.get("reference", np.zeros(wins.shape))
        paid = of_arrays(payments.rule_payment)(rule, scale, certain, posted, reference, reports.size)
        agreement = np.where(rule >= payments.AGREEMENT, view.reporting.distribution(belief, target), 1.0)
        return np.minimum(paid, view.params.payment_cap) * agreement


def only_winners(view: PublicView) -> bool:
    """Whether only reports of one value are ever paid."""
    return isinstance(view.reporting, KaryReport) and tuple(view.params.rules) == ("wintall",)


def answer_one(seen: Any, params: Any, kept: Any, action: Any) -> None:
    """`BestResponse` of one individual that observes `[target, scale, cost, belief]`, if only winners are paid."""
    values, most, total = len(seen) - 3, 0.0, 0.0
    for k in range(values):
        belief = np.float64(seen[3 + k])
        most, total = max(most, belief), total + belief
    target, scale, factor = np.float64(seen[0]), np.float64(seen[1]), np.float64(seen[2]) / params.c
    action[0] = answer_to_winner(most / total, values, target, scale, factor, params, kept)


class FiniteBestResponse(ExactIndividuals):
    """Exact best response among N individuals, if theta equals the belief and all others choose the target budget.

    Unlike `BestResponse` it takes into account that shares are random and that the individual's own report may change
    the winner. Each distinct belief takes some milliseconds at N = 1,000, so the policy suits small populations, or
    populations with a shared belief.
    """

    @staticmethod
    def solve(
        theta: ArrayLike, target: float, cost: Any, num_individuals: int, others: ArrayLike | None = None
    ) -> float:
        """The exact best response under WINTALL with k-ary response and the announced scale g'(target).

        Args:
            theta: [M].
            target: e.
            cost: g.
            num_individuals: N, including the individual itself.
            others: the others' budgets: one number for all, or [N - 1] with few distinct values (NaN: stays away);
                None: the target.

        Returns:
            The budget with the largest expected payment minus cost.
        """
        theta, cost = payments.as_probabilities("theta", theta), as_cost(cost)
        announced = Announcement("wintall", number("target", target, above=0), float(cost.marginal(target)))
        if others is None or np.ndim(others) == 0:
            others = np.full(num_individuals - 1, target if others is None else others, np.float64)
        others = np.asarray(others, np.float64)
        if others.shape != (num_individuals - 1,):
            raise ValueError(
                f"others must be one budget or {num_individuals - 1}, not an array of shape {others.shape}"
            )
        levels, sizes = np.unique(others[~np.isnan(others)], return_counts=True)
        prizes = announced.prizes(KaryReport(theta.size).distribution(theta, levels), sizes)
        return float(best_epsilon(prizes, theta, cost)[0])

    def answer(self, seen: dict[str, Array]) -> Array:
        belief = self.beliefs(seen)
        distributions = self._view.reporting.distribution(belief, seen["target"].astype(np.float64))
        return self.best(seen, belief, self.expected(seen, distributions))[1]
