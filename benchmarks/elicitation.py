"""Campaigns of elicitation and the exact finite game: `python benchmarks/elicitation.py`.

One campaign of 100,000 individuals; 100,000 campaigns of 1,000 individuals, 100 replicas at a time; the exact best
response for N = 1,000 and M = 10. One core.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import record

from taciturn.envs import elicitation_v0
from taciturn.policies import FiniteBestResponse, TargetQuality, Wintall

REPEATS = 11


def seconds(work: Callable[[], Any], repeats: int) -> list[float]:
    """Of each repeat."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return times


def campaign(num_individuals: int, num_values: int) -> Callable[[], None]:
    """Plays one campaign: the platform's turn, the individuals', and what each of them sees."""
    theta = np.arange(1, num_values + 1) / np.arange(1, num_values + 1).sum()
    population = elicitation_v0.population(num_individuals=num_individuals, theta=theta, horizon=10**6)
    population.reset(seed=0)
    announced = population.default_action("platform")

    def play() -> None:
        seen = population.step({"platform": announced}).observation["individual"]
        population.step({"individual": seen[:, :, :1]})

    return play


def campaigns(total: int, num_individuals: int, replicas: int) -> Callable[[], None]:
    """Plays `total` campaigns of individuals who all choose the target."""
    population = elicitation_v0.population(replicas, num_individuals=num_individuals, horizon=total // replicas)
    policies = {"platform": Wintall(), "individual": TargetQuality()}

    def play() -> None:
        population.reset(seed=0)
        for role, policy in policies.items():
            policy.reset(population, population.stream(f"policy/{role}"), role)
        population.advance(policies)
        assert population.done.all()

    return play


def main() -> None:
    theta = np.arange(1, 11) / 55
    result: dict[str, Any] = {}
    for name, work, repeats in (
        ("campaign_of_100000_individuals_4_values", campaign(100_000, 4), REPEATS),
        ("campaign_of_100000_individuals_10_values", campaign(100_000, 10), REPEATS),
        ("100000_campaigns_of_1000", campaigns(100_000, 1_000, 100), 1),
        (
            "best_response_of_1000_with_10_values",
            lambda: FiniteBestResponse.solve(theta, 1.0, elicitation_v0.QuadraticCost(1.0), 1_000),
            REPEATS,
        ),
        (
            "expected_payment_of_100000_with_4_values",
            lambda: elicitation_v0.expected_payment(
                (0.4, 0.3, 0.2, 0.1), 1.0, elicitation_v0.QuadraticCost(1.0), 100_000
            ),
            3,
        ),
    ):
        times = sorted(seconds(work, repeats))
        result[name] = {
            "seconds": round(statistics.median(times), 5),
            "range": [round(t, 5) for t in (times[0], times[-1])],
        }
        print(f"{name}: {result[name]['seconds']:.4f} s")
    record("elicitation", result, packages=("taciturn", "numpy"))


if __name__ == "__main__":
    main()
