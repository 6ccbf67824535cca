"""Every kind of agent in every world: at random, textbook baselines, the papers' algorithms, plain PPO and tuned learners."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taciturn.agents import bring
from taciturn.bench import statistics
from taciturn.bench.play import FRESH, HOW_LEARNERS_ARE_JUDGED, config, learns
from taciturn.bench.results import RUNS, Cell, Config, Group, Progress, Result, Results
from taciturn.bench.store import StoreError
from taciturn.bench.study import Score, Study, Table, register
from taciturn.bench.submission import Submission
from taciturn.bench.tables import interval, mean_text, number
from taciturn.envs.core import ChannelConfig, Population, Rollout, as_policies, begin
from taciturn.policies import BestResponse, Learner
from taciturn.policies.external.rows import Predictor
from taciturn.registry import make_world, platform_side
from taciturn.validation import Array
from taciturn.wrappers import NoPrivacy
from taciturn.wrappers.channels import private_config

Entry = tuple[str, Config]
RANDOM, CLASSIC, PAPER, PLAIN, TUNED = KINDS = ("random", "classic", "paper", "plain PPO", "tuned learner")
YOURS = "yours"
PPO, RETURN = "PPO, plain defaults", "return"
HIGHER = ("rate", RETURN)  # of the measures, those of which more is better


class Field(NamedTuple):
    """Who competes in a world, in which measure, and how plain PPO trains: replicas, and steps over all rows (below five minutes)."""

    world: Config
    measure: str
    replicas: int
    steps: int
    classic: tuple[Entry, ...]
    paper: tuple[Entry, ...]
    tuned: tuple[Entry, ...]
    for_learners: Config | None = None  # what differs in their form of the same world
    as_designed: tuple[str, ...] = ()  # learners that act in the form of those that were designed


STOPPING: dict[str, Any] = {
    "classic": (
        ("OneStepLookAhead", {}), ("FixedCount", {"k": 5}), ("Fraction", {"fraction": 0.1}), ("Deadline", {"slots": 30}),
        ("WaitForAll", {}),
    ),
    "paper": (("OptimalStopping", {}),),
    "tuned": (("LearnedStopping", {}),),
}  # fmt: skip
ISOLATED: tuple[Entry, ...] = (("IsolatedUCB", {}), ("IsolatedThompson", {}))
COPYING: tuple[Entry, ...] = (("Voter", {}), ("FollowMajority", {}), ("CopyOnReward", {}))
FIELDS: dict[str, Field] = {
    "round_stopping_v0": Field({}, "rate", 1, 50_000, **STOPPING),
    "federated_training_v0": Field({}, "test_loss", 1, 30_000, **STOPPING),
    "federated_bandit_v0": Field(
        {"num_agents": 5, "num_arms": 5, "horizon": 1000}, "regret_per_agent", 2, 60_000,
        tuple((name, {}) for name in ("UCB1", "KLUCB", "ThompsonSampling", "MOSS", "Fed2UCB")),
        (("CDPMAB", {}), ("SingleAgent", {})), (("LearnedPulls", {}),),
    ),
    "arm_elimination_v0": Field({}, "regret_per_agent", 1, 20_000, (), (("EliminationSchedule", {}),), (("LearnedElimination", {}),)),
    "gossip_bandit_v0": Field(
        {"num_agents": 20, "horizon": 20.0}, "popularity_regret", 2, 40_000, COPYING + ISOLATED, (("PPCL", {}),), (("SharedPPO", {}),),
    ),
    "social_bandit_v0": Field(
        {"num_agents": 20, "horizon": 50}, "pseudo_regret", 1, 60_000, COPYING + ISOLATED,
        (("PrivateSocialLearning", {}), ("Replicator", {})), (("SharedPPO", {}),),
    ),
    "recommender_v0": Field(
        {"num_agents": 4, "num_items": 400, "repository": 200, "horizon": 500}, "regret", 1, 30_000,
        (("ItemUCB1", {}), ("LinUCB", {}), ("HOO", {})), (("TPriDO", {}), ("DTPriDO", {})),
        (("SharedPPO", {}), ("NeuralBandit", {})), {"actions": "cluster"}, ("NeuralBandit",),
    ),
    "elicitation_v0": Field(
        {"num_individuals": 50}, "loss", 1, 20_000,
        (("FlatRate", {}), ("OutputAgreement", {}), ("PeerTruthSerum", {}), ("PostedPrice", {})),
        (("Wintall", {}),), (("SharedPPO", {}),),
    ),
}  # fmt: skip


def population(config: Config, replicas: int, purpose: str) -> Population[Any]:
    """Replicas of a world. Platforms of elicitation that were designed need the whole world, and others play one side of it."""
    world, params = config["env"], config["env_params"]
    if world == "elicitation_v0" and config["kind"] not in (CLASSIC, PAPER):
        found = platform_side(replicas, **params)
    else:
        found = make_world(world).population(replicas, **params)
    found.purpose = purpose
    return found


def plain_ppo(cell: Cell, progress: Progress | None) -> Predictor:
    """What PPO learns with all its arguments left at their defaults; it acts as it was trained, by drawing its actions."""
    import torch
    from stable_baselines3 import PPO

    from taciturn.policies.learned.training import fit, library_seed, one_thread
    from taciturn.wrappers.sb3 import RowsVecEnv

    field = FIELDS[cell.config["env"]]
    steps = cell.config["policy_params"].get("steps", field.steps)
    world = population(cell.config, field.replicas, "training")

    def told(seen: dict[str, Any], _: dict[str, Any]) -> bool:
        if progress is not None:
            progress(min(1.0, seen["self"].num_timesteps / steps))
        return True

    with one_thread():
        model = PPO("MlpPolicy", RowsVecEnv(world, seed=cell.seed), seed=library_seed(cell.seed), device="cpu")
    fit(model, steps, callback=told)
    torch.manual_seed(library_seed(cell.seed))
    return Predictor(model, deterministic=False)


def brought(cell: Cell, progress: Progress | None) -> Any:
    """The agent of a cell; one that learns trains when it begins."""
    name, own = cell.config["policy"], dict(cell.config["policy_params"])
    if name == PPO:
        return plain_ppo(cell, progress)
    if not learns(name):
        return bring(name, **own)
    agent = bring(name, **own, seed=cell.seed)
    agent.progress = progress
    return agent


def opened(
    world: Population[Any], policy: Any, config: Config, seed: int, channels: Mapping[str, ChannelConfig] | None = None
) -> Rollout:  # fmt: skip
    """A fresh run of a policy, which has begun. All are told what stands on the channels: no noise, unless they are given."""
    if channels is None:
        channels = (
            {} if config["env"] == "elicitation_v0" else dict.fromkeys(world.channels, private_config(NoPrivacy()))
        )
    world.reset(seed=seed, options={"channels": channels})
    whole = len(world.roles) > 1
    policies = as_policies(world, {"platform": policy, "individual": BestResponse()} if whole else policy)
    begin(world, policies)
    return Rollout(world, policies)


def judged(
    world: Population[Any], policy: Any, config: Config, seed: int, channels: Mapping[str, ChannelConfig] | None = None
) -> dict[str, Array]:  # fmt: skip
    """The metrics of a run of each replica, and `return`, the sum of an agent's rewards: [B]. Channels are as for `opened`."""
    rollout, total = opened(world, policy, config, seed, channels), np.zeros(world.num_envs)
    whole = len(world.roles) > 1
    while not world.done.all():
        reward = rollout.play().reward
        total += reward["platform"][:, 0] / world.params.num_individuals if whole else reward.mean(1)
    found = world.metrics()
    if config["env"] == "elicitation_v0":
        found["loss"] = found["payment"] * found["participation"] + found["shortfall"]
    return found | {RETURN: total}


