"""The fast form of gossip: many ticks at once for agents that follow a `GossipRule`, by a loop compiled with numba or by NumPy.

Both use the same uniform numbers, drawn in blocks by NumPy, and do the same arithmetic in the same order, so results are bit-identical.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from taciturn.envs.core.public import Fast
from taciturn.envs.core.replies import ReplySums
from taciturn.validation import Array, Floats, Ints

__all__ = ["GossipRule", "Tally", "compiled", "many_ticks", "option_to_pull", "play", "tick_times"]

# Uniform numbers drawn at a time, for all replicas: 64 MB.
BLOCK = 2**23

# Number of ticks of a run, over all replicas, from which compiling the loop, about 2 s, is worth while.
COMPILE_FROM = 500_000


@dataclass(frozen=True)
class GossipRule(Fast):
    """The behaviour of an agent without memory that weighs each option by the number of replies in which its bit is set.

    Args:
        weights: float64[n + 1], >= 0: the weight, at [c], of an option whose bit is set in c of n replies.
        threshold: an agent pulls nothing if its own option has at least this share of the total weight.
        explore: probability in [0, 1] that an agent without preference pulls a uniformly random option.
        adopts: whether the agent adopts the option that it pulled on signal 0, and on signal 1.

    Otherwise the agent pulls an option drawn with probability proportional to its weight, or nothing if all weights are zero.
    """

    weights: Floats
    threshold: float = np.inf
    explore: float = 0.0
    adopts: tuple[bool, bool] = (False, True)


def option_to_pull(
    weights: Floats, own: Array, uniform: Floats, threshold: float = np.inf, explore: float = 0.0
) -> Ints:
    """The option that each agent pulls, [...], K for none: drawn from its share Fhat of the total weight [Chen 8].

    Args:
        weights: [..., K], >= 0; the Ftilde of the paper.
        own: int[...], the agents' preferences, -1 for none.
        uniform: [...], a uniform number for each agent.
        threshold, explore: see `GossipRule`.
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
    """State and totals of B populations, updated in place.

    `agreed`, `agreed_on` and `departed` refer to the ticks of one call of `play`, counted from 1.
    """

    preference: Array  # int16[B, N]
    holders: Array  # int64[B, K]
    requests: Array  # int32[B, N]
    replies: Array  # int64[B, N] if agents ask one peer, else [B, 0]
    pulls: Array  # int64[B, K]
    holder_ticks: Array  # int64[B, K], sum of `holders` over ticks
    successes: Array  # int64[B], pulls with signal 1
    all_zero_ticks: Array  # int64[B]
    departures: Array  # int64[B]
    agreed: Array  # int64[B], first tick after which all agents prefer one option; 0: none
    agreed_on: Array  # int64[B], that option
    departed: Array  # int64[B], first tick that ended a consensus; 0: none

    def of(self, part: slice) -> "Tally":
        """A slice of the replicas, as views."""
        return Tally(*(getattr(self, field.name)[part] for field in fields(self)))


