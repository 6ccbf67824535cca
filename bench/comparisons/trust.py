"""The best use of a privacy budget by trust model: local, shuffle, secure aggregation, or a central curator."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taciturn.agents import bring
from taciturn.bench.comparisons.playing import configurations_by_rank, first_within, task_config
from taciturn.bench.figures import COLORS, panels
from taciturn.bench.levels import Configuration, configurations, own_configuration
from taciturn.bench.references import scale_of
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.scores import text_of
from taciturn.bench.statistics import Estimate
from taciturn.bench.study import Plot, Score, Study, Table, register
from taciturn.bench.tasks import BENCHMARKS, PROTECTED, TASKS, Task, covered, size_of, world_title
from taciturn.bench.tuned import tuned
from taciturn.mechanism_names import parse_mechanism
from taciturn.registry import make_world
from taciturn.wrappers.channels import private_config

LOCAL, SHUFFLE, DISTRIBUTED, CENTRAL = TRUSTED = ("local", "shuffle", "distributed", "central")
"""Trust models: no trust; a shuffler, which hides the senders; a secure sum; or a curator, who averages the
messages."""
LIMITS = (10.0, 3.0, 1.0)
TRAINING = "federated_training_v0"
FLOOR = -0.4  # lower end of the figure's axis
ONCE = 1  # one message per client, so each client is in one round
NO_MORE_THAN = {LOCAL: (LOCAL,), SHUFFLE: (LOCAL, SHUFFLE), DISTRIBUTED: (LOCAL, DISTRIBUTED), CENTRAL: TRUSTED}
"""For each trust model, the models that need no more trust."""
RUNS = {
    "federated_bandit_v0": {"few-agents": 40, "standard": 40},
    "gossip_bandit_v0": {"standard": 40, "crowd": 20},
}
"""Runs per seed, by size, where the benchmark's stored results have fewer than its design."""


class TrustingAgent(NamedTuple):
    """An agent, its trust model, and the source of its settings.

    Attributes:
        kind: "hand-designed" or "published".
        policy: its name.
        trust: one of `TRUSTED`.
        settings: the name under which a search found its settings; empty: it has none.
        own: parameters that set its trust model.
        mechanism: the mechanism on the channel under a budget, as text with its epsilon; empty: the agent's own choice,
            or the best one.
        world: parameters of the environment that differ for it.
    """

    kind: str
    policy: str
    trust: str
    settings: str = ""
    own: Mapping[str, Any] = MappingProxyType({})
    mechanism: str = ""
    world: Mapping[str, Any] = MappingProxyType({})


def with_trust(policy: str, *trusted: str, **world: Any) -> list[TrustingAgent]:
    """A hand-designed agent with its own parameter for trust; a secure sum uses the settings found for a curator."""
    results = []
    for one in trusted:
        settings = policy if one == LOCAL else f"{policy}:{CENTRAL if one == DISTRIBUTED else one}"
        results.append(
            TrustingAgent(
                "hand-designed", policy, one, settings, {"trust_model": one}, world={} if one == LOCAL else world
            )
        )
    return results


TRUSTING_AGENTS: dict[str, list[TrustingAgent]] = {
    "federated_bandit_v0": [
        TrustingAgent("hand-designed", "DividedPlan", LOCAL, "DividedPlan"),
        *with_trust("PublicPlan", LOCAL, DISTRIBUTED, CENTRAL),
        TrustingAgent("published", "CDPMAB", LOCAL, "CDPMAB", mechanism="Laplace:{}"),
        TrustingAgent("published", "CDPMAB", CENTRAL, "CDPMAB", mechanism="CentralSum:Laplace:{}"),
    ],
    "arm_elimination_v0": [
        *with_trust("GrowingSchedule", LOCAL, DISTRIBUTED, CENTRAL),
        TrustingAgent("published", "EliminationSchedule", LOCAL, "EliminationSchedule", mechanism="Laplace:{}"),
        TrustingAgent(
            "published", "EliminationSchedule", CENTRAL, "EliminationSchedule", mechanism="CentralSum:Laplace:{}"
        ),
    ],
    "gossip_bandit_v0": [
        *with_trust("Listener", LOCAL, SHUFFLE),
        TrustingAgent("published", "PPCL", LOCAL, "PPCL"),
    ],
    TRAINING: with_trust("FewRounds", LOCAL, CENTRAL, weighting="uniform"),
}
SIZES = {
    "federated_bandit_v0": ("few-agents", "standard"),
    "arm_elimination_v0": ("standard", "crowd"),
    "gossip_bandit_v0": ("standard", "crowd"),
    TRAINING: ("few-clients", "standard"),
}
"""The two sizes of each environment, the smaller one first."""


