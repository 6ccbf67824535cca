"""Chapter 3's stated model, solved exactly: M = 100, t0 = 3 s, tau = 10 ms, mu = 5/8, p = 1/500, R(k) = c - a/(k+1), c
= 0.04, a = 0.018.

R(k) = c - a/k, which the paper does not state, is solved too: most of the reported numbers follow from it.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from taciturn.bench.statistics import Floats
from taciturn.envs.round_stopping.model import Hyperbolic, Model, evaluate, parameters
from taciturn.policies import FixedCount, OptimalStopping, WaitForAll
from taciturn.policies.reference.optimal_stopping import Solution, threshold_table

PAPER_RULE = (10, 8)


LAMBDAS = (0.3, 1.0)  # prices of time, over a model's optimal rate


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


@lru_cache
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
    """A lower bound of the mean round of k=100 under Pareto times, in seconds: the slowest of 100 clients, and one
    upload.

    The largest of 100 Pareto(2, 250) times has mean 250 Gamma(101) Gamma(1/2) / Gamma(100.5), and infinite variance.
    """
    last = 250 * math.exp(math.lgamma(101) + math.lgamma(0.5) - math.lgamma(100.5))
    transmission = 0.5 * 1.454 / 0.454
    return float(3 + 0.01 * (last + transmission))


def best_values(model: dict[str, Any], price: float) -> Floats:
    """V(k, beta) of (3.2) at n = 0 for every state, under the best of all rules: the Bellman equations, with their
    self-loops solved."""
    known = Model(**model)
    clients, mu, p = known.num_clients, known.upload_probability, known.compute_probability
    stop = known.rewards - price * known.broadcast_time
    values = np.full((clients + 1, clients + 2), -np.inf)
    for k in range(clients, -1, -1):
        for beta in range(clients - k, -1, -1):
            left = clients - k - beta
            done = [math.comb(left, i) * p**i * (1 - p) ** (left - i) for i in range(left + 1)]
            success = mu if beta else 0.0
            wait = sum(
                chance
                * (
                    success * (values[k + 1, beta - 1 + i] if beta else 0.0)
                    + (1 - success) * (values[k, beta + i] if i else 0.0)
                )
                for i, chance in enumerate(done)
            )
            stay = (1 - success) * done[0]
            waiting = (wait - price * known.slot_time) / (1 - stay) if stay < 1 else -np.inf
            values[k, beta] = max(stop[k], waiting)
    return values


def small_models() -> Iterator[tuple[dict[str, Any], Solution]]:
    """Models small enough for `best_values`, and their solutions."""
    for clients, mu, p, a in itertools.product((4, 7), (0.2, 0.9), (0.02, 0.3), (0.018, 0.035)):
        model = {
            "num_clients": clients,
            "upload_probability": mu,
            "compute_probability": p,
            "broadcast_time": 0.5,
            "slot_time": 0.05,
            "reward": Hyperbolic(0.04, a),
        }
        yield model, OptimalStopping.solve(**model)


def theorem_4() -> float:
    """1 plus by how much V of the best threshold rule exceeds V of the best rule, over R(M): the value farthest from 1
    over models."""
    ratios = []
    for model, solution in small_models():
        for factor in LAMBDAS:
            price, scale = factor * solution.rate, float(solution.model.rewards[-1])
            ratios.append(1 - (best_values(model, price)[0, 0] - solution.value(price)) / scale)
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def theorem_3() -> tuple[float, float]:
    """At the optimal rate of the stated model: |V| over R(M), and the rate of the rule that is optimal for that price
    over it."""
    solution = OptimalStopping.solve()
    rule = solution.evaluate(solution.table)
    return abs(solution.value(solution.rate)) / float(solution.model.rewards[-1]), rule.rate / solution.rate


def lemma_1() -> float:
    """The largest error of Lemma 1 as printed, over lambda tau/mu, in a model of 12 clients."""
    model = {
        "num_clients": 12,
        "upload_probability": 0.5,
        "compute_probability": 0.1,
        "broadcast_time": 3.0,
        "slot_time": 0.05,
        "reward": Hyperbolic(0.04, 0.035),
    }
    solution = OptimalStopping.solve(**model)
    known, price, (top, _) = solution.model, solution.rate, solution.thresholds
    values, unit = best_values(model, price), price * known.slot_time / known.upload_probability
    states = [(k, beta) for k in range(top + 1) for beta in range(top - k, known.num_clients - k + 1)]
    printed = [known.rewards[top] - price * known.broadcast_time - (k - top) * unit for k, _ in states]
    return float(max(abs(values[state] - one) for state, one in zip(states, printed, strict=True)) / unit)


def lemma_2() -> tuple[float, float]:
    """The largest slope and the smallest second difference of V over prices of time, relative to those of a straight
    line to R(M)."""
    solution = OptimalStopping.solve()
    prices = np.linspace(0.1, 3, 59) * solution.rate
    values = np.array([solution.value(float(price)) for price in prices]) / float(solution.model.rewards[-1])
    slopes = np.diff(values) / np.diff(prices / solution.rate)
    return float(slopes.max()), float(np.diff(slopes).min())


def corollary_3() -> float:
    """The largest k* over Corollary 3's bound on it, over models around the stated one."""
    found = []
    for clients, mu, p, a in itertools.product((10, 100), (0.2, 0.625, 1.0), (0.002, 0.1, 1.0), (0.018, 0.035)):
        solution = OptimalStopping.solve(
            num_clients=clients,
            upload_probability=mu,
            compute_probability=p,
            reward=Hyperbolic(0.04, a),
            broadcast_time=3.0,
            slot_time=0.01,
        )
        bound = math.sqrt(a / (0.04 - a / 2) * (1 + mu / p + mu * 3.0 / 0.01))
        found.append(solution.thresholds[0] / bound)
    return max(found)
