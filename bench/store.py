"""The results folder: one Parquet file per finished cell, written atomically, and a manifest."""

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import taciturn
from taciturn import files, seeding
from taciturn.bench.cells import MOST_FILE, arrow, parquet, read_cell, schema
from taciturn.bench.results import Cell, Result, Results
from taciturn.bench.study import Study
from taciturn.validation import shown

if TYPE_CHECKING:
    import pyarrow as pa

Manifest = dict[str, Any]  # the content of `manifest.json`
# Libraries with versions recorded in a manifest, and the extra that installs each ("": always installed).
LIBRARIES = {
    "numpy": "", "scipy": "", "numba": "", "gymnasium": "", "pettingzoo": "", "pyarrow": "bench",
    "scikit-learn": "data", "torch": "rl", "stable-baselines3": "rl", "dp-accounting": "accounting",
}  # fmt: skip


# The schemas of the two JSON files: types, `[item]`, `{key: value}`, entries by name, `frozenset({optional entries})`;
# `SHA256` is text.
SHA256 = re.compile(r"[0-9a-f]{64}")
RUN_SHAPE = {
    "taciturn": str, "python": str, "platform": str, "cpu_count": int | None, "libraries": {str: str}, "command": str,
    "quick": bool, "studies": {str: str}, "seeds": {str: [int]}, "started": str, "finished": str | None,
    "code": frozenset({str}), "commit": frozenset({str}), "processor": frozenset({str}), "streams": frozenset({int}),
}  # fmt: skip
SHAPES: dict[str, Any] = {"manifest.json": RUN_SHAPE | {"earlier_runs": [RUN_SHAPE]}, "plan.json": {str: [SHA256]}}


class BenchError(Exception):
    """An error that stops a benchmark, in one line for the user."""


MISSING = object()
MOST_CELLS, MOST_BYTES = 100_000, 10**7
"""Most cells in a plan, and most bytes of a JSON file and of a cell's traceback."""
CELL = r"[0-9a-f]{64}\.parquet"
TRACEBACK = r"[0-9a-f]{64}\.txt"
WRITTEN = r"manifest\.json|plan\.json|results\.parquet"


class StoreError(BenchError):
    """The results folder cannot be read or written."""


