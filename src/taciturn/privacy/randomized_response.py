"""Randomised response: a categorical value is reported bit by bit, or as one of the possible values."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Given, Mechanism
from taciturn.privacy.losses import BitsLoss, KaryLoss, PrivacyLoss
from taciturn.privacy.samplers import exact_bernoulli, load_opendp, logistic_digits, ratio_digits
from taciturn.validation import Array, choice, integer, number, shown


class _Bits(Mechanism):
    """Each bit of a one-hot vector is reported separately: as 1 with probability p if it is 1, and with probability q
    if it is 0."""

    payloads = frozenset({"one_hot"})
    payload_dims: ClassVar[int] = 1
    closed_counts: ClassVar[bool] = True
    kind: ClassVar[str] = "randomized_response"
    epsilon: float
    sampler: str

    @property
    @abstractmethod
    def logits(self) -> tuple[float, float]:
        """log p/(1-p) and log q/(1-q); their difference is epsilon."""

    @property
    def p(self) -> float:
        return math.exp(-np.logaddexp(0, -self.logits[0]))

    @property
    def q(self) -> float:
        return math.exp(-np.logaddexp(0, -self.logits[1]))

    @property
    def gap(self) -> float:
        """p - q, computed as p (1 - q) (1 - e^-epsilon) to avoid cancellation."""
        return self.p * -math.expm1(-self.epsilon) * math.exp(-np.logaddexp(0, self.logits[1]))

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """Zeros and ones of the shape and dtype of x[..., K], which holds one-hot vectors or vectors of zeros."""
        bits = checks.one_hot("x", x)
        if self.sampler == "fast":
            uniform = rng.random(bits.shape)
            answer: Array = (uniform < self.q) | (bits & (uniform < self.p))
        elif self.sampler == "exact":
            yes, no = (exact_bernoulli(partial(logistic_digits, a), bits.shape, rng) for a in self.logits)
            answer = np.where(bits, yes, no)
        else:
            dp = load_opendp()
            domain = dp.bitvector_domain(max_weight=max(1, math.prod(bits.shape[:-1])))
            respond = dp.m.make_randomized_response_bitvec(domain, dp.discrete_distance(), f=2 * self.q)
            data = np.frombuffer(respond(np.packbits(bits).tobytes()), dtype=np.uint8)
            answer = np.unpackbits(data, count=bits.size).reshape(bits.shape)
        return answer.astype(np.asarray(x).dtype)

    def perturb_counts(self, histogram: ArrayLike, rng: Generator, num_messages: Given = None) -> Array:
        """Option k: Binomial(histogram[k], p) + Binomial(num_messages - histogram[k], q), independent over k."""
        histogram, total = checks.counts(histogram, num_messages)
        return rng.binomial(histogram, self.p) + rng.binomial(total[..., None] - histogram, self.q)

    def debias(self, y: ArrayLike, num_messages: ArrayLike = 1) -> Array:
        """(y - n q) / (p - q), where y[..., K] is the sum of n = `num_messages`[...] messages."""
        y = checks.reals("y", y)
        if y.ndim == 0:
            raise ValueError("y must be an array [..., K], not a number")
        return (y - checks.totals(num_messages, y.shape[:-1])[..., None] * self.q) / self.gap

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        """p(1-p) / (p-q)^2 for a bit of 1, q(1-q) / (p-q)^2 for a bit of 0."""
        one, zero = (math.exp(-np.logaddexp(0, a) - np.logaddexp(0, -a)) for a in self.logits)
        return np.where(checks.one_hot("x", x), one, zero) / self.gap**2

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Pure epsilon, and rho = epsilon^2 / 4.

        Two one-hot vectors differ in two bits. The log-likelihood ratio of a bit lies in [log (1-p)/(1-q), log p/q], an
        interval of width epsilon, so the bit is epsilon^2/8-zCDP (bounded range; Cesar & Rogers 2021) and two bits are
        epsilon^2/4-zCDP. (If the bits are symmetric, each is epsilon/2-DP, which gives the same rho by Bun & Steinke
        2016, Proposition 1.4.) This is tight as epsilon -> 0; for large epsilon the closed-form Renyi divergence is
        smaller.
        """
        return BitsLoss(self.epsilon, self.epsilon**2 / 4, *self.logits)

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """[...] for y, x0, x1 of [..., K]."""
        answer, one, zero = checks.together(
            1, y=checks.binary("y", y), x0=checks.one_hot("x0", x0), x1=checks.one_hot("x1", x1)
        )
        table = np.array([[-np.logaddexp(0, sign * a) for sign in (1, -1)] for a in self.logits[::-1]])  # [bit, answer]
        first, second = (table[x.astype(int), answer.astype(int)] for x in (one, zero))
        return (first - second).sum(-1)


