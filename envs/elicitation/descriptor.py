"""The descriptor of `elicitation_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

WORLDS = (
    Descriptor(
        name="elicitation_v0",
        module="taciturn.envs.elicitation.world",
        small={"num_individuals": 5, "horizon": 12},
        drawn_since=3,
        size="num_individuals",
        one_agent="taciturn.envs.elicitation.platform:platform_side",
        players={"individuals": "BestResponse"},
        mechanisms={"report": None},
        shares=("participation", "degenerate"),
        example=Example(
            "BestResponse, Wintall",
            "num_envs=20, num_individuals=1000",
            ('{"platform": Wintall(target=1.0), "individual": BestResponse()}', "until=50"),
        ),
        times_cartpole=6,
    ),
)
