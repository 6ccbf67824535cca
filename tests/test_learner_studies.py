"""Studies with learners: enough trainings, fresh runs that training never saw, and tables that tell how single runs
end."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.agents import bring
from taciturn.bench import play as module
from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons import kinds, playing
from taciturn.bench.play import config, evaluate, learns, play
from taciturn.bench.results import Cell, Config, Group, Results
from taciturn.bench.scores import Board
from taciturn.bench.study import Score, Study
from taciturn.bench.tables import standard_tables
from taciturn.bench.tasks import (
    BENCHMARKS,
    CLASSIC,
    KINDS,
    NO_BUDGET_LIMIT,
    PAPER,
    PLAIN,
    TASK_AGENT,
    TASKS,
    TUNED_LEARNER,
    YOURS,
    sign,
    tasks_of,
)
from taciturn.bench.tasks.benchmark import PLAIN_PPO, TRAINER
from taciturn.envs import federated_bandit_v0, gossip_bandit_v0, social_bandit_v0
from taciturn.envs.core import Population
from taciturn.policies import FixedCount, Learner
from taciturn.policies.learned.stored import pretrained_for
from taciturn.registry import worlds
from taciturn.wrappers.sb3 import RowsVecEnv

sb3 = pytest.importorskip("stable_baselines3")

LEARNED = [
    (name, cell)
    for name, study in load_studies().items()
    if name != "trust"  # it plays trainings that are kept
    for cell in {str(c.config): c for c in study.cells(quick=False) if learns(str(c.config.get("policy")))}.values()
]


class Asked(Exception):  # noqa: N818 - it is no error
    """Carries what a study asked `simulate` to do."""


def ask(population: Any, policy: Any, **how: Any) -> Any:
    raise Asked(population, policy, how)


def ask_in_evaluation(world: Population[Any], agent: Any, config: Config, seed: int, *_: Any) -> dict[str, Any]:
    if world.purpose == "evaluation":
        ask(world, agent, seed=seed)
    return {BENCHMARKS[config["env"]].measure: np.zeros(world.num_envs)}


def test_some_studies_have_learners() -> None:
    assert {name for name, _ in LEARNED} == {"agents", "social-recommender"}


@pytest.mark.parametrize("name", sorted({name for name, _ in LEARNED}))
def test_ten_trainings_and_a_hundred_fresh_runs_of_each(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """In the full form, in the streams of evaluation, with the cell's seed."""
    study = load_studies()[name]
    monkeypatch.setattr(module, "simulate", ask)
    monkeypatch.setattr(playing, "evaluated", ask_in_evaluation)
    monkeypatch.setattr(Learner, "train", lambda learner, world: learner)
    monkeypatch.setattr(playing, "pretrained_for", lambda *_: None)  # a stored training has this seed already
    for _, cell in (one for one in LEARNED if one[0] == name):
        seeds = {c.seed for c in study.cells(quick=False) if c.config == cell.config}
        assert len(seeds) >= 10
        with pytest.raises(Asked) as asked:
            study.run(cell)
        population, policy, how = asked.value.args
        dear = name == "agents" and BENCHMARKS[cell.config["env"]].runs < 20
        crowd = "size" in cell.config  # with 32 recommending agents
        assert population.num_envs >= ((2 if crowd else BENCHMARKS[cell.config["env"]].runs) if dear else 100)
        assert population.purpose == "evaluation"
        assert policy.seed == how["seed"] == cell.seed
    assert re.search(r"trained 10 times.* 100 fresh runs", study.description)


def test_a_held_out_measure_is_better_the_same_way_as_that_of_its_world() -> None:
    for task in TASKS.values():
        assert sign(task.metric) == sign(task.measure) == (1 if BENCHMARKS[task.env].higher else -1), task.id


