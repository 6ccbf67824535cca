"""Communicators: they choose the level of the next message, where agents can (`taciturn.envs.core.LevelChoice`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Layout, PublicView, number, vector
from taciturn.envs.core.level_choice import COMMUNICATOR
from taciturn.policies.base import Policy
from taciturn.validation import shown

ROUNDING = 1e-4  # relative tolerance: spent epsilon is observed in float32


class Communicator(Policy):
    """Base of the hand-designed communicators, which choose levels of the grid by the clock and the epsilon spent. Each
    must declare a public schedule; otherwise epsilon is infinite."""

    memoryless = True

    def begin(self, view: PublicView) -> None:
        self.require(
            self.role == COMMUNICATOR, "the role 'communicator' of environments with message_levels='chosen'", view
        )
        self._layout: Layout = view.roles[self.role].layout
        self._grid = np.array(view.params.levels)

    def place(self, name: str, level: Any) -> int:
        """The action for this level; ValueError if it is not in the grid."""
        result = np.flatnonzero(self._grid == level)
        if not result.size:
            raise ValueError(
                f"{name} must be one of the environment's levels {self._grid.tolist()}, not {shown(level)}"
            )
        return int(result[0])


class ConstantLevel(Communicator):
    """Sends at the same level in every turn, as long as the remaining budget allows it.

    Args:
        epsilon: one of the environment's levels.
    """

    public_schedule = True

    def __init__(self, epsilon: float = 1.0) -> None:
        self.epsilon = number("epsilon", epsilon, at_least=0)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._action = self.place("epsilon", self.epsilon)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        return np.full(obs.shape[:2], self._action)


class LevelPlan(Communicator):
    """Sends one message at each of several moments that are fixed in advance, and no new message in between.

    Each message is sent at the environment's first request at or after its moment. The epsilon spent gives the number
    of sent messages. If a message is a preference it is repeated to every agent from then on, as with the mechanism
    `Scheduled`: one answer received by all is more informative than many answers received once each at the same total
    epsilon.

    Args:
        plan: `[(moment, epsilon), ...]`: the times of messages, in the unit of the clock, increasing, and their levels,
            from the grid above 0.
    """

    public_schedule = True

    def __init__(self, plan: Sequence[tuple[float, float]] = ((0.0, 1.0),)) -> None:
        given: Any = plan
        if not (isinstance(given, list | tuple) and given and all(np.shape(one) == (2,) for one in given)):
            raise ValueError(f"plan must be a list of pairs (moment, epsilon), not {shown(plan)}")
        moments = vector("plan", [moment for moment, _ in given])
        if moments[0] < 0 or not (np.diff(moments) > 0).all():
            raise ValueError(f"plan must have increasing moments from 0 on, not {shown(moments.tolist())}")
        levels = [number(f"epsilon of plan[{i}]", level, above=0) for i, (_, level) in enumerate(given)]
        self.plan = tuple(zip(moments.tolist(), levels, strict=True))

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        moments, levels = zip(*self.plan, strict=True)
        self._moments = np.array(moments, np.float32)
        self._spent = np.cumsum(levels) * (1 - ROUNDING)
        self._actions = np.array([*(self.place("epsilon", level) for level in levels), 0])

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        due = np.searchsorted(self._moments, seen["time"], side="right")
        said = np.searchsorted(self._spent, seen["spent"].astype(np.float64), side="right")
        return np.where(said < due, self._actions[said], 0)
