"""The study of whom agents trust: what stands on the channels, what it costs, and how the best is named."""

from typing import Any

import numpy as np
import pytest

from taciturn.agents import bring
from taciturn.bench.comparisons import trust
from taciturn.bench.comparisons.playing import task_config
from taciturn.bench.references import scale_of
from taciturn.bench.results import Group, Results
from taciturn.testing import check_study
from taciturn.wrappers import CentralSum, DistributedSum, Laplace, Scheduled, Shuffled

STUDY = trust.TrustStudy()
QUICK = STUDY.cells(quick=True)
MECHANISMS = {
    ("PublicPlan", "local"): Laplace,
    ("PublicPlan", "distributed"): DistributedSum,
    ("PublicPlan", "central"): CentralSum,
    ("GrowingSchedule", "distributed"): DistributedSum,
    ("CDPMAB", "central"): CentralSum,
    ("FewRounds", "central"): CentralSum,
    ("Listener", "shuffle"): Scheduled,
}


def cell(policy: str, model: str, **entries: Any) -> Any:
    wanted = {"policy": policy, "trust": model, "budget": 3.0} | entries
    return next(one for one in QUICK if wanted.items() <= one.config.items())


@pytest.mark.parametrize(("named", "kind"), MECHANISMS.items(), ids=str)
def test_each_model_has_its_mechanism(named: tuple[str, str], kind: type) -> None:
    asked = cell(*named).config
    trusting_agent = trust.TRUSTING_AGENTS[asked["env"]][asked["trusting_agent"]]
    task = trust.task_of(asked["env"], asked["size"], asked["budget"])
    agent = bring(trusting_agent.policy, **asked["policy_params"])
    (way,) = trust.configurations_of(
        task, trusting_agent, agent, task_config(task, trusting_agent.policy, **trusting_agent.world), 0
    )
    (config,) = way.channels.values()
    assert isinstance(config.mechanism, kind)
    if kind is Scheduled:
        assert isinstance(config.mechanism, Scheduled)
        assert isinstance(config.mechanism.mechanism, Shuffled)
        assert config.mechanism.epsilon > 3


@pytest.mark.parametrize(
    "one",
    [
        cell("PublicPlan", "central"),
        cell("GrowingSchedule", "distributed"),
        cell("Listener", "shuffle"),
        cell("FewRounds", "central", size="few-clients"),
    ],
    ids=lambda one: f"{one.config['policy']}-{one.config['trust']}",
)
def test_a_cell_gives_its_score_within_its_total_and_the_same_one_again(one: Any) -> None:
    check_study(STUDY, [one])
    found = STUDY.run(one).metrics
    assert 0 < found["epsilon"] <= 3.0 * (1 + 1e-9)


def test_scores_are_those_of_the_leaderboard() -> None:
    one = group("Listener", 0, [0.25] * 6)
    found = trust.score(one)
    assert found.value == pytest.approx(0.25)
    scale = scale_of(trust.task_of("gossip_bandit_v0", "standard", 1.0))
    assert scale is not None
    assert found == scale.paired(one.metrics["value"], one.seeds)


def test_every_world_has_two_sizes_and_two_kinds_of_agents_play() -> None:
    sizes = {(one.config["env"], one.config["size"]) for one in QUICK}
    assert len(sizes) == 2 * len(trust.TRUSTING_AGENTS) == 8
    assert {one.config["kind"] for one in QUICK} == {"hand-designed", "published"}
    assert {one.config["trust"] for one in QUICK} == set(trust.TRUSTED)


def group(policy: str, place: int, scores: list[float], model: str = "local") -> Group:
    """With these scores, on the scale of gossip."""
    config = {
        "env": "gossip_bandit_v0",
        "size": "standard",
        "budget": 1.0,
        "trust": model,
        "kind": "hand-designed",
        "policy": policy,
        "policy_params": {},
        "trusting_agent": place,
        "runs": 4,
    }
    scale = scale_of(trust.task_of("gossip_bandit_v0", "standard", 1.0))
    assert scale is not None
    low, high = (np.array(reference.values[: len(scores)]) for reference in scale)
    values = low + np.array(scores) * (high - low)
    return Group(config, np.arange(len(scores)), {"value": values}, {}, np.ones(len(scores)))


def test_the_best_is_chosen_by_even_seeds_and_judged_by_odd_ones() -> None:
    lucky = group("Listener", 0, [0.9, 0.1, 0.9, 0.2, 0.9, 0.1])
    steady = group("PPCL", 1, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    name, found = trust.champion(Results([lucky, steady]), "local", 1.0)
    assert name == "Listener"
    assert found.value == pytest.approx(0.4 / 3, abs=0.01), "the mean of odd seeds, weighted by the gaps"


def test_a_curator_can_do_what_agents_do_that_trust_nobody() -> None:
    local, shuffled, curated = (
        group(name, i, [score] * 6, model)
        for i, (name, score, model) in enumerate([("A", 0.5, "local"), ("B", 0.6, "shuffle"), ("C", 0.4, "central")])
    )
    names = {one: trust.champion(Results([local, shuffled, curated]), one, 1.0)[0] for one in trust.TRUSTED}
    assert names == {"local": "A", "shuffle": "B", "distributed": "A", "central": "B"}
