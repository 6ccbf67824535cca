"""Mechanisms that release only one average of all messages: by a trusted curator, or by a secure sum."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Around, Given, Mechanism
from taciturn.privacy.calibrated_noise import Gaussian, Laplace
from taciturn.privacy.losses import LaplaceLoss, PrivacyLoss
from taciturn.validation import Array, Bools, Floats, Ints, integer, number, shown

STEPS = 2**20
"""Steps of the grid of `DistributedSum` in the largest change by one unit."""
MOST_STEPS = 2.0**52
"""Larger numbers are clipped, to make rounding exact."""


class Averaging(Mechanism):
    """Base of the mechanisms that release one average of the messages of all senders, and no single message.

    Let w_i be the weight of sender i's message x_i, such as the number of rewards behind a mean. The observers read

        y = (sum_i w_i x_i + Z) / sum_i w_i.

    The noise Z is scaled to c = max_i w_i s_i, the largest change of the sum if one unit of one sender changes; s_i is
    the sensitivity of x_i, and the weights are public. A change of one sender's data moves the sum by at most c,
    whatever the other messages are, so each sender has the loss of one message with noise of that scale (as for a sum
    that a curator releases: Dwork, McSherry, Nissim & Smith 2006). The noise of an average of n equal messages has a
    standard deviation n times smaller than the noise of one message, and sqrt(n) times smaller than the noise of an
    average of messages that the senders perturb.

    Class attributes:
        averages: true.
        hides_senders: whether the senders stay hidden from the observers.

    Attributes:
        senders_may_read: whether the claim also holds against one of the senders.
    """

    averages: ClassVar[bool] = True
    hides_senders: ClassVar[bool] = True
    senders_may_read: bool = True
    norm: ClassVar[float] = 1

    @abstractmethod
    def average(
        self,
        x: Array,
        senders: Bools,
        arrived: Bools,
        rng: Generator,
        sensitivity: Given = None,
        weights: Array | None = None,
    ) -> tuple[Array, Bools]:
        """The average of messages.

        Args:
            x: float64[B, N, ...], the messages before the mechanism.
            senders: bool[B, N], the agents that announce that they send.
            arrived: bool[B, N], the senders with a message in the sum.
            rng: draws the noise.
            sensitivity: of messages, a number or an array that broadcasts against x. An array with one entry for each
                number means that a unit changes only one number of a message.
            weights: >= 0, an array that broadcasts against x; None: all the same.

        Returns:
            (float64[B, ...], 0 if nothing is released or all weights are 0; whether an average is released, bool[B])
        """

    def holds(self, senders: Bools, honest: Bools) -> Bools:
        """Whether the claim holds in each sum, bool[B], if only the `honest` ones of the `senders`, both bool[B, N],
        add their shares."""
        return np.ones(len(senders), np.bool_)


def weighted_sum(
    x: Array, who: Bools, sensitivity: ArrayLike, weights: Array | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """The parts of an average, for the messages x [B, N, ...] of the agents `who` bool[B, N].

    Returns:
        (w_i x_i, float64[B, N, ...]; their sum, float64[B, ...]; the sum of weights, float64 that broadcasts against
        it; c = max_i w_i s_i, float64[B], 1 if no agent has a weight)
    """
    x, chosen = checks.reals("x", x), who.reshape(*who.shape, *[1] * (x.ndim - 2))
    weight = np.where(chosen, 1.0 if weights is None else weights, 0.0)
    if not (weight >= 0).all():
        raise ValueError(f"weights must hold numbers >= 0, not {weight[~(weight >= 0)][0]}")
    weighted = np.where(weight > 0, weight * x, 0.0)
    reach = np.asarray(weight * sensitivity).reshape(len(x), -1).max(1, initial=0.0)
    return weighted, weighted.sum(1), weight.sum(1), np.where(reach > 0, reach, 1.0)


@dataclass(frozen=True)
class CentralSum(Around, Averaging):
    """One average with noise that a curator, whom all senders trust, adds once: the central model.

    See `Averaging` for the distribution and its loss. The curator sees the messages; the observers see only the
    averages, such as the parameters of a trained model, and not who has sent. Random choice of the senders therefore
    amplifies the privacy of all (`SampledLoss`), if an environment declares that it draws them.

    `perturb`, `variance` and `log_likelihood_ratio` treat each message as an average by itself (n = 1).

    Args:
        mechanism: `Laplace` or `Gaussian`, the distribution of the noise; its epsilon is the cost of one average.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Laplace | Gaussian):
            raise ValueError(f"mechanism must be Laplace or Gaussian, not {shown(self.mechanism)}")
        super().__post_init__()

    def average(
        self,
        x: Array,
        senders: Bools,
        arrived: Bools,
        rng: Generator,
        sensitivity: Given = None,
        weights: Array | None = None,
    ) -> tuple[Array, Bools]:
        inner: Any = self.mechanism
        inner.check_sensitivity(sensitivity)
        stated: Any = inner.sensitivity if inner.sensitivity is not None else sensitivity
        _, total, weight, reach = weighted_sum(x, arrived, stated, weights)
        noisy = replace(inner, sensitivity=None).perturb(total, rng, reach)
        released = np.asarray(arrived.any(1))
        there = released.reshape(-1, *[1] * (total.ndim - 1)) & (weight > 0)
        return np.where(there, noisy, 0.0) / np.where(weight > 0, weight, 1.0), released

    def variance_of_mean(self, x: ArrayLike, sensitivity: Given = None, num_messages: int = 1) -> Array:
        """The variance of the noise in an average of `num_messages` messages of equal weight: the variance of one
        message, divided by the square of their number."""
        return self.mechanism.variance(x, sensitivity) / num_messages**2


