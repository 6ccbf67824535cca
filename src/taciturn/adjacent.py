"""Adjacent messages for auditing mechanisms, alone or on a channel of an environment."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Array, Population, as_policies
from taciturn.privacy import mechanisms
from taciturn.validation import MOST_NUMBERS, integer
from taciturn.wrappers.canary import play
from taciturn.wrappers.channels import Privatize

NUM_VALUES = 10


@dataclass(frozen=True)
class Site:
    """The channel of an environment on which mechanisms are audited.

    Attributes:
        env: a population.
        policy: the policy that acts in it, or `{role: policy}`.
        channel: the channel's name; None if there is only one.
        steps: turns of a run; None: until it ends.
    """

    env: Population[Any]
    policy: Any
    channel: str | None = None
    steps: int | None = None

    @property
    def name(self) -> str:
        """The channel's name; ValueError if it was not given and the environment does not have exactly one channel."""
        known = list(self.env.channels)
        if self.channel is None and len(known) != 1:
            raise ValueError(f"channel must be one of {', '.join(known) or '(none)'}, not None")
        return self.channel or known[0]


def adjacent_pair(mechanism: Any, sensitivity: float = 1.0) -> tuple[Any, Any]:
    """Two adjacent messages with the largest, or nearly the largest, privacy loss of a mechanism.

    Depending on the mechanism they are: one-hot vectors of two options; two values; two numbers that differ by the
    sensitivity; two streams that differ in one value; or scores of 10 options that all change by the sensitivity, one
    of them in the opposite direction. A `Memoized` mechanism is audited on its first answer. Raises ValueError if
    streams have more than 10^9 values.
    """
    inner = getattr(mechanism, "mechanism", mechanism)
    reach = getattr(inner, "sensitivity", None) or sensitivity
    shapes = {"categorical": (), "one_hot": (2,), "bounded": (), "scores": (NUM_VALUES,), "vector": (1,)}
    payload = next((payload for payload in shapes if payload in inner.payloads), None)
    if payload is not None:
        return _far_apart(payload, shapes[payload], reach)
    horizon = integer("horizon", getattr(inner, "horizon", None) or NUM_VALUES, at_least=1, at_most=MOST_NUMBERS)
    stream = np.zeros(horizon)
    return stream, np.where(np.arange(stream.size) == 0, reach, 0.0)


def _far_apart(payload: str, shape: tuple[int, ...], reach: float) -> tuple[Any, Any]:
    """Two messages of this payload and shape that are `reach` apart."""
    if payload == "categorical":
        return 0, 1
    if payload in ("one_hot", "scores"):
        first = np.eye(shape[0], dtype=np.int64)[0]
        return (first, np.roll(first, 1)) if payload == "one_hot" else (reach * first, reach * (1 - first))
    half = np.full(shape, reach / 2 / math.prod(shape) ** 0.5)
    return (-half, half) if shape else (0.0, reach)


@dataclass(frozen=True)
class _Overheard(mechanisms.NoPrivacy):
    """Leaves messages unchanged, and records their shape and the sensitivity that the environment states."""

    closed_counts: ClassVar[bool] = False
    notes: list[tuple[tuple[int, ...], float | None]] = field(default_factory=list, compare=False)

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        self.notes.append((np.shape(x)[1:], sensitivity))
        return super().perturb(x, rng, sensitivity)


def adjacent_messages(site: Site, mechanism: Any) -> tuple[Any, Any]:
    """Two adjacent messages for a channel, as far apart as the sensitivity that the environment states in a trial run.

    Depending on the channel they are: one-hot vectors of two options; two categories; two numbers that differ by the
    sensitivity; scores as in `adjacent_pair`; or opposite vectors of half the sensitivity in the direction (1, ..., 1).

    Raises:
        ValueError: no message is sent in the trial run, or the environment states no sensitivity.
    """
    overheard = _Overheard()
    private = Privatize(site.env, site.name, overheard)
    play(private, 1, private.channel_configs, as_policies(site.env, site.policy), 0, site.steps)
    if not overheard.notes:
        raise ValueError(f"steps must be enough for a message on channel {site.name!r}, not {site.steps!r}")
    shape, stated = overheard.notes[0]
    reach = getattr(mechanism, "sensitivity", None) if stated is None else stated
    payload = site.env.channels[site.name].payload
    if reach is None and payload not in ("one_hot", "categorical"):
        raise ValueError(f"env must state the sensitivity of messages on channel {site.name!r} for an audit")
    return _far_apart(payload, shape, 1.0 if reach is None else reach)
