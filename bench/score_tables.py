"""Tables of the standing benchmark in addition to the boards: kinds over all tasks, held-out tasks, trainings."""

import math
from typing import Any

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Results
from taciturn.bench.scores import (
    Match,
    boards,
    match,
    mean_of,
    score_text,
    standing,
    task_name,
    text_of,
    trained,
    words,
)
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.study import Table
from taciturn.bench.tables import NONE, listed, mean_text, number
from taciturn.bench.tasks import (
    DESIGNED,
    KINDS,
    LEARNED,
    NO_BUDGET_LIMIT,
    PROTECTED,
    RANDOM,
    YOURS,
    sign,
    world_title,
)


def coverage(results: Results) -> Table:
    """The data that a privacy budget protects in each environment played, and the channels that count towards it."""
    rows = []
    for env in filter(PROTECTED.__contains__, dict.fromkeys(board.task.env for board in boards(results))):
        one = PROTECTED[env]
        left_out = listed(one.left_out) if one.left_out else NONE
        rows.append((world_title(env), one.protects, listed(one.channels), left_out))
    note = (
        "A budget bounds how much the messages on these channels reveal about the protected data, to an observer that "
        "reads all of them. The messages on a channel that is not counted may reveal more."
    )
    columns = ("environment", "protected data", "channels", "channels not counted")
    return Table("What a budget covers", columns, rows, note, words=frozenset(range(4)))


def held_out(results: Results) -> Table:
    """The scores of the best hand-designed agent, the best learner and the user's agents in each held-out task."""
    some = [board for board in boards(results) if board.task.budget == NO_BUDGET_LIMIT]
    kinds = (DESIGNED, LEARNED, (YOURS,))
    rows = []
    for board in some:
        if not board.task.held_out:
            continue
        first = next(one for one in some if one.task.env == board.task.env)
        cells = []
        for part in kinds:
            best = first.best(*part)
            cells.append(
                NONE
                if best is None or best not in board.groups
                else f"{score_text(board.score(best))} {board.label(best)}"
            )
        rows.append((task_name(board.task), board.task.variant.what, *cells))
    yours = any(row[-1] != NONE for row in rows)
    columns = ("task", "what differs", "hand-designed", "learned", *(["yours"] if yours else []))
    note = (
        "No agent was trained or tuned in these variants of the environments. Each agent is the best of its kind in "
        "the standard task."
    )
    return Table("Held-out tasks", columns, [row[: len(columns)] for row in rows], note, words=frozenset(range(5)))


def kinds_over_tasks(results: Results) -> Table:
    """For each kind of agent the mean and the interquartile mean of its scores over tasks, and how often it beats the
    best hand-designed agent, if that is a different agent."""
    some = [
        board
        for board in boards(results)
        if board.task.budget == NO_BUDGET_LIMIT and board.scale and not board.task.control
    ]
    rows = []
    for kind in (*KINDS[1:], YOURS):
        parts = list[str]()
        for held in (False, True):
            mine, pairs = list[Floats](), list[tuple[Floats, Floats]]()
            for board in some:
                first = next(one for one in some if one.task.env == board.task.env)
                best, rival = first.best(kind), first.best(*DESIGNED)
                if board.task.held_out != held or best is None or best not in board.groups or board.scale is None:
                    continue
                evaluated = first.fairly(best, kind)
                mine.append(board.scale.score(evaluated.metrics[board.task.metric]))
                if rival is not None and rival is not best and rival in board.groups:
                    pairs.append(tuple(sign(board.task.metric) * x for x in evaluated.paired(rival, board.task.metric)))  # type: ignore[arg-type]
            parts += over_tasks(mine, pairs, trainings=kind in LEARNED)
        if parts[0] != "0":
            rows.append((kind, *parts))
    names = ("tasks", "mean score", "interquartile mean", "P(beats the best hand-designed)")
    columns = ("kind", *(f"{name}{where}" for where in ("", " (held-out)") for name in names))
    note = (
        "For each kind of agent we take the one that is best in an environment's standard task, and play it in all "
        "tasks of that environment. P is the probability that one seed of this agent (for a learner: one training) "
        "beats the best hand-designed agent on the same instances. A tie counts one half. P is a mean over "
        "environments; it leaves out those where the kind's best agent is itself the best hand-designed agent. One "
        "half of the seeds selects the agents, and the other half evaluates them. Controls are left out. Brackets are "
        "95% intervals. The mean score of a learner has no interval, because so few trainings say too little about "
        "failures."
    )
    return Table("All tasks", columns, rows, note)


