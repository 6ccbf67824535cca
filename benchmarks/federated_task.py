"""One round of federated averaging as a task that `pfl_peer.py` and `flower_peer.py` set to another library and to this
package.

100 clients share the digits evenly, each trains the server's model for one epoch in batches of 10 at a learning rate of
0.1, the server averages by numbers of samples, and the average is evaluated on the held-out images. Both sides use
every client's samples in the same order, so that they must arrive at the same model, which is checked after the first
round. (taciturn has no multilayer perceptron.)
"""

import statistics
import time
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from taciturn.envs.core import Array
from taciturn.envs.federated_training.classifiers import Classifier, SmallCNN, Softmax, epoch_order, federated_average
from taciturn.envs.federated_training.datasets import load_digits, partition

CLIENTS, BATCH, RATE = 100, 10, 0.1
MODELS: dict[str, Callable[[int, int], Classifier]] = {"softmax": Softmax, "small CNN": SmallCNN}


class Net(torch.nn.Sequential):
    """A model of `MODELS` as one writes it in PyTorch, with the loss and the metrics that pfl asks for."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
        with torch.no_grad():
            scores = self(x)
            loss = torch.nn.functional.cross_entropy(scores, y).item()
            return {"loss": loss, "accuracy": (scores.argmax(1) == y).float().mean().item()}


class Task:
    """The task with a model of `MODELS`.

    Attributes:
        parameters: float32[D], at which the first round starts.
        samples: each client's rows of the training set, in the order in which they are used.
    """

    def __init__(self, model: str) -> None:
        rng, self.data = np.random.default_rng(0), load_digits()
        self.model = MODELS[model](self.data.num_features, self.data.num_classes)
        self.parameters = self.model.initial(rng)
        self.order = epoch_order(partition(self.data.train_y, CLIENTS, rng), 1, rng)
        self.samples = [rows[rows >= 0] for rows in self.order[:, 0]]
        self.sizes = np.array([[len(rows) for rows in self.samples]], np.float64)

    def round(self, parameters: Array) -> tuple[Array, float]:
        """Ours: the server's model after a round that starts at `parameters`, and its loss on the held-out images."""
        updates = self.model.local_update(
            np.tile(parameters, (CLIENTS, 1)),
            self.data.train_x,
            self.data.train_y,
            self.order,
            learning_rate=RATE,
            batch_size=BATCH,
        )
        after = federated_average(parameters[None], updates[None], self.sizes)
        return after[0], float(self.model.evaluate(after, self.data.test_x, self.data.test_y)[0][0])

    def net(self) -> Net:
        """The model in PyTorch, with `parameters`."""
        if isinstance(self.model, SmallCNN):
            hidden, filters = self.model.num_filters * self.data.num_features // 4, self.model.num_filters
            net = Net(
                torch.nn.Unflatten(1, (1, self.model.side, self.model.side)),
                torch.nn.Conv2d(1, filters, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
                torch.nn.Flatten(),
                torch.nn.Linear(hidden, self.data.num_classes),
            )
            torch.nn.utils.vector_to_parameters(torch.from_numpy(self.parameters.copy()), net.parameters())
            return net
        net = Net(torch.nn.Linear(self.data.num_features, self.data.num_classes))
        torch.nn.utils.vector_to_parameters(torch.from_numpy(self._turned(self.parameters)), net.parameters())
        return net

    def flat(self, net: Net) -> Array:
        """The parameters of a net, as ours has them."""
        vector = torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy()
        return vector if isinstance(self.model, SmallCNN) else self._turned(vector, back=True)

    def _turned(self, parameters: Array, back: bool = False) -> Array:
        """PyTorch's dense layers are [outputs, inputs]."""
        features, classes = self.data.num_features, self.data.num_classes
        weights, biases = np.split(parameters, [features * classes])
        shape = (classes, features) if back else (features, classes)
        return np.concatenate([weights.reshape(shape).T.ravel(), biases])

    @cached_property
    def clients(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Images and labels of each client, in the order in which they are used."""
        x, y = torch.from_numpy(self.data.train_x), torch.from_numpy(self.data.train_y)
        return [(x[rows], y[rows]) for rows in self.samples]

    @cached_property
    def held_out(self) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.from_numpy(self.data.test_x), torch.from_numpy(self.data.test_y)


@cache
def task(model: str) -> Task:
    """The task, made once in a process."""
    return Task(model)


class Pairs:
    """Times of the peer's rounds, and of ours, each played right after one of the peer's.

    The first round of the peer is not counted, but its model is compared with ours.

    Args:
        done: the task.
        often: our rounds for one of the peer's.
        clock: CPU time, unless the peer works in other processes too.
    """

    def __init__(self, done: Task, often: int, clock: Callable[[], float] = time.process_time) -> None:
        self.task, self.often, self.clock = done, often, clock
        self.ours, self.peers = list[float](), list[float]()
        self.losses: tuple[float, float] | None = None
        self.begun = 0.0

    def after_round(self, parameters: Callable[[], Array], loss: float) -> None:
        """To be called when the peer has finished a round with these parameters and this loss on the held-out
        images."""
        ended = self.clock()
        if self.losses is None:
            expected, expected_loss = self.task.round(self.task.parameters)
            assert np.allclose(parameters(), expected, atol=1e-4), "the peer's round gives another model"
            assert abs(loss - expected_loss) < 1e-3, (loss, expected_loss)
            self.losses = (expected_loss, loss)
        else:
            self.peers.append(ended - self.begun)
            started = self.clock()
            for _ in range(self.often):
                self.task.round(self.task.parameters)
            self.ours.append((self.clock() - started) / self.often)
        self.begun = self.clock()

    def result(self) -> dict[str, Any]:
        ratios = sorted(peer / ours for peer, ours in zip(self.peers, self.ours, strict=True))
        assert self.losses is not None
        return {
            "ms": round(1e3 * statistics.median(self.ours), 3),
            "peer_ms": round(1e3 * statistics.median(self.peers), 1),
            "times_faster": round(statistics.median(ratios), 1),
            "range": [round(ratios[0], 1), round(ratios[-1], 1)],
            "loss_after_a_round": round(self.losses[0], 5),
            "peer_loss_after_a_round": round(self.losses[1], 5),
        }
