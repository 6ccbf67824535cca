"""The experiments of section 6 as configurations.

The paper says that qualities are uniform on [0, 1] but not which values were drawn: here they are the means of M
ordered uniform draws, M/(M+1) down to 1/(M+1).
"""

import math
from typing import NamedTuple

import numpy as np

from taciturn.bench.play import config
from taciturn.bench.results import Cell, Config, Group, Results
from taciturn.bench.statistics import Floats
from taciturn.compiling.counter_streams import sources_of
from taciturn.envs.core import Streams
from taciturn.envs.social_bandit.paper import copies_of_paper, ordered_means
from taciturn_papers.base import bitwise

BETA, MU, H = 0.505, 6.7e-5, 485.0
DELTA = math.log(BETA / (1 - BETA))  # 0.02
BOUND = 6 * DELTA  # on the regret, Theorem 5.2
GROWTH = {"log_squared": "ln² N", "root": "√N"}
ROUNDS, FAST_ROUNDS = 10_000, 500
SIZES, LEVELS = (3000, 6000, 10_000), (0.5, 1.0, 1.5, 2.0, None)
AGENTS, LIMIT, SHARES = "PrivateSocialLearning", "equation 34", "noisy share dynamics"
FAST_LEVELS = (1.0, 2.0, None)
# The settings that the paper's claims compare, as arguments of `society`.
COMPARED: tuple[Config, ...] = (
    *({"num_agents": n} for n in SIZES),
    *({"epsilon": e} for e in (0.5, 2.0, None)),
    *({"options": m} for m in (10, 30)),
)
READINGS: tuple[tuple[str, Config], ...] = (
    ("as written", {}),
    ("one estimate for all agents", {"estimate": "shared"}),
    ("fresh noise per copy", {"noise": "per_token"}),
    ("fresh noise per copy, one estimate for all agents", {"noise": "per_token", "estimate": "shared"}),
    ("estimates from the copies of 10 rounds", {"pool": 10}),
    ("estimates from the copies of 100 rounds", {"pool": 100}),
)


def uniform_regret(options: int) -> float:
    """Regret without learning, with uniform shares."""
    return ordered_means(options)[0] - 0.5


def society(
    num_agents: int = 10_000,
    options: int = 20,
    epsilon: float | None = 1.0,
    growth: str = "log_squared",
    rounds: int = ROUNDS,
) -> Config:
    """One setting of section 6, played by agents."""
    params = {
        "num_agents": num_agents,
        "qualities": ordered_means(options),
        "copies": copies_of_paper(num_agents, growth),
        "dissemination": "aggregated",
        "horizon": rounds,
    }
    result = config("social_bandit_v0", AGENTS, {"beta": BETA, "mu": MU}, bitwise(epsilon), **params)
    return result | {"options": options, "growth": growth}


class Setting(NamedTuple):
    """A setting in the paper's notation."""

    n: int
    m: int = 20
    epsilon: float | None = 1.0
    growth: str = "log_squared"

    def find(self, results: Results, policy: str) -> Group | None:
        """The full-length results of this setting under a policy; None if it was not run."""
        wanted = society(*self)
        entries = {name: wanted[name] for name in ("privacy", "options", "growth")}
        groups = results.select(policy=policy, env_params={"num_agents": self.n}, **entries)
        return next((g for g in groups if g.config["env_params"]["horizon"] in (ROUNDS, FAST_ROUNDS)), None)


def by_shares(setting: Config, own: Config | None = None) -> Config:
    """A setting computed by noisy share dynamics, under another reading (see `READINGS`) if `own` is given."""
    return {**setting, "policy": SHARES, "policy_params": {**setting["policy_params"], **(own or {})}}


def reading_of(config: Config) -> Config:
    """The entry of `READINGS` that a configuration belongs to."""
    own = {name: value for name, value in config["policy_params"].items() if name not in ("beta", "mu")}
    return {"noise": "per_token"} if config["env_params"].get("perturbation") == "per_token" else own


def reading_name(own: Config) -> str:
    """The name of an entry of `READINGS`."""
    return next(name for name, entries in READINGS if entries == own)


def signals(cell: Cell) -> Floats:
    """Phi [R, K] of the run with this cell's seed; a run draws its signals from a separate random stream."""
    params = cell.config["env_params"]
    source = sources_of(Streams(cell.seed).entropy, "", ("signals",), np.arange(1))[0, 0]
    size = (params["horizon"], len(params["qualities"]))
    drawn = np.random.Generator(np.random.Philox(key=source[:2])).random(size)
    return np.asarray(drawn < np.array(params["qualities"]), np.float64)


def level_text(epsilon: float | None) -> str:
    """Text of an epsilon; infinity for no privacy."""
    return "∞" if epsilon is None else f"{epsilon:g}"
