"""The claims of Chen et al. 2021 beside the computed values.

The paper's figures hold no readable numbers: its numbers are from the text.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.papers.base import IN_KIND
from taciturn.bench.papers.chen2021 import settings
from taciturn.bench.papers.chen2021.mean_field import extinction_leak, first_passage
from taciturn.bench.papers.chen2021.settings import LONG, QUALITIES, cbl, ladder, mean_field_of, ppcl
from taciturn.bench.results import Config, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.study import AGREES, DIFFERS, Verdict

LEVELS = (0.5, 1.0, 2.0, 3.0, 5.0, None)
TAUS = (0.1, 0.5, 1.0)


def time_text(times: Floats) -> str:
    """A mean time with its interval, or that some or all runs never get there."""
    if not np.isfinite(times).all():
        return "never" if not np.isfinite(times).any() else "not in every batch"
    mean, low, high = statistics.mean(times) if len(times) > 1 else (times[0],) * 3
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]" if high - low > 0.05 else f"{mean:.1f}"


def interval_of(times: Floats) -> tuple[float, float] | None:
    """The interval of a mean time, if every run gets there."""
    return statistics.mean(times)[1:] if np.isfinite(times).all() and len(times) > 1 else None


def time_to(results: Results, setting: Config, share: float) -> tuple[Floats, str]:
    """When the mean share of each seed's runs reaches `share`, and the same in the mean field, as text."""
    limit = results.find(mean_field_of(setting))
    other = "" if limit is None else f"mean field: {time_text(first_passage(limit.curves['best'], share))}"
    return first_passage(results.get(setting).curves["best"], share), other


def levels_off(
    results: Results, quantity: str, options: int, epsilon: float, num_agents: int, setting: Config, reason: str = ""
) -> Verdict:
    """Whether the final share is 1, as the paper has it."""
    found: Estimate = statistics.mean(results.get(setting).metrics["best"])
    limit = results.find(mean_field_of(setting))
    leak, bound = extinction_leak(options, num_agents, epsilon)
    texts = [] if limit is None else [f"mean field: {limit.metrics['best'][0]:.3f}"]
    texts.append(f"(K-1) sigma/sqrt(2 pi) = {leak:.3f} against 1/(2K-1) = {bound:.3f}{reason}")
    verdict = DIFFERS if found.high < 0.99 else AGREES
    return Verdict(quantity, 1.0, found.value, verdict, "; ".join(texts), (found.low, found.high))


def agents(results: Results) -> Iterator[Verdict]:
    """Figures 1 and 2."""
    times, limit = time_to(results, ppcl(QUALITIES[4]), 0.99)
    yield Verdict(
        "Figure 1: the share converges fast (time to 99%, K=4, N=400)", "exponentially fast", time_text(times), AGREES,
        f"{limit}. Nearly all agents, not all: at epsilon = 3 a few keep switching (see the final share in consensus)",
    )  # fmt: skip
    runs = results.get(ppcl(QUALITIES[4]))
    agreed = runs.metrics["agreed_at"]
    yield Verdict(
        "Figure 2b: all agents have learned the best option (K=4, N=400; first time, mean over runs)", "around 20 rounds",
        time_text(agreed), IN_KIND,
        f"earlier than in the paper, and {100 * runs.mean('consensus'):.0f}% of the runs are in consensus at t=50: consensus is not "
        "absorbing, since options without supporters keep positive estimates",
        statistics.mean(agreed)[1:] if np.isfinite(agreed).all() else None,
    )  # fmt: skip
    for options, qualities in QUALITIES.items():
        several = [time_to(results, ppcl(qualities, num_agents=n), 0.9)[0].mean() for n in (200, 400, 800)]
        yield Verdict(
            f"Figure 2: N matters little once it is large (K={options}: time to 90% at N = 200, 400, 800)", "very limited",
            ", ".join(f"{time:.1f}" for time in several), AGREES if max(several) / min(several) < 1.1 else IN_KIND,
            "" if options < 8 else "N changes the level at which the share settles, which the paper does not mention",
        )  # fmt: skip
    for n in (400, 800):
        yield levels_off(
            results, f"Figure 2c: all agents learn the best option (K=8, N={n}: share at t=50)",
            8, 3.0, n, ppcl(QUALITIES[8], num_agents=n),
            ": seven options without supporters keep estimates above 0, so that holders of the best option often see less than the "
            "threshold and try another one. Theorem 1 is about the first passage at most",
        )  # fmt: skip


