"""Ticks of gossip, many at once and one by one, against message-level PettingZoo by hand: `python
benchmarks/gossip.py`.

The headline is the paper's baseline (N = 400, K = 4, epsilon = 3), 3,000 runs to t = 50, 60 million ticks, by the fast
form, compiled; fewer ticks are played uncompiled, which gives the same bits (checked). What a billion ticks take on two
cores is measured with two threads, by the clock on the wall. The peer is what one would write for PettingZoo's AEC
interface: a dict an agent, and at every tick a loop over agents, each of which perturbs its one-hot vector bit by bit;
measured on fewer ticks. The view at N = 1,000 is this package's own AEC environment, stepped tick by tick. Peers run in
turns within one process, on one core; other times are the processor's.
"""

import math
import random
import statistics
import time
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
from common import record

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import gossip_bandit_v0
from taciturn.envs.core import Array, loops
from taciturn.policies import PPCL
from taciturn.wrappers import BitwiseRandomizedResponse, Privatize

QUALITIES, EPSILON = (0.95, 0.65, 0.35, 0.05), 3.0
RUNS, AGENTS, UNTIL, REPEATS = 3000, 400, 50.0, 5
FEW_RUNS, BEGINNING = 4, 2.0  # played uncompiled


class GossipByHand(pettingzoo.AECEnv[str, Array, Any]):  # type: ignore[misc] # PettingZoo has no types
    """The world as one would write it for PettingZoo, message by message."""

    metadata = {"name": "gossip", "is_parallelizable": False}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, num_agents: int, horizon: float = 50.0) -> None:
        self.horizon = horizon
        self.possible_agents = [f"agent_{i}" for i in range(num_agents)]
        options = len(QUALITIES)
        self.flip = 1 / (math.exp(EPSILON / 2) + 1)
        space = gymnasium.spaces.Box(0.0, 1.0, (2 * options + 2,), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, space)
        self.action_spaces = dict.fromkeys(self.possible_agents, gymnasium.spaces.MultiDiscrete([options + 1, 2, 2]))

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.random = random.Random(seed)
        self.agents = list(self.possible_agents)
        self.preference = {agent: i % len(QUALITIES) for i, agent in enumerate(self.agents)}
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self.time = 0.0
        self.schedule()

    def reply(self, agent: str) -> list[bool]:
        return [(k == self.preference[agent]) != (self.random.random() < self.flip) for k in range(len(QUALITIES))]

    def schedule(self) -> None:
        self.time += self.random.expovariate(len(self.agents))
        self.agent_selection = self.random.choice(self.agents)
        self.counts = [0] * len(QUALITIES)
        for agent in self.agents:
            for k, bit in enumerate(self.reply(agent)):
                self.counts[k] += bit

    def observe(self, agent: str) -> Array:
        heard = [count / len(self.agents) for count in self.counts] if agent == self.agent_selection else [0.0] * 4
        own = [float(k == self.preference[agent]) for k in range(len(QUALITIES))]
        return np.array([*heard, float(agent == self.agent_selection), *own, self.flip], np.float32)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        self._cumulative_rewards[agent] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        option = int(action[0])
        if option < len(QUALITIES):
            signal = self.random.random() < QUALITIES[option]
            self.rewards[agent] = float(signal)
            if action[2 if signal else 1]:
                self.preference[agent] = option
        self.schedule()
        for name in self.agents:
            self._cumulative_rewards[name] += self.rewards[name]
            self.truncations[name] = self.time > self.horizon
            self.infos[name] = {"time": self.time}


def aec_microseconds(env: Any, num_agents: int, ticks: int) -> float:
    """Per tick of PPCL in an AEC environment that was reset."""
    rng = np.random.default_rng(0)
    q = 1 / (math.exp(EPSILON / 2) + 1)
    started = time.process_time()
    for _ in range(ticks):
        observation, _, _, _, _ = env.last()
        estimate = np.clip((observation[:4] - q) / (1 - 2 * q), 0, 1)
        total = estimate.sum()
        own = int(observation[5:9].argmax())
        keeps = total == 0 or estimate[own] / total >= 7 / 8
        option = 4 if keeps else int(np.searchsorted(np.cumsum(estimate), rng.random() * total, side="right"))
        env.step(np.array([min(option, 4), 0, 1]))
    return (time.process_time() - started) / ticks * 1e6


