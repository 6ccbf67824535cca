"""Totals of epsilon: what fits into one, that no agent overspends, and that the choice of a level sees no run of the
evaluation."""

import math
from typing import Any

import numpy as np
import pytest

from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons.kinds import PPO, judged, population
from taciturn.bench.comparisons.totals import DELTA, PROTECTED, level_of, ways
from taciturn.bench.results import RUNS, Cell, Group, Results
from taciturn.bench.tasks import CONTESTS
from taciturn.mechanism_names import parse_mechanism
from taciturn.policies import PPCL
from taciturn.registry import make_world
from taciturn.wrappers import Budget, audit

STUDY: Any = load_studies()["privacy-totals"]


def cell(env: str, policy: str, total: Any, seed: int = 0) -> Cell:
    """A cell of the quick study."""
    found: list[Cell] = [
        one
        for one in STUDY.cells(quick=True)
        if (one.config["env"], one.config["policy"], one.config["total"], one.seed) == (env, policy, total, seed)
    ]
    return found[0]


@pytest.mark.parametrize("messages", [1, 3, 30])
@pytest.mark.parametrize("total", [1.0, 10.0])
def test_pure_messages_share_a_total_equally(total: float, messages: int) -> None:
    level = level_of("BitwiseRandomizedResponse:{}", Budget(total), messages)
    assert 0.975 * total / messages < level <= total / messages * (1 + 1e-9)


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
        ("gossip_bandit_v0", "SharedPPO"),
        ("recommender_v0", "DTPriDO"),
        ("elicitation_v0", "Wintall"),
        ("elicitation_v0", PPO),
    ],
)
def test_no_agent_overspends(env: str, policy: str) -> None:
    found = STUDY.run(cell(env, policy, 3.0)).metrics
    assert 0 < found["epsilon"] <= 3.0 * (1 + 1e-6)
    assert 0 < found["epsilon_message"] <= 3.0
    assert found["messages"] > 0


def test_where_each_value_enters_one_message_all_may_have_the_whole() -> None:
    world = make_world("federated_bandit").population(1, **CONTESTS["federated_bandit_v0"].world)
    ((level, way),) = ways(world, PROTECTED["federated_bandit_v0"], 3.0)
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
    world = make_world("recommender").population(1, **CONTESTS["recommender_v0"].world)
    ((level, way),) = ways(world, PROTECTED["recommender_v0"], 3.0, [1, 5, 50])
    assert list(way) == ["statistics", "counts"]
    assert level == pytest.approx(3.0 / (2 * 50)), "values are released about 25 times"
    assert [one.mechanism.loss().epsilon for one in way.values() if one.mechanism] == [level, level]


