"""The claims of Tao et al. 2023 beside the computed values.

The paper's figures hold no readable numbers: its numbers are from the text.
"""

import math
from collections.abc import Iterator

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.papers.base import bitwise
from taciturn.bench.papers.tao2023 import settings
from taciturn.bench.papers.tao2023.settings import AGENTS, BOUND, LEVELS, SHARES, SIZES, Setting, reading_of
from taciturn.bench.papers.tao2023.share_dynamics import agents_needed, lift, power_of_ten, sigma, theorem
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Floats
from taciturn.bench.study import AGREES, DIFFERS, Verdict
from taciturn.envs.social_bandit.world import copies_of_paper

VACUOUS = "true, but vacuous"
FAST_LEVELS = (1.0, 2.0, None)
# The settings that the paper's claims compare, as arguments of `society`.
COMPARED: tuple[Config, ...] = (
    *({"num_agents": n} for n in SIZES),
    *({"epsilon": e} for e in (0.5, 2.0, None)),
    *({"options": m} for m in (10, 30)),
)


def share_text(values: Floats, form: str = ".3f") -> str:
    """The cross-check by noisy share dynamics, as text."""
    return f"{SHARES}: {format(values.mean(), form) if values.size else 'not run yet'}"


def bounded(results: Results, claim: str, setting: Setting, *, above: bool = False) -> Iterator[Verdict]:
    """Whether the regret is at most 6 delta, or above it where the paper says `above`."""
    n, m, epsilon, growth = setting
    values = setting.final_regret(results, AGENTS)
    if not values.size:
        return
    mean, low, high = statistics.mean(values)
    holds = mean <= BOUND
    verdict = (VACUOUS if not holds else DIFFERS) if above else (AGREES if holds else DIFFERS)
    shares = share_text(setting.final_regret(results, SHARES))
    reason = f"{shares}; without learning: {settings.uniform_regret(m):.3f}. "
    if epsilon is None:
        reason += "A run that loses the best option early depends on mu to recover it: a few do, with several times the regret"
    else:
        lifted, _ = lift(settings.qualities(m), sigma(epsilon, n / 2, copies_of_paper(n, growth) / 2))
        end = "so that no option can lead" if lifted >= 1 else "and makes the leader's share fluctuate"
        reason += f"Noise sustains a total share of {lifted:.2f} on the inferior options, {end}"
    paper = f"above {BOUND:.2f}" if above else f"at most {BOUND:.2f}"
    yield Verdict(claim, paper, mean, verdict, reason, (low, high))


def difference(results: Results, policy: str, one: Setting, other: Setting) -> Floats:
    """Final regret of one setting minus another's, paired by seed; empty if they were not run."""
    first, second = one.find(results, policy), other.find(results, policy)
    if first is None or second is None:
        return np.zeros(0)
    a, b = first.paired(second, "regret")
    return np.asarray(a - b)


def change(
    results: Results, claim: str, paper: str, one: Setting, other: Setting, sign: int, reason: str = ""
) -> Iterator[Verdict]:
    """The difference of two settings, for which the paper claims this sign, or, with 0, less than 0.02."""
    values = difference(results, AGENTS, one, other)
    if not values.size:
        return
    mean, low, high = statistics.mean(values)
    holds = min(sign * low, sign * high) > 0 if sign else max(abs(low), abs(high)) < 0.02
    neither_learns = all(setting.final_regret(results, AGENTS).mean() > BOUND for setting in (one, other))
    verdict = DIFFERS if not holds else AGREES if not neither_learns else "in sign, not in size" if sign else VACUOUS
    verdict = verdict if len(values) > 1 else "too few seeds to say"
    reasons = [share_text(difference(results, SHARES, one, other), "+.3f"), reason]
    yield Verdict(claim, paper, f"{mean:+.3f}", verdict, ". ".join(filter(None, reasons)), (low, high))


