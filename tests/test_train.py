"""Agents are trained into a folder, which resumes, and from which they act as they did; learners are saved and
loaded."""

import csv
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.agents import bring
from taciturn.bench import train as training
from taciturn.bench.train import train
from taciturn.cli import main
from taciturn.envs import (
    gossip_bandit_v0,
    recommender_v0,
    round_stopping_v0,
    social_bandit_v0,
)
from taciturn.policies import (
    BlockListener,
    CentralisedLogistic,
    Learner,
    LogisticBandit,
    NeuralBandit,
    TrainedAgent,
)
from taciturn.policies.learned.scores import SocialScore
from taciturn.registry import UnknownName, make_world
from taciturn.wrappers import BitwiseRandomizedResponse

STOPPING: dict[str, Any] = {"num_clients": 6, "slot_time": 0.1, "horizon": 10.0}
SHORT: dict[str, Any] = {"algorithm": "PPO", "steps": 256, "params": STOPPING, "num_envs": 4, "evaluations": 2}
ROLLOUT: dict[str, Any] = {"settings": {"n_steps": 16, "batch_size": 64}}


def acts(agent: Any) -> list[float]:
    run = taciturn.simulate(round_stopping_v0.population(4, **STOPPING), agent, seed=1)
    return [float(x) for name in ("rate", "rounds") for x in run.metrics[name]]


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("PPO", ROLLOUT["settings"]),
        ("A2C", {"normalize": True}),
        ("DQN", {"learning_starts": 10}),
        ("RecurrentPPO", {"n_steps": 16, "batch_size": 64}),
    ],
)
def test_a_folder_acts(algorithm: str, settings: dict[str, Any], tmp_path: Path) -> None:
    folder = train("round_stopping", out=tmp_path / "agent", **SHORT | {"algorithm": algorithm, "settings": settings})
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["training"]["algorithm"] == algorithm
    assert manifest["training"]["params"] == STOPPING
    assert manifest["finished"]
    with (folder / "evaluations.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["steps"]) for row in rows] == [128, 256]
    assert all(float(row["low"]) <= float(row["return"]) <= float(row["high"]) for row in rows)
    assert acts(folder) == acts(str(folder)) == acts(bring(folder))
    assert list((folder / "log").glob("events.out.tfevents.*")), "what TensorBoard shows"
    assert {file.stem for file in (folder / "checkpoints").glob("*.zip")} == {"128", "256"}


def test_a_rollout_that_goes_further_than_asked_is_evaluated_once(tmp_path: Path) -> None:
    rollout = {"n_steps": 128, "batch_size": 64, "n_epochs": 1}
    reported: list[tuple[float, str]] = []
    folder = train(
        "round_stopping", out=tmp_path, **SHORT, settings=rollout, progress=lambda *now: reported.append(now)
    )
    told = [text for _, text in reported]
    with (folder / "evaluations.csv").open(encoding="utf-8") as file:
        assert [row["steps"] for row in csv.DictReader(file)] == ["256"]
    assert told[-1] == "PPO: 20 fresh runs after 512 steps"
    assert any(text.startswith("PPO: 256 of 256 steps, ") and text.endswith(" whole runs") for text in told)
    assert any(text.startswith("PPO: 512 steps, since rollouts are whole (256 asked for), ") for text in told)
    assert max(done for done, _ in reported) < 1, "the evaluation is not done while it is reported"


def test_a_training_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, learned = tmp_path / "agent", []
    real = training.evaluated

    def stops(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "evaluated", stops)
        with pytest.raises(KeyboardInterrupt):
            train("round_stopping", out=folder, **SHORT, **ROLLOUT)
    assert [file.name for file in (folder / "checkpoints").glob("*.zip")] == ["128.zip"]
    with pytest.raises(ValueError, match="holds no trained agent"):
        bring(folder)
    with pytest.raises(ValueError, match="holds this training: resume it"):
        train("round_stopping", out=folder, **SHORT, **ROLLOUT)
    with pytest.raises(ValueError, match=r"and .* differs in seed"):
        train("round_stopping", out=folder, seed=3, resume=True, **SHORT, **ROLLOUT)
    train("round_stopping", out=folder, resume=True, progress=lambda done, _: learned.append(done), **SHORT, **ROLLOUT)
    assert min(learned) > 0.5, "the first half is not learned again"
    before = (folder / "model.zip").read_bytes()
    train("round_stopping", out=folder, resume=True, **SHORT, **ROLLOUT)
    assert (folder / "model.zip").read_bytes() == before
    with (folder / "evaluations.csv").open(encoding="utf-8") as file:
        assert [row["steps"] for row in csv.DictReader(file)] == ["128", "256"]


def test_what_was_seen_is_kept_for_the_rest_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of observations, and the buffer of transitions; what is seen next has other seeds."""
    real, seeds = training.evaluated, []
    restart = round_stopping_v0._population._restart

    def stops(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    def listening(self: Any, seed: Any, *given: Any) -> Any:
        if self.purpose == "training":
            seeds.append(seed)
        return restart(self, seed, *given)

    monkeypatch.setattr(training, "evaluated", stops)
    monkeypatch.setattr(round_stopping_v0._population, "_restart", listening)
    kinds: dict[str, dict[str, Any]] = {
        "PPO": {**ROLLOUT["settings"], "normalize": True},
        "DQN": {"learning_starts": 10, "buffer_size": 1000},
    }
    for algorithm, settings in kinds.items():
        given = SHORT | {"algorithm": algorithm, "settings": settings}
        for resume in (False, True):
            with pytest.raises(KeyboardInterrupt):
                train("round_stopping", out=tmp_path / algorithm, resume=resume, **given)
    statistics = pickle.loads((tmp_path / "PPO/checkpoints/256.pkl").read_bytes())
    assert statistics.obs_rms.count > 256, "of all observations, and not of the second half only"
    buffer = pickle.loads((tmp_path / "DQN/checkpoints/replay.pkl").read_bytes())
    assert buffer.pos * 4 == 256
    assert len({seed for seed in seeds if seed is not None}) == 2, "one before, one after, the same for both algorithms"


def test_training_evaluation_and_play_draw_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one seed for all of them: the first numbers of the stream of rewards differ."""
    first: dict[str, set[float]] = {}
    real = social_bandit_v0._population._begin_state

    def begin_state(self: Any, where: Any) -> None:
        real(self, where)
        first.setdefault(self.purpose, set()).add(float(self.stream("probe").random()))

    monkeypatch.setattr(social_bandit_v0._population, "_begin_state", begin_state)
    params: dict[str, Any] = {"num_agents": 4, "qualities": (0.8, 0.2), "copies": 4, "horizon": 4}
    folder = train(
        "social_bandit",
        "PPO",
        steps=64,
        out=tmp_path / "agent",
        seed=5,
        params=params,
        num_envs=2,
        evaluations=1,
        settings={"n_steps": 8, "batch_size": 64},
    )
    taciturn.simulate(social_bandit_v0.population(2, **params), folder, seed=5)
    assert set(first) == {"training", "selection", ""}
    assert len(set.union(*first.values())) == sum(map(len, first.values()))


def test_privacy_holds_in_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    real = gossip_bandit_v0._population.between

    def between(self: Any, live: Any) -> None:
        seen.add((self.purpose, repr(self.channels["preference"].config.mechanism)))
        real(self, live)

    monkeypatch.setattr(gossip_bandit_v0._population, "between", between)
    mechanism = BitwiseRandomizedResponse(2.0)
    train(
        "gossip_bandit",
        "PPO",
        steps=64,
        out=tmp_path / "agent",
        params={"num_agents": 4, "horizon": 2.0},
        num_envs=2,
        evaluations=1,
        privacy={"preference": mechanism},
        settings={"n_steps": 16, "batch_size": 32},
    )
    assert seen == {("training", repr(mechanism)), ("selection", repr(mechanism))}


def test_a_learner_trains_for_a_task_as_it_will_play_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its standard world, behind what the learner itself puts on the channel under the total."""
    task, seen = "taciturn/SocialBandit-v0/standard@3", list[tuple[int, str]]()
    learn = TrainedAgent.training

    def watched(self: Any, view: Any, seconds: float | None = None) -> Any:
        seen.append((view.params.num_agents, repr(view.channels["preference"].mechanism)))
        return learn(self, view, seconds)

    monkeypatch.setattr(TrainedAgent, "training", watched)
    settings = {"runs": 2, "block": 2, "population": 4}
    folder = train(task, "TrainedAgent", steps=10_000, out=tmp_path / "agent", settings=settings)
    view = make_world("social_bandit").population(1, num_agents=20).view()
    (mechanism,) = SocialScore().within(view, 3.0).values()
    assert seen == [(20, repr(mechanism))]
    monkeypatch.setattr(sys, "argv", ["taciturn", "run", task, "--policy", str(folder), "--runs", "2"])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, len(seen)) == (0, 1), "it is not trained again"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"world": "round_stoping"}, UnknownName, "did you mean round_stopping_v0"),
        ({"algorithm": "PPP"}, UnknownName, "unknown algorithm 'PPP': did you mean PPO"),
        ({"algorithm": "Uniform"}, ValueError, "algorithm must be one that learns, and Uniform does not"),
        ({"algorithm": "SAC"}, ValueError, "algorithm SAC cannot learn in round_stopping"),
        (
            {"settings": {"speed": 3}},
            ValueError,
            "algorithm PPO cannot learn .* with {'speed': 3}: .*unexpected keyword",
        ),
        ({"steps": 0}, ValueError, "steps must be"),
        ({"steps": None}, ValueError, "steps must be given for PPO"),
        ({"world": "taciturn/FederatedTraining-v0/skewed"}, ValueError, "the only ones for training, not .*skewed"),
        ({"world": "taciturn/RoundStopping-v0/standard"}, ValueError, "left out in a task, .*'num_clients': 6"),
        ({"num_envs": 0}, ValueError, "num_envs must be"),
        ({"params": {"horizon": -1.0}}, ValueError, "horizon"),
        ({"privacy": {"x": 3}}, ValueError, "mechanism must be"),
    ],
)
def test_mistakes_are_named_and_leave_no_folder(
    given: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    arguments = {"world": "round_stopping", **SHORT} | given
    with pytest.raises(error, match=message):
        train(out=tmp_path / "agent", **arguments)
    assert not (tmp_path / "agent").exists()
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "thesis.tex").touch()
    with pytest.raises(ValueError, match="out must be a new or empty folder"):
        train("round_stopping", out=tmp_path / "agent", **SHORT)


LEARNERS: dict[str, Any] = {
    "TrainedAgent": (
        TrainedAgent, gossip_bandit_v0, {"steps": 500, "settings": {"num_envs": 8}}, {"num_agents": 4, "horizon": 3.0},
    ),
    "NeuralBandit": (
        NeuralBandit, recommender_v0, {"steps": 2, "num_envs": 2, "rounds": 8},
        {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 20},
    ),
    **{
        kind.__name__: (
            kind, recommender_v0, {"worlds": 3, "rounds": 10} | own,
            {"num_agents": 3, "num_items": 40, "repository": 20, "horizon": 20},
        )
        for kind, own in ((LogisticBandit, {}), (CentralisedLogistic, {}), (BlockListener, {"cells": 5, "first": 4}))
    },
}  # fmt: skip


def test_every_learner_is_saved_here() -> None:
    found = {cls.__name__ for cls in taciturn.registry.policies().values() if issubclass(cls, Learner)}
    assert found == set(LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_are_saved_and_loaded(name: str, tmp_path: Path) -> None:
    cls, world, own, params = LEARNERS[name]
    env = world.population(2, **params)
    learner = cls(**own)
    learner.progress = lambda done: None
    learner.train(env)
    learner.save(tmp_path / "learner.pkl")
    loaded = cls.load(tmp_path / "learner.pkl")
    runs = [taciturn.simulate(env, one, seed=3).metrics for one in (learner, loaded)]
    assert all(np.array_equal(runs[0][name], runs[1][name], equal_nan=True) for name in runs[0])
    other: Any = NeuralBandit if cls is not NeuralBandit else TrainedAgent
    with pytest.raises(ValueError, match=f"path must hold a {other.__name__}, and .* holds a {name}"):
        other.load(tmp_path / "learner.pkl")
    (tmp_path / "broken.pkl").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"path must be a file that .*save has written"):
        cls.load(tmp_path / "broken.pkl", trust=True)


def test_the_command_line_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    world = [word for key, value in STOPPING.items() for word in ("--set", f"{key}={value}")]
    folder, small = str(tmp_path / "agent"), ["--set", "policy.n_steps=16", "--set", "policy.batch_size=64"]
    sizes = ["--steps", "128", "--num-envs", "4", "--evaluations", "1"]
    for arguments, wanted in (
        (
            ["train", "round_stopping", "--algorithm", "PPO", "--out", folder, *sizes, *world, *small],
            "steps,return,low,high\n128,",
        ),
        (["run", "round_stopping", "--policy", folder, "--seeds", "3", *world], "Predictor(model=ActorCriticPolicy"),
    ):
        monkeypatch.setattr(sys, "argv", ["taciturn", *arguments])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as end:
            main()
        found = capsys.readouterr()
        assert end.value.code == 0, found.err
        assert wanted in found.out
