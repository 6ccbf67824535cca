"""How one message leaves a third-party environment: clipped, perturbed, and put back into its space."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete, Space

from taciturn.privacy.mechanisms import Gaussian, KaryRandomizedResponse, Laplace, Mechanism, NoPrivacy
from taciturn.validation import Array, number

__all__ = ["SOLE", "Release", "Subject", "release_for"]

Subject = Literal["observation", "reward", "action"]

SOLE = "agent"  # name of the only agent of a Gymnasium environment
WHOLE = 2.0**53  # the largest integer up to which all integers are floats


@dataclass(frozen=True)
class Release:
    """How a message, or an array of messages, is clipped, perturbed, and put back into its space."""

    name: str  # for error messages
    mechanism: Mechanism
    space: Space[Any] | None  # None: a reward
    bounds: tuple[Array, Array] | None = (
        None  # what numbers are clipped into; None for categories, or to change nothing
    )

    def check(self, x: Any, batch: tuple[int, ...] = ()) -> Any:
        """The input for `perturb`, from messages x[*batch, *shape].

        Raises:
            ValueError: x does not hold messages.
        """
        if isinstance(self.mechanism, KaryRandomizedResponse):
            assert isinstance(self.space, Discrete)
            values = self._array(x, "iu", batch) - self.space.start
            if ((values < 0) | (values >= self.space.n)).any():
                raise ValueError(f"{self.name} must be in {self.space}, not {x!r}")
            return values
        if self.bounds is None:
            return x
        clipped = np.clip(self._array(x, "biuf", batch + self.bounds[0].shape).astype(np.float64), *self.bounds)
        if not np.isfinite(clipped).all():
            raise ValueError(f"{self.name} must be finite, not {x!r}")
        return clipped

    def perturb(self, x: Any, rng: np.random.Generator) -> Any:
        """The messages that leave, given the output of `check`."""
        if isinstance(self.space, Discrete) and isinstance(self.mechanism, KaryRandomizedResponse):
            return np.asarray(self.mechanism.perturb(x, rng) + self.space.start, self.space.dtype)
        if self.bounds is None:
            return x
        noisy = np.asarray(self.mechanism.perturb(x, rng))
        return noisy if self.space is None else _fitted(noisy, self.space)

    def _array(self, x: Any, kinds: str, shape: tuple[int, ...]) -> Array:
        try:
            array = np.asarray(x)
        except ValueError:
            array = np.asarray(None)
        if array.dtype.kind not in kinds or array.shape != shape:
            raise ValueError(
                f"{self.name} must be {'integers' if kinds == 'iu' else 'numbers'} of shape {shape}, not {x!r}"
            )
        return array


def _fitted(noisy: Array, space: Any) -> Array:
    """Rounded if the space is one of integers, and clipped into the space, a Box."""
    dtype = np.dtype(space.dtype)
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else WHOLE
    noisy = noisy if dtype.kind == "f" else np.rint(noisy)
    low, high = (np.clip(np.asarray(bound, np.float64), -largest, largest) for bound in (space.low, space.high))
    return np.asarray(np.clip(noisy, low, high), dtype)


def release_for(
    subject: Subject, agent: str, mechanism: Any, space: Space[Any] | None, bounds: Any, sensitivity: Any
) -> Release:
    """Check that a mechanism fits an agent's space (None: its reward), and determine its sensitivity."""
    name = subject if agent == SOLE else f"{subject} of {agent}"
    what = "a reward" if space is None else repr(space)
    if not isinstance(mechanism, Laplace | Gaussian | KaryRandomizedResponse | NoPrivacy):
        raise ValueError(f"mechanism must be Laplace, Gaussian, KaryRandomizedResponse or NoPrivacy, not {mechanism!r}")
    if not isinstance(mechanism, Laplace | Gaussian):
        if sensitivity is not None:
            raise ValueError(f"sensitivity must be None for {type(mechanism).__name__}, not {sensitivity!r}")
        if bounds is None and isinstance(mechanism, NoPrivacy):
            return Release(name, mechanism, space)
    if isinstance(mechanism, KaryRandomizedResponse):
        if bounds is not None:
            raise ValueError(f"bounds must be None for KaryRandomizedResponse, not {bounds!r}")
        if not isinstance(space, Discrete) or space.n != mechanism.num_values:
            raise ValueError(f"mechanism must fit the {name}, {what}, not be {mechanism!r}")
        return Release(name, mechanism, space)
    if space is not None and not isinstance(space, Box):
        raise ValueError(
            f"mechanism must fit the {name}, {what}, not be {mechanism!r}: flatten compound spaces into a Box first"
        )
    low, high = _intersection(_bounds_of(space), bounds)
    if isinstance(mechanism, NoPrivacy):
        return Release(name, mechanism, space, (low, high))
    own = mechanism.sensitivity
    if own is not None and sensitivity is not None:
        raise ValueError(f"sensitivity must be None where the mechanism has its own, {own}, not {sensitivity!r}")
    if sensitivity is not None:
        own = number("sensitivity", sensitivity, above=0)
    if own is None:
        own = _diameter(mechanism, low, high, f"{name}, {what}, ")
    if mechanism.sampler == "exact":  # rounding to the grid moves each number by up to one step, 2^-24 noise scales
        share = low.size * mechanism.multiplier / 2**24
        if share > 0.5:
            raise ValueError(
                f"mechanism must have a noise multiplier <= 2^23 / {low.size} for the exact sampler, not be {mechanism!r}"
            )
        own /= 1 - share
    return Release(name, replace(mechanism, sensitivity=own), space, (low, high))


def _diameter(mechanism: Laplace | Gaussian, low: Array, high: Array, what: str) -> float:
    with np.errstate(over="ignore"):
        width = high - low
        diameter = width.sum() if isinstance(mechanism, Laplace) else math.sqrt((width**2).sum())
    if not math.isfinite(diameter):
        raise ValueError(f"bounds must be given as (low, high), not None or infinite: the {what}has no finite bounds")
    if diameter == 0:
        raise ValueError(f"bounds must contain more than one value: the {what}has a single value within them")
    return float(diameter)


def _bounds_of(space: Box | None) -> tuple[Array, Array]:
    if space is None:
        return np.array(-math.inf), np.array(math.inf)
    low, high = np.asarray(space.low, np.float64), np.asarray(space.high, np.float64)
    return np.where(space.bounded_below, low, -math.inf), np.where(space.bounded_above, high, math.inf)


def _intersection(own: tuple[Array, Array], bounds: Any) -> tuple[Array, Array]:
    if bounds is None:
        return own
    try:
        given = np.array([np.broadcast_to(np.asarray(b, np.float64), own[0].shape) for b in bounds])
        ordered = len(given) == 2 and bool((given[0] <= given[1]).all())
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        raise ValueError(
            f"bounds must be (low, high), low <= high, of a shape that fits {own[0].shape}, not {bounds!r}"
        )
    low, high = np.maximum(own[0], given[0]), np.minimum(own[1], given[1])
    if not (low <= high).all():
        raise ValueError(f"bounds must overlap with those of the space, not be {bounds!r}")
    return low, high
