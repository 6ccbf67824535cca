"""Every option of every command, and every parameter of the functions below them, changes something: a call of the
layer below, what is printed or a file. An argument that is lost on the way changes nothing."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from bench_dummies import Noise
from test_submission import STORED

from taciturn import cli
from taciturn.bench import report, runner, store, submission, train, verify
from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.results import Group, Results
from taciturn.bench.study import STUDIES
from taciturn.policies.trust import VARIABLE

FIGURES = "reproduce noise2024/1 --json"
AUDIT = "audit Laplace:1 --trials 400 --json"
WORLD = f"{AUDIT} --env worlds:consensus_v0 --policy Random --channel vote --set horizon=2".replace(
    "Laplace", "BitwiseRandomizedResponse"
)
RUN = "run gossip_bandit --policy PPCL --set num_agents=4 --set horizon=20 --runs 2 --json"
BRIEF = "taciturn/GossipBandit-v0/brief"
TRAIN = "train round_stopping --steps 64 --out agent"
BENCH = "bench noise --out out"
VERIFY = "verify noise --kept studies --cells 2 --seed 1 --json"
RATINGS = "logged ratings ratings.csv --policy LinUCB --set num_agents=2 --seeds 1 --until 5 --json"
BANDIT = "logged bandit log.csv --policy LinUCB --estimator all --context context,other --json"
RUNS: dict[str, str | tuple[str, str]] = {
    "quick": "--quick",
    "where": "--where policy=Clever",
    "backend": "--backend serial",
    "workers": "--workers 1",
    "timeout": "--timeout 7",
    "shard": "--shard 1/2",
    "resume": "--resume",
    "as_json": "--json",
}
# {command: (words, {parameter: words that are added to them, or (words before, words after)})}
COMMANDS: dict[str, tuple[str, dict[str, str | tuple[str, str]]]] = {
    "": ("list", {"version": ("list", "--version")}),
    "show": ("show PPCL", {"name": ("show PPCL", "show UCB1"), "as_json": (f"show {BRIEF}", f"show {BRIEF} --json")}),
    "list": ("list", {"kind": "studies", "as_json": "--json"}),
    "compile": (
        "compile round_stopping_v0",
        {
            "names": ("compile round_stopping_v0", "compile federated_training_v0"),
            "as_json": ("compile round_stopping_v0", "compile round_stopping_v0 --json"),
        },
    ),
    "run": (
        RUN,
        {
            "env": (RUN, RUN.replace("gossip_bandit", "social_bandit").replace("PPCL", "Random")),
            "policy": "--policy Random",
            "settings": "--set num_agents=5",
            "trust": "--trust",
            "privacy": "--privacy BitwiseRandomizedResponse:1",
            "runs": "--runs 3",
            "seed": "--seed 1",
            "until": "--until 10",
            "as_json": (RUN.replace("--json", ""), RUN),
        },
    ),
    "train": (
        TRAIN,
        {
            "env": (TRAIN, TRAIN.replace("round_stopping", "gossip_bandit")),
            "steps": "--steps 65",
            "seconds": "--seconds 5",
            "out": "--out other",
            "algorithm": "--algorithm DQN",
            "settings": "--set policy.gamma=0.5 --set num_clients=3",
            "file": "--settings own.yml",
            "privacy": (
                TRAIN.replace("round_stopping", "gossip_bandit"),
                TRAIN.replace("round_stopping", "gossip_bandit") + " --privacy BitwiseRandomizedResponse:1",
            ),
            "num_envs": "--num-envs 3",
            "evaluations": "--evaluations 3",
            "seed": "--seed 1",
            "resume": "--resume",
            "trust": "--trust",
        },
    ),
    "bench": (
        BENCH,
        {"names": (BENCH, "bench agents --out out"), "out": "--out other", "trust": "--trust", **RUNS}
        | {"yes": ("bench --yes", "bench")}
        | {"agent": ("bench agents --out out", "bench agents --out out --agent test_every_option:stops")},
    ),
    "reproduce": (
        FIGURES,
        {"names": (FIGURES, FIGURES.replace("/1", "/2")), "out": "--out other", **RUNS}
        | {"where": "--where policy=Clever", "as_json": ("reproduce noise2024/1", FIGURES)}
        | {"yes": ("reproduce --yes", "reproduce")},
    ),
    "verify": (
        VERIFY,
        {
            "names": (VERIFY, VERIFY.replace("noise", "agents")),
            "cells": "--cells 3",
            "longest": "--longest 5",
            "seed": "--seed 2",
            "kept": (VERIFY, VERIFY.replace("studies", "fewer")),
            "strict": "--strict",
            "workers": "--workers 1",
            "as_json": (VERIFY, VERIFY.replace("--json", "")),
        },
    ),
    "audit": (
        AUDIT,
        {
            "mechanism": (AUDIT, AUDIT.replace("Laplace", "Gaussian").replace(":1", ":1,delta=1e-5")),
            "trials": "--trials 500",
            "confidence": "--confidence 0.8",
            "method": "--method black",
            "delta": "--delta 0.1",
            "env": (AUDIT.replace("Laplace", "BitwiseRandomizedResponse"), WORLD),
            "policy": (WORLD, WORLD.replace("Random", "test_every_option:mine")),
            "settings": (WORLD, WORLD + " --set num_agents=5"),
            "trust": "--trust",
            "channel": (WORLD, WORLD + " --channel opinion"),
            "steps": (WORLD, WORLD + " --steps 1"),
            "seed": "--seed 1",
            "plot": "--plot audit.png",
            "as_json": (AUDIT.replace("--json", ""), AUDIT),
        },
    ),
    "logged ratings": (
        RATINGS,
        {
            "file": (RATINGS, RATINGS.replace("ratings.csv", "others.csv")),
            "column": "--column user=item",
            "policy": "--policy Random",
            "like": "--like 3",
            "context_dim": "--context-dim 2",
            "num_items": "--num-items 6",
            "held_out": "--held-out 0.3",
            "settings": "--set num_agents=3",
            "privacy": (
                RATINGS.replace("LinUCB", "cases:AlwaysAsks"),
                RATINGS.replace("LinUCB", "cases:AlwaysAsks") + " --privacy TreeAggregation:1",
            ),
            "trust": "--trust",
            "seeds": "--seeds 2",
            "until": "--until 6",
            "as_json": (RATINGS.replace("--json", ""), RATINGS),
        },
    ),
    "logged bandit": (
        BANDIT,
        {
            "file": (BANDIT, BANDIT.replace("log.csv", "skewed.csv")),
            "column": "--column context=other",
            "policy": "--policy Random",
            "estimator": "--estimator ips",
            "context": "--context context",
            "context_dim": "--context-dim 1",
            "items": "--items items.csv",
            "position": "--position 1",
            "sort": (BANDIT.replace("log.csv", "unsorted.csv"), BANDIT.replace("log.csv", "unsorted.csv") + " --sort"),
            "learn": "--learn 0.25",
            "draws": (BANDIT.replace("LinUCB", "Random"), BANDIT.replace("LinUCB", "Random") + " --draws 3"),
            "lowest_propensity": "--lowest-propensity 0.1",
            "interval": "--interval student",
            "settings": "--set policy.alpha=3",
            "trust": "--trust",
            "seed": (BANDIT.replace("LinUCB", "Random"), BANDIT.replace("LinUCB", "Random") + " --seed 1"),
            "as_json": (BANDIT.replace("--json", ""), BANDIT),
        },
    ),
    "report": ("report done", {"folder": ("report done", "report done-too"), "as_json": "--json"}),
    "gather": (
        "gather done --out out",
        {"folders": ("gather done --out out", "gather done-too --out out"), "out": "--out other", "as_json": "--json"},
    ),
    "submit": (
        "submit done --to mine.json",
        {"folder": ("submit done --to mine.json", "submit done-too --to mine.json"), "to": "--to other.json"},
    ),
    "leaderboard": (
        "leaderboard kept.json",
        {"places": ("leaderboard kept.json", "leaderboard done"), "as_json": "--json", "mine": "--mine"},
    ),
}  # fmt: skip
CASES = [(command, parameter) for command, (_, changes) in COMMANDS.items() for parameter in changes]
Trace = Callable[[str], Any]
# What documents repeat of the words themselves.
ECHOES = {"env", "policy", "set", "privacy", "seed", "runs", "until", "seeds", "file", "interval", "learn", "estimator"}
ECHOES |= {"confidence", "trials", "method", "delta", "name", "seconds"}


def mine(rows: Any) -> Any:
    """An agent that always does the same."""
    return np.zeros(len(rows), np.int64)


def stops(rows: Any) -> Any:
    """The same, in round stopping alone."""
    if rows.shape[1] != 5:
        raise ValueError("I play round stopping")
    return mine(rows)


def plain(value: Any) -> Any:
    """What can be compared of what a function was given."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return repr(getattr(value, "path", getattr(value, "name", value)))


