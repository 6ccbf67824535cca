"""Every kind of agent in every world: at random, textbook baselines, the papers' algorithms, plain PPO and tuned
learners."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from taciturn.agents import bring
from taciturn.bench.comparisons.entries import MESSAGES, check_entry
from taciturn.bench.play import FRESH, HOW_LEARNERS_ARE_JUDGED, config, learns
from taciturn.bench.results import RUNS, Cell, Config, Group, Progress, Result, Results, canonical, describe
from taciturn.bench.scores import (
    CLASSIC,
    KINDS,
    LEARNED,
    PAPER,
    PLAIN,
    RANDOM,
    RETURN,
    YOURS,
    best_of,
    challenge_text,
    challenges,
    designed_best,
    gain,
    held_out,
    learned_best,
    normalised,
    overall,
    profiles,
    ranked,
    ranking,
    sign,
    times,
    unchecked,
)
from taciturn.bench.scores import (
    PPO as PPO,
)
from taciturn.bench.store import StoreError
from taciturn.bench.study import POOLS, Plot, Score, Study, Table, register
from taciturn.bench.submission import Submission
from taciturn.bench.tables import NONE, listed, mean_text, number
from taciturn.bench.tasks import AS_TRAINED, CONTESTS, Task, others_in, tasks_of
from taciturn.envs.core import ChannelConfig, Population, Rollout, as_policies, begin
from taciturn.envs.core.descriptor import Entry, Variant
from taciturn.policies import Learner, Mixture
from taciturn.policies.external.rows import Predictor
from taciturn.pooling import pooling, replicas_for
from taciturn.registry import entry, make_policy, make_world, one_agent, own_policies
from taciturn.validation import Array, shown
from taciturn.wrappers import NoPrivacy
from taciturn.wrappers.channels import on_channel, private_config

UNCHECKED = " (not checked for pooling)"
NOTHING: Mapping[str, ChannelConfig] = MappingProxyType({})
QUICK_STEPS = 4096
FITS = 10
"""An agent must be able to play so many steps of a world to take part in it: a first action may be valid by chance."""
HELD_OUT_SHARE = 2
"""A held-out task is judged in this many times fewer runs than the standard task."""


def population(config: Config, replicas: int, purpose: str, variant: Variant = AS_TRAINED) -> Population[Any]:
    """Replicas of a world. If it has two sides, designed policies get the whole world, and others play one side of
    it."""
    env, params = config["env"], config["env_params"] | dict(variant.params)
    if CONTESTS[env].side is not None and config["kind"] not in (CLASSIC, PAPER):
        (players,) = entry(env).players
        found = one_agent(env, replicas, params | {players: others_in(env, variant)})
    else:
        found = make_world(env).population(replicas, **params)
    found.purpose = purpose
    return found


def behind(world: Population[Any], channels: Mapping[str, ChannelConfig]) -> Population[Any]:
    """The world with these mechanisms on its channels at every reset."""
    for name, added in channels.items():
        world = on_channel(world, name, added)
    return world


def plain_ppo(cell: Cell, progress: Progress | None, channels: Mapping[str, ChannelConfig]) -> Predictor:
    """PPO with all its arguments left at their defaults; it draws its actions, as in training."""
    import torch
    from stable_baselines3 import PPO

    from taciturn.policies.learned.training import fit, library_seed, one_thread
    from taciturn.wrappers.sb3 import RowsVecEnv

    field = CONTESTS[cell.config["env"]]
    steps = cell.config["policy_params"].get("steps", field.steps)
    world = behind(population(cell.config, field.replicas, "training"), channels)

    def told(seen: dict[str, Any], _: dict[str, Any]) -> bool:
        if progress is not None:
            progress(min(1.0, seen["self"].num_timesteps / steps))
        return True

    with one_thread():
        model = PPO("MlpPolicy", RowsVecEnv(world, seed=cell.seed), seed=library_seed(cell.seed), device="cpu")
    fit(model, steps, callback=told)
    torch.manual_seed(library_seed(cell.seed))
    return Predictor(model, deterministic=False)


def brought(cell: Cell, progress: Progress | None, channels: Mapping[str, ChannelConfig] = NOTHING) -> Any:
    """The agent of a cell. A learner trains when it begins a run, or, if mechanisms are given, now, with these on the
    channels."""
    name, own = cell.config["policy"], dict(cell.config["policy_params"])
    if name == PPO:
        return plain_ppo(cell, progress, channels)
    if not learns(name):
        return bring(name, **own)
    agent = bring(name, **own, seed=cell.seed)
    agent.progress = progress
    if channels:
        agent.train(behind(population(cell.config, 1, "training"), channels))
    return agent


def opened(
    world: Population[Any],
    policy: Any,
    config: Config,
    seed: int,
    channels: Mapping[str, ChannelConfig] | None = None,
    variant: Variant = AS_TRAINED,
) -> Rollout:
    """A fresh run of a policy, already begun. What stands on the channels is always stated: no noise, unless mechanisms
    are given."""
    if channels is None:
        silent = (name for name, channel in world.channels.items() if not channel.chosen)
        channels = {name: private_config(NoPrivacy()) for name in silent}
    faulty = {name: replace(channels[name], faults=(fault,)) for name, fault in variant.faults.items()}
    world.reset(seed=seed, options={"channels": {**channels, **faulty}})
    policies = as_policies(world, everybody(world, policy, config["env"], variant))
    begin(world, policies)
    return Rollout(world, policies)


def everybody(world: Population[Any], policy: Any, env: str, variant: Variant = AS_TRAINED) -> Any:
    """A policy, with the policies of the other side if the world has two."""
    if len(world.roles) == 1:
        return policy
    others = Mixture([(make_policy(name), share) for name, share in others_in(env, variant).items()])
    return {role: policy if role == CONTESTS[env].side else others for role in world.roles}


def judged(
    world: Population[Any],
    policy: Any,
    config: Config,
    seed: int,
    channels: Mapping[str, ChannelConfig] | None = None,
    variant: Variant = AS_TRAINED,
) -> dict[str, Array]:
    """The metrics of a run, [B], with `return`, the sum of an agent's rewards. Channels are as for `opened`."""
    rollout, total = opened(world, policy, config, seed, channels, variant), np.zeros(world.num_envs)
    side = CONTESTS[config["env"]].side if len(world.roles) > 1 else None
    served = sum(role.num_agents for name, role in world.roles.items() if name != side)
    while not world.done.all():
        reward = rollout.play().reward
        total += reward.mean(1) if side is None else reward[side].sum(1) / served
    return world.metrics() | {RETURN: total}


