"""Worlds that are written for one replica: plain functions of numbers, which Numba compiles and the core loops over
replicas.

The same functions also run uncompiled, with the same bits: in short runs, which end before a compiler has started;
where Numba is missing; and under `TACITURN_COMPILE=0`, for debugging.
"""

import dis
import hashlib
import os
import re
import warnings
from collections import namedtuple
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, get_type_hints

import numpy as np

from taciturn.current_folder import numba
from taciturn.envs.core import counter_streams
from taciturn.envs.core.fields import unseen
from taciturn.validation import Array, Bools, Floats, Ints

# Turns of a replica that a world plays uncompiled first: a tenth of the time that compiling takes.
COMPILE_FROM = 20_000
DTYPES: Mapping[Any, Any] = {Ints: np.int64, Floats: np.float64, Bools: np.bool_}


class NotCompiled(UserWarning):
    """A world plays uncompiled, because Numba is missing or cannot compile one of its functions."""


# The loops. They call the functions of a world by these names, which `rebound` binds to them.

BEGIN, SAY, HEAR, LOOK, TELL = 1, 2, 4, 8, 16


def _of_the_world(*arguments: Any) -> Any:
    raise NotImplementedError


own = begin = said = heard = sight = known = observe = tell = one = _of_the_world


def begins_not(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Placeholder for `begin` in the loop of a turn after which no run begins."""


def private(agent: int, drawn: Any) -> Any:
    """What an agent privately observes: here, what was drawn.

    A world passes all such numbers through this function; an audit puts another in its place (`Replicas.private`).
    """
    return drawn


def take(rows: Any, i: int) -> Any:
    """The numbers of a replica, to be read and written: when compiled, the row itself."""
    return SimpleNamespace(**dict(zip(rows.dtype.names, rows[i].item(), strict=True)))


def keep(rows: Any, i: int, state: Any) -> None:
    """Write back what `take` gave."""
    rows[i] = tuple(vars(state).values())


def run(
    what: int,
    live: Any,
    rows: Any,
    arrays: Any,
    actions: Any,
    params: Any,
    rngs: Any,
    reward: Any,
    over: Any,
    who: Any,
    bounds: Any,
    seen: Any,
    none: Any,
    told: Any,
) -> None:
    """As the bits of `what` say, begin or play in the replicas that are `live`, then observe and tell in all.

    The agents numbered in `who` [B, r] observe; if it is empty, all do.
    """
    for i in range(len(rows)):
        state, mine = take(rows, i), own(arrays, i)
        if what & SAY:
            for row in range(reward.shape[1]):
                reward[i, row] = 0.0
        if live[i]:
            if what & BEGIN:
                begin(state, mine, params, rngs[i])
            if what & SAY:
                said(state, mine, actions[i], params, rngs[i])
            if what & HEAR:
                over[i, 0], over[i, 1] = heard(state, mine, params, rngs[i], reward[i])
            keep(rows, i, state)
        if what & LOOK:
            for row in range(seen.shape[1]):
                out = seen[i, row]
                observe(sight(state, mine, who[i, row] if len(who) > 0 else row), known(params), out)
                for d in range(len(out)):
                    out[d] = max(bounds[0, d], min(bounds[1, d], out[d]))
        if what & TELL:
            told[i] = none[0]
            info = take(told, i)
            tell(state, mine, params, info)
            keep(told, i, info)


def every(live: Any, rows: Any, arrays: Any, params: Any, rngs: Any) -> None:
    """Call a function in each of the replicas that are `live`."""
    for i in range(len(rows)):
        if live[i]:
            state = take(rows, i)
            one(state, own(arrays, i), params, rngs[i])
            keep(rows, i, state)


LOOPS = (run, every)
SHARED = {run: (0, 5, 10, 12), every: (3,)}  # the places of the arguments that are not of single replicas


# Compiling.


def rebound(function: Any, scope: dict[str, Any]) -> Any:
    """The function with these globals."""
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


def uses(function: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The globals that a function refers to: a loop takes all that it can from `known`, other functions only
    `private`."""
    scope, names = function.__globals__, function.__code__.co_names
    if function not in LOOPS:
        known = {"private": known["private"]} if "private" in known and scope.get("private") is private else {}
    scope = scope | dict(known)
    return {name: scope[name] for name in names if name in scope}


def described(function: Any, known: Mapping[str, Any], found: dict[int, str]) -> str:
    """A text that changes when the function, or anything that it refers to, does."""
    if id(function) not in found:
        found[id(function)] = function.__qualname__
        code = function.__code__
        parts = [repr((code.co_code, code.co_consts, code.co_names, code.co_varnames))]
        for name, value in sorted(uses(function, known).items()):
            text = described(value, known, found) if isinstance(value, FunctionType) else repr(value)
            parts.append(f"{name}={text}")
        found[id(function)] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return found[id(function)]


# Most kernels make no arrays, so they need no reference counting, which takes longer than a turn.
COUNTING = ", with arrays of its own"
OPTIONS = {"_nrt": False, "no_cfunc_wrapper": True, "nogil": True}


def loops(function: Any) -> bool:
    return any(one.opname.startswith("JUMP_BACKWARD") for one in dis.get_instructions(function))


def bare(inline: str = "never", counting: bool = False) -> Any:
    """Compiles functions that Python never calls, without wrappers that convert arguments: these would double the
    compile time."""
    forced = inline == "never"
    return numba().njit(no_cpython_wrapper=True, inline=inline, forceinline=forced, **OPTIONS | {"_nrt": counting})


@cache
def machine_code() -> dict[str, Any]:
    """Replacements for the functions that cannot be compiled from their source."""
    types, extending = numba().types, import_module("numba.extending")

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def wide_product(context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            ir: Any = import_module("llvmlite.ir")
            long, short = ir.IntType(128), ir.IntType(64)
            product = builder.mul(builder.zext(values[0], long), builder.zext(values[1], long))
            parts = builder.trunc(builder.lshr(product, ir.Constant(long, 64)), short), builder.trunc(product, short)
            return context.make_tuple(builder, signature.return_type, parts)

        kind = types.uint64
        return types.UniTuple(kind, 2)(kind, kind), generate

    return {
        "wide": bare()(lambda a, b: wide_product(np.uint64(a), np.uint64(b))),
        "plus": bare()(lambda a, b: np.uint64(a) + np.uint64(b)),
        "take": bare()(lambda rows, i: rows[i]),
        "keep": bare()(lambda rows, i, state: None),
    }


MADE: dict[tuple[str, str], Any] = {}  # compiled functions, by the sources of the loop and of the function


def callee(function: Any, known: Mapping[str, Any], machine: Mapping[str, Any], loop: str) -> Any:
    """A function that others call, compiled with all that it calls.

    Each loop gets its own copies: Numba would otherwise pass the state of one world to code compiled for the shorter
    state of another.
    """
    if function.__module__ in (__name__, counter_streams.__name__) and function.__name__ in machine:
        return machine[function.__name__]
    text = loop, described(function, known, {})
    if text not in MADE:
        # Every function is inlined into its callers, by Numba or (if it has a loop) by LLVM: passing all arrays and
        # parameters of a world takes longer than most functions run.
        compiler = bare("never" if loops(function) else "always", loop.endswith(COUNTING))
        MADE[text] = compiler(rebound(function, callees(function, known, machine, loop)))
    return MADE[text]


def callees(function: Any, known: Mapping[str, Any], machine: Mapping[str, Any], loop: str) -> dict[str, Any]:
    """The globals of a function, in which functions are compiled."""
    found = {
        name: callee(value, known, machine, loop) if isinstance(value, FunctionType) else value
        for name, value in uses(function, known).items()
    }
    return function.__globals__ | found


def compiled(loop: Any, functions: tuple[tuple[str, Any], ...], counting: bool = False) -> Any:
    """A loop, compiled with these functions of a world, and cached on disk until any of their texts changes.

    Numba compiles it at the first call for each combination of types.

    Args:
        counting: whether functions make arrays of their own, and so need reference counting.
    """
    known = dict(functions)
    text = described(loop, known, {}) + COUNTING * counting
    if (text, "") not in MADE:
        made = rebound(loop, callees(loop, known, machine_code(), text))
        made.__qualname__ += f"_{text[:16]}{'_counting' * counting}"
        MADE[text, ""] = numba().njit(cache=True, **OPTIONS | {"_nrt": counting})(made)
    return MADE[text, ""]


@cache
def interpreted(loop: Any, functions: tuple[tuple[str, Any], ...]) -> Any:
    """A loop with these functions, uncompiled."""
    return uncompiled(loop, dict(functions), {})


def uncompiled(function: Any, known: Mapping[str, Any], made: dict[int, Any]) -> Any:
    """A copy of a function, rebound to `known` together with the functions that it calls."""
    if function not in LOOPS and "private" not in known:
        return function
    if id(function) not in made:
        scope = dict(function.__globals__)
        made[id(function)] = rebound(function, scope)
        for name, value in uses(function, known).items():
            scope[name] = uncompiled(value, known, made) if isinstance(value, FunctionType) else value
    return made[id(function)]


@cache
def own_arrays(names: tuple[str, ...]) -> Any:
    """Make a function that picks replica i's arrays, of these names, from those of all replicas."""
    picked_ = ", ".join(f"arrays.{name}[i]" for name in names)
    scope: dict[str, Any] = {"Arrays": arrays_type(names)}
    exec(f"def own(arrays, i):\n    return Arrays({picked_})\n", scope)
    return scope["own"]


@cache
def sight_of(rows: tuple[str, ...], whole: tuple[str, ...], numbers: tuple[str, ...]) -> Any:
    """Make a function that picks what an agent may observe: its entries of the arrays `rows`, or the only entry; the
    arrays `whole`; and these numbers of the state."""
    picked_ = [f"arrays.{name}[min(agent, len(arrays.{name}) - 1)]" for name in rows]
    picked_ += [f"arrays.{name}" for name in whole] + [f"state.{name}" for name in numbers]
    made = arrays_type(("agent", *rows, *whole, *numbers), "Seen")
    made.__getattr__ = refuse
    scope: dict[str, Any] = {"Seen": made}
    exec(f"def sight(state, arrays, agent):\n    return Seen({', '.join(['agent', *picked_])})\n", scope)
    return scope["sight"]


def refuse(seen: Any, name: str) -> Any:
    raise unseen(name)


@cache
def known_of(constants: tuple[str, ...], hidden: frozenset[str]) -> Any:
    """Make a function that picks what observations may depend on, from a NamedTuple of these constants."""
    names = tuple(name for name in constants if name not in hidden)
    scope: dict[str, Any] = {"Known": params_type(names)}
    picked_ = "params" if names == constants else f"Known({', '.join(f'params.{name}' for name in names)})"
    exec(f"def known(params):\n    return {picked_}\n", scope)
    return scope["known"]


@cache
def tell_of(names: tuple[str, ...]) -> Any:
    """A function that copies these fields of the state into an info."""
    scope: dict[str, Any] = {}
    lines = [f"    info.{name} = state.{name}" for name in names] or ["    pass"]
    exec("\n".join(["def tell(state, arrays, params, info):", *lines]), scope)
    return scope["tell"]


@cache
def hints_of(state_type: Any) -> Mapping[str, Any]:
    """The annotations of a State by field, as types."""
    return get_type_hints(state_type)


def array_of_field(state_type: Any, name: str, given: Any) -> Array:
    """An array as it is, or zeros of a size or shape, of the dtype of that field, read-only and without memory."""
    if isinstance(given, np.ndarray):
        return given
    return np.broadcast_to(np.zeros((), DTYPES[hints_of(state_type).get(name, Floats)]), given)


def params_type(names: tuple[str, ...]) -> Any:
    """The type of the constants of a world that defines none."""
    return arrays_type(names, "Params")


@cache
def arrays_type(names: tuple[str, ...], kind: str = "Arrays") -> Any:
    """The type of the arrays of a replica, and of those of all; found again by its name when a kernel is loaded."""
    name = f"{kind}_{hashlib.sha256(' '.join(names).encode()).hexdigest()[:8]}"
    globals()[name] = found = namedtuple(name, names)
    found.__module__ = __name__
    return found


@cache
def numbers_of(state_type: Any, arrays: frozenset[str]) -> Any:
    """The dtype of the numbers of a replica: the fields of its State that are no arrays."""
    hints = hints_of(state_type)
    return np.dtype([(name, DTYPES[hint]) for name, hint in hints.items() if name not in arrays], align=True)


@cache
def may_compile() -> bool:
    """Whether worlds are compiled: Numba is there, and nobody forbids it."""
    if os.environ.get("TACITURN_COMPILE", "1") == "0":
        return False
    if find_spec("numba") is None:
        warnings.warn(
            "worlds play slowly: compiling them needs numba (run pip install numba)", NotCompiled, stacklevel=4
        )
        return False
    return True


def entry_point(loop: Any, functions: tuple[tuple[str, Any], ...], arguments: tuple[Any, ...]) -> Any:
    """A compiled loop for arguments of these types only: finding out the types at each call takes several times as long
    as a turn."""
    dispatcher = compiled(loop, functions)
    kinds = tuple(map(dispatcher.typeof_pyval, arguments))
    try:
        dispatcher.compile(kinds)
    except Exception:  # perhaps because functions make arrays, which Numba reports in many ways
        dispatcher = compiled(loop, functions, counting=True)
        dispatcher.compile(kinds)
    return dispatcher.overloads[kinds].entry_point


def why_not(error: Exception, functions: Mapping[str, Any]) -> str:
    """A compiler error in one line: the function, the line and the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    places = [found for found in re.findall(r'File "([^"]+)", line (\d+)', str(error)) if "numba" not in found[0]]
    reasons = [
        line for line in lines if not line.startswith(("File ", "Failed in", "During:", "- ", "def ", "^", "<source"))
    ]
    reason = f"{type(error).__name__}: {reasons[0] if reasons else error!r}"[:300]
    for file, line in reversed(places):
        for function in functions.values():
            code = function.__code__
            numbers = [number for _, _, number in code.co_lines() if number]
            if code.co_filename.endswith(Path(file).name) and min(numbers) <= int(line) <= max(numbers):
                return f"{function.__name__}, line {line} of {Path(file).name}: {reason}"
    return f"one of {', '.join(function.__name__ for function in functions.values())}: {reason}"


def all_functions(functions: Mapping[str, Any]) -> dict[str, Any]:
    """These functions, and those that they call."""
    found = {function.__qualname__: function for function in functions.values()}
    for function in list(found.values()):
        called = {name: value for name, value in uses(function, {}).items() if isinstance(value, FunctionType)}
        found |= {name: value for name, value in all_functions(called).items() if name not in found} if called else {}
    return found
