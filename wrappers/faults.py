"""What goes wrong on a channel: agents who are away or lie, messages that are lost or late.

However wrappers nest, a message meets the faults of its channel in one order: its sender may be away (`Churn`) or lie (`Byzantine`); then
it is perturbed by the channel's mechanism and charged; then it may be lost (`LossyChannel`) or late (`Stragglers`). Faults of one class
follow one another in the order of their `repr`. Each draws from a stream of its own, `fault/<channel>/<class>/<index>` (of how many of
its class come before it), so that two runs with the same seed differ by the fault only.

Time is counted in a replica's sends: a send is an occasion on which at least one of its agents would speak, had nothing gone wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from taciturn.envs.core import Array, ChannelConfig, choice, number, vector
from taciturn.envs.core.channel import Fault
from taciturn.privacy.channels import Payload
from taciturn.wrappers.channels import on_channel

__all__ = ["Byzantine", "Churn", "Faulty", "LossyChannel", "Stragglers"]

Memory = dict[str, Array]


def Faulty(env: Any, channel: str, fault: Fault) -> Any:
    """The environment with a fault on one of its channels, in the same interface; `env` itself is not changed.

    The fault is installed when the result is reset, and a reset of `env` itself installs none. A channel takes several faults, and a
    mechanism beside them: wrappers nest in any order, to the same effect.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of this suite.
        channel: the channel's name.
        fault: what goes wrong.

    Raises:
        ValueError: an environment that is none of these, an unknown channel, or something that is no fault.
    """
    if not isinstance(fault, Fault):
        raise ValueError(f"fault must be one of taciturn.wrappers' faults, not {fault!r}")
    return on_channel(env, channel, ChannelConfig(faults=(fault,)))


@dataclass(frozen=True)
class Churn(Fault):
    """Agents come and go. Who is away sends nothing, and is charged nothing.

    All are there at a reset. At each send, before it, who is there leaves with probability `leave`, else who is away comes back with
    probability `join`: after many sends a share join / (join + leave) is there.

    Args:
        leave: in [0, 1].
        join: in [0, 1].
    """

    leave: float
    join: float
    order: ClassVar[int] = 0

    def __post_init__(self) -> None:
        number("leave", self.leave, at_least=0, at_most=1)
        number("join", self.join, at_least=0, at_most=1)

    def start(self, shape: tuple[int, int], rng: np.random.Generator) -> Memory:
        return {"present": np.ones(shape, np.bool_)}

    def admit(self, who: Array, sending: Array, memory: Memory, rng: np.random.Generator) -> Array:
        present, luck = memory["present"], rng.random(who.shape)
        moved = np.where(present, luck >= self.leave, luck < self.join)
        memory["present"] = np.where(sending[:, None], moved, present)
        return np.asarray(who & memory["present"])


@dataclass(frozen=True)
class Byzantine(Fault):
    """Some agents lie, always the same ones of a replica until its next reset: round(fraction * N) of its N agents, drawn at random.

    A lie is a message like any other, within the bounds of honest ones; it is perturbed and charged as they are. By payload:

    - `bounded`, `stream`: numbers in `bounds` = (low, high). `flip`: low + high - x; `constant`: high; `random`: uniform.
    - `categorical`: integers low .. high of `bounds`. `flip`: low + high - x; `constant`: high; `random`: uniform.
    - `one_hot`, `scores`: a number for each option. `flip`: `scores` upside down (max + min - x), `one_hot` for the next option, after
      the last the first; `constant`: for the last option, the one-hot or the scores sorted upwards; `random`: the numbers shuffled.
    - `vector`: `flip`: -x; `constant`: x's Euclidean norm in the direction (1, ..., 1); `random`: in a uniformly random direction.

    Args:
        fraction: in [0, 1].
        strategy: "flip", "constant" or "random".
        bounds: of numbers and categories; other payloads need none.
    """

    fraction: float
    strategy: Literal["flip", "constant", "random"] = "flip"
    bounds: tuple[float, float] = (0.0, 1.0)
    order: ClassVar[int] = 1

    def __post_init__(self) -> None:
        number("fraction", self.fraction, at_least=0, at_most=1)
        choice("strategy", self.strategy, ("flip", "constant", "random"))
        low, high = vector("bounds", self.bounds, size=2)
        if not low < high:
            raise ValueError(f"bounds must be (low, high) with low < high, not {self.bounds!r}")
        object.__setattr__(self, "bounds", (float(low), float(high)))

    def start(self, shape: tuple[int, int], rng: np.random.Generator) -> Memory:
        return {"liars": rng.random(shape).argsort(-1)[:, : round(self.fraction * shape[1])]}

    def corrupt(self, x: Array, payload: Payload, memory: Memory, rng: np.random.Generator) -> Array:
        liars = memory["liars"].reshape(*memory["liars"].shape, *[1] * (x.ndim - 2))
        honest = np.take_along_axis(x, liars, 1)
        lies = self.lie(honest, payload, rng)
        # Fractions may stand in for whole numbers where both are numbers.
        said = x.astype(np.result_type(x, lies) if payload in ("bounded", "stream") else x.dtype)
        np.put_along_axis(said, liars, lies.astype(said.dtype), 1)
        return said

    def lie(self, x: Array, payload: Payload, rng: np.random.Generator) -> Array:
        """What liars say who would honestly say `x` [..., (options or coordinates)]."""
        low, high = self.bounds
        if payload in ("bounded", "stream", "categorical"):
            if self.strategy == "flip":
                return np.asarray(low + high - x)
            if self.strategy == "constant":
                return np.full(x.shape, high)
            if payload == "categorical":
                return rng.integers(int(low), int(high), x.shape, endpoint=True)
            return rng.uniform(low, high, x.shape)
        if payload == "vector":
            if self.strategy == "flip":
                return -x
            direction = np.ones(x.shape) if self.strategy == "constant" else rng.standard_normal(x.shape)
            direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
            return np.asarray(np.linalg.norm(x, axis=-1, keepdims=True) * direction)
        if self.strategy == "constant":
            return np.sort(x, -1)
        if self.strategy == "random":
            return rng.permuted(x, axis=-1)
        return np.roll(x, 1, -1) if payload == "one_hot" else x.max(-1, keepdims=True) + x.min(-1, keepdims=True) - x


@dataclass(frozen=True)
class LossyChannel(Fault):
    """Each message is lost, whatever becomes of the others. It was sent, counted and charged all the same.

    Counts are thinned before they are perturbed: a sum of independently perturbed messages, each of which arrives or not, has the law of
    the sum of the perturbed messages of those who are heard.

    Args:
        probability: of a loss, in [0, 1].
    """

    probability: float
    order: ClassVar[int] = 2
    closed_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("probability", self.probability, at_least=0, at_most=1)

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: Memory, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        return y, np.asarray(sent & (rng.random(sent.shape) >= self.probability))

    def thin(self, histogram: Array, rng: np.random.Generator) -> Array:
        return np.asarray(rng.binomial(histogram, 1 - self.probability))


@dataclass(frozen=True)
class Stragglers(Fault):
    """Messages arrive late, or never. Each was perturbed, counted and charged when it was sent.

    What a world sees: `send` gives it, for each agent, the message of that agent that arrives now, as it was said then, and marks the agent
    as delivered, though it may not have been asked now; who was asked and whose message is on its way is not marked. An agent is heard once
    a send: of two of its messages that are due together the one sent last is read, the other lost. What is on its way at a reset is lost.

    Args:
        delays: delays[d] is the probability that a message arrives d sends later (0: at once); what they lack to 1, that it never does.
    """

    delays: Sequence[float]
    order: ClassVar[int] = 3

    def __post_init__(self) -> None:
        delays = vector("delays", self.delays)
        if delays.size == 0 or (delays < 0).any() or delays.sum() > 1 + 1e-9:
            raise ValueError(
                f"delays must be probabilities that sum to at most 1, at least one of them, not {self.delays!r}"
            )
        object.__setattr__(self, "delays", tuple(delays.tolist()))

    def start(self, shape: tuple[int, int], rng: np.random.Generator) -> Memory:
        # due[:, d] says whose message arrives d sends from now.
        return {"due": np.zeros((shape[0], len(self.delays), shape[1]), np.bool_)}

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: Memory, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        edges = np.cumsum(self.delays)
        edges[edges > 1 - 1e-9] = 1.0
        delay = np.searchsorted(edges, rng.random(sent.shape), side="right")
        due = memory["due"]
        if "on_its_way" not in memory:
            memory["on_its_way"] = np.zeros((len(y), len(edges), *y.shape[1:]), y.dtype)
        messages = memory["on_its_way"]
        due[sending, :-1], messages[sending, :-1] = due[sending, 1:], messages[sending, 1:]
        due[sending, -1] = False
        for d in range(len(edges)):
            new = sent & (delay == d)
            due[:, d] |= new
            messages[:, d][new] = y[new]
        arrives = due[:, 0] & sending[:, None]
        return messages[:, 0].copy(), arrives
