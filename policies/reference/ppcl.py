"""PPCL of Chen, Tao, Yu, Li, Gong and Cheng 2021 (Algorithm 1), and CBL, which it is compared with (section VI)."""

from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.policies.classic.social import Proportional, unbiased

__all__ = ["CBL", "PPCL", "popularity_estimate"]


def popularity_estimate(counts: Array, received: Array, p: float, q: float) -> Array:
    """Ftilde of equation 7 (line 7 of Algorithm 1), float64[..., K]: ((e^(epsilon/2) + 1) H - 1) / (e^(epsilon/2) - 1), clipped to [0, 1].

    Normalised to Fhat by (8). With p = 1 - q and q = 1 / (e^(epsilon/2) + 1), what is clipped is (H - q) / (p - q).
    """
    return np.clip(unbiased(counts, received, p, q), 0.0, 1.0)


class PPCL(Proportional):
    """Estimate how popular the options are; while one's own has a share of `alpha`, keep it; else pull one in proportion, switch on reward.

    Args:
        epsilon: what `simulate(privacy="paper")` installs: bitwise randomised response, of 3 in the paper's baseline. What is played is
            what the channel has.
        alpha: the share from which on an agent keeps its preference, in (0, 1]; None: the paper's 1 - 1/(2K).

    Deviations from the paper: equation 7 has a stray comma, line 7 of Algorithm 1 is taken; H is an average over the replies that arrive,
    which is N unless the channel has faults; where the estimate is 0 for all options, which (8) divides by, the agent keeps its preference.
    """

    def __init__(self, epsilon: float = 3.0, alpha: float | None = None) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.alpha = None if alpha is None else number("alpha", alpha, above=0, at_most=1)

    def prescribes(self, view: PublicView) -> dict[str, Any]:
        from taciturn.privacy.mechanisms import BitwiseRandomizedResponse

        return {"preference": BitwiseRandomizedResponse(self.epsilon)}

    fast = Proportional.gossip_rule

    def prepare(self, view: PublicView) -> None:
        self._threshold = 1 - 1 / (2 * self._options) if self.alpha is None else self.alpha

    def weights(self, counts: Array, received: Array) -> Array:
        return popularity_estimate(counts, received, *self._law)


class CBL(Proportional):
    """Ask one peer, pull what it prefers, switch on reward; without a preference, pull a uniform option with probability `tau`.

    Args:
        tau: in (0, 1].

    Deviations from the paper: it does not state the tau of its Figure 6; its condition `C_i = 1` for copying a peer is read as `C_i != 0`.
    A peer without preference has nothing to say, and the agent pulls nothing. The paper runs it without noise; if there is some, the agent
    pulls one of the options that the reply names, drawn uniformly.

    Needs `gossip_bandit_v0` with `asks="one"`, and is meant to begin with `initial_preferences="none"`.
    """

    def __init__(self, tau: float = 0.1) -> None:
        self.tau = self._explore = number("tau", tau, above=0, at_most=1)

    fast = Proportional.gossip_rule

    def prepare(self, view: PublicView) -> None:
        if not issubclass(view.world, GossipBandit) or view.params.asks != "one":
            raise ValueError(
                f"CBL asks one peer: it acts in gossip_bandit with asks='one', not in {view.name} as it is"
            )

    def weights(self, counts: Array, received: Array) -> Array:
        return np.asarray(counts, np.float64)
