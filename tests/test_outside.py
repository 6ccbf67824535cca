"""What comes from outside: malformed submissions, settings, data and models get one clear line, and none is taken for a
sound one."""

import base64
import copy
import io
import json
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from cases import platform_side
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ, RecurrentPPO
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import VecNormalize
from test_submission import submission

import taciturn
from taciturn.agents import bring
from taciturn.bench.cells import parquet
from taciturn.bench.comparisons import kinds
from taciturn.bench.comparisons.kinds import KindsOfAgents
from taciturn.bench.results import RUNS, Cell, Result
from taciturn.bench.scores import FREE, leaderboard
from taciturn.bench.store import Store, StoreError, environment
from taciturn.bench.submission import packed, unpacked
from taciturn.bench.tables import origin_table
from taciturn.bench.tasks import BENCHMARKS
from taciturn.bench.train import train
from taciturn.cli import main
from taciturn.envs import round_stopping_v0
from taciturn.envs.core import Population
from taciturn.policies import Policy, TrainedAgent
from taciturn.policies.external import inert
from taciturn.policies.trust import key_file, made_here, signed
from taciturn.wrappers.sb3 import RowsVecEnv

LONGEST = 700
STOPPING: dict[str, Any] = {"num_clients": 6, "slot_time": 0.1, "horizon": 20.0}
Change = Callable[[dict[str, Any]], Any]


def one_line(text: str) -> str:
    """A message that a terminal can show as it stands."""
    assert 10 < len(text) <= LONGEST, text
    assert text.isprintable(), text
    return text


def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """A command's exit code, and what it printed."""
    monkeypatch.setattr(sys, "argv", ["taciturn", *words])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("TACITURN_TRUST", "0")
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which a command ends that was given something malformed."""
    code, out, err = called(monkeypatch, capsys, *words)
    assert code in (1, 2), out
    assert "--debug shows where" not in err, err
    (line,) = err.strip().splitlines()
    return one_line(line)


def each(names: Iterable[str], attempt: Callable[[str], None]) -> None:
    """Try each of many malformed things, and say which of them were not refused as they should be."""
    wrong: list[str] = []
    for name in names:
        try:
            attempt(name)
        except (Exception, pytest.fail.Exception) as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}"[:500])
    assert not wrong, "\n".join(wrong)


# Submissions.


@cache
def sound_text() -> str:
    found = submission(list(range(10)), 0.011)
    for seed, (_, scores) in enumerate(found.results.groups[0].curves[RUNS]):
        scores[:] = 0.011 + np.array([-1, 1]) * seed * 1e-4
    return packed(found)


def sound() -> dict[str, Any]:
    """A submission that is taken."""
    return dict(json.loads(sound_text()))


def put(*path: Any) -> Callable[[Any], Change]:
    """A change that sets an entry of the first configuration."""

    def by(value: Any) -> Change:
        def change(kept: dict[str, Any]) -> None:
            where = kept["groups"][0]
            for one in path[:-1]:
                where = where[one]
            where[path[-1]] = value

        return change

    return by


def drop(*path: Any) -> Change:
    def change(kept: dict[str, Any]) -> None:
        where: Any = kept
        for one in path[:-1]:
            where = where[one]
        del where[path[-1]]

    return change


def all_of(name: str, value: Any) -> Change:
    """A change of every number of a metric, and of its runs if they are the measure's."""

    def change(kept: dict[str, Any]) -> None:
        group = kept["groups"][0]
        group["metrics"][name] = [value] * 10
        if name == "reward":
            group[RUNS] = [[value, value]] * 10

    return change