@dataclass(frozen=True)
class DistributedSum(Averaging):
    """One average; each sender adds a share of its noise: distributed noise under a secure sum.

    Each of the n senders adds to its number, on a grid, the difference of two independent Polya (negative binomial)
    numbers with r = 1 / (n - dropouts) and success probability 1 - e^-t, t = epsilon / c in steps of the grid. A secure
    sum adds these integers modulo 2^bits, and reveals nothing else.

    The sum of the shares of n - dropouts senders has two Polya parts with r = 1, which are geometric; their difference
    is discrete Laplace noise, P(z) ~ e^(-t |z|) (Goryczka & Xiong 2017; Balle, Bell, Gascon & Nissim 2020; in bandits:
    Chowdhury & Zhou 2023). A unit moves the sum of honest senders by at most c steps, so the sum is epsilon-DP. The
    independent shares of further senders and the reduction modulo 2^bits are post-processing. The claim therefore holds
    for each sender if the sum contains max(n - dropouts, 1) shares unknown to the attacker. Senders that drop out after
    their announcement, senders that lie, and the attacker itself add no such share.

    The attacker is any reader of the sum, including the party that adds up, and with `dropouts` >= 1 also one of the
    senders, who knows its own share: one of `dropouts` then stands for the attacker, and the others stand for senders
    that drop out or lie. (With a single sender, no other sender can be the attacker.) With `dropouts` = 0 the claim
    holds only against parties that do not send; channels with several senders, who read the sum, raise a ValueError for
    `dropouts` = 0. How many announced and how many arrived is public: if too few arrived, nothing is released. Lies are
    not public: if too few of the senders that arrived are honest, the sum is released all the same, the claim does not
    hold, and the channel charges infinity.

    Rounding moves a number by less than a step. If a unit changes only one number of a message, or messages are
    numbers, inputs within c steps stay within c steps; otherwise c has one more step for each number.

    Only the distribution is simulated here. A deployment needs a protocol for the secure sum (Bonawitz et al. 2017),
    with keys, thresholds and recovery from drop-outs, which are not modelled, a source of secure random numbers, and
    agreement on the grid and on `bits` beforehand. The presence of a sender, the number of senders and their weights
    are public.

    Args:
        epsilon: of one average, for each sender, > 0.
        dropouts: senders that may drop out, lie, or read the sum, together, >= 0. The noise has n / (n - dropouts)
            times the variance that would suffice if all were present and none of them read the sum.
        bits: of the sum, from 32 to 62. The largest change by one unit is 2^20 steps, so a sum of more than 2^(bits -
            21) such changes wraps around.
    """

    payloads = frozenset({"bounded", "vector"})
    hides_senders: ClassVar[bool] = False
    kind: ClassVar[str] = "laplace"
    epsilon: float
    dropouts: int = 1
    bits: int = 52

    def __post_init__(self) -> None:
        self._set(epsilon=checks.level("epsilon", self.epsilon))
        number("epsilon", self.epsilon, at_least=1e-6, at_most=1e6)
        self._set(dropouts=integer("dropouts", self.dropouts, at_least=0))
        self._set(bits=integer("bits", self.bits, at_least=32, at_most=62))

    @property
    def senders_may_read(self) -> bool:  # type: ignore[override]
        return self.dropouts > 0

    def enough(self, senders: Bools) -> Ints:
        """The number of senders that together add enough noise, int64[B]: n - dropouts, at least 1."""
        return np.maximum(senders.sum(1) - self.dropouts, 1)

    def holds(self, senders: Bools, honest: Bools) -> Bools:
        unknown = honest.sum(1)
        unknown -= (unknown > 1) & self.senders_may_read  # one honest sender reads, and knows its own share
        return np.asarray(unknown >= self.enough(senders))

    def average(
        self,
        x: Array,
        senders: Bools,
        arrived: Bools,
        rng: Generator,
        sensitivity: Given = None,
        weights: Array | None = None,
    ) -> tuple[Array, Bools]:
        if sensitivity is None:
            raise ValueError("sensitivity must be given with the messages of DistributedSum, not None")
        released = self.holds(senders, arrived)
        # The grid follows from all agents that announced, before any drops out.
        weighted, _, _, reach = weighted_sum(x, senders, sensitivity, weights)
        lead = (-1, *[1] * (x.ndim - 1))
        grid = reach.reshape(lead) / STEPS
        with np.errstate(over="ignore"):
            steps = np.clip(weighted / grid, -MOST_STEPS, MOST_STEPS)
        shares = self._shares(steps, self.enough(senders).reshape(lead), self._reach(x.shape[2:], sensitivity), rng)
        inside = arrived.reshape(*arrived.shape, *[1] * (x.ndim - 2))
        added = np.where(inside, np.floor(steps + 0.5).astype(np.int64) + shares, 0).sum(1)
        half = 1 << (self.bits - 1)
        centred = ((added + half) & ((1 << self.bits) - 1)) - half
        _, _, weight, _ = weighted_sum(x, arrived, sensitivity, weights)
        there = released.reshape(-1, *[1] * (centred.ndim - 1)) & (weight > 0)
        return np.where(there, centred * grid[:, 0], 0.0) / np.where(weight > 0, weight, 1.0), released

    def _reach(self, message: tuple[int, ...], sensitivity: ArrayLike) -> int:
        """c in steps: the largest change of the rounded numbers of a message of that shape by one unit, as the sum of
        absolute changes."""
        numbers = int(np.prod(message, dtype=np.int64))
        apart = np.ndim(sensitivity) > 2 and np.shape(sensitivity)[2:] == message
        return STEPS if numbers == 1 or apart else STEPS + numbers

    def _shares(self, like: Array, enough: Array, reach: int, rng: Generator) -> Ints:
        """Each sender's share of the noise, int64 of the shape of `like`."""
        r = np.broadcast_to(1.0 / enough, like.shape)
        stops = -np.expm1(-self.epsilon / reach)
        return np.asarray(rng.negative_binomial(r, stops) - rng.negative_binomial(r, stops))

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """Each number of x as an average by itself (n = 1), with the given sensitivity; float64 of the shape of x."""
        x = checks.reals("x", x)
        stated = checks.aligned("sensitivity", 1.0 if sensitivity is None else sensitivity, x)
        alone = np.ones((x.size, 1), np.bool_)
        flat = np.broadcast_to(stated, x.shape).reshape(-1, 1, 1)
        return self.average(x.reshape(-1, 1, 1), alone, alone, rng, flat)[0].reshape(x.shape)

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        """The variance of each number as an average by itself (n = 1): 2 e^-t / (1 - e^-t)^2 steps^2."""
        return self.variance_of_mean(x, sensitivity)

    def variance_of_mean(self, x: ArrayLike, sensitivity: Given = None, num_messages: int = 1) -> Array:
        """The variance of the noise in an average of `num_messages` messages of equal weight, all of which arrive."""
        x = checks.reals("x", x)
        stated = checks.aligned("sensitivity", 1.0 if sensitivity is None else sensitivity, x)
        t = self.epsilon / STEPS
        one = 2 * np.exp(-t) / np.expm1(-t) ** 2 / STEPS**2
        shares = num_messages / max(num_messages - self.dropouts, 1)
        return np.broadcast_to(one * shares * stated**2 / num_messages**2, x.shape).copy()

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """The cost of one average, for each sender: the cost of discrete Laplace noise."""
        checks.sensitivities(sensitivity)
        return LaplaceLoss(self.epsilon, self.epsilon**2 / 2, 1, STEPS)

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """For each number, as an average by itself (n = 1)."""
        y, x0, x1 = checks.together(y=checks.reals("y", y), x0=checks.reals("x0", x0), x1=checks.reals("x1", x1))
        stated = checks.aligned("sensitivity", 1.0 if sensitivity is None else sensitivity, y)
        return (np.abs(y - x1) - np.abs(y - x0)) * self.epsilon / stated
