"""The claims of Li & Song 2022. Its figures show no readable numbers, so we test the statements of its text. Means are
random, as in the paper, unless a statement says that they form a grid."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from taciturn.bench import statistics
from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate
from taciturn.bench.tables import interval
from taciturn.envs.federated_bandit.protocol import information_sharing
from taciturn_papers.claims import (
    Claim,
    Numbers,
    Range,
    above,
    alike,
    at_least,
    at_most,
    falling,
    group_of,
    mean,
    number_of,
    ratio_of,
    read,
    rounded,
)
from taciturn_papers.li2022 import formulas, settings
from taciturn_papers.li2022.formulas import binding_agents, binding_epsilon, expected, growth, same_ratio, waiting
from taciturn_papers.li2022.fronts import pareto_front
from taciturn_papers.li2022.settings import (
    ARMS,
    HORIZON,
    ROUNDS,
    SHARES,
    SHORT,
    at_epsilon,
    constrained,
    few_agents,
    in_components,
    in_structure,
    on_graph,
)

REGRET, WAITING = "regret_per_agent", "regret_waiting"
ONE = at_most(1 + 1e-9)  # the rounded ratio of equal numbers may exceed 1
EXACT = "rounding errors only, since it is an equation"


def text(value: float) -> str:
    """Three significant digits; all digits above 100."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def listed(values: Iterable[tuple[Any, float]]) -> str:
    """`98 (star), 1,250 (ring)`."""
    return ", ".join(f"{text(value)} ({name})" for name, value in values)


def value_of(results: Results, config: Config, metric: str = REGRET) -> float:
    """Mean of a metric in one setting, for an explanation."""
    return group_of(results, config).mean(metric)


def per_round(results: Results, config: Config, metric: str) -> float:
    """A cost per communication round."""
    return value_of(results, config, metric) / value_of(results, config, "rounds")


PREDICTED = "with every estimate at its expectation"


def by_formulas(one: Config, other: Config) -> str:
    """The ratio of the regret in setting `one` to the regret in `other`, by the formulas."""
    return f"{PREDICTED} the ratio would be {text(expected(one)['regret'] / expected(other)['regret'])}"


def regret_falls(
    statement: str, quote: str, stated: str, symbol: str, names: Sequence[float], chosen: Sequence[Config]
) -> Claim:
    """A claim that the regret falls along the settings."""

    def along(regrets: Iterable[float]) -> str:
        return ", ".join(f"{text(x)} at {symbol} = {name:g}" for name, x in zip(names, regrets, strict=True))

    def why(results: Results) -> str:
        runs = along(value_of(results, one) for one in chosen)
        return f"regret is {runs}; {PREDICTED} it would be {along(expected(one)['regret'] for one in chosen)}"

    return falling(statement, quote, stated, [f"{name:g}" for name in names], chosen, REGRET, why)


def ratio(
    statement: str,
    quote: str,
    stated: str,
    one: Config,
    other: Config,
    ranges: Range,
    paper: float,
    null: float,
    why: Callable[[Results], str],
    metric: str = REGRET,
) -> Claim:
    """A claim about the ratio of a metric in setting `one` to the same metric in `other`."""
    return Claim(statement, quote, stated, lambda r: ratio_of(r, one, other, metric), ranges, paper, null, why)


def exact(
    statement: str,
    quote: str,
    stated: str | float,
    value: Callable[[], Numbers],
    ranges: Range | tuple[Range, ...],
    paper: float | tuple[float, ...],
    null: float | tuple[float, ...],
    why: Callable[[], str],
    labels: tuple[str, ...] = ("",),
) -> Claim:
    """A claim about numbers that need no run."""
    return Claim(statement, quote, stated, lambda r: value(), ranges, paper, null, lambda r: why(), labels)


def spent(theorem: int, quote: str, settings_of: Sequence[tuple[str, Config]]) -> Claim:
    """Theorems 1 to 4: each message is (M epsilon)-differentially private."""

    def measured(results: Results) -> Numbers:
        return [
            value_of(results, one, "epsilon_message")
            / (one["env_params"]["num_agents"] * one["policy_params"]["epsilon"])
            for _, one in settings_of
        ]

    return Claim(
        f"Theorem {theorem}: M epsilon-differential privacy holds for each message (ratio of its epsilon in the "
        "accountant to M epsilon)",
        quote,
        "at most 1",
        measured,
        ONE,
        1.0,
        math.inf,
        "each upload, a mean of n rewards, gets noise Lap(1 / (N epsilon n)) if N agents upload",
        tuple(name for name, _ in settings_of),
    )


CONSTANTS = (
    f"the growth is computed {PREDICTED}. The paper does not give the constants of the bound, so we compare only the "
    "growth with T"
)

# Figure 4, Theorem 1 and Remark 1.

FIGURE_4 = (0.1, 0.3, 0.5, 1.0)
AT_ONE, FREE = (at_epsilon(e, "uniform") for e in (1.0, settings.UNBOUNDED))
QUIET = at_epsilon(FIGURE_4[0], "uniform", noise=False)
AGENTS = AT_ONE["env_params"]["num_agents"]


