"""The exponential mechanism: a private choice among options by their scores."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from taciturn.privacy import checks
from taciturn.privacy.base import Calibrated, Given, PrivacyLoss
from taciturn.privacy.samplers import Grid, exact_bernoulli_exp, load_opendp
from taciturn.validation import Array

__all__ = ["Exponential"]


@dataclass(frozen=True)
class Exponential(Calibrated):
    """Selects option k with probability proportional to exp(epsilon u_k / (2 sensitivity)): McSherry & Talwar 2007.

    The selection is the argmax of scores plus Gumbel noise ("fast", "opendp"), or comes from rejection sampling of uniform options
    ("exact").

    Args:
        epsilon: of one selection, > 0.
        sensitivity: the largest change of any score between adjacent inputs; None uses the sensitivity passed with each message.
        sampler: "fast", "exact" or "opendp".
    """

    kind: ClassVar[str] = "exponential"
    payload_dims: ClassVar[int] = 1
    epsilon: float
    sensitivity: float | None = None
    sampler: str = "fast"

    def _scores(self, name: str, scores: ArrayLike, sensitivity: Given) -> tuple[Array, Array]:
        """Scores [..., K] and the temperature that divides them, both integers for the exact sampler."""
        scores = checks.reals(name, scores)
        if scores.ndim == 0 or scores.shape[-1] == 0:
            raise ValueError(f"{name} must be an array [..., K] with K >= 1, not of shape {scores.shape}")
        bound = self.bound(sensitivity, scores[..., :1])
        temperature = checks.scale(bound, 2 / self.epsilon)
        if self.sampler != "exact":
            return scores, temperature
        grid = Grid.of(bound, 2 / self.epsilon)
        return grid.round(name, scores), grid.scale

    def _log_probabilities(self, name: str, scores: ArrayLike, sensitivity: Given) -> Array:
        scores, temperature = self._scores(name, scores, sensitivity)
        logits = (scores - scores.max(-1, keepdims=True)) / temperature
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    def probabilities(self, scores: ArrayLike, sensitivity: Given = None) -> Array:
        """The probability of each option, float64[..., K]."""
        return np.exp(self._log_probabilities("scores", scores, sensitivity))

    def perturb(self, x: ArrayLike, rng: Generator, sensitivity: Given = None) -> Array:
        """The selected options, int64[...], for scores x[..., K]."""
        scores, temperature = self._scores("x", x, sensitivity)
        if self.sampler == "fast":
            return (scores / temperature + rng.gumbel(size=scores.shape)).argmax(-1)
        flat = scores.reshape(-1, scores.shape[-1])
        each = np.broadcast_to(temperature, (*scores.shape[:-1], 1)).ravel()
        if self.sampler == "opendp":
            dp = load_opendp()
            space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
            measure = (
                dp.zero_concentrated_divergence()
            )  # selects by Gumbel noise; the variant for max-divergence is permute-and-flip
            chosen = [
                dp.m.make_noisy_max(*space, measure, scale=float(t))(row.tolist())
                for row, t in zip(flat, each, strict=True)
            ]
            return np.array(chosen, np.int64).reshape(scores.shape[:-1])
        gaps, selected, open_ = flat.max(-1, keepdims=True) - flat, np.empty(len(flat), np.int64), np.arange(len(flat))
        while open_.size:
            candidate = rng.integers(0, flat.shape[-1], size=open_.size)
            accepted = exact_bernoulli_exp(gaps[open_, candidate], each[open_], rng)
            selected[open_[accepted]] = candidate[accepted]
            open_ = open_[~accepted]
        return selected.reshape(scores.shape[:-1])

    def debias(self, y: ArrayLike, num_messages: ArrayLike = 1) -> Array:
        raise TypeError("Exponential selects an option: there is nothing to debias")

    def variance(self, x: ArrayLike, sensitivity: Given = None) -> Array:
        raise TypeError("Exponential selects an option: it has no variance")

    def loss(self, sensitivity: Given = None) -> PrivacyLoss:
        """Pure epsilon, and rho = epsilon^2 / 8, because the range of the loss is at most epsilon (Cesar & Rogers 2021)."""
        checks.sensitivities(sensitivity)
        return PrivacyLoss(self.kind, self.epsilon, self.epsilon**2 / 8, {"epsilon": self.epsilon})

    def log_likelihood_ratio(self, y: ArrayLike, x0: ArrayLike, x1: ArrayLike, sensitivity: Given = None) -> Array:
        """[...] for selections y[...] and scores x0, x1 of [..., K]."""
        first, second = checks.together(
            1, x0=self._log_probabilities("x0", x0, sensitivity), x1=self._log_probabilities("x1", x1, sensitivity)
        )
        y = checks.integers("y", y, at_least=0, below=first.shape[-1])
        y, each = checks.together(y=y, scores=np.arange(first[..., 0].size).reshape(first.shape[:-1]))
        return (first - second).reshape(-1, first.shape[-1])[each, y]
