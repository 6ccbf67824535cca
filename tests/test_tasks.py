"""Tasks: held-out variants are played after training, by the same agent, and differ from the world of training as they
say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taciturn.agents import bring
from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons import kinds
from taciturn.bench.play import config
from taciturn.bench.results import Cell, Group, Results
from taciturn.bench.scores import (
    CLASSIC,
    PAPER,
    RANDOM,
    TUNED,
    beats_each,
    challenge,
    challenge_text,
    gain,
    held_out,
    overall,
    profiles,
)
from taciturn.bench.tasks import CONTESTS, TASKS, Task, tasks_of
from taciturn.cli import main
from taciturn.policies import Learner
from taciturn.registry import entry, worlds
from taciturn.wrappers import Byzantine

STUDY: Any = load_studies()["agents"]


def test_every_world_has_held_out_tasks() -> None:
    assert set(CONTESTS) == set(worlds())
    assert all(len(CONTESTS[env].variants) >= 2 for env in worlds())
    assert "taciturn/GossipBandit-v0/liars" in TASKS
    for env in worlds():
        standard, *others = tasks_of(env)
        assert (standard.name, standard.held_out, standard.metric) == ("standard", False, CONTESTS[env].measure)
        assert all(task.held_out and task.metric == f"{task.measure}/{task.name}" for task in others)


@pytest.mark.parametrize("task", [task for task in TASKS.values() if task.held_out], ids=lambda task: task.id)
def test_a_held_out_task_is_another_world_with_the_same_spaces(task: Task) -> None:
    """Learners can act in it, and its runs are not those of the standard task."""
    standard = tasks_of(task.env)[0]
    one = config(task.env, "Random", {}, **CONTESTS[task.env].world) | {"kind": RANDOM}
    there, here = (kinds.population(one, 10, "evaluation", x.variant) for x in (task, standard))
    for role, seen in here.roles.items():
        assert there.roles[role].layout.fields.keys() == seen.layout.fields.keys()
        assert there.roles[role].layout.size == seen.layout.size
        assert there.roles[role].action_space == seen.action_space
    contest, changed = CONTESTS[task.env], False
    for name, own in (*contest.paper, *contest.classic):  # some of them listen to what a fault changes
        one |= {"policy": name, "kind": PAPER, "env_params": contest.params(name, learns=False)}
        worlds = ((kinds.population(one, 10, "evaluation", x.variant), x) for x in (task, standard))
        found = [
            kinds.judged(world, bring(name, **own), one, 0, variant=x.variant)[task.measure] for world, x in worlds
        ]
        assert np.isfinite(found[0]).all()
        changed = not np.array_equal(found[0], found[1])
        if changed:
            break
    assert changed


def test_tasks_are_listed_and_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["taciturn", "list", "tasks", "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["tasks"].keys() == TASKS.keys()
    monkeypatch.setattr("sys.argv", ["taciturn", "show", "taciturn/ArmElimination-v0/liars"])
    with pytest.raises(SystemExit):
        main()
    shown = " ".join(capsys.readouterr().out.split())
    assert "faults means: Byzantine(fraction=0.2, strategy='flip'" in shown
    assert "measure regret_per_agent (lower is better)" in shown


def test_the_fault_of_a_task_stands_on_its_channel_alone() -> None:
    task = TASKS["taciturn/GossipBandit-v0/liars"]
    one = config(task.env, "Voter", {}, **CONTESTS[task.env].world) | {"kind": CLASSIC}
    world = kinds.population(one, 5, "evaluation", task.variant)
    kinds.opened(world, bring("Voter"), one, 0, variant=task.variant)
    (fault,) = world.channels["preference"].config.faults
    assert isinstance(fault, Byzantine)
    assert fault.fraction == 0.2
    kinds.opened(world, bring("Voter"), one, 0)
    assert world.channels["preference"].config.faults == ()


def test_a_learner_trains_once_and_plays_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the standard world, before anything is judged; the same agent plays every task, in fewer runs where it is held
    out."""
    events: list[tuple[Any, ...]] = []

    class Student(Learner):
        trained = False

        def begin(self, view: Any) -> None:
            if not self.trained:
                self.fit(view)

        def fit(self, view: Any) -> None:
            self.trained = True
            events.append(("trained", view.params.num_agents))

        def act(self, obs: Any, mask: Any = None) -> Any:
            return np.zeros((*obs.shape[:2], 3), np.int64)

    agent = Student()
    monkeypatch.setattr(kinds, "brought", lambda cell, progress: agent)
    judge = kinds.judged

    def recorded(world: Any, policy: Any, config: Any, seed: int, **given: Any) -> Any:
        assert policy is agent
        found = judge(world, policy, config, seed, **given)
        events.append((given["variant"].what, world.num_envs, world.purpose))
        return found

    monkeypatch.setattr(kinds, "judged", recorded)
    env = "gossip_bandit_v0"
    cell = Cell("agents", config(env, "PPCL", {}, **CONTESTS[env].world) | {"kind": TUNED, "replicas": 4}, 3)
    result = STUDY.run(cell)
    assert events[0] == ("trained", 20)
    assert [what for what, *_ in events[1:]] == [task.variant.what for task in tasks_of(env)]
    assert [rest for _, *rest in events[1:]] == [[4, "evaluation"]] + [[2, "evaluation"]] * len(CONTESTS[env].variants)
    assert set(result.metrics) == {"return", "messages", *(task.metric for task in tasks_of(env))}


