"""Results as one file: nothing is lost, what is no submission is refused, and several are ranked together."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import store_results
from rich.console import Console

from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.report import print_table
from taciturn.bench.results import RUNS, Group, Results
from taciturn.bench.scores import FREE, LEAD, UNDER, leaderboard
from taciturn.bench.store import StoreError
from taciturn.bench.study import Table
from taciturn.bench.submission import ORIGIN, Submission, merged, packed, unpacked

STORED = Path(__file__).parent.parent / "tools/results/studies/agents.json"
CONFIG = {"env": "round_stopping_v0", "env_params": {}, "policy": "Mine", "policy_params": {}, "kind": "yours"}


def submission(seeds: list[int], reward: float, centralised: Any = 0.0, **config: Any) -> Submission:
    """One agent, with the outcome of the check for pooling, or without any."""
    values = np.full(len(seeds), reward)
    runs = [(np.arange(2.0), np.array([reward, reward + seed])) for seed in seeds]
    metrics = {"reward": values, "return": values}
    if centralised is not None:
        metrics["centralised"] = np.broadcast_to(centralised, len(seeds)).astype(np.float64)
    group = Group(CONFIG | config, np.array(seeds), metrics, {RUNS: runs}, np.ones(len(seeds)))
    return Submission("agents", dict.fromkeys(ORIGIN, "said"), Results([group]))


def test_what_is_packed_is_unpacked(tmp_path: Path) -> None:
    text = STORED.read_text(encoding="utf-8")
    assert packed(unpacked(STORED)) == text
    (tmp_path / "mine.json").write_text(packed(submission([0, 3], 0.25)), encoding="utf-8")
    study, origin, results = unpacked(tmp_path / "mine.json")
    (group,) = results
    assert (study, origin["commit"], group.config) == ("agents", "said", CONFIG)
    assert group.metrics["reward"].tolist() == [0.25, 0.25]
    assert [scores.tolist() for _, scores in group.curves[RUNS]] == [[0.25, 0.25], [0.25, 3.25]]


def test_the_first_counts_of_what_several_have() -> None:
    results = merged([submission([0, 3], 0.25), submission([1, 3], 0.5), submission([0], 1.0, policy="Other")])
    mine, other = results
    assert mine.seeds.tolist() == [0, 1, 3]
    assert mine.metrics["reward"].tolist() == [0.25, 0.5, 0.25]
    assert [scores.tolist() for _, scores in mine.curves[RUNS]] == [[0.25, 0.25], [0.5, 1.5], [0.25, 3.25]]
    assert other.config["policy"] == "Other"
    (richer,) = submission([0, 3], 0.25).results
    richer.metrics["more"] = np.ones(2)
    first = submission([0, 3], 0.5)._replace(results=Results([richer]))
    (stored,) = merged([first, submission([0, 3], 0.5)])
    assert stored.metrics.keys() == {"reward", "return", "centralised", "more"}, (
        "nothing comes from the others, so nothing is lost"
    )
    (stored,) = merged([first, submission([1], 0.5)])
    assert stored.metrics.keys() == {"reward", "return", "centralised"}, "what one seed lacks has no mean"


def test_the_command_line_ranks_files_together(tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    mine = submission(list(range(10)), 1.15)
    for i, (_, scores) in enumerate(mine.results.groups[0].curves[RUNS]):
        scores[:] = 1.15 + np.array([-1, 1]) * i * 1e-4
    (tmp_path / "mine.json").write_text(packed(mine), encoding="utf-8")
    code, text, _ = command("leaderboard", str(STORED), str(tmp_path / "mine.json"))
    out = " ".join(text.split())
    assert code == 0
    assert "RoundStopping-v0/standard" in out
    assert re.search(r"1 Mine yours with memory \d+\.\d\d", out)
    rows = leaderboard(merged([mine, unpacked(STORED)]), FREE)
    (own_row,) = [row for row in rows.rows if row[2] == "Mine"]
    lead = float(own_row[rows.columns.index(LEAD)].partition(" ")[0])
    (best,) = [row for row in rows.rows if row[2] == "OptimalStopping" and row[0] == own_row[0]]
    own, other = (float(row[5].partition(" ")[0]) for row in (own_row, best))
    assert lead == pytest.approx(own - other, abs=0.1)
    code, rows, _ = command("leaderboard", str(STORED), str(tmp_path / "mine.json"), "--json")
    (own,) = [row for row in json.loads(rows) if row["policy"] == "Mine"]
    assert (own["task"], own["kind"], own["seeds"]) == ("taciturn/RoundStopping-v0/standard", "yours", list(range(10)))
    assert own["score"] > 1
    code, _, err = command("leaderboard", str(tmp_path))
    assert code != 0
    assert "holds no benchmark results" in err


@pytest.mark.parametrize("width", [80, 100, 120])
def test_tables_fit_the_window(width: int) -> None:
    """No line is wider; numbers, intervals and half widths are whole, and shared entries become headings and lines."""
    rows = [
        (f"world {i // 3}", f"Policy{i}", f"0.0113{i} [0.01131, 0.01137]", f"25.1{i} [24.00, 26.22]", "10 x 100")
        for i in range(6)
    ]
    columns = ("world", "policy", "the mean of the measure", "the regret of an agent", "runs")
    console = Console(file=io.StringIO(), width=width)
    print_table(Table("Scores", columns, rows, words=frozenset({0, 1})), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert text.count("world 0") == text.count("world 1") == text.count("runs: 10 x 100") == 1
    for i in range(6):
        assert re.search(rf"\bPolicy{i}\b", text)
    assert text.count("[0.01131, 0.01137]") == text.count("[24.00, 26.22]") == 6
    console = Console(file=io.StringIO(), width=40)
    print_table(Table("Scores", columns, rows, words=frozenset({0, 1})), console)
    assert console.file.getvalue().count("±1.1") == 6  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_narrow_window_leaves_out_the_columns_of_least_use(width: int) -> None:
    """Those that stay have whole intervals and whole words; a line names the others."""
    table = leaderboard(unpacked(STORED).results, UNDER)
    console = Console(file=io.StringIO(), width=width)
    print_table(table, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    left_out = rf"Left out to fit {width} columns \(COLUMNS=\d{{3}} shows all\): half width,"
    assert re.search(left_out, " ".join(text.split()))
    shown = set(text.split())
    for row in table.rows:
        assert {*row[2].split(), *row[3].split()} <= shown, "policies and their kinds"
        assert row[5].partition(" ")[2] in text, "the interval of the score"
    console = Console(file=io.StringIO(), width=int(text.partition("COLUMNS=")[2][:3]))
    print_table(table, console)
    assert "Left out" not in console.file.getvalue()  # type: ignore[attr-defined]


def more(group: Group) -> Group:
    """The same group with one cell more."""
    metrics = {name: np.append(values, 0.5) for name, values in group.metrics.items()}
    curves = {name: [*some, some[0]] for name, some in group.curves.items()}
    return Group(group.config, np.append(group.seeds, 99), metrics, curves, np.append(group.wall_seconds, 1.0))


def test_a_run_of_some_cells_is_completed_from_what_is_kept() -> None:
    """New cells count, others stay, and what the study no longer has goes."""
    study, stored = KindsOfAgents(), unpacked(STORED)
    mine = stored.results.one(policy="OptimalStopping", env="round_stopping_v0", kind="paper")
    again = replace(mine, metrics={name: values + 1 for name, values in mine.metrics.items()})
    gone = submission([0], 0.5).results
    stored = stored._replace(results=Results(more(group) for group in stored.results))
    new = stored._replace(results=Results([again]), origin=stored.origin | {"command": "new"})
    found = store_results.completed(study, new, stored._replace(results=Results([*gone, *stored.results])))
    configs = [group.config for group in found.results]
    assert configs == [group.config for group in stored.results]
    for one, before in zip(found.results, unpacked(STORED).results, strict=True):
        assert one.seeds.tolist() == before.seeds.tolist(), "and so does a seed that it no longer has"
        better = one.config == mine.config
        assert all((one.metrics[name] == before.metrics[name] + better).all() for name in one.metrics)


def test_each_kept_cell_has_the_command_that_made_it() -> None:
    """And a command of which no cell is left is forgotten."""
    study = KindsOfAgents()
    config = next(cell.config for cell in study.cells(quick=False))

    def some(command: str, *seeds: int) -> Submission:
        group = Group(config, np.array(seeds), {"value": np.zeros(len(seeds))}, {}, np.ones(len(seeds)))
        return Submission(study.name, {"command": command}, Results([group]))

    def known(found: Submission) -> dict[int, str]:
        (group,) = found.results
        return {int(s): found.origins[i]["command"] for s, i in zip(group.seeds, group.made_by, strict=True)}

    both = store_results.completed(study, some("later", 0, 2), some("first", 0, 1, 2, 3))
    assert known(both) == {0: "later", 1: "first", 2: "later", 3: "first"}
    third = store_results.completed(study, some("third", 3), both)
    assert known(third) == {0: "later", 1: "first", 2: "later", 3: "third"}
    last = store_results.completed(study, some("last", 1), third)
    assert known(last) == {0: "later", 1: "last", 2: "later", 3: "third"}
    assert [one["command"] for one in last.origins] == ["last", "third", "later"]


def test_a_cell_of_an_unlisted_command_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(packed(submission([0, 3], 0.25)), encoding="utf-8")
    stored = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
    for origins, refusal in (([0, 0], None), ([0, 1], "lists 1 origins"), ([0, -1], "no submission"), ([0], "no subm")):
        stored["groups"][0]["origins"] = origins
        (tmp_path / "mine.json").write_text(json.dumps(stored), encoding="utf-8")
        if refusal is None:
            assert unpacked(tmp_path / "mine.json").results.groups[0].made_by.tolist() == origins
        else:
            with pytest.raises(StoreError, match=refusal):
                unpacked(tmp_path / "mine.json")
    for others in (5, [5], {"command": "earlier"}):
        stored["groups"][0]["origins"], stored["origin"]["others"] = [0, 1], others
        (tmp_path / "mine.json").write_text(json.dumps(stored), encoding="utf-8")
        with pytest.raises(StoreError, match="no submission"):
            unpacked(tmp_path / "mine.json")
    stored["groups"][0] |= {name: [] for name in ("seeds", "origins", "wall_seconds", "runs")} | {"metrics": {}}
    (tmp_path / "mine.json").write_text(
        json.dumps(stored | {"origin": dict.fromkeys(ORIGIN, "said")}), encoding="utf-8"
    )
    with pytest.raises(StoreError, match="no submission"):
        unpacked(tmp_path / "mine.json")
