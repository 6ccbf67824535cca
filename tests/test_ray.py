"""On a Ray cluster of two nodes no cell is lost and none is finished twice, whatever dies; run where ray is
installed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bench_dummies as dummies
import pytest
from test_current_folder import COMMAND, STUDY, plant, python

from taciturn.bench import runner
from taciturn.bench.runner import RETRIES, run_study
from taciturn.bench.store import BenchError, Store

ray: Any = pytest.importorskip("ray")

pytestmark = [pytest.mark.rllib, pytest.mark.filterwarnings("ignore")]

HERE = Path(__file__).parent
DRIVER = """
import sys
from pathlib import Path
from bench_dummies import Mortal
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store
out, log, *resume = sys.argv[1:]
ways = {} if resume else dict.fromkeys(range(5, 10), "hangs")
run_study([Mortal(Path(log), ways)], Store(out), backend="ray", resume=bool(resume))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one core each, to which this process is connected."""
    from ray.cluster_utils import Cluster

    soon = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        environment.setenv("RAY_worker_niceness", "0")  # 15 by default: workers starve beside other tests
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": soon})
        made.add_node(num_cpus=1)
        made.wait_for_nodes()
        ray.init(address=made.address, log_to_driver=False)
        yield made
        ray.shutdown()
        made.shutdown()


def wait_until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def bits(out: Path) -> Any:
    return Store(out).load().drop_columns(["wall_seconds"])


def undisturbed(folder: Path) -> Any:
    """What the mortal study gives in this process if nothing dies."""
    run_study([dummies.Mortal(folder / "undisturbed.log")], Store(folder / "undisturbed"))
    return bits(folder / "undisturbed")


def test_two_nodes_give_the_same_bits_as_one_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most, wait = 0, ray.wait

    def watched(refs: list[Any], **how: Any) -> Any:
        nonlocal most
        most = max(most, len(refs))
        return wait(refs, **how)

    monkeypatch.setattr(ray, "wait", watched)
    monkeypatch.setattr(runner, "IN_FLIGHT", 10)
    summary = run_study([dummies.Noise()], Store(tmp_path / "ray"), quick=True, backend="ray")
    run_study([dummies.Noise()], Store(tmp_path / "serial"), quick=True)
    assert (summary.planned, summary.finished, summary.failed) == (72, 72, [])
    assert bits(tmp_path / "ray").equals(bits(tmp_path / "serial"))
    assert most == 10


def test_a_dead_worker_costs_an_attempt_and_what_raises_is_not_repeated(
    cluster: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    study = dummies.Mortal(tmp_path / "log", {2: "dies once", 4: "dies", 6: "raises"})
    store = Store(tmp_path / "out")
    summary = run_study([study], store, backend="ray")
    assert (summary.finished, len(summary.failed)) == (8, 2)
    starts, ends = (Counter(seed for seed, _ in study.noted(what)) for what in ("start", "end"))
    assert starts == dict.fromkeys(range(10), 1) | {2: 2, 4: 1 + RETRIES}
    assert ends == dict.fromkeys([0, 1, 2, 3, 5, 7, 8, 9], 1)
    texts = [file.read_text(encoding="utf-8") for file in summary.failed]
    assert sum("RuntimeError: as it was told" in text for text in texts) == 1
    assert sum("WorkerCrashedError" in text for text in texts) == 1
    told = capfd.readouterr().err
    assert told.count("lost with its worker or node, and started again: mortal: seed=2\n") == 1
    assert told.count("lost with its worker or node, and started again: mortal: seed=4\n") == RETRIES
    assert f"failed: mortal: seed=4: its worker or node died {1 + RETRIES} times: ray.exceptions.WorkerCrashed" in told
    study.ways = {}
    again = run_study([study], store, backend="ray", resume=True)
    assert (again.reused, again.finished) == (8, 2)
    assert Counter(seed for seed, _ in study.noted("end")) == dict.fromkeys(range(10), 1)
    assert bits(store.path).equals(undisturbed(tmp_path))


def test_cells_of_a_dead_node_run_on_another(cluster: Any, tmp_path: Path) -> None:
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    study = dummies.Mortal(tmp_path / "log", doomed=doomed.node_id)

    def kill() -> None:
        try:
            wait_until(lambda: bool(study.noted("hang")), "no cell hangs on the node")
        finally:
            cluster.remove_node(doomed, allow_graceful=False)

    with ThreadPoolExecutor() as pool:
        killer = pool.submit(kill)
        summary = run_study([study], Store(tmp_path / "out"), backend="ray")
        killer.result()
    assert (summary.finished, summary.failed) == (10, [])
    assert len(study.noted("start")) == 11
    assert Counter(seed for seed, _ in study.noted("end")) == dict.fromkeys(range(10), 1)
    assert bits(tmp_path / "out").equals(undisturbed(tmp_path))


def test_a_dead_driver_is_resumed(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    out, study = tmp_path / "out", dummies.Mortal(tmp_path / "log")
    command = [sys.executable, "-c", DRIVER, str(out), str(study.log)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as driver:
        wait_until(lambda: len(study.noted("hang")) == 2, "not every node has a cell that hangs")
        kept = len(study.noted("end"))
        wait_until(lambda: len(list((out / "cells").glob("*.parquet"))) == kept, "finished cells are not written")
        os.killpg(driver.pid, signal.SIGKILL)
    orphans = [process for _, process in study.noted("hang")]
    wait_until(lambda: not any(map(alive, orphans)), "cells outlive their driver")
    resumed = subprocess.run([*command, "resume"], capture_output=True, text=True, timeout=300, check=False)
    assert resumed.returncode == 0, resumed.stderr
    assert f"{kept} of 10 cells are already finished" in resumed.stderr
    assert Counter(seed for seed, _ in study.noted("end")) == dict.fromkeys(range(10), 1)
    assert len(study.noted("start")) == 10 + len(orphans)
    assert bits(out).equals(undisturbed(tmp_path))


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_node_with_other_code_ends_the_run(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "code", lambda: "other")
    with pytest.raises(BenchError, match=r"taciturn has other code on node .* \(.*\) than here \(other\)"):
        run_study([dummies.Noise()], Store(tmp_path), quick=True, backend="ray")


def test_workers_take_from_the_current_folder_what_was_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, ["gymnasium", "numpy", "random"])
    (tmp_path / "mine.py").write_text(STUDY, encoding="utf-8")
    (tmp_path / "helper.py").write_text("value = float\n", encoding="utf-8")
    told = python("-m", "taciturn", *COMMAND, "--backend", "ray", folder=tmp_path)
    assert json.loads(told)["studies"]["tiny"]["groups"][0]["metrics"] == {"value": [0.0, 1.0]}
    assert [*tmp_path.glob("*.ran")] == []
