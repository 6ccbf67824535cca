"""T-PriDO and DT-PriDO (Zhou et al.): trees of item clusters on an adaptive partition of contexts, with statistics of the neighbours."""

import math
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, number
from taciturn.envs.recommender.fast import Block, RoundPlan
from taciturn.envs.recommender.geometry import DEPTH, grid
from taciturn.envs.recommender.rewards import means
from taciturn.envs.recommender.sharing import Entered, Request
from taciturn.envs.recommender.world import Recommender
from taciturn.policies.base import Policy
from taciturn.policies.families.cluster_rounds import COMPILE_FROM, available, play_rounds
from taciturn.policies.families.cluster_tree import ClusterTree
from taciturn.privacy.mechanisms import Exponential, Mechanism, TreeAggregation
from taciturn.validation import Bools, Floats, Ints

__all__ = ["PRESETS", "DTPriDO", "TPriDO", "dominating_set", "partition_rate"]

PRESETS: dict[str, dict[str, float]] = {
    "tuned": {"xi": 0.2, "psi": 0.3, "gamma": 0.8, "rate": 20.0},
    "paper": {"xi": 6.5, "psi": 1.0, "gamma": 2 ** (-1 / 5), "rate": 20.0},
}


def partition_rate(context_dim: int, optimal_dim: float = 0.0) -> float:
    """p1, the positive root of d_c p^2 + (d_c - 2) p - (3 - d_0) = 0 [Zhou 2]."""
    half = context_dim - 2
    return (-half + math.sqrt(half**2 + 4 * context_dim * (3 - optimal_dim))) / (2 * context_dim)


def dominating_set(neighbours: Bools) -> tuple[Ints, Ints]:
    """A greedy dominating set, int64[G], and the member of it that each agent follows, int64[W], as its place in the set.

    The next member is the agent that dominates most of those who are not dominated yet, the first of them if there are several. An
    agent follows the earliest member among its neighbours.
    """
    closed = neighbours | np.eye(len(neighbours), dtype=np.bool_)
    left, members = np.ones(len(closed), np.bool_), []
    follows = np.full(len(closed), -1)
    while left.any():
        best = int((closed & left).sum(1).argmax())
        follows[closed[best] & (follows < 0)] = len(members)
        members.append(best)
        left &= ~closed[best]
    follows[members] = np.arange(len(members))
    return np.array(members, np.int64), follows.astype(np.int64)


