"""One network for all agents of a world, trained by PPO (Stable-Baselines3, or sb3-contrib's where actions are masked)."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population, PublicView, integer, number
from taciturn.policies.base import Learner, Progress
from taciturn.policies.learned.training import Ranking, names_agents, one_thread, practice

__all__ = ["DEFAULTS", "SETTINGS", "SharedPPO", "watcher"]

DEFAULTS: dict[str, Any] = {
    "steps": 500_000,
    "num_envs": 16,
    "gamma": 0.95,
    "learning_rate": 1e-3,
    "n_steps": 32,
    "n_epochs": 8,
    "batch_size": 4096,
    "ent_coef": 0.0,
    "hidden": 64,
    "options": (),
    "overrides": {},
}

# What was found to learn in half a minute to a minute on one core. A decision is judged by what it leaves the agent with (gamma 0).
SETTINGS: dict[str, dict[str, Any]] = {
    "gossip_bandit": {
        "steps": 400_000,
        "num_envs": 128,
        "gamma": 0.0,
        "n_steps": 64,
        "options": ("counts", "own"),
        "overrides": {"num_agents": 100, "horizon": 8.0, "reward": "preference"},
    },
    "social_bandit": {
        "steps": 600_000,
        "num_envs": 50,
        "gamma": 0.0,
        "learning_rate": 3e-3,
        "n_steps": 5,
        "n_epochs": 4,
        "batch_size": 5000,
        "ent_coef": 0.005,
        "options": ("counts", "own"),
        "overrides": {"num_agents": 100, "horizon": 50},
    },
}


class SharedPPO(Learner):
    """Every agent acts by the same network, learned by playing the world it is to act in, under the privacy it is to act under.

    Rows of the rollouts are the agents of all replicas (`taciturn.wrappers.sb3.RowsVecEnv`). Where one agent acts at a time, a row is the
    sequence of all agents' turns in a replica, so what is learned is the team's return.

    Args:
        steps: environment steps of training, counted over rows.
        num_envs: replicas played at once.
        gamma: discount of a step.
        learning_rate, n_steps, n_epochs, batch_size, ent_coef: PPO's; `batch_size` rows of a rollout at a time, at most.
        hidden: width of the two hidden layers.
        options: fields of the observation that list the options which an action chooses from: the network sees them by rank in the first
            of these fields, so that it cannot learn which number the best one has (`Ranking`). None of them: as the
            world numbers them.
        overrides: parameters of the world that differ in training, `{"num_agents": 50}`.
        seed: of everything random in training.
        deterministic: act by the likeliest action; else draw from the learned distribution.

    What is left out is as `SETTINGS` has it for the world, or else `DEFAULTS`. It trains when it is first reset, and is then kept.
    `history` holds the mean reward of a step in each rollout. In `social_bandit_v0` it is paid in training as `ToldAtOnce` says.

    Source:
        Schulman, Wolski, Dhariwal, Radford and Klimov (2017), Proximal policy optimization algorithms; parameter sharing as in Gupta,
        Egorov and Kochenderfer (2017), Cooperative multi-agent control using deep reinforcement learning.
    """

    def __init__(
        self,
        steps: int | None = None,
        *,
        num_envs: int | None = None,
        gamma: float | None = None,
        learning_rate: float | None = None,
        n_steps: int | None = None,
        n_epochs: int | None = None,
        batch_size: int | None = None,
        ent_coef: float | None = None,
        hidden: int | None = None,
        options: Sequence[str] | None = None,
        overrides: dict[str, Any] | None = None,
        seed: int = 0,
        deterministic: bool = False,
    ) -> None:
        whole = {"steps": steps, "num_envs": num_envs, "n_epochs": n_epochs, "hidden": hidden}
        given: dict[str, Any] = {name: integer(name, x, at_least=1) for name, x in whole.items() if x is not None}
        several = {"n_steps": n_steps, "batch_size": batch_size}
        given |= {name: integer(name, x, at_least=2) for name, x in several.items() if x is not None}
        if gamma is not None:
            given["gamma"] = number("gamma", gamma, at_least=0, at_most=1)
        if learning_rate is not None:
            given["learning_rate"] = number("learning_rate", learning_rate, above=0)
        if ent_coef is not None:
            given["ent_coef"] = number("ent_coef", ent_coef, at_least=0)
        if options is not None:
            given["options"] = tuple(options)
        if overrides is not None:
            given["overrides"] = dict(overrides)
        self.given = given
        self.seed = integer("seed", seed, at_least=0)
        self.deterministic = bool(deterministic)
        self._history: list[float] = []
        self._model: Any = None
        self._normal: Any = None
        self._ranking: Ranking | None = None

    def settings(self, view: PublicView) -> dict[str, Any]:
        """With what it trains in a world like `view`."""
        return DEFAULTS | SETTINGS.get(view.name, {}) | self.given

    @property
    def history(self) -> list[float]:
        return self._history

    def begin(self, view: PublicView) -> None:
        if self._model is None:
            self.fit(view)
        if view.roles[self.role].layout.size != self._model.observation_space.shape[0]:
            raise ValueError(
                f"SharedPPO was trained on {self._model.observation_space}, and {view.name} shows otherwise"
            )
        if options := self.settings(view)["options"]:
            self._ranking = Ranking(view.roles[self.role].layout, options)

    def fit(self, view: PublicView) -> "SharedPPO":
        """Learn in a world like `view`, with what stands on its channels."""
        try:
            from sb3_contrib import MaskablePPO
            from stable_baselines3 import PPO
            from stable_baselines3.common.vec_env import VecNormalize

            from taciturn.policies.learned.ranked_rows import RankedRows
            from taciturn.wrappers.sb3 import RowsVecEnv
        except ImportError as error:
            raise ImportError(
                "SharedPPO needs stable-baselines3: run pip install '.[rl]' in a clone of taciturn"
            ) from error
        chosen = self.settings(view)
        world, options, steps = self._own_world(view), chosen["options"], chosen["steps"]
        rows = RankedRows(world, self.seed, options) if options else RowsVecEnv(world, self.seed)
        self._normal = VecNormalize(rows, gamma=chosen["gamma"])
        rows.reset()
        learner = PPO if world.action_mask(rows.role) is None else MaskablePPO
        self._model = learner(
            "MlpPolicy",
            self._normal,
            # Past the last whole rollout, Stable-Baselines3 has less than nothing left.
            learning_rate=lambda left: chosen["learning_rate"] * max(left, 0.0),
            **{name: chosen[name] for name in ("n_steps", "n_epochs", "gamma", "ent_coef")},
            batch_size=min(chosen["batch_size"], chosen["n_steps"] * rows.num_envs),
            policy_kwargs={"net_arch": [chosen["hidden"]] * 2},
            seed=self.seed,
            device="cpu",
        )
        self._history = []
        with one_thread():
            self._model.learn(steps, callback=watcher(self._history, steps, self.progress))
        self._normal.training = False
        return self

    def _own_world(self, view: PublicView) -> Population[Any]:
        """A population of the same kind to learn in."""
        chosen = self.settings(view)
        overrides = dict(chosen["overrides"])
        known = {field.name for field in fields(view.params)}
        for name in overrides:
            if name not in known:
                raise ValueError(f"overrides must name parameters of {view.name}, and {name!r} is none")
        if "overrides" not in self.given and names_agents(view.params):
            overrides.pop("num_agents", None)
        return practice(view, chosen["num_envs"], overrides)

    @one_thread()
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        import torch

        flat = obs.reshape(-1, obs.shape[-1])
        if self._ranking is not None:
            flat = self._ranking.observation(flat, self.rng)
        flat = self._normal.normalize_obs(flat)
        more = {} if mask is None else {"action_masks": mask.reshape(len(flat), -1)}
        policy = self._model.policy
        with torch.no_grad():
            law = policy.get_distribution(policy.obs_to_tensor(flat)[0], **more)
        actions = self._likeliest(law) if self.deterministic else self._drawn(law)
        space = self._model.action_space
        if hasattr(space, "low"):
            actions = np.clip(actions, space.low, space.high).astype(space.dtype)
        if self._ranking is not None:
            actions = self._ranking.action(actions)
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


def watcher(history: list[float], steps: int, progress: Progress | None) -> Any:
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
