"""What a claim of a paper is: the paper's words, numbers to compute, the ranges in which they hold it, and what they
would be under a null.

A range says what sort of statement it judges and where its edges come from. A number that the paper states, or a bound,
agrees if the computed number lies within it with its whole interval; a direction or an order, which the paper states in
words, then holds in kind. It differs if the whole interval lies outside, and an interval across the edge leaves it
undecided. A claim about several numbers is as good as the worst of them. Explanations stand beside a verdict and do not
decide it.
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
from taciturn.bench.study import AGREES, DIFFERS, IN_KIND, NOT_COMPUTED, UNDECIDED, Verdict

Numbers = float | Estimate | Sequence[float | Estimate]
NUMBER, BOUND, ORDER = "number", "bound", "order"
"""What a range judges: a number that the paper states, a bound that it states, or a direction or an order in words."""


class NotRunError(LookupError):
    """A claim needs results that there are not."""


@dataclass(frozen=True)
class Range:
    """A number holds a claim within [low, high].

    Attributes:
        low: the lowest that holds it.
        high: the highest.
        says: `NUMBER`, `BOUND` or `ORDER`.
        tolerance: where the edges come from.
        refuted_only: whether an interval across an edge holds it too, so that only one outside fails.
    """

    low: float = -math.inf
    high: float = math.inf
    states: str = BOUND
    tolerance: str = "a bound"
    refuted_only: bool = False

    def judge(self, x: Estimate) -> str:
        """The verdict on a number and its interval."""
        if any(map(math.isnan, x)):
            return UNDECIDED
        if x.high < self.low or x.low > self.high:
            return DIFFERS
        if self.refuted_only or (self.low <= x.low and x.high <= self.high):
            return IN_KIND if self.states == ORDER else AGREES
        return UNDECIDED


def rounded(value: float, unit: float, why: str = "") -> Range:
    """A number that the paper prints to a unit: within half of the unit."""
    return Range(*_between(value, unit / 2), NUMBER, why or f"printed to {unit:g}")


def read(value: float, half: float, why: str) -> Range:
    """A number within what `why` names: the paper's own interval, the resolution of its plot, its sampling error."""
    return Range(*_between(value, half), NUMBER, why)


def at_most(bound: float) -> Range:
    """Not above a bound that the paper states."""
    return Range(high=bound)


def at_least(bound: float) -> Range:
    """Not below a bound that the paper states."""
    return Range(low=bound)


def above(bound: float) -> Range:
    """A direction: above `bound`, which itself is not enough."""
    return Range(low=math.nextafter(bound, math.inf), states=ORDER, tolerance="a direction")


def below(bound: float) -> Range:
    """A direction: below `bound`, which itself is not enough."""
    return Range(high=math.nextafter(bound, -math.inf), states=ORDER, tolerance="a direction")


def alike(value: float, tolerance: float, why: str) -> Range:
    """Words such as 'similar' or 'close to': within a tolerance of ours, for which `why` gives the words."""
    return Range(*_between(value, tolerance), ORDER, f"{why}: ours, {tolerance:g} on either side")


def not_reversed(bound: float = 0.0) -> Range:
    """A step of an order that may be too small to be seen: it fails if it is shown to lie below `bound`."""
    return Range(low=bound, states=ORDER, tolerance="a step that must not be reversed", refuted_only=True)


