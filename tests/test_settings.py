"""Tuned settings: the files of this package say how they were found and are read, and so is a user's own, or a line
says what is wrong."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tune
from test_train import SHORT

from taciturn import registry
from taciturn.bench.tasks import TASKS
from taciturn.bench.train import train
from taciturn.bench.tuned import tuned as searched
from taciturn.envs import gossip_bandit_v0
from taciturn.policies import LearnedStopping, Learner, SharedPPO
from taciturn.policies.learned import tuning
from taciturn.policies.learned.tuning import FOLDER, settings_in, tuned

FILES = sorted(FOLDER.glob("*.yml"))
TUNING = Path(__file__).parent.parent / "tools/results/learner_settings.json"
OWN = """
PPO:
  found: {command: taciturn train round_stopping, seeds: "7", budget: one try}
  settings: {n_steps: 16, batch_size: 64}
"""


def test_every_file_is_of_a_world_and_every_entry_of_a_learner_that_takes_it() -> None:
    import yaml

    assert {file.stem for file in FILES} <= {world.name for world in registry.worlds().values()}
    assert len(FILES) == 4
    for file in FILES:
        for name, entry in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            assert entry["found"].keys() == {"command", "seeds", "budget"}
            assert all(isinstance(text, str) and text for text in entry["found"].values())
            kind = registry.policy_class(name.partition("-")[0])
            assert kind is not None
            assert issubclass(kind, Learner)
            assert entry["settings"].keys() <= inspect.signature(kind).parameters.keys()
            assert settings_in(file)[name] == entry["settings"]


def test_settings_that_were_tuned_are_those_that_won() -> None:
    """As `tools/tune.py` recorded them, with command, seeds and budget; those of the recommender were tried by
    hand."""
    import yaml

    tuning = json.loads(TUNING.read_text(encoding="utf-8"))["entries"]
    found = {}
    for file in FILES:
        for learner, entry in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            if file.stem != "recommender":
                found[f"{file.stem}:{learner}"] = entry
    assert found.keys() == tuning.keys()
    for name, entry in found.items():
        won = tuning[name]
        assert entry["settings"] == won["settings"]
        assert entry["found"]["command"] == won["command"]
        numbers = {int(x) for x in re.findall(r"\d+", f"{entry['found']['seeds']} {entry['found']['budget']}")}
        assert numbers >= {*won["seeds"]["trainings"], won["seeds"]["runs"], *won["budget"].values()}
        scores = [one["scores"] for one in won["tried"]]
        assert len(scores) == won["budget"]["settings"]
        assert {len(some) for some in scores} == {won["budget"]["trainings"]}
        sign = 1 if won["measure"] == "rate" else -1
        chosen = next(one["scores"] for one in won["tried"] if one["change"] == won["chosen"])
        better = [some for some in scores if min(sign * x for x in some) > max(sign * x for x in scores[0])]
        assert chosen == max(better, key=lambda some: sign * sum(some), default=scores[0])


def test_designed_and_published_agents_are_searched_alike_wherever_they_play() -> None:
    """`tools/results/tuning.json` has each agent with parameters to search, in each standard task and total, by
    one budget; what won is what the benchmark plays."""
    kept = json.loads((TUNING.parent / "tuning.json").read_text(encoding="utf-8"))
    wanted = {f"{task.id}:{policy}": (task, policy) for task, policy, _ in tune.jobs()}
    assert kept["entries"].keys() == wanted.keys()
    for name, (task, policy) in wanted.items():
        found = kept["entries"][name]
        assert searched(task, policy) == found["chosen"], name
        assert 0 < len(found["tried"]) <= kept["budget"]["trials"] == tune.TRIALS
        finals = {json.dumps(one["settings"]): one["final"] for one in found["tried"] if one["final"] is not None}
        assert finals[json.dumps(found["chosen"])] == max(finals.values()), name


def test_a_search_that_is_refused_everywhere_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    task = next(iter(TASKS.values()))
    monkeypatch.setattr(tune, "score", lambda *given: -np.inf)
    monkeypatch.setattr(tune, "drawn", lambda *given: [{}])
    with pytest.raises(ValueError, match="UCB1 refuses all settings"):
        tune.search(task, "UCB1", "classic")


class Told(Exception):  # noqa: N818
    """What a learner would begin to learn with."""


def used(learner: Any, world: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    def told(*_: Any, **arguments: Any) -> None:
        raise Told(arguments)

    monkeypatch.setattr("stable_baselines3.PPO", told)
    monkeypatch.setattr(type(learner), "learn", told, raising=False)
    population = registry.make_world(world).population(1)
    with pytest.raises(Told) as found:
        learner.train(population)
    arguments: dict[str, Any] = found.value.args[0]
    return arguments


@pytest.mark.parametrize(
    ("learner", "world"),
    [(LearnedStopping, "round_stopping")],
)
def test_learners_learn_with_the_settings_of_the_file(
    learner: Any, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name, *_) = settings_in(FOLDER / f"{world}.yml")
    wanted = tuned(world, name)["arguments"]
    with monkeypatch.context() as patch:
        assert wanted.items() <= {"learning_rate": wanted["learning_rate"], **used(learner(), world, patch)}.items()
    with monkeypatch.context() as patch:
        assert used(learner(arguments={"gamma": 0.5}), world, patch)["gamma"] == 0.5


def test_shared_ppo_reads_the_file_of_its_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = gossip_bandit_v0.population(1).view()
    assert SharedPPO().settings(view)["num_envs"] == 128
    (tmp_path / "gossip_bandit.yml").write_text("SharedPPO: {settings: {num_envs: 3}}")
    monkeypatch.setattr(tuning, "FOLDER", tmp_path)
    assert SharedPPO().settings(view)["num_envs"] == 3
    assert SharedPPO(num_envs=4).settings(view)["num_envs"] == 4


def settings_of(folder: Path) -> dict[str, Any]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = manifest["training"]["settings"]
    return found


def test_train_takes_the_worlds_settings_or_a_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "round_stopping.yml").write_text(OWN)
    more: dict[str, Any] = {"settings": {"batch_size": 32}}
    own = train("round_stopping", out=tmp_path / "own", **SHORT, file=tmp_path / "round_stopping.yml", **more)
    assert settings_of(own) == {"n_steps": 16, "batch_size": 32}
    monkeypatch.setattr(tuning, "FOLDER", tmp_path)
    assert settings_of(train("taciturn/RoundStopping-v0", out=tmp_path / "world", **SHORT)) == {
        "n_steps": 16,
        "batch_size": 64,
    }
    (tmp_path / "learner.yml").write_text("TabularQ: {settings: {sessions: 1}}")
    learned = train(
        "round_stopping", out=tmp_path / "q", **SHORT | {"algorithm": "TabularQ"}, file=tmp_path / "learner.yml"
    )
    assert settings_of(learned) == {"sessions": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("PPO: [", " must be a YAML file of settings: while parsing"),
        ("# \xe9\n", " must be a YAML file of settings: unacceptable character"),
        ("- PPO", r": the file must be a mapping with names as keys, not \['PPO'\]"),
        ("PPO: 3", ": PPO must be a mapping with names as keys, not 3"),
        ("PPO: {setings: {}}", ": PPO.setings must be called found or settings"),
        ("PPO: {found: {}}", ": PPO must have settings"),
        ("PPO: {settings: fast}", ": PPO.settings must be a mapping with names as keys, not 'fast'"),
        ("A2C: {settings: {}}", " must have an entry 'PPO', and has A2C"),
        ("PPO: {settings: {learning_rat: 0.1}}", ": .* unexpected keyword argument 'learning_rat'"),
        ("PPO: {settings: {gamma: high}}", ": gamma must be a number, as 0.003 or 3.0e-3, not 'high'"),
        ("TabularQ: {settings: {session: 1}}", ": TabularQ got an unexpected .* 'session': did you mean 'sessions'"),
        ("TabularQ: {settings: {epsilon: 2}}", ": epsilon must be a finite number >= 0 and <= 1, not 2"),
        ("TabularQ: {settings: {seed: 2}}", ": .* multiple values for keyword argument 'seed'"),
    ],
)
def test_a_mistaken_file_is_named_with_its_key(text: str, said: str, tmp_path: Path) -> None:
    file, out = tmp_path / "mine.yml", tmp_path / "agent"
    file.write_text(text, encoding="latin-1")
    algorithm = "TabularQ" if text.startswith("Tab") else "PPO"
    with pytest.raises(ValueError, match=r"mine\.yml" + said) as error:
        train("round_stopping", out=out, **SHORT | {"algorithm": algorithm}, file=file)
    assert "\n" not in str(error.value)
    assert not out.exists()
    with pytest.raises(ValueError, match=r"nowhere\.yml must be a YAML file of settings: .* No such file"):
        train("round_stopping", out=out, **SHORT, file=tmp_path / "nowhere.yml")


def test_the_command_line_takes_a_file(tmp_path: Path, command: Any) -> None:
    # PowerShell writes UTF-16.
    (tmp_path / "mine.yml").write_text("PPO: {settings: {gamma: 9e-1}}", encoding="utf-16")
    words = [
        "--algorithm",
        "PPO",
        "--steps",
        "8",
        "--out",
        str(tmp_path / "agent"),
        "--settings",
        str(tmp_path / "mine.yml"),
    ]
    assert (
        command("train", "round_stopping", *words)[2]
        .strip()
        .endswith("mine.yml: gamma must be a number, as 0.003 or 3.0e-3, not '9e-1'")
    )


@pytest.mark.filterwarnings("ignore:SharedPPO trains with")
def test_a_learner_with_steps_takes_those_of_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(self: SharedPPO, view: Any) -> None:
        raise Told(self.given)

    monkeypatch.setattr(SharedPPO, "fit", told)
    with pytest.raises(Told) as found:
        train("gossip_bandit", "SharedPPO", steps=77, out=tmp_path / "agent")
    assert found.value.args[0] == {"steps": 77}
