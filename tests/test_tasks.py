"""Tasks: sizes, variants and totals are worlds of their own, played after training by the same agent, and scored from
alone to together."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taciturn.agents import bring
from taciturn.bench import questions, references, score_figures, score_tables, scores
from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons import kinds, playing
from taciturn.bench.comparisons.strangers import AmongStrangers, OfAnotherRun
from taciturn.bench.play import config
from taciturn.bench.results import Cell, Config, Group, Results
from taciturn.bench.scores import Match, boards
from taciturn.bench.statistics import Estimate
from taciturn.bench.tasks import (
    BENCHMARKS,
    CLASSIC,
    FULL_INFORMATION,
    NO_BUDGET_LIMIT,
    NO_COMMUNICATION,
    PAPER,
    PLAIN,
    PROTECTED,
    RANDOM,
    TASK_AGENT,
    TASKS,
    TUNED_LEARNER,
    Task,
    budgets_of,
    own_benchmarks,
    tasks_of,
)
from taciturn.bench.tasks.benchmark import PLAIN_PPO, Variant, read
from taciturn.bench.tuned import settings
from taciturn.cli import main
from taciturn.policies import Learner, Policy
from taciturn.policies.external.rows import RowFunction
from taciturn.registry import entry, worlds
from taciturn.wrappers import Byzantine

STUDY: Any = load_studies()["agents"]
HELD_OUT = [task for task in TASKS.values() if task.held_out and task.budget == NO_BUDGET_LIMIT]


def test_every_world_has_held_out_tasks_and_totals() -> None:
    assert set(BENCHMARKS) == set(own_benchmarks()) == set(worlds())
    assert "taciturn/GossipBandit-v0/liars@3" in TASKS
    for env in worlds():
        standard, *others = tasks_of(env)
        assert (standard.name, standard.held_out, standard.metric) == ("standard", False, BENCHMARKS[env].measure)
        assert all(task.metric == f"{task.measure}/{task.name}" for task in others)
        assert any(task.held_out for task in others) or not BENCHMARKS[env].receives, env
        assert budgets_of(env) == ((NO_BUDGET_LIMIT, 10.0, 3.0, 1.0) if env in PROTECTED else (NO_BUDGET_LIMIT,))
        assert all(len(tasks_of(env, budget)) == len(others) + 1 for budget in budgets_of(env))


MISTAKES = {
    "steps = 'many'": "steps must be an integer >= 0, not 'many'",
    "world = 3": "world must be a table, not 3",
    "higher = 1": "higher must be true or false, not 1",
    "side = true": "side must be a text, not True",
    "receives = 'votes'": "receives must be an array, not 'votes'",
    "bounds = [0.0]": "bounds must be an array of 2, not [0.0]",
    "bounds = [0.0, inf]": "bounds[1] must be a finite number, not inf",
    "classics = []": "a key of the table must be one of 'classic', ",
    "classic = [['Voter', 'searched']]": "classic[0][1] must be a table or \"tuned\", not 'searched'",
    "search.PPCL.alpha = [0.1, 1.0, 'cubic']": "search.PPCL.alpha.scale must be one of 'linear', 'log', not 'cubic'",
    "search.PPCL.a = [0, 1, 'log', [], 5]": "search.PPCL.a must have at most 4 entries, not [0, 1, 'log', [], 5]",
    "variants.lost = {}": "variants.lost must have the key 'what', and has none",
    "variants.lost = { what = 'loss', runs = -1 }": "variants.lost.runs must be an integer >= 0, not -1",
    "variants.lost = { what = 'loss', size = 'big' }": "variants.lost.size must be true or false, not 'big'",
    "variants.lost = { what = 'loss', faults.c = ['Loss', {}] }": "variants.lost.faults.c[0] must be one of ",
    "variants.lost = { what = 'loss', faults.c = ['LossyChannel', { probability = 2 }] }": (
        "variants.lost.faults.c must be a fault: probability must be a finite number >= 0 and <= 1, not 2"
    ),
    "variants.lost = { what = 'loss', faults.c = ['LossyChannel', {}] }": "variants.lost.faults.c must be a fault: ",
    "attacks.runs = [{ policies = ['Voter'], attack = 'guess' }]": (
        "attacks.runs[0].attack must be one of 'data', 'messages', 'one run', not 'guess'"
    ),
    "steps =": "Invalid value (at ",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_in_a_table_is_told_by_its_key_its_value_and_what_is_allowed(line: str) -> None:
    table = 'measure = "regret"\n' + "steps = 10\n" * (not line.startswith("steps"))
    with pytest.raises(ValueError, match=f"^{re.escape(MISTAKES[line])}"):
        read(table + line)


def test_a_mistake_in_a_file_is_told_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dice_v0.toml").write_text('measure = "regret"\n', encoding="utf-8")
    monkeypatch.setattr("taciturn.bench.tasks.files", lambda _: tmp_path)
    with pytest.raises(ValueError, match=r"^dice_v0.toml: the table must have the key 'steps', and has "):
        own_benchmarks.__wrapped__()


def test_what_a_table_leaves_out_is_as_its_type_says_and_its_arrays_are_tuples() -> None:
    benchmark = read(
        {"measure": "regret", "steps": 10, "world": {"means": [0.5, [1]]}, "tuned": [["A", {"b": [2]}], "B"]}
    )
    assert benchmark.world == {"means": (0.5, (1,))}
    assert benchmark.tuned == (("A", {"b": (2,)}), ("B", {}))
    assert (benchmark.runs, benchmark.budgets, benchmark.search, benchmark.attacks.runs) == (1000, None, {}, ())


def players(env: str) -> list[tuple[Config, Any]]:
    """Agents of the standard task that hear something, or in worlds without messages any two, with their cells."""
    benchmark, standard = BENCHMARKS[env], tasks_of(env)[0]
    found: dict[str, tuple[Config, Any]] = {}
    kinds_of = ((TASK_AGENT, benchmark.designed), (PAPER, benchmark.paper), (CLASSIC, benchmark.classic))
    for kind, some in kinds_of:
        for name, own in some:
            given = settings(standard, name, own)
            one = config(env, name, given, **benchmark.params(name, learns=False)) | {"kind": kind}
            if (
                name not in found
                and len(found) < 2
                and (not benchmark.receives or listens(standard, shorter(one, 0.2)))
            ):
                found[name] = (one, given)
    return list(found.values())


def shorter(cell: Config, share: float) -> Config:
    """A cell whose runs last a share of their time, where its configuration says how long they last."""
    given = cell["env_params"]
    horizon = {"horizon": type(given["horizon"])(share * given["horizon"])} if "horizon" in given else {}
    return cell | {"env_params": given | horizon}


def listens(task: Task, cell: Config) -> bool:
    """Whether an agent does otherwise if it hears another run."""
    first, second = (
        playing.played(task, bring(cell["policy"], **cell["policy_params"]), cell, 2, 0, silenced=silenced).metrics[
            task.measure
        ]
        for silenced in (False, True)
    )
    assert np.isfinite(second).all()
    return not np.array_equal(first, second)


def test_run_and_bench_play_an_agent_in_the_same_form_of_the_world() -> None:
    """`taciturn run TASK --policy P` and the benchmark, for every agent of each contest and its marks."""
    other: list[tuple[str, str]] = []
    for task in (task for task in TASKS.values() if not task.held_out):
        plain = [one for one in kinds.entries_of(task, quick=False) if one["policy"] != PLAIN_PPO]
        assert plain or task.budget != NO_BUDGET_LIMIT, task.id
        for one in plain:
            ours = playing.task_config(task, one["policy"])
            if one["kind"] in (FULL_INFORMATION, NO_COMMUNICATION) and "plays_in" in one:
                continue
            if ours["env_params"] | dict(task.variant.params) != one["env_params"]:
                other.append((task.id, one["policy"]))
    assert not other, other


LONG = ("federated_bandit_v0", "gossip_bandit_v0", "recommender_v0")  # half of a run shows it


@pytest.mark.parametrize("env", BENCHMARKS)
def test_variants_bite(env: str) -> None:
    """Two agents that listen do otherwise in each variant than in the standard task, and have other numbers in each."""
    two = players(env)
    assert len(two) == 2 or len(BENCHMARKS[env].classic) < 2
    standard, *variants = tasks_of(env)
    for one, own in two:
        found = {}
        cell, runs = (shorter(one, 0.5), 2) if env in LONG else (one, 6)
        agent = bring(one["policy"], **own)
        for task in (standard, *variants):
            if not task.variant.size:
                found[task.name] = playing.played(task, agent, cell, runs, 0).metrics[task.measure].tobytes()
        assert len(set(found.values())) == len(found), (one["policy"], sorted(found, key=lambda name: found[name]))


def test_held_out_tasks_have_the_same_spaces() -> None:
    """Learners can act in them."""
    other: list[tuple[str, str]] = []
    for task in HELD_OUT:
        standard = tasks_of(task.env)[0]
        one = config(task.env, "Random", {}, **BENCHMARKS[task.env].world) | {"kind": RANDOM}
        there, here = (playing.population(one, 2, "evaluation", x.variant) for x in (task, standard))
        for role, seen in here.roles.items():
            found = there.roles[role]
            same = found.layout.size == seen.layout.size and found.action_space == seen.action_space
            if not same or found.layout.fields.keys() != seen.layout.fields.keys():
                other.append((task.id, role))
    assert not other, other


def test_tasks_are_listed_and_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["taciturn", "list", "tasks", "--json"])
    with pytest.raises(SystemExit):
        main()
    listed = json.loads(capsys.readouterr().out)["tasks"]
    assert [one["id"] for one in listed] == list(TASKS)
    asked = {
        "id",
        "measure",
        "better",
        "no_communication",
        "full_information",
        "control",
        "params",
        "faults",
        "budgets",
    }
    assert all(asked <= one.keys() for one in listed)
    monkeypatch.setattr("sys.argv", ["taciturn", "show", "taciturn/SocialBandit-v0/liars@3", "--json"])
    with pytest.raises(SystemExit):
        main()
    shown = json.loads(capsys.readouterr().out)
    assert (shown["better"], shown["budget"], shown["budgets"]) == ("lower", 3.0, [NO_BUDGET_LIMIT, 10.0, 3.0, 1.0])
    assert shown["params"]["without_preference"] == "zeros", "silence would tell"
    assert shown["faults"] == {"preference": repr(Byzantine(0.2))}
    monkeypatch.setattr("sys.argv", ["taciturn", "show", "taciturn/ArmElimination-v0/liars"])
    with pytest.raises(SystemExit):
        main()
    text = " ".join(capsys.readouterr().out.split())
    assert "faults means: Byzantine(fraction=0.2, strategy='flip'" in text
    assert "measure regret_per_agent (lower is better)" in text


def test_the_fault_of_a_task_stands_on_its_channel_alone() -> None:
    task = TASKS["taciturn/GossipBandit-v0/liars"]
    one = config(task.env, "Voter", {}, **BENCHMARKS[task.env].world) | {"kind": CLASSIC}
    world = playing.population(one, 5, "evaluation", task.variant)
    playing.begin_run(world, bring("Voter"), one, 0, variant=task.variant)
    (fault,) = world.channels["preference"].config.faults
    assert isinstance(fault, Byzantine)
    assert fault.fraction == 0.2
    playing.begin_run(world, bring("Voter"), one, 0)
    assert world.channels["preference"].config.faults == ()


class Student(Learner):
    """Trains at its first run, and then pulls nothing."""

    def __init__(self) -> None:
        self._trained, self._seen = False, list[int]()

    def begin(self, view: Any) -> None:
        if not self._trained:
            self.fit(view)

    def fit(self, view: Any) -> None:
        self._trained = True
        self._seen.append(view.params.num_agents)

    def act(self, obs: Any, mask: Any = None) -> Any:
        return np.zeros((*obs.shape[:2], 3), np.int64)


def test_a_learner_trains_once_and_plays_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the standard world, before anything is judged; the same agent plays every task, in fewer runs where it is held
    out, and hears another run in the end."""
    agent, events = Student(), list[tuple[Any, ...]]()
    monkeypatch.setattr(kinds, "loaded", lambda cell, progress: agent)
    judge = playing.evaluated

    def recorded(world: Any, policy: Any, config: Any, seed: int, channels: Any, variant: Any) -> Any:
        assert policy is agent
        events.append((variant.what, world.num_envs, world.purpose, bool(channels)))
        return judge(world, policy, config, seed, channels, variant)

    monkeypatch.setattr(playing, "evaluated", recorded)
    env = "gossip_bandit_v0"
    one = config(env, "PPCL", {}, **BENCHMARKS[env].world) | {
        "kind": TUNED_LEARNER,
        "replicas": 4,
        "budget": NO_BUDGET_LIMIT,
    }
    result = STUDY.run(Cell("agents", one, 3))
    assert agent._seen == [20]
    tasks = tasks_of(env)
    assert [what for what, *_ in events] == [task.variant.what for task in (*tasks, tasks[0])]
    runs = [2 if task.held_out else 4 for task in tasks]
    assert [rest for _, *rest in events] == [*([n, "evaluation", False] for n in runs), [4, "evaluation", True]]
    found = {f"{tasks[0].metric}/silenced", "listens", "return", "messages", *(task.metric for task in tasks)}
    assert set(result.metrics) == found | {f"messages/{task.name}" for task in tasks[1:]}
    assert result.metrics["listens"] == 0, "it hears nobody"


