"""The stored findings of the full runs of the study `agents`, for users who have only run the quick benchmark."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from taciturn.bench.questions import compared
from taciturn.bench.results import Results
from taciturn.bench.scores import boards, standing
from taciturn.bench.study import Table
from taciturn.bench.tables import NONE
from taciturn.bench.tasks import NO_BUDGET_LIMIT, STANDARD, TASKS, world_title

FILE = "known.json"
BUDGETS: tuple[float | str, ...] = (NO_BUDGET_LIMIT, 1.0)


def summary(results: Results) -> str:
    """The text of the file: for each environment the best agents of its standard task at `BUDGETS`, with their scores,
    and whether learning beats the papers' algorithms."""
    some, answers = boards(results), compared(results)
    found: dict[str, Any] = {}
    for budget in BUDGETS:
        for board in standing(some, budget):
            best = board.best()
            score = None if best is None else board.evaluated(best)
            if best is not None and score is not None and board.task.name == STANDARD:
                one = found.setdefault(board.task.plain, {"best": {}, "learning": NONE})
                one["best"][str(budget)] = [board.label(best).partition(" (")[0], round(score.value, 2)]
    for plain, one in found.items():
        one["learning"] = (
            answers[env][2] if (env := next(t.env for t in TASKS.values() if t.plain == plain)) in answers else NONE
        )
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


@cache
def stored() -> dict[str, Any]:
    """The content of the file, by task."""
    result: dict[str, Any] = json.loads((files("taciturn.bench") / FILE).read_text(encoding="utf-8"))
    return result


def table() -> Table:
    """One line per environment."""
    rows = []
    for plain, one in stored().items():
        texts = [one["best"].get(str(budget)) for budget in BUDGETS]
        cells = [NONE if text is None else f"{text[1]:.2f} {text[0]}" for text in texts]
        task = TASKS[plain]
        rows.append((world_title(task.env), *cells, task.covers or NONE, one["learning"]))
    note = "Scores: 0 for the best non-communicating agent, 1 for one with full information."
    columns = ("world", "best, no privacy", "budget epsilon = 1", "what the budget covers", "learners beat papers")
    return Table("Findings of full runs", columns, rows, note, words=frozenset(range(5)))
