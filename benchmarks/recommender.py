"""T-PriDO in the recommender, compiled and uncompiled, against recounting: `python benchmarks/recommender.py`.

The peer is the twin of `tests/test_recommender_exact.py`, plain Python that counts the raw history afresh for every
number, as one would write the paper's algorithm first. Its time per agent and round grows with the rounds; all play the
same few. One core.
"""

import importlib.util
import statistics
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from common import record

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import recommender_v0
from taciturn.graph import random_graph
from taciturn.policies import TPriDO
from taciturn.policies.families import cluster_tree

AGENTS, ROUNDS, FEW, REPEATS = 8, 20_000, 150, 3
STANDARD: dict[str, Any] = {
    "num_agents": 8,
    "graph": "star",
    "num_items": 400,
    "repository": 200,
    "horizon": 500,
}  # the task's world
RUNS = 41
LARGE = {1_000: 500, 10_000: 50}  # agents and rounds
SPARSE = ("ring", "star", "barabasi_albert")
TESTS = Path(__file__).parents[1] / "tests"


def seconds(policy: Any, rounds: int, **params: Any) -> float:
    """CPU time of a run."""
    given: dict[str, Any] = {"num_agents": AGENTS, "graph": "complete", "horizon": rounds} | params
    env = recommender_v0.population(1, **given)
    begin = time.process_time()
    taciturn.simulate(env, policy, seed=0)
    return time.process_time() - begin


def per_agent_round(policy: Any, rounds: int, **params: Any) -> float:
    """Microseconds, the median of a few runs."""
    results = [seconds(policy, rounds, **params) for _ in range(REPEATS)]
    return round(1e6 * statistics.median(results) / rounds / params.get("num_agents", AGENTS), 1)


def standard_ms(runs: int) -> float:
    """CPU time of so many runs of the standard task at once."""
    env = recommender_v0.population(runs, **STANDARD)
    begin = time.process_time()
    taciturn.simulate(env, TPriDO(), seed=0)
    return 1e3 * (time.process_time() - begin)


def one_more_run() -> float:
    """Milliseconds by which one more run of the standard task takes longer, the median of a few."""
    standard_ms(1)  # compiles
    results = [(standard_ms(RUNS) - standard_ms(1)) / (RUNS - 1) for _ in range(REPEATS)]
    return round(statistics.median(results), 1)


def reference_implementation() -> Any:
    """The class of the policy that recounts."""
    spec = importlib.util.spec_from_file_location("recount", TESTS / "test_recommender_exact.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Recount


def peak_mib(rounds: int, **params: Any) -> float:
    """The most memory that a world and a run of so many rounds allocate."""
    tracemalloc.start()
    seconds(TPriDO(2.0), rounds, **params)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / 2**20, 1)


def kilobytes_an_agent(agents: int) -> float:
    """The most memory that making a world, a reset and a few steps allocate."""

    def play(size: int) -> None:
        env = recommender_v0.population(num_agents=size)
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros((1, size), np.int64))

    play(1)  # compiles
    tracemalloc.start()
    play(agents)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(peak / agents / 1000, 2)


def large(agents: int, name: str) -> dict[str, float]:
    """A run of many agents on a sparse graph, its reset among it."""
    params, rounds = {"num_agents": agents, "graph": random_graph(name, agents)}, LARGE[agents]
    took = seconds(TPriDO(2.0), rounds, **params)
    return {
        "rounds": rounds,
        "cpu_seconds": round(took, 1),
        "compiled_us": round(1e6 * took / rounds / agents, 1),
        "peak_mib": peak_mib(rounds, **params),
    }


def main() -> None:
    results: dict[str, Any] = {"agents": AGENTS, "rounds": ROUNDS, "few_rounds": FEW}
    # Numba looks for the package `coverage`, and would find the benchmark of that name.
    sys.path.pop(0)
    compiled.COMPILE_FROM = vars(cluster_tree)["COMPILE_FROM"] = 0
    seconds(TPriDO(2.0), 100)  # compiles
    results["compiled_us"] = per_agent_round(TPriDO(2.0), ROUNDS)
    results["compiled_few_us"] = per_agent_round(TPriDO(2.0), FEW)
    results["one_more_run_ms"] = one_more_run()
    results["large"] = {f"{agents} agents, {name}": large(agents, name) for agents in LARGE for name in SPARSE}
    results["kilobytes_an_agent"] = kilobytes_an_agent(10_000)
    results["peak_mib_by_rounds"] = {str(rounds): peak_mib(rounds) for rounds in (10_000, 20_000, 40_000)}
    compiled.COMPILE_FROM = vars(cluster_tree)["COMPILE_FROM"] = 10**12
    results["uncompiled_us"] = per_agent_round(TPriDO(2.0), FEW, num_items=200, repository=100)
    recounts = reference_implementation()
    slow = seconds(recounts(TPriDO(2.0)), FEW, num_items=200, repository=100)
    results["recounting_us"] = round(1e6 * slow / FEW / AGENTS, 1)
    results["compiled_times_faster_than_recounting"] = round(results["recounting_us"] / results["compiled_few_us"])
    print("\n".join(f"{name}: {value}" for name, value in results.items()))
    record("recommender", results, ("taciturn", "numpy", "numba"))


if __name__ == "__main__":
    main()
