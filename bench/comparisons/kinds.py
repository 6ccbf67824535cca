"""The standing benchmark: every kind of agent in every task, without privacy and under privacy budgets."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from taciturn.agents import bring, saved_at
from taciturn.bench import score_figures
from taciturn.bench.answers import answers
from taciturn.bench.comparisons.entries import check_entry
from taciturn.bench.comparisons.playing import (
    SEARCH,
    Played,
    begin_run,
    configurations_by_rank,
    first_within,
    fits,
    how_centralised,
    loaded,
    played,
    population,
    training_way,
)
from taciturn.bench.levels import MESSAGES as NUMBERS
from taciturn.bench.levels import Configuration
from taciturn.bench.play import FRESH, HOW_LEARNERS_ARE_JUDGED, config
from taciturn.bench.questions import learning
from taciturn.bench.references import reference_for, same_runs
from taciturn.bench.results import RUNS, Cell, Config, Group, Progress, Result, Results, canonical
from taciturn.bench.score_tables import coverage, held_out, kinds_over_tasks, plain_ppo, trainings
from taciturn.bench.scores import (
    FREE,
    UNDER,
    WANTED_WIDTH,
    boards,
    by_information,
    leaderboard,
    not_ranked,
    standing,
    who_is_best,
)
from taciturn.bench.store import StoreError
from taciturn.bench.study import CENTRALISED, Plot, Score, Study, Table, register
from taciturn.bench.submission import Submission
from taciturn.bench.tasks import (
    BENCHMARKS,
    CLASSIC,
    DELTA,
    LEARNED,
    LISTENS,
    MESSAGES,
    NO_BUDGET_LIMIT,
    ORACLE,
    PAPER,
    PLAIN,
    PROTECTED,
    RANDOM,
    REFERENCES,
    RETURN,
    SILENCED,
    STANDARD,
    TASK_AGENT,
    TUNED_LEARNER,
    YOURS,
    Task,
    budgets_of,
    covered,
    tasks_of,
    under,
    world_title,
)
from taciturn.bench.tasks.benchmark import PLAIN_PPO, TRAINER, TUNED, Entry, Reference
from taciturn.bench.tuned import settings
from taciturn.policies import Learner
from taciturn.policies.external.rows import RowFunction
from taciturn.policies.learned.stored import pretrained_for

QUICK: Config = {"replicas": 10, "messages": [5, 125], "tasks": [STANDARD]}
QUICK_TOTALS = (NO_BUDGET_LIMIT, 3.0)
FITS, RUNS_TRIED = 100, 10
"""To take part, an agent must be able to play this many steps of this many runs of an environment: its first actions
may be valid by chance."""
TRAININGS = 20
"""Number of trainings of each learner: with ten, if half of them have to evaluate a choice made by the other half, no
answer is possible (`benchmarks/power.py`)."""
SLOW, HELD_OUT, MUTED = 40, 50, 100
"""Runs per seed: of random play and of a user's agent, which may be slow; of a held-out task, or half of the standard
task's runs if that is fewer; and of runs with another run's messages in place of the agents' own."""


