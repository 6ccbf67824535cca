"""Round stopping as a line of text, and as a picture."""

from typing import Any

import numpy as np

from taciturn.envs.core.drawing import BLUE, GREEN, ORANGE, PALE, VERMILION, legend_below


def describe(population: Any, replica: int = 0) -> str:
    """The state of one replica in a line of text."""
    s, p, i = population.state, population.params, replica
    width = min(p.num_clients, 50)
    received = round(width * s.received[i] / p.num_clients)
    queued = round(width * (s.received[i] + s.queued[i]) / p.num_clients) - received
    bar = "#" * received + "+" * queued + "." * (width - received - queued)
    return (
        f"t={s.clock[i]:9.2f}  round {s.rounds[i] + 1:4d}  slot {s.slots[i]:7.1f}  [{bar}]  "
        f"received {s.received[i]}, queued {s.queued[i]}  reward {s.earned[i]:.4f}  "
        f"rate {population.measure('rate')[i]:.6f}"
    )


def draw(population: Any, axes: Any, replica: int = 0) -> None:
    """Draw a replica: bars of the clients' activities and of the time passed, and the reward curve R(k)."""
    s, p, i = population.state, population.params, replica
    received, queued = int(s.received[i]), int(s.queued[i])
    axes.set_axis_off()
    rate = population.measure("rate")[i]
    axes.set_title(
        f"round {s.rounds[i] + 1}, slot {s.slots[i]:.0f}: {s.earned[i]:.4f} earned, rate {rate:.5f}", loc="left"
    )
    bars, worth = axes.inset_axes((0.17, 0.66, 0.81, 0.32)), axes.inset_axes((0.17, 0.14, 0.81, 0.34))
    counts = {"received": (received, GREEN), "queued": (queued, ORANGE)}
    counts["computing"] = p.num_clients - received - queued, PALE
    left = 0.0
    for name, (count, colour) in counts.items():
        share = count / p.num_clients
        bars.barh(1, share, left=left, height=0.7, color=colour, label=f"{count} {name}")
        left += share
    names = [f"{p.num_clients} clients"]
    if p.objective != "lagrangian":
        bars.barh(0, s.clock[i] / p.horizon, height=0.7, color=BLUE)
        bars.barh(0, 1, height=0.7, fill=False, edgecolor=BLUE)
        names = [f"time {s.clock[i]:.1f} of {p.horizon:g}", *names]
    bars.set(xlim=(0, 1), xticks=[], yticks=range(2 - len(names), 2), yticklabels=names)
    legend_below(bars, 3, 0.0)
    worth.plot(np.arange(p.num_clients + 1), p.rewards, color=BLUE, label="R(k)")
    worth.plot(received, p.rewards[received], "o", color=GREEN, label="this round so far")
    if s.rounds[i]:
        worth.axvline(s.updates[i] / s.rounds[i], color=VERMILION, linestyle="--", label="mean of earlier rounds")
    worth.set(xlim=(0, p.num_clients), xlabel="updates received, k", ylabel="reward of a round")
    legend_below(worth, 3, -0.38)
    for part in (bars, worth):
        part.spines[["top", "right"]].set_visible(False)
