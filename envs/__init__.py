"""The worlds, one file each; import them by their versioned name: `from taciturn.envs import round_stopping_v0`.

A world's module is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taciturn.envs.elicitation.world import elicitation_v0
    from taciturn.envs.federated_bandit.arm_elimination import arm_elimination_v0
    from taciturn.envs.federated_bandit.world import federated_bandit_v0
    from taciturn.envs.federated_training.world import federated_training_v0
    from taciturn.envs.gossip_bandit.world import gossip_bandit_v0
    from taciturn.envs.recommender.world import recommender_v0
    from taciturn.envs.round_stopping.model import Hyperbolic
    from taciturn.envs.round_stopping.world import round_stopping_v0
    from taciturn.envs.social_bandit.world import social_bandit_v0

__all__ = [
    "Hyperbolic", "arm_elimination_v0", "elicitation_v0", "federated_bandit_v0", "federated_training_v0",
    "gossip_bandit_v0", "recommender_v0", "round_stopping_v0", "social_bandit_v0",
]  # fmt: skip

# Where a name is not that of a world's folder and a version.
ELSEWHERE = {"Hyperbolic": "round_stopping.world", "arm_elimination_v0": "federated_bandit.arm_elimination"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = ELSEWHERE.get(name) or f"{name.rpartition('_')[0]}.world"
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return found


def __dir__() -> list[str]:
    return __all__
