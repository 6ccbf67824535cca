"""Worlds that are written for one replica: plain functions of numbers, compiled by Numba, which the core loops over replicas.

The same functions run uncompiled, with the same bits: for short runs, which are over before a compiler has started, without Numba, and with
`TACITURN_COMPILE=0`, for debugging.
"""

import dis
import hashlib
import os
import re
import warnings
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, ClassVar, get_type_hints

import numpy as np
from gymnasium.spaces import Discrete

from taciturn.envs.core import counter_streams
from taciturn.envs.core.info import Info
from taciturn.envs.core.population import Population, S, Step, Transition
from taciturn.envs.core.seeding import Streams
from taciturn.validation import Array, Bools, Floats, Ints, array_of

__all__ = ["NotCompiled", "Replicas", "compiled"]

COMPILE_FROM = (
    20_000  # turns of a replica that a world plays uncompiled first: a tenth of the time that compiling takes
)
DTYPES: Mapping[Any, Any] = {Ints: np.int64, Floats: np.float64, Bools: np.bool_}


class NotCompiled(UserWarning):
    """A world plays uncompiled, because Numba is missing or cannot compile one of its functions."""


# The loop. It calls the functions of a world by the names here, to which `rebound` gives their meaning.

BEGIN, SAY, HEAR, LOOK, TELL = 1, 2, 4, 8, 16


def _of_the_world(*arguments: Any) -> Any:
    raise NotImplementedError


own = begin = said = heard = observe = tell = _of_the_world


def take(rows: Any, i: int) -> Any:
    """The numbers of a replica, to be read and written: when compiled, the row itself."""
    return SimpleNamespace(**dict(zip(rows.dtype.names, rows[i].item(), strict=True)))


def keep(rows: Any, i: int, state: Any) -> None:
    """Write back what `take` gave."""
    rows[i] = tuple(vars(state).values())


def run(
    what: int, live: Any, rows: Any, arrays: Any, actions: Any, params: Any, rngs: Any, reward: Any, over: Any, bounds: Any,
    seen: Any, none: Any, told: Any,
) -> None:  # fmt: skip
    """Do what the bits of `what` say: begin or play in the replicas that are `live`, then look and tell in all."""
    for i in range(len(rows)):
        state, mine = take(rows, i), own(arrays, i)
        if live[i]:
            if what & BEGIN:
                begin(state, mine, params, rngs[i])
            if what & SAY:
                said(state, mine, actions[i], params, rngs[i])
            if what & HEAR:
                over[0, i], over[1, i] = heard(state, mine, params, rngs[i], reward[i])
            keep(rows, i, state)
        if what & LOOK:
            for agent in range(seen.shape[1]):
                out = seen[i, agent]
                observe(state, mine, params, agent, out)
                for d in range(len(out)):
                    out[d] = max(bounds[0, d], min(bounds[1, d], out[d]))
        if what & TELL:
            told[i] = none[0]
            info = take(told, i)
            tell(state, mine, params, info)
            keep(told, i, info)


# Compiling.


def rebound(function: Any, scope: dict[str, Any]) -> Any:
    """The same function with these globals."""
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)


