"""What others must know of a world: one value in the world's folder, which the registry reads.

The benchmark, audits, tests, pages and tables of speed loop over these values and name no world themselves. Policies
are named by their classes, mechanisms as on the command line ("Laplace:1"), and functions as
"module:function", so that a descriptor imports nothing heavy.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core.faults import Byzantine, Fault, LossyChannel, MessageLimit

Params = dict[str, Any]
TUNED = "tuned"
"""Stands for the parameters that a search found for a task and a total (`taciturn.bench.tuned`)."""
Entry = tuple[str, Params | str]
"""A policy and its parameters, or `TUNED`."""
PLAIN_PPO = "PPO, plain defaults"
"""Stands where a policy's name could, for PPO with all arguments at their defaults."""


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


class Variant(NamedTuple):
    """How a task differs from the one that learners train in.

    Attributes:
        what: the difference in words.
        params: of the world.
        faults: what goes wrong, by channel.
        others: who plays the world's other side, as shares of policies; None: as in the standard task.
        strangers: other policies among the agents, as shares of all agents.
        size: whether it is a standard task of another size, for which designed agents are tuned by themselves.
        runs: of each seed, where they are dearer than those of the standard task; 0: as there.
        marks: the `Mark` of "alone" or "together", where it is not that of the world.
    """

    what: str
    params: Mapping[str, Any] = {}
    faults: Mapping[str, Fault] = {}
    others: Mapping[str, float] | None = None
    strangers: Mapping[str, float] = {}
    size: bool = False
    runs: int = 0
    marks: Mapping[str, Any] = {}


class Span(NamedTuple):
    """Where a search draws a parameter: between two numbers, by their logarithms if `log`, or among `values`."""

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    values: tuple[Any, ...] = ()

    def draw(self, rng: np.random.Generator) -> Any:
        """A value; whole numbers if both ends are."""
        if self.values:
            return self.values[int(rng.integers(len(self.values)))]
        low, high = (float(np.log(end)) if self.log else end for end in (self.low, self.high))
        drawn = float(rng.uniform(low, high))
        drawn = float(np.exp(drawn)) if self.log else drawn
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        return round(drawn) if whole else float(f"{drawn:.3g}")


class Mark(NamedTuple):
    """A policy that marks an end of the scale of a world's tasks.

    Attributes:
        policy, own: its name, and its parameters, or `TUNED`.
        world: parameters of the world that differ.
        plays_in: the name of another world of the same instances and measure, if it plays there.
    """

    policy: str
    own: Mapping[str, Any] | str = {}
    world: Mapping[str, Any] = {}
    plays_in: str = ""


class Totals(NamedTuple):
    """The contest under a total of epsilon: the private channels, and who competes.

    Attributes:
        channels: those that get the mechanism.
        mechanism: with `{}` for the epsilon of a message; empty where senders choose their levels and perturb their
            messages themselves.
        params: the world's parameters that differ if there is a mechanism.
        messages: about how many an agent sends in a run if nothing stops it (of streams: in how many a value is
            released). Learners train at an epsilon per message that pays for this many.
        learner: the learner that takes part, and its arguments; None where its schedule is not public, so it has no
            finite total.
        protects: what one unit is, in words; see `unit`.
        unit: what the total protects, one "event" or a "user"'s whole history.
        without: policies of the world that do not take part.
        paper: the paper's algorithms that take part, if not the same as without a total.
        change: one agent's data in the two worlds that an attacker must tell apart; None: no attack.
        left_out: the other channels of the world, which no total counts.
    """

    channels: tuple[str, ...]
    mechanism: str
    params: Params
    messages: int
    learner: Entry | None
    protects: str
    unit: str = "event"
    without: tuple[str, ...] = ()
    paper: tuple[Entry, ...] = ()
    change: tuple[Any, Any] | None = None
    left_out: tuple[str, ...] = ()

    @property
    def covers(self) -> str:
        """What a total covers, and what it leaves out, in words."""
        left = f" ({' and '.join(self.left_out)} left out)" if self.left_out else ""
        return f"{self.protects}, on {' and '.join(self.channels)}{left}"


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The world's part of the standing benchmark: who competes, and on which measure.

    Attributes:
        world: parameters of the standard task, in which learners train.
        measure: one of the metrics of a run, or "return".
        higher: whether more of the measure is better.
        bounds: (low, high) of the measure.
        replicas, steps: how plain PPO trains; steps count all rows (below five minutes).
        classic, paper, designed, tuned: textbook policies, the papers' algorithms, agents designed for the world's
            tasks, and learners of this package.
        alone, together: the marks 0 and 1 of scores: the best policy that uses no message, and the best that is given
            what all agents observe, without privacy; None: the world has no scale.
        oracle: a policy that gets all that others may say, as a reference under totals, and the designed one whose
            settings it takes.
        runs: of each seed in a standard task; held-out tasks have half as many.
        search: for each policy with parameters that are searched, where to draw them.
        controls: tasks in which there is nothing to win.
        hears: the channels through which agents hear what others observed.
        side: the role that competes, where a world has two; `others` play the other, as shares of policies.
        for_learners: what differs in the learners' form of the same world.
        as_designed: learners that use the same form of the world as designed policies.
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
    designed: tuple[Entry, ...] = ()
    tuned: tuple[Entry, ...]
    alone: Mark | None = None
    together: Mark | None = None
    oracle: tuple[str, str] | None = None
    runs: int = 40
    search: Mapping[str, Mapping[str, Span]] = field(default_factory=dict)
    controls: tuple[str, ...] = ()
    hears: tuple[str, ...] = ()
    side: str | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    for_learners: Params | None = None
    as_designed: tuple[str, ...] = ()
    quick: Params | None = None
    for_policies: Mapping[str, Params] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    totals: Totals | None = None

    def papers(self, *, free: bool) -> tuple[Entry, ...]:
        """The paper's algorithms that take part without a total or (not `free`) under one: there as searched, where
        that was done."""
        if free:
            return self.paper
        some = (self.totals.paper if self.totals else ()) or self.paper
        searched = {name for name, own in some if own == TUNED}
        return tuple((name, own) for name, own in some if own == TUNED or name not in searched)

    def params(self, policy: str, *, learns: bool) -> dict[str, Any]:
        """Parameters of the world in the form in which a policy plays it."""
        form = (self.for_learners or {}) if learns and policy not in self.as_designed else {}
        return {**self.world, **form, **self.for_policies.get(policy, {})}


