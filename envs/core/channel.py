"""Channels: the named ways in which private data leaves an agent. A channel counts messages; the ledger turns counts
into privacy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core.seeding import Streams, described
from taciturn.privacy import checks
from taciturn.privacy.channels import Observer, Payload, Unit
from taciturn.privacy.mechanisms import Mechanism, NoPrivacy
from taciturn.privacy.sampling import SampledLoss
from taciturn.validation import Array, NamesUnknown, mapping, shown


class Fault(metaclass=NamesUnknown):
    """What a channel asks of a fault (`taciturn.envs.core.faults`). The channel keeps the fault's memory of a run.

    Attributes:
        order: rank among the faults of a channel; lower ones strike first.
        closed_counts: whether `thin` describes the fault completely.
        late: whether messages may arrive after they were sent.
        observes: whether it only reads, where the observers stand, and delivers everything.
    """

    order: ClassVar[int] = 0
    closed_counts: ClassVar[bool] = False
    late: ClassVar[bool] = False
    observes: ClassVar[bool] = False

    def start(self, shape: tuple[int, int], rng: np.random.Generator) -> dict[str, Array]:
        """The fault's memory for agents of shape (B, N); every array leads with [B]."""
        return {}

    def admit(self, who: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator) -> Array:
        """Which of the agents `who` that want to send do send, bool[B, N]; `sending` bool[B] marks the replicas in
        which anyone does."""
        return who

    def corrupt(self, x: Array, payload: Payload, memory: dict[str, Array], rng: np.random.Generator) -> Array:
        """What is sent in place of `x` [B, N, ...]."""
        return x

    def liars(self, shape: tuple[int, int], memory: dict[str, Array]) -> Array | None:
        """The agents whose messages `corrupt` falsifies, bool of `shape` (B, N); None: nobody's."""
        return None

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """The agents `sent` bool[B, N] send the messages `y` [B, N, ...]: what arrives, and from which of them,
        bool[B, N]."""
        return y, sent

    def thin(self, histogram: Array, rng: np.random.Generator) -> Array:
        """How many of the senders of each value [..., K] get through."""
        return histogram


@dataclass(frozen=True)
class ChannelConfig:
    """What wrappers install on a channel at a reset.

    Attributes:
        mechanism: perturbs each message.
        budget: stops an agent's messages before they overspend (`taciturn.privacy.budget.Budget`).
        faults: what goes wrong; their order here does not matter.
    """

    mechanism: Mechanism | None = None
    budget: Any = None
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        faults: Any = self.faults
        if not isinstance(faults, tuple) or not all(isinstance(fault, Fault) for fault in faults):
            raise ValueError(f"faults must be a tuple of taciturn.wrappers' faults, not {self.faults!r}")


PLAIN = ChannelConfig()  # nothing stands on the channel


def asked_channels(options: Mapping[str, Any]) -> Mapping[str, ChannelConfig]:
    """What the options of a reset ask for on the channels; ValueError if it is no mapping."""
    return mapping("options['channels']", options.get("channels"), "a dict {channel: ChannelConfig}")


