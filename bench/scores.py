"""Scores of the standing benchmark: the best agents of each task and budget, by class of information, whether learners
beat hand-designed agents, and the value of messages to each agent.

A score is 0 for the best non-communicating agent and 1 for an agent that gets the observations of all agents
(`taciturn.bench.references`). Where tables name the best of several agents, one half of the seeds chooses it and the
other half evaluates it; if both halves choose the same agent, each half evaluates the other's choice, and all seeds
count. Centralised agents are never ranked.

Trainings may fail, and ten do not show how often. The interval of their mean allows for unseen failures
(`statistics.guarded_mean`), with a failed training counted as random play; and a learner counts as better than another
agent if more than half of its trainings are, on the same instances (the sign test, which is distribution-free).
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
from taciturn.bench.tables import NONE, listed, mean_text, number, with_interval
from taciturn.bench.tasks import (
    BENCHMARKS,
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
    TASKS,
    YOURS,
    Task,
    budgets_of,
    first_of,
    sign,
    world_title,
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
LEAD = "lead over the paper's best"
"""The column of the difference in score from the best of the paper's algorithms."""
SPARE = ("half width", "score without failures", "runs", "what the budget covers", "measure", "failed runs",
         "score without messages", "information", LEAD, "epsilon spent", "messages of all agents")  # fmt: skip
"""The columns of the leaderboard that a narrow terminal leaves out, the first of them first."""
FAILS = -1.0
"""A single run with a lower score fails: it loses more than full information could gain."""
SATURATED = 0.97
"""An agent with this score is as good as full information, and a task with such an agent ranks none."""
WANTED_WIDTH = 0.03
"""Target for the half width of a score's interval in a standard task."""
AROUND = 2
"""Number of agents that `near` shows above and below a user's agent."""


def unchecked(group: Group) -> bool:
    """Whether centralisation is unchecked: the agents are not from this package, and no check is recorded in their
    results."""
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
    """Whether a group is ranked: not a reference, not centralised, and without knowledge of the truth."""
    fair = information(group) in (MEMORYLESS, REMEMBERS)
    return group.config["kind"] not in REFERENCES and fair and not unchecked(group)


