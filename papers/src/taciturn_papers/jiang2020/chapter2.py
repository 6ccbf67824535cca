"""Jiang 2020, chapter 2: Theorems 1 and 2 against the number of individuals, and a model of section 2.6's
crowd-sourcing.

The chapter has no figure of its theory. Figures 2.1 to 2.4 show an experiment with workers of Mechanical Turk, which no
simulation can replicate; `CrowdStudy` fits the model of `crowd` to three of the reported counts and compares its
predictions with the other counts.
"""

import warnings
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from taciturn.bench.figures import COLORS, LINES, panels, shared_legend
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Table
from taciturn.envs import elicitation_v0
from taciturn.policies import FiniteBestResponse, TargetQuality, Wintall
from taciturn.policies.families.best_response import exploitability
from taciturn.simulation import simulate
from taciturn_papers.base import PaperStudy
from taciturn_papers.jiang2020.claims import CROWD, THEOREMS
from taciturn_papers.jiang2020.crowd import PAYMENTS, TASKS, WORKERS, fitted, scores
from taciturn_papers.jiang2020.settings import COSTS, SIZES, THETAS

TARGET = 1.0


@lru_cache
def exact(theta: str, cost: str, size: int) -> dict[str, float]:
    """The finite game, solved exactly: the expected payment and the gain of the best deviation, both over Theorem 1's
    bound, and the best response."""
    shares, g = THETAS[theta], COSTS[cost]
    bound = elicitation_v0.payment_lower_bound(shares, TARGET, g)

    def gain(level: float) -> float:
        profile = np.full(size, level)
        return float(exploitability(Wintall(TARGET), profile, theta=shares, cost=g) / bound)

    return {
        "expected_ratio": elicitation_v0.expected_payment(shares, TARGET, g, size) / bound,
        "gain_at_target": gain(TARGET),
        "gain_at_zero": gain(0.0),
        "best_response": FiniteBestResponse.solve(shares, TARGET, g, size),
    }


class WintallStudy(PaperStudy):
    name = "jiang2020-2"
    world = "elicitation_v0"
    title = "Jiang 2020, Theorems 1 and 2: WINTALL against the number of individuals"
    description = (
        "WINTALL has target 1 under k-ary randomised response, and everyone plays the target. We compute the payment "
        "relative to Theorem 1's bound (corrected), simulated in 200 replicas of 5 campaigns per cell and exact, and "
        "the exact gain of the best deviation, from the target and from everyone at 0."
    )
    score = Score("distance", higher_is_better=False, label="|payment / bound - 1|")
    color = "cost"
    facets = ("theta", "num_individuals")
    figures = ("jiang2020/2.theorems",)
    claims = THEOREMS

    def settings(self, quick: bool) -> list[Config]:
        return [
            {"theta": theta, "cost": cost, "num_individuals": size}
            for theta in THETAS
            for size in SIZES[: -2 if quick else None]
            for cost in COSTS
        ]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        theta, cost, size = (cell.config[name] for name in ("theta", "cost", "num_individuals"))
        population = elicitation_v0.population(
            200,
            num_individuals=size,
            theta=THETAS[theta],
            cost=COSTS[cost],
            target=TARGET,
            horizon=5,
            belief_concentration=np.inf,
            rules=("wintall",),
        )
        with warnings.catch_warnings():
            # The logarithmic cost is included to show that Theorem 2 fails for it.
            warnings.filterwarnings("ignore", "Theorem 2 does not hold")
            run = simulate(population, {"platform": Wintall(), "individual": TargetQuality()}, seed=cell.seed)
        ratio = float(run.metrics["payment_ratio"].mean())
        predicted = elicitation_v0.estimator_error(THETAS[theta], TARGET, size).sum()
        error = float(run.metrics["error"].mean() / predicted)
        metrics = {"payment_ratio": ratio, "distance": abs(ratio - 1), "error_ratio": error}
        return Result(metrics | exact(theta, cost, size))

    def tables(self, results: Results) -> list[Table]:
        return []

    def plots(self, results: Results) -> list[Plot]:
        plots = []
        for name, label, caption in (
            (
                "expected_ratio",
                "payment / bound",
                "Ratio of the expected payment to Theorem 1's bound; points are simulated.",
            ),
            ("gain_at_target", "gain / bound", "Ratio of the gain of the best deviation from the target to the bound."),
            ("best_response", "best response (eps)", "Exact best response if all others play the target 1."),
        ):
            figure, axes = panels(list(THETAS))
            for ax, theta in zip(axes, THETAS, strict=True):
                for index, cost in enumerate(COSTS):
                    groups = results.select(theta=theta, cost=cost)
                    if not len(groups):
                        continue
                    sizes = [group.config["num_individuals"] for group in groups]
                    y = np.array([group.mean(name) for group in groups])
                    shown = np.maximum(y, 1e-9) if name == "gain_at_target" else y
                    ax.plot(sizes, shown, color=COLORS[index], linestyle=LINES[index], label=cost)
                    if name == "expected_ratio":
                        ax.plot(sizes, [group.mean("payment_ratio") for group in groups], ".", color=COLORS[index])
                ax.set(xscale="log", xlabel="individuals N", ylabel=label)
                if name == "gain_at_target":
                    ax.set_yscale("log")
                else:
                    ax.axhline(1, color="#888888", linewidth=1, linestyle="--")
            shared_legend(figure)
            plots.append(Plot(f"{self.name}_{name}", figure, caption))
        return plots


