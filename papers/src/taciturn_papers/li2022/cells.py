"""Runs the cells of the figures."""

import math

import numpy as np

from taciturn.agents import bring
from taciturn.bench.results import Cell, Result
from taciturn.bench.statistics import Floats
from taciturn.envs.federated_bandit.model import State
from taciturn.registry import make_world
from taciturn.simulation import simulate
from taciturn_papers.li2022.settings import topology


def run(cell: Cell, points: int) -> Result:
    """Metrics of a cell, as means over its runs; epsilon per message, at event level and at user level; and the regret
    at `points` times (0: none)."""
    params = dict(cell.config["env_params"])
    params["topology"] = topology(params["topology"], params["num_agents"])
    world = make_world(cell.config["env"]).population(cell.config["runs"], **params)
    policy = bring(cell.config["policy"], **cell.config["policy_params"])
    privacy = None if cell.config["privacy"] == "none" else "paper"
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
    silent = metrics["transmissions"] == 0
    if done.accountant is None or silent:
        levels = dict.fromkeys(("message", "event", "user"), 0.0 if silent else math.inf)
    else:
        user = done.accountant.epsilon(by="max", method="basic", unit="user", delta=0)
        levels = {
            "message": done.metrics["epsilon_message"].max(),
            "event": done.metrics["epsilon_basic"].mean(),
            "user": user.mean(),
        }
    metrics |= {f"epsilon_{name}": float(level) for name, level in levels.items()}
    return Result(metrics, {name: (times, done.trace[name].mean(axis=1)) for name in names})


def regret_waiting(state: State) -> Floats:
    """Regret per agent while waiting for communication rounds to end, [B]: from pulls that enter no message."""
    pulls = (state.used_counts - state.weight).mean(1)
    return np.asarray((pulls * state.gap).sum(-1))
