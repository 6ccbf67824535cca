"""Noisy share dynamics: the effect of noise on the shares of the options, without simulating agents or copies. Tables
explain the effect."""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from taciturn.bench.statistics import Floats
from taciturn.bench.study import Table
from taciturn.bench.tables import number
from taciturn.envs.social_bandit.paper import copies_of_paper, ordered_means
from taciturn_papers.base import flip_probability
from taciturn_papers.tao2023.settings import BETA, BOUND, DELTA, GROWTH, MU, H, Setting


def bit_noise(epsilon: float | None) -> float:
    """Standard deviation of a perturbed bit after equation 7 has removed its bias: sqrt(q (1 - q)) / (1 - 2 q)."""
    q = flip_probability(epsilon)
    return math.sqrt(q * (1 - q)) / (1 - 2 * q)


def rectified(mean: Floats, sd: Floats | float) -> tuple[Floats, Floats]:
    """Mean and variance of max(X, 0) for normal X; arrays of the same shape."""
    from scipy.special import ndtr

    sd = np.maximum(sd, 1e-300)
    z = np.clip(mean / sd, -38, 38)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    inside = ndtr(z)
    first = mean * inside + sd * density
    second = (mean**2 + sd**2) * inside + mean * sd * density
    return first, np.maximum(second - first**2, 0.0)


def expected_estimate(received: Floats, sd: Floats | float) -> Floats:
    """E[Qtilde_k / sum_j Qtilde_j] (equations 7 and 8), [..., K], for independent estimates normal(received, sd),
    clipped at 0.

    To second order in the noise of the sum.
    """
    first, variance = rectified(received, sd)
    total = first.sum(-1, keepdims=True)
    known = total > 0
    total = np.where(known, total, 1.0)
    spread = variance.sum(-1, keepdims=True)
    ratio = first / total - variance / total**2 + first * spread / total**3
    ratio = np.maximum(np.where(known, ratio, 1.0), 0.0)
    return np.asarray(ratio / ratio.sum(-1, keepdims=True))


def noisy_weights(
    signals: Floats,
    *,
    num_agents: int,
    copies: int,
    epsilon: float | None,
    seed: int,
    beta: float = BETA,
    mu: float = MU,
    noise: str = "per_round",
    estimate: str = "own",
    pool: int = 1,
    replicas: int = 20,
) -> Floats:
    """Q^{r-1} . Phi^r for r = 1 ... R, mean over `replicas`: equation 34 with noisy estimates and finitely many agents.

    Given the shares Q of D adopters, under noise = "per_round" the estimates of all agents share the noise of the bits,
    `bit_noise` / sqrt(D). Under "per_token" every copy has independent noise, and the mean of all T D copies has only
    `bit_noise` / sqrt(T D). Under estimate = "own" each agent also has the noise of its V = T D / N copies,
    sqrt((bit_noise^2 + Q (1 - Q)) / V); under "shared" all agents use one estimate from all copies. Without noise in
    the bits an estimate is a share of copies: nonnegative, with mean Q.

    Args:
        signals: Phi, [R, K].
        pool: the number of rounds over which an agent averages.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    options = signals.shape[1]
    bit, earned = bit_noise(epsilon), np.empty(len(signals))
    held = np.full((replicas, options), num_agents // options, np.int64)
    past: deque[Floats] = deque(maxlen=pool)
    for r, phi in enumerate(signals):
        adopters = np.maximum(held.sum(1, keepdims=True), 1)
        shares = held / adopters
        earned[r] = (shares @ phi).mean()
        vectors = adopters * (1.0 if noise == "per_round" else copies)
        common = bit * vectors**-0.5 if noise == "per_round" or estimate == "shared" else 0.0
        past.append(shares + common * rng.standard_normal(shares.shape))
        own = 0.0
        if estimate == "own" and bit:
            own = np.sqrt((bit**2 + shares * (1 - shares)) * num_agents / (copies * adopters * len(past)))
        tried = rng.multinomial(num_agents, (1 - mu) * expected_estimate(np.mean(past, axis=0), own) + mu / options)
        held = rng.binomial(tried, np.where(phi == 1, beta, 1 - beta))
    return earned


def mean_dynamics(
    eta: Sequence[float], epsilon: float | None, adopters: Floats, received: Floats, rounds: int
) -> Floats:
    """Regret after `rounds` of the mean dynamics, [G], with `adopters` [G] perturbed vectors and `received` [G] copies
    per agent.

    Q <- E[Qtilde / sum] under all noise, mixed with exploration mu, then multiplied by beta eta + (1 - beta) (1 - eta).
    """
    quality = np.array(eta)
    variance = bit_noise(epsilon) ** 2 * (1 / adopters + 1 / received)
    sd = np.sqrt(variance)[:, None]
    gain = BETA * quality + (1 - BETA) * (1 - quality)
    shares = np.full((len(adopters), len(quality)), 1 / len(quality))
    earned = np.zeros(len(adopters))
    for _ in range(rounds):
        earned += shares @ quality
        shares = ((1 - MU) * expected_estimate(shares, sd) + MU / len(quality)) * gain
        shares /= shares.sum(1, keepdims=True)
    return np.asarray(quality.max() - earned / rounds)


def sigma(epsilon: float | None, adopters: float, received: float) -> float:
    """Standard deviation of an agent's estimate of a share near 0."""
    return bit_noise(epsilon) * math.sqrt(1 / adopters + 1 / received)


