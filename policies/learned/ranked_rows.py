"""Rows to train one network on, for Stable-Baselines3, with options by rank."""

from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population
from taciturn.policies.learned.training import Ranking
from taciturn.wrappers.sb3 import RowsVecEnv

__all__ = ["RankedRows"]


class RankedRows(RowsVecEnv):
    """Rows that see options by rank.

    Args:
        population, seed: as of `RowsVecEnv`.
        options: as `fields` of `Ranking`.
    """

    def __init__(self, population: Population[Any], seed: int, options: tuple[str, ...]) -> None:
        super().__init__(population, seed)
        self._ranking = Ranking(population.roles[self.role].layout, options)
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def step_async(self, actions: Array) -> None:
        super().step_async(self._ranking.action(actions))

    def _flat(self, observation: Array) -> Array:
        return self._ranking.observation(super()._flat(observation), self._rng)