class TPriDO(Policy):
    """Tree-based private distributed online learning: the item cluster with the highest optimistic mean in the cell of the context.

    In round n an agent looks up the cell of its context in its own partition. If its own mean in the cell and cluster that it used last
    is below the threshold NT, it asks the third party for sums and counts over the closed neighbourhood, else it uses its own. The index
    of a leaf (h, i) of its tree is mu + sqrt(xi ln n / (8 Q)) + psi gamma^h, and infinite without records. It shows a random own item of
    the leaf with the highest index. Then, with all records of the round, the cell of its context is split if it has had at least
    rate 2^(p l d) ln n visitors of the agent (l: level of the cell), and the leaf is replaced by its children if Q, as the agent knew it
    when it acted, is at least xi ln n / (8 psi^2 gamma^(2h)) and the leaf holds more than one of its items. History is recounted.

    Args:
        threshold: NT.
        preset: "tuned" (xi 0.2, psi 0.3, gamma 0.8, rate 20) or "paper" (xi 6.5, psi 1, gamma 2^(-1/5), rate 20; the paper's proofs
            need xi > 6, and it states no other value). The following four replace single values of it.
        xi: > 0, weight of the confidence width.
        psi: > 0, diameter of the whole item space in units of reward.
        gamma: in (0, 1), by which diameters shrink from level to level.
        rate: > 0, lambda, of the splits of cells.
        optimal_dim: d_0 of equation 2, in [0, 3).
        eta: >= 0; p is the root of equation 2 plus eta.
        bisect: whether cells are halved in one dimension at a time, instead of in all at once. With 9 dimensions the latter makes 512
            cells of one, most of which never see enough records.
        biased: whether an agent that does not ask divides its own sum by the neighbourhood's count, as line 8 of Algorithm 1 does.
        epsilon: of the mechanisms that `simulate(privacy="paper")` installs, TreeAggregation on `statistics` and Exponential on
            `selection`; None: it installs none.

    Deviations from the paper: Q_n counts the records before round n, for those that ask over the neighbourhood and for the others over
    their own. An agent splits at most one cell and one leaf a round. In round 1, where ln n = 0, both happen. Where a leaf holds no item
    of the agent it is passed over. With Exponential on `selection`, indices are capped at 1 + sqrt(xi ln n / 8) + psi, which is also their
    stated sensitivity; without it the highest index is chosen, and ties are broken at random. With `biased` the counts are used without
    being asked for, so that it is for comparison only.
    """

    def __init__(
        self, threshold: float = 0.5, *, preset: str = "tuned", xi: float | None = None, psi: float | None = None,
        gamma: float | None = None, rate: float | None = None, optimal_dim: float = 0.0, eta: float = 0.01, bisect: bool = False,
        biased: bool = False, epsilon: float | None = None,
    ) -> None:  # fmt: skip
        self.threshold = number("threshold", threshold)
        self.preset = choice("preset", preset, PRESETS)
        values = PRESETS[self.preset]
        self.xi = number("xi", values["xi"] if xi is None else xi, above=0)
        self.psi = number("psi", values["psi"] if psi is None else psi, above=0)
        self.gamma = number("gamma", values["gamma"] if gamma is None else gamma, above=0, below=1)
        self.rate = number("rate", values["rate"] if rate is None else rate, above=0)
        self.optimal_dim = number("optimal_dim", optimal_dim, at_least=0, below=3)
        self.eta = number("eta", eta, at_least=0)
        self.bisect = bool(choice("bisect", bisect, (False, True)))
        self.biased = bool(choice("biased", biased, (False, True)))
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, above=0)

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        """TreeAggregation on the channel `statistics` and Exponential on `selection`, both of level epsilon."""
        if self.epsilon is None:
            raise ValueError(f"epsilon must be given for {type(self).__name__} to prescribe mechanisms, not None")
        return {"statistics": TreeAggregation(self.epsilon), "selection": Exponential(self.epsilon)}

    def begin(self, view: PublicView) -> None:
        fits = issubclass(view.world, Recommender) and view.params.actions == "item"
        self.require(fits, "the recommender with actions='item'", view)
        p = view.params
        self._layout, self._view, self._items = view.roles[self.role].layout, view, p.num_items
        self._shape, self._growth = (view.num_envs, p.num_agents), np.array([start for start, _ in p.growth], np.int64)
        self._neighbours: Bools = view.neighbours
        self.form_groups()
        self._codes = view.catalogue()[1]
        self._tree = ClusterTree(self._codes, p.context_dim, self._groups, self._owners, self.bisect, p.horizon)
        self._model_of = (np.arange(view.num_envs)[:, None] * len(self._owners) + self._follows).ravel()
        self._mean = np.zeros(len(self._tree.owner_actor))  # of the owners' own feedbacks where they acted last
        self._over = np.zeros(view.num_envs, np.bool_)
        self._knows_items = np.zeros(view.num_envs, np.bool_)
        self._bonus = self.psi * self.gamma ** np.arange(DEPTH + 1.0)
        self._explored = self.xi / (8 * self._bonus**2)  # times ln n: the Q from which a leaf is expanded
        power = (partition_rate(p.context_dim, self.optimal_dim) + self.eta) * (1 if self.bisect else p.context_dim)
        self._crowded = self.rate * 2.0 ** (power * np.arange(self._tree.deepest + 1))  # times ln n: the arrivals that split a cell
        statistics, counts = view.channels["statistics"], view.channels["counts"]
        self._exact = not any(c.mechanism or c.faulty for c in (statistics, counts))
        self._consult = view.consult
        self._noisy_selection = view.channels["selection"].mechanism is not None

    def form_groups(self) -> None:
        """Set whose records enter each model, bool[G, W], who keeps it, int[G], and which model each agent follows, int[W]."""
        agents = self._shape[1]
        self._groups = self._neighbours | np.eye(agents, dtype=np.bool_)
        self._owners = self._follows = np.arange(agents)
        self._senders = self._neighbours

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
        """The items that the agents show, int64[A], in contexts [B, W, d], with two uniform numbers for each, [A, 2]."""
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
        """Begin anew where a new run has begun, and learn which items there are."""
        tree, codes = self._tree, self._view.catalogue()[1]
        fresh = (time == 0) & ((tree.time > 0) | (codes is not self._codes))
        if fresh.any():
            tree.restart(fresh, codes)
            self._mean.reshape(len(fresh), -1)[fresh] = 0
            self._over[fresh] = self._knows_items[fresh] = False
            self._codes = codes
        if not self._knows_items.all() or np.isin(time, self._growth).any():
            tree.have(np.ones((*self._shape, self._items), np.bool_) if have is None else have)
            self._knows_items[:] = True

    def who_asks(self) -> Bools:
        """The agents that ask the third party, bool[A]."""
        return np.asarray((self._mean < self.threshold) & np.tile(self._neighbours.any(1), self._shape[0]))

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
        """The sums and counts [A, leaves] that agents know after some, bool[A], have asked; and who got an answer."""
        tree, (size, agents) = self._tree, self._shape
        asked = asks.reshape(size, agents)
        exact = self._rows_of(tree.sums, tree.counts)
        if self._exact:
            nothing = np.zeros((size, agents, 1), np.uint64)
            request = Request(asked, nothing, nothing, nothing, self._senders, self._merged, lambda who: ())
            _, _, answered = self._consult(request)
            sums, counts = exact
        else:
            width = tree.counts.shape[1]
            padded = [np.pad(x, ((0, 0), (0, width - x.shape[1]))).reshape(size, agents, width) for x in exact]
            names = tree.streams(self._model_of, self._row, width).reshape(size, agents, width)
            request = Request(
                asked, padded[0], padded[1].astype(np.int64), names, self._senders, self._merged, self.entered
            )
            told, counted, answered = self._consult(request)
            sums, counts = (x.reshape(size * agents, width)[:, : exact[0].shape[1]] for x in (told, counted))
            # Noise can make a count small or negative: then the leaf passes for unvisited.
            counts = np.where(counts >= 1, counts, 0)
            sums = np.clip(sums, 0, counts)
        asks = answered.reshape(-1)
        if asks.all():
            return sums, counts, asks
        own_sums, own_counts = self.own_statistics()
        return np.where(asks[:, None], sums, own_sums), np.where(asks[:, None], counts, own_counts), asks

    @property
    def _merged(self) -> Ints:
        return self._groups.sum(1)[self._follows]

    def entered(self, who: Bools) -> Entered:
        """The records that answers to the agents `who` bool[B, W] release for the first time."""
        actor = np.flatnonzero(who.ravel())
        return self._tree.entered(self._model_of[actor], self._row[actor], without_own=True)

    def indices(self, sums: Floats, counts: Floats, log_n: Floats) -> tuple[Floats, Bools]:
        """The index of each leaf, float64[A, leaves], inf without records; and the leaves that hold items of the agent, bool[A, leaves]."""
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
            cap = 1 + np.sqrt(self.xi * log_n / 8) + self.psi
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
        crowded = (tree.arrivals[row] >= self._crowded[level] * log_n) & (level < tree.deepest) & shown
        explored = (self._used[owner, leaf] >= self._explored[depth] * log_n) & (depth < DEPTH) & shown
        for model in np.flatnonzero(crowded):
            tree.split(int(model), int(node[model]))
        for model in np.flatnonzero(explored):
            if tree.held(int(owner[model]), int(model), int(leaf[model])) > 1:
                tree.expand(int(model), int(leaf[model]))

    # Many rounds at once.

    def fast(self, view: PublicView) -> RoundPlan | None:
        """`play`, the same bits as single steps."""
        return RoundPlan(self.play)

    def play(self, block: Block) -> tuple[Ints, Bools, Bools, Ints]:
        """See `RoundPlan`."""
        rounds, size, agents = block.luck.shape
        self._knows_items[:] = False
        self.look_around(np.full(size, float(block.time)), block.active)
        luck = self.rng.random((rounds, size, agents, 2)).reshape(rounds, size * agents, 2)
        if luck.size // 2 >= COMPILE_FROM and available() and self.compiles:
            items, likes, asked = play_rounds(
                self._tree, grid(block.contexts.reshape(rounds, size * agents, -1)), self.rules(rounds), block, luck, self._mean
            )
        else:
            items, likes, asked = self._play_plainly(block, luck)
        shape = (rounds, size, agents)
        messages = asked.reshape(shape).sum(0) @ self._senders.astype(np.int64)
        return items.reshape(shape), likes.reshape(shape), asked.reshape(shape), messages

    compiles = True  # whether the compiled loop plays it

    def rules(self, rounds: int) -> dict[str, Any]:
        """What the compiled loop must know, for the coming rounds."""
        log_n = np.log(self._tree.time[0] + 1.0 + np.arange(rounds))
        return {
            "model_of": self._model_of, "may_ask": np.tile(self._senders.any(1), self._shape[0]), "always_asks": ~self.leads(),
            "threshold": self.threshold, "biased": self.biased, "log_n": log_n, "wide": self.xi * log_n / 8, "bonus": self._bonus,
            "explored": self._explored, "crowded": self._crowded,
        }  # fmt: skip

    def leads(self) -> Bools:
        """The agents that keep the model that they use, bool[A]."""
        return np.asarray(self._tree.owner_actor[self._model_of] == np.arange(len(self._model_of)))

    def _play_plainly(self, block: Block, luck: Floats) -> tuple[Ints, Bools, Bools]:
        rounds, size, agents = block.luck.shape
        everyone, everywhere = np.ones(size * agents, np.bool_), np.ones(size, np.bool_)
        found = np.zeros((rounds, size * agents), np.int64), *np.zeros((2, rounds, size * agents), np.bool_)
        replica = np.arange(size)[:, None]
        self._consult = lambda request: (request.sums, request.counts, request.asked)
        try:
            for t in range(rounds):
                items = self.choose(block.contexts[t], luck[t])
                shown = items.reshape(size, agents)
                mu = means(block.family, block.contexts[t], block.items[replica, shown], block.instance)
                likes = (block.luck[t] < mu).ravel()
                for table, values in zip(found, (items, likes, self._shared), strict=True):
                    table[t] = values
                self.learn(self._tree.place[replica, shown].ravel(), likes, everyone, everywhere)
        finally:
            self._consult = self._view.consult
        return found


