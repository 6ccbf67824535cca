"""When should a parameter server stop waiting, if what it earns by waiting is real?

Description
    The decision of `tacit/RoundStopping-v0`, with a model that learns. `M` clients hold shares of an image data set. In every
    round they train a small classifier on them, from the server's parameters; the server waits, slot by slot, for their
    updates, and closes the round by averaging those that came (federated averaging, McMahan et al. 2017). Which clients are
    first is uniformly random, since the clocks treat them alike.

Paper
    Jiang 2020 (dissertation), chapter 3, section 3.4: the experiments of Figures 3.2-3.6.

Agents
    One: the server (`server_0`).

Observation
    Box float32 `[k, beta, u, slots, time_left, test_loss]`: as in round stopping, and the held-out cross-entropy (nats, clipped
    to 10) of the server's present parameters.

Action
    Discrete(2): 0 stop the round, 1 wait: one slot with geometric clocks, until the next completion or upload with Pareto ones.

Reward
    By how much the round lowered the held-out cross-entropy, when it closes, else 0; negative when the round did harm.
    `lagrangian`: less lambda (n tau + t0). A round closed without updates (k = 0) earns nothing.

Termination
    As in round stopping: terminated when the time budget is spent (`rate`) or when the round closes (`lagrangian`).

Info
    That of round stopping; always `test_loss` and `test_accuracy`.

Privacy channels
    `update` (observer server, unit user): a client's trained parameters minus the server's, a vector in R^D. The updates of a
    round pass when it closes, or when the session ends with it. Sensitivity: 2 `clip_norm` in the Euclidean norm; unbounded
    (not stated) without clipping.

Arguments
    Those of round stopping, where `reward` is only what planning policies believe: `OptimalStopping` plans with it, the world
    does not look at it. The default was fitted to the curve that the other defaults give (`FederatedTraining.reward_curve`).
    data: "digits" (scikit-learn's, `data` extra), the path of the user's MNIST files (`load_mnist`), or a `Dataset`.
    concentration: None for IID clients, > 0 for label skew (`partition`). model: "softmax" or "cnn" (`rl` extra).
    learning_rate > 0, epochs >= 1, batch_size >= 1 or None (all of a client's samples): the clients' training.
    weighting: of the average, by "samples" or "uniform". clip_norm: Euclidean bound on an update, > 0; None: none.

Deviations from the paper
    The paper trains a convolutional network of some 100,000 parameters on MNIST, with settings it does not give; the default
    here is softmax regression on 8 x 8 digits, a round of which costs a millisecond. The paper fits R(k) = c - a / (k + 1)
    and uses it from k = 0, where it gives c - a > 0; a real round without updates earns 0, which the fit leaves out.
    Averaging k of M updates adds a variance in proportion to 1/k, so that c - a / k fits better (R^2 0.9997 against 0.96, IID).
    With label skew R(k) < 0 for small k: one client's update does harm. R also falls from round to round as training goes on,
    and what few updates lack in one round the next ones partly make good: in the default setting `FixedCount(3)` ends its 100 s
    with a lower loss (1.45, though a lower accuracy) than the rule that is optimal for a fixed R (1.48).

Registered configurations
    `tacit/FederatedTraining-v0`: digits, IID, softmax, and the clocks of the paper's setting.

Version history
    v0: first version.
"""

import gzip
import importlib.util
import math
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.envs import round_stopping
from tacit.envs.core import Array, Channel, Layout, Role, World, choice, integer, number
from tacit.envs.round_stopping import Hyperbolic, RoundStopping

if TYPE_CHECKING:
    import torch

