"""Best responses of individuals to payments for their reports, and the gain from a deviation (Jiang 2020, chapter
2)."""

import math
from collections.abc import Callable
from math import asinh, log1p, sinh, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.costs import LINEAR, LOGARITHMIC, QUADRATIC, Cost, as_cost, cost_of, kind_of
from taciturn.envs.elicitation.elementary import of_arrays, where
from taciturn.envs.elicitation.payments import as_probabilities, winner_amount
from taciturn.envs.elicitation.reporting import KaryReport, Reporting, share_slope
from taciturn.validation import Floats, shown


def quadratic_best(ratio: Any, m: int, at_most: float) -> Any:
    """The only root of ratio M / (eps + M)^2 = 2 eps, or `at_most`.

    With eps = (2 M / 3) (cosh(2 a) - 1) the cubic equation is cosh(6 a) = 1 + 27 ratio / (4 M^2), since
    cosh(3 b) = 4 cosh(b)^3 - 3 cosh(b); and cosh(2 a) - 1 = 2 sinh(a)^2, without cancellation.
    """
    root = sinh(asinh(sqrt(27 / 8 * ratio) / m) / 3)
    return min(4 * m / 3 * (root * root), at_most)


def linear_best(ratio: Any, m: int, at_most: float) -> Any:
    """The root sqrt(ratio M) - M of ratio M / (eps + M)^2 = 1, or an end."""
    return min(max(m * (ratio - m) / (sqrt(ratio * m) + m), 0.0), at_most)


def log_best(ratio: Any, m: int, at_most: float) -> Any:
    """The larger root of ratio M / (eps + M)^2 = 1 / (1 + eps), which is eps^2 - M (ratio - 2) eps - M (ratio - M) = 0,
    or an end.

    If ratio < M, the payoff first falls and then rises to that root, where it may still be below its value at 0.
    """
    difference = sqrt(m * ratio) * sqrt(max(m * ratio - 4 * (m - 1), 0.0))
    best = min(max((m * (ratio - 2) + difference) / 2, 0.0), at_most)
    return where((ratio >= m) | (ratio * (best / (best + m)) >= log1p(best)), best, 0.0)


CLOSED = (QUADRATIC, LINEAR, LOGARITHMIC)


def closed_best(kind: int, ratio: Any, m: int, at_most: float) -> Any:
    """The budget that maximises ratio eps / (eps + M) - g(eps) for a cost of a kind in CLOSED with c = 1."""
    if kind == QUADRATIC:
        return quadratic_best(ratio, m, at_most)
    if kind == LINEAR:
        return linear_best(ratio, m, at_most)
    return log_best(ratio, m, at_most)


def payoff_at(epsilon: Any, mean: Any, gain: Any, m: int, costs: Any) -> Any:
    """mean + eps / (eps + M) gain - costs: an individual's expected payoff under k-ary response, if a random report
    earns `mean` and a true one `gain` more."""
    return mean + epsilon / (epsilon + m) * gain - costs


def answer_to_winner(most: float, m: int, target: float, scale: float, factor: float, params: Any, kept: Any) -> float:
    """The best budget, or -1 (stay away), of an individual that expects WINTALL to pay for reports of the value that it
    considers most probable, with probability `most` among M, at the price of equation 2.18.

    Below the cap, `gain` is scale (e + M)^2 / M for any belief, so one root serves all individuals with the same cost:
    `kept` float64[2] holds the last ratio and its root, zeros at first. `params` are the environment's constants.
    """
    slope = share_slope(most, target, m)
    paid = winner_amount(scale, slope)
    gain = scale * (target + m) * (target + m) / m if paid > 0.0 else 0.0
    if paid > params.payment_cap:
        paid = params.payment_cap
        gain = paid * (most - 1.0 / m)
    ratio = max(gain, 0.0) / factor / params.c
    if ratio != kept[0]:
        kept[0], kept[1] = ratio, closed_best(params.kind, ratio, m, params.max_epsilon)
    best = kept[1]
    payoff = payoff_at(best, paid / m, gain, m, factor * cost_of(params.kind, params.c, best))
    return float(best) if payoff >= 0.0 else -1.0


def best_of_ratio(ratio: Floats, cost: Cost, m: int, at_most: float = math.inf) -> Floats:
    """The budget that maximises ratio eps / (eps + M) - g(eps), [...], for ratios [...] >= 0.

    There is a closed form for quadratic, linear and logarithmic g; otherwise it is found by bisection.
    """
    if (kind := kind_of(cost)) in CLOSED:
        closed: Floats = of_arrays(closed_best)(kind, ratio / cost.c, m, at_most)
        return closed
    mantissa, exponent = np.frexp(ratio)
    # Ratios that differ only by rounding are solved once.
    ratios, of = np.unique(np.ldexp(np.round(mantissa * 2.0**40), exponent - 40), return_inverse=True)
    column = ratios[:, None]
    return _maximise(
        lambda at: column * (at / (at + m)) - cost(at),
        lambda at: column * m / (at + m) ** 2 - cost.marginal(at),
        m,
        at_most,
    )[of.reshape(ratio.shape)]


