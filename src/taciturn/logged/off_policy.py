"""The value of an agent, estimated from the log of another policy."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.envs import recommender_v0
from taciturn.envs.core import begin, choice, integer, number
from taciturn.logged import estimators
from taciturn.logged.bandit import SMALLEST, BanditLog
from taciturn.logged.estimators import Terms
from taciturn.logged.reading import Progress, nothing
from taciturn.validation import Array, Floats, Ints, shown

PENALTY = 10.0  # ridge penalty of the model of rewards, in rows
STEP = 100  # rows between two reports of progress


@dataclass(frozen=True)
class Value:
    """The estimated reward of a policy per round, by one estimator.

    Attributes:
        estimator: "replay", "ips", "snips" or "dr".
        value: the estimate, in clicks per round. Estimates by IPS and DR can lie outside [0, 1]; the interval is cut to
            [0, 1].
        low, high: its interval; NaN if there is a `doubt`.
        rows: number of rows in the evaluation.
        matches: number of these rows with the policy's action.
        effective: effective sample size, (sum w)^2 / sum w^2; for replay the number of matches.
        mean_weight: mean of the weights w, about 1 unless the policy takes actions that the log never takes.
        doubt: why there is no interval, or "". Either the propensities are wrong, or the log lacks actions that the
            policy takes: the rows refute that the expected weight is 1 (`estimators.excluded`), for this policy or for
            a uniform choice among the actions.
    """

    estimator: str
    value: float
    low: float
    high: float
    rows: int
    matches: int
    effective: float
    mean_weight: float
    doubt: str = ""


def evaluate(
    log: BanditLog,
    policy: Any,
    *,
    estimator: str = "auto",
    learn: float = 0.5,
    draws: int = 1,
    lowest_propensity: float | None = None,
    interval: str = "betting",
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = nothing,
) -> list[Value]:
    """Estimate the reward of a policy of `recommender_v0` from a log that another policy wrote.

    Rejection replay (`estimators.replay`) is for uniform logs: the policy acts on every row, and learns from rows with
    its own action; its value is the mean over these rounds. The other estimators evaluate a fixed policy, which has
    learned from the logged actions and clicks of the first part of the rows. DR's model of clicks, a ridge regression
    on (1, 2c - 1) for each action, also comes from the first part.

    The policy sees a recommender with one agent; its items are the catalogue of actions.

    Args:
        log: see `read_bandit`.
        policy: whatever `simulate` takes: a policy, its name, a function of observations, a saved model, ... It must
            not need the hidden truth.
        estimator: "replay" (uniform logs only), "ips", "snips" or "dr"; "auto": replay for a uniform log, the other
            three for others; "all": all that the log allows.
        learn: share of the rows for training, before estimators other than replay evaluate the policy, in [0, 1).
        draws: how often a stochastic policy draws an action on a row; pi(a | x) is then the share of draws.
        lowest_propensity: the logging policy's lowest propensity of any action; None: the lowest in the log. Intervals
            by betting rely on it.
        interval: "betting" or "student"; see `estimators.interval`.
        level: confidence level of the intervals.
        seed: determines the draws of the policy.
        progress: called with the share done.

    Returns:
        A `Value` for each estimator.

    Raises:
        ValueError: replay of a log that is not uniform; the policy takes the logged action in no row (empty overlap),
            needs the hidden truth or cannot act here; an argument is out of range.
    """
    allowed = ("auto", "all", *estimators.ESTIMATORS)
    choice("estimator", estimator, allowed)
    choice("interval", interval, estimators.INTERVALS)
    number("level", level, above=0, below=1)
    number("learn", learn, at_least=0, below=1)
    integer("draws", draws, at_least=1)
    smallest = float(log.propensity.min())
    lowest = (
        smallest
        if lowest_propensity is None
        else number("lowest_propensity", lowest_propensity, at_least=SMALLEST, at_most=smallest)
    )
    if estimator == "replay" and not log.uniform:
        raise ValueError(
            f"estimator must be 'ips', 'snips' or 'dr' for {log.catalogue.source} with propensities "
            f"{log.propensity.min():g} to {log.propensity.max():g}: replay needs a log of uniformly drawn actions, "
            f"each with {1 / len(log.names):g}"
        )
    off_policy = ["ips", "snips", "dr"]
    wanted = {"auto": ["replay"] if log.uniform else off_policy, "all": ["replay"] * log.uniform + off_policy}.get(
        estimator, [estimator]
    )
    taught = int(learn * len(log))
    if "dr" in wanted and not taught:
        raise ValueError(f"learn must be > 0 for the estimator 'dr', which fits a model, not {learn:g}")
    actor = bring(policy)
    uniform = 1 / (log.propensity * len(log.names))
    told = _doubt("Random", uniform, 1 / (lowest * len(log.names)))

    def value(name: str, terms: Terms, weight: Floats, effective: float) -> Value:
        doubt = told or _doubt("the policy", weight, 1 / lowest)
        low, high = (np.nan, np.nan) if doubt else estimators.interval(terms, interval, level)
        counts = weight.size, int((weight > 0).sum()), effective, float(weight.mean())
        return Value(name, terms.value, low, high, *counts, doubt)

    found = []
    if "replay" in wanted:
        matched = _replayed(log, actor, seed, progress)
        weight = np.bincount(matched, minlength=len(log)).astype(np.float64) * len(log.names)
        found.append(
            value("replay", estimators.replay(log.click[matched].astype(np.float64)), weight, float(matched.size))
        )
    if others := [name for name in wanted if name != "replay"]:
        terms, weight = _evaluated(log, actor, taught, draws, lowest, seed, progress)
        found += [value(name, terms[name](), weight, estimators.effective_size(weight)) for name in others]
    return found


def _doubt(who: str, weight: Floats, largest: float) -> str:
    if not estimators.excluded(weight, largest):
        return ""
    return (
        f"the propensities cannot be right, or the log lacks actions: over its rows {who} has a mean weight of "
        f"{weight.mean():.4g}, and should have 1"
    )


def _evaluated(
    log: BanditLog, actor: Any, taught: int, draws: int, lowest: float, seed: int, progress: Progress
) -> tuple[dict[str, Callable[[], Terms]], Floats]:
    """IPS, SNIPS and DR on the rows after the first `taught`, and the weights of these rows; the policy learns from the
    first rows."""
    seat, told = _ControlledAgent(log, actor, seed), f"{actor!r}, taught and judged"
    for row in range(taught):
        obs, _ = seat.asks(row, row)
        seat.reveals(obs, int(log.action[row]), bool(log.click[row]))
        if row % STEP == 0:
            progress(row / len(log), told)
    model = _model(log, taught)
    rest = np.arange(taught, len(log))
    share, chosen = np.zeros(rest.size), np.zeros(rest.size)
    for i, row in enumerate(range(taught, len(log))):
        predicted = model.of(log.catalogue.contexts[row])
        for _ in range(draws):
            action = seat.asks(row, taught)[1]
            share[i] += action == log.action[row]
            chosen[i] += predicted[action]
        if row % STEP == 0:
            progress(row / len(log), told)
    share, chosen = share / draws, chosen / draws
    if not share.any():
        raise ValueError(_no_overlap(log, actor, rest.size))
    weight, reward, largest = share / log.propensity[rest], log.click[rest].astype(np.float64), 1 / lowest
    logged = np.array([model.of(log.catalogue.contexts[row])[log.action[row]] for row in rest])
    return {
        "ips": lambda: estimators.ips(weight, reward, largest),
        "snips": lambda: estimators.snips(weight, reward, largest),
        "dr": lambda: estimators.dr(weight, reward, largest, logged, chosen, model.cap),
    }, weight


def _replayed(log: BanditLog, actor: Any, seed: int, progress: Progress) -> Ints:
    """The rows that rejection replay keeps."""
    seat, told = _ControlledAgent(log, actor, seed), f"{actor!r} replays"
    kept: list[int] = []
    for row in range(len(log)):
        obs, action = seat.asks(row, len(kept))
        if action == log.action[row]:
            kept.append(row)
            seat.reveals(obs, action, bool(log.click[row]))
        if row % STEP == 0:
            progress(row / len(log), told)
    if not kept:
        raise ValueError(_no_overlap(log, actor, len(log)))
    return np.array(kept, np.int64)


def _no_overlap(log: BanditLog, actor: Any, rows: int) -> str:
    return (
        f"{actor!r} takes the logged action in none of {rows:,} rows of {log.catalogue.source}: nothing can be "
        "estimated"
    )


class _ControlledAgent:
    """One agent in a recommender; its users are the rows of a log."""

    def __init__(self, log: BanditLog, policy: Any, seed: int) -> None:
        if getattr(policy, "needs_truth", False):
            raise ValueError(f"policy must not need the hidden truth, which a log does not have, and {policy!r} does")
        self._log, self._policy = log, policy
        self._world: Any = recommender_v0.population(
            1, num_agents=1, graph="none", family=log.catalogue, repository=len(log.names), horizon=min(len(log), 2**24)
        )
        self._world.reset(seed=seed)
        begin(self._world, {"agent": policy})

    def asks(self, row: int, time: int) -> tuple[Array, int]:
        """The policy's observation and action on a row after `time` rounds."""
        world = self._world
        contexts = self._log.catalogue.contexts[row][None, None]
        world.show_context(contexts, time)
        obs = world.observe()
        action = np.asarray(self._policy.act(obs, world.action_mask("agent")))
        if action.shape != (1, 1) or not world.roles["agent"].action_space.contains(np.int64(action[0, 0])):
            raise ValueError(
                f"policy must act with a number in 0 ... {2 * len(self._log.names) - 1}, not {shown(action)}"
            )
        return obs, int(action[0, 0]) % len(self._log.names)

    def reveals(self, obs: Array, action: int, click: bool) -> None:
        self._policy.update(obs, np.array([[action]]), np.array([[float(click)]]), np.zeros(1, np.bool_))


