"""Installing a mechanism or a fault on a channel of this suite's environments, in any interface."""

import copy
import importlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import gymnasium
import numpy as np
import pettingzoo
from gymnasium.utils import RecordConstructorArgs
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from taciturn.channels.config import asked_channels
from taciturn.envs.core import Around, ChannelConfig, Fault, Population, join
from taciturn.privacy.budget import Budget
from taciturn.privacy.mechanisms import Mechanism
from taciturn.validation import mapping

Options = dict[str, Any]
L = TypeVar("L", bound="Layer")


def described(value: Any) -> Any:
    """`value` as plain JSON values, for the `spec` of an environment; `as_described` restores it.

    A mechanism, a budget or a fault becomes its parameters and its `name`, which is `module:Class` if
    `taciturn.wrappers` does not export it.
    """
    if isinstance(value, Mechanism | Budget | Fault):
        kind = type(value)
        exported = getattr(importlib.import_module("taciturn.wrappers"), kind.__name__, None) is kind
        name = kind.__name__ if exported else f"{kind.__module__}:{kind.__qualname__}"
        return {"name": name} | {key: described(getattr(value, key)) for key in inspect.signature(kind).parameters}
    if isinstance(value, list | tuple):
        return [described(one) for one in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def as_described(value: Any) -> Any:
    """The inverse of `described`; anything else is returned unchanged."""
    if isinstance(value, list):
        return [as_described(one) for one in value]
    if not (isinstance(value, Mapping) and "name" in value):
        return value
    module, _, name = value["name"].rpartition(":")
    kind: Any = importlib.import_module(module or "taciturn.wrappers")
    for part in name.split("."):
        kind = getattr(kind, part)
    return kind(**{key: as_described(one) for key, one in value.items() if key != "name"})


class Layer:
    """Base of wrappers that records their arguments for `env.spec`. Among the bases of a subclass, it must come before
    the interface's wrapper class."""

    def __init__(self, env: Any, **arguments: Any) -> None:
        super().__init__(env)  # type: ignore[call-arg]  # the interface's wrapper comes next
        if isinstance(self, RecordConstructorArgs):
            RecordConstructorArgs.__init__(self, **{key: described(value) for key, value in arguments.items()})

    def __repr__(self) -> str:
        return f"<{type(self).__name__} around {self.env!r}>"  # type: ignore[attr-defined]

    @classmethod
    def around(cls, env: Any, expected: str, **arguments: Any) -> Any:
        """`env` wrapped in the subclass for its interface; ValueError, naming the `expected` kinds, if there is
        none."""
        for kind in (gymnasium.vector.VectorEnv, gymnasium.Env, pettingzoo.ParallelEnv, pettingzoo.AECEnv):
            if isinstance(env, kind):
                return next(one for one in cls.__subclasses__() if issubclass(one, kind))(env, **arguments)
        raise ValueError(f"env must be {expected}, not {env!r}")


def layers(env: Any, kind: type[L]) -> Iterator[L]:
    """The wrappers around `env` that are instances of `kind`, outermost first."""
    while env is not None:
        if isinstance(env, kind):
            yield env
        inside = getattr(env, "__dict__", {})
        env = inside.get("env", inside.get("aec_env"))


def added_configs(env: Any) -> dict[str, ChannelConfig]:
    """The configurations that the wrappers around a view install on the channels at each reset."""
    added: dict[str, ChannelConfig] = {}
    for layer in layers(env, _OnChannel):
        added = join(added, layer.config)
    return added


def population_of(env: Any) -> Population[Any] | None:
    """The population behind an environment of this suite; None for other environments."""
    unwrapped = getattr(env, "unwrapped", env)
    population = getattr(unwrapped, "population", unwrapped)
    return population if isinstance(population, Population) else None


def on_channel(env: Any, channel: str, config: ChannelConfig) -> Any:
    """The environment with `config` on one of its channels, in the same interface; `env` itself is not changed.

    A reset of the result installs `config`; a reset of `env` does not. Such wrappers can be nested in any order.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of
            this suite.
        channel: the channel's name.
        config: the mechanism, fault and budget to add to the channel.

    Raises:
        ValueError: `env` is none of these, the channel is unknown or would get a second mechanism, or the environment
            cannot use `config`.
    """
    if not isinstance(env, Population):
        arguments = {"mechanism": config.mechanism, "budget": config.budget, "faults": config.faults}
        return _OnChannel.around(env, "an environment of this suite", channel=channel, **arguments)
    _check(env, channel, config)
    if isinstance(env, Around):
        return env.around(on_channel(env.inner, channel, config), copy.copy)
    wrapped = copy.copy(env)
    wrapped.channels = {name: copy.copy(one) for name, one in env.channels.items()}
    wrapped.channel_configs = join(env.channel_configs, {channel: config})
    wrapped.streams, wrapped._state, wrapped.accountant = None, None, None
    return wrapped


def _check(env: Any, channel: str, config: ChannelConfig) -> None:
    """Raise ValueError if `config` cannot be combined with the configuration of that channel of `env`."""
    population = population_of(env)
    if population is None:
        raise ValueError(
            f"env must be an environment of this suite, not {env!r}: for others there are PrivatizeObservation, "
            "-Reward and -Action"
        )
    if channel not in population.channels:
        raise ValueError(f"channel must be one of {', '.join(population.channels) or '(none)'}, not {channel!r}")
    standing = join(population.channel_configs, added_configs(env))
    population.check_config(channel, join(standing, {channel: config})[channel])


def private_config(mechanism: Any, budget: Budget | None = None) -> ChannelConfig:
    """The value that makes a channel private in `reset(options={"channels": {name: value}})`."""
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be one of taciturn.wrappers' mechanisms, not {mechanism!r}")
    if budget is not None and not isinstance(budget, Budget):
        raise ValueError(f"budget must be a Budget or None, not {budget!r}")
    # An average may cost less than its mechanism states, if the environment draws the agents in it.
    if budget is not None and not mechanism.averages and budget.messages(mechanism.loss()) == 0:
        raise ValueError(f"budget must allow at least one message of {mechanism!r}, and {budget!r} allows none")
    return ChannelConfig(mechanism, budget)


def Privatize(env: Any, channel: str, mechanism: Any, budget: Budget | None = None) -> Any:
    """The environment with a mechanism on one of its channels, in the same interface; `env` itself is not changed.

    A reset of the result installs the mechanism; a reset of `env` does not. Wrappers can be nested in any order,
    including `Faulty`. `.accountant` holds the epsilon spent since the last reset.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of
            this suite.
        channel: the channel's name.
        mechanism: the mechanism that perturbs each message.
        budget: privacy budget of each agent on the channel.

    Raises:
        ValueError: `env` is none of these, the channel is unknown or has a mechanism already, or the environment cannot
            use the mechanism.
    """
    return on_channel(env, channel, private_config(mechanism, budget))


def Faulty(env: Any, channel: str, fault: Fault) -> Any:
    """The environment with a fault on one of its channels, in the same interface; `env` itself is not changed.

    A reset of the result installs the fault; a reset of `env` does not. A channel can have several faults and a
    mechanism; the nesting order of wrappers makes no difference.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of
            this suite.
        channel: the channel's name.
        fault: the fault to install.

    Raises:
        ValueError: `env` is none of these, the channel is unknown, or `fault` is not a fault.
    """
    if not isinstance(fault, Fault):
        raise ValueError(f"fault must be one of taciturn.wrappers' faults, not {fault!r}")
    return on_channel(env, channel, ChannelConfig(faults=(fault,)))


class _OnChannel(Layer):
    """Adds its config to the options of each reset; in vector environments it stays installed through autoresets.

    The arguments may be plain JSON values (`described`), as in the `spec` of an environment.
    """

    def __init__(self, env: Any, channel: str, mechanism: Any = None, budget: Any = None, faults: Any = ()) -> None:
        config = ChannelConfig(as_described(mechanism), as_described(budget), tuple(map(as_described, faults)))
        _check(env, channel, config)
        super().__init__(env, channel=channel, mechanism=config.mechanism, budget=config.budget, faults=config.faults)
        self.config: Mapping[str, ChannelConfig] = {channel: config}

    def reset(self, seed: Any = None, options: Options | None = None) -> Any:
        given = dict(mapping("options", options))
        if "reset_mask" not in given:
            given["channels"] = join(self.config, asked_channels(given))
        env: Any = self.env  # type: ignore[attr-defined]
        return env.reset(seed=seed, options=given)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} with {dict(self.config)!r} around {self.env!r}>"  # type: ignore[attr-defined]

    @property
    def accountant(self) -> Any:
        """The `taciturn.wrappers.Accountant` of the run since the last reset; None before the first reset, or without a
        mechanism."""
        population = population_of(self)
        assert population is not None
        return population.accountant


class ChannelGymnasium(_OnChannel, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """`on_channel` for `gymnasium.Env`."""


class ChannelVector(_OnChannel, gymnasium.vector.VectorWrapper):
    """`on_channel` for `gymnasium.vector.VectorEnv`."""


class ChannelParallel(_OnChannel, BaseParallelWrapper[Any, Any, Any]):
    """`on_channel` for `pettingzoo.ParallelEnv`."""


class ChannelAEC(_OnChannel, BaseWrapper[Any, Any, Any]):
    """`on_channel` for `pettingzoo.AECEnv`."""
