"""Accounts of an accountant: the messages of each agent on a channel, counted by privacy loss."""

import math
from dataclasses import dataclass

import numpy as np

from taciturn.privacy.losses import NothingHidden, PrivacyLoss
from taciturn.validation import Array, Bools, Floats, Ints

NOTHING_HIDDEN = NothingHidden()
MOST_MESSAGES = 2**62  # of an agent, counted in int64


@dataclass
class Account:
    """Messages on one channel with the same cost.

    Attributes:
        channel: name of the channel.
        loss: privacy loss of one message, at the channel's unit of adjacency.
        events: number of events that a message depends on; None: not stated.
        everyone: int64[B], messages that every agent has sent.
        each: int64[B, N], further messages, by agent; None: there are none.
        most: an upper bound, over all replicas, on the messages that an agent has sent since the account was opened,
            including those before resets.
    """

    channel: str
    loss: PrivacyLoss
    events: int | None
    everyone: Ints
    each: Ints | None = None
    most: int = 0

    @property
    def kind(self) -> str:
        """The kind of mechanism."""
        return self.loss.kind

    def messages(self) -> Ints:
        """Messages of each agent, int64[B, N]; [B, 1] if all agents have sent the same number."""
        return self.everyone[:, None] if self.each is None else self.everyone[:, None] + self.each

    def most_sent(self) -> Ints:
        """The largest number of messages of an agent, int64[B]."""
        return self.everyone if self.each is None else self.everyone + self.each.max(1)

    def add(self, everyone: Array | None, each: Array | None) -> None:
        """Count messages sent by every agent, bool[B] or int[B], and by some agents, bool[B, N] or int[B, N].

        Raises:
            ValueError: the counts would exceed MOST_MESSAGES. Nothing is counted then.
        """
        more = sum(_largest(counts) for counts in (everyone, each) if counts is not None)
        if self.most + more > MOST_MESSAGES and int(self.most_sent().max()) + more > MOST_MESSAGES:
            raise ValueError(
                f"counts on {self.channel!r} must not exceed 2^62 messages of an agent, and {more} more do"
            )
        self.most += more
        if everyone is not None:
            self.everyone += everyone.astype(np.int64) if everyone.dtype.kind == "u" else everyone
        if each is not None:
            self.each = np.zeros(each.shape, np.int64) if self.each is None else self.each
            self.each += each.astype(np.int64) if each.dtype.kind == "u" else each

    def reset(self, where: Bools) -> None:
        """Set the counts of the replicas marked in `where` [B] to zero."""
        self.everyone[where] = 0
        if self.each is not None:
            self.each[where] = 0


@dataclass
class Levels:
    """Pure messages on one channel; senders choose the epsilon of each message.

    Attributes:
        channel: name of the channel.
        kind: the kind of mechanism.
        zcdp: rho of a message divided by its squared epsilon.
        events: number of events that a message depends on; None: not stated.
        sent: int64[B, N], messages, without those in `recent`.
        epsilon, squares: float64[B, N], sums of epsilon and of its square.
        largest: float64[B, N], the largest epsilon.
        recent: uint8[B, N], messages not yet added to `sent`, from the last `charges` calls of `add` (at most 255):
            adding bytes is ten times faster than adding int64.
    """

    channel: str
    kind: str
    zcdp: float
    events: int | None
    sent: Ints
    epsilon: Floats
    squares: Floats
    largest: Floats
    recent: Array
    charges: int = 0

    @classmethod
    def opened(cls, channel: str, kind: str, zcdp: float, events: int | None, shape: tuple[int, int]) -> "Levels":
        """An empty account for agents of shape [B, N]."""
        epsilon, squares, largest = np.zeros((3, *shape))
        sent, recent = np.zeros(shape, np.int64), np.zeros(shape, np.uint8)
        return cls(channel, kind, zcdp, events, sent, epsilon, squares, largest, recent)

    @property
    def loss(self) -> PrivacyLoss:
        """Privacy loss of the costliest message so far."""
        epsilon = float(self.largest.max(initial=0))
        return PrivacyLoss(epsilon, self.zcdp * epsilon**2)

    def messages(self) -> Ints:
        """Messages of each agent, int64[B, N]."""
        self.sent += self.recent
        self.recent[...] = self.charges = 0
        return self.sent

    def most_sent(self) -> Ints:
        """The largest number of messages of an agent, int64[B]."""
        return np.asarray(self.messages().max(1))

    def sums(self, parallel: bool, size: int | None, top: bool = False) -> tuple[Floats, Floats, Floats, Floats]:
        """Sums [B, N] of epsilon, drift (see `composition.advanced_epsilon`; here an upper bound), epsilon squared and
        rho, if `size` events change together.

        Args:
            parallel: only the costliest message of each agent counts.
            size: None: any number of events.
            top: if `parallel`, return only the values of the agent that spent most, [B, 1].
        """
        if size is None:
            nothing_hidden = np.where(self.messages() > 0, math.inf, 0.0)
            return (nothing_hidden,) * 4
        if parallel:
            epsilon = self.largest.max(1, keepdims=True) if top else self.largest
            squares = epsilon**2
        else:
            epsilon, squares = size * self.epsilon, size**2 * self.squares
        return epsilon, np.minimum(squares / 2, epsilon), squares, self.zcdp * squares

    def add(self, epsilons: Floats) -> None:
        """Count one message of each agent with an epsilon above 0, [B, N]."""
        if self.charges == 255:
            self.messages()
        self.recent += (epsilons > 0).view(np.uint8)
        self.charges += 1
        self.epsilon += epsilons
        self.squares += epsilons * epsilons
        np.maximum(self.largest, epsilons, out=self.largest)

    def reset(self, where: Bools) -> None:
        """Set the counts and sums of the replicas marked in `where` [B] to zero."""
        for array in self.sent, self.epsilon, self.squares, self.largest, self.recent:
            array[where] = 0


Accounts = list[Account | Levels]


def _largest(counts: Array) -> int:
    """An upper bound on the counts; it does not read bool arrays."""
    return 1 if counts.dtype.kind == "b" else int(counts.max(initial=0))
