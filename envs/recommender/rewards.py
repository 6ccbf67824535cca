"""Families of mean rewards mu(context, item), for items in [0, 1]^5: an instance is drawn for every run."""

from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.validation import Array, Bools, Floats, Ints, shown

__all__ = ["FAMILIES", "ITEM_DIMS", "best_items", "draw_instance", "means", "optimum"]

ITEM_DIMS = 5
FAMILIES = ("peak", "bumps", "linear")
FLOOR, SPAN, RADIUS = 0.05, 0.9, 0.65
WEIGHTS = (1.0, 0.8, 0.6, 0.4, 0.2)
BUMPS = ((1.0, 0.65), (0.8, 0.4), (0.7, 0.4), (0.6, 0.4))  # heights and radii; the highest is `peak`
PIECE = 1 << 22  # numbers computed at a time

Instance = dict[str, Array]


def draw_instance(family: Any, num_envs: int, context_dim: int, rng: np.random.Generator) -> Instance:
    """What a family leaves to chance, for all B replicas, whatever the family, so that families share their luck.

    `weights` [B, 5]: a permutation of (1, .8, .6, .4, .2); `directions` [B, bumps, 5, d] of unit length; `phases` [B, bumps, 5] in
    [0, 2]; `matrix` [B, 5, d + 1], whose absolute values add up to 1.
    """
    weights = rng.permuted(np.tile(WEIGHTS, (num_envs, 1)), axis=1)
    directions = rng.standard_normal((num_envs, len(BUMPS), ITEM_DIMS, context_dim))
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    phases = rng.uniform(0, 2, (num_envs, len(BUMPS), ITEM_DIMS))
    matrix = rng.standard_normal((num_envs, ITEM_DIMS, context_dim + 1))
    matrix /= np.abs(matrix).sum((1, 2), keepdims=True)
    return {"weights": weights, "directions": directions, "phases": phases, "matrix": matrix}


def optimum(contexts: Floats, directions: Floats, phases: Floats) -> Floats:
    """g(c) = .5 + .42 sin(pi (A (c - .5) + phi)), [..., 5], for contexts [..., d], A [..., 5, d] and phi [..., 5]."""
    turned = (directions @ (contexts - 0.5)[..., None])[..., 0] + phases
    found: Floats = 0.5 + 0.42 * np.sin(np.pi * turned)
    return found


def _by_bump(family: str, contexts: Floats, instance: Instance) -> list[tuple[Floats, float, float]]:
    """(g(c) [B, ..., 5], height, radius) of each bump."""
    bumps = BUMPS[:1] if family == "peak" else BUMPS
    between = (slice(None), *[None] * (contexts.ndim - 2))
    return [
        (optimum(contexts, instance["directions"][:, k][between], instance["phases"][:, k][between]), height, radius)
        for k, (height, radius) in enumerate(bumps)
    ]


def means(family: Any, contexts: Floats, items: Floats, instance: Instance) -> Floats:
    """The mean rewards mu of items [B, ..., 5] in contexts [B, ..., d], float64[B, ...].

    - peak: .05 + .9 max(0, 1 - |w (x - g(c))| / .65) with Euclidean length.
    - bumps: the same with the highest of four such bumps, three of which are lower and narrower and have a g of their own.
    - linear: .5 + .45 (2x - 1) M (1, 2c - 1), linear in the context and in the item.
    - a callable: its value at (contexts, items).

    Raises:
        ValueError: a callable returns another shape, or a value outside [0, 1].
    """
    if callable(family):
        found = np.asarray(family(contexts, items), np.float64)
        shape = np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1])
        if found.shape != shape or not ((found >= 0) & (found <= 1)).all():
            bad = found.shape if found.shape != shape else found[~((found >= 0) & (found <= 1))][0]
            raise ValueError(f"family must return mean rewards in [0, 1] of shape {shape}, not {shown(bad)}")
        return found
    between = (slice(None), *[None] * (items.ndim - 2))
    if family == "linear":
        ahead = (instance["matrix"][between] @ _with_one(contexts)[..., None])[..., 0]
        return np.asarray(0.5 + 0.45 * ((2 * items - 1) * ahead).sum(-1))
    weights = instance["weights"][between]
    found = np.zeros(np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1]))
    for centre, height, radius in _by_bump(family, contexts, instance):
        distance = np.sqrt(((weights * (items - centre)) ** 2).sum(-1))
        found = np.maximum(found, height * np.maximum(0.0, 1 - distance / radius))
    return FLOOR + SPAN * found


def _with_one(contexts: Floats) -> Floats:
    return np.concatenate([np.ones((*contexts.shape[:-1], 1)), 2 * contexts - 1], -1)


def best_items(family: Any, contexts: Floats, items: Floats, active: Bools, instance: Instance) -> Ints:
    """The item with the highest mean reward in each context, among those that its agent has.

    Args:
        family, instance: as for `means`.
        contexts: [B, N, d].
        items: the catalogue, [B, K, 5].
        active: the agents' items, bool[B, N, K].

    Returns:
        int64[B, N].

    The nearest item is the one with the largest (wx)(wg) - |wx|^2 / 2, a matrix product.
    """
    if callable(family):
        many = means(family, contexts[:, :, None], items[:, None], instance)
        return np.where(active, many, -1.0).argmax(-1)
    if family == "linear":
        ahead = (instance["matrix"][:, None] @ _with_one(contexts)[..., None])[..., 0]
        return np.where(active, ahead @ np.swapaxes(items, 1, 2), -np.inf).argmax(-1)
    weighted = items * instance["weights"][:, None]
    half = (weighted**2).sum(-1) / 2
    scale = instance["weights"][:, None]
    nearest = [
        np.where(active, (centre * scale) @ np.swapaxes(weighted, 1, 2) - half[:, None], -np.inf).argmax(-1)
        for centre, _, _ in _by_bump(family, contexts, instance)
    ]
    if len(nearest) == 1:
        return nearest[0]
    candidates = np.stack(nearest, -1)
    replica = np.arange(len(items))[:, None, None]
    values = means(family, contexts[:, :, None], items[replica, candidates], instance)
    return np.take_along_axis(candidates, values.argmax(-1)[..., None], -1)[..., 0]


Mean = Callable[[Floats, Floats], Floats]
