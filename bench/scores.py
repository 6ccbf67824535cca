"""Scores of the standing benchmark: who is best at each task and total, by class of information, whether learners beat
what was designed by hand, and what each agent's messages are worth to it.

A score is 0 for the best non-communicating agent and 1 for one that is given what all agents observe
(`taciturn.bench.references`). Where the best of several is named, it is chosen by the runs of one half of the seeds and
judged by those of the other half; if that half chooses the same, each judges the other's choice, and all seeds count.
Who pools is never ranked.

Trainings may fail, and ten do not show how often. The interval of their mean allows for failures that none of them
shows (`statistics.guarded_mean`), a failed training counting as random play; and a learner is said to be better than
another agent if more than half of its trainings are, on the same instances (the sign test, which needs no law).
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.references import Scale, rounded, scale_of, scales_in
from taciturn.bench.results import RUNS, Group, Results, describe
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.study import CENTRALISED, Table, centralised, declares
from taciturn.bench.tables import NONE, interval, listed, mean_text, number
from taciturn.bench.tasks import (
    BENCHMARKS,
    CLASSIC,
    DESIGNED,
    EPSILON,
    KINDS,
    LEARNED,
    LISTENS,
    MESSAGES,
    NO_BUDGET_LIMIT,
    PAPER,
    RANDOM,
    REFERENCES,
    SILENCED,
    TASK_AGENT,
    TASKS,
    YOURS,
    Task,
    budgets_of,
    first_of,
    sign,
)
from taciturn.bench.tasks.benchmark import PLAIN_PPO
from taciturn.registry import own_policies, policy_class
from taciturn.terminal import counted

MEMORYLESS, REMEMBERS, CENTRALISED_LABEL, TRUTH = "memoryless", "with memory", "centralised", "knows the truth"
FREE, UNDER = "All agents of each task", "All agents under privacy budgets"
"""The titles of the tables of all agents."""
LEVEL = 0.05
YES, NO, OPEN = "yes", "no", "undecided"
UNCHECKED = " (not checked for pooling)"
AROUND = 2
"""How many agents `near` shows above and below one of the user's."""


def unchecked(group: Group) -> bool:
    """Whether pooling is unchecked: the agents are not of this package, and their results hold no outcome of a
    check."""
    known = group.config["policy"] in own_policies() or group.config["policy"] == PLAIN_PPO
    return not known and CENTRALISED not in group.metrics


def information(group: Group) -> str:
    """The class of information of a group's agents."""
    if centralised(group):
        return CENTRALISED_LABEL
    kind = policy_class(str(group.config["policy"])) if group.config["policy"] in own_policies() else None
    if group.config.get("knows_truth") is True or declares(kind, "needs_truth", group.config):
        return TRUTH
    memoryless = group.config["policy"] == PLAIN_PPO or group.config.get("memoryless") is True
    return MEMORYLESS if memoryless or declares(kind, "memoryless", group.config) else REMEMBERS


def compares(group: Group) -> bool:
    """Whether a group is ranked: no mark, and no agents that share a mind, may do so, or know the truth."""
    fair = information(group) in (MEMORYLESS, REMEMBERS)
    return group.config["kind"] not in REFERENCES and fair and not unchecked(group)


