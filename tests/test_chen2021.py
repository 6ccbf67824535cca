"""The second way of paper 000's figures: its limit without noise in closed form, and where noise takes it."""

import math

import numpy as np
import pytest

import taciturn
from taciturn.bench.papers.chen2021 import mean_field, when
from taciturn.envs import gossip_bandit_v0
from taciturn.policies import PPCL
from taciturn.wrappers import BitwiseRandomizedResponse


def test_without_noise_two_options_follow_the_logistic_curve_to_the_threshold() -> None:
    # Below 1 - 1/(2K) = 3/4, dY/dt = Y (1 - Y) (phi_1 - phi_2); from there the holders keep theirs and dZ/dt = -Z Y phi_1 for Z = 1 - Y.
    times, shares = mean_field((0.8, 0.2), 12, epsilon=None, num_agents=400, draws=2, step=0.005)
    reach = math.log(3) / 0.6
    before = times < reach
    assert before.any()
    np.testing.assert_allclose(shares[before], 1 / (1 + np.exp(-0.6 * times[before])), atol=2e-3)
    np.testing.assert_allclose(shares[~before], 1 / (1 + np.exp(-0.8 * (times[~before] - reach)) / 3), atol=4e-3)


@pytest.mark.parametrize(("num_agents", "epsilon"), [(100, 1.0), (400, 0.5)])
def test_noise_takes_the_limit_where_it_takes_the_agents(num_agents: int, epsilon: float) -> None:
    qualities = (0.95, 0.65, 0.35, 0.05)
    _, shares = mean_field(qualities, 40, epsilon=epsilon, num_agents=num_agents)
    env = gossip_bandit_v0.population(60, num_agents=num_agents, qualities=qualities)
    run = taciturn.simulate(
        env, PPCL(), seed=0, until=[40.0], record=["best"], privacy={"preference": BitwiseRandomizedResponse(epsilon)}
    )
    assert shares[-1] < 0.97
    assert abs(run.trace["best"].mean() - shares[-1]) < 0.03


def test_when_a_curve_reaches_a_level() -> None:
    x = np.array([1.0, 2.0, 3.0])
    curves = [(x, np.array([0.2, 0.4, 0.9])), (x, np.array([0.1, 0.2, 0.3]))]
    np.testing.assert_allclose(when(curves, 0.65), [2.5, math.inf])
    np.testing.assert_allclose(when(curves, 0.1), [0.5, 1.0])
