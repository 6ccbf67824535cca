"""Mechanisms: laws by which an agent's private value becomes the message that others see.

A mechanism is a frozen value. `perturb(x, rng)` treats its input as a batch, its last `payload_dims` axes being one message; `debias` and
`variance` say what the receiver can make of the answer, `loss` what it costs the sender, `log_likelihood_ratio` what an adversary learns
from it. `perturb_counts` (where `closed_counts`) draws the sum of many perturbed messages at once, at a cost that does not grow with their
number. Where noise scales with a sensitivity, the mechanism's own `sensitivity` counts; without one, that which comes with the message.

`TreeAggregation` and `Memoized` remember: `state = mechanism.start((B, N))`, then `mechanism.step(x, rng, state)` round by round, and
`state.fresh[B, N]` says whose budget the round was charged to. `step` works for all mechanisms.

Samplers:
- "fast": NumPy's floating-point draws. An idealisation: the low bits of Laplace and Gaussian noise tell inputs apart (Mironov 2012, "On
  significance of the least significant bits for differential privacy"). Fine for simulation, not for releasing data.
- "exact": integer arithmetic on a grid, after Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy"; the random
  bits are still the Generator's, which is no cryptographic source. The grid's step is the power of two that puts 2^24 to 2^25 steps into
  one noise scale. Inputs are rounded to it, sensitivity and scale are rounded up, so the claim holds as stated and the noise is larger by a
  fraction of at most about 2^-24 (1 + scale / sensitivity). Where one input changes d numbers of a message, rounding may add d steps to
  the sensitivity.
- "opendp": the OpenDP library (extra `secure`), which takes its randomness from the system: seeds have no effect.

This module imports nothing from tacit, so that worlds may use it too.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "BitwiseRandomizedResponse",
    "Exponential",
    "Gaussian",
    "KaryRandomizedResponse",
    "Laplace",
    "Mechanism",
    "Memoized",
    "Memory",
    "NoPrivacy",
    "PrivacyLoss",
    "Streams",
    "TreeAggregation",
    "UnaryEncoding",
    "discrete_gaussian",
    "discrete_laplace",
    "exact_bernoulli",
    "exact_bernoulli_exp",
    "gaussian_delta",
    "k_ary_response",
]

Array = npt.NDArray[Any]
Digits = Callable[[int], int]  # digits(n) = floor(2^n p) of a probability p

GRID_BITS = 24  # the noise scale is 2^24 to 2^25 steps of the exact samplers' grid
LARGEST = 2**52  # largest input of the exact samplers, in steps


# ---- checks ----


def _number(name: str, value: Any, *, above: float = 0.0, below: float = math.inf) -> float:
    try:
        number = math.nan if isinstance(value, bool | np.bool_ | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and above < number < below):
        upper = "" if below == math.inf else f" and < {below:g}"
        raise ValueError(f"{name} must be a finite number > {above:g}{upper}, not {value!r}")
    return number


def _whole(name: str, value: Any, *, at_least: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < at_least:
        raise ValueError(f"{name} must be an integer >= {at_least}, not {value!r}")
    return int(value)


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return value


def _reals(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of numbers, not {value!r}") from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers only, not {array[~np.isfinite(array)][0]}")
    return array


def _integers(name: str, value: Any, *, at_least: int, below: float = math.inf) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be an array of integers, not of {array.dtype}")
    wrong = (array < at_least) | (array >= below)
    if wrong.any():
        upper = "" if below == math.inf else f" and < {below}"
        raise ValueError(f"{name} must hold integers >= {at_least}{upper}, not {array[wrong][0]}")
    return array


def _bits(name: str, value: Any) -> Array:
    """A 0/1 array [..., K] as booleans."""
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim == 0 or not ((array == 0) | (array == 1)).all():
        raise ValueError(f"{name} must be an array [..., K] of zeros and ones")
    return array.astype(np.bool_)


def _one_hot(name: str, value: Any) -> Array:
    bits = _bits(name, value)
    if bits.shape[-1] < 64:  # NumPy's sum along a short axis is ten times slower
        ones = sum((bits[..., k] for k in range(bits.shape[-1])), start=np.zeros(bits.shape[:-1], np.uint8))
    else:
        ones = np.count_nonzero(bits, axis=-1)
    if (np.asarray(ones) > 1).any():
        raise ValueError(f"{name} must hold at most one 1 in each vector [..., K]: the claim is for one-hot vectors")
    return bits


def _counts(histogram: Any, num_messages: Any) -> tuple[Array, Array]:
    histogram = _integers("histogram", histogram, at_least=0).astype(np.int64)
    if histogram.ndim == 0:
        raise ValueError("histogram must be an array [..., K], not a number")
    holders = histogram.sum(-1)
    if num_messages is None:
        return histogram, holders
    num_messages = _integers("num_messages", num_messages, at_least=0)
    if num_messages.shape not in ((), holders.shape) or (num_messages < holders).any():
        raise ValueError(f"num_messages must be at least histogram.sum(-1) and of its shape {holders.shape} or ()")
    return histogram, np.broadcast_to(num_messages, holders.shape)


def _aligned(name: str, value: Any, x: Array) -> Array:
    """`value` for each message of `x`: a number, or an array over the leading axes of x; all > 0."""
    array = _reals(name, value)
    if not (array > 0).all():
        raise ValueError(f"{name} must hold numbers > 0, not {array[~(array > 0)][0]}")
    array = array.reshape(array.shape + (1,) * (x.ndim - array.ndim)) if array.ndim else array
    if array.ndim > x.ndim or any(a not in (1, b) for a, b in zip(array.shape, x.shape, strict=False)):
        raise ValueError(f"{name} must be a number or follow the leading axes of x {x.shape}, not {np.shape(value)}")
    return array


# ---- exact sampling: integers only ----


def _floor(value: Callable[[], Decimal], bits: int) -> int:
    """floor(2^bits v) of an irrational v, with as many decimal digits as that takes."""
    precision = bits // 3 + 30
    while True:
        with localcontext(prec=precision) as context:
            scaled = value() * (Decimal(2) ** bits)
            slack = Decimal(10) ** (scaled.adjusted() - context.prec + 4)
            low, high = math.floor(scaled - slack), math.floor(scaled + slack)
        if low == high:
            return low
        precision *= 2


@lru_cache(4096)
def _logistic_digits(logit: float, bits: int) -> int:
    """floor(2^bits / (1 + e^-logit)); e^x is irrational for every float x but 0."""
    if logit == 0:
        return 1 << (bits - 1)
    if abs(logit) > bits:
        return 0 if logit < 0 else (1 << bits) - 1
    return _floor(lambda: 1 / (1 + (-Decimal(logit)).exp()), bits)


@lru_cache(4096)
def _exp_digits(power: int, bits: int) -> int:
    """floor(2^bits e^-power) for power >= 1."""
    return _floor(lambda: (-Decimal(power)).exp(), bits)


@lru_cache(4096)
def _ratio_digits(ratio: Fraction, bits: int) -> int:
    return math.floor(ratio * (1 << bits))


def _more_bits(rng: np.random.Generator) -> int:
    return int(rng.integers(0, 2**48))


def exact_bernoulli(digits: Digits, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """bool[shape], each True with exactly the probability p whose binary digits are given: digits(n) = floor(2^n p), 0 <= p < 1.

    Compares p with a uniform number of which it draws only as many bits as the comparison needs: 16 for nearly all (von Neumann 1951).
    """
    drawn = rng.integers(0, 2**16, size=shape, dtype=np.uint16)
    below = drawn < digits(16)
    for at in np.flatnonzero(drawn == digits(16)):
        bits, number = 64, (digits(16) << 48) | _more_bits(rng)
        while number == digits(bits):
            bits, number = bits + 48, (number << 48) | _more_bits(rng)
        below.flat[at] = number < digits(bits)
    return below


_POWERS = np.array([_exp_digits(v, 64) for v in range(45, 0, -1)], dtype=np.uint64)  # ascending; e^-45 < 2^-64


def _decide_geometric(number: int, rng: np.random.Generator) -> int:
    """How many v >= 1 have e^-v above the uniform number whose first 64 bits are given."""
    bits = 64
    while True:
        v = 0
        while number < _exp_digits(v + 1, bits):
            v += 1
        if number != _exp_digits(v + 1, bits):
            return v
        bits, number = bits + 48, (number << 48) | _more_bits(rng)


def _geometric(size: int, rng: np.random.Generator) -> Array:
    """int64[size] with P(V >= v) = e^-v, by inversion."""
    drawn = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    place = np.searchsorted(_POWERS, drawn, side="right")
    geometric = len(_POWERS) - place
    for at in np.flatnonzero(_POWERS[np.maximum(place - 1, 0)] == drawn):
        geometric[at] = _decide_geometric(int(drawn[at]), rng)
    return geometric


def exact_bernoulli_exp(numerator: Array, denominator: Array | int, rng: np.random.Generator) -> Array:
    """bool, True with probability exp(-numerator / denominator): Canonne, Kamath & Steinke 2020, Algorithm 1.

    Integers with 0 <= numerator and 0 < denominator <= 2^53, one denominator or one each.
    """
    whole, part = np.divmod(numerator, denominator)
    accepted = np.ones(part.shape, np.bool_)
    long = np.flatnonzero(whole)
    accepted[long] = _geometric(long.size, rng) >= whole[long]
    alive, trial = np.flatnonzero(accepted), 1
    while alive.size:
        among = denominator if isinstance(denominator, int) else denominator[alive]
        alive = alive[rng.integers(0, trial * among, size=alive.size) < part[alive]]
        accepted[alive] = trial % 2 == 0  # those that survive the trial and die in the next, number trial + 1
        trial += 1
    return accepted


def _rejection(
    propose: Callable[[Array | int, int], tuple[Array, Array]], scale: Any, shape: tuple[int, ...], name: str
) -> Array:
    """Fill int64[shape] with accepted proposals of each entry's own scale."""
    scales = _integers(name, scale, at_least=1, below=2**26)
    common = int(scales) if scales.ndim == 0 else None
    each = np.empty(0) if common is not None else np.broadcast_to(scales, shape).ravel()
    drawn = np.empty(math.prod(shape), np.int64)
    open_ = np.arange(drawn.size)
    while open_.size:
        value, accepted = propose(each[open_] if common is None else common, open_.size)
        drawn[open_[accepted]] = value[accepted]
        open_ = open_[~accepted]
    return drawn.reshape(shape)


