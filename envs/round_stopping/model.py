"""The stopping problem of Jiang 2020, chapter 3: its parameters, the distribution of a slot, and the exact value of any
stopping rule."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from taciturn.validation import MOST_ARMS, Floats, Ints, integer, number, vector


@dataclass(frozen=True)
class Hyperbolic:
    """The paper's reward curve, R(k) = c - a / (k + 1) (section 3.4)."""

    c: float = 0.04
    a: float = 0.018

    def __post_init__(self) -> None:
        number("c", self.c)
        number("a", self.a, at_least=0)

    def table(self, num_clients: int) -> Floats:
        """R(0..M), float64[M + 1]."""
        return np.asarray(self.c - self.a / (np.arange(num_clients + 1) + 1.0), np.float64)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The parameters of the stopping problem: the clients, their speeds, and the reward of a round.

    Args:
        num_clients: M.
        broadcast_time: t0, the fixed cost of a round, in the unit of `slot_time`.
        slot_time: tau.
        upload_probability: mu, the probability that an upload succeeds in a slot.
        compute_probability: p, the probability that a client finishes computing in a slot.
        reward: R(0..M), or a `Hyperbolic`.

    Raises:
        ValueError: a parameter is outside its range, or a table is not M + 1 finite numbers.
    """

    num_clients: int = 100
    broadcast_time: float = 3.0
    slot_time: float = 0.01
    upload_probability: float = 0.625
    compute_probability: float = 0.002
    reward: Hyperbolic | Sequence[float] | Floats = field(default_factory=Hyperbolic)

    def __post_init__(self) -> None:
        integer("num_clients", self.num_clients, at_least=1, at_most=MOST_ARMS)
        number("broadcast_time", self.broadcast_time, above=0)
        number("slot_time", self.slot_time, above=0)
        number("upload_probability", self.upload_probability, above=0, at_most=1)
        number("compute_probability", self.compute_probability, above=0, at_most=1)
        if not isinstance(self.reward, Hyperbolic):
            vector("reward", self.reward, size=self.num_clients + 1)

    @cached_property
    def rewards(self) -> Floats:
        """R(0..M), float64[M + 1]."""
        if isinstance(self.reward, Hyperbolic):
            return self.reward.table(self.num_clients)
        return vector("reward", self.reward)


def parameters(model: Model) -> dict[str, Any]:
    """The parameters of a `Model`, or of an extension of it, as the keyword arguments of `Model`."""
    return {f.name: getattr(model, f.name) for f in fields(Model)}


def binomial_rows(sizes: Ints, probability: float, width: int) -> Floats:
    """P(Binomial(n, probability) = d) for each n in `sizes` and d = 0..width: float64[len(sizes), width + 1]."""
    n, d = np.asarray(sizes, np.float64)[:, None], np.arange(1, width + 1)
    if probability == 1.0:
        return (np.arange(width + 1) == n).astype(np.float64)
    with np.errstate(divide="ignore"):
        ratios = np.log(np.maximum(n - d + 1, 0) / d) + (np.log(probability) - np.log1p(-probability))
    start = n * np.log1p(-probability)
    return np.exp(np.concatenate([start, start + np.cumsum(ratios, axis=1)], axis=1))


def some_finish(computing: Ints, probability: float) -> Floats:
    """1 - (1-p)^u, the probability that at least one of u `computing` clients finishes in a slot; accurate even for
    tiny p."""
    if probability == 1.0:
        return (computing > 0).astype(np.float64)
    return -np.expm1(computing * np.log1p(-probability))


class Evaluation(NamedTuple):
    """The value of a stopping rule: expectations over one round, and the rate J = E[R(K)] / E[N tau + t0]."""

    rate: float
    expected_reward: float
    expected_slots: float
    expected_duration: float
    expected_updates: float


def evaluate(wait: Any, **model: Any) -> Evaluation:
    """The exact value of a stationary stopping rule.

    Solves the linear equations of the rule's Markov chain for decreasing k. Within one k, states are ordered by s = k +
    beta, the number of clients that have finished computing. It never falls, so the equations are triangular.

    Args:
        wait: bool[M + 1, M + 1] over (k, beta), True where the rule waits; entries with k + beta > M or k = M are
            ignored.
        **model: the parameters of `Model`.

    Raises:
        ValueError: a table has the wrong shape or dtype, or a parameter is out of range.

    Cost:
        O(M^3) operations, 2 ms for M = 100.
    """
    from scipy.linalg.blas import dtrsm

    m = Model(**model)
    clients, mu = m.num_clients, m.upload_probability
    table = np.asarray(wait)
    if table.shape != (clients + 1, clients + 1) or table.dtype != np.bool_:
        raise ValueError(
            f"wait must be bool[{clients + 1}, {clients + 1}] over (k, beta), not {table.dtype}{list(table.shape)}"
        )
    computing = clients - np.arange(clients + 1)
    moves, leave = np.zeros((clients + 1, clients + 1)), some_finish(computing, m.compute_probability)
    for s, row in enumerate(binomial_rows(computing, m.compute_probability, clients)):
        moves[s, s:] = row[: clients + 1 - s]

    # Columns: E[R(K)], E[K] and E[remaining slots] from (k, s - k), for s = k..M.
    beyond = np.array([[m.rewards[clients], clients, 0.0]])
    for k in range(clients - 1, -1, -1):
        chain = moves[k:, k:]
        system, ahead = (mu - 1) * chain, np.zeros((clients + 1 - k, 3))
        np.fill_diagonal(system, mu + (1 - mu) * leave[k:])
        system[0], system[0, 0] = -chain[0], leave[k]
        ahead[1:] = mu * chain[1:, 1:] @ beyond
        ahead[:, 2] += 1.0
        stops = np.flatnonzero(~table[k, : clients + 1 - k])
        system[stops], system[stops, stops], ahead[stops] = 0.0, 1.0, (m.rewards[k], k, 0.0)
        # solve_triangular starts threads even for such small systems, and waits milliseconds for them where cores are
        # busy.
        beyond = dtrsm(1.0, system.T, ahead, lower=1, trans_a=1)
    reward, updates, slots = (float(x) for x in beyond[0])
    duration = slots * m.slot_time + m.broadcast_time
    return Evaluation(reward / duration, reward, slots, duration, updates)
