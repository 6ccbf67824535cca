"""PPO with one network shared by all agents of a world (Stable-Baselines3, or sb3-contrib if actions are masked)."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population, PublicView, integer, number
from taciturn.policies.learned.training import (
    ModelLearner,
    Ranking,
    fit,
    has_individual_params,
    library_seed,
    needs_stable_baselines,
    one_thread,
    practice,
)
from taciturn.policies.learned.tuning import tuned

DEFAULTS: dict[str, Any] = {
    "steps": 500_000, "num_envs": 16, "gamma": 0.95, "learning_rate": 1e-3, "n_steps": 32, "n_epochs": 8,
    "batch_size": 4096, "ent_coef": 0.0, "hidden": 64, "options": (), "overrides": {},
}  # fmt: skip


class PPOLearner(ModelLearner):
    """Base of the learners that are trained by PPO. `history` is the mean reward per step in each rollout."""

    memoryless = True

    def __init__(self, seed: int) -> None:
        self.seed = integer("seed", seed, at_least=0)
        self._history: list[float] = []

    @property
    def history(self) -> list[float]:
        return self._history

    def learn(self, ppo: Any, env: Any, steps: int, *, learning_rate: float, batch_size: int, **settings: Any) -> None:
        """Train a new model of the class `ppo`; the learning rate falls linearly to 0, and `batch_size` is an upper
        limit."""
        from taciturn.policies.learned.stable_baselines import TrainingMonitor

        self._model = ppo(
            env=env,
            # In the last rollout, which may exceed the number of steps, Stable-Baselines3 passes a negative fraction.
            learning_rate=lambda left: learning_rate * max(left, 0.0),
            batch_size=min(batch_size, settings["n_steps"] * env.num_envs),
            seed=library_seed(self.seed),
            device="cpu",
            **settings,
        )
        self._history = []
        fit(self._model, steps, callback=TrainingMonitor(self._history, steps, self.progress))


class SharedPPO(PPOLearner):
    """One network for all agents, trained in practice worlds with the parameters and privacy of the world it will act
    in.

    The rows of a rollout are the agents of all replicas (`taciturn.wrappers.sb3.RowsVecEnv`). If one agent acts at a
    time, a row is the sequence of all agents' turns in a replica, so training maximises the return of the team.

    Args:
        steps: environment steps of training, counted over rows.
        num_envs: number of replicas in training.
        gamma: discount factor of a step.
        learning_rate, n_steps, n_epochs, batch_size, ent_coef: see PPO of Stable-Baselines3; `batch_size` is an upper
            limit.
        hidden: width of the two hidden layers.
        options: fields of the observation with one number per option. The network sees the options sorted by the first
            of these fields, so that it cannot learn the index of the best option by heart (`Ranking`). Empty: options
            are not sorted.
        overrides: parameters of the world that differ in training, such as `{"num_agents": 50}`.
        seed: seed of all randomness in training.
        deterministic: take the most likely action; otherwise draw from the learned distribution.

    Arguments left out take their values from the world's file in `policies/learned/settings`, or else from `DEFAULTS`.
    The network is trained once, at the first reset. `history` holds the mean reward per step of
    each rollout. In `social_bandit_v0` the reward in training is that of `ImmediateReward`.

    Source:
        Schulman, Wolski, Dhariwal, Radford and Klimov (2017), Proximal policy optimization algorithms; parameter
        sharing as in Gupta, Egorov and Kochenderfer (2017), Cooperative multi-agent control using deep reinforcement
        learning.
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
        super().__init__(seed)
        self.deterministic = bool(deterministic)
        self._normal: Any = None
        self._ranking: Ranking | None = None

    def settings(self, view: PublicView) -> dict[str, Any]:
        """The settings of training in a world like `view`."""
        return DEFAULTS | tuned(view.name, "SharedPPO") | self.given

    def begin(self, view: PublicView) -> None:
        if self._model is None:
            self.fit(view)
        if view.roles[self.role].layout.size != self._model.observation_space.shape[0]:
            raise ValueError(
                f"SharedPPO was trained on {self._model.observation_space}, and {view.name} has other observations"
            )
        if options := self.settings(view)["options"]:
            role = view.roles[self.role]
            self._ranking = Ranking(role.layout, options, role.action_space)

    def fit(self, view: PublicView) -> None:
        """Train in a practice world like `view`, with the same mechanisms on its channels."""
        with needs_stable_baselines(self):
            from sb3_contrib import MaskablePPO
            from stable_baselines3 import PPO
            from stable_baselines3.common.vec_env import VecNormalize

            from taciturn.policies.learned.stable_baselines import RankedRows
            from taciturn.wrappers.sb3 import RowsVecEnv
        chosen = self.settings(view)
        world, options = self._own_world(view), chosen["options"]
        rows = RankedRows(world, self.seed, options) if options else RowsVecEnv(world, self.seed)
        self._normal = VecNormalize(rows, gamma=chosen["gamma"])
        rows.reset()
        learner = PPO if world.action_mask(rows.role) is None else MaskablePPO
        names = ("learning_rate", "batch_size", "n_steps", "n_epochs", "gamma", "ent_coef")
        settings = {name: chosen[name] for name in names} | {"policy_kwargs": {"net_arch": [chosen["hidden"]] * 2}}
        self.learn(partial(learner, "MlpPolicy"), self._normal, chosen["steps"], **settings)
        self._normal.training = False

    def _own_world(self, view: PublicView) -> Population[Any]:
        """The practice world."""
        chosen, params = self.settings(view), view.params
        overrides = dict(chosen["overrides"])
        known = {field.name for field in fields(params)}
        for name in overrides:
            if name not in known:
                raise ValueError(f"overrides must name parameters of {view.name}; {name!r} is not one")
        if "overrides" not in self.given and has_individual_params(params):
            overrides.pop("num_agents", None)
        return practice(view, chosen["num_envs"], overrides)

    @one_thread()
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        import torch

        flat = obs.reshape(-1, obs.shape[-1])
        if self._ranking is not None:
            flat = self._ranking.observation(flat, self.rng)
        flat = self._normal.normalize_obs(flat)
        masks = None if mask is None else mask.reshape(len(flat), -1)
        if self._ranking is not None and masks is not None:
            masks = self._ranking.mask(masks)
        more = {} if masks is None else {"action_masks": masks}
        policy = self._model.policy
        with torch.no_grad():
            distribution = policy.get_distribution(policy.obs_to_tensor(flat)[0], **more)
        actions = distribution.mode().numpy() if self.deterministic else self._drawn(distribution)
        space = self._model.action_space
        if hasattr(space, "low"):
            actions = np.clip(actions, space.low, space.high).astype(space.dtype)
        if self._ranking is not None:
            actions = self._ranking.action(actions)
        return actions.reshape(*obs.shape[:2], *space.shape)

    def _drawn(self, distribution: Any) -> Array:
        """Draw actions with the generator of the run, so that the same seed gives the same run."""
        part: Any = distribution.distributions if hasattr(distribution, "distributions") else distribution.distribution
        if hasattr(part, "loc"):
            return np.asarray(part.loc.numpy() + part.scale.numpy() * self.rng.standard_normal(part.loc.shape))
        if not isinstance(part, list | tuple):
            return self._choice(part)
        return np.stack([self._choice(one) for one in part], axis=-1)

    def _choice(self, categorical: Any) -> Array:
        """Draw from a categorical distribution, int64[rows], by adding Gumbel noise to the logits and taking the
        largest."""
        return np.argmax(categorical.logits.numpy() + self.rng.gumbel(size=categorical.logits.shape), axis=-1)
