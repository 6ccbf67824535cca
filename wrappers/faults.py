"""Faults of a channel: absent agents, message limits, lying agents, and lost or late messages.

A message's sender may be absent (`Churn`), have used up its messages (`MessageLimit`) or lie (`Byzantine`); then the
channel's mechanism perturbs the message and the accountant charges it; then it may be lost (`LossyChannel`) or late
(`Stragglers`). `taciturn.channels.faults` applies them in this order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from taciturn.channels.faults import Fault, Memory
from taciturn.privacy.channels import Payload
from taciturn.validation import Array, choice, integer, number, vector


@dataclass(frozen=True)
class Churn(Fault):
    """Agents leave and come back. An absent agent sends nothing and is charged nothing.

    At a reset all agents are present. Before each send, a present agent leaves with probability `leave` and an absent
    one comes back with probability `join`, so in the long run a share join / (join + leave) of the agents is
    present.

    Args:
        leave: probability of leaving, in [0, 1].
        join: probability of coming back, in [0, 1].
    """

    leave: float
    join: float
    order: ClassVar[int] = 0

    def __post_init__(self) -> None:
        number("leave", self.leave, at_least=0, at_most=1)
        number("join", self.join, at_least=0, at_most=1)

    def start(self, shape: tuple[int, int], rng: Generator) -> Memory:
        return {"present": np.ones(shape, np.bool_)}

    def admit(self, who: Array, sending: Array, memory: Memory, rng: Generator) -> Array:
        present, luck = memory["present"], rng.random(who.shape)
        moved = np.where(present, luck >= self.leave, luck < self.join)
        memory["present"] = np.where(sending[:, None], moved, present)
        return np.asarray(who & memory["present"])


@dataclass(frozen=True)
class MessageLimit(Fault):
    """Limits the messages of each agent in a run; after the last one it is silent and charged nothing.

    A message counts even if it is lost later, but not if its sender was absent. On a channel with requests, it limits
    the number of requests of each agent.

    Args:
        messages: most messages of each agent, >= 0.
    """

    messages: int
    order: ClassVar[int] = 1

    def __post_init__(self) -> None:
        integer("messages", self.messages, at_least=0)

    def start(self, shape: tuple[int, int], rng: Generator) -> Memory:
        return {"sent": np.zeros(shape, np.int64)}

    def admit(self, who: Array, sending: Array, memory: Memory, rng: Generator) -> Array:
        admitted = np.asarray(who & (memory["sent"] < self.messages))
        memory["sent"] += admitted
        return admitted


@dataclass(frozen=True)
class Byzantine(Fault):
    """Some agents lie: round(fraction * N) of the N agents of a replica, drawn at random at each reset.

    A lie stays within the bounds of honest messages, and is perturbed and charged like them. By payload:

    - `bounded`, `stream`: numbers in `bounds` = (low, high). `flip`: low + high - x; `constant`: high; `random`:
      uniform.
    - `categorical`: integers low .. high of `bounds`. `flip`: low + high - x; `constant`: high; `random`: uniform.
    - `one_hot`, `scores`: a number for each option. `flip`: a one-hot vector names the next option (cyclically), and
      scores x become max + min - x; `constant`: the numbers in ascending order, in favour of the last option; `random`:
      the numbers in random order.
    - `vector`: `flip`: -x; `constant`: a vector of the Euclidean norm of x in the direction (1, ..., 1); `random`: one
      in a uniformly random direction.

    Args:
        fraction: fraction of lying agents, in [0, 1].
        strategy: "flip", "constant" or "random".
        bounds: bounds of numbers and categories; ignored for other payloads.
    """

    fraction: float
    strategy: Literal["flip", "constant", "random"] = "flip"
    bounds: tuple[float, float] = (0.0, 1.0)
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        number("fraction", self.fraction, at_least=0, at_most=1)
        choice("strategy", self.strategy, ("flip", "constant", "random"))
        low, high = vector("bounds", self.bounds, size=2)
        if not low < high:
            raise ValueError(f"bounds must be (low, high) with low < high, not {self.bounds!r}")
        object.__setattr__(self, "bounds", (float(low), float(high)))

    def start(self, shape: tuple[int, int], rng: Generator) -> Memory:
        return {"liars": rng.random(shape).argsort(-1)[:, : round(self.fraction * shape[1])]}

    def liars(self, shape: tuple[int, int], memory: Memory) -> Array:
        lying = np.zeros(shape, np.bool_)
        np.put_along_axis(lying, memory["liars"], True, 1)
        return lying

    def corrupt(self, x: Array, payload: Payload, memory: Memory, rng: Generator) -> Array:
        liars = memory["liars"].reshape(*memory["liars"].shape, *[1] * (x.ndim - 2))
        honest = np.take_along_axis(x, liars, 1)
        lies = self.lie(honest, payload, rng)
        # For number payloads, a lie may be a fraction even if honest messages are integers.
        claimed = x.astype(np.result_type(x, lies) if payload in ("bounded", "stream") else x.dtype)
        np.put_along_axis(claimed, liars, lies.astype(claimed.dtype), 1)
        return claimed

    def lie(self, x: Array, payload: Payload, rng: Generator) -> Array:
        """The lies that replace the honest messages `x` [..., (options or coordinates)]."""
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
    """Loses each message independently. A lost message is still sent, counted and charged.

    Where only the counts of messages are simulated, losses are drawn before the noise. This is exact: messages are
    perturbed independently, so it makes no difference to their sum whether some are lost before or after that.

    Args:
        probability: probability of losing a message, in [0, 1].
    """

    probability: float
    order: ClassVar[int] = 3
    closed_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("probability", self.probability, at_least=0, at_most=1)

    def deliver(self, y: Array, sent: Array, sending: Array, memory: Memory, rng: Generator) -> tuple[Array, Array]:
        return y, np.asarray(sent & (rng.random(sent.shape) >= self.probability))

    def thin(self, histogram: Array, rng: Generator) -> Array:
        return np.asarray(rng.binomial(histogram, 1 - self.probability))


@dataclass(frozen=True)
class Stragglers(Fault):
    """Delivers messages late, or never. Each is perturbed, counted and charged when it is sent.

    For each agent, `send` returns the message that arrives now, unchanged since it was sent, and reports a delivery
    even if the agent sends nothing now. It reports none while the message is in transit. At most one message of an
    agent arrives at a send: if two are due, the one sent later is delivered and the other is lost. A reset loses all
    messages in transit.

    Args:
        delays: delays[d] is the probability that a message arrives d sends later (0: immediately); with the remaining
            probability it never arrives.
    """

    delays: Sequence[float]
    order: ClassVar[int] = 4
    late: ClassVar[bool] = True

    def __post_init__(self) -> None:
        delays = vector("delays", self.delays)
        if delays.size == 0 or (delays < 0).any() or delays.sum() > 1 + 1e-9:
            raise ValueError(f"delays must be one or more probabilities that sum to at most 1, not {self.delays!r}")
        object.__setattr__(self, "delays", tuple(delays.tolist()))

    def start(self, shape: tuple[int, int], rng: Generator) -> Memory:
        # due[:, d] marks the agents with a message that arrives d sends from now.
        return {"due": np.zeros((shape[0], len(self.delays), shape[1]), np.bool_)}

    def deliver(self, y: Array, sent: Array, sending: Array, memory: Memory, rng: Generator) -> tuple[Array, Array]:
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
