"""Indices of bandits that are private under a trusted curator, and lower bounds on their regret; one function per
formula, for arrays [..., K] over arms.

`counts` are the numbers of pulls that enter the private means, `means` the private means, which noise may move out of
[0, 1], and t the total number of pulls so far. An arm without a private mean has an infinite index. Logarithms are
natural.
"""

import numpy as np

from taciturn.policies.families.bandit_indices import TINY, bernoulli_divergence, kl_upper_bound
from taciturn.validation import Array, Floats


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
    """ln(1 / gamma) ln(T)^1.5 / epsilon: a bound on the error of a sum from a binary tree (Chan, Shi & Song 2011)."""
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
    steep = q * np.exp(-epsilon) / (1 - q + q * np.exp(-epsilon))  # the p with slope -epsilon
    far = -np.log1p(q * np.expm1(-epsilon)) - epsilon * p
    return np.where(p >= q, 0.0, np.where(p >= steep, bernoulli_divergence(p, q), far))


def private_upper_bound(counts: Array, means: Floats, budget: Array | float, epsilon: float) -> Floats:
    """The index of DP-KLUCB with `budget` = ln t: the largest q in [0, 1] with n d(p, q) <= `budget`, for the clipped
    mean p and d of `private_divergence` (Azize et al. 2025)."""
    p = np.clip(means, 0.0, 1.0)
    b = budget / np.maximum(counts, 1)
    edge = p / np.maximum(p + (1 - p) * np.exp(-epsilon), TINY)  # up to this q, d(p, q) = kl(p, q)
    near = bernoulli_divergence(p, np.clip(edge, TINY, 1 - 1e-16)) >= b
    far = np.minimum(-np.expm1(-b - epsilon * p) / -np.expm1(-epsilon), 1.0)
    return np.where(counts > 0, np.where(near, kl_upper_bound(counts, p, budget), far), np.inf)


def dp_imed_index(counts: Array, means: Floats, epsilon: float) -> Floats:
    """The index of DP-IMED, n d(p, p*) + ln n, for d of `private_divergence`, clipped means p and the largest of them,
    p*. The arm with the least index is pulled, and one without a private mean first (Azize et al. 2025)."""
    p = np.clip(means, 0.0, 1.0)
    best = np.where(counts > 0, p, 0.0).max(-1, keepdims=True)
    gap = private_divergence(p, np.clip(best, 1e-12, 1 - 1e-12), epsilon)
    return np.where(counts > 0, counts * gap + np.log(np.maximum(counts, 1)), -np.inf)


def regret_lower_bound(means: Floats, epsilon: float) -> float:
    """The sum of Delta_a / d(mu_a, mu*) over the suboptimal arms, for `means` [K]. As T grows, the regret of a
    consistent algorithm with epsilon-global differential privacy is at least this times ln T (Azize et al. 2025;
    tighter than Azize & Basu 2022)."""
    mu = np.asarray(means, float)
    worse = mu[mu < mu.max()]
    return float(((mu.max() - worse) / private_divergence(worse, np.full_like(worse, mu.max()), epsilon)).sum())


def first_lower_bound(means: Floats, epsilon: float) -> float:
    """The sum of Delta_a / min(kl(mu_a, mu*), 6 epsilon Delta_a) over suboptimal arms (Azize & Basu 2022, theorem 3,
    for Bernoulli rewards)."""
    mu = np.asarray(means, float)
    worse = mu[mu < mu.max()]
    gaps = mu.max() - worse
    return float((gaps / np.minimum(bernoulli_divergence(worse, mu.max()), 6 * epsilon * gaps)).sum())