@dataclass(frozen=True)
class BitwiseRandomizedResponse(_Bits):
    """Flips each bit of a one-hot vector with probability q = 1 / (e^(epsilon/2) + 1), which is epsilon-LDP.

    Equation 5 of Chen et al., "Privacy-preserving collaborative learning for multiarmed bandits in IoT"; equation 6 of
    Tao et al., "A distributed privacy-preserving learning dynamics in general social networks". `UnaryEncoding` with
    variant "symmetric" has the same distribution.

    Args:
        epsilon: of one message, > 0.
        sampler: "fast", "exact" or "opendp".
    """

    epsilon: float
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=checks.level("epsilon", self.epsilon))
        choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    @property
    def logits(self) -> tuple[float, float]:
        return self.epsilon / 2, -self.epsilon / 2


@dataclass(frozen=True)
class UnaryEncoding(_Bits):
    """Unary encoding of a categorical value; each bit is perturbed separately.

    Source: Wang, Blocki, Li & Jha 2017, "Locally differentially private protocols for frequency estimation".

    Args:
        epsilon: of one message, > 0.
        variant: "optimised" (OUE: p = 1/2, q = 1 / (e^epsilon + 1), which has the smallest variance for rare values) or
            "symmetric" (the basic RAPPOR of Erlingsson, Pihur & Korolova 2014: p = 1 - q, q = 1 / (e^(epsilon/2) + 1)).
        sampler: "fast" or "exact".
    """

    epsilon: float
    variant: str = "optimised"
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=checks.level("epsilon", self.epsilon))
        choice("variant", self.variant, ("optimised", "symmetric"))
        choice("sampler", self.sampler, ("fast", "exact"))

    @property
    def logits(self) -> tuple[float, float]:
        return (self.epsilon / 2, -self.epsilon / 2) if self.variant == "symmetric" else (0.0, -self.epsilon)


def k_ary_response(values: ArrayLike, budget: ArrayLike, num_values: int, rng: Generator) -> Array:
    """Keep each value with probability e / (e + M), e = `budget`, or else draw uniformly from all M values; int64.

    This gives P(same) = (e+1) / (e+M) and P(other) = 1 / (e+M): Jiang 2020, chapter 2. Each report is log(1+e)-DP.
    `budget` is e >= 0, a number or an array of the shape of `values`.
    """
    num_values = integer("num_values", num_values, at_least=2)
    values, budget = checks.integers("values", values, at_least=0, below=num_values), checks.reals("budget", budget)
    if not (budget >= 0).all():
        raise ValueError(f"budget must hold numbers >= 0, not {budget[~(budget >= 0)][0]}")
    if budget.ndim and budget.shape != values.shape:
        raise ValueError(f"budget must be a number or of the shape of values {values.shape}, not {budget.shape}")
    return _keep(values, rng.random(values.shape) < budget / (budget + num_values), num_values, rng)


def _keep(values: Array, kept: Array, num_values: int, rng: Generator) -> Array:
    """`values` where `kept`, and uniform draws from [0, num_values) elsewhere; int64."""
    answers = np.asarray(rng.integers(0, num_values, size=values.shape))
    np.copyto(answers, values, where=kept)
    return answers