def test_a_learner_trains_in_the_standard_task_and_not_in_the_one_it_plays() -> None:
    seen: list[int] = []

    class Student(Learner):
        def begin(self, view: Any) -> None:
            seen.append(view.params.num_agents)

        def act(self, obs: Any, mask: Any = None) -> Any:
            return np.zeros((*obs.shape[:2], 3), np.int64)

    kinds.play_task(TASKS["taciturn/GossipBandit-v0/crowd"], "Student", Student(), 2, 0)
    assert seen == [20, 100]


def test_results_count_messages() -> None:
    """In the social bandit each of 20 voters copies in each of 50 slots; UCB1 plays alone, and where there is no
    channel there is none."""
    counts = {}
    for env, policy in (
        ("social_bandit_v0", "Voter"),
        ("federated_bandit_v0", "UCB1"),
        ("round_stopping_v0", "Deadline"),
    ):
        own = {"slots": 30} if policy == "Deadline" else {}
        cell = Cell("agents", config(env, policy, own, **CONTESTS[env].world) | {"kind": CLASSIC, "replicas": 4}, 3)
        counts[env] = STUDY.run(cell).metrics["messages"]
    assert list(counts.values()) == [1000, 0, 0]


def group(kind: str, policy: str, standard: list[float], liars: list[float]) -> Group:
    measure = CONTESTS["gossip_bandit_v0"].measure
    metrics = {"return": np.zeros(3), measure: np.array(standard), f"{measure}/liars": np.array(liars)}
    return Group(
        {"env": "gossip_bandit_v0", "policy": policy, "policy_params": {}, "kind": kind},
        np.arange(3),
        metrics,
        {},
        np.ones(3),
    )


def test_scores_by_hand() -> None:
    """Regret: less is better. Random 1 and the best designed 0.5 in the standard task (PPCL), 2 and 1 among liars,
    where Voter is best."""
    panel = Results(
        [
            group("random", "Random", [1.0, 1.0, 1.0], [2.0, 2.0, 2.0]),
            group("classic", "Voter", [0.75, 0.75, 0.75], [0.5, 0.5, 0.5]),
            group("paper", "PPCL", [0.5, 0.5, 0.5], [1.0, 1.0, 1.0]),
            group("plain PPO", "SharedPPO", [0.25, 0.25, 0.25], [1.5, 1.5, 1.5]),
        ]
    )
    panels = [("gossip_bandit_v0", panel)]
    (row,) = held_out(panels, lambda group: str(group.config["policy"])).rows
    assert row[0] == "GossipBandit-v0/liars"
    assert row[2].startswith("no: -0.5000")
    assert row[3].startswith("PPCL: 1"), "the best of the standard task, though Voter is better here"
    assert row[4].startswith("SharedPPO: 1.500")
    assert row[4].endswith("score 0.50")
    table = {row[0]: dict(zip(overall(panels).columns[1:], row[1:], strict=True)) for row in overall(panels).rows}
    assert table["plain PPO"]["interquartile mean"].startswith("1.50")
    assert table["plain PPO"]["P(beats designed)"].startswith("1 [")
    assert table["plain PPO"]["interquartile mean (held-out)"].startswith("0.50")
    assert table["plain PPO"]["P(beats designed) (held-out)"].startswith("0")
    assert table["paper"]["P(beats designed)"].startswith("0.50"), "a tie counts one half"
    assert table["classic"]["interquartile mean (held-out)"].startswith("1.50")
    assert challenge("gossip_bandit_v0", panel, "classic") == ("yes", ["no"])
    assert challenge_text("gossip_bandit_v0", panel, "paper") == "yes (0/1)"
    assert challenge_text("gossip_bandit_v0", panel, "yours") == "–"
    (plot,) = profiles(panels, "agents")
    assert len(plot.figure.axes) == 2


