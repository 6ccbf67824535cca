"""What must a platform pay strangers for private data, if they choose how much noise to add and earn by what they report?

Description
    Individual i holds a value `S_i ~ theta` of M, chooses a budget `eps_i` (or stays away) before seeing it, and reports `X_i` by a
    mechanism `P(x | s; eps_i)`, at a cost `g_i(eps_i)`. The platform announces a target quality and a rule of payment; reports are
    drawn, payments made, and `theta` is estimated as if everyone had chosen the target. So a campaign goes; there are several.

Paper
    Jiang 2020 (dissertation), chapter 2: model 2.2, the bound of Theorem 1, WINTALL and Theorem 2 in 2.3, equations (2.1)-(2.27).

Agents
    `platform_0`, then `individual_0 .. individual_{N-1}`: two turns make a campaign. In the Parallel form a step is a campaign:
    individuals answer the announcement that stands, and the platform's action is the next one; the first is rule 0 at the target of
    the parameters, its scale the marginal cost there.

Observation
    Box float32. Platform: `[target, scale, (rule), (value)]` as announced last, then of the last campaign `shares` of the reports,
    `participation`, `payment` (each participant's, on average), `degenerate`; `past_shares` of all reports so far, `time_left` (share of
    the campaigns), and `reports` (-1: none) if `show_reports`. Individuals: the announcement that stands, `reference` (0 where it does not
    matter), their own `cost` parameter and `belief` about theta. Nobody sees theta, and the platform neither values nor budgets.

Action
    Platform: Box float32 `[target, scale, (rule), (value)]`; `rule` (if there are several) and `value` (if prices may be posted) are
    rounded down; a target below 0.01 counts as 0.01. Individuals: Box float32 `[eps]`; below 0: stay away.

Reward
    Individuals: payment minus cost. Platform: minus all payments, minus `penalty` times, under objective "quality", the sum over
    individuals of what their eps falls short of the parameters' target (who stays away has 0), or, under "error", N times the squared
    error of the estimate, summed over values.

Rules of payment, by the announced `scale` and target e
    - `wintall`: to each report of the winner, `scale (M+e) e / (M f - 1)`, f its share (2.22); the scale stands for g'(e). With other
      mechanisms than k-ary response, (2.15)-(2.18) at the estimate. Degenerate tallies pay 0; nobody is paid above `payment_cap`.
    - `flat_rate`: `scale` to each.
    - `posted_price`: `scale` for each report of the announced `value`.
    - `output_agreement`: `scale` to each whose report is that of a peer, drawn for each from the others (von Ahn & Dabbish 2004).
    - `peer_truth_serum`: the same, divided by M times the report's share in `reference`, which is that of all past reports with one of
      each value added (after Jurca & Faltings 2011, without the constant that may make payments negative).

Termination
    Truncated after `campaigns`.

Info
    After each campaign `theta`, `estimate`, `error` (squared, summed over values), `winner` (-1: none), `tie`, `degenerate`, `payment` (a
    participant's, on average), `lower_bound`, `payment_ratio` (payment over bound; 0 where the bound is infinite), `total_payment`,
    `participation`, `messages` (reports received so far), and by individual `data`, `budgets` (-1: stayed away), `epsilon` (the report's
    level of differential privacy), `payments`, `costs`.

Privacy channels
    `report`: categorical, from individuals to the platform. Individuals perturb what they say by themselves, each at level
    log(1 + eps); no other mechanism is allowed on it. `tacit.simulate` keeps the ledger of what they chose; elsewhere
    `reset(options={"channels": {"report": Setup(ledger=Ledger)}})` does. A value enters one report, so at event level the largest
    level counts, and at user level their sum.

Arguments
    - num_individuals: N >= 1.
    - theta: a distribution over M >= 2 values, or M: then it is drawn uniformly from the simplex at each reset.
    - cost: `QuadraticCost(c)`, `LinearCost(c)`, `ExponentialCost(c)`, `LogCost(c)`, or `(g, g')`, functions of arrays.
    - cost_spread: in [0, 1); individual i's cost is `u_i g`, `u_i` uniform in 1 -+ spread; it observes `u_i c` (c = 1 for a pair).
    - belief_concentration: beliefs are drawn from Dirichlet(concentration theta); inf: individuals know theta.
    - campaigns: >= 1; `options={"horizon": n}` at reset replaces it.
    - target: the quality wanted, in [0.01, max_epsilon].
    - objective: "quality" or "error"; penalty: >= 0.
    - rules: those which may be announced.
    - reporting: "k_ary", "rappor" or "oue", the latter two up to M = 10: a report is then one of 2^M bit strings, read as a number.
    - max_epsilon, max_scale: bounds of actions. payment_cap: bound of one payment.
    - show_reports: whether the platform sees who said what.

Deviations from the paper
    Theorem 1 is printed with `g' A` for `g' / A`, as its own (2.19) shows; the bound here is min over eps >= target of `g' / A`.
    A strictly concave payoff is stationary at the target, which (2.5) writes as being 0 there. The equilibrium of Theorem 2 is
    asymptotic, for individuals who think that their report moves no winner: `FiniteBestResponse` and `exploitability` drop that.
    Everyone at eps = 0 is an equilibrium of WINTALL too. Theorem 2 needs concavity, which `g = c log(1 + eps)` lacks:
    `theorem_2_holds` tells, `Wintall` warns. Tallies in which no value is above 1/M pay 0, where (2.22) has no finite value.
    Values are drawn afresh for every campaign, which the paper, having one, leaves open. Individuals who trust the announced target
    can be misled: a low one with a high scale elicits the same budgets for less than the bound.

Registered configurations
    `tacit/Elicitation-v0`: the platform's side (`tacit.elicitation`), WINTALL's scale and target to choose, against best responders.

Version history
    v0: first version.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import gymnasium
import numpy as np

from tacit.envs.core import Array, Channel, Layout, Population, Role, Setup, World, choice, integer, number, vector
from tacit.envs.core.population import Acts
from tacit.wrappers.privacy.mechanisms import KaryRandomizedResponse, UnaryEncoding, k_ary_response

__all__ = [
    "MIN_TARGET",
    "RULES",
    "Announcement",
    "BitwiseReport",
    "Cost",
    "CustomCost",
    "Elicitation",
    "ExponentialCost",
    "KaryReport",
    "LinearCost",
    "LogCost",
    "Params",
    "QuadraticCost",
    "Reporting",
    "State",
    "TableReport",
    "as_cost",
    "best_epsilon",
    "elicitation_v0",
    "estimator_error",
    "expected_payment",
    "exploitability",
    "informativeness",
    "payment_lower_bound",
    "theorem_2_holds",
    "winning_report",
    "wintall_payment",
]

RULES = ("wintall", "flat_rate", "posted_price", "output_agreement", "peer_truth_serum")
WINTALL, FLAT, POSTED, AGREEMENT, SERUM = range(5)
REPORTING = ("k_ary", "rappor", "oue")
MIN_TARGET = 0.01


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


# How a value becomes a report.


class Reporting(ABC):
    """A mechanism P(x | s; eps) of level log(1 + eps), and what its reports tell about theta.

    `table` and `slope`, its derivative in eps, are all it must give (with `sample` where budgets differ); the rest follows.

    Attributes:
        num_values: M.
        num_reports: how many reports x there are.
    """

    num_values: int
    num_reports: int

    @abstractmethod
    def table(self, epsilon: Any) -> Array:
        """P(x | s; eps): [..., x, s] for budgets [...]."""

    @abstractmethod
    def slope(self, epsilon: Any) -> Array:
        """d P(x | s; eps) / d eps: [..., x, s] for budgets [...]."""

    def law(self, theta: Array, epsilon: Any) -> Array:
        """P_X(x; theta, eps), [..., x], for theta [..., M] and budgets [...]."""
        return np.einsum("...xs,...s->...x", self.table(epsilon), theta)

    def law_slope(self, theta: Array, epsilon: Any) -> Array:
        """dP_X / d eps, [..., x], for theta [..., M] and budgets [...]."""
        return np.einsum("...xs,...s->...x", self.slope(epsilon), theta)

    def sample(self, values: Array, epsilon: Array, rng: np.random.Generator) -> Array:
        """Reports int64[...] on `values` int[...] at budgets [...], by inversion of the table."""
        column = np.take_along_axis(self.table(epsilon), values[..., None, None], -1)[..., 0]
        below = np.cumsum(column, -1) <= rng.random(values.shape)[..., None]
        return np.minimum(below.sum(-1), self.num_reports - 1)

    def estimate(self, shares: Array, epsilon: Any) -> Array:
        """Unbiased estimate of theta, [..., M], from shares of the reports [..., x] at budgets [...]; not clipped."""
        return np.einsum("...sx,...x->...s", np.linalg.pinv(self.table(epsilon)), shares)


@dataclass(frozen=True)
class TableReport(Reporting):
    """A mechanism given by its table and the derivative, functions of eps [...] that return [..., x, s]."""

    tables: Callable[[Array], Array]
    slopes: Callable[[Array], Array]

    def __post_init__(self) -> None:
        shape = self.tables(np.ones(())).shape
        if len(shape) != 2 or self.slopes(np.ones(())).shape != shape:
            raise ValueError(f"tables and slopes must both return [..., x, s], not {shape} and another shape")
        object.__setattr__(self, "num_reports", shape[0])
        object.__setattr__(self, "num_values", shape[1])

    def table(self, epsilon: Any) -> Array:
        return self.tables(np.asarray(epsilon, np.float64))

    def slope(self, epsilon: Any) -> Array:
        return self.slopes(np.asarray(epsilon, np.float64))


@dataclass(frozen=True)
class KaryReport(Reporting):
    """k-ary randomised response: P(same) = (eps+1) / (eps+M), P(other) = 1 / (eps+M), and what follows from it in closed form."""

    num_values: int

    @property
    def num_reports(self) -> int:  # type: ignore[override]
        return self.num_values

    def table(self, epsilon: Any) -> Array:
        e = np.asarray(epsilon, np.float64)[..., None, None]
        return (1 + e * np.eye(self.num_values)) / (e + self.num_values)

    def slope(self, epsilon: Any) -> Array:
        e = np.asarray(epsilon, np.float64)[..., None, None]
        return (self.num_values * np.eye(self.num_values) - 1) / (e + self.num_values) ** 2

    def law(self, theta: Array, epsilon: Any) -> Array:
        """(eps theta + 1) / (eps + M)."""
        e = np.asarray(epsilon, np.float64)[..., None]
        return (e * theta + 1) / (e + self.num_values)

    def law_slope(self, theta: Array, epsilon: Any) -> Array:
        """(M theta - 1) / (eps + M)^2."""
        e = np.asarray(epsilon, np.float64)[..., None]
        return (self.num_values * theta - 1) / (e + self.num_values) ** 2

    def sample(self, values: Array, epsilon: Array, rng: np.random.Generator) -> Array:
        return k_ary_response(values, epsilon, self.num_values, rng)

    def estimate(self, shares: Array, epsilon: Any) -> Array:
        """((eps + M) f - 1) / eps."""
        e = np.asarray(epsilon, np.float64)[..., None]
        return ((e + self.num_values) * shares - 1) / e


@dataclass(frozen=True)
class BitwiseReport(Reporting):
    """Unary encoding (`UnaryEncoding`) at level log(1 + eps): bit k is 1 with probability p if the value is k, else q.

    A report is the number that its bits spell, bit 0 the lowest.

    Args:
        num_values: M, up to 10.
        variant: "symmetric" (basic RAPPOR) or "optimised" (OUE).
    """

    num_values: int
    variant: str = "symmetric"

    def __post_init__(self) -> None:
        integer("num_values", self.num_values, at_least=2, at_most=10)
        choice("variant", self.variant, ("symmetric", "optimised"))

    @property
    def num_reports(self) -> int:  # type: ignore[override]
        return int(2**self.num_values)

    @cached_property
    def bits(self) -> Array:
        """bool[x, k]."""
        return (np.arange(self.num_reports)[:, None] >> np.arange(self.num_values)) % 2 == 1

    def chances(self, epsilon: Any) -> tuple[Array, Array]:
        """p and q, [...] each, for budgets [...]."""
        e = np.asarray(epsilon, np.float64)
        if self.variant == "symmetric":
            return np.sqrt(1 + e) / (np.sqrt(1 + e) + 1), 1 / (np.sqrt(1 + e) + 1)
        return np.full(e.shape, 0.5), 1 / (e + 2)

    def chance_slopes(self, epsilon: Any) -> tuple[Array, Array]:
        """dp / d eps and dq / d eps, [...] each."""
        e = np.asarray(epsilon, np.float64)
        if self.variant == "symmetric":
            slope = 1 / (2 * np.sqrt(1 + e) * (np.sqrt(1 + e) + 1) ** 2)
            return slope, -slope
        return np.zeros(e.shape), -1 / (e + 2) ** 2

    def _factors(self, p: Array, q: Array) -> Array:
        """The chance of each bit as it is in x, if the value is s: [..., x, s, k]."""
        own = np.eye(self.num_values, dtype=np.bool_)
        one = np.where(own, p[..., None, None], q[..., None, None])[..., None, :, :]
        return np.where(self.bits[:, None, :], one, 1 - one)

    def table(self, epsilon: Any) -> Array:
        return self._factors(*self.chances(epsilon)).prod(-1)

    def slope(self, epsilon: Any) -> Array:
        factors = self._factors(*self.chances(epsilon))
        dp, dq = self.chance_slopes(epsilon)
        own = np.eye(self.num_values, dtype=np.bool_)
        one = np.where(own, dp[..., None, None], dq[..., None, None])[..., None, :, :]
        relative = np.where(self.bits[:, None, :], one, -one) / factors
        return factors.prod(-1) * relative.sum(-1)

    def sample(self, values: Array, epsilon: Array, rng: np.random.Generator) -> Array:
        p, q = self.chances(epsilon)
        reports = np.zeros(values.shape, np.int64)
        for k in range(self.num_values):
            one = rng.random(values.shape) < np.where(values == k, p, q)
            reports += one.astype(np.int64) << k
        return reports

    def estimate(self, shares: Array, epsilon: Any) -> Array:
        """(share of bit k - q) / (p - q)."""
        p, q = self.chances(epsilon)
        return (shares @ self.bits - q[..., None]) / (p - q)[..., None]

    def mechanism(self, epsilon: float) -> UnaryEncoding:
        """What it is to `tacit.wrappers`, at a budget > 0."""
        return UnaryEncoding(math.log1p(epsilon), self.variant)


def make_reporting(name: str, num_values: int) -> Reporting:
    """The mechanism of that name in `REPORTING`."""
    if name == "k_ary":
        return KaryReport(num_values)
    return BitwiseReport(num_values, "symmetric" if name == "rappor" else "optimised")


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


# The world.


@dataclass(frozen=True, kw_only=True)
class Params:
    """The world's parameters, checked."""

    num_individuals: int = 100
    theta: Any = (0.4, 0.3, 0.2, 0.1)
    cost: Any = field(default_factory=lambda: QuadraticCost(0.01))
    cost_spread: float = 0.0
    belief_concentration: float = 100.0
    campaigns: int = 10
    target: float = 1.0
    objective: str = "quality"
    penalty: float = 1.0
    rules: Sequence[str] = RULES
    reporting: str = "k_ary"
    max_epsilon: float = 10.0
    max_scale: float = 100.0
    payment_cap: float = 1e6
    show_reports: bool = False

    def __post_init__(self) -> None:
        integer("num_individuals", self.num_individuals, at_least=1)
        if isinstance(self.theta, int | np.integer):
            integer("theta", self.theta, at_least=2)
        else:
            distribution("theta", self.theta)
        as_cost(self.cost)
        number("cost_spread", self.cost_spread, at_least=0, below=1)
        if self.belief_concentration != math.inf:
            number("belief_concentration", self.belief_concentration, above=0)
        integer("campaigns", self.campaigns, at_least=1)
        number("max_epsilon", self.max_epsilon, above=MIN_TARGET)
        number("target", self.target, at_least=MIN_TARGET, at_most=self.max_epsilon)
        choice("objective", self.objective, ("quality", "error"))
        number("penalty", self.penalty, at_least=0)
        if isinstance(self.rules, str) or not self.rules or len(set(self.rules)) < len(self.rules):
            raise ValueError(f"rules must be a sequence of different rules of payment, not {self.rules!r}")
        for rule in self.rules:
            choice("rules", rule, RULES)
        choice("reporting", self.reporting, REPORTING)
        if self.reporting != "k_ary":
            integer("number of values under bitwise reporting", self.num_values, at_least=2, at_most=10)
        number("max_scale", self.max_scale, above=0)
        number("payment_cap", self.payment_cap, above=0)
        choice("show_reports", self.show_reports, (False, True))

    @property
    def num_values(self) -> int:
        """M."""
        return int(self.theta) if isinstance(self.theta, int | np.integer) else len(self.theta)


