"""TorchRL: a collector steps the vector environment (`gymnasium.make_vec`). The saved actor is the policy.

`GymEnv("taciturn:taciturn/RoundStopping-v0")` and `PettingZooWrapper` need no adaptation. TorchRL groups agents by
role. Make the vector form with Gymnasium's SAME_STEP autoreset, which TorchRL expects. `taciturn.simulate` does not
carry the hidden state of recurrent actors from step to step.
"""

from tempfile import mkdtemp

import gymnasium
import torch
from gymnasium.vector import AutoresetMode
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import GymEnv, GymWrapper, PettingZooWrapper
from torchrl.modules import MLP, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

import taciturn
from taciturn.agents import bring
from taciturn.envs import round_stopping_v0, social_bandit_v0

torch.manual_seed(0)
setting = {"horizon": 20.0}
# What matters:
vector = gymnasium.make_vec("taciturn/RoundStopping-v0", num_envs=16, autoreset_mode=AutoresetMode.SAME_STEP, **setting)
env = GymWrapper(vector)
# So far.
layers = {"num_cells": [64, 64], "activation_class": torch.nn.Tanh}
network = TensorDictModule(MLP(5, 2, **layers), in_keys=["observation"], out_keys=["logits"])
actor = ProbabilisticActor(
    network,
    in_keys=["logits"],
    distribution_class=OneHotCategorical,
    return_log_prob=True,
    spec=env.action_spec_unbatched,
)
critic = ValueOperator(MLP(5, 1, **layers))
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
for batch in Collector(env, actor, frames_per_batch=512, total_frames=8192):
    for _ in range(10):
        advantage(batch)
        for part in batch.reshape(-1).split(64):
            losses = loss(part)
            optimizer.zero_grad()
            sum(losses[f"loss_{name}"] for name in ("objective", "critic", "entropy")).backward()
            optimizer.step()
# What matters:
torch.save(actor, path := f"{mkdtemp()}/actor.pt")
for agent in (f"torchrl:{path}", "OptimalStopping", "Random"):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), bring(agent, trust=True), seed=1)
    print(f"{agent.partition(':')[0]}: rate {run.metrics['rate'].mean():.4f}")
print(GymEnv("taciturn:taciturn/RoundStopping-v0").rollout(10)["next", "reward"].shape)
print(PettingZooWrapper(social_bandit_v0.parallel_env(num_agents=5)).rollout(10)["agent", "action"].shape)
# So far.
