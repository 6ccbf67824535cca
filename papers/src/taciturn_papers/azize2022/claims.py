"""The claims of Azize & Basu 2022. Its figures show no readable numbers: the paper's numbers come from the text of the
anonymous submission."""

import itertools
import math

import numpy as np

from taciturn.bench.results import Results
from taciturn.bench.statistics import Estimate
from taciturn.bench.tables import number
from taciturn.policies.families.bandit_indices import bernoulli_divergence
from taciturn_papers.azize2022.indices import first_lower_bound, regret_lower_bound
from taciturn_papers.azize2022.settings import (
    ALPHA,
    ALPHAS,
    GAMMAS,
    HORIZON,
    LEVELS,
    LINEAR,
    NAMES,
    ONE_GOOD,
    bandit,
    bold,
    tree,
)
from taciturn_papers.claims import (
    Claim,
    above,
    alike,
    at_least,
    at_most,
    number_of,
    ratio_of,
    read,
    untested,
)

RIVALS = ("DPSuccessiveElimination", "DPUCB")
SOUND = ("AdaPKLUCB", "AdaPUCB", "DPSuccessiveElimination")
OURS = ("AdaPKLUCB", "AdaPUCB")
Pairs = tuple[tuple[str, str], ...]
PAIRS: Pairs = tuple((rival, our) for rival in RIVALS for our in OURS)


def times_lower(results: Results, pairs: Pairs) -> list[Estimate]:
    """For each pair, the regret of the first algorithm divided by that of the second."""
    return [ratio_of(results, bandit(rival), bandit(one), "regret") for rival, one in pairs]


def named(pairs: Pairs) -> tuple[str, ...]:
    return tuple(f"{NAMES[rival]} over {NAMES[one]}" for rival, one in pairs)


def scaled(regret: Estimate, bound: float) -> Estimate:
    """Regret at the horizon T, divided by `bound` times ln T."""
    return Estimate(*(x / (bound * math.log(HORIZON)) for x in regret))


def regrets(results: Results) -> str:
    """The regret of every algorithm, and the lower bounds."""
    found = [f"{NAMES[name]} {number(number_of(results, bandit(name), 'regret').value)}" for name in NAMES]
    means = np.array(LINEAR)
    bounds = (number(bound(means, 1.0) * math.log(HORIZON)) for bound in (first_lower_bound, regret_lower_bound))
    other, less = (
        " and ".join(number(number_of(results, one, "regret").value) for one in some)
        for some in (map(tree, GAMMAS), map(bold, ALPHAS))
    )
    return (
        f"regret: {', '.join(found)}; DP-UCB with gamma = 0.01 and 1/T: {other}; AdaP-KLUCB with alpha = 1 and 0.3: "
        f"{less}; asymptotic lower bounds: {' (theorem 3) and '.join(bounds)} (Azize et al. 2025). With gamma = 0.1 "
        "the noise of DP-UCB exceeds its bound in some runs, whose regret then grows with the horizon"
    )


def upper_bound() -> float:
    """Theorem 7: the sum over suboptimal arms of 16 alpha ln T / min(Delta, epsilon) + alpha / (alpha - 3), at
    epsilon = 1."""
    gaps = [max(LINEAR) - mean for mean in LINEAR if mean < max(LINEAR)]
    return sum(16 * ALPHA / min(gap, 1.0) * math.log(HORIZON) + ALPHA / (ALPHA - 3) for gap in gaps)


def equal_epsilon(arms: int, horizon: int) -> float:
    """The epsilon that makes the two terms of theorem 2 equal: (K - 1)/(131 epsilon) and sqrt(T (K - 1))/27."""
    return (arms - 1) / 131 / (math.sqrt(horizon * (arms - 1)) / 27)


