"""sb3-contrib: MaskablePPO uses the action masks of an environment, and RecurrentPPO has a separate state for each row.

MaskablePPO calls `RowsVecEnv.action_masks`, or `action_masks` of an environment made with
`gymnasium.make`. Environments with Box actions lack this method, because MaskablePPO does not support masks for them.
"""

from tempfile import mkdtemp

from sb3_contrib import MaskablePPO, RecurrentPPO

import taciturn
from taciturn.envs import federated_bandit_v0, round_stopping_v0
from taciturn.wrappers.sb3 import RowsVecEnv

folder = mkdtemp()
bandit = {"num_agents": 5, "num_arms": 5, "horizon": 200}
# What matters:
rows = RowsVecEnv(federated_bandit_v0.population(4, **bandit), seed=0)
masked = MaskablePPO("MlpPolicy", rows, n_steps=128, batch_size=640, gamma=0.0, seed=0, device="cpu")
masked.learn(4000)
masked.save(f"{folder}/masked.zip")
# So far.
for agent in (f"sb3:{folder}/masked.zip", "CDPMAB", "Random"):
    regret = taciturn.simulate(federated_bandit_v0.population(20, **bandit), agent, seed=1).metrics["regret"]
    print(f"federated bandit, {agent.partition(':')[0]}: regret {regret.mean():.1f}")

setting = {"horizon": 20.0}
# What matters:
rows = RowsVecEnv(round_stopping_v0.population(16, **setting), seed=0)
recurrent = RecurrentPPO("MlpLstmPolicy", rows, n_steps=64, batch_size=256, learning_rate=3e-3, seed=0, device="cpu")
recurrent.learn(4096)
recurrent.save(f"{folder}/recurrent.zip")
for agent in (f"sb3:{folder}/recurrent.zip", "OptimalStopping", "Random"):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), agent, seed=1)
    print(f"round stopping, {agent.partition(':')[0]}: rate {run.metrics['rate'].mean():.4f}")
# So far.
