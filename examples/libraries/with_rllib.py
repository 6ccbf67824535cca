"""RLlib (new API stack): the prefix `taciturn:` of an id registers the environments in each worker.

Gymnasium imports the module before the colon of `module:id`, and this registers the environments. taciturn refuses a
checkpoint that has an `env_to_module_connector` (such as a filter of observations), because the input of the RLModule
is then not the raw observation. Ray starts workers at niceness 15: on a busy machine, set `RAY_worker_niceness=0`.
"""

from tempfile import mkdtemp

import ray
from ray.rllib.algorithms.ppo import PPOConfig

import taciturn
from taciturn.agents import bring
from taciturn.envs import round_stopping_v0

setting = {"horizon": 20.0}
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
# What matters:
config = (
    PPOConfig()
    .environment("taciturn:taciturn/RoundStopping-v0", env_config=setting)
    .env_runners(num_env_runners=1, num_envs_per_env_runner=8)
    .training(train_batch_size_per_learner=1024, minibatch_size=64, num_epochs=10, lr=1e-3)
    .debugging(seed=0)
)
algorithm = config.build_algo()
for _ in range(4):
    algorithm.train()
folder = algorithm.save_to_path(mkdtemp())
algorithm.stop()

for agent in (f"rllib:{folder}", "OptimalStopping", "Random"):
    run = taciturn.simulate(round_stopping_v0.population(20, **setting), bring(agent, trust=True), seed=1)
    print(f"{agent.partition(':')[0]}: rate {run.metrics['rate'].mean():.4f}")
# So far.
