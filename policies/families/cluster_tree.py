"""The tree of T-PriDO: item clusters and context cells that are refined as records come in, and a round on it.

A model belongs to one agent: the leaves of its tree of item clusters, the leaves of its partition of the context space,
and for every pair (cell, leaf) the sum and number of feedbacks, for its group (itself included) and for itself alone.
Statistics are whole numbers, so they equal a recount of the raw history. The functions of a round are compiled after
enough rounds, and give the same bits uncompiled.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from taciturn.compiling.compiled import Functions, arrays_type
from taciturn.envs.recommender.geometry import CONTEXT_BITS, DEPTH
from taciturn.envs.recommender.sharing import Reader
from taciturn.policies.families.context_cells import deepest_level, digit_of
from taciturn.validation import Array, Bools, Floats, Ints

BEST, ANY = -1, -2  # ways to choose a leaf, see `judge`
LOOK_UP, JUDGE, LEARN = 1, 2, 4  # the parts of a round, see `play`
FUNCTIONS = Functions()  # `play`; its work is a number of agent-rounds
MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

RULES = (
    "bonus",  # by depth of a leaf: bonus of its index
    "explored",  # by depth: records, over ln n, that expand a leaf
    "crowded",  # by level of a cell: arrivals, over ln n, that split it
    "biased",  # whether actors that do not ask divide their own sum by the neighbourhood's count
    "bisect",  # whether cells are halved in one dimension at a time
    "deepest",  # deepest level of a cell
    "width",  # the number of sub-cells of a cell
    "num_agents",
    "owner_actor",  # [J]: the owner of each model
    "model_of",  # [A]: the model that each actor follows
    "pair_from",  # [J + 1]: where each model's group begins
    "pair_actor",  # in this list of the actors with records in it
)
ARRAYS: dict[str, tuple[str, Any]] = {
    # For K items in B replicas, in the order of their codes.
    "codes": ("BK", np.int64),
    "order": ("BK", np.int64),  # the items
    "place": ("BK", np.int64),  # the index of each item in this order
    "below": ("AP", np.int32),  # P = K + 1: number of each actor's items below each index
    # For J models, with at most L leaves.
    "leaf_lo": ("JL", np.int32),  # first index of a leaf
    "leaf_hi": ("JL", np.int32),  # index after its last
    "leaf_depth": ("JL", np.int32),
    "leaf_name": ("JL", np.int64),  # 2^h + i - 1
    "leaf_of": ("JK", np.int32),  # the leaf of each index
    "num_leaves": ("J", np.int64),
    "mean": ("J", np.float64),  # mean of the owner's own feedbacks in its last cell and leaf
    # For N cells, the first J of which are the roots.
    "node_model": ("N", np.int64),  # 1 + the model, 0: free
    "node_name": ("N", np.int64),  # 1, or the parent's name times its number of sub-cells, plus a digit
    "node_level": ("N", np.int64),
    "node_steps": ("Nd", np.uint16),  # a context in the cell
    "first": (
        "N",
        np.int64,
    ),  # the first sub-cell; 0: not split, -1: none made yet. Sub-cells are made when they get records
    "following": ("N", np.int64),  # the next sub-cell of the same cell, or 0
    "counts": ("NL", np.int32),  # number of records of a cell and a leaf
    "sums": ("NL", np.int32),  # sum of their feedbacks
    "own_counts": ("NL", np.int32),  # number of the owner's records
    "own_sums": ("NL", np.int32),
    "arrivals": ("N", np.int64),  # the owner's records
    "released": ("RNL", np.int32),  # by reader: all records before this round have been released (`Request.entered`)
    "size": ("2", np.int64),  # number of used cells, and the most leaves of a model
    # Records of A actors in T rounds.
    "time": ("B", np.int64),  # rounds so far
    "log_place": ("AT", np.int32),  # index of the shown item, -1: nothing
    "log_likes": ("AT", np.int8),
    "log_steps": ("ATd", np.uint16),  # the contexts
    # A round.
    "contexts": ("Ad", np.float32),
    "steps": ("Ad", np.int64),  # the contexts in steps of 2^-CONTEXT_BITS
    "node": ("A", np.int64),  # their cells, -1 where there are no records yet
    "answered": ("A", np.bool_),  # actors with their group's statistics, not only their model's owner's
    "known_sums": ("AL", np.float64),  # statistics known to the actors
    "known_counts": ("AL", np.float64),
    "index": ("AL", np.float64),  # indices computed from them
    "possible": ("AL", np.bool_),  # the leaves with items of the actor
    "luck": ("A2", np.float64),  # uniform
    "log_n": ("B", np.float64),
    "wide": ("B", np.float64),  # xi ln n / 8
    "leaf": ("A", np.int64),  # the chosen leaf, see `judge`
    "item": ("A", np.int64),  # the shown item
    "reward": ("A", np.float64),
    "live": ("B", np.bool_),  # the replicas that play
}
Tree = arrays_type((*RULES, *ARRAYS), "Tree")


def shift_of(tree: Any, level: int, i: int) -> int:
    """log2 of the side of a cell at a level in dimension i, in steps."""
    dims = tree.steps.shape[1]
    return CONTEXT_BITS - ((level + dims - 1 - i) // dims if tree.bisect else level)


def sub_cell(tree: Any, node: int, digit: int) -> int:
    """The sub-cell of a split cell; 0 or less if there is none."""
    kid = tree.first[node]
    while kid > 0 and tree.node_name[kid] % tree.width != digit:
        kid = tree.following[kid]
    return int(kid)


def walk(tree: Any, node: int, steps: Array) -> int:
    """The cell that contains a context, starting from a root; -1 if it has no records."""
    while tree.first[node] != 0:
        node = sub_cell(tree, node, digit_of(steps, tree.node_level[node], tree.bisect))
        if node <= 0:
            return -1
    return node


def look_up(tree: Any) -> None:
    """Set the actors' statistics of each leaf in the cells of their contexts: their group's statistics if they are
    `answered`, else the statistics of their model's owner alone."""
    for a in range(len(tree.node)):
        m = tree.model_of[a]
        for i in range(tree.steps.shape[1]):
            tree.steps[a, i] = min(int(tree.contexts[a, i] * (1 << CONTEXT_BITS)), (1 << CONTEXT_BITS) - 1)
        tree.node[a] = node = walk(tree, m, tree.steps[a])
        for s in range(tree.index.shape[1]):
            tree.known_sums[a, s], tree.known_counts[a, s] = 0.0, 0.0
            if node >= 0 and s < tree.num_leaves[m]:
                whole = tree.answered[a]
                tree.known_sums[a, s] = tree.sums[node, s] if whole else tree.own_sums[node, s]
                tree.known_counts[a, s] = tree.counts[node, s] if whole or tree.biased else tree.own_counts[node, s]


