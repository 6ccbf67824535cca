"""Agents of Tao et al. 2023, "A distributed privacy-preserving learning dynamics in general social networks", section
4, stages 3 and 4."""

import numpy as np

from taciturn.channels.replies import unbiased
from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.policies.base import Policy
from taciturn.policies.families.social import SocialPolicy, sample
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism
from taciturn.validation import Bools, Ints


def popularity_estimate(counts: Array, received: Array, p: float, q: float) -> Array:
    """Popularity estimate Qtilde, [..., K]: max(((e^(epsilon/2) + 1) Lambda - 1) / (e^(epsilon/2) - 1), 0) with Lambda
    = B / V [Tao 7].

    With p = 1 - q and q = 1 / (e^(epsilon/2) + 1) this is max((Lambda - q) / (p - q), 0). It is 0 where no copy was
    received.
    """
    return np.maximum(unbiased(counts, received, p, q), 0.0)


class PrivateSocialLearning(SocialPolicy):
    """Stage 3: estimate the popularity of the options from noisy copies, and draw an option from it. Stage 4: adopt it
    by its signal.

    Args:
        beta: probability of adopting an option with signal 1, in (1/2, 1]; 1 - beta if the signal is 0.
        mu: probability of a uniformly random option instead of one drawn from the estimate, in [0, 1].
        epsilon: level of the bitwise randomised response that `simulate(privacy="paper")` installs.
        empty: the choice of an agent if it received nothing or its estimate is 0 for all options: "uniform" (a random
            option) or "null" (none). The paper does not specify it.
        pool: number of rounds of copies in an estimate, >= 1. The paper's agents have no memory, so 1; more rounds
            average out noise.

    The theorems assume `beta` in (1/2, e/(e+1)); any value above 1/2 is allowed here.
    """

    def __init__(
        self,
        beta: float = 0.505,
        mu: float = 6.7e-5,
        *,
        epsilon: float = 1.0,
        empty: str = "uniform",
        pool: int = 1,
    ) -> None:
        self.beta = number("beta", beta, above=0.5, at_most=1)
        self.alpha = 1 - self.beta
        self.mu = number("mu", mu, at_least=0, at_most=1)
        self.epsilon = number("epsilon", epsilon, above=0)
        self.empty = choice("empty", empty, ("uniform", "null"))
        self.pool = integer("pool", pool, at_least=1)

    @property
    def memoryless(self) -> bool:  # type: ignore[override]
        """Whether it uses a single round of copies."""
        return self.pool == 1

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        """Bitwise randomised response of level epsilon on the channel `preference` [Tao 6]."""
        return {"preference": BitwiseRandomizedResponse(self.epsilon)}

    def prepare(self, view: PublicView) -> None:
        self._past: list[tuple[Array, Array]] = []

    def restart(self, where: Array) -> None:
        goes_on = ~where[:, None]
        self._past = [(counts * goes_on[:, :, None], received * goes_on) for counts, received in self._past]

    def noise(self) -> tuple[float, float]:
        """(p, q): the probabilities, assumed by the estimate, that a bit is read as 1 if it is 1 (p) and if it is 0
        (q)."""
        return self._distribution

    def estimate(self, counts: Array, received: Array) -> Array:
        """Qtilde of the pooled rounds, [B, N, K]."""
        if self.pool > 1:
            self._past = [*self._past[1 - self.pool :], (counts, received)]
            counts, received = (sum(part) for part in zip(*self._past, strict=True))
        return popularity_estimate(counts, received, *self.noise())

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self.unpack(obs)
        option = self.explore(*sample(self.estimate(seen["counts"], seen["received"]), self.rng))
        return self.plan(option, *self.adopts(option.shape))

    def explore(self, option: Ints, known: Bools) -> Ints:
        """Replace `option` by a random one with probability mu [Tao 13]; where it is not `known`, `empty` gives the
        choice."""
        uniform = self.rng.integers(0, self._options, option.shape)
        explores = self.rng.random(option.shape) < self.mu
        option = np.where(known, option, uniform if self.empty == "uniform" else self._options)
        return np.where(explores, uniform, option)

    def adopts(self, shape: tuple[int, ...]) -> Bools:
        """Whether an agent would adopt its option on signal 0 and on signal 1, [2, *shape] [Tao 9]."""
        return self.rng.random((2, *shape)) < np.reshape([self.alpha, self.beta], (2, *[1] * len(shape)))


class Replicator(PrivateSocialLearning):
    """Copy a random message, then adopt its option by the signal: Celis, Krafft & Vishnoi 2017, "A distributed learning
    dynamics in social groups".

    An agent tries the option of a random received message, or with probability mu a random option. It adopts the option
    with probability beta if its signal is 1, and alpha if its signal is 0. With alpha = 1 - beta and without noise this
    is `PrivateSocialLearning`; unlike that policy it does not correct for noise.

    Args:
        beta: in (0, 1].
        mu: in [0, 1].
        alpha: in [0, beta]; None: 1 - beta.
    """

    def __init__(self, beta: float = 0.65, mu: float = 0.05, *, alpha: float | None = None) -> None:
        self.beta = number("beta", beta, above=0, at_most=1)
        self.mu = number("mu", mu, at_least=0, at_most=1)
        self.alpha = number("alpha", 1 - beta if alpha is None else alpha, at_least=0, at_most=self.beta)
        self.empty, self.pool = "uniform", 1

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        return Policy.prescribes(self, view)

    def noise(self) -> tuple[float, float]:
        return 1.0, 0.0
