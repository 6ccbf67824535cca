"""A round of T-PriDO on a `ClusterTree`, as plain functions of numbers: they are compiled once enough has been played,
and give the same bits uncompiled."""

from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core.compiled import COMPILE_FROM, function_of, may_compile
from taciturn.envs.recommender.geometry import CONTEXT_BITS, DEPTH, digit_of
from taciturn.validation import Array

BEST, ANY = -1, -2  # ways to choose a leaf, see `judge`
PLAYED = [0]  # agent-rounds in this process, in a list that all share
ENTRIES: dict[Any, Any] = {}  # compiled functions


class Rules(NamedTuple):
    """The policy: who follows which model, the indices, and when a cell is split or a leaf expanded."""

    model_of: Array  # [A]
    biased: bool  # whether agents that do not ask divide their own sum by the neighbourhood's count
    bonus: Array  # by depth of a leaf, of its index
    explored: Array  # and the records, over ln n, that expand it
    crowded: Array  # by level of a cell, the arrivals, over ln n, that split it


class Tree(NamedTuple):
    """What a `ClusterTree` holds."""

    leaf_lo: Array
    leaf_hi: Array
    leaf_depth: Array
    leaf_name: Array
    num_leaves: Array
    leaf_of: Array
    node_level: Array
    node_row: Array
    node_kids: Array
    node_name: Array
    node_low: Array
    kids: Array
    counts: Array
    sums: Array
    own_counts: Array
    own_sums: Array
    released: Array
    arrivals: Array
    row_model: Array
    row_name: Array
    log_place: Array
    log_likes: Array
    log_steps: Array
    codes: Array
    order: Array
    place: Array
    own: Array
    below: Array
    pair_model: Array
    pair_actor: Array
    pair_from: Array
    pair_node: Array
    shown: Array
    owner_actor: Array
    time: Array
    free: Array
    size: Array  # numbers of nodes, rows, splits, free rows, levels, and of leaves of the model that has most
    bisect: bool
    deepest: int
    num_agents: int
    num_models: int


# Finding cells.


def walk(tree: Tree, node: int, steps: Array) -> int:
    """The cell in which a context lies, from a root; -1 if it has no records."""
    while tree.node_kids[node] >= 0:
        node = tree.kids[tree.node_kids[node], digit_of(steps, tree.node_level[node], tree.bisect)]
        if node < 0:
            return -1
    return node


def find(tree: Any, models: Any, steps: Any, rows: Any) -> None:
    """The rows of statistics of contexts, int64[P], -1 where there are no records yet."""
    for p in range(len(rows)):
        node = walk(tree, models[p], steps[p])
        rows[p] = tree.node_row[node] if node >= 0 else -1


# Acting.


def look_up(
    tree: Any,
    rules: Any,
    obs: Any,
    first: int,
    answered: Any,
    steps: Any,
    rows: Any,
    sums: Any,
    counts: Any,
) -> None:
    """The sums and counts [A, L] that the actors know of each leaf in the cells of their contexts, in the columns of
    `obs` float32[A, D] from `first` on: those of their group for the `answered`, bool[A], their model's owner's own for
    the others."""
    for a in range(len(rows)):
        m = rules.model_of[a]
        for i in range(steps.shape[1]):
            steps[a, i] = min(int(obs[a, first + i] * (1 << CONTEXT_BITS)), (1 << CONTEXT_BITS) - 1)
        node = walk(tree, m, steps[a])
        row = tree.node_row[node] if node >= 0 else -1
        rows[a] = row
        for s in range(sums.shape[1]):
            sums[a, s], counts[a, s] = 0.0, 0.0
            if row >= 0 and s < tree.num_leaves[m]:
                sums[a, s] = tree.sums[row, s] if answered[a] else tree.own_sums[row, s]
                counts[a, s] = tree.counts[row, s] if answered[a] or rules.biased else tree.own_counts[row, s]


def judge(
    tree: Any,
    rules: Any,
    wide: Any,
    sums: Any,
    counts: Any,
    luck: Any,
    index: Any,
    possible: Any,
    leaf: Any,
    items: Any,
) -> None:
    """The index [A, L] of each leaf, inf without records; which leaves hold items of the actor; the leaf that each
    actor chooses; and the item that it shows.

    `leaf` int64[A] says how to choose: BEST, the highest index, where ties are broken at random; ANY, a random one; or
    a given leaf.
    """
    for a in range(len(leaf)):
        b, m = a // tree.num_agents, rules.model_of[a]
        best, ties, some = -np.inf, 0, 0
        for s in range(index.shape[1]):
            low, high = tree.leaf_lo[m, s], tree.leaf_hi[m, s]
            possible[a, s] = s < tree.num_leaves[m] and tree.below[a, high] > tree.below[a, low]
            q, value = counts[a, s], np.inf
            if q > 0:
                value = sums[a, s] / q + np.sqrt(wide[b] / q) + rules.bonus[tree.leaf_depth[m, s]]
            index[a, s] = value
            if possible[a, s]:
                some += 1
                if value > best:
                    best, ties = value, 0
                if value == best:
                    ties += 1
        slot = leaf[a]
        if slot < 0:
            anything = slot == ANY
            place, slot = int(luck[a, 0] * (some if anything else ties)), 0
            for s in range(index.shape[1]):
                if possible[a, s] and (anything or index[a, s] == best):
                    if place == 0:
                        slot = s
                    place -= 1
        leaf[a] = slot
        first, last = tree.below[a, tree.leaf_lo[m, slot]], tree.below[a, tree.leaf_hi[m, slot]]
        place = min(first + int(luck[a, 1] * (last - first)), tree.own.shape[1] - 1)
        items[a] = tree.order[b, tree.own[a, place]]


