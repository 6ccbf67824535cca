"""Install a mechanism on a channel of this suite's environments, in any interface."""

from typing import Any

from taciturn.envs.core import ChannelConfig
from taciturn.privacy.budget import Budget
from taciturn.privacy.mechanisms import Mechanism
from taciturn.wrappers.channels import on_channel

__all__ = ["Privatize", "private_config"]


def private_config(mechanism: Any, budget: Budget | None = None) -> ChannelConfig:
    """The value that makes a channel private in `reset(options={"channels": {name: value}})`."""
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be one of taciturn.wrappers' mechanisms, not {mechanism!r}")
    if budget is not None and not isinstance(budget, Budget):
        raise ValueError(f"budget must be a Budget or None, not {budget!r}")
    if budget is not None and budget.messages(mechanism.loss()) == 0:
        raise ValueError(f"budget must allow at least one message of {mechanism!r}, and {budget!r} allows none")
    return ChannelConfig(mechanism, budget)


def Privatize(env: Any, channel: str, mechanism: Any, budget: Budget | None = None) -> Any:
    """The environment with a mechanism on one of its channels, in the same interface; `env` itself is not changed.

    A reset of the result installs the mechanism; a reset of `env` does not. Wrappers can be nested in any order, those of faults (`Faulty`)
    included. `.ledger` holds what the run since the last reset has spent.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of this suite.
        channel: the channel's name.
        mechanism: perturbs each message.
        budget: what each agent may spend on the channel.

    Raises:
        ValueError: `env` is none of these, the channel is unknown or has a mechanism already, or the world cannot use the mechanism.
    """
    return on_channel(env, channel, private_config(mechanism, budget))
