"""The auditor: two adjacent worlds, a guess which of them made the transcript, and the epsilon that its success certifies.

Under pure epsilon-DP and a fair coin the odds of a right guess are at most `e^eps` given any transcript, so also among the transcripts
one chooses to guess on (the hypothesis test of Kairouz, Oh & Viswanath 2015). A one-sided lower confidence bound p on the share of right
guesses therefore certifies `epsilon >= logit(p)`. What to abstain on, and the classifier of a black-box audit, come from a held-out part
of the trials, and the certificate from the others: no trial serves twice. An audit can refute a claim, never prove it.

Of an environment the claim is what its ledger totals after a run, and the transcript all that an agent was heard to say in it. That agent
is a canary: its own messages are replaced by those of the first world, or of the second, on their way to the mechanism.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from taciturn.envs.core import Array, choice, integer, number
from taciturn.privacy.channels import Unit
from taciturn.wrappers.canary import Runs
from taciturn.wrappers.channels import population_of

__all__ = ["AuditResult", "audit", "audit_table", "plot_audits", "trials_for"]

Method = Literal["white", "black", "one-run"]
Scorer = Callable[[Array], Array]
Ratio = Callable[[Array, Any, Any], Any]
Make = Callable[[Any, np.random.Generator, int, bool], Any]  # (x, rng, count, repeat x or take it as [count, ...])

VERDICTS: dict[str, dict[str, Any]] = {
    "consistent": {"color": "#0072B2", "marker": "o"},
    "violated": {"color": "#D55E00", "marker": "X"},
    "no claim": {"color": "#000000", "marker": "s"},
}
METHODS = ("white", "black", "one-run")
LARGEST_SCORE = 1e6
BATCH = 100_000
RUNS = 10_000
MOST_OUTCOMES = 64
MOST_FOR_PRODUCTS = 8


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes:
        name: what was audited.
        method: `white`, `black` or `one-run`.
        claimed: the epsilon it claims; inf where it claims none.
        certified: lower bound on its epsilon, which holds with probability `confidence`.
        cap: what right guesses on all `certifying` trials would certify, ln(n / ln(1 / (1 - confidence))): ln(n / ln 20) at 95%.
        trials: transcripts made, or agents of the one run.
        certifying: trials that the certificate rests on; the others chose the threshold.
        confidence: of the certificate.
        guesses: certifying trials on which the auditor did not abstain.
        correct: guesses that were right.
        threshold: (low, high): it guesses the first world at scores <= low and the second at scores >= high.
        delta: the certificate is of (certified, delta)-DP.
        seed: what reproduces it.
    """

    name: str
    method: Method
    claimed: float
    certified: float
    cap: float
    trials: int
    certifying: int
    confidence: float
    guesses: int
    correct: int
    threshold: tuple[float, float]
    delta: float
    seed: int

    @property
    def verdict(self) -> str:
        """`violated`: the certificate exceeds the claim; `consistent`: it does not; `no claim`."""
        if math.isinf(self.claimed):
            return "no claim"
        return "violated" if self.certified > self.claimed else "consistent"

    @property
    def share(self) -> float:
        """Certified over claimed epsilon, NaN where there is no claim to compare with."""
        return self.certified / self.claimed if 0 < self.claimed < math.inf else math.nan

    def as_dict(self) -> dict[str, Any]:
        """The fields and the verdict."""
        return asdict(self) | {"verdict": self.verdict}

    def table(self) -> str:
        """The result as text."""
        return audit_table([self])

    def plot(self, target: Any) -> Any:
        """Draw claimed against certified epsilon: see `plot_audits`."""
        return plot_audits([self], target)


