"""What every world is made of: the population, its roles and channels, the standard views, seeding, checks."""

from tacit.envs.core.channel import Channel, Fault, Setup, join
from tacit.envs.core.population import Acts, Controlled, Players, Population, Step, as_policies, select
from tacit.envs.core.render import picture
from tacit.envs.core.roles import Layout, Role
from tacit.envs.core.seeding import Streams
from tacit.envs.core.validation import Array, choice, integer, number, vector
from tacit.envs.core.views import AECView, ParallelView, SingleEnv, VectorView
from tacit.envs.core.world import World

__all__ = [
    "AECView",
    "Acts",
    "Array",
    "Channel",
    "Controlled",
    "Fault",
    "Layout",
    "ParallelView",
    "Players",
    "Population",
    "Role",
    "Setup",
    "SingleEnv",
    "Step",
    "Streams",
    "VectorView",
    "World",
    "as_policies",
    "choice",
    "integer",
    "join",
    "number",
    "picture",
    "select",
    "vector",
]
