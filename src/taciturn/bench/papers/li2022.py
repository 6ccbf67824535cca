"""Li & Song 2022 (paper 001), section VII: Figures 4 to 8 and 10 to 12 and Tables I and II run again.

The paper's figures hold no numbers that could be read and it never states T: here T = 10^5, and what is compared are the statements of its
text. The second way is the formulas alone (`li2022_formulas`), in which every mean is what it is expected to be.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from taciturn.auditing import parse_mechanism
from taciturn.bench import statistics
from taciturn.bench.figures import COLORS, MARKERS, Plot, linestyle, panels, plot_curves, plot_scores, shared_legend
from taciturn.bench.papers.li2022_formulas import (
    ARMS,
    CASES,
    HORIZON,
    bias_slope,
    binding_agents,
    binding_epsilon,
    diameter_times_edges,
    expected,
    graph,
    round_cost,
    same_ratio,
    same_rounds,
    second_eigenvalues,
    topology,
    waiting,
)
from taciturn.bench.play import config
from taciturn.bench.study import Cell, Config, Floats, Group, Progress, Result, Results, Score, Study, Verdict, register
from taciturn.bench.tables import estimate, interval
from taciturn.envs.core import Array
from taciturn.envs.federated_bandit.protocol import information_sharing, link_cost
from taciturn.envs.federated_bandit.world import State, gaps
from taciturn.policies.classic.bandits import CentralisedOracle
from taciturn.registry import make_policy, make_world
from taciturn.simulation import simulate

UNBOUNDED = 1e9  # an epsilon that stands for none
AGREES, KIND, DIFFERS = "agrees", "in kind, not in size", "does not follow"


class _Federated(Study):
    """Regret per agent against time in several settings."""

    score = Score("regret_per_agent", higher_is_better=False, label="regret per agent at T")
    facets = ("env_params.qualities",)
    runs: ClassVar[tuple[int, int]] = (5, 25)
    seeds: ClassVar[tuple[int, int]] = (5, 20)
    world: ClassVar[Config] = {"num_agents": 50, "num_arms": ARMS, "horizon": HORIZON, "topology": "server"}
    points: ClassVar[int] = 50

    def settings(self) -> list[Config]:
        """One configuration a curve."""
        raise NotImplementedError

    def claims(self, results: Results) -> list[Verdict]:
        """The verdicts, where all settings were run."""
        raise NotImplementedError

    def setting(
        self, policy: str, own: Config, privacy: str = "paper", qualities: str = "grid", **params: Any
    ) -> Config:
        """One configuration; the world's parameters beside this study's own are `params`."""
        return config("federated_bandit_v0", policy, own, privacy, **{**self.world, **params, "qualities": qualities})

    def cells(self, quick: bool) -> list[Cell]:
        runs, seeds = self.runs[not quick], self.seeds[not quick]
        return self.sweep(({**one, "runs": runs} for one in self.settings()), range(seeds))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        return run(cell, self.points)

    def row_label(self, group: Group, results: Results) -> str:
        """The configuration, without what goes without saying."""
        label = super().row_label(group, results)
        return (
            label.replace(f"epsilon={UNBOUNDED}, privacy=none", "no privacy")
            .replace(", privacy=paper", "")
            .replace("privacy=none", "no noise")
        )

    def plots(self, results: Results) -> list[Plot]:
        labels = {"x_label": "slots", "y_label": "regret per agent"}
        curves = plot_curves(self, results, "regret_per_agent", **labels) if len(results) else None
        return [] if curves is None else [curves, plot_scores(self, results)]

    def verdicts(self, results: Results) -> list[Verdict]:
        done = all(self.found(results, one) is not None for one in self.settings())
        return self.claims(results) if done else []

    def found(self, results: Results, wanted: Config) -> Group | None:
        """The group of one configuration, or None if it was not run."""
        return next((g for g in results if all(g.config.get(name) == value for name, value in wanted.items())), None)

    def values(self, results: Results, wanted: Config, metric: str = "regret_per_agent") -> Floats:
        """A metric, one number a seed."""
        group = self.found(results, wanted)
        assert group is not None
        return group.metrics[metric]

    def mean(self, results: Results, wanted: Config, metric: str = "regret_per_agent") -> float:
        """The mean of a metric."""
        return float(self.values(results, wanted, metric).mean())

    def ratio(
        self, results: Results, one: Config, other: Config, metric: str = "regret_per_agent"
    ) -> tuple[float, tuple[float, float]]:
        """How often the other's mean the first one's is, with its interval."""
        a, b = self.values(results, one, metric), self.values(results, other, metric)
        size = min(len(a), len(b))
        value, low, high = statistics.ratio(a[:size], b[:size])
        return value, (low, high)


def run(cell: Cell, points: int) -> Result:
    """Play a cell: means over its runs, what was spent at each level, and the regret at so many times (0: none)."""
    params = dict(cell.config["env_params"])
    params["topology"] = topology(params["topology"], params["num_agents"])
    world = make_world(cell.config["env"]).population(cell.config["runs"], **params)
    policy = make_policy(cell.config["policy"], **cell.config["policy_params"])
    spec = cell.config["privacy"]
    privacy: Any = None if spec == "none" else spec if spec == "paper" else {"means": parse_mechanism(spec)}
    times = np.linspace(0, params["horizon"], points + 1)[1:]
    names = ["regret_per_agent"] if points else []
    done = simulate(world, policy, seed=cell.seed, until=times if points else None, record=names, privacy=privacy)
    kept = ["regret_per_agent", "cost", "rounds", "identified", "messages"]
    kept += ["cost_bound"] if params["topology"] != "server" else []
    metrics = {name: float(done.metrics[name].mean()) for name in kept}
    if params["topology"] != "server":
        metrics["regret_waiting"] = float(regret_waiting(world.state).mean())
    if params["qualities"] == "heterogeneous":
        metrics["local_regret_per_agent"] = float(done.metrics["local_regret"].mean()) / params["num_agents"]
    metrics["rewards_told"] = float(world.state.weight.sum(-1).max(1).mean())
    silent = metrics["messages"] == 0 and not isinstance(policy, CentralisedOracle)
    # The oracle sees all agents' pulls, which no channel carries.
    if done.ledger is None or silent:
        levels = dict.fromkeys(("message", "event", "user"), 0.0 if silent else math.inf)
    else:
        user = done.ledger.total(by="max", method="basic", unit="user", delta=0)
        levels = {"message": world.epsilon(), "event": done.metrics["epsilon_max"].mean(), "user": user.mean()}
    metrics |= {f"epsilon_{name}": float(level) for name, level in levels.items()}
    return Result(metrics, {name: (times, done.trace[name].mean(axis=1)) for name in names})


def said(value: float) -> str:
    """Three digits, or all of a number above 100."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def regret_waiting(state: State) -> Array:
    """Regret per agent of what was pulled while communication rounds were under way, float64[B]: pulls in no message that are used up."""
    pulls = (state.used_counts - state.weight).mean(1)
    return np.asarray((pulls * gaps(state.quality)).sum(-1))


