"""Amplification by shuffling: randomised responses of many senders cost less than single ones if an observer cannot
link them to their senders."""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Around, Given
from taciturn.privacy.composition import ORDERS, rho_of
from taciturn.privacy.losses import LOCAL, BitsLoss, KaryLoss, PrivacyLoss, pair_divergence
from taciturn.privacy.randomized_response import BitwiseRandomizedResponse
from taciturn.privacy.sampling import of_both_signs, profile
from taciturn.validation import Array, Floats, Ints, integer

MOST_SENDERS = 10**6
"""Larger numbers of senders are reduced to this one, which gives an upper bound."""

LEAST_EPSILON, MOST_EPSILON = 1e-12, 30.0
"""Local messages with other epsilons count as not shuffled: clones are rarer than e^-15 or rounding errors dominate."""

FAR = 38.0  # standard deviations; e^(-FAR^2/2) is about the smallest float
BLOCKS = 8  # blocks of m in one standard deviation; half as many of T
TINY = 1e-290  # rows that are less probable are left out
FINE = 0.02  # steps between losses near 0, in units of their standard deviation
GROWTH = 0.02  # larger steps, as shares of the loss


@dataclass(frozen=True)
class ShuffledLoss(PrivacyLoss):
    """One of `num_senders` messages of the same randomised response, if an observer sees only the multiset of messages
    (or a function of it, such as their sum).

    Unit: one sender's data are replaced. Observer: it reads the messages of all senders, and not who sent which. Trust:
    the shuffler, or the anonymous channel, hides the senders' addresses and the order of the messages from the
    observer, and all `num_senders` senders use the mechanism correctly. Senders that do not, or that reveal their
    messages to the observer, do not hide an agent and must not be counted. The local epsilon always bounds the loss.

    The dominating pair. Let p = e^epsilon of the local `loss`, R_0 and R_1 the two distributions of the message of the
    sender with changed data, and R_i the distribution of any other sender's message. The likelihood ratio R_0 / R_1 is
    p with probability p a (under R_0), 1/p with probability a, and 1 otherwise. Let z be the probability of the
    messages of ratio 1 that are at least as probable under every value of another sender: for K-ary response all of
    them, for bits those with a 0 at the values of both worlds. Let Q_0, Q_1 and Q_z be R_0 given that the ratio is p,
    that it is 1/p, and that the message is one of those counted in z. Then R_0 = p a Q_0 + a Q_1 + z Q_z + W, with W
    for the rest, and R_1 is the same with Q_0 and Q_1 exchanged. For every other sender, R_i >= R_0 / p = a Q_0 where
    the ratio is p, R_i >= R_1 / p = a Q_1 where it is 1/p, and R_i >= z Q_z. With probability 2a + z the other sender
    is therefore a clone, which sends from Q_0, Q_1 or Q_z with probabilities proportional to a : a : z.

    Reveal to the observer whether the sender's own message is from the rest (then the two worlds are the same), which
    of the other senders are clones, and the messages of those that are not. There remain T = 1 + C messages, from
    C ~ Bin(num_senders - 1, 2a + z) clones and, with probability (p+1) a + z, from the sender. The numbers
    (a_0, a_1, a_z) of these that come from Q_0, Q_1 and Q_z dominate: the probability of each outcome is its
    probability for T clones, multiplied by b (1 + (p-1) a_0 / T), or by b (1 + (p-1) a_1 / T) in the other world, with
    b = (2a + z) / ((p+1) a + z). With m = a_0 + a_1 and x = (a_0 - a_1) / m, the distributions of a_0 given T and m are
    Bin(m, 1/2) times 1 +- s x, with s / (1 - s) = (p-1) m / (2T).

    For binary randomised response a = 1 / (p + 1) and z = 0, and this is Theorem 3.1 of Feldman, McMillan & Talwar
    (2023, 'Stronger privacy amplification by shuffling', arXiv 2208.04591): C ~ Bin(n-1, 2 / (p+1)), and the sender's
    own message follows Bern(p / (p+1)). For K-ary response a = 1 / (p + K - 1) and z = (K-2) a, and the rest is empty.
    For bits a = 1 / (e^(epsilon/2) + 1)^2 if they are symmetric, 1 / (2 (p + 1)) if optimised. A sender without a value
    (a vector of zeros) answers like one that holds an additional option without a bit in the message, so the proof
    covers it.

    Deviations from that paper: its Errata restrict Theorem 3.1 to mechanisms with R_i >= (R_0 + R_1) / (p + 1). Bits of
    three options or more violate this at messages with a 1 at the values of both worlds and a 0 at the other sender's.
    We therefore use the mechanism's own probabilities of clones. Without Q_z, uninformative messages would have to
    count as the rest, which is revealed: if the sender's own message could instead hide among senders that are not
    clones, the counts would not dominate, as an enumeration of ternary response with two senders shows.

    Pure differential privacy is not amplified: `epsilon` is the local one. `delta` is exact for the dominating pair if
    T and m have at most 200 values, and otherwise for a pair that dominates it closely (`_rows`). The Renyi divergence
    and `dominating_pair` are those of a pair with about 1,000 distinct losses that dominates the pair above. rho is the
    smallest that bounds this divergence; it is at least about epsilon^2 / 2,600, because outcomes too rare for floats
    count with a loss of epsilon. Composition of several rounds is adaptive, as for every dominating pair (Zhu, Dong &
    Wang 2022, Theorem 10).

    A new number of senders takes up to a second to compute below 10,000 senders, and several seconds for a million.

    Args:
        loss: the loss of the local message: `BitwiseRandomizedResponse`, `UnaryEncoding` or `KaryRandomizedResponse`.
        num_senders: n >= 1, all honest senders of the round, including the one with changed data.

    Raises:
        ValueError: an argument has a wrong type or is out of range.
    """

    kind: ClassVar[str] = "shuffled"
    epsilon: float = field(init=False)
    rho: float = field(init=False)
    loss: PrivacyLoss
    num_senders: int

    def __post_init__(self) -> None:
        check_local(self.loss)
        size = min(integer("num_senders", self.num_senders, at_least=1), MOST_SENDERS)
        object.__setattr__(self, "num_senders", size)
        object.__setattr__(self, "epsilon", self.loss.epsilon)
        object.__setattr__(self, "rho", min(self.loss.rho, _shuffled(self.loss, size)[2]))

    def delta(self, at: ArrayLike) -> Floats:
        """Delta of one round at each epsilon in `at`, float64 of its shape: `shuffled_delta`."""
        return shuffled_delta(self.loss, self.num_senders, checks.reals("at", at))

    def dominating_pair(self) -> tuple[Array, Array]:
        return _shuffled(self.loss, self.num_senders)[:2]


