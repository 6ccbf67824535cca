"""The standard interfaces: thin views of a `Population`, each written once for all environments."""

from taciturn.envs.core.views.aec import AECView
from taciturn.envs.core.views.parallel import ParallelView
from taciturn.envs.core.views.single import SingleEnv, effective_actions
from taciturn.envs.core.views.vector import VectorView

__all__ = ["AECView", "ParallelView", "SingleEnv", "VectorView", "effective_actions"]
