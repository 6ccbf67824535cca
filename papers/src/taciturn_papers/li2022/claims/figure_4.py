"""Figure 4, Theorem 1 and Remark 1: privacy and regret."""

import math

from taciturn.bench.results import Results
from taciturn_papers.claims import Claim, alike, at_least, at_most, ratio_of
from taciturn_papers.li2022 import settings
from taciturn_papers.li2022.claims.shared import CONSTANTS, PREDICTED, REGRET, regret_falls, spent, text, value_of
from taciturn_papers.li2022.formulas import binding_agents, binding_epsilon, expected, growth
from taciturn_papers.li2022.settings import AGENTS, ARMS, HORIZON, at_epsilon

FIGURE_4 = (0.1, 0.3, 0.5, 1.0)
AT_ONE, FREE = (at_epsilon(e, "uniform") for e in (1.0, settings.UNBOUNDED))
QUIET = at_epsilon(FIGURE_4[0], "uniform", noise=False)


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
    Claim(
        "Figure 4: epsilon = 1 is the non-private case (ratio of the regret at epsilon = 1 to the regret without "
        "privacy)",
        "Section VII-A1: '… indicates the non-private case'",
        "non-private",
        lambda r: ratio_of(r, AT_ONE, FREE, REGRET),
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
    Claim(
        "Theorem 1: regret grows no faster than the bound (ratio of growth factors of regret and bound, T = 10^6 to "
        "10^8, means on a grid)",
        "Theorem 1: 'incurs regret … upper bounded by O(max{Σ_k log(KT log T)/Δ_k, K log T √log(KT log T)/(√M ε)})'",
        "at most 1",
        lambda r: growth(10**6, 10**8)[0],
        at_most(1),
        1.0,
        75.0,
        f"{CONSTANTS}. For regret that is linear in T the ratio would be 75",
    ),
    Claim(
        "Theorem 1: the cost is O(c1 M log T) (ratio of growth factors of cost and log T, T = 10^6 to 10^8, means on a "
        "grid)",
        "Theorem 1: 'incurs communication cost C_C(T) = O(c1 M log T)'",
        "at most 1",
        lambda r: growth(10**6, 10**8)[1],
        at_most(1),
        1.0,
        75.0,
        CONSTANTS,
    ),
    Claim(
        "Remark 1: O(log T) regret needs a cost of order c1 M log T (ratio of growth factors of cost and log T, T = "
        "10^6 to 10^8, means on a grid)",
        "Remark 1: 'The communication cost C_C(T) = O(c1 M log T) is the minimum cost needed to achieve O(log T) order "
        "regret'",
        "at least 1",
        lambda r: growth(10**6, 10**8)[1],
        at_least(1),
        1.0,
        0.5,
        "in a fixed instance the algorithm itself has O(log T) regret and needs at most ceil(log2(1/Delta) + 1) = "
        f"{math.ceil(math.log2(ARMS) + 1)} rounds at any T. It needs log T rounds only if the gap shrinks with T",
    ),
)
