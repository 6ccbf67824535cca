"""What a claim of a paper is: numbers to compute, the ranges in which they agree with it, and what they would be under a null.

A number agrees if its whole interval lies in its range, agrees in kind if it lies in the wider one, and differs if it lies outside that.
An interval that lies across the edge does not decide. A claim about several numbers is as good as the worst of them. Explanations stand
beside a verdict and do not decide it.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taciturn.bench import statistics
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate
from taciturn.bench.study import AGREES, DIFFERS, IN_KIND, NOT_TESTED, Verdict
from taciturn.bench.tables import interval, number

Numbers = float | Estimate | Sequence[float | Estimate]


class NotRunError(LookupError):
    """A claim needs results that there are not."""


@dataclass(frozen=True)
class Range:
    """A number agrees within [low, high], and in kind within `kind`, which contains it (None: only within [low, high])."""

    low: float = -math.inf
    high: float = math.inf
    kind: tuple[float, float] | None = None

    def judge(self, x: Estimate) -> str:
        """The verdict on a number and its interval."""
        if any(map(math.isnan, x)):
            return NOT_TESTED
        wide = self.kind or (self.low, self.high)
        for (low, high), verdict in (((self.low, self.high), AGREES), (wide, IN_KIND)):
            if low <= x.low and x.high <= high:
                return verdict
        return DIFFERS if x.high < wide[0] or x.low > wide[1] else NOT_TESTED


ANYTHING = (-math.inf, math.inf)


def about(value: float, tolerance: float, kind: tuple[float, float] | None = None) -> Range:
    """Within a fraction `tolerance` of a value."""
    return Range(value - tolerance * abs(value), value + tolerance * abs(value), kind)


def at_most(bound: float, kind: tuple[float, float] | None = None) -> Range:
    """Not above a bound."""
    return Range(high=bound, kind=kind)


def at_least(bound: float, kind: tuple[float, float] | None = None) -> Range:
    """Not below a bound."""
    return Range(low=bound, kind=kind)


def above(bound: float, kind: tuple[float, float] | None = None) -> Range:
    """Above a bound, which itself is not enough."""
    return Range(low=math.nextafter(bound, math.inf), kind=kind)


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that computed numbers can refute.

    Attributes:
        statement: what is claimed, and where.
        stated: the paper's number or words.
        measure: the numbers, from the results of the study; None if they cannot be computed, in which case `explanation` says why.
        ranges: the range of each number, or the one of all.
        paper: the numbers that the paper states, or that its statement implies.
        null: the numbers if it were false: nothing learned (uniform play), or the statement inverted.
        explanation: why a number is what it is.
        labels: what each number is, if there are several.
    """

    statement: str
    stated: float | str
    measure: Callable[[Results], Numbers] | None
    ranges: Range | tuple[Range, ...] = Range()
    paper: float | tuple[float, ...] = ()
    null: float | tuple[float, ...] = ()
    explanation: str | Callable[[Results], str] = ""
    labels: tuple[str, ...] = ("",)

    def judge(self, numbers: Numbers) -> str:
        """The verdict on these numbers, as many as there are labels (a single one is repeated)."""
        found = self.estimates(numbers)
        ranges = (self.ranges,) * len(found) if isinstance(self.ranges, Range) else self.ranges
        verdicts = {one.judge(x) for one, x in zip(ranges, found, strict=True)}
        return next(verdict for verdict in (DIFFERS, NOT_TESTED, IN_KIND, AGREES) if verdict in verdicts)

    def estimates(self, numbers: Numbers) -> list[Estimate]:
        """Numbers with their intervals: an exact number is its own interval."""
        several = [numbers] * len(self.labels) if isinstance(numbers, float | int | Estimate) else numbers
        return [x if isinstance(x, Estimate) else Estimate(x, x, x) for x in several]

    def verdict(self, results: Results) -> Verdict:
        """The claim beside what the results say."""
        if self.measure is None:
            return Verdict(self.statement, self.stated, "–", NOT_TESTED, str(self.explanation))
        try:
            found = self.estimates(self.measure(results))
        except NotRunError:
            return Verdict(self.statement, self.stated, "–", NOT_TESTED, "not run in full")
        try:
            reason = self.explanation if isinstance(self.explanation, str) else self.explanation(results)
        except NotRunError:
            reason = ""
        judged = self.judge(found)
        if judged == NOT_TESTED:
            reason = ". ".join(filter(None, ["Too few seeds: the interval does not decide", reason]))
        if len(found) == 1:
            (x,) = found
            return Verdict(
                self.statement, self.stated, x.value, judged, reason, (x.low, x.high) if x.low < x.high else None
            )
        ours = "; ".join(
            f"{label}: {number(x.value)}" + (f" {interval(x[1:])}" if x.low < x.high else "")
            for label, x in zip(self.labels, found, strict=True)
        )
        return Verdict(self.statement, self.stated, ours, judged, reason)


def untested(statement: str, stated: str, why: str) -> Claim:
    """A claim for which no number can be computed."""
    return Claim(statement, stated, None, explanation=why)


def group_of(results: Results, config: Config) -> Group:
    """The results of a configuration. Raises NotRunError if there are none."""
    found = results.find(config)
    if found is None:
        raise NotRunError(config)
    return found


def mean(values: ArrayLike) -> Estimate:
    """The mean over seeds with its interval; infinite where any value is."""
    x = np.asarray(values, dtype=float)
    return statistics.mean(x) if np.isfinite(x).all() else Estimate(*(float(x.mean()),) * 3)


def number_of(results: Results, config: Config, metric: str) -> Estimate:
    """The mean of a metric in one setting."""
    return mean(group_of(results, config).metrics[metric])


def ratio_of(results: Results, one: Config, other: Config, metric: str) -> Estimate:
    """The mean of a metric in one setting over that in another, paired by seed."""
    return statistics.ratio(*group_of(results, one).paired(group_of(results, other), metric))


def steps_of(results: Results, configs: Sequence[Config], metric: str) -> list[Estimate]:
    """By how much a metric falls from the first setting to the last, and from each to the next, paired by seed."""
    groups = [group_of(results, one) for one in configs]
    pairs = [(groups[0], groups[-1]), *itertools.pairwise(groups)]
    return [statistics.difference(*a.paired(b, metric)) for a, b in pairs]


# Whatever is claimed to fall must fall from the first setting to the last; that each step does makes it more than in kind.
FALLING = (above(0), above(0, kind=ANYTHING))


def falling(
    statement: str, stated: str, names: Sequence[object], configs: Sequence[Config], metric: str,
    explanation: Callable[[Results], str] | str = "",
) -> Claim:  # fmt: skip
    """A claim that a metric falls along the settings."""
    labels = (f"{names[0]} to {names[-1]}", *(f"{a} to {b}" for a, b in itertools.pairwise(names)))
    steps = len(names) - 1
    return Claim(
        statement, stated, lambda results: steps_of(results, configs, metric), (FALLING[0], *(FALLING[1],) * steps),
        (float(steps), *(1.0,) * steps), 0.0, explanation, labels,
    )  # fmt: skip