def judge(tree: Any) -> None:
    """Compute the index of each leaf, inf without records; the leaf that each actor chooses; and the item that it
    shows.

    `leaf` gives the rule of choice: BEST, the highest index, with ties broken at random; ANY, a random one; or a given
    leaf.
    """
    for a in range(len(tree.leaf)):
        b, m, below = a // tree.num_agents, tree.model_of[a], tree.below[a]
        best, ties, some = -np.inf, 0, 0
        for s in range(tree.index.shape[1]):
            tree.possible[a, s] = s < tree.num_leaves[m] and below[tree.leaf_hi[m, s]] > below[tree.leaf_lo[m, s]]
            q, value = tree.known_counts[a, s], np.inf
            if q > 0:
                value = tree.known_sums[a, s] / q + np.sqrt(tree.wide[b] / q) + tree.bonus[tree.leaf_depth[m, s]]
            tree.index[a, s] = value
            if tree.possible[a, s]:
                some += 1
                if value > best:
                    best, ties = value, 0
                if value == best:
                    ties += 1
        slot = tree.leaf[a]
        if slot < 0:
            anything = slot == ANY
            turn, slot = int(tree.luck[a, 0] * (some if anything else ties)), 0
            for s in range(tree.index.shape[1]):
                if tree.possible[a, s] and (anything or tree.index[a, s] == best):
                    if turn == 0:
                        slot = s
                    turn -= 1
        tree.leaf[a] = slot
        start, end = tree.leaf_lo[m, slot], tree.leaf_hi[m, slot]
        nth = below[start] + int(tree.luck[a, 1] * (below[end] - below[start]))
        while end - start > 1:  # find the index with n of the actor's items below it that holds the next one
            middle = (start + end) // 2
            start, end = (middle, end) if below[middle] <= nth else (start, middle)
        tree.item[a] = tree.order[b, start]


