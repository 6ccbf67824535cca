"""What the learners add to Stable-Baselines3: rows to train on, a monitor of the training, and a network that scores
arms."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

from taciturn.envs.core import Array, Population
from taciturn.policies.base import Progress
from taciturn.policies.learned.training import Ranking
from taciturn.wrappers.sb3 import RowsVecEnv


class TeamRows(RowsVecEnv):
    """Rows that observe features and receive the mean reward of their replica.

    For these rows the end of a run is a termination, not a truncation, since they observe the time left.

    Args:
        population, seed: as in `RowsVecEnv`.
        features: maps observations [rows, D] to the features that rows observe.
        open_actions: maps observations and masks bool[rows, n] to the actions that the learner may choose.
    """

    def __init__(
        self,
        population: Population[Any],
        seed: int,
        features: Callable[[Array], Array],
        open_actions: Callable[[Array, Array], Array],
    ) -> None:
        super().__init__(population, seed)
        self._features, self._open_actions = features, open_actions
        self._observed = np.zeros((self.num_envs, population.roles[self.role].layout.size), np.float32)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, features(self._observed).shape[1:], np.float32)

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        observation, reward, done, infos = super().step_wait()
        for row in np.flatnonzero(done):
            infos[row]["TimeLimit.truncated"] = False
        team = reward.reshape(self._shape).mean(1)
        return observation, np.repeat(team, self.rows), done, infos

    def action_masks(self) -> Array:
        return self._open_actions(self._observed, super().action_masks())

    def _flat(self, observation: Array) -> Array:
        self._observed = super()._flat(observation)
        return self._features(self._observed)


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


def hidden_layers(features: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())


class ArmScorer(nn.Module):
    """A small network applied to every arm with the same weights, so that it is equivariant under renumbering of arms.

    The input is F features of each arm, [rows, K F]. The actor's logits [rows, 2 K] are a score for pulling each arm,
    and, for pulling it and uploading, this score plus a term for uploading that depends on all arms. The critic's
    latent is the mean and maximum over arms, [rows, 2 width].
    """

    def __init__(self, arms: int, features: int, width: int) -> None:
        super().__init__()
        self._features = features
        self.actor, self.critic = hidden_layers(features, width), hidden_layers(features, width)
        self.score, self.upload = nn.Linear(width, 1), nn.Linear(width, 1)
        self.latent_dim_pi, self.latent_dim_vf = 2 * arms, 2 * width

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        hidden = self.actor(features.reshape(len(features), -1, self._features))
        score = self.score(hidden)[..., 0]
        return torch.cat([score, score + self.upload(hidden.mean(1))], 1)

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        hidden = self.critic(features.reshape(len(features), -1, self._features))
        return torch.cat([hidden.mean(1), hidden.amax(1)], 1)


class ScoringPolicy(MaskableActorCriticPolicy):
    """The policy of MaskablePPO with the logits of an `ArmScorer` for `arms` arms, whose hidden layers have `width`
    units."""

    def __init__(self, *args: Any, arms: int, width: int, **more: Any) -> None:
        self._sizes = arms, width
        super().__init__(*args, **more)

    def _build_mlp_extractor(self) -> None:
        arms, width = self._sizes
        self.mlp_extractor: Any = ArmScorer(arms, self.features_dim // arms, width)

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net: Any = nn.Identity()
        for layer in (self.mlp_extractor.score, self.mlp_extractor.upload):
            nn.init.orthogonal_(layer.weight, 0.01)