class Board(NamedTuple):
    """A task with the groups that played it, and its scale, if it has one."""

    task: Task
    groups: list[Group]
    scale: Scale | None

    def score(self, group: Group, metric: str = "") -> Estimate | None:
        """The score of a group, in the task's metric or in another of its measure; None without a scale."""
        if self.scale is None:
            return None
        values = group.metrics[metric or self.task.metric]
        if trained(group):
            return self.scale.apart(self.of_trainings(values))
        return self.scale.paired(values, group.seeds)

    def silenced(self, group: Group) -> Estimate | None:
        """The score of a group if it hears another run; None if that was not played."""
        metric = f"{self.task.metric}/{SILENCED}"
        return self.score(group, metric) if metric in group.metrics else None

    def chance(self) -> float:
        """The mean of random play; NaN if it was not played."""
        return next((self.mean(group) for group in self.groups if group.config["kind"] == RANDOM), math.nan)

    def of_trainings(self, values: Floats) -> Estimate:
        """The mean over trainings, of which those that are worse than random play count as that; without an interval
        if random play is not known."""
        if math.isnan(self.chance()):
            return Estimate(float(values.mean()), math.nan, math.nan)
        return statistics.guarded_mean(values, self.chance(), higher_is_better=sign(self.task.measure) > 0)

    def ranked(self) -> list[Group]:
        """The groups that are compared, best first by all seeds."""
        return sorted(filter(compares, self.groups), key=lambda one: -sign(self.task.measure) * self.mean(one))

    def unranked(self) -> list[Group]:
        """The others, but for the marks."""
        return [group for group in self.groups if not compares(group) and group.config["kind"] not in REFERENCES]

    def mean(self, group: Group) -> float:
        """Of the measure, over all seeds."""
        return group.mean(self.task.metric)

    def messages(self, group: Group) -> float:
        """Of all agents in a run of this task, on average; NaN if they were not counted."""
        name = MESSAGES if first_of(group.config) == self.task.name else f"{MESSAGES}/{self.task.name}"
        return group.mean(name) if name in group.metrics else math.nan

    def best(self, *kinds: str, information_: str | None = None, half: int = 0) -> Group | None:
        """The best of some kinds (none given: of all but yours), chosen by the first half of its seeds, or the
        second."""
        wanted = kinds or KINDS
        some = [
            one for one in self.ranked() if one.config["kind"] in wanted and information_ in (None, information(one))
        ]
        configuration = sign(self.task.measure)
        return max(some, key=lambda one: configuration * halves(one)[half].mean(self.task.metric), default=None)

    def fairly(self, best: Group, *kinds: str, information_: str | None = None) -> Group:
        """The seeds that may judge what `best` chose: the other half; or all, if the other half chooses the same, since
        each half is then judged by a choice that it had no part in."""
        same = self.best(*kinds, information_=information_, half=1) is best
        return best if same else halves(best)[1]

    def evaluated(self, best: Group, *kinds: str, information_: str | None = None) -> Estimate | None:
        """The score of what `best` chose, by seeds that did not choose it."""
        return self.score(self.fairly(best, *kinds, information_=information_))

    def label(self, group: Group) -> str:
        """Its name, with parameters where others of the same name play, and a mark if it is not ranked."""
        same = [one for one in self.groups if one.config["policy"] == group.config["policy"]]
        name, own = str(group.config["policy"]), group.config["policy_params"]
        text = f"{name} ({describe(own)})" if own and len(same) > 1 else name
        reference = {CENTRALISED_LABEL: " (centralised)", TRUTH: " (knows the hidden truth)"}.get(
            information(group), ""
        )
        return text + reference + UNCHECKED * unchecked(group)


def trained(group: Group) -> bool:
    """Whether a group's seeds are trainings."""
    return group.config["kind"] in LEARNED


def halves(group: Group) -> tuple[Group, Group]:
    """A group's runs of even and of odd seeds; all of them twice if there is one seed."""
    parts = [np.flatnonzero(group.seeds % 2 == half) for half in (0, 1)]
    if not parts[0].size or not parts[1].size:
        return group, group
    return group.at(parts[0]), group.at(parts[1])


def budget_of(group: Group) -> Any:
    """What its agents may spend."""
    return group.config.get("budget", NO_BUDGET_LIMIT)


def quiet(group: Group) -> bool:
    """Whether nobody listens, so that it is the same at every total."""
    return budget_of(group) == NO_BUDGET_LIMIT and LISTENS in group.metrics and not group.metrics[LISTENS].any()


def not_ranked(results: Results) -> str:
    """Such as "2 seeds, not ranked", of a quick run; empty for a full one."""
    quick = [result.seeds.size for result in results if "replicas" in result.config]
    return f"{counted(max(quick), 'seed')}, not ranked" if quick else ""


def boards(results: Results) -> list[Board]:
    """The tasks that were played, in their order. Who hears nothing stands at every total."""
    made = scales_in(results)
    found = []
    for task in TASKS.values():
        some = [one for one in results.select(env=task.env) if task.metric in one.metrics]
        here = [one for one in some if budget_of(one) == task.budget]
        if [one for one in here if one.config["kind"] not in REFERENCES]:
            silent = [one for one in some if one not in here and quiet(one) and one.config["kind"] not in REFERENCES]
            twins = {(one.config["policy"], describe(one.config["policy_params"])) for one in here}
            silent = [
                one for one in silent if (one.config["policy"], describe(one.config["policy_params"])) not in twins
            ]
            found.append(Board(task, here + silent, made.get(task.plain) or scale_of(task)))
    return found


def standing(some: Iterable[Board], budget: Any = NO_BUDGET_LIMIT) -> list[Board]:
    """The boards of standard tasks, of every size, at a total."""
    return [board for board in some if not board.task.held_out and board.task.budget == budget]


