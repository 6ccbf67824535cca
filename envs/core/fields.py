"""The owners of the fields of a State.

One declaration determines the visible fields, the hidden fields, and the data that an audit changes::

    @dataclass(frozen=True)
    class State:
        arm: Ints = fields.own(lambda p: p.num_agents)
        votes: Floats = fields.received(lambda p: (p.num_agents, p.num_arms))
        time: Ints = fields.public()
        means: Floats = fields.hidden(lambda p: p.num_arms)

An agent observes its own entries, received messages, and public fields; the functions that make observations get
nothing else. A field without a declaration is hidden.
"""

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

OWN, RECEIVED, PUBLIC, HIDDEN = "own", "received", "public", "hidden"
Shape = Callable[[Any], Any] | None


class Owner(NamedTuple):
    """The owner of a field.

    Attributes:
        kind: OWN, RECEIVED, PUBLIC or HIDDEN.
        role: the role that it belongs to; empty if there is only one role.
        each: whether it has one entry per agent of that role, visible to that agent only.
    """

    kind: str = HIDDEN
    role: str = ""
    each: bool = False

    def seen_by(self, role: str) -> bool:
        """Whether agents of a role see the field, or their entries of it."""
        return self.kind == PUBLIC or (self.kind != HIDDEN and self.role in ("", role))


def _declared(shape: Shape, owner: Owner) -> Any:
    return dataclasses.field(metadata={"shape": shape, "owner": owner})


def own(shape: Shape = None, role: str = "") -> Any:
    """A field of private data, with one entry per agent.

    Args:
        shape: a function of the environment's parameters that gives the array's size or shape, beginning with the
            number of agents (with 1 where all agents share the entry); None: `Hooks.arrays` gives the size, or there is
            one agent and the field is a single number.
        role: the role that owns it, in an environment with several roles.
    """
    return _declared(shape, Owner(OWN, role, True))


def received(shape: Shape = None, role: str = "", each: bool = True) -> Any:
    """A field of delivered messages: one entry per receiver, or, without `each`, one for all agents of the role.
    Arguments as in `own`."""
    return _declared(shape, Owner(RECEIVED, role, each))


def public(shape: Shape = None) -> Any:
    """A field that every agent may know. Arguments as in `own`."""
    return _declared(shape, Owner(PUBLIC))


def hidden(shape: Shape = None) -> Any:
    """A field that no agent may know, such as the means of the arms. Arguments as in `own`."""
    return _declared(shape, Owner())


def owners(state_type: Any) -> dict[str, Owner]:
    """The owner of each field of a State, by the field's name."""
    return _owners(state_type)


@cache
def _owners(state_type: Any) -> dict[str, Owner]:
    return {field.name: field.metadata.get("owner", Owner()) for field in dataclasses.fields(state_type)}


def of_kind(state_type: Any, kind: str) -> frozenset[str]:
    """The names of the fields of one kind."""
    return frozenset(name for name, owner in owners(state_type).items() if owner.kind == kind)


def shapes_of(state_type: Any, params: Any) -> dict[str, Any]:
    """The size or shape of each field that declares one."""
    return {
        field.name: shape(params)
        for field in dataclasses.fields(state_type)
        if (shape := field.metadata.get("shape")) is not None
    }


def check_roles(state_type: Any, roles: tuple[str, ...]) -> None:
    """Raise TypeError if the State is not a dataclass, or a field belongs to a role that is not in `roles`, or its role
    is ambiguous."""
    if not dataclasses.is_dataclass(state_type):
        raise TypeError(
            f"a State must be a dataclass that declares the owners of its fields, not {state_type.__name__}"
        )
    for name, owner in owners(state_type).items():
        if owner.role and owner.role not in roles:
            raise TypeError(f"role of field {name!r} must be one of {', '.join(roles)}, not {owner.role!r}")
        if owner.kind in (OWN, RECEIVED) and not owner.role and len(roles) > 1:
            raise TypeError(f"role of field {name!r} must be given, as there are several: {', '.join(roles)}")
