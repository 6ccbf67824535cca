"""The interface of all mechanisms, `Mechanism`."""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.channels import Payload
from taciturn.privacy.losses import NothingHidden, PrivacyLoss
from taciturn.validation import Array, NamesUnknown

Given = ArrayLike | None  # None: not given


class Mechanism(metaclass=NamesUnknown):
    """The interface of all mechanisms.

    A wrong argument raises a ValueError that names it, before anything is drawn and before any state changes. Arguments
    that have no meaning for a mechanism, such as the sensitivity for randomised response, are ignored.

    Class attributes:
        payloads: the payloads of the channels that it fits.
        per_stream: whether it is charged once for a whole stream; it then fits only streams in which each event enters
            one increment.
        changes_leak: whether it repeats an answer until the private value changes. A new answer reveals the change, so
            totals are infinite, unless a budget has no room for a second answer.
        once: whether an agent is charged for one message at most, however many it sends.
        takes_levels: whether the sender chooses the level of each message (`ChosenLevels`).
        idealised: whether it draws real-valued noise in floating point; the lowest bits then break any claim (Mironov
            2012). The claim is then about real numbers, and audits do not read these bits unless asked to.
        norm: the norm of the sensitivity, 1 or 2, or inf for the largest change of any number.
        averages: whether observers read one average of all messages and no single message (`taciturn.privacy.sums`).
        shuffles: whether observers read the messages of all senders without learning the senders
            (`taciturn.privacy.shuffling`).
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset(get_args(Payload))
    per_stream: ClassVar[bool] = False
    changes_leak: ClassVar[bool] = False
    once: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    shuffles: bool = False
    takes_levels: ClassVar[bool] = False
    idealised: bool = False
    norm: ClassVar[float] = math.inf
    kind: ClassVar[str]
    payload_dims: ClassVar[int] = 0  # number of trailing axes of x that form one message
    closed_counts: ClassVar[bool] = False  # whether it has perturb_counts
    stateful: ClassVar[bool] = False  # whether it has start and step
    epsilon: float

    def _set(self, **values: ArrayLike) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def check_sensitivity(self, stated: Given) -> None:
        """Raise ValueError if the mechanism's own sensitivity is below the one `stated` for messages."""

    @abstractmethod
    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """The messages sent for private values x; `sensitivity` is a number, or an array over the leading axes of x."""

    def perturb_counts(self, histogram: ArrayLike, rng: Generator, num_messages: Given = None) -> Array:
        """The sum of the messages of many senders, int64[..., K]; `histogram[..., k]` of the senders hold the value k.
        It has the same distribution as the sum of their messages from `perturb`.

        num_messages: the number of all messages, if some senders hold no value (a vector of zeros); default:
        histogram.sum(-1). The sum is drawn from NumPy's binomial sampler, whatever the mechanism's sampler, because no
        single message is released.
        """
        raise TypeError(f"{type(self).__name__} has no closed law for sums of messages: use perturb for each message")

    def debias(self, y: ArrayLike, num_messages: ArrayLike = 1) -> Array:
        """Unbiased estimate of the private value from one message, or of the sum of the private values from a sum of
        `num_messages` messages; float64."""
        return checks.reals("y", y).copy()

    @abstractmethod
    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        """Variance of each number in `debias(perturb(x))`, float64."""

    def variance_of_mean(self, x: ArrayLike, sensitivity: Given = None, num_messages: int = 1) -> Array:
        """Variance of the noise in the mean of `num_messages` messages about x, float64."""
        return self.variance(x, sensitivity) / num_messages

    @abstractmethod
    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """The cost of one message. Noise scales with the sensitivity, so the cost does not depend on it."""

    @abstractmethod
    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """log P(y | x0) - log P(y | x1) for each message; for each number if messages are numbers."""


@dataclass(frozen=True)
class NoPrivacy(Mechanism):
    """Sends numbers unchanged, NaN included, like a channel without a mechanism."""

    kind: ClassVar[str] = "none"
    closed_counts: ClassVar[bool] = True
    epsilon: float = field(default=math.inf, init=False)

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        return checks.numbers("x", x).copy()

    def perturb_counts(self, histogram: ArrayLike, rng: Generator, num_messages: Given = None) -> Array:
        return checks.counts(histogram, num_messages)[0]

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        return np.zeros(checks.numbers("x", x).shape)

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        return NothingHidden()

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """For each number: 0 if x0 = x1, +-inf if y equals only one of them, NaN if y equals neither."""
        y, x0, x1 = checks.together(y=checks.numbers("y", y), x0=checks.numbers("x0", x0), x1=checks.numbers("x1", x1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where((x0 == x1) & (y == x0), 0.0, np.log(y == x0) - np.log(y == x1))


@dataclass(frozen=True)
class Around(Mechanism):
    """Base of mechanisms that draw each answer from another mechanism, with its distribution, payload and cost.

    Args:
        mechanism: draws the answers; it must have no state itself.
    """

    mechanism: Mechanism

    def __post_init__(self) -> None:
        inner: Any = self.mechanism
        if not isinstance(inner, Mechanism) or inner.stateful or inner.averages:
            raise ValueError(f"mechanism must be one without state that perturbs each message, not {inner!r}")
        for name in ("epsilon", "kind", "payload_dims", "payloads", "norm", "idealised", "shuffles"):
            self._set(**{name: getattr(inner, name)})

    def check_sensitivity(self, stated: Given) -> None:
        self.mechanism.check_sensitivity(stated)

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        return self.mechanism.perturb(x, rng, sensitivity)

    def debias(self, y: ArrayLike, num_messages: ArrayLike = 1) -> Array:
        return self.mechanism.debias(y, num_messages)

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        return self.mechanism.variance(x, sensitivity)

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Cost of one new answer."""
        return self.mechanism.loss(sensitivity)

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """The log-likelihood ratio of new answers."""
        return self.mechanism.log_likelihood_ratio(y, x0, x1, sensitivity)