class Board(NamedTuple):
    """A task with the groups that played it, and its scale, if it has one."""

    task: Task
    groups: list[Group]
    scale: Scale | None

    def score(self, group: Group, metric: str = "") -> Estimate | None:
        """The score of a group, in the task's metric or in another metric of its measure; None without a scale."""
        if self.scale is None:
            return None
        values = group.metrics[metric or self.task.metric]
        if trained(group):
            return self.scale.apart(self.of_trainings(values))
        return self.scale.paired(values, group.seeds)

    def silenced(self, group: Group) -> Estimate | None:
        """The score of a group that receives another run's messages; None if that was not played."""
        metric = f"{self.task.metric}/{SILENCED}"
        return self.score(group, metric) if metric in group.metrics else None

    def chance(self) -> float:
        """The mean of random play; NaN if it was not played."""
        return next((self.mean(group) for group in self.groups if group.config["kind"] == RANDOM), math.nan)

    def of_trainings(self, values: Floats) -> Estimate:
        """The mean over trainings, with those worse than random play counted as random play; without an interval if
        random play is unknown."""
        if math.isnan(self.chance()):
            return Estimate(float(values.mean()), math.nan, math.nan)
        return statistics.guarded_mean(values, self.chance(), higher_is_better=sign(self.task.measure) > 0)

    def ranked(self) -> list[Group]:
        """The groups to compare, best first by all seeds."""
        return sorted(filter(compares, self.groups), key=lambda one: -sign(self.task.measure) * self.mean(one))

    def unranked(self) -> list[Group]:
        """The other groups, without the references."""
        return [group for group in self.groups if not compares(group) and group.config["kind"] not in REFERENCES]

    def mean(self, group: Group) -> float:
        """The mean of the measure over all seeds."""
        return group.mean(self.task.metric)

    def messages(self, group: Group) -> float:
        """The mean number of messages of all agents in a run of this task; NaN if they were not counted."""
        name = MESSAGES if first_of(group.config) == self.task.name else f"{MESSAGES}/{self.task.name}"
        return group.mean(name) if name in group.metrics else math.nan

    def best(self, *kinds: str, information_: str | None = None, half: int = 0) -> Group | None:
        """The best agent of these kinds (default: all but the user's, without learners that have `too_few` trainings),
        by one half of its seeds (0: even, 1: odd)."""
        wanted = kinds or KINDS
        some = [
            one
            for one in self.ranked()
            if one.config["kind"] in wanted
            and information_ in (None, information(one))
            and (kinds or not self.too_few(one))
        ]
        configuration = sign(self.task.measure)
        return max(some, key=lambda one: configuration * halves(one)[half].mean(self.task.metric), default=None)

    def too_few(self, group: Group) -> bool:
        """Whether a group has too few trainings to be called the best: each half must give an interval, and the
        interval of a positive score, which allows for unseen failures, must lie above 0."""
        score = self.score(group) or Estimate(0.0, 0.0, 0.0)
        return trained(group) and (group.seeds.size < 2 * statistics.FEWEST or score.value > 0 >= score.low)

    def fairly(self, best: Group, *kinds: str, information_: str | None = None) -> Group:
        """The seeds that may evaluate the choice of `best`: the other half; or all, if the other half chooses the same,
        since each half then evaluates a choice that it had no part in."""
        same = self.best(*kinds, information_=information_, half=1) is best
        return best if same else halves(best)[1]

    def evaluated(self, best: Group, *kinds: str, information_: str | None = None) -> Estimate | None:
        """The score of `best`, by seeds that did not choose it."""
        return self.score(self.fairly(best, *kinds, information_=information_))

    def label(self, group: Group) -> str:
        """Its name, with parameters if others of the same name play, and a note if it is not ranked."""
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
    """A group's runs with even and with odd seeds; if one half is empty, the whole group twice."""
    parts = [np.flatnonzero(group.seeds % 2 == half) for half in (0, 1)]
    if not parts[0].size or not parts[1].size:
        return group, group
    return group.at(parts[0]), group.at(parts[1])


def budget_of(group: Group) -> Any:
    """The budget of its agents."""
    return group.config.get("budget", NO_BUDGET_LIMIT)


def quiet(group: Group) -> bool:
    """Whether the agents ignore messages, so the group is the same under every budget."""
    return budget_of(group) == NO_BUDGET_LIMIT and LISTENS in group.metrics and not group.metrics[LISTENS].any()


def not_ranked(results: Results) -> str:
    """The note for a quick run, such as "2 seeds, not ranked"; empty for a full one."""
    quick = [result.seeds.size for result in results if "replicas" in result.config]
    return f"{counted(max(quick), 'seed')}, not ranked" if quick else ""


def boards(results: Results) -> list[Board]:
    """The tasks played, in order. Agents that ignore messages appear under every budget."""
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
    """The boards of standard tasks, of every size, under a budget."""
    return [board for board in some if not board.task.held_out and board.task.budget == budget]


def score_text(score: Estimate | None) -> str:
    """A score as text, such as `0.47 [0.44, 0.50]`."""
    if score is None or not math.isfinite(score.value):
        return NONE
    known = math.isfinite(score.low) and math.isfinite(score.high)
    bounds = f" [{score.low + 0.0:.2f}, {score.high + 0.0:.2f}]" if known else ""
    return f"{score.value + 0.0:.2f}{bounds}"


def half_width(score: Estimate | None) -> float:
    """Half the width of an interval; infinite if it is missing or unbounded."""
    wide = math.nan if score is None else (score.high - score.low) / 2
    return wide if math.isfinite(wide) else math.inf


def task_name(task: Task) -> str:
    """The name of a task, such as "GossipBandit-v0/standard"."""
    return task.plain.partition("/")[2] + " (control)" * task.control


