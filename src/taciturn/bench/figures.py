"""Figures: drawn with matplotlib off screen, saved for papers, embedded in the report."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from taciturn.bench import statistics
from taciturn.bench.statistics import Floats
from taciturn.bench.store import write_bytes
from taciturn.bench.study import Results, Study
from taciturn.bench.tables import estimate, privacy, relative_scores

# Okabe & Ito 2008, "Color universal design", without the yellow that white paper swallows
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "grid.color": "#e5e5e5",
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.facecolor": "white",
    "svg.hashsalt": "taciturn",
}


@dataclass(frozen=True)
class Plot:
    """A figure with the name of its files and the sentence under it."""

    name: str
    figure: Figure
    caption: str


def panels(
    titles: Sequence[str] = ("",), *, width: float = 7.5, height: float = 3.6, columns: int = 2
) -> tuple[Figure, list[Axes]]:
    """A figure with one panel per title, `width` inches wide and `height` a row."""
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


def render(figure: Figure, form: str) -> bytes:
    """A figure as "svg", "pdf" or "png", the same bytes every time."""
    buffer = io.BytesIO()
    metadata = {"svg": dict.fromkeys(("Date", "Creator", "Format", "Type")), "pdf": {"CreationDate": None}}.get(form)
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=form, dpi=200, metadata=metadata)
    return buffer.getvalue()


def save(plot: Plot, folder: Path) -> str:
    """Write the figure as PDF and PNG into a folder and return it as SVG."""
    for form in ("pdf", "png"):
        write_bytes(folder / f"{plot.name}.{form}", render(plot.figure, form))
    svg = render(plot.figure, "svg").decode()
    return svg[svg.index("<svg") :]


def standard_plots(study: Study, results: Results) -> list[Plot]:
    """Scores; every curve; score against privacy if some metric is called `epsilon...`; profiles over the facets."""
    curves = dict.fromkeys(name for group in results for name in group.curves)
    spent = [name for name in privacy(*results) if len(finite_means(results, name)) > 1]
    plots = [plot_scores(study, results)]
    plots += [plot_curves(study, results, name) for name in curves]
    plots += [plot_privacy(study, results, name) for name in spent[:1]]
    plots += plot_profiles(study, results)
    return plots


def plot_scores(study: Study, results: Results) -> Plot:
    """The score of every configuration with its interval, one panel per facet."""
    score = study.score
    parts = study.panels(results)
    most = max(len(part) for _, part in parts)
    figure, axes = panels([title for title, _ in parts], columns=1, height=1.0 + 0.28 * most)
    for ax, (_, part) in zip(axes, parts, strict=True):
        reference = study.reference_group(part)
        if reference is not None:
            ax.axvline(reference.metrics[score.metric].mean(), color="#888888", linestyle="--", linewidth=1)
        for row, group in enumerate(part):
            value, low, high = estimate(group.metrics[score.metric])
            color = COLORS[1] if group is reference else COLORS[0]
            ax.plot([low, high], [row, row], color=color, linewidth=3, alpha=0.4, solid_capstyle="butt")
            ax.plot(value, row, "o", color=color)
        ax.set_yticks(range(len(part)), [study.row_label(group, results) for group in part])
        ax.set_ylim(len(part) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel(f"{score.title} ({study.score.direction})")
    dashed = "; the dashed line is the reference" if study.reference else ""
    return Plot(f"{study.name}_score", figure, f"Mean over seeds with its 95% bootstrap interval{dashed}.")


def plot_curves(study: Study, results: Results, name: str, *, x_label: str = "", y_label: str = "") -> Plot:
    """A curve of every configuration: mean over seeds and 95% bootstrap band, one panel per facet.

    Seeds whose curves have different x are interpolated linearly on a grid over the range they share.
    """
    parts = study.panels(results)
    figure, axes = panels([title for title, _ in parts])
    labels: dict[str, int] = {}
    for ax, (_, part) in zip(axes, parts, strict=True):
        for group in part:
            if name not in group.curves:
                continue
            label = study.row_label(group, results)
            index = labels.setdefault(label, len(labels))
            x, ys = common_grid(group.curves[name])
            bands = np.array([statistics.mean(y, resamples=1000) for y in ys.T])
            (line,) = ax.plot(
                x, bands[:, 0], color=COLORS[index % len(COLORS)], linestyle=linestyle(index), label=label
            )
            ax.fill_between(x, bands[:, 1], bands[:, 2], color=line.get_color(), alpha=0.2, linewidth=0)
        ax.set_xlabel(x_label or "time")
        ax.set_ylabel(y_label or name.replace("_", " "))
    shared_legend(figure, axes)
    caption = f"{(y_label or name.replace('_', ' ')).capitalize()}: mean over seeds with its 95% bootstrap band."
    return Plot(f"{study.name}_{name}", figure, caption)


def plot_privacy(study: Study, results: Results, metric: str) -> Plot:
    """Score against privacy spent, one colour per value of `study.color`; infinity stands at the right edge."""
    parts = study.panels(results)
    figure, axes = panels([title for title, _ in parts])
    spent = finite_means(results, metric)
    edge = 4 * max(spent)
    colors: dict[str, int] = {}
    for ax, (_, part) in zip(axes, parts, strict=True):
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
        ax.set_xscale("log" if min(spent) > 0 else "symlog")
        ax.axvline(edge / 2, color="#bbbbbb", linewidth=1)
        ax.text(edge, 1.01, "no privacy", transform=ax.get_xaxis_transform(), ha="center", fontsize=9)
        ax.set_xlabel(f"{metric.replace('_', ' ')} per agent (less is more private)")
        ax.set_ylabel(study.score.title)
    shared_legend(figure, axes)
    return Plot(
        f"{study.name}_privacy", figure, f"What privacy costs: score ({study.score.direction}) against {metric}."
    )


def plot_profiles(study: Study, results: Results) -> list[Plot]:
    """Performance profiles over the facets, of scores relative to the reference's mean: none without at least two
    facets that share their rows and have a positive reference."""
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
    ax.set_xlabel(f"{study.score.title}, relative to the reference")
    ax.set_ylabel(f"share of runs {'above' if sign > 0 else 'below'}")
    shared_legend(figure, [ax])
    caption = "Performance profile: the share of runs, over all panels, beyond each relative score (higher is better)."
    return [Plot(f"{study.name}_profile", figure, caption)]


def common_grid(curves: Sequence[tuple[Floats, Floats]], points: int = 200) -> tuple[Floats, Floats]:
    """Curves `(x, y)` as one `x[n]` and `y[curves, n]`."""
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
    """A line style that tells the second round of colours from the first."""
    return LINES[index // len(COLORS) % len(LINES)]


def shared_legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend under all panels."""
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if len(handles) > 1:
        columns = 2 if max(map(len, handles)) > 30 else 3
        with mpl.rc_context(STYLE):
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
