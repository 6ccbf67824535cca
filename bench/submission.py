"""Results of a study as one JSON file, with their origin: to store, to send to others, and to merge with theirs."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taciturn.bench.results import RUNS, Group, Results, canonical
from taciturn.bench.store import Manifest, Store, StoreError, has_shape
from taciturn.bench.study import Study
from taciturn.files import content
from taciturn.validation import shown

ORIGIN = ("command", "commit", "taciturn", "python", "libraries", "platform", "finished")
"""The origin in each file; later versions add the processor and the version of the streams of random numbers (1 if
missing)."""
NUMBERS = [(int, float)]
LISTS = (RUNS, "origins")
"""The lists of a configuration that only some files have: an entry for each seed."""
SHAPE: Any = {
    "study": str,
    "origin": dict.fromkeys(ORIGIN, object),
    "groups": [{"config": dict, "seeds": [int], "metrics": {str: NUMBERS}, "wall_seconds": NUMBERS}],
}
KEPT_DIGITS = 6
"""Significant digits of the scores of single runs, and of the metrics that earlier versions stored."""
MOST_BYTES, LONGEST_TEXT, DEEPEST = 10**8, 10**4, 20


class Submission(NamedTuple):
    """The results of a study in a file or a folder."""

    study: str
    origin: dict[str, Any]
    results: Results

    @property
    def origins(self) -> list[dict[str, Any]]:
        """The origin of the last command, and of earlier ones that made some of the cells."""
        last = {name: value for name, value in self.origin.items() if name != "others"}
        return [last, *self.origin.get("others", [])]


def of_folder(folder: Path, study: Study) -> Submission:
    """The finished cells of a study in a results folder. Raises StoreError if it holds none."""
    store = Store(folder)
    manifest, results = store.manifest(), store.results(study.name)
    if not len(results):
        raise StoreError(f"{folder} holds no finished cell of the study {study.name}")
    hours = sum(group.wall_seconds.sum() for group in results) / 3600
    origin = origin_of(manifest) | {"core_hours": round(float(hours), 3)}
    try:
        check_text([origin, *(group.config for group in results)])
    except ValueError as error:
        raise StoreError(f"{folder} holds a file that taciturn has not written: {error}") from error
    return Submission(study.name, origin, results)


def origin_of(manifest: Manifest) -> dict[str, Any]:
    """Command, commit, versions and machine; the command has no output folder, and the program's name has no path."""
    command = "taciturn " + re.sub(r" --out[= ]\S+", "", manifest["command"]).partition(" ")[2]
    recorded = (*ORIGIN, *({"processor", "streams"} & manifest.keys()))
    return {name: manifest[name] for name in recorded} | {"command": command}


def packed(found: Submission) -> str:
    """The text of the file: a line for each configuration; no curves are included except single runs, rounded to
    `KEPT_DIGITS`."""
    groups = [
        {
            "config": group.config,
            "seeds": group.seeds.tolist(),
            "metrics": {name: values.tolist() for name, values in group.metrics.items()},
            "wall_seconds": [round(float(x), 2) for x in group.wall_seconds],
        }
        | ({RUNS: [rounded(scores) for _, scores in group.curves[RUNS]]} if RUNS in group.curves else {})
        | ({} if group.origins is None else {"origins": group.origins.tolist()})
        for group in found.results
    ]
    parts = {
        "study": json.dumps(found.study),
        "origin": json.dumps(found.origin),
        "groups": listed(groups),
    }
    return "{" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "}\n"


def unpacked(file: Path) -> Submission:
    """Read the output of `packed`. Raises StoreError if the file cannot be read or is not a submission."""
    try:
        stored = json.loads(content(file, MOST_BYTES), object_pairs_hook=distinct)
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{file} cannot be read: {error}") from error
    whole = has_shape(stored, SHAPE) and has_shape(stored["origin"].get("others", []), [{}])
    if not whole or not all(is_whole(one) for one in stored["groups"]):
        raise StoreError(f"{file} is no submission: `taciturn submit` writes them")
    try:
        check_text(stored)
        results = Results(map(unpacked_group, stored["groups"]))
    except (TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"{file} is no submission: {error}") from error
    found = Submission(stored["study"], stored["origin"], results)
    if any(one.origins is not None and one.origins.max() >= len(found.origins) for one in results):
        raise StoreError(f"{file} is no submission: it lists {len(found.origins)} origins, and a cell has another")
    return found


