"""Keep the results of a full run of a study, and the page of the docs that shows them: `python benchmarks/keep.py FOLDER`.

FOLDER is what `taciturn bench STUDY --out FOLDER` or `taciturn reproduce FIGURE --out FOLDER` wrote. Each of its studies goes to
`results/studies/<study>.json`: every metric of every cell, with the command, the commit, the versions and the hours it took. Curves are
left out. `docs/<study>.md`, if there is one, gets the study's tables between its markers.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.bench.catalogue import load_studies
from taciturn.bench.results import Group, Results
from taciturn.bench.store import Store
from taciturn.bench.study import Table
from taciturn.bench.tables import tables_of

KEPT = Path(__file__).parent / "results" / "studies"
DOCS = Path(__file__).parents[1] / "docs"
ORIGIN = ("command", "commit", "taciturn", "python", "libraries", "platform", "finished")
BEGIN, END = "<!-- results: written by benchmarks/keep.py -->\n", "<!-- end of results -->\n"


def keep(folder: Path) -> list[str]:
    """Keep every study of a results folder; returns their names. Raises ValueError if the run was quick or is not finished."""
    store = Store(folder)
    manifest = store.manifest()
    if manifest["quick"] or manifest["finished"] is None:
        raise ValueError(f"{folder} must hold a finished run in full form, not a quick or unfinished one")
    for study in manifest["studies"]:
        groups = [
            {
                "config": group.config,
                "seeds": group.seeds.tolist(),
                "metrics": {name: [float(f"{x:.6g}") for x in values] for name, values in group.metrics.items()},
                "wall_seconds": [round(float(x), 2) for x in group.wall_seconds],
            }
            for group in store.results(study)
        ]
        hours = sum(sum(group["wall_seconds"]) for group in groups) / 3600
        origin = {name: manifest[name] for name in ORIGIN} | {"core_hours": round(hours, 3)}
        origin["command"] = re.sub(r"--out[= ]\S+", "--out FOLDER", origin["command"])
        KEPT.mkdir(exist_ok=True)
        (KEPT / f"{study}.json").write_text(json.dumps({"origin": origin, "groups": groups}) + "\n", encoding="utf-8")
        page = DOCS / f"{study}.md"
        if page.exists():
            page.write_text(filled(page.read_text(encoding="utf-8"), study), encoding="utf-8")
    return list(manifest["studies"])


def load(study: str) -> tuple[dict[str, Any], Results]:
    """The origin of a kept study, and its results."""
    kept = json.loads((KEPT / f"{study}.json").read_text(encoding="utf-8"))
    return kept["origin"], Results(
        Group(
            config=one["config"],
            seeds=np.array(one["seeds"]),
            metrics={name: np.array(values, np.float64) for name, values in one["metrics"].items()},
            curves={},
            wall_seconds=np.array(one["wall_seconds"], np.float64),
        )
        for one in kept["groups"]
    )


def filled(page: str, study: str) -> str:
    """A page with the study's tables between its markers."""
    origin, results = load(study)
    libraries = ", ".join(f"{name} {version}" for name, version in origin["libraries"].items())
    source = (
        f"`{origin['command']}` at commit {origin['commit'][:12]} took {origin['core_hours']:.2g} core hours with Python "
        f"{origin['python']} and {libraries}."
    )
    tables = "\n".join(markdown(table) for table in tables_of(load_studies()[study], results))
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}{tables}\n{source}\n{END}", page, flags=re.DOTALL)


def markdown(table: Table) -> str:
    """A table with its title and note."""
    align = ["---" if i in table.words else "---:" for i in range(len(table.columns))]
    lines = [table.columns, align, *table.rows]
    rows = "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
    return f"**{table.title}**\n\n{rows}\n\n{table.note}\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/keep.py FOLDER")
    try:
        print("kept:", ", ".join(keep(Path(sys.argv[1]))))
    except ValueError as error:
        sys.exit(str(error))