@register
class KindsOfAgents(Study):
    name = "agents"
    title = "Every kind of agent in every task"
    description = (
        "Random play, textbook baselines, the papers' algorithms as published and tuned, agents hand-designed for the "
        "tasks, PPO of Stable-Baselines3 with all arguments at their defaults, and tuned learners, on each "
        "environment's default observations, actions and rewards. Each environment has its own measure, from its paper "
        "where there is one. The score is 0 for the best non-communicating agent and 1 for full information, both "
        "without privacy. Under a budget each agent may spend epsilon = 10, 3 or 1 over its whole run, at "
        f"delta = {DELTA:g}: by its own declaration (`Policy.within`), or at a constant epsilon per message, the best "
        f"of those for {', '.join(map(str, NUMBERS))} messages in {SEARCH} separate runs each, with a budget that "
        "stops an agent before it overspends. Where each value enters one message, every message may cost the whole "
        "budget. In gossip and social bandit agents without a preference then send zeros, because the mechanism does "
        f"not hide silence. {covered(BENCHMARKS)} Learners with a public schedule train under the same budget. Plain "
        "PPO trains for less than five minutes on one core; all agents share one network. Each learner has "
        f"{TRAININGS} trainings. Policies that do not learn play 10 seeds of 1,000 runs in standard tasks, which "
        f"limits a score's half width to {WANTED_WIDTH:g}; where a run takes longer than 5 ms, 100 runs (crowds) or 4 "
        "(federated training, recommender). Random play and the papers' algorithms also play the seeds of the "
        f"trainings. A held-out task has at most {HELD_OUT} runs per seed. The tables give the number of runs behind "
        "each stored score. Held-out tasks are played without privacy. Budgets apply to agents hand-designed for the "
        "tasks, the papers' algorithms (with searched settings where available), and learners; textbook policies play "
        "standard tasks without privacy. An oracle that immediately gets one answer of every agent is a reference in "
        "gossip and social bandit. " + HOW_LEARNERS_ARE_JUDGED
    )
    score = Score(RETURN, label="mean return of an agent")
    reference: ClassVar[Config] = {"kind": RANDOM}
    facets = ("env",)
    color = "kind"
    rows = ("policy",)
    headline = True
    seeds: ClassVar[tuple[int, int]] = (1, 10)
    agents: tuple[str, ...] = ()
    """The user's agents, as names for `taciturn.agents.bring`; they play wherever they fit."""

    def __init__(self) -> None:
        self._trials: dict[str, Trial] = {}
        self._stored_runs: dict[str, int] = {}

    def trial(self, agent: str, report: Callable[[str, float], None] = lambda *_: None) -> "Trial":
        """The tasks that a user's agent can play, tried once."""
        content = digest(agent)
        if agent not in self._trials or self._trials[agent].content != content:
            self._trials[agent] = tried(agent, content, report)
        return self._trials[agent]

    def cells(self, quick: bool) -> list[Cell]:
        some = [place for agent in self.agents for place in self.trial(agent).places]
        result = [one | QUICK for one in some if one["budget"] in QUICK_TOTALS] if quick else some
        for env in BENCHMARKS:
            sizes = [task for task in tasks_of(env) if not task.held_out]
            for first in sizes[:1] if quick else sizes:
                for budget in budgets_of(env):
                    if not quick or budget in QUICK_TOTALS:
                        task = first._replace(budget=budget)
                        result += [one | QUICK if quick else one for one in entries_of(task, quick)]
        return [cell for one in result for cell in self.sweep([one], range(seeds_of(one, quick)))]

    def match_stored(self, group: Group) -> None:
        if RUNS in group.curves:
            self._stored_runs[canonical(group.config)] = group.curves[RUNS][0][1].size

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        one, report = cell.config, progress or (lambda _: None)
        runs = self._stored_runs.get(canonical(one)) or runs_of(one)
        budget, replicas = one.get("budget", NO_BUDGET_LIMIT), one.get("replicas", runs)
        tasks = played_by(one)
        agent, configurations_within = self.prepared(cell, tasks[0], report)
        means, scores = dict[str, float](), np.empty(0)
        first, configuration = (
            first_within(tasks[0], agent, one, replicas, cell.seed, configurations_within)
            if configurations_within
            else (played(tasks[0], agent, one, replicas, cell.seed), None)
        )
        for place, task in enumerate(tasks):
            if not fits(task, agent, one):
                continue
            if one["kind"] == YOURS:
                centralised = bool(how_centralised(agent, one, cell.seed, task.variant))
                means[CENTRALISED] = max(means.get(CENTRALISED, 0.0), float(centralised))
            runs = max(min(replicas // 2, HELD_OUT), 1) if task.held_out else replicas
            result: Played = played(task, agent, one, runs, cell.seed, configuration) if place else first
            means[task.metric] = float(result.metrics[task.measure].mean())
            if place:
                means[f"{MESSAGES}/{task.name}"] = result.spent[MESSAGES]
        means |= {RETURN: float(first.metrics[RETURN].mean()), **first.spent}
        scores = first.metrics[tasks[0].measure]
        listens = (
            BENCHMARKS[one["env"]].receives and budget == NO_BUDGET_LIMIT and one["kind"] not in (*REFERENCES, ORACLE)
        )
        if listens and replicas > 1:
            some = min(replicas, MUTED)
            muted = played(tasks[0], agent, one, some, cell.seed, configuration, silenced=True)
            same = first if some == replicas else played(tasks[0], agent, one, some, cell.seed, configuration)
            means[f"{tasks[0].metric}/{SILENCED}"] = float(muted.metrics[tasks[0].measure].mean())
            means[LISTENS] = float((muted.metrics[tasks[0].measure] != same.metrics[tasks[0].measure]).any())
        return Result(means, {RUNS: (np.arange(scores.size), scores)})

    def trains(self, config: Config) -> bool:
        return config.get("policy") == PLAIN_PPO or super().trains(config)

    def prepared(self, cell: Cell, task: Task, report: Progress) -> tuple[Any, list[Configuration]]:
        """The agent of a cell, trained if it is a learner, and its ways to spend the task's budget, best first; none
        without a budget."""
        if not isinstance(task.budget, float):
            return loaded(cell, report), []
        one = cell.config
        world = population(one, 1, "choice of a level", task.variant)
        untrained = None if one["policy"] == PLAIN_PPO else bring(one["policy"], **one["policy_params"])
        agent = loaded(cell, lambda done: report(done / 2), training_way(task, untrained, world).channels)
        runs = min(SEARCH, one.get("replicas", BENCHMARKS[task.env].runs))
        numbers = one.get("messages", NUMBERS)
        return agent, configurations_by_rank(
            task, agent, one, cell.seed, runs, numbers, lambda done: report((1 + done) / 2)
        )

    def answers(self, results: Results) -> list[str]:
        """The findings of full runs; for a quick run, a note that it ranks no agents."""
        seeds = not_ranked(results)
        return [f"Who is best? {seeds}; the table below has the findings of full runs."] if seeds else answers(results)

    def tables(self, results: Results) -> list[Table]:
        tables = [leaderboard(results, FREE), leaderboard(results, UNDER)]
        if not not_ranked(results):
            first = [who_is_best, coverage, by_information, learning, kinds_over_tasks, held_out]
            tables = [*(make(results) for make in first), *tables, trainings(results), plain_ppo(results)]
        return [table for table in tables if table.rows]

    def plots(self, results: Results) -> list[Plot]:
        """The figures of scores without privacy, and under privacy budgets."""
        return score_figures.plots(boards(results), self.name, not_ranked(results))

    def check(self, place: Path, found: Submission) -> None:
        """Raise StoreError for results of another study, of environments that the study does not have, or with
        impossible numbers."""
        from taciturn.validation import shown

        if found.study != self.name:
            raise StoreError(f"{place} must hold the study {self.name}, not {shown(found.study)}")
        own = [cell.config for cell in self.cells(quick=False)]
        known = {world_of(config) for config in own}
        for group in found.results:
            if world_of(group.config) not in known:
                world = f"{shown(group.config.get('env'))} with {shown(group.config.get('env_params'))}"
                raise StoreError(
                    f"{place} must hold environments of this version of the study {self.name}, not {world}"
                )
            if "replicas" in group.config:
                raise StoreError(f"{place} must hold a full run, not a quick one")
            try:
                check_entry(group, own, range(TRAININGS))
            except ValueError as error:
                raise StoreError(f"{place} has an impossible result in {group.config['env']}: {error}") from error
        configs = [canonical(group.config) for group in found.results]
        if not configs or len(set(configs)) < len(configs):
            raise StoreError(f"{place} must hold results, each configuration once")

    def knows_truth(self, config: Config) -> bool:
        """Whether the policy knows hidden truth; for a policy from the user's own module, as recorded in its
        configuration."""
        return config.get("knows_truth") is True or super().knows_truth(config)

    def best(self, panel: Results) -> Group | None:
        """The best group, by the environment's measure."""
        known = next(iter(standing(boards(panel))), None)
        return known and known.best()


def entries_of(task: Task, quick: bool) -> list[Config]:
    """The configurations of all agents to run in a standard task under a budget."""
    benchmark, result = BENCHMARKS[task.env], list[Config]()
    protected = PROTECTED.get(task.env)
    free, first = task.budget == NO_BUDGET_LIMIT, task.name == STANDARD
    learners: dict[str, tuple[Entry, ...]] = {}
    if first and free:
        learners = {PLAIN: ((PLAIN_PPO, {}),), TUNED_LEARNER: benchmark.tuned}
    elif first and protected and protected.learner is not None:
        name, own = protected.learner
        assert not isinstance(own, str)
        learners = {PLAIN if name == PLAIN_PPO else TUNED_LEARNER: ((name, own),)}
    if quick:  # it has no time for training
        learners = {TUNED_LEARNER: ((TRAINER, {}),)} if first and pretrained_for(task.id, 0) else {}
    agents: dict[str, tuple[Entry, ...]] = {TASK_AGENT: benchmark.designed, **learners}
    agents |= {RANDOM: (("Random", {}),)} if free else {}
    agents[PAPER] = benchmark.papers(free=free)
    agents |= {CLASSIC: benchmark.classic} if free and first else {}
    if benchmark.oracle is not None and not free and not quick:
        name, like = benchmark.oracle
        agents[ORACLE] = ((name, settings(task, like, TUNED)),)
    for kind, some in agents.items():
        for policy, own in some:
            if not free and protected and policy in protected.without:
                continue
            params = (
                benchmark.params(policy, learns=kind in LEARNED)
                | dict(task.variant.params)
                | under(task.env, task.budget)
            )
            params |= benchmark.quick if quick else {}
            one = config(task.env, policy, settings(task, policy, own), **params) | {
                "kind": kind,
                "budget": task.budget,
            }
            one |= {} if first else {"size": task.name}
            if one not in result:  # nothing was searched
                result.append(one)
    if free:
        result += [
            reference_config(tasks, kind, reference, quick)
            for kind in REFERENCES
            for reference, tasks in marked(task, kind)
            if task in tasks or not quick
        ]
    return result


def marked(first: Task, kind: str) -> list[tuple[Reference, list[Task]]]:
    """The references of a standard task and of its variants, each with the tasks that it plays."""
    results: list[tuple[Reference, list[Task]]] = []
    for task in tasks_of(first.env, NO_BUDGET_LIMIT, first.size):
        reference = reference_for(task, kind)
        if reference is not None and not same_runs(task, kind):
            known = next((tasks for other, tasks in results if other == reference), None)
            if known is None:
                results.append((reference, [task]))
            else:
                known.append(task)
    return results


def reference_config(tasks: list[Task], kind: str, reference: Reference, quick: bool) -> Config:
    """The configuration of a reference that plays these tasks."""
    benchmark, first = BENCHMARKS[tasks[0].env], tasks[0]
    params = benchmark.params(reference.policy, learns=False) | dict(first.variant.params if first.variant.size else {})
    params |= benchmark.quick if quick else {}
    one = config(first.env, reference.policy, settings(first, reference.policy, reference.own), **params)
    one |= {"kind": kind, "budget": NO_BUDGET_LIMIT, "tasks": [task.name for task in tasks]}
    one |= {"world": dict(reference.world)} if reference.world else {}
    return one | ({"plays_in": reference.plays_in} if reference.plays_in else {})


def seeds_of(one: Config, quick: bool) -> int:
    """The number of seeds of a configuration: for learners it is the number of trainings, and the policies compared
    with them play the same seeds."""
    if quick:
        return KindsOfAgents.seeds[0]
    free = one["budget"] == NO_BUDGET_LIMIT and "size" not in one
    return TRAININGS if one["kind"] in LEARNED or (free and one["kind"] in (PAPER, RANDOM)) else KindsOfAgents.seeds[1]


def runs_of(one: Config) -> int:
    """The number of runs per seed, or per training, in a standard task."""
    first = played_by(one)[0]
    runs = first.variant.runs or BENCHMARKS[one["env"]].runs
    if first.held_out:
        runs = min(runs, HELD_OUT)
    if one["kind"] in LEARNED and runs > SEARCH:
        return FRESH
    return min(runs, SLOW) if one["kind"] in (YOURS, RANDOM) else runs


def played_by(one: Config) -> list[Task]:
    """The tasks that a cell plays: those with the size that its agent was tuned for; for learners and the user's agents
    all tasks of the environment. The first is its standard task. For references, and in a quick run, those in the
    configuration."""
    if one["kind"] in REFERENCES:
        return [task for task in tasks_of(one["env"]) if task.name in one["tasks"]]
    everything = one["kind"] in (*LEARNED, YOURS)
    tasks = tasks_of(one["env"], one.get("budget", NO_BUDGET_LIMIT), None if everything else one.get("size", STANDARD))
    named = [task for task in tasks if task.name in one.get("tasks", [task.name])]
    return named if one.get("budget", NO_BUDGET_LIMIT) == NO_BUDGET_LIMIT and one["kind"] != ORACLE else tasks[:1]


def joined(
    studies: list[Study], agents: list[str], report: Callable[[str, float], None] = lambda *_: None
) -> tuple[list[Study], list[str]]:
    """The studies, with the user's agents in the study `agents`, and lines that name the tasks that these cannot play.

    Raises:
        ValueError: there is a study other than `agents`, a name that no agent has, or an agent that fits no
            environment.
    """
    result, lines, names = list[Study](), dict[str, None](), tuple(dict.fromkeys(agents))
    for study in studies:
        if not isinstance(study, KindsOfAgents):
            raise ValueError(f"--agent is for the study agents, and {study.name!r} takes none")
        own = type(study)()
        own.agents = names
        for name in names:
            trial = own.trial(name, report)
            if not trial.places:
                raise ValueError(
                    f"--agent {name} fits none of the worlds {', '.join(BENCHMARKS)} as the study agents plays them; "
                    f"in the first: {next(iter(trial.elsewhere.values()))}"
                )
            lines |= dict.fromkeys(trial.lines(name))
        result.append(own)
    return result, list(lines)


@dataclass
class Trial:
    """The tasks that an agent can play.

    Attributes:
        content: a hash of its saved file or folder (`digest`).
        places: configurations of the environments and budgets that it can play. It plays under budgets if its schedule
            is public or agents do not decide when to send.
        elsewhere: `{environment: the reason why it cannot}`.
        observations: `{fields: environments}`, the observations of these environments, if the agent is a function that
            does not declare (`observes`) the observations it is written for; else empty.
    """

    content: Config
    places: list[Config] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)
    observations: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, agent: str) -> Iterator[str]:
        """The environments that it does not play, each with the reason, and the observations that it may misread."""
        for env, why in self.elsewhere.items():
            yield f"{agent} does not fit {world_title(env)}: {why}"
        if len(self.observations) > 1:
            some = (f"{' and '.join(map(world_title, envs))}: {one}" for one, envs in self.observations.items())
            yield (
                f"{agent} does not declare its observations, and plays where they differ ({'; '.join(some)}): set "
                "its attribute observes to one of these, and it is left out of the others"
            )


