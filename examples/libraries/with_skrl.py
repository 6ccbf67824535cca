"""skrl: PPO trains on the vector environment. The layers of its policy network are the policy."""

import gymnasium
from skrl.agents.torch import ExperimentCfg
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

import taciturn
from taciturn.envs import round_stopping_v0

set_seed(0)
setting = {"horizon": 20.0}
# What matters:
env = wrap_env(gymnasium.make_vec("taciturn/RoundStopping-v0", num_envs=16, **setting))
# So far.


class Actor(CategoricalMixin, Model):
    def __init__(self, kind=CategoricalMixin, outputs=2):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        kind.__init__(self)
        self.layers = nn.Sequential(nn.Linear(5, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))

    def compute(self, inputs, role=""):
        return self.layers(inputs["observations"]), {}


class Critic(DeterministicMixin, Actor):
    act = DeterministicMixin.act

    def __init__(self):
        Actor.__init__(self, DeterministicMixin, 1)


models, quiet = {"policy": Actor(), "value": Critic()}, ExperimentCfg(write_interval=0, checkpoint_interval=0)
agent = PPO(
    models=models,
    memory=RandomMemory(memory_size=64, num_envs=16),
    device="cpu",
    observation_space=env.observation_space,
    action_space=env.action_space,
    cfg=PPO_CFG(
        rollouts=64,
        learning_epochs=10,
        mini_batches=16,
        learning_rate=1e-3,
        entropy_loss_scale=0.01,
        experiment=quiet,
    ),
)
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": 512, "headless": True, "disable_progressbar": True}).train()

# What matters:
for name, policy in (("skrl", models["policy"].layers), ("OptimalStopping", "OptimalStopping"), ("Random", "Random")):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), policy, seed=1)
    print(f"{name}: rate {run.metrics['rate'].mean():.4f}")
# So far.
