"""What there is: the worlds, the ids they are registered under, and the policies by name."""

import difflib
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium
import pettingzoo

from taciturn.envs.core import World

__all__ = ["WORLDS", "Entry", "UnknownName", "make_policy", "make_world", "policies", "register", "worlds"]


class UnknownName(ValueError):  # noqa: N818 - it names what went wrong
    """A name that stands for nothing; the message lists the nearest ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        super().__init__(f"unknown {kind} {name!r}: {hint}")


@dataclass(frozen=True)
class Entry:
    """A world: its name in `taciturn.envs`, the module that holds it, its id, and which standard registries list it.

    `single` is the module of its Gymnasium forms, where that is another: where policies of the suite play the other roles.
    """

    name: str
    module: str
    id: str
    gymnasium: bool = True
    pettingzoo: bool = True
    single: str = ""


WORLDS = (
    Entry("round_stopping_v0", "taciturn.envs.round_stopping", "taciturn/RoundStopping-v0"),
    Entry("federated_training_v0", "taciturn.envs.federated_training", "taciturn/FederatedTraining-v0"),
    Entry("federated_bandit_v0", "taciturn.envs.federated_bandit", "taciturn/FederatedBandit-v0", gymnasium=False),
    Entry("arm_elimination_v0", "taciturn.envs.arm_elimination", "taciturn/ArmElimination-v0"),
    Entry("gossip_bandit_v0", "taciturn.envs.gossip_bandit", "taciturn/GossipBandit-v0", gymnasium=False),
    Entry("social_bandit_v0", "taciturn.envs.social_bandit", "taciturn/SocialBandit-v0", gymnasium=False),
    Entry("elicitation_v0", "taciturn.envs.elicitation", "taciturn/Elicitation-v0", single="taciturn.elicitation"),
)


def worlds() -> dict[str, World[Any]]:
    """`{name: world}`, in the order of `WORLDS`."""
    return {entry.name: getattr(importlib.import_module(entry.module), entry.name) for entry in WORLDS}


def make_world(name: str) -> World[Any]:
    """A world by its name or id, with or without the version: `round_stopping`, `taciturn/RoundStopping-v0`, ...

    Raises:
        UnknownName: no world is called that.
    """
    for entry in WORLDS:
        plain = entry.name.removesuffix("_v0")
        short = entry.id.removeprefix("taciturn/")
        if name in (entry.name, plain, entry.id, short, short.removesuffix("-v0")):
            world: World[Any] = getattr(importlib.import_module(entry.module), entry.name)
            return world
    raise UnknownName("environment", name, [entry.name for entry in WORLDS] + [entry.id for entry in WORLDS])


def policies() -> dict[str, type[Any]]:
    """`{name: class}` of the policies in `taciturn.policies`."""
    module = importlib.import_module("taciturn.policies")
    return {name: getattr(module, name) for name in module.__all__ if name not in ("Learner", "Policy")}


def make_policy(name: str, **parameters: Any) -> Any:
    """A policy by its class name.

    Raises:
        UnknownName: no policy is called that.
        ValueError: a parameter that it does not take, or out of range.
    """
    known = policies()
    if name not in known:
        raise UnknownName("policy", name, known)
    try:
        return known[name](**parameters)
    except TypeError as error:
        raise ValueError(f"{name} cannot take {parameters}: {error}") from error


def register() -> None:
    """Enter the worlds in Gymnasium's registry and, where PettingZoo has one, in PettingZoo's."""
    for entry in WORLDS:
        if entry.gymnasium and entry.id not in gymnasium.registry:
            gymnasium.register(
                entry.id,
                entry_point=f"{entry.single or entry.module}:single_env",
                vector_entry_point=f"{entry.single or entry.module}:vector_env",
            )
        if entry.pettingzoo and entry.id not in getattr(pettingzoo, "parallel_registry", {entry.id: None}):
            pettingzoo.register("parallel", entry.id, f"{entry.module}:parallel_env")
            pettingzoo.register("aec", entry.id, f"{entry.module}:aec_env")
