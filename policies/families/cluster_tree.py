"""The statistics of T-PriDO: trees of item clusters and cells of contexts that are refined as records come in.

A model belongs to one agent: the leaves of its tree of item clusters, the leaves of its partition of the context space,
and for every pair (cell, leaf) the sum and number of feedbacks, of its group (itself included) and of itself alone. All
models, of all replicas, share flat arrays. Statistics are whole numbers, so they equal a recount of the raw history.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from taciturn.envs.recommender.geometry import CONTEXT_BITS, DEPTH, deepest_level
from taciturn.envs.recommender.sharing import Reader
from taciturn.policies.families.cluster_rounds import Rules, Tree, call, expand, find
from taciturn.validation import Array, Bools, Floats, Ints

MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def _name(*parts: Array) -> Array:
    """63 bits that name a stream by its model, cell and leaf, uint64 of the broadcast shape of the parts."""
    h: Any = np.uint64(0)
    for part in parts:
        h = (h ^ part.astype(np.uint64)) + MIX[0]
        h = (h ^ (h >> np.uint64(30))) * MIX[1]
        h = (h ^ (h >> np.uint64(27))) * MIX[2]
        h = h ^ (h >> np.uint64(31))
    return h >> np.uint64(1)


class ClusterTree:
    """The models of W agents in B replicas: J = B * G models, A = B * W actors, R rows of statistics and at most L
    leaves.

    Args:
        codes: of the items, [B, K].
        dims: dimensions of contexts, d.
        groups: [G, W], a SciPy CSR array; row g has an entry for each agent whose records enter model g, in increasing
            order.
        owners: int[G], the agent that keeps each model.
        rules: of the policy.
        bisect: whether cells are halved in one dimension at a time.
        longest: rounds of a run.

    Attributes:
        arrays: `Tree`, of these:
        leaf_lo, leaf_hi: int32[J, L], the items of a leaf by their places in the order of their codes.
        leaf_depth: int32[J, L]; `leaf_name` int64[J, L], 2^h + i - 1.
        num_leaves: int64[J].
        leaf_of: int32[J, K], the leaf of each item, by its place.
        order: int64[B, K], the items by place; `place` int64[B, K], the place of each item.
        own: int32[A, most], the places of each actor's items; `below` int32[A, K + 1], how many lie below each place.
        node_level, node_row, node_kids, node_name: of the cells; the first J are the roots. A cell has either a row of
            statistics or kids.
        node_low: int64[nodes, d], its lower corner.
        kids: int32[splits, 2^d], the sub-cells of a cell that was split, -1 where there is none yet.
        counts, sums, own_counts, own_sums: int32[R, L].
        arrivals: int64[R], the owner's records in the cell.
        released: by reader (see `Request.entered`), int32[readers, R, L], the round before which all records of a
            stream have been released to it.
        log_place: int32[A, T], log_steps: uint16[A, T, d], log_likes: int8[A, T], the records.
        time: int64[B], rounds recorded.
        pair_model, pair_actor: int64[P], a model and an actor whose records enter it; the pairs of model m begin at
            `pair_from[m]`.
    """

    def __init__(
        self,
        codes: Ints,
        dims: int,
        groups: Any,
        owners: Ints,
        rules: Rules,
        bisect: bool = False,
        longest: int = 1024,
    ) -> None:
        size, items = codes.shape
        models, agents = groups.shape
        self.dims, self.rules, self.owners, self.longest = dims, rules, owners, longest
        self.num_agents, self.num_models = agents, models
        self.width = 2 if bisect else 1 << dims
        self.readers: dict[Reader, int] = {}
        j, a, leaves = size * models, size * agents, 16
        rows, replica, members = 4 * j, np.arange(size)[:, None], np.diff(groups.indptr)
        pair_model = (replica * models + np.repeat(np.arange(models), members)).ravel()

        def ints(*shape: int, fill: int = 0, kind: Any = np.int32) -> Any:
            return np.full(shape, fill, kind)

        long: Any = np.int64
        arrays: Any = (
            *(ints(j, leaves) for _ in range(3)), ints(j, leaves, kind=long), ints(j, kind=long), ints(j, items),
            ints(rows), ints(rows, fill=-1), ints(rows, fill=-1), ints(rows, kind=long), ints(rows, dims, kind=long),
            ints(4, self.width, fill=-1), *(ints(rows, leaves) for _ in range(4)), ints(0, rows, leaves),
            ints(rows, kind=long), ints(rows, fill=-1), ints(rows, fill=1, kind=long),
            ints(a, 64), ints(a, 64, kind=np.int8), ints(a, 64, dims, kind=np.uint16),
            *(ints(size, items, kind=long) for _ in range(3)), ints(a, 1), ints(a, items + 1),
            pair_model, (replica * agents + groups.indices).ravel().astype(long),
            np.append(0, np.cumsum(np.tile(members, size))).astype(long), np.zeros_like(pair_model), ints(a, kind=long),
            (replica * agents + owners).ravel().astype(long), ints(size, kind=long), ints(rows, kind=long),
            np.array([j, j, 0, 0, 0, 2]), bisect, deepest_level(dims, bisect), agents, models,
        )  # fmt: skip
        self.arrays = Tree(*arrays)
        self.arrays.node_name[:j], self.arrays.node_row[:j], self.arrays.row_model[:j] = 1, np.arange(j), np.arange(j)
        for b in range(size):
            self._begin(b, codes[b])

    def __getattr__(self, name: str) -> Any:
        if name in Tree._fields:
            return getattr(self.arrays, name)
        raise AttributeError(name)

    def _begin(self, replica: int, codes: Ints) -> None:
        """Begin the trees of a replica with the clusters (1, 1) and (1, 2)."""
        t, order = self.arrays, codes.argsort(kind="stable")
        t.order[replica], t.codes[replica] = order, codes[order]
        t.place[replica, order] = np.arange(len(order))
        middle = int(np.searchsorted(t.codes[replica], 1 << (DEPTH - 1)))
        mine = slice(replica * self.num_models, (replica + 1) * self.num_models)
        t.leaf_name[mine] = 0  # of an earlier run
        t.leaf_lo[mine, :2], t.leaf_hi[mine, :2] = (0, middle), (middle, len(order))
        t.leaf_depth[mine, :2], t.leaf_name[mine, :2], t.num_leaves[mine] = 1, (2, 3), 2
        t.leaf_of[mine, :middle], t.leaf_of[mine, middle:] = 0, 1

    def restart(self, fresh: Bools, codes: Ints) -> None:
        """Start afresh in the replicas `fresh` bool[B], with a catalogue of these item codes [B, K]."""
        t, size = self.arrays, self.arrays.size
        for b in np.flatnonzero(fresh).tolist():
            t.time[b] = 0
            for model in range(b * self.num_models, (b + 1) * self.num_models):
                for row in np.flatnonzero(t.row_model[: size[1]] == model):
                    for table in (t.counts, t.sums, t.own_counts, t.own_sums, *t.released):
                        table[row] = 0
                    t.arrivals[row], t.row_model[row], t.free[size[3]] = 0, -1, row
                    size[3] += 1
                size[3] -= 1  # a model with cells had at least one row
                # The old cells below the root stay in memory, unreachable.
                root = t.free[size[3]]
                t.node_kids[model], t.node_row[model], t.row_model[root], t.row_name[root] = -1, root, model, 1
            self._begin(b, codes[b])

    def have(self, active: Bools) -> None:
        """Note which items the agents have, bool[B, W, K]."""
        size, agents, items = active.shape
        by_place = np.take_along_axis(active, self.order[:, None], 2).reshape(-1, items)
        np.cumsum(by_place, axis=1, out=self.below[:, 1:])
        own = np.zeros((size * agents, max(int(self.below[:, -1].max()), 1)), np.int32)
        for actor, there in enumerate(by_place):
            places = np.flatnonzero(there)
            own[actor, : len(places)] = places
        self.arrays = self.arrays._replace(own=own)

    def rows(self, models: Ints, steps: Array) -> Ints:
        """The rows of statistics of contexts [P, d], int64[P], -1 where there are no records yet."""
        found = np.zeros(len(models), np.int64)
        call(find, self.arrays, np.ascontiguousarray(models), np.ascontiguousarray(steps, np.int64), found)
        return found

    def expand(self, model: int, leaf: int) -> None:
        """Expand a leaf before the first round."""
        self.make_room(0)
        expand(self.arrays, model, leaf, 0, int(self.owner_actor[model]))

    def shifts(self, level: int) -> list[int]:
        """log2 of the sides of a cell of that level, in steps."""
        if not self.bisect:
            return [CONTEXT_BITS - level] * self.dims
        return [CONTEXT_BITS - (level + self.dims - 1 - i) // self.dims for i in range(self.dims)]

    def boxes(self, model: int) -> Floats:
        """The cells of a model's partition by their corners, float64[C, 2, d], low and high; sub-cells without records
        are among them."""
        found, left = [], [(self.node_low[model], int(self.node_level[model]), model)]
        while left:
            low, level, node = left.pop()
            if node < 0 or self.node_kids[node] < 0:
                found.append((low, low + (1 << np.array(self.shifts(level)))))
                continue
            shifts, kids = np.array(self.shifts(level + 1)), self.kids[self.node_kids[node]]
            for digit in range(self.width):
                halved = np.where(np.arange(self.dims) == level % self.dims, digit, 0)
                bits = halved if self.bisect else digit >> np.arange(self.dims) & 1
                left.append((low + (bits << shifts), level + 1, int(kids[digit])))
        return np.array(found) / 2.0**CONTEXT_BITS

    # Accounting of answers.

    def streams(self, models: Ints, rows: Ints, width: int) -> Array:
        """The names of the streams of rows of models, uint64[n, width]."""
        owner = self.owners[models % self.num_models]
        cell = np.where(rows >= 0, self.row_name[rows], 0)
        return _name(owner[:, None], cell[:, None], self.leaf_name[models, :width])

    def entered(self, models: Ints, rows: Ints, reader: Reader) -> Iterator[tuple[Array, Array, Array]]:
        """The records that answers about these rows release to `reader` for the first time in their streams: replicas,
        agents and rounds.

        They then count as released. The owner's own records are included: it knows them, but other readers of its
        answers do not.
        """
        if reader not in self.readers:
            self.readers[reader] = len(self.readers)
            more = np.zeros((1, *self.counts.shape), np.int32)
            self.arrays = self.arrays._replace(released=np.concatenate([self.released, more]))
        until = self.released[self.readers[reader]]
        for model, row in dict.fromkeys(zip(models.tolist(), rows.tolist(), strict=True)):
            if row < 0:
                continue
            width, when = int(self.num_leaves[model]), int(self.time[model // self.num_models])
            before, actors = until[row, :width], self.pair_actor[self.pair_from[model] : self.pair_from[model + 1]]
            since = int(before.min())
            if since < when:
                places = self.log_place[actors, since:when]
                fresh = (places >= 0) & (np.arange(since, when) >= before[self.leaf_of[model, places]])
                member, rounds = np.nonzero(fresh)
                actor, rounds = actors[member], rounds + since
                here = self.rows(np.full(rounds.size, model), self.log_steps[actor, rounds]) == row
                replica, agent = np.divmod(actor[here], self.num_agents)
                yield replica, agent, rounds[here]
            until[row, :width] = when

    # Memory.

    def make_room(self, rounds: int) -> None:
        """Make room for a round, of which there have been `rounds` at most before."""
        t, longer = self.arrays, dict[str, Any]()
        nodes, rows, splits, _, _, leaves = t.size.tolist()
        models, pairs = len(t.owner_actor), len(t.pair_model)
        spare = pairs + models * self.width
        if nodes + spare > len(t.node_level):
            fills = {"node_level": 0, "node_row": -1, "node_kids": -1, "node_name": 0, "node_low": 0}
            longer |= {name: _longer(getattr(t, name), fill, nodes + spare) for name, fill in fills.items()}
        if rows + spare > len(t.counts):
            tables = ("counts", "sums", "own_counts", "own_sums", "arrivals", "row_name", "free")
            longer |= {name: _longer(getattr(t, name), 0, rows + spare) for name in tables}
            longer["row_model"] = _longer(t.row_model, -1, rows + spare)
            longer["released"] = np.swapaxes(_longer(np.swapaxes(t.released, 0, 1), 0, rows + spare), 0, 1)
        if splits + models > len(t.kids):
            longer["kids"] = _longer(t.kids, -1, splits + models)
        if rounds >= t.log_place.shape[1]:
            room = min(max(2 * t.log_place.shape[1], rounds + 1), max(self.longest, rounds + 1))
            for name in ("log_place", "log_likes", "log_steps"):
                old = getattr(t, name)
                longer[name] = np.zeros((old.shape[0], room, *old.shape[2:]), old.dtype)
                longer[name][:, : old.shape[1]] = old
        if leaves + 1 > t.leaf_lo.shape[1]:
            for name in ("leaf_lo", "leaf_hi", "leaf_depth", "leaf_name", *TABLES):
                table = longer.get(name, getattr(t, name))
                longer[name] = np.concatenate([table, np.zeros_like(table)], -1)
        if longer:
            made: Any = {name: np.ascontiguousarray(array) for name, array in longer.items()}
            self.arrays = t._replace(**made)


TABLES = ("counts", "sums", "own_counts", "own_sums", "released")


def _longer(array: Array, fill: int, least: int) -> Array:
    """The array with at least twice as much room, filled with `fill`."""
    more: Any = np.full((max(2 * len(array), least) - len(array), *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array, more])
