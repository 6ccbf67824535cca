"""Confidence radii of elimination in batches, sums from a secure aggregation, and bounds on privacy and regret; one
function per formula. Logarithms are natural."""

import numpy as np

from taciturn.validation import Array, Floats, Ints


def batch_radius(pulls: Ints, epoch: Ints, active: Ints, beta: float, sigma: Floats | float, h: float) -> Floats:
    """beta(b) = sqrt(ln(4 |S| b^2 / beta) / (2 l)) + (sigma sqrt(x) + h x) / l with x = ln(2 |S| b^2 / beta), for l
    pulls of each of |S| arms in batch b (Chowdhury & Zhou 2023, lemma 1, with the constants of the authors' code).

    `sigma` and `h` describe the tail of the noise in a sum: with probability 1 - p it is at most sigma
    sqrt(ln(2 / p)) + h ln(2 / p).
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
    """The analyzer's estimate of sums of rewards of 0 and 1 after a secure aggregation modulo m = n g + 2 tau + 1
    (Chowdhury & Zhou 2023, Algorithm 1, lines 18-30).

    Args:
        sums: the sums of the rewards of n = `pulls` users.
        noise: the sum of the users' noise, in steps of 1 / g.
        pulls, precision, reach: n, g and tau.
    """
    most = pulls * precision
    modulo = most + 2 * reach + 1
    heard = np.mod(sums * precision + noise, modulo)
    return np.asarray(np.where(heard > most + reach, heard - modulo, heard) / precision)


def response_probabilities(epsilon: float) -> tuple[float, float]:
    """P(answer 1) for a reward of 0 and for one of 1: 1 / (e^epsilon + 1) and e^epsilon / (e^epsilon + 1) (LDP-UCB-B;
    Ren et al. 2020)."""
    flipped = float(np.exp(-np.logaddexp(0.0, epsilon)))
    return flipped, 1 - flipped


def local_lower_bound(means: Floats, epsilon: float) -> float:
    """The sum of 1 / (min(4, e^(2 epsilon)) (e^epsilon - 1)^2 Delta_a) over the suboptimal arms. As T grows, the regret
    of a consistent algorithm in the local model is at least this times ln T.

    It is the bound of Lai & Robbins 1985 applied to the answers: their divergence is at most the denominator without
    Delta_a times the squared total variation of the rewards (Duchi, Jordan & Wainwright 2013, theorem 1). Ren et al.
    2020 have a bound of this order.
    """
    mu = np.asarray(means, float)
    gaps = (mu.max() - mu)[mu < mu.max()]
    return float((1 / (min(4.0, np.exp(2 * epsilon)) * np.expm1(epsilon) ** 2 * gaps)).sum())
