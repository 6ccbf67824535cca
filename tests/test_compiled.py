"""Worlds written for one replica: when they are compiled, what they say if they cannot be, and copies of them."""

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from taciturn.envs import federated_bandit_v0, round_stopping_v0
from taciturn.envs.core import NotCompiled, compiled, replicas
from taciturn.envs.core.compiled import opened
from taciturn.envs.core.tables import layout_of
from taciturn.envs.round_stopping.world import WAIT, RoundStopping
from taciturn.wrappers import Laplace, Privatize

FEW: dict[str, Any] = {"num_clients": 8, "broadcast_time": 0.1, "compute_probability": 0.15, "horizon": 5.0}


@pytest.fixture
def fresh() -> Iterator[None]:
    """Asks anew whether worlds may be compiled."""
    compiled.may_compile.cache_clear()
    yield
    compiled.may_compile.cache_clear()


def waited(population: RoundStopping, steps: int) -> Any:
    for _ in range(steps):
        population.step(np.full((population.num_envs, 1), WAIT))
    return population.state


def is_compiled(population: Any) -> bool:
    return not hasattr(population._loops[0], "__code__")


def test_a_world_is_compiled_once_enough_has_been_played(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "COMPILE_FROM", 30)
    monkeypatch.setattr(compiled, "LOADS_AT", 1.0)
    population = round_stopping_v0.population(4, **FEW)
    population.reset(seed=0)
    found = []
    for _ in range(10):
        waited(population, 1)
        found.append(is_compiled(population))
    assert found == [False] * 6 + [True] * 4  # after 4 begun runs, and 7 turns of 4


