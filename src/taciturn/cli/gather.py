"""`taciturn gather`."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from taciturn.cli.options import Json
from taciturn.cli.report import installed, print_report


def gather(
    folders: Annotated[list[Path], Argument(help="Folders written by bench or reproduce, for example all shards.")],
    out: Annotated[Path, Option(help="New folder for the merged results and the report.")],
    as_json: Json = False,
) -> None:
    """Merge results folders into a new one, and write its report.

    Example: taciturn gather results/shard-* --out results/whole
    """
    from taciturn.bench import store as stores
    from taciturn.bench.progress import stderr

    installed([stores.Store(folder) for folder in folders])  # or there would be no report
    store = stores.gather(folders, out)
    mixed = stores.differing(store.manifest())
    if mixed:
        stderr().print(f"not all of these results were computed with the same {' and '.join(mixed)}")
    planned = [key for keys in store.plan().values() for key in keys]
    missing = len(planned) - len(list(store.cells.iterdir()))
    print_report(store, None, as_json, {"cells": len(planned), "missing": missing})
    if missing:
        raise ValueError(
            f"{missing} of {len(planned)} cells are missing: run their shards again and gather, or run all with "
            f"--resume --out {out}"
        )
