"""Indices and schedules of bandit algorithms that are differentially private, one formula per function, for arrays
[..., K] of arms.

`counts` are the pulls behind a private mean, `means` are private means, which noise may put outside [0, 1], and t
counts the pulls so far. An arm without a private mean has an infinite index. Logarithms are natural.
"""

from typing import NamedTuple

import numpy as np

from taciturn.policies.classic.bandit_indices import TINY, bernoulli_divergence, kl_upper_bound
from taciturn.validation import Array, Floats, Ints


class DPEpoch(NamedTuple):
    """An epoch of private successive elimination: pulls of each active arm, then elimination of arms below the best
    noisy mean."""

    pulls: Ints  # R_e, of each active arm
    threshold: Floats  # 2 h_e + 2 c_e, the distance below the best
    scale: Floats  # of the Laplace noise on a mean, 1 / (epsilon R_e)


class Batch(NamedTuple):
    """An epoch of `batch_radius`: pulls of each active arm, and the distance below the best, twice the radius."""

    pulls: Ints  # l(b)
    threshold: Floats  # 2 beta(b)


Epoch = DPEpoch | Batch


def dp_elimination_epoch(epoch: Ints, active: Ints, epsilon: float, beta: float) -> DPEpoch:
    """Epoch e with |S| active arms (Sajed & Sheffet 2019, Algorithm 2), for e and |S| of the same shape.

    R_e = max(32 ln(8 |S| e^2 / beta) / D^2, 8 ln(4 |S| e^2 / beta) / (epsilon D)) + 1 with D = 2^-e, rounded up;
    h_e = sqrt(ln(8 |S| e^2 / beta) / (2 R_e)) and c_e = ln(4 |S| e^2 / beta) / (epsilon R_e).
    """
    gap = 0.5**epoch
    sampling, noise = np.log(8 * active * epoch**2 / beta), np.log(4 * active * epoch**2 / beta)
    pulls = np.ceil(np.maximum(32 * sampling / gap**2, 8 * noise / (epsilon * gap)) + 1).astype(np.int64)
    return DPEpoch(pulls, 2 * np.sqrt(sampling / (2 * pulls)) + 2 * noise / (epsilon * pulls), 1 / (epsilon * pulls))


def batch_radius(pulls: Ints, epoch: Ints, active: Ints, beta: float, sigma: Floats | float, h: float) -> Floats:
    """beta(b) = sqrt(ln(4 |S| b^2 / beta) / (2 l)) + (sigma sqrt(x) + h x) / l with x = ln(2 |S| b^2 / beta), for l
    pulls of each of |S| arms in batch b (Chowdhury & Zhou 2023, lemma 1, with the constants of the authors' code).

    `sigma` and `h` are those of the tail of the noise in a sum: with probability 1 - p it is at most sigma sqrt(ln(2 /
    p)) + h ln(2 / p).
    """
    sampling, noise = np.log(4 * active * epoch**2 / beta), np.log(2 * active * epoch**2 / beta)
    return np.asarray(np.sqrt(sampling / (2 * pulls)) + (sigma * np.sqrt(noise) + h * noise) / pulls)


def laplace_tail(epsilon: float) -> tuple[float, float]:
    """sigma and h of `batch_radius` for discrete Laplace noise: sqrt(2) / epsilon and 1 / epsilon (Chowdhury & Zhou
    2023, section 6)."""
    return float(np.sqrt(2.0) / epsilon), 1 / epsilon


def skellam_tail(epsilon: float, scale: float) -> tuple[float, float]:
    """sigma and h of `batch_radius` for Skellam noise with the scaling factor s: 2 / epsilon + sqrt(2) / (s epsilon)
    and 1 / (s epsilon) (Chowdhury & Zhou 2023, proposition 1 and the authors' code)."""
    return float(2 / epsilon + np.sqrt(2.0) / (scale * epsilon)), 1 / (scale * epsilon)