def test_every_world_has_every_kind_of_agent() -> None:
    """In the full form; no coordinator's schedule of elimination is a textbook's."""
    found: dict[str, set[str]] = {}
    for cell in load_studies()["agents"].cells(quick=False):
        found.setdefault(cell.config["env"], set()).add(cell.config["kind"])
    assert set(found) == set(worlds())
    for env, some in found.items():
        assert some >= {*KINDS} - {CLASSIC, PAPER, TASK_AGENT}, env
        assert some & {CLASSIC, PAPER}, env
    shops = [
        cell.config for cell in load_studies()["agents"].cells(quick=False) if cell.config["env"] == "recommender_v0"
    ]
    by_cluster = {one["policy"] for one in shops if one["env_params"].get("actions") == "cluster"}
    assert by_cluster == {PLAIN_PPO, TRAINER}
    assert "NeuralBandit" in {one["policy"] for one in shops}


def test_who_plays_one_step_and_not_the_next_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = config("round_stopping_v0", "mine") | {"kind": YOURS}
    for first, then, fits in ((1, 1, True), (1, 7, False)):
        actions = iter([first, *[then] * 200])
        monkeypatch.setattr(
            kinds, "bring", lambda _, given=actions: bring(lambda rows: np.full(len(rows), next(given)))
        )
        assert (kinds.refusal("mine", stop) == "") == fits


def test_a_quick_run_trains_nothing() -> None:
    """Its learners come with the package."""
    learners = [c for c in load_studies()["agents"].cells(quick=True) if c.config["kind"] in {PLAIN, TUNED_LEARNER}]
    assert {(c.config["policy"], str(c.config["policy_params"]), c.seed) for c in learners} == {(TRAINER, "{}", 0)}
    played = {f"{c.config['env']}@{c.config['budget']}" for c in learners}
    trained = [one for one in TASKS if one.endswith(("/standard", "/standard@3")) and pretrained_for(one, 0)]
    assert len(played) == len(learners) == len(trained) >= 9


