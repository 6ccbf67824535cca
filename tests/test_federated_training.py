"""Federated averaging on real data: each function against its definition, by hand or by another library."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.envs.core.validation import Array
from tacit.envs.federated_training import (
    Dataset,
    Model,
    SmallCNN,
    Softmax,
    _deal,
    epoch_order,
    federated_average,
    fit_hyperbolic,
    load_digits,
    load_mnist,
    measure_reward_curve,
    partition,
)

Kind = type[Softmax] | type[SmallCNN]


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load_digits()


def train(model: Model, data: Dataset, samples: Array, rounds: int, seed: int = 0, **how: Any) -> Array:
    """Parameters [D] after rounds in which every client takes part."""
    rng = np.random.default_rng(seed)
    parameters = model.initial(rng)
    for _ in range(rounds):
        order = epoch_order(samples, 1, rng)
        starts = np.tile(parameters, (len(samples), 1))
        updates = model.local_update(starts, data.train_x, data.train_y, order, **how)
        parameters = federated_average(parameters[None], updates[None], (samples >= 0).sum(-1)[None])[0]
    return parameters


class TestData:
    def test_digits_are_split_without_overlap(self, digits: Dataset) -> None:
        assert digits.train_x.shape == (1438, 64)
        assert digits.test_x.shape == (359, 64)
        assert digits.train_x.dtype == digits.test_x.dtype == np.float32
        assert digits.num_classes == 10
        assert digits.train_x.max() == 1
        again, other = load_digits(), load_digits(seed=1)
        np.testing.assert_array_equal(digits.test_x, again.test_x)
        assert not np.array_equal(digits.test_x, other.test_x)
        pixels = [np.concatenate([d.train_x, d.test_x]).sum(dtype=np.float64) for d in (digits, other)]
        assert pixels[0] == pytest.approx(pixels[1])

    @pytest.mark.parametrize("held_out", [0, 1, -0.1, float("nan")])
    def test_share_held_out_is_checked(self, held_out: float) -> None:
        with pytest.raises(ValueError, match="held_out must be"):
            load_digits(held_out)

    def test_data_is_checked(self) -> None:
        x, y = np.zeros((3, 4), np.float32), np.zeros(3, int)
        with pytest.raises(ValueError, match="test_x and test_y must have shapes"):
            Dataset(x, y, x, y[:2])
        with pytest.raises(ValueError, match="train_x must hold pixels"):
            Dataset(np.full((3, 4), np.nan), y, x, y)
        with pytest.raises(ValueError, match="test_y must hold integers"):
            Dataset(x, y, x, y - 1)


IDX_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def images() -> tuple[Array, ...]:
    """A small stand-in for MNIST: x_train, y_train, x_test, y_test."""
    rng = np.random.default_rng(0)
    shapes = ((20, 28, 28), (20,), (5, 28, 28), (5,))
    return tuple(rng.integers(0, 256 if len(s) > 1 else 10, s, dtype=np.uint8) for s in shapes)


def write_idx(folder: Path, pack: Callable[[bytes], bytes] = bytes, suffix: str = "") -> None:
    for name, array in zip(IDX_NAMES, images(), strict=True):
        header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, ">u4").tobytes()
        (folder / f"{name}{suffix}").write_bytes(pack(header + array.tobytes()))


class TestMNIST:
    def check(self, data: Dataset) -> None:
        x_train, y_train, x_test, y_test = images()
        np.testing.assert_allclose(data.train_x, x_train.reshape(20, 784) / 255, rtol=1e-6)
        np.testing.assert_allclose(data.test_x, x_test.reshape(5, 784) / 255, rtol=1e-6)
        np.testing.assert_array_equal(data.train_y, y_train)
        np.testing.assert_array_equal(data.test_y, y_test)
        assert data.train_x.dtype == np.float32

    def test_npz(self, tmp_path: Path) -> None:
        x_train, y_train, x_test, y_test = images()
        np.savez(tmp_path / "mnist.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
        self.check(load_mnist(tmp_path / "mnist.npz"))

    def test_idx(self, tmp_path: Path) -> None:
        write_idx(tmp_path)
        self.check(load_mnist(tmp_path))

    def test_gzipped_idx(self, tmp_path: Path) -> None:
        write_idx(tmp_path, gzip.compress, ".gz")
        self.check(load_mnist(str(tmp_path)))

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="does not exist"):
            load_mnist(tmp_path / "nowhere.npz")
        with pytest.raises(FileNotFoundError, match="has no train-images"):
            load_mnist(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
    def test_npz_that_is_none(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "mnist.npz"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a readable \.npz file"):
            load_mnist(path)

    def test_npz_of_one_array(self, tmp_path: Path) -> None:
        with (tmp_path / "mnist.npz").open("wb") as file:
            np.save(file, np.zeros(3))
        with pytest.raises(ValueError, match=r"not a readable \.npz file"):
            load_mnist(tmp_path / "mnist.npz")

    def test_npz_without_labels(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "mnist.npz", x_train=images()[0])
        with pytest.raises(ValueError, match="has no y_train, x_test, y_test"):
            load_mnist(tmp_path / "mnist.npz")

    def test_npz_of_floats(self, tmp_path: Path) -> None:
        x_train, y_train, x_test, y_test = images()
        np.savez(tmp_path / "mnist.npz", x_train=x_train / 255, y_train=y_train, x_test=x_test, y_test=y_test)
        with pytest.raises(ValueError, match=r"train_x in .* must be uint8 with 3 axes, not float64"):
            load_mnist(tmp_path / "mnist.npz")

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda content: content[:-1], "must hold 15680 bytes of data, not 15679"),
            (lambda content: content[:7], "not an IDX file"),
            (lambda content: b"\0\0\x0d\x03" + content[4:], "not an IDX file of unsigned bytes with 3 axes"),
            (lambda content: gzip.compress(content)[:-20], "not a readable gzip file"),
        ],
    )
    def test_corrupt_idx(self, tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
        write_idx(tmp_path)
        path = tmp_path / IDX_NAMES[0]
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(ValueError, match=message):
            load_mnist(tmp_path)


class TestPartition:
    @settings(deadline=None, max_examples=100)
    @given(
        labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
        share=st.floats(0, 1),
        concentration=st.none() | st.floats(1e-6, 1e6),
        seed=st.integers(0, 2**32),
    )
    def test_every_sample_goes_to_one_client(
        self, labels: list[int], share: float, concentration: float | None, seed: int
    ) -> None:
        num_clients = 1 + int(share * (len(labels) - 1))
        samples = partition(np.array(labels), num_clients, np.random.default_rng(seed), concentration)
        assert samples.shape == (num_clients, -(-len(labels) // num_clients))
        sizes = (samples >= 0).sum(-1)
        assert sizes.min() >= 1
        assert np.ptp(sizes) <= 1
        assert sorted(samples[samples >= 0]) == list(range(len(labels)))
        assert ((samples >= 0) == (np.arange(samples.shape[1]) < sizes[:, None])).all()
        again = partition(np.array(labels), num_clients, np.random.default_rng(seed), concentration)
        np.testing.assert_array_equal(samples, again)

    def test_concentration_orders_the_skew(self, digits: Dataset) -> None:
        def largest_class(concentration: float | None) -> float:
            samples = partition(digits.train_y, 50, np.random.default_rng(0), concentration)
            return float(np.mean([np.bincount(digits.train_y[s[s >= 0]]).max() / (s >= 0).sum() for s in samples]))

        shares = [largest_class(c) for c in (0.01, 1.0, 10.0, 1e6)]
        assert shares == sorted(shares, reverse=True)
        assert shares[0] > 0.9
        assert shares[-1] == pytest.approx(largest_class(None), abs=0.02)

    def test_clients_of_an_ample_supply_follow_a_dirichlet(self) -> None:
        # Of two classes in even supply, two samples of a client are of one class with probability (a + 1) / (2 a + 1),
        # a = concentration / 2. The share among n clients strays by 4.5 standard deviations less than once in 1e5.
        labels, a, n = np.arange(40_000) % 2, 0.5, 1000
        rng = np.random.default_rng(0)
        deck = _deal(labels, rng.permutation(len(labels)), np.full(n + 1, 2), 2 * a, rng)
        pairs = labels[deck[: 2 * n]].reshape(n, 2)
        expected = (a + 1) / (2 * a + 1)
        assert (pairs[:, 0] == pairs[:, 1]).mean() == pytest.approx(
            expected, abs=4.5 * np.sqrt(expected * (1 - expected) / n)
        )

    @pytest.mark.parametrize("num_clients", [0, 4, 2.5, True])
    def test_number_of_clients_is_checked(self, num_clients: Any) -> None:
        with pytest.raises(ValueError, match="num_clients must be an integer"):
            partition(np.array([0, 1, 1]), num_clients, np.random.default_rng(0))

    @pytest.mark.parametrize("concentration", [0, -1, float("nan"), float("inf"), "iid"])
    def test_concentration_is_checked(self, concentration: Any) -> None:
        with pytest.raises(ValueError, match="concentration must be a finite number > 0"):
            partition(np.array([0, 1, 1]), 2, np.random.default_rng(0), concentration)

    def test_labels_are_checked(self) -> None:
        with pytest.raises(ValueError, match="labels must be int"):
            partition(np.array([0.5]), 1, np.random.default_rng(0))


def test_epoch_order_shuffles_and_keeps_padding_last() -> None:
    samples = np.array([[4, 7, 2, 9], [1, 8, -1, -1]])
    order = epoch_order(samples, 50, np.random.default_rng(0))
    assert order.shape == (2, 50, 4)
    np.testing.assert_array_equal(np.sort(order[0], -1), np.tile([2, 4, 7, 9], (50, 1)))
    assert (order[1, :, 2:] == -1).all()
    np.testing.assert_array_equal(np.sort(order[1, :, :2], -1), np.tile([1, 8], (50, 1)))
    assert len(np.unique(order[0], axis=0)) > 10


def batch(model: Model, clients: int = 3, size: int = 5, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Random float64 parameters, images, labels and weights for some clients."""
    rng = np.random.default_rng(seed)
    parameters = rng.normal(0, 0.3, (clients, model.num_parameters))
    weight = rng.random((clients, size))
    weight[0, -1] = 0
    x = rng.random((clients, size, model.num_features))
    return parameters, x, rng.integers(0, model.num_classes, (clients, size)), weight


