"""Single-agent bandits that are private without a trusted curator, for `federated_bandit_v0`. Every pull belongs to a
new user, who adds a little noise to the reward. The server gets a sum of all users of a batch, or their bits in random
order, with enough noise in total.

The neighbouring inputs differ in one reward of one user, and the observer sees the sums. The policies add the noise
themselves: they send nothing over a channel, and the accountant records nothing. The sum of the users' noise is drawn
in one step from its known distribution.
"""

import functools
import math

import numpy as np

from taciturn.envs.core import number
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.policies.classic.private_bandits import Epoch, PrivateElimination
from taciturn.validation import Array, Floats, Ints
from taciturn_papers.chowdhury2023.indices import batch_radius, laplace_tail, secure_sum, skellam_tail

LARGEST_BATCH = 2.0**40  # beyond every horizon
LEAST_EPSILON = 1e-6  # its noise still fits in 64 bits


class DistDPSE(PrivateElimination):
    """Dist-DP-SE (Chowdhury & Zhou 2023, Algorithm 1 and theorem 1): batches of l(b) = growth^b pulls of each active
    arm; a secure aggregation adds up the rewards of a batch modulo m.

    Each of the n users of a batch adds the difference of two Polya(1/n, e^(-epsilon/g)) numbers to its reward, in steps
    of 1/g. Their sum is discrete Laplace noise, which makes the sum (epsilon, 0)-private (fact 1). g = ceil(epsilon
    sqrt(n)), tau = ceil((g / epsilon) ln(2 / beta)), m = n g + 2 tau + 1.

    Deviations from the paper: theorem 1 gives confidence radii up to a constant; we use the radii of the authors' code.
    The paper rounds real rewards at random to steps of 1/g; our rewards of 0 and 1 need no rounding. Active arms are
    pulled in turn, not one batch after another; this matters in the last batch, which the run's end cuts. The authors'
    code draws Polya(1/n, 1 - e^(-epsilon/g)) numbers, with a sum of variance about 2 epsilon / g instead of 2 (g /
    epsilon)^2, and is not private; we follow the paper.

    Args:
        epsilon: >= 1e-6.
        beta: the failure probability p; None: 1/T, as in theorem 1. 0.1 in the paper's experiments.
        growth: the growth factor of batches, > 1; 2 in Algorithm 1 and 4 in the experiments.
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    trust = "distributed"

    def __init__(self, epsilon: float = 1.0, beta: float | None = None, growth: float = 2.0) -> None:
        self.epsilon = number("epsilon", epsilon, at_least=LEAST_EPSILON)
        self.growth = number("growth", growth, above=1)
        self.beta = None if beta is None else number("beta", beta, above=0, below=1)

    def schedule(self, epoch: Ints, active: Ints) -> Epoch:
        pulls = np.ceil(np.minimum(self.growth**epoch, LARGEST_BATCH)).astype(np.int64)
        sigma, h = self.tail(pulls)
        return Epoch(pulls, 2 * batch_radius(pulls, epoch, active, self.failure, sigma, h))

    def tail(self, pulls: Ints) -> tuple[Floats | float, float]:
        """sigma and h of the noise in a batch's sum (`batch_radius`)."""
        return laplace_tail(self.epsilon)

    def noisy(self, sums: Array, epoch: Epoch) -> Floats:
        pulls = epoch.pulls[:, None].astype(np.float64)
        precision = self.precision(pulls)
        noise = self.noise(precision, sums.shape)
        return secure_sum(sums, noise, pulls, precision, self.reach(precision)) / pulls

    def precision(self, pulls: Array) -> Array:
        """g."""
        return np.asarray(np.ceil(self.epsilon * np.sqrt(pulls)))

    def reach(self, precision: Array) -> Array:
        """tau."""
        return np.asarray(np.ceil(precision / self.epsilon * np.log(2 / self.failure)))

    def noise(self, precision: Array, shape: tuple[int, ...]) -> Ints:
        """The sum of the users' noise: Lap_Z(g / epsilon), the difference of two geometric numbers."""
        chance = np.broadcast_to(-np.expm1(-self.epsilon / precision), shape)
        return np.asarray(self.rng.geometric(chance) - self.rng.geometric(chance))


