"""Amplification by sampling: a message costs less if its senders are drawn at random and stay hidden."""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.composition import ORDERS, answers, gaussian_delta, gaussian_epsilon, rho_of
from taciturn.privacy.losses import GaussianLoss, LaplaceLoss, PrivacyLoss, pair_divergence
from taciturn.validation import Array, Floats, number

FARTHEST = 700.0  # largest epsilon with e^epsilon a float; deltas at larger ones are bounded by the delta there
POINTS = 256  # interpolation points of a Laplace distribution's privacy profile, on either side of 0
REACH = 64.0  # standard deviations of a Gaussian distribution that are integrated, on either side
BEYOND = 14.0  # standard deviations that the range must extend beyond the peak of an integrand, at alpha mu
NODES = 16  # of the quadrature, in each part of a standard deviation


@dataclass(frozen=True)
class SampledLoss(PrivacyLoss):
    """A message about the data of k of M users, drawn uniformly without replacement, independently for each message.

    Unit: one user's data are replaced; M and k are public. Observer: it reads the releases of the mechanism, and does
    not learn the sample. This trusts a party that draws the sample, and a channel without addresses; if the observer
    sees who sends, messages cost `loss`. Users who are drawn know that they are: against them, this loss does not
    protect others' data.

    - Pure and approximate differential privacy: with e^epsilon' = 1 + rate (e^epsilon - 1), delta'(epsilon') = rate
      delta(epsilon) for all epsilon >= 0 (Balle, Barthe & Gaboardi 2018, Theorem 9).
    - Profile: adjacency is symmetric, so at negative epsilon it follows from
      delta(-epsilon) = 1 - e^-epsilon + e^-epsilon delta(epsilon). The values at positive and negative epsilon together
      are the profile of one pair of distributions, which dominates the message (Zhu, Dong & Wang 2022, Proposition 8
      and Theorem 11). With the pair (P, Q) of `loss`, this pair is ((1 - rate) Q + rate P, Q) where P > Q and
      (P, (1 - rate) P + rate Q) where P < Q; the remaining mass is the same in both and has privacy loss 0.
    - Renyi divergence: the divergence of this pair. A divergence is an integral of the profile with positive weights,
      so the divergence of a dominating pair is an upper bound, at every real order. No interpolation between orders is
      needed, and at integer orders this bound is smaller than that of Wang, Balle & Kasiviswanathan (2019, Theorem 9).
    - rho: for a pure `loss`, the smallest that bounds this divergence. Otherwise the rho of `loss`: Gaussian noise with
      sampling satisfies no smaller one, because at high orders the dominant case is the one in which the user is in the
      sample.

    Args:
        loss: the loss of the message if its senders are known, at the same unit; its dominating pair must be symmetric.
        rate: k / M, 0 < rate <= 1.

    Raises:
        ValueError: an argument has a wrong type or is out of range.
    """

    kind: ClassVar[str] = "sampled"
    epsilon: float = field(init=False)
    rho: float = field(init=False)
    loss: PrivacyLoss
    rate: float

    def __post_init__(self) -> None:
        if not isinstance(self.loss, PrivacyLoss):
            raise ValueError(f"loss must be a PrivacyLoss, not {self.loss!r}")
        object.__setattr__(self, "rate", number("rate", self.rate, above=0, at_most=1))
        object.__setattr__(self, "epsilon", min(sampled_epsilon(self.loss.epsilon, self.rate), self.loss.epsilon))
        object.__setattr__(self, "rho", _rho(self.loss, self.rate))

    def delta(self, at: ArrayLike) -> Floats:
        """Delta of one message at each epsilon in `at`, float64 of its shape."""
        at = checks.reals("at", at)
        before = np.log1p(np.expm1(np.minimum(np.abs(at), FARTHEST)) / self.rate)
        return of_both_signs(at, self.rate * profile(self.loss, np.minimum(before, FARTHEST)))

    def divergence(self, alpha: Array) -> Array:
        """The Renyi divergence of order alpha of the dominating pair, or of `loss` if that is smaller (for example if
        the pair follows from epsilon alone); for Gaussian noise by Gauss-Legendre quadrature, up to the order that its
        range of integration allows; at higher orders, the divergence of `loss`."""
        known = np.array(self.loss.rdp(alpha))
        if not isinstance(self.loss, GaussianLoss):
            pair = self.dominating_pair()
            return known if pair is None else np.minimum(known, pair_divergence(alpha, *pair))
        mu = math.sqrt(2 * self.loss.rho)
        within = alpha * mu <= REACH - BEYOND
        if mu > 0 and within.any():
            known[within] = pair_divergence(alpha[within], *_sampled(*_gaussian_pair(mu), self.rate))
        return known

    def dominating_pair(self) -> tuple[Array, Array] | None:
        """The pair of a pure `loss`; if only its epsilon is known, of the randomised response that dominates it."""
        pair = finite_pair(self.loss)
        return None if pair is None else _sampled(*pair, self.rate)

    def farthest(self, tail: float) -> float:
        rest = min(tail / self.rate, 0.5)
        if not isinstance(self.loss, GaussianLoss):
            return sampled_epsilon(self.loss.farthest(rest), self.rate)
        return sampled_epsilon(float(gaussian_epsilon(math.sqrt(2 * self.loss.rho), rest)), self.rate)

    def group(self, size: int) -> PrivacyLoss:
        """Privacy loss of a change of `size` units, of any senders.

        The probability that any of them is drawn is at most size * rate. Given that one is, at most `size` units move
        the message; replacing the drawn ones by others gives the distribution of samples without them. Theorem 9 of
        Balle, Barthe & Gaboardi (2018) therefore holds with this rate and `loss.group(size)`.
        """
        return self if size == 1 else SampledLoss(self.loss.group(size), min(1.0, size * self.rate))


