"""Payments for private data (Jiang 2020, section 2.3): Theorem 1's lower bound, WINTALL, other rules, and how a
platform announces them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.costs import LOGARITHMIC, OTHER, Cost, as_cost, kind_of, marginal_of
from taciturn.envs.elicitation.elementary import maximum, of_arrays, sqrt
from taciturn.envs.elicitation.reporting import KaryReport, Reporting, reported_share, share_slope
from taciturn.validation import Array, Floats, Ints, shown, vector

RULES = ("wintall", "flat_rate", "posted_price", "output_agreement", "peer_truth_serum")
WINTALL, FLAT_RATE, POSTED_PRICE, AGREEMENT, SERUM = range(5)
MIN_TARGET = 0.01
ROUNDING = 1e-13  # of an informativeness or a slope that is 0 for a uniform theta


def distribution(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a distribution over at least two values, float64[M] that adds up to 1; raise ValueError
    otherwise."""
    array = vector(name, value)
    if array.size < 2 or (array < 0).any() or abs(array.sum() - 1) > 1e-6:
        raise ValueError(f"{name} must be at least two numbers >= 0 that add up to 1, not {shown(value)}")
    return array / array.sum()


def informativeness(theta: ArrayLike, epsilon: ArrayLike, reporting: Reporting | None = None) -> Floats:
    """A(eps, theta) = max over x of (dP_X / d eps) / P_X, [...], for theta [..., M] and budgets [...] [Jiang 2.14]."""
    shares = np.asarray(theta, np.float64)
    reporting = reporting or KaryReport(shares.shape[-1])
    if isinstance(reporting, KaryReport):  # then the most frequent value is the most informative
        shares = shares.max(-1, keepdims=True)
    law, slope = reporting.law(shares, epsilon), reporting.law_slope(shares, epsilon)
    return np.divide(slope, law, out=np.full(np.broadcast(slope, law).shape, -np.inf), where=law > 0).max(-1)


def price(theta: Floats, epsilon: Floats, cost: Cost, reporting: Reporting | None = None) -> Floats:
    """g'(eps) / A(eps, theta), the expected payment that makes eps optimal for an individual who knows theta
    [Jiang 2.19].

    Args:
        theta: [..., M].
        epsilon: [..., n].

    Returns:
        [..., n]; inf where theta is uniform, since no report is informative then.
    """
    information = informativeness(theta[..., None, :], epsilon, reporting)
    information = np.where(information > ROUNDING, information, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        return cost.marginal(epsilon) / information


def cheapest_k_ary(most: Any, target: Any, kind: int, num_values: int) -> Any:
    """The budget of at least `target` at which g' / A is smallest, under k-ary response and a cost of this kind; `most`
    is the largest entry of theta."""
    if kind == LOGARITHMIC:
        return maximum(target, sqrt((num_values - 1) * (1.0 - most) / most) - 1.0)
    return target


def k_ary_bound(theta: Any, target: float, kind: int, c: float) -> float:
    """`payment_lower_bound` under k-ary response and a cost of this kind, for theta [M]."""
    most, values = 0.0, len(theta)
    for k in range(values):
        most = max(most, theta[k])
    at = cheapest_k_ary(most, target, kind, values)
    information = share_slope(most, at, values) / reported_share(most, at, values)
    return float(marginal_of(kind, c, at) / information) if information > ROUNDING else math.inf


def cheapest_epsilon(
    theta: ArrayLike, epsilon: ArrayLike, cost: Cost, reporting: Reporting | None = None
) -> tuple[Floats, Floats]:
    """The budget of at least `epsilon` at which `price` is smallest [Jiang 2.17], and that price; [...] each.

    (The paper prints g' A for g' / A.) Under k-ary response the price is proportional to g'(eps) (eps + M) (eps t + 1),
    t = max theta. For convex g it is smallest at the target, for g = c log(1 + eps) there or at
    sqrt((M - 1) (1 - t) / t) - 1. In other cases it is found by a grid search, refined 12 times around its minimum.
    """
    theta, target = np.asarray(theta, np.float64), np.asarray(epsilon, np.float64)
    theta = np.broadcast_to(theta, (*np.broadcast_shapes(theta.shape[:-1], target.shape), theta.shape[-1]))
    target = np.broadcast_to(target, theta.shape[:-1])
    reporting = reporting or KaryReport(theta.shape[-1])
    if isinstance(reporting, KaryReport) and (kind := kind_of(cost)) != OTHER:
        chosen = of_arrays(cheapest_k_ary)(theta.max(-1), target, kind, theta.shape[-1])
        return chosen, price(theta, chosen[..., None], cost, reporting)[..., 0]
    grid = target[..., None] + np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 120)])
    chosen, least, inside = target, np.full(target.shape, np.inf), np.ones(target.shape, np.bool_)
    for _ in range(13):
        prices = price(theta, grid, cost, reporting)
        best = np.argmin(prices, -1)[..., None]
        found = np.take_along_axis(prices, best, -1)[..., 0]
        lower = inside & (found < least)
        chosen = np.where(lower, np.take_along_axis(grid, best, -1)[..., 0], chosen)
        least, inside = np.where(lower, found, least), best[..., 0] > 0
        if not inside.any():
            break
        low, high = (np.take_along_axis(grid, np.clip(best + d, 0, grid.shape[-1] - 1), -1) for d in (-1, 1))
        grid = low + (high - low) * np.linspace(0, 1, 17)
    return chosen, least


