"""Chen et al. 2021 (paper 000), section VI: Figures 1 to 6 run again, each with a mean-field limit as a second way.

All have rate 1, so that a round is a unit of time; where the paper gives a number it is read from its text, since its figures have no
numbers that could be read.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.figures import Plot, plot_curves
from taciturn.bench.play import config, play
from taciturn.bench.study import Cell, Config, Floats, Group, Progress, Result, Results, Score, Study, Verdict, register

QUALITIES: dict[int, tuple[float, ...]] = {
    2: (0.8, 0.2),
    4: (0.95, 0.65, 0.35, 0.05),
    8: (0.92, 0.80, 0.68, 0.56, 0.44, 0.32, 0.20, 0.08),
}
LIMIT = "mean field"
AGREES, KIND, DIFFERS = "agrees", "in kind, not in size", "does not follow"


def ladder(best: float, gap: float, num_options: int) -> list[float]:
    """Qualities a `gap` apart, from the best down."""
    return [round(best - gap * k, 10) for k in range(num_options)]


def mean_field(
    qualities: Sequence[float],
    horizon: float,
    *,
    epsilon: float | None,
    num_agents: int,
    draws: int = 4000,
    step: float = 0.05,
) -> tuple[Floats, Floats]:
    """PPCL's share of the best option where populations do not fluctuate: what each agent hears is as noisy as N replies are.

    Integrates dY_k = sum_j Y_j E[Fhat_k; Fhat_j < alpha] phi_k - Y_k sum_j E[Fhat_j; Fhat_k < alpha] phi_j by Heun's rule: the generator of
    section V with the threshold on the estimate, as Algorithm 1 has it. Expectations are over `draws` normal deviates.

    Returns:
        (times, shares), the best option's share at each unit of time.
    """
    phi, options = np.array(qualities), len(qualities)
    alpha = 1 - 1 / (2 * options)
    q = 0.0 if epsilon is None else 1 / (math.exp(epsilon / 2) + 1)
    deviates = np.random.Generator(np.random.PCG64(1)).standard_normal((draws, options))

    def drift(shares: Floats) -> Floats:
        # Given the shares, N H_k adds N independent bits, each of variance q (1 - q), whatever it says.
        heard = shares + deviates * math.sqrt(q * (1 - q) / num_agents) / (1 - 2 * q)
        clipped = np.clip(heard, 0.0, 1.0)
        total = clipped.sum(1, keepdims=True)
        estimate = np.divide(clipped, total, out=np.zeros_like(clipped), where=total > 0)
        # pulls[j, k]: how often a holder of j takes up k.
        pulls = (estimate < alpha).T.astype(np.float64) @ estimate / draws * phi
        np.fill_diagonal(pulls, 0.0)
        moved: Floats = shares @ pulls - shares * pulls.sum(1)
        return moved

    shares, curve = np.full(options, 1 / options), []
    steps = round(1 / step)
    for _ in range(round(horizon)):
        for _ in range(steps):
            first = drift(shares)
            shares = shares + step / 2 * (first + drift(shares + step * first))
        curve.append(shares[0])
    return np.arange(1.0, len(curve) + 1), np.array(curve)


def when(curves: Sequence[tuple[Floats, Floats]], level: float) -> Floats:
    """When each curve first reaches a level, linearly between its points; infinite where it does not."""
    times = []
    for x, y in curves:
        x, y = np.append(0.0, x), np.append(0.0, y)
        i = int(np.argmax(y >= level))
        times.append(
            math.inf if y[i] < level else x[i - 1] + (level - y[i - 1]) / (y[i] - y[i - 1]) * (x[i] - x[i - 1])
        )
    return np.array(times)


def text(values: Floats) -> str:
    """A time with its interval, or that it never comes."""
    if not np.isfinite(values).all():
        return "never" if not np.isfinite(values).any() else "not in every batch"
    mean, low, high = statistics.mean(values) if len(values) > 1 else (values[0],) * 3
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]" if high - low > 0.05 else f"{mean:.1f}"


class _Convergence(Study):
    """Share of the agents that prefer the best option, against time, in several settings."""

    score = Score("best", label="share that prefers the best option at the end")
    horizon: ClassVar[float] = 50.0

    def settings(self) -> list[Config]:
        """One configuration a curve."""
        raise NotImplementedError

    def ppcl(
        self, qualities: Sequence[float], *, epsilon: float | None = 3.0, num_agents: int = 400, **own: Any
    ) -> Config:
        """PPCL in one setting."""
        privacy = "NoPrivacy" if epsilon is None else f"BitwiseRandomizedResponse:{epsilon:g}"
        params = {"num_agents": num_agents, "qualities": list(qualities), "horizon": self.horizon}
        return config("gossip_bandit_v0", "PPCL", own, privacy, **params)

    def cells(self, quick: bool) -> list[Cell]:
        settings = self.settings()
        limits = [{**one, "policy": LIMIT} for one in settings if one["policy"] == "PPCL" and not one["policy_params"]]
        # 20 seeds of 150 runs are the paper's 3,000. A limit has none, and is named with theirs.
        runs, seeds = (30, 5) if quick else (150, 20)
        played, limits = ([{**one, "runs": runs} for one in part] for part in (settings, limits))
        return self.sweep(played, range(seeds)) + self.sweep(limits, [0])

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        params = cell.config["env_params"]
        if cell.config["policy"] == LIMIT:
            curve = mean_field(
                params["qualities"], params["horizon"], epsilon=level(cell.config), num_agents=params["num_agents"]
            )
            return Result({"best": float(curve[1][-1])}, {"best": curve})
        return play(
            cell,
            replicas=cell.config["runs"],
            record=["best"],
            until=params["horizon"],
            points=round(params["horizon"]),
        )

    def row_label(self, group: Group, results: Results) -> str:
        """The limit is named with the setting that it belongs to."""
        label = super().row_label(group, results)
        return label.replace(f"{LIMIT}, ", f"{LIMIT}: ")

    def plots(self, results: Results) -> list[Plot]:
        played = Results(group for group in results if group.config["policy"] != LIMIT)
        limits = Results(group for group in results if group.config["policy"] == LIMIT)
        labels = {"x_label": "time (rounds)", "y_label": "share that prefers the best option"}
        plots = [plot_curves(self, played, "best", **labels)] if len(played) else []
        if len(limits):
            second = plot_curves(self, limits, "best", **labels)
            caption = f"The second way: the mean-field limit of {', '.join(self.figures)}, with the noise of the replies alone."
            plots.append(Plot(f"{self.name}_limit", second.figure, caption))
        return plots

    def both(self, results: Results, wanted: Config) -> tuple[Group | None, Group | None]:
        """(runs, limit) of one setting, as far as they were run."""
        found = []
        for policy in (wanted["policy"], LIMIT):
            entries = canonical_entries({**wanted, "policy": policy})
            found.append(next((g for g in results if entries.items() <= canonical_entries(g.config).items()), None))
        return found[0], found[1]

    def reaches(self, results: Results, wanted: Config, share: float) -> tuple[Floats, str]:
        """When the mean share of each seed's runs reaches `share`, and what the second way says."""
        runs, limit = self.both(results, wanted)
        times = np.full(1, math.nan) if runs is None else when(runs.curves["best"], share)
        other = "" if limit is None else f"mean field: {text(when(limit.curves['best'], share))}"
        return times, other

    def plateau(self, results: Results, wanted: Config) -> tuple[float, float, float, str]:
        """The share at the end, (mean, low, high), and what the second way says."""
        runs, limit = self.both(results, wanted)
        mean, low, high = (math.nan,) * 3 if runs is None else statistics.mean(runs.metrics["best"])
        return mean, low, high, "" if limit is None else f"mean field: {limit.metrics['best'][0]:.3f}"


