"""The descriptor of `federated_training_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example
from taciturn.envs.round_stopping.descriptor import FEW_SLOTS

WORLDS = (
    Descriptor(
        name="federated_training_v0",
        drawn_since=3,
        module="taciturn.envs.federated_training.world",
        small={**FEW_SLOTS, "clip_norm": 1.0},
        mechanisms={"update": "Gaussian:1,delta=1e-5"},
        tolerance=1e-4,  # parameters of models have single precision
        shares=("test_accuracy",),
        example=Example(
            "FixedCount",
            "num_envs=5, clip_norm=0.1",
            ("FixedCount(20)", "until=60.0", 'privacy={"update": Gaussian(epsilon=4.0, delta=1e-6)}'),
            "Gaussian",
        ),
    ),
)
