"""Many ticks of gossip in one go, for agents that act by a `GossipRule`: a loop compiled with numba, and NumPy over replicas.

Both consume the same uniform numbers, drawn in blocks by NumPy, and do the same arithmetic in the same order: the same bits come out.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from taciturn.envs.core.fast import Fast
from taciturn.envs.core.replies import ReplySums
from taciturn.validation import Array

__all__ = ["GossipRule", "Tally", "choose", "compiled", "play"]

# Uniform numbers drawn at a time, for all replicas: 64 MB.
BLOCK = 2**23


@dataclass(frozen=True)
class GossipRule(Fast):
    """How an agent without memory acts on what it hears, where that depends on the counts by a weight for each option.

    Args:
        weights: float64[n + 1], the weight of an option that c of n replies name, at [c].
        threshold: an agent whose own option has at least this share of the weights pulls nothing.
        explore: probability in [0, 1] that an agent without preference pulls an option drawn uniformly.
        take_up: whether it takes up the option it pulled on signal 0, and on signal 1.

    Otherwise the option to pull is drawn in proportion to the weights; nothing is pulled if all are zero.
    """

    weights: Array
    threshold: float = np.inf
    explore: float = 0.0
    take_up: tuple[bool, bool] = (False, True)


def choose(weights: Array, own: Array, uniform: Array, threshold: float = np.inf, explore: float = 0.0) -> Array:
    """The option that each agent pulls under a `GossipRule`, int64[...], K for none.

    Args:
        weights: float64[..., K], >= 0.
        own: int[...], -1 for none.
        uniform: float64[...].
        threshold: see `GossipRule`.
        explore: see `GossipRule`.
    """
    options = weights.shape[-1]
    total = weights[..., 0].copy()
    for k in range(1, options):
        total += weights[..., k]
    some = total > 0
    mine = np.take_along_axis(weights, np.maximum(own, 0)[..., None].astype(np.int64), -1)[..., 0]
    keeps = (own >= 0) & (mine / np.where(some, total, 1.0) >= threshold)
    if explore:
        tries = (own < 0) & (uniform < explore)
        anything = np.minimum((uniform / explore * options).astype(np.int64), options - 1)
        rest = (uniform - explore) / (1.0 - explore) if explore < 1 else uniform
        uniform = np.where(own < 0, rest, uniform)
    mark, below = uniform * total, np.zeros(total.shape)
    option = np.zeros(total.shape, np.int64)
    for k in range(options - 1):
        below += weights[..., k]
        option += below <= mark
    option = np.where(some & ~keeps, option, options)
    return np.where(tries, anything, option) if explore else option


@dataclass
class Tally:
    """B populations as their ticks change them, in place.

    `agreed`, `agreed_on` and `departed` are about this run of ticks: which of them, counted from 1, first made all agents prefer one
    option (0: none did), which option, and which first ended that.
    """

    preference: Array  # int16[B, N]
    holders: Array  # int64[B, K]
    requests: Array  # int32[B, N]
    replies: Array  # int64[B, N], where agents ask one another; else [B, 0]
    pulls: Array  # int64[B, K]
    held: Array  # int64[B, K]
    earned: Array  # int64[B], signals of 1
    blanks: Array  # int64[B]
    departures: Array  # int64[B]
    agreed: Array  # int64[B]
    agreed_on: Array  # int64[B]
    departed: Array  # int64[B]

    def of(self, part: slice) -> "Tally":
        """Some replicas, as views."""
        return Tally(*(getattr(self, field.name)[part] for field in fields(self)))


def play(
    tally: Tally,
    ticks: Array,
    rule: GossipRule,
    sums: ReplySums | None,
    qualities: Array,
    *,
    one_peer: bool,
    chance: int,
    streams: tuple[np.random.Generator, np.random.Generator, np.random.Generator, np.random.Generator],
    fast: bool,
) -> None:
    """Let `ticks` int64[B] agents tick in each replica.

    Args:
        tally: changed in place.
        ticks: how many, by replica.
        rule: what they do.
        sums: how replies are perturbed, None: not at all.
        qualities: float64[B, K].
        one_peer: whether one peer replies, or everyone.
        chance: a tick is blank where no count is above this.
        streams: draw who ticks and whom it asks, the noise of replies, the options pulled, and their signals.
        fast: whether to use numba.
    """
    replicas, options = tally.holders.shape
    levels = 0 if sums is None else sums.levels
    shapes = ((2 if one_peer else 1,), (options, levels), (), ())
    each = sum(int(np.prod(shape)) for shape in shapes)
    length = min(max(BLOCK // max(replicas * each, 1), 16), 4096)
    last = int(ticks.max(initial=0))
    for done in range(0, last, length):
        # Group after group draws what all replicas would draw at once.
        group = max(1, BLOCK // 128 // (length * each)) if fast else replicas
        for first in range(0, replicas, group):
            part = slice(first, first + group)
            size = (len(ticks[part]), min(length, last - done))
            uniforms = [rng.random((*size, *shape)) for rng, shape in zip(streams, shapes, strict=True)]
            run = _compiled_block if fast else _numpy_block
            run(tally.of(part), ticks[part] - done, done, rule, sums, qualities[part], one_peer, chance, uniforms)


def _numpy_block(
    tally: Tally,
    ticks: Array,
    done: int,
    rule: GossipRule,
    sums: ReplySums | None,
    qualities: Array,
    one_peer: bool,
    chance: int,
    uniforms: list[Array],
) -> None:
    who, noise, choices, signals = (np.ascontiguousarray(part.swapaxes(0, 1)) for part in uniforms)
    preference, holders, agreed, departed = tally.preference, tally.holders, tally.agreed, tally.departed
    replicas, agents = preference.shape
    options, rows, everyone = holders.shape[1], np.arange(replicas), np.arange(holders.shape[1])
    takes = np.array(rule.take_up)
    for t in range(len(who)):
        alive = t < ticks
        i = (who[t, :, 0] * agents).astype(np.int64)
        own = preference[rows, i].astype(np.int64)
        tally.requests[rows, i] += alive
        counts = holders
        if one_peer:
            peer = (who[t, :, 1] * agents).astype(np.int64)
            said = preference[rows, peer]
            tally.replies[rows, peer] += alive & (said >= 0)
            counts = (said[:, None] == everyone).astype(np.int64)
        if sums is not None:
            counts = sums.draw(counts, noise[t])
        if one_peer:
            counts = np.where(said[:, None] >= 0, counts, 0)
        weights = rule.weights.take(counts)
        option = choose(weights, own, choices[t], rule.threshold, rule.explore)
        tally.held += holders * alive[:, None]
        tally.blanks += alive & (counts <= chance).all(1)
        pulls = alive & (option < options)
        option = np.where(pulls, option, 0)
        signal = signals[t] < qualities[rows, option]
        tally.pulls[rows, option] += pulls
        tally.earned += pulls & signal
        moves = np.flatnonzero(pulls & takes.take(signal.astype(np.int64)) & (option != own))
        new = option[moves]
        had = own[moves] >= 0
        losers, old = moves[had], own[moves][had]
        left = losers[holders[losers, old] == agents]
        tally.departures[left] += 1
        departed[left] = np.where(departed[left] == 0, done + t + 1, departed[left])
        holders[losers, old] -= 1
        holders[moves, new] += 1
        preference[moves, i[moves]] = new
        first = (holders[moves, new] == agents) & (agreed[moves] == 0)
        agreed[moves[first]] = done + t + 1
        tally.agreed_on[moves[first]] = new[first]


def _compiled_block(
    tally: Tally,
    ticks: Array,
    done: int,
    rule: GossipRule,
    sums: ReplySums | None,
    qualities: Array,
    one_peer: bool,
    chance: int,
    uniforms: list[Array],
) -> None:
    none, sure = np.zeros(1, np.int64), np.ones((1, 1))
    tables: Any = (0, none, none, sure, none[:, None], none, sure, none[:, None])
    if sums is not None:
        o, i = sums.outer, sums.inner
        tables = (sums.gap, sums.anchors, o.first, o.stay, o.alias, i.first, i.stay, i.alias)
    arrays = (getattr(tally, field.name) for field in fields(tally))
    behaviour = (rule.weights, rule.threshold, rule.explore, rule.take_up)
    compiled()(*arrays, ticks, done, *behaviour, *tables, qualities, one_peer, chance, *uniforms)


def _kernel(
    preference: Array, holders: Array, requests: Array, replies: Array, pulls: Array, held: Array, earned: Array, blanks: Array,
    departures: Array, agreed: Array, agreed_on: Array, departed: Array, ticks: Array, done: int, weights: Array, threshold: float,
    explore: float, take_up: tuple[bool, bool], gap: int, anchors: Array, first0: Array, stay0: Array, alias0: Array, first1: Array,
    stay1: Array, alias1: Array, qualities: Array, one_peer: bool, chance: int, who: Array, noise: Array, choices: Array, signals: Array,
) -> None:  # fmt: skip
    replicas, agents = preference.shape
    options = holders.shape[1]
    noisy = noise.shape[3] > 0
    width0, width1 = stay0.shape[1], stay1.shape[1]
    weight = np.empty(options)
    for b in range(replicas):
        for t in range(min(who.shape[1], ticks[b])):
            i = int(who[b, t, 0] * agents)
            own = preference[b, i]
            requests[b, i] += 1
            said = -1
            if one_peer:
                peer = int(who[b, t, 1] * agents)
                said = preference[b, peer]
                if said >= 0:
                    replies[b, peer] += 1
            total, blank = 0.0, True
            for k in range(options):
                x = holders[b, k]
                held[b, k] += x
                if one_peer:
                    x = 1 if said == k else 0
                if noisy and (not one_peer or said >= 0):
                    row = x // (gap + 1) if gap > 0 else x
                    place = noise[b, t, k, 0] * width0
                    cell = int(place)
                    other = alias0[row, cell]
                    count = first0[row] + (cell if place - cell < stay0[row, cell] else other)
                    if gap > 0:
                        row = x - anchors[row]
                        place = noise[b, t, k, 1] * width1
                        cell = int(place)
                        other = alias1[row, cell]
                        count += first1[row] + (cell if place - cell < stay1[row, cell] else other)
                    x = count
                blank = blank & (x <= chance)
                weight[k] = weights[x]
                total += weight[k]
            uniform = choices[b, t]
            option = options
            blanks[b] += blank
            if own < 0 and explore > 0.0 and uniform < explore:
                option = min(int(uniform / explore * options), options - 1)
            elif total > 0.0 and not (own >= 0 and weight[own] / total >= threshold):
                if own < 0 and explore > 0.0 and explore < 1.0:
                    uniform = (uniform - explore) / (1.0 - explore)
                mark = uniform * total
                below = 0.0
                option = 0
                for k in range(options - 1):
                    below += weight[k]
                    option += below <= mark
            if option == options:
                continue
            pulls[b, option] += 1
            signal = 1 if signals[b, t] < qualities[b, option] else 0
            earned[b] += signal
            if option == own or not take_up[signal]:
                continue
            if own >= 0:
                if holders[b, own] == agents:
                    departures[b] += 1
                    if departed[b] == 0:
                        departed[b] = done + t + 1
                holders[b, own] -= 1
            holders[b, option] += 1
            preference[b, i] = option
            if holders[b, option] == agents and agreed[b] == 0:
                agreed[b] = done + t + 1
                agreed_on[b] = option


@cache
def compiled() -> Any:
    """The loop over ticks, compiled; ImportError without numba."""
    try:
        import numba
    except ImportError as error:
        raise ImportError("the compiled loop needs numba: run pip install '.[fast]' in a clone of taciturn") from error
    return numba.njit(_kernel)