@register
class KindsOfAgents(Study):
    name = "agents"
    title = "Every kind of agent in every world"
    description = (
        "Random play, textbook baselines, the papers' algorithms, PPO of Stable-Baselines3 with all its arguments left at their "
        "defaults, and a tuned learner, on the observations, actions and rewards that each world has by default. No channel has noise. "
        "Worlds of many agents are smaller than by default, as the configurations say. Plain PPO trains for less than five minutes on "
        "one core, without normalisation; all agents share one network. Each world has its own measure, that of its paper where there "
        "is one. Policies that do not learn play 10 seeds of as many runs. A run fails if it is worse than random play on average. "
        + HOW_LEARNERS_ARE_JUDGED
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
        for env, field in FIELDS.items():
            plain: Config = {"steps": 20_000} if quick else {}
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
                    theirs = kind in (PLAIN, TUNED) and policy not in field.as_designed
                    params = field.world | ((field.for_learners or {}) if theirs else {})
                    # Their prizes are larger than the world allows by default.
                    wider = {"max_scale": 1e4} if policy in ("OutputAgreement", "PeerTruthSerum") else {}
                    one = config(env, policy, own, **params | wider) | {"kind": kind}
                    found.append(one | {"replicas": 10} if quick else one)
        return self.sweep(found, range(self.seeds[not quick]))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        world = population(cell.config, cell.config.get("replicas", FRESH), "evaluation")
        found = judged(world, brought(cell, progress), cell.config, cell.seed)
        measure = FIELDS[cell.config["env"]].measure
        scores = found[measure]
        means = {name: float(found[name].mean()) for name in (RETURN, measure)}
        return Result(means, {RUNS: (np.arange(scores.size), scores)})

    def tables(self, results: Results) -> list[Table]:
        return [self.answer(results), self.winners(results), self.leaderboard(results), self.plain(results)]

    def answer(self, results: Results) -> Table:
        """The best of each world, how far it is ahead, and whether a learner beats what was designed by hand."""
        rows = []
        for (measure, title, panel), (_, better, *_) in zip(
            self.worlds(results), self.winners(results).rows, strict=True
        ):
            best, *others = sorted(panel, key=lambda group: -sign(measure) * group.mean(measure))
            chance, second = first(panel.select(kind=RANDOM), measure), first(others, measure)
            behind = [
                "–"
                if other is None
                else f"{times(best, other, measure)}{f' ({self.label(other, results)})' * (other is second)}"
                for other in (chance, second)
            ]
            mean = mean_text(best.metrics[measure])
            rows.append(
                (title, f"{self.label(best, results)} ({best.config['kind']})", mean, *behind, better.partition(":")[0])
            )
        columns = (
            "world, measure",
            "best",
            "mean",
            "times better than random",
            "than the next best",
            "is a learner better?",
        )
        note = (
            "Best by its mean, with its 95% interval; learned agents are plain PPO and tuned learners, judged in runs that they have not "
            'met before. The last column is "yes" or "no" where the interval of the difference between the better learner and the best '
            "that was designed by hand leaves out 0."
        )
        return Table("Who is best", columns, rows, note, words=frozenset({0, 1, 4, 5}))

    def winners(self, results: Results) -> Table:
        """The best of each kind, and whether a learner is better than everything that was designed."""
        rows, kinds = [], (*KINDS, *([YOURS] if any(group.config["kind"] == YOURS for group in results) else []))
        for measure, title, panel in self.worlds(results):
            best = {kind: first(panel.select(kind=kind), measure) for kind in kinds}
            named = [self.text(best[kind], measure, named=kind in (CLASSIC, PAPER, YOURS)) for kind in kinds]
            designed = first([x for x in (best[CLASSIC], best[PAPER]) if x], measure)
            learner = first([x for x in (best[PLAIN], best[TUNED]) if x], measure)
            rows.append((title, gain(learner, designed, measure), *named))
        note = (
            "The best of each kind by its mean, with 95% intervals over trainings (policies that do not learn: over seeds). The second "
            "column says by how much the better learner is above the best that was designed by hand, paired by seed; as each is the best "
            "of several after the fact, both are a little flattered."
        )
        columns = ("world, measure", "does a learner do better?", *kinds)
        return Table("The best of each kind", columns, rows, note, words=frozenset({0, 1}))

    def plain(self, results: Results) -> Table:
        """Whether plain PPO earns more than random play in what it was trained for."""
        rows = []
        for _, title, panel in self.worlds(results):
            ppo, chance = (first(panel.select(kind=kind), RETURN) for kind in (PLAIN, RANDOM))
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
            chance = first(panel.select(kind=RANDOM), measure)
            designed = first([group for group in panel if group.config["kind"] in (CLASSIC, PAPER)], measure)
            for rank, group in enumerate(sorted(panel, key=lambda group: -way * group.mean(measure)), 1):
                scores = np.array([values for _, values in group.curves[RUNS]])
                failed = "–" if chance is None else f"{(way * (scores - chance.mean(measure)) < 0).mean():.0%}"
                rows.append((
                    title, str(rank), self.label(group, results), group.config["kind"], normalised(group, chance, designed, measure),
                    mean_text(scores.mean(1)), number(float(np.median(scores))), failed, f"{scores.shape[0]} x {scores.shape[1]}",
                ))  # fmt: skip
        columns = (
            "world, measure", "rank", "policy", "kind", "score", "mean", "median", "runs that fail", "trainings or seeds x runs",
        )  # fmt: skip
        note = (
            "Best first, by the mean. The score is 0 for random play and 1 for the best that was designed by hand, a textbook's or a "
            "paper's. Neighbours in rank may have overlapping intervals."
        )
        return Table("All agents of each world", columns, rows, note, words=frozenset({0, 2, 3}))

    def check(self, place: Path, found: Submission) -> None:
        """Raises StoreError if it is of another study, or holds worlds that the study does not have in this version."""
        if found.study != self.name:
            raise StoreError(f"{place} must hold the study {self.name}, not {found.study}")
        played = {world_of(cell.config) for cell in self.cells(quick=False)}
        for group in found.results:
            if world_of(group.config) not in played:
                world = f"{group.config.get('env')} with {group.config.get('env_params')}"
                raise StoreError(
                    f"{place} must hold the worlds that this version of the study {self.name} has, not {world}"
                )
            if "replicas" in group.config:
                raise StoreError(f"{place} must hold a full run, not a quick one")

    def text(self, group: Group | None, measure: str, *, named: bool = False) -> str:
        """Its mean with interval, and its name."""
        if group is None:
            return "–"
        return mean_text(group.metrics[measure]) + f" {self.label(group, Results([group]))}" * named

    def best(self, panel: Results) -> Group | None:
        """By the measure of the world."""
        return first(panel, FIELDS[panel.constant["env"]].measure)

    def worlds(self, results: Results) -> list[tuple[str, str, Results]]:
        """The measure of each world, a title that says which way it is better, and the world's results."""
        found = []
        for title, panel in self.panels(results):
            env = title.removeprefix("env=")
            measure = FIELDS[env].measure
            better = "higher" if measure in HIGHER else "lower"
            found.append((measure, f"{env}: {measure.replace('_', ' ')} ({better} is better)", panel))
        return found


def joined(studies: Iterable[Study], agents: Iterable[str]) -> list[Study]:
    """The studies, with agents of the user's own in the study `agents`.

    Raises:
        ValueError: another study, a name that brings no agent, or an agent that fits no world.
    """
    found, names = list[Study](), tuple(dict.fromkeys(agents))
    for study in studies:
        if not isinstance(study, KindsOfAgents):
            raise ValueError(f"--agent is for the study agents, and {study.name!r} takes none")
        for name in names:
            if not places(name):
                why = refusal(name, config("round_stopping_v0", name) | {"kind": YOURS})
                raise ValueError(
                    f"--agent {name} fits none of the worlds {', '.join(FIELDS)} as the study agents plays them; in the first: {why}"
                )
        own = type(study)()
        own.agents = names
        found.append(own)
    return found


def places(agent: str) -> list[Config]:
    """The configurations of the worlds in which an agent can play, with a hash of the file or folder that it was saved in."""
    content = digest(agent)
    found = []
    for env, field in FIELDS.items():
        for form in ({}, field.for_learners or {}):
            one = config(env, agent, {}, **field.world | form) | {"kind": YOURS} | content
            if one not in found and not refusal(agent, one):
                found.append(one)
                break
    return found


def refusal(agent: str, config: Config) -> str:
    """Why an agent cannot play a step of a world; empty if it can. What would have to learn first is believed to."""
    made = bring(agent)
    if isinstance(made, Learner):
        return ""
    try:
        opened(population(config, 1, "evaluation"), made, config, 0).play()
    except (ValueError, TypeError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def digest(agent: str) -> Config:
    """`{"content": hash}` of the files of a saved agent, so that another training under the same name is another agent; else empty."""
    path = Path(agent.partition(":")[2] or agent)
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path] * path.is_file()
    if not files:
        return {}
    return {"content": hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]}


