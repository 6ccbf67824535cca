"""A population as a Stable-Baselines3 VecEnv; every agent of every replica is one row."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Population, picture
from taciturn.envs.core.info import Info
from taciturn.envs.core.render import Renderer
from taciturn.envs.core.views import effective_actions
from taciturn.validation import Array, array_of, choice, missing_extra, shown

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise missing_extra("RowsVecEnv needs stable-baselines3", "rl") from error


class RowsVecEnv(VecEnv):
    """A one-role population as a Stable-Baselines3 VecEnv of `num_envs x rows` environments, stepped as arrays.

    All agents share the trained policy. Where agents act one at a time (gossip), a row is not the trajectory of one
    agent, because the acting agent changes at every step.

    Args:
        population: replicas of an environment with one role (or `Controlled`).
        seed: seed of the first reset.
        render_mode: None, "ansi" or "rgb_array".

    Each row has a separate info, with the values of its replica and `TimeLimit.truncated`. A replica that ends is reset
    immediately; its rows then also have their `terminal_observation`.
    """

    def __init__(
        self, population: Population[Any], seed: int | None = None, render_mode: str | None = "rgb_array"
    ) -> None:
        if len(population.roles) != 1:
            raise ValueError(f"population must have one role, not {list(population.roles)}: use Controlled")
        self.population, self._seed = population, seed
        mode = choice("render_mode", render_mode, (None, "ansi", "rgb_array"))
        population.fix_spaces()
        self.role = next(iter(population.roles))
        role = population.roles[self.role]
        try:
            self.rows = population.rows(self.role)
        except gymnasium.error.ResetNeeded:
            population.reset(seed=seed)
            self.rows = population.rows(self.role)
        self._mode = mode
        super().__init__(population.num_envs * self.rows, role.layout.space(), role.action_space)
        self._shape = (population.num_envs, self.rows)
        self._actions: Array = np.zeros(0)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.rows} rows a replica of {self.population!r}>"

    def reset(self) -> Array:
        seed = self._seeds[0] if self._seeds[0] is not None else self._seed
        self._seed = None
        observation, info = self.population.reset(seed=seed, options=self._options[0])
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = self._infos(info, self.population.done)
        return self._flat(observation)

    def step_async(self, actions: Array) -> None:
        shape = self.action_space.shape or ()
        self._actions = array_of("actions", actions, (self.num_envs, *shape)).reshape(*self._shape, *shape)

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        population = self.population
        step = population.step(self._actions)
        observation = self._flat(step.observation)
        ended = step.terminated | step.truncated
        infos = self._infos(step.info, step.truncated & ~step.terminated)
        if ended.any():
            for row in np.flatnonzero(np.repeat(ended, self.rows)):
                infos[row]["terminal_observation"] = observation[row]
            observation = self._flat(population.reset(where=ended)[0])
        reward = step.reward.reshape(-1).astype(np.float32)
        return observation, reward, np.repeat(ended, self.rows), infos

    def action_masks(self) -> Array:
        """The actions that have an effect now, bool[num_envs, n]; sb3-contrib's MaskablePPO calls it by this name.

        For MultiDiscrete actions, the masks of the dimensions are concatenated. Box actions have none.
        """
        self._check_masks()
        return effective_actions(self.population, self.role)

    def _check_masks(self) -> None:
        if isinstance(self.action_space, gymnasium.spaces.Box):
            raise AttributeError(f"{self.population.name} has actions in a Box, for which there are no masks")

    def close(self) -> None:
        pass

    def get_images(self) -> Sequence[Array | None]:
        drawn = [picture(self.population, replica) for replica in range(self.population.num_envs)]
        return [drawn[row // self.rows] for row in range(self.num_envs)]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The value of an attribute for each of these rows. `action_masks` belongs to the row, `render_mode` to all
        rows, and all others to the population."""
        rows = self._some(indices)
        if attr_name == "action_masks":
            self._check_masks()
            return [lambda row=row: self.action_masks()[row] for row in rows]
        value = self._mode if attr_name == "render_mode" else getattr(self.population, attr_name)
        return [value for _ in rows]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise an error: no attribute can be set."""
        raise AttributeError(f"{attr_name} cannot be set on a RowsVecEnv: make a new population")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """The results of a method for these rows: `action_masks` and `render` are per row; any other is called once on
        the population. A method that would change other rows too is refused unless all rows are given.

        Raises:
            ValueError: the method is `reset` or `step`, and only some of the rows are given.
        """
        rows = self._some(indices)
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[row] for row in rows]
        if method_name == "render":
            return [Renderer(self.population, self._mode, row // self.rows).frame() for row in rows]
        if method_name in ("reset", "step", "advance") and set(rows) != set(range(self.num_envs)):
            raise ValueError(f"indices must be all rows for {method_name!r}, which changes all, not {shown(indices)}")
        value = getattr(self.population, method_name)(*method_args, **method_kwargs)
        return [value for _ in rows]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._some(indices)]

    def _some(self, indices: Any) -> list[int]:
        """The indices of these rows; ValueError if there is no such row."""
        rows = [int(row) for row in self._get_indices(indices)]
        if not all(-self.num_envs <= row < self.num_envs for row in rows):
            raise ValueError(f"indices must be numbers of rows, from 0 to {self.num_envs - 1}, not {shown(indices)}")
        return [row % self.num_envs for row in rows]

    def _infos(self, info: Info, truncated: Array) -> list[Info]:
        """The infos of all rows."""
        info = info | {"TimeLimit.truncated": truncated}
        columns = {
            key: values.tolist() if values.ndim == 1 else list(values.copy())
            for key, values in info.items()
            if key[0] != "_" and not isinstance(values, dict)
        }
        told = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return told if self.rows == 1 else [one.copy() for one in told for _ in range(self.rows)]

    def _flat(self, observation: Array) -> Array:
        return observation.reshape(self.num_envs, -1)