def vacuous(results: Results) -> str:
    """Whether epsilon = 1 is non-private in respects other than the regret."""
    reported = value_of(results, AT_ONE, "rewards_reported")
    return (
        f"this holds for the regret. Noise and C(r) still depend on epsilon: {PREDICTED} the regret would be "
        f"{text(expected(AT_ONE)['regret'])}, and {text(expected(FREE)['regret'])} without privacy. The privacy loss "
        "is finite but vacuous: at user level the accountant gives epsilon = "
        f"{text(value_of(results, AT_ONE, 'epsilon_user'))}; M epsilon for each of the {text(reported)} reported "
        f"rewards would add up to {text(AGENTS * reported)}"
    )


def condition(results: Results) -> str:
    """Whether the condition of Section IV-C1 holds, and the consequences of the first term's dominance."""
    least = math.sqrt(AGENTS) / math.sqrt(math.log(HORIZON))
    quiet, noisy = (text(value_of(results, one)) for one in (QUIET, at_epsilon(FIGURE_4[0], "uniform")))
    return (
        f"the condition holds at all of the figure's epsilons for gaps below {text(FIGURE_4[0] * least)}; 100 uniform "
        "arms have a smallest gap of 0.01 on average. At epsilon = 0.1 the second term would dominate only with "
        f"{binding_agents(0.1)} agents or fewer. Regret depends on epsilon in the figure because the privacy term of "
        f"C(r) keeps arms longer, not because of the noise: at epsilon = 0.1 regret is {noisy} with noise, and {quiet} "
        "without noise but with the same C(r)"
    )


PRIVACY = (
    regret_falls(
        "Figure 4: regret grows as epsilon shrinks (regret at one epsilon minus regret at a larger epsilon)",
        "Section VII-A1: 'the regret increases with the decreasing of … (higher level of privacy), since larger noises "
        "are added on the local update estimations'",
        "increases",
        "epsilon",
        FIGURE_4,
        [at_epsilon(e, "uniform") for e in FIGURE_4],
    ),
    ratio(
        "Figure 4: epsilon = 1 is the non-private case (ratio of the regret at epsilon = 1 to the regret without "
        "privacy)",
        "Section VII-A1: '… indicates the non-private case'",
        "non-private",
        AT_ONE,
        FREE,
        alike(1, 0.05, "'non-private case'"),
        1.0,
        1.5,
        vacuous,
    ),
    Claim(
        "Section IV-C1: the first term of S(r) dominates in Figure 4 (largest ratio of the second term to the first)",
        "Section IV-C1: 'If Δ < ε√M/√log(T), the first term dominate and we achieve O(log T/Δ) regret'",
        "at most 1",
        lambda r: [binding_epsilon(AGENTS) / e for e in FIGURE_4],
        at_most(1),
        1.0,
        2.0,
        condition,
        tuple(f"epsilon = {e:g}" for e in FIGURE_4),
    ),
    spent(
        1,
        "Theorem 1: 'is Mε-differentially private'",
        [(f"epsilon = {e:g}", at_epsilon(e, "uniform")) for e in FIGURE_4],
    ),
    exact(
        "Theorem 1: regret grows no faster than the bound (ratio of growth factors of regret and bound, T = 10^6 to "
        "10^8, means on a grid)",
        "Theorem 1: 'incurs regret … upper bounded by O(max{Σ_k log(KT log T)/Δ_k, K log T √log(KT log T)/(√M ε)})'",
        "at most 1",
        lambda: growth(10**6, 10**8)[0],
        at_most(1),
        1.0,
        75.0,
        lambda: f"{CONSTANTS}. For regret that is linear in T the ratio would be 75",
    ),
    exact(
        "Theorem 1: the cost is O(c1 M log T) (ratio of growth factors of cost and log T, T = 10^6 to 10^8, means on a "
        "grid)",
        "Theorem 1: 'incurs communication cost C_C(T) = O(c1 M log T)'",
        "at most 1",
        lambda: growth(10**6, 10**8)[1],
        at_most(1),
        1.0,
        75.0,
        lambda: CONSTANTS,
    ),
    exact(
        "Remark 1: O(log T) regret needs a cost of order c1 M log T (ratio of growth factors of cost and log T, T = "
        "10^6 to 10^8, means on a grid)",
        "Remark 1: 'The communication cost C_C(T) = O(c1 M log T) is the minimum cost needed to achieve O(log T) order "
        "regret'",
        "at least 1",
        lambda: growth(10**6, 10**8)[1],
        at_least(1),
        1.0,
        0.5,
        lambda: (
            "in a fixed instance the algorithm itself has O(log T) regret and needs at most ceil(log2(1/Delta) + 1) = "
            f"{math.ceil(math.log2(ARMS) + 1)} rounds at any T. It needs log T rounds only if the gap shrinks with T"
        ),
    ),
)

