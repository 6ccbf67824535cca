"""Families of mean rewards mu(context, item), for items in [0, 1]^5: an instance is drawn for every run.

`means` defines them, in arrays; the scalar functions compute them within a run (`taciturn.envs.core.Replicas`).
"""

import math
from typing import Any

import numpy as np

from taciturn.validation import Array, Floats, shown

ITEM_DIMS = 5
FAMILIES = ("peak", "bumps", "linear")
FLOOR, SPAN, RADIUS = 0.05, 0.9, 0.65
WEIGHTS = (1.0, 0.8, 0.6, 0.4, 0.2)
BUMPS = ((1.0, 0.65), (0.8, 0.4), (0.7, 0.4), (0.6, 0.4))  # heights and radii; the highest is `peak`
BLOCK, ROUNDING = 16, 1e-9  # searches for the best item: block size, and error of the bounds
OWN, LINEAR = -1, 0  # in place of a number of bumps: a user-defined function, and the linear family

Instance = dict[str, Array]
"""`weights` [B, 5]: a permutation of (1, .8, .6, .4, .2); `directions` [B, bumps, 5, d] of unit length; `phases` [B,
bumps, 5] in [0, 2]; `matrix` [B, 5, d + 1], with absolute values that add up to 1."""


def optimum(contexts: Floats, directions: Floats, phases: Floats) -> Floats:
    """g(c) = .5 + .42 sin(pi (A (c - .5) + phi)), [..., 5], for contexts [..., d], A [..., 5, d] and phi [..., 5]."""
    turned = (directions @ (contexts - 0.5)[..., None])[..., 0] + phases
    result: Floats = 0.5 + 0.42 * np.sin(np.pi * turned)
    return result


def number_of_bumps(family: Any) -> int:
    """The number of bumps of a family, or OWN or LINEAR."""
    return OWN if callable(family) else {"peak": 1, "bumps": len(BUMPS), "linear": LINEAR}[family]


def means(family: Any, contexts: Floats, items: Floats, instance: Instance) -> Floats:
    """The mean rewards mu of items [..., B, N, 5] in contexts [..., B, N, d], float64[..., B, N].

    - peak: .05 + .9 max(0, 1 - |w (x - g(c))| / .65) with Euclidean length.
    - bumps: the highest of four such bumps; three of them are lower and narrower, and each has a separate g.
    - linear: .5 + .45 (2x - 1) M (1, 2c - 1), linear in the context and in the item.
    - a callable: its value at (contexts, items).

    Raises:
        ValueError: a callable returns another shape, or a value outside [0, 1].
    """
    if callable(family):
        result = np.asarray(family(contexts, items), np.float64)
        shape = np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1])
        if result.shape != shape or not ((result >= 0) & (result <= 1)).all():
            bad = result.shape if result.shape != shape else float(result[~((result >= 0) & (result <= 1))][0])
            raise ValueError(f"family must return mean rewards in [0, 1] of shape {shape}, not {shown(bad)}")
        return result
    if family == "linear":
        with_one = np.concatenate([np.ones((*contexts.shape[:-1], 1)), 2 * contexts - 1], -1)
        slopes = (instance["matrix"][:, None] @ with_one[..., None])[..., 0]
        return np.asarray(0.5 + 0.45 * ((2 * items - 1) * slopes).sum(-1))
    weights, directions, phases = (instance[name] for name in ("weights", "directions", "phases"))
    result = np.zeros(np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1]))
    for k, (height, radius) in enumerate(BUMPS[: number_of_bumps(family)]):
        centre = optimum(contexts, directions[:, k, None], phases[:, k, None])
        distance = np.sqrt(((weights[:, None] * (items - centre)) ** 2).sum(-1))
        result = np.maximum(result, height * np.maximum(0.0, 1 - distance / radius))
    return FLOOR + SPAN * result


# The same for one replica.