def uses(function: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a function refers to by name: `run` first of all to what is `known`, then as all to its globals."""
    scope = function.__globals__ | dict(known) if function is run else function.__globals__
    return {name: scope[name] for name in function.__code__.co_names if name in scope}


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


# Kernels make no arrays, so that they need not count references to them: that takes longer than a turn.
OPTIONS = {"_nrt": False, "no_cfunc_wrapper": True}


def loops(function: Any) -> bool:
    return any(one.opname.startswith("JUMP_BACKWARD") for one in dis.get_instructions(function))


def bare(inline: str = "never") -> Any:
    """Compiles functions that Python never calls: without what converts their arguments, which takes as long to compile as they do."""
    numba: Any = import_module("numba")

    return numba.njit(no_cpython_wrapper=True, inline=inline, **OPTIONS)


@cache
def machine_code() -> dict[str, Any]:
    """What stands for the functions that cannot be compiled from their text."""
    numba, extending = import_module("numba"), import_module("numba.extending")

    @extending.intrinsic  # type: ignore[untyped-decorator]
    def wide_product(context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            ir: Any = import_module("llvmlite.ir")
            long, short = ir.IntType(128), ir.IntType(64)
            product = builder.mul(builder.zext(values[0], long), builder.zext(values[1], long))
            parts = builder.trunc(builder.lshr(product, ir.Constant(long, 64)), short), builder.trunc(product, short)
            return context.make_tuple(builder, signature.return_type, parts)

        kind = numba.types.uint64
        return numba.types.UniTuple(kind, 2)(kind, kind), generate

    return {
        "wide": bare()(lambda a, b: wide_product(np.uint64(a), np.uint64(b))),
        "plus": bare()(lambda a, b: np.uint64(a) + np.uint64(b)),
        "take": bare()(lambda rows, i: rows[i]),
        "keep": bare()(lambda rows, i, state: None),
    }


MADE: dict[tuple[str, str], Any] = {}  # what was compiled, by the texts of the loop and of the function


def callee(function: Any, machine: Mapping[str, Any], loop: str) -> Any:
    """A function that others call, compiled with all that it calls.

    Each loop has functions of its own: Numba would pass the state of one world to what was compiled for the shorter state of another.
    """
    if function.__module__ in (__name__, counter_streams.__name__) and function.__name__ in machine:
        return machine[function.__name__]
    text = loop, described(function, {}, {})
    if text not in MADE:
        # What has no loop becomes part of its callers: to pass all parameters of a world takes longer than what most functions do.
        compiler = bare("never" if loops(function) else "always")
        MADE[text] = compiler(rebound(function, callees(function, {}, machine, loop)))
    return MADE[text]


def callees(function: Any, known: Mapping[str, Any], machine: Mapping[str, Any], loop: str) -> dict[str, Any]:
    """The globals of a function, in which functions are compiled."""
    found = {
        name: callee(value, machine, loop) if isinstance(value, FunctionType) else value
        for name, value in uses(function, known).items()
    }
    return function.__globals__ | found


def compiled(functions: tuple[tuple[str, Any], ...]) -> Any:
    """`run`, compiled with these functions of a world, and cached on disk until any of their texts changes.

    Numba compiles it at the first call for each combination of types.
    """
    known = dict(functions)
    text = described(run, known, {})
    if (text, "") not in MADE:
        loop = rebound(run, callees(run, known, machine_code(), text))
        loop.__qualname__ += f"_{text[:16]}"
        MADE[text, ""] = import_module("numba").njit(cache=True, **OPTIONS)(loop)
    return MADE[text, ""]


@cache
def interpreted(functions: tuple[tuple[str, Any], ...]) -> Any:
    """`run` with these functions, uncompiled."""
    return rebound(run, run.__globals__ | dict(functions))


@cache
def own_arrays(names: tuple[str, ...]) -> Any:
    """A function that picks the arrays of replica i from those of all replicas, which have these names."""
    picked_ = ", ".join(f"arrays.{name}[i]" for name in names)
    scope: dict[str, Any] = {"Arrays": arrays_type(names)}
    exec(f"def own(arrays, i):\n    return Arrays({picked_})\n", scope)
    return scope["own"]


@cache
def arrays_type(names: tuple[str, ...]) -> Any:
    """The type of the arrays of a replica, and of those of all; found again by its name when a kernel is loaded."""
    name = f"Arrays_{hashlib.sha256(' '.join(names).encode()).hexdigest()[:8]}"
    globals()[name] = found = namedtuple(name, names)
    found.__module__ = __name__
    return found


@cache
def numbers_of(state_type: Any, arrays: frozenset[str]) -> Any:
    """The dtype of the numbers of a replica: the fields of its State that are no arrays."""
    hints = get_type_hints(state_type)
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


def entry_point(dispatcher: Any, arguments: tuple[Any, ...]) -> Any:
    """A compiled function for arguments of these types only: to find out the types at each call takes several times as long as a turn."""
    kinds = tuple(map(dispatcher.typeof_pyval, arguments))
    dispatcher.compile(kinds)
    return dispatcher.overloads[kinds].entry_point


def why_not(error: Exception, functions: Mapping[str, Any]) -> str:
    """Of an error of the compiler: the function, the line and the reason, in one line."""
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


class Replicas(Population[S]):
    """Base of the worlds that are written for one replica.

    A world gives these functions, of which none returns anything but `heard`, and which refer only to numbers, arrays, other such functions
    and `taciturn.envs.core.counter_streams`:

    - `begin(state, arrays, params, rng)` begins a run; all numbers are 0 before it.
    - `said(state, arrays, actions, params, rng)` plays a turn, or if agents send messages the half that ends with what they say;
      `actions` has a row for each agent.
    - `heard(state, arrays, params, rng, reward)` plays what follows, fills `reward` [rows], and returns (terminated, truncated).
    - `observe(state, arrays, params, agent, out)` fills `out` float32[D]; the core clips it to its bounds.
    - `tell(state, arrays, params, info)` sets the entries of `info`, which begins as `empty_info` says.

    `state` holds the numbers of the run and `arrays` its arrays, by the names of the fields of the world's State; `rng` goes to
    `uniform(rng, source)` and the like, where `source` is a place in `sources`. A number that is assigned keeps the type of its field.
    Between the two halves `between` may look at all replicas at once.

    Class attributes:
        state_type: the dataclass State. Its annotations are Ints, Floats or Bools, [B] or [B, ...] as seen from outside.
        sources: names of the sources of random numbers.
        told_if: `{key of info: field of the state}`, where a key has a meaning only if that field is true.
        compile: whether to compile; if not, functions may do anything, and may be methods.
    """

    state_type: ClassVar[Any]
    sources: ClassVar[tuple[str, ...]]
    told_if: ClassVar[Mapping[str, str]] = {}
    compile: bool = True
    begin: Callable[..., None]
    said: Callable[..., None]
    heard: Callable[..., tuple[bool, bool]]
    observe_one: Callable[..., None]
    tell: Callable[..., None]

    def __init__(self, params: Any, num_envs: int = 1, first_replica: int = 0) -> None:
        self.first_replica = first_replica
        super().__init__(params, num_envs)
        self._compiles = self.compile and may_compile()
        self._played = 0
        self._waits = True  # for more to be played before compiling
        self._loop: Any = None
        self._made_for: Any = None
        self._rngs: Any = None
        self._drawn_from: Any = None
        self._seen_state: Any = None

    # What a world writes.

    def constants(self) -> Any:
        """What the functions know as `params`: a NamedTuple of numbers and arrays."""
        raise NotImplementedError

    def arrays(self) -> dict[str, Array]:
        """The arrays of one replica before it begins, by the name of their field."""
        return {}

    def begun(self, where: Array) -> None:
        """What else happens as the replicas `where` bool[B] begin; by default nothing."""

    def between(self, live: Array) -> None:
        """What happens between the two halves of a turn, as to messages, in the replicas `live` bool[B]; by default nothing."""

    def ended(self, where: Array) -> None:
        """What else happens as the replicas `where` bool[B] end; by default nothing."""

    # What is written once.

    def column(self, name: str) -> Array:
        """A field of the state of all replicas, [B, ...], to be read and written."""
        return getattr(self._arrays, name) if name in self._arrays._fields else self._rows[name]

    @property
    def state(self) -> S:
        """The State as it is now; it does not change when the run goes on."""
        self._begun()
        if self._seen_state is None:
            names = (field.name for field in fields(self.state_type))
            self._seen_state = self.state_type(**{name: self.column(name).copy() for name in names})
        return self._seen_state

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__() | {"_loop": None}
        if self._state is not None:  # a copy goes its own way
            kept["_arrays"] = {name: array.copy() for name, array in self._arrays._asdict().items()}
            kept |= {"_rows": self._rows.copy(), "_rngs": self._rngs.copy()}
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self._state is not None:
            self._arrays = arrays_type(tuple(state["_arrays"]))(**state["_arrays"])

    def _allocate(self) -> None:
        """Make room for a run of all replicas, with the parameters as they are."""
        self._constants, self._single = self.constants(), self.arrays() or {"nothing": np.zeros(0)}
        made = {name: np.stack([array] * self.num_envs) for name, array in self._single.items()}
        self._arrays = arrays_type(tuple(made))(**made)
        self._rows = np.zeros(self.num_envs, numbers_of(self.state_type, frozenset(made)))
        (role,) = self.roles.values()
        self._bounds = np.stack([role.layout.low, role.layout.high])
        empty = self.empty_info()
        kinds = [(key, np.asarray(value).dtype) for key, value in empty.items()]
        self._none, self._keys = np.array([tuple(empty.values())], np.dtype(kinds, align=True)), tuple(empty)
        self._shape = (self.num_envs, role.num_agents, role.layout.size)
        space: Any = role.action_space
        self._alone = self.num_envs == 1 and not self.channels and role.num_agents == 1
        self._actions = np.zeros((*self._shape[:2], *space.shape), space.dtype)
        # What stands for arguments that a call does not need; they are of the same types.
        self._idle = self._actions[:0], np.zeros((2, 0), np.bool_)
        self._blank = np.zeros((0, 0, 0), np.float32), np.zeros((0, 0)), self._none[:0].copy()
        self._everywhere = np.ones(self.num_envs, np.bool_)
        self._own = np.zeros((1, 1)), np.zeros((2, 1), np.bool_), self._none.copy()  # what `step_alone` fills
        self._loop, self._made_for = None, self.params

    def _functions(self) -> tuple[tuple[str, Any], ...]:
        names = {"begin": "begin", "said": "said", "heard": "heard", "observe": "observe_one", "tell": "tell"}
        found = {name: getattr(self, attribute) for name, attribute in names.items()}
        return tuple((found | {"own": own_arrays(self._arrays._fields)}).items())

    def _run(
        self, what: int, live: Array, actions: Array | None = None, over: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """`run`, compiled if enough has been played: (observations, rewards, told) where these were asked for."""
        if self._waits and self._played >= COMPILE_FROM:
            self._waits, self._loop = False, None
        fresh, rewards, told = self._blank
        if what & LOOK:
            fresh = np.empty(self._shape, np.float32)
        if what & HEAR:
            rewards = np.zeros(self._shape[:2])
        if what & TELL:
            told = np.empty(self.num_envs, self._none.dtype)
        arguments = (
            what, live, self._rows, self._arrays, self._idle[0] if actions is None else actions, self._constants,
            self._rngs, rewards, self._idle[1] if over is None else over, self._bounds, fresh, self._none, told,
        )  # fmt: skip
        if self._loop is None:
            self._loop = self._made_loop(arguments)
        self._loop(*arguments)
        return fresh, rewards, told

    def _made_loop(self, arguments: tuple[Any, ...]) -> Any:
        functions = self._functions()
        if self._waits or not self._compiles:
            return interpreted(functions)
        try:
            return entry_point(compiled(functions), arguments)
        except Exception as error:  # the compiler has as many as there are mistakes
            why = why_not(error, all_functions(dict(functions)))
            warnings.warn(f"{self.name} plays uncompiled: {why}", NotCompiled, stacklevel=2)
            self._compiles = False
            return interpreted(functions)

    def _begin_state(self, where: Array | None) -> None:
        streams = self.streams
        assert isinstance(streams, Streams)
        if where is None:
            if self._made_for is not self.params:
                self._allocate()
            where = self._everywhere
        if self._rngs is None or self._drawn_from is not streams:
            replicas = self.first_replica + np.arange(self.num_envs)
            self._rngs = counter_streams.sources_of(streams.entropy, self.purpose, self.sources, replicas)
            self._drawn_from = streams
        self._played += int(where.sum())
        self._rows[where] = np.zeros((), self._rows.dtype)
        for name, array in self._single.items():
            self.column(name)[where] = array
        self._run(BEGIN, where)
        self.begun(where)
        self._moved()

    def _moved(self) -> None:
        """Note that the state has changed."""
        moment: Any = object()
        self._state, self._seen_state = moment, None

    def initial(self) -> S:
        raise NotImplementedError  # `begin` does it

    def transition(self, state: S, actions: dict[str, Array]) -> Transition[S]:
        raise NotImplementedError  # `said` and `heard` do it

    def observe_role(self, state: S, role: str, rows: Array | None = None) -> Array:
        """See `Population`; always of the state as it is now."""
        return self._run(LOOK, self._everywhere)[0]

    def observe(self) -> Any:
        return self.observe_role(self._begun(), next(iter(self.roles)))

    def _play(self, live: Array, actions: Array, more: int = 0) -> tuple[Array, Array, Array, Array]:
        """Play a turn in the replicas `live` bool[B]: (observation, reward [B, rows], (terminated, truncated) bool[2, B], told)."""
        self._played += self.num_envs
        over = np.empty((2, self.num_envs), np.bool_)
        over[0], over[1] = self.terminated, self.truncated
        if type(self).between is Replicas.between:
            seen, reward, told = self._run(SAY | HEAR | LOOK | more, live, actions, over)
        else:
            self._run(SAY, live, actions)
            self.between(live)
            seen, reward, told = self._run(HEAR | LOOK | more, live, None, over)
        self._moved()
        return seen, reward, over, told

    def _settle(self) -> None:
        telling = self._telling()
        if telling is not None and callable(telling.info):
            telling.info = telling.info()
        super()._settle()

    def step(self, actions: Any) -> Step:
        _, frozen = self._running()
        (role,) = self.roles
        checked = np.ascontiguousarray(self._checked(actions)[role], self.roles[role].action_space.dtype)
        self._settle()
        live = ~frozen
        for channel in self.channels.values():
            channel.live = live
        seen, reward, over, _ = self._play(live, checked)
        if type(self).ended is not Replicas.ended:
            self.ended(live & (over[0] | over[1]))
        for channel in self.channels.values():
            if channel.config.budget is not None:
                over[1] |= channel.stopped & live
        self.terminated, self.truncated = over
        return Step(seen, reward, self.terminated, self.truncated, self._tell(self.told, live))

    @property
    def alone(self) -> bool:
        """Whether there is one agent in one replica, and no channel: `step_alone` then plays a turn."""
        return self._made_for is not None and self._alone

    def step_alone(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """`step` where all is of one agent in one replica, as `SingleEnv` gives it: without what arrays of replicas need."""
        if self.terminated[0] or self.truncated[0]:
            self._running()
        (role,) = self.roles.values()
        space: Any = role.action_space
        if type(action) is not np.int64 or not isinstance(space, Discrete) or not 0 <= action - space.start < space.n:
            action = role.check(array_of("action", action)[None, None], (1, 1), "action")[0, 0]
        self._actions[0, 0] = action
        self._settle()
        self._played += 1
        if (
            self._loop is None
            or type(self).between is not Replicas.between
            or (self._waits and self._played >= COMPILE_FROM)
        ):
            seen, reward, over, told = self._play(self._everywhere, self._actions, TELL)
        else:
            reward, over, told = self._own
            reward[:] = 0.0
            seen = np.empty(self._shape, np.float32)
            self._loop(
                SAY | HEAR | LOOK | TELL, self._everywhere, self._rows, self._arrays, self._actions, self._constants, self._rngs,
                reward, over, self._bounds, seen, self._none, told,
            )  # fmt: skip
            self._moved()
        terminated, truncated = over[:, 0].tolist()
        if terminated or truncated:
            self.terminated, self.truncated = over.copy()
        return seen[0, 0], reward.item(), terminated, truncated, dict(zip(self._keys, told.item(), strict=True))

    def told(self) -> Info:
        """The info of the state as it is now, [B] each."""
        told = self._run(TELL, self._everywhere)[2]
        info: Info = {key: told[key].copy() for key in told.dtype.names or ()}
        return info | {f"_{key}": self._rows[field].copy() for key, field in self.told_if.items()}
