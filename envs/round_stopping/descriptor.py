"""The descriptor of `round_stopping_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

FEW_SLOTS = {"num_clients": 6, "broadcast_time": 0.05, "compute_probability": 0.2, "horizon": 1.0}

WORLDS = (
    Descriptor(
        name="round_stopping_v0",
        module="taciturn.envs.round_stopping.world",
        small=FEW_SLOTS,
        times_cartpole=1.2,
        example=Example("OptimalStopping", "num_envs=20", ("OptimalStopping()", "until=50.0")),
    ),
)
