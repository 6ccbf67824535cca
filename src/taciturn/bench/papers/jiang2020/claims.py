"""The claims of Jiang 2020."""

import math
from collections.abc import Callable, Iterator

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.papers.claims import (
    Claim,
    NotRunError,
    Numbers,
    about,
    above,
    at_least,
    at_most,
    group_of,
    mean,
    number_of,
)
from taciturn.bench.papers.jiang2020 import crowd, model
from taciturn.bench.papers.jiang2020.crowd import BEST, GOOD, PAYMENT_CUT, PAYMENTS, SCORE_GAIN, WORKERS
from taciturn.bench.papers.jiang2020.model import PAPER_RULE, Exact, slowest_pareto_round, solve
from taciturn.bench.papers.jiang2020.settings import CLIENTS, COSTS, THETAS, crowd_of, learning, timing
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.envs import elicitation_v0

# Chapter 2.


def printed_bound(results: Results) -> float:
    """The payment that the proof and (2.20) lead to, over Theorem 1's as printed, g' A (target 1, four values, g =
    eps^2)."""
    return elicitation_v0.payment_lower_bound(THETAS["four values"], 1.0, COSTS["quadratic"]) / (2 * 0.6 / (5 * 1.4))


def largest(results: Results, theta: str, cost: str) -> Group:
    """The results with most individuals."""
    groups = list(results.select(theta=theta, cost=cost))
    if not groups:
        raise NotRunError(theta, cost)
    return max(groups, key=lambda group: group.config["num_individuals"])


def by_size(results: Results, theta: str, cost: str, metric: str) -> str:
    """An exact metric against the number of individuals."""
    groups = results.select(theta=theta, cost=cost)
    return ", ".join(f"{g.metrics[metric][0]:.4g} (N = {g.config['num_individuals']:,})" for g in groups)


def theorem_2(theta: str, cost: str) -> Iterator[Claim]:
    """Theorem 2 for one cost that it covers."""
    where = f"{theta}, {cost} cost, the largest N"

    def ratio(results: Results) -> Numbers:
        last = largest(results, theta, cost)
        return [float(last.metrics["expected_ratio"][0]), mean(last.metrics["payment_ratio"])]

    yield Claim(
        f"Theorem 2: WINTALL pays the bound of Theorem 1, corrected (payment over bound, {where})",
        1.0,
        ratio,
        about(1, 0.01, kind=(0.9, 1.1)),
        1.0,
        2.0,
        lambda r: f"exact: {by_size(r, theta, cost, 'expected_ratio')}: in the limit only",
        ("exact", "simulated"),
    )

    def zero(results: Results) -> str:
        most = max(float(group.metrics["gain_at_zero"].max()) for group in results.select(theta=theta, cost=cost))
        log = by_size(results, theta, "logarithmic", "gain_at_target")
        return (
            f"exact: {by_size(results, theta, cost, 'gain_at_target')}. It is not the only equilibrium: if everyone is "
            "at eps = 0, no deviation gains more than "
            f"{most:.0e} of the bound. A logarithmic cost, which the theorem does not cover, has {log}"
        )

    yield Claim(
        f"Theorem 2: the target is a Nash equilibrium (gain of the best deviation over the bound, {where})",
        "0",
        lambda r: float(largest(r, theta, cost).metrics["gain_at_target"][0]),
        at_most(1e-3, kind=(-math.inf, 0.01)),
        0.0,
        0.1,
        zero,
    )


THEOREMS = (
    Claim(
        "Theorem 1 as printed, g' A, is the payment that suffices (that of the proof over the printed one)",
        1.0,
        printed_bound,
        about(1, 0.01),
        1.0,
        2.0,
        "a misprint: the proof, (2.19) and WINTALL's own payment have g' / A",
    ),
    *(one for theta in THETAS for cost in COSTS if cost != "logarithmic" for one in theorem_2(theta, cost)),
)

NOT_WORKERS = "a model of effort fitted to three of the paper's counts, not a replication: no simulation has workers"


