"""Image data sets, and their partition among clients."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.validation import Array, integer, number


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled images for training and for testing.

    Attributes:
        train_x, test_x: float32[N, F], pixels in [0, 1].
        train_y, test_y: int64[N], labels 0 .. num_classes - 1.

    Raises:
        ValueError: shapes disagree, a part is empty, a pixel is outside [0, 1], or labels are not integers >= 0.
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
                    f"{part}_x and {part}_y must have shapes [N, {features}] and [N], N >= 1, not {x.shape} and "
                    f"{y.shape}"
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


def practice_data(data: Dataset, seed: int = 0) -> Dataset:
    """A data set to practise on, made only of the held-out images. The server owns these, so it reveals no client's
    data.

    It trains on four fifths of the held-out images, drawn with replacement until there are as many as training images;
    the rest is held out.

    Args:
        data: the clients' training data, and the test data.
        seed: seed of the split and of the draws.
    """
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    order = rng.permutation(len(data.test_y))
    rest, shown = np.split(order, [len(order) // 5]) if len(order) > 1 else (order, order)
    rest = rest if len(rest) else shown
    drawn = rng.choice(shown, len(data.train_y))
    return Dataset(data.test_x[drawn], data.test_y[drawn], data.test_x[rest], data.test_y[rest])


def samples_of_class(population: Any, kind: int) -> Array:
    """Samples of one class, as many as a client of federated training has, int64[n]."""
    labels = population.data.train_y
    return np.resize(np.flatnonzero(labels == kind), -(-len(labels) // population.params.num_parts))


def without_data(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for sessions with nothing to learn: one sample per client, with one pixel and two classes."""
    labels = np.arange(params["num_clients"]) % 2
    return {**params, "data": Dataset(np.zeros((len(labels), 1)), labels, np.zeros((2, 1)), labels[:2])}


def load_digits(held_out: float = 0.2, seed: int = 0) -> Dataset:
    """Load scikit-learn's bundled digits: 1,797 images of 8 x 8 pixels, ten classes (needs the `data` extra).

    Args:
        held_out: share of the images held out for testing, in (0, 1).
        seed: seed of the split; independent of an environment's seed.
    """
    held_out = number("held_out", held_out, above=0, below=1)
    try:
        from sklearn import datasets
    except ImportError as error:
        raise ImportError(
            "federated training on digits needs scikit-learn: run pip install '.[data]' in a clone of taciturn"
        ) from error
    x, y = datasets.load_digits(return_X_y=True)
    x = x / 16
    order = np.random.default_rng(integer("seed", seed, at_least=0)).permutation(len(y))
    test, train = np.split(order, [max(1, round(held_out * len(y)))])
    return Dataset(x[train], y[train], x[test], y[test])


def load_mnist(path: str | Path) -> Dataset:
    """Load MNIST from the user's file; the held-out images are its 10,000 test images.

    Args:
        path: an `.npz` file with `x_train, y_train, x_test, y_test`, in Keras's format.

    Raises:
        FileNotFoundError: there is no file at `path`.
        ValueError: the file is damaged or has another format, or an array is missing or has a wrong shape.
    """
    path, names = Path(path), ("x_train", "y_train", "x_test", "y_test")
    if not path.exists():
        raise FileNotFoundError(f"path must be an .npz file, but {str(path)!r} does not exist")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            results = {name: archive[name] for name in names if name in archive}
    except (OSError, ValueError, EOFError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{str(path)!r} is not a readable .npz file: {error}") from error
    if missing := [name for name in names if name not in results]:
        raise ValueError(f"{str(path)!r} must contain the arrays {', '.join(names)}, but has no {', '.join(missing)}")
    for name, array in results.items():
        ndim = 3 if name.startswith("x") else 1
        if array.ndim != ndim or array.dtype != np.uint8:
            raise ValueError(f"{name} in {str(path)!r} must be uint8 with {ndim} axes, not {array.dtype}{array.shape}")
    train_x, test_x = (
        results[name].reshape(len(results[name]), -1) / np.float32(255) for name in ("x_train", "x_test")
    )
    return Dataset(train_x, results["y_train"], test_x, results["y_test"])


def partition(labels: Array, num_clients: int, rng: np.random.Generator, concentration: float | None = None) -> Array:
    """Partition the samples among the clients: sizes differ by at most one, and no client is empty.

    Args:
        labels: int[N], the class of each sample.
        num_clients: M, at most N.
        concentration: None for a uniformly random split (IID clients); alpha > 0 for label skew as in Hsu, Qi and
            Brown (2019): the classes of client i follow `q_i ~ Dirichlet(alpha p)`, where p is the class proportions of
            `labels`. Small alpha: nearly one class per client; large alpha: IID. In papers that write Dirichlet(a) with
            one `a` per class, alpha equals `a` times the number of classes.

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
    """Reorder a shuffled deck so dealing `sizes` from its top gives each client a separate Dirichlet mixture of
    classes.

    A client draws its samples one by one from the remaining ones, with probabilities proportional to `q_c / p_c` for
    class c. Independent exponential clocks with these rates ring in an order with the same distribution. With q = p it
    is exactly the uniform split. The whole order is computed, although the first samples to ring would be enough,
    because a partial sort leaves the others in an order that depends on the processor.
    """
    _, labels = np.unique(labels, return_inverse=True)
    proportions = np.bincount(labels) / len(labels)
    deck = deck.copy()
    start = 0
    for size in sizes[:-1]:
        left = deck[start:]
        rates = np.maximum(rng.dirichlet(concentration * proportions) / proportions, 1e-300)
        deck[start:] = left[np.argsort(rng.exponential(size=len(left)) / rates[labels[left]], kind="stable")]
        start += size
    return deck
