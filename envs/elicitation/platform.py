"""The platform's side of elicitation as a single-agent task, `taciturn/Elicitation-v0`, in which policies play the individuals.

The rule of payment is WINTALL. The action, Box [0, 1], is the target and the scale as shares of `max_epsilon` and `max_scale`, which
default to four times the world's target and the marginal cost there. With `fixed_target=True` the target is the world's and the action is
only the scale. (A platform that chooses both can mislead individuals who trust its announcement: a low target with a high scale
promises more than their tally will pay.) The other parameters are those of `elicitation_v0`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Acts, Array, Controlled, Role
from taciturn.envs.elicitation.costs import as_cost
from taciturn.envs.elicitation.world import Elicitation, elicitation_v0

__all__ = ["PlatformSide", "platform_side"]


class PlatformSide(Controlled):
    """The platform of an elicitation population; its actions are shares of their upper bounds.

    Args:
        population: an elicitation population with WINTALL as the only rule.
        others: `{"individual": policy}`, as for `Controlled`.
        fixed_target: True: the target is that of the parameters, and the action is only the scale.
    """

    def __init__(self, population: Elicitation, others: Mapping[str, Acts], fixed_target: bool = False) -> None:
        high: Any = population.roles["platform"].action_space
        self._high, self.fixed_target = high.high, fixed_target
        super().__init__(population, "platform", others)

    def make_roles(self) -> tuple[Role, ...]:
        (role,) = super().make_roles()
        size = len(self._high) - self.fixed_target
        return (replace(role, action_space=gymnasium.spaces.Box(0.0, 1.0, (size,), np.float32)),)

    def inner_action(self, action: Array) -> Array:
        if self.fixed_target:
            target = np.full((self.num_envs, 1, 1), self.params.target / self._high[0], np.float32)
            action = np.concatenate([target, action], -1)
        return action * self._high


def platform_side(num_envs: int, individuals: Acts, *, fixed_target: bool = False, **params: Any) -> PlatformSide:
    """`num_envs` replicas in which the platform is the only agent, and the policy `individuals` plays the others.

    Raises:
        ValueError: a parameter out of range.
    """
    plain = elicitation_v0.population(**{**params, "max_epsilon": 1e6}).params
    bounds = {"max_epsilon": 4 * plain.target, "max_scale": 4 * float(as_cost(plain.cost).marginal(plain.target))}
    inner = elicitation_v0.population(num_envs, **{"rules": ("wintall",)} | bounds | params)
    return PlatformSide(inner, {"individual": individuals}, fixed_target)
