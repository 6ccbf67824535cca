"""Many rounds of T-PriDO in one loop, compiled with numba: the same bits as `ClusterTree` and the policy give round by
round."""

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from taciturn.envs.recommender.geometry import CONTEXT_BITS, DEPTH
from taciturn.envs.recommender.rewards import BUMPS, FLOOR, SPAN
from taciturn.policies.families.cluster_tree import ClusterTree
from taciturn.validation import Array

# Number of agent-rounds from which compiling the loop, about 10 s, is worth while.
COMPILE_FROM = 100_000
FAMILIES = {"peak": 1, "bumps": len(BUMPS), "linear": 0}  # number of bumps

TABLES = (
    "leaf_lo", "leaf_hi", "leaf_depth", "leaf_name", "num_leaves", "leaf_of", "node_level", "node_row", "node_kids",
    "node_name", "node_low", "kids", "counts", "sums", "own_counts", "own_sums", "arrivals", "row_model", "row_name",
    "log_place", "log_likes", "log_steps", "codes", "order", "own", "below", "pair_model", "pair_actor", "owner_actor",
)  # fmt: skip


def available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def play_rounds(tree: ClusterTree, steps: Array, rules: dict[str, Any], block: Any, luck: Array, mean: Array) -> Any:
    """Play T rounds of all replicas, updating the tree and the owners' last means float64[J] in place.

    Args:
        tree: the models; all replicas have played equally many rounds.
        steps: the contexts, int64[T, A, d]; see `geometry.grid`.
        rules: arrays and numbers of the policy: who follows which model, thresholds, indices.
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
    instance = [block.instance[name] for name in ("weights", "directions", "phases", "matrix")]
    heights, radii = (np.array(x) for x in zip(*BUMPS, strict=True))
    start, done = int(tree.time[0]), 0
    contexts, uniform = block.contexts.reshape(rounds, actors, -1), block.luck.reshape(rounds, actors)
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
        tables = [getattr(tree, name) for name in TABLES]
        done = compiled()(
            *tables,
            tree.pair_from,
            free,
            size,
            start,
            done,
            spare,
            tree.bisect,
            tree.deepest,
            tree.num_agents,
            tree.num_models,
            steps,
            contexts,
            luck,
            uniform,
            rules["model_of"],
            rules["may_ask"],
            rules["always_asks"],
            rules["threshold"],
            rules["biased"],
            rules["wide"],
            rules["log_n"],
            rules["bonus"],
            rules["explored"],
            rules["crowded"],
            mean,
            block.items,
            *instance,
            heights,
            radii,
            FAMILIES[block.family],
            items,
            likes,
            asked,
        )
        tree.num_nodes, tree.num_rows, tree.num_splits, num_free, tree.levels = size.tolist()
        tree.free_rows = free[:num_free].tolist()
    tree.time += rounds
    return items, likes, asked


@cache
def compiled() -> Any:
    """The loop over rounds, compiled; raises ImportError without numba."""
    import numba

    scope = globals().copy()
    for helper in (_digit, _mean, _sub_cell, _walk, _split, _expand):
        scope[helper.__name__] = numba.njit(_rebound(helper, scope))
    loop: Any = numba.njit(_rebound(_loop, scope))
    return loop


def _rebound(function: Any, scope: dict[str, Any]) -> Any:
    """The function with other globals, so that it calls compiled helpers."""
    from types import FunctionType

    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__)


def _digit(steps: Array, level: int, bisect: bool) -> int:
    dims = len(steps)
    if bisect:
        return (steps[level % dims] >> (CONTEXT_BITS - 1 - level // dims)) & 1
    found = 0
    for i in range(dims):
        found |= ((steps[i] >> (CONTEXT_BITS - 1 - level)) & 1) << i
    return found


def _mean(
    context: Array,
    item: Array,
    weights: Array,
    directions: Array,
    phases: Array,
    matrix: Array,
    heights: Array,
    radii: Array,
    bumps: int,
) -> float:
    """`rewards.means` of one item in one context."""
    dims = len(context)
    if bumps == 0:
        total = 0.0
        for i in range(len(item)):
            ahead = matrix[i, 0]
            for k in range(dims):
                ahead += matrix[i, k + 1] * (2 * context[k] - 1)
            total += (2 * item[i] - 1) * ahead
        return 0.5 + 0.45 * total
    best = 0.0
    for bump in range(bumps):
        distance = 0.0
        for i in range(len(item)):
            turned = phases[bump, i]
            for k in range(dims):
                turned += directions[bump, i, k] * (context[k] - 0.5)
            gap = weights[i] * (item[i] - (0.5 + 0.42 * np.sin(np.pi * turned)))
            distance += gap * gap
        best = max(best, heights[bump] * max(0.0, 1 - np.sqrt(distance) / radii[bump]))
    return FLOOR + SPAN * best


def _walk(node: int, steps: Array, node_level: Array, node_kids: Array, kids: Array, bisect: bool) -> int:
    """The cell in which a context lies, from a root; -1 if it has no records."""
    while node_kids[node] >= 0:
        node = kids[node_kids[node], _digit(steps, node_level[node], bisect)]
        if node < 0:
            return -1
    return node


def _sub_cell(
    m: int,
    node: int,
    digit: int,
    node_level: Array,
    node_row: Array,
    node_kids: Array,
    node_name: Array,
    node_low: Array,
    kids: Array,
    row_model: Array,
    row_name: Array,
    free: Array,
    size: Array,
    bisect: bool,
) -> int:
    """The sub-cell of a cell that was split, made if there is none."""
    known = kids[node_kids[node], digit]
    if known >= 0:
        return known
    kid, level, dims = size[0], node_level[node], node_low.shape[1]
    size[0] += 1
    if size[3] > 0:
        size[3] -= 1
        row = free[size[3]]
    else:
        row = size[1]
        size[1] += 1
    name = node_name[node] * kids.shape[1] + digit
    node_level[kid], node_row[kid], node_kids[kid], node_name[kid] = level + 1, row, -1, name
    row_model[row], row_name[row] = m, name
    for i in range(dims):
        node_low[kid, i] = node_low[node, i]
        if not bisect:
            node_low[kid, i] += ((digit >> i) & 1) << (CONTEXT_BITS - 1 - level)
    if bisect:
        node_low[kid, level % dims] += digit << (CONTEXT_BITS - 1 - level // dims)
    kids[node_kids[node], digit] = kid
    return kid


def _split(
    m: int,
    node: int,
    when: int,
    first: int,
    last: int,
    node_level: Array,
    node_row: Array,
    node_kids: Array,
    node_name: Array,
    node_low: Array,
    kids: Array,
    counts: Array,
    sums: Array,
    own_counts: Array,
    own_sums: Array,
    arrivals: Array,
    row_model: Array,
    row_name: Array,
    log_place: Array,
    log_likes: Array,
    log_steps: Array,
    leaf_of: Array,
    pair_actor: Array,
    owner: int,
    free: Array,
    size: Array,
    bisect: bool,
) -> None:
    """`ClusterTree.split`; the pairs of the model are `first` to `last`."""
    row, level, dims = node_row[node], node_level[node], node_low.shape[1]
    node_kids[node], node_row[node] = size[2], -1
    for digit in range(kids.shape[1]):
        kids[size[2], digit] = -1
    size[2] += 1
    size[4] = max(size[4], level + 1)
    for s in range(counts.shape[1]):
        counts[row, s] = sums[row, s] = own_counts[row, s] = own_sums[row, s] = 0
    arrivals[row], row_model[row] = 0, -1
    free[size[3]] = row
    size[3] += 1
    for p in range(first, last):
        a = pair_actor[p]
        for t in range(when):
            if log_place[a, t] < 0:
                continue
            inside = True
            for i in range(dims):
                shift = CONTEXT_BITS - ((level + dims - 1 - i) // dims if bisect else level)
                if log_steps[a, t, i] >> shift != node_low[node, i] >> shift:
                    inside = False
                    break
            if not inside:
                continue
            digit = _digit(log_steps[a, t].astype(np.int64), level, bisect)
            kid = _sub_cell(
                m,
                node,
                digit,
                node_level,
                node_row,
                node_kids,
                node_name,
                node_low,
                kids,
                row_model,
                row_name,
                free,
                size,
                bisect,
            )
            row, s = node_row[kid], leaf_of[m, log_place[a, t]]
            counts[row, s] += 1
            sums[row, s] += log_likes[a, t]
            if a == owner:
                own_counts[row, s] += 1
                own_sums[row, s] += log_likes[a, t]
                arrivals[row] += 1


def _expand(
    m: int,
    leaf: int,
    when: int,
    first: int,
    last: int,
    codes: Array,
    leaf_lo: Array,
    leaf_hi: Array,
    leaf_depth: Array,
    leaf_name: Array,
    num_leaves: Array,
    leaf_of: Array,
    node_level: Array,
    node_kids: Array,
    node_row: Array,
    kids: Array,
    counts: Array,
    sums: Array,
    own_counts: Array,
    own_sums: Array,
    log_place: Array,
    log_likes: Array,
    log_steps: Array,
    pair_actor: Array,
    owner: int,
    bisect: bool,
) -> None:
    """`ClusterTree.expand`, where no answers are charged; the pairs of the model are `first` to `last`."""
    new = num_leaves[m]
    lo, hi = leaf_lo[m, leaf], leaf_hi[m, leaf]
    depth, name = leaf_depth[m, leaf] + 1, leaf_name[m, leaf] * 2
    mark = ((name + 1) ^ (np.int64(1) << depth)) << (DEPTH - depth)
    middle = lo
    while middle < hi and codes[middle] < mark:
        middle += 1
    num_leaves[m] += 1
    leaf_hi[m, leaf], leaf_lo[m, new], leaf_hi[m, new] = middle, middle, hi
    leaf_depth[m, leaf] = leaf_depth[m, new] = depth
    leaf_name[m, leaf], leaf_name[m, new] = name, name + 1
    for k in range(middle, hi):
        leaf_of[m, k] = new
    for p in range(first, last):
        a = pair_actor[p]
        for t in range(when):
            if middle <= log_place[a, t] < hi:
                row = node_row[_walk(m, log_steps[a, t].astype(np.int64), node_level, node_kids, kids, bisect)]
                like = log_likes[a, t]
                counts[row, new] += 1
                counts[row, leaf] -= 1
                sums[row, new] += like
                sums[row, leaf] -= like
                if a == owner:
                    own_counts[row, new] += 1
                    own_counts[row, leaf] -= 1
                    own_sums[row, new] += like
                    own_sums[row, leaf] -= like


def _loop(
    leaf_lo: Array,
    leaf_hi: Array,
    leaf_depth: Array,
    leaf_name: Array,
    num_leaves: Array,
    leaf_of: Array,
    node_level: Array,
    node_row: Array,
    node_kids: Array,
    node_name: Array,
    node_low: Array,
    kids: Array,
    counts: Array,
    sums: Array,
    own_counts: Array,
    own_sums: Array,
    arrivals: Array,
    row_model: Array,
    row_name: Array,
    log_place: Array,
    log_likes: Array,
    log_steps: Array,
    codes: Array,
    order: Array,
    own: Array,
    below: Array,
    pair_model: Array,
    pair_actor: Array,
    owner_actor: Array,
    pair_from: Array,
    free: Array,
    size: Array,
    start: int,
    done: int,
    spare: int,
    bisect: bool,
    deepest: int,
    num_agents: int,
    num_models: int,
    steps: Array,
    contexts: Array,
    luck: Array,
    uniform: Array,
    model_of: Array,
    may_ask: Array,
    always_asks: Array,
    threshold: float,
    biased: bool,
    wide: Array,
    log_n: Array,
    bonus: Array,
    explored: Array,
    crowded: Array,
    mean: Array,
    items: Array,
    weights: Array,
    directions: Array,
    phases: Array,
    matrix: Array,
    heights: Array,
    radii: Array,
    bumps: int,
    shown: Array,
    likes: Array,
    asked: Array,
) -> int:
    rounds, actors, dims = steps.shape
    models, pairs = len(owner_actor), len(pair_model)
    index = np.empty(leaf_lo.shape[1])
    places, slots, used = np.empty(actors, np.int64), np.empty(actors, np.int64), np.empty(actors)
    nodes = np.empty(pairs, np.int64)
    for t in range(done, rounds):
        if (
            size[0] + spare > len(node_level)
            or size[1] + spare > len(counts)
            or size[2] + models > len(kids)
            or num_leaves.max() + 1 > leaf_lo.shape[1]
        ):
            return t
        now = start + t
        # Everyone acts.
        for a in range(actors):
            b, m = a // num_agents, model_of[a]
            node, row = _walk(m, steps[t, a], node_level, node_kids, kids, bisect), -1
            if node >= 0:
                row = node_row[node]
            asks = may_ask[a] and (always_asks[a] or mean[m] < threshold)
            asked[t, a] = asks
            best, ties = -np.inf, 0
            for s in range(num_leaves[m]):
                if below[a, leaf_hi[m, s]] == below[a, leaf_lo[m, s]]:
                    index[s] = -np.inf
                    continue
                q, total = 0, 0
                if row >= 0:
                    if asks:
                        q, total = counts[row, s], sums[row, s]
                    else:
                        q, total = counts[row, s] if biased else own_counts[row, s], own_sums[row, s]
                value = np.inf
                if q > 0:
                    value = total / q + np.sqrt(wide[t] / q) + bonus[leaf_depth[m, s]]
                index[s] = value
                if value > best:
                    best, ties = value, 1
                elif value == best:
                    ties += 1
            place, slot = int(luck[t, a, 0] * ties), 0
            for s in range(num_leaves[m]):
                if index[s] == best:
                    if place == 0:
                        slot = s
                        break
                    place -= 1
            used[a] = 0
            if row >= 0:
                used[a] = counts[row, slot] if asks or biased else own_counts[row, slot]
            first, last = below[a, leaf_lo[m, slot]], below[a, leaf_hi[m, slot]]
            places[a], slots[a] = own[a, first + int(luck[t, a, 1] * (last - first))], slot
            item = order[b, places[a]]
            mu = _mean(
                contexts[t, a], items[b, item], weights[b], directions[b], phases[b], matrix[b], heights, radii, bumps
            )
            like = uniform[t, a] < mu
            shown[t, a], likes[t, a] = item, like
            log_place[a, now], log_likes[a, now] = places[a], like
            for i in range(dims):
                log_steps[a, now, i] = steps[t, a, i]
        # All records are added.
        for p in range(pairs):
            m, a = pair_model[p], pair_actor[p]
            node = m
            while node_kids[node] >= 0:
                digit = _digit(steps[t, a], node_level[node], bisect)
                node = _sub_cell(
                    m,
                    node,
                    digit,
                    node_level,
                    node_row,
                    node_kids,
                    node_name,
                    node_low,
                    kids,
                    row_model,
                    row_name,
                    free,
                    size,
                    bisect,
                )
            nodes[p] = node
            row, s = node_row[node], leaf_of[m, places[a]]
            counts[row, s] += 1
            sums[row, s] += likes[t, a]
            if owner_actor[m] == a:
                own_counts[row, s] += 1
                own_sums[row, s] += likes[t, a]
                arrivals[row] += 1
                mean[m] = own_sums[row, s] / own_counts[row, s]
        # Cells are split, and leaves expanded.
        for p in range(pairs):
            m, a = pair_model[p], pair_actor[p]
            if owner_actor[m] != a:
                continue
            node, slot = nodes[p], slots[a]
            level, row, depth = node_level[node], node_row[node], leaf_depth[m, slot]
            if arrivals[row] >= crowded[level] * log_n[t] and level < deepest:
                _split(
                    m,
                    node,
                    now + 1,
                    pair_from[m],
                    pair_from[m + 1],
                    node_level,
                    node_row,
                    node_kids,
                    node_name,
                    node_low,
                    kids,
                    counts,
                    sums,
                    own_counts,
                    own_sums,
                    arrivals,
                    row_model,
                    row_name,
                    log_place,
                    log_likes,
                    log_steps,
                    leaf_of,
                    pair_actor,
                    a,
                    free,
                    size,
                    bisect,
                )
            held = below[a, leaf_hi[m, slot]] - below[a, leaf_lo[m, slot]]
            if used[a] >= explored[depth] * log_n[t] and depth < DEPTH and held > 1:
                _expand(
                    m,
                    slot,
                    now + 1,
                    pair_from[m],
                    pair_from[m + 1],
                    codes[m // num_models],
                    leaf_lo,
                    leaf_hi,
                    leaf_depth,
                    leaf_name,
                    num_leaves,
                    leaf_of,
                    node_level,
                    node_kids,
                    node_row,
                    kids,
                    counts,
                    sums,
                    own_counts,
                    own_sums,
                    log_place,
                    log_likes,
                    log_steps,
                    pair_actor,
                    a,
                    bisect,
                )
    return rounds
