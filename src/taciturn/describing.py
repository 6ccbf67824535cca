"""The output of `taciturn show`: the facts about an environment, policy, mechanism or study, by its name."""

import inspect
from typing import Any, NamedTuple

import numpy as np

from taciturn.envs.core import Population, World
from taciturn.mechanism_names import named_mechanisms
from taciturn.policies import Learner
from taciturn.registry import UnknownName, entry, given, make_world, needed, policies, worlds
from taciturn.terminal import aligned, window
from taciturn.validation import in_any_case


class Description(NamedTuple):
    """The facts about an environment, policy or mechanism."""

    name: str
    parameters: list[tuple[str, str]]
    facts: list[tuple[str, str]]
    documentation: str

    def __str__(self) -> str:
        heading = ["", "Parameters, with their defaults"] if self.parameters else []
        rows = [self.name, *self.facts, *heading, *self.parameters, "", self.documentation.replace("`", "")]
        return aligned(rows, indent=2, width=window())

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        facts = {"called" if key == "name" else key: value for key, value in self.facts}
        return {"name": self.name, **facts, "parameters": dict(self.parameters), "documentation": self.documentation}


def described(name: str) -> Description:
    """The facts about a name: parameters with their defaults, and the documentation; for an environment also metrics,
    channels and policies.

    Raises:
        UnknownName: nothing has this name.
    """
    try:
        world = make_world(name)
    except UnknownName:
        pass
    else:
        return _world(entry(name).id, world)
    known = policies() | named_mechanisms()
    name = in_any_case(name, known)
    if name not in known:
        raise UnknownName("environment, policy or mechanism", name, [*worlds(), *known])
    kind = known[name]
    return Description(name, parameters(kind), [], inspect.getdoc(kind) or "")


def _world(id_: str, world: World[Any, Any, ...]) -> Description:
    population = world.population()
    roles = population.roles.values()
    channels = [f"{channel.name}, sent by {channel.sender}" for channel in population.channels.values()]
    facts = [
        ("name", f"{world.name}_v0: taciturn.envs.{world.name}_v0, taciturn run {world.name}"),
        ("agents", ", ".join(f"{role.num_agents:,} x {role.name}" for role in roles)),
        ("observation", "; ".join(f"{role.name}: Box [{role.layout.size}], {role.layout.named}" for role in roles)),
        ("action", "; ".join(f"{role.name}: {role.action_space}" for role in roles)),
        ("horizon", f"{population.params.horizon:g} (unit: {population.clock_unit})"),
        ("channels", "; ".join(channels) or "none"),
        ("policies", "; ".join([*by_role(world), "and learners, which train first (taciturn list policies)"])),
        ("metrics", " ".join((inspect.getdoc(type(population).outcome) or "").replace("`", "").split())),
    ]
    defaults = [(name, repr(getattr(population.params, name))) for name, _ in parameters(world.Params)]
    return Description(id_, defaults, facts, inspect.getdoc(type(population)) or "")


def by_role(world: World[Any, Any, ...], quote: str = "") -> list[str]:
    """The policies that fit, as a text for each role of the environment; it names the role if there are several."""
    results = {role: ", ".join(f"{quote}{name}{quote}" for name in names) for role, names in fitting(world).items()}
    return [f"as {role}: {names}" if len(results) > 1 else names for role, names in results.items()]


def fitting(world: World[Any, Any, ...]) -> dict[str, list[str]]:
    """The policies that act in each role of an environment, as `Name` or `Name(required parameters)`; without learners,
    which would have to train."""
    population = world.population()
    observation, _ = population.reset(seed=0)
    results: dict[str, list[str]] = {role: [] for role in population.roles}
    for name, kind in policies().items():
        if issubclass(kind, Learner):
            continue
        required = needed(kind)
        for role, names in results.items():
            if any(_acts(population, observation, kind, dict.fromkeys(required, value), role) for value in (1, 0.5)):
                names.append(f"{name}({', '.join(required)})" if required else name)
    return results


def _acts(population: Population[Any], observation: Any, kind: Any, parameters: dict[str, Any], role: str) -> bool:
    """Whether a policy begins in this role, and gives a valid first action if it is the role's turn."""
    try:
        policy = kind(**parameters)
        policy.reset(population.view(policy), np.random.default_rng(0), role)
        if role in population.turn:
            seen = observation if len(population.roles) == 1 else observation[role]
            mask = population.action_mask(role)
            population.roles[role].check(policy.act(seen, mask), (population.num_envs, population.rows(role)))
    except (ValueError, TypeError, LookupError, AttributeError):
        return False
    return True


def parameters(kind: Any) -> list[tuple[str, str]]:
    """Names and defaults of the parameters of a policy or mechanism, or of an environment's parameters."""
    return [(one.name, "required" if one.default is one.empty else repr(one.default)) for one in given(kind)]
