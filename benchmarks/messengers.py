"""Messengers that learn, at a total of 3: `python benchmarks/messengers.py search|train|judge|table [WORLD ...]`.

`search` trains each learner once for each of its `SETTINGS`, with a seed that no study may have, and judges what it has
learned by runs of its own; the best setting stands in `CHOSEN`. `train` trains it `TRAININGS` times with that setting,
in streams of training, and writes the weights to `policies/learned/kept.json`, from which `--policy kept:NAME` plays
them. `judge` plays each of them in `RUNS` runs of the task, in streams of evaluation, beside the mark `alone` and the
best designed agent, with the same seeds. `table` prints what came out. Results go to
`benchmarks/results/messengers.json`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import record

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.comparisons.playing import judged, population, task_config
from taciturn.bench.levels import own_way
from taciturn.bench.results import TUNING_SEEDS
from taciturn.bench.tasks import CONTESTS, TASKS, Task
from taciturn.bench.tuned import usual
from taciturn.policies import Policy

TRAININGS, RUNS, CHECKED = 10, 100, 400
FOLDER = Path(__file__).parent
KEPT = FOLDER.parent / "policies" / "learned" / "kept.json"
RESULTS = FOLDER / "results" / "messengers.json"


class Training(NamedTuple):
    """What is trained for a task: a learner with its budgets, the settings tried, and the best designed agent."""

    task: str
    learner: str
    searching: dict[str, int]
    budget: dict[str, int]
    settings: tuple[dict[str, Any], ...]
    designed: str


SETTINGS = {
    "gossip": Training(
        "taciturn/GossipBandit-v0/standard@3",
        "LearnedListener",
        {"generations": 16, "replicas": 100},
        {"generations": 14, "replicas": 100},
        tuple({"moment": moment} for moment in (4.0, 5.0, 6.0)),
        "Listener",
    ),
    "social": Training(
        "taciturn/SocialBandit-v0/standard@3",
        "LearnedListener",
        {"generations": 16, "replicas": 100},
        {"generations": 12, "replicas": 80},
        tuple({"moment": moment} for moment in (6.0, 9.0)),
        "Listener",
    ),
    "federated": Training(
        "taciturn/FederatedBandit-v0/standard@3",
        "LearnedPlan",
        {"generations": 12, "replicas": 40},
        {"generations": 8, "replicas": 30},
        tuple({"until": until} for until in (0.2, 0.35)),
        "DividedPlan",
    ),
}
CHOSEN: dict[str, dict[str, Any]] = {"gossip": {"moment": 6.0}, "social": {"moment": 6.0}, "federated": {"until": 0.2}}


def trained(one: Training, own: dict[str, Any], budget: dict[str, int], seed: int) -> Any:
    """The learner, trained under the total of its task."""
    task, agent = TASKS[one.task], bring(one.learner, **{**own, **budget, "seed": seed})
    world = population(task_config(task, one.learner), 1, "training")
    way = own_way(agent, world, total(task))
    assert way is not None
    world.reset(seed=seed, options={"channels": way.channels})
    return agent.train(world)


def total(task: Task) -> float:
    assert isinstance(task.total, float)
    return task.total


def measured(task: Task, agent: Policy, name: str, runs: int, seed: int, purpose: str = "evaluation") -> float:
    """The task's measure, the mean over runs."""
    config = task_config(task, name)
    way = own_way(agent, population(config, 1, purpose), total(task))
    channels = None if way is None else way.channels
    return float(judged(population(config, runs, purpose), agent, config, seed, channels)[task.measure].mean())


def search(name: str) -> list[dict[str, Any]]:
    """What each setting reached."""
    one, found = SETTINGS[name], []
    for own in one.settings:
        begin, agent = time.process_time(), trained(one, own, one.searching, TUNING_SEEDS[0])
        value = measured(TASKS[one.task], agent, one.learner, CHECKED, TUNING_SEEDS[1], "choice of settings")
        found.append(
            {"settings": own, "measure": round(value, 5), "cpu_seconds": round(time.process_time() - begin, 1)}
        )
        print(name, json.dumps(found[-1]), flush=True)
    return found


