"""The experiments of section 5 as configurations, on synthetic worlds.

The paper's data, a selection of 100 million photos, and its parameters are not available: `WORLDS` are families of mean
rewards and dimensions of contexts. Runs are shorter than the paper's 70,000 rounds.
"""

from taciturn.bench.play import config
from taciturn.bench.results import Config
from taciturn.policies.reference.t_prido import PRESETS

WORLDS: tuple[Config, ...] = (
    {"family": "peak", "context_dim": 2},
    {"family": "bumps", "context_dim": 2},
    {"family": "linear", "context_dim": 2},
    {"family": "peak", "context_dim": 3},
    {"family": "peak", "context_dim": 9},
)
ROUNDS, NOISY_ROUNDS, GROWING_ROUNDS = 1000, 210, 1400
GRAPHS = ("none", "ring", "star", "complete")
THRESHOLDS = (0.0, 0.3, 0.5, 0.7, 1.1)
LEVELS = (0.01, 0.5, 2.0)
NOISED = ("HCT", "ACR", "DSC", "LinUCB")  # section 5.2: rivals under the paper's "noising injecting and DP framework"
NOISY_RIVALS = LEVELS[-1]  # the paper states none for them; this is the largest of Table 3, which favours them most
EXACT = tuple(f"{rival} without noise" for rival in NOISED)
COMPARED = (
    "TPriDO", "one agent", "DTPriDO", *NOISED, "GaussLinUCB", "DUCB", "ItemUCB1", "Random", "proofs", *EXACT,
)  # fmt: skip
ALWAYS = 1.1  # a threshold that no mean reward reaches
MANY = 40
ADDED = round(80_800 / 282_800, 3)  # of the items, which arrive at 4/7 of the run
GRID_LEVELS = (0, 1, 2, 3)

# Found by `python papers/tuning/zhou2021.py`, 8 settings for each policy, on seeds that no study may use; all
# that was tried, and the budget, are in `papers/tuning/zhou2021.json`.
TUNED: dict[str, Config] = {
    "TPriDO": {"xi": 0.05, "psi": 0.15, "rate": 20.0},
    "DTPriDO": {"xi": 0.2, "psi": 0.15, "rate": 20.0},
    "DSC": {"level": 0, "xi": 0.05},
    "ACR": {"xi": 0.05, "rate": 5.0, "power": 3.0},
    "LinUCB": {"kind": "shared", "alpha": 1.0},
    "GaussLinUCB": {"alpha": 0.03, "shift": 1.0},
    "HCT": {"nu": 0.3, "rho": 0.85, "c": 0.1},
    "HOO": {"nu": 0.3, "rho": 0.85},
    "ContextualZooming": {"width": 1.0, "scale": 1.0, "most": 100},
    "ItemUCB1": {"width": 0.01},
    "DUCB": {"width": 0.01},
}


def named(world: Config) -> str:
    """`peak, d = 2`."""
    return f"{world['family']}, d = {world['context_dim']}"


def setting(
    world: Config,
    policy: str,
    own: Config | None = None,
    *,
    graph: str = "star",
    num_agents: int = 8,
    horizon: int = ROUNDS,
    privacy: Config | None = None,
    growth: tuple[tuple[int, float], ...] = (),
) -> Config:
    """One run of a tuned policy; `privacy` names a mechanism for each channel that has one."""
    params = {**world, "num_agents": num_agents, "graph": graph, "horizon": horizon}
    if growth:
        params["growth"] = [list(pair) for pair in growth]
    return config("recommender_v0", policy, TUNED.get(policy, {}) | (own or {}), **params) | (
        {} if privacy is None else {"privacy": privacy}
    )


def compared(world: Config, rival: str) -> Config:
    """Tables 1 and 2, Figures 6 and 7: a policy, with noise if it is among `NOISED`; one of `EXACT`; or T-PriDO, alone
    as "one agent" or with the constants of its proofs as "proofs"."""
    if rival == "one agent":
        return setting(world, "TPriDO", graph="none")
    if rival == "proofs":
        constants = {name: PRESETS["paper"][name] for name in TUNED["TPriDO"]}
        return setting(world, "TPriDO", {"preset": "paper", **constants})
    if rival == "GaussLinUCB":
        return setting(world, rival, {"epsilon": NOISY_RIVALS})
    if rival in NOISED:
        # ACR asks for its own records, so it must not have neighbours.
        graph, distribution = "none" if rival == "ACR" else "star", f"TreeAggregation:{NOISY_RIVALS:g}"
        return setting(world, rival, graph=graph, privacy={"statistics": distribution})
    return setting(world, rival.removesuffix(" without noise"))


def on_graph(world: Config, graph: str) -> Config:
    """Figures 8 and 9."""
    return setting(world, "TPriDO", num_agents=MANY, graph=graph)


def private(
    world: Config, policy: str, epsilon: float | None, *, always: bool = False, on: str = "statistics"
) -> Config:
    """Figures 10 and 11, Table 3: epsilon on the channel `on`; None: no privacy. `always`: agents always ask."""
    distribution = "TreeAggregation" if on == "statistics" else "Exponential"
    return setting(
        world,
        policy,
        {"threshold": ALWAYS} if always else None,
        horizon=NOISY_ROUNDS,
        privacy={} if epsilon is None else {on: f"{distribution}:{epsilon:g}"},
    )


def growing(world: Config, policy: str) -> Config:
    """Figures 12 and 13."""
    arrives = (GROWING_ROUNDS * 4 // 7, ADDED)
    return setting(world, policy, num_agents=MANY, horizon=GROWING_ROUNDS, growth=(arrives,))


def at_threshold(world: Config, threshold: float) -> Config:
    """Figure 14."""
    return setting(world, "TPriDO", {"threshold": threshold}, num_agents=MANY)


def on_grid(world: Config, level: int) -> Config:
    """DSC on a grid of 2^level cells in each dimension."""
    return setting(world, "DSC", {"level": level})
