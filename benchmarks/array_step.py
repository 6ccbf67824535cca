"""A step of 10,000 sessions of round stopping as arrays, against `gymnasium.vector.SyncVectorEnv`: `python
benchmarks/array_step.py`.

The peers, per environment and step, in turns within one process: `SyncVectorEnv` over this package's own single
environment, and over the leanest scalar one we could write (plain Python numbers, tabulated draws, no info), as many as
the array has and also as few as 100, which fit the processor's cache. Stops are drawn beforehand, one in 45 actions, as
often as the optimal rule makes them.
"""

import random
import statistics
import time
from bisect import bisect_right
from typing import Any

import gymnasium
import numpy as np
from common import record
from gymnasium.vector import SyncVectorEnv
from scipy.stats import binom

from taciturn.envs import round_stopping_v0
from taciturn.envs.core import Array
from taciturn.envs.round_stopping.world import Params

REPLICAS, STEPS, REPEATS = 10_000, 50, 21


class LeanRoundStopping(gymnasium.Env[Array, Any]):
    """The world under geometric clocks and the rate objective, one session, as fast as plain Python does it."""

    def __init__(self) -> None:
        p = Params()
        self.clients, self.t0, self.tau, self.budget = p.num_clients, p.broadcast_time, p.slot_time, p.horizon
        self.mu, self.rewards = p.upload_probability, p.rewards.tolist()
        computing = np.arange(self.clients + 1)[:, None]
        self.finished: list[list[float]] = np.asarray(
            binom.cdf(np.arange(25), computing, p.compute_probability)
        ).tolist()
        high = np.array([self.clients] * 3 + [self.budget / self.tau, self.budget], np.float32)
        self.observation_space = gymnasium.spaces.Box(np.zeros(5, np.float32), high)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        self.uniform = random.Random(seed).random
        self.received = self.queued = self.slots = 0
        self.left = self.budget
        return self.observe(), {}

    def observe(self) -> Array:
        received, queued = self.received, self.queued
        return np.array([received, queued, self.clients - received - queued, self.slots, self.left], np.float32)

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        ended = False
        if action:
            finished = bisect_right(self.finished[self.clients - self.received - self.queued], self.uniform())
            if self.queued and self.uniform() < self.mu:
                self.received += 1
                self.queued -= 1
            self.queued += finished
            self.slots += 1
            self.left -= self.tau
        reward = 0.0
        if not action or self.received == self.clients:
            if self.left >= self.t0:
                reward = self.rewards[self.received]
                self.left -= self.t0
                self.received = self.queued = self.slots = 0
            else:
                ended = True
        if ended or self.left < self.tau:
            ended, self.left = True, 0.0
        return self.observe(), reward, ended, False, {}


def nanoseconds(env: Any, actions: Array) -> float:
    """Per environment and step."""
    started = time.perf_counter_ns()
    for row in actions:
        env.step(row)
    return (time.perf_counter_ns() - started) / actions.size


def main() -> None:
    rng = np.random.default_rng(0)
    # Name: the environment, and the steps it takes in its turn.
    envs: dict[str, tuple[Any, int]] = {
        "array": (round_stopping_v0.vector_env(num_envs=REPLICAS), STEPS),
        "100 own single environments": (SyncVectorEnv([round_stopping_v0.single_env] * 100), 20),
        "10000 lean environments": (SyncVectorEnv([LeanRoundStopping] * REPLICAS), 3),
        "100 lean environments": (SyncVectorEnv([LeanRoundStopping] * 100), 300),
    }
    for env, _ in envs.values():
        env.reset(seed=0)
    times: dict[str, list[float]] = {name: [] for name in envs}
    for _ in range(REPEATS):
        for name, (env, steps) in envs.items():
            actions = (rng.random((steps, env.num_envs)) >= 1 / 45).astype(np.int64)
            times[name].append(nanoseconds(env, actions))
    array = times.pop("array")
    result: dict[str, Any] = {"array_ns": round(statistics.median(array), 1)}
    print(f"array step of {REPLICAS} environments: {result['array_ns']:.0f} ns per environment")
    for name, values in times.items():
        ratios = sorted(peer / ours for peer, ours in zip(values, array, strict=True))
        result[name] = {
            "ns": round(statistics.median(values), 1),
            "array_is_times_faster": round(statistics.median(ratios), 1),
            "range": [round(ratios[0], 1), round(ratios[-1], 1)],
        }
        print(f"{result[name]['array_is_times_faster']:.0f}x faster than {name} ({result[name]['ns']:.0f} ns)")
    record("array_step", result | {"replicas": REPLICAS, "repeats": REPEATS})


if __name__ == "__main__":
    main()
