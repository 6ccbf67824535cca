"""The messages and epsilon of a run so far, under the same names in `info`, `Run.metrics`, studies and the command
line."""

import math
from collections.abc import Collection, Sequence
from functools import lru_cache, reduce

import numpy as np

from taciturn.privacy.accountant import Accountant
from taciturn.privacy.accounts import Accounts, Levels
from taciturn.privacy.base import Mechanism
from taciturn.privacy.channels import SendingChannel
from taciturn.privacy.composed import changes_show
from taciturn.privacy.composition import Method, message_epsilon
from taciturn.privacy.losses import PrivacyLoss
from taciturn.validation import Array, Floats, Ints

COVERS = "of one event, on all channels"
"""The coverage of the totals of `spending`, in words."""


def spending(
    channels: Collection[SendingChannel],
    accountant: Accountant | None,
    *,
    methods: Sequence[Method] = ("basic", "zcdp"),
    delta: float = 1e-5,
) -> dict[str, Array]:
    """The number of messages and their privacy cost in each replica so far.

    Epsilons are upper bounds against an observer who reads all channels. Each message counts at the unit of its own
    channel: `event` hides the change of one event, `user` the change of a user's whole local history. On a `disjoint`
    channel an event enters at most one message, so an agent's messages there cost as much as the costliest one. Pure
    epsilons hold at delta = 0; if a message is not pure (Gaussian noise), or if the composition needs a delta, they
    hold at `delta`.

    - `messages`, int64[B]: messages that all agents have sent on all channels.
    - `epsilon_message`, float64[B]: epsilon of the costliest message, 0 without messages.
    - `epsilon_basic`, `epsilon_zcdp`, ..., float64[B], one for each of `methods`: epsilon of all messages together, on
      all channels, of the agent that spent most (the maximum over roles, if several send), 0 without messages.

    Every epsilon is inf if a message was sent on a channel without a mechanism. Every total is inf if a channel is
    `unbounded` or has `silence_leaks`, even without messages, or if a memoised answer may change (see
    `Accountant.epsilon`). Mechanisms with state (`Memoized`, `TreeAggregation`) charge fewer messages than are sent:
    `messages` counts sent messages, and the epsilons count charges.

    Args:
        channels: the population's channels, which count the messages; at least one.
        accountant: their charges; None: no channel has a mechanism.
        methods: how messages compose, as for `Accountant.epsilon`; each gives the smallest bound by it or a simpler
            method.
        delta: in [0, 1).

    Returns:
        Arrays by name, in the order above.
    """
    messages = reduce(np.add, map(_sent, channels))
    if accountant is None:
        nothing_hidden = np.where(messages > 0, math.inf, 0.0)
        total = (
            np.full(messages.shape, math.inf)
            if any(channel.silence_leaks or channel.unbounded for channel in channels)
            else nothing_hidden
        )
        totals = {f"epsilon_{name}": total.copy() for name in methods}
        return {"messages": messages, "epsilon_message": nothing_hidden} | totals
    first, *others = (_spent_by(role, accountant, methods, delta) for role in accountant.agents)
    for other in others:
        first = {name: np.maximum(epsilon, other[name]) for name, epsilon in first.items()}
    return {"messages": messages} | first


def basic_cost(mechanism: Mechanism | None, messages: Ints) -> Floats:
    """Epsilon of `messages` messages of one sender under basic composition, float64 of their shape; inf without a
    mechanism."""
    epsilon = math.inf if mechanism is None else mechanism.loss().epsilon
    if mechanism is not None and mechanism.once:
        messages = np.minimum(messages, 1)
    return np.where(messages > 0, messages * epsilon if math.isfinite(epsilon) else math.inf, 0.0)


def _sent(channel: SendingChannel) -> Ints:
    """Messages of all senders on a channel, int64[B]."""
    sent = channel.everyone * channel.num_senders
    return sent if channel.each is None else sent + channel.each.sum(1)


def _spent_by(role: str, accountant: Accountant, methods: Sequence[Method], delta: float) -> dict[str, Floats]:
    """The epsilons of one role's agents, float64[B]."""
    accounts = accountant.sent_by(role)
    # The largest chosen level is 0 if none was sent.
    most = [account.largest.max(1) if isinstance(account, Levels) else account.most_sent() for account in accounts]
    costliest = np.zeros(accountant.num_envs)
    for account, result in zip(accounts, most, strict=True):
        dearest = (
            result if isinstance(account, Levels) else np.where(result > 0, _of_one_message(account.loss, delta), 0.0)
        )
        costliest = np.maximum(costliest, dearest)
    spent = {"epsilon_message": costliest}
    read = [accountant.channels[account.channel] for account in accounts]
    quick = not any(_is_impure(account.loss) for account in accounts)
    quick = quick and not any(one.silence_leaks or one.unbounded or changes_show(one) for one in read)
    for method in methods:
        if method == "basic" and quick:
            spent["epsilon_basic"] = _basic(accounts, most, accountant)
        else:
            spent[f"epsilon_{method}"] = accountant.epsilon(delta, "max", method, unit="event", role=role)
    return spent


def _basic(accounts: Accounts, most: list[Array], accountant: Accountant) -> Floats:
    """Basic composition of pure messages, for the agent that spent most: float64[B].

    Args:
        most: for each account, the messages of the agent that sent most, [B]; for chosen levels, the largest epsilon.
    """
    differing = [isinstance(account, Levels) or account.each is not None for account in accounts]
    # If agents differ on at most one account, the agent with the most messages there spent most in total.
    alike = sum(differing) <= 1
    total = np.zeros(accountant.num_envs) if alike else np.zeros((accountant.num_envs, 1))
    parallel: dict[str, Array] = {}
    cost: Array
    for account, count in zip(accounts, most, strict=True):
        disjoint = accountant.channels[account.channel].disjoint
        if isinstance(account, Levels):
            if disjoint and alike:
                cost = count
            else:
                cost = account.largest if disjoint else account.epsilon
                cost = cost.max(1) if alike else cost
        else:
            counts, epsilon = count if alike else account.messages(), account.loss.epsilon
            counts = np.minimum(counts, 1) if disjoint else counts
            cost = counts * epsilon if math.isfinite(epsilon) else np.where(counts > 0, epsilon, 0.0)
        if disjoint:
            parallel[account.channel] = np.maximum(parallel.get(account.channel, 0.0), cost)
        else:
            total = total + cost
    for cost in parallel.values():
        total = total + cost
    return total if alike else total.max(1)


def _is_impure(loss: PrivacyLoss) -> bool:
    """Whether the loss is finite only at a delta > 0."""
    return math.isinf(loss.epsilon) and loss.rho < math.inf


@lru_cache(1024)
def _of_one_message(loss: PrivacyLoss, delta: float) -> float:
    """Epsilon of one message at delta."""
    return float(message_epsilon(loss, np.array([delta]))[0]) if _is_impure(loss) else loss.epsilon
