"""Section 3.4, Figures 3.2 to 3.6: the reward of k updates, and training by the rule (10, 8)."""

from collections.abc import Callable

from taciturn.bench import statistics
from taciturn.bench.results import Results
from taciturn.bench.statistics import Estimate
from taciturn_papers.claims import (
    Claim,
    Range,
    above,
    alike,
    at_least,
    group_of,
    mean,
    number_of,
    read,
    rounded,
    together,
)
from taciturn_papers.jiang2020.model import slowest_geometric_sd, slowest_pareto_round, solve
from taciturn_papers.jiang2020.settings import CLIENTS, PAPER_RULE, PARTS, RULES, learning, timing

IID = CLIENTS["IID clients"]

REWARD_CURVE = (
    Claim(
        "Figure 3.2: R(k) = c - a/(k+1) fits the reward function well (R² of the fit, IID clients, digits)",
        "Section 3.4: 'from which we can see that … fits the reward function well'",
        "fits well",
        lambda r: number_of(r, IID, "r_squared"),
        alike(1, 0.1, "'fits … well'"),
        1.0,
        0.0,
        lambda r: (
            "the form c - a/k fits better, since averaging k of M updates leaves a variance proportional to 1/k. The "
            "R² of the paper's form and of c - a/k are "
            + "; ".join(
                f"{group_of(r, one).mean('r_squared'):.3f} and {group_of(r, one).mean('r_squared_shifted'):.3f} "
                f"({name})"
                for name, one in CLIENTS.items()
            )
        ),
    ),
    Claim(
        "Section 3.4: the reward function is 0.04 - 0.018/(k+1) (fitted c and a, IID clients, digits)",
        "Section 3.4: 'and defined the reward function to be R(k) = 0.04 - 0.018/(k+1)'",
        "0.04 and 0.018",
        lambda r: [number_of(r, IID, "c"), number_of(r, IID, "a")],
        (
            rounded(0.04, 0.01, "the paper rounds 0.04 to a multiple of 0.01"),
            rounded(0.018, 0.001, "the paper rounds 0.018 to a multiple of 0.001"),
        ),
        (0.04, 0.018),
        0.0,
        "we train softmax regression on digits; the paper trains a CNN on MNIST and does not give its training "
        "settings",
        ("c", "a"),
    ),
)

TIMES = {
    "geometric": "Section 3.4.1: 'the average simulated running time of a round with the optimal stopping rule … is "
    "3.45s, as well as 3.55s for k = 10 and 28.76s for k = 100'",
    "pareto": "Section 3.4.2: 'The average simulated running time of a round with the optimal stopping rule … is 5.7s, "
    "as well as 5.71s for k = 10 and 46.56s for k = 100'",
}
OF_100 = "two standard errors of a mean of 100 rounds (our assumption; the paper does not give the number of rounds)"
TIMED = ("(10, 8)", "k=10", "k=100")


def round_times(
    distribution: str, stated: tuple[float, ...], ranges: tuple[Range, ...], why: str | Callable[[Results], str]
) -> Claim:
    """A claim about the mean round times. Null: no waiting, a round of t0 = 3 s."""
    section, *_ = TIMES[distribution].partition(":")
    return Claim(
        f"{section}: rounds take {', '.join(f'{one:g}' for one in stated[:-1])} and {stated[-1]:g} s (mean "
        "time of a round with the rules (10, 8), k = 10 and k = 100)",
        TIMES[distribution],
        ", ".join(f"{one:g}" for one in stated),
        lambda r: [number_of(r, timing(distribution, *RULES[rule]), "mean_duration") for rule in TIMED],
        ranges,
        stated,
        3.0,
        why,
        TIMED,
    )


def losses(results: Results, distribution: str, rule: str) -> list[Estimate]:
    """(Loss of another rule - loss of the rule (10, 8)) / loss of that rule, after each part of the time."""
    ours, other = (group_of(results, learning(distribution, *RULES[one])) for one in ("(10, 8)", rule))
    pairs = (ours.paired(other, f"loss_{part}") for part in PARTS)
    return [mean((b - a) / a) for a, b in pairs]