def payment_lower_bound(theta: ArrayLike, epsilon: ArrayLike, cost: Any, reporting: Reporting | None = None) -> Any:
    """The least expected payment to an individual for a budget of at least `epsilon`: Theorem 1 [Jiang 2.13].

    The paper prints g' A for g' / A, as its equation 2.19 has it.
    Under k-ary response and convex g the bound is g'(e) (e + M) (e t + 1) / (M t - 1), t = max theta.

    Args:
        theta: [..., M].
        epsilon: the target, [...] > 0.
        cost: g.
        reporting: the mechanism; None: k-ary response.

    Returns:
        float, or float64[...]; inf where theta is uniform, since no report is informative then.
    """
    least = cheapest_epsilon(theta, epsilon, as_cost(cost), reporting)[1]
    return float(least) if least.ndim == 0 else least


def winning_report(theta: ArrayLike, epsilon: ArrayLike, reporting: Reporting | None = None) -> tuple[Ints, Floats]:
    """The most informative report [Jiang 2.15], and its dP_X / d eps, [...] each, for theta [..., M] and budgets [...].

    The derivative is 0 where no report's probability increases with eps.
    """
    theta = np.asarray(theta, np.float64)
    reporting = reporting or KaryReport(theta.shape[-1])
    if isinstance(reporting, KaryReport):
        slope = reporting.law_slope(theta.max(-1, keepdims=True), epsilon)[..., 0]
        return np.broadcast_to(np.argmax(theta, -1), slope.shape), np.where(slope > ROUNDING, slope, 0.0)
    law, slope = np.broadcast_arrays(reporting.law(theta, epsilon), reporting.law_slope(theta, epsilon))
    rises = (law > 0) & (slope > ROUNDING)
    best = np.argmax(np.divide(slope, law, out=np.full(law.shape, -np.inf), where=rises), -1)
    return best, np.where(rises.any(-1), np.take_along_axis(slope, best[..., None], -1)[..., 0], 0.0)


def wintall_amount(count: int, num_reports: int, num_values: int, epsilon: float, marginal_cost: float) -> float:
    """WINTALL's payment to each report of the winner, g'(e) (M + e) e / (M f - 1), f = count / num_reports
    [Jiang 2.22].

    It is 0 for a degenerate tally, in which M count <= num_reports. (Equation 2.1 is the same.)
    """
    excess = num_values * count - num_reports
    return marginal_cost * (num_values + epsilon) * epsilon * num_reports / excess if excess > 0 else 0.0


_wintall = np.vectorize(wintall_amount, otypes=[np.float64])


def wintall_payment(
    count: ArrayLike, num_reports: ArrayLike, num_values: int, epsilon: ArrayLike, marginal_cost: ArrayLike
) -> Floats:
    """`wintall_amount` of arrays, which broadcast."""
    return np.asarray(_wintall(count, num_reports, num_values, epsilon, marginal_cost))


def winner_payment(marginal_cost: ArrayLike, slope: ArrayLike) -> Floats:
    """The payment for the winning report, g'(e) / (dP_X / d eps) [Jiang 2.18]; 0 where the slope is 0. Arguments
    broadcast."""
    slope = np.asarray(slope, np.float64)
    shape = np.broadcast_shapes(np.shape(marginal_cost), slope.shape)
    return np.divide(marginal_cost, slope, out=np.zeros(shape), where=slope > 0)


