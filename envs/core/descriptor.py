"""What others must know of a world: one value, which stands in the world's folder and which the registry reads.

The benchmark, the audits, the tests, the pages and the tables of speed loop over these values, so that none of them
names a world. Policies are named by their classes, mechanisms as on the command line ("Laplace:1"), and functions as
"module:function", so that a descriptor imports nothing heavy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

from taciturn.envs.core.channel import Fault
from taciturn.envs.core.faults import Byzantine, LossyChannel, MessageLimit

Params = dict[str, Any]
Entry = tuple[str, Params]
"""A policy and its parameters."""
PLAIN_PPO = "PPO, plain defaults"
"""The name of PPO with all its arguments left at their defaults, in place of a policy's."""


def imported(path: str) -> Any:
    """What "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


class Example(NamedTuple):
    """A few lines that play a world, and after which its picture is taken, for its page.

    Attributes:
        policies: to be imported, with commas between them.
        world: parameters of the population.
        run: who acts, and what else `simulate` is given.
        mechanism: to be imported from `taciturn.wrappers`.
    """

    policies: str
    world: str
    run: tuple[str, ...]
    mechanism: str = ""


class Variant(NamedTuple):
    """How a task differs from the one that learners train in.

    Attributes:
        what: it in words.
        params: of the world.
        faults: what goes wrong, by channel.
        others: who plays the world's other side, as shares of policies; None: those of the standard task.
    """

    what: str
    params: Mapping[str, Any] = {}
    faults: Mapping[str, Fault] = {}
    others: Mapping[str, float] | None = None


class Totals(NamedTuple):
    """What carries private data in a world, and who competes there under a total of epsilon.

    Attributes:
        channels: that get the mechanism.
        mechanism: with `{}` for the epsilon of a message; empty where senders choose their levels and perturb their
            messages themselves.
        params: of the world, that differ if there is a mechanism.
        messages: about how many an agent sends in a run if nothing stops it (of streams: in how many a value is
            released). Learners train at the level at which they can pay for so many.
        learner: which learner takes part, and its arguments; None where a learned schedule is not public, so that it
            has no total.
        unit: what the total protects, one "event" or a "user"'s whole history.
        without: policies of the world that do not take part.
        paper: the paper's algorithms that take part, if they are others than without a total.
        change: an agent's data in the two worlds that an attacker tells apart; None: no attack.
    """

    channels: tuple[str, ...]
    mechanism: str
    params: Params
    messages: int
    learner: Entry | None
    unit: str = "event"
    without: tuple[str, ...] = ()
    paper: tuple[Entry, ...] = ()
    change: tuple[Any, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The world's part of the standing benchmark: who competes in it, and by which measure.

    Attributes:
        world: parameters of the standard task, in which learners train.
        measure: one of the metrics of a run, or "return".
        higher: whether more of the measure is better.
        bounds: between what numbers the measure must lie.
        replicas, steps: how plain PPO trains; steps count all rows (below five minutes).
        classic, paper, tuned: policies that were designed, those of the papers, and learners of this package.
        side: the role that competes, where a world has two; `others` play the other, as shares of policies.
        for_learners: what differs in the learners' form of the same world.
        as_designed: learners that act in the form of those that were designed.
        quick: what differs in quick runs.
        for_policies: what differs for some policies, by name.
        variants: the held-out tasks, by name.
        totals: the contest under a total of epsilon; None: nothing private is sent.
    """

    world: Params = field(default_factory=dict)
    measure: str
    higher: bool = False
    bounds: tuple[float, float] = (0.0, math.inf)
    replicas: int = 1
    steps: int
    classic: tuple[Entry, ...]
    paper: tuple[Entry, ...]
    tuned: tuple[Entry, ...]
    side: str | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    for_learners: Params | None = None
    as_designed: tuple[str, ...] = ()
    quick: Params | None = None
    for_policies: Mapping[str, Params] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    totals: Totals | None = None

    def params(self, policy: str, *, learns: bool) -> dict[str, Any]:
        """Parameters of the world in the form in which a policy plays it."""
        form = (self.for_learners or {}) if learns and policy not in self.as_designed else {}
        return {**self.world, **form, **self.for_policies.get(policy, {})}


def lost(channel: str, what: str = "messages") -> Variant:
    """Half of what is said on a channel is lost."""
    return Variant(f"half of the {what} are lost", faults={channel: LossyChannel(0.5)})


def lying(channel: str, how: str) -> Variant:
    """A fifth of the agents lie."""
    return Variant(f"a fifth of the agents {how}", faults={channel: Byzantine(0.2)})


def brief(channel: str, messages: int) -> Variant:
    """Agents have few messages."""
    what = f"each agent sends at most {messages} message{'s' * (messages > 1)} in a run"
    return Variant(what, faults={channel: MessageLimit(messages)})


class Leak(NamedTuple):
    """Runs of which an attacker reads every message, who sent it and when.

    Attributes:
        policies: who acts, one a role, with their parameters.
        mechanism: on the world's first channel, with `{}` for its epsilon; None: agents choose their own.
        params: of the world.
        levels: the epsilons that are tried; None: those of the study.
        budget: parameters of a budget that stops an agent before it spends the study's total; None: nothing does.
        limit: how many messages an agent may send.
        attack: what differs between the two worlds: "data", all that one agent privately observes; "messages", all
            that it sends, where the best test is known; "one run", what every agent sends, each with a coin of its own.
    """

    policies: Params
    mechanism: str | None
    params: Params
    levels: tuple[float, ...] | None = None
    budget: Params | None = None
    limit: int | None = None
    attack: str = "data"


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """What others must know of a world.

    Attributes:
        name: as in `taciturn.envs`, such as "gossip_bandit_v0".
        module: that defines it, under its name.
        small: parameters that make it small enough for tests.
        size: the parameter that says how many agents there are, if they can be several.
        others: who plays the other seats where Gymnasium's form is the seat of one agent.
        one_agent: "module:function" that makes the population behind Gymnasium's forms if that is not a seat, from
            `(num_envs, **players, **parameters)`.
        players: those parameters of `one_agent` that are policies, with their defaults.
        mechanisms: a mechanism that fits a channel, by channel; None instead of one: none does.
        example: what its page shows.
        contest: its tasks; None: it has none.
        leaks: runs that are attacked.
        private_data: "module:function" that makes what one agent privately observes in the two worlds of an attack,
            from the population and 0 or 1; None: just 0 or 1.
        blank: "module:function" of the parameters, of a world in which there is nothing to learn: for attacks that
            give agents their messages; None: of the world itself.
        trials: a number by which the attack's trials on data are divided, where runs take long.
        by_hand: "module:Class", the world as one would write it for PettingZoo without this package, from
            `(num_agents, horizon)`.
        by_hand_size: parameters at which both are compared.
        times_cartpole: how long a step of Gymnasium's form may take, in steps of CartPole; None: nothing is asked.
        pettingzoo: whether PettingZoo's registry lists it.
    """

    name: str
    module: str = ""  # known of every world but those that are not loaded yet
    small: Params = field(default_factory=dict)
    size: str = ""
    others: str | None = None
    one_agent: str | None = None
    players: Params = field(default_factory=dict)
    mechanisms: Mapping[str, str | None] = field(default_factory=dict)
    example: Example | None = None
    contest: Contest | None = None
    leaks: tuple[Leak, ...] = ()
    private_data: str | None = None
    blank: str | None = None
    trials: int = 1
    by_hand: str = ""
    by_hand_size: Params = field(default_factory=dict)
    times_cartpole: float | None = None
    pettingzoo: bool = True

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
