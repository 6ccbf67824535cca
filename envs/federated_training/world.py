"""When should a parameter server stop waiting, if what it earns by waiting is real?

Description
    The decision of `taciturn/RoundStopping-v0`, with a model that learns. `M` clients hold shares of an image data set. In every
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
    Those of round stopping, and:

    - reward: what planning policies such as `OptimalStopping` believe; the world does not look at it. The default was fitted to the
      curve that the other defaults give (`FederatedTraining.reward_curve`).
    - data: "digits" (scikit-learn's, `data` extra), the path of the user's MNIST files (`load_mnist`), or a `Dataset`.
    - concentration: None for IID clients, > 0 for label skew (`partition`).
    - model: "softmax" or "cnn" (`rl` extra).
    - learning_rate > 0, epochs >= 1, batch_size >= 1 or None (all of a client's samples): the clients' training.
    - weighting: of the average, by "samples" or "uniform".
    - clip_norm: Euclidean bound on an update, > 0; None: none.

Deviations from the paper
    The paper trains a convolutional network of some 100,000 parameters on MNIST, with settings it does not give; the default
    here is softmax regression on 8 x 8 digits, a round of which costs a millisecond. The paper fits R(k) = c - a / (k + 1)
    and uses it from k = 0, where it gives c - a > 0; a real round without updates earns 0, which the fit leaves out.
    Averaging k of M updates adds a variance in proportion to 1/k, so that c - a / k fits better (R^2 0.9997 against 0.96, IID).
    With label skew R(k) < 0 for small k: one client's update does harm. R also falls from round to round as training goes on,
    and what few updates lack in one round the next ones partly make good: in the default setting `FixedCount(3)` ends its 100 s
    with a lower loss (1.45, though a lower accuracy) than the rule that is optimal for a fixed R (1.48).

Registered configurations
    `taciturn/FederatedTraining-v0`: digits, IID, softmax, and the clocks of the paper's setting.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import Array, Channel, ChannelConfig, Layout, Role, World, choice, integer, number
from taciturn.envs.federated_training.classifiers import Classifier, SmallCNN, Softmax, epoch_order, federated_average
from taciturn.envs.federated_training.datasets import Dataset, load_digits, load_mnist, partition
from taciturn.envs.round_stopping import world as round_stopping
from taciturn.envs.round_stopping.world import Hyperbolic, RoundStopping

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
        return (
            Channel(
                "update", "vector", observer="server", unit="user", sender="client", num_senders=self.params.num_clients
            ),
        )

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        if config.mechanism is not None and self.params.clip_norm is None and config.mechanism.kind != "none":
            raise ValueError(
                "clip_norm must be a number for updates to be private, since noise needs a bound on them, not None"
            )

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
        return self.channels["update"].send(updates, senders, None if p.clip_norm is None else 2 * p.clip_norm, norm=2)

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

    def outcome(self) -> dict[str, Array]:
        """Those of round stopping, `test_loss` (nats) and `test_accuracy` at the end."""
        return super().outcome() | {name: value.copy() for name, value in self._quality().items()}

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


federated_training_v0 = World(FederatedTraining, Params)