NAMES = {
    "escape": "\x1b[31mMine",
    "bell": "Mi\ane",
    "newline": "Mine\n1 Best",
    "return": "Worst\rBest",
    "null": "Mi\0ne",
    "bidi": "Mine\u202eenim",
    "zero-width": "Mi\u200bne",
    "joiner": "Mi\u200dne",
    "bom": "\ufeffMine",
    "surrogate": "Mi\ud800ne",
    "private": "Mi\ue000ne",
    "c1": "Mi\x9b31mne",
    "line-separator": "Mi\u2028ne",
    "tab": "Mi\tne",
    "wide-space": "Mi\u3000ne",
    "soft-hyphen": "Mi\xadne",
    "tag": "Mi\U000e0041ne",
    "unassigned": "Mi\u0378ne",
    "empty": "",
    "blank": "   ",
    "long": "M" * 201,
    "very long": "M" * 10**5,
    "number": 7,
    "none": None,
    "list": ["Mine"],
    "dict": {"a": 1},
    "bool": True,
}
VALUES = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
    "1e308": 1e308,
    "-1e308": -1e308,
    "1e13": 1e13,
    "huge": 10**400,
    "text": "high",
    "none": None,
    "bool": True,
    "list": [1.0],
    "above": 1.5,
    "below": -0.001,
    "dict": {},
}
SUBMISSIONS: dict[str, Change] = {
    **{f"policy is {name}": put("config", "policy")(value) for name, value in NAMES.items()},
    **{f"reward is {name}": all_of("reward", value) for name, value in VALUES.items()},
    **{
        f"return is {name}": all_of("return", VALUES[name])
        for name in ("inf", "nan", "-1e308", "1e308", "1e13", "huge", "none", "bool")
    },
    **{
        f"one reward is {name}": put("metrics", "reward", 3)(VALUES[name])
        for name in ("inf", "nan", "1e308", "-1e308", "above", "below")
    },
    **{
        f"one run is {name}": put(RUNS, 3)([0.011, VALUES[name]])
        for name in ("inf", "nan", "1e308", "huge", "text", "none", "list")
    },
    "messages are negative": all_of("messages", -1.0),
    "an unknown metric": all_of("unheard_of", 0.0),
    "a metric with an escape": all_of("reward\x1b[2J", 0.0),
    "no reward": drop("groups", 0, "metrics", "reward"),
    "no return": drop("groups", 0, "metrics", "return"),
    "no metrics": put("metrics")({}),
    "metrics are a list": put("metrics")([]),
    "reward is shorter": put("metrics", "reward")([0.011] * 9),
    "reward is longer": put("metrics", "reward")([0.011] * 11),
    "no runs": drop("groups", 0, RUNS),
    "runs are none": put(RUNS)([]),
    "runs are empty": put(RUNS)([[]] * 10),
    "runs are ragged": put(RUNS)([[0.011] * (1 + i % 2) for i in range(10)]),
    "runs are numbers": put(RUNS)([0.011] * 10),
    "runs are of 9 seeds": put(RUNS)([[0.011]] * 9),
    "runs are text": put(RUNS)("many"),
    "runs of another mean": put(RUNS)([[0.001, 0.001]] * 10),
    "runs are nested": put(RUNS)([[[0.011]]] * 10),
    "a seed twice": put("seeds")([0, 0, *range(2, 10)]),
    "one seed ten times": put("seeds")([3] * 10),
    "seeds out of order": put("seeds")([1, 0, *range(2, 10)]),
    "a negative seed": put("seeds")([-1, *range(1, 10)]),
    "seeds of no run": put("seeds")(list(range(100, 110))),
    "seeds for tuning": put("seeds")(list(range(10**6, 10**6 + 10))),
    "a huge seed": put("seeds")([*range(9), 2**63]),
    "a seed of 400 digits": put("seeds")([*range(9), 10**400]),
    "seeds are numbers": put("seeds")([float(i) for i in range(10)]),
    "seeds are text": put("seeds")([str(i) for i in range(10)]),
    "seeds are booleans": put("seeds")([False, True, *range(2, 10)]),
    "no seeds": drop("groups", 0, "seeds"),
    "seeds are none": put("seeds")([]),
    "seeds are a number": put("seeds")(10),
    "seconds are negative": put("wall_seconds")([-1.0] * 10),
    "seconds are infinite": put("wall_seconds")([float("inf")] * 10),
    "seconds are text": put("wall_seconds")(["1"] * 10),
    "no seconds": drop("groups", 0, "wall_seconds"),
    "no world": drop("groups", 0, "config", "env"),
    "another world": put("config", "env")("nowhere_v0"),
    "a world with an escape": put("config", "env")("round\x1b[31m_v0"),
    "a world is a list": put("config", "env")([]),
    "a path for a world": put("config", "env")("../../round_stopping_v0"),
    "a world's id": put("config", "env")("taciturn/RoundStopping-v0"),
    "other parameters": put("config", "env_params")({"slot_time": 2}),
    "parameters are text": put("config", "env_params")("{}"),
    "parameters are NaN": put("config", "env_params")({"slot_time": float("nan")}),
    "no parameters": drop("groups", 0, "config", "env_params"),
    "no kind": drop("groups", 0, "config", "kind"),
    "an unknown kind": put("config", "kind")("best"),
    "kind is a list": put("config", "kind")([]),
    "it says that it is random play": put("config", "kind")("random"),
    "it says that it is of the paper": put("config", "kind")("paper"),
    "it says that it is tuned": put("config", "kind")("tuned learner"),
    "no policy": drop("groups", 0, "config", "policy"),
    "no parameters of the policy": drop("groups", 0, "config", "policy_params"),
    "they are a list": put("config", "policy_params")([1]),
    "unknown ones": lambda kept: kept["groups"][0]["config"].update(policy="FixedCount", policy_params={"speed": 1}),
    "ones of another type": lambda kept: kept["groups"][0]["config"].update(
        policy="FixedCount", policy_params={"k": "many"}
    ),
    "nested ones": put("config", "policy_params")(json.loads("[" * 60 + "]" * 60)),
    "an unknown entry": put("config", "score")(1.0),
    "an entry with an escape": put("config", "a\x1b[0m")(1),
    "a quick run": put("config", "replicas")(10),
    "config is a list": put("config")([]),
    "a config twice": lambda kept: kept["groups"].append(kept["groups"][0]),
    "no groups": lambda kept: kept.update(groups=[]),
    "groups are a dict": lambda kept: kept.update(groups={}),
    "groups are missing": drop("groups"),
    "no study": drop("study"),
    "another study": lambda kept: kept.update(study="leakage"),
    "study is a list": lambda kept: kept.update(study=[]),
    "study with an escape": lambda kept: kept.update(study="agents\x1b[31m"),
    "no origin": drop("origin"),
    "origin is text": lambda kept: kept.update(origin="here"),
    "no command": drop("origin", "command"),
    "a command with an escape": lambda kept: kept["origin"].update(command="\x1b]0;title\a"),
    "a deep origin": lambda kept: kept["origin"].update(others=json.loads("[" * 60 + "]" * 60)),
    "a long platform": lambda kept: kept["origin"].update(platform="x" * 10**5),
}
TEXTS: dict[str, bytes] = {
    "empty": b"",
    "a brace": b"{",
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "no JSON": b"study: agents",
    "binary": bytes(range(256)),
    "a BOM": b"\xef\xbb\xbf{}",
    "UTF-16 that ends": "{}".encode("utf-16")[:-1],
    "deep lists": b"[" * 10**5,
    "deep dicts": b'{"a":' * 10**5,
    "a long number": b'{"study": ' + b"9" * 5000 + b"}",
    "an entry twice": b'{"study": "agents", "study": "agents"}',
    "half": packed(submission([0, 1], 0.01)).encode()[:200],
    "two documents": packed(submission([0], 0.01)).encode() * 2,
    "an escape in an entry that is twice": b'{"\\u001b[2J": 1, "\\u001b[2J": 2}',
}


