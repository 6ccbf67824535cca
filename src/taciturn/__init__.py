"""Environments in which agents learn together without telling each other what they know."""

from taciturn import starting  # isort: skip # noqa: F401 - before all others
from taciturn.registry import UnknownName, register
from taciturn.simulation import Run, simulate

__version__ = "0.1.0"
__all__ = ["Run", "UnknownName", "__version__", "simulate"]

register()
