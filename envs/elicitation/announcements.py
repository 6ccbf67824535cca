"""The platform's action: an announcement as a vector `[target, scale, (rule), (value)]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import gymnasium
import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.elicitation.payments import RULES
from taciturn.validation import Array, Floats, Ints

__all__ = ["MIN_TARGET", "Announcements"]

MIN_TARGET = 0.01


@dataclass(frozen=True)
class Announcements:
    """The announcements that a platform may make, and their encoding as actions.

    Args:
        rules: the rules of payment allowed; the action has `rule` if there are several.
        num_reports: the number of possible reports; the action has `value` if "posted_price" is allowed.
        max_epsilon, max_scale: upper bounds of the target and the scale.
    """

    rules: Sequence[str]
    num_reports: int
    max_epsilon: float
    max_scale: float

    @cached_property
    def layout(self) -> dict[str, tuple[int, float, float]]:
        """`{field: (size, low, high)}`, as `Layout` takes them."""
        fields = {"target": (1, 0.0, self.max_epsilon), "scale": (1, 0.0, self.max_scale)}
        if len(self.rules) > 1:
            fields["rule"] = (1, 0.0, len(self.rules))
        if "posted_price" in self.rules:
            fields["value"] = (1, 0.0, self.num_reports)
        return fields

    @cached_property
    def space(self) -> gymnasium.spaces.Box:
        """The platform's action space."""
        high = np.array([high for _, _, high in self.layout.values()], np.float32)
        return gymnasium.spaces.Box(np.zeros(high.size, np.float32), high, dtype=np.float32)

    @cached_property
    def positions(self) -> Ints:
        """The positions in `RULES` of the allowed rules."""
        return np.array([RULES.index(rule) for rule in self.rules])

    def encode(self, rule: str, target: ArrayLike, scale: ArrayLike, value: ArrayLike, num_envs: int) -> Array:
        """Actions float32[B, 1, D] within the space; `target`, `scale` and `value` are numbers or [B].

        Raises:
            ValueError: a rule that is not allowed.
        """
        if rule not in self.rules:
            raise ValueError(
                f"rule must be one of {', '.join(map(repr, self.rules))}, not {rule!r}: see the world's parameter rules"
            )
        fields = {
            "target": target, "scale": scale, "rule": self.rules.index(rule) + 0.5, "value": np.asarray(value) + 0.5
        }  # fmt: skip
        action = np.stack([np.broadcast_to(np.asarray(fields[name], np.float64), num_envs) for name in self.layout], -1)
        return np.clip(action[:, None].astype(np.float32), self.space.low, self.space.high)

    def decode(self, action: Array) -> dict[str, Array]:
        """The `target`, `scale`, `rule` (position in `RULES`) and, if there is one, `value` of actions [B, D]; [B] each."""
        fields: dict[str, Array] = dict(zip(self.layout, action.astype(np.float64).T, strict=True))
        fields["target"] = np.maximum(fields["target"], np.float32(MIN_TARGET))
        chosen = fields.get("rule", np.zeros(len(action))).astype(np.int64)
        fields["rule"] = self.positions[np.minimum(chosen, len(self.rules) - 1)]
        if "value" in fields:
            fields["value"] = np.minimum(fields["value"].astype(np.int64), self.num_reports - 1)
        return fields

    def observed(self, target: Floats, scale: Floats, rule: Ints, value: Ints) -> dict[str, Array]:
        """The fields of an observation that show an announcement, [B] each; `rule` is a position in `RULES`."""
        place = np.zeros(len(RULES), np.int64)
        place[self.positions] = np.arange(len(self.rules))
        fields = {"target": target, "scale": scale, "rule": place[rule], "value": value}
        return {name: fields[name] for name in self.layout}
