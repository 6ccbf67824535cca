"""Families of mean rewards mu(context, item), for items in [0, 1]^5: an instance is drawn for every run."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from taciturn.current_folder import numba
from taciturn.validation import Array, Bools, Floats, Ints, shown

ITEM_DIMS = 5
FAMILIES = ("peak", "bumps", "linear")
FLOOR, SPAN, RADIUS = 0.05, 0.9, 0.65
WEIGHTS = (1.0, 0.8, 0.6, 0.4, 0.2)
BUMPS = ((1.0, 0.65), (0.8, 0.4), (0.7, 0.4), (0.6, 0.4))  # heights and radii; the highest is `peak`

Instance = dict[str, Array]


def draw_instance(family: Any, num_envs: int, context_dim: int, rng: np.random.Generator) -> Instance:
    """All random parts of a reward function, for B replicas. They are drawn alike for every family, so that families
    share their luck.

    `weights` [B, 5]: a permutation of (1, .8, .6, .4, .2); `directions` [B, bumps, 5, d] of unit length; `phases` [B,
    bumps, 5] in [0, 2]; `matrix` [B, 5, d + 1], whose absolute values add up to 1.
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
    """(g(c) [..., B, N, 5], height, radius) of each bump."""
    bumps = BUMPS[:1] if family == "peak" else BUMPS
    return [
        (optimum(contexts, instance["directions"][:, k, None], instance["phases"][:, k, None]), height, radius)
        for k, (height, radius) in enumerate(bumps)
    ]


def _slopes(contexts: Floats, instance: Instance) -> Floats:
    """M (1, 2c - 1), [..., B, N, 5]."""
    with_one = np.concatenate([np.ones((*contexts.shape[:-1], 1)), 2 * contexts - 1], -1)
    found: Floats = (instance["matrix"][:, None] @ with_one[..., None])[..., 0]
    return found


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
        return np.asarray(0.5 + 0.45 * ((2 * items - 1) * _slopes(contexts, instance)).sum(-1))
    weights = instance["weights"][:, None]
    found = np.zeros(np.broadcast_shapes(contexts.shape[:-1], items.shape[:-1]))
    for centre, height, radius in _by_bump(family, contexts, instance):
        distance = np.sqrt(((weights * (items - centre)) ** 2).sum(-1))
        found = np.maximum(found, height * np.maximum(0.0, 1 - distance / radius))
    return FLOOR + SPAN * found


@dataclass(frozen=True)
class Ahead:
    """Computed once, for finding best items: the items in the form in which a matrix product with contexts takes them,
    and which agent has which.

    Attributes:
        items: [B, K, 5].
        columns: [B, 6, K]: the items (weighted, for a peak or bumps), and half their squared length (0 for the linear
            family).
        active: bool[B, N, K], the items that an agent has.
    """

    items: Floats
    columns: Floats
    active: Bools

    @classmethod
    def of(cls, family: Any, items: Floats, active: Bools, instance: Instance) -> "Ahead":
        linear = callable(family) or family == "linear"
        weighted = items if linear else items * instance["weights"][:, None]
        half = np.zeros((*items.shape[:2], 1)) if linear else (weighted**2).sum(-1, keepdims=True) / 2
        columns = np.ascontiguousarray(np.swapaxes(np.concatenate([weighted, half], -1), 1, 2))
        return cls(items, columns, active)

    def largest(self, rows: Floats) -> Ints:
        """For each row [..., B, N, 5], the agent's item with the largest product with it, less the last column;
        int64[..., B, N]."""
        if rows.ndim > 3:
            if rows.size >= COMPILE_FROM and find_spec("numba") is not None:
                return self._by_loop(rows)
            # Round by round, because larger arrays do not stay in the cache.
            return np.stack([self.largest(each) for each in rows])
        rows = np.concatenate([rows, np.full((*rows.shape[:-1], 1), -1.0)], -1)
        size, agents, items = self.active.shape
        wide = min(max(FEW_SCORES // items, 1), agents)
        high = min(max(FEW_SCORES // (wide * items), 1), size)
        scores, penalties = np.empty((high, wide, items)), np.empty((high, wide, items))
        best = np.empty((size, agents), np.int64)
        for first, begin in product(range(0, size, high), range(0, agents, wide)):
            part = slice(first, first + high), slice(begin, begin + wide)
            lacks = ~self.active[part]
            own = slice(lacks.shape[0]), slice(lacks.shape[1])
            score = np.matmul(rows[part], self.columns[part[0]], out=scores[own])
            # Adding is several times as fast as a mask.
            score += np.multiply(lacks, -FAR, out=penalties[own])
            best[part] = score.argmax(-1)
        return best

    def _by_loop(self, rows: Floats) -> Ints:
        """The same for the rows of a block, [T, B, N, 5], compiled."""
        size, agents, _ = self.active.shape
        best = np.empty(rows.shape[:-1], np.int64)
        for agent in range(size * agents):
            place = divmod(agent, agents)
            own = np.flatnonzero(self.active[place])
            compiled()(
                np.ascontiguousarray(rows[:, *place]),
                np.ascontiguousarray(self.columns[place[0]][:, own]),
                own,
                best[:, *place],
            )
        return best


# Number of scores computed at a time: few enough for the cache, and without room for all agents.
FEW_SCORES = 2**15
FAR = 1e300  # below all scores
# From so many numbers in a block on, compiling a loop (about a second) pays.
COMPILE_FROM = 500_000


@cache
def compiled() -> Any:
    """The search for the largest product, compiled."""
    loop: Any = numba().njit(_search, cache=True)
    return loop


def _search(rows: Floats, columns: Floats, own: Ints, best: Ints) -> None:
    """For rows [T, 5] of one agent, the one of its items `own` [M] with the largest product with `columns` [6, M]."""
    score = np.empty(len(own))
    for t in range(len(rows)):
        for m in range(len(own)):
            score[m] = (
                rows[t, 0] * columns[0, m]
                + rows[t, 1] * columns[1, m]
                + rows[t, 2] * columns[2, m]
                + rows[t, 3] * columns[3, m]
                + rows[t, 4] * columns[4, m]
                - columns[5, m]
            )
        top = score[0]
        for m in range(1, len(own)):
            top = max(top, score[m])
        for m in range(len(own)):
            if score[m] == top:
                best[t] = own[m]
                break


def best_items(family: Any, contexts: Floats, ahead: Ahead, instance: Instance) -> Ints:
    """The item with the highest mean reward in each context [..., B, N, d], among those that its agent has, int64[...,
    B, N].

    The nearest item to g maximises (wx)(wg) - |wx|^2 / 2.
    """
    if callable(family):
        many = means(family, contexts[..., None, :], ahead.items[:, None], instance)
        return np.where(ahead.active, many, -np.inf).argmax(-1)
    if family == "linear":
        return ahead.largest(_slopes(contexts, instance))
    weights = instance["weights"][:, None]
    nearest = [ahead.largest(centre * weights) for centre, _, _ in _by_bump(family, contexts, instance)]
    if len(nearest) == 1:
        return nearest[0]
    replica = np.arange(contexts.shape[-3])[:, None]
    values = [means(family, contexts, ahead.items[replica, one], instance) for one in nearest]
    best = np.argmax(values, 0)
    return np.take_along_axis(np.stack(nearest), best[None], 0)[0]
