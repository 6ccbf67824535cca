"""How the round-stopping worlds are shown, as text and as a picture."""

from typing import Any

from taciturn.envs.core import Population


def describe(population: Population[Any], replica: int) -> str:
    """One line of text: the state of a replica."""
    s, p, i = population.state, population.params, replica
    width = min(p.num_clients, 50)
    received = round(width * s.received[i] / p.num_clients)
    queued = round(width * (s.received[i] + s.queued[i]) / p.num_clients) - received
    bar = "#" * received + "+" * queued + "." * (width - received - queued)
    return (
        f"t={s.clock[i]:9.2f}  round {s.rounds[i] + 1:4d}  slot {s.slots[i]:7.1f}  [{bar}]  "
        f"received {s.received[i]}, queued {s.queued[i]}  reward {s.earned[i]:.4f}  rate {population.measure('rate')[i]:.6f}"
    )


def draw(population: Population[Any], axes: Any, replica: int) -> None:
    """Draw a replica: the clients by what they do, and the time that has passed."""
    s, p, i = population.state, population.params, replica
    parts = {
        "received": (s.received[i], "#2a6f4e"),
        "queued": (s.queued[i], "#e0a526"),
        "computing": (p.num_clients - s.received[i] - s.queued[i], "#c9ced6"),
    }
    left = 0
    for name, (count, colour) in parts.items():
        axes.barh(1, count, left=left, height=0.8, color=colour, label=f"{name} {count}")
        left += count
    if p.objective == "rate":
        axes.barh(0, s.clock[i] / p.horizon * p.num_clients, height=0.25, color="#47597e")
        axes.barh(0, p.num_clients, height=0.25, fill=False, edgecolor="#47597e")
        axes.text(0, 0.25, f"time {s.clock[i]:.2f} of {p.horizon:g}", va="bottom")
    axes.set_xlim(0, p.num_clients)
    axes.set_ylim(-0.5, 2.4)
    axes.set_yticks([])
    axes.set_xlabel("clients")
    axes.set_title(
        f"round {s.rounds[i] + 1}, slot {s.slots[i]:.0f}: reward {s.earned[i]:.4f}, rate {population.measure('rate')[i]:.5f}"
    )
    axes.legend(loc="upper center", ncols=3, frameon=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
