"""What others must know of `round_stopping_v0`."""

from typing import Any

from taciturn.envs.core.descriptor import Contest, Descriptor, Example, Variant

STOPPING: dict[str, Any] = {
    "classic": (
        ("OneStepLookAhead", {}),
        ("FixedCount", {"k": 5}),
        ("Fraction", {"fraction": 0.1}),
        ("Deadline", {"slots": 30}),
        ("WaitForAll", {}),
    ),
    "paper": (("OptimalStopping", {}),),
    "tuned": (("LearnedStopping", {}),),
}
"""Who competes, in federated training too."""
FEW_SLOTS = {"num_clients": 6, "broadcast_time": 0.05, "compute_probability": 0.2, "horizon": 1.0}

WORLDS = (
    Descriptor(
        name="round_stopping_v0",
        module="taciturn.envs.round_stopping.world",
        small=FEW_SLOTS,
        times_cartpole=1.2,
        example=Example("OptimalStopping", "num_envs=20", ("OptimalStopping()", "until=50.0")),
        contest=Contest(
            measure="rate",
            higher=True,
            bounds=(0.0, 0.04 / 3),  # a round is worth at most 0.04 and takes at least 3 s
            steps=50_000,
            **STOPPING,
            variants={
                "slow": Variant(
                    "clients upload and compute at about half the speed",
                    {"upload_probability": 0.3, "compute_probability": 0.001},
                ),
                "heavy-tailed": Variant("clients' times have Pareto's law", {"time_law": "pareto"}),
                "few-clients": Variant("40 clients instead of 100", {"num_clients": 40}),
            },
        ),
    ),
)
