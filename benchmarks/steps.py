"""Steps where most loops stand, against the environments that everyone knows: `python benchmarks/steps.py`.

- A step of a single agent beside CartPole-v1's, by `gymnasium.make` and in Stable-Baselines3's DummyVecEnv.
- Steps of 3, 10 and 1,000 agents in PettingZoo's Parallel and AEC forms, beside an environment that does nothing: it
  has the same spaces and agents, and returns fresh observations, all alike, rewards, flags and empty infos. Of 3 agents
  also beside mpe2's simple_spread.
- A step of gossip as arrays, one run of 1,000,000 agents beside one of 1,000.

Infos are plain dicts, made at every step. Worlds that compile do so before the clock starts. Actions are drawn
beforehand, and a run that ends is reset within the time. Ours and the peer take turns within one process, and what
counts is the ratio of CPU times within a turn. `python benchmarks/steps.py NAME...` measures and records only rows
whose name begins so; `--profile NAME` prints where the time of a row goes.
"""

import cProfile
import json
import pstats
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import gymnasium
import numpy as np
import pettingzoo
from common import record
from goals import BESIDE_NOTHING, MORE, RATES, RESETS
from mpe2 import simple_spread_v3
from reference_implementations import REFERENCE_IMPLEMENTATIONS
from stable_baselines3.common.vec_env import DummyVecEnv

import taciturn
from taciturn.compiling import compiled
from taciturn.envs import WORLDS, gossip_bandit_v0
from taciturn.envs.core import loops
from taciturn.registry import make_world

REPEATS, MILLISECONDS = 15, 60
AGENTS = {
    world.name: world.size
    for world in WORLDS
    if world.name in REFERENCE_IMPLEMENTATIONS and (world.others or world.one_agent)
}
"""The parameter that says how many agents there are, of the worlds of many."""
SINGLE = {world.id.removeprefix("taciturn/"): world.times_cartpole for world in WORLDS if not world.others}


class Row(NamedTuple):
    """What is measured, beside which peer, its name, and the share of the peer's time that it may take (None: nothing
    is asked)."""

    ours: Callable[[], Callable[[int], None]]
    beside: Callable[[], Callable[[int], None]]
    peer: str
    at_most: float | None


class NothingParallel(pettingzoo.ParallelEnv[str, Any, Any]):  # type: ignore[misc] # PettingZoo has no types
    """Does nothing, with the agents and spaces of another environment."""

    metadata = {"name": "nothing"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, like: Any) -> None:
        self.possible_agents = list(like.possible_agents)
        self.spaces = {a: (like.observation_space(a), like.action_space(a)) for a in self.possible_agents}
        first = self.spaces[self.possible_agents[-1]][0]
        self.shape = (len(self.possible_agents), *first.shape)

    def observation_space(self, agent: str) -> Any:
        return self.spaces[agent][0]

    def action_space(self, agent: str) -> Any:
        return self.spaces[agent][1]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = list(self.possible_agents)
        return dict(zip(self.agents, np.full(self.shape, 0.5, np.float32), strict=True)), {a: {} for a in self.agents}

    def step(self, actions: Any) -> Any:
        agents = self.agents
        seen = dict(zip(agents, np.full(self.shape, 0.5, np.float32), strict=True))
        flags = dict.fromkeys(agents, False)
        return seen, dict.fromkeys(agents, 0.0), flags, flags.copy(), {agent: {} for agent in agents}


class NothingAEC(pettingzoo.AECEnv[str, Any, Any]):  # type: ignore[misc] # PettingZoo has no types
    """A step of PettingZoo's AEC form: one agent at a time."""

    metadata = {"name": "nothing"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, like: Any) -> None:
        self.possible_agents = list(like.possible_agents)
        self.spaces = {a: (like.observation_space(a), like.action_space(a)) for a in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return self.spaces[agent][0]

    def action_space(self, agent: str) -> Any:
        return self.spaces[agent][1]

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.turn = list(self.possible_agents), 0
        self.rewards, self._cumulative_rewards = (dict.fromkeys(self.agents, 0.0) for _ in range(2))
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def observe(self, agent: str) -> Any:
        return np.full(self.spaces[agent][0].shape, 0.5, np.float32)

    def step(self, action: Any) -> None:
        self._cumulative_rewards[self.agent_selection] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.turn = (self.turn + 1) % len(self.agents)
        self.agent_selection = self.agents[self.turn]


def single(name: str) -> Callable[[int], None]:
    """Steps of a Gymnasium environment."""
    env = gymnasium.make(name)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(64)]

    def play(steps: int) -> None:
        for i in range(steps):
            _, _, terminated, truncated, _ = env.step(actions[i % 64])
            if terminated or truncated:
                env.reset()

    return play


