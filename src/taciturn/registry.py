"""The registry: environments, their ids, and the policies by name."""

import inspect
from collections.abc import Iterable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any

import gymnasium
import pettingzoo

from taciturn.envs import WORLDS as WORLDS
from taciturn.envs.core import (
    AECView,
    Controlled,
    ControlledAgent,
    LevelChoice,
    ParallelView,
    Population,
    SingleEnv,
    VectorView,
    World,
)
from taciturn.envs.core.descriptor import Descriptor, imported
from taciturn.envs.core.level_choice import COMMUNICATOR
from taciturn.envs.core.render import RENDER_MODES
from taciturn.plugins import PluginError, Plugins
from taciturn.validation import UnknownParameter, close, in_any_case, shown, some


class UnknownName(ValueError):  # noqa: N818 - it names what went wrong
    """An unknown name; the message suggests the closest known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        near = close(name, known)
        listed = f" (taciturn list {LISTED[kind]})" if kind in LISTED else ""
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {some(known, name, listed)}"
        super().__init__(f"unknown {kind} {shown(name)}: {hint}")


LISTED = {
    "environment": "environments", "policy": "policies", "mechanism": "mechanisms", "task": "tasks", "study": "studies",
    "figure": "figures",
}  # fmt: skip
"""The names of the kinds in `taciturn list`."""


class Declared(Descriptor):
    """An environment that another package declares, or that is named by import path; it is loaded at its first use."""

    @property
    def id(self) -> str:
        return ANY_WORLD if ":" in self.name else super().id

    @property
    def world(self) -> World[Any, Any, ...]:
        result = WORLD_PLUGINS.find(self.name)
        return result.world if isinstance(result, Descriptor) else result


def controlled_agent(
    world: str,
    num_envs: int = 1,
    *,
    others: Any = None,
    agent: int | str = 0,
    communicators: Any = None,
    **parameters: Any,
) -> Population[Any]:
    """A population of one agent in an environment of many agents with the same role, as in Gymnasium's form; a policy
    plays all others.

    Args:
        world: its name, such as "gossip_bandit_v0".
        num_envs: replicas.
        others: the policy of the other agents, or its name, such as "PPCL".
        agent: the controlled agent: a number, or a name such as "agent_3" or, if agents choose the levels of their
            messages, "communicator_3".
        communicators: the policy that chooses the levels of messages, or its name, such as "ConstantLevel"; with
            `message_levels="chosen"` only.
        **parameters: parameters of the environment.

    Raises:
        ValueError: a policy is missing, there is no such agent, or a parameter is out of range; or replicas would have
            to wait for one another (several replicas of an environment in which agents act one at a time) and the
            policy remembers its agents' actions.
    """
    from taciturn.policies.base import Policy

    population = make_world(world).population(num_envs, **parameters)
    role, *more = population.roles
    alone = population.roles[role].num_agents == 1
    if others is None and not alone:
        raise ValueError(
            f'{world} has many agents: give others="NAME OF A POLICY" to gymnasium.make for the seat of one of them, '
            "or use "
            f"{world}.parallel_env() or .env() for all"
        )
    policy = make_policy(others) if isinstance(others, str) else others
    if (communicators is None) == bool(more):
        wanted = "a policy, as message_levels is 'chosen'" if more else "None unless message_levels is 'chosen'"
        raise ValueError(f"communicators must be {wanted}, not {shown(communicators)}")
    if more:
        played = {
            role: policy,
            COMMUNICATOR: make_policy(communicators) if isinstance(communicators, str) else communicators,
        }
        role = COMMUNICATOR if str(agent).startswith(COMMUNICATOR) else role
        policy = played.pop(role)
    waits = population.some_act and role != COMMUNICATOR
    if more:
        population = Controlled(population, role, played)
        if alone and role != COMMUNICATOR:
            return population
    if agent in (names := population.possible_agents):
        agent = names.index(str(agent))
    if num_envs > 1 and waits and getattr(type(policy), "update", None) is not Policy.update:
        raise ValueError(
            f"others must be a policy without memory in {num_envs} replicas of {world}, not {policy!r}: "
            f'make one replica at a time (vectorization_mode="sync")'
        )
    return ControlledAgent(population, role, agent, {role: policy})  # type: ignore[arg-type]  # which checks the agent


@cache
def own_policies() -> Mapping[str, type[Any]]:
    """`{name: class}` of the policies in `taciturn.policies`."""
    from taciturn import policies as module

    results = {name: getattr(module, name) for name in module.__all__ if name not in ("Learner", "Policy")}
    return MappingProxyType(results)


def _is_policy(found: Any) -> bool:
    from taciturn.policies.base import Policy

    return isinstance(found, type) and issubclass(found, Policy)


WORLD_PLUGINS = Plugins(
    "taciturn.worlds",
    r"[a-z][a-z0-9_]*_v\d+",
    "a taciturn.envs.core.World, or its Descriptor",
    lambda found, _: isinstance(found, World | Descriptor),
    lambda: [world.name for world in WORLDS],
)
POLICY_PLUGINS = Plugins(
    "taciturn.policies",
    r"[A-Za-z]\w*",
    "a subclass of taciturn.policies.Policy",
    lambda found, _: _is_policy(found),
    lambda: own_policies(),
)


def entries() -> list[Descriptor]:
    """The environments of this package and those that others declare, without importing the latter: `rumour_v0` has the
    id `taciturn/Rumour-v0`."""
    return [*WORLDS, *(Declared(name=name) for name in WORLD_PLUGINS.entries)]


def descriptors() -> list[Descriptor]:
    """The descriptors of this package's environments, and of usable ones of other packages."""
    result = WORLD_PLUGINS.load_all()
    return [*WORLDS, *(one if isinstance(one, Descriptor) else Declared(name=name) for name, one in result.items())]