def sampled_epsilon(epsilon: float, rate: float) -> float:
    """log(1 + rate (e^epsilon - 1)): Balle, Barthe & Gaboardi (2018), Theorem 9. `epsilon` may be inf."""
    if epsilon < 700:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate)


def of_both_signs(at: Floats, delta: Floats) -> Floats:
    """The deltas of a symmetric pair at the epsilons `at`, from the deltas at |at|:
    delta(-epsilon) = 1 - e^-epsilon + e^-epsilon delta(epsilon)."""
    negative = np.minimum(at, 0.0)
    return np.where(at < 0, np.exp(negative) * delta - np.expm1(negative), delta)


def profile(loss: PrivacyLoss, at: Floats) -> Floats:
    """The smallest known delta of one message at each epsilon >= 0 in `at`; 1 if only rho is known."""
    if isinstance(loss, GaussianLoss):
        return gaussian_delta(np.array(math.sqrt(2 * loss.rho)), np.asarray(at)) if loss.rho else np.zeros(at.shape)
    if isinstance(loss, SampledLoss) or (isinstance(loss, LaplaceLoss) and loss.nodes == 1):
        return loss.delta(at)
    pair = finite_pair(loss)
    if pair is None:
        return np.ones(np.shape(at))
    first, second = pair
    return np.asarray((np.exp(first) * -np.expm1(np.minimum(at[..., None] - (first - second), 0.0))).sum(-1))


def finite_pair(loss: PrivacyLoss) -> tuple[Array, Array] | None:
    """log P and log Q of a finite symmetric pair that dominates a pure message; None if it is not pure."""
    pair = loss.dominating_pair()
    if pair is not None or math.isinf(loss.epsilon):
        return pair
    if isinstance(loss, LaplaceLoss) and loss.nodes == 1 and loss.epsilon > 0:
        return _interpolated(loss)
    return answers(loss.epsilon)


def _interpolated(loss: LaplaceLoss) -> tuple[Array, Array]:
    """The pair with a profile that joins the profile of `loss` at equal steps of epsilon by lines in e^epsilon.

    A profile is convex in e^epsilon, so lines lie above it (Doroshenko et al. 2022, 'connect the dots'). The slopes of
    the profile are -Q(P/Q > e^epsilon).
    """
    points = np.linspace(-loss.epsilon, loss.epsilon, 2 * POINTS + 1)
    delta = loss.delta(points)
    slopes = np.diff(delta) / (np.exp(points[:-1]) * np.expm1(np.diff(points)))
    second = np.diff(slopes, prepend=-1.0, append=0.0)
    kept = second > 0
    distribution = np.log(second[kept])
    return points[kept] + distribution, distribution


def _gaussian_pair(mu: float) -> tuple[Array, Array]:
    """log P and log Q of two Gaussian distributions mu standard deviations apart, at the nodes of a quadrature.

    Each part of the range is one standard deviation long, or shorter if the loss changes by 1 over a shorter part.
    """
    parts = math.ceil(REACH * max(1.0, mu))
    at, weights = np.polynomial.legendre.leggauss(NODES)
    half = REACH / parts / 2
    right = ((2 * np.arange(parts)[:, None] + 1 + at) * half).ravel()
    x = np.concatenate([-right[::-1], right])
    log_weight = np.log(np.concatenate([np.tile(weights, parts)[::-1], np.tile(weights, parts)]) * half)
    distribution = log_weight - math.log(2 * math.pi) / 2
    return distribution - (x - mu / 2) ** 2 / 2, distribution - (x + mu / 2) ** 2 / 2


def _sampled(first: Array, second: Array, rate: float) -> tuple[Array, Array]:
    """The dominating pair of a sampled message, from the symmetric pair of the message without sampling: see
    `SampledLoss`."""
    if rate == 1:
        return first, second
    rarer, other = math.log(rate), math.log1p(-rate)
    up, down = first > second, first < second
    gained = np.logaddexp(rarer + first[up], other + second[up])
    same = np.exp(first[~up & ~down]).sum() + (1 - rate) * (np.exp(first[up]) - np.exp(second[up])).sum()
    middle = np.log([same]) if same > 0 else np.empty(0)
    lost = np.logaddexp(other + first[down], rarer + second[down])
    return np.concatenate([gained, middle, first[down]]), np.concatenate([second[up], middle, lost])


@lru_cache(1024)
def _rho(loss: PrivacyLoss, rate: float) -> float:
    """rho of a sampled message: see `SampledLoss`."""
    pair = finite_pair(loss)
    if pair is None:
        return loss.rho
    curve = pair_divergence(ORDERS, *_sampled(*pair, rate))
    return min(loss.rho, rho_of(curve, sampled_epsilon(loss.epsilon, rate)))
