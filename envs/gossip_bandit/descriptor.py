"""The descriptor of `gossip_bandit_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

WORLDS = (
    Descriptor(
        name="gossip_bandit_v0",
        module="taciturn.envs.gossip_bandit.world",
        small={"num_agents": 6, "horizon": 20.0},
        size="num_agents",
        others="PPCL",
        mechanisms={"preference": "BitwiseRandomizedResponse:1"},
        shares=("best", "popularity_regret"),
        example=Example(
            "PPCL",
            'num_envs=20, num_agents=400, qualities="chen2021"',
            ("PPCL(epsilon=3.0)", "until=range(1, 7)", 'record=["popularity"]', 'privacy="paper"'),
        ),
    ),
)
