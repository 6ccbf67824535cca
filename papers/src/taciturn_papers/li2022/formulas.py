"""The paper's formulas with every estimate replaced by its expectation: a cross-check of the simulations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from taciturn.bench.results import Config
from taciturn.bench.statistics import Floats
from taciturn_papers.li2022.settings import ARMS, CASES, HORIZON, graph

DRAWS = 400


def round_cost(kind: str, sizes: Sequence[int], server: float = 50.0, agent: float = 1.0) -> tuple[float, float]:
    """The cost of a round with components of these sizes: (by the proof of Theorem 4, by the bound of Theorem 3 within
    the components).

    The first is c2 sum_q sum_i sd(i, sink) + c1 Q, with distances by breadth-first search from every node. The second
    counts every edge in every slot of the round; the number of slots is the sink's eccentricity.
    """
    import networkx as nx

    hops = edges = 0
    for seed, size in enumerate(sizes):
        component = nx.from_scipy_sparse_array(graph(kind, size, seed).matrix())
        distances = dict(nx.all_pairs_shortest_path_length(component))
        sink = min(distances, key=lambda node: max(distances[node].values()))
        hops += sum(distances[sink].values())
        edges += max(distances[sink].values()) * component.number_of_edges()
    return agent * hops + server * len(sizes), agent * edges + server * len(sizes)


@dataclass(frozen=True)
class Course:
    """Result of `course`, per agent."""

    regret: float  # at T
    rounds: int
    reported: int  # rewards in the uploads of an agent that uploaded every time
    left: int  # arms left at the end
    waited: float  # the part of `regret` incurred while waiting for communication rounds


def course(
    means: Floats,
    uploading: int,
    epsilon: float,
    *,
    rounds: int | None = None,
    gaps: Floats | None = None,
    local: Floats | None = None,
    delay: int = 0,
    horizon: int = HORIZON,
) -> Course:
    """Algorithm 1 with every estimate replaced by its expectation: the arms with Delta_k < 2 C(r) remain after epoch r.

    Only the arm that an agent plays while it waits is random: its regret is the mean over 2,000 draws.

    Args:
        means: limits of the estimates, float64[K].
        uploading: N.
        epsilon: inf for no privacy.
        rounds: R; epochs then aim at the smallest gap. None: no limit.
        gaps: regret per pull of each arm; None: the gaps of `means`.
        local: limits of the single agents' own estimates, float64[M, K]; None: `means`.
        delay: slots that agents wait in each round.
        horizon: T.
    """
    arms, apart = len(means), means.max() - means
    cost = apart if gaps is None else gaps
    smallest = apart[apart > 1e-12].min()
    rng, active = np.random.Generator(np.random.PCG64(1)), np.ones(arms, np.bool_)
    pulled, time, r, regret, reported, waited = 0, 0, 0, 0.0, 0, 0.0
    while active.sum() > 1 and (rounds is None or r < rounds):
        number_active = int(active.sum())
        target = 2.0 ** -(r + 1) if rounds is None else smallest ** ((r + 1) / rounds)
        log_active, log_all = (math.log(8 * k * (r + 1) ** 2 * horizon) for k in (number_active, arms))
        by_sampling = 8 * log_active / (uploading * target**2)
        by_privacy = 8 * (r + 1) * math.sqrt(2 * log_all) / (uploading**1.5 * epsilon * target)
        total = max(math.ceil(max(by_sampling, by_privacy)), pulled + 1)
        slots = number_active * (total - pulled)
        if time + slots + delay > horizon:
            regret += (horizon - time) * float(cost[active].mean())
            return Course(regret + waited, r, reported, number_active, waited)
        regret += (total - pulled) * float(cost[active].sum())
        time, pulled, reported, r = time + slots + delay, total, reported + slots, r + 1
        if delay:
            seen = means if local is None else local
            waited += delay * own_choice(seen, cost, active, pulled, r, uploading * epsilon, rng)
        radius = math.sqrt(log_active / (2 * uploading * total))
        radius += r * math.sqrt(8 * log_all) / (uploading**1.5 * epsilon * total)
        active &= means[active].max() - means < 2 * radius
    best = np.where(active, means, -np.inf).argmax()
    return Course(regret + (horizon - time) * float(cost[best]) + waited, r, reported, int(active.sum()), waited)


def own_choice(
    means: Floats, cost: Floats, active: NDArray[np.bool_], pulled: int, r: int, level: float, rng: np.random.Generator
) -> float:
    """Mean regret per slot of agents that play their own best active arm, estimated from `pulled` rewards of each arm
    and r noise terms Lap(1/level)."""
    rows = np.atleast_2d(means)
    rows = rows[np.arange(2000) % len(rows)]
    noise = math.sqrt(2 * r) / (level * pulled) * rng.standard_normal(rows.shape)
    estimate = np.where(active, rng.binomial(pulled, rows) / pulled + noise, -np.inf)
    return float(cost[estimate.argmax(1)].mean())


def instances(qualities: str, arms: int, agents: int = 1, draws: int = DRAWS) -> list[Floats]:
    """Means of the arms, float64[1 or agents, arms]: the grid, or `draws` random instances."""
    if qualities == "grid":
        return [(np.arange(arms)[None] + 0.5) / arms]
    rng = np.random.Generator(np.random.PCG64(2))
    return [rng.random((agents if qualities == "heterogeneous" else 1, arms)) for _ in range(draws)]


def expected(setting: Config, draws: int = DRAWS) -> dict[str, float]:
    """`course` of a configuration: means over instances and, for agents without communication, over agents."""
    params, own = setting["env_params"], setting["policy_params"]
    agents, horizon = params["num_agents"], params["horizon"]
    uploading = math.ceil(own.get("participation", 1.0) * agents - 1e-9)
    delay = waiting(params["topology"], agents)
    results: list[Course] = []
    for local in instances(params["qualities"], params["num_arms"], agents, draws):
        means = local.mean(0)
        if setting["policy"] == "SingleAgent":
            results += [course(row, 1, math.inf, gaps=means.max() - means, horizon=horizon) for row in local]
        else:
            limits = {"rounds": own.get("rounds"), "delay": delay, "horizon": horizon}
            results.append(course(means, uploading, own["epsilon"], local=local, **limits))
    return {field.name: float(np.mean([getattr(one, field.name) for one in results])) for field in fields(Course)}


def waiting(name: str, num_agents: int) -> int:
    """Slots that agents wait in a round: a graph's diameter minus 1, or the largest eccentricity of a sink minus 1."""
    if name == "server":
        return 0
    if name not in CASES:
        return max(int(eccentricities(name, num_agents).max()) - 1, 0)
    kind, sizes = CASES[name]
    return max(0, *(int(eccentricities(kind, size, q).min()) - 1 for q, size in enumerate(sizes)))


