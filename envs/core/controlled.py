"""A world of several roles seen by one of them, while policies play the others."""

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any

import numpy as np

from taciturn.envs.core.population import Acts, Info, Population, Rollout, Step, begin, latest
from taciturn.envs.core.roles import Role
from taciturn.validation import Array

__all__ = ["Controlled"]


def _asked(method: str) -> Any:
    """A method that asks the inner population."""

    def ask(self: "Controlled", *args: Any, **named: Any) -> Any:
        return getattr(self.inner, method)(*args, **named)

    return ask


class Controlled(Population[Any]):
    """A phased world seen by one of its roles, while policies play the others.

    Args:
        population: a world with several roles.
        role: the one that is left to act.
        others: `{role: policy}` for every other role; a full reset resets these policies, a partial one does not.
    """

    name = "controlled"

    def __init__(self, population: Population[Any], role: str, others: Mapping[str, Acts]) -> None:
        if role not in population.roles or set(others) != set(population.roles) - {role}:
            raise ValueError(
                f"role and others must share out the roles {list(population.roles)}, not {role!r} and {sorted(others)}"
            )
        self.inner, self.role, self.others = population, role, dict(others)
        super().__init__(population.params, population.num_envs)
        self.channels, self.hidden = population.channels, population.hidden
        self._rollout = Rollout(population, self.others)

    def practice(self, num_envs: int, kind: Any = None, **changes: Any) -> "Controlled":
        """See `PublicView.practice`; copies of the policies play the other roles."""
        world = copy(self)
        Controlled.__init__(world, self.inner.practice(num_envs, kind, **changes), self.role, deepcopy(self.others))
        return world

    def make_roles(self) -> tuple[Role, ...]:
        return (self.inner.roles[self.role],)

    def fix_spaces(self) -> None:
        super().fix_spaces()
        self.inner.fix_spaces()

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, Info]:
        inner = self.inner
        if where is not None and not inner._marked(where).all():
            info = self._reset_some(seed, options, inner._marked(where))
            return self.observe(), info
        _, info = inner.reset(seed=seed, options=options, where=where)
        if where is None:
            if inner.params is not self.params:
                self.params = inner.params
                self.roles = {role.name: role for role in self.make_roles()}
            self._rollout = Rollout(inner, self.others)
            begin(inner, self.others)
        _, info = self._follow(info)
        return self.observe(), info

    def _reset_some(self, seed: int | None, options: Mapping[str, Any] | None, where: Array) -> Info:
        """Reset some replicas: the other roles open their cycle there while the remaining replicas wait."""
        inner = self.inner
        terminated, truncated, turn = inner.terminated, inner.truncated, inner._turn
        inner._turn = 0
        try:
            _, info = inner.reset(seed=seed, options=options, where=where)
        except Exception:
            inner._turn = turn
            raise
        inner.terminated = inner.terminated | ~where
        _, info = self._follow(info)
        self.terminated = inner.terminated = np.where(where, inner.terminated, terminated)
        self.truncated = inner.truncated = np.where(where, inner.truncated, truncated)
        if not (where | terminated | truncated).all():
            inner._turn = turn
        return info

    def step(self, actions: Any) -> Step:
        self._running()
        chosen = self.roles[self.role].check(actions, (self.num_envs, self.rows(self.role)))
        step = self._rollout.play({self.role: self.inner_action(chosen)})
        more, info = self._follow(step.info)
        return Step(self.observe(), step.reward[self.role] + more, self.terminated, self.truncated, info)

    def inner_action(self, action: Array) -> Array:
        """What the role does in the inner population for an action here, [B, rows, ...] each."""
        return action

    def _follow(self, info: Info) -> tuple[Any, Info]:
        """Play the other roles until it is this role's turn again; return this role's summed reward, and `info` with what they add."""
        inner, reward = self.inner, 0.0
        while self.role not in inner.turn and not inner.done.all():
            step = self._rollout.play()
            reward, info = reward + step.reward.get(self.role, 0.0), latest(info, step.info)
        self._state, self.terminated, self.truncated = inner.state, inner.terminated, inner.truncated
        self.ledger = inner.ledger
        return reward, info

    initial, transition, observe_role = map(_asked, ("initial", "transition", "observe_role"))
    acting, action_mask, stream, clock = map(_asked, ("acting", "action_mask", "stream", "clock"))
    measures, outcome, public = map(_asked, ("measures", "outcome", "public"))
    describe, draw = map(_asked, ("describe", "draw"))
