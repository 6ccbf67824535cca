"""Private data for money, as a game: what privacy costs, what must be paid for it, who wins, and which budget is best.

Jiang 2020, chapter 2: the bound of Theorem 1, WINTALL, and the finite game that Theorem 2 is about.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taciturn.envs.elicitation.reporting import KaryReport, Reporting
from taciturn.validation import Array, choice, integer, number, vector

__all__ = [
    "RULES",
    "Announcement",
    "Cost",
    "CustomCost",
    "ExponentialCost",
    "LinearCost",
    "LogCost",
    "QuadraticCost",
    "as_cost",
    "best_epsilon",
    "distribution",
    "estimator_error",
    "expected_payment",
    "exploitability",
    "informativeness",
    "payment_lower_bound",
    "theorem_2_holds",
    "winning_report",
    "wins",
    "wintall_payment",
]

RULES = ("wintall", "flat_rate", "posted_price", "output_agreement", "peer_truth_serum")


# What privacy costs an individual.


class Cost(ABC):
    """g(eps), increasing and differentiable, and proportional to the parameter `c`, with g(0) = 0."""

    c: float

    @abstractmethod
    def __call__(self, epsilon: Any) -> Array:
        """g at budgets of any shape."""

    @abstractmethod
    def marginal(self, epsilon: Any) -> Array:
        """g' at budgets of any shape."""


@dataclass(frozen=True)
class _Scaled(Cost):
    c: float = 1.0

    def __post_init__(self) -> None:
        number("c", self.c, above=0)


class QuadraticCost(_Scaled):
    """c eps^2."""

    def __call__(self, epsilon: Any) -> Array:
        return self.c * np.square(epsilon)

    def marginal(self, epsilon: Any) -> Array:
        return 2 * self.c * np.asarray(epsilon, np.float64)


class LinearCost(_Scaled):
    """c eps."""

    def __call__(self, epsilon: Any) -> Array:
        return self.c * np.asarray(epsilon, np.float64)

    def marginal(self, epsilon: Any) -> Array:
        return np.full(np.shape(epsilon), self.c)


class ExponentialCost(_Scaled):
    """c (e^eps - 1)."""

    def __call__(self, epsilon: Any) -> Array:
        with np.errstate(over="ignore"):
            return self.c * np.expm1(epsilon)

    def marginal(self, epsilon: Any) -> Array:
        with np.errstate(over="ignore"):
            return self.c * np.exp(epsilon)


class LogCost(_Scaled):
    """c log(1 + eps): c for each unit of differential privacy that is lost."""

    def __call__(self, epsilon: Any) -> Array:
        return self.c * np.log1p(epsilon)

    def marginal(self, epsilon: Any) -> Array:
        return self.c / (1 + np.asarray(epsilon, np.float64))


@dataclass(frozen=True)
class CustomCost(Cost):
    """A cost of one's own: g and its derivative, functions of arrays."""

    g: Callable[[Array], Array]
    derivative: Callable[[Array], Array]
    c: float = field(default=1.0, init=False)

    def __post_init__(self) -> None:
        at = np.array([0.1, 1.0, 3.0])
        for name, values in (("g", self(at)), ("g'", self.marginal(at))):
            if values.shape != at.shape or not np.isfinite(values).all():
                raise ValueError(f"cost: {name} must map an array of budgets to finite numbers, not {at} to {values}")
        if not (self.marginal(at) > 0).all():
            raise ValueError(f"cost: g' must be > 0, not {self.marginal(at)} at {at}")

    def __call__(self, epsilon: Any) -> Array:
        return np.asarray(self.g(np.asarray(epsilon, np.float64)), np.float64)

    def marginal(self, epsilon: Any) -> Array:
        return np.asarray(self.derivative(np.asarray(epsilon, np.float64)), np.float64)


def as_cost(cost: Any) -> Cost:
    """A `Cost`, from one or from a pair `(g, g')`; ValueError for anything else."""
    if isinstance(cost, Cost):
        return cost
    if isinstance(cost, Sequence) and len(cost) == 2 and all(callable(part) for part in cost):
        return CustomCost(*cost)
    raise ValueError(
        f"cost must be QuadraticCost(c), LinearCost(c), ExponentialCost(c), LogCost(c) or (g, g'), not {cost!r}"
    )