@cache
def study() -> KindsOfAgents:
    """The study, whose thousands of cells are made once."""
    found = KindsOfAgents()
    found.cells = cache(found.cells)  # type: ignore[method-assign]
    return found


def ranked(file: Path) -> None:
    """What `taciturn leaderboard` does with a file before it ranks it."""
    study().check(file, unpacked(file))


def test_a_sound_submission_is_ranked(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(sound()), encoding="utf-8")
    ranked(file)


@pytest.mark.parametrize("part", range(4))
def test_malformed_submissions_are_refused(part: int, tmp_path: Path) -> None:
    def attempt(what: str) -> None:
        kept, file = sound(), tmp_path / "mine.json"
        SUBMISSIONS[what](kept)
        file.write_text(json.dumps(kept), encoding="utf-8")
        with pytest.raises(StoreError, match=r"mine\.json") as found:
            ranked(file)
        one_line(str(found.value))

    each(list(SUBMISSIONS)[part::4], attempt)


def test_files_that_are_no_submission_are_refused(tmp_path: Path) -> None:
    def attempt(what: str) -> None:
        file = tmp_path / "mine.json"
        file.write_bytes(TEXTS[what])
        with pytest.raises(StoreError, match=r"mine\.json (cannot be read|is no submission)") as found:
            ranked(file)
        one_line(str(found.value))

    each(TEXTS, attempt)


