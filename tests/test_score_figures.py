"""The figures that open the report and the leaderboard: nothing lies over their words, and their marks agree with the
results."""

import re
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from taciturn.bench import figures
from taciturn.bench.results import Group, Results
from taciturn.bench.score_figures import FLOOR, PARTS, Best, Canvas, Row, plots, private, row_of
from taciturn.bench.scores import FREE, Board, boards, leaderboard, standing
from taciturn.bench.submission import unpacked
from taciturn.bench.tasks import (
    BUDGETS,
    FULL_INFORMATION,
    LEARNED,
    NO_BUDGET_LIMIT,
    NO_COMMUNICATION,
    PAPER,
    STANDARD,
    TASK_AGENT,
    YOURS,
    world_title,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STORED = Path(__file__).parent.parent / "tools/results/studies/agents.json"
GOSSIP = "gossip_bandit_v0"
CROWDED = Row(
    "federated training", "100 individuals", True,
    [Best(part, "UnderstatedTarget", 0.5 + part / 50, True) for part in range(3)]
    + [Best(part, "PPO", -9.99, False) for part in (3, 4)],
    {NO_BUDGET_LIMIT: Best(2, "GrowingSchedule", 0.5, True), 10.0: Best(2, "GrowingSchedule", 0.5, True),
     3.0: Best(4, "Mine", 0.51, True), 1.0: Best(4, "UnderstatedTarget", -9.0, False)},
)  # fmt: skip


@pytest.fixture(scope="module")
def stored() -> Results:
    return unpacked(STORED).results


@pytest.fixture(scope="module")
def some(stored: Results) -> list[Board]:
    return boards(stored)


@pytest.fixture(scope="module")
def rows(some: list[Board]) -> list[Row]:
    return [row_of(some, one) for one in standing(some) if one.task.name == STANDARD]


def test_wide_intervals_say_how_long_a_row_takes(stored: Results) -> None:
    """Four times the runs halve an interval. Only rows that are wide and are not trained have hours."""
    groups = {group.config["policy"]: group for group in stored.select(env=GOSSIP, budget=NO_BUDGET_LIMIT)}
    said = 0
    for task, _, policy, kind, _, score, width, *_ in leaderboard(stored, FREE).rows:
        if task != "GossipBandit-v0/standard":
            continue
        low, high = (float(x) for x in re.findall(r"\[(-?[\d.]+), (-?[\d.]+)\]", score)[0])
        time = re.search(r"\(([\d.]+) h\)", width)
        assert bool(time) == (high - low > 2 * 0.03 and kind not in LEARNED)
        if time and policy in ("Voter", "CopyOnReward", "WinStay"):  # they play no other task of gossip
            hours = groups[policy].wall_seconds.sum() / 3600 * ((high - low) / 0.06) ** 2
            assert float(time[1]) == pytest.approx(hours, rel=0.15)
            said += 1
    assert said == 2


def boxes(figure: "Figure") -> tuple[dict[str, Bbox], list[Bbox]]:
    """Where a figure's words are, and where its marks and lines are."""
    FigureCanvasAgg(figure).draw()
    words, drawn = dict[str, Bbox](), list[Bbox]()
    for place, ax in enumerate(figure.axes):
        shown = [text for text in ax.texts if text.get_text()]
        words |= {f"{place}, {i}: {text.get_text()}": text.get_window_extent() for i, text in enumerate(shown)}
        for line in ax.lines:
            half = line.get_markersize() / 2 if line.get_marker() not in ("None", None) else 0.0
            points = line.get_transform().transform(line.get_xydata())
            drawn.append(Bbox([points.min(0), points.max(0)]).padded(half * figure.dpi / 72))
    return words, drawn


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("which", ["overview", "crowded", "price"])
def test_nothing_lies_over_a_word(some: list[Board], rows: list[Row], which: str, narrow: bool) -> None:
    if which == "price":
        plot = plots(some, "agents")[1]
        figure = plot.narrow if narrow else plot.figure
        assert figure is not None
    else:
        figure = Canvas([*rows, CROWDED][-8 if which == "crowded" else 0 :], narrow=narrow, named=True).draw()
    words, drawn = boxes(figure)
    assert len(words) > 10
    for (one, box), (other, place) in combinations(words.items(), 2):
        assert not box.padded(-1).overlaps(place.padded(-1)), (one, other)
    for text, box in words.items():
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, f"{text} is cut"
        assert not any(box.padded(-1).overlaps(line) for line in drawn), text


@pytest.mark.parametrize("narrow", [False, True])
def test_every_dot_can_be_seen(rows: list[Row], narrow: bool) -> None:
    """All kinds that lie on the axis are drawn, and no two dots of a row lie within 8 points."""
    for row in [*rows, CROWDED]:
        canvas = Canvas([row], narrow=narrow, named=True)
        figure = canvas.draw()
        places = [
            (float(line.get_xdata()[0]), float(line.get_ydata()[0]))  # type: ignore[index, arg-type]
            for line in figure.axes[0].lines
            if line.get_marker() not in ("None", None, "<")
        ]
        kinds = {best.part for best in [*row.kinds, *row.budgets.values()]}
        last = [best for best in list(row.budgets.values())[-1:] if private(row) and best.score >= FLOOR]
        legend = len(kinds) + 2 + private(row) + len(canvas.best_texts(row))  # and the kinds of those that are named
        assert len(places) == legend + sum(best.score >= FLOOR and not best.few for best in row.kinds) + len(last)
        for (x, y), (a, b) in combinations(places[legend:], 2):
            assert max(abs(x - a), abs(y - b)) >= 8


def test_learners_of_too_few_trainings_are_marked(rows: list[Row]) -> None:
    few = Best(3, "TrainedAgent", 0.7, True, few=True)
    row = Row("gossip bandit", "20 agents", False, [few], {})
    marks = [
        Canvas([one], narrow=False, named=True).draw().axes[0]
        for one in (row, row._replace(kinds=[few._replace(few=False)]))
    ]
    assert [len(ax.collections) for ax in marks] == [2, 0]  # in the legend, and in its row
    words = [{text.get_text() for text in ax.texts} for ax in marks]
    assert words[0] - words[1] == {"too few trainings to be best"}


def test_only_agents_that_share_nothing_are_said_to(rows: list[Row]) -> None:
    assert [row.world for row in rows if not row.shared] == ["round stopping"]
    private_row = next(row for row in rows if private(row))
    for shared, told in ((True, 0), (False, 1)):  # an environment that was played without budgets only
        other = private_row._replace(budgets={NO_BUDGET_LIMIT: private_row.budgets[NO_BUDGET_LIMIT]}, shared=shared)
        ax = Canvas([private_row, other], narrow=False, named=True).draw().axes[0]
        assert [text.get_text() for text in ax.texts].count("nothing is shared") == told


@pytest.mark.parametrize("narrow", [False, True])
def test_agents_that_do_not_gain_are_hollow_beside_their_names(rows: list[Row], narrow: bool) -> None:
    row = next(row for row in rows if private(row))
    counts = []
    for gains in (True, False):
        best = {budget: one._replace(gains=gains) for budget, one in row.budgets.items()}
        ax = Canvas([row._replace(kinds=[], budgets=best)], narrow=narrow, named=True).draw().axes[0]
        counts.append(sum(line.get_markerfacecolor() == "none" for line in ax.lines))
    assert counts[1] - counts[0] == 3  # at the end of the line, and in both columns


def test_few_trainings_are_those_of_the_stored_results(some: list[Board], rows: list[Row]) -> None:
    """A learner needs six trainings, three to choose it and three to evaluate it; and a mean above 0 needs as many as
    put its interval above 0."""
    few = {(row.world, best.name): best.few for row in rows for best in row.kinds}
    expected = {}
    for board in some:
        if board.task.name == STANDARD and board.task.budget == NO_BUDGET_LIMIT:
            for group in board.groups:
                score = board.score(group)
                unsure = group.seeds.size < 6 or (score is not None and score.low <= 0 < score.value)
                name = board.label(group).partition(" (")[0]
                expected[world_title(board.task.env), name] = group.config["kind"] in LEARNED and unsure
    assert {one: expected[one] for one in few} == few
    assert len(set(few.values())) == 2  # both happen


def test_scores_below_the_axis_are_written(rows: list[Row]) -> None:
    low = Canvas([CROWDED], narrow=False, named=True).off_scale(CROWDED)
    assert low == "\N{LEFTWARDS ARROW} learned −9.99, yours −9.99, ε = 1: −9.00"
    assert any(best.score < FLOOR for row in rows for best in row.kinds)


def test_a_row_agrees_with_the_boards(some: list[Board], rows: list[Row]) -> None:
    row = next(one for one in rows if one.world == "gossip bandit")
    assert row.size == "20 agents"
    by_total = {one.task.budget: one for one in some if (one.task.env, one.task.name) == (GOSSIP, STANDARD)}
    assert list(row.budgets) == list(BUDGETS)
    for budget, board in by_total.items():
        best = board.best()
        assert best is not None
        score = board.evaluated(best)
        assert score is not None
        part = 3 if best.config["policy"] == "TrainedAgent" else 2  # learned, or hand-designed
        assert row.budgets[budget] == Best(part, best.config["policy"], score.value, score.low > 0)
    assert [best.part for best in row.kinds] == [0, 1, 2, 3], "each kind without privacy"
    assert len(rows) == 8


def test_environments_are_in_the_order_of_the_score_at_the_smallest_budget(some: list[Board]) -> None:
    figure = plots(some, "agents")[0].figure
    titles = {text.get_text(): text.get_position()[1] for text in figure.axes[0].texts}
    ordered = sorted((row_of(some, one) for one in standing(some) if one.task.name == STANDARD), key=lambda r: r.order)
    assert not private(ordered[-1])
    for first, second in pairwise(ordered):
        assert titles[first.world] < titles[second.world]
        assert second.control >= first.control
        if private(second) and second.control == first.control:
            assert first.budgets[1.0].score >= second.budgets[1.0].score


def as_mine(group: Group) -> Group:
    return Group({**group.config, "kind": YOURS}, group.seeds, group.metrics, group.curves, group.wall_seconds)


def test_yours_have_a_colour_of_their_own_at_every_total(stored: Results) -> None:
    mine = [as_mine(one) for one in stored.select(env=GOSSIP) if one.config["kind"] == PAPER]
    kept = [one for one in stored.select(env=GOSSIP) if one.config["kind"] in (NO_COMMUNICATION, FULL_INFORMATION)]
    found = boards(Results([*kept, *mine]))
    row = row_of(found, next(one for one in found if one.task.name == STANDARD))
    yours = len(PARTS) - 1
    assert {best.part for best in row.budgets.values()} == {yours}
    assert list(row.budgets) == list(BUDGETS)
    drawn = {line.get_color() for line in Canvas([row], narrow=False, named=True).draw().axes[0].lines}
    assert PARTS[yours][2] in drawn


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_colours_differ_from_both_backgrounds(part: tuple[str, tuple[str, ...], str, str]) -> None:
    """By 3:1 (WCAG 2.2, 1.4.11)."""
    light, dark = luminance(part[2]), luminance("#1d2125")
    assert (light + 0.05) / (dark + 0.05) >= 3
    assert 1.05 / (light + 0.05) >= 3


def luminance(color: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_svg_has_text_in_the_colour_of_the_page(some: list[Board]) -> None:
    for plot in plots(some, "agents"):
        wide, narrow = figures.drawings(plot)
        for kind, svg in (("wide", wide), ("narrow", narrow)):
            assert svg.startswith('<svg role="img" aria-label="')
            assert f'class="{kind}"' in svg
            assert svg.count(">gossip bandit</text>") == 1
            assert figures.INK not in svg
        ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (wide, narrow)]
        assert not {one for one in ids[0] & ids[1] if f"#{one}" in wide + narrow}, "one would be drawn for the other"
    assert len(plots(some, "agents", "2 seeds, not ranked")[0].caption.split("2 seeds, not ranked.")) == 2


@pytest.mark.parametrize("kinds", [(PAPER,), (PAPER, TASK_AGENT), (YOURS,), (NO_COMMUNICATION, FULL_INFORMATION)])
def test_a_run_of_few_agents_without_a_total_has_its_figure(stored: Results, kinds: tuple[str, ...]) -> None:
    """As `taciturn bench agents --where policy=PPCL` leaves it."""
    groups = [
        one
        for one in stored.select(env=GOSSIP)
        if one.config["kind"] in kinds and one.config["budget"] == NO_BUDGET_LIMIT
    ]
    for plot in plots(boards(Results(groups)), "agents"):
        FigureCanvasAgg(plot.figure).draw()


@pytest.mark.parametrize("budgets", [(10.0, 3.0, 1.0), (3.0,)])
def test_the_legend_and_the_caption_name_the_budgets_that_were_played(
    some: list[Board], budgets: tuple[float, ...]
) -> None:
    """A quick run plays one."""
    played = [one for one in some if one.task.budget in {NO_BUDGET_LIMIT, *budgets}]
    (first, *_) = plots(played, "agents", "1 seed, not ranked")
    larger = re.findall(r"larger budget \(epsilon = (.*?)\)", first.caption)
    assert f"the score at epsilon = {budgets[-1]:g}." in first.caption
    assert larger == [" or ".join(f"{budget:g}" for budget in budgets[:-1])] * (len(budgets) > 1)
    words = " ".join(text.get_text() for text in first.figure.axes[0].texts)
    assert f"\u03b5 = {budgets[-1]:g} (marker)" in words
    assert ("10" in words.partition("(marker)")[2].partition("(ticks)")[0]) == (10.0 in budgets)