@dataclass(frozen=True)
class ShuffledBitsLoss(PrivacyLoss):
    """One of `num_senders` vectors of symmetrically perturbed bits, if an observer sees only how many senders set each
    bit.

    Unit, observer and trust are as in `ShuffledLoss`; the shuffler mixes the messages of each bit separately
    ('report fragmenting', Erlingsson et al. 2020, arXiv 2001.03618), or adds them up. If a sender's one-hot vector
    changes, two of its bits change. Each is a binary randomised response of epsilon / 2, perturbed independently of the
    other and of the bits of all other senders, whatever vectors they hold. The observer therefore sees two independent
    sets of shuffled binary responses, each with the loss `ShuffledLoss` of epsilon / 2, and sets of bits with unchanged
    distributions: the Renyi divergences of the two add up (Mironov 2017, Proposition 1). This is much less than
    `ShuffledLoss` of the vectors, since a sender's bit has a clone among others with probability
    2 / (e^(epsilon / 2) + 1), and a vector only with a probability of the order of its square.

    Args:
        loss: the loss of the local message, of `BitwiseRandomizedResponse`.
        num_senders: n >= 1, as for `ShuffledLoss`.

    Raises:
        ValueError: an argument has a wrong type or is out of range.
    """

    kind: ClassVar[str] = "shuffled"
    epsilon: float = field(init=False)
    rho: float = field(init=False)
    loss: BitsLoss
    num_senders: int

    def __post_init__(self) -> None:
        given: Any = self.loss
        if not isinstance(given, BitsLoss) or not math.isclose(self.loss.logit_one, -self.loss.logit_zero):
            raise ValueError(f"loss must be that of BitwiseRandomizedResponse, not {self.loss!r}")
        object.__setattr__(self, "epsilon", self.loss.epsilon)
        object.__setattr__(self, "rho", min(self.loss.rho, 2 * self.bit.rho))

    @property
    def bit(self) -> ShuffledLoss:
        """The loss of one of the two bits that change."""
        return ShuffledLoss(KaryLoss(self.loss.epsilon / 2, self.loss.rho / 2, 2), self.num_senders)

    def parts(self) -> tuple[PrivacyLoss, int]:
        return self.bit, 2

    def divergence(self, alpha: Array) -> Array:
        return 2 * self.bit.rdp(alpha)