def who_is_best(results: Results) -> Table:
    """The references of each standard task, and the best agent under each budget."""
    some, rows = boards(results), []
    for board in standing(some):
        if board.task.control:
            continue
        texts = []
        for budget in budgets_of(board.task.env):
            there = next((one for one in standing(some, budget) if one.task.plain == board.task.plain), None)
            best = there and there.best()
            texts.append(NONE if not there or not best else best_text(there, best))
        references = (
            [NONE] * 2
            if board.scale is None
            else [f"{number(reference.estimate.value)} {reference.policy}" for reference in board.scale]
        )
        texts += [NONE] * (4 - len(texts))
        rows.append((task_name(board.task), board.task.measure, *references, *texts, board.task.covers or NONE))
    shown = [board.task.env for board in standing(some) if not board.task.control]
    more = sorted({f"`{BENCHMARKS[env].measure}`" for env in shown if BENCHMARKS[env].higher})
    left = [f"In {world_title(env)} {one.control}." for env, one in BENCHMARKS.items() if one.control]
    columns = (
        "task", "measure", "no communication (0)", "full information (1)", "best, no privacy",
        "budget 10", "budget 3", "budget 1", "what the budget covers",
    )  # fmt: skip
    note = (
        "Two columns give the measures of the two references (no communication and full information), both without "
        "privacy. The other columns give scores: 0 is the first reference, and 1 is the second. Brackets are 95% "
        "intervals. A budget is the epsilon that an agent may spend over its whole run. One half of the seeds selects "
        "the best agent, and the other half evaluates it. We also swap the halves: if both select the same agent, all "
        "seeds evaluate it. "
        f"Saturated: the best agent scores {SATURATED:g} or more, so the task no longer separates good agents. "
        f"{f'Of {listed(more)} more is better, of the other measures less. ' if more else ''}"
        f"The table leaves out the controls (tasks that cannot rank agents by their communication). {' '.join(left)}"
    )
    return Table("Who is best", columns, rows, note, words=frozenset(range(9)))


def best_text(board: Board, best: Group) -> str:
    """The score and the name of the best agent, and whether the task still distinguishes agents."""
    score = board.evaluated(best)
    full = score is not None and score.value >= SATURATED
    return f"{score_text(score)} {board.label(best)}{' (saturated)' * full}"


def by_information(results: Results) -> Table:
    """The best agents without and with memory in each standard task, and the reference for centralised agents."""
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
        "An agent without memory acts only on its current observation, as the agents of Chen et al. and of Tao et al. "
        "do. In some environments this observation contains counts, such as those of the received replies. "
        "Agents with full information score 1 by definition and have no rank."
    )
    columns = ("task", "best without memory", "best with memory")
    return Table("Agents with and without memory", columns, rows, note, words=frozenset(range(3)))


class Match(NamedTuple):
    """A comparison of one agent with another, or with several: whether it is better, at the seeds that both have."""

    p: float
    better: bool


def match(one: Group, other: Group, metric: str) -> Match:
    """The match of two agents: by the mean difference; for trainings, by whether more than half of them are better."""
    x, y = (sign(metric) * values for values in one.paired(other, metric))
    if not x.size:
        return Match(math.nan, False)
    if trained(one) or trained(other):
        return Match(statistics.sign_test(x, y), bool((x > y).sum() > (x < y).sum()))
    return Match(statistics.p_value(x, y), float((x - y).mean()) > 0)


def words(asked: Mapping[Any, Match]) -> dict[Any, str]:
    """The answers to several questions, jointly valid at 95% (Holm 1979): better ("yes"), or worse ("no")."""
    adjusted = statistics.holm([one.p for one in asked.values()])
    verdicts = {True: YES, False: NO}
    return {
        key: NONE if math.isnan(p) else verdicts[one.better] if p < LEVEL else OPEN
        for (key, one), p in zip(asked.items(), adjusted, strict=True)
    }


