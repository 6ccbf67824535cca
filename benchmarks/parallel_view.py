"""PettingZoo Parallel steps of 1,000 agents, against the same worlds written by hand with dicts: `python
benchmarks/parallel_view.py`.

First a world that hardly computes anything, votes, so that what remains is what `ParallelView` costs; both play the
same votes with the same luck, which is checked before the clock starts. Then every registered world with as many agents
under random actions, beside its twin of `tests/reference_implementations`, which plays the same runs, as
`tests/test_by_hand.py` checks. Arm elimination has one agent, who coordinates 1,000. They take turns within one
process, and the CPU time of steps alone is counted; worlds are compiled before. Both make all infos at every step.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import gymnasium
import numpy as np
import pettingzoo
from common import record
from reference_implementations import REFERENCE_IMPLEMENTATIONS
from reference_implementations.by_hand import numbers

from taciturn import registry
from taciturn.compiling import compiled
from taciturn.envs.core import (
    Array,
    Functions,
    Layout,
    ParallelView,
    Replicas,
    Role,
    World,
    fields,
    fill,
    integer,
    uniform,
)
from taciturn.validation import Floats, Ints

AGENTS, STEPS, REPEATS, OPTIONS = 1000, 50, 15, 3
FEW, FEWER = 8, 9
LEAN = "recommender_v0, by hand without regret"


@dataclass(frozen=True, kw_only=True)
class Params:
    num_agents: int = AGENTS
    horizon: int = 10**6

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1)
        integer("horizon", self.horizon, at_least=1)


@dataclass(frozen=True)
class State:
    opinion: Floats = fields.own(lambda p: p.num_agents)
    vote: Ints = fields.own(lambda p: p.num_agents)
    heard: Floats = fields.public()
    shares: Floats = fields.public(lambda p: OPTIONS)
    time: Ints = fields.public()


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    fill(arrays.opinion, rng, 0)
    state.heard = 0.5
    for option in range(OPTIONS):
        arrays.shares[option] = 1 / OPTIONS


def vote(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    for option in range(OPTIONS):
        arrays.shares[option] = 0.0
    total = 0.0
    for agent in range(params.num_agents):
        arrays.vote[agent] = actions[agent]
        arrays.shares[actions[agent]] += 1.0
        total += arrays.opinion[agent]
    for option in range(OPTIONS):
        arrays.shares[option] /= params.num_agents
    state.heard = total / params.num_agents
    state.time += 1


def sway(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    for agent in range(params.num_agents):
        arrays.opinion[agent] = 0.9 * arrays.opinion[agent] + 0.1 * state.heard
        reward[agent] = arrays.shares[arrays.vote[agent]] + uniform(rng, 1)
    return False, state.time >= params.horizon


def observe(seen: Any, params: Any, out: Any) -> None:
    out[0], out[1] = seen.opinion, seen.heard
    for option in range(OPTIONS):
        out[2 + option] = seen.shares[option]


class Votes(Replicas[State]):
    """Everyone votes at once and hears the mean opinion; a vote earns its share of the votes, and luck."""

    name = "votes"
    params: Params
    state_type, sources, info_fields = State, ("opinions", "luck"), ("time",)
    functions = Functions(reset=begin, act=vote, receive=sway, observe=observe)

    def make_roles(self) -> tuple[Role, ...]:
        layout = Layout(opinion=(1, 0, 1), heard=(1, 0, 1), shares=(OPTIONS, 0, 1))
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(OPTIONS)),)


class VotesByHand(pettingzoo.ParallelEnv[str, Array, int]):  # type: ignore[misc] # PettingZoo has no types
    """The votes as one would write it for PettingZoo: a dict an agent, a loop over agents."""

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
        opinions, self.luck = numbers(seed, "opinions"), numbers(seed, "luck")
        self.agents = list(self.possible_agents)
        self.opinion = {agent: opinions.random() for agent in self.agents}
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


def seconds_per_step(env: Any, actions: list[dict[str, Any]]) -> float:
    """CPU time; a run that ends begins anew outside of it."""
    spent = 0.0
    for chosen in actions:
        started = time.process_time()
        env.step(chosen)
        spent += time.process_time() - started
        if not env.agents:
            env.reset(seed=1)
    return spent / len(actions)


def compare(view: ParallelView, by_hand: Any, actions: list[dict[str, Any]], repeats: int) -> dict[str, Any]:
    """Medians of turns, in which both take the same steps."""
    for env in (view, by_hand):
        env.reset(seed=0)
        seconds_per_step(env, actions[:2])
    times = [(seconds_per_step(by_hand, actions), seconds_per_step(view, actions)) for _ in range(repeats)]
    ratios = sorted(hand / ours for hand, ours in times)
    return {
        "by_hand_ms_per_step": round(1e3 * statistics.median(hand for hand, _ in times), 4),
        "parallel_view_ms_per_step": round(1e3 * statistics.median(ours for _, ours in times), 4),
        "times_faster": round(statistics.median(ratios), 2),
        "times_faster_range": [round(ratios[0], 2), round(ratios[-1], 2)],
    }


def compare_votes() -> dict[str, Any]:
    view, by_hand = World(Votes, Params).parallel_env(), VotesByHand()
    votes = np.random.default_rng(0).integers(0, OPTIONS, (STEPS, AGENTS)).tolist()
    actions = [dict(zip(view.possible_agents, row, strict=True)) for row in votes]
    check_same_world(view, by_hand, actions[:3])
    return compare(view, by_hand, actions, REPEATS)


def compare_world(name: str, **by_hand: Any) -> dict[str, Any]:
    """A registered world, under random actions; `by_hand` are arguments of its twin."""
    known = registry.entry(name)
    view = known.world.parallel_env(**{known.size: AGENTS}, horizon=10**6)
    reference_implementation: Any = REFERENCE_IMPLEMENTATIONS[name].made
    reference_implementation = reference_implementation(AGENTS, horizon=10**6, **by_hand)
    for i, agent in enumerate(view.possible_agents):
        view.action_space(agent).seed(i)
    actions = [{agent: view.action_space(agent).sample() for agent in view.possible_agents} for _ in range(FEW)]
    return compare(view, reference_implementation, actions, FEWER)


def main() -> None:
    warnings.simplefilter("ignore")
    compiled.COMPILE_FROM = 0  # before the clock starts
    result = compare_votes()
    print(f"votes: {result}", flush=True)
    rows = {}
    for name in REFERENCE_IMPLEMENTATIONS:
        rows[name] = compare_world(name)
        print(f"{name}: {rows[name]}", flush=True)
    rows[LEAN] = compare_world("recommender_v0", info_has_regret=False)
    print(f"{LEAN}: {rows[LEAN]}", flush=True)
    counts = {"agents": AGENTS, "repeats": REPEATS, "steps": STEPS, "repeats_of_worlds": FEWER, "steps_of_worlds": FEW}
    packages = ("taciturn", "numpy", "gymnasium", "pettingzoo")
    record("parallel_view", counts | result | {"worlds": rows}, packages)


if __name__ == "__main__":
    main()
