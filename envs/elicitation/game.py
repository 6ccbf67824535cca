"""The game of finitely many individuals under a rule of payment, solved exactly: who wins, best responses, and
exploitability.

Jiang 2020, chapter 2; Theorem 2 is about the limit of this game.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from math import asinh, log1p, sinh, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.costs import LINEAR, LOGARITHMIC, QUADRATIC, Cost, as_cost, cost_of, kind_of
from taciturn.envs.elicitation.elementary import of_arrays, where
from taciturn.envs.elicitation.payments import (
    AGREEMENT,
    RULES,
    distribution,
    rule_payment,
    winner_amount,
    wintall_payment,
)
from taciturn.envs.elicitation.reporting import KaryReport, Reporting, share_slope
from taciturn.validation import Floats, Ints, choice, integer, number, shown


def _circle(size: int) -> int:
    """The number of points on a circle that isolate the coefficient of z^size in e^(size (z - 1)), up to a share of
    e^-42 of the others."""
    from scipy.special import gammaln

    away = np.arange(1, int(10 * math.sqrt(size)) + 40)
    above = gammaln(size + away + 1) - gammaln(size + 1) - away * math.log(size)
    below = gammaln(np.maximum(size - away, 0) + 1) - gammaln(size + 1) + away * math.log(size)
    return 1 + int(away[np.minimum(above, np.where(away > size, np.inf, below)) > 42][0])


def wins(laws: ArrayLike, sizes: ArrayLike) -> Floats:
    """The exact P(m wins with c reports | my own report is m), [M, N + 1] over m and c.

    The other N - 1 individuals report independently, `sizes[g]` of them with law `laws[g]`. Ties are broken uniformly.

    Multinomial counts are independent Poisson variates conditioned on their sum. Their generating function, truncated
    at c for values other than m and with a factor u for each count equal to c, is a product over values. Integrating
    over u in [0, 1] gives E[1 / (1 + ties)], exactly by Gauss-Legendre quadrature. The coefficient of each group's sum
    is a mean over points of a circle, enough of them to make aliasing smaller than rounding.

    Args:
        laws: [G, M], for G groups.
        sizes: int[G].

    Cost:
        O(points M^2 c): 0.1 s for N = 1,000 and M = 10 in one group; the number of points grows as sqrt(N), and
        multiplies over groups.

    Raises:
        ValueError: too many or too large groups for an exact result.
    """
    laws, sizes = np.atleast_2d(np.asarray(laws, np.float64)), np.atleast_1d(np.asarray(sizes, np.int64))
    laws, sizes = laws[sizes > 0], sizes[sizes > 0]
    values, total = laws.shape[1], int(sizes.sum()) + 1
    circles = [_circle(size) for size in sizes.tolist()]
    points = math.prod(circles)
    if points > 300_000:
        raise ValueError(
            f"others must fall into fewer or smaller groups of one budget each, not groups of {sizes.tolist()}"
        )
    means = (sizes[:, None] * laws).sum(0)
    # The argument and weight of each point; on the first circle, conjugate points are counted twice instead of visited.
    argument, weight = np.zeros((values, 1), np.complex128), np.ones(1, np.complex128)
    for g, (size, circle) in enumerate(zip(sizes.tolist(), circles, strict=True)):
        turn = np.arange(circle // 2 + 1 if g == 0 else circle)
        twice = np.where((turn == 0) | (2 * turn == circle), 1.0, 2.0) if g == 0 else np.ones(circle)
        angle = 2 * np.pi * turn / circle
        log_chance = size * math.log(size) - size - math.lgamma(size + 1)
        own = twice * np.exp(-1j * size * angle - log_chance) / circle
        argument = (argument[:, :, None] + size * laws[g][:, None, None] * np.exp(1j * angle)).reshape(values, -1)
        weight = (weight[:, None] * own).ravel()
    # The probability of a count below `start` is negligible in floating point.
    start = np.where(means > 600, np.floor(means - 12 * np.sqrt(means)), 0).astype(np.int64)
    last = min(total, int((means + 12 * np.sqrt(means) + 60).max()))
    nodes, weights = np.polynomial.legendre.leggauss((values + 1) // 2)
    nodes, weights = (nodes + 1) / 2, weights / 2
    term, below = np.zeros_like(argument), np.zeros_like(argument)
    chance = np.zeros((values, total + 1))
    for count in range(int(start.min()), last + 1):
        before, term = term, term * argument / max(count, 1)
        begins = start == count
        if begins.any():
            a = argument[begins]
            log_term = (count * np.log(a) - math.lgamma(count + 1)) if count else np.zeros_like(a)
            term[begins] = np.exp(log_term - means[begins, None])
        if values * count >= total and count > 0:
            factors = below + nodes[:, None, None] * term
            others = np.ones_like(factors)
            others[:, 1:] = np.cumprod(factors[:, :-1], axis=1)
            others[:, :-1] *= np.cumprod(factors[:, :0:-1], axis=1)[:, ::-1]
            chance[:, count] = ((weights @ others.reshape(len(nodes), -1)).reshape(values, -1) * before @ weight).real
        below = below + term
    return np.clip(chance, 0.0, 1.0)


@dataclass(frozen=True)
class Announcement:
    """An announcement of the platform: a rule of payment and its parameters.

    Args:
        rule: one of `RULES`.
        target: e.
        scale: its meaning depends on the rule; see the world's docstring.
        value: the report for which a price is posted.
        reference: shares of the reports, for peer truth serum; None: uniform.
        payment_cap: the largest payment.
    """

    rule: str
    target: float
    scale: float
    value: int = 0
    reference: Floats | None = None
    payment_cap: float = math.inf

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        number("target", self.target, above=0)
        number("scale", self.scale, at_least=0)

    def announcement(self, theta: Floats, cost: Cost, target: float | None = None) -> "Announcement":
        """Itself, so that an announcement can stand in for a platform's policy."""
        return self

    def prizes(self, laws: Floats, sizes: Ints) -> Floats:
        """The expected payment for each report, [M], if `sizes[g]` others report with law `laws[g]` [G, M] (k-ary
        response)."""
        laws, sizes = np.atleast_2d(laws), np.atleast_1d(sizes)
        values, others = laws.shape[1], int(sizes.sum())
        if self.rule == "wintall":
            counts = np.arange(others + 2)
            paid = wintall_payment(counts, others + 1, values, self.target, self.scale)
            return wins(laws, sizes) @ np.minimum(paid, self.payment_cap)
        rule, posted = RULES.index(self.rule), np.arange(values) == self.value
        reference = np.full(values, 1 / values) if self.reference is None else self.reference
        paid = of_arrays(rule_payment)(rule, self.scale, 0.0, posted, reference, values)
        agreement = sizes @ laws / max(others, 1) if rule >= AGREEMENT else 1.0
        return np.minimum(paid, self.payment_cap) * agreement


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
    """mean + eps / (eps + M) gain - costs: what an individual expects under k-ary response, if a random report is worth
    `mean` and a true one `gain` more."""
    return mean + epsilon / (epsilon + m) * gain - costs


