"""The interface of faults, and the faults on a channel in a run; their kinds are in `taciturn.wrappers.faults`.

For any nesting of wrappers, faults act on a message in a fixed order: by their classes' `order`, and faults of the
same class in the order of their `repr`. Each draws from a separate random stream, `fault/<channel>/<class>/<index>`,
where the index counts the faults of its class before it, so two runs with the same seed differ only by the fault.

Time is counted in sends of a replica: the times at which, without faults, at least one of its agents would send a
message.
"""

from copy import copy
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from taciturn.privacy.channels import Payload
from taciturn.seeding import Streams
from taciturn.validation import Array, NamesUnknown

Memory = dict[str, Array]


class Fault(metaclass=NamesUnknown):
    """The interface of a fault. `Faults` keeps its memory of a run.

    Attributes:
        order: rank among the faults of a channel; lower ones act first.
        closed_counts: whether `thin` describes the fault completely.
        late: whether messages may arrive after they were sent.
        observes: whether it only reads messages, from the observers' position, and delivers all of them.
    """

    order: ClassVar[int] = 0
    closed_counts: ClassVar[bool] = False
    late: ClassVar[bool] = False
    observes: ClassVar[bool] = False

    def start(self, shape: tuple[int, int], rng: Generator) -> Memory:
        """The fault's memory for agents of shape (B, N); every array leads with [B]."""
        return {}

    def admit(self, who: Array, sending: Array, memory: Memory, rng: Generator) -> Array:
        """The agents of `who` that send, bool[B, N]; all of `who` want to. `sending` bool[B] marks the replicas with a
        sender."""
        return who

    def corrupt(self, x: Array, payload: Payload, memory: Memory, rng: Generator) -> Array:
        """The messages that replace `x` [B, N, ...]."""
        return x

    def liars(self, shape: tuple[int, int], memory: Memory) -> Array | None:
        """The agents with messages that `corrupt` falsifies, bool of `shape` (B, N); None: no agent."""
        return None

    def deliver(self, y: Array, sent: Array, sending: Array, memory: Memory, rng: Generator) -> tuple[Array, Array]:
        """The delivered messages and their senders, bool[B, N], after the agents `sent` bool[B, N] have sent the
        messages `y` [B, N, ...]."""
        return y, sent

    def thin(self, histogram: Array, rng: Generator) -> Array:
        """How many of the senders of each value [..., K] get a message through."""
        return histogram


class Faults:
    """The faults on a channel in a run.

    Args:
        kinds: the faults, in any order.

    Attributes:
        kinds: the faults, in the order of their effect.
        memory: the memory of each fault; empty before the first message.
    """

    def __init__(self, kinds: tuple[Fault, ...] = ()) -> None:
        self.kinds = tuple(sorted(kinds, key=lambda fault: (fault.order, repr(fault))))
        self.memory: list[Memory] = []
        self.rngs: list[Generator] = []
        self._shape = (0, 0)
        self._sending: Array = np.zeros(0, np.bool_)  # the replicas with an agent that wants to send now

    def anew(self) -> "Faults":
        """The same faults without memory, with the same sources of random numbers."""
        if not self.kinds:
            return self
        made = copy(self)
        made.memory = []
        return made

    def draw_from(self, streams: Streams, channel: str) -> None:
        """Draw from `fault/<channel>/<class>/<index among its class>`."""
        names = [type(fault).__name__ for fault in self.kinds]
        self.rngs = [streams[f"fault/{channel}/{name}/{names[:i].count(name)}"] for i, name in enumerate(names)]

    def reset(self, where: Array) -> None:
        """Begin again in the replicas that `where` bool[B] marks."""
        for fault, memory, rng in zip(self.kinds, self.memory, self.rngs, strict=False):
            fresh = fault.start(self._shape, rng)
            for key in fresh:
                memory[key][where] = fresh[key][where]

    def strike(self, x: Array, who: Array, payload: Payload) -> tuple[Array, Array, Array | None]:
        """The effect of the faults on the messages x [B, N, ...] of the agents `who` bool[B, N] before they are sent.

        Returns:
            (the messages; the senders, bool[B, N]; the agents that lie, bool[B, N] or None: no agent)
        """
        self._shape, self._sending = (x.shape[0], x.shape[1]), np.asarray(who.any(1))
        if not self.memory:
            self.memory = [fault.start(self._shape, rng) for fault, rng in zip(self.kinds, self.rngs, strict=True)]
        lying: Array | None = None
        for fault, memory, rng in zip(self.kinds, self.memory, self.rngs, strict=True):
            who = fault.admit(who, self._sending, memory, rng)
            x = fault.corrupt(x, payload, memory, rng)
            liars = fault.liars(self._shape, memory)
            lying = lying if liars is None else liars if lying is None else lying | liars
        return x, who, lying

    def deliver(self, y: Array, sent: Array, observing: tuple[bool, ...] = (False, True)) -> tuple[Array, Array]:
        """The delivered part of the messages y [B, N, ...] of the agents `sent`, and its senders, bool[B, N].

        observing: only faults with one of these values of `Fault.observes` act.
        """
        for fault, memory, rng in zip(self.kinds, self.memory, self.rngs, strict=True):
            if fault.observes in observing:
                y, sent = fault.deliver(y, sent, self._sending, memory, rng)
        return y, sent

    def show(self, read: Array, released: Array, senders: int) -> Array:
        """Let the faults that observe read the joint message [B, ...] of all senders, in the replicas `released`
        bool[B]; returns it as a message of each sender, [B, N, ...]."""
        shown = np.broadcast_to(read[:, None], (len(read), senders, *read.shape[1:]))
        if self.kinds:
            self.deliver(shown, np.broadcast_to(released[:, None], shown.shape[:2]), (True,))
        return shown
