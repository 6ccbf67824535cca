"""The base of policies that choose clusters of items in cells of contexts: what they know, ask, choose and learn."""

import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.recommender.drawing import Sketch
from taciturn.envs.recommender.geometry import DEPTH, grid
from taciturn.envs.recommender.sharing import Entered, Reader, Request
from taciturn.envs.recommender.world import Recommender
from taciturn.policies.base import Policy
from taciturn.policies.families.cluster_tree import ClusterTree
from taciturn.validation import Bools, Floats, Ints


class ClusterPolicy(Policy):
    """Base of policies on a `ClusterTree`: the leaf with the highest mean + sqrt(xi ln n / (8 Q)) + bonus in the cell
    of the context.

    Attributes:
        threshold: an agent asks the third party if its own mean, in the cell and leaf that it used last, is below this.
        xi: weight of the confidence width.
        bisect: whether cells are halved in one dimension at a time.
        biased: whether agents that do not ask divide their own sum by the neighbourhood's count.
    """

    threshold: float
    xi: float
    bisect: bool = False
    biased: bool = False
    _bonus: Floats
    _explored: Floats
    _crowded: Floats

    def set_rules(self, context_dim: int) -> None:
        """Set, by depth of a leaf, `_bonus` and `_explored`, and by level of a cell, `_crowded`.

        A leaf is expanded if its Q is at least `_explored` times ln n, and a cell split if its arrivals are at least
        `_crowded` times ln n.
        """
        raise NotImplementedError

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, Recommender) and view.params.actions == "item"
        self.require(fits, "the recommender with actions='item'", view)
        p = view.params
        self._layout, self._view, self._items = view.roles[self.role].layout, view, p.num_items
        self._shape, self._growth = (view.num_envs, p.num_agents), np.array([start for start, _ in p.growth], np.int64)
        self._network = p.network
        self.form_groups()
        groups = self._network.closed_neighbourhoods(self._owners)
        members = np.diff(groups.indptr)[self._follows]
        self._merged, self._may_ask = members, np.tile(members > 1, view.num_envs)
        self._codes = view.catalogue()[1]
        self._tree = ClusterTree(self._codes, p.context_dim, groups, self._owners, self.bisect, p.horizon)
        self._model_of = (np.arange(view.num_envs)[:, None] * len(self._owners) + self._follows).ravel()
        self._mean = np.zeros(len(self._tree.owner_actor))  # of the owners' feedbacks where they last acted
        self._over = np.zeros(view.num_envs, np.bool_)
        self._knows_items = np.zeros(view.num_envs, np.bool_)
        self.set_rules(p.context_dim)
        statistics, counts = view.channels["statistics"], view.channels["counts"]
        self._faulty = statistics.faulty or counts.faulty
        self._exact = not (self._faulty or statistics.mechanism or counts.mechanism)
        self._consult = view.consult
        view.draw_with(self.sketch)
        self.prepare(np.ones(view.num_envs, np.bool_))
        law = view.channels["selection"].mechanism
        self._noisy_selection = law is not None and law.kind != "none"

    @property
    def public_schedule(self) -> bool:  # type: ignore[override]
        """Whether all agents ask in every round, or none ever does, so that asking does not depend on feedbacks.

        The items shown decide which streams records enter, so they must follow from answers too. An agent that misses
        an answer, because of a fault, goes on with its own feedbacks.
        """
        return self.threshold <= 0 or self.always_answered

    @property
    def always_answered(self) -> bool:
        """Whether all agents ask in every round, and no fault keeps answers from them; means are at most 1."""
        return self.threshold > 1 and not self._faulty

    def form_groups(self) -> None:
        """Set the agents that keep a model of their closed neighbourhood's records, int64[G], and the model that each
        agent follows, int64[W]."""
        self._owners = self._follows = np.arange(self._shape[1])

    def prepare(self, fresh: Bools) -> None:
        """Change the start of a run, in the replicas `fresh` bool[B]."""

    def sketch(self, replica: int, agent: int, context: Floats) -> Sketch:
        """The leaves and cells of the model that an agent uses, and the means in the cell of a context [d], for
        pictures."""
        tree = self._tree
        model = self._model_of[[replica * self._shape[1] + agent]]
        (leaves,) = tree.num_leaves[model]
        row = tree.rows(model, tree.digits(grid(context[None])))
        counts, sums = (
            (table[row[0], :leaves] if row[0] >= 0 else np.zeros(leaves)) for table in (tree.counts, tree.sums)
        )
        bounds = np.stack([tree.leaf_lo[model[0], :leaves], tree.leaf_hi[model[0], :leaves]], 1)
        return Sketch(bounds, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), tree.boxes(int(model[0])))

    @property
    def tree(self) -> ClusterTree:
        """The models of the present run."""
        return self._tree

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        context, time = obs[..., self._layout.slices["context"]], obs[:, 0, self._layout.slices["time"].start]
        items = None if mask is None else mask[..., : self._items] > 0
        self.look_around(time, items)
        luck = self.rng.random((*self._shape, 2)).reshape(-1, 2)
        return self.choose(context.astype(np.float64), luck).reshape(self._shape)

    def choose(self, contexts: Floats, luck: Floats) -> Ints:
        """The items that the agents show, int64[A], in contexts [B, W, d], with two uniform numbers for each, [A,
        2]."""
        tree, agents = self._tree, self._shape[1]
        self._steps = grid(contexts.reshape(len(luck), -1))
        self._row = tree.rows(self._model_of, tree.digits(self._steps))
        log_n = np.log(tree.time + 1.0)
        asks = self.who_asks()
        sums, counts, self._shared = self.ask(asks) if asks.any() else (*self.own_statistics(), asks)
        index, possible = self.indices(sums, counts, log_n)
        leaf = self.selected(index, possible, log_n, luck[:, 0])
        actor = np.arange(len(leaf))
        self._used = counts
        low = tree.leaf_lo[self._model_of, leaf]
        high = tree.leaf_hi[self._model_of, leaf]
        first, last = tree.below[actor, low], tree.below[actor, high]
        place = tree.own[actor, first + (luck[:, 1] * (last - first)).astype(np.int64)]
        return np.asarray(tree.order[actor // agents, place])

    def look_around(self, time: Array, have: Bools | None) -> None:
        """Start afresh in replicas with a new run, and learn which items there are."""
        tree, codes = self._tree, self._view.catalogue()[1]
        fresh = (time == 0) & ((tree.time > 0) | (codes is not self._codes))
        if fresh.any():
            tree.restart(fresh, codes)
            self.prepare(fresh)
            self._mean.reshape(len(fresh), -1)[fresh] = 0
            self._over[fresh] = self._knows_items[fresh] = False
            self._codes = codes
        if not self._knows_items.all() or np.isin(time, self._growth).any():
            tree.have(np.ones((*self._shape, self._items), np.bool_) if have is None else have)
            self._knows_items[:] = True

    def who_asks(self) -> Bools:
        """The agents that ask the third party, bool[A]."""
        return np.asarray((self._mean < self.threshold) & self._may_ask)

    def _rows_of(self, *tables: Array) -> list[Floats]:
        """The agents' rows of tables [R, L], float64[A, leaves], zeros where there are no records."""
        width = int(self._tree.num_leaves.max())
        some = self._row >= 0
        found = [table[self._row, :width].astype(np.float64) for table in tables]
        if not some.all():
            for values in found:
                values[~some] = 0
        return found

    def own_statistics(self) -> tuple[Floats, Floats]:
        """The sums and counts [A, leaves] of the owners' own records."""
        tree = self._tree
        sums, counts = self._rows_of(tree.own_sums, tree.counts if self.biased else tree.own_counts)
        return sums, counts

    def ask(self, asks: Bools) -> tuple[Floats, Floats, Bools]:
        """The sums and counts [A, leaves] that agents know after some of them, bool[A], have asked; and which got an
        answer."""
        tree, (size, agents) = self._tree, self._shape
        asked = asks.reshape(size, agents)
        exact = self._rows_of(tree.sums, tree.counts)
        if self._exact:
            nothing = np.zeros((size, agents, 1), np.uint64)
            request = Request(asked, nothing, nothing, nothing, self.messages, self._merged, lambda who, reader: ())
            _, _, answered = self._consult(request)
            sums, counts = exact
        else:
            width = tree.counts.shape[1]
            padded = [np.pad(x, ((0, 0), (0, width - x.shape[1]))).reshape(size, agents, width) for x in exact]
            names = tree.streams(self._model_of, self._row, width).reshape(size, agents, width)
            request = Request(
                asked, padded[0], padded[1].astype(np.int64), names, self.messages, self._merged, self.entered
            )
            told, counted, answered = self._consult(request)
            sums, counts = (x.reshape(size * agents, width)[:, : exact[0].shape[1]] for x in (told, counted))
            # Noise can make a count small or negative: then the leaf counts as unvisited.
            counts = np.where(counts >= 1, counts, 0)
            sums = np.clip(sums, 0, counts)
        asks = answered.reshape(-1)
        if asks.all():
            return sums, counts, asks
        own_sums, own_counts = self.own_statistics()
        return np.where(asks[:, None], sums, own_sums), np.where(asks[:, None], counts, own_counts), asks

    def messages(self, answers: Array) -> Ints:
        """The messages that each agent sends, int64[B, W]: one for each of the `answers` [B, W] that others get about
        its group."""
        tree, actors = self._tree, len(self._model_of)
        by_model = np.bincount(self._model_of, answers.ravel(), len(tree.owner_actor))
        told = np.bincount(tree.pair_actor, by_model[tree.pair_model], actors).reshape(self._shape)
        return (told - answers).astype(np.int64)

    def entered(self, who: Bools, reader: Reader) -> Entered:
        """The records that answers to the agents `who` bool[B, W] release to `reader` for the first time."""
        actor = np.flatnonzero(who.ravel())
        return self._tree.entered(self._model_of[actor], self._row[actor], reader)

    def indices(self, sums: Floats, counts: Floats, log_n: Floats) -> tuple[Floats, Bools]:
        """The index of each leaf, float64[A, leaves], inf without records; and the leaves that hold items of the agent,
        bool[A, leaves]."""
        tree, width = self._tree, sums.shape[1]
        wide = np.repeat(self.xi * log_n / 8, self._shape[1])[:, None]
        models, actor = self._model_of, np.arange(len(self._model_of))[:, None]
        safe = np.maximum(counts, 1)
        index = sums / safe + np.sqrt(wide / safe) + self._bonus[tree.leaf_depth[models, :width]]
        index[counts == 0] = np.inf
        held = tree.below[actor, tree.leaf_hi[models, :width]] > tree.below[actor, tree.leaf_lo[models, :width]]
        return index, held & (np.arange(width) < tree.num_leaves[models][:, None])

    def selected(self, index: Floats, possible: Bools, log_n: Floats, luck: Floats) -> Ints:
        """The leaves that the agents choose, int64[A]."""
        size, agents = self._shape
        lost = np.ones(len(index), np.bool_)
        if self._noisy_selection:
            cap = 1 + np.sqrt(self.xi * log_n / 8) + self._bonus[0]
            scores = np.minimum(index.reshape(size, agents, -1), cap[:, None, None])
            option = self._view.select(scores, possible.reshape(scores.shape), cap[:, None, None]).ravel()
            lost = option < 0
            best = possible
        else:
            index = np.where(possible, index, -np.inf)
            best = index == index.max(1, keepdims=True)
        place = (luck * best.sum(1)).astype(np.int64)
        first = (best.cumsum(1) > place[:, None]).argmax(1)
        return first if not self._noisy_selection else np.where(lost, first, option)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        live = ~self._over
        places = self._tree.place[np.arange(len(live))[:, None], action % self._items].ravel()
        real = np.repeat(live, self._shape[1]) & self._tree.has(places)
        self.learn(places, (reward > 0).ravel(), real, live)
        self._over = self._over | done

    def learn(self, places: Ints, likes: Bools, real: Bools, live: Bools) -> None:
        """Record a round, and refine cells and leaves; the arguments are those of `ClusterTree.record`."""
        tree = self._tree
        node, leaf = tree.record(self._steps, places, likes.astype(np.int8), real, live)
        shown, models, owner = real[tree.owner_actor], np.arange(len(node)), tree.owner_actor
        self._mean = np.where(shown, tree.own_means(node, leaf), self._mean)
        log_n = np.repeat(np.log(np.maximum(tree.time, 1)), len(self._owners))
        level, row, depth = tree.node_level[node], tree.node_row[node], tree.leaf_depth[models, leaf]
        with np.errstate(invalid="ignore"):  # inf * ln 1: never
            crowded = (tree.arrivals[row] >= self._crowded[level] * log_n) & (level < tree.deepest) & shown
            explored = (self._used[owner, leaf] >= self._explored[depth] * log_n) & (depth < DEPTH) & shown
        for model in np.flatnonzero(crowded):
            tree.split(int(model), int(node[model]))
        for model in np.flatnonzero(explored):
            if tree.held(int(owner[model]), int(model), int(leaf[model])) > 1:
                tree.expand(int(model), int(leaf[model]))

    def leads(self) -> Bools:
        """The agents that keep the model that they use, bool[A]."""
        return np.asarray(self._tree.owner_actor[self._model_of] == np.arange(len(self._model_of)))
