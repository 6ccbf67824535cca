"""Channels: the named places where what an agent knows leaves it. Core counts what passed; wrappers account for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core.seeding import Streams
from taciturn.privacy.channels import Observer, Payload, Unit
from taciturn.privacy.mechanisms import Mechanism
from taciturn.validation import Array

__all__ = ["Channel", "ChannelConfig", "Fault", "join"]


class Fault:
    """What a channel asks of a fault (`taciturn.wrappers.faults`). What a fault remembers of a run, the channel keeps.

    Attributes:
        order: when it strikes, among the faults of a channel.
        closed_counts: `thin` is all it does.
    """

    order: ClassVar[int] = 0
    closed_counts: ClassVar[bool] = False

    def start(self, shape: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
        """Memory for agents of shape (B, N); every array leads with [B]."""
        return {}

    def admit(self, who: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator) -> Array:
        """Which of those `who` would speak do, bool[B, N]; `sending` bool[B] marks the replicas in which somebody would."""
        return who

    def corrupt(self, x: Array, payload: Payload, memory: dict[str, Array], rng: np.random.Generator) -> Array:
        """What is said in place of `x` [B, N, ...]."""
        return x

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """What arrives of the messages `y` [B, N, ...] of those who `sent`, and from whom, bool[B, N]."""
        return y, sent

    def thin(self, histogram: Array, rng: np.random.Generator) -> Array:
        """How many of the holders of each value [..., K] are heard."""
        return histogram


@dataclass(frozen=True)
class ChannelConfig:
    """What wrappers install on a channel at a reset.

    Attributes:
        mechanism: perturbs each message.
        budget: stops an agent's messages before they overspend (`taciturn.privacy.ledger.Budget`).
        faults: what goes wrong, whatever their order here.
    """

    mechanism: Mechanism | None = None
    budget: Any = None
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        faults: Any = self.faults
        if not isinstance(faults, tuple) or not all(isinstance(fault, Fault) for fault in faults):
            raise ValueError(f"faults must be a tuple of taciturn.wrappers' faults, not {self.faults!r}")


def join(standing: Mapping[str, ChannelConfig], more: Mapping[str, ChannelConfig]) -> dict[str, ChannelConfig]:
    """Both `{channel: ChannelConfig}` at once; ValueError if a channel would get two mechanisms."""
    joined = dict(standing)
    for name, config in more.items():
        if not isinstance(config, ChannelConfig):
            raise ValueError(
                f"options['channels'][{name!r}] must be a ChannelConfig, as Privatize makes it, not {config!r}"
            )
        if name in standing:
            first = standing[name]
            if first.mechanism is not None and config.mechanism is not None:
                raise ValueError(f"channel {name!r} has a mechanism already: a second one needs a channel of its own")
            private, other = (config, first) if first.mechanism is None else (first, config)
            budget = other.budget if private.budget is None else private.budget
            config = replace(private, budget=budget, faults=private.faults + other.faults)
        joined[name] = config
    return joined


class Channel:
    """One way out for private data, with no privacy unless a mechanism is installed at reset.

    Args:
        name: how wrappers address it.
        payload: what a message is.
        observer: who reads it.
        unit: what two adjacent worlds differ in: one `event`, or a `user`'s whole local history.
        sender: what its senders are called; a role, or agents that the world plays itself.
        num_senders: how many there are; 0: as many as the role `sender` has agents, which the population fills in.
        chosen: the kind of mechanism by which its senders perturb what they say themselves, each at a level of its own choice; then no
            other may stand on it.
        disjoint: each event enters at most one message, and which one does not depend on what happened (a reward enters the mean of its
            own epoch, and no later one but by way of what was said). The ledger then composes in parallel at event level.

    Raises:
        ValueError: `disjoint` where the unit is a user, whose history enters every message.

    Attributes:
        everyone: int64[B], messages that every agent sent.
        each: int64[B, N] or None, messages beyond those, by agent (None until somebody sends alone).
        live: bool[B], replicas that are not done: only theirs count.
        stopped: bool[B], replicas that a budget ends with this step.
    """

    def __init__(
        self,
        name: str,
        payload: Payload,
        *,
        observer: Observer,
        unit: Unit,
        sender: str = "",
        num_senders: int = 0,
        chosen: str = "",
        disjoint: bool = False,
    ) -> None:
        if disjoint and unit == "user":
            raise ValueError(f"disjoint must be False on channel {name!r}, whose unit is a user, not {disjoint!r}")
        self.name, self.payload, self.observer, self.unit = name, payload, observer, unit
        self.sender, self.num_senders, self.disjoint = sender, num_senders, disjoint
        self.everyone: Array = np.zeros(0, np.int64)
        self.each: Array | None = None
        self.live: Array = np.zeros(0, np.bool_)
        self.stopped: Array = np.zeros(0, np.bool_)
        self.config = ChannelConfig()
        self.ledger: Any = None
        self.rng: np.random.Generator | None = None
        self.chosen = chosen
        self._levels: Any = None
        self._memory: Any = None
        self._losses: dict[float | None, Any] = {}
        self._faults: tuple[Fault, ...] = ()
        self._fault_rngs: list[np.random.Generator] = []
        self._fault_memory: list[dict[str, Array]] = []
        self._shape: tuple[int, int] = (0, 0)

    def install(self, config: ChannelConfig, ledger: Any) -> None:
        """Begin a run under `config`, charging `ledger`."""
        self.config, self.ledger = config, ledger
        self._memory, self._losses = None, {}
        self._faults = tuple(sorted(config.faults, key=lambda fault: (fault.order, repr(fault))))
        self._fault_memory = []

    def draw_from(self, streams: Streams) -> None:
        """Draw noise from the stream `channel/<name>`, and faults from `fault/<name>/<class>/<how many of its class before>`."""
        self.rng = streams[f"channel/{self.name}"]
        classes = [type(fault).__name__ for fault in self._faults]
        self._fault_rngs = [
            streams[f"fault/{self.name}/{kind}/{classes[:i].count(kind)}"] for i, kind in enumerate(classes)
        ]

    def reset(self, num_envs: int, where: Array | None = None) -> None:
        """Forget the counts, of the replicas `where` bool[B] is true (default: of all)."""
        if where is None:
            self.everyone, self.each, self.live = np.zeros(num_envs, np.int64), None, np.ones(num_envs, np.bool_)
            self.stopped = np.zeros(num_envs, np.bool_)
        else:
            self.everyone[where] = 0
            self.stopped[where] = False
            if self.each is not None:
                self.each[where] = 0
            if self._memory is not None:
                self._memory.reset(np.broadcast_to(where[:, None], self._memory.shape))
            for fault, memory, rng in zip(self._faults, self._fault_memory, self._fault_rngs, strict=False):
                fresh = fault.start(self._shape, rng)
                for key in fresh:
                    memory[key][where] = fresh[key][where]

    def send(
        self,
        x: Array,
        senders: Array | None = None,
        sensitivity: float | Array | None = None,
        *,
        norm: int = 1,
        events: int | None = None,
    ) -> tuple[Array, Array]:
        """Pass the messages `x` [B, N, ...] of the agents marked in `senders` bool[B, N] (None: all of them).

        First the absent fall silent (`Fault.admit`) and liars lie (`corrupt`); what is said is counted, charged and perturbed; then some
        of it arrives, late or not at all (`deliver`).

        Args:
            x: what the agents would say.
            senders: who says it.
            sensitivity: how far one unit can move a message, which the world states as it sends; an array that broadcasts against x where
                messages differ, also in the parts of one if a unit moves one of them only.
            norm: in which norm, 1 (sum of absolute changes) or 2 (Euclidean).
            events: how many events a message is about, for the ledger's totals at user level.

        Returns:
            (y, delivered): what the observer reads, [B, N, ...], 0 where nothing arrives, and which messages arrived, bool[B, N].
        """
        if not self._faults:
            return self._say(x, senders, sensitivity, norm, events)
        self._shape = (x.shape[0], x.shape[1])
        if not self._fault_memory:
            self._fault_memory = [
                fault.start(self._shape, rng) for fault, rng in zip(self._faults, self._fault_rngs, strict=True)
            ]
        faults = list(zip(self._faults, self._fault_memory, self._fault_rngs, strict=True))
        who = np.broadcast_to(self.live[:, None], self._shape) if senders is None else senders & self.live[:, None]
        sending = np.asarray(who.any(1))
        for fault, memory, rng in faults:
            who = fault.admit(who, sending, memory, rng)
            x = fault.corrupt(x, self.payload, memory, rng)
        y, sent = self._say(x, who, sensitivity, norm, events)
        for fault, memory, rng in faults:
            y, sent = fault.deliver(y, sent, sending, memory, rng)
        return np.where(sent.reshape(*sent.shape, *[1] * (y.ndim - 2)), y, np.zeros((), y.dtype)), sent

    def send_levels(self, x: Array, levels: Array, senders: Array | None = None) -> tuple[Array, Array]:
        """`send` on a channel of chosen levels: epsilon of each message, float64[B, N], at which its sender has perturbed it."""
        self._levels = levels
        return self.send(x, senders)

    def _say(
        self, x: Array, senders: Array | None, sensitivity: float | Array | None, norm: int, events: int | None
    ) -> tuple[Array, Array]:
        """`send`, where nothing goes wrong."""
        mechanism = self.config.mechanism
        if mechanism is None:
            if self.chosen and self.ledger is not None:
                senders = self._admit(senders, x.shape[:2], self._levels)
                self.ledger.charge_levels(self.name, np.where(senders, self._levels, 0.0), kind=self.chosen)
            self._count(senders, x.shape[:2])
            return x, np.ones(x.shape[:2], np.bool_) if senders is None else senders
        if mechanism.kind == "laplace" and norm == 2 and sensitivity is not None:
            sensitivity = sensitivity * float(np.prod(x.shape[2:])) ** 0.5
        loss = self._loss(None if isinstance(sensitivity, np.ndarray) else sensitivity)
        who = self._admit(senders, x.shape[:2], loss)
        self._count(who, x.shape[:2])
        assert self.rng is not None
        if mechanism.stateful:
            if self._memory is None:
                self._memory = mechanism.start(x.shape[:2], sensitivity=sensitivity)
            y = mechanism.step(x, self.rng, self._memory, where=who, sensitivity=sensitivity)
            # An answer given again, or the next of a stream that has been paid for, costs nothing.
            self.ledger.charge(self.name, loss, each=self._memory.fresh & who, events=events)
            return np.where(who.reshape(*who.shape, *[1] * (y.ndim - 2)), y, np.zeros((), y.dtype)), who
        if isinstance(sensitivity, np.ndarray):
            sensitivity = np.broadcast_to(sensitivity, x.shape)[who]
        said = mechanism.perturb(x[who], self.rng, sensitivity)
        if senders is None and self.config.budget is None:
            self.ledger.charge(self.name, loss, self.live, events=events)
        else:
            self.ledger.charge(self.name, loss, each=who, events=events)
        y = np.zeros((*x.shape[:2], *said.shape[1:]), said.dtype)
        y[who] = said
        return y, who

    def tally(self, histogram: Array, messages: Callable[[], Array] | None = None) -> tuple[Array, Array]:
        """Pass everyone's one-hot messages as counts [B, K]; `messages` makes the [B, N, K] one-hots where a closed law is missing.

        Returns:
            (sums, received): what the messages add up to, [B, K], and how many arrived, int64[B].
        """
        mechanism = self.config.mechanism
        needing: list[Any] = [fault for fault in self._faults if not fault.closed_counts]
        if mechanism is not None and (not mechanism.closed_counts or self.config.budget is not None):
            needing.append(mechanism)
        if needing:
            if messages is None:
                raise ValueError(
                    f"{type(needing[-1]).__name__} on channel {self.name!r} needs single messages, which are not at hand"
                )
            y, delivered = self.send(messages())
            return y.sum(1), delivered.sum(1)
        self.everyone += self.live
        if mechanism is not None:
            self.ledger.charge(self.name, self._loss(None), self.live)
        for fault, rng in zip(self._faults, self._fault_rngs, strict=True):
            histogram = fault.thin(histogram, rng)
        received = histogram.sum(-1)
        if mechanism is None:
            return histogram, received
        assert self.rng is not None
        return mechanism.perturb_counts(histogram, self.rng, received), received

    @property
    def sums_have_a_law(self) -> bool:
        """Whether many messages can be drawn by a law of their sum: no fault, no budget, and no mechanism that remembers its answers."""
        mechanism = self.config.mechanism
        return not self._faults and self.config.budget is None and (mechanism is None or not mechanism.stateful)

    def record(self, everyone: Array | None = None, each: Array | None = None) -> None:
        """Count and charge messages that a world drew by a law of their sum (`Population.jump`).

        Args:
            everyone: messages of every agent, int64[B].
            each: messages by agent, int64[B, N].
        """
        if everyone is not None:
            self.everyone += everyone
        if each is not None:
            self.each = each.copy() if self.each is None else self.each + each
        if self.config.mechanism is not None:
            self.ledger.charge(self.name, self._loss(None), everyone, each)

    def messages(self) -> Array:
        """Messages sent so far by each agent, int64[B, N]; not to be written to."""
        if self.each is None:
            return np.broadcast_to(self.everyone[:, None], (len(self.everyone), self.num_senders))
        return self.everyone[:, None] + self.each

    def _loss(self, sensitivity: float | None) -> Any:
        if sensitivity not in self._losses:
            assert self.config.mechanism is not None
            self._losses[sensitivity] = self.config.mechanism.loss(sensitivity)
        return self._losses[sensitivity]

    def _admit(self, senders: Array | None, shape: tuple[int, int], loss: Any) -> Array:
        """Who sends, bool[B, N]: of the live replicas, less those whom a budget stops."""
        who = np.broadcast_to(self.live[:, None], shape) if senders is None else senders & self.live[:, None]
        if self.config.budget is not None:
            who, ended = self.config.budget.admit(self.ledger, loss, who, self.name)
            self.stopped = self.stopped | ended
        return who

    def _count(self, senders: Array | None, shape: tuple[int, int]) -> None:
        if senders is None:
            self.everyone += self.live
            return
        if self.each is None:
            self.each = np.zeros(shape, np.int64)
        self.each += senders & self.live[:, None]
