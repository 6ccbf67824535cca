"""Environments in which agents learn together without telling each other what they know."""

import sys

if sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("taciturn") and not sys.flags.safe_path:
    # `python -m taciturn` has put the current folder first, and modules of ours are imported next.
    del sys.path[0]

from taciturn.registry import UnknownName, register
from taciturn.simulation import Run, simulate

__version__ = "0.1.0"
__all__ = ["Run", "UnknownName", "__version__", "simulate"]

register()