__all__ = [
    "Classifier",
    "Dataset",
    "FederatedTraining",
    "HyperbolicFit",
    "Params",
    "RewardCurve",
    "SmallCNN",
    "Softmax",
    "State",
    "epoch_order",
    "federated_average",
    "federated_training_v0",
    "fit_hyperbolic",
    "load_digits",
    "load_mnist",
    "measure_reward_curve",
    "partition",
]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to learn from and images to judge by.

    Attributes:
        train_x, test_x: float32[N, F], pixels in [0, 1].
        train_y, test_y: int64[N], labels 0 .. num_classes - 1.

    Raises:
        ValueError: shapes that disagree, an empty part, a pixel outside [0, 1], or labels that are no integers >= 0.
    """

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array

    def __post_init__(self) -> None:
        features = self.train_x.shape[-1]
        for part in ("train", "test"):
            x, y = getattr(self, f"{part}_x"), getattr(self, f"{part}_y")
            if x.ndim != 2 or y.ndim != 1 or len(x) != len(y) or x.size == 0 or x.shape[1] != features:
                raise ValueError(
                    f"{part}_x and {part}_y must have shapes [N, {features}] and [N], N >= 1, not {x.shape} and {y.shape}"
                )
            if not ((x >= 0) & (x <= 1)).all():
                raise ValueError(f"{part}_x must hold pixels in [0, 1], not {x.min()} .. {x.max()}")
            if y.dtype.kind not in "iu" or y.min() < 0:
                raise ValueError(f"{part}_y must hold integers >= 0, not {y.dtype} from {y.min()}")
            object.__setattr__(self, f"{part}_x", x.astype(np.float32, copy=False))
            object.__setattr__(self, f"{part}_y", y.astype(np.int64, copy=False))

    @property
    def num_features(self) -> int:
        return int(self.train_x.shape[1])

    @property
    def num_classes(self) -> int:
        return int(max(self.train_y.max(), self.test_y.max())) + 1


@dataclass(frozen=True, kw_only=True)
class Params(round_stopping.Params):
    """The world's parameters: those of round stopping, and what the clients learn from and how."""

    # Fitted to the curve that the defaults give over 20 rounds.
    reward: Hyperbolic | Sequence[float] | Array = field(default_factory=lambda: Hyperbolic(0.0319, 0.0316))
    data: str | Path | Dataset = "digits"
    concentration: float | None = None
    model: str = "softmax"
    learning_rate: float = 0.1
    epochs: int = 1
    batch_size: int | None = 10
    weighting: str = "samples"
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.data, str | Path | Dataset):
            raise ValueError(f"data must be 'digits', the path of MNIST files, or a Dataset, not {self.data!r}")
        if self.concentration is not None:
            number("concentration", self.concentration, above=0)
        choice("model", self.model, ("softmax", "cnn"))
        number("learning_rate", self.learning_rate, above=0)
        integer("epochs", self.epochs, at_least=1)
        if self.batch_size is not None:
            integer("batch_size", self.batch_size, at_least=1)
        choice("weighting", self.weighting, ("samples", "uniform"))
        if self.clip_norm is not None:
            number("clip_norm", self.clip_norm, above=0)


@dataclass(frozen=True)
class State(round_stopping.State):
    """B training sessions, and what each server has learned."""

    samples: Array  # int64[B, M, n]: each client's rows of the training set, padded with -1
    parameters: Array  # float32[B, D]: the server's
    loss: Array  # float64[B]: held-out cross-entropy of `parameters`, in nats
    accuracy: Array  # float64[B]: held-out


def load_digits(held_out: float = 0.2, seed: int = 0) -> Dataset:
    """Load scikit-learn's bundled digits: 1,797 images of 8 x 8 pixels, ten classes (needs the `data` extra).

    Args:
        held_out: share of the images to judge by, in (0, 1); the rest is to learn from.
        seed: of the split, which stays the same however often a world is reset.
    """
    held_out = number("held_out", held_out, above=0, below=1)
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError("federated training on digits needs scikit-learn: pip install 'tacit[data]'") from error
    x, y = datasets.load_digits(return_X_y=True)
    x = x / 16
    order = np.random.default_rng(integer("seed", seed, at_least=0)).permutation(len(y))
    test, train = np.split(order, [max(1, round(held_out * len(y)))])
    return Dataset(x[train], y[train], x[test], y[test])


