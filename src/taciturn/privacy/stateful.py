"""Running sums of a stream: the binary mechanism, and blocks that are released once."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Given
from taciturn.privacy.calibrated_noise import ROUNDING, Calibrated, Laplace, laplace_loss
from taciturn.privacy.losses import PrivacyLoss
from taciturn.validation import Array, Bools, Ints, choice, integer

LONGEST = 2**62  # steps of a stream, counted in int64


class StreamState:
    """State of running sums: one stream for each agent of `shape`."""

    def __init__(self, shape: tuple[int, ...], sensitivity: Given) -> None:
        self.shape, self.sensitivity = shape, sensitivity
        self.time: Ints = np.zeros(shape, np.int64)  # number of values, or of blocks, so far
        self.fresh: Bools = np.zeros(shape, np.bool_)  # whether the last step began the stream, and so charged for it
        self.total: Array | None = None  # [*shape, *payload]: sums

    @property
    def started(self) -> Bools:
        """The agents with a stream, bool of `shape`: it has been charged, and the rest of it costs nothing."""
        return self.time > 0

    def reset(self, where: Array | None = None) -> None:
        """Begin new streams where `where`, booleans over the leading axes, is true (default: everywhere)."""
        chosen = checks.mask(where, self.shape)
        self.time, self.fresh = np.where(chosen, 0, self.time), np.where(chosen, False, self.fresh)
        if self.total is not None:
            self.total[chosen] = 0


class TreeState(StreamState):
    """State of `TreeAggregation`: log2(horizon) + 2 numbers for each agent of `shape`. `total` holds the exact sums."""

    def __init__(self, shape: tuple[int, ...], sensitivity: Given, horizon: int) -> None:
        super().__init__(shape, sensitivity)
        self.horizon = horizon
        self.noise: Array | None = None  # [*shape, *payload, levels]: noise of the blocks in the last answer

    def reset(self, where: Array | None = None) -> None:
        super().reset(where)
        if self.noise is not None:
            self.noise[checks.mask(where, self.shape)] = 0


class BlocksState(StreamState):
    """State of `Blocks` for agents of `shape`. `total` holds the noisy sums."""


def _mixed(x: Any) -> Any:
    """The finalizer of SplitMix64 (Steele, Lea & Flood 2014), which maps 64-bit numbers one to one onto well mixed
    ones."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


Address = Array | np.uint64
STEP = np.uint64(0x9E3779B97F4A7C15)


def address_laplace(key: Address, stream: Address, place: Address) -> Array:
    """Laplace noise of scale 1 as a function of its address, the three uint64 arguments: the same address always gets
    the same noise, and nothing is stored.

    The address is mixed into 53 random bits, from which the noise follows by inversion. Under a random key, noise of
    different addresses behaves as independent.
    """
    with np.errstate(over="ignore"):  # for single numbers; arrays wrap around without a warning
        mixed = _mixed(_mixed(_mixed(key + STEP) ^ (stream + np.uint64(1)) * STEP) ^ (place + np.uint64(1)) * STEP)
    uniform = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.where(uniform < 0.5, np.log(2 * uniform), -np.log(2 * (1 - uniform)))


def derived_key(key: Address, number: Address) -> Address:
    """A key for `address_laplace`, derived from `key` and a number; uint64 of their common broadcast shape."""
    with np.errstate(over="ignore"):
        return _mixed(_mixed(key + STEP) ^ (number + np.uint64(1)) * STEP)


def _last_block(time: Array) -> Array:
    """The length of the last block of the first `time` values: the lowest 1 in the binary form of time."""
    return time & -time


