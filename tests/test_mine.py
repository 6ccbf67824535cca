"""One's own agents are set beside the kept results without being asked to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_submission import KEPT, submission

from taciturn.bench import mine
from taciturn.bench.comparisons import kinds
from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.results import RUNS, Cell, Progress, Result
from taciturn.bench.scores import boards
from taciturn.bench.submission import packed, unpacked
from taciturn.bench.tasks import CONTESTS

AGENT = """
from taciturn.policies.families.round_stopping import StoppingRule


class Agent(StoppingRule):
    def waits(self, received, queued, slots):
        return received < 9
"""


@pytest.mark.parametrize(("rate", "rank"), [(0.0125, 1), (0.0112, 5), (0.001, 10)])
def test_a_rank_counts_those_that_are_better(rate: float, rank: int) -> None:
    (board,) = [one for one in boards(unpacked(KEPT).results) if one.task.plain == "taciturn/RoundStopping-v0/standard"]
    assert sum(one.metrics["rate"].mean() > rate for one in board.ranked()) == rank - 1
    own = submission(list(range(10)), rate).results
    table, *_ = mine.tables(mine.beside_kept(own, KEPT.parent), "Mine")
    ((task, _, place, *_, best),) = table.rows
    assert task == "RoundStopping-v0/standard"
    assert place.split("\N{NO-BREAK SPACE}") == [str(rank), "of", str(len(board.ranked()) + 1)]
    assert best == "1.00 OptimalStopping"


def test_without_kept_results_there_is_a_score_and_no_rank(tmp_path: Path) -> None:
    own = submission(list(range(10)), 0.0112).results
    table, *_ = mine.tables(mine.beside_kept(own, tmp_path), "Mine")
    (row,) = table.rows
    assert row[1].startswith("0.30 [")
    assert set(row[2:]) == {"–"}


def test_an_agent_alone_is_compared_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("waits.py").write_text(AGENT, encoding="utf-8")

    def run(self: KindsOfAgents, cell: Cell, progress: Progress | None = None) -> Result:
        value = 0.0112 + 1e-6 * cell.seed
        metric = CONTESTS[cell.config["env"]].measure
        return Result({metric: value, "return": 1.0, "pooled": 0.0}, {RUNS: (np.arange(2), np.full(2, value))})

    monkeypatch.setattr(KindsOfAgents, "run", run)
    monkeypatch.setattr(kinds, "overspends", lambda *given: False)  # it sends nothing, and trying that takes long
    words = ("bench", "--agent", "waits:Agent", "--backend", "serial", "--out", "own")
    code, out, _ = command(*words)
    assert code == 0
    assert "RoundStopping-v0/standard" in out
    assert " of 10" in out
    assert "waits:Agent does not fit gossip bandit: ValueError: Agent acts in the round-stopping worlds" in out
    assert out.endswith("Next:\n  taciturn leaderboard own --mine\n  taciturn submit own --to mine.json\n")
    configs = [group.config for group in unpacked_folder(Path("own"))]
    assert {one["kind"] for one in configs} == {"yours"}
    assert command("submit", "own", "--to", "mine.json")[0] == 0
    _, out, _ = command(*words[:-1], "one", "--where", "env=round_stopping_v0")
    assert "RoundStopping-v0/standard" in out
    assert "FederatedTraining" not in out
    assert "does not fit" not in out, "it was not asked to play elsewhere"
    assert {group.config["kind"] for group in unpacked_folder(Path("one"))} == {"yours"}


def unpacked_folder(folder: Path) -> Any:
    from taciturn.bench.store import Store

    return Store(folder).results("agents")


def test_a_leaderboard_of_mine_shows_the_rows_around(tmp_path: Path, command: Any) -> None:
    file, own = tmp_path / "mine.json", submission(list(range(10)), 0.0112)
    for _, scores in own.results.groups[0].curves[RUNS]:
        scores[:] = 0.0112
    file.write_text(packed(own), encoding="utf-8")
    code, out, _ = command("leaderboard", str(file), "--mine")
    assert code == 0
    rows = [line.split()[:2] for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert [place for place, _ in rows] == ["1", "3", "4", "5", "6", "7"]
    assert rows[3] == ["5", "Mine"]
    assert "GossipBandit" not in out
    code, _, err = command("leaderboard", str(KEPT), "--mine")
    assert code != 0
    assert "--mine must have agents of yours in" in err


def test_agents_are_checked_for_pooling_under_totals_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "copies.py").write_text("from taciturn.policies import CopyOnReward as Agent\n", encoding="utf-8")
    study = KindsOfAgents()
    study.agents = ("copies:Agent",)
    cell = next(
        one
        for one in study.cells(quick=True)
        if one.config["kind"] == "yours" and one.config["env"] == "social_bandit_v0" and one.config["total"] == 3.0
    )
    asked = list[Any]()

    def shared_mind(*given: Any) -> str:
        asked.append(given)
        return "it says so"

    monkeypatch.setattr(kinds, "shared_mind", shared_mind)
    assert study.run(replace(cell, config=cell.config | {"replicas": 1})).metrics["pooled"] == 1
    assert len(asked) == 1
