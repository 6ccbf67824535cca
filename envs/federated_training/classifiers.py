"""Small classifiers trained by many clients in one call, and federated averaging."""

import importlib.util
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from taciturn.validation import Array, Floats, integer, number

if TYPE_CHECKING:
    import torch


def epoch_order(samples: Array, epochs: int, rng: np.random.Generator) -> Array:
    """Shuffle each client's samples for each epoch, padding last: int[P, n] -> int[P, epochs, n]."""
    epochs = integer("epochs", epochs, at_least=1)
    keys = rng.random((len(samples), epochs, samples.shape[1]), np.float32)
    keys[np.broadcast_to(samples[:, None] < 0, keys.shape)] = 2
    return np.take_along_axis(samples[:, None], np.argsort(keys, -1, kind="stable"), -1)


class Classifier(ABC):
    """A classifier with a flat parameter vector [D]; many clients, in any replicas, are trained together.

    A sample is given by its row in the training set, so a client needs a row of indices, not a copy of its data.

    Attributes:
        num_features: F, pixels of an image.
        num_classes: C.
        num_parameters: D.
    """

    num_features: int
    num_classes: int
    num_parameters: int

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> Array:
        """Draw the initial parameters, float32[D]."""

    @abstractmethod
    def logits(self, parameters: Array, x: Array) -> Array:
        """Scores [N, C] of images [N, F] under one parameter vector [D]."""

    @abstractmethod
    def gradient(self, parameters: Array, x: Array, y: Array, weight: Array) -> Array:
        """Gradient [P, D] of the weighted sum of the cross-entropies (nats) of a batch, for P clients together.

        Args:
            parameters: [P, D].
            x, y: each client's images [P, n, F] and labels [P, n].
            weight: [P, n].
        """

    def local_update(
        self,
        parameters: Array,
        x: Array,
        y: Array,
        order: Array,
        *,
        learning_rate: float,
        batch_size: int | None = None,
    ) -> Array:
        """Train P clients by minibatch gradient descent (McMahan et al. 2017, Algorithm 1, ClientUpdate).

        A client's last batch of an epoch may be smaller. A client's result depends on its own samples only.

        Args:
            parameters: [P, D], each client's initial parameters.
            x, y: the training set, [N, F] and [N].
            order: int[P, epochs, n], the samples of each client in the order they are used, padded with -1 at the end
                (see `epoch_order`).
            batch_size: number of samples in a batch; None for one batch with all of a client's samples.

        Returns:
            [P, D], the updates: trained parameters minus `parameters`.
        """
        learning_rate = number("learning_rate", learning_rate, above=0)
        size = order.shape[2] if batch_size is None else integer("batch_size", batch_size, at_least=1)
        trained = parameters.copy()
        for epoch in range(order.shape[1]):
            for start in range(0, order.shape[2], size):
                rows = np.flatnonzero(order[:, epoch, start] >= 0)
                if not rows.size:
                    break
                batch = order[rows, epoch, start : start + size]
                weight = (batch >= 0).astype(parameters.dtype)
                weight /= weight.sum(-1, keepdims=True)
                trained[rows] -= learning_rate * self.gradient(trained[rows], x[batch], y[batch], weight)
        return trained - parameters

    def evaluate(self, parameters: Array, x: Array, y: Array) -> tuple[Floats, Floats]:
        """Evaluate B parameter vectors [B, D] on the same images [N, F] and labels [N].

        Returns:
            (loss, accuracy): mean cross-entropy in nats, and the share of the images classified as `y`; float64[B]
            each.
        """
        scores = np.array([_loss_and_accuracy(self.logits(p, x), y) for p in parameters]).reshape(-1, 2)
        return scores[:, 0], scores[:, 1]


def _loss_and_accuracy(logits: Array, y: Array) -> tuple[float, float]:
    top = logits.max(-1)
    log_total = np.log(np.exp(logits - top[:, None]).sum(-1)) + top
    loss = (log_total - logits[np.arange(len(y)), y]).mean(dtype=np.float64)
    return float(loss), float((logits.argmax(-1) == y).mean())


class Softmax(Classifier):
    """Multinomial logistic regression; the parameters are the weights [F, C], then the biases [C], flattened."""

    def __init__(self, num_features: int = 64, num_classes: int = 10) -> None:
        self.num_features = integer("num_features", num_features, at_least=1)
        self.num_classes = integer("num_classes", num_classes, at_least=2)
        self.num_parameters = (num_features + 1) * num_classes

    def initial(self, rng: np.random.Generator) -> Array:
        """All zeros, since the loss is convex: every class is equally likely, and the cross-entropy is ln C."""
        return np.zeros(self.num_parameters, np.float32)

    def logits(self, parameters: Array, x: Array) -> Array:
        table = parameters.reshape(*parameters.shape[:-1], self.num_features + 1, self.num_classes)
        return x @ table[..., :-1, :] + table[..., -1:, :]

    def gradient(self, parameters: Array, x: Array, y: Array, weight: Array) -> Array:
        scores = self.logits(parameters, x)
        scores -= scores.max(-1, keepdims=True)
        error = np.exp(scores, out=scores)
        error /= error.sum(-1, keepdims=True)
        np.put_along_axis(error, y[..., None], np.take_along_axis(error, y[..., None], -1) - 1, -1)
        error *= weight[..., None]
        gradient = np.empty((len(x), self.num_features + 1, self.num_classes), error.dtype)
        np.matmul(x.swapaxes(-1, -2), error, out=gradient[:, :-1])
        gradient[:, -1] = error.sum(-2)
        return gradient.reshape(len(x), -1)


