"""The claims of Li & Song 2022 beside the computed values.

The paper's figures hold no readable numbers: what is compared are the statements of its text.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from taciturn.bench import statistics
from taciturn.bench.figures import pareto_front
from taciturn.bench.papers.base import IN_KIND
from taciturn.bench.papers.li2022 import formulas, settings
from taciturn.bench.papers.li2022.formulas import binding_agents, binding_epsilon, expected, same_ratio, waiting
from taciturn.bench.papers.li2022.settings import ARMS, HORIZON, ROUNDS, SHARES, at_epsilon, constrained, on_graph
from taciturn.bench.results import Config, Group, Results
from taciturn.bench.statistics import Estimate, Floats
from taciturn.bench.study import AGREES, DIFFERS, Verdict
from taciturn.bench.tables import interval
from taciturn.envs.federated_bandit.protocol import information_sharing, link_cost

REGRET, WAITING = "regret_per_agent", "regret_waiting"
BOTH = ("grid", "uniform")


def text(value: float) -> str:
    """Three significant digits; all digits above 100."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def listed(values: Iterable[tuple[Any, float]]) -> str:
    """`0.1: 1,307, 1: 1,157`."""
    return ", ".join(f"{f'{name:g}' if isinstance(name, float) else name}: {text(value)}" for name, value in values)


def mean(results: Results, config: Config, metric: str = REGRET) -> float:
    """Mean of a metric in one setting."""
    return results.get(config).mean(metric)


def estimate(results: Results, config: Config, metric: str = WAITING) -> Estimate:
    """The same with its interval."""
    return statistics.mean(results.get(config).metrics[metric])


def ratio(results: Results, one: Config, other: Config, metric: str = REGRET) -> tuple[float, tuple[float, float]]:
    """A metric in one setting over that in another, and its interval."""
    value, low, high = statistics.ratio(*results.get(one).paired(results.get(other), metric))
    return value, (low, high)


def by_formulas(one: Config, other: Config) -> str:
    """The regret in one setting over that in another, by the formulas."""
    return f"by the formulas {text(expected(one)['regret'] / expected(other)['regret'])}"


def decreasing(groups: list[Group], metric: str = REGRET) -> bool:
    """Whether each mean is below the previous one, and the last below the first with its interval."""
    first, last = groups[0].paired(groups[-1], metric)
    falls = all(a.mean(metric) > b.mean(metric) for a, b in itertools.pairwise(groups))
    return falls and (len(first) < 2 or statistics.difference(first, last).low > 0)


def falling(results: Results, claim: str, paper: str, chosen: Mapping[Any, Config]) -> Verdict:
    """Whether the regret falls along the settings."""
    formula = listed((name, expected(one)["regret"]) for name, one in chosen.items())
    return Verdict(
        claim, paper, listed((name, mean(results, one)) for name, one in chosen.items()),
        AGREES if decreasing([results.get(one) for one in chosen.values()]) else IN_KIND, f"by the formulas: {formula}",
    )  # fmt: skip


def privacy(results: Results) -> Iterator[Verdict]:
    """Figure 4."""
    for qualities in BOTH:
        chosen = {e: at_epsilon(e, qualities) for e in (0.1, 0.3, 0.5, 1.0)}
        claim = f"Figure 4: regret grows as epsilon shrinks (0.1, 0.3, 0.5, 1; {qualities})"
        yield falling(results, claim, "increases", chosen)
    low, one, free = (at_epsilon(e, "grid") for e in (0.1, 1.0, settings.UNBOUNDED))
    agents, reported = one["env_params"]["num_agents"], mean(results, one, "rewards_reported")
    value, bounds = ratio(results, one, free)
    yield Verdict(
        "Figure 4: epsilon = 1 is the non-private case (regret over that without privacy)", "1", value, "for the regret only",
        f"noise and C(r) still depend on epsilon: by the formulas {text(expected(one)['regret'])} and {text(expected(free)['regret'])}. "
        f"The privacy loss is finite too, but vacuous: a message is M epsilon = {text(mean(results, one, 'epsilon_message'))}-DP (Theorem "
        f"1), and so are, at event level, all messages of an agent; at user level they total {text(mean(results, one, 'epsilon_user'))} in "
        f"the ledger, or M epsilon for each of {text(reported)} rewards reported: {text(agents * reported)}",
        bounds,
    )  # fmt: skip
    yield Verdict(
        "Section IV-C1: a small epsilon determines S(r) (epsilon below which it does, 50 agents)", "a smaller epsilon",
        binding_epsilon(agents), "not for the epsilons of the figure",
        f"at epsilon = 0.1 the privacy term of S(r) dominates for at most {binding_agents(0.1)} agents. Regret differs in the figure "
        "because of the privacy term of C(r), which keeps arms longer, not because of the noise: with epsilon = 0.1 it is "
        f"{text(mean(results, low))}, and {text(mean(results, at_epsilon(0.1, 'grid', noise=False)))} with the noise left out",
    )  # fmt: skip


