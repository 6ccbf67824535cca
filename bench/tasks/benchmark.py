"""The benchmark of an environment: its tasks, agents and measure, declared in a table, which is in this folder
(`gossip_bandit_v0.toml`) or is declared by another package.

The keys of a table, and of tables in it, are attribute names (`Benchmark`). Policies are given by class
name, mechanisms as on the command line ("Laplace:1"), and functions as "module:function". Counts are whole numbers. A
nested table may be shortened to its first entries: an agent is `"Voter"`, `["FixedCount", { k = 5 }]` or
`["PPCL", "tuned"]`, a fault `["Byzantine", { fraction = 0.2 }]`, and a search range `[1.0, 4.0]` or `[1, 60, "log"]`.
"""

import inspect
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from taciturn.envs.core import Fault
from taciturn.validation import choice, integer, mapping, number, shown
from taciturn.wrappers import Byzantine, Churn, LossyChannel, MessageLimit, Stragglers

Params = dict[str, Any]
TUNED = "tuned"
"""Means the parameters that a search found for a task and a budget (`taciturn.bench.tuned`)."""
Own = Mapping[str, Any] | str
Entry = tuple[str, Own]
"""A policy and its parameters, or `TUNED`."""
PLAIN_PPO = "PPO, plain defaults"
"""In place of a policy's name: PPO with all arguments at their defaults."""
TRAINER = "TrainedAgent"
PRETRAINED = "pretrained:"
"""The learner with trainings shipped with the package, and the prefix of their names."""
FAULTS = {fault.__name__: fault for fault in (Byzantine, Churn, LossyChannel, MessageLimit, Stragglers)}


class Reference(NamedTuple):
    """A policy at one end of the scale of an environment's tasks.

    Attributes:
        policy, own: its name, and its parameters, or `TUNED`.
        world: parameters of the environment that differ.
        plays_in: the name of another environment with the same instances and measure, if it plays there.
    """

    policy: str
    own: Mapping[str, Any] | str = {}
    world: Mapping[str, Any] = {}
    plays_in: str = ""


class Variant(NamedTuple):
    """The difference of a task from the one that learners train in.

    Attributes:
        what: the difference in words.
        params: parameters of the environment.
        faults: the faults, by channel.
        others: the policies of the environment's other side, with their shares; None: as in the standard task.
        strangers: other policies among the agents, as shares of all agents.
        size: whether it is a standard task of another size with separate tuning of hand-designed agents.
        runs: number of runs per seed, if they are more expensive than in the standard task; 0: as there.
        control: whether communication cannot help in it.
        no_communication, full_information: the references of its scores, if they differ from the environment's.
    """

    what: str
    params: Mapping[str, Any] = {}
    faults: Mapping[str, Fault] = {}
    others: Mapping[str, float] | None = None
    strangers: Mapping[str, float] = {}
    size: bool = False
    runs: int = 0
    control: bool = False
    no_communication: Reference | None = None
    full_information: Reference | None = None


class Span(NamedTuple):
    """The search range of a parameter: between two numbers, on a scale, or among `values`."""

    low: float = 0.0
    high: float = 1.0
    scale: Literal["linear", "log"] = "linear"
    values: tuple[Any, ...] = ()

    def draw(self, rng: np.random.Generator) -> Any:
        """A value; whole numbers if both ends are."""
        if self.values:
            return self.values[int(rng.integers(len(self.values)))]
        log = self.scale == "log"
        low, high = (float(np.log(end)) if log else end for end in (self.low, self.high))
        drawn = float(rng.uniform(low, high))
        drawn = float(np.exp(drawn)) if log else drawn
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        return round(drawn) if whole else float(f"{drawn:.3g}")


