"""Where the copies of messages end that agents on a graph set off on random walks, and what they add up to.

By the walks themselves (Tao et al., equation 2; `spread_walks`, `spread_queued`), at uniformly random agents, as long walks do
(`spread_uniform`), or by the normal law of that (`spread_aggregated`).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core.graph import Graph
from taciturn.validation import Array

__all__ = [
    "Spread",
    "affordable",
    "metropolis_hastings",
    "mobility",
    "pick_tokens",
    "spread_aggregated",
    "spread_gaussian",
    "spread_gaussian_fresh",
    "spread_queued",
    "spread_uniform",
    "spread_walks",
    "stacked",
]

BLOCK = 2**16  # copies that walk at once


def metropolis_hastings(graph: Graph) -> Array:
    """Psi of equation 2, float64[N, N]: symmetric, its rows and columns add up to 1."""
    psi = np.zeros((graph.num_nodes, graph.num_nodes))
    degrees = graph.degrees
    rows = np.repeat(np.arange(graph.num_nodes), degrees)
    psi[rows, graph.indices] = np.minimum(1 / degrees[rows], 1 / degrees[graph.indices])
    np.fill_diagonal(psi, 1 - psi.sum(1))
    return psi


def mobility(graph: Graph) -> float:
    """The share of a walk's steps that move, once it has forgotten where it began."""
    if graph.is_complete:
        return 1.0
    degrees = graph.degrees
    rows = np.repeat(np.arange(graph.num_nodes), degrees)
    return float(np.minimum(1 / degrees[rows], 1 / degrees[graph.indices]).sum() / graph.num_nodes)


class Spread(NamedTuple):
    """What ended where, of one society."""

    counts: Array  # int64[N, K]
    received: Array  # int64[N]
    hops: float
    slots: int


def distinct(vectors: Array, tokens: Array) -> tuple[Array, Array]:
    """Rows bool[A, K] without repetition, and the tokens int64[A] of equal rows together."""
    packed = np.packbits(vectors, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    kind: Any = np.uint64 if padded.shape[1] == 8 else np.dtype((np.void, padded.shape[1]))
    keys = padded.view(kind)[:, 0]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, group.ravel(), tokens)
    return vectors[first], sums


def throw(balls: int, bins: int, rng: np.random.Generator) -> Array:
    """Where `balls` end in `bins`, uniformly and independently: int64[bins].

    Poisson counts are uniformly thrown given their sum, so what they lack of `balls` may be thrown one by one.
    """
    if balls < 4 * bins:
        return np.bincount(rng.integers(0, bins, balls), minlength=bins)
    while True:
        counts = rng.poisson((balls - 3 * balls**0.5) / bins, bins)
        lacking = balls - int(counts.sum())
        if lacking >= 0:
            return counts + np.bincount(rng.integers(0, bins, lacking), minlength=bins)


def gather(ends: Array, owners: Array, vectors: Array, num_agents: int) -> tuple[Array, Array]:
    """Sums int64[N, K] and numbers int64[N] of the copies of `vectors[owners]` that end at `ends`, both int64[tokens]."""
    from scipy.sparse import csr_array

    received = np.bincount(ends, minlength=num_agents)
    copies = csr_array((np.ones(len(ends), np.int64), (ends, owners)), shape=(num_agents, len(vectors)))
    return copies @ vectors.astype(np.int64), received


