"""The claims of Jiang 2020."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.envs import elicitation_v0
from taciturn.policies import Wintall
from taciturn_papers.claims import (
    Claim,
    NotRunError,
    Range,
    above,
    alike,
    at_least,
    at_most,
    group_of,
    mean,
    number_of,
    read,
    rounded,
    untested,
)
from taciturn_papers.jiang2020 import crowd, model
from taciturn_papers.jiang2020.crowd import BEST, GOOD, PAYMENT_CUT, PAYMENTS, SCORE_GAIN, TASKS, WORKERS
from taciturn_papers.jiang2020.model import COVERED, Exact, slowest_geometric_sd, slowest_pareto_round, solve
from taciturn_papers.jiang2020.settings import (
    CLIENTS,
    COSTS,
    PAPER_RULE,
    PARTS,
    THETAS,
    crowd_of,
    learning,
    timing,
)

EXACT = "rounding errors only, since it is an equation"
SLACK = 1e-9  # rounding error of a ratio of equal floats

# Chapter 2.

CASES = tuple((theta, cost) for theta in THETAS for cost in COVERED)
CASE_NAMES = tuple(f"{theta}, {cost}" for theta, cost in CASES)


def largest(results: Results, theta: str, cost: str) -> Group:
    """The results with the most individuals."""
    groups = list(results.select(theta=theta, cost=cost))
    if not groups:
        raise NotRunError(theta, cost)
    return max(groups, key=lambda group: group.config["num_individuals"])


def by_size(results: Results, theta: str, cost: str, metric: str) -> str:
    """An exact metric against the number of individuals."""
    groups = results.select(theta=theta, cost=cost)
    return ", ".join(f"{g.metrics[metric][0]:.4g} (N = {g.config['num_individuals']:,})" for g in groups)


def published_payment(theta: str, cost: str) -> float:
    """The expected payment by (2.22) at target 1, with the winner's probability as its share, divided by (2.19)."""
    shares, g = THETAS[theta], COSTS[cost]
    values, most = len(shares), max(shares)
    # P = (t + 1) / (1 + M), as a count among reports.
    count, reports = round(10 * (most + 1)), 10 * (1 + values)
    paid = Wintall.payment(count, reports, values, 1.0, float(g.marginal(1.0)))
    return float(paid * count / reports / elicitation_v0.payment_lower_bound(shares, 1.0, g))


def farthest(ratios: Floats) -> float:
    """The ratio farthest from 1."""
    return float(ratios[np.abs(ratios - 1).argmax()])


def equilibria(results: Results) -> str:
    """The gains of deviations with fewer individuals, and with a cost that the theorem does not cover."""
    most = max(float(group.metrics["gain_at_zero"].max()) for group in results.select())
    gains = "; ".join(
        f"for {theta} with a quadratic cost: {by_size(results, theta, 'quadratic', 'gain_at_target')}; for {theta} "
        "with a logarithmic cost, which the theorem does not cover: "
        f"{by_size(results, theta, 'logarithmic', 'gain_at_target')}"
        for theta in THETAS
    )
    gained = f"more than {most:.0e} of the bound" if most > 0 else "anything"
    return (
        f"the exact ratios are, {gains}. The target is not the only equilibrium: if all "
        f"individuals choose eps = 0, no deviation gains {gained}"
    )


def payments(results: Results) -> str:
    """The ratio of payment to bound against the number of individuals."""
    each = (f"for {theta}: {by_size(results, theta, 'quadratic', 'expected_ratio')}" for theta in THETAS)
    return (
        f"with a quadratic cost the exact ratios are, {'; '.join(each)}. The payment is close to the bound only in the "
        "limit of many individuals"
    )