def text_of(found: Estimate) -> str:
    """A value and its interval, if it has one."""
    return with_interval(found.value, found[1:])


def leads(board: Board, one: Group, other: Group) -> Floats:
    """The lead of `one` in score at each of its seeds, in the runs of that seed that both have played; if the other
    agent has not played the seed, the lead over its mean."""
    assert board.scale is not None
    mine, theirs = (board.scale.score(group.metrics[board.task.metric]) for group in (one, other))
    usual, (a, b) = float(theirs.mean()), (single_runs(board, group) for group in (one, other))
    both = min(a.shape[1], b.shape[1])
    paired = (a[:, :both].mean(1), b[:, :both].mean(1)) if both else (mine, theirs)
    known = dict(zip(other.seeds.tolist(), paired[1].tolist(), strict=True))
    pairs = zip(one.seeds.tolist(), mine.tolist(), paired[0].tolist(), strict=True)
    return np.array([value - known[seed] if seed in known else every - usual for seed, every, value in pairs])


def lead(board: Board, one: Group) -> Estimate | None:
    """A group's lead in score over the paper's best algorithm, which one half of the group's seeds chooses and the
    other half compares; for trainings the median. None without such an algorithm, and for that algorithm itself."""
    rival = board.best(PAPER)
    if rival is None or rival is one or board.scale is None or one.config["kind"] in REFERENCES:
        return None
    values = leads(board, one, board.fairly(rival, PAPER))
    return statistics.median(values) if trained(one) else statistics.mean(values)


def near(ranked: list[Group]) -> list[Group]:
    """The first agent, the user's agents, and `AROUND` above and below each; none if no agent is the user's."""
    own = [place for place, one in enumerate(ranked) if one.config["kind"] == YOURS]
    shown = {place for one in own for place in range(one - AROUND, one + AROUND + 1)} | {0}
    return [one for place, one in enumerate(ranked) if place in shown and own]


def leaderboard(results: Results, title: str, mine: bool = False) -> Table:
    """All agents of each standard task, best first: without privacy (title `FREE`), or under each budget (`UNDER`).
    With `mine`, only those `near` the user's."""
    free = title == FREE
    some = [one for one in boards(results) if not one.task.held_out and (one.task.budget == NO_BUDGET_LIMIT) == free]
    rows, seeds = [], not_ranked(results)
    for board in some:
        enough = [one for one in board.ranked() if not board.too_few(one)]
        places = {id(one): place for place, one in enumerate(enough, 1)}
        unranked = [one for one in board.unranked() if one.config["kind"] == YOURS or not mine]
        shown = [*(near(enough) if mine else board.ranked()), *unranked]
        for one in sorted(shown, key=board.label) if seeds else shown:
            score = board.score(one)
            rows.append((
                f"{task_name(board.task)}{at_budget(board.task.budget)}", str(places.get(id(one), NONE)),
                board.label(one), one.config["kind"], information(one), score_text(score), width_text(score, one),
                runs_text(board, one), *failed(board, one), mean_of(board, one), score_text(board.silenced(one)),
                NONE if math.isnan(sent := board.messages(one)) else number(sent), spent_text(one),
                score_text(lead(board, one)), *([] if free else [board.task.covers]),
            ))  # fmt: skip
    columns: tuple[str, ...] = (
        "task", "rank", "policy", "kind", "information", "score", "half width", "runs", "failed runs",
        "score without failures", "measure", "score without messages", "messages of all agents", "epsilon spent", LEAD,
        *([] if free else ["what the budget covers"]),
    )  # fmt: skip
    note = (
        "Agents are ordered by the mean of their measure over all seeds. A centralised agent shares information "
        "outside the channels, and an agent that knows the truth reads hidden variables; both have no rank. A learner "
        "also has no rank if it has so few trainings that failures of further trainings could bring its score below "
        f"0. Half width: half the width of the score's interval. If it is above {WANTED_WIDTH:g}, parentheses give the "
        "core hours of the further runs that would reduce it to this value. Runs: the number of seeds (or trainings) "
        f"times the runs of each. Failed runs: the runs with a score below {FAILS:g}, which lose more than full "
        "information could gain. With fewer than five failed runs, the interval may contain the true score in less "
        "than 95% of the cases (docs/intervals.md). Score without messages: the agent's score if the messages that it "
        "receives come from another run and say nothing about its own instance. The score minus this one is the value "
        "of messages. Epsilon spent: the largest epsilon that the accountant has charged to an agent. Lead: the score "
        "minus the score of the paper's best algorithm. One half of the seeds selects that algorithm, and the other "
        "half gives the lead. The lead of a learner is a median over trainings, with the interval of the sign test. "
        "All other intervals of a learner also allow for failures of further trainings, even if none has failed. "
        "Budgets do not affect agents that ignore messages."
    )
    if seeds:
        stored = [place for place, name in enumerate(columns) if name not in ("rank", LEAD)]
        columns, rows = (tuple(columns[i] for i in stored), [tuple(row[i] for i in stored) for row in rows])
        return Table(title, columns, rows, f"{seeds}.", words=frozenset({0, 1, 2, 3}), spare=SPARE)
    return Table(title, columns, rows, note, words=frozenset({0, 2, 3, 4, *range(15, len(columns))}), spare=SPARE)


