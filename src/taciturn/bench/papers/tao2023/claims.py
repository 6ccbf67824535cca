"""The claims of Tao et al. 2023. Its figures hold no readable numbers: the paper's numbers are from the text.

Where the paper says that a regret exceeds 6 delta, or that two regrets are ordered or alike, learning is part of the
claim: regrets like those of uniform shares do not agree with it, only in kind.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.papers.base import bitwise, flip_probability
from taciturn.bench.papers.claims import (
    ANYTHING,
    Claim,
    NotRunError,
    Numbers,
    Range,
    about,
    above,
    at_most,
    mean,
    untested,
)
from taciturn.bench.papers.tao2023 import settings
from taciturn.bench.papers.tao2023.settings import (
    AGENTS,
    BOUND,
    COMPARED,
    FAST_LEVELS,
    LEVELS,
    ROUNDS,
    SHARES,
    SIZES,
    Setting,
    reading_of,
)
from taciturn.bench.papers.tao2023.share_dynamics import agents_needed, lift, power_of_ten, sigma, theorem
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Floats
from taciturn.envs.social_bandit.world import copies_of_paper, ordered_means

# Of a regret over that of uniform shares: below it something is learned.
LEARNS = Range(high=0.9, kind=ANYTHING)
ENOUGH = math.log10(6000)  # agents, in the paper


def check_text(setting: Setting, results: Results) -> str:
    """The cross-check by noisy share dynamics, as text."""
    group = setting.find(results, SHARES)
    return f"{SHARES}: {'not run yet' if group is None else format(group.mean('regret'), '.3f')}"


def regret(results: Results, setting: Setting) -> Floats:
    """The final regrets of the agents."""
    return found(results, setting).metrics["regret"]


def found(results: Results, setting: Setting) -> Group:
    """The results of a setting, played by agents."""
    group = setting.find(results, AGENTS)
    if group is None:
        raise NotRunError(setting)
    return group


def bounded(claim: str, setting: Setting, *, over: bool = False) -> Claim:
    """A claim that the regret is at most 6 delta, or above it where the paper says `over`."""
    n, m, epsilon, growth = setting
    chance = settings.uniform_regret(m)

    def why(results: Results) -> str:
        reason = f"{check_text(setting, results)}; without learning: {chance:.3f}. "
        if epsilon is None:
            return (
                reason
                + "A run that loses the best option early depends on mu to recover it: a few do, with several times "
                "the regret"
            )
        lifted, _ = lift(ordered_means(m), sigma(epsilon, n / 2, copies_of_paper(n, growth) / 2))
        end = "so that no option can lead" if lifted >= 1 else "and makes the leader's share fluctuate"
        return reason + f"Noise sustains a total share of {lifted:.2f} on the inferior options, {end}"

    ranges = Range(math.nextafter(BOUND, 1), 0.9 * chance, (BOUND, math.inf)) if over else at_most(BOUND)
    return Claim(
        claim,
        f"above {BOUND:.2f}" if over else f"at most {BOUND:.2f}",
        lambda r: mean(regret(r, setting)),
        ranges,
        1.5 * BOUND if over else 0.9 * BOUND,
        chance,
        why,
    )


def compared(
    claim: str, paper: str, one: Setting, other: Setting, ranges: Range, value: float, reason: str = ""
) -> Claim:
    """A claim about the difference of two regrets, of which the smaller is to be one of learning."""

    def measured(results: Results) -> Numbers:
        a, b = found(results, one).paired(found(results, other), "regret")
        over = min(
            (a / settings.uniform_regret(one.m), b / settings.uniform_regret(other.m)), key=lambda x: float(x.mean())
        )
        return [statistics.difference(a, b), mean(over)]

    def why(results: Results) -> str:
        checks = [group.mean("regret") for s in (one, other) if (group := s.find(results, SHARES)) is not None]
        return ". ".join(filter(None, [f"{SHARES}: {checks[0] - checks[1]:+.3f}" if len(checks) == 2 else "", reason]))

    chance = settings.uniform_regret(one.m) - settings.uniform_regret(other.m)
    labels = ("difference", "smaller one over that of uniform shares")
    return Claim(claim, paper, measured, (ranges, LEARNS), (value, 0.3), (chance, 1.0), why, labels)


def settled(results: Results, setting: Setting) -> Floats:
    """The first round from which on each curve stays within 0.02 of its end."""
    rounds = []
    for x, y in found(results, setting).curves["regret"]:
        away = np.flatnonzero(np.abs(y - y[-1]) > 0.02)
        rounds.append(float(x[away[-1] + 1]) if away.size else float(x[0]))
    return np.array(rounds)


def same_horizon(m: int) -> Claim:
    """Section 6.1: when the regret settles."""
    few, many = Setting(3000, m), Setting(10_000, m)

    def measured(results: Results) -> Numbers:
        ends = [regret(results, one) / settings.uniform_regret(m) for one in (few, many)]
        return [
            statistics.ratio(settled(results, many), settled(results, few)),
            mean(min(ends, key=lambda x: float(x.mean()))),
        ]

    return Claim(
        "Section 6.1: convergence within almost the same horizon (rounds until the regret settles, N = 10,000 over N = "
        f"3,000, M = {m})",
        "almost the same",
        measured,
        (about(1, 0.25, kind=(0.1, 10)), LEARNS),
        (1.0, 0.3),
        (1.0, 1.0),
        "settled: within 0.02 of its end",
        ("ratio", "smaller regret over that of uniform shares"),
    )


@lru_cache
def mixing_growth(kind: str, sizes: tuple[int, int] = (65, 257)) -> float:
    """Steps until walks are N^-3-close to uniform (section 3.4.1, by the spectral gap): growth between two sizes over
    that of ln² N."""
    from taciturn.envs.core.graph import Graph, random_graph
    from taciturn.envs.social_bandit.dissemination import metropolis_hastings

    def steps(size: int) -> float:
        graph: Graph = random_graph(kind, size, 1)
        eigenvalues = np.sort(np.abs(np.linalg.eigvalsh(metropolis_hastings(graph))))
        return math.log(2 * size**4) / -math.log(eigenvalues[-2])

    small, large = sizes
    return steps(large) / steps(small) * (math.log(small) / math.log(large)) ** 2


def theorem_5_1(kind: str, name: str, why: str) -> Claim:
    """Theorem 5.1, without the delays of its queues: walks must be long enough anyway."""
    return Claim(
        f"Theorem 5.1: walks are nearly uniform within O(log² N) slots ({name}, growth of the steps over that of ln² "
        "N, N = 65 to 257)",
        "at most 1, on any connected non-bipartite graph",
        lambda r: mixing_growth(kind),
        at_most(1),
        1.0,
        16 * (math.log(65) / math.log(257)) ** 2,
        why,
    )


def needed(results: Results) -> float:
    """log10 of the agents needed, by the mean dynamics."""
    return agents_needed(20, 1.0, "root")


def required(results: Results) -> Numbers:
    """What Theorem 5.2 requires over what the simulations have: rounds, and log10 of g(N) / ln N."""
    asked = theorem(20, 1.0, 10_000)
    return [asked["rounds"] / ROUNDS, asked["log10_copies"] / math.log10(math.log(10_000))]


TWO_MS = "the text says M = 10, the caption M = 20"
FIGURE_2 = (
    *(
        bounded(f"Figure 2a: above 6 delta with few agents (N = 3,000, M = {m})", Setting(3000, m), over=True)
        for m in (10, 20)
    ),
    *(
        bounded(
            f"Figure {figure}: bounded by 6 delta once N is large (N = {n:,}, M = {m})", Setting(n, m, growth=growth)
        )
        for m in (10, 20)
        for n in (6000, 10_000)
        for growth, figure in (("log_squared", "2a"), ("root", "2b"))
    ),
    *(
        compared(
            f"Figure 2: smaller regret with more agents (N = 3,000 minus N = 10,000, M = {m}; {TWO_MS})",
            "larger",
            Setting(3000, m),
            Setting(10_000, m),
            above(0.005),
            0.06,
            "more agents do help, but far too little",
        )
        for m in (10, 20)
    ),
    compared(
        "Figure 2: ln² N and sqrt(N) give much the same (ln² N minus sqrt N, N = 10,000, M = 20)",
        "very similar",
        Setting(10_000),
        Setting(10_000, growth="root"),
        Range(-0.02, 0.02),
        0.0,
        "similar because neither learns",
    ),
    *map(same_horizon, (10, 20)),
    Claim(
        "Section 6.1: 6,000 agents are enough (log10 of the smallest N, M = 20, epsilon = 1, g = sqrt N)",
        f"{ENOUGH:.2f}",
        needed,
        at_most(ENOUGH),
        ENOUGH,
        math.inf,
        lambda r: (
            f"at least {power_of_ten(needed(r))}, and {power_of_ten(agents_needed(20, 1.0, 'log_squared'))} with g = "
            "ln² N, by the mean dynamics; the study of the variants computes noisy share dynamics with up to 10^8 "
            f"agents"
        ),
    ),
    Claim(
        "Theorem 5.2 explains the simulations (what it requires over what they have, M = 20)",
        "at most 1",
        required,
        at_most(1),
        (1.0, 1.0),
        2.0,
        "10,000 rounds, and N = 10,000 with g = ln² N",
        ("rounds", "log10 of g(N) / ln N"),
    ),
    theorem_5_1(
        "erdos_renyi",
        "random graphs",
        "the steps grow like log N / gap, and the gap of random graphs hardly depends on N; queues only add",
    ),
    theorem_5_1(
        "ring",
        "odd rings",
        "the paper takes the gap of any graph as a constant; a ring's shrinks like N^-2, so that walks take N² log N "
        "steps",
    ),
)

START = settings.uniform_regret(30) - settings.uniform_regret(10)
FIGURE_3 = (
    *(
        bounded(f"Figure 3: above 6 delta (N = {n:,}, M = {m})", Setting(n, m), over=True)
        for n, m in ((3000, 20), (3000, 30), (6000, 30))
    ),
    bounded(
        "Figure 3: bounded by 6 delta with N = 3,000 and M = 10 (implied: it names M >= 20; section 6.1 says the "
        "contrary for M = 10)",
        Setting(3000, 10),
    ),
    *(bounded(f"Figure 3: bounded by 6 delta (N = 10,000, M = {m})", Setting(10_000, m)) for m in (10, 20, 30)),
    *(
        compared(
            f"Figure 3: larger regret with more options (M = 30 minus M = 10, N = {n:,})",
            "larger",
            Setting(n, 30),
            Setting(n, 10),
            above(0.005),
            0.06,
            f"without learning: {START:+.3f}, since the best of 30 draws is better than the best of 10",
        )
        for n in SIZES
    ),
)


def privacy_note(results: Results) -> str:
    """What a run spends."""
    group = found(results, Setting(10_000))
    return (
        f"per round, not per run: {group.mean('epsilon_zcdp'):,.0f} in all {ROUNDS:,} rounds; an agent sends about "
        f"{group.mean('messages') / 10_000:,.0f} messages (zCDP, delta = 1e-5). An agent without an option sends "
        "nothing, which is visible"
    )


FIGURE_4 = (
    *(
        bounded(f"Figure 4: above 6 delta (N = 3,000, epsilon = {e:g})", Setting(3000, epsilon=e), over=True)
        for e in (0.5, 1.0, 1.5)
    ),
    bounded(
        "Figure 4: bounded by 6 delta with N = 3,000 and epsilon = 2 (implied: it names epsilon <= 1.5)",
        Setting(3000, epsilon=2.0),
    ),
    *(
        bounded(
            f"Figure 4: bounded by 6 delta (N = 10,000, epsilon = {settings.level_text(e)})", Setting(10_000, epsilon=e)
        )
        for e in LEVELS
    ),
    *(
        compared(
            f"Figure 4: larger regret with smaller epsilon (0.5 minus 2, N = {n:,})",
            "larger",
            Setting(n, epsilon=0.5),
            Setting(n, epsilon=2.0),
            above(0.005),
            0.06,
        )
        for n in SIZES
    ),
    *(
        compared(
            f"Figure 4: with N = 10,000, epsilon = {e:g} is close to no noise (difference of regrets)",
            "very close",
            Setting(10_000, epsilon=e),
            Setting(10_000, epsilon=None),
            Range(-0.02, 0.02),
            0.0,
        )
        for e in (1.0, 1.5, 2.0)
    ),
    Claim(
        "Theorem 5.3: epsilon-LDP for each agent in each round (largest log-likelihood ratio of a message over "
        "epsilon, epsilon = 1)",
        "at most 1",
        lambda r: 2 * math.log(1 / flip_probability(1.0) - 1),
        at_most(1 + 1e-9),
        1.0,
        math.inf,
        privacy_note,
    ),
    untested(
        "Remark 5.1: O(g(N) log³ N) bits per agent and round",
        "an order",
        "the constants are free and the runs take copies as uniform, as Theorem 5.1 says; its condition is tested with "
        "Figure 2",
    ),
)


def longest_run(
    results: Results, own: Config, num_agents: int = 10_000, options: int = 20, epsilon: float | None = 1.0
) -> Group | None:
    """The longest computation of one reading (see `READINGS`) in one setting."""
    wanted = {"options": options, "privacy": bitwise(epsilon), "growth": "log_squared"}
    played = results.select(policy=SHARES, env_params={"num_agents": num_agents}, **wanted)
    groups = [group for group in played if reading_of(group.config) == own]
    return max(groups, key=lambda g: g.config["env_params"]["horizon"], default=None)


def statements(ends: Sequence[float]) -> dict[str, bool]:
    """The paper's statements about the final regrets of `COMPARED`, and whether they hold."""
    few, more, most, strict, loose, plain, narrow, wide = ends
    return {
        "above 6 delta at N = 3,000": few > BOUND,
        "at most that at N = 6,000": more <= BOUND,
        "for every epsilon": max(strict, loose) <= BOUND,
        "for every M": max(narrow, wide) <= BOUND,
        "falls with N": few > more > most,
        "falls with epsilon": strict > most > loose > plain,
        "rises with M": narrow < most < wide,
        "epsilon = 1 within 0.02 of none": most - plain < 0.02,
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
        return "; ".join(f"{claim}: {'yes' if holds else 'no'}" for claim, holds in held.items())

    return Claim(
        f"At most 6 delta (N = 10,000, M = 20, epsilon = 1): {name}",
        f"at most {BOUND:.2f}",
        measured,
        at_most(BOUND),
        0.9 * BOUND,
        settings.uniform_regret(20),
        why,
    )


def enough(growth: str) -> Claim:
    """How many agents the algorithm as written takes."""

    def sizes(results: Results) -> dict[int, float]:
        every = results.select(policy=SHARES, growth=growth, options=20)
        found = {g.config["env_params"]["num_agents"]: g.mean("regret") for g in every if reading_of(g.config) == {}}
        large = {n: value for n, value in found.items() if n >= 10**5}
        if not large:
            raise NotRunError(growth)
        return large

    return Claim(
        "As written, 6,000 agents are enough (log10 of the smallest N computed, M = 20, epsilon = 1, g = "
        f"{settings.GROWTH[growth]})",
        f"{ENOUGH:.2f}",
        lambda r: min((math.log10(n) for n, value in sizes(r).items() if value <= BOUND), default=math.inf),
        at_most(ENOUGH),
        ENOUGH,
        math.inf,
        lambda r: (
            f"{SHARES}: "
            + "; ".join(f"10^{math.log10(n):.0f}: {value:.3f}" for n, value in sizes(r).items())
            + f". By the mean dynamics it takes at least {power_of_ten(agents_needed(20, 1.0, growth))}"
        ),
    )


def cross_check(own: Config) -> Claim:
    """Noisy share dynamics against agents, for a reading that both were run for."""

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
        return (
            f"agents: {one.mean('regret'):.3f}, {SHARES}: {second.mean('regret'):.3f}; largest loss of any agent: "
            "epsilon = "
            f"{one.mean('epsilon_zcdp'):,.0f} (zCDP, delta = 1e-5)"
        )

    return Claim(
        f"Our own check: agents minus {SHARES}, {settings.reading_name(own)}",
        "0",
        lambda r: statistics.difference(*pair(r)[0].paired(pair(r)[1], "regret")),
        Range(-0.03, 0.03),
        0.0,
        0.1,
        spent,
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
        return (
            f"without learning: {chance:.3f}; {check_text(setting, results)}; equation 34: {limit:.3f}. Noise sustains "
            "a total share of "
            f"{lifted:.2f} on the inferior options"
        )

    return Claim(
        f"The algorithm learns with beta = 0.65 (regret, epsilon = {settings.level_text(epsilon)})",
        "not reported",
        lambda r: mean(regret(r, setting)),
        at_most(chance - 0.05),
        chance / 2,
        chance,
        why,
    )


FAST = tuple(map(learns, FAST_LEVELS))