def score_text(score: Estimate | None) -> str:
    """Such as `0.47 [0.44, 0.50]`."""
    if score is None or not math.isfinite(score.value):
        return NONE
    known = math.isfinite(score.low) and math.isfinite(score.high)
    bounds = f" [{score.low + 0.0:.2f}, {score.high + 0.0:.2f}]" if known else ""
    return f"{score.value + 0.0:.2f}{bounds}"


def task_name(task: Task) -> str:
    """Such as "GossipBandit-v0/standard"."""
    return task.plain.partition("/")[2] + " (control)" * task.control


def who_is_best(results: Results) -> Table:
    """The marks of each standard task, and the best agent at each total."""
    some, rows = boards(results), []
    for board in standing(some):
        texts = []
        for budget in budgets_of(board.task.env):
            there = next((one for one in standing(some, budget) if one.task.plain == board.task.plain), None)
            best = there and there.best()
            texts.append(NONE if not there or not best else f"{score_text(there.evaluated(best))} {there.label(best)}")
        references = (
            [NONE] * 2
            if board.scale is None
            else [f"{number(reference.estimate.value)} {reference.policy}" for reference in board.scale]
        )
        texts += [NONE] * (4 - len(texts))
        rows.append((task_name(board.task), board.task.measure, *references, *texts, board.task.covers or NONE))
    more = sorted({f"`{benchmark.measure}`" for benchmark in BENCHMARKS.values() if benchmark.higher})
    columns = (
        "task", "measure", "no communication (0)", "full information (1)", "best, no privacy",
        "budget 10", "budget 3", "budget 1", "what the budget covers",
    )  # fmt: skip
    note = (
        "Scores are 0 for the best non-communicating agent, and 1 for one with full information, without "
        "privacy. Each best agent is chosen by the runs of one half of the seeds and judged by those of the other; if "
        "both halves choose the same, each judges the other's choice, and all seeds count. "
        "Brackets are 95% intervals. A total is what an agent may spend over its whole run. "
        f"Of {listed(more)} more is better, of the other measures less."
    )
    return Table("Who is best", columns, rows, note, words=frozenset(range(9)))


def by_information(results: Results) -> Table:
    """The best agents without and with memory in each standard task, and the mark of those that pool."""
    rows = []
    for board in standing(boards(results)):
        cells = []
        for known in (MEMORYLESS, REMEMBERS):
            best = board.best(information_=known)
            cells.append(
                NONE if best is None else f"{score_text(board.evaluated(best, information_=known))} {board.label(best)}"
            )
        rows.append((task_name(board.task), *cells))
    note = (
        "Memoryless: agents act on what they observe now, as Chen et al. and Tao et al. allow; their worlds' "
        "observations may hold counts. Who pools has the score 1 by definition and no rank."
    )
    columns = ("task", "best without memory", "best with memory")
    return Table("By what agents may know", columns, rows, note, words=frozenset(range(3)))


class Match(NamedTuple):
    """A comparison of two agents, or of one with several: whether the first is better, at the seeds that both have."""

    p: float
    better: bool


def match(one: Group, other: Group, metric: str) -> Match:
    """Of two agents: by the mean difference, and of trainings by whether more than half of them are better."""
    x, y = (sign(metric) * values for values in one.paired(other, metric))
    if not x.size:
        return Match(math.nan, False)
    if trained(one) or trained(other):
        return Match(statistics.sign_test(x, y), bool((x > y).sum() > (x < y).sum()))
    return Match(statistics.p_value(x, y), float((x - y).mean()) > 0)


def of_all(matches: Iterable[Match]) -> Match:
    """Whether an agent is better than each of the others, or worse than one of them: it is as sure to be better than
    all as than the one that is hardest to beat, and to be worse than one as the clearest of them says, which Bonferroni
    corrects for having been picked."""
    some = [one for one in matches if not math.isnan(one.p)]
    if not some:
        return Match(math.nan, False)
    if all(one.better for one in some):
        return Match(max(one.p for one in some), True)
    return Match(min(1.0, len(some) * min(one.p for one in some if not one.better)), False)


