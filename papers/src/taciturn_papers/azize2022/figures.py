"""Azize & Basu 2022, Figures 2 and 3: the regret of private bandits against time, and against epsilon."""

import numpy as np

from taciturn.bench.figures import COLORS, panels, plot_curves
from taciturn.bench.play import play
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.statistics import mean
from taciturn.bench.study import Plot, Score
from taciturn_papers.azize2022 import claims
from taciturn_papers.azize2022.indices import first_lower_bound, regret_lower_bound
from taciturn_papers.azize2022.settings import (
    ALPHA,
    ALPHAS,
    GAMMAS,
    HORIZON,
    LEVELS,
    LINEAR,
    NAMES,
    ONE_GOOD,
    QUICK_HORIZON,
    bandit,
    bold,
    tree,
)
from taciturn_papers.base import PaperStudy


class PrivateBandits(PaperStudy):
    """One agent with private pulls. A whole episode is played in one step: the sum of its rewards is binomial."""

    score = Score("regret", higher_is_better=False, label="regret")
    seeds = (3, 10)
    runs = (4, 20)

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        horizon = cell.config["env_params"]["horizon"]
        return play(cell, replicas=cell.config["runs"], record=["regret"], until=horizon, points=50)

    def row_label(self, group: Group, results: Results) -> str:
        own, name = group.config["policy_params"], NAMES[group.config["policy"]]
        levels = {result.config["policy_params"]["epsilon"] for result in results}
        more = [f"epsilon = {own['epsilon']:g}"] if len(levels) > 1 else []
        more += [f"gamma = {own['gamma']:g}"] if "gamma" in own else []
        more += [f"alpha = {own['alpha']:g}"] if own.get("alpha", ALPHA) != ALPHA else []
        return ", ".join([name, *more])


class RegretOverTime(PrivateBandits):
    name = "azize2022-2"
    title = "Azize & Basu 2022, Figure 2: regret of private bandits over time"
    description = (
        "The bandit has five arms with means .75, .625, .5, .375 and .25. We run each algorithm 200 times (the paper: "
        "20) for ten million pulls at epsilon = 1. A trusted curator sees rewards; pulls are private with respect to "
        "each reward. The paper gives gamma = 0.1 for DP-UCB but does not define it: we read it as the probability "
        "that noise exceeds its bound, and also show 0.01 and 1/T. We also show AdaP-KLUCB with alpha = 1 and 0.3, "
        "where its theorem does not hold. DP-KLUCB and DP-IMED were published three years after the paper."
    )
    figures = ("azize2022/2",)
    claims = claims.OVER_TIME

    def settings(self, quick: bool) -> list[Config]:
        horizon = QUICK_HORIZON if quick else HORIZON
        published = [bandit(name, horizon=horizon) for name in NAMES]
        return published + [tree(gamma, horizon) for gamma in GAMMAS] + [bold(alpha, horizon) for alpha in ALPHAS]

    def plots(self, results: Results) -> list[Plot]:
        plot = plot_curves(self, results, "regret", x_label="pulls", y_label="regret")
        horizon = results.groups[0].config["env_params"]["horizon"]
        times = np.linspace(horizon / 50, horizon, 50)
        for ax in plot.figure.axes:
            ax.plot(times, regret_lower_bound(np.array(LINEAR), 1.0) * np.log(times), color="#888888", linestyle=":")
            ax.set_yscale("log")
        caption = f"{plot.caption} Dotted: the asymptotic lower bound of Azize et al. 2025."
        return [Plot(plot.name, plot.figure, caption)]


class RegretByEpsilon(PrivateBandits):
    name = "azize2022-3"
    title = "Azize & Basu 2022, Figure 3: regret of AdaP-KLUCB by epsilon"
    description = (
        "One arm has mean .8, and four have mean .1. We run 200 times (the paper: 20) at each epsilon, for ten million "
        "pulls. DP-IMED, published three years after the paper, is shown for comparison."
    )
    figures = ("azize2022/3",)
    claims = claims.BY_EPSILON

    def settings(self, quick: bool) -> list[Config]:
        horizon = QUICK_HORIZON if quick else HORIZON
        return [bandit(name, ONE_GOOD, level, horizon) for name in ("AdaPKLUCB", "DPIMED") for level in LEVELS]

    def plots(self, results: Results) -> list[Plot]:
        figure, (ax,) = panels()
        horizon, means = results.groups[0].config["env_params"]["horizon"], np.array(ONE_GOOD)
        for color, name in zip(COLORS, ("AdaPKLUCB", "DPIMED"), strict=False):
            found = {
                g.config["policy_params"]["epsilon"]: mean(g.metrics["regret"]) for g in results.select(policy=name)
            }
            levels = sorted(found)
            ax.plot(levels, [found[level].value for level in levels], marker="o", color=color, label=NAMES[name])
            ax.fill_between(
                levels, [found[x].low for x in levels], [found[x].high for x in levels], color=color, alpha=0.2
            )
        grid = np.geomspace(LEVELS[0], LEVELS[-1], 100)
        for bound, style, label in (
            (regret_lower_bound, ":", "lower bound (Azize et al. 2025)"),
            (first_lower_bound, "--", "lower bound (theorem 3)"),
        ):
            ax.plot(grid, [bound(means, x) * np.log(horizon) for x in grid], style, color="#888888", label=label)
        ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="regret")
        ax.legend()
        return [
            Plot(f"{self.name}_epsilon", figure, "Regret: mean over seeds with its 95% band. Bounds are asymptotic.")
        ]