def audit(
    mechanism: Any,
    pair: tuple[Any, Any] | Mapping[str, tuple[Any, Any]],
    trials: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    method: Method | None = None,
    *,
    claimed: float | None = None,
    delta: float | None = None,
    sensitivity: float | None = None,
    log_likelihood_ratio: Ratio | None = None,
    held_out: float = 0.5,
    batch: int | None = None,
    name: str | None = None,
    progress: Callable[[int], None] | None = None,
    policy: Any = None,
    steps: int | None = None,
    agent: int = 0,
    unit: Unit = "user",
) -> AuditResult:
    """Certify a lower bound on the epsilon of a mechanism, of runs of an environment, or of anything that makes transcripts.

    Args:
        mechanism: an object with a batch-first `perturb(x, rng)`; or an environment of this suite, in any interface, as `Privatize` and
            `Faulty` leave it; or a function `transcript(x, rng, trials)` that makes independent transcripts [trials, ...] of the world x.
        pair: the two adjacent worlds, (x0, x1): two messages for a mechanism; for an environment `{channel: (x0, x1)}`, two messages of
            an agent on each channel to audit; for a function whatever it takes (numbers, parameters, callables that build a population).
        trials: transcripts to make, each of a world that a fair coin chose; in `one-run`, agents.
        confidence: probability that the certificate holds.
        seed: of the coins, and of the Generator that the mechanism or function is given.
        method: `white` scores a transcript by its log-likelihood ratio; `black` by logistic regression on its features; `one-run` makes a
            single transcript in which every agent is a canary with a coin and an x of its own, so that a function gets x [trials, ...] and
            gives each agent's part of the transcript, [trials, ...]. Default: `white` if there is a log-likelihood ratio, else `black`.
        claimed: epsilon to compare with; default: `mechanism.epsilon`, inf (no claim) if there is none at this delta. Of an environment:
            the ledger's total of all that the observer of the channels (of several: whoever reads all there are) learns of the agent in a
            run, in the run where it is largest.
        delta: certify (epsilon, delta)-DP, pure DP if 0; default: `mechanism.delta`, 0 if there is none.
        sensitivity: what to tell a mechanism that takes it with each message.
        log_likelihood_ratio: of (y [trials, ...], x0, x1), [trials]; default: the mechanism's own, if any. `one-run` uses it too.
        held_out: share of the trials that chooses the threshold.
        batch: transcripts made at once; default: 100,000 of a mechanism, 10,000 of an environment, all of them of a function.
        name: what to call it in tables.
        progress: called with the number of trials scored so far.
        policy: who acts in an environment, a policy or `{role: policy}`.
        steps: turns of a run of an environment; default: until it ends.
        agent: whose messages in an environment differ, by its place among the senders; in `one-run` everybody's do.
        unit: how the worlds of an environment differ. `user`: the agent says x0 in all its messages, or x1 in all, against the claim for
            the whole run. `event`: it says x0 or x1 in its first message and x0 in all later ones, against that for a message a channel.

    Returns:
        An `AuditResult`.

    Raises:
        ValueError: a parameter outside its bounds, no log-likelihood ratio for `white`, transcripts of a wrong shape or not finite.

    Of an environment, what leaves by channels is audited, message by message; what rewards, visible actions or timing give away is for a
    function to show. Whether messages are adjacent is the caller's to know: two further apart than the sensitivity that the world states
    refute nothing. `white` goes by the mechanism's own law, and is blind to noise that serves for two messages; `black` with
    `unit="event"` sees it.

    Trials must be independent, but in `one-run`, whose bound holds however the agents depend on each other. With delta = 0 both bounds are
    that of Clopper & Pearson (1934): Steinke, Nasr & Jagielski (2023) show that one run's right guesses, too, are at most binomial. With
    delta > 0, P(right) <= e^eps P(wrong) + delta: independent trials lose an upper quantile of Binomial(trials, delta) right guesses, one
    run is judged by the p-value of Steinke, Nasr & Jagielski, which wants delta well below (1 - confidence) / trials.
    """
    if population_of(mechanism) is not None:
        runs = Runs.of(mechanism, pair, policy, steps, agent, unit, 0.0 if delta is None else delta)
        if method == "one-run" and trials != runs.senders:
            raise ValueError(f"trials must be the number of senders, {runs.senders}, in one run, not {trials!r}")
        found = audit(
            runs,
            (0, 1),
            trials,
            confidence,
            seed,
            method,
            claimed=claimed,
            delta=delta,
            log_likelihood_ratio=log_likelihood_ratio or (runs.log_likelihood_ratio if runs.memoryless else None),
            held_out=held_out,
            batch=RUNS if batch is None else batch,
            name=name or f"{runs.env.name}: {', '.join(runs.pair)}",
            progress=progress,
        )
        return found if claimed is not None else replace(found, claimed=runs.claimed)
    trials = integer("trials", trials, at_least=4)
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
    make, ratio = _parts(mechanism, sensitivity)
    ratio = log_likelihood_ratio or ratio
    method = choice("method", method or ("black" if ratio is None else "white"), METHODS)
    if method == "white" and ratio is None:
        raise ValueError("method must be 'black' or 'one-run' where there is no log_likelihood_ratio, not 'white'")
    if batch is None:
        batch = BATCH if hasattr(mechanism, "perturb") else trials
    integer("batch", batch, at_least=1)
    held = min(max(round(held_out * trials), 2), trials - 2)
    certifying, alpha = trials - held, 1 - confidence

    coins, noise = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    second = coins.integers(0, 2, trials) == 1
    if method == "one-run":
        run = make(np.stack([np.asarray(x) for x in pair])[second.astype(np.int64)], noise, trials, False)
        order = coins.permutation(trials)
        run, second = _transcripts(run, trials)[order], second[order]

    def batches(start: int, stop: int) -> Iterator[Array]:
        for first in range(start, stop, batch):
            last = min(first + batch, stop)
            yield run[first:last] if method == "one-run" else _mixed(make, pair, noise, second[first:last])
            if progress is not None:
                progress(last)

    if ratio is not None and method != "black":
        scorer = _likelihood_scorer(ratio, *pair)
        scores = np.concatenate([scorer(y) for y in batches(0, held)])
    else:
        known = np.concatenate(list(batches(0, held)))
        scorer = _fitted_scorer(known, second[:held])
        scores = scorer(known)
    ones, zeros = scores[second[:held]], scores[~second[:held]]
    turn = -1.0 if (zeros > 0).sum() * ones.size > (ones > 0).sum() * zeros.size else 1.0
    free = delta * held * (2 / alpha if method == "one-run" else 1)
    low, high = _thresholds(turn * zeros, turn * ones, alpha, free)

    scores = turn * np.concatenate([scorer(y) for y in batches(held, trials)])
    says_second, says_first = scores >= high, scores <= low
    correct = int((says_second & second[held:]).sum() + (says_first & ~second[held:]).sum())
    guesses = int(says_second.sum() + says_first.sum())
    certify = _certify_one_run if method == "one-run" else _certify
    return AuditResult(
        name=name or str(getattr(mechanism, "__name__", type(mechanism).__name__)),
        method=method,
        claimed=float(claimed),
        certified=certify(correct, guesses, certifying, alpha, delta),
        cap=math.log(certifying / -math.log(alpha)),
        trials=trials,
        certifying=certifying,
        confidence=confidence,
        guesses=guesses,
        correct=correct,
        threshold=(low, high),
        delta=delta,
        seed=seed,
    )


