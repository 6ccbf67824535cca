"""Train PPO from Stable-Baselines3 on 512 replicas at once and compare it with the optimal rule (about 30 s)."""

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import taciturn
from taciturn.envs import round_stopping_v0
from taciturn.envs.core import Array
from taciturn.policies import OptimalStopping, Policy
from taciturn.wrappers.sb3 import RowsVecEnv

solution = OptimalStopping.solve()

# An episode is one round, whose reward is R(k) minus a price for the time it took. Any price near the optimal rate will do;
# `taciturn.policies.LearnedStopping` finds it by playing, without the solver.
replicas = round_stopping_v0.population(512, objective="lagrangian", lambda_=0.9 * solution.rate)
rows = VecNormalize(RowsVecEnv(replicas, seed=0), gamma=1.0)
agent = PPO(
    "MlpPolicy", rows, n_steps=32, batch_size=4096, n_epochs=8, gamma=1.0, gae_lambda=1.0, learning_rate=1e-3, seed=0
)
agent.learn(512 * 32 * 40)
rows.training = False


class Trained(Policy):
    """The trained network as a policy."""

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        actions, _ = agent.predict(rows.normalize_obs(obs[:, 0]), deterministic=True)
        return actions[:, None]


env = round_stopping_v0.population(20, horizon=300.0)
for name, policy in (("PPO", Trained()), ("optimal", OptimalStopping())):
    rate = taciturn.simulate(env, policy, seed=1).metrics["rate"]
    print(f"{name:8} {rate.mean():.6f} +- {rate.std(ddof=1) / len(rate) ** 0.5:.6f} per second")
print(f"exact    {solution.rate:.6f}, thresholds {solution.thresholds}")
