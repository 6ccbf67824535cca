"""How long the exact solver of round stopping takes: `python benchmarks/solver.py`.

The paper's setting with 100 and 10,000 clients, and one where thousands of thresholds count: R(k) = sqrt(k), a fixed
cost of 100 s.
"""

import statistics
import time
from typing import Any

import numpy as np
from common import record

from taciturn.policies import OptimalStopping

CASES: dict[str, tuple[dict[str, Any], int]] = {
    "paper, M=100": ({}, 51),
    "paper, M=10000": ({"num_clients": 10_000}, 51),
    "sqrt(k), t0=100, M=10000": (
        {"num_clients": 10_000, "reward": np.sqrt(np.arange(10_001)), "broadcast_time": 100.0},
        5,
    ),
}


def main() -> None:
    OptimalStopping.solve()
    result: dict[str, Any] = {}
    for name, (model, repeats) in CASES.items():
        times = []
        for _ in range(repeats):
            started = time.perf_counter()
            solution = OptimalStopping.solve(**model)
            times.append(time.perf_counter() - started)
        result[name] = {
            "ms": round(1e3 * statistics.median(times), 3),
            "ms_range": [round(1e3 * min(times), 3), round(1e3 * max(times), 3)],
            "thresholds": list(solution.thresholds),
            "rate": solution.rate,
            "repeats": repeats,
        }
        print(f"{name}: {result[name]['ms']:.1f} ms, thresholds {solution.thresholds}, rate {solution.rate:.6f}")
    record("solver", result, ("taciturn", "numpy", "scipy"))


if __name__ == "__main__":
    main()
