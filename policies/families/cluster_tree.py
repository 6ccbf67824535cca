"""The statistics of T-PriDO: trees of item clusters and cells of contexts that are refined as records come in.

A model belongs to one agent: the leaves of its tree of item clusters, the leaves of its partition of the context space,
and for every pair (cell, leaf) the sum and number of feedbacks, of its group (itself included) and of itself alone. All
models, of all replicas, share flat arrays. Statistics are whole numbers, so they equal a recount of the raw history.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from taciturn.envs.recommender.geometry import CONTEXT_BITS, DEPTH, cell_digits, deepest_level
from taciturn.envs.recommender.sharing import Reader
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
        bisect: whether cells are halved in one dimension at a time.
        longest: rounds of a run.

    Attributes:
        leaf_lo, leaf_hi: int32[J, L], the items of a leaf by their places in the order of their codes.
        leaf_depth: int32[J, L]; `leaf_name` int64[J, L], 2^h + i - 1.
        num_leaves: int64[J].
        leaf_of: int32[J, K], the leaf of each item, by its place.
        place: int64[B, K], of each item; `order` int64[B, K], the items by place.
        node_level, node_row, node_kids, node_name: of the cells; the first J are the roots. A cell has either a row of
            statistics or kids.
        node_low: int64[nodes, d], its lower corner.
        kids: int32[splits, 2^d], the sub-cells of a cell that was split, -1 where there is none yet.
        counts, sums, own_counts, own_sums: int32[R, L].
        arrivals: int64[R], the owner's records in the cell.
        released: by reader (see `Request.entered`), int32[R, L], the round before which all records of a stream have
            been released to it.
        log_place: int32[A, T], log_steps: uint16[A, T, d], log_likes: int8[A, T], the records.
        time: int64[B], rounds recorded.
        pair_model, pair_actor: int64[P], a model and an actor whose records enter it; the pairs of model m begin at
            `pair_from[m]`.
    """

    def __init__(
        self, codes: Ints, dims: int, groups: Any, owners: Ints, bisect: bool = False, longest: int = 1024
    ) -> None:
        size, items = codes.shape
        models, agents = groups.shape
        self.dims, self.bisect, self.deepest = dims, bisect, deepest_level(dims, bisect)
        self.owners, self.num_agents, self.num_models = owners, agents, models
        self.longest = longest
        j, a = size * models, size * agents
        self.width = 2 if bisect else 1 << dims
        self.order = codes.argsort(-1, kind="stable")
        self.codes = np.take_along_axis(codes, self.order, -1)
        self.place = np.empty_like(self.order)
        np.put_along_axis(self.place, self.order, np.broadcast_to(np.arange(items), codes.shape), -1)
        replica, members = np.arange(size)[:, None], np.diff(groups.indptr)
        self.pair_model = (replica * models + np.repeat(np.arange(models), members)).ravel()
        self.pair_actor = (replica * agents + groups.indices).ravel()
        self.pair_from = np.concatenate([[0], np.cumsum(np.tile(members, size))])
        self.owner_actor = (replica * agents + owners).ravel()
        # The pairs of an owner and its own model, in the order of the models.
        self.own_pairs = np.flatnonzero(self.pair_actor == self.owner_actor[self.pair_model])
        self.own = np.zeros((a, 0), np.int32)
        self.below = np.zeros((a, items + 1), np.int32)
        leaves, rows, splits = 16, 4 * j, 4
        self.leaf_lo, self.leaf_hi = np.zeros((j, leaves), np.int32), np.zeros((j, leaves), np.int32)
        self.leaf_depth, self.leaf_name = np.zeros((j, leaves), np.int32), np.zeros((j, leaves), np.int64)
        self.num_leaves, self.leaf_of = np.zeros(j, np.int64), np.zeros((j, items), np.int32)
        self.node_level, self.node_row = np.zeros(rows, np.int32), np.full(rows, -1, np.int32)
        self.node_kids, self.node_name = np.full(rows, -1, np.int32), np.zeros(rows, np.int64)
        self.node_low = np.zeros((rows, dims), np.int64)
        self.kids = np.full((splits, self.width), -1, np.int32)
        self.counts, self.sums, self.own_counts, self.own_sums = (np.zeros((rows, leaves), np.int32) for _ in range(4))
        self.arrivals, self.row_model, self.row_name = (
            np.zeros(rows, np.int64),
            np.full(rows, -1, np.int32),
            np.ones(rows, np.int64),
        )
        self.released: dict[Reader, Array] = {}
        self.log_place, self.log_likes = np.zeros((a, 64), np.int32), np.zeros((a, 64), np.int8)
        self.log_steps = np.zeros((a, 64, dims), np.uint16)
        self.num_nodes = self.num_rows = j
        self.num_splits = 0
        self.free_rows: list[int] = []
        self.time = np.zeros(size, np.int64)
        self.levels = 0
        self.node_name[:j] = 1
        self.node_row[:j], self.row_model[:j] = np.arange(j), np.arange(j)
        for m in range(j):
            self._plant(m)

    def _plant(self, model: int) -> None:
        """Begin the tree of a model with the clusters (1, 1) and (1, 2)."""
        codes = self.codes[model // self.num_models]
        middle = int(np.searchsorted(codes, 1 << (DEPTH - 1)))
        self.leaf_lo[model, :2], self.leaf_hi[model, :2] = (0, middle), (middle, len(codes))
        self.leaf_depth[model, :2], self.leaf_name[model, :2] = 1, (2, 3)
        self.num_leaves[model] = 2
        self.leaf_of[model, :middle], self.leaf_of[model, middle:] = 0, 1

    def have(self, active: Bools) -> None:
        """Note which items the agents have, bool[B, W, K]."""
        size, agents, items = active.shape
        by_place = np.take_along_axis(active, self.order[:, None], 2).reshape(-1, items)
        np.cumsum(by_place, axis=1, out=self.below[:, 1:])
        self.own = np.zeros((size * agents, max(int(self.below[:, -1].max()), 1)), np.int32)
        for actor, there in enumerate(by_place):
            places = np.flatnonzero(there)
            self.own[actor, : len(places)] = places

    def members(self, model: int) -> Ints:
        """The actors whose records enter a model."""
        return self.pair_actor[self.pair_from[model] : self.pair_from[model + 1]]

    # Finding a record's cell and leaf.

    def digits(self, steps: Ints) -> Ints:
        """The sub-cells on the way to contexts [..., d], for all levels that are in use, [..., levels]."""
        every = np.arange(self.levels)
        return cell_digits(steps[..., None, :], np.broadcast_to(every, (*steps.shape[:-1], self.levels)), self.bisect)

    def find(self, models: Ints, digits: Ints) -> tuple[Ints, Ints]:
        """The cells int64[P] in which contexts with these `digits` [P, levels] lie in the partitions of `models` [P].

        The second array is the digit of the sub-cell that is missing there, -1 where none is.
        """
        node, missing = models, np.full(models.shape, -1)
        for level in range(self.levels):
            kids = self.node_kids[node]
            inner = (kids >= 0) & (missing < 0)
            if not inner.any():
                break
            kid = self.kids[kids, digits[:, level]]
            lost = inner & (kid < 0)
            missing = np.where(lost, digits[:, level], missing)
            node = np.where(inner & ~lost, kid, node)
        return node, missing

    def rows(self, models: Ints, digits: Ints) -> Ints:
        """The rows of statistics of contexts, int64[P], -1 where there are no records yet."""
        node, missing = self.find(models, digits)
        return np.where(missing >= 0, -1, self.node_row[node])

    # Records.

    def record(self, steps: Ints, places: Ints, likes: Array, real: Bools, live: Bools) -> tuple[Ints, Ints]:
        """Add a round of records: contexts [A, d], items by place [A] and feedbacks [A], in the replicas `live`
        bool[B].

        Actors that are not `real`, bool[A], have no record in this round: they showed nothing, or their replica is not
        live.

        Returns:
            The cells int64[J] and the leaves int64[J] of the owners' own records; arbitrary where there is no record.
        """
        at = np.repeat(self.time, self.num_agents)
        self.make_log_room(int(at.max()) + 1)
        actor = np.arange(len(at)) if live.all() else np.flatnonzero(np.repeat(live, self.num_agents))
        when = at[actor]
        self.log_place[actor, when] = np.where(real, places, -1)[actor]
        self.log_likes[actor, when], self.log_steps[actor, when] = likes[actor], steps[actor]
        digits = self.digits(steps)
        models, actors = self.pair_model, self.pair_actor
        node, missing = self.find(models, digits[actors])
        leaf = self.leaf_of[models, places[actors]]
        counted: Any = slice(None) if real.all() else real[actors]
        for p in np.flatnonzero(missing >= 0):
            if real[actors[p]]:
                node[p] = self._sub_cell(int(models[p]), int(node[p]), int(missing[p]))
        row = self.node_row[node]
        flat = (row.astype(np.int64) * self.counts.shape[1] + leaf)[counted]
        np.add.at(self.counts.reshape(-1), flat, 1)
        np.add.at(self.sums.reshape(-1), flat, likes[actors][counted])
        own = self.own_pairs
        node, leaf, row = node[own], leaf[own], row[own]
        kept: Any = slice(None) if real.all() else real[self.owner_actor]
        self.own_counts[row[kept], leaf[kept]] += 1
        self.own_sums[row[kept], leaf[kept]] += likes[self.owner_actor][kept]
        self.arrivals[row[kept]] += 1
        self.time += live
        return node, leaf

    def has(self, places: Ints) -> Bools:
        """Whether the actors have these items, by place [A]."""
        actor = np.arange(len(places))
        return np.asarray(self.below[actor, places + 1] > self.below[actor, places])

    def own_means(self, node: Ints, leaf: Ints) -> Floats:
        """The means of the owners' own feedbacks in cells and leaves, float64[J]."""
        row = self.node_row[node]
        return np.asarray(self.own_sums[row, leaf] / np.maximum(self.own_counts[row, leaf], 1))

    def held(self, actor: int, model: int, leaf: int) -> int:
        """The number of an actor's items in a leaf of a model."""
        return int(self.below[actor, self.leaf_hi[model, leaf]] - self.below[actor, self.leaf_lo[model, leaf]])

    # Refinement.

    def split(self, model: int, node: int) -> None:
        """Split a cell into sub-cells, but only where there are records, and recount them."""
        row, level, when = (
            int(self.node_row[node]),
            int(self.node_level[node]),
            int(self.time[model // self.num_models]),
        )
        if self.num_splits == len(self.kids):
            self.more_kids()
        self.node_kids[node], self.node_row[node] = self.num_splits, -1
        self.kids[self.num_splits] = -1
        self.num_splits += 1
        self.levels = max(self.levels, level + 1)
        self._free(row)
        for actor in self.members(model):
            steps = self.log_steps[actor, :when]
            inside = np.flatnonzero(self.covers(node, steps) & (self.log_place[actor, :when] >= 0))
            if not inside.size:
                continue
            digit = cell_digits(steps[inside].astype(np.int64), np.full(inside.size, level), self.bisect)
            present = np.unique(digit)
            row_of = np.full(self.width, -1)
            for one in present:
                kid = self._sub_cell(model, node, int(one))
                row_of[one] = self.node_row[kid]
            rows, leaf = row_of[digit], self.leaf_of[model, self.log_place[actor, inside]]
            likes = self.log_likes[actor, inside]
            np.add.at(self.counts, (rows, leaf), 1)
            np.add.at(self.sums, (rows, leaf), likes)
            if actor == self.owner_actor[model]:
                np.add.at(self.own_counts, (rows, leaf), 1)
                np.add.at(self.own_sums, (rows, leaf), likes)
                np.add.at(self.arrivals, rows, 1)

    def covers(self, node: int, steps: Array) -> Bools:
        """Which contexts [n, d] lie in a cell, bool[n]."""
        inside = np.ones(len(steps), np.bool_)
        for i, shift in enumerate(self.shifts(int(self.node_level[node]))):
            if shift < CONTEXT_BITS:
                inside &= (steps[:, i] >> shift) == (self.node_low[node, i] >> shift)
        return inside

    def shifts(self, level: int) -> list[int]:
        """log2 of the sides of a cell of that level, in steps."""
        if not self.bisect:
            return [CONTEXT_BITS - level] * self.dims
        return [CONTEXT_BITS - (level + self.dims - 1 - i) // self.dims for i in range(self.dims)]

    def expand(self, model: int, leaf: int) -> None:
        """Replace a leaf by its two children, and recount its records. The left child takes the leaf's place, the right
        child a new one."""
        new = int(self.num_leaves[model])
        if new == self.leaf_lo.shape[1]:
            self.widen()
        codes, when = self.codes[model // self.num_models], int(self.time[model // self.num_models])
        lo, hi = int(self.leaf_lo[model, leaf]), int(self.leaf_hi[model, leaf])
        depth, name = int(self.leaf_depth[model, leaf]) + 1, int(self.leaf_name[model, leaf]) * 2
        first = ((name + 1) ^ (1 << depth)) << (DEPTH - depth)  # the smallest code in the right child
        middle = lo + int(np.searchsorted(codes[lo:hi], first))
        self.num_leaves[model] += 1
        self.leaf_hi[model, leaf], self.leaf_lo[model, new], self.leaf_hi[model, new] = middle, middle, hi
        self.leaf_depth[model, leaf] = self.leaf_depth[model, new] = depth
        self.leaf_name[model, leaf], self.leaf_name[model, new] = name, name + 1
        self.leaf_of[model, middle:hi] = new
        if self.released:
            mine = np.flatnonzero(self.row_model[: self.num_rows] == model)
            for until in self.released.values():
                until[mine, leaf] = 0
                until[mine, new] = 0
        for actor in self.members(model):
            place = self.log_place[actor, :when]
            right = np.flatnonzero((place >= middle) & (place < hi))
            if not right.size:
                continue
            digits = self.digits(self.log_steps[actor, right].astype(np.int64))
            row = self.rows(np.full(right.size, model), digits)
            likes = self.log_likes[actor, right]
            pieces = [(self.counts, np.ones(right.size, np.int8)), (self.sums, likes)]
            if actor == self.owner_actor[model]:
                pieces += [(self.own_counts, pieces[0][1]), (self.own_sums, likes)]
            for table, values in pieces:
                to: Any = (row, new)
                gone: Any = (row, leaf)
                np.add.at(table, to, values)
                np.subtract.at(table, gone, values)

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
        until = self.released.setdefault(reader, np.zeros(self.counts.shape, np.int32))
        for model, row in dict.fromkeys(zip(models.tolist(), rows.tolist(), strict=True)):
            if row < 0:
                continue
            width, when = int(self.num_leaves[model]), int(self.time[model // self.num_models])
            before, actors = until[row, :width], self.members(model)
            since = int(before.min())
            if since < when:
                places = self.log_place[actors, since:when]
                fresh = (places >= 0) & (np.arange(since, when) >= before[self.leaf_of[model, places]])
                member, rounds = np.nonzero(fresh)
                actor, rounds = actors[member], rounds + since
                digits = self.digits(self.log_steps[actor, rounds].astype(np.int64))
                here = self.rows(np.full(rounds.size, model), digits) == row
                replica, agent = np.divmod(actor[here], self.num_agents)
                yield replica, agent, rounds[here]
            until[row, :width] = when

    # Memory.

    def _sub_cell(self, model: int, node: int, digit: int) -> int:
        """The sub-cell of a cell that was split, made if there is none."""
        known = int(self.kids[self.node_kids[node], digit])
        if known >= 0:
            return known
        kid = self.num_nodes
        if kid == len(self.node_level):
            self.more_nodes()
        self.num_nodes += 1
        level = int(self.node_level[node])
        name = int(self.node_name[node]) * self.width + digit
        self.node_level[kid], self.node_row[kid], self.node_kids[kid] = level + 1, self._new_row(model, name), -1
        self.node_name[kid] = name
        low, shifts = self.node_low[node].copy(), self.shifts(level + 1)
        if self.bisect:
            low[level % self.dims] += digit << shifts[level % self.dims]
        else:
            low += (digit >> np.arange(self.dims) & 1) << shifts[0]
        self.node_low[kid] = low
        self.kids[self.node_kids[node], digit] = kid
        return kid

    def _new_row(self, model: int, name: int) -> int:
        if self.free_rows:
            row = self.free_rows.pop()
        else:
            row = self.num_rows
            if row == len(self.counts):
                self.more_rows()
            self.num_rows += 1
        self.row_model[row], self.row_name[row] = model, name
        return row

    def _free(self, row: int) -> None:
        for table in (self.counts, self.sums, self.own_counts, self.own_sums, *self.released.values()):
            table[row] = 0
        self.arrivals[row], self.row_model[row] = 0, -1
        self.free_rows.append(row)

    def more_nodes(self) -> None:
        for table, fill in (("node_level", 0), ("node_row", -1), ("node_kids", -1), ("node_name", 0), ("node_low", 0)):
            setattr(self, table, _longer(getattr(self, table), fill))

    def more_rows(self) -> None:
        for table in ("counts", "sums", "own_counts", "own_sums", "arrivals", "row_name"):
            setattr(self, table, _longer(getattr(self, table), 0))
        self.released = {reader: _longer(until, 0) for reader, until in self.released.items()}
        self.row_model = _longer(self.row_model, -1)

    def more_kids(self) -> None:
        self.kids = _longer(self.kids, -1)

    def widen(self) -> None:
        """Make room for twice as many leaves."""
        for name in ("leaf_lo", "leaf_hi", "leaf_depth", "leaf_name", "counts", "sums", "own_counts", "own_sums"):
            setattr(self, name, _wider(getattr(self, name)))
        self.released = {reader: _wider(until) for reader, until in self.released.items()}

    def make_log_room(self, rounds: int) -> None:
        if rounds > self.log_place.shape[1]:
            room = min(max(2 * self.log_place.shape[1], rounds), max(self.longest, rounds))
            for name in ("log_place", "log_likes", "log_steps"):
                old = getattr(self, name)
                new = np.zeros((old.shape[0], room, *old.shape[2:]), old.dtype)
                new[:, : old.shape[1]] = old
                setattr(self, name, new)

    def restart(self, fresh: Bools, codes: Ints) -> None:
        """Start afresh in the replicas `fresh` bool[B], with a catalogue of these item codes [B, K]."""
        for replica in np.flatnonzero(fresh):
            self.time[replica] = 0
            self.order[replica] = codes[replica].argsort(kind="stable")
            self.codes[replica] = codes[replica, self.order[replica]]
            self.place[replica, self.order[replica]] = np.arange(codes.shape[1])
            for model in range(replica * self.num_models, (replica + 1) * self.num_models):
                for row in np.flatnonzero(self.row_model[: self.num_rows] == model):
                    self._free(int(row))
                # The old cells below the root stay in memory, unreachable.
                self.node_kids[model], self.node_row[model] = -1, self._new_row(model, 1)
                self._plant(model)


def _wider(array: Array) -> Array:
    """The array [R, L] with twice as many columns, filled with zeros."""
    return np.concatenate([array, np.zeros_like(array)], 1)


def _longer(array: Array, fill: int) -> Array:
    """The array with twice as much room, filled with `fill`."""
    more: Any = np.full_like(array, fill)
    return np.concatenate([array, more])
