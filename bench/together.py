"""Figures of the standing benchmark: how far agents get from alone to together, and what survives a total of
privacy."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from taciturn.bench.figures import COLORS, INK, LINES, STYLE, panels
from taciturn.bench.scores import Board, standing
from taciturn.bench.statistics import Estimate
from taciturn.bench.study import Plot
from taciturn.bench.tasks import (
    AS_TRAINED,
    BUDGETS,
    CLASSIC,
    DESIGNED,
    LEARNED,
    NO_BUDGET_LIMIT,
    ORACLE,
    PAPER,
    STANDARD,
    TASK_AGENT,
    YOURS,
    covered,
    size_of,
    world_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = (("classic", (CLASSIC,), "#6b7680", "^"), ("paper", (PAPER,), "#16855f", "s"),
         ("hand-designed", (TASK_AGENT,), "#2274b5", "o"), ("learned", LEARNED, "#c84c08", "D"),
         ("yours", (YOURS,), "#b8468f", "h"))  # fmt: skip
"""Kinds of agents, with a colour that differs from white and from black by 3:1 and from the others for colour-blind
people, and a marker."""
FRONTS = (("hand-designed", DESIGNED, COLORS[0], "o"), ("learned", LEARNED, COLORS[1], "D"),
          ("yours", (YOURS,), COLORS[3], "*"))  # fmt: skip
FLOOR, CEILING = -0.5, 1.05
"""The scores that the pictures show; those below have a place of their own at the left."""
GREY = "#888888"


def plots(boards: Sequence[Board], name: str, seeds: str = "") -> list[Plot]:
    """All figures; none without a scale. `seeds` says how many there are if that is too few to rank by."""
    known = [board for board in standing(boards) if board.scale is not None and not board.task.control]
    if not known:
        return []
    return [share_of_full_information(boards, known, name, seeds), *front(boards, known, name)]


def at_budgets(boards: Sequence[Board], board: Board) -> dict[float | str, Board]:
    """The same task at each total."""
    results = {one.task.budget: one for one in boards if one.task.plain == board.task.plain}
    return {budget: results[budget] for budget in BUDGETS if budget in results}


class ScoreCell(NamedTuple):
    """The best agent of a kind (a place in `PARTS`) at a total, and its score; `gains` if that is shown to exceed 0."""

    part: int
    budget: float | str
    score: float
    gains: bool


class Row(NamedTuple):
    """A world of one size: its names, whether it is the standard one, its spots, and who is best where, in words."""

    world: str
    size: str
    standard: bool
    score_cells: list[ScoreCell]
    best: list[str]


def row_of(boards: Sequence[Board], board: Board, *, named: bool) -> Row:
    """Without privacy the best agent of each kind; at a total the best of all, and yours."""
    score_cells, best = list[ScoreCell](), list[str]()
    for budget, there in at_budgets(boards, board).items():
        winner = there.best()
        kinds = [place for place, (_, kinds, *_) in enumerate(PARTS) if there.best(*kinds) is not None]
        for place in kinds:
            some = PARTS[place][1]
            mine = there.best(*some)
            shown = budget == NO_BUDGET_LIMIT or YOURS in some or (winner is not None and winner.config["kind"] in some)
            score = None if mine is None or not shown else there.evaluated(mine, *some)
            if score is not None and math.isfinite(score.value):
                score_cells.append(ScoreCell(place, budget, score.value, score.low > 0))
        if named and budget in (NO_BUDGET_LIMIT, BUDGETS[-1]) and winner is not None:
            words = f"{there.label(winner).partition(' (')[0]} {score_text(there.evaluated(winner))}"
            best.append(words if budget == NO_BUDGET_LIMIT else f"at {budget:g}: {words}")
    number, what = size_of(board.task)
    same = board.task.name != STANDARD and size_of(board.task._replace(variant=AS_TRAINED))[0] == number
    size = board.task.name.replace("-", " ") if same else f"{number} {what}"
    return Row(world_title(board.task.env), size, board.task.name == STANDARD, score_cells, best)


def score_text(score: Estimate | None) -> str:
    """Such as "0.57"."""
    return "" if score is None else f"{score.value + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


def share_of_full_information(boards: Sequence[Board], known: Sequence[Board], name: str, seeds: str = "") -> Plot:
    """One line a task, from alone to together; narrow, the standard tasks alone."""
    rows = [row_of(boards, board, named=not seeds) for board in known]
    caption = (
        "From no communication (0: the best non-communicating agent) to full information (1: all agents' data, without "
        "privacy): the best agent of each kind without privacy, and below it, with a number, the best of all if an "
        "agent may spend that epsilon over its run. Filled: shown to beat the non-communicating reference (95%). "
    )
    if any(len(at_budgets(boards, board)) > 1 for board in known):
        caption += f"{covered(board.task.env for board in known)} "
    caption += f"{seeds}." if seeds else "Each is chosen by one half of the seeds and judged by the other."
    return Plot(f"{name}_together", picture(rows), caption, picture([row for row in rows if row.standard], narrow=True))


def picture(rows: Sequence[Row], *, narrow: bool = False) -> "Figure":
    """The rows as a figure whose unit is a point: with labels beside the lines, or above them if `narrow`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    parts = sorted({score_cell.part for row in rows for score_cell in row.score_cells})
    budgets = [
        budget
        for budget in BUDGETS
        if any(score_cell.budget == budget for row in rows for score_cell in row.score_cells)
    ]
    wide, font = (360.0, 10.5) if narrow else (720.0, 10.0)
    clip = 14.0 * max(len(parts), 3)  # the width of the place for scores below the floor
    left = (2.0 if narrow else 116.0) + clip + 6
    right = wide - (14.0 if narrow else 164.0)
    scale = (right - left) / (CEILING - FLOOR)
    text, pitch = (32.0, 76.0) if narrow else (0.0, 43.0)
    legend, steps = (56.0 if narrow else 38.0), 15.0
    tall = legend + steps + pitch * len(rows) + 4
    with mpl.rc_context(STYLE | {"axes.grid": False, "font.size": font, "text.color": INK}):
        figure = Figure(figsize=(wide / 72, tall / 72), layout=PlaceHolderLayoutEngine(True, True))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set(xlim=(0, wide), ylim=(tall, 0))
        ax.axis("off")

        def at(score: float) -> float:
            return left + (score - FLOOR) * scale

        def write(x: float, y: float, words: str, ha: str = "left", **style: Any) -> None:
            ax.text(x, y, words, ha=ha, va="center", **style)

        def draw_marker(x: float, y: float, score_cell: ScoreCell) -> None:
            _, _, color, shape = PARTS[score_cell.part]
            number = "" if score_cell.budget == NO_BUDGET_LIMIT else f"{score_cell.budget:g}"
            size = 12.0 if number else 7.5 if shape == "D" else 8.5
            face = color if score_cell.gains else "none"
            ax.plot(x, y, shape, color=color, markerfacecolor=face, markersize=size, markeredgewidth=1.2)
            if number:
                write(
                    x,
                    y + 0.3,
                    number,
                    "center",
                    color="white" if score_cell.gains else INK,
                    fontsize=7.5,
                    weight="bold",
                )

        legend_of(parts, budgets, wide, narrow, draw_marker, write)
        names = {0.0: "0", 0.5: "0.5", 1.0: "1"}
        if not narrow:  # else the caption says so
            names |= {0.0: "no communication", 1.0: "full information"}
        for score, words in names.items():
            last = score == 1.0 and not narrow  # beside it a column begins
            where = (at(score) + 8, "right") if last else (at(score), "center")
            write(where[0], legend + steps / 2, words, where[1], fontsize=font - 1)
        floor = f"< {FLOOR:g}{', not to scale' * (not narrow)}".replace("-", "\N{MINUS SIGN}", 1)
        write(left - 6 - clip / 2, legend + steps / 2, floor, "center", fontsize=font - 1)
        if not narrow and any(row.best for row in rows):
            write(right + 14, legend + steps / 2, "best agent and its score", fontsize=font - 1)
        for place, row in enumerate(rows):
            top = legend + steps + pitch * place
            middle, below = top + text + 12, top + text + 28
            if narrow:
                write(2, top + 10, row.world, weight="bold")
                write(wide - 2, top + 10, row.size, "right")
                write(2, top + 25, "; ".join(row.best))
            else:
                write(2, top + 13, row.world, weight="bold")
                write(2, top + 27, row.size)
                for line, words in enumerate(row.best):
                    write(right + 14, top + 13 + 14 * line, words)
            ax.plot(
                [left - 6 - clip, wide - 2 if narrow else right + 6], [top, top], color=INK, alpha=0.15, linewidth=0.8
            )
            for score, weight in ((0.0, 1.2), (0.5, 0.5), (1.0, 1.2)):
                ax.plot([at(score)] * 2, [top + text + 3, top + pitch - 4], color=INK, alpha=0.5, linewidth=weight)
            ax.plot([at(0), at(1)], [middle, middle], color=INK, alpha=0.35, linewidth=2, solid_capstyle="butt")
            ax.plot([left - 3] * 2, [top + text + 3, top + pitch - 4], ":", color=INK, alpha=0.5, linewidth=0.8)
            for lane, free in ((middle, True), (below, False)):
                some = [score_cell for score_cell in row.score_cells if (score_cell.budget == NO_BUDGET_LIMIT) is free]
                low = [score_cell for score_cell in some if score_cell.score < FLOOR]
                for slot, score_cell in enumerate(low):
                    kinds = parts if free else budgets[-3:]
                    slot = kinds.index(score_cell.part if free else score_cell.budget)  # type: ignore[arg-type]
                    draw_marker(left - 6 - clip + 14 * slot + 7, lane, score_cell)
                near = 8.5 if free else 9.0  # marks that would hide one another are drawn apart
                shifts = (0.0, -8.5, 8.5) if free else (0.0, 8.0)
                taken = list[tuple[float, float]]()
                for score_cell in sorted(
                    (score_cell for score_cell in some if score_cell.score >= FLOOR),
                    key=lambda score_cell: -score_cell.score,
                ):
                    x = at(min(score_cell.score, CEILING))
                    places = ((x - aside, lane + shift) for aside in (0.0, 4.5, 9.0, 13.5) for shift in shifts)
                    result = next((place for place in places if apart(*place, taken, near)), (x, lane))
                    taken.append(result)
                    draw_marker(*result, score_cell)
    return figure