def words(questions: Mapping[Any, list[Match]], candidates: int = 1) -> dict[Any, str]:
    """The answers to several questions, which hold together at 95% (Holm 1979): whether an agent is shown to be better
    than each of the others ("yes"), or worse than one ("no"). The agent may have been picked among so many."""
    asked = {key: of_all(some) for key, some in questions.items()}
    adjusted = statistics.holm(np.minimum(1.0, [candidates * one.p for one in asked.values()]))
    verdicts = {True: YES, False: NO}
    return {
        key: NONE if math.isnan(p) else verdicts[one.better] if p < LEVEL else OPEN
        for (key, one), p in zip(asked.items(), adjusted, strict=True)
    }


def against(board: Board, agent: Group, kind: str) -> list[Match]:
    """An agent's matches with all of a kind but itself."""
    others = [one for one in board.ranked() if one.config["kind"] == kind and one is not agent]
    return [match(agent, other, board.task.metric) for other in others]


def learning(results: Results) -> tuple[Table, dict[str, dict[str, str]]]:
    """Whether the best learner of each world beats all of each kind of designed agents, in its standard tasks and in
    how many held-out ones; as a table, and as words by standard task and kind."""
    some = [board for board in boards(results) if board.task.budget == NO_BUDGET_LIMIT]
    asked: dict[Any, dict[Any, list[Match]]] = {}
    chosen, candidates = {}, 1
    for board in some:
        first = next(one for one in some if one.task.env == board.task.env)
        learner = first.best(*LEARNED)
        candidates = max(candidates, sum(map(trained, board.ranked())))
        if learner is not None and learner in board.groups:
            chosen[board.task.id] = learner
            for kind in DESIGNED:
                if result := against(board, learner, kind):
                    asked.setdefault((kind, board.task.held_out), {})[board.task.id, kind] = result
    verdicts = {key: one for family in asked.values() for key, one in words(family, candidates).items()}
    rows, standard = [], dict[str, dict[str, str]]()
    for board in standing(some):
        if board.task.id not in chosen:
            continue
        learner = chosen[board.task.id]
        held = [one.task.id for one in some if one.task.held_out and one.task.env == board.task.env]
        cells, standard[board.task.id] = [], {}
        for kind in DESIGNED:
            standard[board.task.id][kind] = verdicts.get((board.task.id, kind), NONE)
            wins = [verdicts[id_, kind] for id_ in held if (id_, kind) in verdicts]
            more = (
                f" ({wins.count(YES)} of {len(wins)})"
                if wins and board.task.size == board.task.name == "standard"
                else ""
            )
            cells.append(standard[board.task.id][kind] + more)
        rows.append(
            (
                task_name(board.task),
                f"{board.label(learner)} ({learner.config['kind']})",
                score_text(board.score(learner)),
                *cells,
            )
        )
    note = (
        "The learner that is best in a world's standard task, which alone it has trained in. Yes: more than half of "
        "its trainings are better than each of them on the same instances; no: more than half are worse than one of "
        f"them (sign test, corrected for the choice among {candidates} learners). The words of a column hold together "
        "at 95%, and so do those behind its brackets: in how many held-out tasks (Holm 1979). The intervals of scores "
        "allow for trainings that fail and that ten do not show."
    )
    columns = ("task", "learner", "score", *(f"beats every {kind} agent" for kind in DESIGNED))
    return Table("Does learning win?", columns, rows, note, words=frozenset(range(6))), standard


def text_of(found: Estimate) -> str:
    """A value and its interval."""
    return f"{number(found.value)} {interval(found[1:])}"


def beats(board: Board) -> dict[tuple[int, str], str]:
    """Whether the user's agents, learners and designed agents beat all of a kind, by `id` of their group and kind."""
    return words(
        {
            (id(one), kind): result
            for one in board.ranked()
            if one.config["kind"] in (YOURS, *LEARNED, TASK_AGENT)
            for kind in (CLASSIC, PAPER)
            if (result := against(board, one, kind))
        }
    )


def near(ranked: list[Group]) -> list[Group]:
    """The first agent, those of the user, and `AROUND` above and below each; none if no agent is the user's."""
    own = [place for place, one in enumerate(ranked) if one.config["kind"] == YOURS]
    shown = {place for one in own for place in range(one - AROUND, one + AROUND + 1)} | {0}
    return [one for place, one in enumerate(ranked) if place in shown and own]


