"""Federated averaging with differential privacy, beside pfl's at the same epsilon.

100 clients share the digits; 15 rounds of 12 random clients train softmax regression, updates are clipped to 0.1, and
noise is added once to each average (`FewRounds(trust_model="central")`; pfl: `CentrallyAppliedPrivacyMechanism` with
Gaussian noise). Both are given epsilon at delta = 1e-5 for the whole run and find their noise themselves. They do not
promise the same: pfl's accountants assume that a client's data are added or removed and that each client takes part by
a coin of its own, where this package assumes that the data are replaced, which may move an update twice as far, and
counts the clients of a round. `pfl_with_our_noise` is pfl with the noise of this package, to compare the training
alone. pfl lives in an environment of its own, which `benchmarks/speed.py pfl_peer` makes.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import record
from federated_task import BATCH, CLIENTS, RATE, Net
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_accountant import RDPPrivacyAccountant
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

import taciturn
from taciturn.envs import federated_training_v0
from taciturn.envs.core import Array
from taciturn.envs.federated_training.datasets import load_digits, partition
from taciturn.policies import FewRounds
from taciturn.wrappers.channels import on_channel

ROUNDS, COHORT, CLIP, DELTA = 15, 12, 0.1, 1e-5
LEVELS, SEEDS = (1.0, 3.0, 10.0), 10
WORLD: dict[str, Any] = {
    "num_clients": CLIENTS,
    "clip_norm": CLIP,
    "weighting": "uniform",
    "horizon": 1000.0,
    "batch_size": BATCH,
    "learning_rate": RATE,
}


def ours(epsilon: float) -> tuple[Array, float]:
    """The held-out losses of 10 sessions, and the standard deviation of the noise in an average."""
    policy = FewRounds(COHORT, rounds=ROUNDS, trust_model="central")
    env = federated_training_v0.population(SEEDS, **WORLD)
    configs = policy.within(env.view(policy), epsilon)
    assert configs is not None
    run = taciturn.simulate(on_channel(env, "update", configs["update"]), policy, seed=0)
    assert run.accountant is not None
    assert run.accountant.epsilon(DELTA, "max").max() <= epsilon
    noise: Any = configs["update"].mechanism
    return run.metrics["test_loss"], noise.mechanism.noise_multiplier * 2 * CLIP / COHORT


def theirs(epsilon: float, seed: int, noise: float | None) -> tuple[float, float]:
    """The held-out loss of a training with pfl, and the standard deviation of the noise in an average, if not given."""
    rng, data = np.random.default_rng(seed), load_digits()
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - pfl samples with it
    shares = [rows[rows >= 0] for rows in partition(data.train_y, CLIENTS, rng)]
    x, y = (torch.as_tensor(np.ascontiguousarray(one)) for one in (data.train_x.astype(np.float32), data.train_y))
    clients = [Dataset(raw_data=[x[rows], y[rows]], user_id=str(i)) for i, rows in enumerate(shares)]
    layer = torch.nn.Linear(data.num_features, data.num_classes)
    net = Net(layer)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    model = PyTorchModel(net, torch.optim.SGD, torch.optim.SGD(net.parameters(), lr=1.0))
    if noise is None:
        accountant = RDPPrivacyAccountant(
            num_compositions=ROUNDS,
            sampling_probability=COHORT / CLIENTS,
            mechanism="gaussian",
            epsilon=epsilon,
            delta=DELTA,
        )
        mechanism = GaussianMechanism.from_privacy_accountant(accountant=accountant, clipping_bound=CLIP)
    else:
        mechanism = GaussianMechanism(CLIP, noise * COHORT / CLIP)
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=ROUNDS,
            evaluation_frequency=10**9,
            train_cohort_size=COHORT,
            val_cohort_size=0,
        ),
        SimulatedBackend(
            FederatedDataset(clients.__getitem__, get_user_sampler("random", list(range(CLIENTS)))),
            None,
            postprocessors=[CentrallyAppliedPrivacyMechanism(mechanism)],
        ),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH),
        callbacks=[],
        send_metrics_to_platform=False,
    )
    held_out = torch.as_tensor(data.test_x.astype(np.float32)), torch.as_tensor(data.test_y)
    return net.metrics(*held_out)["loss"], float(mechanism.relative_noise_stddev) * CLIP / COHORT


def summary(losses: Any, noise: float) -> dict[str, Any]:
    values = np.asarray(losses, np.float64)
    error = 2.262 * values.std(ddof=1) / len(values) ** 0.5  # Student's t, 9 degrees of freedom
    return {"loss": round(float(values.mean()), 4), "half_width_95": round(float(error), 4), "noise": round(noise, 5)}


def main(arguments: list[str]) -> None:
    assert pytorch_ops is not None
    rows = {}
    for epsilon in LEVELS:
        mine, noise = ours(epsilon)
        pfl = [theirs(epsilon, seed, None) for seed in range(SEEDS)]
        same = [theirs(epsilon, seed, noise) for seed in range(SEEDS)]
        rows[f"epsilon {epsilon:g}"] = {
            "taciturn": summary(mine, noise),
            "pfl": summary([loss for loss, _ in pfl], pfl[0][1]),
            "pfl_with_our_noise": summary([loss for loss, _ in same], noise),
        }
        print(epsilon, rows[f"epsilon {epsilon:g}"], flush=True)
    result = {"task": __doc__.splitlines()[0], "rows": rows}
    record("pfl_private", result, ("taciturn", "numpy", "torch", "pfl"), folder=Path(__file__).parent / "results")
