"""How elicitation is shown, as text and as a picture."""

from typing import Any

import numpy as np

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
    shares = s.counts[i] / max(int(s.counts[i].sum()), 1)
    colours = [
        "#e0a526" if rule == "wintall" and x == s.winner[i] and not s.degenerate[i] else "#9fb1c7" for x in range(kinds)
    ]
    axes.bar(np.arange(kinds), shares, color=colours, width=0.7, label="reports")
    if s.counts[i].any() and p.reporting == "k_ary":
        estimate = np.clip(population.estimate(s.counts, s.target)[i], 0, 1)
        axes.plot(np.arange(kinds), estimate, "D", color="#2a6f4e", markersize=5, label="estimate of theta")
        axes.plot(np.arange(kinds), s.theta[i], "_", color="#b3403a", markersize=18, markeredgewidth=2, label="theta")
    axes.set_ylim(0, 1)
    axes.set_xlabel("reported value (winner in gold)" if rule == "wintall" else "reported value")
    axes.set_ylabel("share")
    if kinds <= 20:
        axes.set_xticks(np.arange(kinds))
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    joined = s.budget[i][s.budget[i] >= 0]
    inset = axes.inset_axes((0.6, 0.6, 0.38, 0.34))
    inset.hist(joined, bins=np.linspace(0, max(2 * p.targets[1], float(joined.max(initial=0))), 25), color="#47597e")
    inset.axvline(s.target[i], color="#b3403a", linewidth=1)
    inset.set_title(f"eps of {joined.size} of {p.num_individuals}; target {s.target[i]:.2f}", fontsize=8)
    inset.tick_params(labelsize=7)
    inset.set_yticks([])
    axes.set_title(
        f"campaign {s.campaign[i]}: {rule.replace('_', ' ')}, paid {s.paid[i]:.2f}"
        f" ({s.paid[i] / max(joined.size, 1):.3f} each, bound {s.bound[i]:.3f})",
        fontsize=10,
    )
