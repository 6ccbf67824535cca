"""What `ParallelView` costs with 1,000 agents, against the same world written by hand with dicts: `python benchmarks/parallel_view.py`.

Both play the same votes with the same luck (checked before the clock starts), in turns within one process. Prints a JSON
document and writes it to `benchmarks/results/parallel_view.json`.
"""

import json
import platform
import statistics
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pettingzoo

from taciturn.envs.core import Array, Layout, ParallelView, Population, Role, Streams, World, integer

AGENTS, STEPS, REPEATS, OPTIONS = 1000, 50, 15, 3


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = AGENTS
    horizon: int = 10**6

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1)
        integer("horizon", self.horizon, at_least=1)


@dataclass(frozen=True)
class State:
    opinion: Array  # float64[B, N]
    heard: Array  # float64[B]
    shares: Array  # float64[B, 3]
    time: Array  # int64[B]


class Votes(Population[State]):
    """Everyone votes at once and hears the mean opinion; a vote earns its share of the votes, and luck."""

    name = "votes"
    params: Params

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(opinion=(1, 0, 1), heard=(1, 0, 1), shares=(OPTIONS, 0, 1))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(OPTIONS)),)

    def initial(self) -> State:
        size = self.num_envs
        opinion = self.stream("opinions").random((size, self.params.num_agents))
        return State(opinion, np.full(size, 0.5), np.full((size, OPTIONS), 1 / OPTIONS), np.zeros(size, np.int64))

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        votes = actions["agent"]
        shares = (votes[:, :, None] == np.arange(OPTIONS)).mean(1)
        heard = state.opinion.mean(1)
        reward = np.take_along_axis(shares, votes, 1) + self.stream("luck").random(votes.shape)
        new = State(0.9 * state.opinion + 0.1 * heard[:, None], heard, shares, state.time + 1)
        return (
            new,
            {"agent": reward},
            np.zeros(len(votes), np.bool_),
            new.time >= self.params.horizon,
            {"time": new.time},
        )

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        size, agents = state.opinion.shape
        return self.roles[role].layout.pack(
            opinion=state.opinion,
            heard=np.broadcast_to(state.heard[:, None], (size, agents)),
            shares=np.broadcast_to(state.shares[:, None], (size, agents, OPTIONS)),
        )


class VotesByHand(pettingzoo.ParallelEnv[str, Array, int]):  # type: ignore[misc] # PettingZoo has no types
    """The same world as one would write it for PettingZoo: a dict an agent, a loop over agents."""

    metadata = {"name": "votes"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, num_agents: int = AGENTS, horizon: int = 10**6) -> None:
        self.horizon = horizon
        self.possible_agents = [f"agent_{i}" for i in range(num_agents)]
        observation = gymnasium.spaces.Box(0.0, 1.0, (2 + OPTIONS,), np.float32)
        self.observation_spaces = dict.fromkeys(self.possible_agents, observation)
        self.action_spaces = {agent: gymnasium.spaces.Discrete(OPTIONS) for agent in self.possible_agents}

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        streams = Streams(seed)
        self.luck = streams["luck"]
        self.agents = list(self.possible_agents)
        self.opinion = {agent: streams["opinions"].random() for agent in self.agents}
        self.heard, self.shares, self.time = 0.5, [1 / OPTIONS] * OPTIONS, 0
        return {agent: self.observe(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def observe(self, agent: str) -> Array:
        return np.array([self.opinion[agent], self.heard, *self.shares], dtype=np.float32)

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        counts = [0] * OPTIONS
        for agent in self.agents:
            counts[actions[agent]] += 1
        self.shares = [count / len(self.agents) for count in counts]
        self.heard = sum(self.opinion.values()) / len(self.agents)
        self.time += 1
        observations, rewards, terminations, truncations, infos = {}, {}, {}, {}, {}
        for agent in self.agents:
            self.opinion[agent] = 0.9 * self.opinion[agent] + 0.1 * self.heard
            rewards[agent] = self.shares[actions[agent]] + self.luck.random()
            observations[agent] = self.observe(agent)
            terminations[agent] = False
            truncations[agent] = self.time >= self.horizon
            infos[agent] = {"time": self.time}
        if self.time >= self.horizon:
            self.agents = []
        return observations, rewards, terminations, truncations, infos


def check_same_world(view: ParallelView, by_hand: VotesByHand, actions: list[dict[str, int]]) -> None:
    """Raise AssertionError unless both tell the same story."""
    stories = [
        [env.reset(seed=1)[0], *(part for chosen in actions for part in env.step(chosen))] for env in (view, by_hand)
    ]
    for one, other in zip(*stories, strict=True):
        assert list(one) == list(other)
        for agent in one:
            assert (
                np.allclose(one[agent], other[agent], rtol=1e-6) if not isinstance(one[agent], dict) else one == other
            )


def seconds_per_step(env: Any, actions: list[dict[str, int]]) -> float:
    started = time.perf_counter()
    for chosen in actions:
        env.step(chosen)
    return (time.perf_counter() - started) / len(actions)


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def main() -> None:
    view, by_hand = World(Votes, Params).parallel_env(), VotesByHand()
    votes = np.random.default_rng(0).integers(0, OPTIONS, (STEPS, AGENTS)).tolist()
    actions = [dict(zip(view.possible_agents, row, strict=True)) for row in votes]
    check_same_world(view, by_hand, actions[:3])
    view.reset(seed=0)
    by_hand.reset(seed=0)
    times = [(seconds_per_step(by_hand, actions), seconds_per_step(view, actions)) for _ in range(REPEATS)]
    ratios = sorted(hand / ours for hand, ours in times)
    result = {
        "agents": AGENTS,
        "by_hand_ms_per_step": round(1e3 * statistics.median(hand for hand, _ in times), 4),
        "parallel_view_ms_per_step": round(1e3 * statistics.median(ours for _, ours in times), 4),
        "times_faster": round(statistics.median(ratios), 2),
        "times_faster_range": [round(ratios[0], 2), round(ratios[-1], 2)],
        "repeats": REPEATS,
        "steps": STEPS,
        "machine": {"processor": processor(), "system": platform.system()},
        "versions": {"python": platform.python_version()}
        | {package: version(package) for package in ("taciturn", "numpy", "gymnasium", "pettingzoo")},
    }
    text = json.dumps(result, indent=2)
    file = Path(__file__).parent / "results" / "parallel_view.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
