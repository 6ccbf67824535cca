"""The accountant: the messages of each agent, and their composed cost.

During a run the accountant only counts. It computes a total on request, once for each distinct vector of counts. Every
total is an upper bound: epsilon at the stated delta, against an observer who reads all messages on the requested
channels. Agents hold separate data, so the largest total of an agent holds for the whole population (parallel
composition over agents; McSherry 2009).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, get_args

import numpy as np

from taciturn.privacy import checks, composed
from taciturn.privacy.accounts import MOST_MESSAGES, NOTHING_HIDDEN, Account, Accounts, Levels
from taciturn.privacy.channels import Observer, SendingChannel, Unit
from taciturn.privacy.composition import METHODS, Method
from taciturn.privacy.losses import PrivacyLoss
from taciturn.validation import Array, Bools, Floats, Ints, choice, integer, number


class Accountant:
    """The messages of each agent on each channel, and their cost.

    A channel with a mechanism charges each message as it is sent. A channel without charges has no mechanism: the
    channel itself counts its messages, and each has an infinite loss.

    Args:
        num_envs: number of replicas, B.
        agents: number of agents that send, N; `{role: N}` if several roles send.
        channels: the population's channels.
        senders: `{channel: role}`, required if several roles send.

    Attributes:
        accounts: the charges so far.
    """

    def __init__(
        self,
        num_envs: int,
        agents: int | Mapping[str, int],
        channels: Iterable[SendingChannel],
        *,
        senders: Mapping[str, str] | None = None,
    ) -> None:
        self.num_envs = integer("num_envs", num_envs, at_least=1)
        named = agents if isinstance(agents, Mapping) else {"agent": agents}
        self.agents = {role: integer(f"agents[{role!r}]", size, at_least=1) for role, size in named.items()}
        self.channels = {channel.name: channel for channel in channels}
        for name in senders or {}:
            choice("channel", name, self.channels)
        sole = next(iter(self.agents)) if len(self.agents) == 1 else None
        given = dict.fromkeys(self.channels, sole) | dict(senders or {})
        self.senders = {name: choice(f"senders[{name!r}]", role, self.agents) for name, role in given.items()}
        self.accounts: Accounts = []
        self._found: dict[tuple[Any, ...], Account] = {}
        self._levels: dict[tuple[Any, ...], Levels] = {}
        self._kept: dict[tuple[Any, ...], Levels] = {}  # those that an environment changes
        self._spent: dict[tuple[Any, ...], tuple[float, float]] = {}  # see Budget._all_can_afford

    def __repr__(self) -> str:
        agents = " and ".join(f"{size} x {role}" for role, size in self.agents.items())
        return (
            f"<Accountant of {self.num_envs} replicas of {agents}, on {', '.join(self.channels)}: {len(self.accounts)} "
            "accounts>"
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_found": {}}

    def charge(
        self,
        channel: str,
        loss: PrivacyLoss,
        everyone: Array | None = None,
        each: Array | None = None,
        *,
        events: int | None = None,
    ) -> None:
        """Count messages as they are sent.

        Args:
            channel: name of the channel.
            loss: privacy loss of one message, at the channel's unit. A call without counts opens the account: it
                declares the cost of messages on the channel.
            everyone: messages sent by every agent, bool[B] or int[B].
            each: messages sent by some agents, bool[B, N] or int[B, N].
            events: number of events that one message depends on. At user level, all of them change together.

        Raises:
            ValueError: the channel is unknown, or the counts have a wrong shape or type, are negative, or would make a
                total above 2^62. Nothing is counted then.
        """
        shape = _shape(self, channel)
        if everyone is not None:
            _check_counts("everyone", everyone, shape[:1])
        if each is not None:
            _check_counts("each", each, shape)
        account = self._found.get((channel, id(loss), events)) or self._account(channel, loss, events)
        account.add(everyone, each)

    def charge_levels(
        self, channel: str, epsilons: Floats, *, kind: str = "pure", zcdp: float = 0.5, events: int | None = None
    ) -> None:
        """Count one message of each agent, at a pure epsilon that the agent has chosen.

        Args:
            channel: name of the channel.
            epsilons: float64[B, N]; 0 where an agent sends nothing, inf where it uses no mechanism.
            kind: the kind of mechanism.
            zcdp: rho of a message divided by its squared epsilon; 1/2 holds for every pure mechanism (Bun & Steinke
                2016).
            events: as for `charge`.

        Raises:
            ValueError: the channel is unknown, or the epsilons have a wrong shape, are negative or NaN. Nothing is
                counted then.
        """
        shape = _shape(self, channel)
        if not _is_array(epsilons, shape, "f"):
            raise ValueError(f"epsilons must be a float array of shape {shape}, not {_described(epsilons)}")
        if not epsilons.min() >= 0:
            raise ValueError(f"epsilons must be >= 0, not {epsilons.min()}")
        if epsilons.max() > checks.FARTHEST and ((epsilons > checks.FARTHEST) & (epsilons < math.inf)).any():
            raise ValueError(
                f"epsilons must be inf or at most {checks.FARTHEST:g}, not {epsilons[epsilons < math.inf].max()}"
            )
        key = channel, kind, zcdp, events
        account = self._levels.get(key)
        if account is None:
            number("zcdp", zcdp, above=0, at_most=0.5)
            _check_events(events)
            account = self._levels[key] = Levels.opened(*key, shape)
            self.accounts.append(account)
        account.add(epsilons)

    def keep_levels(
        self, channel: str, kind: str, sent: Ints, epsilon: Floats, squares: Floats, largest: Floats
    ) -> None:
        """Count messages at sender-chosen epsilons in arrays [B, N] of the environment (see `Levels`): the accountant
        stores references to these arrays, and the environment updates them in place."""
        shape = _shape(self, channel)
        key = channel, kind, 0.5, None
        kept = Levels(*key, sent, epsilon, squares, largest, np.zeros(shape, np.uint8))
        self.accounts = [account for account in self.accounts if account is not self._levels.get(key)] + [kept]
        self._levels[key] = self._kept[key] = kept

    def fresh(self, channels: Mapping[str, SendingChannel]) -> "Accountant":
        """A new, empty accountant for the same senders and these channels; the old accountant keeps its charges."""
        for kept in self._kept.values():
            kept.sent, kept.epsilon = kept.sent.copy(), kept.epsilon.copy()
            kept.squares, kept.largest = kept.squares.copy(), kept.largest.copy()
        made = object.__new__(type(self))
        vars(made).update(vars(self), channels=dict(channels), accounts=[], _found={}, _levels={}, _kept={}, _spent={})
        return made

    def reset(self, where: Bools | None = None) -> None:
        """Erase the spending of the replicas marked in `where` bool[B] (default: all): new agents begin there."""
        where = np.ones(self.num_envs, np.bool_) if where is None else where
        if not _is_array(where, (self.num_envs,), "b"):
            raise ValueError(f"where must be a bool array of shape {(self.num_envs,)}, not {_described(where)}")
        for account in self.accounts:
            account.reset(where)
        self._spent = {key: value for key, value in self._spent.items() if value[0] < math.inf}

    def _account(self, channel: str, loss: PrivacyLoss, events: int | None) -> Account:
        """The account of messages with this loss; it is opened if there is none yet."""
        if not isinstance(loss, PrivacyLoss):
            raise ValueError(f"loss must be a PrivacyLoss, not {loss!r}")
        _check_events(events)
        if not self._found:
            self._found = {(a.channel, a.loss, a.events): a for a in self.accounts if isinstance(a, Account)}
        account = self._found.get((channel, loss, events))
        if account is None:
            account = Account(channel, loss, events, np.zeros(self.num_envs, np.int64))
            self.accounts.append(account)
            self._found[channel, loss, events] = account
        self._found[channel, id(account.loss), events] = account
        return account

    @property
    def per_message(self) -> dict[str, PrivacyLoss]:
        """Privacy loss of the costliest message on each channel; infinite for a channel without charges."""
        return {
            name: max((a.loss for a in self.accounts_of(name)), key=lambda loss: (loss.epsilon, loss.rho))
            for name in self.channels
        }

    def sent_by(self, role: str) -> Accounts:
        """The accounts of all channels on which agents of a role send."""
        return [a for name, sender in self.senders.items() if sender == role for a in self.accounts_of(name)]

    def messages(self, channel: str) -> Ints:
        """Messages of each agent on a channel, int64[B, N]."""
        shape = _shape(self, channel)
        return composed.added(self.accounts_of(channel), shape)

    def epsilon(
        self,
        delta: float = 1e-6,
        by: str = "agent",
        method: Method = "rdp",
        *,
        unit: Unit | None = None,
        observer: Observer | None = None,
        channel: str | Iterable[str] | None = None,
        role: str | None = None,
        worst: int = 8,
    ) -> Any:
        """Epsilon of all messages that agents have sent, an upper bound at `delta`.

        It is valid for counts that are fixed in advance, or drawn independently of the data. If counts depend on the
        messages themselves, for example if a sender stops once its own loss is large, only `basic` with pure messages
        remains valid; use `odometer`, or the epsilon and delta of a `Budget` that bounds the counts.

        Args:
            delta: of (epsilon, delta)-DP; at 0 only pure messages have a finite total.
            by: `agent` gives the total of each agent, float64[B, N]; `max` the epsilon of the agent that spent most,
                float64[B], the guarantee of the whole population.
            method: how messages compose: `basic` (the sum of the epsilons), `advanced`, `zcdp`, `rdp` or, with
                dp-accounting, `pld`. All are upper bounds, so `advanced` and `zcdp` return the bound of `basic` where
                it is smaller, `rdp` also the bound of `zcdp`, and `pld` also the bound of `rdp`.
            unit: the difference between two adjacent environments. `event`: one event, which enters at most one message
                of a `disjoint` channel. `user`: an agent's whole history; a message then costs as much as a change of
                all its `events`, and inf if their number was not stated and the mechanism is not local. None: each
                message counts at its own channel's unit. At every unit, totals are inf for a channel that is
                `unbounded` or has `silence_leaks`, even without messages, and for messages of a mechanism with
                `changes_leak`.
            observer: who reads the messages. The epsilon covers only channels that `observer` or the public can read;
                None: all channels.
            channel: count only this channel, or these. The epsilon then does not cover the other channels.
            role: the role of the counted agents, if several roles send; None: each role.
            worst: for `pld`: exact totals for the `worst` costliest agents; all others get one common upper bound.

        Returns:
            An array; `{role: array}` if several roles send and `role` is None.
        """
        delta = number("delta", delta, at_least=0, below=1)
        choice("method", method, METHODS)
        integer("worst", worst, at_least=1)
        return self._composed(partial(composed.total_by, delta, method, worst), by, unit, observer, channel, role)

    def odometer(
        self,
        delta: float = 1e-6,
        by: str = "agent",
        *,
        unit: Unit | None = None,
        observer: Observer | None = None,
        channel: str | Iterable[str] | None = None,
        role: str | None = None,
        tightest_at: float = 1.0,
    ) -> Any:
        """Epsilon of all messages, an upper bound at `delta` that is valid at all times simultaneously.

        It holds even if senders stop, observers look, or mechanisms are chosen at times that depend on the messages so
        far: it is an odometer (Rogers, Roth, Ullman & Vadhan 2016) for fully adaptive composition (Whitehouse, Ramdas,
        Rogers & Wu 2023). It is the smaller of two bounds: the sum of the pure epsilons, which always holds, and
        `composition.odometer_epsilon`, from the sum of rho. It is inf if a message has neither a finite epsilon nor a
        finite rho.

        Args:
            delta: of (epsilon, delta)-DP; at 0 only pure messages have a finite bound.
            by, unit, observer, channel, role: as for `epsilon`.
            tightest_at: the epsilon near which the bound is to be tightest. It must be chosen before the run.

        Returns:
            As `epsilon` does.
        """
        delta = number("delta", delta, at_least=0, below=1)
        tightest_at = checks.level("tightest_at", tightest_at)
        return self._composed(lambda history: history.odometer(delta, tightest_at), by, unit, observer, channel, role)

    def _composed(
        self,
        bound: composed.Bound,
        by: str,
        unit: Unit | None,
        observer: Observer | None,
        channel: str | Iterable[str] | None,
        role: str | None,
    ) -> Any:
        """The result of `epsilon` and `odometer`: the `bound` on the agents' messages, summarised by `by`."""
        choice("by", by, ("agent", "max"))
        choice("unit", unit, (None, *get_args(Unit)))
        choice("observer", observer, (None, *get_args(Observer)))
        channel = _named(self.channels, channel)
        choice("role", role, (None, *self.agents))
        if role is None and len(self.agents) > 1:
            return {name: self._composed(bound, by, unit, observer, channel, name) for name in self.agents}
        role = role or next(iter(self.agents))
        read = [
            c.name
            for c in self.channels.values()
            if c.name in channel and (observer is None or c.observer in (observer, "public"))
        ]
        accounts = [a for name in read if self.senders[name] == role for a in self.accounts_of(name)]
        if by == "max":
            return composed.epsilons(self, accounts, bound, unit, top=True).max(1)
        total = composed.epsilons(self, accounts, bound, unit)
        return np.broadcast_to(total, (self.num_envs, self.agents[role])).copy()

    def table(self, delta: float = 1e-6, methods: Sequence[Method] = METHODS[:4]) -> list[dict[str, Any]]:
        """One row of plain values per channel and mechanism, then one for all channels of a role together.

        Numbers of messages, and totals at `delta` by each method, are given as the mean and the maximum over agents and
        replicas. The column `note` states what they leave out.
        """
        return composed.table(self, delta, methods)

    def accounts_of(self, name: str) -> Accounts:
        """The accounts of a channel; for a channel without charges they are read from its own counts."""
        if accounts := [a for a in self.accounts if a.channel == name]:
            return accounts
        channel = self.channels[name]
        everyone = channel.everyone if channel.everyone.size else np.zeros(self.num_envs, np.int64)
        return [Account(name, NOTHING_HIDDEN, None, everyone, channel.each)]


