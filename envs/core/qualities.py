"""The qualities of the options of a bandit: drawn at every reset, or a fixed instance, given by name or as a list."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taciturn.compiling.counter_streams import uniform
from taciturn.validation import Array, Floats, choice, integer, number, vector

# Fixed instances: functions of K that return K probabilities, or None if there is no instance with K options.
Instances = Mapping[str, Callable[[int], Sequence[float] | None]]

# Drawn from [0, 1] at each reset, independently.
UNIFORM = "uniform"


class QualityDistribution(NamedTuple):
    """The source of a run's qualities, for environments written for one replica."""

    given: Floats  # a fixed instance [K], or [rows, K] where agents differ
    drawn: bool  # independently from [0, 1] instead
    shuffled: bool


def fill_qualities(qualities: Any, distribution: Any, rng: Any, source: int) -> None:
    """Fill `qualities` float64[K] for a run; a permutation is drawn by swaps (Fisher & Yates)."""
    for k in range(len(qualities)):
        qualities[k] = uniform(rng, source) if distribution.drawn else distribution.given[k]
    if distribution.shuffled:
        for k in range(len(qualities) - 1, 0, -1):
            other = int(uniform(rng, source) * (k + 1))
            qualities[k], qualities[other] = qualities[other], qualities[k]


def fill_rows(qualities: Any, distribution: Any, rng: Any, source: int) -> None:
    """`fill_qualities` for `qualities` float64[rows, K], with the same permutation in all rows."""
    rows, options = qualities.shape
    for i in range(rows):
        for k in range(options):
            qualities[i, k] = uniform(rng, source) if distribution.drawn else distribution.given[i, k]
    if distribution.shuffled:
        for k in range(options - 1, 0, -1):
            other = int(uniform(rng, source) * (k + 1))
            for i in range(rows):
                qualities[i, k], qualities[i, other] = qualities[i, other], qualities[i, k]


@dataclass(frozen=True, kw_only=True)
class OptionParams:
    """Parameters of environments in which every option has one quality, the same for all agents.

    Attributes:
        qualities: "uniform", the name of a fixed instance, or K probabilities.
        num_options: K; None: the length of `qualities` if listed, otherwise the environment's default. A number after
            construction.
        shuffle: whether each run permutes a fixed instance.
        named: class attribute, the fixed instances by name.
        usual_options: class attribute, the environment's default K.
    """

    named: ClassVar[Instances] = {}
    usual_options: ClassVar[int]

    qualities: str | Sequence[float] | Array = UNIFORM
    num_options: int = None  # type: ignore[assignment]
    shuffle: bool = False

    def __post_init__(self) -> None:
        asked: Any = self.num_options
        if asked is not None:
            integer("num_options", asked, at_least=2, at_most=1000)
        choice("shuffle", self.shuffle, (False, True))
        if isinstance(self.qualities, str):
            choice("qualities", self.qualities, (UNIFORM, *self.named))
            options = self.usual_options if asked is None else asked
            if self.qualities != UNIFORM and self.named[self.qualities](options) is None:
                raise ValueError(f"num_options must be another number: {self.qualities!r} has no {options} qualities")
        else:
            listed = vector("qualities", self.qualities)
            options = listed.size
            if not 2 <= options <= 1000:
                raise ValueError(f"qualities must be 2 to 1000 numbers, not {options}")
            for k, quality in enumerate(listed.tolist()):
                number(f"qualities[{k}]", quality, at_least=0, at_most=1)
            if asked is not None and asked != options:
                raise ValueError(f"num_options must be the number of qualities, {options}, or None, not {asked}")
            object.__setattr__(self, "qualities", tuple(listed.tolist()))
        object.__setattr__(self, "num_options", options)

    @property
    def quality_distribution(self) -> QualityDistribution:
        """The distribution of a run's qualities."""
        drawn = isinstance(self.qualities, str) and self.qualities == UNIFORM
        named = isinstance(self.qualities, str) and not drawn
        given: Any = self.named[str(self.qualities)](self.num_options) if named else self.qualities
        fixed = np.zeros(self.num_options) if drawn else np.array(given, np.float64)
        return QualityDistribution(fixed, drawn, bool(self.shuffle) and not drawn)