def eccentricities(kind: str, num_nodes: int, seed: int = 1) -> NDArray[np.int64]:
    """The distance from each node of `graph` to the farthest one, int64[N]."""
    if kind == "ring":
        return np.full(num_nodes, num_nodes // 2)
    return graph(kind, num_nodes, seed).distances().max(1)


def binding_epsilon(uploading: int, arms: int = ARMS, horizon: int = HORIZON) -> float:
    """The epsilon below which the privacy term of S(r) dominates in some epoch, for some number of remaining arms.

    The two terms are equal at epsilon = r Dtilde sqrt(2 log(8 K r^2 T)) / (sqrt(N) log(8 |I| r^2 T)).
    """
    return max(
        r
        * 2.0**-r
        * math.sqrt(2 * math.log(8 * arms * r**2 * horizon))
        / (math.sqrt(uploading) * math.log(8 * left * r**2 * horizon))
        for r in range(1, 20)
        for left in ((arms,) if r == 1 else (2, arms))
    )


def binding_agents(epsilon: float, arms: int = ARMS, horizon: int = HORIZON) -> int:
    """The largest N for which the privacy term of S(r) dominates in some epoch."""
    return math.floor((binding_epsilon(1, arms, horizon) / epsilon) ** 2)


def same_ratio(arms: int, horizon: int = HORIZON) -> float:
    """The regret with R = 4 over the regret with R = 5, by the formulas, on a grid of `arms` arms."""
    means = instances("grid", arms)[0][0]
    four, five = (course(means, 50, 1.0, rounds=rounds, horizon=horizon).regret for rounds in (4, 5))
    return four / five


def same_rounds(close: float = 0.05) -> int:
    """The largest number of arms on a grid with regrets for R = 4 and R = 5 that differ by less than the fraction
    `close`."""
    return max(arms for arms in range(2, ARMS + 1) if abs(same_ratio(arms) - 1) < close)


def bias_slope(arms: int, agents: int, draws: int = 4000) -> float:
    """E[mu* - mu_(own best arm)] for means drawn for each agent: the regret per slot of playing one's own best arm."""
    local = np.random.Generator(np.random.PCG64(3)).random((draws, agents, arms))
    mean = local.mean(1)
    chosen = np.take_along_axis(mean, local.argmax(2), 1)
    return float((mean.max(1, keepdims=True) - chosen).mean())


def diameter_times_edges(name: str, num_nodes: int) -> int:
    """Theorem 3's number of links per round, by networkx."""
    import networkx as nx

    whole = nx.from_scipy_sparse_array(graph(name, num_nodes).matrix())
    return int(nx.diameter(whole)) * whole.number_of_edges()


def second_eigenvalues(num_nodes: int) -> tuple[float, float, int]:
    """For the 4-regular graph: the second largest eigenvalue of the Laplacian, the second largest |eigenvalue| of A/d,
    and the diameter."""
    whole = graph("regular", num_nodes)
    adjacency = whole.matrix().toarray()
    laplacian = np.diag(whole.degrees) - adjacency
    of_laplacian = np.sort(np.linalg.eigvalsh(laplacian))[-2]
    of_adjacency = np.sort(np.abs(np.linalg.eigvalsh(adjacency / 4)))[-2]
    return float(of_laplacian), float(of_adjacency), int(whole.distances().max())


def growth(
    first: int, last: int, rounds: int | None = None, agents: int = 50, epsilon: float = 1.0
) -> tuple[float, float]:
    """The growth of regret and rounds with T, from `first` to `last`, over the growth of their bounds (Theorem 1; with
    `rounds` = R, Theorem 2 for p = 1).

    The bounds are max{sum_k log(KT log T) / Delta_k, K log T sqrt(log(KT log T)) / (sqrt(M) epsilon)} and log T; with R
    rounds, T^(2/R) max{sum_k log(R^2 KT) / Delta_k, R sqrt(log(R^2 KT)) / (sqrt(M) epsilon)} and R.
    """
    means = instances("grid", ARMS)[0][0]
    gaps = np.delete(means.max() - means, means.argmax())

    def bound(horizon: int) -> float:
        logs = math.log(horizon)
        inside = math.log(ARMS * horizon * logs) if rounds is None else math.log(rounds**2 * ARMS * horizon)
        private = ARMS * logs if rounds is None else rounds
        whole = max(float((inside / gaps).sum()), private * math.sqrt(inside) / (math.sqrt(agents) * epsilon))
        return whole if rounds is None else whole * horizon ** (2 / rounds)

    early, late = (course(means, agents, epsilon, rounds=rounds, horizon=horizon) for horizon in (first, last))
    logs = 1.0 if rounds else math.log(last) / math.log(first)
    return late.regret / early.regret / (bound(last) / bound(first)), late.rounds / early.rounds / logs


def equation_22(horizon: int = HORIZON) -> float:
    """The largest S(r_k) M Delta_k^2 / log(8 K r^2 T) over gaps in (0, 1]; r_k is the first r with
    2^-r < Delta_k / 2."""
    gaps = np.linspace(1, 1e-3, 5000)
    r = np.floor(np.log2(2 / gaps)) + 1
    return float((8 * 4**r * gaps**2).max())


def largest_diameter(case: str) -> int:
    """The largest diameter of the components of a case of Table II; 0 for components of one agent."""
    kind, sizes = CASES[case]
    return max(int(graph(kind, size, q).distances().max()) for q, size in enumerate(sizes))