def _shape(accountant: Accountant, channel: str) -> tuple[int, int]:
    """[B, N] of a channel; ValueError if there is no channel of that name."""
    if channel not in accountant.channels:
        choice("channel", channel, accountant.channels)
    return accountant.num_envs, accountant.agents[accountant.senders[channel]]


def _named(channels: Mapping[str, SendingChannel], channel: str | Iterable[str] | None) -> tuple[str, ...]:
    """The requested channels; None: all."""
    if channel is None:
        return tuple(channels)
    one: Any = channel
    names = (one,) if isinstance(one, str) or not isinstance(one, Iterable) else tuple(one)
    if not names:
        raise ValueError("channel must name at least one channel, not ()")
    for name in names:
        choice("channel", name, channels)
    return names


def _described(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def _is_array(value: Any, shape: tuple[int, ...], kinds: str) -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype.kind in kinds


def _check_counts(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if not _is_array(value, shape, "biu"):
        raise ValueError(f"{name} must be an integer or bool array of shape {shape}, not {_described(value)}")
    if value.dtype.kind == "i" and value.min() < 0:
        raise ValueError(f"{name} must be >= 0, not {value.min()}")
    if value.dtype.kind == "u" and value.max() > MOST_MESSAGES:
        raise ValueError(f"{name} must be at most 2^62, not {value.max()}")


def _check_events(events: Any) -> None:
    if events is not None:
        integer("events", events, at_least=1, at_most=MOST_MESSAGES)
