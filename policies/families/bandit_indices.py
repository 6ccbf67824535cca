"""Indices, radii and schedules of classic bandit algorithms, one formula per function, for arrays [..., K] of arms.

`counts` are pulls, and `means` are sample means in [0, 1]. An arm without pulls has an infinite index, for any mean.
`t` counts the pulls or slots so far, a number or an array that broadcasts with the arms; values below 2 count as 2. M
is the number of `agents`, and `sigma` the sub-Gaussian parameter of a reward. Logarithms are natural.
"""

import numpy as np

from taciturn.validation import Array, Floats

TINY = 1e-300


def ucb1_index(counts: Array, means: Floats, t: Array | float) -> Floats:
    """mean + sqrt(2 ln t / n) (Auer, Cesa-Bianchi & Fischer 2002, Figure 1)."""
    return means + ucb1_width(t) * ucb1_narrow(counts)


def ucb1_width(t: Array | float) -> Floats:
    """sqrt(2 ln t)."""
    return np.sqrt(2.0 * np.log(np.maximum(t, 2.0)))


def ucb1_narrow(counts: Array) -> Floats:
    """1 / sqrt(n)."""
    with np.errstate(divide="ignore"):
        return 1.0 / np.sqrt(counts)


def bernoulli_divergence(p: Floats, q: Floats) -> Floats:
    """kl(p, q) = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q)), for p in [0, 1] and q in (0, 1)."""
    return p * np.log(np.maximum(p, TINY) / q) + (1 - p) * np.log(np.maximum(1 - p, TINY) / (1 - q))


