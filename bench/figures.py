"""Figures drawn with matplotlib off screen, saved for papers and embedded in the report."""

import io
import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Results
from taciturn.bench.statistics import Floats
from taciturn.bench.store import write_bytes
from taciturn.bench.study import Plot, Study
from taciturn.bench.tables import estimate, privacy, relative_scores
from taciturn.privacy.composition import METHODS
from taciturn.privacy.spending import COVERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito 2008, "Color universal design", without the yellow, which is too pale on white paper
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
INK = "#1c2126"
"""The text colour of figures that take the colour of the page around them."""
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True, "axes.grid": True, "axes.spines.right": False, "axes.spines.top": False,
    "axes.titlesize": 10, "axes.titleweight": "bold", "figure.constrained_layout.use": True, "font.size": 10,
    "grid.color": "#e5e5e5", "legend.frameon": False, "pdf.fonttype": 42, "savefig.facecolor": "white",
    "svg.hashsalt": "taciturn",
}  # fmt: skip


def panels(
    titles: Sequence[str] = ("",), *, width: float = 7.5, height: float = 3.6, columns: int = 2
) -> "tuple[Figure, list[Axes]]":
    """A figure with one panel per title, `width` inches wide and `height` inches per row."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(columns, len(titles))
    down = math.ceil(len(titles) / across)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height * down))
        axes = list(figure.subplots(down, across, squeeze=False).flat)
        for ax, title in zip(axes, titles, strict=False):
            ax.set_title(title, loc="left")
    for spare in axes[len(titles) :]:
        spare.set_visible(False)
    return figure, axes[: len(titles)]


def facet_axes(study: Study, results: Results, **size: float) -> "tuple[Figure, list[tuple[Axes, Results]]]":
    """A figure with one panel per facet, sized as in `panels`, and the results that each panel shows."""
    parts = study.panels(results)
    figure, axes = panels([title for title, _ in parts], **size)  # type: ignore[arg-type]
    return figure, [(ax, part) for ax, (_, part) in zip(axes, parts, strict=True)]


def render(figure: "Figure", form: str, **options: Any) -> bytes:
    """A figure as "svg", "pdf" or "png", the same bytes every time; `options` are as for `savefig`."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    metadata = {"svg": dict.fromkeys(("Date", "Creator", "Format", "Type")), "pdf": {"CreationDate": None}}.get(form)
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=form, dpi=200, metadata=metadata, **options)
    return buffer.getvalue()


def save(plot: Plot, folder: Path) -> list[str]:
    """Write the figure as PDF and PNG into a folder and return it as SVG, with its narrow form if it has one."""
    for form in ("pdf", "png"):
        write_bytes(folder / f"{plot.name}.{form}", render(plot.figure, form))
    return drawings(plot)


def drawings(plot: Plot) -> list[str]:
    """The figure as an SVG element with its caption as alternative text. If it has a narrow form, both forms, in the
    classes `wide` and `narrow`, with text as SVG text in the font and the colour of the page."""
    import matplotlib as mpl

    named = f'<svg role="img" aria-label="{escape(plot.caption)}" '
    if plot.narrow is None:
        svg = render(plot.figure, "svg").decode()
        return [named + svg[svg.index("<svg") + 5 :]]
    results = []
    for kind, figure in (("wide", plot.figure), ("narrow", plot.narrow)):
        with mpl.rc_context({"svg.fonttype": "none"}):
            svg = render(figure, "svg", transparent=True).decode().replace(INK, "currentColor")
        svg = re.sub(r"(?<=font: )(\w+ )?([\d.]+px) [^;\"]+", r"\1\2 system-ui, sans-serif", svg)
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{kind}-", svg)  # both are on one page
        results.append(f'{named}class="{kind}" {svg[svg.index("<svg") + 5 :]}')
    return results


def plots_of(study: Study, results: Results) -> list[Plot]:
    """The study's own plots, or the standard ones."""
    own = study.plots(results)
    return standard_plots(study, results) if own is None else own


def standard_plots(study: Study, results: Results) -> list[Plot]:
    """Scores; every curve; score against privacy loss if there is a metric `epsilon...`; performance profiles over the
    facets."""
    curves = dict.fromkeys(name for group in results for name in group.curves)
    spent = [name for name in privacy(*results) if len(finite_means(results, name)) > 1]
    return [
        plot_scores(study, results),
        *(plot_curves(study, results, name) for name in curves),
        *(plot_privacy(study, results, name) for name in spent[:1]),
        *plot_profiles(study, results),
    ]


