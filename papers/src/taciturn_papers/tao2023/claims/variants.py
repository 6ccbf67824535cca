"""Our own checks: other readings of the algorithm, and a setting in which it learns."""

import math
from collections.abc import Sequence

from taciturn.bench import statistics
from taciturn.bench.results import Config, Group, Results
from taciturn.envs.social_bandit.paper import ordered_means
from taciturn_papers.base import bitwise
from taciturn_papers.claims import Claim, NotRunError, Numbers, alike, at_most, below, mean
from taciturn_papers.tao2023 import settings
from taciturn_papers.tao2023.claims.shared import found
from taciturn_papers.tao2023.settings import (
    AGENTS,
    BOUND,
    COMPARED,
    FAST_LEVELS,
    SHARES,
    Setting,
    level_text,
    reading_of,
)
from taciturn_papers.tao2023.share_dynamics import agents_needed, lift, power_of_ten, sigma

ENOUGH = math.log10(6000)  # log10 of the agents that are enough in the paper


def longest_run(
    results: Results, own: Config, num_agents: int = 10_000, options: int = 20, epsilon: float | None = 1.0
) -> Group | None:
    """The computation with the most rounds, for one reading (see `READINGS`) in one setting."""
    wanted = {"options": options, "privacy": bitwise(epsilon), "growth": "log_squared"}
    played = results.select(policy=SHARES, env_params={"num_agents": num_agents}, **wanted)
    groups = [group for group in played if reading_of(group.config) == own]
    return max(groups, key=lambda g: g.config["env_params"]["horizon"], default=None)


def statements(ends: Sequence[float]) -> dict[str, bool]:
    """The paper's statements about the final regrets of `COMPARED`, and whether they hold."""
    few, more, most, strict, loose, plain, narrow, wide = ends
    return {
        "above 6 delta at N = 3,000": few > BOUND,
        "at most 6 delta at N = 6,000": more <= BOUND,
        "at most 6 delta for every epsilon": max(strict, loose) <= BOUND,
        "at most 6 delta for every M": max(narrow, wide) <= BOUND,
        "falling with N": few > more > most,
        "falling with epsilon": strict > most > loose > plain,
        "rising with M": narrow < most < wide,
        "within 0.02 of the regret without noise at epsilon = 1": most - plain < 0.02,
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
        answers = "; ".join(f"{claim}: {'yes' if holds else 'no'}" for claim, holds in held.items())
        return f"is the regret as the paper states? {answers[:1].upper()}{answers[1:]}" if held else ""

    return Claim(
        f"Regret is at most 6 delta (final regret, N = 10,000, M = 20, epsilon = 1): {name}",
        "",
        f"at most {BOUND:.2f}",
        measured,
        at_most(BOUND),
        BOUND,
        settings.uniform_regret(20),
        why,
        own=True,
    )


def enough(growth: str) -> Claim:
    """How many agents the algorithm needs as written."""

    def sizes(results: Results) -> dict[int, float]:
        every = results.select(policy=SHARES, growth=growth, options=20)
        found = {g.config["env_params"]["num_agents"]: g.mean("regret") for g in every if reading_of(g.config) == {}}
        large = {n: value for n, value in found.items() if n >= 10**5}
        if not large:
            raise NotRunError(growth)
        return large

    return Claim(
        "As written, 6,000 agents are enough for 6 delta (log10 of the smallest computed N with at most 6 delta, M = "
        f"20, epsilon = 1, g = {settings.GROWTH[growth]})",
        "",
        f"{ENOUGH:.2f}",
        lambda r: min((math.log10(n) for n, value in sizes(r).items() if value <= BOUND), default=math.inf),
        at_most(ENOUGH),
        ENOUGH,
        math.inf,
        lambda r: (
            f"the regret of the {SHARES} is "
            + ", ".join(f"{value:.3f} (N = 10^{math.log10(n):.0f})" for n, value in sizes(r).items())
            + ". In the mean dynamics (without the random fluctuations of the shares) 6 delta requires N of at least "
            + power_of_ten(agents_needed(20, 1.0, growth))
        ),
        own=True,
    )


def cross_check(own: Config) -> Claim:
    """The regret of agents compared with noisy share dynamics, for a reading that was run both ways."""

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
        return f"the regret is {one.mean('regret'):.3f} with agents and {second.mean('regret'):.3f} in the {SHARES}"

    return Claim(
        f"Agents have the same regret as the {SHARES} (difference of the regrets, {settings.reading_name(own)})",
        "",
        "0",
        lambda r: statistics.difference(*pair(r)[0].paired(pair(r)[1], "regret")),
        alike(0, 0.03, "the same distribution"),
        0.0,
        0.1,
        spent,
        own=True,
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
        computed = found(results, setting, SHARES).mean("regret")
        return (
            f"the regret is {chance:.3f} without learning, {computed:.3f} in the {SHARES} and {limit:.3f} by equation "
            f"34. Noise alone would give the inferior options a total share of {lifted:.2f}"
        )

    return Claim(
        f"The algorithm learns with beta = 0.65 (final regret, epsilon = {level_text(epsilon)})",
        "",
        f"below {chance - 0.05:.3f}",
        lambda r: mean(found(r, setting).metrics["regret"]),
        below(chance - 0.05),
        chance / 2,
        chance,
        why,
        own=True,
    )


FAST = tuple(map(learns, FAST_LEVELS))
