"""A constant that compiled code reads changes that code when it changes: in memory, and loaded from disk."""

from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases import CASES

from taciturn import registry
from taciturn.compiling import compiled, kernels
from taciturn.envs.core import Replicas, loops

Place = tuple[str, dict[str, Any], str]


def constants(function: Any, known: dict[str, Any], found: dict[int, list[Place]]) -> list[Place]:
    """Every constant that a function or one that it calls reads: (where, the globals that hold it, its name)."""
    if id(function) not in found:
        found[id(function)] = places = list[Place]()
        for name in set(function.__code__.co_names) & (set(function.__globals__) | set(known)):
            value = known.get(name, function.__globals__.get(name))
            if isinstance(value, FunctionType):
                places += constants(value, {}, found)
            elif not isinstance(value, type | ModuleType | BuiltinFunctionType | np.ufunc):
                places.append((f"{function.__module__}.{name}", function.__globals__, name))
    return found[id(function)]


def other(value: Any) -> Any:
    """Another constant that differs in its last number alone."""
    if isinstance(value, np.ndarray):
        changed = value.copy()
        changed.flat[-1] += 1
        return changed
    if isinstance(value, tuple):
        return (*value[:-1], other(value[-1]))
    return not value if isinstance(value, bool) else value + type(value)(1)


def texts(world: Any) -> list[str]:
    """What names the compiled code of each turn, in memory and on disk."""
    turns = range(world._cycle)
    return [compiled.described(compiled.run, loops.functions_of(world, turn), {}) for turn in turns]


@pytest.mark.parametrize("name", registry.worlds())
def test_every_constant_of_every_world_names_its_code(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world: Any = CASES[name].population(2)
    assert isinstance(world, Replicas)
    world.reset(seed=0)
    before, found = texts(world), dict[int, list[Place]]()
    for turn in range(world._cycle):
        constants(compiled.run, loops.functions_of(world, turn), found)
    places = {place[::2]: place for some in found.values() for place in some}
    assert len(places) > 3
    for where, scope, constant in places.values():
        with monkeypatch.context() as patch:
            patch.setitem(scope, constant, other(scope[constant]))
            assert texts(world) != before, where
        assert texts(world) == before


NUMBER, NUMBERS, TABLE = 1.0, (2.0, 3.0), np.zeros(2000)


def inner(x: float, factor: float = 10.0) -> float:
    return factor * x + NUMBER


def outer(given: Any) -> None:
    given.out[0] = inner(1.0) + NUMBERS[1] + TABLE[1000]


class Given(NamedTuple):
    out: Any


def result() -> float:
    given = Given(np.zeros(1))
    compiled.function_of(outer, given)(given)
    return float(given.out[0])


def test_functions_are_compiled_after_enough_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 5)
    functions, given = compiled.Functions(), Given(np.zeros(1))
    for work, many in ((2, 0), (2, 0), (1, 1), (0, 1)):
        given.out[0] = 0
        functions.play(outer, given, work)
        assert (given.out[0], len(functions.compiled)) == (result(), many)


CHANGES: dict[str, Any] = {
    "a number of a function that is called": (NUMBER, 5.0, 18.0),
    "the last of several": ((2.0, 3.0), (2.0, 4.0), 15.0),
    "one in the middle of a long table": (TABLE, 6.0 * (np.arange(2000) == 1000), 20.0),
    "what an argument has by default": (10.0, 20.0, 24.0),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_constant_changes_results_in_memory_and_from_disk(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("TACITURN_CACHE", str(tmp_path))
    monkeypatch.setattr(kernels, "KERNELS", {})
    names = dict(zip(CHANGES, ("NUMBER", "NUMBERS", "TABLE", ""), strict=True))
    before, after, changed = CHANGES[what]

    def now(value: Any) -> float:
        if names[what]:
            monkeypatch.setitem(globals(), names[what], value)
        else:
            monkeypatch.setattr(inner, "__defaults__", (value,))
        return result()

    for forget in (False, True):
        assert [now(before), now(after), now(before)] == [14.0, changed, 14.0]
        if forget:
            kernels.KERNELS.clear()
            monkeypatch.setattr(compiled, "built", None)  # all is loaded
            assert [now(after), now(before)] == [changed, 14.0]
