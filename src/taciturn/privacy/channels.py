"""The attributes of a channel that the accountant reads. The channels themselves belong to the environments."""

from typing import Any, Literal, Protocol

from taciturn.validation import Ints

Payload = Literal["one_hot", "categorical", "bounded", "stream", "scores", "vector"]
"""Kinds of messages: a vector with at most one 1, a category, a number, an increment of a running sum, scores of
options (their sensitivity is the largest change of any score), a vector of numbers."""
Observer = Literal["neighbour", "server", "platform", "public"]
Unit = Literal["event", "user"]


class SendingChannel(Protocol):
    """A channel that counts its messages.

    Attributes:
        name: name of the channel.
        observer: who reads the messages.
        unit: the difference between two adjacent worlds, one event or a user's whole local history.
        disjoint: whether each event enters at most one message, so messages compose in parallel at event level.
        silence_leaks: whether an agent's private data may affect whether, when or to whom it sends, or the subject of a
            message.
        given: assumptions behind the channel's totals, in words; empty: none.
        unbounded: why no finite total holds, apart from `silence_leaks`; empty: no such reason.
        everyone: int64[B], messages that every sender has sent.
        each: int64[B, N], further messages, by sender; None if there are none.
        config: the installed mechanism and faults; its `mechanism` is None if there is no privacy mechanism.
        num_senders: number of senders, N.
    """

    name: str
    observer: Observer
    unit: Unit
    disjoint: bool
    silence_leaks: bool
    given: str
    unbounded: str
    everyone: Ints
    each: Ints | None
    config: Any
    num_senders: int
