"""The experiments of section 5 as configurations, on synthetic worlds.

The paper's data, a selection of 100 million photos, its 70,000 rounds and its parameters cannot be had: `WORLDS` are families of mean
rewards and dimensions of contexts, and what is compared are the statements of its text.
"""

from collections.abc import Sequence

from taciturn.bench.play import config
from taciturn.bench.results import Config
from taciturn.envs.core import number

WORLDS: tuple[Config, ...] = (
    {"family": "peak", "context_dim": 2},
    {"family": "bumps", "context_dim": 2},
    {"family": "linear", "context_dim": 2},
    {"family": "peak", "context_dim": 3},
    {"family": "peak", "context_dim": 9},
)
ROUNDS, NETWORK_ROUNDS, NOISY_ROUNDS = 2000, 2000, 300
GRAPHS = ("complete", "star", "ring", "none")  # by falling connectivity
THRESHOLDS = (0.0, 0.3, 0.5, 0.7, 1.1)
LEVELS = (0.01, 0.5, 2.0)
MANY = 40


def named(world: Config) -> str:
    """`peak, d = 2`."""
    return f"{world['family']}, d = {world['context_dim']}"


def setting(
    world: Config, policy: str, own: Config | None = None, *, num_agents: int = 8, graph: str = "star", horizon: int = ROUNDS,
    growth: Sequence[Sequence[float]] = (), privacy: Config | None = None,
) -> Config:  # fmt: skip
    """One run; `privacy` names a mechanism for each channel that has one."""
    params = {**world, "num_agents": num_agents, "graph": graph, "horizon": horizon}
    if growth:
        params["growth"] = [list(pair) for pair in growth]
    return config("recommender_v0", policy, own, **params) | ({} if privacy is None else {"privacy": privacy})


def on_graph(world: Config, graph: str, horizon: int = NETWORK_ROUNDS) -> Config:
    """Figures 8 and 9."""
    return setting(world, "TPriDO", num_agents=MANY, graph=graph, horizon=horizon)


def at_threshold(world: Config, threshold: float, horizon: int = NETWORK_ROUNDS) -> Config:
    """Figure 14."""
    return setting(world, "TPriDO", {"threshold": number("threshold", threshold)}, num_agents=MANY, horizon=horizon)
