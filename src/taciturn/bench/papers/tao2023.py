"""Tao et al. 2023 (paper 003), section 6: Figures 2 to 4 run again, each with the noise of the estimate alone as a second way.

Where the paper gives a number it is read from its text, since its figures have no numbers that could be read. It says that qualities are
uniform on [0, 1] and not which they were: here they are the means of M ordered uniform draws, M/(M+1) down to 1/(M+1).
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.figures import Plot, plot_curves
from taciturn.bench.play import config, play
from taciturn.bench.study import Cell, Config, Floats, Group, Progress, Result, Results, Score, Study, Verdict, register
from taciturn.bench.tables import Table, number, standard_tables
from taciturn.envs.social_bandit.world import copies_of_paper, multiplicative_weights, regret
from taciturn.registry import make_world

BETA, MU, H = 0.505, 6.7e-5, 485.0
DELTA = math.log(BETA / (1 - BETA))  # 0.02
BOUND = 6 * DELTA  # of the regret, Theorem 5.2
GROWTH = {"log_squared": "ln² N", "root": "√N"}
SIZES, LEVELS = (3000, 6000, 10_000), (0.5, 1.0, 1.5, 2.0, None)
AGENTS, LIMIT, SHARES = "PrivateSocialLearning", "equation 34", "shares and noise"
AGREES, DIFFERS, HOLLOW = "agrees", "does not follow", "true, and says nothing"


def qualities(options: int) -> list[float]:
    """The means of `options` ordered uniform draws, from the best down."""
    return [round(j / (options + 1), 10) for j in range(options, 0, -1)]


# The second way: what noise does to shares, without agents or copies.


def bit_noise(epsilon: float | None) -> float:
    """Standard deviation of one perturbed bit once equation 7 has removed its bias: sqrt(q (1 - q)) / (1 - 2 q)."""
    if epsilon is None:
        return 0.0
    q = 1 / (math.exp(epsilon / 2) + 1)
    return math.sqrt(q * (1 - q)) / (1 - 2 * q)


def rectified(mean: Floats, sd: Floats | float) -> tuple[Floats, Floats]:
    """Mean and variance of max(X, 0), X normal; arrays of one shape."""
    from scipy.special import ndtr

    sd = np.maximum(sd, 1e-300)
    z = np.clip(mean / sd, -38, 38)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    inside = ndtr(z)
    first = mean * inside + sd * density
    second = (mean**2 + sd**2) * inside + mean * sd * density
    return first, np.maximum(second - first**2, 0.0)


def expected_estimate(heard: Floats, sd: Floats | float) -> Floats:
    """E[Qtilde_k / sum_j Qtilde_j] (equations 7 and 8) where the estimates are independent normal(heard, sd) clipped at 0: [..., K].

    To second order in the noise of the sum.
    """
    first, variance = rectified(heard, sd)
    total = first.sum(-1, keepdims=True)
    known = total > 0
    total = np.where(known, total, 1.0)
    spread = variance.sum(-1, keepdims=True)
    ratio = first / total - variance / total**2 + first * spread / total**3
    ratio = np.maximum(np.where(known, ratio, 1.0), 0.0)
    return np.asarray(ratio / ratio.sum(-1, keepdims=True))


def noisy_weights(
    signals: Floats,
    *,
    num_agents: int,
    copies: int,
    epsilon: float | None,
    seed: int,
    beta: float = BETA,
    mu: float = MU,
    noise: str = "per_round",
    estimate: str = "own",
    pool: int = 1,
    replicas: int = 20,
) -> Floats:
    """Q^{r-1} . Phi^r of r = 1 ... R, mean over `replicas`: equation 34 with the noise of the estimates and a finite number of agents.

    Given the shares Q of D adopters, the estimates of all agents have the bits' noise in common, `bit_noise` / sqrt(D) under
    noise = "per_round"; under "per_token" the mean of all T D copies is free of it but for 1 / sqrt(T D). On top of it each agent has the
    noise of its own V = T D / N copies, sqrt((bit_noise^2 + Q (1 - Q)) / V), unless estimate = "shared", one of all copies for all. Without
    noise in the bits an estimate is a share of copies: never below 0, and Q on average.

    Args:
        signals: Phi, [R, K].
        pool: rounds that an agent counts together.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    options = signals.shape[1]
    bit, earned = bit_noise(epsilon), np.empty(len(signals))
    held = np.full((replicas, options), num_agents // options, np.int64)
    past: deque[Floats] = deque(maxlen=pool)
    for r, phi in enumerate(signals):
        adopters = np.maximum(held.sum(1, keepdims=True), 1)
        shares = held / adopters
        earned[r] = (shares @ phi).mean()
        vectors = adopters * (1.0 if noise == "per_round" else copies)
        common = bit * vectors**-0.5 if noise == "per_round" or estimate == "shared" else 0.0
        past.append(shares + common * rng.standard_normal(shares.shape))
        own = 0.0
        if estimate == "own" and bit:
            own = np.sqrt((bit**2 + shares * (1 - shares)) * num_agents / (copies * adopters * len(past)))
        tried = rng.multinomial(num_agents, (1 - mu) * expected_estimate(np.mean(past, axis=0), own) + mu / options)
        held = rng.binomial(tried, np.where(phi == 1, beta, 1 - beta))
    return earned


def mean_dynamics(eta: Sequence[float], epsilon: float | None, adopters: Floats, heard: Floats, rounds: int) -> Floats:
    """Regret after `rounds` of the mean dynamics, [G], for `adopters` [G] vectors perturbed and `heard` [G] copies an agent.

    Q <- E[Qtilde / sum] under all the noise, explored with mu, then times the mean signal's beta eta + (1 - beta) (1 - eta).
    """
    quality = np.array(eta)
    variance = bit_noise(epsilon) ** 2 * (1 / adopters + 1 / heard)
    sd = np.sqrt(variance)[:, None]
    gain = BETA * quality + (1 - BETA) * (1 - quality)
    shares = np.full((len(adopters), len(quality)), 1 / len(quality))
    earned = np.zeros(len(adopters))
    for _ in range(rounds):
        earned += shares @ quality
        shares = ((1 - MU) * expected_estimate(shares, sd) + MU / len(quality)) * gain
        shares /= shares.sum(1, keepdims=True)
    return np.asarray(quality.max() - earned / rounds)


def sigma(epsilon: float | None, adopters: float, heard: float) -> float:
    """Standard deviation of one agent's estimate of a share that is near 0."""
    return bit_noise(epsilon) * math.sqrt(1 / adopters + 1 / heard)


def lift(eta: Sequence[float], sd: float, delta: float = DELTA) -> tuple[float, float]:
    """What cutting estimates off at 0 gives to the options behind the best: their share of all together, and the regret from it.

    Option k is held by sd z_k of all, where what the cut adds in a round, phi(z) / z - Phi(-z) of it, is what selection takes away,
    delta (eta_1 - eta_k). Where the sum nears 1 no option can lead.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    gaps = max(eta) - np.sort(eta)[:-1]

    def excess(z: float, gap: float) -> float:
        return float(math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / z - ndtr(-z) - delta * gap)

    heights = np.array([brentq(excess, 1e-9, 30, args=(gap,)) for gap in gaps])
    return float(sd * heights.sum()), float(sd * heights @ gaps)


@lru_cache(64)
def agents_needed(options: int, epsilon: float, growth: str, rounds: int = 10_000) -> float:
    """log10 of the least N whose mean dynamics has regret 6 delta after `rounds`, with T = h g(N); infinite if beyond e^10,000.

    A lower bound: it leaves out how noise that all have in common moves the shares about.
    """
    low, high = math.log(1000), 2.0 * math.log(1000)
    while True:
        logs = np.linspace(low, high, 9)
        adopters = np.exp(np.minimum(logs, 700)) / 2
        heard = H / 2 * (np.exp(logs / 2) if growth == "root" else logs**2)
        values = mean_dynamics(qualities(options), epsilon, adopters, heard, rounds)
        if values[-1] > BOUND:
            low, high = high, 2 * high
            if high > 10_000:
                return math.inf
        elif high - low > 0.03 * high and values[0] > BOUND:
            i = int(np.argmax(values <= BOUND))
            low, high = logs[i - 1], logs[i]
        else:
            return float(np.interp(-BOUND, -values, logs)) / math.log(10)


def theorem(options: int, epsilon: float, num_agents: int) -> dict[str, float]:
    """What Theorem 5.2 and its lemmas ask for at the paper's parameters: rounds, 6 mu / delta^2, delta'', c, log10 of g(N) / ln N."""
    q = 1 / (math.exp(epsilon / 2) + 1)
    c = 4 * options * (2 * options + 1) / (MU * (1 - BETA)) / (1 - 2 * q)
    power = 2 * math.log(5) / DELTA**2
    return {
        "rounds": math.log(4 * options / (MU * (1 - BETA))) / DELTA**2,
        "exploration": 6 * MU / DELTA**2,
        "deviation": math.sqrt(60 * options * math.log(num_agents) / (MU * num_agents)),
        "c": c,
        "log10_copies": 2 * math.log10(c) + power * math.log10(options) - 2 * math.log10(DELTA),
    }


# The studies.


def society(
    num_agents: int = 10_000,
    options: int = 20,
    epsilon: float | None = 1.0,
    growth: str = "log_squared",
    rounds: int = 10_000,
) -> Config:
    """Section 6 in one setting."""
    privacy = "NoPrivacy" if epsilon is None else f"BitwiseRandomizedResponse:{epsilon:g}"
    params = {
        "num_agents": num_agents,
        "qualities": qualities(options),
        "copies": copies_of_paper(num_agents, growth),
        "dissemination": "aggregated",
        "horizon": rounds,
    }
    found = config("social_bandit_v0", AGENTS, {"beta": BETA, "mu": MU}, privacy, **params)
    return found | {"options": options, "growth": growth}


def signals(cell: Cell) -> Floats:
    """Phi of the run with this cell's seed, [R, K]: a run draws its signals from a stream of their own."""
    params = cell.config["env_params"]
    population = make_world(cell.config["env"]).population(1, num_agents=3, qualities=params["qualities"], copies=1)
    population.reset(seed=cell.seed)
    size = (params["horizon"], len(params["qualities"]))
    return np.asarray(population.stream("signals").random(size) < np.array(params["qualities"]), np.float64)


def epsilon_of(entries: Config) -> float | None:
    """The epsilon of a configuration."""
    _, _, level = entries["privacy"].partition(":")
    return float(level) if level else None


def level_text(epsilon: float | None) -> str:
    return "∞" if epsilon is None else f"{epsilon:g}"


def second_way(value: float, form: str = ".3f") -> str:
    """What shares and noise alone come to."""
    return f"{SHARES}: {'not run yet' if math.isnan(value) else format(value, form)}"


def uniform_regret(options: int) -> float:
    """Of who never learns."""
    return qualities(options)[0] - 0.5


def draw_bound(plot: Plot, bound: float | None) -> str:
    """Draw Theorem 5.2's bound into every panel, from 0 up; the words for it."""
    for ax in plot.figure.axes:
        ax.set_ylim(bottom=0)
        if bound is not None:
            ax.axhline(bound, color="#888888", linestyle=":", linewidth=1.5)
    return "" if bound is None else f" Dotted: 6 delta = {bound:.2f}."


class Setting(NamedTuple):
    """In the paper's letters."""

    n: int
    m: int = 20
    epsilon: float | None = 1.0
    growth: str = "log_squared"


class _Regret(Study):
    """The time-averaged regret of equation 1 against the rounds, in several settings."""

    score = Score("regret", higher_is_better=False, label="regret after the last round (equation 1)")
    shown: ClassVar[tuple[str, ...]] = ("N", "M", "ε", "g")
    bound: ClassVar[float | None] = BOUND

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        """The figure's settings, for these N."""
        raise NotImplementedError

    def settings(self, quick: bool) -> list[Config]:
        """The configurations that agents play."""
        return self.grid(SIZES[:1], 2000) if quick else self.grid(SIZES, 10_000)

    def shares(self, quick: bool) -> list[Config]:
        """The configurations that are computed without agents."""
        return [{**one, "policy": SHARES} for one in self.grid(SIZES, 2000 if quick else 10_000)]

    def limit(self, one: Config) -> Config:
        """Equation 34 for one setting: all that it depends on, and the panel it is shown in."""
        kept = ("qualities", "horizon", *(name.removeprefix("env_params.") for name in self.facets))
        params = {name: value for name, value in one["env_params"].items() if name in kept}
        panel = {name: one[name] for name in ("options", "growth") if name in (*self.facets, "options")}
        rates = {name: one["policy_params"][name] for name in ("beta", "mu")}
        return {"env": one["env"], "env_params": params, "policy": LIMIT, "policy_params": rates} | panel

    def cells(self, quick: bool) -> list[Cell]:
        configs = [*self.settings(quick), *self.shares(quick)]
        limits = [self.limit(one) for one in configs]
        distinct = [one for i, one in enumerate(limits) if one not in limits[:i]]
        return self.sweep([*configs, *distinct], range(2 if quick else 20))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        entries, horizon = cell.config, cell.config["env_params"]["horizon"]
        if entries["policy"] == AGENTS:
            return play(cell, record=["regret"], until=horizon, points=100)
        phi, params, own = signals(cell), entries["env_params"], entries["policy_params"]
        if entries["policy"] == LIMIT:
            earned = (multiplicative_weights(phi, own["beta"], own["mu"])[:-1] * phi).sum(1)
        else:
            earned = noisy_weights(
                phi,
                num_agents=params["num_agents"],
                copies=params["copies"],
                epsilon=epsilon_of(entries),
                seed=cell.seed,
                **own,
            )
        rounds = np.arange(1, horizon + 1)
        curve = regret(np.cumsum(earned), rounds, np.array(params["qualities"]))
        some = np.linspace(0, horizon, 101)[1:].astype(int) - 1
        return Result({"regret": float(curve[-1])}, {"regret": (rounds[some], curve[some])})

    def panels(self, results: Results) -> list[tuple[str, Results]]:
        """In the order of the paper's parameters, and named by them."""
        found = []
        for title, part in super().panels(results):
            entries = part.groups[0].config
            params, known = entries["env_params"], []
            if "env_params.num_agents" in self.facets:
                known.append((params["num_agents"], f"N = {params['num_agents']:,}"))
            if "options" in self.facets:
                known.append((entries["options"], f"M = {entries['options']}"))
            if "growth" in self.facets:
                known.append((entries["growth"] == "root", f"g = {GROWTH[entries['growth']]}"))
            if "env_params.horizon" in self.facets:
                known.append((params["horizon"], f"{params['horizon']:,} rounds"))
            found.append(([size for size, _ in known], ", ".join(text for _, text in known) or title, part))
        return [(title, part) for _, title, part in sorted(found, key=lambda one: one[0])]

    @staticmethod
    def parameters(group: Group) -> dict[str, str]:
        """What a configuration depends on, in the paper's letters."""
        entries = group.config
        known = {"M": str(entries["options"])}
        if entries["policy"] != LIMIT:
            known["N"] = f"{entries['env_params']['num_agents']:,}"
            known |= {"ε": level_text(epsilon_of(entries)), "g": GROWTH[entries["growth"]]}
        return known

    def row_label(self, group: Group, results: Results) -> str:
        every = [self.parameters(one) for one in results]
        text = ", ".join(
            f"{name} = {value}"
            for name, value in self.parameters(group).items()
            if name in self.shown and len({one[name] for one in every if name in one}) > 1
        )
        kind = {AGENTS: "agents", LIMIT: "no noise and N = ∞ (equation 34)", SHARES: SHARES}
        return ": ".join(filter(None, [kind[group.config["policy"]], text]))

    def plots(self, results: Results) -> list[Plot]:
        found = []
        for policy, caption in (
            (AGENTS, "The algorithm as written, agent by agent."),
            (SHARES, "The second way: shares and the noise of their estimates alone, on the same signals."),
        ):
            shown = Results([*results.select(policy=LIMIT), *results.select(policy=policy)])
            if not len(shown.select(policy=policy)):
                continue
            plot = plot_curves(self, shown, "regret", x_label="rounds", y_label="regret so far")
            dotted = draw_bound(plot, self.bound)
            name = f"{self.name}_{'agents' if policy == AGENTS else 'shares'}"
            found.append(Plot(name, plot.figure, f"{caption} {plot.caption}{dotted}"))
        return found

    def tables(self, results: Results) -> list[Table]:
        return [*self.reasons(results), *standard_tables(self, results)]

    def reasons(self, results: Results) -> list[Table]:
        """Tables of what explains the curves."""
        return []

    # What verdicts are made of.

    def find(self, results: Results, policy: str, setting: Setting) -> Group | None:
        """The group of one setting, if it was run."""
        wanted = society(*setting)
        entries = {name: wanted[name] for name in ("privacy", "options", "growth")}
        return next(iter(results.select(policy=policy, env_params={"num_agents": setting.n}, **entries)), None)

    def at_end(self, results: Results, policy: str, setting: Setting) -> Floats:
        """The regret of each seed at the end; NaN if it was not run."""
        group = self.find(results, policy, setting)
        return np.full(1, math.nan) if group is None else group.metrics["regret"]

    def bounded(self, results: Results, claim: str, above: bool, setting: Setting) -> list[Verdict]:
        """Whether the regret is bounded by 6 delta, or above it where the paper says `above`."""
        n, m, epsilon, growth = setting
        values = self.at_end(results, AGENTS, setting)
        if np.isnan(values).any():
            return []
        mean, low, high = statistics.mean(values)
        second = self.at_end(results, SHARES, setting).mean()
        holds = mean <= BOUND
        verdict = (HOLLOW if not holds else DIFFERS) if above else (AGREES if holds else DIFFERS)
        reason = f"{second_way(second)}; who never learns has {uniform_regret(m):.3f}"
        if epsilon is not None:
            lifted, _ = lift(qualities(m), sigma(epsilon, n / 2, copies_of_paper(n, growth) / 2))
            end = "so nothing can lead" if lifted >= 1 else "and moves the leader's share about"
            reason += f". Noise lifts the options that are behind to {lifted:.2f} of all, {end}"
        else:
            reason += ". A run that loses the best option early waits for mu to bring it back: few do, with several times the regret"
        paper = f"above {BOUND:.2f}" if above else f"at most {BOUND:.2f}"
        return [Verdict(claim, paper, mean, verdict, reason, (low, high))]

    def difference(self, results: Results, policy: str, one: Setting, other: Setting) -> Floats:
        """Regret at the end of one setting less another's, paired by seed; empty where they were not run."""
        first, second = (self.find(results, policy, setting) for setting in (one, other))
        if first is None or second is None:
            return np.zeros(0)
        _, i, j = np.intersect1d(first.seeds, second.seeds, return_indices=True)
        return np.asarray(first.metrics["regret"][i] - second.metrics["regret"][j])

    def change(
        self, results: Results, claim: str, paper: str, one: Setting, other: Setting, expected: int, reason: str = ""
    ) -> list[Verdict]:
        """The difference of two settings; the paper expects this sign, or with 0 less than 0.02."""
        values = self.difference(results, AGENTS, one, other)
        if not values.size:
            return []
        mean, low, high = statistics.mean(values)
        holds = min(expected * low, expected * high) > 0 if expected else max(abs(low), abs(high)) < 0.02
        settings = (self.find(results, AGENTS, setting) for setting in (one, other))
        lost = all(group is not None and group.metrics["regret"].mean() > BOUND for group in settings)
        verdict = DIFFERS if not holds else AGREES if not lost else "in sign, not in size" if expected else HOLLOW
        verdict = verdict if len(values) > 1 else "too few seeds to say"
        other_way = self.difference(results, SHARES, one, other)
        note = second_way(other_way.mean() if other_way.size else math.nan, "+.3f")
        return [Verdict(claim, paper, f"{mean:+.3f}", verdict, ". ".join(filter(None, [note, reason])), (low, high))]


def noise_table(settings: Iterable[Setting]) -> Table:
    """What an agent's estimate is worth, in settings with noise."""
    rows = []
    for n, m, epsilon, growth in settings:
        assert epsilon is not None
        vectors, copies = n / 2, copies_of_paper(n, growth) / 2
        sd, own = sigma(epsilon, vectors, copies), sigma(epsilon, math.inf, copies)
        (lifted, expected), (fresh, best) = lift(qualities(m), sd), lift(qualities(m), own)
        common = sigma(epsilon, vectors, math.inf)
        ends = [f"{end:.2f}" if share < 1 else "none leads" for share, end in ((lifted, expected), (fresh, best))]
        known = (f"{n:,}", str(m), f"{epsilon:g}", GROWTH[growth], f"{1 / m:.3f}", f"{common:.4f}", f"{own:.4f}")
        rows.append([*known, f"{lifted:.2f}", ends[0], f"{fresh:.2f}", ends[1]])
    columns = (
        "N", "M", "ε", "g", "an even share", "noise that all have", "noise of its own", "lifted", "regret",
        "lifted, fresh noise a copy", "regret, fresh",
    )  # fmt: skip
    note = (
        "About N/2 agents hold an option, and each perturbs it once. So all estimates err together by the noise of N/2 vectors, however "
        "many copies there are; the T/2 copies that an agent gets add a noise of its own (standard deviations). Estimates below 0 are cut "
        "off. That lifts every option which is behind to 1.5 to 2.5 standard deviations, where what the cut adds in a round is what "
        "selection, at most 2%, takes away. 'Lifted' is the share of all that these options then have together: near 1 and above, none can "
        "lead. Where one can, 'regret' is what follows in the end, at the least."
    )
    return Table("What the estimate is worth", columns, rows, note, frozenset())


def theorem_table() -> Table:
    """Theorem 5.2's conditions beside the simulations."""
    rows = []
    for m in (10, 20, 30):
        asked = theorem(m, 1.0, 10_000)
        log10 = asked["log10_copies"]
        rows += [
            [f"rounds, M = {m}", f"at least {asked['rounds']:,.0f}", "10,000", "no"],
            [f"g(N) / ln N, M = {m} (equation 38)", f"at least 10^{log10:,.0f}", f"{math.log(10_000):.1f}", "no"],
            [f"the same without M^(2 ln 5 / delta²), M = {m}", f"at least {asked['c'] ** 2:.1e}", f"{math.log(10_000):.1f}", "no"],
            [f"delta'' of Lemma 5.2, M = {m}, N = 10,000", "at most 0.5", number(asked["deviation"]), "no"],
        ]  # fmt: skip
    rows.append(["6 mu / delta²", "at most 1", f"{theorem(20, 1.0, 10_000)['exploration']:.4f}", "no, by a hair"])
    rows.append(["N > 8 h / sqrt(5) + sqrt(2)", f"above {8 * H / math.sqrt(5) + math.sqrt(2):,.0f}", "3,000", "yes"])
    note = (
        "epsilon = 1, g = ln² N, the paper's parameters. No number of agents that can be written out meets the second condition: with "
        "g = sqrt(N) and M = 20 it takes some 10^21,000."
    )
    return Table(
        "What Theorem 5.2 asks for", ("condition", "asked for", "in section 6", "met"), rows, note, frozenset({0, 3})
    )


def power_of_ten(log10: float) -> str:
    return "more than was tried" if math.isinf(log10) else f"10^{log10:.1f}"


def needed_table() -> Table:
    """How many agents the algorithm as written needs."""
    rows = [
        [str(m), f"{epsilon:g}", *(power_of_ten(agents_needed(m, epsilon, growth)) for growth in ("root", "log_squared"))]
        for m, epsilon in ((20, 0.5), (20, 1.0), (20, 1.5), (20, 2.0), (10, 1.0), (30, 1.0))
    ]  # fmt: skip
    note = (
        f"The least N whose mean dynamics has regret {BOUND:.2f} after 10,000 rounds with T = h g(N). A lower bound: noise that all have "
        "in common also moves the shares about, which the mean leaves out; the study of the variants has both. With g = ln² N what binds "
        "are the copies that one agent gets: each agent cuts its own estimate off at 0, and what that adds does not average out."
    )
    return Table(
        "How many agents would do, at the least", ("M", "ε", "N, g = √N", "N, g = ln² N"), rows, note, frozenset()
    )


@register
class AgentsStudy(_Regret):
    name = "tao-2"
    title = "Tao et al. 2023, Figure 2: how many agents"
    description = (
        "PrivateSocialLearning with epsilon = 1 a message, 10,000 rounds. The text says M = 10 and the caption M = 20: both are here. "
        "The paper repeats 30 times; here 20 seeds. Copies end at uniformly random agents, as Theorem 5.1 says of its walks."
    )
    figures = ("003/2",)
    facets = ("options", "growth")
    shown = ("N",)

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        return [society(n, m, growth=g, rounds=rounds) for m in (10, 20) for g in GROWTH for n in sizes]

    def reasons(self, results: Results) -> list[Table]:
        settings = [Setting(n, m, growth=g) for m in (10, 20) for g in GROWTH for n in SIZES]
        return [noise_table(settings), needed_table(), theorem_table()]

    def verdicts(self, results: Results) -> list[Verdict]:
        found = []
        for m in (10, 20):
            found += self.bounded(
                results, f"Figure 2a: above 6 delta with few agents (N = 3,000, M = {m})", True, Setting(3000, m)
            )
            for n in (6000, 10_000):
                for growth, figure in (("log_squared", "2a"), ("root", "2b")):
                    claim = f"Figure {figure}: bounded by 6 delta once N is large (N = {n:,}, M = {m})"
                    found += self.bounded(results, claim, False, Setting(n, m, growth=growth))
        for m in (10, 20):
            found += self.change(
                results,
                f"Figure 2: smaller regret with more agents (N = 10,000 less N = 3,000, M = {m})",
                "smaller",
                Setting(10_000, m),
                Setting(3000, m),
                -1,
                "more agents do help, by far too little",
            )
        exponents = [power_of_ten(agents_needed(20, 1.0, g)) for g in ("root", "log_squared")]
        found += self.change(
            results,
            "Figure 2: ln² N and sqrt(N) give much the same (ln² N less sqrt N, N = 10,000, M = 20)",
            "very similar",
            Setting(10_000),
            Setting(10_000, growth="root"),
            0,
            f"alike only since neither learns: with g = sqrt(N) it takes at least {exponents[0]} agents to get below 6 delta, with "
            f"g = ln² N {exponents[1]}",
        )
        found.append(
            Verdict(
                "How many agents are enough (M = 20, epsilon = 1, g = sqrt N)", "6,000", exponents[0], DIFFERS,
                "at the least, from the mean dynamics; the study of the variants has shares and noise with up to 10^8 agents",
            )
        )  # fmt: skip
        asked = theorem(20, 1.0, 10_000)
        found.append(
            Verdict(
                "Theorem 5.2 explains the simulations (M = 20: rounds asked for)", "10,000 are run", f"{asked['rounds']:,.0f}", DIFFERS,
                f"and g(N) / ln N of at least 10^{asked['log10_copies']:,.0f}, where N = 10,000 has 9.2",
            )
        )  # fmt: skip
        return found


@register
class OptionsStudy(_Regret):
    name = "tao-3"
    title = "Tao et al. 2023, Figure 3: how many options"
    description = "epsilon = 1 a message, g(N) = ln² N, 10,000 rounds."
    figures = ("003/3",)
    facets = ("env_params.num_agents",)
    shown = ("M",)

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        return [society(n, m, rounds=rounds) for n in sizes for m in (10, 20, 30)]

    def reasons(self, results: Results) -> list[Table]:
        return [noise_table([Setting(n, m) for n in SIZES for m in (10, 20, 30)])]

    def verdicts(self, results: Results) -> list[Verdict]:
        found = []
        for n, m in ((3000, 20), (3000, 30), (6000, 30)):
            found += self.bounded(results, f"Figure 3: above 6 delta (N = {n:,}, M = {m})", True, Setting(n, m))
        for m in (10, 20, 30):
            found += self.bounded(
                results, f"Figure 3: bounded by 6 delta (N = 10,000, M = {m})", False, Setting(10_000, m)
            )
        started = uniform_regret(30) - uniform_regret(10)
        for n in SIZES:
            found += self.change(
                results,
                f"Figure 3: larger regret with more options (M = 30 less M = 10, N = {n:,})",
                "larger",
                Setting(n, 30),
                Setting(n, 10),
                1,
                f"who never learns: {started:+.3f}, since the best of 30 draws is better than that of 10",
            )
        return found


@register
class PrivacyStudy(_Regret):
    name = "tao-4"
    title = "Tao et al. 2023, Figure 4: how much privacy a message"
    description = (
        "M = 20, g(N) = ln² N, 10,000 rounds. epsilon is of one message; what the agent who spent most has spent after all rounds is in "
        "the tables (zCDP, at delta = 1e-5)."
    )
    figures = ("003/4",)
    facets = ("env_params.num_agents",)
    shown = ("ε",)

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        return [society(n, epsilon=e, rounds=rounds) for n in sizes for e in LEVELS]

    def reasons(self, results: Results) -> list[Table]:
        return [noise_table([Setting(n, epsilon=e) for n in SIZES for e in LEVELS if e is not None])]

    def verdicts(self, results: Results) -> list[Verdict]:
        found = []
        for few in (0.5, 1.0, 1.5):
            claim = f"Figure 4: above 6 delta (N = 3,000, epsilon = {few:g})"
            found += self.bounded(results, claim, True, Setting(3000, epsilon=few))
        for e in LEVELS:
            claim = f"Figure 4: bounded by 6 delta (N = 10,000, epsilon = {level_text(e)})"
            found += self.bounded(results, claim, False, Setting(10_000, epsilon=e))
        for n in SIZES:
            found += self.change(
                results,
                f"Figure 4: larger regret with less epsilon (0.5 less 2, N = {n:,})",
                "larger",
                Setting(n, epsilon=0.5),
                Setting(n, epsilon=2.0),
                1,
            )
        for e in (1.0, 1.5, 2.0):
            claim = f"Figure 4: with N = 10,000, epsilon = {e:g} is close to no noise (difference of regrets)"
            noisy, plain = Setting(10_000, epsilon=e), Setting(10_000, epsilon=None)
            found += self.change(results, claim, "very close", noisy, plain, 0)
        group = self.find(results, AGENTS, Setting(10_000))
        if group is not None:
            found.append(
                Verdict(
                    "Theorem 5.3: epsilon-LDP for each agent (epsilon = 1, N = 10,000)", "1 in each round",
                    f"1 in each, {group.metrics['epsilon'].mean():,.0f} in all {group.config['env_params']['horizon']:,}",
                    "true of a round, not of a run",
                    f"an agent sends about {group.metrics['messages'].mean() / 10_000:,.0f} messages, zCDP at delta = 1e-5; who holds "
                    "nothing is silent, and that is seen by all",
                )
            )  # fmt: skip
        return found


READINGS: tuple[tuple[str, Config], ...] = (
    ("as written", {}),
    ("one estimate for all agents", {"estimate": "shared"}),
    ("fresh noise a copy", {"noise": "per_token"}),
    ("fresh noise a copy, one estimate for all", {"noise": "per_token", "estimate": "shared"}),
    ("10 rounds counted together", {"pool": 10}),
    ("100 rounds counted together", {"pool": 100}),
)


@register
class VariantsStudy(_Regret):
    name = "tao-variants"
    title = "Tao et al. 2023: which reading gives Figures 2 to 4"
    description = (
        "Other readings of stages 1 to 3, by shares and noise; two of them also agent by agent, over fewer rounds, to check that. As "
        "written, all copies of an agent carry the same noise, and each agent has its own estimate. Fresh noise a copy multiplies the "
        "messages to be paid for by T; one estimate for all, of all copies, is no longer distributed."
    )
    figures = ("003/variants",)
    facets = ("env_params.horizon",)

    def settings(self, quick: bool) -> list[Config]:
        n, rounds = (3000, 300) if quick else (10_000, 2000)
        fresh, pooled = society(n, rounds=rounds), society(n, rounds=rounds)
        fresh["env_params"]["perturbation"] = "per_token"
        pooled["policy_params"]["pool"] = 10
        return [fresh, pooled]

    def shares(self, quick: bool) -> list[Config]:
        rounds = 2000 if quick else 10_000
        n, few = (3000, 300) if quick else (10_000, 2000)
        checks = [reading(society(n, rounds=few), own) for own in ({"noise": "per_token"}, {"pool": 10})]
        grid = [
            reading(society(**one, rounds=rounds), own)
            for _, own in READINGS
            for one in (self.claims() if "pool" not in own else ({},))
        ]
        large = [reading(society(10**power, growth=g, rounds=rounds), {}) for g in GROWTH for power in (5, 6, 7, 8)]
        return [*checks, *grid, *large]

    @staticmethod
    def claims() -> tuple[Config, ...]:
        """The settings that the paper's claims compare."""
        sizes = [{"num_agents": n} for n in SIZES]
        return (*sizes, *({"epsilon": e} for e in (0.5, 2.0, None)), *({"options": m} for m in (10, 30)))

    def row_label(self, group: Group, results: Results) -> str:
        label, own = super().row_label(group, results), group.config["policy_params"]
        if group.config["policy"] == AGENTS:
            own = {"pool": 10} if own.get("pool") else {"noise": "per_token"}
        if group.config["policy"] == LIMIT:
            return label
        name = next(name for name, entries in READINGS if entries == without_rates(own))
        return name if label == SHARES else f"{label}; {name}"

    def plots(self, results: Results) -> list[Plot]:
        """The readings at N = 10,000, M = 20, epsilon = 1."""
        longest = max((g.config["env_params"]["horizon"] for g in results), default=0)
        shown = results.select(policy=LIMIT, options=20, env_params={"horizon": longest}).groups
        shown += tuple(group for _, own in READINGS if (group := self.read(results, own)) is not None)
        if not shown:
            return []
        plot = plot_curves(self, Results(shown), "regret", x_label="rounds", y_label="regret so far")
        dotted = draw_bound(plot, self.bound)
        caption = f"N = 10,000, M = 20, epsilon = 1, g = ln² N, by shares and noise. {plot.caption}{dotted}"
        return [Plot(f"{self.name}_readings", plot.figure, caption)]

    def read(
        self, results: Results, own: Config, num_agents: int = 10_000, options: int = 20, epsilon: float | None = 1.0
    ) -> Group | None:
        """One reading in one setting, of the longest runs."""
        wanted = society(num_agents, options, epsilon)
        found = [
            g
            for g in results.select(policy=SHARES, options=options, privacy=wanted["privacy"], growth="log_squared")
            if g.config["env_params"]["num_agents"] == num_agents and without_rates(g.config["policy_params"]) == own
        ]
        return max(found, key=lambda g: g.config["env_params"]["horizon"], default=None)

    def reasons(self, results: Results) -> list[Table]:
        rows = []
        for name, own in READINGS:
            if "pool" in own:
                continue
            groups = [self.read(results, own, **one) for one in self.claims()]
            rows.append([name, *("—" if g is None else f"{g.metrics['regret'].mean():.3f}" for g in groups)])
        columns = ("reading", "N = 3,000", "6,000", "10,000", "ε = 0.5", "2", "∞", "M = 10", "30")
        note = (
            f"Regret at the end, by shares and noise; N = 10,000, M = 20, epsilon = 1 where nothing else is said. The paper: above "
            f"{BOUND:.2f} at N = 3,000, at most {BOUND:.2f} in all other columns, falling with N and epsilon, rising with M."
        )
        return [Table("Which reading gives the paper's curves", columns, rows, note)]

    def verdicts(self, results: Results) -> list[Verdict]:
        return [*self.of_readings(results), *self.of_sizes(results), *self.of_agents(results)]

    def of_readings(self, results: Results) -> list[Verdict]:
        """Which of the paper's statements hold under each reading."""
        found = []
        for name, own in READINGS:
            groups = [self.read(results, own, **one) for one in self.claims()]
            if groups[2] is None:
                continue
            mean, low, high = statistics.mean(groups[2].metrics["regret"])
            ends = [g.metrics["regret"].mean() for g in groups if g is not None]
            reason = ""
            if len(ends) == len(groups):
                few, more, most, strict, loose, plain, narrow, wide = ends
                said = {
                    "above 6 delta at N = 3,000": few > BOUND,
                    "at most that at N = 6,000": more <= BOUND,
                    "for every epsilon": max(strict, loose) <= BOUND,
                    "for every M": max(narrow, wide) <= BOUND,
                    "falls with N": few > more > most,
                    "falls with epsilon": strict > most > loose > plain,
                    "rises with M": narrow < most < wide,
                    "epsilon = 1 within 0.02 of none": most - plain < 0.02,
                }
                reason = "; ".join(f"{claim}: {'yes' if holds else 'no'}" for claim, holds in said.items())
            found.append(
                Verdict(
                    f"At most 6 delta (N = 10,000, M = 20, epsilon = 1): {name}", f"at most {BOUND:.2f}", mean,
                    AGREES if mean <= BOUND else DIFFERS, reason, (low, high),
                )
            )  # fmt: skip
        return found

    def of_sizes(self, results: Results) -> list[Verdict]:
        """How many agents the algorithm as written takes."""
        found = []
        for growth, name in GROWTH.items():
            large = [
                (g.config["env_params"]["num_agents"], g.metrics["regret"].mean())
                for g in results.select(policy=SHARES, growth=growth)
                if g.config["env_params"]["num_agents"] >= 10**5
            ]
            if not large:
                continue
            enough = next((n for n, mean in large if mean <= BOUND), None)
            listed = "; ".join(f"10^{math.log10(n):.0f}: {mean:.3f}" for n, mean in large)
            least = power_of_ten(agents_needed(20, 1.0, growth))
            found.append(
                Verdict(
                    f"As written, which N is enough (M = 20, epsilon = 1, g = {name})", "6,000",
                    "more than 10^8" if enough is None else f"10^{math.log10(enough):.0f}", DIFFERS,
                    f"by shares and noise, {listed}. The mean dynamics asks for {least} at the least",
                )
            )  # fmt: skip
        return found

    def of_agents(self, results: Results) -> list[Verdict]:
        """Shares and noise against agents, where both were run: no further apart than 0.01 and three standard errors."""
        found = []
        for group in results.select(policy=AGENTS):
            own = {"pool": 10} if "pool" in group.config["policy_params"] else {"noise": "per_token"}
            params = group.config["env_params"]
            same = {"num_agents": params["num_agents"], "horizon": params["horizon"]}
            others = results.select(policy=SHARES, env_params=same, options=20, privacy=group.config["privacy"])
            second = next((g for g in others if without_rates(g.config["policy_params"]) == own), None)
            if second is None:
                continue
            _, i, j = np.intersect1d(group.seeds, second.seeds, return_indices=True)
            apart = group.metrics["regret"][i] - second.metrics["regret"][j]
            near = abs(apart.mean()) <= 0.01 + 3 * apart.std() / math.sqrt(max(len(apart) - 1, 1))
            mean, low, high = statistics.mean(group.metrics["regret"])
            name = next(name for name, entries in READINGS if entries == own)
            found.append(
                Verdict(
                    f"A check of ours, {params['num_agents']:,} agents, {params['horizon']:,} rounds: {name}",
                    f"{SHARES}: {second.metrics['regret'].mean():.3f}", mean, AGREES if near else DIFFERS,
                    f"who spent most has spent epsilon = {group.metrics['epsilon'].mean():,.0f} (zCDP, delta = 1e-5)", (low, high),
                )
            )  # fmt: skip
        return found


def reading(one: Config, own: Config) -> Config:
    """A setting computed by shares and noise under another reading."""
    return {**one, "policy": SHARES, "policy_params": {**one["policy_params"], **own}}


def without_rates(own: Config) -> Config:
    return {name: value for name, value in own.items() if name not in ("beta", "mu")}


@register
class FastStudy(_Regret):
    name = "tao-fast"
    title = "Tao et al. 2023: a setting where the algorithm learns"
    description = (
        "beta = 0.65, mu = 0.05, N = 2,000, M = 5, 400 copies, 500 rounds: selection of delta = 0.62 a round is stronger than what noise "
        "adds. Theorem 5.2's bound of 6 delta is above 1 there."
    )
    figures = ("003/fast",)
    shown = ("ε",)
    bound = None

    def grid(self, sizes: Sequence[int], rounds: int) -> list[Config]:
        """The same in quick runs: it is fast."""
        found = []
        for epsilon in (1.0, 2.0, None):
            one = society(2000, 5, epsilon, rounds=500)
            one["env_params"]["copies"] = 400
            found.append({**one, "policy_params": {"beta": 0.65, "mu": 0.05}})
        return found

    def verdicts(self, results: Results) -> list[Verdict]:
        found = []
        for epsilon in (1.0, 2.0, None):
            setting = Setting(2000, 5, epsilon)
            values = self.at_end(results, AGENTS, setting)
            if np.isnan(values).any():
                continue
            mean, low, high = statistics.mean(values)
            second = self.at_end(results, SHARES, setting).mean()
            limit = next((g.metrics["regret"].mean() for g in results.select(policy=LIMIT)), math.nan)
            lifted, _ = lift(qualities(5), sigma(epsilon, 1000, 200), math.log(0.65 / 0.35))
            found.append(
                Verdict(
                    f"Regret at epsilon = {level_text(epsilon)}; who never learns has {uniform_regret(5):.3f}",
                    "not reported", mean, "learns" if mean < uniform_regret(5) - 0.05 else "does not learn",
                    f"{SHARES}: {second:.3f}; equation 34: {limit:.3f}. Noise lifts the options that are behind to {lifted:.2f} of all",
                    (low, high),
                )
            )  # fmt: skip
        return found