def trials_for(
    epsilon: float,
    confidence: float = 0.95,
    *,
    share: float = 0.8,
    guessing: float = 0.5,
    miss: float = 1e-4,
    held_out: float = 0.5,
) -> int:
    """Trials with which an audit certifies `share` of a true `epsilon`, but for a probability `miss`.

    By the normal approximation: among r guesses the logit of the share of right ones has standard deviation 1 / sqrt(r p (1 - p)) at
    p = sigmoid(epsilon); the certificate lies z(confidence) of them lower, bad luck takes z(1 - miss) more, and both must fit into
    (1 - share) epsilon. Small levels need many: as 1 / epsilon^2. An unlucky threshold adds up to 1% to the misses.

    Args:
        epsilon: the level.
        confidence: of the certificate.
        share: of the level that is to be certified.
        guessing: share of the trials whose transcript is worth a guess; 1/2 is about that of randomised response and of Laplace noise.
        miss: probability of certifying less.
        held_out: share of the trials spent on the threshold.
    """
    number("epsilon", epsilon, above=0)
    for key, value in {
        "confidence": confidence,
        "share": share,
        "guessing": guessing,
        "miss": miss,
        "held_out": held_out,
    }.items():
        number(key, value, above=0, below=1)
    p = 1 / (1 + math.exp(-epsilon))
    z = NormalDist().inv_cdf(confidence) + NormalDist().inv_cdf(1 - miss)
    return math.ceil((z / ((1 - share) * epsilon)) ** 2 / (p * (1 - p)) / guessing / (1 - held_out))