def discrete_laplace(scale: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """int64[shape] with P(x) = (e^(1/t) - 1) / (e^(1/t) + 1) e^(-|x|/t), t = scale an integer in [1, 2^26), one or broadcastable to shape.

    Canonne, Kamath & Steinke 2020, Algorithm 2.
    """

    def propose(t: Array | int, size: int) -> tuple[Array, Array]:
        low = rng.integers(0, t, size=size)
        accepted = exact_bernoulli_exp(low, t, rng)
        size_ = low + t * _geometric(size, rng)
        negative = rng.integers(0, 2, size=size, dtype=np.bool_)
        return np.where(negative, -size_, size_), accepted & ~(negative & (size_ == 0))

    return _rejection(propose, scale, shape, "scale")


def discrete_gaussian(sigma: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """int64[shape] with P(x) proportional to e^(-x^2 / 2 sigma^2), sigma an integer in [1, 2^26), one or broadcastable to shape.

    Canonne, Kamath & Steinke 2020, Algorithm 3 with t = sigma: a discrete Laplace x is kept with
    probability exp(-(|x| - sigma)^2 / 2 sigma^2).
    """

    def propose(s: Array | int, size: int) -> tuple[Array, Array]:
        value = discrete_laplace(s, (size,), rng)
        return value, exact_bernoulli_exp((np.abs(value) - s) ** 2, 2 * s**2, rng)

    return _rejection(propose, sigma, shape, "sigma")


class _Grid(NamedTuple):
    """Noise of scale multiplier * sensitivity, in whole steps."""

    step: Array  # a power of two
    reach: Array  # the sensitivity in steps, rounded up
    scale: Array  # int64: the noise scale in steps, >= multiplier * reach

    def round(self, name: str, x: Array) -> Array:
        """x in steps, int64, to the nearest; ties upwards, so that inputs n steps apart stay within n steps."""
        steps = x / self.step
        if (np.abs(steps) > LARGEST).any():
            raise ValueError(f"{name} must lie within 2^52 steps of {np.min(self.step)} for the exact sampler")
        low = np.floor(steps)
        return (low + (steps - low >= 0.5)).astype(np.int64)


def _grid(sensitivity: Array, multiplier: float) -> _Grid:
    _, exponent = np.frexp(sensitivity * multiplier)
    step = np.ldexp(1.0, exponent - 1 - GRID_BITS)
    if not ((step > 0) & (step < np.inf)).all():
        raise ValueError("the noise scale must lie between 2^-1000 and 2^1000 for the exact sampler")
    reach = np.ceil(sensitivity / step)
    scale = np.floor(reach * multiplier * (1 + 2**-50)) + 1  # above the true product whatever its last bits
    if (scale >= 2**26).any():
        raise ValueError("the noise scale must be at most 2^25 sensitivities for the exact sampler")
    return _Grid(step, reach, scale.astype(np.int64))


def _opendp() -> Any:
    try:
        import opendp.prelude as opendp
    except ImportError as error:
        raise ImportError("sampler 'opendp' needs opendp: pip install 'tacit[secure]'") from error
    opendp.enable_features("contrib")
    return opendp


# ---- what a message costs ----


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
        alpha = _reals("alpha", alpha)
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
    """Renyi divergence between Laplace laws `epsilon` scales apart: Mironov 2017, Table II; on a grid, `reach` steps apart.

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


# ---- mechanisms ----


class Mechanism(ABC):
    """What all mechanisms share; see the module's docstring."""

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
        return _reals("y", y)

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
        return None

    def step(
        self, x: Any, rng: np.random.Generator, state: Any = None, *, where: Any = None, sensitivity: Any = None
    ) -> Array:
        """`perturb` for one round of agents that send where `where` (default: all), updating `state` in place.

        A mechanism that remembers nothing answers for all; the answers of those who do not send mean nothing.
        """
        return self.perturb(x, rng, sensitivity)


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Data leave as they are."""

    kind: ClassVar[str] = "none"
    closed_counts: ClassVar[bool] = True
    epsilon: float = field(default=math.inf, init=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return np.array(x)

    def perturb_counts(self, histogram: Any, rng: np.random.Generator, num_messages: Any = None) -> Array:
        return _counts(histogram, num_messages)[0].astype(np.int64)

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        return np.zeros(np.shape(x))

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        return PrivacyLoss(self.kind, math.inf, math.inf)

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """Number by number: 0 where x0 = x1, inf where y tells, nan where y is neither."""
        y, x0, x1 = map(np.asarray, (y, x0, x1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((x0 == x1) & (y == x0), 0.0, np.log(y == x0) - np.log(y == x1))


class _Bits(Mechanism):
    """Every bit of a one-hot vector is answered by itself: 1 with probability p where it is 1, q where it is 0."""

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
        """p - q = p (1 - q) (1 - e^-epsilon), which does not cancel."""
        return self.p * -math.expm1(-self.epsilon) * math.exp(-np.logaddexp(0, self.logits[1]))

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """x[..., K]: one-hot vectors or zeros; returns 0/1 of the same shape and dtype."""
        bits = _one_hot("x", x)
        if self.sampler == "fast":
            uniform = rng.random(bits.shape)
            answer = (uniform < self.q) | (bits & (uniform < self.p))
        elif self.sampler == "exact":
            yes, no = (exact_bernoulli(partial(_logistic_digits, a), bits.shape, rng) for a in self.logits)
            answer = np.where(bits, yes, no)
        else:
            answer = self._by_opendp(bits)
        return answer.astype(np.asarray(x).dtype)

    def _by_opendp(self, bits: Array) -> Array:
        dp = _opendp()
        domain = dp.bitvector_domain(max_weight=max(1, math.prod(bits.shape[:-1])))
        answer = dp.m.make_randomized_response_bitvec(domain, dp.discrete_distance(), f=2 * self.q)
        data = np.frombuffer(answer(np.packbits(bits).tobytes()), dtype=np.uint8)
        return np.unpackbits(data, count=bits.size).reshape(bits.shape)

    def perturb_counts(self, histogram: Any, rng: np.random.Generator, num_messages: Any = None) -> Array:
        """Option k: Binomial(histogram[k], p) + Binomial(num_messages - histogram[k], q), independent over k."""
        histogram, total = _counts(histogram, num_messages)
        return rng.binomial(histogram, self.p) + rng.binomial(total[..., None] - histogram, self.q)

    def debias(self, y: Any, num_messages: Any = 1) -> Array:
        """(y - n q) / (p - q), from n = `num_messages` messages summed ([...] for y[..., K])."""
        y, total = _reals("y", y), _reals("num_messages", num_messages)
        return (y - total[..., None] * self.q) / self.gap

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        """p(1-p) / (p-q)^2 where the bit is 1, q(1-q) / (p-q)^2 where it is 0."""
        one, zero = (math.exp(-np.logaddexp(0, a) - np.logaddexp(0, -a)) for a in self.logits)
        return np.where(_one_hot("x", x), one, zero) / self.gap**2

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Pure epsilon, and rho = epsilon^2 / 4.

        Two one-hot vectors differ in two bits. The log-likelihood ratio of one of them lies in [log (1-p)/(1-q), log p/q], whose width is
        epsilon: the bit has bounded range epsilon and so is epsilon^2/8-zCDP (Cesar & Rogers 2021); two bits compose to epsilon^2/4.
        (Symmetric bits: each is epsilon/2-DP, which gives the same by Bun & Steinke 2016, Proposition 1.4.) Tight as epsilon -> 0; for
        large epsilon the closed-form RDP says less.
        """
        one, zero = self.logits
        return PrivacyLoss(self.kind, self.epsilon, self.epsilon**2 / 4, {"logit_one": one, "logit_zero": zero})

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """[...] for y, x0, x1 of [..., K]."""
        answer = _bits("y", y)
        table = np.array([[-np.logaddexp(0, sign * a) for sign in (1, -1)] for a in self.logits[::-1]])  # [bit, answer]
        first, second = (
            table[_one_hot(name, x).astype(int), answer.astype(int)] for name, x in (("x0", x0), ("x1", x1))
        )
        return (first - second).sum(-1)


@dataclass(frozen=True)
class BitwiseRandomizedResponse(_Bits):
    """Each bit of a one-hot vector is flipped with probability q = 1 / (e^(epsilon/2) + 1): epsilon-LDP.

    Equation 5 of Chen et al., "Privacy-preserving collaborative learning for multiarmed bandits in IoT"; equation 6 of Tao et al., "A
    distributed privacy-preserving learning dynamics in general social networks". The law of symmetric `UnaryEncoding`.

    Args:
        epsilon: > 0, of one message.
        sampler: "fast", "exact" or "opendp".
    """

    epsilon: float
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=_number("epsilon", self.epsilon))
        _choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    @property
    def logits(self) -> tuple[float, float]:
        return self.epsilon / 2, -self.epsilon / 2


@dataclass(frozen=True)
class UnaryEncoding(_Bits):
    """Unary encoding of a categorical value: Wang, Blocki, Li & Jha 2017, "Locally differentially private protocols for frequency
    estimation", Section 4.

    Args:
        epsilon: > 0, of one message.
        variant: "optimised" (OUE: p = 1/2, q = 1 / (e^epsilon + 1), the least variance for rare values) or "symmetric" (the basic RAPPOR of
            Erlingsson, Pihur & Korolova 2014: p = 1 - q, q = 1 / (e^(epsilon/2) + 1)).
        sampler: "fast" or "exact".
    """

    epsilon: float
    variant: str = "optimised"
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=_number("epsilon", self.epsilon))
        _choice("variant", self.variant, ("optimised", "symmetric"))
        _choice("sampler", self.sampler, ("fast", "exact"))

    @property
    def logits(self) -> tuple[float, float]:
        return (self.epsilon / 2, -self.epsilon / 2) if self.variant == "symmetric" else (0.0, -self.epsilon)


