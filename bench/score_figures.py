"""Figures of the benchmark `agents`: the scores of the best agents in each environment, and the cost of privacy
budgets."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from taciturn.bench.figures import INK, STYLE
from taciturn.bench.scores import Board, standing
from taciturn.bench.statistics import Estimate
from taciturn.bench.study import Plot
from taciturn.bench.tables import listed
from taciturn.bench.tasks import (
    AS_TRAINED,
    BENCHMARKS,
    BUDGETS,
    CLASSIC,
    LEARNED,
    NO_BUDGET_LIMIT,
    PAPER,
    STANDARD,
    TASK_AGENT,
    YOURS,
    size_of,
    world_title,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = (("classic", (CLASSIC,), "#6b7680", "^"), ("published", (PAPER,), "#16855f", "s"),
         ("hand-designed", (TASK_AGENT,), "#2274b5", "o"), ("learned", LEARNED, "#c84c08", "D"),
         ("yours", (YOURS,), "#b8468f", "h"))  # fmt: skip
"""Kinds of agents, each with a colour (contrast 3:1 with white and with black, distinct for colour-blind people) and a
marker."""
SIZES = (("#7d6bb8", "o", "-"), ("#9a6a2f", "s", "--"))
"""Colour, marker and line of the standard size and of the other one; kinds of agents have other colours."""
FLOOR, CEILING = -1.0, 1.05
"""The axis of scores. A lower score is written as a number."""
COVERAGE_NOTE = "The table 'What a budget covers' names the protected data."
STRENGTHS = [budget for budget in reversed(BUDGETS) if budget != NO_BUDGET_LIMIT]
"""Budgets, the smallest first."""


def plots(boards: Sequence[Board], name: str, seeds: str = "") -> list[Plot]:
    """Both figures; none without a scale. `seeds` gives the number of seeds if that is too small to rank by."""
    known = [board for board in standing(boards) if board.scale is not None]
    if not known:
        return []
    budgeted = [board for board in known if private(row_of(boards, board))]
    second = [price(boards, budgeted, name)] if budgeted else []
    return [overview(boards, known, name, seeds), *second]


def at_budgets(boards: Sequence[Board], board: Board) -> dict[float | str, Board]:
    """The same task at each budget."""
    results = {one.task.budget: one for one in boards if one.task.plain == board.task.plain}
    return {budget: results[budget] for budget in BUDGETS if budget in results}


class Best(NamedTuple):
    """The best agent under a budget: its kind (an index into `PARTS`), name and score; `gains` if the 95% interval of
    the score lies above 0, and `few` if it has too few trainings to be called the best."""

    part: int
    name: str
    score: float
    gains: bool
    few: bool = False


class Row(NamedTuple):
    """An environment: its title and size, whether it is a control, the best agent of each kind without privacy, and of
    all kinds (or yours) under each budget, and whether its agents share anything."""

    world: str
    size: str
    control: bool
    kinds: list[Best]
    budgets: dict[float | str, Best]
    shared: bool = True

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Sort key: by decreasing score at the smallest budget, then environments without budgets, and controls
        last."""
        shared = [best for budget, best in self.budgets.items() if budget != NO_BUDGET_LIMIT]
        return self.control, not shared, -(shared[-1].score if shared else 0.0)


def best_of(board: Board, part: int) -> Best | None:
    """The best agent of a kind, or of all kinds if `part` is -1."""
    kinds = PARTS[part][1] if part >= 0 else ()
    best = board.best(*kinds)
    score = None if best is None else board.evaluated(best, *kinds)
    if best is None or score is None or not math.isfinite(score.value):
        return None
    own = next((place for place, one in enumerate(PARTS) if best.config["kind"] in one[1]), None)
    if own is None:  # random play, if nothing else was played
        return None
    return Best(own, board.label(best).partition(" (")[0], score.value, score.low > 0, board.too_few(best))


def row_of(boards: Sequence[Board], board: Board) -> Row:
    """The row of a task without privacy; at budgets under which no other agent played, it shows the user's agent."""
    kinds = [one for part in range(len(PARTS)) if (one := best_of(board, part)) is not None]
    found = {
        budget: best_of(one, -1) or best_of(one, len(PARTS) - 1) for budget, one in at_budgets(boards, board).items()
    }
    number, what = size_of(board.task)
    best_at = {budget: one for budget, one in found.items() if one is not None}
    size = f"{number} {what}{', control' * board.task.control}"
    shared = BENCHMARKS[board.task.env].budgets is not None
    return Row(world_title(board.task.env), size, bool(board.task.control), kinds, best_at, shared)


