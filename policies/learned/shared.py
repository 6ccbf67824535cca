"""One network for all agents of a world, trained by PPO (Stable-Baselines3, or sb3-contrib's where actions are masked)."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from tacit.envs.core import Array, Population, integer, number
from tacit.policies.base import Learner, Progress

__all__ = ["SharedPPO"]


class SharedPPO(Learner):
    """Every agent acts by the same network, learned by playing the world it is to act in, under the privacy it is to act under.

    Rows of the rollouts are the agents of all replicas (`tacit.wrappers.sb3.RowsVecEnv`). Where one agent acts at a time, a row is the
    sequence of all agents' turns in a replica, so what is learned is the team's return.

    Args:
        steps: environment steps of training, counted over rows.
        num_envs: replicas played at once.
        gamma: discount of a step.
        learning_rate, n_steps, n_epochs, batch_size, ent_coef: PPO's; `batch_size` rows of a rollout at a time, at most.
        hidden: width of the two hidden layers.
        seed: of everything random in training.
        deterministic: act by the likeliest action; else draw from the learned distribution.
        overrides: parameters of the world that differ in training, `{"num_agents": 50}`.

    It trains when it is first reset, and is then kept. `history` holds the mean reward of a step in each rollout.

    Source:
        Schulman, Wolski, Dhariwal, Radford and Klimov (2017), Proximal policy optimization algorithms; parameter sharing as in Gupta,
        Egorov and Kochenderfer (2017), Cooperative multi-agent control using deep reinforcement learning.
    """

    def __init__(
        self,
        steps: int = 500_000,
        *,
        num_envs: int = 16,
        gamma: float = 0.95,
        learning_rate: float = 1e-3,
        n_steps: int = 32,
        n_epochs: int = 8,
        batch_size: int = 4096,
        ent_coef: float = 0.0,
        hidden: int = 64,
        seed: int = 0,
        deterministic: bool = False,
        overrides: dict[str, Any] | None = None,
    ) -> None:
        self.steps = integer("steps", steps, at_least=1)
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self.gamma = number("gamma", gamma, at_least=0, at_most=1)
        self.learning_rate = number("learning_rate", learning_rate, above=0)
        self.n_steps = integer("n_steps", n_steps, at_least=2)
        self.n_epochs = integer("n_epochs", n_epochs, at_least=1)
        self.batch_size = integer("batch_size", batch_size, at_least=2)
        self.ent_coef = number("ent_coef", ent_coef, at_least=0)
        self.hidden = integer("hidden", hidden, at_least=1)
        self.seed = integer("seed", seed, at_least=0)
        self.deterministic = bool(deterministic)
        self.overrides = dict(overrides or {})
        self._history: list[float] = []
        self._model: Any = None
        self._normal: Any = None

    @property
    def history(self) -> list[float]:
        return self._history

    def begin(self, env: Population[Any]) -> None:
        if self._model is None:
            self.train(env)
        if env.roles[self.role].layout.size != self._model.observation_space.shape[0]:
            raise ValueError(
                f"SharedPPO was trained on {self._model.observation_space}, and {env.name} shows otherwise"
            )

    def train(self, env: Population[Any]) -> "SharedPPO":
        """Learn in a world like `env`, with what stands on its channels."""
        try:
            from sb3_contrib import MaskablePPO
            from stable_baselines3 import PPO
            from stable_baselines3.common.vec_env import VecNormalize

            from tacit.wrappers.sb3 import RowsVecEnv
        except ImportError as error:
            raise ImportError("SharedPPO needs stable-baselines3: pip install 'tacit[rl]'") from error
        rows = RowsVecEnv(self._own_world(env), seed=self.seed)
        size = min(self.batch_size, self.n_steps * rows.num_envs)
        self._normal = VecNormalize(rows, gamma=self.gamma)
        rows.reset()
        learner = PPO if rows.population.action_mask(rows.role) is None else MaskablePPO
        self._model = learner(
            "MlpPolicy",
            self._normal,
            learning_rate=lambda left: self.learning_rate * left,
            n_steps=self.n_steps,
            n_epochs=self.n_epochs,
            batch_size=size,
            gamma=self.gamma,
            ent_coef=self.ent_coef,
            policy_kwargs={"net_arch": [self.hidden, self.hidden]},
            seed=self.seed,
            device="cpu",
        )
        self._history = []
        self._model.learn(self.steps, callback=_watcher(self._history, self.steps, self.progress))
        self._normal.training = False
        return self

    def _own_world(self, env: Population[Any]) -> Population[Any]:
        """A population of the same kind to learn in."""
        known = {field.name for field in fields(env.params)}
        for name in self.overrides:
            if name not in known:
                raise ValueError(f"overrides must name parameters of {env.name}, and {name!r} is none")
        world = type(env)(replace(env.params, **self.overrides), self.num_envs)
        world.setups = {
            name: channel.setup for name, channel in env.channels.items() if channel.setup.ledger is not None
        }
        return world

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        import torch

        flat = self._normal.normalize_obs(obs.reshape(-1, obs.shape[-1]))
        more = {} if mask is None else {"action_masks": mask.reshape(len(flat), -1)}
        policy = self._model.policy
        with torch.no_grad():
            law = policy.get_distribution(policy.obs_to_tensor(flat)[0], **more)
        actions = self._likeliest(law) if self.deterministic else self._drawn(law)
        space = self._model.action_space
        if hasattr(space, "low"):
            actions = np.clip(actions, space.low, space.high).astype(space.dtype)
        return actions.reshape(*obs.shape[:2], *space.shape)

    def _likeliest(self, law: Any) -> Array:
        actions: Array = law.mode().numpy()
        return actions

    def _drawn(self, law: Any) -> Array:
        """Actions drawn with this run's own generator, so that the same seed gives the same run."""
        part: Any = law.distributions if hasattr(law, "distributions") else law.distribution
        if hasattr(part, "loc"):
            return np.asarray(part.loc.numpy() + part.scale.numpy() * self.rng.standard_normal(part.loc.shape))
        if not isinstance(part, list | tuple):
            return self._choice(part)
        return np.stack([self._choice(one) for one in part], axis=-1)

    def _choice(self, categorical: Any) -> Array:
        """The largest of the logits with Gumbel noise is a draw from the categorical law, int64[rows]."""
        return np.argmax(categorical.logits.numpy() + self.rng.gumbel(size=categorical.logits.shape), axis=-1)


def _watcher(history: list[float], steps: int, progress: Progress | None) -> Any:
    """Notes the mean reward of every rollout, and tells `progress` the fraction done."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watcher(BaseCallback):
        total = 0.0
        count = 0

        def _on_step(self) -> bool:
            normal: Any = self.training_env
            reward = normal.get_original_reward()
            self.total, self.count = self.total + float(reward.sum()), self.count + reward.size
            return True

        def _on_rollout_end(self) -> None:
            history.append(self.total / self.count)
            self.total, self.count = 0.0, 0
            if progress is not None:
                progress(min(1.0, self.num_timesteps / steps))

    return Watcher()