def plot_scores(study: Study, results: Results) -> Plot:
    """The score of every configuration with its interval, one panel per facet."""
    score = study.score
    most = max(len(part) for _, part in study.panels(results))
    figure, parts = facet_axes(study, results, columns=1, height=1.0 + 0.28 * most)
    for ax, part in parts:
        reference = study.reference_group(part)
        if reference is not None:
            ax.axvline(reference.metrics[score.metric].mean(), color="#888888", linestyle="--", linewidth=1)
        for row, group in enumerate(part):
            value, low, high = estimate(group.metrics[score.metric])
            color = COLORS[1] if group is reference else COLORS[0]
            ax.plot([low, high], [row, row], color=color, linewidth=3, alpha=0.4, solid_capstyle="butt")
            ax.plot(value, row, "o", color=color)
        ax.set_yticks(range(len(part)), [study.label(group, results) for group in part])
        ax.set_ylim(len(part) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(f"{score.title} ({study.score.direction})")
    dashed = "; the dashed line is the reference" if study.reference else ""
    return Plot(f"{study.name}_score", figure, f"Mean over seeds with its 95% interval{dashed}.")


def plot_curves(study: Study, results: Results, name: str, *, x_label: str = "", y_label: str = "") -> Plot:
    """One curve per configuration: mean over seeds with a 95% band, one panel per facet.

    Curves with different x are interpolated linearly on a grid over their common range.
    """
    figure, parts = facet_axes(study, results)
    labels: dict[str, int] = {}
    x_label, y_label = x_label or "time", y_label or name.replace("_", " ")
    for ax, part in parts:
        for group in part:
            if name not in group.curves:
                continue
            label = study.label(group, results)
            index = labels.setdefault(label, len(labels))
            x, ys = common_grid(group.curves[name])
            draw_band(ax, x, ys, label, COLORS[index % len(COLORS)], linestyle(index))
        ax.set(xlabel=x_label, ylabel=y_label)
    shared_legend(figure)
    caption = f"{y_label.capitalize()}: mean over seeds with its 95% band."
    return Plot(f"{study.name}_{name}", figure, caption)


def plot_privacy(study: Study, results: Results, metric: str) -> Plot:
    """Score against privacy loss, one colour per value of `study.color`; an infinite loss is drawn at the right
    edge."""
    figure, parts = facet_axes(study, results)
    spent = finite_means(results, metric)
    edge = 4 * max(spent)
    colors: dict[str, int] = {}
    for ax, part in parts:
        lines: dict[str, list[tuple[float, float, float, float]]] = {}
        for group in part:
            epsilon = group.metrics[metric].mean()
            label = str(group.flat.get(study.color, study.title))
            point = (epsilon if math.isfinite(epsilon) else edge, *estimate(group.metrics[study.score.metric]))
            lines.setdefault(label, []).append(point)
        for label, points in lines.items():
            index = colors.setdefault(label, len(colors))
            x, y, low, high = np.array(sorted(points)).T
            color, marker = COLORS[index % len(COLORS)], MARKERS[index % len(MARKERS)]
            ax.plot(x, y, marker=marker, color=color, linewidth=1, linestyle=linestyle(index), label=label)
            ax.vlines(x, low, high, color=color, alpha=0.4, linewidth=3)
        label = f"{metric.replace('_', ' ')} per agent (lower is more private)"
        ax.set(xscale="log" if min(spent) > 0 else "symlog", xlabel=label, ylabel=study.score.title)
        ax.axvline(edge / 2, color="#bbbbbb", linewidth=1)
        ax.text(edge, 1.01, "no privacy", transform=ax.get_xaxis_transform(), ha="center", fontsize=9)
    shared_legend(figure)
    known = metric.removeprefix("epsilon_") in METHODS
    caption = f"The price of privacy: score ({study.score.direction}) against {metric}{f', {COVERS}' * known}."
    return Plot(f"{study.name}_privacy", figure, caption)


def plot_profiles(study: Study, results: Results) -> list[Plot]:
    """Performance profiles over the facets, of scores relative to the reference's mean.

    None unless there are at least two facets, all with a positive reference, and a configuration that is in all of
    them.
    """
    relative = relative_scores(study, results)
    if not relative:
        return []
    figure, (ax,) = panels()
    everything = np.concatenate([scores.ravel() for scores in relative.values()])
    thresholds = np.linspace(everything.min(), everything.max(), 101)
    sign = 1 if study.score.higher_is_better else -1
    for index, (label, scores) in enumerate(relative.items()):
        value, low, high = statistics.performance_profile(sign * scores, sign * thresholds)
        color = COLORS[index % len(COLORS)]
        ax.plot(thresholds, value, color=color, linestyle=linestyle(index), label=label)
        ax.fill_between(thresholds, low, high, color=color, alpha=0.2, linewidth=0)
    side = "above" if sign > 0 else "below"
    ax.set(xlabel=f"{study.score.title}, relative to the reference", ylabel=f"share of runs {side}")
    shared_legend(figure)
    caption = "Performance profile: the share of runs, over all panels, beyond each relative score (higher is better)."
    return [Plot(f"{study.name}_profile", figure, caption)]


def draw_band(ax: "Axes", x: Floats, runs: Floats, label: str, color: str | None = None, line: str = "-") -> None:
    """Mean of the runs [runs, n] with its 95% band; fewer than three runs have none."""
    bands = np.array([statistics.mean(y) for y in runs.T])
    (drawn,) = ax.plot(x, bands[:, 0], color=color, linestyle=line, label=label)
    ax.fill_between(x, bands[:, 1], bands[:, 2], color=drawn.get_color(), alpha=0.2, linewidth=0)


def common_grid(curves: Sequence[tuple[Floats, Floats]], points: int = 200) -> tuple[Floats, Floats]:
    """Curves `(x, y)` on one grid: `x[n]` and `y[curves, n]`."""
    first = curves[0][0]
    if all(np.array_equal(first, x) for x, _ in curves):
        return first, np.stack([y for _, y in curves])
    grid = np.linspace(max(x.min() for x, _ in curves), min(x.max() for x, _ in curves), points)
    return grid, np.stack([np.interp(grid, x, y) for x, y in curves])


def finite_means(results: Results, metric: str) -> set[float]:
    """The distinct finite means of a metric over the configurations."""
    means = [float(group.metrics[metric].mean()) for group in results if metric in group.metrics]
    return {mean for mean in means if math.isfinite(mean)}


def linestyle(index: int) -> str:
    """A line style that distinguishes the second cycle of colours from the first."""
    return LINES[index // len(COLORS) % len(LINES)]


def shared_legend(figure: "Figure") -> None:
    """One legend below all panels."""
    import matplotlib as mpl

    every = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    handles = {label: handle for pairs in every for handle, label in pairs}
    if len(handles) > 1:
        columns = 2 if max(map(len, handles)) > 30 else 3
        with mpl.rc_context(STYLE):
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