def trained(agent: Any, config: Config, seed: int) -> Any:
    """The agent; a learner has been trained in the standard task of its world."""
    if isinstance(agent, Learner):
        opened(population(config, FRESH, "evaluation"), agent, config, seed)
    return agent


def shared_mind(agent: Any, config: Config, seed: int, variant: Variant = AS_TRAINED) -> str:
    """How a policy's agents share a mind in a task (`taciturn.pooling`), in a sentence; empty if they were not found
    to.

    Policies of this package declare it, and tests check that they do. Others are checked in separate runs.
    """
    if config["policy"] in own_policies():
        return "it says so" if agent.pools else ""
    if getattr(agent, "needs_truth", False):
        return "it needs the hidden truth, which holds what all others saw"

    def start(actor: Any, seed: int) -> Rollout:
        world = population(config, 1, "pooling", variant)
        (role,) = {"platform"} & set(world.roles) or set(world.roles)
        world = population(config, replicas_for(world.roles[role].num_agents), "pooling", variant)
        return opened(world, actor, config, seed, variant=variant)

    return pooling(trained(agent, config, seed), start, seed)


def task_config(task: Task, name: str, **form: Any) -> Config:
    """The configuration in which an agent of that name plays a task; `form` is what differs in the form of the world,
    for learners."""
    field = CONTESTS[task.env]
    kind = next((kind for kind, some in ((CLASSIC, field.classic), (PAPER, field.paper)) if name in dict(some)), YOURS)
    return config(task.env, name, **field.params(name, learns=learns(name)) | form) | {"kind": kind}


