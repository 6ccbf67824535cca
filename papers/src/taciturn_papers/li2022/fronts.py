"""Plots of regret against cost, with the Pareto front."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from taciturn.bench.figures import COLORS, MARKERS, facet_axes, shared_legend
from taciturn.bench.results import Group, Results
from taciturn.bench.study import Plot, Study
from taciturn.bench.tables import estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_pareto(
    study: Study,
    results: Results,
    metric: str,
    x_label: str,
    caption: str,
    *,
    label: Callable[[Group], str] | None = None,
    name: str = "pareto",
    height: float = 4.2,
) -> Plot:
    """The score against another metric, both better if lower, in one panel per facet; a line joins the Pareto front.

    Groups with the same `label` share a colour and a marker; the default labels are those of the table's rows.
    """
    figure, parts = facet_axes(study, results, height=height)
    known: dict[str, int] = {}
    for ax, part in parts:
        scores = [estimate(group.metrics[study.score.metric]) for group in part]
        points = [(group.mean(metric), score.value) for group, score in zip(part, scores, strict=True)]
        ax.plot(*zip(*(points[i] for i in pareto_front(points)), strict=True), color="#bbbbbb", linewidth=1.5, zorder=1)
        for group, (at, _), score in zip(part, points, scores, strict=True):
            text = study.label(group, results) if label is None else label(group)
            i = known.setdefault(text, len(known))
            color, marker = COLORS[i % len(COLORS)], MARKERS[(i + i // len(COLORS)) % len(MARKERS)]
            ax.plot(at, score.value, marker, markersize=5, color=color, label=text)
            ax.vlines(at, score.low, score.high, color=color, alpha=0.4, linewidth=3)
        log_scale(ax, "x", [at for at, _ in points])
        log_scale(ax, "y", [score.value for score in scores])
        ax.set(xlabel=x_label, ylabel=study.score.title)
    shared_legend(figure)
    return Plot(f"{study.name}_{name}", figure, caption)


def pareto_front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of the points (x, y) that no other point beats in both coordinates, in increasing order of x."""
    order, best = [], math.inf
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        if points[i][1] < best:
            best = points[i][1]
            order.append(i)
    return order


def log_scale(ax: "Axes", side: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic scale with whole-number ticks, if the values span more than a factor of five."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    if min(values) > 0 and max(values) > 5 * min(values):
        ax.set(**{f"{side}scale": "log"})
        axis = ax.xaxis if side == "x" else ax.yaxis
        axis.set_major_locator(LogLocator(subs=(1, 3) if max(values) < 300 * min(values) else (1,)))
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_minor_formatter(NullFormatter())
