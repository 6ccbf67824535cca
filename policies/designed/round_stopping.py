"""A stopping rule for training under a privacy budget: a few large rounds."""

import math
from functools import lru_cache
from typing import Any

import numpy as np

from taciturn.envs.core import Array, ChannelConfig, PublicView, choice, integer, number
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.privacy.budget import Budget
from taciturn.privacy.mechanisms import CentralSum, Gaussian
from taciturn.privacy.sampling import SampledLoss
from taciturn.validation import Bools, Ints


@lru_cache(1024)
def least_noise(budget: Budget, rate: float, messages: int) -> float:
    """The largest rho of Gaussian noise, within 0.1%, with which a budget admits `messages` averages of random samples
    that each contain a share `rate` of all agents."""

    def fits(rho: float) -> bool:
        loss = Gaussian.from_rho(rho).loss()
        return budget.messages(SampledLoss(loss, rate) if rate < 1 else loss) >= messages

    low, high = 1e-9, 1e4
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class FewRounds(StoppingRule):
    """Close a few rounds of `k` updates each, and then wait for the end: for clients that can pay for few updates.

    Averaging n updates with Gaussian noise of variance v in each of D parameters leaves a squared error of D v / n.
    Under a privacy budget, rounds with updates only from the few clients with budget left do harm. After `rounds`
    rounds no further round is closed, unless all clients have sent.

    If clients trust a curator who releases averages, noise of variance v in an average leaves D v, for any n, and an
    average costs all clients the same small epsilon, as for a random sample of k of M - 1 clients. Then the noise is
    the smallest that allows `rounds` averages within the budget, and the budget stops all further ones (federated
    averaging with differential privacy: McMahan, Ramage, Talwar & Zhang 2018).

    Args:
        k: updates in a round (all, if there are fewer clients).
        rounds: number of rounds to close.
        trust_model: the party that clients trust under a privacy budget: "local", none, and the benchmark sets the
            level; "central", a curator who averages their updates.
        delta: delta of the budget, in (0, 1), if a curator is trusted.
    """

    def __init__(self, k: int, rounds: int = 1, trust_model: str = "local", delta: float = 1e-5) -> None:
        self.k = integer("k", k, at_least=1)
        self.rounds = integer("rounds", rounds, at_least=0)
        self.trust_model = choice("trust_model", trust_model, ("local", "central"))
        self.delta = number("delta", delta, above=0, below=1)

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Any] | None:
        """A curator's noise; None if no curator is trusted, or the environment sends nothing."""
        if self.trust_model == "local" or "update" not in view.channels:
            return None
        budget = Budget(epsilon_budget, self.delta, method="rdp")
        rate = min(self.k / max(view.params.num_clients - 1, 1), 1.0)  # against a client, which knows whether it sends
        rho = least_noise(budget, rate, max(self.rounds, 1))
        return {"update": ChannelConfig(CentralSum(Gaussian.from_rho(rho)), budget)}

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._horizon = float(np.float32(view.params.horizon))
        self._started = np.zeros(view.num_envs, np.int64)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        fields = self._layout.unpack(obs)
        first = fields["slots"][:, 0] == 0  # first slot of a round: with k >= 1 no round is closed before it has a slot
        self._started[fields["time_left"][:, 0] >= self._horizon] = 0
        self._started += first
        return super().act(obs, mask)

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        begun = self._started.reshape(-1, *[1] * (received.ndim - 1))
        return (received < self.k) | (begun > self.rounds)