def spent_text(group: Group) -> str:
    """The largest epsilon spent by any agent; centralised agents share one another's data, which no finite epsilon
    covers."""
    if EPSILON not in group.metrics:
        return NONE
    return "∞" if centralised(group) else number(group.mean(EPSILON))


def at_budget(budget: Any) -> str:
    """The suffix for a budget, such as "@3"; empty without one."""
    return f"@{budget:g}" if isinstance(budget, float) else ""


def mean_of(board: Board, group: Group) -> str:
    """The mean of the task's metric; a failed training counts as random play."""
    values = group.metrics[board.task.metric]
    return text_of(board.of_trainings(values)) if trained(group) else mean_text(values)


def single_runs(board: Board, group: Group) -> Floats:
    """The scores of a group's single runs, [seeds, runs]; empty if they were not stored (only a configuration's first
    task has them)."""
    if board.scale is None or RUNS not in group.curves or first_of(group.config) != board.task.name:
        return np.empty((0, 0))
    return board.scale.score(np.array([values for _, values in group.curves[RUNS]]))


def failed(board: Board, group: Group) -> tuple[str, str]:
    """The share and the number of single runs with a score below `FAILS`, and the mean score of the others."""
    scores = single_runs(board, group)
    if not scores.size:
        return NONE, NONE
    bad = scores < FAILS
    rest = np.array([row[~wrong].mean() for row, wrong in zip(scores, bad, strict=True) if not wrong.all()])
    without = score_text(statistics.mean(rest)) if len(rest) == len(scores) else NONE
    return f"{bad.mean():.2%} ({number(int(bad.sum()))})", without


def width_text(score: Estimate | None, group: Group) -> str:
    """The half width of an interval; if it is too large, with the core hours of runs that would reduce it to
    `WANTED_WIDTH` (it falls as 1 / sqrt(runs)). Learners would need more trainings instead."""
    wide = half_width(score)
    if not math.isfinite(wide):
        return NONE
    if wide <= WANTED_WIDTH or trained(group):
        return number(wide)
    hours = float(group.wall_seconds.sum()) / 3600 * (wide / WANTED_WIDTH) ** 2
    return f"{number(wide)} ({float(f'{hours:.2g}'):,g} h)"


def runs_text(board: Board, group: Group) -> str:
    """The numbers of seeds and of runs per seed, such as "10 x 1,000"."""
    scores = single_runs(board, group)
    return f"{scores.shape[0]} x {scores.shape[1]:,}" if scores.size else NONE


def rows_of(results: Results) -> list[dict[str, Any]]:
    """All agents of all tasks as JSON values, best first; null for infinite or unknown numbers."""
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
