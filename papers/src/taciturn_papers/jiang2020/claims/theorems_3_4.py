"""Theorems 3 and 4, Corollaries 1 to 3, Lemmas 1 to 6, and the complexity of Algorithm 1: claims with a proof."""

import math

from taciturn_papers.claims import Claim, at_least, at_most, equal
from taciturn_papers.jiang2020 import model

CROWDS = (100, 1_000, 10_000)
K_STAR = math.sqrt(0.018 / (0.04 - 0.018 / 2) * (1 + (5 / 8) * 500 + (5 / 8) * 300))
"""Corollary 3's bound on k* in the stated model."""

PROVED = (
    Claim(
        "Corollary 1: the optimal rate is at least the bound (largest ratio of the bound to the rate in 36 models)",
        "Corollary 1: 'is lower bounded by … R(1)/((1/μ+1/p)τ+t0)'",
        "at most 1",
        lambda r: model.corollaries()[0],
        at_most(1),
        1.0,
        1.1,
        "the corollary holds, but the paper's number for the stated model does not follow from it",
    ),
    Claim(
        "Corollary 2: the optimal rate is at most the bound (largest ratio of the rate to the bound in 36 models)",
        "Corollary 2: 'is upper bounded by … max_k R(k)/(kτ+t0)'",
        "at most 1",
        lambda r: model.corollaries()[1],
        at_most(1),
        1.0,
        1.1,
        "the corollary holds, but the paper's number for the stated model does not follow from it",
    ),
    Claim(
        "Corollary 3: k* < sqrt(a/(c - a/2) (1 + mu/p + mu t0/tau)) (largest ratio of k* to the bound in 36 models)",
        "Corollary 3: 'Given R(k) = c - a/(k+1), we have k* < √(a/(c-a/2)(1+μ/p+μt0/τ))'",
        "at most 1",
        lambda r: model.corollaries()[2],
        at_most(1),
        1.0,
        1.1,
        "we take k* at the optimal rate; the bound is loose and does not depend on M",
    ),
    Claim(
        "Section 3.2: the complexity of Algorithm 1 is O(M) (number of terms, divided by M and by the square of "
        "Corollary 3's bound)",
        "Section 3.2: 'Therefore, the complexity of the algorithm for (3.2) is O(M(k*)²) = O(M)'",
        "at most 1",
        lambda r: [model.terms(clients) / (clients * K_STAR**2) for clients in CROWDS],
        at_most(1),
        1.0,
        2.0,
        "we use the bound on k* in the stated model; it does not depend on M",
        tuple(f"M = {clients:,}" for clients in CROWDS),
    ),
    Claim(
        "Theorem 3: pi_lambda is optimal for the rate if V_lambda = 0 (ratio of the rate of this rule to lambda*)",
        "Theorem 3: 'then the policy π* is also optimal for maximizing E[R(K_N)]/E[Nτ+t0]'",
        1.0,
        lambda r: model.theorem_3()[1],
        equal(1),
        1.0,
        0.9,
        lambda r: (
            f"at lambda = lambda*, |V| is {model.theorem_3()[0]:.1g} relative to R(M). The theorem's first equation "
            "has "
            "a stray lambda in the denominator; with it, the quotient would be 1 instead of lambda"
        ),
    ),
    Claim(
        "Theorem 4: a threshold rule is optimal for (3.2) (1 + (value of the rule - best value) / R(M), farthest from "
        "1)",
        "Theorem 4: 'The following threshold policy is optimal for Problem (3.2)'",
        1.0,
        lambda r: model.theorem_4(),
        equal(1),
        1.0,
        0.9,
        "we solve the Bellman equations in all states (k, beta), for concave R, in 16 models at two values of lambda",
    ),
    Claim(
        "Lemma 1: V = R(k*) - lambda (n tau + t0) - (k - k*) lambda tau/mu (ratio of the rise of V per update to "
        "lambda tau/mu)",
        "Lemma 1: 'V(k,β,n) = R(k*) - λ(nτ+t0) - (k-k*)λτ/μ'",
        -1.0,
        lambda r: model.lemma_1(),
        equal(-1, 1e-6),
        -1.0,
        1.0,
        "the lemma has a slip of sign: with k* - k, as in Algorithm 1, it holds (in a model with M = 12)",
    ),
    Claim(
        "Lemma 2: V is decreasing and convex in lambda (largest slope, and smallest second difference)",
        "Lemma 2: 'is decreasing and convex in λ'",
        "at most 0, at least 0",
        lambda r: model.lemma_2(),
        (at_most(0), at_least(-1e-12)),
        (-1.0, 0.0),
        (1.0, -1.0),
        labels=("slope", "second difference"),
    ),
    Claim(
        "Lemma 3: V(k, beta, n + 1) = V(k, beta, n) - lambda tau (ratio of the difference to -lambda tau: value "
        "farthest from 1)",
        "Lemma 3: 'For any state (k,β,n) with n ≥ k, V(k,β,n+1) = V(k,β,n) - λτ'",
        1.0,
        lambda r: model.lemma_3(),
        equal(1),
        1.0,
        0.0,
        "we use backward induction over time, with M = 4",
    ),
    Claim(
        "Lemma 4: from k* on, stopping is optimal (largest difference in value, waiting minus stopping, relative to "
        "R(M))",
        "Lemma 4: 'For all states with k ≥ k* and n ≥ k, optimal action rule is to stop'",
        "at most 0",
        lambda r: model.lemmas_4_and_5()[0],
        at_most(0),
        0.0,
        0.1,
        "we check all states of 16 models at two values of lambda",
    ),
    Claim(
        "Lemma 5: below k*, waiting is optimal if an update is queued (smallest difference in value, waiting minus "
        "stopping, relative to R(M))",
        "Lemma 5: 'For all states with k < k*, n ≥ k and β ≥ 1, optimal rules are to continue'",
        "at least 0",
        lambda r: model.lemmas_4_and_5()[1],
        at_least(0),
        0.0,
        -0.1,
        "we check all states of 16 models at two values of lambda",
    ),
    Claim(
        "Lemma 6: if waiting is optimal at (k, 0), it is also optimal at (k - 1, 0) (number of states that violate "
        "this)",
        "Lemma 6: 'if optimal rule for state (k, 0, n) is to continue, then optimal rule for (k - 1, 0, n) is also to "
        "continue'",
        "at most 0",
        lambda r: float(model.lemma_6()),
        at_most(0),
        0.0,
        1.0,
        "we check all states with k < k* of 16 models at two values of lambda. The proof has 0 < V' >= V'' "
        "where V' <= V'' is meant",
    ),
)
