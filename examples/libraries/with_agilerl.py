"""AgileRL: PPO trains on the vector form, and its `get_action` is the policy.

AgileRL pins tensordict 0.13 and PettingZoo below 1.27, so it needs a separate Python environment. It also imports peft,
even without its extra for language models ([upstream](https://github.com/AgileRL/AgileRL/pull/450)). `get_action`
samples actions, as in training. With many agents, AgileRL drops the axis of a one-dimensional Box action, and the
elicitation environment then refuses the action (note 1).
"""

import gymnasium
import torch
from agilerl.algorithms import PPO
from agilerl.rollouts.on_policy import collect_rollouts

import taciturn
from taciturn.envs import round_stopping_v0

torch.manual_seed(0)
setting = {"horizon": 20.0}
# What matters:
envs = gymnasium.make_vec("taciturn/RoundStopping-v0", num_envs=16, **setting)
agent = PPO(
    envs.single_observation_space,
    envs.single_action_space,
    num_envs=16,
    learn_step=1024,
    batch_size=64,
    lr=1e-3,
    update_epochs=10,
)
for _ in range(8):
    collect_rollouts(agent, envs, n_steps=64)
    agent.learn()


def act(rows):  # glue
    return agent.get_action(rows)[0]  # glue


for name, policy in (("AgileRL", act), ("OptimalStopping", "OptimalStopping"), ("Random", "Random")):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), policy, seed=1)
    print(f"{name}: rate {run.metrics['rate'].mean():.4f}")
# So far.