@pytest.mark.parametrize(
    "what", ["reward is inf", "reward is 1e308", "return is -1e308", "policy is escape", "policy is bidi"]
)
def test_the_leaderboard_says_so_in_one_line(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, file = sound(), tmp_path / "mine.json"
    SUBMISSIONS[what](kept)
    file.write_text(json.dumps(kept), encoding="utf-8")
    assert "mine.json" in refused(monkeypatch, capsys, "leaderboard", str(file))


def test_a_leaderboard_imports_nothing_that_a_submission_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text("raise SystemExit('it ran')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    kept, file = sound(), tmp_path / "mine.json"
    put("config", "policy")("theirs:Agent")(kept)
    file.write_text(json.dumps(kept), encoding="utf-8")
    ranked(file)
    assert "theirs:Agent" in str(leaderboard(unpacked(file).results, FREE).rows)
    assert "theirs" not in sys.modules


class Sees(Policy):
    """An oracle of someone's own."""

    needs_truth = True

    def act(self, obs: Any, mask: Any = None) -> Any:
        return np.ones(obs.shape[:2], np.int64)


def test_an_oracle_of_ones_own_is_marked_where_its_module_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it knows the truth is kept with its results."""
    monkeypatch.setitem(sys.modules, "theirs", sys.modules[__name__])
    monkeypatch.setattr(kinds, "BENCHMARKS", {"round_stopping_v0": BENCHMARKS["round_stopping_v0"]})  # one will do
    config = KindsOfAgents().trial("theirs:Sees").places[0]
    monkeypatch.delitem(sys.modules, "theirs")
    study = KindsOfAgents()
    assert study.knows_truth(config)
    assert not study.knows_truth(config | {"knows_truth": False})
    assert "knows_truth" not in KindsOfAgents().trial("Random").places[0]


def test_text_of_a_submission_is_no_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, file = sound(), tmp_path / "mine.json"
    put("config", "policy")("[bold]<b>Mine</b>[/nothing]")(kept)
    file.write_text(json.dumps(kept), encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = called(monkeypatch, capsys, "leaderboard", str(file))
    assert code == 0
    assert "[bold]<b>Mine</b>[/nothing]" in out


def folder(path: Path, config: dict[str, Any], reward: float = 0.011, *, quick: bool = False) -> Store:
    """A results folder with one cell of the study `agents`."""
    cells = [Cell("agents", config, 0)]
    store = Store(path)
    with store.locked(resume=False):
        store.begin([KindsOfAgents()], {"agents": cells}, quick=quick, resume=False)
        result = Result(
            {"reward": reward, "return": 0.5, "messages": 0.0, "centralised": 0.0},
            {RUNS: (np.arange(2.0), np.full(2, reward))},
        )
        store.write(cells[0], result, 1.0)
        store.finish()
    return store


FOLDERS: dict[str, tuple[dict[str, Any], float, str]] = {
    "a quick run": ({"replicas": 10}, 0.011, "must hold a full run, not a quick one"),
    "an infinite reward": ({}, float("inf"), "reward must be a finite number"),
    "a reward of 1e308": ({}, 1e308, "reward must be a finite number >= 0 and <= 1.32"),
    "an escape": ({"policy": "\x1b[2JMine"}, 0.011, "text must be of up to"),
    "another world": ({"env": "nowhere_v0"}, 0.011, "must hold environments of this version"),
    "another kind": ({"kind": "random"}, 0.011, "kind must be 'yours'"),
}


@pytest.mark.parametrize("what", FOLDERS)
@pytest.mark.parametrize("command", ["submit", "leaderboard"])
def test_a_folder_is_checked_when_it_is_submitted_and_when_it_is_ranked(
    command: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed, reward, message = FOLDERS[what]
    folder(tmp_path / "mine", sound()["groups"][0]["config"] | changed, reward)
    to = ("--to", str(tmp_path / "mine.json")) if command == "submit" else ()
    assert message in refused(monkeypatch, capsys, command, str(tmp_path / "mine"), *to)
    assert not (tmp_path / "mine.json").exists()


def test_a_sound_folder_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder(tmp_path / "mine", sound()["groups"][0]["config"])
    assert called(monkeypatch, capsys, "submit", str(tmp_path / "mine"), "--to", str(tmp_path / "mine.json"))[0] == 0
    ranked(tmp_path / "mine.json")


@pytest.mark.parametrize("config", ["", "{", "7", "[]", "null", '{"env": NaN}', "[" * 10**5])
def test_cells_that_taciturn_has_not_written_are_refused(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = folder(tmp_path / "mine", sound()["groups"][0]["config"])
    (file,) = store.cells.iterdir()
    table = store.load()
    place = table.schema.get_field_index("config")
    file.write_bytes(parquet(table.set_column(place, table.schema.field(place), [[config] * table.num_rows])))
    refused(monkeypatch, capsys, "leaderboard", str(tmp_path / "mine"))


# Settings.

RUN = ("run", "round_stopping", "--set", "num_clients=6", "--set", "horizon=20.0", "--runs", "2")
BAD = ("1e999", "NaN", "-1", "0", '"x"', "[]", "{}", "null", "true", "1e-320", "1" * 30)
GIVEN: dict[str, tuple[str, ...]] = {
    **{
        f"{name}={value}"[:40]: (*RUN, "--policy", "Random", "--set", f"{name}={value}")
        for name in ("num_clients", "slot_time", "broadcast_time", "horizon", "upload_probability")
        for value in BAD
        if (name, value) != ("upload_probability", "1e-320")
    },
    **{
        f"policy.{name}={value}"[:40]: (*RUN, "--policy", policy, "--set", f"policy.{name}={value}")
        for policy, name in (("FixedCount", "k"), ("Deadline", "slots"), ("Fraction", "fraction"))
        for value in BAD
        if value not in ("0", "1e-320")
    },
    **{
        f"thresholds={value}": (*RUN, "--policy", "OptimalStopping", "--set", f"policy.thresholds={value}")
        for value in ("7", "[1]", "[1,2,3]", "[1,-2]", "[1.5,2]", '"ab"', "[null,1]", "1e308")
    },
    **{
        f"privacy {value}": (
            "run",
            "gossip_bandit",
            "--policy",
            "Random",
            "--set",
            "num_agents=4",
            "--until",
            "2",
            "--privacy",
            value,
        )
        for value in (
            "",
            ":",
            "Laplace",
            "Laplace:",
            "Laplace:x",
            "BitwiseRandomizedResponse:nan",
            "BitwiseRandomizedResponse:-1",
            "BitwiseRandomizedResponse:1e999",
            "BitwiseRandomizedResponse:1,x=2",
            "nowhere=BitwiseRandomizedResponse:1",
            "paper:1",
        )
    },
    **{
        f"policy {value[:30]!r}": (*RUN, "--policy", value)
        for value in (
            "",
            ":",
            ".:x",
            "..:x",
            ":x",
            "x:",
            "math:",
            "math:pi",
            "math:sqrt",
            "math:nothing",
            "nowhere:Agent",
            "json:dumps",
            "builtins:open",
            "os:getcwd",
            "collections:namedtuple",
            "taciturn.policies:Policy",
            "taciturn.policies:Learner",
            "taciturn.policies:Mixture",
            "taciturn:simulate",
            "numpy.random:default_rng",
            "\x1b[31m",
            "x" * 5000,
            "x" * 5000 + ":y",
            "sb3:",
            "sb3:\x00",
            "\x00",
            "onnx:nowhere",
        )
    },
    **{
        f"option {option} {value}": (*RUN, "--policy", "Random", option, value)
        for option, values in {
            "--runs": ("0", "-1", "x", "1e3", "9" * 30),
            "--seed": ("-1", "x", "9" * 30),
            "--until": ("nan", "inf", "-1", "0", "x"),
            "--set": ("", "=", "=1", "horizon", "horizon=" + "[" * 10**4),
        }.items()
        for value in values
    },
}


@pytest.mark.parametrize("part", range(5))
def test_malformed_settings_are_refused(
    part: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def attempt(what: str) -> None:
        refused(monkeypatch, capsys, *GIVEN[what])

    each(list(GIVEN)[part::5], attempt)


YAML = {
    "empty": "",
    "a list": "[]",
    "a number": "7",
    "text": "PPO",
    "not YAML": "PPO: [",
    "a tab": "PPO:\n\tsettings: {}",
    "no settings": "PPO: {}",
    "settings are a list": "PPO: {settings: []}",
    "settings are none": "PPO: {settings: }",
    "another key": "PPO: {settings: {}, score: 1}",
    "numbers as names": "PPO: {settings: {1: 2}}",
    "another algorithm": "DQN: {settings: {}}",
    "code": "PPO: !!python/object/apply:os.getcwd []",
    "a number as text": "PPO: {settings: {learning_rate: 1e-3}}",
    "an unknown setting": "PPO: {settings: {speed: 1}}",
    "steps below 0": "PPO: {settings: {n_steps: -1}}",
    "a class": "PPO: {settings: {policy_kwargs: {activation_fn: ReLU}}}",
    "a policy": "PPO: {settings: {policy: Nothing}}",
    "binary": "\x00\x01",
    "an alias of itself": "PPO: &a {settings: *a}",
    "two documents": "PPO: {settings: {}}\n---\nPPO: {settings: {}}",
    "a learning rate of 1e38": "PPO: {settings: {learning_rate: 1.0e+38, n_steps: 16, batch_size: 32}}",
}


@pytest.mark.parametrize("what", YAML)
def test_malformed_files_of_settings_are_refused(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yml"
    file.write_text(YAML[what], encoding="utf-8")
    sizes = "--steps 128 --num-envs 4 --evaluations 1 --set num_clients=6 --set horizon=20.0"
    words = ("train", "round_stopping", "--out", str(tmp_path / "agent"), "--settings", str(file), *sizes.split())
    refused(monkeypatch, capsys, *words)
    assert not (tmp_path / "agent" / "model.zip").exists()


def test_a_learner_whose_numbers_grow_without_bound_says_so() -> None:
    env = round_stopping_v0.population(2, **STOPPING)
    learner = bring("TrainedAgent", steps=2000, settings={"learning_rate": 1e38})
    with pytest.raises(ValueError, match="cannot learn with these settings") as found:
        taciturn.simulate(env, learner, seed=0)
    one_line(str(found.value))


def test_messages_list_the_nearest_of_many_names() -> None:
    with pytest.raises(ValueError, match=r"and \d+ more \(taciturn list policies\)$") as found:
        bring("qqqqqqqqq")
    one_line(str(found.value))


# Logged data.

CLICKS = "action,click,propensity_score,context_0\n" + "".join(
    f"{'ab'[i % 2]},{int(i % 3 == 0)},0.5,0.{i % 9 + 1}\n" for i in range(40)
)
RATINGS = "user,item,rating,timestamp\n" + "".join(f"{i % 7},{i % 11},{1 + i % 5},{i}\n" for i in range(80))


def cell(column: int, value: str) -> Callable[[str], str]:
    """A change of one entry of the fifth line."""

    def change(text: str) -> str:
        lines = text.splitlines()
        entries = lines[4].split(",")
        entries[column] = value
        return "\n".join([*lines[:4], ",".join(entries), *lines[5:]]) + "\n"

    return change


NUMBERS = ("", "x", "nan", "inf", "-1", "1e309", "0x1", "1,5", "\x1b[2J", "--1", "1e-308", "٣x")
DAMAGES: dict[str, Callable[[str], str]] = {
    "empty": lambda _: "",
    "a header alone": lambda text: text.splitlines()[0] + "\n",
    "no header": lambda text: text.partition("\n")[2],
    "binary": lambda _: "\x00\x01\x02",
    "a short row": lambda text: text + "a\n",
    "a long row": lambda text: text + "a,0,0.5,0.1,9,9,9\n",
    "a column twice": lambda text: text.replace("click", "action").replace("item", "user"),
    "another header": lambda text: "a,b,c,d\n" + text.partition("\n")[2],
    "a quote that never ends": lambda text: text + '"a,0,0.5,0.1\n',
    "JSON": lambda _: "{}",
}
BANDIT = DAMAGES | {
    **{f"click is {value!r}": cell(1, value) for value in NUMBERS},
    **{f"propensity is {value!r}": cell(2, value) for value in (*NUMBERS, "0", "1.5")},
    **{f"context is {value!r}": cell(3, value) for value in NUMBERS if value not in ("-1", "1e-308")},
    "one action": lambda text: text.replace("\nb,", "\na,"),
}
STARS = {name: one for name, one in DAMAGES.items() if name not in ("no header",)} | {
    **{f"rating is {value!r}": cell(2, value) for value in NUMBERS if value not in ("-1", "1e-308")},
    **{f"timestamp is {value!r}": cell(3, value) for value in NUMBERS if value not in ("-1", "1e-308")},
}


def test_malformed_logs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def attempt(what: str) -> None:
        file = tmp_path / "log.csv"
        file.write_text(BANDIT[what](CLICKS), encoding="utf-8")
        refused(monkeypatch, capsys, "logged", "bandit", str(file), "--policy", "Random", "--estimator", "ips")

    each(BANDIT, attempt)


def test_malformed_ratings_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def attempt(what: str) -> None:
        file = tmp_path / "ratings.csv"
        file.write_text(STARS[what](RATINGS), encoding="utf-8")
        words = ("logged", "ratings", str(file), "--policy", "Random", "--until", "5", "--seeds", "1")
        refused(monkeypatch, capsys, *words)

    each(STARS, attempt)


# Models.


class Runs:
    """What a pickle can do as it is loaded: here, make a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


def stopping() -> Population[Any]:
    return round_stopping_v0.population(3, **STOPPING)


def model(algorithm: Any = PPO, policy: str = "MlpPolicy", env: Any = None, **given: Any) -> Any:
    return algorithm(policy, RowsVecEnv(env or stopping(), seed=0), seed=3, device="cpu", **given)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of Stable-Baselines3."""
    file = tmp_path_factory.mktemp("model") / "model.zip"
    model(policy_kwargs={"net_arch": [4], "activation_fn": torch.nn.ReLU}).save(file)
    return file.read_bytes()


def parts_of(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as unpack:
        return {name: unpack.read(name) for name in unpack.namelist()}


def archived(parts: dict[str, bytes], file: Path, kind: int = zipfile.ZIP_STORED) -> str:
    with zipfile.ZipFile(file, "w", kind) as unpack:
        for name, content in parts.items():
            unpack.writestr(name, content)
    return f"sb3:{file}"


def entry(name: str, value: Any) -> Callable[[dict[str, bytes], Path], None]:
    """A change of an entry of `data`: a pickle of a value, which may be made of the mark's path, or JSON as it is."""

    def change(parts: dict[str, bytes], mark: Path) -> None:
        data = json.loads(parts["data"])
        made = value(mark) if callable(value) else value
        data[name] = (
            made
            if isinstance(made, str | int | list | None)
            else {":serialized:": base64.b64encode(pickle.dumps(made)).decode()}
        )
        parts["data"] = json.dumps(data).encode()

    return change


def state(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, bytes], Path], None]:
    """A change of the weights."""

    def by(parts: dict[str, bytes], _: Path) -> None:
        weights = torch.load(io.BytesIO(parts["policy.pth"]), weights_only=True)
        change(weights)
        file = io.BytesIO()
        torch.save(weights, file)
        parts["policy.pth"] = file.getvalue()

    return by


