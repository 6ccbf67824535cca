"""What opens the report: each answer follows from the results, and changes with them."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from taciturn.bench.answers import answers, best, first, fronts, pays, sized, trainings
from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.questions import compared
from taciturn.bench.results import Group, Results
from taciturn.bench.scores import LEAD, Board, boards, score_text
from taciturn.bench.submission import unpacked
from taciturn.bench.tasks import LISTENS, MESSAGES, NO_BUDGET_LIMIT, PAPER, STANDARD, TASKS, size_of, world_title

STORED = Path(__file__).parent.parent / "tools/results/studies/agents.json"
GOSSIP, ARMS = "gossip_bandit_v0", "arm_elimination_v0"


@pytest.fixture(scope="module")
def stored() -> Results:
    return unpacked(STORED).results


def changed(group: Group, config: Mapping[str, Any] | None = None, **metrics: Any) -> Group:
    """A group with some metrics replaced, by a number for all seeds or by one for each."""
    new = {name: np.full(group.seeds.size, value) for name, value in metrics.items()}
    return Group(
        {**group.config, **(config or {})}, group.seeds, {**group.metrics, **new}, group.curves, group.wall_seconds
    )


def listener(results: Results, **entries: Any) -> Group:
    return results.select(env=GOSSIP, policy="Listener", **entries).groups[0]


def test_every_question_is_answered_in_sentences(stored: Results) -> None:
    told = answers(stored)
    questions = [text.partition("? ")[0] for text in told]
    assert [text.split()[0] for text in questions] == ["Who", "How", "How", "Does"]
    assert all(re.fullmatch(r"[A-Z].*\.", line) for text in told for line in text.partition("? ")[2].split("\n"))
    assert answers(Results([])) == []


def test_who_is_best_is_who_the_board_says(stored: Results) -> None:
    some = boards(stored)
    text = best(some)
    assert text.startswith("Who is best at a budget of epsilon = 1? ")
    gains = {}
    for board in some:
        if board.task.budget == 1.0 and board.task.name == STANDARD and not board.task.control:
            winner = board.best()
            assert winner is not None
            score = board.evaluated(winner)
            assert score is not None
            gains[board.task.env] = score.low > 0
            name = world_title(board.task.env).capitalize()
            told = f"{name}: {board.label(winner).partition(' (')[0]} scores {score_text(score)} with "
            assert (told in text) == gains[board.task.env], "who does not beat an agent alone is not named"
    assert 0 < sum(gains.values()) <= len(gains) == 5
    assert not [control for control in ("federated training", "elicitation") if control in text.lower()]
    gossip = "Gossip bandit: Listener scores 0.02 [0.01, 0.03] with 20 agents and 0.25 [0.23, 0.28] with 100."
    assert gossip in text, "as the leaderboard has it"
    assert "Recommender: PeakListener scores 0.19 [0.10, 0.25] with 8 agents and 0.42 [0.34, 0.47] with 32 (" in text
    free = best([board for board in some if board.task.budget == NO_BUDGET_LIMIT])
    assert free.startswith("Who is best without privacy? ")


@pytest.mark.parametrize(
    ("known", "start"),
    [({5: True, 20: True}, 5), ({5: False, 20: True}, 20), ({5: True, 20: False}, None), ({5: False}, None)],
)
def test_the_size_from_which_on_it_pays(known: dict[int, bool], start: int | None) -> None:
    assert first(known) == start


def test_where_it_pays_to_be_together(stored: Results) -> None:
    some = boards(stored.select(env=ARMS))
    text = pays(some)
    assert "Without privacy it helps at every size that was played: from 5 agents in arm elimination." in text
    assert "At a budget of epsilon = 1 it helps in arm elimination with 20 or more agents, and not with 5." in text
    sizes = {one.task.name for one in sized(boards(stored)) if one.task.held_out}
    assert sizes == {"few-agents"}
    assert not sizes & {"liars", "lost", "close", "one-good-arm", "ring"}
    without = pays(boards(stored.select(env="elicitation_v0")))
    assert without == "", "individuals tell one another nothing"


def test_sizes_are_those_of_the_worlds() -> None:
    assert size_of(TASKS["taciturn/GossipBandit-v0/crowd"]) == (100, "agents")
    assert size_of(TASKS["taciturn/FederatedTraining-v0/standard"]) == (100, "clients")
    assert size_of(TASKS["taciturn/Elicitation-v0/standard"]) == (50, "individuals")


def test_the_front_has_whom_nobody_beats_with_as_few_messages(stored: Results) -> None:
    """Messages that nobody listens to count as none."""
    own = listener(stored, budget=NO_BUDGET_LIMIT)
    measure, (board,) = "popularity_regret", standard_boards(stored.select(env=GOSSIP))
    assert board.scale is not None
    alone, together = (mark.estimate.value for mark in board.scale)
    top = board.score(own)
    assert top is not None

    def rival(share: float, **metrics: float) -> Group:
        worse = own.metrics[measure] + (1 - share) * top.value * (alone - together)
        config = {"policy": "PPCL", "policy_params": {}, "kind": PAPER}
        return changed(own, config, **{measure: worse}, **metrics)

    def found(*groups: Group) -> str:
        text = fronts(boards(Results(groups))).partition("Gossip bandit with 20 agents: ")[2]
        return re.sub(r" \[[^]]*\]", "", text.partition("\nThese agents")[0])

    all_of_it = f"Listener scores {top.value:.2f} with 7,996 messages."
    half, and_all = f"PPCL scores {top.value / 2:.2f}", f"and Listener {top.value:.2f} with 7,996."
    assert found(own) == all_of_it
    few = rival(0.5, **{MESSAGES: 10.0, LISTENS: 1.0})
    assert found(own, few) == f"{half} with 10 messages {and_all}"
    assert found(own, rival(0.5, **{MESSAGES: 1e6, LISTENS: 1.0})) == all_of_it, "more messages for less"
    assert found(own, rival(0.5, **{MESSAGES: 1e6, LISTENS: 0.0})) == f"{half} with 0 messages {and_all}"
    assert found(own, rival(-1.0, **{MESSAGES: 0.0})) == all_of_it, "worse than no communication"


def standard_boards(results: Results) -> list[Board]:
    return [one for one in boards(results) if one.task.name == STANDARD and one.task.budget == NO_BUDGET_LIMIT]


def test_where_learning_wins_is_what_the_trainings_show(stored: Results) -> None:
    """Each environment is named once, with its answer, the number of trainings and the lead."""
    text, answers = trainings(stored), compared(stored)
    assert len(answers) >= 3
    for env, (board, one, word) in answers.items():
        assert board.task.name == STANDARD
        rival, lead = one.rival.config["policy"], f"{abs(one.lead.value):.2f}"
        assert f"{world_title(env).capitalize()}: {word}; {one.counted} than {rival}, by {lead}" in text
        assert text.count(f"{world_title(env).capitalize()}: ") == 1
    fewest = min(one.leads.size for _, one, _ in answers.values())
    assert ("A yes or no needs" in text) == (len(answers) * stats.binomtest(0, fewest).pvalue >= 0.05)
    none = [group for group in stored if group.config["kind"] not in ("plain PPO", "tuned learner")]
    assert not trainings(Results(none))


def test_a_quick_run_ranks_nobody(stored: Results) -> None:
    study = KindsOfAgents()
    some = Results([changed(group, {"replicas": 10}) for group in stored.select(env=GOSSIP)])
    seeds = f"{max(group.seeds.size for group in some)} seeds, not ranked"
    (told,) = study.answers(some)
    assert told == f"Who is best? {seeds}; the table below has the findings of full runs."
    tables = study.tables(some)
    assert [table.title for table in tables] == ["All agents of each task", "All agents under privacy budgets"]
    for table in tables:
        assert not {"rank", LEAD} & set(table.columns)
        assert table.note == f"{seeds}."
        assert "undecided" not in str(table.rows)
        assert {len(row) for row in table.rows} == {len(table.columns)}
    names = [row[1] for row in tables[0].rows if row[0].endswith("/standard")]
    assert names == sorted(names)
    caption = study.plots(some)[0].caption
    assert caption.endswith(f"{seeds}.")
    (full,) = [one for one in study.tables(stored.select(env=GOSSIP)) if one.title == tables[0].title]
    assert {"rank", LEAD} <= set(full.columns)
