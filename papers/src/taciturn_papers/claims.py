"""Claims of papers: the quoted words, the numbers to compute, the ranges that confirm a claim, and the numbers under a
null hypothesis.

A range states which kind of statement it judges and how its edges were chosen. The verdict follows from a computed
number with its confidence interval. If the whole interval lies within the range, a number or a bound that the paper
states agrees, and a direction or an order that it states in words holds qualitatively. If the whole interval lies
outside, the claim differs; if the interval crosses an edge, the claim is undecided. A claim about several numbers gets
the worst of their verdicts. Explanations are printed with a verdict and do not affect it.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from taciturn.bench import statistics
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.study import AGREES, DIFFERS, IN_KIND, NOT_COMPUTED, UNDECIDED, Verdict

Numbers = float | Estimate | Sequence[float | Estimate]
NUMBER, BOUND, ORDER = "number", "bound", "order"
"""The kinds of range: for a number that the paper states, a bound that it states, or a direction or order in words."""


class NotRunError(LookupError):
    """Results that a claim needs are missing."""


@dataclass(frozen=True)
class Range:
    """The interval [low, high] of numbers that confirm a claim.

    Attributes:
        low: lower edge.
        high: upper edge.
        states: `NUMBER`, `BOUND` or `ORDER`.
        tolerance: how the edges were chosen.
        refuted_only: whether an interval that crosses an edge confirms the claim too; only one outside refutes it.
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
    """A number printed in multiples of `unit`: within half a unit of it."""
    return Range(*_between(value, unit / 2), NUMBER, why or f"the paper rounds to multiples of {unit:g}")


def read(value: float, half: float, why: str) -> Range:
    """A number within `half`, which `why` justifies: the paper's interval, its plot's resolution or sampling error."""
    return Range(*_between(value, half), NUMBER, why)


def equal(value: float, slack: float = 1e-9) -> Range:
    """A number that an equation gives."""
    return read(value, slack, "rounding errors only, since it is an equation")


def at_most(bound: float) -> Range:
    """At most a bound that the paper states."""
    return Range(high=bound)


def at_least(bound: float) -> Range:
    """At least a bound that the paper states."""
    return Range(low=bound)


def above(bound: float) -> Range:
    """A direction: strictly above `bound`."""
    return Range(low=math.nextafter(bound, math.inf), states=ORDER, tolerance="a direction")


def below(bound: float) -> Range:
    """A direction: strictly below `bound`."""
    return Range(high=math.nextafter(bound, -math.inf), states=ORDER, tolerance="a direction")


def alike(value: float, tolerance: float, why: str) -> Range:
    """Words such as 'similar' or 'close to', with a tolerance that we chose; `why` quotes the words."""
    return Range(*_between(value, tolerance), ORDER, f"{why}: we allow {tolerance:g} on either side of {value:g}")


def not_reversed(bound: float = 0.0) -> Range:
    """A step of an order, possibly too small to be resolved: refuted only by an interval below `bound`."""
    return Range(low=bound, states=ORDER, tolerance="no number may significantly go the other way", refuted_only=True)


def _between(value: float, half: float) -> tuple[float, float]:
    # Rounding errors must not decide whether a number on the edge is inside.
    slack = 1e-12 * max(abs(value), abs(half))
    return value - half - slack, value + half + slack


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that computed numbers can refute, or a check that we add.

    Attributes:
        statement: the claim, its place in the paper, and in brackets the quantity computed.
        quote: the paper's words and their place: "Section 5.2: '...'"; empty for our own checks.
        stated: the paper's number or words, in short.
        measure: computes the numbers from the metrics of the study's results; None if they cannot be computed, and then
            `explanation` says why.
        ranges: one range for each number, or one for all.
        paper: the numbers that the paper states, or that its statement implies.
        null: the numbers if the claim were false: nothing learned (uniform play), or the statement inverted.
        explanation: why the numbers are as they are.
        labels: a label for each number, if there are several.
        own: whether this is our own check. It is not counted among the paper's claims.
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
        """The kind of the claim: `NUMBER` if any of its ranges has this kind, else `BOUND` if any has, else `ORDER`."""
        kinds = {one.states for one in self.each}
        return next(kind for kind in (NUMBER, BOUND, ORDER) if kind in kinds)

    @property
    def tolerance(self) -> str:
        """How the edges of its ranges were chosen."""
        return "; ".join(dict.fromkeys(one.tolerance for one in self.each))

    def judge(self, numbers: Numbers) -> str:
        """The verdict on these numbers, one for each label (a single number is repeated)."""
        verdicts = {one.judge(x) for one, x in zip(self.each, self.estimates(numbers), strict=True)}
        return next(verdict for verdict in (DIFFERS, UNDECIDED, IN_KIND, AGREES) if verdict in verdicts)

    def estimates(self, numbers: Numbers) -> list[Estimate]:
        """The numbers with their intervals; the interval of an exact number has width 0."""
        several = [numbers] * len(self.labels) if isinstance(numbers, float | int | Estimate) else numbers
        return [x if isinstance(x, Estimate) else Estimate(x, x, x) for x in several]

    def measured(self, results: Results) -> list[Estimate]:
        """The numbers computed from the results; empty if they cannot be computed or the results are missing."""
        try:
            return [] if self.measure is None else self.estimates(self.measure(results))
        except NotRunError:
            return []

    def explain(self, results: Results) -> str:
        """Why the numbers are as they are."""
        try:
            return self.explanation if isinstance(self.explanation, str) else self.explanation(results)
        except NotRunError:
            return ""


