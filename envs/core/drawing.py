"""Shared parts of the pictures: one palette, legends outside the axes, and the history of popularity."""

from typing import Any

import numpy as np

from taciturn.validation import Floats

# Okabe and Ito's colour-blind safe colours, and one for missing values.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")
BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, YELLOW, GREY = COLOURS
PALE = "#d5d8dc"


def option_colours(num_options: int) -> list[Any]:
    """A colour for each option, and a pale one for no option."""
    if num_options <= len(COLOURS):
        return [*COLOURS[:num_options], PALE]
    from matplotlib import colormaps

    return [*(colormaps["turbo"](k / (num_options - 1)) for k in range(num_options)), PALE]


def legend_below(axes: Any, ncols: int, offset: float = -0.16, **how: Any) -> None:
    """A legend under the axes, `offset` of their height below them, so it covers no data."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, offset), ncols=ncols, frameon=False, fontsize="small", **how)


def two_panels(axes: Any, title: str) -> tuple[Any, Any]:
    """Two Matplotlib axes: agents on the left, history of popularity on the right."""
    axes.set_axis_off()
    axes.set_title(title, loc="left")
    return axes.inset_axes((0, 0.13, 0.44, 0.8)), axes.inset_axes((0.54, 0.13, 0.45, 0.8))


def draw_history(
    axes: Any, places: Any, times: Floats, shares: Floats, qualities: Floats, horizon: float, unit: str
) -> None:
    """Draw popularity `shares` [n, K] at `times` [n] as bands in panel `places`, with a legend under the outer `axes`.

    If there are more options than colours, the legend names the most popular ones.
    """
    from matplotlib.patches import Patch

    colours = option_colours(len(qualities))
    places.stackplot(times, shares.T, colors=colours[:-1])
    places.set_xlim(0, horizon)
    places.set_ylim(0, 1)
    places.set_xlabel(unit)
    places.set_title("popularity", fontsize="medium")
    places.spines[["top", "right"]].set_visible(False)
    named = sorted(np.argsort(-shares[-1], kind="stable")[: len(COLOURS)])
    handles = [Patch(color=colours[k], label=f"option {k}: {qualities[k]:.3g}") for k in named]
    small = {"handlelength": 1.2, "columnspacing": 1.2, "title_fontsize": "small"}
    legend_below(
        axes, 4, 0.0, handles=[*handles, Patch(color=PALE, label="none")], title="options and their qualities", **small
    )
