"""The optimal stopping rule of Jiang 2020, chapter 3: Algorithm 1 for a given price of time, and Algorithm 2, which
finds the price."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.envs.core import Array, integer, number
from taciturn.envs.round_stopping.model import Evaluation, Model, binomial_rows, evaluate, parameters, some_finish
from taciturn.policies.families.round_stopping import StoppingRule
from taciturn.validation import Bools, Floats, Ints, vector


@dataclass(frozen=True)
class Threshold:
    """An optimal rule for a given lambda, and the expectations over one round under it."""

    k_star: int
    k0_star: int
    expected_reward: float
    expected_slots: float


def bounds(model: Model) -> tuple[float, float]:
    """Bounds on the optimal rate: Corollary 1, R(1) / ((1/mu + 1/p) tau + t0), and Corollary 2, max_k R(k) / (k tau +
    t0).

    They hold if R(M) >= 0.
    """
    m, k = model, np.arange(model.num_clients + 1)
    first = (1 / m.upload_probability + 1 / m.compute_probability) * m.slot_time + m.broadcast_time
    return float(m.rewards[1] / first), float(np.max(m.rewards / (k * m.slot_time + m.broadcast_time)))


def attainable(model: Model) -> float:
    """A rate that some fixed number of updates attains: a lower bound, usually sharper than Corollary 1.

    The k-th upload ends no later than the k-th completion plus the time of k consecutive uploads. The k-th smallest of
    M geometric times is at most one slot more than the k-th smallest of M exponential ones, which has mean (H_M -
    H_{M-k}) / -log(1-p).
    """
    m, k = model, np.arange(model.num_clients + 1)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(m.num_clients, 0, -1))])
    with np.errstate(divide="ignore"):
        slots = 1.0 + harmonic / -np.log1p(-m.compute_probability) + k / m.upload_probability
    slots[0] = 0.0
    # Overestimating the slots bounds the rate from below only if the reward is not negative.
    sure = (m.rewards >= 0) | (k == 0)
    return float(np.max(m.rewards[sure] / (slots[sure] * m.slot_time + m.broadcast_time)))


class Solution:
    """The rule that maximises the rate E[R(K)] / E[N tau + t0] in one `Model` [Jiang 3.1]; see `OptimalStopping.solve`.

    Attributes:
        model: the problem.
        rate: lambda*, the optimal rate J*.
        thresholds: `(k_star, k0_star)`: wait while k < k_star if updates are queued, and while k < k0_star if none are
            (Theorem 4).
        bounds: the lower and upper bound of Corollaries 1 and 2.
    """

    def __init__(self, model: Model) -> None:
        _require_concave(model.rewards)
        self.model = model
        self.bounds = bounds(model)
        self._rows: Floats = np.zeros((0, 1))
        # V_lambda is convex, decreasing and piecewise linear in lambda, and its slope at lambda is minus the expected
        # duration under the rule optimal there. Newton's method from a lower bound, lambda <- J(that rule), therefore
        # increases to the root and reaches it in a few steps, whereas the bisection of Algorithm 2 needs one step for
        # each bit.
        price = attainable(model)
        while True:
            best = self._optimal(price)
            duration = best.expected_slots * model.slot_time + model.broadcast_time
            rate = best.expected_reward / duration
            if rate - price <= 1e-15 * abs(price):
                break
            price = rate
        self.rate = max(rate, price)
        self.thresholds = (best.k_star, best.k0_star)

    def value(self, lambda_: float) -> float:
        """V_lambda, the largest expected reward of a round minus the price `lambda_` > 0 of its duration
        [Jiang 3.2]."""
        number("lambda_", lambda_, above=0)
        best = self._optimal(float(lambda_))
        return best.expected_reward - lambda_ * (best.expected_slots * self.model.slot_time + self.model.broadcast_time)

    @cached_property
    def table(self) -> Bools:
        """The optimal rule, bool[M + 1, M + 1] over (k, beta): True where it waits."""
        return threshold_table(self.model.num_clients, *self.thresholds)

    def evaluate(self, wait: Any) -> Evaluation:
        """The exact value of a stationary rule in this model; see `round_stopping_v0.evaluate`."""
        return evaluate(wait, **parameters(self.model))

    def _optimal(self, price: float) -> Threshold:
        """Algorithm 1: k* in closed form, then the Bellman equations for beta > 0 [Jiang 3.3] and beta = 0 [Jiang 3.4],
        k = k* - 1 .. 0.

        Let s = k + beta be the number of clients that have finished computing. Lemma 1 gives the value where s >= k*:
        the channel is never idle, and the server collects k* updates in 1/mu slots each. For s < k* the solution is
        stored relative to that value, reward and slots apart. For beta > 0 it solves (I - (1-mu) T) x_k = mu T x_{k+1},
        where T, which adds Binomial(M - s, p) to s, is a banded triangular matrix that does not depend on k. For beta =
        0 the self-loop (1-p)^u is solved for. Ties stop. (Equations 3.5 to 3.7 are these equations at k* - 1 and k* -
        2.)
        """
        from scipy.linalg import blas, lapack

        m, rewards = self.model, self.model.rewards
        mu, cost = m.upload_probability, price * m.slot_time
        enough = np.flatnonzero(np.diff(rewards) <= cost / mu)
        k_star = int(enough[0]) if enough.size else m.num_clients
        rows, leave = self._moves(k_star), some_finish(m.num_clients - np.arange(k_star), m.compute_probability)
        width = rows.shape[1] - 1
        band = np.zeros((width + 1, k_star), order="F")
        for d in range(width + 1):
            band[width - d, d:] = rows[: k_star - d, d]
        system = np.asfortranarray(-(1 - mu) * band)
        system[width] = mu + (1 - mu) * leave
        band = np.asfortranarray(mu * band)

        k0_star = k_star
        # Columns: reward and slots relative to a channel that is never idle, for s = k+1 up to where idling before k*
        # has probability 0.
        relative = np.zeros((0, 2), order="F")
        for k in range(k_star - 1, -1, -1):
            size = len(relative)
            if size:
                part = slice(k + 1, k + 1 + size)
                ahead = np.stack([blas.dtbmv(width, band[:, part], relative[:, i]) for i in (0, 1)], axis=1)
                ahead, _ = lapack.dtbtrs(system[:, part], np.asfortranarray(ahead), uplo="U")
                ahead = ahead[: np.max(np.flatnonzero(np.abs(ahead[:, 1]) > 1e-20), initial=-1) + 1]
            else:
                ahead = np.zeros((0, 2))
            reach = rows[k, 1 : len(ahead) + 1]
            waiting = (reach @ ahead[: len(reach)] + (0.0, 1.0)) / leave[k]
            stopping = np.array([rewards[k] - rewards[k_star], -(k_star - k) / mu])
            if waiting[0] - cost * waiting[1] > stopping[0] - cost * stopping[1]:
                here = waiting
            else:
                here, k0_star = stopping, k
            relative = np.asfortranarray(np.concatenate([here[None], ahead]))
        reward, slots = relative[0] if k_star else (0.0, 0.0)
        return Threshold(k_star, k0_star, float(rewards[k_star] + reward), float(k_star / mu + slots))

    def _moves(self, size: int) -> Floats:
        """T by diagonals, [size, width + 1]: P(d more clients finish in a slot | s have finished); the tail beyond
        `width` is < 1e-16."""
        m = self.model
        if len(self._rows) < size:
            mean = m.num_clients * m.compute_probability
            width = int(mean + 8 * np.sqrt(mean) + 20)
            self._rows = binomial_rows(m.num_clients - np.arange(size), m.compute_probability, min(width, size))
        return self._rows[:size, : max(size, 1)]


def threshold_table(num_clients: int, k_star: int, k0_star: int) -> Bools:
    """The threshold rule of Theorem 4, bool[M + 1, M + 1] over (k, beta): wait while k < k_star (beta > 0), k < k0_star
    (beta = 0)."""
    k, beta = np.indices((num_clients + 1, num_clients + 1))
    return k < np.where(beta > 0, k_star, k0_star)


def _require_concave(rewards: Floats) -> None:
    gains = np.diff(rewards)
    # Rounding may make a table slightly non-concave.
    slack = 1e-12 * max(1e-300, float(np.abs(rewards).max()))
    for wrong, needed in ((gains < -slack, "increasing"), (np.diff(gains) > slack, "concave")):
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            shown = ", ".join(f"R({i})={rewards[i]:.6g}" for i in range(k, min(k + 3, len(rewards))))
            raise ValueError(
                f"reward must be {needed} for a threshold rule to be optimal (Theorem 4), but it is not at {shown}"
            )


class OptimalStopping(StoppingRule):
    """The rule that maximises the long-run rate under geometric times (Algorithms 1 and 2 of Jiang 2020).

    Args:
        thresholds: `(k_star, k0_star)` to play instead of the solution, such as the paper's own (10, 8); None: solve.

    In an environment with Pareto times it plays the thresholds solved for the environment's geometric parameters, as in
    section 3.4.2.
    """

    def __init__(self, thresholds: tuple[int, int] | None = None) -> None:
        if thresholds is not None:
            k_star, k0_star = (
                integer("thresholds", int(one) if one.is_integer() else one, at_least=0)
                for one in vector("thresholds", thresholds, size=2).tolist()
            )
            thresholds = k_star, k0_star
        self.thresholds = thresholds

    @staticmethod
    def solve(**model: Any) -> Solution:
        """Find the rule with the largest rate for the parameters of `Model`.

        Raises:
            ValueError: a parameter is out of range, or a reward table is not increasing and concave (Theorem 4 is
                then false).

        Cost:
            O(k*^2 w) operations, where w bounds the number of clients that finish in a slot: 1 ms in the paper's
            setting.
        """
        return Solution(Model(**model))

    def prepare(self, model: Model) -> None:
        chosen = self.thresholds or self.solve(**parameters(model)).thresholds
        self._k_star, self._k0_star = chosen

    def waits(self, received: Ints, queued: Ints, slots: Array) -> Bools:
        return received < np.where(queued > 0, self._k_star, self._k0_star)
