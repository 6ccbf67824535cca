"""What all mechanisms share: what one does to messages (`Mechanism`), and what a message costs (`PrivacyLoss`)."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from taciturn.privacy import checks

__all__ = [
    "Calibrated",
    "Mechanism",
    "NoPrivacy",
    "PrivacyLoss",
]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class PrivacyLoss:
    """What one message costs its sender, as data: it can be pickled, compared, exported.

    Args:
        kind: which law, and what of it is in `parameters`:
            "randomized_response" (two bits change): `logit_one`, `logit_zero`, the log-odds of answering 1 where the bit is 1, 0;
            "k_ary_randomized_response": `epsilon`, `num_values`;
            "laplace": `noise_multiplier` = scale / sensitivity, `reach` = sensitivity in steps of the grid or inf, `nodes` = how many such
            releases; "gaussian": `noise_multiplier` = sigma / sensitivity; "exponential": `epsilon`; "none".
        epsilon: pure differential privacy; inf if none.
        rho: zero-concentrated differential privacy (Bun & Steinke 2016); inf if none.
        parameters: as above.
    """

    kind: str
    epsilon: float
    rho: float
    parameters: dict[str, float] = field(default_factory=dict, hash=False)

    def rdp(self, alpha: Any) -> Array:
        """Bound on the Renyi divergence of order alpha > 1 between adjacent inputs (Mironov 2017); float64, of alpha's shape.

        Closed form for randomised response, Laplace and Gaussian noise; else min(alpha rho, epsilon).
        """
        alpha = checks.reals("alpha", alpha)
        if not (alpha > 1).all():
            raise ValueError(f"alpha must hold numbers > 1, not {alpha[~(alpha > 1)][0]}")
        pair = self.dominating_pair()
        if pair is not None:
            first, second = pair
            terms = alpha[..., None] * first + (1 - alpha[..., None]) * second
            divergence = np.logaddexp.reduce(terms, axis=-1) / (alpha - 1)
        elif self.kind == "laplace":
            divergence = self.parameters["nodes"] * _laplace_rdp(
                alpha, 1 / self.parameters["noise_multiplier"], self.parameters["reach"]
            )
        else:
            divergence = alpha * self.rho
        return np.clip(divergence, 0.0, np.minimum(alpha * self.rho, self.epsilon))

    def dominating_pair(self) -> tuple[Array, Array] | None:
        """log P and log Q over the few outcomes that matter, where adjacent inputs reduce to such a pair; else None.

        The privacy loss is symmetric for these kinds: (Q, P) is the same pair with its outcomes in another order.
        """
        if self.kind == "randomized_response":
            one, zero = self.parameters["logit_one"], self.parameters["logit_zero"]
            yes_one, yes_zero = -np.logaddexp(0, -one), -np.logaddexp(0, -zero)
            no_one, no_zero = -np.logaddexp(0, one), -np.logaddexp(0, zero)
            first = [yes_one + yes_zero, yes_one + no_zero, no_one + yes_zero, no_one + no_zero]
            return np.array(first), np.array([first[0], first[2], first[1], first[3]])
        if self.kind == "k_ary_randomized_response":
            values = self.parameters["num_values"]
            total = np.logaddexp(self.epsilon, math.log(values - 1))
            first = [self.epsilon - total, -total]
            if values > 2:
                first.append(math.log(values - 2) - total)
            return np.array(first), np.array([first[1], first[0], *first[2:]])
        return None


def _laplace_rdp(alpha: Array, epsilon: float, reach: float) -> Array:
    """Renyi divergence between Laplace laws `epsilon` scales apart: Mironov 2017, Proposition 6; on a grid, `reach` steps apart.

    With r = e^(-(2 alpha - 1) epsilon / reach) and s = e^(-epsilon / reach) the sum over the grid is
    [e^((alpha-1) epsilon) (1 + (1-s)/(1-r) (r - r^reach)) + e^(-alpha epsilon)] / (1+s); reach = inf gives the integral.
    """
    slope = (2 * alpha - 1) * epsilon
    if math.isinf(reach):
        between, s = -np.expm1(-slope) / (2 * alpha - 1), 1.0
    else:
        ratio = math.expm1(-epsilon / reach) / np.expm1(-slope / reach)
        between, s = ratio * (np.exp(-slope / reach) - np.exp(-slope)), math.exp(-epsilon / reach)
    terms = (alpha - 1) * epsilon + np.log1p(between), -alpha * epsilon
    return (np.logaddexp(*terms) - math.log1p(s)) / (alpha - 1)


class Mechanism(ABC):
    """What all mechanisms share.

    A ValueError names the argument that is wrong, and then nothing has been drawn and no state has changed. Arguments that mean nothing to
    a mechanism (the sensitivity, to randomised response) are not looked at.
    """

    kind: ClassVar[str]
    payload_dims: ClassVar[int] = 0  # trailing axes of x that make up one message
    closed_counts: ClassVar[bool] = False  # has perturb_counts
    stateful: ClassVar[bool] = False
    epsilon: float

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """The messages that leave, for private values x; `sensitivity` is a number, or follows the leading axes of x."""

    def perturb_counts(self, histogram: Any, rng: np.random.Generator, num_messages: Any = None) -> Array:
        """int64[..., K]: the sum of the messages of `histogram[..., K]` holders of each value, in law that of summing `perturb`.

        num_messages: how many messages in all, if some senders hold no value (a vector of zeros); default histogram.sum(-1).
        Drawn from NumPy's Binomials whatever the sampler: no single message leaves.
        """
        raise TypeError(f"{type(self).__name__} has no law of summed messages: perturb each")

    def debias(self, y: Any, num_messages: Any = 1) -> Array:
        """Unbiased estimate of what was sent, from a message or from the sum of `num_messages` of them; float64."""
        return checks.reals("y", y).copy()

    @abstractmethod
    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        """Variance of `debias(perturb(x))`, number by number; float64."""

    @abstractmethod
    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """What one message costs. Noise grows with the sensitivity, so the cost does not depend on it."""

    @abstractmethod
    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """log P(y | x0) - log P(y | x1), for each message (for each number where messages are numbers)."""

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Any = None) -> Any:
        """Fresh state for agents of `shape`, to be given to `step`; None for a mechanism that remembers nothing."""
        checks.agents(shape)

    def step(
        self, x: Any, rng: np.random.Generator, state: Any = None, *, where: Any = None, sensitivity: Any = None
    ) -> Array:
        """`perturb` for one round of agents that send where `where` (default: all), updating `state` in place.

        A mechanism that remembers nothing answers for all; the answers of those who do not send mean nothing.
        """
        checks.mask(where, checks.numbers("x", x).shape)
        return self.perturb(x, rng, sensitivity)


class Calibrated(Mechanism):
    """Base of those whose noise grows with a sensitivity, their own or that which comes with each message."""

    sensitivity: float | None
    sampler: str

    def _check(self) -> None:
        """Check `sensitivity` and `sampler`."""
        if self.sensitivity is not None:
            self._set(sensitivity=checks.number("sensitivity", self.sensitivity))
        checks.choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    def bound(self, sensitivity: Any, x: Array) -> Array:
        """The sensitivity of each of the messages x."""
        own = self.sensitivity if self.sensitivity is not None else sensitivity
        if own is None:
            raise ValueError(f"sensitivity must be given with the message or as {type(self).__name__}(sensitivity=...)")
        return checks.aligned("sensitivity", own, x)


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Numbers leave as they are, NaN included, as they do on a channel without a mechanism."""

    kind: ClassVar[str] = "none"
    closed_counts: ClassVar[bool] = True
    epsilon: float = field(default=math.inf, init=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return checks.numbers("x", x).copy()

    def perturb_counts(self, histogram: Any, rng: np.random.Generator, num_messages: Any = None) -> Array:
        return checks.counts(histogram, num_messages)[0]

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        return np.zeros(checks.numbers("x", x).shape)

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        return PrivacyLoss(self.kind, math.inf, math.inf)

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """Number by number: 0 where x0 = x1, inf where y tells, nan where y is neither."""
        y, x0, x1 = (checks.numbers(name, value) for name, value in (("y", y), ("x0", x0), ("x1", x1)))
        y, x0, x1 = checks.together(y=y, x0=x0, x1=x1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((x0 == x1) & (y == x0), 0.0, np.log(y == x0) - np.log(y == x1))