def test_a_learner_trains_in_the_standard_task_and_not_in_the_one_it_plays() -> None:
    agent, task = Student(), TASKS["taciturn/GossipBandit-v0/crowd"]
    one = playing.task_config(task, "Student")
    assert playing.ready(task, agent, one, 0) == []
    assert agent._seen == [20]


def test_designed_agents_play_a_size_with_settings_of_its_own() -> None:
    """And learners play all sizes in one cell, as trained in the standard task."""
    cells = [cell.config for cell in STUDY.cells(quick=False) if cell.config["env"] == "gossip_bandit_v0"]
    sizes = {one.get("size", "standard") for one in cells if one["kind"] == TASK_AGENT}
    assert sizes == {"standard", "crowd"}
    learner = next(one for one in cells if one["kind"] == TUNED_LEARNER and one["budget"] == NO_BUDGET_LIMIT)
    assert [task.name for task in kinds.played_by(learner)] == [task.name for task in tasks_of("gossip_bandit_v0")]
    voter = next(one for one in cells if one["policy"] == "PPCL" and one.get("size") == "crowd")
    assert [task.name for task in kinds.played_by(voter)] == ["crowd"]
    assert voter["env_params"]["num_agents"] == 100


def test_a_network_plays_the_tasks_of_its_spaces() -> None:
    """One made for 5 arms is left out where there are 20, and not in other tasks."""
    standard = TASKS["taciturn/FederatedBandit-v0/standard"]
    one = config(standard.env, "PPO, plain defaults", {}, **BENCHMARKS[standard.env].world) | {"kind": PLAIN}
    role = playing.population(one, 1, "evaluation").roles["agent"]
    network = RowFunction(lambda rows: np.zeros(len(rows), np.int64), (role.layout.space(), role.action_space))
    out = {task.name for task in tasks_of(standard.env) if not playing.fits(task, network, one)}
    assert out == {"many-arms"}
    assert playing.fits(TASKS["taciturn/FederatedBandit-v0/many-arms"], bring("UCB1"), one)