def test_who_beats_all_of_a_kind_beats_each() -> None:
    learner = group("tuned learner", "SharedPPO", [0.2, 0.3, 0.4], [1.0, 1.0, 1.0])
    better, worse, same = (
        group("classic", name, list(np.array([0.2, 0.3, 0.4]) + by), [1.0, 1.0, 1.0])
        for name, by in (("Voter", np.array([0.5, 0.6, 0.7])), ("WinStay", -0.1), ("PPCL", np.array([-0.1, 0.0, 0.1])))
    )
    measure = CONTESTS["gossip_bandit_v0"].measure
    assert beats_each(learner, [better], measure) == "yes"
    assert beats_each(learner, [better, same], measure) == "not decided"
    assert beats_each(learner, [better, same, worse], measure) == "no"
    assert beats_each(None, [better], measure) == beats_each(learner, [], measure) == "–"


def test_runs_that_were_cut_off_are_compared_at_the_seeds_that_both_have() -> None:
    measure = CONTESTS["gossip_bandit_v0"].measure
    learner = group("tuned learner", "SharedPPO", [0.2, 0.3, 0.4], [1.0, 1.0, 1.0])
    classic = group("classic", "Voter", [9.0, 0.7, 0.9], [1.0, 1.0, 1.0])

    def part(one: Group, *seeds: int) -> Group:
        metrics = {name: values[list(seeds)] for name, values in one.metrics.items()}
        return Group(one.config, np.array(seeds), metrics, {}, np.ones(len(seeds)))

    assert gain(part(learner, 1, 2), classic, measure) == "not decided: 0.4500 –", "two seeds have no interval"
    assert gain(learner, classic, measure).startswith("not decided: 3.233 [")
    assert gain(part(learner, 0), part(classic, 1, 2), measure) == "not tested"
    assert beats_each(part(learner, 1), [classic], measure) == "not decided"


def test_tasks_without_a_scale_have_no_score() -> None:
    """Where what was designed is no better than random play."""
    panel = Results(
        [
            group("random", "Random", [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
            group("paper", "PPCL", [0.5, 0.5, 0.5], [1.5, 1.5, 1.5]),
            group("plain PPO", "SharedPPO", [0.25, 0.25, 0.25], [0.75, 0.75, 0.75]),
        ]
    )
    panels = [("gossip_bandit_v0", panel)]
    (row,) = held_out(panels, lambda group: str(group.config["policy"])).rows
    assert row[2].startswith("yes: 0.7500")
    assert row[4].endswith("score –")
    assert all(row[4] == "0" for row in overall(panels).rows)


def test_tasks_name_the_seeds_that_the_study_has() -> None:
    seeds = {cell.seed for cell in load_studies()["agents"].cells(quick=False)}
    assert seeds == set(range(10))
    assert all(dict(task.facts)["seeds"].startswith("0 to 9,") for task in TASKS.values())


@pytest.mark.parametrize("env", CONTESTS)
def test_tasks_do_not_change_once_they_are_published(env: str, request: pytest.FixtureRequest) -> None:
    """Results under the same name must be of the same task: what differs from the world's file in `golden/tasks` needs
    a new name. `--regenerate-golden` writes the file of a new world."""
    file = Path(__file__).parent / f"golden/tasks/{entry(env).id.removeprefix('taciturn/')}.json"
    made = {task.name: definition(task) for task in tasks_of(env)}
    if request.config.getoption("--regenerate-golden"):
        file.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    assert made == json.loads(file.read_text(encoding="utf-8"))


def definition(task: Task) -> dict[str, Any]:
    """All that makes a task, as plain values."""
    return {
        "params": {name: repr(value) for name, value in task.params.items()},
        "faults": {name: repr(fault) for name, fault in task.variant.faults.items()},
        "others": dict(task.others),
        "measure": task.measure,
    }
