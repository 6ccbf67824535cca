"""A learned policy against a published algorithm, both under the same privacy noise (about 30 s)."""

import numpy as np

import taciturn
from taciturn.envs import gossip_bandit_v0
from taciturn.policies import PPCL, IsolatedThompson, TrainedAgent, Uniform
from taciturn.wrappers import BitwiseRandomizedResponse

# All policies see the same kind of noisy answers and spend the same epsilon per answer; the learned one is also trained
# under it.
noise = {"preference": BitwiseRandomizedResponse(epsilon=3.0)}
env = gossip_bandit_v0.population(num_envs=20, num_agents=100, horizon=20.0)
print("quality gap to the best option: mean over 20 runs +- standard error")
for policy in (PPCL(), TrainedAgent(1_000_000, seed=0), IsolatedThompson(), Uniform()):
    loss = taciturn.simulate(env, policy, seed=0, privacy=noise).metrics["popularity_regret"]
    print(f"{type(policy).__name__:18} {loss.mean():.3f} +- {loss.std() / np.sqrt(loss.size):.3f}")
