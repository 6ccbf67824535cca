"""What a claim of a paper is: numbers to compute, the ranges in which they agree with it, and what they would be under
a null.

A number agrees if its whole interval lies in its range, agrees in kind if it lies in the wider one, and differs if it
lies outside that. An interval that lies across the edge does not decide. A claim about several numbers is as good as
the worst of them. Explanations stand beside a verdict and do not decide it.
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

Numbers = float | Estimate | Sequence[float | Estimate]


class NotRunError(LookupError):
    """A claim needs results that there are not."""


@dataclass(frozen=True)
class Range:
    """A number agrees within [low, high], and in kind within `kind`, which contains it (None: only within [low,
    high])."""

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
        measure: the numbers, from the results of the study; None if they cannot be computed, in which case
            `explanation` says why.
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

    def measured(self, results: Results) -> list[Estimate]:
        """The numbers that the results give; none if they cannot be computed, or were not."""
        try:
            return [] if self.measure is None else self.estimates(self.measure(results))
        except NotRunError:
            return []

    def explain(self, results: Results) -> str:
        """Why the numbers are what they are."""
        try:
            return self.explanation if isinstance(self.explanation, str) else self.explanation(results)
        except NotRunError:
            return ""


def verdicts(claims: Sequence[Claim], results: Results) -> list[Verdict]:
    """The claims beside what the results say.

    The verdicts that rest on intervals hold together at 95%. As Holm 1979 tests, those are decided first that can be at
    the level that Bonferroni would ask for all intervals, then others at the level that he would ask for the intervals
    that are left.
    """
    found = [claim.measured(results) for claim in claims]
    judged = [claim.judge(numbers) if numbers else NOT_TESTED for claim, numbers in zip(claims, found, strict=True)]
    alone = list(judged)
    left = {i: n for i, numbers in enumerate(found) if (n := sum(x.low < x.high for x in numbers))}
    decided = set(left)
    while left and decided:
        with statistics.at_level(1 - (1 - statistics.LEVEL) / sum(left.values())):
            judged_now = {i: claims[i].judge(claims[i].measured(results)) for i in left}
        decided = {i for i, verdict in judged_now.items() if verdict in (AGREES, DIFFERS)}
        for i, verdict in judged_now.items():
            judged[i] = verdict
        left = {i: n for i, n in left.items() if i not in decided}
    return [
        Verdict(
            claim.statement,
            claim.stated,
            numbers,
            verdict,
            _reason(claim, results, numbers, verdict, by_itself),
            claim.labels,
        )
        for claim, numbers, verdict, by_itself in zip(claims, found, judged, alone, strict=True)
    ]


def _reason(claim: Claim, results: Results, numbers: Sequence[Estimate], verdict: str, alone: str) -> str:
    """The claim's explanation, after what the verdict lacks."""
    if not numbers:
        return str(claim.explanation) if claim.measure is None else "not run in full"
    lack = ""
    if verdict != alone:
        lack = f"By itself: {alone}; the interval does not decide together with the others"
    elif verdict == NOT_TESTED:
        lack = "Too few seeds: the interval does not decide"
    why = claim.explain(results)
    return f"{lack}. {why[:1].upper()}{why[1:]}" if lack and why else lack or why


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


# Whatever is claimed to fall must fall from the first setting to the last; that each step does makes it more than in
# kind.
FALLING = (above(0), above(0, kind=ANYTHING))


def falling(
    statement: str,
    stated: str,
    names: Sequence[object],
    configs: Sequence[Config],
    metric: str,
    explanation: Callable[[Results], str] | str = "",
) -> Claim:
    """A claim that a metric falls along the settings."""
    labels = (f"{names[0]} to {names[-1]}", *(f"{a} to {b}" for a, b in itertools.pairwise(names)))
    steps = len(names) - 1
    return Claim(
        statement,
        stated,
        lambda results: steps_of(results, configs, metric),
        (FALLING[0], *(FALLING[1],) * steps),
        (float(steps), *(1.0,) * steps),
        0.0,
        explanation,
        labels,
    )