def weights_that_run(parts: dict[str, bytes], mark: Path) -> None:
    file = io.BytesIO()
    torch.save({"action_net.bias": Runs(mark)}, file)
    parts["policy.pth"] = file.getvalue()


def without(name: str) -> Callable[[dict[str, bytes], Path], None]:
    """A change that takes an entry out of `data`."""

    def change(parts: dict[str, bytes], _: Path) -> None:
        data = json.loads(parts["data"])
        del data[name]
        parts["data"] = json.dumps(data).encode()

    return change


NO_PARTS: list[Any] = [None, 7, "x", [], 2.5, {1, 2}]


class Space:
    """Of no library that is known."""


MODELS: dict[str, Callable[[dict[str, bytes], Path], Any]] = {
    "no data": lambda parts, _: parts.pop("data"),
    "no weights": lambda parts, _: parts.pop("policy.pth"),
    "nothing": lambda parts, _: parts.clear(),
    "data is empty": lambda parts, _: parts.update(data=b""),
    "data is a list": lambda parts, _: parts.update(data=b"[]"),
    "data is deep": lambda parts, _: parts.update(data=b"[" * 10**5),
    "data is binary": lambda parts, _: parts.update(data=b"\xff\xfe"),
    "weights are empty": lambda parts, _: parts.update({"policy.pth": b""}),
    "weights are a pickle": lambda parts, _: parts.update({"policy.pth": pickle.dumps({})}),
    "weights run": weights_that_run,
    **{
        f"{name} runs": entry(name, Runs)
        for name in ("policy_class", "observation_space", "action_space", "policy_kwargs")
    },
    **{
        f"{name} is {value!r}": entry(name, value)
        for name in ("policy_class", "observation_space", "action_space", "policy_kwargs")
        for value in NO_PARTS
    },
    **{
        f"{name} is missing": without(name)
        for name in ("policy_class", "observation_space", "action_space", "policy_kwargs")
    },
    "policy_class is no pickle": lambda parts, _: parts.update(
        data=parts["data"].replace(b'":serialized:": "', b'":serialized:": "AAAA')
    ),
    "policy_class is os.system": entry("policy_class", lambda _: __import__("os").system),
    "policy_class is one of this test": entry("policy_class", lambda _: Space),
    "policy_class is a space": entry("policy_class", lambda _: __import__("gymnasium").spaces.Box),
    "policy_class is no policy": entry("policy_class", lambda _: FlattenExtractor),
    "action_space is one of this test": entry("action_space", lambda _: Space()),
    "an unknown argument": entry("policy_kwargs", lambda _: {"speed": b"1"}),
    "an argument that runs": entry("policy_kwargs", lambda mark: {"net_arch": Runs(mark)}),
    "a layer of 10**12": entry("policy_kwargs", lambda _: {"net_arch": [10**12], "activation_fn": torch.nn.ReLU}),
    "10**9 actions": entry("action_space", lambda _: __import__("gymnasium").spaces.Discrete(10**9)),
    "weights are NaN": state(lambda weights: weights["action_net.bias"].fill_(float("nan"))),
    "weights are infinite": state(lambda weights: weights["action_net.bias"].fill_(float("inf"))),
    "a weight is missing": state(lambda weights: weights.pop("action_net.bias")),
    "a weight is of another shape": state(lambda weights: weights.update({"action_net.bias": torch.zeros(7)})),
    "a weight more": state(lambda weights: weights.update(more=torch.zeros(1))),
    "weights are numbers": state(lambda weights: weights.update({"action_net.bias": 1.0})),
}


