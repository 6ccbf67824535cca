"""Steps of few agents, in the interfaces that most loops use, against the environments that everyone knows: `python benchmarks/steps.py`.

A step of a single agent beside CartPole-v1's; a PettingZoo Parallel step of 3 and of 10 agents, and a cycle in which each of 10 agents acts
once, beside mpe2's simple_spread. Actions are drawn beforehand, and a run that ends is reset within the time. Ours and the peer take turns
within one process, and what counts is the ratio of CPU times within a turn. `python benchmarks/steps.py NAME...` measures and records only
rows whose name begins so; `--profile NAME` prints where the time of a row goes.
"""

import cProfile
import json
import pstats
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from common import record
from mpe2 import simple_spread_v3

import taciturn
from taciturn.registry import make_world

REPEATS, MILLISECONDS = 15, 60
SINGLE = {
    "RoundStopping-v0": 3, "FederatedTraining-v0": None, "ArmElimination-v0": 10, "Elicitation-v0": 10,
}  # fmt: skip
AGENTS = {
    "gossip_bandit_v0": "num_agents", "social_bandit_v0": "num_agents", "federated_bandit_v0": "num_agents",
    "arm_elimination_v0": "num_agents", "recommender_v0": "num_agents", "elicitation_v0": "num_individuals",
}  # fmt: skip


class Row(NamedTuple):
    """What is measured, beside which peer, and the share of the peer's time that it may take (None: nothing is asked)."""

    ours: Callable[[], Callable[[int], None]]
    peer: str
    at_most: float | None


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
    """As many turns of an AEC environment as it has agents, each time."""
    env.reset(seed=0)
    size = len(env.possible_agents)
    actions = {agent: env.action_space(agent).sample() for agent in env.possible_agents}

    def play(steps: int) -> None:
        for _ in range(steps * size):
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


PEERS: dict[str, Callable[[], Callable[[int], None]]] = {
    "CartPole-v1": lambda: single("CartPole-v1"),
    "simple_spread, N=3": lambda: parallel(simple_spread_v3.parallel_env(N=3, max_cycles=1000)),
    "simple_spread, N=10": lambda: parallel(simple_spread_v3.parallel_env(N=10, max_cycles=1000)),
    "simple_spread as AEC, N=10": lambda: cycles(simple_spread_v3.env(N=10, max_cycles=1000)),
}


def rows() -> dict[str, Row]:
    """All rows by name."""
    found = {
        f"single, {name}": Row(partial(single, f"taciturn/{name}"), "CartPole-v1", most)
        for name, most in SINGLE.items()
    }
    for name in AGENTS:
        for few, most in ((3, 0.5), (10, 0.1)):
            make = partial(of_world, "parallel_env", name, few)
            found[f"parallel, {few} agents, {name}"] = Row(
                partial(played, parallel, make), f"simple_spread, N={few}", most
            )
        make = partial(of_world, "env", name, 10)
        found[f"cycle, 10 agents, {name}"] = Row(partial(played, cycles, make), "simple_spread as AEC, N=10", 0.3)
    return dict(sorted(found.items(), key=lambda row: list(PEERS).index(row[1].peer)))


ROWS = rows()


def seconds(play: Callable[[int], None], steps: int) -> float:
    """CPU time of a step."""
    started = time.process_time()
    play(steps)
    return (time.process_time() - started) / steps


def measure(row: Row) -> dict[str, Any]:
    """Medians of times in microseconds, and of the ratio within a turn, with its range."""
    plays = [row.ours(), PEERS[row.peer]()]
    steps = []
    for play in plays:
        play(20)
        steps.append(max(5, int(MILLISECONDS / 1000 / seconds(play, 50))))
    times = [[seconds(play, count) for play, count in zip(plays, steps, strict=True)] for _ in range(REPEATS)]
    ratios = sorted(ours / peer for ours, peer in times)
    ours, peer = (round(1e6 * statistics.median(column), 1) for column in zip(*times, strict=True))
    return {
        "us": ours, "peer": row.peer, "peer_us": peer, "ratio": round(statistics.median(ratios), 3),
        "range": [round(ratios[0], 3), round(ratios[-1], 3)], "at_most": row.at_most,
    }  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore")
    arguments = sys.argv[1:]
    if arguments[:1] == ["--profile"]:
        play = ROWS[arguments[1]].ours()
        play(100)
        with cProfile.Profile() as profile:
            play(2000)
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
        return
    file = Path(__file__).parent / "results/steps.json"
    found = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() and arguments else {}
    for name, row in ROWS.items():
        if not arguments or name.startswith(tuple(arguments)):
            found[name] = one = measure(row)
            wanted = "" if row.at_most is None else f" (at most {row.at_most})"
            print(f"{name}: {one['us']} us, {one['ratio']} of {row.peer}{wanted}", flush=True)
    kept = {name: found[name] for name in ROWS if name in found}
    record("steps", {"repeats": REPEATS, "rows": kept}, ("taciturn", "numpy", "gymnasium", "pettingzoo", "mpe2"))


if __name__ == "__main__":
    print(f"taciturn {taciturn.__version__}")
    main()
