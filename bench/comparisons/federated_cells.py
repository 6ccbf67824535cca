"""Run a cell of a federated bandit."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from taciturn.agents import bring
from taciturn.bench.results import Cell, Result
from taciturn.bench.statistics import Floats
from taciturn.envs.federated_bandit.model import State
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import CentralisedOracle
from taciturn.registry import make_world
from taciturn.simulation import simulate


def run(cell: Cell, points: int, topology: Callable[[str, int], Any]) -> Result:
    """Means over the runs of a cell, epsilon per message, at event and at user level, and the regret at `points` times
    (0: none). `topology` makes the world's, given the name in the configuration and the number of agents."""
    params = dict(cell.config["env_params"])
    params["topology"] = topology(params["topology"], params["num_agents"])
    world = make_world(cell.config["env"]).population(cell.config["runs"], **params)
    policy = bring(cell.config["policy"], **cell.config["policy_params"])
    spec = cell.config["privacy"]
    privacy: Any = None if spec == "none" else spec if spec == "paper" else {"means": parse_mechanism(spec)}
    times = np.linspace(0, params["horizon"], points + 1)[1:]
    names = ["regret_per_agent"] if points else []
    done = simulate(world, policy, seed=cell.seed, until=times if points else None, record=names, privacy=privacy)
    kept = ["regret_per_agent", "cost", "rounds", "identified", "transmissions"]
    kept += ["cost_bound"] if params["topology"] != "server" else []
    metrics = {name: float(done.metrics[name].mean()) for name in kept}
    if params["topology"] != "server":
        metrics["regret_waiting"] = float(regret_waiting(world.state).mean())
    if params["qualities"] == "heterogeneous":
        metrics["local_regret_per_agent"] = float(done.metrics["local_regret"].mean()) / params["num_agents"]
    metrics["rewards_reported"] = float(world.state.weight.sum(-1).max(1).mean())
    silent = metrics["transmissions"] == 0 and not isinstance(policy, CentralisedOracle)
    # The oracle sees the pulls of all agents, which no channel carries.
    if done.ledger is None or silent:
        levels = dict.fromkeys(("message", "event", "user"), 0.0 if silent else math.inf)
    else:
        user = done.ledger.total(by="max", method="basic", unit="user", delta=0)
        levels = {
            "message": done.metrics["epsilon_message"].max(),
            "event": done.metrics["epsilon_basic"].mean(),
            "user": user.mean(),
        }
    metrics |= {f"epsilon_{name}": float(level) for name, level in levels.items()}
    return Result(metrics, {name: (times, done.trace[name].mean(axis=1)) for name in names})


def regret_waiting(state: State) -> Floats:
    """Regret per agent incurred while waiting for communication rounds to end, [B]: from pulls that enter no
    message."""
    pulls = (state.used_counts - state.weight).mean(1)
    return np.asarray((pulls * state.gap).sum(-1))
