"""Channels: the named places where what an agent knows leaves it. Core counts what passed; wrappers account for it."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from tacit.envs.core.validation import Array

__all__ = ["Channel"]

Payload = Literal["one_hot", "categorical", "bounded", "stream", "scores", "vector"]
Observer = Literal["neighbour", "server", "platform", "public"]
Unit = Literal["event", "user"]


class Channel:
    """One way out for private data, with no privacy unless a mechanism is installed at reset.

    Args:
        name: how wrappers address it.
        payload: what a message is.
        observer: who reads it.
        unit: what two adjacent worlds differ in: one `event`, or a `user`'s whole local history.

    Attributes:
        everyone: int64[B], messages that every agent sent.
        each: int64[B, N] or None, messages beyond those, by agent (None until somebody sends alone).
        live: bool[B], replicas that are not done: only theirs count.
    """

    def __init__(self, name: str, payload: Payload, *, observer: Observer, unit: Unit) -> None:
        self.name, self.payload, self.observer, self.unit = name, payload, observer, unit
        self.everyone: Array = np.zeros(0, np.int64)
        self.each: Array | None = None
        self.live: Array = np.zeros(0, np.bool_)

    def reset(self, num_envs: int, where: Array | None = None) -> None:
        """Forget the counts, of the replicas `where` bool[B] is true (default: of all)."""
        if where is None:
            self.everyone, self.each, self.live = np.zeros(num_envs, np.int64), None, np.ones(num_envs, np.bool_)
        else:
            self.everyone[where] = 0
            if self.each is not None:
                self.each[where] = 0

    def send(self, x: Array, senders: Array | None = None, sensitivity: float | None = None) -> tuple[Array, Array]:
        """Pass the messages `x` [B, N, ...] of the agents marked in `senders` bool[B, N] (None: all of them).

        Args:
            x: what the agents would say.
            senders: who says it.
            sensitivity: how far one unit can move a message, which the world states as it sends.

        Returns:
            (y, delivered): what the observer reads, [B, N, ...], and which messages arrived, bool[B, N].
        """
        shape = x.shape[:2]
        if senders is None:
            self.everyone += self.live
            return x, np.ones(shape, np.bool_)
        if self.each is None:
            self.each = np.zeros(shape, np.int64)
        self.each += senders & self.live[:, None]
        return x, senders

    def tally(self, histogram: Array, messages: Callable[[], Array] | None = None) -> tuple[Array, Array]:
        """Pass everyone's one-hot messages as counts [B, K]; `messages` makes the [B, N, K] one-hots where a closed law is missing.

        Returns:
            (sums, received): what the messages add up to, [B, K], and how many arrived, int64[B].
        """
        self.everyone += self.live
        return histogram, histogram.sum(-1)

    def messages(self) -> Array:
        """Messages sent so far, per agent if agents differ: int64[B] or int64[B, N]."""
        return self.everyone if self.each is None else self.everyone[:, None] + self.each
