"""Table 3, Figures 10 and 11, Theorems 1, 2 and 4, Lemma 1: privacy."""

import itertools
import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.privacy.mechanisms import TreeAggregation
from taciturn_papers.claims import (
    Claim,
    above,
    alike,
    at_least,
    at_most,
    number_of,
    ratio_of,
    rounded,
    together,
    untested,
)
from taciturn_papers.zhou2021.claims.shared import (
    EARNED,
    IN_ORDER,
    REGRET,
    SHARED,
    at,
    everywhere,
    falls,
    numbers,
    title,
    values,
)
from taciturn_papers.zhou2021.settings import LEVELS, NOISY_ROUNDS, TUNED, private

# Table 3: accuracies at n = 10,000 to 70,000, by epsilon.
ACCURACY = {
    "TPriDO": (
        (0.4192, 0.4489, 0.4772, 0.5437, 0.5591, 0.5843, 0.6026),
        (0.7013, 0.7158, 0.7211, 0.7312, 0.7583, 0.8402, 0.8621),
        (0.9032, 0.9287, 0.9396, 0.9523, 0.9613, 0.9751, 0.9812),
    ),
    "DTPriDO": (
        (0.4196, 0.4245, 0.4745, 0.5321, 0.5851, 0.6042, 0.6119),
        (0.7161, 0.7732, 0.7356, 0.7665, 0.7850, 0.8621, 0.8793),
        (0.9467, 0.9605, 0.9785, 0.9799, 0.9801, 0.9882, 0.9913),
    ),
}


@cache
def noise_of_a_sum(epsilon: float) -> float:
    """The standard deviation of the noise in the centre's sum of 7 records (three blocks), in a run of `NOISY_ROUNDS`
    rounds."""
    scale = float(TreeAggregation(epsilon).block_scale(8 * NOISY_ROUNDS, 1.0))
    return scale * math.sqrt(2 * 3)


def arithmetic(epsilon: float) -> str:
    """How accurate a noisy sum is."""
    deviation = noise_of_a_sum(epsilon)
    return (
        f"The noise of a sum of 7 records has a standard deviation of {deviation:,.0f}; sums are clipped to [0, 7]. "
        f"The noise of a mean falls to 0.1 only with about {10 * deviation:,.0f} records of one cell and cluster"
    )


def noises(policy: str, *levels: float | None) -> dict[str, Callable[[Config], Config]]:
    """A policy at several levels of noise."""
    return {
        f"epsilon = {level:g}" if level else "no noise": partial(private, policy=policy, epsilon=level)
        for level in levels
    }


def exact_regrets(results: Results, policy: str) -> str:
    """Average regrets without noise."""
    return f"Without noise they are {numbers(results, partial(private, policy=policy, epsilon=None), REGRET)}"


def accuracy(policy: str, level: float) -> Claim:
    """Table 3: the accuracy of a policy at one epsilon."""
    table = ACCURACY[policy][LEVELS.index(level)]
    return everywhere(
        f"Table 3: accuracy of {title(policy)} at epsilon = {level:g} rises from {table[0]:.4f} to {table[-1]:.4f} "
        "(ratio of average rewards with and without noise)",
        f"Table 3: '{title(policy)}' … '{100 * table[0]:.2f}%' … '{100 * table[-1]:.2f}%'",
        f"{table[0]:.4f} to {table[-1]:.4f}",
        lambda r, world: [
            ratio_of(r, private(world, policy, level), private(world, policy, None), at("reward", part))
            for part in range(1, 8)
        ],
        [rounded(one, 0.0001, "the paper rounds accuracies to multiples of 0.01%") for one in table],
        table,
        0.0,
        lambda r: (
            f"The average rewards at the end {IN_ORDER} are {values(r, noises(policy, level, None), each='with {}')}; "
            f"random play earns {numbers(r, lambda world: private(world, 'Random', None))}. {arithmetic(level)}"
        ),
        [f"n = {part}0,000" for part in range(1, 8)],
    )


def accuracies(results: Results, world: Config, policy: str, level: float, part: int) -> Floats:
    """The ratio of the average rewards with noise to the average rewards without noise, by seed."""
    noisy, exact = together(results, [private(world, policy, one) for one in (level, None)], at("reward", part))
    return noisy / exact


EACH = tuple(itertools.product(ACCURACY, LEVELS))