@pytest.mark.parametrize("kind", [Softmax, SmallCNN])
class TestModels:
    def test_gradient_against_finite_differences(self, kind: Kind) -> None:
        model = kind(16, 3)
        parameters, x, y, weight = batch(model)
        gradient = model.gradient(parameters, x, y, weight)

        def objective(p: Array, i: int) -> float:
            return float(
                sum(w * model.loss(p[None], x[i, j : j + 1], y[i, j : j + 1])[0] for j, w in enumerate(weight[i]))
            )

        some = np.arange(0, model.num_parameters, 3)
        steps = 1e-6 * np.eye(model.num_parameters)[some]
        for i, p in enumerate(parameters):
            numeric = [(objective(p + h, i) - objective(p - h, i)) / 2e-6 for h in steps]
            np.testing.assert_allclose(gradient[i, some], numeric, atol=1e-7)

    def test_clients_together_or_one_by_one(self, kind: Kind, digits: Dataset) -> None:
        model, rng = kind(), np.random.default_rng(0)
        starts = np.stack([model.initial(rng) + rng.normal(0, 0.1, model.num_parameters) for _ in range(7)])
        order = epoch_order(partition(digits.train_y, 7, rng)[:, :33], 2, rng)
        order[2, :, 20:] = -1

        def update(rows: slice) -> Array:
            starts32 = starts[rows].astype(np.float32)
            return model.local_update(
                starts32, digits.train_x, digits.train_y, order[rows], learning_rate=0.1, batch_size=10
            )

        together = update(slice(None))
        assert together.dtype == np.float32
        alone = np.concatenate([update(slice(i, i + 1)) for i in range(7)])
        np.testing.assert_allclose(together, alone, atol=1e-6)

    def test_local_update_is_gradient_descent_by_hand(self, kind: Kind) -> None:
        model = kind(16, 3)
        parameters, x, y, _ = batch(model, clients=1, size=7)
        order = np.array([[[3, 0, 6, 2, -1], [2, 6, 0, 3, -1]]])
        p = parameters[0]
        for used in ([3, 0, 6], [2], [2, 6, 0], [3]):
            p = p - 0.5 * model.gradient(p[None], x[:, used], y[:, used], np.full((1, len(used)), 1 / len(used)))[0]
        update = model.local_update(parameters, x[0], y[0], order, learning_rate=0.5, batch_size=3)
        np.testing.assert_allclose(update[0], p - parameters[0], atol=1e-12)

    def test_padding_and_batch_size_beyond_the_data_change_nothing(self, kind: Kind) -> None:
        model = kind(16, 3)
        parameters, x, y, _ = batch(model, clients=1, size=4)
        order = np.array([[[0, 1, 2, 3]]])
        padded = np.array([[[0, 1, 2, 3, -1, -1]]])
        update = model.local_update(parameters, x[0], y[0], order, learning_rate=0.5)
        for other, size in ((order, 9), (padded, None), (padded, 9)):
            same = model.local_update(parameters, x[0], y[0], other, learning_rate=0.5, batch_size=size)
            np.testing.assert_allclose(same, update, atol=1e-12)

    def test_same_seed_same_bits(self, kind: Kind, digits: Dataset) -> None:
        samples = partition(digits.train_y, 20, np.random.default_rng(0), 1.0)
        runs = [train(kind(), digits, samples, 2, seed, learning_rate=0.1, batch_size=10) for seed in (0, 0, 1)]
        np.testing.assert_array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[0], runs[2])

    @pytest.mark.parametrize("concentration", [None, 5.0])
    def test_training_reaches_a_good_accuracy(self, kind: Kind, digits: Dataset, concentration: float | None) -> None:
        model = kind()
        samples = partition(digits.train_y, 100, np.random.default_rng(0), concentration)
        parameters = train(model, digits, samples, 40, learning_rate=0.3, batch_size=10)
        assert model.accuracy(parameters[None], digits.test_x, digits.test_y)[0] > 0.9
        start = model.loss(model.initial(np.random.default_rng(0))[None], digits.test_x, digits.test_y)
        assert model.loss(parameters[None], digits.test_x, digits.test_y)[0] < start[0] / 3

    @pytest.mark.parametrize("how", [{"learning_rate": 0}, {"learning_rate": float("nan")}, {"batch_size": 0}])
    def test_settings_are_checked(self, kind: Kind, how: dict[str, Any]) -> None:
        model = kind(16, 3)
        parameters, x, y, _ = batch(model, clients=1)
        with pytest.raises(ValueError, match=f"{next(iter(how))} must be"):
            model.local_update(parameters, x[0], y[0], np.zeros((1, 1, 1), int), **{"learning_rate": 0.1, **how})


