"""The world of docs/new_world.md passes the tests of every registered world, and does what the page says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import by_kind, run_all
from contextual_world import SharedGreedy, contextual_bandit_v0, count

import taciturn
from taciturn.policies import Random
from taciturn.testing import Case, Check, policy_checks, world_checks
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
    Faulty,
    Gaussian,
    Laplace,
    LossyChannel,
    Privatize,
    TreeAggregation,
)

ROOT = Path(__file__).parent.parent
WORLD = "contextual_world:contextual_bandit_v0"
SMALL = Case(WORLD, {"num_agents": 3, "period": 5, "horizon": 40}, privacy={"counts": Laplace(1.0)}, others="Random")


@pytest.mark.api
@pytest.mark.parametrize("checks", by_kind("contextual", world_checks(SMALL)))
def test_it_passes_what_every_world_passes(checks: list[Check]) -> None:
    run_all(checks)


@pytest.mark.parametrize("check", policy_checks("contextual_world:SharedGreedy", WORLD, SMALL.params), ids=str)
def test_its_policy_passes_what_every_policy_passes(check: Check) -> None:
    check()


def test_counts_by_hand() -> None:
    """Two contexts, three arms: one pull wins with arm 2 in context 1, another loses with arm 0 in context 0."""
    won, lost = np.zeros((2, 12))
    count(won, 5, 1.0)
    count(lost, 0, 0.0)
    assert won.tolist() == [0, 0, 0, 0, 0, 1] * 2
    assert lost.tolist() == [1, 0, 0, 0, 0, 0] + [0] * 6
    assert np.abs(won - lost).sum() <= 4, "the sensitivity that the world states"


def test_everything_is_shared_once() -> None:
    env = SMALL.population(2)
    total = np.zeros((2, 3))
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    while not env.done.all():
        total += env.step(rng.integers(0, 4, (2, 3))).reward
    pulls, wins = np.split(env.state.sums, 2, axis=1)
    np.testing.assert_array_equal(pulls.sum(1), [3 * 40] * 2)
    np.testing.assert_array_equal(wins.sum(1), total.sum(1))
    assert not env.state.counts.any()


def test_shared_counts_help_and_noise_hurts() -> None:
    """Means of 50 runs, several standard errors apart; noise changes neither contexts nor means."""
    env = contextual_bandit_v0.population(50)
    regret = {}
    for name, epsilon in (("none", np.inf), ("weak", 1.0), ("strong", 0.1)):
        privacy = {"counts": Laplace(epsilon)} if np.isfinite(epsilon) else None
        regret[name] = taciturn.simulate(env, SharedGreedy(), seed=0, privacy=privacy).metrics["regret"]
    regret["random"] = taciturn.simulate(env, Random(), seed=0).metrics["regret"]
    lost = [regret[name].mean() for name in ("none", "weak", "strong", "random")]
    assert np.all(np.diff(lost[:3]) > 15)
    assert lost[1] < 0.8 * lost[3]


def test_accountant() -> None:
    """Eight messages each: one pull enters one of them, and a user's whole history is 40 pulls."""
    env = SMALL.population(2)
    run = taciturn.simulate(env, SharedGreedy(), seed=0, privacy={"counts": Laplace(0.5)})
    assert run.metrics["messages"].tolist() == [3 * 8] * 2
    assert run.metrics["epsilon_message"].tolist() == run.metrics["epsilon_basic"].tolist() == [0.5] * 2
    assert run.accountant.epsilon(delta=0.0, method="basic", unit="user").max() == 0.5 * 40
    bare = taciturn.simulate(env, SharedGreedy(), seed=0)
    assert np.isinf(bare.metrics["epsilon_basic"]).all()
    np.testing.assert_array_equal(bare.metrics["messages"], run.metrics["messages"])


def test_it_has_no_fast_form_to_differ_from() -> None:
    env = SMALL.population(2)
    runs = [taciturn.simulate(env, SharedGreedy(), seed=3, fast=fast).metrics for fast in (True, False)]
    np.testing.assert_equal(runs[0], runs[1])


def test_what_may_stand_on_its_channel() -> None:
    env = SMALL.population(2)
    for mechanism in (Laplace(1.0), Gaussian(epsilon=1.0, delta=1e-6)):
        run = taciturn.simulate(Privatize(env, "counts", mechanism), SharedGreedy(), seed=0)
        assert np.isfinite(run.accountant.epsilon(delta=1e-5, method="zcdp")).all()
    for refused in (BitwiseRandomizedResponse(1.0), TreeAggregation(1.0, horizon=8)):
        with pytest.raises(ValueError, match="mechanism on channel 'counts' must add fresh noise to numbers"):
            Privatize(env, "counts", refused).reset(seed=0)
    lossy = Faulty(env, "counts", LossyChannel(1.0))
    taciturn.simulate(lossy, SharedGreedy(), seed=0)
    assert not lossy.state.sums.any(), "every message was lost"


@pytest.mark.parametrize(
    ("parameter", "value"), [("num_agents", 0), ("num_contexts", 1), ("num_arms", 1.5), ("period", 0), ("horizon", "x")]
)
def test_parameters_are_checked(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{parameter} must be an integer >= "):
        contextual_bandit_v0.population(**{parameter: value})


def test_the_page_gives_the_numbers_of_its_code() -> None:
    page = (ROOT / "docs/new_world.md").read_text(encoding="utf-8")
    env, lost = contextual_bandit_v0.population(20), []
    for noise in (None, Laplace(1.0), Laplace(0.3)):
        run = taciturn.simulate(env, SharedGreedy(), seed=0, privacy={"counts": noise} if noise else None)
        lost.append(round(run.metrics["regret"].mean()))
    assert (
        f"regret after 500 pulls is {lost[0]} without noise, {lost[1]} at epsilon = 1 per message, and {lost[2]} at "
        "epsilon = 0.3" in " ".join(page.split())
    )
    lines = (ROOT / "examples/contextual_world.py").read_text(encoding="utf-8").splitlines()
    assert f"{sum(bool(line.strip()) for line in lines)} lines without blank ones" in page
