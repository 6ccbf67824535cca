"""A step of 10,000 replicas as arrays, against gymnax's Bernoulli bandit, compiled and batched by JAX: `python
benchmarks/gymnax_peer.py`.

The peer is `jit(vmap(step))` of `BernoulliBandit-misc` for as many environments, waited for after each step. Ours are
round stopping, and the federated bandit with one agent and two arms, which is the same problem as the peer's, as arrays
whose infos are not read. All take turns within one process on one core, in CPU time, and actions are drawn beforehand.
gymnax lives in an environment of its own: `pip install . gymnax`. A further row is many ticks of gossip in a row, of
two agents with two options who follow PPCL, without observations in between.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
if hasattr(os, "sched_setaffinity"):  # XLA's own threads would use a second core
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import gymnax
import jax
import numpy as np
from common import record

from taciturn.compiling import compiled
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, round_stopping_v0
from taciturn.envs.core import loops
from taciturn.policies import PPCL

REPLICAS, STEPS, REPEATS = 10_000, 50, 21
PEER, COMPILED = "gymnax, Bernoulli bandit", "ticks of gossip in a row, 2 agents, 2 options"


def stopping() -> Callable[[int], None]:
    env, rng = round_stopping_v0.population(REPLICAS), np.random.default_rng(0)
    env.reset(seed=0)
    actions = (rng.random((STEPS, REPLICAS, 1)) >= 1 / 45).astype(np.int64)

    def play(steps: int) -> None:
        for i in range(steps):
            env.step(actions[i % STEPS])
            if (over := env.done).any():
                env.reset(where=over)

    return play


def bandit() -> Callable[[int], None]:
    env = federated_bandit_v0.population(REPLICAS, num_agents=1, num_arms=2, horizon=10**6)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    actions = rng.integers(2, size=(STEPS, REPLICAS, 1))

    def play(steps: int) -> None:
        for i in range(steps):
            env.step(actions[i % STEPS])

    return play


def gossip() -> Callable[[int], None]:
    env = gossip_bandit_v0.population(REPLICAS, num_agents=2, num_options=2, horizon=10.0**6)
    env.reset(seed=0)
    policy = PPCL()
    policy.reset(env, env.stream("policy/agent"))

    def play(steps: int) -> None:
        env.advance(policy, until=float(env.clock()[0]) + steps / 2)  # two agents tick at rate 1

    return play


def peer() -> Callable[[int], None]:
    made: Any = gymnax.make("BernoulliBandit-misc")
    env, params = made
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)))
    keys = jax.random.split(jax.random.key(0), REPLICAS)
    _, state = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(keys, params)
    draws = [jax.random.split(jax.random.key(i), REPLICAS) for i in range(STEPS)]
    actions = jax.random.randint(jax.random.key(1), (STEPS, REPLICAS), 0, 2)
    rows = [actions[i] for i in range(STEPS)]

    def play(steps: int) -> None:
        nonlocal state
        for i in range(steps):
            _, state, *rest = step(draws[i % STEPS], state, rows[i % STEPS], params)
            jax.block_until_ready(rest)

    return play


def main() -> None:
    compiled.COMPILE_FROM = 0
    vars(loops)["num_threads"] = lambda: 1  # as the peer
    plays = {PEER: peer(), "round stopping": stopping(), "federated bandit, 1 agent, 2 arms": bandit()}
    plays[COMPILED] = gossip()
    for play in plays.values():
        play(5)
    times: dict[str, list[float]] = {name: [] for name in plays}
    for _ in range(REPEATS):
        for name, play in plays.items():
            started = time.process_time_ns()
            play(STEPS)
            times[name].append((time.process_time_ns() - started) / STEPS / REPLICAS)
    rows = {}
    for name, result in times.items():
        ratios = sorted(ours / theirs for ours, theirs in zip(result, times[PEER], strict=True))
        rows[name] = {
            "ns": round(statistics.median(result), 1),
            "ratio": round(statistics.median(ratios), 2),
            "range": [round(ratios[0], 2), round(ratios[-1], 2)],
        }
        print(f"{name}: {rows[name]['ns']} ns a replica, {rows[name]['ratio']} of the peer's")
    record(
        "gymnax_peer",
        {"replicas": REPLICAS, "repeats": REPEATS, "peer": PEER, "rows": rows},
        ("taciturn", "numpy", "numba", "jax", "gymnax"),
    )


if __name__ == "__main__":
    main()