def k_ary_response(values: Any, budget: Any, num_values: int, rng: np.random.Generator) -> Array:
    """int64: `values` kept with probability e / (e + M), else uniform over all M; `budget` e >= 0, one or one each.

    Then P(same) = (e+1) / (e+M) and P(other) = 1 / (e+M): Jiang 2020, chapter 2. Each report is log(1+e)-DP.
    """
    num_values = _whole("num_values", num_values, at_least=2)
    values, budget = _integers("values", values, at_least=0, below=num_values), _reals("budget", budget)
    if not (budget >= 0).all():
        raise ValueError(f"budget must hold numbers >= 0, not {budget[~(budget >= 0)][0]}")
    if budget.ndim and budget.shape != values.shape:
        raise ValueError(f"budget must be a number or of the shape of values {values.shape}, not {budget.shape}")
    kept = rng.random(values.shape) < budget / (budget + num_values)
    return np.where(kept, values, rng.integers(0, num_values, size=values.shape))


@dataclass(frozen=True)
class KaryRandomizedResponse(Mechanism):
    """k-ary randomised response in the parametrisation of Jiang 2020, chapter 2: P(same) = (e+1) / (e+M), P(other) = 1 / (e+M).

    Its level of differential privacy is `epsilon` = log(1+e), not e; `from_epsilon` takes the level.

    Args:
        budget: the paper's e > 0.
        num_values: M >= 2.
        sampler: "fast", "exact" or "opendp".
    """

    kind: ClassVar[str] = "k_ary_randomized_response"
    closed_counts: ClassVar[bool] = True
    budget: float
    num_values: int
    sampler: str = "fast"
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        budget = _number("budget", self.budget)
        self._set(
            budget=budget, num_values=_whole("num_values", self.num_values, at_least=2), epsilon=math.log1p(budget)
        )
        _choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    @classmethod
    def from_epsilon(cls, epsilon: float, num_values: int, sampler: str = "fast") -> "KaryRandomizedResponse":
        """The mechanism that is `epsilon`-DP, epsilon < 700."""
        return cls(math.expm1(_number("epsilon", epsilon, below=700)), num_values, sampler)

    @property
    def p(self) -> float:
        """P(same)."""
        return (self.budget + 1) / (self.budget + self.num_values)

    @property
    def q(self) -> float:
        """P(one other value)."""
        return 1 / (self.budget + self.num_values)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """x[...]: integers in [0, M); returns int64 of the same shape."""
        values = _integers("x", x, at_least=0, below=self.num_values)
        if self.sampler == "fast":
            return k_ary_response(values, self.budget, self.num_values, rng)
        if self.sampler == "exact":
            budget = Fraction(self.budget)
            keep = partial(_ratio_digits, budget / (budget + self.num_values))
            kept = exact_bernoulli(keep, values.shape, rng)
            return np.where(kept, values, rng.integers(0, self.num_values, size=values.shape))
        answer = _opendp().m.make_randomized_response(list(range(self.num_values)), self.p)
        return np.array([answer(int(value)) for value in values.flat], np.int64).reshape(values.shape)

    def perturb_counts(self, histogram: Any, rng: np.random.Generator, num_messages: Any = None) -> Array:
        """Binomial(histogram[k], e/(e+M)) keep their value, all others are spread uniformly over the M values."""
        histogram, total = _counts(histogram, num_messages)
        if histogram.shape[-1] != self.num_values or (total != histogram.sum(-1)).any():
            raise ValueError(
                f"histogram must be [..., {self.num_values}] and count all messages, not of shape {histogram.shape}"
            )
        kept = rng.binomial(histogram, self.budget / (self.budget + self.num_values))
        return kept + rng.multinomial(total - kept.sum(-1), np.full(self.num_values, 1 / self.num_values))

    def debias(self, y: Any, num_messages: Any = None) -> Array:
        """(count - n q) / (p - q), p - q = e / (e+M).

        From messages y[...] (integers), n = 1: [..., M], each value as a one-hot vector.
        From counts y[..., M] of n = `num_messages`[...]: [..., M].
        """
        if num_messages is None:
            counts = _integers("y", y, at_least=0, below=self.num_values)[..., None] == np.arange(self.num_values)
            total = np.ones(())
        else:
            counts, total = _reals("y", y), _reals("num_messages", num_messages)
        return (counts - total[..., None] * self.q) * (self.budget + self.num_values) / self.budget

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        """[..., M] for x[...]: p(1-p) / (p-q)^2 at the value held, q(1-q) / (p-q)^2 elsewhere."""
        held = _integers("x", x, at_least=0, below=self.num_values)[..., None] == np.arange(self.num_values)
        p, q = self.p, self.q
        return np.where(held, p * (self.num_values - 1) * q, q * (1 - q)) / (self.budget * q) ** 2

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Pure log(1+e), and rho = epsilon^2/2 (Bun & Steinke 2016, Proposition 1.4); the RDP is in closed form."""
        parameters = {"epsilon": self.epsilon, "num_values": self.num_values}
        return PrivacyLoss(self.kind, self.epsilon, self.epsilon**2 / 2, parameters)

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        y, x0, x1 = (
            _integers(name, v, at_least=0, below=self.num_values) for name, v in (("y", y), ("x0", x0), ("x1", x1))
        )
        return self.epsilon * ((y == x0).astype(np.float64) - (y == x1))


class _Additive(Mechanism):
    """Noise whose scale is `multiplier` sensitivities, added to every number of x."""

    _spread: ClassVar[float]  # variance of noise of scale 1
    epsilon: float
    sensitivity: float | None
    sampler: str

    @property
    @abstractmethod
    def multiplier(self) -> float: ...

    @abstractmethod
    def _noise(self, scale: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Noise of the given scale; whole numbers if the sampler is exact."""

    @abstractmethod
    def _ratio(self, first: Array, second: Array, scale: Array) -> Array:
        """log-likelihood ratio of noise `first` to noise `second`."""

    @abstractmethod
    def _measurement(self, dp: Any, scale: float) -> Any: ...

    def _bound(self, sensitivity: Any, x: Array) -> Array:
        own = self.sensitivity if self.sensitivity is not None else sensitivity
        if own is None:
            raise ValueError(f"sensitivity must be given with the message or as {type(self).__name__}(sensitivity=...)")
        return _aligned("sensitivity", own, x)

    def _units(self, bound: Array, **values: Any) -> tuple[Array, Array, list[Array]]:
        """(unit, noise scale in units, the values in units): 1 and the values themselves, or whole steps of the exact sampler's grid."""
        if self.sampler != "exact":
            return np.ones(()), bound * self.multiplier, list(values.values())
        grid = _grid(bound, self.multiplier)
        return grid.step, grid.scale, [grid.round(name, value) for name, value in values.items()]

    def scale(self, x: Any, sensitivity: Any = None) -> Array:
        """Noise scale of each message of x: b of Laplace(b), sigma of a Gaussian; broadcasts against x."""
        unit, scale, _ = self._units(self._bound(sensitivity, np.asarray(x)))
        return unit * scale

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """x[...]: numbers; returns float64 of the same shape."""
        x = _reals("x", x)
        unit, scale, (x,) = self._units(self._bound(sensitivity, x), x=x)
        if self.sampler == "opendp":
            dp, scales, noisy = _opendp(), np.broadcast_to(scale, x.shape), np.empty(x.shape)
            for value in np.unique(scales):
                noisy[scales == value] = self._measurement(dp, float(value))(x[scales == value].tolist())
            return noisy
        return (x + self._noise(scale, x.shape, rng)) * unit

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        x = _reals("x", x)
        return np.broadcast_to(self._spread * self.scale(x, sensitivity) ** 2, x.shape).copy()

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """Number by number; the ratio of a message is the sum over its numbers."""
        y, x0, x1 = _reals("y", y), _reals("x0", x0), _reals("x1", x1)
        _, scale, (y, x0, x1) = self._units(self._bound(sensitivity, y), y=y, x0=x0, x1=x1)
        return self._ratio(y - x0, y - x1, scale)


