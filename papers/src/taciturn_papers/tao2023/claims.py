"""The claims of Tao et al. 2023. Its figures show no readable numbers: the paper's numbers come from the text.

As written the algorithm learns next to nothing under noise. A claim that one regret is larger is therefore judged after
subtracting the difference that occurs without learning. Claims that regrets exceed 6 delta or are similar also hold for
agents that learn nothing; their explanations give the regrets of such agents for comparison.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.envs.social_bandit.paper import copies_of_paper, ordered_means
from taciturn_papers.base import bitwise, flip_probability
from taciturn_papers.claims import (
    Claim,
    NotRunError,
    Numbers,
    above,
    alike,
    at_most,
    below,
    mean,
    untested,
)
from taciturn_papers.tao2023 import lemmas, settings
from taciturn_papers.tao2023.settings import (
    AGENTS,
    BETA,
    BOUND,
    COMPARED,
    DELTA,
    FAST_LEVELS,
    LIMIT,
    MU,
    ROUNDS,
    SHARES,
    SIZES,
    H,
    Setting,
    level_text,
    reading_of,
)
from taciturn_papers.tao2023.share_dynamics import agents_needed, lift, power_of_ten, sigma, theorem

ENOUGH = math.log10(6000)  # log10 of the agents that are enough in the paper
LITTLE = 0.02  # delta


def regret(results: Results, setting: Setting) -> Floats:
    """The final regrets of the agents."""
    return found(results, setting).metrics["regret"]


def found(results: Results, setting: Setting, policy: str = AGENTS) -> Group:
    """The results of a setting, played by agents or computed."""
    group = setting.find(results, policy)
    if group is None:
        raise NotRunError(setting)
    return group


def named(chosen: Sequence[Setting]) -> tuple[str, ...]:
    """Labels of settings, with the parameters in which they differ; a single setting has an empty label."""
    every = [(f"N = {s.n:,}", f"M = {s.m}", f"epsilon = {level_text(s.epsilon)}", s.growth) for s in chosen]
    varies = [len(set(column)) > 1 for column in zip(*every, strict=True)]
    return tuple(", ".join(x for x, told in zip(one, varies, strict=True) if told) for one in every)


def checked(results: Results, chosen: Sequence[Setting]) -> str:
    """The same regrets by noisy share dynamics, the regrets without learning, and the shares that noise sustains."""
    texts = []
    for name, setting in zip(named(chosen), chosen, strict=True):
        n, m, epsilon, growth = setting
        group = setting.find(results, SHARES)
        computed = "not run" if group is None else format(group.mean("regret"), ".3f")
        lifted, _ = lift(ordered_means(m), sigma(epsilon, n / 2, copies_of_paper(n, growth) / 2))
        each = f"{name}: " if name else "They are "
        texts.append(f"{each}{computed}, {settings.uniform_regret(m):.3f} and {lifted:.2f}")
    return (
        f"three numbers follow{' for each case' * (len(chosen) > 1)}: the regret of the {SHARES} (a recursion of the "
        "options' shares, without simulated agents); the regret without learning; and the total share that noise alone "
        f"would give the inferior options (if it is about 1 or more, no option can lead). {'; '.join(texts)}"
    )


def bounded(claim: str, quote: str, *chosen: Setting, over: bool = False) -> Claim:
    """A claim that regrets are at most 6 delta, or above it if `over`."""
    return Claim(
        claim,
        quote,
        f"above {BOUND:.2f}" if over else f"at most {BOUND:.2f}",
        lambda r: [mean(regret(r, one)) for one in chosen],
        above(BOUND) if over else at_most(BOUND),
        1.5 * BOUND if over else BOUND,
        0.5 * BOUND if over else tuple(settings.uniform_regret(one.m) for one in chosen),
        lambda r: checked(r, chosen),
        named(chosen),
    )


def larger(claim: str, quote: str, words: str, *pairs: tuple[Setting, Setting]) -> Claim:
    """A claim that the first regret of each pair is larger, by more than without learning."""
    labels = named([one for one, _ in pairs])

    def idle(one: Setting, other: Setting) -> float:
        return settings.uniform_regret(one.m) - settings.uniform_regret(other.m)

    def measured(results: Results) -> list[Estimate]:
        both = [found(results, one).paired(found(results, other), "regret") for one, other in pairs]
        return [statistics.difference(a - idle(*pair), b) for (a, b), pair in zip(both, pairs, strict=True)]

    def why(results: Results) -> str:
        texts = []
        for name, (one, other) in zip(labels, pairs, strict=True):
            groups = [one.find(results, SHARES), other.find(results, SHARES)]
            ends = [group.mean("regret") for group in groups if group is not None]
            computed = f"{ends[0] - ends[1]:+.3f}" if len(ends) == 2 else "not run"
            shares = [found(results, s).mean("regret") / settings.uniform_regret(s.m) for s in (one, other)]
            texts.append(f"{name}: {computed}, {idle(one, other):+.3f}, {shares[0]:.2f} and {shares[1]:.2f}")
        return (
            f"four numbers follow for each case: the difference of the regrets in the {SHARES}; the difference of the "
            "regrets without learning; and, for each of the two settings, the ratio of its regret to the regret "
            f"without learning. {'; '.join(texts)}"
        )

    return Claim(
        claim,
        quote,
        words,
        measured,
        above(0),
        0.06,
        0.0,
        why,
        labels,
    )


def similar(claim: str, quote: str, words: str, why: str, *pairs: tuple[Setting, Setting]) -> Claim:
    """A claim that the two regrets of each pair are similar."""
    return Claim(
        claim,
        quote,
        words,
        lambda r: [statistics.difference(*found(r, a).paired(found(r, b), "regret")) for a, b in pairs],
        alike(0, LITTLE, f"'{words}', read as at most delta apart"),
        0.0,
        BOUND,
        why,
        named([one for one, _ in pairs]),
    )


def settling(results: Results, setting: Setting) -> Floats:
    """By how much the regret falls after a tenth of the rounds, by noisy share dynamics."""
    group = found(results, setting, SHARES)
    return group.metrics["regret_at_tenth"] - group.metrics["regret"]


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


def required(results: Results) -> Numbers:
    """The ratios of Theorem 5.2's requirements to the values in the simulations: rounds, and log10(g(N) / ln N)."""
    asked = theorem(20, 1.0, 10_000)
    return [asked["rounds"] / ROUNDS, asked["log10_copies"] / math.log10(math.log(10_000))]


