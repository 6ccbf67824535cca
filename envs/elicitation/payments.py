"""Payments for private data (Jiang 2020, section 2.3): Theorem 1's lower bound, WINTALL and other rules."""

import math
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.costs import LOGARITHMIC, OTHER, Cost, as_cost, kind_of, marginal_of
from taciturn.envs.elicitation.elementary import of_arrays, where
from taciturn.envs.elicitation.reporting import KaryReport, Reporting, reported_share, share_slope
from taciturn.validation import Floats, Ints, shown, vector

RULES = ("wintall", "flat_rate", "posted_price", "output_agreement", "peer_truth_serum")
WINTALL, FLAT_RATE, POSTED_PRICE, AGREEMENT, SERUM = range(5)
MIN_TARGET = 0.01
ROUNDING = 1e-13  # an informativeness or slope below this is 0, as for a uniform theta


def as_probabilities(name: str, value: ArrayLike) -> Floats:
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
    distribution, slope = reporting.distribution(shares, epsilon), reporting.distribution_slope(shares, epsilon)
    return np.divide(
        slope, distribution, out=np.full(np.broadcast(slope, distribution).shape, -np.inf), where=distribution > 0
    ).max(-1)


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
    """The budget >= `target` that minimises g' / A, under k-ary response and a cost of this kind; `most` is the largest
    entry of theta."""
    if kind == LOGARITHMIC:
        return max(target, sqrt((num_values - 1) * (1.0 - most) / most) - 1.0)
    return target


def k_ary_bound(most: Any, target: Any, kind: int, c: float, num_values: int) -> Any:
    """`payment_lower_bound` under k-ary response and a cost of this kind; `most` is the largest entry of theta."""
    at = cheapest_k_ary(most, target, kind, num_values)
    information = share_slope(most, at, num_values) / reported_share(most, at, num_values)
    informed = information > ROUNDING
    return where(informed, marginal_of(kind, c, at) / where(informed, information, 1.0), math.inf)


def cheapest_epsilon(
    theta: ArrayLike, epsilon: ArrayLike, cost: Cost, reporting: Reporting | None = None
) -> tuple[Floats, Floats]:
    """The budget >= `epsilon` that minimises `price` [Jiang 2.17], and that price; [...] each.

    (The paper prints g' A for g' / A.) Under k-ary response the price is proportional to g'(eps) (eps + M) (eps t + 1),
    t = max theta. For convex g the minimum is at the target; for g = c log(1 + eps) at the target or at
    sqrt((M - 1) (1 - t) / t) - 1. In other cases a grid search finds it, refined 12 times around its minimum.
    """
    theta, target = np.asarray(theta, np.float64), np.asarray(epsilon, np.float64)
    theta = np.broadcast_to(theta, (*np.broadcast_shapes(theta.shape[:-1], target.shape), theta.shape[-1]))
    target = np.broadcast_to(target, theta.shape[:-1])
    reporting = reporting or KaryReport(theta.shape[-1])
    if isinstance(reporting, KaryReport) and (kind := kind_of(cost)) != OTHER:
        most, m = theta.max(-1), theta.shape[-1]
        with np.errstate(over="ignore"):
            least = of_arrays(k_ary_bound)(most, target, kind, cost.c, m)
        return np.where(least < np.inf, of_arrays(cheapest_k_ary)(most, target, kind, m), target), least
    grid = target[..., None] + np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 120)])
    chosen, least, inside = target, np.full(target.shape, np.inf), np.ones(target.shape, np.bool_)
    for _ in range(13):
        prices = price(theta, grid, cost, reporting)
        best = np.argmin(prices, -1)[..., None]
        result = np.take_along_axis(prices, best, -1)[..., 0]
        lower = inside & (result < least)
        chosen = np.where(lower, np.take_along_axis(grid, best, -1)[..., 0], chosen)
        least, inside = np.where(lower, result, least), best[..., 0] > 0
        if not inside.any():
            break
        low, high = (np.take_along_axis(grid, np.clip(best + d, 0, grid.shape[-1] - 1), -1) for d in (-1, 1))
        grid = low + (high - low) * np.linspace(0, 1, 17)
    return chosen, least


def payment_lower_bound(theta: ArrayLike, epsilon: ArrayLike, cost: Any, reporting: Reporting | None = None) -> Any:
    """The least expected payment to an individual for a budget >= `epsilon`: Theorem 1 [Jiang 2.13].

    The paper prints g' A for g' / A; its equation 2.19 has the latter.
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
        slope = reporting.distribution_slope(theta.max(-1, keepdims=True), epsilon)[..., 0]
        return np.broadcast_to(np.argmax(theta, -1), slope.shape), np.where(slope > ROUNDING, slope, 0.0)
    distribution, slope = np.broadcast_arrays(
        reporting.distribution(theta, epsilon), reporting.distribution_slope(theta, epsilon)
    )
    rises = (distribution > 0) & (slope > ROUNDING)
    best = np.argmax(np.divide(slope, distribution, out=np.full(distribution.shape, -np.inf), where=rises), -1)
    return best, np.where(rises.any(-1), np.take_along_axis(slope, best[..., None], -1)[..., 0], 0.0)


def wintall_amount(count: Any, num_reports: Any, num_values: int, epsilon: Any, marginal_cost: Any) -> Any:
    """WINTALL's payment to each report of the winner, g'(e) (M + e) e / (M f - 1), f = count / num_reports
    [Jiang 2.22].

    It is 0 for a degenerate tally (M count <= num_reports). (Equation 2.1 is the same.)
    """
    excess = num_values * count - num_reports
    paid = marginal_cost * (num_values + epsilon) * epsilon * num_reports / where(excess > 0, excess, 1)
    return where(excess > 0, paid, 0.0)


wintall_payment = of_arrays(wintall_amount)


def winner_amount(marginal_cost: Any, slope: Any) -> Any:
    """The payment for the winning report, g'(e) / (dP_X / d eps) [Jiang 2.18]; 0 where no report is informative."""
    rises = slope > ROUNDING
    return where(rises, marginal_cost / where(rises, slope, 1.0), 0.0)


winner_payment = of_arrays(winner_amount)


def rule_payment(rule: Any, scale: Any, won: Any, posted: Any, reference: Any, kinds: int) -> Any:
    """The payment for a report; under output agreement and peer truth serum, the payment if it agrees with a peer's.

    Args:
        rule: position in `RULES`.
        scale: the announced scale.
        won: the payment for it under WINTALL.
        posted: whether a price is posted for it.
        reference: its share, for peer truth serum (0: unused).
        kinds: number of possible reports.
    """
    serum = scale / (kinds * where(reference > 0.0, reference, 1.0))
    paid = where(rule == SERUM, serum, where((rule == POSTED_PRICE) & (posted == 0), 0.0, scale))
    return where(rule == WINTALL, won, paid)


def estimator_error(theta: ArrayLike, epsilon: float, num_individuals: int, played: float | None = None) -> Floats:
    """The exact mean squared error of the estimate ((e + M) f - 1) / e of each entry of theta, float64[M].

    Args:
        theta: [M].
        epsilon: e, the budget that the platform assumes.
        num_individuals: N, the number of reports.
        played: the budget that all individuals actually choose; None: e. The estimate is biased if the two differ.
    """
    theta = as_probabilities("theta", theta)
    distribution = KaryReport(theta.size).distribution(theta, epsilon if played is None else played)
    bias = KaryReport(theta.size).estimate(distribution, epsilon) - theta
    return bias**2 + ((epsilon + theta.size) / epsilon) ** 2 * distribution * (1 - distribution) / num_individuals
