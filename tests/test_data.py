"""A folder of results, and a file of an agent, are data: nothing in them makes us write, delete or wait elsewhere, or
take more memory or time than a sentence that says why not."""

import base64
import contextlib
import json
import os
import pickle
import resource
import signal
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from test_outside import archived, entry, model, parts_of, state, stopping
from test_train import ROLLOUT, SHORT

import taciturn
from taciturn.agents import bring
from taciturn.bench import train as training
from taciturn.bench.report import write_report
from taciturn.bench.results import Cell, Result
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store, StoreError, gather, write_bytes, write_json
from taciturn.bench.submission import unpacked
from taciturn.bench.train import train

PRECIOUS = "precious"
ROOM = 200  # megabytes


@pytest.fixture
def dummies(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import bench_dummies

    return bench_dummies


@pytest.fixture
def store(tmp_path: Path, dummies: ModuleType) -> Store:
    """A folder of results."""
    found = Store(tmp_path / "out")
    run_study([dummies.Failing()], found, progress=False)
    return found


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of Stable-Baselines3."""
    file = tmp_path_factory.mktemp("model") / "model.zip"
    model(policy_kwargs={"net_arch": [4], "activation_fn": torch.nn.ReLU}).save(file)
    return file.read_bytes()


def memory(what: str) -> int:
    """Of this process, in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith(what)).split()[1]) // 1024


class Late(BaseException):
    """It took too long; no handler of errors takes it for one."""


@contextlib.contextmanager
def cheap(seconds: int = 20) -> Iterator[None]:
    """Whatever happens here takes little memory and ends soon."""

    def late(*_: Any) -> None:
        raise Late

    measured = sys.platform == "linux"
    before, limits = signal.signal(signal.SIGALRM, late), resource.getrlimit(resource.RLIMIT_AS)
    if measured:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
        start = memory("VmRSS")
        resource.setrlimit(resource.RLIMIT_AS, ((memory("VmSize") + 4000) * 2**20, limits[1]))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)
    if measured:
        assert memory("VmHWM") - start < ROOM


def one_sentence(error: BaseException) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 800


# Links.


def test_nothing_is_written_through_links(store: Store, tmp_path: Path, dummies: ModuleType) -> None:
    victim = tmp_path / "thesis.tex"
    victim.write_text(PRECIOUS, encoding="utf-8")
    (store.path / "figures").mkdir()
    keys = [cell.key for cell in dummies.Failing().cells(False)]
    names = [
        *(f".{name}.tmp" for name in ("report.html", "manifest.json", "plan.json", "results.parquet")),
        *(f"cells/.{key}.parquet.tmp" for key in keys),
        *(f"failed/.{key}.txt.tmp" for key in keys),
        "figures/.curve.pdf.tmp",
    ]
    for name in names:
        (store.path / name).unlink(missing_ok=True)
        (store.path / name).symlink_to(victim)
    write_report(store, store.path, [dummies.Failing()])
    write_bytes(store.path / "figures" / "curve.pdf", b"new")
    store.fail(Cell("failing", {}, 1), "why")
    run_study([dummies.Failing()], store, resume=True, progress=False)
    store.write(Cell("failing", {}, 0), Result({"value": 1.0}), 1.0)
    assert victim.read_text(encoding="utf-8") == PRECIOUS
    assert not (store.path / "report.html").is_symlink()


def hard(link: Path, victim: Path) -> None:
    link.hardlink_to(victim)


LOCKS: dict[str, Callable[[Path, Path], Any]] = {
    "a link": Path.symlink_to,
    "a hard link": hard,
    "a pipe": lambda link, _: os.mkfifo(link),
}