def test_a_cell_leaves_out_the_tasks_of_other_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    one = next(
        cell
        for cell in STUDY.cells(quick=False)
        if cell.config["env"] == "federated_bandit_v0" and cell.config["kind"] == PLAIN
    )
    one = replace(one, config={name: value for name, value in shorter(one.config, 0.1).items() if name != "tasks"})
    role = playing.population(one.config, 1, "evaluation").roles["agent"]
    network = RowFunction(lambda rows: np.zeros(len(rows), np.int64), (role.layout.space(), role.action_space))
    monkeypatch.setattr(kinds, "loaded", lambda *given: network)
    played = STUDY.run(one).metrics
    assert "regret_per_agent/lost" in played
    assert "regret_per_agent/many-arms" not in played


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
        one = config(env, policy, own, **BENCHMARKS[env].world) | {"kind": CLASSIC, "replicas": 4}
        cell = Cell("agents", one if env == "social_bandit_v0" else shorter(one, 0.1), 3)
        found = STUDY.run(cell).metrics
        counts[env] = found["messages"], found.get("listens")
    assert list(counts.values()) == [(1000, 1.0), (0, 0.0), (0, None)]


class Marked(Policy):
    """Always the same action, and keeps what it was told."""

    def __init__(self, action: int) -> None:
        self.action, self._told = action, list[Any]()

    def act(self, obs: Any, mask: Any = None) -> Any:
        return np.full(obs.shape[:2], self.action)

    def update(self, obs: Any, action: Any, reward: Any, done: Any) -> None:
        self._told.append(action)


