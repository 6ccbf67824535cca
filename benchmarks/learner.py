"""Decisions that are trained in a CPU second: the suite's own trainer beside PPO of Stable-Baselines3, at the standard
tasks: `python benchmarks/learner.py`.

Stable-Baselines3 has a network of the same width, the same parallel environments, minibatches and epochs, and sees the
observation as it is, once through `RowsVecEnv` and, where a task has one agent, through DummyVecEnv. Both count every
decision of every agent, although the trainer's PPO updates its weights by a share of them (`keep`), in gossip by half,
and Stable-Baselines3 by all. The suite's trainer takes the task's own method: PPO, or evolution, which plays runs and
has no network; then Stable-Baselines3 has the settings of the trainer's PPO. Compilation and first rollouts are not
timed. All take turns in one process, on one thread, and the medians of CPU times count. `--profile NAME` prints where
the time of the suite's trainer goes.
"""

import cProfile
import pstats
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import torch
from common import record
from goals import TRAINING
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv

from taciturn.bench.comparisons import playing
from taciturn.bench.tasks import STANDARD, TASKS
from taciturn.bench.tasks.benchmark import TRAINER
from taciturn.compiling import compiled
from taciturn.policies.learned import ppo
from taciturn.policies.learned.evolution import Evolution
from taciturn.policies.learned.trained import costs, method_of
from taciturn.wrappers.sb3 import RowsVecEnv

REPEATS, LEAST = 5, 1.0  # turns of each, and the CPU seconds of each turn at least
TASK = {task.env: task for task in TASKS.values() if task.env in TRAINING and task.name == STANDARD}
ALONE = {"round_stopping_v0": "taciturn/RoundStopping-v0"}
"""Tasks of one agent, with their Gymnasium environment."""
ROWS_AT_ONCE = 300
"""Decisions of a step of `RowsVecEnv`, if the trainer's method names no parallel environments."""


def own(name: str) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A step of the suite's trainer in the middle of a training, and the number of decisions so far."""
    population = playing.population(playing.task_config(TASK[name], TRAINER), 1, "selection")
    population.reset(seed=0)
    view, role = population.view(), next(iter(population.roles))
    method = method_of(view)
    if method.name == "ppo":
        trainer: Any = ppo.PPO(view, role, method.agent(), method.checked(), 0)  # type: ignore[arg-type]
    else:
        cost = partial(costs, measure=method.measure)
        trainer = Evolution(view, role, method.agent(), cost, method.checked(), 0)  # type: ignore[arg-type]
    return partial(trainer.iterate, 0.5), lambda: trainer.decisions


def library(name: str, alone: bool) -> tuple[Callable[[], Any], Callable[[], int]]:
    """A rollout of Stable-Baselines3's PPO and what it learns from it, and the number of decisions so far."""
    population = playing.population(playing.task_config(TASK[name], TRAINER), 1, "selection")
    population.reset(seed=0)
    view = population.view()
    method = method_of(view)
    s = method.checked() if method.name == "ppo" else ppo.Settings()
    assert isinstance(s, ppo.Settings)
    rows = view.roles[next(iter(population.roles))].num_agents if not population.some_act else 1
    replicas = s.num_envs if method.name == "ppo" else -(-ROWS_AT_ONCE // rows)
    env: Any = (
        DummyVecEnv([partial(gymnasium.make, ALONE[name])] * s.num_envs)
        if alone
        else RowsVecEnv(view.practice(replicas), seed=0)
    )
    steps = s.turns or max(1, s.batch * 4 // env.num_envs)
    learner = PPO(
        "MlpPolicy", env, seed=0, device="cpu", n_steps=steps, batch_size=min(s.batch, steps * env.num_envs),
        n_epochs=s.epochs, policy_kwargs={"net_arch": [s.width, s.width]},
    )  # fmt: skip
    learn = partial(learner.learn, steps * env.num_envs, reset_num_timesteps=False)
    return learn, lambda: learner.num_timesteps


def rate(step: Callable[[], Any], count: Callable[[], int]) -> float:
    """Decisions in a CPU second."""
    before, start = count(), time.process_time()
    while time.process_time() - start < LEAST:
        step()
    return (count() - before) / (time.process_time() - start)


def measured(name: str) -> dict[str, Any]:
    """The rates of all at a task, and how many times as fast the suite's trainer is."""
    trainers = {"own": own(name), "RowsVecEnv": library(name, alone=False)}
    if name in ALONE:
        trainers["DummyVecEnv"] = library(name, alone=True)
    rates: dict[str, list[float]] = {way: [] for way in trainers}
    for step, _ in trainers.values():
        step()
    for _ in range(REPEATS):
        for way, (step, count) in trainers.items():
            rates[way].append(rate(step, count))
    found: dict[str, Any] = {way: round(statistics.median(some)) for way, some in rates.items()}
    return found | {
        f"times {way}": round(statistics.median(a / b for a, b in zip(rates["own"], some, strict=True)), 2)
        for way, some in rates.items()
        if way != "own"
    }


def profile(name: str) -> None:
    """Print where the time of the suite's trainer goes."""
    step, count = own(name)
    step()
    before, profiler = count(), cProfile.Profile()
    profiler.runcall(step)
    print(f"{count() - before:,} decisions")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    torch.set_num_threads(1)
    compiled.COMPILE_FROM = 0
    warnings.filterwarnings("ignore", "You have specified a mini-batch size")  # the last one of an epoch is smaller
    if sys.argv[1:2] == ["--profile"]:
        profile(sys.argv[2])
        return
    rows = {}
    for name in TASK:
        rows[name] = measured(name)
        print(f"{name}: " + ", ".join(f"{way} {value:,}" for way, value in rows[name].items()), flush=True)
    record("learner", {"repeats": REPEATS, "rows": rows}, ("taciturn", "numpy", "stable-baselines3", "torch"))


if __name__ == "__main__":
    main()