def apart(x: float, y: float, taken: Sequence[tuple[float, float]], near: float) -> bool:
    """Whether a place is at least so far from all that are taken."""
    return all(math.hypot(x - other, y - height) >= near for other, height in taken)


def legend_of(
    parts: Sequence[int], budgets: Sequence[float | str], wide: float, narrow: bool, draw_marker: Any, write: Any
) -> None:
    """What marks mean, above the rows."""
    names = [PARTS[part][0] for part in parts]
    letter = min(5.6, (wide - 8 - 22 * len(names)) / max(len("".join(names)), 1))  # the width of one, and space
    left = 8.0
    for part, name in zip(parts, names, strict=True):
        draw_marker(left, 9, ScoreCell(part, NO_BUDGET_LIMIT, 0, True))
        write(left + 8, 9, name)
        left += 22 + letter * len(name)
    some = [budget for budget in budgets if budget != NO_BUDGET_LIMIT]
    designed = 2
    entries: list[tuple[ScoreCell, str]] = [
        (ScoreCell(designed, NO_BUDGET_LIMIT, 0, False), "not shown to beat no communication")
    ]
    if some:
        entries.append((ScoreCell(designed, some[-1], 0, True), f"best at a budget of epsilon = {some[-1]:g}"))
    for place, (score_cell, words) in enumerate(entries):
        x, y = (8.0, 26.0 + 16 * place) if narrow else (8 + 270.0 * place, 26.0)
        draw_marker(x, y, score_cell)
        write(x + 8, y, words)


