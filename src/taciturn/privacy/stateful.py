"""Mechanisms that remember: running sums of a stream, and answers that stay."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from taciturn.privacy import checks
from taciturn.privacy.additive_noise import Laplace, laplace_loss
from taciturn.privacy.base import Mechanism, PrivacyLoss

__all__ = [
    "Memoized",
    "Memory",
    "Streams",
    "TreeAggregation",
]

Array = npt.NDArray[Any]


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
        chosen = checks.mask(where, self.shape)
        self.time, self.fresh = np.where(chosen, 0, self.time), np.where(chosen, False, self.fresh)
        for array in (self.total, self.noise):
            if array is not None:
                array[chosen] = 0


def _last_block(time: Array) -> Array:
    """2^j, the lowest 1 in the binary form of time: the length of the last block of the first `time` values."""
    return time & -time


@dataclass(frozen=True)
class TreeAggregation(Mechanism):
    """Running sums of a stream of bounded values, released at every step: the Binary Mechanism.

    Source: Chan, Shi & Song 2011, "Private and continual release of statistics".

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
        self._set(epsilon=checks.number("epsilon", self.epsilon))
        if self.horizon is not None:
            self._set(horizon=checks.whole("horizon", self.horizon, at_least=1))
        if self.sensitivity is not None:
            self._set(sensitivity=checks.number("sensitivity", self.sensitivity))
        checks.choice("sampler", self.sampler, ("fast", "exact"))

    def _horizon(self, told: int | None) -> int:
        longest = self.horizon if self.horizon is not None else told
        if longest is None:
            raise ValueError("horizon must be given, to start or as TreeAggregation(horizon=...)")
        return checks.whole("horizon", longest, at_least=1)

    def levels(self, horizon: int | None = None) -> int:
        """floor(log2 horizon) + 1."""
        return self._horizon(horizon).bit_length()

    def _block(self, horizon: int | None) -> Laplace:
        """The law of one block's noise."""
        return Laplace(self.epsilon / self.levels(horizon), self.sensitivity, self.sampler)

    def _streams(self, name: str, x: Any) -> Array:
        x = checks.reals(name, x)
        if x.ndim == 0 or not 1 <= x.shape[-1] <= (self.horizon or math.inf):
            raise ValueError(f"{name} must be streams [..., T] with 1 <= T <= {self.horizon or 'any'}, not {x.shape}")
        return x

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        """x[..., T]: whole streams; returns float64[..., T], the noisy sums of the first 1, ..., T values."""
        x = self._streams("x", x)
        block = self._block(x.shape[-1])
        unit, scale, (x,) = block.units(block.bound(sensitivity, x[..., :1]), x=x)
        noise = block.noise(scale, x.shape, rng)  # [..., t]: of the block that ends at t
        time = np.arange(1, x.shape[-1] + 1)
        sums = np.cumsum(x, axis=-1)
        while time.any():
            sums = sums + np.where(time > 0, noise[..., time - 1], 0)
            time = time - _last_block(time)
        return sums * unit

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Any = None) -> Streams:
        """State of one stream per agent of `shape`; `sensitivity` is a number or follows the axes of shape."""
        horizon = self._horizon(horizon)
        block, agents = self._block(horizon), checks.agents(shape)
        block.units(block.bound(sensitivity, np.empty(agents)))
        return Streams(agents, horizon, sensitivity)

    def step(
        self, x: Any, rng: np.random.Generator, state: Any = None, *, where: Any = None, sensitivity: Any = None
    ) -> Array:
        """Take the next value x[*shape, ...] of each stream; returns its noisy sum so far (of the others, their last answer).

        The sensitivity is that which `start` was told.
        """
        if not isinstance(state, Streams):
            raise ValueError(f"state must come from TreeAggregation.start, not be {state!r}")
        x, chosen = checks.reals("x", x), checks.mask(where, state.shape)
        payload = x.shape[len(state.shape) :]
        if x.shape[: len(state.shape)] != state.shape or (state.total is not None and x.shape != state.total.shape):
            raise ValueError(f"x must be of the shape of the streams {state.shape}, not {x.shape}")
        if (state.time[chosen] >= state.horizon).any():
            raise ValueError(f"a stream has had its {state.horizon} values: reset it, or start with a longer horizon")
        block, levels = self._block(state.horizon), state.horizon.bit_length()
        unit, scale, (x,) = block.units(block.bound(state.sensitivity, x), x=x)
        if state.total is None or state.noise is None:
            state.total, state.noise = np.zeros_like(x), np.zeros((*x.shape, levels), x.dtype)
        rows, size = np.flatnonzero(chosen), math.prod(payload)
        each = scale if scale.ndim == 0 else np.broadcast_to(scale, x.shape).reshape(chosen.size, size)[rows]
        drawn = block.noise(each, (rows.size, size), rng)
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
        block = self._block(x.shape[-1])
        unit, scale, _ = block.units(block.bound(sensitivity, x[..., :1]), x=x)
        return np.broadcast_to(2 * (unit * scale) ** 2 * blocks, x.shape).copy()

    def loss(self, sensitivity: Any = None) -> PrivacyLoss:
        """Of the whole stream: a Laplace release of epsilon / levels for each level (horizon unknown: bounded by one of epsilon)."""
        checks.sensitivities(sensitivity)
        nodes = 1 if self.horizon is None else self.levels()
        return laplace_loss(self.epsilon, nodes=nodes, exact=self.sampler == "exact")

    def log_likelihood_ratio(self, y: Any, x0: Any, x1: Any, sensitivity: Any = None) -> Array:
        """[...] for answers y[..., T] to streams x0, x1 of [..., T]; the answers tell the noisy sum of every block."""
        y, x0, x1 = checks.together(1, y=self._streams("y", y), x0=self._streams("x0", x0), x1=self._streams("x1", x1))
        block = self._block(y.shape[-1])
        _, scale, (y, x0, x1) = block.units(block.bound(sensitivity, y[..., :1]), y=y, x0=x0, x1=x1)
        time = np.arange(1, y.shape[-1] + 1)

        def blocks(sums: Array) -> Array:
            before = time - _last_block(time)
            return sums - np.where(before > 0, sums[..., before - 1], 0)

        first, second = (blocks(y) - blocks(np.cumsum(x, axis=-1)) for x in (x0, x1))
        return block.ratio(first, second, scale).sum(-1)


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
        chosen = checks.mask(where, self.shape)
        self.known, self.fresh = np.where(chosen, False, self.known), np.where(chosen, False, self.fresh)


