"""What others must know of `federated_training_v0`."""

from typing import Any

import numpy as np

from taciturn.envs.core.descriptor import (
    PLAIN_PPO,
    TUNED,
    Contest,
    Descriptor,
    Example,
    Leak,
    Mark,
    Params,
    Span,
    Totals,
    Variant,
    brief,
    lost,
    lying,
)
from taciturn.envs.round_stopping.descriptor import COUNT, FEW_SLOTS, SLOTS, STOPPING
from taciturn.validation import Array

GAUSSIAN = "Gaussian:{},delta=1e-6"
CANARIES = 20_000
NOTHING, TWO = Mark("FixedCount", {"k": 0}), Mark("FixedCount", {"k": 2})


def one_client(parts: int) -> Mark:
    """The images of one client, in the time that all have together."""
    return Mark("FixedCount", {"k": 1}, {"num_clients": 1, "parts": parts, "broadcast_time": 1e-3})


FIVE = {"num_clients": 5, "clip_norm": 0.1, "horizon": 10.0}
QUICK_FIVE = {"num_clients": 5, "clip_norm": 0.1, "compute_probability": 0.2, "horizon": 5.0}
ONE_RUN = {**QUICK_FIVE, "num_clients": CANARIES, "horizon": 600.0}  # one client uploads at a time


def samples_of_class(population: Any, kind: int) -> Array:
    """Samples of one class, as many as a client has, int64[n]."""
    labels = population.data.train_y
    return np.resize(np.flatnonzero(labels == kind), -(-len(labels) // population.params.num_parts))


def without_data(params: Params) -> Params:
    """Sessions with nothing to learn: one sample per client, of one pixel and two classes."""
    from taciturn.envs.federated_training.datasets import Dataset

    labels = np.arange(params["num_clients"]) % 2
    return {**params, "data": Dataset(np.zeros((len(labels), 1)), labels, np.zeros((2, 1)), labels[:2])}


WORLDS = (
    Descriptor(
        name="federated_training_v0",
        drawn_since=3,
        module="taciturn.envs.federated_training.world",
        small={**FEW_SLOTS, "clip_norm": 1.0},
        mechanisms={"update": "Gaussian:1,delta=1e-5"},
        tolerance=1e-4,  # parameters of models have single precision
        example=Example(
            "FixedCount",
            "num_envs=5, clip_norm=0.1",
            ("FixedCount(20)", "until=60.0", 'privacy={"update": Gaussian(epsilon=4.0, delta=1e-6)}'),
            "Gaussian",
        ),
        contest=Contest(
            measure="test_loss",
            steps=30_000,
            runs=4,
            **STOPPING,
            designed=(("FewRounds", TUNED),),
            alone=one_client(100),
            together=TWO,
            search={
                "FixedCount": COUNT,
                "Deadline": SLOTS,
                "FewRounds": {"k": Span(5, 100, log=True), "rounds": Span(1, 15)},
            },
            variants={
                "skewed": Variant(
                    "clients' labels are skewed, by Dirichlet's law with concentration 0.5",
                    {"concentration": 0.5},
                    marks={"alone": NOTHING, "together": Mark("OptimalStopping")},
                ),
                "lost": lost("update", "updates"),
                "liars": lying("update", "send the opposite of their update"),
                "brief": brief("update", 1),
                "few-clients": Variant(
                    "20 clients instead of 100",
                    {"num_clients": 20},
                    marks={"alone": one_client(20), "together": Mark("FixedCount", {"k": 1})},
                ),
                "slow": Variant(
                    "clients compute at a quarter of the speed, and one upload in ten succeeds",
                    {"compute_probability": 0.0005, "upload_probability": 0.1},
                    marks={"together": Mark("FixedCount", {"k": 1})},
                ),
            },
            totals=Totals(
                ("update",),
                GAUSSIAN,
                {"clip_norm": 0.1},
                4,
                (PLAIN_PPO, {"steps": 20_000}),
                "all samples of a client",
                without=("Deadline", "Fraction", "WaitForAll"),
            ),
        ),
        leaks=(
            Leak({"FixedCount": {"k": 5}}, GAUSSIAN, FIVE, levels=(1, 8)),
            Leak(
                {"FixedCount": {"k": 5}},
                GAUSSIAN,
                FIVE,
                levels=(1,),
                budget={"delta": 1e-5, "method": "rdp"},
            ),
            Leak({"FixedCount": {"k": 5}}, GAUSSIAN, QUICK_FIVE, levels=(4, 8), limit=2, attack="messages"),
            Leak({"FixedCount": {"k": CANARIES}}, GAUSSIAN, ONE_RUN, levels=(1, 4, 8), limit=2, attack="one run"),
        ),
        private_data="taciturn.envs.federated_training.descriptor:samples_of_class",
        blank="taciturn.envs.federated_training.descriptor:without_data",
        trials=5,  # each trial trains a model
    ),
)