@dataclass(frozen=True, init=False)
class KaryRandomizedResponse(Mechanism):
    """k-ary randomised response in the parametrisation of Jiang 2020, chapter 2: P(same) = (e+1) / (e+M), P(other) = 1
    / (e+M).

    It is `epsilon`-DP with epsilon = log(1+e), not e: in all other mechanisms the first parameter is epsilon.
    `KaryRandomizedResponse(epsilon=1.0, num_values=4)` is the mechanism at epsilon 1.

    Args:
        budget: the paper's e > 0.
        num_values: M >= 2.
        sampler: "fast", "exact" or "opendp".
        epsilon: of one message, 0 < epsilon < 700, in place of `budget`.

    Raises:
        ValueError: neither or both of `budget` and `epsilon` are given (unless they agree), or a parameter is out of
            range.
    """

    payloads = frozenset({"categorical"})
    kind: ClassVar[str] = "k_ary_randomized_response"
    closed_counts: ClassVar[bool] = True
    budget: float
    num_values: int
    sampler: str = "fast"
    epsilon: float = field(init=False)

    def __init__(
        self,
        budget: float | None = None,
        num_values: int | None = None,
        sampler: str = "fast",
        *,
        epsilon: float | None = None,
    ) -> None:
        if budget is None:
            if epsilon is None:
                raise ValueError("epsilon must be given, or budget, the paper's e, with epsilon = log(1 + e)")
            budget = math.expm1(number("epsilon", epsilon, above=0, below=700))
        elif epsilon is not None and epsilon != math.log1p(checks.level("budget", budget)):
            raise ValueError(
                f"epsilon must be log(1 + budget) = {math.log1p(budget):g}, or be left out with budget {budget!r}, "
                f"not {shown(epsilon)}"
            )
        if num_values is None:
            raise ValueError("num_values must be given, the number of values M >= 2, not None")
        budget = checks.level("budget", budget)
        self._set(budget=budget, epsilon=math.log1p(budget))
        self._set(num_values=integer("num_values", num_values, at_least=2, at_most=checks.MOST))
        self._set(sampler=choice("sampler", sampler, ("fast", "exact", "opendp")))

    @property
    def p(self) -> float:
        """P(same)."""
        return (self.budget + 1) / (self.budget + self.num_values)

    @property
    def q(self) -> float:
        """P(other), of each other value."""
        return 1 / (self.budget + self.num_values)

    def _values(self, name: str, x: ArrayLike) -> Array:
        return checks.integers(name, x, at_least=0, below=self.num_values)

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """Reports, int64 of the shape of x, which holds integers in [0, M)."""
        values = self._values("x", x)
        if self.sampler == "fast":
            return k_ary_response(values, self.budget, self.num_values, rng)
        if self.sampler == "exact":
            budget = Fraction(self.budget)
            keep = partial(ratio_digits, budget / (budget + self.num_values))
            return _keep(values, exact_bernoulli(keep, values.shape, rng), self.num_values, rng)
        answer = load_opendp().m.make_randomized_response(list(range(self.num_values)), self.p)
        return np.array([answer(int(value)) for value in values.flat], np.int64).reshape(values.shape)

    def perturb_counts(self, histogram: ArrayLike, rng: Generator, num_messages: Given = None) -> Array:
        """Binomial(histogram[k], e/(e+M)) messages keep the value k; all others are uniform over the M values."""
        histogram, total = checks.counts(histogram, num_messages)
        if histogram.shape[-1] != self.num_values or (total != histogram.sum(-1)).any():
            raise ValueError(
                f"histogram must be of shape [..., {self.num_values}], not {histogram.shape}, and count all messages"
            )
        kept = rng.binomial(histogram, self.budget / (self.budget + self.num_values))
        return kept + rng.multinomial(total - kept.sum(-1), np.full(self.num_values, 1 / self.num_values))

    def debias(self, y: ArrayLike, num_messages: Given = None) -> Array:
        """(count - n q) / (p - q), [..., M], with p - q = e / (e+M).

        y is either messages [...], integers that each count as a one-hot vector (n = 1), or counts [..., M] of n =
        `num_messages`[...] messages.
        """
        if num_messages is None:
            counts = self._values("y", y)[..., None] == np.arange(self.num_values)
            total = np.ones(())
        else:
            counts = checks.reals("y", y)
            if counts.ndim == 0 or counts.shape[-1] != self.num_values:
                raise ValueError(f"y must be counts [..., {self.num_values}], not of shape {counts.shape}")
            total = checks.totals(num_messages, counts.shape[:-1])
        return (counts - total[..., None] * self.q) * (self.budget + self.num_values) / self.budget

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        """[..., M] for x[...]: p(1-p) / (p-q)^2 at the value x, and q(1-q) / (p-q)^2 at all others."""
        held = self._values("x", x)[..., None] == np.arange(self.num_values)
        p, q = self.p, self.q
        return np.where(held, p * (self.num_values - 1) * q, q * (1 - q)) / (self.budget * q) ** 2

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Pure epsilon = log(1+e), rho = epsilon^2 / 2 (Bun & Steinke 2016, Proposition 1.4), and closed-form Renyi
        divergence."""
        return KaryLoss(self.epsilon, self.epsilon**2 / 2, self.num_values)

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        y, x0, x1 = checks.together(y=self._values("y", y), x0=self._values("x0", x0), x1=self._values("x1", x1))
        return self.epsilon * ((y == x0).astype(np.float64) - (y == x1))
