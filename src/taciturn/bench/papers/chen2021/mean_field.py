"""The mean-field limit of PPCL under the noise of the replies, and times read off curves."""

import math
from collections.abc import Sequence

import numpy as np

from taciturn.bench.papers.base import flip_probability
from taciturn.bench.statistics import Floats


def mean_field(
    qualities: Sequence[float],
    horizon: float,
    *,
    epsilon: float | None,
    num_agents: int,
    draws: int = 4000,
    step: float = 0.05,
) -> tuple[Floats, Floats]:
    """Share of the best option under PPCL without demographic fluctuations: each agent hears replies as noisy as those
    of N agents.

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
        # Given the shares, N H_k is a sum of N independent bits, each with variance q (1 - q) whatever its true value.
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
    """The mean estimates of K - 1 options that nobody holds, summed, and 1/(2K - 1).

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


def lemma_2(qualities: Sequence[float], epsilon: float, num_agents: int | None = None) -> tuple[float, int, float]:
    """Lemma 2 with mu = 1 - phi_2/phi_1: its bound 1 - 2K exp(-2 R^2 N), N (None: that at which the bound is 0.9), and
    delta."""
    options, mu = len(qualities), 1 - qualities[1] / qualities[0]
    delta = mu / (2 * options) / (2 * options * (2 - mu) + mu)
    q = flip_probability(epsilon)
    precision = (1 - 2 * q) * delta / (2 * options + 1)
    size = num_agents or options * math.ceil(math.log(20 * options) / (2 * precision**2) / options)
    return 1 - 2 * options * math.exp(-2 * precision**2 * size), size, delta


def within(delta: float, options: int, epsilon: float, size: int, draws: int = 20_000) -> float:
    """How often the estimate from the votes of `size` agents, a share 1/K of whom hold each option, is within delta of
    that share."""
    q = flip_probability(epsilon)
    rng, held = np.random.Generator(np.random.PCG64(4)), np.full(options, size // options)
    heard = (rng.binomial(held, 1 - q, (draws, options)) + rng.binomial(size - held, q, (draws, options))) / size
    estimate = np.clip((heard - q) / (1 - 2 * q), 0, 1)
    share = estimate[:, 0] / estimate.sum(1)
    return float((np.abs(share - 1 / options) <= delta).mean())
