"""How much of PPO's training time is the environment's: `python benchmarks/training_share.py`.

With 1,024 rows, one PPO with Stable-Baselines3's defaults and one with lighter settings, where
the environment weighs more, in turns; and with the defaults on one `gymnasium.make` environment, as most begin. All on
one thread.
"""

import statistics
import time
from typing import Any

import gymnasium
import torch
from common import record
from stable_baselines3 import PPO

from taciturn.compiling import compiled
from taciturn.envs import round_stopping_v0
from taciturn.wrappers.sb3 import RowsVecEnv

ROWS, STEPS, REPEATS = 1024, 32, 5
SETTINGS: dict[str, dict[str, Any]] = {"defaults": {}, "light": {"batch_size": ROWS * STEPS // 4, "n_epochs": 8}}


ALONE, ALONE_STEPS = ("RoundStopping-v0", "ArmElimination-v0", "Elicitation-v0"), 2048


class TimedAlone(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds up the time spent in one environment."""

    spent = 0.0

    def step(self, action: Any) -> Any:
        start = time.perf_counter()
        result = self.env.step(action)
        self.spent += time.perf_counter() - start
        return result


def share_alone(name: str) -> float:
    """The share of one environment in the time of training on it, once it is compiled."""
    env = TimedAlone(gymnasium.make(f"taciturn/{name}"))
    learner = PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=ALONE_STEPS)
    learner.learn(ALONE_STEPS)
    shares = []
    for _ in range(REPEATS):
        env.spent, start = 0.0, time.perf_counter()
        learner.learn(ALONE_STEPS, reset_num_timesteps=False)
        shares.append(env.spent / (time.perf_counter() - start))
    return statistics.median(shares)


class Timed(RowsVecEnv):
    """Adds up the time spent in the environment."""

    spent = 0.0

    def step_wait(self) -> Any:
        start = time.perf_counter()
        result = super().step_wait()
        self.spent += time.perf_counter() - start
        return result


def main() -> None:
    torch.set_num_threads(1)
    compiled.COMPILE_FROM = 0
    envs = {name: Timed(round_stopping_v0.population(ROWS), seed=0) for name in SETTINGS}
    learners = {
        name: PPO("MlpPolicy", envs[name], n_steps=STEPS, seed=0, device="cpu", **settings)
        for name, settings in SETTINGS.items()
    }
    shares: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for repeat in range(REPEATS + 1):
        for name, learner in learners.items():
            envs[name].spent, start = 0.0, time.perf_counter()
            learner.learn(ROWS * STEPS, reset_num_timesteps=False)
            if repeat:
                shares[name].append(envs[name].spent / (time.perf_counter() - start))
    result = {f"{name}_share_percent": round(100 * statistics.median(found), 2) for name, found in shares.items()}
    result |= {f"{name}_share_percent": round(100 * share_alone(name), 2) for name in ALONE}
    print("environment's share of training time:", ", ".join(f"{name} {value}%" for name, value in result.items()))
    record(
        "training_share",
        result | {"rows": ROWS, "repeats": REPEATS},
        ("taciturn", "numpy", "stable-baselines3", "torch"),
    )


if __name__ == "__main__":
    main()