def canonical_entries(entries: Config) -> Config:
    """A configuration as results hold it: lists for tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in entries.items()}


def level(entries: Config) -> float | None:
    """The epsilon of a configuration."""
    name, _, epsilon = entries["privacy"].partition(":")
    return None if name == "NoPrivacy" else float(epsilon)


def plateau_condition(num_options: int, num_agents: int, epsilon: float) -> str:
    """Whether extinct options' estimates, which noise keeps above 0, push the best one's below the threshold."""
    q = 1 / (math.exp(epsilon / 2) + 1)
    leak = (num_options - 1) * math.sqrt(q * (1 - q) / num_agents) / (1 - 2 * q) / math.sqrt(2 * math.pi)
    return f"(K-1) sigma/sqrt(2 pi) = {leak:.3f} against 1/(2K-1) = {1 / (2 * num_options - 1):.3f}"


@register
class AgentsStudy(_Convergence):
    name = "chen-2"
    title = "Chen et al. 2021, Figures 1 and 2: how many agents"
    description = (
        "PPCL with epsilon = 3 a reply and even first preferences. The paper does not say in its text which N Figure 2 shows; here 50 to "
        "800. Each curve is the mean of 3,000 runs, 20 seeds of 150."
    )
    figures = ("000/1", "000/2")
    facets = ("env_params.qualities",)

    def settings(self) -> list[Config]:
        return [self.ppcl(q, num_agents=n) for q in QUALITIES.values() for n in (50, 100, 200, 400, 800)]

    def verdicts(self, results: Results) -> list[Verdict]:
        found = []
        baseline = self.ppcl(QUALITIES[4])
        times, limit = self.reaches(results, baseline, 0.99)
        found.append(
            Verdict(
                "Figure 1: the share converges fast (time to 99%, K=4, N=400)", "exponentially fast", text(times), AGREES,
                f"{limit}. Nearly all, not all: with epsilon = 3 the last agents come and go (see the share in consensus at the end)",
            )
        )  # fmt: skip
        runs, _ = self.both(results, baseline)
        if runs is not None:
            found.append(
                Verdict(
                    "Figure 2b: all agents have learned the best option (K=4, N=400; first time, mean over runs)", "around 20 rounds",
                    text(runs.metrics["agreed_at"]), KIND,
                    f"sooner than the paper says, and {100 * runs.metrics['consensus'].mean():.0f}% of the runs stand in consensus at "
                    "t=50: consensus is not absorbing, since options that nobody prefers keep a positive estimate",
                    statistics.mean(runs.metrics["agreed_at"])[1:] if np.isfinite(runs.metrics["agreed_at"]).all() else None,
                )
            )  # fmt: skip
        for options in QUALITIES:
            several = [
                self.reaches(results, self.ppcl(QUALITIES[options], num_agents=n), 0.9)[0].mean()
                for n in (200, 400, 800)
            ]
            spread = max(several) / min(several)
            found.append(
                Verdict(
                    f"Figure 2: N matters little once it is large (K={options}: time to 90% at N = 200, 400, 800)", "very limited",
                    ", ".join(f"{time:.1f}" for time in several), AGREES if spread < 1.1 else KIND,
                    "" if options < 8 else "what N changes is the plateau, which the paper does not mention",
                )
            )  # fmt: skip
        for n in (400, 800):
            mean, low, high, limit = self.plateau(results, self.ppcl(QUALITIES[8], num_agents=n))
            found.append(
                Verdict(
                    f"Figure 2c: all agents learn the best option (K=8, N={n}: share at t=50)", 1.0, mean,
                    DIFFERS if high < 0.99 else AGREES,
                    f"{limit}; {plateau_condition(8, n, 3.0)}: seven options that nobody prefers keep estimates above 0, so who holds the "
                    "best one often see less than the threshold, and try another. Theorem 1 speaks of the first passage at most",
                    (low, high),
                )
            )  # fmt: skip
        return found


@register
class OptionsStudy(_Convergence):
    name = "chen-3"
    title = "Chen et al. 2021, Figure 3: how many options"
    description = "N = 400, epsilon = 3; the best quality is 0.9, and each option is 0.1 worse than the one before it."
    figures = ("000/3",)
    horizon = 150.0

    def settings(self) -> list[Config]:
        return [self.ppcl(ladder(0.9, 0.1, k)) for k in (2, 4, 8)]

    def verdicts(self, results: Results) -> list[Verdict]:
        times = {k: self.reaches(results, self.ppcl(ladder(0.9, 0.1, k)), 0.9) for k in (2, 4, 8)}
        mean, low, high, limit = self.plateau(results, self.ppcl(ladder(0.9, 0.1, 8)))
        ratio = times[8][0].mean() / times[2][0].mean()
        return [
            Verdict(
                "Figure 3: rounds to converge, K = 8 over K = 2 (time to 90%)", "around two times", ratio,
                AGREES if 1.5 <= ratio <= 2.5 else KIND,
                "; ".join(f"K={k}: {text(t)} ({way})" for k, (t, way) in times.items())
                + ". To 99% the ratio is infinite: with K = 8 the share levels off below it",
            ),
            Verdict(
                "Figure 3: K = 8 converges (share at t=150)", 1.0, mean, DIFFERS if high < 0.99 else AGREES,
                f"{limit}; {plateau_condition(8, 400, 3.0)}", (low, high),
            ),
        ]  # fmt: skip


@register
class GapStudy(_Convergence):
    name = "chen-4"
    title = "Chen et al. 2021, Figure 4: the gap of the qualities"
    description = (
        "N = 400, K = 4, epsilon = 3; the best quality is 0.95, and each option is a gap worse than the one before it. Beside it readings "
        "that might be slower: no threshold (alpha = 1, where nobody ever keeps its preference), with noise and without, and all other "
        "options equally bad."
    )
    figures = ("000/4",)
    horizon = 150.0
    facets = ("policy_params.alpha",)

    def settings(self) -> list[Config]:
        plain = [self.ppcl(ladder(0.95, gap, 4)) for gap in (0.1, 0.2, 0.3)]
        return plain + [one for gap in (0.1, 0.3) for one in self.readings(gap).values()]

    def readings(self, gap: float) -> dict[str, Config]:
        """Other readings of the experiment."""
        equal = [0.95] + [round(0.95 - gap, 10)] * 3
        return {
            "the other options equally bad": self.ppcl(equal),
            "no threshold": self.ppcl(ladder(0.95, gap, 4), alpha=1.0),
            "no threshold, no noise": self.ppcl(ladder(0.95, gap, 4), epsilon=None, alpha=1.0),
            "no threshold, no noise, the others equally bad": self.ppcl(equal, epsilon=None, alpha=1.0),
        }

    def verdicts(self, results: Results) -> list[Verdict]:
        found, slow = [], {}
        for gap, paper in ((0.1, 110), (0.2, None), (0.3, 30)):
            setting = self.ppcl(ladder(0.95, gap, 4))
            times, limit = self.reaches(results, setting, 0.99)
            slow[gap] = times.mean()
            if paper is None:
                continue
            other = "; ".join(
                f"{name}: {text(self.reaches(results, one, 0.99)[0])}" for name, one in self.readings(gap).items()
            )
            found.append(
                Verdict(
                    f"Figure 4: rounds to converge, gap {gap} (time to 99%)", f"around {paper}", text(times), DIFFERS,
                    f"{limit}. No reading of the text takes as long: {other}",
                    statistics.mean(times)[1:] if np.isfinite(times).all() and len(times) > 1 else None,
                )
            )  # fmt: skip
        ratio = slow[0.1] / slow[0.3]
        found.append(
            Verdict(
                "Figure 4: rounds at gap 0.1 over rounds at gap 0.3", "3.7", ratio, KIND if ratio > 1.5 else DIFFERS,
                "a larger gap is faster, as the paper says; in the limit of small gaps the time goes as 1/gap, which would give 3",
            )
        )  # fmt: skip
        return found


@register
class PrivacyStudy(_Convergence):
    name = "chen-5"
    title = "Chen et al. 2021, Figure 5: how much privacy a reply"
    description = (
        "N = 400, K = 4. epsilon is of one reply; what an agent spends in a run is in the tables, in all (zCDP, delta = 1e-5) "
        "and as the most that one requester can have got of it (summed)."
    )
    figures = ("000/5",)

    def settings(self) -> list[Config]:
        return [self.ppcl(QUALITIES[4], epsilon=level) for level in (0.5, 1.0, 2.0, 3.0, 5.0, None)]

    def verdicts(self, results: Results) -> list[Verdict]:
        found = []
        early = {
            e: self.reaches(results, self.ppcl(QUALITIES[4], epsilon=e), 0.85)[0].mean()
            for e in (0.5, 1.0, 2.0, 3.0, 5.0, None)
        }
        listed = ", ".join(f"{'no noise' if e is None else e:}: {t:.1f}" for e, t in early.items())
        finite = [t for t in early.values() if math.isfinite(t)]
        found.append(
            Verdict(
                "Figure 5: a larger epsilon converges faster (time to 85%)", "significantly", listed,
                AGREES if len(finite) == len(early) and early[0.5] > 1.5 * early[3.0] else KIND,
                "the speed hardly changes from epsilon = 1 on; what changes is where the share levels off",
            )
        )  # fmt: skip
        for epsilon in (0.5, 1.0, 2.0, 3.0):
            mean, low, high, limit = self.plateau(results, self.ppcl(QUALITIES[4], epsilon=epsilon))
            found.append(
                Verdict(
                    f"Figure 5: the share converges (epsilon = {epsilon}: share at t=50)", 1.0, mean,
                    DIFFERS if high < 0.99 else AGREES, f"{limit}; {plateau_condition(4, 400, epsilon)}", (low, high),
                )
            )  # fmt: skip
        runs, _ = self.both(results, self.ppcl(QUALITIES[4]))
        if runs is not None:
            found.append(
                Verdict(
                    "Theorem 2: epsilon-LDP for each agent (epsilon = 3, t=50)", "3 in each message",
                    f"3 in each, {runs.metrics['epsilon'].mean():,.0f} in the run",
                    "true of a message, not of a run",
                    f"every agent answers every tick of every agent: {runs.metrics['replies'].mean():,.0f} replies by t=50, zCDP at "
                    f"delta = 1e-5. One requester gets at most {runs.metrics['epsilon_per_requester'].mean():,.0f} of one agent, summed",
                )
            )  # fmt: skip
        return found


@register
class ComparisonStudy(_Convergence):
    name = "chen-6"
    title = "Chen et al. 2021, Figure 6: PPCL and CBL"
    description = "N = 400, K = 4. CBL asks one peer and hears the truth; the paper does not state its tau. PPCL's replies are perturbed."
    figures = ("000/6",)

    def settings(self) -> list[Config]:
        base = {"num_agents": 400, "qualities": list(QUALITIES[4]), "horizon": self.horizon}
        asks = {"asks": "one", "initial_preferences": "none"}
        cbl = [config("gossip_bandit_v0", "CBL", {"tau": tau}, "NoPrivacy", **base, **asks) for tau in (0.1, 0.5, 1.0)]
        return [self.ppcl(QUALITIES[4], epsilon=e) for e in (1.0, 3.0, None)] + cbl

    def verdicts(self, results: Results) -> list[Verdict]:
        ppcl, limit = self.reaches(results, self.ppcl(QUALITIES[4]), 0.99)
        cbl = {
            one["policy_params"]["tau"]: self.reaches(results, one, 0.99)[0]
            for one in self.settings()
            if one["policy"] == "CBL"
        }
        listed = ", ".join(f"tau = {tau}: {text(times)}" for tau, times in cbl.items())
        best = min(times.mean() for times in cbl.values())
        slower = ppcl.mean() - best
        return [
            Verdict(
                "Figure 6: PPCL (epsilon = 3) takes longer than CBL (time to 99%, PPCL less the fastest CBL)", "about ten rounds", slower,
                AGREES if 5 <= slower <= 15 else DIFFERS,
                f"PPCL: {text(ppcl)} ({limit}); CBL: {listed}. PPCL is the faster one: it hears everybody at every tick, starts from even "
                "preferences, and its threshold ends the search at once where the best option has 1 - 1/(2K) of the agents",
            )
        ]  # fmt: skip