def enter(tree: Any, m: int, node: int, leaf: int, a: int, like: int, by: int) -> None:
    """Add a record of an actor to a cell and a leaf (`by` 1), or remove it (`by` -1)."""
    tree.counts[node, leaf] += by
    tree.sums[node, leaf] += by * like
    if tree.owner_actor[m] == a:
        tree.own_counts[node, leaf] += by
        tree.own_sums[node, leaf] += by * like
        tree.arrivals[node] += by


def cell_for(tree: Any, m: int, node: int, steps: Array) -> int:
    """The cell of a record, starting from one that contains it; missing sub-cells are made."""
    while tree.first[node] != 0:
        digit = digit_of(steps, tree.node_level[node], tree.bisect)
        kid = sub_cell(tree, node, digit)
        if kid <= 0:
            kid = tree.size[0]
            while tree.node_model[kid] > 0:
                kid += 1
            tree.size[0] = kid + 1
            tree.node_model[kid], tree.node_level[kid] = 1 + m, tree.node_level[node] + 1
            tree.node_name[kid] = tree.node_name[node] * tree.width + digit
            for i in range(len(steps)):
                tree.node_steps[kid, i] = steps[i]
            tree.following[kid] = max(tree.first[node], 0)
            tree.first[kid], tree.first[node] = 0, kid
        node = kid
    return node


def split(tree: Any, m: int, node: int, when: int) -> None:
    """Split a cell into sub-cells, only where there are records, and recount them."""
    tree.first[node] = -1
    for s in range(tree.counts.shape[1]):
        tree.counts[node, s] = tree.sums[node, s] = tree.own_counts[node, s] = tree.own_sums[node, s] = 0
    for p in range(tree.pair_from[m], tree.pair_from[m + 1]):
        a = tree.pair_actor[p]
        for t in range(when):
            inside, i, steps = tree.log_place[a, t] >= 0, 0, tree.log_steps[a, t]
            while inside and i < len(steps):
                inside = int(steps[i] ^ tree.node_steps[node, i]) >> shift_of(tree, tree.node_level[node], i) == 0
                i += 1
            if inside:
                kid = cell_for(tree, m, node, steps)
                enter(tree, m, kid, tree.leaf_of[m, tree.log_place[a, t]], a, tree.log_likes[a, t], 1)


