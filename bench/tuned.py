"""Settings of agents found by a search on training streams, by task and budget (`python tools tune`)."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from taciturn.bench.tasks import BENCHMARKS, NO_BUDGET_LIMIT, STANDARD, Task
from taciturn.bench.tasks.benchmark import TUNED, Params

FILE = "tuned.json"


@cache
def _stored() -> dict[str, dict[str, Params]]:
    result: dict[str, dict[str, Params]] = json.loads((files("taciturn.bench") / FILE).read_text(encoding="utf-8"))
    return result


def tuned(task: Task, policy: str) -> Params:
    """The settings of a policy for tasks of this size and budget; else those for the standard size, or without a
    budget; none if nothing was searched."""
    stored = _stored()
    for size in dict.fromkeys((task.size, STANDARD)):
        for budget in dict.fromkeys((task.budget, NO_BUDGET_LIMIT)):
            result = stored.get(task._replace(name=size, budget=budget).id, {})
            if policy in result:
                return dict(result[policy])
    return {}


def settings(task: Task, policy: str, own: Any) -> Params:
    """The parameters of an entry in a task: its own, or those found by the search."""
    return tuned(task, policy) if own == TUNED else dict(own)


def usual(task: Task, policy: str) -> Params:
    """The settings with which the benchmark plays a policy: the searched ones, unless it also plays the policy with its
    defaults, as it does the papers' algorithms."""
    benchmark = BENCHMARKS[task.env]
    entries = [own for name, own in (*benchmark.classic, *benchmark.paper, *benchmark.designed) if name == policy]
    return tuned(task, policy) if TUNED in entries and {} not in entries else {}
