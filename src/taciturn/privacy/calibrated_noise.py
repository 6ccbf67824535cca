"""Noise that scales with a sensitivity: Laplace and Gaussian noise on numbers, and the selection of the exponential
mechanism."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Given, Mechanism
from taciturn.privacy.losses import ExponentialLoss, GaussianLoss, LaplaceLoss, PrivacyLoss
from taciturn.privacy.samplers import (
    GRID_BITS,
    Grid,
    discrete_gaussian,
    discrete_laplace,
    exact_bernoulli_exp,
    load_opendp,
)
from taciturn.validation import Array, choice, number

ROUNDING = 1e-9  # relative tolerance: an environment and a user may compute the same sensitivity in different ways


class Calibrated(Mechanism):
    """Base of mechanisms with noise proportional to a sensitivity: the one passed with each message, or the mechanism's
    own, which must be at least as large."""

    samplers: ClassVar[tuple[str, ...]] = ("fast", "exact", "opendp")
    sensitivity: float | None
    sampler: str

    def __post_init__(self) -> None:
        self._set(epsilon=checks.level("epsilon", self.epsilon))
        self._check()

    @property
    def idealised(self) -> bool:  # type: ignore[override]
        return self.sampler == "fast" and self.kind != "exponential"  # a selection has no lowest bits

    def _check(self) -> None:
        """Check `sensitivity` and `sampler`."""
        if self.sensitivity is not None:
            self._set(sensitivity=number("sensitivity", self.sensitivity, above=0))
        choice("sampler", self.sampler, self.samplers)

    def check_sensitivity(self, stated: Given) -> None:
        if stated is None or self.sensitivity is None:
            return
        largest = np.max(stated, initial=0.0)
        if largest > self.sensitivity * (1 + ROUNDING):
            raise ValueError(
                f"sensitivity of {self!r} must be at least {largest:.6g}, which is stated for its messages, not "
                f"{self.sensitivity:.6g}"
            )

    def bound(self, sensitivity: Given, x: Array) -> Array:
        """The sensitivity of each of the messages x."""
        self.check_sensitivity(sensitivity)
        own = self.sensitivity if self.sensitivity is not None else sensitivity
        if own is None:
            raise ValueError(f"sensitivity must be given with the message or as {type(self).__name__}(sensitivity=...)")
        return checks.aligned("sensitivity", own, x)


class _Additive(Calibrated):
    """Adds noise of scale `multiplier` times the sensitivity to every number of x."""

    payloads = frozenset({"bounded", "stream", "vector"})
    _spread: ClassVar[float]  # the variance of noise of scale 1

    @property
    @abstractmethod
    def multiplier(self) -> float: ...

    @abstractmethod
    def noise(self, scale: Array, shape: tuple[int, ...], rng: Generator) -> Array:
        """Noise of the given scale, in integers if the sampler is "exact"."""

    @abstractmethod
    def ratio(self, first: Array, second: Array, scale: Array) -> Array:
        """log density of the noise `first` minus the log density of the noise `second`."""

    @abstractmethod
    def _measurement(self, dp: Any, domain: Any, scale: float) -> Any: ...

    def units(self, sensitivity: Given, messages: Array, **values: Array) -> tuple[Array, Array, list[Array]]:
        """(unit, noise scale of the messages in units, values in units). The unit is 1, or for the exact sampler a step
        of its grid."""
        bound = self.bound(sensitivity, messages)
        scale = checks.scale(bound, self.multiplier)
        if self.sampler != "exact":
            return np.ones(()), scale, list(values.values())
        grid = Grid.of(bound, self.multiplier)
        return grid.step, grid.scale, [grid.round(value) for value in values.values()]

    def scale(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        """Noise scale of each message in x, b of Laplace(b) or sigma of a Gaussian; broadcasts against x."""
        unit, scale, _ = self.units(sensitivity, np.asarray(x))
        return unit * scale

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """x[...]: numbers; returns float64 of the same shape."""
        x = checks.reals("x", x)
        unit, scale, (x,) = self.units(sensitivity, x, x=x)
        if self.sampler == "opendp":
            dp, scales, noisy = load_opendp(), np.broadcast_to(scale, x.shape), np.empty(x.shape)
            domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
            for value in np.unique(scales):
                noisy[scales == value] = self._measurement(dp, domain, float(value))(x[scales == value].tolist())
            return noisy
        return (x + self.noise(scale, x.shape, rng)) * unit

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        x = checks.reals("x", x)
        unit, scale, _ = self.units(sensitivity, x, x=x)
        return np.broadcast_to(self._spread * (unit * scale) ** 2, x.shape).copy()

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """For each number; the ratio of a message is the sum over its numbers."""
        y, x0, x1 = checks.together(y=checks.reals("y", y), x0=checks.reals("x0", x0), x1=checks.reals("x1", x1))
        _, scale, (y, x0, x1) = self.units(sensitivity, y, y=y, x0=x0, x1=x1)
        return self.ratio(y - x0, y - x1, scale)


@dataclass(frozen=True)
class Laplace(_Additive):
    """Laplace noise of scale sensitivity / epsilon: Dwork, McSherry, Nissim & Smith 2006.

    Args:
        epsilon: of one message, > 0.
        sensitivity: L1 distance between adjacent messages, at least the sensitivity passed with each message; None uses
            the latter.
        sampler: "fast", "exact" or "opendp".
    """

    norm = 1
    kind: ClassVar[str] = "laplace"
    _spread: ClassVar[float] = 2.0
    epsilon: float
    sensitivity: float | None = None
    sampler: str = "fast"

    @property
    def multiplier(self) -> float:
        return 1 / self.epsilon

    def noise(self, scale: Array, shape: tuple[int, ...], rng: Generator) -> Array:
        return discrete_laplace(scale, shape, rng) if self.sampler == "exact" else rng.laplace(0.0, scale, shape)

    def ratio(self, first: Array, second: Array, scale: Array) -> Array:
        return (np.abs(second) - np.abs(first)) / scale

    def _measurement(self, dp: Any, domain: Any, scale: float) -> Any:
        return dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=scale)

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Pure epsilon, rho = epsilon^2 / 2 (Bun & Steinke 2016, Proposition 1.4), and closed-form RDP (Mironov 2017,
        Proposition 6)."""
        checks.sensitivities(sensitivity)
        return laplace_loss(self.epsilon, nodes=1, exact=self.sampler == "exact")


