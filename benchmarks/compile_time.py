"""What compiling the worlds takes, once and from the cache: `python benchmarks/compile_time.py`.

Each in a process of its own, with an empty folder of compiled code and then with what the first left there: CPU seconds
of a reset and a step of a world that compiles at once, those of importing Numba included, less those of one that never
does; and how much memory the process takes.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from common import record

REPEATS = 3
WORLDS = {
    "RoundStopping-v0": "round_stopping_v0", "GossipBandit": "gossip_bandit_v0",
    "FederatedBandit": "federated_bandit_v0", "ArmElimination-v0": "arm_elimination_v0",
    "Elicitation": "elicitation_v0", "SocialBandit": "social_bandit_v0", "Recommender": "recommender_v0",
}  # fmt: skip
RUN = """
import resource, sys, time
from taciturn.envs import {world} as world
from taciturn.compiling import compiled
compiled.COMPILE_FROM = {compile_from}
env = world.population(1)
begun = time.process_time()
env.reset(seed=0)
for _ in env.turns or (0,):
    actions = {{}}
    for role in env.turn:
        space = env.roles[role].action_space
        actions[role] = [[space.sample() for _ in range(env.rows(role))]]
    env.step(actions if len(env.roles) > 1 else actions[env.turn[0]])
seconds = time.process_time() - begun
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def seconds(world: str, compile_from: float, cache: str) -> tuple[float, float]:
    """(CPU seconds of a reset and a step, MB), in a process of its own."""
    command = [sys.executable, "-c", RUN.format(world=world, compile_from=compile_from)]
    done = subprocess.run(
        command, env=os.environ | {"TACITURN_CACHE": cache}, capture_output=True, text=True, check=True
    )
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


def main() -> None:
    once: dict[str, float] = {}
    cached: dict[str, float] = {}
    memory: dict[str, float] = {}
    for name, world in WORLDS.items():
        results: list[tuple[float, float, float]] = []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as cache:
                plain, _ = seconds(world, 10**18, cache)
                first, _ = seconds(world, 0, cache)
                again, megabytes = seconds(world, 0, cache)
            results.append((first - plain, again - plain, megabytes))
        once[name], cached[name], memory[name] = (
            round(statistics.median(values), 2) for values in zip(*results, strict=True)
        )
        print(f"{name}: {once[name]} s once, then {cached[name]} s and {memory[name]:.0f} MB", flush=True)
    found_all = {"once": once, "cached": cached, "megabytes": memory}
    record("compile_time", found_all, ("taciturn", "numpy", "numba", "llvmlite"))


if __name__ == "__main__":
    main()