def test_malformed_models_are_refused_and_run_nothing(saved: bytes, tmp_path: Path) -> None:
    def attempt(what: str) -> None:
        parts, mark = parts_of(saved), tmp_path / f"it ran: {list(MODELS).index(what)}"
        MODELS[what](parts, mark)
        with pytest.raises(ValueError, match=r"model\.zip") as found:
            bring(archived(parts, tmp_path / "model.zip"))
        one_line(str(found.value))
        assert not mark.exists()

    each(MODELS, attempt)


def of_gym(space: Any) -> bytes:
    """A pickle of a space as Gym 0.21 wrote it."""
    state = {name: one for name, one in vars(space).items() if name not in ("start", "_np_random", "low_repr")}
    made = copy.copy(space)
    made.__dict__ = state
    found = pickle.dumps(made, 3).replace(b"gymnasium.spaces", b"gym.spaces")
    assert b"gymnasium" not in found
    return found


@pytest.mark.parametrize("space", [Box(0, 3, (5,)), Discrete(2), MultiDiscrete([2, 3]), MultiBinary(2)])
def test_spaces_of_gym_are_those_of_gymnasium(space: Any) -> None:
    assert inert.value(inert.inert(of_gym(space))) == space


def test_models_from_before_gymnasium_are_read(saved: bytes, tmp_path: Path) -> None:
    parts = parts_of(saved)
    data = json.loads(parts["data"])
    (role,) = stopping().roles.values()
    for name, space in (("observation_space", role.layout.space()), ("action_space", role.action_space)):
        data[name] = {":serialized:": base64.b64encode(of_gym(space)).decode()}
    parts |= {"data": json.dumps(data).encode(), "_stable_baselines3_version": b"1.6.2"}
    (tmp_path / "new.zip").write_bytes(saved)
    new, old = [
        taciturn.simulate(stopping(), agent, seed=0).metrics["rate"]
        for agent in (f"sb3:{tmp_path}/new.zip", archived(parts, tmp_path / "old.zip"))
    ]
    np.testing.assert_array_equal(new, old)
    data["policy_kwargs"] = {":serialized:": base64.b64encode(pickle.dumps({"net_arch": [8]})).decode()}
    parts["data"] = json.dumps(data).encode()
    with pytest.raises(ValueError, match=r"old\.zip is not: .*version 1\.6\.2 has saved it, .*: train it again"):
        bring(archived(parts, tmp_path / "old.zip"))