def lost(channel: str, what: str = "messages") -> Variant:
    """Half of what is said on a channel is lost."""
    return Variant(f"half of the {what} are lost", faults={channel: LossyChannel(0.5)})


def among(policy: str) -> Variant:
    """A third of the agents are another policy's."""
    return Variant(f"a third of the agents are played by {policy}", strangers={policy: 1 / 3})


def lying(channel: str, how: str) -> Variant:
    """A fifth of the agents lie."""
    return Variant(f"a fifth of the agents {how}", faults={channel: Byzantine(0.2)})


def brief(channel: str, messages: int) -> Variant:
    """Agents have few messages."""
    what = f"each agent sends at most {messages} message{'s' * (messages > 1)} in a run"
    return Variant(what, faults={channel: MessageLimit(messages)})


class Leak(NamedTuple):
    """Runs that are attacked: the attacker reads every message, its sender and its time.

    Attributes:
        policies: who acts, one a role, with their parameters.
        mechanism: on the world's first channel, with `{}` for its epsilon; None: agents choose their own.
        params: of the world.
        levels: the epsilons to try; None: those of the study.
        budget: parameters of a budget that stops an agent before it spends the study's total; None: nothing does.
        limit: how many messages an agent may send.
        attack: what differs between the two worlds: "data", all that one agent privately observes; "messages", all that
            it sends, for which the best test is known; "one run", what every agent sends, by an independent coin each.
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
        module: the one that defines it, under its name.
        small: parameters that make it small enough for tests.
        size: the parameter for the number of agents, if there can be several.
        others: who plays the other seats where Gymnasium's form is the seat of one agent.
        one_agent: "module:function" of `(num_envs, **players, **parameters)` that makes the population behind
            Gymnasium's forms, if that is not a seat.
        players: those parameters of `one_agent` that are policies, with their defaults.
        mechanisms: for each channel a mechanism that fits it; None if no mechanism does.
        example: what its page shows.
        contest: its part of the benchmark; None: it takes no part.
        leaks: runs to attack.
        private_data: "module:function" that makes what one agent privately observes in the two worlds of an attack,
            from the population and 0 or 1; None: just 0 or 1.
        blank: "module:function" for the parameters of a world with nothing to learn, for attacks that set agents'
            messages; None: use the world itself.
        trials: where runs are long, the number of trials of a "data" attack is divided by this.
        times_cartpole: how long a step of Gymnasium's form may take, in steps of CartPole; None: nothing is asked.
        pettingzoo: whether PettingZoo's registry lists it.
        drawn_since: the version of the streams (`taciturn.envs.core.seeding`) since which a seed gives its runs.
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
    contest: Contest | None = None
    leaks: tuple[Leak, ...] = ()
    private_data: str | None = None
    blank: str | None = None
    trials: int = 1
    times_cartpole: float | None = None
    pettingzoo: bool = True
    drawn_since: int = 1
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