@pytest.mark.usefixtures("fresh")
def test_the_environment_forbids_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    monkeypatch.setenv("TACITURN_COMPILE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        population = round_stopping_v0.population(2, **FEW)
        population.reset(seed=0)
        waited(population, 3)
    assert not is_compiled(population)


@pytest.mark.usefixtures("fresh")
def test_without_numba_worlds_say_once_that_they_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)
    expected = round_stopping_v0.population(2, **FEW)
    expected.reset(seed=0)
    compiled.may_compile.cache_clear()
    monkeypatch.setattr(compiled, "find_spec", lambda name: None)
    with pytest.warns(NotCompiled, match=r"^worlds play slowly: compiling them needs numba \(run pip install numba\)$"):
        population = round_stopping_v0.population(2, **FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        round_stopping_v0.population(2, **FEW)
        population.reset(seed=0)
    np.testing.assert_equal(vars(waited(population, 40)), vars(waited(expected, 40)))
    assert not is_compiled(population)


@pytest.mark.parametrize(("asked", "found"), [("3", 3), ("0", None), ("many", None), ("", None)])
def test_the_environment_says_how_many_threads(asked: str, found: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACITURN_THREADS", asked)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: None)
    replicas.num_threads.cache_clear()
    try:
        assert replicas.num_threads() == (found or len(os.sched_getaffinity(0)))
        replicas.num_threads.cache_clear()
        monkeypatch.setattr("multiprocessing.parent_process", lambda: "a pool")
        assert replicas.num_threads() == (found or 1), "processes of a pool share the cores"
    finally:
        replicas.num_threads.cache_clear()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("compile_from", [0, 10**9])
def test_a_copy_goes_its_own_way(duplicate: Any, compile_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
    population = round_stopping_v0.population(3, time_law="pareto", computing=(2.0, 4.0), **FEW)
    population.reset(seed=0)
    before = waited(population, 5)
    other = duplicate(population)
    after = waited(population, 20)
    np.testing.assert_equal(vars(other.state), vars(before))
    np.testing.assert_equal(vars(waited(other, 20)), vars(after))


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda env: Privatize(env, "means", Laplace(epsilon=1.0))]
)
def test_a_copy_counts_its_own_messages(duplicate: Any) -> None:
    population = federated_bandit_v0.population(2, num_agents=3, num_arms=2)
    population.reset(seed=0)
    uploads = np.full((2, 3), 2)
    population.step(uploads)
    other = duplicate(population)
    assert [population.step(uploads).info["messages"].tolist() for _ in range(2)] == [[6, 6], [9, 9]]
    if duplicate in (copy.copy, copy.deepcopy):  # what is wrapped begins anew
        assert other.step(uploads).info["messages"].tolist() == [6, 6]


def test_a_state_does_not_change_when_the_run_goes_on() -> None:
    population = round_stopping_v0.population(3, **FEW)
    population.reset(seed=0)
    state = population.state
    kept = copy.deepcopy(state)
    assert population.state is state
    assert waited(population, 5) is not state
    np.testing.assert_equal(vars(state), vars(kept))


TWO = """
import warnings
warnings.simplefilter("error")
import numpy as np
import taciturn.envs.core.compiled
from taciturn.envs import federated_training_v0, round_stopping_v0
taciturn.envs.core.compiled.COMPILE_FROM = 0
for world in ({}):
    env = world.population(2, horizon=10.0)
    env.reset(seed=0)
    env.step(np.ones((2, 1), np.int64))
    assert env._compiles
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", ["round_stopping_v0, federated_training_v0", "federated_training_v0, round_stopping_v0"]
)
def test_worlds_with_the_same_functions_are_compiled_each_for_its_own_state(order: str, tmp_path: Path) -> None:
    """From nothing, in one process: the state of one begins like the other's, which Numba would take for it."""
    environment = os.environ | {"TACITURN_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", TWO.format(order)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


PLAYED = """
import logging, sys
import numpy as np
from taciturn.envs import gossip_bandit_v0
from taciturn.envs.core import compiled
compiled.COMPILE_FROM = {}
env = gossip_bandit_v0.population(2, num_agents=5, horizon=10.0)
env.reset(seed=3)
for _ in range(20):
    env.step(np.zeros((2, 1, 3), np.int64))
made = not hasattr(env._loops[0], "__code__")
print(made, "numba" in sys.modules, env.state.holders.tolist(), env.state.time.tolist())
"""


def played(folder: Path, compile_from: float = 0) -> tuple[list[str], str]:
    """What a process prints that plays a world, and its errors."""
    environment = os.environ | {"TACITURN_CACHE": str(folder)}
    command = [sys.executable, "-c", PLAYED.format(repr(compile_from))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split(maxsplit=2), done.stderr


def test_code_is_kept_and_loaded_without_numba(tmp_path: Path) -> None:
    (made, numba, first), said = played(tmp_path)
    assert (made, numba) == ("True", "True")
    assert (
        said == "compiling gossip_bandit: some seconds, once on this machine ('taciturn compile' does it beforehand)\n"
    )
    assert played(tmp_path) == (["True", "False", first], "")
    (made, numba, uncompiled), said = played(tmp_path / "nothing", 10**9)
    assert (made, numba, uncompiled, said) == ("False", "False", first, "")


def doubled(table: Any) -> None:
    given = opened(table)
    given.table[0] = 2 * given.count


def build_doubled() -> Any:
    given = Inner(4, np.zeros(1))
    compiled.kernels.Loop(compiled.built("doubled", doubled, {}, ((), (), ()), frozenset(), layout_of(given)))(given)
    return given.table[0]


@pytest.mark.parametrize("damage", [lambda code: b"", lambda code: code[:-100], lambda code: code[:-1] + b"?"])
def test_damaged_code_is_made_again(damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    kernels = compiled.kernels
    monkeypatch.setenv("TACITURN_CACHE", str(tmp_path))
    monkeypatch.setattr(kernels, "KERNELS", {})
    assert kernels.loaded("doubled") is None
    assert build_doubled() == 8
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    kernels.KERNELS.clear()
    assert kernels.loaded("doubled") is None
    assert build_doubled() == 8
    kernels.KERNELS.clear()
    assert kernels.loaded("doubled") is not None


def test_where_nothing_can_be_kept_code_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TACITURN_CACHE", str(tmp_path / "file" / "folder"))
    assert build_doubled() == 8


def test_short_runs_load_code_but_do_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("TACITURN_CACHE", str(tmp_path))
    monkeypatch.setattr(compiled, "LOADS_AT", 30 / compiled.COMPILE_FROM)
    monkeypatch.setattr("taciturn.envs.core.kernels.KERNELS", {})
    for found in ([False] * 10, [False] * 6 + [True] * 4):
        population = round_stopping_v0.population(4, **FEW)
        population.reset(seed=0)
        assert [is_compiled(population) for _ in range(10) if waited(population, 1) is not None] == found
        population.build()


class Inner(NamedTuple):
    count: int
    table: Any


class Given(NamedTuple):
    """All kinds of things that a compiled function can be given."""

    flag: bool
    count: int
    share: float
    pair: tuple[float, float]
    inner: Inner
    rows: Any
    out: Any


def summed(table: Any) -> None:
    given = opened(table)
    total = 100.0 * given.flag + given.count + given.share + given.pair[0] * given.pair[1] + given.inner.count
    for i in range(given.inner.table.shape[0]):
        for j in range(given.inner.table.shape[1]):
            total += given.inner.table[i, j] * (i + 10 * j)
    given.rows[1].done = True
    given.rows[1].number += total
    given.out[0, 1] = total


def test_tables_hold_all_kinds_of_values() -> None:
    pytest.importorskip("numba")
    rows = np.zeros(2, np.dtype([("done", np.bool_), ("number", np.float64)], align=True))
    given = Given(
        True, 7, 0.5, (2.0, 3.0), Inner(1000, np.arange(6, dtype=np.int16).reshape(2, 3)), rows, np.zeros((2, 2))
    )
    loop = compiled.kernels.Loop(compiled.built("test", summed, {}, ((), (), ()), frozenset(), layout_of(given)))
    loop(given)
    total = 100 + 7 + 0.5 + 6 + 1000 + sum(given.inner.table[i, j] * (i + 10 * j) for i in range(2) for j in range(3))
    assert given.out.tolist() == [[0, total], [0, 0]]
    assert rows.tolist() == [(False, 0), (True, total)]
    loop(given._replace(count=8, out=(other := np.zeros((3, 2)))))
    assert (other[0, 1], given.out[0, 1]) == (total + 1, total)


def test_what_is_no_number_is_refused() -> None:
    for wrong in ("text", None, np.zeros((4, 4))[:, ::2], {}):
        with pytest.raises(TypeError, match="must be numbers, contiguous arrays and tuples of them, not"):
            layout_of(Inner(1, wrong))
