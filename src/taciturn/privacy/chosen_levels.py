"""Messages at levels that senders choose from public information."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy.base import Given
from taciturn.privacy.calibrated_noise import Laplace
from taciturn.privacy.losses import PrivacyLoss
from taciturn.privacy.randomized_response import BitwiseRandomizedResponse, UnaryEncoding
from taciturn.privacy.repeated import Repeated, RepeatedState
from taciturn.validation import Array, Bools, Floats, choice


class LevelsState(RepeatedState):
    """State of `ChosenLevels` for agents of `shape`.

    Attributes:
        standing: float64 of `shape`, the level of each agent's last message at a level above 0; 0: no such message.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.standing: Floats = np.zeros(shape)

    def reset(self, where: Array | None = None) -> None:
        """Forget the messages where `where`, booleans of `shape`, is true (default: everywhere)."""
        self.standing = np.where(True if where is None else where, 0.0, self.standing)


@dataclass(frozen=True)
class ChosenLevels(Repeated):
    """A mechanism at a level that the sender chooses for each message.

    A message at level epsilon > 0 has the distribution of the mechanism at that epsilon, and costs epsilon. Level 0
    conveys nothing new: an agent repeats its last message if it `repeats` and has sent one, and otherwise sends
    nothing. Both cost nothing: a repetition is a function of earlier messages (post-processing: Dwork & Roth 2014,
    Proposition 2.1).

    This bounds the loss only if the level itself reveals nothing, so it must follow from the observers' knowledge:
    `taciturn.envs.core.level_choice` makes it the action of a role that observes nothing else.

    Args:
        mechanism: `BitwiseRandomizedResponse`, `UnaryEncoding` or `Laplace` at the highest level; at other levels its
            epsilon is replaced.
        repeats: whether level 0 repeats the last message.
    """

    takes_levels: ClassVar[bool] = True
    repeats: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, BitwiseRandomizedResponse | UnaryEncoding | Laplace):
            raise ValueError(
                f"mechanism must be BitwiseRandomizedResponse, UnaryEncoding or Laplace, not {self.mechanism!r}"
            )
        choice("repeats", self.repeats, (False, True))
        self._set(stateful=self.repeats)

    def at(self, level: float) -> Any:
        """The mechanism at this level > 0."""
        inner: Any = self.mechanism
        return replace(inner, epsilon=level)

    @property
    def zcdp(self) -> float:
        """rho of a message divided by its squared epsilon, the same at all levels."""
        loss = self.mechanism.loss()
        return loss.rho / loss.epsilon**2

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Cost of a message at the highest level."""
        return self.mechanism.loss(sensitivity)

    def start(self, shape: tuple[int, ...], *, horizon: int | None = None, sensitivity: Given = None) -> LevelsState:
        """The state of agents of `shape` before any message."""
        return LevelsState(shape)

    def perturb_levels(
        self,
        x: Array,
        levels: Floats,
        who: Bools,
        rng: Generator | Callable[[float], Generator],
        state: LevelsState,
        sensitivity: Given = None,
    ) -> tuple[Array, Bools]:
        """Messages for the values x[*shape, ...] of the agents `who`, bool of `shape`, at `levels`, float64 of `shape`.

        `rng` may be a function of the level, to give two levels independent noise.

        Returns:
            (messages, zeros for agents that do not send; the senders, bool of `shape`).
        """
        fresh = who & (levels > 0)
        for level in np.unique(levels[fresh]).tolist():
            said = fresh & (levels == level)
            mechanism, stated = self.at(level), sensitivity
            if isinstance(sensitivity, np.ndarray):
                apart = x.ndim - mechanism.payload_dims
                stated = np.broadcast_to(sensitivity, (*x.shape[:apart], *[1] * mechanism.payload_dims))[said]
            mechanism.check_sensitivity(stated)
            answers = mechanism.perturb(x[said], rng(level) if callable(rng) else rng, stated)
            if state.answers is None or state.answers.shape != x.shape:
                state.answers = np.zeros(x.shape, answers.dtype)
            state.answers[said] = answers
        state.fresh, state.standing = fresh, np.where(fresh, levels, state.standing)
        message_levels = fresh | (who & (state.standing > 0)) if self.repeats else fresh
        if state.answers is None or not message_levels.any():
            return np.zeros_like(x), np.zeros(state.shape, np.bool_)
        spoken = message_levels.reshape(*message_levels.shape, *[1] * (x.ndim - message_levels.ndim))
        return np.where(spoken, state.answers, np.zeros((), state.answers.dtype)), message_levels

    def step(
        self, x: ArrayLike, rng: Generator, state: Any = None, *, where: Array | None = None, sensitivity: Given = None
    ) -> Array:
        """Messages of all agents at the highest level."""
        values, who = state.check(x), np.broadcast_to(True if where is None else where, state.shape)
        return self.perturb_levels(values, np.full(state.shape, self.epsilon), who, rng, state, sensitivity)[0]
