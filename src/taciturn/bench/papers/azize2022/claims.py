"""The claims of Azize & Basu 2022, section 5 and theorem 7. Its figures hold no readable numbers: the paper's numbers
are from the text."""

import math

import numpy as np

from taciturn.bench.papers.azize2022.settings import (
    ALPHA,
    ALPHAS,
    GAMMAS,
    HORIZON,
    LINEAR,
    NAMES,
    ONE_GOOD,
    bandit,
    bold,
    tree,
)
from taciturn.bench.papers.claims import Claim, Range, above, at_least, at_most, number_of, ratio_of, untested
from taciturn.bench.results import Results
from taciturn.bench.statistics import Estimate
from taciturn.bench.tables import number
from taciturn.policies.classic.bandit_indices import bernoulli_divergence
from taciturn.policies.classic.private_indices import first_lower_bound, regret_lower_bound

RIVALS = ("DPSuccessiveElimination", "DPUCB")
SOUND = tuple(name for name in NAMES if name != "DPUCB")
OURS = ("AdaPKLUCB", "AdaPUCB")
Pairs = tuple[tuple[str, str], ...]
PAIRS: Pairs = tuple((rival, one) for rival in RIVALS for one in OURS)


def times_lower(results: Results, pairs: Pairs) -> list[Estimate]:
    """The regret of the first over that of the second, of each pair."""
    return [ratio_of(results, bandit(rival), bandit(one), "regret") for rival, one in pairs]


def named(pairs: Pairs) -> tuple[str, ...]:
    return tuple(f"{NAMES[rival]} over {NAMES[one]}" for rival, one in pairs)


def scaled(regret: Estimate, bound: float) -> Estimate:
    """Regret over the bound's, at the horizon."""
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


OVER_TIME = (
    Claim(
        "Section 5, Figure 2: AdaP-KLUCB achieves the lowest regret (regret of the others over its own)",
        "lowest",
        lambda r: times_lower(r, tuple((name, "AdaPKLUCB") for name in ("AdaPUCB", *RIVALS))),
        above(1),
        (1.5, 9.5, 9.5),
        1.0,
        regrets,
        named(tuple((name, "AdaPKLUCB") for name in ("AdaPUCB", *RIVALS))),
    ),
    Claim(
        "Section 5: AdaP-UCB is second (regret of the competing algorithms over its own)",
        "followed by AdaP-UCB",
        lambda r: times_lower(r, tuple((name, "AdaPUCB") for name in RIVALS)),
        above(1),
        9.5,
        1.0,
        "",
        named(tuple((name, "AdaPUCB") for name in RIVALS)),
    ),
    Claim(
        "Section 5: AdaP-KLUCB and AdaP-UCB have almost 10 times lower regret than DP-SE",
        "almost 10",
        lambda r: times_lower(r, PAIRS[:2]),
        Range(7.0, 10.0),
        9.5,
        1.0,
        "all algorithms are published as pseudocode; no code of the authors was found. DP-SE has its beta = 1/T",
        named(PAIRS[:2]),
    ),
    Claim(
        "Section 5: AdaP-KLUCB and AdaP-UCB have almost 10 times lower regret than DP-UCB",
        "almost 10",
        lambda r: times_lower(r, PAIRS[2:]),
        Range(7.0, 10.0),
        9.5,
        1.0,
        lambda r: (
            "over AdaP-KLUCB with gamma = 0.01: "
            f"{number(ratio_of(r, tree(0.01), bandit('AdaPKLUCB'), 'regret').value)}, with 1/T: "
            f"{number(ratio_of(r, tree(1 / HORIZON), bandit('AdaPKLUCB'), 'regret').value)}"
        ),
        named(PAIRS[2:]),
    ),
    Claim(
        "Theorem 7: the regret of AdaP-UCB at most",
        round(upper_bound()),
        lambda r: number_of(r, bandit("AdaPUCB"), "regret"),
        at_most(upper_bound()),
        upper_bound(),
        HORIZON * (max(LINEAR) - sum(LINEAR) / len(LINEAR)),
    ),
    untested("Theorem 8: an upper bound on the regret of AdaP-KLUCB", "", "its constants are not given"),
    untested("Lemma 1: means of disjoint episodes are together as private as each", "", "a proof"),
    untested("Theorem 6: Algorithm 1 is epsilon-differentially private", "", "a proof"),
    untested("Theorem 2: a lower bound on the regret in the worst instance", "", "a proof about all algorithms"),
    Claim(
        "Theorem 3: regret over ln T is at least its bound as T grows (regret at the horizon over that of the bound)",
        "at least 1 in the limit",
        lambda r: [
            scaled(number_of(r, bandit(name), "regret"), first_lower_bound(np.array(LINEAR), 1.0)) for name in SOUND
        ],
        at_least(1.0, kind=(0.5, math.inf)),
        1.0,
        0.0,
        lambda r: (
            "a limit: at a finite horizon less would be no counterexample. Azize et al. 2025 have a greater bound, "
            f"{regret_lower_bound(np.array(LINEAR), 1.0) / first_lower_bound(np.array(LINEAR), 1.0):.2f} times this one"
        ),
        tuple(NAMES[name] for name in SOUND),
    ),
)


def fall(high: float, low: float) -> Claim:
    """How many times the regret of AdaP-KLUCB falls from one epsilon to a greater one."""
    free = high >= 0.3

    def why(results: Results) -> str:
        later = [number(number_of(results, bandit("DPIMED", ONE_GOOD, level), "regret").value) for level in (high, low)]
        gap = ONE_GOOD[0] - ONE_GOOD[1]
        kl = float(bernoulli_divergence(np.array(ONE_GOOD[1]), np.array(ONE_GOOD[0])))
        return (
            f"DP-IMED: {later[0]} and {later[1]}. The lower bound of theorem 3 stops falling at kl / (6 gap) = "
            f"{kl / (6 * gap):.2f}. An episode of AdaP-KLUCB must be so long that alpha ln t / (epsilon n) is below "
            "the gap, which asks for more pulls than the divergence does up to epsilon = kl / gap = "
            f"{kl / gap:.1f}"
        )

    return Claim(
        f"Section 5, Figure 3: the regret of AdaP-KLUCB {'does not depend' if free else 'depends'} on epsilon "
        f"{'above' if free else 'below'} 0.3 (at {high:g} over at {low:g})",
        "independent" if free else "depends",
        lambda r: ratio_of(r, bandit("AdaPKLUCB", ONE_GOOD, high), bandit("AdaPKLUCB", ONE_GOOD, low), "regret"),
        Range(0.9, 1.1) if free else above(1.1),
        1.0 if free else low / high,
        low / high if free else 1.0,
        why,
    )


BY_EPSILON = (fall(0.03, 0.1), fall(0.1, 0.3), fall(0.3, 1.0), fall(1.0, 3.0), fall(3.0, 10.0))
