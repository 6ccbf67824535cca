"""Run a cell with an environment and a policy in its configuration: `{"env", "env_params", "policy", "policy_params",
"privacy"}`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.bench.results import RUNS, Cell, Config, Progress, Result
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import Learner, Policy
from taciturn.registry import make_world, policy_class
from taciturn.simulation import Run, simulate

FRESH = 100
"""The number of runs that evaluate a trained policy, unless its cell gives `replicas`."""

HOW_LEARNERS_ARE_JUDGED = (
    "Learners are trained 10 times with independent random streams, and each trained policy is evaluated in "
    f"{FRESH} fresh runs (quick: fewer of both, as the configurations say) in evaluation streams that no training, "
    "choice of a checkpoint or choice of settings has used. Intervals are over trainings. "
    "`TrainedAgent` learns by the suite's own trainer, as `taciturn.policies.learned.trained` says."
)


def learns(policy: str) -> bool:
    """Whether the policy with that name is trained, and so takes a seed."""
    return issubclass(policy_class(policy) or Policy, Learner)


def config(
    env: str,
    policy: str,
    policy_params: Config | None = None,
    privacy: str | Mapping[str, str] | None = None,
    **env_params: Any,
) -> Config:
    """The configuration of a cell; `privacy` is the mechanism on the environment's first channel, {channel: mechanism},
    or "paper"."""
    results = {"env": env, "env_params": env_params, "policy": policy, "policy_params": policy_params or {}}
    return results if privacy is None else results | {"privacy": privacy}


def play(
    cell: Cell,
    *,
    replicas: int = 1,
    record: Iterable[str] = (),
    until: float | None = None,
    points: int = 60,
    also: Callable[[Run], Mapping[str, float]] | None = None,
) -> Result:
    """Run a cell: means over its replicas, and curves of the quantities in `record` at `points` times up to `until`.

    `also` computes further metrics from the whole run. The metrics of every run include its spending
    (`taciturn.privacy.spending`). Studies with learners use `evaluate`.
    """
    names = list(record)
    times = None if until is None else np.linspace(0, until, points + 1)[1:] if names else until
    run = _run(cell, replicas, record=names, until=times)
    result = _means(run)
    return Result({**result.metrics, **also(run)}, result.curves) if also else result


def evaluate(
    cell: Cell,
    score: str,
    *,
    replicas: int = FRESH,
    also: Callable[[Run], Mapping[str, float]] | None = None,
    progress: Progress | None = None,
) -> Result:
    """Run a cell of a study with learners, on the random streams for evaluation (also derived from the cell's seed).

    A learner is trained first, with the cell's seed, in the training streams, and then plays `FRESH` runs, or the
    number in the configuration's `replicas`; other policies play `replicas`. In addition to the means as in `play`, the
    result has the `score` of every run (the curve `RUNS`), for the table `taciturn.bench.tables.runs_table`.
    """
    if learns(cell.config["policy"]):
        replicas = cell.config.get("replicas", FRESH)
    run = _run(cell, replicas, purpose="evaluation", progress=progress)
    metrics = {**_means(run).metrics, **(also(run) if also else {})}
    return Result(metrics, {RUNS: (np.arange(replicas), run.metrics[score])})


def _run(
    cell: Cell,
    replicas: int,
    *,
    record: Iterable[str] = (),
    until: Any = None,
    purpose: str = "",
    progress: Progress | None = None,
) -> Run:
    population = make_world(cell.config["env"]).population(replicas, **cell.config["env_params"])
    population.purpose = purpose
    parameters = dict(cell.config["policy_params"])
    if learns(cell.config["policy"]):
        parameters["seed"] = cell.seed
    policy = bring(cell.config["policy"], **parameters)
    if isinstance(policy, Learner):
        policy.progress = progress
    spec = cell.config.get("privacy")
    if spec not in (None, "paper"):
        given = spec if isinstance(spec, Mapping) else {next(iter(population.channels)): spec}
        spec = {channel: parse_mechanism(text) for channel, text in given.items()}
    return simulate(population, policy, seed=cell.seed, until=until, record=record, privacy=spec)


def _means(run: Run) -> Result:
    metrics = {name: float(np.nanmean(values)) for name, values in run.metrics.items() if not np.isnan(values).all()}
    return Result(metrics, {name: (run.times, values.mean(axis=1)) for name, values in run.trace.items()})
