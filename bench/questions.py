"""The yes/no questions of the standing benchmark: their comparisons, and the answers that their designs allow.

For each environment there is one question about learning, stated here before any run: does the best learner beat the
best of the paper's algorithms in the standard task? One half of the seeds chooses both, and the other half compares
them; if both halves choose the same two, each half evaluates the other's choice, and all seeds count. The answers for
all environments jointly have confidence 95% (Holm 1979). All other comparisons are effects with intervals, and get no
verdict.

A design in which neither answer is possible is useless: `benchmarks/power.py` prints every question with the smallest
p-value and the smallest effect that its design can show, and fails if there is such a design.
"""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from taciturn.bench import statistics
from taciturn.bench.results import Cell, Group, Results
from taciturn.bench.scores import (
    LEVEL,
    Board,
    Match,
    at_budget,
    boards,
    half_width,
    halves,
    leads,
    score_text,
    standing,
    task_name,
    words,
)
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.study import Table
from taciturn.bench.tables import NONE
from taciturn.bench.tasks import (
    BENCHMARKS,
    CLASSIC,
    LEARNED,
    NO_BUDGET_LIMIT,
    PAPER,
    PLAIN,
    STANDARD,
    TASK_AGENT,
    world_title,
)

POWER = 0.8
FULL_SCALE = 1.0
"""The largest possible effect on a score: from no communication to full information."""


class Comparison(NamedTuple):
    """The best learner of a task, compared with the best agent of another kind.

    Attributes:
        learner, rival: the two.
        leads: lead of each training over the rival, in score, [trainings].
    """

    learner: Group
    rival: Group
    leads: Floats

    @property
    def lead(self) -> Estimate:
        """The median of the leads, with the interval of the sign test."""
        return statistics.median(self.leads)

    @property
    def match(self) -> Match:
        """Whether more than half of the trainings are better (the sign test)."""
        return Match(
            statistics.sign_test(self.leads, 0 * self.leads), bool((self.leads > 0).sum() > (self.leads < 0).sum())
        )

    @property
    def counted(self) -> str:
        """The count in words, such as "all of 10 trainings are worse"."""
        better, worse = int((self.leads > 0).sum()), int((self.leads < 0).sum())
        many, word = (better, "better") if better > worse else (worse, "worse")
        return f"{'all' if many == self.leads.size else many} of {self.leads.size} trainings are {word}"


def comparison(board: Board, kind: str) -> Comparison | None:
    """The best learner compared with the best agent of a kind; None if one of them is missing."""
    chosen = [(board.best(*LEARNED, half=half), board.best(kind, half=half)) for half in (0, 1)]
    learner, rival = chosen[0]
    if learner is None or rival is None or board.scale is None:
        return None
    judges = (learner, rival) if chosen[0] == chosen[1] else (halves(learner)[1], halves(rival)[1])
    return Comparison(learner, rival, leads(board, *judges))


def compared(results: Results) -> dict[str, tuple[Board, Comparison, str]]:
    """The question about learning, for each environment: its board, the comparison, and the answer."""
    some = [board for board in standing(boards(results)) if board.task.name == STANDARD and not board.task.control]
    pairs = {board.task.env: (board, one) for board in some if (one := comparison(board, PAPER)) is not None}
    answers = words({env: one.match for env, (_, one) in pairs.items()})
    return {env: (board, one, answers[env]) for env, (board, one) in pairs.items()}


def trainings_needed(questions: int) -> int:
    """The least number of trainings with which a family of so many questions can get an answer, if all agree."""
    return next(number for number in itertools.count(1) if questions * 2 * 0.5**number < LEVEL)