def in_dummy(name: str) -> Callable[[int], None]:
    """Steps in Stable-Baselines3's DummyVecEnv, which resets what has ended."""
    env = DummyVecEnv([partial(gymnasium.make, name)])
    env.reset()
    env.action_space.seed(0)
    actions = [np.array([env.action_space.sample()]) for _ in range(64)]

    def play(steps: int) -> None:
        for i in range(steps):
            env.step(actions[i % 64])

    return play


def ticks(num_agents: int) -> Callable[[int], None]:
    """Steps of one run of gossip as arrays, infos unread: what agents see and earn."""
    env = gossip_bandit_v0.population(1, num_agents=num_agents, horizon=1e9 / num_agents)
    env.reset(seed=0)
    actions = [np.array([[[k % 5, 0, 1]]]) for k in range(64)]

    def play(steps: int) -> None:
        for i in range(steps):
            env.step(actions[i % 64])

    return play


def parallel(env: Any) -> Callable[[int], None]:
    """Steps of a PettingZoo Parallel environment."""
    env.reset(seed=0)
    actions = [{agent: env.action_space(agent).sample() for agent in env.possible_agents} for _ in range(64)]

    def play(steps: int) -> None:
        for i in range(steps):
            env.step(actions[i % 64])
            if not env.agents:
                env.reset()

    return play


def cycles(env: Any) -> Callable[[int], None]:
    """Turns of an AEC environment, one agent each."""
    env.reset(seed=0)
    actions = {agent: env.action_space(agent).sample() for agent in env.possible_agents}

    def play(steps: int) -> None:
        for _ in range(steps):
            agent = env.agent_selection
            _, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else actions[agent])
            if not env.agents:
                env.reset()

    return play


def played(play: Callable[[Any], Callable[[int], None]], make: Callable[[], Any]) -> Callable[[int], None]:
    return play(make())


def of_world(form: str, name: str, agents: int) -> Any:
    """A world of so many agents in the form `parallel_env` or `env`."""
    return getattr(make_world(name), form)(**{"horizon": 1000, AGENTS[name]: agents})


def like(nothing: Callable[[Any], Any], make: Callable[[], Any]) -> Any:
    """An environment that does nothing, like the one that is made."""
    return nothing(make())


def rows() -> dict[str, Row]:
    """All rows by name."""
    cart = partial(single, "CartPole-v1")
    results = {
        f"single, {name}": Row(partial(single, f"taciturn/{name}"), cart, "CartPole-v1", most)
        for name, most in SINGLE.items()
    }
    stopping, cart = partial(in_dummy, "taciturn/RoundStopping-v0"), partial(in_dummy, "CartPole-v1")
    results["DummyVecEnv, RoundStopping-v0"] = Row(stopping, cart, "CartPole-v1 in DummyVecEnv", 1.2)
    for name in AGENTS:
        make = partial(of_world, "parallel_env", name, 3)
        spread = partial(played, parallel, partial(simple_spread_v3.parallel_env, N=3, max_cycles=1000))
        results[f"simple_spread, 3 agents, {name}"] = Row(
            partial(played, parallel, make), spread, "simple_spread, N=3", 0.1
        )
    forms: Any = {"parallel": ("parallel_env", parallel, NothingParallel), "AEC": ("env", cycles, NothingAEC)}
    for (form, name), goals in BESIDE_NOTHING.items():
        attribute, play, nothing = forms[form]
        for few, most in goals.items():
            make = partial(of_world, attribute, name, few)
            idle = partial(played, play, partial(like, nothing, make))
            results[f"{form}, {few} agents, {name}"] = Row(partial(played, play, make), idle, "doing nothing", most)
    results["array, gossip, 1,000,000 agents"] = Row(partial(ticks, 10**6), partial(ticks, 10**3), "1,000 agents", 2.0)
    return results


