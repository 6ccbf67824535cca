"""A model of section 2.6's crowd-sourcing experiment, fitted to three of the reported counts.

A sentence is translated correctly with log-odds a + x: a ~ Normal(ability, spread^2) is the worker's ability, x >= 0
the worker's effort, and the effort costs price * x^2 cents. The five sentences of a task are independent. Workers
expect the bonus for a good answer, a score of 4 or 5, and choose the effort that maximises expected bonus minus cost.
"""

from functools import lru_cache

import numpy as np

from taciturn.bench.statistics import Floats

WORKERS, TASKS = 180, 9  # per payment rule: 20 workers for each task
# The payment and the bonus, in cents.
PAYMENTS: dict[str, tuple[float, float]] = {"Flat": (30, 0), "WINTALL-20": (20, 20), "WINTALL-40": (20, 40)}
GOOD = {"Flat": 16, "WINTALL-20": 28, "WINTALL-40": 37}  # answers with scores 4 and 5
BEST = {"Flat": 7, "WINTALL-20": 9, "WINTALL-40": 12}  # answers with score 5
SCORE_GAIN = {"WINTALL-20": 19.4, "WINTALL-40": 37.5}  # percent over Flat, all tasks together
PAYMENT_CUT = {"WINTALL-20": 30.0, "WINTALL-40": 24.4}
NODES, MASS = (np.array(x) for x in np.polynomial.hermite_e.hermegauss(41))
MASS = MASS / MASS.sum()
EFFORT: Floats = np.linspace(0, 4, 2001)


def scores(ability: float, spread: float, price: float, bonus: float) -> Floats:
    """Distribution of a worker's score, float64[6]."""
    right = 1 / (1 + np.exp(-(ability + spread * NODES[:, None] + EFFORT)))
    good = right**5 + 5 * right**4 * (1 - right)
    chosen = np.argmax(bonus * good - price * EFFORT**2, axis=1)
    q = np.take_along_axis(right, chosen[:, None], 1)
    k, choose = np.arange(6), np.array([1.0, 5.0, 10.0, 10.0, 5.0, 1.0])
    return MASS @ (choose * q**k * (1 - q) ** (5 - k))


@lru_cache
def fitted() -> tuple[float, float, float]:
    """The ability, spread and price that reproduce Flat's counts of good and best answers and WINTALL-20's count of
    good ones."""
    from scipy.optimize import brentq, root

    def missed(x: Floats) -> Floats:
        distribution = scores(x[0], x[1], 1.0, 0.0)
        return np.array([distribution[4:].sum() - GOOD["Flat"] / WORKERS, distribution[5] - BEST["Flat"] / WORKERS])

    ability, spread = root(missed, [-1.5, 1.5]).x.tolist()
    wanted = GOOD["WINTALL-20"] / WORKERS
    price = brentq(lambda p: float(scores(ability, spread, p, 20.0)[4:].sum()) - wanted, 0.05, 40.0)
    return ability, abs(spread), float(price)