def test_plain_ppo_is_judged_where_it_did_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all arguments of PPO at their defaults, in the streams of training."""
    (cell, *_) = (
        c
        for c in load_studies()["agents"].cells(quick=False)
        if c.config["policy"] == PLAIN_PPO and c.config["env"] == "gossip_bandit_v0"
    )
    seen = []

    ppo = sb3.PPO

    def recorded(policy: str, env: Any, **given: Any) -> Any:
        seen.append((policy, env.population.purpose, set(given)))
        return ppo(policy, env, **given)

    monkeypatch.setattr(sb3, "PPO", recorded)
    monkeypatch.setattr(playing, "evaluated", lambda world, agent, config, seed, *_: ask(world, agent, seed=seed))
    cell = replace(cell, config={**cell.config, "policy_params": {"steps": 2048}})
    with pytest.raises(Asked) as asked:
        load_studies()["agents"].run(cell)
    assert asked.value.args[0].purpose == "evaluation"
    assert seen == [("MlpPolicy", "training", {"seed", "device"})]


def test_an_agent_of_the_users_own_takes_part_where_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A saved model where its spaces fit, a function where it gives valid actions; with the numbers of a run of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # An agent for servers, who see no more than six numbers.
    short = "    if rows.shape[1] > 6:\n        raise ValueError('I serve clients')\n"
    text = f"def act(rows):\n{short}    return (rows[:, 0] < 3).astype(int)\n"
    (tmp_path / "three.py").write_text(text, encoding="utf-8")
    stopping = {"env": "round_stopping_v0", "env_params": {}, "kind": YOURS}
    model = sb3.PPO(
        "MlpPolicy", RowsVecEnv(playing.population(stopping, 1, "training"), seed=0), n_steps=8, batch_size=8
    )
    model.save("model.zip")
    (study,), told = kinds.joined([load_studies()["agents"]], ["three:act", "sb3:model.zip"])
    assert sum(line.startswith("sb3:model.zip does not fit ") for line in told) == 7
    assert isinstance(study, kinds.KindsOfAgents)
    cells = study.cells(quick=True)
    own = [cell for cell in cells if cell.config["kind"] == YOURS]
    assert [cell for cell in cells if cell not in own] == load_studies()["agents"].cells(quick=True)
    fit = {name: {cell.config["env"] for cell in own if cell.config["policy"] == name} for name in study.agents}
    assert fit["sb3:model.zip"] == {"round_stopping_v0"}
    assert fit["sb3:model.zip"] < fit["three:act"]
    assert "gossip_bandit_v0" not in fit["three:act"]  # whose actions are plans
    (cell, *_) = [one for one in own if (one.config["env"], one.config["policy"]) == ("round_stopping_v0", "three:act")]
    world = playing.population(stopping, 10, "evaluation")
    run = taciturn.simulate(world, FixedCount(3), seed=cell.seed)
    assert study.run(cell).metrics["reward"] == pytest.approx(run.metrics["reward"].mean())
    before = {cell.key for cell in own if cell.config["policy"] == "sb3:model.zip"}
    model.learn(8)
    model.save("model.zip")
    assert not before & {cell.key for cell in study.cells(quick=True)}


def test_messages_are_counted_in_each_task() -> None:
    """In gossip an agent's clock ticks `rate` times in a unit of time, and each time all agents reply: in a task the
    count is rate x horizon x agents^2, in its own runs and not in those of the standard task (alarm 1e-5)."""
    tasks = {task.name: task for task in tasks_of("gossip_bandit_v0", NO_BUDGET_LIMIT, None)}
    one = config("gossip_bandit_v0", "Voter", **BENCHMARKS["gossip_bandit_v0"].world) | {
        "kind": YOURS,
        "budget": NO_BUDGET_LIMIT,
    }
    cell = Cell("agents", one | {"replicas": 20, "tasks": ["standard", "crowd"]}, 3)
    result = load_studies()["agents"].run(cell)
    metrics = {name: np.array([value]) for name, value in result.metrics.items()}
    group = Group(cell.config, np.array([3]), metrics, {}, np.ones(1))
    for name, replicas in (("standard", 20), ("crowd", 20)):
        params = playing.population(one, 1, "evaluation", tasks[name].variant).params
        ticks = params.rate * params.horizon * params.num_agents
        found = Board(tasks[name], [group], None).messages(group) / params.num_agents
        assert abs(found - ticks) < stats.norm.isf(1e-5 / 2) * math.sqrt(ticks / replicas), name
    assert math.isnan(Board(tasks["brief"], [group], None).messages(group))


def test_agents_that_cannot_take_part_are_refused() -> None:
    studies = load_studies()
    with pytest.raises(ValueError, match="--agent is for the study agents, and 'leakage' takes none"):
        kinds.joined([studies["leakage"]], ["Random"])
    with pytest.raises(
        ValueError,
        match=r"--agent json:dumps fits none of the worlds round_stopping_v0, .* in the first: "
        r"ValueError: policy must be a function .* TypeError\('Object of type ndarray",
    ):
        kinds.joined([studies["agents"]], ["json:dumps"])
    with pytest.raises(ValueError, match=r"none at 'nowhere\.zip'"):
        kinds.joined([studies["agents"]], ["sb3:nowhere.zip"])


def test_evaluation_sees_no_run_that_the_same_seed_gives_elsewhere() -> None:
    """Qualities drawn in the runs of evaluation are not those of `simulate` or `play` with the same seed; both repeat
    themselves."""
    one = config("federated_bandit_v0", "UCB1", num_agents=2, num_arms=3, qualities="uniform", horizon=20)
    cell = Cell("a", one, 3)
    evaluated, again = (evaluate(cell, "regret", replicas=4).curves["runs"][1] for _ in range(2))
    np.testing.assert_array_equal(evaluated, again)
    plain = taciturn.simulate(federated_bandit_v0.population(4, **one["env_params"]), _ucb(), seed=3).metrics["regret"]
    assert np.isclose(plain.mean(), play(cell, replicas=4).metrics["regret"])
    assert not np.isclose(np.asarray(evaluated)[:, None], plain).any()


def _ucb() -> Any:
    return taciturn.policies.UCB1()


@pytest.mark.parametrize("seed", [1_000_000, 1_999_999])
def test_no_cell_has_a_seed_on_which_settings_are_tuned(seed: int) -> None:
    with pytest.raises(
        ValueError, match=f"seed of study 'a' must not be {seed}: settings are tuned on 1000000 to 1999999"
    ):
        Cell("a", {}, seed)
    Cell("a", {}, 999_999)
    Cell("a", {}, 2_000_000)


class Evaluated(Study):
    name = "evaluated"
    title = "Evaluated"
    score = Score("loss", higher_is_better=False)
    rows = ("policy",)


def test_table_of_single_runs() -> None:
    """By hand: means 2, 3 and 7 of three trainings, the median of all nine runs, and a third and nothing on a wrong
    option."""
    runs = [[1.0, 1.0, 4.0], [2.0, 3.0, 4.0], [0.0, 1.0, 20.0]]
    group = Group(
        {"policy": "TrainedAgent"},
        np.arange(3),
        {"loss": np.mean(runs, 1), "wrong_option": np.array([1 / 3, 0.0, 1 / 3])},
        {"runs": [(np.arange(3.0), np.array(values)) for values in runs]},
        np.ones(3),
    )
    plain = replace(group, config={"policy": "UCB1"}, curves={})
    (table,) = (t for t in standard_tables(Evaluated(), Results([group, plain])) if t.title == "Single runs")
    (row,) = table.rows
    found = dict(zip(table.columns, row, strict=True))
    assert (found["trainings or seeds"], found["runs of each"]) == ("3", "3")
    assert found["mean"].startswith("4 [")
    assert found["median of all runs"] == "2"
    assert found["runs that end on a wrong option"] == "22.2%"
    assert not [t for t in standard_tables(Evaluated(), Results([plain])) if t.title == "Single runs"]


def test_wrong_options_by_hand() -> None:
    """Gossip and social world: only who has more holders than every best option is wrong, ties and nobody are not."""
    gossip = gossip_bandit_v0.population(4, num_agents=6, qualities=(0.1, 0.9, 0.5))
    gossip.reset(seed=0)
    gossip.column("holders")[:] = [[3, 2, 1], [0, 3, 3], [1, 5, 0], [0, 0, 1]]
    gossip._moved()
    assert gossip.measure("wrong_option").tolist() == [True, False, False, True]
    assert gossip.metrics()["wrong_option"].tolist() == [1, 0, 0, 1]
    social = social_bandit_v0.population(4, num_agents=5, qualities=(0.9, 0.9, 0.5))
    social.reset(seed=0)
    held = np.array([[0, 1, 2, 2, 3], [0, 0, 2, 2, 3], [3, 3, 3, 3, 3], [3, 3, 3, 3, 2]])
    social.column("holders")[:] = [np.bincount(row, minlength=4)[:3] for row in held]
    social._moved()
    assert social.measure("wrong_option").tolist() == [True, False, False, True]
    assert social.metrics()["wrong_option"].tolist() == [1, 0, 0, 1]


def test_wrong_arms_by_hand() -> None:
    """The pulls since the last round decide, of all agents together; without any, all pulls do. The best arm is so by
    the mean agent."""
    env = federated_bandit_v0.population(3, num_agents=2, qualities=((0.9, 0.3, 0.1), (0.5, 0.6, 0.1)), horizon=50)
    env.reset(seed=0)
    counts = np.array([[[9, 1, 0], [2, 4, 0]], [[9, 3, 0], [1, 4, 0]], [[1, 4, 0], [1, 1, 0]]])
    before = np.array([[9, 2, 0], [9, 2, 0], [2, 5, 0]])
    env.column("pulled")[:] = counts.sum(1)
    for then, wrong in ((before, [True, True, True]), ([[8, 5, 0], [0, 0, 0], [0, 5, 0]], [False, False, False])):
        env.column("counts_at_round")[:] = then
        env._moved()
        assert env.measure("wrong_option").tolist() == wrong
