"""The scale of scores in a task: 0 for the best policy without communication (`no_communication`), and 1 for the best
policy that gets the observations of all agents, without privacy (`full_information`)."""

import json
import math
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.tasks import (
    BENCHMARKS,
    FULL_INFORMATION,
    NO_COMMUNICATION,
    REFERENCES,
    STANDARD,
    TASKS,
    Task,
    budgets_of,
    sign,
)
from taciturn.bench.tasks.benchmark import Reference as Spec
from taciturn.validation import Array

FILE = "references.json"


class Reference(NamedTuple):
    """A policy at one end of a scale, and the means of a task's measure in its runs, by seed."""

    policy: str
    params: dict[str, Any]
    values: list[float]

    @property
    def estimate(self) -> Estimate:
        """The mean, with its 95% interval over seeds."""
        return statistics.mean(self.values)


class Scale(NamedTuple):
    """The references of a task, from the stored full runs of the study `agents`."""

    no_communication: Reference
    full_information: Reference

    def score(self, measured: Floats) -> Floats:
        """Values of the measure on the scale; more is better, and 1 is no strict upper bound."""
        low, high = self.no_communication.estimate.value, self.full_information.estimate.value
        return (measured - low) / (high - low)

    def paired(self, values: Floats, seeds: Array) -> Estimate:
        """The score of means by seed, with an interval that includes the references' uncertainty: with the same seed
        the agent and both references meet the same instances."""
        known = [int(seed) for seed in seeds if 0 <= seed < len(self.no_communication.values)]
        if len(known) < len(seeds):
            return self.apart(statistics.mean(values))
        low, high = (np.array(reference.values)[known] for reference in self)
        return statistics.share(values - low, high - low)

    def apart(self, measured: Estimate) -> Estimate:
        """The score of an estimate with errors assumed independent of the references'."""
        no_communication, full_information = self.no_communication.estimate, self.full_information.estimate
        gap = full_information.value - no_communication.value
        score = (measured.value - no_communication.value) / gap
        # Change of the score when an estimate moves to either of its bounds.
        parts = zip((measured, no_communication, full_information), (1.0, score - 1, -score), strict=True)
        moves = [sorted(weight * (end - one.value) / gap for end in one[1:]) for one, weight in parts]
        down, up = (math.sqrt(sum(move[side] ** 2 for move in moves)) for side in (0, 1))
        return Estimate(score, score - down, score + up)

    def __str__(self) -> str:
        ends = (f"{reference.policy} ({reference.estimate.value:.4g})" for reference in self)
        return "0 = {} without communication, 1 = {} with all agents' data".format(*ends)

    def as_json(self) -> dict[str, Any]:
        """Both references as JSON values."""
        return {
            name.replace(" ", "_"): {"policy": reference.policy, "params": reference.params}
            | dict(zip(("mean", "low", "high"), map(rounded, reference.estimate), strict=True))
            for name, reference in zip((NO_COMMUNICATION, FULL_INFORMATION), self, strict=True)
        }


def described(task: Task) -> dict[str, Any]:
    """A task as JSON values: its measure, its references (null if it has none), and its definition."""
    scale = scale_of(task)
    references = dict.fromkeys(("no_communication", "full_information")) if scale is None else scale.as_json()
    return {
        "id": task.id,
        "what": task.variant.what,
        "measure": task.measure,
        "better": "higher" if sign(task.measure) > 0 else "lower",
        **references,
        "control": task.control,
        "params": plain(task.params),
        "faults": {channel: repr(fault) for channel, fault in task.variant.faults.items()},
        "strangers": dict(task.variant.strangers),
        "budget": task.budget,
        "budgets": list(budgets_of(task.env)),
    }


def plain(value: Any) -> Any:
    """A value as JSON, with `repr` for values that JSON lacks."""
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def rounded(value: float) -> float | None:
    """Six digits; None for NaN and infinity."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def reference_of(groups: Iterable[Group], metrics: Iterable[str]) -> Reference | None:
    """The reference for the first of these measures that a group has."""
    some = list(groups)
    for metric in metrics:
        for one in some:
            if metric in one.metrics:
                return Reference(one.config["policy"], one.config["policy_params"], one.metrics[metric].tolist())
    return None


def reference_for(task: Task, kind: str) -> Spec | None:
    """The reference policy for this end of a task's scale: the variant's own, or the environment's."""
    name = kind.replace(" ", "_")
    result: Spec | None = getattr(task.variant, name) or getattr(BENCHMARKS[task.env], name)
    return result


def same_runs(task: Task, kind: str) -> list[str]:
    """The name of a task in which a reference has the same runs, so they need not be played again: faults do not affect
    a reference that ignores messages, nor does the size of the population affect an agent that acts alone. Empty if
    there is none."""
    reference, variant = reference_for(task, kind), task.variant
    if reference is None or getattr(variant, kind.replace(" ", "_")) is not None:
        return []
    if variant.faults:
        return [task.size]
    return [STANDARD] if variant.params and variant.params.keys() <= reference.world.keys() else []


def scales_in(results: Results) -> dict[str, Scale]:
    """The scales of the tasks with played references, by the tasks' ids without a budget."""
    found: dict[str, Scale] = {}
    for task in TASKS.values():
        if task.plain in found:
            continue
        references = [
            reference_of(
                results.select(env=task.env, kind=kind),
                [task.metric, *(task._replace(name=name).metric for name in same_runs(task, kind))],
            )
            for kind in REFERENCES
        ]
        if references[0] is not None and references[1] is not None:
            found[task.plain] = Scale(references[0], references[1])
    return found


def summary(results: Results) -> str:
    """The text of `FILE`, from results of the study `agents`."""
    found = {
        plain: {
            name: reference._asdict() | {"values": [float(f"{x:.6g}") for x in reference.values]}
            for name, reference in zip((NO_COMMUNICATION, FULL_INFORMATION), scale, strict=True)
        }
        for plain, scale in scales_in(results).items()
    }
    return json.dumps(found, indent=1) + "\n"


@cache
def _stored() -> dict[str, Scale]:
    stored = json.loads((files("taciturn.bench") / FILE).read_text(encoding="utf-8"))
    return {
        plain: Scale(*(Reference(**one[name]) for name in (NO_COMMUNICATION, FULL_INFORMATION)))
        for plain, one in stored.items()
    }


def forget() -> None:
    """Clear the cache, so the file is read again."""
    _stored.cache_clear()


def scale_of(task: Task) -> Scale | None:
    """The scale of a task, the same under all budgets; None if it has none."""
    return _stored().get(task.plain)
