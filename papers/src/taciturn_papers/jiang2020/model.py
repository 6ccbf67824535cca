"""Exact numbers.

Chapter 2: the bound of Theorem 1, and the best response to a belief (Theorem 2). Chapter 3: the stated model, M = 100,
t0 = 3 s, tau = 10 ms, mu = 5/8, p = 1/500, R(k) = c - a/(k+1), c = 0.04, a = 0.018, and smaller models that are solved
in every state. R(k) = c - a/k, which the paper does not state, is solved too: most of the reported numbers follow from
it.
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
from taciturn_papers.jiang2020.settings import COSTS, PAPER_RULE, THETAS

COVERED = tuple(name for name in COSTS if name != "logarithmic")
"""The costs for which Theorem 2 holds."""
TARGETS = (0.3, 1.0, 3.0)
LAMBDAS = (0.3, 1.0)  # prices of time, over a model's optimal rate


@dataclass(frozen=True)
class Exact:
    """Exact values in the stated model, and some with R(k) = c - a/k."""

    optimal_rate: float  # lambda*, by the solver's dynamic programme
    # Reward per second of "(10, 8)", "k=10", "k=100" and "optimal", from each rule's Markov chain.
    rates: dict[str, float]
    durations: dict[str, float]  # mean seconds per round of the same rules
    thresholds: tuple[int, int]  # (k*, k0*)
    bounds: tuple[float, float]  # of the optimal rate, Corollaries 1 and 2
    fixed_rates: tuple[float, ...]  # of k = 1, ..., M
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
    results = {name: evaluate(table, **known) for name, table in tables.items()}
    results["optimal"] = solution.evaluate(solution.table)
    fixed = [evaluate(FixedCount(k).table(clients), **known).rate for k in range(1, clients + 1)]
    k = np.arange(1, clients + 1)
    moved = 0.04 - 0.018 / k
    ready = OptimalStopping.solve(**known | {"reward": np.append(0.0, moved), "compute_probability": 1.0})
    busy = moved / (t0 + tau * (k / mu))
    return Exact(
        optimal_rate=solution.rate,
        rates={name: one.rate for name, one in results.items()},
        durations={name: one.expected_duration for name, one in results.items()},
        thresholds=solution.thresholds,
        bounds=solution.bounds,
        fixed_rates=tuple(fixed),
        best_fixed=(int(np.argmax(fixed)) + 1, max(fixed)),
        ready_thresholds=ready.thresholds,
        ready_rate=float((moved / (t0 + tau * k)).max()),
        busy_rate=(float(busy.max()), int(np.argmax(busy)) + 1),
        later_rate=float((moved / (t0 + tau * ((k + 1) / mu))).max()),
    )


# Chapter 2.


def informativeness(theta: tuple[float, ...], epsilon: Floats) -> Floats:
    """A(eps, theta) of (2.14) under k-ary response: (M t - 1) / ((eps + M)(eps t + 1)), t = max theta."""
    values, most = len(theta), max(theta)
    return (values * most - 1) / ((epsilon + values) * (epsilon * most + 1))


def bounds_of_theorem_1(theta: str, cost: str, target: float) -> tuple[float, float]:
    """The minimum over eps >= target of g' A, the bound as (2.13) prints it, and of g' / A, the bound as in (2.19)."""
    epsilon = target * np.concatenate([np.linspace(1, 20, 20_001), np.geomspace(20, 1e6, 2_001)])
    marginal, a = COSTS[cost].marginal(epsilon), informativeness(THETAS[theta], epsilon)
    with np.errstate(over="ignore"):
        return float((marginal * a).min()), float((marginal / a).min())


def printed_over_written(cost: str) -> Floats:
    """The bound of (2.13) over (2.19), for every distribution and target."""
    pairs = (bounds_of_theorem_1(theta, cost, target) for theta in THETAS for target in TARGETS)
    return np.array([printed / written for printed, written in pairs])


def trusted_response(cost: str, draws: int = 50) -> float:
    """The best budget of an individual that is certain of a random belief, over the target: the ratio farthest from 1.

    The individual expects the platform's estimate to equal its belief. WINTALL then pays g'(target) / (dP/d eps) for
    the report that is most probable under this belief.
    """
    from scipy.optimize import minimize_scalar

    g, rng, result = COSTS[cost], np.random.Generator(np.random.PCG64(4)), []
    for values, target in itertools.product((2, 4, 10), TARGETS):
        for belief in rng.dirichlet(np.ones(values), draws):
            most = float(belief.max())
            slope = (values * most - 1) / (target + values) ** 2
            paid = float(g.marginal(target)) / slope

            def loss(epsilon: float, paid: float = paid, most: float = most, values: int = values) -> float:
                return float(g(epsilon)) - paid * (epsilon * most + 1) / (epsilon + values)

            best = minimize_scalar(loss, bounds=(0, 10 * target), method="bounded", options={"xatol": 1e-9}).x
            result.append(float(best) / target)
    return max(result, key=lambda ratio: abs(ratio - 1))


# Chapter 3.


def slowest_geometric_sd() -> float:
    """The standard deviation, in seconds, of the slowest of 100 geometric computing times, for which a round of k=100
    waits: 500 sqrt(sum 1/i^2) slots of 10 ms, to first order in p."""
    return 0.01 * 500 * math.sqrt(sum(1 / i**2 for i in range(1, 101)))


def slowest_pareto_round() -> float:
    """A lower bound on the mean round of k=100 under Pareto times, in seconds: the slowest of 100 clients, and one
    upload.

    The largest of 100 Pareto(2, 250) times has mean 250 Gamma(101) Gamma(1/2) / Gamma(100.5), and infinite variance.
    """
    last = 250 * math.exp(math.lgamma(101) + math.lgamma(0.5) - math.lgamma(100.5))
    transmission = 0.5 * 1.454 / 0.454
    return float(3 + 0.01 * (last + transmission))


def actions(model: dict[str, Any], price: float) -> tuple[Floats, Floats]:
    """The values of stopping, [M + 1], and of waiting one slot and then acting optimally, [M + 1, M + 2], in the states
    (k, beta) of (3.2) at n = 0, from the Bellman equations with their self-loops solved."""
    known = Model(**model)
    clients, mu, p = known.num_clients, known.upload_probability, known.compute_probability
    stop = known.rewards - price * known.broadcast_time
    waiting = np.full((clients + 1, clients + 2), -np.inf)
    values = waiting.copy()
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
            if stay < 1:
                waiting[k, beta] = (wait - price * known.slot_time) / (1 - stay)
            values[k, beta] = max(stop[k], waiting[k, beta])
    return stop, waiting


def best_values(model: dict[str, Any], price: float) -> Floats:
    """V(k, beta) of (3.2) at n = 0 for every state, under the best of all rules."""
    stop, waiting = actions(model, price)
    known = np.isfinite(waiting)
    known[-1, 0] = True
    return np.where(known, np.maximum(stop[:, None], waiting), -np.inf)


def top(model: Model, price: float) -> int:
    """k* of Theorem 4."""
    enough = np.flatnonzero(np.diff(model.rewards) <= price * model.slot_time / model.upload_probability)
    return int(enough[0]) if enough.size else model.num_clients


def model_of(clients: int, mu: float, p: float, a: float, t0: float, tau: float) -> dict[str, Any]:
    """A model with R(k) = 0.04 - a/(k+1), in the paper's symbols."""
    return {
        "num_clients": clients,
        "upload_probability": mu,
        "compute_probability": p,
        "reward": Hyperbolic(0.04, a),
        "broadcast_time": t0,
        "slot_time": tau,
    }