def reduction(figure: str, distribution: str, rule: str, least: float, quote: str, why: str) -> Claim:
    """Figures 3.3 to 3.6. The reduction is relative to the loss of the rule (10, 8): it can exceed 100%."""
    label = rule.replace("=", " = ")
    return Claim(
        f"Figure {figure}: the rule (10, 8) has a lower loss than {label} throughout (loss of {label} minus the "
        "rule's, relative to the rule's)",
        quote,
        f"at least {least:g}",
        lambda r: losses(r, distribution, rule),
        at_least(least),
        least,
        0.0,
        why,
        tuple(f"after {3 * part} s" for part in PARTS),
    )


def over_k_10(results: Results) -> list[Estimate]:
    """The ratios of the rewards per second of two rules to the reward per second of k=10, under Pareto times."""
    found = []
    for rule in ("(10, 8)", "optimal"):
        pair = [timing("pareto", *RULES[name]) for name in (rule, "k=10")]
        rates = together(results, pair, "reward") / together(results, pair, "mean_duration")
        found.append(statistics.ratio(*rates))
    return found


LEARNS_FASTER = (
    "the model predicts only the order of the rules' rewards per second; how much the loss falls depends on the data "
    "and the time"
)

MCMAHAN = (1, 20, 50, 100)
"""The numbers of updates per round, other than 10, that McMahan et al. (2016) compare: fractions 0, .1, .2, .5 and 1 of
100 clients, where 0 is one client."""
GEOMETRIC = (
    Claim(
        "Section 3.4.1: lambda has the lower bound 0.01203 (bound of Corollary 1 in the stated model)",
        "Section 3.4.1: 'we first obtain lower bound … = 0.01203 and upper bound'",
        0.01203,
        lambda r: solve().bounds[0],
        rounded(0.01203, 1e-5),
        0.01203,
        0.01203 / 2,
        lambda r: (
            "the bound of Corollary 1 is R(1)/((1/mu + 1/p) tau + t0); 0.01203 exceeds the optimal rate itself. If "
            "R(k) = c - a/k, clients are always ready, and the corollary's bound is extended from 1 to k updates, it "
            f"becomes max R(k)/(t0 + (k+1) tau/mu) = {solve().later_rate:.5f}. This number is the paper's, but we "
            "found no derivation of it"
        ),
    ),
    Claim(
        "Section 3.4.1: lambda has the upper bound 0.01234 (bound of Corollary 2 in the stated model)",
        "Section 3.4.1: 'upper bound … = 0.01234'",
        0.01234,
        lambda r: solve().bounds[1],
        rounded(0.01234, 1e-5),
        0.01234,
        0.01234 / 2,
        lambda r: (
            "Corollary 2 gives the paper's number with R(k) = c - a/k instead of the stated c - a/(k+1): max R(k)/(t0 "
            f"+ k tau) = {solve().ready_rate:.5f}"
        ),
    ),
    Claim(
        "Section 3.4.1: lambda* is 0.01209 (optimal rate in the stated model)",
        "Section 3.4.1: 'We then found the optimal … = 0.01209'",
        0.01209,
        lambda r: solve().optimal_rate,
        read(
            0.01209,
            0.00031,
            "Algorithm 2 stops at |V| <= sigma = .001; with rounds of 3.2 s this determines lambda to within .001/3.2",
        ),
        0.01209,
        0.01209 / 2,
        lambda r: (
            "with R(k) = c - a/k and a queue that never empties, max R(k)/(t0 + k tau/mu) = "
            f"{solve().busy_rate[0]:.5f}, at k = {solve().busy_rate[1]}; the paper's p = 1/500 leaves the channel idle "
            "for most of a round. The rates in the stated model, and their ratios to the optimum, are "
            + ", ".join(
                f"{name}: {rate:.6f} ({100 * rate / solve().optimal_rate:.1f}%)" for name, rate in solve().rates.items()
            )
        ),
    ),
    Claim(
        "Section 3.4.1: thresholds k* and k0* are 10 and 8 (thresholds of the optimal rule in the stated model)",
        "Section 3.4.1: 'from which, we obtained that k*=10 and k*_0=8 for the optimal stopping rule'",
        str(PAPER_RULE),
        lambda r: [float(k) for k in solve().thresholds],
        (read(10, 0.5, "a whole number"), read(8, 0.5, "a whole number")),
        (10.0, 8.0),
        100.0,
        lambda r: (
            f"with p = 1 and R(k) = c - a/k the thresholds are {solve().ready_thresholds}. With p = 1/500 no "
            "lambda (the price of time) gives both k* = 10 and k0* = 8: waiting with an empty queue is too slow"
        ),
        ("k*", "k0*"),
    ),
    Claim(
        "Section 3.4.1: 10% is the best of McMahan et al.'s fractions (ratio of the rate of k = 10 to the rate of "
        "another k)",
        "Section 3.4.1: 'the 10% rule is selected by comparing different fractions and found the best one for each "
        "application McMahan et al. (2016)'",
        "the best",
        lambda r: [solve().fixed_rates[9] / solve().fixed_rates[k - 1] for k in MCMAHAN],
        above(1),
        1.05,
        1.0,
        lambda r: (
            f"of all fixed counts k = {solve().best_fixed[0]} has the largest rate, {solve().best_fixed[1]:.6f}, "
            f"{100 * (solve().best_fixed[1] / solve().fixed_rates[9] - 1):.1f}% above the rate of k = 10. McMahan et "
            "al. "
            "compare fractions 0 (one client), .1, .2, .5 and 1, with other computing and upload times"
        ),
        tuple(f"k = {k}" for k in MCMAHAN),
    ),
    round_times(
        "geometric",
        (3.45, 3.55, 28.76),
        (read(3.45, 0.03, OF_100), read(3.55, 0.033, OF_100), read(28.76, 1.3, OF_100)),
        lambda r: (
            f"the exact means are {', '.join(f'{name}: {solve().durations[name]:.4g}' for name in TIMED)}. The "
            f"time of the slowest client in a round of k=100 has a standard deviation of {slowest_geometric_sd():.1f} "
            "s"
        ),
    ),
    reduction(
        "3.3",
        "geometric",
        "k=100",
        1.7,
        "Section 3.4.1: 'the optimal stopping rule reduce the loss by at least 170% throughout the training process'",
        f"{LEARNS_FASTER}. Both curves start at the same loss",
    ),
    reduction(
        "3.4",
        "geometric",
        "k=10",
        0.07,
        'Section 3.4.1: \'even comparing to the "optimal" fixed k, the optimal stopping rule still reduces the loss '
        "function by 7% throughout'",
        LEARNS_FASTER,
    ),
    Claim(
        "Section 3.8: the rule (10, 8) has a lower loss than fixed k (loss of fixed k minus the rule's, relative to "
        "the rule's, after 300 s)",
        "Section 3.8: 'Our experiments on real data set shows the significant improvements compared with policies that "
        "collect a fixed number of updates in each iteration'",
        "improvements",
        lambda r: [losses(r, "geometric", rule)[-1] for rule in TIMED[1:]],
        above(0),
        (1.7, 0.07),
        0.0,
        LEARNS_FASTER,
        TIMED[1:],
    ),
)