class Store:
    """A results folder.

    `manifest.json` records the runs; `plan.json` lists the cells of each study (only these are reported);
    `cells/<key>.parquet` holds a finished cell, `failed/<key>.txt` the traceback of a failed one; `corrupt/` keeps
    unreadable cells; `results.parquet` collects all cells at the end.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.cells = self.path / "cells"
        self.failed = self.path / "failed"
        self.corrupt = self.path / "corrupt"

    @contextlib.contextmanager
    def locked(self, *, resume: bool) -> Iterator[None]:
        """Make the folder and keep other processes from writing to it; the system releases the lock of a dead process.

        Raises StoreError if another process holds it, or as `begin` does.
        """
        arrow()  # fail now rather than after the first cell
        self._earlier(resume)
        with contextlib.ExitStack() as held:
            with refusing(self.path):
                held.enter_context(files.locked(self.path))
            yield

    def _earlier(self, resume: bool) -> Manifest:
        """The manifest of an earlier run, if there is one."""
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is not a folder")
        with refusing(self.path):
            for folder in (self.cells, self.failed, self.corrupt):
                files.real(folder)
            if files.is_empty(self.path, "manifest.json"):
                return {}
        if not resume:
            raise StoreError(f"{self.path} is not empty: continue with --resume, or choose another --out")
        return self.manifest()

    def begin(self, studies: Sequence[Study], plan: dict[str, list[Cell]], *, quick: bool, resume: bool) -> set[str]:
        """Prepare the folder for a run and return the keys of the planned cells that are already finished.

        Removes tracebacks of cells that are finished or no longer planned. Raises StoreError if the folder is not empty
        and `resume` is false, or if it holds anything but results.
        """
        earlier = self._earlier(resume)
        runs = earlier.pop("earlier_runs", []) + ([earlier] if earlier else [])
        titles = earlier.get("studies", {}) | {study.name: study.title for study in studies}
        seeds = {name: sorted({cell.seed for cell in cells}) for name, cells in plan.items()}
        others = earlier.get("studies", {}).keys() - plan.keys()
        manifest = environment() | {
            "quick": quick or bool(others and earlier["quick"]),
            "studies": titles,
            "seeds": earlier.get("seeds", {}) | seeds,
            "started": now(),
            "finished": None,
            "earlier_runs": runs,
        }
        write_json(self.path / "manifest.json", manifest)
        plans = self.plan() | {name: [cell.key for cell in cells] for name, cells in plan.items()}
        write_json(self.path / "plan.json", plans)
        with refusing(self.path):
            for folder, names in ((self.path, WRITTEN), (self.cells, CELL), (self.failed, TRACEBACK)):
                files.remove(files.own(folder), files.leftovers(names))
        keys = [cell.key for cells in plan.values() for cell in cells]
        done = {key for key in keys if self._file(key).exists() and self._readable(key)}
        wanted = {key for planned in plans.values() for key in planned} - done
        files.remove(self.failed, TRACEBACK, frozenset(f"{key}.txt" for key in wanted))
        return done

    def finish(self) -> None:
        """Collect all planned cells in `results.parquet` and record the time in the manifest."""
        self.compact()
        write_json(self.path / "manifest.json", self.manifest() | {"finished": now()})

    def write(self, cell: Cell, result: Result, wall_seconds: float) -> None:
        """Store a finished cell atomically. Raises StoreError if it cannot be written."""
        kind, name = ["metric"] * len(result.metrics), list(result.metrics)
        x: list[Any] = [None] * len(name)
        value = list(result.metrics.values())
        for curve, points in result.curves.items():
            xs, ys = (np.asarray(axis).tolist() for axis in points)
            kind += ["curve"] * len(xs)
            name += [curve] * len(xs)
            x += xs
            value += ys
        same = {"study": cell.study, "key": cell.key, "seed": cell.seed, "config": json.dumps(cell.config)}
        columns: dict[str, Any] = {name: [item] * len(value) for name, item in same.items()}
        columns |= {"kind": kind, "name": name, "x": x, "value": value, "wall_seconds": [wall_seconds] * len(value)}
        write_bytes(self._file(cell.key), parquet(arrow()[0].table(columns, schema=schema())))
        (self.failed / f"{cell.key}.txt").unlink(missing_ok=True)

    def fail(self, cell: Cell, details: str) -> Path:
        """Store the traceback of a failed cell, or its reason, and return the path of the file."""
        file = self.failed / f"{cell.key}.txt"
        write_bytes(file, f"{cell.label}\nconfig: {json.dumps(cell.config)}\n\n{details}".encode())
        return file

    def load(self, study: str | None = None) -> "pa.Table":
        """All planned and finished cells, of one study or of all, in the order of the plan.

        Raises StoreError if the folder holds no results or a cell cannot be read.
        """
        plans = self.plan()
        keys = [key for name, keys in plans.items() if study in (None, name) for key in keys]
        results = [self._read(key) for key in keys if self._file(key).exists()]
        return arrow()[0].concat_tables([schema().empty_table(), *results])

    def results(self, study: str) -> Results:
        """As `load`, for one study, grouped by configuration. Also raises StoreError for cells not written by
        taciturn."""
        table = self.load(study)
        try:
            if others := set(table["study"].to_pylist()) - {study}:
                raise ValueError(f"{study} has cells of {', '.join(map(str, others))}")
            result = Results.from_table(table)
            if not all(isinstance(group.config, dict) for group in result):
                raise ValueError("a configuration is no mapping")
            return result
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise StoreError(f"{self.path} has cells that taciturn has not written: {shown(error)}") from error

    def compact(self) -> Path:
        """Write `results.parquet`, all planned and finished cells in one file, and return its path."""
        file = self.path / "results.parquet"
        write_bytes(file, parquet(self.load()))
        return file

    def plan(self) -> dict[str, list[str]]:
        """Keys of the cells of each study, as planned when it last ran."""
        self.manifest()
        result: dict[str, list[str]] = self._read_json("plan.json") if (self.path / "plan.json").exists() else {}
        if len(result) + sum(map(len, result.values())) > MOST_CELLS:
            raise StoreError(f"{self.path / 'plan.json'} must have at most {MOST_CELLS:,} studies and cells")
        return result

    def manifest(self) -> Manifest:
        """The record of the runs, with versions and seeds."""
        return self._read_json("manifest.json")

    def _file(self, key: str) -> Path:
        return self.cells / f"{key}.parquet"

    def _read(self, key: str) -> "pa.Table":
        file = self._file(key)
        try:
            table = read_cell(file)
        except (arrow()[0].ArrowException, OSError, ValueError) as error:
            why = shown(str(error))[1:-1]
            raise StoreError(
                f"{file} cannot be read ({why}): run the benchmark again with --resume to replace it"
            ) from error
        if table.schema != schema() or set(table["key"].to_pylist()) != {key}:
            raise StoreError(f"{file} is not a cell of this benchmark: run it again with --resume to replace it")
        return table

    def _readable(self, key: str) -> bool:
        try:
            self._read(key)
        except StoreError:
            self._file(key).replace(files.own(self.corrupt) / f"{key}.parquet")
            return False
        return True

    def _read_json(self, name: str) -> Any:
        try:
            result = json.loads(files.content(self.path / name, MOST_BYTES))
        except FileNotFoundError as error:
            why = f"{name} is missing" if self.path.exists() else "there is nothing of that name"
            raise StoreError(f"{self.path} holds no benchmark results ({why})") from error
        except (OSError, ValueError, RecursionError) as error:
            raise StoreError(f"{self.path / name} cannot be read: choose another --out") from error
        if not has_shape(result, SHAPES[name]):
            raise StoreError(f"{self.path / name} was not written by taciturn: choose another --out")
        return result


def gather(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Store:
    """Merge results folders, shards of the same studies or other studies, into a new one, as one run would have written
    it.

    Cells are copied unchanged. Raises StoreError, before anything is written, if a folder holds no results or an
    unreadable cell, if two folders disagree on the cells of a study or the numbers of a cell, or if `out` is not
    empty.
    """
    stores, made = [Store(folder) for folder in folders], Store(out)
    plan: dict[str, list[str]] = {}
    planned: dict[str, Store] = {}
    finished: dict[str, Store] = {}
    for store in stores:
        for study, keys in store.plan().items():
            first = planned.setdefault(study, store)
            if plan.setdefault(study, keys) != keys:
                raise StoreError(
                    f"{store.path} has other cells of the study {study} than {first.path}: "
                    "gather folders of one command and one version"
                )
            for key in keys:
                if not store._file(key).exists():
                    continue
                table, first = store._read(key), finished.setdefault(key, store)
                if first is not store and not _same(table, first._read(key)):
                    raise StoreError(
                        f"{store._file(key)} has other numbers than {first._file(key)}: leave one folder out"
                    )
    if made.path.is_dir() and any(made.path.iterdir()):
        raise StoreError(f"{made.path} is not empty: choose another --out")
    runs = [store.manifest() for store in stores]
    earlier = [run for one in runs for run in one.pop("earlier_runs")]
    manifest = runs[0] | {
        "command": re.sub(r" --shard[= ]\S+", "", runs[0]["command"]),
        "quick": any(run["quick"] for run in runs),
        "studies": {name: title for run in runs for name, title in run["studies"].items()},
        "seeds": {name: seeds for run in runs for name, seeds in run["seeds"].items()},
        "started": min(run["started"] for run in runs),
        "earlier_runs": earlier + runs[1:],
    }
    with made.locked(resume=False):
        for folder in (made.cells, made.failed):
            folder.mkdir()
        write_json(made.path / "plan.json", plan)
        write_json(made.path / "manifest.json", manifest)
        for key in (key for keys in plan.values() for key in keys):
            if key in finished:
                with refusing(finished[key].path):
                    cell = files.content(finished[key]._file(key), MOST_FILE)
                write_bytes(made._file(key), cell)
                continue
            for store in stores:
                traceback = store.failed / f"{key}.txt"
                if traceback.exists():
                    with refusing(store.path):
                        text = files.content(traceback, MOST_BYTES, links=False)  # a link may lead anywhere
                    write_bytes(made.failed / traceback.name, text)
        made.finish()
    return made


@contextlib.contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Turn errors of `taciturn.files` into a StoreError."""
    try:
        yield
    except ValueError as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise StoreError(f"cannot write to {path}: {error.strerror}") from error


