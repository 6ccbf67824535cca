"""The reward R(k) of k of M updates in federated training: measured, and fitted by a hyperbola (Jiang 2020, section
3.4)."""

from typing import NamedTuple

import numpy as np

from taciturn.envs.federated_training.classifiers import epoch_order
from taciturn.envs.federated_training.datasets import partition
from taciturn.envs.federated_training.world import FederatedTraining
from taciturn.validation import Floats, integer, number


def measure_reward_curve(env: FederatedTraining, seed: int, *, rounds: int = 20, replicas: int = 20) -> Floats:
    """Measure the reward function R(k) of section 3.4 (Figure 3.2): the cumulative decrease of the held-out loss.

    In every round all M clients train from the server's parameters, and for every k the first k of them in a uniformly
    random order are aggregated. These k clients have the distribution of the first k arrivals if the times of all
    clients are identically distributed. The next round starts from the average of all updates. R is thus an average
    along one training run, although the decrease in a single round shrinks as training proceeds.

    R(0) = 0 always. R(k) may be negative for small k if the clients' data differ much.

    Args:
        env: the source of data, model and training, without clipping.
        seed: determines the result.
        rounds, replicas: number of rounds from the initial model, and of independent repetitions.

    Returns:
        R(0) .. R(M), the decrease of the held-out cross-entropy in nats, float64[M + 1].
    """
    rounds, replicas = integer("rounds", rounds, at_least=1), integer("replicas", replicas, at_least=1)
    p, data, model = env.params, env.data, env.classifier
    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    decrements = np.zeros((replicas, rounds, p.num_clients + 1))
    for replica in range(replicas):
        samples = partition(data.train_y, p.num_parts, rng, p.concentration)[: p.num_clients]
        parameters = model.initial(rng)
        for t in range(rounds):
            arrivals = samples[rng.permutation(p.num_clients)]
            updates = model.local_update(
                np.tile(parameters, (p.num_clients, 1)),
                data.train_x,
                data.train_y,
                epoch_order(arrivals, p.epochs, rng),
                learning_rate=p.learning_rate,
                batch_size=p.batch_size,
            )
            sizes = (arrivals >= 0).sum(-1, keepdims=True)
            steps = np.cumsum(sizes * updates, 0) / np.cumsum(sizes, 0)
            candidates = np.concatenate([parameters[None], parameters + steps.astype(parameters.dtype)])
            losses, _ = model.evaluate(candidates, data.test_x, data.test_y)
            decrements[replica, t] = losses[0] - losses
            parameters = candidates[-1]
    return np.asarray(decrements.mean((0, 1)))


class HyperbolicFit(NamedTuple):
    """The parameters of `R(k) = c - a / (k + offset)`, and the share of the measured curve's variance that the fit
    explains."""

    c: float
    a: float
    r_squared: float


def fit_hyperbolic(curve: Floats, offset: float = 1.0) -> HyperbolicFit:
    """Fit `c - a / (k + offset)` to a curve R(0) .. R(M) by least squares over k = 1 .. M.

    The paper (section 3.4) uses offset 1. To second order, averaging k of M exchangeable updates adds `(1/k - 1/M) tr(H
    S) / 2` to the loss, with its Hessian H and the covariance S of the updates; this is offset 0, and fits measured
    curves better.

    The fit leaves out k = 0: a real round without updates earns nothing, but the paper's form gives c - a, which is
    positive (0.022) for its own parameters. The paper's figure starts at k = 1 too.
    """
    curve = np.asarray(curve, np.float64)
    if curve.ndim != 1 or len(curve) < 4 or not np.isfinite(curve).all():
        raise ValueError(f"curve must be at least 4 finite numbers R(0) .. R(M), not {curve!r}")
    offset = number("offset", offset, above=-1)
    measured, falling = curve[1:], 1 / (np.arange(1, len(curve)) + offset)
    centred = falling - falling.mean()
    a = -(centred @ measured) / (centred @ centred)
    c = measured.mean() + a * falling.mean()
    spread = ((measured - measured.mean()) ** 2).sum()
    residual = ((measured - c + a * falling) ** 2).sum()
    return HyperbolicFit(float(c), float(a), float(1 - residual / spread) if spread > 0 else 1.0)
