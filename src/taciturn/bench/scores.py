"""Scores of the standing benchmark: the best at each task, whether learners beat designed agents, and how kinds of
agents compare.

A score is 0 for random play and 1 for the best designed agent (a textbook's or a paper's algorithm) in the same task.
'Best' always means by the mean in the standard task, so that nobody is chosen after the fact in a held-out one, and
among policies that do not pool.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from taciturn.bench import figures, statistics
from taciturn.bench.results import Group, Results
from taciturn.bench.statistics import Floats
from taciturn.bench.study import NOT_TESTED, POOLS, Plot, Table, pools
from taciturn.bench.tables import NONE, estimate, estimate_text, interval, mean_text, number
from taciturn.bench.tasks import HIGHER, Task, tasks_of, world_title
from taciturn.envs.core.descriptor import PLAIN_PPO
from taciturn.registry import own_policies

RANDOM, CLASSIC, PAPER, PLAIN, TUNED = KINDS = ("random", "classic", "paper", "plain PPO", "tuned learner")
YOURS, RETURN = "yours", "return"
PPO = PLAIN_PPO
DESIGNED, LEARNED, COMPARED = (CLASSIC, PAPER), (PLAIN, TUNED), (CLASSIC, PAPER, PLAIN, TUNED, YOURS)
Panels = list[tuple[str, Results]]
"""The name of each world, and its results."""


def sign(measure: str) -> int:
    """1 where more is better, or -1; a held-out task is as the world's own measure."""
    return 1 if measure.partition("/")[0] in HIGHER else -1


def unchecked(group: Group) -> bool:
    """Whether pooling is unchecked: the agents are not of this package, and their results hold no outcome of a
    check."""
    known = group.config["policy"] in own_policies() or group.config["policy"] == PPO
    return not known and POOLS not in group.metrics


def ranked(groups: Iterable[Group]) -> list[Group]:
    """The groups that are compared: the others share a mind, or may do so."""
    return [group for group in groups if not pools(group) and not unchecked(group)]


def best_of(groups: Iterable[Group], measure: str) -> Group | None:
    """The ranked group with the best mean; None if there is none."""
    return max(ranked(groups), key=lambda group: sign(measure) * group.mean(measure), default=None)


def normalised(group: Group, chance: Group | None, designed: Group | None, measure: str) -> str:
    """A mean as a score, from 0 (random play) to 1 (the best designed agent), as text; a dash where there is no
    scale."""
    if chance is None or designed is None or not beats(designed, chance, measure):
        return NONE
    return f"{share(group, chance, designed, measure) + 0.0:.2f}"  # no -0.00


def beats(one: Group, other: Group, measure: str) -> bool:
    """Whether its mean is better."""
    return sign(measure) * (one.mean(measure) - other.mean(measure)) > 0


def share(group: Group, chance: Group, designed: Group, measure: str) -> float:
    """The same as a number."""
    return (group.mean(measure) - chance.mean(measure)) / (designed.mean(measure) - chance.mean(measure))


def times(best: Group, other: Group, measure: str) -> str:
    """The ratio of a mean to another, above 1 if it is better."""
    one, two = best.mean(measure), other.mean(measure)
    return f"{(one / two) ** sign(measure):.2f}" if one > 0 and two > 0 else NONE


def gain(one: Group | None, other: Group | None, measure: str) -> str:
    """Whether the first is better, and by how much, at the seeds that both have finished."""
    if one is None or other is None or not (pair := one.paired(other, measure))[0].size:
        return NOT_TESTED
    found = statistics.difference(*(sign(measure) * values for values in pair))
    word = "yes" if found.low > 0 else "no" if found.high < 0 else "not decided"
    return f"{word}: {number(found.value)} {interval(found[1:])}"


def designed_best(panel: Results, measure: str) -> Group | None:
    """The best designed agent."""
    return best_of((group for group in panel if group.config["kind"] in DESIGNED), measure)


def learned_best(panel: Results, measure: str) -> Group | None:
    """The best learner, plain PPO or tuned."""
    return best_of((group for group in panel if group.config["kind"] in LEARNED), measure)


def played(panels: Panels, *, held_out: bool) -> list[tuple[Task, Results]]:
    """The standard tasks, or the held-out ones, each with the agents that played it."""
    found = []
    for env, panel in panels:
        for task in tasks_of(env):
            some = Results(group for group in panel if task.metric in group.metrics)
            if len(some) and task.held_out == held_out:
                found.append((task, some))
    return found


