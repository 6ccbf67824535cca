"""Federated bandits: reinforcement learners against designed algorithms."""

from typing import Any, ClassVar

from taciturn.bench.figures import plot_scores
from taciturn.bench.play import config, learns, play
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, register

SLOTS, EPOCHS = "federated_bandit_v0", "arm_elimination_v0"
ALONE = ("UCB1", "KLUCB", "ThompsonSampling")


@register
class FederatedLearnersStudy(Study):
    name = "federated-bandit-learners"
    title = "Federated bandits: learners against algorithms"
    description = (
        "5 agents and 10 arms with means drawn from [0, 1] for each run. Agents that decide slot by slot (LearnedPulls) play 500 slots "
        "(quick: 200) with server links at cost 1; a coordinator that decides epoch by epoch (LearnedElimination) has 10,000 (1,000) "
        "slots and links at cost 25. A cell is 20 runs, the same for all policies; learners are trained first, with the cell's seed, on "
        "other runs. With UCB1, KL-UCB and Thompson sampling each agent learns alone, at no communication cost; DDUCB's agents share "
        "everything in every slot, at no price here; the oracle sees all pulls."
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
            found.append(config(env, *learner, **world))
        cells = []
        for one in found:
            trained = learns(one["policy"])
            cells += self.sweep([one], range((1 if trained else 2) if quick else 10 if trained else 20))
        return cells

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        result = play(cell, replicas=20, progress=progress)
        world = cell.config["env_params"]
        paid = result.metrics["regret_per_agent"] + result.metrics["cost"] / world["num_agents"]
        return Result({**result.metrics, "regret_and_cost_per_agent": paid}, result.curves)

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results)]
