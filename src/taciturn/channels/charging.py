"""The cost of messages on a channel: which agents can afford one, and the charge to the accountant."""

from typing import Any

import numpy as np

from taciturn.privacy.sampling import SampledLoss
from taciturn.validation import Array


def loss(channel: Any, sensitivity: float | None = None, *, shuffled: int | None = None, rate: float = 1.0) -> Any:
    """The loss of a message: alone, shuffled among the messages of `shuffled` senders, or sent by a random share `rate`
    of all agents."""
    key = sensitivity, shuffled, rate
    if key not in channel.losses:
        mechanism: Any = channel.config.mechanism
        if shuffled is not None:  # if senders read the messages, each knows its own
            result = mechanism.summed_loss(max(shuffled - (channel.observer in ("neighbour", "public")), 1))
        else:
            result = mechanism.loss(sensitivity) if rate >= 1 else SampledLoss(loss(channel), rate)
        channel.losses[key] = result
    return channel.losses[key]


def admit(channel: Any, who: Array, cost: Any) -> Array:
    """The agents of `who` bool[B, N] that the budget allows to send at this cost, a loss or levels [B, N]."""
    if channel.config.budget is not None:
        who, ended = channel.config.budget.admit(channel.accountant, cost, who, channel.name)
        channel.stopped = channel.stopped | ended
    return who


def charge(channel: Any, who: Array, cost: Any, events: int | None = None, everyone: bool = False) -> None:
    """Charge a message of the agents `who` bool[B, N]; `everyone`: they are all agents of the live replicas."""
    mechanism: Any = channel.config.mechanism
    if not mechanism.shuffles:
        counted = {"everyone": channel.live} if everyone else {"each": who}
        channel.accountant.charge(channel.name, cost, **counted, events=events)
        return
    number = who.sum(1)
    for senders in np.unique(number[number > 0]).tolist():
        each = who & (number == senders)[:, None]
        channel.accountant.charge(channel.name, loss(channel, shuffled=senders), each=each, events=events)


def charge_drawn(channel: Any, who: Array, events: int | None) -> Array:
    """Charge all agents equally for an average of randomly drawn senders `who` bool[B, N], if their budgets admit it;
    returns the senders."""
    number, agents = who.sum(1), who.shape[1]
    for senders in np.unique(number[number > 0]).tolist():
        there = number == senders
        # An agent that reads the average knows whether it was drawn: if not, the others are one fewer.
        cost = loss(channel, rate=min(senders / max(agents - 1, 1), 1.0))
        admitted = admit(channel, np.broadcast_to(there[:, None], who.shape), cost).all(1)
        who = who & (admitted | (number != senders))[:, None]
        channel.accountant.charge(channel.name, cost, everyone=there & admitted, events=events)
    return who
