"""Stopping rules learned by playing: PPO and DQN (Stable-Baselines3), and tabular Q-learning."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.envs.round_stopping.model import parameters
from taciturn.envs.round_stopping.world import STOP, WAIT, Params, RoundStopping, settle
from taciturn.policies.base import Learner
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.policies.learned.training import (
    ModelLearner,
    fit,
    library_seed,
    needs_stable_baselines,
    one_thread,
    update_table,
)
from taciturn.policies.learned.tuning import tuned
from taciturn.validation import Bools, Floats, Ints, mapping


def training_params(params: Params, broadcasts: float) -> Params:
    """The stopping problem of a world, in training sessions that last `broadcasts` broadcast times."""
    clocks = {name: getattr(params, name) for name in ("time_distribution", "transmission", "computing")}
    return Params(**parameters(params), **clocks, objective="rate", horizon=broadcasts * params.broadcast_time)


def settle_per_slot(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    over = settle(state, arrays, params, rng, reward)
    reward[0] = state.gain - params.price * (state.clock - state.before)
    return over


class PaidPerSlot(RoundStopping):
    """The Lagrangian objective with time charged slot by slot instead of at the end: the same return, with less
    delay."""

    functions = RoundStopping.functions._replace(receive=settle_per_slot)


class LearnedStopping(ModelLearner):
    """A rule learned by PPO or DQN from play alone, without the model.

    It maximises the long-run rate as Jiang 2020 does. The reward of a round is R(k) - lambda (n tau + t0); after each
    stage of training lambda becomes the best rate attained so far (Dinkelbach's iteration, of which Algorithm 2 is the
    bisection form), and the rule of the best stage is kept. The rate of a stage is measured in separate sessions.

    Args:
        algorithm: "PPO" or "DQN".
        stages: number of values of lambda tried.
        steps: environment steps in each stage.
        seed: of all randomness in training.
        rows: replicas played at once.
        arguments: of the algorithm in Stable-Baselines3.

    Steps, rows and arguments default to those in `policies/learned/settings/round_stopping.yml`.

    It is trained once, at its first reset, on the stopping problem of its world. `history`
    holds the rate after each stage.
    """

    def __init__(
        self,
        algorithm: str = "PPO",
        *,
        stages: int = 6,
        steps: int | None = None,
        seed: int = 0,
        rows: int | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.algorithm = choice("algorithm", algorithm, ("PPO", "DQN"))
        self.stages = integer("stages", stages, at_least=1)
        self.steps = steps if steps is None else integer("steps", steps, at_least=1)
        self.rows = rows if rows is None else integer("rows", rows, at_least=1)
        self.arguments = dict(mapping("arguments", arguments))
        self.seed = integer("seed", seed, at_least=0)
        self.history: list[float] = []

    def begin(self, view: PublicView) -> None:
        self.require(issubclass(view.world, RoundStopping), "the round-stopping worlds", view)
        if self._model is None:
            self.fit(view)

    def fit(self, view: PublicView) -> None:
        """Learn with the world's parameters, under geometric or Pareto times."""
        with needs_stable_baselines(self):
            import stable_baselines3
            from stable_baselines3.common.vec_env import VecNormalize

            from taciturn.wrappers.sb3 import RowsVecEnv
        base = training_params(view.params, 60)
        settings = tuned("round_stopping", f"LearnedStopping-{self.algorithm}")
        steps, num_rows = self.steps or settings["steps"], self.rows or settings["rows"]
        arguments = settings["arguments"] | self.arguments
        learning_rate = arguments.pop("learning_rate")
        # An upper bound on the rate: with it the first rules stop early, so their rounds are short to play.
        price = float(base.rewards.max()) / base.broadcast_time
        least = 0.5 * price
        best, kept = -np.inf, None
        trial = RoundStopping(base, 40)
        trial.purpose = "selection"
        self.history = []
        for stage in range(self.stages):
            priced = replace(base, objective="lagrangian", lambda_=price)
            world = PaidPerSlot(priced, num_rows)
            # Rows take their first seed from the learner; without a new one, a later stage would begin with the same
            # sessions.
            world.purpose = f"training, stage {stage}"
            rows = RowsVecEnv(world, seed=self.seed)
            if stage == 0:
                self._normal = VecNormalize(rows, gamma=1.0, clip_reward=100.0)
                learner = getattr(stable_baselines3, self.algorithm)
                if "n_epochs" in arguments:
                    arguments.setdefault("batch_size", max(2, arguments["n_steps"] * num_rows // 4))
                self._model = learner(
                    "MlpPolicy", self._normal, seed=library_seed(self.seed), device="cpu", **arguments
                )
                _bias_towards_waiting(self._model)
            else:
                self._normal.venv = rows
                self._model.set_env(self._normal)
            self._normal.training = True
            self._model.learning_rate = learning_rate * (1.0 if stage < self.stages / 2 else 0.25)
            self._model._setup_lr_schedule()
            fit(self._model, steps, reset_num_timesteps=False)
            self._normal.training = False
            trial.reset(seed=self.seed if stage == 0 else None)
            trial.advance(self)
            rate = float(trial.metrics()["rate"].mean())
            self.history.append(rate)
            if self.progress is not None:
                self.progress((stage + 1) / self.stages)
            if rate > best:
                best, kept = rate, (deepcopy(self._model.policy.state_dict()), deepcopy(self._normal.obs_rms))
            price = max(best, least)
        assert kept is not None
        self._model.policy.load_state_dict(kept[0])
        self._normal.obs_rms = kept[1]

    @one_thread()
    def act(self, obs: Array, mask: Array | None = None) -> Array:
        flat = self._normal.normalize_obs(obs.reshape(-1, obs.shape[-1])[:, :NUM_FIELDS])
        actions, _ = self._model.predict(flat, deterministic=True)
        return actions.reshape(obs.shape[:2])


# Fields of the round-stopping world's observation; worlds that extend it append theirs.
NUM_FIELDS = 5


def _bias_towards_waiting(model: Any) -> None:
    """Make the untrained rule wait: one that stops every other slot never sees an update arrive."""
    import torch

    last = model.policy.action_net if hasattr(model.policy, "action_net") else model.policy.q_net.q_net[-1]
    with torch.no_grad():
        last.bias.copy_(torch.tensor([-1.0, 1.0]))
    if hasattr(model, "q_net_target"):
        model.q_net_target.load_state_dict(model.q_net.state_dict())


class TabularQ(StoppingRule, Learner):
    """Average-reward Q-learning over (k, beta) (semi-Markov: Das et al. 1999, SMART).

    Q(s, a) moves towards r - rho dt + max Q(s'), where dt is the duration of the action and rho the recent rate of
    greedy rounds. It thus maximises the long-run rate without a given price of time. Values are relative to that of the
    start of a round.

    Args:
        sessions: number of training sessions of 200 broadcast times, each with 256 replicas.
        epsilon: probability of a random action in them.
        seed: of all randomness in training.

    It is trained once, at its first reset, on the stopping problem of its world.
    """

    def __init__(self, sessions: int = 30, *, epsilon: float = 0.02, seed: int = 0) -> None:
        self.sessions = integer("sessions", sessions, at_least=1)
        self.epsilon = number("epsilon", epsilon, at_least=0, at_most=1)
        self.seed = integer("seed", seed, at_least=0)
        self._values: Floats | None = None
        self._learning = False
        self._pending: tuple[Array, ...] | None = None

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._pending = None
        if self._values is None:
            self.fit(view)
            super().begin(view)

    def fit(self, view: PublicView) -> None:
        """Learn with the world's parameters."""
        model = training_params(view.params, 200)
        size = model.num_clients + 1
        self._broadcast, self._slot = model.broadcast_time, model.slot_time
        # Optimistic initial values of waiting, so that it is tried.
        self._values = np.zeros((size, size, 2))
        self._values[:, :, WAIT] = 0.2 * abs(model.rewards[-1])
        self._visits = np.zeros((size, size, 2))
        self._earned, self._spent = float(model.rewards[0]), float(model.broadcast_time)
        env, self._learning = RoundStopping(model, 256), True
        env.purpose = "training"
        for session in range(self.sessions):
            env.reset(seed=self.seed if session == 0 else None)
            self.reset(env, env.stream("policy"))
            env.advance(self)
            if self.progress is not None:
                self.progress((session + 1) / self.sessions)
        self._learning = False

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        if self._learning and self._pending is not None:
            self._learn(self._pending, *self.seen(obs)[:2])
            self._pending = None
        actions = super().act(obs)
        if not self._learning:
            return actions
        explore = self.rng.random(actions.shape) < self.epsilon
        return np.where(explore, self.rng.integers(0, 2, actions.shape), actions)

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        assert self._values is not None, "TabularQ has not been trained: call reset() or train() first"
        q = self._values[received, queued]
        return q[..., WAIT] > q[..., STOP]

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        if self._learning:
            live = np.broadcast_to(~done[:, None], action.shape)
            self._pending = (*self.seen(obs)[:2], action, reward, live)

    def _learn(self, step: tuple[Array, ...], k_next: Ints, beta_next: Ints) -> None:
        k, beta, action, reward, live = step
        values, visits = self._values, self._visits
        assert values is not None
        closed = reward != 0
        time = np.where(action == WAIT, self._slot, 0.0) + np.where(closed, self._broadcast, 0.0)
        greedy = live & (action == np.where(self.waits(k, beta, k), WAIT, STOP))
        # Forget old rewards, which a worse rule earned.
        self._earned = 0.9995 * self._earned + float(reward[greedy].sum())
        self._spent = 0.9995 * self._spent + float(time[greedy].sum())
        rate = self._earned / self._spent
        target = reward - rate * time + values[k_next, beta_next].max(-1)
        update_table(values, visits, (k[live], beta[live], action[live]), target[live])
        # Untried actions keep their optimistic values.
        values[visits > 0] -= values[0, 0].max()
