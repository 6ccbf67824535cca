"""The part of a channel that accounting reads. The channels themselves belong to the environments."""

from typing import Any, Literal, Protocol

from taciturn.validation import Ints

Payload = Literal["one_hot", "categorical", "bounded", "stream", "scores", "vector"]
"""Kinds of messages: a vector with at most one 1, a category, a number, an increment of a running sum, scores of
options (whose sensitivity is the largest change of any score), a vector of numbers."""
Observer = Literal["neighbour", "server", "platform", "public"]
Unit = Literal["event", "user"]


class SendingChannel(Protocol):
    """A channel that counts its messages.

    Attributes:
        name: of the channel.
        observer: who reads the messages.
        unit: what two adjacent worlds differ in, one event or a user's whole local history.
        disjoint: whether each event enters at most one message, so messages compose in parallel at event level.
        silence_leaks: whether an agent's private data may affect whether, when or to whom it sends, or what a message
            is about.
        given: what totals of the channel take as given, in words; empty: nothing.
        unbounded: why no finite total holds, besides `silence_leaks`; empty: nothing speaks against it.
        everyone: int64[B], messages that every sender has sent.
        each: int64[B, N], messages beyond those, by sender; None if there are none.
        config: what is installed on the channel; its `mechanism` is None if there is no privacy mechanism.
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
