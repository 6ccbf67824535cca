"""Additions by other packages: environments, policies, mechanisms and studies, declared as entry points or named by
import path."""

import importlib
import re
import warnings
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from taciturn import current_folder
from taciturn.validation import shown


class PluginError(ValueError):
    """A package's declaration cannot be used; the message names the package and its entry point."""


class PluginWarning(UserWarning):
    """The warning in place of `PluginError` where all declarations are loaded, since the others can be used."""


class Plugins:
    """The declarations of packages in one group of entry points. Objects are imported only on request.

    Args:
        group: "taciturn.worlds", for instance.
        names: a regular expression that names in the group match.
        kind: a description of an object of the group, for messages.
        fits: whether an object, given with its declared name or `module:name`, is of that kind; it may raise ValueError
            to explain why not.
        own: the names that are taken already.
    """

    def __init__(
        self, group: str, names: str, kind: str, fits: Callable[[Any, str], bool], own: Callable[[], Iterable[str]]
    ) -> None:
        self.group, self._names, self._kind, self._fits, self._own = group, names, kind, fits, own
        self._refused: list[str] = []

    @cached_property
    def entries(self) -> dict[str, EntryPoint]:
        """`{name: entry point}`: the first of each name that is not taken, in the order of the packages' names."""
        results: dict[str, EntryPoint] = {}
        declared = [*installed().select(group=self.group)]
        taken = set(self._own()) if declared else set()
        for entry in sorted(declared, key=_package):
            if entry.name in taken:
                self._refused.append(self._printed(entry, "has a name that is taken already"))
            elif not re.fullmatch(self._names, entry.name):
                self._refused.append(self._printed(entry, f"has a name that does not match {self._names}"))
            else:
                taken.add(entry.name)
                results[entry.name] = entry
        return results

    def find(self, name: str) -> Any:
        """The object that is declared under a name, or that `module:name` names; None if `name` is neither.

        Raises:
            PluginError: a declared object cannot be imported or is of another kind.
            ValueError: there is nothing at `module:name`, or it is of another kind.
        """
        if name in self.entries:
            return self._load(self.entries[name])
        if ":" not in name:
            return None
        result = imported(name)
        if not self._fits(result, name):
            raise ValueError(f"{name} must be {self._kind}, and is {shown(result)}")
        return result

    def load_all(self) -> dict[str, Any]:
        """`{name: object}` of all that can be used; a `PluginWarning` for each that cannot."""
        result, broken = {}, []
        for name, entry in self.entries.items():
            try:
                result[name] = self._load(entry)
            except PluginError as error:
                broken.append(str(error))
        for said in [*self._refused, *broken]:
            warnings.warn(said, PluginWarning, stacklevel=2)
        return result

    def _load(self, entry: EntryPoint) -> Any:
        try:
            result = entry.load()
        except Exception as error:
            text = " ".join(str(error).split()) or "no reason given"
            raise PluginError(self._printed(entry, f"cannot be imported: {type(error).__name__}: {text}")) from error
        try:
            fits = self._fits(result, entry.name)
        except ValueError as error:
            raise PluginError(self._printed(entry, f"cannot be used: {error}")) from error
        if not fits:
            raise PluginError(self._printed(entry, f"must be {self._kind}, and is {shown(result)}"))
        return result

    def _printed(self, entry: EntryPoint, what: str) -> str:
        return f"package {_package(entry)}: entry point {entry.name!r} = {entry.value!r} in {self.group} {what}"


@cache
def installed() -> Any:
    """`EntryPoints` of all installed packages."""
    return entry_points()


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "(unknown)"


def imported(path: str) -> Any:
    """The object that `module:name` names. On the command line, the module may lie in the current folder.

    Raises:
        ValueError: there is no such module, or it has no such name.
    """
    module, _, name = path.partition(":")
    if not module or module.startswith("."):
        raise ValueError(f"module:name must begin with the whole name of a module, not {shown(path)}")
    if current_folder.searched:
        current_folder.look()
    try:
        result: Any = importlib.import_module(module)
        for part in name.split("."):
            result = getattr(result, part)
    except ImportError as error:
        if (error.name or "").split(".")[0] != module.split(".")[0]:
            raise
        raise ValueError(f"there is no module {shown(module)}{current_folder.hidden(module)}") from error
    except AttributeError as error:
        raise ValueError(
            f"module:name must be a name that the module has, not {shown(path)}: {shown(str(error))}"
            f"{current_folder.hidden(module)}"
        ) from error
    return result
