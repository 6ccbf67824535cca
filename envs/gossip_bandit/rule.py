"""Memoryless agents that weigh options by the replies for them: their choices, and the play of many ticks in one
call."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taciturn.channels.replies import ReplySums
from taciturn.compiling.counter_streams import uniform
from taciturn.envs.core.public import Fast
from taciturn.validation import Floats, Ints


@dataclass(frozen=True)
class GossipRule(Fast):
    """The behaviour of a memoryless agent that weighs each option by the number of replies with its bit set.

    Args:
        weights: float64[n + 1], >= 0; weights[c] is the weight of an option with its bit set in c of n replies.
        threshold: an agent pulls nothing if its own option has at least this share of the total weight.
        explore: probability in [0, 1] that an agent without preference pulls a uniformly random option.
        adopts: whether the agent adopts the option that it pulled on signal 0, and on signal 1.

    Otherwise the agent pulls an option drawn with probability proportional to its weight, or nothing if all weights are
    zero.
    """

    weights: Floats
    threshold: float = np.inf
    explore: float = 0.0
    adopts: tuple[bool, bool] = (False, True)


# One agent, in the form required by `taciturn.envs.core.hooks.Hooks`, and the noise of the replies to it.


class Behaviour(NamedTuple):
    """A `GossipRule`, for compiled functions."""

    weights: Floats
    threshold: float
    explore: float
    adopts_on_zero: bool
    adopts_on_one: bool


def choose(counts: Any, own: int, rule: Any, drawn: float) -> int:
    """The option that an agent pulls, K for none, given the reply counts int64[K] and a uniform number `drawn`.

    `taciturn.policies.families.social.option_to_pull` is the same for many agents.
    """
    options, total = len(counts), 0.0
    for k in range(options):
        total += rule.weights[counts[k]]
    if own < 0 and drawn < rule.explore:
        return min(int(drawn / rule.explore * options), options - 1)
    if total <= 0.0 or (own >= 0 and rule.weights[counts[own]] / total >= rule.threshold):
        return options
    if own < 0 and 0.0 < rule.explore < 1.0:
        drawn = (drawn - rule.explore) / (1.0 - rule.explore)
    option, below = 0, 0.0
    for k in range(options - 1):
        below += rule.weights[counts[k]]
        option += below <= drawn * total
    return option


class ReplyNoise(NamedTuple):
    """The distribution of perturbed replies: the tables of `ReplySums`, or (p, q) for single replies."""

    some: bool
    single: bool
    p: float
    q: float
    gap: int
    anchors: Ints
    first: Ints
    cells: Floats
    first_of_rest: Ints
    cells_of_rest: Floats


def reply_noise(distribution: tuple[float, float], sums: ReplySums | None) -> ReplyNoise:
    """The noise of replies with distribution (p, q), each read alone (`sums` None) or all as a sum."""
    some, single = distribution != (1.0, 0.0), sums is None
    tables: Any = (0, np.zeros(1, np.int64), *2 * (np.zeros(1, np.int64), np.zeros((1, 1))))
    if sums is not None:
        o, i = sums.outer, sums.inner
        tables = (sums.gap, sums.anchors, o.first, o.cells, i.first, i.cells)
    return ReplyNoise(some, single, float(distribution[0]), float(distribution[1]), *tables)


def drawn_from(row: int, first: Any, cells: Any, drawn: float) -> int:
    """Draw from a row of an alias table with a uniform number (`AliasTable.draw`)."""
    place = drawn * cells.shape[1]
    cell = int(place)
    result = cells[row, cell]
    other = int(result)
    return int(first[row] + (cell if place - cell < result - other else other))


def add_reply_noise(counts: Any, received: int, noise: Any, rng: Any, source: int) -> None:
    """Perturb the counts int64[K] of `received` replies by the distribution of their sums."""
    if received == 0:
        return
    for k in range(len(counts)):
        ones, drawn = counts[k], uniform(rng, source)
        if noise.single:
            counts[k] = drawn < (noise.p if ones > 0 else noise.q)
            continue
        row = ones // (noise.gap + 1)
        counts[k] = drawn_from(row, noise.first, noise.cells, drawn)
        if noise.gap > 0:
            rest = ones - noise.anchors[row]
            counts[k] += drawn_from(rest, noise.first_of_rest, noise.cells_of_rest, uniform(rng, source))
