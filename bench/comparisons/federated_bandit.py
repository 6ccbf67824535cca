"""Federated bandits: regret, communication and privacy loss of all policies in one world; learners against designed
algorithms."""

from typing import Any, ClassVar

from taciturn.bench.comparisons.federated_cells import run
from taciturn.bench.figures import plot_pareto, plot_privacy, plot_scores
from taciturn.bench.play import HOW_LEARNERS_ARE_JUDGED, config, evaluate, learns
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, Table, register
from taciturn.bench.tables import mean_text, number, privacy_text, standard_tables
from taciturn.envs.core.graph import Graph

SHORT = {"participation": "p", "rounds": "R"}
SLOTS, EPOCHS = "federated_bandit_v0", "arm_elimination_v0"
ALONE = ("UCB1", "KLUCB", "ThompsonSampling")


def topology(name: str, num_agents: int) -> str | Graph | list[Graph]:
    """The world's `topology` for the name of one in the configurations."""
    if name == "two rings":
        return [Graph.of("ring", num_agents // 2)] * 2
    return name if name == "server" else Graph.of(name, num_agents)


@register
class ComparisonStudy(Study):
    name = "federated-bandit"
    title = "Federated bandits: regret, messages and epsilon side by side"
    description = (
        "10 agents and 20 arms, whose means form a grid shared by all agents or are drawn for each agent; T = 10^4 "
        "(quick: 2,000). Policies that need a graph play on a ring, hybrids on two rings of 5, all others with a "
        "server. Epsilon is given per message, for all messages of an agent if one reward changes (event level), and "
        "if all of its rewards may change (user level); it is 0 for agents that send nothing. Regret is measured by "
        "the means averaged over agents."
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
        return run(cell, 20, topology)

    def row_label(self, group: Group, results: Results) -> str:
        own = ", ".join(f"{SHORT.get(name, name)}={value}" for name, value in group.config["policy_params"].items())
        noise = group.config["privacy"]
        return group.config["policy"] + f" ({own})" * bool(own) + f", {noise}" * (noise not in ("paper", "none"))

    def tables(self, results: Results) -> list[Table]:
        """Regret, messages and epsilon side by side, then the standard tables but the first."""
        if not len(results):
            return []
        rows = [
            [
                str(group.config["env_params"]["qualities"]),
                self.label(group, results),
                mean_text(group.metrics["regret_per_agent"]),
                number(round(group.metrics["transmissions"].mean())),
                *(privacy_text(group.metrics[f"epsilon_{level}"]) for level in ("message", "event", "user")),
            ]
            for group in results
        ]
        levels = ("epsilon per message", "event level", "user level")
        columns = ("qualities", "policy", "regret per agent", "transmissions", *levels)
        note = (
            "Means over seeds, 95% intervals in brackets. Epsilon is the worst agent's; transmissions are those of all "
            "agents."
        )
        first = Table("Side by side", columns, rows, note, frozenset({0, 1}))
        return [first, *standard_tables(self, results)[1:]]

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        sending = Results(group for group in results if group.mean("transmissions") > 0)
        caption = "Policies that communicate: regret against the messages of all agents, with the Pareto front."
        by_messages = plot_pareto(self, sending, "transmissions", "messages over all links", caption, height=5.5)
        return [plot_scores(self, results), by_messages, plot_privacy(self, results, "epsilon_event")]


@register
class FederatedLearnersStudy(Study):
    name = "federated-bandit-learners"
    title = "Federated bandits: learners against algorithms"
    description = (
        "5 agents and 10 arms with means drawn from [0, 1] for each run. Agents that decide slot by slot "
        "(LearnedPulls) play 500 slots (quick: 200) with server links at cost 1; a coordinator that decides epoch by "
        "epoch (LearnedElimination) has 10,000 (1,000) slots and links at cost 25. A cell is 100 runs, the same for "
        "all policies. "
        + HOW_LEARNERS_ARE_JUDGED
        + " With UCB1, KL-UCB and Thompson sampling each agent learns alone, at no communication cost; DDUCB's agents "
        "share everything in every slot, at no price here; the oracle sees all pulls."
    )
    score = Score("regret_per_agent", higher_is_better=False, label="regret per agent at T")
    reference: ClassVar[Config] = {"policy": "UCB1"}
    facets = ("env_params.horizon",)
    rows = ("policy",)

    def cells(self, quick: bool) -> list[Cell]:
        found = []
        for learner, env, horizon, price in (
            (("LearnedPulls", {"steps": 32_000} if quick else {}), SLOTS, 200 if quick else 500, 1.0),
            (("LearnedElimination", {"steps": 20_000} if quick else {}), EPOCHS, 1_000 if quick else 10_000, 25.0),
        ):
            world: dict[str, Any] = {"num_agents": 5, "num_arms": 10, "qualities": "uniform", "horizon": horizon}
            world["server_link_cost"] = price
            found += [config(SLOTS, policy, **world) for policy in ALONE]
            found.append(config(SLOTS, "CDPMAB", **world))
            found.append(config(SLOTS, "DDUCB", **world, topology="complete"))
            found.append(config(SLOTS, "CentralisedOracle", **world))
            one = config(env, *learner, **world)
            found.append(one | {"replicas": 20} if quick else one)
        cells = []
        for one in found:
            trained = learns(one["policy"])
            cells += self.sweep([one], range((1 if trained else 2) if quick else 10 if trained else 20))
        return cells

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        result = evaluate(cell, self.score.metric, progress=progress)
        world = cell.config["env_params"]
        paid = result.metrics["regret_per_agent"] + result.metrics["cost"] / world["num_agents"]
        return Result({**result.metrics, "regret_and_cost_per_agent": paid}, result.curves)

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results)]
