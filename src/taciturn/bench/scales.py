"""The scale on which a task is scored: random play has 0, and the best designed agent has 1."""

import json
from importlib.resources import files
from typing import Any, NamedTuple

from taciturn.bench.comparisons.kinds import KindsOfAgents, named
from taciturn.bench.results import Results
from taciturn.bench.scores import RANDOM, beats, best_of, designed_best
from taciturn.bench.tasks import Task, tasks_of
from taciturn.validation import Floats

FILE = "scales.json"


class Scale(NamedTuple):
    """Two means of a task's measure, from the full runs of the study `agents` that this version keeps.

    Attributes:
        random: that of random play.
        designed: that of `policy`, the designed agent that is best in the standard task of the world.
        policy: its name.
    """

    random: float
    designed: float
    policy: str

    def score(self, measured: Floats) -> Floats:
        """Values of the measure on the scale; more is better, and 1 is no upper bound."""
        return (measured - self.random) / (self.designed - self.random)

    def __str__(self) -> str:
        return f"0: random play ({self.random:.4g}), 1: {self.policy} ({self.designed:.4g})"


def summary(results: Results) -> str:
    """The text of the file, from results of the study `agents`; tasks in which no designed agent beats random play are
    left out."""
    found: dict[str, Any] = {}
    for env, panel in KindsOfAgents().by_world(results):
        designed = designed_best(panel, tasks_of(env)[0].measure)
        for task in tasks_of(env):
            chance = best_of(
                (group for group in panel.select(kind=RANDOM) if task.metric in group.metrics), task.metric
            )
            if chance and designed and task.metric in designed.metrics and beats(designed, chance, task.metric):
                random, best = (float(f"{group.mean(task.metric):.6g}") for group in (chance, designed))
                found[task.id] = Scale(random, best, named(designed, panel))._asdict()
    return json.dumps(found, indent=1) + "\n"


def scale_of(task: Task) -> Scale | None:
    """The scale of a task; None if it has none."""
    kept = json.loads((files("taciturn.bench") / FILE).read_text(encoding="utf-8"))
    return Scale(**kept[task.id]) if task.id in kept else None
