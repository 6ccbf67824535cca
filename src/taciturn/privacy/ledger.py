"""The ledger: which messages each agent has sent, and what they cost it together.

While a run goes on the ledger only counts. Totals are worked out when somebody asks, once for each distinct vector of counts. Every total
is an upper bound: epsilon at the stated delta, against an observer who reads all messages of the channels asked for. An agent's data are
its own, so what holds of a whole population is its worst agent's total (parallel composition over agents; McSherry 2009).
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, get_args

import numpy as np

from taciturn.privacy.channels import CountedChannel, Observer, Unit
from taciturn.privacy.composition import LOCAL, METHODS, ORDERS, Group, History, Method, group
from taciturn.privacy.mechanisms import Memoized, PrivacyLoss, TreeAggregation
from taciturn.validation import Array, choice, integer, number

__all__ = [
    "Account",
    "Budget",
    "BudgetSpent",
    "Ledger",
    "Levels",
]

ROUNDING = 1e-9  # of a budget: three messages of 0.1 fit into 0.3
NOTHING_HIDDEN = PrivacyLoss("none", math.inf, math.inf)
NOTES: dict[type, str] = {
    Memoized: "not counted: an answer that changes reveals that the value changed",
    TreeAggregation: "a message is a whole stream",
}


# What is counted.


@dataclass
class Account:
    """Messages on one channel that cost the same.

    Attributes:
        channel: its name.
        loss: what one message costs, at the channel's unit of adjacency.
        events: how many events a message is about; None: not stated.
        everyone: int64[B], messages that every agent sent.
        each: int64[B, N] or None, messages beyond those, by agent.
        most: no agent has sent more since the account was opened, whatever was reset.
    """

    channel: str
    loss: PrivacyLoss
    events: int | None
    everyone: Array
    each: Array | None = None
    most: int = 0

    @property
    def kind(self) -> str:
        """The mechanism's kind."""
        return self.loss.kind

    def messages(self) -> Array:
        """int64[B, N], or [B, 1] if all agents sent as many."""
        return self.everyone[:, None] if self.each is None else self.everyone[:, None] + self.each

    def most_sent(self) -> Array:
        """int64[B], messages of the agent that sent most."""
        return self.everyone if self.each is None else self.everyone + self.each.max(1)

    def add(self, everyone: Array | None, each: Array | None) -> None:
        """Count messages of every agent, bool[B] or int[B], and by agent, bool[B, N] or int[B, N]."""
        if everyone is not None:
            self.everyone += everyone
            self.most += _largest(everyone)
        if each is not None:
            self.each = np.zeros(each.shape, np.int64) if self.each is None else self.each
            self.each += each
            self.most += _largest(each)

    def reset(self, where: Array) -> None:
        """Forget the replicas that `where` bool[B] marks."""
        self.everyone[where] = 0
        if self.each is not None:
            self.each[where] = 0


@dataclass
class Levels:
    """Pure messages on one channel, whose senders choose epsilon themselves.

    Attributes:
        channel: its name.
        kind: the mechanism's kind.
        zcdp: rho of a message, per squared epsilon.
        events: how many events a message is about; None: not stated.
        sent: int64[B, N], messages, but for those of the last charges.
        epsilon, squares: float64[B, N], sums of epsilon and of its square.
        largest: float64[B, N], the largest epsilon.
        recent: uint8[B, N], messages of the last `charges` < 256 charges: bytes add up ten times faster than int64.
    """

    channel: str
    kind: str
    zcdp: float
    events: int | None
    sent: Array
    epsilon: Array
    squares: Array
    largest: Array
    recent: Array
    charges: int = 0

    @property
    def loss(self) -> PrivacyLoss:
        """The costliest message so far."""
        epsilon = float(self.largest.max(initial=0))
        return PrivacyLoss("chosen", epsilon, self.zcdp * epsilon**2)

    def messages(self) -> Array:
        """int64[B, N]."""
        self.sent += self.recent
        self.recent[...] = self.charges = 0
        return self.sent

    def most_sent(self) -> Array:
        """int64[B], messages of the agent that sent most."""
        return np.asarray(self.messages().max(1))

    def add(self, epsilons: Array) -> None:
        """Count one message of each agent whose epsilon, [B, N], is not 0."""
        if self.charges == 255:
            self.messages()
        self.recent += (epsilons > 0).view(np.uint8)
        self.charges += 1
        self.epsilon += epsilons
        self.squares += epsilons * epsilons
        np.maximum(self.largest, epsilons, out=self.largest)

    def reset(self, where: Array) -> None:
        """Forget the replicas that `where` bool[B] marks."""
        for sums in (self.sent, self.epsilon, self.squares, self.largest, self.recent):
            sums[where] = 0


