"""The verdicts on the papers' claims, from full results: python benchmarks/paper_verdicts.py FOLDER ...

Each FOLDER is the `--out` of a finished `taciturn reproduce`. Writes `results/verdicts/<study>.json`, compact, with the command,
versions, commit
and hours; and `docs/verdicts.md`, which is made from these files alone.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import taciturn.bench.tables as text
from taciturn.bench.catalogue import load_studies
from taciturn.bench.papers.claims import Claim, NotRunError
from taciturn.bench.results import Results
from taciturn.bench.statistics import Estimate
from taciturn.bench.store import Store

__all__ = ["RESULTS", "claims_of", "page", "row"]

RESULTS = Path(__file__).parent / "results" / "verdicts"
PAGE = Path(__file__).parent.parent / "docs" / "verdicts.md"


def claims_of(study: str) -> tuple[Claim, ...]:
    """The claims that a study judges."""
    return tuple(getattr(load_studies()[study], "claims", ()))


def row(claim: Claim, results: Results) -> dict[str, Any]:
    """A claim, its numbers with their intervals, and the verdict."""
    try:
        numbers = None if claim.measure is None else claim.estimates(claim.measure(results))
    except NotRunError:
        numbers = None
    found = claim.verdict(results)
    return {
        "claim": found.quantity, "paper": found.paper, "verdict": found.verdict, "reason": found.reason,
        "numbers": numbers and [[float(f"{x:.6g}") for x in one] for one in numbers],
    }  # fmt: skip


def store(folder: str) -> None:
    """Write the verdicts of each study in a folder of results."""
    found = Store(folder)
    manifest = found.manifest()
    if manifest["quick"] or not manifest["finished"]:
        raise SystemExit(f"{folder} holds quick or unfinished results")
    # Without the folder that the results went to, and whatever started the program.
    command = "taciturn " + re.sub(r" --out \S+", "", manifest["command"]).split(" ", 1)[1]
    kept = ("commit", "taciturn", "python", "libraries", "started", "seeds")
    for name in manifest["studies"]:
        results = found.results(name)
        about = {"command": command} | {key: manifest.get(key) for key in kept} | {"seeds": manifest["seeds"][name]}
        about |= {"hours": round(sum(float(group.wall_seconds.sum()) for group in results) / 3600, 3)}
        rows = [row(claim, results) for claim in claims_of(name)]
        RESULTS.mkdir(parents=True, exist_ok=True)
        lines = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in rows)
        head = json.dumps(about, ensure_ascii=False)[:-1]
        (RESULTS / f"{name}.json").write_text(f'{head}, "verdicts": [\n  {lines}\n]}}\n', encoding="utf-8")


def page() -> str:
    """Markdown."""
    studies = load_studies()
    parts = [
        "# Verdicts\n\nThe papers' claims beside what full runs of `taciturn reproduce` gave, with 95% intervals over seeds; "
        "{doc}`command_line` says what a verdict means. This page is made by `benchmarks/paper_verdicts.py` from "
        "`benchmarks/results/verdicts/`. Studies that are not here have not been run in full with this version."
    ]
    for file in sorted(RESULTS.glob("*.json")):
        about = json.loads(file.read_text(encoding="utf-8"))
        claims, versions = claims_of(file.stem), ", ".join(f"{k} {v}" for k, v in about["libraries"].items())
        counts = Counter(one["verdict"] for one in about["verdicts"])
        parts.append(
            f"## {studies[file.stem].title}\n\n`{about['command']}`: commit {about['commit'][:10]}, Python {about['python']}, {versions}; "
            f"{text.ranges(about['seeds'])} as seeds, {about['hours']:.2f} core-hours. "
            + ", ".join(f"{verdict}: {n}" for verdict, n in counts.most_common())
            + ".\n"
        )
        parts[-1] += "\n| claim | paper | ours | verdict |\n| --- | --- | --- | --- |\n" + "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells(claim, one)) + " |"
            for claim, one in zip(claims, about["verdicts"], strict=True)
        )
    return "\n\n".join(parts) + "\n"


def cells(claim: Claim, one: dict[str, Any]) -> tuple[str, ...]:
    """A row of the page."""
    numbers = [Estimate(*x) for x in one["numbers"] or ()]
    ours = "; ".join(
        f"{label}: {text.number(x.value)}".removeprefix(": ") + (f" {text.interval(x[1:])}" if x.low < x.high else "")
        for label, x in zip(claim.labels, numbers, strict=bool(numbers))
    )
    paper = one["paper"] if isinstance(one["paper"], str) else text.number(one["paper"])
    return one["claim"], paper, ours or "–", one["verdict"]


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        store(folder)
    PAGE.write_text(page(), encoding="utf-8")
