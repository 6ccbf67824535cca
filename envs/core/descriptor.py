"""What others must know of a world: one value in the world's folder, which the registry reads.

Audits, tests, pages and tables of speed loop over these values and name no world themselves, and so does the benchmark,
which has its own tables of what it plays (`taciturn.bench.tasks`). Policies are named by their classes, mechanisms as
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
    """A few lines for a world's page that play it; its picture is taken at the end.

    Attributes:
        policies: names to import, separated by commas.
        world: parameters of the population.
        run: who acts, and what else `simulate` is given.
        mechanism: name to import from `taciturn.wrappers`.
    """

    policies: str
    world: str
    run: tuple[str, ...]
    mechanism: str = ""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """What others must know of a world.

    Attributes:
        name: as in `taciturn.envs`, such as "gossip_bandit_v0".
        module: the one that defines it, under its name.
        small: parameters that make it small enough for tests.
        size: the parameter for the number of agents, if there can be several.
        others: who plays the other seats where Gymnasium's form is the seat of one agent.
        one_agent: "module:function" of `(num_envs, **players, **parameters)` that makes the population behind
            Gymnasium's forms, if that is not a seat.
        players: those parameters of `one_agent` that are policies, with their defaults.
        mechanisms: for each channel a mechanism that fits it; None if no mechanism does.
        example: what its page shows.
        times_cartpole: how long a step of Gymnasium's form may take, in steps of CartPole; None: nothing is asked.
        drawn_since: the version of the streams (`taciturn.seeding`) since which a seed gives its runs.
        shares: metrics that are shares; their intervals end at 0 and 1.
        tolerance: the largest relative difference between its real numbers on two processors, whose sums have other
            last digits. What a seed decides, and counts, are the same on all.
    """

    name: str
    module: str = ""  # empty only as long as the world is not loaded
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
        """Such as "taciturn/GossipBandit-v0", of "gossip_bandit_v0"."""
        plain, _, version = self.name.rpartition("_")
        return f"taciturn/{plain.title().replace('_', '')}-{version}"

    @property
    def world(self) -> Any:
        """The world, whose module is imported when it is asked for."""
        return imported(f"{self.module}:{self.name}")

    @property
    def title(self) -> str:
        """Such as "gossip bandit", of "gossip_bandit_v0"."""
        return self.name.rpartition("_v")[0].replace("_", " ")