# Figures 5 to 7, Theorem 2 and Remark 2.

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
    ratio(
        "Section IV-C2: p < 1 raises regret by at most a factor p^(-3/2) (ratio of the regrets at p = 0.2 and p = 1)",
        "Section IV-C2: 'turn to be a constant and p^(-3/2) R_C(T) regret can be achieved'",
        f"at most {text(0.2**-1.5)}",
        FEW,
        EVERYONE,
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


def four_and_five(results: Results) -> Numbers:
    """Figure 6: the ratio of the regret with R = 4 to the regret with R = 5."""
    pairs = ([constrained(None, n, "uniform", horizon) for n in (4, 5)] for _, horizon in BY_HORIZON)
    return [ratio_of(results, four, five, REGRET) for four, five in pairs]


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
        four_and_five,
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
LOGS = math.log(HORIZON) / math.log(AGENTS)


def front(results: Results) -> list[Config]:
    """The parameters of the pairs (p, R) on the Pareto front of cost and regret, in increasing order of cost."""
    points = [(value_of(results, pair, "cost"), value_of(results, pair)) for pair in PAIRS]
    return [PAIRS[i]["policy_params"] for i in pareto_front(points)]


def least_loss(results: Results) -> Estimate:
    """The ratio of the smallest regret of the cheaper settings to the regret with all agents and no limit on rounds."""
    cheaper = [one for one in CHEAPER if value_of(results, one, "cost") < value_of(results, UNLIMITED, "cost")]
    return ratio_of(results, min(cheaper, key=lambda one: value_of(results, one)), UNLIMITED, REGRET)


def factor(rounds: float) -> float:
    """T^(2/R), the factor of Theorem 2 at p = 1."""
    return float(HORIZON ** (2 / rounds))


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
        lambda r: f"the smallest regret is taken over the {len(CHEAPER)} settings that cost less",
    ),
    ratio(
        "Figure 7: the cost with R = 5, p = 1 is close to the largest cost (ratio to the cost with unlimited rounds)",
        "Section VII-A2: 'is close to the largest amount of required communication cost of the centralized setting'",
        "close",
        LIMITED,
        UNLIMITED,
        alike(1, 0.2, "'close to'"),
        1.0,
        0.4,
        lambda r: (
            f"runs have {text(value_of(r, LIMITED, 'rounds'))} rounds on average with R = 5, and "
            f"{text(value_of(r, UNLIMITED, 'rounds'))} without a limit"
        ),
        "cost",
    ),
    ratio(
        "Figure 7: the regret with R = 5, p = 1 is close to Figure 4's with epsilon = 1 (ratio of the first to the "
        "second)",
        "Section VII-A2: 'Correspondingly, the regret of this case is close to the performance in Fig. 4'",
        "close",
        LIMITED,
        UNLIMITED,
        alike(1, 0.1, "'close to'"),
        1.0,
        2.0,
        lambda r: (
            f"{by_formulas(LIMITED, UNLIMITED)}. The first epoch, in which all arms are played, has the target "
            f"accuracy Delta^(1/5) = {0.01**0.2:.2f} (Delta = 0.01) instead of 1/2, and so takes "
            f"{0.25 / 0.01**0.4:.2f} times as many pulls"
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
    exact(
        "Theorem 2: regret grows no faster than the bound with T^(2/R) instead of min{M, T^(2/R)} (ratio of growth "
        "factors, T = 10^6 to 10^8)",
        "Theorem 2: 'incurs regret … upper bounded by O(min{M, T^(2/R)/p^(3/2)} max{Σ_k log(R²KT)/Δ_k, R "
        "√log(R²KT)/(√M ε)})'",
        "at most 1",
        lambda: growth(10**6, 10**8, 4)[0],
        at_most(1),
        1.0,
        7.5,
        lambda: (
            f"{CONSTANTS}. The means form a grid, R = 4 and p = 1. For regret that is linear in T the ratio would be "
            "7.5"
        ),
    ),
    exact(
        "Remark 2: R >= 4 log T/(3 log pM) rounds are no worse than no communication (T^(2/R)/M at this R, p = 1, T = "
        "10^5)",
        "Remark 2: 'T^(2/R)/p^(3/2) ≤ M → R ≥ 4 log T/(3 log pM)'",
        "at most 1",
        lambda: factor(4 * LOGS / 3) / AGENTS,
        at_most(1),
        1.0,
        2.0,
        lambda: (
            f"T^(2/R)/p^1.5 <= M requires R >= 2 log T/log(p^1.5 M) = {2 * LOGS:.2f}, as Remarks 3 and 5 state for p = "
            f"1; the claim's R is only {4 * LOGS / 3:.2f}. The last line of the proof has R >= log T/log pM instead, "
            "and T^(1/R) in the minimum"
        ),
    ),
    exact(
        "Section IV-C2: regret is M R_C(T) at R = 3 log T/(4 log M), p = 1 (ratio of min{M, T^(2/R)} at this R to M)",
        "Section IV-C2: 'the worst-cast regret is still M R_C(T) with R=3log T/4(log M)'",
        1.0,
        lambda: min(AGENTS, factor(0.75 * LOGS)) / AGENTS,
        read(1, 1e-9, EXACT),
        1.0,
        0.5,
        lambda: (
            f"this holds only because of the minimum, as for every R below 2 log T/log M = {2 * LOGS:.2f}. At the "
            f"claim's R = {0.75 * LOGS:.2f}, T^(2/R) is {text(factor(0.75 * LOGS) / AGENTS)} times M"
        ),
    ),
)

# Figure 8.

ALIKE, DIFFER = few_agents("CDPMAB", "uniform"), few_agents("CDPMAB", "heterogeneous")
ALONE, LONE = few_agents("SingleAgent", "uniform"), few_agents("SingleAgent", "heterogeneous")


def slope_note(results: Results) -> str:
    """The regret per slot of agents that play their own best arm."""
    lost = formulas.bias_slope(LONE["env_params"]["num_arms"], LONE["env_params"]["num_agents"])
    ends = [text(value_of(results, one, "final_slope")) for one in (DIFFER, ALONE)]
    return (
        f"agents that play their own best arm lose {text(lost)} per slot on average, over 4,000 drawn instances. At "
        f"the end of a run CDP-MAB loses {ends[0]} per slot, and single agents lose {ends[1]} with homogeneous rewards"
    )


def on_a_grid() -> str:
    """The ratio of regrets by the formulas on a grid, to compare with 1/M."""
    together, alone = (expected(few_agents(policy, "grid"))["regret"] for policy in ("CDPMAB", "SingleAgent"))
    return text(together / alone)


HETEROGENEITY = (
    ratio(
        "Figure 8: CDP-MAB has similar regret with heterogeneous and homogeneous rewards (ratio of the first to the "
        "second)",
        "Section VII-A3: 'our proposed method obtain similar regrets under two reward structures'",
        "similar",
        DIFFER,
        ALIKE,
        alike(1, 0.3, "'similar'"),
        1.0,
        5.0,
        lambda r: (
            f"{by_formulas(DIFFER, ALIKE)}. Averaged over agents, the means of the arms are closer together. Smaller "
            "gaps take longer to resolve, but an inferior arm costs less"
        ),
    ),
    ratio(
        "Figure 8: CDP-MAB reaches 1/M of a single agent's regret with homogeneous rewards (ratio of the regrets, M = "
        "5)",
        "Section VII-A3: 'which reached … of the single-agent performance under homogeneous reward'",
        "0.2",
        ALIKE,
        ALONE,
        read(0.2, 0.02, "1/M with M rounded to an integer, from 1/5.5 to 1/4.5"),
        0.2,
        1.0,
        lambda r: (
            f"{by_formulas(ALIKE, ALONE)}, and {on_a_grid()} for means on a grid. The ratio is 1/M if T is large "
            "enough for a single agent to finish exploring; at T = 10^5 a single agent would have "
            f"{text(expected(ALONE)['left'])} arms left on average"
        ),
    ),
    Claim(
        "Figure 8: single agents have linear regret with heterogeneous rewards (ratio of the last fifth's slope to the "
        "mean slope)",
        "Section VII-A3: 'the inconsistency will bring a linear regret with'",
        "linear",
        lambda r: mean(group_of(r, LONE).metrics["final_slope"] * HORIZON / group_of(r, LONE).metrics[REGRET]),
        alike(1, 0.2, "'linear'"),
        1.0,
        0.0,
        slope_note,
    ),
)

# Figure 10, Table I, Theorem 3 and slips in the formulas.

NAMES = ("complete", "star", "ring", "random")
SLOTS = waiting("ring", AGENTS)
GRAPH = {name: on_graph(name, "uniform") for name in NAMES}
ORDER = (("random", "star"), ("ring", "random"), ("ring", "star"), ("ring", "complete"))


def waits_longer(results: Results) -> Numbers:
    """The regret while waiting on the first graph of each pair minus the same on the second."""
    pairs = ((group_of(results, GRAPH[a]), group_of(results, GRAPH[b])) for a, b in ORDER)
    return [statistics.difference(*a.paired(b, WAITING)) for a, b in pairs]


def why_not_seen(results: Results) -> str:
    """How small the regret while waiting is."""
    result = listed((name, value_of(results, one, WAITING)) for name, one in GRAPH.items())
    formula = text(expected(GRAPH["ring"], 10)["waited"])
    part = value_of(results, GRAPH["ring"], WAITING) / value_of(results, GRAPH["ring"])
    return (
        f"the regret while waiting is {result}. If every estimate equals its expectation, and only the arms that "
        f"waiting agents play are random, the ring's regret while waiting is {formula}. Apart from the regret while "
        f"waiting, the graphs have nearly the same expected regret. Waiting is only {100 * part:.2g}% of the ring's "
        "regret, too little to see in a figure, because an agent's own best arm is nearly optimal"
    )


ACCOUNTINGS = (("messages", "cost"), ("edges", "cost_bound"))
"""Counts every message of the protocol, or every edge in every slot of a round as in Theorem 3's bound."""


def cheapest(results: Results) -> Numbers:
    """Figure 10: the ratio of the cost per round of the other graphs to the cost of the star."""
    return [
        per_round(results, GRAPH[name], metric) / per_round(results, GRAPH["star"], metric)
        for _, metric in ACCOUNTINGS
        for name in NAMES
        if name != "star"
    ]


def links(name: str, accounting: str) -> float:
    """The number of links that GIS uses in a round, at c2 = 1."""
    graph = settings.graph(name, AGENTS)
    sharing = information_sharing(graph)
    return float(sum(sharing.counts.values()) if accounting == "messages" else sharing.slots * graph.num_edges)


def regular_diameter() -> float:
    """Table I: the diameter by the formula with the Laplacian's eigenvalue."""
    return math.log(AGENTS) / math.log(1 / formulas.second_eigenvalues(AGENTS)[0])


def eigenvalue_note() -> str:
    """The diameter by the formula with the adjacency matrix."""
    of_laplacian, of_adjacency, diameter = formulas.second_eigenvalues(AGENTS)
    return (
        f"the diameter is {diameter}. The Laplacian's second largest eigenvalue, {of_laplacian:.2f}, exceeds 1 and so "
        "makes cost and regret negative. For the adjacency matrix divided by d the eigenvalue is "
        f"{of_adjacency:.3f} and the expression is {math.log(AGENTS) / math.log(1 / of_adjacency):.1f}"
    )


DIAMETER = 5  # of the 4-regular graph of `second_eigenvalues`; a constant, because networkx takes long to import
TABLE_1 = {"star": 2.0 * (AGENTS - 1), "ring": AGENTS**2 / 2, "complete": AGENTS * (AGENTS - 1) / 2}
GRAPHS = (
    Claim(
        "Figure 10: star and complete graph have the smallest regret, the ring the largest (waiting regret: "
        "one graph minus another)",
        "Section VII-B1: 'the Star and Fully-connected graph achieve the smallest regrets while the Ring graph incurs "
        "larger regret'",
        "larger",
        waits_longer,
        above(0),
        1.0,
        0.0,
        why_not_seen,
        tuple(f"{a} - {b}" for a, b in ORDER),
    ),
    Claim(
        "Figure 10: the star has the smallest communication cost (ratio of another graph's cost per round to the "
        "star's)",
        "Section VII-B1: 'The Star graph is closest to the centralized setting and has the smallest communication "
        "cost'",
        "smallest",
        cheapest,
        above(1),
        2.0,
        1.0,
        "",
        tuple(f"{name}, {label}" for label, _ in ACCOUNTINGS for name in NAMES if name != "star"),
    ),
    spent(3, "Theorem 3: 'is (Mε)-differentially private'", list(GRAPH.items())),
    exact(
        "Theorem 3: the cost is O(c2 d_G log T sum d_i / 2) (ratio of GIS's links per round to c2 d_G sum d_i / 2)",
        "Theorem 3: 'incurs communication cost C_D(T) = O(c2 d_G log T Σ d_i/2)'",
        "at most 1",
        lambda: [links(name, "links") / formulas.diameter_times_edges(name, AGENTS) for name in NAMES],
        at_most(1),
        1.0,
        2.0,
        lambda: (
            "we count one link for each edge and slot in which a message is sent over the edge (equation 2). The "
            "claim under Theorem 1 tests the number of rounds. The number of messages per round (ADV, REQ and DATA) "
            f"is {listed((name, links(name, 'messages')) for name in NAMES)}"
        ),
        NAMES,
    ),
    Claim(
        "Theorem 3: waiting adds at most 2 M (d_G - 1)(1 - Delta) to the regret (ratio of the ring's waiting regret to "
        "this bound, means on a grid)",
        "Equation (29): '= 2M(d_G-1)(1-Δ)'",
        "at most 1",
        lambda r: mean(group_of(r, on_graph("ring", "grid")).metrics[WAITING] / (2 * SLOTS * 0.99)),
        at_most(1),
        1.0,
        5.0,
        f"an agent waits {SLOTS} slots in each of about 6 rounds; the bound per agent is {text(2 * SLOTS * 0.99)}",
    ),
    exact(
        "Table I: star, ring and complete graph use 98, 1,250 and 1,225 links per round (diameter times edges, 50 "
        "agents)",
        "Table I: 'Star Ring Fully-connected d-regular … 2(M-1)log T … (M^2/2) log T … M(M-1)/2 log T'",
        ", ".join(f"{value:,.0f}" for value in TABLE_1.values()),
        lambda: [links(name, "edges") for name in TABLE_1],
        tuple(read(value, 0.5, "a whole number") for value in TABLE_1.values()),
        tuple(TABLE_1.values()),
        tuple(2 * value for value in TABLE_1.values()),
        lambda: (
            "the library networkx gives "
            + listed((name, formulas.diameter_times_edges(name, AGENTS)) for name in TABLE_1)
        ),
        tuple(TABLE_1),
    ),
    exact(
        "Table I: the star adds regret O(M), the ring O(M(M - 1)) (ratio of Theorem 3's M(d_G - 1) to these "
        "expressions)",
        "Table I: 'R_C(T)+O(M) … R_C(T)+O(M(M-1)) … R_C(T)'",
        "at most 1",
        lambda: [float(waiting("star", AGENTS)), SLOTS / (AGENTS - 1)],
        at_most(1),
        1.0,
        2.0,
        lambda: f"the ring's diameter is {SLOTS + 1}, about M/2, so M(M - 1) is about twice Theorem 3's M(d_G - 1)",
        ("star", "ring"),
    ),
    exact(
        "Table I: a d-regular graph's diameter is of order log M/log(1/lambda_2), lambda_2 of the Laplacian (value of "
        "this ratio, d = 4)",
        "Table I: 'is the second largest eigenvalue of the Laplace matrix of the graph'",
        f"at least {DIAMETER}",
        regular_diameter,
        at_least(DIAMETER),
        DIAMETER,
        0.0,
        eigenvalue_note,
    ),
    exact(
        "Corollary 1: (1 - Delta)/(1 - Delta^(1/R)) + R/T <= 1 (left side for Delta = 0.01, R = 5, T = 10^5)",
        "Appendix E: '(1-Δ)/(1-Δ^(1/R)) + R/T ≤ 1 since R ≥ 1'",
        "at most 1",
        lambda: 0.99 / (1 - 0.01**0.2) + 5 / HORIZON,
        at_most(1),
        1.0,
        2.0,
        lambda: (
            "the sum of Delta^(r/R) over r = 0 ... R - 1 has the first term 1 and so exceeds 1. It is of order 1 + R / "
            "log(1/Delta). The paper writes the sum from r = 1 to R but counts R + 1 terms"
        ),
    ),
    exact(
        "Remarks 3 and 5: R >= 2 log T/log M rounds are no worse than no communication (T^(2/R)/M at the smallest R)",
        "Remark 3: 'To ensure our performance not worse than the non-communication case, R ≥ 2 log T/log M'",
        "at most 1",
        lambda: factor(2 * LOGS) / AGENTS,
        ONE,
        1.0,
        2.0,
        lambda: f"the smallest R is {2 * LOGS:.2f} for T = 10^5 and M = {AGENTS}. Remark 5 has the same words",
    ),
    exact(
        "Equation 22: S(r_k) <= 16 log(8 K r^2 T)/(M Delta_k^2) (constant needed instead of 16, largest over all gaps)",
        "Equation (22): '≤ max{16 log(8K(⌈log(1/Δ_k)+1⌉)²T)/(MΔ_k²), …}'",
        "at most 16",
        formulas.equation_22,
        at_most(16),
        16.0,
        128.0,
        lambda: (
            "before r_k, Dtilde > Delta_k / 4 and so 8 / Dtilde^2 < 8 * 16 / Delta_k^2: the constant is 128. The "
            "second term's constant 32 = 8 * 4 is right, and no order changes"
        ),
    ),
)

# Figure 11, Table II, Theorem 4 and Corollary 2.

COMPLETE = ("case 1", "case 2", "case 2 with 53", "case 3")


def costs(results: Results, metric: str = "cost") -> dict[str, float]:
    """Costs per round of the cases of Table II: messages, counted as in the proof of Theorem 4, or every edge."""
    return {case: per_round(results, in_components(case, "uniform"), metric) for case in settings.TABLE_2}


def growing(cost: dict[str, float]) -> list[float]:
    """The ratios of the cost of case 2 to case 1, and of case 3 to case 2."""
    return [cost["case 2 with 53"] / cost["case 1"], cost["case 3"] / cost["case 2 with 53"]]


def over_the_star(cost: dict[str, float]) -> list[float]:
    """The ratios of the costs of cases 1 and 4 to the cost of case 5."""
    return [cost[case] / cost["case 5"] for case in ("case 1", "case 4")]


def over_hybrids(cost: dict[str, float]) -> list[float]:
    """The ratios of the costs of cases 6 and 3 to the larger cost of cases 1 and 5."""
    return [cost[case] / max(cost["case 1"], cost["case 5"]) for case in ("case 6", "case 3")]


def with_every_edge(quotients: Callable[[dict[str, float]], list[float]], first: str) -> Callable[[Results], str]:
    """An explanation: `first`, then the ratios if every edge of a component counts."""

    def why(results: Results) -> str:
        edges = " and ".join(map(text, quotients(costs(results, "cost_bound"))))
        return f"{first}. If every edge of a component counted in every slot, the two ratios would be {edges}"

    return why


def why_similar(results: Results) -> str:
    """The regrets of the cases by the formulas."""
    formula = listed((case, expected(in_components(case, "uniform"), 40)["regret"]) for case in COMPLETE)
    return (
        f"{PREDICTED} the regrets would be {formula}. Case 2 has 110 agents and so less regret. No agent waits in "
        "these cases, so with 100 agents all have the same regret"
    )


def not_decentralised(results: Results) -> str:
    """The cost of a graph of 100 agents without a sink."""
    sharing = sum(information_sharing(settings.graph("complete", 100)).counts.values())
    first = (
        "case 3, with a sink and a server link, is not the fully decentralised algorithm: sharing by GIS among 100 "
        f"agents that are all neighbours takes {text(sharing)} messages per round"
    )
    return with_every_edge(over_hybrids, first)(results)


def theorem_4_cost(results: Results) -> Numbers:
    """The ratio of the cost per round to c2 M max d + c1 Q."""
    sizes = {case: settings.CASES[case][1] for case in settings.TABLE_2}
    bounds = [sum(size) * formulas.largest_diameter(case) + 50.0 * len(size) for case, size in sizes.items()]
    return [cost / bound for cost, bound in zip(costs(results).values(), bounds, strict=True)]


def theorem_4_waiting(results: Results) -> Numbers:
    """The ratio of the regret per agent while waiting to max d - 1."""
    cases = ((in_components(case, "uniform"), formulas.largest_diameter(case) - 1) for case in ("case 4", "case 5"))
    return [mean(group_of(results, one).metrics[WAITING] / slots) for one, slots in cases]


COMPONENTS = (
    exact(
        "Table II: each case divides 100 agents into components (number of agents in case 2)",
        "Section VII-C: 'we divide 100 agents into several components with different properties'",
        100,
        lambda: float(sum(settings.CASES["case 2"][1])),
        read(100, 0.5, "a whole number"),
        100.0,
        110.0,
        lambda: "63 + 24 + 10 + 6 + 7 = 110; with 53 instead of 63 the sum would be 100. We run both",
    ),
    Claim(
        "Figure 11: cases 1, 2 and 3 have similar regret (ratio to the regret of case 1)",
        "Section VII-C1: 'although case1, case2 and case3 can finally achieve similar per-agent regrets'",
        "similar",
        lambda r: [
            ratio_of(r, in_components(case, "uniform"), in_components("case 1", "uniform"), REGRET)
            for case in COMPLETE[1:]
        ],
        alike(1, 0.15, "'similar'"),
        1.0,
        3.0,
        why_similar,
        COMPLETE[1:],
    ),
    Claim(
        "Figure 11: cost grows from case 1 to 2 to 3 (ratio of costs per round by Theorem 4's count; 100 instead of "
        "110 agents in case 2)",
        "Section VII-C1: 'while the communication cost gradually increases'",
        "gradually increases",
        lambda r: growing(costs(r)),
        above(1),
        2.0,
        0.5,
        with_every_edge(
            growing,
            "in case 2 we take 53 instead of 63 agents. Case 3 sends 99 messages to one sink, and has one server link "
            "instead of five",
        ),
        ("case 2 to case 1", "case 3 to case 2"),
    ),
    Claim(
        "Figure 11: of cases 1, 4 and 5 the star (case 5) costs least (ratio of another case's cost to case 5's by "
        "Theorem 4's count)",
        "Section VII-C1: 'the sub-graphs close to central setting (like star graph) achieve smaller communication "
        "cost'",
        "smaller",
        lambda r: over_the_star(costs(r)),
        above(1),
        2.0,
        0.5,
        with_every_edge(
            over_the_star,
            "in a star, as in a complete graph, every agent is one hop from the sink, so both send the same number of "
            "messages",
        ),
        ("case 1", "case 4"),
    ),
    Claim(
        "Figure 11: hybrid cases 1 and 5 cost less than cases 6 (server) and 3 (one graph) (ratio of costs: case 6 or "
        "3 to the costlier hybrid case)",
        "Section VII-C1: 'the hybrid structure significantly reduces the communication cost compared with the "
        "centralized setting (case 6) or the fully-decentralized setting(case 3)'",
        "significantly less",
        lambda r: over_hybrids(costs(r)),
        above(1),
        2.0,
        0.5,
        not_decentralised,
        ("case 6", "case 3"),
    ),
    spent(
        4,
        "Theorem 4: 'is (Mε)-differentially private'",
        [(case, in_components(case, "uniform")) for case in settings.TABLE_2],
    ),
    Claim(
        "Theorem 4: the cost is O((c2 M max d + c1 Q) log T) (ratio of the cost per round to c2 M max d + c1 Q)",
        "Theorem 4: 'incurs communication cost C_H(T) = O((c2 M max{d_G^q} + c1 Q) log T)'",
        "at most 1",
        theorem_4_cost,
        at_most(1),
        1.0,
        2.0,
        "the claim under Theorem 1 tests the number of rounds",
        settings.TABLE_2,
    ),
    Claim(
        "Theorem 4: waiting adds at most M max{d - 1} to the regret (ratio of waiting regret per agent to max{d - 1})",
        "Theorem 4: 'incurs regret … upper bounded by O(max{…}) + M max_q{d_G^q - 1}'",
        "at most 1",
        theorem_4_waiting,
        at_most(1),
        1.0,
        5.0,
        "the bound's first term is the bound of Theorem 1. In case 5 all agents send to the hub in one slot, and no "
        "agent waits",
        ("case 4", "case 5"),
    ),
    exact(
        "Corollary 2: the cost is O((c2 M max{d - 1} + c1 Q) R) (ratio of growth factors of cost and bound, complete "
        "graphs, M = 50 to 200)",
        "Corollary 2: 'with communication cost O(c2 M max{d_G^q - 1} + c1 Q)R'",
        "at most 1",
        lambda: formulas.round_cost("complete", (40,) * 5)[0] / formulas.round_cost("complete", (10,) * 5)[0],
        at_most(1),
        1.0,
        4.0,
        lambda: (
            "in complete components d - 1 = 0, so the printed bound does not count the M - Q messages that agents send "
            "to the sinks. Theorem 4 has d instead of d - 1"
        ),
    ),
    exact(
        "Corollary 2: regret grows no faster than the bound with T^(2/R) instead of min{M, T^(2/R)} (ratio of growth "
        "factors, T = 10^6 to 10^8)",
        "Corollary 2: 'R_H^R(T) = O(min{M, T^(2/R)} max{Σ_k log(R²KT)/Δ_k, R √log(R²KT)/(√M ε)} + M max{d_G^q})'",
        "at most 1",
        lambda: growth(10**6, 10**8, 4)[0],
        at_most(1),
        1.0,
        7.5,
        lambda: (
            "the means form a grid, and R = 4. The first term of the bound is the bound of Theorem 2; the second does "
            "not depend on T"
        ),
    ),
)

# Figure 12 and Corollary 3.

STEPS = (("five rings", "server"), ("ring", "five rings"))
KINDS = ("heterogeneous", "uniform")


def above_server(results: Results) -> Numbers:
    """Figure 12: differences between the structures in total regret."""
    pairs = ((in_structure(a, q), in_structure(b, q)) for q in KINDS for a, b in STEPS)
    result = ((group_of(results, one), group_of(results, other)) for one, other in pairs)
    return [statistics.difference(*one.paired(other, REGRET)) for one, other in result]


def why_above(results: Results) -> str:
    """The part of the regret that differs most."""
    parts = []
    for q in KINDS:
        chosen = {name: in_structure(name, q) for name in settings.STRUCTURES[1:]}
        waits = {name: number_of(results, one, WAITING) for name, one in chosen.items()}
        each = " and ".join(f"{text(e.value)} {interval(e[1:])} ({name})" for name, e in waits.items())
        formula = listed((name, expected(one, 40)["waited"]) for name, one in chosen.items())
        regret = text(value_of(results, in_structure("server", q)))
        parts.append(
            f"With {q} rewards the regret while waiting is {each}; {PREDICTED} it would be {formula}. With a server "
            f"no agent waits, and the regret is {regret}"
        )
    less = (
        "Agents that wait pull near-optimal arms less often to explore, which saves some regret: the total regret "
        "exceeds the server's by less than the regret while waiting"
    )
    return f"{'. '.join(parts)}. {less}"


def slightly(results: Results) -> Numbers:
    """The ring's regret while waiting: how much larger it is with heterogeneous rewards, and its part of the regret."""
    differ, alike_ = (group_of(results, in_structure("ring", q)) for q in KINDS)
    return [
        statistics.difference(*differ.paired(alike_, WAITING)),
        mean(differ.metrics[WAITING] / differ.metrics[REGRET]),
    ]


def corollary_3(results: Results) -> Numbers:
    """The ratio of the regret per agent while waiting to (d - 1) log T."""
    chosen = ((in_structure(name, "heterogeneous"), waiting(name, 100)) for name in ("ring", "five rings"))
    return [mean(group_of(results, one).metrics[WAITING] / (slots * math.log(HORIZON))) for one, slots in chosen]


SERVER = in_structure("server", "heterogeneous")
HETEROGENEOUS = (
    Claim(
        "Figure 12: CDP-MAB has the smallest regret, HDP-MAB less than DDP-MAB (differences in regret per agent)",
        "Section VII-C2: 'The CDP-MAB achieves the smallest regret … the hybrid structure can achieve smaller delay as "
        "well as better performance than the decentralized network'",
        "smallest",
        above_server,
        above(0),
        1.0,
        0.0,
        why_above,
        tuple(f"{a} - {b}, {q}" for q in KINDS for a, b in STEPS),
    ),
    Claim(
        "Section VII-C2: waiting costs slightly more with heterogeneous rewards (ring: increase in waiting regret, "
        "ratio of waiting to all regret)",
        "Section VII-C2: 'The other two structures are slightly affected by the heterogeneous reward'",
        "slightly",
        slightly,
        (above(0), alike(0, 0.1, "'slightly'")),
        (1.0, 0.05),
        (0.0, 1.0),
        "an agent's own best arm is not the best arm on average over agents, so the loss while waiting does not "
        "shrink from round to round",
        ("increase", "share"),
    ),
    Claim(
        "Corollary 3: CDP-MAB has R_C(T) regret with heterogeneous rewards (ratio of the regret to the regret "
        "predicted from means over agents)",
        "Corollary 3: 'Our CDP-MAB can achieve R_C(T) regret'",
        "1",
        lambda r: mean(group_of(r, SERVER).metrics[REGRET] / expected(SERVER, 100)["regret"]),
        alike(1, 0.1, "'can achieve'"),
        1.0,
        3.0,
        f"the predicted regret is the average over 100 drawn instances, {PREDICTED} and each arm's mean reward "
        "averaged over the agents",
    ),
    Claim(
        "Corollary 3: heterogeneous rewards add O(M (d - 1) log T) (ratio of waiting regret per agent to (d - 1) log "
        "T)",
        "Corollary 3: 'Our DDP-MAB can achieve R_D(T)+O(M(d_G-1)log(T)) regret … Our HDP-MAB can achieve "
        "R_H(T)+O(M max{d_G^q-1} log T) regret'",
        "at most 1",
        corollary_3,
        at_most(1),
        1.0,
        1e3,
        "agents wait {} and {} slots per round".format(*(waiting(name, 100) for name in ("ring", "five rings"))),
        ("ring", "five rings"),
    ),
)
