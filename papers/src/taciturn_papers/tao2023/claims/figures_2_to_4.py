"""Section 6, Figures 2 to 4: numbers of agents, of options, and privacy, with Theorem 5.3."""

import math

from taciturn.bench import statistics
from taciturn.bench.results import Results
from taciturn.bench.statistics import Floats
from taciturn_papers.base import flip_probability
from taciturn_papers.claims import Claim, alike, at_most, mean
from taciturn_papers.tao2023 import settings
from taciturn_papers.tao2023.claims.shared import LITTLE, bounded, checked, found, larger, similar
from taciturn_papers.tao2023.settings import BOUND, ROUNDS, SHARES, SIZES, Setting


def settling(results: Results, setting: Setting) -> Floats:
    """By how much the regret falls after a tenth of the rounds, by noisy share dynamics."""
    group = found(results, setting, SHARES)
    return group.metrics["regret_at_tenth"] - group.metrics["regret"]


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
        *(Setting(n, m) for m in (10, 20) for n in SIZES[1:]),
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
        lambda r: (
            f"this is the epsilon of one round, as in the theorem. Over a run of {ROUNDS:,} rounds an agent sends "
            f"about {found(r, Setting(10_000)).mean('messages') / 10_000:,.0f} messages, each at epsilon. An agent "
            "without an option visibly sends nothing, so its epsilon over a run is infinite"
        ),
    ),
    Claim(
        "Without noise regret stays within 6 delta (final regret, N = 10,000, M = 20)",
        "",
        f"at most {BOUND:.2f}",
        lambda r: mean(found(r, Setting(10_000, epsilon=None)).metrics["regret"]),
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
