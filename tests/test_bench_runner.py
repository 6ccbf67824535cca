"""Runs end with all their cells, whatever kills them, and say in one line what went wrong."""

import errno
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import bench_dummies as dummies
import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import taciturn
from taciturn import envs
from taciturn.bench import progress
from taciturn.bench.results import Cell, Result, Results
from taciturn.bench.runner import Backend, run_study
from taciturn.bench.store import BenchError, Store, StoreError, code, gather, states, write_bytes
from taciturn.bench.study import Plot
from taciturn.bench.tables import origin_table

HERE = Path(__file__).parent


def start_slow(out: Path, backend: str, log: Path, *more: str) -> subprocess.Popen[str]:
    """The slow study in a process group of its own."""
    command = [sys.executable, str(HERE / "bench_dummies.py"), str(out), backend, str(log), *more]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)


def started(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").split() if log.exists() else []


def finished(out: Path) -> set[str]:
    return {file.stem for file in (out / "cells").glob("*.parquet")}


def wait_until_stuck(process: subprocess.Popen[str], out: Path, log: Path) -> None:
    """Until five cells are finished and another has started."""
    deadline = time.monotonic() + 60
    while len(finished(out)) < 5 or len(started(log)) < 6:
        assert process.poll() is None, "the run ended too early"
        assert time.monotonic() < deadline, "the run did not get going"
        time.sleep(0.01)


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_kill_9_loses_nothing_that_was_finished(backend: str, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with start_slow(out, backend, log) as process:
        wait_until_stuck(process, out, log)
        os.killpg(process.pid, signal.SIGKILL)
    kept = finished(out)
    keys = [cell.key for cell in dummies.Slow().cells(False)]
    assert kept == set(keys[:5])
    with start_slow(out, backend, log, "resume") as process:
        _, message = process.communicate(timeout=60)
    assert process.returncode == 0, message
    assert f"{len(kept)} of {len(keys)} cells are already finished" in message
    runs = started(log)
    assert all(runs.count(key) == 1 for key in kept), "a finished cell ran again"
    assert all(1 <= runs.count(key) <= 2 for key in keys)
    assert len(runs) - len(keys) <= 2, "more cells were lost than were in flight"
    table = pq.read_table(out / "results.parquet")
    assert list(dict.fromkeys(table["key"].to_pylist())) == keys
    assert table.num_rows == len(keys) * 1001
    assert not list(out.rglob("*.tmp"))
    assert Store(out).manifest()["finished"]


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_ctrl_c_stops_at_once_and_can_be_resumed(backend: str, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with start_slow(out, backend, log) as process:
        wait_until_stuck(process, out, log)
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "interrupted with 5 of 10 cells finished: continue with --resume" in message
    assert message.rstrip().endswith("KeyboardInterrupt")
    assert message.count("Traceback") == 1, "workers stay silent"
    assert Store(out).load().num_rows == 5 * 1001


def test_ctrl_c_does_not_wake_workers_that_are_being_born(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    births = tmp_path / "births"
    monkeypatch.setenv("BENCH_BIRTHS", str(births))
    with start_slow(tmp_path / "out", "process", tmp_path / "log") as process:
        deadline = time.monotonic() + 60
        while not births.exists():
            assert process.poll() is None, "the run ended too early"
            assert time.monotonic() < deadline, "the run did not get going"
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=60)
    assert process.returncode != 0
    assert message.count("Traceback") == 1, message
    assert "interrupted with 0 of 10 cells finished: continue with --resume" in message


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with start_slow(out, "process", log) as process:
        wait_until_stuck(process, out, log)
        process.kill()
        process.communicate(timeout=60)  # ends when the last worker has closed the pipe


def test_serial_and_process_give_the_same_bits(tmp_path: Path) -> None:
    tables = []
    backends: tuple[Backend, ...] = ("serial", "process")
    for backend in backends:
        store = Store(tmp_path / backend)
        summary = run_study([dummies.Noise()], store, quick=True, backend=backend, workers=2)
        assert (summary.planned, summary.finished, summary.failed) == (72, 72, [])
        tables.append(store.load().drop_columns(["wall_seconds"]))
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_a_cell_that_raises_does_not_stop_the_others(
    backend: Backend, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study, store = dummies.Failing(), Store(tmp_path)
    summary = run_study([study], store, backend=backend, workers=2)
    assert summary.finished == 2
    assert sorted(summary.failed) == sorted(tmp_path.glob("failed/*.txt"))
    text = summary.failed[0].read_text(encoding="utf-8")
    assert "failing: " in text
    assert "in run" in text
    assert text.rstrip().endswith("RuntimeError: odd seeds\nare not served")
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("seed=" in line and "RuntimeError: odd seeds are not served" in line for line in lines)
    again = run_study([study], store, backend=backend, workers=2, resume=True)
    assert (again.reused, again.finished, len(again.failed)) == (2, 0, 2)


def failures(store: Store) -> dict[str, str]:
    """What the store tells of each failed cell of the hostile study: `{way: text}`."""
    texts = [file.read_text(encoding="utf-8") for file in store.failed.iterdir()]
    return {json.loads(text.split("config: ")[1].splitlines()[0])["way"]: text for text in texts}


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_whatever_a_cell_raises_is_recorded_and_the_others_finish(
    backend: Backend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exceptions that cannot be sent between processes, that have no text or one that UTF-8 has not, SystemExit; and no
    result."""
    ways = ("unpicklable", "unspeakable", "surrogate", "exit", "nothing", "mapped", "fine")
    monkeypatch.setattr(dummies.Hostile, "ways", ways)
    store = Store(tmp_path)
    summary = run_study([dummies.Hostile()], store, backend=backend, workers=1)
    assert (summary.finished, len(summary.failed)) == (2, 5)
    texts = failures(store)
    assert texts["unpicklable"].endswith("TwoWordsError: two words\n")
    assert texts["surrogate"].endswith("ValueError: half a character: \\ud800\n")
    assert texts["exit"].endswith("SystemExit: a cell that exits\n")
    assert "UnspeakableError" in texts["unspeakable"]
    assert "AttributeError" in texts["nothing"]
    raised = [text for way, text in texts.items() if way != "nothing"]
    assert all("Traceback (most recent call last)" in text and "in run" in text for text in raised)
    assert [group.metrics["value"].tolist() for group in store.results("hostile")] == [[1.0], [1.0]]


def test_a_cell_that_ends_its_process_fails_alone_and_is_run_again_on_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By itself, by a signal (as the system does when memory is short), leaving a child behind, or by the timeout."""
    monkeypatch.setattr(dummies.Hostile, "ways", ("killed", "orphan", "hang", "fine"))
    study, store = dummies.Hostile(), Store(tmp_path)
    summary = run_study([study], store, backend="process", workers=2, timeout=2.0)
    assert (summary.finished, len(summary.failed)) == (1, 3)
    reasons = {way: text.splitlines()[-1] for way, text in failures(store).items()}
    assert reasons == {
        "killed": "its process was killed by SIGKILL (out of memory?)",
        "orphan": "its process ended with exit code 7",
        "hang": "took longer than the timeout of 2 seconds",
    }
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(any(reason in line for line in lines) for reason in reasons.values())
    monkeypatch.setenv("BENCH_HURRY", "1")
    again = run_study([study], store, resume=True)
    assert (again.reused, again.finished, again.failed) == (1, 3, [])
    assert list(store.failed.iterdir()) == []


def test_workers_that_do_not_start_are_one_line(tmp_path: Path) -> None:
    """Not a failure of every cell: the run ends."""
    out, log = tmp_path / "out", tmp_path / "log"
    command = [sys.executable, str(HERE / "bench_dummies.py"), str(out), "process", str(log)]
    told = os.environ | {"BENCH_STILLBORN": "1"}
    ended = subprocess.run(command, env=told, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr.rstrip().endswith(
        "BenchError: a worker process did not start: its process ended with exit code 3"
    )
    assert list((out / "failed").iterdir()) == []


def test_a_study_that_cannot_be_sent_fails_and_leaves_the_others(tmp_path: Path) -> None:
    class Local(dummies.Hostile):
        name = "local"

    summary = run_study([Local(), dummies.Hostile()], Store(tmp_path), backend="process", workers=1)
    assert (summary.finished, len(summary.failed)) == (1, 1)
    assert "Local" in summary.failed[0].read_text(encoding="utf-8")


def test_old_tracebacks_go(tmp_path: Path) -> None:
    """When the cell succeeds, when it is found finished (the run was killed in between), and when it is no longer
    planned."""
    study, store = dummies.Failing(), Store(tmp_path)
    run_study([study], store)
    one, three = (Cell("failing", {}, seed) for seed in (1, 3))
    assert {file.stem for file in store.failed.iterdir()} == {one.key, three.key}
    store.write(one, Result({"value": 1.0}), 1.0)
    assert {file.stem for file in store.failed.iterdir()} == {three.key}
    store.fail(one, "left over")
    assert store.begin([study], {"failing": [one, three]}, quick=False, resume=True) == {one.key}
    assert {file.stem for file in store.failed.iterdir()} == {three.key}
    store.begin([study], {"failing": [one]}, quick=False, resume=True)
    assert list(store.failed.iterdir()) == []


def test_a_folder_of_two_studies_keeps_the_failures_of_both(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run_study([dummies.Failing()], store, progress=False)
    failed = sorted(file.name for file in store.failed.iterdir())
    run_study([dummies.Noise()], store, quick=True, progress=False, resume=True, where={"privacy.epsilon": 1.0})
    assert sorted(file.name for file in store.failed.iterdir()) == failed != []
    assert set(store.plan()) == {"failing", "noise"}
    run_study([dummies.Failing()], store, progress=False, resume=True)
    assert store.manifest()["quick"], "the other study is"
    both = [dummies.Failing(), dummies.Noise()]
    store.begin(both, {"failing": [], "noise": []}, quick=False, resume=True)
    assert not store.manifest()["quick"], "both are run in full"


@pytest.mark.parametrize("quick", [(True, False), (False, True), (True, True), (False, False)])
def test_a_gathered_folder_of_two_studies_is_quick_if_either_is(quick: tuple[bool, bool], tmp_path: Path) -> None:
    run_study([dummies.Failing()], Store(tmp_path / "a"), quick=quick[0], progress=False)
    few = {"privacy.epsilon": 1.0, "policy": "Plain"}
    run_study([dummies.Noise()], Store(tmp_path / "b"), quick=quick[1], progress=False, where=few)
    found = gather([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    assert found.manifest()["quick"] is any(quick)
    assert {file.name for file in found.failed.iterdir()} == {file.name for file in (tmp_path / "a/failed").iterdir()}


def test_a_second_writer_is_refused_in_one_line_and_a_dead_one_is_not_waited_for(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with start_slow(out, "serial", log) as process:
        try:
            wait_until_stuck(process, out, log)
            second = rf"out is being written to by process {process.pid} on .*: wait for it, or choose another --out"
            with pytest.raises(StoreError, match=second):
                run_study([dummies.Failing()], Store(out), resume=True)
            with pytest.raises(StoreError, match="is not empty: continue with --resume"):
                run_study([dummies.Failing()], Store(out))
            assert set(Store(out).plan()) == {"slow"}
        finally:
            process.kill()
    assert run_study([dummies.Failing()], Store(out), resume=True).finished == 2
    with Store(out).locked(resume=True), pytest.raises(StoreError, match=f"process {os.getpid()} "):
        run_study([dummies.Failing()], Store(out), resume=True)
    assert run_study([dummies.Failing()], Store(out), resume=True).reused == 2


@pytest.mark.parametrize("name", ["manifest.json", "plan.json"])
def test_a_manifest_or_plan_of_the_wrong_shape_is_one_line(name: str, tmp_path: Path) -> None:
    store, lacking = Store(tmp_path), ("code", "commit", "processor", "streams")  # manifests of earlier versions
    run_study([dummies.Failing()], store)
    right = json.loads((tmp_path / name).read_bytes())
    wrong: list[Any] = [[], 3, None, "text", dict.fromkeys(right, 3)]
    if name == "plan.json":
        wrong += [{"failing": 1}, {"failing": ["../../secret"]}, {"failing": [["a"]]}, {"failing": {"a": "b"}}]
    else:
        wrong += [{key: right[key] for key in right if key != lost} for lost in right if lost not in lacking]
        wrong += [right | {key: 0.5} for key in right]
        wrong += [
            right | {"seeds": {"failing": [0, "1"]}},
            right | {"earlier_runs": [{}]},
            right | {"libraries": {"x": 1}},
        ]
    texts = [*map(json.dumps, wrong), "[" * 100_000, "{", ""]
    for text in texts:
        (tmp_path / name).write_text(text, encoding="utf-8")
        for ask in (store.load, lambda: run_study([dummies.Failing()], store, resume=True)):
            with pytest.raises(
                StoreError, match=rf"{name} (cannot be read|was not written by taciturn): choose another"
            ):
                ask()
    (tmp_path / name).write_text(json.dumps(right), encoding="utf-8")
    assert store.load().num_rows


def test_names_of_curves_and_figures_cannot_leave_the_folder() -> None:
    for name in ("../up", "a/b", "/etc/x", "a\\b", "..", ".hidden", "", "a\0", "a b", "\u00e9", "-x", "x" * 300):
        with pytest.raises(ValueError, match="name of a curve must be up to 100 letters"):
            Result({"a": 1.0}, {name: ([0], [0])})
        with pytest.raises(ValueError, match="name of a figure must be up to 200 letters"):
            Plot(name, Figure(), "")


def test_some_cells_of_a_study_are_run_by_their_entries(tmp_path: Path) -> None:
    study, store = dummies.Noise(), Store(tmp_path / "out")
    with pytest.raises(ValueError, match=r"where must leave cells of noise, and none has policy=Nobody$"):
        run_study([study], store, quick=True, where={"policy": "Nobody"})
    assert not store.path.exists()
    some = {"policy": "Plain", "privacy.epsilon": 1.0}
    run_study([study], store, quick=True, where=some)
    results, cells = store.results(study.name), study.cells(quick=True)
    expected = [cell for cell in cells if cell.config["policy"] == "Plain" and cell.config["privacy"]["epsilon"] == 1.0]
    assert 0 < sum(group.seeds.size for group in results) == len(expected) < len(cells)
    assert all(group.config in [cell.config for cell in expected] for group in results)
    assert run_study([study], store, quick=True, resume=True).reused == len(expected), "and the others follow"
    run_study([study], other := Store(tmp_path / "first"), quick=True, where=some | {"seed": 0})
    assert [group.seeds.tolist() for group in other.results(study.name)] == [[0]] * len(results.groups)


def test_results_are_grouped_by_configuration(tmp_path: Path) -> None:
    study, store = dummies.Noise(), Store(tmp_path / "out")
    run_study([study], store, quick=True)
    results = Results.from_table(store.load())
    assert len(results) == 24
    assert results.varying == ["world.agents", "policy", "privacy.epsilon"]
    assert results.constant == {"world.name": "toy"}
    group = results.one(policy="Plain", world={"agents": 100}, privacy={"epsilon": 1.0})
    assert group.seeds.tolist() == [0, 1, 2]
    cell = Cell(study.name, group.config, 1)
    expected = study.run(cell)
    assert group.metrics["reward"][1] == expected.metrics["reward"]
    x, y = group.curves["reward_so_far"][1]
    np.testing.assert_array_equal(x, expected.curves["reward_so_far"][0])
    np.testing.assert_array_equal(y, expected.curves["reward_so_far"][1])
    assert list(group.config) == ["world", "policy", "privacy"], "tables show entries in the author's order"
    panels = study.panels(results)
    assert [title for title, _ in panels] == ["agents=10", "agents=100"]
    reference = study.reference_group(panels[0][1])
    assert reference is not None
    assert study.row_label(reference, results) == "Clever"
    assert study.row_label(group, results) == "Plain, epsilon=1.0"
    with pytest.raises(ValueError, match="one configuration must match"):
        results.one(policy="Plain")
    assert len(results.select(policy="Plain")) == 8
    assert json.dumps(results.one(**group.config).config) == json.dumps(group.config)
    assert len(Results.from_table(store.load().slice(0, 0))) == 0


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match="is not empty: continue with --resume, or choose another --out"):
        run_study([dummies.Failing()], Store(tmp_path))
    with pytest.raises(StoreError, match=r"holds no benchmark results \(manifest.json is missing\)"):
        run_study([dummies.Failing()], Store(tmp_path), resume=True)
    with pytest.raises(StoreError, match="is not a folder"):
        run_study([dummies.Failing()], Store(tmp_path / "thesis.tex"))
    with pytest.raises(StoreError, match="holds no benchmark results"):
        Store(tmp_path / "nowhere").load()
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_no_flipped_byte_goes_unnoticed(tmp_path: Path) -> None:
    store, cell = Store(tmp_path), Cell("failing", {}, 0)
    run_study([dummies.Failing()], store)
    store.write(cell, Result({"value": 1.0}, {"noise": (range(99), np.random.default_rng(0).normal(size=99))}), 1.0)
    before, file = store.load(), store.cells / f"{cell.key}.parquet"
    data = file.read_bytes()
    refused = 0
    for place in range(0, len(data), 7):
        file.write_bytes(data[:place] + bytes([data[place] ^ 128]) + data[place + 1 :])
        try:
            assert store.load().equals(before), f"byte {place}"
        except StoreError:
            refused += 1
    assert refused > len(data) / 7 / 4


@pytest.mark.parametrize("damage", ["cut", "foreign", "empty"])
def test_a_corrupt_cell_is_refused_and_replaced_on_resume(damage: str, tmp_path: Path) -> None:
    study, store = dummies.Noise(), Store(tmp_path)
    run_study([study], store, quick=True)
    before = store.load().drop_columns(["wall_seconds"])
    file, other = sorted(store.cells.glob("*.parquet"))[:2]
    file.write_bytes({"cut": file.read_bytes()[:500], "foreign": other.read_bytes(), "empty": b""}[damage])
    with pytest.raises(StoreError, match=rf"{file.name} .*--resume to replace it"):
        store.load()
    summary = run_study([study], store, quick=True, resume=True)
    assert (summary.reused, summary.finished) == (71, 1)
    assert (tmp_path / "corrupt" / file.name).exists()
    assert store.load().drop_columns(["wall_seconds"]).equals(before)


def test_a_full_disk_keeps_finished_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store, write = dummies.Noise(), Store(tmp_path), os.fsync
    calls = iter(range(10))

    def full(descriptor: int) -> None:
        if next(calls) == 7:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StoreError, match=r"cannot write .*No space left on device \(finished cells are kept: --resume\)"
    ):
        run_study([study], store, quick=True)
    monkeypatch.undo()
    assert len(finished(tmp_path)) == 5
    assert not list(tmp_path.rglob("*.tmp"))
    assert run_study([study], store, quick=True, resume=True).reused == 5


def test_leftovers_of_a_killed_write_are_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / ".manifest.json.tmp").write_bytes(b"{")
    run_study([dummies.Failing()], store)
    leftover = store.cells / f".{'0' * 64}.parquet.tmp"
    leftover.write_bytes(b"half a cell")
    store.load()
    run_study([dummies.Failing()], store, resume=True)
    assert not list(tmp_path.rglob("*.tmp"))


def test_another_version_or_plan_is_reported_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    study, store = dummies.Failing(), Store(tmp_path)
    monkeypatch.setattr(dummies.Failing, "seeds", [0, 2])
    run_study([study], store)
    monkeypatch.setattr(dummies.Failing, "seeds", [2, 6, 8])
    assert run_study([study], store, resume=True).reused == 1
    assert "1 of 3 cells are already finished and are not run again" in capfd.readouterr().err
    assert Results.from_table(store.load()).one().seeds.tolist() == [2, 6, 8]
    monkeypatch.setattr(taciturn, "__version__", "999")
    assert run_study([study], store, resume=True).reused == 0
    assert Results.from_table(store.load()).one().seeds.tolist() == [2, 6, 8]
    run_study([dummies.Noise()], store, quick=True, resume=True)
    assert set(store.plan()) == {"failing", "noise"}
    manifest = store.manifest()
    assert manifest["taciturn"] == "999"
    assert [run["taciturn"] for run in manifest["earlier_runs"]] == ["0.1.0", "0.1.0", "999"]
    assert manifest["seeds"] == {"failing": [2, 6, 8], "noise": [0, 1, 2]}
    assert {"numpy", "scipy", "pyarrow"} <= set(manifest["libraries"])


def test_code_that_changed_between_runs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Between releases the version stays, and so do finished cells: the folder says how many states of the code it
    holds."""
    study, store, told = dummies.Failing(), Store(tmp_path), "taciturn's code has changed since some of them were run"
    first = code()
    assert first == code()
    run_study([study], store)
    run_study([study], store, resume=True)
    assert told not in capfd.readouterr().err
    assert states(store.manifest()) == [first]
    monkeypatch.setattr("taciturn.bench.store.code", lambda: "changed")
    run_study([study], store, resume=True)
    assert told in capfd.readouterr().err
    assert states(store.manifest()) == [first, "changed"]
    assert any(f"code {first}, then changed" in row[1] for row in origin_table(store.manifest()).rows)


def test_the_fingerprint_is_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(envs.__path__[0])
    copy = tmp_path / "envs"
    shutil.copytree(package, copy)
    before = code()
    monkeypatch.setattr(envs, "__path__", [str(copy)])
    assert code() == before
    (copy / "core/fields.py").write_text("# another one\n")
    assert code() != before


def test_arguments_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, store = dummies.Failing(), Store(tmp_path / "out")
    with pytest.raises(ValueError, match="backend must be one of serial, process, ray, not 'thread'"):
        run_study([study], store, backend="thread")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers must be at least 1, not 0"):
        run_study([study], store, workers=0)
    for wrong in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="timeout must be a positive number of seconds, not"):
            run_study([study], store, timeout=wrong)
    with pytest.raises(
        ValueError, match="timeout must be None with backend serial: only backend process can stop a cell"
    ):
        run_study([study], store, timeout=1.0)
    with pytest.raises(ValueError, match="cells must differ"):
        run_study([study, study], store)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BenchError, match=r"needs ray: run pip install '\.\[ray\]' in a clone of taciturn"):
        run_study([study], store, backend="ray")


def test_a_worker_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most once a second, with the cell that runs longest and for how long: no label stands for minutes."""
    seen = list[tuple[str, float]]()
    shown = progress.Bar.running

    def running(bar: progress.Bar, item: str, fraction: float = 0.0) -> None:
        seen.append((item, fraction))
        shown(bar, item, fraction)

    monkeypatch.setattr(progress.Bar, "running", running)
    run_study([dummies.Exchange()], Store(tmp_path), backend="process", workers=1)
    shares = sorted({fraction for _, fraction in seen})
    assert 2 <= len(shares) <= 4
    assert shares[0] == 0
    assert 0.25 < shares[1] < 0.6
    labels = {item for item, _ in seen if item.startswith("telling: policy=Slow, seed=0, for ")}
    assert len(labels) >= 3


def test_nothing_is_written_over_in_place(tmp_path: Path) -> None:
    file = tmp_path / "a"
    write_bytes(file, b"old")
    with file.open("rb") as reader:
        write_bytes(file, b"new")
        assert reader.read() == b"old"
    assert file.read_bytes() == b"new"


def test_the_bar_is_silent_on_short_runs_and_outside_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*, terminal: bool, after: float) -> str:
        monkeypatch.setattr(progress, "AFTER_SECONDS", after)
        console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
        with progress.bar(console, 3) as bar:
            bar.running("cell one", 0.5)
            time.sleep(0.1)
            bar.finished("cell one")
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert shown(terminal=True, after=60) == ""
    assert shown(terminal=False, after=0) == ""
    assert "cell one" in shown(terminal=True, after=0)


@pytest.mark.parametrize(
    ("items", "finished", "running", "said"),
    [
        (3, ["cell one"], ("cell two", 0.5), "1.5 of 3 done after 0.0 minutes: cell two"),
        (3, ["cell one"], ("cell two", 0.123), "1.1 of 3 done after 0.0 minutes: cell two"),
        (1, [], ("PPO: 9 of 120 steps", 0.075), "8% done after 0.0 minutes: PPO: 9 of 120 steps"),
    ],
)
def test_a_line_tells_from_time_to_time_outside_terminals(
    items: int, finished: list[str], running: tuple[str, float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.01)
    written = io.StringIO()
    with progress.bar(Console(file=written, force_terminal=False, width=200), items) as bar:
        for one in finished:
            bar.finished(one)
        bar.running(*running)
        until = time.monotonic() + 30
        while said not in written.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    assert f"{said}\n" in written.getvalue()


def test_a_line_of_progress_names_policy_environment_budget_and_seed() -> None:
    config = {"env": "gossip_bandit_v0", "env_params": {"num_agents": 20}, "policy": "PPCL", "budget": 3.0}
    assert Cell("agents", config, 2).brief == "agents: PPCL in gossip_bandit_v0@3, seed 2"
    assert Cell("agents", config | {"budget": "none"}, 2).brief == "agents: PPCL in gossip_bandit_v0, seed 2"
    assert Cell("other", {"k": 3}, 0).brief == "other: k=3, seed=0"
