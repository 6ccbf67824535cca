"""Many rounds of T-PriDO in one loop, compiled with numba: bit-identical to `ClusterTree` and the policy, round by
round."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core.compiled import compiled
from taciturn.envs.recommender.geometry import CONTEXT_BITS, DEPTH
from taciturn.envs.recommender.rewards import BUMPS, FLOOR, SPAN
from taciturn.policies.families.cluster_tree import ClusterTree
from taciturn.validation import Array

# From so many agent-rounds on, compiling the loop (about 10 s) pays.
COMPILE_FROM = 100_000
FAMILIES = {"peak": 1, "bumps": len(BUMPS), "linear": 0}  # number of bumps


class Tree(NamedTuple):
    """What a `ClusterTree` holds; `size` counts its nodes, rows, splits, free rows and levels."""

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
    arrivals: Array
    row_model: Array
    row_name: Array
    log_place: Array
    log_likes: Array
    log_steps: Array
    codes: Array
    order: Array
    own: Array
    below: Array
    pair_model: Array
    pair_actor: Array
    pair_from: Array
    owner_actor: Array
    bisect: bool
    deepest: int
    num_agents: int
    num_models: int
    free: Array
    size: Array


class Room(NamedTuple):
    """Where the loop notes what happens in a round: it makes no arrays of its own."""

    value_of: Array  # each leaf, when an agent chooses
    places: Array  # the item that each agent shows
    slots: Array  # and its leaf
    used: Array  # records behind that choice
    nodes: Array  # the cell of each pair's record


class Rules(NamedTuple):
    """The policy: who follows which model and may ask, when a cell is split or a leaf expanded, and the indices."""

    model_of: Array
    may_ask: Array
    always_asks: Array
    threshold: float
    biased: bool
    wide: Array
    log_n: Array
    bonus: Array
    explored: Array
    crowded: Array


class Shop(NamedTuple):
    """Contexts, items and mean rewards of the replicas; see `taciturn.envs.recommender.rewards`."""

    contexts: Array
    uniform: Array
    items: Array
    weights: Array
    directions: Array
    phases: Array
    matrix: Array
    heights: Array
    radii: Array
    bumps: int


def available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def play_rounds(tree: ClusterTree, steps: Array, rules: Rules, block: Any, luck: Array, mean: Array) -> Any:
    """Play T rounds of all replicas, updating the tree and the owners' last means float64[J] in place.

    Args:
        tree: the models; all replicas have played equally many rounds.
        steps: the contexts, int64[T, A, d]; see `geometry.grid`.
        rules: of the policy.
        block: the `Block` to play.
        luck: the policy's uniform numbers, [T, A, 2].
        mean: of the owners' own feedbacks where they acted last.

    Returns:
        (items shown int64[T, A], who liked them bool[T, A], who asked bool[T, A]).
    """
    rounds, actors = luck.shape[:2]
    tree.make_log_room(int(tree.time[0]) + rounds)
    items, likes = np.zeros((rounds, actors), np.int64), np.zeros((rounds, actors), np.bool_)
    asked = np.zeros((rounds, actors), np.bool_)
    instance = {name: block.instance[name] for name in ("weights", "directions", "phases", "matrix")}
    heights, radii = (np.array(x) for x in zip(*BUMPS, strict=True))
    contexts, uniform = block.contexts.reshape(rounds, actors, -1), block.luck.reshape(rounds, actors)
    bumps = FAMILIES[block.family]
    shop = Shop(contexts, uniform, block.items, **instance, heights=heights, radii=radii, bumps=bumps)
    start, done, loop = int(tree.time[0]), 0, compiled(_loop, ())
    models = len(tree.owner_actor)
    spare = len(tree.pair_model) + models * tree.width
    while done < rounds:
        while tree.num_nodes + spare > len(tree.node_level):
            tree.more_nodes()
        while tree.num_rows + spare > len(tree.counts):
            tree.more_rows()
        while tree.num_splits + models > len(tree.kids):
            tree.more_kids()
        if int(tree.num_leaves.max()) + 1 > tree.leaf_lo.shape[1]:
            tree.widen()
        free = np.zeros(len(tree.counts), np.int64)
        free[: len(tree.free_rows)] = tree.free_rows
        size = np.array([tree.num_nodes, tree.num_rows, tree.num_splits, len(tree.free_rows), tree.levels])
        places, slots = np.zeros((2, actors), np.int64)
        nodes = np.zeros(len(tree.pair_model), np.int64)
        room = Room(np.zeros(tree.leaf_lo.shape[1]), places, slots, np.zeros(actors), nodes)
        arrays = Tree(**{name: getattr(tree, name) for name in Tree._fields[:-2]}, free=free, size=size)
        done = loop(arrays, rules, shop, steps, luck, start, done, spare, mean, items, likes, asked, room)
        tree.num_nodes, tree.num_rows, tree.num_splits, num_free, tree.levels = size.tolist()
        tree.free_rows = free[:num_free].tolist()
    tree.time += rounds
    return items, likes, asked


def _digit(steps: Array, level: int, bisect: bool) -> int:
    dims = len(steps)
    if bisect:
        return (int(steps[level % dims]) >> (CONTEXT_BITS - 1 - level // dims)) & 1
    found = 0
    for i in range(dims):
        found |= ((int(steps[i]) >> (CONTEXT_BITS - 1 - level)) & 1) << i
    return found


def _mean(world: Shop, b: int, context: Array, item: Array) -> float:
    """`rewards.means` of one item in one context of a replica."""
    dims = len(context)
    if world.bumps == 0:
        total = 0.0
        for i in range(len(item)):
            ahead = world.matrix[b, i, 0]
            for k in range(dims):
                ahead += world.matrix[b, i, k + 1] * (2 * context[k] - 1)
            total += (2 * item[i] - 1) * ahead
        return 0.5 + 0.45 * total
    best = 0.0
    for bump in range(world.bumps):
        distance = 0.0
        for i in range(len(item)):
            turned = world.phases[b, bump, i]
            for k in range(dims):
                turned += world.directions[b, bump, i, k] * (context[k] - 0.5)
            gap = world.weights[b, i] * (item[i] - (0.5 + 0.42 * np.sin(np.pi * turned)))
            distance += gap * gap
        best = max(best, world.heights[bump] * max(0.0, 1 - np.sqrt(distance) / world.radii[bump]))
    return FLOOR + SPAN * best


def _walk(tree: Tree, node: int, steps: Array) -> int:
    """The cell in which a context lies, from a root; -1 if it has no records."""
    while tree.node_kids[node] >= 0:
        node = tree.kids[tree.node_kids[node], _digit(steps, tree.node_level[node], tree.bisect)]
        if node < 0:
            return -1
    return node


def most_leaves(tree: Tree) -> int:
    most = 0
    for leaves in tree.num_leaves:
        most = max(most, leaves)
    return most


def _sub_cell(tree: Tree, m: int, node: int, digit: int) -> int:
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


def _split(tree: Tree, m: int, node: int, when: int, owner: int) -> None:
    """`ClusterTree.split`."""
    row, level, dims = tree.node_row[node], tree.node_level[node], tree.node_low.shape[1]
    tree.node_kids[node], tree.node_row[node] = tree.size[2], -1
    for digit in range(tree.kids.shape[1]):
        tree.kids[tree.size[2], digit] = -1
    tree.size[2] += 1
    tree.size[4] = max(tree.size[4], level + 1)
    for s in range(tree.counts.shape[1]):
        tree.counts[row, s] = tree.sums[row, s] = tree.own_counts[row, s] = tree.own_sums[row, s] = 0
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
            digit = _digit(tree.log_steps[a, t], level, tree.bisect)
            kid = _sub_cell(tree, m, node, digit)
            row, s = tree.node_row[kid], tree.leaf_of[m, tree.log_place[a, t]]
            tree.counts[row, s] += 1
            tree.sums[row, s] += tree.log_likes[a, t]
            if a == owner:
                tree.own_counts[row, s] += 1
                tree.own_sums[row, s] += tree.log_likes[a, t]
                tree.arrivals[row] += 1


def _expand(tree: Tree, m: int, leaf: int, when: int, owner: int) -> None:
    """`ClusterTree.expand`, where no answers are charged."""
    new, codes = tree.num_leaves[m], tree.codes[m // tree.num_models]
    lo, hi = tree.leaf_lo[m, leaf], tree.leaf_hi[m, leaf]
    depth, name = tree.leaf_depth[m, leaf] + 1, tree.leaf_name[m, leaf] * 2
    mark = ((name + 1) ^ (np.int64(1) << depth)) << (DEPTH - depth)
    middle = lo
    while middle < hi and codes[middle] < mark:
        middle += 1
    tree.num_leaves[m] += 1
    tree.leaf_hi[m, leaf], tree.leaf_lo[m, new], tree.leaf_hi[m, new] = middle, middle, hi
    tree.leaf_depth[m, leaf] = tree.leaf_depth[m, new] = depth
    tree.leaf_name[m, leaf], tree.leaf_name[m, new] = name, name + 1
    for k in range(middle, hi):
        tree.leaf_of[m, k] = new
    for p in range(tree.pair_from[m], tree.pair_from[m + 1]):
        a = tree.pair_actor[p]
        for t in range(when):
            if middle <= tree.log_place[a, t] < hi:
                row = tree.node_row[_walk(tree, m, tree.log_steps[a, t])]
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


def _loop(
    tree: Tree,
    rules: Rules,
    world: Shop,
    steps: Array,
    luck: Array,
    start: int,
    done: int,
    spare: int,
    mean: Array,
    shown: Array,
    likes: Array,
    asked: Array,
    room: Room,
) -> int:
    """Rounds from `done` on, while there is room in the tree's arrays; returns the number of rounds done."""
    rounds, actors, dims = steps.shape
    models, pairs = len(tree.owner_actor), len(tree.pair_model)
    value_of, places, slots, used, nodes = room
    for t in range(done, rounds):
        if (
            tree.size[0] + spare > len(tree.node_level)
            or tree.size[1] + spare > len(tree.counts)
            or tree.size[2] + models > len(tree.kids)
            or most_leaves(tree) + 1 > tree.leaf_lo.shape[1]
        ):
            return t
        now = start + t
        # Everyone acts.
        for a in range(actors):
            b, m = a // tree.num_agents, rules.model_of[a]
            node, row = _walk(tree, m, steps[t, a]), -1
            if node >= 0:
                row = tree.node_row[node]
            asks = rules.may_ask[a] and (rules.always_asks[a] or mean[m] < rules.threshold)
            asked[t, a] = asks
            best, ties = -np.inf, 0
            for s in range(tree.num_leaves[m]):
                if tree.below[a, tree.leaf_hi[m, s]] == tree.below[a, tree.leaf_lo[m, s]]:
                    value_of[s] = -np.inf
                    continue
                q, total = 0, 0
                if row >= 0:
                    if asks:
                        q, total = tree.counts[row, s], tree.sums[row, s]
                    else:
                        q, total = (
                            tree.counts[row, s] if rules.biased else tree.own_counts[row, s],
                            tree.own_sums[row, s],
                        )
                value = np.inf
                if q > 0:
                    value = total / q + np.sqrt(rules.wide[t] / q) + rules.bonus[tree.leaf_depth[m, s]]
                value_of[s] = value
                if value > best:
                    best, ties = value, 1
                elif value == best:
                    ties += 1
            place, slot = int(luck[t, a, 0] * ties), 0
            for s in range(tree.num_leaves[m]):
                if value_of[s] == best:
                    if place == 0:
                        slot = s
                        break
                    place -= 1
            used[a] = 0
            if row >= 0:
                used[a] = tree.counts[row, slot] if asks or rules.biased else tree.own_counts[row, slot]
            first, last = tree.below[a, tree.leaf_lo[m, slot]], tree.below[a, tree.leaf_hi[m, slot]]
            places[a], slots[a] = tree.own[a, first + int(luck[t, a, 1] * (last - first))], slot
            item = tree.order[b, places[a]]
            mu = _mean(world, b, world.contexts[t, a], world.items[b, item])
            like = world.uniform[t, a] < mu
            shown[t, a], likes[t, a] = item, like
            tree.log_place[a, now], tree.log_likes[a, now] = places[a], like
            for i in range(dims):
                tree.log_steps[a, now, i] = steps[t, a, i]
        # All records are added.
        for p in range(pairs):
            m, a = tree.pair_model[p], tree.pair_actor[p]
            node = m
            while tree.node_kids[node] >= 0:
                digit = _digit(steps[t, a], tree.node_level[node], tree.bisect)
                node = _sub_cell(tree, m, node, digit)
            nodes[p] = node
            row, s = tree.node_row[node], tree.leaf_of[m, places[a]]
            tree.counts[row, s] += 1
            tree.sums[row, s] += likes[t, a]
            if tree.owner_actor[m] == a:
                tree.own_counts[row, s] += 1
                tree.own_sums[row, s] += likes[t, a]
                tree.arrivals[row] += 1
                mean[m] = tree.own_sums[row, s] / tree.own_counts[row, s]
        # Cells are split, and leaves expanded.
        for p in range(pairs):
            m, a = tree.pair_model[p], tree.pair_actor[p]
            if tree.owner_actor[m] != a:
                continue
            node, slot = nodes[p], slots[a]
            level, row, depth = tree.node_level[node], tree.node_row[node], tree.leaf_depth[m, slot]
            if tree.arrivals[row] >= rules.crowded[level] * rules.log_n[t] and level < tree.deepest:
                _split(tree, m, node, now + 1, a)
            held = tree.below[a, tree.leaf_hi[m, slot]] - tree.below[a, tree.leaf_lo[m, slot]]
            if used[a] >= rules.explored[depth] * rules.log_n[t] and depth < DEPTH and held > 1:
                _expand(tree, m, slot, now + 1, a)
    return rounds
