"""Tabular Q-learning for the worlds of social learning, on the popularity of the own option and of the most popular
one."""

from dataclasses import fields
from typing import Any

import numpy as np

from taciturn.channels.replies import unbiased
from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.policies.base import Learner
from taciturn.policies.families.social import SocialPolicy, sample
from taciturn.policies.learned.training import has_individual_params, practice, update_table


class SocialQ(SocialPolicy, Learner):
    """Q-learning on binned popularity, with one table for all agents.

    The state consists of two binned numbers: the unbiased shares of the agent's own option (with an extra bin for no
    option) and of the most popular option. The five actions are plans: pull nothing; pull an option drawn in proportion
    to its share, the most popular option, or a uniformly random one, and adopt it on signal 1; or adopt the most
    popular option whatever its signal. The table therefore applies to any number of options.

    Args:
        steps: environment steps of training, counted over rows.
        bins: number of bins of a share.
        gamma: discount factor of a row's next step, in [0, 1); at 0 a decision is valued by the preference right after
            it.
        epsilon: probability of a uniformly random action, in training and in play; without exploration, populations
            stay with the option that leads first.
        num_envs: number of replicas in training.
        seed: seed of all randomness in training.

    It is trained once, at its first reset, under the parameters and privacy of its world (with at most 100 agents). The
    reward in training depends on the preference after each step: `reward="preference"` in `gossip_bandit_v0`,
    `ImmediateReward` in `social_bandit_v0`.

    Source:
        Watkins 1989, Learning from delayed rewards.
    """

    def __init__(
        self,
        steps: int = 1_000_000,
        *,
        bins: int = 8,
        gamma: float = 0.0,
        epsilon: float = 0.1,
        num_envs: int = 128,
        seed: int = 0,
    ) -> None:
        self.steps = integer("steps", steps, at_least=1)
        self.bins = integer("bins", bins, at_least=1)
        self.gamma = number("gamma", gamma, at_least=0, below=1)
        self.epsilon = number("epsilon", epsilon, at_least=0, at_most=1)
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        self.seed = integer("seed", seed, at_least=0)
        self._values: Array | None = None
        self._learning = False
        self._last: tuple[Array, ...] | None = None

    def prepare(self, view: PublicView) -> None:
        self._last = None
        if self._values is None:
            rng = self.rng
            self.fit(view)
            self.rng = rng  # the run's mechanism, not that of training
            self.begin(view)

    def fit(self, view: PublicView) -> None:
        """Train in a practice world like `view`, with the same mechanisms on its channels."""
        params: Any = view.params
        known = {field.name for field in fields(params)}
        overrides: dict[str, Any] = {"reward": "preference"} if "reward" in known else {"horizon": 50}
        if not has_individual_params(params):
            overrides["num_agents"] = min(params.num_agents, 100)
        world = practice(view, self.num_envs, overrides)
        shape = (self.bins + 1, self.bins, 5)
        self._values, self._visits = np.ones(shape), np.zeros(shape)
        self._learning, done, role = True, 0, next(iter(view.roles))
        world.reset(seed=self.seed)
        self.reset(world, world.stream("policy"), role)
        while done < self.steps:
            if world.done.any():
                world.reset(where=world.done)
            world.advance(self, steps=1)
            done += self.num_envs * world.rows(role)
            if self.progress is not None:
                self.progress(min(done / self.steps, 1.0))
        self._learning = False

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        assert self._values is not None, "SocialQ acts after reset()"
        read_messages = self.read_messages(obs)
        shares = np.clip(unbiased(read_messages.counts, read_messages.received, *self._distribution), 0.0, 1.0)
        mine = np.take_along_axis(shares, np.maximum(read_messages.own, 0)[..., None], -1)[..., 0]
        own, most = np.minimum((np.stack([mine, shares.max(-1)]) * self.bins).astype(np.int64), self.bins - 1)
        state = np.where(read_messages.own >= 0, own, self.bins), most
        if self._learning and self._last is not None:
            self._learn(self._last, self._values[state].max(-1))
        move = self._values[state].argmax(-1)
        explores = self.rng.random(move.shape) < self.epsilon
        move = np.where(explores, self.rng.integers(0, 5, move.shape), move)
        if self._learning:
            self._last = (*state, move)
        return self._plan(move, shares)

    def _plan(self, move: Array, shares: Array) -> Array:
        """The plans of the actions `move` [B, rows] (see the class), given the unbiased shares [B, rows, K]."""
        drawn, _ = sample(shares, self.rng)
        most = np.argmax(shares + 1e-9 * self.rng.random(shares.shape), -1)
        anything = self.rng.integers(0, self._options, move.shape)
        option = np.choose(move, [np.full(move.shape, self._options), drawn, most, anything, most])
        return self.plan(option, move == 4, 1)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        if self._learning and self._last is not None:
            self._last = (*self._last[:3], reward, np.broadcast_to(done[:, None], reward.shape))

    def _learn(self, step: tuple[Array, ...], after: Array) -> None:
        """Update the table towards reward + gamma max Q(next)."""
        assert self._values is not None
        *where, reward, done = step
        update_table(self._values, self._visits, tuple(where), reward + self.gamma * np.where(done, 0.0, after))
