"""Text and pictures of the recommender."""

from typing import Any

import numpy as np

from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.envs.recommender.rewards import means

__all__ = ["describe", "draw"]


def describe(world: Any, replica: int = 0) -> str:
    """The state of one replica in a line of text."""
    s, values = world.state, {name: world.measure(name)[replica] for name in ("reward", "regret", "shared")}
    told = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
    items = s.active[replica].sum(1)
    at_hand = f"{items.min()}" if items.min() == items.max() else f"{items.min()} to {items.max()}"
    return f"round {s.time[replica]:5d}  {told}  items at hand {at_hand}{_origin(world)}"


def _origin(world: Any) -> str:
    """What mean rewards were fitted to, so that nobody takes them for those of the users in the data."""
    family = world.params.family
    return f"  {family.title}" if isinstance(family, Catalogue) else ""


def draw(world: Any, axes: Any, replica: int = 0) -> None:
    """Draw the first agent's items by their first two features, coloured by their mean reward in the present context, which is hidden."""
    s = world.state
    own = np.flatnonzero(s.active[replica, 0])
    one = {name: values[replica : replica + 1] for name, values in world.instance(s).items()}
    items = s.items[replica, own]
    context = np.broadcast_to(s.contexts[replica, 0], (1, len(own), s.contexts.shape[2]))
    mu = means(world.params.family, context, items[None], one)[0]
    dots = axes.scatter(items[:, 0], items[:, 1], c=mu, s=12, cmap="viridis", vmin=0, vmax=1)
    best = mu.argmax()
    axes.scatter(*items[best, :2], s=90, facecolors="none", edgecolors="#d1495b", linewidths=1.5)
    axes.figure.colorbar(dots, ax=axes, label="mean reward")
    axes.set_xlabel("first feature")
    axes.set_ylabel("second feature")
    axes.set_title(
        f"round {s.time[replica]}: regret {world.measure('regret')[replica]:.3f}; agent 0{_origin(world)}",
        fontsize="medium",
    )
