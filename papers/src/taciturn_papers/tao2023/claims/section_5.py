"""Section 5: Theorems 5.1 and 5.2, the lemmas, equation 36, Remarks 5.1 and 5.3."""

import math
from functools import lru_cache

import numpy as np

from taciturn.bench.results import Results
from taciturn.bench.statistics import Estimate
from taciturn_papers.claims import Claim, NotRunError, above, at_most, mean, untested
from taciturn_papers.tao2023 import lemmas, settings
from taciturn_papers.tao2023.settings import BETA, BOUND, DELTA, LIMIT, MU, ROUNDS, H
from taciturn_papers.tao2023.share_dynamics import theorem


@lru_cache
def mixing_growth(kind: str, sizes: tuple[int, int] = (65, 257)) -> float:
    """The steps until walks are N^-3-close to uniform (section 3.4.1, by the spectral gap): the ratio of their growth
    from one size to another to the growth of ln² N."""
    from taciturn.envs.social_bandit.dissemination import metropolis_hastings
    from taciturn.graph import Graph, random_graph

    def steps(size: int) -> float:
        graph: Graph = random_graph(kind, size, 1)
        eigenvalues = np.sort(np.abs(np.linalg.eigvalsh(metropolis_hastings(graph))))
        return math.log(2 * size**4) / -math.log(eigenvalues[-2])

    small, large = sizes
    return steps(large) / steps(small) * (math.log(small) / math.log(large)) ** 2


def without_noise(results: Results) -> list[Estimate]:
    """Equation 36: the regret of equation 34 after 10,000 rounds, divided by 3 delta."""
    groups = [results.select(policy=LIMIT, options=m) for m in (10, 20)]
    if not all(len(group) for group in groups):
        raise NotRunError(LIMIT)
    return [mean(group.groups[0].metrics["regret"] / (3 * DELTA)) for group in groups]


QUOTES = {
    "5.1": "with probability at least 1 - 2M/N^10 … S_j^r ~ ((1-μ) Q̂_j^r + μ/M) N; where δ' = √(30M ln N/(μN)) ≤ 1/2",
    "5.2": "with probability at least 1 - 4M/N^10 … D_j^r ~ S_j^r β^Φ (1-β)^(1-Φ); where δ'' = √(60M ln N/(μN)) ≤ 1/2",
    "5.3": "with probability at least 1 - 6M/N^10 … D_j^r ~ ((1-μ) Q̂_j^r + μ/M) N β^Φ (1-β)^(1-Φ)",
    "5.4": "with probability at least 1 - 6M/N^10, D^r ≥ N(1-β)/4 and Q_j^r ≥ μ(1-β)/(4M)",
    "5.5": "V_i^r, satisfies 3(1-β)/32 hg(N) ≤ V_i^r ≤ 15/8 hg(N) with a probability at least 1 - (6M+3)/N^10",
    "5.6": "the following inequality holds … ξ_0 ≤ E[Λ_{i,j}^r | V_i^r, X̃^r] / Λ_j^r ≤ ξ_1",
    "5.7": "two inequalities hold in any round r … ξ_0 ≥ 1 - √(5 ln N/N) and ξ_1 ≤ 1 + √(5 ln N/N)",
    "5.8": "|Q̂_j^r - Q_j^{r-1}| ≤ 6(2M+1) √(ln N/g(N)) (exp(ε/2)+1)/(exp(ε/2)-1)",
    "5.9": "with probability at least 1 - (10M+3)/N^10, we have Q̂_j^r ~ Q_j^{r-1} … where δ_Q = c √(ln N/g(N))",
    "5.10": "Let δ_r = 5^r δ_Q. For any option j in round r, P_j^r ~ Q_j^r holds",
}


def lemma(name: str) -> Claim:
    """One of the lemmas of section 5, where its conditions hold."""
    size = lemmas.domain()[0]
    how = "this is computed from the formulas" if name == "5.7" else "this is the maximum over ten rounds"
    return Claim(
        f"Lemma {name}: {lemmas.CLAIMED[name]} (ratio of deviation to bound)",
        f"Lemma {name}: '{QUOTES[name]}'",
        "at most 1",
        lambda r: float(lemmas.deviations()[name]),
        at_most(1),
        1.0,
        2.0,
        "this is computed on a random graph with 65 agents and the walks of section 3.4.1" if name == "5.6" else
        f"{how} with M = {lemmas.OPTIONS}, beta = {lemmas.ADOPTS} and epsilon = {lemmas.EPSILON:g}, for which N = "
        f"10^{math.log10(size):.0f} meets all conditions of the lemmas. The parameters of section 6 do not meet these "
        "conditions",
    )  # fmt: skip


