"""The interface between environments and policies: the public view of an environment, and the fast form of a policy.

The view holds everything that a policy may know, and nothing that the environment hides. A fast form is an exact
shortcut for `act`; it never replaces an overridden `act`.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from inspect import isroutine
from typing import Any

from taciturn.channels.channel import Channel
from taciturn.envs.core.roles import Role
from taciturn.privacy.mechanisms import Mechanism
from taciturn.validation import Array, shown

# Attributes that a subclass may override without changing its actions; the metaclass adds the last one to every class.
HARMLESS = frozenset(
    {
        "closed_form",
        "fast",
        "memoryless",
        "needs_truth",
        "one_agent",
        "centralised",
        "prescribes",
        "progress",
        "public_schedule",
        "within",
        "_abc_impl",
    }
)
# Names read by Python itself that any class may define; others, such as `__getattribute__`, could change everything.
ORDINARY = frozenset(vars(type("", (), {}))) | {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__",
    "__classdictcell__", "__dataclass_fields__", "__dataclass_params__", "__firstlineno__", "__getstate__", "__init__",
    "__match_args__", "__orig_bases__", "__parameters__", "__repr__", "__setstate__", "__static_attributes__",
    "__type_params__",
}  # fmt: skip


class HiddenTruth(RuntimeError):  # noqa: N818 - named after the thing asked for
    """A policy read a value that the environment hides from its agents."""


@dataclass(frozen=True)
class Passing:
    """Describes a public function of an environment (`Population.public`) that carries information between agents.

    Attributes:
        sends: maps the function's arguments to the message of each agent, [B, N, ...].
        to: who reads its results [B, N, ...]: "agent", each its own row, or "all".
    """

    sends: Callable[..., Array]
    to: str = "agent"


class PublicParams:
    """An environment's parameters; reading a hidden one raises `HiddenTruth`."""

    __slots__ = ("_hidden", "_params")

    def __init__(self, params: Any, hidden: frozenset[str]) -> None:
        self._params, self._hidden = params, hidden

    def __repr__(self) -> str:
        public = {k: v for k, v in vars(self._params).items() if k not in self._hidden and not k.startswith("_")}
        return f"PublicParams({', '.join(f'{k}={shown(v)}' for k, v in public.items())})"

    def __getattr__(self, name: str) -> Any:
        if name in type(self).__slots__:
            raise AttributeError(name)
        if name in self._hidden:
            raise HiddenTruth(
                f"{name} is hidden from policies: one that needs it must declare `needs_truth = True`, and is marked "
                "in every table"
            )
        return getattr(self._params, name)


@dataclass(frozen=True)
class PublicChannel:
    """The public properties of a channel; see `taciturn.envs.core.Channel`.

    Attributes:
        mechanism: the distribution of the perturbed messages; None if they are not perturbed.
        budgeted: whether a budget may stop messages.
        faulty: whether messages may be lost, late or false.
    """

    name: str
    payload: str
    observer: str
    unit: str
    sender: str
    num_senders: int
    mechanism: Mechanism | None
    budgeted: bool
    faulty: bool

    @classmethod
    def of(cls, channel: Channel) -> "PublicChannel":
        c, config = channel, channel.config
        public = (c.name, c.payload, c.observer, c.unit, c.sender, c.num_senders, config.mechanism)
        return cls(*public, budgeted=config.budget is not None, faulty=bool(config.faults))