def distribution(name: str, value: Any) -> Array:
    """Return `value` as a distribution over at least two values, float64[M] that adds up to 1; raise ValueError otherwise."""
    array = vector(name, value)
    if array.size < 2 or (array < 0).any() or abs(array.sum() - 1) > 1e-6:
        raise ValueError(f"{name} must be at least two numbers >= 0 that add up to 1, not {value!r}")
    return array / array.sum()


# Closed forms.


def informativeness(theta: Any, epsilon: Any, reporting: Reporting | None = None) -> Array:
    """A(eps, theta) = max over x of (dP_X / d eps) / P_X (2.14), [...] for theta [..., M] and budgets [...]."""
    theta = np.asarray(theta, np.float64)
    reporting = reporting or KaryReport(theta.shape[-1])
    law, slope = reporting.law(theta, epsilon), reporting.law_slope(theta, epsilon)
    return np.divide(slope, law, out=np.full(np.broadcast(slope, law).shape, -np.inf), where=law > 0).max(-1)


def payment_lower_bound(theta: Any, epsilon: Any, cost: Any, reporting: Reporting | None = None) -> Any:
    """The least that an individual can be paid in expectation for a budget of at least `epsilon`: Theorem 1, (2.13) corrected to (2.19).

    For k-ary response and convex g it is g'(e) (e + M) (e t + 1) / (M t - 1), t = max theta.

    Args:
        theta: [..., M].
        epsilon: the target, [...] > 0.
        cost: g.
        reporting: the mechanism; None: k-ary response.

    Returns:
        float, or float64[...]; inf where theta is uniform, as then no report tells anything.
    """
    theta, target = np.asarray(theta, np.float64), np.asarray(epsilon, np.float64)
    cost = as_cost(cost)
    theta = np.broadcast_to(theta, (*np.broadcast_shapes(theta.shape[:-1], target.shape), theta.shape[-1]))
    target = np.broadcast_to(target, theta.shape[:-1])

    def price(at: Array) -> Array:
        told = informativeness(theta[..., None, :], at, reporting)
        # Rounding leaves some 1e-16 of a uniform theta.
        told = np.where(told > 1e-13, told, 0.0)
        with np.errstate(divide="ignore", over="ignore"):
            return cost.marginal(at) / told

    at = target[..., None] + np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 120)])
    least, best = _least(price, at)
    for _ in range(12):
        inside = best > 0
        if not inside.any():
            break
        low, high = (np.take_along_axis(at, np.clip(best + d, 0, at.shape[-1] - 1), -1) for d in (-1, 1))
        at = low + (high - low) * np.linspace(0, 1, 17)
        value, best = _least(price, at)
        least = np.where(inside[..., 0], np.minimum(least, value), least)
    return float(least) if least.ndim == 0 else least


def _least(price: Callable[[Array], Array], at: Array) -> tuple[Array, Array]:
    """The least price over the last axis, [...], and where it is, int[..., 1]."""
    prices = price(at)
    best = np.argmin(prices, -1)[..., None]
    return np.take_along_axis(prices, best, -1)[..., 0], best


def winning_report(theta: Any, epsilon: Any, reporting: Reporting | None = None) -> tuple[Array, Array]:
    """x*, the report that tells most (2.15), and dP_X / d eps there, [...] each, for theta [..., M] and budgets [...].

    The payment is g' over the latter (2.18). Where no report's probability rises with eps, it is 0.
    """
    theta = np.asarray(theta, np.float64)
    reporting = reporting or KaryReport(theta.shape[-1])
    law, slope = np.broadcast_arrays(reporting.law(theta, epsilon), reporting.law_slope(theta, epsilon))
    rises = (law > 0) & (slope > 1e-13)
    best = np.argmax(np.divide(slope, law, out=np.full(law.shape, -np.inf), where=rises), -1)
    return best, np.where(rises.any(-1), np.take_along_axis(slope, best[..., None], -1)[..., 0], 0.0)


