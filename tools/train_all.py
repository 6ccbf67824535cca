"""Train the agents that come with the package: every standard task, twenty seeds, and go on where it was stopped.

`python tools train_all [TASK ...] [--seeds N] [--out FOLDER]` trains, one after another on one core, the first seed of
every task before the second of any. Each training has a folder of its own under FOLDER, as `taciturn train TASK --seed
SEED` makes it; one that has ended is left as it is, and one that was stopped goes on from its last checkpoint.

`--store` copies every agent whose training has ended to `policies/learned/pretrained`, from where `--policy
pretrained:NAME` plays it, and its curve to `results/trainings.csv`.

`--judge RUNS` plays all stored agents, and their rivals, in the same RUNS runs of evaluation (times `MORE`). What came
out goes to `results/trainings.json`, and from there to the table and the figure of `docs/learning.md`.
"""

import argparse
import csv
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.bench import figures, statistics
from taciturn.bench.comparisons.kinds import reference_config
from taciturn.bench.comparisons.playing import first_within, played, ready, task_config
from taciturn.bench.references import Scale, scale_of
from taciturn.bench.statistics import Estimate
from taciturn.bench.tasks import BENCHMARKS, NO_BUDGET_LIMIT, NO_COMMUNICATION, TASKS, Task, sign
from taciturn.bench.tasks.benchmark import PRETRAINED, TUNED
from taciturn.bench.train import train
from taciturn.bench.tuned import settings, usual
from taciturn.policies.learned.stored import FILE, pretrained_agents
from taciturn.validation import Floats

TRAINED = (
    "Elicitation-v0/standard", "RoundStopping-v0/standard", "FederatedBandit-v0/standard",
    "FederatedBandit-v0/standard@3", "ArmElimination-v0/standard", "GossipBandit-v0/standard",
    "SocialBandit-v0/standard", "GossipBandit-v0/standard@3", "SocialBandit-v0/standard@3",
)  # fmt: skip
UNTRAINED = {"GossipBandit-v0/crowd": TRAINED[5], "SocialBandit-v0/crowd": TRAINED[6]}
"""Tasks that the agents of another task play."""
MORE = {"FederatedBandit-v0/standard": 5, "FederatedBandit-v0/standard@3": 5, "ArmElimination-v0/standard": 5,
        "GossipBandit-v0/standard@3": 2, "GossipBandit-v0/crowd": 0.2, "SocialBandit-v0/crowd": 0.2}  # fmt: skip
"""How many times the runs, where rare ones decide, or each is dear."""
HERE = Path(__file__).parent
PRETRAINED_FOLDER, CURVES = HERE.parent / "policies/learned/pretrained", HERE / "results/trainings.csv"
RESULTS, PAGE, FIGURE = (
    HERE / "results/trainings.json", HERE.parent / "docs/learning.md", HERE.parent / "docs/_static/learning.png"
)  # fmt: skip
BEGIN, END = "<!-- trainings: written by tools/train_all.py -->\n", "<!-- end of trainings -->\n"
BLOCK = 250
"""Runs that are played at once."""


def name_of(task: str, seed: int) -> str:
    """`gossip-standard-at-3-0` for GossipBandit-v0/standard@3 and seed 0."""
    world, _, variant = task.removeprefix("taciturn/").partition("-v0/")
    short = world.removesuffix("Bandit").lower()
    return f"{short}-{variant.replace('@', '-at-')}-{seed}"


def ended(folder: Path) -> bool:
    """Whether the training in a folder has come to its end."""
    manifest = folder / "manifest.json"
    return manifest.exists() and json.loads(manifest.read_text())["finished"] is not None


def train_all(tasks: list[str], seeds: int, out: Path) -> None:
    """Train what has neither been stored nor been trained in `out`."""
    for seed in range(seeds):  # a training of every task, before another of any
        for task in tasks:
            folder, start = out / name_of(task, seed), time.process_time()
            if not ended(folder) and folder.name not in pretrained_agents():
                train(f"taciturn/{task}", seed=seed, out=folder, resume=(folder / "manifest.json").exists())
                *_, last = (folder / "evaluations.csv").read_text().splitlines()
                print(f"{folder.name}: {last} ({time.process_time() - start:.0f} CPU s)", flush=True)


def stored_curves() -> list[list[str]]:
    """The rows of the stored curves: agent, steps, seconds, and mean, median and worst 1% of what fresh runs cost."""
    return list(csv.reader(CURVES.read_text().splitlines()))[1:] if CURVES.exists() else []