class BudgetPlan(NamedTuple):
    """The benchmark under a privacy budget: the private channels, and the entries.

    Attributes:
        channels: the channels that get the mechanism.
        messages: about how many messages an agent sends in a run if nothing stops it (for streams: the number of
            releases of a value). Learners train at an epsilon per message that pays for this many.
        protects: the meaning of one unit, in words; see `unit`.
        mechanism: with `{}` for the epsilon of a message; empty if senders choose their levels and perturb their
            messages themselves.
        params: the environment's parameters that differ with a mechanism.
        learner: the learner that takes part; None if its schedule is not public, so it has no finite epsilon.
        unit: the protected unit, one "event" or a "user"'s whole history.
        without: policies of the environment that do not take part.
        paper: the paper's algorithms that take part, if not the same as without a budget.
        left_out: the other channels of the environment, which no budget counts.
    """

    channels: tuple[str, ...]
    messages: int
    protects: str
    mechanism: str = ""
    params: Mapping[str, Any] = {}
    learner: Entry | None = None
    unit: Literal["event", "user"] = "event"
    without: tuple[str, ...] = ()
    paper: tuple[Entry, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def covers(self) -> str:
        """The data that the budget protects, and the channels that it covers and leaves out, in words."""
        left = f" ({' and '.join(self.left_out)} left out)" if self.left_out else ""
        return f"{self.protects}, on {' and '.join(self.channels)}{left}"


class Leak(NamedTuple):
    """Runs that are attacked: the attacker reads every message, its sender and its time.

    Attributes:
        policies: the policies, one for each role.
        around: the wrapper of the mechanism, such as "Memoized:".
        params: parameters of the environment, where they differ from the other runs.
        levels: the epsilons to try; none: as in the study.
        budget: parameters of a budget that stops an agent before it exceeds the study's epsilon; None: no budget.
        limit: the largest number of messages per agent.
        attack: the difference between the two environments: "data", all private observations of one agent; "messages",
            all of its messages (the best test is known); "one run", every agent's messages, by an independent coin
            each.
    """

    policies: tuple[Entry, ...]
    around: str = ""
    params: Mapping[str, Any] = {}
    levels: tuple[float, ...] = ()
    budget: Mapping[str, Any] | None = None
    limit: int | None = None
    attack: Literal["data", "messages", "one run"] = "data"


class Attacks(NamedTuple):
    """A target of the study `leakage`.

    Attributes:
        runs: the runs.
        mechanism: the mechanism on the environment's first channel, with `{}` for its epsilon; empty: agents choose
            their own.
        params: parameters of the environment, in all runs.
        private_data: a function that makes one agent's private observations in the two environments of an attack, from
            the population and 0 or 1; empty: just 0 or 1.
        blank: a function for the parameters of an environment with nothing to learn, for attacks that set agents'
            messages; empty: use the environment itself.
        fewer: divisor of the number of trials of a "data" attack, for long runs.
    """

    runs: tuple[Leak, ...] = ()
    mechanism: str = ""
    params: Mapping[str, Any] = {}
    private_data: str = ""
    blank: str = ""
    fewer: int = 1


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """The benchmark of an environment: its tasks, its agents and its measure.

    Attributes:
        world: parameters of the standard task, where learners train.
        measure: one of the metrics of a run, or "return".
        higher: whether more of the measure is better.
        bounds: (low, high) of the measure.
        replicas, steps: number of replicas and of steps with which plain PPO trains, in less than five minutes; a step
            counts once for each agent of each replica.
        classic, paper, designed, tuned: textbook policies, the papers' algorithms, agents hand-designed for the
            environment's tasks, and learners of this package.
        no_communication, full_information: the references at scores 0 and 1: the best policy that ignores messages, and
            the best policy that gets the observations of all agents, without privacy; None: no scale.
        oracle: a policy that gets all messages of others, as a reference under budgets, and the hand-designed policy
            that gives its settings.
        control: the reason why communication cannot help in the environment's tasks, if so: they are played, and left
            out of the ranking.
        runs: number of runs per seed in a standard task: 1,000, and fewer if a run takes longer than 5 ms.
        search: for each policy with searched parameters, their search ranges.
        receives: the channels that deliver others' observations to agents.
        side: the role that competes, in an environment with two; `others` play the other, as shares of policies.
        for_learners: parameters of the environment that differ for learners.
        as_designed: learners to which `for_learners` does not apply.
        quick: parameters of the environment that differ in quick runs.
        for_policies: parameters of the environment that differ for some policies, by name.
        variants: the held-out tasks, by name.
        budgets: the benchmark under a privacy budget; None: nothing private is sent.
        attacks: the runs to attack.
    """

    world: Params = field(default_factory=dict)
    measure: str
    higher: bool = False
    bounds: tuple[float, float] = (0.0, math.inf)
    replicas: int = 1
    steps: int
    classic: tuple[Entry, ...] = ()
    paper: tuple[Entry, ...] = ()
    designed: tuple[Entry, ...] = ()
    tuned: tuple[Entry, ...] = ()
    no_communication: Reference | None = None
    full_information: Reference | None = None
    oracle: tuple[str, str] | None = None
    control: str = ""
    runs: int = 1000
    search: Mapping[str, Mapping[str, Span]] = field(default_factory=dict)
    receives: tuple[str, ...] = ()
    side: str | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    for_learners: Params = field(default_factory=dict)
    as_designed: tuple[str, ...] = ()
    quick: Params = field(default_factory=dict)
    for_policies: Mapping[str, Params] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    budgets: BudgetPlan | None = None
    attacks: Attacks = field(default_factory=Attacks)

    def papers(self, *, free: bool) -> tuple[Entry, ...]:
        """The paper's algorithms that take part without a budget (`free`), or else under one, with searched settings if
        there are any."""
        if free:
            return self.paper
        some = (self.budgets.paper if self.budgets else ()) or self.paper
        searched = {name for name, own in some if own == TUNED}
        return tuple((name, own) for name, own in some if own == TUNED or name not in searched)

    def params(self, policy: str, *, learns: bool) -> dict[str, Any]:
        """Parameters of the environment in the form for a policy."""
        form = self.for_learners if learns and policy not in self.as_designed else {}
        return {**self.world, **form, **self.for_policies.get(TRAINER if policy.startswith(PRETRAINED) else policy, {})}


def read(table: Mapping[str, Any] | str) -> Benchmark:
    """The benchmark in a table, or in a TOML text. Raises ValueError, which names the key, its value and the allowed
    values."""
    return composed(Benchmark, tomllib.loads(table) if isinstance(table, str) else table, "")


def composed(kind: Any, given: Any, key: str) -> Any:
    """A `Benchmark`, or one of the named tuples in it, from a table or from its first entries."""
    kinds, place = get_type_hints(kind), key or "the table"
    first = [given] if isinstance(given, str) else given
    if isinstance(first, list | tuple):
        if len(first) > len(kinds):
            raise ValueError(f"{place} must have at most {len(kinds)} entries, not {shown(given)}")
        given = dict(zip(kinds, first, strict=False))
    results = {}
    for name, one in mapping(place, given, "a table").items():
        choice(f"a key of {place}", name, kinds)
        results[name] = value(kinds[name], one, f"{key}.{name}".removeprefix("."))
    for name, one in inspect.signature(kind).parameters.items():
        if one.default is one.empty and name not in results:
            raise ValueError(f"{place} must have the key {name!r}, and has {', '.join(results) or 'none'}")
    return kind(**results)


def value(kind: Any, given: Any, key: str) -> Any:
    """The value of a key, converted to its type `kind` in a `Benchmark`."""
    origin, inner = get_origin(kind), get_args(kind)
    if NoneType in inner:  # the value of an omitted key
        return value(inner[0], given, key)
    if kind == Own:
        return given if given == TUNED else value(Mapping[str, Any], mapping(key, given, f'a table or "{TUNED}"'), key)
    if kind == Entry and isinstance(given, str):
        return given, {}
    if kind is Fault:
        name, params = value(tuple[str, Mapping[str, Any]], given, key)
        choice(f"{key}[0]", name, FAULTS)
        try:
            return FAULTS[name](**params)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{key} must be a fault: {error}") from error
    if origin is tuple:
        any_number = Ellipsis in inner
        if not isinstance(given, list | tuple) or not (any_number or len(given) == len(inner)):
            raise ValueError(f"{key} must be an array{'' if any_number else f' of {len(inner)}'}, not {shown(given)}")
        kinds = inner[:1] * len(given) if any_number else inner
        return tuple(value(kinds[place], one, f"{key}[{place}]") for place, one in enumerate(given))
    if origin in (dict, Mapping):
        return {name: value(inner[1], one, f"{key}.{name}") for name, one in mapping(key, given, "a table").items()}
    if origin is Literal:
        return choice(key, given, inner)
    if kind is Any:
        return frozen(given)
    if kind is int:
        return integer(key, given, at_least=0)
    if kind is float:
        number(key, given)
        return given
    if kind in (str, bool):
        if not isinstance(given, kind):
            raise ValueError(f"{key} must be {'a text' if kind is str else 'true or false'}, not {shown(given)}")
        return given
    return composed(kind, given, key)


def frozen(given: Any) -> Any:
    """A value with arrays as tuples."""
    if isinstance(given, list | tuple):
        return tuple(map(frozen, given))
    return {name: frozen(one) for name, one in given.items()} if isinstance(given, dict) else given
