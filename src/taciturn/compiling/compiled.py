"""Environments written for one replica: plain functions of numbers, which Numba compiles and the core loops over
replicas.

The same functions also run uncompiled, with the same bits: in short runs, which end before a compiler has started;
without Numba; and under `TACITURN_COMPILE=0`, for debugging.
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
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from taciturn import files
from taciturn.compiling import counter_streams, kernels
from taciturn.compiling.tables import layout_of
from taciturn.current_folder import numba
from taciturn.validation import Array, Bools, Floats, Ints

# Turns of a replica that an environment plays uncompiled first: a tenth or more of the time that compiling takes. Code
# stored on disk is loaded after a fortieth of them, the time that loading takes.
COMPILE_FROM = 20_000
LOADS_AT = 0.025
KEPT = 4  # numbers that a closed form may store
DTYPES: Mapping[Any, Any] = {Ints: np.int64, Floats: np.float64, Bools: np.bool_}


class NotCompiled(UserWarning):
    """An environment runs uncompiled, because Numba is missing or cannot compile one of its functions."""


# The loops. They call the functions of an environment by these names, which `rebound` binds to them.

RESET, ACT, RECEIVE, OBSERVE, INFO = 1, 2, 4, 8, 16


def _of_the_world(*arguments: Any) -> Any:
    raise NotImplementedError


reset = act = receive = visible = public = observe = fill_info = function = answer = act_next = _of_the_world


def unpack(table: Any) -> Any:
    """The argument of a loop; compiled loops get it by the address of a table (`taciturn.compiling.tables`)."""
    return table


def own(arrays: Any, i: int) -> Any:
    """The arrays of replica i."""
    return arrays._make([array[i] for array in arrays])


def no_reset(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Placeholder for `reset` in the loop of a turn, if no run begins after it."""


def private(agent: int, drawn: Any) -> Any:
    """The private observation of an agent: here, the number drawn.

    An environment passes all such numbers through this function; an audit replaces it (`Replicas.private`).
    """
    return drawn


def constant(agent: int, value: int) -> Any:
    """A function in place of `private`, for an audit: this agent's private observation is always `value`."""
    replaced = agent

    def private(agent: int, drawn: Any) -> Any:
        return value if agent == replaced else drawn

    return private


def take(rows: Any, i: int) -> Any:
    """The numbers of a replica, to be read and written: in uncompiled code a copy, in compiled code the row itself."""
    return SimpleNamespace(**dict(zip(rows.dtype.names, rows[i].item(), strict=True)))


def keep(rows: Any, i: int, state: Any) -> None:
    """Write back the numbers from `take`."""
    rows[i] = tuple(vars(state).values())


class Turn(NamedTuple):
    """The argument of `run`, [B, ...] each unless stated otherwise."""

    what: int
    first: int  # the first replica
    last: int  # one after the last replica
    live: Bools
    rows: Array  # the numbers of the state
    arrays: Any  # a NamedTuple of its arrays
    actions: Array
    params: Any  # a NamedTuple, of the world
    rngs: Array
    reward: Floats
    over: Bools  # [B, 2]: terminated, truncated
    who: Ints  # [B, r]: the agents that observe; if it is empty, all do
    bounds: Floats  # [2, D]: of observations
    seen: Array
    none: Array  # [1]: the numbers of an info without meaning
    infos: Array


