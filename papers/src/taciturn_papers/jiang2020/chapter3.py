"""Jiang 2020, chapter 3: Figures 3.2 to 3.6, and the numbers of section 3.4."""

from typing import ClassVar

import numpy as np

from taciturn.bench.figures import draw_band, panels, plot_curves, shared_legend
from taciturn.bench.play import play
from taciturn.bench.results import Cell, Config, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Table
from taciturn.bench.tables import standard_tables
from taciturn.envs.federated_training.world import federated_training_v0
from taciturn.registry import entry
from taciturn_papers.base import PaperStudy
from taciturn_papers.jiang2020.claims import GEOMETRIC, PARETO, REWARD_CURVE
from taciturn_papers.jiang2020.reward_curve import fit_hyperbolic, measure_reward_curve
from taciturn_papers.jiang2020.settings import CLIENTS, PARTS, RULES, learning, timing

POINTS = 100  # of a curve: one for each percent of the time


class RewardCurveStudy(PaperStudy):
    name = "jiang2020-3-2"
    title = "Jiang 2020, Figure 3.2: reward of k updates"
    description = (
        "Decrease of the held-out cross-entropy when the updates of k out of 100 clients are averaged, over 20 rounds "
        "of federated averaging. The paper trains a convolutional network on MNIST; here it is softmax regression on "
        "scikit-learn's digits, so that the shape is comparable but the size is not."
    )
    score = Score("r_squared", label="R² of c - a/(k+1)")
    facets = ("concentration",)
    figures = ("jiang2020/3.2",)
    claims = REWARD_CURVE
    configs = tuple(CLIENTS.values())

    def tolerance(self, config: Config) -> float:
        return entry("federated_training_v0").tolerance

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        env = federated_training_v0.population(concentration=cell.config["concentration"])
        curve = measure_reward_curve(env, cell.seed, rounds=20, replicas=1)
        stated, shifted = fit_hyperbolic(curve), fit_hyperbolic(curve, offset=0.0)
        k = np.arange(1, len(curve))
        metrics = {"c": stated.c, "a": stated.a, "r_squared": stated.r_squared, "r_squared_shifted": shifted.r_squared}
        return Result(metrics, {"reward": (k, curve[1:])})

    def plots(self, results: Results) -> list[Plot]:
        figure, axes = panels([name for name, one in CLIENTS.items() if results.find(one) is not None])
        for ax, group in zip(axes, results, strict=True):
            k, runs = group.curves["reward"][0][0], np.array([y for _, y in group.curves["reward"]])
            draw_band(ax, k, runs, "measured", "#0072b2")
            mean = runs.mean(0)
            for offset, label, style in ((1.0, "c - a/(k+1), the paper's form", "--"), (0.0, "c - a/k", ":")):
                fit = fit_hyperbolic(np.append(0.0, mean), offset=offset)
                ax.plot(k, fit.c - fit.a / (k + offset), style, color="#d55e00" if offset else "#222222", label=label)
            ax.set(xlabel="updates k", ylabel="R(k), decrease of the loss (nats)")
            ax.set_ylim(bottom=max(ax.get_ylim()[0], -2 * abs(mean[-1])))
        shared_legend(figure)
        caption = "Measured reward curve, mean over seeds with its 95% band, and two fits."
        return [Plot(f"{self.name}_reward", figure, caption)]


class LossStudy(PaperStudy):
    """Figures 3.3 to 3.6: training under one distribution of computing and upload times, and the times alone."""

    time_distribution: ClassVar[str]
    score = Score("test_loss", higher_is_better=False, label="final held-out cross-entropy (nats)")
    reference: ClassVar[Config] = {"env": "federated_training_v0", "policy": "OptimalStopping", "policy_params": {}}

    def settings(self, quick: bool) -> list[Config]:
        budget = 150.0 if quick else 300.0
        return [
            *(learning(self.time_distribution, *rule, budget) for rule in RULES.values()),
            *(timing(self.time_distribution, *rule) for rule in RULES.values()),
        ]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        """For trainings, the metrics also include the held-out loss after `PARTS` percent of the time."""
        if cell.config["env"] == "round_stopping_v0":
            return play(cell, replicas=1000 if cell.config["policy"] == "WaitForAll" else 5000)
        result = play(cell, record=["test_loss"], until=cell.config["env_params"]["horizon"], points=POINTS)
        loss = np.asarray(result.curves["test_loss"][1])
        return Result({**result.metrics, **{f"loss_{part}": loss[part - 1] for part in PARTS}}, result.curves)

    def tables(self, results: Results) -> list[Table]:
        trained = results.select(env="federated_training_v0")
        return standard_tables(self, trained) if len(trained) else []

    def plots(self, results: Results) -> list[Plot]:
        trained = results.select(env="federated_training_v0")
        if not len(trained):
            return []
        labels = {"x_label": "time (s)", "y_label": "held-out cross-entropy (nats)"}
        whole = plot_curves(self, trained, "test_loss", **labels)
        first, second = (name.partition("/")[2] for name in self.figures)
        plots = [Plot(f"{self.name}_all", whole.figure, f"Figure {first}. {whole.caption}")]
        base = next(iter(trained.select(policy="FixedCount")), None)
        if base is None:
            return plots
        figure, (ax,) = panels()
        for group in trained:
            if group is not base and group.config["policy"] != "WaitForAll":
                positions = zip((group, base), group.shared_seeds(base), strict=True)
                loss, of_base = (np.array([g.curves["test_loss"][i][1] for i in p]) for g, p in positions)
                relative, label = 100 * (loss / of_base - 1), self.row_label(group, trained)
                draw_band(ax, base.curves["test_loss"][0][0], relative, label)
        ax.axhline(0, color="#888888", linestyle="--", linewidth=1)
        ax.set(xlabel="time (s)", ylabel="loss relative to k=10 (%)")
        shared_legend(figure)
        caption = f"Figure {second}: loss relative to k=10; mean over paired seeds with its 95% band."
        return [*plots, Plot(f"{self.name}_close", figure, caption)]


class GeometricStudy(LossStudy):
    name = "jiang2020-3-3"
    title = "Jiang 2020, Figures 3.3 and 3.4: geometric times"
    description = (
        "Held-out loss against time with geometric computing and upload times, and the numbers of section 3.4.1. "
        "Training is softmax regression on digits (the paper: a convolutional network on MNIST). The numbers of the "
        "stopping problem are exact, by two methods that agree: the solver's dynamic programme, and evaluation of the "
        "Markov chain under the rule."
    )
    figures = ("jiang2020/3.3", "jiang2020/3.4")
    claims = GEOMETRIC
    time_distribution = "geometric"


class ParetoStudy(LossStudy):
    name = "jiang2020-3-5"
    title = "Jiang 2020, Figures 3.5 and 3.6: heavy-tailed times"
    description = (
        "The same with Pareto times: uploads (shape 1.454, scale 0.5 slots) and computing (shape 2, scale 250 slots), "
        "section 3.4.2. Computing times have infinite variance, so that means over few rounds vary widely."
    )
    figures = ("jiang2020/3.5", "jiang2020/3.6")
    claims = PARETO
    time_distribution = "pareto"
