"""The current folder, which may hold files of other people: nothing in it is run or read as settings, except modules
that `module:name` asks for."""

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

searched = False
"""Whether `module:name` may name a module of the current folder; the command line sets it."""


class Modules:
    """Finds modules in the current folder. It comes after all other finders and leaves `sys.path` unchanged, so
    installed modules come first, and packages declared in the folder are no plugins."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [""]) if path is None else None


def look() -> None:
    """From now on, modules that are found nowhere else are imported from the current folder."""
    if not looked():
        sys.meta_path.append(Modules)


def looked() -> bool:
    """Whether modules are searched for in the current folder."""
    return Modules in sys.meta_path


def hidden(module: str) -> str:
    """A note on a module of the current folder that an installed one hides; empty if there is none."""
    name = module.partition(".")[0]
    own = PathFinder.find_spec(name, [""]) if searched else None
    file = getattr(sys.modules.get(name), "__file__", None)
    if own is None or own.origin is None or own.origin == file:
        return ""
    return f" (the installed module {name} comes before {Path(own.origin).name} of the current folder: rename the file)"


def library(name: str, file: str) -> Any:
    """A library, imported without settings from the current folder. Raises ImportError."""
    if name in sys.modules or not Path(file).exists():
        return import_module(name)
    with contextlib.chdir(Path(__file__).parent):
        return import_module(name)


def settle() -> None:
    """Import matplotlib now if it would later read settings in the current folder: those can call LaTeX."""
    if Path("matplotlibrc").exists():
        with contextlib.suppress(ImportError):
            library("matplotlib", "matplotlibrc")


def numba() -> Any:
    """Numba, without settings of the current folder: they can name a cache of compiled code. Raises ImportError."""
    first = "numba" not in sys.modules
    result = library("numba", ".numba_config.yaml")
    if first:
        result.core.config._config_fname = os.devnull  # the file would be read again at each compilation
    return result