def lift(eta: Sequence[float], sd: float, delta: float = DELTA) -> tuple[float, float]:
    """The effect of clipping estimates at 0: the total share that it sustains on the inferior options, and the regret
    from it.

    Option k settles at the share sd z_k where the gain from clipping per round, phi(z) / z - Phi(-z) in relative terms,
    equals the loss from selection, delta (eta_1 - eta_k). If the total approaches 1, no option can lead.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    gaps = max(eta) - np.sort(eta)[:-1]

    def excess(z: float, gap: float) -> float:
        return float(math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / z - ndtr(-z) - delta * gap)

    heights = np.array([brentq(excess, 1e-9, 30, args=(gap,)) for gap in gaps])
    return float(sd * heights.sum()), float(sd * heights @ gaps)


@lru_cache(64)
def agents_needed(options: int, epsilon: float, growth: str, rounds: int = 10_000) -> float:
    """log10 of the smallest N for which the mean dynamics with T = h g(N) has regret 6 delta after `rounds`; infinite
    beyond e^10,000.

    It is a lower bound: it ignores the fluctuations of the shares from the noise that is common to all agents.
    """
    low, high = math.log(1000), 2.0 * math.log(1000)
    while True:
        logs = np.linspace(low, high, 9)
        adopters = np.exp(np.minimum(logs, 700)) / 2
        received = H / 2 * (np.exp(logs / 2) if growth == "root" else logs**2)
        values = mean_dynamics(ordered_means(options), epsilon, adopters, received, rounds)
        if values[-1] > BOUND:
            low, high = high, 2 * high
            if high > 10_000:
                return math.inf
        elif high - low > 0.03 * high and values[0] > BOUND:
            i = int(np.argmax(values <= BOUND))
            low, high = logs[i - 1], logs[i]
        else:
            return float(np.interp(-BOUND, -values, logs)) / math.log(10)


def theorem(options: int, epsilon: float, num_agents: int) -> dict[str, float]:
    """The requirements of Theorem 5.2 and its lemmas at the paper's parameters: rounds, 6 mu / delta^2, delta'', c, and
    log10 of g(N) / ln N."""
    q = flip_probability(epsilon)
    c = 4 * options * (2 * options + 1) / (MU * (1 - BETA)) / (1 - 2 * q)
    power = 2 * math.log(5) / DELTA**2
    return {
        "rounds": math.log(4 * options / (MU * (1 - BETA))) / DELTA**2,
        "exploration": 6 * MU / DELTA**2,
        "deviation": math.sqrt(60 * options * math.log(num_agents) / (MU * num_agents)),
        "c": c,
        "log10_copies": 2 * math.log10(c) + power * math.log10(options) - 2 * math.log10(DELTA),
    }


def noise_table(settings: Iterable[Setting]) -> Table:
    """The noise of an agent's estimate, in settings with privacy."""
    rows = []
    for n, m, epsilon, growth in settings:
        assert epsilon is not None
        vectors, copies = n / 2, copies_of_paper(n, growth) / 2
        sd, own = sigma(epsilon, vectors, copies), sigma(epsilon, math.inf, copies)
        (lifted, regret), (fresh, best) = lift(ordered_means(m), sd), lift(ordered_means(m), own)
        common = sigma(epsilon, vectors, math.inf)
        ends = [f"{end:.2f}" if share < 1 else "none leads" for share, end in ((lifted, regret), (fresh, best))]
        known = (f"{n:,}", str(m), f"{epsilon:g}", GROWTH[growth], f"{1 / m:.3f}", f"{common:.4f}", f"{own:.4f}")
        rows.append([*known, f"{lifted:.2f}", ends[0], f"{fresh:.2f}", ends[1]])
    columns = (
        "N", "M", "ε", "g", "uniform share", "common noise", "own noise", "sustained share", "regret",
        "sustained share, fresh noise per copy", "regret, fresh noise per copy",
    )  # fmt: skip
    note = (
        "About N/2 agents hold an option, and each perturbs it once. All estimates therefore share the noise of N/2 "
        "vectors, however many copies there are; the T/2 copies that an agent receives add independent noise (the "
        "table has both as standard deviations). Negative estimates are clipped at 0. This raises every inferior "
        "option to 1.5 to 2.5 standard deviations, where clipping adds as much per round as selection removes (at most "
        "2%). The sustained share is the total share of the inferior options: if it is near or above 1, no option can "
        "lead. If it is smaller, 'regret' is a lower bound of the final regret."
    )
    return Table("Noise of the estimates", columns, rows, note, frozenset())