def skellam_renyi(alpha: float, epsilon: float, scale: float) -> float:
    """alpha epsilon^2 / 2 + min((2 alpha - 1) epsilon^2 / (4 s^2) + 3 epsilon / (2 s^3), 3 epsilon^2 / (2 s)): the
    Renyi privacy of order alpha = 2, 3, ... of Dist-RDP-SE (Chowdhury & Zhou 2023, theorem 2)."""
    more = (2 * alpha - 1) * epsilon**2 / (4 * scale**2) + 3 * epsilon / (2 * scale**3), 3 * epsilon**2 / (2 * scale)
    return alpha * epsilon**2 / 2 + min(more)


def secure_sum(sums: Array, noise: Ints, pulls: Array, precision: Array, reach: Array) -> Floats:
    """What the analyzer makes of sums of rewards of 0 and 1 that pass a secure aggregation modulo m = n g + 2 tau + 1
    (Chowdhury & Zhou 2023, Algorithm 1, lines 18-30).

    Args:
        sums: of the rewards of n = `pulls` users.
        noise: the sum of the users' noise, in steps of 1 / g.
        pulls, precision, reach: n, g and tau.
    """
    most = pulls * precision
    modulo = most + 2 * reach + 1
    heard = np.mod(sums * precision + noise, modulo)
    return np.asarray(np.where(heard > most + reach, heard - modulo, heard) / precision)


def adap_ucb_index(counts: Array, means: Floats, t: Array | float, epsilon: float, alpha: float) -> Floats:
    """mean + sqrt(alpha ln(2 t) / (2 n)) + alpha ln t / (epsilon n), for the n pulls of an arm's last episode (Azize &
    Basu 2022, equation 7)."""
    n = np.maximum(counts, 1)
    index = means + np.sqrt(alpha * np.log(2.0 * t) / (2 * n)) + alpha * np.log(t) / (epsilon * n)
    return np.where(counts > 0, index, np.inf)


def adap_klucb_index(counts: Array, means: Floats, t: Array | float, epsilon: float, alpha: float) -> Floats:
    """The largest q in [0, 1] with n kl(p, q) <= alpha ln t, where p = clip(mean + alpha ln t / (epsilon n)), for the n
    pulls of an arm's last episode (Azize & Basu 2022, section 4)."""
    budget = alpha * np.log(t)
    raised = np.clip(means + budget / (epsilon * np.maximum(counts, 1)), 0.0, 1.0)
    return kl_upper_bound(counts, raised, budget)


def tree_bound(horizon: int, epsilon: float, gamma: float) -> float:
    """ln(1 / gamma) ln(T)^1.5 / epsilon: the error of a sum from a binary tree (Chan, Shi & Song 2011)."""
    return float(np.log(1 / gamma) * np.log(max(horizon, 2)) ** 1.5 / epsilon)


def dp_ucb_index(counts: Array, means: Floats, t: Array | float, bound: float) -> Floats:
    """mean + sqrt(2 ln t / n) + `bound` / n (DP-UCB; Mishra & Thakurta 2015)."""
    n = np.maximum(counts, 1)
    return np.where(counts > 0, means + np.sqrt(2 * np.log(np.maximum(t, 2.0)) / n) + bound / n, np.inf)


def private_divergence(p: Floats, q: Floats, epsilon: float) -> Floats:
    """d(p, q) = inf over z in [p, q] of epsilon (z - p) + kl(z, q), for p <= q in (0, 1), and 0 for p > q (Azize, Wu,
    Honda, Orabona, Ito & Basu 2025).

    Where the slope of kl(., q) at p is at least -epsilon, z = p, and d = kl(p, q); otherwise
    d = -ln(1 - q + q e^-epsilon) - epsilon p.
    """
    steep = q * np.exp(-epsilon) / (1 - q + q * np.exp(-epsilon))  # where that slope is -epsilon
    far = -np.log1p(q * np.expm1(-epsilon)) - epsilon * p
    return np.where(p >= q, 0.0, np.where(p >= steep, bernoulli_divergence(p, q), far))


