"""Settings of the learners in `policies/learned/settings`, found by trials: `python benchmarks/tune.py [ENTRY ...]`.

An entry is `WORLD:LEARNER`. Its file's settings and each setting that differs from them as `CHANGES` says train
`TRAININGS` times, on seeds that no study may use, in the world that the study `agents` plays; each trained policy plays
`FRESH` runs. The file's settings stay unless every training with others scored better than all with them. All scores go
to `benchmarks/results/tuning.json`; files are changed by hand.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import record

from taciturn.agents import bring
from taciturn.bench.comparisons.kinds import judged, population
from taciturn.bench.play import FRESH
from taciturn.bench.results import TUNING_SEEDS
from taciturn.bench.scores import TUNED, sign
from taciturn.bench.tasks import CONTESTS
from taciturn.policies.learned.tuning import tuned

TRAININGS = 2
PLAY = TUNING_SEEDS[-1]  # the seed of the runs in which trained policies are compared
CHANGES: dict[str, list[dict[str, Any]]] = {
    "arm_elimination:LearnedElimination": [
        {"arguments": {"learning_rate": 0.001}}, {"arguments": {"learning_rate": 0.01}},
        {"arguments": {"ent_coef": 0.01}},
    ],
    "federated_bandit:LearnedPulls": [
        {"arguments": {"learning_rate": 0.003}}, {"arguments": {"gamma": 0.95}}, {"arguments": {"gamma": 0.995}},
    ],
    "gossip_bandit:SharedPPO": [{"learning_rate": 0.0003}, {"learning_rate": 0.003}, {"ent_coef": 0.005}],
    "social_bandit:SharedPPO": [{"learning_rate": 0.001}, {"learning_rate": 0.01}, {"ent_coef": 0.0}],
    "round_stopping:LearnedStopping-PPO": [
        {"arguments": {"learning_rate": 0.001}}, {"arguments": {"learning_rate": 0.005}},
        {"arguments": {"ent_coef": 0.01}},
    ],
    "round_stopping:LearnedStopping-DQN": [
        {"arguments": {"learning_rate": 0.0003}}, {"arguments": {"learning_rate": 0.003}},
        {"arguments": {"n_steps": 8}},
    ],
}  # fmt: skip

SHORTER: dict[str, dict[str, Any]] = {
    "round_stopping:LearnedStopping-PPO": {"stages": 2}, "round_stopping:LearnedStopping-DQN": {"stages": 2},
}  # fmt: skip
"""Parameters that make a training shorter, in all trials of an entry."""


def trial(entry: str, change: dict[str, Any], training: int) -> tuple[float, float]:
    """The mean score of one training, and the CPU seconds that it took with its runs."""
    begin = time.process_time()
    world, _, learner = entry.partition(":")
    name, _, algorithm = learner.partition("-")
    field = CONTESTS[f"{world}_v0"]
    config = {"env": f"{world}_v0", "env_params": field.world | (field.for_learners or {}), "kind": TUNED}
    own = SHORTER.get(entry, {}) | change | ({"algorithm": algorithm} if algorithm else {})
    agent = bring(name, **own, seed=TUNING_SEEDS[training])
    found = judged(population(config, FRESH, "evaluation"), agent, config, PLAY)
    return float(found[field.measure].mean()), time.process_time() - begin


def compare(entry: str, pool: ProcessPoolExecutor) -> dict[str, Any]:
    """All settings of an entry with their scores, and the change that is chosen."""
    world, _, learner = entry.partition(":")
    measure = CONTESTS[f"{world}_v0"].measure
    changes = [{}, *CHANGES[entry]]
    jobs = [[pool.submit(trial, entry, change, i) for i in range(TRAININGS)] for change in changes]
    found = [[job.result() for job in some] for some in jobs]
    scores = sign(measure) * np.array([[score for score, _ in some] for some in found])
    better = scores.min(1) > scores[0].max()
    best = changes[int(np.argmax(np.where(better, scores.mean(1), -np.inf)))] if better.any() else {}
    return {
        "measure": measure,
        "settings": merged(tuned(world, learner), best),
        "chosen": best,
        "seeds": {"trainings": [TUNING_SEEDS[i] for i in range(TRAININGS)], "runs": PLAY},
        "tried": [
            {
                "change": change,
                "scores": [float(f"{score:.6g}") for score, _ in some],
                "cpu_seconds": round(sum(x for _, x in some), 1),
            }
            for change, some in zip(changes, found, strict=True)
        ],
    }


def merged(settings: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Settings with a change, also within `arguments`."""
    inner = {"arguments": settings["arguments"] | change["arguments"]} if "arguments" in change else {}
    return settings | change | inner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="*", metavar="ENTRY", default=list(CHANGES), help="which ones (default: all)")
    parser.add_argument(
        "--workers", type=int, default=os.cpu_count(), help="trainings at a time (default: a core each)"
    )
    chosen = parser.parse_args()
    file = Path(__file__).parent / "results" / "tuning.json"
    with ProcessPoolExecutor(chosen.workers) as pool:
        for entry in chosen.entries:
            found = compare(entry, pool)
            kept = json.loads(file.read_text(encoding="utf-8"))["entries"] if file.is_file() else {}
            budget = {"trainings": TRAININGS, "runs": FRESH, "settings": len(found["tried"])} | SHORTER.get(entry, {})
            command = f"python benchmarks/tune.py {entry}"
            kept[entry] = {"command": command, "budget": budget, **found}
            record("tuning", {"entries": kept}, ("taciturn", "numpy", "torch", "stable-baselines3"))
            print(f"{entry}: {json.dumps(found['chosen']) if found['chosen'] else 'no change'}", flush=True)
            for one in found["tried"]:
                print(
                    f"  {json.dumps(one['change'])}: {found['measure']} {one['scores']}, {one['cpu_seconds']} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
