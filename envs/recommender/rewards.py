"""Families of mean rewards mu(context, item), for items in [0, 1]^5: an instance is drawn for every run.

`means` is their definition, in arrays; the scalar functions are those of a run (`taciturn.envs.core.Replicas`).
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
OWN, LINEAR = -1, 0  # instead of a number of bumps: a function of the user's own, and the linear family

Instance = dict[str, Array]
"""`weights` [B, 5]: a permutation of (1, .8, .6, .4, .2); `directions` [B, bumps, 5, d] of unit length; `phases` [B,
bumps, 5] in [0, 2]; `matrix` [B, 5, d + 1], whose absolute values add up to 1."""


def optimum(contexts: Floats, directions: Floats, phases: Floats) -> Floats:
    """g(c) = .5 + .42 sin(pi (A (c - .5) + phi)), [..., 5], for contexts [..., d], A [..., 5, d] and phi [..., 5]."""
    turned = (directions @ (contexts - 0.5)[..., None])[..., 0] + phases
    found: Floats = 0.5 + 0.42 * np.sin(np.pi * turned)
    return found


def number_of_bumps(family: Any) -> int:
    """The number of bumps of a family, or OWN or LINEAR."""
    return OWN if callable(family) else {"peak": 1, "bumps": len(BUMPS), "linear": LINEAR}[family]


def means(family: Any, contexts: Floats, items: Floats, instance: Instance) -> Floats:
    """The mean rewards mu of items [..., B, N, 5] in contexts [..., B, N, d], float64[..., B, N].

    - peak: .05 + .9 max(0, 1 - |w (x - g(c))| / .65) with Euclidean length.
    - bumps: the same with the highest of four such bumps; three of them are lower and narrower and have their own g.
    - linear: .5 + .45 (2x - 1) M (1, 2c - 1), linear in the context and in the item.
    - a callable: its value at (contexts, items).

    Raises:
        ValueError: a callable returns another shape, or a value outside [0, 1].
    """
    if callable(family):
        found = np.asarray(family(contexts, items), np.float64)
        shape = np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1])
        if found.shape != shape or not ((found >= 0) & (found <= 1)).all():
            bad = found.shape if found.shape != shape else float(found[~((found >= 0) & (found <= 1))][0])
            raise ValueError(f"family must return mean rewards in [0, 1] of shape {shape}, not {shown(bad)}")
        return found
    if family == "linear":
        with_one = np.concatenate([np.ones((*contexts.shape[:-1], 1)), 2 * contexts - 1], -1)
        slopes = (instance["matrix"][:, None] @ with_one[..., None])[..., 0]
        return np.asarray(0.5 + 0.45 * ((2 * items - 1) * slopes).sum(-1))
    weights, directions, phases = (instance[name] for name in ("weights", "directions", "phases"))
    found = np.zeros(np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1]))
    for k, (height, radius) in enumerate(BUMPS[: number_of_bumps(family)]):
        centre = optimum(contexts, directions[:, k, None], phases[:, k, None])
        distance = np.sqrt(((weights[:, None] * (items - centre)) ** 2).sum(-1))
        found = np.maximum(found, height * np.maximum(0.0, 1 - distance / radius))
    return FLOOR + SPAN * found


# The same for one replica.


def arrange(arrays: Any, params: Any) -> None:
    """The items as searches take them, `columns` [6, K]: weighted, and half their squared length; for the linear
    family as they are, and 0."""
    if params.bumps == OWN:
        return
    for k in range(len(arrays.items)):
        half = 0.0
        for d in range(ITEM_DIMS):
            weight = 1.0 if params.bumps == LINEAR else arrays.weights[d]
            arrays.columns[d, k] = weight * arrays.items[k, d]
            half += arrays.columns[d, k] ** 2 / 2.0
        arrays.columns[ITEM_DIMS, k] = 0.0 if params.bumps == LINEAR else half


def mean_reward(arrays: Any, params: Any, i: int, item: int) -> float:
    """mu of an item in the context of agent i, whose `goals` are known."""
    if params.bumps == OWN:
        return float(arrays.values[i, item])
    if params.bumps == LINEAR:
        total = 0.0
        for d in range(ITEM_DIMS):
            total += (2.0 * arrays.columns[d, item] - 1.0) * arrays.goals[i, 0, d]
        return 0.5 + 0.45 * total
    highest = 0.0
    for bump in range(params.bumps):
        squared = 0.0
        for d in range(ITEM_DIMS):
            squared += (arrays.columns[d, item] - arrays.goals[i, bump, d]) ** 2
        height, radius = params.heights[bump], params.radii[bump]
        highest = max(highest, height * max(0.0, 1.0 - math.sqrt(squared) / radius))
    return FLOOR + SPAN * highest


def best_by_score(columns: Any, goal: Any, held: Any, at_hand: int, score: Any) -> int:
    """Of the first `at_hand` items of `held`, the one with the largest product with `goal`, less its half length.

    The nearest item to g maximises (wx)(wg) - |wx|^2 / 2. All items are scored first, which processors do several at a
    time.
    """
    a, b, c, d, e = goal[0], goal[1], goal[2], goal[3], goal[4]
    for k in range(len(score)):
        score[k] = (
            a * columns[0, k] + b * columns[1, k] + c * columns[2, k] + d * columns[3, k] + e * columns[4, k]
        ) - columns[5, k]
    best, top = 0, -math.inf
    for m in range(at_hand):
        if score[held[m]] > top:
            best, top = held[m], score[held[m]]
    return int(best)


def look_ahead(state: Any, arrays: Any, params: Any, i: int) -> None:
    """What mean rewards in the context of agent i depend on, its `goals`, and its best item at hand.

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
        item = best_by_score(arrays.columns, arrays.goals[i, bump], arrays.held[i], state.at_hand, arrays.score)
        mu = mean_reward(arrays, params, i, item)
        if mu > arrays.most[i]:
            arrays.best[i], arrays.most[i] = item, mu
