"""Facts about an environment that the rest of the suite needs: one `Descriptor` in the environment's folder.

Audits, tests, docs pages and speed tables loop over the descriptors and name no environment themselves. So does the
benchmark, which has separate tables of tasks (`taciturn.bench.tasks`). Policies are given by class name, mechanisms as
on the command line ("Laplace:1"), and functions as "module:function", so a descriptor imports nothing heavy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

Params = dict[str, Any]


def imported(path: str) -> Any:
    """Import the object named "module:name"."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


class Example(NamedTuple):
    """A few lines of code for an environment's page, which play one run and make a picture of its end.

    Attributes:
        policies: names to import, separated by commas.
        world: parameters of the population.
        run: the policies and other arguments of `simulate`.
        mechanism: name to import from `taciturn.wrappers`.
    """

    policies: str
    world: str
    run: tuple[str, ...]
    mechanism: str = ""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """Facts about an environment that the registry reads.

    Attributes:
        name: as in `taciturn.envs`, such as "gossip_bandit_v0".
        module: the module that defines the environment under this name.
        small: parameters that make it small enough for tests.
        size: the parameter for the number of agents, if there can be several.
        others: policies of the other agents where the Gymnasium API controls one agent.
        one_agent: "module:function" of `(num_envs, **players, **parameters)` that makes the population behind the
            Gymnasium API; None: that API controls one agent of the environment.
        players: the parameters of `one_agent` that are policies, with their defaults.
        mechanisms: for each channel a mechanism that fits it; None if no mechanism does.
        example: the example on its page.
        times_cartpole: speed target for a step of the Gymnasium API, in steps of CartPole; None: no target.
        drawn_since: the version of the random streams (`taciturn.seeding.VERSION`) since which a seed gives the same
            runs as now.
        shares: metrics that are shares; their intervals are clipped to [0, 1].
        tolerance: the largest relative difference between its real numbers on two processors that round sums
            differently. Counts and everything that a seed decides are the same on all processors.
    """

    name: str
    module: str = ""  # empty until the environment is loaded
    small: Params = field(default_factory=dict)
    size: str = ""
    others: str | None = None
    one_agent: str | None = None
    players: Params = field(default_factory=dict)
    mechanisms: Mapping[str, str | None] = field(default_factory=dict)
    example: Example | None = None
    times_cartpole: float | None = None
    drawn_since: int = 1
    shares: tuple[str, ...] = ()
    tolerance: float = 1e-9

    @property
    def id(self) -> str:
        """The Gymnasium id: "taciturn/GossipBandit-v0" for "gossip_bandit_v0"."""
        plain, _, version = self.name.rpartition("_")
        return f"taciturn/{plain.title().replace('_', '')}-{version}"

    @property
    def world(self) -> Any:
        """The environment; its module is imported on first access."""
        return imported(f"{self.module}:{self.name}")

    @property
    def title(self) -> str:
        """The title: "gossip bandit" for "gossip_bandit_v0"."""
        return self.name.rpartition("_v")[0].replace("_", " ")