def test_strangers_are_the_last_agents_and_everybody_is_told_what_was_done() -> None:
    world = worlds()["federated_bandit_v0"].population(2, num_agents=6, num_arms=3, horizon=4)
    first, others = Marked(0), [Marked(1), Marked(2)]
    policy = AmongStrangers(first, [(others[0], 1 / 3), (others[1], 1 / 6)])
    observation, _ = world.reset(seed=0)
    policy.reset(world, np.random.default_rng(0))
    action = policy.act(observation)
    assert action.tolist() == [[0, 0, 0, 1, 1, 2]] * 2
    policy.update(observation, action, np.zeros((2, 6)), np.zeros(2, bool))
    assert all((one._told[0] == action).all() for one in (first, *others))


def test_strangers_keep_their_agents_where_one_acts_at_a_time() -> None:
    """In gossip a row is whoever ticks: the last third of six agents never adopts what the policy does."""
    variant = Variant("two of six", strangers={"Voter": 1 / 3})
    one = config("gossip_bandit_v0", "Uniform", num_agents=6, horizon=5.0) | {"kind": CLASSIC}
    world = playing.population(one, 3, "evaluation", variant)
    played: list[Any] = []

    class Spied(Policy):
        def begin(self, view: Any) -> None:
            self._view = view

        def act(self, obs: Any, mask: Any = None) -> Any:
            played.append(self._view.acting(self.role).copy())
            return np.zeros((*obs.shape[:2], 3), np.int64)

    rollout = playing.begin_run(world, Spied(), one, 0, variant=variant)
    acted = np.concatenate([(rollout.play(), played[-1][None])[1] for _ in range(40) if not world.done.all()])
    assert set(acted.ravel()) == set(range(6))
    assert isinstance(playing.all_policies(world, Spied(), "gossip_bandit_v0", variant), AmongStrangers)


