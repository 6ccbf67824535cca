"""Text and pictures of the social bandit."""

from functools import lru_cache
from typing import Any

import numpy as np

from taciturn.envs.core.drawing import draw_history, option_colours, two_panels
from taciturn.graph import Graph
from taciturn.validation import Floats


def describe(world: Any, replica: int = 0) -> str:
    """The state of one replica in a line of text."""
    s, i = world.state, replica
    holders = s.holders[i]
    shares = " ".join(f"{x:.3f}" for x in holders / max(holders.sum(), 1))
    adopters, regret = f"{holders.sum()} of {world.params.num_agents}", world.measure("regret")[i]
    return f"round {s.time[i]:5d}  Q = {shares}  adopters {adopters}  regret {regret:.4f}"


def draw(world: Any, axes: Any, replica: int = 0) -> None:
    """Draw the graph coloured by preference (up to 60 agents; else a bar for each option), and the popularity over time
    as bands."""
    s, p, i, options = world.state, world.params, replica, world.num_options
    colours = option_colours(options)
    holders = s.holders[i]
    held = f"{holders.sum()} of {p.num_agents} hold an option, regret {world.measure('regret')[i]:.3f}"
    left, right = two_panels(axes, f"round {s.time[i]} of {p.horizon:g}: {held}")
    if p.num_agents <= 60:
        x, y = places(p.network).T
        for a, b in p.network.edges if p.network.edges is not None else ():
            left.plot(x[[a, b]], y[[a, b]], color="#b9bec6", linewidth=0.6, zorder=1)
        size = 900 / p.num_agents**0.75 + 12
        fill = [colours[k] for k in s.preference[i]]
        left.scatter(x, y, c=fill, s=size, edgecolors="#333", linewidths=0.6, zorder=2)
        left.set_aspect("equal", adjustable="datalim")
        left.margins(0.1)
        left.set_axis_off()
    else:
        left.bar([*range(options), options + 0.5], [*holders, p.num_agents - holders.sum()], color=colours)
        step = -(-options // 10)
        left.set_xticks([*range(0, options, step), options + 0.5], [*map(str, range(0, options, step)), "none"])
        left.set_title("agents by option", fontsize="medium")
        left.spines[["top", "right"]].set_visible(False)
    times, shares = world.history.run(i, s.time, world.measure("popularity"))
    draw_history(axes, right, times, shares, s.qualities[i], p.horizon, "round")


@lru_cache(4)
def places(network: Graph) -> Floats:
    """Positions of the agents, [N, 2]; those of a complete graph lie on a circle, and its edges are not drawn."""
    if network.edges is None:
        angle = np.linspace(0, 2 * np.pi, network.num_nodes, endpoint=False)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    import networkx as nx

    graph = nx.Graph(network.edges.tolist())
    layout = nx.kamada_kawai_layout(graph)
    return np.array([layout[node] for node in range(network.num_nodes)])
