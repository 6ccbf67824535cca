"""Train PPO from Stable-Baselines3 to end federated rounds, and compare it with the best fixed number of updates (about
45 s).

A recipe for the round-stopping worlds: their default reward, which charges for time, many replicas, and normalised
observations. Discount and all else that is not named below are PPO's defaults.
"""

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import taciturn
from taciturn.envs import round_stopping_v0
from taciturn.policies import FixedCount, OptimalStopping
from taciturn.wrappers.sb3 import RowsVecEnv

rows = VecNormalize(RowsVecEnv(round_stopping_v0.population(256), seed=0))
agent = PPO("MlpPolicy", rows, n_steps=64, batch_size=2048, learning_rate=1e-3, seed=0, device="cpu")
agent.learn(500_000)
rows.training = False

env = round_stopping_v0.population(100)
best = taciturn.simulate(env, FixedCount(5), seed=1).metrics["rate"]
for name, policy in (("PPO", agent), ("optimal", OptimalStopping())):
    gain = taciturn.simulate(env, policy, seed=1).metrics["rate"] / best - 1
    print(f"{name:8} {gain.mean():+.3%} +- {gain.std(ddof=1) / len(gain) ** 0.5:.3%} of the rate of FixedCount(5)")
