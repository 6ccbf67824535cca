"""Audits of whole runs (`audit(..., change=...)`). Certificates have confidence 0.9999: a true total is refuted with
probability 1e-4."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn import envs, policies
from taciturn.bench.catalogue import load_studies
from taciturn.bench.comparisons.leakage import rows
from taciturn.bench.results import Group, Results
from taciturn.envs.core import Array
from taciturn.registry import worlds
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Budget,
    Laplace,
    LossyChannel,
    MessageLimit,
    Privatize,
    Stragglers,
    audit,
)
from taciturn.wrappers.changed_runs import Transcript

CONFIDENCE = 0.9999


def society(**changes: Any) -> Any:
    given: dict[str, Any] = {
        "num_agents": 6,
        "qualities": (0.8, 0.2),
        "copies": 8,
        "dissemination": "stationary",
        "horizon": 10,
    }
    return envs.social_bandit_v0.population(1, **(given | changes))


def gossip(**changes: Any) -> Any:
    given: dict[str, Any] = {"num_agents": 6, "qualities": (0.8, 0.2), "horizon": 5.0}
    return envs.gossip_bandit_v0.population(1, **(given | changes))


def private(env: Any, mechanism: Any) -> Any:
    return Privatize(env, channel=next(iter(env.channels)), mechanism=mechanism)


@dataclass(frozen=True)
class TooLittleNoise(BitwiseRandomizedResponse):
    """Claims epsilon and flips bits as if it were 40 times as large."""

    def perturb(self, x: Any, rng: np.random.Generator, sensitivity: Any = None) -> Array:
        return BitwiseRandomizedResponse(40 * self.epsilon).perturb(x, rng)


def test_who_speaks_tells_who_adopted() -> None:
    """At epsilon = 0.01 a message tells nothing, but an agent whose signals are all 1 speaks nearly always."""
    env = private(society(), BitwiseRandomizedResponse(0.01))
    found = audit(
        env, policy=policies.PrivateSocialLearning(beta=0.95), change=(0, 1), trials=400, confidence=CONFIDENCE
    )
    assert found.certified > 2 > 10 * 0.01
    assert found.claimed == np.inf


def test_an_agent_that_always_answers_reveals_no_more_than_its_answers() -> None:
    """At epsilon = 0.01 for each of some 40 answers the claim is so small that silence, of which 500 trials certify
    more than 2, would break it."""
    env = private(gossip(), BitwiseRandomizedResponse(0.01))
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=500, confidence=CONFIDENCE)
    assert 0 < found.claimed < 1
    assert found.certified <= found.claimed


def test_a_run_is_audited_against_all_that_its_agent_has_sent() -> None:
    """Both worlds differ in all rewards of an agent, which enter several messages; each of them enters one."""
    env = private(envs.federated_bandit_v0.population(1, num_agents=4, num_arms=3, horizon=300), Laplace(0.01))
    run = taciturn.simulate(env, policies.CDPMAB(), seed=0)
    event, user = (run.ledger.total(delta=0.0, method="basic", unit=unit).max() for unit in ("event", "user"))
    found = audit(env, policy=policies.CDPMAB(), change=(0, 1), trials=100, confidence=CONFIDENCE, seed=0)
    assert event == 0.01
    assert found.claimed > 20 * event
    assert found.claimed == pytest.approx(user, rel=0.5)


def test_too_little_noise_is_caught_in_a_run() -> None:
    society = {"horizon": 1.0, "num_agents": 3}
    env = private(gossip(**society), TooLittleNoise(0.05))
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=1000, confidence=CONFIDENCE)
    honest = private(gossip(**society), BitwiseRandomizedResponse(0.05))
    assert found.certified > 2 * audit(honest, policy=policies.PPCL(), change=(0, 1), trials=1000).certified
    assert found.verdict == "violated"


def test_answers_that_change_tell_that_the_preference_did() -> None:
    env = private(gossip(num_agents=3), taciturn.wrappers.Memoized(BitwiseRandomizedResponse(0.01)))
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=1000, confidence=CONFIDENCE)
    assert found.certified > 1
    assert found.claimed == np.inf


def test_every_world_with_a_channel_is_in_the_study() -> None:
    with_channels = {name for name, world in worlds().items() if world.population(1).channels}
    assert with_channels == {config["env"] for config in rows("data", quick=True)}


def test_the_transcript_by_hand() -> None:
    """Two sends of three agents in one replica; the agent is the second."""
    heard, rng = Transcript(1), np.random.default_rng(0)
    for y, sent in (([[0], [5], [7]], [True, False, True]), ([[1], [3], [8]], [True, True, False])):
        who = np.array([sent])
        heard.deliver(np.array([y]) * who[:, :, None], who, np.asarray(who.any(1)), {}, rng)
    spoke, number, last, messages = np.split(heard.features(None)[0], [16, 18, 19])
    np.testing.assert_array_equal(spoke, [0, 1] + [0] * 14)
    np.testing.assert_array_equal(number, [1, 3])
    np.testing.assert_array_equal(last, [2])
    np.testing.assert_allclose(messages, [3, 3, (0 + 7 + 1) / 3])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"change": (0, 1, 2)}, "change must be the agent's data in the two worlds"),
        ({"change": (0, 1), "agent": 6}, "agent must be"),
        ({"change": (0, 1), "unit": "event"}, "change must be None"),
        ({"change": (0, 1), "method": "white"}, "change must be None"),
        ({"change": (0, 1), "pair": {"preference": (0, 1)}}, "change must be None"),
        ({}, "pair must be"),
    ],
)
def test_what_cannot_be_audited(changes: dict[str, Any], words: str) -> None:
    env = private(gossip(), BitwiseRandomizedResponse(0.1))
    with pytest.raises(ValueError, match=words):
        audit(env, policy=policies.PPCL(), trials=100, **changes)


def test_worlds_without_channels_and_other_things() -> None:
    with pytest.raises(ValueError, match="env must have a channel"):
        audit(envs.round_stopping_v0.population(1), policy=policies.FixedCount(5), change=(0, 1))
    with pytest.raises(ValueError, match="change must be None unless"):
        audit(BitwiseRandomizedResponse(1.0), change=(0, 1))


@pytest.mark.parametrize("fault", [LossyChannel(1.0), Stragglers((0.0,)), MessageLimit(0)], ids=repr)
def test_faults_strike_before_the_attacker_listens(fault: Any) -> None:
    """Through a channel on which no message arrives, nothing is learned; through a clear one more than 1."""
    env = taciturn.wrappers.Faulty(private(gossip(), BitwiseRandomizedResponse(5.0)), "preference", fault)
    found = audit(env, policy=policies.PPCL(), change=(0, 1), trials=100, confidence=CONFIDENCE)
    assert found.certified == 0


@pytest.mark.parametrize("fault", [LossyChannel(0.99), Stragglers((0.01,))], ids=repr)
def test_faults_strike_before_a_canary_is_heard(fault: Any) -> None:
    pair = {"preference": (np.array([1, 0]), np.array([0, 1]))}
    clear = private(gossip(horizon=0.3), BitwiseRandomizedResponse(5.0))
    heard, lost = (
        audit(env, pair, policy=policies.PPCL(), trials=1000, confidence=CONFIDENCE).certified
        for env in (clear, taciturn.wrappers.Faulty(clear, "preference", fault))
    )
    assert lost < 0.5 < 1 < heard


@pytest.mark.parametrize(
    ("certified", "total", "cap", "verdict"),
    [(1.0, 3.0, 5.0, "holds"), (4.0, 3.0, 5.0, "refuted"), (1.0, 5.0, 5.0, "no power"), (1.0, np.inf, 5.0, "no total")],
)
def test_a_total_holds_only_if_the_attack_could_have_refuted_it(
    certified: float, total: float, cap: float, verdict: str
) -> None:
    config: dict[str, Any] = {
        "env": "gossip_bandit_v0",
        "env_params": {},
        "policies": {"PPCL": {}},
        "privacy": None,
    }
    known = {"certified": certified, "total": total, "cap": cap, "expected": np.inf, "spent": total, "moved": 1.0}
    metrics = {name: np.array([x]) for name, x in known.items()}
    (table,) = load_studies()["leakage"].tables(Results([Group(config, np.arange(1), metrics, {}, np.ones(1))])) or []
    assert [row[-2] for row in table.rows] == [verdict]


@pytest.mark.filterwarnings("error")
def test_a_budget_limits_what_a_run_tells() -> None:
    """One answer at epsilon = 1 fits into a total of 1; all that an agent would give certify more than that."""
    env = private(gossip(horizon=2.5), BitwiseRandomizedResponse(1.0))
    brief = Privatize(gossip(horizon=2.5), "preference", BitwiseRandomizedResponse(1.0), Budget(1.0))
    whole, one = (
        audit(x, policy=policies.PPCL(), change=(0, 1), trials=1000, confidence=CONFIDENCE) for x in (env, brief)
    )
    assert one.claimed <= 1 < whole.claimed
    assert one.certified < 1 < whole.certified
