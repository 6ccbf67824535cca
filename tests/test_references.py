"""What the kept results must show of the marks: others matter in every task, no two tasks are one, nobody honest beats
a mark, and what survives a total."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from taciturn.bench import statistics
from taciturn.bench.references import Scale, scale_of, scales_in
from taciturn.bench.scores import Board, boards, compares, match, standing
from taciturn.bench.submission import unpacked
from taciturn.bench.tasks import (
    BENCHMARKS,
    FULL_INFORMATION,
    LISTENS,
    NO_BUDGET_LIMIT,
    NO_COMMUNICATION,
    TASKS,
    Task,
    sign,
    tasks_of,
)

STORED = Path(__file__).parents[1] / "tools/results/studies/agents.json"
RESULTS = unpacked(STORED).results
BOARDS = boards(RESULTS)
FREE = [task for task in TASKS.values() if task.budget == NO_BUDGET_LIMIT]


def test_others_matter_in_every_task_that_is_no_control() -> None:
    """Where the measure is a regret, together is at most two thirds of alone; elsewhere the marks are apart by ten
    times the half width of the interval of their distance."""
    for task in FREE:
        scale = scale_of(task)
        assert isinstance(scale, Scale), f"{task.id} has no marks"
        assert others_matter(scale, task) or task.control, task.id


def others_matter(scale: Scale, task: Task) -> bool:
    low, high = (np.array(mark.values) for mark in scale)
    better = sign(task.measure) * (high - low)
    if "regret" in task.measure:
        return bool(high.mean() <= 2 / 3 * low.mean())
    half_width = stats.t.ppf(0.975, better.size - 1) * better.std(ddof=1) / np.sqrt(better.size)
    return bool(better.mean() >= 10 * half_width)


SIZES_OF_TRUST = {"taciturn/FederatedTraining-v0/few-clients"}


def test_a_held_out_task_changes_who_is_best_or_what_the_best_gets() -> None:
    """By 0.1 of the scale at least; or it says nothing that the standard task does not. The second sizes of the study
    `trust` stay."""
    free = [board for board in BOARDS if board.task.budget == NO_BUDGET_LIMIT]
    idle = set[str]()
    for board in free:
        standard = next(one for one in free if one.task.env == board.task.env)
        best, here = standard.best(), board.best()
        assert best is not None
        same = next((one for one in board.ranked() if one.config == best.config), None)
        if board.task.held_out and same is not None and here is same:
            scores = [one.score(best if one is standard else same) for one in (standard, board)]
            assert None not in scores
            if abs(scores[0].value - scores[1].value) < 0.1:  # type: ignore[union-attr]
                idle.add(board.task.plain)
    assert idle == SIZES_OF_TRUST


def test_a_control_is_one() -> None:
    """Others matter less in it than anywhere else in its world."""
    for task in FREE:
        if task.variant.control:
            ratios = {
                one.name: scale.full_information.estimate.value / scale.no_communication.estimate.value
                for one in tasks_of(task.env)
                if (scale := scale_of(one)) is not None
            }
            assert max(ratios, key=lambda name: ratios[name]) == task.name


def test_the_kept_marks_are_those_of_the_kept_results() -> None:
    file = Path(__file__).parents[1] / "bench/references.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert stored.keys() == scales_in(RESULTS).keys() == {task.plain for task in FREE}


@pytest.mark.parametrize("env", BENCHMARKS)
def test_no_two_tasks_give_the_same_numbers_to_who_listens(env: str) -> None:
    """Of agents that hear something, or of all where nothing is heard."""
    checked = 0
    for group in RESULTS.select(env=env, budget=NO_BUDGET_LIMIT):
        metrics = [task.metric for task in tasks_of(env) if task.metric in group.metrics]
        receives = group.metrics.get(LISTENS, np.zeros(1)).any() or not BENCHMARKS[env].receives
        idle = (group.config["policy"], group.config["policy_params"]) == ("FlatRate", {"amount": 0.0})
        if compares(group) and receives and len(metrics) > 1 and group.config["kind"] != "random" and not idle:
            numbers = [group.metrics[metric].tobytes() for metric in metrics]
            assert len(set(numbers)) == len(numbers), (group.config["policy"], metrics)
            checked += 1
    assert checked >= 1 or len(tasks_of(env)) == 1


def test_nobody_honest_beats_a_mark() -> None:
    """Neither everybody's data, nor, of those that hear nothing, the best agent on its own; by Student's paired tests
    that hold together at 99% (Holm), over all tasks without privacy."""
    beaten, p = list[str](), list[float]()
    for board in BOARDS:
        if board.task.budget != NO_BUDGET_LIMIT or board.scale is None:
            continue
        for group in filter(compares, board.groups):
            deaf = LISTENS in group.metrics and not group.metrics[LISTENS].any()
            for name, mark in zip((NO_COMMUNICATION, FULL_INFORMATION), board.scale, strict=True):
                if name == NO_COMMUNICATION and not deaf:
                    continue
                seeds = [seed for seed in group.seeds.tolist() if seed < len(mark.values)]
                own = group.metrics[board.task.metric][: len(seeds)]
                theirs = np.array(mark.values)[seeds]
                better = sign(board.task.measure) * (own - theirs)
                if better.mean() > 0 and better.std() > 0:
                    beaten.append(f"{board.task.id}: {board.label(group)} against {name}")
                    p.append(statistics.p_value(own, theirs))
    wrong = [text for text, one in zip(beaten, statistics.holm(p), strict=True) if one < 0.01]
    assert not wrong


WANTED = {
    "taciturn/GossipBandit-v0/standard": (0.35, 0.35, 0.25, 0.01),
    "taciturn/FederatedBandit-v0/standard": (0.9, 0.9, 0.8, 0.45),
    "taciturn/SocialBandit-v0/standard": (0.4, 0.4, 0.25, 0.05),
    "taciturn/Recommender-v0/crowd": (0.5, 0.5, 0.45, 0.35),
}


@pytest.mark.parametrize("plain", WANTED)
def test_the_best_agents_get_so_much_of_what_others_are_worth(plain: str) -> None:
    """At totals none, 10, 3 and 1, by all seeds."""
    found = {board.task.budget: reached(board) for board in BOARDS if board.task.plain == plain}
    for budget, least in zip((NO_BUDGET_LIMIT, 10.0, 3.0, 1.0), WANTED[plain], strict=True):
        assert found[budget] >= least, (budget, found)  # type: ignore[index]


def reached(board: Board) -> float:
    best = board.best()
    assert best is not None
    score = board.score(best)
    assert score is not None
    return score.value


def test_the_best_listen() -> None:
    """With others heard about another instance instead, the best agent of each world with a channel does worse, by what
    listening is worth."""
    for board in standing(BOARDS):
        best = board.best()
        if BENCHMARKS[board.task.env].receives and board.task.name == "standard" and best is not None:
            if best.config["kind"] in ("plain PPO", "tuned learner"):
                continue
            full, deaf = board.score(best), board.silenced(best)
            assert full is not None
            assert deaf is not None
            assert deaf.value < full.value - 0.2, board.task.id
            assert match(best, best, board.task.metric).p == 1.0


def test_hearing_every_answer_at_once_would_add_little() -> None:
    """At each total a listener gets as much as one that hears the answer of every agent at once, to within 0.1."""
    found = 0
    for board in BOARDS:
        for group in board.groups:
            if group.config["kind"] == "oracle":
                (listener,) = (one for one in board.groups if one.config["policy"] == "Listener")
                scores = [board.score(one) for one in (listener, group)]
                assert None not in scores
                assert scores[0].value > scores[1].value - 0.1, board.task.id  # type: ignore[union-attr]
                found += 1
    assert found == 12  # two worlds, two sizes, three totals