class RunningSums(Calibrated):
    """Base of mechanisms that release the running sums of a stream, from sums of blocks with Laplace noise.

    `perturb(x[..., T])` answers whole streams. `start` and `step` answer value by value; every number in x is then a
    separate stream.
    """

    payloads = frozenset({"stream"})
    per_stream = True
    norm = 1
    payload_dims: ClassVar[int] = 1
    stateful: ClassVar[bool] = True
    samplers: ClassVar[tuple[str, ...]] = ("fast", "exact")
    horizon: int | None = None  # length of the longest stream; None: not limited

    @abstractmethod
    def _block(self, horizon: int | None) -> Laplace:
        """The distribution of one block's noise, in streams of at most `horizon` values."""

    @abstractmethod
    def _blocks(self, time: Ints) -> Ints:
        """How many blocks are in the sums of the first `time` values."""

    @abstractmethod
    def _noise(self, y: Array, x: Array) -> Array:
        """The noise of each block, [..., T], in the answers y[..., T] to the streams x[..., T]."""

    def _streams(self, name: str, x: ArrayLike) -> Array:
        x = checks.reals(name, x)
        if x.ndim == 0 or not 1 <= x.shape[-1] <= (self.horizon or math.inf):
            raise ValueError(f"{name} must be streams [..., T] with 1 <= T <= {self.horizon or 'any'}, not {x.shape}")
        return x

    def _next(self, x: ArrayLike, state: Any, where: Array | None, sensitivity: Given) -> tuple[Array, Bools]:
        """The next values x[*shape, *payload], and the streams that `where` marks, bool of `shape`."""
        self.check_sensitivity(sensitivity)
        x, chosen = checks.reals("x", x), checks.mask(where, state.shape)
        if x.shape[: len(state.shape)] != state.shape or (state.total is not None and x.shape != state.total.shape):
            raise ValueError(f"x must be of the shape of the streams {state.shape}, not {x.shape}")
        if sensitivity is not None and state.sensitivity is not None:
            given, began = (checks.aligned("sensitivity", each, x) for each in (sensitivity, state.sensitivity))
            if self.sensitivity is None and (given > began * (1 + ROUNDING)).any():
                raise ValueError(
                    f"sensitivity must be at most {began.min():g}, with which the stream began, not {given.max():g}"
                )
        return x, chosen

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        """For x[..., T], variance of the t-th sum: 2 b^2 for each of its blocks, with b the scale of a block's
        noise."""
        x = self._streams("x", x)
        unit, scale, _ = self._block(x.shape[-1]).units(sensitivity, x[..., :1], x=x)
        blocks = self._blocks(np.arange(1, x.shape[-1] + 1))
        return np.broadcast_to(2 * (unit * scale) ** 2 * blocks, x.shape).copy()

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """[...] for answers y[..., T] to streams x0, x1 of [..., T]; the answers determine the noisy sum of every
        block."""
        y, x0, x1 = checks.together(1, y=self._streams("y", y), x0=self._streams("x0", x0), x1=self._streams("x1", x1))
        block = self._block(y.shape[-1])
        _, scale, (y, x0, x1) = block.units(sensitivity, y[..., :1], y=y, x0=x0, x1=x1)
        return block.ratio(self._noise(y, x0), self._noise(y, x1), scale).sum(-1)