def count_messages(tree: Any, rules: Any, answers: Any, sent: Any) -> None:
    """The messages that each actor sends, int64[A]: one for each of the `answers` int64[A] that others get about its
    group."""
    for a in range(len(sent)):
        sent[a] = 0
    for a in range(len(sent)):
        m = rules.model_of[a]
        for p in range(tree.pair_from[m], tree.pair_from[m + 1]):
            if tree.pair_actor[p] != a:
                sent[tree.pair_actor[p]] += answers[a]


# Learning.


def sub_cell(tree: Tree, m: int, node: int, digit: int) -> int:
    """The sub-cell of a cell that was split, made if there is none."""
    known = tree.kids[tree.node_kids[node], digit]
    if known >= 0:
        return known
    kid, level, dims = tree.size[0], tree.node_level[node], tree.node_low.shape[1]
    tree.size[0] += 1
    if tree.size[3] > 0:
        tree.size[3] -= 1
        row = tree.free[tree.size[3]]
    else:
        row = tree.size[1]
        tree.size[1] += 1
    name = tree.node_name[node] * tree.kids.shape[1] + digit
    tree.node_level[kid], tree.node_row[kid], tree.node_kids[kid], tree.node_name[kid] = level + 1, row, -1, name
    tree.row_model[row], tree.row_name[row] = m, name
    for i in range(dims):
        tree.node_low[kid, i] = tree.node_low[node, i]
        if not tree.bisect:
            tree.node_low[kid, i] += ((digit >> i) & 1) << (CONTEXT_BITS - 1 - level)
    if tree.bisect:
        tree.node_low[kid, level % dims] += digit << (CONTEXT_BITS - 1 - level // dims)
    tree.kids[tree.node_kids[node], digit] = kid
    return kid


def split(tree: Tree, m: int, node: int, when: int, owner: int) -> None:
    """Split a cell into sub-cells, but only where there are records, and recount them."""
    row, level, dims = tree.node_row[node], tree.node_level[node], tree.node_low.shape[1]
    tree.node_kids[node], tree.node_row[node] = tree.size[2], -1
    for digit in range(tree.kids.shape[1]):
        tree.kids[tree.size[2], digit] = -1
    tree.size[2] += 1
    tree.size[4] = max(tree.size[4], level + 1)
    for s in range(tree.counts.shape[1]):
        tree.counts[row, s] = tree.sums[row, s] = tree.own_counts[row, s] = tree.own_sums[row, s] = 0
        for reader in range(len(tree.released)):
            tree.released[reader, row, s] = 0
    tree.arrivals[row], tree.row_model[row] = 0, -1
    tree.free[tree.size[3]] = row
    tree.size[3] += 1
    for p in range(tree.pair_from[m], tree.pair_from[m + 1]):
        a = tree.pair_actor[p]
        for t in range(when):
            if tree.log_place[a, t] < 0:
                continue
            inside = True
            for i in range(dims):
                shift = CONTEXT_BITS - ((level + dims - 1 - i) // dims if tree.bisect else level)
                if tree.log_steps[a, t, i] >> shift != tree.node_low[node, i] >> shift:
                    inside = False
                    break
            if not inside:
                continue
            digit = digit_of(tree.log_steps[a, t], level, tree.bisect)
            kid = sub_cell(tree, m, node, digit)
            row, s = tree.node_row[kid], tree.leaf_of[m, tree.log_place[a, t]]
            tree.counts[row, s] += 1
            tree.sums[row, s] += tree.log_likes[a, t]
            if a == owner:
                tree.own_counts[row, s] += 1
                tree.own_sums[row, s] += tree.log_likes[a, t]
                tree.arrivals[row] += 1


def expand(tree: Tree, m: int, leaf: int, when: int, owner: int) -> None:
    """Replace a leaf by its two children, and recount its records. The left child takes the leaf's place, the right
    child a new one."""
    new, codes = tree.num_leaves[m], tree.codes[m // tree.num_models]
    lo, hi = tree.leaf_lo[m, leaf], tree.leaf_hi[m, leaf]
    depth, name = tree.leaf_depth[m, leaf] + 1, tree.leaf_name[m, leaf] * 2
    mark = ((name + 1) ^ (np.int64(1) << depth)) << (DEPTH - depth)
    middle = lo
    while middle < hi and codes[middle] < mark:
        middle += 1
    tree.num_leaves[m] += 1
    tree.size[5] = max(tree.size[5], tree.num_leaves[m])
    tree.leaf_hi[m, leaf], tree.leaf_lo[m, new], tree.leaf_hi[m, new] = middle, middle, hi
    tree.leaf_depth[m, leaf] = tree.leaf_depth[m, new] = depth
    tree.leaf_name[m, leaf], tree.leaf_name[m, new] = name, name + 1
    for k in range(middle, hi):
        tree.leaf_of[m, k] = new
    for reader in range(len(tree.released)):
        for row in range(tree.size[1]):
            if tree.row_model[row] == m:
                tree.released[reader, row, leaf] = tree.released[reader, row, new] = 0
    for p in range(tree.pair_from[m], tree.pair_from[m + 1]):
        a = tree.pair_actor[p]
        for t in range(when):
            if middle <= tree.log_place[a, t] < hi:
                row = tree.node_row[walk(tree, m, tree.log_steps[a, t])]
                like = tree.log_likes[a, t]
                tree.counts[row, new] += 1
                tree.counts[row, leaf] -= 1
                tree.sums[row, new] += like
                tree.sums[row, leaf] -= like
                if a == owner:
                    tree.own_counts[row, new] += 1
                    tree.own_counts[row, leaf] -= 1
                    tree.own_sums[row, new] += like
                    tree.own_sums[row, leaf] -= like


def learn(
    tree: Any,
    rules: Any,
    log_n: Any,
    steps: Any,
    actions: Any,
    reward: Any,
    live: Any,
    used: Any,
    mean: Any,
) -> None:
    """Add a round of records, then split cells and expand leaves, at most one of each for each model.

    Actors that show an item which they do not have, or whose replica is not live, have no record in this round.

    Args:
        log_n: ln n, by replica.
        steps, actions, reward: the contexts [A, d], the actions int64[A] and the feedbacks float64[A].
        live: the replicas that play, bool[B].
        used: the counts [A, L] behind the actors' choices.
        mean: set to the means of the owners' own feedbacks where they acted last, float64[J].
    """
    for a in range(len(actions)):
        b = a // tree.num_agents
        place = tree.place[b, actions[a] % tree.place.shape[1]]
        tree.shown[a] = place if live[b] and tree.below[a, place + 1] > tree.below[a, place] else -1
        if live[b]:
            now = tree.time[b]
            tree.log_place[a, now], tree.log_likes[a, now] = tree.shown[a], reward[a] > 0
            for i in range(steps.shape[1]):
                tree.log_steps[a, now, i] = steps[a, i]
    for b in range(len(live)):
        tree.time[b] += 1 if live[b] else 0
    for p in range(len(tree.pair_model)):
        m, a = tree.pair_model[p], tree.pair_actor[p]
        if tree.shown[a] < 0:
            continue
        node, like = m, 1 if reward[a] > 0 else 0
        while tree.node_kids[node] >= 0:
            node = sub_cell(tree, m, node, digit_of(steps[a], tree.node_level[node], tree.bisect))
        tree.pair_node[p] = node
        row, s = tree.node_row[node], tree.leaf_of[m, tree.shown[a]]
        tree.counts[row, s] += 1
        tree.sums[row, s] += like
        if tree.owner_actor[m] == a:
            tree.own_counts[row, s] += 1
            tree.own_sums[row, s] += like
            tree.arrivals[row] += 1
            mean[m] = tree.own_sums[row, s] / tree.own_counts[row, s]
    for p in range(len(tree.pair_model)):
        m, a = tree.pair_model[p], tree.pair_actor[p]
        if tree.shown[a] < 0 or tree.owner_actor[m] != a:
            continue
        b, node, s = a // tree.num_agents, tree.pair_node[p], tree.leaf_of[m, tree.shown[a]]
        level, row, depth = tree.node_level[node], tree.node_row[node], tree.leaf_depth[m, s]
        crowd, most = rules.crowded[level], rules.explored[depth]  # inf: never, where ln n is 0 too
        if level < tree.deepest and crowd < np.inf and tree.arrivals[row] >= crowd * log_n[b]:
            split(tree, m, node, tree.time[b], a)
        held = tree.below[a, tree.leaf_hi[m, s]] - tree.below[a, tree.leaf_lo[m, s]]
        if depth < DEPTH and held > 1 and most < np.inf and used[a, s] >= most * log_n[b]:
            expand(tree, m, s, tree.time[b], a)


def call(function: Any, *arguments: Any) -> None:
    """Call one of these functions, compiled if this process has played enough. All arrays must be C-contiguous and
    writeable, of the same types at every call."""
    if PLAYED[0] < COMPILE_FROM or not may_compile():
        function(*arguments)
        return
    if function not in ENTRIES:
        ENTRIES[function] = function_of(function, arguments)
    ENTRIES[function](*arguments)
