"""Dissemination of messages: copies of each message end at agents of a graph, which add up the bits that they receive.

The end of a copy is drawn by its random walk (equation 2 of Tao et al.; `spread_walks`, `spread_queued`), uniformly,
which is the limit of long walks (`spread_uniform`), or through the normal approximation of the uniform law
(`spread_aggregated`).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from taciturn.current_folder import numba
from taciturn.envs.core.graph import Graph
from taciturn.validation import Array, Bools, Floats, Ints

BLOCK = 2**16  # copies that walk at once


def metropolis_hastings(graph: Graph) -> Array:
    """The transition matrix Psi of the walks, [N, N]: symmetric and doubly stochastic [Tao 2]."""
    psi = np.zeros((graph.num_nodes, graph.num_nodes))
    degrees = graph.degrees
    rows = np.repeat(np.arange(graph.num_nodes), degrees)
    psi[rows, graph.indices] = np.minimum(1 / degrees[rows], 1 / degrees[graph.indices])
    np.fill_diagonal(psi, 1 - psi.sum(1))
    return psi


def mobility(graph: Graph) -> float:
    """The long-run fraction of the steps of a walk that move to another agent."""
    if graph.is_complete:
        return 1.0
    degrees = graph.degrees
    rows = np.repeat(np.arange(graph.num_nodes), degrees)
    return float(np.minimum(1 / degrees[rows], 1 / degrees[graph.indices]).sum() / graph.num_nodes)


class Spread(NamedTuple):
    """The result of dissemination in one society."""

    counts: Ints  # [N, K]: sums of the bits received
    received: Ints  # [N]: number of copies received
    hops: float  # moves of copies between agents
    slots: int  # time taken


def distinct(vectors: Bools, tokens: Ints) -> tuple[Bools, Ints]:
    """The distinct rows of `vectors` [A, K], and the total `tokens` [A] of each."""
    packed = np.packbits(vectors, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    kind: Any = np.uint64 if padded.shape[1] == 8 else np.dtype((np.void, padded.shape[1]))
    keys = padded.view(kind)[:, 0]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, group.ravel(), tokens)
    return vectors[first], sums


def throw(balls: int, bins: int, rng: np.random.Generator) -> Ints:
    """Throw `balls` uniformly and independently into `bins`: the number in each, [bins].

    Given their sum, independent Poisson counts have this law, so the function draws slightly too few and throws the
    rest one by one.
    """
    if balls < 4 * bins:
        return np.bincount(rng.integers(0, bins, balls), minlength=bins)
    while True:
        counts = rng.poisson((balls - 3 * balls**0.5) / bins, bins)
        lacking = balls - int(counts.sum())
        if lacking >= 0:
            return counts + np.bincount(rng.integers(0, bins, lacking), minlength=bins)


def gather(ends: Ints, owners: Ints, vectors: Bools, num_agents: int) -> tuple[Ints, Ints]:
    """Sums [N, K] and numbers [N] of the copies that end with each agent: copy i carries `vectors[owners[i]]` to
    `ends[i]`."""
    from scipy.sparse import csr_array

    received = np.bincount(ends, minlength=num_agents)
    copies = csr_array((np.ones(len(ends), np.int64), (ends, owners)), shape=(num_agents, len(vectors)))
    return copies @ vectors.astype(np.int64), received


def spread_uniform(vectors: Bools, tokens: Ints, num_agents: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Let `tokens` [A] copies of each of the bit vectors [A, K] end at uniformly random agents: B [N, K] and V [N].

    Equal vectors are thrown together. The function draws counts of copies by vector and agent, or single copies,
    whichever are fewer.
    """
    counts, received = np.zeros((num_agents, vectors.shape[1]), np.int64), np.zeros(num_agents, np.int64)
    patterns, tokens = distinct(vectors, tokens)
    if tokens.sum() > len(patterns) * num_agents:
        for start in range(0, len(patterns), 64):
            part = slice(start, start + 64)
            thrown = np.stack([throw(int(n), num_agents, rng) for n in tokens[part]], axis=1)
            # Sums below 2^53 are exact in float64, and its matrix products are fast.
            counts += (thrown.astype(np.float64) @ patterns[part].astype(np.float64)).astype(np.int64)
            received += thrown.sum(1)
        return counts, received
    owners = np.repeat(np.arange(len(patterns)), tokens)
    for start in range(0, len(owners), 16 * BLOCK):
        some = owners[start : start + 16 * BLOCK]
        more = gather(rng.integers(0, num_agents, len(some)), some, patterns, num_agents)
        counts, received = counts + more[0], received + more[1]
    return counts, received