@dataclass(frozen=True)
class State:
    """B markets; x counts the reports there are, M of them under k-ary response."""

    theta: Array  # float64[B, M]
    belief: Array  # float64[B, N, M], or [B, 1, M] if all know theta
    factor: Array  # float64[B, N]: of the cost
    target: Array  # float64[B]: announced
    scale: Array  # float64[B]
    rule: Array  # int64[B]: place in RULES
    value: Array  # int64[B]: for which a price is posted
    bound: Array  # float64[B]: of Theorem 1, at the target
    counts: Array  # int64[B, x]: reports of the last campaign
    past: Array  # int64[B, x]: of all campaigns
    paid: Array  # float64[B]: to all, last
    degenerate: Array  # bool[B]: last
    winner: Array  # int64[B]: last; -1: none
    budget: Array  # float64[B, N]: eps, last; -1: stayed away
    reports: Array  # int64[B, N]: last, -1: none ([B, 0] unless they are shown)
    campaign: Array  # int64[B]: played
    sums: Array  # float64[B, len(SUMS)]: over the campaigns


SUMS = ("payment", "payment_ratio", "error", "shortfall", "epsilon", "participation", "utility", "degenerate", "paid")


def draw_values(theta: Array, size: int, rng: np.random.Generator) -> Array:
    """S_i ~ theta: int64[B, size] for theta [B, M]."""
    uniform, steps = rng.random((len(theta), size)), np.cumsum(theta, axis=1)[:, :-1]
    if steps.shape[1] > 12:
        return np.stack([np.searchsorted(s, u, side="right") for s, u in zip(steps, uniform, strict=True)])
    values = np.zeros(uniform.shape, np.int64)
    for step in steps.T:
        values += uniform >= step[:, None]
    return values


