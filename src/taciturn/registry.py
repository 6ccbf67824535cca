"""The registry: the worlds, the ids under which they are registered, and the policies by name."""

import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import pettingzoo

from taciturn.envs.core import AECView, ParallelView, Population, SingleEnv, VectorView, World

__all__ = ["WORLDS", "Entry", "UnknownName", "make_policy", "make_world", "platform_side", "policies", "worlds"]


class UnknownName(ValueError):  # noqa: N818 - it names what went wrong
    """An unknown name; the message suggests the closest known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
        super().__init__(f"unknown {kind} {name!r}: {hint}")


@dataclass(frozen=True)
class Entry:
    """A world: its name in `taciturn.envs`, the module that defines it, its id, and the standard registries that list it.

    `one_agent` makes its Gymnasium forms where the world itself has several agents: the population in which one of them acts and
    policies play the others, from `(num_envs, **parameters)`.
    """

    name: str
    module: str
    id: str
    gymnasium: bool = True
    pettingzoo: bool = True
    one_agent: Callable[..., Population[Any]] | None = None

    @property
    def world(self) -> World[Any, Any]:
        """The world, whose module is imported when it is asked for."""
        found: World[Any, Any] = getattr(importlib.import_module(self.module), self.name)
        return found


def platform_side(num_envs: int = 1, *, individuals: Any = "BestResponse", **parameters: Any) -> Population[Any]:
    """Elicitation seen by its platform, `taciturn/Elicitation-v0`.

    Args:
        num_envs: replicas.
        individuals: who plays the individuals: a policy, the name of one, such as "BestResponse", "FiniteBestResponse" or "Truthful", or
            `{name: share}` for a mixture.
        **parameters: those of `elicitation_v0`, and `fixed_target` (see `taciturn.envs.elicitation.platform`).

    Raises:
        ValueError: individuals that are no policy, or a parameter out of range.
    """
    from taciturn.envs.elicitation.platform import platform_side as with_policy
    from taciturn.policies import Mixture

    if isinstance(individuals, str):
        individuals = make_policy(individuals)
    elif isinstance(individuals, Mapping):
        individuals = Mixture([(make_policy(name), share) for name, share in individuals.items()])
    return with_policy(num_envs, individuals, **parameters)


WORLDS = (
    Entry("round_stopping_v0", "taciturn.envs.round_stopping.world", "taciturn/RoundStopping-v0"),
    Entry("federated_training_v0", "taciturn.envs.federated_training.world", "taciturn/FederatedTraining-v0"),
    Entry(
        "federated_bandit_v0", "taciturn.envs.federated_bandit.world", "taciturn/FederatedBandit-v0", gymnasium=False
    ),
    Entry("arm_elimination_v0", "taciturn.envs.federated_bandit.arm_elimination", "taciturn/ArmElimination-v0"),
    Entry("gossip_bandit_v0", "taciturn.envs.gossip_bandit.world", "taciturn/GossipBandit-v0", gymnasium=False),
    Entry("social_bandit_v0", "taciturn.envs.social_bandit.world", "taciturn/SocialBandit-v0", gymnasium=False),
    Entry("elicitation_v0", "taciturn.envs.elicitation.world", "taciturn/Elicitation-v0", one_agent=platform_side),
)


def worlds() -> dict[str, World[Any, Any]]:
    """`{name: world}`, in the order of `WORLDS`."""
    return {entry.name: entry.world for entry in WORLDS}


def make_world(name: str) -> World[Any, Any]:
    """A world by its name or id, with or without the version: `round_stopping`, `taciturn/RoundStopping-v0`, ...

    Raises:
        UnknownName: no world is called that.
    """
    for entry in WORLDS:
        plain = entry.name.removesuffix("_v0")
        short = entry.id.removeprefix("taciturn/")
        if name in (entry.name, plain, entry.id, short, short.removesuffix("-v0")):
            return entry.world
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


# What the standard registries call: `world` is the name of an entry.


def single_env(world: str, render_mode: str | None = None, **parameters: Any) -> SingleEnv:
    """Gymnasium's form of a world."""
    return SingleEnv(one_agent(world, 1, parameters), render_mode)


def vector_env(
    world: str, num_envs: int = 1, autoreset_mode: Any = "NextStep", render_mode: str | None = None, **parameters: Any
) -> VectorView:
    """Gymnasium's vector form of a world."""
    return VectorView(one_agent(world, num_envs, parameters), autoreset_mode, render_mode)


def parallel_env(world: str, render_mode: str | None = None, **parameters: Any) -> ParallelView:
    """PettingZoo's Parallel form of a world."""
    return make_world(world).parallel_env(render_mode, **parameters)


def aec_env(world: str, render_mode: str | None = None, **parameters: Any) -> AECView:
    """PettingZoo's AEC form of a world."""
    return make_world(world).env(render_mode, **parameters)


def one_agent(world: str, num_envs: int, parameters: dict[str, Any]) -> Population[Any]:
    """A population of one role: the world's own, or what stands for it in Gymnasium (`Entry.one_agent`)."""
    found = make_world(world)
    entry = next((entry for entry in WORLDS if entry.world is found), None)
    make = found.population if entry is None or entry.one_agent is None else entry.one_agent
    return make(num_envs, **parameters)


def register() -> None:
    """Enter the worlds in Gymnasium's registry and, where PettingZoo has one, in PettingZoo's."""
    for entry in WORLDS:
        known: dict[str, Any] = {"kwargs": {"world": entry.name}}
        if entry.gymnasium and entry.id not in gymnasium.registry:
            single, vector = f"{__name__}:single_env", f"{__name__}:vector_env"
            gymnasium.register(entry.id, single, vector_entry_point=vector, **known)
        if entry.pettingzoo and entry.id not in getattr(pettingzoo, "parallel_registry", {entry.id: None}):
            pettingzoo.register("parallel", entry.id, f"{__name__}:parallel_env", **known)
            pettingzoo.register("aec", entry.id, f"{__name__}:aec_env", **known)