def play_task(task: Task, name: str, agent: Any, runs: int, seed: int, **form: Any) -> dict[str, Array]:
    """The metrics of runs of a task, [B], as the study plays them: 100 runs of a seed in a standard task, and 50 in one
    held out.

    An untrained learner first trains in the standard task.

    Args:
        name: of the agent; it decides the kind: classic, paper or yours.
        **form: what differs in the form of the world, for learners.
    """
    one = task_config(task, name, **form)
    if task.held_out:
        trained(agent, one, seed)
    world = population(one, runs, "evaluation", task.variant)
    return judged(world, agent, one, seed, variant=task.variant)


def sent(world: Population[Any], channels: Iterable[str]) -> float:
    """The messages of all agents together on the channels in a run, on average over replicas."""
    return sum(float(world.channels[name].messages().sum(1).mean()) for name in channels)


@register
class KindsOfAgents(Study):
    name = "agents"
    title = "Every kind of agent in every world"
    description = (
        "Random play, textbook baselines, the papers' algorithms, PPO of Stable-Baselines3 with all its arguments left "
        "at their defaults, and a tuned learner, on the observations, actions and rewards that each world has by "
        "default. No channel has noise. Worlds of many agents are smaller than by default, as the configurations say. "
        "Plain PPO trains for less than five minutes on one core, without normalisation; all agents share one network. "
        "Each world has its own measure, that of its paper where there is one. Policies that do not learn play 10 "
        "seeds of as many runs. A run fails if it is worse than random play on average. " + HOW_LEARNERS_ARE_JUDGED
    )
    score = Score(RETURN, label="mean return of an agent")
    reference: ClassVar[Config] = {"kind": RANDOM}
    facets = ("env",)
    color = "kind"
    rows = ("policy",)
    headline = True
    seeds: ClassVar[tuple[int, int]] = (2, 10)
    agents: tuple[str, ...] = ()
    """Agents of the user's own, as `taciturn.agents.bring` takes them by name; they play wherever they fit."""

    def cells(self, quick: bool) -> list[Cell]:
        found = [{**one, "replicas": 10} if quick else one for agent in self.agents for one in places(agent)]
        for env, field in CONTESTS.items():
            plain: Config = {"steps": QUICK_STEPS} if quick else {}
            tuned = () if quick else field.tuned
            entries: tuple[tuple[Entry, ...], ...] = (
                (("Random", {}),),
                field.classic,
                field.paper,
                ((PPO, plain),),
                tuned,
            )
            for kind, some in zip(KINDS, entries, strict=True):
                for policy, own in some:
                    params = field.params(policy, learns=kind in LEARNED) | ((field.quick or {}) if quick else {})
                    one = config(env, policy, own, **params) | {"kind": kind}
                    found.append(one | {"replicas": 10} if quick else one)
        return self.sweep(found, range(self.seeds[not quick]))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        agent, replicas = brought(cell, progress), cell.config.get("replicas", FRESH)
        measure, means, scores = CONTESTS[cell.config["env"]].measure, dict[str, float](), np.empty(0)
        for task in tasks_of(cell.config["env"]):
            if cell.config["kind"] == YOURS:
                pooled = bool(shared_mind(agent, cell.config, cell.seed, task.variant))
                means[POOLS] = max(means.get(POOLS, 0.0), float(pooled))
            runs = replicas // HELD_OUT_SHARE if task.held_out else replicas
            world = population(cell.config, runs, "evaluation", task.variant)
            found = judged(world, agent, cell.config, cell.seed, variant=task.variant)
            means[task.metric] = float(found[measure].mean())
            if not task.held_out:
                means |= {RETURN: float(found[RETURN].mean()), MESSAGES: sent(world, world.channels)}
                scores = found[measure]
        return Result(means, {RUNS: (np.arange(scores.size), scores)})

    def answers(self, results: Results) -> list[str]:
        """Where learners beat designed agents."""
        found = []
        for kind, name in ((PAPER, "every algorithm of a world's own paper"), (CLASSIC, "every classic baseline")):
            worlds, held = challenges(self.by_world(results), kind)
            if any(worlds.values()):
                told = "; ".join(f"{word} in {listed(some)}" for word, some in worlds.items() if some)
                where = "" if held == "0 of 0" else f" On held-out tasks, never used for training: in {held}."
                found.append(f"Does learning beat {name}? {told[0].upper()}{told[1:]}.{where}")
        return found

    def tables(self, results: Results) -> list[Table]:
        panels = self.by_world(results)
        tables = [self.answer(results), overall(panels), held_out(panels, lambda group: self.label(group, results))]
        return [
            *(table for table in tables if table.rows),
            self.winners(results),
            self.leaderboard(results),
            self.plain(results),
        ]

    def plots(self, results: Results) -> list[Plot]:
        """How good agents are in each world, and how kinds of agents compare over all tasks."""
        panels = self.by_world(results)
        return [*ranking(panels, lambda group: self.label(group, results), self.name), *profiles(panels, self.name)]

    def answer(self, results: Results) -> Table:
        """The best agent of each world, its lead, and whether a learner beats the textbooks' and the papers'
        algorithms."""
        rows = []
        for (measure, title, panel), (env, _) in zip(self.worlds(results), self.by_world(results), strict=True):
            if not (compared := ranked(panel)):
                continue
            best, *others = in_order(compared, measure)
            chance, second = best_of(panel.select(kind=RANDOM), measure), best_of(others, measure)
            ahead = [NONE if other is None else times(best, other, measure) for other in (chance, second)]
            name = f"{self.label(best, results)} ({best.config['kind']})"
            next_best = "" if second is None else f" ({self.label(second, results)})"
            rows.append(
                (
                    title,
                    name,
                    mean_text(best.metrics[measure]),
                    ahead[0],
                    ahead[1] + next_best,
                    *(challenge_text(env, panel, kind) for kind in (CLASSIC, PAPER)),
                )
            )
        columns = (
            "world, measure", "best", "mean", "times better than random", "times better than the next best",
            "learner beats classics (held-out)", "learner beats paper (held-out)",
        )  # fmt: skip
        note = (
            "Best by its mean, with its 95% interval. The learner is the better of plain PPO and the tuned learners, "
            "judged in runs that "
            'it has not met before. It beats the classics, or the paper\'s algorithms ("yes"), if the interval of its '
            "difference to each "
            'of them is on the better side of 0, and does not ("no") if that to one of them is on the other side. In '
            "brackets: in how many of the held-out tasks, in which nothing trained, it beats them. A dash: there is "
            "nothing to compare with."
        )
        return Table("Who is best", columns, rows, note, words=frozenset({0, 1, 4, 5, 6}))

    def winners(self, results: Results) -> Table:
        """The best of each kind, and whether a learner is better than all designed agents."""
        rows, kinds = [], (*KINDS, *([YOURS] if any(group.config["kind"] == YOURS for group in results) else []))
        for measure, title, panel in self.worlds(results):
            best = {kind: best_of(panel.select(kind=kind), measure) for kind in kinds}
            named = [
                self.text(best[kind], measure, results if kind in (CLASSIC, PAPER, YOURS) else None) for kind in kinds
            ]
            designed, learner = designed_best(panel, measure), learned_best(panel, measure)
            rows.append((title, gain(learner, designed, measure), *named))
        note = (
            "The best of each kind by its mean, with 95% intervals over trainings (policies that do not learn: over "
            "seeds). The second column says by how much the better learner is above the best that was designed by "
            "hand, paired by seed; as each is the best of several after the fact, both are a little flattered."
        )
        columns = ("world, measure", "does a learner do better?", *kinds)
        return Table("The best of each kind", columns, rows, note, words=frozenset({0, 1}))

    def plain(self, results: Results) -> Table:
        """Whether plain PPO earns more than random play in the task that it was trained for."""
        rows = []
        for _, title, panel in self.worlds(results):
            ppo, chance = (best_of(panel.select(kind=kind), RETURN) for kind in (PLAIN, RANDOM))
            row = (
                title.partition(":")[0],
                self.text(chance, RETURN),
                self.text(ppo, RETURN),
                gain(ppo, chance, RETURN),
            )
            rows.append((*row, "–" if ppo is None else f"{ppo.wall_seconds.mean():.0f} s"))
        columns = ("world", RANDOM, PLAIN, "does it earn more?", "time of a training and its runs")
        return Table("Plain PPO in its own reward", columns, rows, "Return of an agent.", words=frozenset({0, 3}))

    def leaderboard(self, results: Results) -> Table:
        """All agents of a world, best first, and how often their single runs are worse than random play."""
        rows = []
        for measure, title, panel in self.worlds(results):
            way = sign(measure)
            chance = best_of(panel.select(kind=RANDOM), measure)
            designed = designed_best(panel, measure)
            places = {id(group): place for place, group in enumerate(in_order(ranked(panel), measure), 1)}
            for group in in_order(panel, measure):
                scores = np.array([values for _, values in group.curves[RUNS]])
                failed = "–" if chance is None else f"{(way * (scores - chance.mean(measure)) < 0).mean():.0%}"
                rows.append(
                    (
                        title,
                        str(places.get(id(group), NONE)),
                        self.label(group, results),
                        group.config["kind"],
                        normalised(group, chance, designed, measure),
                        mean_text(scores.mean(1)),
                        number(float(np.median(scores))),
                        failed,
                        number(group.mean(MESSAGES)) if MESSAGES in group.metrics else NONE,
                        f"{scores.shape[0]} x {scores.shape[1]}",
                    )
                )
        columns = (
            "world, measure", "rank", "policy", "kind", "score", "mean", "median", "runs that fail", "messages of all "
                                                                                                     "agents",
            "trainings or seeds x runs",
        )  # fmt: skip
        note = (
            "Best first, by the mean. Who is pooled has no rank: what one of its agents does depends on what only "
            "others saw. The score is 0 for random play and 1 for the best that was designed by hand, a textbook's or "
            "a paper's. Neighbours in rank may have overlapping intervals."
        )
        return Table("All agents of each world", columns, rows, note, words=frozenset({0, 2, 3}))

    def check(self, place: Path, found: Submission) -> None:
        """Raises StoreError for results of another study, of worlds that the study does not have, or with impossible
        numbers."""
        if found.study != self.name:
            raise StoreError(f"{place} must hold the study {self.name}, not {shown(found.study)}")
        own = [cell.config for cell in self.cells(quick=False)]
        played = {world_of(config) for config in own}
        for group in found.results:
            if world_of(group.config) not in played:
                world = f"{shown(group.config.get('env'))} with {shown(group.config.get('env_params'))}"
                raise StoreError(
                    f"{place} must hold the worlds that this version of the study {self.name} has, not {world}"
                )
            if "replicas" in group.config:
                raise StoreError(f"{place} must hold a full run, not a quick one")
            try:
                check_entry(group, own, range(self.seeds[1]))
            except ValueError as error:
                raise StoreError(f"{place} has in {group.config['env']} what cannot be a result: {error}") from error
        configs = [canonical(group.config) for group in found.results]
        if not configs or len(set(configs)) < len(configs):
            raise StoreError(f"{place} must hold results, each configuration once")

    def knows_truth(self, config: Config) -> bool:
        """As recorded for a policy from the user's own module."""
        return config.get("knows_truth") is True or super().knows_truth(config)

    def text(self, group: Group | None, measure: str, results: Results | None = None) -> str:
        """Its mean with interval, and its name among `results`."""
        if group is None:
            return NONE
        return mean_text(group.metrics[measure]) + ("" if results is None else f" {self.label(group, results)}")

    def label(self, group: Group, results: Results) -> str:
        return super().label(group, results) + UNCHECKED * unchecked(group)

    def row_label(self, group: Group, results: Results) -> str:
        """The policy, with its parameters if it plays with others too."""
        return named(group, results.select(env=group.config["env"]))

    def best(self, panel: Results) -> Group | None:
        """By the measure of the world."""
        return best_of(panel, CONTESTS[panel.constant["env"]].measure)

    def by_world(self, results: Results) -> list[tuple[str, Results]]:
        """The name of each world, and its results."""
        return [(title.removeprefix("env="), panel) for title, panel in self.panels(results)]

    def worlds(self, results: Results) -> list[tuple[str, str, Results]]:
        """For each world the measure, a title that says whether more or less is better, and the results."""
        found = []
        for env, panel in self.by_world(results):
            measure = CONTESTS[env].measure
            better = "higher" if sign(measure) > 0 else "lower"
            found.append((measure, f"{env}: {measure.replace('_', ' ')} ({better} is better)", panel))
        return found