class PublicView:
    """The public view of a population, the argument of `Policy.begin`.

    Attributes:
        name: the environment's name.
        world: its class.
        num_envs: number of replicas, B.
        horizon: the run's length, in the unit of the environment's clock.
        roles: `{name: Role}`, with their spaces and layouts.
        turns: the roles in the order of their turns, or None.
        params: the parameters, except hidden ones.
        channels: `{name: PublicChannel}`, with their mechanisms.

    Everything else in `Population.public` is an attribute as well.
    """

    def __init__(self, population: Any, *, with_truth: bool = False) -> None:
        self.name, self.world, self.num_envs = population.name, population.kind, population.num_envs
        self.horizon: float = population.horizon
        self.roles: Mapping[str, Role] = population.roles
        self.turns = population.turns
        self.params: Any = population.params if with_truth else PublicParams(population.params, population.hidden)
        self.channels = {name: PublicChannel.of(channel) for name, channel in population.channels.items()}
        self._extra: dict[str, Any] = population.public()
        self._acting = population.acting
        self._practice: Callable[..., Any] = population.practice
        self._truth = population if with_truth else None

    def __repr__(self) -> str:
        return f"<PublicView of {self.name}: {self.num_envs} x {self.params!r}, channels {list(self.channels)}>"

    def __getattr__(self, name: str) -> Any:
        extra = self.__dict__.get("_extra", {})
        if name in extra:
            return extra[name]
        raise AttributeError(
            f"{name!r} is not public in {self.__dict__.get('name')}: a policy sees its observations, and "
            f"{sorted(extra)}"
        )

    @property
    def truth(self) -> Any:
        """The population itself, for policies that declare `needs_truth`; raises `HiddenTruth` for the others."""
        if self._truth is None:
            raise HiddenTruth(
                f"{self.name} hides its state from policies: one that needs it must declare `needs_truth = True`"
            )
        return self._truth

    def closed(self) -> "PublicView":
        """This view without hidden variables."""
        return self if self._truth is None else PublicView(self._truth)

    def acting(self, role: str) -> Array | None:
        """The agents of a role with a row in the current observation, int64[B, rows]; None if all, in order."""
        return self._acting(role)

    @property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions among the public attributes."""
        return {name: one for name, one in self._extra.items() if isroutine(one)}

    def standing_in(
        self, acting: Callable[[str], Array | None], functions: Mapping[str, Callable[..., Any]], **changes: Any
    ) -> "PublicView":
        """This view with other functions in place of the environment's, and with the attributes in `changes`
        replaced."""
        view = copy(self)
        vars(view).update(_acting=acting, _extra={**self._extra, **functions}, **changes)
        return view

    def of_one(self, role: str, replica: int) -> "PublicView":
        """The knowledge of one agent: an environment of one replica, in which it is the only agent of its role.

        Functions that all agents send through together (`Population.passes`) are left out; functions without arguments
        return the values of this replica.
        """

        def here(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
            result = function(*given, **named)
            if given or named:
                return result
            return tuple(one[replica : replica + 1] for one in result) if isinstance(result, tuple) else result

        functions = {name: partial(here, one) for name, one in self.functions.items()}
        roles = {**self.roles, role: replace(self.roles[role], num_agents=1)}
        view = self.standing_in(lambda name: None, functions, roles=roles, num_envs=1)
        view._extra = {name: one for name, one in view._extra.items() if name not in self.world.passes}
        return view

    def practice(self, num_envs: int, kind: type[Any] | None = None, **changes: Any) -> Any:
        """A population for training: the same environment, settings and mechanisms, but different instances and random
        numbers.

        Its `purpose` is "training", so a run's seed does not replay that run in training.

        Args:
            num_envs: number of replicas.
            kind: a subclass of the environment, for instance one with another reward; None: the environment itself.
            **changes: parameters that differ.
        """
        return self._practice(num_envs, kind, **changes)


class Fast:
    """Base of the fast forms. A fast form gives an environment the data to play many steps of a policy in one draw,
    with the same distribution.

    `Population.jumps` names the fast forms that an environment can play.
    """


def fast_form(policy: Any, view: PublicView) -> Fast | None:
    """The fast form that `policy` declares by its method `fast(view)`; None if the policy must be played by `act`.

    A declaration holds for the class that makes it. If a subclass, or the object itself, overrides any attribute of
    that class, the shortcut may no longer agree with `act`, so it is ignored unless the subclass declares a new fast
    form.
    """
    form: Fast | None = policy.fast(view) if declares(policy, "fast") else None
    return form


def has_public_schedule(policy: Any) -> bool:
    """Whether `policy`, once reset, declares a public schedule by `public_schedule`; see `Policy`.

    As with fast forms, the declaration does not hold for a subclass that overrides anything of the declaring class.
    """
    return declares(policy, "public_schedule") and policy.public_schedule is True


def declares(policy: Any, name: str) -> bool:
    """Whether the attribute `name` of a policy is still valid: neither a subclass nor the object itself overrides
    anything of the class that sets it, or intercepts attribute access."""
    classes = type(policy).__mro__
    known = next((cls for cls in classes if name in vars(cls)), None)
    if known is None:
        return False
    more = [item for cls in classes if cls not in known.__mro__ for item in vars(cls).items()]
    own = [key for key, value in getattr(policy, "__dict__", {}).items() if callable(value)]

    def changes(key: str, value: Any) -> bool:
        if key.startswith("__"):
            return key not in ORDINARY
        return hasattr(known, key) or hasattr(type(value), "__set__") or hasattr(type(value), "__delete__")

    overridden = any(changes(*one) for one in more if one[0] not in HARMLESS)
    return not overridden and not any(hasattr(known, key) for key in own if key not in HARMLESS)
