"""Reports of a private value by k-ary randomised response at a chosen budget.

As in Jiang 2020, chapter 2, a budget is eps = e^level - 1, where `level` is the epsilon of differential privacy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taciturn.validation import Floats


def reported_share(share: Any, epsilon: Any, num_values: int) -> Any:
    """(eps theta_x + 1) / (eps + M), the share of reports of a value whose share is theta_x."""
    return (epsilon * share + 1.0) / (epsilon + num_values)


def share_slope(share: Any, epsilon: Any, num_values: int) -> Any:
    """(M theta_x - 1) / (eps + M)^2, its derivative in eps."""
    return (num_values * share - 1.0) / ((epsilon + num_values) * (epsilon + num_values))


def debiased_share(share: Any, epsilon: Any, num_values: int) -> Any:
    """((eps + M) f - 1) / eps, the estimate of an entry of theta from its share f of the reports."""
    return ((epsilon + num_values) * share - 1.0) / epsilon


@dataclass(frozen=True)
class KaryReport:
    """k-ary randomised response: P(same) = (eps+1) / (eps+M), P(other) = 1 / (eps+M) [Jiang 2.2].

    Args:
        num_values: M.
    """

    num_values: int

    def law(self, theta: Floats, epsilon: ArrayLike) -> Floats:
        """P_X(x; theta, eps) = (eps theta + 1) / (eps + M), [..., M], for theta [..., M] and budgets [...]."""
        return np.asarray(reported_share(theta, np.asarray(epsilon, np.float64)[..., None], self.num_values))

    def law_slope(self, theta: Floats, epsilon: ArrayLike) -> Floats:
        """dP_X / d eps = (M theta - 1) / (eps + M)^2, [..., M], for theta [..., M] and budgets [...]."""
        return np.asarray(share_slope(theta, np.asarray(epsilon, np.float64)[..., None], self.num_values))

    def estimate(self, shares: Floats, epsilon: ArrayLike) -> Floats:
        """Unbiased estimate of theta, ((eps + M) f - 1) / eps, [..., M], from the shares of the reports [..., M] at
        budgets [...]; not clipped."""
        return debiased_share(shares, np.asarray(epsilon, np.float64)[..., None], self.num_values)
