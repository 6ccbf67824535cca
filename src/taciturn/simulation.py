"""Run a policy in an environment and store the results."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.envs.core import Array, Population, Rollout, as_policies, begin, join, number, vector
from taciturn.terminal import aligned, counted


@dataclass(frozen=True, repr=False)
class Run:
    """The result of `simulate`.

    Attributes:
        metrics: `{name: [B]}`, the outcome of the run, its messages and epsilon (`taciturn.privacy.spending`).
        trace: `{name: [time, B, ...]}`, the values recorded at `times`.
        times: float64[time], in the unit of the environment's clock.
        seed: the seed that reproduces the run.
        accountant: the messages and epsilon of every agent; None if no channel was private.
    """

    metrics: dict[str, Array]
    trace: dict[str, Array]
    times: Array
    seed: int
    accountant: Any = None

    def __repr__(self) -> str:
        replicas = len(next(iter(self.metrics.values()), ()))
        traced = f", trace of {', '.join(self.trace)} at {len(self.times)} times" if self.trace else ""
        return f"<Run of {counted(replicas, 'replica')}, seed {self.seed}: {', '.join(self.metrics)}{traced}>"

    def summary(self, confidence: float = 0.95) -> str:
        """A table in text: for each metric, the mean over the replicas and its interval.

        Args:
            confidence: of each interval, in (0, 1): the mean plus and minus a quantile of Student's t times the
                standard error.

        Replicas without a value of a metric (NaN) are left out; the table gives the number of the rest. There is no
        interval for one replica, or for a metric that is infinite in any.
        """
        from scipy.special import stdtrit

        number("confidence", confidence, above=0, below=1)
        rows = [("metric", "mean", f"{confidence:.0%} interval", "replicas")]
        for name, values in self.metrics.items():
            known = np.asarray(values, np.float64)[~np.isnan(values)]
            n, interval = known.size, ""
            mean = known.mean() if n else np.nan
            if n > 1 and np.isfinite(mean):
                half = stdtrit(n - 1, (1 + confidence) / 2) * known.std(ddof=1) / n**0.5
                interval = f"{mean - half:.6g} to {mean + half:.6g}"
            rows.append((name, f"{mean:.6g}", interval, f"{n} of {len(values)}" if n < len(values) else f"{n}"))
        return aligned(rows)


def simulate(
    env: Any,
    policy: Any,
    *,
    seed: int,
    until: float | Sequence[float] | Array | None = None,
    record: Iterable[str] = (),
    privacy: Mapping[str, Any] | str | None = None,
    fast: bool = True,
) -> Run:
    """Run `policy` in `env` from a fresh reset to the end.

    Args:
        env: a population, or a view of one.
        policy: the agents' policy: a policy, its name or class, a function of observations, a model with `predict` or a
            saved one (`taciturn.agents.bring`); `{role: policy}` in an environment with several roles.
        seed: determines every random draw, including the policy's.
        until: a horizon, or increasing times to record at (the last is the horizon); None: the environment's horizon.
        record: names that `env.measure` knows, to be recorded at those times (without times, at the end).
        privacy: `{channel: mechanism}`, installed for this run only; "paper" for the mechanisms that the policy's paper
            prescribes.
        fast: whether to play many events in one draw if the policy declares their exact distribution (`Policy.fast`);
            False plays every step.

    Returns:
        A `Run`. A quantity recorded at time t has its value when the replica's own clock showed t.

    Raises:
        ValueError: an unknown name, times that do not increase, a policy that cannot act here.
    """
    from taciturn.agents import bring_all  # imports all policies, which `import taciturn` avoids
    from taciturn.wrappers.channels import added_configs, private_config

    unwrapped = getattr(env, "unwrapped", env)
    population: Population[Any] = getattr(unwrapped, "population", unwrapped)
    if not isinstance(population, Population):
        raise ValueError(f"env must be a population or a view of one, not {type(env).__name__}")
    if isinstance(privacy, str) and privacy != "paper":
        raise ValueError(f'privacy must be a dict {{channel: mechanism}} or "paper", not {privacy!r}')
    times = np.zeros(0) if until is None else vector("until", np.atleast_1d(np.asarray(until)))
    if times.size and (times[0] <= 0 or (np.diff(times) <= 0).any()):
        raise ValueError(f"until must be a positive time or increasing positive times, not {until!r}")
    policies = as_policies(population, bring_all(policy))
    if isinstance(privacy, str):
        privacy = _prescribed(population, policies)
    channels = {channel: private_config(mechanism) for channel, mechanism in (privacy or {}).items()}
    options: dict[str, Any] = {"channels": join(added_configs(env), channels)}
    population.reset(seed=seed, options=options | ({"horizon": float(times[-1])} if times.size else {}))
    begin(population, policies)
    trace = {name: np.repeat(population.measure(name)[None], times.size, axis=0) for name in dict.fromkeys(record)}
    if times.size == 0:
        population.advance(policies, fast=fast)
        trace = {name: population.measure(name)[None] for name in trace}
        times = population.clock().max(keepdims=True)
    elif trace:
        _record(population, policies, times, trace, fast)
    else:
        population.advance(policies, until=float(times[-1]), fast=fast)
    return Run(population.metrics(), trace, times, seed, population.accountant)


def _prescribed(population: Population[Any], policies: Mapping[str, Any]) -> dict[str, Any]:
    """The mechanisms that the policies' papers prescribe; ValueError if none prescribes any."""
    prescribed: dict[str, Any] = {}
    refusals = []
    for fromkey in dict.fromkeys(policies.values()):
        try:
            prescribed |= fromkey.prescribes(population.view(fromkey))
        except ValueError as error:
            refusals.append(error)
    if not prescribed:
        raise refusals[0]
    return prescribed


def _record(
    population: Population[Any], policies: Mapping[str, Any], times: Array, trace: dict[str, Array], fast: bool
) -> None:
    """Play to the last of `times` and fill in `trace`: the values at the moment when each replica's clock passed each
    time."""
    if fast and population.fast_forward(policies, float(times[0])):
        for i, time in enumerate(times):
            if i:
                population.fast_forward(policies, float(time))
            for name, values in trace.items():
                values[i] = population.measure(name)
        return
    rollout = Rollout(population, policies)
    coming = np.zeros(population.num_envs, np.int64)
    # Clocks are sums of slots: times that differ by rounding are the same.
    marks = np.append(times * (1 + 1e-9), np.inf)
    while not population.done.all() and (coming < len(times)).any():
        before = {name: population.measure(name) for name in trace}
        rollout.play()
        clock = population.clock()
        while (passed := marks[coming] < clock).any():
            replicas = np.flatnonzero(passed)
            for name, values in before.items():
                trace[name][coming[replicas], replicas] = values[replicas]
            coming[replicas] += 1
    for name, values in trace.items():
        final = population.measure(name)
        for replica, first in enumerate(coming):
            values[first:, replica] = final[replica]
