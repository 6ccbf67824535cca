"""Ways for an agent to spend a privacy budget: the channels' mechanisms, and the epsilon of a message."""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from taciturn.bench.tasks import DELTA, PROTECTED
from taciturn.bench.tasks.benchmark import BudgetPlan
from taciturn.envs.core import ChannelConfig, Population
from taciturn.mechanism_names import parse_mechanism
from taciturn.privacy.budget import ROUNDING
from taciturn.validation import Floats
from taciturn.wrappers import Budget
from taciturn.wrappers.channels import private_config

MESSAGES = (1, 5, 25, 125, 625)
"""The numbers of equal messages to try."""


class Configuration(NamedTuple):
    """The epsilon of a message (NaN if senders or the policy choose it), and the channels' configurations."""

    level: float
    channels: dict[str, ChannelConfig]


@lru_cache
def level_of(mechanism: str, epsilon_budget: Budget, messages: int) -> float:
    """The largest epsilon of a message, in steps of 2%, at which `messages` messages fit into a budget; 0 if none
    does."""
    levels = [float(f"{level:.3g}") for level in np.geomspace(1e-3, 100.0, 583)]
    low, high = 0, len(levels)
    while low < high:
        middle = (low + high) // 2
        fits = epsilon_budget.messages(parse_mechanism(mechanism.format(levels[middle])).loss()) >= messages
        low, high = (middle + 1, high) if fits else (low, middle)
    return levels[low - 1] if low else 0.0


def own_configuration(policy: Any, world: Population[Any], epsilon_budget: float) -> Configuration | None:
    """The policy's own way to spend a budget (`Policy.within`); None if it has none."""
    within = getattr(policy, "within", None)
    result = within(world.view(policy), epsilon_budget) if within is not None else None
    if result is None:
        return None
    configs = {name: one if isinstance(one, ChannelConfig) else private_config(one) for name, one in result.items()}
    return Configuration(math.nan, configs)


def configurations(
    world: Population[Any], protected: BudgetPlan, epsilon_budget: float, numbers: Sequence[int] = MESSAGES
) -> Iterator[Configuration]:
    """The ways to spend a budget that do not depend on the policy.

    If each value enters one message, messages do not add up, and each may cost the whole budget. Otherwise a budget
    stops an agent before it overspends. Each of `numbers` is tried as the number of equal messages that fit into it, by
    basic or by Renyi composition; if senders choose their own levels (epsilon is then nan), there is nothing else to
    try. For streams there is no `Budget`: the channels share the epsilon equally, and any of `numbers` below the usual
    number of releases of a value is left out.
    """
    channels = [world.channels[name] for name in protected.channels]
    if not protected.mechanism:
        yield Configuration(
            math.nan, {name: ChannelConfig(budget=Budget(epsilon_budget)) for name in protected.channels}
        )
        return
    if all(channel.disjoint for channel in channels):
        yield Configuration(epsilon_budget, on_all(protected, epsilon_budget))
        return
    if any(channel.payload == "stream" for channel in channels):
        for releases in filter(protected.messages.__le__, numbers):
            level = epsilon_budget / (len(channels) * releases)
            yield Configuration(level, on_all(protected, level))
        return
    for messages in numbers:
        budgets = (Budget(epsilon_budget, DELTA, method=method) for method in ("basic", "rdp"))
        level, budget = max(
            ((level_of(protected.mechanism, one, messages), one) for one in budgets), key=lambda found: found[0]
        )
        if level:
            yield Configuration(level, on_all(protected, level, budget))


def on_all(protected: BudgetPlan, level: float, budget: Budget | None = None) -> dict[str, ChannelConfig]:
    """The mechanism at one level on each of the channels."""
    return {
        name: private_config(parse_mechanism(protected.mechanism.format(level)), budget) for name in protected.channels
    }


def budget_of(world: Population[Any], env: str) -> Floats:
    """The largest epsilon spent by any agent in each run, [B]: the accountant's epsilon at `DELTA`, for the unit and
    the channels that the environment declares, with any mechanism on them."""
    protected = PROTECTED[env]
    unit: Any = protected.unit
    accountant = world.accountant or world.make_accountant()  # a message on a channel without mechanism costs infinity
    epsilon_budget: Floats = accountant.epsilon(DELTA, "max", "rdp", unit=unit, channel=protected.channels)
    return epsilon_budget


def within(spent: float, epsilon_budget: float) -> bool:
    """Whether no agent has overspent."""
    return spent <= epsilon_budget * (1 + ROUNDING)
