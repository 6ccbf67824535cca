"""Shared part of the single-replica views, and the view of a one-agent environment."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population
from taciturn.envs.core.render import RENDER_MODES, Renderer
from taciturn.validation import Array, choice


def effective_actions(population: Population[Any], role: str) -> Array:
    """The actions that have an effect now, bool[B x rows, n]; for MultiDiscrete, the dimensions' masks concatenated."""
    mask, space = population.action_mask(role), population.roles[role].action_space
    rows = population.num_envs * population.rows(role)
    if mask is not None:
        return mask.reshape(rows, -1).astype(np.bool_)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        return np.ones((rows, int(space.nvec.sum())), np.bool_)
    assert isinstance(space, gymnasium.spaces.Discrete)
    return np.ones((rows, int(space.n)), np.bool_)


def sole_role(population: Population[Any], view: str) -> str:
    """The role of the only agent; ValueError if there are others."""
    if len(population.roles) != 1 or next(iter(population.roles.values())).num_agents != 1:
        agents = ", ".join(f"{role.num_agents} x {role.name}" for role in population.roles.values())
        raise ValueError(f"{view} needs a population of one agent, not {agents}: use a PettingZoo view or Controlled")
    return next(iter(population.roles))


class OneReplica:
    """Common base of the views of one replica.

    A population keeps a history for pictures (`Population.pictured`) only if such a view has a render mode.
    """

    def __init__(self, population: Population[Any], render_mode: str | None, **metadata: Any) -> None:
        if population.num_envs != 1:
            view = type(self).__name__
            raise ValueError(f"{view} needs a population of one replica, but num_envs is {population.num_envs}")
        self.population = population
        population.fix_spaces()
        self.render_mode = choice("render_mode", render_mode, (None, *RENDER_MODES))
        population.pictured = render_mode is not None
        population.info_per_agent = True
        self._masked = type(population).action_mask is not Population.action_mask
        self._by_agent: tuple[str, ...] = ()  # info keys with one value per agent, known when a run begins
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": 10, "name": population.name, **metadata}
        self._renderer = Renderer(population, self.render_mode)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.population!r}>"

    def render(self) -> Any:
        return self._renderer.frame()

    def close(self) -> None:
        self._renderer.close()


class SingleEnv(OneReplica, gymnasium.Env[Array, Any]):
    """A one-agent population of one replica as a Gymnasium environment."""

    def __init__(self, population: Population[Any], render_mode: str | None = None) -> None:
        self.role = sole_role(population, "SingleEnv")
        super().__init__(population, render_mode)
        population.info_per_agent = False
        role = population.roles[self.role]
        self.observation_space, self.action_space = role.layout.space(), role.action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        seen, info = self.population.reset_one(seed, options)
        self._by_agent = self.population.info_keys_by_agent
        super().reset(seed=None if seed is None else int(seed))  # only now: a refused call must change nothing
        self._renderer.update()
        return seen[self.role][0], self._full(info)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        role = self.role
        seen, earned, terminated, truncated, info = self.population.step_one({role: [action]})
        if self.render_mode is not None:
            self._renderer.update()
        return seen[role][0], earned[role][0], terminated, truncated, self._full(info)

    @property
    def action_masks(self) -> Callable[[], Array]:
        """The method that sb3-contrib's MaskablePPO calls for the actions that have an effect now, bool[n]; see
        `effective_actions`.

        Spaces without a finite number of actions have no such method, since libraries test for its presence.
        """
        space = self.action_space
        if isinstance(space, gymnasium.spaces.Box):
            raise AttributeError(f"{self.population.name} has actions in a Box, for which there are no masks")
        return self._action_masks  # a bound method can be sent to another process

    def _action_masks(self) -> Array:
        return effective_actions(self.population, self.role)[0]

    def _full(self, info: Info) -> Info:
        """The info without its values by agent, which single-agent views do not show, and with the mask."""
        for key in self._by_agent:
            info.pop(key, None)
        if self._masked and (mask := self.population.action_mask(self.role)) is not None:
            info["action_mask"] = mask[0, 0].copy()
        return info
