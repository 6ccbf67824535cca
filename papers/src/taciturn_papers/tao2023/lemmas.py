"""The lemmas of section 5 in a setting that meets all their conditions.

Two options, beta = 0.73 and epsilon = 2 need 10^9 agents, the least power of ten. No setting of section 6 meets the
conditions; with its delta of 0.02 no computable number of agents does. Rounds are drawn at the level of counts: bits,
tried options and adoptions from their binomial distributions, and the estimates of single agents from the normal limit
of their 10^11 copies.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from taciturn.envs.social_bandit.dissemination import metropolis_hastings
from taciturn.envs.social_bandit.paper import multiplicative_weights, ordered_means
from taciturn.graph import random_graph
from taciturn_papers.base import flip_probability
from taciturn_papers.tao2023.settings import H
from taciturn_papers.tao2023.share_dynamics import expected_estimate, sigma

OPTIONS, ADOPTS, EPSILON, SIGMA = 2, 0.73, 2.0, 11
SELECTION = math.log(ADOPTS / (1 - ADOPTS))  # delta
EXPLORES = SELECTION**2 / 6  # mu
WALKS = 16 * SIGMA / (1 - ADOPTS)  # h
LISTENERS = 100_000  # agents whose estimates are drawn

CLAIMED = {
    "5.1": "the numbers of agents that try an option are within a factor 1 + 2 delta' of their mean",
    "5.2": "the numbers of adopters are within a factor 1 + 2 delta'' of their mean",
    "5.3": "the numbers of adopters are within a factor 1 + 6 delta'' of their mean given the estimates",
    "5.4": "there are enough adopters, and enough of every option",
    "5.5": "an agent receives between 3 (1 - beta)/32 and 15/8 times h g(N) copies",
    "5.6": "an option's expected share of an agent's copies is xi_0 to xi_1 times its share of all copies",
    "5.7": "xi_0 and xi_1 are within sqrt(5 ln N / N) of 1",
    "5.8": "the mean estimate is close to the popularity",
    "5.9": "the mean estimate is within a factor 1 + 2 delta_Q of the popularity",
    "5.10": "popularities are within a factor 1 + 5^r delta_Q of multiplicative weights",
}


def domain() -> tuple[int, float, float]:
    """The least power of ten N that meets all conditions of the lemmas and of equation 11, g(N) and delta_Q."""
    q = flip_probability(EPSILON)
    c = 4 * OPTIONS * (2 * OPTIONS + 1) / (EXPLORES * (1 - ADOPTS)) / (1 - 2 * q)
    needed = (c * OPTIONS ** (math.log(5) / SELECTION**2) / SELECTION) ** 2
    size = next(10**k for k in range(1, 18) if needed * k * math.log(10) < 10**k)
    copies = needed * math.log(size)
    return size, copies, c * math.sqrt(math.log(size) / copies)


def xi(received: float, copies: float, size: int) -> tuple[float, float]:
    """Equation 23: 1 - xi_0 and xi_1 - 1, if one agent has received `received` of all `copies`."""
    one, every = size**2, size**3 - size**2
    low = received * math.log1p(-2 / (one + 1)) + (copies - received) * math.log1p(-2 / (every + 1))
    high = received * math.log1p(2 / (one - 1)) + (copies - received) * math.log1p(2 / (every - 1))
    return -math.expm1(low), math.expm1(high)


def apart(one: ArrayLike, other: ArrayLike) -> float:
    """The least c for which `one` and `other` are within a factor 1 + c (Definition 3.3)."""
    ratio = np.asarray(one) / np.asarray(other)
    return float(np.maximum(ratio, 1 / ratio).max() - 1)


@lru_cache
def deviations(rounds: int = 10, seed: int = 0) -> dict[str, float]:
    """The quantity that each lemma bounds, over its bound: the largest over `rounds`, at most 1 if the lemma holds."""
    size, copies, delta_q = domain()
    q, rng = flip_probability(EPSILON), np.random.Generator(np.random.PCG64(seed))
    logs = math.log(size)
    first, second = (math.sqrt(k * OPTIONS * logs / (EXPLORES * size)) for k in (30, 60))
    phi = (rng.random((rounds, OPTIONS)) < np.array(ordered_means(OPTIONS))).astype(np.float64)
    weights = multiplicative_weights(phi, ADOPTS, EXPLORES)
    held = np.full(OPTIONS, size // OPTIONS, np.int64)
    result = dict.fromkeys(CLAIMED, 0.0)

    def keep(lemma: str, value: float) -> None:
        result[lemma] = max(result[lemma], value)

    for r in range(rounds):
        adopters = held.sum()
        popularity = held / adopters
        bits = (rng.binomial(held, 1 - q) + rng.binomial(adopters - held, q)) / adopters
        received = adopters * WALKS * copies / size
        received = received + math.sqrt(received) * rng.standard_normal((LISTENERS, 1))
        heard = bits + np.sqrt(bits * (1 - bits) / received) * rng.standard_normal((LISTENERS, OPTIONS))
        unbiased = np.maximum((heard - q) / (1 - 2 * q), 0)
        estimate = (unbiased / unbiased.sum(1, keepdims=True)).mean(0)
        expected = ((1 - EXPLORES) * estimate + EXPLORES / OPTIONS) * size
        tried = rng.multinomial(size, expected / size)
        adopts = np.where(phi[r] == 1, ADOPTS, 1 - ADOPTS)
        held = rng.binomial(tried, adopts)
        keep("5.1", apart(tried, expected) / (2 * first))
        keep("5.2", apart(held, tried * adopts) / (2 * second))
        keep("5.3", apart(held, expected * adopts) / (6 * second))
        keep("5.4", size * (1 - ADOPTS) / 4 / held.sum())
        keep("5.4", EXPLORES * (1 - ADOPTS) / (4 * OPTIONS) / float((held / held.sum()).min()))
        keep("5.5", float(received.max()) / (15 / 8 * WALKS * copies))
        keep("5.5", 3 * (1 - ADOPTS) / 32 * WALKS * copies / float(received.min()))
        bound = 6 * (2 * OPTIONS + 1) * math.sqrt(logs / copies) / (1 - 2 * q)
        keep("5.8", float(np.abs(estimate - popularity).max()) / bound)
        keep("5.9", apart(estimate, popularity) / (2 * delta_q))
        keep("5.10", apart(weights[r + 1], held / held.sum()) / (5 ** (r + 1) * delta_q))
    keep("5.6", walked())
    keep("5.7", max(xi(15 / 8 * WALKS * copies, size * WALKS * copies, size)) / math.sqrt(5 * logs / size))
    return result


def walked(size: int = 65) -> float:
    """Lemma 5.6 on a random graph with the walks of section 3.4.1: the largest relative deviation of the expected share
    of one agent's copies from the share of all copies, over the deviation that equation 22 allows.

    If tokens arrive independently, then, given the number of arrivals, the odds that a token is among them differ by at
    most the ratio of the tokens' odds of arriving.
    """
    psi = metropolis_hastings(random_graph("erdos_renyi", size, 1))
    gap = 1 - np.sort(np.abs(np.linalg.eigvalsh(psi)))[-2]
    ends = np.linalg.matrix_power(psi, math.ceil(math.log(2 * size**4) / gap))
    odds = ends / (1 - ends)
    copies = H * math.log(size) ** 2
    return float((odds.max(0) / odds.min(0)).max() - 1) / min(xi(copies / 2, size * copies / 2, size))


@lru_cache
def limit_regret(options: int, beta: float, mu: float, rounds: int, seeds: int = 3) -> tuple[float, ...]:
    """The regret of equation 34 after `rounds`, for each of `seeds` draws of the signals."""
    eta, result = np.array(ordered_means(options)), []
    for seed in range(seeds):
        rng = np.random.Generator(np.random.PCG64(seed))
        phi = (rng.random((rounds, options)) < eta).astype(np.float64)
        weights = multiplicative_weights(phi, beta, mu)[:-1]
        result.append(float(eta[0] - (weights * phi).sum(1).mean()))
    return tuple(result)


def bias(num_agents: float, epsilon: float, copies: float, options: int = 20) -> float:
    """Remark 5.3: the mean estimate's bias for the leading option, which has half of the adopters."""
    shares = np.append(0.5, np.full(options - 1, 0.5 / (options - 1)))
    return float(np.abs(expected_estimate(shares, sigma(epsilon, num_agents / 2, copies / 2)) - shares).max())