def test_a_level_with_which_an_agent_of_streams_overspends_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One release a feedback is better than many, and is not what happens: the numbers of releases follow from the
    run."""
    one = cell("recommender_v0", "TPriDO", 3.0)
    monkeypatch.setitem(PROTECTED, "recommender_v0", PROTECTED["recommender_v0"]._replace(messages=1))
    spent = [
        STUDY.run(Cell(one.study, one.config | {"messages": messages}, one.seed)).metrics
        for messages in ([1], [1, 125])
    ]
    assert spent[0]["epsilon"] > 3.0
    assert 0 < spent[1]["epsilon"] <= 3.0
    assert spent[1]["epsilon_message"] == pytest.approx(3.0 / 250)


@pytest.mark.parametrize("total", [3.0, 1.0])
def test_learners_train_under_their_total(total: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """They can pay for 400 messages, about as many as each of 20 agents sends if nothing stops it."""
    trained: list[Any] = []
    ppcl, one = PPCL(), cell("gossip_bandit_v0", "SharedPPO", 3.0)
    monkeypatch.setattr("taciturn.policies.SharedPPO.train", lambda agent, world: trained.append(world))
    monkeypatch.setattr("taciturn.policies.SharedPPO.begin", lambda agent, view: None)
    monkeypatch.setattr("taciturn.policies.SharedPPO.act", lambda agent, obs, mask=None: ppcl.act(obs, mask))
    world = population(one.config, 1, "training")
    world.reset(seed=0)
    ppcl.reset(world, np.random.default_rng(0))
    STUDY.run(Cell(one.study, one.config | {"total": total}, one.seed))
    (found,) = trained
    ((level, way),) = ways(world, PROTECTED["gossip_bandit_v0"], total, [400])
    assert found.view().practice(1).channel_configs == way
    assert way["preference"].budget is not None
    assert way["preference"].budget.epsilon == total
    assert 0 < level < total / 10


def test_the_choice_draws_from_other_streams_than_the_evaluation() -> None:
    """The runs that are reported are those of the level that did better in the trials, as if nothing had been tried."""
    one = cell("gossip_bandit_v0", "PPCL", 3.0)
    scores = {}
    for messages in ((1,), (300,), (1, 300)):
        found = STUDY.run(Cell(one.study, one.config | {"messages": messages}, one.seed))
        scores[messages] = (found.metrics["epsilon_message"], found.curves[RUNS][1])
    ((level, way),) = ways(population(one.config, 1, "evaluation"), PROTECTED["gossip_bandit_v0"], 3.0, (1,))
    assert level == scores[1,][0]
    by_hand = judged(population(one.config, 10, "evaluation"), PPCL(), one.config, 0, way)
    np.testing.assert_array_equal(by_hand["popularity_regret"], scores[1,][1])
    assert any(
        scores[1, 300][0] == scores[key][0] and np.array_equal(scores[1, 300][1], scores[key][1])
        for key in ((1,), (300,))
    )
    tried = population(one.config, 10, "choice of a level")
    assert (judged(tried, PPCL(), one.config, 0, way)["popularity_regret"] != by_hand["popularity_regret"]).any()


def group(policy: str, kind: str, total: Any, regret: float, messages: float = 1.0) -> Group:
    config = {
        "env": "gossip_bandit_v0",
        "env_params": {},
        "policy": policy,
        "policy_params": {},
        "kind": kind,
        "total": total,
    }
    return Group(
        config,
        np.arange(3),
        {"popularity_regret": np.full(3, regret), "messages": np.full(3, messages)},
        {},
        np.ones(3),
    )


def test_scores_lie_between_random_play_and_the_best_without_privacy() -> None:
    results = Results(
        [
            group("Random", "random", "no privacy", 0.5),
            group("PPCL", "paper", "no privacy", 0.1),
            group("Voter", "classic", "no privacy", 0.3),
            group("Random", "random", 1.0, 0.5),
            group("PPCL", "paper", 1.0, 0.6),
            group("Voter", "classic", 1.0, 0.4),
        ]
    )
    best, everyone = STUDY.tables(results)
    assert [row[1:4] for row in best.rows] == [("no privacy", "PPCL", "1.00"), ("1", "Voter", "0.25")]
    assert [row[1:4] for row in everyone.rows] == [
        ("no privacy", "PPCL", "1.00"),
        ("no privacy", "Voter", "0.50"),
        ("no privacy", "Random", "0.00"),
        ("1", "Voter", "0.25"),
        ("1", "Random", "0.00"),
        ("1", "PPCL", "-0.25"),
    ]
    who, cheap = STUDY.answers(results)
    assert who.startswith("Who is best if an agent may spend a total epsilon of 1? ")
    assert who.endswith(": Voter in gossip bandit (score 0.25, 1 messages).")
    assert cheap.endswith(
        "with fewer messages? Nobody: in each of these worlds the best is also the cheapest of those that come so "
        "close."
    )
    assert STUDY.answers(results.select(total="no privacy")) == []
    attack = group("PPCL", "paper", 1.0, 0.0)
    attack = Group(
        attack.config | {"trials": 9},
        np.arange(1),
        {"certified": np.array([0.25]), "cap": np.array([0.875])},
        {},
        np.ones(1),
    )
    assert [row[6] for row in STUDY.tables(Results([*results, attack]))[1].rows] == ["–"] * 5 + ["– (0.2500)"]
    assert "certify 0.8750 at most" in STUDY.tables(Results([*results, attack]))[1].note
    strict = group("PPCL", "paper", 1.0, 0.2)
    strict = Group(strict.config | {"policy_params": {"epsilon": 1.0}}, strict.seeds, strict.metrics, {}, np.ones(3))
    assert STUDY.answers(Results([*results, strict]))[0].endswith(
        ": PPCL (epsilon=1.0) in gossip bandit (score 0.75, 1 messages)."
    )
    assert STUDY.plots(Results([attack])) == STUDY.answers(Results([attack])) == []
    near = [group("Quiet", "classic", 1.0, 0.4199, 0.5), group("Silent", "classic", 1.0, 0.4201, 0.0)]
    best, _ = STUDY.tables(Results([*results, *near]))
    assert [row[-1] for row in best.rows] == ["itself", "Quiet: 0.5000"], "Silent is worse by more than 5%"
    assert STUDY.answers(Results([*results, *near]))[1].endswith("? Quiet in gossip bandit (0.5000).")
    (plot,) = STUDY.plots(results)
    (ax,) = (ax for ax in plot.figure.axes if ax.get_visible())
    lines = {tuple(line.get_ydata()) for line in ax.lines if len(line.get_xdata()) == 1}
    assert {(1.0,), (-0.25,), (0.5,), (0.25,)} <= {tuple(np.round(line, 9)) for line in lines}


def test_the_front_shows_who_is_better_than_the_best_design_and_names_nobody_off_the_scale() -> None:
    results = Results(
        [
            group("Random", "random", "no privacy", 0.5),
            group("PPCL", "paper", "no privacy", 0.1),
            group("SharedPPO", "tuned learner", "no privacy", 0.02),
            group("Voter", "classic", "no privacy", 1.0),
        ]
    )
    (plot,) = STUDY.plots(results)
    (ax,) = (ax for ax in plot.figure.axes if ax.get_visible())
    assert ax.get_ylim()[0] == -1.0
    assert 1.2 < ax.get_ylim()[1] < 1.5
    assert {text.get_text() for text in ax.texts} == {"PPCL", "SharedPPO"}


@pytest.mark.parametrize(("env", "policy"), [("gossip_bandit_v0", "PPCL"), ("elicitation_v0", "Wintall")])
def test_attacks_are_on_runs_as_they_are_scored(env: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same level and budget, and with the whole world."""
    scored = cell(env, policy, 3.0)
    attack = Cell(scored.study, scored.config | {"trials": 500}, scored.seed)
    assert attack in STUDY.cells(quick=True)
    heard: list[Any] = []

    def listening(world: Any, *args: Any, **given: Any) -> Any:
        heard.append((world.channel_configs, given))
        return audit(world, *args, **given)

    monkeypatch.setattr("taciturn.bench.comparisons.totals.audit", listening)
    found = STUDY.run(attack).metrics
    ((channels, given),) = heard
    (channel,) = channels.values()
    assert channel.budget.epsilon == 3.0
    if channel.mechanism is not None:
        assert channel.mechanism.epsilon == STUDY.run(scored).metrics["epsilon_message"]
    assert given["delta"] == DELTA
    assert found["certified"] <= found["epsilon"] <= 3.0 * (1 + 1e-9)
    assert found["cap"] > 3.0, "a total of 3 could have been refuted"