@dataclass(frozen=True)
class TreeAggregation(RunningSums):
    """Releases the running sums of a stream of bounded values, at every step: the binary mechanism.

    Source: Chan, Shi & Song 2011, "Private and continual release of statistics".

    The first t values are divided into blocks, one for each 1 in the binary form of t, with the shortest last. The sum
    of each block gets Laplace noise of scale levels * sensitivity / epsilon, drawn once. A value lies in at most one
    block of each of the floor(log2 horizon) + 1 levels, so the whole stream costs epsilon. It is charged at its first
    value. The error grows as log^1.5 of the horizon.

    Args:
        epsilon: of the whole stream, > 0.
        horizon: length of the longest stream; None uses the horizon passed to `start`, or the length of the streams in
            `perturb`.
        sensitivity: the largest change of one value (of a vector: the sum of absolute changes), constant over a stream,
            at least the one passed to `start` or `perturb`; None uses the latter.
        sampler: "fast" or "exact".
        scale: the divisor of epsilon: "levels", or "ln", the natural logarithm of the horizon, as in Zhou et al. 2021.
            As ln(horizon) is smaller than the number of levels, a stream then costs, and is charged, levels /
            ln(horizon) times epsilon. "ln" needs the mechanism's own horizon, at least 2.
    """

    kind: ClassVar[str] = "tree"
    epsilon: float
    horizon: int | None = None
    sensitivity: float | None = None
    sampler: str = "fast"
    scale: str = "levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("scale", self.scale, ("levels", "ln"))
        if self.horizon is not None:
            self._set(horizon=integer("horizon", self.horizon, at_least=1, at_most=LONGEST))
        if self.scale == "ln" and (self.horizon or 1) < 2:
            raise ValueError(f"horizon must be at least 2 with scale='ln', not {self.horizon!r}")

    def _horizon(self, given: int | None) -> int:
        longest = self.horizon if self.horizon is not None else given
        if longest is None:
            raise ValueError("horizon must be given, to start or as TreeAggregation(horizon=...)")
        return integer("horizon", longest, at_least=1, at_most=LONGEST)

    def levels(self, horizon: int | None = None) -> int:
        """floor(log2 horizon) + 1."""
        return self._horizon(horizon).bit_length()

    def _parts(self, horizon: int | None) -> float:
        """The number of parts that epsilon is divided into."""
        return self.levels(horizon) if self.scale == "levels" else math.log(self._horizon(None))

    def _block(self, horizon: int | None) -> Laplace:
        """The distribution of one block's noise."""
        return Laplace(self.epsilon / self._parts(horizon), self.sensitivity, self.sampler)

    def _blocks(self, time: Ints) -> Ints:
        """One for each 1 in the binary form of time."""
        return np.bitwise_count(time)

    def _noise(self, y: Array, x: Array) -> Array:
        time = np.arange(1, y.shape[-1] + 1)
        before = time - _last_block(time)

        def blocks(sums: Array) -> Array:
            return sums - np.where(before > 0, sums[..., before - 1], 0)

        return blocks(y) - blocks(np.cumsum(x, axis=-1))

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """The noisy sums of the first 1, ..., T values of whole streams x[..., T]; float64[..., T]."""
        x = self._streams("x", x)
        block = self._block(x.shape[-1])
        unit, scale, (x,) = block.units(sensitivity, x[..., :1], x=x)
        noise = block.noise(scale, x.shape, rng)  # [..., t]: noise of the block that ends at t
        time = np.arange(1, x.shape[-1] + 1)
        sums = np.cumsum(x, axis=-1)
        while time.any():
            sums = sums + np.where(time > 0, noise[..., time - 1], 0)
            time = time - _last_block(time)
        return sums * unit

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Given = None) -> TreeState:
        """State of one stream for each agent of `shape`; `sensitivity` is a number, or an array over the axes of
        shape."""
        horizon = self._horizon(horizon)
        block, agents = self._block(horizon), checks.agents(shape)
        block.units(sensitivity, np.empty(agents))
        return TreeState(agents, sensitivity, horizon)

    def step(
        self, x: ArrayLike, rng: Generator, state: Any = None, *, where: Array | None = None, sensitivity: Given = None
    ) -> Array:
        """Add the next value x[*shape, ...] to the streams marked in `where`; returns their noisy sums, and the last
        answers of the other streams.

        The sensitivity is the one passed to `start`; a larger one is refused.
        """
        if not isinstance(state, TreeState):
            raise ValueError(f"state must come from TreeAggregation.start, not be {state!r}")
        x, chosen = self._next(x, state, where, sensitivity)
        if (state.time[chosen] >= state.horizon).any():
            raise ValueError(f"a stream has had its {state.horizon} values: reset it, or start with a longer horizon")
        payload = x.shape[len(state.shape) :]
        block, levels = self._block(state.horizon), state.horizon.bit_length()
        unit, scale, (x,) = block.units(state.sensitivity, x, x=x)
        if state.total is None or state.noise is None:
            state.total, state.noise = np.zeros_like(x), np.zeros((*x.shape, levels), x.dtype)
        rows, size = np.flatnonzero(chosen), math.prod(payload)
        each = scale if scale.ndim == 0 else np.broadcast_to(scale, x.shape).reshape(chosen.size, size)[rows]
        drawn = block.noise(each, (rows.size, size), rng)
        state.fresh, state.time = np.asarray(chosen & (state.time == 0)), np.asarray(state.time + chosen)
        state.total += np.where(chosen.reshape(chosen.shape + (1,) * len(payload)), x, 0)
        # The level of the block that ends.
        ended = np.frexp(_last_block(state.time.ravel()[rows]).astype(np.float64))[1] - 1
        noise = state.noise.reshape(chosen.size, size, levels)
        noise[rows] *= np.arange(levels) > ended[:, None, None]
        noise[rows, :, ended] = drawn
        return (state.total + state.noise.sum(-1)) * unit

    def block_scale(self, horizon: ArrayLike, sensitivity: float) -> Array:
        """The scale of a block's noise in streams of at most `horizon` values, levels * sensitivity / epsilon, or
        ln(horizon) * sensitivity / epsilon; float64 of its shape.

        Raises:
            ValueError: this mechanism's own horizon is shorter, or its own sensitivity smaller.
        """
        self.check_sensitivity(sensitivity)
        longest = checks.integers("horizon", horizon, at_least=1, below=LONGEST)
        if self.horizon is not None:
            if longest.max() > self.horizon:
                raise ValueError(
                    f"horizon of {self!r} must be at least {longest.max()}, the length of the longest stream"
                )
            longest = np.full(longest.shape, self.horizon)
        if self.scale == "ln":
            return np.full(longest.shape, self._parts(None) * (self.sensitivity or sensitivity) / self.epsilon)
        levels = np.frexp(longest.astype(np.float64))[1]
        return levels * (self.sensitivity or sensitivity) / self.epsilon

    def noise_at(self, key: Address, stream: Address, time: Array) -> Array:
        """The noise of sums of the first `time` values of streams, in units of `block_scale`, from the addresses of its
        blocks.

        It has the distribution of the noise of `step`. Repeated calls give the same answer, so streams can be read in
        any order, and streams that are never read cost nothing.

        Args:
            key: uint64, random, secret, the same for all streams of a run.
            stream: uint64, the name of each stream.
            time: int64, how many of its values are summed.

        Returns:
            float64 of the common broadcast shape of the three.
        """
        key, stream, time = np.broadcast_arrays(key, stream, time)
        noise, left = np.zeros(time.shape), time.copy()
        while (some := left > 0).any():
            # A block's end identifies it: only the last block of a sum ends there.
            noise[some] += address_laplace(key[some], stream[some], left[some].astype(np.uint64))
            left -= _last_block(left)
        return noise

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Cost of the whole stream: one Laplace release of epsilon / levels per level; without a horizon, the bound of
        one release of epsilon."""
        checks.sensitivities(sensitivity)
        if self.horizon is None:
            return laplace_loss(self.epsilon, nodes=1, exact=self.sampler == "exact")
        nodes = self.levels()
        spent = self.epsilon if self.scale == "levels" else self.epsilon * nodes / self._parts(None)
        return laplace_loss(spent, nodes=nodes, exact=self.sampler == "exact")


@dataclass(frozen=True)
class Blocks(RunningSums):
    """Releases the running sums of a stream of bounded values block by block, each block once.

    Source: Chan, Shi & Song 2011, "Private and continual release of statistics", section 3, the simple counting
    mechanism II, with blocks in place of single values.

    A block holds the values since the last release. With S_j the sum of the values in block j, the answer after block t
    is

        y_t = sum_{j <= t} (S_j + Z_j),    Z_j independent, Laplace of scale sensitivity / epsilon.

    The noise of y_t has variance 2 t (sensitivity / epsilon)^2: with few blocks it is much less than in
    `TreeAggregation`, which divides epsilon among its levels to release the stream at all times.

    The whole stream costs epsilon. The answers are sums of the noisy block sums S_j + Z_j, and determine them. Two
    streams that differ in one value differ in the sum of one block, by at most the sensitivity. Given the earlier
    answers, the densities of that block's noisy sum differ by a factor of at most e^epsilon, and the densities of all
    other blocks are equal (parallel composition: McSherry 2009, Theorem 4). This holds also if later values and blocks
    depend on earlier answers, but not if the moments of release depend on the values: these must be public. The stream
    is charged at its first block.

    Args:
        epsilon: of the whole stream, > 0.
        sensitivity: the largest change of one value (of a vector: the sum of absolute changes), constant over a stream,
            at least the one passed to `start` or `perturb`; None uses the latter.
        sampler: "fast" or "exact".
    """

    kind: ClassVar[str] = "blocks"
    epsilon: float
    sensitivity: float | None = None
    sampler: str = "fast"

    def _block(self, horizon: int | None) -> Laplace:
        return Laplace(self.epsilon, self.sensitivity, self.sampler)

    def _blocks(self, time: Ints) -> Ints:
        return time

    def _noise(self, y: Array, x: Array) -> Array:
        return np.diff(y, axis=-1, prepend=0) - x

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """The noisy sums of the first 1, ..., T blocks of whole streams x[..., T]; float64[..., T]."""
        x = self._streams("x", x)
        block = self._block(None)
        unit, scale, (x,) = block.units(sensitivity, x[..., :1], x=x)
        return np.cumsum(x + block.noise(scale, x.shape, rng), axis=-1) * unit

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Given = None) -> BlocksState:
        """State of one stream for each agent of `shape`; `sensitivity` is a number, or an array over the axes of
        shape. The number of blocks is not limited."""
        agents = checks.agents(shape)
        self._block(None).units(sensitivity, np.empty(agents))
        return BlocksState(agents, sensitivity)

    def step(
        self, x: ArrayLike, rng: Generator, state: Any = None, *, where: Array | None = None, sensitivity: Given = None
    ) -> Array:
        """Release the next block x[*shape, ...] of the streams marked in `where`; returns their noisy sums, and the
        last answers of the other streams.

        The sensitivity is the one passed to `start`; a larger one is refused.
        """
        if not isinstance(state, BlocksState):
            raise ValueError(f"state must come from Blocks.start, not be {state!r}")
        x, chosen = self._next(x, state, where, sensitivity)
        block = self._block(None)
        unit, scale, (x,) = block.units(state.sensitivity, x, x=x)
        noisy = x + block.noise(scale, x.shape, rng)
        released = chosen.reshape(chosen.shape + (1,) * (x.ndim - chosen.ndim))
        state.total = (np.zeros_like(noisy) if state.total is None else state.total) + np.where(released, noisy, 0)
        state.fresh, state.time = np.asarray(chosen & (state.time == 0)), np.asarray(state.time + chosen)
        return state.total * unit

    def block_scale(self, horizon: ArrayLike, sensitivity: float) -> Array:
        """The scale of a block's noise, sensitivity / epsilon, in streams of any length; float64 of the shape of
        `horizon`."""
        self.check_sensitivity(sensitivity)
        longest = checks.integers("horizon", horizon, at_least=1, below=LONGEST)
        return np.full(longest.shape, (self.sensitivity or sensitivity) / self.epsilon)

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Cost of the whole stream: one Laplace release."""
        checks.sensitivities(sensitivity)
        return laplace_loss(self.epsilon, nodes=1, exact=self.sampler == "exact")


