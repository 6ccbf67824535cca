"""Catalogues from data, as the recommender's parameter `family`: items and contexts."""

from dataclasses import dataclass, field

import numpy as np

from taciturn.validation import Floats, shown


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Items and contexts taken from data instead of drawn.

    Attributes:
        items: item features, float64[K, 5] in [0, 1].
        contexts: the users' contexts, float64[n, d] in [0, 1], 1 <= d <= 9; all equally likely.
        source: short description of the data, for titles.

    Raises:
        ValueError: an array has another shape, or values outside [0, 1].
    """

    items: Floats = field(repr=False)
    contexts: Floats = field(repr=False)
    source: str

    def __post_init__(self) -> None:
        for name, wide in (("items", (5, 5)), ("contexts", (1, 9))):
            given = np.asarray(getattr(self, name), np.float64)
            fits = given.ndim == 2 and len(given) > 0 and wide[0] <= given.shape[1] <= wide[1]
            if not fits or not ((given >= 0) & (given <= 1)).all():
                dims = "5" if name == "items" else "1 to 9"
                raise ValueError(f"{name} must be rows of {dims} numbers in [0, 1], not {shown(given)}")
            # In single precision, as observations show them.
            object.__setattr__(self, name, given.astype(np.float32).astype(np.float64))

    @property
    def title(self) -> str:
        """Short description of the source of mean rewards, for tables and figures."""
        return f"items and contexts of {self.source}"

    def __call__(self, contexts: Floats, items: Floats) -> Floats:
        """Mean rewards, see `taciturn.envs.recommender.rewards.means`; a log without a simulator has none."""
        raise ValueError(f"family must have mean rewards to be played, and {self.source} is only a log")