def test_softmax_gradient_against_autograd() -> None:
    torch = pytest.importorskip("torch")
    model = Softmax(16, 3)
    parameters, x, y, weight = batch(model)
    leaf = torch.tensor(parameters, requires_grad=True)
    table = leaf.reshape(3, 17, 3)
    logits = torch.tensor(x) @ table[:, :-1] + table[:, -1:]
    losses = torch.nn.functional.cross_entropy(logits.reshape(-1, 3), torch.tensor(y).reshape(-1), reduction="none")
    (losses.reshape(weight.shape) * torch.tensor(weight)).sum().backward()
    np.testing.assert_allclose(model.gradient(parameters, x, y, weight), leaf.grad.numpy(), atol=1e-12)


def test_softmax_loss_does_not_overflow() -> None:
    model = Softmax(4, 2)
    parameters = np.full((1, model.num_parameters), 1e30, np.float32)
    parameters[0, ::2] *= -1
    assert np.isfinite(model.loss(parameters, np.ones((1, 4), np.float32), np.array([1]))).all()


def test_first_loss_is_that_of_guessing(digits: Dataset) -> None:
    model = Softmax()
    parameters = model.initial(np.random.default_rng(0))[None]
    assert model.loss(parameters, digits.test_x, digits.test_y)[0] == pytest.approx(np.log(10), rel=1e-6)


