"""Federated averaging of a real model on real data: the learning half of chapter 3 of Jiang (2020), section 3.4.

What a server earns by waiting for one more client is measured here, not assumed: clients hold shares of an image data
set, train a small classifier on them from the server's parameters, and the reward of a round is how much the average of
the updates that arrived lowers the cross-entropy on held-out images.

Everything is batched over (replica, client) pairs. Samples are named by their row in the training set, so a pair costs
a row of indices, not a copy of its data; shorter rows are padded with -1.
"""

import gzip
import math
import zipfile
import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.envs.core.validation import Array, integer, number

if TYPE_CHECKING:
    import torch

__all__ = [
    "Dataset",
    "HyperbolicFit",
    "Model",
    "RewardCurve",
    "SmallCNN",
    "Softmax",
    "epoch_order",
    "federated_average",
    "fit_hyperbolic",
    "load_digits",
    "load_mnist",
    "measure_reward_curve",
    "partition",
]


@dataclass(frozen=True)
class Dataset:
    """Images to learn from and images to judge by.

    Attributes:
        train_x, test_x: float32[N, F], pixels in [0, 1].
        train_y, test_y: int64[N], labels 0 .. num_classes - 1.

    Raises:
        ValueError: shapes that disagree, an empty part, a pixel outside [0, 1] or a negative label.
    """

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"{part}_x"), getattr(self, f"{part}_y")
            if x.ndim != 2 or y.ndim != 1 or len(x) != len(y) or x.size == 0 or x.shape[1] != self.num_features:
                raise ValueError(
                    f"{part}_x and {part}_y must have shapes [N, {self.num_features}] and [N], N >= 1, "
                    f"not {x.shape} and {y.shape}"
                )
            if not ((x >= 0) & (x <= 1)).all():
                raise ValueError(f"{part}_x must hold pixels in [0, 1], not {x.min()} .. {x.max()}")
            if y.dtype.kind not in "iu" or y.min() < 0:
                raise ValueError(f"{part}_y must hold integers >= 0, not {y.dtype} from {y.min()}")

    @property
    def num_features(self) -> int:
        return int(self.train_x.shape[1])

    @property
    def num_classes(self) -> int:
        return int(max(self.train_y.max(), self.test_y.max())) + 1


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
    x = (x / 16).astype(np.float32)
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
    train_x, test_x = ((x.reshape(len(x), -1) / np.float32(255)).astype(np.float32) for x in arrays[::2])
    return Dataset(train_x, arrays[1].astype(np.int64), test_x, arrays[3].astype(np.int64))


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


class Model(ABC):
    """A classifier whose parameters are a flat vector [D]: everything that follows handles many of them at once.

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

    def loss(self, parameters: Array, x: Array, y: Array) -> Array:
        """Mean cross-entropy in nats of B parameter vectors [B, D] on the same images [N, F]: float64[B]."""
        return np.array([_cross_entropy(self.logits(p, x), y) for p in parameters])

    def accuracy(self, parameters: Array, x: Array, y: Array) -> Array:
        """Share of the images [N, F] that B parameter vectors [B, D] classify as `y`: float64[B]."""
        return np.array([(self.logits(p, x).argmax(-1) == y).mean() for p in parameters])


def _cross_entropy(logits: Array, y: Array) -> float:
    top = logits.max(-1)
    log_total = np.log(np.exp(logits - top[:, None]).sum(-1)) + top
    return float((log_total - logits[np.arange(len(y)), y]).mean(dtype=np.float64))


class Softmax(Model):
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


class SmallCNN(Model):
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
        try:
            import torch
        except ImportError as error:
            raise ImportError("SmallCNN needs PyTorch: pip install 'tacit[rl]'") from error
        hidden = num_filters * self.num_features // 4
        self._shapes = ((num_filters, 1, 3, 3), (num_filters,), (num_classes, hidden), (num_classes,))
        self._stops = np.cumsum([math.prod(shape) for shape in self._shapes]).tolist()
        self.num_parameters = int(self._stops[-1])
        self._gradient = torch.func.vmap(torch.func.grad(self._weighted_loss))

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

        return np.asarray(self._gradient(*map(torch.from_numpy, (parameters, x, y, weight))).numpy())


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
    model: Model,
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
        learning_rate, epochs, batch_size: see `Model.local_update`.
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
            losses = model.loss(candidates, data.test_x, data.test_y)
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