def play(
    tally: Tally, ticks: Ints, rule: GossipRule, sums: ReplySums | None, qualities: Floats, *, one_peer: bool, zeros: bool,
    chance: int, streams: Sequence[np.random.Generator], fast: bool,
) -> None:  # fmt: skip
    """Play `ticks` int64[B] ticks in each replica.

    Args:
        tally: updated in place.
        sums: law of the sums of perturbed replies; None without noise.
        qualities: float64[B, K].
        one_peer: whether an agent asks one peer, or everyone.
        zeros: whether a peer without preference replies that it has none.
        chance: a tick counts as all-zero if no count exceeds this.
        streams: generators of the ticking agents and their peers, of the noise, of the options pulled, and of the signals.
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
            run(
                tally.of(part), ticks[part] - done, done, rule, sums, qualities[part], one_peer, zeros, chance, uniforms
            )


def _numpy_block(
    tally: Tally, ticks: Ints, done: int, rule: GossipRule, sums: ReplySums | None, qualities: Floats, one_peer: bool, zeros: bool,
    chance: int, uniforms: list[Floats],
) -> None:  # fmt: skip
    who, noise, choices, signals = (np.ascontiguousarray(part.swapaxes(0, 1)) for part in uniforms)
    preference, holders, agreed, departed = tally.preference, tally.holders, tally.agreed, tally.departed
    replicas, agents = preference.shape
    options, rows, everyone = holders.shape[1], np.arange(replicas), np.arange(holders.shape[1])
    adopts = np.array(rule.adopts)
    for t in range(len(who)):
        alive = t < ticks
        i = (who[t, :, 0] * agents).astype(np.int64)
        own = preference[rows, i].astype(np.int64)
        tally.requests[rows, i] += alive
        counts = holders
        if one_peer:
            peer = (who[t, :, 1] * agents).astype(np.int64)
            reply = preference[rows, peer]
            tally.replies[rows, peer] += alive & ((reply >= 0) | zeros)
            counts = (reply[:, None] == everyone).astype(np.int64)
        if sums is not None:
            counts = sums.draw(counts, noise[t])
        if one_peer and not zeros:
            counts = np.where(reply[:, None] >= 0, counts, 0)
        weights = rule.weights.take(counts)
        option = option_to_pull(weights, own, choices[t], rule.threshold, rule.explore)
        tally.holder_ticks += holders * alive[:, None]
        tally.all_zero_ticks += alive & (counts <= chance).all(1)
        pulls = alive & (option < options)
        option = np.where(pulls, option, 0)
        signal = signals[t] < qualities[rows, option]
        tally.pulls[rows, option] += pulls
        tally.successes += pulls & signal
        moves = np.flatnonzero(pulls & adopts.take(signal.astype(np.int64)) & (option != own))
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
    tally: Tally, ticks: Ints, done: int, rule: GossipRule, sums: ReplySums | None, qualities: Floats, one_peer: bool, zeros: bool,
    chance: int, uniforms: list[Floats],
) -> None:  # fmt: skip
    none, sure = np.zeros(1, np.int64), np.ones((1, 1))
    tables: Any = (0, none, none, sure, none[:, None], none, sure, none[:, None])
    if sums is not None:
        o, i = sums.outer, sums.inner
        tables = (sums.gap, sums.anchors, o.first, o.stay, o.alias, i.first, i.stay, i.alias)
    arrays = (getattr(tally, field.name) for field in fields(tally))
    behaviour = (rule.weights, rule.threshold, rule.explore, rule.adopts)
    compiled()(*arrays, ticks, done, *behaviour, *tables, qualities, one_peer, zeros, chance, *uniforms)


def _kernel(
    preference: Array, holders: Array, requests: Array, replies: Array, pulls: Array, holder_ticks: Array, successes: Array,
    all_zero_ticks: Array, departures: Array, agreed: Array, agreed_on: Array, departed: Array, ticks: Array, done: int,
    weights: Array, threshold: float, explore: float, adopts: tuple[bool, bool], gap: int, anchors: Array, first0: Array,
    stay0: Array, alias0: Array, first1: Array, stay1: Array, alias1: Array, qualities: Array, one_peer: bool, zeros: bool, chance: int,
    who: Array, noise: Array, choices: Array, signals: Array,
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
            reply = -1
            if one_peer:
                peer = int(who[b, t, 1] * agents)
                reply = preference[b, peer]
                if reply >= 0 or zeros:
                    replies[b, peer] += 1
            total, all_zero = 0.0, True
            for k in range(options):
                x = holders[b, k]
                holder_ticks[b, k] += x
                if one_peer:
                    x = 1 if reply == k else 0
                if noisy and (not one_peer or reply >= 0 or zeros):
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
                all_zero = all_zero & (x <= chance)
                weight[k] = weights[x]
                total += weight[k]
            uniform = choices[b, t]
            option = options
            all_zero_ticks[b] += all_zero
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
            successes[b] += signal
            if option == own or not adopts[signal]:
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
    """The loop over ticks, compiled; raises ImportError without numba."""
    try:
        import numba
    except ImportError as error:
        raise ImportError("the compiled loop needs numba: run pip install numba") from error
    return numba.njit(_kernel)


def many_ticks(
    state: Any, ticks: Ints, until: float, rule: GossipRule, sums: ReplySums | None, *, one_peer: bool, zeros: bool, chance: int,
    streams: Sequence[np.random.Generator],
) -> tuple[dict[str, Array], Ints]:  # fmt: skip
    """Play `ticks` [B] more ticks of a world's `state`, the last of them before `until`; the other arguments are those of `play`.

    Returns:
        The fields of the state that change, and how often each agent was the one peer asked, [B, N] ([B, 0] if everyone is asked).
    """
    live = np.flatnonzero(ticks)
    totals = (
        "preference", "holders", "requests", "pulls", "holder_ticks", "successes", "all_zero_ticks", "departures",
    )  # fmt: skip
    replies = np.zeros((len(ticks), state.preference.shape[1] if one_peer else 0), np.int64)
    agreed, agreed_on, departed = np.zeros((3, live.size), np.int64)
    tally = Tally(
        **{name: getattr(state, name)[live] for name in totals},
        replies=replies[live], agreed=agreed, agreed_on=agreed_on - 1, departed=departed,
    )  # fmt: skip
    fast = bool((state.ticks + ticks).sum() >= COMPILE_FROM) and find_spec("numba") is not None
    arguments: dict[str, Any] = {
        "one_peer": one_peer,
        "zeros": zeros,
        "chance": chance,
        "streams": streams,
        "fast": fast,
    }
    play(tally, ticks[live], rule, sums, state.qualities[live], **arguments)
    first = (tally.agreed > 0) & (state.agreed_on[live] < 0)
    leaves = (tally.departed > 0) & ~np.isfinite(state.departed_at[live])
    # A consensus that is not the first may follow the first departure.
    marks = np.where(first, tally.agreed, 0), tally.departed, ticks[live]
    agreed_at, departed_at, last = tick_times(marks, ticks[live], state.time[live], until, streams[0])
    found = {name: getattr(tally, name) for name in totals} | {
        "time": last,
        "agreed_at": np.where(first, agreed_at, state.agreed_at[live]),
        "agreed_on": np.where(first, tally.agreed_on, state.agreed_on[live]),
        "departed_at": np.where(leaves, departed_at, state.departed_at[live]),
    }
    changes = {"ticks": state.ticks + ticks}
    for name, values in found.items():
        changes[name] = getattr(state, name).copy()
        changes[name][live] = values
    replies[live] = tally.replies
    return changes, replies


def tick_times(
    marks: Sequence[Ints], ticks: Ints, since: Floats, until: float, rng: np.random.Generator
) -> list[Floats]:
    """Draw the times of some of the `ticks` [B] ticks in (since, until]: order statistics of uniform times, drawn one after another.

    Args:
        marks: the ticks in question, [B] each, counted from 1, none smaller than the one before it; 0 gives `since`.
        ticks: number of ticks in the interval.
        since: start of the interval, [B].
        until: end of the interval.
        rng: generator.
    """
    place, time, times = np.zeros_like(ticks), np.broadcast_to(since, ticks.shape).astype(np.float64), []
    for mark in marks:
        later = mark > place
        share = rng.beta(np.where(later, mark - place, 1), np.where(later, ticks - mark + 1, 1))
        time = np.where(later, time + (until - time) * share, time)
        place = np.maximum(place, mark)
        times.append(time)
    return times
