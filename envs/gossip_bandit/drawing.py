"""Text and pictures of the gossip bandit."""

from typing import Any

import numpy as np

from taciturn.envs.core.drawing import draw_history, option_colours, two_panels


def describe(world: Any, replica: int = 0) -> str:
    """The state of one replica in a line of text."""
    s, i = world.state, replica
    shares = " ".join(f"{share:.3f}" for share in s.holders[i] / world.params.num_agents)
    heard = " ".join(map(str, s.counts[i].tolist()))
    return (
        f"t={s.time[i]:9.4f}  ticks {s.ticks[i]:6d}  shares [{shares}]  next agent_{s.ticker[i, 0]}, "
        f"who prefers {s.preference[i, s.ticker[i, 0]]}, hears [{heard}] of {s.received[i]}"
    )


def draw(world: Any, axes: Any, replica: int = 0) -> None:
    """Draw agents as dots coloured by preference (2,500 at most), and the popularity of the options over time as
    bands."""
    s, p, i = world.state, world.params, replica
    best = world.measure("best")[i]
    dots, bands = two_panels(axes, f"t = {s.time[i]:.2f} of {p.horizon:g}: {best:.1%} prefer the best option")
    shown = np.unique(np.linspace(0, p.num_agents - 1, min(p.num_agents, 2500)).astype(int))
    side = int(np.ceil(np.sqrt(shown.size)))
    x, y = np.arange(shown.size) % side, -(np.arange(shown.size) // side)
    colours = option_colours(p.num_options)
    dots.scatter(x, y, s=(120 / side) ** 2, c=[colours[k] for k in s.preference[i, shown]], linewidths=0)
    dots.set_xlim(-0.6, side - 0.4)
    dots.set_ylim(0.4 - side, 0.6)
    dots.set_aspect("equal")
    dots.set_axis_off()
    times, shares = world.history.run(i, s.time, world.measure("popularity"))
    draw_history(axes, bands, times, shares, s.qualities[i], p.horizon, "time")
