"""Flower: an agent of this package decides when each round of training ends. A third run ends each round by a timeout.

Times are those of a virtual clock (`taciturn.flower`). In the output below, lines with '(world)' are means of 20 runs
in the environment `federated_training_v0`, for comparison.
"""

import logging

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import taciturn
from taciturn.envs import federated_training_v0, round_stopping_v0
from taciturn.envs.federated_training.world import Softmax, epoch_order, load_digits, partition
from taciturn.flower import StoppingStrategy
from taciturn.policies import Deadline
from taciturn.wrappers.sb3 import RowsVecEnv

logging.getLogger("flwr").setLevel(logging.ERROR)
data, model, client, server = load_digits(), Softmax(), ClientApp(), ServerApp()
shares = partition(data.train_y, 20, np.random.default_rng(0))
SAID = "{}: {rounds:.1f} rounds of {mean_duration:.2f} s, accuracy {test_accuracy:.3f}, loss {test_loss:.3f}"


@client.train()
def train(message, context):
    who, weights = context.node_config["partition-id"], np.array(message.content["arrays"].to_numpy_ndarrays())
    rng = np.random.default_rng([who, message.content["config"]["server-round"]])
    order = epoch_order(shares[who][None], 1, rng)
    weights += model.local_update(weights, data.train_x, data.train_y, order, learning_rate=0.1, batch_size=10)
    told = {"num-examples": int((shares[who] >= 0).sum()), "computing-time": 0.01 * int(rng.geometric(0.005))}
    return Message(RecordDict({"arrays": ArrayRecord([*weights]), "metrics": MetricRecord(told)}), reply_to=message)


# What matters:
setting = {"num_clients": 20, "compute_probability": 0.005, "horizon": 40}
setting["reward"] = round_stopping_v0.Hyperbolic(0.1, 0.085)
rows = VecNormalize(RowsVecEnv(round_stopping_v0.population(64, **setting), seed=0))
ppo = PPO("MlpPolicy", rows, 3e-3, n_steps=32, batch_size=512, n_epochs=8, gamma=1.0, gae_lambda=1.0, seed=0)
ppo.learn(65536)


@server.main()
def serve(grid, context):
    for name, agent in {"OptimalStopping": "OptimalStopping", "PPO": ppo, "timeout of 1 s": Deadline(100)}.items():
        strategy = StoppingStrategy(FedAvg(1.0, 0.0, 20, 0, 20), agent, seed=0, **setting)
        trained = strategy.start(grid, ArrayRecord([model.initial(np.random.default_rng(0))])).arrays
        loss, accuracy = model.evaluate(np.array(trained.to_numpy_ndarrays()), data.test_x, data.test_y)
        run = strategy.session.metrics() | {"test_loss": loss, "test_accuracy": accuracy}
        print(SAID.format(name, **{key: value.mean() for key, value in run.items()}))


local = {"init_args": {"address": "local"}, "client_resources": {"num_cpus": 1}}
run_simulation(server, client, 20, backend_config=local)
for agent in ("OptimalStopping", Deadline(100)):
    run = taciturn.simulate(federated_training_v0.population(20, **setting), agent, seed=1).metrics
    print(SAID.format(f"{agent} (world)", **{key: value.mean() for key, value in run.items()}))
# So far.