def agents(results: Results) -> Iterator[Verdict]:
    """Figure 2."""
    for m in (10, 20):
        claim = f"Figure 2a: above 6 delta with few agents (N = 3,000, M = {m})"
        yield from bounded(results, claim, Setting(3000, m), above=True)
        for n in (6000, 10_000):
            for growth, figure in (("log_squared", "2a"), ("root", "2b")):
                claim = f"Figure {figure}: bounded by 6 delta once N is large (N = {n:,}, M = {m})"
                yield from bounded(results, claim, Setting(n, m, growth=growth))
    for m in (10, 20):
        claim = f"Figure 2: smaller regret with more agents (N = 10,000 minus N = 3,000, M = {m})"
        reason = "more agents do help, but far too little"
        yield from change(results, claim, "smaller", Setting(10_000, m), Setting(3000, m), -1, reason)
    root, logs = (power_of_ten(agents_needed(20, 1.0, g)) for g in ("root", "log_squared"))
    yield from change(
        results, "Figure 2: ln² N and sqrt(N) give much the same (ln² N minus sqrt N, N = 10,000, M = 20)", "very similar",
        Setting(10_000), Setting(10_000, growth="root"), 0,
        f"similar only because neither learns: getting below 6 delta takes at least {root} agents with g = sqrt(N), {logs} with g = ln² N",
    )  # fmt: skip
    yield Verdict(
        "How many agents are enough (M = 20, epsilon = 1, g = sqrt N)", "6,000", root, DIFFERS,
        "a lower bound, from the mean dynamics; the study of the variants computes noisy share dynamics with up to 10^8 agents",
    )  # fmt: skip
    required = theorem(20, 1.0, 10_000)
    yield Verdict(
        "Theorem 5.2 explains the simulations (M = 20: rounds required)", "10,000 are run", f"{required['rounds']:,.0f}", DIFFERS,
        f"and g(N) / ln N of at least 10^{required['log10_copies']:,.0f}, while N = 10,000 has 9.2",
    )  # fmt: skip


def options(results: Results) -> Iterator[Verdict]:
    """Figure 3."""
    for n, m in ((3000, 20), (3000, 30), (6000, 30)):
        yield from bounded(results, f"Figure 3: above 6 delta (N = {n:,}, M = {m})", Setting(n, m), above=True)
    for m in (10, 20, 30):
        claim = f"Figure 3: bounded by 6 delta (N = 10,000, M = {m})"
        yield from bounded(results, claim, Setting(10_000, m))
    started = settings.uniform_regret(30) - settings.uniform_regret(10)
    for n in SIZES:
        claim = f"Figure 3: larger regret with more options (M = 30 minus M = 10, N = {n:,})"
        reason = f"without learning: {started:+.3f}, since the best of 30 draws is better than the best of 10"
        yield from change(results, claim, "larger", Setting(n, 30), Setting(n, 10), 1, reason)


def privacy(results: Results) -> Iterator[Verdict]:
    """Figure 4."""
    for few in (0.5, 1.0, 1.5):
        claim = f"Figure 4: above 6 delta (N = 3,000, epsilon = {few:g})"
        yield from bounded(results, claim, Setting(3000, epsilon=few), above=True)
    for e in LEVELS:
        claim = f"Figure 4: bounded by 6 delta (N = 10,000, epsilon = {settings.level_text(e)})"
        yield from bounded(results, claim, Setting(10_000, epsilon=e))
    for n in SIZES:
        claim = f"Figure 4: larger regret with smaller epsilon (0.5 minus 2, N = {n:,})"
        yield from change(results, claim, "larger", Setting(n, epsilon=0.5), Setting(n, epsilon=2.0), 1)
    for e in (1.0, 1.5, 2.0):
        claim = f"Figure 4: with N = 10,000, epsilon = {e:g} is close to no noise (difference of regrets)"
        yield from change(results, claim, "very close", Setting(10_000, epsilon=e), Setting(10_000, epsilon=None), 0)
    group = Setting(10_000).find(results, AGENTS)
    if group is not None:
        yield Verdict(
            "Theorem 5.3: epsilon-LDP for each agent (epsilon = 1, N = 10,000)", "1 per round",
            f"1 per round, {group.mean('epsilon_zcdp'):,.0f} in all {group.config['env_params']['horizon']:,}",
            "holds per round, not per run",
            f"an agent sends about {group.mean('messages') / 10_000:,.0f} messages (zCDP, delta = 1e-5); an agent without an option sends "
            "nothing, which is visible to all",
        )  # fmt: skip


def longest_run(
    results: Results, own: Config, num_agents: int = 10_000, options: int = 20, epsilon: float | None = 1.0
) -> Group | None:
    """The longest computation of one reading (see `READINGS`) in one setting."""
    wanted = {"options": options, "privacy": bitwise(epsilon), "growth": "log_squared"}
    played = results.select(policy=SHARES, env_params={"num_agents": num_agents}, **wanted)
    found = [group for group in played if reading_of(group.config) == own]
    return max(found, key=lambda g: g.config["env_params"]["horizon"], default=None)


