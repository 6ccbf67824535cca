"""Random numbers of one replica, counted from (seed, purpose, source, replica): the same in every interface, shard and
thread.

The generator is Philox4x64-10 (Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"). Its
n-th block of four words is a function of n and a key; NumPy's `Philox` gives the same words. The functions here are
compiled with an environment, and also run uncompiled, except that `taciturn.compiling.compiled` replaces `wide` and
`plus` by machine instructions.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taciturn.seeding import spawned
from taciturn.validation import Array

KEY, REPLICA, BLOCK, PLACE, WORDS, SIZE = (
    0,
    1,
    2,
    3,
    4,
    8,
)  # the layout of a source: key, counter, place in the block, block
FACTORS, STEPS = (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
ROUNDS, SEARCHED = 10, 10.0
FEW_FACTORIALS = tuple(
    math.lgamma(k + 1.0) - (k + 0.5) * math.log(k + 1.0) + k + 1.0 - math.log(2.0 * math.pi) / 2 for k in range(10)
)


def sources_of(
    entropy: Any, purpose: str, names: tuple[str, ...], replicas: Array, noise: Mapping[str, str] | None = None
) -> Array:
    """Fresh sources of these names for the replicas with these numbers: uint64[B, names, 8].

    `noise` is `{name: configuration}`, see `Streams.noise`.
    """
    sources = np.zeros((len(replicas), len(names), SIZE), np.uint64)
    for i, name in enumerate(names):
        seeds = spawned(entropy, purpose, name, (noise or {}).get(name, ""))
        sources[:, i, KEY] = seeds.generate_state(1, np.uint64)[0]
    sources[:, :, REPLICA] = np.asarray(replicas, np.uint64)[:, None]
    sources[:, :, PLACE] = 4
    return sources


def generators_of(entropy: Any, purpose: str, name: str, replicas: Array) -> list[np.random.Generator]:
    """NumPy generators of a source for the replicas with these numbers; they give other numbers than the source."""
    key = spawned(entropy, purpose, f"{name}/generator").generate_state(1, np.uint64)[0]
    return [np.random.Generator(np.random.Philox(key=np.array([key, replica], np.uint64))) for replica in replicas]


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
    """Fill an array with uniform numbers in [0, 1) or, with `numbers`, uniform integers in [0, `numbers`)."""
    flat = out.reshape(-1)
    for i in range(flat.size):
        flat[i] = uniform(rng, source) if numbers == 0 else int(uniform(rng, source) * numbers)


def pareto(shape: float, scale: float, rng: Array, source: int) -> float:
    """A Pareto variate by inversion: P(X > x) = (scale / x)^shape for x >= scale."""
    return float(scale * (1.0 - uniform(rng, source)) ** (-1.0 / shape))


def invert_binomial(uniform: float, trials: int, probability: float, none: float) -> int:
    """The least k with a value of Binomial(trials, probability)'s distribution function above `uniform`, searched from
    0 (Devroye 1986, section X.4.3).

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
    """A binomial variate: by inversion if the mean number of successes or failures is small, otherwise by transformed
    rejection."""
    rare = min(probability, 1.0 - probability)
    if rare == 0.0:
        return trials if probability > 0.5 else 0
    if trials * rare < SEARCHED:
        result = invert_binomial(uniform(rng, source), trials, rare, (1.0 - rare) ** float(trials))
    else:
        result = reject_binomial(trials, rare, rng, source)
    return result if probability <= 0.5 else trials - result


def reject_binomial(trials: int, probability: float, rng: Array, source: int) -> int:
    """A binomial variate with a mean of at least 10 and a probability of at most 1/2, by transformed rejection.

    Algorithm BTRS of Hormann 1993, "The generation of binomial random variates": the proposal is a uniform number,
    transformed by `(2 a / s + b) u + c`, and is accepted with the ratio of the binomial mass to the density of the
    proposal. In nine of ten draws this ratio need not be computed.
    """
    spread = math.sqrt(trials * probability * (1.0 - probability))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * probability
    centre, below = trials * probability + 0.5, 0.92 - 4.2 / b
    mode = int((trials + 1) * probability)
    while True:
        u, v = uniform(rng, source) - 0.5, 1.0 - uniform(rng, source)
        s = 0.5 - abs(u)
        if s == 0.0:
            continue
        proposed = math.floor((2.0 * a / s + b) * u + centre)
        if s >= 0.07 and v <= below:
            return int(proposed)
        if proposed < 0 or proposed > trials:
            continue
        k = int(proposed)
        density = (2.83 + 5.1 / b) * spread / (a / (s * s) + b)
        if math.log(v * density) <= log_binomial_ratio(k, mode, trials, probability / (1.0 - probability)):
            return k


def log_binomial_ratio(k: int, mode: int, trials: int, odds: float) -> float:
    """log(P(k) / P(mode)) of a binomial, with Stirling's formula for the factorials."""
    more, rest, missing = float(mode + 1), float(trials - mode + 1), float(trials - k + 1)
    ratio = (mode + 0.5) * math.log(more / (odds * rest)) + (trials + 1) * math.log(rest / missing)
    ratio += (k + 0.5) * math.log(odds * missing / (k + 1))
    return ratio + stirling(mode) + stirling(trials - mode) - stirling(k) - stirling(trials - k)


def stirling(k: int) -> float:
    """log k! - (k + 1/2) log(k + 1) + (k + 1) - log(2 pi) / 2: tabulated, or by its series, to 1e-12."""
    if k < len(FEW_FACTORIALS):
        return FEW_FACTORIALS[k]
    z = 1.0 / ((k + 1.0) * (k + 1.0))
    return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / (k + 1.0)


def _ziggurat(layers: int, first: float) -> Array:
    """Right edges of layers of equal area under the normal density, float64[layers + 1]; the first layer holds the tail
    beyond `first`."""
    area = first * math.exp(-first * first / 2) + math.sqrt(math.pi / 2) * math.erfc(first / math.sqrt(2))
    edges = [area / math.exp(-first * first / 2), first]
    while len(edges) < layers:
        edges.append(math.sqrt(-2 * math.log(area / edges[-1] + math.exp(-edges[-1] * edges[-1] / 2))))
    return np.array([*edges, 0.0])


LAYERS, TAIL = 256, 3.654152885361009
EDGES = _ziggurat(LAYERS, TAIL)


def normal(rng: Array, source: int) -> float:
    """A standard normal variate, by rejection from layers (Marsaglia & Tsang 2000, "The ziggurat method for generating
    random variables"): 99 times in 100 from one uniform number."""
    while True:
        drawn = uniform(rng, source) * LAYERS
        layer = int(drawn)
        side = 2.0 * (drawn - layer) - 1.0
        x = side * EDGES[layer]
        if abs(x) < EDGES[layer + 1]:
            return float(x)
        if layer == 0:
            return float(normal_tail(side, rng, source))
        edge, inner = EDGES[layer], EDGES[layer + 1]
        low, high = math.exp(-0.5 * edge * edge), math.exp(-0.5 * inner * inner)
        if low + uniform(rng, source) * (high - low) < math.exp(-0.5 * x * x):
            return float(x)


def normal_tail(side: float, rng: Array, source: int) -> float:
    """A normal variate beyond `TAIL`, with the sign of `side`, by rejection from an exponential one."""
    while True:
        beyond = -math.log1p(-uniform(rng, source)) / TAIL
        if -2.0 * math.log1p(-uniform(rng, source)) > beyond * beyond:
            return math.copysign(TAIL + beyond, side)