THEOREMS = (
    Claim(
        "Theorem 1: no payment below min g' A induces the target quality (largest ratio of this bound, (2.13), to the "
        "smallest payment that does)",
        "Theorem 1: 'Consider the optimization problem defined by (2.10)-(2.12). We have … min g'(ε)A(ε,θ) ≤ E[R]'",
        "at most 1",
        lambda r: [float(model.printed_over_written(cost).max()) for cost in COVERED],
        at_most(1),
        1.0,
        2.0,
        "the bound is true but useless: g' A falls to 0 as eps grows if the cost is linear or quadratic. The smallest "
        "sufficient payment is (2.19), min g'/A over eps >= target. We give the largest ratio over two distributions "
        "and three targets",
        COVERED,
    ),
    Claim(
        "Equation (2.19): the bound of Theorem 1 is min g'/A (ratio of (2.13), as printed, to min g'/A: value "
        "farthest from 1)",
        "Section 2.3: 'Note that the lower bound can be written as … min g'(ε)/(∂P(x◊;(θ,ε))/∂ε) P(x◊;(θ,ε))'",
        1.0,
        lambda r: [farthest(model.printed_over_written(cost)) for cost in COVERED],
        read(1, SLACK, EXACT),
        1.0,
        0.0,
        "this is a misprint: (2.13) and the end of section 2.4 have g' A, while (2.19), (2.20) and WINTALL's own "
        "payment have "
        "g'/A. Equation (2.26) defines A as the smallest P/P', which is the inverse of A in (2.14)",
        COVERED,
    ),
    Claim(
        "Theorem 2: the target is the best response to any belief (ratio of the best response to the target: value "
        "farthest from 1)",
        "Theorem 2: 'then the target quality level … is a bias-proof Nash equilibrium under WINTALL'",
        1.0,
        lambda r: [model.trusted_response(cost) for cost in COVERED],
        read(1, 1e-5, "the accuracy of the search"),
        1.0,
        0.0,
        "we draw 150 beliefs over 2, 4 or 10 values at each of three targets. As the proof assumes, an individual "
        "expects the platform's estimate to equal its own belief",
        COVERED,
    ),
    Claim(
        "Theorem 2: the target is a Nash equilibrium (ratio of the best deviation's gain to the payment bound, exact)",
        "Section 2.3: 'shows that … is a bias-proof Nash equilibrium under WINTALL'",
        "no gain",
        lambda r: [float(largest(r, *case).metrics["gain_at_target"][0]) for case in CASES],
        alike(
            0,
            1e-3,
            "the paper expects no gain if 'the data collector can accurately estimate' theta (here N = 30,000)",
        ),
        0.0,
        0.1,
        equilibria,
        CASE_NAMES,
    ),
    Claim(
        "Theorem 2: with theta known the payment is the lower bound (ratio of (2.22) at the true share to the bound "
        "(2.19))",
        "Theorem 2: 'which equals to V when … = θ (i.e. the platform can accurately estimate … from the collected "
        "data)'",
        1.0,
        lambda r: [published_payment(*case) for case in CASES],
        read(1, SLACK, EXACT),
        1.0,
        0.5,
        "we divide by (2.19), because Theorem 1's V is misprinted",
        CASE_NAMES,
    ),
    Claim(
        "Section 2.3: with many individuals the payment is close to the bound (ratio of the payment to the bound "
        "(2.19), N = 30,000)",
        "Section 2.3: 'When there are a large number of data subjects, the data collector can accurately estimate … so "
        "the payment made to each data subject is close to the lower bound'",
        "close",
        lambda r: [
            *(float(largest(r, *case).metrics["expected_ratio"][0]) for case in CASES),
            *(mean(largest(r, *case).metrics["payment_ratio"]) for case in CASES),
        ],
        alike(1, 0.01, "'close to'"),
        1.0,
        2.0,
        payments,
        (*(f"{name}, exact" for name in CASE_NAMES), *(f"{name}, simulated" for name in CASE_NAMES)),
    ),
)

NO_WORKERS = (
    "the result depends on workers of Mechanical Turk, who cannot be simulated; our own checks use a model of them"
)
NOT_WORKERS = "this is a model of effort, fitted to three of the paper's counts"
WITH_BONUS = ("WINTALL-20", "WINTALL-40")