def worlds() -> dict[str, World[Any, Any, ...]]:
    """`{name: environment}`: those of `WORLDS`, and usable ones of other packages."""
    return {descriptor.name: descriptor.world for descriptor in descriptors()}


def make_world(name: str) -> World[Any, Any, ...]:
    """An environment by its name or id, in any case, with or without the version: `round_stopping`,
    `taciturn/RoundStopping-v0`, ...

    An environment that no package declares is named by import path, as `module:name`.

    Raises:
        UnknownName: no environment has this name.
        ValueError: a package's environment cannot be used, or `module:name` is not an environment.
    """
    return entry(name).world


def entry(name: str) -> Descriptor:
    """The descriptor of an environment by name (see `make_world`)."""
    known = entries()
    for one in known:
        short = one.id.removeprefix("taciturn/")
        names = (one.name, one.name.removesuffix("_v0"), one.id, short, short.removesuffix("-v0"))
        if str(name).casefold() in map(str.casefold, names):
            return _loaded(one)
    if ":" in str(name):
        return _loaded(Declared(name=name))
    raise UnknownName("environment", name, [one.name for one in known] + [one.id for one in known])


def _loaded(one: Descriptor) -> Descriptor:
    """The descriptor that a package gives its environment, if any."""
    result = WORLD_PLUGINS.find(one.name) if isinstance(one, Declared) else one
    return result if isinstance(result, Descriptor) else one


def policies() -> dict[str, type[Any]]:
    """`{name: class}` of the policies in `taciturn.policies`, and of usable ones of other packages."""
    return {**own_policies(), **POLICY_PLUGINS.load_all()}


def policy_class(name: str) -> type[Any] | None:
    """The class of policies with that name or `module:Class`; None if there is none, as for a saved agent."""
    try:
        return own_policies().get(name) or POLICY_PLUGINS.find(name)
    except PluginError:
        raise
    except ValueError:
        return None


def make_policy(name: str, **parameters: Any) -> Any:
    """A policy by its class name, or by the name that a package declares for it.

    Raises:
        UnknownName: no policy has this name.
        UnknownParameter: the policy does not take a parameter.
        ValueError: a parameter is out of range, or a package's policy cannot be used.
    """
    own = own_policies()
    name = in_any_case(name, [*own, *POLICY_PLUGINS.entries])
    kind = own.get(name) or POLICY_PLUGINS.find(name)
    if kind is None:
        if "/" in name or "\\" in name:
            raise ValueError(f"policy must name a folder that train wrote, and there is no folder {shown(name)}")
        raise UnknownName("policy", name, [*own, *POLICY_PLUGINS.entries])
    return policy_of(kind, name, parameters)


def policy_of(kind: Any, name: str, parameters: dict[str, Any]) -> Any:
    """A policy of a class. Raises ValueError, with the allowed form, if a parameter is missing or unknown."""
    try:
        return kind(**parameters)
    except UnknownParameter:
        raise
    except TypeError as error:
        if missing := [one for one in needed(kind) if one not in parameters]:
            several = ", ".join(f"{one}=..." for one in missing)
            options = " ".join(f"--set policy.{one}=VALUE" for one in missing)
            raise ValueError(f"{name} needs {' and '.join(missing)}: write {name}({several}), or {options}") from error
        raise ValueError(f"{name} cannot take {shown(parameters)}: {error}") from error


