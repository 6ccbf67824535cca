"""The objects that arguments name: parameters, policies, mechanisms, and the population in which policies act."""

from collections.abc import Callable
from typing import Any

from taciturn import registry
from taciturn.agents import bring
from taciturn.mechanism_names import parse_mechanism, parsed
from taciturn.registry import UnknownName, make_world
from taciturn.validation import shown as spelled


def pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    """`{key: text}` from `key=text`."""
    found: dict[str, str] = {}
    for entry in texts or []:
        key, equals, text = entry.partition("=")
        if not equals or not key:
            raise ValueError(f"{option} must be key=value, not {spelled(entry)}")
        found[key] = text
    return found


def entries(option: str, texts: list[str]) -> dict[str, Any]:
    """`{key: value}` from `key=value`; values are JSON if they parse as such, else text."""
    known: dict[str, Any] = {}
    for key, text in pairs(option, texts).items():
        try:
            known[key] = parsed(text)
        except ValueError as error:
            raise ValueError(f"{option} {key}: {error}") from error
    return known


def split_settings(settings: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The policy's and the world's parameters from `policy.key=value` and `key=value`."""
    known = entries("--set", settings or [])
    own = {key.removeprefix("policy."): value for key, value in known.items() if key.startswith("policy.")}
    return own, {key: value for key, value in known.items() if not key.startswith("policy.")}


def actors(policy: str, own: dict[str, Any], roles: list[str]) -> Any:
    """A policy from its name, or `{role: policy}` from `ROLE=NAME,ROLE=NAME` with parameters named `ROLE.parameter`."""
    pieces = (part.partition("=") for part in policy.split(",") if "=" in part)
    named = {role.strip(): name.strip() for role, _, name in pieces}
    if len(roles) == 1 and not set(named) & set(roles):
        return bring(policy, **own)
    if not named:
        wanted = ",".join(f"{role}=NAME" for role in roles)
        raise ValueError(f"--policy must name a policy for each role, {wanted}, not {policy!r}")
    for key in own:
        if key.partition(".")[0] not in named:
            raise ValueError(f"--set policy.{key} must name a role, one of {', '.join(named)}, before the parameter")
    return {role: bring(name, **_of(role, own)) for role, name in named.items()}


def policies_by_name(names: str, settings: list[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """`{name: policy}` from names with commas between them, and the environment's parameters, from `key=value`."""
    own, others = split_settings(settings)
    asked = list(dict.fromkeys(filter(None, map(str.strip, names.split(",")))))
    if not asked:
        raise ValueError(f"--policy must name policies, with commas between them, not {names!r}")
    if len(asked) == 1:
        own = {key if key.startswith(f"{asked[0]}.") else f"{asked[0]}.{key}": value for key, value in own.items()}
    for key in own:
        if not any(key.startswith(f"{name}.") for name in asked):
            raise ValueError(f"--set policy.{key} must name a policy, one of {', '.join(asked)}, before the parameter")
    return {name: bring(name, **_of(name, own)) for name in asked}, others


def _of(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a role or policy, from `{name.parameter: value}`."""
    return {key.removeprefix(f"{name}."): value for key, value in parameters.items() if key.startswith(f"{name}.")}


def population_of(
    env: str, policy: str, settings: list[str] | None
) -> tuple[Callable[[int], Any], Any, dict[str, Any]]:
    """A function that makes a population of so many replicas, the policies, and the parameters from `key=value`."""
    own, others = split_settings(settings)
    if "num_envs" in others:
        raise ValueError("--set num_envs has no effect here: --runs sets the number of replicas")

    def make(replicas: int) -> Any:
        try:
            return make_world(env).population(replicas, **others)
        except TypeError as error:
            raise ValueError(f"{env} cannot take {spelled(others)}: {error}") from error

    actor = actors(policy, own, list(make(1).roles))
    return make, actor, others | {f"policy.{key}": value for key, value in own.items()}


def task_named(name: str) -> str:
    """The id of a task from any spelling: with or without taciturn/ and the version, by the environment's name or id,
    in any case. A text without an environment's name is returned unchanged. Raises UnknownName if the environment has
    no such task."""
    from taciturn.bench.tasks import TASKS

    plain, at, total = name.partition("@")
    world, slash, task = plain.rpartition("/")
    if not slash:
        return name
    try:
        found = f"{registry.entry(world).id}/{task.casefold()}{at}{total}"
    except ValueError:
        return name
    if found not in TASKS:
        raise UnknownName("task", name, [one for one in TASKS if one.startswith(found.rpartition("/")[0])])
    return found


def any_declares(actor: Any, name: str) -> bool:
    """Whether any of the policies declares this of itself."""
    return any(getattr(one, name, False) for one in (actor.values() if isinstance(actor, dict) else [actor]))


def mechanisms_of(text: str, channels: list[str]) -> dict[str, Any] | str:
    """`{channel: mechanism}` from `[CHANNEL=]MECHANISM:EPSILON...`; "paper" is returned unchanged."""
    if text == "paper":
        return text
    first, equals, rest = text.partition("=")
    if channels and equals and first.isidentifier():
        if first not in channels:
            raise UnknownName("channel", first, channels)
        return {first: parse_mechanism(rest)}
    if len(channels) != 1:
        raise ValueError(
            "--privacy must name a channel (CHANNEL=...) if there is not exactly one, and the channels are "
            f"{channels or 'none'}"
        )
    return {channels[0]: parse_mechanism(text)}
