"""The base of policies that choose clusters of items in cells of contexts: their knowledge, requests, choices and
learning."""

from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.recommender.drawing import Sketch
from taciturn.envs.recommender.sharing import Entered, Reader, Request
from taciturn.envs.recommender.world import Recommender
from taciturn.policies.base import Policy
from taciturn.policies.families.cluster_tree import ANY, BEST, JUDGE, LEARN, LOOK_UP, ClusterTree, walk
from taciturn.policies.families.context_cells import grid
from taciturn.validation import Bools, Floats, Ints


class ClusterPolicy(Policy):
    """Base of policies on a `ClusterTree`: the leaf with the highest mean + sqrt(xi ln n / (8 Q)) + bonus in the cell
    of the context.

    Attributes:
        threshold: an agent asks the third party if its own mean, in its last cell and leaf, is below this.
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
        """Set `_bonus` and `_explored` by depth of a leaf, and `_crowded` by level of a cell.

        A leaf is expanded if its Q is at least `_explored` times ln n, and a cell split if its arrivals are at least
        `_crowded` times ln n.
        """
        raise NotImplementedError

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, Recommender) and view.params.actions == "item"
        self.require(fits, "the recommender with actions='item'", view)
        p = view.params
        slices = view.roles[self.role].layout.slices
        self._context, self._time = slices["context"], slices["time"].start
        self._view, self._items = view, p.num_items
        self._shape, self._growth = (view.num_envs, p.num_agents), np.array([start for start, _ in p.growth], np.int64)
        self._network = p.network
        self.form_groups()
        groups = self._network.closed_neighbourhoods(self._owners)
        members = np.diff(groups.indptr)[self._follows]
        self._merged, self._may_ask = members, np.tile(members > 1, view.num_envs)
        self._codes = view.catalogue()[1]
        self._model_of = (np.arange(view.num_envs)[:, None] * len(self._owners) + self._follows).ravel()
        self.set_rules(p.context_dim)
        rules: Any = {"bonus": self._bonus, "explored": self._explored, "crowded": self._crowded}
        rules |= {"biased": self.biased, "bisect": self.bisect, "model_of": self._model_of}
        self._tree = ClusterTree(self._codes, p.context_dim, groups, self._owners, p.horizon, **rules)
        self._over = np.zeros(view.num_envs, np.bool_)
        self._knows_nothing, self._nothing = True, np.zeros((*self._shape, 1), np.uint64)
        statistics, counts = view.channels["statistics"], view.channels["counts"]
        self._faulty = statistics.faulty or counts.faulty
        self._exact = not (self._faulty or statistics.mechanism or counts.mechanism)
        self._consult = view.consult
        view.draw_with(self.sketch)
        self.prepare(np.ones(view.num_envs, np.bool_))
        mechanism = view.channels["selection"].mechanism
        self._noisy_selection = mechanism is not None and mechanism.kind != "none"

    @property
    def public_schedule(self) -> bool:  # type: ignore[override]
        """Whether all agents ask in every round, or none ever does, so asking does not depend on feedbacks.

        The shown items determine the streams that records enter, so they must follow from answers too. An agent that
        misses an answer, because of a fault, goes on with its own feedbacks.
        """
        return self.threshold <= 0 or self.always_answered

    @property
    def always_answered(self) -> bool:
        """Whether all agents ask in every round, and no fault stops the answers; means are at most 1."""
        return self.threshold > 1 and not self._faulty

    def form_groups(self) -> None:
        """Set the agents that keep a model of their closed neighbourhood's records, int64[G], and the model that each
        agent follows, int64[W]."""
        self._owners = self._follows = np.arange(self._shape[1])

    def prepare(self, fresh: Bools) -> None:
        """Change the start of a run, in the replicas `fresh` bool[B]."""

    def sketch(self, replica: int, agent: int, context: Floats) -> Sketch:
        """The leaves and cells of an agent's model, and the means in the cell of a context [d], for pictures."""
        tree, model = self._tree.arrays, int(self._model_of[replica * self._shape[1] + agent])
        leaves, node = tree.num_leaves[model], walk(tree, model, grid(context))
        counts, sums = (table[node, :leaves] * (node >= 0) for table in (tree.counts, tree.sums))
        bounds = np.stack([tree.leaf_lo[model, :leaves], tree.leaf_hi[model, :leaves]], 1)
        return Sketch(bounds, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), self._tree.boxes(model))

    @property
    def tree(self) -> ClusterTree:
        """The models of the present run."""
        return self._tree

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        self.look_around(obs, mask)
        luck = self.rng.random((len(self._model_of), 2))
        return self.choose(obs.reshape(len(luck), -1), luck).reshape(self._shape)

    def choose(self, obs: Array, luck: Floats) -> Ints:
        """The items that the agents show, int64[A], for observations [A, D], with two uniform numbers for each, [A,
        2]."""
        tree, asks = self._tree.arrays, self.who_asks()
        tree.contexts[...], tree.luck[...], tree.answered[...] = obs[:, self._context], luck, asks
        tree.log_n[...] = np.log(tree.time + 1.0)
        tree.wide[...], tree.leaf[...] = self.xi * tree.log_n / 8, BEST
        self._tree.play(LOOK_UP | JUDGE if self._exact else LOOK_UP)
        if asks.any():
            self.ask(asks)
        if not self._exact:
            self._tree.play(JUDGE)
        if self.reconsider():
            self._tree.play(JUDGE)
        return np.array(tree.item)

    def reconsider(self) -> bool:
        """Set the leaves that agents choose by other rules than the highest index (see `judge`); returns whether there
        are any."""
        if not self._noisy_selection:
            return False
        tree = self._tree.arrays
        cap = (1 + np.sqrt(tree.wide) + self._bonus[0])[:, None, None]
        shape = (*self._shape, -1)
        leaves = int(tree.num_leaves.max())  # the noise depends on their number
        scores = np.minimum(tree.index[:, :leaves].reshape(shape), cap)
        option = self._view.select(scores, tree.possible[:, :leaves].reshape(shape), cap).ravel()
        tree.leaf[:] = np.where(option < 0, ANY, option)
        return True

    def look_around(self, obs: Array, mask: Array | None) -> None:
        """Restart in replicas with a new run, and record the available items."""
        codes, news = self._view.catalogue()[1], self._knows_nothing
        if codes is not self._codes:
            fresh = obs[:, 0, self._time] == 0
            self._tree.restart(fresh, codes)
            self.prepare(fresh)
            self._over[fresh], self._codes, news = False, codes, True
        if self._growth.size and not news:
            news = bool(np.isin(obs[:, 0, self._time], self._growth).any())
        if news:
            items = np.ones((*self._shape, self._items), np.bool_) if mask is None else mask[..., : self._items] > 0
            self._tree.have(items)
            self._knows_nothing = False

    def who_asks(self) -> Bools:
        """The agents that ask the third party, bool[A]."""
        return np.asarray((self._tree.arrays.mean < self.threshold) & self._may_ask)

    def ask(self, asks: Bools) -> None:
        """Let some agents, bool[A], ask the third party, and replace their statistics by the answers."""
        tree, shape = self._tree.arrays, (*self._shape, -1)
        asked = asks.reshape(self._shape)
        if self._exact:
            nothing = self._nothing
            request = Request(asked, nothing, nothing, nothing, self.messages, self._merged, lambda who, reader: ())
            self._consult(request)
            return
        sums, counts = (x.reshape(shape) for x in (tree.known_sums, tree.known_counts))
        names = self._tree.streams(self._model_of, tree.node, sums.shape[2]).reshape(shape)
        request = Request(asked, sums, counts.astype(np.int64), names, self.messages, self._merged, self.entered)
        released, counted, answered = (x.reshape(len(asks), -1) for x in self._consult(request))
        if not answered.ravel()[asks].all():
            tree.answered[:] = answered.ravel()
            self._tree.play(LOOK_UP)
        # Noise can make a count small or negative: then the leaf counts as unvisited.
        counted = np.where(counted >= 1, counted, 0)
        tree.known_counts[:] = np.where(answered, counted, tree.known_counts)
        tree.known_sums[:] = np.where(answered, np.clip(released, 0, counted), tree.known_sums)

    def messages(self, answers: Array) -> Ints:
        """The messages that each agent sends, int64[B, W]: one for each of the `answers` [B, W] to others about its
        group."""
        tree, whole = self._tree.arrays, answers.ravel()
        about = np.bincount(self._model_of, whole, len(tree.owner_actor))
        sent = np.bincount(tree.pair_actor, np.repeat(about, np.diff(tree.pair_from)), len(whole)) - whole
        return sent.astype(np.int64).reshape(self._shape)

    def entered(self, who: Bools, reader: Reader) -> Entered:
        """The records that answers to the agents `who` bool[B, W] release to `reader` for the first time."""
        actor = np.flatnonzero(who.ravel())
        return self._tree.entered(self._model_of[actor], self._tree.node[actor], reader)

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        live = ~self._over
        self._tree.make_room(int(self._tree.time.max()))
        tree = self._tree.arrays
        tree.time[...] += live
        tree.log_n[...], tree.live[...] = np.log(np.maximum(tree.time, 1)), live
        tree.item[...], tree.reward[...] = action.ravel(), reward.ravel()
        self._tree.play(LEARN)
        self._over = self._over | done

    def leads(self) -> Bools:
        """The agents that keep the model that they use, bool[A]."""
        return np.asarray(self._tree.owner_actor[self._model_of] == np.arange(len(self._model_of)))