def jump_seconds(
    runs: int, agents: int, until: float, *, fast: bool, threads: int = 1, seed: int = 1
) -> tuple[float, float, Any]:
    """(seconds, ticks, metrics) of a simulation by the fast form; with several threads, seconds on the wall."""
    compiled.COMPILE_FROM = 0 if fast else 10**18
    vars(loops)["num_threads"] = lambda: threads
    clock = time.process_time if threads == 1 else time.perf_counter
    env = gossip_bandit_v0.population(num_envs=runs, num_agents=agents, qualities=QUALITIES)
    started = clock()
    run = taciturn.simulate(env, PPCL(EPSILON), seed=seed, until=until, privacy="paper")
    return clock() - started, float(run.metrics["ticks"].sum()), run.metrics


def aec(agents: int) -> Any:
    env = gossip_bandit_v0.env(num_agents=agents, qualities=QUALITIES)
    return Privatize(env, "preference", BitwiseRandomizedResponse(EPSILON))


def main() -> None:
    jump_seconds(10, 10, 1.0, fast=True)  # compiles
    fast = [jump_seconds(RUNS, AGENTS, UNTIL, fast=True) for _ in range(REPEATS)]
    slow, same = (jump_seconds(FEW_RUNS, AGENTS, BEGINNING, fast=fast) for fast in (False, True))
    for name, values in slow[2].items():
        np.testing.assert_array_equal(values, same[2][name])
    seconds, ticks = statistics.median(part[0] for part in fast), fast[0][1]
    threads = [jump_seconds(RUNS, AGENTS, UNTIL, fast=True, threads=2)[0] for _ in range(REPEATS)]

    hand, times = GossipByHand(AGENTS), []
    hand.reset(seed=0)
    times = [aec_microseconds(hand, AGENTS, 200) for _ in range(REPEATS)]
    by_hand = statistics.median(times)
    thousand, view = GossipByHand(1000), aec(1000)
    thousand.reset(seed=0)
    view.reset(seed=0)
    pairs = [(aec_microseconds(thousand, 1000, 100), aec_microseconds(view, 1000, 300)) for _ in range(REPEATS)]
    ratios = sorted(one / other for one, other in pairs)
    large = jump_seconds(1, 100_000, UNTIL, fast=True)
    result = {
        "ticks": ticks,
        "compiled_seconds": round(seconds, 2),
        "compiled_seconds_all": [round(part[0], 2) for part in fast],
        "compiled_ns_per_tick": round(seconds / ticks * 1e9, 1),
        "uncompiled_ns_per_tick": round(slow[0] / slow[1] * 1e9, 1),
        "billion_ticks_two_threads_wall_seconds": round(statistics.median(threads) / ticks * 1e9, 1),
        "by_hand_us_per_tick": round(by_hand, 1),
        "compiled_times_faster_than_by_hand": round(by_hand * 1e-6 / (seconds / ticks)),
        "agents_100000": {"seconds": round(large[0], 2), "ticks": large[1]},
        "view_of_1000_agents": {
            "by_hand_us": round(statistics.median(one for one, _ in pairs), 1),
            "view_us": round(statistics.median(other for _, other in pairs), 1),
            "times_faster": round(statistics.median(ratios), 1),
            "range": [round(ratios[0], 1), round(ratios[-1], 1)],
        },
        "repeats": REPEATS,
    }
    for key, value in result.items():
        print(f"{key}: {value}")
    record("gossip", result, ("taciturn", "numpy", "numba", "pettingzoo"))


if __name__ == "__main__":
    main()
