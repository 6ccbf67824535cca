"""The base of policies that choose clusters of items in cells of contexts: what they know, ask, choose and learn."""

import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.recommender.drawing import Sketch
from taciturn.envs.recommender.geometry import grid
from taciturn.envs.recommender.sharing import Entered, Reader, Request
from taciturn.envs.recommender.world import Recommender
from taciturn.policies.base import Policy
from taciturn.policies.families import cluster_rounds
from taciturn.policies.families.cluster_rounds import ANY, BEST, Rules, call, count_messages, judge, learn, look_up
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
        self._model_of = (np.arange(view.num_envs)[:, None] * len(self._owners) + self._follows).ravel()
        self.set_rules(p.context_dim)
        rules = Rules(self._model_of, self.biased, self._bonus, self._explored, self._crowded)
        self._tree = ClusterTree(self._codes, p.context_dim, groups, self._owners, rules, self.bisect, p.horizon)
        self._mean = np.zeros(len(self._tree.owner_actor))  # of the owners' feedbacks where they last acted
        self._over = np.zeros(view.num_envs, np.bool_)
        self._knows_nothing, self._nothing = True, np.zeros((*self._shape, 1), np.uint64)
        actors = len(self._model_of)
        self._steps, self._row = np.zeros((actors, p.context_dim), np.int64), np.zeros(actors, np.int64)
        self._leaf, self._shown = np.zeros(actors, np.int64), np.zeros(actors, np.int64)
        self._sums, self._counts, self._index, self._possible = self._room(16)
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

    def _room(self, leaves: int) -> tuple[Floats, Floats, Floats, Bools]:
        """For each actor and leaf [A, L]: the sums and counts that it knows, the index, and whether it has items."""
        shape = len(self._model_of), leaves
        return np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)

    def sketch(self, replica: int, agent: int, context: Floats) -> Sketch:
        """The leaves and cells of the model that an agent uses, and the means in the cell of a context [d], for
        pictures."""
        tree = self._tree
        model = self._model_of[[replica * self._shape[1] + agent]]
        (leaves,) = tree.num_leaves[model]
        row = tree.rows(model, grid(context[None]))
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
        self.look_around(obs, mask)
        luck = self.rng.random((len(self._model_of), 2))
        return self.choose(np.ascontiguousarray(obs.reshape(len(luck), -1), np.float32), luck).reshape(self._shape)

    def choose(self, obs: Array, luck: Floats) -> Ints:
        """The items that the agents show, int64[A], for observations [A, D], with two uniform numbers for each, [A,
        2]."""
        tree = self._tree.arrays
        cluster_rounds.PLAYED[0] += len(luck)
        if tree.leaf_lo.shape[1] > self._sums.shape[1]:
            self._sums, self._counts, self._index, self._possible = self._room(tree.leaf_lo.shape[1])
        asks = self.who_asks()
        self._look_up(obs, asks)
        if asks.any():
            self.ask(asks, obs)
        log_n = np.log(tree.time + 1.0)
        self._leaf[:] = BEST
        self._judge(log_n, luck)
        if self.reconsider(log_n):
            self._judge(log_n, luck)
        return self._shown.copy()

    def _look_up(self, obs: Array, answered: Bools) -> None:
        arrays, rules, first = self._tree.arrays, self._tree.rules, self._layout.slices["context"].start
        call(look_up, arrays, rules, obs, first, answered, self._steps, self._row, self._sums, self._counts)

    def _judge(self, log_n: Floats, luck: Floats) -> None:
        known = self._sums, self._counts, luck, self._index, self._possible, self._leaf, self._shown
        call(judge, self._tree.arrays, self._tree.rules, self.xi * log_n / 8, *known)

    def reconsider(self, log_n: Floats) -> bool:
        """Set the leaves that agents choose in another way than by the highest index (see `judge`); returns whether
        any do."""
        if not self._noisy_selection:
            return False
        cap = (1 + np.sqrt(self.xi * log_n / 8) + self._bonus[0])[:, None, None]
        shape = (*self._shape, -1)
        leaves = int(self._tree.num_leaves.max())  # the noise depends on how many there are
        scores = np.minimum(self._index[:, :leaves].reshape(shape), cap)
        option = self._view.select(scores, self._possible[:, :leaves].reshape(shape), cap).ravel()
        self._leaf[:] = np.where(option < 0, ANY, option)
        return True

    def look_around(self, obs: Array, mask: Array | None) -> None:
        """Start afresh in replicas with a new run, and learn which items there are."""
        codes, news = self._view.catalogue()[1], self._knows_nothing
        if codes is not self._codes:
            fresh = obs[:, 0, self._layout.slices["time"].start] == 0
            self._tree.restart(fresh, codes)
            self.prepare(fresh)
            self._mean.reshape(len(fresh), -1)[fresh] = 0
            self._over[fresh], self._codes, news = False, codes, True
        if self._growth.size and not news:
            news = bool(np.isin(obs[:, 0, self._layout.slices["time"].start], self._growth).any())
        if news:
            items = np.ones((*self._shape, self._items), np.bool_) if mask is None else mask[..., : self._items] > 0
            self._tree.have(items)
            self._knows_nothing = False

    def who_asks(self) -> Bools:
        """The agents that ask the third party, bool[A]."""
        return np.asarray((self._mean < self.threshold) & self._may_ask)

    def ask(self, asks: Bools, obs: Array) -> None:
        """Let some agents, bool[A], ask the third party, and replace what they looked up by what they are told."""
        tree, shape = self._tree, (*self._shape, -1)
        asked = asks.reshape(self._shape)
        if self._exact:
            nothing = self._nothing
            request = Request(asked, nothing, nothing, nothing, self.messages, self._merged, lambda who, reader: ())
            self._consult(request)
            return
        sums, counts = (x.reshape(shape) for x in (self._sums, self._counts))
        names = tree.streams(self._model_of, self._row, sums.shape[2]).reshape(shape)
        request = Request(asked, sums, counts.astype(np.int64), names, self.messages, self._merged, self.entered)
        told, counted, answered = (x.reshape(len(asks), -1) for x in self._consult(request))
        if not answered.ravel()[asks].all():
            self._look_up(obs, answered.ravel())
        # Noise can make a count small or negative: then the leaf counts as unvisited.
        counted = np.where(counted >= 1, counted, 0)
        self._counts[:] = np.where(answered, counted, self._counts)
        self._sums[:] = np.where(answered, np.clip(told, 0, counted), self._sums)

    def messages(self, answers: Array) -> Ints:
        """The messages that each agent sends, int64[B, W]: one for each of the `answers` [B, W] that others get about
        its group."""
        sent = np.zeros(len(self._model_of), np.int64)
        whole = np.ascontiguousarray(answers.ravel(), np.int64)
        call(count_messages, self._tree.arrays, self._tree.rules, whole, sent)
        return sent.reshape(self._shape)

    def entered(self, who: Bools, reader: Reader) -> Entered:
        """The records that answers to the agents `who` bool[B, W] release to `reader` for the first time."""
        actor = np.flatnonzero(who.ravel())
        return self._tree.entered(self._model_of[actor], self._row[actor], reader)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        live, time = ~self._over, self._tree.time
        self._tree.make_room(int(time.max()))
        log_n = np.log(np.maximum(time + live, 1))
        actions = np.ascontiguousarray(action.ravel(), np.int64)
        earned = np.ascontiguousarray(reward.ravel(), np.float64)
        known = self._steps, actions, earned, live, self._counts, self._mean
        call(learn, self._tree.arrays, self._tree.rules, log_n, *known)
        self._over = self._over | done

    def leads(self) -> Bools:
        """The agents that keep the model that they use, bool[A]."""
        return np.asarray(self._tree.owner_actor[self._model_of] == np.arange(len(self._model_of)))