def learning(results: Results) -> Table:
    """The lead of each environment's best learner over the best agent of each kind, and whether it beats the paper's
    algorithms."""
    answers, rows = compared(results), []
    for board in standing(boards(results)):
        pairs = [comparison(board, kind) for kind in (PAPER, TASK_AGENT, CLASSIC)]
        first = next((one for one in pairs if one is not None), None)
        if board.task.name != STANDARD or first is None:
            continue
        learner = f"{board.label(first.learner)} ({first.learner.config['kind']})"
        cells = [NONE if one is None else f"{score_text(one.lead)} {board.label(one.rival)}" for one in pairs]
        count = NONE if pairs[0] is None else pairs[0].counted
        answer = answers[board.task.env][2] if board.task.env in answers else NONE
        rows.append(
            (
                task_name(board.task),
                learner,
                score_text(board.score(first.learner)),
                cells[0],
                count,
                answer,
                *cells[1:],
            )
        )
    note = (
        "The lead of a training is its score minus the score of another agent; below 0 the learner is worse. The table "
        "gives the median of the leads of all trainings, with the interval of the sign test. One half of the seeds "
        "selects both agents, and the other half compares them. We test only the lead over the paper's best algorithm. "
        "The answer is yes if more than half of the trainings are better than that algorithm, and no if more than half "
        "are "
        f"worse. With fewer than {trainings_needed(len(answers))} trainings neither answer is possible. The answers "
        f"for all environments "
        "jointly have confidence 95% (Holm 1979)."
    )
    columns = (
        "task", "learner", "score", "lead over the paper's best", "trainings", "beats the paper's algorithms",
        "lead over the best hand-designed", "lead over the best classic",
    )  # fmt: skip
    return Table("Does learning win?", columns, rows, note, words=frozenset(range(8)))


class Question(NamedTuple):
    """A yes/no question, and the power of its design.

    Attributes:
        text: the question.
        asked_in: the function that prints its answer.
        runs: least number of trainings or seeds in the test.
        family: number of questions in the same family, for Holm's correction.
        half_width: half width of the 95% interval in the test; None for a sign test.
    """

    text: str
    asked_in: str
    runs: int
    family: int = 1
    half_width: float | None = None

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that the design can reach, after Holm's correction; 0 if it can be arbitrarily small."""
        if self.half_width is not None:
            return 0.0 if self.runs >= statistics.FEWEST else 1.0
        return min(1.0, self.family * 2 * 0.5**self.runs)

    @property
    def smallest_effect(self) -> float:
        """The smallest effect shown in 80% of the cases: a difference in score, or, for a sign test, the share of
        trainings that would have to be better; infinite if there is none."""
        if self.half_width is not None:
            return statistics.effect_at_power(self.half_width, self.runs, POWER)
        return statistics.share_at_power(self.runs, LEVEL / self.family, POWER)

    @property
    def can_answer(self) -> bool:
        """Whether both a yes and a no are possible."""
        return self.smallest_p < LEVEL and self.smallest_effect <= FULL_SCALE


def questions(cells: Iterable[Cell], results: Results) -> list[Question]:
    """All questions of the benchmark: on the learners of a study's cells, and on the intervals of stored results."""
    seeds: dict[str, dict[str, set[int]]] = {kind: {} for kind in LEARNED}
    for cell in cells:
        kind, env = cell.config["kind"], cell.config["env"]
        if kind in LEARNED and cell.config["budget"] == NO_BUDGET_LIMIT:
            seeds[kind].setdefault(env, set()).add(cell.seed)
    asked = dict.fromkeys(env for some in seeds.values() for env in some if not BENCHMARKS[env].control)
    fewest = {env: min(len(some[env]) for some in seeds.values() if env in some) for env in asked}
    result = [
        # At least one half of the trainings is in the test.
        Question(
            f"Do learners beat the paper's algorithms in {world_title(env)}?", "learning", number // 2, len(fewest)
        )
        for env, number in fewest.items()
    ]
    plain = seeds[PLAIN]
    result += [
        Question(
            f"Does plain PPO beat random play in {world_title(env)}, in its {what}?",
            "plain_ppo",
            len(some),
            2 * len(plain),
        )
        for env, some in plain.items()
        for what in ("return", "measure")
    ]
    return result + score_questions(boards(results))


def score_questions(some: Iterable[Board]) -> list[Question]:
    """Whether the best agent of each standard task beats no communication, by the half width of its interval."""
    result = list[Question]()
    for board in some:
        best = board.best()
        score = None if best is None else board.evaluated(best)
        if board.task.held_out or board.task.control or best is None or score is None:
            continue
        text = f"Does the best agent of {task_name(board.task)}{at_budget(board.task.budget)} beat no communication?"
        result.append(Question(text, "best", board.fairly(best).seeds.size, 1, half_width(score)))
    return result
