"""Compiled code: what it is given, how it is kept and loaded, and what happens where it cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_compiled import FEW, is_compiled, waited

from taciturn import envs
from taciturn.compiling import compiled, kernels
from taciturn.compiling.compiled import unpack
from taciturn.compiling.tables import layout_of
from taciturn.envs import round_stopping_v0

PLAYED = """
import logging, sys
import numpy as np
from taciturn.envs import gossip_bandit_v0
from taciturn.compiling import compiled
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
    assert said.startswith("compiling gossip_bandit: some seconds, stored for later runs ('taciturn compile'")
    assert said.count("\n") == 1
    assert played(tmp_path) == (["True", "False", first], "")
    (made, numba, uncompiled), said = played(tmp_path / "nothing", 10**9)
    assert (made, numba, uncompiled, said) == ("False", "False", first, "")


def test_processes_that_start_together_compile_once(tmp_path: Path) -> None:
    environment = os.environ | {"TACITURN_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", PLAYED.format("0")]
    some = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    printed, said = zip(*(one.communicate() for one in some), strict=True)
    assert "".join(said).count("compiling") == 1
    assert len({text.split(maxsplit=2)[2] for text in printed}) == 1
    assert [text.split()[0] for text in printed] == ["True", "True"]


@pytest.mark.parametrize("world", [world.name for world in envs.WORLDS])
def test_no_world_counts_references(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where functions copy or reduce arrays, Numba counts references: that takes twice as long to compile, and all of
    Numba to load."""
    texts, loaded = list[str](), kernels.loaded

    def noted(text: str) -> Any:
        texts.append(text)
        return loaded(text)

    monkeypatch.setattr(kernels, "loaded", noted)
    getattr(envs, world).population(1).build()
    for text in texts:
        head = json.loads(kernels.file_of(text).read_bytes().split(b"\n", 1)[0])
        assert not [name for name in head["needs"] if name.startswith(("NRT_", "Py"))]
    assert texts


def doubled(table: Any) -> None:
    given = unpack(table)
    given.table[0] = 2 * given.number


def build_doubled() -> Any:
    given = Inner(4, np.zeros(1))
    kernels.Loop(compiled.built("doubled", doubled, {}, layout_of(given)))(given)
    return given.table[0]


@pytest.mark.parametrize("damage", [lambda code: b"", lambda code: code[:-100], lambda code: code[:-1] + b"?"])
def test_damaged_code_is_made_again(damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
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
    monkeypatch.setattr("taciturn.compiling.kernels.KERNELS", {})
    for found in ([False] * 10, [False] * 6 + [True] * 4):
        population = round_stopping_v0.population(4, **FEW)
        population.reset(seed=0)
        assert [is_compiled(population) for _ in range(10) if waited(population, 1) is not None] == found
        population.build()


class Inner(NamedTuple):
    number: int
    table: Any


class Given(NamedTuple):
    """All kinds of things that a compiled function can be given."""

    flag: bool
    number: int
    share: float
    inner: Inner
    rows: Any
    out: Any


def summed(table: Any) -> None:
    given = unpack(table)
    total = 100.0 * given.flag + given.number + given.share + given.inner.number
    for i in range(given.inner.table.shape[0]):
        for j in range(given.inner.table.shape[1]):
            total += given.inner.table[i, j] * (i + 10 * j)
    given.rows[1].done = True
    given.rows[1].number += total
    given.out[0, 1] = total


def test_tables_hold_all_kinds_of_values() -> None:
    pytest.importorskip("numba")
    rows = np.zeros(2, np.dtype([("done", np.bool_), ("number", np.float64)], align=True))
    given = Given(True, 7, 0.5, Inner(1000, np.arange(6, dtype=np.int16).reshape(2, 3)), rows, np.zeros((2, 2)))
    loop = kernels.Loop(compiled.built("test", summed, {}, layout_of(given)))
    loop(given)
    total = 100 + 7 + 0.5 + 1000 + sum(given.inner.table[i, j] * (i + 10 * j) for i in range(2) for j in range(3))
    assert given.out.tolist() == [[0, total], [0, 0]]
    assert rows.tolist() == [(False, 0), (True, total)]
    loop(given._replace(number=8, out=(other := np.zeros((3, 2)))))
    assert (other[0, 1], given.out[0, 1]) == (total + 1, total)


def test_what_is_no_number_is_refused() -> None:
    wrong: Any
    for wrong in ("text", None, np.zeros((4, 4))[:, ::2], {}):
        with pytest.raises(TypeError, match="must be numbers, contiguous arrays and NamedTuples of them, not"):
            layout_of(Inner(1, wrong))
