"""One's own agents are set beside the stored results without being asked to."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_submission import STORED, submission

from taciturn import simulate
from taciturn.bench import mine
from taciturn.bench.comparisons import kinds
from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.results import RUNS, Cell, Progress, Result
from taciturn.bench.scores import boards
from taciturn.bench.submission import packed, unpacked
from taciturn.bench.tasks import BENCHMARKS
from taciturn.envs import round_stopping_v0
from taciturn.policies import Random
from taciturn.policies.external.separate import Separate

AGENT = """
from taciturn.policies.families.round_stopping import StoppingRule


class Agent(StoppingRule):
    def waits(self, received, queued, slots):
        return received < 9
"""


@pytest.mark.parametrize(("reward", "rank"), [(1.2, 1), (1.105, 4), (0.1, 9)])
def test_a_rank_counts_those_that_are_better(reward: float, rank: int) -> None:
    (board,) = [
        one for one in boards(unpacked(STORED).results) if one.task.plain == "taciturn/RoundStopping-v0/standard"
    ]
    others = [one for one in board.ranked() if one.config["policy"] != "TrainedAgent"]  # it has too few trainings
    assert sum(one.metrics["reward"].mean() > reward for one in others) == rank - 1
    own = submission(list(range(10)), reward).results
    table, *_ = mine.tables(mine.beside_stored(own, STORED.parent), "Mine")
    ((task, _, place, *_, best),) = table.rows
    assert task == "RoundStopping-v0/standard (control)"
    assert place.split("\N{NO-BREAK SPACE}") == [str(rank), "of", str(len(others) + 1)]
    assert best == "-0.08 OptimalStopping"


def test_without_kept_results_there_is_a_score_and_no_rank(tmp_path: Path) -> None:
    own = submission(list(range(10)), 1.115).results
    table, *_ = mine.tables(mine.beside_stored(own, tmp_path), "Mine")
    (row,) = table.rows
    assert row[1].startswith("0.14 [")
    assert set(row[2:]) == {"–"}


def test_an_agent_alone_is_compared_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("waits.py").write_text(AGENT, encoding="utf-8")

    def run(self: KindsOfAgents, cell: Cell, progress: Progress | None = None) -> Result:
        value = 0.0112 + 1e-6 * cell.seed
        metric = BENCHMARKS[cell.config["env"]].measure
        return Result({metric: value, "return": 1.0, "centralised": 0.0}, {RUNS: (np.arange(2), np.full(2, value))})

    monkeypatch.setattr(KindsOfAgents, "run", run)
    monkeypatch.setattr(kinds, "overspends", lambda *given: False)  # it sends nothing, and trying that takes long
    words = ("bench", "--agent", "waits:Agent", "--backend", "serial", "--out", "own")
    code, out, err = command(*words)
    assert code == 0
    assert "RoundStopping-v0/standard" in out
    assert " of 9" in out
    (line,) = [line for line in err.splitlines() if "gossip bandit" in line]
    assert line.startswith(
        "waits:Agent does not fit gossip bandit: ValueError: Agent acts in the round-stopping worlds"
    )
    assert out.endswith("Next:\n  taciturn leaderboard own --mine\n  taciturn submit own --to mine.json\n")
    configs = [group.config for group in unpacked_folder(Path("own"))]
    assert {one["kind"] for one in configs} == {"yours"}
    page = Path("own/report.html").read_text(encoding="utf-8")
    assert "<b>How good is waits:Agent?</b> Without privacy: rank " in page
    assert ">OptimalStopping</span>" in page, "a neighbour in rank, from the stored results"
    assert "Who is best" not in page, "one agent cannot answer that"
    code, again, _ = command("report", "own")
    assert code == 0
    assert again.splitlines()[:4] == [line for line in out.splitlines() if "does not fit" not in line][:4]
    assert "budget covers all samples of a client" in again
    assert "gossip" not in again, "it was not played there"
    assert command("submit", "own", "--to", "mine.json")[0] == 0
    _, out, err = command(*words[:-1], "one", "--where", "env=round_stopping_v0")
    assert "RoundStopping-v0/standard" in out
    assert "FederatedTraining" not in out
    assert "does not fit" not in err, "it was not asked to play elsewhere"
    assert {group.config["kind"] for group in unpacked_folder(Path("one"))} == {"yours"}


ACT = """
import numpy as np

