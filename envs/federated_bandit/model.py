"""State and equations of Li & Song's federated bandit, for one federation, in the form required by
`taciturn.envs.core.hooks.Hooks`.

Shapes: M agents, K arms; B replicas, as seen from outside. Equation 3 of the paper defines differential privacy, and
its equations 7 to 11 are bounds of theorems; the schedule of the algorithms is in
`taciturn.policies.reference.arm_elimination`.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from taciturn.envs.core import fields
from taciturn.envs.core.preferences import led_by_wrong
from taciturn.envs.core.qualities import QualityDistribution
from taciturn.validation import Array, Bools, Floats, Ints, integer, shown

QUALITIES = ("grid", "uniform", "heterogeneous")

EQUAL = 1e-12
"""Gaps up to this value are rounding errors."""

IDENTIFIED_SHARE = 0.9
"""Share of the pulls since the last round at which a best arm counts as identified."""


# The shapes of fields: [M], [K] and [M, K].
AGENTS, ARMS, PAIRS = attrgetter("num_agents"), attrgetter("arms"), attrgetter("num_agents", "arms")


@dataclass(frozen=True)
class State:
    """A federation; from outside, each field has a leading axis [B]."""

    # The arms' means, with one row per agent if the agents' means differ.
    quality: Floats = fields.hidden(lambda p: p.distribution.given.shape)
    gap: Floats = fields.hidden(ARMS)  # Delta_k, the gap to the best mean over agents
    counts: Ints = fields.own(PAIRS, role="agent")  # number of pulls
    sums: Ints = fields.own(PAIRS, role="agent")  # sums of rewards
    pulled: Ints = fields.public(ARMS)  # pulls by all agents
    # Pulls that enter no further mean, because they were uploaded or made during a round
    used_counts: Ints = fields.own(PAIRS, role="agent")
    used_sums: Ints = fields.own(PAIRS, role="agent")  # their rewards
    weight: Floats = fields.public(PAIRS)  # S, the number of pulls behind `private`
    private: Floats = fields.received(PAIRS, role="agent")  # ybar_i, the mean over all uploads of an agent
    missed_rounds: Ints = fields.public(AGENTS)  # rounds since the agent's last upload
    uploaded: Bools = fields.public(AGENTS)  # agents that have uploaded for the next or current round
    reported: Bools = fields.public(PAIRS)  # the arms in those uploads
    broadcast: Floats = fields.public(ARMS)  # ybar, the last round's average
    last_round: Ints = fields.public(ARMS)  # the round in which the arm's average was last renewed
    counts_at_round: Ints = fields.public(ARMS)  # pulls by all agents when the last round ended
    active: Bools = fields.public(ARMS)  # arms that are still played
    time: Ints = fields.public()
    round_time: Ints = fields.public()  # when the last round ended
    rounds: Ints = fields.public()  # rounds that have ended
    phase_left: Ints = fields.public()  # slots until the current round ends; 0 if there is none
    uploads: Ints = fields.public()  # messages to the server
    neighbour: Ints = fields.public()  # messages to neighbours outside of rounds
    asks: Bools = fields.public(AGENTS)  # agents that upload now
    slots: Ints = fields.public()  # slots played since agents last could act
    pulls: Ints = fields.public()  # pulls of each active arm, chosen by a coordinator
    arms: Ints = fields.hidden(AGENTS)  # the arm that each agent pulls in the next slot
    plan: Ints = fields.hidden(PAIRS)  # or the number of pulls of each arm in the next slots
    earned: Floats = fields.own(AGENTS, role="agent")  # rewards of the last slot minus the cost of links
    sent_messages: Ints = fields.public(AGENTS)  # messages sent, if nothing is installed on the channel; otherwise:
    mean: Floats = fields.own(PAIRS, role="agent")  # the mean that each agent reports
    share: Floats = fields.public(PAIRS)  # the number of pulls in it
    received_means: Floats = fields.received(PAIRS, role="agent")  # the received mean
    delivered: Bools = fields.public(AGENTS)  # whether it arrived


# Arm means.


def read_means(qualities: Any, num_agents: int, num_arms: int | None) -> Floats:
    """Given qualities as float64 [K] or [M, K]; ValueError if they are not means in [0, 1] of such a shape."""
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


def distribution_of_means(qualities: Any, num_agents: int, num_arms: int, shuffle: bool) -> QualityDistribution:
    """The distribution of a run's arm means, [1 or M, K]; `shuffle` permutes the arms of a fixed instance."""
    named = isinstance(qualities, str)
    drawn = named and qualities != "grid"
    fixed = (np.arange(num_arms) + 0.5) / num_arms if named else qualities
    rows = np.zeros((num_agents if qualities == "heterogeneous" else 1, num_arms)) if drawn else np.atleast_2d(fixed)
    return QualityDistribution(np.array(rows, np.float64), drawn, bool(shuffle) and not drawn)


# Regret and cost.


def fill_gaps(arrays: Any) -> None:
    """Delta_k = mu* - mu_k, for means over agents (section III-A; heterogeneous rewards: section VI-D)."""
    rows, arms = arrays.quality.shape
    best = 0.0
    for k in range(arms):
        total = 0.0
        for i in range(rows):
            total += arrays.quality[i, k]
        arrays.gap[k] = total / rows
        best = max(best, arrays.gap[k])
    for k in range(arms):
        arrays.gap[k] = best - arrays.gap[k]


