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
    equal,
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
    """For each pair, the ratio of the first algorithm's regret to the second's."""
    return [ratio_of(results, bandit(rival), bandit(one), "regret") for rival, one in pairs]


def named(pairs: Pairs) -> tuple[str, ...]:
    return tuple(f"{NAMES[rival]} to {NAMES[one]}" for rival, one in pairs)


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
        f"the regrets at the horizon are: {', '.join(found)}; DP-UCB with gamma = 0.01 and 1/T: {other}; AdaP-KLUCB "
        f"with alpha = 1 and 0.3: {less}; asymptotic lower bounds: {' (theorem 3) and '.join(bounds)} (Azize et al. "
        "2025). With gamma = 0.1 the noise of DP-UCB exceeds its bound in some runs, and the regret of these runs "
        "grows with the horizon"
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
LIMIT = "this is a limit as T grows: a smaller value at a finite horizon is no counterexample"
OVER_TIME = (
    Claim(
        "Section 5, Figure 2: AdaP-KLUCB achieves the lowest regret (ratio of the regret of another algorithm to "
        "AdaP-KLUCB's)",
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
        "Section 5: AdaP-UCB has the second lowest regret (ratio of the regret of a competing algorithm to AdaP-UCB's)",
        "Section 5: 'AdaP-KLUCB achieves the lowest regret followed by AdaP-UCB'",
        "second",
        lambda r: times_lower(r, SECOND),
        above(1),
        9.5,
        1.0,
        labels=named(SECOND),
    ),
    Claim(
        "Section 5: AdaP-UCB and AdaP-KLUCB have almost 10 times lower regret than their competitors (ratio of a "
        "competitor's regret to theirs)",
        "Section 5: 'Both of them attain almost 10 times lower regret than the competing algorithms'",
        "almost 10",
        lambda r: times_lower(r, PAIRS),
        read(9.5, 0.5, "we read 'almost 10' as 9 to 10"),
        9.5,
        1.0,
        lambda r: (
            "all algorithms are published as pseudocode; we found no code of the authors. DP-SE has beta = 1/T. The "
            "ratio of DP-UCB's regret to AdaP-KLUCB's is "
            f"{number(ratio_of(r, tree(0.01), bandit('AdaPKLUCB'), 'regret').value)} with gamma = 0.01, and "
            f"{number(ratio_of(r, tree(1 / HORIZON), bandit('AdaPKLUCB'), 'regret').value)} with gamma = 1/T"
        ),
        named(PAIRS),
    ),
    Claim(
        "Theorem 7: the regret of AdaP-UCB is at most the theorem's bound (regret at the horizon)",
        "Theorem 7: 'AdaP-UCB satisfies ε-global DP, and for α > 3, it yields a regret … Σ (16α/min{Δ, ε} log(T) + "
        "α/(α-3))'",
        f"at most {upper_bound():,.0f}",
        lambda r: number_of(r, bandit("AdaPUCB"), "regret"),
        at_most(upper_bound()),
        upper_bound(),
        HORIZON * (max(LINEAR) - sum(LINEAR) / len(LINEAR)),
    ),
    Claim(
        "Theorem 2: the two terms of the bound are equal at epsilon = 131/27 sqrt((K - 1)/T) (ratio of the exact "
        "solution to this value)",
        "Section 3: 'In the high-privacy regime, specifically for ε < 131/27 √((K-1)/T), the hardness … is higher than "
        "the lower bound for bandits without privacy'",
        1.0,
        lambda _: equal_epsilon(100, 10**6) / (131 / 27 * math.sqrt((100 - 1) / 10**6)),
        equal(1),
        1.0,
        0.5,
        "the paper exchanges the two constants: the terms of max{sqrt(T (K - 1))/27, (K - 1)/(131 epsilon)} are equal "
        "at epsilon = 27/131 sqrt((K - 1)/T). For T = 10^6 and K = 100 this is "
        f"{equal_epsilon(100, 10**6):.4f} instead of 0.05",
    ),
    untested(
        "Theorem 8: the regret of AdaP-KLUCB is at most the theorem's bound",
        "Theorem 8: 'for α > 3 and constants C1(α), C2 > 0, it yields a regret'",
        "an upper bound",
        "the paper does not give the constants of the bound",
    ),
    untested(
        "Lemma 1: by parallel composition, the means of disjoint episodes cost no more privacy than one of them",
        "Lemma 1: 'satisfies ε-DP'",
        "epsilon-DP",
        "the claim is about all sequences of rewards and rests on a proof",
    ),
    untested(
        "Theorem 6: Algorithm 1 is epsilon-differentially private",
        "Theorem 6: 'Algorithm 1 satisfies ε-global DP'",
        "epsilon-DP",
        "the claim is about all sequences of rewards and rests on a proof",
    ),
    untested(
        "Theorem 2: in the worst instance the regret is at least the theorem's bound",
        "Theorem 2: 'the minimax regret of stochastic bandits with ε-global DP satisfies'",
        "a lower bound",
        "the claim is about all algorithms and rests on a proof",
    ),
    untested(
        "Theorem 3: as T grows, the regret divided by ln T is at least the theorem's bound",
        "Theorem 3: 'lim Reg_T(π, ν)/log(T) ≥ Σ Δ/min(d_inf, 6ε t_inf)'",
        "at least, in the limit",
        LIMIT,
    ),
    untested(
        "Theorems 4 and 5: the regret of linear bandits is at least the theorems' bounds",
        "Theorem 5: 'for any consistent and ε-global DP bandit algorithm satisfies'",
        "lower bounds",
        "the claims are about all algorithms and rest on proofs; we run no linear bandits",
    ),
    Claim(
        "Ratio of regret / ln T at the horizon to Theorem 3's bound",
        "",
        "at least 1 in the limit",
        lambda r: [
            scaled(number_of(r, bandit(name), "regret"), first_lower_bound(np.array(LINEAR), 1.0)) for name in SOUND
        ],
        at_least(1.0),
        1.0,
        0.0,
        "Azize et al. 2025 prove a bound that is "
        f"{regret_lower_bound(np.array(LINEAR), 1.0) / first_lower_bound(np.array(LINEAR), 1.0):.2f} times as large",
        tuple(NAMES[name] for name in SOUND),
        own=True,
    ),
)


