"""The mean-field limit of PPCL under noisy replies, times read off curves, and the numbers of the lemmas."""

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from taciturn.bench.statistics import Floats
from taciturn_papers.base import flip_probability


def mean_field(
    qualities: Sequence[float],
    horizon: float,
    *,
    epsilon: float | None,
    num_agents: int,
    draws: int = 4000,
    step: float = 0.05,
) -> tuple[Floats, Floats]:
    """The share of the best option under PPCL without demographic fluctuations: each agent gets replies with the noise
    of N agents' replies.

    Integrates dY_k = sum_j Y_j E[Fhat_k; Fhat_j < alpha] phi_k - Y_k sum_j E[Fhat_j; Fhat_k < alpha] phi_j by Heun's
    method: the generator of section V with the threshold on the estimate, as in Algorithm 1. Expectations are over
    `draws` normal deviates.

    Returns:
        (times, shares), the share of the best option at each unit of time.
    """
    phi, options = np.array(qualities), len(qualities)
    alpha = 1 - 1 / (2 * options)
    q = flip_probability(epsilon)
    deviates = np.random.Generator(np.random.PCG64(1)).standard_normal((draws, options))

    def drift(shares: Floats) -> Floats:
        # Given the shares, N H_k is a sum of N independent bits, each of variance q (1 - q) whatever its true value.
        heard = shares + deviates * math.sqrt(q * (1 - q) / num_agents) / (1 - 2 * q)
        clipped = np.clip(heard, 0.0, 1.0)
        total = clipped.sum(1, keepdims=True)
        estimate = np.divide(clipped, total, out=np.zeros_like(clipped), where=total > 0)
        # pulls[j, k]: rate at which a holder of j adopts k.
        pulls = (estimate < alpha).T.astype(np.float64) @ estimate / draws * phi
        np.fill_diagonal(pulls, 0.0)
        return shares @ pulls - shares * pulls.sum(1)

    shares, curve = np.full(options, 1 / options), []
    steps = round(1 / step)
    for _ in range(round(horizon)):
        for _ in range(steps):
            first = drift(shares)
            shares = shares + step / 2 * (first + drift(shares + step * first))
        curve.append(shares[0])
    return np.arange(1.0, len(curve) + 1), np.array(curve)


def extinction_leak(num_options: int, num_agents: int, epsilon: float) -> tuple[float, float]:
    """The expected sum of the estimates of K - 1 options without holders, and 1/(2K - 1).

    If the first exceeds the second, noise alone keeps the estimate of the best option below PPCL's threshold.
    """
    q = flip_probability(epsilon)
    leak = (num_options - 1) * math.sqrt(q * (1 - q) / num_agents) / (1 - 2 * q) / math.sqrt(2 * math.pi)
    return leak, 1 / (2 * num_options - 1)


def first_passage(curves: Sequence[tuple[Floats, Floats]], level: float) -> Floats:
    """When each curve first reaches a level, interpolated linearly; infinite if it never does."""
    times = np.full(len(curves), math.inf)
    for curve, (x, y) in enumerate(curves):
        x, y = np.append(0.0, x), np.append(0.0, y)
        i = int(np.argmax(y >= level))
        if y[i] >= level:
            times[curve] = x[i - 1] + (level - y[i - 1]) / (y[i] - y[i - 1]) * (x[i] - x[i - 1])
    return times