def load_mnist(path: str | Path) -> Dataset:
    """Load MNIST from files the user has; the held-out images are its own 10,000 test images.

    Args:
        path: an `.npz` file with `x_train, y_train, x_test, y_test`, or the folder of the four IDX files, gzipped or not.

    Raises:
        FileNotFoundError: nothing there, or an IDX file is missing.
        ValueError: a file that is not what its name says, cut short, or of other shapes.
    """
    path = Path(path)
    if path.is_dir():
        names = ("train-images", "train-labels", "t10k-images", "t10k-labels")
        arrays = [_read_idx(_find_idx(path, name), ndim=3 if name.endswith("images") else 1) for name in names]
    elif path.is_file():
        arrays = _read_npz(path)
    else:
        raise FileNotFoundError(f"path must be an .npz file or a folder of IDX files, but {str(path)!r} does not exist")
    for name, array, ndim in zip(("train_x", "train_y", "test_x", "test_y"), arrays, (3, 1, 3, 1), strict=True):
        if array.ndim != ndim or array.dtype != np.uint8:
            raise ValueError(f"{name} in {str(path)!r} must be uint8 with {ndim} axes, not {array.dtype}{array.shape}")
    train_x, test_x = (x.reshape(len(x), -1) / np.float32(255) for x in arrays[::2])
    return Dataset(train_x, arrays[1], test_x, arrays[3])


def _read_npz(path: Path) -> list[Array]:
    names = ("x_train", "y_train", "x_test", "y_test")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [name for name in names if name not in archive]
            if not missing:
                return [archive[name] for name in names]
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is not a readable .npz file: {error}") from error
    raise ValueError(f"{str(path)!r} must hold the arrays {', '.join(names)}, but has no {', '.join(missing)}")


def _find_idx(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}[-.]idx?-ubyte*"))
    if not found:
        raise FileNotFoundError(f"path must hold the four IDX files, but {str(folder)!r} has no {name}-idx*-ubyte[.gz]")
    return found[0]


def _read_idx(path: Path, ndim: int) -> Array:
    """Read unsigned bytes in the IDX format: 0, 0, 8, ndim, then the sizes as big-endian 32-bit integers."""
    content = path.read_bytes()
    try:
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is not a readable gzip file: {error}") from error
    if content[:4] != bytes((0, 0, 8, ndim)) or len(content) < 4 + 4 * ndim:
        raise ValueError(f"{str(path)!r} is not an IDX file of unsigned bytes with {ndim} axes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", ndim, offset=4))
    data = np.frombuffer(content, np.uint8, offset=4 + 4 * ndim)
    if data.size != math.prod(shape):
        raise ValueError(f"{str(path)!r} must hold {math.prod(shape)} bytes of data, not {data.size}")
    return data.reshape(shape)


def partition(labels: Array, num_clients: int, rng: np.random.Generator, concentration: float | None = None) -> Array:
    """Share the samples out among the clients: every sample to one client, sizes equal to within one, none empty.

    Args:
        labels: int[N], the class of each sample.
        num_clients: M, at most N.
        concentration: None for a uniformly random split (IID clients); alpha > 0 for label skew as in Hsu, Qi and
            Brown (2019): client i's classes follow `q_i ~ Dirichlet(alpha p)`, where p is the class proportions of
            `labels`. Small alpha: nearly one class per client; large alpha: IID. Where others write Dirichlet(a) for
            `a` per class, alpha is `a` times the number of classes.

    Returns:
        int64[M, ceil(N / M)], the samples of each client, rows padded with -1. Clients are exchangeable.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise ValueError(f"labels must be int[N], not {labels.dtype}{labels.shape}")
    num_clients = integer("num_clients", num_clients, at_least=1, at_most=len(labels))
    if concentration is not None:
        concentration = number("concentration", concentration, above=0)
    sizes = np.arange(len(labels), len(labels) + num_clients) // num_clients
    deck = rng.permutation(len(labels))
    if concentration is not None:
        deck = _deal(labels, deck, sizes, concentration, rng)
    samples = np.full((num_clients, sizes.max()), -1)
    samples[np.arange(sizes.max()) < sizes[:, None]] = deck
    return samples[rng.permutation(num_clients)]


def _deal(labels: Array, deck: Array, sizes: Array, concentration: float, rng: np.random.Generator) -> Array:
    """Reorder a shuffled deck so that dealing `sizes` off its top gives each client its own Dirichlet mix of classes.

    A client draws one sample after the other from those left, each with a chance in proportion to `q_c / p_c` of its class
    c. That is the order of independent exponential clocks with these rates. With q = p it is the uniform split exactly.
    """
    _, labels = np.unique(labels, return_inverse=True)
    proportions = np.bincount(labels) / len(labels)
    deck = deck.copy()
    start = 0
    for size in sizes[:-1]:
        left = deck[start:]
        rates = np.maximum(rng.dirichlet(concentration * proportions) / proportions, 1e-300)
        deck[start:] = left[np.argpartition(rng.exponential(size=len(left)) / rates[labels[left]], size - 1)]
        start += size
    return deck


def epoch_order(samples: Array, epochs: int, rng: np.random.Generator) -> Array:
    """Shuffle each client's samples anew for each epoch, padding last: int[P, n] -> int[P, epochs, n]."""
    epochs = integer("epochs", epochs, at_least=1)
    keys = rng.random((len(samples), epochs, samples.shape[1]), np.float32)
    keys[np.broadcast_to(samples[:, None] < 0, keys.shape)] = 2
    return np.take_along_axis(samples[:, None], np.argsort(keys, -1, kind="stable"), -1)


