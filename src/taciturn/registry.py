"""The registry: the worlds, the ids under which they are registered, and the policies by name."""

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import pettingzoo

from taciturn.envs.core import AECView, ParallelView, Population, Seat, SingleEnv, VectorView, World
from taciturn.validation import UnknownParameter

__all__ = ["WORLDS", "Entry", "UnknownName", "make_policy", "make_world", "platform_side", "policies", "seat", "worlds"]


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
    pettingzoo: bool = True
    one_agent: Callable[..., Population[Any]] | None = None

    @property
    def world(self) -> World[Any, Any, ...]:
        """The world, whose module is imported when it is asked for."""
        found: World[Any, Any, ...] = getattr(importlib.import_module(self.module), self.name)
        return found

    @property
    def needs_others(self) -> bool:
        """Whether its Gymnasium form is the seat of one agent among `others` (`seat`)."""
        return isinstance(self.one_agent, partial)


def seat(
    world: str, num_envs: int = 1, *, others: Any = None, agent: int | str = 0, **parameters: Any
) -> Population[Any]:
    """One agent's seat in a world of many agents with the same role; a policy plays all others. It is its Gymnasium form.

    Args:
        world: its name, such as "gossip_bandit_v0".
        num_envs: replicas.
        others: who plays the others: a policy, or the name of one, such as "PPCL".
        agent: whose seat it is: a number, or a name such as "agent_3".
        **parameters: those of the world.

    Raises:
        ValueError: no policy is given, there is no such agent, or a parameter is out of range; or the policy remembers what its agents did,
            there is more than one replica, and agents act one at a time, so that replicas have to wait for one another.
    """
    from taciturn.policies.base import Policy

    if others is None:
        raise ValueError(
            f'{world} has many agents: give others="NAME OF A POLICY" to gymnasium.make for the seat of one of them, or use '
            f"taciturn.envs.{world}.parallel_env() or .env() for all"
        )
    population = make_world(world).population(num_envs, **parameters)
    (role,) = population.roles
    if agent in (names := population.possible_agents):
        agent = names.index(str(agent))
    policy = make_policy(others) if isinstance(others, str) else others
    waits = type(population).acting is not Population.acting
    if num_envs > 1 and waits and getattr(type(policy), "update", None) is not Policy.update:
        raise ValueError(
            f"others must be a policy without memory in {num_envs} replicas of {world}, not {policy!r}: "
            f'make one replica at a time (vectorization_mode="sync")'
        )
    return Seat(population, role, agent, {role: policy})  # type: ignore[arg-type]  # which checks the agent


def platform_side(
    num_envs: int = 1, *, individuals: Any = "BestResponse", fixed_target: bool = True, **parameters: Any
) -> Population[Any]:
    """Elicitation seen by its platform, `taciturn/Elicitation-v0`.

    Args:
        num_envs: replicas.
        individuals: who plays the individuals: a policy, the name of one, such as "BestResponse", "FiniteBestResponse" or "Truthful", or
            `{name: share}` for a mixture.
        fixed_target: see `taciturn.envs.elicitation.platform`.
        **parameters: those of `elicitation_v0`.

    Raises:
        ValueError: individuals that are no policy, or a parameter out of range.
    """
    from taciturn.envs.elicitation.platform import platform_side as with_policy
    from taciturn.policies import Mixture

    if isinstance(individuals, str):
        individuals = make_policy(individuals)
    elif isinstance(individuals, Mapping):
        individuals = Mixture([(make_policy(name), share) for name, share in individuals.items()])
    return with_policy(num_envs, individuals, fixed_target=fixed_target, **parameters)