def cut(name: str, winners: float) -> float:
    """By how many percent payment is below Flat's if `winners` of the workers win the bonus."""
    base, bonus = PAYMENTS[name]
    return 100 * (1 - (base + bonus * winners / WORKERS) / 30)


def predicted(name: str) -> Floats:
    """The model's distribution of scores."""
    return crowd.scores(*crowd.fitted(), PAYMENTS[name][1])


def mean_gain(name: str) -> float:
    """By how many percent the model's mean score is above Flat's."""
    ours, flat = (float(predicted(one) @ np.arange(6)) for one in (name, "Flat"))
    return 100 * (ours / flat - 1)


def by_task(results: Results, name: str, other: str, value: str) -> tuple[Floats, Floats]:
    """A metric of each task under two rules, both [draws, 9] and paired."""
    one, two = (group_of(results, crowd_of(payment)) for payment in (name, other))
    pairs = [one.paired(two, f"{value}_{task + 1}") for task in range(TASKS)]
    first, second = (np.stack(values, axis=1) for values in zip(*pairs, strict=True))
    return first, second


def higher(results: Results, name: str, other: str, value: str) -> Estimate:
    """The number of tasks, of 9, with a higher mean score (or payment) under rule `name` than under `other`."""
    one, two = by_task(results, name, other, value)
    return mean((one > two).sum(1))


def gains(results: Results) -> str:
    """By how much mean scores are higher, by task."""
    found = []
    for name, other in TASKS_ABOVE:
        one, two = by_task(results, name, other, "score")
        found.append(f"{float((100 * (one / two - 1)).mean()):.1f}% ({name} above {other})")
    return (
        f"{NOT_WORKERS}. On average over tasks, the mean score is higher by {', '.join(found)}. The paper has 25.4%, "
        "47.3% and 17.7%"
    )


def errors(counts: tuple[int, ...]) -> tuple[Range, ...]:
    """Ranges for the counts of the experiment: two binomial standard deviations."""
    why = "two standard deviations of a count among 180 workers"
    return tuple(read(n, 2 * math.sqrt(n * (1 - n / WORKERS)), why) for n in counts)


