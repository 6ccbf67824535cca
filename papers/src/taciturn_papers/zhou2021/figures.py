"""Zhou et al. 2021, Tables 1 to 3 and Figures 6 to 14: average reward and regret per agent and round."""

import numpy as np

from taciturn.bench.figures import plot_curves, plot_scores
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score
from taciturn.registry import make_world
from taciturn.simulation import simulate
from taciturn_papers.base import PaperStudy
from taciturn_papers.zhou2021 import claims, settings
from taciturn_papers.zhou2021.rivals import players
from taciturn_papers.zhou2021.settings import GRAPHS, GRID_LEVELS, LEVELS, THRESHOLDS, WORLDS

POINTS = 14
KEPT = ("reward", "expected_reward", "regret", "shared")


class Recommendations(PaperStudy):
    """Runs with curves of regret, one panel per world. Quick runs are short and use only the first world."""

    score = Score("regret", higher_is_better=False, label="average regret")
    facets = ("env_params.family", "env_params.context_dim")
    seeds = (3, 10)
    environments = (
        "We run five environments. The mean reward has one peak ('peak'), has four bumps of different heights "
        "('bumps'), or is linear in the context and in the item ('linear'); contexts have d = 2 dimensions. In the "
        "other two environments the mean reward has one peak, and contexts have d = 3 or d = 9 dimensions."
    )

    def settings(self, quick: bool) -> list[Config]:
        if not quick:
            return list(self.configs)
        return [shorter(config, 70) for config in self.configs if WORLDS[0].items() <= config["env_params"].items()]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        params = cell.config["env_params"]
        population = make_world(cell.config["env"]).population(1, **params)
        policy, privacy = players(cell.config["policy"], cell.config["policy_params"], cell.config.get("privacy", {}))
        times = np.unique(np.linspace(0, params["horizon"], POINTS + 1)[1:].astype(int))
        names = ["regret", "expected_reward"]
        run = simulate(population, policy, seed=cell.seed, until=times, record=names, privacy=privacy)
        metrics = {name: float(run.metrics[name][0]) for name in KEPT}
        regret, reward = (run.trace[name][:, 0] for name in names)
        metrics["half_regret"] = regret[len(times) // 2 - 1]
        # A seventh of the run corresponds to 10,000 rounds of the paper.
        for part in range(1, 7):
            at = len(times) * part // 7 - 1
            metrics |= {f"regret_{part}": regret[at], f"reward_{part}": reward[at]}
        if run.accountant is not None:
            (channel,) = privacy
            # Each charge costs epsilon. No total is finite if agents ask because of their users' feedbacks.
            metrics["charged_over_epsilon"] = float(run.accountant.messages(channel).max())
        return Result(metrics, {"regret": (run.times, regret)})

    def panels(self, results: Results) -> list[tuple[str, Results]]:
        return [(settings.named(part.groups[0].config["env_params"]), part) for _, part in super().panels(results)]

    def row_label(self, group: Group, results: Results) -> str:
        policy, own = str(group.config["policy"]), group.config["policy_params"]
        if policy == "TPriDO" and group.config["env_params"]["graph"] == "none":
            return "TPriDO, one agent"
        if policy == "TPriDO" and "preset" in own:
            return "TPriDO, constants of the proofs"
        return f"{policy}, noisy sums" if group.config.get("privacy") else policy

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        curves = plot_curves(self, results, "regret", x_label="rounds", y_label="average regret")
        return [curves, plot_scores(self, results)]


def shorter(one: Config, rounds: int) -> Config:
    """A setting over fewer rounds."""
    params = {**one["env_params"], "horizon": rounds}
    if "growth" in params:
        params["growth"] = [[rounds * 4 // 7, part] for _, part in params["growth"]]
    return {**one, "env_params": params}


class AlgorithmsStudy(Recommendations):
    name = "zhou2021-6"
    title = "Zhou et al. 2021, Tables 1 and 2, Figures 6 and 7: algorithms"
    description = (
        "8 agents on a star with 2,000 of 4,000 items each, NT = 0.5. 1,000 rounds stand for the paper's 70,000; a "
        "seventh of the run corresponds to 10,000 rounds. T-PriDO, Random, UCB1 (ItemUCB1) and DUCB have no noise. "
        "Poo-Loc (HCT, the base of POO, without a search for its smoothness), ACR, DSC and LinUCB learn from sums "
        f"released by TreeAggregation with epsilon = {settings.NOISY_RIVALS:g}; Gauss-LinUCB has the same epsilon for "
        "its whole run. We also play these four without noise. Every policy was tuned on the same budget, these four "
        "without noise."
    )
    figures = ("zhou2021/table-1", "zhou2021/table-2", "zhou2021/6", "zhou2021/7")
    claims = claims.ALGORITHMS
    seeds = (3, 16)
    configs = tuple(settings.compared(world, rival) for world in WORLDS for rival in settings.COMPARED)


class GridsStudy(Recommendations):
    name = "zhou2021-grid"
    title = "Zhou et al. 2021, Table 1: the grid of DSC"
    description = (
        "DSC with 1, 2, 4 and 8 cells in each dimension of contexts, compared with ACR and T-PriDO, in the setting of "
        "Table 1 without noise."
    )
    figures = ("zhou2021/grid",)
    claims = claims.GRIDS
    configs = tuple(
        one
        for world in WORLDS
        for one in (
            *(settings.on_grid(world, level) for level in GRID_LEVELS),
            settings.compared(world, "ACR without noise"),
            settings.compared(world, "TPriDO"),
        )
    )

    def row_label(self, group: Group, results: Results) -> str:
        label = super().row_label(group, results)
        return f"DSC, level {group.config['policy_params']['level']}" if label == "DSC" else label


class NetworksStudy(Recommendations):
    name = "zhou2021-8"
    title = "Zhou et al. 2021, Figures 8 and 9: networks"
    description = (
        "T-PriDO with NT = 0.5 and 40 agents on a complete graph, a star or a ring, or without neighbours; no privacy. "
        "1,000 rounds stand for the paper's 70,000."
    )
    figures = ("zhou2021/8", "zhou2021/9")
    claims = claims.NETWORKS
    seeds = (3, 20)
    color = "env_params.graph"
    rows = ("env_params.graph",)
    configs = tuple(settings.on_graph(world, graph) for world in WORLDS for graph in GRAPHS)

    def row_label(self, group: Group, results: Results) -> str:
        return str(group.config["env_params"]["graph"])


class PrivacyStudy(Recommendations):
    name = "zhou2021-10"
    title = "Zhou et al. 2021, Figures 10 and 11, Table 3: privacy"
    description = (
        f"8 agents on a star, NT = 0.5. {settings.NOISY_ROUNDS} rounds stand for the paper's 70,000, because runs with "
        "noise are played by single steps. TreeAggregation acts on the statistics that agents ask for, with the scale "
        "that its epsilon requires; counts are exact, as in the paper. We also run agents that always ask, and the "
        "exponential mechanism for the selection of items."
    )
    figures = ("zhou2021/10", "zhou2021/11", "zhou2021/table-3")
    claims = claims.PRIVACY
    configs = tuple(
        one
        for world in WORLDS
        for one in (
            *(settings.private(world, policy, level) for policy in ("TPriDO", "DTPriDO") for level in (*LEVELS, None)),
            *(settings.private(world, "TPriDO", level, always=True) for level in (2.0, None)),
            settings.private(world, "TPriDO", 2.0, on="selection"),
            settings.private(world, "Random", None),
        )
    )

    def row_label(self, group: Group, results: Results) -> str:
        always = ", always asks" if group.config["policy_params"].get("threshold") == settings.ALWAYS else ""
        mechanism = next(iter(group.config["privacy"].values()), "no privacy")
        return (
            f"{group.config['policy']}{always}, {mechanism.replace('TreeAggregation:', 'epsilon ').replace(':', ' ')}"
        )


class GrowthStudy(Recommendations):
    name = "zhou2021-12"
    title = "Zhou et al. 2021, Figures 12 and 13: increasing data"
    description = (
        "T-PriDO and DT-PriDO with NT = 0.5 and 40 agents on a star, without privacy. 1,400 rounds stand for the "
        "paper's 70,000; 28.6% of each repository arrive at 4/7 of the run, as in the paper."
    )
    figures = ("zhou2021/12", "zhou2021/13")
    claims = claims.GROWTH
    configs = tuple(settings.growing(world, policy) for world in WORLDS for policy in ("TPriDO", "DTPriDO"))


class ThresholdsStudy(Recommendations):
    name = "zhou2021-14"
    title = "Zhou et al. 2021, Figure 14: NT"
    description = (
        "T-PriDO, 40 agents on a star, no privacy; 1,000 rounds stand for the paper's 70,000. Agents ask if their own "
        "mean is below NT: never with 0, always with 1.1."
    )
    figures = ("zhou2021/14",)
    claims = claims.THRESHOLD_CLAIMS
    seeds = (3, 20)
    color = "policy_params.threshold"
    configs = tuple(settings.at_threshold(world, threshold) for world in WORLDS for threshold in THRESHOLDS)

    def row_label(self, group: Group, results: Results) -> str:
        return f"NT = {group.config['policy_params']['threshold']:g}"
