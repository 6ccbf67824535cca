"""Short seeded runs as text, compared with what they were: `pytest tests/test_golden.py --regenerate-golden` accepts a
change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import AlwaysAsks

import taciturn
from taciturn.envs import (
    elicitation_v0,
    federated_bandit_v0,
    gossip_bandit_v0,
    recommender_v0,
    round_stopping_v0,
    social_bandit_v0,
)
from taciturn.envs.core import Population
from taciturn.graph import random_graph
from taciturn.policies import (
    DDPMAB,
    PPCL,
    BestResponse,
    Deadline,
    DTPriDO,
    FixedCount,
    Policy,
    PrivateSocialLearning,
    TPriDO,
    Wintall,
)
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize, TreeAggregation

GOLDEN = Path(__file__).parent / "golden"
SMALL: dict[str, Any] = {"num_clients": 8, "broadcast_time": 0.1, "compute_probability": 0.15, "horizon": 1.0}


def told(population: Population[Any], policy: Any) -> str:
    """What `describe` says before each step and at the end."""
    population.reset(seed=2020)
    policy.reset(population, population.stream(f"policy/{next(iter(population.roles))}"))
    lines = [population.describe()]
    while not population.done.all():
        population.advance(policy, steps=1)
        lines.append(population.describe())
    return "".join(f"{line.rstrip()}\n" for line in lines)


def round_stopping(policy: Any, **params: Any) -> str:
    return told(round_stopping_v0.population(**SMALL, **params), policy)


def federated_bandit() -> str:
    graph = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    return told(
        federated_bandit_v0.population(num_agents=6, num_arms=3, qualities="grid", horizon=300, topology=graph),
        DDPMAB(),
    )


def elicitation() -> str:
    population = elicitation_v0.population(
        num_individuals=40, theta=(0.4, 0.3, 0.2, 0.1), target=1.0, cost_spread=0.5, horizon=6
    )
    policies = {"platform": Wintall(), "individual": BestResponse()}
    population.reset(seed=2020)
    for role, policy in policies.items():
        policy.reset(population, population.stream(f"policy/{role}"), role)
    lines = [population.describe()]
    while not population.done.all():
        population.advance(policies, steps=2)
        lines.append(population.describe())
    return "".join(f"{line}\n" for line in lines)


def gossip_bandit() -> str:
    population = gossip_bandit_v0.population(num_agents=12, qualities=(0.9, 0.5, 0.1), horizon=4.0)
    return told(Privatize(population, "preference", BitwiseRandomizedResponse(3.0)), PPCL())


def social_bandit() -> str:
    sizes: dict[str, Any] = {"num_agents": 12, "copies": 6, "walk_length": 5, "horizon": 25}
    population = social_bandit_v0.population(
        graph="star_triangle", dissemination="walk", qualities=(0.9, 0.5, 0.1), **sizes
    )
    return told(population, PrivateSocialLearning(beta=0.7, mu=0.1))


def recommender() -> str:
    population = recommender_v0.population(num_agents=4, num_items=40, repository=20, growth=[(12, 0.3)], horizon=25)
    return told(Privatize(population, "statistics", TreeAggregation(3.0)), TPriDO(threshold=0.7))


def recommender_graphs() -> str:
    """1,000 agents on sparse graphs: the feedbacks, answers, messages and charges of runs."""
    size, lines = 1_000, list[str]()
    noise = {"statistics": TreeAggregation(1.0)}
    runs: dict[str, tuple[Policy, int, Any]] = {
        "T-PriDO": (TPriDO(threshold=0.5), 5, None),
        "DT-PriDO, noise": (DTPriDO(threshold=0.5), 4, noise),
        "always asking, noise": (AlwaysAsks(), 6, noise),
    }
    for graph in ("ring", "star", "barabasi_albert"):
        for name, (policy, rounds, privacy) in runs.items():
            env = recommender_v0.population(
                num_agents=size, graph=random_graph(graph, size), num_items=60, repository=30, horizon=rounds
            )
            run = taciturn.simulate(env, policy, seed=2020, privacy=privacy)
            liked, shared = (round(float(run.metrics[key][0]) * size * rounds) for key in ("reward", "shared"))
            sent = env.channels["statistics"].messages()[0]
            place = np.arange(size)
            told = (
                f"{graph}, {name}: liked {liked}  shared {shared}  regret {run.metrics['regret'][0]:.6f}  "
                f"messages {sent.sum()}, times place {sent @ place}"
            )
            if run.accountant is not None:
                charged = run.accountant.messages("statistics")[0]
                told += f"  charged {charged.sum()}, times place {charged @ place}"
            lines.append(told)
    return "".join(f"{line}\n" for line in lines)


RUNS = {
    "elicitation": elicitation,
    "federated_bandit": federated_bandit,
    "gossip_bandit": gossip_bandit,
    "recommender": recommender,
    "recommender_graphs": recommender_graphs,
    "round_stopping_geometric": lambda: round_stopping(FixedCount(4)),
    "round_stopping_pareto": lambda: round_stopping(Deadline(12), time_distribution="pareto", computing=(2.0, 4.0)),
    "social_bandit": social_bandit,
}


@pytest.mark.parametrize("name", RUNS)
def test_golden(name: str, request: pytest.FixtureRequest) -> None:
    file, text = GOLDEN / f"{name}.txt", RUNS[name]()
    if request.config.getoption("--regenerate-golden"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
