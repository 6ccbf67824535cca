"""The claims of Chen et al. 2021. Its figures hold no readable numbers: the paper's numbers are from the text.

The paper does not say when a curve has converged. Here, in all figures, when its share reaches `LEVEL`, two ways: the
mean over runs of when each first gets there, and when their mean does.
"""

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.papers.base import flip_probability
from taciturn.bench.papers.chen2021 import settings
from taciturn.bench.papers.chen2021.mean_field import extinction_leak, first_passage, lemma_2, within
from taciturn.bench.papers.chen2021.settings import (
    LEVEL,
    LEVELS,
    LONG,
    TAUS,
    cbl,
    ladder,
    mean_field_of,
    ppcl,
)
from taciturn.bench.papers.claims import Claim, about, at_least, at_most, group_of, mean, number_of
from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.tables import number
from taciturn.envs.gossip_bandit.world import CHEN2021

TWO_WAYS = ("mean over runs", "of their mean curve")
NEVER = math.inf
BASE = ppcl(CHEN2021[4])
SPEED = f"time to {LEVEL:.0%}"


def times(results: Results, *chosen: Config) -> list[list[Floats]]:
    """When the share reaches `LEVEL`, for each of `TWO_WAYS` and each setting, over the seeds that all settings
    have."""
    groups = [group_of(results, one) for one in chosen]
    seeds = functools.reduce(np.intersect1d, [group.seeds for group in groups])
    kept = [np.isin(group.seeds, seeds) for group in groups]
    return [
        [group.metrics[name][rows] for group, rows in zip(groups, kept, strict=True)]
        for name in (f"runs_reach_{LEVEL:g}", f"mean_reaches_{LEVEL:g}")
    ]


def quotient(one: Floats, other: Floats) -> Estimate:
    """A mean time over another, paired; 1 if neither gets there."""
    ends = [bool(np.isfinite(x).all()) for x in (one, other)]
    if all(ends):
        return statistics.ratio(one, other)
    value = 0.0 if ends[0] else NEVER if ends[1] else 1.0
    return Estimate(value, value, value)


def excess(one: Floats, others: Sequence[Floats]) -> Estimate:
    """A mean time minus the smallest of others, paired; 0 if none gets there."""
    best = min(others, key=lambda x: float(x.mean()))
    ends = [bool(np.isfinite(x).all()) for x in (one, best)]
    if all(ends):
        return statistics.difference(one, best)
    value = -NEVER if ends[0] else NEVER if ends[1] else 0.0
    return Estimate(value, value, value)


def listed(results: Results, named: dict[str, Config]) -> str:
    """The times of several settings, by the runs and in the mean field."""
    texts = []
    for name, setting in named.items():
        runs, curve = (number(float(x.mean())) for (x,) in times(results, setting))
        limit = results.find(mean_field_of(setting))
        field = "" if limit is None else f", mean field {number(first_passage(limit.curves['best'], LEVEL)[0])}"
        texts.append(f"{name}: {runs} and {curve}{field}")
    return "; ".join(texts)


def duration(statement: str, rounds: float, setting: Config, explanation: Callable[[Results], str]) -> Claim:
    """A claim that the share converges within so many rounds."""
    return Claim(
        f"{statement} ({SPEED})",
        f"around {rounds:g}",
        lambda r: [mean(x) for (x,) in times(r, setting)],
        about(rounds, 0.2, kind=(rounds / 2, rounds * 2)),
        rounds,
        NEVER,
        explanation,
        TWO_WAYS,
    )


def levels_off(statement: str, epsilon: float, setting: Config) -> Claim:
    """A claim that the final share is 1."""
    params = setting["env_params"]
    options = len(params["qualities"])

    def why(results: Results) -> str:
        limit = results.find(mean_field_of(setting))
        leak, bound = extinction_leak(options, params["num_agents"], epsilon)
        field = "" if limit is None else f"mean field: {limit.metrics['best'][0]:.3f}; "
        return (
            f"{field}(K-1) sigma/sqrt(2 pi) = {leak:.3f} against 1/(2K-1) = {bound:.3f}: options without supporters "
            "keep estimates above 0, so that holders of the best option may see less than the threshold, and try "
            "another one"
        )

    return Claim(
        f"{statement}: share at t={params['horizon']:g})",
        1.0,
        lambda r: number_of(r, setting, "best"),
        at_least(0.99),
        1.0,
        1 / options,
        why,
    )


