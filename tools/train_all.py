"""Train the agents that come with the package: every standard task, twenty seeds, and go on where it was stopped.

`python tools train_all [TASK ...] [--seeds N] [--out FOLDER]` trains, one after another on one core, the first seed of
every task before the second of any. Each training has a folder of its own under FOLDER, as `taciturn train TASK --seed
SEED` makes it; one that has ended is left as it is, and one that was stopped goes on from its last checkpoint.

`--store` trains nothing. It copies every agent whose training has ended to `policies/learned/pretrained`, from where
`--policy pretrained:NAME` plays it, and its curve to `results/trainings.csv`.
"""

import argparse
import csv
import json
import time
from pathlib import Path

from taciturn.bench.train import train
from taciturn.policies.learned.stored import FILE

TASKS = (
    "Elicitation-v0/standard", "RoundStopping-v0/standard", "FederatedBandit-v0/standard",
    "FederatedBandit-v0/standard@3", "ArmElimination-v0/standard", "GossipBandit-v0/standard",
    "SocialBandit-v0/standard", "GossipBandit-v0/standard@3", "SocialBandit-v0/standard@3",
)  # fmt: skip
FOLDER = Path(__file__).parent
STORED, CURVES = FOLDER.parent / "policies/learned/pretrained", FOLDER / "results/trainings.csv"


def name_of(task: str, seed: int) -> str:
    """`gossip-standard-at-3-0` for GossipBandit-v0/standard@3 and seed 0."""
    world, _, variant = task.removeprefix("taciturn/").partition("-v0/")
    short = world.removesuffix("Bandit").lower()
    return f"{short}-{variant.replace('@', '-at-')}-{seed}"


def ended(folder: Path) -> bool:
    """Whether the training in a folder has come to its end."""
    manifest = folder / "manifest.json"
    return manifest.exists() and json.loads(manifest.read_text())["finished"] is not None


def store(trained: Path) -> list[str]:
    """Copy the agents and the curves of the trainings that have ended; returns their names."""
    rows = list(csv.reader(CURVES.read_text().splitlines()))[1:] if CURVES.exists() else []
    names = sorted(folder.name for folder in trained.iterdir() if ended(folder))
    rows, columns = [row for row in rows if row[0] not in names], list[str]()
    for name in names:
        (STORED / f"{name}.safetensors").write_bytes((trained / name / FILE).read_bytes())
        with (trained / name / "evaluations.csv").open() as opened:
            columns, *curve = csv.reader(opened)
        rows += [[name, *row] for row in curve]
    with CURVES.open("w") as opened:
        csv.writer(opened, lineterminator="\n").writerows([["agent", *columns], *sorted(rows, key=lambda row: row[0])])
    return names


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="tools train_all", description=__doc__)
    parser.add_argument("tasks", nargs="*", default=[*TASKS], metavar="TASK")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("trained"))
    parser.add_argument("--store", action="store_true")
    given = parser.parse_args(arguments)
    if given.store:
        print(f"stored: {', '.join(store(given.out))}")
        return
    for seed in range(given.seeds):  # a training of every task, before another of any
        for task in given.tasks:
            folder, start = given.out / name_of(task, seed), time.process_time()
            if not ended(folder):
                world = f"taciturn/{task.removeprefix('taciturn/')}"
                train(world, seed=seed, out=folder, resume=(folder / "manifest.json").exists())
                *_, last = (folder / "evaluations.csv").read_text().splitlines()
                print(f"{folder.name}: {last} ({time.process_time() - start:.0f} CPU s)", flush=True)