WORLDS = (
    Entry("round_stopping_v0", "taciturn.envs.round_stopping.world", "taciturn/RoundStopping-v0"),
    Entry("federated_training_v0", "taciturn.envs.federated_training.world", "taciturn/FederatedTraining-v0"),
    Entry(
        "federated_bandit_v0",
        "taciturn.envs.federated_bandit.world",
        "taciturn/FederatedBandit-v0",
        one_agent=partial(seat, "federated_bandit_v0"),
    ),
    Entry("arm_elimination_v0", "taciturn.envs.federated_bandit.arm_elimination", "taciturn/ArmElimination-v0"),
    Entry(
        "gossip_bandit_v0",
        "taciturn.envs.gossip_bandit.world",
        "taciturn/GossipBandit-v0",
        one_agent=partial(seat, "gossip_bandit_v0"),
    ),
    Entry(
        "social_bandit_v0",
        "taciturn.envs.social_bandit.world",
        "taciturn/SocialBandit-v0",
        one_agent=partial(seat, "social_bandit_v0"),
    ),
    Entry(
        "recommender_v0",
        "taciturn.envs.recommender.world",
        "taciturn/Recommender-v0",
        one_agent=partial(seat, "recommender_v0"),
    ),
    Entry("elicitation_v0", "taciturn.envs.elicitation.world", "taciturn/Elicitation-v0", one_agent=platform_side),
)


def worlds() -> dict[str, World[Any, Any, ...]]:
    """`{name: world}`, in the order of `WORLDS`."""
    return {entry.name: entry.world for entry in WORLDS}


def make_world(name: str) -> World[Any, Any, ...]:
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
        UnknownParameter: a parameter that it does not take.
        ValueError: one out of range.
    """
    known = policies()
    if name not in known:
        raise UnknownName("policy", name, known)
    try:
        return known[name](**parameters)
    except UnknownParameter:
        raise
    except TypeError as error:
        raise ValueError(f"{name} cannot take {parameters}: {error}") from error


# What the standard registries call: `world` is the name of an entry.


def single_env(world: str, render_mode: str | None = None, **parameters: Any) -> SingleEnv:
    """Gymnasium's form of a world."""
    return SingleEnv(_gymnasium_form(_entry(world), 1, parameters), render_mode)


def vector_env(
    world: str, num_envs: int = 1, autoreset_mode: Any = "NextStep", render_mode: str | None = None, **parameters: Any
) -> VectorView:
    """Gymnasium's vector form of a world."""
    return VectorView(_gymnasium_form(_entry(world), num_envs, parameters), autoreset_mode, render_mode)


def parallel_env(world: str, render_mode: str | None = None, **parameters: Any) -> ParallelView:
    """PettingZoo's Parallel form of a world."""
    return make_world(world).parallel_env(render_mode, **parameters)


def aec_env(world: str, render_mode: str | None = None, **parameters: Any) -> AECView:
    """PettingZoo's AEC form of a world."""
    return make_world(world).env(render_mode, **parameters)


def one_agent(world: str, num_envs: int, parameters: dict[str, Any]) -> Population[Any]:
    """A population of one role: the world's own, or what stands for it in Gymnasium if it has several or `others` are named."""
    found = make_world(world)
    entry = next((entry for entry in WORLDS if entry.world is found), None)
    if entry is None or (entry.needs_others and "others" not in parameters):
        return found.population(num_envs, **parameters)
    return _gymnasium_form(entry, num_envs, parameters)


def _entry(name: str) -> Entry:
    (entry,) = (entry for entry in WORLDS if entry.name == name)
    return entry


def _gymnasium_form(entry: Entry, num_envs: int, parameters: dict[str, Any]) -> Population[Any]:
    """A population of one agent."""
    if entry.one_agent is None:
        return entry.world.population(num_envs, **parameters)
    own = [name for name, one in inspect.signature(entry.one_agent).parameters.items() if one.kind is one.KEYWORD_ONLY]
    entry.world.check_names(set(parameters) - set(own), own)
    return entry.one_agent(num_envs, **parameters)


def register() -> None:
    """Enter the worlds in Gymnasium's registry and, where PettingZoo has one, in PettingZoo's."""
    for entry in WORLDS:
        known: dict[str, Any] = {"kwargs": {"world": entry.name}}
        if entry.id not in gymnasium.registry:
            single, vector = f"{__name__}:single_env", f"{__name__}:vector_env"
            gymnasium.register(entry.id, single, vector_entry_point=vector, **known)
        if entry.pettingzoo and entry.id not in getattr(pettingzoo, "parallel_registry", {entry.id: None}):
            pettingzoo.register("parallel", entry.id, f"{__name__}:parallel_env", **known)
            pettingzoo.register("aec", entry.id, f"{__name__}:aec_env", **known)