@dataclass(frozen=True)
class Shuffled(Around):
    """Randomised response with messages that a shuffler mixes with those of others before anyone reads them.

    Messages, sums and their estimates are those of `mechanism`. `loss` is the local one, which holds against every
    agent and the shuffler. `summed_loss` is the cost against an observer who reads only how many senders gave each
    answer, or set each bit.

    Args:
        mechanism: `BitwiseRandomizedResponse`, `UnaryEncoding` or `KaryRandomizedResponse`, the same for all senders.

    Raises:
        ValueError: the mechanism is none of these.
    """

    closed_counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(shuffles=True)
        check_local(self.mechanism.loss(), "mechanism", self.mechanism)

    def perturb_counts(self, histogram: ArrayLike, rng: Generator, num_messages: Given = None) -> Array:
        return self.mechanism.perturb_counts(histogram, rng, num_messages)

    def summed_loss(self, num_senders: int) -> ShuffledLoss | ShuffledBitsLoss:
        """The cost of the message of one of `num_senders` >= 1 honest senders."""
        loss = self.loss()
        if isinstance(self.mechanism, BitwiseRandomizedResponse):
            return ShuffledBitsLoss(cast("BitsLoss", loss), num_senders)
        return ShuffledLoss(loss, num_senders)


def check_local(loss: Any, name: str = "loss", value: object = None) -> None:
    """Raise ValueError unless a loss belongs to one randomised response; `name` and `value` are the argument's."""
    usable = isinstance(loss, PrivacyLoss) and loss.kind in LOCAL and not isinstance(loss, ShuffledLoss)
    if not usable or loss.dominating_pair() is None:
        owner = "" if name == "mechanism" else "the loss of "
        raise ValueError(
            f"{name} must be {owner}BitwiseRandomizedResponse, UnaryEncoding or KaryRandomizedResponse, not "
            f"{loss if value is None else value!r}"
        )


def clone_probabilities(loss: PrivacyLoss) -> tuple[float, float]:
    """a and z of a randomised response, as defined in `ShuffledLoss`."""
    first, second = cast("tuple[Array, Array]", loss.dominating_pair())
    distribution = np.exp(first)
    same = distribution[-1:] if isinstance(loss, BitsLoss) else distribution[first == second]
    return float(distribution[first < second].sum()), float(same.sum())