def wintall_payment(count: Any, num_reports: Any, num_values: int, epsilon: Any, marginal_cost: Any) -> Array:
    """What each reporter of the winner is paid: g'(e) (M + e) e / (M f - 1), f = count / num_reports (2.22).

    0 for a degenerate tally, M count = num_reports, or one in which the winner has fewer. Arguments broadcast.
    """
    count, total = np.asarray(count, np.int64), np.asarray(num_reports, np.int64)
    excess = num_values * count - total
    e = np.asarray(epsilon, np.float64)
    amount = np.asarray(marginal_cost, np.float64) * (num_values + e) * e * total
    shape = np.broadcast_shapes(amount.shape, excess.shape)
    return np.divide(amount, excess, out=np.zeros(shape), where=np.broadcast_to(excess > 0, shape))


def estimator_error(theta: Any, epsilon: float, num_individuals: int, played: float | None = None) -> Array:
    """Mean squared error of the estimate ((e + M) f - 1) / e of each value, exactly: float64[M].

    Args:
        theta: [M].
        epsilon: e, which the platform takes for everyone's budget.
        num_individuals: N reports.
        played: everyone's budget in truth; None: e. The estimate is biased if it is another.
    """
    theta = distribution("theta", theta)
    law = KaryReport(theta.size).law(theta, epsilon if played is None else played)
    bias = KaryReport(theta.size).estimate(law, epsilon) - theta
    return bias**2 + ((epsilon + theta.size) / epsilon) ** 2 * law * (1 - law) / num_individuals


def theorem_2_holds(cost: Any, epsilon: float, num_values: int) -> bool:
    """Whether the payoff W P_X(x*; theta, eps) - g(eps) of Theorem 2 is strictly concave in eps, for k-ary response and any theta.

    Its derivative is g'(e) (e + M)^2 / (eps + M)^2 - g'(eps), whatever theta; it must fall throughout (looked at on a grid).
    """
    cost = as_cost(cost)
    at = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, 1000) * max(epsilon, 1.0)])
    with np.errstate(invalid="ignore"):
        slope = float(cost.marginal(epsilon)) * ((epsilon + num_values) / (at + num_values)) ** 2 - cost.marginal(at)
        falls = np.diff(slope) < 0
    return bool(falls[np.isfinite(slope[1:])].all())


# The finite game.


def _circle(size: int) -> int:
    """How many points tell the coefficient of z^size in e^(size (z - 1)) from all others: a share of e^-42 of these gets in."""
    from scipy.special import gammaln

    away = np.arange(1, int(10 * math.sqrt(size)) + 40)
    above = gammaln(size + away + 1) - gammaln(size + 1) - away * math.log(size)
    below = gammaln(np.maximum(size - away, 0) + 1) - gammaln(size + 1) + away * math.log(size)
    return 1 + int(away[np.minimum(above, np.where(away > size, np.inf, below)) > 42][0])