def laplace_loss(epsilon: float, *, nodes: int, exact: bool) -> PrivacyLoss:
    """Cost of `nodes` Laplace releases that share `epsilon` equally; if `exact`, the cost on the coarsest possible grid
    at that epsilon."""
    reach = max(1, math.floor(epsilon / nodes * 2**GRID_BITS)) if exact else math.inf
    return LaplaceLoss(epsilon, epsilon**2 / (2 * nodes), nodes, reach)


@lru_cache(1024)
def gaussian_delta(epsilon: float, noise_multiplier: float) -> float:
    """The smallest delta for which Gaussian noise of `noise_multiplier` sensitivities is (epsilon, delta)-DP: Balle &
    Wang 2018, Theorem 8.

    Phi(1/2z - epsilon z) - e^epsilon Phi(-1/2z - epsilon z), z = noise_multiplier.
    """
    from scipy.special import log_ndtr

    half, shift = 1 / (2 * noise_multiplier), epsilon * noise_multiplier
    first, second = float(log_ndtr(half - shift)), epsilon + float(log_ndtr(-half - shift))
    return math.exp(first) * max(0.0, -math.expm1(min(0.0, second - first)))


@lru_cache(1024)
def _calibrate(epsilon: float, delta: float) -> float:
    """The smallest noise multiplier that is (epsilon, delta)-DP, by bisection: Balle & Wang 2018, Algorithm 1."""
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
    """Gaussian noise, the least that is (epsilon, delta)-DP: the analytic calibration of Balle & Wang 2018.

    `from_rho`, or a `noise_multiplier` alone, sets the noise instead; `epsilon` is then inf, and
    `gaussian_delta(epsilon, noise_multiplier)` gives the privacy curve. The discrete Gaussian of the exact sampler has
    the same rho (Canonne, Kamath & Steinke 2020, on concentrated differential privacy).

    Args:
        epsilon: of one message at delta, > 0.
        delta: in (0, 1).
        sensitivity: L2 distance between adjacent messages, at least the sensitivity passed with each message; None uses
            the latter.
        sampler: "fast", "exact" or "opendp".
        noise_multiplier: sigma / sensitivity; computed from epsilon and delta by default, and refused if it is too
            small for them.
    """

    norm = 2
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
            self._set(noise_multiplier=checks.level("noise_multiplier", given))
        if not (known and self.epsilon == math.inf and self.delta == 0):
            self._set(epsilon=checks.level("epsilon", self.epsilon))
            self._set(delta=number("delta", self.delta, above=0, below=1))
            least = _calibrate(self.epsilon, self.delta)
            if known and self.noise_multiplier < least * (1 - 1e-9):
                raise ValueError(
                    f"noise_multiplier must be >= {least:g} for epsilon={self.epsilon:g}, delta={self.delta:g}, "
                    f"not {self.noise_multiplier!r}"
                )
            if not known:
                self._set(noise_multiplier=least)
        self._check()

    @classmethod
    def from_rho(cls, rho: float, sensitivity: float | None = None, sampler: str = "fast") -> "Gaussian":
        """The noise that is rho-zCDP, sigma = sensitivity / sqrt(2 rho) (Bun & Steinke 2016, Proposition 1.6)."""
        multiplier = 1 / math.sqrt(2 * checks.level("rho", rho))
        return cls(sensitivity=sensitivity, sampler=sampler, noise_multiplier=multiplier)

    @property
    def multiplier(self) -> float:
        return self.noise_multiplier

    def noise(self, scale: Array, shape: tuple[int, ...], rng: Generator) -> Array:
        return discrete_gaussian(scale, shape, rng) if self.sampler == "exact" else rng.normal(0.0, scale, shape)

    def ratio(self, first: Array, second: Array, scale: Array) -> Array:
        first, second, scale = (np.asarray(value, np.float64) for value in (first, second, scale))
        return (second - first) * (second + first) / (2 * scale**2)

    def _measurement(self, dp: Any, domain: Any, scale: float) -> Any:
        return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Not pure; rho = sensitivity^2 / (2 sigma^2), and the Renyi divergence of order alpha is alpha rho."""
        checks.sensitivities(sensitivity)
        return GaussianLoss(math.inf, 1 / (2 * self.noise_multiplier**2))


@dataclass(frozen=True)
class Exponential(Calibrated):
    """Selects option k with probability proportional to exp(epsilon u_k / (2 sensitivity)): McSherry & Talwar 2007.

    The selection is the argmax of scores plus Gumbel noise ("fast", "opendp"), or comes from rejection sampling of
    uniform options ("exact").

    Args:
        epsilon: of one selection, > 0.
        sensitivity: the largest change of any score between adjacent inputs, at least the sensitivity passed with each
            message; None uses the latter.
        sampler: "fast", "exact" or "opendp".
    """

    payloads = frozenset({"scores"})
    kind: ClassVar[str] = "exponential"
    payload_dims: ClassVar[int] = 1
    epsilon: float
    sensitivity: float | None = None
    sampler: str = "fast"

    def _scores(self, name: str, scores: ArrayLike, sensitivity: Given) -> tuple[Array, Array]:
        """Scores [..., K] and the temperature that divides them, both integers for the exact sampler."""
        scores = checks.reals(name, scores)
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError(f"{name} must be an array [..., K] with K >= 1, not of shape {scores.shape}")
        bound = self.bound(sensitivity, scores[..., :1])
        temperature = checks.scale(bound, 2 / self.epsilon)
        if self.sampler != "exact":
            return scores, temperature
        grid = Grid.of(bound, 2 / self.epsilon)
        return grid.round(scores), grid.scale

    def _log_probabilities(self, name: str, scores: ArrayLike, sensitivity: Given) -> Array:
        scores, temperature = self._scores(name, scores, sensitivity)
        logits = (scores - scores.max(-1, keepdims=True)) / temperature
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def probabilities(self, scores: ArrayLike, sensitivity: Given = None) -> Array:
        """The probability of each option, float64[..., K]."""
        return np.exp(self._log_probabilities("scores", scores, sensitivity))

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """The selected options, int64[...], for scores x[..., K]."""
        scores, temperature = self._scores("x", x, sensitivity)
        if self.sampler == "fast":
            return (scores / temperature + rng.gumbel(size=scores.shape)).argmax(-1)
        flat = scores.reshape(-1, scores.shape[-1])
        each = np.broadcast_to(temperature, (*scores.shape[:-1], 1)).ravel()
        if self.sampler == "opendp":
            dp = load_opendp()
            space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
            measure = dp.zero_concentrated_divergence()  # Gumbel noise; with max-divergence it is permute-and-flip
            choices = (dp.m.make_noisy_max(*space, measure, scale=float(t)) for t in each)
            chosen = [choose(row.tolist()) for choose, row in zip(choices, flat, strict=True)]
            return np.array(chosen, np.int64).reshape(scores.shape[:-1])
        gaps, selected, open_ = flat.max(-1, keepdims=True) - flat, np.empty(len(flat), np.int64), np.arange(len(flat))
        while open_.size:
            candidate = rng.integers(0, flat.shape[-1], size=open_.size)
            accepted = exact_bernoulli_exp(gaps[open_, candidate], each[open_], rng)
            selected[open_[accepted]] = candidate[accepted]
            open_ = open_[~accepted]
        return selected.reshape(scores.shape[:-1])

    def debias(self, y: ArrayLike, num_messages: ArrayLike = 1) -> Array:
        raise TypeError("Exponential selects an option: there is nothing to debias")

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        raise TypeError("Exponential selects an option: it has no variance")

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Pure epsilon, and rho = epsilon^2 / 8, because the range of the loss is at most epsilon (Cesar & Rogers
        2021)."""
        checks.sensitivities(sensitivity)
        return ExponentialLoss(self.epsilon, self.epsilon**2 / 8)

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """[...] for selections y[...] and scores x0, x1 of [..., K]."""
        first, second = checks.together(
            1, x0=self._log_probabilities("x0", x0, sensitivity), x1=self._log_probabilities("x1", x1, sensitivity)
        )
        y = checks.integers("y", y, at_least=0, below=first.shape[-1])
        y, each = checks.together(y=y, scores=np.arange(first[..., 0].size).reshape(first.shape[:-1]))
        return (first - second).reshape(-1, first.shape[-1])[each, y]
