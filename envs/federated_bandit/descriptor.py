"""The descriptors of `federated_bandit_v0` and `arm_elimination_v0`."""

from taciturn.envs.core.descriptor import Descriptor, Example

WORLDS = (
    Descriptor(
        name="federated_bandit_v0",
        module="taciturn.envs.federated_bandit.world",
        small={"num_agents": 3, "num_arms": 4, "horizon": 40},
        size="num_agents",
        others="UCB1",
        mechanisms={"means": "Laplace:1"},
        example=Example(
            "CDPMAB",
            "num_envs=20, num_agents=20, num_arms=30",
            ("CDPMAB(epsilon=1.0)", "until=3_000", 'privacy="paper"'),
        ),
    ),
    Descriptor(
        name="arm_elimination_v0",
        module="taciturn.envs.federated_bandit.arm_elimination",
        small={"num_agents": 3, "num_arms": 4, "horizon": 400},
        size="num_agents",
        mechanisms={"means": "Laplace:1"},
        example=Example(
            "EliminationSchedule",
            "num_envs=20, num_arms=30",
            ("EliminationSchedule()", "until=30_000", 'privacy={"means": Laplace(1.0)}'),
            "Laplace",
        ),
        times_cartpole=3.2,
    ),
)