class Ledger:
    """What each agent has sent on which channel, and what it costs.

    A mechanism's channel charges each message as it is sent. A channel that nobody ever charged has no mechanism: its own counts are
    read, at an infinite loss.

    Args:
        num_envs: replicas, B.
        agents: how many agents send, N; or `{role: N}` where several roles do.
        channels: the population's channels.
        senders: `{channel: role}`, needed where several roles send.

    Attributes:
        accounts: what was charged.
    """

    def __init__(
        self,
        num_envs: int,
        agents: int | Mapping[str, int],
        channels: Iterable[CountedChannel],
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
        self.senders = {
            name: choice(f"senders[{name!r}]", (senders or {}).get(name, sole), self.agents) for name in self.channels
        }
        self.accounts: list[Account | Levels] = []
        self._found: dict[tuple[Any, ...], Account] = {}
        self._levels: dict[tuple[Any, ...], Levels] = {}
        self._spent: dict[tuple[Any, ...], tuple[float, float]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_found": {}}

    # While a run goes on.

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
            channel: on which.
            loss: what one of them costs at the channel's unit. Without counts, only says that this is what messages will cost.
            everyone: messages of every agent, bool[B] or int[B].
            each: messages by agent, bool[B, N] or int[B, N].
            events: how many events one message is about: at user level it costs what a change of all of them costs.

        Raises:
            ValueError: an unknown channel, counts of another shape or type, or below 0; nothing is counted then.
        """
        shape = self._shape(channel)
        if everyone is not None:
            _check_counts("everyone", everyone, shape[:1])
        if each is not None:
            _check_counts("each", each, shape)
        account = self._found.get((channel, id(loss), events)) or self._account(channel, loss, events)
        account.add(everyone, each)

    def charge_levels(
        self, channel: str, epsilons: Array, *, kind: str = "pure", zcdp: float = 0.5, events: int | None = None
    ) -> None:
        """Count one message of each agent at a pure epsilon of its own choice.

        Args:
            channel: on which.
            epsilons: float64[B, N]; 0 where an agent sends nothing, inf where it uses no mechanism.
            kind: of the mechanism.
            zcdp: rho of a message, per squared epsilon: 1/2 whatever the mechanism (Bun & Steinke 2016).
            events: as for `charge`.

        Raises:
            ValueError: an unknown channel, epsilons of another shape, below 0 or NaN; nothing is counted then.
        """
        shape = self._shape(channel)
        if not _is_array(epsilons, shape, "f"):
            raise ValueError(f"epsilons must be a float array of shape {shape}, not {_described(epsilons)}")
        if not epsilons.min() >= 0:
            raise ValueError(f"epsilons must be >= 0, not {epsilons.min()}")
        account = self._levels.get((channel, kind, zcdp, events))
        if account is None:
            number("zcdp", zcdp, above=0, at_most=0.5)
            _check_events(events)
            sent, recent = np.zeros(shape, np.int64), np.zeros(shape, np.uint8)
            epsilon, squares, largest = np.zeros((3, *shape))
            account = Levels(channel, kind, zcdp, events, sent, epsilon, squares, largest, recent)
            self.accounts.append(account)
            self._levels[channel, kind, zcdp, events] = account
        account.add(epsilons)

    def reset(self, where: Array | None = None) -> None:
        """Forget what was spent in the replicas that `where` bool[B] marks (default: in all): other agents will play there."""
        where = np.ones(self.num_envs, np.bool_) if where is None else where
        if not _is_array(where, (self.num_envs,), "b"):
            raise ValueError(f"where must be a bool array of shape {(self.num_envs,)}, not {_described(where)}")
        for account in self.accounts:
            account.reset(where)
        self._spent = {key: value for key, value in self._spent.items() if value[0] < math.inf}

    def _account(self, channel: str, loss: PrivacyLoss, events: int | None) -> Account:
        """The account of messages that cost what `loss` says, opened if need be."""
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

    # When somebody asks.

    @property
    def per_message(self) -> dict[str, PrivacyLoss]:
        """What the costliest message of each channel costs; nothing is protected where nobody charged."""
        return {
            name: max((a.loss for a in self._of(name)), key=lambda loss: (loss.epsilon, loss.rho))
            for name in self.channels
        }

    def sent_by(self, role: str) -> list[Account | Levels]:
        """The accounts of all channels on which a role's agents send."""
        return [a for name, sender in self.senders.items() if sender == role for a in self._of(name)]

    def messages(self, channel: str) -> Array:
        """Messages of each agent on a channel, int64[B, N]."""
        shape = self._shape(channel)
        return _added(self._of(channel), shape)

    def total(
        self,
        delta: float = 1e-6,
        by: str | float = "agent",
        method: Method = "rdp",
        *,
        unit: Unit | None = None,
        observer: Observer | None = None,
        channel: str | None = None,
        role: str | None = None,
        worst: int = 8,
    ) -> Any:
        """Epsilon of all that agents sent: an upper bound, at `delta`.

        Args:
            delta: of (epsilon, delta)-DP; at 0, only pure messages have a finite total.
            by: `agent`: float64[B, N]. Else float64[B]: `max` of the agents, which is what the population as a whole guarantees; `mean`;
                or a quantile in [0, 1].
            method: `basic` sum; `advanced` composition; `zcdp`; `rdp`; or `pld`, with dp-accounting. Each also takes what `basic` gives,
                `rdp` what `zcdp` gives, and `pld` what `rdp` gives, where that is less: all are upper bounds.
            unit: `event`: one event changes, and enters at most one message of a `disjoint` channel. `user`: an agent's whole history
                changes; a message then costs what all its `events` cost, and one that is not local and about an unstated number of them
                costs inf. None: every message counts, at its channel's own unit.
            observer: who reads: count channels to `observer` and to the public only. None: whoever reads all of them.
            channel: count this one only.
            role: whose totals, where several roles send; None: of each, in a dict.
            worst: agents with this many different histories, of the highest totals, get a privacy loss distribution of their own; all
                others share one that dominates them.

        Returns:
            An array, or `{role: array}` where several roles send and `role` is None.
        """
        delta = number("delta", delta, at_least=0, below=1)
        choice("method", method, METHODS)
        if isinstance(by, str):
            choice("by", by, ("agent", "max", "mean"))
        else:
            by = number("by", by, at_least=0, at_most=1)
        choice("unit", unit, (None, *get_args(Unit)))
        choice("observer", observer, (None, *get_args(Observer)))
        choice("channel", channel, (None, *self.channels))
        choice("role", role, (None, *self.agents))
        integer("worst", worst, at_least=1)
        if role is None and len(self.agents) > 1:
            settings: dict[str, Any] = {"unit": unit, "observer": observer, "channel": channel, "worst": worst}
            return {name: self.total(delta, by, method, role=name, **settings) for name in self.agents}
        role = role or next(iter(self.agents))
        read = [
            c.name
            for c in self.channels.values()
            if channel in (None, c.name) and (observer is None or c.observer in (observer, "public"))
        ]
        accounts = [a for name in read if self.senders[name] == role for a in self._of(name)]
        if by == "max":
            return self._epsilons(accounts, delta, method, unit, worst, top=True).max(1)
        total = self._epsilons(accounts, delta, method, unit, worst)
        return _reduced(np.broadcast_to(total, (self.num_envs, self.agents[role])).copy(), by)

    def table(
        self, delta: float = 1e-6, methods: Sequence[Method] = ("basic", "advanced", "zcdp", "rdp")
    ) -> list[dict[str, Any]]:
        """One row for each channel and mechanism, then one for all channels of a role together; plain values.

        Messages are the mean and the largest number over agents and replicas; so are totals, at `delta`, by each method. `note` says what
        the numbers do not.
        """
        delta = number("delta", delta, at_least=0, below=1)
        for method in methods:
            choice("method", method, METHODS)
        rows = []
        for role in self.agents:
            every: list[Account | Levels] = []
            for name in (name for name in self.channels if self.senders[name] == role):
                accounts = self._of(name)
                every += accounts
                channel = self.channels[name]
                labels = {"channel": name, "role": role, "observer": channel.observer, "unit": channel.unit}
                for kind in dict.fromkeys(a.kind for a in accounts):
                    summary = self._summary([a for a in accounts if a.kind == kind], role, delta, methods)
                    rows.append(labels | {"mechanism": kind} | summary | {"note": _note(channel, kind)})
            if every:
                labels = {"channel": "all", "role": role, "observer": "all", "unit": "", "mechanism": "all"}
                rows.append(labels | self._summary(every, role, delta, methods) | {"note": ""})
        return rows

    def csv(self, delta: float = 1e-6, methods: Sequence[Method] = ("basic", "advanced", "zcdp", "rdp")) -> str:
        """`table` as comma-separated text."""
        rows = self.table(delta, methods)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _summary(
        self, accounts: list[Account | Levels], role: str, delta: float, methods: Sequence[Method]
    ) -> dict[str, Any]:
        shape = (self.num_envs, self.agents[role])
        messages = _added(accounts, shape)
        dearest = max((a.loss for a in accounts), key=lambda loss: (loss.epsilon, loss.rho))
        summary: dict[str, Any] = {
            "messages_mean": float(messages.mean()),
            "messages_max": int(messages.max()),
            "epsilon_per_message": float(dearest.epsilon),
            "rho_per_message": float(dearest.rho),
            "delta": delta,
        }
        for method in methods:
            total = np.broadcast_to(self._epsilons(accounts, delta, method, None, 8), shape).copy()
            summary |= {f"{method}_mean": float(total.mean()), f"{method}_max": float(total.max())}
        return summary

    def _of(self, name: str) -> list[Account | Levels]:
        """What passed on a channel."""
        accounts = [a for a in self.accounts if a.channel == name]
        if accounts:
            return accounts
        channel = self.channels[name]
        everyone = channel.everyone if channel.everyone.size else np.zeros(self.num_envs, np.int64)
        return [Account(name, NOTHING_HIDDEN, None, everyone, channel.each)]

    def _shape(self, channel: str) -> tuple[int, int]:
        """[B, N] of a channel; raises ValueError where there is none of that name."""
        if channel not in self.channels:
            choice("channel", channel, self.channels)
        return self.num_envs, self.agents[self.senders[channel]]

    def _epsilons(
        self,
        accounts: list[Account | Levels],
        delta: float,
        method: Method,
        unit: Unit | None,
        worst: int,
        *,
        top: bool = False,
    ) -> Array:
        """Totals [B, N], worked out once for each distinct row of counts; [B, 1] if all agents sent the same.

        `top`: [B, 1] also where agents differ on one account alone. Totals grow with counts, so the agent that sent most there spent most.
        """
        top = top and sum(isinstance(a, Levels) or a.each is not None for a in accounts) == 1
        counted: list[tuple[str | None, PrivacyLoss, Array]] = []  # the channel if its messages are parallel
        chosen: list[tuple[Array, ...]] = []
        for a in accounts:
            parallel = unit == "event" and self.channels[a.channel].disjoint
            size: int | None = 1
            if unit == "user" and self.channels[a.channel].unit == "event":
                size = a.events or (1 if a.kind in LOCAL else None)
            if isinstance(a, Account):
                loss = NOTHING_HIDDEN if size is None else group(a.loss, size)
                messages = a.most_sent()[:, None] if top else a.messages()
                counted.append((a.channel, loss, np.minimum(messages, 1)) if parallel else (None, loss, messages))
            else:
                chosen.append(_chosen(a, parallel, size))
        columns = [column for _, _, column in counted] + [column for four in chosen for column in four]
        shape = np.broadcast_shapes((self.num_envs, 1), *(column.shape for column in columns))
        rows, code = _distinct([np.broadcast_to(column, shape).ravel() for column in columns], math.prod(shape))

        def picked(column: Array) -> Array:
            return np.broadcast_to(column, shape).ravel()[rows]

        groups = []
        for channel in dict.fromkeys(channel for channel, _, _ in counted):
            same = [(loss, picked(column)) for c, loss, column in counted if c == channel]
            counts = np.stack([column for _, column in same], -1).astype(np.float64)
            groups.append(Group([loss for loss, _ in same], counts, channel is not None))
        sums = np.zeros((len(rows), 4))
        for four in chosen:
            sums += np.stack([picked(column) for column in four], -1)
        history = History(groups, sums)
        total = history.bound(delta, method)
        if method == "pld" and delta > 0:
            total = history.tightened(total, delta, worst)
        return np.asarray(total[code].reshape(shape))


def _note(channel: CountedChannel, kind: str) -> str:
    """What the totals of a channel do not say."""
    if kind == "none":
        return "nothing is hidden"
    notes = [NOTES.get(type(channel.config.mechanism), "")]
    notes += ["disjoint: at event level all messages cost what the costliest does"] * channel.disjoint
    return "; ".join(filter(None, notes))


def _largest(counts: Array) -> int:
    """At least the largest count, without a look at those that are bool."""
    return 1 if counts.dtype.kind == "b" else int(counts.max(initial=0))


def _added(accounts: Iterable[Account | Levels], shape: tuple[int, int]) -> Array:
    """Messages of all accounts, int64[B, N]."""
    total = np.zeros(shape, np.int64)
    for account in accounts:
        total += account.messages()
    return total


def _chosen(levels: Levels, parallel: bool, size: int | None) -> tuple[Array, Array, Array, Array]:
    """Sums [B, N] of epsilon, drift (a bound), squares and rho, when `size` events may change at once (None: any number)."""
    if size is None:
        nothing_hidden = np.where(levels.messages() > 0, math.inf, 0.0)
        return (nothing_hidden,) * 4
    if parallel:
        epsilon, squares = levels.largest, levels.largest**2
    else:
        epsilon, squares = size * levels.epsilon, size**2 * levels.squares
    return epsilon, np.minimum(squares / 2, epsilon), squares, levels.zcdp * squares


def _distinct(columns: list[Array], size: int) -> tuple[Array, Array]:
    """Where each distinct row of `columns` occurs first, [R], and which of them each row is, int[size]."""
    rows, code = np.zeros(1, np.int64), np.zeros(size, np.int64)
    for column in columns:
        values, which = np.unique(column, return_inverse=True)
        _, rows, code = np.unique(code * len(values) + which, return_index=True, return_inverse=True)
    return rows, code


def _reduced(total: Array, by: str | float) -> Array:
    if by == "agent":
        return total
    if by == "mean":
        return total.mean(1)
    return np.quantile(total, float(by), axis=1, method="higher")


def _described(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def _is_array(value: Any, shape: tuple[int, ...], kinds: str) -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype.kind in kinds


def _check_counts(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if not _is_array(value, shape, "biu"):
        raise ValueError(f"{name} must be an integer or bool array of shape {shape}, not {_described(value)}")
    if value.dtype.kind == "i" and value.min() < 0:
        raise ValueError(f"{name} must be >= 0, not {value.min()}")


def _check_events(events: Any) -> None:
    if events is not None:
        integer("events", events, at_least=1)


# Budgets.


@lru_cache(1024)
def _divergence(loss: PrivacyLoss, order: float) -> float:
    return float(loss.rdp(np.array([order]))[0])


class BudgetSpent(RuntimeError):  # noqa: N818 - it is no mistake of anybody
    """An agent was about to overspend its budget."""


@dataclass(frozen=True)
class Budget:
    """What an agent may spend: a filter that stops it before the message that would overspend.

    Messages may be chosen in the light of earlier ones: the filters hold under fully adaptive composition. `basic` adds epsilons; `zcdp`
    adds rhos and `rdp` Renyi divergences of one order, fixed beforehand by epsilon and delta (the Renyi filter of Feldman & Zrnic 2021), at
    which `rdp` admits all that `zcdp` admits. `basic` admits more where a few large messages spend the budget, the others where many
    small ones do: see `messages`.

    Args:
        epsilon: > 0.
        delta: >= 0; `zcdp` and `rdp` need > 0.
        when_spent: what happens to an agent that would overspend: its messages stay unsent (`silent`), its replica ends (`truncate`), or
            BudgetSpent is raised (`raise`).
        method: the composition.
    """

    epsilon: float
    delta: float = 0.0
    when_spent: Literal["silent", "truncate", "raise"] = "silent"
    method: Literal["basic", "zcdp", "rdp"] = "basic"

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, above=0)
        number("delta", self.delta, at_least=0, below=1)
        choice("when_spent", self.when_spent, ("silent", "truncate", "raise"))
        choice("method", self.method, ("basic", "zcdp", "rdp"))
        if self.method != "basic" and self.delta == 0:
            raise ValueError(f"delta must be > 0 where method is {self.method!r}, not {self.delta!r}")

    @cached_property
    def order(self) -> float:
        """The order of Renyi divergence that allows the largest rho."""
        return float(ORDERS[np.argmax(self._divergences() / ORDERS)])

    @cached_property
    def limit(self) -> float:
        """What costs may add up to: epsilon; rho; or the divergence at `order`."""
        if self.method == "basic":
            return self.epsilon
        limit = max(float(self._divergences()[self.order == ORDERS][0]), 0.0)
        return limit if self.method == "rdp" else limit / self.order

    @cached_property
    def _room(self) -> float:
        """`limit`, with what is left to rounding."""
        return self.limit * (1 + ROUNDING)

    def _divergences(self) -> Array:
        """What each of ORDERS allows at (epsilon, delta): `rdp_epsilon` solved for the divergence."""
        allowed: Array = self.epsilon - np.log1p(-1 / ORDERS) + (math.log(self.delta) + np.log(ORDERS)) / (ORDERS - 1)
        return allowed

    def cost(self, loss: PrivacyLoss) -> float:
        """Of one message, in the unit of `limit`."""
        if self.method == "rdp":
            return _divergence(loss, self.order)
        return float(loss.epsilon if self.method == "basic" else loss.rho)

    def _cost_of_levels(self, epsilon: Array, rho: Array) -> Array:
        """Of sums of messages of chosen levels, whose divergence of order alpha is at most alpha rho."""
        if self.method == "rdp":
            return self.order * rho
        return epsilon if self.method == "basic" else rho

    def messages(self, loss: PrivacyLoss) -> float:
        """How many messages at `loss` fit into an untouched budget; inf if they cost nothing."""
        cost = self.cost(loss)
        return math.inf if cost == 0 else float(math.floor(self._room / cost))

    def spent(self, ledger: Ledger, channel: str | None = None) -> Array:
        """What agents have spent on a channel (None: on all), in the unit of `limit`: float64[B, N], or [B, 1] if all spent the same.

        Raises:
            ValueError: an unknown channel, or channels with senders of several roles.
        """
        choice("channel", channel, (None, *ledger.channels))
        names = [name for name in ledger.channels if channel in (None, name)]
        if len({ledger.senders[name] for name in names}) > 1:
            raise ValueError(
                f"channel must be named where several roles send, one of {', '.join(map(repr, names))}, not None"
            )
        total = np.zeros((ledger.num_envs, 1))
        for account in (a for name in names for a in ledger._of(name)):
            if isinstance(account, Account):
                messages, cost = account.messages(), self.cost(account.loss)
                total = total + (messages * cost if math.isfinite(cost) else np.where(messages > 0, cost, 0.0))
            else:
                total = total + self._cost_of_levels(account.epsilon, account.zcdp * account.squares)
        return total

    def allows(self, ledger: Ledger, loss: PrivacyLoss | Array, channel: str | None = None) -> Array:
        """Which agents can afford one more message.

        Args:
            ledger: what was spent.
            loss: of the message; or the epsilons, float64[B, N], that agents choose for it.
            channel: which the budget is for; None: all together.

        Returns:
            bool[B, N], or [B, 1] if all spent the same.
        """
        accounts = [account for account in ledger.accounts if account.channel == channel]
        if isinstance(loss, PrivacyLoss) and len(accounts) == 1 and isinstance(accounts[0], Account):
            account, cost = accounts[0], self.cost(loss)
            unit = self.cost(account.loss)
            if cost < math.inf and 0 < unit < math.inf:
                fit = math.floor((self._room - cost) / unit) - account.everyone[:, None]
                return fit >= (0 if account.each is None else account.each)
        costs = self.cost(loss) if isinstance(loss, PrivacyLoss) else self._cost_of_levels(loss, loss**2 / 2)
        return self.spent(ledger, channel) + costs <= self._room

    def _everybody_may(self, ledger: Ledger, loss: PrivacyLoss, channel: str) -> bool:
        """Whether all agents can afford one more message, found without a look at them while nobody can have come near the limit.

        The most that anybody had spent when agents were last looked at, and what an agent can have spent since.
        """
        spent, then = ledger._spent.get((self, channel), (0.0, 0.0))
        accounts = [account for account in ledger.accounts if account.channel == channel]
        counted = [account for account in accounts if isinstance(account, Account)]
        if spent == math.inf or not counted or len(counted) < len(accounts):
            return False
        most = sum(account.most * self.cost(account.loss) for account in counted if account.most)
        if spent + (most - then) + self.cost(loss) <= self.limit:
            return True
        everybody = bool(self.allows(ledger, loss, channel).all())
        ledger._spent[self, channel] = (float(self.spent(ledger, channel).max()) if everybody else math.inf, most)
        return everybody

    def admit(
        self, ledger: Ledger, loss: PrivacyLoss | Array, senders: Array, channel: str | None = None
    ) -> tuple[Array, Array]:
        """Which of the agents who would send may, before anything is sent or charged.

        Args:
            ledger, loss, channel: as for `allows`.
            senders: who would send, bool[B, N].

        Returns:
            (admitted bool[B, N], ended bool[B]): who sends, and which replicas end because somebody could not (only if `truncate`).

        Raises:
            BudgetSpent: somebody could not, and `when_spent` is `raise`.
        """
        if channel is not None and isinstance(loss, PrivacyLoss) and self._everybody_may(ledger, loss, channel):
            return senders, np.zeros(ledger.num_envs, np.bool_)
        admitted = senders & self.allows(ledger, loss, channel)
        if self.when_spent == "silent":
            return admitted, np.zeros(ledger.num_envs, np.bool_)
        refused = senders & ~admitted
        if self.when_spent == "raise" and refused.any():
            replica, agent = np.argwhere(refused)[0]
            raise BudgetSpent(
                f"agent {agent} of replica {replica} cannot send on {channel or 'any channel'}: "
                f"its budget of epsilon={self.epsilon:g} at delta={self.delta:g} is spent ({self.method} composition)"
            )
        return admitted, np.asarray(refused.any(1))
