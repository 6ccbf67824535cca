"""`taciturn run`."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Option

from taciturn.agents import bring, saved_at
from taciturn.cli.arguments import any_declares, mechanisms_of, population_of, split_settings, task_named
from taciturn.cli.options import CODE, Json, Settings, Trust
from taciturn.cli.output import print_json
from taciturn.envs.core import integer
from taciturn.registry import UnknownName, entry
from taciturn.simulation import simulate
from taciturn.terminal import aligned, counted

if TYPE_CHECKING:
    from taciturn.bench.tasks import Task

Play = Callable[[int, int], dict[str, Any]]
BLOCK = 100
"""Runs that are played together."""


def run(
    env: Annotated[str, Argument(help="Environment (id or name), or task (taciturn list tasks).")],
    policy: Annotated[
        str,
        Option(
            help="A policy's name; module:Class; pretrained:NAME for an agent of the package; or a saved agent: a "
            "folder written by train, sb3:model.zip, onnx:FILE, torchrl:FILE or rllib:FOLDER. For several roles "
            "ROLE=NAME,ROLE=NAME (and --set policy.ROLE.parameter=value). "
            f"{CODE}."
        ),
    ],
    settings: Settings = None,
    trust: Trust = False,
    privacy: Annotated[
        str | None,
        Option(
            help="MECHANISM:EPSILON[,parameter=value] for the environment's channel, or CHANNEL=MECHANISM:..., "
            "or `paper`, the mechanism prescribed by the policy's paper."
        ),
    ] = None,
    runs: Annotated[
        int | None,
        Option(
            "--runs",
            "--seeds",
            help="Number of runs, played in parallel as arrays. Default: 10 in an environment, 100 in a task.",
        ),
    ] = None,
    seed: Annotated[int, Option(help="Seed of all random draws in all runs.")] = 0,
    until: Annotated[float | None, Option(help="Horizon, in the environment's unit of time.")] = None,
    as_json: Json = False,
) -> None:
    """Run a policy in an environment, or in a task of the benchmark with the settings of the study `agents`, and
    print the results."""
    from taciturn.bench.progress import bar, stderr
    from taciturn.bench.tables import estimate, privacy_text
    from taciturn.bench.tasks import EPSILON, TASKS
    from taciturn.privacy.spending import COVERS

    env = task_named(env)
    runs = (100 if env.count("/") == 2 else 10) if runs is None else runs
    integer("--runs", runs, at_least=1, at_most=2**63 - 1)
    integer("--seed", seed, at_least=0, at_most=2**63 - 1)
    if env.count("/") == 2 and env not in TASKS:
        raise UnknownName("task", env, TASKS)
    if env in TASKS:
        fixed = {"--privacy": privacy, "--until": until}
        play, actor, given, centralised = _task(TASKS[env], policy, settings, fixed, seed)
    else:
        play, actor, given = _world(env, policy, settings, privacy, until)
        centralised = "as it declares" if any_declares(actor, "centralised") else ""
    blocks = []
    with bar(stderr(), runs, shown=not as_json) as shown:
        for first in range(0, runs, BLOCK):
            size = min(BLOCK, runs - first)
            shown.running(f"{first + size} of {counted(runs, 'run')}")
            blocks.append(play(size, seed + (first << 63)))  # no other --seed begins here
            shown.finished(f"{first + size} of {counted(runs, 'run')}", size)
    metrics: dict[str, dict[str, Any]] = {}
    shares = entry(TASKS[env].env if env in TASKS else env).shares
    for name in blocks[0]:
        values = np.concatenate([block[name] for block in blocks])
        budget = name.startswith("epsilon") and name != "epsilon_message"
        if centralised and budget:  # declared by the policy or found by the check
            values = np.full(values.shape, math.inf)
        known = values[~np.isnan(values)]
        value, low, high = estimate(known) if known.size else (None, None, None)
        if name in shares and low is not None and high is not None:
            low, high = np.clip((low, high), 0.0, 1.0).tolist()
        if name == "score" and env in TASKS:
            value, low, high = score_of(TASKS[env], metrics)
        metrics[name] = {"mean": value, "low": low, "high": high, "values": values}
    if as_json:
        about = {"env": env, "policy": policy, "set": given, "privacy": privacy, "seed": seed, "runs": runs}
        score = {name: metrics["score"][name] for name in ("mean", "low", "high")} if "score" in metrics else None
        of_task = {"score": score, "covers": TASKS[env].covers} if env in TASKS else {}
        print_json(about | {"centralised": bool(centralised)} | of_task | {"metrics": metrics})
        return
    mark = ", which knows the hidden truth" * any_declares(actor, "needs_truth") + " (centralised)" * bool(centralised)
    named = policy if "array(" in repr(actor) else repr(actor)  # a network's weights are no name
    print(f"{env}, {named}{mark}, {counted(runs, 'run')}: mean and 95% interval")
    if centralised:
        print(f"centralised, and never ranked: its agents share information outside the channels ({centralised})")
    if env in TASKS:
        print(f"task: {TASKS[env].variant.what}; measure: {TASKS[env].aim}")
        if "score" in metrics:
            from taciturn.bench.references import scale_of

            print(f"score: {scale_of(TASKS[env])}")
    rows = []
    what = {"epsilon_basic": COVERS, "epsilon_zcdp": COVERS}
    what |= {EPSILON: f"of {TASKS[env].covers}"} if env in TASKS else {}
    for name, metric in metrics.items():
        known = metric["low"] is not None and not np.isnan(metric["low"])
        interval = f"[{metric['low']:.6g}, {metric['high']:.6g}]" if known else ""
        mean = "-" if metric["mean"] is None else format(metric["mean"], ".6g")
        if name.startswith("epsilon") and metric["mean"] in (0, math.inf):
            mean = privacy_text(metric["values"], metrics["epsilon_message"]["values"])
            if centralised and name != "epsilon_message":
                mean = "∞ (its agents share information outside the channels)"
        rows.append((name, mean, f"{interval} {what.get(name, '')}".strip()))
    print(aligned(rows, indent=2))


def score_of(task: "Task", metrics: dict[str, dict[str, Any]]) -> tuple[Any, Any, Any]:
    """The score of runs of a task. Its interval includes the uncertainty of the references; below three runs there is
    none."""
    from taciturn.bench.references import scale_of
    from taciturn.bench.statistics import Estimate

    scale, found = scale_of(task), metrics[task.measure]
    assert scale is not None
    made = scale.apart(
        Estimate(*(math.nan if found[name] is None else found[name] for name in ("mean", "low", "high")))
    )
    return tuple(None if math.isnan(x) else x for x in made)  # type: ignore[return-value]


def _world(
    env: str, policy: str, settings: list[str] | None, privacy: str | None, until: float | None
) -> tuple[Play, Any, dict[str, Any]]:
    """A function that plays so many runs from a seed, the policies, and the parameters from `key=value`."""
    make, actor, given = population_of(env, policy, settings)
    mechanisms = None if privacy is None else mechanisms_of(privacy, list(make(1).channels))
    population: Any = None

    def play(runs: int, seed: int) -> dict[str, Any]:
        nonlocal population
        if population is None or population.num_envs != runs:
            population = make(runs)
        return simulate(population, actor, seed=seed, until=until, privacy=mechanisms).metrics

    return play, actor, given


def _task(
    task: "Task", policy: str, settings: list[str] | None, fixed: dict[str, Any], seed: int
) -> tuple[Play, Any, dict[str, Any], str]:
    """As `_world`, for a task, and how agents share information, if they do. The only parameters that may be set are
    the task's form for learners."""
    from taciturn.bench.comparisons.kinds import refusal
    from taciturn.bench.comparisons.playing import first_within, how_centralised, played, ready, task_config
    from taciturn.bench.references import scale_of
    from taciturn.bench.tasks import BENCHMARKS
    from taciturn.bench.tasks.benchmark import TRAINER
    from taciturn.bench.tuned import usual

    own, form = split_settings(settings)
    free = {**BENCHMARKS[task.env].for_learners, **BENCHMARKS[task.env].for_policies.get(TRAINER, {})}
    if not form and saved_at(policy) is not None and refusal(policy, task_config(task, policy)):
        form = dict(free)  # it was trained in the environment's form for learners
    fixed |= {f"--set {key}": value for key, value in form.items() if key not in free}
    for option, value in fixed.items():
        if value is not None:
            raise ValueError(
                f"{option} must be left out in a task, which fixes the environment, and was {value!r} (taciturn show "
                f"{task.id} has the fixed values)"
            )
    own = own or usual(task, policy)
    actor, scale, one = bring(policy, **own), scale_of(task), task_config(task, policy, **form)
    given = form | {f"policy.{key}": value for key, value in own.items()}

    ways = ready(task, actor, one, seed)
    centralised = how_centralised(actor, one, seed, task.variant)

    def play(runs: int, seed: int) -> dict[str, Any]:
        if isinstance(task.budget, float):
            metrics = first_within(task, actor, one, runs, seed, ways)[0].metrics
        else:
            metrics = played(task, actor, one, runs, seed).metrics
        score = {} if scale is None else {"score": scale.score(metrics[task.measure])}
        return {task.measure: metrics[task.measure]} | score | metrics

    return play, actor, given, centralised
