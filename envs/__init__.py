"""The worlds, one file each; import them by their versioned name: `from tacit.envs import round_stopping_v0`."""

from tacit.envs.arm_elimination import arm_elimination_v0
from tacit.envs.elicitation import elicitation_v0
from tacit.envs.federated_bandit import federated_bandit_v0
from tacit.envs.federated_training import federated_training_v0
from tacit.envs.gossip_bandit import gossip_bandit_v0
from tacit.envs.round_stopping import Hyperbolic, round_stopping_v0
from tacit.envs.social_bandit import social_bandit_v0

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
