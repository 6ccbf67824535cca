"""The public view of a world: everything that a policy may know, and nothing that the world hides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from taciturn.envs.core.channel import Channel
from taciturn.envs.core.roles import Role
from taciturn.privacy.mechanisms import Mechanism
from taciturn.validation import Array

__all__ = ["HiddenTruth", "PublicChannel", "PublicParams", "PublicView"]


class HiddenTruth(RuntimeError):  # noqa: N818 - it names what was asked for
    """A policy asked for something that the world hides from the agents that act in it."""


class PublicParams:
    """A world's parameters; reading one that the world hides raises `HiddenTruth`."""

    __slots__ = ("_hidden", "_params")

    def __init__(self, params: Any, hidden: frozenset[str]) -> None:
        self._params, self._hidden = params, hidden

    def __getattr__(self, name: str) -> Any:
        if name in type(self).__slots__:
            raise AttributeError(name)
        if name in self._hidden:
            raise HiddenTruth(
                f"{name} is hidden from policies: one that needs it must declare `needs_truth = True`, and is marked in every table"
            )
        return getattr(self._params, name)


@dataclass(frozen=True)
class PublicChannel:
    """The public properties of a channel; see `taciturn.envs.core.Channel`.

    Attributes:
        mechanism: the law by which messages are perturbed; None if they are not.
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
        config = channel.config
        return cls(
            channel.name,
            channel.payload,
            channel.observer,
            channel.unit,
            channel.sender,
            channel.num_senders,
            config.mechanism,
            config.budget is not None,
            bool(config.faults),
        )


class PublicView:
    """The public view of a population, which `Policy.begin` gets.

    Attributes:
        name: the world's name.
        world: its class.
        num_envs: replicas, B.
        horizon: the run's length, in the unit of the world's clock.
        roles: `{name: Role}`, with their spaces and layouts.
        turns: the roles in the order of their turns, or None.
        params: the parameters, except those that the world hides.
        channels: `{name: PublicChannel}`, with their mechanisms.

    Whatever else a world makes public (`Population.public`) is an attribute as well.
    """

    def __init__(self, population: Any, *, with_truth: bool = False) -> None:
        self.name, self.world, self.num_envs = population.name, type(population), population.num_envs
        self.horizon: float = population.horizon
        self.roles: Mapping[str, Role] = population.roles
        self.turns = population.turns
        self.params: Any = population.params if with_truth else PublicParams(population.params, population.hidden)
        self.channels = {name: PublicChannel.of(channel) for name, channel in population.channels.items()}
        self._extra: dict[str, Any] = population.public()
        self._acting = population.acting
        self._practice: Callable[..., Any] = population.practice
        self._truth = population if with_truth else None

    def __getattr__(self, name: str) -> Any:
        extra = self.__dict__.get("_extra", {})
        if name in extra:
            return extra[name]
        raise AttributeError(
            f"{name!r} is not public in {self.__dict__.get('name')}: a policy sees its observations, and {sorted(extra)}"
        )

    @property
    def truth(self) -> Any:
        """The population itself, for policies that declare `needs_truth`; `HiddenTruth` for the others."""
        if self._truth is None:
            raise HiddenTruth(
                f"{self.name} hides its state from policies: one that needs it must declare `needs_truth = True`"
            )
        return self._truth

    def closed(self) -> "PublicView":
        """The same view without the hidden truth."""
        return self if self._truth is None else PublicView(self._truth)

    def acting(self, role: str) -> Array | None:
        """The agents of a role that the rows of the current observation belong to, int64[B, rows]; None if all, in order."""
        return self._acting(role)

    def practice(self, num_envs: int, kind: type[Any] | None = None, **changes: Any) -> Any:
        """A population in which to train: the same world, setting and mechanisms, with instances of its own.

        Args:
            num_envs: number of replicas.
            kind: a subclass of the world, for instance one with another reward; None: the world itself.
            **changes: parameters that differ.
        """
        return self._practice(num_envs, kind, **changes)