def options(results: Results) -> Iterator[Verdict]:
    """Figure 3."""
    chosen = {k: ppcl(ladder(0.9, 0.1, k), horizon=LONG) for k in (2, 4, 8)}
    times = {k: time_to(results, setting, 0.9) for k, setting in chosen.items()}
    ratio = times[8][0].mean() / times[2][0].mean()
    yield Verdict(
        "Figure 3: rounds to converge, K = 8 over K = 2 (time to 90%)", "around two times", ratio,
        AGREES if 1.5 <= ratio <= 2.5 else IN_KIND,
        "; ".join(f"K={k}: {time_text(t)} ({way})" for k, (t, way) in times.items())
        + ". For 99% the ratio is infinite: at K = 8 the share settles below that",
    )  # fmt: skip
    yield levels_off(results, "Figure 3: K = 8 converges (share at t=150)", 8, 3.0, 400, chosen[8])


def gaps(results: Results) -> Iterator[Verdict]:
    """Figure 4."""
    slow = {}
    for gap, paper in ((0.1, 110), (0.2, None), (0.3, 30)):
        times, limit = time_to(results, ppcl(ladder(0.95, gap, 4), horizon=LONG), 0.99)
        slow[gap] = times.mean()
        if paper is None:
            continue
        variants = "; ".join(
            f"{name}: {time_text(time_to(results, one, 0.99)[0])}"
            for name, one in settings.small_gap_variants(gap).items()
        )
        yield Verdict(
            f"Figure 4: rounds to converge, gap {gap} (time to 99%)", f"around {paper}", time_text(times), DIFFERS,
            f"{limit}. No reading of the text takes as long: {variants}", interval_of(times),
        )  # fmt: skip
    ratio = slow[0.1] / slow[0.3]
    yield Verdict(
        "Figure 4: rounds at gap 0.1 over rounds at gap 0.3", "3.7", ratio, IN_KIND if ratio > 1.5 else DIFFERS,
        "a larger gap is faster, as in the paper; for small gaps the time scales as 1/gap, which would give 3",
    )  # fmt: skip


def privacy(results: Results) -> Iterator[Verdict]:
    """Figure 5."""
    early = {e: time_to(results, ppcl(QUALITIES[4], epsilon=e), 0.85)[0].mean() for e in LEVELS}
    yield Verdict(
        "Figure 5: a larger epsilon converges faster (time to 85%)", "significantly",
        ", ".join(f"{'no noise' if e is None else e}: {t:.1f}" for e, t in early.items()),
        AGREES if all(map(math.isfinite, early.values())) and early[0.5] > 1.5 * early[3.0] else IN_KIND,
        "from epsilon = 1 on the speed hardly changes; what changes is the level at which the share settles",
    )  # fmt: skip
    for epsilon in (0.5, 1.0, 2.0, 3.0):
        quantity = f"Figure 5: the share converges (epsilon = {epsilon}: share at t=50)"
        yield levels_off(results, quantity, 4, epsilon, 400, ppcl(QUALITIES[4], epsilon=epsilon))
    runs = results.get(ppcl(QUALITIES[4]))
    yield Verdict(
        "Theorem 2: epsilon-LDP for each agent (epsilon = 3, t=50)", "3 per message",
        f"3 per message, {runs.mean('epsilon_zcdp'):,.0f} in the run", "holds per message, not per run",
        f"every agent replies at every tick of every agent: {runs.mean('replies'):,.0f} replies by t=50 (zCDP, delta = 1e-5). A single "
        f"requester learns at most {runs.mean('epsilon_per_requester'):,.0f} about one agent (basic composition)",
    )  # fmt: skip


def comparison(results: Results) -> Iterator[Verdict]:
    """Figure 6."""
    times, limit = time_to(results, ppcl(QUALITIES[4]), 0.99)
    others: Sequence[Floats] = [time_to(results, cbl(tau), 0.99)[0] for tau in TAUS]
    slower = times.mean() - min(one.mean() for one in others)
    listed = ", ".join(f"tau = {tau}: {time_text(one)}" for tau, one in zip(TAUS, others, strict=True))
    yield Verdict(
        "Figure 6: PPCL (epsilon = 3) takes longer than CBL (time to 99%, PPCL minus the fastest CBL)", "about ten rounds", slower,
        AGREES if 5 <= slower <= 15 else DIFFERS,
        f"PPCL: {time_text(times)} ({limit}); CBL: {listed}. PPCL is faster: it hears from everybody at every tick, starts from uniform "
        "preferences, and its threshold ends the search as soon as the best option has a share of 1 - 1/(2K)",
    )  # fmt: skip
