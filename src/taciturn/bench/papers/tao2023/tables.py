"""Tables that explain the curves: how good the estimates are, and what the theorem requires."""

import math
from collections.abc import Iterable

from taciturn.bench.papers.tao2023.settings import BOUND, GROWTH, H, Setting, qualities
from taciturn.bench.papers.tao2023.share_dynamics import agents_needed, lift, sigma, theorem
from taciturn.bench.study import Table
from taciturn.bench.tables import number
from taciturn.envs.social_bandit.world import copies_of_paper


def noise_table(settings: Iterable[Setting]) -> Table:
    """The noise of an agent's estimate, in settings with privacy."""
    rows = []
    for n, m, epsilon, growth in settings:
        assert epsilon is not None
        vectors, copies = n / 2, copies_of_paper(n, growth) / 2
        sd, own = sigma(epsilon, vectors, copies), sigma(epsilon, math.inf, copies)
        (lifted, regret), (fresh, best) = lift(qualities(m), sd), lift(qualities(m), own)
        common = sigma(epsilon, vectors, math.inf)
        ends = [f"{end:.2f}" if share < 1 else "none leads" for share, end in ((lifted, regret), (fresh, best))]
        known = (f"{n:,}", str(m), f"{epsilon:g}", GROWTH[growth], f"{1 / m:.3f}", f"{common:.4f}", f"{own:.4f}")
        rows.append([*known, f"{lifted:.2f}", ends[0], f"{fresh:.2f}", ends[1]])
    columns = (
        "N", "M", "ε", "g", "uniform share", "common noise", "own noise", "sustained share", "regret",
        "sustained share, fresh noise per copy", "regret, fresh noise per copy",
    )  # fmt: skip
    note = (
        "About N/2 agents hold an option, and each perturbs it once. All estimates therefore share the noise of N/2 vectors, however many "
        "copies there are; the T/2 copies that an agent receives add noise of its own (both as standard deviations). Negative estimates "
        "are clipped at 0. This raises every inferior option to 1.5 to 2.5 standard deviations, where clipping adds as much per round as "
        "selection, at most 2%, removes. The sustained share is the total of the inferior options: near 1 and above, no option can lead. "
        "Below that, 'regret' is a lower bound of the final regret."
    )
    return Table("Noise of the estimates", columns, rows, note, frozenset())


def theorem_table() -> Table:
    """Theorem 5.2's conditions beside the simulations."""
    rows = []
    for m in (10, 20, 30):
        asked, logs = theorem(m, 1.0, 10_000), f"{math.log(10_000):.1f}"
        rows += [
            [f"rounds, M = {m}", f"at least {asked['rounds']:,.0f}", "10,000", "no"],
            [f"g(N) / ln N, M = {m} (equation 38)", f"at least 10^{asked['log10_copies']:,.0f}", logs, "no"],
            [f"the same without M^(2 ln 5 / delta²), M = {m}", f"at least {asked['c'] ** 2:.1e}", logs, "no"],
            [f"delta'' of Lemma 5.2, M = {m}, N = 10,000", "at most 0.5", number(asked["deviation"]), "no"],
        ]
    rows.append(["6 mu / delta²", "at most 1", f"{theorem(20, 1.0, 10_000)['exploration']:.4f}", "no, just above"])
    rows.append(["N > 8 h / sqrt(5) + sqrt(2)", f"above {8 * H / math.sqrt(5) + math.sqrt(2):,.0f}", "3,000", "yes"])
    note = (
        "epsilon = 1, g = ln² N, the paper's parameters. No realistic number of agents meets the second condition: with g = sqrt(N) and "
        "M = 20 it takes about 10^21,000."
    )
    columns = ("condition", "required", "in section 6", "met")
    return Table("Conditions of Theorem 5.2", columns, rows, note, frozenset({0, 3}))


def power_of_ten(log10: float) -> str:
    """`10^6.2`."""
    return "more than was tried" if math.isinf(log10) else f"10^{log10:.1f}"


def needed_table() -> Table:
    """How many agents the algorithm as written needs."""
    rows = [
        [str(m), f"{epsilon:g}", *(power_of_ten(agents_needed(m, epsilon, growth)) for growth in ("root", "log_squared"))]
        for m, epsilon in ((20, 0.5), (20, 1.0), (20, 1.5), (20, 2.0), (10, 1.0), (30, 1.0))
    ]  # fmt: skip
    note = (
        f"The smallest N whose mean dynamics has regret {BOUND:.2f} after 10,000 rounds with T = h g(N). A lower bound: the noise common "
        "to all agents also makes the shares fluctuate, which the mean dynamics ignores; the study of the variants includes it. With "
        "g = ln² N the number of copies per agent is what binds: each agent clips its own estimate at 0, a bias that does not average out."
    )
    columns = ("M", "ε", "N, g = √N", "N, g = ln² N")
    return Table("Agents needed, at least", columns, rows, note, frozenset())
