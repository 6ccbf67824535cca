"""Figures of the standing benchmark: how far agents get from alone to together, and what survives a total of
privacy."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from taciturn.bench.figures import COLORS, LINES, panels
from taciturn.bench.scores import Board, standing
from taciturn.bench.study import Plot
from taciturn.bench.tasks import DESIGNED, LEARNED, NO_LIMIT, ORACLE, STANDARD, TOTALS, YOURS, world_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = (("designed by hand", DESIGNED, COLORS[0], "o"), ("learned", LEARNED, COLORS[1], "D"),
         ("yours", (YOURS,), COLORS[3], "*"))  # fmt: skip
FLOOR = -0.25
GREY = "#888888"
SHADES = {NO_LIMIT: 1.0, 10.0: 0.75, 3.0: 0.5, 1.0: 0.28}
"""How opaque a total's dots are: the stricter, the paler."""


def plots(boards: Sequence[Board], name: str) -> list[Plot]:
    """All figures; none without a scale."""
    known = [board for board in standing(boards) if board.scale is not None and not board.task.control]
    if not known:
        return []
    return [from_alone_to_together(boards, known, name), *front(boards, known, name)]


def title(board: Board) -> str:
    """Such as "gossip bandit, crowd"."""
    size = "" if board.task.name == STANDARD else f", {board.task.name}"
    return f"{world_title(board.task.env)}{size}"


def at_totals(boards: Sequence[Board], board: Board) -> dict[float | str, Board]:
    """The same task at each total."""
    found = {one.task.total: one for one in boards if one.task.plain == board.task.plain}
    return {total: found[total] for total in TOTALS if total in found}


def from_alone_to_together(boards: Sequence[Board], known: Sequence[Board], name: str) -> Plot:
    """One line a task, from alone to together, with a dot for the best of each kind at each total."""
    figure, (ax,) = panels([""], width=9.0, height=0.9 + 0.5 * len(known), columns=1)
    shown = set()
    for row, board in enumerate(known):
        ax.plot([0, 1], [row, row], color="#bbbbbb", linewidth=1.5, zorder=1)
        for place, (_, kinds, color, marker) in enumerate(PARTS):
            for total, there in at_totals(boards, board).items():
                best = there.best(*kinds)
                score = None if best is None else there.judged(best, *kinds)
                if score is not None:
                    shown.add(place)
                    x = min(max(score.value, FLOOR), 1.15)
                    ax.plot(
                        x,
                        row + (place - 1) * 0.2,
                        marker,
                        color=color,
                        alpha=SHADES[total],
                        markersize=9 if marker == "*" else 7,
                        markeredgewidth=0,
                        zorder=3,
                    )
    ax.axvline(0, color="#444444", linewidth=1)
    ax.axvline(1, color="#444444", linewidth=1)
    ax.set_yticks(range(len(known)), [title(board) for board in known])
    ax.set_ylim(len(known) - 0.4, -0.6)
    ax.set_xlim(FLOOR - 0.03, 1.18)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["alone", ".25", ".5", ".75", "together"])
    ax.grid(axis="y", visible=False)
    for place in sorted(shown):
        label, _, color, marker = PARTS[place]
        ax.plot([], [], marker, color=color, markersize=7, label=label)
    for level, shade in SHADES.items():
        text = "no privacy" if level == NO_LIMIT else f"total {level}".removesuffix(".0")
        ax.plot([], [], "o", color="#333333", alpha=shade, markersize=7, markeredgewidth=0, label=text)
    figure.legend(loc="outside lower center", ncols=len(shown) + len(SHADES), fontsize=9)
    caption = (
        "From alone (0: the best agent that hears nobody) to together (1: given what all agents observe, without "
        "privacy). Each dot is the best agent of its kind at a total of epsilon that an agent may spend over its run: "
        "the paler, the less it may spend. It is chosen by one half of the seeds and judged by the other. Scores "
        f"below {FLOOR:g} stand at the left edge."
    )
    return Plot(f"{name}_together", figure, caption)


def front(boards: Sequence[Board], known: Sequence[Board], name: str) -> list[Plot]:
    """The score of the best agents of each kind against the total, a panel a world, its sizes as lines."""
    worlds: dict[str, list[Board]] = {}
    for board in known:
        if len(at_totals(boards, board)) > 1:
            worlds.setdefault(board.task.env, []).append(board)
    if not worlds:
        return []
    from matplotlib.lines import Line2D

    dashed = {env: f" (dashed: {some[1].task.name})" if len(some) > 1 else "" for env, some in worlds.items()}
    figure, axes = panels([world_title(env) + dashed[env] for env in worlds], width=9.0, height=2.9)
    shown: dict[str, tuple[str, str]] = {}
    for ax, some in zip(axes, worlds.values(), strict=True):
        for size, board in enumerate(some):
            for label, kinds, color, marker in PARTS:
                points = []
                for total, there in at_totals(boards, board).items():
                    best = there.best(*kinds)
                    score = None if best is None else there.judged(best, *kinds)
                    if score is not None:
                        points.append((len(TOTALS) - 1 - TOTALS.index(total), score))
                if points:
                    draw(ax, points, color, marker, LINES[size])
                    shown[label] = color, marker
            known_best = oracles(at_totals(boards, board))
            if known_best:
                ax.plot(*zip(*known_best, strict=True), LINES[size], color=GREY, linewidth=1)
                shown["an oracle"] = GREY, ""
        ax.axhline(0, color="#444444", linewidth=1)
        ax.axhline(1, color="#444444", linewidth=1, linestyle=":")
        ax.set_xticks(range(len(TOTALS)), ["1", "3", "10", "none"])
        ax.set_ylim(FLOOR, 1.1)
        ax.set_xlabel("total epsilon of an agent")
        ax.set_ylabel("score")
    handles = [
        Line2D([], [], marker=marker, color=color, markersize=5, label=label)
        for label, (color, marker) in shown.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(shown), fontsize=9)
    caption = (
        "What survives a total: the score of the best agent of each kind against the total epsilon of an agent, for "
        "each size of a world. 0: alone, 1: together without privacy. Bars are 95% intervals. Grey, where it is known: "
        "an oracle that gets one answer of every agent, at once, and listens with the same settings."
    )
    return [Plot(f"{name}_front", figure, caption)]


def oracles(known: Mapping[float | str, Board]) -> list[tuple[int, float]]:
    """Places of totals, and the oracle's score at each, in the order of totals."""
    found = []
    for total, board in known.items():
        for group in board.groups:
            score = board.score(group) if group.config["kind"] == ORACLE else None
            if score is not None and math.isfinite(score.value):
                found.append((len(TOTALS) - 1 - TOTALS.index(total), max(score.value, FLOOR)))
    return sorted(found)


def draw(ax: "Axes", points: Sequence[tuple[int, object]], color: str, marker: str, line: str) -> None:
    """A line through scores with bars."""
    from taciturn.bench.statistics import Estimate

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
