"""Multi-agent environments for collaborative learning under differential privacy."""

from taciturn import starting  # isort: skip # noqa: F401 - before all others
from importlib import import_module
from typing import Any

from taciturn.registry import UnknownName, register
from taciturn.simulation import Run, simulate

__version__ = "0.1.0"
__all__ = ["Run", "UnknownName", "__version__", "simulate"]
ROOMS = ("bench", "envs", "logged", "policies", "privacy", "testing", "wrappers")

register()


def __getattr__(name: str) -> Any:
    """The subpackages, imported at their first use."""
    if name in ROOMS:
        return import_module(f"taciturn.{name}")
    raise AttributeError(f"module 'taciturn' has no attribute {name!r}")
