"""A policy written for one agent, played as a separate copy for each agent: the simplest way to write a decentralised
agent."""

from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population, PublicView
from taciturn.policies.base import Learner, Policy


class Separate(Policy):
    """One copy of `agent` for each agent of each replica, each with separate memory and random numbers.

    A copy sees an environment of one replica in which it is its role's only agent: observations [1, 1, D], rewards
    [1, 1], and a public view with `num_envs` 1. Its action may be a plain number, or an array of the action space's
    shape. The view lacks functions that exchange messages of all agents together. A learner is trained once; its copies
    share the training and nothing more.

    Args:
        agent: a policy, or any object with its methods; copied by `copy.deepcopy` at every reset.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.agent!r})"

    @property
    def needs_truth(self) -> bool:  # type: ignore[override]
        """Whether the agent needs the truth."""
        return bool(getattr(self.agent, "needs_truth", False))

    @property
    def centralised(self) -> bool:  # type: ignore[override]
        """Whether the agent declares that it is centralised."""
        return bool(getattr(self.agent, "centralised", False))

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        if not hasattr(self.agent, "prescribes"):
            return super().prescribes(view)
        found: dict[str, Any] = self.agent.prescribes(view)
        return found

    def reset(self, env: PublicView | Population[Any], rng: np.random.Generator, role: str | None = None) -> None:
        view = env.view(self) if isinstance(env, Population) else env
        self.indices: int | None = None
        super().reset(view, rng, role)
        if isinstance(self.agent, Learner):
            self.agent.reset(view, rng, self.role)
        agents = view.roles[self.role].num_agents
        self._shape = view.roles[self.role].action_space.shape or ()
        self._copies = np.empty((view.num_envs, agents), object)
        self._view = view
        self._luck = dict(zip(np.ndindex(self._copies.shape), rng.spawn(self._copies.size), strict=True))
        for place in self._luck:
            self._renew(place)

    def restart(self, where: Array) -> None:
        """Replace the copies in these replicas by new ones."""
        for place in np.ndindex(self._copies.shape):
            if where[place[0]]:
                self._renew(place)

    def _renew(self, place: tuple[int, ...]) -> None:
        self._copies[place] = copy = deepcopy(self.agent)
        copy.reset(self._view.of_one(self.role, place[0]), self._luck[place], self.role)

    def begin(self, view: PublicView) -> None:
        self._acting = partial(view.acting, self.role)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self._rows = self._acting()
        shape = obs.shape[:2]
        found: Any = np.empty(shape, object)
        for place in np.ndindex(shape):
            if not self._plays(place):
                found[place] = np.zeros(self._shape, np.int64)
                continue
            own = np.s_[place[0] : place[0] + 1, place[1] : place[1] + 1]
            chosen = np.asarray(self._copy(place).act(obs[own].copy(), None if mask is None else mask[own].copy()))
            if chosen.size != np.prod(self._shape):
                raise ValueError(
                    f"policy must give one action of shape {list(self._shape)} for its only agent, not "
                    f"{list(chosen.shape)}"
                )
            found[place] = chosen.reshape(self._shape)
        return np.array(found.ravel().tolist()).reshape(*shape, *self._shape)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        for place in filter(self._plays, np.ndindex(obs.shape[:2])):
            own = np.s_[place[0] : place[0] + 1, place[1] : place[1] + 1]
            self._copy(place).update(obs[own].copy(), action[own].copy(), reward[own].copy(), done[own[0]].copy())

    def _agent(self, place: tuple[int, ...]) -> tuple[int, int]:
        """The agent of a row: where agents act one at a time, a row does not always belong to the same agent."""
        replica, row = place
        return replica, row if self._rows is None else int(self._rows[replica, row])

    def _plays(self, place: tuple[int, ...]) -> bool:
        """Whether the row belongs to one of the first `indices` agents (None: all)."""
        return self.indices is None or self._agent(place)[1] < self.indices

    def _copy(self, place: tuple[int, ...]) -> Any:
        return self._copies[self._agent(place)]
