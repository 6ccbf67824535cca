"""Chowdhury & Zhou 2023, Figure 1: the regret of private elimination on easy and hard instances."""

from dataclasses import replace
from typing import Any

import numpy as np

from taciturn.bench.figures import plot_curves
from taciturn.bench.play import play
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score
from taciturn_papers.azize2022.indices import regret_lower_bound
from taciturn_papers.base import PaperStudy
from taciturn_papers.chowdhury2023 import claims
from taciturn_papers.chowdhury2023.indices import local_lower_bound
from taciturn_papers.chowdhury2023.settings import (
    EASY,
    INSTANCES,
    LEVELS,
    LOCAL,
    NAMES,
    SCALES,
    SHORTER,
    bandit,
    means_of,
)

POINTS = 100


class RegretByTrust(PaperStudy):
    name = "chowdhury2023-1"
    title = "Chowdhury & Zhou 2023, Figure 1: regret of private elimination by whom users trust"
    description = (
        "An instance has ten arms with means drawn in [.25, .75] (easy, a million pulls) or in [.45, .55] (hard, ten "
        "million). We run all algorithms on the same 40 instances (the paper: 20), with failure probability 0.1, as in "
        "the paper, and batches of 4^b, as in the published code (Algorithm 1: 2^b). Our rewards are 0 or 1; the "
        "paper's are Gaussian and clipped to [0, 1]. Elimination by shuffled bits and LDP-UCB-B are not in the paper's "
        "figure; LDP-UCB-B runs for a tenth of the pulls, on easy instances."
    )
    figures = ("chowdhury2023/1",)
    score = Score("regret", higher_is_better=False, label="regret")
    facets = ("instance", "policy_params.epsilon")
    seeds = (3, 40)
    runs = (2, 10)
    claims = claims.CLAIMS

    def settings(self, quick: bool) -> list[Config]:
        results = []
        for instance in INSTANCES:
            for level in LEVELS:
                place: dict[str, Any] = {"instance": instance, "epsilon": level, "quick": quick}
                results += [bandit(name, **place) for name in NAMES if name != LOCAL or instance == EASY]
                results += [bandit("DistRDPSE", **place, scale=SCALES[1])]
        return results

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        """Adds to the regret `early`, at a hundredth of the horizon; `late`, at a tenth, where LDP-UCB-B ends; and
        `times_bound`, the regret over ln T times the lower bound for central or local privacy, whichever applies."""
        world, epsilon = cell.config["env_params"], cell.config["policy_params"]["epsilon"]
        means, horizon = means_of(cell.config["instance"], cell.seed), world["horizon"]
        drawn = replace(cell, config=cell.config | {"env_params": world | {"qualities": means.tolist()}})
        result = play(drawn, replicas=cell.config["runs"], record=["regret"], until=horizon, points=POINTS)
        times, regret = (np.asarray(values) for values in result.curves["regret"])
        local = cell.config["policy"] == LOCAL
        bound = local_lower_bound if local else regret_lower_bound
        more = {
            "early": regret[0],
            "late": regret[-1 if local else POINTS // SHORTER - 1],
            "times_bound": regret[-1] / (bound(means, epsilon) * np.log(horizon)),
        }
        return Result({**result.metrics, **more}, {"average_regret": (times, regret / times)})

    def row_label(self, group: Group, results: Results) -> str:
        own = group.config["policy_params"]
        return NAMES[group.config["policy"]] + (f", s = {own['scale']:g}" if "scale" in own else "")

    def plots(self, results: Results) -> list[Plot]:
        plot = plot_curves(self, results, "average_regret", x_label="pulls", y_label="regret per pull")
        seeds = sorted({int(seed) for group in results for seed in group.seeds})
        parts = [part for _, part in self.panels(results)]
        for ax, part in zip(plot.figure.axes, parts, strict=False):
            shown = part.groups[0].config
            times = np.linspace(1, POINTS, POINTS) / POINTS * shown["env_params"]["horizon"]
            bounds = [
                regret_lower_bound(means_of(shown["instance"], seed), shown["policy_params"]["epsilon"])
                for seed in seeds
            ]
            ax.plot(times, np.mean(bounds) * np.log(times) / times, color="#888888", linestyle=":")
            ax.set(xscale="log", yscale="log")
        caption = (
            f"{plot.caption} Dotted: the asymptotic lower bound of Azize et al. 2025 for a trusted curator, averaged "
            "over instances."
        )
        return [Plot(plot.name, plot.figure, caption)]