def run(table: Any) -> None:
    """Do the work that the bits of `what` ask for: reset or play the `live` replicas, then observe and fill the infos
    of all."""
    turn = unpack(table)
    what, live, rows, arrays, actions, params = turn.what, turn.live, turn.rows, turn.arrays, turn.actions, turn.params
    rngs, reward, over, who, bounds = turn.rngs, turn.reward, turn.over, turn.who, turn.bounds
    seen, none, infos = turn.seen, turn.none, turn.infos
    for i in range(turn.first, turn.last):
        state, mine, rng = take(rows, i), own(arrays, i), rngs[i]
        if what & ACT:
            for row in range(reward.shape[1]):
                reward[i, row] = 0.0
        if live[i]:
            if what & RESET:
                reset(state, mine, params, rng)
            if what & ACT:
                act(state, mine, actions[i], params, rng)
            if what & RECEIVE:
                over[i, 0], over[i, 1] = receive(state, mine, params, rng, reward[i])
            keep(rows, i, state)
        if what & OBSERVE:
            for row in range(seen.shape[1]):
                out = seen[i, row]
                observe(visible(state, mine, who[i, row] if len(who) > 0 else row), public(params), out)
                for d in range(len(out)):
                    clipped = out[d] if out[d] <= bounds[1, d] else bounds[1, d]
                    out[d] = clipped if clipped >= bounds[0, d] else bounds[0, d]
        if what & INFO:
            infos[i] = none[0]
            info = take(infos, i)
            fill_info(state, mine, params, info)
            keep(infos, i, info)


