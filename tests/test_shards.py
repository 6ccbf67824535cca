"""Shards of a run, put together, are the whole run, bit for bit; what does not belong together is refused."""

import json
from pathlib import Path

import bench_dummies as dummies
import pytest

from taciturn.bench.results import Result
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store, StoreError, differing, gather, write_json
from taciturn.bench.tables import origin_table


def shards(folder: Path, count: int) -> list[Path]:
    """The folders of all shards of 72 cells of noise and 4 of which 2 fail."""
    folders = [folder / f"shard-{i}" for i in range(1, count + 1)]
    for i, one in enumerate(folders, 1):
        run_study([dummies.Noise(), dummies.Failing()], Store(one), quick=True, shard=f"{i}/{count}")
    return folders


@pytest.mark.parametrize("count", [1, 3, 80])
def test_the_union_of_shards_is_the_whole(count: int, tmp_path: Path) -> None:
    whole = Store(tmp_path / "whole")
    run_study([dummies.Noise(), dummies.Failing()], whole, quick=True)
    folders = shards(tmp_path, count)
    sizes = [len(list(Store(one).cells.iterdir())) + len(list(Store(one).failed.iterdir())) for one in folders]
    assert sum(sizes) == 76
    assert max(sizes) - min(sizes) <= 1
    together = gather(folders[::-1], tmp_path / "together")
    assert together.plan() == whole.plan()
    assert together.load().drop_columns(["wall_seconds"]).equals(whole.load().drop_columns(["wall_seconds"]))
    assert (together.path / "results.parquet").exists()
    assert sorted(file.name for file in together.failed.iterdir()) == sorted(f.name for f in whole.failed.iterdir())
    again = run_study([dummies.Noise(), dummies.Failing()], together, quick=True, resume=True)
    assert (again.reused, again.finished, len(again.failed)) == (74, 0, 2)


def test_neighbours_go_to_different_shards_and_each_can_be_resumed(tmp_path: Path) -> None:
    keys = [cell.key for cell in dummies.Noise().cells(True)]
    store = Store(tmp_path)
    summary = run_study([dummies.Noise()], store, quick=True, shard="2/5")
    assert {file.stem for file in store.cells.iterdir()} == set(keys[1::5])
    (store.cells / f"{keys[6]}.parquet").unlink()
    again = run_study([dummies.Noise()], store, quick=True, shard="2/5", resume=True)
    assert (again.planned, again.reused, again.finished) == (summary.finished, summary.finished - 1, 1)


@pytest.mark.parametrize(
    "text", ["4/3", "0/3", "3", "1/0", "a/b", "1/3/5", "-1/3", "1/ 3", "1/3\n", "", "1/" + "9" * 5000]
)
def test_what_is_no_shard_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shard must be i/n with whole numbers 1 <= i <= n, as 2/8, not '"):
        run_study([dummies.Noise()], Store(tmp_path / "out"), shard=text)
    assert not (tmp_path / "out").exists()


def test_the_manifest_tells_where_all_of_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["taciturn", "bench", "noise", "--shard", "1/2", "--workers", "3"])
    first, second = shards(tmp_path, 2)
    manifest = gather([first, second], tmp_path / "same").manifest()
    assert differing(manifest) == []
    assert manifest["command"] == "taciturn bench noise --workers 3"
    assert len(manifest["earlier_runs"]) == 1
    changed = Store(second).manifest()
    write_json(second / "manifest.json", changed | {"code": "changed", "libraries": {"numpy": "9"}})
    manifest = gather([first, second], tmp_path / "mixed").manifest()
    assert differing(manifest) == ["code", "libraries"]
    assert any("changed, then" in row[1] for row in origin_table(manifest).rows)


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    first, second = shards(tmp_path, 2)
    run_study([dummies.Failing()], Store(tmp_path / "other"), quick=True)
    cell = dummies.Noise().cells(True)[0]  # of the first shard
    Store(second).write(cell, Result({"reward": 0.0}), 1.0)
    out = tmp_path / "out"
    with pytest.raises(StoreError, match=rf"shard-2.*{cell.key}.parquet has other numbers than .*shard-1"):
        gather([first, second], out)
    file = Store(second).cells / f"{cell.key}.parquet"
    file.write_bytes((Store(first).cells / file.name).read_bytes())
    assert gather([first, second], tmp_path / "overlap").load().num_rows
    file.write_bytes(b"no table")
    with pytest.raises(StoreError, match="cannot be read"):
        gather([second, first], out)
    file.unlink()
    run_study([dummies.Noise()], Store(tmp_path / "full"), shard="1/100")
    with pytest.raises(
        StoreError, match=r"full has other cells of the study noise than .*shard-1: gather folders of one"
    ):
        gather([first, tmp_path / "full"], out)
    with pytest.raises(StoreError, match="holds no benchmark results"):
        gather([first, tmp_path / "nothing"], out)
    assert not out.exists()
    before = json.dumps(Store(second).manifest())
    with pytest.raises(StoreError, match="shard-2 is not empty: choose another --out"):
        gather([first], second)
    assert json.dumps(Store(second).manifest()) == before
    together = gather([first, second, tmp_path / "other"], out)
    assert together.load("noise").num_rows == sum(Store(one).load("noise").num_rows for one in (first, second))
