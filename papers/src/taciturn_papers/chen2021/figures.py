"""Chen et al. 2021, Figures 1 to 6: the share of agents that prefer the best option, against time."""

from taciturn.bench.figures import plot_curves
from taciturn.bench.play import play
from taciturn.bench.results import Cell, Group, Progress, Result, Results
from taciturn.bench.statistics import Floats
from taciturn.bench.study import Plot, Score
from taciturn.envs.gossip_bandit.world import CHEN2021
from taciturn.simulation import Run
from taciturn_papers.base import PaperStudy, epsilon_of
from taciturn_papers.chen2021 import settings
from taciturn_papers.chen2021.claims import AGENTS, COMPARISON, GAPS, OPTIONS, PRIVACY
from taciturn_papers.chen2021.mean_field import first_passage, mean_field
from taciturn_papers.chen2021.settings import (
    ALL,
    LEVEL,
    LEVELS,
    LIMIT,
    LONG,
    SHARES,
    TAUS,
    cbl,
    ladder,
    mean_field_of,
    ppcl,
)


def mean_reaches(times: Floats, shares: Floats) -> dict[str, float]:
    """The times at which a mean curve reaches each of `SHARES`."""
    return {f"mean_reaches_{level:g}": float(first_passage([(times, shares)], level)[0]) for level in SHARES}


class Convergence(PaperStudy):
    """Runs of several settings, and mean-field limits of the settings with PPCL's default parameters."""

    score = Score("best", label="final share that prefers the best option")
    runs = (30, 50)  # with 20 seeds, 1,000 runs

    def cells(self, quick: bool) -> list[Cell]:
        limits = [mean_field_of(s) for s in self.settings(quick) if s["policy"] == "PPCL" and not s["policy_params"]]
        return super().cells(quick) + self.sweep(self.with_runs(limits, quick), [0])

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        params = cell.config["env_params"]
        horizon = params["horizon"]
        if cell.config["policy"] == LIMIT:
            epsilon, size = epsilon_of(cell.config), params["num_agents"]
            curve = mean_field(params["qualities"], horizon, epsilon=epsilon, num_agents=size)
            return Result({"best": float(curve[1][-1]), **mean_reaches(*curve)}, {"best": curve})

        def reaches(run: Run) -> dict[str, float]:
            shares = run.trace["best"]
            single = [(run.times, one) for one in shares.T]
            every = {f"runs_reach_{level:g}": float(first_passage(single, level).mean()) for level in (LEVEL, ALL)}
            return {**every, **mean_reaches(run.times, shares.mean(axis=1))}

        runs = cell.config["runs"]
        return play(cell, replicas=runs, record=["best"], until=horizon, points=round(horizon), also=reaches)

    def row_label(self, group: Group, results: Results) -> str:
        return super().row_label(group, results).replace(f"{LIMIT}, ", f"{LIMIT}: ")

    def plots(self, results: Results) -> list[Plot]:
        played = Results(group for group in results if group.config["policy"] != LIMIT)
        limits = results.select(policy=LIMIT)
        labels = {"x_label": "time (rounds)", "y_label": "share that prefers the best option"}
        plots = [plot_curves(self, played, "best", **labels)] if len(played) else []
        if len(limits):
            figure = plot_curves(self, limits, "best", **labels).figure
            caption = f"Cross-check: the mean-field limit of {', '.join(self.figures)}, under the noise of the replies."
            plots.append(Plot(f"{self.name}_limit", figure, caption))
        return plots


class AgentsStudy(Convergence):
    name = "chen2021-2"
    title = "Chen et al. 2021, Figures 1 and 2: number of agents"
    description = (
        "PPCL with epsilon = 3 per reply and uniform initial preferences. The text of the paper does not give the N "
        "of Figure 2; we use 50 to 800. Each curve is the mean of 3,000 runs (20 seeds of 150), as in the paper; in "
        "Figures 3, 5 and 6 it is the mean of 1,000. Sampling errors are far below the rounding of the paper's "
        "numbers. "
        "The paper does not say when a curve has converged: we take the time at which the mean curve reaches 0.9, and "
        "also 0.999 where the paper gives a number of rounds. The caption of Figure 1 has K = 4, its text K = 2 with "
        "four qualities; we use K = 4. The text on Figure 2b says 'when there are four agents' and must mean four arms."
    )
    figures = ("chen2021/1", "chen2021/2")
    claims = AGENTS
    runs = (30, 150)  # the paper's 3,000, since small differences between N are judged
    facets = ("env_params.qualities",)
    configs = tuple(ppcl(q, num_agents=n) for q in CHEN2021.values() for n in (50, 100, 200, 400, 800))

    def cells(self, quick: bool) -> list[Cell]:
        """Eight options get more seeds: the effect of N is small."""
        eight = [] if quick else [ppcl(CHEN2021[8], num_agents=n) for n in (400, 800)]
        return super().cells(quick) + self.sweep(self.with_runs(eight, quick), range(self.seeds[1], 160))


class OptionsStudy(Convergence):
    name = "chen2021-3"
    title = "Chen et al. 2021, Figure 3: number of options"
    description = "N = 400, epsilon = 3; the best quality is 0.9, and each further option is 0.1 worse."
    figures = ("chen2021/3",)
    claims = OPTIONS
    configs = tuple(ppcl(ladder(0.9, 0.1, k), horizon=LONG) for k in (2, 4, 8))


class GapStudy(Convergence):
    name = "chen2021-4"
    title = "Chen et al. 2021, Figure 4: quality gap"
    description = (
        "N = 400, K = 4, epsilon = 3; the best quality is 0.95, and each further option is one gap worse. We "
        "also run other readings that might be slower: no threshold (alpha = 1: preferences are always reconsidered), "
        "with and without noise, and all other options equally bad."
    )
    figures = ("chen2021/4",)
    claims = GAPS
    runs = (30, 150)  # the paper's 3,000: a curve of few runs may pass 0.999 too soon
    facets = ("policy_params.alpha",)
    configs = (
        *(ppcl(ladder(0.95, gap, 4), horizon=LONG) for gap in (0.1, 0.2, 0.3)),
        *(variant for gap in (0.1, 0.3) for variant in settings.small_gap_variants(gap).values()),
    )


class PrivacyStudy(Convergence):
    name = "chen2021-5"
    title = "Chen et al. 2021, Figure 5: privacy per reply"
    description = (
        "N = 400, K = 4. epsilon is per reply; the tables give the epsilon that an agent spends over a run (zCDP, "
        "delta = 1e-5), and the basic sum over its replies to the requester that received most of them (the accountant "
        "does not report this sum)."
    )
    figures = ("chen2021/5",)
    claims = PRIVACY
    configs = tuple(ppcl(CHEN2021[4], epsilon=level) for level in LEVELS)


class ComparisonStudy(Convergence):
    name = "chen2021-6"
    title = "Chen et al. 2021, Figure 6: PPCL and CBL"
    description = (
        "N = 400, K = 4. CBL asks one peer and gets a truthful reply; the paper does not give its tau. PPCL's replies "
        "are noisy."
    )
    figures = ("chen2021/6",)
    claims = COMPARISON
    configs = (*(ppcl(CHEN2021[4], epsilon=e) for e in (1.0, 3.0, None)), *map(cbl, TAUS))
