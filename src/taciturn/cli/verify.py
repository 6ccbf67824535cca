"""`taciturn verify`."""

import secrets
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from taciturn.cli.options import Json
from taciturn.cli.output import print_json
from taciturn.registry import UnknownName

KEPT = Path(__file__).parents[3] / "benchmarks" / "results" / "studies"
PAGES = {"leaderboard": "agents", "privacy-totals": "agents"}
"""Pages of the docs that are not called like their study; `verdicts` is of all that judge a paper."""
SHOWN = 5


def verify(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="STUDY|PAGE",
            help="Studies, papers or pages of the docs with kept results: agents, chen2021, chen2021-4, leaderboard "
            "(default: all).",
        ),
    ] = None,
    cells: Annotated[int, Option(help="How many cells to draw.", min=1, max=10_000)] = 20,
    longest: Annotated[float, Option(help="Draw no cell that took more seconds than this.", min=0.0)] = 60.0,
    seed: Annotated[int | None, Option(help="Of the draw (default: a new one, which is printed).", min=0)] = None,
    kept: Annotated[Path, Option(help="Folder of the kept results.", show_default="that of this checkout")] = KEPT,
    workers: Annotated[int | None, Option(help="Processes (default: one per core).", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Run kept results again: cells drawn at random, with their own seeds and with fresh ones.

    Says how many give the same bits, how many of the fresh ones lie within the range of the kept seeds, and how many
    would if nothing had changed. Fails if a cell differs, or if too few lie within.
    """
    import numpy as np

    from taciturn.bench.catalogue import load_studies
    from taciturn.bench.verify import AS_KEPT, DIFFERENT, SAME, pool, told
    from taciturn.bench.verify import verify as run_again

    files = [file.stem for file in sorted(kept.glob("*.json"))]
    if not files:
        raise ValueError(f"kept must be a folder of kept results, benchmarks/results/studies of a clone, not {kept}")
    drawn_by = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(drawn_by)
    studies = load_studies()
    if others := [name for name in files if name not in studies]:
        raise ValueError(
            f"kept must be a folder of files STUDY.json, and {kept} has {others[0]}.json, which is of none"
        )
    papers = [name for name in files if getattr(studies[name], "claims", ())]
    wanted = dict.fromkeys(one for name in names or files for one in chosen(name, files, papers))
    found = pool([studies[name] for name in wanted], kept, longest)
    if not found.cells:
        raise ValueError(
            f"longest must leave cells of {', '.join(wanted)}, and all {found.too_long} take more than {longest:g} s"
        )
    places = rng.permutation(len(found.cells))[:cells]
    started = time.monotonic()
    checks = run_again(
        [found.cells[i] for i in sorted(places)], rng, workers=workers, progress=not as_json, backend="process"
    )
    outcome = told(checks) | {"seed": drawn_by, "seconds": round(time.monotonic() - started, 1)}
    outcome |= {"kept_cells": len(found.cells), "too_long": found.too_long, "not_in_this_version": found.unknown}
    if as_json:
        print_json(outcome)
    else:
        left = f", {found.too_long:,} take more than {longest:g} s" * bool(found.too_long)
        left += f", {found.unknown:,} are of another version" * bool(found.unknown)
        print(f"{len(checks)} of {len(found.cells):,} kept cells, drawn with seed {drawn_by}{left}")
        print(f"with the kept seeds:  {', '.join(f'{outcome[name]} {name}' for name in (SAME, AS_KEPT, DIFFERENT))}")
        print(
            f"with fresh seeds:     {outcome['fresh_inside']} of {outcome['fresh']} within the range of the kept ones; "
            f"{outcome['fresh_expected_inside']:g} are expected, fewer than {outcome['fresh_fewest']} once in 1,000"
        )
        for one in [one for one in checks if one.differing][:SHOWN]:
            name, (before, now) = next(iter(one.differing.items()))
            print(f"different: {one.drawn.cell.label}: {name} {before:.10g}, was kept; {now:.10g} here")
        libraries = ", ".join(f"{name} {version}" for name, version in outcome["libraries"].items())
        print(f"{outcome['seconds']:g} s with Python {outcome['python']}, {libraries}; {outcome['processor']}")
    if outcome[DIFFERENT] or outcome["fresh_inside"] < outcome["fresh_fewest"]:
        raise Exit(1)


def chosen(name: str, files: list[str], papers: list[str]) -> list[str]:
    """The kept studies that a name stands for: a study, a paper, or a page."""
    if name == "verdicts":
        return papers
    study = PAGES.get(name, name.removeprefix("verdicts-"))
    found = [one for one in files if study in (one, one.partition("-")[0])]
    if not found:
        raise UnknownName("study or page", name, [*files, *PAGES, "verdicts"])
    return found
