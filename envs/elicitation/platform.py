"""The platform's side of elicitation as a single-agent task, `taciturn/Elicitation-v0`; policies play the
individuals.

The payment rule is WINTALL. The platform observes this run's desired budget, announces it as target, and chooses the
scale: an action a in Box [-1, 1] means the share (1 + a) / 2 of `max_scale`, by default four times the marginal cost
at the highest desired budget. WINTALL's own scale is the marginal cost at the run's desired budget, so the best action
differs from run to run. The reward is the platform's reward per individual.

By default the action does not include the target, since a platform that chooses both can mislead individuals who trust
its announcement: a low target with a high scale promises more than their tally will pay. Under objective "quality",
which ignores the error of the estimate, this is the best strategy, and `UnderstatedTarget` plays it. With
`announces="both"` the action is Box [-1, 1]^2, the shares of `max_epsilon` and of `max_scale`, so learners have the
same choices as hand-designed platforms. The other parameters are those in `elicitation_v0`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Acts, Array, Controlled, Role, choice
from taciturn.envs.elicitation.costs import as_cost
from taciturn.envs.elicitation.world import Elicitation, elicitation_v0

ONE = np.float32(1)


class PlatformSide(Controlled):
    """The platform of an elicitation population; an action a means the share (1 + a) / 2 of its upper bound.

    Args:
        population: an elicitation population with WINTALL as the only rule.
        others: `{"individual": policy}`, as for `Controlled`.
        announces: "scale" (the target is the desired budget) or "both".
    """

    def __init__(self, population: Elicitation, others: Mapping[str, Acts], announces: str = "scale") -> None:
        high: Any = population.roles["platform"].action_space
        self._both = choice("announces", announces, ("scale", "both")) == "both"
        self._half = high.high[:2] / 2 if self._both else high.high[1] / 2
        super().__init__(population, "platform", others)
        self.inner: Elicitation

    def make_roles(self) -> tuple[Role, ...]:
        (role,) = super().make_roles()
        return (replace(role, action_space=gymnasium.spaces.Box(-1.0, 1.0, (1 + self._both,), np.float32)),)

    def own_reward(self, reward: Array) -> Array:
        return np.asarray(reward / self.params.num_individuals)

    def inner_action(self, action: Array) -> Array:
        if self._both:
            return np.asarray((action + ONE) * self._half, np.float32)
        announced = np.empty((len(action), 1, 2), np.float32)
        announced[:, 0, 0] = self.inner.column("desired")
        announced[:, :, 1:] = (action + ONE) * self._half
        return announced


def platform_side(num_envs: int = 1, *, individuals: Acts, announces: str = "scale", **params: Any) -> PlatformSide:
    """`num_envs` replicas with the platform as the only agent; the policy `individuals` plays the others.

    The Gymnasium API also accepts names, such as "BestResponse", "FiniteBestResponse" or "Truthful", or `{name: share}`
    for a mixture. `announces` is as in `PlatformSide`.

    Raises:
        ValueError: a parameter is out of range.
    """
    plain = elicitation_v0.population(**{**params, "max_epsilon": 1e6}).params
    highest = plain.targets[1]
    bounds = {"max_epsilon": 4 * highest, "max_scale": 4 * float(as_cost(plain.cost).marginal(highest))}
    inner = elicitation_v0.population(num_envs, **{"rules": ("wintall",)} | bounds | params)
    return PlatformSide(inner, {"individual": individuals}, announces)
