"""The attackers of a black-box audit: each is fitted to labelled transcripts and then gives transcripts a score, high
for the second world.

`outcomes` counts how often each transcript occurs, `entries` regresses on all numbers, `tails` uses the regions where
numbers fall, including rare extremes, `repeats` uses values that occur again exactly, and `bits` the floating-point
form of numbers: its lowest bits reveal noise that was added to a double (Mironov 2012, "On significance of the least
significant bits for differential privacy"). NaN, the infinities and -0 are possible values: attackers read 0 in their
place, and additional 0/1 entries indicate which of these values occurred; `bits` reads them unchanged.
`taciturn.privacy.certifying` selects one of the attackers on transcripts that it was not fitted to, and certifies on
further ones: neither the fit nor the choice weakens the certificate.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.validation import Array, Bools, Floats

Scorer = Callable[[Array], Floats]  # transcripts -> scores, high for the second world

LARGEST_SCORE = 1e6
LARGEST = 1e100  # larger numbers are clipped, to keep squares finite
MOST_TO_FIT = 100_000
MOST_OUTCOMES = 64
MOST_FOR_PRODUCTS = 8
MOST_FOR_CELLS = 64 * 50_000  # the most numbers, over all transcripts, that are divided into cells
MOST_FOR_BITS = 16
MOST_SLOPES = 4
TAIL = 0.02  # share of the transcripts at either end with small cells
IN_TAIL = 10  # transcripts in such a cell
IN_BODY = 32  # cells between the tails
DOUBT = 0.05  # error probability of the bound on a cell's odds: cells with few transcripts get scores near 0


def lowest_share(correct: Any, guesses: Any, alpha: float) -> Any:
    """Lower confidence bound on the probability of a correct guess, at level 1 - alpha (Clopper & Pearson 1934)."""
    from scipy.special import betaincinv

    return np.where(correct > 0, betaincinv(np.maximum(correct, 1e-9), guesses - correct + 1, alpha), 0.0)


def attackers(transcripts: Array, second: Bools, bits: bool) -> dict[str, Scorer]:
    """`{name: scorer}`, fitted to transcripts [trials, ...]; `second` bool[trials] marks those of the second world.

    There is always `entries`. If at most 64 different transcripts occur, there is also `outcomes`; otherwise, for at
    most `MOST_FOR_CELLS` numbers, `tails`, `repeats` and, if `bits`, `bits`.
    """
    whole, second = _flat(transcripts[:MOST_TO_FIT]), second[:MOST_TO_FIT]
    occurs = special(whole).any(0)

    def read(flat: Array) -> Array:
        finite = np.where(np.isfinite(flat), np.clip(flat, -LARGEST, LARGEST), 0.0)
        return np.hstack([finite, special(flat)[:, occurs]]) if occurs.any() else finite

    def code(flat: Array) -> Array:
        return _codes(flat.view(np.uint64)) if bits else _rounded_codes(read(flat))

    results = {"entries": _entries(read, whole, second, bits)}
    if np.unique(code(whole)).size <= MOST_OUTCOMES:
        results["outcomes"] = _outcomes(code, whole, second)
    elif whole.size <= MOST_FOR_CELLS:
        lines = _lines(read(whole), second)

        def places(flat: Array) -> list[Array]:
            return [*_places(read(flat)), *_along(read(flat), lines)]

        def repeatable(flat: Array) -> list[Array]:
            return [*_repeatable(read(flat)), *_along(read(flat), lines), code(flat)]

        results["tails"] = _strongest(whole, second, (places, _intervals))
        results["repeats"] = _strongest(whole, second, (repeatable, _values))
        if bits:
            results["bits"] = _strongest(whole, second, (_forms, _values), (_mantissas, _either))
    return results


def _flat(transcripts: Array) -> Array:
    return np.ascontiguousarray(np.asarray(transcripts, np.float64).reshape(len(transcripts), -1))


def special(flat: Array) -> Array:
    """Whether each entry is -0, inf, -inf or NaN, float64[trials, 4 * entries]."""
    kinds = [(flat == 0) & np.signbit(flat), flat == np.inf, flat == -np.inf, np.isnan(flat)]
    return np.hstack(kinds).astype(np.float64)


def _codes(raw: Array) -> Array:
    """A number for each row of uint64: equal for equal rows, and different for others except with chance 2^-40."""
    factors = np.random.default_rng(0).integers(0, 2**63, raw.shape[1:], np.uint64) * np.uint64(2) + np.uint64(1)
    return np.asarray(((raw ^ (raw >> np.uint64(32))) * factors).sum(1))


def _rounded_codes(flat: Array) -> Array:
    """A number for each row: equal for rows that agree to about nine digits."""
    return np.asarray(np.round((flat * np.random.default_rng(0).standard_normal(flat.shape[1:])).sum(1), 9))


def _clipped(scores: Array) -> Array:
    """Rounded, to give equivalent transcripts equal scores."""
    return np.round(np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE), 10)


def _outcomes(code: Callable[[Array], Array], seen: Array, second: Bools) -> Scorer:
    """The log-odds of each outcome, with half a transcript added to either world; 0 for outcomes that did not occur."""
    cell = _values(np.repeat(code(seen), 2))
    ones, zeros = (np.bincount(cell(code(seen[which])), minlength=MOST_OUTCOMES + 1) for which in (second, ~second))
    odds = np.log((ones + 0.5) / (zeros + 0.5))
    return lambda transcripts: _clipped(odds[cell(code(_flat(transcripts)))])


def _entries(read: Callable[[Array], Array], seen: Array, second: Bools, bits: bool) -> Scorer:
    """The logit of a logistic regression on the entries and their squares. For at most 8 entries it includes all
    products, which reveal two messages with the same noise, and the excess over each entry's quartiles, because the
    log-ratio of Laplace noise is piecewise linear; for a single entry and `bits`, also the bits of its mantissa."""
    known = read(seen)
    shift, scale = known.mean(0), known.std(0)
    scale[scale == 0] = 1
    upper = np.triu_indices(known.shape[1])
    knots = np.quantile((known - shift) / scale, (0.25, 0.5, 0.75), 0)

    def features(flat: Array) -> Array:
        z = (read(flat) - shift) / scale
        if z.shape[1] > MOST_FOR_PRODUCTS:
            return np.hstack([z, z**2, np.ones((len(z), 1))])
        above = [np.maximum(z - knot, 0.0) for knot in knots]
        mantissa = np.array(_mantissas(flat)).T if bits and flat.shape[1] == 1 else np.zeros((len(z), 0))
        return np.hstack([z, z[:, upper[0]] * z[:, upper[1]], *above, mantissa, np.ones((len(z), 1))])

    weights = _logistic(features(seen), second)
    return lambda transcripts: _clipped(features(_flat(transcripts)) @ weights)


Look = Callable[[Array], list[Array]]  # transcripts [trials, entries] -> numbers to divide into cells, [trials] each
Divide = Callable[[Array], Callable[[Array], Array]]  # numbers -> function from a number to its cell; 0: none


def _strongest(seen: Array, second: Bools, *ways: tuple[Look, Divide]) -> Scorer:
    """The log-odds of the most informative cell that a transcript falls in.

    Log-odds are confidence bounds from the transcripts seen in a cell; rare cells therefore get scores near 0.
    """
    cells = []
    for look, divide in ways:
        for numbers in look(seen):
            cell = divide(numbers)
            place = cell(numbers)
            size = int(place.max(initial=0)) + 2  # one more cell for numbers above all that were seen
            ones, zeros = (np.bincount(place[which], minlength=size) for which in (second, ~second))
            share = np.maximum(lowest_share(np.maximum(ones, zeros), ones + zeros, DOUBT), 0.5)
            odds = np.where(ones > zeros, 1.0, -1.0) * (np.log(share) - np.log1p(-share))
            odds[0] = 0.0
            cells.append((cell, odds))

    def score(transcripts: Array) -> Array:
        flat = _flat(transcripts)
        best = np.zeros(len(flat))
        for numbers, (cell, odds) in zip((n for look, _ in ways for n in look(flat)), cells, strict=True):
            if odds.any():
                each = odds[cell(numbers)]
                best = np.where(np.abs(each) > np.abs(best), each, best)
        return _clipped(best)

    return score


def _intervals(numbers: Array) -> Callable[[Array], Array]:
    """Cells between quantiles: small ones at both ends, and a few in between."""
    ordered, n = np.sort(numbers), len(numbers)
    tail = np.arange(0, int(TAIL * n), IN_TAIL)
    ranks = np.concatenate([tail, np.linspace(TAIL * n, (1 - TAIL) * n, IN_BODY).astype(np.int64), n - 1 - tail])
    edges = np.unique(ordered[np.clip(ranks, 0, n - 1)])
    return lambda values: 1 + np.searchsorted(edges, values)


def _values(numbers: Array) -> Callable[[Array], Array]:
    """A cell for each value that occurs more than once."""
    values, counts = np.unique(numbers, return_counts=True)
    known = values[counts > 1]

    def cell(found: Array) -> Array:
        if not known.size:
            return np.zeros(len(found), np.int64)
        place = np.minimum(np.searchsorted(known, found), known.size - 1)
        return np.where(known[place] == found, place + 1, 0)

    return cell


def _lines(seen: Array, second: Bools) -> list[tuple[int, int, float]]:
    """(i, j, slope), for which entry i - slope * entry j may be free of noise: slopes 1 and -1, and the most frequent
    slopes between two transcripts of a world. Only for at most 8 entries."""
    n, lines = seen.shape[1], []
    if 1 < n <= MOST_FOR_PRODUCTS:
        steps = np.concatenate([np.diff(seen[which], axis=0) for which in (second, ~second)])
        for i in range(n):
            for j in range(i):
                moved = np.abs(steps[:, j]) > 1 / LARGEST
                slopes, counts = np.unique(np.round(steps[moved, i] / steps[moved, j], 6), return_counts=True)
                other = ~np.isin(slopes, (-1, 0, 1))
                usual = slopes[other][np.argsort(-counts[other], kind="stable")[:MOST_SLOPES]]
                lines += [(i, j, slope) for slope in (1.0, -1.0, *usual.tolist())]
    return lines


def _along(flat: Array, lines: list[tuple[int, int, float]]) -> list[Array]:
    """Entry i - slope * entry j, rounded to hide the rounding errors of the subtraction."""
    return [np.round(flat[:, i] - slope * flat[:, j], 9) for i, j, slope in lines]


def _places(flat: Array) -> list[Array]:
    """The entries, their sum and the largest of them."""
    several = [flat.sum(1), np.abs(flat).max(1)] if flat.shape[1] > 1 else []
    return [*flat.T, *several]


def _repeatable(flat: Array) -> list[Array]:
    """The entries, and their fractional parts."""
    return [*flat.T, *np.round(flat % 1, 9).T]


def _parts(flat: Array) -> tuple[Array, Array, Array]:
    """(whole, exponent, whether the sign bit is set) of the first entries, [entries, trials] each; a finite |entry| is
    whole 2^(max(exponent, 1) - 1075)."""
    raw = np.ascontiguousarray(flat[:, :MOST_FOR_BITS].T).view(np.int64)
    exponent = (raw >> 52) & 0x7FF
    return raw & (2**52 - 1) | np.where(exponent > 0, 2**52, 0), exponent, raw < 0


def _forms(flat: Array) -> list[Array]:
    """For each entry, the power of two of its lowest bit, alone and combined with sign and exponent."""
    whole, exponent, negative = _parts(flat)
    _, places = np.frexp((whole & -whole).astype(np.float64))
    lowest = np.where(whole == 0, 0, exponent + places)
    return [*lowest, *(lowest + 2**13 * exponent + 2**26 * negative)]


def _mantissas(flat: Array) -> list[Array]:
    """Each bit of the mantissa of each entry."""
    return [(whole >> place) & 1 for whole in _parts(flat)[0] for place in range(52)]


def _either(numbers: Array) -> Callable[[Array], Array]:
    """A cell for 0 and one for 1."""
    return lambda bits: 1 + bits


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
