"""The parts shared by all environments: population, roles, channels, standard views, seeding and checks."""

from taciturn.channels.channel import Channel
from taciturn.channels.config import ChannelConfig, join
from taciturn.channels.faults import Fault
from taciturn.compiling.compiled import NotCompiled, private
from taciturn.compiling.counter_streams import fill, uniform
from taciturn.envs.core import fields
from taciturn.envs.core.around import Around
from taciturn.envs.core.controlled import Controlled, Played
from taciturn.envs.core.controlled_agent import ControlledAgent
from taciturn.envs.core.hooks import Chosen, Functions
from taciturn.envs.core.level_choice import LevelChoice, LevelChoiceParams, MessageSpec
from taciturn.envs.core.playing import Acts, NotPrivate, Rollout, as_policies, begin
from taciturn.envs.core.population import Population
from taciturn.envs.core.public import Fast, HiddenTruth, PublicView
from taciturn.envs.core.render import picture
from taciturn.envs.core.replicas import Replicas
from taciturn.envs.core.roles import Layout, Role
from taciturn.envs.core.steps import Step
from taciturn.envs.core.views import AECView, ParallelView, SingleEnv, VectorView
from taciturn.envs.core.world import World
from taciturn.seeding import Streams
from taciturn.validation import Array, choice, integer, number, vector

__all__ = [
    "AECView", "Acts", "Around", "Array", "Channel", "ChannelConfig", "Chosen", "Controlled", "ControlledAgent",
    "Fast", "Fault", "Functions", "HiddenTruth", "Layout", "LevelChoice", "LevelChoiceParams", "MessageSpec",
    "NotCompiled", "NotPrivate", "ParallelView", "Played", "Population", "PublicView", "Replicas", "Role", "Rollout",
    "SingleEnv", "Step", "Streams", "VectorView", "World", "as_policies", "begin", "choice", "fields", "fill",
    "integer", "join", "number", "picture", "private", "uniform", "vector",
]  # fmt: skip