def store(out: Path) -> list[str]:
    """Copy the agents and the curves of the trainings in `out` that have ended; returns their names."""
    names = sorted(folder.name for folder in out.iterdir() if ended(folder))
    rows, columns = [row for row in stored_curves() if row[0] not in names], list[str]()
    PRETRAINED_FOLDER.mkdir(exist_ok=True)
    for name in names:
        (PRETRAINED_FOLDER / f"{name}.safetensors").write_bytes((out / name / FILE).read_bytes())
        columns, *curve = csv.reader((out / name / "evaluations.csv").read_text().splitlines())
        rows += [[name, *row[:-1]] for row in curve]  # scores follow from the means
    with CURVES.open("w", encoding="utf-8") as opened:
        table = [["agent", *columns[:-1]], *sorted(rows, key=lambda row: row[0])]
        csv.writer(opened, lineterminator="\n").writerows(table)
    return names


# What they are worth.


def agents_of(task: str) -> list[str]:
    """The names of the stored agents that play a task."""
    wanted = f"taciturn/{UNTRAINED.get(task, task)}"
    found = {name: one["task"] + ("" if one["budget"] == "none" else f"@{one['budget']}")
             for name, one in pretrained_agents().items()}  # fmt: skip
    return sorted((name for name, own in found.items() if own == wanted), key=lambda name: int(name.rpartition("-")[2]))


def runs_of(task: Task, name: str, runs: int, own: Any = None) -> Floats:
    """What runs of an agent measure, in streams of evaluation, with settings `own` or those that the benchmark uses."""
    agent = bring(name, **(usual(task, name) if own is None else settings(task, name, own)))
    config = task_config(task, name)
    configurations = ready(task, agent, config, 0)

    def one(size: int, first: int) -> Floats:
        if configurations:
            return first_within(task, agent, config, size, first, configurations)[0].metrics[task.measure]
        return played(task, agent, config, size, first).metrics[task.measure]

    return blocks(one, runs)


def runs_without_messages(task: Task, runs: int) -> tuple[str, Floats]:
    """The best policy that uses no message, and what the same runs of it measure, which no budget changes."""
    free = TASKS[task.plain]
    reference = free.variant.no_communication or BENCHMARKS[task.env].no_communication
    assert reference is not None
    config = reference_config([free], NO_COMMUNICATION, reference, quick=False)
    agent = bring(reference.policy, **settings(free, reference.policy, reference.own))
    return reference.policy, blocks(
        lambda size, first: played(free, agent, config, size, first).metrics[task.measure], runs
    )


def blocks(one: Callable[[int, int], Floats], runs: int) -> Floats:
    """Runs [runs] of as many seeds as there are blocks of them."""
    firsts = range(0, runs, BLOCK)
    return np.concatenate([one(min(BLOCK, runs - first), first) for first in firsts])


def over_trainings(values: Floats) -> Estimate:
    """The mean of `values` [trainings, runs], with a 95% interval that allows for the choice of the runs, which all
    trainings share, and of the trainings."""
    found = statistics.mean(values.mean(0))
    if len(values) == 1:
        return found
    spread = statistics.mean(values.mean(1))
    down, up = (math.hypot(a - found.value, b - found.value) for a, b in zip(found[1:], spread[1:], strict=True))
    return Estimate(found.value, found.value - down, found.value + up)


def judge(name: str, runs: int) -> dict[str, Any]:
    """The mean measure of a task's trainings, and the paired differences with their rivals, less is better."""
    task = TASKS[f"taciturn/{name}"]
    benchmark, side = BENCHMARKS[task.env], sign(task.measure)
    mine = np.stack([runs_of(task, PRETRAINED + one, runs) for one in agents_of(name)])
    name_alone, alone = runs_without_messages(task, runs)
    rivals = {"no communication": {name_alone: alone}}
    free = task.budget == NO_BUDGET_LIMIT
    left_out = () if free or benchmark.budgets is None else benchmark.budgets.without
    entries = {"hand-designed": benchmark.designed, "published": benchmark.papers(free=free)}
    for kind, some in entries.items():
        rivals[kind] = {
            f"{one} (tuned)" if own == TUNED else one: runs_of(task, one, runs, own)
            for one, own in some
            if one not in left_out
        }
    result: dict[str, Any] = {
        "runs": runs, "agents": agents_of(name), "means": mine.mean(1).tolist(),
        "mean": [*over_trainings(mine)], "rivals": {},
    }  # fmt: skip
    for kind, played_by in rivals.items():
        if played_by:
            best = max(played_by, key=lambda one: side * played_by[one].mean())
            result["rivals"][kind] = {
                "policy": best, "mean": [*statistics.mean(played_by[best])],
                "difference": [*over_trainings(-side * (mine - played_by[best]))],
            }  # fmt: skip
    return result


