"""State and equations of Li & Song's federated bandit.

Shapes: B replicas, M agents, K arms. Equation 3 of the paper defines differential privacy, and its equations 7 to 11 are bounds of
theorems; the schedule of the algorithms is in `taciturn.policies.reference.arm_elimination`.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from taciturn.envs.core.preferences import led_by_wrong
from taciturn.envs.core.qualities import repeated
from taciturn.envs.core.states import updated
from taciturn.validation import Array, Bools, Floats, Ints, integer, shown

__all__ = [
    "QUALITIES", "State", "average", "communication_cost", "draw_quality", "eliminate", "gaps", "historical_mean",
    "identified", "in_play", "local_gaps", "local_regret", "mean_sensitivity", "own_copy", "read_means", "regret",
    "renewed", "round_robin", "smallest_gap", "wrong_option",
]  # fmt: skip

QUALITIES = ("grid", "uniform", "heterogeneous")

IDENTIFIED_SHARE = 0.9
"""Share of the pulls since the last round from which on a best arm counts as identified."""

COMMUNICATED = ("used_counts", "used_sums", "weight", "private", "reported")
"""The arrays [B, M, K] of a state that change only in slots with communication."""


@dataclass(frozen=True)
class State:
    """B federations of M agents and K arms."""

    quality: Floats  # [B, 1 or M, K]: the arms' means, one row per agent where agents differ
    counts: Ints  # [B, M, K]: pulls
    sums: Ints  # [B, M, K]: rewards
    used_counts: Ints  # [B, M, K]: pulls that enter no further mean, because they were uploaded or made during a round
    used_sums: Ints  # [B, M, K]: their rewards
    weight: Floats  # [B, M, K]: S, the number of pulls behind `private`
    private: Floats  # [B, M, K]: ybar_i, the mean over all that each agent has uploaded
    missed_rounds: Ints  # [B, M]: rounds since the agent's last upload
    uploaded: Bools  # [B, M]: agents that have uploaded for the next round or the one under way
    reported: Bools  # [B, M, K]: the arms in those uploads
    broadcast: Floats  # [B, K]: ybar, the last round's average
    last_round: Ints  # [B, K]: the round in which the arm's average was last renewed
    counts_at_round: Ints  # [B, K]: pulls by all agents when the last round ended
    time: Ints  # [B]
    round_time: Ints  # [B]: when the last round ended
    rounds: Ints  # [B]: rounds that have ended
    phase_left: Ints  # [B]: slots until the round under way ends; 0 if there is none
    uploads: Ints  # [B]: uploads to the server


S = TypeVar("S", bound=State)


def own_copy(state: S, communicates: bool = True) -> S:
    """A copy that may be written to; unless it `communicates`, the arrays that only communication changes are shared."""
    shared = ("quality",) if communicates else ("quality", *COMMUNICATED)
    return updated(state, **{f.name: getattr(state, f.name).copy() for f in fields(state) if f.name not in shared})


# Arm means.


def read_means(qualities: Any, num_agents: int, num_arms: int | None) -> Floats:
    """Given qualities as float64 [K] or [M, K]; ValueError if they are no such means in [0, 1]."""
    try:
        means = np.array(qualities, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"qualities must be one of {', '.join(map(repr, QUALITIES))} or means, not {shown(qualities)}"
        ) from error
    wanted = "K" if num_arms is None else str(integer("num_arms", num_arms, at_least=1))
    right = means.ndim in (1, 2) and means.size > 0 and (means.ndim == 1 or len(means) == num_agents)
    if not right or (num_arms is not None and means.shape[-1] != num_arms):
        raise ValueError(
            f"qualities must have the shape [{wanted}] or [{num_agents}, {wanted}], not {list(means.shape)}"
        )
    if not (valid := (means >= 0) & (means <= 1)).all():
        raise ValueError(f"qualities must be means in [0, 1], not {means[~valid][0]}")
    return means


def draw_quality(
    qualities: Any, shape: tuple[int, int, int], rng: np.random.Generator, shuffle: bool = False
) -> Floats:
    """Arm means, float64[B, 1 or M, K], for `shape` (B, M, K); `shuffle` permutes the arms of a fixed instance."""
    size, agents, arms = shape
    if not isinstance(qualities, str):
        means = qualities
    elif qualities == "grid":
        means = (np.arange(arms) + 0.5) / arms
    else:
        return rng.random((size, agents if qualities == "heterogeneous" else 1, arms))
    return repeated(np.atleast_2d(means), size, rng if shuffle else None)


# Regret and cost.


def gaps(quality: Floats) -> Floats:
    """Delta_k = mu* - mu_k, float64[B, K], for means over agents (section III-A; heterogeneous rewards: section VI-D)."""
    mean = quality.mean(1)
    return np.asarray(mean.max(-1, keepdims=True) - mean)


def local_gaps(quality: Floats) -> Floats:
    """Gaps to each agent's own best arm, float64[B, 1 or M, K]."""
    return np.asarray(quality.max(-1, keepdims=True) - quality)