TASKS_ABOVE = (("WINTALL-20", "Flat"), ("WINTALL-40", "Flat"), ("WINTALL-40", "WINTALL-20"))
TASKS_PAID = (("Flat", "WINTALL-20"), ("Flat", "WINTALL-40"), ("WINTALL-40", "WINTALL-20"))
COUNTS = (GOOD["WINTALL-40"], BEST["WINTALL-20"], BEST["WINTALL-40"])
CUTS = tuple(PAYMENT_CUT[name] for name in WITH_BONUS)
CROWD = (
    untested(
        "Figure 2.1: mean scores by task are higher with a bonus",
        "Section 2.6: 'for 7 of 9 tasks, WINTALL-20 yielded higher average scores than Flat, 25.4% increase on "
        "average, and for all 9 tasks, WINTALL-40 resulted in higher mean scores than Flat, 47.3% increase on average'",
        "7 and 9 of 9 tasks",
        NO_WORKERS,
    ),
    untested(
        "Figure 2.2: payments by task are lower with a bonus than without",
        "Section 2.6: 'for all tasks both WINTALL-20 and WINTALL-40 resulted in lower average payments than Flat'",
        "9 of 9 tasks",
        NO_WORKERS,
    ),
    untested(
        "Figure 2.3: there are more good answers with a bonus than without",
        "Section 2.6: 'The number of good answers (score 4 or 5) increases from 16 for Flat to 28 for WINTALL-20 and "
        "37 for WINTALL-40, respectively'",
        "16, 28, 37",
        NO_WORKERS,
    ),
    untested(
        "Figure 2.4: the mean score of all tasks rises with a bonus",
        "Section 2.6: 'Comparing to Flat, the average score increases by 19.4% and 37.5%, respectively'",
        "19.4% and 37.5%",
        NO_WORKERS,
    ),
    Claim(
        "Figure 2.4: payment is lower than with Flat (reduction in %, from the paper's own counts of very good "
        "answers)",
        "Section 2.6: 'while the average payment reduces by 30% and 24.4%, respectively'",
        "30% and 24.4%",
        lambda r: [cut(name, BEST[name]) for name in WITH_BONUS],
        (
            rounded(CUTS[0], 1, "the paper rounds 30% to a multiple of 1%"),
            rounded(CUTS[1], 0.1, "the paper rounds 24.4% to a multiple of 0.1%"),
        ),
        CUTS,
        0.0,
        "this assumes that the bonus was paid for score 5 only, and the base to all. If the bonus was paid for all "
        "'good' answers (scores 4 and 5), as the section says, the reductions would be {:.1f}% and {:.1f}%".format(
            *(cut(name, GOOD[name]) for name in WITH_BONUS)
        ),
        WITH_BONUS,
    ),
    Claim(
        "A model of effort for Figure 2.1: number of tasks, out of 9, with a higher mean score",
        "",
        "7, 9, 7",
        lambda r: [higher(r, *pair, "score") for pair in TASKS_ABOVE],
        above(TASKS / 2),
        (7.0, 9.0, 7.0),
        4.5,
        gains,
        tuple(f"{name} above {other}" for name, other in TASKS_ABOVE),
        own=True,
    ),
    Claim(
        "A model of effort for Figure 2.2: number of tasks, out of 9, with a higher payment",
        "",
        "9, 9, 8",
        lambda r: [higher(r, *pair, "payment") for pair in TASKS_PAID],
        above(TASKS / 2),
        (9.0, 9.0, 8.0),
        4.5,
        NOT_WORKERS,
        tuple(f"{name} above {other}" for name, other in TASKS_PAID),
        own=True,
    ),
    Claim(
        "A model of effort for Figure 2.3: number of good and of very good answers",
        "",
        ", ".join(map(str, COUNTS)),
        lambda r: [
            WORKERS * float(predicted("WINTALL-40")[4:].sum()),
            *(WORKERS * float(predicted(name)[5]) for name in WITH_BONUS),
        ],
        errors(COUNTS),
        tuple(map(float, COUNTS)),
        0.0,
        NOT_WORKERS,
        ("good, WINTALL-40", "very good, WINTALL-20", "very good, WINTALL-40"),
        own=True,
    ),
    Claim(
        "A model of effort for Figure 2.4: increase of the mean score and reduction of the payment, relative to Flat "
        "(%)",
        "",
        "19.4, 37.5; 30, 24.4",
        lambda r: [
            *map(mean_gain, WITH_BONUS),
            *(cut(name, WORKERS * float(predicted(name)[5])) for name in WITH_BONUS),
        ],
        above(0),
        (*(SCORE_GAIN[name] for name in WITH_BONUS), *CUTS),
        0.0,
        f"{NOT_WORKERS}. In the model, twice the bonus buys about twice the effort; in the experiment it buys less",
        (*(f"score, {name}" for name in WITH_BONUS), *(f"payment, {name}" for name in WITH_BONUS)),
        own=True,
    ),
)

# Chapter 3.

IID, SKEWED = CLIENTS.values()


def fit_note(results: Results) -> str:
    """A form that fits better than the paper's."""
    result = (
        f"{group_of(results, one).mean('r_squared'):.3f} and "
        f"{group_of(results, one).mean('r_squared_shifted'):.3f} ({name})"
        for name, one in CLIENTS.items()
    )
    fits = "; ".join(result)
    return (
        "the form c - a/k fits better, since averaging k of M updates leaves a variance proportional to 1/k. The R² "
        f"of the paper's form and of c - a/k are {fits}"
    )


