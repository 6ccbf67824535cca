"""Budgets: filters that stop an agent before a message that would overspend."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from taciturn.privacy import checks
from taciturn.privacy.accountant import Accountant
from taciturn.privacy.accounts import Account
from taciturn.privacy.composition import ORDERS
from taciturn.privacy.losses import PrivacyLoss
from taciturn.validation import Bools, Floats, NamesUnknown, choice, number

ROUNDING = 1e-9  # relative: three messages of 0.1 fit into a budget of 0.3


@lru_cache(1024)
def _divergence(loss: PrivacyLoss, order: float) -> float:
    return float(loss.rdp(np.array([order]))[0])


class BudgetSpent(RuntimeError):  # noqa: N818 - an event of the run, not an error
    """An agent was about to overspend its budget."""


@dataclass(frozen=True)
class Budget(metaclass=NamesUnknown):
    """A privacy budget: a filter that stops an agent before a message that would overspend.

    The filters hold under fully adaptive composition: messages, their mechanisms and the moment to stop may depend on
    earlier messages, and a run spends at most (epsilon, delta) at any stopping time. `basic` adds epsilons (Rogers,
    Roth, Ullman & Vadhan 2016), `zcdp` adds rhos (Whitehouse, Ramdas, Rogers & Wu 2023, Theorem 1), and `rdp` adds
    Renyi divergences of one order, fixed in advance by epsilon and delta (the Renyi filter of Feldman & Zrnic 2021); at
    that order `rdp` admits all that `zcdp` admits. If all messages cost the same, `messages` gives a number fixed in
    advance, so any method of `Accountant.epsilon` is valid for their total. `basic` admits more if the budget is spent
    on a few large messages, the others if it is spent on many small ones.

    Args:
        epsilon: > 0.
        delta: >= 0; > 0 for `zcdp` and `rdp`.
        when_spent: the action if an agent would overspend: its messages stay unsent (`silent`), its replica ends
            (`truncate`), or BudgetSpent is raised (`raise`).
        method: how messages compose.
    """

    epsilon: float
    delta: float = 0.0
    when_spent: Literal["silent", "truncate", "raise"] = "silent"
    method: Literal["basic", "zcdp", "rdp"] = "basic"

    def __post_init__(self) -> None:
        checks.level("epsilon", self.epsilon)
        number("delta", self.delta, at_least=0, below=1)
        choice("when_spent", self.when_spent, ("silent", "truncate", "raise"))
        choice("method", self.method, ("basic", "zcdp", "rdp"))
        if self.method != "basic" and self.delta == 0:
            raise ValueError(f"delta must be > 0 where method is {self.method!r}, not {self.delta!r}")

    @cached_property
    def order(self) -> float:
        """The order of the Renyi divergence at which the budget admits the largest rho."""
        return float(ORDERS[np.argmax(self._divergences() / ORDERS)])

    @cached_property
    def limit(self) -> float:
        """Upper bound on the sum of the costs: an epsilon, a rho or a divergence of order `order`, by `method`."""
        if self.method == "basic":
            return self.epsilon
        limit = max(float(self._divergences()[self.order == ORDERS][0]), 0.0)
        return limit if self.method == "rdp" else limit / self.order

    @cached_property
    def _room(self) -> float:
        """`limit`, with an allowance for rounding."""
        return self.limit * (1 + ROUNDING)

    def _divergences(self) -> Floats:
        """The divergence that (epsilon, delta) allows at each of ORDERS: `rdp_epsilon` solved for the divergence."""
        allowed: Floats = self.epsilon - np.log1p(-1 / ORDERS) + (math.log(self.delta) + np.log(ORDERS)) / (ORDERS - 1)
        return allowed

    def cost(self, loss: PrivacyLoss) -> float:
        """Cost of one message, in the units of `limit`."""
        if self.method == "rdp":
            return _divergence(loss, self.order)
        return float(loss.epsilon if self.method == "basic" else loss.rho)

    def _cost_of_levels(self, epsilon: Floats, rho: Floats) -> Floats:
        """Cost of messages at chosen levels, from their sums; their divergence of order alpha is at most alpha rho."""
        if self.method == "rdp":
            return self.order * rho
        return epsilon if self.method == "basic" else rho

    def messages(self, loss: PrivacyLoss) -> float:
        """How many messages of this loss an unspent budget admits; inf if they cost nothing."""
        cost = self.cost(loss)
        return math.inf if cost == 0 else float(math.floor(self._room / cost))

    def spent(self, accountant: Accountant, channel: str | None = None) -> Floats:
        """The amounts that agents have spent on a channel (None: on all), in the units of `limit`.

        Returns:
            float64[B, N], or [B, 1] if all agents have spent the same.

        Raises:
            ValueError: the channel is unknown, or is None where several roles send.
        """
        choice("channel", channel, (None, *accountant.channels))
        names = [name for name in accountant.channels if channel in (None, name)]
        if len({accountant.senders[name] for name in names}) > 1:
            raise ValueError(
                f"channel must be named where several roles send, one of {', '.join(map(repr, names))}, not None"
            )
        total = np.zeros((accountant.num_envs, 1))
        for account in (a for name in names for a in accountant.accounts_of(name)):
            if isinstance(account, Account):
                messages, cost = account.messages(), self.cost(account.loss)
                total = total + (messages * cost if math.isfinite(cost) else np.where(messages > 0, cost, 0.0))
            else:
                total = total + self._cost_of_levels(account.epsilon, account.zcdp * account.squares)
        return total

    def allows(self, accountant: Accountant, loss: PrivacyLoss | Floats, channel: str | None = None) -> Bools:
        """Which agents can afford one more message.

        Args:
            accountant: the charges so far.
            loss: privacy loss of the message, or the epsilons that agents choose for it, float64[B, N].
            channel: the channel that the budget covers; None: all channels together.

        Returns:
            bool[B, N], or [B, 1] if all agents have spent the same.
        """
        accounts = [account for account in accountant.accounts if account.channel == channel]
        if isinstance(loss, PrivacyLoss) and len(accounts) == 1 and isinstance(accounts[0], Account):
            account, cost = accounts[0], self.cost(loss)
            unit = self.cost(account.loss)
            if cost < math.inf and 0 < unit < math.inf:
                fit = math.floor((self._room - cost) / unit) - account.everyone[:, None]
                return fit >= (0 if account.each is None else account.each)
        costs = self.cost(loss) if isinstance(loss, PrivacyLoss) else self._cost_of_levels(loss, loss**2 / 2)
        return self.spent(accountant, channel) + costs <= self._room

    def _all_can_afford(self, accountant: Accountant, loss: PrivacyLoss, channel: str) -> bool:
        """Whether all agents can afford one more message; their counts are read only if one may be near the limit.

        The accountant keeps the most that any agent had spent when the counts were last read; `most` bounds the
        spending since then.
        """
        spent, then = accountant._spent.get((self, channel), (0.0, 0.0))
        accounts = [account for account in accountant.accounts if account.channel == channel]
        counted = [account for account in accounts if isinstance(account, Account)]
        if spent == math.inf or not counted or len(counted) < len(accounts):
            return False
        most = sum(account.most * self.cost(account.loss) for account in counted if account.most)
        if spent + (most - then) + self.cost(loss) <= self.limit:
            return True
        everybody = bool(self.allows(accountant, loss, channel).all())
        accountant._spent[self, channel] = (
            float(self.spent(accountant, channel).max()) if everybody else math.inf,
            most,
        )
        return everybody

    def admit(
        self, accountant: Accountant, loss: PrivacyLoss | Floats, senders: Bools, channel: str | None = None
    ) -> tuple[Bools, Bools]:
        """The agents that may send, decided before anything is sent or charged.

        Args:
            accountant, loss, channel: as for `allows`.
            senders: the agents that are about to send, bool[B, N].

        Returns:
            (admitted bool[B, N], ended bool[B]): the agents that may send, and the replicas that end because an agent
            may not send (`truncate`).

        Raises:
            BudgetSpent: an agent may not send, and `when_spent` is `raise`.
        """
        if channel is not None and isinstance(loss, PrivacyLoss) and self._all_can_afford(accountant, loss, channel):
            return senders, np.zeros(accountant.num_envs, np.bool_)
        admitted = senders & self.allows(accountant, loss, channel)
        if self.when_spent == "silent":
            return admitted, np.zeros(accountant.num_envs, np.bool_)
        refused = senders & ~admitted
        if self.when_spent == "raise" and refused.any():
            replica, agent = np.argwhere(refused)[0]
            raise BudgetSpent(
                f"agent {agent} of replica {replica} cannot send on {channel or 'any channel'}: "
                f"its budget of epsilon={self.epsilon:g} at delta={self.delta:g} is spent ({self.method} composition)"
            )
        return admitted, np.asarray(refused.any(1))