class CrowdStudy(PaperStudy):
    name = "jiang2020-2-crowd"
    title = "Jiang 2020, Figures 2.1 to 2.4: crowd-sourcing, as a model of effort"
    description = (
        "This is a model, not a replication: section 2.6 paid workers of Mechanical Turk for translations, 30 cents, "
        "or 20 "
        "cents and a bonus of 20 or 40 if the translation is good. Here a sentence is correct with log-odds a + x, "
        "where a is normally distributed over workers and x is effort, which costs price times x^2. Workers expect the "
        "bonus for a score of 4 or 5 and maximise what they keep; the bonus is paid for a score of 5, as the paper's "
        "payments imply (below). Mean and spread of a are fitted to Flat's two counts, the price to WINTALL-20's count "
        "of good answers; everything else is predicted. A cell is one draw of the experiment: 9 tasks, all alike, of "
        "20 workers per payment rule."
    )
    score = Score("mean_score", label="mean score (0 to 5)")
    reference: ClassVar[Config] = {"payment": "Flat"}
    color = "payment"
    figures = ("jiang2020/2.1", "jiang2020/2.2", "jiang2020/2.3", "jiang2020/2.4")
    claims = CROWD
    configs = tuple({"payment": name} for name in PAYMENTS)

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        base, bonus = PAYMENTS[cell.config["payment"]]
        rng = np.random.Generator(np.random.PCG64([cell.seed, list(PAYMENTS).index(cell.config["payment"])]))
        counts = rng.multinomial(WORKERS // TASKS, scores(*fitted(), bonus), TASKS)
        score, payment = counts @ np.arange(6) / counts.sum(1), base + bonus * counts[:, 5] / counts.sum(1)
        workers = counts.sum(0)
        results = {
            "mean_score": score.mean(),
            "mean_payment": payment.mean(),
            "good": workers[4:].sum(),
            "best": workers[5],
        }
        for task in range(TASKS):
            results |= {f"score_{task + 1}": score[task], f"payment_{task + 1}": payment[task]}
        return Result({name: float(value) for name, value in results.items()}, {"workers": (np.arange(6), workers)})

    def plots(self, results: Results) -> list[Plot]:
        figure, (left, right) = panels(["scores", "mean score and payment"])
        for index, group in enumerate(results):
            heights = np.mean([y for _, y in group.curves["workers"]], axis=0)
            style: dict[str, Any] = {"color": COLORS[index], "label": str(group.config["payment"])}
            left.bar(np.arange(6) + 0.27 * (index - 1), heights, 0.25, **style)
            right.plot(group.metrics["mean_payment"], group.metrics["mean_score"], "o", alpha=0.5, **style)
        left.set(xlabel="score", ylabel="workers (of 180)")
        right.set(xlabel="mean payment (cents)", ylabel="mean score")
        shared_legend(figure)
        caption = "Figures 2.3 and 2.4 in the model; a point is one draw of the experiment."
        return [Plot(f"{self.name}_scores", figure, caption)]
