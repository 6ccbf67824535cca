"""Mechanisms for reporting a private value at a chosen budget: k-ary response, RAPPOR and optimised unary encoding.

As in Jiang 2020, chapter 2, a budget is eps = e^level - 1, where `level` is the epsilon of differential privacy.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.validation import Bools, Floats, choice, integer

REPORTING = ("k_ary", "rappor", "oue")


def reported_share(share: Any, epsilon: Any, num_values: int) -> Any:
    """(eps theta_x + 1) / (eps + M): the share of reports of value x under k-ary response, given its share theta_x."""
    return (epsilon * share + 1.0) / (epsilon + num_values)


def share_slope(share: Any, epsilon: Any, num_values: int) -> Any:
    """(M theta_x - 1) / (eps + M)^2, the derivative of `reported_share` in eps."""
    return (num_values * share - 1.0) / ((epsilon + num_values) * (epsilon + num_values))


def debiased_share(share: Any, epsilon: Any, num_values: int) -> Any:
    """((eps + M) f - 1) / eps, the estimate of an entry of theta from its share f under k-ary response."""
    return ((epsilon + num_values) * share - 1.0) / epsilon


def bit_chances(epsilon: Any, symmetric: bool) -> Any:
    """The probabilities p and q of unary encodings: basic RAPPOR's if `symmetric`, otherwise OUE's."""
    if symmetric:
        root = np.sqrt(1.0 + epsilon)
        return root / (root + 1.0), 1.0 / (root + 1.0)
    return 0.5 + 0.0 * epsilon, 1.0 / (epsilon + 2.0)


class Reporting(ABC):
    """A mechanism P(x | s; eps) of level log(1 + eps), and the estimator of theta from its reports.

    A subclass must define `table` and its derivative `slope`; the other methods have general implementations.

    Attributes:
        num_values: M.
    """

    num_values: int

    @property
    def num_reports(self) -> int:
        """The number of possible reports x."""
        return self.num_values

    @abstractmethod
    def table(self, epsilon: ArrayLike) -> Floats:
        """P(x | s; eps) [Jiang 2.2]: [..., x, s] for budgets [...]."""

    @abstractmethod
    def slope(self, epsilon: ArrayLike) -> Floats:
        """d P(x | s; eps) / d eps: [..., x, s] for budgets [...]."""

    def distribution(self, theta: Floats, epsilon: ArrayLike) -> Floats:
        """P_X(x; theta, eps), [..., x], for theta [..., M] and budgets [...]."""
        return np.einsum("...xs,...s->...x", self.table(epsilon), theta)

    def distribution_slope(self, theta: Floats, epsilon: ArrayLike) -> Floats:
        """dP_X / d eps, [..., x], for theta [..., M] and budgets [...]."""
        return np.einsum("...xs,...s->...x", self.slope(epsilon), theta)

    def estimate(self, shares: Floats, epsilon: ArrayLike) -> Floats:
        """Unbiased estimate of theta, [..., M], from the shares of the reports [..., x] at budgets [...]; not
        clipped."""
        return np.einsum("...sx,...x->...s", np.linalg.pinv(self.table(epsilon)), shares)


@dataclass(frozen=True)
class KaryReport(Reporting):
    """k-ary randomised response: P(same) = (eps+1) / (eps+M), P(other) = 1 / (eps+M), in closed form."""

    num_values: int

    def table(self, epsilon: ArrayLike) -> Floats:
        e = np.asarray(epsilon, np.float64)[..., None, None]
        return (1 + e * np.eye(self.num_values)) / (e + self.num_values)

    def slope(self, epsilon: ArrayLike) -> Floats:
        e = np.asarray(epsilon, np.float64)[..., None, None]
        return (self.num_values * np.eye(self.num_values) - 1) / (e + self.num_values) ** 2

    def distribution(self, theta: Floats, epsilon: ArrayLike) -> Floats:
        """(eps theta + 1) / (eps + M)."""
        return np.asarray(reported_share(theta, np.asarray(epsilon, np.float64)[..., None], self.num_values))

    def distribution_slope(self, theta: Floats, epsilon: ArrayLike) -> Floats:
        """(M theta - 1) / (eps + M)^2."""
        return np.asarray(share_slope(theta, np.asarray(epsilon, np.float64)[..., None], self.num_values))

    def estimate(self, shares: Floats, epsilon: ArrayLike) -> Floats:
        """((eps + M) f - 1) / eps."""
        return debiased_share(shares, np.asarray(epsilon, np.float64)[..., None], self.num_values)


@dataclass(frozen=True)
class BitwiseReport(Reporting):
    """Unary encoding (`taciturn.wrappers.UnaryEncoding`) at level log(1 + eps): bit k is 1 with probability p if the
    value is k, else q.

    A report is the bit string as a binary number, bit 0 the lowest.

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
    def num_reports(self) -> int:
        return int(2**self.num_values)

    @cached_property
    def bits(self) -> Bools:
        """bool[x, k]."""
        return (np.arange(self.num_reports)[:, None] >> np.arange(self.num_values)) % 2 == 1

    def probabilities(self, epsilon: ArrayLike) -> tuple[Floats, Floats]:
        """p and q, [...] each, for budgets [...]."""
        return bit_chances(np.asarray(epsilon, np.float64), self.variant == "symmetric")

    def probability_slopes(self, epsilon: ArrayLike) -> tuple[Floats, Floats]:
        """dp / d eps and dq / d eps, [...] each."""
        e = np.asarray(epsilon, np.float64)
        if self.variant == "symmetric":
            slope = 1 / (2 * np.sqrt(1 + e) * (np.sqrt(1 + e) + 1) ** 2)
            return slope, -slope
        return np.zeros(e.shape), -1 / (e + 2) ** 2

    def _factors(self, p: Floats, q: Floats) -> Floats:
        """The probability of bit k of report x given value s: [..., x, s, k]."""
        own = np.eye(self.num_values, dtype=np.bool_)
        one = np.where(own, p[..., None, None], q[..., None, None])[..., None, :, :]
        return np.where(self.bits[:, None, :], one, 1 - one)

    def table(self, epsilon: ArrayLike) -> Floats:
        return self._factors(*self.probabilities(epsilon)).prod(-1)

    def slope(self, epsilon: ArrayLike) -> Floats:
        factors = self._factors(*self.probabilities(epsilon))
        dp, dq = self.probability_slopes(epsilon)
        own = np.eye(self.num_values, dtype=np.bool_)
        one = np.where(own, dp[..., None, None], dq[..., None, None])[..., None, :, :]
        relative = np.where(self.bits[:, None, :], one, -one) / factors
        return factors.prod(-1) * relative.sum(-1)

    def estimate(self, shares: Floats, epsilon: ArrayLike) -> Floats:
        """(share of bit k - q) / (p - q)."""
        p, q = self.probabilities(epsilon)
        return (shares @ self.bits - q[..., None]) / (p - q)[..., None]


def make_reporting(name: str, num_values: int) -> Reporting:
    """The mechanism with that name in `REPORTING`."""
    if name == "k_ary":
        return KaryReport(num_values)
    return BitwiseReport(num_values, "symmetric" if name == "rappor" else "optimised")
