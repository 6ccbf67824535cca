"""Tianshou: PPO trains on the Gymnasium form, and its actor is the policy."""

import gymnasium
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

import taciturn
from taciturn.envs import round_stopping_v0

torch.manual_seed(0)
setting = {"horizon": 20.0}
# What matters:
envs = DummyVectorEnv([lambda: gymnasium.make("taciturn/RoundStopping-v0", **setting)] * 8)
# So far.
envs.seed(0)
(size,), actions = envs.observation_space[0].shape, envs.action_space[0].n
actor = DiscreteActor(
    preprocess_net=Net(state_shape=size, hidden_sizes=[64, 64]), action_shape=actions, softmax_output=False
)
critic = DiscreteCritic(preprocess_net=Net(state_shape=size, hidden_sizes=[64, 64]))
policy = DiscreteActorPolicy(actor=actor, action_space=envs.action_space[0], deterministic_eval=True)
algorithm = PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3))
algorithm.run_training(
    OnPolicyTrainerParams(
        training_collector=Collector(algorithm, envs, VectorReplayBuffer(10_000, 8)),
        max_epochs=1,
        epoch_num_steps=8192,
        collection_step_num_env_steps=1024,
        update_step_num_repetitions=10,
        batch_size=64,
        show_progress=False,
    )
)

# What matters:
for name, agent in (("tianshou", actor.eval()), ("OptimalStopping", "OptimalStopping"), ("Random", "Random")):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), agent, seed=1)
    print(f"{name}: rate {run.metrics['rate'].mean():.4f}")
# So far.