def arrange(arrays: Any, params: Any) -> None:
    """Prepare searches among the items: a k-d tree puts nearby items into one block.

    `order` holds the items block by block, padded with the last one to fill a block, and `place` their positions in
    it; `near` [blocks, 5, BLOCK] their features, `least` and `greatest` [5, blocks] the bounds of these, and `scale`
    the factors of the features in searches.
    """
    if params.bumps == OWN:
        return
    for d in range(ITEM_DIMS):
        arrays.scale[d] = 1.0 if params.bumps == LINEAR else arrays.weights[d]
    order, width = arrays.order, BLOCK
    for k in range(params.num_items):
        order[k] = k
    while width < params.num_items:
        width *= 2
    while width > BLOCK:
        for start in range(0, params.num_items - width // 2, width):
            halve(arrays, start, min(start + width, params.num_items) - 1, start + width // 2)
        width //= 2
    for at in range(len(order)):
        order[at] = order[min(at, params.num_items - 1)]
        arrays.place[order[at]] = at
        block, k = at // BLOCK, at % BLOCK
        for d in range(ITEM_DIMS):
            arrays.near[block, d, k] = x = arrays.items[order[at], d]
            arrays.least[d, block] = x if k == 0 else min(x, arrays.least[d, block])
            arrays.greatest[d, block] = x if k == 0 else max(x, arrays.greatest[d, block])


def halve(arrays: Any, low: int, high: int, middle: int) -> None:
    """Rearrange `order` from `low` to `high`, so entries from `middle` on are not less than the rest, in the
    dimension of these items' largest spread (Hoare 1961, FIND)."""
    order, items, widest, along = arrays.order, arrays.items, -1.0, 0
    for d in range(ITEM_DIMS):
        least = greatest = items[order[low], d]
        for at in range(low + 1, high + 1):
            least, greatest = min(least, items[order[at], d]), max(greatest, items[order[at], d])
        if arrays.scale[d] * (greatest - least) > widest:
            widest, along = arrays.scale[d] * (greatest - least), d
    while low < high:
        pivot, i, j = items[order[middle], along], low, high
        while i <= j:
            while items[order[i], along] < pivot:
                i += 1
            while items[order[j], along] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        low, high = i if j < middle else low, j if middle < i else high


def mean_reward(arrays: Any, params: Any, i: int, item: int) -> float:
    """mu of an item in the context of agent i, given its `goals`."""
    if params.bumps == OWN:
        return float(arrays.values[i, item])
    block, k = int(arrays.place[item]) // BLOCK, int(arrays.place[item]) % BLOCK
    if params.bumps == LINEAR:
        total = 0.0
        for d in range(ITEM_DIMS):
            total += (2.0 * (arrays.scale[d] * arrays.near[block, d, k]) - 1.0) * arrays.goals[i, 0, d]
        return 0.5 + 0.45 * total
    highest = 0.0
    for bump in range(params.bumps):
        squared = 0.0
        for d in range(ITEM_DIMS):
            apart = arrays.scale[d] * arrays.near[block, d, k] - arrays.goals[i, bump, d]
            squared += apart * apart  # in Python and compiled code, `apart**2` may differ
        height, radius = params.heights[bump], params.radii[bump]
        highest = max(highest, height * max(0.0, 1.0 - math.sqrt(squared) / radius))
    return FLOOR + SPAN * highest


def best_at_hand(arrays: Any, params: Any, i: int, goal: Any) -> int:
    """The item of agent i that is nearest to `goal`, both weighted, or, for the linear family, farthest along it.

    The nearest x to g maximises xg - |x|^2 / 2. The best point within a block's bounds limits the value of its items.
    The search begins with the most promising block, and skips blocks that cannot exceed the best item found.
    """
    reach, score, near, order, scale = arrays.reach, arrays.score, arrays.near, arrays.order, arrays.scale
    half, far = (0.0, 1e9) if params.bumps == LINEAR else (0.5, 1.0)
    for block in range(len(reach)):
        most = ROUNDING
        for d in range(ITEM_DIMS):
            x = min(max(far * goal[d], scale[d] * arrays.least[d, block]), scale[d] * arrays.greatest[d, block])
            most += goal[d] * x - half * (x * x)
        reach[block] = most
    first, top = 0, reach[0]
    for block in range(len(reach)):
        if reach[block] > top:
            first, top = block, reach[block]
    best, top = 0, -math.inf
    for turn in range(-1, len(reach)):
        block = first if turn < 0 else turn
        if reach[block] < top or turn == first:
            continue
        for k in range(BLOCK):
            along, squares = 0.0, 0.0
            for d in range(ITEM_DIMS):
                x = scale[d] * near[block, d, k]
                along += goal[d] * x
                squares += x * x
            score[k] = along - half * squares
        for k in range(BLOCK):
            item = order[BLOCK * block + k]
            if score[k] >= top and arrays.active[i, item] and (score[k] > top or item < best):
                best, top = item, score[k]
    return int(best)


def look_ahead(state: Any, arrays: Any, params: Any, i: int) -> None:
    """Compute the `goals` of agent i's context, which determine mean rewards, and its best available item.

    Goals are w g(c) of each bump, or, for the linear family, M (1, 2c - 1).
    """
    arrays.most[i] = -math.inf
    for bump in range(max(params.bumps, 1)):
        for d in range(ITEM_DIMS):
            value = arrays.matrix[d, 0] if params.bumps == LINEAR else arrays.phases[bump, d]
            for e in range(arrays.contexts.shape[1]):
                if params.bumps == LINEAR:
                    value += arrays.matrix[d, e + 1] * (2.0 * arrays.contexts[i, e] - 1.0)
                else:
                    value += arrays.directions[bump, d, e] * (arrays.contexts[i, e] - 0.5)
            if params.bumps != LINEAR:
                value = arrays.weights[d] * (0.5 + 0.42 * math.sin(math.pi * value))
            arrays.goals[i, bump, d] = value
    for bump in range(max(params.bumps, 1)):
        item = best_at_hand(arrays, params, i, arrays.goals[i, bump])
        mu = mean_reward(arrays, params, i, item)
        if mu > arrays.most[i]:
            arrays.best[i], arrays.most[i] = item, mu
