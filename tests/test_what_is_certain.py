"""A score above 0 whose interval begins below 0 is called certain in no text, table or figure of the benchmark, and one
that begins above 0 is in each."""

import re

import findings
import numpy as np
import pytest
from test_answers import STORED

from taciturn.bench import answers, statistics
from taciturn.bench.score_figures import Canvas, row_of
from taciturn.bench.scores import NO, OPEN, YES, Board, Match, boards, score_text, standing, words
from taciturn.bench.statistics import Estimate
from taciturn.bench.submission import unpacked
from taciturn.bench.tasks import BUDGETS, NO_BUDGET_LIMIT, world_title
from taciturn.logged.simulator import HeldOut

BOARDS = boards(unpacked(STORED).results)


@pytest.mark.parametrize("shown", [False, True])
def test_what_is_not_shown_is_nowhere_called_certain(shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    score = Estimate(0.5, 0.1 if shown else -0.1, 1.1)
    monkeypatch.setattr(Board, "evaluated", lambda *_, **__: score)
    monkeypatch.setattr(Board, "score", lambda *_, **__: score)
    worlds = {world_title(one.task.env) for one in standing(BOARDS)}
    assert score_text(score) == f"0.50 [{score.low:.2f}, 1.10]"

    def named(text: str) -> set[str]:
        return {one for one in worlds if one in text}

    lines = answers.best(BOARDS).partition("? ")[2].splitlines()
    at = answers.standard(standing(BOARDS, BUDGETS[-1]))
    assert named(" ".join(lines).lower()) == {world_title(one.task.env) for one in at}
    for line in lines:
        assert ("no agent is shown to beat the best non-communicating agent" in line) is not shown
        assert (" scores 0.50" in line) is shown

    told = answers.pays(BOARDS)
    assert ("it helps at every size that was played" in told) is shown
    assert ("it is not shown to help in" in told) is not shown
    assert not re.search(r" from \d+ on", told)
    assert bool(answers.fronts(BOARDS)) is shown
    told = " ".join(findings.budgets().split())
    assert ("communication helps significantly in every task of this table." in told) is shown
    assert ("communication helps significantly in no task, and not in" in told) is not shown

    rows = [row_of(BOARDS, one) for one in standing(BOARDS, NO_BUDGET_LIMIT) if one.scale is not None]
    drawn = [best for row in rows for best in [*row.kinds, *([*row.budgets.values()][-1:] * (len(row.budgets) > 1))]]
    assert {best.gains for best in drawn} == {shown}
    figure = Canvas(rows, narrow=False, named=False).draw()
    marks = [line.get_markerfacecolor() for line in figure.axes[0].lines if line.get_marker() not in ("None", "")]
    hollow = sum(isinstance(one, str) and one == "none" for one in marks)
    ranked = [best for best in drawn if not best.few]  # the others have a mark of their own
    assert hollow == 1 + (not shown) * len(ranked), "and one in the legend"


@pytest.mark.parametrize("low", [-0.01, 0.01])
def test_a_fit_whose_gain_may_be_none_is_not_shown(low: float) -> None:
    assert ("not shown" in str(HeldOut(10, 5, 0.1, 0.2, low, 0.3))) is (low < 0)


def test_an_interval_that_holds_zero_leaves_a_comparison_undecided() -> None:
    """The words of tables, of pairs of runs whose mean difference is above 0, with and without doubt."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=40)
    told: dict[str, str] = {}
    for name, lead in {"doubt": 0.1, "none": 2.0}.items():
        better = noise - noise.mean() + lead
        p = statistics.p_value(better, np.zeros(40))
        assert (statistics.mean(better).low > 0) is (name == "none")
        told |= words({name: Match(p, True), f"{name}, worse": Match(p, False)})
    assert told == {"doubt": OPEN, "doubt, worse": OPEN, "none": YES, "none, worse": NO}