# Largest number of activations in memory, so a large batch takes at most a few hundred MB.
_ACTIVATIONS = 8_000_000


class SmallCNN(Classifier):
    """3 x 3 convolutions, ReLU, 2 x 2 max pooling and a dense layer, in PyTorch on the CPU (needs the `rl` extra).

    Args:
        num_features: pixels of a square image with an even side: 64 (digits), 784 (MNIST).
        num_filters: convolution filters.
    """

    def __init__(self, num_features: int = 64, num_classes: int = 10, num_filters: int = 8) -> None:
        self.num_features = integer("num_features", num_features, at_least=4)
        self.num_classes = integer("num_classes", num_classes, at_least=2)
        self.num_filters = integer("num_filters", num_filters, at_least=1)
        self.side = math.isqrt(self.num_features)
        if self.side**2 != self.num_features or self.side % 2:
            raise ValueError(f"num_features must be the square of an even number, not {num_features!r}")
        if importlib.util.find_spec("torch") is None:
            raise ImportError("a convolutional network needs PyTorch: run pip install '.[rl]' in a clone of taciturn")
        hidden = num_filters * self.num_features // 4
        self._shapes = ((num_filters, 1, 3, 3), (num_filters,), (num_classes, hidden), (num_classes,))
        self._stops = np.cumsum([math.prod(shape) for shape in self._shapes]).tolist()
        self.num_parameters = int(self._stops[-1])

    def initial(self, rng: np.random.Generator) -> Array:
        """Uniform initialisation of He et al. (2015) for the weights, zero biases."""
        bounds = [math.sqrt(6 / math.prod(shape[1:])) if len(shape) > 1 else 0.0 for shape in self._shapes]
        parts = [rng.uniform(-bound, bound, math.prod(s)) for bound, s in zip(bounds, self._shapes, strict=True)]
        return np.concatenate(parts).astype(np.float32)

    def _forward(self, parameters: "torch.Tensor", x: "torch.Tensor") -> "torch.Tensor":
        """Scores [n, C] of one parameter vector [D] for images [n, F]."""
        from torch.nn import functional

        filters, offsets, dense, biases = (
            parameters[stop - math.prod(shape) : stop].reshape(shape)
            for stop, shape in zip(self._stops, self._shapes, strict=True)
        )
        hidden = functional.conv2d(x.reshape(-1, 1, self.side, self.side), filters, offsets, padding=1)
        hidden = functional.max_pool2d(functional.relu(hidden), 2).flatten(1)
        return hidden @ dense.T + biases

    def _weighted_loss(self, parameters: Any, x: Any, y: Any, weight: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(self._forward(parameters, x), y, reduction="none") @ weight

    def logits(self, parameters: Array, x: Array) -> Array:
        import torch

        with torch.no_grad():
            flat = torch.from_numpy(parameters)
            parts = [self._forward(flat, torch.from_numpy(x[i : i + 1000])) for i in range(0, len(x), 1000)]
            return np.asarray(torch.cat(parts).numpy())

    def gradient(self, parameters: Array, x: Array, y: Array, weight: Array) -> Array:
        import torch

        at_once = max(1, _ACTIVATIONS // (x[0].size * self.num_filters))
        gradient = torch.func.vmap(torch.func.grad(self._weighted_loss), chunk_size=at_once)
        return np.asarray(gradient(*map(torch.from_numpy, (parameters, x, y, weight))).numpy())


def federated_average(parameters: Array, updates: Array, weights: Array) -> Array:
    """Aggregate the updates of a round: `w + sum_i weight_i u_i / sum_i weight_i` (McMahan et al. 2017, Algorithm 1).

    With `u_i = w_i - w` this is the weighted average of the clients' models w_i. In that paper the weights are the
    numbers of samples; equal weights give the plain mean; weight 0 leaves a client out.

    Args:
        parameters: [B, D], the servers' parameters.
        updates: [B, K, D].
        weights: [B, K], >= 0. A replica without a positive weight keeps its parameters.

    Returns:
        [B, D].
    """
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(f"weights must be finite and >= 0, but the smallest is {weights.min()}")
    total = weights.sum(-1, keepdims=True)
    shares = np.divide(weights, total, out=np.zeros(weights.shape), where=total > 0).astype(parameters.dtype)
    return np.asarray(parameters + (shares[:, None] @ updates)[:, 0])
