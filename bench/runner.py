"""Run the cells of studies, in this process or in workers, into a store; an interrupted run can be resumed."""

import contextlib
import functools
import importlib
import math
import multiprocessing
import os
import pickle
import platform
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Literal

from taciturn import current_folder
from taciturn.bench.progress import Bar, bar, stderr
from taciturn.bench.results import Cell, Config, Progress, Result, describe, matches
from taciturn.bench.store import BenchError, Store, code, states
from taciturn.bench.study import Study

Backend = Literal["serial", "process", "ray"]
Task = tuple[Study, Cell]
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
# Otherwise a process started by Python would import its own modules from the current folder first.
WORKERS = ONE_THREAD | {"PYTHONSAFEPATH": "1"}
RETRIES = 3
"""How often a ray cluster restarts a cell after its worker or node has died."""
IN_FLIGHT = 1000
"""Most cells submitted to a ray cluster: more than its cores, but few enough to wait for."""


@dataclass
class Summary:
    """Outcome of a run: numbers of cells, and the files with the tracebacks of those that failed."""

    planned: int
    reused: int
    finished: int = 0
    failed: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class Failure:
    """Why a cell failed, in one line, and its traceback: text, because not every exception can be sent between
    processes."""

    reason: str
    details: str

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """The failure described by an exception."""
        reason = " ".join("".join(traceback.format_exception_only(error)).split())
        details = "".join(traceback.format_exception(error))
        return cls(*(text.encode("utf-8", "backslashreplace").decode() for text in (reason, details)))


Outcome = tuple[Result, float] | Failure
Outcomes = Generator[tuple[Cell, Outcome]]


