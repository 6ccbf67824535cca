"""What compiling the worlds takes, once and from the cache: `python benchmarks/compile_time.py`.

Each in a process of its own, with an empty cache and then with what the first left there: CPU seconds of a reset and a
step of a world that compiles at once, less those of one that never does, and less those of importing Numba, which are
given apart.
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
    "Elicitation": "elicitation_v0",
}  # fmt: skip
RUN = """
import sys, time
from taciturn.envs import {world} as world
from taciturn.envs.core import compiled
begun = time.process_time()
import numba
numba_s = time.process_time() - begun
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
print(time.process_time() - begun, numba_s)
"""


def seconds(world: str, compile_from: float, cache: str) -> tuple[float, float]:
    """(of a reset and a step, of importing Numba), in a process of its own."""
    command = [sys.executable, "-c", RUN.format(world=world, compile_from=compile_from)]
    done = subprocess.run(
        command, env=os.environ | {"NUMBA_CACHE_DIR": cache}, capture_output=True, text=True, check=True
    )
    run, numba = map(float, done.stdout.split())
    return run, numba


def main() -> None:
    once: dict[str, float] = {}
    cached: dict[str, float] = {}
    imports = []
    for name, world in WORLDS.items():
        found: list[tuple[float, float]] = []
        for _ in range(REPEATS):
            with tempfile.TemporaryDirectory() as cache:
                plain, _ = seconds(world, 10**18, cache)
                first, numba = seconds(world, 0, cache)
                again, _ = seconds(world, 0, cache)
            found.append((first - plain, again - plain))
            imports.append(numba)
        once[name], cached[name] = (round(statistics.median(times), 2) for times in zip(*found, strict=True))
        print(f"{name}: {once[name]} s once, {cached[name]} s from the cache", flush=True)
    numba = round(statistics.median(imports), 2)
    print(f"importing Numba: {numba} s")
    record("compile_time", {"once": once, "cached": cached, "import_numba": numba}, ("taciturn", "numpy", "numba"))


if __name__ == "__main__":
    main()