def rule_payments(rule: Ints, scale: Floats, winners: Floats, value: Ints, reference: Floats) -> Floats:
    """The payment for each report, [..., x]; under output agreement and peer truth serum, if it agrees with a peer's.

    Args:
        rule: position in `RULES`, [...].
        scale: announced, [...].
        winners: the payments under WINTALL, [..., x].
        value: the report for which a price is posted, [...].
        reference: shares of the reports, for peer truth serum, [..., x] (0: unused).
    """
    flat, kinds = np.broadcast_to(scale[..., None], winners.shape), winners.shape[-1]
    posted = flat * (np.arange(kinds) == value[..., None])
    serum = np.divide(flat, kinds * reference, out=np.zeros(flat.shape), where=reference > 0)
    return np.choose(rule[..., None], [winners, flat, posted, flat, serum])


def estimator_error(theta: ArrayLike, epsilon: float, num_individuals: int, played: float | None = None) -> Floats:
    """The exact mean squared error of the estimate ((e + M) f - 1) / e of each entry of theta, float64[M].

    Args:
        theta: [M].
        epsilon: e, the budget that the platform assumes.
        num_individuals: N, the number of reports.
        played: everyone's actual budget; None: e. The estimate is biased if the two differ.
    """
    theta = distribution("theta", theta)
    law = KaryReport(theta.size).law(theta, epsilon if played is None else played)
    bias = KaryReport(theta.size).estimate(law, epsilon) - theta
    return bias**2 + ((epsilon + theta.size) / epsilon) ** 2 * law * (1 - law) / num_individuals


def theorem_2_holds(cost: Any, epsilon: float, num_values: int) -> bool:
    """True if the payoff W P_X(x*; theta, eps) - g(eps) of Theorem 2 is strictly concave in eps under k-ary response,
    for any theta.

    Its derivative, g'(e) (e + M)^2 / (eps + M)^2 - g'(eps), does not depend on theta and must decrease; this is checked
    on a grid.
    """
    cost = as_cost(cost)
    at = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, 1000) * max(epsilon, 1.0)])
    with np.errstate(invalid="ignore"):
        slope = float(cost.marginal(epsilon)) * ((epsilon + num_values) / (at + num_values)) ** 2 - cost.marginal(at)
        falls = np.diff(slope) < 0
    return bool(falls[np.isfinite(slope[1:])].all())


@dataclass(frozen=True)
class Announcements:
    """The announcements that a platform may make, and their encoding as actions `[target, scale, (rule), (value)]`.

    Args:
        rules: the rules of payment allowed; the action has `rule` if there are several.
        num_reports: the number of possible reports; the action has `value` if "posted_price" is allowed.
        max_epsilon, max_scale: upper bounds of the target and the scale.
    """

    rules: Sequence[str]
    num_reports: int
    max_epsilon: float
    max_scale: float

    @cached_property
    def layout(self) -> dict[str, tuple[int, float, float]]:
        """`{field: (size, low, high)}`, as `Layout` takes them."""
        fields = {"target": (1, 0.0, self.max_epsilon), "scale": (1, 0.0, self.max_scale)}
        if len(self.rules) > 1:
            fields["rule"] = (1, 0.0, len(self.rules))
        if "posted_price" in self.rules:
            fields["value"] = (1, 0.0, self.num_reports)
        return fields

    @cached_property
    def space(self) -> gymnasium.spaces.Box:
        """The platform's action space."""
        high = np.array([high for _, _, high in self.layout.values()], np.float32)
        return gymnasium.spaces.Box(np.zeros(high.size, np.float32), high, dtype=np.float32)

    @cached_property
    def positions(self) -> Ints:
        """The positions in `RULES` of the allowed rules."""
        return np.array([RULES.index(rule) for rule in self.rules])

    def encode(self, rule: str, target: ArrayLike, scale: ArrayLike, value: ArrayLike, num_envs: int) -> Array:
        """Actions float32[B, 1, D] within the space; `target`, `scale` and `value` are numbers or [B].

        Raises:
            ValueError: a rule that is not allowed.
        """
        if rule not in self.rules:
            raise ValueError(
                f"rule must be one of {', '.join(map(repr, self.rules))}, not {rule!r}: see the world's parameter rules"
            )
        fields = {
            "target": target,
            "scale": scale,
            "rule": self.rules.index(rule) + 0.5,
            "value": np.asarray(value) + 0.5,
        }
        action = np.stack([np.broadcast_to(np.asarray(fields[name], np.float64), num_envs) for name in self.layout], -1)
        return np.clip(action[:, None].astype(np.float32), self.space.low, self.space.high)
