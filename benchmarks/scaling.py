"""Time and memory of a step, against the number of agents and of replicas: `python benchmarks/scaling.py`.

Every world plays with from 10 to 1,000,000 agents in one replica, and with from 10 to 100,000 replicas of a few agents.
Each size has a process of its own, so that its memory is its own: the most that it held beyond what importing took. All
agents repeat one valid action. Steps are those of `Population.step`, with observations. A size that takes more than a
minute, or has no room, is left out, and so are the larger ones. The plot goes to `docs/_static/scaling.png`.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import record

from taciturn.envs import WORLDS
from taciturn.envs.core import Population
from taciturn.registry import make_world

DOCS = Path(__file__).resolve().parents[1] / "docs/_static"
STEPS, SECONDS, LIMIT = 20, 1.0, 60
NUMBER = {world.name: world.size for world in WORLDS if world.size}
ALONE = [world.name for world in WORLDS if not world.size]
FEW: dict[str, Any] = {"federated_bandit_v0": {"num_arms": 10}, "recommender_v0": {"num_items": 400, "repository": 200}}
AGENTS, REPLICAS = (10, 100, 1_000, 10_000, 100_000, 1_000_000), (10, 100, 1_000, 10_000, 100_000)


def population(world: str, axis: str, size: int) -> Population[Any]:
    """A world of so many agents, or so many replicas of it."""
    few = dict(FEW.get(world, {}))
    if world == "recommender_v0" and size > 1_000 and axis == "agents":
        few["graph"] = "star"
    if axis == "agents":
        return make_world(world).population(1, **few | {NUMBER[world]: size})
    return make_world(world).population(size, **few | ({NUMBER[world]: 5} if world in NUMBER else {}))


def alike(env: Population[Any]) -> Any:
    """One valid action for all agents whose turn it is, by role if there are several."""
    results = {}
    for name in env.turn:
        role = env.roles[name]
        role.action_space.seed(0)
        one = np.asarray(role.action_space.sample())
        results[name] = np.broadcast_to(one, (env.num_envs, env.rows(name), *one.shape))
    return results if len(env.roles) > 1 else next(iter(results.values()))


def measure(world: str, axis: str, size: int) -> dict[str, float]:
    """Median seconds of a step, and the memory in megabytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    env = population(world, axis, size)
    env.reset(seed=0)
    times, begun = list[float](), time.perf_counter()
    while len(times) < STEPS and (len(times) < 3 or time.perf_counter() - begun < SECONDS):
        actions = alike(env)
        started = time.perf_counter()
        env.step(actions)
        times.append(time.perf_counter() - started)
        if env.done.all():
            env.reset()
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"seconds": float(f"{statistics.median(times):.4g}"), "megabytes": round(held / 1024, 1)}


def measured(world: str, axis: str, sizes: tuple[int, ...]) -> list[dict[str, float]]:
    """Of each size that finishes, in processes of their own."""
    results = []
    for size in sizes:
        command = [sys.executable, __file__, "--one", world, axis, str(size)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            break
        results.append({"size": size} | json.loads(done.stdout))
        print(f"{world}, {size} {axis}: {results[-1]['seconds']} s, {results[-1]['megabytes']} MB", flush=True)
    return results


def draw(found: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    """The plot: a panel for agents and one for replicas, a line a world."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    colors = dict(zip([*NUMBER, *ALONE], mpl.colormaps["tab10"].colors, strict=False))  # type: ignore[attr-defined]
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    for panel, (axis, worlds) in zip(figure.subplots(1, 2, sharey=True), found.items(), strict=True):
        for world, rows in worlds.items():
            xs, ys = [row["size"] for row in rows], [1e3 * row["seconds"] for row in rows]
            panel.loglog(
                xs, ys, marker="o", markersize=3, color=colors[world], label=world.removesuffix("_v0").replace("_", " ")
            )
        panel.set_xlabel({"agents": "agents, in one replica", "replicas": "replicas, of at most 5 agents"}[axis])
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("ms per step")
    figure.savefig(DOCS / "scaling.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--one", nargs=3, metavar=("WORLD", "AXIS", "SIZE"), help="measure one size, in this process")
    asked = parser.parse_args()
    if asked.one:
        world, axis, size = asked.one
        print(json.dumps(measure(world, axis, int(size))))
        return
    results = {
        "agents": {world: measured(world, "agents", AGENTS) for world in NUMBER},
        "replicas": {world: measured(world, "replicas", REPLICAS) for world in (*NUMBER, *ALONE)},
    }
    record("scaling", {"steps": STEPS, **results}, ("taciturn", "numpy"))
    draw(results)


if __name__ == "__main__":
    main()
