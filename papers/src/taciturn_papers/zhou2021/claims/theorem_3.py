"""Theorem 3, Lemma 2 and Remark 1: the bound on the regret of T-PriDO (equation 1)."""

import math

import numpy as np

from taciturn.policies.reference.t_prido import partition_rate
from taciturn_papers.claims import Claim, above, below, group_of, mean, ratio_of, untested
from taciturn_papers.zhou2021.claims.shared import REGRET, everywhere
from taciturn_papers.zhou2021.settings import ROUNDS, compared

DIMENSIONS = (2, 3, 9)
OF_DIMENSIONS = tuple(f"d = {dims}" for dims in DIMENSIONS)


def first_exponent(dims: int, sign: int, eta: float = 0.0) -> float:
    """The exponent of n in the first term of equation 1 for p = p1 + eta; `sign` of its second factor: 1 as printed, -1
    as intended."""
    return 1 + sign / (dims * (1 + partition_rate(dims) + eta))


def second_exponent(dims: int, eta: float = 0.0, optimal_dim: float = 1.0) -> float:
    """The exponent of n in the second term of equation 1, for a near-optimal dimension d_0."""
    return -optimal_dim / (dims * (1 + partition_rate(dims, optimal_dim) + eta))


def third_exponent(dims: int, eta: float) -> float:
    """The exponent of n in the third term of equation 1, with d_0 = 0."""
    p = partition_rate(dims) + eta
    return (3 + 2 * p) / (p * (p + 1) * dims)


THEOREM_3 = (
    everywhere(
        "Theorem 3: cumulative regret is sublinear (exponent of n over the second half of the run)",
        "Abstract: 'our proposed algorithm can achieve sublinear regret'",
        "below 1",
        lambda r, world: [
            mean(1 + np.log2(group.metrics[REGRET] / group.metrics["half_regret"]))
            for group in [group_of(r, compared(world, "TPriDO"))]
        ],
        below(1),
        0.8,
        1.0,
        "We use the tuned xi = 0.05; the theorem requires xi > 6",
    ),
    everywhere(
        "Theorem 3: T-PriDO learns with xi > 6, as the theorem requires (ratio of T-PriDO's regret to Random's)",
        "",
        "below 1",
        lambda r, world: [ratio_of(r, compared(world, "proofs"), compared(world, "Random"), REGRET)],
        below(1),
        0.5,
        1.0,
        f"With xi = 6.5 and psi = 1, a leaf with 100 records still has a confidence width of "
        f"{math.sqrt(6.5 * math.log(ROUNDS) / 800):.2f} after {ROUNDS:,} rounds",
        own=True,
    ),
    Claim(
        "Theorem 3: the first term of the bound is sublinear (exponent of n as printed)",
        "Abstract: 'Theoretical proofs show that our proposed algorithm can achieve sublinear regret'",
        "below 1",
        lambda r: [first_exponent(dims, 1) for dims in DIMENSIONS],
        below(1),
        tuple(first_exponent(dims, -1) for dims in DIMENSIONS),
        1.0,
        "The factor (4 lambda ln n) has the opposite sign in its exponent; with that sign, the exponents of n are "
        + ", ".join(f"{first_exponent(dims, -1):.2f}" for dims in DIMENSIONS),
        OF_DIMENSIONS,
    ),
    Claim(
        "Remark 1: the third term is sublinear for p > p1 but not for p < p1 (exponent of n at p1 + 0.01 and p1 - 0.1)",
        "Remark 1: 'if p decreases to a certain small degree, we cannot ensure the third term sublinear anymore'",
        "below 1, then above",
        lambda r: [third_exponent(dims, eta) for dims in DIMENSIONS for eta in (0.01, -0.1)],
        (below(1), above(1)) * len(DIMENSIONS),
        (0.98, 1.1) * len(DIMENSIONS),
        1.0,
        "Equation 2 requires p1 < eta; with p = p1 the term is n times powers of ln n",
        tuple(f"{of_dimension}, {side}" for of_dimension in OF_DIMENSIONS for side in ("above p1", "below p1")),
    ),
    Claim(
        "Remark 1: the first term of the bound has the highest order (exponent of n minus the third term's exponent)",
        "Remark 1: 'the first term keeps in the highest time order'",
        "highest",
        lambda r: [first_exponent(dims, 1, 0.01) - third_exponent(dims, 0.01) for dims in DIMENSIONS],
        above(0),
        0.1,
        0.0,
        "The exponents are as printed, for p = p1 + 0.01. With the opposite sign the first term's exponent is lower "
        "than the third's: "
        + ", ".join(
            f"{first_exponent(dims, -1, 0.01):.2f} against {third_exponent(dims, 0.01):.2f}" for dims in DIMENSIONS
        ),
        OF_DIMENSIONS,
    ),
    Claim(
        "Remark 1: the first and second terms increase with p (exponent of n at p = p1 + 1 minus exponent at p = p1)",
        "Remark 1: 'if p gets larger, then the first and second term increase'",
        "increase",
        lambda r: [
            rise
            for dims in DIMENSIONS
            for rise in (
                first_exponent(dims, 1, 1.0) - first_exponent(dims, 1),
                second_exponent(dims, 1.0) - second_exponent(dims),
            )
        ],
        above(0),
        0.1,
        0.0,
        "As printed, the first term falls with p; with the opposite sign it increases. We compute the second term for "
        "d_0 = 1; for d_0 = 0, which the paper expects, it does not depend on p",
        tuple(f"{of_dimension}, {term} term" for of_dimension in OF_DIMENSIONS for term in ("first", "second")),
    ),
    Claim(
        "Remark 1: the third term decreases with p (exponent of n at p = p1 + 1 minus exponent at p = p1)",
        "Remark 1: 'the third added term will decrease'",
        "decreases",
        lambda r: [third_exponent(dims, 1.0) - third_exponent(dims, 0.0) for dims in DIMENSIONS],
        below(0),
        -0.1,
        0.0,
        labels=OF_DIMENSIONS,
    ),
    untested(
        "Theorem 3: the regret is at most the bound",
        "Theorem 3: 'upper expected cumulative regret of Alg. 1 is'",
        "an upper bound",
        "the bound's constants L_c, d_0 and psi_s1 depend on data that is not available, and neither is the supplement "
        "with the proof",
    ),
    untested(
        "Lemma 2: a suboptimal node that was tried often enough is hardly ever chosen",
        "Lemma 2: 'any suboptimal node'",
        "2 n^(-xi/4)",
        "the lemma gives the number of trials as a noise value divided by a squared gap, which is not a count; the "
        "supplement with the proof is not available",
    ),
)
