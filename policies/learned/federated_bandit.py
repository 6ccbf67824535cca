"""PPO learners for the coordinator of `arm_elimination_v0` and for the agents of `federated_bandit_v0`."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Layout, PublicView, integer
from taciturn.envs.federated_bandit.arm_elimination import ArmElimination
from taciturn.envs.federated_bandit.world import FederatedBandit
from taciturn.policies.learned.shared import PPOLearner
from taciturn.policies.learned.training import needs_stable_baselines, one_thread
from taciturn.policies.learned.tuning import tuned
from taciturn.validation import mapping


class BanditPPO(PPOLearner):
    """Base of both learners, whose reward is the mean over the agents of a replica.

    A learner trains at its first reset, in a practice world with the same setting and the same mechanisms on its
    channels, and is then fixed.
    """

    entry: ClassVar[tuple[str, str]]
    """The world and the entry of its file in `policies/learned/settings`."""

    def __init__(
        self, steps: int = 200_000, *, num_envs: int = 64, arguments: Mapping[str, Any] | None = None, seed: int = 0
    ) -> None:
        self.steps = integer("steps", steps, at_least=1)
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self.arguments = dict(mapping("arguments", arguments))
        super().__init__(seed)

    def begin(self, view: PublicView) -> None:
        self.check(view)
        if self._model is None:
            self.fit(view)
        self.look(view)

    def fit(self, view: PublicView) -> None:
        self.check(view)
        with needs_stable_baselines(self):
            from stable_baselines3.common.vec_env import VecNormalize

            from taciturn.policies.learned.stable_baselines import TeamRows
        self.look(view)
        world = view.practice(self.num_envs)
        rows = TeamRows(world, self.seed, self.features, self.open_actions)
        settings = tuned(*self.entry)["arguments"] | self.arguments
        normal = VecNormalize(rows, norm_obs=False, gamma=settings["gamma"])
        self.learn(self.learner(view.params.arms), normal, self.steps, **settings)

    def look(self, view: PublicView) -> None:
        """Remember the observation layout, horizon and number of arms of `view`."""
        role = view.roles[self.role]
        self._layout: Layout = role.layout
        self._horizon, self._arms = view.params.horizon, view.params.arms

    def fields(self, obs: Array) -> dict[str, Array]:
        """The fields of observations [rows, D], each [rows, size]."""
        return {name: obs[:, part] for name, part in self._layout.slices.items()}

    def check(self, view: PublicView) -> None:
        """Raise ValueError if the policy cannot act in `view`."""
        raise NotImplementedError

    def learner(self, arms: int) -> Any:
        """A constructor of PPO, to be called with an environment and settings."""
        raise NotImplementedError

    def features(self, obs: Array) -> Array:
        """Inputs of the network for observations [rows, D], float32[rows, ...]."""
        raise NotImplementedError

    def open_actions(self, obs: Array, mask: Array) -> Array:
        """The actions that the learner may choose, bool[rows, n], among those that `mask` bool[rows, n] allows."""
        return mask


class LearnedElimination(BanditPPO):
    """A coordinator's schedule, learned by PPO: pulls per epoch, elimination threshold and participation.

    The network sees the arms in the order of their means, so that its actions do not depend on how arms are numbered.
    Once trained, it acts in worlds with the same number of arms.

    Args:
        steps: training steps (epochs of the world), counted over replicas.
        num_envs: number of parallel replicas.
        arguments: of PPO; they replace those in `policies/learned/settings/arm_elimination.yml`.
        seed: of all randomness in training.
    """

    entry = "arm_elimination", "LearnedElimination"

    def check(self, view: PublicView) -> None:
        self.require(issubclass(view.world, ArmElimination), "arm_elimination", view)
        if self._model is not None and view.params.arms != self._arms:
            raise ValueError(f"LearnedElimination was trained on {self._arms} arms, not on {view.params.arms}")

    def learner(self, arms: int) -> Any:
        from stable_baselines3 import PPO

        return partial(PPO, "MlpPolicy")

    def features(self, obs: Array) -> Array:
        """Square roots of the sorted gaps to the best average (1 for eliminated arms), that average, pulls, and
        progress of the run."""
        fields = self.fields(obs)
        active = fields["active"] > 0
        best = np.where(active, fields["means"], -np.inf).max(1, initial=-np.inf, keepdims=True)
        best = np.where(active.any(1, keepdims=True), best, 0.0)
        gaps = np.sort(np.where(active, np.clip(best - fields["means"], 0.0, 1.0), 1.0), 1)[:, 1:]
        pulls = np.where(active, fields["counts"], 0.0).max(1, keepdims=True)
        left = active.mean(1, keepdims=True)
        common = [best, pulls, left, fields["rounds"] == 0, fields["time_left"]]
        return np.concatenate([np.sqrt(gaps), *common], 1).astype(np.float32)

    @one_thread()
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        actions: Array = self._model.predict(self.features(obs[:, 0]), deterministic=True)[0]
        return actions[:, None]


class LearnedPulls(BanditPPO):
    """Pulls and uploads, slot by slot, learned by PPO with one network for all agents and all arms.

    Every arm gets a score from the agent's own mean and pulls and from the last broadcast; the softmax of the scores is
    the probability of pulling it. Agents may upload only in every `every`-th slot, the same for all: uploads at
    different times are worth little, and early in training agents would upload at different times. Once trained, it
    acts in worlds with any number of arms and agents.

    Args:
        steps: training steps (slots), counted over agents and replicas.
        num_envs: number of parallel replicas.
        every: slots between two decisions on uploads.
        arguments: of MaskablePPO; they replace those in `policies/learned/settings/federated_bandit.yml`.
        seed: of all randomness in training.
    """

    entry = "federated_bandit", "LearnedPulls"

    def __init__(
        self,
        steps: int = 2_000_000,
        *,
        num_envs: int = 64,
        every: int = 25,
        arguments: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(steps, num_envs=num_envs, arguments=arguments, seed=seed)
        self.every = integer("every", every, at_least=1)

    def check(self, view: PublicView) -> None:
        fits = issubclass(view.world, FederatedBandit) and not issubclass(view.world, ArmElimination)
        self.require(fits, "federated_bandit", view)

    def learner(self, arms: int) -> Any:
        from sb3_contrib import MaskablePPO

        from taciturn.policies.learned.stable_baselines import ScoringPolicy

        return partial(MaskablePPO, ScoringPolicy, policy_kwargs={"arms": arms, "width": 16})

    def features(self, obs: Array) -> Array:
        """For each arm: its own and broadcast means, their distances from the best, pulls, whether it is active; and
        the time."""
        fields = self.fields(obs)
        counts = fields["counts"]
        informed = np.broadcast_to(fields["rounds"] > 0, counts.shape)
        own = (counts * fields["means"] + 0.5) / (counts + 1)
        shared = np.where(informed, fields["broadcast"], 0.5)
        arm = [
            own,
            own - own.max(1, keepdims=True),
            shared,
            shared - shared.max(1, keepdims=True),
            1 / np.sqrt(counts + 1),
            np.log1p(counts) / 5,
            informed * fields["active"],
        ]
        logs = [np.log1p(fields[name]) / scale for name, scale in (("time", 6), ("time_left", 6), ("rounds", 2))]
        common = [np.broadcast_to(x, counts.shape) for x in (fields["time"] / self._horizon, *logs)]
        return np.stack([*arm, *common], 2).reshape(len(obs), -1).astype(np.float32)

    def open_actions(self, obs: Array, mask: Array) -> Array:
        chosen = mask.copy()
        chosen[:, self._arms :] &= (self.fields(obs)["time"] + 1) % self.every == 0
        return chosen

    @one_thread()
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        import torch

        flat = obs.reshape(-1, obs.shape[-1])
        whole = np.ones((len(flat), 2 * self._arms)) if mask is None else mask.reshape(len(flat), -1)
        with torch.no_grad():
            logits = self._model.policy.mlp_extractor.forward_actor(torch.as_tensor(self.features(flat))).numpy()
        # Gumbel-max: the argmax of logits plus Gumbel noise is a sample from their softmax.
        drawn = logits + self.rng.gumbel(size=logits.shape)
        actions = np.where(self.open_actions(flat, whole.astype(np.bool_)), drawn, -np.inf).argmax(1)
        return actions.reshape(obs.shape[:2])
