"""The worlds, one file each; import them by their versioned name: `from taciturn.envs import round_stopping_v0`."""

from taciturn.envs.arm_elimination import arm_elimination_v0
from taciturn.envs.elicitation import elicitation_v0
from taciturn.envs.federated_bandit import federated_bandit_v0
from taciturn.envs.federated_training import federated_training_v0
from taciturn.envs.gossip_bandit import gossip_bandit_v0
from taciturn.envs.round_stopping import Hyperbolic, round_stopping_v0
from taciturn.envs.social_bandit import social_bandit_v0

__all__ = [
    "Hyperbolic",
    "arm_elimination_v0",
    "elicitation_v0",
    "federated_bandit_v0",
    "federated_training_v0",
    "gossip_bandit_v0",
    "round_stopping_v0",
    "social_bandit_v0",
]