def participation(results: Results) -> Iterator[Verdict]:
    """Figure 5."""
    for qualities in BOTH:
        chosen = {p: constrained(p, None, qualities) for p in SHARES}
        yield falling(results, f"Figure 5: regret falls as p grows ({qualities})", "decreases", chosen)
    few, everyone = constrained(0.2, None, "grid"), constrained(1.0, None, "grid")
    value, bounds = ratio(results, few, everyone)
    cost, _ = ratio(results, everyone, few, "cost")
    yield Verdict(
        "Theorem 2: p costs at most a factor p^-1.5 of regret (p = 0.2)", f"at most {text(0.2**-1.5)}", value,
        AGREES if bounds[1] <= 0.2**-1.5 else DIFFERS,
        "the factor is about 1/p = 5, that of the sampling term of S(r): the other term, of order p^-1.5, dominates only below epsilon = "
        f"{text(binding_epsilon(10))} at N = 10. With full participation the cost is {text(cost)} times as high",
        bounds,
    )  # fmt: skip


def rounds(results: Results) -> Iterator[Verdict]:
    """Figure 6."""
    few = formulas.same_rounds()
    for qualities in BOTH:
        chosen = {r: constrained(None, r, qualities) for r in ROUNDS}
        yield falling(results, f"Figure 6: regret falls as R grows ({qualities})", "decreases", chosen)
        value, bounds = ratio(results, chosen[4], chosen[5])
        yield Verdict(
            f"Figure 6: R = 4 and R = 5 are almost the same (regret of the first over the second; {qualities})", "1", value,
            AGREES if bounds[1] < 1.05 else DIFFERS,
            f"{by_formulas(chosen[4], chosen[5])}, and {text(same_ratio(ARMS, 10_000))} on the grid with T = 10^4. They are within 5% of "
            f"each other on grids of at most {few} arms, a gap of {1 / few:.2f}; 100 uniform arms have a gap of 0.01 on average",
            bounds,
        )  # fmt: skip
    free = constrained(None, None, "grid")
    yield Verdict(
        "Section VII-A2: about log T rounds eliminate all suboptimal arms (rounds played, grid)", "log T, about 4",
        mean(results, free, "rounds"), DIFFERS,
        f"log T is about 4 for T = 10^4 and the common logarithm. The formulas give {text(expected(free)['rounds'])} rounds at T = 10^5, "
        f"and the proof of Theorem 1 at most ceil(log2(1/Delta) + 1) = {math.ceil(math.log2(ARMS) + 1)}",
    )  # fmt: skip


def constraints(results: Results) -> Iterator[Verdict]:
    """Figure 7, and Remark 2."""
    for qualities in BOTH:
        pairs = [constrained(p, r, qualities) for p in SHARES for r in (*ROUNDS, None)]
        points = [(mean(results, one, "cost"), mean(results, one)) for one in pairs]
        best = [pairs[i]["policy_params"] for i in pareto_front(points)]
        named = "; ".join(f"p = {own['participation']}, R {own.get('rounds', 'free')}" for own in best)
        free = sum("rounds" not in own for own in best)
        yield Verdict(
            f"Figure 7: a clear trade-off of cost and regret (pairs on the Pareto front; {qualities})", "clear",
            f"{len(best)} of {len(pairs)}", AGREES if len(best) > 3 else IN_KIND,
            f"{named}. {free} of them do not limit R: at the same regret, few participants in as many rounds as needed are cheaper than "
            "all agents in few rounds",
        )  # fmt: skip
    limited, unlimited = constrained(1.0, 5, "grid"), constrained(1.0, None, "grid")
    cost, cost_bounds = ratio(results, limited, unlimited, "cost")
    yield Verdict(
        "Figure 7: R = 5, p = 1 is close to the largest cost (its cost over that of unlimited rounds)", "close to 1", cost,
        AGREES if cost > 0.8 else DIFFERS, f"5 rounds of {expected(unlimited)['rounds']:.0f}", cost_bounds,
    )  # fmt: skip
    value, bounds = ratio(results, limited, unlimited)
    yield Verdict(
        "Figure 7: R = 5, p = 1 is close to Figure 4's regret with epsilon = 1 (ratio)", "close to 1", value,
        AGREES if bounds[1] < 1.1 else DIFFERS,
        f"{by_formulas(limited, unlimited)}. The first epoch, in which all arms are played, aims at Delta^(1/5) = {0.01**0.2:.2f} instead "
        f"of 1/2, which takes {0.25 / 0.01**0.4:.2f} times as many pulls", bounds,
    )  # fmt: skip
    agents = unlimited["env_params"]["num_agents"]
    logs = math.log(HORIZON) / math.log(agents)
    yield Verdict(
        "Remark 2: no worse than without communication if R >= 4 log T / (3 log pM) (p = 1)",
        f"R >= {4 * logs / 3:.2f}", f"R >= {2 * logs:.2f}", DIFFERS,
        f"T^(2/R) / p^1.5 <= M means R >= 2 log T / log(p^1.5 M). At R = 4 the left side is {HORIZON**0.5:.0f}, above M = {agents}; the "
        "last line of the proof has R >= log T / log pM, and min with T^(1/R)",
    )  # fmt: skip


