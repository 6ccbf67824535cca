"""Off-policy estimators of the value of a policy, from rows that another policy logged, and an interval for all of
them.

A row i has a context x_i, the logged action a_i, its propensity p_i (the logging policy's probability of choosing it),
and its reward r_i. The weight is w_i = pi(a_i | x_i) / p_i.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taciturn.validation import Floats, choice, number

INTERVALS = ("betting", "student")
ROWS = 20_000  # in one block


@dataclass(frozen=True)
class Terms:
    """The terms of an estimate: the value v solves mean(a - v b) = 0.

    Attributes:
        a, b: float64[n].
        down, up: for every v in [0, 1], no row can have v b - a > down or a - v b > up.
    """

    a: Floats
    b: Floats
    down: float
    up: float

    @property
    def value(self) -> float:
        return float(self.a.sum() / self.b.sum())


def replay(reward: Floats) -> Terms:
    """Rejection replay: the mean of the rewards r [n] of the rows with the policy's action (Li, Chu, Langford & Wang
    2011, Algorithm 2). It is unbiased if actions were logged uniformly, also for policies that learn."""
    return Terms(reward, np.ones(reward.size), 1.0, 1.0)


def ips(weight: Floats, reward: Floats, largest: float) -> Terms:
    """Inverse propensity scoring, mean(w r) (Dudik, Erhan, Langford & Li 2014, equation 3.2).

    Args:
        weight: w [n].
        reward: r [n] in [0, 1].
        largest: an upper bound on all possible weights, not only on those of these rows.
    """
    return Terms(weight * reward, np.ones(weight.size), 1.0, largest)


def snips(weight: Floats, reward: Floats, largest: float) -> Terms:
    """Self-normalised inverse propensity scoring, mean(w r) / mean(w) (Swaminathan & Joachims 2015), with the arguments
    of `ips`."""
    return Terms(weight * reward, weight, largest, largest)


def dr(weight: Floats, reward: Floats, largest: float, logged: Floats, chosen: Floats, cap: float) -> Terms:
    """Doubly robust, mean(q(x, pi) + w (r - q(x, a))) (Dudik, Erhan, Langford & Li 2014, equation 3.3).

    Args:
        weight, reward, largest: as for `ips`.
        logged: q(x_i, a_i) [n], the model's mean reward of the logged action.
        chosen: q(x_i, pi) [n], its mean over the policy's actions.
        cap: an upper bound on q; the model must not have seen these rows.
    """
    return Terms(chosen + weight * (reward - logged), np.ones(weight.size), 1 + largest * cap, cap + largest)


ESTIMATORS = ("replay", "ips", "snips", "dr")


def effective_size(weight: Floats) -> float:
    """Effective sample size of weights w [n], (sum w)^2 / sum w^2; 0 if all are 0."""
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares else 0.0


def interval(terms: Terms, kind: str = "betting", level: float = 0.95) -> tuple[float, float]:
    """A confidence interval of the value, within [0, 1].

    - betting: the values v that no bet on a - v b refutes by winning 2 / (1 - level). A bet wins prod(1 + s (a - v b)),
      averaged over a few stakes s > 0 that no row can ruin, or the same with -s. If v is the value, the expected
      winnings are at most 1, even if v is the mean of mean rewards that change as a policy learns (by the inequality of
      arithmetic and geometric means). By Markov's inequality the interval therefore holds for any number of rows
      (Waudby-Smith & Ramdas 2023, J. R. Statist. Soc. B 86, with stakes that do not follow the data). It relies on
      `down` and `up`.
    - student: Student's interval of the mean of a - v b, linearised in v. It is narrower, but holds only if many rows
      contribute to the estimate.

    Args:
        terms: see `Terms`.
        kind: "betting" or "student".
        level: in (0, 1).
    """
    choice("interval", kind, INTERVALS)
    alpha = 1 - number("level", level, above=0, below=1)
    if kind == "student":
        from scipy.special import stdtrit

        n, rest = terms.a.size, terms.a - terms.value * terms.b
        if n < 3:
            return 0.0, 1.0
        half = float(stdtrit(n - 1, 1 - alpha / 2) * rest.std(ddof=1) / math.sqrt(n) / terms.b.mean())
        return max(terms.value - half, 0.0), min(terms.value + half, 1.0)
    goal = math.log(2 / alpha)

    def wins(stakes: Floats) -> Callable[[float], float]:
        return lambda v: _won(terms.a - v * terms.b, stakes) - goal

    # a - v b falls as v rises, so winnings fall with positive stakes and rise with negative ones.
    low = _crossing(wins(_stakes(terms, terms.down, goal)))
    high = 1 - _crossing(lambda rest: wins(-_stakes(terms, terms.up, goal))(1 - rest))
    return low, high


def excluded(weight: Floats, largest: float, level: float = 0.999) -> bool:
    """Whether weights w [n] in [0, `largest`] refute that their expectation is 1, by the bets of `interval`.

    It is 1 if the propensities are right and the logging policy takes every action that the policy takes.
    """
    goal = math.log(2 / (1 - level))
    terms = Terms(weight - 1, np.ones(weight.size), 1.0, max(largest - 1, 1e-6))
    stakes = _stakes(terms, terms.down, goal), -_stakes(terms, terms.up, goal)
    return any(_won(terms.a, some) > goal for some in stakes)


def _won(y: Floats, stakes: Floats) -> float:
    """The logarithm of the mean over stakes s of prod(1 + s y), which is positive for all rows."""
    capital = np.zeros(stakes.size)
    with np.errstate(divide="ignore"):
        for start in range(0, y.size, ROWS):
            capital += np.log1p(np.maximum(np.multiply.outer(stakes, y[start : start + ROWS]), -1)).sum(1)
    best = capital.max()
    return float(best + np.log(np.exp(capital - best).mean())) if np.isfinite(best) else -np.inf


def _stakes(terms: Terms, reach: float, goal: float) -> Floats:
    """Stakes from 1 / `reach`, halved until the best stake for the largest variance that rows can have."""
    least = min(math.sqrt(2 * goal / (terms.a.size * terms.down * terms.up)), 1 / reach)
    return np.asarray(0.5 ** np.arange(0, 1 + math.ceil(math.log2(1 / (reach * least)) + 1e-9)) / reach)


def _crossing(falling: Callable[[float], float]) -> float:
    """The root, from below, of a falling function on [0, 1]; 0 if the function is nowhere positive."""
    low, high = 0.0, 1.0
    if falling(low) <= 0:
        return 0.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return low