def leaderboard(results: Results, title: str, mine: bool = False) -> Table:
    """All agents of each standard task, best first: without privacy (title `FREE`), or at each total (`UNDER`). Of
    `mine`, those `near` the user's."""
    free = title == FREE
    some = [one for one in boards(results) if not one.task.held_out and (one.task.budget == NO_BUDGET_LIMIT) == free]
    rows, seeds = [], not_ranked(results)
    for board in some:
        verdicts = beats(board)
        places = {id(one): place for place, one in enumerate(board.ranked(), 1)}
        unranked = [one for one in board.unranked() if one.config["kind"] == YOURS or not mine]
        shown = [*(near(board.ranked()) if mine else board.ranked()), *unranked]
        for one in sorted(shown, key=board.label) if seeds else shown:
            answers = [verdicts.get((id(one), kind), "") for kind in (CLASSIC, PAPER)]
            rows.append((
                f"{task_name(board.task)}{at_budget(board.task.budget)}", str(places.get(id(one), NONE)),
                board.label(one), one.config["kind"], information(one), score_text(board.score(one)),
                mean_of(board, one), score_text(board.silenced(one)), failed(board, one),
                NONE if math.isnan(sent := board.messages(one)) else number(sent), spent_text(one),
                *([] if free else [board.task.covers]), *answers,
            ))  # fmt: skip
    columns: tuple[str, ...] = (
        "task", "rank", "policy", "kind", "information", "score", "mean", "score without messages", "runs that fail",
        "messages of all agents", "epsilon spent", *([] if free else ["what it covers"]), "beats classics",
        "beats papers",
    )  # fmt: skip
    note = (
        "Best first, by the mean of all seeds; neighbours in rank may have overlapping intervals. Deaf: the score if "
        "the agent hears another run's messages, about another instance, instead of its own: what listening is worth "
        "is the difference. A run fails if it is worse than random play on average. Messages and runs that fail are of "
        "the task's own runs (–: not counted). Epsilon spent is the accountant's "
        "total of the agent that spent most. Beats: every classic baseline, every algorithm of the world's paper; the "
        "words of a task hold together at 95%. Of learners the seeds are trainings, of which more than half must be "
        "better, and the intervals allow for failures that these trainings do not show. Who hears nothing has the same "
        "score at every total."
    )
    if seeds:
        stored = [place for place, name in enumerate(columns) if name not in ("rank", "beats classics", "beats papers")]
        columns, rows = (tuple(columns[i] for i in stored), [tuple(row[i] for i in stored) for row in rows])
        return Table(title, columns, rows, f"{seeds}.", words=frozenset({0, 1, 2, 3}))
    words = frozenset({0, 2, 3, 4, *range(11, len(columns))})
    return Table(title, columns, rows, note, words=words)


def spent_text(group: Group) -> str:
    """What the agent that spent most has spent; agents that share a mind send one another's data, which no total
    covers."""
    if EPSILON not in group.metrics:
        return NONE
    return "∞" if centralised(group) else number(group.mean(EPSILON))


def at_budget(budget: Any) -> str:
    """Such as "@3"; empty without a total."""
    return f"@{budget:g}" if isinstance(budget, float) else ""


def mean_of(board: Board, group: Group) -> str:
    """The mean of the task's metric; a training that fails counts as random play."""
    values = group.metrics[board.task.metric]
    return text_of(board.of_trainings(values)) if trained(group) else mean_text(values)


def failed(board: Board, group: Group) -> str:
    """The share of single runs that are worse than random play on average."""
    if math.isnan(board.chance()) or RUNS not in group.curves or first_of(group.config) != board.task.name:
        return NONE  # only runs of a configuration's first task are stored one by one
    runs = np.array([values for _, values in group.curves[RUNS]])
    return f"{(sign(board.task.measure) * (runs - board.chance()) < 0).mean():.0%}"


def rows_of(results: Results) -> list[dict[str, Any]]:
    """All agents of all tasks as JSON values, best first; null where a number is infinite or not known."""
    found = []
    for board in boards(results):
        for one in [*board.ranked(), *board.unranked()]:
            score = board.score(one) or Estimate(math.nan, math.nan, math.nan)
            numbers = dict(zip(("score", "low", "high"), score, strict=True)) | {"mean": board.mean(one)}
            numbers |= {MESSAGES: board.messages(one)}
            numbers |= {EPSILON: one.mean(EPSILON) if EPSILON in one.metrics else math.nan}
            numbers |= {EPSILON: math.inf} if centralised(one) else {}
            about = {"task": board.task.id, "policy": board.label(one), "kind": one.config["kind"]}
            about |= {"information": information(one), "budget": board.task.budget, "covers": board.task.covers}
            found.append(about | {name: rounded(x) for name, x in numbers.items()} | {"seeds": one.seeds.tolist()})
    return found