def test_learners_do_not_play_among_strangers_who_cannot_act_in_their_form() -> None:
    """DTPriDO shows items, and learners of the recommender choose clusters."""
    strangers = Variant("a third of the agents are played by DTPriDO", strangers={"DTPriDO": 1 / 3})
    task, benchmark = (
        TASKS["taciturn/Recommender-v0/standard"]._replace(variant=strangers),
        BENCHMARKS["recommender_v0"],
    )
    for form, expected in ((benchmark.for_learners, False), ({}, True)):
        one = config(task.env, "Random", {}, **benchmark.world, **form)
        assert playing.fits(task, bring("Random"), one) is expected
    gossip = TASKS["taciturn/GossipBandit-v0/strangers"]
    assert playing.fits(gossip, bring("Random"), config(gossip.env, "Random", {}, **BENCHMARKS[gossip.env].world))


def test_who_hears_another_run_hears_the_next_replica() -> None:
    y, sent = np.arange(6.0).reshape(3, 2), np.array([[True, False], [True, True], [False, False]])
    heard, arrived = OfAnotherRun().deliver(y, sent, np.ones(3, np.bool_), {}, np.random.default_rng(0))
    assert heard.tolist() == [[4, 5], [0, 1], [2, 3]]
    assert arrived.tolist() == [[False, False], [True, False], [True, True]]


def group(kind: str, policy: str, values: list[float], liars: list[float] | None = None, **more: Any) -> Group:
    """An agent of gossip with a regret for each seed, in the standard task and among liars."""
    measure = BENCHMARKS["gossip_bandit_v0"].measure
    metrics = {"return": np.zeros(len(values)), measure: np.array(values)}
    if liars is not None:
        metrics[f"{measure}/liars"] = np.array(liars)
    one = {"env": "gossip_bandit_v0", "policy": policy, "policy_params": {}, "kind": kind, "budget": NO_BUDGET_LIMIT}
    return Group(one | more, np.arange(len(values)), metrics, {}, np.ones(len(values)))


REFERENCES = [
    group(NO_COMMUNICATION, "HoldTheBest", [0.4, 0.6, 0.4, 0.6]),
    group(FULL_INFORMATION, "HoldTheBest", [0.1, 0.1, 0.1, 0.1]),
]


def test_scores_by_hand() -> None:
    """Regret: less is better. alone is .5 on average and together .1, so .3 scores .5; by seed the gaps are .3 and
    .5."""
    half = group(PAPER, "PPCL", [0.25, 0.35, 0.25, 0.35])
    (board,) = boards(Results([*REFERENCES, half]))
    found = board.score(half)
    assert found is not None
    assert found.value == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5)
    assert found.high == pytest.approx(0.5), "it is half way at every seed"
    worse = board.score(group(PAPER, "PPCL", [0.6, 0.8, 0.6, 0.8]))
    assert worse is not None
    assert worse.value == pytest.approx(-0.5)
    assert board.scale is not None
    alone = board.scale.apart(Estimate(0.3, 0.3, 0.3))
    # Student's half width of alone, 3.182 * .1155 / 2 = .1837, counts half of itself, over the gap of .4.
    assert alone.value == pytest.approx(0.5)
    assert alone.high - alone.value == pytest.approx(0.5 * 0.1837 / 0.4, rel=1e-3)
    assert board.scale.score(np.array([0.5, 0.1, 0.0])).tolist() == pytest.approx([0.0, 1.0, 1.25])


def test_the_best_is_chosen_by_one_half_of_the_seeds_and_judged_by_the_other() -> None:
    lucky = group(PAPER, "PPCL", [0.1, 0.5, 0.1, 0.5])  # by even seeds
    steady = group(CLASSIC, "Voter", [0.2, 0.2, 0.2, 0.2])
    (board,) = boards(Results([*REFERENCES, steady, lucky]))
    best = board.best()
    assert best is lucky
    evaluated = board.evaluated(best)
    assert evaluated is not None
    assert evaluated.value == pytest.approx((0.6 - 0.5) / (0.6 - 0.1))
    assert board.ranked() == [steady, lucky], "in the table, by all seeds"
    (board,) = boards(
        Results([*REFERENCES, good := group(PAPER, "PPCL", [0.1, 0.3, 0.1, 0.3]), group(CLASSIC, "Voter", [0.4] * 4)])
    )
    assert board.evaluated(good) == board.score(good), "both halves choose it, and each judges the other's choice"


