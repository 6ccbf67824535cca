"""The random parts of a run: catalogue, repositories, the instance of the mean rewards, and the users' contexts.

Scalar functions for one replica (`taciturn.envs.core.Replicas`).
"""

import math
from typing import Any

import numpy as np

from taciturn.compiling.counter_streams import fill
from taciturn.envs.core import uniform
from taciturn.envs.recommender.geometry import item_code
from taciturn.envs.recommender.rewards import BUMPS, ITEM_DIMS, WEIGHTS

ITEM_CLUSTERS, ITEM_SPREAD, ITEM_UNIFORM = 12, 0.1, 0.3
CONTEXT_CLUSTERS, CONTEXT_SPREAD, CONTEXT_UNIFORM = 8, 0.08, 0.25


def numbers_of_an_instance(dims: int) -> int:
    """The number of uniform numbers that `draw_instance` needs for contexts of this dimension."""
    return ITEM_DIMS - 1 + len(BUMPS) * ITEM_DIMS * (1 + 2 * dims) + 2 * ITEM_DIMS * (dims + 1)


def numbers_of_a_point(dims: int) -> int:
    """The number of uniform numbers that a point needs, see `place`."""
    return 1 + dims + dims % 2


SOURCES = ("catalogue", "repositories", "arrivals", "instance", "centres", "contexts", "items", "rewards")
CATALOGUE, REPOSITORIES, ARRIVALS, INSTANCE, CENTRES, CONTEXTS, ITEMS, REWARDS = range(len(SOURCES))


def normal(first: float, second: float) -> float:
    """A normal variate from two uniform numbers (Box & Muller 1958)."""
    return math.sqrt(-2.0 * math.log1p(-first)) * math.cos(2.0 * math.pi * second)


def place(out: Any, centres: Any, spread: float, anywhere: float, luck: Any) -> None:
    """A point in the unit cube from uniform numbers `luck`: uniform with probability `anywhere`, else Gaussian around
    one of `centres` [c, d], clipped; in single precision, as in observations."""
    c = min(int(max(luck[0] - anywhere, 0.0) / (1.0 - anywhere) * len(centres)), len(centres) - 1)
    radius = angle = 0.0
    for d in range(len(out)):
        x = luck[1 + d]
        if luck[0] >= anywhere:  # both variates of Box & Muller, from two numbers
            if d % 2 == 0:
                radius, angle = spread * math.sqrt(-2.0 * math.log1p(-x)), 2.0 * math.pi * luck[2 + d]
            x = centres[c, d] + radius * (math.cos(angle) if d % 2 == 0 else math.sin(angle))
        out[d] = np.float32(min(max(x, 0.0), 1.0))


def next_user(arrays: Any, params: Any, i: int, rng: Any) -> None:
    """Draw the context of agent i's next user."""
    fill(arrays.user_luck, rng, CONTEXTS)
    if len(params.users) == 0:
        place(arrays.contexts[i], arrays.centres, CONTEXT_SPREAD, CONTEXT_UNIFORM, arrays.user_luck)
        return
    row = int(arrays.user_luck[0] * len(params.users))
    for d in range(arrays.contexts.shape[1]):
        arrays.contexts[i, d] = params.users[row, d]


def draw_catalogue(arrays: Any, params: Any, rng: Any) -> None:
    """Draw the items and compute their codes."""
    fill(arrays.middles, rng, CATALOGUE)
    for k in range(len(arrays.items)):
        if len(params.goods) == 0:
            fill(arrays.item_luck, rng, CATALOGUE)
            place(arrays.items[k], arrays.middles, ITEM_SPREAD, ITEM_UNIFORM, arrays.item_luck)
        else:
            for d in range(arrays.items.shape[1]):
                arrays.items[k, d] = params.goods[k, d]
        arrays.codes[k] = item_code(arrays.items[k])


def draw_repositories(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw each agent's items in the order of their arrival, and activate those that it has at the start."""
    agents, size = arrays.held.shape
    state.at_hand = params.sizes[0]
    for i in range(agents):
        if i > 0 and params.homogeneous:
            for m in range(size):
                arrays.held[i, m] = arrays.held[0, m]
        else:
            left, result = len(arrays.items), 0
            for k in range(len(arrays.items)):  # selection sampling (Knuth, 3.4.2, algorithm S)
                if uniform(rng, REPOSITORIES) * left < size - result:
                    arrays.held[i, result] = k
                    result += 1
                left -= 1
            for m in range(size - 1 if len(params.starts) > 0 else 0):
                other = m + int(uniform(rng, ARRIVALS) * (size - m))
                arrays.held[i, m], arrays.held[i, other] = arrays.held[i, other], arrays.held[i, m]
        for m in range(state.at_hand):
            arrays.active[i, arrays.held[i, m]] = True


def draw_instance(arrays: Any, rng: Any) -> None:
    """The random parts of all families, which therefore share random numbers: `weights` in a random order, `directions`
    of unit length, `phases` in [0, 2], and `matrix`, with absolute values that add up to 1."""
    bumps, dims, width = arrays.directions.shape
    luck, at = arrays.instance_luck, 0
    fill(luck, rng, INSTANCE)
    for d in range(dims):
        arrays.weights[d] = WEIGHTS[d]
    for d in range(dims - 1):
        other = d + int(luck[at] * (dims - d))
        arrays.weights[d], arrays.weights[other] = arrays.weights[other], arrays.weights[d]
        at += 1
    for bump in range(bumps):
        for d in range(dims):
            arrays.phases[bump, d] = 2.0 * luck[at]
            at += 1
            size = 0.0
            for e in range(width):
                arrays.directions[bump, d, e] = normal(luck[at], luck[at + 1])
                size += arrays.directions[bump, d, e] * arrays.directions[bump, d, e]
                at += 2
            for e in range(width):
                arrays.directions[bump, d, e] /= math.sqrt(size)
    size = 0.0
    for d in range(dims):
        for e in range(width + 1):
            arrays.matrix[d, e] = normal(luck[at], luck[at + 1])
            size += abs(arrays.matrix[d, e])
            at += 2
    for d in range(dims):
        for e in range(width + 1):
            arrays.matrix[d, e] /= size