def final_slope(group: Group) -> Floats:
    """Regret per agent and slot over the last fifth of the time, for each seed."""
    slopes = []
    for x, y in group.curves[REGRET]:
        i = int(0.8 * len(x)) - 1
        slopes.append((y[-1] - y[i]) / (x[-1] - x[i]))
    return np.array(slopes)


def heterogeneity(results: Results) -> Iterator[Verdict]:
    """Figure 8."""
    alike, differ = settings.few_agents("CDPMAB", "uniform"), settings.few_agents("CDPMAB", "heterogeneous")
    value, bounds = ratio(results, differ, alike)
    yield Verdict(
        "Figure 8: CDP-MAB has similar regret with heterogeneous rewards (over that with homogeneous)", "similar", value,
        AGREES if 0.67 < value < 1.5 else IN_KIND,
        f"{by_formulas(differ, alike)}. Means over agents are closer together: with "
        "smaller gaps, arms take longer to distinguish, but cost less", bounds,
    )  # fmt: skip
    for qualities in BOTH:
        together, alone = settings.few_agents("CDPMAB", qualities), settings.few_agents("SingleAgent", qualities)
        value, bounds = ratio(results, together, alone)
        yield Verdict(
            f"Figure 8: CDP-MAB reaches 1/M of the single agent's regret, homogeneous ({qualities}: ratio)", 0.2, value,
            AGREES if 0.17 < value < 0.24 else IN_KIND,
            f"{by_formulas(together, alone)}. It holds if T is long enough for a single agent to finish exploring: at T it has "
            f"{text(expected(alone)['left'])} arms left on average", bounds,
        )  # fmt: skip
    lone = settings.few_agents("SingleAgent", "heterogeneous")
    slope, low, high = statistics.mean(final_slope(results.get(lone)))
    flat = final_slope(results.get(differ)).mean()
    exact = formulas.bias_slope(lone["env_params"]["num_arms"], lone["env_params"]["num_agents"])
    yield Verdict(
        "Figure 8: single agents' regret is linear with heterogeneous rewards (per slot, last fifth of T)", "linear", slope,
        AGREES if low > 3 * flat else IN_KIND,
        f"agents that play their own best arm lose {text(exact)} per slot on average, over 4,000 drawn instances; CDP-MAB loses "
        f"{text(float(flat))} per slot at the end", (low, high),
    )  # fmt: skip


