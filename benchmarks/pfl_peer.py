"""A round of federated averaging with 100 clients, against pfl's simulation in PyTorch: `python
benchmarks/pfl_peer.py`.

The task is that of `federated_task.py`, with softmax regression and with a small convolutional network. pfl trains
client by client in this process and on one core, without metrics of single clients; both evaluate the new model on the
held-out images. Ours and the peer's rounds take turns, and CPU time is counted. pfl lives in an environment of its own,
which `benchmarks/speed.py` makes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from typing import Any

import torch
from common import record
from federated_task import BATCH, CLIENTS, MODELS, RATE, Pairs, Task, task
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel

ROUNDS = {"softmax": 21, "small CNN": 11}


class Clock(TrainingProcessCallback):  # type: ignore[misc] # pfl is not installed where types are checked
    """Evaluates the server's model after each round, and notes the time."""

    def __init__(self, done: Task, net: Any) -> None:
        self.task, self.net, self.pairs = done, net, Pairs(done, often=5)

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Any]:
        loss = self.net.metrics(*self.task.held_out)["loss"]
        self.pairs.after_round(lambda: self.task.flat(self.net), loss)
        return False, Metrics()


def measure(name: str) -> dict[str, Any]:
    done = task(name)
    net = done.net()
    clients = [Dataset(raw_data=client, user_id=str(i)) for i, client in enumerate(done.clients)]
    data = FederatedDataset(clients.__getitem__, get_user_sampler("minimize_reuse", list(range(CLIENTS))))
    clock = Clock(done, net)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=ROUNDS[name] + 1,
            evaluation_frequency=10**9,
            train_cohort_size=CLIENTS,
            val_cohort_size=0,
        ),
        SimulatedBackend(data, data, postprocessors=[WeightByDatapoints()]),
        PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )
    return clock.pairs.result()


def main() -> None:
    torch.set_num_threads(1)
    rows = {}
    for name in MODELS:
        rows[name] = row = measure(name)
        print(
            f"{name}: {row['ms']} ms a round, pfl {row['peer_ms']} ms, {row['times_faster']} times faster", flush=True
        )
    record("pfl_peer", {"clients": CLIENTS, "rounds": ROUNDS, "rows": rows}, ("taciturn", "numpy", "torch", "pfl"))


if __name__ == "__main__":
    main()