def test_who_hears_nothing_stands_at_every_total_and_others_do_not() -> None:
    """PPCL was not run at 3, and hears; HoldTheBest hears nothing."""

    def heard(one: Group, listens: float) -> Group:
        return Group(one.config, one.seeds, one.metrics | {"listens": np.full(4, listens)}, {}, one.wall_seconds)

    deaf = heard(group(TASK_AGENT, "HoldTheBest", [0.5] * 4), 0.0)
    hearing = heard(group(PAPER, "PPCL", [0.3] * 4), 1.0)
    some = [*REFERENCES, deaf, hearing, group(CLASSIC, "Voter", [0.7] * 4, budget=3.0)]
    names = {board.task.budget: [one.config["policy"] for one in board.ranked()] for board in boards(Results(some))}
    assert names == {NO_BUDGET_LIMIT: ["PPCL", "HoldTheBest"], 3.0: ["HoldTheBest", "Voter"]}


def test_words_hold_together_at_95_percent() -> None:
    yes, no = Match(0.02, True), Match(0.001, False)
    assert scores.words({"a": yes}) == {"a": "yes"}
    assert scores.words({"a": yes, "b": yes, "c": yes}) == dict.fromkeys("abc", "undecided"), "Holm: 3 x .02"
    assert scores.words({"a": no, "b": Match(np.nan, False)}) == {"a": "no", "b": "–"}


TEN = [group(NO_COMMUNICATION, "HoldTheBest", [0.4, 0.6] * 5), group(FULL_INFORMATION, "HoldTheBest", [0.1] * 10)]


def trainings(*regrets: float, name: str = "TrainedAgent") -> Group:
    """A learner, a regret for each training, with 0.2 in those that are not named."""
    return group(TUNED_LEARNER, name, [*regrets, *[0.2] * (10 - len(regrets))])


def test_one_question_is_asked_of_learning_and_however_far_does_not_count() -> None:
    """Ten of ten: p = 2/1024; nine of ten: p = 22/1024; eight of ten are not enough, however large the mean
    difference. If the halves of the seeds choose other agents, five trainings judge, and p = 2/32."""
    rival = group(PAPER, "PPCL", [0.3] * 10)

    def asked(*agents: Group) -> tuple[str, str]:
        ((_, found, word),) = questions.compared(Results([*TEN, rival, *agents])).values()
        return found.counted, word

    assert asked(trainings()) == ("all of 10 trainings are better", "yes")
    assert asked(trainings(0.31)) == ("9 of 10 trainings are better", "yes")
    assert asked(trainings(0.31, 0.31)) == ("8 of 10 trainings are better", "undecided")
    assert asked(trainings(*[0.31] * 10)) == ("all of 10 trainings are worse", "no")
    lucky = trainings(*[0.1, 0.25] * 5, name="NeuralBandit")  # by even seeds
    assert asked(trainings(), lucky) == ("all of 5 trainings are better", "undecided"), "odd seeds judge"
    table = questions.learning(Results([*TEN, rival, trainings()]))
    (row,) = table.rows
    assert row[:2] == ("GossipBandit-v0/standard", "TrainedAgent (tuned learner)")
    assert row[3:] == ("0.25 [0.25, 0.25] PPCL", "all of 10 trainings are better", "yes", "–", "–")
    assert scores.match(trainings(), rival, "popularity_regret").p == pytest.approx(2 / 1024)
    found = scores.match(rival, trainings(), "popularity_regret")
    assert found.p == pytest.approx(2 / 1024)
    assert not found.better


def test_a_training_whose_seed_the_other_has_not_played_is_compared_with_the_others_mean() -> None:
    learner = trainings(*[0.25] * 10)
    rival = group(PAPER, "PPCL", [0.2, 0.4])
    (board,) = boards(Results([*TEN, rival, learner]))
    found = scores.leads(board, learner, rival)
    assert found == pytest.approx([-0.125, 0.375, *[0.125] * 8])
    lead = scores.lead(board, learner)
    assert lead is not None
    assert lead.value == pytest.approx(0.125)
    assert scores.lead(board, rival) is None, "nobody leads over itself"