def train(name: str) -> list[dict[str, Any]]:
    """The trainings of a world, whose weights are kept."""
    one, found = SETTINGS[name], []
    for seed in range(TRAININGS):
        begin, agent = time.process_time(), trained(one, CHOSEN[name], one.budget, seed)
        weights = {key: float(f"{value:.6g}") for key, value in agent.weights.items()}
        kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        kept[f"{name}-{seed}"] = {
            "policy": one.learner, "task": one.task, "parameters": {**CHOSEN[name], "weights": weights}
        }  # fmt: skip
        lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(kept.items()))
        KEPT.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
        history = [float(f"{cost:.4g}") for cost in agent.history]
        found.append({"seed": seed, "cpu_seconds": round(time.process_time() - begin, 1), "history": history})
        print(name, json.dumps(found[-1]), json.dumps(weights), flush=True)
    return found


def judge(name: str) -> dict[str, Any]:
    """The measure of each training, of `alone` and of the designed agent, by seed, and their differences."""
    one = SETTINGS[name]
    task, alone = TASKS[one.task], CONTESTS[TASKS[one.task].env].alone
    assert alone is not None
    rivals = {"alone": alone.policy, "designed": one.designed}
    values: dict[str, list[float]] = {"learned": [], "alone": [], "designed": []}
    for seed in range(TRAININGS):
        values["learned"].append(measured(task, bring(f"kept:{name}-{seed}"), one.learner, RUNS, seed))
        for role, policy in rivals.items():
            values[role].append(measured(task, bring(policy, **usual(task, policy)), policy, RUNS, seed))
        print(name, seed, {role: round(found[-1], 4) for role, found in values.items()}, flush=True)
    rounded = {role: [float(f"{value:.6g}") for value in found] for role, found in values.items()}
    differences = {
        role: [float(f"{x:.4g}") for x in statistics.difference(values["learned"], values[role])] for role in rivals
    }
    print(name, differences, flush=True)
    return {"measure": task.measure, "policies": rivals, "values": rounded, "learned_minus": differences}


def tables(found: dict[str, Any]) -> tuple[str, str]:
    """The rows of the page's first table, and its second table."""
    trainings, results = [], [
        "| world | measure | alone | designed | learned | learned - alone | learned - designed |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, one in SETTINGS.items():
        world, seconds = found["worlds"][name], [each["cpu_seconds"] for each in found["worlds"][name]["train"]]
        weights = len(json.loads(KEPT.read_text(encoding="utf-8"))[f"{name}-0"]["parameters"]["weights"])
        runs = f"{one.budget['generations']} x {one.budget['replicas']}"
        trainings.append(f"| {name} | {weights} | {runs} | {np.mean(seconds):.0f} s |")
        told = world["judge"]
        means = [shown(statistics.mean(told["values"][role])) for role in ("alone", "designed", "learned")]
        means[0], means[1] = (
            f"{mean} {policy}" for mean, policy in zip(means, told["policies"].values(), strict=False)
        )
        gaps = [shown(statistics.Estimate(*told["learned_minus"][role])) for role in ("alone", "designed")]
        results.append(f"| {' | '.join([name, told['measure'], *means, *gaps])} |")
    return "\n".join(trainings), "\n".join(results)


def shown(one: statistics.Estimate) -> str:
    return f"{one.value:.3g} [{one.low:.3g}, {one.high:.3g}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=("search", "train", "judge", "table"))
    parser.add_argument("worlds", nargs="*", default=[*SETTINGS])
    given = parser.parse_args()
    # Numba looks for the package `coverage`, and would find the benchmark of that name.
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != FOLDER.resolve()]
    if given.step == "table":
        print("\n\n".join(tables(json.loads(RESULTS.read_text(encoding="utf-8")))))
        return
    steps = {"search": search, "train": train, "judge": judge}
    for name in given.worlds:
        found = steps[given.step](name)
        old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        worlds = old.get("worlds", {})
        worlds.setdefault(name, {})[given.step] = found
        record("messengers", {"worlds": worlds, "chosen": CHOSEN, "trainings": TRAININGS, "runs": RUNS})


if __name__ == "__main__":
    main()
