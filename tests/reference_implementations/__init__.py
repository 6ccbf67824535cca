"""The worlds by hand (`reference_implementations.by_hand`): second implementations, with which tests and tables of
speed compare ours."""

from typing import Any, NamedTuple

from reference_implementations import elicitation, federated_bandit, gossip_bandit, recommender, social_bandit
from reference_implementations.by_hand import ByHand


class ReferenceImplementation(NamedTuple):
    """A world by hand.

    Attributes:
        made: its class, of `(num_agents, horizon)`.
        size: parameters at which a test compares it with ours.
    """

    made: type[ByHand]
    size: dict[str, Any]


REFERENCE_IMPLEMENTATIONS = {
    "federated_bandit_v0": ReferenceImplementation(
        federated_bandit.FederatedBandit, {"num_agents": 6, "horizon": 40, "num_arms": 5}
    ),
    "arm_elimination_v0": ReferenceImplementation(federated_bandit.ArmElimination, {"num_agents": 6, "horizon": 2000}),
    "gossip_bandit_v0": ReferenceImplementation(gossip_bandit.GossipBandit, {"num_agents": 7, "horizon": 6.0}),
    "social_bandit_v0": ReferenceImplementation(social_bandit.SocialBandit, {"num_agents": 7, "horizon": 12}),
    "recommender_v0": ReferenceImplementation(
        recommender.Recommender, {"num_agents": 5, "horizon": 40, "num_items": 60, "repository": 30}
    ),
    "elicitation_v0": ReferenceImplementation(elicitation.Elicitation, {"num_agents": 9, "horizon": 25}),
}
