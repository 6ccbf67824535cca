"""Samplers: how mechanisms draw their noise.

- "fast": NumPy's floating-point draws. An idealisation: the low bits of Laplace and Gaussian noise tell inputs apart (Mironov 2012, "On
  significance of the least significant bits for differential privacy"). Fine for simulation, not for releasing data.
- "exact": integer arithmetic on a grid, after Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy"; the random
  bits are still the Generator's, which is no cryptographic source. The grid's step is the power of two that puts 2^24 to 2^25 steps into
  one noise scale. Inputs are rounded to it, sensitivity and scale are rounded up, so the claim holds as stated and the noise is larger by a
  fraction of at most about 2^-24 (1 + scale / sensitivity). Where one input changes d numbers of a message, rounding may add d steps to
  the sensitivity.
- "opendp": the OpenDP library (extra `secure`), which takes its randomness from the system: seeds have no effect.

NumPy and OpenDP need no more than a call; this module holds what "exact" needs. It imports nothing from taciturn.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "Grid",
    "discrete_gaussian",
    "discrete_laplace",
    "exact_bernoulli",
    "exact_bernoulli_exp",
    "exp_digits",
    "load_opendp",
    "logistic_digits",
    "ratio_digits",
]

Array = npt.NDArray[Any]
Digits = Callable[[int], int]  # digits(n) = floor(2^n p) of a probability p

GRID_BITS = 24  # the noise scale is 2^24 to 2^25 steps of the exact samplers' grid
LARGEST = 2**52  # largest input of the exact samplers, in steps


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
def logistic_digits(logit: float, bits: int) -> int:
    """floor(2^bits / (1 + e^-logit)); e^x is irrational for every float x but 0."""
    if logit == 0:
        return 1 << (bits - 1)
    if abs(logit) > bits:
        return 0 if logit < 0 else (1 << bits) - 1
    return _floor(lambda: 1 / (1 + (-Decimal(logit)).exp()), bits)


@lru_cache(4096)
def exp_digits(power: int, bits: int) -> int:
    """floor(2^bits e^-power) for power >= 1."""
    return _floor(lambda: (-Decimal(power)).exp(), bits)


@lru_cache(4096)
def ratio_digits(ratio: Fraction, bits: int) -> int:
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


_POWERS = np.array([exp_digits(v, 64) for v in range(45, 0, -1)], dtype=np.uint64)  # ascending; e^-45 < 2^-64


def _decide_geometric(number: int, rng: np.random.Generator) -> int:
    """How many v >= 1 have e^-v above the uniform number whose first 64 bits are given."""
    bits = 64
    while True:
        v = 0
        while number < exp_digits(v + 1, bits):
            v += 1
        if number != exp_digits(v + 1, bits):
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
    scales = np.asarray(scale)
    if scales.dtype.kind not in "iu" or not ((scales >= 1) & (scales < 2**26)).all():
        raise ValueError(f"{name} must hold integers >= 1 and < 2^26, not {scale!r}")
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


class Grid(NamedTuple):
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

    @classmethod
    def of(cls, sensitivity: Array, multiplier: float) -> "Grid":
        """The grid for noise of scale multiplier * sensitivity."""
        _, exponent = np.frexp(sensitivity * multiplier)
        step = np.ldexp(1.0, exponent - 1 - GRID_BITS)
        if not ((step > 0) & (step < np.inf)).all():
            raise ValueError("the noise scale must lie between 2^-1000 and 2^1000 for the exact sampler")
        reach = np.ceil(sensitivity / step)
        scale = np.floor(reach * multiplier * (1 + 2**-50)) + 1  # above the true product whatever its last bits
        if (scale >= 2**26).any():
            raise ValueError("the noise scale must be at most 2^25 sensitivities for the exact sampler")
        return cls(step, reach, scale.astype(np.int64))


def load_opendp() -> Any:
    try:
        import opendp.prelude as opendp
    except ImportError as error:
        raise ImportError(
            "sampler 'opendp' needs opendp: run pip install '.[secure]' in a clone of taciturn"
        ) from error
    opendp.enable_features("contrib")
    return opendp
