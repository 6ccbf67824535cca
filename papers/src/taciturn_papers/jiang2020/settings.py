"""The experiments of Jiang 2020 as configurations."""

from taciturn.bench.play import config
from taciturn.bench.results import Config
from taciturn.envs.elicitation.costs import Cost, ExponentialCost, LinearCost, LogCost, QuadraticCost

PAPER_RULE = (10, 8)  # k* and k0*
THETAS: dict[str, tuple[float, ...]] = {"two values": (0.7, 0.3), "four values": (0.4, 0.3, 0.2, 0.1)}
COSTS: dict[str, Cost] = {
    "quadratic": QuadraticCost(1.0),
    "linear": LinearCost(1.0),
    "exponential": ExponentialCost(1.0),
    "logarithmic": LogCost(1.0),
}
SIZES = (5, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000)
CLIENTS: dict[str, Config] = {"IID clients": {"concentration": None}, "clients with label skew": {"concentration": 3.0}}
PARTS = (25, 50, 75, 100)  # percent of the time of a training after which losses are compared
RULES: dict[str, tuple[str, Config]] = {
    "optimal": ("OptimalStopping", {}),
    "(10, 8)": ("OptimalStopping", {"thresholds": list(PAPER_RULE)}),
    "k=10": ("FixedCount", {"k": 10}),
    "k=100": ("WaitForAll", {}),
}


def learning(distribution: str, policy: str, own: Config, horizon: float = 300.0) -> Config:
    """Figures 3.3 to 3.6: training."""
    return config("federated_training_v0", policy, own, time_distribution=distribution, horizon=horizon)


def timing(distribution: str, policy: str, own: Config) -> Config:
    """The times alone: one round per replica, because the end of a session would cut long rounds off."""
    clock: Config = {"time_distribution": distribution, "horizon": 1e6, "objective": "lagrangian", "lambda_": 0.01}
    return config("round_stopping_v0", policy, own, **clock)
