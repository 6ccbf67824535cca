"""What the learners add to Stable-Baselines3: rows to train on, and a monitor of the training."""

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback

from taciturn.envs.core import Array, Population
from taciturn.policies.base import Progress
from taciturn.policies.learned.training import Ranking
from taciturn.wrappers.sb3 import RowsVecEnv


class RankedRows(RowsVecEnv):
    """`RowsVecEnv` with the fields `options` sorted by `Ranking`, ties by a stream of the population."""

    def __init__(self, population: Population[Any], seed: int, options: tuple[str, ...]) -> None:
        super().__init__(population, seed)
        self._ranking = Ranking(population.roles[self.role].layout, options, self.action_space)

    def step_async(self, actions: Array) -> None:
        super().step_async(self._ranking.action(actions))

    def _flat(self, observation: Array) -> Array:
        return self._ranking.observation(super()._flat(observation), self.population.stream("ranking"))

    def action_masks(self) -> Array:
        masks = super().action_masks()
        return masks if self.population.action_mask(self.role) is None else self._ranking.mask(masks)


class TrainingMonitor(BaseCallback):
    """Appends the mean reward per step of every rollout to `history` and reports the fraction done to `progress`."""

    def __init__(self, history: list[float], steps: int, progress: Progress | None) -> None:
        super().__init__()
        self._history, self._steps, self._progress = history, steps, progress
        self._total, self._count = 0.0, 0

    def _on_step(self) -> bool:
        normal: Any = self.training_env
        reward = normal.get_original_reward()
        self._total, self._count = self._total + float(reward.sum()), self._count + reward.size
        return True

    def _on_rollout_end(self) -> None:
        self._history.append(self._total / self._count)
        self._total, self._count = 0.0, 0
        if self._progress is not None:
            self._progress(min(1.0, self.num_timesteps / self._steps))
