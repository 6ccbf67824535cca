"""The command line: what it prints, and what it says when something is wrong."""

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from taciturn import cli, current_folder, simulate
from taciturn.bench import catalogue
from taciturn.bench.catalogue import load_studies
from taciturn.bench.play import config
from taciturn.bench.results import Cell, Progress, Result
from taciturn.bench.study import STUDIES, Score, Study
from taciturn.bench.tasks import BENCHMARKS, TASKS
from taciturn.envs import gossip_bandit_v0, recommender_v0
from taciturn.logged import evaluate, fit_ratings, read_bandit
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import LinUCB, Policy
from taciturn.registry import entry
from taciturn.wrappers import BitwiseRandomizedResponse, Memoized, Scheduled, Shuffled

DEEP = "[" * 2000 + "]" * 2000
ROOT = Path(__file__).parent.parent
LIARS = "taciturn/GossipBandit-v0/liars"
Run = Callable[..., tuple[int, str, str]]


class Tiny(Study):
    """Two cells that cost nothing."""

    name = "tiny"
    title = "A tiny study"
    score = Score("value")
    figures = ("tiny2024/9.9",)

    def cells(self, quick: bool) -> list[Cell]:
        return self.sweep([{"policy": "a"}, {"policy": "b"}], range(2))

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        if cell.config["policy"] == "b" and Path("fail").exists():
            raise RuntimeError("there is a file called fail")
        return Result({"value": float(cell.seed)})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Call `taciturn` with these words in an empty folder; give its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(STUDIES, "tiny", Tiny())
    monkeypatch.setattr(current_folder, "searched", False)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])

    def call(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["taciturn", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return call


def test_list_names_everything(run: Run) -> None:
    code, out, _ = run("list", "--json")
    found = json.loads(out)
    assert code == 0
    assert "taciturn/RoundStopping-v0" in found["environments"]
    assert {"OptimalStopping", "TrainedAgent"} <= set(found["policies"])
    assert {"agents", "trust"} <= set(found["studies"])
    assert "tiny2024/9.9" in found["figures"]
    assert {"Laplace", "BitwiseRandomizedResponse"} <= set(found["mechanisms"])
    shown = run("list")[1]
    found["tasks"] = [task["id"] for task in found["tasks"] if task["budget"] == "none"]
    found["pretrained"] = [f"pretrained:{agent['name']}" for agent in found["pretrained"]]
    names = [name for part in found.values() for name in part]
    assert [name for name in names if f"    {name} " not in shown] == []
    stopping = shown[shown.index("Textbook stopping rules") : shown.index("Textbook rules of payment")]
    assert "FixedCount" in stopping
    assert "Voter" not in stopping


def test_lists_have_whole_sentences(run: Run) -> None:
    """A docstring's first sentence may have several lines, and what is said after it is another one."""
    found = json.loads(run("list", "--json")[1])
    for kind in ("policies", "mechanisms"):
        for name, text in found[kind].items():
            assert re.fullmatch(
                r"[^\n]*[A-Za-z0-9)\]\"][.?](?: It knows the hidden truth\.)?(?: Its agents share a mind\.)?", text
            ), name
    oracle = found["policies"]["CentralisedOracle"]
    assert oracle.endswith("an upper bound on the gain from communication. Its agents are centralised.")


def test_list_of_one_kind(run: Run) -> None:
    assert list(json.loads(run("list", "mechanisms", "--json")[1])) == ["mechanisms"]
    shown = run("list", "mechanisms")[1]
    assert "Laplace" in shown
    assert "FixedCount" not in shown


def test_show_tells_parameters_metrics_and_policies_that_fit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run("show", "GossipBandit")
    head = out.partition("Can agents that remember")[0]
    assert code == 0
    assert {"num_agents", "400", "popularity_regret:", "preference,", "PPCL,"} <= set(head.split())
    assert "OptimalStopping" not in head
    assert {"FixedCount(k),", "OptimalStopping,"} <= set(run("show", "round_stopping")[1].split())
    assert "EliminationSchedule" in (shown := run("show", "arm_elimination")[1].partition("Parameters")[0])
    assert "UCB1" not in shown  # which pulls single arms
    assert max(map(len, head.splitlines())) <= 80
    assert {"k", "required"} <= set(run("show", "FixedCount")[1].split())
    assert "epsilon: of one message, > 0." in run("show", "Laplace")[1]
    code, _, err = run("show", "Laplac")
    assert code == 1
    assert err.startswith("taciturn: unknown environment, policy or mechanism 'Laplac': did you mean Laplace")


def test_the_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version")[:2] == (0, f"taciturn {version('taciturn')}\n")
    module = subprocess.run([sys.executable, "-m", "taciturn", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout == f"taciturn {version('taciturn')}\n"


def test_run_prints_one_document(run: Run) -> None:
    words = "run taciturn/RoundStopping-v0 --policy FixedCount --set policy.k=3 --set horizon=30"
    code, out, err = run(*words.split(), "--seeds", "3", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["seed"], found["runs"]) == (0, 3)
    assert found["metrics"]["mean_updates"]["values"] == [3.0, 3.0, 3.0]
    code, out, _ = run(*words.split(), "--seeds", "2")
    assert code == 0
    assert "mean_updates" in out


@pytest.mark.parametrize(
    ("task", "policy", "kind"),
    [
        (LIARS, "PPCL", "paper"),
        ("taciturn/Elicitation-v0/wary", "Wintall", "paper"),
        ("taciturn/Recommender-v0/linear", "Random", "random"),
    ],
)
def test_a_task_is_played_as_the_benchmark_plays_it(run: Run, task: str, policy: str, kind: str) -> None:
    code, out, _ = run("run", task, "--policy", policy, "--runs", "2", "--seed", "3", "--json")
    assert code == 0
    one = TASKS[task]
    cell = Cell("agents", config(one.env, policy, **BENCHMARKS[one.env].world) | {"kind": kind, "replicas": 4}, 3)
    found = json.loads(out)["metrics"]
    assert found[one.measure]["mean"] == pytest.approx(load_studies()["agents"].run(cell).metrics[one.metric])
    kept = json.loads((ROOT / "bench/references.json").read_text(encoding="utf-8"))[one.plain]
    alone, together = (np.mean(kept[name]["values"]) for name in ("no communication", "full information"))
    share = (found[one.measure]["mean"] - alone) / (together - alone)
    assert json.loads(out)["score"]["mean"] == pytest.approx(share, abs=1e-4)
    assert found["score"]["mean"] == pytest.approx(share, abs=1e-4)


def test_a_total_is_printed_beside_what_it_covers(run: Run) -> None:
    task = "taciturn/Elicitation-v0/standard@3"
    code, out, _ = run("run", task, "--policy", "Wintall", "--runs", "1")
    assert code == 0
    (spent,) = (line for line in out.splitlines() if line.split()[:1] == ["epsilon"])
    assert 0 < float(spent.split()[1]) <= 3
    assert spent.endswith(" of all values of an individual, on report")
    (whole,) = (line for line in out.splitlines() if line.split()[:1] == ["epsilon_zcdp"])
    assert whole.endswith(" of one event, on all channels")
    code, out, _ = run("run", task, "--policy", "Wintall", "--runs", "1", "--json")
    assert json.loads(out)["covers"] == "all values of an individual, on report"


def test_a_task_says_what_it_is(run: Run) -> None:
    code, out, _ = run("run", LIARS, "--policy", "PPCL", "--runs", "2")
    assert code == 0
    said = (
        "task: a fifth of the agents name the next option instead of their own; measure: popularity_regret (lower is "
        "better)"
    )
    assert out.splitlines()[1] == said
    assert re.fullmatch(
        r"score: 0 = BayesPlan \(0\.\d+\) without communication, 1 = CentralisedKnowledgeGradient \(0\.\d+\) .*",
        out.splitlines()[2],
    )
    assert [line.split()[0] for line in out.splitlines()[3:5]] == ["popularity_regret", "score"]
    code, out, _ = run("show", LIARS)
    assert "CentralisedKnowledgeGradient (0." in " ".join(out.split())


def test_runs_differ_and_the_mean_is_of_all_of_them(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hall's interval of the printed values: at its bounds his transformation of T is Student's quantile. Runs are
    those of as many replicas, in blocks of seeds of their own."""
    words = "run gossip_bandit --policy Voter --set num_agents=10 --set horizon=3 --seeds 4"
    metric = json.loads(run(*words.split(), "--json")[1])["metrics"]["regret"]
    world = gossip_bandit_v0.population(4, num_agents=10, horizon=3.0)
    assert metric["values"] == simulate(world, "Voter", seed=0).metrics["regret"].tolist()
    assert len(set(metric["values"])) == 4
    assert metric["mean"] == pytest.approx(np.mean(metric["values"]))
    a, error = stats.skew(metric["values"], bias=False) / 2, np.std(metric["values"], ddof=1) / 2
    for bound, sign in ((metric["low"], 1), (metric["high"], -1)):
        t = (metric["mean"] - bound) / error
        assert t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 == pytest.approx(sign * stats.t.ppf(0.975, 3))
    monkeypatch.setattr("taciturn.cli.run.BLOCK", 2)
    blocks = json.loads(run(*words.split(), "--json")[1])["metrics"]["regret"]["values"]
    assert len(blocks) == len(set(blocks)) == 4
    other = json.loads(run(*words.split(), "--seed", "2", "--json")[1])["metrics"]["regret"]["values"]
    assert not set(blocks) & set(other)


def test_a_broken_claim_fails_the_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = SimpleNamespace(name="Laplace:1", verdict="violated", as_dict=dict)
    monkeypatch.setattr("taciturn.cli.audit.audit_all", lambda *words, **options: [broken])
    code, _, err = run("audit", "Laplace:1", "--json")
    assert (code, err) == (1, "taciturn: the claim of Laplace:1 is violated\n")


def test_what_has_no_value_is_null(run: Run) -> None:
    words = ("run", "round_stopping", "--policy", "WaitForAll", "--set", "horizon=4", "--seeds", "1")
    _, out, _ = run(*words, "--json")
    assert json.loads(out)["metrics"]["mean_updates"]["mean"] is None
    assert run(*words)[0] == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["run", "taciturn/RoundStoping-v0", "--policy", "Random"], ["RoundStoping", "taciturn/RoundStopping-v0"]),
        (["run", "round_stopping", "--policy", "FixdCount"], ["FixdCount", "FixedCount"]),
        (["run", "round_stopping", "--policy", "FixedCount"], ["FixedCount", "k"]),
        (["run", "round_stopping", "--policy", "FixedCount", "--set", "policy.k=-1"], ["k must", "-1"]),
        (["run", "round_stopping", "--policy", "Random", "--set", "upload_probability=0"], ["upload_probability", "0"]),
        (["run", "round_stopping", "--policy", "Random", "--set", "clients=3"], ["clients", "num_clients"]),
        (["run", "round_stopping", "--policy", "Random", "--set", "num_clients"], ["key=value", "num_clients"]),
        (["run", "round_stopping", "--policy", "Random", "--privacy", "Laplace:1"], ["--privacy", "none"]),
        (["run", "FederatedTraining", "--policy", "Random", "--privacy", "Laplce:1"], ["Laplce", "Laplace"]),
        (["run", "FederatedTraining", "--policy", "Random", "--privacy", "Laplace:-1"], ["epsilon", "-1"]),
        (
            ["run", "FederatedTraining", "--policy", "Random", "--privacy", "updat=Laplace:1"],
            ["channel 'updat'", "update"],
        ),
        (["run", "FederatedTraining", "--policy", "Random", "--privacy", "Laplace:1"], ["clip_norm"]),
        (["audit", "Laplace:0"], ["epsilon", "0"]),
        (["audit", "Gauss:1"], ["Gauss", "Gaussian"]),
        (["audit", "Laplace:1", "--env", "round_stopping"], ["channel", "(none)"]),
        (["audit", "Laplace:1", "--env", "FederatedTraining"], ["clip_norm"]),
        (["run", "round_stopping", "--policy", "Random", "--until", "-3"], ["until", "-3"]),
        (["run", "round_stopping"], ["--policy", "(see taciturn run --help)"]),
        (["run", LIARS, "--policy", "PPCL", "--until", "3"], ["--until must be left out", "3.0", LIARS]),
        (["run", LIARS, "--policy", "PPCL", "--privacy", "paper"], ["--privacy must be left out", "'paper'"]),
        (["run", LIARS, "--policy", "PPCL", "--set", "num_agents=9"], ["--set num_agents must be left out", "9"]),
        (
            ["run", LIARS.replace("liars", "liar"), "--policy", "PPCL"],
            ["unknown task", "liar'", f"did you mean {LIARS}"],
        ),
        (["audit"], ["mechanism", "(see taciturn audit --help)"]),
        (["run", "elicitation", "--policy", "Wintall"], ["platform", "individual"]),
        (["run", "elicitation", "--policy", "platform=Wintall,individual=Nobody"], ["Nobody"]),
        (["run", "elicitation", "--policy", "platform=Wintall", "--set", "policy.k=1"], ["policy.k", "role"]),
        (["run", "round_stopping", "--policy", "Random", "--seeds", "0"], ["--runs", "0"]),
        (["run", "round_stopping", "--policy", "Random", "--set", "num_envs=3"], ["num_envs", "--runs"]),
        (["run", "round_stopping", "--policy", "Random", "--set", "self=1"], ["round_stopping cannot take", "self"]),
        (
            ["run", "round_stopping", "--policy", "Random", "--set", f"num_clients={'9' * 400}"],
            ["--set num_clients", "64 bits"],
        ),
        (
            ["run", "round_stopping", "--policy", "Random", "--set", f"num_clients={'9' * 5000}"],
            ["--set num_clients", "64 bits"],
        ),
        (
            ["run", "round_stopping", "--policy", "Random", "--set", f"num_clients=[{2**63}]"],
            ["--set num_clients", "64 bits"],
        ),
        (
            ["run", "round_stopping", "--policy", "Random", "--set", f"reward={DEEP}"],
            ["--set reward", "nested too deeply"],
        ),
        (
            ["run", "round_stopping", "--policy", "FixedCount", "--set", "policy.self=1"],
            ["FixedCount got an unexpected keyword argument 'self'"],
        ),
        (
            ["run", "round_stopping", "--policy", "FixedCount", "--set", f"policy.k={DEEP}"],
            ["--set policy.k", "nested"],
        ),
        (["run", "round_stopping", "--policy", "Random", "--seeds", "9" * 400], ["--runs must"]),
        (["run", "FederatedTraining", "--policy", "Random", "--privacy", f"Laplace:{'9' * 400}"], ["64 bits"]),
        (["audit", f"Laplace:{DEEP}"], ["nested too deeply"]),
        (["audit", "TreeAggregation:1,horizon=1000000000000"], ["horizon", "1000000000000", "<= 1000000000"]),
        (["bench", "tiny", "--timeout", "0"], ["timeout", "0"]),
        (["bench", "tiny", "--timeout", "1", "--backend", "serial"], ["timeout", "process"]),
        (["bench", "leekage"], ["leekage", "leakage"]),
        (["bench", "tiny", "--backend", "threads"], ["threads", "process"]),
        (["bench", "tiny", "--workers", "0"], ["workers", "0"]),
        (["reproduce", "tiny2042/9.9"], ["figure", "tiny2042/9.9", "tiny2024/9.9"]),
        (["reproduce", "tiny2020"], ["figure", "tiny2020", "tiny2024"]),
        (["reproduce", "9.9"], ["figure", "9.9", "tiny2024/9.9"]),
        (["report", "nothing-here"], ["nothing-here"]),
        (["logged", "ratings", "nothing-here.csv", "--policy", "Random"], ["nothing-here.csv"]),
        (["logged", "ratings", "nothing-here.csv", "--policy", "Rndom"], ["Rndom", "Random"]),
        (["logged", "bandit", "nothing-here.csv", "--policy", "Random"], ["nothing-here.csv"]),
        (["logged", "bandit", "nothing-here.csv", "--policy", ","], ["--policy", "','"]),
        (
            ["logged", "bandit", "x.csv", "--policy", "Random, LinUCB", "--set", "policy.alpha=1"],
            ["policy.alpha", "LinUCB"],
        ),
        (["logged", "bandit", "x.csv", "--policy", "Random", "--set", "num_agents=1"], ["--set", "num_agents"]),
        (["logged", "bandit", "x.csv", "--policy", "LinUCB", "--set", "policy.alpha=-1"], ["alpha", "-1"]),
        (["logged", "bandits", "x.csv"], ["bandits"]),
        (["benhc"], ["benhc"]),
    ],
)
def test_a_mistake_is_one_line(run: Run, words: list[str], named: list[str]) -> None:
    code, out, err = run(*words)
    assert code != 0
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    for part in named:
        assert part in err


def test_several_roles(run: Run) -> None:
    words = ["run", "elicitation", "--policy", "platform=Wintall,individual=Truthful", "--seeds", "2", "--json"]
    words += ["--set", "policy.individual.epsilon=3.0", "--set", "horizon=2", "--set", "num_individuals=10"]
    code, out, _ = run(*words)
    assert code == 0
    assert json.loads(out)["metrics"]["epsilon_message"]["mean"] == pytest.approx(np.log(4))
    code, _, err = run("run", "elicitation", "--policy", "Wintall")
    assert code == 1
    assert err == "taciturn: --policy must name a policy for each role, platform=NAME,individual=NAME, not 'Wintall'\n"


def test_logged_ratings_end_to_end(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{rng.integers(20)},{rng.integers(8)},{rng.integers(1, 6)},{time}" for time in range(300)]
    (tmp_path / "ratings.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *rows]), encoding="utf-8")
    words = ["logged", "ratings", "ratings.csv", "--policy", "Random, LinUCB", "--set", "policy.LinUCB.kind=shared"]
    words += ["--set", "num_agents=2", "--seeds", "3", "--until", "10"]
    code, out, err = run(*words, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["rewards"] == "simulator fitted to ratings.csv"
    assert found["held_out"]["rows"] == 60
    assert [len(one["regret"]) for one in found["policies"].values()] == [3, 3]
    world = recommender_v0.population(family=fit_ratings("ratings.csv"), num_agents=2)
    mine = [simulate(world, LinUCB("shared"), seed=seed, until=10).metrics["regret"][0] for seed in range(3)]
    assert found["policies"]["LinUCB"]["regret"] == pytest.approx(mine)
    code, out, _ = run(*words)
    assert code == 0
    assert out.count("simulator fitted to ratings.csv") == 2
    assert "60 held-out ratings" in out
    assert f"  {np.mean(mine):.4f}" in out
    code, _, err = run(*words, "--set", "num_items=9")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "num_items" in err


def test_logged_bandit_end_to_end(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    action, click = rng.integers(0, 3, 200), rng.integers(0, 2, 200)
    rows = [f"a{a},{c},{1 / 3!r},{rng.random()}" for a, c in zip(action, click, strict=True)]
    (tmp_path / "log.csv").write_text("\n".join(["item_id,click,propensity_score,context", *rows]), encoding="utf-8")
    words = ["logged", "bandit", "log.csv", "--policy", "Random, LinUCB", "--set", "policy.LinUCB.kind=disjoint"]
    code, out, err = run(*words, "--estimator", "all", "--json")
    found = json.loads(out)
    assert (code, err, found["uniform"]) == (0, "", True)
    mine = evaluate(read_bandit("log.csv"), LinUCB("disjoint"), estimator="all")
    assert found["policies"]["LinUCB"] == json.loads(json.dumps([vars(one) for one in mine]))
    code, out, _ = run(*words)
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[3:]] == [["Random", "replay"], ["LinUCB", "replay"]]
    assert f"{mine[0].value:.4f}" in out
    code, _, err = run("logged", "bandit", "log.csv", "--policy", "OracleItem")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "hidden truth" in err


# For each command what it refuses, with a folder or file `new` that it would write.
WRITES: dict[str, list[str]] = {
    "run": ["nowhere --policy Random", "round_stopping --policy Nobody", "round_stopping --policy Random --runs 0"],
    "train": [
        "nowhere --steps 9 --out new", "round_stopping --algorithm PPO --out new", "round_stopping --steps 0 --out new",
        "round_stopping --steps 9 --algorithm Nobody --out new", "round_stopping --steps 9 --set policy.x=1 --out new",
        "round_stopping --steps 9 --set x=1 --out new", "round_stopping --steps 9 --num-envs 0 --out new",
        "round_stopping --steps 9 --evaluations 0 --out new", "round_stopping --steps 9 --seed -1 --out new",
        "round_stopping --steps 9 --settings none.yaml --out new", "gossip_bandit --steps 9 --privacy No:1 --out new",
        "round_stopping --steps 9 --out file", "gossip_bandit/crowd --steps 9 --out new",
    ],
    "bench": [
        *(f"tiny --out new {wrong}" for wrong in (
            "--backend ray", "--backend none", "--workers 0", "--timeout 0", "--timeout 1 --backend serial",
            "--shard 3/2", "--shard x", "--where policy=c", "--where x", "--agent Random",
        )),
        "nothing --out new", "--agent Nobody --out new", "tiny --out file", "--agent json:dumps --out new", "",
    ],
    "reproduce": ["nobody --out new", "tiny2024/9.9 --backend ray --out new", "tiny2024/9.9 --workers 0 --out new", ""],
    "gather": ["none --out new", "file --out new", "done", "done --out done", "strange --out new"],
    "report": ["none", "file", "strange"],
    "submit": ["none --to new", "done --to new", "file --to new"],
    "leaderboard": ["none", "done", "file"],
    "audit": [
        "Nothing:1 --plot new.png", "Laplace:1 --plot none/new.png", "Laplace:1 --plot new.xyz",
        "Laplace:1 --trials 0 --plot new.png", "Laplace:1 --confidence 2 --plot new.png",
        "Laplace:1 --env nowhere --plot new.png", "Laplace:1 --method guess --plot new.png",
    ],
    "verify": ["nothing", "--kept done", "--cells 0", "--workers 0"],
    "compile": ["nowhere"],
    "list": ["nothing"],
    "show": ["nothing"],
    "logged": ["ratings none --policy Random", "bandit file --policy Random", "bandit none --policy Random"],
}  # fmt: skip


def tree(folder: Path) -> dict[str, int]:
    """What a folder holds, with the time at which each part of it was written."""
    return {str(one): one.stat().st_mtime_ns for one in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("command", WRITES)
def test_what_is_refused_is_refused_before_anything_is_written(
    command: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the right command is not told that the folder is not empty."""
    monkeypatch.setitem(sys.modules, "ray", None)
    Path("file").write_text("not of taciturn\n", encoding="utf-8")
    assert run("bench", "tiny", "--backend", "serial", "--out", "done")[0] == 0
    shutil.copytree("done", "strange")
    for name in ("manifest.json", "plan.json"):
        path = Path("strange", name)
        path.write_text(path.read_text(encoding="utf-8").replace('"tiny"', '"strange"'), encoding="utf-8")
    before = tree(Path())
    for words in WRITES[command]:
        code, out, err = run(command, *shlex.split(words))
        assert (code in (1, 2), len(err.strip().splitlines())) == (True, 1), (words, out, err)
        assert tree(Path()) == before, words


def test_refusals_of_every_command_are_tried() -> None:
    from typer.main import get_command

    from taciturn.cli.app import app

    known: Any = get_command(app)
    assert set(WRITES) == set(known.commands)


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["taciturn", "--debug", "run", "nowhere", "--policy", "Random"])
    with pytest.raises(ValueError, match="nowhere"):
        cli.main()


def test_bench_then_resume_then_report(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("bench", "tiny", "--out", "here", "--backend", "serial")
    assert code == 0
    assert "here/report.html" in out
    assert (tmp_path / "here/report.html").stat().st_size > 1000
    code, _, err = run("bench", "tiny", "--out", "here", "--backend", "serial")
    assert code != 0
    assert "--resume" in err
    code, out, _ = run("bench", "tiny", "--out", "here", "--backend", "serial", "--resume", "--json")
    found: dict[str, Any] = json.loads(out)
    assert (code, found["cells"], found["reused"]) == (0, 4, 4)
    assert [group["metrics"]["value"] for group in found["studies"]["tiny"]["groups"]] == [[0.0, 1.0], [0.0, 1.0]]
    assert run("report", "here")[0] == 0


def test_a_report_of_a_study_that_is_not_installed_says_what_to_type(run: Run, tmp_path: Path) -> None:
    run("bench", "tiny", "--out", "here", "--backend", "serial")
    plan = tmp_path / "here/plan.json"
    plan.write_text(plan.read_text(encoding="utf-8").replace('"tiny"', '"gone"'), encoding="utf-8")
    code, out, err = run("report", "here")
    assert (code != 0, out, len(err.splitlines())) == (True, "", 1)
    assert "none of the studies in here (gone) is installed: taciturn bench module:Study --out here --resume" in err


def test_a_report_of_what_its_studies_cannot_have_written_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("bench", "tiny", "--out", "here", "--backend", "serial")
    manifest, plan = ((tmp_path / f"here/{name}.json").read_text(encoding="utf-8") for name in ("manifest", "plan"))
    for name, text, told in (
        ("manifest", json.dumps(json.loads(manifest) | {"code": ["a"]}), "manifest.json was not written by taciturn"),
        (
            "plan",
            json.dumps({study: json.loads(plan)["tiny"] for study in ("leakage", "tiny")}),
            "leakage has cells of",
        ),
    ):
        (tmp_path / f"here/{name}.json").write_text(text, encoding="utf-8")
        code, out, err = run("report", "here")
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert told in err
        (tmp_path / "here/manifest.json").write_text(manifest, encoding="utf-8")
        (tmp_path / "here/plan.json").write_text(plan, encoding="utf-8")
    monkeypatch.setattr(Tiny, "tables", lambda study, results: results.groups[0].metrics["loss"])
    assert run("report", "here")[2] == (
        "taciturn: here has results that this version of its studies cannot report: KeyError: 'loss'\n"
    )


def test_kept_results_of_no_study_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    code, out, err = run("verify", "--kept", ".")
    assert (code, out) == (1, "")
    assert (
        err
        == "taciturn: --kept must be a folder of files STUDY.json, and . has other.json, but there is no such study\n"
    )


@pytest.mark.parametrize("text", ["[1]", "null", "{", '{"training": [1]}', '"training"', DEEP])
def test_a_manifest_of_no_training_is_refused(run: Run, tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    code, out, err = run("train", "round_stopping", "--algorithm", "NeuralBandit", "--out", ".", "--resume")
    assert (code, out) == (1, "")
    assert err == "taciturn: out must be a new folder or hold a training, and manifest.json is of none\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--set num_agents=900000000", "num_agents must be small enough for the memory of this machine, not 900000000"),
        ("--runs 1000 --seed 3", "--runs must be small enough for the memory of this machine, not 1000"),
        ("", "memory does not suffice"),
    ],
)
def test_a_lack_of_memory_names_the_largest_number(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, told: str
) -> None:
    def allocate(*args: Any) -> None:
        raise MemoryError("Unable to allocate 7 GiB")

    monkeypatch.setattr("taciturn.cli.run.population_of", allocate)
    code, out, err = run("run", "gossip_bandit", "--policy", "Random", *words.split())
    assert (code, out, err) == (1, "", f"taciturn: {told}: Unable to allocate 7 GiB\n")


@pytest.mark.parametrize("closed", ["stdin", "stdout", "stderr"])
def test_a_closed_stream_stops_nothing(run: Run, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, closed, None)
        code, out, err = run("list", "mechanisms")
        getattr(sys, closed).close()
    assert (code, err) == (0, "")
    assert ("Laplace" in out) == (closed != "stdout")


@pytest.mark.parametrize(
    ("encoding", "errors"), [("ascii", "strict"), ("cp1252", "strict"), ("ascii", "surrogateescape")]
)
def test_what_an_encoding_lacks_is_replaced(
    run: Run, monkeypatch: pytest.MonkeyPatch, encoding: str, errors: str
) -> None:
    run("bench", "tiny", "--out", "here", "--backend", "serial")
    with monkeypatch.context() as patched, io.TextIOWrapper(printed := io.BytesIO(), encoding, errors) as stream:
        patched.setattr(sys, "stdout", stream)
        code, _, err = run("report", "here")
        stream.flush()
        assert (code, err) == (0, "")
        assert "????" in printed.getvalue().decode(encoding)


def test_an_interruption_while_modules_are_imported_is_silent(tmp_path: Path) -> None:
    (tmp_path / "taciturn").write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # programs in the background may ignore it
        "class Interrupted:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        name == 'gymnasium' and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupted)\n"
        "from taciturn.cli import main\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, tmp_path / "taciturn"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_corrupt_cell_is_named_and_nothing_else_is_lost(run: Run, tmp_path: Path) -> None:
    run("bench", "tiny", "--out", "here", "--backend", "serial")
    cell = sorted((tmp_path / "here/cells").iterdir())[0]
    cell.write_bytes(cell.read_bytes()[:40])
    code, out, err = run("report", "here")
    assert (code != 0, out, len(err.splitlines())) == (True, "", 1)
    assert cell.name in err
    code, out, _ = run("bench", "tiny", "--out", "here", "--backend", "serial", "--resume", "--json")
    assert code == 0
    assert json.loads(out)["reused"] == 3


def test_a_failed_cell_fails_the_command_and_keeps_the_others(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fail").touch()
    code, out, err = run("bench", "tiny", "--out", "here", "--backend", "serial")
    assert code != 0
    assert "2 of 4 cells failed" in err
    assert "report" in out
    (tmp_path / "fail").unlink()
    code, out, _ = run("bench", "tiny", "--out", "here", "--backend", "serial", "--resume", "--json")
    assert (code, json.loads(out)["reused"]) == (0, 2)


def command_of_the_page(pattern: str) -> str:
    """The only command of the page 'Clusters' that begins like this, on one line."""
    page = (Path(__file__).parent.parent / "docs/clusters.md").read_text(encoding="utf-8").replace("\\\n", "")
    (line,) = [line for line in page.splitlines() if line.startswith(pattern)]
    return line


def test_the_job_array_of_the_page_gives_the_whole(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, gather = command_of_the_page("taciturn bench"), command_of_the_page("taciturn gather")
    first, last = map(int, command_of_the_page("#SBATCH --array=").partition("=")[2].split("-"))
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "1")
    for task in range(first, last + 1):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(task))
        _, *words = shlex.split(os.path.expandvars(job.replace(" agents ", " tiny ")))
        code, out, err = run(*words, "--backend", "serial")
        assert code == 0, err
        assert f" of shard {task}/{last}: results/shard-{task}" in out
    words = [
        str(one) for word in shlex.split(gather)[1:] for one in (sorted(tmp_path.glob(word)) if "*" in word else [word])
    ]
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert "results/whole/report.html" in out
    code, out, _ = run("bench", "tiny", "--out", "results/whole", "--resume", "--json")
    assert (code, json.loads(out)["reused"]) == (0, 4)


def test_gather_tells_what_is_missing_and_what_differs(run: Run, tmp_path: Path) -> None:
    (tmp_path / "fail").touch()
    assert run("bench", "tiny", "--shard", "1/2", "--out", "one", "--backend", "serial")[0] != 0
    (tmp_path / "fail").unlink()
    code, out, _ = run("reproduce", "tiny2024", "--shard", "2/2", "--out", "two", "--backend", "serial", "--json")
    assert (code, json.loads(out)) == (0, {"shard": "2/2", "cells": 2, "reused": 0, "failed": []})
    manifest = json.loads((tmp_path / "two/manifest.json").read_text(encoding="utf-8"))
    (tmp_path / "two/manifest.json").write_text(json.dumps(manifest | {"code": "changed"}), encoding="utf-8")
    code, out, err = run("gather", "one", "two", "--out", "all", "--json")
    found = json.loads(out)
    assert (code, found["cells"], found["missing"]) == (1, 4, 1)
    assert "not all of these results were computed with the same code" in err
    assert "taciturn: 1 of 4 cells are missing: " in err
    assert [group["seeds"] for group in found["studies"]["tiny"]["groups"]] == [[0, 1], [1]]
    assert run("bench", "tiny", "--out", "all", "--resume", "--backend", "serial")[0] == 0
    code, out, err = run("gather", "one", "two", "--out", "all")
    assert (code, out, err) == (1, "", "taciturn: all is not empty: choose another --out\n")


@pytest.mark.parametrize("name", ["tiny2024/9.9", "tiny2024/9", "tiny2024"])
def test_reproduce_selects_by_figure_chapter_or_paper(run: Run, name: str) -> None:
    code, out, _ = run("reproduce", name, "--out", "here", "--backend", "serial", "--json")
    assert code == 0
    assert list(json.loads(out)["studies"]) == ["tiny"]


def test_without_the_papers_it_is_said_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs none of their studies works."""
    monkeypatch.setitem(vars(catalogue.STUDY_PLUGINS), "entries", {})
    monkeypatch.delitem(STUDIES, "tiny")
    for words in ("reproduce --quick", "reproduce li2022/4", "verify --cells 1"):
        code, out, err = run(*words.split())
        assert (code, out) == (1, "")
        assert err == (
            "taciturn: the papers' figures need taciturn-papers: run pip install ./papers in a clone of taciturn\n"
        )
    assert json.loads(run("list", "figures", "--json")[1]) == {"figures": {}}
    assert "agents" in json.loads(run("list", "studies", "--json")[1])["studies"]


def test_a_papers_own_privacy(run: Run) -> None:
    sizes = ("--set", "num_agents=10", "--set", "horizon=2", "--seeds", "2", "--json")
    code, out, _ = run(
        "run", "gossip_bandit", "--policy", "PPCL", "--set", "policy.epsilon=2", *sizes, "--privacy", "paper"
    )
    assert code == 0
    metrics = json.loads(out)["metrics"]
    assert metrics["epsilon_basic"]["mean"] == pytest.approx(2 * metrics["replies"]["mean"])
    code, _, err = run("run", "gossip_bandit", "--policy", "Voter", *sizes, "--privacy", "paper")
    assert code != 0
    assert "Voter prescribes no mechanism" in err


def test_a_mechanism_whose_answers_are_kept() -> None:
    scheduled = "Scheduled:60:BitwiseRandomizedResponse:3"
    assert parse_mechanism(scheduled) == Scheduled(BitwiseRandomizedResponse(3), at=60)
    for bad in ("Scheduled", "Scheduled:", "Scheduled:3", "Scheduled:x:NoPrivacy", "Scheduled:0:NoPrivacy"):
        with pytest.raises(ValueError, match=r"unknown mechanism|at must be an integer >= 1"):
            parse_mechanism(bad)
    assert parse_mechanism("Memoized:BitwiseRandomizedResponse:3") == Memoized(BitwiseRandomizedResponse(3))
    assert parse_mechanism("Shuffled:BitwiseRandomizedResponse:3") == Shuffled(BitwiseRandomizedResponse(3))
    with pytest.raises(ValueError, match=r"unknown mechanism 'Laplce'"):
        parse_mechanism("Memoized:Laplce:3")


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.setattr(sys, "argv", ["taciturn", "list"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 1
    assert "pip install '.[bench]'" in capsys.readouterr().err


def test_run_with_privacy_tells_what_was_spent(run: Run) -> None:
    words = "run FederatedTraining --policy FixedCount --set policy.k=5 --set clip_norm=1 --set horizon=20"
    code, out, err = run(*words.split(), "--privacy", "update=Gaussian:2,delta=1e-5", "--seeds", "2", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert 0 < found["metrics"]["epsilon_zcdp"]["mean"] <= found["metrics"]["epsilon_basic"]["mean"]
    assert json.loads(run(*words.split(), "--seeds", "1", "--json")[1])["metrics"]["epsilon_basic"]["mean"] is None


def test_audit_of_a_true_claim(run: Run, tmp_path: Path) -> None:
    words = ("audit", "BitwiseRandomizedResponse:1", "--trials", "20000", "--confidence", "0.999")
    code, out, err = run(*words, "--json", "--plot", "audit.png")
    (found,) = json.loads(out)["audits"]
    assert (code, err) == (0, "")
    assert 0.7 < found["certified"] <= 1 == found["claimed"]
    assert (tmp_path / "audit.png").stat().st_size > 1000
    assert "consistent" in run(*words)[1]


@pytest.mark.parametrize("plot", [["--plot=~/audit.png"], ["--plot", "~/audit.png"]])
def test_figures_are_drawn_at_home_and_in_notebooks(
    run: Run, plot: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shells leave --plot=~/... as it is, and a notebook names a backend that may not be installed."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MPLBACKEND", "module://no_such_backend")
    code, _, err = run("audit", "BitwiseRandomizedResponse:1", "--trials", "1000", *plot)
    assert (code, err) == (0, "")
    assert os.environ["MPLBACKEND"] == "agg"  # which matplotlib reads as it is imported, in workers too
    assert [file.name for file in tmp_path.iterdir()] == ["home"]
    assert (tmp_path / "home/audit.png").exists()


def test_audit_of_an_environment(run: Run) -> None:
    world = ("--env", "FederatedTraining", "--set", "clip_norm=1", "--set", "num_clients=2", "--set", "horizon=2")
    words = ("audit", "Laplace:100", *world, "--policy", "FixedCount", "--set", "policy.k=2", "--trials", "200")
    code, out, err = run(*words, "--json")
    (found,) = json.loads(out)["audits"]
    assert (code, err) == (0, "")
    assert (found["name"], found["trials"], found["verdict"]) == ("update=Laplace:100", 200, "no power")
    assert found["claimed"] % 100 == 0
    assert found["cap"] < found["claimed"]
    assert "nothing private passes beside the channels" in json.loads(out)["replay"]
    assert "--policy" in run("audit", "--help")[1]


def test_audit_of_an_environment_that_shows_private_data(run: Run) -> None:
    words = ("audit", "Laplace:1", "--env", "worlds:peeking_v0", "--channel", "opinion", "--trials", "100")
    code, out, err = run(*words, "--steps", "2")
    assert code == 1
    assert "opinion=Laplace:1" in out
    assert "observations of agent in heard must not depend on private data of agent 0" in err


def test_kill_9_in_the_middle_then_resume(tmp_path: Path) -> None:
    """No finished cell is run again (its file is the same file, untouched), and none is lost."""
    out = tmp_path / "out"
    words = [
        "bench",
        "bench_dummies:Waiting",
        "--out",
        str(out),
        "--workers",
        "2",
        "--json",
    ]
    command = [sys.executable, "-c", "from taciturn.cli import main; main()", *words]
    home, quiet = ROOT / "tests", subprocess.DEVNULL
    first = subprocess.Popen(command, start_new_session=True, cwd=home, stdout=quiet, stderr=quiet)
    deadline = time.monotonic() + 120
    while len(list(out.glob("cells/*.parquet"))) < 3:
        assert first.poll() is None, "it ended before it was killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    kept = {cell: (cell.stat().st_ino, cell.stat().st_mtime_ns) for cell in out.glob("cells/*.parquet")}
    second = subprocess.run([*command, "--resume"], cwd=home, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 0, second.stderr
    found = json.loads(second.stdout)
    assert 3 <= len(kept) < found["cells"] == 10
    assert found["reused"] == len(kept)
    assert {cell: (cell.stat().st_ino, cell.stat().st_mtime_ns) for cell in kept} == kept
    assert [len(group["seeds"]) for group in found["studies"]["waiting"]["groups"]] == [5, 5]


def test_an_infinite_total_of_private_messages_is_not_for_want_of_privacy(run: Run) -> None:
    small = ["--policy", "PrivateSocialLearning", "--set", "num_agents=6", "--set", "horizon=5", "--runs", "2"]
    for extra, said in ((["--privacy", "UnaryEncoding:1"], "(senders and times may leak)"), ([], "(no privacy)")):
        code, out, _ = run("run", "social_bandit", *small, *extra)
        assert code == 0
        assert f"∞ {said}" in next(line for line in out.splitlines() if "epsilon_basic" in line)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "run taciturn/RoundStopping-v0 --policy FixedCount",
            "needs k: write FixedCount(k=...), or --set policy.k=VALUE",
        ),
        (
            "run taciturn/RoundStopping-v0 --policy FixedCount:10",
            "by name, such as --set policy.k=10, not FixedCount:10",
        ),
        ("run gossip_bandit --policy Voters", "unknown policy 'Voters': did you mean Voter"),
        ("run gossip_bandit --policy PPCL --privacy Gaussian:1", "write Gaussian:1,delta=1e-5, for instance"),
        ("audit Gaussian:1", "write Gaussian:1,delta=1e-5, for instance"),
        ("run gossip_bandit --policy PPCL --runs 0", "--runs must be an integer >= 1, not 0"),
        ("show gossip_bandit/breif", "unknown task 'gossip_bandit/breif': did you mean taciturn/GossipBandit-v0/brief"),
        ("logged ratings nofile.csv --policy LinUCB", "nofile.csv: no such file or directory"),
        ("bench", "about"),
        ("bench", "add --yes to run them all, or name studies"),
        ("reproduce --quick", "add --yes to run them all, or name a figure or a paper"),
        ("report nofolder", "nofolder holds no benchmark results (there is nothing of that name)"),
        ("list polcies", "unknown kind 'polcies': did you mean policies"),
    ],
)
def test_a_mistake_gets_the_line_that_helps(run: Run, monkeypatch: pytest.MonkeyPatch, words: str, told: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, out, err = run(*words.split())
    assert code != 0
    assert out == ""
    assert told in err
    assert len(err.splitlines()) == 1
    assert len(err) < 400


@pytest.mark.parametrize("words", ["", "logged", "-h", "run -h", "logged ratings -h"])
def test_a_bare_command_and_h_print_help(run: Run, words: str) -> None:
    code, out, err = run(*words.split())
    assert (code, err) == (0, "")
    assert out.startswith("Usage: taciturn")


@pytest.mark.parametrize(
    "task", ["gossip_bandit/brief", "GOSSIP_BANDIT_V0/Brief", "GossipBandit-v0/brief", "taciturn/gossipbandit-v0/brief"]
)
def test_a_task_is_found_however_it_is_written(run: Run, task: str) -> None:
    assert run("show", task) == run("show", "taciturn/GossipBandit-v0/brief")
    assert run("show", f"{task}@3")[1].startswith("taciturn/GossipBandit-v0/brief@3")


def test_names_are_found_in_any_case(run: Run) -> None:
    words = ("--set", "num_agents=5", "--until", "1", "--seed", "2")
    one = run("run", "gossip_bandit", "--policy", "PPCL", "--privacy", "BitwiseRandomizedResponse:1", *words)
    other = run("run", "Gossip_Bandit_V0", "--policy", "ppcl", "--privacy", "bitwiserandomizedresponse:1", *words)
    assert one[0] == 0
    assert one[1].splitlines()[1:] == other[1].splitlines()[1:]
    assert "1 run: mean" in run("run", "gossip_bandit", "--policy", "voter", "--runs", "1", *words)[1]


def test_all_that_is_shown_is_shown_as_json(run: Run) -> None:
    shown = json.loads(run("show", "FixedCount", "--json")[1])
    assert shown["parameters"] == {"k": "required"}
    assert shown["documentation"]
    world = json.loads(run("show", "gossip_bandit", "--json")[1])
    assert world["name"] == "taciturn/GossipBandit-v0"
    assert world["parameters"]["num_agents"] == "400"


@pytest.mark.parametrize("columns", [60, 100])
def test_lists_keep_to_the_window(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("list", "policies"), ("list", "tasks"), ("show", "gossip_bandit/brief"), ("show", "gossip_bandit")):
        assert max(map(len, run(*words)[1].splitlines())) <= columns


def test_an_interruption_says_what_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from taciturn.bench import runner

    def interrupted(*args: Any, **how: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_study", interrupted)
    code, _, err = run("bench", "tiny", "--out", "kept")
    assert code == 130
    assert err == (
        "taciturn: interrupted: the finished cells are stored in kept, and the same command with --resume continues\n"
    )


def test_an_interrupted_training_says_what_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from taciturn.bench import train

    def interrupted(*args: Any, **how: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "train", interrupted)
    words = ("train", "round_stopping", "--steps", "100", "--out", "kept")
    code, _, err = run(*words)
    assert code == 130
    assert err.endswith("interrupted: no checkpoint was reached in kept\n")
    Path("kept/checkpoints").mkdir(parents=True)
    for name in ("900.zip", "1000.zip", "last.zip"):
        Path("kept/checkpoints", name).touch()
    _, _, err = run(*words)
    assert err.endswith(
        "the checkpoint after 1,000 steps is stored in kept, and the same command with --resume continues\n"
    )


def test_who_declines_runs_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, out, err = run("bench", "--quick")
    assert code == 130
    assert "Run all? [y/N]" in out + err
    assert not Path("results").exists()


def test_a_training_takes_the_steps_that_were_asked_for(run: Run) -> None:
    run(
        *[
            "train",
            "round_stopping",
            "--algorithm",
            "PPO",
            "--steps",
            "300",
            "--evaluations",
            "1",
            "--out",
            "short",
            "--set",
            "horizon=5",
        ]
    )
    with zipfile.ZipFile("short/checkpoints/300.zip") as kept:
        assert json.loads(kept.read("data"))["num_timesteps"] == 304  # 19 steps of each of 16 replicas


def test_a_training_says_that_it_took_more_steps(run: Run) -> None:
    small = [part for one in ("num_envs=2", "turns=4", "epochs=1") for part in ("--set", f"policy.{one}")]
    told = run("train", "round_stopping", "--steps", "3", "--out", "short", "--set", "horizon=5", *small)[1]
    taken = int(Path("short/evaluations.csv").read_text(encoding="utf-8").splitlines()[-1].split(",")[0])
    assert taken > 3
    assert f"\nppo: {taken} of 3 decisions" in told
    assert told.endswith("trained: short (taciturn run round_stopping --policy short --runs 300)\n")
    title = run("run", "round_stopping", "--policy", "./short", "--set", "horizon=5", "--runs", "1")[1].partition("\n")[
        0
    ]
    assert title == "round_stopping, ./short, 1 run: mean and 95% interval"


def test_lines_of_a_training_count_its_decisions_between_checkpoints(tmp_path: Path) -> None:
    from taciturn.bench.train import train

    texts: list[str] = []
    small = {"num_envs": 2, "turns": 4, "epochs": 1}
    train(
        "round_stopping",
        "TrainedAgent",
        steps=80,
        out=tmp_path / "agent",
        params={"horizon": 5},
        settings=small,
        progress=lambda done, text: texts.append(text),
    )
    assert texts[0] == "evaluating the untrained agent and timing its steps"
    counts = [int(text.split()[1]) for text in texts if text.startswith("ppo: ")]
    assert counts == sorted(counts)
    assert len(set(counts)) > 5, "they rise with each rollout"
    assert any(" untrained: " in text for text in texts)
    assert any(" last checkpoint: " in text for text in texts)


def test_a_module_may_be_named_like_a_policy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("voter.py").write_text("from taciturn.policies import Voter as Class\n", encoding="utf-8")
    monkeypatch.syspath_prepend(".")
    monkeypatch.delitem(sys.modules, "voter", raising=False)
    assert run("run", "gossip_bandit", "--policy", "voter:Class", "--until", "1", "--set", "num_agents=5")[0] == 0
    assert "--set policy.k=10" in run("run", "round_stopping", "--policy", "fixedcount:10")[2]


def test_delta_is_asked_for_only_where_it_is_missed(run: Run) -> None:
    assert "write Gaussian:1,delta=1e-5" in run("audit", "Gaussian:1")[2]
    assert "delta" not in run("audit", "Gaussian:-1")[2]


def test_what_people_type_for_a_kind_or_a_world_is_understood(run: Run) -> None:
    for words, other in (("worlds", "environments"), ("policy", "policies"), ("study", "studies"), ("Task", "tasks")):
        assert run("list", words) == run("list", other)
    assert "unknown kind 'nothing'" in run("list", "nothing")[2]
    assert "did you mean GossipUCB or gossip_bandit_v0?" in run("show", "gossip")[2]
    assert "there is no folder 'results/none'" in run("run", "gossip_bandit", "--policy", "results/none")[2]
    shown = run("show", "agents")[1]
    assert shown.startswith("agents\n")
    assert "Every kind of agent in every task" in shown


def test_a_policy_with_arrays_is_shown_in_a_line() -> None:
    class Counted(Policy):
        def __init__(self, counts: Any) -> None:
            self.counts = np.asarray(counts)
            self.others = np.zeros(9999)

    assert len(repr(Counted(np.zeros((99, 99))))) < 300
    assert repr(Counted([1])) == "Counted(counts=array([1]))"


@pytest.mark.parametrize(("env", "policy"), [("gossip_bandit", "Voter"), ("social_bandit", "Replicator")])
def test_intervals_of_shares_stay_between_0_and_1(run: Run, env: str, policy: str) -> None:
    """Of few runs, in which the interval of a mean would leave them."""
    shares = entry(env).shares
    assert shares
    for runs in ("3", "4"):
        document = f"run {env} --policy {policy} --runs {runs} --until 5 --set num_agents=5 --json"
        metrics = json.loads(run(*document.split())[1])["metrics"]
        for name in shares:
            one = metrics[name]
            assert 0 <= one["low"] <= one["mean"] <= one["high"] <= 1