def slowing(results: Results) -> Estimate:
    """Figure 1: how much longer 1 - Y takes from 0.1 to 0.05 than from 0.2 to 0.1."""
    curves = group_of(results, BASE).curves["best"]
    first, second, third = (first_passage(curves, level) for level in (0.8, 0.9, 0.95))
    if not np.isfinite(third).all():
        return mean(third)
    return statistics.ratio(third - second, second - first)


def spread(qualities: Sequence[float]) -> Claim:
    """Figure 2: N matters little once it is large."""
    named = {f"N = {n}": ppcl(qualities, num_agents=n) for n in (200, 400, 800)}

    def slowest(results: Results) -> list[Estimate]:
        ordered = [sorted(way, key=lambda x: float(x.mean())) for way in times(results, *named.values())]
        return [quotient(way[-1], way[0]) if np.isfinite(way).all() else mean([NEVER]) for way in ordered]

    return Claim(
        f"Figure 2: N matters little once it is large (K={len(qualities)}: slowest over fastest of N = 200, 400, 800, "
        f"{SPEED})",
        "very limited",
        slowest,
        at_most(1.15, kind=(1, 1.5)),
        1.0,
        NEVER,
        lambda r: listed(r, named),
        TWO_WAYS,
    )


def learnability(epsilon: float | None) -> Claim:
    """Theorem 1, with the largest mu that its proof allows, 1 - phi_2/phi_1."""
    setting = ppcl(CHEN2021[4], epsilon=epsilon)
    size, bound = setting["env_params"]["num_agents"], 1 - CHEN2021[4][1] / CHEN2021[4][0]
    least = 1 - (1 - bound / 2) ** (size / 8)
    name = "no noise" if epsilon is None else f"epsilon = {epsilon:g}"
    why = (
        "with noise, consensus is reached but not kept: the rates of leaving it, which the proof takes as 0, are "
        "positive, since options without supporters keep estimates above 0. The theorem holds for the first passage"
        if epsilon
        else "without noise consensus is absorbing"
    )
    return Claim(
        f"Theorem 1: all agents end on the best option (share of runs, {name}, K=4, N={size}, t=50)",
        f"at least {least:.4f}",
        lambda r: number_of(r, setting, "consensus"),
        at_least(least),
        1.0,
        0.0,
        why,
    )


def lemma_2_claim(epsilon: float = 3.0) -> Claim:
    """Lemma 2, at an N at which its bound says something."""
    small, *_ = lemma_2(CHEN2021[4], epsilon, 400)
    bound, size, delta = lemma_2(CHEN2021[4], epsilon)
    return Claim(
        f"Lemma 2: an estimate is within delta of the share (probability, epsilon = 3, K = 4, N = {size:,})",
        f"at least {bound:.2g}",
        lambda r: within(delta, 4, epsilon, size),
        at_least(bound),
        bound,
        0.0,
        f"20,000 estimates at uniform shares. At the N = 400 of the figures the bound is {small:.2g}, which says "
        "nothing",
    )


def replies(results: Results) -> str:
    """What a run spends."""
    runs = group_of(results, BASE)
    return (
        f"per message, not per run: every agent replies at every tick of every agent, {runs.mean('replies'):,.0f} "
        "times by t=50, which makes "
        f"{runs.mean('epsilon_zcdp'):,.0f} (zCDP, delta = 1e-5). A single requester learns at most "
        f"{runs.mean('epsilon_per_requester'):,.0f} about one agent (basic composition)"
    )


def consensus(results: Results) -> str:
    """Figure 2b: what comes after the first passage."""
    kept = 100 * group_of(results, BASE).mean("consensus")
    return (
        f"the first time, mean over runs; {kept:.0f}% of the runs are in consensus at t=50, because consensus is not "
        "absorbing"
    )


