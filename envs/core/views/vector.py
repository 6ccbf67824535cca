"""The vector view of a one-agent environment."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from taciturn.envs.core.info import Info, masked, overlaid
from taciturn.envs.core.population import Population
from taciturn.envs.core.render import Renderer
from taciturn.envs.core.views.single import sole_role
from taciturn.validation import Array, array_of, choice, mapping


def _whole(info: Info) -> Info:
    """An info without its values by agent, which single-agent views do not show."""
    by_agent = [key for key, value in info.items() if isinstance(value, dict)]
    return {key: value for key, value in info.items() if key.removeprefix("_") not in by_agent}


class VectorView(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """A one-agent population as a Gymnasium vector environment, stepped as arrays.

    Args:
        population: B replicas of a world with one agent.
        autoreset_mode: one of Gymnasium's three, for replicas with an ended episode. Under `SAME_STEP` the last
            observation and info are in `info["final_obs"]` and `info["final_info"]`.
    """

    def __init__(
        self,
        population: Population[Any],
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
    ) -> None:
        self.role = sole_role(population, "VectorView")
        self.population = population
        population.fix_spaces()
        self.num_envs = population.num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.render_mode = choice("render_mode", render_mode, (None, "ansi", "rgb_array"))
        self.metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 10, "name": population.name}
        self.metadata["autoreset_mode"] = self.autoreset_mode
        role = population.roles[self.role]
        self.single_observation_space, self.single_action_space = role.layout.space(), role.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._ended = np.zeros(self.num_envs, np.bool_)

    def __repr__(self) -> str:
        return f"<VectorView of {self.population!r}, {self.autoreset_mode}>"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, Info]:
        options = dict(mapping("options", options))
        where = options.pop("reset_mask", None)
        if where is not None and not array_of("reset_mask", where).any():
            raise ValueError("reset_mask must mark at least one replica")
        observation, info = self.population.reset(seed=seed, options=options, where=where)
        super().reset(seed=None if seed is None else int(seed))  # Gymnasium refuses NumPy's integers
        self._ended = self.population.done.copy()
        return observation[:, 0], self._full(info)

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        population, shape = self.population, (self.num_envs, *(self.single_action_space.shape or ()))
        actions = array_of("actions", actions, shape)[:, None]
        if self.autoreset_mode is AutoresetMode.NEXT_STEP and self._ended.any():
            return self._step_after_end(actions)
        if self.autoreset_mode is AutoresetMode.DISABLED and self._ended.any():
            ended = np.flatnonzero(self._ended)[:5].tolist()
            raise gymnasium.error.ResetNeeded(
                f"replicas {ended} are done: reset(options={{'reset_mask': ...}}) them first"
            )
        observation, reward, terminated, truncated, info = population.step(actions)
        self._ended = ended = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP and ended.any():
            final: Array = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                final[i] = observation[i, 0]
            last = {"final_obs": final, "final_info": masked(_whole(info) | self._mask(), ended)}
            observation, begun = population.reset(where=ended)
            latest_info = (
                overlaid(ended, _whole(begun), _whole(info)) | last | {f"_{key}": ended for key in last} | self._mask()
            )
            self._ended = np.zeros(self.num_envs, np.bool_)
        else:
            latest_info = self._full(info)
        return observation[:, 0], reward[:, 0], terminated, truncated, latest_info

    def _step_after_end(self, actions: Array) -> tuple[Array, Array, Array, Array, Info]:
        """Reset the replicas that ended in the last step, ignoring their actions, and step the others."""
        population, fresh = self.population, self._ended
        space: Any = self.single_action_space
        if fresh.all():
            observation, info = population.reset(where=fresh)
            nothing = np.zeros(self.num_envs, np.bool_)
            reward, terminated, truncated = np.zeros((self.num_envs, 1)), nothing, nothing
        else:
            actions = actions.copy()
            actions[fresh] = space.low if isinstance(space, gymnasium.spaces.Box) else space.start
            _, reward, terminated, truncated, info = population.step(actions)
            observation, begun = population.reset(where=fresh)
            info = overlaid(fresh, begun, info)
        self._ended = population.done.copy()
        return observation[:, 0], reward[:, 0], terminated & ~fresh, truncated & ~fresh, self._full(info)

    def _full(self, info: Info) -> Info:
        return _whole(info) | self._mask()

    def _mask(self) -> Info:
        mask = self.population.action_mask(self.role)
        if mask is None:
            return {}
        return {"action_mask": mask[:, 0].astype(np.int8), "_action_mask": np.ones(self.num_envs, np.bool_)}

    def render(self) -> Any:
        if self.render_mode is None:
            return None
        return tuple(Renderer(self.population, self.render_mode, i).frame() for i in range(self.num_envs))