@dataclass(frozen=True)
class Memoized(Mechanism):
    """The answer stays while the value stays: the permanent randomized response of RAPPOR (Erlingsson, Pihur & Korolova 2014).

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
        return Memory(checks.agents(shape))

    def step(
        self, x: Any, rng: np.random.Generator, state: Any = None, *, where: Any = None, sensitivity: Any = None
    ) -> Array:
        """Answers for x[*shape, ...]: new ones where the value is new, else those given before (zeros where none was)."""
        if not isinstance(state, Memory):
            raise ValueError(f"state must come from Memoized.start, not be {state!r}")
        x, chosen, axes = checks.numbers("x", x), checks.mask(where, state.shape), len(state.shape)
        if x.shape[:axes] != state.shape or (state.asked is not None and x.shape != state.asked.shape):
            raise ValueError(f"x must be of the shape of the agents {state.shape}, not {x.shape}")
        asked = x.copy() if state.asked is None else state.asked.astype(np.result_type(state.asked, x), copy=False)
        differs = (x != asked).any(tuple(range(axes, x.ndim)))
        fresh = np.asarray(chosen & (differs | ~state.known))
        rows, size = np.flatnonzero(fresh), fresh.size
        if np.ndim(sensitivity):
            sensitivity = np.broadcast_to(checks.aligned("sensitivity", sensitivity, fresh), state.shape).ravel()[rows]
        drawn = self.mechanism.perturb(x.reshape(size, *x.shape[axes:])[rows], rng, sensitivity)
        if state.answers is None:
            state.answers = np.zeros((*state.shape, *drawn.shape[1:]), drawn.dtype)
        state.answers = state.answers.astype(np.result_type(state.answers, drawn), copy=False)
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
