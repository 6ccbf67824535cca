"""What others must know of `round_stopping_v0`."""

from typing import Any

from taciturn.envs.core.descriptor import TUNED, Contest, Descriptor, Example, Mark, Span, Variant

COUNT, SLOTS = {"k": Span(1, 60, log=True)}, {"slots": Span(5, 400, log=True)}
STOPPING: dict[str, Any] = {
    "classic": (
        ("FixedCount", {"k": 5}),
        ("FixedCount", TUNED),
        ("Fraction", {"fraction": 0.1}),
        ("Deadline", {"slots": 30}),
        ("Deadline", TUNED),
        ("WaitForAll", {}),
    ),
    "paper": (("OptimalStopping", {}),),
    "tuned": (("LearnedStopping", {}),),
}
"""Who competes, in federated training too. (`OneStepLookAhead` has nearly always the table of `OptimalStopping`.)"""
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
            bounds=(0.0, 0.04 / 0.3),  # a round is worth at most 0.04 and takes at least 0.3 s
            steps=50_000,
            **STOPPING,
            runs=20,
            alone=Mark("BestDeadline"),
            together=Mark("OptimalStopping"),
            search={"FixedCount": COUNT, "Deadline": SLOTS},
            variants={
                "slow": Variant(
                    "clients upload and compute at about half the speed",
                    {"upload_probability": 0.3, "compute_probability": 0.001},
                ),
                "unreliable": Variant("one upload in twenty succeeds", {"upload_probability": 0.05}),
                "ten-clients": Variant("10 clients instead of 100", {"num_clients": 10}),
                "steep": Variant(
                    "each update brings a fifth less than the one before",
                    {"reward": tuple(0.04 * (1 - 0.8**k) for k in range(101))},
                ),
                "short-broadcast": Variant(
                    "a broadcast takes a tenth of the time", {"broadcast_time": 0.3, "horizon": 20.0}
                ),
                "pareto": Variant(
                    "clients' times have Pareto's law, and a round without updates earns nothing",
                    {
                        "time_law": "pareto",
                        "num_clients": 20,
                        "reward": tuple(0.04 * k / (k + 1) for k in range(21)),
                    },
                    marks={
                        "alone": Mark("Deadline", {"slots": 312}),
                        "together": Mark("OptimalStopping", {"thresholds": [15, 7]}),
                    },
                ),
            },
        ),
    ),
)
