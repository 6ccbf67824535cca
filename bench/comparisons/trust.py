"""Who says most within a total, by whom agents trust: nobody, a shuffler, a secure sum, or a curator."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from taciturn.agents import bring
from taciturn.bench.comparisons.playing import first_within, task_config, ways_by_rank
from taciturn.bench.figures import COLORS, panels
from taciturn.bench.levels import MESSAGES, Way, own_way, ways
from taciturn.bench.marks import scale_of
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.scores import text_of
from taciturn.bench.statistics import Estimate, mean
from taciturn.bench.study import Plot, Score, Study, Table, register
from taciturn.bench.tasks import CONTESTS, PROTECTED, TASKS, Task, covered, size_of, world_title
from taciturn.bench.tuned import tuned
from taciturn.mechanism_names import parse_mechanism
from taciturn.registry import make_world
from taciturn.wrappers.channels import private_config

LOCAL, SHUFFLE, DISTRIBUTED, CENTRAL = TRUSTED = ("local", "shuffle", "distributed", "central")
"""Agents trust nobody; a shuffler, who hides who said what; a secure sum; or a curator, who averages what they say."""
LIMITS = (10.0, 3.0, 1.0)
TRAINING = "federated_training_v0"
FLOOR = -0.4  # of the figure
ONCE = 1  # message of each client, who is then in one round
DEAR = (TRAINING, "recommender_v0")
"""Where the levels of agents that do not say how they spend a total are not searched."""


class Speaker(NamedTuple):
    """An agent, how it is trusted with others' data, and where its settings come from.

    Attributes:
        kind: "designed" or "published".
        policy: its name.
        trust: one of `TRUSTED`.
        settings: the name under which a search chose its settings; empty: it has none.
        own: parameters that say whom it trusts.
        mechanism: what stands on the channel at a total, as text with its epsilon; empty: as the agent says, or as it
            does best.
        world: parameters of the world that differ for it.
    """

    kind: str
    policy: str
    trust: str
    settings: str = ""
    own: Mapping[str, Any] = MappingProxyType({})
    mechanism: str = ""
    world: Mapping[str, Any] = MappingProxyType({})


def with_trust(policy: str, *trusted: str, **world: Any) -> list[Speaker]:
    """A designed agent that says itself whom it trusts; a secure sum has the settings that were found for a curator."""
    found = []
    for one in trusted:
        settings = policy if one == LOCAL else f"{policy}:{CENTRAL if one == DISTRIBUTED else one}"
        found.append(
            Speaker("designed", policy, one, settings, {"trust_model": one}, world={} if one == LOCAL else world)
        )
    return found


SPEAKERS: dict[str, list[Speaker]] = {
    "federated_bandit_v0": [
        Speaker("designed", "DividedPlan", LOCAL, "DividedPlan"),
        *with_trust("PublicPlan", LOCAL, DISTRIBUTED, CENTRAL),
        Speaker("published", "CDPMAB", LOCAL, "CDPMAB", mechanism="Laplace:{}"),
        Speaker("published", "CDPMAB", CENTRAL, "CDPMAB", mechanism="CentralSum:Laplace:{}"),
    ],
    "arm_elimination_v0": [
        *with_trust("GrowingSchedule", LOCAL, DISTRIBUTED, CENTRAL),
        Speaker("published", "EliminationSchedule", LOCAL, "EliminationSchedule", mechanism="Laplace:{}"),
        Speaker("published", "EliminationSchedule", CENTRAL, "EliminationSchedule", mechanism="CentralSum:Laplace:{}"),
    ],
    "gossip_bandit_v0": [
        *with_trust("Listener", LOCAL, SHUFFLE),
        Speaker("published", "PPCL", LOCAL, "PPCL"),
    ],
    "social_bandit_v0": [
        Speaker("designed", "Listener", LOCAL, "Listener"),
        Speaker("published", "PrivateSocialLearning", LOCAL, "PrivateSocialLearning"),
    ],
    "recommender_v0": [  # a third party merges the answers, and adds the noise
        Speaker("designed", "BlockListener", CENTRAL, "BlockListener"),
        Speaker("published", "TPriDO", CENTRAL, own={"threshold": 2.0}),
    ],
    TRAINING: with_trust("FewRounds", LOCAL, CENTRAL, weighting="uniform"),
}
SIZES = {
    "federated_bandit_v0": ("few-agents", "standard"),
    "arm_elimination_v0": ("standard", "crowd"),
    "gossip_bandit_v0": ("standard", "crowd"),
    "social_bandit_v0": ("standard", "crowd"),
    "recommender_v0": ("standard", "crowd"),
    TRAINING: ("few-clients", "standard"),
}
"""The two sizes of each world, the smaller one first."""


def searched() -> list[tuple[Task, Speaker]]:
    """For whom that trusts somebody `python tools tune` finds settings for this study, and in which tasks."""
    found = []
    for env, speakers in SPEAKERS.items():
        tasks = [task_of(env, size, total) for size in SIZES[env] for total in LIMITS]
        asking = [one for one in speakers if ":" in one.settings and one.trust != DISTRIBUTED]
        found += [(task, one) for task in tasks if not task.held_out for one in asking]
    return found


def task_of(env: str, size: str, total: float) -> Task:
    """A task of the benchmark under a total."""
    return next(one for one in TASKS.values() if (one.env, one.name, one.total) == (env, size, total))


def size_in_words(config: Config) -> str:
    """Such as "20 agents"."""
    return "{} {}".format(*size_of(task_of(config["env"], config["size"], LIMITS[0])))


@register
class TrustStudy(Study):
    name = "trust"
    only_own_seeds = True  # scores are paired with the kept marks
    title = "Whom agents trust: what is left of being together under a total"
    description = (
        "Each world of several agents at two sizes, and each agent's epsilon over a whole run limited to 10, 3 or 1. "
        "Four trust models: local (each message carries its own noise), shuffle (an anonymous channel hides who said "
        "what), distributed (a secure sum, to which each adds a share of the noise) and central (a curator adds noise "
        "once to the average). Units and delta (1e-5) are those of the benchmark; the observer reads all messages, or "
        "all averages. Scores are on the scale of the benchmark, from 0 (`alone`) to 1 (`together`), paired with its "
        "marks by seed. Settings were found by the same search on training streams in the standard size, at each "
        "total; the other size plays with them, unless it has settings of its own."
    )
    score = Score("score", higher_is_better=True, label="score (0: alone, 1: together)")
    facets: ClassVar[tuple[str, ...]] = ("env", "size", "total")
    rows: ClassVar[tuple[str, ...]] = ("trust", "kind", "policy")
    seeds: ClassVar[tuple[int, int]] = (2, 10)

    def cells(self, quick: bool) -> list[Cell]:
        found: list[Config] = []
        for env, speakers in SPEAKERS.items():
            for size in SIZES[env]:
                for total in LIMITS:
                    task = task_of(env, size, total)
                    for place, one in enumerate(speakers):
                        found.append(
                            {
                                "env": env,
                                "size": size,
                                "total": total,
                                "trust": one.trust,
                                "kind": one.kind,
                                "policy": one.policy,
                                "policy_params": {**(tuned(task, one.settings) if one.settings else {}), **one.own},
                                "speaker": place,
                                "runs": 4 if quick else task.variant.runs or CONTESTS[env].runs,
                            }
                        )
        return self.sweep(found, range(self.seeds[not quick]))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        asked = cell.config
        speaker = SPEAKERS[asked["env"]][asked["speaker"]]
        task = task_of(asked["env"], asked["size"], asked["total"])
        agent = bring(speaker.policy, **asked["policy_params"])
        one = task_config(task, speaker.policy, **speaker.world)
        ways = ways_of(task, speaker, agent, one, cell.seed)
        found, _ = first_within(task, agent, one, asked["runs"], cell.seed, ways)
        value, scale = float(found.metrics[task.measure].mean()), scale_of(task)
        assert scale is not None
        low, high = (mark.estimate.value for mark in scale)
        return Result({"score": (value - scale.alone.values[cell.seed]) / (high - low), "value": value, **found.spent})

    def tables(self, results: Results) -> list[Table]:
        rows, standings = list[list[str]](), list[list[str]]()
        for env, size in dict.fromkeys((g.config["env"], g.config["size"]) for g in results):
            here = results.select(env=env, size=size)
            title = f"{world_title(env)}, {size_in_words(here.groups[0].config)}"
            for trust in TRUSTED:
                some = here.select(trust=trust)
                if len(some):
                    best = [champion(some.select(total=total)) for total in LIMITS]
                    texts = [f"{text_of(score)} {name}" for name, score in best]
                    rows.append([title, trust, *texts, PROTECTED[env].covers])
            for place in dict.fromkeys(g.config["speaker"] for g in here):
                mine = here.select(speaker=place)
                config = mine.groups[0].config
                scores = [mine.select(total=total).groups[0].metrics["score"] for total in LIMITS]
                texts = [text_of(mean(one)) for one in scores]
                standings.append(
                    [title, config["trust"], config["kind"], config["policy"], *texts, PROTECTED[env].covers]
                )
        totals = [*(f"total {total:g}" for total in LIMITS), "what a total covers"]
        note = (
            "Score from 0 (alone) to 1 (together), mean over seeds with its 95% interval. The best is chosen by even "
            "seeds and judged by odd ones, of which its interval is."
        )
        return [
            Table("Best by whom agents trust", ("world", "trust", *totals), rows, note, frozenset(range(6))),
            Table(
                "All agents", ("world", "trust", "kind", "agent", *totals), standings, "", frozenset({0, 1, 2, 3, 7})
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
                some = results.select(env=env, size=size, trust=trust)
                for at, total in enumerate(LIMITS if len(some) else ()):
                    _, best = champion(some.select(total=total))
                    x, color, there = at + (place - 1.5) * 0.12, COLORS[place], best.value > FLOOR
                    ax.plot([x, x], [max(best.low, FLOOR), max(best.high, FLOOR)], color=color, linewidth=1.5)
                    (dot,) = ax.plot(x, max(best.value, FLOOR), "o" if there else "v", color=color, markersize=6)
                    shown[trust] = dot if there or trust not in shown else shown[trust]
            ax.axhline(0, color="#444444", linewidth=1)
            ax.axhline(1, color="#444444", linewidth=1, linestyle=":")
            ax.set_xticks(range(len(LIMITS)), [f"total {total:g}" for total in LIMITS])
            ax.set_xlim(-0.4, len(LIMITS) - 0.6)
            ax.set_ylim(FLOOR - 0.05, 1.3)
            ax.grid(axis="x", visible=False)
        for ax in axes[::2]:
            ax.set_ylabel("score")
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown))
        caption = (
            "The best agent of each trust model at each total, on the scale from alone (0) to together (1); lines are "
            f"95% intervals over the odd seeds. A triangle: below the picture. {covered(env for env, _ in places)}"
        )
        return [Plot("trust", figure, caption)]


def ways_of(task: Task, speaker: Speaker, agent: Any, config: Config, seed: int) -> list[Way]:
    """What may stand on the channel, best first."""
    total, protected = task.total, CONTESTS[task.env].totals
    assert isinstance(total, float)
    assert protected is not None
    if speaker.mechanism:
        law = private_config(parse_mechanism(speaker.mechanism.format(total)))
        return [Way(math.nan, dict.fromkeys(protected.channels, law))]
    world = make_world(task.env).population(1, **{**config["env_params"], **task.variant.params})
    if (own := own_way(agent, world, total)) is not None:
        return [own]
    if task.env in DEAR:
        others = world.params.num_agents - 1 if task.env != TRAINING else 0  # each may ask for the same feedback
        enough = next(number for number in MESSAGES if number >= max(others, protected.messages))
        return [next(ways(world, protected, total, [enough if others else ONCE]))]
    return ways_by_rank(task, agent, config, seed)


def champion(groups: Results) -> tuple[str, Estimate]:
    """The best agent by even seeds, and its score by odd ones; by all, if these choose the same, since each half then
    judges the other's choice."""

    def best(half: int) -> Group:
        return max(groups, key=lambda one: float(one.metrics["score"][one.seeds % 2 == half].mean()))

    chosen = best(0)
    scores = chosen.metrics["score"]
    return str(chosen.config["policy"]), mean(scores if best(1) is chosen else scores[chosen.seeds % 2 == 1])
