"""Quantities of Tao et al. 2023: its parameters, its measures, and its infinite-population limit."""

import numpy as np

from taciturn.validation import Array, Floats, Ints, choice, integer, number


def ordered_means(num_options: int) -> list[float]:
    """The means of K ordered uniform draws, in decreasing order."""
    return [round(j / (num_options + 1), 10) for j in range(num_options, 0, -1)]


def copies_of_paper(num_agents: int, growth: str = "log_squared", h: float = 485.0) -> int:
    """Number of copies T = floor(h g(N)), with g(N) = ln^2 N ("log_squared") or sqrt N ("root").

    The paper's h is 16 sigma / (1 - beta), 485 in section 6.
    """
    n = integer("num_agents", num_agents, at_least=3)
    choice("growth", growth, ("log_squared", "root"))
    g = np.log(n) ** 2 if growth == "log_squared" else np.sqrt(n)
    return int(number("h", h, above=0) * g)


def popularity(holders: Ints) -> Floats:
    """Q_j = D_j / D, the share of the agents with a preference that hold each option, [B, K]; 0 if no agent holds an
    option."""
    return holders / np.maximum(holders.sum(1, keepdims=True), 1)


def regret(total_reward: Floats, time: Array, eta: Floats) -> Floats:
    """eta_1 minus the time average of Q^{r-1} . Phi^r, [B], for qualities [B, K] or [K]; 0 before the first round
    [Tao 1]."""
    return np.where(time > 0, eta.max(-1) - total_reward / np.maximum(time, 1), 0.0)


def multiplicative_weights(signals: Array, beta: float, mu: float, initial: Array | None = None) -> Floats:
    """Normalised weights P^0 ... P^R, [R + 1, ..., K], of an infinite population given the signals Phi^1 ... Phi^R
    [Tao 34].

    Args:
        signals: zeros and ones, [R, ..., K].
        beta: probability of adopting an option if its signal is 1; 1 - beta if it is 0.
        mu: probability of a uniformly random option.
        initial: P^0 (default: uniform).
    """
    phi = np.asarray(signals, np.float64)
    weights = np.broadcast_to(1.0 / phi.shape[-1] if initial is None else initial, phi.shape[1:])
    path = [weights]
    for now in phi:
        weights = ((1 - mu) * weights + mu / phi.shape[-1]) * np.where(now == 1, beta, 1 - beta)
        weights = weights / weights.sum(-1, keepdims=True)
        path.append(weights)
    return np.stack(path)