def theorem_table() -> Table:
    """Theorem 5.2's conditions, and the values in the simulations."""
    rows = []
    for m in (10, 20, 30):
        asked, logs = theorem(m, 1.0, 10_000), f"{math.log(10_000):.1f}"
        rows += [
            [f"rounds, M = {m}", f"at least {asked['rounds']:,.0f}", "10,000", "no"],
            [f"g(N) / ln N, M = {m} (equation 38)", f"at least 10^{asked['log10_copies']:,.0f}", logs, "no"],
            [f"the same without M^(2 ln 5 / delta²), M = {m}", f"at least {asked['c'] ** 2:.1e}", logs, "no"],
            [f"delta'' of Lemma 5.2, M = {m}, N = 10,000", "at most 0.5", number(asked["deviation"]), "no"],
        ]
    rows.append(["6 mu / delta²", "at most 1", f"{theorem(20, 1.0, 10_000)['exploration']:.4f}", "no, just above"])
    rows.append(["N > 8 h / sqrt(5) + sqrt(2)", f"above {8 * H / math.sqrt(5) + math.sqrt(2):,.0f}", "3,000", "yes"])
    note = (
        "epsilon = 1, g = ln² N, the paper's parameters. No realistic number of agents meets the second condition: "
        "with g = sqrt(N) and M = 20 it requires about 10^21,000 agents."
    )
    columns = ("condition", "required", "in section 6", "met")
    return Table("Conditions of Theorem 5.2", columns, rows, note, frozenset({0, 3}))


def power_of_ten(log10: float) -> str:
    """`10^6.2`."""
    return "more than was tried" if math.isinf(log10) else f"10^{log10:.1f}"


def needed_table() -> Table:
    """How many agents the algorithm needs as written."""
    rows = [
        [
            str(m),
            f"{epsilon:g}",
            *(power_of_ten(agents_needed(m, epsilon, growth)) for growth in ("root", "log_squared")),
        ]
        for m, epsilon in ((20, 0.5), (20, 1.0), (20, 1.5), (20, 2.0), (10, 1.0), (30, 1.0))
    ]
    note = (
        f"The smallest N for which the mean dynamics has regret {BOUND:.2f} after 10,000 rounds with T = h g(N). This "
        "is a lower bound, because the mean dynamics ignores the fluctuations of the shares under the noise common to "
        "all agents; the study of the variants includes them. With g = ln² N the number of copies per agent is the "
        "limit: each agent clips its own estimate at 0, and this bias does not average out."
    )
    columns = ("M", "ε", "N, g = √N", "N, g = ln² N")
    return Table("Agents needed, at least", columns, rows, note, frozenset())