def cholesky_root(gram: Floats) -> Floats:
    """Lower triangular L with L L^T = `gram` [n, n], which may be singular."""
    lower = np.zeros(gram.shape)
    for j in range(len(gram)):
        column = gram[:, j] - lower[:, :j] @ lower[j, :j]
        if column[j] > 1e-9 * gram[j, j]:
            lower[j:, j] = column[j:] / column[j] ** 0.5
    return lower


def spread_gaussian(
    vectors: Array, copies: int, num_agents: int, rng: np.random.Generator, scratch: Array | None = None
) -> Array:
    """Normal approximation of `spread_uniform`, rounded, with the same means and covariances over options and agents: V
    and B, [1 + K, N].

    The numbers C_ai of copies of adopter a that agent i receives have mean T/N and covariance T/N (1[i = i'] - 1/N) for
    the same adopter, and 0 for different adopters; and (V_i, B_i) = sum_a C_ai (1, Y_a). The bits Y therefore enter
    only through their column sums and co-occurrences, which are those of `vectors`.

    `scratch` [2, 1 + K, N] is optional working memory.
    """
    share, size = copies / num_agents, 1 + vectors.shape[1]
    bits = np.ones((len(vectors), size))
    bits[:, 1:] = vectors
    gram = bits.T @ bits
    root = cholesky_root(gram) * share**0.5
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
    zeros: int = 0,
) -> Array:
    """`spread_gaussian` with fresh noise in each copy (`per_token`), given `holders` D [K] and (p, q) = `law`: V and B,
    [1 + K, N].

    The number C_ji of copies for option j that agent i receives has covariance T D_j / N (1[i = i'] - 1/N) over agents
    and is independent over options. Given these, B_ij has mean p C_ji + q (V_i - C_ji) and variance p (1 - p) C_ji + q
    (1 - q) (V_i - C_ji). Another `zeros` agents send copies for no option, which count in V only.
    """
    (p, q), share = law, (holders * (copies / num_agents))[:, None]
    first, second = np.empty((2, 1 + len(holders), num_agents)) if scratch is None else scratch
    ended, drawn = first[1:], second[1:]
    rng.standard_normal(out=ended)
    ended -= ended.mean(1, keepdims=True)
    ended *= share**0.5
    ended += share
    np.maximum(ended, 0, out=ended)
    total = ended.sum(0)
    if zeros:
        blank, mean = rng.standard_normal(num_agents), zeros * copies / num_agents
        total += np.maximum((blank - blank.mean()) * mean**0.5 + mean, 0)
    received = np.rint(total, out=second[0])
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
    """`spread_uniform` at a cost that does not grow with T: V and B, whole numbers, [1 + K, N].

    It is exact if an agent expects at most `exact_below` copies or there are few distinct vectors (always the case
    without noise). Otherwise it is `spread_gaussian`, which preserves the bits, their sums over all agents up to
    rounding, and all means and covariances over options and agents. It ignores higher cumulants, with a relative error
    of order V_i^-1/2 in an agent's counts and 1/V_i in its choices.
    """
    if affordable(vectors, copies, num_agents, exact_below):
        return stacked(spread_uniform(vectors, np.full(len(vectors), copies), num_agents, rng))
    return spread_gaussian(vectors, copies, num_agents, rng, scratch)


def stacked(drawn: tuple[Ints, Ints]) -> Floats:
    """Stack B [N, K] and V [N] as [1 + K, N], V first."""
    counts, received = drawn
    return np.concatenate([received[None], counts.T]).astype(np.float64)


def affordable(vectors: Array, copies: int, num_agents: int, exact_below: int) -> bool:
    """Whether `spread_aggregated` is exact: at most `exact_below` copies per agent, or at most 2 (K + 1) distinct
    vectors."""
    few = 2 * (vectors.shape[1] + 1)
    return len(vectors) * copies <= exact_below * num_agents or not _more_than(few, vectors)


