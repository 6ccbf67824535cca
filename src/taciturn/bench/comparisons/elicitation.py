"""Payment rules for private data: what the platform pays and learns, by population, cost family and size."""

import itertools
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from taciturn.bench.figures import COLORS, MARKERS, panels, plot_scores, shared_legend
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Study, register
from taciturn.envs import elicitation_v0
from taciturn.envs.elicitation.costs import Cost, ExponentialCost, LinearCost, QuadraticCost
from taciturn.envs.elicitation.reporting import KaryReport
from taciturn.policies import Mixture
from taciturn.policies.families.best_response import exploitability
from taciturn.registry import make_policy
from taciturn.simulation import simulate

THETA = (0.4, 0.3, 0.2, 0.1)
TARGET = 1.0
# All have the same marginal cost at the target, hence the same lower bound.
COSTS: dict[str, Cost] = {
    "quadratic": QuadraticCost(0.01),
    "linear": LinearCost(0.02),
    "exponential": ExponentialCost(0.02 / float(np.e)),
}
PLATFORMS = ("Wintall", "Genie", "FlatRate", "PostedPrice", "OutputAgreement", "PeerTruthSerum")
CROWDS: dict[str, tuple[tuple[str, float], ...]] = {
    "best responders": (("BestResponse", 1.0),),
    "learners": (("FictitiousPlay", 1.0),),
    "mixed": (("BestResponse", 0.4), ("FictitiousPlay", 0.2), ("Truthful", 0.2), ("FreeRider", 0.2)),
}


@lru_cache
def gain_over_target(platform: str, cost: str, num_individuals: int) -> float:
    """Exact gain of an individual who deviates while all others play the target; the truth serum's reference is its
    long-run value."""
    law = KaryReport(len(THETA)).law(np.array(THETA), TARGET)
    announced = make_policy(platform).announcement(np.array(THETA), COSTS[cost], TARGET)
    if platform == "PeerTruthSerum":
        announced = replace(announced, reference=law)
    profile = np.full(num_individuals, TARGET)
    return float(exploitability(announced, profile, theta=THETA, cost=COSTS[cost]))


@register
class ElicitationStudy(Study):
    name = "elicitation"
    world = "elicitation_v0"
    title = "Elicitation: payment rules compared"
    description = (
        "Four values with theta = (0.4, 0.3, 0.2, 0.1), target 1, and costs with derivative 0.02 at the target; 20 "
        "replicas of 20 campaigns per cell. Individuals know theta. They play the best response to the announcement, "
        "learn by fictitious play (with the exact finite game), or are a mixture of both with truthful individuals and "
        "free riders. The score is the payment plus the shortfall in eps, valued at 1 per unit, per individual. Rules "
        "that compare individuals with their peers derive their amounts from theta, which a real platform would not "
        "know. Exploitability is the exact gain of an individual who deviates while all others play the target, "
        "relative to Theorem 1's bound."
    )
    score = Score("loss", higher_is_better=False, label="payment plus shortfall per individual")
    reference: ClassVar[Config] = {"platform": "Wintall"}
    facets = ("crowd", "cost", "num_individuals")
    color = "platform"

    def cells(self, quick: bool) -> list[Cell]:
        sizes, costs = ((100, 1_000), COSTS) if not quick else ((300,), ["quadratic"])
        names = ("crowd", "cost", "num_individuals", "platform")
        every = itertools.product(CROWDS, costs, sizes, PLATFORMS)
        return self.sweep((dict(zip(names, one, strict=True)) for one in every), range(5 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        size, cost, platform = (cell.config[name] for name in ("num_individuals", "cost", "platform"))
        population = elicitation_v0.population(
            20,
            num_individuals=size,
            theta=THETA,
            target=TARGET,
            cost=COSTS[cost],
            horizon=20,
            belief_concentration=np.inf,
        )
        crowd = Mixture([(make_policy(name), share) for name, share in CROWDS[cell.config["crowd"]]])
        run = simulate(population, {"platform": make_policy(platform), "individual": crowd}, seed=cell.seed)
        means = {name: float(values.mean()) for name, values in run.metrics.items()}
        bound = elicitation_v0.payment_lower_bound(THETA, TARGET, COSTS[cost])
        found = {
            "loss": means["payment"] * means["participation"] + means["shortfall"],
            "payment": means["payment"],
            "payment_over_bound": means["payment"] / bound,
            "error_times_n": means["error"] * size,
            "shortfall": means["shortfall"],
            "exploitability_over_bound": gain_over_target(platform, cost, size) / bound,
        }
        return Result(found | {name: means[name] for name in ("level", "participation")})

    def plots(self, results: Results) -> list[Plot]:
        titles = list(dict.fromkeys(str(group.config["crowd"]) for group in results))
        figure, axes = panels(titles, columns=3, width=9.0)
        for ax, title in zip(axes, titles, strict=True):
            for group in results.select(crowd=title):
                index = PLATFORMS.index(group.config["platform"])
                at = group.mean("payment_over_bound"), group.mean("error_times_n")
                ax.plot(*at, MARKERS[index], color=COLORS[index], label=PLATFORMS[index], alpha=0.7)
            ax.set(xscale="log", xlabel="payment / lower bound", ylabel="squared error × N")
        shared_legend(figure)
        caption = "Payment against estimation error, for every cost family and size; lower left is better."
        return [Plot(f"{self.name}_payment_error", figure, caption), plot_scores(self, results)]