def searched() -> list[tuple[Task, TrustingAgent]]:
    """The agents with a trusted party for which `python tools tune` finds settings for this study, and their tasks."""
    results = []
    for env, speakers in TRUSTING_AGENTS.items():
        tasks = [task_of(env, size, budget) for size in SIZES[env] for budget in LIMITS]
        asking = [
            trusting_agent
            for trusting_agent in speakers
            if ":" in trusting_agent.settings and trusting_agent.trust != DISTRIBUTED
        ]
        results += [(task, one) for task in tasks if not task.held_out for one in asking]
    return results


def task_of(env: str, size: str, budget: float) -> Task:
    """A task of the benchmark under a budget."""
    return next(task for task in TASKS.values() if (task.env, task.name, task.budget) == (env, size, budget))


def size_in_words(config: Config) -> str:
    """The size in words, such as "20 agents"."""
    return "{} {}".format(*size_of(task_of(config["env"], config["size"], LIMITS[0])))


@register
class TrustStudy(Study):
    name = "trust"
    only_own_seeds = True  # scores are paired with the stored references
    title = "Whom agents trust: what is left of communication under a privacy budget"
    description = (
        "Each environment with more than one trust model, at two sizes, with each agent's epsilon over a whole run "
        "limited to 10, 3 or 1. Four trust models: local (each message carries its own noise), shuffle (an anonymous"
        " channel hides the senders), distributed (a secure sum, to which each agent adds a share of the noise) and "
        "central (a curator adds noise once to the average). Units and delta (1e-5) are as in the benchmark; the "
        "observer reads all messages, or all averages. Scores are on the scale of the benchmark, from 0 (no "
        "communication) to 1 (full information), paired with its references by seed. The same search on training "
        "streams found the settings in the standard size, for each budget; the other size uses them too, unless it "
        "has separate settings."
    )
    score = Score("value", label="the task's measure")
    facets: ClassVar[tuple[str, ...]] = ("env", "size", "budget")
    rows: ClassVar[tuple[str, ...]] = ("trust", "kind", "policy")
    seeds: ClassVar[tuple[int, int]] = (2, 10)

    def cells(self, quick: bool) -> list[Cell]:
        results: list[Config] = []
        for env, speakers in TRUSTING_AGENTS.items():
            for size in SIZES[env]:
                for budget in LIMITS:
                    task = task_of(env, size, budget)
                    for place, one in enumerate(speakers):
                        results.append(
                            {
                                "env": env,
                                "size": size,
                                "budget": budget,
                                "trust": one.trust,
                                "kind": one.kind,
                                "policy": one.policy,
                                "policy_params": {**(tuned(task, one.settings) if one.settings else {}), **one.own},
                                "trusting_agent": place,
                                "runs": 4
                                if quick
                                else RUNS.get(env, {}).get(size) or task.variant.runs or BENCHMARKS[env].runs,
                            }
                        )
        return self.sweep(results, range(self.seeds[not quick]))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        asked = cell.config
        trusting_agent = TRUSTING_AGENTS[asked["env"]][asked["trusting_agent"]]
        task = task_of(asked["env"], asked["size"], asked["budget"])
        agent = bring(trusting_agent.policy, **asked["policy_params"])
        one = task_config(task, trusting_agent.policy, **trusting_agent.world)
        configurations = configurations_of(task, trusting_agent, agent, one, cell.seed)
        result, _ = first_within(task, agent, one, asked["runs"], cell.seed, configurations)
        return Result({"value": float(result.metrics[task.measure].mean()), **result.spent})

    def tables(self, results: Results) -> list[Table]:
        rows, standings = list[list[str]](), list[list[str]]()
        for env, size in dict.fromkeys((g.config["env"], g.config["size"]) for g in results):
            here = results.select(env=env, size=size)
            title = f"{world_title(env)}, {size_in_words(here.groups[0].config)}"
            for trust in TRUSTED:
                some = here.select(trust=trust)
                if len(some):
                    best = [champion(here, trust, budget) for budget in LIMITS]
                    texts = [f"{text_of(score)} {name}" for name, score in best]
                    rows.append([title, trust, *texts, PROTECTED[env].covers])
            for place in dict.fromkeys(g.config["trusting_agent"] for g in here):
                mine = here.select(trusting_agent=place)
                config = mine.groups[0].config
                texts = [text_of(score(mine.select(budget=budget).groups[0])) for budget in LIMITS]
                standings.append([title, config["trust"], config["kind"], config["policy"], *texts])
        budgets = [f"budget {budget:g}" for budget in LIMITS]
        note = (
            "Each cell has the score of the best agent, and its name. A score is a mean over seeds with its 95% "
            "interval; 0 is no communication, and 1 is full information. Even seeds select the best agent, and odd "
            "seeds give its score; if odd seeds would select the same agent, all seeds give its score. An agent that "
            "needs less trust than a model allows is a candidate, too."
        )
        return [
            Table(
                "Best agent by trust model",
                ("environment", "trust", *budgets, "what the budget covers"),
                rows,
                note,
                frozenset(range(6)),
            ),
            Table(
                "All agents by trust model",
                ("environment", "trust", "kind", "agent", *budgets),
                standings,
                "Scores are means over all seeds with their 95% intervals.",
                frozenset(range(4)),
            ),
        ]

    def plots(self, results: Results) -> list[Plot]:
        places = list(dict.fromkeys((g.config["env"], g.config["size"]) for g in results))
        titles = [
            f"{world_title(env)}, {size_in_words(results.select(env=env, size=size).groups[0].config)}"
            for env, size in places
        ]
        figure, axes = panels(titles, columns=2, width=8.0, height=2.0)
        shown: dict[str, Any] = {}
        for ax, (env, size) in zip(axes, places, strict=False):
            for place, trust in enumerate(TRUSTED):
                here = results.select(env=env, size=size)
                for at, budget in enumerate(LIMITS if len(here.select(trust=trust)) else ()):
                    _, best = champion(here, trust, budget)
                    x, color, there = at + (place - 1.5) * 0.12, COLORS[place], best.value > FLOOR
                    ax.plot([x, x], [max(best.low, FLOOR), max(best.high, FLOOR)], color=color, linewidth=1.5)
                    (dot,) = ax.plot(x, max(best.value, FLOOR), "o" if there else "v", color=color, markersize=6)
                    shown[trust] = dot if there or trust not in shown else shown[trust]
            ax.axhline(0, color="#444444", linewidth=1)
            ax.axhline(1, color="#444444", linewidth=1, linestyle=":")
            ax.set_xticks(range(len(LIMITS)), [f"budget {budget:g}" for budget in LIMITS])
            ax.set_xlim(-0.4, len(LIMITS) - 0.6)
            ax.set_ylim(FLOOR - 0.05, 1.3)
            ax.grid(axis="x", visible=False)
        for ax in axes[::2]:
            ax.set_ylabel("score")
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown))
        caption = (
            "The best agent of each trust model at each total, from no communication (0) to full information (1); "
            "lines are 95% intervals over the odd seeds. A triangle: below the picture. "
            + covered(env for env, _ in places)
        )
        return [Plot("trust", figure, caption)]


