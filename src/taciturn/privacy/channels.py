"""What accounting reads of a channel. The channels themselves belong to the environments."""

from typing import Any, Literal, Protocol

from taciturn.validation import Ints

__all__ = ["CountedChannel", "Observer", "Payload", "SendingChannel", "Unit"]

Payload = Literal["one_hot", "categorical", "bounded", "stream", "scores", "vector"]
Observer = Literal["neighbour", "server", "platform", "public"]
Unit = Literal["event", "user"]


class Installed(Protocol):
    """What is installed on a channel."""

    @property
    def mechanism(self) -> Any:
        """The privacy mechanism; None if there is none."""


class CountedChannel(Protocol):
    """A channel that counts its messages."""

    @property
    def name(self) -> str:
        """How the channel is addressed."""

    @property
    def observer(self) -> Observer:
        """Who reads the messages."""

    @property
    def unit(self) -> Unit:
        """What two adjacent worlds differ in: one event, or a user's whole local history."""

    @property
    def disjoint(self) -> bool:
        """Whether each event enters at most one message, so that messages compose in parallel at event level."""

    @property
    def everyone(self) -> Ints:
        """int64[B]: messages that every sender has sent."""

    @property
    def each(self) -> Ints | None:
        """int64[B, N]: messages beyond those, by sender; None if there are none."""

    @property
    def config(self) -> Installed:
        """What is installed on the channel."""


class SendingChannel(CountedChannel, Protocol):
    """A counted channel that knows how many agents send on it."""

    @property
    def num_senders(self) -> int:
        """N."""