def run_study(
    studies: Sequence[Study],
    store: Store,
    *,
    quick: bool = False,
    backend: Backend = "serial",
    workers: int | None = None,
    resume: bool = False,
    progress: bool = True,
    timeout: float | None = None,
    where: Config | None = None,
    shard: str | None = None,
) -> Summary:
    """Run every cell of the studies that the store does not hold yet, one thread per worker.

    `where` selects cells by entries of their configuration, or by `seed`, with dots for nested names: {"policy":
    "PPCL"}.

    `workers` is the number of processes (default: one per core). A cell that raises or calls `sys.exit` is listed in
    the summary and does not stop the others; with workers, so is a cell that ends its process or takes longer than
    `timeout` seconds. The backend `serial` runs cells in this process and cannot stop them, so it takes no timeout. On
    a ray cluster a cell is started again after its worker or node dies, up to `RETRIES` times, on any free node.

    `shard` "i/n" runs every n-th cell, from the i-th on; `taciturn.bench.store.gather` puts the folders of all n
    together.

    Raises StoreError if the store cannot be used or another process writes to it, BenchError if workers do not start,
    and KeyboardInterrupt immediately on Ctrl-C: running cells are lost, finished ones are stored.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    if timeout is not None and not 0 < timeout < math.inf:
        raise ValueError(f"timeout must be a positive number of seconds, not {timeout}")
    if timeout is not None and backend != "process":
        raise ValueError(f"timeout must be None with backend {backend}: only backend process can stop a cell")
    if backend == "ray":
        _imported_ray()  # before anything is written
    first, shards = _shard(shard)
    plan = {
        study.name: [cell for cell in study.cells(quick) if matches({"seed": cell.seed} | cell.config, where or {})]
        for study in studies
    }
    if not any(plan.values()):
        raise ValueError(f"where must leave cells of {', '.join(plan)}, and none has {describe(where or {})}")
    tasks = [(study, cell) for study in studies for cell in plan[study.name]]
    if len({cell.key for _, cell in tasks}) < len(tasks):
        raise ValueError("cells must differ in study, configuration or seed, but some are duplicates")
    tasks = tasks[first - 1 :: shards]
    console = stderr()
    with store.locked(resume=resume), environment_of_workers():
        done = store.begin(studies, plan, quick=quick, resume=resume) & {cell.key for _, cell in tasks}
        summary = Summary(planned=len(tasks), reused=len(done))
        if resume:
            console.print(f"{len(done)} of {len(tasks)} cells are already finished and are not run again")
            if done and len(states(store.manifest())) > 1:
                changed = "taciturn's code has changed since some of them were run"
                console.print(f"{changed}: use a fresh --out for results from one version")
        tasks = [(study, cell) for study, cell in tasks if cell.key not in done]
        with bar(console, len(tasks), shown=progress) as shown:
            outcomes = BACKENDS[backend](tasks, workers or os.cpu_count() or 1, timeout, shown)
            try:
                with contextlib.closing(outcomes):
                    for cell, outcome in outcomes:
                        if isinstance(outcome, Failure):
                            summary.failed.append(store.fail(cell, outcome.details))
                            console.print(f"failed: {cell.label}: {outcome.reason} ({summary.failed[-1]})")
                        else:
                            store.write(cell, *outcome)
                            summary.finished += 1
                        shown.finished(cell.brief)
            except KeyboardInterrupt:
                finished = f"{summary.reused + summary.finished} of {summary.planned} cells finished"
                console.print(f"interrupted with {finished}: continue with --resume")
                raise
        store.finish()
    return summary


def _shard(text: str | None) -> tuple[int, int]:
    """`(i, n)` from "i/n"; (1, 1) from None."""
    result = re.fullmatch(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})", "1/1" if text is None else text)
    if result is None or int(result[1]) > int(result[2]):
        raise ValueError(f"shard must be i/n with whole numbers 1 <= i <= n, as 2/8, not {text!r}")
    return int(result[1]), int(result[2])


@contextlib.contextmanager
def environment_of_workers() -> Iterator[None]:
    """One thread for numeric libraries in workers started within this context, and for PyTorch in this process as well;
    modules in the current folder do not shadow Python's own.

    The processes share the cores, and sums are evaluated in the same order everywhere.
    """
    before = {name: os.environ.get(name) for name in WORKERS}
    os.environ.update(WORKERS)
    torch = importlib.import_module("torch") if "torch" in sys.modules else None
    threads = torch.get_num_threads() if torch else 1
    if torch:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch:
            torch.set_num_threads(threads)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _execute(study: Study, cell: Cell, progress: Progress | None = None) -> Outcome:
    """The result of a cell, or its exception, including `SystemExit`."""
    start = time.perf_counter()
    try:
        result = study.run(cell, progress)
        return Result(result.metrics, result.curves), time.perf_counter() - start
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Failure.of(error)


def _serial(tasks: Sequence[Task], workers: int, timeout: float | None, bar: Bar) -> Outcomes:
    for study, cell in tasks:
        bar.running(cell.brief)
        yield cell, _execute(study, cell, partial(bar.running, cell.brief))


def _process(tasks: Sequence[Task], workers: int, timeout: float | None, bar: Bar) -> Outcomes:
    """Worker processes, spawned so they inherit no thread or generator state; a process that ends is replaced."""
    left, pool, idle = deque[tuple[Cell, bytes]](), list[_Worker](), list[_Worker]()
    for study, cell in tasks:
        try:
            left.append((cell, bytes(ForkingPickler.dumps((study, cell)))))
        except Exception as error:
            yield cell, Failure.of(error)
    try:
        while left or pool:
            with _ctrl_c_blocked():
                while left and len(pool) < workers:
                    pool.append(_Worker(*left.popleft()))
            # At least once a second, because a process left behind by a cell can keep both ends of a dead worker's pipe
            # open.
            soon = min(1, max(0, min(worker.deadline for worker in pool) - time.monotonic()))
            connection.wait([end for worker in pool for end in (worker.pipe, worker.process.sentinel)], soon)
            for worker in list(pool):
                outcome = worker.outcome(timeout)
                if outcome is None:
                    continue
                cell = worker.cell
                if worker.alive and left:
                    worker.give(*left.popleft())
                else:
                    pool.remove(worker)
                    idle.append(worker)
                yield cell, outcome
            if pool:
                longest = min(pool, key=lambda worker: worker.begun)
                seconds = time.monotonic() - longest.begun
                bar.running(f"{longest.cell.brief}, for {seconds:.0f} s", sum(worker.share for worker in pool))
    except BaseException:
        for worker in pool:
            worker.process.kill()
        raise
    finally:
        for worker in pool + idle:
            worker.pipe.close()
        for worker in pool + idle:
            worker.process.join(10)
            worker.process.kill()


class _Worker:
    """A process that runs one cell after another. It sends None when it has started and when it begins a cell, then the
    fraction done, a number at most once a second, and the outcome.

    Each has a separate pipe. With a shared pipe, as in `concurrent.futures` or pebble, killing a worker that holds the
    pipe's lock stops all others for good.
    """

    def __init__(self, cell: Cell, task: bytes) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(target=_work, args=(theirs, current_folder.looked()))
        self.process.start()
        theirs.close()
        self.alive, self.started = True, False
        self.give(cell, task)

    def give(self, cell: Cell, task: bytes) -> None:
        """Send it a cell to run."""
        self.cell, self.deadline, self.begun, self.share = cell, math.inf, time.monotonic(), 0.0
        with contextlib.suppress(OSError):  # it has ended; `outcome` says so
            self.pipe.send_bytes(task)

    def outcome(self, timeout: float | None) -> Outcome | None:
        """The outcome of its cell, or None while the cell runs; a Failure if the process has ended or is stopped after
        `timeout`. Raises BenchError if the process did not start."""
        running = self.process.is_alive()
        try:
            while self.pipe.poll():
                message: Outcome | float | None = self.pipe.recv()
                self.started = True
                if isinstance(message, float):
                    self.share = message
                    continue
                if message is not None:
                    return message
                self.deadline = time.monotonic() + (timeout or math.inf)
        except (EOFError, OSError):
            self.process.join(1)
            running = False
        late = running and time.monotonic() > self.deadline
        if running and not late:
            return None
        self.alive = False
        self.process.kill()
        self.process.join()
        reason = f"took longer than the timeout of {timeout:g} seconds" if late else _end(self.process.exitcode or 0)
        if not self.started:
            raise BenchError(f"a worker process did not start: {reason}")
        return Failure(reason, f"{reason}\n")


def _end(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    name = next((one.name for one in signal.Signals if one == -code), f"signal {-code}")
    return f"its process was killed by {name}" + " (out of memory?)" * (name == "SIGKILL")


@contextlib.contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Processes started within this context ignore Ctrl-C, even while starting; this process receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # The resource tracker unblocks Ctrl-C when it starts, so it must be running already.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, look: bool) -> None:
    """Run the cells that come through the pipe. Ctrl-C is left to the parent; the worker ends when the parent ends.
    `look`: whether modules may come from the current folder."""
    current_folder.settle()
    if look:
        current_folder.look()
    # For platforms that cannot block signals.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while True:
            task = pipe.recv_bytes()
            try:
                study, cell = ForkingPickler.loads(task)
            except BaseException as error:
                pipe.send(Failure.of(error))
            else:
                pipe.send(None)
                pipe.send(_execute(study, cell, _sparing(pipe.send)))


def _sparing(send: Callable[[float], None]) -> Progress:
    """Send the fraction done, at most once a second."""
    last = time.monotonic()

    def report(done: float) -> None:
        nonlocal last
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            send(float(done))

    return report


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _ray(tasks: Sequence[Task], workers: int, timeout: float | None, bar: Bar) -> Outcomes:
    """Tasks on a ray cluster: the one already initialised, the one named by RAY_ADDRESS, or `workers` local
    processes."""
    ray = _imported_ray()
    mine, folder = not ray.is_initialized(), str(Path.cwd()) if current_folder.searched else ""
    empty = tempfile.TemporaryDirectory()  # the folder in which local workers start
    if mine:
        local = {"address": "local", "num_cpus": workers, "include_dashboard": False}
        # Ray puts this process's folder first on the path of its workers; on the command line it is an empty one.
        with contextlib.chdir(empty.name if folder else "."):
            ray.init(log_to_driver=False, **({} if "RAY_ADDRESS" in os.environ else local))
    # Ray's own retries are off: here each is reported, including those for lack of memory.
    run = ray.remote(_execute_elsewhere).options(max_retries=0, runtime_env={"env_vars": WORKERS})
    own, left = (code(), folder, current_folder.looked()), deque((study, cell, 0) for study, cell in tasks)
    pending: dict[Any, tuple[Study, Cell, int]] = {}
    try:
        while left or pending:
            while left and len(pending) < IN_FLIGHT:
                study, cell, deaths = left.popleft()
                try:
                    pending[run.remote(ray.cloudpickle.dumps((study, cell)), *own)] = study, cell, deaths
                except Exception as error:  # it cannot be sent
                    yield cell, Failure.of(error)
            if not pending:
                break
            (ready,), _ = ray.wait(list(pending), num_returns=1)
            study, cell, deaths = pending.pop(ready)
            try:
                outcome = ray.get(ready)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, BenchError):
                    raise error.cause from None
                outcome = Failure.of(error)
            except ray.exceptions.RayError as error:
                lost = Failure.of(error)
                if deaths < RETRIES:
                    bar.display.console.print(f"lost with its worker or node, and started again: {cell.label}")
                    left.appendleft((study, cell, deaths + 1))
                    continue
                outcome = Failure(f"its worker or node died {deaths + 1} times: {lost.reason}", lost.details)
            yield cell, outcome
    finally:
        for ref in pending:
            ray.cancel(ref, force=True)
        if mine:
            ray.shutdown()
        empty.cleanup()


def _imported_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise BenchError("the ray backend needs ray: run pip install '.[ray]' in a clone of taciturn") from error


def _execute_elsewhere(task: bytes, wanted: str, folder: str, look: bool) -> Outcome:
    """`_execute` on a node, which must have the driver's code, in the driver's folder if it has one; `look`: whether
    modules may come from that folder."""
    result = _code_of_this_process()
    if result != wanted:
        raise BenchError(
            f"taciturn has other code on node {platform.node()} ({result}) than here ({wanted}): install the same on "
            "both"
        )
    if folder:
        with contextlib.suppress(OSError):  # the node may not have it
            os.chdir(folder)
    current_folder.settle()
    if look:
        current_folder.look()
    return _execute(*pickle.loads(task))


@functools.cache
def _code_of_this_process() -> str:
    return code()


BACKENDS = {"serial": _serial, "process": _process, "ray": _ray}
