"""Zhou et al. 2021, Tables 1 to 3 and Figures 6 to 14: average reward and regret of the agents, per round."""

from typing import ClassVar

import numpy as np

from taciturn.agents import bring
from taciturn.auditing import parse_mechanism
from taciturn.bench.figures import plot_curves, plot_scores
from taciturn.bench.papers.base import PaperStudy
from taciturn.bench.papers.zhou2021 import claims, settings
from taciturn.bench.papers.zhou2021.settings import GRAPHS, WORLDS
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, register
from taciturn.policies.families.cluster_policy import ClusterPolicy
from taciturn.registry import make_world
from taciturn.simulation import simulate

POINTS = 10
KEPT = ("reward", "expected_reward", "regret", "shared")


class Recommendations(PaperStudy):
    """Runs of one replica, with curves of regret and expected reward, in a panel for each world."""

    score = Score("regret", higher_is_better=False, label="average regret")
    facets = ("env_params.family", "env_params.context_dim")
    seeds = (3, 10)
    quick_rounds: ClassVar[int] = 200

    def settings(self, quick: bool) -> list[Config]:
        """Quick runs are short, and in the first world only."""
        if not quick:
            return list(self.configs)
        first = [one for one in self.configs if WORLDS[0].items() <= one["env_params"].items()]
        return [shorter(one, self.quick_rounds) for one in first]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        population = make_world("recommender_v0").population(1, **cell.config["env_params"])
        policy = bring(cell.config["policy"], **cell.config["policy_params"])
        horizon = cell.config["env_params"]["horizon"]
        if isinstance(policy, ClusterPolicy) and horizon >= 1000:
            policy.compile_from = 0  # once for all cells
        privacy = {name: parse_mechanism(law) for name, law in cell.config.get("privacy", {}).items()}
        times = np.unique(np.linspace(0, horizon, POINTS + 1)[1:].astype(int))
        run = simulate(population, policy, seed=cell.seed, until=times, record=["regret", "reward"], privacy=privacy)
        metrics = {name: float(run.metrics[name][0]) for name in KEPT}
        return Result(metrics, {name: (run.times, values[:, 0]) for name, values in run.trace.items()})

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        return [plot_curves(self, results, "regret", x_label="rounds", y_label="average regret"), plot_scores(self, results)]


def shorter(one: Config, rounds: int) -> Config:
    """The same setting over fewer rounds."""
    params = one["env_params"]
    share = rounds / params["horizon"]
    changed = {"horizon": rounds} | ({"growth": [[round(at * share), part] for at, part in params["growth"]]} if "growth" in params else {})
    return {**one, "env_params": params | changed}


@register
class NetworksStudy(Recommendations):
    name = "zhou2021-8"
    title = "Zhou et al. 2021, Figures 8 and 9: networks"
    description = "T-PriDO with NT = 0.5 and 40 agents on a complete graph, a star, a ring, and on their own; without privacy."
    figures = ("zhou2021/8", "zhou2021/9")
    claims = claims.NETWORKS
    color = "env_params.graph"
    rows = ("env_params.graph",)
    configs = tuple(settings.on_graph(world, graph) for world in WORLDS for graph in GRAPHS)
