"""The descriptor of `social_bandit_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

WORLDS = (
    Descriptor(
        name="social_bandit_v0",
        module="taciturn.envs.social_bandit.world",
        small={"num_agents": 6, "copies": 3, "walk_length": 4, "horizon": 20},
        drawn_since=3,
        size="num_agents",
        others="PrivateSocialLearning",
        mechanisms={"preference": "BitwiseRandomizedResponse:1"},
        shares=("best_share",),
        example=Example(
            "PrivateSocialLearning",
            'num_envs=20, num_agents=40, qualities="tao2023"',
            ("PrivateSocialLearning()", "until=60", 'privacy={"preference": UnaryEncoding(5.0)}'),
            "UnaryEncoding",
        ),
    ),
)
