"""Sections 2.3 and 2.4, Theorems 1 and 2: the least payment, and WINTALL's equilibrium."""

import numpy as np

from taciturn.bench.results import Group, Results
from taciturn.bench.statistics import Floats
from taciturn.envs import elicitation_v0
from taciturn.policies import Wintall
from taciturn_papers.claims import Claim, NotRunError, alike, at_most, equal, mean, read
from taciturn_papers.jiang2020 import model
from taciturn_papers.jiang2020.model import COVERED
from taciturn_papers.jiang2020.settings import COSTS, THETAS

CASES = tuple((theta, cost) for theta in THETAS for cost in COVERED)
CASE_NAMES = tuple(f"{theta}, {cost}" for theta, cost in CASES)


def largest(results: Results, theta: str, cost: str) -> Group:
    """The results with the most individuals."""
    groups = list(results.select(theta=theta, cost=cost))
    if not groups:
        raise NotRunError(theta, cost)
    return max(groups, key=lambda group: group.config["num_individuals"])


def by_size(results: Results, theta: str, cost: str, metric: str) -> str:
    """An exact metric against the number of individuals."""
    groups = results.select(theta=theta, cost=cost)
    return ", ".join(f"{g.metrics[metric][0]:.4g} (N = {g.config['num_individuals']:,})" for g in groups)


def published_payment(theta: str, cost: str) -> float:
    """The expected payment by (2.22) at target 1, with the winner's probability as its share, divided by (2.19)."""
    shares, g = THETAS[theta], COSTS[cost]
    values, most = len(shares), max(shares)
    # P = (t + 1) / (1 + M), as a count among reports.
    count, reports = round(10 * (most + 1)), 10 * (1 + values)
    paid = Wintall.payment(count, reports, values, 1.0, float(g.marginal(1.0)))
    return float(paid * count / reports / elicitation_v0.payment_lower_bound(shares, 1.0, g))


def farthest(ratios: Floats) -> float:
    """The ratio farthest from 1."""
    return float(ratios[np.abs(ratios - 1).argmax()])


def equilibria(results: Results) -> str:
    """The gains of deviations with fewer individuals, and with a cost that the theorem does not cover."""
    most = max(float(group.metrics["gain_at_zero"].max()) for group in results.select())
    gains = "; ".join(
        f"for {theta} with a quadratic cost: {by_size(results, theta, 'quadratic', 'gain_at_target')}; for {theta} "
        "with a logarithmic cost, which the theorem does not cover: "
        f"{by_size(results, theta, 'logarithmic', 'gain_at_target')}"
        for theta in THETAS
    )
    gained = f"more than {most:.0e} of the bound" if most > 0 else "anything"
    return (
        f"the exact ratios are, {gains}. The target is not the only equilibrium: if all "
        f"individuals choose eps = 0, no deviation gains {gained}"
    )


THEOREMS = (
    Claim(
        "Theorem 1: no payment below min g' A induces the target quality (largest ratio of this bound, (2.13), to the "
        "smallest payment that does)",
        "Theorem 1: 'Consider the optimization problem defined by (2.10)-(2.12). We have … min g'(ε)A(ε,θ) ≤ E[R]'",
        "at most 1",
        lambda r: [float(model.printed_over_written(cost).max()) for cost in COVERED],
        at_most(1),
        1.0,
        2.0,
        "the bound is true but useless: g' A falls to 0 as eps grows if the cost is linear or quadratic. The smallest "
        "sufficient payment is (2.19), min g'/A over eps >= target. We give the largest ratio over two distributions "
        "and three targets",
        COVERED,
    ),
    Claim(
        "Equation (2.19): the bound of Theorem 1 is min g'/A (ratio of (2.13), as printed, to min g'/A: value "
        "farthest from 1)",
        "Section 2.3: 'Note that the lower bound can be written as … min g'(ε)/(∂P(x◊;(θ,ε))/∂ε) P(x◊;(θ,ε))'",
        1.0,
        lambda r: [farthest(model.printed_over_written(cost)) for cost in COVERED],
        equal(1),
        1.0,
        0.0,
        "this is a misprint: (2.13) and the end of section 2.4 have g' A, while (2.19), (2.20) and WINTALL's own "
        "payment have "
        "g'/A. Equation (2.26) defines A as the smallest P/P', which is the inverse of A in (2.14)",
        COVERED,
    ),
    Claim(
        "Theorem 2: the target is the best response to any belief (ratio of the best response to the target: value "
        "farthest from 1)",
        "Theorem 2: 'then the target quality level … is a bias-proof Nash equilibrium under WINTALL'",
        1.0,
        lambda r: [model.trusted_response(cost) for cost in COVERED],
        read(1, 1e-5, "the accuracy of the search"),
        1.0,
        0.0,
        "we draw 150 beliefs over 2, 4 or 10 values at each of three targets. As the proof assumes, an individual "
        "expects the platform's estimate to equal its own belief",
        COVERED,
    ),
    Claim(
        "Theorem 2: the target is a Nash equilibrium (ratio of the best deviation's gain to the payment bound, exact)",
        "Section 2.3: 'shows that … is a bias-proof Nash equilibrium under WINTALL'",
        "no gain",
        lambda r: [float(largest(r, *case).metrics["gain_at_target"][0]) for case in CASES],
        alike(
            0,
            1e-3,
            "the paper expects no gain if 'the data collector can accurately estimate' theta (here N = 30,000)",
        ),
        0.0,
        0.1,
        equilibria,
        CASE_NAMES,
    ),
    Claim(
        "Theorem 2: with theta known the payment is the lower bound (ratio of (2.22) at the true share to the bound "
        "(2.19))",
        "Theorem 2: 'which equals to V when … = θ (i.e. the platform can accurately estimate … from the collected "
        "data)'",
        1.0,
        lambda r: [published_payment(*case) for case in CASES],
        equal(1),
        1.0,
        0.5,
        "we divide by (2.19), because Theorem 1's V is misprinted",
        CASE_NAMES,
    ),
    Claim(
        "Section 2.3: with many individuals the payment is close to the bound (ratio of the payment to the bound "
        "(2.19), N = 30,000)",
        "Section 2.3: 'When there are a large number of data subjects, the data collector can accurately estimate … so "
        "the payment made to each data subject is close to the lower bound'",
        "close",
        lambda r: [
            *(float(largest(r, *case).metrics["expected_ratio"][0]) for case in CASES),
            *(mean(largest(r, *case).metrics["payment_ratio"]) for case in CASES),
        ],
        alike(1, 0.01, "'close to'"),
        1.0,
        2.0,
        lambda r: (
            "with a quadratic cost the exact ratios are, "
            + "; ".join(f"for {theta}: {by_size(r, theta, 'quadratic', 'expected_ratio')}" for theta in THETAS)
            + ". The payment is close to the bound only in the limit of many individuals"
        ),
        (*(f"{name}, exact" for name in CASE_NAMES), *(f"{name}, simulated" for name in CASE_NAMES)),
    ),
)