@pytest.mark.parametrize("name", ["policy_class", "action_space"])
def test_a_model_imports_nothing_that_is_not_of_these_libraries(
    name: str, saved: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs_too.py").write_text("class Policy: pass", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    parts = parts_of(saved)
    data = json.loads(parts["data"])
    data[name] = {":serialized:": base64.b64encode(b"ctheirs_too\nPolicy\n.").decode()}
    parts["data"] = json.dumps(data).encode()
    with pytest.raises(
        ValueError, match=r"has a class that is not of Stable-Baselines3, theirs_too\.Policy, .* pass --trust"
    ):
        bring(archived(parts, tmp_path / "model.zip"))
    assert "theirs_too" not in sys.modules


@pytest.mark.parametrize("cut", [0, 1, 100, -1000, -30, -10])
def test_models_that_are_cut_are_refused(cut: int, saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(saved[:cut])
    with pytest.raises(ValueError, match=r"must be a model that Stable-Baselines3 has saved, and .*model\.zip is not"):
        bring(f"sb3:{tmp_path}/model.zip")


def test_archives_that_grow_are_refused(saved: bytes, tmp_path: Path) -> None:
    parts = parts_of(saved) | {"more": bytes(10**8)}
    with pytest.raises(ValueError, match="its parts are more than 100 times larger than the file"):
        bring(archived(parts, tmp_path / "model.zip", zipfile.ZIP_DEFLATED))


def test_what_only_its_own_code_can_load_asks_for_trust(
    saved: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, mark = parts_of(saved), tmp_path / "it ran"
    entry("policy_class", Runs)(parts, mark)
    name = archived(parts, tmp_path / "model.zip")
    line = refused(monkeypatch, capsys, *RUN, "--policy", name)
    assert line.endswith("if you trust who made it, pass --trust (in Python, trust=True)")
    assert not mark.exists()
    code, _, _ = called(monkeypatch, capsys, *RUN, "--policy", name, "--trust")
    assert code == 1, "what it made is no policy"
    assert mark.exists()


def test_classes_that_are_stored_by_value_ask_for_trust(tmp_path: Path) -> None:
    """As one is that was written in a notebook."""
    source = "class Twice(FlattenExtractor):\n    def forward(self, x):\n        return super().forward(2 * x)\n"
    known: dict[str, Any] = {"FlattenExtractor": FlattenExtractor, "__name__": "__main__"}
    exec(source, known)
    made = model(policy_kwargs={"features_extractor_class": known["Twice"], "net_arch": [4]})
    made.save(tmp_path / "model.zip")
    with pytest.raises(ValueError, match=r"model\.zip has a class that is not of Stable-Baselines3, .* pass --trust"):
        bring(f"sb3:{tmp_path}/model.zip")
    found = bring(f"sb3:{tmp_path}/model.zip", trust=True)
    rows = stopping().reset(seed=0)[0][:, 0]
    theirs, ours = (one.predict(rows, deterministic=True)[0] for one in (made, found.model))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("algorithm", "policy", "given"),
    [
        (PPO, "MlpPolicy", {"policy_kwargs": {"net_arch": {"pi": [5], "vf": [3]}, "ortho_init": False}}),
        (A2C, "MlpPolicy", {}),
        (
            PPO,
            "MlpPolicy",
            {"policy_kwargs": {"features_extractor_class": FlattenExtractor, "optimizer_class": torch.optim.AdamW}},
        ),
        (DQN, "MlpPolicy", {}),
        (QRDQN, "MlpPolicy", {}),
        (TRPO, "MlpPolicy", {}),
        (ARS, "LinearPolicy", {}),
        (RecurrentPPO, "MlpLstmPolicy", {}),
        (SAC, "MlpPolicy", {}),
        (TD3, "MlpPolicy", {}),
        (DDPG, "MlpPolicy", {}),
        (TQC, "MlpPolicy", {}),
        (CrossQ, "MlpPolicy", {}),
        (SAC, "MlpPolicy", {"use_sde": True}),
        (PPO, "MlpPolicy", {"use_sde": True, "box": True}),
    ],
)
def test_ordinary_models_need_no_trust(algorithm: Any, policy: str, given: dict[str, Any], tmp_path: Path) -> None:
    """Every algorithm's policy is made anew from its parts, and gives the same actions."""
    given = dict(given)
    box = given.pop("box", algorithm in (SAC, TD3, DDPG, TQC, CrossQ))
    env = platform_side(3, num_individuals=4) if box else stopping()
    made = model(algorithm, policy, env, **given)
    made.save(tmp_path / "model.zip")
    ours, theirs = (taciturn.simulate(env, agent, seed=1).metrics for agent in (f"sb3:{tmp_path}/model.zip", made))
    assert all(np.array_equal(ours[name], theirs[name], equal_nan=True) for name in theirs)


STATISTICS: dict[str, Callable[[Any, Path], Any]] = {
    "run": lambda _, mark: Runs(mark),
    "are none": lambda *_: None,
    "are a list": lambda *_: [],
    "are of another class": lambda *_: Space(),
    "have no moments": lambda found, _: vars(found).update(obs_rms=None),
    "have moments that run": lambda found, mark: vars(found).update(obs_rms=Runs(mark)),
    "have NaN": lambda found, _: found.obs_rms.mean.fill(np.nan),
    "have negative variances": lambda found, _: found.obs_rms.var.fill(-1.0),
    "have another shape": lambda found, _: vars(found.obs_rms).update(mean=np.zeros(9)),
    "clip at text": lambda found, _: vars(found).update(clip_obs="x"),
    "clip at 0": lambda found, _: vars(found).update(clip_obs=0.0),
    "have text": lambda found, _: vars(found.obs_rms).update(mean=np.array(["a"] * 5)),
}


@pytest.mark.parametrize("what", STATISTICS)
def test_malformed_statistics_are_refused_and_run_nothing(what: str, saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(saved)
    mark, found = tmp_path / "it ran", VecNormalize(RowsVecEnv(stopping(), seed=0))
    made = STATISTICS[what](found, mark)
    content = made if isinstance(made, list | Runs | Space) or what == "are none" else found
    (tmp_path / "vecnormalize.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match=r"vecnormalize\.pkl must hold the statistics of VecNormalize") as error:
        bring(f"sb3:{tmp_path}/model.zip")
    one_line(str(error.value))
    assert not mark.exists()


@cache
def trained() -> TrainedAgent:
    return TrainedAgent(100, settings={"num_envs": 2, "turns": 10}).train(stopping())


def learner(folder: Path) -> Path:
    """A folder like that of `taciturn train`."""
    folder.mkdir(exist_ok=True)
    trained().save(folder / "learner.pkl")
    return folder / "learner.pkl"


def test_learners_of_this_user_load_and_others_ask_for_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = learner(tmp_path / "agent")
    assert key_file().stat().st_mode & 0o777 == 0o600
    assert type(bring(str(file.parent))) is TrainedAgent
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another user"))
    with pytest.raises(ValueError, match=r"learner\.pkl was not made by taciturn for this user, .* pass --trust"):
        bring(str(file.parent))
    refused(monkeypatch, capsys, *RUN, "--policy", str(file.parent))
    signed(b"what makes the other user's key")
    with pytest.raises(ValueError, match="pass --trust"):
        bring(str(file.parent))
    assert type(bring(str(file.parent), trust=True)) is TrainedAgent
    monkeypatch.setenv("TACITURN_TRUST", "1")
    assert type(bring(str(file.parent))) is TrainedAgent


@pytest.mark.parametrize(
    "what", ["runs", "runs, with another signature", "changed", "cut", "empty", "signature alone", "other content"]
)
def test_learners_that_were_changed_run_nothing(what: str, tmp_path: Path) -> None:
    file, mark = learner(tmp_path / "agent"), tmp_path / "it ran"
    whole, evil = file.read_bytes(), pickle.dumps(Runs(mark))
    assert made_here(whole)
    file.write_bytes(
        {
            "runs": evil,
            "runs, with another signature": evil + whole[-51:],
            "changed": whole[:50] + bytes([whole[50] ^ 1]) + whole[51:],
            "cut": whole[:-1],
            "empty": b"",
            "signature alone": whole[-51:],
            "other content": evil + whole,
        }[what]
    )
    with pytest.raises(ValueError, match=r"learner\.pkl was not made by taciturn for this user"):
        bring(file.parent)
    assert not mark.exists()


def test_a_training_goes_on_from_its_own_checkpoints_only(tmp_path: Path) -> None:
    """The checkpoints of Stable-Baselines3 are loaded whole, so that code in them would run."""
    small: dict[str, Any] = {
        "algorithm": "PPO",
        "steps": 128,
        "params": STOPPING,
        "num_envs": 4,
        "settings": {"n_steps": 16, "batch_size": 64},
    }
    folder, mark = train("round_stopping", out=tmp_path / "agent", evaluations=1, **small), tmp_path / "it ran"
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps(manifest | {"finished": None}), encoding="utf-8")
    parts = parts_of((folder / "checkpoints/128.zip").read_bytes())
    entry("policy_class", Runs)(parts, mark)
    archived(parts, folder / "checkpoints/128.zip")
    with pytest.raises(ValueError, match=r"128\.zip was not made by taciturn for this user"):
        train("round_stopping", out=folder, evaluations=1, resume=True, **small)
    assert not mark.exists()


@pytest.mark.parametrize("prefix", ["torchrl", "rllib"])
def test_formats_that_are_pickles_ask_for_trust(prefix: str, tmp_path: Path) -> None:
    mark, file = tmp_path / "it ran", tmp_path / "actor.pt"
    torch.save(Runs(mark), file)
    with pytest.raises(ValueError, match=r"actor\.pt is a .* pass --trust"):
        bring(f"{prefix}:{file}")
    assert not mark.exists()


def network(
    path: Path, *, kind: int = onnx.TensorProto.FLOAT, size: int = 5, inputs: int = 1, value: float = 1.0, out: int = 2
) -> str:
    """An ONNX file that multiplies rows by a table."""
    helper = onnx.helper
    shapes = [helper.make_tensor_value_info(f"rows{i}", kind, ["n", size]) for i in range(inputs)]
    weights = helper.make_tensor("weights", kind, (size, out), [value] * (size * out))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["rows0", "weights"], ["scores"])],
        "net",
        shapes,
        [helper.make_tensor_value_info("scores", kind, ["n", out])],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return f"onnx:{path}"


NETWORKS: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("network"),
    "a zip": lambda path: archived({"a": b""}, path),
    "cut": lambda path: (network(path), path.write_bytes(path.read_bytes()[:40])),
    "of doubles": lambda path: network(path, kind=onnx.TensorProto.DOUBLE),
    "of other rows": lambda path: network(path, size=9),
    "with two inputs": lambda path: network(path, inputs=2),
    "with NaN": lambda path: network(path, value=float("nan")),
    "with three actions": lambda path: network(path, out=3),
}


@pytest.mark.parametrize("what", NETWORKS)
def test_malformed_networks_in_onnx_are_refused(what: str, tmp_path: Path) -> None:
    NETWORKS[what](tmp_path / "net.onnx")
    with pytest.raises(ValueError, match="policy must") as found:
        taciturn.simulate(stopping(), f"onnx:{tmp_path}/net.onnx", seed=0)
    one_line(str(found.value))


def test_a_manifest_may_name_a_library_that_is_not_known() -> None:
    manifest = environment() | {
        "libraries": {"numpy": "2", "jax": "0.9"},
        "seeds": {},
        "started": "now",
        "finished": None,
        "earlier_runs": [],
    }
    assert "jax 0.9" in str(origin_table(manifest).rows)