def _between(value: float, half: float) -> tuple[float, float]:
    # The last digit of a sum must not decide whether its edge is within it.
    slack = 1e-12 * max(abs(value), abs(half))
    return value - half - slack, value + half + slack


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that computed numbers can refute, or a check of ours beside it.

    Attributes:
        statement: what is claimed, where, and in brackets what is computed.
        quote: the paper's words and their place: "Section 5.2: '...'"; none if it is our own check.
        stated: the paper's number or words, in short.
        measure: the numbers, from the metrics of the study's results; None if they cannot be computed, in which case
            `explanation` says why.
        ranges: the range of each number, or the one of all.
        paper: the numbers that the paper states, or that its statement implies.
        null: the numbers if it were false: nothing learned (uniform play), or the statement inverted.
        explanation: why a number is what it is.
        labels: what each number is, if there are several.
        own: whether it is a check of ours, which is no claim of the paper and is not counted among them.
    """

    statement: str
    quote: str
    stated: float | str
    measure: Callable[[Results], Numbers] | None
    ranges: Range | tuple[Range, ...] = Range()
    paper: float | tuple[float, ...] = ()
    null: float | tuple[float, ...] = ()
    explanation: str | Callable[[Results], str] = ""
    labels: tuple[str, ...] = ("",)
    own: bool = False

    @property
    def each(self) -> tuple[Range, ...]:
        """The range of every number."""
        return (self.ranges,) * len(self.labels) if isinstance(self.ranges, Range) else self.ranges

    @property
    def states(self) -> str:
        """What the claim is about: a `NUMBER` if any of its ranges judges one, else a `BOUND`, else an `ORDER`."""
        kinds = {one.states for one in self.each}
        return next(kind for kind in (NUMBER, BOUND, ORDER) if kind in kinds)

    @property
    def tolerance(self) -> str:
        """Where the edges of its ranges come from."""
        return "; ".join(dict.fromkeys(one.tolerance for one in self.each))

    def judge(self, numbers: Numbers) -> str:
        """The verdict on these numbers, as many as there are labels (a single one is repeated)."""
        verdicts = {one.judge(x) for one, x in zip(self.each, self.estimates(numbers), strict=True)}
        return next(verdict for verdict in (DIFFERS, UNDECIDED, IN_KIND, AGREES) if verdict in verdicts)

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
    alone = [claim.judge(numbers) if numbers else NOT_COMPUTED for claim, numbers in zip(claims, found, strict=True)]
    judged = list(alone)
    left = {i: n for i, numbers in enumerate(found) if (n := sum(x.low < x.high for x in numbers))}
    decided = set(left)
    while left and decided:
        with statistics.at_level(1 - (1 - statistics.LEVEL) / sum(left.values())):
            now = {i: claims[i].measured(results) for i in left}
        for i, numbers in now.items():
            judged[i] = claims[i].judge(numbers)
        decided = {i for i, numbers in now.items() if judged[i] != UNDECIDED and not _open(claims[i], numbers)}
        left = {i: n for i, n in left.items() if i not in decided}
    return [
        Verdict(
            claim.statement,
            claim.stated,
            numbers,
            verdict,
            _reason(claim, results, numbers, verdict, by_itself),
            claim.labels,
            claim.quote,
            claim.tolerance if claim.measure else "",
            claim.own,
        )
        for claim, numbers, verdict, by_itself in zip(claims, found, judged, alone, strict=True)
    ]


def _open(claim: Claim, numbers: Sequence[Estimate]) -> bool:
    """Whether narrower intervals might refute a claim that holds: a step that only must not be reversed."""
    return claim.judge(numbers) != DIFFERS and any(
        one.refuted_only and x.low < one.low for one, x in zip(claim.each, numbers, strict=True)
    )


def _reason(claim: Claim, results: Results, numbers: Sequence[Estimate], verdict: str, alone: str) -> str:
    """The claim's explanation, after what the verdict lacks."""
    if not numbers:
        return str(claim.explanation) if claim.measure is None else "not run in full"
    lack = ""
    if verdict != alone:
        lack = f"By itself: {alone}; the interval does not decide together with the others"
    elif verdict == UNDECIDED:
        lack = "Too few seeds: the interval does not decide"
    why = claim.explain(results)
    return f"{lack}. {why[:1].upper()}{why[1:]}" if lack and why else lack or why


def untested(statement: str, quote: str, stated: str, why: str) -> Claim:
    """A claim for which no number can be computed."""
    return Claim(statement, quote, stated, None, explanation=why)


def group_of(results: Results, config: Config) -> Group:
    """The results of a configuration. Raises NotRunError if there are none."""
    result = results.find(config)
    if result is None:
        raise NotRunError(config)
    return result


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
    groups = [group_of(results, config) for config in configs]
    pairs = [(groups[0], groups[-1]), *itertools.pairwise(groups)]
    return [statistics.difference(*a.paired(b, metric)) for a, b in pairs]


def falling(
    statement: str,
    quote: str,
    stated: str,
    names: Sequence[object],
    configs: Sequence[Config],
    metric: str,
    explanation: Callable[[Results], str] | str = "",
) -> Claim:
    """A claim that a metric falls along the settings: it must fall from the first to the last, and no step may rise."""
    labels = (f"{names[0]} to {names[-1]}", *(f"{a} to {b}" for a, b in itertools.pairwise(names)))
    steps = len(names) - 1
    return Claim(
        statement,
        quote,
        stated,
        lambda results: steps_of(results, configs, metric),
        (above(0), *(not_reversed(),) * steps),
        (float(steps), *(1.0,) * steps),
        0.0,
        explanation,
        labels,
    )
