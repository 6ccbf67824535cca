"""Stable-Baselines3: each agent in each replica is a row of one VecEnv. The saved model is the policy.

`VecNormalize` stores its statistics in a separate file. `taciturn` uses them if you save them as `vecnormalize.pkl` in
the folder of the model. Train for 65,536 steps or more: after 8,192 steps the same model is worse than random play
(`docs/recipes.md`). If an environment has several roles, use `taciturn.envs.core.Controlled`, which leaves one of them
to the model. In the gossip bandit a row does not belong to one agent: agents act one at a time, so a row has the
observations of different agents in turn.
"""

from pathlib import Path
from tempfile import mkdtemp

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import taciturn
from taciturn.envs import round_stopping_v0
from taciturn.wrappers.sb3 import RowsVecEnv

folder = Path(mkdtemp())
setting = {"horizon": 20.0}
# What matters:
rows = VecNormalize(RowsVecEnv(round_stopping_v0.population(64, **setting), seed=0))
model = PPO("MlpPolicy", rows, n_steps=32, batch_size=512, learning_rate=1e-3, seed=0, device="cpu")
model.learn(65_536)
model.save(folder / "model.zip")
rows.save(str(folder / "vecnormalize.pkl"))

for agent in (f"sb3:{folder}/model.zip", "OptimalStopping", "Random"):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), agent, seed=1)
    print(f"{agent.partition(':')[0]}: rate {run.metrics['rate'].mean():.4f}")
# So far.