def over_tasks(
    mine: list[Floats], pairs: list[tuple[Floats, Floats]], *, trainings: bool = False
) -> tuple[str, str, str, str]:
    """The number of tasks, the mean and the interquartile mean of their scores (each [seeds]), and the probability of
    winning; for trainings the mean has no interval."""
    if not mine:
        return "0", NONE, NONE, NONE
    runs = min(map(len, mine))
    scores = np.stack([one[:runs] for one in mine], axis=1)
    won = NONE
    if pairs:
        both = min(len(one) for one, _ in pairs)
        ours, theirs = (np.stack([pair[side][:both] for pair in pairs], axis=1) for side in (0, 1))
        won = text_of(statistics.probability_of_improvement(ours, theirs))
    mean = f"{number(scores.mean())} (too few trainings)" if trainings else text_of(statistics.mean(scores))
    return str(len(mine)), mean, text_of(statistics.iqm(scores)), won


def trainings(results: Results) -> Table:
    """The number of failed trainings of each learner in each standard task, and the score of the others."""
    rows = []
    for board in standing(boards(results)):
        higher = sign(board.task.measure) > 0
        for one in filter(trained, board.ranked()):
            values = one.metrics[board.task.metric]
            share, rest = Estimate(math.nan, math.nan, math.nan), values
            if not math.isnan(board.chance()):
                share = statistics.failures(values, board.chance(), higher_is_better=higher)
                rest = values[values >= board.chance()] if higher else values[values <= board.chance()]
            middle = text_of(statistics.median(rest)) if rest.size else NONE
            row = (board.label(one), str(values.size), text_of(share), middle, mean_of(board, one))
            rows.append((task_name(board.task), *row))
    note = (
        "A training fails if its mean over runs is worse than random play. The share of failures has the exact "
        "interval of Clopper and Pearson. Median and mean are in the task's measure, such as regret. The median of the "
        "trainings that did not fail has the interval of the sign test; with fewer than six trainings there is none. "
        "The mean counts a failure as random play. Ten trainings without a failure do not prove that none fails. The "
        "interval of the mean therefore combines the interval of the share of failures with the interval of the other "
        "trainings' mean. All intervals have confidence 95%."
    )
    columns = ("task", "learner", "trainings", "share of failures", "median without failures", "mean with failures")
    return Table("How often trainings fail", columns, rows, note, words=frozenset({0, 1}))


def plain_ppo(results: Results) -> Table:
    """Whether plain PPO earns more than random play in the task that it was trained for, in return and in the
    measure."""
    asked: dict[Any, Match] = {}
    some = [board for board in standing(boards(results)) if board.task.name == "standard"]
    pairs = {}
    for board in some:
        groups = [next((g for g in board.groups if g.config["kind"] == kind), None) for kind in ("plain PPO", RANDOM)]
        if groups[0] is not None and groups[1] is not None:
            pairs[board.task.id] = groups
            for metric in ("return", board.task.metric):
                asked[board.task.id, metric] = match(groups[0], groups[1], metric)
    verdicts, rows = words(asked), []
    for board in some:
        if board.task.id in pairs:
            ppo, chance = pairs[board.task.id]
            texts = [mean_text(chance.metrics["return"])] if chance else []
            texts += [text_of(statistics.median(ppo.metrics["return"]))] if ppo else []
            answers = [verdicts[board.task.id, metric] for metric in ("return", board.task.metric)]
            rows.append((task_name(board.task), *texts, *answers, f"{ppo.wall_seconds.mean():.0f} s" if ppo else NONE))
    columns = (
        "task",
        "return, random (mean)",
        "return, plain PPO (median)",
        "higher return",
        "better measure",
        "time of a training",
    )
    note = (
        "The return is that of one agent. 'Higher return' asks whether more than half of the trainings have a higher "
        "return than random play on the same instances. 'Better measure' asks the same of the task's measure. The "
        "answers jointly have confidence 95%."
    )
    return Table("Plain PPO against random play", columns, rows, note, words=frozenset({0, 3, 4}))
