"""Compiled loops: Numba makes their machine code once; it is stored on disk and loaded from there without Numba."""

import ctypes
import hashlib
import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from taciturn.compiling.tables import Table
from taciturn.current_folder import numba
from taciturn.validation import Array

# (address of the result, address of an error, address of a table) -> status; the GIL is released.
SIGNATURE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
FINE = (0, -2)  # statuses of Numba's functions that raise nothing
INLINED = ("mem", "lifetime", "assume", "sqrt", "fabs", "abs", "smax", "smin", "umax", "umin", "floor", "ceil", "trunc")
KERNELS: dict[str, "Kernel"] = {}  # by the texts that they were made from


class Kernel:
    """Machine code of a function that takes the address of a table (`taciturn.compiling.tables`). It lives as long as
    the process."""

    def __init__(self, code: bytes, name: str) -> None:
        self._engine = llvm().create_mcjit_compiler(llvm().parse_assembly(""), machine())
        self._engine.add_object_file(llvm().ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.function = SIGNATURE(self._engine.get_function_address(name))

    def __call__(self, table: Table) -> None:
        if self.function(table.returned, table.error, table.address) not in FINE:
            failed()


def failed() -> NoReturn:
    raise ArithmeticError(
        "a compiled function divided by zero or raised another error; with TACITURN_COMPILE=0 it says where"
    )


class Loop:
    """A kernel with a table for each thread."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._tables: dict[int, Table] = {}
        self._bound: list[Any] = []

    def __call__(self, given: Any, thread: int = 0) -> None:
        table = self._tables.get(thread)
        if table is None:
            table = self._tables[thread] = Table(given)
        else:
            table.enter(given)
        self._kernel(table)

    def bound(self, given: Any) -> tuple[Array, Callable[[], int]]:
        """The kernel with `given`, a NamedTuple with arrays at fixed addresses: (the words of its table, a function
        that plays and returns a status; see `FINE`)."""
        table = Table(given)
        self._bound.append((table, given))  # they live as long as this
        return table.words, partial(self._kernel.function, table.returned, table.error, table.address)


def llvm() -> Any:
    return import_module("llvmlite.binding")


@cache
def processor() -> tuple[str, str]:
    """The name and the features of this machine's processor."""
    return llvm().get_host_cpu_name(), llvm().get_host_cpu_features().flatten()


def machine() -> Any:
    """The target machine of LLVM, for this machine's processor; a new one for each engine, since engines delete
    theirs."""
    llvm().initialize_native_target()
    llvm().initialize_native_asmprinter()
    target = llvm().Target.from_triple(llvm().get_process_triple())
    name, features = processor()
    return target.create_target_machine(cpu=name, features=features, opt=3, codemodel="jitdefault", jit=True)


@cache
def libm() -> Any:
    """The mathematical functions of C that Python's module `math` calls."""
    return ctypes.CDLL(getattr(math, "__file__", None))


def folder() -> Path:
    """The folder of stored code: the environment variable `TACITURN_CACHE`, or the user's folder for caches."""
    if asked := os.environ.get("TACITURN_CACHE"):
        return Path(asked)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "taciturn" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "taciturn"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taciturn"


@cache
def maker() -> str:
    """Everything that code depends on, apart from the text that it is made from."""
    sources = [Path(__file__).with_name(name).read_bytes() for name in ("kernels.py", "tables.py", "typing_tables.py")]
    versions = [version(name) for name in ("llvmlite", "numba", "numpy")]
    return repr((hashlib.sha256(b"".join(sources)).hexdigest(), versions, sys.version_info[:2], processor()))


def file_of(text: str) -> Path:
    return folder() / f"{hashlib.sha256((maker() + text).encode()).hexdigest()[:32]}.code"


def loaded(text: str) -> Kernel | None:
    """The kernel made from that text, by this process or an earlier one; None if there is none."""
    if text in KERNELS:
        return KERNELS[text]
    try:
        head, _, code = file_of(text).read_bytes().partition(b"\n")
        known = json.loads(head)
        if known["sha256"] == hashlib.sha256(code).hexdigest() and resolved(known["needs"]):
            KERNELS[text] = Kernel(code, known["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return KERNELS.get(text)


def kept(text: str, code: bytes, **known: Any) -> None:
    """Store code on disk, completely or not at all. If that is impossible, the next process compiles it again."""
    place = file_of(text)
    head = json.dumps(known | {"sha256": hashlib.sha256(code).hexdigest()})
    part = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            part = Path(file.name)
            file.write(head.encode() + b"\n" + code)
        part.replace(place)
    except OSError:
        with suppress(OSError):
            if part is not None:
                part.unlink()


def resolved(needs: list[str]) -> bool:
    """Whether these functions, which code calls, are or can be loaded in this process."""
    for name in needs:
        if not llvm().address_of_symbol(name) and hasattr(libm(), name):
            llvm().add_symbol(name, ctypes.cast(getattr(libm(), name), ctypes.c_void_p).value)
    if not all(map(llvm().address_of_symbol, needs)):  # Numba loads its own
        numba()
        import_module("numba.core.registry").cpu_target.target_context.refresh()
    return all(map(llvm().address_of_symbol, needs))


@cache
def keep_checks_inside() -> None:
    """Make LLVM check before each inner loop whether arrays overlap, and not once for the loops around it.

    Agents' observations lie in one array, so a single check for all agents would find that they overlap.
    """
    if llvm().llvm_version_info >= (18, 0, 0):  # earlier ones lack the option
        llvm().set_option("taciturn", "--hoist-runtime-checks=false")


def made(text: str, function: Any, counting: bool) -> Kernel:
    """Compile a function of a table's address, and store its code under `text`.

    Args:
        counting: whether functions make arrays, and therefore need reference counting, which takes longer than a turn.
    """
    kind = numba().types.int64
    keep_checks_inside()
    dispatcher = numba().njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=counting)(function)
    with only_the_text(function):
        dispatcher.compile((kind,))
        result = dispatcher.overloads[kind,]
        module = llvm().parse_assembly(result.library.get_llvm_str())
    name, needs = result.fndesc.llvm_func_name, sorted({*filter(None, map(called, module.functions))})
    code = machine().emit_object(module)
    kept(text, code, name=name, needs=needs)
    if not resolved(needs):
        raise TypeError(f"compiled functions may not call {', '.join(needs)}")
    KERNELS[text] = Kernel(code, name)
    return KERNELS[text]


def called(function: Any) -> str:
    """The name by which code finds an LLVM function that it does not contain; empty if it contains it."""
    if not function.is_declaration:
        return ""
    _, _, intrinsic = function.name.partition("llvm.")
    if not intrinsic:
        return str(function.name)
    base = intrinsic.split(".")[0]
    return "" if base.startswith(INLINED) or not hasattr(libm(), base) else base


@contextmanager
def only_the_text(function: Any) -> Iterator[None]:
    """Context in which Numba makes the code of a function but loads none, and optimises callees only as part of it;
    this halves the time.

    It replaces methods of Numba that are not public; a version without them compiles more slowly.
    """
    codegen = import_module("numba.core.codegen")
    library, loads, target = codegen.CPUCodeLibrary, codegen.JITCodeLibrary, codegen.JITCPUCodegen
    optimise: Any = getattr(library, "_optimize_final_module", None)
    changes = {
        (library, "_optimize_final_module"): lambda self: (
            optimise(self) if self.name == function.__qualname__ else None
        ),
        (loads, "_finalize_specific"): lambda self: None,
        (loads, "get_pointer_to_function"): lambda self, name: self._ensure_finalized() or 0,
        (target, "_add_module"): lambda self, module: None,
        (target, "set_env"): lambda self, name, env: None,
    }
    with import_module("numba.core.compiler_lock").global_compiler_lock:
        before = {place: getattr(*place) for place in changes if hasattr(*place)}
        try:
            for place, change in changes.items() if before.keys() == changes.keys() else ():
                setattr(*place, change)
            yield
        finally:
            for place, was in before.items():
                setattr(*place, was)


@cache
def announce(world: str) -> None:
    """Say, once for each world, that the process is about to compile."""
    logging.getLogger("taciturn").warning(
        "compiling %s: some seconds, stored for later runs ('taciturn compile' does it beforehand)", world
    )