@dataclass(frozen=True)
class _Model:
    """Mean rewards of actions: coefficients [K, d + 1] of (1, 2c - 1), between 0 and `cap`."""

    coefficients: Floats
    cap: float

    def of(self, context: Floats) -> Floats:
        return np.clip(self.coefficients[:, 0] + self.coefficients[:, 1:] @ (2 * context - 1), 0, self.cap)


def _model(log: BanditLog, rows: int) -> _Model:
    """For each action, a ridge regression of centred clicks in the first rows; the cap is the largest prediction
    there."""
    contexts = log.catalogue.contexts[:rows]
    x = np.concatenate([np.ones((rows, 1)), 2 * contexts - 1], 1)
    mean = float(log.click[:rows].mean()) if rows else 0.0
    coefficients = np.zeros((len(log.names), 1 + log.catalogue.contexts.shape[1]))
    largest = mean
    for action in range(len(log.names)):
        own = x[log.action[:rows] == action]
        clicks = log.click[:rows][log.action[:rows] == action] - mean
        fitted = np.linalg.solve(own.T @ own + PENALTY * np.eye(x.shape[1]), own.T @ clicks)
        fitted[0] += mean
        coefficients[action] = fitted
        largest = max(largest, float((own @ fitted).max(initial=0.0)))
    return _Model(coefficients, min(largest, 1.0))
