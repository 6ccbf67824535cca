"""Policies of the recommender that keep their own records: reading observations, new runs, and available items."""

import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.recommender.world import Recommender
from taciturn.policies.base import Policy
from taciturn.validation import Bools, Floats, Ints


class ItemPolicy(Policy):
    """Base of policies with methods `choose`, to pick an item for a context, and `learn`, to learn from the feedback.

    Attributes, of a run: `items` float64[B, K, 5], the catalogue; `have` bool[B, W, K], the available items; `shape`
    (B, W, K).
    """

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, Recommender) and view.params.actions == "item"
        self.require(fits, "the recommender with actions='item'", view)
        p = view.params
        self._view, self._layout, self._dims = view, view.roles[self.role].layout, p.context_dim
        self._shape, self._horizon = (view.num_envs, p.num_agents, p.num_items), int(view.horizon)
        self._growth = np.array([start for start, _ in p.growth], np.int64)
        self._network = p.network
        self._items = view.catalogue()[0]
        self._have = np.ones(self._shape, np.bool_)
        self._rounds = np.zeros(view.num_envs, np.int64)  # rounds learned from
        self._over = np.zeros(view.num_envs, np.bool_)
        self.start(np.ones(view.num_envs, np.bool_))

    def start(self, fresh: Bools) -> None:
        """Clear everything in the replicas `fresh` bool[B], where a new run begins."""
        raise NotImplementedError

    def choose(self, contexts: Floats) -> Ints:
        """Available items, int64[B, W], for contexts [B, W, d]."""
        raise NotImplementedError

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        """Learn from feedbacks [B, W] on the items shown; where `real`, bool[B, W], is false, nothing was shown."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        time = obs[:, 0, self._layout.slices["time"].start].astype(np.int64)
        self.begin_anew(time)
        if mask is not None and ((time == 0) | np.isin(time, self._growth)).any():
            self._have = mask[..., : self._shape[2]] > 0
        return self.choose(self._contexts(obs))

    def begin_anew(self, time: Ints) -> None:
        """Clear the memory wherever a new run has begun; `time` int64[B] is the number of rounds played."""
        items = self._view.catalogue()[0]
        fresh = (time == 0) & ((self._rounds > 0) | (items is not self._items))
        if fresh.any():
            self._items = items
            self._rounds[fresh], self._over[fresh] = 0, False
            self.start(fresh)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        items = action % self._shape[2]
        at_hand = np.take_along_axis(self._have, items[:, :, None], 2)[:, :, 0]
        self.learn(self._contexts(obs), items, reward.astype(np.float64), at_hand & ~self._over[:, None])
        self._rounds += ~self._over
        self._over = self._over | done

    def _contexts(self, obs: Array) -> Floats:
        return obs[..., self._layout.slices["context"]].astype(np.float64)

    def best(self, index: Floats) -> Ints:
        """The available item with the highest index [B, W, K]; ties are broken at random."""
        luck, result = self.rng.random(index.shape[:2]), np.zeros(index.shape[:2], np.int64)
        for place in np.ndindex(result.shape):
            row = np.where(self._have[place], index[place], -np.inf)
            ties = np.flatnonzero(row == row.max())
            result[place] = ties[int(luck[place] * ties.size)]
        return result