def small_models() -> Iterator[tuple[dict[str, Any], Solution]]:
    """Models small enough for `best_values`, and their solutions."""
    for clients, mu, p, a in itertools.product((4, 7), (0.2, 0.9), (0.02, 0.3), (0.018, 0.035)):
        model = model_of(clients, mu, p, a, 0.5, 0.05)
        yield model, OptimalStopping.solve(**model)


def priced_models() -> Iterator[tuple[dict[str, Any], Solution, float]]:
    """`small_models` at each price of time."""
    for model, solution in small_models():
        for factor in LAMBDAS:
            yield model, solution, factor * solution.rate


def theorem_4() -> float:
    """1 + (V of the best threshold rule - V of the best rule) / R(M), the value farthest from 1 over models."""
    ratios = []
    for model, solution, price in priced_models():
        scale = float(solution.model.rewards[-1])
        ratios.append(1 - (best_values(model, price)[0, 0] - solution.value(price)) / scale)
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def theorem_3() -> tuple[float, float]:
    """In the stated model, with the optimal rate as the price of time: |V| over R(M), and the rate of the optimal rule
    over this price."""
    solution = OptimalStopping.solve()
    rule = solution.evaluate(solution.table)
    return abs(solution.value(solution.rate)) / float(solution.model.rewards[-1]), rule.rate / solution.rate


def lemma_1() -> float:
    """The increase of V per update, over lambda tau/mu, in states where enough clients have computed, in a model of 12
    clients: the value farthest from -1, which Lemma 1 gives as printed."""
    model = model_of(12, 0.5, 0.1, 0.035, 3.0, 0.05)
    solution = OptimalStopping.solve(**model)
    known, price, (most, _) = solution.model, solution.rate, solution.thresholds
    values, unit = best_values(model, price), price * known.slot_time / known.upload_probability
    states = [(k, beta) for k in range(most) for beta in range(most - k, known.num_clients - k + 1)]
    steps = [float(values[k + 1, beta - 1] - values[k, beta]) / unit for k, beta in states]
    return max(steps, key=lambda step: abs(step + 1))


