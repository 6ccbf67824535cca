"""Federated arm elimination, whole runs and single slots: `python benchmarks/federated_bandit.py`.

Runs are the paper's size (50 agents, 100 arms, 100,000 slots) and ten times the agents, with the paper's noise and its
accountant, by epochs; and, to compare, slot by slot. Slots are `Population.step` with random arms, observations packed.
UCB1 beside a peer: `ucb_peer.py`.
"""

import statistics
import time
from typing import Any

import numpy as np
from common import record

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.envs.core import Array
from taciturn.policies import CDPMAB, DDPMAB, HDPMAB, SingleAgent

REPEATS = 5
WHOLE: dict[str, tuple[int, dict[str, Any], Any]] = {
    "CDPMAB": (200, {}, CDPMAB(1.0)),
    "CDPMAB, one replica": (1, {}, CDPMAB(1.0)),
    "CDPMAB, p = 0.2": (200, {}, CDPMAB(1.0, participation=0.2)),
    "CDPMAB, heterogeneous": (200, {"qualities": "heterogeneous"}, CDPMAB(1.0)),
    "CDPMAB, 500 agents": (20, {"num_agents": 500}, CDPMAB(1.0)),
    "DDPMAB, ring": (200, {"topology": "ring"}, DDPMAB(1.0)),
    "HDPMAB, 5 stars": (200, {"topology": [("star", 10)] * 5}, HDPMAB(1.0)),
    "SingleAgent": (50, {}, SingleAgent()),
}
SLOTS: dict[str, tuple[int, dict[str, Any], int]] = {
    "50 agents, 100 arms": (1, {}, 2000),
    "50 agents, 100 arms, 64 replicas": (64, {}, 50),
    "1000 agents, 1000 arms": (1, {"num_agents": 1000, "num_arms": 1000}, 10),
}


def run(replicas: int, params: dict[str, Any], policy: Any) -> float:
    """Milliseconds a replica, from a made population to its metrics."""
    env = federated_bandit_v0.population(replicas, **params)
    begun = time.perf_counter()
    taciturn.simulate(env, policy, privacy=None if isinstance(policy, SingleAgent) else "paper", seed=0)
    return (time.perf_counter() - begun) / replicas * 1e3


def slot(replicas: int, params: dict[str, Any], slots: int) -> float:
    """Milliseconds a slot of all replicas."""
    env = federated_bandit_v0.population(replicas, **params)
    agents, arms = env.params.num_agents, env.params.arms
    actions: Array = np.random.default_rng(0).integers(0, arms, (slots, replicas, agents))
    env.reset(seed=0)
    begun = time.perf_counter()
    for action in actions:
        env.step(action)
    return (time.perf_counter() - begun) / slots * 1e3


def slot_by_slot() -> float:
    """Milliseconds of 10,000 slots by `Population.step`, without noise."""

    env, policy = federated_bandit_v0.population(1, horizon=10_000), CDPMAB(1.0)
    begun = time.perf_counter()
    env.reset(seed=0)
    policy.reset(env, env.stream("policy/agent"))
    env.advance(policy, steps=10_000)
    return (time.perf_counter() - begun) * 1e3


def main() -> None:
    whole = {name: statistics.median(run(*job) for _ in range(REPEATS)) for name, job in WHOLE.items()}
    slots = {name: statistics.median(slot(*job) for _ in range(REPEATS)) for name, job in SLOTS.items()}
    stepped = slot_by_slot()
    for name, value in whole.items():
        print(f"{name:35} {value:8.2f} ms a run of 100,000 slots")
    print(f"{'CDPMAB, slot by slot':35} {stepped * 10:8.0f} ms (ten times what 10,000 slots take)")
    for name, value in slots.items():
        print(f"{name:35} {value:8.3f} ms a slot")
    record(
        "federated_bandit",
        {"run_ms_per_replica": whole, "slot_ms": slots, "slot_by_slot_10000_slots_ms": stepped, "repeats": REPEATS},
    )


if __name__ == "__main__":
    main()