def sign(measure: str) -> int:
    """1 where more is better, or -1."""
    return 1 if measure in HIGHER else -1


def first(groups: Iterable[Group], measure: str) -> Group | None:
    """The best of the groups by their means; None if there are none."""
    return max(groups, key=lambda group: sign(measure) * group.mean(measure), default=None)


def normalised(group: Group, chance: Group | None, designed: Group | None, measure: str) -> str:
    """A mean on the scale on which random play has 0 and the best that was designed by hand has 1."""
    if chance is None or designed is None:
        return "–"
    return f"{share(group, chance, designed, measure) + 0.0:.2f}"  # no -0.00


def share(group: Group, chance: Group, designed: Group, measure: str) -> float:
    """The same as a number."""
    return (group.mean(measure) - chance.mean(measure)) / (designed.mean(measure) - chance.mean(measure))


def world_of(config: Config) -> str:
    """A world and its parameters, to be compared."""
    return json.dumps([config.get("env"), config.get("env_params")], sort_keys=True)


def times(best: Group, other: Group, measure: str) -> str:
    """How many times as good a mean is as another."""
    one, two = best.mean(measure), other.mean(measure)
    return f"{(one / two) ** sign(measure):.2f}" if one > 0 and two > 0 else "–"


def gain(one: Group | None, other: Group | None, measure: str) -> str:
    """Whether the first is better, and by how much."""
    if one is None or other is None:
        return "not tested"
    found = statistics.difference(*(sign(measure) * group.metrics[measure] for group in (one, other)))
    word = "yes" if found.low > 0 else "no" if found.high < 0 else "not decided"
    return f"{word}: {number(found.value)} {interval(found[1:])}"