def join(standing: Mapping[str, ChannelConfig], more: Mapping[str, ChannelConfig]) -> dict[str, ChannelConfig]:
    """Combine two `{channel: ChannelConfig}`; ValueError if a channel would get two mechanisms."""
    joined = dict(standing)
    for name, config in more.items():
        if not isinstance(config, ChannelConfig):
            raise ValueError(
                f"options['channels'][{name!r}] must be a ChannelConfig, as Privatize makes it, not {shown(config)}"
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
    """A named way in which private data leaves the agents. It offers no privacy until a reset installs a mechanism.

    Args:
        name: wrappers address the channel by it.
        payload: the kind of message.
        observer: who reads the messages.
        unit: what differs between two adjacent worlds: one `event`, or the whole local history of one `user`.
        sender: the senders' name: a role, or agents that the world plays itself; empty for the first role.
        num_senders: their number; 0: that of the role `sender`, which the population fills in.
        chosen: the kind of mechanism with which the senders perturb their own messages, each at a level that it
            chooses. No other mechanism can be installed on such a channel.
        disjoint: whether each event enters at most one message, chosen independently of the data. (A reward enters the
            mean of its own epoch, and affects later ones only through what was sent.) The ledger then uses parallel
            composition at event level.
        silence_tells: whether an agent's private data affect whether, when or to whom it sends a message, or what the
            message is about. No mechanism hides that, so the ledger's totals are then infinite. A world that
            knows better may set the attribute as a run begins.
        additive: whether only mechanisms that add fresh noise to numbers fit.
        counted: whether whoever receives messages only adds up those of all senders, who all send at all times, so that
            mechanisms fit whose messages are shuffled (`Mechanism.shuffles`).
        averaged: whether whoever receives messages only averages those that are sent at one time, so that mechanisms
            fit that release an average (`Mechanism.averages`). All senders are taken to read it.
        agents_decide: whether agents decide when they send. `silence_tells` is then true, unless whoever plays them
            declares a public schedule (`Population.played_by`).
        given: what is the same in two adjacent worlds although it may depend on the event, in words, such as "what was
            shown"; totals without the channel that tells it hold only given that.

    Raises:
        ValueError: `disjoint` on a channel whose unit is a user, whose history enters every message.

    Attributes:
        everyone: int64[B], messages that every agent sent.
        each: int64[B, N] or None, further messages of single agents (None until some send and others do not).
        times: how often these counts have changed.
        live: bool[B], replicas that are not done; only their messages count.
        stopped: bool[B], replicas that a budget ends with this step.
        levels: float64[B, N], the level of each agent's next message, under a mechanism that takes levels.
        standing: float64[B, N], the level of the message that was last read of each agent; 0: none was.
        read: float64[B, D], the mean of the messages that were last read; 0 if none was.
        unbounded: why no finite total of this run holds, besides `silence_tells`; empty: nothing speaks against it.
        undeclared: what `unbounded` is unless whoever acts declares a public schedule.
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
        silence_tells: bool = False,
        agents_decide: bool = False,
        additive: bool = False,
        averaged: bool = False,
        counted: bool = False,
        given: str = "",
    ) -> None:
        if disjoint and unit == "user":
            raise ValueError(f"disjoint must be False on channel {name!r}, whose unit is a user, not {disjoint!r}")
        self.name, self.payload, self.observer, self.unit = name, payload, observer, unit
        self.sender, self.num_senders, self.disjoint = sender, num_senders, disjoint
        self.silence_tells = self._silence_tells = silence_tells or agents_decide
        self.agents_decide, self.additive, self.averaged, self.counted = agents_decide, additive, averaged, counted
        self.given = given
        self.everyone: Array = np.zeros(0, np.int64)
        self.each: Array | None = None
        self.times = 0
        self.live: Array = np.zeros(0, np.bool_)
        self.stopped: Array = np.zeros(0, np.bool_)
        self.levels: Array = np.zeros((0, 0))
        self.standing: Array = np.zeros((0, 0))
        self.read: Array = np.zeros((0, 0))
        self.undeclared = self.unbounded = ""
        self.config = PLAIN
        self.ledger: Any = None
        self.configuration = ""  # of the mechanism and the world, in which noise has numbers of its own
        self.rng: np.random.Generator | None = None
        self._streams: Streams | None = None
        self._params: Any = None
        self.chosen = chosen
        self._memory: Any = None
        self._losses: dict[Any, Any] = {}
        self._faults: tuple[Fault, ...] = ()
        self._fault_rngs: list[np.random.Generator] = []
        self._fault_memory: list[dict[str, Array]] = []
        self._shape: tuple[int, int] = (0, 0)

    def __repr__(self) -> str:
        return (
            f"<Channel {self.name!r}: {self.payload} messages of {self.num_senders} x {self.sender} to the "
            f"{self.observer}, unit {self.unit}, {self.config}>"
        )

    def check(self, config: ChannelConfig) -> None:
        """Raise ValueError if the claim of the mechanism does not hold for the messages of this channel, or the budget
        cannot count it."""
        mechanism, budget = config.mechanism, config.budget
        if mechanism is None:
            return
        if self.additive and (mechanism.stateful or mechanism.kind not in ("none", "laplace", "gaussian")):
            raise ValueError(
                f"mechanism on channel {self.name!r} must add fresh noise to numbers, without memory, not {mechanism!r}"
            )
        hides = self.counted and budget is None and all(fault.observes for fault in config.faults)
        if mechanism.shuffles and not hides:
            raise ValueError(
                f"mechanism on channel {self.name!r} must not be shuffled, as {mechanism!r} is, unless all agents send "
                "to whoever only adds their messages up, and no fault or budget silences some of them"
            )
        if mechanism.averages and not self.averaged:
            raise ValueError(
                f"mechanism on channel {self.name!r} must perturb each message, since receivers read each, not "
                f"{mechanism!r}"
            )
        if mechanism.averages and self.num_senders > 1 and not mechanism.senders_may_read:  # type: ignore[attr-defined]
            raise ValueError(
                f"dropouts must be at least 1 on channel {self.name!r}, whose senders read the sum and each know their "
                f"own share of the noise, not as in {mechanism!r}"
            )
        if mechanism.averages and any(fault.late for fault in config.faults):
            raise ValueError(f"faults on channel {self.name!r} must not delay messages of {mechanism!r}")
        if budget is not None and mechanism.changes_tell and budget.messages(mechanism.loss()) >= 2:
            raise ValueError(
                f"budget on channel {self.name!r} must be smaller than two answers of {mechanism!r}, not {budget!r}: a "
                "second answer reveals that the value changed, which no budget bounds"
            )
        fits = self.payload in mechanism.payloads
        if not fits or (mechanism.per_stream and self.unit == "user"):
            carried = f"{self.payload!r} messages" if not fits else "every user's whole data in all of its messages"
            raise ValueError(
                f"mechanism must fit channel {self.name!r}, which carries {carried}, and {mechanism!r} is made for "
                f"{' or '.join(map(repr, sorted(mechanism.payloads)))} messages"
                f"{', each event in one of them' * mechanism.per_stream}"
            )

    def install(self, config: ChannelConfig, ledger: Any, params: Any = None) -> None:
        """Begin a run with `config` in a world with `params`, charging messages to `ledger`."""
        if config is not self.config or params is not self._params:
            self.config, self._params, self._streams, self._losses = config, params, None, {}
            self.configuration = "" if config.mechanism is None else described((config.mechanism, params))
            self._faults = tuple(sorted(config.faults, key=lambda fault: (fault.order, repr(fault))))
        self.ledger = ledger
        self.silence_tells, self.unbounded = self._silence_tells, self.undeclared
        self._memory, self._fault_memory = None, []

    def draw_from(self, streams: Streams) -> None:
        """Draw noise from the stream `channel/<name>` of this configuration, and faults from
        `fault/<name>/<class>/<index among its class>`."""
        if streams is self._streams:
            return
        self._streams = streams
        self.rng = self._noise()
        classes = [type(fault).__name__ for fault in self._faults]
        self._fault_rngs = [
            streams[f"fault/{self.name}/{kind}/{classes[:i].count(kind)}"] for i, kind in enumerate(classes)
        ]

    def _noise(self, level: float = 0.0) -> np.random.Generator:
        """The stream of noise, or that of messages at a `level` > 0 that their senders chose."""
        assert self._streams is not None
        at = f" at {float(level).hex()}" if level else ""
        return self._streams.noise(f"channel/{self.name}", self.configuration + at)

    def reset(self, num_envs: int, where: Array | None = None) -> None:
        """Forget the counts of the replicas that `where` bool[B] marks (default: of all)."""
        self.times += 1
        if where is None:
            self.everyone, self.each = np.zeros(num_envs, np.int64), None
            self.stopped = np.zeros(num_envs, np.bool_)
            self.live = ~self.stopped
            if self.takes_levels:
                self.levels, self.standing = np.zeros((2, num_envs, self.num_senders))
                self.read = np.zeros((num_envs, 0))
        else:
            self.everyone[where] = 0
            self.stopped[where] = False
            for array in (self.levels, self.standing, self.read) if self.takes_levels else ():
                array[where] = 0
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
        levels: Array | None = None,
        weights: Array | None = None,
        drawn: bool = False,
    ) -> tuple[Array, Array]:
        """Send the messages `x` [B, N, ...] of the agents that `senders` bool[B, N] marks (None: of all).

        Faults first silence agents (`Fault.admit`) and falsify messages (`corrupt`). What is sent is then counted,
        charged and perturbed. Faults finally decide what arrives, and when (`deliver`). A mechanism reads numbers that
        are not finite as `privacy.checks.readable` says: no message raises an error for what it says.

        Args:
            x: what the agents would send.
            senders: the agents that send.
            sensitivity: how far one unit can move a message, as the world states it. Where messages differ it is an
                array that broadcasts against x; its entries may also differ within a message if a unit moves only one
                of the parts.
            norm: of the sensitivity, 1 (sum of absolute changes) or 2 (Euclidean).
            events: number of events that a message is about, for the ledger's totals at user level.
            levels: the epsilon of each message, float64[B, N], on a channel whose senders choose it and perturb their
                messages themselves.
            weights: public, of the numbers in an average, an array that broadcasts against x; None: all the same.
            drawn: whether the senders are as likely to be these as any other agents, given their number and all that
                observers know.

        Returns:
            (y, delivered): what the observer reads, [B, N, ...], 0 where nothing arrives, and which messages arrived,
            bool[B, N].
        """
        if (levels is None) == bool(self.chosen):
            wanted = "given" if self.chosen else "None"
            raise ValueError(f"levels must be {wanted} on channel {self.name!r}, not {levels!r}")
        x = self._readable(x)
        if self.config.mechanism is not None and self.config.mechanism.averages:
            return self._send_average(x, senders, sensitivity, norm, events, weights, drawn)

        def say(x: Array, who: Array | None, liars: Array | None) -> tuple[Array, Array]:
            if self.config.mechanism is None:
                return self._say_plainly(x, who, levels)
            return self._say(x, who, sensitivity, norm, events)

        y, delivered = self._through_faults(x, senders, say)
        if self.takes_levels:
            self._note(y, delivered)
        return y, delivered

    def answer(
        self,
        x: Array,
        asked: Array,
        reply: Callable[[Array, Array, Array | None], tuple[Array, Array, Array]],
        about: Array | None = None,
    ) -> tuple[Array, Array]:
        """Answer agents from one another's data, which a trusted third party merges.

        Faults strike the answers: an absent agent does not ask, and an answer may be false, lost or late.

        Args:
            x: the answer that each agent would get without noise, [B, N, ...].
            asked: the agents that ask, bool[B, N].
            reply: a function of x, the agents that ask, and the agents that lie, bool[B, N] (None: nobody). It returns
                the answers, [B, N, ...]; the messages that every agent sent for them, int64[B, N]; and how many of
                these are charged, int64[B, N], fewer where noise that was charged earlier is used again. A lie must not
                share noise with an honest answer, or subtracting one from the other would remove the noise.
            about: what each answer is about, [B, N, ...], which observers see too.

        Returns:
            (y, answered): what the agents read, 0 where nothing arrives, and which of them have an answer, bool[B, N].
        """

        def say(x: Array, who: Array | None, liars: Array | None) -> tuple[Array, Array]:
            assert who is not None
            y, messages, charged = reply(x, who, liars)
            self.record(each=messages, charged=charged)
            return y, who

        return self._through_faults(self._readable(x), asked & self.live[:, None], say)

    def _readable(self, x: Array) -> Array:
        """`checks.readable` where a mechanism hides anything."""
        mechanism = self.config.mechanism
        return x if mechanism is None or mechanism.kind == "none" else checks.readable(x)

    def _through_faults(
        self, x: Array, senders: Array | None, say: Callable[[Array, Array | None, Array | None], tuple[Array, Array]]
    ) -> tuple[Array, Array]:
        """What arrives of the messages x of the agents `senders` (None: of all), and from which agents.

        `say` sends them, given x, the senders, and the agents that lie (None: nobody).
        """
        if not self._faults:
            return say(x, senders, None)
        x, who, lying, sending, faults = self._struck(x, senders)
        y, sent = say(x, who, lying)
        if self.config.mechanism is not None and self.config.mechanism.shuffles:  # observers read sums
            chosen = sent.reshape(*sent.shape, *[1] * (y.ndim - 2))
            self._show(np.where(chosen, y, np.zeros((), y.dtype)).sum(1), np.asarray(sent.any(1)), sending, faults)
            faults = []
        for fault, memory, rng in faults:
            y, sent = fault.deliver(y, sent, sending, memory, rng)
        return np.where(sent.reshape(*sent.shape, *[1] * (y.ndim - 2)), y, np.zeros((), y.dtype)), sent

    def _struck(self, x: Array, senders: Array | None) -> tuple[Array, Array, Array | None, Array, list[Any]]:
        """What faults do before messages are sent.

        Returns:
            (the messages; who sends them, bool[B, N]; who lies, bool[B, N] or None: nobody; the replicas in which
            anyone wants to send, bool[B]; the faults, each with its memory and Generator)
        """
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
        lying = [lying for fault, memory, _ in faults if (lying := fault.liars(self._shape, memory)) is not None]
        return x, who, np.logical_or.reduce(lying) if lying else None, sending, faults

    def _say_plainly(self, x: Array, senders: Array | None, levels: Array | None) -> tuple[Array, Array]:
        """`send` without faults and mechanism."""
        if levels is not None and self.ledger is not None:
            if senders is not None or self.config.budget is not None or not self.live.all():
                senders = self._admit(senders, x.shape[:2], levels)
                levels = np.where(senders, levels, 0.0)
            self.ledger.charge_levels(self.name, levels, kind=self.chosen)
        self._count(senders)
        if senders is None:
            return x, np.ones(x.shape[:2], np.bool_)
        return np.where(senders.reshape(*senders.shape, *[1] * (x.ndim - 2)), x, np.zeros((), x.dtype)), senders

    def _say(
        self, x: Array, senders: Array | None, sensitivity: float | Array | None, norm: int, events: int | None
    ) -> tuple[Array, Array]:
        """`send` without faults, by a mechanism."""
        mechanism: Any = self.config.mechanism
        if mechanism.norm == 1 and norm == 2 and sensitivity is not None:
            sensitivity = sensitivity * float(np.prod(x.shape[2:])) ** 0.5
        if mechanism.takes_levels:
            return self._say_at_levels(x, senders, sensitivity, events)
        loss = self._loss(None if isinstance(sensitivity, np.ndarray) else sensitivity)
        if mechanism.stateful:
            return self._go_on(x, senders, loss, sensitivity, events)
        who = self._admit(senders, x.shape[:2], loss)
        if isinstance(sensitivity, np.ndarray):
            apart = x.ndim - mechanism.payload_dims  # axes along which messages differ
            sensitivity = np.broadcast_to(sensitivity, (*x.shape[:apart], *[1] * mechanism.payload_dims))[who]
        mechanism.check_sensitivity(sensitivity)
        self._count(who)
        assert self.rng is not None
        message = mechanism.perturb(x[who], self.rng, sensitivity)
        if mechanism.shuffles:
            self._charge_shuffled(who, events)
        elif senders is None and self.config.budget is None:
            self.ledger.charge(self.name, loss, self.live, events=events)
        else:
            self.ledger.charge(self.name, loss, each=who, events=events)
        y = np.zeros((*x.shape[:2], *message.shape[1:]), message.dtype)
        y[who] = message
        return y, who

    def _send_average(
        self,
        x: Array,
        senders: Array | None,
        sensitivity: float | Array | None,
        norm: int,
        events: int | None,
        weights: Array | None,
        drawn: bool,
    ) -> tuple[Array, Array]:
        """`send` by a mechanism that releases an average: every sender whose message is in it is told to have sent it.

        Messages are lost before they are added up. Observers read the average, and not who is in it.
        """
        mechanism: Any = self.config.mechanism
        if mechanism.norm == 1 and norm == 2 and sensitivity is not None:
            sensitivity = sensitivity * float(np.prod(x.shape[2:])) ** 0.5
        mechanism.check_sensitivity(sensitivity)
        x, who, lying, sending, faults = self._struck(x, senders)
        unseen = drawn and mechanism.hides_senders and all(fault.observes for fault, _, _ in faults)
        who = self._charge_drawn(who, events) if unseen else self._admit(who, x.shape[:2], self._loss(None))
        self._count(who)
        arrived = who
        for fault, memory, rng in faults:
            if not fault.observes:
                x, arrived = fault.deliver(x, arrived, sending, memory, rng)
        arrived = arrived & who  # whoever announced nothing has no share of the noise
        assert self.rng is not None
        mean, released = mechanism.average(x, who, arrived, self.rng, sensitivity, weights)
        if not unseen:
            self._charge_average(who, arrived, released, lying, events)
        told = self._show(mean, released, sending, faults)
        inside = arrived & released[:, None]
        return np.where(inside.reshape(*inside.shape, *[1] * (told.ndim - 2)), told, 0.0), inside

    def _show(self, read: Array, released: Array, sending: Array, faults: list[Any]) -> Array:
        """Let observers read one message [B, ...] of all agents together, where it is released, bool[B]; returns it as
        a message of each agent, [B, N, ...]."""
        told = np.broadcast_to(read[:, None], (len(read), self.num_senders, *read.shape[1:]))
        everybody = np.broadcast_to(released[:, None], told.shape[:2])
        for fault, memory, rng in faults:
            if fault.observes:
                fault.deliver(told, everybody, sending, memory, rng)
        return told

    def _charge_average(
        self, who: Array, arrived: Array, released: Array, lying: Array | None, events: int | None
    ) -> None:
        """Charge the senders of an average, with infinity where too few of those in it are honest."""
        mechanism: Any = self.config.mechanism
        self.ledger.charge(self.name, self._loss(None), each=who, events=events)
        if lying is not None:
            broken = released & ~mechanism.holds(who, arrived & ~lying)
            if broken.any():
                self.ledger.charge(self.name, NoPrivacy().loss(), each=who & broken[:, None], events=events)

    def _charge_drawn(self, who: Array, events: int | None) -> Array:
        """Charge all agents alike for an average whose senders `who` bool[B, N] were drawn at random, if their budgets
        admit it; returns who sends."""
        number, agents = who.sum(1), who.shape[1]
        for senders in np.unique(number[number > 0]).tolist():
            there = number == senders
            # A fellow who reads knows whether it was drawn: if not, the senders are among one fewer.
            loss = self._sampled(min(senders / max(agents - 1, 1), 1.0))
            if self.config.budget is not None:
                everybody = np.broadcast_to(there[:, None], who.shape)
                admitted, ended = self.config.budget.admit(self.ledger, loss, everybody, self.name)
                there, self.stopped = there & admitted.all(1), self.stopped | ended
                who = who & (there | (number != senders))[:, None]
            self.ledger.charge(self.name, loss, everyone=there, events=events)
        return who

    def _sampled(self, rate: float) -> Any:
        """The loss of a message whose senders are a random share of all agents."""
        if ("rate", rate) not in self._losses:
            self._losses["rate", rate] = SampledLoss(self._loss(None), rate) if rate < 1 else self._loss(None)
        return self._losses["rate", rate]

    def _say_at_levels(
        self, x: Array, senders: Array | None, sensitivity: float | Array | None, events: int | None
    ) -> tuple[Array, Array]:
        """`_say` at `levels`; a message that a budget has no room for is sent at level 0."""
        mechanism: Any = self.config.mechanism
        if self._memory is None:
            self._memory = mechanism.start(x.shape[:2])
        who = np.broadcast_to(self.live[:, None], x.shape[:2]) if senders is None else senders & self.live[:, None]
        levels = np.where(who, self.levels, 0.0)
        if self.config.budget is not None:
            levels = np.where(self.config.budget.allows(self.ledger, levels, self.name), levels, 0.0)
        y, spoke = mechanism.say(x, levels, who, self._noise, self._memory, sensitivity)
        self._count(spoke)
        self.ledger.charge_levels(self.name, levels, kind=mechanism.kind, zcdp=mechanism.zcdp, events=events)
        return y, spoke

    def _note(self, y: Array, delivered: Array) -> None:
        """Note what was read in the live replicas, and at which levels."""
        numbers, some = y.reshape(*y.shape[:2], -1), self.live
        if self.read.shape[1] != numbers.shape[2]:
            self.read = np.zeros((len(y), numbers.shape[2]))
        total = np.where(delivered[:, :, None], numbers, 0).sum(1) / np.maximum(delivered.sum(1), 1)[:, None]
        self.read[some] = total[some]
        self.standing[some] = np.where(delivered, self._memory.standing, 0.0)[some]

    def _go_on(
        self, x: Array, senders: Array | None, loss: Any, sensitivity: float | Array | None, events: int | None
    ) -> tuple[Array, Array]:
        """`_say` by a mechanism with memory: repeating an answer is free, and so is going on with a stream that was
        charged as a whole.

        Under a budget a memoised answer is kept even if the value changes, since a new answer would reveal the change.
        """
        mechanism: Any = self.config.mechanism
        mechanism.check_sensitivity(sensitivity)
        if self._memory is None:
            self._memory = mechanism.start(x.shape[:2], sensitivity=sensitivity)
        who = np.broadcast_to(self.live[:, None], x.shape[:2]) if senders is None else senders & self.live[:, None]
        if self.config.budget is not None:
            begun = self._memory.begun
            if mechanism.changes_tell and begun.any():
                x = np.where(begun.reshape(*begun.shape, *[1] * (x.ndim - 2)), self._memory.values, x)
            who = self._admit(who & ~begun, x.shape[:2], loss) | (who & begun)
        self._count(who)
        y = mechanism.step(x, self.rng, self._memory, where=who, sensitivity=sensitivity)
        events = None if mechanism.per_stream else events  # the charge for a stream covers one event
        if mechanism.shuffles:
            self._charge_shuffled(self._memory.fresh & who, events)
        else:
            self.ledger.charge(self.name, loss, each=self._memory.fresh & who, events=events)
        return np.where(who.reshape(*who.shape, *[1] * (y.ndim - 2)), y, np.zeros((), y.dtype)), who

    def tally(
        self, histogram: Array, messages: Callable[[], Array] | None = None, zeros: Array | None = None
    ) -> tuple[Array, Array]:
        """Send everyone's one-hot messages as counts [B, K].

        Args:
            histogram: the number of messages that name each option, [B, K].
            messages: a function that makes the vectors [B, N, K]; called if single messages are needed.
            zeros: the number of messages that name no option, int64[B] (None: there are none).

        Returns:
            (sums, received): the sum of the messages, [B, K], and the number that arrived, int64[B].
        """
        mechanism = self.config.mechanism
        needing: list[Any] = [fault for fault in self._faults if not fault.closed_counts]
        if mechanism is not None and (not mechanism.closed_counts or self.config.budget is not None):
            needing.append(mechanism)
        if needing:
            if messages is None:
                raise ValueError(
                    f"{type(needing[-1]).__name__} on channel {self.name!r} needs single messages, which this world "
                    "cannot give"
                )
            y, delivered = self.send(messages())
            return y.sum(1), delivered.sum(1)
        self._count(None)
        if mechanism is not None and mechanism.shuffles:
            self._charge_shuffled(None)
        elif mechanism is not None:
            self.ledger.charge(self.name, self._loss(None), self.live)
        if zeros is not None:
            histogram = np.concatenate([histogram, zeros[:, None]], 1)
        for fault, rng in zip(self._faults, self._fault_rngs, strict=True):
            histogram = fault.thin(histogram, rng)
        received = histogram.sum(-1)
        if zeros is not None:
            histogram = histogram[:, :-1]
        if mechanism is None:
            return histogram, received
        assert self.rng is not None
        return mechanism.perturb_counts(histogram, self.rng, received), received

    @property
    def takes_levels(self) -> bool:
        """Whether senders choose the level of each message."""
        mechanism = self.config.mechanism
        return mechanism is not None and mechanism.takes_levels

    @property
    def sums_have_a_law(self) -> bool:
        """Whether the sum of many messages has a closed law: there is no fault, budget or mechanism with a memory."""
        mechanism = self.config.mechanism
        return not self._faults and self.config.budget is None and (mechanism is None or not mechanism.stateful)

    def record(self, everyone: Array | None = None, each: Array | None = None, charged: Array | None = None) -> None:
        """Count and charge messages that a world has drawn or perturbed itself (`Population.jump`).

        Args:
            everyone: messages of every agent, int64[B].
            each: messages by agent, int64[B, N].
            charged: how many of `each` are charged, int64[B, N]; the others were paid for by earlier charges.
        """
        mechanism: Any = self.config.mechanism
        if mechanism is not None:
            loss = mechanism.summed_loss(self._hiding(self.num_senders)) if mechanism.shuffles else self._loss(None)
            self.ledger.charge(self.name, loss, everyone, each if charged is None else charged)
        self._counted(everyone, each)

    def expose(self, each: Array) -> None:
        """Count messages that agents sent past the mechanism, int64[B, N]; if there is one, each is charged as
        infinite."""
        if each.any():
            if self.config.mechanism is not None:
                self.ledger.charge(self.name, NoPrivacy().loss(), each=each)
            self._counted(None, each)

    def messages(self) -> Array:
        """The number of messages that each agent has sent so far, int64[B, N], read-only."""
        if self.each is None:
            return np.broadcast_to(self.everyone[:, None], (len(self.everyone), self.num_senders))
        return self.everyone[:, None] + self.each

    def _charge_shuffled(self, who: Array | None, events: int | None = None) -> None:
        """Charge a message of the agents `who` bool[B, N] (None: all) in the live replicas, shuffled among theirs."""
        mechanism: Any = self.config.mechanism
        shape = len(self.live), self.num_senders
        who = np.broadcast_to(self.live[:, None], shape) if who is None else who & self.live[:, None]
        number = who.sum(1)
        for senders in np.unique(number[number > 0]).tolist():
            if ("senders", senders) not in self._losses:
                self._losses["senders", senders] = mechanism.summed_loss(self._hiding(senders))
            each = who & (number == senders)[:, None]
            self.ledger.charge(self.name, self._losses["senders", senders], each=each, events=events)

    def _hiding(self, senders: int) -> int:
        """Among how many of so many senders' messages one is hidden: where senders read them, each knows its own."""
        return max(senders - (self.observer in ("neighbour", "public")), 1)

    def _loss(self, sensitivity: float | None) -> Any:
        if sensitivity not in self._losses:
            assert self.config.mechanism is not None
            self._losses[sensitivity] = self.config.mechanism.loss(sensitivity)
        return self._losses[sensitivity]

    def _admit(self, senders: Array | None, shape: tuple[int, int], loss: Any) -> Array:
        """The agents that send, bool[B, N]: those of the live replicas, except those that a budget stops."""
        who = np.broadcast_to(self.live[:, None], shape) if senders is None else senders & self.live[:, None]
        if self.config.budget is not None:
            who, ended = self.config.budget.admit(self.ledger, loss, who, self.name)
            self.stopped = self.stopped | ended
        return who

    def _count(self, senders: Array | None) -> None:
        """Count a message of the agents `senders` bool[B, N] (None: of all) in the live replicas."""
        if senders is None:
            self._counted(self.live, None)
        else:
            self._counted(None, (senders & self.live[:, None]).astype(np.int64))

    def _counted(self, everyone: Array | None, each: Array | None) -> None:
        """Count messages: those of every agent, [B], and further ones of single agents, [B, N]."""
        self.times += 1
        if everyone is not None:
            self.everyone += everyone
        if each is not None:
            self.each = each.copy() if self.each is None else self.each + each