def verdicts(claims: Sequence[Claim], results: Results) -> list[Verdict]:
    """The verdict on each claim from the results.

    Verdicts that rely on intervals hold jointly at 95%, by Holm's method (1979). All intervals first get Bonferroni's
    level for their number. Claims that this decides drop out, and the level for the remaining intervals decides next.
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
    """Whether a claim that holds might be refuted by narrower intervals: it has a step that must not be reversed."""
    return claim.judge(numbers) != DIFFERS and any(
        one.refuted_only and x.low < one.low for one, x in zip(claim.each, numbers, strict=True)
    )


def _reason(claim: Claim, results: Results, numbers: Sequence[Estimate], verdict: str, alone: str) -> str:
    """The claim's explanation, preceded by the reason if the intervals do not decide."""
    if not numbers:
        return str(claim.explanation) if claim.measure is None else "not run in full"
    lack = ""
    if verdict != alone:
        lack = f"Without the correction for multiple tests the verdict is '{alone}'; with it, '{verdict}'"
    elif verdict == UNDECIDED:
        lack = "Too few seeds: the interval does not decide"
    why = claim.explain(results)
    return f"{lack}. {why[:1].upper()}{why[1:]}" if lack and why else lack or why


def untested(statement: str, quote: str, stated: str, why: str) -> Claim:
    """A claim that no computed number can test."""
    return Claim(statement, quote, stated, None, explanation=why)


def group_of(results: Results, config: Config) -> Group:
    """The results of a configuration.

    Raises:
        NotRunError: there are none.
    """
    result = results.find(config)
    if result is None:
        raise NotRunError(config)
    return result


def mean(values: ArrayLike) -> Estimate:
    """The mean over seeds with its interval; infinite if any value is."""
    x = np.asarray(values, dtype=float)
    return statistics.mean(x) if np.isfinite(x).all() else Estimate(*(float(x.mean()),) * 3)


def number_of(results: Results, config: Config, metric: str) -> Estimate:
    """The mean of a metric in a setting."""
    return mean(group_of(results, config).metrics[metric])


def ratio_of(results: Results, one: Config, other: Config, metric: str) -> Estimate:
    """The mean of a metric in setting `one` divided by its mean in `other`, paired by seed."""
    return statistics.ratio(*group_of(results, one).paired(group_of(results, other), metric))


def together(results: Results, configs: Sequence[Config], metric: str) -> Floats:
    """A metric in several settings at the seeds that all of them have finished, [settings, seeds]."""
    groups = [group_of(results, config) for config in configs]
    seeds = functools.reduce(np.intersect1d, [group.seeds for group in groups])
    return np.array([group.metrics[metric][np.isin(group.seeds, seeds)] for group in groups])


def difference_of(results: Results, one: Config, other: Config, metric: str) -> Estimate:
    """The mean of a metric in setting `one` minus its mean in `other`, paired by seed."""
    return statistics.difference(*group_of(results, one).paired(group_of(results, other), metric))


def steps_of(results: Results, configs: Sequence[Config], metric: str) -> list[Estimate]:
    """The decrease of a metric from the first setting to the last, then from each to the next, paired by seed."""
    pairs = [(configs[0], configs[-1]), *itertools.pairwise(configs)]
    return [difference_of(results, one, other, metric) for one, other in pairs]


def along(names: Sequence[object], step: float) -> tuple[tuple[Range, ...], tuple[float, ...], tuple[str, ...]]:
    """The ranges, the paper's numbers and the labels of `steps_of`, if a number falls by `step` from each setting to
    the next: it must fall from the first to the last, and rise at no step."""
    labels = (f"{names[0]} to {names[-1]}", *(f"{a} to {b}" for a, b in itertools.pairwise(names)))
    steps = len(names) - 1
    return (above(0), *(not_reversed(),) * steps), (step * steps, *(step,) * steps), labels


def falling(
    statement: str,
    quote: str,
    stated: str,
    names: Sequence[object],
    configs: Sequence[Config],
    metric: str,
    explanation: Callable[[Results], str] | str = "",
) -> Claim:
    """A claim that a metric falls along the settings."""
    ranges, paper, labels = along(names, 1.0)
    measure = functools.partial(steps_of, configs=configs, metric=metric)
    return Claim(statement, quote, stated, measure, ranges, paper, 0.0, explanation, labels)