def cut(name: str, winners: float) -> float:
    """Payment below Flat, in percent, if so many of the workers win the bonus."""
    base, bonus = PAYMENTS[name]
    return 100 * (1 - (base + bonus * winners / WORKERS) / 30)


def predicted(name: str) -> Floats:
    """The model's distribution of scores."""
    return crowd.scores(*crowd.fitted(), PAYMENTS[name][1])


def by_task(results: Results, name: str, other: str, value: str) -> tuple[Estimate, Estimate]:
    """Tasks of 9 whose mean score (or payment) is higher under one rule, and the mean over tasks of by how much in
    percent; over draws."""
    one, two = (group_of(results, crowd_of(payment)) for payment in (name, other))
    pairs = zip(*one.shared_seeds(two), strict=True)
    drawn = [(one.curves[value][i][1], two.curves[value][j][1]) for i, j in pairs]
    return mean([(a > b).sum() for a, b in drawn]), mean([100 * (a / b - 1).mean() for a, b in drawn])


def tasks(name: str, other: str, higher: int, gain: float) -> Claim:
    """Figure 2.1, by task."""
    return Claim(
        f"Figure 2.1: mean scores by task, {name} above {other}",
        f"{higher} of 9 tasks, {gain}% on average",
        lambda r: by_task(r, name, other, "score"),
        (about(higher, 0.2, kind=(4.6, 9)), about(gain, 0.3, kind=(1e-9, math.inf))),
        (float(higher), gain),
        (4.5, 0.0),
        NOT_WORKERS,
        ("tasks", "percent"),
    )


def mean_score(name: str) -> float:
    """The model's mean score."""
    return float(predicted(name) @ np.arange(6))


def bonus_claims(name: str) -> tuple[Claim, ...]:
    """What is claimed of each rule with a bonus."""
    best, pay, gain = BEST[name], PAYMENT_CUT[name], SCORE_GAIN[name]
    return (
        Claim(
            f"Figure 2.2: {name} pays less than Flat, by task",
            "9 of 9 tasks",
            lambda r: by_task(r, "Flat", name, "payment")[0],
            at_least(8.5, kind=(4.6, 9)),
            9.0,
            4.5,
            NOT_WORKERS,
        ),
        Claim(
            f"Figure 2.3: best answers, {name}",
            best,
            lambda r: WORKERS * float(predicted(name)[5]),
            about(best, 0.2, kind=(BEST["Flat"] + 1, WORKERS)),
            best,
            BEST["Flat"],
            NOT_WORKERS,
        ),
        Claim(
            f"Figure 2.4: mean score over Flat, {name} (%)",
            gain,
            lambda r: 100 * (mean_score(name) / mean_score("Flat") - 1),
            about(gain, 0.2, kind=(1e-9, math.inf)),
            gain,
            0.0,
            f"{NOT_WORKERS}. In the model twice the bonus buys about twice the effort, in the experiment less",
        ),
        Claim(
            f"Figure 2.4: payment below Flat, {name} (%), from the paper's own counts",
            pay,
            lambda r: cut(name, best),
            about(pay, 0.01),
            pay,
            0.0,
            f"if the bonus was paid for score 5 only, and the base to all: {best} of {WORKERS}. Paid for all 'good' "
            "answers, scores 4 and 5, it would be "
            f"{cut(name, GOOD[name]):.1f}%",
        ),
        Claim(
            f"Figure 2.4: payment below Flat, {name} (%), in the model",
            pay,
            lambda r: cut(name, WORKERS * float(predicted(name)[5])),
            about(pay, 0.1, kind=(0.1, 100)),
            pay,
            0.0,
            NOT_WORKERS,
        ),
    )


