"""`taciturn leaderboard`."""

import json
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from taciturn.cli.options import Json
from taciturn.cli.verify import STORED


def leaderboard(
    places: Annotated[
        list[Path], Argument(help="Folders written by bench with the study `agents`, or files of submit.")
    ],
    mine: Annotated[
        bool,
        Option(
            "--mine",
            help="Rank your own agents among the stored results; show only them and their neighbours in rank.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Rank the agents of several folders and files in one table. If several contain the same cell, the first one
    counts.

    Example: taciturn leaderboard results/mine --mine
    """
    from taciturn.bench.comparisons.kinds import KindsOfAgents
    from taciturn.bench.mine import beside_stored
    from taciturn.bench.report import print_table
    from taciturn.bench.scores import FREE, UNDER, rows_of, who_is_best
    from taciturn.bench.scores import leaderboard as table_of
    from taciturn.bench.submission import merged, of_folder, unpacked

    study = KindsOfAgents()
    submissions = [unpacked(place) if place.is_file() else of_folder(place, study) for place in places]
    for place, submission in zip(places, submissions, strict=True):
        study.check(place, submission)
    results = merged(submissions)
    if mine:
        results = beside_stored(results, STORED)
    if as_json:
        print(json.dumps(rows_of(results)))
        return
    if not mine:
        print_table(who_is_best(results))
    tables = [table for title in (FREE, UNDER) if (table := table_of(results, title, mine)).rows]
    if mine and not tables:
        raise ValueError(f"--mine must have results of your agents in {', '.join(map(str, places))}: run bench --agent")
    for table in tables:
        print_table(table)
