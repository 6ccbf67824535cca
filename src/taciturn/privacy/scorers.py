"""Scores of transcripts, by which an auditor guesses which of two worlds made them: high for the second world."""

from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.validation import Array, Floats

__all__ = ["Ratio", "Scorer", "fitted_scorer", "likelihood_scorer"]

Scorer = Callable[[Array], Floats]
Ratio = Callable[[Array, Any, Any], Any]

LARGEST_SCORE = 1e6
MOST_TO_FIT = 100_000
MOST_OUTCOMES = 64
MOST_FOR_PRODUCTS = 8


def likelihood_scorer(ratio: Ratio, x0: Any, x1: Any) -> Scorer:
    """Log-likelihood of the second world minus that of the first, [trials], rounded so that equal transcripts have equal scores."""

    def score(y: Array) -> Array:
        values = -np.asarray(ratio(y, x0, x1), np.float64).reshape(len(y), -1).sum(1)
        values = np.nan_to_num(values, nan=0.0, posinf=LARGEST_SCORE, neginf=-LARGEST_SCORE)
        return np.round(np.clip(values, -LARGEST_SCORE, LARGEST_SCORE), 10)

    return score


def fitted_scorer(transcripts: Array, second: Array) -> Scorer:
    """Logit of a logistic regression on features of the transcripts.

    If at most 64 different transcripts occur, there is one indicator feature for each. Otherwise the features are the entries and their
    squares, and with at most 8 entries also their products, which reveal two messages that share their noise.
    """
    flat = _flat(transcripts)
    shift, scale = flat.mean(0), flat.std(0)
    scale[scale == 0] = 1
    signature = np.random.default_rng(0).standard_normal(flat.shape[1])
    known = np.unique(_codes(flat[:MOST_TO_FIT], signature))
    upper = np.triu_indices(flat.shape[1])

    def features(y: Array) -> Array:
        flat = _flat(y)
        if known.size <= MOST_OUTCOMES:
            return (_codes(flat, signature)[:, None] == known).astype(np.float64)
        z = (flat - shift) / scale
        more = z[:, upper[0]] * z[:, upper[1]] if z.shape[1] <= MOST_FOR_PRODUCTS else z**2
        return np.hstack([z, more, np.ones((len(z), 1))])

    weights = _logistic(features(transcripts[:MOST_TO_FIT]), second[:MOST_TO_FIT])

    def score(y: Array) -> Array:
        return np.round(np.clip(features(y) @ weights, -LARGEST_SCORE, LARGEST_SCORE), 10)

    return score


def _flat(transcripts: Array) -> Array:
    flat = np.asarray(transcripts, np.float64).reshape(len(transcripts), -1)
    if not np.isfinite(flat).all():
        raise ValueError("a transcript must hold finite numbers only")
    return flat


def _codes(flat: Array, signature: Any) -> Array:
    """A number for each row, equal for equal rows."""
    return np.round((flat * signature).sum(1), 9)


def _logistic(X: Array, second: Array, ridge: float = 1e-2) -> Array:
    """Weights [D] of a ridge logistic regression, by Newton's method with step halving."""

    def loss(w: Array) -> float:
        logits = X @ w
        return float((np.logaddexp(0, logits) - second * logits).sum() + ridge / 2 * (w @ w))

    weights = np.zeros(X.shape[1])
    now = loss(weights)
    for _ in range(50):
        p = 0.5 * (1 + np.tanh(X @ weights / 2))
        gradient = X.T @ (p - second) + ridge * weights
        curvature = (X.T * (p * (1 - p))) @ X + ridge * np.eye(weights.size)
        step = np.linalg.solve(curvature, gradient)
        length = next((0.5**k for k in range(30) if loss(weights - 0.5**k * step) < now), 0.0)
        weights = weights - length * step
        before, now = now, loss(weights)
        if before - now < 1e-6:
            break
    return weights
