"""Chapter 3's stated model, solved exactly: M = 100, t0 = 3 s, tau = 10 ms, mu = 5/8, p = 1/500, R(k) = c - a/(k+1), c = 0.04, a = 0.018.

R(k) = c - a/k, which the paper does not state, is solved too: most of the reported numbers follow from it.
"""

from dataclasses import dataclass

import numpy as np

from taciturn.envs.round_stopping.world import Model, evaluate, parameters
from taciturn.policies import FixedCount, OptimalStopping, WaitForAll
from taciturn.policies.reference.optimal_stopping import threshold_table

PAPER_RULE = (10, 8)


@dataclass(frozen=True)
class Exact:
    """Exact values in the stated model, and what R(k) = c - a/k gives."""

    optimal_rate: float  # lambda*, by the solver's dynamic programme
    rates: dict[
        str, float
    ]  # reward per second of "(10, 8)", "k=10", "k=100" and "optimal", from each rule's Markov chain
    durations: dict[str, float]  # mean seconds per round of the same rules
    optimal_reward: float  # mean reward per round of the optimal rule
    thresholds: tuple[int, int]  # (k*, k0*)
    bounds: tuple[float, float]  # of the optimal rate, Corollaries 1 and 2
    best_fixed: tuple[int, float]  # k of the best fixed count, and its rate
    ready_thresholds: tuple[int, int]  # with R(k) = c - a/k and clients that are always ready (p = 1)
    ready_rate: float  # max R(k)/(t0 + k tau), Corollary 2's bound with R(k) = c - a/k
    busy_rate: tuple[float, int]  # max R(k)/(t0 + k tau/mu), with a queue that never empties, and its k
    later_rate: float  # max R(k)/(t0 + (k+1) tau/mu)


def solve() -> Exact:
    """Solve and evaluate the stated model."""
    model, solution = Model(), OptimalStopping.solve()
    known, clients = parameters(model), model.num_clients
    tau, t0, mu = model.slot_time, model.broadcast_time, model.upload_probability
    tables = {
        "(10, 8)": threshold_table(clients, *PAPER_RULE),
        "k=10": FixedCount(10).table(clients),
        "k=100": WaitForAll().table(clients),
    }
    found = {name: evaluate(table, **known) for name, table in tables.items()}
    found["optimal"] = solution.evaluate(solution.table)
    fixed = [evaluate(FixedCount(k).table(clients), **known).rate for k in range(1, clients + 1)]
    k = np.arange(1, clients + 1)
    moved = 0.04 - 0.018 / k
    ready = OptimalStopping.solve(**known | {"reward": np.append(0.0, moved), "compute_probability": 1.0})
    busy = moved / (t0 + tau * (k / mu))
    return Exact(
        optimal_rate=solution.rate,
        rates={name: one.rate for name, one in found.items()},
        durations={name: one.expected_duration for name, one in found.items()},
        optimal_reward=found["optimal"].expected_reward,
        thresholds=solution.thresholds,
        bounds=solution.bounds,
        best_fixed=(int(np.argmax(fixed)) + 1, max(fixed)),
        ready_thresholds=ready.thresholds,
        ready_rate=float((moved / (t0 + tau * k)).max()),
        busy_rate=(float(busy.max()), int(np.argmax(busy)) + 1),
        later_rate=float((moved / (t0 + tau * ((k + 1) / mu))).max()),
    )


def slowest_pareto_round() -> float:
    """A lower bound of the mean round of k=100 under Pareto times, in seconds: the slowest of 100 clients, and one upload.

    The largest of 100 Pareto(2, 250) times has mean 250 Gamma(101) Gamma(1/2) / Gamma(100.5), and infinite variance.
    """
    from scipy.special import gammaln

    last = 250 * np.exp(gammaln(101) + gammaln(0.5) - gammaln(100.5))
    transmission = 0.5 * 1.454 / 0.454
    return float(3 + 0.01 * (last + transmission))