def why_later(results: Results) -> str:
    """At which epsilon the regret stops falling."""
    gap = ONE_GOOD[0] - ONE_GOOD[1]
    kl = float(bernoulli_divergence(np.array(ONE_GOOD[1]), np.array(ONE_GOOD[0])))
    younger = (
        f"{number(number_of(results, bandit('DPIMED', ONE_GOOD, x), 'regret').value)} at epsilon = {x:g}"
        for x in LEVELS
    )
    return (
        f"the lower bound of theorem 3 stops falling at epsilon = kl / (6 gap) = {kl / (6 * gap):.2f}. An episode of "
        "AdaP-KLUCB must have so many pulls n that the noise term alpha ln t / (epsilon n) is below the gap and the "
        f"term of the KL divergence, alpha ln t / n, below kl. Up to epsilon = kl / gap = {kl / gap:.1f} the noise "
        f"term requires more pulls than the divergence term. The regret of DP-IMED is {', '.join(younger)}"
    )


def regimes(statement: str, quote: str, stated: str, low: bool) -> Claim:
    """Figure 3, below or above epsilon = 0.3."""
    steps = tuple((a, b) for a, b in itertools.pairwise(LEVELS) if (b <= 0.3) == low)
    return Claim(
        statement,
        quote,
        stated,
        lambda r: [
            ratio_of(r, bandit("AdaPKLUCB", ONE_GOOD, a), bandit("AdaPKLUCB", ONE_GOOD, b), "regret") for a, b in steps
        ],
        above(1) if low else alike(1, 0.1, "'does not depend'"),
        tuple(b / a for a, b in steps) if low else 1.0,
        1.0 if low else tuple(b / a for a, b in steps),
        why_later,
        tuple(f"from {a:g} to {b:g}" for a, b in steps),
    )


BY_EPSILON = (
    regimes(
        "Section 5, Figure 3: below epsilon = 0.3 the regret of AdaP-KLUCB depends on epsilon (ratio of regrets, lower "
        "epsilon to higher)",
        "Section 5: 'a high-privacy regime (for ε < 0.3), where the regret of AdaP-KLUCB depends on the privacy "
        "budget'",
        "depends",
        True,
    ),
    regimes(
        "Section 5, Figure 3: above epsilon = 0.3 the regret of AdaP-KLUCB does not depend on epsilon (ratio of "
        "regrets, lower to higher)",
        "Section 5: 'a low privacy regime (for ε > 0.3), where the regret of AdaP-KLUCB does not depend on'",
        "does not depend",
        False,
    ),
)
