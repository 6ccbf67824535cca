"""The federated bandit as a line of text, and as a chart of its arms."""

from typing import Any

import numpy as np

from taciturn.envs.core.drawing import GREEN, ORANGE, legend_below
from taciturn.envs.federated_bandit.model import State

GREY, INK = "#a9b1b8", "#444b52"


def phase(state: State, replica: int) -> str:
    if state.phase_left[replica]:
        return "communicating"
    return "exploring" if state.active[replica].sum() > 1 else "exploiting"


def describe(population: Any, replica: int = 0) -> str:
    """The state of one replica in a line of text."""
    s, i, info = population.state, replica, population.current_info()
    playing = s.active[i]
    shown = "".join("#" if arm else "." for arm in playing[:60]) + ("..." if len(playing) > 60 else "")
    return (
        f"t={s.time[i]:6d}  rounds {s.rounds[i]:2d}  {phase(s, i)}  arms {playing.sum()} [{shown}]  "
        f"regret {info['regret'][i]:.2f}  cost {info['cost'][i]:g}"
    )


def draw(population: Any, axes: Any, replica: int = 0) -> None:
    """Estimated and true mean of every arm: as uploaded, or, before the first round, over all pulls."""
    s: State = population.state
    i, info, arms = replica, population.current_info(), np.arange(s.counts.shape[2])
    playing = s.active[i]
    pulls = s.weight[i].sum(0) if s.rounds[i] else s.counts[i].sum(0)
    mean = s.broadcast[i] if s.rounds[i] else s.sums[i].sum(0) / np.maximum(pulls, 1)
    spread = 2 * np.sqrt(np.clip(mean * (1 - mean), 0, None) / np.maximum(pulls, 1))
    for chosen, colour, name in ((~playing, GREY, "eliminated"), (playing, GREEN, "in play")):
        if (at := chosen & (pulls > 0)).any():
            label = f"{name} ({at.sum()})"
            axes.bar(arms[at], mean[at], yerr=spread[at], color=colour, ecolor=INK, label=label)
    axes.plot(arms, s.quality[i].mean(0), "_", ms=9, mew=2, color=ORANGE, label="true mean")
    axes.set_xlabel("arm")
    axes.set_ylabel("mean reward, two standard errors")
    axes.set_ylim(-0.05, 1.05)
    axes.set_title(
        f"slot {s.time[i]} of {population.params.horizon}, {phase(s, i)}, after {s.rounds[i]} rounds\n"
        f"regret {info['regret'][i]:.1f}, communication cost {info['cost'][i]:g}"
    )
    legend_below(axes, 3)
    axes.spines[["top", "right"]].set_visible(False)