def given(kind: Any) -> list[inspect.Parameter]:
    """The parameters of a class that callers pass by name."""
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in inspect.signature(kind).parameters.values() if parameter.kind not in several]


def needed(kind: Any) -> list[str]:
    """The parameters of a class that have no default."""
    return [one.name for one in given(kind) if one.default is one.empty]


# The standard registries call these functions; `world` is the name of an entry.


def single_env(world: str, render_mode: str | None = None, **parameters: Any) -> SingleEnv:
    """Gymnasium's form of an environment."""
    return SingleEnv(_gymnasium_form(entry(world), 1, parameters), render_mode)


def vector_env(
    world: str, num_envs: int = 1, autoreset_mode: Any = "NextStep", render_mode: str | None = None, **parameters: Any
) -> VectorView:
    """Gymnasium's vector form of an environment."""
    return VectorView(_gymnasium_form(entry(world), num_envs, parameters), autoreset_mode, render_mode)


# `gymnasium.make` derives further modes from these, such as `rgb_array_list` from `rgb_array`.
single_env.metadata = {"render_modes": list(RENDER_MODES)}  # type: ignore[attr-defined]
vector_env.metadata = {"render_modes": ["ansi", "rgb_array"]}  # type: ignore[attr-defined]


def parallel_env(world: str, render_mode: str | None = None, **parameters: Any) -> ParallelView:
    """PettingZoo's Parallel form of an environment."""
    return make_world(world).parallel_env(render_mode, **parameters)


def aec_env(world: str, render_mode: str | None = None, **parameters: Any) -> AECView:
    """PettingZoo's AEC form of an environment."""
    return make_world(world).env(render_mode, **parameters)


def one_agent(world: str, num_envs: int, parameters: Mapping[str, Any]) -> Population[Any]:
    """A population of one role: the environment's own role or, if it has several or `others` are given, the role of its
    Gymnasium form."""
    result = entry(world)
    if result.one_agent is None and "others" not in parameters:
        return result.world.population(num_envs, **parameters)
    return _gymnasium_form(result, num_envs, parameters)


def _gymnasium_form(known: Descriptor, num_envs: int, parameters: Mapping[str, Any]) -> Population[Any]:
    """A population of one agent."""
    make = partial(controlled_agent, known.name) if known.one_agent is None else imported(known.one_agent)
    own = [name for name, one in inspect.signature(make).parameters.items() if one.kind is one.KEYWORD_ONLY]
    plain = {name: value for name, value in parameters.items() if name not in own}
    known.world.check_names(plain, own)
    if known.one_agent is None:
        whole = known.world.population(num_envs, **plain)
        if len(whole.possible_agents) == 1 or (len(whole.roles) > 1 and not isinstance(whole, LevelChoice)):
            known.world.check_names(parameters)
            return whole
    players = {name: _player(parameters.get(name, usual)) for name, usual in known.players.items()}
    return make(num_envs, **{**parameters, **players})


def _player(policy: Any) -> Any:
    """A policy, by its name, or a mixture, by `{name: share}`."""
    from taciturn.policies import Mixture

    if isinstance(policy, str):
        return make_policy(policy)
    if isinstance(policy, Mapping):
        return Mixture([(make_policy(name), share) for name, share in policy.items()])
    return policy


ANY_WORLD = "taciturn/World-v0"
"""The id with a parameter `world` that names any environment, by import path too."""


def register() -> None:
    """Register the environments with Gymnasium and, if its version has a registry, with PettingZoo."""
    if ANY_WORLD not in gymnasium.registry:
        gymnasium.register(ANY_WORLD, f"{__name__}:single_env", vector_entry_point=f"{__name__}:vector_env")
    for entry in entries():
        known: dict[str, Any] = {"kwargs": {"world": entry.name}}
        if entry.id not in gymnasium.registry:
            single, vector = f"{__name__}:single_env", f"{__name__}:vector_env"
            gymnasium.register(entry.id, single, vector_entry_point=vector, **known)
        if entry.id not in getattr(pettingzoo, "parallel_registry", {entry.id: None}):
            pettingzoo.register("parallel", entry.id, f"{__name__}:parallel_env", **known)
            pettingzoo.register("aec", entry.id, f"{__name__}:aec_env", **known)