CROWD = (
    tasks("WINTALL-20", "Flat", 7, 25.4),
    tasks("WINTALL-40", "Flat", 9, 47.3),
    tasks("WINTALL-40", "WINTALL-20", 7, 17.7),
    Claim(
        "Figure 2.2: WINTALL-40 pays more than WINTALL-20, by task",
        "8 of 9 tasks",
        lambda r: by_task(r, "WINTALL-40", "WINTALL-20", "payment")[0],
        about(8, 0.13, kind=(4.6, 9)),
        8.0,
        4.5,
        NOT_WORKERS,
    ),
    Claim(
        "Figure 2.3: good answers, WINTALL-40",
        GOOD["WINTALL-40"],
        lambda r: WORKERS * float(predicted("WINTALL-40")[4:].sum()),
        about(GOOD["WINTALL-40"], 0.2, kind=(GOOD["WINTALL-20"], WORKERS)),
        GOOD["WINTALL-40"],
        GOOD["Flat"],
        NOT_WORKERS,
    ),
    *bonus_claims("WINTALL-20"),
    *bonus_claims("WINTALL-40"),
)

# Chapter 3.

OTHER_DATA = "softmax regression on digits; the paper trains a CNN on MNIST and does not give its training settings"


def fit_note(results: Results, setting: Config) -> str:
    """What fits better than the paper's form."""
    group = group_of(results, setting)
    shifted = group.mean("r_squared_shifted")
    if group.mean("r_squared") > 0.9:
        return (
            f"c - a/k fits better (R² = {shifted:.3f}): averaging k of M updates leaves a variance proportional to 1/k"
        )
    return (
        "a single client's update does harm, R(1) < 0, which no such curve with a small a produces; c - a/k: R² = "
        f"{shifted:.3f}"
    )


def reward_curve(name: str, setting: Config) -> tuple[Claim, ...]:
    """Figure 3.2."""
    return (
        Claim(
            f"Figure 3.2: R(k) = c - a/(k+1) fits (R², {name})",
            "fits well",
            lambda r: number_of(r, setting, "r_squared"),
            at_least(0.9),
            1.0,
            0.0,
            lambda r: fit_note(r, setting),
        ),
        Claim(
            f"Figure 3.2: c and a, {name}",
            "0.04 and 0.018",
            lambda r: [number_of(r, setting, "c"), number_of(r, setting, "a")],
            (about(0.04, 0.1), about(0.018, 0.1)),
            (0.04, 0.018),
            0.0,
            OTHER_DATA,
            ("c", "a"),
        ),
    )


REWARD_CURVE = tuple(claim for name, setting in CLIENTS.items() for claim in reward_curve(name, setting))


def exactly(
    statement: str,
    stated: float,
    value: Callable[[Exact], float],
    why: Callable[[Exact], str],
    tolerance: float = 0.002,
) -> Claim:
    """A claim about an exact number of the stated model; its null is half of the paper's number."""
    return Claim(
        statement,
        stated,
        lambda r: value(solve()),
        about(stated, tolerance),
        stated,
        stated / 2,
        lambda r: why(solve()),
    )


def round_time(
    law: str, label: str, paper: float, policy: str, own: Config, why: str = "", exact: bool = False
) -> Claim:
    """A claim about a mean round time, within 3%; null: nobody waits, a round of t0 = 3 s."""

    def measured(results: Results) -> Numbers:
        simulated = number_of(results, timing(law, policy, own), "mean_duration")
        return [solve().durations[label], simulated] if exact else simulated

    where = "3.4.1" if law == "geometric" else "3.4.2"
    return Claim(
        f"Section {where}: mean round time, {label} (s)",
        paper,
        measured,
        about(paper, 0.03),
        paper,
        3.0,
        why,
        ("exact", "simulated") if exact else ("",),
    )


def paired_losses(one: Group, other: Group) -> list[Floats]:
    """The losses of two groups over time, [paired seeds, time] each."""
    positions = one.shared_seeds(other)
    return [np.array([g.curves["test_loss"][i][1] for i in p]) for g, p in zip((one, other), positions, strict=True)]


