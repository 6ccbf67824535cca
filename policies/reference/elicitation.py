"""WINTALL and those who answer it: Jiang 2020, chapter 2."""

import warnings
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, number
from taciturn.envs.elicitation.game import (
    RULES,
    Announcement,
    Cost,
    as_cost,
    best_epsilon,
    distribution,
    theorem_2_holds,
    winning_report,
    wintall_payment,
)
from taciturn.envs.elicitation.reporting import KaryReport, Reporting
from taciturn.envs.elicitation.world import MIN_TARGET, CommonBudget, Elicitation, StandingAnnouncement
from taciturn.policies.base import Policy

__all__ = ["BestResponse", "FiniteBestResponse", "Individuals", "Platform", "TargetQuality", "Wintall"]


class Platform(Policy):
    """Base of the platform's policies that announce one thing at all times: `announcement` says what.

    Args:
        target: e; None: the world's target.
    """

    def __init__(self, target: float | None = None) -> None:
        self.target = None if target is None else number("target", target, at_least=MIN_TARGET)
        self._reporting: Reporting | None = None

    def begin(self, view: PublicView) -> None:
        if not issubclass(view.world, Elicitation) or self.role != "platform":
            raise ValueError(
                f"{type(self).__name__} is the platform of elicitation_v0, not {self.role!r} of {view.name!r}"
            )
        self._view, self._theta, self._reporting = view, np.zeros((0, 0)), view.reporting
        # What a platform that does not know theta supposes.
        self._unknown = np.full((view.num_envs, view.params.num_values), 1 / view.params.num_values)
        self.check(view)

    def fast(self, view: PublicView) -> StandingAnnouncement:
        return StandingAnnouncement()

    def check(self, view: PublicView) -> None:
        """Warn or raise if the policy is not made for this world."""

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> Announcement:
        """What it announces where theta, the cost and the world's target are these; theta is uniform unless it declares `needs_truth`."""
        raise NotImplementedError

    def aim(self, target: float | None) -> float:
        """e: its own target, or else the world's."""
        aim = self.target if self.target is not None else target
        if aim is None:
            raise ValueError(f"target must be given, to {type(self).__name__} or beside it, not None")
        return aim

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        theta = self._view.truth.state.theta if self.needs_truth else self._unknown
        if self._theta is not theta:
            self._theta, self._action = theta, self._announce(self._view, theta)
        return self._action.copy()

    def _announce(self, view: PublicView, theta: Array) -> Array:
        rows, of = np.unique(theta, axis=0, return_inverse=True)
        told = [self.announcement(row, view.cost, view.params.target) for row in rows]
        fields = {name: np.array([getattr(one, name) for one in told])[of] for name in ("target", "scale", "value")}
        if (fields["scale"] > view.params.max_scale).any():
            raise ValueError(
                f"max_scale must be at least {fields['scale'].max():g} for {self!r}, not {view.params.max_scale!r}"
            )
        action: Array = view.announce(told[0].rule, **fields)
        return action


class Wintall(Platform):
    """Winners take all: pay g'(e) (M + e) e / (M f - 1) to each reporter of the most popular value (2.22), g' at the target e.

    It warns where Theorem 2 does not hold, that is, where individuals may not want the target even if they think as it assumes.

    Args:
        target: e; None: the world's target.
    """

    fast = Platform.fast

    def check(self, view: PublicView) -> None:
        e, m = self.aim(view.params.target), view.params.num_values
        if not theorem_2_holds(view.cost, e, m):
            warnings.warn(
                f"Theorem 2 does not hold for {view.params.cost!r} at target {e:g} and M = {m}: the payoff is not concave, "
                "and individuals may prefer another budget",
                stacklevel=4,
            )

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> Announcement:
        e = self.aim(target)
        return Announcement("wintall", e, float(cost.marginal(e)))

    @staticmethod
    def payment(count: Any, num_reports: Any, num_values: int, epsilon: Any, marginal_cost: Any) -> Any:
        """Equation (2.22): what each reporter of the winner is paid; 0 for a degenerate tally.

        Args:
            count: of the winner, [...].
            num_reports: N who reported, [...].
            num_values: M.
            epsilon: e.
            marginal_cost: g'(e).

        Returns:
            float, or float64[...].
        """
        paid = wintall_payment(count, num_reports, num_values, epsilon, marginal_cost)
        return float(paid) if paid.ndim == 0 else paid


class Individuals(Policy):
    """Base of individuals' policies: `budgets` says what they choose, by what they see."""

    def begin(self, view: PublicView) -> None:
        if not issubclass(view.world, Elicitation) or self.role != "individual":
            raise ValueError(
                f"{type(self).__name__} is the individuals of elicitation_v0, not {self.role!r} of {view.name!r}"
            )
        self._view, self._seen = view, np.zeros((0, 0, 0))
        self._layout = view.roles[self.role].layout

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        """What was answered to the same sight is answered again."""
        if not np.array_equal(obs, self._seen):
            self._seen, self._answer = obs.copy(), self.answer(self._layout.unpack(obs))[..., None].astype(np.float32)
        return self._answer.copy()

    def answer(self, seen: dict[str, Array]) -> Array:
        """Budgets [B, N] for what is seen, fields of [B, N, ...]; below 0: stay away."""
        raise NotImplementedError

    def rules(self, seen: dict[str, Array]) -> Array:
        """Places in `RULES` of the rules that stand, int64[B, N]."""
        places = np.array([RULES.index(rule) for rule in self._view.params.rules])
        return places[seen["rule"].astype(np.int64)] if "rule" in seen else np.full(seen["target"].shape, places[0])