@dataclass(frozen=True)
class Laplace(_Additive):
    """Laplace noise of scale sensitivity / epsilon: Dwork, McSherry, Nissim & Smith 2006.

    Args:
        epsilon: > 0, of one message.
        sensitivity: L1 distance between adjacent messages; None takes that which comes with each message.
        sampler: "fast", "exact" or "opendp".
    """

    kind: ClassVar[str] = "laplace"
    _spread: ClassVar[float] = 2.0
    epsilon: float
    sensitivity: float | None = None
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=_number("epsilon", self.epsilon))
        if self.sensitivity is not None:
            self._set(sensitivity=_number("sensitivity", self.sensitivity))
        _choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    @property
    def multiplier(self) -> float:
        return 1 / self.epsilon

    def _noise(self, scale: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return discrete_laplace(scale, shape, rng) if self.sampler == "exact" else rng.laplace(0.0, scale, shape)

    def _ratio(self, first: Array, second: Array, scale: Array) -> Array:
        return (np.abs(second) - np.abs(first)) / scale

    def _measurement(self, dp: Any, scale: float) -> Any:
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Pure epsilon, rho = epsilon^2/2 (Bun & Steinke 2016, Proposition 1.4); the RDP is in closed form (Mironov 2017, Table II)."""
        return _laplace_loss(self.epsilon, nodes=1, exact=self.sampler == "exact")


def _laplace_loss(epsilon: float, *, nodes: int, exact: bool) -> PrivacyLoss:
    """Cost of `nodes` Laplace releases that share `epsilon` in equal parts; on the grid, as if on its coarsest for that epsilon."""
    reach = max(1, math.floor(epsilon / nodes * 2**GRID_BITS)) if exact else math.inf
    parameters = {"noise_multiplier": nodes / epsilon, "reach": reach, "nodes": nodes}
    return PrivacyLoss("laplace", epsilon, epsilon**2 / (2 * nodes), parameters)


@lru_cache(1024)
def gaussian_delta(epsilon: float, noise_multiplier: float) -> float:
    """The least delta for which Gaussian noise of `noise_multiplier` sensitivities is (epsilon, delta)-DP: Balle & Wang 2018, Theorem 8.

    Phi(1/2z - epsilon z) - e^epsilon Phi(-1/2z - epsilon z), z = noise_multiplier.
    """
    from scipy.special import log_ndtr

    half, shift = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
    first, second = float(log_ndtr(half - shift)), epsilon + float(log_ndtr(-half - shift))
    return math.exp(first) * max(0.0, -math.expm1(min(0.0, second - first)))


@lru_cache(1024)
def _calibrate(epsilon: float, delta: float) -> float:
    """The least noise multiplier that is (epsilon, delta)-DP, by bisection: Balle & Wang 2018, Algorithm 1."""
    low = high = 1.0
    while gaussian_delta(epsilon, high) > delta:
        high *= 2
    while gaussian_delta(epsilon, low) <= delta:
        low /= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(epsilon, middle) > delta else (low, middle)
    return high


@dataclass(frozen=True)
class Gaussian(_Additive):
    """Gaussian noise, as little as is (epsilon, delta)-DP: the analytic calibration of Balle & Wang 2018.

    `from_rho` and `from_sigma` state the noise instead; then `epsilon` is inf, and `gaussian_delta(epsilon, noise_multiplier)` gives the
    curve.
    The exact sampler's discrete Gaussian has the same rho (Canonne, Kamath & Steinke 2020, Theorem 4).

    Args:
        epsilon: > 0, of one message, at delta.
        delta: in (0, 1).
        sensitivity: L2 distance between adjacent messages; None takes that which comes with each message.
        sampler: "fast", "exact" or "opendp".
        noise_multiplier: sigma / sensitivity; found from epsilon and delta unless given, and refused if too small for them.
    """

    kind: ClassVar[str] = "gaussian"
    _spread: ClassVar[float] = 1.0
    epsilon: float = math.inf
    delta: float = 0.0
    sensitivity: float | None = None
    sampler: str = "fast"
    noise_multiplier: float = math.nan

    def __post_init__(self) -> None:
        given: Any = self.noise_multiplier
        known = not (isinstance(given, float) and math.isnan(given))
        if known:
            self._set(noise_multiplier=_number("noise_multiplier", given))
        if not (known and self.epsilon == math.inf and self.delta == 0):
            self._set(epsilon=_number("epsilon", self.epsilon), delta=_number("delta", self.delta, below=1))
            least = _calibrate(self.epsilon, self.delta)
            if known and self.noise_multiplier < least * (1 - 1e-9):
                raise ValueError(
                    f"noise_multiplier must be >= {least:g} for epsilon={self.epsilon:g}, delta={self.delta:g}, "
                    f"not {self.noise_multiplier!r}"
                )
            if not known:
                self._set(noise_multiplier=least)
        if self.sensitivity is not None:
            self._set(sensitivity=_number("sensitivity", self.sensitivity))
        _choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float | None = None, sampler: str = "fast") -> "Gaussian":
        """Noise that is rho-zCDP: sigma = sensitivity / sqrt(2 rho) (Bun & Steinke 2016, Proposition 1.6)."""
        multiplier = 1 / math.sqrt(2 * _number("rho", rho))
        return cls(sensitivity=sensitivity, sampler=sampler, noise_multiplier=multiplier)

    @classmethod
    def from_sigma(cls, sigma: float, sensitivity: float, sampler: str = "fast") -> "Gaussian":
        """Noise of standard deviation `sigma`, in the units of the message, for the sensitivity stated."""
        multiplier = _number("sigma", sigma) / _number("sensitivity", sensitivity)
        return cls(sensitivity=sensitivity, sampler=sampler, noise_multiplier=multiplier)

    @property
    def multiplier(self) -> float:
        return self.noise_multiplier

    def _noise(self, scale: Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return discrete_gaussian(scale, shape, rng) if self.sampler == "exact" else rng.normal(0.0, scale, shape)

    def _ratio(self, first: Array, second: Array, scale: Array) -> Array:
        first, second, scale = (np.asarray(value, np.float64) for value in (first, second, scale))
        return (second - first) * (second + first) / (2 * scale**2)

    def _measurement(self, dp: Any, scale: float) -> Any:
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """No pure epsilon; rho = sensitivity^2 / (2 sigma^2), and the RDP is alpha rho."""
        rho = 1 / (2 * self.noise_multiplier**2)
        return PrivacyLoss(self.kind, math.inf, rho, {"noise_multiplier": self.noise_multiplier})


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Selects option k with probability proportional to exp(epsilon u_k / (2 sensitivity)): McSherry & Talwar 2007.

    Drawn as the argmax of scores plus Gumbel noise ("fast", "opendp"), or by rejection from the uniform law ("exact").

    Args:
        epsilon: > 0, of one selection.
        sensitivity: greatest change of any score between adjacent inputs; None takes that which comes with each message.
        sampler: "fast", "exact" or "opendp".
    """

    kind: ClassVar[str] = "exponential"
    payload_dims: ClassVar[int] = 1
    epsilon: float
    sensitivity: float | None = None
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=_number("epsilon", self.epsilon))
        if self.sensitivity is not None:
            self._set(sensitivity=_number("sensitivity", self.sensitivity))
        _choice("sampler", self.sampler, ("fast", "exact", "opendp"))

    def _scores(self, name: str, scores: Any, sensitivity: Any) -> tuple[Array, Array]:
        """Scores [..., K] and the temperature that divides them; the exact sampler's are whole numbers."""
        scores = _reals(name, scores)
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError(f"{name} must be an array [..., K] with K >= 1, not of shape {scores.shape}")
        own = self.sensitivity if self.sensitivity is not None else sensitivity
        if own is None:
            raise ValueError("sensitivity must be given with the message or as Exponential(sensitivity=...)")
        bound = _aligned("sensitivity", own, scores[..., :1])
        if self.sampler != "exact":
            return scores, bound * (2 / self.epsilon)
        grid = _grid(bound, 2 / self.epsilon)
        return grid.round(name, scores), grid.scale

    def _log_probabilities(self, name: str, scores: Any, sensitivity: Any) -> Array:
        scores, temperature = self._scores(name, scores, sensitivity)
        logits = (scores - scores.max(-1, keepdims=True)) / temperature
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def probabilities(self, scores: Any, sensitivity: Any = None) -> Array:
        """float64[..., K]: the law of the selection."""
        return np.exp(self._log_probabilities("scores", scores, sensitivity))

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """x[..., K]: scores; returns int64[...], the option selected."""
        scores, temperature = self._scores("x", x, sensitivity)
        if self.sampler == "fast":
            return (scores / temperature + rng.gumbel(size=scores.shape)).argmax(-1)
        flat = scores.reshape(-1, scores.shape[-1])
        each = np.broadcast_to(temperature, (*scores.shape[:-1], 1)).ravel()
        if self.sampler == "opendp":
            dp = _opendp()
            space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
            measure = dp.zero_concentrated_divergence()  # Gumbel noise; its max-divergence variant is permute-and-flip
            chosen = [
                dp.m.make_noisy_max(*space, measure, scale=float(t))(row.tolist())
                for row, t in zip(flat, each, strict=True)
            ]
            return np.array(chosen, np.int64).reshape(scores.shape[:-1])
        gaps, selected, open_ = flat.max(-1, keepdims=True) - flat, np.empty(len(flat), np.int64), np.arange(len(flat))
        while open_.size:
            candidate = rng.integers(0, flat.shape[-1], size=open_.size)
            accepted = exact_bernoulli_exp(gaps[open_, candidate], each[open_], rng)
            selected[open_[accepted]] = candidate[accepted]
            open_ = open_[~accepted]
        return selected.reshape(scores.shape[:-1])

    def debias(self, y: Any, num_messages: Any = 1) -> Array:
        raise TypeError("Exponential selects an option: there is nothing to debias")

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        raise TypeError("Exponential selects an option: it has no variance")

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Pure epsilon, and rho = epsilon^2/8: its range is bounded by epsilon (Cesar & Rogers 2021)."""
        return PrivacyLoss(self.kind, self.epsilon, self.epsilon**2 / 8, {"epsilon": self.epsilon})

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """[...] for selections y[...] and scores x0, x1 of [..., K]."""
        first, second = (self._log_probabilities(name, x, sensitivity) for name, x in (("x0", x0), ("x1", x1)))
        y = _integers("y", y, at_least=0, below=first.shape[-1])
        return np.take_along_axis(first - second, y[..., None], -1)[..., 0]


# ---- mechanisms that remember ----


def _where(where: Any, shape: tuple[int, ...]) -> Array:
    if where is None:
        return np.ones(shape, np.bool_)
    where = np.asarray(where)
    if where.dtype != np.bool_ or where.shape != shape[: where.ndim]:
        raise ValueError(f"where must be booleans over the leading axes of {shape}, not {where.dtype}{where.shape}")
    return np.broadcast_to(where.reshape(where.shape + (1,) * (len(shape) - where.ndim)), shape)


class Streams:
    """State of `TreeAggregation` for agents of `shape`: log2(horizon) + 2 numbers each."""

    def __init__(self, shape: tuple[int, ...], horizon: int, sensitivity: Any) -> None:
        self.shape, self.horizon, self.sensitivity = shape, horizon, sensitivity
        self.time: Array = np.zeros(shape, np.int64)  # values so far
        self.fresh: Array = np.zeros(shape, np.bool_)  # the last step began the stream, which is when it is charged
        self.total: Array | None = None  # [*shape, *payload]: true sums
        self.noise: Array | None = None  # [*shape, *payload, levels]: that of the blocks which make up the last answer

    def reset(self, where: Any = None) -> None:
        """Begin new streams where `where` (over the leading axes; default: everywhere)."""
        chosen = _where(where, self.shape)
        self.time, self.fresh = np.where(chosen, 0, self.time), np.where(chosen, False, self.fresh)
        for array in (self.total, self.noise):
            if array is not None:
                array[chosen] = 0


def _last_block(time: Array) -> Array:
    """2^j, the lowest 1 in the binary form of time: the length of the last block of the first `time` values."""
    return time & -time


@dataclass(frozen=True)
class TreeAggregation(Mechanism):
    """Running sums of a stream of bounded values, released at every step: the binary mechanism of Chan, Shi & Song 2011, Algorithm 2.

    The first t values are cut into blocks, one for each 1 in the binary form of t, the shortest last; the sum of a block is noised once,
    with Laplace noise of scale levels * sensitivity / epsilon. A value lies in at most one block of each level, and there are
    floor(log2 horizon) + 1 levels, so the stream as a whole costs epsilon, charged at its first value; the error grows as log^1.5 of the
    horizon.

    `perturb(x[..., T])` answers whole streams; `start` and `step` go round by round, every number of x being a stream.

    Args:
        epsilon: > 0, of the whole stream.
        horizon: longest stream; None takes what `start` is told (or the streams' length in `perturb`).
        sensitivity: greatest change of one value, the same throughout a stream; None takes what `start` or `perturb` is told.
        sampler: "fast" or "exact".
    """

    kind: ClassVar[str] = "tree"
    payload_dims: ClassVar[int] = 1
    stateful: ClassVar[bool] = True
    epsilon: float
    horizon: int | None = None
    sensitivity: float | None = None
    sampler: str = "fast"

    def __post_init__(self) -> None:
        self._set(epsilon=_number("epsilon", self.epsilon))
        if self.horizon is not None:
            self._set(horizon=_whole("horizon", self.horizon, at_least=1))
        if self.sensitivity is not None:
            self._set(sensitivity=_number("sensitivity", self.sensitivity))
        _choice("sampler", self.sampler, ("fast", "exact"))

    def _horizon(self, told: int | None) -> int:
        longest = self.horizon if self.horizon is not None else told
        if longest is None:
            raise ValueError("horizon must be given, to start or as TreeAggregation(horizon=...)")
        return _whole("horizon", longest, at_least=1)

    def levels(self, horizon: int | None = None) -> int:
        """floor(log2 horizon) + 1."""
        return self._horizon(horizon).bit_length()

    def _block(self, horizon: int | None) -> Laplace:
        """The law of one block's noise."""
        return Laplace(self.epsilon / self.levels(horizon), self.sensitivity, self.sampler)

    def _streams(self, name: str, x: Any) -> Array:
        x = _reals(name, x)
        if x.ndim == 0 or not 1 <= x.shape[-1] <= (self.horizon or math.inf):
            raise ValueError(f"{name} must be streams [..., T] with 1 <= T <= {self.horizon or 'any'}, not {x.shape}")
        return x

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """x[..., T]: whole streams; returns float64[..., T], the noisy sums of the first 1, ..., T values."""
        x = self._streams("x", x)
        block = self._block(x.shape[-1])
        unit, scale, (x,) = block._units(block._bound(sensitivity, x[..., :1]), x=x)
        noise = block._noise(scale, x.shape, rng)  # [..., t]: of the block that ends at t
        time = np.arange(1, x.shape[-1] + 1)
        sums = np.cumsum(x, axis=-1)
        while time.any():
            sums = sums + np.where(time > 0, noise[..., time - 1], 0)
            time = time - _last_block(time)
        return sums * unit

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Any = None) -> Streams:
        """State of one stream per agent of `shape`; `sensitivity` is a number or follows the axes of shape."""
        horizon = self._horizon(horizon)
        self._block(horizon)._bound(sensitivity, np.zeros(shape))
        return Streams(tuple(shape), horizon, sensitivity)

    def step(
        self, x: Any, rng: np.random.Generator, state: Any = None, *, where: Any = None, sensitivity: Any = None
    ) -> Array:
        """Take the next value x[*shape, ...] of each stream; returns its noisy sum so far (of the others, their last answer).

        The sensitivity is that which `start` was told.
        """
        if not isinstance(state, Streams):
            raise ValueError(f"state must come from TreeAggregation.start, not be {state!r}")
        x, chosen = _reals("x", x), _where(where, state.shape)
        payload = x.shape[len(state.shape) :]
        if x.shape[: len(state.shape)] != state.shape or (state.total is not None and x.shape != state.total.shape):
            raise ValueError(f"x must be of the shape of the streams {state.shape}, not {x.shape}")
        if (state.time[chosen] >= state.horizon).any():
            raise ValueError(f"a stream has had its {state.horizon} values: reset it, or start with a longer horizon")
        block, levels = self._block(state.horizon), state.horizon.bit_length()
        unit, scale, (x,) = block._units(block._bound(state.sensitivity, x), x=x)
        if state.total is None or state.noise is None:
            state.total, state.noise = np.zeros_like(x), np.zeros((*x.shape, levels), x.dtype)
        rows, size = np.flatnonzero(chosen), math.prod(payload)
        each = scale if scale.ndim == 0 else np.broadcast_to(scale, x.shape).reshape(chosen.size, size)[rows]
        drawn = block._noise(each, (rows.size, size), rng)
        state.fresh, state.time = np.asarray(chosen & (state.time == 0)), np.asarray(state.time + chosen)
        state.total += np.where(chosen.reshape(chosen.shape + (1,) * len(payload)), x, 0)
        ended = (
            np.frexp(_last_block(state.time.ravel()[rows]).astype(np.float64))[1] - 1
        )  # level of the block that ends
        noise = state.noise.reshape(chosen.size, size, levels)
        noise[rows] *= np.arange(levels) > ended[:, None, None]
        noise[rows, :, ended] = drawn
        return (state.total + state.noise.sum(-1)) * unit

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        """x[..., T]: of the t-th sum, 2 b^2 for each 1 in the binary form of t, b = levels * sensitivity / epsilon."""
        x = self._streams("x", x)
        blocks = np.bitwise_count(np.arange(1, x.shape[-1] + 1))
        scale = self._block(x.shape[-1]).scale(x[..., :1], sensitivity)
        return np.broadcast_to(2 * scale**2 * blocks, x.shape).copy()

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Of the whole stream: a Laplace release of epsilon / levels for each level (horizon unknown: bounded by one of epsilon)."""
        nodes = 1 if self.horizon is None else self.levels()
        return _laplace_loss(self.epsilon, nodes=nodes, exact=self.sampler == "exact")

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """[...] for answers y[..., T] to streams x0, x1 of [..., T]; the answers tell the noisy sum of every block."""
        y, x0, x1 = (self._streams(name, value) for name, value in (("y", y), ("x0", x0), ("x1", x1)))
        block = self._block(y.shape[-1])
        _, scale, (y, x0, x1) = block._units(block._bound(sensitivity, y[..., :1]), y=y, x0=x0, x1=x1)
        time = np.arange(1, y.shape[-1] + 1)

        def blocks(sums: Array) -> Array:
            before = time - _last_block(time)
            return sums - np.where(before > 0, sums[..., before - 1], 0)

        first, second = (blocks(y) - blocks(np.cumsum(x, axis=-1)) for x in (x0, x1))
        return block._ratio(first, second, scale).sum(-1)


class Memory:
    """State of `Memoized` for agents of `shape`: what each was asked last and what it answered."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.known: Array = np.zeros(shape, np.bool_)  # has an answer
        self.fresh: Array = np.zeros(shape, np.bool_)  # drew a new one at the last step: the charge
        self.asked: Array | None = None  # [*shape, ...]: the value answered for
        self.answers: Array | None = None  # [*shape, ...]

    def reset(self, where: Any = None) -> None:
        """Forget the answers where `where` (over the leading axes; default: everywhere)."""
        chosen = _where(where, self.shape)
        self.known, self.fresh = np.where(chosen, False, self.known), np.where(chosen, False, self.fresh)


