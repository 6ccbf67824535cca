"""What accounting reads of a channel. The channels themselves belong to the environments."""

from typing import Any, Literal, Protocol

from taciturn.validation import Ints

__all__ = ["CountedChannel", "Observer", "Payload", "SendingChannel", "Unit"]

Payload = Literal["one_hot", "categorical", "bounded", "stream", "scores", "vector"]
Observer = Literal["neighbour", "server", "platform", "public"]
Unit = Literal["event", "user"]


class Installed(Protocol):
    """What is installed on a channel: a privacy mechanism, or None."""

    @property
    def mechanism(self) -> Any: ...


class CountedChannel(Protocol):
    """A channel that counts its messages.

    Attributes:
        name: of the channel.
        observer: who reads the messages.
        unit: what two adjacent worlds differ in, one event or a user's whole local history.
        disjoint: whether each event enters at most one message, so that messages compose in parallel at event level.
        everyone: int64[B], messages that every sender has sent.
        each: int64[B, N], messages beyond those, by sender; None if there are none.
        config: what is installed on the channel.
    """

    @property
    def name(self) -> str: ...
    @property
    def observer(self) -> Observer: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def disjoint(self) -> bool: ...
    @property
    def everyone(self) -> Ints: ...
    @property
    def each(self) -> Ints | None: ...
    @property
    def config(self) -> Installed: ...


class SendingChannel(CountedChannel, Protocol):
    """A counted channel with a known number of senders, N."""

    @property
    def num_senders(self) -> int: ...
