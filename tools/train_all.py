"""Train the agents that come with the package: every standard task, twenty seeds, and go on where it was stopped.

`python tools train_all [TASK ...] [--seeds N] [--judge RUNS] [--out FOLDER]`

Each training goes to a folder of its own under FOLDER, as `taciturn train TASK --seed SEED --out FOLDER/NAME` makes it
(`--resume` if it is begun), and its agent to `policies/learned/pretrained/NAME.json`, from which
`--policy pretrained:NAME` plays it. A training that has ended is left as it is. With `--judge`, each agent plays so
many runs of its task in streams of evaluation, on the same instances as the best designed agent, and what came out goes
to `results/trainings.json`: the scores, the difference with its interval, steps, CPU seconds and the command.

A training takes one core for as long as `MINUTES` says; all twenty of all tasks take about 20 hours of one core.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.comparisons.playing import first_within, played, ready, task_config
from taciturn.bench.references import scale_of
from taciturn.bench.tasks import BENCHMARKS, TASKS, Task
from taciturn.bench.tuned import usual
from taciturn.validation import Floats

MINUTES: dict[str, float] = {
    "taciturn/GossipBandit-v0/standard": 4, "taciturn/GossipBandit-v0/standard@3": 8,
    "taciturn/SocialBandit-v0/standard": 8, "taciturn/SocialBandit-v0/standard@3": 8,
    "taciturn/FederatedBandit-v0/standard": 10, "taciturn/FederatedBandit-v0/standard@3": 10,
    "taciturn/ArmElimination-v0/standard": 10, "taciturn/RoundStopping-v0/standard": 2,
    "taciturn/Elicitation-v0/standard": 1,
}  # fmt: skip
"""CPU minutes of a training of each task."""
FOLDER = Path(__file__).parent
STORED, RESULTS = FOLDER.parent / "policies/learned/pretrained", FOLDER / "results/trainings.json"
BLOCK = 250
"""Runs that are played at once."""


def name_of(task: str, seed: int) -> str:
    """`gossip-standard-at-3-0` for GossipBandit-v0/standard@3 and seed 0."""
    world, _, variant = task.removeprefix("taciturn/").partition("-v0/")
    short = world.removesuffix("Bandit").lower()
    return f"{short}-{variant.replace('@', '-at-')}-{seed}"


def train(task: str, seed: int, folder: Path) -> None:
    """Train an agent, or go on with its training, and copy it into the package."""
    command = "from taciturn.cli import main; import sys; sys.exit(main())"
    words = [task, "--seconds", str(60 * MINUTES[task]), "--seed", str(seed), "--out", str(folder)]
    more = ["--resume"] if (folder / "manifest.json").exists() else []
    subprocess.run([sys.executable, "-c", command, "train", *words, *more], check=True)
    STORED.mkdir(exist_ok=True)
    (STORED / f"{folder.name}.json").write_bytes((folder / "agent.json").read_bytes())


def runs_of(task: Task, name: str, runs: int, seed: int) -> Floats:
    """What runs of an agent measure, in streams of evaluation."""
    own, form = usual(task, name), {}
    if name.startswith("pretrained:"):
        form = dict(BENCHMARKS[task.env].for_learners)
    agent, config = bring(name, **own), task_config(task, name, **form)
    configurations, result = ready(task, agent, config, seed), []
    for first in range(seed, seed + runs, BLOCK):
        size = min(BLOCK, seed + runs - first)
        one = (
            first_within(task, agent, config, size, first, configurations)[0]
            if configurations
            else played(task, agent, config, size, first)
        )
        result.append(one.metrics[task.measure])
    return np.concatenate(result)


def judge(task: str, name: str, runs: int) -> dict[str, Any]:
    """The score of a stored agent, and how it differs from that of the best designed agent on the same instances."""
    known, scale = TASKS[task], scale_of(TASKS[task])
    rivals = [entry[0] for entry in BENCHMARKS[known.env].designed]
    assert scale is not None
    mine = runs_of(known, f"pretrained:{name}", runs, 0)
    others = {rival: runs_of(known, rival, runs, 0) for rival in rivals}
    best = max(others, key=lambda rival: float(scale.score(others[rival].mean())))
    gain = scale.score(mine) - scale.score(others[best])
    return {
        "task": task, "agent": name, "runs": runs, "score": [*scale.apart(statistics.mean(mine))],
        "designed": best, "designed score": [*scale.apart(statistics.mean(others[best]))],
        "gain": [*statistics.mean(gain)], "median": float(np.median(mine)),
    }  # fmt: skip


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tools train_all")
    parser.add_argument("tasks", nargs="*", default=[*MINUTES], metavar="TASK")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--judge", type=int, default=0, metavar="RUNS")
    parser.add_argument("--out", type=Path, default=Path("trained"))
    given = parser.parse_args(arguments)
    hours = given.seeds * sum(MINUTES[task] for task in given.tasks) / 60
    print(f"{given.seeds} trainings of {len(given.tasks)} tasks: about {hours:.1f} hours of one core", flush=True)
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in range(given.seeds):  # a training of every task, before another of any
        for task in given.tasks:
            name, start = name_of(task, seed), time.process_time()
            train(task, seed, given.out / name)
            if given.judge and results.get(name, {}).get("runs") != given.judge:
                results[name] = judge(task, name, given.judge)
                RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
                print(f"{name}: {results[name]} ({time.process_time() - start:.0f} s)", flush=True)