@pytest.mark.parametrize("what", LOCKS)
def test_a_lock_is_a_file_of_its_own(what: str, store: Store, tmp_path: Path, dummies: ModuleType) -> None:
    victim, lock = tmp_path / "thesis.tex", store.path / ".lock"
    victim.write_text(PRECIOUS, encoding="utf-8")
    lock.unlink()
    LOCKS[what](lock, victim)
    with cheap(), pytest.raises(StoreError, match=r"\.lock must be a regular file of its own: delete it"):
        run_study([dummies.Failing()], store, resume=True)
    assert victim.read_text(encoding="utf-8") == PRECIOUS


@pytest.mark.parametrize("name", ["cells", "failed", "corrupt", "figures"])
def test_folders_are_no_links(name: str, store: Store, tmp_path: Path, dummies: ModuleType) -> None:
    theirs, ours = tmp_path / "theirs", store.path / name
    theirs.mkdir()
    for file in ("notes.txt", f"{'0' * 64}.txt", f".{'0' * 64}.parquet.tmp"):
        (theirs / file).write_text(PRECIOUS, encoding="utf-8")
    if ours.exists():
        ours.rename(tmp_path / "before")
    ours.symlink_to(theirs, target_is_directory=True)
    before = (store.path / "manifest.json").read_bytes()
    studies = [dummies.Failing()]
    with pytest.raises(StoreError, match=rf"{name} must be a folder, and it is a link"):
        write_report(store, store.path, studies) if name == "figures" else run_study(studies, store, resume=True)
    assert {file.read_text(encoding="utf-8") for file in theirs.iterdir()} == {PRECIOUS}
    assert len(list(theirs.iterdir())) == 3
    assert (store.path / "manifest.json").read_bytes() == before


def test_only_what_has_our_names_is_deleted(store: Store, dummies: ModuleType) -> None:
    old, notes = store.failed / f"{'0' * 64}.txt", store.failed / "notes.txt"
    for file in (old, notes, store.cells / ".mine.tmp"):
        file.write_text(PRECIOUS, encoding="utf-8")
    left = store.cells / f".{'0' * 64}.parquet.{'a' * 16}.tmp"
    left.touch()
    run_study([dummies.Failing()], store, resume=True, progress=False)
    assert notes.exists()
    assert (store.cells / ".mine.tmp").exists()
    assert not old.exists()
    assert not left.exists()


def test_several_write_one_file_at_once(tmp_path: Path) -> None:
    """As several reports of one folder do."""
    texts = [bytes([65 + i]) * 10_000 for i in range(4)]

    def write(text: bytes) -> None:
        for _ in range(20):
            write_bytes(tmp_path / "report.html", text)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, texts))
    assert (tmp_path / "report.html").read_bytes() in texts
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_gathered_folder_has_nothing_of_where_links_lead(store: Store, tmp_path: Path) -> None:
    victim = tmp_path / "key"
    victim.write_text(PRECIOUS, encoding="utf-8")
    traceback = next(store.failed.glob("*.txt"))
    traceback.unlink()
    traceback.symlink_to(victim)
    with pytest.raises(StoreError, match="must be a regular file, and it is a link"):
        gather([store.path], tmp_path / "all")


