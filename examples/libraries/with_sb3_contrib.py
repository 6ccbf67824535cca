"""sb3-contrib: MaskablePPO with the masks of a world, and RecurrentPPO, whose state is kept for each row.

`RowsVecEnv.action_masks` and `env.action_masks` of the Gymnasium forms are the methods that MaskablePPO calls; worlds whose actions are a
Box have none, as MaskablePPO has no masks for them either.
"""

from tempfile import mkdtemp

from sb3_contrib import MaskablePPO, RecurrentPPO

import taciturn
from taciturn.envs import federated_bandit_v0, round_stopping_v0
from taciturn.wrappers.sb3 import RowsVecEnv

folder = mkdtemp()
bandit = {"num_agents": 5, "num_arms": 5, "horizon": 500}
rows = RowsVecEnv(federated_bandit_v0.population(4, **bandit), seed=0)
masked = MaskablePPO("MlpPolicy", rows, n_steps=128, batch_size=640, gamma=0.0, seed=0, device="cpu")
masked.learn(8_000)
masked.save(f"{folder}/masked.zip")
for agent in (f"sb3:{folder}/masked.zip", "DDPMAB", "Random"):
    regret = taciturn.simulate(federated_bandit_v0.population(20, **bandit), agent, seed=1).metrics["regret"]
    print(f"federated bandit, {agent.partition(':')[0]}: regret {regret.mean():.1f}")

rows = RowsVecEnv(round_stopping_v0.population(32), seed=0)
recurrent = RecurrentPPO("MlpLstmPolicy", rows, n_steps=32, batch_size=512, learning_rate=1e-3, seed=0, device="cpu")
recurrent.learn(4_000)
recurrent.save(f"{folder}/recurrent.zip")
for agent in (f"sb3:{folder}/recurrent.zip", "OptimalStopping", "Random"):
    rate = taciturn.simulate(round_stopping_v0.population(50), agent, seed=1).metrics["rate"]
    print(f"round stopping, {agent.partition(':')[0]}: rate {rate.mean():.4f}")
