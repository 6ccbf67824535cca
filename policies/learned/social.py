"""Tabular Q-learning for the worlds of social learning, on how popular one's own option and the most popular one are."""

from dataclasses import fields
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.policies.base import Learner
from taciturn.policies.classic.social import SocialPolicy, unbiased
from taciturn.policies.learned.training import names_agents, practice

__all__ = ["SocialQ"]


class SocialQ(SocialPolicy, Learner):
    """Q-learning on binned popularity, one table for all agents.

    What an agent sees is cut to two numbers, the unbiased shares of its own option (one more bin for no option) and of the most popular
    one. What it does is cut to five plans: keep; pull an option drawn in proportion to its share, or the most popular one, or any, and take
    it up on signal 1; or take up the most popular one whatever its signal. So what is learned holds for any number of options.

    Args:
        steps: environment steps of training, counted over rows.
        bins: of a share.
        gamma: discount of a row's next step, in [0, 1); at 0 a decision is judged by the preference that it leaves the agent with.
        epsilon: how often it does any of the five, in training and in play: populations that never do get stuck with what leads first.
        num_envs: replicas played at once in training.
        seed: of everything random in training.

    It trains when it is first reset, in the world (of 100 agents at most) and under the privacy that it is to act in, and is then kept.
    In training it is rewarded by the preference that it ends a turn with: `reward="preference"` in `gossip_bandit_v0`, `ToldAtOnce` in
    `social_bandit_v0`.

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
            self.fit(view)
            self.begin(view)

    def fit(self, view: PublicView) -> "SocialQ":
        """Learn in a world like `view`, with what stands on its channels."""
        known = {field.name for field in fields(view.params)}
        overrides: dict[str, Any] = {"reward": "preference"} if "reward" in known else {"horizon": 50}
        if not names_agents(view.params):
            overrides["num_agents"] = min(view.params.num_agents, 100)
        world = practice(view, self.num_envs, overrides)
        shape = (self.bins + 1, self.bins, 5)
        self._values, self._visits = np.ones(shape), np.zeros(shape)
        self._learning, done, role = True, 0, self.role
        world.reset(seed=self.seed)
        self.reset(world, world.stream("policy"), role)
        while done < self.steps:
            if world.done.any():
                world.reset(where=world.done)
                self._last = None
            world.advance(self, steps=1)
            done += self.num_envs * world.rows(role)
            if self.progress is not None:
                self.progress(min(done / self.steps, 1.0))
        self._learning = False
        return self

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        assert self._values is not None, "SocialQ acts after reset()"
        heard = self.heard(obs)
        shares = np.clip(unbiased(heard.counts, heard.received, *self._law), 0.0, 1.0)
        mine = np.take_along_axis(shares, np.maximum(heard.own, 0)[..., None], -1)[..., 0]
        own, most = (
            np.minimum((share * self.bins).astype(np.int64), self.bins - 1) for share in (mine, shares.max(-1))
        )
        state = np.where(heard.own >= 0, own, self.bins), most
        if self._learning and self._last is not None:
            self._learn(self._last, self._values[state].max(-1))
        move = self._values[state].argmax(-1)
        explores = self.rng.random(move.shape) < self.epsilon
        move = np.where(explores, self.rng.integers(0, 5, move.shape), move)
        if self._learning:
            self._last = (*state, move)
        return self._plan(move, shares)

    def _plan(self, move: Array, shares: Array) -> Array:
        """The plans that the moves stand for."""
        edges = np.cumsum(shares, -1)
        mark = self.rng.random(move.shape)[..., None] * edges[..., -1:]
        drawn = np.minimum((edges <= mark).sum(-1), self._options - 1)
        most = np.argmax(shares + 1e-9 * self.rng.random(shares.shape), -1)
        anything = self.rng.integers(0, self._options, move.shape)
        option = np.choose(move, [np.full(move.shape, self._options), drawn, most, anything, most])
        return self.plan(option, move == 4, 1)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        if self._learning and self._last is not None:
            self._last = (*self._last[:3], reward, np.broadcast_to(done[:, None], reward.shape))

    def _learn(self, step: tuple[Array, ...], after: Array) -> None:
        """Move the values towards reward + gamma max Q(next), by the mean error of each at the rate of its visits."""
        assert self._values is not None
        own, most, move, reward, done = step
        target = reward + self.gamma * np.where(done, 0.0, after)
        where = np.ravel_multi_index((own, most, move), self._values.shape).ravel()
        size = self._values.size
        count = np.bincount(where, minlength=size)
        error = np.bincount(where, (target.ravel() - self._values.ravel()[where]), minlength=size)
        some = count > 0
        values, visits = self._values.reshape(-1), self._visits.reshape(-1)
        visits[some] += count[some]
        values[some] += error[some] / count[some] * np.minimum(1.0, count[some] / visits[some] ** 0.8)