def _same(one: "pa.Table", other: "pa.Table") -> bool:
    """Whether two tables of a cell hold the same bits, apart from the time taken."""
    return one.drop_columns(["wall_seconds"]).equals(other.drop_columns(["wall_seconds"]))


def has_shape(value: object, shape: Any) -> bool:
    """Whether a JSON value matches a schema as in `SHAPES`; entries not named there may be anything."""
    if isinstance(shape, frozenset):
        return value is MISSING or any(has_shape(value, one) for one in shape)
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if isinstance(shape, list):
        return isinstance(value, list) and all(has_shape(item, shape[0]) for item in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(
            all(has_shape(item, inner) for item in value.values())
            if name is str
            else has_shape(value.get(name, MISSING), inner)
            for name, inner in shape.items()
        )
    if value is MISSING or isinstance(value, bool):
        return value is not MISSING and shape in (bool, object)
    return isinstance(value, shape)


def write_bytes(file: Path, data: bytes) -> None:
    """Write a file atomically (`taciturn.files.write`). Raises StoreError."""
    try:
        files.write(file, data)
    except OSError as error:
        raise StoreError(f"cannot write {file}: {error.strerror} (finished cells are kept: --resume)") from error


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_bytes(file, (json.dumps(value, indent=2) + "\n").encode())


def environment() -> Manifest:
    """Versions, machine and command of this process."""
    libraries = {}
    for name in LIBRARIES:
        try:
            libraries[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "taciturn": taciturn.__version__,
        "code": code(),
        "commit": commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "streams": seeding.VERSION,
        "cpu_count": os.cpu_count(),
        "libraries": libraries,
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }


@cache
def processor() -> str:
    """The name of this machine's processor, and the widest vector unit that NumPy uses."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    extensions: Any = np.show_config(mode="dicts")["SIMD Extensions"]
    widest = (extensions.get("found") or extensions.get("baseline") or [""])[-1]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {widest}"


def code() -> str:
    """Fingerprint of taciturn's own modules: the version does not distinguish states of the code between releases."""
    modules: dict[str, Path] = {}
    for name in ("taciturn", "taciturn.bench", "taciturn.envs", "taciturn.policies", "taciturn.wrappers"):
        folder = Path(importlib.import_module(name).__path__[0])
        prefix = name.removeprefix("taciturn").removeprefix(".")
        modules |= {
            f"{prefix}/{file.relative_to(folder).as_posix()}".lstrip("/"): file for file in folder.rglob("*.py")
        }
    digest = hashlib.sha256()
    for name, file in sorted(modules.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def commit() -> str:
    """The commit of the checkout that taciturn is imported from, with "-dirty" if it was modified; "unknown" if there
    is none."""
    folder = Path(importlib.import_module("taciturn.envs").__path__[0])
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def states(manifest: Manifest) -> list[str]:
    """Fingerprints of the code that wrote into a folder, in order."""
    return list(dict.fromkeys(run.get("code", "unknown") for run in (*manifest["earlier_runs"], manifest)))


def differing(manifest: Manifest) -> list[str]:
    """The differences between the runs that wrote into a folder: some of "code", "python" and "libraries"."""
    runs = (*manifest["earlier_runs"], manifest)
    return [
        name for name in ("code", "python", "libraries") if any(run.get(name) != manifest.get(name) for run in runs)
    ]


def now() -> str:
    """The current time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