def expand(tree: Any, m: int, leaf: int, when: int) -> None:
    """Replace a leaf by its two children, and recount its records. The left child takes the leaf's index, the right
    child a new one."""
    new, codes = tree.num_leaves[m], tree.codes[tree.owner_actor[m] // tree.num_agents]
    depth, name = tree.leaf_depth[m, leaf] + 1, tree.leaf_name[m, leaf] * 2
    mark = ((name + 1) ^ (np.int64(1) << depth)) << (DEPTH - depth)
    middle, hi = tree.leaf_lo[m, leaf], tree.leaf_hi[m, leaf]
    while middle < hi and codes[middle] < mark:
        middle += 1
    tree.num_leaves[m] += 1
    tree.size[1] = max(tree.size[1], tree.num_leaves[m])
    tree.leaf_hi[m, leaf], tree.leaf_lo[m, new], tree.leaf_hi[m, new] = middle, middle, hi
    tree.leaf_depth[m, leaf] = tree.leaf_depth[m, new] = depth
    tree.leaf_name[m, leaf], tree.leaf_name[m, new] = name, name + 1
    for k in range(middle, hi):
        tree.leaf_of[m, k] = new
    for reader in range(len(tree.released)):
        for node in range(len(tree.node_model)):
            if tree.node_model[node] == 1 + m:
                tree.released[reader, node, leaf] = tree.released[reader, node, new] = 0
    for p in range(tree.pair_from[m], tree.pair_from[m + 1]):
        a = tree.pair_actor[p]
        for t in range(when):
            if middle <= tree.log_place[a, t] < hi:
                node, like = walk(tree, m, tree.log_steps[a, t]), tree.log_likes[a, t]
                enter(tree, m, node, new, a, like, 1)
                enter(tree, m, node, leaf, a, like, -1)


def learn(tree: Any) -> None:
    """Add the records of the round already counted in `time`, then split cells and expand leaves, at most one per
    model.

    Actors that show an item that they lack, and actors in replicas that are not live, have no record in this round.
    """
    for a in range(len(tree.item)):
        b = a // tree.num_agents
        if tree.live[b]:
            now, place = tree.time[b] - 1, tree.place[b, tree.item[a] % tree.place.shape[1]]
            tree.log_place[a, now] = place if tree.below[a, place + 1] > tree.below[a, place] else -1
            tree.log_likes[a, now] = tree.reward[a] > 0
            for i in range(tree.steps.shape[1]):
                tree.log_steps[a, now, i] = tree.steps[a, i]
    for m in range(len(tree.owner_actor)):
        owner = tree.owner_actor[m]
        b = owner // tree.num_agents
        now = tree.time[b] - 1
        for p in range(tree.pair_from[m], tree.pair_from[m + 1] if tree.live[b] else 0):
            a = tree.pair_actor[p]
            if tree.log_place[a, now] >= 0:
                node, s = cell_for(tree, m, m, tree.steps[a]), tree.leaf_of[m, tree.log_place[a, now]]
                enter(tree, m, node, s, a, tree.log_likes[a, now], 1)
        if tree.live[b] and tree.log_place[owner, now] >= 0:
            refine(tree, m, owner, now, tree.log_n[b])


def refine(tree: Any, m: int, owner: int, now: int, log_n: float) -> None:
    """Split the cell and expand the leaf of the owner's record in this round, if they have enough."""
    node, s = walk(tree, m, tree.steps[owner]), tree.leaf_of[m, tree.log_place[owner, now]]
    tree.mean[m] = tree.own_sums[node, s] / tree.own_counts[node, s]
    level, depth = tree.node_level[node], tree.leaf_depth[m, s]
    crowd, most = tree.crowded[level], tree.explored[depth]  # inf: never, also if ln n is 0
    if level < tree.deepest and crowd < np.inf and tree.arrivals[node] >= crowd * log_n:
        split(tree, m, node, now + 1)
    held = tree.below[owner, tree.leaf_hi[m, s]] - tree.below[owner, tree.leaf_lo[m, s]]
    if depth < DEPTH and held > 1 and most < np.inf and tree.known_counts[owner, s] >= most * log_n:
        expand(tree, m, s, now + 1)


class Round(NamedTuple):
    """The argument of `play`: a `Tree`, and the bits of the parts of a round."""

    tree: Any
    what: int


def play(given: Any) -> None:
    """Play parts of a round."""
    if given.what & LOOK_UP:
        look_up(given.tree)
    if given.what & JUDGE:
        judge(given.tree)
    if given.what & LEARN:
        learn(given.tree)


class ClusterTree:
    """The models of W agents in B replicas: of G owners, J = B * G models, and A = B * W actors.

    Args:
        codes: item codes, [B, K].
        dims: dimensions of contexts, d.
        groups: [G, W], a SciPy CSR array; row g has an entry for each agent with records in model g, in increasing
            order.
        owners: int[G], the agent that keeps each model.
        longest: rounds of a run.
        **rules: the first five `RULES`, and `model_of`.

    Attributes:
        arrays: the `Tree`; its fields are attributes here, too.
    """

    def __init__(self, codes: Ints, dims: int, groups: Any, owners: Ints, longest: int, **rules: Any) -> None:
        (size, items), (models, agents) = codes.shape, groups.shape
        self.owners, self.longest, self.readers = owners, longest, dict[Reader, int]()
        replica, j, a = np.arange(size)[:, None], size * models, size * agents
        bisect = rules["bisect"]
        rules |= {"deepest": deepest_level(dims, bisect), "width": 2 if bisect else 1 << dims, "num_agents": agents}
        rules["owner_actor"] = (replica * agents + owners).ravel().astype(np.int64)
        rules["pair_from"] = np.append(0, replica * groups.nnz + groups.indptr[1:]).astype(np.int64)
        rules["pair_actor"] = (replica * agents + groups.indices).ravel().astype(np.int64)
        sizes = {"A": a, "B": size, "J": j, "K": items, "P": items + 1, "N": 4 * j, "L": 16, "T": 64}
        sizes |= {"d": dims, "R": 0, "2": 2}
        made = {name: np.zeros([sizes[axis] for axis in axes], kind) for name, (axes, kind) in ARRAYS.items()}
        self.arrays = Tree(**rules, **made)
        self.arrays.node_model[:j], self.arrays.node_name[:j], self.arrays.size[:] = np.arange(1, j + 1), 1, (j, 2)
        for b in range(size):
            self._begin(b, codes[b])

    def __getattr__(self, name: str) -> Any:
        if name in Tree._fields:
            return getattr(self.arrays, name)
        raise AttributeError(name)

    def play(self, what: int) -> None:
        """Call `play`."""
        FUNCTIONS.play(play, Round(self.arrays, what), len(self.arrays.luck))

    def _begin(self, replica: int, codes: Ints) -> None:
        """Begin the trees of a replica with the clusters (1, 1) and (1, 2)."""
        t, order = self.arrays, codes.argsort(kind="stable")
        t.order[replica], t.codes[replica] = order, codes[order]
        t.place[replica, order] = np.arange(len(order))
        middle = int(np.searchsorted(t.codes[replica], 1 << (DEPTH - 1)))
        mine = slice(replica * len(self.owners), (replica + 1) * len(self.owners))
        t.leaf_lo[mine, :2], t.leaf_hi[mine, :2] = (0, middle), (middle, len(order))
        t.leaf_name[mine], t.num_leaves[mine] = 0, 2  # remove names of an earlier run
        t.leaf_depth[mine, :2], t.leaf_name[mine, :2] = 1, (2, 3)
        t.leaf_of[mine, :middle], t.leaf_of[mine, middle:], t.mean[mine] = 0, 1, 0

    def restart(self, fresh: Bools, codes: Ints) -> None:
        """Restart in the replicas `fresh` bool[B], with a catalogue of these item codes [B, K]."""
        t, self.time[fresh] = self.arrays, 0
        nodes = np.flatnonzero((t.node_model > 0) & fresh[np.maximum(t.node_model - 1, 0) // len(self.owners)])
        for table in (t.counts, t.sums, t.own_counts, t.own_sums, *t.released, t.arrivals, t.first):
            table[nodes] = 0
        gone = nodes[nodes >= len(t.owner_actor)]
        t.node_model[gone], t.size[0] = 0, min([t.size[0], *gone])
        for b in np.flatnonzero(fresh).tolist():
            self._begin(b, codes[b])

    def have(self, active: Bools) -> None:
        """Record the agents' items, bool[B, W, K]."""
        by_place = np.take_along_axis(active, self.order[:, None], 2).reshape(-1, active.shape[2])
        np.cumsum(by_place, axis=1, out=self.below[:, 1:])

    def boxes(self, model: int) -> Floats:
        """The cells of a model's partition by their corners, float64[C, 2, d], low and high; sub-cells without records
        are included."""
        t, dims, result = self.arrays, self.steps.shape[1], list[Any]()
        left = [(np.zeros(dims), np.ones(dims), model)]
        while left:
            low, high, node = left.pop()
            if node < 0 or t.first[node] == 0:
                result.append((low, high))
                continue
            halved = (np.arange(dims) == t.node_level[node] % dims) | (not t.bisect)
            for digit in range(t.width):
                upper = halved & (digit >> np.arange(dims) * (not t.bisect) & 1 > 0)
                middle, kid = (low + high) / 2, sub_cell(t, node, digit)
                part = np.where(upper, middle, low), np.where(halved & ~upper, middle, high)
                left.append((*part, kid if kid > 0 else -1))
        return np.array(result)

    def streams(self, models: Ints, nodes: Ints, width: int) -> Array:
        """The names of the streams of these cells in these models, uint64[n, width]."""
        owner, cell = self.owners[models % len(self.owners)], np.where(nodes >= 0, self.node_name[nodes], 0)
        return _name(owner[:, None], cell[:, None], self.leaf_name[models, :width])

    def entered(self, models: Ints, nodes: Ints, reader: Reader) -> Iterator[tuple[Array, Array, Array]]:
        """The records that answers about these cells release to `reader` for the first time in their streams: replicas,
        agents and rounds.

        They then count as released. The owner's own records are included: it knows them, but other readers of its
        answers do not.
        """
        if reader not in self.readers:
            self.readers[reader] = len(self.readers)
            self._grow("R", 1)
        t, until = self.arrays, self.released[self.readers[reader]]
        for model, node in dict.fromkeys(zip(models.tolist(), nodes.tolist(), strict=True)):
            if node < 0:
                continue
            width, when = int(t.num_leaves[model]), int(t.time[model // len(self.owners)])
            before, actors = until[node, :width], t.pair_actor[t.pair_from[model] : t.pair_from[model + 1]]
            since = int(before.min())
            places = t.log_place[actors, since:when]
            fresh = (places >= 0) & (np.arange(since, when) >= before[t.leaf_of[model, places]])
            member, rounds = np.nonzero(fresh)
            actor, rounds = actors[member], rounds + since
            shifts = [shift_of(t, t.node_level[node], i) for i in range(t.steps.shape[1])]
            here = (t.log_steps[actor, rounds] >> shifts == t.node_steps[node] >> shifts).all(1)
            replica, agent = np.divmod(actor[here], t.num_agents)
            yield replica, agent, rounds[here]
            until[node, :width] = when

    def make_room(self, rounds: int) -> None:
        """Make room for a further round, after at most `rounds`."""
        t = self.arrays
        spare = len(t.pair_actor) + len(t.owner_actor) * t.width
        if np.count_nonzero(t.node_model == 0) < spare:
            self._grow("N", max(len(t.first), spare))
        if rounds >= (now := t.log_place.shape[1]):
            self._grow("T", min(max(2 * now, rounds + 1), max(self.longest, rounds + 1)) - now)
        if t.size[1] + 1 > t.leaf_lo.shape[1]:
            self._grow("L", t.leaf_lo.shape[1])

    def _grow(self, axis: str, more: int) -> None:
        """Extend the arrays along an axis with zeros."""
        for name, (axes, _) in ARRAYS.items():
            if axis in axes:
                longer = np.pad(getattr(self.arrays, name), [(0, more * (one == axis)) for one in axes])
                self.arrays = self.arrays._replace(**{name: longer})


def _name(*parts: Array) -> Array:
    """63 bits that name a stream by its model, cell and leaf, uint64 of the broadcast shape of the parts."""
    h: Any = np.uint64(0)
    for part in parts:
        h = (h ^ part.astype(np.uint64)) + MIX[0]
        h = (h ^ (h >> np.uint64(30))) * MIX[1]
        h = (h ^ (h >> np.uint64(27))) * MIX[2]
        h = h ^ (h >> np.uint64(31))
    return h >> np.uint64(1)