def test_leads_are_of_the_runs_that_both_have_played() -> None:
    """The learner has a run more, in which it does badly."""

    def with_runs(one: Group, runs: list[float]) -> Group:
        curves = {"runs": [(np.arange(len(runs), dtype=np.float64), np.array(runs))] * one.seeds.size}
        return Group(one.config, one.seeds, one.metrics, curves, one.wall_seconds)

    learner, rival = (
        with_runs(trainings(*[0.4] * 10), [0.2, 0.2, 0.8]),
        with_runs(group(PAPER, "PPCL", [0.3] * 2), [0.3, 0.3]),
    )
    (board,) = boards(Results([*TEN, rival, learner]))
    assert scores.leads(board, learner, rival) == pytest.approx([0.25] * 2 + [-0.25] * 8)


def test_the_interval_of_trainings_allows_for_failures_that_none_of_them_shows() -> None:
    """Random play has a regret of .7. Ten trainings near .2: up to 31% may fail, so the mean may be .2 + .31 * .5; one
    that failed counts as random play."""
    chance = group(RANDOM, "Random", [0.7] * 10)
    learner = trainings(*(0.2 + 0.001 * i for i in range(10)))
    (board,) = boards(Results([*TEN, chance, learner]))
    found = board.of_trainings(learner.metrics[board.task.metric])
    assert found.high == pytest.approx(0.2 + (1 - 0.025**0.1) * 0.5, abs=0.01)
    assert 0.19 < found.low < found.value
    score = board.score(learner)
    assert score is not None
    assert score.low < (0.5 - found.high) / 0.4 + 0.01 < score.value
    failing = trainings(2.0)
    (board,) = boards(Results([*TEN, chance, failing]))
    assert board.of_trainings(failing.metrics[board.task.metric]).value == pytest.approx((0.7 + 9 * 0.2) / 10)
    (row,) = score_tables.trainings(Results([*TEN, chance, failing])).rows
    assert row[:3] == ("GossipBandit-v0/standard", "TrainedAgent", "10")
    assert row[3].startswith("0.1000 [0.002529, 0.4450]")
    assert row[4].startswith("0.2000 [0.2000, 0.2000]")
    (board,) = boards(Results([*TEN, learner]))
    assert np.isnan(board.of_trainings(learner.metrics[board.task.metric]).low), "random play is not known"
    (kinds_row,) = [
        row for row in score_tables.kinds_over_tasks(Results([*TEN, chance, learner])).rows if row[0] == TUNED_LEARNER
    ]
    assert "too few trainings" in kinds_row[2]


def test_kinds_are_judged_by_seeds_that_did_not_choose_among_them() -> None:
    """By even seeds the first learner is the best, by odd ones it is worth nothing."""
    learner, other = trainings(*[0.1, 0.5] * 5), trainings(*[0.3] * 10, name="NeuralBandit")
    chance = group(RANDOM, "Random", [0.7] * 10)
    (row,) = [
        row
        for row in score_tables.kinds_over_tasks(Results([*TEN, chance, learner, other])).rows
        if row[0] == TUNED_LEARNER
    ]
    assert float(row[2].partition(" ")[0]) == pytest.approx(0.0)


def test_a_score_moves_with_each_bound_by_itself() -> None:
    """An estimate whose interval reaches further up than down, between marks that are known exactly."""
    scale = references.Scale(references.Reference("A", {}, [0.5] * 3), references.Reference("B", {}, [0.1] * 3))
    assert scale.apart(Estimate(0.3, 0.26, 0.42)) == pytest.approx((0.5, 0.5 - 0.12 / 0.4, 0.5 + 0.04 / 0.4))


def test_a_learner_is_chosen_in_the_standard_task_for_held_out_ones() -> None:
    some = [
        group(TUNED_LEARNER, "TrainedAgent", [0.2] * 4, [0.9] * 4),
        group("plain PPO", PLAIN_PPO, [0.3] * 4, [0.1] * 4),
        group(PAPER, "PPCL", [0.25] * 4, [0.3] * 4),
        group(NO_COMMUNICATION, "HoldTheBest", [0.5] * 4),
        group(FULL_INFORMATION, "HoldTheBest", [0.1] * 4),
    ]
    (row,) = score_tables.held_out(Results(some)).rows
    assert row[0] == "GossipBandit-v0/liars"
    assert row[2].startswith("0.50"), "marks hear nothing, so those of the standard task hold among liars"
    assert row[3].startswith("-1.00")
    assert row[3].endswith("TrainedAgent")


def test_pooled_agents_and_marks_have_no_rank() -> None:
    centralised = group(CLASSIC, "CentralisedOracle", [0.1] * 4)
    (board,) = boards(Results([*REFERENCES, centralised, group(PAPER, "PPCL", [0.3] * 4)]))
    assert [one.config["policy"] for one in board.ranked()] == ["PPCL"]
    assert board.unranked() == [centralised]
    rows = scores.rows_of(Results([*REFERENCES, centralised, group(PAPER, "PPCL", [0.3] * 4)]))
    assert [(row["policy"], row["information"]) for row in rows] == [
        ("PPCL", "memoryless"),
        ("CentralisedOracle (centralised)", "centralised"),
    ]
    asked = {
        "task",
        "policy",
        "kind",
        "information",
        "budget",
        "covers",
        "score",
        "low",
        "high",
        "mean",
        "messages",
        "epsilon",
        "seeds",
    }
    assert set(rows[0]) == asked