@pytest.mark.parametrize("num_features", [50, 81])
def test_cnn_wants_square_images_with_an_even_side(num_features: int) -> None:
    with pytest.raises(ValueError, match=f"num_features must be the square of an even number, not {num_features}"):
        SmallCNN(num_features)


class TestFederatedAverage:
    def test_against_a_loop_over_the_clients_models(self) -> None:
        rng = np.random.default_rng(0)
        parameters, models = rng.normal(size=(3, 6)), rng.normal(size=(3, 4, 6))
        sizes = rng.integers(1, 9, (3, 4))
        average = federated_average(parameters, models - parameters[:, None], sizes)
        for b in range(3):
            total = np.zeros(6)
            for i in range(4):
                total += sizes[b, i] * models[b, i]
            np.testing.assert_allclose(average[b], total / sizes[b].sum(), atol=1e-12)

    def test_nobody_means_no_change_and_zero_weight_no_say(self) -> None:
        parameters, updates = np.zeros((2, 1)), np.array([[[1.0], [5.0]], [[1.0], [5.0]]])
        average = federated_average(parameters, updates, np.array([[0, 0], [0, 2]]))
        np.testing.assert_array_equal(average, [[0], [5]])

    @pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
    def test_weights_are_checked(self, bad: float) -> None:
        with pytest.raises(ValueError, match="weights must be finite and >= 0"):
            federated_average(np.zeros((1, 1)), np.zeros((1, 2, 1)), np.array([[1, bad]]))


