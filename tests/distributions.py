"""p-values: that what was drawn comes from a law, or two samples from one. Cells that hold little are put together."""

from typing import Any

import numpy as np
from scipy import stats

from taciturn.envs.core import Array

LEAST = 8.0


def fits(observed: Any, distribution: Any) -> float:
    """That `observed` counts [cells] come from `distribution` [cells], in any unit; 0 where something happened that has
    no chance."""
    observed, distribution = (np.asarray(x, np.float64).ravel() for x in (observed, distribution))
    distribution = np.maximum(distribution, 0)
    if observed[distribution <= 1e-12 * distribution.sum()].any():  # no more than what rounding leaves of nothing
        return 0.0
    expected = distribution / distribution.sum() * observed.sum()
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    few = max(np.searchsorted(expected, LEAST), np.searchsorted(np.cumsum(expected), LEAST) + 1)
    observed, expected = (np.append(x[few:], x[:few].sum()) for x in (observed, expected))
    return float(stats.chisquare(observed, expected).pvalue) if observed.size > 1 else 1.0


def same_distribution(first: Array, second: Array) -> float:
    """That two samples of whole numbers [n, ...] come from one law, jointly over all but the first axis."""
    both = np.concatenate([first.reshape(len(first), -1), second.reshape(len(second), -1)])
    cell = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    table = np.stack([np.bincount(part, minlength=cell.max() + 1) for part in np.split(cell, [len(first)])])
    rare = table.sum(0) < 2 * LEAST
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(1)])
    return float(stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue)


def same_moments(first: Array, second: Array) -> float:
    """That two samples [n, d] share all their means and second moments, between every two of the d (Bonferroni,
    normal)."""
    centre = first.mean(0)
    spread = first.std(0) + 1e-12

    def features(x: Array) -> Array:
        z = (x - centre) / spread
        i, j = np.triu_indices(z.shape[1])
        return np.concatenate([z, z[:, i] * z[:, j]], axis=1)

    a, b = features(first), features(second)
    error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b)) + 1e-12
    worst = float((np.abs(a.mean(0) - b.mean(0)) / error).max())
    return min(1.0, 2 * stats.norm.sf(worst) * a.shape[1])
