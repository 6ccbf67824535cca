"""Textbook stopping rules for the round-stopping worlds."""

import numpy as np

from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.envs.round_stopping.world import STOP, WAIT, Model, RoundStopping, evaluate, parameters, some_finish
from taciturn.policies.base import Policy

__all__ = ["Deadline", "FixedCount", "Fraction", "OneStepLookAhead", "StoppingRule", "WaitForAll"]


class StoppingRule(Policy):
    """Base of the rules that decide by what the server sees: `waits` names the quantities."""

    def begin(self, view: PublicView) -> None:
        if not issubclass(view.world, RoundStopping):
            raise ValueError(f"{type(self).__name__} acts in the round-stopping worlds, not in {view.name!r}")
        self._layout = view.roles[self.role].layout
        self.prepare(view.params)

    def prepare(self, model: Model) -> None:
        """Read the model's parameters."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        waits = self.waits(seen["received"].astype(np.int64), seen["queued"].astype(np.int64), seen["slots"])
        return np.where(waits, WAIT, STOP)

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        """Whether to wait at k updates `received`, beta `queued`, after `slots` of the round; bool of their shape."""
        raise NotImplementedError

    def table(self, num_clients: int) -> Array:
        """The rule as `evaluate` takes it, bool[M + 1, M + 1] over (k, beta), at slot 0 of the round."""
        k, beta = np.indices((num_clients + 1, num_clients + 1))
        return np.broadcast_to(self.waits(k, beta, np.zeros(k.shape)), k.shape)


class FixedCount(StoppingRule):
    """Wait for `k` updates (for all, if there are fewer clients)."""

    def __init__(self, k: int) -> None:
        self.k = integer("k", k, at_least=0)

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        return received < self.k


class WaitForAll(StoppingRule):
    """Wait for every client: synchronous federated averaging."""

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        return np.ones(received.shape, np.bool_)


class Fraction(StoppingRule):
    """Wait for a fraction of the clients, rounded up: 0.1 is the paper's 10% rule (section 3.4, after McMahan et al. 2016)."""

    def __init__(self, fraction: float = 0.1) -> None:
        self.fraction = number("fraction", fraction, at_least=0, at_most=1)

    def prepare(self, model: Model) -> None:
        # 0.1 * 30 is 3.0000000000000004 in floating point, and means 3.
        self._count = int(np.ceil(self.fraction * model.num_clients - 1e-9))

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        return received < self._count


class Deadline(StoppingRule):
    """Wait for a fixed time, in slots, whatever arrives."""

    def __init__(self, slots: float) -> None:
        self.slots = number("slots", slots, at_least=0)

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        return np.broadcast_to(slots < self.slots, received.shape)


class OneStepLookAhead(StoppingRule):
    """Wait while the next update is expected to earn more than the time it takes: R(k+1) - R(k) > lambda tau E[slots until it arrives].

    The expected slots are 1/mu with something queued, and 1/(1 - (1-p)^u) + 1/mu with nothing. (Looking one SLOT ahead, as equation 3.8
    does, is no rule to play: with nothing queued a slot earns nothing, so it would stop every round as it begins.)

    Args:
        lambda_: the price of a unit of time; None: the rate that the rule attains, found by iterating from the rate of stopping at
            once for as long as the rate grows.
    """

    def __init__(self, lambda_: float | None = None) -> None:
        self.lambda_ = None if lambda_ is None else number("lambda_", lambda_, at_least=0)

    def prepare(self, model: Model) -> None:
        clients = model.num_clients
        gain = np.append(np.diff(model.rewards), -np.inf)
        with np.errstate(divide="ignore"):
            idle = 1.0 / some_finish(clients - np.arange(clients + 1), model.compute_probability)
        idle[clients] = 0.0  # nobody is left to wait for, and nothing to gain
        # slots[k, 0] with an empty queue, slots[k, 1] otherwise.
        slots = np.stack([idle, np.zeros(clients + 1)], axis=1) + 1.0 / model.upload_probability
        price = model.rewards[0] / model.broadcast_time if self.lambda_ is None else self.lambda_
        self._worth = worth = gain[:, None] > price * model.slot_time * slots
        if self.lambda_ is not None:
            return
        rate = evaluate(self.table(clients), **parameters(model)).rate
        while rate > price + 1e-12 * abs(price):
            price, worth = rate, self._worth
            self._worth = gain[:, None] > price * model.slot_time * slots
            rate = evaluate(self.table(clients), **parameters(model)).rate
        if rate < price:
            self._worth = worth

    def waits(self, received: Array, queued: Array, slots: Array) -> Array:
        return self._worth[received, np.minimum(queued, 1)]
