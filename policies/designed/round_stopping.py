"""Stopping rules for the round-stopping environments: the best deadline, a few large rounds, and rounds that grow."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from taciturn.envs.core import Array, ChannelConfig, PublicView, choice, integer, number
from taciturn.envs.round_stopping.model import Model, binomial_rows
from taciturn.envs.round_stopping.world import STOP, WAIT
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.privacy.budget import Budget
from taciturn.privacy.mechanisms import CentralSum, Gaussian
from taciturn.privacy.sampling import SampledLoss
from taciturn.validation import Bools, Floats, Ints


def deadline_rates(model: Model, most: int) -> Floats:
    """The exact rates E[R(K)] / E[N tau + t0] of the rules that stop after n slots, n = 0..most, or once all updates
    have been received: float64[most + 1].

    The distribution of (k, s), s = k + beta, is propagated from slot to slot: one queued update is uploaded with
    probability mu if there was one, and Binomial(M - s, p) of the M - s computing clients finish (section 3.1 of Jiang
    2020). N is the sum over n of P(K < M).
    """
    m, clients = model, model.num_clients
    moves = np.zeros((clients + 1, clients + 1))
    for done, row in enumerate(binomial_rows(clients - np.arange(clients + 1), m.compute_probability, clients)):
        moves[done, done:] = row[: clients + 1 - done]
    distribution = np.zeros((clients + 1, clients + 1))  # over k and s
    distribution[0, 0] = 1.0
    k, s = np.indices(distribution.shape)
    chance, slots, rates = np.where(s > k, m.upload_probability, 0.0), 0.0, np.zeros(most + 1)
    for n in range(most + 1):
        received = distribution.sum(1)
        rates[n] = received @ m.rewards / (slots * m.slot_time + m.broadcast_time)
        slots += 1.0 - received[clients]
        uploaded = chance * distribution
        distribution -= uploaded
        distribution[1:] += uploaded[:-1]
        distribution[distribution < 1e-200] = 0.0  # arithmetic with denormal numbers is slow
        distribution = distribution @ moves
    return rates


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


class BestDeadline(StoppingRule):
    """The best rule that ignores the updates: stop after the number of slots with the largest long-run rate.

    That number is found exactly, from `deadline_rates`, for geometric times; under Pareto times use `Deadline`.

    Args:
        most: the largest number of slots tried.

    Attributes:
        slots: the deadline, after `reset`.
        rate: its exact rate.
    """

    def __init__(self, most: int = 1000) -> None:
        self.most = integer("most", most, at_least=0, at_most=10**6)

    def prepare(self, model: Model) -> None:
        choice("time_distribution", getattr(model, "time_distribution", "geometric"), ("geometric",))
        rates = deadline_rates(model, self.most)
        self.slots, self.rate = int(rates.argmax()), float(rates.max())

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return np.broadcast_to(slots < self.slots, received.shape)


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


class StagedCount(StoppingRule):
    """Wait for more updates as the run goes on: for `stages[i]` of them in part i (parts have equal length).

    Early rounds gain from being frequent; later ones, near a good model, from the smaller variance of an average of
    more updates.

    Args:
        stages: updates per round in each part of the run (all, if there are fewer clients).
    """

    def __init__(self, stages: Sequence[int] = (1, 1, 1, 2, 2, 4)) -> None:
        self.stages = tuple(integer(f"stages[{i}]", k, at_least=1) for i, k in enumerate(stages))
        if not self.stages:
            raise ValueError("stages must have an entry at least, not ()")

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self._horizon = float(np.float32(view.params.horizon))

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        done = 1 - self._layout.unpack(obs)["time_left"].astype(np.float64) / self._horizon
        part = np.clip(np.floor(done * len(self.stages)), 0, len(self.stages) - 1).astype(np.int64)
        received, _, _ = self.seen(obs)
        return np.where(received < np.array(self.stages)[part], WAIT, STOP)

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        """True where the rule of the first part of the run waits."""
        return received < self.stages[0]
