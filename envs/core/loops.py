"""The loops that play turns: when they are compiled, from which functions, and in how many threads."""

import multiprocessing
import os
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from taciturn.compiling import compiled
from taciturn.compiling.compiled import NotCompiled, every, run
from taciturn.compiling.kernels import Loop
from taciturn.envs.core import fields
from taciturn.envs.core.hooks import Hooks
from taciturn.validation import Array

PART = 4096  # turns that make an extra thread worthwhile


class Loops(dict[Any, Any]):
    """The loops of an environment by key: the number of the turn that a loop plays, or the further function that it
    calls. They run uncompiled at first, and are compiled, or loaded from disk, after enough turns.

    Attributes:
        played: the work so far, in turns of one replica (a long turn counts as several).
        compiles: whether the environment compiles.
    """

    def __init__(self, compiles: bool, played: float = 0.0) -> None:
        self.compiles, self.played = compiles, played
        self._built = 0  # 1: loops may be loaded; 2: they may also be compiled

    def made(self, world: Any, key: Any, given: Any) -> Any:
        """The loop with that key, for the arguments `given`."""
        enough = compiled.COMPILE_FROM
        may = 2 if self.played >= enough else int(self.played >= compiled.LOADS_AT * enough)
        if may > self._built:
            self._built = may
            self.clear()
        if key not in self:
            self[key] = self._make(world, key, given)
        return self[key]

    def _make(self, world: Any, key: Any, given: Any) -> Any:
        loop = every if callable(key) else run
        functions = {"function": key} if loop is every else functions_of(world, key)
        hook = type(world).private
        plain = getattr(hook, "plain", None)
        if hook is not Hooks.private:
            functions["private"] = plain or asking(world)
        if self._built and self.compiles and (plain or hook is Hooks.private):
            try:
                result = compiled.compiled(loop, functions, given, world.name * (self._built > 1))
            except Exception as error:  # the compiler raises many kinds
                why = compiled.why_not(error, compiled.all_functions(functions))
                warnings.warn(f"{world.name} plays uncompiled: {why}", NotCompiled, stacklevel=2)
                self.compiles = False
            else:
                if result is not None:
                    return result
        return compiled.uncompiled(loop, functions, {})

    def call(self, world: Any, key: Any, given: Any, effort: float) -> None:
        """Call the loop with that key, in threads if it is long enough."""
        made = self.made(world, key, given)
        parts = min(num_threads(), world.num_envs, int(world.num_envs * effort / PART))
        if parts < 2 or not isinstance(made, Loop):
            made(given)
        else:
            places = np.linspace(0, world.num_envs, parts + 1).astype(int).tolist()
            shares = [given._replace(first=first, last=last) for first, last in pairwise(places)]
            list(threads(os.getpid()).map(made, shares, range(parts)))


def functions_of(world: Any, turn: int) -> dict[str, Any]:
    """An environment's functions under the names that `compiled.run` uses: `act` and `receive` of this turn's role,
    `observe` of the next turn's role."""
    now, then = world._order[turn]
    written = world.functions
    by_role = {"act": (written.act, now), "receive": (written.receive, now), "observe": (written.observe, then)}
    bound = {name: given[role] if isinstance(given, Mapping) else given for name, (given, role) in by_role.items()}
    # A run begins in the state after the last turn; compiling `reset` into the other turns too would take long.
    bound["reset"] = written.reset if turn == world._cycle - 1 else compiled.no_reset
    bound["fill_info"] = written.info or compiled.info_of(world.info_fields)
    bound |= {"visible": visible_to(world, then), "public": compiled.public_params(world.hidden)}
    return bound | answering(world, bound, now) if turn < world._cycle and world._inside else bound


def answering(world: Any, bound: Mapping[str, Any], first: str) -> dict[str, Any]:
    """`act` and `receive` that play this turn and the next one together, if policies with a `closed_form` act in the
    next one."""
    ((then, answer),) = world._inside.items()
    act, receive = world.functions.act, world.functions.receive
    used = {"act": act[first], "receive": receive[first], "public": bound["public"], "answer": answer}
    used |= {"visible": visible_to(world, then), "observe": world.functions.observe[then], "act_next": act[then]}
    return {"act": compiled.rebound(compiled.answered, vars(compiled) | used), "receive": receive[then]}


def visible_to(world: Any, role: str) -> Any:
    """The function that selects the fields that an agent of a role may observe."""
    arrays = world._single
    seen = {name: one for name, one in fields.owners(world.state_type).items() if one.seen_by(role)}
    rows = [name for name, one in seen.items() if one.each and name in arrays and arrays[name].size]
    whole = [name for name, one in seen.items() if not one.each and name in arrays]
    return compiled.visible_of(tuple(rows), tuple(whole), tuple(name for name in seen if name not in arrays))


def asking(world: Any) -> Any:
    """`private` of one agent, which calls the population's hook."""

    def private(agent: int, drawn: Any) -> Any:
        seen: Array = world.private(np.array([[drawn]]), np.array([[agent]]))
        return seen[0, 0].item()

    return private


@cache
def num_threads() -> int:
    """The number of threads of a loop: `TACITURN_THREADS`; by default one per core, but 1 in a child process."""
    asked = os.environ.get("TACITURN_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    if multiprocessing.parent_process() is not None:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def threads(process: int) -> ThreadPoolExecutor:
    """The thread pool of a process; a forked process cannot use its parent's threads."""
    return ThreadPoolExecutor(num_threads())
