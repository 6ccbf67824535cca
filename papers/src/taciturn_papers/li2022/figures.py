"""Li & Song 2022, section VII: regret per agent against time, cost and privacy."""

from typing import ClassVar

import numpy as np

from taciturn.bench.figures import (
    COLORS,
    MARKERS,
    facet_axes,
    linestyle,
    plot_curves,
    plot_scores,
    shared_legend,
)
from taciturn.bench.results import Cell, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score
from taciturn_papers.base import PaperStudy
from taciturn_papers.li2022 import claims, settings
from taciturn_papers.li2022.cells import run
from taciturn_papers.li2022.fronts import log_scale, plot_pareto
from taciturn_papers.li2022.settings import (
    BOTH,
    LEVELS,
    ROUNDS,
    SHARES,
    SHORT,
    UNBOUNDED,
    at_epsilon,
    constrained,
)


class FederatedFigure(PaperStudy):
    """Regret per agent, in a panel for each distribution of the means."""

    score = Score("regret_per_agent", higher_is_better=False, label="regret per agent at T")
    facets: ClassVar[tuple[str, ...]] = ("env_params.qualities",)
    runs = (5, 25)
    points: ClassVar[int] = 50
    # Name, metric, unit and caption of each plot of regret against cost.
    fronts: ClassVar[tuple[tuple[str, str, str, str], ...]] = ()

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return run(cell, self.points)

    def row_label(self, group: Group, results: Results) -> str:
        """The configuration without its default entries."""
        label = super().row_label(group, results).replace(f"epsilon={UNBOUNDED}, privacy=none", "no privacy")
        return label.replace(", privacy=paper", "").replace("privacy=none", "no noise")

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        curves = plot_curves(self, results, "regret_per_agent", x_label="slots", y_label="regret per agent")
        fronts = (
            plot_pareto(self, results, metric, f"communication cost ({unit})", caption, name=name)
            for name, metric, unit, caption in self.fronts
        )
        return [curves, plot_scores(self, results), *fronts]


def rounds_of(group: Group) -> str:
    """A group's limit on rounds."""
    rounds = group.config["policy_params"].get("rounds")
    return "no limit" if rounds is None else f"R = {rounds}"


class PrivacyStudy(FederatedFigure):
    name = "li2022-4"
    title = "Li & Song 2022, Figure 4: privacy and regret"
    description = (
        "CDP-MAB with 50 agents and 100 arms. The means of the arms form a grid or are drawn from [0, 1]. The paper's "
        "epsilon sets the scale of the noise; the tables give the accountant's epsilon: per message (Theorem 1), for "
        "all messages of an agent if one reward changes (event level), and if all of its rewards may change (user "
        "level)."
    )
    figures = ("li2022/4",)
    claims = claims.PRIVACY
    configs = tuple(
        setting
        for qualities in BOTH
        for setting in (*(at_epsilon(e, qualities) for e in LEVELS), at_epsilon(0.1, qualities, noise=False))
    )

    def plots(self, results: Results) -> list[Plot]:
        shown = [at_epsilon(e, qualities) for qualities in BOTH for e in (0.1, 0.3, 0.5, 1.0, UNBOUNDED)]
        few = Results(group for one in shown if (group := results.find(one)) is not None)
        plots = super().plots(few)
        return [*plots, self.plot_levels(results)] if len(results) else []

    def plot_levels(self, results: Results) -> Plot:
        """Regret against the paper's epsilon and against the accountant's epsilons."""
        figure, parts = facet_axes(self, results, height=4.2)
        for ax, part in parts:
            groups = [g for g in part if g.config["privacy"] == "paper"]
            regret = [g.mean("regret_per_agent") for g in groups]
            levels = {
                "epsilon of the noise (as in the paper's legend)": [
                    g.config["policy_params"]["epsilon"] for g in groups
                ],
                "one message, and all messages at event level": [g.mean("epsilon_event") for g in groups],
                "all messages at user level": [g.mean("epsilon_user") for g in groups],
            }
            for i, (label, x) in enumerate(levels.items()):
                ax.plot(x, regret, marker=MARKERS[i], color=COLORS[i], linestyle=linestyle(i), label=label)
            for group in part.select(policy_params={"epsilon": UNBOUNDED}):
                ax.axhline(group.mean("regret_per_agent"), color="#888888", linestyle="--", linewidth=1)
            log_scale(ax, "y", regret)
            ax.set(xscale="log", xlabel="epsilon", ylabel="regret per agent at T")
        shared_legend(figure)
        caption = "Regret against epsilon, for three meanings of epsilon; dashed: without privacy."
        return Plot(f"{self.name}_levels", figure, caption)


class ParticipationStudy(FederatedFigure):
    name = "li2022-5"
    title = "Li & Song 2022, Figure 5: participation"
    description = "CDP-MAB with epsilon = 1; in each round N = ceil(pM) of the 50 agents, drawn at random, upload."
    figures = ("li2022/5",)
    claims = claims.PARTICIPATION
    configs = tuple(constrained(p, None, qualities) for qualities in BOTH for p in SHARES)