def score_text(score: float) -> str:
    """The score as text, such as "0.57", with a minus sign as wide as a plus."""
    return f"{score + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")


def overview(boards: Sequence[Board], known: Sequence[Board], name: str, seeds: str = "") -> Plot:
    """One row for each environment, in its standard size."""
    rows = sorted((row_of(boards, board) for board in known if board.task.name == STANDARD), key=lambda row: row.order)
    rows = rows or [row_of(boards, board) for board in known]
    caption = (
        "Scores of the best agent of each kind, without privacy. A score of 0 is that of the best agent that does not "
        "communicate. A score of 1 is full information: an agent that gets all agents' data, without privacy. A filled "
        "marker means that the 95% interval lies above 0. A dotted marker means that a learner has too few trainings "
        "to be called the best. "
    )
    if played := played_budgets(rows):
        *larger, smallest = (f"{budget:g}" for budget in played)
        others = f", and with a larger budget (epsilon = {' or '.join(larger)})" if larger else ""
        caption += (
            "The line below the markers shows the best agent of all kinds under a privacy budget for its whole run. "
            f"Its marker is the score at epsilon = {smallest}. Ticks show the scores without a budget{others}. "
            f"{COVERAGE_NOTE} "
        )
    unshared = [row.world for row in rows if not row.shared]
    if unshared and any(map(private, rows)):
        caption += f"Agents share nothing in {listed(unshared)}, so there is no budget. "
    controls = list(dict.fromkeys(world_title(board.task.env) for board in known if board.task.control))
    caption += f"Controls, which do not count in the comparison of agents: {listed(controls)}. " * bool(controls)
    caption += f"{seeds}." if seeds else "One half of the seeds selects the agents, and the other half evaluates them."
    wide, narrow = (Canvas(rows, narrow=narrow, named=not seeds).draw() for narrow in (False, True))
    return Plot(f"{name}_scores", wide, caption, narrow)