def test_figures_show_the_best_of_each_kind_at_each_total() -> None:
    """Two dots by hand: PPCL scores .5 without privacy and 0 at a total of 3."""
    some = [*REFERENCES, group(PAPER, "PPCL", [0.25, 0.35] * 2), group(PAPER, "PPCL", [0.4, 0.6] * 2, budget=3.0)]
    played = boards(Results(some))
    _, second = score_figures.plots(played, "agents")
    (board,) = [one for one in played if one.task.budget == NO_BUDGET_LIMIT]
    row = score_figures.row_of(played, board)
    assert [(one.name, round(one.score, 6)) for one in row.kinds] == [("PPCL", 0.5)]
    assert {budget: round(one.score, 6) for budget, one in row.budgets.items()} == {NO_BUDGET_LIMIT: 0.5, 3.0: 0.0}
    (ax,) = (ax for ax in second.figure.axes if ax.get_visible())
    lines = [np.round(np.asarray(line.get_ydata(), float), 6).tolist() for line in ax.lines if line.get_marker() == "o"]
    assert lines == [[0.0, 0.5]], "from the strictest total to none"


def test_totals_stand_beside_what_they_cover() -> None:
    """In tables, figures and sentences: the unit, the channels, and those that are left out."""
    gossip = "the preference in one message, on preference"
    shop = "one feedback's value, given what was shown, on statistics and counts (selection left out)"
    some = [*REFERENCES, group(PAPER, "PPCL", [0.25, 0.35] * 2), group(PAPER, "PPCL", [0.4, 0.6] * 2, budget=3.0)]
    for table in (scores.leaderboard(Results(some), scores.UNDER), scores.who_is_best(Results(some))):
        assert table.rows
        assert all(gossip in row for row in table.rows)
    (row,) = score_tables.coverage(Results(some)).rows
    assert ", on ".join(row[1:3]) == gossip
    assert "what the budget covers" not in scores.leaderboard(Results(some), scores.FREE).columns
    assert {row["covers"] for row in scores.rows_of(Results(some))} == {gossip}
    for plot in score_figures.plots(boards(Results(some)), "agents"):
        assert score_tables.coverage(Results(some)).title in plot.caption
    task = TASKS["taciturn/Recommender-v0/standard@3"]
    assert task.covers == shop
    assert dict(task.facts)["privacy"] == (
        f"each agent may spend epsilon = 3 over its run: {shop} (event level, delta 1e-05, an observer of all messages "
        "there)"
    )
    for text in (load_studies()["agents"].description, load_studies()["social-recommender"].description):
        assert shop in text


def test_tasks_name_the_seeds_that_the_study_has() -> None:
    """And learners, with what they are compared with, ten more."""
    seeds: dict[str, set[int]] = {}
    for cell in load_studies()["agents"].cells(quick=False):
        seeds.setdefault(cell.config["kind"], set()).add(cell.seed)
    more = {"paper", "random", "plain PPO", "tuned learner"}
    assert {kind: len(some) for kind, some in seeds.items()} == {kind: 20 if kind in more else 10 for kind in seeds}
    assert all(dict(task.facts)["seeds"].startswith("0 to 9,") for task in TASKS.values())


@pytest.mark.parametrize("env", BENCHMARKS)
def test_tasks_do_not_change_once_they_are_published(env: str, request: pytest.FixtureRequest) -> None:
    """Results under the same name must be of the same task: what differs from the world's file in `golden/tasks` needs
    a new name. `--regenerate-golden` writes the file of a new world."""
    file = Path(__file__).parent / f"golden/tasks/{entry(env).id.removeprefix('taciturn/')}.json"
    made = {
        task.name: definition(task) for task in tasks_of(env)
    }  # those at totals differ by `BudgetPlan.params` alone
    if request.config.getoption("--regenerate-golden"):
        file.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    assert made == json.loads(file.read_text(encoding="utf-8"))


def definition(task: Task) -> dict[str, Any]:
    """All that makes a task, as plain values."""
    return {
        "params": {name: repr(value) for name, value in task.params.items()},
        "faults": {name: repr(fault) for name, fault in task.variant.faults.items()},
        "others": dict(task.others),
        **({"strangers": dict(task.variant.strangers)} if task.variant.strangers else {}),
        "measure": task.measure,
    }
