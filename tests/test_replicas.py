"""Replicas that end at different times: Gymnasium's autoreset modes, frozen replicas, partial resets."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import worlds as tiny
from cases import CASES, MADE

from taciturn.envs.core import Controlled
from taciturn.policies import Random
from taciturn.testing.cases import chosen, of, random_actions


def test_without_autoreset_an_ended_replica_refuses_to_step() -> None:
    env = CASES["corridor"].vector_env(num_envs=3, autoreset_mode="Disabled")
    env.reset(seed=0)
    while not env.population.done.any():
        env.step(np.full(3, 2))
    state = env.population.state
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"replicas \[.*\] are done: reset\(options="):
        env.step(np.full(3, 2))
    assert env.population.state is state


def test_reset_mask_must_mark_some_replica() -> None:
    env = CASES["corridor"].vector_env(num_envs=2)
    env.reset(seed=0)
    for mask in (np.zeros(2, np.bool_), np.ones(3, np.bool_), np.ones(2)):
        with pytest.raises(ValueError, match=r"reset_mask must mark|where must be bool\[2\]"):
            env.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("name", ["corridor", "round_stopping_v0"])
def test_the_checks_of_autoreset_meet_replicas_that_end_apart(name: str) -> None:
    population, rng = CASES[name].population(num_envs=3), np.random.default_rng(0)
    population.reset(seed=0)
    apart = False
    for _ in range(200):
        population.step(chosen(population, random_actions(population, rng)))
        apart |= bool(population.done.any() and not population.done.all())
        population.reset(where=population.done)
    assert apart


@pytest.mark.parametrize("role", ["platform", "individual"])
def test_controlled_role_meets_the_others(role: str) -> None:
    """One step of the controlled role and the others' turn are two turns of the world, with the same luck."""
    case = CASES[role]
    population, inner = case.population(num_envs=2), tiny.auction_v0.population(num_envs=2)
    assert isinstance(population, Controlled)
    (other,) = population.others
    policy, rng = Random(), np.random.default_rng(0)
    observation, _ = population.reset(seed=3)
    expected, _ = inner.reset(seed=3)
    policy.reset(inner, inner.stream(f"policy/{other}"), other)
    if role == "individual":
        expected, *_ = inner.step({other: policy.act(expected[other])})
    np.testing.assert_array_equal(observation, expected[role])
    while not population.done.all():
        actions = random_actions(population, rng)[role]
        step = population.step(actions)
        first = inner.step({role: actions})
        earned = first.reward[role].copy()
        if not inner.done.all():
            second = inner.step({other: policy.act(first.observation[other])})
            earned += second.reward.get(role, 0.0)
            np.testing.assert_array_equal(step.observation, second.observation[role])
        np.testing.assert_array_equal(step.reward, earned)
        np.testing.assert_array_equal(step.truncated, inner.truncated)
    assert population.clock().tolist() == [12, 12]


@pytest.mark.parametrize("role", ["platform", "individual"])
def test_controlled_partial_reset(role: str) -> None:
    population, rng = CASES[role].population(num_envs=3), np.random.default_rng(0)
    population.reset(seed=3)
    for _ in range(4):
        population.step(random_actions(population, rng)[role])
    before = [of(population.state, i) for i in range(3)]
    where = np.array([False, True, False])
    for bad in ({"where": where[:2]}, {"where": where, "seed": -1}):
        with pytest.raises(ValueError, match=r"where must be|seed must be"):
            population.reset(**bad)
    for mask in (np.zeros(3, np.bool_), where):
        population.reset(where=mask)
        for i in np.flatnonzero(~mask).tolist():
            np.testing.assert_equal(of(population.state, i), before[i])
    assert population.clock().tolist() == [4, 0, 4]
    assert role == "platform" or population.state.price[1] > 0
    while not population.done.all():
        population.step(random_actions(population, rng)[role])
    assert population.clock().tolist() == [12, 12, 12]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("name", MADE)
def test_a_vector_of_replicas_in_different_phases_is_its_population_reset_by_hand(name: str, mode: str) -> None:
    """Step by step, each replica with what it saw last, what it earned and what it sees first."""
    case = CASES[name]
    env: Any = case.make_vec(num_envs=3, autoreset_mode=mode)
    plain: Any = case.make_vec(num_envs=3).unwrapped.population  # type: ignore[attr-defined]
    env.action_space.seed(0)
    shown, expected = env.reset(seed=0)[0], plain.reset(seed=0)[0][:, 0]
    phases, waiting = set(), np.zeros(3, np.bool_)
    for _ in range(150):
        np.testing.assert_array_equal(shown, expected)
        actions = env.action_space.sample()
        shown, reward, terminated, truncated, info = env.step(actions)
        earned = np.zeros(3)
        if not waiting.all():
            step = plain.step(np.asarray(actions)[:, None])
            expected, earned = step.observation[:, 0].copy(), np.where(waiting, 0.0, step.reward[:, 0])
        np.testing.assert_array_equal(reward, earned)
        np.testing.assert_array_equal(terminated, plain.terminated & ~waiting)
        np.testing.assert_array_equal(truncated, plain.truncated & ~waiting)
        over = plain.done & ~waiting
        phases.add(int(over.sum()))
        if mode == "SameStep":
            np.testing.assert_array_equal(info.get("_final_obs", np.zeros(3, np.bool_)), over)
            for i in np.flatnonzero(over):
                np.testing.assert_array_equal(info["final_obs"][i], expected[i])
        begins = over if mode == "SameStep" else waiting
        if begins.any():
            expected[begins] = plain.reset(where=begins)[0][begins, 0]
        waiting = over if mode == "NextStep" else np.zeros(3, np.bool_)
    assert phases - {0}, "some end"
