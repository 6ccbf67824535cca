"""The social recommender: the paper's algorithms, textbook baselines, a neural bandit and masked PPO, on new
instances."""

from typing import ClassVar

from taciturn.bench.figures import plot_scores
from taciturn.bench.play import FRESH, HOW_LEARNERS_ARE_JUDGED, config, evaluate
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, Table, register
from taciturn.bench.tables import mean_text, number, privacy_text, standard_tables
from taciturn.bench.tasks import DELTA, PROTECTED
from taciturn.policies import Random
from taciturn.registry import make_world
from taciturn.simulation import Run, simulate

SHOP: Config = {"num_agents": 4, "graph": "complete", "num_items": 400, "repository": 200, "horizon": 500}
SHARING = {"statistics": "TreeAggregation:2", "counts": "TreeAggregation:2"}
ALL = SHARING | {"selection": "Exponential:20"}
LEVELS: dict[str, dict[str, str]] = {"no noise": {}, "noise on sharing": SHARING, "noise on everything": ALL}
Entry = tuple[str, Config, Config]  # a policy, its parameters, and parameters of the environment that differ for it
PRIDO: tuple[Entry, ...] = tuple(
    (name, {"threshold": threshold}, {}) for name in ("TPriDO", "DTPriDO") for threshold in (0.5, 2.0)
)
BANDIT: Entry = ("NeuralBandit", {}, {})
PPO: Entry = ("TrainedAgent", {}, {"actions": "cluster"})
BASELINES: tuple[Entry, ...] = tuple((name, {}, {}) for name in ("LinUCB", "HOO", "ItemUCB1", "Random", "OracleItem"))
ENTRIES: dict[str, tuple[Entry, ...]] = {
    "no noise": (*PRIDO, *BASELINES, BANDIT, PPO),
    "noise on sharing": (*PRIDO, PPO),
    "noise on everything": (*PRIDO, BANDIT),
}
QUICK: dict[str, Config] = {"NeuralBandit": {"steps": 25}, "TrainedAgent": {"steps": 8_000}}
PART, WHOLE = "epsilon_statistics_and_counts", "epsilon_zcdp"
"""The metrics of epsilon: for the third party's answers, and for all channels."""
COVERS = PROTECTED["recommender_v0"].covers


@register
class SocialRecommender(Study):
    name = "social-recommender"
    title = "Social recommender: learners against algorithms"
    description = (
        "4 service providers on a complete graph, each with 200 of 400 items, 500 rounds, and mean rewards of the "
        "family `peak`, drawn for each run. There is no noise; or TreeAggregation(2) on `statistics` and `counts`; or "
        "that and Exponential(20) on `selection`. The second is for policies that share, the third for policies that "
        "pass scores to the channel `selection`; it does not protect the items that other policies show. Epsilons are "
        "the accountant's for a run at event level, by zCDP, for the agent that spent most, at delta = "
        f"{DELTA:g}. One covers "
        f"{COVERS}; the other covers all three channels, and so one feedback's value for any shown items. "
        "T-PriDO and DT-PriDO ask after own results below 0.5, or always (threshold 2). LinUCB (hybrid), "
        "HOO, UCB1 and the neural bandit learn alone. PPO sees only the third party's answers about 8 "
        "clusters, chooses among these, and decides when to ask. Each run is compared with random play on the same "
        "instance with the same contexts. Policies that do not learn play 10 seeds of as many runs. "
        + HOW_LEARNERS_ARE_JUDGED
        + " The constants of all other policies are their defaults."
    )
    score = Score("regret", higher_is_better=False, label="regret per agent and round")
    reference: ClassVar[Config] = {"policy": "Random"}
    facets = ("level",)
    seeds: ClassVar[tuple[int, int]] = (2, 10)

    def cells(self, quick: bool) -> list[Cell]:
        results = []
        for level, entries in ENTRIES.items():
            for policy, own, form in entries:
                few = QUICK.get(policy, {}) if quick else {}
                world = SHOP | form | ({"horizon": 100} if quick else {})
                one = config("recommender_v0", policy, own | few, LEVELS[level], **world) | {"level": level}
                results.append(one | {"replicas": 4} if quick else one)
        return self.sweep(results, range(self.seeds[not quick]))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        replicas = cell.config.get("replicas", FRESH)

        def also(run: Run) -> dict[str, float]:
            # All policies meet the same instances and contexts, which have separate streams.
            world = make_world(cell.config["env"]).population(
                replicas, **cell.config["env_params"] | {"actions": "item"}
            )
            world.purpose = "evaluation"
            chance = simulate(world, Random(), seed=cell.seed).metrics["regret"]
            return spent(run) | {"worse_than_random": float((run.metrics["regret"] > chance).mean())}

        return evaluate(cell, "regret", replicas=replicas, also=also, progress=progress)

    def row_label(self, group: Group, results: Results) -> str:
        asks = {0.5: " (asks below 0.5)", 2.0: " (always asks)"}
        return str(group.config["policy"]) + asks.get(group.config["policy_params"].get("threshold"), "")

    def tables(self, results: Results) -> list[Table]:
        rows = [
            [
                str(group.config["level"]),
                self.label(group, results),
                mean_text(group.metrics["regret"]),
                f"{group.mean('worse_than_random'):.0%}",
                f"{group.mean('shared'):.0%}",
                *(privacy_text(group.metrics[name]) for name in (PART, WHOLE)),
                number(group.wall_seconds.mean()),
            ]
            for group in results
        ]
        columns = (
            "level", "policy", "regret per agent and round", "runs worse than random", "rounds with an answer",
            "epsilon on statistics and counts (selection left out)", "epsilon on all channels", "seconds",
        )  # fmt: skip
        note = (
            "Means over trainings, or over seeds for policies without training, with 95% intervals in brackets. A run "
            "is worse than random if random play has less regret on the same instance with the same contexts. Epsilons "
            f"are for a whole run. The first covers {COVERS}. The second covers one feedback's value on all channels. "
            "Seconds are the time of one training, or of one seed, including its evaluation runs."
        )
        return [
            Table("Regret and its cost", columns, rows, note, frozenset({0, 1})),
            *standard_tables(self, results),
        ]

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results)]


def spent(run: Run) -> dict[str, float]:
    """Mean over runs of the largest epsilon of any agent, for the third party's answers."""
    if run.accountant is None:  # no channel has a mechanism
        return {PART: float("inf") if run.metrics["shared"].any() else 0.0}
    channels = PROTECTED["recommender_v0"].channels
    return {PART: float(run.accountant.epsilon(DELTA, "max", "zcdp", unit="event", channel=channels).mean())}