class TargetQuality(Individuals):
    """Everyone chooses the target: what Theorem 2 claims to be an equilibrium."""

    def answer(self, seen: dict[str, Array]) -> Array:
        return seen["target"]

    def fast(self, view: PublicView) -> CommonBudget:
        return CommonBudget(lambda target: target)


class BestResponse(Individuals):
    """The best budget for who is confident in a belief (2.6): the platform's estimate will be my belief, whatever I report.

    Under `wintall` the winner is then certain, and so is the payment, (2.18) at the belief; where rules compare with peers, peers have
    the target budget.
    """

    def answer(self, seen: dict[str, Array]) -> Array:
        view, belief = self._view, seen["belief"].astype(np.float64)
        belief = belief / belief.sum(-1, keepdims=True)
        target, scale = (seen[name].astype(np.float64) for name in ("target", "scale"))
        prizes = self.prizes(seen, belief, target, scale)
        factor = seen["cost"].astype(np.float64) / view.cost.c
        budget, earned = best_epsilon(
            prizes, belief, view.cost, factor, at_most=view.params.max_epsilon, reporting=view.reporting
        )
        return np.where(earned >= 0, budget, -1.0)

    def prizes(self, seen: dict[str, Array], belief: Array, target: Array, scale: Array) -> Array:
        """What each report is expected to earn, [B, N, x]."""
        view, rule = self._view, self.rules(seen)
        kinds = np.arange(view.reporting.num_reports)
        winner, slope = winning_report(belief, target, view.reporting)
        amount = np.divide(scale, slope, out=np.zeros(scale.shape), where=slope > 0)
        flat = np.broadcast_to(scale[..., None], (*scale.shape, kinds.size))
        posted = flat * (kinds == seen["value"][..., None].astype(np.int64)) if "value" in seen else flat
        agree = scale[..., None] * view.reporting.law(belief, target)
        shares = seen.get("reference", np.zeros((1, 1, kinds.size)))
        serum = agree / (kinds.size * np.where(shares > 0, shares, 1.0))
        prize = np.choose(
            rule[..., None], [amount[..., None] * (kinds == winner[..., None]), flat, posted, agree, serum]
        )
        return np.minimum(prize, view.params.payment_cap)


class FiniteBestResponse(Individuals):
    """The best budget among N, exactly, for who takes the belief for theta and thinks that all others have the target budget.

    It counts what `BestResponse` leaves out: that shares vary, and that my own report may make the winner. One solution per distinct
    belief and cost, each of some milliseconds at N = 1,000, so it suits small populations, or those that share a belief.
    """

    @staticmethod
    def solve(theta: Any, target: float, cost: Any, num_individuals: int, others: Any = None) -> float:
        """The exact best response under WINTALL with k-ary response, whose announced scale is g'(target).

        Args:
            theta: [M].
            target: e.
            cost: g.
            num_individuals: N, myself included.
            others: budgets of the others: one of all, or [N - 1] (NaN: stays away), of few different values; None: the target.

        Returns:
            The budget with the largest expected payment minus cost.
        """
        theta, cost = distribution("theta", theta), as_cost(cost)
        announced = Announcement("wintall", number("target", target, above=0), float(cost.marginal(target)))
        if others is None or np.ndim(others) == 0:
            others = np.full(num_individuals - 1, target if others is None else others, np.float64)
        others = np.asarray(others, np.float64)
        if others.shape != (num_individuals - 1,):
            raise ValueError(
                f"others must be one budget or {num_individuals - 1}, not an array of shape {others.shape}"
            )
        levels, sizes = np.unique(others[~np.isnan(others)], return_counts=True)
        prizes = announced.prizes(KaryReport(theta.size).law(theta, levels), sizes)
        return float(best_epsilon(prizes, theta, cost)[0])

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        choice("reporting", self._view.params.reporting, ("k_ary",))
        self._solved: dict[bytes, float] = {}

    def answer(self, seen: dict[str, Array]) -> Array:
        rule, nothing = self.rules(seen), np.zeros(seen["target"].shape)
        fields = [seen["target"], seen["scale"], rule, seen.get("value", nothing), seen["cost"]]
        reference = seen.get("reference", np.zeros_like(seen["belief"]))
        rows = np.concatenate([np.stack(fields, -1), seen["belief"], reference], -1)
        flat = rows.reshape(-1, rows.shape[-1]).astype(np.float64)
        return np.array([self._solve(row) for row in flat]).reshape(rows.shape[:2])

    def _solve(self, row: Array) -> float:
        key = row.tobytes()
        if key not in self._solved:
            p, (target, scale, rule, value, cost) = self._view.params, row[:5].tolist()
            belief, reference = row[5:].reshape(2, -1)
            belief = belief / belief.sum()
            announced = Announcement(RULES[int(rule)], target, scale, int(value), reference, p.payment_cap)
            prizes = announced.prizes(self._view.reporting.law(belief, target)[None], np.array([p.num_individuals - 1]))
            best, earned = best_epsilon(
                prizes, belief, self._view.cost, cost / self._view.cost.c, at_most=p.max_epsilon
            )
            self._solved[key] = float(best) if earned >= 0 else -1.0
        return self._solved[key]
