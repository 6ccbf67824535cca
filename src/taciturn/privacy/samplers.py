"""Samplers: how mechanisms draw their noise.

- "fast": NumPy's floating-point samplers. This is an idealisation: the low bits of Laplace and Gaussian noise can
  distinguish inputs (Mironov 2012, "On significance of the least significant bits for differential privacy"). It is fit
  for simulation, not for releasing data.
- "exact": integer arithmetic on a grid, after Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential
  privacy". The random bits still come from the Generator, which is not a cryptographic source. The grid's step is a
  power of two, chosen to make the scale of the noise 2^24 to 2^25 steps long. Inputs are rounded to the grid, and
  sensitivity and scale are rounded up, so the claim holds exactly and the noise is larger by a fraction of at most
  about 2^-24 (1 + scale / sensitivity). If one unit changes d numbers of a message, rounding can add d steps to the
  sensitivity.
- "opendp": the OpenDP library (extra `secure`), which takes its randomness from the operating system, so seeds have no
  effect.

This module holds the exact samplers; the others are called where they are used.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.validation import Array, Bools, Ints, missing_extra

Digits = Callable[[int], int]  # digits(n) = floor(2^n p) of a probability p

GRID_BITS = 24  # the noise scale is 2^24 to 2^25 steps of the grid
LARGEST = 2.0**52  # the largest input, in steps; larger ones are clipped


def _floor(value: Callable[[], Decimal], bits: int) -> int:
    """floor(2^bits v) of an irrational v, computed with as many decimal digits as needed."""
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
    """floor(2^bits / (1 + e^-logit)); e^x is irrational for every float x except 0."""
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


def _more_bits(rng: Generator) -> int:
    return int(rng.integers(0, 2**48))


def exact_bernoulli(digits: Digits, shape: tuple[int, ...], rng: Generator) -> Bools:
    """bool[shape], each True with exactly the probability p in [0, 1) given by its binary digits, digits(n) = floor(2^n
    p).

    Each draw compares p with a uniform number and draws only as many bits of it as the comparison needs; 16 nearly
    always suffice (von Neumann 1951).
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


def _decide_geometric(number: int, rng: Generator) -> int:
    """The number of v >= 1 for which e^-v exceeds a uniform number, given by its first 64 bits."""
    bits = 64
    while True:
        v = 0
        while number < exp_digits(v + 1, bits):
            v += 1
        if number != exp_digits(v + 1, bits):
            return v
        bits, number = bits + 48, (number << 48) | _more_bits(rng)


def _geometric(size: int, rng: Generator) -> Ints:
    """int64[size] with P(V >= v) = e^-v, by inversion."""
    drawn = rng.integers(0, 2**64, size=size, dtype=np.uint64)
    place = np.searchsorted(_POWERS, drawn, side="right")
    geometric = len(_POWERS) - place
    for at in np.flatnonzero(_POWERS[np.maximum(place - 1, 0)] == drawn):
        geometric[at] = _decide_geometric(int(drawn[at]), rng)
    return geometric


def exact_bernoulli_exp(numerator: Array, denominator: Array | int, rng: Generator) -> Bools:
    """bool, True with probability exp(-numerator / denominator): Canonne, Kamath & Steinke 2020, Algorithm 1.

    Both are integers with 0 <= numerator and 0 < denominator <= 2^53; the denominator may be a single number.
    """
    whole, part = np.divmod(numerator, denominator)
    accepted = np.ones(part.shape, np.bool_)
    long = np.flatnonzero(whole)
    accepted[long] = _geometric(long.size, rng) >= whole[long]
    alive, trial = np.flatnonzero(accepted), 1
    while alive.size:
        among = denominator if isinstance(denominator, int) else denominator[alive]
        alive = alive[rng.integers(0, trial * among, size=alive.size) < part[alive]]
        accepted[alive] = trial % 2 == 0  # for numbers that survive this trial and fail in trial number trial + 1
        trial += 1
    return accepted


def _rejection(
    propose: Callable[[Array | int, int], tuple[Array, Array]], scale: ArrayLike, shape: tuple[int, ...], name: str
) -> Array:
    """int64[shape] of accepted proposals, each at its own scale."""
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


def discrete_laplace(scale: ArrayLike, shape: tuple[int, ...], rng: Generator) -> Ints:
    """int64[shape] with P(x) = (e^(1/t) - 1) / (e^(1/t) + 1) e^(-|x|/t): Canonne, Kamath & Steinke 2020, Algorithm 2.

    t = `scale` holds integers in [1, 2^26) and broadcasts to `shape`.
    """

    def propose(t: Array | int, size: int) -> tuple[Array, Array]:
        low = rng.integers(0, t, size=size)
        accepted = exact_bernoulli_exp(low, t, rng)
        size_ = low + t * _geometric(size, rng)
        negative = rng.integers(0, 2, size=size, dtype=np.bool_)
        return np.where(negative, -size_, size_), accepted & ~(negative & (size_ == 0))

    return _rejection(propose, scale, shape, "scale")


def discrete_gaussian(sigma: ArrayLike, shape: tuple[int, ...], rng: Generator) -> Ints:
    """int64[shape] with P(x) proportional to e^(-x^2 / 2 sigma^2): Canonne, Kamath & Steinke 2020, Algorithm 3 with t =
    sigma.

    A discrete Laplace draw x is accepted with probability exp(-(|x| - sigma)^2 / 2 sigma^2). `sigma` holds integers in
    [1, 2^26) and broadcasts to `shape`.
    """

    def propose(s: Array | int, size: int) -> tuple[Array, Array]:
        value = discrete_laplace(s, (size,), rng)
        return value, exact_bernoulli_exp((np.abs(value) - s) ** 2, 2 * s**2, rng)

    return _rejection(propose, sigma, shape, "sigma")


class Grid(NamedTuple):
    """A grid on which the noise scale, multiplier * sensitivity rounded up, is a whole number of steps."""

    step: Array  # a power of two
    reach: Array  # the sensitivity in steps, rounded up
    scale: Array  # int64: the noise scale in steps, >= multiplier * reach

    def round(self, x: Array) -> Array:
        """x in steps, int64, rounded to the nearest and clipped to +-`LARGEST`; ties are rounded up, so inputs n
        steps apart stay within n steps."""
        with np.errstate(over="ignore"):
            steps = np.clip(x / self.step, -LARGEST, LARGEST)
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
        scale = np.floor(reach * multiplier * (1 + 2**-50)) + 1  # exceeds the true product despite rounding
        if (scale >= 2**26).any():
            raise ValueError("the noise scale must be at most 2^25 sensitivities for the exact sampler")
        return cls(step, reach, scale.astype(np.int64))


def load_opendp() -> Any:
    """OpenDP's prelude; ImportError without the extra `secure`."""
    try:
        import opendp.prelude as opendp
    except ImportError as error:
        raise missing_extra("sampler 'opendp' needs opendp", "secure") from error
    opendp.enable_features("contrib")
    return opendp
