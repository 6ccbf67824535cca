"""The descriptor of `recommender_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

WORLDS = (
    Descriptor(
        name="recommender_v0",
        module="taciturn.envs.recommender.world",
        small={"num_agents": 3, "num_items": 20, "repository": 10, "growth": [(5, 0.4)], "horizon": 20},
        drawn_since=3,
        size="num_agents",
        others="TPriDO",
        mechanisms={"statistics": "TreeAggregation:1"},
        shares=("shared",),
        example=Example(
            "TPriDO",
            "num_envs=4, num_agents=4, num_items=400",
            ("TPriDO(epsilon=2.0)", "until=1_000", 'privacy="paper"'),
        ),
    ),
)