def listed(values: Iterable[tuple[Any, float]]) -> str:
    """`0.1: 1,307, 1: 1,157`."""
    return ", ".join(
        f"{name:g}: {said(value)}" if isinstance(name, float) else f"{name}: {said(value)}" for name, value in values
    )


def decreasing(samples: Sequence[Floats]) -> bool:
    """Whether each mean lies below the one before it, and the last one's below the first one's with its interval."""
    means = [float(one.mean()) for one in samples]
    size = min(len(samples[0]), len(samples[-1]))
    return all(a > b for a, b in itertools.pairwise(means)) and (
        size < 2 or statistics.difference(samples[0][:size], samples[-1][:size]).low > 0
    )


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Which points (x, y) no other one beats in both, in increasing order of x."""
    order, best = [], math.inf
    for i in sorted(range(len(points)), key=lambda i: points[i]):
        if points[i][1] < best:
            best = points[i][1]
            order.append(i)
    return order


def plot_pareto(
    study: Study,
    results: Results,
    x: str,
    x_label: str,
    label: Callable[[Group], str],
    caption: str,
    height: float = 4.2,
) -> Plot:
    """Regret, with its interval, against what else one wants little of; the line joins what nothing beats in both. A panel a facet."""
    parts = study.panels(results)
    figure, axes = panels([title for title, _ in parts], height=height)
    known: dict[str, int] = {}
    for ax, (_, part) in zip(axes, parts, strict=True):
        regrets = [estimate(group.metrics["regret_per_agent"]) for group in part]
        points = [(float(group.metrics[x].mean()), regret.value) for group, regret in zip(part, regrets, strict=True)]
        best = front(points)
        ax.plot(*zip(*(points[i] for i in best), strict=True), color="#bbbbbb", linewidth=1.5, zorder=1)
        for group, (at, _), regret in zip(part, points, regrets, strict=True):
            name = label(group)
            i = known.setdefault(name, len(known))
            color, marker = COLORS[i % len(COLORS)], MARKERS[(i + i // len(COLORS)) % len(MARKERS)]
            ax.plot(at, regret.value, marker, markersize=5, color=color, label=name)
            ax.vlines(at, regret.low, regret.high, color=color, alpha=0.4, linewidth=3)
        spread(ax, "x", [at for at, _ in points])
        spread(ax, "y", [regret.value for regret in regrets])
        ax.set_xlabel(x_label)
        ax.set_ylabel("regret per agent at T")
    shared_legend(figure, axes)
    return Plot(f"{study.name}_pareto", figure, caption)


def spread(ax: Axes, side: Literal["x", "y"], values: Sequence[float]) -> None:
    """A logarithmic scale, with whole numbers, where values differ by much."""
    if min(values) > 0 and max(values) > 5 * min(values):
        ax.set(**{f"{side}scale": "log"})
        axis = ax.xaxis if side == "x" else ax.yaxis
        axis.set_major_locator(LogLocator(subs=(1, 3) if max(values) < 300 * min(values) else (1,)))
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_minor_formatter(NullFormatter())


def by_structure(group: Group) -> str:
    """The name of its topology."""
    return str(group.config["env_params"]["topology"])


def by_rounds(group: Group) -> str:
    """How many rounds there may be."""
    rounds = group.config["policy_params"].get("rounds")
    return "no limit" if rounds is None else f"R = {rounds}"


@register
class PrivacyStudy(_Federated):
    name = "li-4"
    title = "Li & Song 2022, Figure 4: privacy and regret"
    description = (
        "CDP-MAB with 50 agents and 100 arms, whose means are a grid or drawn from [0, 1]. The paper's epsilon is of the noise; the tables "
        "have what the ledger says: of a message (Theorem 1), of all an agent's messages where one reward changes (event), and where all "
        "of its rewards may (user)."
    )
    figures = ("001/4",)
    levels: ClassVar[tuple[float, ...]] = (0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, UNBOUNDED)
    shown: ClassVar[tuple[float, ...]] = (0.1, 0.3, 0.5, 1.0, UNBOUNDED)

    def one(self, epsilon: float, qualities: str, noise: bool = True) -> Config:
        """The setting of one curve."""
        privacy = "paper" if noise and epsilon < UNBOUNDED else "none"
        return self.setting("CDPMAB", {"epsilon": epsilon}, privacy, qualities)

    def settings(self) -> list[Config]:
        return [
            setting
            for qualities in ("grid", "uniform")
            for setting in (*(self.one(e, qualities) for e in self.levels), self.one(0.1, qualities, noise=False))
        ]

    def plots(self, results: Results) -> list[Plot]:
        shown = [self.one(epsilon, qualities) for qualities in ("grid", "uniform") for epsilon in self.shown]
        few = Results(group for one in shown if (group := self.found(results, one)) is not None)
        plots = super().plots(few)
        return [*plots, self.plot_levels(results)] if len(results) else []

    def plot_levels(self, results: Results) -> Plot:
        """Regret against epsilon as the paper counts it, and as the ledger does."""
        parts = self.panels(results)
        figure, axes = panels([title for title, _ in parts], height=4.2)
        for ax, (_, part) in zip(axes, parts, strict=True):
            groups = [g for g in part if g.config["privacy"] == "paper"]
            regret = [float(g.metrics["regret_per_agent"].mean()) for g in groups]
            levels = {
                "epsilon of the noise (the figure's legend)": [g.config["policy_params"]["epsilon"] for g in groups],
                "a message, and all of them at event level": [g.metrics["epsilon_event"].mean() for g in groups],
                "all messages at user level": [g.metrics["epsilon_user"].mean() for g in groups],
            }
            for i, (label, x) in enumerate(levels.items()):
                ax.plot(x, regret, marker=MARKERS[i], color=COLORS[i], linestyle=linestyle(i), label=label)
            free = [g for g in part if g.config["policy_params"]["epsilon"] == UNBOUNDED]
            for group in free:
                ax.axhline(group.metrics["regret_per_agent"].mean(), color="#888888", linestyle="--", linewidth=1)
            ax.set_xscale("log")
            spread(ax, "y", regret)
            ax.set_xlabel("epsilon")
            ax.set_ylabel("regret per agent at T")
        shared_legend(figure, axes)
        return Plot(
            f"{self.name}_levels", figure, "Regret against epsilon, by what epsilon is of; dashed: without privacy."
        )

    def claims(self, results: Results) -> list[Verdict]:
        found = []
        for qualities in ("grid", "uniform"):
            shown = [self.one(e, qualities) for e in (0.1, 0.3, 0.5, 1.0)]
            formula = listed((s["policy_params"]["epsilon"], expected(s)["regret"]) for s in shown)
            found.append(
                Verdict(
                    f"Figure 4: regret grows as epsilon shrinks (0.1, 0.3, 0.5, 1; {qualities})", "increases",
                    listed((s["policy_params"]["epsilon"], self.mean(results, s)) for s in shown),
                    AGREES if decreasing([self.values(results, s) for s in shown]) else KIND,
                    f"the formulas alone: {formula}",
                )
            )  # fmt: skip
        low, one, free = (self.one(e, "grid") for e in (0.1, 1.0, UNBOUNDED))
        quiet = self.one(0.1, "grid", noise=False)
        agents, told = self.world["num_agents"], self.mean(results, one, "rewards_told")
        ledger = self.mean(results, one, "epsilon_user")
        value, bounds = self.ratio(results, one, free)
        found.append(
            Verdict(
                "Figure 4: epsilon = 1 is the non-private case (regret over that without privacy)", "1", value,
                "of the regret only",
                f"noise and C(r) still have epsilon in them: the formulas alone give {said(expected(one)['regret'])} and "
                f"{said(expected(free)['regret'])}. What is spent is finite too, if without worth: a message is M epsilon = "
                f"{said(self.mean(results, one, 'epsilon_message'))}-DP (Theorem 1), and with it, at event level, all of an agent's "
                f"messages; at user level they come to {said(ledger)} by the ledger, and to M epsilon for each of {said(told)} rewards "
                f"told, {said(agents * told)}, by count",
                bounds,
            )
        )  # fmt: skip
        found.append(
            Verdict(
                "Section IV-C1: S(r) is mainly determined by epsilon when that is small (epsilon below which it is, 50 agents)",
                "a smaller epsilon", binding_epsilon(agents), "not for the figure's epsilons",
                f"at epsilon = 0.1 the privacy term of S(r) binds with at most {binding_agents(0.1)} agents. What makes regret differ in "
                "the figure is the privacy term of C(r), which keeps arms longer, and not the noise: with epsilon = 0.1 the regret is "
                f"{said(self.mean(results, low))}, and {said(self.mean(results, quiet))} with the noise left out",
            )
        )  # fmt: skip
        return found


@register
class ParticipationStudy(_Federated):
    name = "li-5"
    title = "Li & Song 2022, Figure 5: participation"
    description = "CDP-MAB with epsilon = 1; N = ceil(pM) of 50 agents upload in a round, drawn anew."
    figures = ("001/5",)
    shares: ClassVar[tuple[float, ...]] = (0.2, 0.4, 0.6, 0.8, 1.0)

    def one(self, p: float, qualities: str) -> Config:
        """The setting of one curve."""
        return self.setting("CDPMAB", {"epsilon": 1.0, "participation": p}, "paper", qualities)

    def settings(self) -> list[Config]:
        return [self.one(p, qualities) for qualities in ("grid", "uniform") for p in self.shares]

    def claims(self, results: Results) -> list[Verdict]:
        found = []
        for qualities in ("grid", "uniform"):
            shown = [self.one(p, qualities) for p in self.shares]
            formula = listed((p, expected(s)["regret"]) for p, s in zip(self.shares, shown, strict=True))
            found.append(
                Verdict(
                    f"Figure 5: regret falls as p grows ({qualities})", "decreases",
                    listed((p, self.mean(results, s)) for p, s in zip(self.shares, shown, strict=True)),
                    AGREES if decreasing([self.values(results, s) for s in shown]) else KIND,
                    f"the formulas alone: {formula}",
                )
            )  # fmt: skip
        few, all_ = self.one(0.2, "grid"), self.one(1.0, "grid")
        value, bounds = self.ratio(results, few, all_)
        cost, _ = self.ratio(results, all_, few, "cost")
        found.append(
            Verdict(
                "Theorem 2: p costs at most a factor p^-1.5 of regret (p = 0.2)", f"at most {said(0.2**-1.5)}", value,
                AGREES if bounds[1] <= 0.2**-1.5 else DIFFERS,
                f"the factor is about 1/p = 5, that of S(r)'s sampling term: the other, of order p^-1.5, binds only below epsilon = "
                f"{said(binding_epsilon(10))} at N = 10. The cost of all uploading is {said(cost)} times as high",
                bounds,
            )
        )  # fmt: skip
        return found


@register
class RoundsStudy(_Federated):
    name = "li-6"
    title = "Li & Song 2022, Figure 6: communication rounds"
    description = (
        "CDP-MAB with epsilon = 1, p = 1 and at most R rounds, which needs the smallest gap and is given the true one; beside it as many "
        "rounds as it takes."
    )
    figures = ("001/6",)
    limits: ClassVar[tuple[int, ...]] = (2, 3, 4, 5)

    def one(self, rounds: int | None, qualities: str) -> Config:
        """The setting of one curve."""
        own = {"epsilon": 1.0} if rounds is None else {"epsilon": 1.0, "rounds": rounds}
        return self.setting("CDPMAB", own, "paper", qualities)

    def settings(self) -> list[Config]:
        return [self.one(r, qualities) for qualities in ("grid", "uniform") for r in (*self.limits, None)]

    def row_label(self, group: Group, results: Results) -> str:
        return by_rounds(group)

    def claims(self, results: Results) -> list[Verdict]:
        found, few = [], same_rounds()
        for qualities in ("grid", "uniform"):
            shown = [self.one(r, qualities) for r in self.limits]
            formula = listed((r, expected(s)["regret"]) for r, s in zip(self.limits, shown, strict=True))
            found.append(
                Verdict(
                    f"Figure 6: regret falls as R grows ({qualities})", "decreases",
                    listed((r, self.mean(results, s)) for r, s in zip(self.limits, shown, strict=True)),
                    AGREES if decreasing([self.values(results, s) for s in shown]) else KIND,
                    f"the formulas alone: {formula}",
                )
            )  # fmt: skip
            value, bounds = self.ratio(results, self.one(4, qualities), self.one(5, qualities))
            by_formula = expected(shown[2])["regret"] / expected(shown[3])["regret"]
            found.append(
                Verdict(
                    f"Figure 6: R = 4 and R = 5 are almost the same (regret of the first over the second; {qualities})", "1", value,
                    AGREES if bounds[1] < 1.05 else DIFFERS,
                    f"the formulas alone: {said(by_formula)}, and {said(same_ratio(ARMS, 10_000))} on the grid with T = 10^4. They are "
                    f"within 5% of each other on grids of at most {few} arms, a gap of {1 / few:.2f}; 100 uniform arms "
                    "have 0.01 on average",
                    bounds,
                )
            )  # fmt: skip
        free = self.one(None, "grid")
        found.append(
            Verdict(
                "Section VII-A2: about log T rounds eliminate all suboptimal arms (rounds played, grid)", "log T, about 4",
                self.mean(results, free, "rounds"), DIFFERS,
                f"log T is about 4 for T = 10^4 and the common logarithm. The formulas alone give {said(expected(free)['rounds'])} rounds "
                f"at T = 10^5, and the proof of Theorem 1 at most ceil(log2(1/Delta) + 1) = {math.ceil(math.log2(ARMS) + 1)}",
            )
        )  # fmt: skip
        return found


@register
class ConstraintsStudy(_Federated):
    name = "li-7"
    title = "Li & Song 2022, Figure 7: participation and rounds together"
    description = "CDP-MAB with epsilon = 1 and every pair (p, R), and with R left free. An upload costs c1 = 25."
    figures = ("001/7",)
    runs = (5, 10)
    points = 0

    def one(self, p: float, rounds: int | None, qualities: str) -> Config:
        """One pair."""
        own = {"epsilon": 1.0, "participation": p}
        return self.setting("CDPMAB", own if rounds is None else own | {"rounds": rounds}, "paper", qualities)

    def settings(self) -> list[Config]:
        shares, limits = ParticipationStudy.shares, (*RoundsStudy.limits, None)
        return [self.one(p, r, qualities) for qualities in ("grid", "uniform") for p in shares for r in limits]

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        caption = "Regret against the cost of links, 25 an upload, for p in 0.2 to 1 and R; the line joins pairs that none beats in both."
        return [
            plot_pareto(self, results, "cost", "communication cost", by_rounds, caption),
            plot_scores(self, results),
        ]

    def claims(self, results: Results) -> list[Verdict]:
        found = []
        for qualities in ("grid", "uniform"):
            pairs = [one for one in self.settings() if one["env_params"]["qualities"] == qualities]
            points = [(self.mean(results, one, "cost"), self.mean(results, one)) for one in pairs]
            best = [pairs[i]["policy_params"] for i in front(points)]
            text = "; ".join(f"p = {own['participation']}, R {own.get('rounds', 'free')}" for own in best)
            free = sum("rounds" not in own for own in best)
            found.append(
                Verdict(
                    f"Figure 7: a clear trade-off of cost and regret (pairs that none beats in both; {qualities})", "clear",
                    f"{len(best)} of {len(pairs)}", AGREES if len(best) > 3 else KIND,
                    f"{text}. {free} of them leave R free: at the same regret, few participants in as many rounds as it takes are cheaper "
                    "than all in few rounds",
                )
            )  # fmt: skip
        limited, unlimited = self.one(1.0, 5, "grid"), self.one(1.0, None, "grid")
        cost, cost_bounds = self.ratio(results, limited, unlimited, "cost")
        found.append(
            Verdict(
                "Figure 7: R = 5, p = 1 is close to the largest cost (its cost over that of free rounds)", "close to 1", cost,
                AGREES if cost > 0.8 else DIFFERS,
                f"5 rounds of {expected(unlimited)['rounds']:.0f}", cost_bounds,
            )
        )  # fmt: skip
        value, bounds = self.ratio(results, limited, unlimited)
        by_formula = expected(limited)["regret"] / expected(unlimited)["regret"]
        found.append(
            Verdict(
                "Figure 7: R = 5, p = 1 is close to Figure 4's regret with epsilon = 1 (ratio)", "close to 1", value,
                AGREES if bounds[1] < 1.1 else DIFFERS,
                f"the formulas alone: {said(by_formula)}. The first epoch, in which all arms are played, aims at Delta^(1/5) = "
                f"{0.01**0.2:.2f} in place of 1/2, which takes {0.25 / 0.01**0.4:.2f} times as many pulls", bounds,
            )
        )  # fmt: skip
        agents = self.world["num_agents"]
        logs = math.log(HORIZON) / math.log(agents)
        found.append(
            Verdict(
                "Remark 2: no worse than without communication if R >= 4 log T / (3 log pM) (p = 1)",
                f"R >= {4 * logs / 3:.2f}", f"R >= {2 * logs:.2f}", DIFFERS,
                "T^(2/R) / p^1.5 <= M is R >= 2 log T / log(p^1.5 M). At R = 4 the left side is "
                f"{HORIZON**0.5:.0f}, above M = {agents}; the last line of the proof has R >= log T / log pM, and min with T^(1/R)",
            )
        )  # fmt: skip
        return found


@register
class RewardsStudy(_Federated):
    name = "li-8"
    title = "Li & Song 2022, Figure 8: heterogeneous rewards"
    description = (
        "5 agents and 10 arms, whose means are drawn alike for all agents or for each; CDP-MAB with epsilon = 1, and its agents alone. "
        "Regret is by the means over agents."
    )
    figures = ("001/8",)
    world: ClassVar[Config] = {"num_agents": 5, "num_arms": 10, "horizon": HORIZON, "topology": "server"}
    runs = (20, 100)

    def one(self, policy: str, qualities: str) -> Config:
        """The setting of one curve."""
        together = policy == "CDPMAB"
        return self.setting(policy, {"epsilon": 1.0} if together else {}, "paper" if together else "none", qualities)

    def settings(self) -> list[Config]:
        return [self.one(p, q) for q in ("grid", "uniform", "heterogeneous") for p in ("CDPMAB", "SingleAgent")]

    def row_label(self, group: Group, results: Results) -> str:
        return str(group.config["policy"])

    def slope(self, results: Results, wanted: Config) -> Floats:
        """Regret per agent and slot over the last fifth, for each seed."""
        group = self.found(results, wanted)
        assert group is not None
        slopes = []
        for x, y in group.curves["regret_per_agent"]:
            i = int(0.8 * len(x)) - 1
            slopes.append((y[-1] - y[i]) / (x[-1] - x[i]))
        return np.array(slopes)

    def claims(self, results: Results) -> list[Verdict]:
        alike, differ = self.one("CDPMAB", "uniform"), self.one("CDPMAB", "heterogeneous")
        value, bounds = self.ratio(results, differ, alike)
        found = [
            Verdict(
                "Figure 8: CDP-MAB has similar regret with heterogeneous rewards (over that with homogeneous)", "similar", value,
                AGREES if 0.67 < value < 1.5 else KIND,
                f"the formulas alone: {said(expected(differ)['regret'] / expected(alike)['regret'])}. Means over agents lie closer "
                "together, so that gaps are smaller: arms take longer to tell apart, and cost less", bounds,
            )
        ]  # fmt: skip
        for qualities in ("grid", "uniform"):
            together, alone = self.one("CDPMAB", qualities), self.one("SingleAgent", qualities)
            value, bounds = self.ratio(results, together, alone)
            by_formula = expected(together)["regret"] / expected(alone)["regret"]
            found.append(
                Verdict(
                    f"Figure 8: CDP-MAB reaches 1/M of the single agent's regret, homogeneous ({qualities}: ratio)", 0.2, value,
                    AGREES if 0.17 < value < 0.24 else KIND,
                    f"the formulas alone: {said(by_formula)}. It holds where T lasts for a single agent to end its exploration: at T it "
                    f"has {said(expected(alone)['left'])} arms left on average", bounds,
                )
            )  # fmt: skip
        lone = self.one("SingleAgent", "heterogeneous")
        mean, low, high = statistics.mean(self.slope(results, lone))
        flat, exact = self.slope(results, differ), bias_slope(self.world["num_arms"], self.world["num_agents"])
        found.append(
            Verdict(
                "Figure 8: single agents' regret is linear with heterogeneous rewards (per slot, last fifth of T)", "linear", mean,
                AGREES if low > 3 * flat.mean() else KIND,
                f"agents that play their own best arm lose {said(exact)} a slot on average, by 4,000 drawn instances; CDP-MAB loses "
                f"{said(float(flat.mean()))} a slot at the end", (low, high),
            )
        )  # fmt: skip
        return found


@register
class GraphsStudy(_Federated):
    name = "li-10"
    title = "Li & Song 2022, Figure 10 and Table I: graphs"
    description = (
        "DDP-MAB with epsilon = 1 and 50 agents on a graph, beside CDP-MAB with a server. `cost` counts the messages of the GIS protocol, "
        "`cost_bound` every edge in every slot of a round, as Theorem 3 does; c2 = 1. The random graph is Erdos and Renyi's with "
        "probability 2 ln M / M, the regular one has degree 4."
    )
    figures = ("001/10", "001/I")
    color = "env_params.topology"
    runs = (5, 20)
    graphs: ClassVar[tuple[str, ...]] = ("complete", "star", "ring", "random", "regular")

    def one(self, name: str, qualities: str) -> Config:
        """The setting of one curve."""
        return self.setting(
            "CDPMAB" if name == "server" else "DDPMAB", {"epsilon": 1.0}, "paper", qualities, topology=name
        )

    def settings(self) -> list[Config]:
        return [self.one(name, q) for q in ("grid", "uniform") for name in ("server", *self.graphs)]

    def row_label(self, group: Group, results: Results) -> str:
        return by_structure(group)

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        caption = "Regret against the messages of agents, 1 each (an upload to the server: 25); the line joins what nothing beats in both."
        return [
            *super().plots(results),
            plot_pareto(self, results, "cost", "communication cost (messages)", by_structure, caption),
        ]

    def claims(self, results: Results) -> list[Verdict]:
        found, agents = [], self.world["num_agents"]
        names = ("complete", "star", "ring", "random")
        for qualities in ("grid", "uniform"):
            shown = [self.one(name, qualities) for name in names]
            waited = [statistics.mean(self.values(results, one, "regret_waiting")) for one in shown]
            formula = ((name, expected(one, 40)["waited"]) for name, one in zip(names, shown, strict=True))
            ring = waited[2]
            found.append(
                Verdict(
                    "Figure 10: complete and star have the smallest regret, the ring a larger one (regret made while waiting; "
                    f"{qualities})", "smallest, larger",
                    "; ".join(f"{name}: {said(e.value)}" for name, e in zip(names, waited, strict=True)),
                    AGREES if ring.low > 0.05 * self.mean(results, shown[0]) else KIND if max(waited) == ring else DIFFERS,
                    f"by the formulas, with agents' own choices drawn: {listed(formula)}. All else is alike: the ring's "
                    f"{said(ring.value)} {interval(ring[1:])} is {100 * ring.value / self.mean(results, shown[2]):.2g}% of its regret, "
                    "which no figure shows, since agents' own best arms are nearly as good as the best",
                )
            )  # fmt: skip
        bound, slots = 2 * waiting("ring", agents) * 0.99, waiting("ring", agents)
        ring = statistics.mean(self.values(results, self.one("ring", "grid"), "regret_waiting"))
        found.append(
            Verdict(
                "Theorem 3: waiting costs at most 2 M (d - 1)(1 - Delta) (the ring, per agent, grid)", f"at most {said(bound)}", ring.value,
                AGREES if ring.high <= bound else DIFFERS, f"{slots} slots in each of about 6 rounds", ring[1:],
            )
        )  # fmt: skip
        per_round = {
            name: self.mean(results, one, "cost") / self.mean(results, one, "rounds")
            for name, one in ((name, self.one(name, "grid")) for name in self.graphs)
        }
        for accounting, metric in (("messages", "cost"), ("Theorem 3's bound", "cost_bound")):
            costs = {
                name: self.mean(results, self.one(name, "grid"), metric)
                for name in ("complete", "star", "ring", "random")
            }
            found.append(
                Verdict(
                    f"Figure 10: the star has the smallest communication cost ({accounting})", "star", min(costs, key=lambda n: costs[n]),
                    AGREES if min(costs, key=lambda n: costs[n]) == "star" else DIFFERS, listed(costs.items()),
                )
            )  # fmt: skip
        for name, paper, value in (
            ("star", "2(M - 1) = 98", 2 * (agents - 1)),
            ("ring", "M^2/2 = 1,250", agents**2 // 2),
            ("complete", "M(M - 1)/2 = 1,225", agents * (agents - 1) // 2),
        ):
            protocol = information_sharing(graph(name, agents))
            ours = link_cost(protocol, 1.0, "edges")
            found.append(
                Verdict(
                    f"Table I: links a round, {name}", paper, ours, AGREES if ours == value else DIFFERS,
                    f"by networkx: diameter times edges, {said(diameter_times_edges(name, agents))}; in fact {said(per_round[name])} "
                    "messages a round (ADV, REQ and DATA)",
                )
            )  # fmt: skip
        found.append(
            Verdict(
                "Table I: the ring's regret above the server's", f"M(M - 1) = {agents * (agents - 1):,}",
                f"M(d - 1) = {agents * waiting('ring', agents):,}", "a slip, of the same order",
                f"Theorem 3 with the ring's diameter, {waiting('ring', agents) + 1}",
            )
        )  # fmt: skip
        of_laplacian, of_adjacency, diameter = second_eigenvalues(agents)
        found.append(
            Verdict(
                "Table I: a d-regular graph's diameter is about log M / log(1/lambda_2), of the Laplacian (d = 4)", diameter,
                f"{math.log(agents) / math.log(1 / of_laplacian):.2f}", DIFFERS,
                f"the Laplacian's is {of_laplacian:.2f}, above 1, which makes cost and regret negative. With the adjacency matrix over d "
                f"it is {of_adjacency:.3f}, and the bound {math.log(agents) / math.log(1 / of_adjacency):.1f}",
            )
        )  # fmt: skip
        rounds, delta = 5, 0.01
        found.append(
            Verdict(
                "Corollary 1: (1 - Delta)/(1 - Delta^(1/R)) + R/T <= 1 (Delta = 0.01, R = 5)", "at most 1",
                (1 - delta) / (1 - delta ** (1 / rounds)) + rounds / HORIZON, DIFFERS,
                "the sum of Delta^(r/R) over r = 0 ... R - 1 begins with 1 and is above it; written from r = 1 to R it has R + 1 terms in "
                "the paper. It is of order 1 + R / log(1/Delta)",
            )
        )  # fmt: skip
        found.append(
            Verdict(
                "Equation 22: S(r_k) <= 16 log(8 K r^2 T) / (M Delta_k^2) (the constant)", "16", f"{8 * 4**2}", DIFFERS,
                "Dtilde > Delta_k / 4 before r_k, so that 8 / Dtilde^2 < 8 * 16 / Delta_k^2; the second term's 32 = 8 * 4 is right, and "
                "no order changes",
            )
        )  # fmt: skip
        return found


@register
class ComponentsStudy(_Federated):
    name = "li-11"
    title = "Li & Song 2022, Figure 11 and Table II: components"
    description = (
        "HDP-MAB with epsilon = 1; an upload to the server costs c1 = 50, a message between agents c2 = 1. Case 2 as printed has 110 "
        "agents, and 100 with 53 in place of 63; case 6 is 100 components of one agent, which is CDP-MAB. `cost` counts the messages of "
        "SAC and uploads, as the proof of Theorem 4 does, `cost_bound` every edge of a component in every slot."
    )
    figures = ("001/11", "001/II")
    color = "env_params.topology"
    world: ClassVar[Config] = {
        "num_agents": 100, "num_arms": ARMS, "horizon": HORIZON, "topology": "server", "server_link_cost": 50.0, "agent_link_cost": 1.0
    }  # fmt: skip
    runs = (3, 5)
    cases: ClassVar[tuple[str, ...]] = ("case 1", "case 2", "case 2 with 53", "case 3", "case 4", "case 5", "case 6")

    def one(self, case: str, qualities: str) -> Config:
        """The setting of one curve."""
        return self.setting(
            "HDPMAB", {"epsilon": 1.0}, "paper", qualities, topology=case, num_agents=sum(CASES[case][1])
        )

    def settings(self) -> list[Config]:
        return [self.one(case, q) for q in ("grid", "uniform") for case in self.cases]

    def row_label(self, group: Group, results: Results) -> str:
        return by_structure(group)

    def plots(self, results: Results) -> list[Plot]:
        if not len(results):
            return []
        pareto = {
            metric: plot_pareto(
                self, results, metric, label, by_structure, f"Regret against the cost of links, {text}."
            )
            for metric, label, text in (
                ("cost", "communication cost (messages)", "50 an upload, 1 a message between agents"),
                ("cost_bound", "communication cost (bound)", "by the edge bound"),
            )
        }
        bound = pareto["cost_bound"]
        return [*super().plots(results), pareto["cost"], Plot(f"{self.name}_bound", bound.figure, bound.caption)]

    def claims(self, results: Results) -> list[Verdict]:
        one_two_three = ("case 1", "case 2", "case 2 with 53", "case 3")
        found = [
            Verdict(
                "Table II: 100 agents are divided (case 2)", 100, sum(CASES["case 2"][1]), DIFFERS,
                "63 + 24 + 10 + 6 + 7 = 110; with 53 in place of 63 it would be 100. Both are run",
            )
        ]  # fmt: skip
        for qualities in ("grid", "uniform"):
            first, *others = (self.one(case, qualities) for case in one_two_three)
            ratios = [self.ratio(results, other, first) for other in others]
            formula = ((case, expected(self.one(case, qualities), 40)["regret"]) for case in one_two_three)
            found.append(
                Verdict(
                    f"Figure 11: cases 1, 2 and 3 have similar regret (over case 1's; {qualities})", "similar",
                    "; ".join(f"{case}: {r:.3f} {interval(b)}" for case, (r, b) in zip(one_two_three[1:], ratios, strict=True)),
                    AGREES if all(0.85 < value < 1.15 for value, _ in ratios) else DIFFERS,
                    f"the formulas alone: {listed(formula)}; case 2's regret is that of 110 agents, and where nobody waits structures "
                    "do not differ",
                )
            )  # fmt: skip
        collecting = sum(information_sharing(graph("complete", 100)).counts.values())
        for way, (label, metric) in enumerate(
            (("messages, as the proof counts", "cost"), ("edge bound", "cost_bound"))
        ):
            costs = {case: self.per_round(results, case, metric) for case in self.cases}
            searched = {case: round_cost(case, 50.0, 1.0)[way] for case in self.cases}
            grows = costs["case 1"] < costs["case 2 with 53"] < costs["case 3"]
            star, hybrids = costs["case 5"], max(costs["case 1"], costs["case 5"])
            found += [
                Verdict(
                    f"Figure 11: cost grows from case 1 to 2 to 3 (a round; {label})", "gradually increases",
                    listed((case, costs[case]) for case in one_two_three), AGREES if grows else DIFFERS,
                    f"by breadth-first search from every node: {listed((case, searched[case]) for case in one_two_three)}"
                    + ("" if grows else ". 99 messages bring all to one sink, and one server link in place of five makes it the cheapest"),
                ),
                Verdict(
                    f"Figure 11: of cases 1, 4 and 5 the star costs least (a round; {label})", "case 5",
                    listed((case, costs[case]) for case in ("case 1", "case 4", "case 5")),
                    AGREES if star < min(costs["case 1"], costs["case 4"]) else "a tie" if star == costs["case 1"] else DIFFERS,
                    "" if way else "in a star as in a complete graph everyone is one hop from the sink",
                ),
                Verdict(
                    f"Figure 11: hybrids cost less than the server alone (case 6) or one graph (case 3) (a round; {label})",
                    "significantly less", listed((case, costs[case]) for case in ("case 1", "case 5", "case 3", "case 6")),
                    AGREES if hybrids < min(costs["case 3"], costs["case 6"])
                    else "than the server alone" if hybrids < costs["case 6"] else DIFFERS,
                    "case 3, with a sink and a server link, is not the fully decentralised algorithm: sharing by GIS among 100 agents "
                    f"that are all neighbours takes {said(collecting)} messages a round",
                ),
            ]  # fmt: skip
        return found

    def per_round(self, results: Results, case: str, metric: str) -> float:
        """The cost of a round."""
        one = self.one(case, "grid")
        return self.mean(results, one, metric) / self.mean(results, one, "rounds")


@register
class StructuresStudy(_Federated):
    name = "li-12"
    title = "Li & Song 2022, Figure 12: heterogeneous rewards in three structures"
    description = (
        "100 agents and 10 arms, with a server, on one ring, or on five rings of 20 with a server; epsilon = 1. The paper does not say "
        "which graphs its figure has: rings have the longest delays. Regret is by the means over agents."
    )
    figures = ("001/12",)
    color = "env_params.topology"
    world: ClassVar[Config] = {"num_agents": 100, "num_arms": 10, "horizon": HORIZON, "topology": "server"}
    runs = (20, 100)
    structures: ClassVar[tuple[str, ...]] = ("server", "five rings", "ring")

    def one(self, name: str, qualities: str) -> Config:
        """The setting of one curve."""
        policy = {"server": "CDPMAB", "ring": "DDPMAB"}.get(name, "HDPMAB")
        return self.setting(policy, {"epsilon": 1.0}, "paper", qualities, topology=name)

    def settings(self) -> list[Config]:
        return [self.one(name, q) for q in ("uniform", "heterogeneous") for name in self.structures]

    def row_label(self, group: Group, results: Results) -> str:
        structure = group.config["env_params"]["topology"]
        return f"{group.config['policy']}, {structure}"

    def claims(self, results: Results) -> list[Verdict]:
        found = []
        for qualities in ("uniform", "heterogeneous"):
            shown = {name: self.one(name, qualities) for name in self.structures}
            server = self.mean(results, shown["server"])
            waited = {
                name: statistics.mean(self.values(results, shown[name], "regret_waiting"))
                for name in self.structures[1:]
            }
            above = {
                name: statistics.difference(self.values(results, shown[name]), self.values(results, shown["server"]))
                for name in waited
            }
            formula = listed((name, expected(shown[name], 40)["waited"]) for name in waited)
            found.append(
                Verdict(
                    f"Figure 12: CDP-MAB is best, HDP-MAB between, DDP-MAB worst (regret made while waiting; {qualities})", "in this order",
                    "; ".join(f"{name}: {said(e.value)} {interval(e[1:])}" for name, e in waited.items()),
                    AGREES if 0 < waited["five rings"].low < waited["five rings"].high < waited["ring"].low else DIFFERS,
                    f"by the formulas, with agents' own choices drawn: {formula}. With a server nobody waits, and the regret is "
                    f"{said(server)}; in all, regret is above that by "
                    + "; ".join(f"{name}: {said(e.value)} {interval(e[1:])}" for name, e in above.items()),
                )
            )  # fmt: skip
        alike, differ = (
            statistics.mean(self.values(results, self.one("ring", q), "regret_waiting"))
            for q in ("uniform", "heterogeneous")
        )
        found.append(
            Verdict(
                "Section VII-C2: local exploitation costs more where agents differ (the ring's waiting)", "slightly affected",
                f"{said(differ.value)} against {said(alike.value)}", AGREES if differ.low > alike.high else DIFFERS,
                "an agent's own best arm is not the others': its loss does not shrink from round to round",
            )
        )  # fmt: skip
        return found
