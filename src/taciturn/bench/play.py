"""Run a cell whose configuration names a world and a policy: `{"env", "env_params", "policy", "policy_params", "privacy"}`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from taciturn.auditing import parse_mechanism
from taciturn.bench.results import Cell, Config, Progress, Result
from taciturn.policies import Learner, Policy
from taciturn.registry import make_policy, make_world, policies
from taciturn.simulation import Run, simulate


def learns(policy: str) -> bool:
    """Whether the policy of that name is trained, and hence takes a seed."""
    return issubclass(policies().get(policy, Policy), Learner)


def config(
    env: str, policy: str, policy_params: Config | None = None, privacy: str | None = None, **env_params: Any
) -> Config:
    """The configuration of a cell; `privacy` is the mechanism on the world's first channel, or "paper"."""
    found = {"env": env, "env_params": env_params, "policy": policy, "policy_params": policy_params or {}}
    return found if privacy is None else found | {"privacy": privacy}


def play(
    cell: Cell, *, replicas: int = 1, record: Iterable[str] = (), until: float | None = None, points: int = 60,
    progress: Progress | None = None, also: Callable[[Run], Mapping[str, float]] | None = None,
) -> Result:  # fmt: skip
    """Run a cell: means over its replicas, and curves of the quantities in `record` at `points` times up to `until`.

    `also` computes further metrics from the whole run.
    What was spent is in the metrics that every run has (`taciturn.privacy.spending`).
    Learners are trained first, with the cell's seed; training is not part of the result.
    """
    population = make_world(cell.config["env"]).population(replicas, **cell.config["env_params"])
    parameters = dict(cell.config["policy_params"])
    if learns(cell.config["policy"]):
        parameters["seed"] = cell.seed
    policy = make_policy(cell.config["policy"], **parameters)
    if isinstance(policy, Learner):
        policy.progress = progress
    names = list(record)
    times = None if until is None else np.linspace(0, until, points + 1)[1:] if names else until
    spec = cell.config.get("privacy")
    privacy = spec if spec in (None, "paper") else {next(iter(population.channels)): parse_mechanism(spec)}
    run = simulate(population, policy, seed=cell.seed, until=times, record=names, privacy=privacy)
    metrics = {name: float(np.nanmean(values)) for name, values in run.metrics.items() if not np.isnan(values).all()}
    metrics |= also(run) if also else {}
    return Result(metrics, {name: (run.times, run.trace[name].mean(axis=1)) for name in names})