def judge_all(runs: int) -> None:
    """Judge what is stored, task by task, but what has been judged."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in (*TRAINED, *UNTRAINED):
        many, agents = round(runs * MORE.get(name, 1)), agents_of(name)
        if agents and (results.get(name, {}).get("agents"), results.get(name, {}).get("runs")) != (agents, many):
            start = time.process_time()
            results[name] = judge(name, many)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
            print(f"{name}: {row(name, results[name])} ({time.process_time() - start:.0f} CPU s)", flush=True)


# The page.


def text(estimate: list[float], form: str) -> str:
    """`0.72 [0.68, 0.76]`; without brackets where there are too few trainings for an interval."""
    value, low, high = (format(x, form) for x in estimate)
    return value if math.isnan(estimate[1]) else f"{value} [{low}, {high}]"


def row(name: str, found: dict[str, Any]) -> str:
    """A task's row of the table, with scores on the scale that the benchmark has now."""
    scale = scale_of(TASKS[f"taciturn/{name}"])
    assert scale is not None
    score = scale.apart(Estimate(*found["mean"]))
    cells = [name, str(len(found["agents"])), f"{found['runs']:,}", text([*score], ".3f")]
    for kind in ("hand-designed", "published", "no communication"):
        rival = found["rivals"].get(kind)
        if rival is None:
            cells.append("–")
            continue
        _, low, high = rival["difference"]
        word = "better" if high < 0 else "worse" if low > 0 else "undecided"
        level = scale.apart(Estimate(*rival["mean"])).value
        cells.append(f"{rival['policy']} {level:.3f}: {text(rival['difference'], '.3g')}, {word}")
    return f"| {' | '.join(cells)} |"


def page(results: dict[str, Any]) -> str:
    """The page with the table of what was judged."""
    columns = "task", "trainings", "runs", "score", "best hand-designed", "best published", "no communication"
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    lines += [row(name, results[name]) for name in (*TRAINED, *UNTRAINED) if name in results]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    table = "\n".join(lines)
    return f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}"


def score_of(scale: Scale, task: Task, cost: float) -> float:
    """The score of a mean cost; where more of the measure is better, it is minus that."""
    return float(scale.score(np.array(-sign(task.measure) * cost)))


def draw() -> None:
    """Draw the curves: the scores of each training by the share of its steps."""
    rows = stored_curves()
    tasks = [name for name in TRAINED if agents_of(name) and scale_of(TASKS[f"taciturn/{name}"])]
    figure, axes = figures.panels(tasks, columns=3, width=10, height=2.3)
    for ax, name in zip(axes, tasks, strict=True):
        task = TASKS[f"taciturn/{name}"]
        scale = scale_of(task)
        assert scale is not None
        for agent in agents_of(name):
            own = [row for row in rows if row[0] == agent]
            scores = [score_of(scale, task, float(row[3])) for row in own]
            ax.plot([float(row[2]) for row in own], scores, color=figures.COLORS[0], alpha=0.5, linewidth=1)
        ax.set_ylim(-0.5, 1.15)
        ax.axhline(0, color="#888888", linewidth=0.8)
        ax.axhline(1, color="#888888", linewidth=0.8)
        ax.set_xlabel("CPU seconds")
    FIGURE.write_bytes(figures.render(figure, "png"))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tools train_all", description=__doc__)
    parser.add_argument("tasks", nargs="*", default=[*TRAINED], metavar="TASK")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("trained"))
    parser.add_argument("--store", action="store_true")
    parser.add_argument("--judge", type=int, default=0, metavar="RUNS")
    given = parser.parse_args(arguments)
    if given.store:
        print(f"stored: {', '.join(store(given.out))}")
    if given.judge:
        judge_all(given.judge)
        PAGE.write_text(page(json.loads(RESULTS.read_text())), encoding="utf-8")
        draw()
    if not given.store and not given.judge:
        train_all(given.tasks, given.seeds, given.out)
