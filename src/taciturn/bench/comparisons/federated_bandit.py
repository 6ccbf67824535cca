"""What do agents gain by talking, what does it cost, and what does it give away? All policies of the federated bandit in one world."""

import math
from typing import ClassVar

from taciturn.bench.figures import Plot, plot_privacy, plot_scores
from taciturn.bench.papers.li2022 import plot_pareto, run
from taciturn.bench.play import config
from taciturn.bench.study import Cell, Config, Floats, Group, Progress, Result, Results, Score, Study, register
from taciturn.bench.tables import Table, mean_text, number, standard_tables

SHORT = {"participation": "p", "rounds": "R"}


@register
class ComparisonStudy(Study):
    name = "federated-bandit"
    title = "Federated bandits: regret, messages and epsilon side by side"
    description = (
        "10 agents and 20 arms, whose means are a grid alike for all agents or drawn for each; T = 10^4, or 2,000 if quick. Policies that "
        "need a graph play on a ring, hybrids on two rings of 5, all others with a server. What is spent is of a message, of all of an "
        "agent's messages where one reward changes (event), and where all of its rewards may (user): 0 for those that tell nothing. "
        "Regret is by the means over agents."
    )
    score = Score("regret_per_agent", higher_is_better=False, label="regret per agent at T")
    facets = ("env_params.qualities",)
    reference: ClassVar[Config] = {"policy": "SingleAgent"}
    private: ClassVar[tuple[tuple[str, Config, str, str], ...]] = (
        ("CDPMAB", {"epsilon": 1.0}, "paper", "server"),
        ("CDPMAB", {"epsilon": 0.1}, "paper", "server"),
        ("CommunicationEfficientCDPMAB", {"participation": 0.6, "rounds": 4}, "paper", "server"),
        ("DDPMAB", {"epsilon": 1.0}, "paper", "ring"),
        ("HDPMAB", {"epsilon": 1.0}, "paper", "two rings"),
        ("Fed2UCB", {"admit_all": True}, "Laplace:10", "server"),
    )
    plain: ClassVar[tuple[tuple[str, Config, str, str], ...]] = (
        ("Fed2UCB", {"admit_all": True}, "none", "server"),
        ("Fed2UCB", {"sigma_c": 0.25}, "none", "server"),
        ("CoopUCB2", {}, "none", "ring"),
        ("DDUCB", {}, "none", "ring"),
        ("GossipUCB", {}, "none", "ring"),
        ("SingleAgent", {}, "none", "server"),
        *(
            (name, {}, "none", "server")
            for name in ("UCB1", "KLUCB", "MOSS", "ThompsonSampling", "SuccessiveElimination")
        ),
        ("DPSuccessiveElimination", {"epsilon": 1.0}, "none", "server"),
        ("CentralisedOracle", {}, "none", "server"),
    )

    def cells(self, quick: bool) -> list[Cell]:
        horizon, seeds = (2_000, 3) if quick else (10_000, 20)
        world = {"num_agents": 10, "num_arms": 20, "horizon": horizon}
        found = [
            config("federated_bandit_v0", policy, own, privacy, **world, qualities=qualities, topology=structure)
            | {"runs": 1 if quick else 4}
            for qualities in ("grid", "heterogeneous")
            for policy, own, privacy, structure in (*self.private, *self.plain)
        ]
        return self.sweep(found, range(seeds))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return run(cell, 20)

    def row_label(self, group: Group, results: Results) -> str:
        own = ", ".join(f"{SHORT.get(name, name)}={value}" for name, value in group.config["policy_params"].items())
        noise = group.config["privacy"]
        return (
            group.config["policy"]
            + (f" ({own})" if own else "")
            + (f", {noise}" if noise not in ("paper", "none") else "")
        )

    def tables(self, results: Results) -> list[Table]:
        """What is gained, said and given away side by side, before the standard tables."""
        if not len(results):
            return []
        rows = [
            [
                str(group.config["env_params"]["qualities"]),
                self.row_label(group, results),
                mean_text(group.metrics["regret_per_agent"]),
                number(round(group.metrics["messages"].mean())),
                *(spent(group.metrics[f"epsilon_{level}"]) for level in ("message", "event", "user")),
            ]
            for group in results
        ]
        columns = ("qualities", "policy", "regret per agent", "messages", "of a message", "event level", "user level")
        note = "Means over seeds, 95% bootstrap intervals in brackets. Epsilon is the worst agent's; messages are of all agents in a run."
        first = Table("Side by side", columns, rows, note, frozenset({0, 1}))
        return [first, *standard_tables(self, results)[1:]]

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        talking = Results(group for group in results if group.metrics["messages"].mean() > 0)
        caption = "Those that talk: regret against messages of all agents; the line joins what nothing beats in both."
        by_messages = plot_pareto(
            self,
            talking,
            "messages",
            "messages of all agents",
            lambda group: self.row_label(group, results),
            caption,
            height=5.5,
        )
        return [plot_scores(self, results), by_messages, plot_privacy(self, results, "epsilon_event")]


def spent(levels: Floats) -> str:
    """An epsilon, a dash where nothing is told."""
    mean = float(levels.mean())
    return "nothing told" if mean == 0 else "∞" if math.isinf(mean) else number(mean)
