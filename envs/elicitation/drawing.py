"""Text and pictures of elicitation."""

from typing import Any

import numpy as np

from taciturn.envs.core.drawing import BLUE, GREEN, ORANGE, PALE, VERMILION, legend_below
from taciturn.envs.elicitation.payments import RULES


def describe(population: Any, replica: int = 0) -> str:
    """One line of text: the last campaign of a replica."""
    s, i = population.state, replica
    rule = RULES[s.rule[i]]
    tally = " ".join(str(count) for count in s.counts[i][:12])
    joined = s.budget[i][s.budget[i] >= 0]
    answer = f"{joined.size} join at eps {joined.mean():.3f}" if joined.size else "nobody joins"
    end = "degenerate" if s.degenerate[i] else f"winner {s.winner[i]}" if rule == "wintall" else rule
    return (
        f"campaign {s.campaign[i]:4d}  {rule} target {s.target[i]:.3f} scale {s.scale[i]:.4f}  {answer}  "
        f"tally [{tally}] {end}  paid {s.paid[i]:.4f}"
    )


def draw(population: Any, axes: Any, replica: int = 0) -> None:
    """Draw the last campaign of a replica: the shares of the reports, the estimate of theta, and the budgets chosen."""
    s, p, i = population.state, population.params, replica
    rule, kinds = RULES[s.rule[i]], s.counts.shape[1]
    axes.set_axis_off()
    joined = s.budget[i][s.budget[i] >= 0]
    paid = f"paid {s.paid[i]:.2f} ({s.paid[i] / max(joined.size, 1):.3f} each, bound {s.bound[i]:.3f})"
    axes.set_title(f"campaign {s.campaign[i]}: {rule.replace('_', ' ')}, {paid}", loc="left", fontsize="medium")
    reports, budgets = axes.inset_axes((0.09, 0.24, 0.5, 0.68)), axes.inset_axes((0.69, 0.24, 0.3, 0.68))
    shares = s.counts[i] / max(int(s.counts[i].sum()), 1)
    wins = (np.arange(kinds) == s.winner[i]) & (rule == "wintall") & ~s.degenerate[i]
    for chosen, colour, name in ((~wins, PALE, "reports"), (wins, ORANGE, "reports that win")):
        if chosen.any():
            reports.bar(np.flatnonzero(chosen), shares[chosen], color=colour, width=0.7, label=name)
    if s.counts[i].any() and p.reporting == "k_ary":
        estimate = np.clip(population.estimate(s.counts, s.target)[i], 0, 1)
        reports.plot(np.arange(kinds), estimate, "D", color=GREEN, markersize=5, label="estimate of theta")
        reports.plot(
            np.arange(kinds), s.theta[i], "_", color=VERMILION, markersize=18, markeredgewidth=2, label="theta (hidden)"
        )
    reports.set(ylim=(0, 1), xlabel="reported value", ylabel="share")
    if kinds <= 10:
        reports.set_xticks(np.arange(kinds))
    legend_below(reports, 2, markerscale=0.6)
    upper = max(2 * p.targets[1], float(joined.max(initial=0)))
    budgets.hist(joined, bins=np.linspace(0, upper, 25), color=BLUE, label=f"{joined.size} of {p.num_individuals}")
    budgets.axvline(s.target[i], color=VERMILION, linestyle="--", label=f"target {s.target[i]:.2f}")
    budgets.set(xlabel="budget eps chosen", ylabel="individuals")
    legend_below(budgets, 1)
    for part in (reports, budgets):
        part.spines[["top", "right"]].set_visible(False)
