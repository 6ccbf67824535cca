"""`taciturn leaderboard`."""

from pathlib import Path
from typing import Annotated

from typer import Argument


def leaderboard(
    places: Annotated[
        list[Path], Argument(help="Folders written by bench with the study `agents`, or files of submit.")
    ],
) -> None:
    """Rank the agents of several folders and files together; of what several hold, the first counts.

    Example: taciturn leaderboard benchmarks/results/studies/agents.json results/mine
    """
    from taciturn.bench.comparisons.kinds import KindsOfAgents
    from taciturn.bench.report import print_table
    from taciturn.bench.submission import merged, of_folder, unpacked

    study = KindsOfAgents()
    submissions = [unpacked(place) if place.is_file() else of_folder(place, study) for place in places]
    for place, submission in zip(places, submissions, strict=True):
        study.check(place, submission)
    results = merged(submissions)
    print_table(study.answer(results))
    print_table(study.leaderboard(results))