class Canvas:
    """The first figure; its unit is a point, and y grows downwards. A narrow figure has its text above the dots."""

    def __init__(self, rows: Sequence[Row], *, narrow: bool, named: bool) -> None:
        self.rows, self.narrow, self.named = rows, narrow, named
        self.width, self.font = (360.0, 11.0) if narrow else (880.0, 11.0)
        self.left = 10.0 if narrow else 150.0
        self.right = self.width - (316.0 if named and not narrow else 12.0)
        self.head = 22.0 if narrow else 4.0
        self.parts = sorted({best.part for row in rows for best in [*row.kinds, *row.budgets.values()]})
        self.played = played_budgets(rows)
        self.private = bool(self.played)
        self.ax: Axes

    def x(self, score: float) -> float:
        """The x coordinate of a score."""
        share = (min(max(score, FLOOR), CEILING) - FLOOR) / (CEILING - FLOOR)
        return self.left + share * (self.right - self.left)

    def write(self, x: float, y: float, words: str, **style: Any) -> None:
        self.ax.text(x, y, words, va="center", **style)

    def line(self, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
        self.ax.plot(x, y, **({"color": INK} | style))

    def mark(self, x: float, y: float, part: int, *, filled: bool, size: float = 9.0, dotted: bool = False) -> None:
        _, _, color, shape = PARTS[part]
        if dotted:
            self.ax.scatter(
                x, y, 60, marker=shape, facecolors="none", edgecolors=color, linewidths=1.5, linestyles=(0, (1, 1)),
            )  # fmt: skip
            return
        self.ax.plot(
            x, y, shape, color=color, markerfacecolor=color if filled else "none", markeredgewidth=1.5,
            markersize=size * (0.85 if shape == "D" else 1.0),
        )  # fmt: skip

    def draw(self) -> "Figure":
        """The whole figure."""
        import matplotlib as mpl
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import PlaceHolderLayoutEngine

        heights = [self.height(row) for row in self.rows]
        legend = (88.0 if self.narrow else 44.0) + 20.0 * self.private
        axis = 34.0
        tall = legend + axis + sum(heights) + 10
        with mpl.rc_context(STYLE | {"axes.grid": False, "font.size": self.font, "text.color": INK}):
            figure = Figure(figsize=(self.width / 72, tall / 72), layout=PlaceHolderLayoutEngine(True, True))
            self.ax = figure.add_axes((0, 0, 1, 1))
            self.ax.set(xlim=(0, self.width), ylim=(tall, 0))
            self.ax.axis("off")
            self.legend()
            top = self.axis(legend)
            for row, height in zip(self.rows, heights, strict=True):
                self.row(row, top, height)
                top += height
            self.line([0, self.width], [top, top], alpha=0.2, linewidth=0.8)
        return figure

    def height(self, row: Row) -> float:
        lanes = 24.0 + 18.0 * private(row) + 18.0 * bool(self.off_scale(row))
        text = (20.0 + 17.0 * self.named * len(self.best_texts(row))) if self.narrow else 0.0
        return max(lanes + text + 6, 42.0)

    def off_scale(self, row: Row) -> str:
        """The scores left of the axis, in words."""
        low = [f"{PARTS[best.part][0]} {score_text(best.score)}" for best in row.kinds if best.score < FLOOR]
        low += [
            f"\u03b5 = {budget:g}: {score_text(best.score)}"
            for budget, best in row.budgets.items()
            if budget != NO_BUDGET_LIMIT and best.score < FLOOR
        ]
        return f"\N{LEFTWARDS ARROW} {', '.join(low)}" if low else ""

    def best_texts(self, row: Row) -> list[tuple[float | str, Best, str]]:
        """The best agent without privacy and at the smallest budget, and its name and score."""
        shown = (NO_BUDGET_LIMIT, *self.played[-1:])
        some = [(budget, row.budgets[budget]) for budget in shown if budget in row.budgets]
        return [(budget, best, f"{best.name} {score_text(best.score)}") for budget, best in some]

    def legend(self) -> None:
        """The legend, above the rows."""
        places = [(8.0, 10.0), (110.0, 10.0), (8.0, 30.0), (110.0, 30.0), (235.0, 30.0)] if self.narrow else [
            (self.left + 8 + 118 * place, 10.0) for place in range(len(PARTS))
        ]  # fmt: skip
        for (x, y), part in zip(places, self.parts, strict=False):
            self.mark(x, y, part, filled=True)
            self.write(x + 10, y, PARTS[part][0])
        few = any(best.few for row in self.rows for best in row.kinds)
        x, y = (8.0, 50.0) if self.narrow else (self.left + 8, 32.0)
        self.mark(x, y, 2, filled=True)
        self.write(x + 10, y, "95% interval above 0")
        x += 150
        self.mark(x, y, 2, filled=False)
        self.write(x + 10, y, "not above 0")
        if few:
            x, y = (8.0, 70.0) if self.narrow else (x + 100, y)
            self.mark(x, y, 3, filled=False, dotted=True)
            self.write(x + 10, y, "too few trainings to be best")
        if self.private:
            x, y = (8.0, 90.0) if self.narrow else (self.left, 52.0)
            self.line([x, x + 40], [y, y], linewidth=1.5, alpha=0.6)
            for tick in range(len(self.played)):
                self.line([x + 40 - 13 * tick] * 2, [y - 4, y + 4], linewidth=1.5, alpha=0.6)
            self.mark(x + 2, y, 2, filled=True, size=7)
            words = "best: " if self.narrow else "best agent of all kinds at "
            smallest, *larger = (f"{budget:g}" for budget in reversed(self.played))
            self.write(x + 48, y, f"{words}\u03b5 = {smallest} (marker), {', '.join([*larger, 'none'])} (ticks)")

    def axis(self, top: float) -> float:
        """The numbers of the axis; returns the y coordinate of the first row."""
        for score in (FLOOR, -0.5, 0.0, 0.5, 1.0):
            self.write(
                self.x(score), top + 26, score_text(score).replace(".00", "").replace("0.50", "0.5"), ha="center"
            )
        if not self.narrow:
            self.write(2, top + 26, "score")
        self.write(self.x(0), top + 10, "no communication", ha="center", fontsize=self.font - 1)
        self.write(self.right + 2, top + 10, "full information", ha="right", fontsize=self.font - 1)
        if not self.narrow and self.named:
            self.write(self.right + 14, top + 18, "best, no privacy", weight="bold")
            if self.private:
                self.write(self.right + 168, top + 18, f"best, \u03b5 = {self.played[-1]:g}", weight="bold")
        return top + 34

    def row(self, row: Row, top: float, height: float) -> None:
        """An environment: its names, its dots, and its line."""
        lanes = top + (20.0 + 17.0 * self.named * len(self.best_texts(row)) if self.narrow else 0.0)
        self.line([0, self.width], [top, top], alpha=0.2, linewidth=0.8)
        if self.narrow:
            self.write(2, top + 12, row.world, weight="bold")
            self.write(self.width - 2, top + 12, row.size, ha="right", fontsize=self.font - 1)
            for place, (budget, best, words) in enumerate(self.best_texts(row) * self.named):
                when = "no privacy" if budget == NO_BUDGET_LIMIT else f"\u03b5 = {budget:g}"
                self.mark(8, top + 29 + 17 * place, best.part, filled=best.gains, size=7)
                self.write(18, top + 29 + 17 * place, f"best, {when}: {words}", fontsize=self.font - 1)
        else:
            self.write(2, top + 14, row.world, weight="bold")
            self.write(2, top + 30, row.size, fontsize=self.font - 1)
            for budget, best, words in self.best_texts(row) * self.named:
                x = self.right + (12 if budget == NO_BUDGET_LIMIT else 166)
                self.mark(x, top + 16, best.part, filled=best.gains, size=7)
                self.write(x + 9, top + 16, words)
            if self.named and self.private and not row.shared:
                self.write(self.right + 175, top + 16, "nothing is shared")
        for score in (FLOOR, -0.5, 0.0, 0.5, 1.0):
            strong = score in (0.0, 1.0)
            self.line([self.x(score)] * 2, [lanes + 2, lanes + 28 + 18 * private(row)], alpha=0.6 if strong else 0.15,
                      linewidth=1.2 if strong else 0.8)  # fmt: skip
        self.dots(row, lanes + 16)
        if private(row):
            self.budgets(row, lanes + 36)
        if words := self.off_scale(row):
            self.write(self.left - 2, lanes + 37 + 18 * private(row), words, fontsize=self.font - 1)

    def dots(self, row: Row, y: float) -> None:
        """The best agent of each kind; overlapping dots are drawn above and below the middle."""
        taken: list[tuple[float, float]] = []
        for best in sorted(row.kinds, key=lambda best: -best.score):
            if best.score >= FLOOR:
                x = self.x(best.score)
                near = {shift for other, shift in taken if abs(other - x) < 11}
                shift = next((one for one in (0.0, -9.0, 9.0) if one not in near), 0.0)
                taken.append((x, shift))
                self.mark(x, y + shift, best.part, filled=best.gains, dotted=best.few)

    def budgets(self, row: Row, y: float) -> None:
        """The line of the best agent, from no privacy to the smallest budget."""
        places = [self.x(best.score) for best in row.budgets.values()]
        self.line([min(places), max(places)], [y, y], linewidth=1.5, alpha=0.6)
        for place in places[:-1]:
            self.line([place] * 2, [y - 4, y + 4], linewidth=1.5, alpha=0.6)
        last = list(row.budgets.values())[-1]
        if last.score >= FLOOR:
            self.mark(places[-1], y, last.part, filled=last.gains, size=7.5)
        else:
            self.line(places[-1:], [y], marker="<", markersize=6, alpha=0.6)


def private(row: Row) -> bool:
    """Whether agents of the environment were played under a budget."""
    return len(row.budgets) > 1


def played_budgets(rows: Sequence[Row]) -> list[float]:
    """The values of epsilon under which agents were played, the largest first."""
    return sorted({budget for row in rows for budget in row.budgets if not isinstance(budget, str)}, reverse=True)


def price(boards: Sequence[Board], known: Sequence[Board], name: str) -> Plot:
    """The score of the best agent against epsilon: a panel for each environment, and a line for each of its sizes."""
    worlds: dict[str, list[Board]] = {}
    for board in known:
        worlds.setdefault(board.task.env, []).append(board)
    caption = (
        "Score of the best agent against its privacy budget epsilon, with one line for each size of the environment. "
        "A score of 0 is that of the best agent that does not communicate, and 1 is full information, both without "
        f"privacy. Bars are 95% intervals, cut at {FLOOR:g}. {COVERAGE_NOTE}"
    )
    order = sorted(worlds, key=lambda env: row_of(boards, worlds[env][0]).order)  # as in the first figure
    some = {env: [(label_of(one), curve(at_budgets(boards, one))) for one in worlds[env]] for env in order}
    wide, narrow = (small_panels(some, columns=columns) for columns in (4, 2))
    return Plot(f"{name}_budgets", wide, caption, narrow)


def label_of(board: Board) -> str:
    """The label, such as "100 agents", with the name of the task if its number of agents is the standard one."""
    number, what = size_of(board.task)
    same = board.task.name != STANDARD and size_of(board.task._replace(variant=AS_TRAINED))[0] == number
    return f"{number} {what}{', ' * same}{board.task.name.replace('-', ' ') * same}"


def curve(at: Mapping[float | str, Board]) -> list[tuple[int, Estimate]]:
    """Positions of budgets on the axis, and the score of the best agent at each."""
    places = [*STRENGTHS, NO_BUDGET_LIMIT]
    found = []
    for place, budget in enumerate(places):
        board = at.get(budget)
        kinds = () if board is None or board.best() else (YOURS,)
        best = board and board.best(*kinds)
        score = board.evaluated(best, *kinds) if board and best else None
        if score is not None and math.isfinite(score.value):
            found.append((place, score))
    return found


def small_panels(worlds: Mapping[str, list[tuple[str, list[tuple[int, Estimate]]]]], *, columns: int) -> "Figure":
    """A figure with a panel for each environment."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(columns, len(worlds))
    down = math.ceil(len(worlds) / across)
    colors = {f"{part}.color": INK for part in ("text", "xtick", "ytick")} | {
        "axes.labelcolor": INK,
        "axes.edgecolor": INK,
    }
    with mpl.rc_context(STYLE | colors | {"font.size": 11 if columns > 2 else 10, "axes.grid": False}):
        figure = Figure(figsize=((880 if columns > 2 else 360) / 72, 200 / 72 * down))
        axes = list(figure.subplots(down, across, squeeze=False, sharey=True, sharex=True).flat)
        for ax, (env, sizes) in zip(axes, worlds.items(), strict=False):
            ax.set_title(world_title(env), loc="left", pad=36)
            for height, score in (("no communication", 0.0), ("full information", 1.0)):
                ax.axhline(score, color=INK, linewidth=1.0, alpha=0.6, gid=height)
            for line, (label, points) in enumerate(sizes[: len(SIZES)]):
                draw(ax, points, *SIZES[line])
                color, _, style = SIZES[line]
                ax.plot(
                    [0.0, 0.13], [1.18 - 0.12 * line] * 2, style, color=color, transform=ax.transAxes, clip_on=False
                )
                ax.text(0.17, 1.18 - 0.12 * line, label, transform=ax.transAxes, va="center")
            ax.set(ylim=(FLOOR, 1.15), xlim=(-0.3, 3.3), yticks=(-1, 0, 1))
            ax.set_xticks(range(len(BUDGETS)), [*(f"{budget:g}" for budget in STRENGTHS), "none"])
            ax.tick_params(labelbottom=True)
            if columns > 2:  # otherwise the caption says so
                ax.set_yticks(
                    (-1, 0, 1), ["\N{MINUS SIGN}1", "no communication  0", "full information  1"], fontsize=10
                )
        figure.supxlabel("privacy budget \u03b5 of an agent", fontsize=11 if columns > 2 else 10, color=INK)
        figure.supylabel("score", fontsize=11 if columns > 2 else 10, color=INK)
        for spare in axes[len(worlds) :]:
            spare.set_visible(False)
    return figure


def draw(ax: "Axes", points: Sequence[tuple[int, Estimate]], color: str, marker: str, line: str) -> None:
    """A line through scores, and their intervals as bars."""
    x, y = [place for place, _ in points], [score.value for _, score in points]
    ax.plot(x, y, line, marker=marker, color=color, markersize=5)
    for place, score in points:
        ax.plot([place] * 2, [score.low, score.high], color=color, linewidth=1, alpha=0.6)
