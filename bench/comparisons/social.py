"""Social learning from noisy answers: the papers' algorithms and textbook baselines in both worlds, and learners beside
them."""

from typing import ClassVar

from taciturn.bench.figures import plot_privacy, plot_scores
from taciturn.bench.play import HOW_LEARNERS_ARE_JUDGED, config, evaluate, play
from taciturn.bench.results import RUNS, Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, register

NONE, STRONG, WEAK, KEPT = (
    "NoPrivacy", "BitwiseRandomizedResponse:1", "BitwiseRandomizedResponse:3", "Memoized:BitwiseRandomizedResponse:3",
)  # fmt: skip
GOSSIP: Config = {"num_agents": 400, "qualities": [0.95, 0.65, 0.35, 0.05], "shuffle": True, "horizon": 30.0}
SOCIAL: Config = {
    "num_agents": 2000, "qualities": [0.9, 0.7, 0.5, 0.3, 0.1], "shuffle": True, "copies": 400,
    "dissemination": "aggregated",
}  # fmt: skip
BASELINES = (
    "Voter", "FollowMajority", "CopyOnReward", "WinStay", "IsolatedUCB", "IsolatedThompson", "IsolatedEpsilonGreedy",
    "Uniform", "OracleOption",
)  # fmt: skip
OWN: dict[str, tuple[tuple[str, Config], ...]] = {
    "gossip_bandit_v0": (("PPCL", {}),),
    "social_bandit_v0": (
        ("PrivateSocialLearning", {"beta": 0.65, "mu": 0.05}),
        ("Replicator", {"beta": 0.65, "mu": 0.05}),
        ("GosInE", {}),
    ),
}


LOSS = {"gossip_bandit_v0": "popularity_regret", "social_bandit_v0": "pseudo_regret"}
KEPT_METRICS = (
    "epsilon_message", "epsilon_zcdp", "epsilon_per_requester", "messages", "best", "best_share", "wrong_option",
)  # fmt: skip


def kept(cell: Cell, found: Result) -> Result:
    """The loss, the metrics that both worlds share, and single runs if there are any."""
    metrics = {name: found.metrics[name] for name in KEPT_METRICS if name in found.metrics}
    curves = {name: curve for name, curve in found.curves.items() if name == RUNS}
    return Result({"loss": found.metrics[LOSS[cell.config["env"]]]} | metrics, curves)


@register
class SocialLearning(Study):
    name = "social-learning"
    title = "Social learning from noisy answers"
    description = (
        "Gossip: 400 agents, 4 options, to t = 30. Social bandit: 2,000 agents on a complete graph, 5 options, 400 "
        "copies, 50 and 200 rounds; an agent that does not adopt its option holds none. The score is the mean quality "
        "gap to the best option, over ticks (gossip), or over rounds and the agents that hold an option. Isolated "
        "agents and the oracle ignore all answers, but their privacy loss still counts the messages of the world; "
        "isolated agents remember everything they saw, unlike any other policy here, and catch up in the long run. "
        "`Memoized` repeats an answer until the preference changes. Epsilon is the largest loss of any agent over the "
        "whole run, zCDP at delta = 1e-5; for gossip also the largest loss to a single requester (basic composition)."
    )
    score = Score("loss", higher_is_better=False, label="mean quality gap to the best option")
    reference: ClassVar[Config] = {"policy": "Uniform", "privacy": NONE}
    facets = ("env", "env_params.horizon")

    def cells(self, quick: bool) -> list[Cell]:
        levels = (NONE, WEAK) if quick else (NONE, WEAK, STRONG)
        found = []
        worlds = (("gossip_bandit_v0", GOSSIP), *(("social_bandit_v0", {**SOCIAL, "horizon": h}) for h in (50, 200)))
        for env, params in worlds:
            algorithms = [*OWN[env], *((name, {}) for name in BASELINES)]
            found += [config(env, name, own, level, **params) for level in levels for name, own in algorithms]
            found.append(config(env, *OWN[env][0], KEPT, **params))
        asks = {"asks": "one", "initial_preferences": "none"}
        found.insert(1, config("gossip_bandit_v0", "CBL", {}, NONE, **GOSSIP, **asks))
        return self.sweep(found, range(3 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return kept(cell, play(cell, replicas=2, until=float(cell.config["env_params"]["horizon"])))

    def row_label(self, group: Group, results: Results) -> str:
        level = {NONE: "no noise", WEAK: "epsilon = 3", STRONG: "epsilon = 1", KEPT: "epsilon = 3, memoised"}
        return f"{group.config['policy']}, {level[group.config['privacy']]}"

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results), plot_privacy(self, results, "epsilon_zcdp")]


@register
class SocialLearners(Study):
    name = "social-learners"
    title = "Social learning from noisy answers: learners against algorithms"
    description = (
        "Answers at epsilon = 3. Gossip: 400 agents, 4 options, to t = 30. Social bandit: 2,000 agents on a complete "
        "graph, 5 options, 400 copies, 50 rounds. The score is that of `social-learning`. Learners train under the "
        "privacy they are evaluated with, and value a decision by the option that it leaves the agent with; a run ends "
        "on a wrong option if more agents hold it than any best one. Policies that do not learn play 20 seeds of 50 "
        "runs. " + HOW_LEARNERS_ARE_JUDGED
    )
    score = Score("loss", higher_is_better=False, label="mean quality gap to the best option")
    facets = ("env",)
    rows = ("policy",)

    def cells(self, quick: bool) -> list[Cell]:
        worlds = [("gossip_bandit_v0", GOSSIP), ("social_bandit_v0", {**SOCIAL, "horizon": 50})]
        if quick:
            worlds = [("gossip_bandit_v0", {**GOSSIP, "num_agents": 100, "horizon": 10.0})]
        found = []
        for env, params in worlds:
            name, own = OWN[env][0]
            found += self.sweep([config(env, name, own, WEAK, **params)], range(2 if quick else 20))
            one = config(env, "SharedPPO", {"steps": 100_000} if quick else {}, WEAK, **params)
            found += self.sweep([one | {"replicas": 20} if quick else one], range(2 if quick else 10))
        return found

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        until = float(cell.config["env_params"]["horizon"])
        return kept(cell, evaluate(cell, LOSS[cell.config["env"]], replicas=50, until=until, progress=progress))

    def plots(self, results: Results) -> list[Plot]:
        return [plot_scores(self, results)]
