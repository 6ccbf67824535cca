"""What the accountant costs in a population of 5,000 agents: `python benchmarks/accountant.py`.

Charging, as a share of the step it happens in (the votes of `parallel_view.py`, as arrays), in turns within one
process: of the bare step, and of one that also perturbs what is charged. A budget is asked and its messages charged,
step by step: while nobody comes near it, and once it is spent for most. And how long totals take when somebody asks.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np
from common import record
from parallel_view import OPTIONS, Votes
from parallel_view import Params as VotesParams

from taciturn.compiling import compiled
from taciturn.envs.core import Channel, World
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.budget import Budget
from taciturn.privacy.composition import Method
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Gaussian, k_ary_response

AGENTS, REPEATS, TURNS = 5000, 21, 50


def microseconds(call: Callable[[], Any], times: int) -> float:
    started = time.perf_counter_ns()
    for _ in range(times):
        call()
    return (time.perf_counter_ns() - started) / times / 1e3


def accountant_of(num_envs: int) -> Accountant:
    channels = [
        Channel("vote", "one_hot", observer="server", unit="event"),
        Channel("mean", "bounded", observer="neighbour", unit="event"),
    ]
    return Accountant(num_envs, AGENTS, channels)


def charging(num_envs: int) -> dict[str, Any]:
    """Microseconds of a step and of each way of charging it."""
    rng = np.random.default_rng(0)
    population = World(Votes, VotesParams).population(num_envs=num_envs, num_agents=AGENTS)
    population.reset(seed=0)
    votes = rng.integers(0, OPTIONS, (num_envs, AGENTS))
    accountant, vote, mean = (
        accountant_of(num_envs),
        BitwiseRandomizedResponse(0.1).loss(),
        Gaussian.from_rho(1e-4).loss(),
    )
    live, senders = np.ones(num_envs, np.bool_), rng.random((num_envs, AGENTS)) < 0.5
    levels = rng.random((num_envs, AGENTS))
    some = levels * senders
    wide, spent = accountant_of(num_envs), accountant_of(num_envs)
    spent.charge("vote", vote, each=rng.integers(0, 101, (num_envs, AGENTS)))
    near = Budget(5.0)
    far = Budget(1e6)
    one_hot, means = np.eye(OPTIONS, dtype=np.int8)[votes], rng.random((num_envs, AGENTS))
    bitwise, noise = BitwiseRandomizedResponse(0.1), Gaussian.from_rho(1e-4, sensitivity=1.0)

    def admit(budget: Budget, its: Accountant) -> None:
        admitted, _ = budget.admit(its, vote, senders, "vote")
        its.charge("vote", vote, each=admitted)

    # Name: the charge, and the mechanism whose messages it counts.
    ways: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "everyone": (lambda: accountant.charge("vote", vote, everyone=live), lambda: bitwise.perturb(one_hot, rng)),
        "each": (lambda: accountant.charge("mean", mean, each=senders), lambda: noise.perturb(means, rng)),
        "levels": (
            lambda: accountant.charge_levels("mean", levels),
            lambda: k_ary_response(votes, levels, OPTIONS, rng),
        ),
        "levels of half": (
            lambda: accountant.charge_levels("vote", some),
            lambda: k_ary_response(votes, levels, OPTIONS, rng),
        ),
        "budget": (lambda: admit(far, wide), lambda: bitwise.perturb(one_hot, rng)),
        "spent budget": (lambda: admit(near, spent), lambda: bitwise.perturb(one_hot, rng)),
    }
    steps: list[float] = []
    charges: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    turns = max(TURNS // num_envs, 3)
    for _ in range(REPEATS):
        steps.append(microseconds(lambda: population.step(votes), turns))
        for name, way in ways.items():
            charges[name].append((microseconds(way[0], turns), microseconds(way[1], turns)))
    result: dict[str, Any] = {"step_us": round(statistics.median(steps), 1)}
    for name, values in charges.items():
        bare = sorted(100 * charge / step for (charge, _), step in zip(values, steps, strict=True))
        full = [100 * charge / (step + perturb) for (charge, perturb), step in zip(values, steps, strict=True)]
        result[name] = {
            "us": round(statistics.median(charge for charge, _ in values), 2),
            "percent_of_bare_step": round(statistics.median(bare), 2),
            "range": [round(bare[0], 2), round(bare[-1], 2)],
            "percent_of_step_that_perturbs": round(statistics.median(full), 2),
        }
        print(f"{num_envs} x {AGENTS} agents, {name}: {result[name]}")
    return result


def asking() -> dict[str, float]:
    """Milliseconds of `total` by each method, where `different` agents sent different numbers of messages."""
    rng, result = np.random.default_rng(0), {}
    for different in (1, 100, AGENTS):
        accountant = accountant_of(1)
        counts = 10_000 + np.arange(AGENTS) % different
        accountant.charge("vote", BitwiseRandomizedResponse(0.1).loss(), each=counts[None])
        accountant.charge(
            "mean", Gaussian.from_rho(1e-4).loss(), each=rng.permutation(different)[counts % different][None]
        )
        for method in get_args(Method):
            ask = partial(accountant.epsilon, method=method)
            name = f"{method}, {different} different"
            result[name] = round(statistics.median(microseconds(ask, 1) for _ in range(5)) / 1e3, 2)
            print(f"total by {name} agents: {result[name]} ms")
    return result


def main() -> None:
    compiled.COMPILE_FROM = 0  # before the clock starts
    result = {f"{num_envs} replicas": charging(num_envs) for num_envs in (1, 20)}
    packages = ("taciturn", "numpy", "gymnasium", "dp-accounting")
    record("accountant", result | {"total_ms": asking(), "agents": AGENTS, "repeats": REPEATS}, packages)


if __name__ == "__main__":
    main()