def held_out(panels: Panels, named: Callable[[Group], str]) -> Table:
    """The best designed agent, the best learner and the best of the user's own agents in each held-out task."""
    rows = []
    for task, panel in played(panels, held_out=True):
        chance = best_of(panel.select(kind=RANDOM), task.metric)
        designed, learner = designed_best(panel, task.measure), learned_best(panel, task.measure)
        mine = best_of(panel.select(kind=YOURS), task.measure)
        if learner is None and mine is None:
            continue
        texts = [
            NONE
            if one is None
            else f"{named(one)}: {mean_text(one.metrics[task.metric])}, score "
            f"{normalised(one, chance, designed, task.metric)}"
            for one in (designed, learner, mine)
        ]
        rows.append((task.id.partition("/")[2], task.variant.what, gain(learner, designed, task.metric), *texts))
    yours = any(row[-1] != NONE for row in rows)
    note = (
        "Nothing has trained in these variants of the worlds, and no setting was chosen in them; algorithms that are "
        "designed for a model are told its parameters, as always. Each agent is the best of its kind in the standard "
        "task. Scores are 0 for random play and 1 for the agent that was designed; there is none where that is no "
        "better than random play."
    )
    columns = (
        "task",
        "what differs",
        "does a learner do better?",
        "designed",
        "learned",
        *(["yours"] if yours else []),
    )
    rows = [row[: len(columns)] for row in rows]
    return Table("Held-out tasks", columns, rows, note, words=frozenset(range(len(columns))))


def beats_each(one: Group | None, others: Iterable[Group], measure: str) -> str:
    """Whether it is shown to be better than each of the others ("yes"), or worse than one of them ("no")."""
    words = {gain(one, other, measure).partition(":")[0] for other in others}
    if not words or one is None:
        return NONE
    return "no" if "no" in words else "yes" if words == {"yes"} else "not decided"


def challenge(env: str, panel: Results, kind: str) -> tuple[str, list[str]]:
    """Whether the best learner beats all agents of a kind in the standard task, and in each held-out task."""
    learner = learned_best(panel, tasks_of(env)[0].measure)
    if learner is None:
        return NONE, []
    standard, held = (
        [
            beats_each(learner, ranked(group for group in some if group.config["kind"] == kind), task.metric)
            for task, some in played([(env, panel)], held_out=which)
            if task.metric in learner.metrics
        ]
        for which in (False, True)
    )
    return next(iter(standard), NONE), [word for word in held if word != NONE]


def challenge_text(env: str, panel: Results, kind: str) -> str:
    """The same in a few words: "no (1/4)"."""
    standard, held = challenge(env, panel, kind)
    short = standard.replace("not decided", "undecided")
    return f"{short} ({held.count('yes')}/{len(held)})" if held else short


def challenges(panels: Panels, kind: str) -> tuple[dict[str, list[str]], str]:
    """In which worlds the best learner beats all agents of a kind ("yes"), and so on, and in how many held-out tasks:
    "3 of 20"."""
    found = {env: challenge(env, panel, kind) for env, panel in panels}
    held = [word for _, words in found.values() for word in words]
    worlds = {
        word: [world_title(env) for env, one in found.items() if one[0] == word]
        for word in ("yes", "no", "not decided")
    }
    return worlds, f"{held.count('yes')} of {len(held)}"


def pair_of(task: Task, panel: Results, kind: str) -> tuple[Floats, Floats] | None:
    """The scores, by training or seed, of the best of a kind and of the best designed agent; None without them or a
    scale."""
    group, chance = (best_of(panel.select(kind=one), task.measure) for one in (kind, RANDOM))
    designed = designed_best(panel, task.measure)
    if group is None or chance is None or designed is None or not beats(designed, chance, task.metric):
        return None
    low, high = chance.mean(task.metric), designed.mean(task.metric)
    mine, theirs = ((x - low) / (high - low) for x in group.paired(designed, task.metric))
    return np.asarray(mine), np.asarray(theirs)


def pairs(panels: Panels, kind: str, *, held_out: bool) -> tuple[Floats, Floats]:
    """The same at all tasks that the kind played, [runs, tasks] each, with as many runs as all of them have."""
    found = [pair_of(task, panel, kind) for task, panel in played(panels, held_out=held_out)]
    known = [pair for pair in found if pair is not None]
    if not known:
        return np.empty((0, 0)), np.empty((0, 0))
    runs = min(len(mine) for mine, _ in known)
    mine, theirs = (np.stack([pair[side][:runs] for pair in known], axis=1) for side in (0, 1))
    return mine, theirs