def act(rows):
    return np.stack([rows[:, :5].argmax(1), np.ones(len(rows)), np.ones(len(rows))], 1).astype(int)
"""
FIELDS = "counts [5], received, own [5], p, q"


@pytest.mark.parametrize(
    ("observes", "plays", "differs"),
    [
        (FIELDS, {"social_bandit_v0"}, "which lack counts [5], own [5], p and have counts [4], own [4]"),
        ("counts, received, own, q", {"gossip_bandit_v0"}, "which have p"),
        ("received, counts [4], own [4], q", set(), "which have another order"),
        ("", {"gossip_bandit_v0", "social_bandit_v0"}, "does not declare its observations"),
    ],
)
def test_an_agent_plays_where_it_observes_what_it_is_written_for(
    observes: str, plays: set[str], differs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its actions alone fit both worlds, whose observations differ, and also the first steps of arm elimination."""
    name = f"acts_{len(observes)}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(kinds, "overspends", lambda *given: True)
    (tmp_path / f"{name}.py").write_text(f"{ACT}\nact.observes = {observes!r}\n", encoding="utf-8")
    trial = KindsOfAgents().trial(f"{name}:act")
    assert {one["env"] for one in trial.places} == plays
    assert set(trial.elsewhere) == set(BENCHMARKS) - plays
    assert any(differs in line for line in trial.lines("it"))


def test_what_an_agent_says_that_it_observes_is_checked_wherever_it_plays() -> None:
    def act(rows: Any) -> Any:
        return np.zeros(len(rows), np.int64)

    env = round_stopping_v0.population(2, num_clients=3)
    act.observes = "received, queued, computing, slots, time_left"  # type: ignore[attr-defined]
    simulate(env, act, seed=0, until=1)

    class Agent(Random):
        observes = "received, queued"

    for agent in (Agent(), Separate(Agent())):
        with pytest.raises(ValueError, match="other observations than those of round_stopping server, which have comp"):
            simulate(env, agent, seed=0)


def unpacked_folder(folder: Path) -> Any:
    from taciturn.bench.store import Store

    return Store(folder).results("agents")


def test_a_leaderboard_of_mine_shows_the_rows_around(tmp_path: Path, command: Any) -> None:
    file, own = tmp_path / "mine.json", submission(list(range(10)), 1.105)
    for _, scores in own.results.groups[0].curves[RUNS]:
        scores[:] = 1.105
    file.write_text(packed(own), encoding="utf-8")
    code, out, _ = command("leaderboard", str(file), "--mine")
    assert code == 0
    rows = re.findall(r"^ *(\d+)  (\w+)", out, re.MULTILINE)
    assert [place for place, _ in rows] == ["1", "2", "3", "4", "5", "6"], "learners of few trainings have no rank"
    assert rows[3] == ("4", "Mine")
    assert "GossipBandit" not in out
    code, _, err = command("leaderboard", str(STORED), "--mine")
    assert code != 0
    assert "--mine must have results of your agents in" in err


def test_agents_are_checked_for_pooling_under_totals_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "copies.py").write_text("from taciturn.policies import CopyOnReward as Agent\n", encoding="utf-8")
    study = KindsOfAgents()
    study.agents = ("copies:Agent",)
    cell = next(
        one
        for one in study.cells(quick=True)
        if one.config["kind"] == "yours" and one.config["env"] == "social_bandit_v0" and one.config["budget"] == 3.0
    )
    asked = list[Any]()

    def how_centralised(*given: Any) -> str:
        asked.append(given)
        return "as it declares"

    monkeypatch.setattr(kinds, "how_centralised", how_centralised)
    assert study.run(replace(cell, config=cell.config | {"replicas": 1})).metrics["centralised"] == 1
    assert len(asked) == 1
