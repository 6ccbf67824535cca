"""Tunes every policy that the reproduction of Zhou et al. compares, each on the same budget: `python
papers/tuning/zhou2021.py`.

Each gets `CONFIGURATIONS` settings, and each setting plays `RUNS` runs of `ROUNDS` rounds in each of the families
`FAMILIES`, with contexts of two dimensions and eight agents on a star, from seeds that no study may use. The setting
with the lowest mean regret is kept.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.bench.results import TUNING_SEEDS
from taciturn.envs import recommender_v0
from taciturn.simulation import simulate

CONFIGURATIONS, RUNS, ROUNDS = 8, 2, 500
FAMILIES = ("peak", "bumps", "linear")
WIDTHS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
TREE: dict[str, Sequence[Any]] = {"xi": (0.05, 0.2), "psi": (0.15, 0.3), "rate": (5.0, 20.0)}
GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "TPriDO": TREE,
    "DTPriDO": TREE,
    "DSC": {"level": (0, 1, 2, 3), "xi": (0.05, 0.5)},
    "ACR": {"xi": (0.05, 0.5), "rate": (5.0, 20.0), "power": (1.0, 3.0)},
    "LinUCB": {"kind": ("disjoint", "shared"), "alpha": (0.03, 0.1, 0.3, 1.0)},
    "GaussLinUCB": {"alpha": (0.03, 0.1, 0.3, 1.0), "shift": (0.1, 1.0)},
    "HCT": {"nu": (0.3, 1.0), "rho": (0.7, 0.85), "c": (0.1, 0.3)},
    "HOO": {"nu": (0.1, 0.3, 1.0, 3.0), "rho": (0.7, 0.85)},
    "ContextualZooming": {"width": (0.03, 0.1, 0.3, 1.0), "scale": (1.0, 2.0), "most": (100,)},
    "ItemUCB1": {"width": WIDTHS},
    "DUCB": {"width": WIDTHS},
}


def regret(name: str, own: dict[str, Any]) -> float:
    """Mean regret over families and tuning seeds."""
    found = []
    for family, run in itertools.product(FAMILIES, range(RUNS)):
        env = recommender_v0.population(1, family=family, horizon=ROUNDS)
        found.append(simulate(env, bring(name, **own), seed=TUNING_SEEDS[run]).metrics["regret"][0])
    return round(float(np.mean(found)), 4)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    here = Path(__file__).parent
    sys.path.append(str(here.parents[1] / "benchmarks"))
    from common import record

    methods: dict[str, Any] = {}
    for name, grid in GRIDS.items():
        begin = time.process_time()
        tried = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        assert len(tried) == CONFIGURATIONS
        scores = [regret(name, own) for own in tried]
        best = tried[int(np.argmin(scores))]
        methods[name] = {
            "settings": best,
            "cpu_seconds": round(time.process_time() - begin, 1),
            "tried": [{"settings": own, "regret": score} for own, score in zip(tried, scores, strict=True)],
        }
        print(f"{name}: {json.dumps(best)}, regret {min(scores)}, {methods[name]['cpu_seconds']} s", flush=True)
    budget = {"configurations": CONFIGURATIONS, "runs": RUNS, "rounds": ROUNDS, "families": list(FAMILIES)}
    seeds = [TUNING_SEEDS[run] for run in range(RUNS)]
    found = {
        "command": "python papers/tuning/zhou2021.py",
        "seeds": seeds,
        "budget": budget,
        "policies": methods,
    }
    record("zhou2021", found, ("taciturn", "numpy", "numba"), folder=here)


if __name__ == "__main__":
    main()
