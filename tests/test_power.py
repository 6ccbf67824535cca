"""Every question of the benchmark can be answered yes and no, and one that cannot is found."""

import ast
import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from taciturn.bench import statistics
from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.questions import Question, questions
from taciturn.bench.results import Results
from taciturn.bench.submission import unpacked

ROOT = Path(__file__).parents[1]
POWER = runpy.run_path(str(ROOT / "benchmarks/power.py"))
RESULTS = unpacked(ROOT / "tools/results/studies/agents.json").results
DESIGN = questions(KindsOfAgents().cells(quick=False), RESULTS)


def test_every_question_can_be_answered_yes_and_no() -> None:
    text, unanswerable = POWER["report"](DESIGN)
    assert unanswerable == 0, text
    assert text.count("\n") == len(DESIGN) > 50
    assert {one.asked_in for one in DESIGN} == {"learning", "plain_ppo", "best"}
    assert POWER["main"]() == 0


def test_every_function_that_gives_a_verdict_has_its_questions() -> None:
    """Yes and no come from `words`, and from scores whose interval is above 0."""
    asking = set[str]()
    for file in (ROOT / "bench").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                calls = {
                    one.func.id
                    for one in ast.walk(node)
                    if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
                }
                asking |= {node.name} if "words" in calls else set()
    assert asking == {"compared", "plain_ppo"}, "`learning` prints what `compared` answers"


def test_every_function_that_asks_whether_a_gain_is_shown_is_known() -> None:
    """They ask it of the best agents' scores, whose half widths are in the design."""
    asking = set[str]()
    for file in (ROOT / "bench").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                compares = [one for one in ast.walk(node) if isinstance(one, ast.Compare)]
                lows = [one for one in compares if isinstance(one.left, ast.Attribute) and one.left.attr == "low"]
                asking |= {node.name} if any(ast.unparse(one).endswith("low > 0") for one in lows) else set()
    assert asking == {"best", "in_other_sizes", "pays", "fronts", "best_of"}


def test_ten_trainings_and_dozens_of_comparisons_are_found_to_answer_nothing() -> None:
    """The design of 2026-11-25: the best of each kind chosen by one half of ten trainings, Holm over 40."""
    planted = Question("planted", "learning", 5, 40)
    assert planted.smallest_p == 1.0
    assert math.isinf(planted.smallest_effect)
    assert not planted.can_answer
    text, unanswerable = POWER["report"]([*DESIGN, planted])
    assert unanswerable == 1
    assert text.splitlines()[-1].endswith("planted (learning)  NO ANSWER IS POSSIBLE")
    assert Question("all ten judge", "learning", 10, 25).smallest_p == pytest.approx(25 / 512)
    assert not Question("too wide an interval", "best", 10, 1, 2.9).can_answer
    assert not Question("without an interval", "best", 10, 1, math.inf).can_answer


@pytest.mark.parametrize(("runs", "family"), [(10, 8), (20, 16), (20, 1)])
def test_the_share_that_is_found_is_found_in_80_percent_of_the_cases(runs: int, family: int) -> None:
    share = statistics.share_at_power(runs, 0.05 / family, 0.8)
    better = stats.binom.pmf(np.arange(runs + 1), runs, share)
    rejects = [stats.binomtest(k, runs).pvalue <= 0.05 / family and k > runs / 2 for k in range(runs + 1)]
    assert better[rejects].sum() == pytest.approx(0.8)


def test_the_effect_that_is_found_is_found_in_80_percent_of_the_cases() -> None:
    """2,000 samples of ten with Student's interval; four standard errors are 3.6 points, and the normal power that is
    used is 2 points above that of ten runs."""
    rng = np.random.default_rng(0)
    half_width = stats.t.ppf(0.975, 9) / math.sqrt(10)
    effect = statistics.effect_at_power(half_width, 10, 0.8)
    x = rng.normal(effect, 1, (2000, 10))
    shown = np.asarray(stats.ttest_1samp(x, 0, axis=1).pvalue) < 0.05
    assert 0.74 < shown.mean() < 0.84
    assert questions([], Results([])) == []
