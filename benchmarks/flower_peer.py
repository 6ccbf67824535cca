"""A round of federated averaging with 100 clients, against Flower's simulation: `python benchmarks/flower_peer.py`.

The task is that of `federated_task.py`, with softmax regression and with a small convolutional network. Flower's
clients are PyTorch programs that Ray runs in one worker. What is timed is a round as its server sees it, in wall-clock
time, from one evaluation of the server's model on the held-out images to the next: serialisation, scheduling and
Flower's polling (ten times a second) are part of it. Starting Flower and Ray is not counted, nor is the first round.
Ours takes turns with it, in the server's process. Flower lives in an environment of its own, which
`benchmarks/speed.py` makes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: behind everything else on a busy machine

import logging
import time
import warnings
from typing import Any

import torch
from common import record
from federated_task import BATCH, CLIENTS, MODELS, RATE, Pairs, task
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

ROUNDS = 5


def client_app(name: str) -> Any:
    """A client: one epoch of SGD on its own samples."""
    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator] # Flower is not installed where types are checked
    def train(message: Any, context: Any) -> Any:
        done = task(name)
        net, (x, y) = done.net(), done.clients[context.node_config["partition-id"]]
        net.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
        for start in range(0, len(y), BATCH):
            optimizer.zero_grad()
            loss: Any = net.loss(x[start : start + BATCH], y[start : start + BATCH])
            loss.backward()
            optimizer.step()
        told = {"arrays": ArrayRecord(net.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
        return Message(content=RecordDict(told), reply_to=message)

    return app


def measure(name: str) -> dict[str, Any]:
    done = task(name)
    net, pairs, app = done.net(), Pairs(done, often=20, clock=time.perf_counter), ServerApp()

    def evaluate(number: int, arrays: Any) -> Any:
        net.load_state_dict(arrays.to_torch_state_dict())
        metrics = net.metrics(*done.held_out)
        if number:
            pairs.after_round(lambda: done.flat(net), metrics["loss"])
        return MetricRecord(metrics)

    @app.main()  # type: ignore[untyped-decorator]
    def serve(grid: Any, context: Any) -> None:
        strategy = FedAvg(
            fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS
        )
        start = ArrayRecord(net.state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=ROUNDS + 1, evaluate_fn=evaluate)

    resources = {
        "init_args": {"num_cpus": 1, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(app, client_app(name), num_supernodes=CLIENTS, backend_config=resources)
    return pairs.result()


def main() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    rows = {}
    for name in MODELS:
        rows[name] = row = measure(name)
        print(
            f"{name}: {row['ms']} ms a round, Flower {row['peer_ms']} ms, {row['times_faster']} times faster",
            flush=True,
        )
    record(
        "flower_peer",
        {"clients": CLIENTS, "rounds": ROUNDS, "rows": rows},
        ("taciturn", "numpy", "torch", "flwr", "ray"),
    )


if __name__ == "__main__":
    main()
