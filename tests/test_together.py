"""The figure that opens the report and the leaderboard: nothing lies over its words, and its marks say what the results
do."""

import re
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox, BboxBase

from taciturn.bench import figures
from taciturn.bench.results import Group, Results
from taciturn.bench.scores import Board, boards
from taciturn.bench.submission import unpacked
from taciturn.bench.tasks import FULL_INFORMATION, NO_BUDGET_LIMIT, NO_COMMUNICATION, PAPER, STANDARD, TASK_AGENT, YOURS
from taciturn.bench.together import FLOOR, PARTS, Row, ScoreCell, picture, plots, row_of

STORED = Path(__file__).parent.parent / "tools/results/studies/agents.json"
GOSSIP = "gossip_bandit_v0"
CROWDED = Row(
    "federated training", "100 individuals", True,
    [ScoreCell(part, NO_BUDGET_LIMIT, score, gains) for part in range(5) for score, gains in [(0.5 + part / 100, True)]]
    + [ScoreCell(2, 10.0, 0.5, True), ScoreCell(2, 3.0, 0.51, True), ScoreCell(4, 1.0, -9.0, False)],
    ["GrowingSchedule 0.33", "at 1: GrowingSchedule −1.11"],
)  # fmt: skip


@pytest.fixture(scope="module")
def stored() -> Results:
    return unpacked(STORED).results


@pytest.fixture(scope="module")
def some(stored: Results) -> list[Board]:
    return boards(stored)


@pytest.fixture(scope="module")
def rows(some: list[Board]) -> list[Row]:
    return [
        row_of(some, one, named=True) for one in some if not one.task.held_out and one.task.budget == NO_BUDGET_LIMIT
    ]


def words_and_lines(rows: list[Row], *, narrow: bool) -> tuple[dict[str, Bbox], list[Bbox], BboxBase]:
    """Where a figure's words are, but for the numbers in marks, where its marks and lines are, and the whole."""
    figure = picture(rows, narrow=narrow)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (ax,) = figure.axes
    numbers = {"1", "3", "10"}
    words = {
        f"{place}: {text.get_text()}": text.get_window_extent()
        for place, text in enumerate(ax.texts)
        if text.get_text() not in numbers
    }
    drawn = []
    for line in ax.lines:
        half = line.get_markersize() / 2 if line.get_marker() not in ("None", None) else 0.0
        points = ax.transData.transform(line.get_xydata())
        drawn.append(Bbox([points.min(0), points.max(0)]).padded(half * figure.dpi / 72))
    return words, drawn, figure.bbox


@pytest.mark.parametrize("narrow", [False, True])
def test_nothing_lies_over_a_word(rows: list[Row], narrow: bool) -> None:
    shown = [row for row in [*rows, CROWDED] if row.standard or not narrow]
    words, drawn, whole = words_and_lines(shown, narrow=narrow)
    assert len(words) > 3 * len(shown)
    for (one, box), (other, place) in combinations(words.items(), 2):
        assert not box.padded(-1).overlaps(place.padded(-1)), (one, other)
    for text, box in words.items():
        assert whole.x0 <= box.x0 < box.x1 <= whole.x1, f"{text} is cut"
        assert not any(box.padded(-1).overlaps(line) for line in drawn), text


@pytest.mark.parametrize("narrow", [False, True])
def test_every_mark_can_be_seen(rows: list[Row], narrow: bool) -> None:
    """No two of a row lie within 5 points, and those below the floor lie left of all others."""
    figure = picture([*rows, CROWDED], narrow=narrow)
    places = [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))  # type: ignore[index, arg-type]
        for line in figure.axes[0].lines
        if line.get_marker() not in ("None", None)
    ]
    assert len(places) >= sum(len(row.score_cells) for row in rows) + len(CROWDED.score_cells)
    assert min(abs(x - a) + abs(y - b) for (x, y), (a, b) in combinations(places, 2)) > 5


def test_a_row_says_what_the_boards_do(some: list[Board], rows: list[Row]) -> None:
    row = next(one for one in rows if one.world == "gossip bandit" and one.size == "20 agents")
    by_total = {one.task.budget: one for one in some if (one.task.env, one.task.name) == (GOSSIP, STANDARD)}
    assert row.best[0].startswith("Listener 0.")
    assert row.best[1].startswith("at 1: Listener 0.")
    designed = next(place for place, part in enumerate(PARTS) if part[1] == (TASK_AGENT,))
    for budget, board in by_total.items():
        best = board.best(TASK_AGENT)
        assert best is not None
        score = board.evaluated(best, TASK_AGENT)
        assert score is not None
        assert ScoreCell(designed, budget, score.value, score.low > 0) in row.score_cells
    free = [score_cell.part for score_cell in row.score_cells if score_cell.budget == NO_BUDGET_LIMIT]
    assert free == [0, 1, 2, 3], "each kind without privacy"
    assert {score_cell.part for score_cell in row.score_cells if score_cell.budget != NO_BUDGET_LIMIT} == {designed}, (
        "the best alone at a total"
    )
    assert any(score_cell.score < FLOOR and not score_cell.gains for one in rows for score_cell in one.score_cells)


def as_mine(group: Group) -> Group:
    return Group({**group.config, "kind": YOURS}, group.seeds, group.metrics, group.curves, group.wall_seconds)


def test_yours_have_a_colour_of_their_own_at_every_total(stored: Results) -> None:
    mine = [as_mine(one) if one.config["kind"] == PAPER else one for one in stored.select(env=GOSSIP)]
    found = boards(Results(mine))
    row = row_of(found, next(one for one in found if one.task.name == STANDARD), named=True)
    yours = len(PARTS) - 1
    assert [score_cell.budget for score_cell in row.score_cells if score_cell.part == yours] == [
        NO_BUDGET_LIMIT,
        10.0,
        3.0,
        1.0,
    ]
    drawn = {line.get_color() for line in picture([row]).axes[0].lines}
    assert PARTS[yours][2] in drawn


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0])
def test_colours_differ_from_both_backgrounds(part: tuple[str, tuple[str, ...], str, str]) -> None:
    """By 3:1 from the dark page, and by 4.5:1 from white, in which numbers stand on them (WCAG 2.2, 1.4.3, 1.4.11)."""
    light, dark = luminance(part[2]), luminance("#1d2125")
    assert (light + 0.05) / (dark + 0.05) >= 3
    assert 1.05 / (light + 0.05) >= 4.5


def luminance(color: str) -> float:
    """Relative luminance, as WCAG defines it."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_svg_has_text_in_the_colour_of_the_page(some: list[Board]) -> None:
    plot = plots(some, "agents")[0]
    wide, narrow = figures.drawings(plot)
    for kind, svg in (("wide", wide), ("narrow", narrow)):
        assert svg.startswith('<svg role="img" aria-label="From no communication')
        assert f'class="{kind}"' in svg
        assert ">gossip bandit</text>" in svg
        assert figures.INK not in svg
    assert svg.count(">gossip bandit</text>") == 1, "narrow: the standard size alone"
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
