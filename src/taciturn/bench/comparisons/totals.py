"""What agents reach if each may spend a total epsilon over its whole run, whatever a message costs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from taciturn.bench.comparisons.kinds import PPO, behind, brought, everybody, judged, named, population, sent
from taciturn.bench.figures import COLORS, LINES, MARKERS, panels
from taciturn.bench.play import FRESH, HOW_LEARNERS_ARE_JUDGED, config
from taciturn.bench.results import RUNS, Cell, Config, Group, Progress, Result, Results
from taciturn.bench.scores import (
    CLASSIC,
    LEARNED,
    PAPER,
    PLAIN,
    RANDOM,
    TUNED,
    best_of,
    designed_best,
    normalised,
    share,
    sign,
)
from taciturn.bench.study import POOLED, Plot, Score, Study, Table, pools, register
from taciturn.bench.tables import NONE, listed, mean_text, number
from taciturn.mechanism_names import parse_mechanism

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from taciturn.bench.tasks import CONTESTS, world_title
from taciturn.envs.core import ChannelConfig, Population
from taciturn.envs.core.descriptor import Totals
from taciturn.privacy.budget import ROUNDING
from taciturn.wrappers import Budget, audit
from taciturn.wrappers.channels import private_config

DELTA = 1e-5
NO_LIMIT = "no privacy"
TOTALS = (NO_LIMIT, 10.0, 3.0, 1.0)
UNTRAINED = 10.0
"""Learners, whose training takes long, do not take part at this total."""
TRAININGS = (2, 10)
MESSAGES = (1, 5, 25, 125, 625)
SPENT = ("epsilon_message", "epsilon", "messages")
QUICK: Config = {"replicas": 10, "messages": [5, 125]}
QUICK_STEPS = 2048
ATTACK, CONFIDENCE = "trials", 0.999  # only cells of attacks have that entry
TRIALS = (500, 5_000)  # in quick and in full runs
SEARCH = 20
"""Runs in which each number of messages is tried."""
PROTECTED: dict[str, Totals] = {env: contest.totals for env, contest in CONTESTS.items() if contest.totals is not None}
Way = tuple[float, dict[str, ChannelConfig]]


@lru_cache
def level_of(mechanism: str, total: Budget, messages: int) -> float:
    """The largest epsilon of a message, in steps of 2%, with which so many messages fit into a total; 0 if none
    does."""
    levels = [float(f"{level:.3g}") for level in np.geomspace(1e-3, 100.0, 583)]
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        fits = total.messages(parse_mechanism(mechanism.format(levels[middle])).loss()) >= messages
        low, high = (middle + 1, high) if fits else (low, middle)
    return levels[low - 1] if low else 0.0


def ways(world: Population[Any], protected: Totals, total: float, numbers: Sequence[int] = MESSAGES) -> Iterator[Way]:
    """The ways to spend a total: epsilon of a message, and the channels' configurations.

    If each value enters one message, messages do not add up, and each may cost the whole total. Otherwise a budget
    stops an agent before it overspends. Each of `numbers` is tried as the number of equal messages that fit into it, by
    basic or by Renyi composition; where senders choose their own levels (epsilon is then nan), there is nothing else to
    try. Streams take no budget: each channel gets an equal part of the total, and `numbers` of releases of the same
    value below the usual one are left out.
    """
    channels = [world.channels[name] for name in protected.channels]
    if not protected.mechanism:
        yield math.nan, {name: ChannelConfig(budget=Budget(total)) for name in protected.channels}
        return
    if all(channel.disjoint for channel in channels):
        yield total, on_all(protected, total)
        return
    if any(channel.payload == "stream" for channel in channels):
        for releases in filter(protected.messages.__le__, numbers):
            level = total / (len(channels) * releases)
            yield level, on_all(protected, level)
        return
    for messages in numbers:
        budgets = (Budget(total, DELTA, method=method) for method in ("basic", "rdp"))
        level, budget = max(
            ((level_of(protected.mechanism, one, messages), one) for one in budgets), key=lambda found: found[0]
        )
        if level:
            yield level, on_all(protected, level, budget)


def on_all(protected: Totals, level: float, budget: Budget | None = None) -> dict[str, ChannelConfig]:
    """The mechanism at a level on each of the channels."""
    return {
        name: private_config(parse_mechanism(protected.mechanism.format(level)), budget) for name in protected.channels
    }


def total_of(world: Population[Any], env: str, delta: float, channels: Iterable[str]) -> float:
    """The most that any agent has spent on the channels in any run, at the unit of the world, with `delta` for each
    channel."""
    unit: Any = PROTECTED[env].unit
    return sum(float(world.ledger.total(delta, "max", "rdp", unit=unit, channel=name).max()) for name in channels)


def attacked(cell: Cell, agent: Any, way: dict[str, ChannelConfig]) -> Result:
    """The epsilon that an attack on whole runs certifies for one agent, beside the ledger's total."""
    world = behind(population(cell.config, 1, "evaluation"), way)
    found = audit(
        world,
        policy=everybody(world, agent, cell.config["env"]),
        change=PROTECTED[cell.config["env"]].change,
        trials=cell.config[ATTACK],
        confidence=CONFIDENCE,
        seed=cell.seed,
        delta=DELTA,
    )
    return Result({"certified": found.certified, "epsilon": found.claimed, "cap": found.cap})