class BlockNoise:
    """The noise of streams that are released block by block, as a function of the blocks' addresses: a stream's name
    and the time of the release. It has the distribution of the noise of `Blocks.step`.

    A read of a stream ends a block if time has passed since the last read. Reads of a stream at the same time get the
    same noise.
    """

    def __init__(self) -> None:
        self.names: Array = np.zeros(0, np.uint64)  # sorted
        self.noise: Array = np.zeros(0)  # sum over all blocks of a stream, in units of a block's scale
        self.last: Ints = np.zeros(0, np.int64)  # time of the last release

    def released(self, key: Address, streams: Array, time: int) -> Array:
        """The noise of the sums of `streams`, uint64 of any shape, read at `time`; float64 of the same shape, in units
        of `Blocks.block_scale`.

        Args:
            key: uint64, random, secret, the same for all streams of a run.
            streams: the name of each stream.
            time: at least the time of the last call.
        """
        asked = np.unique(streams)
        new = np.setdiff1d(asked, self.names, assume_unique=True)
        if new.size:
            names = np.concatenate([self.names, new])
            order = np.argsort(names)
            self.names = names[order]
            self.noise = np.concatenate([self.noise, np.zeros(new.size)])[order]
            self.last = np.concatenate([self.last, np.full(new.size, -1)])[order]
        place = np.searchsorted(self.names, asked)
        ends = self.last[place] < time
        self.noise[place[ends]] += address_laplace(key, asked[ends], np.uint64(time))
        self.last[place[ends]] = time
        return np.asarray(self.noise[np.searchsorted(self.names, streams)])
