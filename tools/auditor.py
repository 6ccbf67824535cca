"""How many of 200 broken mechanisms the auditor finds, and how many of 200 right ones it accuses.

`python tools auditor [--seed 0] [--keep]`

It has its default trials, at a confidence of 95%, and mechanisms are drawn at random.

A mechanism is one of `KINDS` with random parameters, of which `wrong`, from 0 to 1, says how wrong it is: at 0 it is
right. The same kinds are drawn as broken and as right ones. For each broken one the true epsilon is known, and so is
how many trials an attacker needs who knows its law (`Drawn.needs`): the scale of the curve of power. The auditor knows
no law; of its trials a quarter teaches it, a quarter selects what to guess by, and a half certifies.

Noise is rounded to a grid after it is added, in exact arithmetic, so that each mistake must be found for what it is.

It takes about eight CPU minutes. `--seed` draws other mechanisms, and `--keep` writes `results/auditor.json`.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import record
from scipy.optimize import brentq
from scipy.stats import beta, laplace, norm

from taciturn.privacy.composition import gaussian_delta
from taciturn.validation import Array
from taciturn.wrappers.audit import MESSAGES, audit

RESULTS = Path(__file__).parent / "results"
Rng = np.random.Generator
Distribution = tuple[Array, Array]  # probabilities of the same outcomes in the two worlds
GRID = 64
REACH = 30 * GRID  # outcomes on the grid, in either direction
Z = 1.645 + 1.645  # 95% confidence, reached with 95% probability
STEPS = (1e2, 1e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 2e6)  # of the curve, in trials
SURE = 5_000  # trials: an effect that is always found
LEAST, MOST = 0.003, 1.0  # of `wrong`
RARE = 1e-9  # probabilities below this are rounding


@dataclass(frozen=True)
class Drawn:
    """A mechanism that claims (epsilon, delta).

    Attributes:
        kind, wrong: which mistake, and how large.
        perturb: the mechanism.
        pair: two adjacent messages.
        law: what an attacker may look at.
        hidden: whether the true epsilon is infinite although that of `distribution` is not.
        learned: trials that teach what is at random in the law, as the values of a table.
    """

    kind: str
    wrong: float
    perturb: Callable[[Array, Rng], Array]
    pair: tuple[Any, Any]
    distribution: Distribution
    epsilon: float
    delta: float = 0.0
    hidden: bool = False
    learned: float = 0.0

    @property
    def truth(self) -> float:
        """The true epsilon, at delta: the least for which no event in either world is too likely."""
        one, two = np.stack(self.distribution), np.stack(self.distribution[::-1])
        if self.hidden:
            return math.inf
        if self.delta == 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios = np.log(np.maximum(one, 0)) - np.log(np.maximum(two, 0))
            return float(np.nanmax(np.where(one > RARE, ratios, -np.inf)))

        def excess(epsilon: float) -> float:
            return float(np.maximum(one - math.exp(epsilon) * two, 0).sum(1).max()) - self.delta * (1 + 1e-9)

        return 0.0 if excess(0) <= 0 else math.inf if excess(50) > 0 else float(brentq(excess, 0, 50))

    @property
    def needs(self) -> float:
        """The trials, a half of which certifies, with which an attacker who knows the law refutes the claim in about
        95% of audits: those of the best event in either world, or of both, by normal approximation of the counts, but
        so many that these events occur log(20) times (1 + e^epsilon)."""
        odds, best = math.exp(self.epsilon), []
        for first, second in (self.distribution, self.distribution[::-1]):
            order = np.argsort(first / np.maximum(second, 1e-300), kind="stable")
            wrong, right = np.cumsum(first[order]), np.cumsum(second[order])
            excess = right - odds * wrong - 2 * self.delta
            good = (excess > RARE) & (right > RARE)
            if good.any():
                each = np.stack([excess, right + odds**2 * wrong, right])[:, good]
                best.append(each[:, self._trials(each).argmin()])
        if len(best) == 2:
            best.append(best[0] + best[1])
        return max(min((float(self._trials(each)) for each in best), default=math.inf), self.learned)

    def _trials(self, event: Array) -> Array:
        """Of events (excess, variance, probability), [3, ...]."""
        excess, variance, right = event
        return np.asarray(
            4 * np.maximum(Z**2 * variance / excess**2, math.log(20) * (1 + math.exp(self.epsilon)) / right)
        )


def noise(shape: Any, rng: Rng, scale: Any) -> Array:
    return np.asarray(rng.laplace(0.0, 1.0, shape) * scale)


def rounded(x: Array, step: int = GRID) -> Array:
    return np.rint(x * step) / step + 0.0


def on_grid(cdf: Callable[[Array], Array], step: int = GRID) -> Array:
    """The probabilities of the multiples of 1 / step, after rounding."""
    edges = (np.arange(-REACH, REACH) + 0.5) / step
    below = cdf(edges)
    return np.maximum(np.diff(below, prepend=0.0, append=1.0), 0.0)


def shifted(scale: float, shift: float = 1.0, second: float | None = None, step: int = GRID) -> Distribution:
    """Laplace noise of this scale, on 0 and on `shift`, there with scale `second`."""
    return on_grid(laplace(0, scale).cdf, step), on_grid(laplace(shift, second or scale).cdf, step)


def both(one: Distribution, two: Distribution) -> Distribution:
    """Two independent outcomes."""
    first, second = (np.outer(a, b).ravel() for a, b in zip(merged(one), merged(two), strict=True))
    return merged((first, second))


def merged(distribution: Distribution) -> Distribution:
    """Outcomes with the same log-ratio, to three decimals, are one."""
    first, second = distribution
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.round(np.clip(np.log(first) - np.log(second), -700, 700), 3)
    _, code = np.unique(np.nan_to_num(ratio), return_inverse=True)
    return np.bincount(code, first), np.bincount(code, second)


def mixed(share: float, one: Distribution, two: Distribution) -> Distribution:
    """`one` with this probability, else `two`."""
    first, second = (share * a + (1 - share) * b for a, b in zip(one, two, strict=True))
    return first, second


def answers(epsilon: float, options: int = 2) -> Distribution:
    """Randomised response to the first and the second option: those two, and any other."""
    same = math.exp(epsilon) / (math.exp(epsilon) + options - 1)
    other = (1 - same) / (options - 1)
    return np.array([same, other, 1 - same - other]), np.array([other, same, 1 - same - other])


def respond(x: Array, rng: Rng, epsilon: float, options: int = 2) -> Array:
    """Randomised response to values from 0 to options - 1."""
    keeps = rng.random(x.shape) < math.exp(epsilon) / (math.exp(epsilon) + options - 1)
    return np.where(keeps, x, (x + rng.integers(1, options, x.shape)) % options)


def point(place: float, step: int = GRID) -> Array:
    """Certainty, on the grid."""
    result = np.zeros(2 * REACH + 1)
    result[REACH + round(place * step)] = 1.0
    return result


def bit(share: float) -> Distribution:
    """A bit that tells the world with this probability, else is at random."""
    return np.array([0.5 + share / 2, 0.5 - share / 2]), np.array([0.5 - share / 2, 0.5 + share / 2])


def told(x: Array, rng: Rng, share: float) -> Array:
    """Such a bit."""
    return np.where(rng.random(x.shape) < share, x, rng.integers(0, 2, x.shape))


Kind = Callable[[Rng, float, float], Drawn]  # (rng of the parameters, wrong, claimed epsilon)


def scale_too_small(p: Rng, w: float, e: float) -> Drawn:
    scale = 1 / (e * (1 + 2 * w))
    return Drawn("scale", w, lambda x, rng: rounded(x + noise(x.shape, rng, scale)), (0.0, 1.0), shifted(scale), e)


def count_scale(p: Rng, w: float, e: float) -> Drawn:
    """As `scale_too_small`, of whole numbers, of which few occur."""
    scale = 1 / (e * (1 + 2 * w))

    def perturb(x: Array, rng: Rng) -> Array:
        return rounded(x + noise(x.shape, rng, scale), 1)

    return Drawn("scale of counts", w, perturb, (0.0, 1.0), shifted(scale, step=1), e)


def gaussian_scale(p: Rng, w: float, e: float) -> Drawn:
    delta = 10 ** p.uniform(-4, -2)
    mu = brentq(lambda mu: float(gaussian_delta(np.array(mu), np.array(e))) - delta, 1e-3, 20) * (1 + 4 * w)
    distribution = on_grid(norm(0, 1 / mu).cdf), on_grid(norm(1, 1 / mu).cdf)
    return Drawn(
        "Gaussian scale",
        w,
        lambda x, rng: rounded(x + rng.normal(0, 1 / mu, x.shape)),
        (0.0, 1.0),
        distribution,
        e,
        delta,
    )


def direction(p: Rng, w: float, e: float) -> Drawn:
    """Gaussian noise on 12 numbers, which differ in a direction."""
    delta = 1e-3
    mu = brentq(lambda mu: float(gaussian_delta(np.array(mu), np.array(e))) - delta, 1e-3, 20) * (1 + 4 * w)
    configuration = p.standard_normal(12)
    configuration /= np.linalg.norm(configuration)
    distribution = on_grid(norm(0, 1 / mu).cdf), on_grid(norm(1, 1 / mu).cdf)

    def perturb(x: Array, rng: Rng) -> Array:
        return rounded(x + rng.normal(0, 1 / mu, x.shape))

    return Drawn("12 Gaussian numbers", w, perturb, (0 * configuration, configuration), distribution, e, delta)


def flips(p: Rng, w: float, e: float) -> Drawn:
    options, level = int(p.integers(2, 7)), e / 2 * (1 + w)

    def perturb(x: Array, rng: Rng) -> Array:
        return respond(x, rng, level)

    one, two = np.eye(options, dtype=np.int64)[[0, options - 1]]
    return Drawn("flips", w, perturb, (one, two), both(answers(level), answers(level)), e)


def k_ary(p: Rng, w: float, e: float) -> Drawn:
    options, level = int(p.integers(2, 9)), e * (1 + w)
    return Drawn("k-ary", w, lambda x, rng: respond(x, rng, level, options), (0, 1), answers(level, options), e)


def skips(p: Rng, w: float, e: float) -> Drawn:
    """Sometimes the value itself."""
    distribution = mixed(w / 2, answers(700.0), answers(e))

    def perturb(x: Array, rng: Rng) -> Array:
        return np.where(rng.random(x.shape) < w / 2, x, respond(x, rng, e))

    return Drawn("no noise at times", w, perturb, (0, 1), distribution, e)


def slips(p: Rng, w: float, e: float) -> Drawn:
    """The value, marked, more often than delta."""
    delta = 10 ** p.uniform(-4, -2)
    share = delta + w * 0.2

    def perturb(x: Array, rng: Rng) -> Array:
        return np.where(rng.random(x.shape) < share, x + 2, respond(x, rng, e))

    distribution = tuple(
        np.concatenate([share * np.eye(2)[k], (1 - share) * each]) for k, each in enumerate(answers(e))
    )
    return Drawn("delta", w, perturb, (0, 1), (distribution[0], distribution[1]), e, delta)


def composition(p: Rng, w: float, e: float) -> Drawn:
    """So many answers whose levels add up to more."""
    many = int(p.integers(2, 6))
    level = e / many * (1 + 2 * w)
    distribution = answers(level)
    for _ in range(many - 1):
        distribution = both(distribution, answers(level))
    pair = np.zeros(many, np.int64), np.ones(many, np.int64)
    return Drawn("composition", w, lambda x, rng: respond(x, rng, level), pair, distribution, e)


def sampling(p: Rng, w: float, e: float) -> Drawn:
    """A claim for a sample, of more than the sample."""
    rate = p.uniform(0.1, 0.7)

    def distribution(rate: float) -> Distribution:
        return mixed(rate, answers(2 * e), (np.array([0.5, 0.5, 0.0]), np.array([0.5, 0.5, 0.0])))

    drawn, claim = rate + w * (1 - rate), distribution(rate)

    def perturb(x: Array, rng: Rng) -> Array:
        return np.where(rng.random(x.shape) < drawn, respond(x, rng, 2 * e), rng.integers(0, 2, x.shape))

    return Drawn("sampling", w, perturb, (0, 1), distribution(drawn), math.log(claim[0][0] / claim[0][1]))


def norms(p: Rng, w: float, e: float) -> Drawn:
    """Numbers that together move too far."""
    many = int(p.integers(2, 5))
    each = (1 + 2 * w) / many
    distribution = shifted(1 / e, each)
    for _ in range(many - 1):
        distribution = both(distribution, shifted(1 / e, each))
    pair = np.zeros(many), np.full(many, each)
    return Drawn("norm", w, lambda x, rng: rounded(x + noise(x.shape, rng, 1 / e)), pair, distribution, e)


def one_of_many(p: Rng, w: float, e: float) -> Drawn:
    """Twenty numbers, one with too little noise."""
    place = int(p.integers(20))
    scale = np.full(20, 1 / e)
    scale[place] /= 1 + 2 * w
    pair = np.zeros(20), np.eye(20)[place]
    distribution = shifted(float(scale[place]))
    return Drawn("one of 20", w, lambda x, rng: rounded(x + noise(x.shape, rng, scale)), pair, distribution, e)


def scale_of_value(p: Rng, w: float, e: float) -> Drawn:
    """The noise of one value is larger: far out, that value is likelier without a bound."""

    def perturb(x: Array, rng: Rng) -> Array:
        return rounded(x + noise(x.shape, rng, (1 + 3 * w * x) / e))

    return Drawn("scale by value", w, perturb, (0.0, 1.0), shifted(1 / e, 1.0, (1 + 3 * w) / e), e, hidden=w > 0)


def asymmetric(p: Rng, w: float, e: float) -> Drawn:
    """A sign that is not fair."""
    up = 0.5 + 0.4 * w

    def perturb(x: Array, rng: Rng) -> Array:
        return rounded(x + np.where(rng.random(x.shape) < up, 1, -1) * rng.exponential(1 / e, x.shape))

    def cdf(place: float) -> Callable[[Array], Array]:
        def below(t: Array) -> Array:
            far = np.exp(-np.abs(t - place) * e)
            return np.where(t < place, (1 - up) * far, 1 - up * far)

        return below

    return Drawn("sign of noise", w, perturb, (0.0, 1.0), (on_grid(cdf(0)), on_grid(cdf(1))), e)


def redrawn_tails(p: Rng, w: float, e: float) -> Drawn:
    """Noise beyond some scales is drawn again; wrong is the probability of that."""
    far = math.log(1 / min(w, 0.9)) if w else math.inf

    def perturb(x: Array, rng: Rng) -> Array:
        size = rng.random(x.shape) * -math.expm1(-far)
        return rounded(x - np.sign(rng.random(x.shape) - 0.5) * np.log1p(-size) / e)

    def cdf(place: float) -> Callable[[Array], Array]:
        return lambda t: np.clip((laplace.cdf((t - place) * e) - 0.5) / -math.expm1(-far) + 0.5, 0, 1)

    distribution = on_grid(cdf(0)), on_grid(cdf(1))
    return Drawn("tails redrawn", w, perturb, (0.0, 1.0), distribution, e, hidden=w > 0)


def clipped_tails(p: Rng, w: float, e: float) -> Drawn:
    """Noise beyond some scales is cut to these."""
    far = math.log(1 / w) if w else math.inf

    def perturb(x: Array, rng: Rng) -> Array:
        return rounded(x + np.clip(noise(x.shape, rng, 1 / e), -far / e, far / e))

    def cdf(place: float) -> Callable[[Array], Array]:
        return lambda t: np.where(np.abs((t - place) * e) < far, laplace.cdf((t - place) * e), t > place)

    distribution = on_grid(cdf(0)), on_grid(cdf(1))
    return Drawn("tails cut", w, perturb, (0.0, 1.0), distribution, e, hidden=w > 0)


def rounded_noise(p: Rng, w: float, e: float) -> Drawn:
    """Sometimes the noise is rounded to whole numbers, and not the sum."""

    def perturb(x: Array, rng: Rng) -> Array:
        drawn = noise(x.shape, rng, 0.5 / e)
        return rounded(x + np.where(rng.random(x.shape) < w, np.rint(drawn), drawn))

    whole = shifted(0.5 / e, 0.0, step=1)[0]
    spread = np.zeros(2 * REACH + 1)
    spread[REACH % GRID :: GRID] = whole[REACH - REACH // GRID : REACH + REACH // GRID + 1]
    distribution = mixed(w, (spread, np.roll(spread, GRID // 2)), shifted(0.5 / e, 0.5))
    return Drawn("rounded noise", w, perturb, (0.0, 0.5), distribution, e)


def truth_at_times(p: Rng, w: float, e: float) -> Drawn:
    def perturb(x: Array, rng: Rng) -> Array:
        return np.where(rng.random(x.shape) < w / 4, x, rounded(x + noise(x.shape, rng, 1 / e)))

    distribution = mixed(w / 4, (point(0), point(1)), shifted(1 / e))
    return Drawn("the truth at times", w, perturb, (0.0, 1.0), distribution, e)


def truth_far_off(p: Rng, w: float, e: float) -> Drawn:
    """Sometimes the value, plus 1,000."""

    def perturb(x: Array, rng: Rng) -> Array:
        return np.where(rng.random(x.shape) < w / 4, x + 1000, rounded(x + noise(x.shape, rng, 1 / e)))

    first, second = (
        np.concatenate([w / 4 * np.eye(2)[k], (1 - w / 4) * each]) for k, each in enumerate(shifted(1 / e))
    )
    return Drawn("the truth plus 1,000", w, perturb, (0.0, 1.0), (first, second), e, hidden=w > 0)


def combined(name: str, w: float, e: float, gain: float, moved: bool) -> Drawn:
    """Two numbers; at times the noise of the second is `gain` times that of the first. Both are secret if `moved`."""
    reach = 0.5 if moved else 1.0

    def perturb(x: Array, rng: Rng) -> Array:
        first, second = noise(x.shape[:-1], rng, 1 / e), noise(x.shape[:-1], rng, abs(gain) / e)
        again = rng.random(x.shape[:-1]) < w
        first = rounded(first)
        return x + np.stack([first, np.where(again, gain * first, rounded(second))], -1)

    pair = np.zeros(2), np.array([reach, reach * moved])
    # The noise of second - gain first, if independent: a sum of two Laplace numbers of the same scale.
    scale = abs(gain) / e

    def cdf(place: float) -> Callable[[Array], Array]:
        def below(t: Array) -> Array:
            size = np.abs(t - place) / scale
            tail = (2 + size) * np.exp(-size) / 4
            return np.where(t < place, tail, 1 - tail)

        return below

    shift = pair[1][1] - gain * pair[1][0]
    distribution = mixed(w, (point(0), point(shift)), (on_grid(cdf(0)), on_grid(cdf(shift))))
    # Right, it costs what both numbers cost.
    return Drawn(name, w, perturb, pair, distribution, e, hidden=w > 0)


def noise_reused(p: Rng, w: float, e: float) -> Drawn:
    return combined("noise reused", w, e, 1.0, moved=False)


def noise_opposite(p: Rng, w: float, e: float) -> Drawn:
    return combined("opposite noise", w, e, -1.0, moved=True)


def noise_scaled(p: Rng, w: float, e: float) -> Drawn:
    """Two levels from one seed."""
    return combined("noise of two levels", w, e, float(p.integers(2, 5)), moved=False)


def a_table(p: Rng, w: float, e: float) -> Drawn:
    """Noise from a seed that the data decide, with a counter that begins again."""
    many = round(10 / w**1.5) if w else 0
    tables = p.laplace(0.0, 1 / e, (2, max(many, 1)))

    def perturb(x: Array, rng: Rng) -> Array:
        if not many:
            return np.rint((x + noise(x.shape, rng, 1 / e)) * 2**30) / 2**30
        return x + tables[np.asarray(x, np.int64), rng.integers(0, many, x.shape)]

    told = (np.array([1.0, 0.0]), np.array([0.0, 1.0])) if many else shifted(1 / e)
    return Drawn("noise from a table", w, perturb, (0.0, 1.0), told, e, learned=16.0 * many)


def memo_forgets(p: Rng, w: float, e: float) -> Drawn:
    """A repeated answer, claimed once, that is at times drawn anew."""
    options = int(p.integers(2, 5))

    def perturb(x: Array, rng: Rng) -> Array:
        first, second = respond(x, rng, e, options), respond(x, rng, e, options)
        return np.stack([first, np.where(rng.random(x.shape) < w, second, first)], -1)

    one = answers(e, options)
    pairs = tuple(w * np.outer(each, each).ravel() + (1 - w) * np.diag(each).ravel() for each in one)
    if options > 2:  # two other options that differ are no repeat
        others = options - 2
        for each, distribution in zip(one, pairs, strict=True):
            distribution[8] = w * each[2] ** 2 / others + (1 - w) * each[2]
        pairs = tuple(
            np.append(distribution, w * each[2] ** 2 * (1 - 1 / others))
            for each, distribution in zip(one, pairs, strict=True)
        )
    return Drawn("memory forgets", w, perturb, (0, 1), (pairs[0], pairs[1]), e)


def memo_leaks(p: Rng, w: float, e: float) -> Drawn:
    """Two answers, claimed twice, of which the second at times repeats the first if the value is the same."""

    def perturb(x: Array, rng: Rng) -> Array:
        first, second = (respond(x[..., k], rng, e, 4) for k in (0, 1))
        again = (x[..., 0] == x[..., 1]) & (rng.random(first.shape) < w)
        return np.stack([first, np.where(again, first, second)], -1)

    share = np.array([respond_share(e, 4, k == 0) for k in range(4)])
    other = np.array([respond_share(e, 4, k == 1) for k in range(4)])
    distribution = (w * np.diag(share) + (1 - w) * np.outer(share, share)).ravel(), np.outer(share, other).ravel()
    return Drawn("memory tells", w, perturb, (np.array([0, 0]), np.array([0, 1])), distribution, e)


def respond_share(epsilon: float, options: int, same: bool) -> float:
    return (math.exp(epsilon) if same else 1.0) / (math.exp(epsilon) + options - 1)


def tree_level(p: Rng, w: float, e: float) -> Drawn:
    """Three nodes that hold an event, shown as sums so far; one has less noise, at worst none."""
    scale = np.full(3, 3 / e)
    scale[int(p.integers(3))] *= max(1 - w, 1e-6)

    def perturb(x: Array, rng: Rng) -> Array:
        return np.cumsum(rounded(x + noise(x.shape, rng, scale)), -1)

    distributions = [shifted(float(each)) for each in np.sort(scale)]
    distribution = both(distributions[0], both(distributions[1], distributions[2]))
    return Drawn("tree level", w, perturb, (np.zeros(3), np.ones(3)), distribution, e)


def selection(p: Rng, w: float, e: float) -> Drawn:
    """The exponential mechanism, and at times which score is the highest."""
    scores = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    shares = np.exp(e * scores)
    shares /= shares.sum(1, keepdims=True)

    def perturb(x: Array, rng: Rng) -> Array:
        chosen = (e * x + rng.gumbel(size=x.shape)).argmax(-1)
        best = np.where(rng.random(chosen.shape) < w, x.argmax(-1), rng.integers(0, 3, chosen.shape))
        return np.stack([chosen, best], -1)

    gap = w * np.eye(3)[:2] + (1 - w) / 3
    distribution = tuple(np.outer(a, b).ravel() for a, b in zip(shares, gap, strict=True))
    return Drawn("selection and gap", w, perturb, (scores[0], scores[1]), (distribution[0], distribution[1]), e)


def pad_used_twice(p: Rng, w: float, e: float) -> Drawn:
    """Three random bits whose sum is a noised one: each two of them tell nothing."""
    level = e * (1 + w)

    def perturb(x: Array, rng: Rng) -> Array:
        pads = rng.integers(0, 2, (2, *x.shape))
        return np.stack([*pads, pads[0] ^ pads[1] ^ respond(x, rng, level)], -1)

    return Drawn("pads", w, perturb, (0, 1), answers(level), e)


def zero_sign(p: Rng, w: float, e: float) -> Drawn:
    """Numbers below 0 become 0, whose sign tells at times."""

    def perturb(x: Array, rng: Rng) -> Array:
        y = np.maximum(rounded(x + noise(x.shape, rng, 1 / e)), 0.0)
        return np.where(y == 0, np.copysign(0.0, 0.5 - told(x.astype(np.int64), rng, w)), y)

    distributions = []
    for one, sign in zip(shifted(1 / e), bit(w), strict=True):
        distributions.append(np.concatenate([one[: REACH + 1].sum() * sign, one[REACH + 1 :]]))
    return Drawn("sign of zero", w, perturb, (0.0, 1.0), (distributions[0], distributions[1]), e)


def no_number(p: Rng, w: float, e: float) -> Drawn:
    """Now and then NaN, more often for one value."""
    usual = float(p.choice([0.0, 0.02]))
    shares = usual, usual + w / 4

    def perturb(x: Array, rng: Rng) -> Array:
        lost = rng.random(x.shape) < np.where(x > 0, shares[1], shares[0])
        return np.where(lost, np.nan, rounded(x + noise(x.shape, rng, 1 / e)))

    distributions = [np.append((1 - s) * one, s) for s, one in zip(shares, shifted(1 / e), strict=True)]
    return Drawn("NaN", w, perturb, (0.0, 1.0), (distributions[0], distributions[1]), e)


def payload(p: Rng, w: float, e: float) -> Drawn:
    """NaN, half of the time, with a bit that tells at times."""

    def perturb(x: Array, rng: Rng) -> Array:
        marked = (0x7FF8000000000000 + told(x.astype(np.int64), rng, w)).view(np.float64)
        return np.where(rng.random(x.shape) < 0.5, marked, rounded(x + noise(x.shape, rng, 1 / e)))

    distributions = [np.concatenate([b / 2, one / 2]) for b, one in zip(bit(w), shifted(1 / e), strict=True)]
    return Drawn("bits of NaN", w, perturb, (0.0, 1.0), (distributions[0], distributions[1]), e)


def overflow(p: Rng, w: float, e: float) -> Drawn:
    """Now and then an infinity, whose sign tells at times."""

    def perturb(x: Array, rng: Rng) -> Array:
        sign = 2.0 * told(x.astype(np.int64), rng, w) - 1
        return np.where(rng.random(x.shape) < 0.1, sign * np.inf, rounded(x + noise(x.shape, rng, 1 / e)))

    distributions = [np.concatenate([0.1 * b, 0.9 * one]) for b, one in zip(bit(w), shifted(1 / e), strict=True)]
    return Drawn("infinities", w, perturb, (0.0, 1.0), (distributions[0], distributions[1]), e)


def lowest_bit(p: Rng, w: float, e: float) -> Drawn:
    """A low bit of the mantissa that tells at times."""
    place = int(p.integers(0, 20))

    def perturb(x: Array, rng: Rng) -> Array:
        bits = (rng.uniform(1, 2, x.shape) * (1 + rounded(x + noise(x.shape, rng, 1 / e)))).view(np.int64)
        return ((bits & ~(1 << place)) | told(x.astype(np.int64), rng, w) << place).view(np.float64)

    return Drawn("low bits", w, perturb, (0.0, 1.0), both(bit(w), shifted(1 / e)), e)


def parity(p: Rng, w: float, e: float) -> Drawn:
    """A count whose last bit tells at times."""

    def perturb(x: Array, rng: Rng) -> Array:
        return 2 * np.rint(10 * (x + noise(x.shape, rng, 1 / e))) + told(x.astype(np.int64), rng, w)

    return Drawn("parity", w, perturb, (0.0, 1.0), both(bit(w), shifted(1 / e)), e)


KINDS: tuple[Kind, ...] = (
    scale_too_small, count_scale, gaussian_scale, direction, flips, k_ary, skips, slips, composition, sampling, norms,
    one_of_many, scale_of_value, asymmetric, redrawn_tails, clipped_tails, rounded_noise, truth_at_times, truth_far_off,
    noise_reused, noise_opposite, noise_scaled, a_table, memo_forgets, memo_leaks, tree_level, selection,
    pad_used_twice, zero_sign, no_number, payload, overflow, lowest_bit, parity,
)  # fmt: skip


def drawn(seed: int, many: int, broken: bool, most: float = STEPS[-1]) -> Iterator[Drawn]:
    """So many mechanisms, of every kind in turn; broken ones whose effect an attacker who knows the law finds with at
    most so many trials."""
    rng = np.random.default_rng([seed, broken])
    for place in range(many):
        kind = KINDS[place % len(KINDS)]
        while True:
            epsilon = 0.2 * 10 ** rng.uniform(0, 1)
            wrong = LEAST * (MOST / LEAST) ** rng.uniform() if broken else 0.0
            result = kind(rng, wrong, epsilon)
            if not broken or (result.needs <= most and result.truth > result.epsilon):
                yield result
                break


def audited(mechanism: Drawn, seed: int, **more: Any) -> Any:
    return audit(mechanism, mechanism.pair, seed=seed, **more)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--mechanisms", type=int, default=200, help="broken ones, and right ones")
    parser.add_argument("--keep", action="store_true", help="write results/auditor.json")
    given = parser.parse_args(arguments)
    start = time.process_time()
    entries: dict[str, Any] = {}
    needs, caught = [], []
    for place, one in enumerate(drawn(given.seed, given.mechanisms, broken=True)):
        result = audited(one, place)
        needs.append(one.needs)
        caught.append(result.verdict == "violated")
        entries[f"{place}: {one.kind}"] = {
            "wrong": round(one.wrong, 4),
            "claimed": round(one.epsilon, 3),
            "delta": round(one.delta, 6),
            "true": round(min(one.truth, 1e9), 3),
            "needs": round(one.needs),
            "certified": round(result.certified, 3),
            "attack": result.attack,
            "found": bool(caught[-1]),
        }
        print(f"{place:4} {one.kind:20} {one.needs:12.0f} {caught[-1]} {result.attack}", flush=True)
    curve = []
    for low, high in zip((0.0, *STEPS), STEPS, strict=False):
        inside = [found for n, found in zip(needs, caught, strict=True) if low < n <= high]
        curve.append({"needs": [low, high], "mechanisms": len(inside), "found": sum(inside)})
        print(f"needs {low:9.0f} to {high:9.0f} trials: found {sum(inside):3} of {len(inside):3}")
    fresh = [(one, audited(one, place)) for place, one in enumerate(drawn(given.seed + 1, 40, True, SURE))]
    sure = sum(result.verdict == "violated" for _, result in fresh)
    print(f"of 40 others that need {SURE} trials at most: {sure} found")
    missed = [one.kind for one, result in fresh if result.verdict != "violated"]
    accused = []
    for place, one in enumerate(drawn(given.seed, given.mechanisms, broken=False)):
        if audited(one, place).verdict == "violated":
            accused.append(one.kind)
    false, total = len(accused), given.mechanisms
    low, high = beta.ppf(0.025, false, total - false + 1) if false else 0.0, beta.ppf(0.975, false + 1, total - false)
    print(f"right ones accused: {false} of {total} (95% interval {low:.1%} to {high:.1%}; 5% is stated): {accused}")
    print(f"{sum(caught)} of {total} found, {time.process_time() - start:.0f} CPU seconds")
    if given.keep:
        result = {
            "command": f"python tools auditor --seed {given.seed} --keep",
            "trials": MESSAGES,
            "confidence": 0.95,
            "found": sum(caught),
            "mechanisms": total,
            "curve": curve,
            "sure": {"needs_at_most": SURE, "mechanisms": 40, "found": sure, "missed": missed},
            "false_alarms": {"mechanisms": total, "accused": false, "interval": [low, high], "kinds": accused},
            "cpu_seconds": round(time.process_time() - start),
        }
        record("auditor", result, ("taciturn", "numpy", "scipy"), by_line=entries, folder=RESULTS)