def in_order(groups: Iterable[Group], measure: str) -> list[Group]:
    """Best first, by their means."""
    return sorted(groups, key=lambda group: -sign(measure) * group.mean(measure))


def named(one: Group, groups: Iterable[Group]) -> str:
    """A policy, with its parameters if they differ among the groups."""
    name, own = one.config["policy"], one.config["policy_params"]
    others = [group.config["policy_params"] for group in groups if group.config["policy"] == name]
    return f"{name} ({describe(own)})" if own and any(other != own for other in others) else str(name)


def joined(studies: Iterable[Study], agents: Iterable[str]) -> list[Study]:
    """The studies, with agents of the user's own in the study `agents`.

    Raises:
        ValueError: a study other than `agents`, a name that brings no agent, or an agent that fits no world.
    """
    found, names = list[Study](), tuple(dict.fromkeys(agents))
    for study in studies:
        if not isinstance(study, KindsOfAgents):
            raise ValueError(f"--agent is for the study agents, and {study.name!r} takes none")
        for name in names:
            if not places(name):
                why = refusal(name, config(next(iter(CONTESTS)), name) | {"kind": YOURS})
                raise ValueError(
                    f"--agent {name} fits none of the worlds {', '.join(CONTESTS)} as the study agents plays them; in "
                    f"the first: {why}"
                )
        own = type(study)()
        own.agents = names
        found.append(own)
    return found