def shuffled_delta(loss: PrivacyLoss, num_senders: int, at: Floats) -> Floats:
    """Delta of the dominating pair of `ShuffledLoss` at each epsilon in `at`, summed over outcomes.

    With t the least a_0 with a loss above epsilon, the sum over a_0 of Bin(m, 1/2) max(1 + s x - e^epsilon (1 - s x),
    0) is (1 - e^epsilon) P(Bin(m, 1/2) >= t) + s (1 + e^epsilon) P(Bin(m-1, 1/2) = t-1) / 2.
    """
    from scipy.stats import binom

    x = np.abs(at)[..., None]
    if not LEAST_EPSILON <= loss.epsilon <= MOST_EPSILON:
        return of_both_signs(at, profile(loss, x[..., 0]))
    m, s, weight, left_out, _ = _rows(loss, num_senders)
    share = np.divide(np.tanh(x / 2), s, out=np.full(np.broadcast_shapes(x.shape, s.shape), math.inf), where=s > 0)
    least = np.floor(m * (1 + np.minimum(share, 1.0)) / 2) + 1
    exceeds = least <= m
    x = np.minimum(x, loss.epsilon)  # no loss exceeds epsilon
    tail, point = binom.sf(least - 1, m, 0.5), binom.pmf(least - 1, np.maximum(m - 1, 0), 0.5)
    excess = np.where(exceeds, s * (1 + np.exp(x)) * point / 2 - np.expm1(x) * tail, 0.0)
    rest = -np.expm1(np.minimum(x[..., 0] - loss.epsilon, 0.0))
    return of_both_signs(at, (weight * np.maximum(excess, 0.0)).sum(-1) + left_out * rest)


@lru_cache(64)
def _rows(loss: PrivacyLoss, num_senders: int) -> tuple[Floats, Floats, Floats, float, float]:
    """Rows of outcomes of the pair of `ShuffledLoss`, one m each: m, s and probability; then the probability of the
    outcomes left out, and of the outcomes without loss.

    Blocks of T, and of m for one T, become one row each, with the fewest clones and the largest s of the block. That
    row dominates: other clones can be added, and a smaller s mixes the distributions V_0 and V_1 of a message that is
    known to be among m - 1 clones.
    """
    a, z = clone_probabilities(loss)
    more, others, clone = math.expm1(loss.epsilon), num_senders - 1, min(2 * a + z, 1.0)  # p - 1
    own = min((more + 2) * a + z, 1.0)
    clones, chance, left_out = _distribution(others, clone)
    starts = _starts(clones, chance, BLOCKS / 2)
    rows = []
    for fewest, block in zip(clones[starts] + 1, np.add.reduceat(chance, starts), strict=True):
        m, distribution, beyond = _distribution(int(fewest), min(2 * a / (2 * a + z), 1.0))
        gain = more * m / (2 * fewest)
        distribution *= (2 * a + z) / ((more + 2) * a + z) * (1 + gain)
        left_out += block * beyond * (more + 1)
        first = _starts(m, distribution, BLOCKS)
        s = np.maximum.reduceat(gain / (1 + gain), first)
        rows.append(np.stack([m[first], s, own * block * np.add.reduceat(distribution, first)]))
    m, s, weight = np.concatenate(rows, axis=1)
    kept = weight > TINY
    return m[kept], s[kept], weight[kept], left_out + TINY * len(m), 1 - own


def _distribution(size: int, probability: float) -> tuple[Floats, Floats, float]:
    """The outcomes of a binomial distribution within FAR standard deviations of its mean, their probabilities, and the
    probability of all others."""
    from scipy.stats import binom

    mean, spread = size * probability, FAR * math.sqrt(size * probability * (1 - probability)) + FAR**2
    low, high = max(0, math.floor(mean - spread)), min(size, math.ceil(mean + spread))
    outcomes = np.arange(low, high + 1, dtype=np.float64)
    distribution = binom.pmf(outcomes, size, probability)
    return outcomes, distribution, float(binom.cdf(low - 1, size, probability) + binom.sf(high, size, probability))