FASTER = tuple((name, "AdaPKLUCB") for name in ("AdaPUCB", *RIVALS))
SECOND = tuple((name, "AdaPUCB") for name in RIVALS)
LIMIT = "a limit as T grows: at no finite horizon would less be a counterexample"
OVER_TIME = (
    Claim(
        "Section 5, Figure 2: AdaP-KLUCB achieves the lowest regret (regret of the others over its own)",
        "Section 5: 'AdaP-KLUCB achieves the lowest regret followed by AdaP-UCB'",
        "lowest",
        lambda r: times_lower(r, FASTER),
        above(1),
        (1.5, 9.5, 9.5),
        1.0,
        regrets,
        named(FASTER),
    ),
    Claim(
        "Section 5: AdaP-UCB is second (regret of the competing algorithms over its own)",
        "Section 5: 'AdaP-KLUCB achieves the lowest regret followed by AdaP-UCB'",
        "second",
        lambda r: times_lower(r, SECOND),
        above(1),
        9.5,
        1.0,
        "",
        named(SECOND),
    ),
    Claim(
        "Section 5: both have almost 10 times lower regret than the competing algorithms (those over them)",
        "Section 5: 'Both of them attain almost 10 times lower regret than the competing algorithms'",
        "almost 10",
        lambda r: times_lower(r, PAIRS),
        read(9.5, 0.5, "'almost 10', from 9 to 10"),
        9.5,
        1.0,
        lambda r: (
            "all algorithms are published as pseudocode; no code of the authors was found. DP-SE has its beta = 1/T. "
            "DP-UCB over AdaP-KLUCB with gamma = 0.01: "
            f"{number(ratio_of(r, tree(0.01), bandit('AdaPKLUCB'), 'regret').value)}, with 1/T: "
            f"{number(ratio_of(r, tree(1 / HORIZON), bandit('AdaPKLUCB'), 'regret').value)}"
        ),
        named(PAIRS),
    ),
    Claim(
        "Theorem 7: the regret of AdaP-UCB at most",
        "Theorem 7: 'AdaP-UCB satisfies ε-global DP, and for α > 3, it yields a regret … Σ (16α/min{Δ, ε} log(T) + "
        "α/(α-3))'",
        f"at most {upper_bound():,.0f}",
        lambda r: number_of(r, bandit("AdaPUCB"), "regret"),
        at_most(upper_bound()),
        upper_bound(),
        HORIZON * (max(LINEAR) - sum(LINEAR) / len(LINEAR)),
    ),
    Claim(
        "Theorem 2: its terms are equal at epsilon = 131/27 sqrt((K - 1)/T) (where they are, over that)",
        "Section 3: 'In the high-privacy regime, specifically for ε < 131/27 √((K-1)/T), the hardness … is higher than "
        "the lower bound for bandits without privacy'",
        1.0,
        lambda _: equal_epsilon(100, 10**6) / (131 / 27 * math.sqrt((100 - 1) / 10**6)),
        read(1, 1e-9, "an equation"),
        1.0,
        0.5,
        "the two constants are the other way round: max{sqrt(T (K - 1))/27, (K - 1)/(131 epsilon)} has equal terms at "
        f"27/131 sqrt((K - 1)/T). For T = 10^6 and K = 100 that is {equal_epsilon(100, 10**6):.4f} instead of 0.05",
    ),
    untested(
        "Theorem 8: an upper bound on the regret of AdaP-KLUCB",
        "Theorem 8: 'for α > 3 and constants C1(α), C2 > 0, it yields a regret'",
        "an upper bound",
        "its constants are not given",
    ),
    untested(
        "Lemma 1: means of disjoint episodes are together as private as each",
        "Lemma 1: 'satisfies ε-DP'",
        "epsilon-DP",
        "a proof about all sequences of rewards",
    ),
    untested(
        "Theorem 6: Algorithm 1 is epsilon-differentially private",
        "Theorem 6: 'Algorithm 1 satisfies ε-global DP'",
        "epsilon-DP",
        "a proof about all sequences of rewards",
    ),
    untested(
        "Theorem 2: a lower bound on the regret in the worst instance",
        "Theorem 2: 'the minimax regret of stochastic bandits with ε-global DP satisfies'",
        "a lower bound",
        "a proof about all algorithms",
    ),
    untested(
        "Theorem 3: regret over ln T is at least its bound as T grows",
        "Theorem 3: 'lim Reg_T(π, ν)/log(T) ≥ Σ Δ/min(d_inf, 6ε t_inf)'",
        "at least, in the limit",
        LIMIT,
    ),
    untested(
        "Theorems 4 and 5: lower bounds for linear bandits",
        "Theorem 5: 'for any consistent and ε-global DP bandit algorithm satisfies'",
        "lower bounds",
        "proofs about all algorithms, of bandits that are not played here",
    ),
    Claim(
        "Regret over ln T at the horizon, over Theorem 3's bound",
        "",
        "at least 1 in the limit",
        lambda r: [
            scaled(number_of(r, bandit(name), "regret"), first_lower_bound(np.array(LINEAR), 1.0)) for name in SOUND
        ],
        at_least(1.0),
        1.0,
        0.0,
        "Azize et al. 2025 have a greater bound, "
        f"{regret_lower_bound(np.array(LINEAR), 1.0) / first_lower_bound(np.array(LINEAR), 1.0):.2f} times this one",
        tuple(NAMES[name] for name in SOUND),
        own=True,
    ),
)