class DTPriDO(TPriDO):
    """T-PriDO of the agents in a dominating set of the graph, whom the others follow.

    A follower asks the third party for the statistics of its dominator's model, of the dominator's closed neighbourhood, in the cell of
    its own context, and chooses among the dominator's clusters those that hold its own items. The dominating set is greedy.

    Args:
        follow: what followers take over, the dominator's "model", or the very "leaf" that it chooses in the same round, for a context that
            is not theirs.
        threshold, preset, xi, psi, gamma, rate, optimal_dim, eta, bisect, biased, epsilon: as for `TPriDO`.

    Deviations from the paper: it lets followers "follow the dominator's selections", which serves users with what is good for another user;
    that is `follow="leaf"`. A follower whose dominator's leaf holds none of its items shows any item. Only the dominator's own visitors
    split cells.
    """

    def __init__(self, threshold: float = 0.5, *, follow: str = "model", **parameters: Any) -> None:
        super().__init__(threshold, **parameters)
        self.follow = choice("follow", follow, ("model", "leaf"))

    fast = TPriDO.fast

    @property
    def compiles(self) -> bool:  # type: ignore[override]
        return self.follow == "model"

    def form_groups(self) -> None:
        agents = self._shape[1]
        closed = self._neighbours | np.eye(agents, dtype=np.bool_)
        self._owners, self._follows = dominating_set(self._neighbours)
        self._groups = closed[self._owners]
        self._senders = self._groups[self._follows] & ~np.eye(agents, dtype=np.bool_)

    def who_asks(self) -> Bools:
        means = self._mean[self._model_of]
        bad = (means < self.threshold) | ~self.leads() if self.follow == "model" else (means < self.threshold) & self.leads()
        return np.asarray(bad & np.tile(self._senders.any(1), self._shape[0]))

    def entered(self, who: Bools) -> Entered:
        actor = np.flatnonzero(who.ravel())
        return self._tree.entered(self._model_of[actor], self._row[actor], without_own=bool(self.leads()[actor].all()))

    def selected(self, index: Floats, possible: Bools, log_n: Floats, luck: Floats) -> Ints:
        chosen = super().selected(index, possible, log_n, luck)
        if self.follow == "model":
            return chosen
        leader = self._tree.owner_actor[self._model_of]
        copied = chosen[leader]
        actor = np.arange(len(chosen))
        any_leaf = (possible.cumsum(1) > (luck * possible.sum(1)).astype(np.int64)[:, None]).argmax(1)
        return np.where(self.leads(), chosen, np.where(possible[actor, copied], copied, any_leaf))