ROWS = rows()


def seconds(play: Callable[[int], None], steps: int) -> float:
    """CPU time of a step."""
    started = time.process_time()
    play(steps)
    return (time.process_time() - started) / steps


def measure(row: Row) -> dict[str, Any]:
    """Medians of times in microseconds, and of the ratio within a turn, with its range."""
    plays = [row.ours(), row.beside()]
    steps = []
    for play in plays:
        play(20)
        steps.append(max(5, int(MILLISECONDS / 1000 / seconds(play, 50))))
    times = [[seconds(play, count) for play, count in zip(plays, steps, strict=True)] for _ in range(REPEATS)]
    ratios = sorted(ours / peer for ours, peer in times)
    ours, peer = (round(1e6 * statistics.median(column), 1) for column in zip(*times, strict=True))
    return {
        "us": ours,
        "peer": row.peer,
        "peer_us": peer,
        "ratio": round(statistics.median(ratios), 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)],
        "at_most": row.at_most,
    }


def reset_us(name: str) -> float:
    """CPU time of a reset, in microseconds."""
    env = gymnasium.make(f"taciturn/{name}")
    env.reset(seed=0)

    def play(steps: int) -> None:
        for _ in range(steps):
            env.reset()

    play(100)
    return round(1e6 * statistics.median(seconds(play, 500) for _ in range(REPEATS)), 1)


def seconds_a_million(name: str) -> float:
    """CPU time of a million steps of single agents, as arrays of 2,000 replicas."""
    env = make_world(name).population(2000, **RATES[name][0])
    env.reset(seed=0)
    (role,) = env.roles.values()
    rng = np.random.default_rng(0)
    shape, space = (2000, role.num_agents), role.action_space
    most: Any = space.nvec if isinstance(space, gymnasium.spaces.MultiDiscrete) else space.n
    actions = [rng.integers(0, most, (*shape, *space.shape)) for _ in range(4)]

    def play(steps: int) -> None:
        for i in range(steps):
            env.step(actions[i % 4])

    play(3)
    return round(1e6 / (2000 * role.num_agents) * statistics.median(seconds(play, 8) for _ in range(REPEATS)), 3)


def faults(with_buffer: bool) -> float:
    """Page faults of an array step of the federated bandit, 20,000 replicas of 20 agents."""
    env = make_world("federated_bandit_v0").population(20_000, num_agents=20, num_arms=5, horizon=10**6)
    observation, _ = env.reset(seed=0)
    actions = np.zeros((20_000, 20), np.int64)
    out = np.empty_like(observation) if with_buffer else None
    for _ in range(3):
        env.step(actions, out=out)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        env.step(actions, out=out)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 5


def main() -> None:
    warnings.simplefilter("ignore")
    compiled.COMPILE_FROM = 0
    vars(loops)["num_threads"] = lambda: 1
    arguments = sys.argv[1:]
    if arguments[:1] == ["--profile"]:
        play = ROWS[arguments[1]].ours()
        play(100)
        with cProfile.Profile() as profile:
            play(2000)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    file = Path(__file__).parent / "results/steps.json"
    result = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() and arguments else {}
    for name, row in ROWS.items():
        if not arguments or name.startswith(tuple(arguments)):
            result[name] = one = measure(row)
            wanted = "" if row.at_most is None else f" (at most {row.at_most})"
            print(f"{name}: {one['us']} us, {one['ratio']} of {row.peer}{wanted}", flush=True)
    kept = {name: result[name] for name in ROWS if name in result}
    more: dict[str, Any] = {}
    if not arguments or "more" in arguments:
        more["reset_us"] = {name: reset_us(name) for name in RESETS}
        more["seconds_a_million"] = {name: seconds_a_million(name) for name in RATES}
        more["page_faults"] = {"fresh": faults(False), "out": faults(True)}
        for what, values in more.items():
            print(f"{what}: {values}", flush=True)
    elif file.exists():
        more = {key: one for key, one in json.loads(file.read_text(encoding="utf-8")).items() if key in MORE}
    record("steps", {"repeats": REPEATS, "rows": kept} | more, ("taciturn", "numpy", "gymnasium", "pettingzoo", "mpe2"))


if __name__ == "__main__":
    print(f"taciturn {taciturn.__version__}")
    main()
