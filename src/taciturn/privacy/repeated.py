"""Mechanisms that repeat an answer: `Memoized` while the value stays the same, `Scheduled` for the rest of the run."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Around, Given, Mechanism
from taciturn.privacy.losses import PrivacyLoss
from taciturn.validation import Array, Bools, Ints, integer


class RepeatedState:
    """Answers that agents of `shape` repeat."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.fresh: Bools = np.zeros(shape, np.bool_)  # whether the last step drew a new answer, and so charged for it
        self.answers: Array | None = None  # [*shape, ...]
        self.payload: tuple[int, ...] | None = None  # the shape of one value

    def check(self, x: ArrayLike) -> Array:
        """The values of all agents, [*shape, ...]; ValueError if their shape is wrong."""
        x = checks.numbers("x", x)
        payload = x.shape[len(self.shape) :]
        if x.shape[: len(self.shape)] != self.shape or payload != (self.payload or payload):
            raise ValueError(f"x must be of the shape of the agents {self.shape}, not {x.shape}")
        return x

    def draw(self, fresh: Array, mechanism: Mechanism, x: Array, rng: Generator, sensitivity: Given) -> Array:
        """Draw new answers where `fresh` is true, for values x[*shape, ...]; returns all answers, zeros for agents
        without one."""
        axes, rows, size = len(self.shape), np.flatnonzero(fresh), fresh.size
        if sensitivity is not None and np.ndim(sensitivity):
            aligned = checks.aligned("sensitivity", sensitivity, fresh)
            sensitivity = np.broadcast_to(aligned, self.shape).ravel()[rows]
        drawn = mechanism.perturb(x.reshape(size, *x.shape[axes:])[rows], rng, sensitivity)
        if self.answers is None:
            self.answers = np.zeros((*self.shape, *drawn.shape[1:]), drawn.dtype)
        self.answers = self.answers.astype(np.result_type(self.answers, drawn), copy=False)
        self.answers.reshape(size, *drawn.shape[1:])[rows] = drawn
        self.fresh, self.payload = fresh, x.shape[axes:]
        return self.answers.copy()


@dataclass(frozen=True)
class Repeated(Around):
    """Base of the mechanisms that draw answers from another one and repeat them.

    `perturb` gives first answers; `start` and `step` keep them.
    """

    stateful: ClassVar[bool] = True

    def summed_loss(self, num_senders: int) -> PrivacyLoss:
        """Cost of one new answer that a shuffler mixes with those of `num_senders` senders."""
        inner: Any = self.mechanism
        loss: PrivacyLoss = inner.summed_loss(num_senders)
        return loss


