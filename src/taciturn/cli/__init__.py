"""The command line: `taciturn list | show | run | train | logged | bench | reproduce | gather | report | audit`."""

import gc
import os
import re
import sys
import threading
import warnings
from typing import NoReturn

from taciturn import current_folder
from taciturn.files import at_home
from taciturn.starting import interruptible

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
LONGEST = 690
"""The largest length of an error message."""
NUMBER = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*)[ =:](\d+(?:\.\d+)?(?:e\+?\d+)?)\b")
"""A parameter of a command line, and its number."""

HOME = re.compile(r"\A(--[\w-]+=)?~(?=[/\\])")
"""Matches arguments such as --out=~/results, which shells leave unchanged."""


def main() -> None:
    """Entry point. Every error is one line on stderr and a non-zero exit code; `--debug` shows the traceback."""
    arguments = sys.argv[1:] = [HOME.sub(_at_home, argument) for argument in sys.argv[1:]]
    os.environ["MPLBACKEND"] = "agg"  # figures go to files, and a notebook's own backend may not be installed here
    warnings.formatwarning = lambda message, *_: f"taciturn: {message}\n"
    _open_streams()
    current_folder.searched = True
    current_folder.settle()
    debug = "--debug" in arguments
    if sys.stderr.isatty():
        # Importing learners can take seconds; the next output overwrites this line.
        starting = threading.Timer(1.0, lambda: print("starting", end="\r", file=sys.stderr, flush=True))
        starting.daemon = True
        starting.start()
    try:
        import rich  # noqa: F401
        import typer
    except ImportError as error:
        _fail(f"the command line needs {error.name}: run pip install '.[bench]' in a clone of taciturn", EXIT_FAILED)
    try:
        from taciturn.cli.app import app

        gc.freeze()  # imported modules stay: searching them for garbage takes a fifth of the time of `taciturn list`
        command = typer.main.get_command(app)
        interruptible()
        code = command([a for a in arguments if a != "--debug"], prog_name="taciturn", standalone_mode=False)
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(EXIT_FAILED)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a command without arguments
            print(error.format_message())  # type: ignore[attr-defined]
            sys.exit(0)
        if hasattr(error, "format_message"):
            asked = getattr(getattr(error, "ctx", None), "command_path", "taciturn")
            _fail(f"{error.format_message()} (see {asked} --help)", EXIT_USAGE)
        if debug:
            raise
        known = isinstance(error, ValueError | ImportError | OSError) or type(error).__module__.startswith("taciturn.")
        text = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and error.filename and error.strerror:
            text = f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}"
        if isinstance(error, MemoryError):
            _fail(_too_large(arguments, text), EXIT_FAILED)
        _fail(text if known else f"{type(error).__name__}: {text} (--debug shows where)", EXIT_FAILED)
    sys.exit(code or 0)


def _at_home(found: re.Match[str]) -> str:
    return f"{found[1] or ''}{at_home('~')}"


def _open_streams() -> None:
    """Open the standard streams that the caller has closed, to keep other files from getting their numbers, and print
    characters that an encoding lacks as `?`."""
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(free)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") in ("strict", "surrogateescape") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _too_large(arguments: list[str], text: str) -> str:
    """The message if memory does not suffice, most likely because of the largest number of the command."""
    numbers = NUMBER.findall(" ".join(arguments))
    if not numbers:
        return f"memory does not suffice: {text}"
    name, number = max(numbers, key=lambda one: float(one[1]))
    return f"{name} must be small enough for the memory of this machine, not {number}: {text}"


def _fail(text: str, code: int) -> NoReturn:
    # Names from files and other people may hold control sequences of terminals.
    told = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    told = told if len(told) <= LONGEST else f"{told[: LONGEST - 25]}... (--debug shows all)"
    print(f"taciturn: {told}", file=sys.stderr)
    sys.exit(code)
