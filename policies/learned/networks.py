"""One small network for all agents and options; the same code runs in NumPy to act and in PyTorch to learn."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np

from taciturn.validation import Array, Floats, Ints

Weights = Mapping[str, Any]


def new_weights(
    rng: np.random.Generator, option: int, common: int, outputs: int, width: int, last: float = 0.01
) -> dict[str, Array]:
    """Weights float32 of a network for `option` features of each option and `common` ones of the agent. The weights of
    its `outputs` numbers per option are scaled by `last`, so at first all actions are almost equally likely."""

    def layer(inputs: int, units: int, scale: float = 1.0) -> Array:
        drawn: Floats = rng.standard_normal((inputs, units)) * scale / np.sqrt(inputs)
        return drawn.astype(np.float32)

    sizes = {"option": option, "common": common, "again": width, "mean": width, "largest": width}
    made = {name: layer(inputs, width) for name, inputs in sizes.items()}
    made |= {"option_bias": layer(1, width, 0.1), "again_bias": layer(1, width, 0.1)}
    return made | {"out": layer(width, outputs, last), "out_bias": np.zeros((1, outputs), np.float32)}


def forward(w: Weights, option: Any, common: Any) -> Any:
    """The outputs [R, K, outputs] for features `option` [R, K, F] and `common` [R, G] of R decisions.

    The same weights serve each option, and each option also gets the mean and the maximum over all of them. So
    permuting the options permutes the outputs (deep sets: Zaheer et al. 2017). With one option it is a plain network.
    """
    rows, options = option.shape[0], option.shape[1]
    width = w["again"].shape[0]
    flat = option.reshape(rows * options, option.shape[2]) @ w["option"]
    shared = common @ w["common"] + w["option_bias"]
    first = (flat.reshape(rows, options, width) + shared[:, None]).clip(min=0)
    centralised = w["again_bias"]
    if options > 1:
        largest = first.max(1) if isinstance(first, np.ndarray) else first.amax(1)
        centralised = first.mean(1) @ w["mean"] + largest @ w["largest"] + centralised
    again = first.reshape(rows * options, width) @ w["again"]
    second = (again.reshape(rows, options, width) + centralised[:, None]).clip(min=0)
    out = second.reshape(rows * options, width) @ w["out"] + w["out_bias"]
    return out.reshape(rows, options, out.shape[1])


class Head(Protocol):
    """Turns the outputs of a network into actions.

    Attributes:
        outputs: numbers per option.
        extra: further weights, `{name: array}`.
    """

    outputs: int
    extra: dict[str, Array]

    def draw(self, out: Array, w: Weights, rng: np.random.Generator, mask: Array | None, greedy: bool) -> Array:
        """Choices [R, ...] drawn from outputs [R, K, outputs]; if `greedy` the most likely ones, ties at random."""

    def action(self, choice: Array) -> Array:
        """The environment's actions for choices."""

    def evaluated(self, out: Any, w: Weights, choice: Any, mask: Any) -> tuple[Any, Any]:
        """In PyTorch: the logarithm of the probability (density) of each choice, and the entropy, [R] each."""


def drawn(logits: Array, rng: np.random.Generator) -> Ints:
    """Draws [R] from softmax(logits [R, n]) by the Gumbel-max method."""
    uniform = rng.random(logits.shape, dtype=np.float32)
    return np.argmax(logits - np.log(-np.log(np.maximum(uniform, np.float32(1e-12)))), -1)


def sharpened(out: Array, greedy: bool) -> Array:
    """Outputs from which, if `greedy`, only the largest are drawn: options with equal outputs get equal probability,
    unlike with argmax."""
    return out * np.float32(1e4) if greedy else out


def of_one(logits: Any, choice: Any) -> tuple[Any, Any]:
    """The logarithm of softmax(logits [R, n]) at choices [R], and its entropy [R], in PyTorch."""
    log = logits.log_softmax(-1)
    entropy = -(log.exp() * log.clip(min=-50)).sum(-1)
    return log.gather(-1, choice[:, None])[:, 0], entropy


class Number:
    """One of n actions: the actions of each option in turn if options have separate outputs (action j K + k is action j
    of option k), otherwise the outputs of the only option."""

    extra: dict[str, Array] = {}  # noqa: RUF012

    def __init__(self, space: gymnasium.spaces.Discrete, options: int) -> None:
        self.outputs, self.first = int(space.n) // options, int(space.start)

    def _logits(self, out: Any, mask: Any) -> Any:
        logits = out.swapaxes(1, 2).reshape(out.shape[0], -1)
        return logits if mask is None else logits - 1e9 * (1 - mask)

    def draw(self, out: Array, w: Weights, rng: np.random.Generator, mask: Array | None, greedy: bool) -> Array:
        return drawn(self._logits(sharpened(out, greedy), mask), rng)

    def action(self, choice: Array) -> Array:
        return choice + self.first

    def evaluated(self, out: Any, w: Weights, choice: Any, mask: Any) -> tuple[Any, Any]:
        return of_one(self._logits(out, mask), choice)


