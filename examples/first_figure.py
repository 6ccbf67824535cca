"""The README's figure: the reward rate of waiting for k updates, for every k, and of two threshold rules (needs
matplotlib)."""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from taciturn.envs import round_stopping_v0
from taciturn.policies import FixedCount, OptimalStopping
from taciturn.policies.reference.optimal_stopping import threshold_table

solution = OptimalStopping.solve()
counts = range(41)
rates = [round_stopping_v0.evaluate(FixedCount(k).table(100)).rate for k in counts]
paper = solution.evaluate(threshold_table(100, 10, 8)).rate

figure = Figure(figsize=(7, 3.6), layout="constrained")
axes = figure.add_subplot()
axes.plot(counts, rates, "o-", color="#0072b2", markersize=4, label="wait for k updates")
axes.axhline(solution.rate, color="#d55e00", label=f"optimal rule {solution.thresholds}")
axes.axhline(paper, color="#009e73", linestyle="--", label="the paper's rule (10, 8)")
axes.set_xlabel("k")
axes.set_ylabel("reward per second, exact")
axes.set_title("When should a server stop waiting for 100 clients?", loc="left")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.1, 0.0))

target = Path(sys.argv[1] if len(sys.argv) > 1 else "results/first_figure.png")
target.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(target, dpi=150)
print(target)