def _more_than(few: int, vectors: Array) -> bool:
    """Whether there are more than `few` distinct rows; checks the first 2 `few` rows first, which mostly suffices."""
    return any(len(distinct(rows, np.ones(len(rows), np.int64))[0]) > few for rows in (vectors[: 2 * few], vectors))


def pick_tokens(tokens: Array, num_agents: int, rng: np.random.Generator) -> Array:
    """The option of a random copy among those that each agent received, [N], K for none, if `tokens` [K] copies end
    uniformly.

    If the copies are shuffled and dealt out in heaps, the first copies of all non-empty heaps are a sample without
    replacement. With more than 60 copies expected per agent, the probability of an empty heap is below the resolution
    of a uniform float64 number.
    """
    total = int(tokens.sum())
    some = np.ones(num_agents, np.bool_) if total > 60 * num_agents else throw(total, num_agents, rng) > 0
    picked, heaps = np.full(num_agents, len(tokens)), int(some.sum())
    if total < 10**9:
        dealt = np.repeat(np.arange(len(tokens)), rng.multivariate_hypergeometric(tokens, heaps, method="marginals"))
        rng.shuffle(dealt)
    else:  # more than NumPy's sampler accepts
        dealt = np.searchsorted(np.cumsum(tokens), distinct_integers(total, heaps, rng), side="right")
    picked[some] = dealt
    return picked


def distinct_integers(below: int, size: int, rng: np.random.Generator) -> Array:
    """Distinct uniformly random integers in [0, below), [size]; repeated ones are drawn again."""
    drawn = rng.integers(0, below, size)
    while True:
        again = np.ones(size, np.bool_)
        again[np.unique(drawn, return_index=True)[1]] = False
        if not again.any():
            return drawn
        drawn[again] = rng.integers(0, below, int(again.sum()))


def walk_step(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> Array:
    """One step of a Metropolis-Hastings walk from `place` [n]: to a random neighbour j with probability min(1, d_i /
    d_j), else stay.

    One uniform number serves both draws: the integer part of its product with d_i selects the neighbour, and the rest
    is uniform again.
    """
    degree = degrees[place]
    scaled = uniform * degree
    chosen = np.minimum(scaled.astype(np.int64), degree - 1)
    other = indices[indptr[place] + chosen]
    moved: Array = np.where((scaled - chosen) * degrees[other] < degree, other, place)
    return moved


def walk_block(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> int:
    """Walk L steps from `place` [n], which is updated in place, with random numbers `uniform` [L, n]; returns the
    number of moves."""
    hops = 0
    for row in uniform:
        moved = walk_step(place, row, indptr, indices, degrees)
        hops += int((moved != place).sum())
        place[:] = moved
    return hops


def _walk_block_loop(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> int:
    """`walk_block` as a loop, to be compiled."""
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
    """`walk_block`, compiled if numba is installed; results are bit-identical."""
    try:
        compiled: Any = numba().njit(_walk_block_loop, cache=True)
    except ImportError:
        return walk_block
    return compiled


def spread_walks(
    vectors: Array, origins: Array, copies: int, graph: Graph, length: int, rng: np.random.Generator
) -> Spread:
    """Let each agent in `origins` [A] send `copies` copies of its bits [A, K] on walks of `length` steps."""
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
    """Walks on a complete graph, where every step moves, by the law of their ends.

    After L steps, P(back at the origin) = 1/N + (1 - 1/N) (-1/(N-1))^L, and all other agents are equally likely. This
    is a mixture: if L is even, the copy is at its origin with probability (N-1)^-L; if L is odd, it is at a uniformly
    random other agent with probability (N-1)^(1-L); otherwise it is at a uniformly random agent.
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
    vectors: Array, origins: Array, copies: int, graph: Graph, length: int, slots: int | None, rng: np.random.Generator
) -> Spread:
    """`spread_walks` with queues: in a slot, an agent forwards only the `copies` tokens that arrived first (section 4.2
    of Tao et al.).

    Tokens that arrive in the same slot queue in random order. Tokens still under way after `slots` slots are lost.
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
