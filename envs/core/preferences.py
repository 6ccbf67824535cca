"""What the worlds of social learning share: preferences among K options, plans to change them, and the channel that carries them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np

from taciturn.envs.core.channel import Channel, ChannelConfig
from taciturn.envs.core.popularity import PopularityHistory
from taciturn.envs.core.population import Population
from taciturn.envs.core.replies import reply_law, require_bits
from taciturn.validation import Array, Ints, choice

__all__ = [
    "InitialPreferences", "SocialPopulation", "count_holders", "initial_options", "join_plan", "plan_space", "require_preferences",
    "split_plan",
]  # fmt: skip

InitialPreferences = str | Sequence[int] | Array
S = TypeVar("S")


def require_preferences(given: InitialPreferences, num_agents: int, num_options: int) -> None:
    """Raise ValueError unless `given` is "even", "random", "none", or one option per agent (K: none)."""
    if isinstance(given, str):
        choice("initial_preferences", given, ("even", "random", "none"))
        return
    options = np.asarray(given)
    whole = options.shape == (num_agents,) and options.dtype.kind in "iu"
    if not whole or options.min() < 0 or options.max() > num_options:
        raise ValueError(
            f"initial_preferences must be 'even', 'random', 'none' or {num_agents} options from 0 to {num_options} "
            f"({num_options}: none), not {given!r}"
        )


def initial_options(
    given: InitialPreferences, num_agents: int, num_options: int, num_envs: int, rng: np.random.Generator
) -> Ints:
    """The preferences at the start of a run, [B, N], K for none; "even" gives agent i option i mod K."""
    shape = (num_envs, num_agents)
    if not isinstance(given, str):
        return np.broadcast_to(np.asarray(given, np.int64), shape).copy()
    if given == "random":
        return rng.integers(0, num_options, shape)
    return np.broadcast_to(np.arange(num_agents) % num_options if given == "even" else num_options, shape).copy()


def count_holders(preference: Array, num_options: int) -> Ints:
    """The number of agents that prefer each option, [B, K], from preferences [B, N], K for none."""
    size, wide = len(preference), num_options + 1
    flat = (preference + wide * np.arange(size)[:, None]).ravel()
    return np.bincount(flat, minlength=size * wide).reshape(size, wide)[:, :num_options]


def plan_space(num_options: int, flat: bool) -> gymnasium.spaces.Space[Any]:
    """Plans: the option to pull (K: none), whether to adopt it on signal 0, and on signal 1.

    MultiDiscrete [K + 1, 2, 2], or if `flat` Discrete(4 (K + 1)): 4 option + 2 (adopt on 0) + (adopt on 1).
    """
    plan = gymnasium.spaces.MultiDiscrete([num_options + 1, 2, 2])
    return gymnasium.spaces.Discrete(4 * (num_options + 1)) if flat else plan


def split_plan(action: Array, flat: bool) -> tuple[Array, Array, Array]:
    """The option, and whether to adopt it on signal 0 and on signal 1, of actions [...] if `flat`, else [..., 3]."""
    return (action // 4, action // 2 % 2, action % 2) if flat else (action[..., 0], action[..., 1], action[..., 2])


def join_plan(option: Array, on_zero: Any, on_one: Any, flat: bool) -> Array:
    """The inverse of `split_plan`; `on_zero` and `on_one` are broadcast to the shape of `option`."""
    zero, one = (np.broadcast_to(np.asarray(adopts, np.int64), option.shape) for adopts in (on_zero, on_one))
    return 4 * option + 2 * zero + one if flat else np.stack([option, zero, one], -1)


class SocialPopulation(Population[S]):
    """Base of the worlds of social learning: perturbed one-hot preferences on one channel, and a history of popularity for pictures."""

    history: PopularityHistory

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("preference", "one_hot", observer="neighbour", unit="event"),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        require_bits(channel, config)

    @property
    def reply_law(self) -> tuple[float, float]:
        """(p, q): the probabilities that a bit of a message is read as 1 if it is 1 and if it is 0."""
        return reply_law(self.channels["preference"])

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, dict[str, Any]]:
        begun = super().reset(seed=seed, options=options, where=where)
        if where is None:
            self.history = PopularityHistory()
        return begun
