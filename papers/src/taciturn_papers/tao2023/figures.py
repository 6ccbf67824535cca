"""Tao et al. 2023, Figures 2 to 4: the time-averaged regret of equation 1 against the rounds."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from taciturn.bench.figures import plot_curves
from taciturn.bench.play import play
from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results
from taciturn.bench.study import Plot, Score, Table
from taciturn.bench.tables import standard_tables
from taciturn.envs.social_bandit.paper import multiplicative_weights, regret
from taciturn.simulation import Run
from taciturn_papers.base import PaperStudy, epsilon_of
from taciturn_papers.tao2023 import claims, settings
from taciturn_papers.tao2023.claims.variants import longest_run
from taciturn_papers.tao2023.settings import AGENTS, BOUND, GROWTH, LEVELS, LIMIT, SHARES, SIZES, Setting, society
from taciturn_papers.tao2023.share_dynamics import needed_table, noise_table, noisy_weights, theorem_table

TITLES = {
    "env_params.num_agents": "N = {:,}", "options": "M = {}", "growth": "g = {}", "env_params.horizon": "{:,} rounds",
}  # fmt: skip


class Regret(PaperStudy):
    """Every setting is played by agents, computed by noisy share dynamics, and compared with equation 34, its limit for
    N = ∞ without noise."""

    score = Score("regret", higher_is_better=False, label="final regret (equation 1)")
    seeds = (3, 5)
    shown: ClassVar[tuple[str, ...]] = ("N", "M", "ε", "g")
    bound: ClassVar[float | None] = BOUND

    def cases(self, sizes: Sequence[int]) -> list[Setting]:
        """The settings of the figure, for these N, in the paper's notation."""
        return []

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        """The settings of the figure as configurations."""
        return [society(*case, rounds=rounds) for case in self.cases(sizes)]

    def played(self, quick: bool) -> list[Config]:
        """The configurations that agents play."""
        return self.grid(SIZES[:1], 2000) if quick else self.grid(SIZES, 10_000)

    def computed(self, quick: bool) -> list[Config]:
        """The configurations of the noisy share dynamics."""
        return [settings.by_shares(one) for one in self.grid(SIZES, 2000 if quick else 10_000)]

    def limit(self, one: Config) -> Config:
        """Equation 34 for a setting: the parameters that it depends on, and the panel that shows it."""
        kept = ("qualities", "horizon", *(name.removeprefix("env_params.") for name in self.facets))
        params = {name: value for name, value in one["env_params"].items() if name in kept}
        panel = {name: one[name] for name in ("options", "growth") if name in (*self.facets, "options")}
        rates = {name: one["policy_params"][name] for name in ("beta", "mu")}
        return {"env": one["env"], "env_params": params, "policy": LIMIT, "policy_params": rates} | panel

    def settings(self, quick: bool) -> list[Config]:
        configs = [*self.played(quick), *self.computed(quick)]
        limits = [self.limit(config) for config in configs]
        return [*configs, *(one for i, one in enumerate(limits) if one not in limits[:i])]

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        entries, params, own = cell.config, cell.config["env_params"], cell.config["policy_params"]
        horizon = params["horizon"]
        if entries["policy"] == AGENTS:

            def early(run: Run) -> dict[str, float]:
                return {"regret_at_tenth": float(run.trace["regret"][9].mean())}

            return play(cell, record=["regret"], until=horizon, points=100, also=early)
        phi = settings.signals(cell)
        if entries["policy"] == LIMIT:
            earned = (multiplicative_weights(phi, own["beta"], own["mu"])[:-1] * phi).sum(1)
        else:
            size = {"num_agents": params["num_agents"], "copies": params["copies"]}
            earned = noisy_weights(phi, **size, epsilon=epsilon_of(entries), seed=cell.seed, **own)
        rounds = np.arange(1, horizon + 1)
        curve = regret(np.cumsum(earned), rounds, np.array(params["qualities"]))
        some = np.linspace(0, horizon, 101)[1:].astype(int) - 1
        metrics = {"regret": float(curve[-1]), "regret_at_tenth": float(curve[horizon // 10 - 1])}
        return Result(metrics, {"regret": (rounds[some], curve[some])})

    def panels(self, results: Results) -> list[tuple[str, Results]]:
        """Sorted by the paper's parameters and titled with them."""
        found = []
        for title, part in super().panels(results):
            values = {name: part.groups[0].flat[name] for name in self.facets}
            known = ", ".join(TITLES[name].format(GROWTH.get(value, value)) for name, value in values.items())
            order = [list(GROWTH).index(value) if value in GROWTH else value for value in values.values()]
            found.append((order, known or title, part))
        return [(title, part) for _, title, part in sorted(found, key=lambda one: one[0])]

    @staticmethod
    def parameters(group: Group) -> dict[str, str]:
        """The parameters of a configuration, in the paper's notation."""
        entries = group.config
        known = {"M": str(entries["options"])}
        if entries["policy"] != LIMIT:
            known["N"] = f"{entries['env_params']['num_agents']:,}"
            known |= {"ε": settings.level_text(epsilon_of(entries)), "g": GROWTH[entries["growth"]]}
        return known

    def row_label(self, group: Group, results: Results) -> str:
        every = [self.parameters(result) for result in results]
        text = ", ".join(
            f"{name} = {value}"
            for name, value in self.parameters(group).items()
            if name in self.shown and len({one[name] for one in every if name in one}) > 1
        )
        kind = {AGENTS: "agents", LIMIT: "no noise and N = ∞ (equation 34)", SHARES: SHARES}
        return ": ".join(filter(None, [kind[group.config["policy"]], text]))

    def plot(self, name: str, results: Results, caption: str) -> Plot:
        """Curves of regret, from 0 up, with Theorem 5.2's bound."""
        plot = plot_curves(self, results, "regret", x_label="rounds", y_label="regret so far")
        for ax in plot.figure.axes:
            ax.set_ylim(bottom=0)
            if self.bound is not None:
                ax.axhline(self.bound, color="#888888", linestyle=":", linewidth=1.5)
        dotted = "" if self.bound is None else f" Dotted: 6 delta = {self.bound:.2f}."
        return Plot(f"{self.name}_{name}", plot.figure, f"{caption} {plot.caption}{dotted}")

    def plots(self, results: Results) -> list[Plot]:
        limits, result = results.select(policy=LIMIT), []
        for policy, name, caption in (
            (AGENTS, "agents", "The algorithm as written, agent by agent."),
            (SHARES, "shares", "Cross-check: the noisy share dynamics with the same signals."),
        ):
            shown = results.select(policy=policy)
            if len(shown):
                result.append(self.plot(name, Results([*limits, *shown]), caption))
        return result

    def tables(self, results: Results) -> list[Table]:
        return [*self.explanations(results), *standard_tables(self, results)]

    def explanations(self, results: Results) -> list[Table]:
        """Tables that explain the curves."""
        noisy = [case for case in self.cases(SIZES) if case.epsilon is not None]
        return [noise_table(noisy)] if noisy else []


class AgentsStudy(Regret):
    name = "tao2023-2"
    title = "Tao et al. 2023, Figure 2: number of agents"
    description = (
        "PrivateSocialLearning with epsilon = 1 per message, 10,000 rounds. The text says M = 10 and the caption M = "
        "20: both are shown. The paper has 30 repetitions; we use 5 seeds. Their final regrets differ by about 0.003 "
        "(0.005 without noise), which is small compared with 6 delta = 0.12. Copies end at uniformly random agents, as "
        "Theorem 5.1 states for its random walks. We use the normal approximation of the distribution of an agent's "
        "sums "
        'of bits, with their exact means and covariances (`dissemination="aggregated"`).'
    )
    figures = ("tao2023/2",)
    claims = claims.FIGURE_2
    facets = ("options", "growth")
    shown = ("N",)

    def cases(self, sizes: Sequence[int]) -> list[Setting]:
        return [Setting(n, m, growth=g) for m in (10, 20) for g in GROWTH for n in sizes]

    def cells(self, quick: bool) -> list[Cell]:
        """The noisy share dynamics that show when regrets settle get ten seeds."""
        settle = [] if quick else [settings.by_shares(society(n, m)) for m in (10, 20) for n in (SIZES[0], SIZES[-1])]
        return super().cells(quick) + self.sweep(settle, range(self.seeds[1], 10))

    def explanations(self, results: Results) -> list[Table]:
        return [*super().explanations(results), needed_table(), theorem_table()]


class OptionsStudy(Regret):
    name = "tao2023-3"
    title = "Tao et al. 2023, Figure 3: number of options"
    description = (
        "epsilon = 1 per message, g(N) = ln² N, 10,000 rounds. The text bounds the regret by 6 delta except for M >= "
        "20 with N = 3,000, and M = 30 with N = 6,000. The text on Figure 2, with M = 10, says that the regret may "
        "exceed the bound with N = 3,000."
    )
    figures = ("tao2023/3",)
    claims = claims.FIGURE_3
    facets = ("env_params.num_agents",)
    shown = ("M",)

    def cases(self, sizes: Sequence[int]) -> list[Setting]:
        return [Setting(n, m) for n in sizes for m in (10, 20, 30)]


class PrivacyStudy(Regret):
    name = "tao2023-4"
    title = "Tao et al. 2023, Figure 4: privacy per message"
    description = (
        "M = 20, g(N) = ln² N, 10,000 rounds, 3 seeds. epsilon is per message; over a run it is infinite, because an "
        "agent without an option visibly sends nothing. The text says that with more agents the regret converges 'to a "
        "larger value', but must mean a smaller one."
    )
    figures = ("tao2023/4",)
    claims = claims.FIGURE_4
    seeds = (3, 3)
    facets = ("env_params.num_agents",)
    shown = ("ε",)

    def cases(self, sizes: Sequence[int]) -> list[Setting]:
        return [Setting(n, epsilon=e) for n in sizes for e in LEVELS]


class VariantsStudy(Regret):
    name = "tao2023-variants"
    title = "Tao et al. 2023: which reading reproduces Figures 2 to 4"
    description = (
        "Other readings of stages 1 to 3, computed with the noisy share dynamics; as a check, we also run two of them "
        "agent by agent over fewer rounds. As written, all copies of an agent carry the same noise, and each agent has "
        "its own estimate. With fresh noise per copy, T times as many messages cost privacy; with one estimate for all "
        "agents, from all copies, the algorithm is no longer distributed."
    )
    figures = ("tao2023/variants",)
    claims = claims.VARIANTS
    seeds = (3, 3)
    facets = ("env_params.horizon",)

    def cells(self, quick: bool) -> list[Cell]:
        """Settings that are played both ways get eight seeds, to compare the two."""
        both = [] if quick else [*self.played(quick), *self.computed(quick)[:2]]
        return super().cells(quick) + self.sweep(both, range(self.seeds[1], 8))

    def played(self, quick: bool) -> list[Config]:
        n, rounds = (3000, 300) if quick else (10_000, 2000)
        fresh, pooled = society(n, rounds=rounds), society(n, rounds=rounds)
        fresh["env_params"]["perturbation"] = "per_token"
        pooled["policy_params"]["pool"] = 10
        return [fresh, pooled]

    def computed(self, quick: bool) -> list[Config]:
        rounds = 2000 if quick else 10_000
        n, few = (3000, 300) if quick else (10_000, 2000)
        checks = [settings.by_shares(society(n, rounds=few), own) for own in ({"noise": "per_token"}, {"pool": 10})]
        grid = [
            settings.by_shares(society(**one, rounds=rounds), own)
            for _, own in settings.READINGS
            for one in (settings.COMPARED if "pool" not in own else ({},))
        ]
        large = [
            settings.by_shares(society(10**power, growth=g, rounds=rounds)) for g in GROWTH for power in (5, 6, 7, 8)
        ]
        return [*checks, *grid, *large]

    def row_label(self, group: Group, results: Results) -> str:
        label = super().row_label(group, results)
        if group.config["policy"] == LIMIT:
            return label
        name = settings.reading_name(settings.reading_of(group.config))
        return name if label == SHARES else f"{label}; {name}"

    def plots(self, results: Results) -> list[Plot]:
        """The readings at N = 10,000, M = 20, epsilon = 1."""
        longest = max((g.config["env_params"]["horizon"] for g in results), default=0)
        shown = results.select(policy=LIMIT, options=20, env_params={"horizon": longest}).groups
        result = (longest_run(results, own) for _, own in settings.READINGS)
        shown += tuple(group for group in result if group is not None)
        caption = "N = 10,000, M = 20, epsilon = 1, g = ln² N, computed with the noisy share dynamics."
        return [self.plot("readings", Results(shown), caption)] if shown else []

    def explanations(self, results: Results) -> list[Table]:
        rows = []
        for name, own in [reading for reading in settings.READINGS if "pool" not in reading[1]]:
            groups = [longest_run(results, own, **one) for one in settings.COMPARED]
            rows.append([name, *("—" if g is None else f"{g.mean('regret'):.3f}" for g in groups)])
        columns = ("reading", "N = 3,000", "6,000", "10,000", "ε = 0.5", "2", "∞", "M = 10", "30")
        note = (
            "Final regret, computed with the noisy share dynamics; N = 10,000, M = 20, epsilon = 1 unless stated "
            f"otherwise. In the paper the regret is above {BOUND:.2f} at N = 3,000 and at most {BOUND:.2f} in all "
            "other columns; it falls with N and epsilon and rises with M."
        )
        return [Table("Which reading reproduces the paper's curves", columns, rows, note)]


class FastStudy(Regret):
    name = "tao2023-fast"
    title = "Tao et al. 2023: a setting in which the algorithm learns"
    description = (
        "beta = 0.65, mu = 0.05, N = 2,000, M = 5, 400 copies, 500 rounds: selection of delta = 0.62 per round "
        "outweighs the noise. Theorem 5.2's bound of 6 delta exceeds 1 in this setting."
    )
    figures = ("tao2023/fast",)
    claims = claims.FAST
    shown = ("ε",)
    bound = None

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        """The settings of the figure, also in quick runs: they take little time."""
        results = []
        for epsilon in settings.FAST_LEVELS:
            one = society(2000, 5, epsilon, rounds=settings.FAST_ROUNDS)
            one["env_params"]["copies"] = 400
            results.append({**one, "policy_params": {"beta": 0.65, "mu": 0.05}})
        return results