@pytest.mark.parametrize("name", ["checkpoints", "log"])
def test_folders_of_a_training_are_no_links(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, folder = tmp_path / "theirs", tmp_path / "agent"
    theirs.mkdir()
    folder.mkdir()
    real = write_json
    link = folder / name

    def begins(file: Path, value: Any) -> None:
        real(file, value)
        link.symlink_to(theirs, target_is_directory=True)

    monkeypatch.setattr(training, "write_json", begins)
    with pytest.raises(ValueError, match=rf"{name} must be a folder, and it is a link"):
        train("round_stopping", out=folder, **SHORT, **ROLLOUT)
    assert not list(theirs.iterdir())


# Bombs.


def doubled(times: int = 40, of: Any = list) -> Any:
    """A value that has 2^times parts and takes a few bytes."""
    found: Any = of([1])
    for _ in range(times):
        found = of([found, found])
    return found


def pickled(name: str, content: bytes) -> Callable[[dict[str, bytes], Path], None]:
    """A change of an entry of `data` into a pickle."""

    def change(parts: dict[str, bytes], _: Path) -> None:
        data = json.loads(parts["data"])
        data[name] = {":serialized:": base64.b64encode(content).decode()}
        parts["data"] = json.dumps(data).encode()

    return change


def keyed() -> bytes:
    """`{key: 1}`, pickled without taking the hash of the key."""
    key = pickle.dumps(doubled(of=tuple), protocol=2)[2:-1]
    return pickle.PROTO + b"\2" + pickle.EMPTY_DICT + key + pickle.BININT1 + b"\1" + pickle.SETITEM + pickle.STOP


def weights_of(change: Callable[[dict[str, bytes]], Any]) -> Callable[[dict[str, bytes], Path], None]:
    """A change of the parts of the archive with the weights, deflated."""

    def by(parts: dict[str, bytes], folder: Path) -> None:
        inner = parts_of(parts["policy.pth"])
        change(inner)
        archived(inner, folder / "policy.pth", zipfile.ZIP_DEFLATED)
        parts["policy.pth"] = (folder / "policy.pth").read_bytes()

    return by


def longer(parts: dict[str, bytes]) -> None:
    """A storage whose pickle says that it has more numbers than it has."""
    name = next(name for name in parts if name.endswith("data.pkl"))
    parts[name] = parts[name].replace(b"K\x02\x85", b"J\xff\xff\xff\x7f\x85")


def kwargs(**given: Any) -> Callable[[dict[str, bytes], Path], None]:
    return entry("policy_kwargs", lambda _: given)


def decoy(parts: dict[str, bytes], folder: Path) -> None:
    """A weight that is as wide as layers of 10^10 numbers, which its shape seems to allow."""
    state(lambda weights: weights.update(more=torch.zeros(10**5)))(parts, folder)
    kwargs(net_arch=[10**5, 10**5])(parts, folder)


MODELS: dict[str, tuple[Callable[[dict[str, bytes], Path], Any], str]] = {
    "arguments of 2^40 parts": (kwargs(net_arch=doubled()), "more than 100,000 parts"),
    "a space of 2^40 parts": (pickled("action_space", pickle.dumps(doubled())), "more than 100,000 parts"),
    "a key of 2^40 parts": (pickled("policy_kwargs", keyed()), "keys must be text or numbers"),
    "10^6 layers": (kwargs(net_arch=[1] * 10**6), "more than 100,000 parts"),
    "50,000 layers": (kwargs(net_arch=[1] * 50_000), "its layers are larger than its weights"),
    "layers of 10^10 numbers": (decoy, "its layers are larger than its weights"),
    "10^9 observations": (
        entry("observation_space", lambda _: gymnasium.spaces.Discrete(10**9)),
        "its layers are larger than its weights",
    ),
    "10^9 bits": (
        entry("observation_space", lambda _: gymnasium.spaces.MultiBinary(10**9)),
        "its layers are larger than its weights",
    ),
    "10^9 actions": (
        entry("action_space", lambda _: gymnasium.spaces.Discrete(10**9)),
        "its layers are larger than its weights",
    ),
    "strides of 0": (
        state(lambda weights: weights.update(more=torch.zeros(1).expand(40_000, 40_000))),
        "its weights are larger than the stored data",
    ),
    "a shape that is not stored": (weights_of(longer), "Trying to resize storage"),
    "weights that are deflated": (
        weights_of(lambda parts: parts.update({"archive/data/0": bytes(10**8)})),
        "its parts are more than 100 times larger than the file",
    ),
    "a place in the memo": (pickled("policy_kwargs", b"\x80\x02}r\xff\xff\xff\x7f."), "Missing key"),
    "a bytearray": (pickled("policy_kwargs", b"\x80\x05\x96" + struct.pack("<Q", 2**36) + b"."), "model.zip"),
    "a long name": (
        pickled("policy_kwargs", b"\x80\x02cm\n" + b"n" * 10**6 + b"\n."),
        "has a class that is not of Stable",
    ),
    "many names": (
        pickled("policy_kwargs", b"\x80\x02(" + b"".join(b"cm\nn%d\n" % i for i in range(2000)) + b"l."),
        "it names more than 1,000 classes and functions",
    ),
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("what", MODELS)
def test_models_that_expand_are_refused(what: str, saved: bytes, tmp_path: Path) -> None:
    change, message = MODELS[what]
    parts = parts_of(saved)
    change(parts, tmp_path)
    parts["more"] = np.random.default_rng(0).bytes(30_000)  # so that parts may be 100 times larger
    name = archived(parts, tmp_path / "model.zip", zipfile.ZIP_DEFLATED)
    assert (tmp_path / "model.zip").stat().st_size < 10**5
    with cheap(), pytest.raises(ValueError, match=message) as found:
        bring(name)
    assert "model.zip" in str(found.value)
    one_sentence(found.value)


def test_an_archive_that_lies_about_its_sizes_is_refused(saved: bytes, tmp_path: Path) -> None:
    """Its directory says that the weights have 100 bytes, and they have 4 * 10^8."""
    parts, file = parts_of(saved), tmp_path / "model.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        made.writestr("data", parts["data"])
        with made.open("policy.pth", "w") as stream:
            for _ in range(400):
                stream.write(bytes(10**6))
    size = struct.pack("<I", 400 * 10**6)
    content = file.read_bytes()
    assert size in content
    file.write_bytes(content.replace(size, struct.pack("<I", 100)))
    with cheap(), pytest.raises(ValueError, match=r"model\.zip"):
        bring(f"sb3:{file}")


def cell_of(store: Store) -> Path:
    return next(store.cells.iterdir())


def grown(file: Path, rows: int, text: str) -> None:
    """A cell with the same texts in each of many rows."""
    table = pq.read_table(file)

    def column(name: str, kind: Any) -> Any:
        if not pa.types.is_string(kind):
            return pa.array(np.zeros(rows), pa.float64()).cast(kind)
        one = text if name == "config" else table[name][0].as_py()
        return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [one])

    columns = {field.name: column(field.name, field.type) for field in table.schema}
    pq.write_table(pa.table(columns), file, compression="zstd", store_schema=False, write_page_checksum=True)


@pytest.mark.parametrize(("rows", "text"), [(10**6, "x" * 1200), (200_000, "x" * 3000)])
def test_cells_that_expand_are_refused(rows: int, text: str, store: Store, dummies: ModuleType) -> None:
    """To 1.2 GB, and to 600 MB in fewer rows."""
    file = cell_of(store)
    grown(file, rows, text)
    assert file.stat().st_size < 200_000
    with cheap(), pytest.raises(StoreError, match=rf"{file.name} .*a cell must have at most .*--resume") as found:
        store.load()
    one_sentence(found.value)
    with cheap():
        assert run_study([dummies.Failing()], store, resume=True, progress=False).finished == 1
    assert (store.path / "corrupt" / file.name).exists()


def test_a_cell_whose_texts_are_long_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    grown(cell_of(store), 10, "x" * 10**6)
    monkeypatch.setattr("taciturn.bench.cells.MOST_TABLE", 10**5)
    with pytest.raises(StoreError, match="a cell must have at most 250,000 rows and 100,000 bytes"):
        store.load()


def test_a_result_that_could_not_be_read_is_not_made() -> None:
    with pytest.raises(ValueError, match="metrics and points of curves must be at most 250,000, not 250,001"):
        Result({"a": 1.0}, {"curve": (np.zeros(250_000), np.zeros(250_000))})


@pytest.mark.parametrize("plan", ["studies", "cells", "bytes"])
def test_plans_of_a_million_cells_are_refused(plan: str, store: Store, dummies: ModuleType) -> None:
    few = 100_001
    text = {
        "studies": "{" + ",".join(f'"{i:x}":[]' for i in range(few)) + "}",
        "cells": json.dumps({"failing": ["0" * 64] * few}),
        "bytes": json.dumps({"failing": ["0" * 64] * 10**6}),
    }[plan]
    (store.path / "plan.json").write_text(text, encoding="utf-8")
    asked: list[Callable[[], Any]] = [store.load, lambda: run_study([dummies.Failing()], store, resume=True)]
    for ask in asked if plan == "cells" else asked[:1]:
        with cheap(5), pytest.raises(StoreError, match=r"plan\.json (must have at most 100,000|cannot be read)"):
            ask()


def pipe(file: Path) -> None:
    file.unlink(missing_ok=True)
    os.mkfifo(file)


@pytest.mark.parametrize("name", ["manifest.json", "plan.json", "a cell"])
def test_pipes_in_a_folder_of_results_are_not_waited_for(name: str, store: Store, dummies: ModuleType) -> None:
    file = cell_of(store) if name == "a cell" else store.path / name
    pipe(file)
    with cheap(5), pytest.raises(StoreError, match=rf"{file.name} cannot be read"):
        store.load()
    if name == "a cell":
        with cheap(5):
            assert run_study([dummies.Failing()], store, resume=True, progress=False).finished == 1


def test_pipes_and_devices_are_no_results_and_no_agents(saved: bytes, tmp_path: Path) -> None:
    for name in ("mine.json", "net.onnx", "model.zip"):
        pipe(tmp_path / name)
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    for name in ("mine.json", "zero.json"):
        with cheap(5), pytest.raises(StoreError, match=rf"{name} must be a regular file"):
            unpacked(tmp_path / name)
    for agent in (f"onnx:{tmp_path}/net.onnx", f"sb3:{tmp_path}/model.zip", "sb3:/dev/zero"):
        with cheap(5), pytest.raises(ValueError, match="must be a regular file"):
            bring(agent)


def test_a_pipe_in_a_folder_of_a_training_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    pipe(folder / "manifest.json")
    with cheap(5), pytest.raises(ValueError, match=r"manifest\.json must be a regular file"):
        train("round_stopping", out=folder, resume=True, **SHORT, **ROLLOUT)


def graph(nodes: list[Any], numbers: list[Any], path: Path, **more: Any) -> str:
    """A network that adds the largest of some numbers `w` to its rows."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, kind, ["n", 5]) for name in ("rows", "out")]
    nodes = [
        *nodes,
        helper.make_node("ReduceMax", ["w"], ["most"], keepdims=0),
        helper.make_node("Add", ["rows", "most"], ["out"]),
    ]
    made = helper.make_graph(nodes, "net", ends[:1], ends[1:], numbers, **more)
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return f"onnx:{path}"


MANY = 500_000_000  # 2 GB of numbers


def whole(name: str, *values: int, shape: tuple[int, ...] = (1,)) -> Any:
    return onnx.helper.make_tensor(name, onnx.TensorProto.INT64, shape, values)


def undefined(path: Path) -> str:
    weights = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[MANY])
    return graph([], [weights], path)


def sparse(path: Path) -> str:
    helper = onnx.helper
    values = helper.make_tensor("w", onnx.TensorProto.FLOAT, (1,), [1.0])
    return graph([], [], path, sparse_initializer=[helper.make_sparse_tensor(values, whole("i", 0), [MANY])])


def of_the_rows(path: Path) -> str:
    """How large it is shows only as it runs."""
    node = onnx.helper.make_node
    nodes = [
        node("Shape", ["rows"], ["shape"]),
        node("Mul", ["shape", "times"], ["size"]),
        node("ConstantOfShape", ["size"], ["w"]),
    ]
    return graph(nodes, [whole("times", MANY // 200, 10, shape=(2,))], path)


NETWORKS: dict[str, Callable[[Path], str]] = {
    "weights that are not there": undefined,
    "a constant": lambda path: graph(
        [onnx.helper.make_node("ConstantOfShape", ["size"], ["w"])], [whole("size", MANY)], path
    ),
    "a range": lambda path: graph(
        [
            onnx.helper.make_node("Range", ["from", "to", "by"], ["range"]),
            onnx.helper.make_node("Cast", ["range"], ["w"], to=onnx.TensorProto.FLOAT),
        ],
        [whole("from", 0, shape=()), whole("to", MANY // 3, shape=()), whole("by", 1, shape=())],
        path,
    ),
    "a sparse tensor": sparse,
    "a size of the rows": of_the_rows,
}


@pytest.mark.parametrize("what", NETWORKS)
def test_networks_in_onnx_that_expand_are_refused(what: str, tmp_path: Path) -> None:
    name = NETWORKS[what](tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").stat().st_size < 300
    with cheap(), pytest.raises(ValueError, match=r"net\.onnx is not") as found:
        taciturn.simulate(stopping(), name, seed=0)
    one_sentence(found.value)


# A training that is killed.


def lines(folder: Path) -> list[str]:
    return (folder / "evaluations.csv").read_text(encoding="utf-8").splitlines()


def killed(folder: Path, before: int, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    """Train, and die between the checkpoint and its evaluation, of which `before` have been made."""
    real, calls = training.evaluated, iter(range(100))

    def dies(*arguments: Any) -> None:
        if next(calls) == before:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "evaluated", dies)
        with pytest.raises(KeyboardInterrupt):
            train("round_stopping", out=folder, **SHORT | given, **ROLLOUT)


@pytest.mark.parametrize("before", [0, 1])
def test_a_kill_loses_no_evaluation(before: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = lines(train("round_stopping", out=tmp_path / "whole", **SHORT, **ROLLOUT))
    folder = tmp_path / "agent"
    killed(folder, before, monkeypatch)
    assert (folder / "checkpoints" / f"{128 * (before + 1)}.zip").exists()
    train("round_stopping", out=folder, resume=True, **SHORT, **ROLLOUT)
    found = lines(folder)
    assert [line.partition(",")[0] for line in found] == ["steps", "128", "256"]
    known = before + 2  # what is trained after a kill sees other worlds
    assert found[:known] == whole[:known]


def test_an_evaluation_that_was_lost_before_others_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of an earlier version, rows of the middle are missing."""
    folder = train("round_stopping", out=tmp_path / "agent", **SHORT, **ROLLOUT)
    whole = lines(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps(manifest | {"finished": None}), encoding="utf-8")
    (folder / "evaluations.csv").write_text("\n".join([whole[0], whole[2]]) + "\n", encoding="utf-8")
    train("round_stopping", out=folder, resume=True, **SHORT, **ROLLOUT)
    assert lines(folder) == whole


@pytest.mark.parametrize("name", ["999", "256", "00128"])
def test_a_checkpoint_of_another_name_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "agent"
    killed(folder, 0, monkeypatch)
    (folder / "checkpoints" / "128.zip").rename(folder / "checkpoints" / f"{name}.zip")
    told = "must be of 256 steps, not 128" if name == "256" else "makes them after 128, 256 steps"
    with pytest.raises(ValueError, match=told) as found:
        train("round_stopping", out=folder, resume=True, **SHORT, **ROLLOUT)
    assert f"{name}.zip" in str(found.value)
    one_sentence(found.value)
    assert not (folder / "model.zip").exists()


def test_two_trainings_do_not_write_to_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, refused = tmp_path / "agent", []
    real = training.evaluated

    def second(*arguments: Any) -> None:
        with pytest.raises(ValueError, match=rf"is being written to by process {os.getpid()} on .*: wait") as found:
            train("round_stopping", out=folder, resume=True, **SHORT, **ROLLOUT)
        refused.append(found)
        real(*arguments)

    monkeypatch.setattr(training, "evaluated", second)
    train("round_stopping", out=folder, **SHORT, **ROLLOUT)
    assert len(refused) == 2
