"""The platform's side of elicitation as a task for one agent, `taciturn/Elicitation-v0`: the individuals are played by policies.

WINTALL is the rule; the action, Box [0, 1], is target and scale as shares of `max_epsilon` and `max_scale`, which are four times the
world's target and the marginal cost there unless they are given. With `fixed_target=True` the target is the world's and the scale alone
is to be chosen. (Free to choose both, a platform can mislead individuals who trust what it announces: a low target with a high scale
promises them more than their tally will pay.) The other parameters are those of `elicitation_v0`, with `individuals`:

- the name of a policy, such as "BestResponse" (the default), "FiniteBestResponse", "TargetQuality", "Truthful", "FreeRider", "Hedge";
- `{name: share}`, a mixture of them;
- a policy.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Acts, Controlled, Role, SingleEnv, Step, VectorView
from taciturn.envs.core.elicitation_game import as_cost
from taciturn.envs.elicitation import Elicitation, elicitation_v0
from taciturn.policies import Mixture
from taciturn.registry import make_policy

__all__ = ["PlatformSide", "platform_side", "single_env", "vector_env"]


class PlatformSide(Controlled):
    """The platform of an elicitation population; its actions are shares of their bounds.

    Args:
        population: of elicitation, in which one rule may be announced.
        others: as for `Controlled`.
        fixed_target: the action is the scale alone, the target that of the parameters.
    """

    def __init__(self, population: Elicitation, others: Mapping[str, Acts], fixed_target: bool = False) -> None:
        high: Any = population.roles["platform"].action_space
        self._high, self.fixed_target = high.high, fixed_target
        super().__init__(population, "platform", others)

    def make_roles(self) -> tuple[Role, ...]:
        (role,) = super().make_roles()
        size = len(self._high) - self.fixed_target
        return (replace(role, action_space=gymnasium.spaces.Box(0.0, 1.0, (size,), np.float32)),)

    def step(self, actions: Any) -> Step:
        self._running()
        checked = self.roles[self.role].check(actions, (self.num_envs, 1))
        if self.fixed_target:
            target = np.full((self.num_envs, 1, 1), self.params.target / self._high[0], np.float32)
            checked = np.concatenate([target, checked], -1)
        step = self._players.play({self.role: checked * self._high})
        more, info = self._follow()
        return Step(self.observe(), step.reward[self.role] + more, self.terminated, self.truncated, step.info | info)


def platform_side(
    num_envs: int = 1, *, individuals: Any = "BestResponse", fixed_target: bool = False, **params: Any
) -> PlatformSide:
    """`num_envs` replicas in which one agent, the platform, is left to act.

    Raises:
        ValueError: individuals that are no policy, or parameters out of range.
    """
    if isinstance(individuals, str):
        individuals = make_policy(individuals)
    elif isinstance(individuals, Mapping):
        individuals = Mixture([(make_policy(name), share) for name, share in individuals.items()])
    plain = elicitation_v0.population(**{**params, "max_epsilon": 1e6}).params
    bounds = {"max_epsilon": 4 * plain.target, "max_scale": 4 * float(as_cost(plain.cost).marginal(plain.target))}
    inner = elicitation_v0.population(num_envs, **{"rules": ("wintall",)} | bounds | params)
    return PlatformSide(inner, {"individual": individuals}, fixed_target)


def single_env(render_mode: str | None = None, **params: Any) -> SingleEnv:
    """Gymnasium's form."""
    return SingleEnv(platform_side(**params), render_mode)


def vector_env(
    num_envs: int = 1, autoreset_mode: Any = "NextStep", render_mode: str | None = None, **params: Any
) -> VectorView:
    """Gymnasium's vector form."""
    return VectorView(platform_side(num_envs, **params), autoreset_mode, render_mode)
