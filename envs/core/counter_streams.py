"""Random numbers of one replica, counted from (seed, purpose, source, replica): the same in every interface, shard and thread.

The generator is Philox4x64-10 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"), whose n-th block of four
words is a function of n and a key; NumPy's `Philox` gives the same words. The functions here are compiled as part of a world, and run
uncompiled too: all but `wide` and `plus`, which `taciturn.envs.core.compiled` replaces by machine instructions.
"""

import zlib
from typing import Any

import numpy as np

from taciturn.validation import Array

__all__ = ["binomial", "fill", "invert_binomial", "pareto", "philox", "sources_of", "uniform"]

KEY, REPLICA, BLOCK, PLACE, WORDS, SIZE = (
    0,
    1,
    2,
    3,
    4,
    8,
)  # the layout of a source: key, counter, place in the block, block
FACTORS, STEPS = (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS, SEARCHED = 10, 16.0


def sources_of(entropy: Any, purpose: str, names: tuple[str, ...], replicas: Array) -> Array:
    """Fresh sources of these names for the replicas with these numbers: uint64[B, names, 8]."""
    sources = np.zeros((len(replicas), len(names), SIZE), np.uint64)
    prefix = (zlib.crc32(purpose.encode()),) if purpose else ()
    for i, name in enumerate(names):
        seeds = np.random.SeedSequence(entropy, spawn_key=(*prefix, zlib.crc32(name.encode())))
        sources[:, i, KEY] = seeds.generate_state(1, np.uint64)[0]
    sources[:, :, REPLICA] = np.asarray(replicas, np.uint64)[:, None]
    sources[:, :, PLACE] = 4
    return sources


def wide(a: int, b: int) -> tuple[int, int]:
    """The upper and the lower 64 bits of a product of two numbers of 64 bits."""
    product = a * b
    return product >> 64, product & 0xFFFFFFFFFFFFFFFF


def plus(a: int, b: int) -> int:
    """The lower 64 bits of a sum."""
    return (a + b) & 0xFFFFFFFFFFFFFFFF


def philox(block: int, key: int, replica: int) -> tuple[int, int, int, int]:
    """The four words of a block: the bijection of section 4.3 at the counter (block, 0, 0, 0)."""
    a, b, c, d = block, block ^ block, block ^ block, block ^ block  # zeros, of the same type when compiled
    for _ in range(ROUNDS):
        above, below = wide(FACTORS[0], a)
        over, under = wide(FACTORS[1], c)
        a, b, c, d = over ^ b ^ key, under, above ^ d ^ replica, below
        key, replica = plus(key, STEPS[0]), plus(replica, STEPS[1])
    return a, b, c, d


def uniform(rng: Array, source: int) -> float:
    """The next number of a source, uniform on the multiples of 2^-53 in [0, 1)."""
    place = np.int64(rng[source, PLACE])
    if place == 4:
        block = plus(int(rng[source, BLOCK]), 1)
        words = philox(block, int(rng[source, KEY]), int(rng[source, REPLICA]))
        rng[source, WORDS], rng[source, WORDS + 1], rng[source, WORDS + 2], rng[source, WORDS + 3] = words
        rng[source, BLOCK] = block
        place = np.int64(0)
    rng[source, PLACE] = place + 1
    return float(int(rng[source, WORDS + place]) >> 11) * 2.0**-53


def fill(out: Array, rng: Array, source: int, numbers: int = 0) -> None:
    """Fill an array with uniform numbers; with whole ones, 0 .. `numbers` - 1, if that is given."""
    flat = out.reshape(-1)
    for i in range(flat.size):
        flat[i] = uniform(rng, source) if numbers == 0 else int(uniform(rng, source) * numbers)


def pareto(shape: float, scale: float, rng: Array, source: int) -> float:
    """A Pareto variate by inversion: P(X > x) = (scale / x)^shape for x >= scale."""
    return float(scale * (1.0 - uniform(rng, source)) ** (-1.0 / shape))


def invert_binomial(uniform: float, trials: int, probability: float, none: float) -> int:
    """Where the distribution function of Binomial(trials, probability) exceeds `uniform`, searched from 0 (Devroye 1986, section X.4.3).

    Args:
        none: (1 - probability)^trials, the mass at 0.
    """
    successes, mass = 0, none
    while uniform >= mass and successes < trials:
        uniform -= mass
        successes += 1
        mass *= probability / (1.0 - probability) * (trials - successes + 1) / successes
    return successes


def binomial(trials: int, probability: float, rng: Array, source: int) -> int:
    """A binomial variate: a sum of binomials with means of at most `SEARCHED`, each by inversion; of failures if those are fewer."""
    rare = min(probability, 1.0 - probability)
    if rare == 0.0:
        return trials if probability > 0.5 else 0
    left, found = trials, 0
    most = int(min(max(SEARCHED / rare, 1.0), float(max(trials, 1))))
    while left > 0:
        part = min(left, most)
        found += invert_binomial(uniform(rng, source), part, rare, (1.0 - rare) ** float(part))
        left -= part
    return found if probability <= 0.5 else trials - found