REWARD_CURVE = (
    Claim(
        "Figure 3.2: R(k) = c - a/(k+1) fits the reward function well (R² of the fit, IID clients, digits)",
        "Section 3.4: 'from which we can see that … fits the reward function well'",
        "fits well",
        lambda r: number_of(r, IID, "r_squared"),
        alike(1, 0.1, "'fits … well'"),
        1.0,
        0.0,
        fit_note,
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


def exactly(
    statement: str,
    quote: str,
    stated: float,
    value: Callable[[Exact], float],
    ranges: Range,
    why: Callable[[Exact], str],
) -> Claim:
    """A claim about an exact number of the stated model; its null is half of the paper's number."""
    return Claim(
        statement,
        quote,
        stated,
        lambda r: value(solve()),
        ranges,
        stated,
        stated / 2,
        lambda r: why(solve()),
    )


def proved(statement: str, quote: str, stated: str | float, ranges: Any, paper: Any, null: Any, **more: Any) -> Claim:
    """A claim with a proof, about numbers that need no run."""
    value = more.pop("value")
    return Claim(statement, quote, stated, lambda r: value(), ranges, paper, null, **more)


TIMES = {
    "geometric": "Section 3.4.1: 'the average simulated running time of a round with the optimal stopping rule … is "
    "3.45s, as well as 3.55s for k = 10 and 28.76s for k = 100'",
    "pareto": "Section 3.4.2: 'The average simulated running time of a round with the optimal stopping rule … is 5.7s, "
    "as well as 5.71s for k = 10 and 46.56s for k = 100'",
}
OF_100 = "two standard errors of a mean of 100 rounds (our assumption; the paper does not give the number of rounds)"
K_10: Config = {"k": 10}
PAPERS: Config = {"thresholds": list(PAPER_RULE)}
RULES: tuple[tuple[str, str, Config], ...] = (
    ("(10, 8)", "OptimalStopping", PAPERS),
    ("k=10", "FixedCount", K_10),
    ("k=100", "WaitForAll", {}),
)


def round_times(
    distribution: str, stated: tuple[float, ...], ranges: tuple[Range, ...], why: str | Callable[[Results], str]
) -> Claim:
    """A claim about the mean round times. Null: no waiting, a round of t0 = 3 s."""
    section = {"geometric": "3.4.1", "pareto": "3.4.2"}[distribution]
    return Claim(
        f"Section {section}: rounds take {', '.join(f'{one:g}' for one in stated[:-1])} and {stated[-1]:g} s (mean "
        "time of a round with the rules (10, 8), k = 10 and k = 100)",
        TIMES[distribution],
        ", ".join(f"{one:g}" for one in stated),
        lambda r: [number_of(r, timing(distribution, policy, own), "mean_duration") for _, policy, own in RULES],
        ranges,
        stated,
        3.0,
        why,
        tuple(name for name, _, _ in RULES),
    )


def losses(results: Results, distribution: str, policy: str, own: Config) -> list[Estimate]:
    """(Loss of another rule - loss of the rule (10, 8)) / loss of that rule, after each part of the time."""
    ours, other = (
        group_of(results, learning(distribution, *one)) for one in (("OptimalStopping", PAPERS), (policy, own))
    )
    pairs = (ours.paired(other, f"loss_{part}") for part in PARTS)
    return [mean((b - a) / a) for a, b in pairs]


def reduction(
    figure: str, distribution: str, label: str, least: float, quote: str, policy: str, own: Config, why: str
) -> Claim:
    """Figures 3.3 to 3.6. The reduction is relative to the loss of the rule (10, 8): it can exceed 100%."""
    return Claim(
        f"Figure {figure}: the rule (10, 8) has a lower loss than {label} throughout (loss of {label} minus the "
        "rule's, relative to the rule's)",
        quote,
        f"at least {least:g}",
        lambda r: losses(r, distribution, policy, own),
        at_least(least),
        least,
        0.0,
        why,
        tuple(f"after {3 * part} s" for part in PARTS),
    )


def over_k_10(results: Results) -> list[Estimate]:
    """The ratios of the rewards per second of two rules to the reward per second of k=10, under Pareto times."""
    base = group_of(results, timing("pareto", "FixedCount", K_10))
    found = []
    for own in (PAPERS, {}):
        one = group_of(results, timing("pareto", "OptimalStopping", own))
        reward, other = one.paired(base, "reward")
        seconds, others = one.paired(base, "mean_duration")
        found.append(statistics.ratio(reward / seconds, other / others))
    return found


LEARNS_FASTER = (
    "the model predicts only the order of the rules' rewards per second; how much the loss falls depends on the data "
    "and the time"
)


def share(exact: Exact) -> str:
    """The rates of the rules relative to the optimum."""
    return ", ".join(
        f"{name}: {rate:.6f} ({100 * rate / exact.optimal_rate:.1f}%)" for name, rate in exact.rates.items()
    )


MCMAHAN = (1, 20, 50, 100)
"""The numbers of updates per round, other than 10, that McMahan et al. (2016) compare: fractions 0, .1, .2, .5 and 1 of
100 clients, where 0 is one client."""

CROWDS = (100, 1_000, 10_000)
K_STAR = math.sqrt(0.018 / (0.04 - 0.018 / 2) * (1 + (5 / 8) * 500 + (5 / 8) * 300))
"""Corollary 3's bound on k* in the stated model."""

GEOMETRIC = (
    exactly(
        "Section 3.4.1: lambda has the lower bound 0.01203 (bound of Corollary 1 in the stated model)",
        "Section 3.4.1: 'we first obtain lower bound … = 0.01203 and upper bound'",
        0.01203,
        lambda x: x.bounds[0],
        rounded(0.01203, 1e-5),
        lambda x: (
            "the bound of Corollary 1 is R(1)/((1/mu + 1/p) tau + t0); 0.01203 exceeds the optimal rate itself. If "
            "R(k) = c - a/k, clients are always ready, and the corollary's bound is extended from 1 to k updates, it "
            f"becomes max R(k)/(t0 + (k+1) tau/mu) = {x.later_rate:.5f}. This number is the paper's, but we found no "
            "derivation of it"
        ),
    ),
    exactly(
        "Section 3.4.1: lambda has the upper bound 0.01234 (bound of Corollary 2 in the stated model)",
        "Section 3.4.1: 'upper bound … = 0.01234'",
        0.01234,
        lambda x: x.bounds[1],
        rounded(0.01234, 1e-5),
        lambda x: (
            "Corollary 2 gives the paper's number with R(k) = c - a/k instead of the stated c - a/(k+1): max R(k)/(t0 "
            f"+ k tau) = {x.ready_rate:.5f}"
        ),
    ),
    exactly(
        "Section 3.4.1: lambda* is 0.01209 (optimal rate in the stated model)",
        "Section 3.4.1: 'We then found the optimal … = 0.01209'",
        0.01209,
        lambda x: x.optimal_rate,
        read(
            0.01209,
            0.00031,
            "Algorithm 2 stops at |V| <= sigma = .001; with rounds of 3.2 s this determines lambda to within .001/3.2",
        ),
        lambda x: (
            f"with R(k) = c - a/k and a queue that never empties, max R(k)/(t0 + k tau/mu) = {x.busy_rate[0]:.5f}, at "
            f"k = {x.busy_rate[1]}; the paper's p = 1/500 leaves the channel idle for most of a round. The rates "
            f"in the stated model, and their ratios to the optimum, are {share(x)}"
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
            f"the exact means are {', '.join(f'{name}: {solve().durations[name]:.4g}' for name, _, _ in RULES)}. The "
            f"time of the slowest client in a round of k=100 has a standard deviation of {slowest_geometric_sd():.1f} "
            "s"
        ),
    ),
    reduction(
        "3.3",
        "geometric",
        "k = 100",
        1.7,
        "Section 3.4.1: 'the optimal stopping rule reduce the loss by at least 170% throughout the training process'",
        "WaitForAll",
        {},
        f"{LEARNS_FASTER}. Both curves start at the same loss",
    ),
    reduction(
        "3.4",
        "geometric",
        "k = 10",
        0.07,
        'Section 3.4.1: \'even comparing to the "optimal" fixed k, the optimal stopping rule still reduces the loss '
        "function by 7% throughout'",
        "FixedCount",
        K_10,
        LEARNS_FASTER,
    ),
    Claim(
        "Section 3.8: the rule (10, 8) has a lower loss than fixed k (loss of fixed k minus the rule's, relative to "
        "the rule's, after 300 s)",
        "Section 3.8: 'Our experiments on real data set shows the significant improvements compared with policies that "
        "collect a fixed number of updates in each iteration'",
        "improvements",
        lambda r: [losses(r, "geometric", policy, own)[-1] for _, policy, own in RULES[1:]],
        above(0),
        (1.7, 0.07),
        0.0,
        LEARNS_FASTER,
        ("k=10", "k=100"),
    ),
    proved(
        "Corollary 1: the optimal rate is at least the bound (largest ratio of the bound to the rate in 36 models)",
        "Corollary 1: 'is lower bounded by … R(1)/((1/μ+1/p)τ+t0)'",
        "at most 1",
        at_most(1),
        1.0,
        1.1,
        value=lambda: model.corollaries()[0],
        explanation="the corollary holds, but the paper's number for the stated model does not follow from it",
    ),
    proved(
        "Corollary 2: the optimal rate is at most the bound (largest ratio of the rate to the bound in 36 models)",
        "Corollary 2: 'is upper bounded by … max_k R(k)/(kτ+t0)'",
        "at most 1",
        at_most(1),
        1.0,
        1.1,
        value=lambda: model.corollaries()[1],
        explanation="the corollary holds, but the paper's number for the stated model does not follow from it",
    ),
    proved(
        "Corollary 3: k* < sqrt(a/(c - a/2) (1 + mu/p + mu t0/tau)) (largest ratio of k* to the bound in 36 models)",
        "Corollary 3: 'Given R(k) = c - a/(k+1), we have k* < √(a/(c-a/2)(1+μ/p+μt0/τ))'",
        "at most 1",
        at_most(1),
        1.0,
        1.1,
        value=lambda: model.corollaries()[2],
        explanation="we take k* at the optimal rate; the bound is loose and does not depend on M",
    ),
    proved(
        "Section 3.2: the complexity of Algorithm 1 is O(M) (number of terms, divided by M and by the square of "
        "Corollary 3's bound)",
        "Section 3.2: 'Therefore, the complexity of the algorithm for (3.2) is O(M(k*)²) = O(M)'",
        "at most 1",
        at_most(1),
        1.0,
        2.0,
        value=lambda: [model.terms(clients) / (clients * K_STAR**2) for clients in CROWDS],
        explanation="we use the bound on k* in the stated model; it does not depend on M",
        labels=tuple(f"M = {clients:,}" for clients in CROWDS),
    ),
    proved(
        "Theorem 3: pi_lambda is optimal for the rate if V_lambda = 0 (ratio of the rate of this rule to lambda*)",
        "Theorem 3: 'then the policy π* is also optimal for maximizing E[R(K_N)]/E[Nτ+t0]'",
        1.0,
        read(1, SLACK, EXACT),
        1.0,
        0.9,
        value=lambda: model.theorem_3()[1],
        explanation=lambda r: (
            f"at lambda = lambda*, |V| is {model.theorem_3()[0]:.1g} relative to R(M). The theorem's first equation "
            "has "
            "a stray lambda in the denominator; with it, the quotient would be 1 instead of lambda"
        ),
    ),
    proved(
        "Theorem 4: a threshold rule is optimal for (3.2) (1 + (value of the rule - best value) / R(M), farthest from "
        "1)",
        "Theorem 4: 'The following threshold policy is optimal for Problem (3.2)'",
        1.0,
        read(1, SLACK, EXACT),
        1.0,
        0.9,
        value=lambda: model.theorem_4(),
        explanation="we solve the Bellman equations in all states (k, beta), for concave R, in 16 models at two "
        "values of lambda",
    ),
    proved(
        "Lemma 1: V = R(k*) - lambda (n tau + t0) - (k - k*) lambda tau/mu (ratio of the rise of V per update to "
        "lambda tau/mu)",
        "Lemma 1: 'V(k,β,n) = R(k*) - λ(nτ+t0) - (k-k*)λτ/μ'",
        -1.0,
        read(-1, 1e-6, EXACT),
        -1.0,
        1.0,
        value=lambda: model.lemma_1(),
        explanation="the lemma has a slip of sign: with k* - k, as in Algorithm 1, it holds (in a model with M = 12)",
    ),
    proved(
        "Lemma 2: V is decreasing and convex in lambda (largest slope, and smallest second difference)",
        "Lemma 2: 'is decreasing and convex in λ'",
        "at most 0, at least 0",
        (at_most(0), at_least(-1e-12)),
        (-1.0, 0.0),
        (1.0, -1.0),
        value=lambda: model.lemma_2(),
        labels=("slope", "second difference"),
    ),
    proved(
        "Lemma 3: V(k, beta, n + 1) = V(k, beta, n) - lambda tau (ratio of the difference to -lambda tau: value "
        "farthest from 1)",
        "Lemma 3: 'For any state (k,β,n) with n ≥ k, V(k,β,n+1) = V(k,β,n) - λτ'",
        1.0,
        read(1, SLACK, EXACT),
        1.0,
        0.0,
        value=lambda: model.lemma_3(),
        explanation="we use backward induction over time, with M = 4",
    ),
    proved(
        "Lemma 4: from k* on, stopping is optimal (largest difference in value, waiting minus stopping, relative to "
        "R(M))",
        "Lemma 4: 'For all states with k ≥ k* and n ≥ k, optimal action rule is to stop'",
        "at most 0",
        at_most(0),
        0.0,
        0.1,
        value=lambda: model.lemmas_4_and_5()[0],
        explanation="we check all states of 16 models at two values of lambda",
    ),
    proved(
        "Lemma 5: below k*, waiting is optimal if an update is queued (smallest difference in value, waiting minus "
        "stopping, relative to R(M))",
        "Lemma 5: 'For all states with k < k*, n ≥ k and β ≥ 1, optimal rules are to continue'",
        "at least 0",
        at_least(0),
        0.0,
        -0.1,
        value=lambda: model.lemmas_4_and_5()[1],
        explanation="we check all states of 16 models at two values of lambda",
    ),
    proved(
        "Lemma 6: if waiting is optimal at (k, 0), it is also optimal at (k - 1, 0) (number of states that violate "
        "this)",
        "Lemma 6: 'if optimal rule for state (k, 0, n) is to continue, then optimal rule for (k - 1, 0, n) is also to "
        "continue'",
        "at most 0",
        at_most(0),
        0.0,
        1.0,
        value=lambda: float(model.lemma_6()),
        explanation="we check all states with k < k* of 16 models at two values of lambda. The proof has 0 < V' >= V'' "
        "where V' <= V'' is meant",
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
        "k = 100",
        1.3,
        "Section 3.4.2: 'the optimal stopping rule still reduces the loss by at least 130% throughout the training "
        "process even transition and computation process follow heavy-tailed distribution'",
        "WaitForAll",
        {},
        LEARNS_FASTER,
    ),
    reduction(
        "3.6",
        "pareto",
        "k = 10",
        0.045,
        'Section 3.4.2: \'even comparing to the "optimal" fixed k, the optimal stopping rule still reduces the loss '
        "function by 4.5% throughout'",
        "FixedCount",
        K_10,
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