def lemma_2() -> tuple[float, float]:
    """The largest slope and the smallest second difference of V over prices of time, with V relative to R(M) and prices
    relative to the optimal rate."""
    solution = OptimalStopping.solve()
    prices = np.linspace(0.1, 3, 59) * solution.rate
    values = np.array([solution.value(float(price)) for price in prices]) / float(solution.model.rewards[-1])
    slopes = np.diff(values) / np.diff(prices / solution.rate)
    return float(slopes.max()), float(np.diff(slopes).min())


def values_over_time(known: Model, price: float, slots: int) -> tuple[list[tuple[int, int]], Floats, Floats]:
    """The states (k, beta), and V(k, beta, n) at n = 0 and at n = 1, by backward induction over time from a slot that
    ends every round."""
    clients, mu, p = known.num_clients, known.upload_probability, known.compute_probability
    states = [(k, beta) for k in range(clients + 1) for beta in range(clients - k + 1)]
    place = {state: i for i, state in enumerate(states)}
    moves = np.zeros((len(states),) * 2)
    for (k, beta), i in place.items():
        left = clients - k - beta
        for done in range(left + 1):
            chance = math.comb(left, done) * p**done * (1 - p) ** (left - done)
            if beta:
                moves[i, place[k + 1, beta - 1 + done]] += mu * chance
                moves[i, place[k, beta + done]] += (1 - mu) * chance
            else:
                moves[i, place[k, done]] += chance
    rewards = known.rewards[[k for k, _ in states]]
    later = values = rewards - price * (slots * known.slot_time + known.broadcast_time)
    for n in range(slots - 1, -1, -1):
        later = values
        values = np.maximum(rewards - price * (n * known.slot_time + known.broadcast_time), moves @ later)
    return states, values, later


def lemma_3() -> float:
    """V(k, beta, 1) - V(k, beta, 0) over -lambda tau: the value farthest from 1 over the states of models with rounds
    that end long before the last slot."""
    results = []
    for _, solution, price in priced_models():
        known = solution.model
        if known.num_clients == 4 and known.compute_probability > 0.1:
            _, first, second = values_over_time(known, price, 4000)
            steps = (second - first) / (-price * known.slot_time)
            results.append(float(steps[np.abs(steps - 1).argmax()]))
    return max(results, key=lambda step: abs(step - 1))


def lemmas_4_and_5() -> tuple[float, float]:
    """The value of waiting minus the value of stopping, over R(M): the largest where k >= k*, and the least where
    k < k* and an update is queued."""
    most, least = [], []
    for model, solution, price in priced_models():
        known, k_star = solution.model, top(solution.model, price)
        stop, waiting = actions(model, price)
        gain = (waiting - stop[:, None]) / float(known.rewards[-1])
        for k in range(known.num_clients):
            for beta in range(known.num_clients - k + 1):
                if k >= k_star:
                    most.append(float(gain[k, beta]))
                elif beta:
                    least.append(float(gain[k, beta]))
    return max(most), min(least)


def lemma_6() -> int:
    """The number of states (k, 0) with k < k* where waiting is best although stopping is best at (k - 1, 0)."""
    count = 0
    for model, solution, price in priced_models():
        stop, waiting = actions(model, price)
        waits = [bool(waiting[k, 0] > stop[k]) for k in range(top(solution.model, price))]
        count += sum(later and not earlier for earlier, later in itertools.pairwise(waits))
    return count


def terms(clients: int) -> int:
    """The number of terms in Algorithm 1's Bellman equations at the optimal rate: M - k - beta + 1 in each state with
    k + beta < k*."""
    k_star = OptimalStopping.solve(num_clients=clients).thresholds[0]
    return sum(clients - k - beta + 1 for k in range(k_star) for beta in range(k_star - k))


def corollaries() -> tuple[float, float, float]:
    """The largest, over models around the stated one, of Corollary 1's bound over the optimal rate, of that rate over
    Corollary 2's bound, and of k* over Corollary 3's bound."""
    results = []
    for clients, mu, p, a in itertools.product((10, 100), (0.2, 0.625, 1.0), (0.002, 0.1, 1.0), (0.018, 0.035)):
        solution = OptimalStopping.solve(**model_of(clients, mu, p, a, 3.0, 0.01))
        k = np.arange(clients + 1)
        lower = (0.04 - a / 2) / ((1 / mu + 1 / p) * 0.01 + 3.0)
        upper = float(((0.04 - a / (k + 1)) / (k * 0.01 + 3.0)).max())
        most = math.sqrt(a / (0.04 - a / 2) * (1 + mu / p + mu * 3.0 / 0.01))
        results.append((lower / solution.rate, solution.rate / upper, solution.thresholds[0] / most))
    first, second, third = (max(one) for one in zip(*results, strict=True))
    return first, second, third