def best_of_gain(
    mean: Floats, gain: Floats, m: int, cost: Cost, factor: Floats, at_most: float
) -> tuple[Floats, Floats]:
    """The budget that maximises mean + eps / (eps + M) gain - factor g(eps), and that payoff, [...] each."""
    best = best_of_ratio(np.maximum(gain, 0) / factor, cost, m, at_most)
    return best, payoff_at(best, mean, gain, m, factor * cost(best))


def best_epsilon(
    prizes: Floats,
    theta: Floats,
    cost: Cost,
    factor: ArrayLike = 1.0,
    *,
    at_most: float = math.inf,
    reporting: Reporting | None = None,
) -> tuple[Floats, Floats]:
    """The budget with the largest payoff P_X(eps) . prizes - factor g(eps) [Jiang 2.6], and that payoff, [...] each.

    Under k-ary response P_X . prizes = mean + eps / (eps + M) gain, with the mean prize and gain = theta . prizes -
    mean.

    Args:
        prizes: expected payment for each report, [..., x].
        theta: the individual's belief, [..., M].
        cost: g.
        factor: multiplies g, [...].
        at_most: upper bound of the budget.
        reporting: the mechanism; None: k-ary response.
    """
    reporting = reporting or KaryReport(theta.shape[-1])
    m, factor = theta.shape[-1], np.asarray(factor, np.float64)
    if isinstance(reporting, KaryReport):
        mean = prizes.mean(-1)
        return best_of_gain(mean, (theta * prizes).sum(-1) - mean, m, cost, factor, at_most)

    def payoff(at: Floats) -> Floats:
        earned = np.einsum("...gx,...x->...g", reporting.distribution(theta[..., None, :], at), prizes)
        return earned - factor[..., None] * cost(at)

    def slope(at: Floats) -> Floats:
        earned = np.einsum("...gx,...x->...g", reporting.distribution_slope(theta[..., None, :], at), prizes)
        return earned - factor[..., None] * cost.marginal(at)

    best = _maximise(payoff, slope, m, at_most)
    return best, payoff(best[..., None])[..., 0]


def _maximise(payoff: Callable[[Floats], Floats], slope: Callable[[Floats], Floats], m: int, at_most: float) -> Floats:
    """The budget that maximises a payoff, [...]; `payoff` and its derivative `slope` map budgets [..., g] to values
    [..., g].

    A grid of 129 values of eps / (eps + M) brackets the maximum, and bisection of the derivative locates it.
    """
    bounded = math.isfinite(at_most)
    share = np.linspace(0, min(at_most / (at_most + m) if bounded else 1.0, 1 - 1e-9), 129)
    grid = m * share / (1 - share)
    if bounded:
        grid[-1] = at_most
    with np.errstate(over="ignore"):
        best = np.argmax(payoff(grid), -1)
        low, high = grid[np.maximum(best - 1, 0)][..., None], grid[np.minimum(best + 1, grid.size - 1)][..., None]
        for _ in range(60):
            middle = (low + high) / 2
            rises = slope(middle) > 0
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        candidates = np.concatenate([low, grid[best][..., None], high, np.zeros_like(low)], -1)
        chosen = np.argmax(payoff(candidates), -1)[..., None]
    return np.take_along_axis(candidates, chosen, -1)[..., 0]


def exploitability(
    platform: Any, profile: ArrayLike, *, theta: ArrayLike, cost: Any, target: float | None = None
) -> float:
    """The largest gain of any individual from a unilateral deviation from a profile of budgets.

    Args:
        platform: an `Announcement`, or a platform's policy (`Wintall()`, ...).
        profile: the budgets of all individuals, [N]; NaN for an individual who stays away.
        theta: [M], known to everyone.
        cost: g, the same for everyone.
        target: the platform's target, if its policy has none.

    Returns:
        The largest gain; 0 (up to rounding) in equilibrium.

    Raises:
        ValueError: the profile has too many different budgets (see `wins`).
    """
    theta, cost = as_probabilities("theta", theta), as_cost(cost)
    announced = platform.announcement(theta, cost, target)
    budgets = np.atleast_1d(np.asarray(profile, np.float64))
    if not (np.isnan(budgets) | (budgets >= 0)).all():
        raise ValueError(
            f"profile must hold budgets >= 0, or NaN for an individual who stays away, not {shown(profile)}"
        )
    levels, sizes = np.unique(budgets[~np.isnan(budgets)], return_counts=True)
    reporting, gains = KaryReport(theta.size), []
    for level in [*levels, *[math.nan] * bool(np.isnan(budgets).any())]:
        prizes = announced.prizes(reporting.distribution(theta, levels), sizes - (levels == level))
        now = 0.0 if math.isnan(level) else float(reporting.distribution(theta, level) @ prizes - cost(level))
        gains.append(max(float(best_epsilon(prizes, theta, cost)[1]), 0.0) - now)
    return max(gains)


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