def smallest_gap(quality: Floats) -> Floats:
    """Delta, the smallest positive gap, float64[B]; 1 if all arms are best."""
    gap = gaps(quality)
    return np.where(gap > 1e-12, gap, 1.0).min(-1)


def regret(state: State) -> Floats:
    """[Li 1], conditional on the pulls: the sum over agents and slots of mu* - mu_a, float64[B]."""
    return np.asarray((state.counts.sum(1) * gaps(state.quality)).sum(-1))


def local_regret(state: State) -> Floats:
    """Regret of each agent against its own best arm, summed over agents, float64[B]."""
    if state.quality.shape[1] == 1:
        return regret(state)
    return np.asarray((state.counts * local_gaps(state.quality)).sum((1, 2)))


def communication_cost(server_links: Ints, agent_links: Array, server_price: float, agent_price: float) -> Floats:
    """[Li 2]: C = c1 times the links to the server plus c2 times the links between agents, float64[B]."""
    return server_price * server_links + agent_price * agent_links


# Uploads, averages, elimination.


def mean_sensitivity(pulls: Array) -> Floats:
    """[Li 5] for a mean of n rewards in [0, 1]: s = 1 / n; 1 where there are none."""
    return 1.0 / np.where(pulls > 0, pulls, 1.0)


def historical_mean(before: Floats, weight: Floats, mean: Floats, pulls: Array) -> Floats:
    """[Li 6]: ybar(r) = S(r-1)/S(r) ybar(r-1) + n(r)/S(r) yhat(r) with S(r) = `weight` + `pulls`; unchanged without new pulls."""
    total = weight + pulls
    return np.where(pulls > 0, (weight * before + pulls * mean) / np.where(total > 0, total, 1.0), before)


def average(private: Floats, known: Bools, group: Ints | None = None) -> tuple[Floats, Ints]:
    """ybar_k, the mean over agents (Algorithm 1, line 12) or over the components' means (Algorithm 5, lines 9 and 14).

    Args:
        private: float64[B, M, K].
        known: which of these values enter, bool[B, M, K].
        group: int64[M], the component of each agent; None: all agents have equal weight.

    Returns:
        (mean float64[B, K], number of agents behind it int64[B, K]); 0 where there are none.
    """
    number_known = known.sum(1)
    if group is None:
        return np.where(known, private, 0.0).sum(1) / np.maximum(number_known, 1), number_known
    member = (group == np.arange(group.max() + 1)[:, None]).astype(np.float64)
    size, total = member @ known, member @ np.where(known, private, 0.0)
    means, some = total / np.maximum(size, 1), size > 0
    return means.sum(1) / np.maximum(some.sum(1), 1), number_known


def eliminate(active: Bools, mean: Floats, threshold: Floats) -> Bools:
    """Arms that stay active, bool[..., K]: those less than `threshold` (2 C(r)) below the best active arm (Algorithm 1, lines 13-15)."""
    best = np.where(active, mean, -np.inf).max(-1, keepdims=True)
    return np.asarray(active & (best - mean < threshold[..., None]))


def round_robin(active: Bools, played: Ints, slots: Ints) -> Ints:
    """Pulls of each arm, int64[..., K], in the next `slots` of a phase that cycles through the active arms, after `played` slots of it."""
    number, rank = active.sum(-1, keepdims=True), np.cumsum(active, -1) - 1

    def until(slot: Ints) -> Ints:
        return np.asarray(np.maximum(slot[..., None] - rank + number - 1, 0) // number)

    return np.where(active, until(played + slots) - until(played), 0)


# Which arms are played.


def renewed(state: State) -> Bools:
    """Arms whose average the last round renewed, bool[B, K]; all of them before the first round."""
    return np.asarray(state.last_round == state.rounds[:, None])


def in_play(state: State) -> Bools:
    """Arms that agents still play, bool[B, K].

    These are the arms pulled since the last round, or, as long as agents have had no time to pull every arm that it renewed, the latter.
    """
    last, pulled = renewed(state), state.counts.sum(1) > state.counts_at_round
    return np.where((state.time - state.round_time >= last.sum(-1))[:, None], pulled, last)


def wrong_option(state: State) -> Bools:
    """Replicas in which an arm that is not best has more pulls since the last round (without any: in all) than every best one, bool[B]."""
    total = state.counts.sum(1)
    recent = total - state.counts_at_round
    pulls = np.where(recent.any(1, keepdims=True), recent, total)
    return led_by_wrong(pulls, gaps(state.quality) <= 1e-12)


def identified(state: State) -> Bools:
    """Replicas in which best arms have nine tenths of the pulls since the last round (without any: of what it renewed, all), bool[B]."""
    best = gaps(state.quality) <= 1e-12
    pulls = state.counts.sum(1) - state.counts_at_round
    total = pulls.sum(-1)
    return np.where(total > 0, (pulls * best).sum(-1) >= IDENTIFIED_SHARE * total, ~(renewed(state) & ~best).any(-1))
