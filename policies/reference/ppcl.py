"""The algorithms of Chen, Tao, Yu, Li, Gong and Cheng 2021: PPCL (Algorithm 1), and CBL, its baseline in section VI."""

import numpy as np

from taciturn.channels.replies import unbiased
from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.gossip_bandit.world import GossipBandit
from taciturn.policies.families.social import Proportional
from taciturn.privacy.mechanisms import BitwiseRandomizedResponse, Mechanism


def clipped_estimate(counts: Array, received: Array, p: float, q: float) -> Array:
    """Popularity estimate Ftilde, [..., K]: ((e^(epsilon/2) + 1) H - 1) / (e^(epsilon/2) - 1) clipped to [0, 1]
    [Chen 7].

    With p = 1 - q and q = 1 / (e^(epsilon/2) + 1), the value before clipping is (H - q) / (p - q).
    """
    return np.clip(unbiased(counts, received, p, q), 0.0, 1.0)


class PPCL(Proportional):
    """Estimate the popularity of the options; keep the current option if it seems popular enough, else pull one in
    proportion to popularity.

    An agent keeps its preference while its estimated share is at least `alpha`. Otherwise it pulls an option, and
    adopts it if the signal is 1.

    Args:
        epsilon: level of the bitwise randomised response that `simulate(privacy="paper")` installs; 3 in the paper's
            baseline. The estimate always uses the installed mechanism.
        alpha: the smallest share at which an agent keeps its preference, in (0, 1]; None: the paper's 1 - 1/(2K).

    Deviations from the paper: equation 7 has a stray comma, so the estimate follows line 7 of Algorithm 1. The
    popularity H is an average over the replies that arrive: N, unless the channel has faults. If the estimate is 0 for
    all options, equation 8 would divide by 0; the agent then keeps its preference.
    """

    def __init__(self, epsilon: float = 3.0, alpha: float | None = None) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.alpha = None if alpha is None else number("alpha", alpha, above=0, at_most=1)

    def prescribes(self, view: PublicView) -> dict[str, Mechanism]:
        """Bitwise randomised response of level epsilon on the channel `preference` [Chen 5]."""
        return {"preference": BitwiseRandomizedResponse(self.epsilon)}

    fast = Proportional.gossip_rule

    def prepare(self, view: PublicView) -> None:
        self._threshold = 1 - 1 / (2 * self._options) if self.alpha is None else self.alpha

    def weights(self, counts: Array, received: Array) -> Array:
        return clipped_estimate(counts, received, *self._distribution)


class CBL(Proportional):
    """Pull the option that a random peer prefers and adopt it on signal 1; without a preference, pull a random option
    with probability `tau`.

    Args:
        tau: probability in (0, 1].

    It needs `gossip_bandit_v0` with `asks="one"`, and is meant to start with `initial_preferences="none"`.

    Deviations from the paper: it does not state the tau of its Figure 6. Its condition `C_i = 1` for copying a peer is
    read as `C_i != 0`. If the peer has no preference, the agent pulls nothing. The paper runs CBL without noise; under
    noise the agent pulls a random option among the set bits of the reply.
    """

    def __init__(self, tau: float = 0.1) -> None:
        self.tau = self._explore = number("tau", tau, above=0, at_most=1)

    fast = Proportional.gossip_rule

    def prepare(self, view: PublicView) -> None:
        if not issubclass(view.world, GossipBandit) or view.params.asks != "one":
            raise ValueError(
                f"CBL asks one peer: it acts in gossip_bandit with asks='one', not in {view.name} with other parameters"
            )

    def weights(self, counts: Array, received: Array) -> Array:
        return np.asarray(counts, np.float64)