def private_upper_bound(counts: Array, means: Floats, budget: Array | float, epsilon: float) -> Floats:
    """The largest q in [0, 1] with n d(p, q) <= `budget`, for d of `private_divergence` and p the mean, clipped: the
    index of DP-KLUCB for the budget ln t (Azize et al. 2025)."""
    p = np.clip(means, 0.0, 1.0)
    b = budget / np.maximum(counts, 1)
    edge = p / np.maximum(p + (1 - p) * np.exp(-epsilon), TINY)  # up to here d(p, .) is kl(p, .)
    near = bernoulli_divergence(p, np.clip(edge, TINY, 1 - 1e-16)) >= b
    far = np.minimum(-np.expm1(-b - epsilon * p) / -np.expm1(-epsilon), 1.0)
    return np.where(counts > 0, np.where(near, kl_upper_bound(counts, p, budget), far), np.inf)


def dp_imed_index(counts: Array, means: Floats, epsilon: float) -> Floats:
    """n d(p, p*) + ln n, for d of `private_divergence` and clipped means of which p* is the largest; the arm with the
    least is pulled, one without a private mean first (DP-IMED; Azize et al. 2025)."""
    p = np.clip(means, 0.0, 1.0)
    best = np.where(counts > 0, p, 0.0).max(-1, keepdims=True)
    gap = private_divergence(p, np.clip(best, 1e-12, 1 - 1e-12), epsilon)
    return np.where(counts > 0, counts * gap + np.log(np.maximum(counts, 1)), -np.inf)


def laplace_width(epsilon: float) -> float:
    """sqrt(2) + sqrt(32) / epsilon: times sqrt(ln t / n), the radius about a mean of n rewards, each with noise
    Lap(1 / epsilon) (LDP-UCB-L; Ren, Zhou, Liu & Shroff 2020)."""
    return float(np.sqrt(2.0) + np.sqrt(32.0) / epsilon)


def response_probabilities(epsilon: float) -> tuple[float, float]:
    """P(answer 1) for a reward of 0 and for one of 1: 1 / (e^epsilon + 1) and e^epsilon / (e^epsilon + 1) (LDP-UCB-B;
    Ren et al. 2020)."""
    flipped = float(np.exp(-np.logaddexp(0.0, epsilon)))
    return flipped, 1 - flipped


def local_lower_bound(means: Floats, epsilon: float) -> float:
    """The sum of 1 / (min(4, e^(2 epsilon)) (e^epsilon - 1)^2 Delta_a) over the arms that are not best. As T grows, the
    regret of a consistent algorithm in the local model is at least this times ln T.

    It is the bound of Lai & Robbins 1985 on answers, whose divergence is at most the above times the squared total
    variation of the rewards (Duchi, Jordan & Wainwright 2013, theorem 1); Ren et al. 2020 have one of this order.
    """
    mu = np.asarray(means, float)
    gaps = (mu.max() - mu)[mu < mu.max()]
    return float((1 / (min(4.0, np.exp(2 * epsilon)) * np.expm1(epsilon) ** 2 * gaps)).sum())


def regret_lower_bound(means: Floats, epsilon: float) -> float:
    """The sum of Delta_a / d(mu_a, mu*) over those of the arms, with `means` [K], that are not best. As T grows, the
    regret of a consistent algorithm with epsilon-global differential privacy is at least this times ln T (Azize et al.
    2025, tighter than Azize & Basu 2022)."""
    mu = np.asarray(means, float)
    worse = mu[mu < mu.max()]
    return float(((mu.max() - worse) / private_divergence(worse, np.full_like(worse, mu.max()), epsilon)).sum())


def first_lower_bound(means: Floats, epsilon: float) -> float:
    """The sum of Delta_a / min(kl(mu_a, mu*), 6 epsilon Delta_a) (Azize & Basu 2022, theorem 3, for Bernoulli
    rewards)."""
    mu = np.asarray(means, float)
    worse = mu[mu < mu.max()]
    gaps = mu.max() - worse
    return float((gaps / np.minimum(bernoulli_divergence(worse, mu.max()), 6 * epsilon * gaps)).sum())