def answered(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """A turn and the first half of the next one, in which a function (a closed form) computes agents' actions from
    their observations.

    `arrays.glance` holds an observation and its bounds.
    """
    act(state, arrays, actions, params, rng)
    receive(state, arrays, params, rng, arrays.reward)
    out = arrays.glance[0]
    for row in range(len(arrays.answers)):
        observe(visible(state, arrays, row), public(params), out)
        for d in range(len(out)):
            clipped = out[d] if out[d] <= arrays.glance[2, d] else arrays.glance[2, d]
            out[d] = clipped if clipped >= arrays.glance[1, d] else arrays.glance[1, d]
        answer(out, public(params), arrays.kept, arrays.answers[row])
    act_next(state, arrays, arrays.answers, params, rng)


class Call(NamedTuple):
    """The argument of `every`; see `Turn`."""

    first: int
    last: int
    live: Bools
    rows: Array
    arrays: Any
    params: Any
    rngs: Array


def every(table: Any) -> None:
    """Call a function in each of the `live` replicas."""
    call = unpack(table)
    for i in range(call.first, call.last):
        if call.live[i]:
            state = take(call.rows, i)
            function(state, own(call.arrays, i), call.params, call.rngs[i])
            keep(call.rows, i, state)


def once(table: Any) -> None:
    """Call a function with its argument."""
    function(unpack(table))


LOOPS = run, every, once


# Compiling.


def rebound(function: Any, scope: dict[str, Any]) -> Any:
    """The function with other globals."""
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


@cache
def global_names(code: Any) -> tuple[str, ...]:
    """The names of the globals that a function reads. (`co_names` also has the names of attributes.)"""
    return tuple(
        dict.fromkeys(
            get_instruction.argval
            for get_instruction in dis.get_instructions(code)
            if get_instruction.opname == "LOAD_GLOBAL"
        )
    )


def uses(function: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The globals that a function refers to. In a loop, values in `known` replace its globals; in other functions only
    `private` is replaced."""
    scope, names = function.__globals__, global_names(function.__code__)
    if function not in LOOPS:
        known = {"private": known["private"]} if "private" in known and scope.get("private") is private else {}
    scope = scope | dict(known)
    return {name: scope[name] for name in names if name in scope}


def described(function: Any, known: Mapping[str, Any], found: dict[int, str]) -> str:
    """A text that changes whenever the function, or anything that it refers to, changes."""
    if id(function) not in found:
        found[id(function)] = function.__qualname__
        parts = [described_code(function.__code__)]
        parts += [repr(cell.cell_contents) for cell in function.__closure__ or ()]
        parts += map(repr, function.__defaults__ or ())
        for name, value in sorted(uses(function, known).items()):
            text = described(value, known, found) if isinstance(value, FunctionType) else repr(value)
            if isinstance(value, np.ndarray):  # its `repr` leaves out digits, and numbers
                text = f"{value.dtype}{value.shape}{value.tobytes().hex()}"
            parts.append(f"{name}={text}")
        found[id(function)] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return found[id(function)]


def described_code(code: CodeType) -> str:
    """A text of a function's code that is the same in every process. (`repr` shows nested code with its address, and
    sets in no fixed order.)"""
    constants: list[Any] = []
    for co_const in code.co_consts:
        if isinstance(co_const, CodeType):
            constants.append(described_code(co_const))
        else:
            constants.append(sorted(map(repr, co_const)) if isinstance(co_const, frozenset) else co_const)
    return repr((code.co_code, constants, code.co_names, code.co_varnames))


LONG = (counter_streams.reject_binomial, counter_streams.invert_binomial, counter_streams.normal_tail)  # not inlined


def callee(
    function: Any, known: Mapping[str, Any], machine: Mapping[str, Any], counting: bool, made: dict[str, Any]
) -> Any:
    """A function for others to call, compiled with all functions that it calls, once for each combination of types."""
    if function.__module__ in (__name__, counter_streams.__name__) and function.__name__ in machine:
        return machine[function.__name__]
    if "compiled_as" in vars(function):
        maker, *arguments = function.compiled_as
        return getattr(import_module("taciturn.compiling.typing_tables"), maker)(*arguments)
    text = described(function, known, {})
    if text not in made:
        extending = import_module("numba.extending")
        scope = callees(function, known, machine, counting, made)

        def stands_for(*arguments: Any) -> Any:
            raise NotImplementedError

        # Not `njit`, which compiles a function again for each constant argument.
        options = {"_nrt": counting, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        options["forceinline"] = function not in LONG
        extending.overload(stands_for, options, strict=False)(lambda *arguments: rebound(function, scope))
        made[text] = stands_for
    return made[text]


def callees(
    function: Any, known: Mapping[str, Any], machine: Mapping[str, Any], counting: bool, made: dict[str, Any]
) -> dict[str, Any]:
    """The globals of a function, with compiled functions in place of plain ones."""
    results = {
        name: callee(value, known, machine, counting, made) if isinstance(value, FunctionType) else value
        for name, value in uses(function, known).items()
    }
    return function.__globals__ | results


def compiled(loop: Any, functions: Mapping[str, Any], given: Any, world: str = "") -> kernels.Loop | None:
    """A loop with these functions of an environment, compiled for the type of `given`.

    It is loaded if another process compiled it, or is compiling it now. Otherwise it is compiled, after a log message
    that names the `world`; if `world` is empty, the result is None instead.
    """
    layout = layout_of(given)
    text = repr((described(loop, functions, {}), layout))
    kernel = kernels.loaded(text)
    if kernel is None and world:
        with files.waiting(kernels.file_of(text).with_suffix(".lock")):
            kernel = kernels.loaded(text)
            if kernel is None:
                kernels.announce(world)
                kernel = built(text, loop, functions, layout)
    return None if kernel is None else kernels.Loop(kernel)


def built(text: str, loop: Any, functions: Mapping[str, Any], layout: Any) -> kernels.Kernel:
    """Compile a loop; `text` describes it."""
    numba()
    types = import_module("taciturn.compiling.typing_tables")
    machine = {name: getattr(types, name) for name in ("own", "take", "keep", "wide", "plus")}
    machine["unpack"] = types.unpacker(layout)

    def make(counting: bool) -> kernels.Kernel:
        return kernels.made(text, rebound(loop, callees(loop, functions, machine, counting, {})), counting)

    try:
        return make(counting=False)
    except Exception:  # perhaps because functions make arrays, which Numba reports in many ways
        return make(counting=True)


def function_of(function: Any, given: Any) -> kernels.Loop:
    """A function outside environments, compiled for arguments like this one: a NamedTuple of numbers, arrays and
    NamedTuples of them. It returns nothing, but may change arrays."""
    functions, layout = {"function": function}, layout_of(given)
    text = repr((described(once, functions, {}), layout))
    return kernels.Loop(kernels.loaded(text) or built(text, once, functions, layout))


class Functions:
    """Functions outside environments, compiled after enough work in this process.

    Attributes:
        work: calls so far, times the size of each.
        compiled: the compiled functions.
    """

    def __init__(self) -> None:
        self.work = 0
        self.compiled: dict[Any, kernels.Loop] = {}

    def play(self, function: Any, given: Any, work: int) -> None:
        """Call a function whose argument is that of `function_of`."""
        self.work += work
        if self.work < COMPILE_FROM or not may_compile():
            function(given)
            return
        if function not in self.compiled:
            self.compiled[function] = function_of(function, given)
        self.compiled[function](given)


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


class Seen(SimpleNamespace):
    """The data that an agent may observe."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"field {name!r} of the State must be declared as own, received or public (taciturn.envs.core.fields) to "
            "be observed; agents observe their own entries, received messages, and public fields"
        )


