"""The composed cost of the messages that an accountant has counted."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from taciturn.privacy.accounts import NOTHING_HIDDEN, Account, Accounts, Levels
from taciturn.privacy.channels import SendingChannel, Unit
from taciturn.privacy.composition import METHODS, History, MessageCounts, Method
from taciturn.privacy.losses import LOCAL, PrivacyLoss
from taciturn.privacy.stateful import Blocks, TreeAggregation
from taciturn.validation import Array, Floats, Ints, choice, number

Bound = Callable[[History], Floats]  # epsilon of each row

SILENCE = "whether, when or what about an agent sends may depend on its private data"
STREAM = "a message is a whole stream, of which one event enters one value"
NOTES: dict[type, str] = {TreeAggregation: STREAM, Blocks: STREAM}


def epsilons(accountant: Any, accounts: Accounts, bound: Bound, unit: Unit | None, *, top: bool = False) -> Array:
    """Bounds [B, N], computed once for each distinct row of counts; [B, 1] if all agents have sent the same.

    With `top`, only the largest bound of each replica is needed. Bounds grow with the counts: if agents differ on a
    single account, the agent with the most messages there has the largest bound, [B, 1].
    """
    read = [accountant.channels[a.channel] for a in accounts]
    if any(channel.silence_leaks or channel.unbounded for channel in read):
        return np.full((accountant.num_envs, 1), math.inf)
    top = top and sum(isinstance(a, Levels) or a.each is not None for a in accounts) == 1
    counted: list[tuple[str | None, PrivacyLoss, Ints]] = []  # the channel, if its messages compose in parallel
    chosen: list[tuple[Floats, ...]] = []
    costliest: dict[str, tuple[Floats, ...]] = {}  # by channel, for messages that compose in parallel
    for a in accounts:
        parallel = unit == "event" and accountant.channels[a.channel].disjoint
        size: int | None = 1
        if unit == "user" and accountant.channels[a.channel].unit == "event":
            size = a.events or (1 if a.kind in LOCAL else None)
        if changes_show(accountant.channels[a.channel]):
            size = None
        if isinstance(a, Account):
            loss = NOTHING_HIDDEN if size is None else a.loss.group(size)
            messages = a.most_sent()[:, None] if top else a.messages()
            counted.append((a.channel, loss, np.minimum(messages, 1)) if parallel else (None, loss, messages))
        else:
            four: tuple[Floats, ...] = a.sums(parallel, size, top)
            if parallel:
                costliest[a.channel] = tuple(map(np.maximum, costliest.get(a.channel, four), four))
            else:
                chosen.append(four)
    chosen += costliest.values()
    columns = [column for _, _, column in counted] + [column for one in chosen for column in one]
    shape = np.broadcast_shapes((accountant.num_envs, 1), *(column.shape for column in columns))
    rows, code = distinct([np.broadcast_to(column, shape).ravel() for column in columns], math.prod(shape))

    def picked(columns: Iterable[Array]) -> Array:
        return np.stack([np.broadcast_to(column, shape).ravel()[rows] for column in columns], -1)

    groups = []
    for channel in dict.fromkeys(channel for channel, _, _ in counted):
        losses, same = zip(*((loss, column) for c, loss, column in counted if c == channel), strict=True)
        groups.append(MessageCounts(list(losses), picked(same).astype(np.float64), channel is not None))
    sums = np.zeros((len(rows), 4))
    for one in chosen:
        sums += picked(one)
    return np.asarray(bound(History(groups, sums))[code].reshape(shape))


def table(accountant: Any, delta: float, methods: Sequence[Method]) -> list[dict[str, Any]]:
    """See `Accountant.table`."""
    delta = number("delta", delta, at_least=0, below=1)
    for method in methods:
        choice("method", method, METHODS)
    rows = []
    for role in accountant.agents:
        every: Accounts = []
        for name in (name for name in accountant.channels if accountant.senders[name] == role):
            accounts = accountant.accounts_of(name)
            every += accounts
            channel = accountant.channels[name]
            labels = {"channel": name, "role": role, "observer": channel.observer, "unit": channel.unit}
            for kind in dict.fromkeys(a.kind for a in accounts):
                result = summary(accountant, [a for a in accounts if a.kind == kind], role, delta, methods)
                rows.append(labels | {"mechanism": kind} | result | {"note": note(channel, kind)})
        if every:
            labels = {"channel": "all", "role": role, "observer": "all", "unit": "", "mechanism": "all"}
            rows.append(labels | summary(accountant, every, role, delta, methods) | {"note": ""})
    return rows


def summary(accountant: Any, accounts: Accounts, role: str, delta: float, methods: Sequence[Method]) -> dict[str, Any]:
    """Messages and totals of some accounts of a role, as plain values."""
    shape = (accountant.num_envs, accountant.agents[role])
    messages = added(accounts, shape)
    sent = [a for a in accounts if a.messages().any()] or accounts
    dearest = max((a.loss for a in sent), key=lambda loss: (loss.epsilon, loss.rho))
    summary: dict[str, Any] = {
        "messages_mean": float(messages.mean()),
        "messages_max": int(messages.max()),
        "epsilon_per_message": float(dearest.epsilon),
        "rho_per_message": float(dearest.rho),
        "delta": delta,
    }
    for method in methods:
        total = np.broadcast_to(epsilons(accountant, accounts, partial(total_by, delta, method, 8), None), shape).copy()
        summary |= {f"{method}_mean": float(total.mean()), f"{method}_max": float(total.max())}
    return summary


def changes_show(channel: SendingChannel) -> bool:
    """Whether answers on a channel reveal changes of a private value: its mechanism repeats them, and no budget stops
    it after the first."""
    config = channel.config
    return config.mechanism is not None and config.mechanism.changes_leak and config.budget is None


def total_by(delta: float, method: Method, worst: int, history: History) -> Floats:
    """Epsilon of each row of a history by `method`."""
    total = history.bound(delta, method)
    return history.tightened(total, delta, worst) if method == "pld" and delta > 0 else total


def note(channel: SendingChannel, kind: str) -> str:
    """A note on what the totals of a channel leave out."""
    if kind == "none":
        return "nothing is hidden"
    notes = [NOTES.get(type(channel.config.mechanism), "")]
    notes += ["disjoint: at event level all messages together cost as much as the costliest"] * channel.disjoint
    notes += ["infinite: an answer that changes reveals that the value changed"] * changes_show(channel)
    notes += [f"infinite: {SILENCE}"] * channel.silence_leaks
    notes += [f"given {channel.given}"] * bool(channel.given)
    notes += [f"infinite: {channel.unbounded}"] * bool(channel.unbounded)
    return "; ".join(filter(None, notes))


def added(accounts: Accounts, shape: tuple[int, int]) -> Ints:
    """Messages on all accounts, int64[B, N]."""
    total = np.zeros(shape, np.int64)
    for account in accounts:
        total += account.messages()
    return total


def distinct(columns: list[Array], size: int) -> tuple[Ints, Ints]:
    """The index of the first occurrence of each distinct row of `columns`, int[R], and for each row the position of the
    equal row among these, int[size] (`return_index` and `return_inverse` of `np.unique`)."""
    rows, code = np.zeros(1, np.int64), np.zeros(size, np.int64)
    for column in columns:
        if (column == column[0]).all():  # fast for agents that behave alike; sorting would take much longer
            continue
        values, which = np.unique(column, return_inverse=True)
        _, rows, code = np.unique(code * len(values) + which, return_index=True, return_inverse=True)
    return rows, code
