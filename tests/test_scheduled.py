"""`Scheduled`: zeros, then one answer that is repeated, at the cost of one answer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.envs import gossip_bandit_v0, social_bandit_v0
from taciturn.policies import CopyOnReward, IsolatedThompson
from taciturn.privacy.mechanisms import (
    BitwiseRandomizedResponse,
    KaryRandomizedResponse,
    Laplace,
    Scheduled,
    UnaryEncoding,
)
from taciturn.privacy.repeated import ScheduledState
from taciturn.wrappers import Budget, MessageLimit, Privatize, audit
from taciturn.wrappers.channels import Faulty

ALPHA = 1e-4


def test_zeros_then_one_answer_for_good() -> None:
    """Each agent counts the messages that it sends itself."""
    mechanism, rng = Scheduled(BitwiseRandomizedResponse(0.01), at=3), np.random.default_rng(0)
    state, sent = mechanism.start((2, 50)), np.zeros((2, 50), np.int64)
    first = np.zeros((2, 50, 8), np.int64)
    for _ in range(12):
        x = np.eye(8, dtype=np.int64)[rng.integers(0, 8, (2, 50))]
        where = rng.random((2, 50)) < 0.6
        y = mechanism.step(x, rng, state, where=where)
        sent += where
        drawn = where & (sent == 3)
        first[drawn] = y[drawn]
        np.testing.assert_array_equal(state.fresh, drawn)
        np.testing.assert_array_equal(y, first)
    assert (sent >= 3).all()
    assert len({tuple(bits) for bits in first.reshape(-1, 8).tolist()}) > 50, "drawn one by one, at next to no epsilon"
    state.reset(np.array([True, False]))
    y = mechanism.step(x, rng, state)
    assert not y[0].any()
    np.testing.assert_array_equal(y[1], first[1])


@pytest.mark.parametrize("inner", [KaryRandomizedResponse(1.0, 4), Laplace(1.0), UnaryEncoding(1.0)], ids=repr)
def test_the_answer_has_the_law_of_its_mechanism(inner: Any) -> None:
    mechanism, rng, agents = Scheduled(inner, at=2), np.random.default_rng(0), 30_000
    values = np.tile([0, 1, 0, 0], (agents, 1)) if inner.payload_dims else np.ones(agents, np.int64)
    told = np.full(agents, 2.0) if isinstance(inner, Laplace) else None
    state = mechanism.start((agents,))
    mechanism.step(0 * values, rng, state, sensitivity=told)
    y = mechanism.step(values, rng, state, sensitivity=told)
    plain = inner.perturb(values, np.random.default_rng(1), told)
    if isinstance(inner, Laplace):
        assert stats.kstest((y - 1) / 2, "laplace").pvalue > ALPHA
    else:
        shown = [np.unique(one.reshape(agents, -1), axis=0, return_counts=True) for one in (y, plain)]
        np.testing.assert_array_equal(shown[0][0], shown[1][0])
        assert stats.chi2_contingency([shown[0][1], shown[1][1]]).pvalue > ALPHA
    assert (mechanism.epsilon, mechanism.loss(), mechanism.kind) == (inner.epsilon, inner.loss(), inner.kind)


GOSSIP = gossip_bandit_v0.population(3, num_agents=5, qualities=(0.9, 0.2), horizon=20.0, without_preference="zeros")
SOCIAL = social_bandit_v0.population(3, num_agents=5, num_options=3, horizon=40, without_preference="zeros")


@pytest.mark.parametrize("env", [GOSSIP, SOCIAL], ids=lambda env: env.name)
@pytest.mark.parametrize(("epsilon", "at"), [(3.0, 10), (1.0, 1)])
def test_a_run_costs_one_answer(env: Any, epsilon: float, at: int) -> None:
    distribution = Scheduled(BitwiseRandomizedResponse(epsilon), at=at)
    run = taciturn.simulate(Privatize(env, "preference", distribution), IsolatedThompson(), seed=0)
    assert (run.accountant.channels["preference"].messages() > 30).all()
    for unit in ("event", "user", None):
        np.testing.assert_array_equal(run.accountant.epsilon(0.0, method="basic", unit=unit), epsilon)
    np.testing.assert_array_equal(run.metrics["epsilon_basic"], epsilon)
    if "epsilon_per_requester" in run.metrics:
        np.testing.assert_array_equal(run.metrics["epsilon_per_requester"], epsilon)


def test_nothing_is_charged_before_the_answer_and_a_budget_of_one_is_enough() -> None:
    distribution = Scheduled(BitwiseRandomizedResponse(3.0), at=10)
    brief = Faulty(Privatize(GOSSIP, "preference", distribution), "preference", MessageLimit(9))
    rich = Privatize(GOSSIP, "preference", distribution, Budget(3.0))
    for env, total, most in ((brief, 0.0, 9), (rich, 3.0, 1000)):
        run = taciturn.simulate(env, IsolatedThompson(), seed=0)
        np.testing.assert_array_equal(run.accountant.epsilon(0.0, method="basic"), total)
        assert (run.accountant.channels["preference"].messages() <= most).all()


@dataclass(frozen=True)
class Redrawn(Scheduled):
    """Claims one answer, and draws each one anew."""

    def step(self, x: Any, rng: Any, state: Any = None, **given: Any) -> Any:
        y = super().step(x, rng, state, **given)
        assert isinstance(state, ScheduledState)
        answered = state.sent >= self.at
        return np.where(answered[..., None], self.mechanism.perturb(x, rng), y)


def test_audits_of_whole_runs() -> None:
    """All that one agent observes differs. The claim holds, answers are told apart nevertheless, and those that are
    drawn anew break it. Certificates have confidence 0.9999."""
    found = {}
    for kind in (Scheduled, Redrawn):
        env = gossip_bandit_v0.population(1, num_agents=4, qualities=(0.9, 0.1), horizon=5.0)
        private = Privatize(env, "preference", kind(BitwiseRandomizedResponse(2.0), at=4))
        found[kind] = audit(private, policy=CopyOnReward(), change=(0, 1), trials=1200, confidence=0.9999)
        assert found[kind].claimed == 2.0
    assert 0.5 < found[Scheduled].certified <= 2.0
    assert found[Redrawn].verdict == "violated"


def test_what_comes_from_elsewhere_is_refused() -> None:
    mechanism, rng = Scheduled(BitwiseRandomizedResponse(1.0), at=2), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"state must come from Scheduled\.start, not be None"):
        mechanism.step(np.zeros((2, 3), int), rng)
    state = mechanism.start((2,))
    with pytest.raises(ValueError, match=r"x must be of the shape of the agents \(2,\), not \(3, 3\)"):
        mechanism.step(np.zeros((3, 3), int), rng, state)
    assert not state.sent.any()
    with pytest.raises(ValueError, match="mechanism must be one without state"):
        Scheduled(mechanism)