class RoundsStudy(FederatedFigure):
    name = "li2022-6"
    title = "Li & Song 2022, Figure 6: communication rounds"
    description = (
        "CDP-MAB with epsilon = 1 and p = 1, with at most R rounds or without a limit. With a limit the algorithm "
        "needs the smallest gap; we give it the true one. The text's 'log(T) = 4' implies T = 10^4."
    )
    figures = ("li2022/6",)
    claims = claims.ROUND_LIMITS
    facets = ("env_params.qualities", "env_params.horizon")
    configs = (
        *(constrained(None, r, qualities) for qualities in BOTH for r in (*ROUNDS, None)),
        *(constrained(None, r, "uniform", SHORT) for r in (4, 5, None)),
    )

    def row_label(self, group: Group, results: Results) -> str:
        return rounds_of(group)


class ConstraintsStudy(FederatedFigure):
    name = "li2022-7"
    title = "Li & Song 2022, Figure 7: participation and rounds together"
    description = "CDP-MAB with epsilon = 1, for every pair (p, R) and without a limit on R. An upload costs c1 = 25."
    figures = ("li2022/7",)
    claims = claims.CONSTRAINTS
    runs = (5, 10)
    points = 0
    configs = tuple(constrained(p, r, qualities) for qualities in BOTH for p in SHARES for r in (*ROUNDS, None))

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        caption = (
            "Regret against communication cost, 25 per upload, for p from 0.2 to 1 and all R, with the Pareto front."
        )
        pareto = plot_pareto(self, results, "cost", "communication cost", caption, label=rounds_of)
        return [pareto, plot_scores(self, results)]


class RewardsStudy(FederatedFigure):
    name = "li2022-8"
    title = "Li & Song 2022, Figure 8: heterogeneous rewards"
    description = (
        "5 agents and 10 arms; all agents have the same means, or means are drawn for each agent. CDP-MAB with epsilon "
        "= 1 is compared with agents without communication. Regret is measured by the means averaged over agents."
    )
    figures = ("li2022/8",)
    claims = claims.HETEROGENEITY
    rows = ("policy",)
    runs = (20, 100)
    configs = tuple(
        settings.few_agents(p, q) for q in ("grid", "uniform", "heterogeneous") for p in ("CDPMAB", "SingleAgent")
    )

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        """The metrics also include `final_slope`: regret per agent and slot over the last fifth of the time."""
        result = super().run(cell, progress)
        x, y = map(np.asarray, result.curves["regret_per_agent"])
        i = int(0.8 * len(x)) - 1
        return Result({**result.metrics, "final_slope": (y[-1] - y[i]) / (x[-1] - x[i])}, result.curves)


class GraphsStudy(FederatedFigure):
    name = "li2022-10"
    title = "Li & Song 2022, Figure 10 and Table I: graphs"
    description = (
        "DDP-MAB with epsilon = 1 and 50 agents on a graph, and CDP-MAB with a server. `cost` counts the messages of "
        "the GIS protocol, `cost_bound` every edge in every slot of a round, as Theorem 3 does; c2 = 1. The random "
        "graph is Erdos-Renyi with probability 2 ln M / M, the regular one has degree 4."
    )
    figures = ("li2022/10", "li2022/table-1")
    claims = claims.GRAPHS
    color = "env_params.topology"
    rows = ("env_params.topology",)
    runs = (5, 20)
    fronts = (
        (
            "pareto", "cost", "messages",
            "Regret against the messages of agents, 1 each (25 for an upload to the server), with the Pareto front.",
        ),
    )  # fmt: skip
    configs = tuple(settings.on_graph(name, q) for q in BOTH for name in ("server", *settings.GRAPHS))


class ComponentsStudy(FederatedFigure):
    name = "li2022-11"
    title = "Li & Song 2022, Figure 11 and Table II: components"
    description = (
        "HDP-MAB with epsilon = 1; an upload to the server costs c1 = 50, a message between agents c2 = 1. Case 2 as "
        "printed has 110 agents, and 100 with 53 instead of 63; case 6 is 100 components of one agent, which is "
        "CDP-MAB. `cost` counts the messages of SAC and the uploads, as the proof of Theorem 4 does, `cost_bound` "
        "every edge of a component in every slot."
    )
    figures = ("li2022/11", "li2022/table-2")
    claims = claims.COMPONENTS
    color = "env_params.topology"
    rows = ("env_params.topology",)
    runs = (3, 5)
    fronts = (
        (
            "pareto",
            "cost",
            "messages",
            "Regret against communication cost, 50 per upload, 1 per message between agents.",
        ),
        ("bound", "cost_bound", "bound", "Regret against communication cost, by the edge bound."),
    )
    configs = tuple(settings.in_components(case, q) for q in BOTH for case in settings.TABLE_2)


class StructuresStudy(FederatedFigure):
    name = "li2022-12"
    title = "Li & Song 2022, Figure 12: heterogeneous rewards in three structures"
    description = (
        "100 agents and 10 arms, with a server, on one ring, or on five rings of 20 with a server; epsilon = 1. The "
        "paper does not specify the graphs of its figure (rings have the longest delays), nor its arms: 10 as in "
        "Figure 8. With 100 arms, the means over 100 agents lie so close together that, with every estimate at its "
        "expectation, two or three arms would be left at T. Regret is measured by the means averaged over agents."
    )
    figures = ("li2022/12",)
    claims = claims.HETEROGENEOUS
    color = "env_params.topology"
    rows = ("policy", "env_params.topology")
    seeds = (5, 400)
    runs = (20, 100)
    configs = tuple(
        settings.in_structure(name, q) for q in ("uniform", "heterogeneous") for name in settings.STRUCTURES
    )
