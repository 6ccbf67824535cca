"""The user's agents compared with the stored full runs of the study `agents`: their scores, ranks, and leads."""

from pathlib import Path
from typing import NamedTuple

from taciturn.bench import score_figures
from taciturn.bench.results import Group, Results
from taciturn.bench.scores import (
    FREE,
    LEAD,
    UNDER,
    Board,
    at_budget,
    boards,
    lead,
    leaderboard,
    score_text,
    task_name,
)
from taciturn.bench.study import Plot, Table
from taciturn.bench.submission import Submission, merged, unpacked
from taciturn.bench.tables import NONE
from taciturn.bench.tasks import YOURS, covered, world_title

NO_BREAK = "\N{NO-BREAK SPACE}"


def beside_stored(own: Results, stored: Path) -> Results:
    """The user's results, together with the results in the folder `stored`, if there are any."""
    file = stored / "agents.json"
    return merged([Submission("agents", {}, own), *([unpacked(file)] if file.exists() else [])])


class Comparison(NamedTuple):
    """A report on the user's agents: the answers and tables at its beginning, more detailed tables, and the figure."""

    answers: list[str]
    opening: list[Table]
    tables: list[Table]
    plots: list[Plot]


def comparison(own: Results, stored: Path) -> Comparison | None:
    """The user's agents among the stored ones, in the environments that they play; None if `own` also has agents that
    are not the user's, or if nothing is stored."""
    agents = dict.fromkeys(group.config["policy"] for group in own if group.config.get("kind") == YOURS)
    if not agents or len(own.select(kind=YOURS)) < len(own) or not (stored / "agents.json").exists():
        return None
    played = {group.config["env"] for group in own}
    results = Results([one for one in beside_stored(own, stored) if one.config["env"] in played])
    found = {agent: tables(results, agent) for agent in agents}
    answers = []
    for agent, (first, *_) in found.items():
        ranks = [f"rank {rank} in {task}" for task, _, rank, *_ in first.rows if "@" not in task]
        answers.append(f"How good is {agent}? Without privacy: {', '.join(ranks) or 'not played'}.")
    opening = [table for some in found.values() for table in some]
    neighbours = [leaderboard(results, title, mine=True) for title in (FREE, UNDER)]
    plots = score_figures.plots(boards(results), "agents")[:1]
    return Comparison(answers, opening, [table for table in neighbours if table.rows], plots)


def tables(results: Results, agent: str) -> list[Table]:
    """One line for each standard task and budget that a user's agent plays, and one for each environment's held-out
    tasks."""
    rows, held, played = [], dict[str, list[tuple[float, str, bool]]](), []
    for board in boards(results):
        one = next(
            (group for group in board.groups if group.config["kind"] == YOURS and group.config["policy"] == agent), None
        )
        if one is None:
            continue
        played.append(board.task.env)
        ranked, task = [other for other in board.ranked() if not board.too_few(other)], board.task
        if not task.held_out:
            others = [other for other in ranked if other.config["kind"] != YOURS]
            best = f"{short(board, others[0])} {others[0].config['policy']}" if others else NONE
            place = ranked.index(one) + 1 if one in ranked else None
            rank = NONE if place is None or not others else f"{place} of {len(ranked)}".replace(" ", NO_BREAK)
            name = f"{task_name(task)}{at_budget(task.budget)}"
            rows.append((name, score_text(board.score(one)), rank, score_text(lead(board, one)), best))
        elif board.scale is not None and not task.control:
            some = held.setdefault(world_title(task.env), [])
            some.append((float(short(board, one)), task.name, ranked[:1] == [one]))
    note = (
        "Scores are 0 for the best non-communicating agent and 1 for one with full information. Lead: the "
        "score minus that of the paper's best algorithm, with a 95% interval. "
        f"{covered(played)}"
    )
    columns = ("task", "score", "rank", LEAD, "best of the others")
    found = [Table(f"{agent}, compared with the stored results", columns, rows, note, words=frozenset({0, 4}))]
    lines = []
    for world, some in held.items():
        least, most = (f"{score:.2f} {name}" for score, name, _ in (min(some), max(some)))
        lines.append((world, least, most, f"{sum(first for *_, first in some)} of {len(some)}"))
    names = ("held-out tasks", "least score", "greatest score", "best in")
    return [*found, *([Table("In held-out tasks", names, lines, words=frozenset({0, 1, 2}))] if lines else [])]


def short(board: Board, group: Group) -> str:
    """A score without its interval."""
    score = board.score(group)
    return NONE if score is None else f"{score.value:.2f}"
