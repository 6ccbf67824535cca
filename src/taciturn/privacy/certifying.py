"""The auditor's statistics: it guesses which of two adjacent worlds made a transcript, and its success certifies an
epsilon.

Under pure epsilon-DP, if a fair coin chooses the world, the odds of a correct guess are at most e^epsilon given any
transcript, and therefore over any set of transcripts on which the auditor chooses to guess (the hypothesis test of
Kairouz, Oh & Viswanath 2015). A one-sided lower confidence bound p on the share of correct guesses therefore certifies
epsilon >= logit(p). The abstention rule is chosen on a held-out part of the trials, and the certificate is computed on
the rest. A black-box audit fits its attackers (`taciturn.privacy.attackers`) to one half of the held-out part, and
selects one of them, with its rule, on the other half: each trial has one use. An audit can refute a claim; it cannot
prove one.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from statistics import NormalDist
from typing import Any, NamedTuple, get_args

import numpy as np

from taciturn.privacy import checks, one_run
from taciturn.privacy.attackers import LARGEST_SCORE, Scorer, attackers, lowest_share
from taciturn.privacy.audit_result import AuditMethod, AuditResult
from taciturn.validation import Array, Bools, choice, integer, number

Make = Callable[[Any, np.random.Generator, int, bool], Any]  # (x, rng, count, whether to repeat x `count` times)
Ratio = Callable[[Array, Any, Any], Any]

RATIO = "likelihood ratio"
LUCK = 0.01
MOST_AT_ONCE = 100_000
FEWEST_AT_ONCE = 100
MOST_OF_A_FUNCTION = 10_000
LEAST_CALLS = 256
MOST_TRIALS = 10**9
MOST_FOR_BOTH = 64  # entries of a transcript that a classifier reads by default


def audit_transcripts(
    mechanism: Any,
    pair: Any,
    trials: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    method: AuditMethod | None = None,
    *,
    claimed: float | None = None,
    delta: float | None = None,
    sensitivity: float | None = None,
    log_likelihood_ratio: Ratio | None = None,
    held_out: float = 0.5,
    batch: int | None = None,
    name: str | None = None,
    progress: Callable[[int], None] | None = None,
    references: bool = False,
    bits: bool | None = None,
) -> AuditResult:
    """Certify a lower bound on the epsilon of a mechanism, or of a function that makes transcripts: see
    `taciturn.wrappers.audit`.

    Trials must be independent, except in `one-run`: its bound allows any dependence between agents. With delta = 0,
    independent trials and `one-run` use the same bound, by Clopper & Pearson (1934): Steinke, Nasr & Jagielski (2023)
    show that the number of correct guesses in one run, too, is dominated by a binomial. With delta > 0,
    P(right) <= e^epsilon P(wrong) + delta. With independent trials, an upper quantile of Binomial(trials, delta) is
    subtracted from the number of correct guesses. One run uses the p-value of Steinke, Nasr & Jagielski, which has
    power only if delta is well below (1 - confidence) / trials. With Gaussian noise one run uses the bound of
    Mahloujifar, Melis & Chaudhuri (2025) for the whole trade-off curve (`taciturn.privacy.one_run`), which has power at
    every delta: it refutes values of mu, which are reported as an epsilon at delta. It needs no held-out canaries.
    """
    trials = integer("trials", trials, at_least=4, at_most=MOST_TRIALS)
    confidence = number("confidence", confidence, above=0, below=1)
    seed = integer("seed", seed, at_least=0)
    known_delta = float(getattr(mechanism, "delta", 0.0))
    delta = known_delta if delta is None else number("delta", delta, at_least=0, below=1)
    held_out = number("held_out", held_out, above=0, below=1)
    if claimed is None:
        claimed = float(getattr(mechanism, "epsilon", math.inf)) if delta >= known_delta else math.inf
    else:
        number("claimed", claimed, at_least=0)
    if isinstance(pair, Mapping) or len(pair) != 2:
        raise ValueError(f"pair must be two adjacent worlds (x0, x1), not {pair!r}")
    if bits is None:
        bits = not getattr(getattr(mechanism, "mechanism", mechanism), "idealised", False)
    make, ratio = _parts(mechanism, sensitivity)
    if references:
        if method not in (None, "black"):
            raise ValueError(f"method must be 'black' with references, not {method!r}")
        make, ratio, log_likelihood_ratio = _with_references(make, pair[0], hasattr(mechanism, "perturb")), None, None
    ratio = log_likelihood_ratio or ratio
    choice("method", method, (None, *get_args(AuditMethod)))
    if method in ("white", "both") and ratio is None:
        raise ValueError(f"method must be 'black' or 'one-run' where there is no log_likelihood_ratio, not {method!r}")
    if batch is None:
        batch = calls(trials, MOST_AT_ONCE) if hasattr(mechanism, "perturb") else min(trials, MOST_OF_A_FUNCTION)
    integer("batch", batch, at_least=1)
    held = min(max(round(held_out * trials), 2), trials - 2)
    certifying, alpha = trials - held, 1 - confidence

    coins, noise = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    second = coins.integers(0, 2, trials) == 1
    if method == "one-run":
        run = make(np.stack([np.asarray(x) for x in pair])[second.astype(np.int64)], noise, trials, False)
        order = coins.permutation(trials)
        run, second = _transcripts(run, trials)[order], second[order]
        if ratio is not None and delta > 0 and getattr(mechanism, "kind", None) == "gaussian":
            name = name or type(mechanism).__name__
            blank = AuditResult(
                name, method, float(claimed), 0.0, 0.0, trials, trials, confidence, 0, 0, (0.0, 0.0), delta, seed
            )
            return _gaussian_run(blank, likelihood_scorer(ratio, *pair)(run), second)

    def batches(start: int, stop: int) -> Iterator[Array]:
        for first in range(start, stop, batch):
            last = min(first + batch, stop)
            yield run[first:last] if method == "one-run" else _mixed(make, pair, noise, second[first:last])
            if progress is not None:
                progress(last)

    known = batches(0, held)
    first = next(known)
    if method is None:
        small = first[0].size <= MOST_FOR_BOTH
        method = "black" if ratio is None else "both" if small else "white"
    ways: tuple[AuditMethod, ...] = ("white", "black") if method == "both" else (method,)
    alpha /= len(ways)
    parts: Iterator[Array] = chain([first], known)
    if method != "white" and (ratio is None or method != "one-run"):
        parts = iter([np.concatenate(list(parts))])
    white = None if ratio is None or method == "black" else {RATIO: likelihood_scorer(ratio, *pair)}
    seen: list[
        tuple[dict[str, Scorer], Array, Bools]
    ] = []  # attackers, scores of held-out trials, and the worlds of these trials
    if white is not None and len(ways) == 1:
        seen.append((white, *_scored(white, parts, second[:held])))
    else:
        whole, half = next(parts), held // 2
        if white is not None:
            seen.append((white, *_scored(white, [whole], second[:held])))
        black = attackers(whole[:half], second[:half], bits)
        seen.append((black, *_scored(black, [whole[half:]], second[half:held])))
    chosen = []
    for named, values, labels in seen:
        free = delta * labels.size * (2 / alpha if method == "one-run" else 1)
        rules = [_rule(scores, labels, alpha, free, certifying / labels.size) for scores in values]
        best = max(range(len(rules)), key=lambda place: rules[place].promised)
        chosen.append((list(named)[best], list(named.values())[best], rules[best], values[best]))

    scorers = {str(place): scorer for place, (_, scorer, *_) in enumerate(chosen)}
    certain, labels = _scored(scorers, batches(held, trials), second[held:])
    certificate = certify_one_run if method == "one-run" else certify
    cap = math.log(certifying / -math.log(alpha))
    name = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    results = []
    for way, (attack, _, rule, known_scores), values in zip(ways, chosen, certain, strict=True):
        says_second, says_first = rule.turn * values >= rule.high, rule.turn * values <= rule.low
        correct = int((says_second & labels).sum() + (says_first & ~labels).sum())
        guesses = int(says_second.sum() + says_first.sum())
        certified = certificate(correct, guesses, certifying, alpha, delta)
        numbers = (trials, certifying, 1 - alpha, guesses, correct, (rule.low, rule.high), delta, seed)
        apart = bool((np.append(known_scores, values) != values[0]).any())
        found = AuditResult(name, way, float(claimed), certified, cap, *numbers, distinguished=apart, attack=attack)
        every = np.append(known_scores, values), np.append(second[held - known_scores.size : held], labels)
        expected = optimum(*every, delta) if attack == RATIO else math.nan
        results.append(replace(found, bits=bits, expected=expected))
    if len(results) == 1:
        return replace(results[0], confidence=confidence)
    top = max(results, key=lambda result: result.certified)
    apart = any(result.distinguished for result in results)
    return replace(top, method="both", confidence=confidence, distinguished=apart, parts=tuple(results))


def _scored(scorers: Mapping[str, Scorer], parts: Iterable[Array], labels: Bools) -> tuple[Array, Bools]:
    """The scores of each scorer for all parts of the transcripts, [scorers, trials], and the labels."""
    scores = zip(*([scorer(part) for scorer in scorers.values()] for part in parts), strict=True)
    return np.stack([np.concatenate(each) for each in scores]), labels


def _gaussian_run(blank: AuditResult, scores: Array, second: Bools) -> AuditResult:
    """The certificate of one run with Gaussian noise, from guesses on the canaries with the largest absolute scores."""
    canaries, alpha = scores.size, 1 - blank.confidence
    guesses = one_run.guesses_for(canaries)
    chosen = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    correct = int(((scores[chosen] > 0) == second[chosen]).sum())
    certified, cap = (
        one_run.epsilon_of(one_run.certify_gaussian_run(right, guesses, canaries, alpha), blank.delta)
        for right in (correct, guesses)
    )
    edge = float(np.abs(scores[chosen]).min())
    return replace(
        blank,
        certified=certified,
        cap=cap,
        guesses=guesses,
        correct=correct,
        threshold=(-edge, edge),
        attack=RATIO,
        bits=False,
        distinguished=bool(np.ptp(scores) > 0),
    )


def optimum(scores: Array, second: Bools, delta: float) -> float:
    """The epsilon at delta of the best test, estimated from log-likelihood ratios: the least epsilon for which
    E[(1 - e^(epsilon - loss))+] is at most delta in both worlds. It is an estimate, not a bound: at delta = 0 it is the
    largest loss that occurred."""

    def worse(epsilon: float) -> bool:
        losses = scores[second], -scores[~second]
        return any(-np.expm1(np.minimum(epsilon - loss, 0.0)).mean() > delta for loss in losses if loss.size)

    low, high = 0.0, float(np.abs(scores).max(initial=0.0))
    while high - low > 1e-6 * max(high, 1.0):
        middle = (low + high) / 2
        low, high = (middle, high) if worse(middle) else (low, middle)
    return high


def calls(trials: int, most: int) -> int:
    """Number of transcripts per call, at most `most`: few enough for many calls, because a mechanism may change from
    call to call."""
    trials = integer("trials", trials, at_least=4, at_most=MOST_TRIALS)
    return min(max(math.ceil(trials / LEAST_CALLS), FEWEST_AT_ONCE), most)


def trials_for(epsilon: float, confidence: float = 0.95) -> int:
    """Number of trials with which an audit at this confidence certifies 80% of a true `epsilon`, except with
    probability 1e-4.

    By normal approximation: among r guesses the logit of the share of correct ones has standard deviation 1 / sqrt(r p
    (1 - p)), with p = sigmoid(epsilon). The certificate lies z(confidence) standard deviations below its expectation,
    and chance may subtract z(1 - 1e-4) more; together they must not exceed 0.2 epsilon. The number grows as
    1 / epsilon^2. An unlucky choice of the threshold adds at most 0.01 to the failure probability.

    Half of the trials choose the threshold, and the auditor guesses on half of the others: this is about right for
    randomised response and for Laplace noise.
    """
    number("epsilon", epsilon, above=0)
    number("confidence", confidence, above=0, below=1)
    p = 1 / (1 + math.exp(-epsilon))
    z = NormalDist().inv_cdf(confidence) + NormalDist().inv_cdf(1 - 1e-4)
    return math.ceil((z / ((1 - 0.8) * epsilon)) ** 2 / (p * (1 - p)) / 0.5 / 0.5)


def _parts(mechanism: Any, sensitivity: float | None) -> tuple[Make, Ratio | None]:
    """The function that makes transcripts of a mechanism or a function, and its log-likelihood ratio."""
    if not hasattr(mechanism, "perturb"):
        if not callable(mechanism):
            raise ValueError(
                f"mechanism must have perturb(x, rng) or be a function of (x, rng, trials), not {mechanism!r}"
            )
        return lambda x, rng, count, _: mechanism(x, rng, count), None
    known = {} if sensitivity is None else {"sensitivity": checks.level("sensitivity", sensitivity)}
    own: Any = getattr(mechanism, "log_likelihood_ratio", None)

    def copies(x: Any, count: int) -> Array:
        return np.repeat(np.asarray(x)[None], count, axis=0)

    def perturb(x: Any, rng: np.random.Generator, count: int, repeat: bool) -> Any:
        return mechanism.perturb(copies(x, count) if repeat else x, rng, **known)

    def ratio(y: Array, x0: Any, x1: Any) -> Any:
        return own(y, copies(x0, len(y)), copies(x1, len(y)), **known)

    return perturb, ratio if own is not None else None


def _with_references(make: Make, known: Any, in_batches: bool) -> Make:
    """Transcripts, each joined with a transcript of `known` from the next call of `make` and, if `make` takes batches,
    with one from the same call."""

    def beside(x: Any, rng: np.random.Generator, count: int, repeat: bool) -> Array:
        rows = [np.repeat(np.asarray(each)[None], count, axis=0) for each in (x, known)]
        made = make(np.concatenate(rows), rng, 2 * count, False) if in_batches else make(x, rng, count, True)
        later = make(known, rng, count, True)
        parts = [*np.split(np.asarray(made), 2), later] if in_batches else [made, later]
        return np.concatenate([_transcripts(part, count).reshape(count, -1) for part in parts], 1)

    return beside


def _transcripts(y: Any, count: int) -> Array:
    y = np.asarray(y)
    if y.shape[:1] != (count,):
        raise ValueError(f"a transcript must be an array [trials, ...] with {count} trials, not of shape {y.shape}")
    return y


def _mixed(make: Make, pair: tuple[Any, Any], rng: np.random.Generator, second: Array) -> Array:
    """Transcripts [trials, ...] of the second world where `second` [trials] is true, and of the first elsewhere."""
    parts = {}
    for world, where in enumerate((~second, second)):
        if count := int(where.sum()):
            parts[world] = _transcripts(make(pair[world], rng, count, True), count)
    shapes = {part.shape[1:] for part in parts.values()}
    if len(shapes) > 1:
        raise ValueError(f"a transcript must have the same shape in both worlds, not {' and '.join(map(str, shapes))}")
    y = np.empty((second.size, *shapes.pop()), np.result_type(*parts.values()))
    for world, part in parts.items():
        y[second == world] = part
    return y


class Rule(NamedTuple):
    """When to guess: the second world if turn * score >= high, the first if turn * score <= low; `turn` is 1, or -1 if
    low scores indicate the second world."""

    turn: float
    low: float
    high: float
    promised: float  # the expected certificate, as a share of correct guesses


def _rule(scores: Array, second: Bools, alpha: float, free: float, more: float) -> Rule:
    """The best rule on these scores or on their negatives."""
    ones, zeros = scores[second], scores[~second]
    turn = -1.0 if (zeros > 0).sum() * ones.size > (ones > 0).sum() * zeros.size else 1.0
    return Rule(turn, *thresholds(turn * zeros, turn * ones, alpha, free, more))


def thresholds(zeros: Array, ones: Array, alpha: float, free: float, more: float = 1.0) -> tuple[float, float, float]:
    """The abstention rule (low, high) that promises the largest certificate, given scores of transcripts from the two
    worlds; and the share of correct guesses that it promises.

    A rule promises the certificate that `more` times as many trials would give if its true share of correct guesses
    were at the lower confidence bound from these scores (error `LUCK`). A few lucky scores therefore have little
    effect. With delta > 0, `free` correct guesses are subtracted first.
    """
    ordered = np.sort(np.concatenate([zeros, ones]))
    ranks = np.unique(np.geomspace(1, ordered.size, 64).astype(np.int64))
    lows = np.append(-np.inf, np.unique(ordered[ranks - 1]))
    highs = np.append(np.unique(ordered[-ranks]), np.inf)
    zeros, ones = np.sort(zeros), np.sort(ones)
    right = (ones.size - np.searchsorted(ones, highs))[:, None] + np.searchsorted(zeros, lows, "right")
    wrong = (zeros.size - np.searchsorted(zeros, highs))[:, None] + np.searchsorted(ones, lows, "right")
    paid = np.maximum(right - free, 0.0)
    guesses = paid + wrong
    expected = lowest_share(lowest_share(paid, guesses, LUCK) * more * guesses, more * guesses, alpha)
    value = np.where(highs[:, None] > lows, expected, -1.0)
    high, low = np.unravel_index(np.argmax(value), value.shape)
    return float(lows[low]), float(highs[high]), float(value[high, low])


def certify(correct: int, guesses: int, trials: int, alpha: float, delta: float) -> float:
    """Lower confidence bound on epsilon from independent trials.

    P(right) <= e^epsilon P(wrong) + delta: apart from at most Binomial(trials, delta) free wins, the odds of a correct
    guess are at most e^epsilon. With delta > 0, a tenth of alpha is spent on bounding the free wins.
    """
    if delta > 0:
        from scipy.stats import binom

        free = int(binom.isf(alpha / 10, trials, delta))
        correct, guesses, alpha = max(correct - free, 0), max(guesses - free, 0), 0.9 * alpha
    share = float(lowest_share(correct, guesses, alpha))
    return max(math.log(share) - math.log1p(-share), 0.0) if share > 0 else 0.0


def certify_one_run(correct: int, guesses: int, agents: int, alpha: float, delta: float) -> float:
    """Lower confidence bound on epsilon from one run with `agents` canaries (Steinke, Nasr & Jagielski 2023)."""
    if delta == 0 or correct == 0:
        return certify(correct, guesses, agents, alpha, 0.0)
    from scipy.stats import binom

    fewer = np.arange(correct)[::-1]

    def p_value(epsilon: float) -> float:
        q = 1 / (1 + math.exp(-epsilon))
        slack = (np.cumsum(binom.pmf(fewer, guesses, q)) / np.arange(1, correct + 1)).max()
        return float(binom.sf(correct - 1, guesses, q) + 2 * agents * delta * slack)

    low, high = 0.0, math.log(2 * agents / alpha)
    if p_value(low) > alpha:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) <= alpha else (low, middle)
    return low


def likelihood_scorer(ratio: Ratio, x0: Any, x1: Any) -> Scorer:
    """Log-likelihood of the second world minus log-likelihood of the first, [trials], rounded to give equal transcripts
    equal scores."""

    def score(y: Array) -> Array:
        values = -np.asarray(ratio(y, x0, x1), np.float64).reshape(len(y), -1).sum(1)
        values = np.nan_to_num(values, nan=0.0, posinf=LARGEST_SCORE, neginf=-LARGEST_SCORE)
        return np.round(np.clip(values, -LARGEST_SCORE, LARGEST_SCORE), 10)

    return score
