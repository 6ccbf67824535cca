"""Sums of many perturbed one-hot replies: their distribution, and tables that draw from it with uniform numbers."""

from functools import lru_cache
from typing import Any

import numpy as np

from taciturn.channels.channel import Channel
from taciturn.channels.config import ChannelConfig
from taciturn.validation import Array, Floats, Ints

# Probabilities below the resolution of a uniform double.
NEGLIGIBLE = 2.0**-60


def require_bits(channel: str, config: ChannelConfig) -> None:
    """Raise ValueError unless the mechanism on the channel, if any, perturbs one-hot vectors bit by bit."""
    mechanism: Any = config.mechanism
    if mechanism is not None and mechanism.kind not in ("none", "randomized_response"):
        raise ValueError(
            f"mechanism on channel {channel!r} must answer one-hot vectors bit by bit (BitwiseRandomizedResponse, "
            "UnaryEncoding, or Memoized or Scheduled of one), not "
            f"{mechanism!r}"
        )


def reply_distribution(channel: Channel) -> tuple[float, float]:
    """(p, q): the probabilities that a bit is read as 1 if it is 1 and if it is 0; (1, 0) without a mechanism."""
    mechanism: Any = channel.config.mechanism
    return _distribution(mechanism)


def read_distribution(channel: Channel) -> tuple[Floats, Floats]:
    """(p, q) of the messages that were last read on a channel with levels chosen by the senders, [B]: the means over
    these messages, and (1, 0) if there were none.

    A sum of n bits x_i has the mean sum_i (q_i + (p_i - q_i) x_i). With these means, (sum / n - q) / (p - q) is
    therefore an unbiased estimate of the mean of x_i with weights p_i - q_i.
    """
    mechanism: Any = channel.config.mechanism
    spoke, number = channel.standing > 0, (channel.standing > 0).sum(1)
    p, q = np.zeros((2, *spoke.shape))
    for level in np.unique(channel.standing[spoke]).tolist():
        distribution, at = mechanism.at(level), channel.standing == level
        p[at], q[at] = distribution.p, distribution.q
    return np.where(number > 0, p.sum(1) / np.maximum(number, 1), 1.0), q.sum(1) / np.maximum(number, 1)


@lru_cache(maxsize=64)
def _distribution(mechanism: Any) -> tuple[float, float]:
    while hasattr(mechanism, "mechanism"):
        mechanism = mechanism.mechanism
    if mechanism is None or mechanism.kind == "none":
        return 1.0, 0.0
    return mechanism.p, mechanism.q


def unbiased(counts: Array, received: Array, p: float, q: float) -> Array:
    """Unbiased estimate (H - q) / (p - q) of the share of senders who prefer each option, [..., K]; 0 if no message was
    received.

    H = counts / received; p and q are the probabilities that a bit is read as 1 if it is 1 and if it is 0. Under
    bitwise randomised response the estimate equals ((e^(epsilon/2) + 1) H - 1) / (e^(epsilon/2) - 1).
    """
    arrived = received[..., None] > 0
    share = counts / np.where(arrived, received[..., None], 1.0)
    return np.where(arrived, (share - q) / (p - q), 0.0)


def distinct(arrived: Array, total: int, share: Array | float) -> Floats:
    """The effective sample size n of V = `arrived` copies [...] of the answers of N = `total` agents:

        1/n = 1/N + (1 - s)/V,

    0 if V is 0. The mean of V copies varies because there are only N answers, and because only some of them arrived.
    Each request brings a random share s of all answers, each once, independently of other requests; s = 1/N if every
    copy comes from a random agent.
    """
    v = np.maximum(arrived, 1e-300)
    return np.where(arrived > 0, 1.0 / (1.0 / total + np.maximum(1.0 - share, 0.0) / v), 0.0)


