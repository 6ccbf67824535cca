"""Put a mechanism on a channel of this suite's environments, whatever their interface."""

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import pettingzoo
from gymnasium.utils import RecordConstructorArgs
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from tacit.envs.core import Array, Population, Setup
from tacit.wrappers.privacy.ledger import Budget, Ledger
from tacit.wrappers.privacy.mechanisms import Mechanism

__all__ = ["Privatize", "PrivatizeAEC", "PrivatizeGymnasium", "PrivatizeParallel", "PrivatizeVector", "private_setup"]

Options = dict[str, Any]


def private_setup(mechanism: Any, budget: Budget | None = None) -> Setup:
    """What `reset(options={"channels": {name: ...}})` takes to make a channel private."""
    if not isinstance(mechanism, Mechanism):
        raise ValueError(f"mechanism must be one of tacit.wrappers' mechanisms, not {mechanism!r}")
    if budget is not None and not isinstance(budget, Budget):
        raise ValueError(f"budget must be a Budget or None, not {budget!r}")
    return Setup(mechanism, budget, Ledger)


def Privatize(env: Any, channel: str, mechanism: Any, budget: Budget | None = None) -> Any:
    """The environment with a mechanism on one of its channels, in the same interface; `env` itself is not changed.

    The mechanism is installed when the result is reset, and a reset of `env` itself installs none. Wrappers of different channels nest in
    any order. `.ledger` says what the run since the last reset has spent.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of this suite.
        channel: the channel's name.
        mechanism: what is done to each message.
        budget: what an agent may spend on the channel.

    Raises:
        ValueError: an environment that is none of these, an unknown channel, one that has a mechanism already, or a mechanism that the
            world cannot use.
    """
    setup = private_setup(mechanism, budget)
    population = _population(env)
    if population is None:
        raise ValueError(
            f"env must be an environment of this suite, not {env!r}: others take PrivatizeObservation and the like"
        )
    taken = population.setups | getattr(env, "private_channels", {})
    if channel in taken:
        raise ValueError(f"channel {channel!r} has a mechanism already: a second one needs a channel of its own")
    if channel not in population.channels:
        raise ValueError(f"channel must be one of {', '.join(population.channels) or '(none)'}, not {channel!r}")
    population.check_setup(channel, setup)
    if isinstance(env, Population):
        private = copy.copy(env)
        private.channels = {name: copy.copy(one) for name, one in env.channels.items()}
        private.setups = {**env.setups, channel: setup}
        private.streams, private._state, private.ledger = None, None, None
        return private
    for kind, wrapper in WRAPPERS:
        if isinstance(env, kind):
            return wrapper(env, channel, mechanism, budget)
    raise ValueError(f"env must be an environment of this suite, not {env!r}")


def _population(env: Any) -> Population[Any] | None:
    unwrapped = getattr(env, "unwrapped", env)
    population = getattr(unwrapped, "population", unwrapped)
    return population if isinstance(population, Population) else None


class _Private:
    """What the wrappers share: they add their setup to the options of a reset."""

    def _keep(self, env: Any, channel: str, mechanism: Any, budget: Budget | None) -> None:
        self._layer = {channel: private_setup(mechanism, budget)}
        self.private_channels: Mapping[str, Setup] = {**getattr(env, "private_channels", {}), **self._layer}

    def _options(self, options: Mapping[str, Any] | None) -> Options:
        given = dict(options or {})
        return {**given, "channels": {**given.get("channels", {}), **self._layer}}

    @property
    def ledger(self) -> Ledger | None:
        """What the run since the last reset has spent; None before the first."""
        population = _population(self)
        assert population is not None
        return population.ledger


class PrivatizeGymnasium(_Private, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """`Privatize` for `gymnasium.Env`."""

    def __init__(
        self, env: gymnasium.Env[Any, Any], channel: str, mechanism: Any, budget: Budget | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, channel=channel, mechanism=mechanism, budget=budget)
        gymnasium.Wrapper.__init__(self, env)
        self._keep(env, channel, mechanism, budget)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=self._options(options))


class PrivatizeVector(_Private, gymnasium.vector.VectorWrapper):
    """`Privatize` for `gymnasium.vector.VectorEnv`; what is installed stays through autoresets."""

    def __init__(
        self, env: gymnasium.vector.VectorEnv[Any, Any, Any], channel: str, mechanism: Any, budget: Budget | None = None
    ) -> None:
        super().__init__(env)
        self._keep(env, channel, mechanism, budget)

    def reset(self, *, seed: Any = None, options: Options | None = None) -> tuple[Array, dict[str, Any]]:
        if options is not None and "reset_mask" in options:
            return self.env.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=self._options(options))


class PrivatizeParallel(_Private, BaseParallelWrapper[Any, Any, Any]):
    """`Privatize` for `pettingzoo.ParallelEnv`."""

    def __init__(self, env: Any, channel: str, mechanism: Any, budget: Budget | None = None) -> None:
        super().__init__(env)
        self._keep(env, channel, mechanism, budget)

    def reset(self, seed: int | None = None, options: Options | None = None) -> Any:
        return self.env.reset(seed=seed, options=self._options(options))


class PrivatizeAEC(_Private, BaseWrapper[Any, Any, Any]):
    """`Privatize` for `pettingzoo.AECEnv`."""

    def __init__(self, env: Any, channel: str, mechanism: Any, budget: Budget | None = None) -> None:
        super().__init__(env)
        self._keep(env, channel, mechanism, budget)

    def reset(self, seed: int | None = None, options: Options | None = None) -> None:
        self.env.reset(seed=seed, options=self._options(options))


WRAPPERS: tuple[tuple[type[Any], Any], ...] = (
    (gymnasium.vector.VectorEnv, PrivatizeVector),
    (gymnasium.Env, PrivatizeGymnasium),
    (pettingzoo.ParallelEnv, PrivatizeParallel),
    (pettingzoo.AECEnv, PrivatizeAEC),
)
