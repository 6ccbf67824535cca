"""Figures 5 to 7, Theorem 2 and Remark 2: participation, and limits on communication rounds."""

from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate
from taciturn_papers.claims import Claim, above, alike, at_most, equal, group_of, mean, number_of, ratio_of, rounded
from taciturn_papers.li2022 import formulas
from taciturn_papers.li2022.claims.shared import (
    CONSTANTS,
    LOGS,
    PREDICTED,
    REGRET,
    by_formulas,
    factor,
    regret_falls,
    spent,
    text,
    value_of,
)
from taciturn_papers.li2022.formulas import binding_epsilon, expected, growth, same_ratio
from taciturn_papers.li2022.fronts import pareto_front
from taciturn_papers.li2022.settings import AGENTS, ARMS, HORIZON, ROUNDS, SHARES, SHORT, constrained

FEW, EVERYONE = constrained(0.2, None, "uniform"), constrained(1.0, None, "uniform")
PARTICIPATION = (
    regret_falls(
        "Figure 5: regret falls as p grows (regret at one p minus regret at a larger p)",
        "Section VII-A2: 'shows that the regrets at … decrease as … increases'",
        "decreases",
        "p",
        SHARES,
        [constrained(p, None, "uniform") for p in SHARES],
    ),
    Claim(
        "Section IV-C2: p < 1 raises regret by at most a factor p^(-3/2) (ratio of the regrets at p = 0.2 and p = 1)",
        "Section IV-C2: 'turn to be a constant and p^(-3/2) R_C(T) regret can be achieved'",
        f"at most {text(0.2**-1.5)}",
        lambda r: ratio_of(r, FEW, EVERYONE, REGRET),
        at_most(0.2**-1.5),
        0.2**-1.5,
        50.0,
        lambda r: (
            "the ratio is about 1/p = 5, the factor of the sampling term of S(r). The privacy term has the factor "
            f"p^-1.5 and dominates only below epsilon = {text(binding_epsilon(10))} at N = 10. With full participation "
            f"the cost is {text(value_of(r, EVERYONE, 'cost') / value_of(r, FEW, 'cost'))} times as high"
        ),
    ),
    spent(
        2,
        "Theorem 2: 'is Mε-differentially private'",
        [(f"p = {p:g}", constrained(p, None, "uniform")) for p in SHARES],
    ),
)

BY_HORIZON = (("T = 10^5", HORIZON), ("T = 10^4", SHORT))
FREE_ROUNDS = constrained(None, None, "uniform", SHORT)


def why_not_alike(results: Results) -> str:
    """The ratio of the regrets on a grid, and how few arms make them close."""
    few = formulas.same_rounds()
    return (
        f"{PREDICTED} the ratio would be {text(same_ratio(ARMS))} on a grid of 100 arms. The two regrets would be "
        f"within 5% of each other on grids of at most {few} arms (a gap of {1 / few:.2f}); 100 uniform arms have a "
        "smallest gap of 0.01 on average"
    )


ROUND_LIMITS = (
    regret_falls(
        "Figure 6: regret falls as R grows (regret at one R minus regret at a larger R)",
        "Section VII-A2: 'shows that the regrets decrease with … increase'",
        "decreases",
        "R",
        ROUNDS,
        [constrained(None, n, "uniform") for n in ROUNDS],
    ),
    Claim(
        "Figure 6: the regrets with R = 4 and R = 5 are almost the same (ratio of the first to the second)",
        "Section VII-A2: 'the regret we reached at … and 5 are almost the same'",
        "almost the same",
        lambda r: [
            ratio_of(r, constrained(None, 4, "uniform", horizon), constrained(None, 5, "uniform", horizon), REGRET)
            for _, horizon in BY_HORIZON
        ],
        alike(1, 0.05, "'almost the same'"),
        1.0,
        2.0,
        why_not_alike,
        tuple(name for name, _ in BY_HORIZON),
    ),
    Claim(
        "Section VII-A2: all suboptimal arms are eliminated after log(T), about 4, rounds (number of rounds played, "
        "T = 10^4)",
        "Section VII-A2: 'we need about … communication rounds before eliminating all suboptimal arms'",
        "log(T), about 4",
        lambda r: number_of(r, FREE_ROUNDS, "rounds"),
        rounded(4, 1, "we read 'about' as rounded to a whole number"),
        4.0,
        12.0,
        lambda r: (
            "the paper's log(T) is 4 for T = 10^4 only with base 10, which the paper uses in no other formula. "
            f"{PREDICTED.capitalize()} a run would have {text(expected(FREE_ROUNDS)['rounds'])} rounds, and "
            f"{text(expected(constrained(None, None, 'uniform'))['rounds'])} at T = 10^5. At T = 10^4 a single arm is "
            f"left in {text(100 * value_of(r, FREE_ROUNDS, 'identified'))}% of the runs; the other runs reach T first"
        ),
    ),
)

PAIRS = [constrained(p, n, "uniform") for p in SHARES for n in ROUNDS]
CHEAPER = [*PAIRS, *(constrained(p, None, "uniform") for p in SHARES if p < 1)]
LIMITED, UNLIMITED = constrained(1.0, 5, "uniform"), constrained(1.0, None, "uniform")


def front(results: Results) -> list[Config]:
    """The parameters of the pairs (p, R) on the Pareto front of cost and regret, in increasing order of cost."""
    points = [(value_of(results, pair, "cost"), value_of(results, pair)) for pair in PAIRS]
    return [PAIRS[i]["policy_params"] for i in pareto_front(points)]