class DistRDPSE(DistDPSE):
    """Dist-RDP-SE (Chowdhury & Zhou 2023, Algorithm 1 and theorem 2): as `DistDPSE`, with Skellam noise of variance g^2
    / epsilon^2 in a sum. It has Renyi differential privacy, given by `indices.skellam_renyi`.

    g = ceil(s epsilon sqrt(n)) and tau = ceil((2 g / epsilon) sqrt(ln(2 / beta)) + sqrt(2) ln(2 / beta)).

    Deviations from the paper: the same as in `DistDPSE`. In tau the authors' code has ln where theorem 2 has its square
    root; we follow the theorem.

    Args:
        epsilon, beta, growth: as in `DistDPSE`.
        scale: s >= 1; 10 and 100 in the experiments.
    """

    fast = ArmPolicy.epochs
    public_schedule = True

    def __init__(
        self, epsilon: float = 1.0, beta: float | None = None, growth: float = 2.0, scale: float = 10.0
    ) -> None:
        super().__init__(epsilon, beta, growth)
        self.scale = number("scale", scale, at_least=1)

    def tail(self, pulls: Ints) -> tuple[Floats | float, float]:
        return skellam_tail(self.epsilon, self.scale)

    def precision(self, pulls: Array) -> Array:
        return np.asarray(np.ceil(self.scale * self.epsilon * np.sqrt(pulls)))

    def reach(self, precision: Array) -> Array:
        log = np.log(2 / self.failure)
        return np.asarray(np.ceil(2 * precision / self.epsilon * np.sqrt(log) + np.sqrt(2.0) * log))

    def noise(self, precision: Array, shape: tuple[int, ...]) -> Ints:
        """The sum of the users' noise: the difference of two Poisson numbers of mean g^2 / (2 epsilon^2)."""
        mean = np.broadcast_to((precision / self.epsilon) ** 2 / 2, shape)
        return np.asarray(self.rng.poisson(mean) - self.rng.poisson(mean))


class ShuffleElimination(DistDPSE):
    """Elimination in batches: users send bits to a shuffler, as in SDP-AE (Tenenbaum, Kaplan, Mansour & Stemmer 2021).
    It is (epsilon, delta)-private, and the noise in a sum depends little on the number of users.

    A user sends its reward and `noise_bits` further bits that are 1 with a small probability. A server that gets the
    bits of a batch in random order learns only their sum; after subtraction of its mean the noise is centred binomial.

    Deviations from the paper: we knew its elimination and its protocol from the abstract and from Chowdhury & Zhou 2023
    only. Batches and radii are therefore theirs, and the least noise that makes a sum (epsilon, delta)-private is
    computed exactly (`binomial_delta`), where the paper has an explicit sufficient amount. Its variant with batches of
    variable size (VB-SDP-AE) is not included.

    Args:
        epsilon, beta, growth: as in `DistDPSE`.
        delta: in (0, 1).
    """

    fast = ArmPolicy.epochs
    public_schedule = True
    trust = "shuffle"

    def __init__(
        self, epsilon: float = 1.0, beta: float | None = None, growth: float = 2.0, delta: float = 1e-6
    ) -> None:
        super().__init__(epsilon, beta, growth)
        self.delta = number("delta", delta, above=0, below=1)

    def noise_bits(self, pulls: Ints) -> tuple[Ints, Floats]:
        """The number of noise bits of all users of a batch together, and the probability that one of them is 1."""
        results = [noise_bits(int(n), self.epsilon, self.delta) for n in pulls.ravel()]
        bits, chances = (np.reshape(part, pulls.shape) for part in zip(*results, strict=True))
        return bits.astype(np.int64), chances

    def tail(self, pulls: Ints) -> tuple[Floats | float, float]:
        """By Bernstein's inequality: sqrt(2 v) for noise of variance v, and 1/3 (no bit changes the sum by more than
        1)."""
        bits, chances = self.noise_bits(pulls)
        return np.sqrt(2 * bits * chances * (1 - chances)), 1 / 3

    def noisy(self, sums: Array, epoch: Epoch) -> Floats:
        bits, chances = self.noise_bits(epoch.pulls[:, None])
        noise = self.rng.binomial(bits, chances, sums.shape) - bits * chances
        return np.asarray((sums + noise) / epoch.pulls[:, None])


def binomial_delta(bits: int, chance: float, epsilon: float) -> float:
    """The least delta for which a sum of bits with Binomial(`bits`, `chance`) noise is (epsilon, delta)-private if one
    bit changes.

    The ratio P(k) / P(k - 1) = (bits - k + 1) chance / (k (1 - chance)) falls in k; the events with the largest privacy
    loss are therefore tails.
    """
    from scipy.stats import binom

    odds, e = chance / (1 - chance), math.exp(epsilon)
    low = math.floor((bits + 1) * odds / (odds + e))  # P(k) >= e P(k - 1) up to here
    high = math.ceil((bits + 1) * odds / (odds + 1 / e))  # P(k - 1) >= e P(k) from here on
    noise = binom(bits, chance)
    return max(float(noise.cdf(low) - e * noise.cdf(low - 1)), float(noise.sf(high - 2) - e * noise.sf(high - 1)))


@functools.lru_cache(4096)
def noise_bits(users: int, epsilon: float, delta: float) -> tuple[int, float]:
    """(bits, chance) of binomial noise that makes a sum of `users` bits (epsilon, delta)-private: the fewest fair bits,
    equally many per user. If one fair bit per user is more than enough, the chance of a 1 is lowered instead."""
    each = 1
    while binomial_delta(users * each, 0.5, epsilon) > delta:
        each *= 2
    low = each // 2
    while each - low > 1:
        middle = (low + each) // 2
        low, each = (low, middle) if binomial_delta(users * middle, 0.5, epsilon) <= delta else (middle, each)
    if each > 1:
        return users * each, 0.5
    least, chance = 0.0, 0.5
    for _ in range(40):
        half = (least + chance) / 2
        least, chance = (least, half) if binomial_delta(users, half, epsilon) <= delta else (half, chance)
    return users, chance