@register
class PrivacyTotals(Study):
    name = "privacy-totals"
    title = "What a total of epsilon buys"
    description = (
        "The worlds of `agents` whose messages can be made private. An agent may spend epsilon = 10, 3 or 1 over its "
        "whole run, at delta = "
        f"{DELTA:g}, and falls silent before it would spend more. How many messages it pays for with that, at a "
        "constant level, is chosen for each policy, total and seed by "
        f"{SEARCH} runs each of {', '.join(map(str, MESSAGES))} messages, in streams of their own. Totals are of all "
        "messages of an agent, one datum a message (event level) in the gossip and social bandits and one client (user "
        "level) in federated training. In the former two agents without a preference send zeros instead of nothing, "
        "because silence is not noisy. In the federated bandits each reward enters one message, so that at event level "
        "every message may have the whole epsilon. In the recommender it is the total of one feedback in all sums and "
        "counts in which it is released; nothing stops an agent there, and of the numbers of releases only those are "
        "used with which no agent overspends. What agents show there is public and has no noise; LinUCB, which learns "
        "alone, is left out, since it takes long, and T-PriDO either always asks or never does (threshold 2 or 0), "
        "since asking because of one's results has no finite total. In elicitation, where individuals choose the "
        "epsilon of their reports, it is the total of all their reports (user level), and whoever would spend more "
        "stays away. In round stopping nothing private is sent. One learner takes part in each world (plain PPO for "
        "fewer steps than in `agents` in federated training), but for the federated bandit and the recommender, where "
        "agents decide when to send, and no learner's schedule is public. It trains under the same total, 3 or 1, at "
        "the level at which it can pay for as many messages as agents send there, and the search then chooses the "
        "level of its runs. The score is 0 for random play and 1 for the best that was designed by hand, without any "
        "privacy. Policies that do not learn play 5 seeds of "
        f"{FRESH} runs. " + HOW_LEARNERS_ARE_JUDGED
    )
    score = Score("score")
    facets = ("env",)
    rows = ("policy", "total")
    headline = True
    seeds: ClassVar[tuple[int, int]] = (2, 5)

    def cells(self, quick: bool) -> list[Cell]:
        designed, trained, attacks = list[Config](), list[Config](), list[Config]()
        for env, protected in PROTECTED.items():
            field = CONTESTS[env]
            kinds = {RANDOM: (("Random", {}),), CLASSIC: field.classic, PAPER: protected.paper or field.paper}
            if protected.learner is not None:
                learner, own = protected.learner
                taught = (learner, own | {"steps": QUICK_STEPS} if quick else own)
                kinds[PLAIN if learner == PPO else TUNED] = (taught,)
            for total in (NO_LIMIT, 3.0) if quick else TOTALS:
                more = (protected.params if total != NO_LIMIT else {}) | ((field.quick or {}) if quick else {})
                for kind, some in kinds.items():
                    for policy, own in some:
                        if policy not in protected.without and not (kind in LEARNED and total == UNTRAINED):
                            one = config(env, policy, own, **field.params(policy, learns=kind in LEARNED) | more)
                            one |= {"kind": kind, "total": total} | (QUICK if quick else {})
                            (trained if kind in LEARNED else designed).append(one)
                            attackable = protected.change and total != NO_LIMIT
                            if attackable and kind in ((PAPER,) if quick else (CLASSIC, PAPER)):
                                attacks.append(one | {ATTACK: TRIALS[not quick]})
        swept = ((designed, self.seeds[not quick]), (trained, TRAININGS[not quick]), (attacks, 1))
        return [cell for some, seeds in swept for cell in self.sweep(some, range(seeds))]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        env, total, replicas = cell.config["env"], cell.config["total"], cell.config.get("replicas", FRESH)
        measure, protected, world = (
            CONTESTS[env].measure,
            PROTECTED[env],
            population(cell.config, replicas, "evaluation"),
        )
        if total == NO_LIMIT:
            found, spent = judged(world, brought(cell, progress), cell.config, cell.seed), dict[str, float]()
        else:
            ((_, trained_at),) = ways(world, protected, total, [protected.messages])
            tell = progress or (lambda _: None)
            agent = brought(cell, lambda done: tell(done / 2), trained_at)
            tried = self.search(cell, agent, lambda done: tell((1 + done) / 2))
            if ATTACK in cell.config:
                return attacked(cell, agent, tried[0][1])
            for level, way in tried:
                found = judged(world, agent, cell.config, cell.seed, way)
                chosen = float(found["epsilon_message"].mean()) if math.isnan(level) else level
                spent = {"epsilon_message": chosen, "epsilon": total_of(world, env, DELTA / len(way), way)}
                if spent["epsilon"] <= total * (1 + ROUNDING):
                    break  # the first, where a budget holds
        spent["messages"] = sent(world, protected.channels)
        means = {measure: float(found[measure].mean())}
        return Result(means | spent, {RUNS: (np.arange(replicas), found[measure])})

    def search(self, cell: Cell, agent: Any, progress: Progress) -> list[Way]:
        """The ways to spend a total, best first, judged by separate runs."""
        env, total = cell.config["env"], cell.config["total"]
        world = population(cell.config, min(SEARCH, cell.config.get("replicas", FRESH)), "choice of a level")
        measure, numbers, tried = (
            CONTESTS[env].measure,
            cell.config.get("messages", MESSAGES),
            list[tuple[float, Way]](),
        )
        for way in ways(world, PROTECTED[env], total, numbers):
            found = judged(world, agent, cell.config, cell.seed, way[1])
            tried.append((sign(measure) * float(found[measure].mean()), way))
            progress(len(tried) / (len(numbers) + 1))
        return [way for _, way in sorted(tried, key=lambda one: one[0], reverse=True)]

    def answers(self, results: Results) -> list[str]:
        """The best at the smallest total, and who comes close with fewer messages."""
        places = list(self.places(results))
        total = min((place.total for place in places if place.total != NO_LIMIT), default=None)
        if total is None:
            return []
        best, frugal = list[str](), list[str]()
        for place in (place for place in places if place.total == total):
            one, least = place.groups[0], place.frugal()
            score = place.score(one)
            shown = (
                ""
                if score == NONE
                else f"score {score}{', worse than random play without privacy' * score.startswith('-')}, "
            )
            best.append(f"{place.name(one)} in {place.title} ({shown}{number(one.mean('messages'))} messages)")
            if least is not one:
                frugal.append(f"{place.name(least)} in {place.title} ({number(least.mean('messages'))})")
        nobody = "Nobody: in each of these worlds the best is also the cheapest of those that come so close"
        return [
            f"Who is best if an agent may spend a total epsilon of {total:g}? With a score of 0 for random play and 1 "
            "for the best that was designed by hand, run without privacy: "
            f"{listed(best)}.",
            f"Who comes within {NEAR:.0%} of the best at that total with fewer messages? "
            f"{listed(frugal) if frugal else nobody}.",
        ]

    def tables(self, results: Results) -> list[Table]:
        return [self.best_at_each(results), self.all_at_each(results)]

    def best_at_each(self, results: Results) -> Table:
        """The best policy of each world and total, and the near-best one with the fewest messages."""
        rows = []
        for place in self.places(results):
            best, frugal = place.groups[0], place.frugal()
            messages = frugal.mean("messages")
            count = f"{messages:,.0f}" if messages >= 10 else number(messages)
            rows.append((*place.row(best), "itself" if frugal is best else f"{place.name(frugal)}: {count}"))
        columns = (*COLUMNS, f"fewest messages within {NEAR:.0%} of the best")
        last = (
            f" The last column is, of the policies whose mean is within {NEAR:.0%} of the best one's, the one that "
            "sends least."
        )
        note = self.note(results) + last
        return Table("The best at each total", columns, rows, note, words=frozenset({0, 1, 2, 8}))

    def all_at_each(self, results: Results) -> Table:
        """All policies of each world and total, best first."""
        rows = [place.row(one) for place in self.places(results) for one in place.groups]
        return Table("All policies at each total", COLUMNS, rows, self.note(results), words=frozenset({0, 1, 2}))

    def note(self, results: Results) -> str:
        """The meaning of the columns, and how much the attacks could have certified."""
        caps = [float(group.mean("cap")) for group in results if ATTACK in group.config]
        return NOTE + (
            f" So many runs certify {number(max(caps))} at most, and could not have refuted a larger total."
            if caps
            else ""
        )

    def places(self, results: Results) -> Iterator["Place"]:
        """Each world at each total that was run."""
        attacks = Results(group for group in results if ATTACK in group.config)
        for measure, world, panel in self.worlds(results):
            free = panel.select(total=NO_LIMIT)
            chance, designed = best_of(free.select(kind=RANDOM), measure), designed_best(free, measure)
            for total in TOTALS:
                some = panel.select(total=total)
                groups = sorted(some, key=lambda group: (pools(group), -sign(measure) * group.mean(measure)))
                if groups and not pools(groups[0]):
                    yield Place(
                        world,
                        measure,
                        chance,
                        designed,
                        groups,
                        attacks.select(env=groups[0].config["env"], total=total),
                    )

    def worlds(self, results: Results) -> list[tuple[str, str, Results]]:
        """The measure of each world, its title, and its results."""
        played = Results(group for group in results if ATTACK not in group.config)
        named = [(title.removeprefix("env="), panel) for title, panel in self.panels(played)]
        return [
            (CONTESTS[env].measure, f"{world_title(env)}: {CONTESTS[env].measure.replace('_', ' ')}", panel)
            for env, panel in named
        ]

    def plots(self, results: Results) -> list[Plot]:
        """The front: the score of every policy against the total, in each world."""
        worlds = self.worlds(results)
        if not worlds:  # only attacks were run
            return []
        known = {group.config["total"] for group in results}
        totals = [total for total in reversed(TOTALS) if total in known]
        last = len(totals) - 1
        figure, axes = panels([title for _, title, _ in worlds], width=9.0, height=3.4)
        for ax, (measure, _, panel) in zip(axes, worlds, strict=True):
            free = panel.select(total=NO_LIMIT)
            chance, designed = best_of(free.select(kind=RANDOM), measure), designed_best(free, measure)
            if chance is None or designed is None:
                continue
            ends, top = [], 1.0
            everyone = others(panel)
            for index, policy in enumerate(dict.fromkeys(named(group, everyone) for group in everyone)):
                found = {group.config["total"]: group for group in everyone if named(group, everyone) == policy}
                places = [place for place, total in enumerate(totals) if total in found]
                scores = [share(found[totals[place]], chance, designed, measure) for place in places]
                color, line = COLORS[index % len(COLORS)], LINES[index // len(COLORS)]
                finite = [place for place in places if place < last]
                ax.plot(
                    finite, scores[: len(finite)], line, marker=MARKERS[index % len(MARKERS)], color=color, markersize=5
                )
                if len(places) > len(finite):
                    ax.plot(places[-1:], scores[-1:], MARKERS[index % len(MARKERS)], color=color, markersize=5)
                top = max(top, *scores)
                if scores[-1] >= FLOOR:
                    ends.append((scores[-1], policy, color))
            label_ends(ax, last, ends, apart=0.08 * (top - FLOOR))
            ax.axhline(0.0, color="#888888", linewidth=1)
            ax.axvline(last - 0.5, color="#888888", linewidth=1, linestyle=":")
            ax.set_xticks(range(len(totals)), [str(total).removesuffix(".0") for total in totals])
            ax.set_xlim(-0.2, last + 1.8)
            ax.set_ylim(FLOOR, top + 0.05 * (top - FLOOR))
            ax.set_xlabel("total epsilon of an agent")
            ax.set_ylabel("score")
        caption = (
            "Score (0: random play, 1: the best that was designed, without privacy) against the total epsilon that an "
            "agent may spend over its run. Scores below "
            f"{FLOOR:g} are not shown."
        )
        return [Plot(f"{self.name}_front", figure, caption)]


class Place(NamedTuple):
    """The policies of a world at one total, best first and pooling ones last, with the attacks' certificates and the
    ends of the scale."""

    world: str
    measure: str
    chance: Group | None
    designed: Group | None
    groups: list[Group]
    attacks: Results

    @property
    def total(self) -> Any:
        """What an agent may spend, or `NO_LIMIT`."""
        return self.groups[0].config["total"]

    @property
    def title(self) -> str:
        """Of the world, in words."""
        return world_title(self.groups[0].config["env"])

    def name(self, one: Group) -> str:
        """Of a policy, among the others."""
        return named(one, self.groups) + POOLED * pools(one)

    def score(self, one: Group) -> str:
        """On the scale of the world."""
        return normalised(one, self.chance, self.designed, self.measure)

    def frugal(self) -> Group:
        """The policy that sends least among those with a mean within `NEAR` of the best."""
        best, way = self.groups[0], sign(self.measure)
        least = way * best.mean(self.measure) - NEAR * abs(best.mean(self.measure))
        near = [one for one in self.groups if way * one.mean(self.measure) >= least and not pools(one)]
        return min(near, key=lambda one: one.mean("messages"))

    def row(self, one: Group) -> tuple[str, ...]:
        """The row of a policy, under `COLUMNS`."""
        level, epsilon, messages = (number(one.mean(x)) if x in one.metrics else NONE for x in SPENT)
        attacks = self.attacks.select(policy=one.config["policy"], policy_params=one.config["policy_params"])
        certified = f" ({number(attacks.groups[0].mean('certified'))})" if len(attacks) else ""
        total = str(one.config["total"]).removesuffix(".0")
        return (
            self.world,
            total,
            self.name(one),
            self.score(one),
            mean_text(one.metrics[self.measure]),
            level,
            epsilon + certified,
            messages,
        )


FLOOR = -1.0
NEAR = 0.05
COLUMNS = (
    "world, measure", "total epsilon", "policy", "score", "mean", "epsilon of a message", "epsilon spent (certified)",
    "messages of all agents",
)  # fmt: skip
NOTE = (
    "The score is 0 for random play and 1 for the best that was designed by hand, both without any privacy. Means and "
    "95% intervals over seeds. Epsilon spent is the ledger's total of the agent that spent most, by Renyi composition, "
    "and messages are those that all agents send in a run. A policy that ignores messages has the same score at each "
    "total. Learners take part at 3, at 1 and without privacy. In brackets, where an attack was made: the lower bound "
    "on epsilon that it certified, in runs of the first seed. The attacker reads all messages and knows two worlds "
    "that differ in everything that one agent privately observes; each bound has confidence "
    f"{CONFIDENCE:.1%}, and one above the total would refute it."
)


def others(panel: Results) -> list[Group]:
    """All but random play."""
    return [group for group in panel if group.config["kind"] != RANDOM]


def label_ends(ax: "Axes", x: float, ends: Sequence[tuple[float, str, str]], apart: float) -> None:
    """Names beside the last points of lines, from the top down, `apart` or more from each other: `ends` are (y, name,
    colour)."""
    height = np.inf
    for y, name, color in sorted(ends, reverse=True):
        height = min(y, height - apart)
        line = {"arrowstyle": "-", "color": color, "linewidth": 0.6, "relpos": (0, 0.5)}
        ax.annotate(name, (x, y), (x + 0.3, height), color=color, fontsize=8, va="center", arrowprops=line)
