"""Mean rewards of the recommender, fitted to ratings."""

from dataclasses import dataclass, field

import numpy as np

from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.validation import Array, Floats

HARMONICS = 3


@dataclass(frozen=True)
class HeldOut:
    """How well a simulator predicts held-out ratings.

    Attributes:
        rows: number of held-out ratings.
        users: number of users with held-out ratings.
        error: mean squared error of the simulator's mean rewards, in units of reward squared.
        mean_error: mean squared error of the mean of the train split as prediction.
        low, high: 95% interval of `mean_error - error`, with users as clusters.
    """

    rows: int
    users: int
    error: float
    mean_error: float
    low: float
    high: float

    def __str__(self) -> str:
        gain = self.mean_error - self.error
        text = (
            f"squared error on {self.rows:,} held-out ratings {self.error:.4f}, of the mean alone "
            f"{self.mean_error:.4f}; gain {gain:.4f} [{self.low:.4f}, {self.high:.4f}]"
        )
        return text if self.low > 0 else f"{text}; it is not shown to know more than the mean"


def cosines(x: Array) -> Floats:
    """(1, cos(pi x_1), cos(2 pi x_1), ..., cos(HARMONICS pi x_d)) of points [..., d] in [0, 1]^d, float64[..., 1 +
    HARMONICS d]."""
    waves = np.cos(np.pi * np.arange(1, HARMONICS + 1) * x[..., None])
    return np.concatenate([np.ones((*x.shape[:-1], 1)), waves.reshape(*x.shape[:-1], HARMONICS * x.shape[-1])], -1)


@dataclass(frozen=True, eq=False)
class Simulator(Catalogue):
    """A simulator fitted to ratings: mu(c, x) = cosines(c)' `weights` cosines(x), clipped to [0, 1].

    Mean rewards are Lipschitz in context and item. `taciturn.logged.fit_ratings` makes one.

    Attributes:
        weights: float64[1 + HARMONICS d, 1 + HARMONICS 5].
        held_out: its error on held-out ratings.
    """

    weights: Floats = field(repr=False)
    held_out: HeldOut

    @property
    def title(self) -> str:
        return f"simulator fitted to {self.source}"

    def __repr__(self) -> str:
        (items, _), (_, dims) = self.items.shape, self.contexts.shape
        return f"<{self.title}: {items:,} items, contexts of {dims} dimensions; {self.held_out}>"

    def __call__(self, contexts: Floats, items: Floats) -> Floats:
        found: Floats = np.einsum("...q,...q->...", cosines(contexts) @ self.weights, cosines(items))
        return np.clip(found, 0, 1)
