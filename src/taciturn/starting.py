"""The first steps of the command line, before other imports: `taciturn/__init__.py` imports this first."""

import os
import sys

as_module = sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)].endswith("taciturn")
if as_module and not sys.flags.safe_path:
    del sys.path[0]  # `python -m taciturn` has put the current folder first, which may have modules of these names

import signal  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402


def end(*_: Any) -> None:
    """End without a traceback: an interrupted import would print one, or be taken for a missing module."""
    os._exit(130)


def interruptible() -> None:
    """From now on, Ctrl-C raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


command = as_module or Path(*sys.argv[:1]).stem == "taciturn"
if command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end)