def reduction(figure: str, law: str, label: str, least: float, policy: str, own: Config, why: str) -> Claim:
    """(loss of another rule - loss of the paper's rule) / loss of the paper's rule: at the end, and where it is
    smallest from a " "quarter on."""

    def measured(results: Results) -> Numbers:
        ours = group_of(results, learning(law, "OptimalStopping", {"thresholds": list(PAPER_RULE)}))
        a, b = paired_losses(ours, group_of(results, learning(law, policy, own)))
        later = ((b - a) / a)[:, a.shape[1] // 4 :]
        return [mean(later[:, -1]), mean(later[:, later.mean(0).argmin()])]

    return Claim(
        f"Figure {figure}: loss of {label} above that of the rule (10, 8), relative to it",
        f"at least {least:g} throughout",
        measured,
        at_least(least, kind=(1e-9, math.inf)),
        least,
        0.0,
        why,
        ("at the end", "smallest from a quarter on"),
    )


def over_k_10(text: str, own: Config) -> Claim:
    """Section 3.4.2: a rule earns more per second than k=10."""

    def measured(results: Results) -> Numbers:
        one, base = (
            group_of(results, timing("pareto", p, o)) for p, o in (("OptimalStopping", own), ("FixedCount", {"k": 10}))
        )
        reward, other = one.paired(base, "reward")
        seconds, others = one.paired(base, "mean_duration")
        return statistics.ratio(reward / seconds, other / others)

    return Claim(
        f"Section 3.4.2: {text} earns more per second than k=10 under Pareto times (ratio)",
        "above 1",
        measured,
        above(1.002),
        1.045,
        1.0,
        "with heavy tails ten updates arrive almost together, so that there is little to decide; thresholds solved for "
        "memoryless times stop too early if the remaining wait shrinks as time passes",
    )


def bounds_hold(results: Results) -> Numbers:
    """Corollaries 1 and 2: the lower bound over the optimal rate, and the optimal rate over the upper one."""
    exact = solve()
    return [exact.bounds[0] / exact.optimal_rate, exact.optimal_rate / exact.bounds[1]]


LEARNS_FASTER = (
    "the order of the rules' rewards per second; by how much that lowers the loss depends on the data and on the time"
)
K_10: Config = {"k": 10}
PAPERS: Config = {"thresholds": list(PAPER_RULE)}


def share(exact: Exact) -> str:
    """The rates of the rules beside the optimum."""
    return ", ".join(
        f"{name}: {rate:.6f} ({100 * rate / exact.optimal_rate:.1f}%)" for name, rate in exact.rates.items()
    )


GEOMETRIC = (
    exactly(
        "Section 3.4.1: lambda, lower bound",
        0.01203,
        lambda x: x.bounds[0],
        lambda x: (
            "Corollary 1 is R(1)/((1/mu + 1/p) tau + t0); 0.01203 exceeds the optimal rate itself. With R(k) = c - "
            "a/k, clients that are always ready, and the corollary's bound for k updates, max R(k)/(t0 + (k+1) tau/mu) "
            "= "
            f"{x.later_rate:.5f}: a fit, not a derivation"
        ),
    ),
    exactly(
        "Section 3.4.1: lambda, upper bound",
        0.01234,
        lambda x: x.bounds[1],
        lambda x: (
            "Corollary 2 with R(k) = c - a/k instead of the stated c - a/(k+1): max R(k)/(t0 + k tau) = "
            f"{x.ready_rate:.5f}"
        ),
    ),
    exactly(
        "Section 3.4.1: lambda*, the optimal rate",
        0.01209,
        lambda x: x.optimal_rate,
        lambda x: (
            f"with R(k) = c - a/k and a queue that never empties, max R(k)/(t0 + k tau/mu) = {x.busy_rate[0]:.5f}, at "
            "k = "
            f"{x.busy_rate[1]}; the paper's p = 1/500 leaves the channel idle for most of a round. Rates in the stated "
            f"model: {share(x)}"
        ),
    ),
    Claim(
        "Section 3.4.1: thresholds k* and k0*",
        str(PAPER_RULE),
        lambda r: [float(k) for k in solve().thresholds],
        (about(10, 0), about(8, 0)),
        (10.0, 8.0),
        100.0,
        lambda r: (
            f"p = 1 and R(k) = c - a/k give {solve().ready_thresholds}. With p = 1/500 no price of time gives k* = 10 "
            "and k0* = 8 together: waiting with an empty queue is too slow"
        ),
        ("k*", "k0*"),
    ),
    exactly(
        "Section 3.4.1: the best fixed k",
        10,
        lambda x: float(x.best_fixed[0]),
        lambda x: (
            f"rate {x.best_fixed[1]:.6f}, {100 * x.best_fixed[1] / x.optimal_rate:.1f}% of the optimum: the paper took "
            "10% from McMahan et al. (2016), who chose it for other computing and upload times"
        ),
        0.0,
    ),
    round_time("geometric", "(10, 8)", 3.45, "OptimalStopping", PAPERS, exact=True),
    round_time("geometric", "k=10", 3.55, "FixedCount", K_10, exact=True),
    round_time(
        "geometric",
        "k=100",
        28.76,
        "WaitForAll",
        {},
        "a round's standard deviation is 6.4 s, so that the mean of 100 rounds is off by as much in most runs",
        exact=True,
    ),
    reduction(
        "3.3", "geometric", "k=100", 1.7, "WaitForAll", {}, f"{LEARNS_FASTER}: both curves start at the same loss"
    ),
    reduction("3.4", "geometric", "k=10", 0.07, "FixedCount", K_10, LEARNS_FASTER),
    Claim(
        "Corollaries 1 and 2: bounds of the optimal rate",
        "at most 1",
        bounds_hold,
        at_most(1),
        1.0,
        1.1,
        "the corollaries hold for the stated model; the numbers reported for them do not follow from it",
        ("lower / optimal", "optimal / upper"),
    ),
    Claim(
        "Corollary 3: k* < sqrt(a/(c - a/2) (1 + mu/p + mu t0/tau)) (k* over the bound, largest of 36 models)",
        "below 1",
        lambda r: model.corollary_3(),
        at_most(1 - 1e-9),
        0.9,
        1.1,
        "for the optimal rate; the bound is loose and does not depend on M",
    ),
    Claim(
        "Theorem 3: pi_lambda is optimal for the rate if V_lambda = 0 (|V| at lambda* over R(M); rate of the rule "
        "there over lambda*)",
        "0 and 1",
        lambda r: model.theorem_3(),
        (at_most(1e-9), about(1, 1e-9)),
        (0.0, 1.0),
        (0.1, 0.9),
        "",
        ("V", "rate"),
    ),
    Claim(
        "Theorem 4: a threshold rule is optimal for (3.2) (its value over that of the best rule, farthest from 1 of 16 "
        "models at two prices)",
        1.0,
        lambda r: model.theorem_4(),
        about(1, 1e-9),
        1.0,
        0.9,
        "by value iteration over all states (k, beta), for concave R",
    ),
    Claim(
        "Lemma 1: V = R(k*) - lambda (n tau + t0) - (k - k*) lambda tau/mu (largest error over lambda tau/mu, M = 12)",
        0.0,
        lambda r: model.lemma_1(),
        at_most(1e-6),
        0.0,
        1.0,
        "a slip of sign: with (k* - k) the error is 0",
    ),
    Claim(
        "Lemma 2: V is decreasing and convex in lambda (largest slope, smallest second difference)",
        "below 0, at least 0",
        lambda r: model.lemma_2(),
        (at_most(-1e-9), at_least(-1e-12)),
        (-1.0, 0.0),
        (1.0, -1.0),
        "",
        ("slope", "second difference"),
    ),
)

PARETO = (
    round_time("pareto", "(10, 8)", 5.7, "OptimalStopping", PAPERS),
    round_time("pareto", "k=10", 5.71, "FixedCount", K_10),
    round_time(
        "pareto",
        "k=100",
        46.56,
        "WaitForAll",
        {},
        f"at least {slowest_pareto_round():.2f} s exactly, from the mean of the slowest of 100 clients and one upload; "
        "its variance is infinite, and the mean of 100 rounds lies between 39 and 59 s with probability 0.9",
    ),
    over_k_10("the paper's rule", PAPERS),
    over_k_10("the rule solved for geometric times", {}),
    reduction("3.5", "pareto", "k=100", 1.3, "WaitForAll", {}, LEARNS_FASTER),
    reduction(
        "3.6",
        "pareto",
        "k=10",
        0.045,
        "FixedCount",
        K_10,
        "the model gives both rules the same reward per second within 0.1%",
    ),
)