@dataclass(frozen=True)
class Memoized(Mechanism):
    """The answer stays while the value stays: the permanent response of Erlingsson, Pihur & Korolova 2014, Section 2.

    An agent draws, and is charged, only when its value differs from that of its last answer; repeating an answer costs nothing. A value
    that changes c times costs c + 1 messages. What that count does not cover: a new answer that differs from the last shows that the value
    changed.

    `perturb` gives first answers; `start` and `step` remember.

    Args:
        mechanism: whose answers stay; one that remembers nothing itself.
    """

    stateful: ClassVar[bool] = True
    mechanism: Mechanism

    def __post_init__(self) -> None:
        inner: Any = self.mechanism
        if not isinstance(inner, Mechanism) or inner.stateful:
            raise ValueError(f"mechanism must be one that remembers nothing, not {inner!r}")
        self._set(epsilon=self.mechanism.epsilon, kind=self.mechanism.kind, payload_dims=self.mechanism.payload_dims)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return self.mechanism.perturb(x, rng, sensitivity)

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Any = None) -> Memory:
        """Memory of the agents of `shape`, empty."""
        return Memory(tuple(shape))

    def step(
        self, x: Any, rng: np.random.Generator, state: Any = None, *, where: Any = None, sensitivity: Any = None
    ) -> Array:
        """Answers for x[*shape, ...]: new ones where the value is new, else those given before (zeros where none was)."""
        if not isinstance(state, Memory):
            raise ValueError(f"state must come from Memoized.start, not be {state!r}")
        x, chosen, axes = np.asarray(x), _where(where, state.shape), len(state.shape)
        if x.shape[:axes] != state.shape or (state.asked is not None and x.shape != state.asked.shape):
            raise ValueError(f"x must be of the shape of the agents {state.shape}, not {x.shape}")
        asked = x.copy() if state.asked is None else state.asked
        differs = (x != asked).any(tuple(range(axes, x.ndim)))
        fresh = np.asarray(chosen & (differs | ~state.known))
        rows, size = np.flatnonzero(fresh), fresh.size
        if np.ndim(sensitivity):
            sensitivity = np.broadcast_to(_aligned("sensitivity", sensitivity, fresh), state.shape).ravel()[rows]
        drawn = self.mechanism.perturb(x.reshape(size, *x.shape[axes:])[rows], rng, sensitivity)
        if state.answers is None:
            state.answers = np.zeros((*state.shape, *drawn.shape[1:]), drawn.dtype)
        state.asked, state.fresh, state.known = asked, fresh, np.asarray(state.known | fresh)
        state.answers.reshape(size, *drawn.shape[1:])[rows] = drawn
        asked.reshape(size, *x.shape[axes:])[rows] = x.reshape(size, *x.shape[axes:])[rows]
        return state.answers.copy()

    def debias(self, y: Any, num_messages: Any = 1) -> Array:
        return self.mechanism.debias(y, num_messages)

    def variance(self, x: Any, sensitivity: Any = None) -> Array:
        return self.mechanism.variance(x, sensitivity)

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Of one new answer."""
        return self.mechanism.loss(sensitivity)

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """Of first answers."""
        return self.mechanism.log_likelihood_ratio(y, x0, x1, sensitivity)
