"""The popularity of options over time, as pictures of the worlds of social learning show it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.validation import Floats

__all__ = ["COLOURS", "PopularityHistory", "draw_history", "option_colours", "two_panels"]

# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")


class PopularityHistory:
    """Times and popularity of B replicas at evenly spaced steps, at most `limit` of them.

    Args:
        limit: number of records at which every other one is dropped.
    """

    def __init__(self, limit: int = 400) -> None:
        self.limit, self.stride, self.steps = limit, 1, 0
        self.records: list[tuple[Floats, Floats]] = []

    def record(self, time: Floats, popularity: Callable[[], Floats]) -> None:
        """Add a step: its time [B] and popularity [B, K], which is computed only if the step is kept."""
        if self.steps % self.stride == 0:
            self.records.append((time, popularity()))
            if len(self.records) == self.limit:
                self.records, self.stride = self.records[::2], 2 * self.stride
        self.steps += 1

    def run(self, replica: int, time: Floats, popularity: Floats) -> tuple[Floats, Floats]:
        """Times [n] and popularity [n, K] of the replica's current run, up to the present `time` [B] and `popularity` [B, K]."""
        records = [*self.records, (time, popularity)]
        times, shares = (np.array([record[i][replica] for record in records]) for i in (0, 1))
        resets = np.flatnonzero(np.diff(times) < 0)
        first = resets[-1] + 1 if resets.size else 0
        return times[first:], shares[first:]


def option_colours(num_options: int) -> list[Any]:
    """A colour for each option, and grey for none."""
    if num_options <= len(COLOURS):
        return [*COLOURS[:num_options], "#dddddd"]
    from matplotlib import colormaps

    return [*(colormaps["turbo"](k / (num_options - 1)) for k in range(num_options)), "#dddddd"]


def two_panels(axes: Any, title: str) -> tuple[Any, Any]:
    """Matplotlib axes for a picture of the agents, on the left, and of the history of popularity, on the right."""
    axes.set_axis_off()
    axes.set_title(title, loc="left")
    return axes.inset_axes((0, 0.02, 0.44, 0.92)), axes.inset_axes((0.54, 0.13, 0.45, 0.8))


def draw_history(axes: Any, times: Floats, shares: Floats, qualities: Floats, horizon: float, unit: str) -> None:
    """Draw popularity `shares` [n, K] at `times` [n] as bands."""
    few = len(qualities) <= len(COLOURS)
    labels = [f"{k}: {quality:.3g}" if few else "_" for k, quality in enumerate(qualities)]
    axes.stackplot(times, shares.T, colors=option_colours(len(qualities))[:-1], labels=labels)
    axes.set_xlim(0, horizon)
    axes.set_ylim(0, 1)
    axes.set_xlabel(unit)
    axes.set_title("popularity (option: quality)", fontsize="medium")
    axes.spines[["top", "right"]].set_visible(False)
    if few:
        axes.legend(loc="lower right", fontsize="small", framealpha=0.85)
