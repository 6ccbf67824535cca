"""The environments, one folder each; import them by versioned name: `from taciturn.envs import round_stopping_v0`.

An environment's module is imported on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taciturn.envs.core.descriptor import Descriptor

if TYPE_CHECKING:
    from taciturn.envs.elicitation.world import elicitation_v0 as elicitation_v0
    from taciturn.envs.federated_bandit.arm_elimination import arm_elimination_v0 as arm_elimination_v0
    from taciturn.envs.federated_bandit.world import federated_bandit_v0 as federated_bandit_v0
    from taciturn.envs.federated_training.world import federated_training_v0 as federated_training_v0
    from taciturn.envs.gossip_bandit.world import gossip_bandit_v0 as gossip_bandit_v0
    from taciturn.envs.recommender.world import recommender_v0 as recommender_v0
    from taciturn.envs.round_stopping.model import Hyperbolic as Hyperbolic
    from taciturn.envs.round_stopping.world import round_stopping_v0 as round_stopping_v0
    from taciturn.envs.social_bandit.world import social_bandit_v0 as social_bandit_v0

FOLDERS = (
    "round_stopping",
    "federated_training",
    "federated_bandit",
    "gossip_bandit",
    "social_bandit",
    "recommender",
    "elicitation",
)
"""Folders of the environments; each has `WORLDS` in its `descriptor`."""
WORLDS: tuple[Descriptor, ...] = tuple(
    world for folder in FOLDERS for world in import_module(f"{__name__}.{folder}.descriptor").WORLDS
)
MODULES = {world.name: world.module for world in WORLDS} | {"Hyperbolic": f"{__name__}.round_stopping.model"}
__all__ = sorted(MODULES)


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    result = globals()[name] = getattr(import_module(MODULES[name]), name)
    return result


def __dir__() -> list[str]:
    return __all__
