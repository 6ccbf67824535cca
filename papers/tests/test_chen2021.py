"""The mean-field limit of Chen et al. 2021: in closed form without noise, and against agents with noise."""

import math

import numpy as np
import pytest

import taciturn
from taciturn.envs import gossip_bandit_v0
from taciturn.policies import PPCL
from taciturn.wrappers import BitwiseRandomizedResponse
from taciturn_papers.chen2021.mean_field import (
    extinction_leak,
    first_moves,
    first_passage,
    lemma_1,
    lemma_3,
    mean_field,
)


def test_without_noise_two_options_follow_the_logistic_curve_to_the_threshold() -> None:
    # Below 1 - 1/(2K) = 3/4, dY/dt = Y (1 - Y) (phi_1 - phi_2); from there the holders keep theirs and dZ/dt = -Z Y
    # phi_1 for Z = 1 - Y.
    times, shares = mean_field((0.8, 0.2), 12, epsilon=None, num_agents=400, draws=2, step=0.005)
    reach = math.log(3) / 0.6
    before = times < reach
    assert before.any()
    np.testing.assert_allclose(shares[before], 1 / (1 + np.exp(-0.6 * times[before])), atol=2e-3)
    np.testing.assert_allclose(shares[~before], 1 / (1 + np.exp(-0.8 * (times[~before] - reach)) / 3), atol=4e-3)


@pytest.mark.parametrize(("num_agents", "epsilon"), [(100, 1.0), (400, 0.5)])
def test_the_limit_settles_where_the_agents_do(num_agents: int, epsilon: float) -> None:
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
    np.testing.assert_allclose(first_passage(curves, 0.65), [2.5, math.inf])
    np.testing.assert_allclose(first_passage(curves, 0.1), [0.5, 1.0])


def test_the_leak_is_what_clipped_noise_leaves_to_options_without_supporters() -> None:
    # Three options at 0 whose estimates are clipped normal deviates; q = 1/(e^(eps/2) + 1).
    q = 1 / (math.exp(0.5) + 1)
    sd = math.sqrt(q * (1 - q) / 100) / (1 - 2 * q)
    drawn = np.maximum(sd * np.random.Generator(np.random.PCG64(0)).standard_normal((200_000, 3)), 0).sum(1)
    leak, bound = extinction_leak(4, 100, 1.0)
    assert bound == 1 / 7
    assert abs(drawn.mean() - leak) < 4.5 * drawn.std() / math.sqrt(len(drawn))


def test_the_next_move_of_the_best_option_is_that_of_agents() -> None:
    """Five agents without noise, one step at a time, until the first of three options gains or loses one."""
    qualities, state, runs = (0.9, 0.6, 0.1), (2, 2, 1), 4000
    env = gossip_bandit_v0.population(
        runs,
        num_agents=5,
        qualities=qualities,
        initial_preferences=np.repeat(np.arange(3), state).tolist(),
        horizon=99.0,
    )
    policy, first = PPCL(), np.full(runs, 0)
    env.reset(seed=5)
    policy.reset(env, env.stream("policy/agent"))
    while not first.all():
        env.step(policy.act(env.observe()))
        moved = env.measure("popularity")[:, 0] * 5 - state[0]
        first = np.where(first == 0, np.sign(np.round(moved)), first)
    up, bound = first_moves(qualities, 5, 2)[state]
    assert bound == pytest.approx(3 * 0.9 / (3 * 0.9 + 2 * 0.6 + 0.1))
    assert abs((first == 1).mean() - up) < 4.5 * math.sqrt(up * (1 - up) / runs)
    assert abs(up - bound) > 1e-3
    assert min(one for one, _ in first_moves(qualities, 5, 2).values()) >= 0.9 / (0.9 + 0.6) - 1e-12
    assert lemma_1(qualities, 5) == pytest.approx(1)


def test_lemma_3_without_noise_and_bit_by_bit() -> None:
    """In closed form without noise; with noise from the bits of 40 agents, and what the agent that asks then does."""
    qualities = (0.95, 0.65, 0.35, 0.05)
    assert lemma_3(qualities, 400, None)[0] == pytest.approx(0.95 / (0.95 + 0.65))
    least, held = lemma_3(qualities, 40, 3.0)
    rng, q, asks = np.random.Generator(np.random.PCG64(8)), 1 / (math.exp(1.5) + 1), 100_000
    own = rng.random(asks) * 40 >= held  # whether the agent that asks prefers the second option
    prefers = np.repeat([0, 1], [held, 40 - held])
    counts = np.zeros((asks, 4))
    for one in prefers:
        counts += (np.arange(4) == one) != (rng.random((asks, 4)) < q)
    unbiased = np.clip((counts / 40 - q) / (1 - 2 * q), 0, 1)
    estimate = unbiased / unbiased.sum(1, keepdims=True)
    tried = (rng.random((asks, 1)) > estimate.cumsum(1)).sum(1).clip(max=3)
    adopts = (estimate < 7 / 8).all(1) & (rng.random(asks) < np.array(qualities)[tried])
    up, down = (adopts & own & (tried == 0)).sum(), (adopts & ~own & (tried > 0)).sum()
    assert up + down > 1000
    assert abs(up / (up + down) - least) < 4.5 * math.sqrt(least * (1 - least) / (up + down)) + 0.02
    assert least < 0.3