def graphs(results: Results) -> Iterator[Verdict]:
    """Figure 10, Table I, and slips in the formulas."""
    agents = on_graph("ring", "grid")["env_params"]["num_agents"]
    names = ("complete", "star", "ring", "random")
    for qualities in BOTH:
        chosen = {name: on_graph(name, qualities) for name in names}
        waited = {name: estimate(results, one) for name, one in chosen.items()}
        ring, largest = waited["ring"], max(one.value for one in waited.values())
        yield Verdict(
            f"Figure 10: complete and star have the smallest regret, the ring a larger one (regret while waiting; {qualities})",
            "smallest, larger", "; ".join(f"{name}: {text(one.value)}" for name, one in waited.items()),
            AGREES if ring.low > 0.05 * mean(results, chosen["complete"]) else IN_KIND if ring.value == largest else DIFFERS,
            "by the formulas, with agents' own choices drawn: "
            f"{listed((name, expected(one, 40)['waited']) for name, one in chosen.items())}. Everything else is the same: the ring's "
            f"{text(ring.value)} {interval(ring[1:])} is {100 * ring.value / mean(results, chosen['ring']):.2g}% of its regret, which no "
            "figure shows, since agents' own best arms are nearly optimal",
        )  # fmt: skip
    slots = waiting("ring", agents)
    bound, ring = 2 * slots * 0.99, estimate(results, on_graph("ring", "grid"))
    yield Verdict(
        "Theorem 3: waiting costs at most 2 M (d - 1)(1 - Delta) (the ring, per agent, grid)", f"at most {text(bound)}", ring.value,
        AGREES if ring.high <= bound else DIFFERS, f"{slots} slots in each of about 6 rounds", ring[1:],
    )  # fmt: skip
    for accounting, metric in (("messages", "cost"), ("Theorem 3's bound", "cost_bound")):
        costs = {name: mean(results, on_graph(name, "grid"), metric) for name in names}
        cheapest = min(costs, key=lambda name: costs[name])
        claim = f"Figure 10: the star has the smallest communication cost ({accounting})"
        yield Verdict(claim, "star", cheapest, AGREES if cheapest == "star" else DIFFERS, listed(costs.items()))
    for name, paper, value in (
        ("star", "2(M - 1) = 98", 2 * (agents - 1)),
        ("ring", "M^2/2 = 1,250", agents**2 // 2),
        ("complete", "M(M - 1)/2 = 1,225", agents * (agents - 1) // 2),
    ):
        ours = link_cost(information_sharing(settings.graph(name, agents)), 1.0, "edges")
        yield Verdict(
            f"Table I: links per round, {name}", paper, ours, AGREES if ours == value else DIFFERS,
            f"by networkx: diameter times edges, {text(formulas.diameter_times_edges(name, agents))}; in fact "
            f"{text(per_round(results, on_graph(name, 'grid'), 'cost'))} messages per round (ADV, REQ and DATA)",
        )  # fmt: skip
    yield Verdict(
        "Table I: the ring's regret above the server's", f"M(M - 1) = {agents * (agents - 1):,}", f"M(d - 1) = {agents * slots:,}",
        "a slip, of the same order", f"Theorem 3 with the ring's diameter, {slots + 1}",
    )  # fmt: skip
    of_laplacian, of_adjacency, diameter = formulas.second_eigenvalues(agents)
    yield Verdict(
        "Table I: a d-regular graph's diameter is about log M / log(1/lambda_2), of the Laplacian (d = 4)", diameter,
        f"{math.log(agents) / math.log(1 / of_laplacian):.2f}", DIFFERS,
        f"the Laplacian's is {of_laplacian:.2f}, above 1, which makes cost and regret negative. With the adjacency matrix over d it is "
        f"{of_adjacency:.3f}, and the bound {math.log(agents) / math.log(1 / of_adjacency):.1f}",
    )  # fmt: skip
    limit, delta = 5, 0.01
    yield Verdict(
        "Corollary 1: (1 - Delta)/(1 - Delta^(1/R)) + R/T <= 1 (Delta = 0.01, R = 5)", "at most 1",
        (1 - delta) / (1 - delta ** (1 / limit)) + limit / HORIZON, DIFFERS,
        "the sum of Delta^(r/R) over r = 0 ... R - 1 starts with 1 and exceeds it; written from r = 1 to R, it has R + 1 terms in the "
        "paper. It is of order 1 + R / log(1/Delta)",
    )  # fmt: skip
    yield Verdict(
        "Equation 22: S(r_k) <= 16 log(8 K r^2 T) / (M Delta_k^2) (the constant)", "16", f"{8 * 4**2}", DIFFERS,
        "Dtilde > Delta_k / 4 before r_k, so that 8 / Dtilde^2 < 8 * 16 / Delta_k^2; the second term's 32 = 8 * 4 is right, and no order "
        "changes",
    )  # fmt: skip


def per_round(results: Results, config: Config, metric: str) -> float:
    """A cost per communication round."""
    return mean(results, config, metric) / mean(results, config, "rounds")


def components(results: Results) -> Iterator[Verdict]:
    """Figure 11 and Table II."""
    one_two_three = ("case 1", "case 2", "case 2 with 53", "case 3")
    yield Verdict(
        "Table II: 100 agents are divided (case 2)", 100, sum(settings.CASES["case 2"][1]), DIFFERS,
        "63 + 24 + 10 + 6 + 7 = 110; with 53 instead of 63 it would be 100. Both are run",
    )  # fmt: skip
    for qualities in BOTH:
        first, *others = (settings.in_components(case, qualities) for case in one_two_three)
        ratios = {case: ratio(results, one, first) for case, one in zip(one_two_three[1:], others, strict=True)}
        formula = listed(
            (case, expected(settings.in_components(case, qualities), 40)["regret"]) for case in one_two_three
        )
        yield Verdict(
            f"Figure 11: cases 1, 2 and 3 have similar regret (over case 1's; {qualities})", "similar",
            "; ".join(f"{case}: {value:.3f} {interval(bounds)}" for case, (value, bounds) in ratios.items()),
            AGREES if all(0.85 < value < 1.15 for value, _ in ratios.values()) else DIFFERS,
            f"by the formulas: {formula}; case 2's regret is that of 110 agents, and structures do not differ where nobody waits",
        )  # fmt: skip
    collecting = sum(information_sharing(settings.graph("complete", 100)).counts.values())
    for way, (label, metric) in enumerate((("messages, as the proof counts", "cost"), ("edge bound", "cost_bound"))):
        costs = {case: per_round(results, settings.in_components(case, "grid"), metric) for case in settings.TABLE_2}
        searched = listed((case, formulas.round_cost(case, 50.0, 1.0)[way]) for case in one_two_three)
        grows = costs["case 1"] < costs["case 2 with 53"] < costs["case 3"]
        star, hybrids = costs["case 5"], max(costs["case 1"], costs["case 5"])
        cheaper = hybrids < min(costs["case 3"], costs["case 6"])
        yield Verdict(
            f"Figure 11: cost grows from case 1 to 2 to 3 (per round; {label})", "gradually increases",
            listed((case, costs[case]) for case in one_two_three), AGREES if grows else DIFFERS,
            f"by breadth-first search from every node: {searched}"
            + ("" if grows else ". Case 3 is the cheapest: 99 messages to one sink, and one server link instead of five"),
        )  # fmt: skip
        yield Verdict(
            f"Figure 11: of cases 1, 4 and 5 the star costs least (per round; {label})", "case 5",
            listed((case, costs[case]) for case in ("case 1", "case 4", "case 5")),
            AGREES if star < min(costs["case 1"], costs["case 4"]) else "a tie" if star == costs["case 1"] else DIFFERS,
            "" if way else "in a star, as in a complete graph, everyone is one hop from the sink",
        )  # fmt: skip
        yield Verdict(
            f"Figure 11: hybrids cost less than the server alone (case 6) or one graph (case 3) (per round; {label})",
            "significantly less", listed((case, costs[case]) for case in ("case 1", "case 5", "case 3", "case 6")),
            AGREES if cheaper else "than the server alone" if hybrids < costs["case 6"] else DIFFERS,
            "case 3, with a sink and a server link, is not the fully decentralised algorithm: sharing by GIS among 100 agents that are all "
            f"neighbours takes {text(collecting)} messages per round",
        )  # fmt: skip


def structures(results: Results) -> Iterator[Verdict]:
    """Figure 12."""
    for qualities in ("uniform", "heterogeneous"):
        chosen = {name: settings.in_structure(name, qualities) for name in settings.STRUCTURES}
        server = results.get(chosen.pop("server"))
        waited = {name: estimate(results, one) for name, one in chosen.items()}
        above = {name: statistics.difference(*results.get(one).paired(server, REGRET)) for name, one in chosen.items()}
        yield Verdict(
            f"Figure 12: CDP-MAB is best, HDP-MAB between, DDP-MAB worst (regret while waiting; {qualities})", "in this order",
            "; ".join(f"{name}: {text(e.value)} {interval(e[1:])}" for name, e in waited.items()),
            AGREES if 0 < waited["five rings"].low < waited["five rings"].high < waited["ring"].low else DIFFERS,
            "by the formulas, with agents' own choices drawn: "
            f"{listed((name, expected(one, 40)['waited']) for name, one in chosen.items())}. With a server nobody waits, and the regret "
            f"is {text(server.mean(REGRET))}; total regret exceeds that by "
            + "; ".join(f"{name}: {text(e.value)} {interval(e[1:])}" for name, e in above.items()),
        )  # fmt: skip
    alike, differ = (estimate(results, settings.in_structure("ring", q)) for q in ("uniform", "heterogeneous"))
    yield Verdict(
        "Section VII-C2: local exploitation costs more where agents differ (the ring's waiting)", "slightly affected",
        f"{text(differ.value)} against {text(alike.value)}", AGREES if differ.low > alike.high else DIFFERS,
        "an agent's own best arm is not that of the others: the loss does not shrink from round to round",
    )  # fmt: skip