def tried(agent: str, content: Config, report: Callable[[str, float], None]) -> Trial:
    """Try an agent in each environment; `report` is called with the current item and the fraction done."""
    made, trial, own = bring(agent), Trial(content), dict(content)
    for flag, name in (("needs_truth", "knows_truth"), ("memoryless", "memoryless")):
        if getattr(made, flag, False) is True:
            own[name] = True
    for number, (env, benchmark) in enumerate(BENCHMARKS.items()):
        report(f"{agent} is tried in {world_title(env)}", number / len(BENCHMARKS))
        whys = list[str]()
        for form in ({}, benchmark.for_learners):
            one = config(env, agent, {}, **benchmark.world | form) | {"kind": YOURS, "budget": NO_BUDGET_LIMIT} | own
            whys.append(refusal(agent, one).partition("\n")[0])
            if not whys[-1]:
                trial.places.append(one)
                for budget in budgets_of(env)[1:]:
                    if not overspends(agent, env, one, budget):
                        trial.places.append(
                            one | {"budget": budget, "env_params": {**one["env_params"], **under(env, budget)}}
                        )
                if isinstance(made, RowFunction) and not made.observes:
                    (role, *_) = population(one, 1, "evaluation").roles.values()
                    trial.observations.setdefault(role.layout.named, []).append(env)
                break
        else:
            trial.elsewhere[env] = whys[0]
    return trial