def front(boards: Sequence[Board], known: Sequence[Board], name: str) -> list[Plot]:
    """The score of the best agents of each kind against the total, a panel a world, its sizes as lines."""
    worlds: dict[str, list[Board]] = {}
    for board in known:
        if len(at_budgets(boards, board)) > 1:
            worlds.setdefault(board.task.env, []).append(board)
    if not worlds:
        return []
    from matplotlib.lines import Line2D

    dashed = {env: f" (dashed: {some[1].task.name})" if len(some) > 1 else "" for env, some in worlds.items()}
    figure, axes = panels([world_title(env) + dashed[env] for env in worlds], width=9.0, height=2.9)
    shown: dict[str, tuple[str, str]] = {}
    for ax, some in zip(axes, worlds.values(), strict=True):
        for size, board in enumerate(some):
            for label, kinds, color, marker in FRONTS:
                points = []
                for budget, there in at_budgets(boards, board).items():
                    best = there.best(*kinds)
                    score = None if best is None else there.evaluated(best, *kinds)
                    if score is not None:
                        points.append((len(BUDGETS) - 1 - BUDGETS.index(budget), score))
                if points:
                    draw(ax, points, color, marker, LINES[size])
                    shown[label] = color, marker
            known_best = oracles(at_budgets(boards, board))
            if known_best:
                ax.plot(*zip(*known_best, strict=True), LINES[size], color=GREY, linewidth=1)
                shown["an oracle"] = GREY, ""
        ax.axhline(0, color="#444444", linewidth=1)
        ax.axhline(1, color="#444444", linewidth=1, linestyle=":")
        ax.set_xticks(range(len(BUDGETS)), ["1", "3", "10", "none"])
        ax.set_ylim(-0.25, 1.1)
        ax.set_xlabel("privacy budget epsilon of an agent")
        ax.set_ylabel("score")
    handles = [
        Line2D([], [], marker=marker, color=color, markersize=5, label=label)
        for label, (color, marker) in shown.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(shown), fontsize=9)
    caption = (
        "What survives a privacy budget: the score of the best agent of each kind against the privacy budget of an "
        "agent, for each size of a world. 0: no communication, 1: full information without privacy. Bars are 95% "
        f"intervals. Grey, where it is known: an oracle that gets one answer of every agent, at once, "
        f"and listens with the same settings. {covered(worlds)}"
    )
    return [Plot(f"{name}_front", figure, caption)]


def oracles(known: Mapping[float | str, Board]) -> list[tuple[int, float]]:
    """Places of totals, and the oracle's score at each, in the order of totals."""
    results = []
    for budget, board in known.items():
        for group in board.groups:
            score = board.score(group) if group.config["kind"] == ORACLE else None
            if score is not None and math.isfinite(score.value):
                results.append((len(BUDGETS) - 1 - BUDGETS.index(budget), max(score.value, FLOOR)))
    return sorted(results)


def draw(ax: "Axes", points: Sequence[tuple[int, object]], color: str, marker: str, line: str) -> None:
    """A line through scores with bars."""
    known = [(x, score) for x, score in sorted(points, key=lambda point: point[0]) if isinstance(score, Estimate)]
    ax.plot(
        [x for x, _ in known],
        [max(score.value, FLOOR) for _, score in known],
        line,
        marker=marker,
        color=color,
        markersize=5,
    )
    for x, score in known:
        ax.plot([x, x], [score.low, score.high], color=color, linewidth=1, alpha=0.5)
