"""What other packages add: worlds, policies, mechanisms and studies that they declare as entry points, or that are named by import path."""

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

__all__ = ["GROUPS", "declared", "imported", "load", "load_all"]

GROUPS = ("taciturn.worlds", "taciturn.policies", "taciturn.mechanisms", "taciturn.studies")


@cache
def declared(group: str) -> dict[str, EntryPoint]:
    """`{name: entry point}` of all that installed packages declare in a group."""
    return {one.name: one for one in entry_points(group=group)}


def load(group: str, name: str) -> Any:
    """What a package declares under a name.

    Raises:
        ImportError: it cannot be imported; the message names the package.
    """
    entry = declared(group)[name]
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist else "an installed package"
        raise ImportError(f"{name} of {package} ({entry.value}) cannot be imported: {error}") from error


def load_all(group: str) -> dict[str, Any]:
    """`{name: object}` of all that packages declare in a group."""
    return {name: load(group, name) for name in declared(group)}


def imported(path: str) -> Any:
    """The object that `module:name` names.

    Raises:
        ValueError: there is no such module, or it has no such name.
    """
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ImportError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise
        raise ValueError(f"{path!r} must be module:name, and there is no module {module!r}") from error
    except AttributeError as error:
        raise ValueError(f"{path!r} must be module:name with a name that the module has: {error}") from error
    return found