def wins(laws: Any, sizes: Any) -> Array:
    """Who wins, exactly: P(the winner is m and has been reported c times | my own report is m), [M, N + 1] over m and c.

    The others report independently, `sizes[g]` of them by `laws[g]`; N is one more than they are. Ties are broken uniformly.

    The counts are Poisson variates given their sum. Their generating function, in which values other than m are cut off at c and
    those at c marked by u, is a product over values; integrating u over [0, 1] makes E[1 / (1 + ties)], by Gauss-Legendre exactly; the
    coefficient of the sums is a mean over points of a circle for each group, so many that what else they pick up is below rounding.

    Args:
        laws: [G, M], one or several groups.
        sizes: int[G].

    Cost:
        O(points M^2 c): 0.1 s for N = 1,000 and M = 10 in one group; points grow as sqrt(N), and multiply over groups.

    Raises:
        ValueError: groups of which there are too many to do this exactly.
    """
    laws, sizes = np.atleast_2d(np.asarray(laws, np.float64)), np.atleast_1d(np.asarray(sizes, np.int64))
    keep = sizes > 0
    laws, sizes = laws[keep], sizes[keep]
    values, total = laws.shape[1], int(sizes.sum()) + 1
    circles = [_circle(size) for size in sizes.tolist()]
    points = math.prod(circles)
    if points > 300_000:
        raise ValueError(
            f"others must fall into fewer or smaller groups of one budget each, not groups of {sizes.tolist()}"
        )
    means = (sizes[:, None] * laws).sum(0)
    # log of the arguments, and the weight of each point: conjugate points need no visit on the first circle.
    argument, weight = np.zeros((values, 1), np.complex128), np.ones(1, np.complex128)
    for g, (size, circle) in enumerate(zip(sizes.tolist(), circles, strict=True)):
        turn = np.arange(circle // 2 + 1 if g == 0 else circle)
        twice = np.where((turn == 0) | (2 * turn == circle), 1.0, 2.0) if g == 0 else np.ones(circle)
        angle = 2 * np.pi * turn / circle
        log_chance = size * math.log(size) - size - math.lgamma(size + 1)
        own = twice * np.exp(-1j * size * angle - log_chance) / circle
        argument = (argument[:, :, None] + size * laws[g][:, None, None] * np.exp(1j * angle)).reshape(values, -1)
        weight = (weight[:, None] * own).ravel()
    # Below `start` a count has no chance that a float could tell from 0.
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
    """What a platform announces: a rule, and what it pays by.

    Args:
        rule: one of `RULES`.
        target: e.
        scale: what the rule makes of it: the world's docstring tells.
        value: for which a price is posted.
        reference: shares of the values, for the peer truth serum; None: uniform.
        payment_cap: the most that anyone is paid.
    """

    rule: str
    target: float
    scale: float
    value: int = 0
    reference: Any = None
    payment_cap: float = math.inf

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        number("target", self.target, above=0)
        number("scale", self.scale, at_least=0)

    def announcement(self, theta: Array, cost: Cost, target: float | None = None) -> "Announcement":
        """Itself, as platforms' policies tell theirs."""
        return self

    def prizes(self, laws: Array, sizes: Array) -> Array:
        """What each report of mine is paid in expectation, [M], if `sizes[g]` others report by `laws[g]` [G, M] (k-ary response)."""
        laws, sizes = np.atleast_2d(laws), np.atleast_1d(sizes)
        values, others = laws.shape[1], int(sizes.sum())
        if self.rule == "wintall":
            counts = np.arange(others + 2)
            paid = wintall_payment(counts, others + 1, values, self.target, self.scale)
            return wins(laws, sizes) @ np.minimum(paid, self.payment_cap)
        if self.rule == "flat_rate":
            prize, chance = np.full(values, self.scale), np.ones(values)
        elif self.rule == "posted_price":
            prize, chance = self.scale * (np.arange(values) == self.value), np.ones(values)
        else:
            chance = sizes @ laws / max(others, 1)
            serum = self.rule == "peer_truth_serum" and self.reference is not None
            prize = self.scale / (values * np.asarray(self.reference)) if serum else np.full(values, self.scale)
        return np.minimum(prize, self.payment_cap) * chance


def best_epsilon(
    prizes: Array,
    theta: Array,
    cost: Cost,
    factor: Any = 1.0,
    *,
    at_most: float = math.inf,
    reporting: Reporting | None = None,
) -> tuple[Array, Array]:
    """The budget that earns most, and what it earns, [...] each: the largest of P_X(eps) . prizes - factor g(eps) (2.6).

    Under k-ary response P_X . prizes = mean + eps / (eps + M) gain, of the mean prize and the gain, theta . prizes - mean.

    Args:
        prizes: expected payment for each report, [..., x].
        theta: what the individual believes, [..., M].
        cost: g.
        factor: of g, [...].
        at_most: bound of budgets.
        reporting: the mechanism; None: k-ary response.
    """
    reporting = reporting or KaryReport(theta.shape[-1])
    m, factor = theta.shape[-1], np.asarray(factor, np.float64)
    if isinstance(reporting, KaryReport):
        mean = prizes.mean(-1)
        gain = (theta * prizes).sum(-1) - mean
        shape = np.broadcast_shapes(gain.shape, factor.shape)
        mantissa, exponent = np.frexp(np.broadcast_to(np.maximum(gain, 0) / factor, shape))
        # Individuals whose ratios differ by rounding only are solved for once.
        ratios, of = np.unique(np.ldexp(np.round(mantissa * 2.0**40), exponent - 40), return_inverse=True)
        ratio = ratios[:, None]
        best = _best(
            lambda at: ratio * (at / (at + m)) - cost(at),
            lambda at: ratio * m / (at + m) ** 2 - cost.marginal(at),
            m,
            at_most,
        )[of.reshape(shape)]
        return best, mean + best / (best + m) * gain - factor * cost(best)

    def payoff(at: Array) -> Array:
        earned = np.einsum("...gx,...x->...g", reporting.law(theta[..., None, :], at), prizes)
        return earned - factor[..., None] * cost(at)

    def slope(at: Array) -> Array:
        earned = np.einsum("...gx,...x->...g", reporting.law_slope(theta[..., None, :], at), prizes)
        return earned - factor[..., None] * cost.marginal(at)

    best = _best(payoff, slope, m, at_most)
    return best, payoff(best[..., None])[..., 0]


def _best(payoff: Callable[[Array], Array], slope: Callable[[Array], Array], m: int, at_most: float) -> Array:
    """Where a payoff is largest over budgets, [...]; it maps [..., g] budgets to payoffs, and so does its derivative `slope`.

    A grid of 129 shares eps / (eps + M) finds the neighbourhood, bisection of the derivative the place.
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
    theta: Any, epsilon: float, cost: Any, num_individuals: int, *, payment_cap: float = math.inf
) -> float:
    """What WINTALL pays an individual in expectation, exactly, if all N have the target budget and report by k-ary response.

    Degenerate tallies pay 0. As N grows it tends to (2.21), the bound of Theorem 1.
    """
    theta, size = distribution("theta", theta), integer("num_individuals", num_individuals, at_least=1)
    epsilon = number("epsilon", epsilon, above=0)
    law = KaryReport(theta.size).law(theta, epsilon)
    scale = float(as_cost(cost).marginal(epsilon))
    prizes = Announcement("wintall", epsilon, scale, payment_cap=payment_cap).prizes(law, np.array([size - 1]))
    return float(law @ prizes)


def exploitability(platform: Any, profile: Any, *, theta: Any, cost: Any, target: float | None = None) -> float:
    """How much an individual can gain at most by another budget than that of the profile, all others keeping to theirs.

    Args:
        platform: an `Announcement`, or a platform's policy (`Wintall()`, ...).
        profile: everyone's budget, [N]; NaN for who stays away.
        theta: [M], which everyone knows.
        cost: g, which is everyone's.
        target: what the platform aims at, if its policy does not say.

    Returns:
        The largest gain; 0 (up to rounding) in equilibrium.

    Raises:
        ValueError: a profile of too many different budgets (see `wins`).
    """
    theta, cost = distribution("theta", theta), as_cost(cost)
    announced = platform.announcement(theta, cost, target)
    budgets = np.atleast_1d(np.asarray(profile, np.float64))
    if not (np.isnan(budgets) | (budgets >= 0)).all():
        raise ValueError(f"profile must hold budgets >= 0, or NaN for who stays away, not {profile!r}")
    levels, sizes = np.unique(budgets[~np.isnan(budgets)], return_counts=True)
    reporting, gains = KaryReport(theta.size), []
    for level in [*levels, *[math.nan] * bool(np.isnan(budgets).any())]:
        prizes = announced.prizes(reporting.law(theta, levels), sizes - (levels == level))
        now = 0.0 if math.isnan(level) else float(reporting.law(theta, level) @ prizes - cost(level))
        gains.append(max(float(best_epsilon(prizes, theta, cost)[1]), 0.0) - now)
    return max(gains)
