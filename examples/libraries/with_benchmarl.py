"""BenchMARL: MAPPO trains in an environment with many agents, and `experiment.policy` plays in the suite.

BenchMARL needs a class for each new task. Here this class is the glue; it derives from BenchMARL's PettingZoo task.
BenchMARL 1.5.2 needs TorchRL below 0.12: it imports a name that TorchRL 0.13
[removed](https://github.com/TorchTrade/torchtrade/pull/231).
"""

from tempfile import mkdtemp

from benchmarl.algorithms import MappoConfig
from benchmarl.environments.pettingzoo.common import PettingZooClass
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.envs import PettingZooWrapper

import taciturn
from taciturn.envs import federated_bandit_v0

setting = {"num_agents": 5, "num_arms": 5, "horizon": 100}


# What matters:
class Task(PettingZooClass):  # glue
    def get_env_fun(self, num_envs, continuous_actions, seed, device):  # glue
        def make():  # glue
            env = federated_bandit_v0.parallel_env(**self.config)  # glue
            return PettingZooWrapper(env, categorical_actions=True, device=device, seed=seed, done_on_any=False)  # glue

        return make  # glue

    def supports_discrete_actions(self):  # glue
        return True  # glue

    def max_steps(self, env):  # glue
        return self.config["horizon"]  # glue


# So far.


config = ExperimentConfig.get_from_yaml()
config.max_n_frames, config.on_policy_collected_frames_per_batch, config.on_policy_n_envs_per_worker = 4000, 500, 5
config.on_policy_n_minibatch_iters, config.on_policy_minibatch_size, config.lr, config.gamma = 10, 100, 1e-3, 0.0
config.evaluation, config.loggers, config.create_json, config.save_folder = False, [], False, mkdtemp()
experiment = Experiment(
    task=Task("TACITURN", setting),
    algorithm_config=MappoConfig.get_from_yaml(),
    model_config=MlpConfig.get_from_yaml(),
    critic_model_config=MlpConfig.get_from_yaml(),
    seed=0,
    config=config,
)
experiment.run()

# What matters:
for name, agent in (("BenchMARL", experiment.policy), ("CDPMAB", "CDPMAB"), ("Random", "Random")):
    run = taciturn.simulate(federated_bandit_v0.population(20, **setting), agent, seed=1)
    print(f"{name}: regret {run.metrics['regret'].mean():.1f}")
# So far.