def results(text: str) -> Any:
    """What was printed, of a document without what it repeats."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(one) for key, one in value.items() if key not in ECHOES}
        return [without(one) for one in value] if isinstance(value, list) else value

    return without(json.loads(text)) if text.startswith("{") else text


def everywhere(monkeypatch: pytest.MonkeyPatch, original: Any, other: Any) -> None:
    """Put one function in place of another, under whatever name a module of the package has it."""
    for module in [one for name, one in sys.modules.items() if name.startswith("taciturn")]:
        for name in [name for name, value in vars(module).items() if value is original]:
            monkeypatch.setattr(module, name, other)


def of_one_world() -> str:
    """What is kept of the standing benchmark, of one world: the whole takes a second to read."""
    whole = submission.unpacked(STORED)
    return submission.packed(whole._replace(results=whole.results.select(env="round_stopping_v0")))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for name in ("ratings", "others"):
        rows = [f"{rng.integers(20)},{rng.integers(8)},{rng.integers(1, 6)},{time}" for time in range(300)]
        (folder / f"{name}.csv").write_text("\n".join(["userId,movieId,rating,timestamp", *rows]), encoding="utf-8")
    head = "item_id,click,propensity_score,context,other,position,timestamp"
    for name, shares in {"log": [1 / 3] * 3, "skewed": [0.5, 0.25, 0.25], "unsorted": [1 / 3] * 3}.items():
        lines = [head]
        for i, a in enumerate(rng.choice(3, 200, p=shares)):
            context, other = rng.random(2)
            lines.append(f"a{a},{rng.integers(2)},{shares[a]!r},{context},{other},{rng.integers(1, 3)},{i % 7}")
        ordered = lines if name == "unsorted" else [head, *sorted(lines[1:], key=lambda line: line.split(",")[-1])]
        (folder / f"{name}.csv").write_text("\n".join(ordered), encoding="utf-8")
    (folder / "items.csv").write_text("item_id,f\na0,1\na1,0\na2,3\n", encoding="utf-8")
    (folder / "own.yml").write_text("PPO:\n  gamma: 0.5\n", encoding="utf-8")
    kept = of_one_world()
    (folder / "pretrained.json").write_text(kept, encoding="utf-8")
    for name, seeds in {"studies": 9, "fewer": 3}.items():
        (folder / name).mkdir()
        (folder / name / "agents.json").write_text(kept, encoding="utf-8")
        config = Noise().cells(False)[0].config
        group = Group(config, np.arange(seeds), {"value": np.ones(seeds)}, {}, np.arange(seeds, dtype=float))
        noise = submission.Submission("noise", dict.fromkeys(submission.ORIGIN, "said"), Results([group]))
        (folder / name / "noise.json").write_text(submission.packed(noise), encoding="utf-8")
    for name, quick in {"done": True, "done-too": False}.items():
        where = {"policy": "Clever", "world.agents": 10, "privacy.epsilon": 1.0}
        runner.run_study([Noise()], store.Store(folder / name), quick=quick, progress=False, where=where)
    return folder


@pytest.fixture
def trace(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trace:
    """What a command calls below it, prints and writes."""
    calls: list[Any] = []
    monkeypatch.setitem(STUDIES, "noise", Noise())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv(VARIABLE, raising=False)

    def ran(*given: Any, **named: Any) -> Any:
        calls.append(["run_study", plain(given), plain(named), len(given[0][0].cells(True))])
        given[1].path.mkdir(parents=True)
        return runner.Summary(planned=0, reused=0, failed=[])

    def trained(*given: Any, **named: Any) -> Path:
        calls.append(["train", plain(given), plain({name: one for name, one in named.items() if name != "progress"})])
        named["out"].mkdir()
        (named["out"] / "evaluations.csv").write_text("steps\n", encoding="utf-8")
        return Path(named["out"])

    def written(kept: Any, folder: Path, studies: Any, stored: Path) -> Path:
        calls.append(["write_report", repr(kept.path), repr(folder), [study.name for study in studies], repr(stored)])
        return folder / "index.html"

    def of_folder(folder: Path, study: Any) -> Any:
        calls.append(["of_folder", repr(folder)])
        return submission.unpacked(files / "pretrained.json")

    def verified(cells: Any, rng: Any, **how: Any) -> list[Any]:
        calls.append(["verify", [one.cell.label for one in cells], plain(how)])
        return [verify.Check(cells[0], verify.DIFFERENT, {"value": (1.0, 2.0)}, None)]

    everywhere(monkeypatch, runner.run_study, ran)
    everywhere(monkeypatch, verify.verify, verified)
    everywhere(monkeypatch, submission.of_folder, of_folder)
    monkeypatch.setattr(KindsOfAgents, "check", lambda *_: None)
    monkeypatch.setattr(store.Store, "results", lambda *_: Results([]))
    for printed in (report.print_tables, report.print_summary, report.print_compared):
        everywhere(monkeypatch, printed, lambda *_, **__: None)
    everywhere(monkeypatch, train.train, trained)
    everywhere(monkeypatch, report.write_report, written)

    def called(words: str) -> Any:
        calls.clear()
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for file in files.iterdir():
            (folder / file.name).symlink_to(file)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["taciturn", *words.split()])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr()
        made = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if not file.is_symlink())
        trust = os.environ.pop(VARIABLE, None)
        return json.loads(json.dumps([calls, stop.value.code, results(said.out), said.err, made, trust]))

    return called


def test_every_option_of_every_command_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    apps: list[Any] = []
    real = typer.main.get_command

    def made(app: typer.Typer) -> Any:
        apps.append(real(app))
        return apps[-1]

    monkeypatch.setattr(typer.main, "get_command", made)
    monkeypatch.setattr(sys, "argv", ["taciturn", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    found = {}

    def look(command: Any, name: str) -> None:
        own = {one.name for one in command.params} - {"help", "install_completion", "show_completion"}
        if own:
            found[name] = own
        for below, one in getattr(command, "commands", {}).items():
            look(one, f"{name} {below}".strip())

    look(apps[0], "")
    assert found == {name: set(changes) for name, (_, changes) in COMMANDS.items()}


@pytest.mark.parametrize(("command", "parameter"), CASES, ids=lambda one: str(one).replace(" ", "-") or "taciturn")
def test_an_option_changes_something(command: str, parameter: str, trace: Trace) -> None:
    base, changes = COMMANDS[command]
    change = changes[parameter]
    before, after = (base, f"{base} {change}") if isinstance(change, str) else change
    first = trace(before)
    assert not first[1] or parameter == "sort", first  # rows that are not sorted are refused
    assert first == trace(before), "nothing but the words makes a difference"
    assert first != trace(after)
