"""The evolution strategy finds minima, and its path, step and covariance follow its equations."""

import math

import numpy as np
import pytest

from taciturn.envs.core import Array
from taciturn.policies.learned.evolution import CovarianceAdaptation


def rotated(n: int) -> Array:
    return np.linalg.qr(np.random.default_rng(1).standard_normal((n, n)))[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_strategy_finds_the_minimum_of_a_rotated_ellipsoid(seed: int) -> None:
    """Hansen and Ostermeier's test function; without adapting covariances, as many draws do not get there."""
    n, turn = 5, rotated(5)
    scales, goal = 10.0 ** np.linspace(0, 2, n), np.arange(n) - 1.5

    def cost(x: Array) -> Array:
        return (((x - goal) @ turn * scales) ** 2).sum(-1)

    strategy = CovarianceAdaptation(np.zeros(n), 0.5, np.random.default_rng(seed))
    for _ in range(350):
        strategy.tell(cost(strategy.ask()))
    np.testing.assert_allclose(strategy.mean, goal, atol=1e-6)
    assert strategy.step < 1e-3


def test_the_step_grows_on_a_slope_and_the_best_half_decides() -> None:
    strategy = CovarianceAdaptation(np.zeros(4), 0.1, np.random.default_rng(0), population=8)
    for _ in range(30):
        strategy.tell(strategy.ask()[:, 0])
    assert strategy.step > 10
    assert strategy.mean[0] < -100
    one = CovarianceAdaptation(np.zeros(2), 1.0, np.random.default_rng(0), population=4)
    drawn = one.ask()
    one.tell(np.array([3.0, 1.0, 2.0, 4.0]))
    raw = np.log(2.5) - np.log([1.0, 2.0])
    np.testing.assert_allclose(one.mean, (raw[0] * drawn[1] + raw[1] * drawn[2]) / raw.sum())


def test_the_path_of_the_step_is_of_standard_normal_draws() -> None:
    """Equation 31 of the tutorial: C^(-1/2) <y>, whatever the covariances; by the normal numbers behind the draws."""
    strategy = CovarianceAdaptation(np.zeros(3), 1.0, np.random.default_rng(3), population=6)
    turn = rotated(3)
    strategy._covariance = turn @ np.diag([100.0, 1.0, 0.04]) @ turn.T
    normal, drawn = np.random.default_rng(3).standard_normal((6, 3)), strategy.ask()
    np.testing.assert_allclose(drawn, normal @ (turn @ np.diag([10.0, 1.0, 0.2]) @ turn.T), err_msg="a symmetric root")
    costs = drawn[:, 0] - 2 * drawn[:, 1]
    strategy.tell(costs)
    raw = np.log(3.5) - np.log([1.0, 2.0, 3.0])
    weights = raw / raw.sum()
    mass = 1 / (weights**2).sum()
    rate = (mass + 2) / (3 + mass + 5)
    mean = weights @ normal[np.argsort(costs)[:3]]
    length = np.sqrt(rate * (2 - rate) * mass) * np.linalg.norm(mean)
    np.testing.assert_allclose(np.linalg.norm(strategy._step_path), length)
    expected = np.sqrt(2) * math.gamma(2.0) / math.gamma(1.5)  # of the length of three normal numbers
    damping = 1 + 2 * max(0.0, np.sqrt((mass - 1) / 4) - 1) + rate
    assert strategy.step == pytest.approx(np.exp(rate / damping * (length / expected - 1)), rel=5e-3)