def least_loss(results: Results) -> Estimate:
    """The ratio of the smallest regret of the cheaper settings to the regret with all agents and no limit on rounds."""
    cheaper = [one for one in CHEAPER if value_of(results, one, "cost") < value_of(results, UNLIMITED, "cost")]
    return ratio_of(results, min(cheaper, key=lambda one: value_of(results, one)), UNLIMITED, REGRET)


CONSTRAINTS = (
    Claim(
        "Figure 7: cost and regret have a clear trade-off (number of pairs p, R on the Pareto front, out of "
        f"{len(PAIRS)})",
        "Section VII-A2: 'shows a clear trade-off between the communication cost and learning performance'",
        "clear",
        lambda r: float(len(front(r))),
        above(1),
        10.0,
        1.0,
        lambda r: (
            "the pairs on the front are "
            + "; ".join(f"p = {own['participation']}, R = {own['rounds']}" for own in front(r))
        ),
    ),
    Claim(
        "Remark 1: a cost below c1 M log T increases regret (ratio of the smallest regret at lower cost to the regret "
        "at p = 1, R unlimited)",
        "Remark 1: 'less than … may bring the performance loss'",
        "a loss",
        least_loss,
        above(1),
        1.5,
        1.0,
        f"the smallest regret is taken over the {len(CHEAPER)} settings that cost less",
    ),
    Claim(
        "Figure 7: the cost with R = 5, p = 1 is close to the largest cost (ratio to the cost with unlimited rounds)",
        "Section VII-A2: 'is close to the largest amount of required communication cost of the centralized setting'",
        "close",
        lambda r: ratio_of(r, LIMITED, UNLIMITED, "cost"),
        alike(1, 0.2, "'close to'"),
        1.0,
        0.4,
        lambda r: (
            f"runs have {text(value_of(r, LIMITED, 'rounds'))} rounds on average with R = 5, and "
            f"{text(value_of(r, UNLIMITED, 'rounds'))} without a limit"
        ),
    ),
    Claim(
        "Figure 7: the regret with R = 5, p = 1 is close to Figure 4's with epsilon = 1 (ratio of the first to the "
        "second)",
        "Section VII-A2: 'Correspondingly, the regret of this case is close to the performance in Fig. 4'",
        "close",
        lambda r: ratio_of(r, LIMITED, UNLIMITED, REGRET),
        alike(1, 0.1, "'close to'"),
        1.0,
        2.0,
        lambda r: (
            f"{PREDICTED} the ratio would be {by_formulas(LIMITED, UNLIMITED)}. The first epoch, in which all arms are "
            f"played, has the target accuracy Delta^(1/5) = {0.01**0.2:.2f} (Delta = 0.01) instead of 1/2, and so "
            f"takes {0.25 / 0.01**0.4:.2f} times as many pulls"
        ),
    ),
    Claim(
        "Theorem 2: the cost is at most c1 ceil(pM) R (ratio of the cost to this bound, p = 1)",
        "Theorem 2: 'incurs communication cost C(T) = c1⌈pM⌉R'",
        "at most 1",
        lambda r: [
            mean(group_of(r, constrained(1.0, n, "uniform")).metrics["cost"] / (25 * AGENTS * n)) for n in ROUNDS
        ],
        at_most(1),
        1.0,
        2.0,
        "a round that would end after T is not played",
        tuple(f"R = {n}" for n in ROUNDS),
    ),
    Claim(
        "Theorem 2: regret grows no faster than the bound with T^(2/R) instead of min{M, T^(2/R)} (ratio of growth "
        "factors, T = 10^6 to 10^8)",
        "Theorem 2: 'incurs regret … upper bounded by O(min{M, T^(2/R)/p^(3/2)} max{Σ_k log(R²KT)/Δ_k, R "
        "√log(R²KT)/(√M ε)})'",
        "at most 1",
        lambda r: growth(10**6, 10**8, 4)[0],
        at_most(1),
        1.0,
        7.5,
        f"{CONSTANTS}. The means form a grid, R = 4 and p = 1. For regret that is linear in T the ratio would be 7.5",
    ),
    Claim(
        "Remark 2: R >= 4 log T/(3 log pM) rounds are no worse than no communication (T^(2/R)/M at this R, p = 1, T = "
        "10^5)",
        "Remark 2: 'T^(2/R)/p^(3/2) ≤ M → R ≥ 4 log T/(3 log pM)'",
        "at most 1",
        lambda r: factor(4 * LOGS / 3) / AGENTS,
        at_most(1),
        1.0,
        2.0,
        f"T^(2/R)/p^1.5 <= M requires R >= 2 log T/log(p^1.5 M) = {2 * LOGS:.2f}, as Remarks 3 and 5 state for p = "
        f"1; the claim's R is only {4 * LOGS / 3:.2f}. The last line of the proof has R >= log T/log pM instead, "
        "and T^(1/R) in the minimum",
    ),
    Claim(
        "Section IV-C2: regret is M R_C(T) at R = 3 log T/(4 log M), p = 1 (ratio of min{M, T^(2/R)} at this R to M)",
        "Section IV-C2: 'the worst-cast regret is still M R_C(T) with R=3log T/4(log M)'",
        1.0,
        lambda r: min(AGENTS, factor(0.75 * LOGS)) / AGENTS,
        equal(1),
        1.0,
        0.5,
        f"this holds only because of the minimum, as for every R below 2 log T/log M = {2 * LOGS:.2f}. At the "
        f"claim's R = {0.75 * LOGS:.2f}, T^(2/R) is {text(factor(0.75 * LOGS) / AGENTS)} times M",
    ),
)