def answer_to_winner(most: float, m: int, target: float, scale: float, factor: float, params: Any, kept: Any) -> float:
    """The best budget, or -1 (stay away), of an individual that expects WINTALL to pay for reports of the value that it
    believes in, with probability `most` among M, at the price of equation 2.18.

    Below the cap, `gain` is scale (e + M)^2 / M whatever the belief, so that one root serves all with the same cost:
    `kept` float64[2] holds the last ratio and its root, zeros at first. `params` are the world's constants.
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
    # Ratios that differ only by rounding are solved for once.
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
        earned = np.einsum("...gx,...x->...g", reporting.law(theta[..., None, :], at), prizes)
        return earned - factor[..., None] * cost(at)

    def slope(at: Floats) -> Floats:
        earned = np.einsum("...gx,...x->...g", reporting.law_slope(theta[..., None, :], at), prizes)
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


def expected_payment(
    theta: ArrayLike, epsilon: float, cost: Any, num_individuals: int, *, payment_cap: float = math.inf
) -> float:
    """WINTALL's exact expected payment to an individual if all N have the target budget, under k-ary response.

    As N grows it tends to W P_X(x*) [Jiang 2.21], which is the bound of Theorem 1. Degenerate tallies pay 0.
    """
    theta, size = distribution("theta", theta), integer("num_individuals", num_individuals, at_least=1)
    epsilon = number("epsilon", epsilon, above=0)
    law = KaryReport(theta.size).law(theta, epsilon)
    scale = float(as_cost(cost).marginal(epsilon))
    prizes = Announcement("wintall", epsilon, scale, payment_cap=payment_cap).prizes(law, np.array([size - 1]))
    return float(law @ prizes)


def exploitability(
    platform: Any, profile: ArrayLike, *, theta: ArrayLike, cost: Any, target: float | None = None
) -> float:
    """The largest gain of any individual from a unilateral deviation from a profile of budgets.

    Args:
        platform: an `Announcement`, or a platform's policy (`Wintall()`, ...).
        profile: everyone's budget, [N]; NaN for an individual who stays away.
        theta: [M], known to everyone.
        cost: g, the same for everyone.
        target: the platform's target, if its policy has none.

    Returns:
        The largest gain; 0 (up to rounding) in equilibrium.

    Raises:
        ValueError: a profile with too many different budgets (see `wins`).
    """
    theta, cost = distribution("theta", theta), as_cost(cost)
    announced = platform.announcement(theta, cost, target)
    budgets = np.atleast_1d(np.asarray(profile, np.float64))
    if not (np.isnan(budgets) | (budgets >= 0)).all():
        raise ValueError(
            f"profile must hold budgets >= 0, or NaN for an individual who stays away, not {shown(profile)}"
        )
    levels, sizes = np.unique(budgets[~np.isnan(budgets)], return_counts=True)
    reporting, gains = KaryReport(theta.size), []
    for level in [*levels, *[math.nan] * bool(np.isnan(budgets).any())]:
        prizes = announced.prizes(reporting.law(theta, levels), sizes - (levels == level))
        now = 0.0 if math.isnan(level) else float(reporting.law(theta, level) @ prizes - cost(level))
        gains.append(max(float(best_epsilon(prizes, theta, cost)[1]), 0.0) - now)
    return max(gains)