def kept(results: Results, noisy: Config, exact: Config, chance: Config) -> Estimate:
    """The share of the gain over random play that remains with noise."""
    a, b, c = together(results, [noisy, exact, chance], EARNED)
    # If nothing is learned without noise, there is no gain to keep.
    return statistics.share(a - c, b - c) if b.mean() > c.mean() else Estimate(*(math.nan,) * 3)


def utility(*, always: bool) -> Claim:
    """How much of the gain from learning remains at epsilon = 2."""

    def of(level: float | None) -> Callable[[Config], Config]:
        return lambda world: private(world, "TPriDO", level, always=always)

    return everywhere(
        "T-PriDO keeps most of its gain over random play at epsilon = 2 "
        f"{'if agents always ask' if always else 'with NT = 0.5'} (share of the gain that remains)",
        "",
        "above 0.5",
        lambda r, world: [kept(r, of(2.0)(world), of(None)(world), private(world, "Random", None))],
        above(0.5),
        0.9,
        0.0,
        lambda r: (
            f"The average rewards {IN_ORDER} are "
            f"{values(r, {'with noise': of(2.0), 'without noise': of(None)}, each='{}')}. The shares of rounds in "
            f"which agents have an answer are {numbers(r, of(2.0), SHARED)}. {arithmetic(2.0)}"
        ),
        own=True,
    )


def exponential(world: Config) -> Config:
    """T-PriDO with the exponential mechanism."""
    return private(world, "TPriDO", 2.0, on="selection")


def neglected(results: Results) -> str:
    """Why the exponential mechanism is not negligible."""
    cap = 1 + math.sqrt(TUNED["TPriDO"]["xi"] * math.log(NOISY_ROUNDS) / 8) + TUNED["TPriDO"]["psi"]
    some = {"with the mechanism": exponential, "without it": lambda world: private(world, "TPriDO", None)}
    return (
        f"The average regrets {IN_ORDER} are {values(results, some, REGRET, each='{}')}. An index can reach {cap:.2f}, "
        f"and one visit can change it by {cap:.2f}. With this sensitivity a cluster with a mean higher by 0.5 is "
        f"chosen only {math.exp(2.0 * 0.5 / (2 * cap)):.2f} times as often"
    )


def charge(statement: str, quote: str, config: Callable[[Config], Config], why: str) -> Claim:
    """A claim about the accountant's charge."""
    return everywhere(
        f"{statement} (largest epsilon spent by an agent, divided by epsilon = 2)",
        quote,
        "at most 1",
        lambda r, world: [number_of(r, config(world), "charged_over_epsilon")],
        at_most(1),
        1.0,
        math.inf,
        why,
    )


STREAMS = (
    "One feedback is released in many streams: in one stream for each agent that asks, and in further streams when the "
    "feedback's cell or cluster is split into smaller ones. Each stream costs epsilon. The numbers are the cost of "
    f"{NOISY_ROUNDS} rounds; longer runs split cells and clusters further and cost more. We do not account for an "
    "agent's decision to ask, which depends on its users' feedback and has unbounded epsilon"
)


def printed_scale() -> list[float]:
    """The privacy loss under noise of scale ln(T) / epsilon, divided by epsilon, for two T: a run of
    the figures here, and one of the paper's runs."""
    return [
        TreeAggregation(1.0, horizon=length, scale="ln").loss().epsilon for length in (8 * NOISY_ROUNDS, 8 * 70_000)
    ]


@cache
def within_lemma_1(runs: int = 400, rounds: int = 1000, rho: float = 0.1) -> float:
    """The share of runs in which all noisy sums of a stream, with the mechanism as printed, stay within Lemma 1's bound
    (one agent)."""
    rng = np.random.default_rng(0)
    noise = rng.laplace(0, math.log(rounds), (runs, rounds + 1))
    bound = math.log(rounds) ** 2 * math.log(rounds * math.log(rounds) / rho)
    sums = np.zeros((runs, rounds + 1))
    for time in range(1, rounds + 1):
        sums[:, time] = sums[:, time & (time - 1)] + noise[:, time]
    return float((np.abs(sums).max(1) <= bound).mean())


