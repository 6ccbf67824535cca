"""Tao et al. 2023, "A distributed privacy-preserving learning dynamics in general social networks", section 4, stages 3 and 4."""

import math
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, integer, number
from taciturn.envs.social_bandit.world import SocialBandit, SocialRule
from taciturn.policies.base import Policy
from taciturn.policies.classic.social import SocialPolicy

__all__ = ["PrivateSocialLearning", "Replicator", "popularity_estimate", "sample"]


def popularity_estimate(counts: Array, received: Array, keep: float, flip: float) -> Array:
    """Equation 7, of Lambda = B / V: max((Lambda - q) / (p - q), 0), [..., K]; 0 where nothing was received.

    With p = 1 - q and q = 1 / (e^(epsilon/2) + 1) this is max(((e^(epsilon/2) + 1) Lambda - 1) / (e^(epsilon/2) - 1), 0).
    """
    heard = np.maximum(received, 1)[..., None]
    return np.asarray(np.maximum((counts / heard - flip) / (keep - flip), 0.0) * (received > 0)[..., None])


def sample(weights: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """An option each in proportion to `weights` [..., K] (equation 8), int64[...], and where they are not all 0, bool[...]."""
    edges = np.empty((weights.shape[-1], *weights.shape[:-1]))
    total = np.zeros(weights.shape[:-1])
    for k, edge in enumerate(edges):  # three times faster than cumsum along a short axis
        total = np.add(total, weights[..., k], out=edge)
    point = rng.random(total.shape) * total
    return np.minimum((edges <= point).sum(0), len(edges) - 1), total > 0


class PrivateSocialLearning(SocialPolicy):
    """Stage 3: estimate the options' popularity from the noisy copies, and draw an option from it; stage 4: take it up by its signal.

    Args:
        beta: the probability of taking up an option whose signal is 1 (1 - beta where it is 0), in (1/2, 1]. Equation 9.
        mu: the probability of a uniformly random option instead, in [0, 1].
        delta: ln(beta / (1 - beta)), in place of beta.
        epsilon: what `simulate(privacy="paper")` installs: bitwise randomised response of that level.
        empty: what an agent tries whose estimate is 0 everywhere or who received nothing: "uniform", an option at random, or "null", none.
        pool: rounds whose copies an agent counts together, >= 1; with more than the paper's 1 it remembers, and noise averages out.

    What the paper leaves open: `empty`. Its `beta` lies in (1/2, e/(e+1)) in the theorems; any above 1/2 is allowed here.
    """

    def __init__(
        self,
        beta: float | None = None,
        mu: float = 6.7e-5,
        *,
        delta: float | None = None,
        epsilon: float = 1.0,
        empty: str = "uniform",
        pool: int = 1,
    ) -> None:
        if beta is not None and delta is not None:
            raise ValueError(f"beta and delta say the same: give one of them, not beta={beta!r} and delta={delta!r}")
        if delta is not None:
            beta = 1 / (1 + math.exp(-number("delta", delta, above=0)))
        self.beta = number("beta", 0.505 if beta is None else beta, above=0.5, at_most=1)
        self.alpha = 1 - self.beta
        self.mu = number("mu", mu, at_least=0, at_most=1)
        self.epsilon = number("epsilon", epsilon, above=0)
        self.empty = choice("empty", empty, ("uniform", "null"))
        self.pool = integer("pool", pool, at_least=1)

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        """Equation 6 on the channel `preference`."""
        from taciturn.privacy.mechanisms import BitwiseRandomizedResponse

        return {"preference": BitwiseRandomizedResponse(self.epsilon)}

    def prepare(self, view: PublicView) -> None:
        self._past: list[tuple[Array, Array]] = []

    def noise(self) -> tuple[float, float]:
        """With which probability a bit that is 1, and one that is 0, is read as 1."""
        return self._law

    def fast(self, view: PublicView) -> SocialRule | None:
        """Without memory, in `social_bandit_v0`."""
        if self.pool > 1 or not issubclass(view.world, SocialBandit):
            return None
        return SocialRule(*self.noise(), self.beta, self.alpha, self.mu, self.empty == "uniform")

    def estimate(self, counts: Array, received: Array) -> Array:
        """Qtilde, [B, N, K]."""
        if self.pool > 1:
            self._past = [*self._past[1 - self.pool :], (counts, received)]
            counts, received = (sum(part) for part in zip(*self._past, strict=True))
        return popularity_estimate(counts, received, *self.noise())

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        option, known = sample(self.estimate(seen["counts"], seen["received"]), self.rng)
        uniform = self.rng.integers(0, self._options, option.shape)
        explores = self.rng.random(option.shape) < self.mu
        option = np.where(known, option, uniform if self.empty == "uniform" else self._options)
        option = np.where(explores, uniform, option)
        coins = self.rng.random((2, *option.shape)) < np.array([self.alpha, self.beta]).reshape(2, 1, 1)
        return self.plan(option, *coins)


class Replicator(PrivateSocialLearning):
    """Copy what one hears, then take it up by its signal: Celis, Krafft & Vishnoi 2017, "A distributed learning dynamics in social groups".

    An agent tries the option of a random message that it heard, or with probability mu a random one, and takes it up with probability
    beta if its signal is 1, alpha if it is 0. With alpha = 1 - beta and no noise it is `PrivateSocialLearning`; noise it takes at its word.

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

    fast = PrivateSocialLearning.fast

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        return Policy.prescribes(self, view)

    def noise(self) -> tuple[float, float]:
        return 1.0, 0.0
