"""Learners of the federated bandit: they beat UCB1 without communication, do not depend on arm numbers, and are
reproducible."""

from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import arm_elimination_v0, federated_bandit_v0, round_stopping_v0
from taciturn.policies import UCB1, LearnedElimination, LearnedPulls
from taciturn.wrappers import Laplace

pytest.importorskip("stable_baselines3")

INSTANCE: dict[str, Any] = {"num_agents": 5, "num_arms": 10, "qualities": "uniform"}
RUNS = 200
# Quantile of the standard normal, exceeded with probability 3.2e-5.
Z = 4.0


def regret(world: Any, policy: Any, **instance: Any) -> np.ndarray:
    """Regret per agent in 200 runs, with the same arms for every policy; none of them occurs in training."""
    population = world.population(RUNS, **INSTANCE, **instance)
    return np.asarray(taciturn.simulate(population, policy, seed=99).metrics["regret_per_agent"])


def advantage(learner: Any, world: Any, **instance: Any) -> tuple[float, float]:
    """Confidence interval for the reduction in regret relative to UCB1 without communication, with error 3.2e-5 on
    either side."""
    learner.train(world.population(**INSTANCE, **instance))
    less = regret(federated_bandit_v0, UCB1(), **instance) - regret(world, learner, **instance)
    error = Z * less.std(ddof=1) / np.sqrt(RUNS)
    return float(less.mean() - error), float(less.mean() + error)


def test_a_coordinator_learns_to_beat_agents_alone() -> None:
    """10,000 slots, after less than a third of the default training; the study has 10 training seeds."""
    assert advantage(LearnedElimination(60_000, seed=0), arm_elimination_v0, horizon=10_000)[0] > 0


def test_agents_learn_to_beat_agents_alone() -> None:
    """200 slots, after a seventh of the default training; the study has 10 training seeds at 500 slots."""
    slots = {"horizon": 200, "server_link_cost": 1.0}
    assert advantage(LearnedPulls(300_000, seed=0), federated_bandit_v0, **slots)[0] > 0


def test_without_learning_they_lose() -> None:
    """Untrained networks fail the tests above (training that is shorter than a rollout changes no weights)."""
    slots = {"horizon": 200, "server_link_cost": 1.0}
    assert advantage(LearnedElimination(1), arm_elimination_v0, horizon=10_000)[1] < 0
    assert advantage(LearnedPulls(1), federated_bandit_v0, **slots)[1] < 0


def brief(learner: Any, **more: Any) -> Any:
    return learner(2_000, num_envs=2, **more)


WORLDS: list[tuple[Any, Any]] = [(LearnedElimination, arm_elimination_v0), (LearnedPulls, federated_bandit_v0)]


@pytest.mark.parametrize(("learner", "world"), WORLDS)
def test_same_seed_same_run(learner: Any, world: Any) -> None:
    population = world.population(3, **INSTANCE, horizon=60)
    policies = [brief(learner, seed=seed) for seed in (0, 0, 1)]
    rewards = [taciturn.simulate(population, policy, seed=5).metrics["reward"] for policy in policies]
    np.testing.assert_array_equal(rewards[0], rewards[1])
    assert policies[0].history == policies[1].history != policies[2].history


@pytest.mark.parametrize(("learner", "world"), WORLDS)
def test_learns_under_the_privacy_it_acts_under(learner: Any, world: Any) -> None:
    population = world.population(3, **INSTANCE, horizon=60)
    policy = brief(learner)
    taciturn.simulate(population, policy, seed=5, privacy={"means": Laplace(epsilon=2.0)})
    rows = policy._model.get_env().venv
    assert rows.population.channels["means"].config.mechanism == Laplace(epsilon=2.0)
    assert len(policy.history) >= 1


@pytest.mark.parametrize(("learner", "world"), WORLDS)
def test_arms_may_be_numbered_otherwise(learner: Any, world: Any) -> None:
    """If arms are permuted, so are the decisions."""
    population = world.population(8, **INSTANCE, horizon=400)
    policy = brief(learner)
    population.reset(seed=1)
    policy.reset(population, np.random.Generator(np.random.PCG64(0)))
    for _ in range(2):
        population.advance(policy, steps=1)
    obs = population.observe().reshape(-1, population.roles[policy.role].layout.size)
    order, fields = np.random.Generator(np.random.PCG64(3)).permutation(10), population.roles[policy.role].layout
    other = obs.copy()
    for name, part in fields.slices.items():
        if fields.fields[name][0] == 10:
            other[:, part] = obs[:, part][:, order]
    if learner is LearnedElimination:
        np.testing.assert_array_equal(policy.act(obs[:, None]), policy.act(other[:, None]))
        return
    import torch

    score = policy._model.policy.mlp_extractor.forward_actor
    one, two = (score(torch.as_tensor(policy.features(x))).detach().numpy().reshape(-1, 2, 10) for x in (obs, other))
    np.testing.assert_allclose(one[:, :, order], two, atol=1e-6)
    assert np.ptp(one, axis=2).max() > 1e-5


def test_uploads_fall_in_the_same_slots() -> None:
    """Agents upload only at the end of every tenth slot, and one network acts for any number of arms and agents."""
    policy = brief(LearnedPulls, every=10)
    policy.train(federated_bandit_v0.population(**INSTANCE, horizon=60))
    population = federated_bandit_v0.population(4, num_agents=3, num_arms=7, horizon=60, server_link_cost=1.0)
    run = taciturn.simulate(population, policy, seed=2, until=np.arange(1, 61), record=["transmissions"])
    sent = np.diff(run.trace["transmissions"][:, :], axis=0, prepend=0)
    assert (sent[9::10] > 0).any()
    assert not np.delete(sent, np.arange(9, 60, 10), axis=0).any()


@pytest.mark.parametrize("arms", [1, 2])
def test_few_arms_and_one_agent(arms: int) -> None:
    for learner, world in WORLDS:
        metrics = taciturn.simulate(
            world.population(2, num_agents=1, num_arms=arms, horizon=30), brief(learner), seed=0
        ).metrics
        assert np.isfinite(metrics["regret"]).all()


def test_bad_worlds() -> None:
    stopping = round_stopping_v0.population()
    slots, epochs = (world.population(**INSTANCE, horizon=60) for world in (federated_bandit_v0, arm_elimination_v0))
    for learner, wrong, name in (
        (LearnedElimination, slots, "arm_elimination, not in 'federated_bandit'"),
        (LearnedPulls, epochs, "federated_bandit, not in 'arm_elimination'"),
        (LearnedPulls, stopping, "federated_bandit, not in 'round_stopping'"),
    ):
        with pytest.raises(ValueError, match=f"{learner.__name__} acts in {name}"):
            learner().train(wrong)
    policy = brief(LearnedElimination).train(epochs)
    with pytest.raises(ValueError, match="LearnedElimination was trained on 10 arms, not on 4"):
        taciturn.simulate(arm_elimination_v0.population(num_arms=4, horizon=60), policy, seed=0)