def configurations_of(
    task: Task, trusting_agent: TrustingAgent, agent: Any, config: Config, seed: int
) -> list[Configuration]:
    """The possible channel configurations, best first."""
    budget, protected = task.budget, BENCHMARKS[task.env].budgets
    assert isinstance(budget, float)
    assert protected is not None
    if trusting_agent.mechanism:
        mechanism = private_config(parse_mechanism(trusting_agent.mechanism.format(budget)))
        return [Configuration(math.nan, dict.fromkeys(protected.channels, mechanism))]
    world = make_world(task.env).population(1, **{**config["env_params"], **task.variant.params})
    if (own := own_configuration(agent, world, budget)) is not None:
        return [own]
    if task.env == TRAINING:
        return [next(configurations(world, protected, budget, [ONCE]))]
    return configurations_by_rank(task, agent, config, seed)


def score(group: Group) -> Estimate:
    """The score on the task's scale, paired with its references by seed, as on the leaderboard."""
    scale = scale_of(task_of(group.config["env"], group.config["size"], group.config["budget"]))
    assert scale is not None
    return scale.paired(group.metrics["value"], group.seeds)


def champion(groups: Results, trust: str, budget: float) -> tuple[str, Estimate]:
    """The best agent under a budget, in this trust model or in any that needs less trust, since agents may also leave a
    shuffler, a secure sum or a curator unused. Even seeds choose it, and odd seeds evaluate it; if both choose the same
    agent, all seeds evaluate it, since each half then evaluates the other's choice."""
    groups = Results(one for one in groups.select(budget=budget) if one.config["trust"] in NO_MORE_THAN[trust])

    def half(one: Group, odd: int) -> Group:
        return one.at(np.flatnonzero(one.seeds % 2 == odd))

    chosen, other = (max(groups, key=lambda one: score(half(one, odd)).value) for odd in (0, 1))
    return str(chosen.config["policy"]), score(chosen if other is chosen else half(chosen, 1))
