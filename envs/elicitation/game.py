"""Exact solution of the game of finitely many individuals under a payment rule: winning probabilities and payments.

Jiang 2020, chapter 2; Theorem 2 is about the limit of this game.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.costs import Cost, as_cost
from taciturn.envs.elicitation.elementary import of_arrays
from taciturn.envs.elicitation.payments import AGREEMENT, RULES, as_probabilities, rule_payment, wintall_payment
from taciturn.envs.elicitation.reporting import KaryReport
from taciturn.validation import Floats, Ints, choice, integer, number


def _circle(size: int) -> int:
    """The number of points on a circle that isolate the coefficient of z^size in e^(size (z - 1)), up to aliased
    coefficients of at most e^-42 of it."""
    from scipy.special import gammaln

    away = np.arange(1, int(10 * math.sqrt(size)) + 40)
    above = gammaln(size + away + 1) - gammaln(size + 1) - away * math.log(size)
    below = gammaln(np.maximum(size - away, 0) + 1) - gammaln(size + 1) + away * math.log(size)
    return 1 + int(away[np.minimum(above, np.where(away > size, np.inf, below)) > 42][0])


def wins(distributions: ArrayLike, sizes: ArrayLike) -> Floats:
    """The exact P(m wins with c reports | my own report is m), [M, N + 1] over m and c.

    The other N - 1 individuals report independently, `sizes[g]` of them with distribution `distributions[g]`. Ties are
    broken uniformly.

    Multinomial counts are independent Poisson variates conditioned on their sum. Their generating function, truncated
    at c for values other than m and with a factor u for each count equal to c, is a product over values. Integrating
    over u in [0, 1] gives E[1 / (1 + ties)], exactly by Gauss-Legendre quadrature. Each group's coefficient is a mean
    over points of a circle, with enough points to keep aliasing below rounding errors.

    Args:
        distributions: [G, M], for G groups.
        sizes: int[G].

    Cost:
        O(points M^2 c): 0.1 s for N = 1,000 and M = 10 in one group; the number of points grows as sqrt(N), and
        multiplies over groups.

    Raises:
        ValueError: the groups are too many or too large for an exact result.
    """
    distributions, sizes = (
        np.atleast_2d(np.asarray(distributions, np.float64)),
        np.atleast_1d(np.asarray(sizes, np.int64)),
    )
    distributions, sizes = distributions[sizes > 0], sizes[sizes > 0]
    values, total = distributions.shape[1], int(sizes.sum()) + 1
    circles = [_circle(size) for size in sizes.tolist()]
    points = math.prod(circles)
    if points > 300_000:
        raise ValueError(
            f"others must fall into fewer or smaller groups of one budget each, not groups of {sizes.tolist()}"
        )
    means = (sizes[:, None] * distributions).sum(0)
    # The argument and weight of each point; on the first circle, conjugate points are counted twice instead of visited.
    argument, weight = np.zeros((values, 1), np.complex128), np.ones(1, np.complex128)
    for g, (size, circle) in enumerate(zip(sizes.tolist(), circles, strict=True)):
        turn = np.arange(circle // 2 + 1 if g == 0 else circle)
        twice = np.where((turn == 0) | (2 * turn == circle), 1.0, 2.0) if g == 0 else np.ones(circle)
        angle = 2 * np.pi * turn / circle
        log_chance = size * math.log(size) - size - math.lgamma(size + 1)
        own = twice * np.exp(-1j * size * angle - log_chance) / circle
        argument = (argument[:, :, None] + size * distributions[g][:, None, None] * np.exp(1j * angle)).reshape(
            values, -1
        )
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
    """An announcement of the platform: a payment rule and its parameters.

    Args:
        rule: one of `RULES`.
        target: e.
        scale: its meaning depends on the rule; see the environment's docstring.
        value: the report with a posted price.
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
        """This announcement itself, so it can take the place of a platform's policy."""
        return self

    def prizes(self, distributions: Floats, sizes: Ints) -> Floats:
        """The expected payment for each report, [M], if `sizes[g]` others report with distribution `distributions[g]`
        [G, M] (k-ary response)."""
        distributions, sizes = np.atleast_2d(distributions), np.atleast_1d(sizes)
        values, others = distributions.shape[1], int(sizes.sum())
        if self.rule == "wintall":
            counts = np.arange(others + 2)
            paid = wintall_payment(counts, others + 1, values, self.target, self.scale)
            return wins(distributions, sizes) @ np.minimum(paid, self.payment_cap)
        rule, posted = RULES.index(self.rule), np.arange(values) == self.value
        reference = np.full(values, 1 / values) if self.reference is None else self.reference
        paid = of_arrays(rule_payment)(rule, self.scale, 0.0, posted, reference, values)
        agreement = sizes @ distributions / max(others, 1) if rule >= AGREEMENT else 1.0
        return np.minimum(paid, self.payment_cap) * agreement


def expected_payment(
    theta: ArrayLike, epsilon: float, cost: Any, num_individuals: int, *, payment_cap: float = math.inf
) -> float:
    """WINTALL's exact expected payment to an individual if all N have the target budget, under k-ary response.

    As N grows it tends to W P_X(x*) [Jiang 2.21], which is the bound of Theorem 1. Degenerate tallies pay 0.
    """
    theta, size = as_probabilities("theta", theta), integer("num_individuals", num_individuals, at_least=1)
    epsilon = number("epsilon", epsilon, above=0)
    distribution = KaryReport(theta.size).distribution(theta, epsilon)
    scale = float(as_cost(cost).marginal(epsilon))
    prizes = Announcement("wintall", epsilon, scale, payment_cap=payment_cap).prizes(distribution, np.array([size - 1]))
    return float(distribution @ prizes)