AGENTS = (
    Claim(
        "Figure 1: the share converges exponentially fast (time of 1 - Y from 0.1 to 0.05 over that from 0.2 to 0.1)",
        "1 if exponential",
        slowing,
        about(1, 0.5, kind=(0, 3)),
        1.0,
        NEVER,
        lambda r: listed(r, {SPEED: BASE}),
    ),
    Claim(
        "Figure 2b: all agents have learned the best option (K=4, N=400)",
        "around 20 rounds",
        lambda r: number_of(r, BASE, "agreed_at"),
        about(20, 0.2, kind=(10, 40)),
        20.0,
        NEVER,
        consensus,
    ),
    *(spread(q) for q in CHEN2021.values()),
    *(
        levels_off(f"Figure 2c: all agents learn the best option (K=8, N={n}", 3.0, ppcl(CHEN2021[8], num_agents=n))
        for n in (400, 800)
    ),
    learnability(3.0),
    lemma_2_claim(),
)

OPTIONS_OF = {k: ppcl(ladder(0.9, 0.1, k), horizon=LONG) for k in (2, 4, 8)}
OPTIONS = (
    Claim(
        f"Figure 3: rounds to converge, K = 8 over K = 2 ({SPEED})",
        "around two times",
        lambda r: [quotient(*x) for x in times(r, OPTIONS_OF[8], OPTIONS_OF[2])],
        about(2, 0.25, kind=(1.2, 4)),
        2.0,
        1.0,
        lambda r: listed(r, {f"K={k}": one for k, one in OPTIONS_OF.items()}),
        TWO_WAYS,
    ),
    levels_off("Figure 3: K = 8 converges (N=400", 3.0, OPTIONS_OF[8]),
)


def gap_duration(gap: float, rounds: float) -> Claim:
    """Figure 4: one gap."""
    variants = {"as stated": ppcl(ladder(0.95, gap, 4), horizon=LONG)} | settings.small_gap_variants(gap)
    why = "No reading of the text takes as long"
    return duration(
        f"Figure 4: rounds to converge, gap {gap}",
        rounds,
        variants["as stated"],
        lambda r: f"{why}: {listed(r, variants)}",
    )


GAPS = (
    gap_duration(0.1, 110),
    gap_duration(0.3, 30),
    Claim(
        f"Figure 4: rounds at gap 0.1 over rounds at gap 0.3 ({SPEED})",
        "3.7",
        lambda r: [quotient(*x) for x in times(r, *(ppcl(ladder(0.95, gap, 4), horizon=LONG) for gap in (0.1, 0.3)))],
        about(3.7, 0.15, kind=(1.5, 8)),
        3.7,
        1.0,
        "for small gaps the time scales as 1/gap, which would give 3",
        TWO_WAYS,
    ),
)

LEVELS_OF = {"no noise" if e is None else f"{e:g}": ppcl(CHEN2021[4], epsilon=e) for e in LEVELS}
PRIVACY = (
    Claim(
        f"Figure 5: a larger epsilon converges faster ({SPEED}, epsilon = 0.5 over 3)",
        "significantly",
        lambda r: [quotient(*x) for x in times(r, LEVELS_OF["0.5"], LEVELS_OF["3"])],
        at_least(1.5, kind=(1.05, NEVER)),
        2.0,
        1.0,
        lambda r: listed(r, LEVELS_OF) + ". From epsilon = 1 on what changes is the level at which the share settles",
        TWO_WAYS,
    ),
    *(
        levels_off(f"Figure 5: the share converges (epsilon = {e:g}", e, ppcl(CHEN2021[4], epsilon=e))
        for e in (0.5, 1.0, 2.0, 3.0)
    ),
    learnability(None),
    Claim(
        "Theorem 2: epsilon-LDP for each agent (largest log-likelihood ratio of a message over epsilon, epsilon = 3)",
        "at most 1",
        lambda r: 2 * math.log(1 / flip_probability(3.0) - 1) / 3,
        at_most(1 + 1e-9),
        1.0,
        NEVER,
        replies,
    ),
)

COMPARISON = (
    Claim(
        f"Figure 6: PPCL (epsilon = 3) takes longer than CBL ({SPEED}, PPCL minus the fastest CBL)",
        "about ten rounds",
        lambda r: [excess(one, others) for one, *others in times(r, BASE, *map(cbl, TAUS))],
        about(10, 0.5, kind=(1, 30)),
        10.0,
        -10.0,
        lambda r: (
            listed(r, {"PPCL": BASE, **{f"CBL, tau = {tau}": cbl(tau) for tau in TAUS}})
            + ". PPCL hears from everybody at every tick, starts from uniform preferences, and its threshold ends the "
            "search as soon as the best option has a share of 1 - 1/(2K)"
        ),
        TWO_WAYS,
    ),
)