def kl_upper_bound(counts: Array, means: Floats, budget: Array | float, steps: int = 8) -> Floats:
    """The largest q with n kl(mean, q) <= `budget`.

    Computed by Newton's method from above: kl(p, .) is convex and increasing beyond p, so no step passes the root.
    It starts at the smaller of two upper bounds on the root, p + sqrt(b / 2) (Pinsker) and 1 - exp(-(b + H(p)) / (1 -
    p)), where b is the right side divided by n and H is the entropy. The error after 8 steps is at most 1e-12.
    """
    p = np.clip(means, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        b = np.where(counts > 0, budget / np.maximum(counts, 1), 1.0)
        rest = 1.0 - p
        entropy = -(p * np.log(np.maximum(p, TINY)) + rest * np.log(np.maximum(rest, TINY)))
        far = -np.expm1(-(b + entropy) / np.maximum(rest, TINY))
    q = np.minimum(p + np.sqrt(b / 2), far)
    for _ in range(steps):
        inside = (q < 1.0) & (q > p)
        at = np.where(inside, q, 0.5)
        slope = np.where(inside, (q - p) / (at * (1 - at)), 1.0)
        excess = np.where(inside, bernoulli_divergence(p, at) - b, 0.0)
        q = q - np.maximum(excess, 0.0) / slope
    return np.where(counts > 0, q, np.inf)


def kl_ucb_budget(t: Array | float, c: float) -> Floats:
    """ln t + c ln ln t: with this budget `kl_upper_bound` is the index of KL-UCB (Garivier & Cappe 2011, Algorithm 1;
    they recommend c = 0)."""
    log_t = np.log(np.maximum(t, 2.0))
    return log_t + c * np.log(np.maximum(log_t, 1.0)) if c else log_t


def pinsker_bound(counts: Array, means: Floats, budget: Array | float) -> Floats:
    """mean + sqrt(`budget` / (2 n)), at least `kl_upper_bound`, as kl(p, q) >= 2 (p - q)^2."""
    with np.errstate(divide="ignore"):
        return means + np.sqrt(budget / 2 / counts)


def horizon_budget(counts: Array, left: Array | float, a: float, c: float) -> Floats:
    """a ln(1 + c `left` / n), for n pulls of an arm when `left` pulls in total remain."""
    return np.asarray(a * np.log1p(c * left / counts))


def moss_index(counts: Array, means: Floats, horizon: float, num_arms: int) -> Floats:
    """mean + sqrt(max(ln(T / (K n)), 0) / n) for K arms and the horizon T (MOSS; Audibert & Bubeck 2009)."""
    with np.errstate(divide="ignore"):
        bonus = np.sqrt(np.maximum(np.log(horizon / (num_arms * np.maximum(counts, 1))), 0.0) / np.maximum(counts, 1))
    return np.where(counts > 0, means + bonus, np.inf)


def elimination_radius(pulls: Array, num_arms: int, delta: float) -> Floats:
    """sqrt(ln(4 K n^2 / delta) / (2 n)): Hoeffding's bound, valid for K arms and all n simultaneously with probability
    1 - delta.

    Successive elimination (Even-Dar, Mannor & Mansour 2006, Algorithm 3) eliminates arms that are two radii below the
    best. The paper leaves the constant open; this is Hoeffding's for rewards in [0, 1].
    """
    n = np.maximum(pulls, 1)
    return np.sqrt(np.log(4 * num_arms * n * n / delta) / (2 * n))


def fed2_ucb_radius(admitted: Floats, pulls: Floats, horizon: float, sigma: float, sigma_c: float) -> float:
    """sqrt(6 sigma^2 eta_p ln T) + sqrt(6 sigma_c^2 ln T / M(p)) (Fed2-UCB; Shi & Shen 2021).

    eta_p = M(p)^-2 sum_q g(q) / F(q, p): of the M(p) clients, g(q) were admitted in phase q and have pulled each active
    arm F(q, p) times.

    Args:
        admitted, pulls: g(1..p) and f(1..p), float64[p].
        horizon: T.
        sigma: sub-Gaussian parameter of a reward given its arm (1/2 for rewards in [0, 1]).
        sigma_c: standard deviation of a client's mean about the global mean; 0 for homogeneous rewards.
    """
    clients = admitted.sum()
    since = np.cumsum(pulls[::-1])[::-1]
    eta = (admitted / since).sum() / clients**2
    return float(np.sqrt(6 * sigma**2 * eta * np.log(horizon)) + np.sqrt(6 * sigma_c**2 * np.log(horizon) / clients))


def coop_ucb2_index(
    pulls: Floats, rewards: Floats, t: Array | float, agents: int, gamma: float, sigma: float, eta: float
) -> Floats:
    """s / n + sigma sqrt(2 gamma / G(eta) (n + f(t)) / (M n) ln t / n) (Landgren, Srivastava & Leonard 2016).

    n and s are running consensus estimates of pulls and rewards per agent; G(eta) = 1 - eta^2 / 16, f(t) = sqrt(ln t);
    gamma > 1 and eta in (0, 4).
    """
    log_t = np.log(np.maximum(t, 2.0))
    n = np.where(pulls > 0, pulls, 1.0)
    width = 2 * gamma / (1 - eta**2 / 16) * (n + np.sqrt(log_t)) / (agents * n) * log_t / n
    return np.where(pulls > 0, rewards / n + sigma * np.sqrt(width), np.inf)


def dducb_index(pulls: Floats, rewards: Floats, t: Array | float, agents: int, sigma: float, eta: float) -> Floats:
    """rewards / pulls + sqrt(2 eta sigma^2 ln t / (M pulls)) (Martinez-Rubio, Kanade & Rebeschini 2019, Algorithm 1).

    `pulls` and `rewards` are delayed averages over the agents, and t is the number of all agents' pulls in these
    averages; eta > 1.
    """
    n = np.where(pulls > 0, pulls, 1.0)
    width = 2 * eta * sigma**2 * np.log(np.maximum(t, 2.0)) / (agents * n)
    return np.where(pulls > 0, rewards / n + np.sqrt(width), np.inf)


def gossip_ucb_index(counts: Array, estimates: Floats, t: Array | float, agents: int) -> Floats:
    """estimate + sqrt(2 M ln t / n), where n is the number of the agent's own pulls (Zhu, Zhu, Liu & Liu 2021).

    The estimates are for the mean over agents. The paper adds a constant, 64 / M^17, to every index, which changes no
    choice.
    """
    with np.errstate(divide="ignore"):
        return estimates + np.sqrt(2 * agents * np.log(np.maximum(t, 2.0)) / counts)