PARETO = (
    round_times(
        "pareto",
        (5.7, 5.71, 46.56),
        (
            read(5.7, 0.08, OF_100),
            read(5.71, 0.08, OF_100),
            read(46.56, 10, "90% of the means of 100 rounds lie between 39 and 59 s"),
        ),
        f"the exact mean for k=100 is at least {slowest_pareto_round():.2f} s (broadcast, slowest of 100 clients and "
        "one upload); the time has infinite variance",
    ),
    reduction(
        "3.5",
        "pareto",
        "k=100",
        1.3,
        "Section 3.4.2: 'the optimal stopping rule still reduces the loss by at least 130% throughout the training "
        "process even transition and computation process follow heavy-tailed distribution'",
        LEARNS_FASTER,
    ),
    reduction(
        "3.6",
        "pareto",
        "k=10",
        0.045,
        'Section 3.4.2: \'even comparing to the "optimal" fixed k, the optimal stopping rule still reduces the loss '
        "function by 4.5% throughout'",
        "in the model the rewards per second of the two rules differ by less than 0.1%",
    ),
    Claim(
        "Under Pareto times the optimal stopping rules earn more than k=10 (ratio of the rewards per second)",
        "",
        "above 1",
        over_k_10,
        above(1),
        1.045,
        1.0,
        "with heavy tails, ten updates arrive almost together, so there is little to decide. If the remaining "
        "wait for the tenth update shrinks as time passes, thresholds solved for memoryless times stop too early",
        ("the paper's rule", "the rule solved for geometric times"),
        own=True,
    ),
)
