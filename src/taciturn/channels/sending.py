"""How the messages on a channel are sent: plainly, perturbed, at chosen levels, or as one average.

Each function takes the messages x [B, N, ...] of the agents `who` bool[B, N], all in live replicas. It lets budgets
stop some, perturbs, counts and charges the others, and returns the messages and their senders.
"""

from typing import Any

import numpy as np

from taciturn.channels.charging import admit, charge, charge_drawn, loss
from taciturn.privacy.mechanisms import NoPrivacy
from taciturn.validation import Array


def of(who: Array, y: Array) -> Array:
    """The messages y [B, N, ...] of the agents `who` bool[B, N], 0 for the others."""
    return np.where(who.reshape(*who.shape, *[1] * (y.ndim - 2)), y, np.zeros((), y.dtype))


def plainly(channel: Any, x: Array, who: Array, levels: Array | None, everyone: bool) -> tuple[Array, Array]:
    """Messages without a mechanism, or perturbed by their senders at `levels`."""
    if levels is not None and channel.accountant is not None:
        who = admit(channel, who, levels)
        channel.accountant.charge_levels(channel.name, np.where(who, levels, 0.0), kind=channel.chosen)
    channel.count(*((channel.live, None) if everyone else (None, who)))
    return of(who, x), who


def perturbed(
    channel: Any, x: Array, who: Array, sensitivity: Any, events: int | None, everyone: bool
) -> tuple[Array, Array]:
    """Messages that a mechanism perturbs one by one."""
    mechanism: Any = channel.config.mechanism
    apart = isinstance(sensitivity, np.ndarray)
    cost = loss(channel, None if apart else sensitivity)
    if mechanism.stateful:
        return gone_on(channel, x, who, cost, sensitivity, events)
    who = admit(channel, who, cost)
    if apart:
        axes = x.ndim - mechanism.payload_dims  # the axes over which messages differ
        sensitivity = np.broadcast_to(sensitivity, (*x.shape[:axes], *[1] * mechanism.payload_dims))[who]
    mechanism.check_sensitivity(sensitivity)
    channel.count(None, who)
    message = mechanism.perturb(x[who], channel.rng, sensitivity)
    charge(channel, who, cost, events, everyone)
    y = np.zeros((*x.shape[:2], *message.shape[1:]), message.dtype)
    y[who] = message
    return y, who


def gone_on(channel: Any, x: Array, who: Array, cost: Any, sensitivity: Any, events: int | None) -> tuple[Array, Array]:
    """Messages of a mechanism with memory: repeating an answer, or continuing a stream that was charged as a whole, is
    free.

    Under a budget a memoised answer is repeated even if the value changes: a new answer would reveal the change.
    """
    mechanism: Any = channel.config.mechanism
    mechanism.check_sensitivity(sensitivity)
    if channel.memory is None:
        channel.memory = mechanism.start(x.shape[:2], sensitivity=sensitivity)
    if channel.config.budget is not None:
        started = channel.memory.started
        if mechanism.changes_leak and started.any():
            x = np.where(started.reshape(*started.shape, *[1] * (x.ndim - 2)), channel.memory.values, x)
        who = admit(channel, who & ~started, cost) | (who & started)
    channel.count(None, who)
    y = mechanism.step(x, channel.rng, channel.memory, where=who, sensitivity=sensitivity)
    # The charge for a stream covers one event.
    charge(channel, channel.memory.fresh & who, cost, None if mechanism.per_stream else events)
    return of(who, y), who


def at_levels(channel: Any, x: Array, who: Array, sensitivity: Any, events: int | None) -> tuple[Array, Array]:
    """Messages at `Channel.levels`; a message that exceeds its budget is sent at level 0."""
    mechanism: Any = channel.config.mechanism
    if channel.memory is None:
        channel.memory = mechanism.start(x.shape[:2])
    levels, budget = np.where(who, channel.levels, 0.0), channel.config.budget
    if budget is not None:
        levels = np.where(budget.allows(channel.accountant, levels, channel.name), levels, 0.0)
    y, spoke = mechanism.perturb_levels(x, levels, who, channel.noise, channel.memory, sensitivity)
    channel.count(None, spoke)
    channel.accountant.charge_levels(channel.name, levels, kind=mechanism.kind, zcdp=mechanism.zcdp, events=events)
    return y, spoke


def note(channel: Any, y: Array, delivered: Array) -> None:
    """Store the messages read in the live replicas, and their levels."""
    numbers, some = y.reshape(*y.shape[:2], -1), channel.live
    if channel.read.shape[1] != numbers.shape[2]:
        channel.read = np.zeros((len(y), numbers.shape[2]))
    total = of(delivered, numbers).sum(1) / np.maximum(delivered.sum(1), 1)[:, None]
    channel.read[some] = total[some]
    channel.standing[some] = np.where(delivered, channel.memory.standing, 0.0)[some]


def on_average(
    channel: Any,
    x: Array,
    who: Array,
    lying: Array | None,
    sensitivity: Any,
    events: int | None,
    weights: Array | None,
    drawn: bool,
) -> tuple[Array, Array]:
    """One average, delivered as a message of every sender in it.

    Faults lose messages before they are added up. Observers read the average, and not who is in it.
    """
    mechanism: Any = channel.config.mechanism
    mechanism.check_sensitivity(sensitivity)
    unseen = drawn and mechanism.hides_senders and all(fault.observes for fault in channel.faults.kinds)
    who = charge_drawn(channel, who, events) if unseen else admit(channel, who, loss(channel))
    channel.count(None, who)
    x, arrived = channel.faults.deliver(x, who, (False,))
    arrived = arrived & who  # agents that announced no message have no share of the noise
    mean, released = mechanism.average(x, who, arrived, channel.rng, sensitivity, weights)
    if not unseen:
        channel.accountant.charge(channel.name, loss(channel), each=who, events=events)
        if lying is not None:  # too few honest senders in the sum hide nothing
            broken = released & ~mechanism.holds(who, arrived & ~lying)
            if broken.any():
                channel.accountant.charge(channel.name, NoPrivacy().loss(), each=who & broken[:, None], events=events)
    shown, inside = channel.faults.show(mean, released, who.shape[1]), arrived & released[:, None]
    return of(inside, shown), inside


def in_sum(channel: Any, histogram: Array, zeros: Array | None) -> tuple[Array, Array]:
    """All agents' one-hot messages as counts, drawn from the distribution of their sum (`Channel.tally`)."""
    mechanism: Any = channel.config.mechanism
    channel.count(channel.live, None)
    if mechanism is not None:
        everybody = np.broadcast_to(channel.live[:, None], (len(channel.live), channel.num_senders))
        charge(channel, everybody, loss(channel), everyone=True)
    named = histogram.shape[-1]
    if zeros is not None:
        histogram = np.concatenate([histogram, zeros[:, None]], 1)
    for fault, rng in zip(channel.faults.kinds, channel.faults.rngs, strict=True):
        histogram = fault.thin(histogram, rng)
    received, histogram = histogram.sum(-1), histogram[..., :named]
    return histogram if mechanism is None else mechanism.perturb_counts(histogram, channel.rng, received), received
