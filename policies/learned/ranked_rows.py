"""A Stable-Baselines3 environment of rows whose options are sorted by rank."""

from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population
from taciturn.policies.learned.training import Ranking
from taciturn.wrappers.sb3 import RowsVecEnv

__all__ = ["RankedRows"]


class RankedRows(RowsVecEnv):
    """`RowsVecEnv` with options sorted by `Ranking`.

    Args:
        population: see `RowsVecEnv`.
        seed: see `RowsVecEnv`; also of random ties.
        options: see `fields` of `Ranking`.
    """

    def __init__(self, population: Population[Any], seed: int, options: tuple[str, ...]) -> None:
        super().__init__(population, seed)
        self._ranking = Ranking(population.roles[self.role].layout, options)
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def step_async(self, actions: Array) -> None:
        super().step_async(self._ranking.action(actions))

    def _flat(self, observation: Array) -> Array:
        return self._ranking.observation(super()._flat(observation), self._rng)