def audit_table(results: Sequence[AuditResult]) -> str:
    """Results as text, a line each, the cap beside the certificate."""
    head = ("mechanism", "method", "claimed", "certified", "of claim", "cap", "trials", "n", "guesses", "correct")
    rows = [
        (
            r.name,
            r.method,
            f"{r.claimed:.4g}",
            f"{r.certified:.4g}",
            "-" if math.isnan(r.share) else f"{r.share:.0%}",
            f"{r.cap:.3g}",
            f"{r.trials:,}",
            f"{r.certifying:,}",
            f"{r.guesses:,}",
            f"{r.correct:,}",
        )
        for r in results
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [
        "  ".join(
            [f"{text:<{w}}" if i < 2 else f"{text:>{w}}" for i, (text, w) in enumerate(zip(row, widths, strict=True))]
        )
        for row in (head, *rows)
    ]
    verdicts = ["verdict", *(r.verdict for r in results)]
    notes = dict.fromkeys(
        f"certified: epsilon is at least that{f' at delta = {r.delta:g}' * (r.delta > 0)}, with confidence {r.confidence:g}, by n trials; "
        f"cap: what n right guesses would certify, ln(n / ln {1 / (1 - r.confidence):.6g})"
        for r in results
    )
    return "\n".join([*(f"{line}  {verdict}" for line, verdict in zip(lines, verdicts, strict=True)), *notes])


def plot_audits(results: Sequence[AuditResult], target: Any) -> Any:
    """Draw claimed against certified epsilon; what claims nothing stands at the right edge.

    Args:
        results: what to draw.
        target: matplotlib axes, or a file to write (its suffix picks the format).

    Returns:
        The axes.
    """
    if isinstance(target, str | Path):
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError("figures need matplotlib: run pip install '.[bench]' in a clone of taciturn") from error
        figure = Figure(figsize=(5.0, 4.0), layout="constrained")
        axes = plot_audits(results, figure.add_subplot())
        figure.savefig(target)
        return axes
    finite = [r for r in results if math.isfinite(r.claimed)]
    top = max([1e-3, *(max(r.claimed, r.certified) for r in finite), *(r.certified for r in results)]) * 1.15
    target.plot([0, top], [0, top], color="0.6", linewidth=1, label="certified = claimed")
    for verdict, style in VERDICTS.items():
        some = [r for r in results if r.verdict == verdict]
        if some:
            at, found = [min(r.claimed, top) for r in some], [r.certified for r in some]
            target.plot(at, found, linestyle="none", clip_on=False, label=verdict, **style)
    target.set(xlim=(0, top), ylim=(0, top), xlabel="claimed epsilon", ylabel="certified epsilon")
    target.legend()
    return target


def _parts(mechanism: Any, sensitivity: float | None) -> tuple[Make, Ratio | None]:
    """What makes transcripts, and the log-likelihood ratio, of a mechanism or a function."""
    if not hasattr(mechanism, "perturb"):
        if not callable(mechanism):
            raise ValueError(
                f"mechanism must have perturb(x, rng) or be a function of (x, rng, trials), not {mechanism!r}"
            )
        return lambda x, rng, count, _: mechanism(x, rng, count), None
    known = {} if sensitivity is None else {"sensitivity": number("sensitivity", sensitivity, above=0)}
    own: Any = getattr(mechanism, "log_likelihood_ratio", None)

    def copies(x: Any, count: int) -> Array:
        return np.repeat(np.asarray(x)[None], count, axis=0)

    def perturb(x: Any, rng: np.random.Generator, count: int, repeat: bool) -> Any:
        return mechanism.perturb(copies(x, count) if repeat else x, rng, **known)

    def ratio(y: Array, x0: Any, x1: Any) -> Any:
        return own(y, copies(x0, len(y)), copies(x1, len(y)), **known)

    return perturb, ratio if own is not None else None


def _transcripts(y: Any, count: int) -> Array:
    y = np.asarray(y)
    if y.shape[:1] != (count,):
        raise ValueError(f"a transcript must be an array [trials, ...] with {count} trials, not of shape {y.shape}")
    return y


def _mixed(make: Make, pair: tuple[Any, Any], rng: np.random.Generator, second: Array) -> Array:
    """Transcripts [trials, ...], of the second world where `second` bool[trials], else of the first."""
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


def _likelihood_scorer(ratio: Ratio, x0: Any, x1: Any) -> Scorer:
    """Log-likelihood of the second world over the first's: [trials], rounded so that equal transcripts score the same."""

    def score(y: Array) -> Array:
        values = -np.asarray(ratio(y, x0, x1), np.float64).reshape(len(y), -1).sum(1)
        values = np.nan_to_num(values, nan=0.0, posinf=LARGEST_SCORE, neginf=-LARGEST_SCORE)
        return np.round(np.clip(values, -LARGEST_SCORE, LARGEST_SCORE), 10)

    return score


def _fitted_scorer(transcripts: Array, second: Array) -> Scorer:
    """Logit of a logistic regression on features of the transcripts.

    Features: an indicator of each transcript, where there are at most 64 different ones; else the entries and their squares, and the
    products of at most 8 entries (two messages that share their noise show there).
    """
    flat = _flat(transcripts)
    shift, scale = flat.mean(0), flat.std(0)
    scale[scale == 0] = 1
    signature = np.random.default_rng(0).standard_normal(flat.shape[1])
    known = np.unique(_codes(flat[:BATCH], signature))
    upper = np.triu_indices(flat.shape[1])

    def features(y: Array) -> Array:
        flat = _flat(y)
        if known.size <= MOST_OUTCOMES:
            return (_codes(flat, signature)[:, None] == known).astype(np.float64)
        z = (flat - shift) / scale
        more = z[:, upper[0]] * z[:, upper[1]] if z.shape[1] <= MOST_FOR_PRODUCTS else z**2
        return np.hstack([z, more, np.ones((len(z), 1))])

    weights = _logistic(features(transcripts[:BATCH]), second[:BATCH])

    def score(y: Array) -> Array:
        return np.round(np.clip(features(y) @ weights, -LARGEST_SCORE, LARGEST_SCORE), 10)

    return score


def _flat(transcripts: Array) -> Array:
    flat = np.asarray(transcripts, np.float64).reshape(len(transcripts), -1)
    if not np.isfinite(flat).all():
        raise ValueError("a transcript must hold finite numbers only")
    return flat


def _codes(flat: Array, signature: Any) -> Array:
    """A number for each row, the same for equal rows."""
    return np.round((flat * signature).sum(1), 9)


def _logistic(X: Array, second: Array, ridge: float = 1e-2) -> Array:
    """Weights [D] of a logistic regression with a ridge, by Newton's method with halved steps."""

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


def _thresholds(zeros: Array, ones: Array, alpha: float, free: float) -> tuple[float, float]:
    """(low, high): the abstention from which the largest certificate is to be expected, given scores of the two worlds.

    That is the certificate at the share of right guesses which a bound with error 1e-3 leaves: luck in a few scores counts little. With
    delta > 0, `free` right guesses come off first.
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
    expected = _lowest_share(_lowest_share(paid, guesses, 1e-3) * guesses, guesses, alpha)
    value = np.where(highs[:, None] > lows, expected, -1.0)
    high, low = np.unravel_index(np.argmax(value), value.shape)
    return float(lows[low]), float(highs[high])


def _lowest_share(correct: Any, guesses: Any, alpha: float) -> Any:
    """Lower bound on the probability of a right guess, wrong with probability `alpha` (Clopper & Pearson 1934)."""
    from scipy.special import betaincinv

    return np.where(correct > 0, betaincinv(np.maximum(correct, 1e-9), guesses - correct + 1, alpha), 0.0)


def _certify(correct: int, guesses: int, trials: int, alpha: float, delta: float) -> float:
    """Lower bound on epsilon from independent trials.

    P(right) <= e^eps P(wrong) + delta says that, but for Binomial(trials, delta) free wins at most, the odds of a right guess are at most
    e^eps. With delta > 0 a tenth of `alpha` bounds the free wins.
    """
    if delta > 0:
        from scipy.stats import binom

        free = int(binom.isf(alpha / 10, trials, delta))
        correct, guesses, alpha = max(correct - free, 0), max(guesses - free, 0), 0.9 * alpha
    share = float(_lowest_share(correct, guesses, alpha))
    return max(math.log(share) - math.log1p(-share), 0.0) if share > 0 else 0.0


def _certify_one_run(correct: int, guesses: int, agents: int, alpha: float, delta: float) -> float:
    """Lower bound on epsilon from one run with `agents` canaries (Steinke, Nasr & Jagielski 2023)."""
    if delta == 0 or correct == 0:
        return _certify(correct, guesses, agents, alpha, 0.0)
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
