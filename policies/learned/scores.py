"""Agents of social learning that score options by few weights, optimised by evolution."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population, PublicView, number
from taciturn.policies.base import Policy
from taciturn.policies.designed.listener import one_answer
from taciturn.policies.learned.networks import drawn
from taciturn.policies.learned.social_features import OPTION, SocialFeatures, remembers
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism
from taciturn.validation import Floats, vector

SEEN = [OPTION.index(name) for name in ("mean", "spread", "behind", "signals", "share", "running", "heard", "own")]
FEATURES = len(SEEN) + 1  # plus the product of mean and share
UNITS, ADOPTS = 4, 7
SIZES = (2 * FEATURES, UNITS * (FEATURES + 2), 2 * ADOPTS)
SHARP = np.float32(5)
"""Factor of the scores, so a weight of 1 is large."""


class SocialScore(Policy):
    """All agents pull the option with the largest score plus a Gumbel number (a draw from softmax), where

        score_k = 5 (sum_i (a_i + b_i l) f_ki + sum_u c_u tanh(2 sum_i w_ui f_ki + v_u max_j e_j)),

    f_k are features of an option (from `SocialFeatures`: its own signals, current and past messages, and their
    product), e_j is the running mean of messages, and l = log(1 + turns) / 4. They adopt option k on a signal if a
    linear function of its features, a different one for each signal, exceeds a logistic number. The weights are the
    same for all options, so nothing depends on the numbering of options; evolution begins near `HoldTheBest`.

    Under a privacy budget, agents give one answer, at a public moment, and repeat it to every agent (`Scheduled`).

    Args:
        weights: a, b, then w_u, v_u and c_u of each unit, then both linear functions, float64[76].
        moment: time of the answer, in expected ticks of an agent's clock, or in rounds.
    """

    def __init__(self, weights: Sequence[float] | Array | None = None, moment: float = 8.0) -> None:
        self.weights = self.first_weights() if weights is None else vector("weights", weights, size=sum(SIZES))
        self.moment = number("moment", moment, above=0, at_most=1000)

    @staticmethod
    def first_weights(rng: np.random.Generator | None = None) -> Floats:
        """An optimistic index of an agent's own signals, adopted on either signal; `rng` draws units that have no
        weight yet."""
        linear, adopts = np.zeros(SIZES[0]), np.zeros((2, ADOPTS))
        linear[:2], adopts[:, 0] = (12.0, 18.0), 5.0
        units = np.zeros((UNITS, FEATURES + 2))
        if rng is not None:
            units = rng.normal(0.0, 0.3, units.shape)
        return np.concatenate([linear, units.ravel(), adopts.ravel()])

    def simulator(self, world: Population[Any]) -> None:
        """None: candidates play in practice environments."""

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Mechanism]:
        """The whole budget on the one answer."""
        return one_answer(BitwiseRandomizedResponse(epsilon_budget), self.moment, view)

    def begin(self, view: PublicView) -> None:
        self.require(remembers(view), "social_bandit, and in gossip_bandit with reward='pull'", view)
        self._view, self._features = view, SocialFeatures(view, self.role)
        self._rows = np.arange(view.roles[self.role].num_agents)
        linear, units, adopts = np.split(np.asarray(self.weights, np.float32), np.cumsum(SIZES)[:-1])
        self._linear, self._adopts = linear.reshape(2, FEATURES).T * SHARP, adopts.reshape(2, ADOPTS).T
        units = units.reshape(UNITS, FEATURES + 2)
        self._units, self._best, self._out = 2 * units[:, :FEATURES].T, units[:, -2], units[:, -1] * SHARP

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        acting = self._view.acting(self.role)
        self._agents = np.broadcast_to(self._rows, obs.shape[:2]) if acting is None else acting
        x, common = self._features.see(obs, self._agents)
        rows, options = x.shape[:2]
        f = np.concatenate([x[..., SEEN], x[..., :1] * x[..., 4:5]], -1).reshape(rows * options, FEATURES)
        late = common[:, 1:2] * np.float32(0.75)  # log(1 + turns) / 4
        fixed, growing = (f @ self._linear).T.reshape(2, rows, options)
        most = f[:, 5].reshape(rows, options).max(1)[:, None, None] * self._best
        hidden = np.tanh((f @ self._units).reshape(rows, options, UNITS) + most)
        score = fixed + late * growing + hidden @ self._out
        k = drawn(score, self.rng)
        g = f.reshape(rows, options, FEATURES)[np.arange(rows), k]
        parts = np.ones(rows, np.float32), 5 * g[:, 2], 2 * g[:, 0] - 1, 2 * g[:, 5], 2 * late[:, 0], g[:, 7], g[:, 3]
        uniform = np.maximum(self.rng.random((rows, 2), dtype=np.float32), np.float32(1e-6))
        adopts = np.stack(parts, -1) @ self._adopts > np.log(uniform) - np.log1p(-uniform)
        choice = self._features.head.action(np.concatenate([k[:, None], adopts], -1, dtype=np.int64))
        return choice.reshape(*obs.shape[:2], *choice.shape[1:])

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        self._features.learn(action, reward, self._agents, done)

    def restart(self, where: Array) -> None:
        self._features.forget(where)