def overspends(agent: str, env: str, one: Config, budget: Any) -> bool:
    """Whether every way to spend a budget makes an agent overspend, as tested in one short run; untrained learners
    count as staying within the budget."""
    made = bring(agent)
    if isinstance(made, Learner):
        return False
    task = tasks_of(env, budget)[0]
    short = one | {"env_params": {**one["env_params"], **under(env, budget)}}
    try:
        first_within(task, made, short, 2, 0, configurations_by_rank(task, made, short, 0, 2))
    except ValueError:
        return True
    return False


def refusal(agent: str, config: Config) -> str:
    """Why an agent cannot play the first steps of an environment; empty if it can. Untrained learners count as
    fitting."""
    made = bring(agent)
    if isinstance(made, Learner):
        return ""
    try:
        world = population(config, RUNS_TRIED, "evaluation")
        rollout = begin_run(world, made, config, 0)
        for _ in range(FITS):
            if not world.done.all():
                rollout.play()
    except Exception as error:  # an agent's own code may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def digest(agent: str) -> Config:
    """`{"content": hash}` of a saved agent's files, so another training under the same name counts as another agent;
    else empty."""
    path = saved_at(agent)
    if path is None:
        return {}
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path] * path.is_file()
    if not files:
        return {}
    return {"content": hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]}


def world_of(config: Config) -> str:
    """An environment and its parameters, for comparisons."""
    return json.dumps([config.get("env"), config.get("env_params")], sort_keys=True)
