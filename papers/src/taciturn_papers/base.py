"""The base class of the papers' studies: settings, seeds and claims."""

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

from taciturn.bench.results import Cell, Config, Results
from taciturn.bench.study import Study, Verdict
from taciturn_papers.claims import Claim, verdicts


class PaperStudy(Study):
    """A study of published figures: one curve per setting, and the paper's claims about the curves.

    `configs` are the configurations of the figures; a study with other configurations in quick runs overrides
    `settings`. `seeds` and `runs` hold two numbers each, for quick and for full runs. If `runs` is given, every
    configuration gets it as the entry "runs". The page of a paper's claims begins with the `environments` of its first
    study.
    """

    configs: ClassVar[tuple[Config, ...]]
    seeds: ClassVar[tuple[int, int]] = (5, 20)
    runs: ClassVar[tuple[int, int] | None] = None
    claims: ClassVar[Sequence[Claim]] = ()
    environments: ClassVar[str] = ""

    def settings(self, quick: bool) -> list[Config]:
        """The configurations of the figures, without "runs"."""
        return list(self.configs)

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep(self.with_runs(self.settings(quick), quick), range(self.seeds[not quick]))

    def with_runs(self, configs: Iterable[Config], quick: bool) -> list[Config]:
        """The configurations, with the entry "runs" if this study has `runs`."""
        own = {} if self.runs is None else {"runs": self.runs[not quick]}
        return [{**config, **own} for config in configs]

    def verdicts(self, results: Results) -> list[Verdict]:
        return verdicts(self.claims, results)


def bitwise(epsilon: float | None) -> str:
    """The name of the mechanism of Chen et al. and Tao et al. in a configuration; None: no privacy."""
    return "NoPrivacy" if epsilon is None else f"BitwiseRandomizedResponse:{epsilon:g}"


def epsilon_of(config: Config) -> float | None:
    """The epsilon of a configuration with a mechanism from `bitwise`."""
    _, _, level = config["privacy"].partition(":")
    return float(level) if level else None


def flip_probability(epsilon: float | None) -> float:
    """Probability q that bitwise randomised response flips a bit, at epsilon per reply."""
    return 0.0 if epsilon is None else 1 / (math.exp(epsilon / 2) + 1)
