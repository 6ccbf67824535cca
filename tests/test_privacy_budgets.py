"""Totals of epsilon: what fits into one, that no agent overspends, and that the choice of a level sees no run of the
evaluation."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from taciturn.agents import bring
from taciturn.bench import tasks
from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons import kinds, playing
from taciturn.bench.comparisons.playing import configurations_by_rank, evaluated, first_within, played, population
from taciturn.bench.levels import configurations, level_of, own_configuration
from taciturn.bench.results import RUNS, Cell
from taciturn.bench.tasks import BENCHMARKS, DELTA, PROTECTED, TASKS, under
from taciturn.bench.tasks.benchmark import PLAIN_PPO, TRAINER
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import PPCL, BlockListener, Listener, PublicPlan
from taciturn.registry import entry, make_world
from taciturn.wrappers import BitwiseRandomizedResponse, Blocks, Budget, Laplace, Scheduled

STUDY: Any = load_studies()["agents"]


def cell(env: str, policy: str, budget: Any, seed: int = 0) -> Cell:
    """A cell of the quick study. A learner, which that lacks, trains for few steps."""
    learns = policy in {PLAIN_PPO, TRAINER}
    found: list[Cell] = [
        one
        for one in STUDY.cells(quick=not learns)
        if (one.config["env"], one.config["policy"], one.config["budget"], one.seed) == (env, policy, budget, seed)
    ]
    short = kinds.QUICK | {"policy_params": {"steps": 2048}}
    return replace(found[0], config=found[0].config | short) if learns else found[0]


@pytest.mark.parametrize("messages", [1, 3, 30])
@pytest.mark.parametrize("budget", [1.0, 10.0])
def test_pure_messages_share_a_total_equally(budget: float, messages: int) -> None:
    level = level_of("BitwiseRandomizedResponse:{}", Budget(budget), messages)
    assert 0.975 * budget / messages < level <= budget / messages * (1 + 1e-9)


@pytest.mark.parametrize("messages", [1, 30, 1000])
def test_gaussian_messages_fit_as_dp_accounting_says(messages: int) -> None:
    """Renyi composition of so many equal messages, computed by another library, is within the total, and 5% more noisy
    ones would do."""
    accounting = pytest.importorskip("dp_accounting")
    level = level_of("Gaussian:{},delta=1e-6", Budget(3.0, DELTA, method="rdp"), messages)

    def epsilon(level: float) -> float:
        rho = parse_mechanism(f"Gaussian:{level},delta=1e-6").loss().rho
        account = accounting.rdp.RdpAccountant()
        account.compose(accounting.GaussianDpEvent((1 / (2 * rho)) ** 0.5), messages)
        return float(account.get_epsilon(DELTA))

    assert 0.9 * 3.0 < epsilon(level) <= 3.0 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("env", "policy"),
    [
        ("gossip_bandit_v0", "PPCL"),
        ("federated_bandit_v0", "CDPMAB"),
        ("arm_elimination_v0", "EliminationSchedule"),
        ("recommender_v0", "TPriDO"),
        ("elicitation_v0", "Wintall"),
        ("elicitation_v0", PLAIN_PPO),
    ],
)
def test_no_agent_overspends(env: str, policy: str) -> None:
    found = STUDY.run(cell(env, policy, 3.0)).metrics
    assert 0 < found["epsilon"] <= 3.0 * (1 + 1e-6)
    assert 0 < found["epsilon_message"] <= 3.0
    assert found["messages"] > 0


def test_where_each_value_enters_one_message_all_may_have_the_whole() -> None:
    world = make_world("federated_bandit").population(1, **BENCHMARKS["federated_bandit_v0"].world)
    ((level, way),) = configurations(world, PROTECTED["federated_bandit_v0"], 3.0)
    config = way["means"]
    assert config.mechanism is not None
    assert (level, config.mechanism.loss().epsilon, config.budget) == (3.0, 3.0, None)


def test_individuals_with_a_total_stay_away_once_it_is_spent() -> None:
    """Ten campaigns with a desired budget of 1 to 2, so levels of log 2 to log 3: a total of 3 pays for two to four of
    them."""
    one = cell("elicitation_v0", "Wintall", 3.0)
    fixed = one.config | {"env_params": one.config["env_params"] | {"target": (1.0, 2.0)}}
    found = STUDY.run(Cell(one.study, fixed, one.seed))
    assert 2 * 50 <= found.metrics["messages"] <= 4 * 50
    assert 3.0 - math.log(3) < found.metrics["epsilon"] <= 3.0
    # Of each campaign that is missed, the whole desired budget, at least 1, is missing.
    assert found.metrics["loss"] > (500 - found.metrics["messages"]) / 500


def test_streams_share_a_total_by_channel_and_by_release() -> None:
    world = make_world("recommender").population(1, **BENCHMARKS["recommender_v0"].world)
    ((level, way),) = configurations(world, PROTECTED["recommender_v0"], 3.0, [1, 5, 50])
    assert list(way) == ["statistics", "counts"]
    assert level == pytest.approx(3.0 / (2 * 50)), "values are released about 25 times"
    assert [one.mechanism.loss().epsilon for one in way.values() if one.mechanism] == [level, level]


def test_a_level_with_which_an_agent_of_streams_overspends_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One release a feedback is better than many, and is not what happens: the numbers of releases follow from the
    run."""
    one = cell("recommender_v0", "TPriDO", 3.0)
    monkeypatch.setitem(PROTECTED, "recommender_v0", PROTECTED["recommender_v0"]._replace(messages=1))
    with pytest.raises(ValueError, match=r"must spend at most epsilon = 3\.0 "):
        STUDY.run(Cell(one.study, one.config | {"messages": [1]}, one.seed))
    spent = STUDY.run(Cell(one.study, one.config | {"messages": [1, 125]}, one.seed)).metrics
    assert 0 < spent["epsilon"] <= 3.0
    assert 0 < spent["epsilon_message"] < 3.0 / 2