def distinct(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError if it has a name twice."""
    results = dict(entries)
    if len(results) < len(entries):
        names = [name for name, _ in entries]
        raise ValueError(f"it has an entry twice: {shown(next(name for name in names if names.count(name) > 1))}")
    return results


def check_text(value: Any) -> None:
    """Raise ValueError if a JSON value has unprintable or very long text, or is nested very deeply."""
    left = [(value, 0)]
    while left:
        one, depth = left.pop()
        if depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} levels")
        if isinstance(one, str) and not (one.isprintable() and len(one) <= LONGEST_TEXT):
            raise ValueError(f"text must be of up to {LONGEST_TEXT:,} printable characters, not {shown(one)}")
        if isinstance(one, dict):
            left += [(name, depth) for name in one]
        if isinstance(one, dict | list):
            left += [(inner, depth + 1) for inner in (one.values() if isinstance(one, dict) else one)]


def unpacked_group(one: dict[str, Any]) -> Group:
    """A configuration; ValueError if its numbers cannot result from runs."""
    canonical(one["config"])
    seeds, runs = one["seeds"], one.get(RUNS, [])
    if not seeds or any(seed < 0 or seed >= 2**63 for seed in seeds) or seeds != sorted(set(seeds)):
        raise ValueError(
            f"seeds must be distinct whole numbers from 0 to 2**63 - 1 in increasing order, not {shown(seeds)}"
        )
    if len({len(scores) for scores in runs}) > 1 or [] in runs:
        raise ValueError("runs must be equally many of each seed, at least one")
    seconds = np.array(one["wall_seconds"], np.float64)
    if not (np.isfinite(seconds) & (seconds >= 0)).all():
        raise ValueError(f"wall_seconds must be finite numbers >= 0, not {shown(one['wall_seconds'])}")
    return Group(
        config=one["config"],
        seeds=np.array(seeds),
        metrics={name: np.array(values, np.float64) for name, values in one["metrics"].items()},
        curves={RUNS: [(np.arange(len(scores), dtype=float), np.array(scores, np.float64)) for scores in runs]}
        if runs
        else {},
        wall_seconds=seconds,
        origins=np.array(one["origins"]) if "origins" in one else None,
    )


def merged(found: Iterable[Submission]) -> Results:
    """All results together; if several have the same configuration and seed, the first counts."""
    groups: dict[str, Group] = {}
    for one in found:
        for group in one.results:
            key = json.dumps(group.config, sort_keys=True)
            groups[key] = joined(groups[key], group) if key in groups else group
    return Results(groups.values())


def joined(one: Group, other: Group) -> Group:
    """The cells of a group, plus the missing seeds from another group with the same configuration, in increasing order
    of seed."""
    new = other.at(np.flatnonzero(~np.isin(other.seeds, one.seeds)))
    if not new.seeds.size:
        return one
    whole = Group(
        config=one.config,
        seeds=np.concatenate([one.seeds, new.seeds]),
        metrics={
            name: np.concatenate([values, new.metrics[name]])
            for name, values in one.metrics.items()
            if name in new.metrics
        },
        curves={name: one.curves[name] + new.curves[name] for name in one.curves if name in new.curves},
        wall_seconds=np.concatenate([one.wall_seconds, new.wall_seconds]),
        origins=None if one.origins is None or new.origins is None else np.concatenate([one.origins, new.origins]),
    )
    return whole.at(np.argsort(whole.seeds, kind="stable"))


def is_whole(group: dict[str, Any]) -> bool:
    """Whether every list of a configuration is as long as its seeds, and no origin is negative."""
    columns = [*group["metrics"].values(), group["wall_seconds"], *(group[name] for name in LISTS if name in group)]
    origins = group.get("origins", [])
    shapes = has_shape(group.get(RUNS, []), [NUMBERS]) and has_shape(origins, [int])
    return shapes and all(len(one) == len(group["seeds"]) for one in columns) and all(one >= 0 for one in origins)


def listed(entries: Iterable[Any]) -> str:
    """A JSON array with one entry per line."""
    return "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"


def rounded(values: Iterable[float]) -> list[float]:
    """`KEPT_DIGITS` significant digits."""
    return [float(f"{x:.{KEPT_DIGITS}g}") for x in values]
