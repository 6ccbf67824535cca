"""Rounds of the social bandit at the paper's size and beyond: `python benchmarks/social.py [--quick]`.

- A round of 10,000 agents and 20 options with the paper's constants (T = 485 ln^2 N copies, epsilon = 1), with every
  agent's observation and action; and 10,000 rounds in a row, with the most memory this process ever held.
- The same for other numbers of agents, without noise, and by single copies ("stationary").
- How near finitely many agents come to the multiplicative weights of equation 34, given the same signals.

Times are wall-clock, in turns within one process on one core; the lowest of several is what the machine can do when it
is left alone.
"""

import argparse
import os
import resource
import statistics
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import record

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import social_bandit_v0
from taciturn.policies import PrivateSocialLearning
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize

POLICY: dict[str, Any] = {"beta": 0.505, "mu": 6.7e-5}


def society(num_agents: int, num_options: int, epsilon: float | None, **params: Any) -> Any:
    defaults: dict[str, Any] = {
        "copies": social_bandit_v0.copies_of_paper(num_agents),
        "walk_length": 20,
        "dissemination": "aggregated",
    }
    eta = np.linspace(1, 0, num_options)
    env = social_bandit_v0.population(num_agents=num_agents, qualities=eta, horizon=10**6, **defaults | params)
    if epsilon is None:
        return env
    return Privatize(env, channel="preference", mechanism=BitwiseRandomizedResponse(epsilon))


def milliseconds(env: Any, rounds: int, repeats: int) -> dict[str, float]:
    """Of a round: observations, actions and all."""
    policy = PrivateSocialLearning(**POLICY)
    env.reset(seed=0)
    policy.reset(env, env.stream("policy/agent"))
    env.advance(policy, steps=2)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        env.advance(policy, steps=rounds)
        times.append(1e3 * (time.perf_counter() - started) / rounds)
    return {"median": round(statistics.median(times), 3), "lowest": round(min(times), 3)}


def limit_table(sizes: tuple[int, ...], seeds: int) -> dict[str, float]:
    """sup over 30 rounds and all options of |Q - P|, without noise, mean over seeds: beta = .6, mu = .1, 5 options."""
    table = {}
    for size in sizes:
        gaps = []
        for seed in range(seeds):
            env = social_bandit_v0.population(num_agents=size, copies=60, dissemination="aggregated")
            run = taciturn.simulate(
                env,
                PrivateSocialLearning(beta=0.6, mu=0.1),
                seed=seed,
                until=np.arange(1, 31),
                record=["popularity", "signals"],
            )
            limit = social_bandit_v0.multiplicative_weights(run.trace["signals"][:, 0], 0.6, 0.1)[1:]
            gaps.append(float(np.abs(run.trace["popularity"][:, 0] - limit).max()))
        table[str(size)] = round(statistics.mean(gaps), 4)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and nothing written")
    quick = parser.parse_args().quick
    rounds, repeats = (20, 3) if quick else (50, 9)
    compiled.COMPILE_FROM = 0
    result: dict[str, Any] = {}

    name = "round_10000_agents_20_options_ms"
    result[name] = milliseconds(society(10_000, 20, 1.0), rounds, repeats)
    print(f"{name}: {result[name]}")
    long = 500 if quick else 10_000
    started, worked = time.perf_counter(), time.process_time()
    milliseconds(society(10_000, 20, 1.0), long, 1)
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    result["rounds_in_a_row"] = {"rounds": long, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2)}
    result["memory_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    print(f"{long} rounds: {seconds:.1f} s ({cpu:.1f} s of processor time); memory {result['memory_mb']} MB")

    others = {
        "1000 agents": society(1000, 20, 1.0),
        "100000 agents": society(100_000, 20, 1.0),
        "10000 agents, no noise": society(10_000, 20, None),
        "2000 agents, 5 options, T=400, epsilon 2": society(2000, 5, 2.0, copies=400),
        "2000 agents, 5 options, T=400, epsilon 2, stationary": society(
            2000, 5, 2.0, copies=400, dissemination="stationary"
        ),
    }
    result["other_rounds_ms"] = {name: milliseconds(env, 5, 3) for name, env in others.items()}
    for name, value in result["other_rounds_ms"].items():
        print(f"round, {name}: {value} ms")
    result["sup_distance_to_equation_34"] = limit_table(
        (100, 1000, 10_000) if quick else (100, 1000, 10_000, 100_000), 3
    )
    print(f"sup |Q - P|: {result['sup_distance_to_equation_34']}")
    if not quick:
        record("social", result | {"repeats": repeats}, ("taciturn", "numpy"))


if __name__ == "__main__":
    main()
