"""A population as a Stable-Baselines3 VecEnv, in which every agent of every replica is one row."""

from collections.abc import Sequence, Set
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import Population, picture
from taciturn.envs.core.info import Info, LazyInfo
from taciturn.envs.core.views import effective_actions
from taciturn.validation import Array, missing_extra

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise missing_extra("RowsVecEnv needs stable-baselines3", "rl") from error

__all__ = ["RowsVecEnv"]


class RowsVecEnv(VecEnv):
    """A one-role population as a Stable-Baselines3 VecEnv of `num_envs x rows` environments, stepped as arrays.

    All agents share the policy that is trained on it. Where agents act one at a time (gossip), a row is not the trajectory of one agent,
    because the acting agent changes at every step.

    Args:
        population: replicas of a world with one role (or `Controlled`).
        seed: of the first reset.

    All rows of a replica have its info, and `TimeLimit.truncated`. A replica that ends is reset at once; its rows then also have their
    `terminal_observation`.
    """

    def __init__(self, population: Population[Any], seed: int | None = None) -> None:
        if len(population.roles) != 1:
            raise ValueError(f"population must have one role, not {list(population.roles)}: use Controlled")
        self.population, self._seed = population, seed
        population.fix_spaces()
        self.role = next(iter(population.roles))
        role = population.roles[self.role]
        try:
            self.rows = population.rows(self.role)
        except gymnasium.error.ResetNeeded:
            population.reset(seed=seed)
            self.rows = population.rows(self.role)
        super().__init__(population.num_envs * self.rows, role.layout.space(), role.action_space)
        self._shape = (population.num_envs, self.rows)
        self._actions: Array = np.zeros(0)
        self._keys: Set[str] | None = None

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
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        population = self.population
        step = population.step(self._actions.reshape(*self._shape, *self._actions.shape[1:]))
        observation = self._flat(step.observation)
        ended = step.terminated | step.truncated
        infos = self._infos(step.info, step.truncated & ~step.terminated)
        if ended.any():
            for row in np.flatnonzero(np.repeat(ended, self.rows)):
                infos[row] = {**infos[row], "terminal_observation": observation[row]}
            observation = self._flat(population.reset(where=ended)[0])
        reward = step.reward.reshape(-1).astype(np.float32)
        return observation, reward, np.repeat(ended, self.rows), infos

    def action_masks(self) -> Array:
        """Which actions have an effect now, bool[num_envs, n]; sb3-contrib's MaskablePPO calls it by this name.

        For MultiDiscrete actions these are the masks of all dimensions one after another. Box actions have none.
        """
        self._check_masks()
        return effective_actions(self.population, self.role)

    def _check_masks(self) -> None:
        if isinstance(self.action_space, gymnasium.spaces.Box):
            raise AttributeError(f"{self.population.name} has actions in a Box, for which there are no masks")

    def close(self) -> None:
        pass

    def get_images(self) -> Sequence[Array | None]:
        return [picture(self.population, row // self.rows) for row in range(self.num_envs)]

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "action_masks":
            self._check_masks()
            return [lambda row=row: self.action_masks()[row] for row in self._get_indices(indices)]
        value = None if attr_name == "render_mode" else getattr(self.population, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(f"{attr_name} cannot be set on a RowsVecEnv: make a new population")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[row] for row in self._get_indices(indices)]
        value = getattr(self.population, method_name)(*method_args, **method_kwargs)
        return [value for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]

    def _infos(self, info: Info, truncated: Array) -> list[Info]:
        """The infos of all rows; the rows of a replica share one."""
        if self._keys is None:
            self._keys = {key for key in info if key[0] != "_"} | {"TimeLimit.truncated"}
        by_replica = cache(partial(self._by_replica, info, truncated))

        def one(replica: int) -> Info:
            return by_replica()[replica]

        replicas = [LazyInfo(partial(one, i), self._keys) for i in range(self.population.num_envs)]
        return [told for told in replicas for _ in range(self.rows)]

    def _by_replica(self, info: Info, truncated: Array) -> list[Info]:
        """The entries of `_infos` by replica."""
        info = info | {"TimeLimit.truncated": truncated}
        columns = {
            key: values.tolist() if values.ndim == 1 else list(values)
            for key, values in info.items()
            if key[0] != "_" and not isinstance(values, dict)
        }
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _flat(self, observation: Array) -> Array:
        return observation.reshape(self.num_envs, -1)
