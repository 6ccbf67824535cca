"""The privacy cost of one message: a class for each distribution of messages, with the data that accountants need."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.validation import Array

LOCAL = frozenset({"none", "randomized_response", "k_ary_randomized_response", "shuffled"})
"""Kinds that are locally private: their loss bounds any change of a message, however much of an agent's history has
changed."""


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy loss of a message: plain data that can be pickled and compared. The base class has only the two
    bounds `epsilon` and `rho`.

    Args:
        epsilon: of pure differential privacy; inf if it does not hold.
        rho: of zero-concentrated differential privacy (Bun & Steinke 2016); inf if it does not hold.

    Class attributes:
        kind: the name of the distribution.
    """

    kind: ClassVar[str] = "pure"
    epsilon: float
    rho: float

    def rdp(self, alpha: ArrayLike) -> Array:
        """Upper bound on the Renyi divergence of order alpha > 1 between adjacent inputs (Mironov 2017), float64 of
        alpha's shape: `divergence`, or min(alpha rho, epsilon) if that is smaller."""
        alpha = checks.reals("alpha", alpha)
        if not (alpha > 1).all():
            raise ValueError(f"alpha must hold numbers > 1, not {alpha[~(alpha > 1)][0]}")
        return np.clip(self.divergence(alpha), 0.0, np.minimum(alpha * self.rho, self.epsilon))

    def divergence(self, alpha: Array) -> Array:
        """The Renyi divergence of order alpha, in closed form if there is one."""
        pair = self.dominating_pair()
        if pair is None:
            return alpha * self.rho
        return pair_divergence(alpha, *pair)

    def dominating_pair(self) -> tuple[Array, Array] | None:
        """log P and log Q over a few outcomes, a dominating pair of the mechanism; None if there is no such finite
        pair.

        These pairs are symmetric: (Q, P) is the same pair with its outcomes in another order.
        """
        return None

    def parts(self) -> "tuple[PrivacyLoss, int] | None":
        """(loss, n) for a message that consists of n independent messages with this loss; None for other messages."""
        return None

    def farthest(self, tail: float) -> float:
        """An epsilon at which delta of one message is at most `tail` > 0; if no smaller one is known, the epsilon of
        pure differential privacy, or inf."""
        return self.epsilon

    def group(self, size: int) -> "PrivacyLoss":
        """Privacy loss of a message when `size` units change at once and each moves it by at most the sensitivity.

        A locally private message costs the same as before. For all others epsilon grows with the size (Dwork & Roth
        2014), and rho with its square (Bun & Steinke 2016, Proposition 1.9).
        """
        if size == 1 or self.kind in LOCAL:
            return self
        return replace(self, epsilon=size * self.epsilon, rho=size**2 * self.rho)


def pair_divergence(alpha: Array, first: Array, second: Array) -> Array:
    """The Renyi divergence of order alpha [...] between two distributions, from their log-probabilities [K].

    With r = P/Q it is log(1 + E_Q[r^alpha - 1 - alpha (r - 1)]) / (alpha - 1): the terms are >= 0, so nothing cancels
    if the distributions are close to each other. If these terms overflow, their logarithms are added instead.
    """
    order, loss = alpha[..., None], first - second
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.exp(second) * (np.expm1(order * loss) - order * np.expm1(loss))
        divergence = np.asarray(np.log1p(terms.sum(-1)) / (alpha - 1))
    large = ~np.isfinite(divergence)
    if large.any():
        order = order[large]
        divergence[large] = np.logaddexp.reduce(order * first + (1 - order) * second, axis=-1) / (alpha[large] - 1)
    return divergence


def pure(epsilon: float) -> PrivacyLoss:
    """The loss of a pure message if only epsilon is known; rho = epsilon^2 / 2 (Bun & Steinke 2016)."""
    return PrivacyLoss(epsilon, epsilon**2 / 2)


@dataclass(frozen=True)
class NothingHidden(PrivacyLoss):
    """A message sent without noise."""

    kind: ClassVar[str] = "none"
    epsilon: float = math.inf
    rho: float = math.inf