def without_noise(results: Results) -> list[Estimate]:
    """Equation 36: the regret of equation 34 after 10,000 rounds, divided by 3 delta."""
    groups = [results.select(policy=LIMIT, options=m) for m in (10, 20)]
    if not all(len(group) for group in groups):
        raise NotRunError(LIMIT)
    return [mean(group.groups[0].metrics["regret"] / (3 * DELTA)) for group in groups]


def in_the_limit(results: Results) -> Estimate:
    """Theorem 5.2: the regret of equation 34 after the fewest rounds that the theorem allows, divided by 6 delta."""
    rounds = math.ceil(theorem(20, 1.0, 10_000)["rounds"])
    return mean(np.array(lemmas.limit_regret(20, BETA, MU, rounds)) / BOUND)


def domain(results: Results) -> str:
    """Where Theorem 5.2's domain begins."""
    asked = theorem(20, 1.0, 10_000)
    return (
        f"with the constants of section 6 the conditions require at least {asked['rounds']:,.0f} rounds and g(N) = "
        f"10^{asked['log10_copies']:,.0f} ln N. Then the noise vanishes, and shares follow equation 34. With a delta "
        "near 1 the conditions require at least 10^9 agents, but 6 delta then exceeds any regret"
    )


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
        in_the_limit,
        at_most(1),
        1.0,
        settings.uniform_regret(20) / BOUND,
        domain,
    ),
    Claim(
        "Theorem 5.2 explains the simulations (ratios of required to simulated values: rounds, and log10(g(N) / ln N); "
        "M = 20, g = ln² N)",
        "Section 6.1: 'consistent with Theorem 5.2, if we gradually increase N … such that N is sufficiently large "
        "with respect to M, ε and δ'",
        "consistent",
        required,
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

MORE = (6000, 10_000)
FIGURE_2 = (
    bounded(
        "Figure 2a: regret is not within 6 delta with few agents (final regret, N = 3,000, M = 10 as in the text, M = "
        "20 as in the caption)",
        "Section 6.1: 'although the regret of our algorithm converges to a stable level, we cannot guarantee that it "
        "can be upper-bounded by 6δ'",
        *(Setting(3000, m) for m in (10, 20)),
        over=True,
    ),
    bounded(
        "Figure 2a: regret is within 6 delta once N is large (final regret)",
        "Section 6.1: 'an upper bound of 6δ on the regret of our algorithm can be ensured'",
        *(Setting(n, m) for m in (10, 20) for n in MORE),
    ),
    larger(
        "Figure 2: regret is smaller with more agents (regret at N = 3,000 minus regret at N = 10,000)",
        "Section 6.1: 'we have smaller regret if letting more agents participate in the social learning process'",
        "smaller",
        *((Setting(3000, m), Setting(10_000, m)) for m in (10, 20)),
    ),
    similar(
        "Figure 2b: g(N) = sqrt(N) gives much the same regret as ln² N (difference of the regrets)",
        "Section 6.1: 'When defining g(N) = √N in Fig. 2(b), we get very similar results'",
        "very similar",
        "the regrets are similar because the algorithm learns with neither",
        *((Setting(n, m, growth="root"), Setting(n, m)) for m in (10, 20) for n in SIZES),
    ),
    Claim(
        "Figure 2: regret converges within almost the same horizon (decrease in regret after round 1,000 of 10,000: "
        "difference between the two N)",
        "Section 6.1: 'our algorithm achieves convergence within almost the same time horizon, even more agents are "
        "engaged'",
        "almost the same",
        lambda r: [
            statistics.difference(settling(r, Setting(10_000, m)), settling(r, Setting(3000, m))) for m in (10, 20)
        ],
        alike(0, LITTLE, "'almost the same', read as at most delta apart"),
        0.0,
        BOUND,
        lambda r: (
            f"we subtract the decrease at N = 3,000 from the decrease at N = 10,000, both in the {SHARES}. Almost "
            "nothing is learned, so regret is close to its final value from the first rounds on: after 1,000 rounds "
            "it is "
            + ", ".join(
                f"{found(r, Setting(n, m), SHARES).mean('regret_at_tenth'):.3f} (N = {n:,}, M = {m}; at the end "
                f"{found(r, Setting(n, m), SHARES).mean('regret'):.3f})"
                for m in (10, 20)
                for n in (3000, 10_000)
            )
        ),
        ("M = 10", "M = 20"),
    ),
    *THEORY,
)

FIGURE_3 = (
    bounded(
        "Figure 3: regret is not within 6 delta with too few agents for the options (final regret)",
        "Section 6.2: '(e.g., M ≥ 20, N = 3 × 10^3 or M = 30, N = 6 × 10^3), the regret even cannot be bounded by 6δ'",
        *(Setting(n, m) for n, m in ((3000, 20), (3000, 30), (6000, 30))),
        over=True,
    ),
    bounded(
        "Figure 3: regret is within 6 delta with N = 10,000 (final regret)",
        "Section 6.2: 'when we increase N to 10^4, the upper bound holds for ∀M ≤ 30'",
        *(Setting(10_000, m) for m in (10, 20, 30)),
    ),
    larger(
        "Figure 3: regret is larger with more options (regret at M = 30 minus regret at M = 10, minus the same "
        "difference without learning)",
        "Section 6.2: 'when there are more unknown options for the agents to learn, the regret of our algorithm still "
        "converges but to a larger value'",
        "larger",
        *((Setting(n, 30), Setting(n, 10)) for n in SIZES),
    ),
)


def privacy_note(results: Results) -> str:
    """The number of messages in a run, and the epsilon spent."""
    sent = found(results, Setting(10_000)).mean("messages") / 10_000
    return (
        f"this is the epsilon of one round, as in the theorem. Over a run of {ROUNDS:,} rounds an agent sends about "
        f"{sent:,.0f} messages, each at epsilon. An agent without an option visibly sends nothing, so its epsilon over "
        "a run is infinite"
    )


FIGURE_4 = (
    bounded(
        "Figure 4: regret is not within 6 delta with few agents and small epsilon (final regret, N = 3,000)",
        "Section 6.3: 'the converged regret even cannot be bounded by 6δ with ε ≤ 1.5'",
        *(Setting(3000, epsilon=e) for e in (0.5, 1.0, 1.5)),
        over=True,
    ),
    bounded(
        "Figure 4: regret is within 6 delta with N = 10,000 (final regret)",
        "Section 6.3: 'the upper bound 6δ holds for ∀ε ∈ [0.5, 2.0]'",
        *(Setting(10_000, epsilon=e) for e in (0.5, 1.0, 1.5, 2.0)),
    ),
    larger(
        "Figure 4: regret is larger with smaller epsilon (regret at epsilon = 0.5 minus regret at epsilon = 2)",
        "Section 6.3: 'we indeed obtain higher regret and thus less learning utility by decreasing the privacy budget'",
        "higher",
        *((Setting(n, epsilon=0.5), Setting(n, epsilon=2.0)) for n in SIZES),
    ),
    similar(
        "Figure 4: with N = 10,000 regret is close to regret without noise (difference of the two)",
        "Section 6.3: 'the regret with 1.0 ≤ ε ≤ 2.0 is very close to the one with ε = ∞'",
        "very close",
        "the algorithm learns without noise and does not learn with noise",
        *((Setting(10_000, epsilon=e), Setting(10_000, epsilon=None)) for e in (1.0, 1.5, 2.0)),
    ),
    Claim(
        "Theorem 5.3: each agent has epsilon-LDP in each round (largest log-likelihood ratio, relative to epsilon = 1)",
        "Theorem 5.3: 'In each round, our perturbation mechanism F achieves ϵ-LDP for each agent'",
        "at most 1",
        lambda r: 2 * math.log(1 / flip_probability(1.0) - 1),
        at_most(1 + 1e-9),
        1.0,
        math.inf,
        privacy_note,
    ),
    Claim(
        "Without noise regret stays within 6 delta (final regret, N = 10,000, M = 20)",
        "",
        f"at most {BOUND:.2f}",
        lambda r: mean(regret(r, Setting(10_000, epsilon=None))),
        at_most(BOUND),
        BOUND,
        settings.uniform_regret(20),
        lambda r: (
            f"{checked(r, [Setting(10_000, epsilon=None)])}. A few runs lose the best option early and recover it only "
            "by exploration (mu). They have several times the regret"
        ),
        own=True,
    ),
)


def longest_run(
    results: Results, own: Config, num_agents: int = 10_000, options: int = 20, epsilon: float | None = 1.0
) -> Group | None:
    """The computation with the most rounds, for one reading (see `READINGS`) in one setting."""
    wanted = {"options": options, "privacy": bitwise(epsilon), "growth": "log_squared"}
    played = results.select(policy=SHARES, env_params={"num_agents": num_agents}, **wanted)
    groups = [group for group in played if reading_of(group.config) == own]
    return max(groups, key=lambda g: g.config["env_params"]["horizon"], default=None)


def statements(ends: Sequence[float]) -> dict[str, bool]:
    """The paper's statements about the final regrets of `COMPARED`, and whether they hold."""
    few, more, most, strict, loose, plain, narrow, wide = ends
    return {
        "above 6 delta at N = 3,000": few > BOUND,
        "at most 6 delta at N = 6,000": more <= BOUND,
        "at most 6 delta for every epsilon": max(strict, loose) <= BOUND,
        "at most 6 delta for every M": max(narrow, wide) <= BOUND,
        "falling with N": few > more > most,
        "falling with epsilon": strict > most > loose > plain,
        "rising with M": narrow < most < wide,
        "within 0.02 of the regret without noise at epsilon = 1": most - plain < 0.02,
    }


def reading(name: str, own: Config) -> Claim:
    """Whether a reading of the algorithm stays below 6 delta."""

    def measured(results: Results) -> Numbers:
        group = longest_run(results, own)
        if group is None:
            raise NotRunError(own)
        return mean(group.metrics["regret"])

    def why(results: Results) -> str:
        groups = [longest_run(results, own, **one) for one in COMPARED]
        ends = [g.mean("regret") for g in groups if g is not None]
        held = statements(ends) if len(ends) == len(groups) else {}
        answers = "; ".join(f"{claim}: {'yes' if holds else 'no'}" for claim, holds in held.items())
        return f"is the regret as the paper states? {answers[:1].upper()}{answers[1:]}" if held else ""

    return Claim(
        f"Regret is at most 6 delta (final regret, N = 10,000, M = 20, epsilon = 1): {name}",
        "",
        f"at most {BOUND:.2f}",
        measured,
        at_most(BOUND),
        BOUND,
        settings.uniform_regret(20),
        why,
        own=True,
    )


def enough(growth: str) -> Claim:
    """How many agents the algorithm needs as written."""

    def sizes(results: Results) -> dict[int, float]:
        every = results.select(policy=SHARES, growth=growth, options=20)
        found = {g.config["env_params"]["num_agents"]: g.mean("regret") for g in every if reading_of(g.config) == {}}
        large = {n: value for n, value in found.items() if n >= 10**5}
        if not large:
            raise NotRunError(growth)
        return large

    return Claim(
        "As written, 6,000 agents are enough for 6 delta (log10 of the smallest computed N with at most 6 delta, M = "
        f"20, epsilon = 1, g = {settings.GROWTH[growth]})",
        "",
        f"{ENOUGH:.2f}",
        lambda r: min((math.log10(n) for n, value in sizes(r).items() if value <= BOUND), default=math.inf),
        at_most(ENOUGH),
        ENOUGH,
        math.inf,
        lambda r: (
            f"the regret of the {SHARES} is "
            + ", ".join(f"{value:.3f} (N = 10^{math.log10(n):.0f})" for n, value in sizes(r).items())
            + ". In the mean dynamics (without the random fluctuations of the shares) 6 delta requires N of at least "
            + power_of_ten(agents_needed(20, 1.0, growth))
        ),
        own=True,
    )


def cross_check(own: Config) -> Claim:
    """The regret of agents compared with noisy share dynamics, for a reading that was run both ways."""

    def pair(results: Results) -> tuple[Group, Group]:
        one = next((g for g in results.select(policy=AGENTS) if reading_of(g.config) == own), None)
        if one is not None:
            same = {name: one.config["env_params"][name] for name in ("num_agents", "horizon")}
            others = results.select(policy=SHARES, env_params=same, options=20, privacy=one.config["privacy"])
            second = next((g for g in others if reading_of(g.config) == own), None)
            if second is not None:
                return one, second
        raise NotRunError(own)

    def spent(results: Results) -> str:
        one, second = pair(results)
        return f"the regret is {one.mean('regret'):.3f} with agents and {second.mean('regret'):.3f} in the {SHARES}"

    return Claim(
        f"Agents have the same regret as the {SHARES} (difference of the regrets, {settings.reading_name(own)})",
        "",
        "0",
        lambda r: statistics.difference(*pair(r)[0].paired(pair(r)[1], "regret")),
        alike(0, 0.03, "the same distribution"),
        0.0,
        0.1,
        spent,
        own=True,
    )


VARIANTS = (
    *(reading(name, own) for name, own in settings.READINGS),
    *map(enough, settings.GROWTH),
    cross_check({"noise": "per_token"}),
    cross_check({"pool": 10}),
)


def learns(epsilon: float | None) -> Claim:
    """A setting where the algorithm learns: beta = 0.65, with 2,000 agents, 5 options and 400 copies."""
    setting = Setting(2000, 5, epsilon)
    chance = settings.uniform_regret(setting.m)

    def why(results: Results) -> str:
        limit = next((g.mean("regret") for g in results.select(policy=settings.LIMIT)), math.nan)
        lifted, _ = lift(ordered_means(setting.m), sigma(epsilon, setting.n / 2, 200), math.log(0.65 / 0.35))
        computed = found(results, setting, SHARES).mean("regret")
        return (
            f"the regret is {chance:.3f} without learning, {computed:.3f} in the {SHARES} and {limit:.3f} by equation "
            f"34. Noise alone would give the inferior options a total share of {lifted:.2f}"
        )

    return Claim(
        f"The algorithm learns with beta = 0.65 (final regret, epsilon = {level_text(epsilon)})",
        "",
        f"below {chance - 0.05:.3f}",
        lambda r: mean(regret(r, setting)),
        below(chance - 0.05),
        chance / 2,
        chance,
        why,
        own=True,
    )


FAST = tuple(map(learns, FAST_LEVELS))
