"""Put something on a channel of this suite's environments, whatever their interface."""

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import pettingzoo
from gymnasium.utils import RecordConstructorArgs
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from tacit.envs.core import Array, Population, Setup, join

__all__ = ["ChannelAEC", "ChannelGymnasium", "ChannelParallel", "ChannelVector", "on_channel"]

Options = dict[str, Any]


def on_channel(env: Any, channel: str, setup: Setup) -> Any:
    """The environment with `setup` on one of its channels, in the same interface; `env` itself is not changed.

    It is installed when the result is reset, and a reset of `env` itself does not install it. Such wrappers nest in any order.

    Args:
        env: a population, a Gymnasium environment or vector environment, or a PettingZoo Parallel or AEC environment of this suite.
        channel: the channel's name.
        setup: what to add to what stands there.

    Raises:
        ValueError: an environment that is none of these, an unknown channel, a second mechanism, or one that the world cannot use.
    """
    population = _population(env)
    if population is None:
        raise ValueError(
            f"env must be an environment of this suite, not {env!r}: others have no channels, PrivatizeObservation and the like take them"
        )
    if channel not in population.channels:
        raise ValueError(f"channel must be one of {', '.join(population.channels) or '(none)'}, not {channel!r}")
    standing = join(population.setups, getattr(env, "channel_setups", {}))
    population.check_setup(channel, join(standing, {channel: setup})[channel])
    if isinstance(env, Population):
        wrapped = copy.copy(env)
        wrapped.channels = {name: copy.copy(one) for name, one in env.channels.items()}
        wrapped.setups = join(env.setups, {channel: setup})
        wrapped.streams, wrapped._state, wrapped.ledger = None, None, None
        return wrapped
    for kind, wrapper in WRAPPERS:
        if isinstance(env, kind):
            return wrapper(env, channel, setup)
    raise ValueError(f"env must be an environment of this suite, not {env!r}")


def _population(env: Any) -> Population[Any] | None:
    unwrapped = getattr(env, "unwrapped", env)
    population = getattr(unwrapped, "population", unwrapped)
    return population if isinstance(population, Population) else None


class _OnChannel:
    """What the wrappers share: they add their setup to the options of a reset."""

    def _keep(self, env: Any, channel: str, setup: Setup) -> None:
        self._layer = {channel: setup}
        self.channel_setups: Mapping[str, Setup] = join(getattr(env, "channel_setups", {}), self._layer)

    def _options(self, options: Mapping[str, Any] | None) -> Options:
        given = dict(options or {})
        return {**given, "channels": join(self._layer, given.get("channels") or {})}

    @property
    def ledger(self) -> Any:
        """What the run since the last reset has spent (`tacit.wrappers.Ledger`); None before the first, or without a mechanism."""
        population = _population(self)
        assert population is not None
        return population.ledger


class ChannelGymnasium(_OnChannel, gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """`on_channel` for `gymnasium.Env`."""

    def __init__(self, env: gymnasium.Env[Any, Any], channel: str, setup: Setup) -> None:
        RecordConstructorArgs.__init__(self, channel=channel, setup=setup)
        gymnasium.Wrapper.__init__(self, env)
        self._keep(env, channel, setup)

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=self._options(options))


class ChannelVector(_OnChannel, gymnasium.vector.VectorWrapper):
    """`on_channel` for `gymnasium.vector.VectorEnv`; what is installed stays through autoresets."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], channel: str, setup: Setup) -> None:
        super().__init__(env)
        self._keep(env, channel, setup)

    def reset(self, *, seed: Any = None, options: Options | None = None) -> tuple[Array, dict[str, Any]]:
        if options is not None and "reset_mask" in options:
            return self.env.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=self._options(options))


class ChannelParallel(_OnChannel, BaseParallelWrapper[Any, Any, Any]):
    """`on_channel` for `pettingzoo.ParallelEnv`."""

    def __init__(self, env: Any, channel: str, setup: Setup) -> None:
        super().__init__(env)
        self._keep(env, channel, setup)

    def reset(self, seed: int | None = None, options: Options | None = None) -> Any:
        return self.env.reset(seed=seed, options=self._options(options))


class ChannelAEC(_OnChannel, BaseWrapper[Any, Any, Any]):
    """`on_channel` for `pettingzoo.AECEnv`."""

    def __init__(self, env: Any, channel: str, setup: Setup) -> None:
        super().__init__(env)
        self._keep(env, channel, setup)

    def reset(self, seed: int | None = None, options: Options | None = None) -> None:
        self.env.reset(seed=seed, options=self._options(options))


WRAPPERS: tuple[tuple[type[Any], Any], ...] = (
    (gymnasium.vector.VectorEnv, ChannelVector),
    (gymnasium.Env, ChannelGymnasium),
    (pettingzoo.ParallelEnv, ChannelParallel),
    (pettingzoo.AECEnv, ChannelAEC),
)
