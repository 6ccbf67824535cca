"""Memory of the recommender and its policies: linear in agents on a sparse graph, and in records."""

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cases import AlwaysAsks

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import recommender_v0
from taciturn.policies import DTPriDO, Policy, TPriDO
from taciturn.wrappers import TreeAggregation

NOISE = {"statistics": TreeAggregation(1.0)}
MOST_WHEN_DOUBLED = 2  # what is linear at most doubles, what is quadratic quadruples


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler takes more memory than these runs."""
    monkeypatch.setattr(compiled, "COMPILE_FROM", np.inf)


def peak(policy: Policy, graph: str, agents: int, rounds: int, privacy: Any) -> int:
    """The most bytes that are allocated while a world is made and played."""
    sizes: Any = {"num_agents": agents, "num_items": 20, "repository": 10, "horizon": rounds}
    taciturn.simulate(recommender_v0.population(num_agents=2, horizon=2), policy, seed=0, privacy=privacy)  # imports
    tracemalloc.start()
    try:
        taciturn.simulate(recommender_v0.population(graph=graph, **sizes), policy, seed=0, privacy=privacy)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("graph", ["ring", "star"])
@pytest.mark.parametrize(
    ("policy", "privacy"),
    [(AlwaysAsks(), NOISE), (TPriDO(2.0), None), (DTPriDO(2.0), NOISE)],
    ids=["world", "T-PriDO", "DT-PriDO"],
)
def test_memory_is_linear_in_agents(policy: Policy, privacy: Any, graph: str) -> None:
    found = [peak(policy, graph, size, 2, privacy) for size in (100, 200, 400)]
    for small, large in pairwise(found):
        assert large < MOST_WHEN_DOUBLED * small, found


@pytest.mark.usefixtures("uncompiled")
def test_memory_is_linear_in_records() -> None:
    found = [peak(TPriDO(2.0), "ring", 4, rounds, None) for rounds in (150, 300, 600)]
    for few, many in pairwise(found):
        assert many < MOST_WHEN_DOUBLED * few, found


def test_an_agent_takes_less_than_ten_kilobytes() -> None:
    """With the 4,000 items of the default: three bytes for each, and no other numbers of all agents for all items."""
    agents = 1_000

    def play() -> None:
        env = recommender_v0.population(num_agents=agents)
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros((1, agents), np.int64))

    play()  # imports, and compiles
    tracemalloc.start()
    try:
        play()
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 10_000 * agents