def sum_distribution(ones: int, zeros: int, p: float, q: float) -> tuple[int, Floats]:
    """The distribution of Binomial(ones, p) + Binomial(zeros, q): the first count with a probability that is not
    negligible, and the probabilities from there on."""
    from scipy.stats import binom

    first, parts = 0, []
    for size, chance in ((ones, p), (zeros, q)):
        spread = 10 * np.sqrt(size * chance * (1 - chance)) + 40
        low, high = max(0, int(size * chance - spread)), min(size, int(size * chance + spread) + 1)
        parts.append(np.asarray(binom.pmf(np.arange(low, high + 1), size, chance)))
        first += low
    distribution = np.convolve(parts[0], parts[1])
    kept = np.flatnonzero(distribution > NEGLIGIBLE)
    distribution = distribution[kept[0] : kept[-1] + 1]
    return first + int(kept[0]), distribution / distribution.sum()


class AliasTable:
    """Distributions on the integers, each drawn from one uniform number in constant time (Walker 1977; Vose 1991).

    Args:
        distributions: the smallest number and the probabilities from it on, for each row.

    Attributes:
        first: int64[rows], the smallest number of each distribution.
        cells: float64[rows, width], two values in one number: the fraction is the probability that a cell returns its
            own number, and the integer part the cell that it returns otherwise. (One load of memory is faster than
            two.)
    """

    def __init__(self, distributions: list[tuple[int, Floats]]) -> None:
        width = max(distribution.size for _, distribution in distributions)
        self.first = np.array([first for first, _ in distributions])
        self.cells = np.tile(np.arange(float(width)), (len(distributions), 1))
        for row, (_, distribution) in enumerate(distributions):
            share = [*(distribution * width).tolist(), *[0.0] * (width - distribution.size)]
            poor = [i for i, x in enumerate(share) if x < 1]
            rich = [i for i, x in enumerate(share) if x >= 1]
            while poor and rich:
                i, j = poor.pop(), rich[-1]
                if j + share[i] < j + 1:  # as float64
                    self.cells[row, i] = j + share[i]
                share[j] -= 1 - share[i]
                if share[j] < 1:
                    poor.append(rich.pop())

    def draw(self, row: Ints, uniform: Floats) -> Ints:
        """Draw from the distributions `row` [...] with uniform numbers [...]."""
        width = self.cells.shape[1]
        place = uniform * width
        cell = place.astype(np.int64)
        result = self.cells.ravel().take(row * width + cell)
        other = result.astype(np.int64)
        return self.first.take(row) + np.where(place - cell < result - other, cell, other)


class ReplySums:
    """Draws Binomial(x, p) + Binomial(n - x, q): how many of n perturbed replies have a bit set, if x of them had it
    set before the perturbation.

    One table has a row for each x. If that table would be large, only some x, the anchors, have a row, which also
    serves all x up to the next anchor. It draws the sum over n - `gap` replies with the anchor's number of ones; a
    second table draws the sum over the remaining `gap` replies. Both methods are exact.

    Args:
        num_messages: n.
        p: probability that a bit is read as 1 if it is 1.
        q: probability that a bit is read as 1 if it is 0.

    Attributes:
        levels: number of uniform numbers per sum, 1 or 2.
    """

    def __init__(self, num_messages: int, p: float, q: float) -> None:
        n = self.num_messages = num_messages
        width = 20 * np.sqrt(n * max(p * (1 - p), q * (1 - q))) + 1
        self.gap = 0 if n * width <= 2**17 else round(float(n * width / 2) ** (1 / 3))
        self.levels = 1 if self.gap == 0 else 2
        self.anchors = np.append(np.arange(0, n - self.gap, self.gap + 1), n - self.gap)
        self.outer = AliasTable([sum_distribution(a, n - self.gap - a, p, q) for a in self.anchors.tolist()])
        self.inner = AliasTable([sum_distribution(r, self.gap - r, p, q) for r in range(self.gap + 1)])

    def draw(self, ones: Ints, uniform: Floats) -> Ints:
        """Sums [...] for x = `ones` [...] from `uniform` [..., levels]."""
        row = ones // (self.gap + 1)
        drawn = self.outer.draw(row, uniform[..., 0])
        if self.gap:
            drawn += self.inner.draw(ones - self.anchors.take(row), uniform[..., 1])
        return drawn


@lru_cache(maxsize=16)
def reply_sums(num_messages: int, p: float, q: float) -> ReplySums:
    """`ReplySums`, cached."""
    return ReplySums(num_messages, p, q)
