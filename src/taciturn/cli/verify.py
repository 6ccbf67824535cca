"""`taciturn verify`."""

import secrets
import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from taciturn.cli.options import Json
from taciturn.cli.output import print_json
from taciturn.registry import UnknownName

CHECKOUT = Path(__file__).parents[3]
STORED = CHECKOUT / "tools" / "results" / "studies"
KEPT_OF_PAPERS = CHECKOUT / "papers" / "results"
PAGES = {"leaderboard": "agents", "privacy-totals": "agents"}
"""Pages of the docs named unlike their study; `verdicts` stands for all studies that judge a paper."""
SHOWN = 5
TRAININGS = "trainings"


def verify(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="STUDY|PAGE",
            help="Studies, papers or pages of the docs with stored results: agents, chen2021, chen2021-4, leaderboard "
            "(default: all); or `trainings`, to train one of the pretrained agents again.",
        ),
    ] = None,
    cells: Annotated[int, Option(help="Number of cells to draw.", min=1, max=10_000)] = 20,
    longest: Annotated[float, Option(help="Leave out cells that took more seconds than this.", min=0.0)] = 60.0,
    seed: Annotated[int | None, Option(help="Seed for sampling cells (default: random, printed).", min=0)] = None,
    kept: Annotated[Path | None, Option(help="Folder of the stored results (default: this checkout's).")] = None,
    strict: Annotated[
        bool, Option("--strict", help="Exit with code 1 if a cell differs, or if too few scores lie within the range.")
    ] = False,
    workers: Annotated[int | None, Option(help="Number of processes (default: one per core).", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Re-run a random sample of the stored results, with their own seeds and with fresh ones.

    With its own seed a cell should reproduce integers exactly, and real numbers up to the study's tolerance. With
    fresh seeds, its score should lie within the range of the stored scores about as often as expected by chance. A
    difference is reported together with the processor that computed the stored numbers.
    """
    import numpy as np

    drawn_by = secrets.randbits(32) if seed is None else seed
    if names == [TRAININGS]:
        _training(longest, drawn_by, strict, as_json)
        return
    from taciturn.bench.catalogue import figures, load_studies, no_papers
    from taciturn.bench.verify import DIFFERENT, EXPECTED, apart, described_checks, pool
    from taciturn.bench.verify import verify as run_again

    files = stored_files(*((STORED, KEPT_OF_PAPERS) if kept is None else (kept,)))
    if not files:
        raise ValueError(
            f"--kept must be a folder of stored results, tools/results/studies of a clone, not {kept or STORED}"
        )
    rng = np.random.default_rng(drawn_by)
    studies = load_studies()
    if others := [name for name in files if name not in studies]:
        if not figures(studies):
            raise no_papers()
        raise ValueError(
            f"--kept must be a folder of files STUDY.json, and {files[others[0]].parent} has {others[0]}.json, but "
            "there is no such study"
        )
    papers = [name for name in files if getattr(studies[name], "claims", ())]
    wanted = dict.fromkeys(one for name in names or files for one in chosen(name, list(files), papers))
    found = pool([(studies[name], files[name]) for name in wanted], longest)
    if not found.cells:
        raise ValueError(
            f"--longest must be greater: all {found.too_long} cells of {', '.join(wanted)} take more than {longest:g} s"
        )
    places = rng.permutation(len(found.cells))[:cells]
    started = time.monotonic()
    checks = run_again(
        [found.cells[i] for i in sorted(places)], rng, workers=workers, progress=not as_json, backend="process"
    )
    outcome = described_checks(checks) | {"seed": drawn_by, "seconds": round(time.monotonic() - started, 1)}
    outcome |= {"kept_cells": len(found.cells), "too_long": found.too_long, "not_in_this_version": found.unknown}
    if as_json:
        print_json(outcome)
    else:
        left = f", {found.too_long:,} take more than {longest:g} s" * bool(found.too_long)
        left += f", {found.unknown:,} are of another version" * bool(found.unknown)
        print(f"{len(checks)} of {len(found.cells):,} stored cells, drawn with seed {drawn_by}{left}")
        print(f"with their own seeds: {', '.join(f'{count} {name}' for name, count in outcome['outcomes'].items())}")
        print(
            f"with fresh seeds:     {outcome['fresh_inside']} of {outcome['fresh']} within the range of the stored ones"
            f"; {outcome['fresh_expected_inside']:g} are expected, fewer than {outcome['fresh_fewest']} once in 1,000"
        )
        for one in [one for one in checks if one.differing and one.outcome not in EXPECTED][:SHOWN]:
            name, (stored, now) = max(one.differing.items(), key=lambda item: apart(*item[1]))
            print(
                f"{one.outcome}: {one.drawn.cell.label}: {name}: stored {stored:.10g}, recomputed {now:.10g} "
                f"(rel. {apart(stored, now):.1e}); stored on {one.drawn.processor or 'a processor not recorded'}"
            )
        libraries = ", ".join(f"{name} {version}" for name, version in outcome["libraries"].items())
        print(
            f"{outcome['seconds']:g} s with Python {outcome['python']}, {libraries}; {outcome['processor']}, "
            f"{outcome['cores']} cores"
        )
    if strict and (outcome["outcomes"][DIFFERENT] or outcome["fresh_inside"] < outcome["fresh_fewest"]):
        raise Exit(1)


def _training(longest: float, seed: int, strict: bool, as_json: bool) -> None:
    """Train one of the pretrained agents again, chosen from those that took at most `longest` seconds."""
    import csv
    import tempfile

    import numpy as np

    from taciturn.bench.verify import DIFFERENT, retrained

    with (STORED.parent / "trainings.csv").open(encoding="utf-8") as file:
        took = {row["agent"]: float(row["seconds"]) for row in csv.DictReader(file)}  # the last row of each agent
    cheap = [name for name, spent in took.items() if spent <= longest]
    if not cheap:
        raise ValueError(f"--longest must be at least {min(took.values()):g}, as long as the shortest training")
    name, started = cheap[int(np.random.default_rng(seed).integers(len(cheap)))], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcome = retrained(name, Path(folder) / name)
    found = {"agent": name, "outcome": outcome, "seconds": round(time.monotonic() - started, 1), "seed": seed}
    if as_json:
        print_json(found)
    else:
        print(f"{name}, one of {len(cheap)}, drawn with seed {seed}: {outcome} ({found['seconds']:g} s)")
    if strict and outcome == DIFFERENT:
        raise Exit(1)


def stored_files(*folders: Path) -> dict[str, Path]:
    """The files of stored results in folders, by study."""
    return dict(sorted((file.stem, file) for folder in folders for file in folder.glob("*.json")))


def chosen(name: str, files: list[str], papers: list[str]) -> list[str]:
    """The stored studies for a name: a study, a paper, or a page."""
    if name == "verdicts":
        return papers
    study = PAGES.get(name, name.removeprefix("verdicts-"))
    found = [one for one in files if study in (one, one.partition("-")[0])]
    if not found:
        raise UnknownName("study or page", name, [*files, *PAGES, "verdicts"])
    return found