@cache
def visible_of(rows: tuple[str, ...], whole: tuple[str, ...], numbers: tuple[str, ...]) -> Any:
    """Make a function that picks the data an agent may observe: its entry of each array in `rows` (or the only entry),
    the arrays `whole`, and the `numbers` of the state."""

    def visible(state: Any, arrays: Any, agent: int) -> Seen:
        seen = Seen(agent=agent)
        for name in rows:
            array = getattr(arrays, name)
            setattr(seen, name, array[min(agent, len(array) - 1)])
        for name in whole:
            setattr(seen, name, getattr(arrays, name))
        for name in numbers:
            setattr(seen, name, getattr(state, name))
        return seen

    visible.compiled_as = "visible_of", rows, whole, numbers  # type: ignore[attr-defined]
    return visible


@cache
def public_params(hidden: frozenset[str]) -> Any:
    """Make a function that picks the constants that observations may depend on: all except those with these names."""
    names = tuple(sorted(hidden))

    def public(params: Any) -> Any:
        return SimpleNamespace(**{name: value for name, value in params._asdict().items() if name not in names})

    public.compiled_as = "without", hidden  # type: ignore[attr-defined]
    return public


@cache
def info_of(names: tuple[str, ...]) -> Any:
    """A function that copies these fields of the state into an info."""
    scope: dict[str, Any] = {}
    lines = [f"    info.{name} = state.{name}" for name in names] or ["    pass"]
    exec("\n".join(["def fill_info(state, arrays, params, info):", *lines]), scope)
    return scope["fill_info"]


@cache
def hints_of(state_type: Any) -> Mapping[str, Any]:
    """The annotations of a State by field, as types."""
    return get_type_hints(state_type)


def array_of_field(state_type: Any, name: str, given: Any) -> Array:
    """An array unchanged, or read-only zeros of a size or shape that use no memory, of the dtype of that field."""
    if isinstance(given, np.ndarray):
        return given
    return np.broadcast_to(np.zeros((), DTYPES[hints_of(state_type).get(name, Floats)]), given)


@cache
def arrays_type(names: tuple[str, ...], kind: str = "Arrays") -> Any:
    """The type of the arrays of one replica or of all; a loaded kernel finds it again by its name."""
    name = f"{kind}_{hashlib.sha256(' '.join(names).encode()).hexdigest()[:8]}"
    globals()[name] = result = namedtuple(name, names)
    result.__module__ = __name__
    return result


@cache
def numbers_of(state_type: Any, arrays: frozenset[str]) -> Any:
    """The dtype of the numbers of a replica: the fields of its State that are not arrays."""
    hints = hints_of(state_type)
    return np.dtype([(name, DTYPES[hint]) for name, hint in hints.items() if name not in arrays], align=True)


@cache
def may_compile() -> bool:
    """Whether environments are compiled: Numba is installed, and compiling is not forbidden."""
    if os.environ.get("TACITURN_COMPILE", "1") == "0":
        return False
    if find_spec("numba") is None:
        warnings.warn(
            "worlds play slowly: compiling them needs numba (run pip install numba)", NotCompiled, stacklevel=4
        )
        return False
    return True


def why_not(error: Exception, functions: Mapping[str, Any]) -> str:
    """A compiler error in one line: the function, the line and the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    places = [result for result in re.findall(r'File "([^"]+)", line (\d+)', str(error)) if "numba" not in result[0]]
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
    """These functions and the functions that they call."""
    results = {function.__qualname__: function for function in functions.values()}
    for function in list(results.values()):
        called = {name: value for name, value in uses(function, {}).items() if isinstance(value, FunctionType)}
        results |= (
            {name: value for name, value in all_functions(called).items() if name not in results} if called else {}
        )
    return results