def overall(panels: Panels) -> Table:
    """For each kind of agent, the interquartile mean of scores over all tasks, and how often it beats designed
    agents."""
    rows = []
    for kind in COMPARED:
        some = [pairs(panels, kind, held_out=held) for held in (False, True)]
        if some[0][0].size:
            rows.append((kind, *(text for mine, theirs in some for text in over_tasks(mine, theirs))))
    ours = ("tasks", "interquartile mean", "P(beats designed)")
    columns = ("kind", *(f"{name}{where}" for where in ("", " (held-out)") for name in ours))
    note = (
        "Scores are 0 for random play and 1 for the best that was designed by hand. Of each kind the agent that is "
        "best in a world's standard task plays all tasks of that world. P is the probability that a training, or a "
        "seed, beats the best designed agent on the same instances, averaged over tasks; a tie counts one half. Tasks "
        "in which that agent is no better than random play have no scale, and are left out. Brackets are 95% intervals."
    )
    return Table("All tasks together", columns, rows, note)


def over_tasks(mine: Floats, theirs: Floats) -> tuple[str, str, str]:
    """The number of tasks, the interquartile mean of scores [runs, tasks], and the probability that they beat the
    others."""
    if not mine.size:
        return "0", NONE, NONE
    better = partial(statistics.probability_of_improvement, paired=True)
    return str(mine.shape[1]), estimate_text(statistics.iqm, mine), estimate_text(better, mine, theirs)


def profiles(panels: Panels, name: str) -> list[Plot]:
    """Performance profiles of the kinds: the share of trainings beyond each score, over all tasks; none without
    scores."""
    parts = {"tasks that were trained for": False, "held-out tasks": True}
    found = {
        title: {kind: scores for kind in COMPARED if (scores := pairs(panels, kind, held_out=held)[0]).size}
        for title, held in parts.items()
    }
    known = {title: kinds for title, kinds in found.items() if kinds}
    if not known:
        return []
    figure, axes = figures.panels(list(known))
    for ax, kinds in zip(axes, known.values(), strict=True):
        for kind, scores in kinds.items():
            value, low, high = statistics.performance_profile(scores, SHOWN)
            index = COMPARED.index(kind)
            ax.plot(SHOWN, value, figures.LINES[index % 4], color=figures.COLORS[index + 1], label=kind)
            ax.fill_between(SHOWN, low, high, color=figures.COLORS[index + 1], alpha=0.15, linewidth=0)
        ax.set(xlabel="score (0: random play, 1: best designed)", ylabel="share of trainings above", ylim=(-0.02, 1.02))
    figures.shared_legend(figure)
    caption = (
        "Performance profiles: the share of trainings, or seeds, over all tasks, whose score is above the one on the "
        "horizontal axis; bands are 95% intervals at each score by itself."
    )
    return [Plot(f"{name}_profile", figure, caption)]


def ranking(panels: Panels, named: Callable[[Group], str], name: str) -> list[Plot]:
    """The scores of all agents in each world's standard task, best first and unranked ones last; none without a
    scale."""
    shown = []
    for task, panel in played(panels, held_out=False):
        chance, designed = best_of(panel.select(kind=RANDOM), task.metric), designed_best(panel, task.metric)
        if chance is not None and designed is not None and beats(designed, chance, task.metric):
            low, high = chance.mean(task.metric), designed.mean(task.metric)
            scores = [(group, (group.metrics[task.metric] - low) / (high - low)) for group in panel]
            rest = {id(group) for group in panel} - {id(group) for group in ranked(panel)}
            order = sorted(scores, key=lambda found: (id(found[0]) in rest, -found[1].mean()))
            shown.append((task.env, order))
    if not shown:
        return []
    figure, axes = figures.panels(
        [env for env, _ in shown], width=10.0, height=1.0 + 0.24 * max(len(rows) for _, rows in shown)
    )
    for ax, (_, rows) in zip(axes, shown, strict=True):
        for row, (group, own) in enumerate(rows):
            value, low, high = estimate(own)
            color = figures.COLORS[(RANDOM, *COMPARED).index(group.config["kind"])]
            ax.plot([low, high], [row, row], color=color, linewidth=3, alpha=0.4, solid_capstyle="butt")
            ax.plot(value, row, "o", color=color, label=group.config["kind"])
        ax.axvline(1.0, color="#888888", linestyle="--", linewidth=1)
        ax.set_yticks(range(len(rows)), [named(group) for group, _ in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("score")
    figures.shared_legend(figure)
    caption = (
        "Scores in the standard tasks, best first, and last those that pool: 0 is random play, and the dashed line at "
        "1 the best that was designed by hand. Means with 95% intervals over trainings, or seeds."
    )
    return [Plot(f"{name}_ranking", figure, caption)]


SHOWN = np.linspace(-0.5, 2.0, 126)
