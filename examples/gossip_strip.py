"""Pictures of a population that learns by gossip: 400 agents, four options, noisy answers (needs matplotlib)."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import taciturn
from taciturn.envs import gossip_bandit_v0
from taciturn.envs.core.drawing import COLOURS
from taciturn.policies import PPCL

times = np.linspace(0.1, 30.0, 300)
shown = (0.1, 3.0, 6.0, 9.0, 12.0, 30.0)
env = gossip_bandit_v0.population(num_agents=400, qualities="chen2021")
run = taciturn.simulate(
    env, PPCL(epsilon=3.0), seed=2, until=times, record=["popularity", "preference"], privacy="paper"
)

figure = Figure(figsize=(9, 4.2), layout="constrained")
grid = figure.add_gridspec(2, len(shown), height_ratios=(1, 1.3))
x, y = np.arange(400) % 20, np.arange(400) // 20
for column, time in enumerate(shown):
    axes = figure.add_subplot(grid[0, column])
    preference = run.trace["preference"][np.argmin(abs(times - time)), 0]
    axes.scatter(x, y, s=11, c=[COLOURS[k] for k in preference], linewidths=0)
    axes.set_title(f"t = {time:g}", fontsize="medium")
    axes.set_aspect("equal")
    axes.set_axis_off()
bands = figure.add_subplot(grid[1, :])
labels = [f"option {k}, quality {quality:g}" for k, quality in enumerate(env.state.qualities[0])]
bands.stackplot(times, run.trace["popularity"][:, 0].T, colors=COLOURS[:4], labels=labels)
bands.set_xlim(0, 30)
bands.set_ylim(0, 1)
bands.set_xlabel("time (each agent's clock ticks once per unit on average)")
bands.set_ylabel("share of agents")
bands.legend(loc="lower right", fontsize="small")
figure.suptitle("Preferences over time, with noisy answers (epsilon = 3 per answer)", x=0.02, ha="left")

target = Path(sys.argv[1] if len(sys.argv) > 1 else "results/gossip.png")
target.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(target, dpi=130)
print(target)