def spread_uniform(vectors: Array, tokens: Array, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Every copy ends at a uniformly random agent: B int64[N, K] and V int64[N] from bits bool[A, K], `tokens` int64[A] copies of each.

    Equal vectors are thrown together. Draws counts of copies by vector and agent, or single copies, whichever are fewer.
    """
    counts, received = np.zeros((num_agents, vectors.shape[1]), np.int64), np.zeros(num_agents, np.int64)
    patterns, tokens = distinct(vectors, tokens)
    if tokens.sum() > len(patterns) * num_agents:
        for start in range(0, len(patterns), 64):
            part = slice(start, start + 64)
            thrown = np.stack([throw(int(n), num_agents, rng) for n in tokens[part]], axis=1)
            # Sums below 2^53 are exact in float64, whose products are fast.
            counts += (thrown.astype(np.float64) @ patterns[part].astype(np.float64)).astype(np.int64)
            received += thrown.sum(1)
        return counts, received
    owners = np.repeat(np.arange(len(patterns)), tokens)
    for start in range(0, len(owners), 16 * BLOCK):
        some = owners[start : start + 16 * BLOCK]
        more = gather(rng.integers(0, num_agents, len(some)), some, patterns, num_agents)
        counts, received = counts + more[0], received + more[1]
    return counts, received


def half(gram: Array) -> Array:
    """Lower triangular L with L L^T = gram, float64[n, n]; gram may be singular."""
    lower = np.zeros(gram.shape)
    for j in range(len(gram)):
        column = gram[:, j] - lower[:, :j] @ lower[j, :j]
        if column[j] > 1e-9 * gram[j, j]:
            lower[j:, j] = column[j:] / column[j] ** 0.5
    return lower


def spread_gaussian(
    vectors: Array, copies: int, num_agents: int, rng: np.random.Generator, scratch: Array | None = None
) -> Array:
    """`spread_uniform` by the normal law of the same means and covariances over options and agents, rounded: V and B, float64[1 + K, N].

    The numbers C_ai of adopter a's copies with agent i have mean T/N and covariance T/N (1[i = i'] - 1/N) for one adopter, 0 for two; and
    (V_i, B_i) = sum_a C_ai (1, Y_a). So the bits Y matter through their column sums and their co-occurrences, which are those drawn.

    `scratch` float64[2, 1 + K, N], to work in, saves fresh memory.
    """
    share, size = copies / num_agents, 1 + vectors.shape[1]
    bits = np.ones((len(vectors), size))
    bits[:, 1:] = vectors
    gram = bits.T @ bits
    root = half(gram) * share**0.5
    noise, drawn = np.empty((2, size, num_agents)) if scratch is None else scratch
    rng.standard_normal(out=noise)
    np.matmul(root, noise, out=drawn)
    drawn += (share * gram[0] - root @ noise.mean(1))[:, None]
    np.rint(drawn, out=drawn)
    np.maximum(drawn, 0, out=drawn)
    return np.minimum(drawn, drawn[0].copy(), out=drawn)


def spread_gaussian_fresh(
    holders: Array,
    copies: int,
    num_agents: int,
    law: tuple[float, float],
    rng: np.random.Generator,
    scratch: Array | None = None,
) -> Array:
    """`spread_gaussian` with fresh noise in each copy (`per_token`), from D int64[K]; (p, q) = `law`. V and B, float64[1 + K, N].

    C_ji copies for option j end with agent i: covariance T D_j / N (1[i = i'] - 1/N), independent over options. Given them, B_ij has mean
    p C_ji + q (V_i - C_ji) and variance p (1 - p) C_ji + q (1 - q) (V_i - C_ji).
    """
    (p, q), share = law, (holders * (copies / num_agents))[:, None]
    first, second = np.empty((2, 1 + len(holders), num_agents)) if scratch is None else scratch
    ended, drawn = first[1:], second[1:]
    rng.standard_normal(out=ended)
    ended -= ended.mean(1, keepdims=True)
    ended *= share**0.5
    ended += share
    np.maximum(ended, 0, out=ended)
    received = np.rint(ended.sum(0), out=second[0])
    rng.standard_normal(out=drawn)
    drawn *= np.sqrt(p * (1 - p) * ended + q * (1 - q) * np.maximum(received - ended, 0))
    ended *= p - q
    drawn += ended
    drawn += q * received
    np.rint(drawn, out=drawn)
    np.clip(drawn, 0, received, out=drawn)
    return second


def spread_aggregated(
    vectors: Array,
    copies: int,
    num_agents: int,
    rng: np.random.Generator,
    exact_below: int,
    scratch: Array | None = None,
) -> Array:
    """`spread_uniform` at a cost that does not grow with T: V and B, whole numbers in float64[1 + K, N].

    Exact where an agent expects no more than `exact_below` copies or the different vectors are few (always without noise). Elsewhere
    `spread_gaussian`, which keeps the bits drawn, their sums over all agents up to rounding, and all means and covariances over options and
    agents; it ignores the higher cumulants, whose share is of order V_i^-1/2 in an agent's counts and 1/V_i in its choices.
    """
    if affordable(vectors, copies, num_agents, exact_below):
        return stacked(spread_uniform(vectors, np.full(len(vectors), copies), num_agents, rng))
    return spread_gaussian(vectors, copies, num_agents, rng, scratch)


def stacked(drawn: tuple[Array, Array]) -> Array:
    """B [N, K] and V [N] as float64[1 + K, N], V first."""
    counts, received = drawn
    return np.concatenate([received[None], counts.T]).astype(np.float64)


def affordable(vectors: Array, copies: int, num_agents: int, exact_below: int) -> bool:
    """Whether `spread_aggregated` is exact: few copies an agent, or no more than 2 (K + 1) different vectors."""
    few = 2 * (vectors.shape[1] + 1)
    return len(vectors) * copies <= exact_below * num_agents or not _more_than(few, vectors)


def _more_than(few: int, vectors: Array) -> bool:
    """Whether more than `few` rows of bool[A, K] differ; a glance at the first of them mostly tells."""
    return any(len(distinct(rows, np.ones(len(rows), np.int64))[0]) > few for rows in (vectors[: 2 * few], vectors))


def pick_tokens(tokens: Array, num_agents: int, rng: np.random.Generator) -> Array:
    """The option of a random copy that each agent received, int64[N], K for none; of `tokens` int64[K] copies that end uniformly.

    Shuffle the copies and deal them out in heaps: the first of every heap that is not empty are a sample without replacement. With more
    than 60 copies an agent expected, an empty heap is below what a uniform number in float64 can tell from never.
    """
    total = int(tokens.sum())
    some = np.ones(num_agents, np.bool_) if total > 60 * num_agents else throw(total, num_agents, rng) > 0
    picked, heaps = np.full(num_agents, len(tokens)), int(some.sum())
    if total < 10**9:
        dealt = np.repeat(np.arange(len(tokens)), rng.multivariate_hypergeometric(tokens, heaps, method="marginals"))
        rng.shuffle(dealt)
    else:  # beyond what NumPy's sampler takes
        dealt = np.searchsorted(np.cumsum(tokens), distinct_integers(total, heaps, rng), side="right")
    picked[some] = dealt
    return picked


def distinct_integers(below: int, size: int, rng: np.random.Generator) -> Array:
    """Uniformly random integers in [0, below), int64[size], no two alike: those that repeat one are drawn again."""
    drawn = rng.integers(0, below, size)
    while True:
        again = np.ones(size, np.bool_)
        again[np.unique(drawn, return_index=True)[1]] = False
        if not again.any():
            return drawn
        drawn[again] = rng.integers(0, below, int(again.sum()))


def walk_step(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> Array:
    """One step of equation 2 from `place` int64[n]: to a uniformly random neighbour j with probability min(1, d_i / d_j), else stay.

    One uniform number does for both: its whole part, times d_i, names the neighbour, and the rest is uniform again.
    """
    degree = degrees[place]
    scaled = uniform * degree
    chosen = np.minimum(scaled.astype(np.int64), degree - 1)
    other = indices[indptr[place] + chosen]
    moved: Array = np.where((scaled - chosen) * degrees[other] < degree, other, place)
    return moved


def walk_block(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> int:
    """Walks of `uniform` [L, n] steps from `place` int64[n], moved in place; how many steps moved."""
    hops = 0
    for row in uniform:
        moved = walk_step(place, row, indptr, indices, degrees)
        hops += int((moved != place).sum())
        place[:] = moved
    return hops


def _walk_block_loop(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> int:
    """`walk_block`, for a compiler."""
    hops = 0
    for token in range(place.size):
        here = place[token]
        for step in range(uniform.shape[0]):
            degree = degrees[here]
            scaled = uniform[step, token] * degree
            chosen = min(int(scaled), degree - 1)
            other = indices[indptr[here] + chosen]
            if (scaled - chosen) * degrees[other] < degree:
                here = other
                hops += 1
        place[token] = here
    return hops


@lru_cache(1)
def walker() -> Callable[..., int]:
    """`walk_block`, compiled where numba (extra `fast`) is at hand: the same bits either way."""
    try:
        import numba
    except ImportError:
        return walk_block
    compiled: Any = numba.njit(_walk_block_loop)
    return compiled


def spread_walks(
    vectors: Array, origins: Array, copies: int, graph: Graph, length: int, rng: np.random.Generator
) -> Spread:
    """Walks of `length` steps of every copy: from bits bool[A, K] of the agents `origins` int64[A], `copies` each."""
    n, tokens = graph.num_nodes, np.full(len(vectors), copies)
    if graph.is_complete:
        return _spread_complete(vectors, origins, copies, n, length, rng)
    owners = np.repeat(np.arange(len(vectors)), tokens)
    walk = walker() if len(owners) * length > 10**6 else walk_block
    counts, received, hops = np.zeros((n, vectors.shape[1]), np.int64), np.zeros(n, np.int64), 0
    for start in range(0, len(owners), BLOCK):
        some = owners[start : start + BLOCK]
        place = origins[some]
        hops += walk(place, rng.random((length, len(some))), graph.indptr, graph.indices, graph.degrees)
        more = gather(place, some, vectors, n)
        counts, received = counts + more[0], received + more[1]
    return Spread(counts, received, float(hops), length)


def _spread_complete(
    vectors: Array, origins: Array, copies: int, num_agents: int, length: int, rng: np.random.Generator
) -> Spread:
    """The walks of a complete graph, every step of which moves, by the law of their ends.

    After L steps, P(back at the origin) = 1/N + (1 - 1/N) (-1/(N-1))^L, and the other agents are equally likely. So with probability
    (N-1)^-L (L even) a copy is at its origin, or with probability (N-1)^(1-L) (L odd) uniformly elsewhere; otherwise it is uniform.
    """
    even = length % 2 == 0
    special = rng.binomial(copies, float(num_agents - 1) ** (-length if even else 1 - length), len(vectors))
    counts, received = spread_uniform(vectors, copies - special, num_agents, rng)
    if special.any():
        owners = np.repeat(np.arange(len(vectors)), special)
        ends = origins[owners]
        if not even:
            ends = (ends + rng.integers(1, num_agents, len(ends))) % num_agents
        more = gather(ends, owners, vectors, num_agents)
        counts, received = counts + more[0], received + more[1]
    return Spread(counts, received, float(len(vectors) * copies * length), length)


def spread_queued(
    vectors: Array,
    origins: Array,
    copies: int,
    graph: Graph,
    length: int,
    slots: int | None,
    rng: np.random.Generator,
) -> Spread:
    """`spread_walks`, where an agent forwards in a slot only the `copies` tokens that came first (section 4.2).

    Tokens that reached it in one slot are in random order. Those on their way after `slots` slots are lost.
    """
    n = graph.num_nodes
    owners = np.repeat(np.arange(len(vectors)), copies)
    place, left, arrival = origins[owners], np.full(len(owners), length), np.zeros(len(owners))
    moves, slot = 0, 0
    while (slots is None or slot < slots) and left.any():
        slot += 1
        queue = np.flatnonzero(left)
        queue = queue[np.lexsort((arrival[queue], place[queue]))]
        first = np.searchsorted(place[queue], np.arange(n))
        goes = queue[np.arange(len(queue)) - first[place[queue]] < copies]
        moved = walk_step(place[goes], rng.random(len(goes)), graph.indptr, graph.indices, graph.degrees)
        moves += int((moved != place[goes]).sum())
        place[goes], left[goes] = moved, left[goes] - 1
        arrival[goes] = slot + rng.random(len(goes))
    here = left == 0
    counts, received = gather(place[here], owners[here], vectors, n)
    return Spread(counts, received, float(moves), slot)
