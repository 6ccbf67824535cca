"""`taciturn bench`, and the parts shared with `taciturn reproduce`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from typer import Argument, Option, confirm

from taciturn.cli.arguments import entries
from taciturn.cli.options import CODE, Json, Trust, with_options_of
from taciturn.cli.output import interrupted, print_json
from taciturn.cli.report import print_report
from taciturn.cli.verify import KEPT_OF_PAPERS, STORED, stored_files
from taciturn.registry import UnknownName
from taciturn.terminal import counted

if TYPE_CHECKING:
    from taciturn.bench.store import Store
    from taciturn.bench.study import Study

Out = Annotated[Path, Option(help="Folder for the results and the report.")]


def run_studies(
    studies: "list[Study]",
    out: Path,
    mine: Sequence[str] = (),
    *,
    where: Annotated[
        list[str] | None,
        Option(
            help="Run only cells that match key=value, an entry of the configuration (policy=PPCL) or the seed "
            "(seed=0); repeatable."
        ),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Use few seeds and short runs.")] = False,
    backend: Annotated[str, Option(help="Backend: serial, process or ray.")] = "process",
    workers: Annotated[int | None, Option(help="Number of processes (default: one per core).")] = None,
    timeout: Annotated[
        float | None, Option(help="Time limit of a cell in seconds (only with --backend process).")
    ] = None,
    shard: Annotated[str | None, Option(help="i/n: run every n-th cell, starting with the i-th (see gather).")] = None,
    resume: Annotated[
        bool, Option("--resume", help="Continue an earlier run in --out and keep its finished cells.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run studies and write their report (a shard has none). Agents in `mine` are ranked among the stored results."""
    from taciturn.bench.runner import BACKENDS, run_study
    from taciturn.bench.store import Store

    if backend not in BACKENDS:
        raise UnknownName("backend", backend, BACKENDS)
    store = Store(out)
    try:
        summary = run_study(
            studies,
            store,
            quick=quick,
            backend=cast(Any, backend),  # one of BACKENDS
            workers=workers,
            resume=resume,
            progress=not as_json,
            timeout=timeout,
            where=entries("--where", where or []),
            shard=shard,
        )
    except KeyboardInterrupt:
        interrupted(f"the finished cells are stored in {out}, and the same command with --resume continues")
        raise
    failed = [str(file) for file in summary.failed]
    about: dict[str, Any] = {"cells": summary.planned, "reused": summary.reused, "failed": failed}
    if mine and shard is None and not as_json:
        print_mine(store, mine)
    elif shard is None:
        print_report(store, studies, as_json, about)
    elif as_json:
        print_json({"shard": shard} | about)
    else:
        finished = summary.planned - len(failed)
        print(f"{counted(finished, 'cell')} of shard {shard}: {out} (taciturn gather puts all shards together)")
    if failed:
        raise ValueError(f"{len(failed)} of {summary.planned} cells failed: see {store.failed}")


def print_mine(store: "Store", agents: Sequence[str]) -> None:
    """Print the user's agents among the stored results, and the next commands; and write the report."""
    from taciturn.bench import mine
    from taciturn.bench.catalogue import studies_named
    from taciturn.bench.report import print_compared, terminal, write_report

    own = store.results("agents")
    results = mine.beside_stored(own, STORED)
    for agent in agents:
        print_compared(mine.tables(results, agent), terminal())
        if not (STORED / "agents.json").exists():
            print("Ranks need the stored results, which a clone has in tools/results.")
        print()
    page = write_report(store, store.path, studies_named(["agents"]), STORED)
    print(f"\nreport: {page}")
    print(f"Next:\n  taciturn leaderboard {store.path} --mine\n  taciturn submit {store.path} --to mine.json")


def confirmed(studies: "list[Study]", quick: bool, yes: bool, other: str) -> None:
    """Ask for confirmation before running everything, if neither names nor a folder are given. Raises ValueError if the
    user cannot be asked."""
    if yes:
        return
    cells = sum(len(study.cells(quick)) for study in studies)
    hours = 0.0 if quick else sum(map(stored_hours, studies))
    takes = f", about {hours:.1f} hours of one core" * bool(hours)
    what = f"{len(studies)} studies" if len(studies) != 1 else "one study"
    said = f"this runs {what}, {cells:,} cells{takes}"
    if not sys.stdin.isatty():
        raise ValueError(f"{said}: add --yes to run them all, or {other}")
    confirm(f"{said[:1].upper()}{said[1:]} ({other}). Run all?", abort=True)


def stored_hours(study: "Study") -> float:
    """The time of the stored full run of a study, in hours of one core; 0 if it is not available."""
    from taciturn.bench.submission import unpacked

    file = stored_files(STORED, KEPT_OF_PAPERS).get(study.name)
    return sum(float(one.wall_seconds.sum()) for one in unpacked(file).results) / 3600 if file else 0.0


Yes = Annotated[
    bool, Option("--yes", help="Skip the confirmation that is asked if neither a study (or figure) nor --out is given.")
]


@with_options_of(run_studies)
def bench(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="STUDY",
            help="Studies to run, from taciturn list studies (default: `agents`, the benchmark).",
        ),
    ] = None,
    out: Out = Path("results"),
    yes: Yes = False,
    agent: Annotated[
        list[str] | None,
        Option(
            help="Your own agent, as for run --policy (repeatable). It plays the tasks of the study `agents` in every "
            "compatible environment. If neither a study nor --quick is given, only this agent is run, and is ranked "
            f"among the stored results. {CODE}."
        ),
    ] = None,
    trust: Trust = False,
    **options: Any,
) -> None:
    """Run studies and write their report."""
    from taciturn.bench.catalogue import studies_named

    studies = studies_named(names or (["agents"] if agent else []))
    if not names and not agent and out == Path("results"):
        confirmed(studies, options["quick"], yes, "name studies (taciturn list studies), or try --quick")
    where = options["where"] or []
    alone = bool(agent) and not names and not options["quick"] and not any(one.startswith("kind=") for one in where)
    if agent:
        from taciturn.bench.comparisons.kinds import joined
        from taciturn.bench.progress import bar, stderr

        with bar(stderr(), 1, shown=not options["as_json"]) as shown:
            studies, told = joined(studies, agent, shown.running)
        for line in told if not where else ():
            stderr().print(line)
    if alone:
        options["where"] = [*where, "kind=yours"]
    run_studies(studies, out, mine=(agent or []) if alone else (), **options)
