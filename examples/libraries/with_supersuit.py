"""SuperSuit: wrappers pad different spaces to one size, clip actions, and turn each agent into a row of a VecEnv.

Padding works only for Box and Discrete spaces. The agents of the social bandit have MultiDiscrete actions. Their spaces
are equal, so they need no padding.
"""

import supersuit
from stable_baselines3 import PPO

import taciturn
from taciturn.envs import elicitation_v0, social_bandit_v0
from taciturn.wrappers import BitwiseRandomizedResponse

# Two roles that see and do different things, made alike for libraries that want that.
# What matters:
market = elicitation_v0.parallel_env(num_individuals=5)
market = supersuit.pad_action_space_v0(supersuit.pad_observations_v0(supersuit.clip_actions_v0(market)))
# So far.
market.reset(seed=0)
actions = {agent: market.action_space(agent).high + 1 for agent in market.agents}
seen, *_ = market.step(actions)
print({agent: len(row) for agent, row in seen.items()})

noise = {"preference": BitwiseRandomizedResponse(1.0)}
setting = {"num_agents": 10, "horizon": 100}
# What matters:
rows = supersuit.pettingzoo_env_to_vec_env_v1(social_bandit_v0.parallel_env(**setting))
rows = supersuit.concat_vec_envs_v1(rows, 2, base_class="stable_baselines3")
model = PPO("MlpPolicy", rows, n_steps=200, batch_size=500, learning_rate=1e-3, gamma=0.0, device="cpu")
model.learn(8000)

for agent in (model, "PrivateSocialLearning", "Random"):
    run = taciturn.simulate(social_bandit_v0.population(20, **setting), agent, seed=1, privacy=noise)
    name = agent if isinstance(agent, str) else type(agent).__name__
    print(f"{name}: regret {run.metrics['regret'].mean():.3f}")
# So far.
