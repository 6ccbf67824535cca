"""Composition: the cost of many messages. Pure functions, one equation each; all are upper bounds.

Rows [R] are agents with different histories. Columns [L] are kinds of messages; all messages of a kind cost the same.
`History` applies the equations to the messages of each row.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from taciturn.privacy.losses import GaussianLoss, LaplaceLoss, PrivacyLoss, pure
from taciturn.validation import Array, Floats, missing_extra

Method = Literal["basic", "advanced", "zcdp", "rdp", "pld"]
METHODS: tuple[Method, ...] = get_args(Method)

ORDERS: Floats = 1 + np.geomspace(1e-3, 1e6, 425)
"""Orders at which Renyi divergences are converted to epsilon. They are spaced by 5%, which raises epsilon by less than
0.1%."""

ROWS_AT_ONCE = 1024
LARGEST = 300.0  # epsilon of a message, or mu^2 of all Gaussians, in a distribution; e^(2 LARGEST) is still a float
GRID = 2**14  # steps per standard deviation of a privacy loss distribution, at most
WIDEST = 2**17  # steps to the largest loss of a message that is not pure, at most
TAIL = 1e-4  # share of delta spent on truncating tails
MOST_COMPOSED = 10**9  # messages in a distribution
FOURIER = 1e-14  # part of delta reserved for rounding errors of fast Fourier transforms, ten times the largest observed


def basic_epsilon(counts: Array, epsilons: Array) -> Floats:
    """Basic composition, the sum of k_i epsilon_i (Dwork & Roth 2014, Section 3.5).

    Args:
        counts: number of messages k of each kind, [R, L].
        epsilons: epsilon of one message of each kind, [L] or [R, L]; inf is allowed.

    Returns:
        float64[R].
    """
    return _times(counts, epsilons).sum(-1)


def advanced_epsilon(total: Floats, drift: Floats, squares: Floats, delta: float | Floats) -> Floats:
    """Advanced composition of pure messages with different epsilons: Kairouz, Oh & Viswanath (2015).

    Args:
        total: sums of epsilon, [R].
        drift: sums of epsilon (e^epsilon - 1) / (e^epsilon + 1), [R].
        squares: sums of epsilon^2, [R].
        delta: the theorem's delta tilde, > 0; a number or [R].

    Returns:
        The smallest of the theorem's three terms, float64[R]; the first is basic composition.
    """
    second = drift + np.sqrt(2 * squares * np.log(math.e + np.sqrt(squares) / delta))
    third = drift + np.sqrt(2 * squares * np.log(1 / np.asarray(delta)))
    return np.minimum(total, np.minimum(second, third))


def rdp_epsilon(divergence: Floats, delta: float | Floats, orders: Floats = ORDERS) -> Floats:
    """Epsilon of a Renyi divergence curve: Canonne, Kamath & Steinke (2020), Proposition 12 (of arXiv 2004.00010v4).

    Args:
        divergence: upper bounds at `orders`, [R, A] or [A]; they add up over messages (Mironov 2017).
        delta: > 0; a number or [R].
        orders: [A], > 1.

    Returns:
        The smallest epsilon over the orders, float64[R].
    """
    divergence = np.atleast_2d(divergence)
    log_delta = np.log(np.asarray(delta, np.float64))[..., None]
    epsilon = divergence + np.log1p(-1 / orders) - (log_delta + np.log(orders)) / (orders - 1)
    return np.where((divergence == 0).all(-1), 0.0, np.maximum(epsilon.min(-1), 0.0))


def zcdp_epsilon(rho: Array, delta: float | Floats) -> Floats:
    """Epsilon of rho-zCDP: `rdp_epsilon` of the divergence alpha rho of order alpha (Bun & Steinke 2016).

    The rho of several messages add up (Bun & Steinke 2016, Lemma 1.7). `rho` is [R]; inf is allowed.
    """
    rho = np.atleast_1d(np.asarray(rho, np.float64))
    return rdp_epsilon(rho[:, None] * ORDERS, delta)


def rho_of(divergence: Floats, epsilon: float) -> float:
    """A rho of zero-concentrated differential privacy, from the Renyi divergences [A] at ORDERS of a message that is
    epsilon-DP.

    It bounds D_alpha / alpha at every alpha > 1. D_alpha grows with alpha: between two orders the ratio is at most the
    divergence at the larger order over the smaller order, and beyond the last order at most epsilon over that order.
    """
    ends = np.append(divergence, epsilon)
    return float((ends / np.concatenate([[1.0], ORDERS])).max())


def odometer_epsilon(rho: Floats, delta: float, tightest_at: float) -> Floats:
    """Epsilon at `delta` > 0 for the sum of `rho` [R] of messages so far, valid at all times simultaneously.

    With V = 2 sum of rho, L the privacy loss so far and any lambda > 0, the process exp(lambda (L - V/2) - lambda^2
    V/2) is a supermartingale, because the Renyi divergence of order 1 + lambda of a message is at most (1 + lambda)
    rho, even if rho is chosen adaptively (Whitehouse, Ramdas, Rogers & Wu 2023). A mixture over lambda from a
    half-normal distribution of precision r, fixed in advance, is also one. By Ville's inequality, with probability
    1 - delta, at all times,

        L <= V/2 + sqrt((V + r) (2 log(1/delta) + log((V + r)/r))).

    Over all r, this is smallest for V = u r with u = 2 log(1/delta) + log(1 + u), and is then V/2 + sqrt((1 + u) V): r
    is chosen to make this value equal to the epsilon `tightest_at`. Each of two adjacent worlds has such a bound, so
    the run up to any stopping time is (epsilon, delta)-DP.
    """
    cost = 2 * math.log(1 / delta)
    u = cost + 1
    for _ in range(100):
        u = cost + math.log1p(u)
    r = (2 * tightest_at / (math.sqrt(1 + u + 2 * tightest_at) + math.sqrt(1 + u))) ** 2 / u
    finite = np.isfinite(rho)
    v = 2 * np.where(finite, rho, 0.0)
    bound = v / 2 + np.sqrt((v + r) * (cost + np.log(v + r) - math.log(r)))
    return np.where(finite, np.where(v > 0, bound, 0.0), math.inf)


def gaussian_delta(mu: Array, epsilon: Array) -> Floats:
    """The exact delta of a Gaussian mechanism with mu = sensitivity / sigma: Balle & Wang (2018), Theorem 8."""
    from scipy.special import log_ndtr

    above, below = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return np.exp(above) * -np.expm1(np.minimum(below - above, 0))


def gaussian_epsilon(mu: float | Floats, delta: float | Floats) -> Floats:
    """Epsilon of a Gaussian mechanism with mu = sensitivity / sigma at `delta` > 0: `gaussian_delta` inverted by
    bisection.

    Gaussian mechanisms compose to a Gaussian mechanism; its mu^2 is the sum of their mu^2 (Dong, Roth & Su 2022). `mu`
    and `delta` broadcast; mu may be inf.
    """
    mu, delta = np.broadcast_arrays(np.asarray(mu, np.float64), np.asarray(delta, np.float64))
    usual = (mu > 0) & (mu < math.inf)
    m, target = np.where(usual, mu, 1.0), delta
    low, high = np.zeros_like(m), m**2 / 2 + m * np.sqrt(2 * np.log(1 / target))
    for _ in range(64):
        middle = (low + high) / 2
        spent = gaussian_delta(m, middle) > target
        low, high = np.where(spent, middle, low), np.where(spent, high, middle)
    return np.where(usual, np.where(gaussian_delta(m, np.zeros_like(m)) > target, high, 0.0), mu)


def pld_epsilon(losses: Iterable[PrivacyLoss], counts: Iterable[int], delta: float) -> float:
    """Epsilon of composed privacy loss distributions: Koskela, Jälkö & Honkela (2020), by dp-accounting.

    The distributions are rounded upwards to a grid (Doroshenko et al. 2022). Gaussian messages are merged into one. A
    pure mechanism with known epsilon and unknown distribution is replaced by the randomised response that dominates it.
    The grid raises epsilon by less than 0.1% for a million messages of similar epsilon, and by more if very many small
    losses are composed with a large one.

    Args:
        losses: privacy loss of one message of each kind.
        counts: number of messages of each kind.
        delta: > 0.

    Returns:
        Epsilon; inf if a loss is neither pure nor Gaussian (sampled or not), if a loss is too large or delta too small
        for a distribution on a grid, or if more than `MOST_COMPOSED` messages are not Gaussian: these would take
        minutes and all memory, on a grid so coarse that the bound from Renyi divergences is tighter.

    Raises:
        ImportError: dp-accounting is missing.
    """
    sent = [(loss, int(count)) for loss, count in zip(losses, counts, strict=True) if count > 0 and loss.rho > 0]
    squared_mu = sum(2 * loss.rho * count for loss, count in sent if isinstance(loss, GaussianLoss))
    pure = [(loss, count) for loss, count in sent if not isinstance(loss, GaussianLoss)]
    if not pure:
        return float(gaussian_epsilon(math.sqrt(squared_mu), delta))
    messages = sum(count for _, count in pure)
    tail = delta * TAIL / messages
    if messages > MOST_COMPOSED:
        return math.inf
    if delta <= FOURIER or squared_mu > LARGEST or any(loss.farthest(tail) > LARGEST for loss, _ in pure):
        return math.inf
    pld, _ = _dp_accounting()
    variance = squared_mu + sum(_variance(loss) * count for loss, count in pure)
    common = max(pure, key=lambda pair: pair[1])[0].epsilon
    # Rounding to a grid of this step adds at most step^2 / 4 to the variance of each message. The commonest loss is a
    # multiple of the step.
    step = max(0.01 * math.sqrt(variance / messages), math.sqrt(variance) / GRID)
    step = max([step, *(loss.farthest(tail) / WIDEST for loss, _ in pure if math.isinf(loss.epsilon))])
    step = common / math.ceil(common / step) if step < common < math.inf else step
    parts = [_composed(_distribution(loss, step, tail), count, delta) for loss, count in pure]
    if squared_mu:
        parts.append(pld.from_gaussian_mechanism(1 / math.sqrt(squared_mu), value_discretization_interval=step))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part, delta * TAIL)
    return float(total.get_epsilon_for_delta(delta - FOURIER))


def _dp_accounting() -> tuple[Any, Any]:
    """The modules of dp-accounting for privacy loss distributions and for their probability mass functions."""
    try:
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_extra("method 'pld' needs dp-accounting", "accounting") from error
    return privacy_loss_distribution, pld_pmf


def _variance(loss: PrivacyLoss) -> float:
    """The approximate variance of the privacy loss of one message; for a sampled message, rho does not give it."""
    return 2 * loss.rho if math.isfinite(loss.epsilon) else float(loss.rdp(2.0))


def _distribution(loss: PrivacyLoss, step: float, tail: float) -> Any:
    """The privacy loss distribution of a message, on multiples of `step`; losses of a message that is not pure are
    infinite with probability at most `tail`."""
    pld, pld_pmf = _dp_accounting()
    if isinstance(loss, LaplaceLoss) or math.isinf(loss.epsilon):
        curve: Any = loss  # it has `delta`
        nodes = loss.nodes if isinstance(loss, LaplaceLoss) else 1
        end = math.ceil(loss.farthest(tail) / nodes / step)
        deltas = curve.delta(np.arange(-end, end + 1) * step)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, -end, end, deltas)
        return pld.PrivacyLossDistribution(pmf).self_compose(nodes)
    if (parts := loss.parts()) is not None:
        return _distribution(parts[0], step, tail).self_compose(parts[1])
    first, second = loss.dominating_pair() or answers(loss.epsilon)
    losses = (first - second) / step
    points = np.unique(np.concatenate([np.floor(losses), np.ceil(losses)])).astype(np.int64)
    deltas = np.maximum(np.exp(first) - np.exp(points[:, None] * step + second), 0).sum(-1)
    return pld.PrivacyLossDistribution(pld_pmf.create_pmf_pessimistic_connect_dots(step, points, deltas))


def _composed(part: Any, count: int, delta: float) -> Any:
    """`part` composed with itself `count` times, 64 at a time: in one step, the Chernoff bound on the width would be
    far too large."""
    tail, result = delta * TAIL / count, None
    while count:
        count, digit = divmod(count, 64)
        if digit:
            power = part.self_compose(digit, tail)
            result = power if result is None else result.compose(power, tail)
        if count:
            part = part.self_compose(64, tail)
    return result


def _times(counts: Array, values: Array) -> Array:
    """counts * values, with 0 * inf = 0."""
    return np.multiply(counts, values, out=np.zeros(np.broadcast_shapes(counts.shape, values.shape)), where=counts > 0)


def answers(epsilon: float) -> tuple[Array, Array]:
    """log P and log Q of binary randomised response, which dominates every pure message (Kairouz, Oh & Viswanath
    2015)."""
    first = np.array([-np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)])
    return first, first[::-1]


def message_epsilon(loss: PrivacyLoss, delta: Floats) -> Floats:
    """Epsilon of one message at each delta, [R]."""
    if math.isfinite(loss.epsilon) or not delta.any():
        return np.full(delta.shape, loss.epsilon)
    if not isinstance(loss, GaussianLoss):
        return rdp_epsilon(loss.rdp(ORDERS), delta)
    mu = math.sqrt(2 * loss.rho)
    return np.full(1, _gaussian_epsilon(mu, float(delta[0]))) if delta.size == 1 else gaussian_epsilon(mu, delta)


@lru_cache(65536)
def _gaussian_epsilon(mu: float, delta: float) -> float:
    """`gaussian_epsilon` of numbers: environments ask again at every step."""
    return float(gaussian_epsilon(mu, delta))


@dataclass(frozen=True)
class MessageCounts:
    """Numbers of messages of several kinds, [R, L]. If `parallel`, the unit that changes enters only one of them
    (McSherry 2009)."""

    losses: list[PrivacyLoss]
    counts: Array
    parallel: bool

    def add(self, values: Array) -> Floats:
        """The sum over messages of values [L] or [R, L]; their maximum if parallel. [R]."""
        return _times(self.counts, values).max(-1) if self.parallel else basic_epsilon(self.counts, values)

    def curves(self) -> Floats:
        """Renyi divergences at ORDERS, [R, A]."""
        curves = np.stack([loss.rdp(ORDERS) for loss in self.losses])
        if self.parallel:
            return np.max([_times(self.counts[:, [i]], curve) for i, curve in enumerate(curves)], axis=0)
        finite = np.isfinite(curves)
        total = self.counts @ np.where(finite, curves, 0.0)
        if not finite.all():
            total[(self.counts > 0).astype(np.float64) @ ~finite > 0] = math.inf
        return total

    def singles(self, delta: Floats) -> Floats:
        """Epsilon of one message of each kind, [R, L], at delta [R]."""
        return np.stack([message_epsilon(loss, delta) for loss in self.losses], -1)

    def sent(self, row: int) -> list[tuple[PrivacyLoss, int]]:
        """The messages of one row, as (loss, number); if parallel, a single message that dominates all others."""
        sent = [(loss, int(count)) for loss, count in zip(self.losses, self.counts[row], strict=True) if count]
        if not self.parallel or len(sent) < 2:
            return sent
        if all(isinstance(loss, GaussianLoss) for loss, _ in sent):
            return [max(sent, key=lambda pair: pair[0].rho)]
        return [(pure(max(loss.epsilon for loss, _ in sent)), 1)]


@dataclass(frozen=True)
class History:
    """The messages of R rows.

    Attributes:
        groups: counts of messages.
        chosen: sums over messages at levels that agents chose, of epsilon, drift, squared epsilon and rho, [R, 4].
    """

    groups: list[MessageCounts]
    chosen: Floats

    def __getitem__(self, rows: Any) -> "History":
        return History([replace(g, counts=g.counts[rows]) for g in self.groups], self.chosen[rows])

    def envelope(self) -> "History":
        """A single row with at least as many messages of each kind as any other row."""
        groups = [replace(g, counts=g.counts.max(0, keepdims=True)) for g in self.groups]
        return History(groups, self.chosen.max(0, keepdims=True))

    def add(self, value: Callable[[PrivacyLoss], float]) -> Floats:
        """The sum of `value(loss)` over all messages except those at chosen levels, [R]."""
        parts = [g.add(np.array([float(value(loss)) for loss in g.losses])) for g in self.groups]
        return np.sum([np.zeros(len(self.chosen)), *parts], axis=0)

    def basic(self, delta: float) -> Floats:
        """Basic composition; delta is divided equally among the messages that are not pure."""
        impure = self.add(lambda loss: math.isinf(loss.epsilon))
        each = delta / np.maximum(impure, 1)
        return np.sum([self.chosen[:, 0], *(g.add(g.singles(each)) for g in self.groups)], axis=0)

    def advanced(self, delta: float) -> Floats:
        """Advanced composition; half of delta is divided equally among the messages that are not pure."""
        impure = self.add(lambda loss: math.isinf(loss.epsilon))
        each = delta / 2 / np.maximum(impure, 1)
        singles = [g.singles(each) for g in self.groups]
        moments = (singles, [x * np.tanh(x / 2) for x in singles], [x**2 for x in singles])
        total, drift, squares = (
            np.sum([self.chosen[:, i], *(g.add(x) for g, x in zip(self.groups, moment, strict=True))], axis=0)
            for i, moment in enumerate(moments)
        )
        return advanced_epsilon(total, drift, squares, np.where(impure > 0, delta / 2, delta))

    def zcdp(self, delta: float) -> Floats:
        """Composition of zero-concentrated differential privacy."""
        return zcdp_epsilon(self.add(lambda loss: loss.rho) + self.chosen[:, 3], delta)

    def rdp(self, delta: float) -> Floats:
        """Composition of Renyi differential privacy; the divergence at chosen levels is at most min(alpha rho,
        epsilon)."""
        chosen = np.minimum(self.chosen[:, [3]] * ORDERS, self.chosen[:, [0]])
        return rdp_epsilon(np.sum([chosen, *(g.curves() for g in self.groups)], axis=0), delta)

    def odometer(self, delta: float, tightest_at: float) -> Floats:
        """Composition that is valid at all times simultaneously: the smaller of the sum of pure epsilons and
        `odometer_epsilon`."""
        pure = self.basic(0.0)
        rho = self.add(lambda loss: loss.rho) + self.chosen[:, 3]
        return np.minimum(pure, odometer_epsilon(rho, delta, tightest_at)) if delta > 0 else pure

    def pld(self, row: int, delta: float) -> float:
        """Composition of the privacy loss distributions of one row; all messages at chosen levels count as one message
        with their total epsilon."""
        sent = [pair for g in self.groups for pair in g.sent(row)] + [(pure(float(self.chosen[row, 0])), 1)]
        return pld_epsilon([loss for loss, _ in sent], [count for _, count in sent], delta)

    def bound(self, delta: float, method: Method) -> Floats:
        """Epsilon of each row: the smallest of the bounds by `method` and by simpler methods. For `pld` this is the
        bound of `rdp`; `tightened` then applies the privacy loss distributions."""
        if len(self.chosen) > ROWS_AT_ONCE:
            parts = range(0, len(self.chosen), ROWS_AT_ONCE)
            return np.concatenate([self[i : i + ROWS_AT_ONCE].bound(delta, method) for i in parts])
        bound = self.basic(delta)
        if method == "basic" or delta == 0:
            return bound
        if method == "advanced":
            return np.minimum(bound, self.advanced(delta))
        bound = np.minimum(bound, self.zcdp(delta))
        return bound if method == "zcdp" else np.minimum(bound, self.rdp(delta))

    def tightened(self, bound: Floats, delta: float, worst: int) -> Floats:
        """The bounds, tightened by privacy loss distributions of the `worst` rows and of one row that dominates all
        others."""
        bound = bound.copy()
        rows = np.flatnonzero(np.isfinite(bound) & (bound > 0))
        rows = rows[np.argsort(-bound[rows], kind="stable")]
        for row in rows[:worst]:
            bound[row] = min(bound[row], self.pld(row, delta))
        rest = rows[worst:]
        if rest.size:
            bound[rest] = np.minimum(bound[rest], self[rest].envelope().pld(0, delta))
        return bound