class MemoizedState(RepeatedState):
    """State of `Memoized` for agents of `shape`: each agent's last value and its answer."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.known: Bools = np.zeros(shape, np.bool_)  # whether there is an answer
        self.values: Array | None = None  # [*shape, ...]: the values behind the answers

    @property
    def started(self) -> Bools:
        """The agents that have an answer, bool of `shape`: repeating it costs nothing."""
        return self.known

    def reset(self, where: Array | None = None) -> None:
        """Forget the answers where `where`, booleans over the leading axes, is true (default: everywhere)."""
        chosen = checks.mask(where, self.shape)
        self.known, self.fresh = np.where(chosen, False, self.known), np.where(chosen, False, self.fresh)


@dataclass(frozen=True)
class Memoized(Repeated):
    """Repeats an answer while the value stays the same: the permanent randomized response of RAPPOR (Erlingsson, Pihur
    & Korolova 2014).

    An agent draws a new answer, and is charged, only if its value differs from the value it last answered; repeating an
    answer costs nothing. A new answer that differs from the last one reveals that the value has changed, whatever
    epsilon is, so the accountant's totals are infinite. Under a `Budget` smaller than two answers, an agent repeats its
    first answer even if its value changes; epsilon is then the cost of one answer, and larger budgets are refused.

    Args:
        mechanism: draws the answers; it must have no state itself.
    """

    changes_leak: ClassVar[bool] = True

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Given = None) -> MemoizedState:
        """State without answers, for agents of `shape`."""
        return MemoizedState(checks.agents(shape))

    def step(
        self, x: ArrayLike, rng: Generator, state: Any = None, *, where: Array | None = None, sensitivity: Given = None
    ) -> Array:
        """Answers to x[*shape, ...]: new ones for new values, otherwise earlier ones (zeros for agents without one)."""
        if not isinstance(state, MemoizedState):
            raise ValueError(f"state must come from Memoized.start, not be {state!r}")
        x, chosen, axes = state.check(x), checks.mask(where, state.shape), len(state.shape)
        values = x.copy() if state.values is None else state.values.astype(np.result_type(state.values, x), copy=False)
        differs = (x != values).any(tuple(range(axes, x.ndim)))
        fresh = np.asarray(chosen & (differs | ~state.known))
        answers = state.draw(fresh, self.mechanism, x, rng, sensitivity)
        values[fresh] = x[fresh]
        state.values, state.known = values, np.asarray(state.known | fresh)
        return answers


class ScheduledState(RepeatedState):
    """State of `Scheduled` for agents of `shape`."""

    def __init__(self, shape: tuple[int, ...], at: int) -> None:
        super().__init__(shape)
        self.at = at
        self.sent: Ints = np.zeros(shape, np.int64)  # how many messages each agent has sent

    @property
    def started(self) -> Bools:
        """The agents that send their next message at no cost, bool of `shape`."""
        return np.asarray(self.sent + 1 != self.at)

    def reset(self, where: Array | None = None) -> None:
        """Begin again where `where`, booleans over the leading axes, is true (default: everywhere)."""
        chosen = checks.mask(where, self.shape)
        self.sent, self.fresh = np.where(chosen, 0, self.sent), np.where(chosen, False, self.fresh)
        if self.answers is not None:
            self.answers[chosen] = 0


@dataclass(frozen=True)
class Scheduled(Repeated):
    """Spends all of epsilon on one answer: an agent draws it at its message number `at`, and repeats it to every agent
    from then on. Before that it sends zeros.

    Epsilon is the cost of one answer, by basic composition with delta 0. The messages of an agent before number `at`
    are constant, message number `at` is one output of the mechanism, and later messages are copies of it. An agent's
    transcript is therefore a function of that output (post-processing: Dwork & Roth 2014, Proposition 2.1) and costs as
    much as the output. At user level, an agent's whole history also costs as much as one answer, if the mechanism
    bounds any change of its input (randomised response does; the accountant's rules apply to others).

    The moment must be public. An agent counts its own messages, so this holds if private data affect neither whether
    nor when it sends. Otherwise (`Channel.silence_leaks`) the accountant's totals are infinite, as for all mechanisms.

    One answer for all receivers is more informative than a separate answer for each receiver at the same total epsilon:
    for small epsilon the information grows with its square, so m answers at epsilon/m together carry one m-th of the
    information of one answer at epsilon.

    Args:
        mechanism: draws the answer; it must have no state itself.
        at: the number of the message, counted from 1, at which an agent draws its answer.
    """

    once: ClassVar[bool] = True
    at: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(at=integer("at", self.at, at_least=1))

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Given = None) -> ScheduledState:
        """State without answers, for agents of `shape`."""
        return ScheduledState(checks.agents(shape), self.at)

    def step(
        self, x: ArrayLike, rng: Generator, state: Any = None, *, where: Array | None = None, sensitivity: Given = None
    ) -> Array:
        """The answers of agents of `shape`, zeros for agents without one. Agents that send message number `at` answer
        x[*shape, ...]; the values of others are not read."""
        if not isinstance(state, ScheduledState):
            raise ValueError(f"state must come from Scheduled.start, not be {state!r}")
        x, chosen = state.check(x), checks.mask(where, state.shape)
        answers = state.draw(np.asarray(chosen & ~state.started), self.mechanism, x, rng, sensitivity)
        state.sent = state.sent + chosen
        return answers