def draw_winner(counts: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """The most frequent report, ties broken uniformly, int64[B], and whether there was one, bool[B], for counts [B, x]."""
    most = counts == counts.max(-1, keepdims=True)
    tie = most.sum(-1) > 1
    return np.argmax(most * (1.0 + rng.random(counts.shape)), -1), tie


class Elicitation(Population[State]):
    __doc__ = __doc__
    name = "elicitation"
    params_type = Params
    params: Params
    turns = (("platform",), ("individual",))

    def __init__(self, params: Params, num_envs: int = 1) -> None:
        self.cost = as_cost(params.cost)
        self.reporting = make_reporting(params.reporting, params.num_values)
        super().__init__(params, num_envs)

    def make_roles(self) -> tuple[Role, ...]:
        p, m, x = self.params, self.params.num_values, self.reporting.num_reports
        announced: dict[str, tuple[int, float, float]] = {
            "target": (1, 0, p.max_epsilon),
            "scale": (1, 0, p.max_scale),
        }
        if len(p.rules) > 1:
            announced["rule"] = (1, 0, len(p.rules))
        if "posted_price" in p.rules:
            announced["value"] = (1, 0, x)
        self._announced = tuple(announced)
        shares: dict[str, tuple[int, float, float]] = {
            "shares": (x, 0, 1),
            "participation": (1, 0, 1),
            "payment": (1, 0, p.payment_cap),
            "degenerate": (1, 0, 1),
            "past_shares": (x, 0, 1),
            "time_left": (1, 0, 1),
        }
        reports: dict[str, tuple[int, float, float]] = {"reports": (p.num_individuals, -1, x)} if p.show_reports else {}
        high = np.array([high for _, _, high in announced.values()])
        seen = announced | ({"reference": (x, 0, 1)} if "peer_truth_serum" in p.rules else {})
        beliefs = {"cost": (1, 0.0, self.cost.c * (1 + p.cost_spread)), "belief": (m, 0, 1)}
        return (
            Role(
                "platform",
                1,
                Layout(**announced, **shares, **reports),
                gymnasium.spaces.Box(np.zeros(high.size, np.float32), high.astype(np.float32), dtype=np.float32),
            ),
            Role(
                "individual",
                p.num_individuals,
                Layout(**seen, **beliefs),
                gymnasium.spaces.Box(-1.0, p.max_epsilon, (1,), np.float32),
            ),
        )

    def make_channels(self) -> tuple[Channel, ...]:
        kind = KaryRandomizedResponse.kind if self.params.reporting == "k_ary" else UnaryEncoding.kind
        channel = Channel(
            "report", "categorical", observer="platform", unit="event", sender="individual", chosen=kind, disjoint=True
        )
        return (channel,)

    def check_setup(self, channel: str, setup: Setup) -> None:
        if setup.mechanism is not None:
            raise ValueError(f"channel {channel!r} takes no mechanism: individuals perturb what they say by themselves")

    @property
    def campaigns(self) -> float:
        """How many there are: the parameter, or the horizon that `reset` was given."""
        return self.params.campaigns if self.horizon is None else self.horizon

    def initial(self) -> State:
        p, b, n, m = self.params, self.num_envs, self.params.num_individuals, self.params.num_values
        if isinstance(p.theta, int | np.integer):
            theta = self.stream("theta").dirichlet(np.ones(m), b)
        else:
            theta = np.tile(distribution("theta", p.theta), (b, 1))
        belief = theta[:, None]
        if p.belief_concentration != math.inf:
            drawn = self.stream("beliefs").standard_gamma(p.belief_concentration * theta[:, None], (b, n, m))
            mass = drawn.sum(-1, keepdims=True)
            belief = np.where(mass > 0, drawn / np.where(mass > 0, mass, 1.0), theta[:, None])
        spread = self.stream("costs").uniform(1 - p.cost_spread, 1 + p.cost_spread, (b, n))
        nothing, none = np.zeros(b), np.zeros(b, np.int64)
        tally = np.zeros((b, self.reporting.num_reports), np.int64)
        target = np.full(b, p.target)
        return State(
            theta=theta, belief=belief, factor=spread if p.cost_spread else np.ones((b, n)), target=target,
            scale=np.clip(self.cost.marginal(target), 0, p.max_scale), rule=np.full(b, RULES.index(p.rules[0])), value=none,
            bound=self.bounds(theta, target), counts=tally, past=tally, paid=nothing, degenerate=np.zeros(b, np.bool_),
            winner=none - 1, budget=np.full((b, n), -1.0), reports=np.full((b, n if p.show_reports else 0), -1),
            campaign=none, sums=np.zeros((b, len(SUMS))),
        )  # fmt: skip

    def bounds(self, theta: Array, target: Array) -> Array:
        """Theorem 1's bound in each replica, [B]."""
        first = (theta == theta[0]).all() and (target == target[0]).all()
        if first:
            return np.full(len(theta), payment_lower_bound(theta[0], target[0], self.cost, self.reporting))
        return np.asarray(payment_lower_bound(theta, target, self.cost, self.reporting))

    # Announcements.

    def announce(self, rule: str, target: Any, scale: Any, value: Any = 0) -> Array:
        """The platform's action, float32[B, 1, D], that announces this; numbers or [B] each, within the action's bounds.

        Raises:
            ValueError: a rule that is not among the parameters' `rules`.
        """
        rules = self.params.rules
        if rule not in rules:
            raise ValueError(
                f"rule must be one of {', '.join(map(repr, rules))}, not {rule!r}: see the world's parameter rules"
            )
        space: Any = self.roles["platform"].action_space
        fields = {"target": target, "scale": scale, "rule": rules.index(rule) + 0.5, "value": np.asarray(value) + 0.5}
        action = np.stack(
            [np.broadcast_to(np.asarray(fields[name], np.float64), self.num_envs) for name in self._announced], -1
        )
        return np.clip(action[:, None].astype(np.float32), space.low, space.high)

    def default_action(self, role: str) -> Array:
        """Rule 0 at the parameters' target; its scale is the marginal cost there."""
        p = self.params
        return self.announce(p.rules[0], p.target, self.cost.marginal(p.target))

    def announced(self, state: State, action: Array) -> State:
        """The state after the platform's action [B, D]."""
        fields = dict(zip(self._announced, action.astype(np.float64).T, strict=True))
        rules = np.array([RULES.index(rule) for rule in self.params.rules])
        target, rule, value = (
            np.maximum(fields["target"], np.float32(MIN_TARGET)),
            rules[0] + np.zeros(self.num_envs, np.int64),
            state.value,
        )
        if "rule" in fields:
            rule = rules[np.minimum(fields["rule"].astype(np.int64), len(rules) - 1)]
        if "value" in fields:
            value = np.minimum(fields["value"].astype(np.int64), self.reporting.num_reports - 1)
        same = np.array_equal(target, state.target)
        bound = state.bound if same else self.bounds(state.theta, target)
        return replace(state, target=target, scale=fields["scale"], rule=rule, value=value, bound=bound)

    # Reports and payments.

    def reference(self, state: State) -> Array:
        """Shares of all past reports, with one of each added: [B, x]."""
        smoothed = state.past + 1.0
        return smoothed / smoothed.sum(-1, keepdims=True)

    def estimate(self, counts: Array, target: Array) -> Array:
        """theta as estimated from counts [B, x], [B, M]; uniform where nobody reported."""
        total = counts.sum(-1)
        found = self.reporting.estimate(counts / np.maximum(total, 1)[:, None], target)
        return np.where(total[:, None] > 0, found, 1 / self.params.num_values)

    def judge(self, state: State, counts: Array) -> tuple[Array, Array, Array, Array, Array]:
        """What the reports of a tally [B, x] are paid.

        Returns:
            (prize [B, x], chance [B, x] of getting it, winner [B], tie [B], degenerate [B]).
        """
        p, total, rule = self.params, counts.sum(-1), state.rule
        if p.reporting == "k_ary":
            winner, tie = draw_winner(counts, self.stream("ties"))
            most = np.take_along_axis(counts, winner[:, None], 1)[:, 0]
            amount = wintall_payment(most, total, p.num_values, state.target, state.scale)
            degenerate = p.num_values * most <= total
        else:
            winner, slope = winning_report(self.estimate(counts, state.target), state.target, self.reporting)
            tie, degenerate = np.zeros(self.num_envs, np.bool_), (slope == 0) | (total == 0)
            amount = np.divide(state.scale, slope, out=np.zeros(self.num_envs), where=~degenerate)
        winner, tie = np.where(total > 0, winner, -1), tie & (total > 0)
        places = np.arange(counts.shape[1])
        prize, chance = amount[:, None] * (places == winner[:, None]), np.ones(counts.shape)
        if (rule != WINTALL).any():
            scale = np.broadcast_to(state.scale[:, None], counts.shape)
            posted = scale * (places == state.value[:, None])
            serum = scale / (counts.shape[1] * self.reference(state))
            prize = np.choose(rule[:, None], [prize, scale, posted, scale, serum])
            agree = np.clip((counts - 1) / np.maximum(total - 1, 1)[:, None], 0, 1)
            chance = np.where(rule[:, None] >= AGREEMENT, agree, 1.0)
        return np.minimum(prize, p.payment_cap), chance, winner, tie, degenerate & (rule == WINTALL)

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        nobody = np.zeros(self.num_envs, np.bool_)
        if "platform" in actions:
            new = self.announced(state, actions["platform"][:, 0])
            return new, {"platform": np.zeros((self.num_envs, 1))}, nobody, nobody, {"lower_bound": new.bound.copy()}
        budget = actions["individual"][:, :, 0].astype(np.float64)
        joins = budget >= 0
        spent = np.where(joins, budget, 0.0)
        data = draw_values(state.theta, self.params.num_individuals, self.stream("data"))
        said = self.reporting.sample(data, spent, self.stream("reports"))
        levels = np.log1p(spent)
        heard, delivered = self.channels["report"].send_levels(said, levels, None if joins.all() else joins)
        everyone = bool(delivered.all())
        kinds = self.reporting.num_reports
        place = heard + kinds * np.arange(self.num_envs)[:, None]
        counts = np.bincount((place if everyone else place[delivered]).ravel(), minlength=kinds * self.num_envs)
        counts = counts.reshape(self.num_envs, kinds)
        prize, chance, winner, tie, degenerate = self.judge(state, counts)
        payments = prize.ravel()[place]
        if (chance < 1).any():
            payments = payments * (self.stream("peers").random(place.shape) < chance.ravel()[place])
        if not everyone:
            payments = payments * delivered
        costs = state.factor * self.cost(spent)
        if not joins.all():
            costs = costs * joins
        totals = {
            "paid": payments.sum(1),
            "cost": costs.sum(1),
            "shortfall": np.maximum(self.params.target - spent, 0).sum(1),
            "levels": levels.sum(1),
            "joined": joins.sum(1),
        }
        new, reward, found = self.settle(state, counts, winner, degenerate, totals, np.where(joins, budget, -1.0))
        if self.params.show_reports:
            new = replace(new, reports=np.where(delivered, heard, -1))
        info = found | {
            "theta": state.theta.copy(),
            "tie": tie,
            "messages": new.past.sum(-1),
            "data": {"individual": data},
            "budgets": {"individual": new.budget.copy()},
            "epsilon": {"individual": levels},
            "payments": {"individual": payments},
            "costs": {"individual": costs},
        }
        rewards = {"platform": reward[:, None], "individual": payments - costs}
        return new, rewards, nobody, new.campaign >= self.campaigns, info

    def settle(
        self, state: State, counts: Array, winner: Array, degenerate: Array, totals: dict[str, Array], budget: Array
    ) -> tuple[State, Array, dict[str, Any]]:
        """Close a campaign.

        Args:
            counts, winner, degenerate: of the tally.
            totals: what individuals come to together, [B] each: `paid`, `cost`, `shortfall`, `levels`, `joined`.
            budget: what each chose, [B, N].

        Returns:
            The new state, the platform's reward [B], and what info says of it.
        """
        p, n = self.params, self.params.num_individuals
        estimate = self.estimate(counts, state.target)
        error = ((estimate - state.theta) ** 2).sum(-1)
        penalty = p.penalty * (totals["shortfall"] if p.objective == "quality" else n * error)
        joined = totals["joined"]
        payment = totals["paid"] / np.maximum(joined, 1)
        ratio = payment / np.where(state.bound > 0, state.bound, np.inf)
        summed = {
            "payment": payment,
            "payment_ratio": ratio,
            "error": error,
            "shortfall": totals["shortfall"] / n,
            "epsilon": totals["levels"] / n,
            "participation": joined / n,
            "utility": (totals["paid"] - totals["cost"]) / n,
            "degenerate": degenerate,
            "paid": totals["paid"],
        }
        new = replace(
            state,
            counts=counts,
            past=state.past + counts,
            paid=totals["paid"],
            degenerate=degenerate,
            winner=winner,
            budget=budget,
            campaign=state.campaign + 1,
            sums=state.sums + np.stack([summed[name] for name in SUMS], -1),
        )
        info = {
            "estimate": estimate,
            "error": error,
            "winner": winner.copy(),
            "degenerate": degenerate.copy(),
            "payment": payment,
            "lower_bound": state.bound.copy(),
            "payment_ratio": ratio,
            "total_payment": totals["paid"].copy(),
            "participation": joined / n,
        }
        return new, -(totals["paid"] + penalty), info

    def leap(self, policies: Mapping[str, Acts], until: float) -> bool:
        """By the law of the tally, which is multinomial, where individuals all answer alike: policies with `common_epsilon`.

        A platform's policy that `stands` announces one thing at all times, and is asked once.
        """
        crowd, platform, channel = policies["individual"], policies["platform"], self.channels["report"]
        common = getattr(crowd, "common_epsilon", None)
        campaign = self.state.campaign
        alone = self._turn == 0 and not self.done.any() and (campaign == campaign[0]).all()
        if common is None or not alone or not channel.plain or self.params.show_reports:
            return False
        n, everyone = self.params.num_individuals, np.ones(self.num_envs, np.int64)
        cost = self.state.factor.sum(1)
        stands, action = getattr(platform, "stands", False), None
        while self.state.campaign[0] + 1 <= until and not self.done.all():
            if action is None or not stands:
                seen = self.observe_role(self.state, "platform")
                action = self.roles["platform"].check(platform.act(seen), (self.num_envs, 1))
            state = self.announced(self.state, action[:, 0])
            budget = np.asarray(common(state.target), np.float32).astype(np.float64)
            counts = self.stream("tallies").multinomial(n, self.reporting.law(state.theta, budget))
            prize, chance, winner, _, degenerate = self.judge(state, counts)
            happy = counts if (chance == 1).all() else self.stream("peers").binomial(counts, chance)
            level = np.log1p(budget)
            totals = {
                "paid": (happy * prize).sum(-1),
                "cost": cost * self.cost(budget),
                "shortfall": n * np.maximum(self.params.target - budget, 0),
                "levels": n * level,
                "joined": n * everyone,
            }
            answers = np.broadcast_to(budget[:, None], state.budget.shape)
            self._state, reward, _ = self.settle(state, counts, winner, degenerate, totals, answers)
            channel.book(everyone)
            if self.ledger is not None:
                self.ledger.charge_levels(
                    channel.name, np.broadcast_to(level[:, None], answers.shape), kind=channel.chosen
                )
            self.truncated = self._state.campaign >= self.campaigns
            if not stands:
                platform.update(seen, action, reward[:, None], self.done)
        return True

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        p, layout = self.params, self.roles[role].layout
        rules = {RULES.index(rule): place for place, rule in enumerate(p.rules)}
        rule = np.array([rules.get(k, 0) for k in range(len(RULES))])[state.rule]
        announced = {"target": state.target, "scale": state.scale, "rule": rule, "value": state.value}
        if role == "platform":
            total, past = state.counts.sum(-1), state.past.sum(-1)
            fields = {name: announced[name] for name in self._announced} | {
                "shares": state.counts / np.maximum(total, 1)[:, None],
                "participation": total / p.num_individuals,
                "payment": state.paid / np.maximum(total, 1),
                "degenerate": state.degenerate,
                "past_shares": state.past / np.maximum(past, 1)[:, None],
                "time_left": 1 - state.campaign / self.campaigns,
            }
            if p.show_reports:
                fields["reports"] = state.reports
            return layout.pack(**{name: np.asarray(value)[:, None] for name, value in fields.items()})
        shape = state.factor.shape
        own = {name: np.broadcast_to(announced[name][:, None], shape) for name in self._announced}
        if "peer_truth_serum" in p.rules:
            reference = self.reference(state) * (state.rule == SERUM)[:, None]
            own["reference"] = np.broadcast_to(reference[:, None], (*shape, reference.shape[-1]))
        belief = np.broadcast_to(state.belief, (*shape, p.num_values))
        return layout.pack(**own, cost=self.cost.c * state.factor, belief=belief)

    def clock(self) -> Array:
        return self.state.campaign.astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        return {
            name: partial(dict.__getitem__, self.metrics(), name) for name in (*SUMS[:-1], "total_payment", "messages")
        }

    def metrics(self) -> dict[str, Array]:
        """Means over the campaigns: `payment` (a participant's), `payment_ratio` (over Theorem 1's bound), `error` (squared, summed over
        values), `shortfall` (of eps, an individual's), `epsilon` (level of differential privacy an individual gave up), `participation`,
        `utility` (an individual's), `degenerate` (share of the tallies); over all, `total_payment` and `messages`."""
        s = self.state
        means = s.sums / np.maximum(s.campaign, 1)[:, None]
        found = {name: means[:, i].copy() for i, name in enumerate(SUMS) if name != "paid"}
        return found | {
            "total_payment": s.sums[:, SUMS.index("paid")].copy(),
            "messages": s.past.sum(-1).astype(np.float64),
        }

    def describe(self, replica: int = 0) -> str:
        s, i = self.state, replica
        rule = RULES[s.rule[i]]
        tally = " ".join(str(count) for count in s.counts[i][:12])
        joined = s.budget[i][s.budget[i] >= 0]
        answer = f"{joined.size} join at eps {joined.mean():.3f}" if joined.size else "nobody joins"
        end = "degenerate" if s.degenerate[i] else f"winner {s.winner[i]}" if rule == "wintall" else rule
        return (
            f"campaign {s.campaign[i]:4d}  {rule} target {s.target[i]:.3f} scale {s.scale[i]:.4f}  {answer}  "
            f"tally [{tally}] {end}  paid {s.paid[i]:.4f}"
        )

    def draw(self, axes: Any, replica: int = 0) -> None:
        s, p, i = self.state, self.params, replica
        rule, kinds = RULES[s.rule[i]], s.counts.shape[1]
        shares = s.counts[i] / max(int(s.counts[i].sum()), 1)
        colours = [
            "#e0a526" if rule == "wintall" and x == s.winner[i] and not s.degenerate[i] else "#9fb1c7"
            for x in range(kinds)
        ]
        axes.bar(np.arange(kinds), shares, color=colours, width=0.7, label="reports")
        if s.counts[i].any() and p.reporting == "k_ary":
            estimate = np.clip(self.estimate(s.counts, s.target)[i], 0, 1)
            axes.plot(np.arange(kinds), estimate, "D", color="#2a6f4e", markersize=5, label="estimate of theta")
            axes.plot(
                np.arange(kinds), s.theta[i], "_", color="#b3403a", markersize=18, markeredgewidth=2, label="theta"
            )
        axes.set_ylim(0, 1)
        axes.set_xlabel("reported value (the winner in gold)" if rule == "wintall" else "reported value")
        axes.set_ylabel("share")
        if kinds <= 20:
            axes.set_xticks(np.arange(kinds))
        axes.legend(loc="upper left", frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        joined = s.budget[i][s.budget[i] >= 0]
        inset = axes.inset_axes((0.6, 0.6, 0.38, 0.34))
        inset.hist(joined, bins=np.linspace(0, max(2 * p.target, float(joined.max(initial=0))), 25), color="#47597e")
        inset.axvline(s.target[i], color="#b3403a", linewidth=1)
        inset.set_title(f"eps chosen by {joined.size} of {p.num_individuals}; target {s.target[i]:.2f}", fontsize=8)
        inset.tick_params(labelsize=7)
        inset.set_yticks([])
        axes.set_title(
            f"campaign {s.campaign[i]}: {rule.replace('_', ' ')}, paid {s.paid[i]:.2f}"
            f" ({s.paid[i] / max(joined.size, 1):.3f} each, bound {s.bound[i]:.3f})",
            fontsize=10,
        )


class _World(World[Elicitation]):
    QuadraticCost = QuadraticCost
    LinearCost = LinearCost
    ExponentialCost = ExponentialCost
    LogCost = LogCost
    Announcement = Announcement
    payment_lower_bound = staticmethod(payment_lower_bound)
    expected_payment = staticmethod(expected_payment)
    estimator_error = staticmethod(estimator_error)
    theorem_2_holds = staticmethod(theorem_2_holds)
    exploitability = staticmethod(exploitability)


elicitation_v0 = _World(Elicitation)
parallel_env, aec_env = elicitation_v0.parallel_env, elicitation_v0.env