class Classifier(ABC):
    """A classifier whose parameters are a flat vector [D]; clients, of whatever replica, are trained many at a time.

    Samples are named by their row in the training set, so that a client costs a row of indices, not a copy of its data.

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
        """Draw the parameters training begins with, float32[D]."""

    @abstractmethod
    def logits(self, parameters: Array, x: Array) -> Array:
        """Scores [N, C] that one parameter vector [D] gives to images [N, F]."""

    @abstractmethod
    def gradient(self, parameters: Array, x: Array, y: Array, weight: Array) -> Array:
        """Gradient [P, D] of the weighted sum of the cross-entropies (nats) of a batch, for P clients at once.

        Args:
            parameters: [P, D].
            x, y: images [P, n, F] and labels [P, n], each client its own.
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

        A client's last batch of an epoch may be smaller. A client's result depends on its own rows alone.

        Args:
            parameters: [P, D], where each client starts.
            x, y: the training set, [N, F] and [N].
            order: int[P, epochs, n], the samples of each client in the order they are used, padded with -1 at the end
                (see `epoch_order`).
            batch_size: None for one batch with all of a client's samples.

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

    def evaluate(self, parameters: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """Judge B parameter vectors [B, D] by the same images [N, F] and labels [N].

        Returns:
            (loss, accuracy): mean cross-entropy in nats, and the share of the images classified as `y`; float64[B] each.
        """
        judged = np.array([_judge(self.logits(p, x), y) for p in parameters]).reshape(-1, 2)
        return judged[:, 0], judged[:, 1]


def _judge(logits: Array, y: Array) -> tuple[float, float]:
    top = logits.max(-1)
    log_total = np.log(np.exp(logits - top[:, None]).sum(-1)) + top
    loss = (log_total - logits[np.arange(len(y)), y]).mean(dtype=np.float64)
    return float(loss), float((logits.argmax(-1) == y).mean())


class Softmax(Classifier):
    """Multinomial logistic regression; parameters are the weights [F, C] and then the biases [C], flat."""

    def __init__(self, num_features: int = 64, num_classes: int = 10) -> None:
        self.num_features = integer("num_features", num_features, at_least=1)
        self.num_classes = integer("num_classes", num_classes, at_least=2)
        self.num_parameters = (num_features + 1) * num_classes

    def initial(self, rng: np.random.Generator) -> Array:
        """All zeros, as the loss is convex: every class equally likely, cross-entropy ln C."""
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


# How many numbers the hidden layer may hold at once: bounds the memory of a large batch to some hundred MB.
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
            raise ImportError("a convolutional network needs PyTorch: pip install 'tacit[rl]'")
        hidden = num_filters * self.num_features // 4
        self._shapes = ((num_filters, 1, 3, 3), (num_filters,), (num_classes, hidden), (num_classes,))
        self._stops = np.cumsum([math.prod(shape) for shape in self._shapes]).tolist()
        self.num_parameters = int(self._stops[-1])

    def initial(self, rng: np.random.Generator) -> Array:
        """He's uniform initialisation (2015) for the weights, zero biases."""
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

    With `u_i = w_i - w` this is the weighted average of the clients' models w_i. The paper weighs a client by its number
    of samples; equal weights give the plain mean; weight 0 leaves a client out.

    Args:
        parameters: [B, D], the server's.
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


@dataclass(frozen=True)
class RewardCurve:
    """What k of M updates earn, measured: see `measure_reward_curve`.

    Attributes:
        decrements: float64[replicas, rounds, M + 1], by how much k = 0 .. M updates lowered the held-out cross-entropy.
    """

    decrements: Array

    @property
    def mean(self) -> Array:
        """R(0) .. R(M), the mean over replicas and rounds."""
        return np.asarray(self.decrements.mean((0, 1)))

    def half_width(self, confidence: float = 0.95) -> Array:
        """Half the width of the confidence interval of each R(k), [M + 1]: Student's t over independent replicas."""
        from scipy.special import stdtrit

        replicas = len(self.decrements)
        if replicas < 2:
            raise ValueError(f"a confidence interval needs at least 2 replicas, not {replicas}")
        quantile = stdtrit(replicas - 1, (1 + number("confidence", confidence, above=0, below=1)) / 2)
        return np.asarray(quantile * self.decrements.mean(1).std(0, ddof=1) / math.sqrt(replicas))


def measure_reward_curve(
    model: Classifier,
    data: Dataset,
    rng: np.random.Generator,
    *,
    num_clients: int = 100,
    concentration: float | None = None,
    rounds: int = 20,
    replicas: int = 20,
    learning_rate: float = 0.1,
    epochs: int = 1,
    batch_size: int | None = 10,
    updates_per_round: int | None = None,
) -> RewardCurve:
    """Measure the reward function R(k) of section 3.4 (Figure 3.2): the cumulative decrement of the held-out loss.

    In every round all M clients train from the server's parameters; the first k of them in a uniformly random order are
    aggregated, for every k. That is the law of the first k to arrive under any clock that treats the clients alike. The
    model then moves on with the first `updates_per_round` of them (None: all M), so R is an average along one training
    run, though the decrement of a single round shrinks as training goes on.

    R(0) = 0 always: no update changes nothing. It may fall below zero for small k, where clients' data differ much.

    Args:
        concentration: see `partition`, which is drawn anew for every replica.
        rounds, replicas: how many rounds from the initial model, and how many independent repetitions.
        learning_rate, epochs, batch_size: see `Classifier.local_update`.
    """
    rounds, replicas = integer("rounds", rounds, at_least=1), integer("replicas", replicas, at_least=1)
    num_clients = integer("num_clients", num_clients, at_least=1, at_most=len(data.train_y))
    kept = num_clients
    if updates_per_round is not None:
        kept = integer("updates_per_round", updates_per_round, at_least=1, at_most=num_clients)
    decrements = np.zeros((replicas, rounds, num_clients + 1))
    for replica in range(replicas):
        samples = partition(data.train_y, num_clients, rng, concentration)
        parameters = model.initial(rng)
        for t in range(rounds):
            arrivals = samples[rng.permutation(num_clients)]
            updates = model.local_update(
                np.tile(parameters, (num_clients, 1)),
                data.train_x,
                data.train_y,
                epoch_order(arrivals, epochs, rng),
                learning_rate=learning_rate,
                batch_size=batch_size,
            )
            sizes = (arrivals >= 0).sum(-1, keepdims=True)
            steps = np.cumsum(sizes * updates, 0) / np.cumsum(sizes, 0)
            candidates = np.concatenate([parameters[None], parameters + steps.astype(parameters.dtype)])
            losses, _ = model.evaluate(candidates, data.test_x, data.test_y)
            decrements[replica, t] = losses[0] - losses
            parameters = candidates[kept]
    return RewardCurve(decrements)


class HyperbolicFit(NamedTuple):
    """`R(k) = c - a / (k + offset)`, and the share of the variance of the measured curve it explains."""

    c: float
    a: float
    r_squared: float


def fit_hyperbolic(curve: Array, offset: float = 1.0) -> HyperbolicFit:
    """Fit `c - a / (k + offset)` to a curve R(0) .. R(M) by least squares over k = 1 .. M.

    The paper (section 3.4) takes offset 1. Averaging k of M exchangeable updates adds `(1/k - 1/M) tr(H S) / 2` to the
    loss to second order (H its Hessian, S the updates' covariance), which is offset 0 and fits measured curves better.

    k = 0 is left out: a real round without updates earns nothing, while the paper's form gives c - a there, which its own
    numbers make positive (0.022). Its figure starts at k = 1 too.
    """
    curve = np.asarray(curve, np.float64)
    if curve.ndim != 1 or len(curve) < 4 or not np.isfinite(curve).all():
        raise ValueError(f"curve must hold at least 4 finite numbers R(0) .. R(M), not {curve!r}")
    offset = number("offset", offset, above=-1)
    measured, falling = curve[1:], 1 / (np.arange(1, len(curve)) + offset)
    centred = falling - falling.mean()
    a = -(centred @ measured) / (centred @ centred)
    c = measured.mean() + a * falling.mean()
    spread = ((measured - measured.mean()) ** 2).sum()
    residual = ((measured - c + a * falling) ** 2).sum()
    return HyperbolicFit(float(c), float(a), float(1 - residual / spread) if spread > 0 else 1.0)


class FederatedTraining(RoundStopping):
    __doc__ = __doc__
    name = "federated_training"
    params_type = Params
    params: Params

    def __init__(self, params: Params, num_envs: int = 1) -> None:
        self.data = _load(params.data)
        integer("num_clients", params.num_clients, at_least=1, at_most=len(self.data.train_y))
        kind = Softmax if params.model == "softmax" else SmallCNN
        self.classifier: Classifier = kind(self.data.num_features, self.data.num_classes)
        super().__init__(params, num_envs)

    def make_roles(self) -> tuple[Role, ...]:
        (server,) = super().make_roles()
        return (replace(server, layout=Layout(**server.layout.fields, test_loss=(1, 0, 10))),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("update", "vector", observer="server", unit="user"),)

    def initial(self) -> State:
        p, replicas = self.params, range(self.num_envs)
        samples = [
            partition(self.data.train_y, p.num_clients, self.stream("partition"), p.concentration) for _ in replicas
        ]
        parameters = np.stack([self.classifier.initial(self.stream("parameters")) for _ in replicas])
        loss, accuracy = self.classifier.evaluate(parameters, self.data.test_x, self.data.test_y)
        fresh = super().initial()
        session = {f.name: getattr(fresh, f.name) for f in fields(fresh)}
        return State(**session, samples=np.stack(samples), parameters=parameters, loss=loss, accuracy=accuracy)

    def upload(self, state: State, who: Array) -> tuple[Array, Array]:
        """Train the clients whose updates arrived in the rounds of the replicas `who` bool[B], and send what they learned.

        Returns:
            (updates float32[B, M, D], delivered bool[B, M]), as the server reads them.
        """
        p, shape = self.params, (self.num_envs, self.params.num_clients)
        place = self.stream("arrivals").random(shape).argsort(-1).argsort(-1)
        senders = (place < state.received[:, None]) & who[:, None]
        replica, client = np.nonzero(senders)
        trained = self.classifier.local_update(
            state.parameters[replica],
            self.data.train_x,
            self.data.train_y,
            epoch_order(state.samples[replica, client], p.epochs, self.stream("training")),
            learning_rate=p.learning_rate,
            batch_size=p.batch_size,
        )
        if p.clip_norm is not None:
            norms = np.linalg.norm(trained, axis=-1, keepdims=True)
            trained *= p.clip_norm / np.maximum(norms, p.clip_norm)
        updates = np.zeros((*shape, self.classifier.num_parameters), np.float32)
        updates[replica, client] = trained
        return self.channels["update"].send(updates, senders, None if p.clip_norm is None else 2 * p.clip_norm)

    def aggregate(self, state: round_stopping.State, closes: Array) -> tuple[State, Array]:
        assert isinstance(state, State)
        who = closes & ~self.done & (state.received > 0)
        if not who.any():
            return state, np.zeros(self.num_envs)
        updates, delivered = self.upload(state, who)
        sizes = (state.samples >= 0).sum(-1) if self.params.weighting == "samples" else 1
        parameters, loss, accuracy = state.parameters.copy(), state.loss.copy(), state.accuracy.copy()
        parameters[who] = federated_average(parameters[who], updates[who], (delivered * sizes)[who])
        loss[who], accuracy[who] = self.classifier.evaluate(parameters[who], self.data.test_x, self.data.test_y)
        return replace(state, parameters=parameters, loss=loss, accuracy=accuracy), state.loss - loss

    def transition(
        self, state: round_stopping.State, actions: dict[str, Array]
    ) -> tuple[round_stopping.State, dict[str, Array], Array, Array, dict[str, Any]]:
        new, reward, terminated, truncated, info = super().transition(state, actions)
        # What was uploaded in a round that the session's end cuts off was sent all the same.
        cut = terminated & ~self.done & (new.received > 0)
        if cut.any():
            assert isinstance(new, State)
            self.upload(new, cut)
        return new, reward, terminated, truncated, info

    def inform(
        self, passed: round_stopping.State, new: round_stopping.State, closes: Array, earned: Array, complete: Array
    ) -> dict[str, Any]:
        assert isinstance(new, State)
        info = super().inform(passed, new, closes, earned, complete)
        return info | {"test_loss": new.loss, "test_accuracy": new.accuracy}

    def seen(self, state: round_stopping.State) -> dict[str, Array]:
        assert isinstance(state, State)
        return super().seen(state) | {"test_loss": state.loss}

    @property
    def state(self) -> State:
        state = super().state
        assert isinstance(state, State)
        return state

    def _quality(self) -> dict[str, Array]:
        return {"test_loss": self.state.loss, "test_accuracy": self.state.accuracy}

    def measures(self) -> dict[str, Callable[[], Array]]:
        quality = self._quality()
        return super().measures() | {name: lambda value=value: value for name, value in quality.items()}

    def metrics(self) -> dict[str, Array]:
        """Those of round stopping, `test_loss` (nats) and `test_accuracy` at the end."""
        return super().metrics() | {name: value.copy() for name, value in self._quality().items()}

    def describe(self, replica: int = 0) -> str:
        quality = self._quality()
        return super().describe(replica) + "".join(f"  {name} {quality[name][replica]:.4f}" for name in quality)

    def draw(self, axes: Any, replica: int = 0) -> None:
        super().draw(axes, replica)
        quality = self._quality()
        loss, accuracy = quality["test_loss"][replica], quality["test_accuracy"][replica]
        axes.set_xlabel(f"clients (held-out loss {loss:.4f}, accuracy {accuracy:.1%})")

    def reward_curve(
        self, seed: int, *, rounds: int = 20, replicas: int = 20, updates_per_round: int | None = None
    ) -> RewardCurve:
        """The curve R(k) of this world's data, model and training, without `clip_norm`; see `measure_reward_curve`."""
        p = self.params
        return measure_reward_curve(
            self.classifier,
            self.data,
            np.random.default_rng(integer("seed", seed, at_least=0)),
            num_clients=p.num_clients,
            concentration=p.concentration,
            rounds=rounds,
            replicas=replicas,
            learning_rate=p.learning_rate,
            epochs=p.epochs,
            batch_size=p.batch_size,
            updates_per_round=updates_per_round,
        )


def _load(data: str | Path | Dataset) -> Dataset:
    if isinstance(data, Dataset):
        return data
    return load_digits() if data == "digits" else load_mnist(data)


federated_training_v0 = World(FederatedTraining)
single_env, vector_env = federated_training_v0.single_env, federated_training_v0.vector_env
parallel_env, aec_env = federated_training_v0.parallel_env, federated_training_v0.env