def _starts(outcomes: Floats, distribution: Floats, blocks: float) -> Ints:
    """The first outcomes of blocks. Up to 200 outcomes are blocks of one. Otherwise there are `blocks` blocks in a
    standard deviation up to 4 standard deviations from the mean; beyond, the end of each is 40% farther away."""
    if len(outcomes) <= 200:
        return np.arange(len(outcomes))
    mean = float(outcomes @ distribution) / float(distribution.sum())
    deviation = max(1.0, math.sqrt(float((outcomes - mean) ** 2 @ distribution) / float(distribution.sum())))
    far = 4 * 1.4 ** np.arange(math.ceil(math.log(len(outcomes) / deviation / 4 + 1) / math.log(1.4)) + 1)
    ends = mean + deviation * np.concatenate([-far, np.arange(-4, 4, 1 / blocks), far]) - outcomes[0]
    return np.unique(np.clip(ends, 0, len(outcomes) - 1).astype(np.int64))


@lru_cache(256)
def _shuffled(loss: PrivacyLoss, num_senders: int) -> tuple[Array, Array, float]:
    """A finite pair that dominates the pair of `ShuffledLoss`, and its rho.

    A loss between two points of a grid is divided between these in a way that keeps both of its probabilities; merging
    the parts restores it ('connect the dots', Doroshenko et al. 2022). Outcomes left out, of probability below 1e-280,
    get a loss of +-epsilon.
    """
    from scipy.special import gammaln

    epsilon = loss.epsilon
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        return *cast("tuple[Array, Array]", loss.dominating_pair()), loss.rho
    sizes, slopes, weights, left_out, idle = _rows(loss, num_senders)
    grid = _grid(epsilon, 2 * math.sqrt(float((slopes**2 / np.maximum(sizes, 1)) @ weights / weights.sum())))
    positive = np.zeros(len(grid))  # probabilities of losses >= 0 under P; those of losses <= 0 under Q are the same
    positive[0] = idle / 2 + float(weights[sizes == 0].sum()) / 2
    for size, slope, weight in zip(*(one[sizes > 0] for one in (sizes, slopes, weights)), strict=True):
        end = min(size, math.ceil(size / 2 + FAR / 2 * math.sqrt(size) + 1))
        ones = np.arange(math.floor(size / 2) + 1, end + 1)
        distribution = np.exp(gammaln(size + 1) - gammaln(ones + 1) - gammaln(size - ones + 1) - size * math.log(2))
        x = slope * (2 * ones - size) / size
        at = np.minimum(2 * np.arctanh(x), epsilon)
        upper = np.clip(np.searchsorted(grid, at), 1, len(grid) - 1)
        below, above = grid[upper - 1], grid[upper]
        share = np.expm1(below - at) / np.expm1(below - above)
        mass = weight * distribution * (1 + x)
        positive += np.bincount(upper, mass * share, len(grid))
        positive += np.bincount(upper - 1, mass * (1 - share), len(grid))
        if size % 2 == 0:
            center = math.exp(gammaln(size + 1) - 2 * gammaln(size / 2 + 1) - size * math.log(2))
            positive[0] += weight * center / 2
    positive[-1] += left_out / (1 + math.exp(-epsilon))
    positive[0] *= 2
    kept = positive > 0
    distribution, at = np.log(positive[kept]), grid[kept]
    first = np.concatenate([distribution, (distribution - at)[at > 0]])
    second = np.concatenate([distribution - at, distribution[at > 0]])
    first.flags.writeable = second.flags.writeable = False
    return first, second, rho_of(pair_divergence(ORDERS, first, second), epsilon)


def _grid(epsilon: float, deviation: float) -> Floats:
    """Losses from 0 to epsilon: first `deviation` * FINE apart, then each larger by the share GROWTH."""
    turn = deviation * FINE / GROWTH
    near = np.arange(0.0, min(turn, epsilon), deviation * FINE)
    far = turn * np.exp(np.arange(0.0, max(0.0, math.log(epsilon / turn)), math.log1p(GROWTH)))
    grid = np.concatenate([near, far])
    return np.append(grid[grid < epsilon * (1 - 1e-12)], epsilon)