def regret(arrays: Any) -> float:
    """[Li 1], conditional on the pulls: the sum over agents and slots of mu* - mu_a."""
    total = 0.0
    for k in range(len(arrays.gap)):
        total += arrays.pulled[k] * arrays.gap[k]
    return total


def local_regret(arrays: Any) -> float:
    """Regret of each agent relative to its own best arm, summed over agents."""
    rows, arms = arrays.quality.shape
    if rows == 1:
        return regret(arrays)
    total = 0.0
    for i in range(rows):
        best = 0.0
        for k in range(arms):
            best = max(best, arrays.quality[i, k])
        for k in range(arms):
            total += arrays.counts[i, k] * (best - arrays.quality[i, k])
    return total


def communication_cost(server_links: Any, agent_links: Any, server_price: float, agent_price: float) -> Any:
    """[Li 2]: C = c1 times the links to the server plus c2 times the links between agents."""
    return server_price * server_links + agent_price * agent_links


# Uploads, averages, elimination.


def mean_sensitivity(pulls: Array) -> Floats:
    """[Li 5] for a mean of n rewards in [0, 1]: s = 1 / n; 1 where there are none."""
    return 1.0 / np.where(pulls > 0, pulls, 1.0)


def historical_mean(before: float, weight: float, mean: float, pulls: float) -> float:
    """[Li 6]: ybar(r) = S(r-1)/S(r) ybar(r-1) + n(r)/S(r) yhat(r) with S(r) = `weight` + `pulls` > 0."""
    return (weight * before + pulls * mean) / (weight + pulls)


def average(private: Any, known: Any, pulls: Any, k: int, group: Any, by_pulls: bool) -> tuple[float, int]:
    """ybar_k, the mean over agents (Algorithm 1, line 12) or over the components' means (Algorithm 5, lines 9 and 14).

    Args:
        private: float64[M, K].
        known: whether each of these values enters, bool[M, K].
        pulls: float64[M, K], the number of pulls behind each value.
        k: the arm.
        group: int64[M], ascending: the component of each agent; all equal if components do not matter.
        by_pulls: whether agents are weighted by their pulls, or equally.

    Returns:
        (mean, number of components behind it); 0 if there are none.
    """
    means, some, total, size = 0.0, 0, 0.0, 0.0
    for i in range(len(group)):
        if known[i, k]:
            weight = pulls[i, k] if by_pulls else 1.0
            total += weight * private[i, k]
            size += weight
        if size > 0.0 and (i + 1 == len(group) or group[i + 1] != group[i]):
            means += total / size
            some += 1
            total, size = 0.0, 0.0
    return means / max(some, 1), some


def stays(best: Any, mean: Any, threshold: Any) -> Any:
    """Whether an arm is less than `threshold` (2 C(r)) below the best active one (Algorithm 1, lines 13-15)."""
    return best - mean < threshold


def turns(slots: Any, rank: Any, number: Any) -> Any:
    """How often the arm with that rank is pulled in the first `slots` slots of a phase that cycles through `number`
    arms."""
    return slots // number + (rank < slots % number)


# The active arms.


def renewed(last_round: int, rounds: int) -> bool:
    """Whether the last round renewed an arm's average; true before the first round."""
    return last_round == rounds


def find_active(state: Any, arrays: Any) -> None:
    """Find the arms that agents still play.

    These are the arms pulled since the last round; until agents have had time to pull every arm that it renewed, they
    are the renewed arms.
    """
    number = 0
    for k in range(len(arrays.active)):
        number += renewed(arrays.last_round[k], state.rounds)
    pulled_all = state.time - state.round_time >= number
    for k in range(len(arrays.active)):
        pulled = arrays.pulled[k] > arrays.counts_at_round[k]
        arrays.active[k] = pulled if pulled_all else renewed(arrays.last_round[k], state.rounds)


# Measures of all replicas.


def wrong_option(state: State) -> Bools:
    """Replicas in which some suboptimal arm has more pulls since the last round (without one: in all) than every best
    arm, bool[B]."""
    recent = state.pulled - state.counts_at_round
    pulls = np.where(recent.any(1, keepdims=True), recent, state.pulled)
    return led_by_wrong(pulls, state.gap <= EQUAL)


def identified(state: State) -> Bools:
    """Replicas in which the best arms have nine tenths of the pulls since the last round, bool[B]; without pulls,
    replicas in which all arms renewed by that round are best."""
    best, pulls = state.gap <= EQUAL, state.pulled - state.counts_at_round
    total, last = pulls.sum(-1), state.last_round == state.rounds[:, None]
    return np.where(total > 0, (pulls * best).sum(-1) >= IDENTIFIED_SHARE * total, ~(last & ~best).any(-1))


def noise_of_sums(mechanism: Any, pulls: Ints, agents: int = 1) -> Floats:
    """n^2 s(n), the noise variance in sums of n rewards if their means are sent, of the shape of `pulls`; 0 where n is
    0. If a mechanism releases the average over `agents`, with noise variance v, then s(n) is `agents` times v."""
    if mechanism is None or mechanism.kind == "none":
        return np.zeros(pulls.shape)
    n = np.maximum(pulls, 1)
    of_mean = mechanism.variance_of_mean(np.full(n.shape, 0.5), 1.0 / n, agents)
    return np.where(pulls > 0, n**2 * agents * of_mean, 0.0)