PRIVACY = (
    *(accuracy(policy, level) for policy, level in EACH),
    everywhere(
        "Table 3: accuracy rises from n = 10,000 to 70,000 at each epsilon (accuracy at the end minus after 1/7 of "
        "the run)",
        "Table 3: '0.01 … 41.92% … 60.26%'",
        "rises",
        lambda r, world: [
            statistics.difference(*(accuracies(r, world, policy, level, part) for part in (7, 1)))
            for policy, level in EACH
        ],
        above(0),
        [
            ACCURACY[policy][LEVELS.index(level)][-1] - ACCURACY[policy][LEVELS.index(level)][0]
            for policy, level in EACH
        ],
        0.0,
        "The policy without noise learns more over time, so the ratio falls",
        [f"{title(policy)}, {level:g}" for policy, level in EACH],
    ),
    everywhere(
        "Table 3: DT-PriDO is more accurate than T-PriDO at each epsilon (accuracy at the end: DT-PriDO minus T-PriDO)",
        "Table 3: 'DT-PriDO' … '61.19%' and 'T-PriDO' … '60.26%'",
        "more",
        lambda r, world: [
            statistics.difference(*(accuracies(r, world, policy, level, 7) for policy in ("DTPriDO", "TPriDO")))
            for level in LEVELS
        ],
        above(0),
        [ACCURACY["DTPriDO"][i][-1] - ACCURACY["TPriDO"][i][-1] for i in range(len(LEVELS))],
        0.0,
        "The followers of DT-PriDO ask in every round, and so they always choose by noisy sums",
        [f"epsilon = {level:g}" for level in LEVELS],
    ),
    *(
        falls(
            f"Figure 10: regret of {title(policy)} falls as epsilon rises (average regret at one epsilon minus average "
            "regret at a larger one)",
            "Section 5.3: 'As the privacy-preserving level increases (… decreases), each reward sum will be "
            "added more noise, which makes the shared information unreliable'",
            "falls",
            noises(policy, *LEVELS),
            why=partial(exact_regrets, policy=policy),
        )
        for policy in ACCURACY
    ),
    utility(always=False),
    utility(always=True),
    everywhere(
        "Remark 1: the exponential mechanism can be neglected (ratio of regret with the mechanism at epsilon = 2 to "
        "regret without it)",
        "Remark 1: 'We can neglect the last term which is the regret by utilizing Exponential mechanism'",
        "about 1",
        lambda r, world: [ratio_of(r, exponential(world), private(world, "TPriDO", None), REGRET)],
        alike(1, 0.1, "'neglect'"),
        1.0,
        1.5,
        neglected,
    ),
    charge(
        "Figure 11 and Theorem 2: the privacy loss of T-PriDO is at most epsilon",
        "Section 5.3: 'Based on Definition 1, PL <= epsilon'",
        lambda world: private(world, "TPriDO", 2.0),
        STREAMS,
    ),
    charge(
        "Theorem 4: DT-PriDO is epsilon-DP",
        "Theorem 4: 'differential privacy for all the users' sensitive context information and service providers' item "
        "repositories'",
        lambda world: private(world, "DTPriDO", 2.0),
        STREAMS,
    ),
    charge(
        "Theorem 1: contexts are epsilon-DP",
        "Theorem 1: 'differential privacy for user's sensitive context information'",
        exponential,
        "A selection costs epsilon, and a user's feedback enters the scores of all later selections, so the accountant "
        "counts every selection",
    ),
    Claim(
        "Theorem 2: noise of scale ln(n) / epsilon makes a stream epsilon-DP (ratio of the stream's privacy loss to "
        "epsilon)",
        "Theorem 2: 'Algorithm 1 can guarantee epsilon-differential privacy for all agents' revenue of rewards'",
        "at most 1",
        lambda r: printed_scale(),
        at_most(1),
        1.0,
        2.0,
        "A record lies in floor(log2 n) + 1 blocks; section 3.3 says 'in ln n reward sums'",
        (f"{8 * NOISY_ROUNDS:,} values", f"{8 * 70_000:,} values"),
    ),
    Claim(
        "Lemma 1: the noise of a stream stays within its bound (share of runs within the bound, one agent, n = 1,000, "
        "rho = 0.1)",
        "Lemma 1: 'the maximum of Laplace noise added to … till round n as … with probability >= 1 - rho'",
        "at least 0.9",
        lambda r: within_lemma_1(),
        at_least(0.9),
        0.9,
        0.0,
        "We draw the noise alone, at the printed scale, in 400 runs",
    ),
    untested(
        "Lemma 1: the noise of an index stays within its bound",
        "Lemma 1: 'we denote the maximum of Laplace noise added to'",
        "(ln n)^2 |W| ln(n ln n / rho) / epsilon",
        "an index divides the noise by Q, which the bound leaves out; only the noise of a sum can be tested",
    ),
)
