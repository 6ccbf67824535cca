"""Textbook stopping rules for the round-stopping environments."""

import numpy as np

from taciturn.envs.core import Array, integer, number
from taciturn.envs.round_stopping.model import Model, evaluate, parameters, some_finish
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.validation import Bools, Ints


class FixedCount(StoppingRule):
    """Wait for `k` updates (for all, if there are fewer clients)."""

    def __init__(self, k: int) -> None:
        self.k = integer("k", k, at_least=0)

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return received < self.k


class WaitForAll(StoppingRule):
    """Wait for every client: synchronous federated averaging."""

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return np.ones(received.shape, np.bool_)


class Fraction(StoppingRule):
    """Wait for a fraction of the clients, rounded up; 0.1 is the 10% rule of Jiang 2020, section 3.4 (after McMahan et
    al. 2016)."""

    def __init__(self, fraction: float = 0.1) -> None:
        self.fraction = number("fraction", fraction, at_least=0, at_most=1)

    def prepare(self, model: Model) -> None:
        # 0.07 * 100 is 7.000000000000001 in floating point, but 7 is meant.
        self._count = int(np.ceil(self.fraction * model.num_clients - 1e-9))

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return received < self._count


class Deadline(StoppingRule):
    """Wait for a fixed number of slots, however many updates arrive."""

    def __init__(self, slots: float) -> None:
        self.slots = number("slots", slots, at_least=0)

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return np.broadcast_to(slots < self.slots, received.shape)


class OneStepLookAhead(StoppingRule):
    """Wait while the next update is worth more than its waiting time: R(k+1) - R(k) > lambda tau E[slots until it
    arrives].

    The expected number of slots is 1/mu if an update is queued, and 1/(1 - (1-p)^u) + 1/mu otherwise, with u clients
    still computing. (Looking ahead by one slot, as in equation 3.8 of Jiang 2020, is not a useful rule: a slot with an
    empty queue earns nothing, so every round would stop immediately.)

    Args:
        lambda_: the price of a unit of time; None: the rate of the rule itself, found by iteration: from the rate of
            immediate stopping, until the rate no longer grows.
    """

    def __init__(self, lambda_: float | None = None) -> None:
        self.lambda_ = None if lambda_ is None else number("lambda_", lambda_, at_least=0)

    def prepare(self, model: Model) -> None:
        clients = model.num_clients
        gain = np.append(np.diff(model.rewards), -np.inf)
        with np.errstate(divide="ignore"):
            idle = 1.0 / some_finish(clients - np.arange(clients + 1), model.compute_probability)
        idle[clients] = 0.0  # no update is left to wait for
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

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return self._worth[received, np.minimum(queued, 1)]