def falls(results: Results, steps: tuple[tuple[float, float], ...]) -> list[Estimate]:
    """For each step, the regret of AdaP-KLUCB at one epsilon divided by its regret at a greater one."""
    return [
        ratio_of(results, bandit("AdaPKLUCB", ONE_GOOD, low), bandit("AdaPKLUCB", ONE_GOOD, high), "regret")
        for low, high in steps
    ]


def why_later(results: Results) -> str:
    """At which epsilon the regret stops falling."""
    gap = ONE_GOOD[0] - ONE_GOOD[1]
    kl = float(bernoulli_divergence(np.array(ONE_GOOD[1]), np.array(ONE_GOOD[0])))
    younger = (f"{x:g}: {number(number_of(results, bandit('DPIMED', ONE_GOOD, x), 'regret').value)}" for x in LEVELS)
    return (
        f"the lower bound of theorem 3 stops falling at kl / (6 gap) = {kl / (6 * gap):.2f}. An episode of AdaP-KLUCB "
        "must be so long that alpha ln t / (epsilon n) is below the gap, which asks for more pulls than the divergence "
        f"does up to epsilon = kl / gap = {kl / gap:.1f}. DP-IMED has, by epsilon, {', '.join(younger)}"
    )


def regimes(statement: str, quote: str, stated: str, low: bool) -> Claim:
    """Figure 3, below or above epsilon = 0.3."""
    steps = tuple((a, b) for a, b in itertools.pairwise(LEVELS) if (b <= 0.3) == low)
    return Claim(
        statement,
        quote,
        stated,
        lambda r: falls(r, steps),
        above(1) if low else alike(1, 0.1, "'does not depend'"),
        tuple(b / a for a, b in steps) if low else 1.0,
        1.0 if low else tuple(b / a for a, b in steps),
        why_later,
        tuple(f"from {a:g} to {b:g}" for a, b in steps),
    )


BY_EPSILON = (
    regimes(
        "Section 5, Figure 3: below epsilon = 0.3 the regret of AdaP-KLUCB depends on it (falls, times)",
        "Section 5: 'a high-privacy regime (for ε < 0.3), where the regret of AdaP-KLUCB depends on the privacy "
        "budget'",
        "depends",
        True,
    ),
    regimes(
        "Section 5, Figure 3: above epsilon = 0.3 the regret of AdaP-KLUCB does not depend on it (falls, times)",
        "Section 5: 'a low privacy regime (for ε > 0.3), where the regret of AdaP-KLUCB does not depend on'",
        "does not depend",
        False,
    ),
)
