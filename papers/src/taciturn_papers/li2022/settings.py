"""The experiments of section VII as configurations, and the graphs that they use.

The paper does not give T. Here T = 10^5; where the paper counts rounds, T = 10^4, which its 'log(T) = 4' implies.
"""

import numpy as np

from taciturn.bench.play import config
from taciturn.bench.results import Config
from taciturn.graph import Graph, random_graph

HORIZON = 100_000
SHORT = 10_000
ARMS = 100
AGENTS = 50  # unless a figure has another number
BOTH = ("grid", "uniform")  # distributions of the means: the paper's are uniform
UNBOUNDED = 1e9  # an epsilon that represents no privacy
CASES: dict[str, tuple[str, tuple[int, ...]]] = {
    "case 1": ("complete", (20,) * 5),
    "case 2": ("complete", (63, 24, 10, 6, 7)),
    "case 2 with 53": ("complete", (53, 24, 10, 6, 7)),
    "case 3": ("complete", (100,)),
    "case 4": ("random", (20,) * 5),
    "case 5": ("star", (20,) * 5),
    "case 6": ("complete", (1,) * 100),
    "five rings": ("ring", (20,) * 5),
}
TABLE_2 = ("case 1", "case 2", "case 2 with 53", "case 3", "case 4", "case 5", "case 6")
LEVELS = (0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 1.0, UNBOUNDED)
SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
ROUNDS = (2, 3, 4, 5)
GRAPHS = ("complete", "star", "ring", "random", "regular")
STRUCTURES = ("server", "five rings", "ring")


def setting(
    policy: str,
    own: Config,
    privacy: str = "paper",
    qualities: str = "grid",
    *,
    num_agents: int = AGENTS,
    num_arms: int = ARMS,
    topology: str = "server",
    horizon: int = HORIZON,
    **links: float,
) -> Config:
    """A federated bandit; `own` are parameters of the policy, `links` the prices of links."""
    params = {"num_agents": num_agents, "num_arms": num_arms, "horizon": horizon, "topology": topology, **links}
    return config("federated_bandit_v0", policy, own, privacy, **params, qualities=qualities)


def at_epsilon(epsilon: float, qualities: str, *, noise: bool = True) -> Config:
    """Figure 4."""
    return setting("CDPMAB", {"epsilon": epsilon}, "paper" if noise and epsilon < UNBOUNDED else "none", qualities)


def constrained(share: float | None, rounds: int | None, qualities: str, horizon: int = HORIZON) -> Config:
    """Figures 5 to 7: participation p and at most R rounds; None: not limited."""
    own = {"epsilon": 1.0} | ({} if share is None else {"participation": share})
    limited = own | ({} if rounds is None else {"rounds": rounds})
    return setting("CDPMAB", limited, "paper", qualities, horizon=horizon)


def few_agents(policy: str, qualities: str) -> Config:
    """Figure 8."""
    own, privacy = ({"epsilon": 1.0}, "paper") if policy == "CDPMAB" else ({}, "none")
    return setting(policy, own, privacy, qualities, num_agents=5, num_arms=10)


def on_graph(name: str, qualities: str) -> Config:
    """Figure 10: a graph, or "server"."""
    policy = "CDPMAB" if name == "server" else "DDPMAB"
    return setting(policy, {"epsilon": 1.0}, "paper", qualities, topology=name)


def in_components(case: str, qualities: str) -> Config:
    """Figure 11: a case of Table II."""
    return setting(
        "HDPMAB",
        {"epsilon": 1.0},
        "paper",
        qualities,
        topology=case,
        num_agents=sum(CASES[case][1]),
        server_link_cost=50.0,
        agent_link_cost=1.0,
    )


def in_structure(name: str, qualities: str) -> Config:
    """Figure 12: one of `STRUCTURES`."""
    policy = {"server": "CDPMAB", "ring": "DDPMAB"}.get(name, "HDPMAB")
    return setting(policy, {"epsilon": 1.0}, "paper", qualities, topology=name, num_agents=100, num_arms=10)


def graph(kind: str, num_nodes: int, seed: int = 1) -> Graph:
    """A graph by its name in the paper; "random" is a connected Erdos-Renyi graph, "regular" has degree 4."""
    if kind == "regular":
        import networkx as nx

        return Graph.of(nx.random_regular_graph(4, num_nodes, seed=np.random.default_rng(seed)))
    return random_graph("erdos_renyi" if kind == "random" else kind, num_nodes, seed)


def topology(name: str, num_agents: int) -> str | Graph | list[Graph]:
    """The world's `topology` for "server", a graph's name, or one of `CASES`."""
    if name == "server":
        return name
    if name not in CASES:
        return graph(name, num_agents)
    kind, sizes = CASES[name]
    return [graph(kind, size, seed) for seed, size in enumerate(sizes)]
