"""The experiments of Chen et al. 2021 as configurations. All clocks have rate 1: a round is a unit of time."""

from collections.abc import Sequence

from taciturn.bench.play import config
from taciturn.bench.results import Config
from taciturn.envs.gossip_bandit.world import CHEN2021
from taciturn_papers.base import bitwise

LIMIT = "mean field"
SHORT, LONG = 50.0, 150.0
SHARES = (0.8, 0.9, 0.95, 0.999)  # the times at which these shares are reached are recorded
LEVEL, ALL = 0.9, 0.999  # two definitions of convergence
LEVELS = (0.5, 1.0, 2.0, 3.0, 5.0, None)
TAUS = (0.1, 0.5, 1.0)


def ladder(best: float, gap: float, num_options: int) -> list[float]:
    """Qualities from the best down, `gap` apart."""
    return [round(best - gap * k, 10) for k in range(num_options)]


def ppcl(
    qualities: Sequence[float],
    *,
    epsilon: float | None = 3.0,
    num_agents: int = 400,
    horizon: float = SHORT,
    **own: float,
) -> Config:
    """PPCL; `own` are parameters of the policy."""
    params = {"num_agents": num_agents, "qualities": list(qualities), "horizon": horizon}
    return config("gossip_bandit_v0", "PPCL", own, bitwise(epsilon), **params)


def cbl(tau: float) -> Config:
    """CBL with four options."""
    base = {"num_agents": 400, "qualities": list(CHEN2021[4]), "horizon": SHORT}
    asks = {"asks": "one", "initial_preferences": "none"}
    return config("gossip_bandit_v0", "CBL", {"tau": tau}, bitwise(None), **base, **asks)


def mean_field_of(setting: Config) -> Config:
    """The mean-field limit of a setting."""
    return {**setting, "policy": LIMIT}


def small_gap_variants(gap: float) -> dict[str, Config]:
    """Other readings of Figure 4's experiment."""
    equal = [0.95] + [round(0.95 - gap, 10)] * 3
    steps = ladder(0.95, gap, 4)
    return {
        "the other options equally bad": ppcl(equal, horizon=LONG),
        "no threshold": ppcl(steps, horizon=LONG, alpha=1.0),
        "no threshold, no noise": ppcl(steps, epsilon=None, horizon=LONG, alpha=1.0),
        "no threshold, no noise, the other options equally bad": ppcl(equal, epsilon=None, horizon=LONG, alpha=1.0),
    }