class Numbers:
    """Several numbers, each with a separate range, from the outputs of the only option."""

    extra: dict[str, Array] = {}  # noqa: RUF012

    def __init__(self, space: gymnasium.spaces.MultiDiscrete) -> None:
        self.sizes, self.first = [int(n) for n in space.nvec], space.start
        self.outputs, self.ends = sum(self.sizes), np.cumsum(self.sizes)[:-1].tolist()

    def draw(self, out: Array, w: Weights, rng: np.random.Generator, mask: Array | None, greedy: bool) -> Array:
        return np.stack([drawn(part, rng) for part in np.split(sharpened(out[:, 0], greedy), self.ends, -1)], -1)

    def action(self, choice: Array) -> Array:
        return choice + self.first

    def evaluated(self, out: Any, w: Weights, choice: Any, mask: Any) -> tuple[Any, Any]:
        parts = [of_one(part, choice[:, i]) for i, part in enumerate(out[:, 0].split(self.sizes, -1))]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)


class Point:
    """A point of a box: normal around the outputs of the only option, in units of the box's half width from its middle,
    with learned standard deviations."""

    def __init__(self, space: gymnasium.spaces.Box, spread: float = 0.4) -> None:
        self.space, self.outputs = space, int(np.prod(space.shape))
        low, high = (np.asarray(end, np.float64).reshape(-1) for end in (space.low, space.high))
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.extra = {"log_spread": np.full(self.outputs, np.log(spread), np.float32)}

    def draw(self, out: Array, w: Weights, rng: np.random.Generator, mask: Array | None, greedy: bool) -> Array:
        mean = out[:, 0]
        if greedy:
            return mean
        return mean + np.exp(w["log_spread"]) * rng.standard_normal(mean.shape, dtype=np.float32)

    def action(self, choice: Array) -> Array:
        found = self.middle + self.half * np.clip(choice, -1, 1)
        found = found.reshape(*choice.shape[:-1], *self.space.shape).astype(self.space.dtype)
        return np.clip(found, self.space.low, self.space.high)

    def evaluated(self, out: Any, w: Weights, choice: Any, mask: Any) -> tuple[Any, Any]:
        log = w["log_spread"]
        density = (-0.5 * ((choice - out[:, 0]) / log.exp()) ** 2 - log).sum(-1)
        return density, log.sum().expand(density.shape[0])


class Plan:
    """A plan of social learning: an option, and whether to adopt it on signal 0 and on signal 1, from three outputs of
    each option; choices are int64[R, 3]."""

    extra: dict[str, Array] = {}  # noqa: RUF012
    outputs = 3

    def __init__(self, flat: bool) -> None:
        self.flat = flat

    def draw(self, out: Array, w: Weights, rng: np.random.Generator, mask: Array | None, greedy: bool) -> Array:
        out = sharpened(out, greedy)
        option = drawn(out[..., 0], rng)
        adopts = np.take_along_axis(out[..., 1:], option[:, None, None], 1)[:, 0]
        uniform = np.maximum(rng.random(adopts.shape, dtype=np.float32), 1e-12)
        return np.concatenate([option[:, None], adopts > np.log(uniform) - np.log1p(-uniform)], -1, dtype=np.int64)

    def action(self, choice: Array) -> Array:
        return 4 * choice[..., 0] + 2 * choice[..., 1] + choice[..., 2] if self.flat else choice

    def evaluated(self, out: Any, w: Weights, choice: Any, mask: Any) -> tuple[Any, Any]:
        log, entropy = of_one(out[..., 0], choice[:, 0])
        adopts = out[..., 1:].gather(1, choice[:, :1, None].expand(-1, 1, 2))[:, 0]
        refused = adopts.sigmoid().neg() + 1
        surprise = (adopts.abs().neg().exp() + 1).log() + (-adopts).clip(min=0)  # -log of the probability to adopt
        told = surprise + adopts * (1 - choice[:, 1:])
        return log - told.sum(-1), entropy + (surprise + adopts * refused).sum(-1)


class Decisions(NamedTuple):
    """An agent's decisions at one step of a rollout."""

    option: Array  # float32[R, K, F]
    common: Array  # float32[R, G]
    choice: Array  # [R, ...]
    mask: Array | None  # float32[R, n]
    agents: Ints  # [B, rows]