class TestRewardCurve:
    def test_more_updates_earn_more_and_the_curve_is_hyperbolic(self, digits: Dataset) -> None:
        curve = measure_reward_curve(
            Softmax(), digits, np.random.default_rng(0), num_clients=50, rounds=10, replicas=10
        )
        assert curve.decrements.shape == (10, 10, 51)
        mean = curve.mean
        assert mean[0] == 0
        assert mean[1] < mean[5] < mean[50]
        assert (curve.half_width() < 0.01).all()
        paper, second_order = fit_hyperbolic(mean), fit_hyperbolic(mean, offset=0)
        assert paper.c > 0
        assert paper.a > 0
        assert paper.r_squared > 0.9
        assert second_order.r_squared > 0.99

    def test_label_skew_makes_single_updates_worse(self, digits: Dataset) -> None:
        iid, skewed = (
            measure_reward_curve(
                Softmax(), digits, np.random.default_rng(0), num_clients=20, concentration=c, rounds=5, replicas=5
            ).mean
            for c in (None, 0.3)
        )
        assert skewed[1] < 0 < iid[1]

    def test_last_point_is_what_a_full_round_earns(self, digits: Dataset) -> None:
        model = Softmax()
        curve = measure_reward_curve(
            model, digits, np.random.default_rng(3), num_clients=10, rounds=1, replicas=1, learning_rate=0.2
        )
        rng = np.random.default_rng(3)
        samples = partition(digits.train_y, 10, rng)
        samples = samples[rng.permutation(10)]
        parameters = np.zeros((10, 650), np.float32)
        order = epoch_order(samples, 1, rng)
        updates = model.local_update(
            parameters, digits.train_x, digits.train_y, order, learning_rate=0.2, batch_size=10
        )
        after = federated_average(parameters[:1], updates[None], (samples >= 0).sum(-1)[None])
        before, later = model.loss(np.concatenate([parameters[:1], after]), digits.test_x, digits.test_y)
        assert curve.decrements[0, 0, 10] == pytest.approx(before - later, abs=1e-6)

    def test_going_on_with_fewer_updates(self, digits: Dataset) -> None:
        few, all_of_them = (
            measure_reward_curve(
                Softmax(), digits, np.random.default_rng(0), num_clients=5, rounds=2, replicas=1, updates_per_round=n
            ).decrements[0]
            for n in (1, None)
        )
        np.testing.assert_array_equal(few[0], all_of_them[0])
        assert not np.array_equal(few[1], all_of_them[1])

    def test_interval_against_its_definition(self) -> None:
        from tacit.envs.federated_training import RewardCurve

        curve = RewardCurve(np.array([1.0, 2.0, 6.0])[:, None, None] * np.ones((3, 4, 2)))
        np.testing.assert_allclose(curve.mean, [3, 3])
        np.testing.assert_allclose(curve.half_width(), 4.302653 * np.sqrt(7 / 3), rtol=1e-6)
        with pytest.raises(ValueError, match="at least 2 replicas"):
            RewardCurve(np.zeros((1, 4, 2))).half_width()

    @pytest.mark.parametrize("name", ["num_clients", "rounds", "replicas", "updates_per_round"])
    def test_settings_are_checked(self, digits: Dataset, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name} must be an integer >= 1"):
            measure_reward_curve(Softmax(), digits, np.random.default_rng(0), **{name: 0})

    @given(c=st.floats(-10, 10), a=st.floats(0.01, 10), offset=st.floats(-0.5, 3), num_clients=st.integers(3, 200))
    def test_fit_finds_an_exact_hyperbola(self, c: float, a: float, offset: float, num_clients: int) -> None:
        curve = np.append(0, c - a / (np.arange(1, num_clients + 1) + offset))
        fit = fit_hyperbolic(curve, offset)
        np.testing.assert_allclose(fit, (c, a, 1), rtol=1e-5, atol=1e-5)

    def test_fit_is_checked(self) -> None:
        with pytest.raises(ValueError, match="curve must hold at least 4"):
            fit_hyperbolic(np.array([0, 1, 2]))
        with pytest.raises(ValueError, match="curve must hold at least 4"):
            fit_hyperbolic(np.array([0, 1, np.nan, 2]))
