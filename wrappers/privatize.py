"""Put a mechanism on a channel of this suite's environments, whatever their interface."""

from typing import Any

from taciturn.envs.core import ChannelConfig
from taciturn.privacy.ledger import Budget
from taciturn.privacy.mechanisms import Mechanism
from taciturn.wrappers.channels import on_channel

__all__ = ["Privatize", "private_config"]


def private_config(mechanism: Any, budget: Budget | None = None) -> ChannelConfig:
    """What `reset(options={"channels": {name: ...}})` takes to make a channel private."""
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be one of taciturn.wrappers' mechanisms, not {mechanism!r}")
    if budget is not None and not isinstance(budget, Budget):
        raise ValueError(f"budget must be a Budget or None, not {budget!r}")
    if budget is not None and budget.messages(mechanism.loss()) == 0:
        raise ValueError(f"budget must allow at least one message of {mechanism!r}, and {budget!r} allows none")
    return ChannelConfig(mechanism, budget)


def Privatize(env: Any, channel: str, mechanism: Any, budget: Budget | None = None) -> Any:
    """The environment with a mechanism on one of its channels, in the same interface; `env` itself is not changed.

    The mechanism is installed when the result is reset, and a reset of `env` itself installs none. Wrappers nest in any order, those of
    faults (`Faulty`) included. `.ledger` says what the run since the last reset has spent.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of this suite.
        channel: the channel's name.
        mechanism: what is done to each message.
        budget: what an agent may spend on the channel.

    Raises:
        ValueError: an environment that is none of these, an unknown channel, one that has a mechanism already, or a mechanism that the
            world cannot use.
    """
    return on_channel(env, channel, private_config(mechanism, budget))
