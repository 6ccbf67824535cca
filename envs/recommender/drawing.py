"""Text and pictures of the recommender."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core.drawing import BLUE, ORANGE, PALE, SKY, VERMILION
from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.envs.recommender.geometry import CONTEXT_BITS
from taciturn.envs.recommender.rewards import means
from taciturn.validation import Floats, Ints


def describe(world: Any, replica: int = 0) -> str:
    """The state of one replica in a line of text."""
    s, values = world.state, {name: world.measure(name)[replica] for name in ("reward", "regret", "shared")}
    text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
    items = s.active[replica].sum(1)
    at_hand = f"{items.min()}" if items.min() == items.max() else f"{items.min()} to {items.max()}"
    return f"round {s.time[replica]:5d}  {text}  items at hand {at_hand}{_origin(world)}"


def _origin(world: Any) -> str:
    """The source of the mean rewards, so readers do not mistake them for ratings of real users."""
    family = world.params.family
    return f"  {family.title}" if isinstance(family, Catalogue) else ""


@dataclass(frozen=True)
class Sketch:
    """The part of an agent's knowledge that pictures show.

    Attributes:
        leaves: the item clusters that it distinguishes, int[L, 2]: the positions of the first item and of the item
            after the last, with items ordered by their codes.
        means: mean feedback of each cluster in the context's cell, float64[L], NaN without any.
        cells: the cells of its context partition, float64[C, 2, d]: lower and upper corners.
    """

    leaves: Ints
    means: Floats
    cells: Floats


def draw(world: Any, axes: Any, replica: int = 0) -> None:
    """Draw the last round of the first agent: its items and its knowledge of them, and the context.

    Left: its items in the order of the tree, so clusters lie together, with their hidden mean rewards in the context,
    and, over each cluster that the agent distinguishes, the mean feedback in the context's cell.
    Right: the cells of contexts, in their first two dimensions.
    """
    s, origin = world.state, _origin(world)
    regret = f"round {s.time[replica]}: regret {world.measure('regret')[replica]:.3f}; agent 0"
    axes.set_axis_off()
    axes.set_title(regret + origin, loc="left", fontsize="medium", wrap=True)
    known = world.sketch(replica, 0, s.served[replica, 0])
    draw_items(world, axes.inset_axes((0.07, 0.13, 0.5, 0.68)), known, replica)
    draw_cells(world, axes.inset_axes((0.68, 0.13, 0.32, 0.68)), known, replica)


def draw_items(world: Any, axes: Any, known: Sketch, replica: int = 0) -> None:
    """The left part of `draw`."""
    s, context = world.state, world.state.served[replica, 0]
    order = s.codes[replica].argsort(kind="stable")
    (places,) = np.nonzero(s.active[replica, 0, order])
    items = order[places]
    one = {name: values[replica : replica + 1] for name, values in world.instance(s).items()}
    contexts = np.broadcast_to(context, (1, len(items), len(context)))
    mu = means(world.params.family, contexts, s.items[replica, items][None], one)[0]
    axes.plot(mu, ".", ms=2.5, color="#b9bec6", label="mean reward (hidden)", rasterized=True)
    start, end = np.searchsorted(places, known.leaves.T)
    axes.vlines(start[(start > 0) & (end > start)] - 0.5, 0, 1, color=PALE, linewidth=0.6, zorder=0)
    measured = ~np.isnan(known.means) & (end > start)
    style = {"color": BLUE, "linewidth": 2.0, "label": "mean of feedbacks, by cluster"}
    axes.hlines(known.means[measured], start[measured] - 0.5, end[measured] - 0.5, **style)
    axes.plot(mu.argmax(), mu.max(), "*", ms=10, color=ORANGE, mec="#333", mew=0.6, label="best item")
    (shown,) = np.nonzero(items == s.shown[replica, 0])
    if shown.size:
        axes.plot(shown, mu[shown], "o", ms=7, color="none", mec=VERMILION, mew=1.8, label="shown")
    axes.set(
        xlim=(-0.5, len(items) - 0.5), ylim=(-0.03, 1.03), xlabel="own items, in the order of the tree", ylabel="reward"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=2, frameon=False, fontsize="small", borderaxespad=0.2
    )


def draw_cells(world: Any, axes: Any, known: Sketch, replica: int = 0) -> None:
    """The right part of `draw`."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    context = world.state.served[replica, 0]
    flat = len(context) == 1
    low, high = (
        known.cells[:, k] if not flat else np.pad(known.cells[:, k], ((0, 0), (0, 1)), constant_values=k)
        for k in (0, 1)
    )
    inside = np.minimum(context, 1 - 2.0**-CONTEXT_BITS)  # the last cell holds its upper edge
    here = ((known.cells[:, 0] <= inside) & (inside < known.cells[:, 1])).all(-1)
    boxes = [Rectangle((a[0], a[1]), b[0] - a[0], b[1] - a[1]) for a, b in zip(low, high, strict=True)]
    fill = np.where(here, f"{SKY}40", "#ffffff00")
    axes.add_collection(PatchCollection(boxes, facecolors=fill, edgecolors="#8a929c", linewidths=0.6))
    axes.plot(context[0], 0.5 if flat else context[1], "o", ms=5, color=VERMILION)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="context, dimension 1")
    axes.set_title(f"{len(known.cells)} cell{'s' * (len(known.cells) > 1)} of contexts", fontsize="small")
    if flat:
        axes.set_yticks([])
    else:
        axes.set_ylabel("dimension 2")