def places(agent: str) -> list[Config]:
    """The configurations of the worlds in which an agent can play, with a hash of its saved file or folder."""
    content = digest(agent)
    if bring(agent).needs_truth:
        content["knows_truth"] = True
    found = []
    for env, field in CONTESTS.items():
        for form in ({}, field.for_learners or {}):
            one = config(env, agent, {}, **field.world | form) | {"kind": YOURS} | content
            if one not in found and not refusal(agent, one):
                found.append(one)
                break
    return found


def refusal(agent: str, config: Config) -> str:
    """Why an agent cannot play the first steps of a world; empty if it can. Untrained learners count as fitting."""
    made = bring(agent)
    if isinstance(made, Learner):
        return ""
    try:
        world = population(config, 1, "evaluation")
        rollout = opened(world, made, config, 0)
        for _ in range(FITS):
            if not world.done.all():
                rollout.play()
    except (ValueError, TypeError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def digest(agent: str) -> Config:
    """`{"content": hash}` of a saved agent's files, so that another training under the same name counts as another
    agent; else empty."""
    path = Path(agent.partition(":")[2] or agent)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path] * path.is_file()
    if not files:
        return {}
    return {"content": hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]}


def world_of(config: Config) -> str:
    """A world and its parameters, to be compared."""
    return json.dumps([config.get("env"), config.get("env_params")], sort_keys=True)
