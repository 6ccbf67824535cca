"""Shared parts of the social-learning environments: preferences, plans to change them, their channel, and pictures of
popularity."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import gymnasium
import numpy as np

from taciturn.channels.channel import Channel
from taciturn.channels.config import ChannelConfig
from taciturn.channels.replies import reply_distribution, require_bits
from taciturn.envs.core.level_choice import CHOSEN, MessageSpec
from taciturn.envs.core.replicas import Replicas
from taciturn.envs.core.roles import Layout
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse
from taciturn.validation import Array, Bools, Floats, Ints, choice, shown

# Behaviour of agents without a preference.
SILENT, ZEROS = "silent", "zeros"

InitialPreferences = str | Sequence[int] | Array
S = TypeVar("S")


def check_society(params: Any) -> None:
    """Check the parameters of preferences and messages; ValueError if one is out of range, or if agents choose levels
    although their silence would reveal data that the noise hides."""
    choice("without_preference", params.without_preference, (SILENT, ZEROS))
    choice("flat_actions", params.flat_actions, (False, True))
    params.check_level_choice()
    if params.message_levels == CHOSEN and params.without_preference != ZEROS:
        raise ValueError(
            f"without_preference must be {ZEROS!r} if message_levels is {CHOSEN!r}, not {params.without_preference!r}: "
            "silence would reveal more than the levels allow"
        )
    given, num_agents, num_options = params.initial_preferences, params.num_agents, params.num_options
    if isinstance(given, str):
        choice("initial_preferences", given, ("even", "random", "none"))
        return
    try:
        options = np.asarray(given)
    except (TypeError, ValueError, OverflowError):
        options = np.empty(0)
    whole = options.shape == (num_agents,) and options.dtype.kind in "iu"
    if not whole or options.min() < 0 or options.max() > num_options:
        raise ValueError(
            f"initial_preferences must be 'even', 'random', 'none' or {num_agents} options from 0 to {num_options} "
            f"({num_options}: none), not {shown(given)}"
        )


def given_options(given: InitialPreferences, num_agents: int, num_options: int) -> Ints:
    """The fixed preferences at the start of a run (those not drawn), int64[N], K for none."""
    if not isinstance(given, str):
        return np.asarray(given, np.int64)
    agents = np.arange(num_agents)
    return np.full(num_agents, num_options) if given == "none" else agents % num_options


def plan_space(num_options: int, flat: bool) -> gymnasium.spaces.Space[Any]:
    """The space of plans: the option to pull (K: none), whether to adopt it on signal 0, and on signal 1.

    MultiDiscrete [K + 1, 2, 2], or if `flat` Discrete(4 (K + 1)): 4 option + 2 (adopt on 0) + (adopt on 1).
    """
    plan = gymnasium.spaces.MultiDiscrete([num_options + 1, 2, 2])
    return gymnasium.spaces.Discrete(4 * (num_options + 1)) if flat else plan


def split_plan(action: Array, flat: bool) -> tuple[Array, Array, Array]:
    """The parts of actions, [...] if `flat`, else [..., 3]: the option, and whether to adopt it on signal 0 and on
    signal 1."""
    return (action // 4, action // 2 % 2, action % 2) if flat else (action[..., 0], action[..., 1], action[..., 2])


def join_plan(option: Array, on_zero: Any, on_one: Any, flat: bool) -> Array:
    """The inverse of `split_plan`; `on_zero` and `on_one` are broadcast to the shape of `option`."""
    zero, one = (np.broadcast_to(np.asarray(adopts, np.int64), option.shape) for adopts in (on_zero, on_one))
    return 4 * option + 2 * zero + one if flat else np.stack([option, zero, one], -1)


class ReadMessages(NamedTuple):
    """The content of observations in the social-learning environments."""

    counts: Floats  # [B, rows, K]: number of messages in which the bit of each option is set
    received: Floats  # [B, rows]: number of messages
    own: Ints  # [B, rows]: the agent's preference, -1 for none


def read_messages(layout: Layout, obs: Array, scale: float) -> ReadMessages:
    """Decode observations [B, rows, D]; fields `counts` and `received` are numbers of messages divided by `scale`."""
    seen = layout.unpack(obs)
    counts, received = (np.rint(seen[name].astype(np.float64) * scale) for name in ("counts", "received"))
    return ReadMessages(counts, received, np.where(seen["own"].any(-1), seen["own"].argmax(-1), -1))


class PopularityHistory:
    """Times and popularity of B replicas at evenly spaced steps, at most `limit` of them.

    Args:
        limit: when there are this many records, every other one is dropped.
    """

    def __init__(self, limit: int = 400) -> None:
        self.limit, self.stride, self.steps = limit, 1, 0
        self.records: list[tuple[Floats, Floats]] = []

    def record(self, time: Callable[[], Floats], popularity: Callable[[], Floats]) -> None:
        """Add a step: its time [B] and popularity [B, K], computed only if the step is stored."""
        if self.steps % self.stride == 0:
            self.records.append((time(), popularity()))
            if len(self.records) == self.limit:
                self.records, self.stride = self.records[::2], 2 * self.stride
        self.steps += 1

    def run(self, replica: int, time: Floats, popularity: Floats) -> tuple[Floats, Floats]:
        """Times [n] and popularity [n, K] of the replica's current run, up to the present `time` [B] and `popularity`
        [B, K]."""
        records = [*self.records, (time, popularity)]
        times, shares = (np.array([record[i][replica] for record in records]) for i in (0, 1))
        resets = np.flatnonzero(np.diff(times) < 0)
        first = resets[-1] + 1 if resets.size else 0
        return times[first:], shares[first:]


def best_options(qualities: Floats) -> Bools:
    """The options with the best quality, bool[B, K], for qualities [B, K]."""
    return np.asarray(qualities == qualities.max(1, keepdims=True))


def led_by_wrong(support: Array, best: Bools) -> Bools:
    """Whether an option outside `best` bool[B or 1, K] has more `support` [B, K] than every best one, bool[B]."""
    return np.asarray(np.where(best, -1, support).max(1) > np.where(best, support, -1).max(1))


class SocialPopulation(Replicas[S]):
    """Base of the social-learning environments: perturbed one-hot preferences on one channel, and a history of
    popularity for pictures.

    Class attributes:
        forgets: whether agents can lose their preference.
    """

    forgets: ClassVar[bool] = True
    history: PopularityHistory

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("preference", "one_hot", observer="neighbour", unit="event"),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        require_bits(channel, config)
        mechanism = config.mechanism
        if self.zeros and mechanism is not None:
            try:
                mechanism.perturb(np.zeros((1, self.params.num_options), np.bool_), np.random.default_rng(0))
            except ValueError as error:
                raise ValueError(
                    f"mechanism on channel {channel!r} must be able to answer a vector of zeros if without_preference "
                    "is "
                    f"{ZEROS!r}, not {mechanism!r}"
                ) from error

    def message_spec(self) -> MessageSpec:
        return MessageSpec("preference", BitwiseRandomizedResponse, True, self.params.num_options, 0.0, 1.0)

    def practice_params(self) -> Any:
        """Parameters with permuted qualities, so memorising the index of the best option does not help."""
        return replace(self.params, shuffle=True)

    def lesson(self) -> tuple[Array, Array]:
        qualities: Floats = self.column("qualities")
        best = qualities.max(1, keepdims=True)
        return np.concatenate([best - qualities, best], 1), self.column("preference")

    @property
    def zeros(self) -> bool:
        """Whether agents without a preference send perturbed vectors of zeros, instead of nothing."""
        return bool(self.params.without_preference == ZEROS)

    def note_silence(self, preference: Array) -> None:
        """Record whether silence leaks, from the preferences [B, N] at the start of a run, -1 for none."""
        self.channels["preference"].silence_leaks = not self.zeros and (self.forgets or bool((preference < 0).any()))

    @property
    def reply_distribution(self) -> tuple[float, float]:
        """(p, q): the probabilities that a message bit is read as 1, given that it is 1 (p) or 0 (q)."""
        return reply_distribution(self.channels["preference"])

    def _restart(self, seed: int | None, options: Mapping[str, Any] | None, where: Array | None) -> Array | None:
        begun = super()._restart(seed, options, where)
        if where is None:
            self.history = PopularityHistory()
        return begun