ASKED = theorem(20, 1.0, 10_000)  # by Theorem 5.2, in the setting of section 6
FEW, LARGE = 10.0**4, 10.0**8
THEORY = (
    Claim(
        "Theorem 5.1: walks are nearly uniform within O(log² N) slots (ratio of growth factors of steps and ln² N, N = "
        "65 to 257)",
        "Theorem 5.1: 'all the MHRWs achieve a nearly uniform distribution … within O(log^2 N) slots'",
        "at most 1, on any graph",
        lambda r: [mixing_growth(kind) for kind in ("erdos_renyi", "ring")],
        at_most(1),
        1.0,
        16 * (math.log(65) / math.log(257)) ** 2,
        "the number of steps grows like log N divided by the spectral gap. The paper takes the gap of any graph as a "
        "constant. The gap of random graphs hardly depends on N, but the gap of a ring shrinks like N^-2, so walks "
        "take N² log N steps. Queues only add more slots",
        ("random graphs", "odd rings"),
    ),
    untested(
        "Remark 5.1: an agent sends O(g(N) log³ N) bits per round",
        "Remark 5.1: 'our algorithm has a per-round communication complexity of O(g(N) log^3 N) for each agent'",
        "an order",
        "this order is the product of Theorem 5.1's number of slots and g(N) messages of O(log N) bits, with free "
        "constants. The claim under Theorem 5.1 tests the number of slots; the rest cannot be tested",
    ),
    Claim(
        "Theorem 5.2: under the theorem's conditions regret is at most 6 delta (ratio of equation 34's regret to 6 "
        "delta, M = 20, fewest rounds)",
        "Theorem 5.2: 'for any R such that … we have Regret_N(R) := … ≤ 6δ'",
        "at most 1",
        lambda r: mean(np.array(lemmas.limit_regret(20, BETA, MU, math.ceil(ASKED["rounds"]))) / BOUND),
        at_most(1),
        1.0,
        settings.uniform_regret(20) / BOUND,
        f"with the constants of section 6 the conditions require at least {ASKED['rounds']:,.0f} rounds and g(N) = "
        f"10^{ASKED['log10_copies']:,.0f} ln N. Then the noise vanishes, and shares follow equation 34. With a delta "
        "near 1 the conditions require at least 10^9 agents, but 6 delta then exceeds any regret",
    ),
    Claim(
        "Theorem 5.2 explains the simulations (ratios of required to simulated values: rounds, and log10(g(N) / ln N); "
        "M = 20, g = ln² N)",
        "Section 6.1: 'consistent with Theorem 5.2, if we gradually increase N … such that N is sufficiently large "
        "with respect to M, ε and δ'",
        "consistent",
        lambda r: [ASKED["rounds"] / ROUNDS, ASKED["log10_copies"] / math.log10(math.log(10_000))],
        at_most(1),
        (1.0, 1.0),
        2.0,
        "the simulations have 10,000 rounds and N = 10,000",
        ("rounds", "log10(g(N) / ln N)"),
    ),
    Claim(
        "Equation (36): without noise and for infinite N regret is at most 3 delta (ratio of equation 34's regret to 3 "
        "delta)",
        "Equation (36): 'With infinite population … for T ≥ ln M/δ^2, η_1 - 1/R Σ_r Σ_j E[P_j^{r-1} Φ_j^r] ≤ 3δ'",
        "at most 1",
        without_noise,
        at_most(1),
        1.0,
        tuple(settings.uniform_regret(m) / (3 * DELTA) for m in (10, 20)),
        f"we run {ROUNDS:,} rounds; equation (36) requires ln M / delta^2 = "
        f"{math.log(10) / DELTA**2:,.0f} and {math.log(20) / DELTA**2:,.0f}",
        ("M = 10", "M = 20"),
    ),
    *map(lemma, lemmas.CLAIMED),
    Claim(
        "Remark 5.3: mean estimates approach popularities (largest difference between them: N = 10^4 minus N = 10^8, g "
        "= ln² N)",
        "Remark 5.3: 'the average estimate on option j's popularity, i.e., … approaches the actual popularity'",
        "falls",
        lambda r: lemmas.bias(FEW, 1.0, H * math.log(FEW) ** 2) - lemmas.bias(LARGE, 1.0, H * math.log(LARGE) ** 2),
        above(0),
        0.01,
        -0.01,
        lambda r: (
            "if one of 20 options has half of the adopters and epsilon = 1, the largest difference of the expected "
            "estimate from the popularity is "
            + ", ".join(f"{lemmas.bias(n, 1.0, H * math.log(n) ** 2):.2g} (N = {n:.0e})" for n in (FEW, 1e6, LARGE))
        ),
    ),
)
