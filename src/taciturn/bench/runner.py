"""Run the cells of studies, in this process or in workers, into a store from which an interrupted run can be resumed."""

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from rich.console import Console

from taciturn.bench.progress import Bar, bar, stderr
from taciturn.bench.results import Cell, Progress, Result
from taciturn.bench.store import BenchError, Store, states
from taciturn.bench.study import Study

Backend = Literal["serial", "process", "ray"]
Task = tuple[Study, Cell]
Outcome = Callable[[], tuple[Result, float]]
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)


@dataclass
class Summary:
    """Outcome of a run: numbers of cells, and the files with the tracebacks of those that failed."""

    planned: int
    reused: int
    finished: int = 0
    failed: list[Path] = field(default_factory=list)


def run_study(
    studies: Sequence[Study], store: Store, *, quick: bool = False, backend: Backend = "serial",
    workers: int | None = None, resume: bool = False, progress: bool = True,
) -> Summary:  # fmt: skip
    """Run every cell of the studies that the store does not hold yet, one thread per worker.

    `workers` is the number of processes (default: one per core). A cell that raises is listed in the summary and does not stop the
    others. Raises StoreError if the store cannot be used, BenchError if a worker was killed, and KeyboardInterrupt immediately on
    Ctrl-C: cells in flight are lost, finished ones are kept.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    plan = {study.name: study.cells(quick) for study in studies}
    tasks = [(study, cell) for study in studies for cell in plan[study.name]]
    if len({cell.key for _, cell in tasks}) < len(tasks):
        raise ValueError("cells must differ in study, configuration or seed, but some are duplicates")
    console = stderr()
    done = store.begin(studies, plan, quick=quick, resume=resume)
    summary = Summary(planned=len(tasks), reused=len(done))
    if resume:
        console.print(f"{len(done)} of {len(tasks)} cells are already finished and are not run again")
        if done and len(states(store.manifest())) > 1:
            changed = "taciturn's code has changed since some of them were run"
            console.print(f"{changed}: use a fresh --out for results from one version")
    tasks = [(study, cell) for study, cell in tasks if cell.key not in done]
    with single_threaded(), bar(console, len(tasks), shown=progress) as shown:
        try:
            with contextlib.closing(BACKENDS[backend](tasks, workers or os.cpu_count() or 1, shown)) as outcomes:
                for cell, outcome in outcomes:
                    _keep(store, cell, outcome, summary, console)
                    shown.finished(cell.label)
        except KeyboardInterrupt:
            console.print(f"interrupted with {_progress(summary)}: continue with --resume")
            raise
        except BrokenProcessPool as error:
            text = "continue with --resume, with fewer workers if memory was short"
            raise BenchError(f"a worker was killed (out of memory?) with {_progress(summary)}: {text}") from error
    store.finish()
    return summary


def _keep(store: Store, cell: Cell, outcome: Outcome, summary: Summary, console: Console) -> None:
    try:
        result, wall_seconds = outcome()
    except BrokenProcessPool:
        raise
    except Exception as error:
        file = store.fail(cell, error)
        summary.failed.append(file)
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        console.print(f"failed: {cell.label}: {reason} ({file})")
    else:
        store.write(cell, result, wall_seconds)
        summary.finished += 1


def _progress(summary: Summary) -> str:
    return f"{summary.reused + summary.finished} of {summary.planned} cells finished"


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One thread for numeric libraries in workers started within this context, and for PyTorch in this process as well.

    The processes share the cores, and sums are evaluated in the same order everywhere.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
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


def _execute(study: Study, cell: Cell, progress: Progress | None = None) -> tuple[Result, float]:
    start = time.perf_counter()
    result = study.run(cell, progress)
    return result, time.perf_counter() - start


def _serial(tasks: Sequence[Task], workers: int, bar: Bar) -> Generator[tuple[Cell, Outcome]]:
    for study, cell in tasks:
        bar.running(cell.label)
        yield cell, partial(_execute, study, cell, partial(bar.running, cell.label))


def _process(tasks: Sequence[Task], workers: int, bar: Bar) -> Generator[tuple[Cell, Outcome]]:
    """Worker processes, spawned so that no thread or generator state of this process leaks into them."""
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(min(workers, len(tasks)) or 1, mp_context=spawn, initializer=_start_worker)
    try:
        with _ctrl_c_blocked():
            futures = {executor.submit(_execute, study, cell): cell for study, cell in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        executor.shutdown(cancel_futures=True)


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


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and exit when the parent is gone."""
    # For platforms on which signals cannot be blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _ray(tasks: Sequence[Task], workers: int, bar: Bar) -> Generator[tuple[Cell, Outcome]]:
    """Tasks on a ray cluster: the one already initialised, the one named by RAY_ADDRESS, or `workers` local processes."""
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise BenchError("the ray backend needs ray: run pip install '.[ray]' in a clone of taciturn") from error
    mine = not ray.is_initialized()
    if mine:
        ray.init(log_to_driver=False, **({} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers}))
    try:
        run = ray.remote(_execute).options(runtime_env={"env_vars": ONE_THREAD})
        pending = {run.remote(study, cell): cell for study, cell in tasks}
        while pending:
            (ready,), _ = ray.wait(list(pending), num_returns=1)
            yield pending.pop(ready), partial(_get, ray, ready)
    finally:
        if mine:
            ray.shutdown()


def _get(ray: ModuleType, ready: Any) -> tuple[Result, float]:
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


BACKENDS = {"serial": _serial, "process": _process, "ray": _ray}