def first_moves(qualities: Sequence[float], size: int, held: int) -> dict[tuple[int, ...], tuple[float, float]]:
    """For every state of `size` agents of whom W = `held` prefer the first option, without noise: P(the next move of W
    is up) and B_1/(B_1 + D_1).

    Until W moves, the other options' holders change among themselves; the probabilities solve linear equations, one per
    state.
    """
    options = len(qualities)
    alpha = 1 - 1 / (2 * options)
    others = [one for one in itertools.product(range(size), repeat=options - 1) if sum(one) == size - held]
    places = {one: i for i, one in enumerate(others)}
    rates, up, down = np.zeros((len(others),) * 2), np.zeros(len(others)), np.zeros(len(others))
    for state, i in places.items():
        holders = (held, *state)
        for old, new in itertools.permutations(range(options), 2):
            rate = holders[old] * holders[new] / size * qualities[new] * (holders[old] / size < alpha)
            if new == 0:
                up[i] += rate
            elif old == 0:
                down[i] += rate
            elif rate:
                after = list(state)
                after[old - 1] -= 1
                after[new - 1] += 1
                rates[i, places[tuple(after)]] += rate
    moves = np.linalg.solve(np.diag(rates.sum(1) + up + down) - rates, up)
    return {(held, *state): (float(moves[i]), float(up[i] / (up[i] + down[i]))) for state, i in places.items()}


def lemma_1(qualities: Sequence[float], size: int) -> float:
    """Lemma 1 without noise: the least P(the next move of W is up) over the least B_1/(B_1 + D_1) among states with the
    same W; the minimum over all W of `size` agents."""
    least = math.inf
    for held in range(1, size):
        moves, bounds = zip(*first_moves(qualities, size, held).values(), strict=True)
        if min(bounds) > 0:
            least = min(least, min(moves) / min(bounds))
    return least


def lemma_2(mu: float, options: int, epsilon: float, num_agents: int | None = None) -> tuple[float, int, float]:
    """Lemma 2: its bound 1 - 2K exp(-2 R^2 N), N (None: chosen for a bound of 0.9), and delta."""
    delta = mu / (2 * options) / (2 * options * (2 - mu) + mu)
    q = flip_probability(epsilon)
    precision = (1 - 2 * q) * delta / (2 * options + 1)
    size = num_agents or options * math.ceil(math.log(20 * options) / (2 * precision**2) / options)
    return 1 - 2 * options * math.exp(-2 * precision**2 * size), size, delta


def estimates(held: ArrayLike, epsilon: float | None, draws: int = 20_000) -> Floats:
    """Draws [draws, K] of an agent's normalised estimates of the shares (equation 8); `held` [K] is the number of
    agents that hold each option."""
    q, holders = flip_probability(epsilon), np.asarray(held)
    size = int(holders.sum())
    rng, shape = np.random.Generator(np.random.PCG64(4)), (draws, len(holders))
    heard = (rng.binomial(holders, 1 - q, shape) + rng.binomial(size - holders, q, shape)) / size
    clipped = np.clip((heard - q) / (1 - 2 * q), 0, 1)
    return np.asarray(clipped / clipped.sum(1, keepdims=True))


def within(delta: float, shares: Sequence[float], epsilon: float, size: int) -> float:
    """How often an estimate of the first of these shares, from `size` agents, is within delta of it."""
    held = np.round(size * np.array(shares)).astype(int)
    return float((np.abs(estimates(held, epsilon)[:, 0] - held[0] / size) <= delta).mean())


@functools.lru_cache
def lemma_3(qualities: tuple[float, ...], size: int, epsilon: float | None) -> tuple[float, int]:
    """Lemma 3: the least P(W moves up) over W > N/(2K), given that all estimates are below the threshold, and its W.

    All other agents hold the second-best option, which is the worst case. States with fewer than 1% of 2,000 estimates
    below the threshold are left out.
    """
    options, result = len(qualities), []
    alpha = 1 - 1 / (2 * options)
    for held in range(size // (2 * options) + 1, size):
        drawn = estimates([held, size - held, *[0] * (options - 2)], epsilon, 2000)
        drawn = drawn[(drawn < alpha).all(1)]
        if len(drawn) < 20:
            continue
        up = (size - held) * qualities[0] * drawn[:, 0].sum()
        down = held * (drawn[:, 1:] @ np.array(qualities[1:])).sum()
        result.append((float(up / (up + down)), held))
    return min(result)
