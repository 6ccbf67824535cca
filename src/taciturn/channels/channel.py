"""Channels: the named ways in which private data leave an agent. A channel counts messages; the accountant turns counts
into privacy costs.

Every message takes the same steps: faults silence its sender or falsify it (`Faults.strike`); a budget may stop the
sender (`charging.admit`); a mechanism perturbs the message (`sending`); it is counted and charged (`charging.charge`);
faults decide which messages arrive, and when (`Faults.deliver`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.channels import charging, sending
from taciturn.channels.config import PLAIN, ChannelConfig
from taciturn.channels.faults import Faults
from taciturn.privacy import checks
from taciturn.privacy.channels import Observer, Payload, Unit
from taciturn.privacy.mechanisms import NoPrivacy
from taciturn.seeding import Streams, described
from taciturn.validation import Array


class Channel:
    """A named way for private data to leave the agents. It offers no privacy until a reset installs a mechanism.

    Args:
        name: wrappers address the channel by it.
        payload: the kind of message.
        observer: who reads the messages.
        unit: the difference between two adjacent environments: one `event`, or the whole local history of one `user`.
        sender: the senders' name: a role, or agents that the environment plays itself; empty for the first role.
        num_senders: their number; 0: the number of the role `sender`, which the population fills in.
        chosen: the kind of mechanism with which senders perturb their own messages, at levels of their choice; no other
            can be installed.
        disjoint: whether each event enters at most one message, chosen independently of the data. The accountant then
            uses parallel composition at event level.
        silence_leaks: whether an agent's private data affect the sending, time, receiver or subject of a message. No
            mechanism hides that, so the accountant's totals are then infinite. An environment may set the attribute
            more precisely as a run begins.
        additive: whether only mechanisms that add fresh noise to numbers fit.
        counted: whether the receiver only adds up the messages of all senders, who all send at all times; mechanisms
            with shuffled messages then fit (`Mechanism.shuffles`).
        averaged: whether all senders read only the average of a time's messages; mechanisms with `averages` then fit.
        agents_decide: whether agents decide when they send. `silence_leaks` is then true, unless their policy declares
            a public schedule (`Population.played_by`).
        given: a description of the part that is equal in two adjacent environments although it may depend on the event,
            such as "what was shown"; epsilons are conditional on it.

    Raises:
        ValueError: `disjoint` on a channel with unit `user`: a whole history enters every message.

    Attributes:
        everyone: int64[B], messages that every agent sent.
        each: int64[B, N] or None, further messages of single agents (None until some send and others do not).
        times: how often these counts have changed.
        live: bool[B], replicas that are not done; only their messages count.
        stopped: bool[B], replicas that a budget ends with this step.
        levels: float64[B, N], the level of each agent's next message, under a mechanism that takes levels.
        standing: float64[B, N], the level of each agent's last message that was read; 0: none was.
        read: float64[B, D], the mean of the messages that were last read; 0 if none was.
        unbounded: why no finite total holds, apart from `silence_leaks`; empty: no such reason. Runs begin with the
            value of `undeclared`, which holds until a public schedule is declared.
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
        silence_leaks: bool = False,
        agents_decide: bool = False,
        additive: bool = False,
        averaged: bool = False,
        counted: bool = False,
        given: str = "",
    ) -> None:
        if disjoint and unit == "user":
            raise ValueError(f"disjoint must be False on channel {name!r} with unit 'user', not {disjoint!r}")
        self.name, self.payload, self.observer, self.unit = name, payload, observer, unit
        self.sender, self.num_senders, self.chosen, self.disjoint = sender, num_senders, chosen, disjoint
        self.silence_leaks = self._silence_leaks = silence_leaks or agents_decide
        self.agents_decide, self.additive, self.averaged, self.counted = agents_decide, additive, averaged, counted
        self.given = given
        self.everyone: Array = np.zeros(0, np.int64)
        self.each: Array | None = None
        self.times = 0
        self.live = self.stopped = np.zeros(0, np.bool_)
        self.levels = self.standing = self.read = np.zeros((0, 0))
        self.undeclared = self.unbounded = ""
        self.config, self.faults = PLAIN, Faults()
        self.accountant: Any = None
        self.configuration = ""  # the mechanism and the environment's parameters as text, which selects the noise
        self.memory: Any = None  # the mechanism's
        self.losses: dict[Any, Any] = {}  # losses of one message, by the arguments that they depend on
        self.rng: np.random.Generator | None = None
        self._streams: Streams | None = None
        self._params: Any = None

    def __repr__(self) -> str:
        return (
            f"<Channel {self.name!r}: {self.payload} messages of {self.num_senders} x {self.sender} to the "
            f"{self.observer}, unit {self.unit}, {self.config}>"
        )

    def install(self, config: ChannelConfig, accountant: Any, params: Any = None) -> None:
        """Begin a run with `config` in an environment with `params`, charging messages to `accountant`."""
        if config is not self.config or params is not self._params:
            self.config, self._params, self._streams, self.losses = config, params, None, {}
            self.configuration = "" if config.mechanism is None else described((config.mechanism, params))
            self.faults = Faults(config.faults)
        self.accountant, self.memory, self.faults = accountant, None, self.faults.anew()
        self.silence_leaks, self.unbounded = self._silence_leaks, self.undeclared

    def draw_from(self, streams: Streams) -> None:
        """Draw noise from the stream `channel/<name>` of this configuration, and faults from their own streams."""
        if streams is not self._streams:
            self._streams = streams
            self.rng = self.noise()
            self.faults.draw_from(streams, self.name)

    def noise(self, level: float = 0.0) -> np.random.Generator:
        """The stream of noise, or of noise for messages at a `level` > 0 that their senders chose."""
        assert self._streams is not None
        at = f"{self.configuration} at {float(level).hex()}" if level else self.configuration
        return self._streams.noise(f"channel/{self.name}", at)

    def reset(self, num_envs: int, where: Array | None = None) -> None:
        """Erase the counts of the replicas that `where` bool[B] marks (default: of all)."""
        self.times += 1
        if where is None:
            self.everyone, self.each = np.zeros(num_envs, np.int64), None
            self.stopped = np.zeros(num_envs, np.bool_)
            self.live = ~self.stopped
            if self.takes_levels:
                self.levels, self.standing = np.zeros((2, num_envs, self.num_senders))
                self.read = np.zeros((num_envs, 0))
            return
        self.everyone[where] = 0
        self.stopped[where] = False
        for array in (self.levels, self.standing, self.read) if self.takes_levels else ():
            array[where] = 0
        if self.each is not None:
            self.each[where] = 0
        if self.memory is not None:
            self.memory.reset(np.broadcast_to(where[:, None], self.memory.shape))
        self.faults.reset(where)

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

        Mechanisms read NaN and infinite numbers as defined in `privacy.checks.readable`, so no content of a message
        raises an error.

        Args:
            x: the messages before the mechanism.
            senders: the agents that send.
            sensitivity: how far one unit can move a message, as the environment states it. If it differs between
                messages, it is an array that broadcasts against x; it may also differ within a message if a unit moves
                only one of the parts.
            norm: the norm of the sensitivity, 1 (sum of absolute changes) or 2 (Euclidean).
            events: number of events that a message is about, for the accountant's totals at user level.
            levels: the epsilon of each message, float64[B, N], if senders choose it and perturb their messages
                themselves.
            weights: public weights of an average, an array that broadcasts against x; None: equal weights.
            drawn: whether the senders are a uniformly random subset of the agents, given their number and all that
                observers know.

        Returns:
            (y, delivered): the messages as the observer reads them, [B, N, ...], 0 without delivery; the delivered
            ones, bool[B, N].
        """
        if (levels is None) == bool(self.chosen):
            wanted = "given" if self.chosen else "None"
            raise ValueError(f"levels must be {wanted} on channel {self.name!r}, not {levels!r}")
        mechanism = self.config.mechanism
        everyone = senders is None and self.config.budget is None and not self.faults.kinds
        x, who, lying = self._struck(x, senders)
        if mechanism is None:
            return self._delivered(*sending.plainly(self, x, who, levels, everyone))
        if mechanism.norm == 1 and norm == 2 and sensitivity is not None:
            sensitivity = sensitivity * float(np.prod(x.shape[2:])) ** 0.5
        if mechanism.averages:
            return sending.on_average(self, x, who, lying, sensitivity, events, weights, drawn)
        if not mechanism.takes_levels:
            return self._delivered(*sending.perturbed(self, x, who, sensitivity, events, everyone))
        y, delivered = self._delivered(*sending.at_levels(self, x, who, sensitivity, events))
        sending.note(self, y, delivered)
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
            reply: a function of x, the agents that ask, and the agents that lie, bool[B, N] (None: no agent). It
                returns the answers, [B, N, ...]; the messages that every agent sent for them, int64[B, N]; and how many
                of these are charged, int64[B, N], fewer where noise that was charged earlier is used again. A lie must
                not share noise with an honest answer, or subtracting one from the other would remove the noise.
            about: the subject of each answer, [B, N, ...], which observers see too.

        Returns:
            (y, answered): the answers as the agents read them, 0 without delivery, and the agents with an answer,
            bool[B, N].
        """
        x, who, lying = self._struck(x, asked)
        y, messages, charged = reply(x, who, lying)
        self.record(each=messages, charged=charged)
        return self._delivered(y, who)

    def _struck(self, x: Array, senders: Array | None) -> tuple[Array, Array, Array | None]:
        """The messages of the agents `senders` (None: all), who sends them, and who lies (None: no agent)."""
        if self.config.mechanism is not None and self.config.mechanism.kind != "none":
            x = checks.readable(x)
        who = np.broadcast_to(self.live[:, None], x.shape[:2]) if senders is None else senders & self.live[:, None]
        return self.faults.strike(x, who, self.payload) if self.faults.kinds else (x, who, None)

    def _delivered(self, y: Array, sent: Array) -> tuple[Array, Array]:
        """The messages y of the agents `sent` that arrive, and their senders."""
        if not self.faults.kinds:
            return y, sent
        if self.config.mechanism is not None and self.config.mechanism.shuffles:  # observers read sums
            self.faults.show(sending.of(sent, y).sum(1), np.asarray(sent.any(1)), self.num_senders)
        else:
            y, sent = self.faults.deliver(y, sent)
        return sending.of(sent, y), sent

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
        needing: list[Any] = [fault for fault in self.faults.kinds if not fault.closed_counts]
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
        return sending.in_sum(self, histogram, zeros)

    @property
    def takes_levels(self) -> bool:
        """Whether senders choose the level of each message."""
        return self.config.mechanism is not None and self.config.mechanism.takes_levels

    @property
    def sums_have_closed_form(self) -> bool:
        """Whether the sum of many messages has a closed form: there is no fault, budget or mechanism with a memory."""
        mechanism = self.config.mechanism
        return not self.faults.kinds and self.config.budget is None and (mechanism is None or not mechanism.stateful)

    def record(self, everyone: Array | None = None, each: Array | None = None, charged: Array | None = None) -> None:
        """Count and charge messages that an environment has drawn or perturbed itself (`Population.jump`).

        Args:
            everyone: messages of every agent, int64[B].
            each: messages by agent, int64[B, N].
            charged: how many of `each` are charged, int64[B, N]; the others were paid for by earlier charges.
        """
        if self.config.mechanism is not None:
            loss = charging.loss(self, shuffled=self.num_senders if self.config.mechanism.shuffles else None)
            self.accountant.charge(self.name, loss, everyone, each if charged is None else charged)
        self.count(everyone, each)

    def expose(self, each: Array) -> None:
        """Count messages sent past the mechanism, int64[B, N]; if there is a mechanism, each costs infinity."""
        if each.any():
            if self.config.mechanism is not None:
                self.accountant.charge(self.name, NoPrivacy().loss(), each=each)
            self.count(None, each)

    def messages(self) -> Array:
        """The number of messages that each agent has sent so far, int64[B, N], read-only."""
        sent = self.everyone[:, None] if self.each is None else self.everyone[:, None] + self.each
        return np.broadcast_to(sent, (len(sent), self.num_senders))

    def count(self, everyone: Array | None, each: Array | None) -> None:
        """Count messages: those of every agent, [B], and further ones of single agents, [B, N]."""
        self.times += 1
        if everyone is not None:
            self.everyone += everyone
        if each is not None:
            self.each = each.astype(np.int64) if self.each is None else self.each + each
