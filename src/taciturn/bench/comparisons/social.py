"""Who learns best from noisy answers? The papers' algorithms, textbook baselines and learners in both worlds of social learning."""

from typing import Any, ClassVar

from taciturn.bench.figures import Plot, plot_privacy, plot_scores
from taciturn.bench.play import config, play
from taciturn.bench.study import Cell, Config, Progress, Result, Results, Score, Study, register

NONE, STRONG, WEAK, KEPT = (
    "NoPrivacy", "BitwiseRandomizedResponse:1", "BitwiseRandomizedResponse:3", "Memoized:BitwiseRandomizedResponse:3",
)  # fmt: skip
GOSSIP: Config = {"num_agents": 400, "qualities": [0.95, 0.65, 0.35, 0.05], "horizon": 30.0}
SOCIAL: Config = {
    "num_agents": 2000, "qualities": [0.9, 0.7, 0.5, 0.3, 0.1], "copies": 400, "dissemination": "aggregated",
}  # fmt: skip
BASELINES = (
    "Voter", "FollowMajority", "ImitateIfBetter", "IsolatedUCB", "IsolatedThompson", "IsolatedEpsilonGreedy", "Uniform", "OracleOption",
)  # fmt: skip
OWN: dict[str, tuple[tuple[str, Config], ...]] = {
    "gossip_bandit_v0": (("PPCL", {}),),
    "social_bandit_v0": (
        ("PrivateSocialLearning", {"beta": 0.65, "mu": 0.05}),
        ("Replicator", {"beta": 0.65, "mu": 0.05}),
        ("GosInE", {}),
    ),
}
LEARNERS = ("SharedPPO", "SocialQ")


@register
class SocialLearning(Study):
    name = "social-learning"
    title = "Social learning: who learns best from noisy answers"
    description = (
        "Gossip: 400 agents, 4 options, to t=30. Rounds: 2,000 agents on a complete graph, 5 options, 400 copies, 50 and 200 rounds, "
        "in which who does not take up an option holds none. The score is what the options that agents hold are worth less than the "
        "best one: its mean over ticks, or over rounds and those who hold one. Isolated agents and the oracle listen to nobody, so "
        "that their privacy is what the world's messages cost all the same; isolated ones remember all they saw, which no other "
        "policy here does, and catch up in the long run. `Memoized` repeats an answer for as long as a preference stays. Learners are "
        "trained with the cell's seed, under the privacy that they act under, in replicas of their own; they judge decisions by what "
        "these leave an agent with, and some runs settle on the second-best option. Privacy is of the agent who spent most in the "
        "whole run, zCDP at delta = 1e-5, and in gossip also the most that one requester can have got of one agent (summed)."
    )
    score = Score("loss", higher_is_better=False, label="quality lost against the best option")
    reference: ClassVar[Config] = {"policy": "Uniform", "privacy": NONE}
    facets = ("env", "env_params.horizon")

    def cells(self, quick: bool) -> list[Cell]:
        levels = (NONE, WEAK) if quick else (NONE, WEAK, STRONG)
        found, learned = [], []
        worlds = (("gossip_bandit_v0", GOSSIP), *(("social_bandit_v0", {**SOCIAL, "horizon": h}) for h in (50, 200)))
        for env, params in worlds:
            algorithms = [*OWN[env], *((name, {}) for name in BASELINES)]
            found += [config(env, name, own, level, **params) for level in levels for name, own in algorithms]
            found.append(config(env, *OWN[env][0], KEPT, **params))
            learned += [config(env, name, {}, level, **params) for level in levels for name in LEARNERS]
        asks = {"asks": "one", "initial_preferences": "none"}
        found.insert(1, config("gossip_bandit_v0", "CBL", {}, NONE, **GOSSIP, **asks))
        return self.sweep(found, range(3 if quick else 20)) + self.sweep([] if quick else learned, range(10))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        found = play(cell, replicas=2, until=float(cell.config["env_params"]["horizon"]), progress=progress)
        metrics = dict(found.metrics)
        worlds = {"gossip_bandit_v0": "popularity_regret", "social_bandit_v0": "pseudo_regret"}
        loss = metrics[worlds[cell.config["env"]]]
        keep = ("epsilon", "epsilon_per_requester", "messages", "best", "best_share")
        return Result({"loss": loss} | {name: metrics[name] for name in keep if name in metrics})

    def row_label(self, group: Any, results: Results) -> str:
        level = {NONE: "no noise", WEAK: "epsilon = 3", STRONG: "epsilon = 1", KEPT: "epsilon = 3, memoised"}
        return f"{group.config['policy']}, {level[group.config['privacy']]}"

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results), plot_privacy(self, results, "epsilon")]
