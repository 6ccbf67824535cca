"""`taciturn submit`."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from taciturn.terminal import counted


def submit(
    folder: Annotated[Path, Argument(help="Folder written by bench, with the study `agents`.")],
    to: Annotated[Path, Option("--to", help="File to write.")],
) -> None:
    """Write the results of the study `agents`, with their provenance, to one file for `leaderboard`.

    Example: taciturn submit results/mine --to mine.json
    """
    from taciturn.bench.catalogue import load_studies
    from taciturn.bench.scores import unchecked
    from taciturn.bench.store import write_bytes
    from taciturn.bench.submission import of_folder, packed

    study: Any = load_studies()["agents"]
    submission = of_folder(folder, study)
    study.check(folder, submission)
    for group in filter(unchecked, submission.results):
        name = group.config["policy"]
        raise ValueError(
            f"{folder} must have agents that were checked for sharing information, and {name} was not: run bench again"
        )
    write_bytes(to, packed(submission).encode())
    print(f"{counted(len(submission.results), 'configuration')}: {to}")