@pytest.mark.parametrize("budget", [3.0, 1.0])
def test_learners_train_under_their_total(budget: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the mechanism on the channel by which they spend it."""
    trained: list[Any] = []
    one = cell("gossip_bandit_v0", "TrainedAgent", 3.0)
    monkeypatch.setattr("taciturn.policies.TrainedAgent.train", lambda agent, world: trained.append(world))
    task = TASKS[f"taciturn/GossipBandit-v0/standard@{budget:g}"]
    agent, (way,) = STUDY.prepared(Cell(one.study, one.config | {"budget": budget}, one.seed), task, lambda _: None)
    (found,) = trained
    assert found.view().practice(1).channel_configs == way.channels
    installed = way.channels["preference"].mechanism
    assert installed == agent.within(found.view(), budget)["preference"]
    assert installed.mechanism == BitwiseRandomizedResponse(budget)


def test_the_choice_draws_from_other_streams_than_the_evaluation() -> None:
    """The runs that are reported are those of the level that did better in the trials, as if nothing had been tried."""
    one = cell("gossip_bandit_v0", "PPCL", 3.0)
    scores = {}
    for messages in ((1,), (300,), (1, 300)):
        found = STUDY.run(Cell(one.study, one.config | {"messages": messages}, one.seed))
        scores[messages] = (found.metrics["epsilon_message"], found.curves[RUNS][1])
    ((level, way),) = configurations(population(one.config, 1, "evaluation"), PROTECTED["gossip_bandit_v0"], 3.0, (1,))
    assert level == scores[1,][0]
    by_hand = evaluated(
        population(one.config, 10, "evaluation"), PPCL(**one.config["policy_params"]), one.config, 0, way
    )
    np.testing.assert_array_equal(by_hand["popularity_regret"], scores[1,][1])
    assert any(
        scores[1, 300][0] == scores[key][0] and np.array_equal(scores[1, 300][1], scores[key][1])
        for key in ((1,), (300,))
    )
    tried = population(one.config, 10, "choice of a level")
    assert (
        evaluated(tried, PPCL(**one.config["policy_params"]), one.config, 0, way)["popularity_regret"]
        != by_hand["popularity_regret"]
    ).any()


def test_agents_that_say_how_they_spend_a_total_are_played_so() -> None:
    """One answer of the whole total; and in the federated bandit noise of the whole in every message."""
    few = {"num_agents": 20}
    gossip = population({"env": "gossip_bandit_v0", "env_params": few, "kind": "hand-designed"}, 1, "evaluation")
    way = own_configuration(Listener(moment=3.0), gossip, 3.0)
    assert way is not None
    (found,) = way.channels.values()
    assert isinstance(found.mechanism, Scheduled)
    assert (found.mechanism.at, found.mechanism.loss().epsilon) == (60, 3.0)
    bandit = population({"env": "federated_bandit_v0", "env_params": {}, "kind": "hand-designed"}, 1, "evaluation")
    way = own_configuration(PublicPlan(), bandit, 1.0)
    assert way is not None
    assert way.channels["means"].mechanism == Laplace(1.0)
    assert own_configuration(PPCL(), gossip, 3.0) is None


COVERED: dict[str, tuple[str, Any, tuple[str, ...], tuple[str, ...]]] = {
    "federated_training_v0": ("FewRounds", "event", ("update",), ()),
    "federated_bandit_v0": ("DividedPlan", "event", ("means",), ()),
    "arm_elimination_v0": ("GrowingSchedule", "event", ("means",), ()),
    "gossip_bandit_v0": ("Listener", "event", ("preference",), ()),
    "social_bandit_v0": ("Listener", "event", ("preference",), ()),
    "recommender_v0": ("TPriDO", "event", ("statistics", "counts"), ("selection",)),
    "elicitation_v0": ("Wintall", "user", ("report",), ()),
}
"""An agent for each world with totals, the unit, the channels that a total counts, and the others."""


@pytest.mark.parametrize("env", PROTECTED)
def test_totals_name_every_channel_of_their_world(env: str) -> None:
    protected, channels = PROTECTED[env], make_world(env).population(1, **BENCHMARKS[env].world).channels
    assert sorted((*protected.channels, *protected.left_out)) == sorted(channels)
    assert all(protected.protects.endswith(channels[name].given) for name in protected.channels)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param(env, marks=pytest.mark.slow) if env in ("federated_training_v0", "federated_bandit_v0") else env
        for env in sorted(COVERED)
    ],
)
def test_totals_are_the_accountants_of_the_declared_channels_and_unit(
    env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the benchmark prints is one total of the run's accountant, and its words name all channels of the world."""
    name, unit, channels, left_out = COVERED[env]
    task, worlds = TASKS[f"{entry(env).id}/standard@3"], []
    one = playing.task_config(task, name)
    one["env_params"] |= BENCHMARKS[env].quick

    def recorded(*args: Any) -> Any:
        worlds.append(population(*args))
        return worlds[-1]

    own: dict[str, dict[str, Any]] = {"TPriDO": {"threshold": 2.0}, "FewRounds": {"k": 2}}
    agent: Any = bring(name, **own.get(name, {}))
    world = population(one, 1, "evaluation")
    way = own_configuration(agent, world, 3.0) or next(configurations(world, PROTECTED[env], 3.0, [25]))
    monkeypatch.setattr(playing, "population", recorded)
    found = played(task, agent, one, 2, 0, way)
    (world,) = worlds
    budget = world.accountant.epsilon(1e-5, "agent", "rdp", unit=unit, channel=channels).max(1)
    np.testing.assert_array_equal(found.metrics["epsilon"], budget)
    assert 0 < found.spent["epsilon"] == budget.max() <= 3.0 * (1 + 1e-6)
    for words in (task.privacy, tasks.covered([env])):
        assert PROTECTED[env].covers in words
        assert f"on {' and '.join(channels)}" in words
        assert all(f"({channel} left out)" in words for channel in left_out)


@pytest.mark.parametrize("private", [{}, {"statistics": Blocks(3.0)}], ids=["nothing", "one channel of two"])
def test_an_agent_cannot_leave_channels_out_of_its_total(private: dict[str, Any]) -> None:
    """What stands on no channel is not free: the world says which channels count, and not the agent."""
    task = TASKS["taciturn/Recommender-v0/standard@3"]

    class Partly(BlockListener):
        public_schedule = True

        def within(self, view: Any, epsilon_budget: float) -> dict[str, Any]:
            return private

    agent = Partly(8, worlds=2, rounds=5)
    one = playing.task_config(task, "BlockListener")
    one["env_params"] |= {"horizon": 40, "num_agents": 3}
    (way,) = configurations_by_rank(task, agent, one, 0, 2)
    assert way.channels.keys() == private.keys()
    with pytest.raises(ValueError, match=r"must spend at most epsilon = 3\.0 .* spends inf"):
        first_within(task, agent, one, 2, 0, [way])


def test_agents_that_overspend_are_refused() -> None:
    """Half of the total twice would fit; all of it twice does not, whatever the agent says of it."""
    task = TASKS["taciturn/GossipBandit-v0/standard@3"]
    one = playing.task_config(task, "PPCL")

    class Loud(PPCL):
        def within(self, view: Any, epsilon_budget: float) -> dict[str, Any]:
            return {"preference": parse_mechanism(f"BitwiseRandomizedResponse:{epsilon_budget}")}

    loud = Loud()
    found = configurations_by_rank(task, loud, one, 0, 2)
    assert len(found) == 1
    with pytest.raises(ValueError, match=r"must spend at most epsilon = 3\.0 of each agent in taciturn/Gossip"):
        first_within(task, loud, one, 2, 0, found)
    assert not kinds.overspends("PPCL", "gossip_bandit_v0", one, 3.0)


def test_what_is_spent_is_what_the_accountant_says() -> None:
    """A total of 1 in the federated bandit: one level, one message a reward."""
    task = TASKS["taciturn/FederatedBandit-v0/standard@1"]
    one = playing.task_config(task, "CDPMAB")
    (way,) = configurations(population(one, 1, "evaluation"), PROTECTED[task.env], 1.0)
    from taciturn.policies import CDPMAB

    found = played(task, CDPMAB(), one, 2, 0, way)
    assert found.spent["epsilon"] == pytest.approx(1.0, abs=1e-4)
    assert found.spent["epsilon_message"] == 1.0
    assert found.spent["messages"] > 0
    assert under("gossip_bandit_v0", 3.0) == {"without_preference": "zeros"}
    assert under("gossip_bandit_v0", "none") == {}
    assert DELTA == 1e-5