def variants(results: Results) -> Iterator[Verdict]:
    """Which of the paper's statements hold under each reading; how many agents it takes; and share dynamics against agents."""
    for name, own in settings.READINGS:
        groups = [longest_run(results, own, **one) for one in COMPARED]
        if groups[2] is None:
            continue
        mean, low, high = statistics.mean(groups[2].metrics["regret"])
        ends = [g.mean("regret") for g in groups if g is not None]
        claim = f"At most 6 delta (N = 10,000, M = 20, epsilon = 1): {name}"
        reason = statements(ends) if len(ends) == len(groups) else ""
        verdict = AGREES if mean <= BOUND else DIFFERS
        yield Verdict(claim, f"at most {BOUND:.2f}", mean, verdict, reason, (low, high))
    yield from large_societies(results)
    yield from agents_and_shares(results)


def statements(ends: list[float]) -> str:
    """The paper's statements about the final regrets of `COMPARED`, and whether they hold."""
    few, more, most, strict, loose, plain, narrow, wide = ends
    said = {
        "above 6 delta at N = 3,000": few > BOUND,
        "at most that at N = 6,000": more <= BOUND,
        "for every epsilon": max(strict, loose) <= BOUND,
        "for every M": max(narrow, wide) <= BOUND,
        "falls with N": few > more > most,
        "falls with epsilon": strict > most > loose > plain,
        "rises with M": narrow < most < wide,
        "epsilon = 1 within 0.02 of none": most - plain < 0.02,
    }
    return "; ".join(f"{claim}: {'yes' if holds else 'no'}" for claim, holds in said.items())


def large_societies(results: Results) -> Iterator[Verdict]:
    """How many agents the algorithm as written takes."""
    for growth, name in settings.GROWTH.items():
        every = results.select(policy=SHARES, growth=growth)
        sizes = [(g.config["env_params"]["num_agents"], g.mean("regret")) for g in every]
        large = [one for one in sizes if one[0] >= 10**5]
        if not large:
            continue
        enough = next((n for n, mean in large if mean <= BOUND), None)
        listed = "; ".join(f"10^{math.log10(n):.0f}: {mean:.3f}" for n, mean in large)
        least = power_of_ten(agents_needed(20, 1.0, growth))
        yield Verdict(
            f"As written, which N is enough (M = 20, epsilon = 1, g = {name})", "6,000",
            "more than 10^8" if enough is None else f"10^{math.log10(enough):.0f}", DIFFERS,
            f"{SHARES}: {listed}. By the mean dynamics it takes at least {least}",
        )  # fmt: skip


def agents_and_shares(results: Results) -> Iterator[Verdict]:
    """Noisy share dynamics against agents, where both were run: they may differ by 0.01 and three standard errors."""
    for group in results.select(policy=AGENTS):
        own, params = reading_of(group.config), group.config["env_params"]
        same = {"num_agents": params["num_agents"], "horizon": params["horizon"]}
        others = results.select(policy=SHARES, env_params=same, options=20, privacy=group.config["privacy"])
        second = next((g for g in others if reading_of(g.config) == own), None)
        if second is None:
            continue
        a, b = group.paired(second, "regret")
        apart = a - b
        near = abs(apart.mean()) <= 0.01 + 3 * apart.std() / math.sqrt(max(len(apart) - 1, 1))
        mean, low, high = statistics.mean(group.metrics["regret"])
        yield Verdict(
            f"Our own check, {params['num_agents']:,} agents, {params['horizon']:,} rounds: {settings.reading_name(own)}",
            f"{SHARES}: {second.mean('regret'):.3f}", mean, AGREES if near else DIFFERS,
            f"largest loss of any agent: epsilon = {group.mean('epsilon_zcdp'):,.0f} (zCDP, delta = 1e-5)", (low, high),
        )  # fmt: skip


def fast(results: Results) -> Iterator[Verdict]:
    """A setting where the algorithm learns: beta = 0.65, with 2,000 agents, 5 options and 400 copies."""
    for epsilon in FAST_LEVELS:
        setting = Setting(2000, 5, epsilon)
        values, second = (setting.final_regret(results, policy) for policy in (AGENTS, SHARES))
        if not values.size:
            continue
        mean, low, high = statistics.mean(values)
        without = settings.uniform_regret(setting.m)
        limit = next((g.mean("regret") for g in results.select(policy=settings.LIMIT)), math.nan)
        lifted, _ = lift(settings.qualities(setting.m), sigma(epsilon, setting.n / 2, 200), math.log(0.65 / 0.35))
        yield Verdict(
            f"Regret at epsilon = {settings.level_text(epsilon)}; without learning: {without:.3f}", "not reported", mean,
            "learns" if mean < without - 0.05 else "does not learn",
            f"{share_text(second)}; equation 34: {limit:.3f}. Noise sustains a total share of {lifted:.2f} on the inferior options",
            (low, high),
        )  # fmt: skip