@dataclass(frozen=True)
class BitsLoss(PrivacyLoss):
    """Bitwise randomised response; two bits change.

    Args:
        logit_one, logit_zero: the log-odds of the answer 1 to a bit of 1 and to a bit of 0.
    """

    kind: ClassVar[str] = "randomized_response"
    logit_one: float
    logit_zero: float

    def dominating_pair(self) -> tuple[Array, Array]:
        one, zero = self.logit_one, self.logit_zero
        yes_one, yes_zero = -np.logaddexp(0, -one), -np.logaddexp(0, -zero)
        no_one, no_zero = -np.logaddexp(0, one), -np.logaddexp(0, zero)
        first = [yes_one + yes_zero, yes_one + no_zero, no_one + yes_zero, no_one + no_zero]
        return np.array(first), np.array([first[0], first[2], first[1], first[3]])


@dataclass(frozen=True)
class KaryLoss(PrivacyLoss):
    """Randomised response among `num_values` values."""

    kind: ClassVar[str] = "k_ary_randomized_response"
    num_values: int

    def dominating_pair(self) -> tuple[Array, Array]:
        total = np.logaddexp(self.epsilon, math.log(self.num_values - 1))
        first = [self.epsilon - total, -total]
        if self.num_values > 2:
            first.append(math.log(self.num_values - 2) - total)
        return np.array(first), np.array([first[1], first[0], *first[2:]])


@dataclass(frozen=True)
class ExponentialLoss(PrivacyLoss):
    """A selection by the exponential mechanism."""

    kind: ClassVar[str] = "exponential"


@dataclass(frozen=True)
class GaussianLoss(PrivacyLoss):
    """Gaussian noise with sensitivity / sigma = sqrt(2 rho)."""

    kind: ClassVar[str] = "gaussian"


@dataclass(frozen=True)
class LaplaceLoss(PrivacyLoss):
    """Laplace noise.

    Args:
        nodes: number of releases that share epsilon equally.
        reach: sensitivity in steps of the grid; inf without a grid.
    """

    kind: ClassVar[str] = "laplace"
    nodes: int = 1
    reach: float = math.inf

    def divergence(self, alpha: Array) -> Array:
        return self.nodes * _laplace_rdp(alpha, self.epsilon / self.nodes, self.reach)

    def delta(self, at: Array) -> Array:
        """Delta of one release at each epsilon in `at`."""
        return _laplace_delta(self.epsilon / self.nodes, self.reach, at)

    def group(self, size: int) -> PrivacyLoss:
        return replace(self, epsilon=size * self.epsilon, rho=size**2 * self.rho, reach=self.reach * size)


def _laplace_rdp(alpha: Array, epsilon: float, reach: float) -> Array:
    """Renyi divergence between Laplace distributions `epsilon` scales apart (Mironov 2017, Proposition 6); on a grid
    they are `reach` steps apart.

    With r = e^(-(2 alpha - 1) epsilon / reach) and s = e^(-epsilon / reach) the sum over the grid is [e^((alpha-1)
    epsilon) (1 + (1-s)/(1-r) (r - r^reach)) + e^(-alpha epsilon)] / (1+s); reach = inf gives the integral.
    """
    slope = (2 * alpha - 1) * epsilon
    if math.isinf(reach):
        between, s = -np.expm1(-slope) / (2 * alpha - 1), 1.0
    else:
        ratio = math.expm1(-epsilon / reach) / np.expm1(-slope / reach)
        between, s = ratio * (np.exp(-slope / reach) - np.exp(-slope)), math.exp(-epsilon / reach)
    terms = (alpha - 1) * epsilon + np.log1p(between), -alpha * epsilon
    return (np.logaddexp(*terms) - math.log1p(s)) / (alpha - 1)


def _laplace_delta(epsilon: float, reach: float, at: Array) -> Array:
    """Delta of Laplace noise at each epsilon in `at`; the sensitivity is `epsilon` noise scales, or `reach` grid steps
    (inf: no grid).

    Over these steps the loss falls from epsilon to -epsilon, by t = epsilon / reach at a time; it exceeds `at` on the
    first c / t of them.
    """
    t = epsilon / reach
    half = (epsilon - at) / 2
    c = np.ceil(half / t) * t if t else half
    between = 1 - (np.exp(-c) + np.exp(at - epsilon + c - t)) / (1 + math.exp(-t))
    return np.where(at >= epsilon, 0.0, np.where(at < -epsilon, -np.expm1(at), np.clip(between, 0, 1)))
