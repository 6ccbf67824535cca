"""The Bayesian agents of the recommender: their model is the environment's, and their posterior is correct."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array
from taciturn.envs.recommender.rewards import WEIGHTS, means
from taciturn.policies import CentralisedPeakBayes, PeakBayes, PeakListener
from taciturn.policies.designed import peak_bayes, peak_listener
from taciturn.wrappers import LossyChannel
from taciturn.wrappers.channels import Faulty

SHOP: dict[str, Any] = {"num_agents": 2, "num_items": 30, "repository": 30, "horizon": 60}
DRAWS = 200_000


def begun(policy: PeakBayes, replicas: int = 1, **params: Any) -> Any:
    world = recommender_v0.population(replicas, **SHOP | params)
    world.reset(seed=3)
    policy.reset(world, np.random.default_rng(4))
    return world


def play(policy: Any, world: Any, rounds: int, chosen: Any = None) -> list[Any]:
    """Actions of some rounds; `chosen` draws others instead."""
    result = []
    for _ in range(rounds):
        obs = world.observe()
        action = policy.act(obs, world.action_mask(policy.role))
        action = action if chosen is None else chosen.integers(SHOP["num_items"], size=action.shape)
        reward = world.step(action).reward
        policy.update(obs, action, reward, np.zeros(world.num_envs, np.bool_))
        result.append(action)
    return result


def modelled(particles: Array, context: Array, items: Array) -> Array:
    """mu of items [K, 5] in one context by the environment's function, [P, K]."""
    angle, phases, weights = particles[:, :5] * np.pi, particles[:, 5:10], particles[:, 10:]
    directions = np.stack([np.cos(angle), np.sin(angle)], -1)
    one = {"weights": weights, "directions": directions[:, None], "phases": phases[:, None]}
    shape = (len(particles), len(items))
    return means("peak", np.broadcast_to(context, (*shape, 2)), np.broadcast_to(items, (*shape, 5)), one)


def test_the_sine_is_accurate() -> None:
    u = np.linspace(-7, 7, 20_001)
    np.testing.assert_allclose(peak_bayes.sine(u), np.sin(np.pi * u), atol=1e-7)


def test_particles_are_drawn_from_the_family() -> None:
    policy = PeakBayes(500, steps=0)
    begun(policy)
    drawn = policy._posteriors.particles.reshape(-1, 15)
    np.testing.assert_array_equal(np.sort(drawn[:, 10:], 1), np.sort(np.tile(WEIGHTS, (1000, 1)), 1))
    # Five standard errors: a false alarm has a probability below 1e-5.
    assert abs((drawn[:, 10:] == 1.0).mean(0) - 0.2).max() < 5 * (0.2 * 0.8 / 1000) ** 0.5
    assert 1.9 < drawn[:, 5:10].max() < 2
    assert 0.95 < drawn[:, :5].max() < 1


def log_likelihood(known: Array, particles: Array) -> Array:
    """Of feedbacks [n, 8], [P], by the environment's function."""
    result = np.zeros(len(particles))
    for one in known:
        mu = modelled(particles, one[:2] + 0.5, one[None, 2:7])[:, 0]
        result += np.log(np.where(one[7] == 0, mu, 1 - mu))
    return result


def error(g: Any, m: int, drawn: Array, log: Array, items: Array) -> float:
    """The root mean square difference of the expected mean rewards of items [K, 5] in a context: by a posterior, and by
    importance sampling from draws of the prior with logarithmic likelihoods [P]."""
    likely = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    few, context = np.random.default_rng(6).choice(len(drawn), 20_000, p=likely), np.array([0.3, 0.6])
    found = g.mass[m] @ modelled(g.particles[m], context, items)
    return float(np.sqrt(((found - modelled(drawn[few], context, items).mean(0)) ** 2).mean()))


@pytest.mark.parametrize("rounds", [10, 40])
def test_the_posterior_is_that_of_importance_sampling(rounds: int) -> None:
    """Over ten other seeds, the root mean square error was .007 (standard deviation .003) after 10 rounds, and .006
    (.002) after 40, so the limit is five deviations above; with the likelihood of 1 - y it was .16 and .26. The seeds
    are fixed."""
    policy = PeakBayes(1000, steps=60)
    world = begun(policy, num_agents=1, graph="none")
    play(policy, world, rounds, np.random.default_rng(5))
    g = policy._posteriors
    known = g.data[0, :, : g.known[0]].T
    assert len(known) == rounds
    drawn = np.random.default_rng(6).random((DRAWS, 15)) * np.repeat([1.0, 2.0, 1.0], 5)
    drawn[:, 10:] = np.array(WEIGHTS)[drawn[:, 10:].argsort(-1)]
    assert error(g, 0, drawn, log_likelihood(known, drawn), world.view().catalogue()[0][0]) < 0.02


def test_exponentials() -> None:
    for x in (0.0, 1e-9, 0.3, 1.0, 7.0, 39.0):
        assert peak_bayes.decay(x) == pytest.approx(math.exp(-x), rel=1e-10)
    assert 0 < peak_bayes.decay(1e300) < 1e-290


def told(seed: int, agents: int = 6) -> float:
    """The mean error over the agents' posteriors after two answers, the last one after eight rounds."""
    policy = PeakListener(5, particles=1500, steps=60, slack=0.1, first=4, growth=1.0)
    world = begun(policy, num_agents=agents)
    play(policy, world, 8, np.random.default_rng(seed))
    policy.act(world.observe(), world.action_mask(policy.role))
    g, drawn = policy._posteriors, peak_bayes.instances(np.random.default_rng(seed + 1).random((DRAWS // 4, 15)))
    pairs = [modelled(drawn, one[:2] + 0.5, one[None, 2:])[:, 0] for one in g.pairs[0].T]
    errors = []
    for m in range(agents):
        known, cells, log = g.data[m, :, :8].T, g.cells[m, :8], np.zeros(len(drawn))
        for cell, (mean, precision) in enumerate(g.measured[:, m].T):
            own = [modelled(drawn, one[:2] + 0.5, one[None, 2:7])[:, 0] for one in known[cells == cell]]
            a, b = pairs[cell::5]
            expected = (sum(own) + (a**3 + b**3) / (a**2 + b**2)) / (len(own) + 1)
            if precision > 0:
                log -= (expected - mean) ** 2 / (1 / precision + 2 * 0.1**2 / (len(own) + 2)) / 2
        errors.append(error(g, m, drawn, log + log_likelihood(known, drawn), world.view().catalogue()[0][0]))
    return float(np.mean(errors))


def test_the_posterior_with_answers_is_that_of_importance_sampling() -> None:
    """Over five other seeds an error was .0050 (standard deviation .0005), so the limit is four deviations of this mean
    above. If Metropolis steps compared with the first energy it was .0076, if energies were not stored before an
    answer .013, without the pair that stands for a cell .020, and if no worse energy was accepted .052."""
    assert np.mean([told(seed) for seed in (5, 105, 205)]) < 0.006


def test_the_others_mean_rewards_are_received() -> None:
    """Without noise, a cell's measurement is the mean of the others' feedbacks there, as precise as their number."""
    policy = PeakListener(7, first=10, growth=2.0, particles=4, steps=2)
    world = begun(policy, 2, num_agents=4)
    play(policy, world, 31)
    g = policy._posteriors
    assert policy._ends.tolist() == [10, 30]
    labels, cells = (1 - g.data[:, peak_bayes.LABEL, :30]).reshape(2, 4, 30), g.cells[:, :30].reshape(2, 4, 30)
    for b, w in np.ndindex(2, 4):
        others = np.delete(np.arange(4), w)
        for cell in range(7):
            likes = labels[b, others][cells[b, others] == cell]
            mean, precision = g.measured[:, 4 * b + w, cell]
            assert precision == pytest.approx(len(likes) / peak_listener.FEEDBACK)
            if likes.size:
                assert mean == pytest.approx(likes.mean())


def test_a_measurement_is_as_precise_as_noise_and_unknown_numbers_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = PeakListener(2, particles=2, steps=0)
    begun(policy)
    monkeypatch.setattr(policy, "counted", lambda b, w, noisy: (noisy, 3.0))
    monkeypatch.setattr(policy, "noise", lambda b, w: (4.0, 0.0))
    policy.receive(0, 1, np.array([6.0, -1.0]), np.array([10.0, 0.0]))
    weight = 10 / (0.2 * 10 + 4 + 0.05 * 3)
    np.testing.assert_allclose(policy._measured[:, 0, 1], [[weight * 6, 0], [weight * 10, 0]])
    assert not policy._measured[:, 0, 0].any()


def test_whoever_gets_no_answer_learns_nothing() -> None:
    policy = PeakListener(5, first=5, growth=10.0, particles=20, steps=4)
    env = Faulty(recommender_v0.population(4, **SHOP), "statistics", LossyChannel(0.5))
    taciturn.simulate(env, policy, seed=3, until=5)
    before, asked = policy._posteriors.particles.copy(), policy._measured.any((0, 3))
    assert not asked.any()
    policy.ask(np.ones(4, np.bool_))
    answered = policy._measured[1].any(-1)
    assert 0 < answered.sum() < answered.size
    np.testing.assert_array_equal((policy._posteriors.particles != before).any((1, 2)), answered.ravel())


def test_a_listener_begun_anew_forgets_what_it_received() -> None:
    policy = PeakListener(5, first=5, growth=10.0, particles=8, steps=2)
    play(policy, begun(policy, 3), 7)
    assert policy._posteriors.measured[1].any(-1).all()
    policy.start(np.array([False, True, False]))
    kept = np.array([True, True, False, False, True, True])
    np.testing.assert_array_equal(policy._posteriors.measured.any((0, 2)), kept)
    np.testing.assert_array_equal(policy._posteriors.own.sum(-1), 7 * kept)
    np.testing.assert_array_equal(policy._measured.any((0, 3)).ravel(), kept)


def test_noise_makes_cells_fewer() -> None:
    """With 40, 68, 116 and 197 rounds a block, 7 others give 875 feedbacks a block on average; 2 / .7^2 = 4.08 is the
    variance of the noise in a sum, and 42 cells have .2 * 875 / 42 = 4.17 of their own."""
    for privacy, cells in (({}, 300), (PeakListener().within(None, 1.0), 42)):  # type: ignore[arg-type]
        policy = PeakListener(particles=2, steps=0)
        env = recommender_v0.population(1, num_agents=8, horizon=500, num_items=30, repository=30)
        taciturn.simulate(env, policy, seed=0, privacy=privacy)
        assert policy.num_cells == cells


KINDS = [
    partial(PeakBayes, 6, steps=6),
    partial(CentralisedPeakBayes, 6, steps=6),
    partial(PeakListener, 5, first=10, particles=6, steps=6),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.func.__name__)
def test_compiled_and_uncompiled_agree(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for seen in (-(10**12), 10**12):
        monkeypatch.setattr(peak_bayes.FUNCTIONS, "work", seen)
        policy = kind()
        world = begun(policy, 2)
        results.append((np.array(play(policy, world, 40)), policy._posteriors.particles, policy._posteriors.mass))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(peak_bayes.FUNCTIONS.compiled) >= 2


def test_a_run_begun_anew_forgets() -> None:
    policy = CentralisedPeakBayes(8, steps=2)
    world = begun(policy, 3)
    play(policy, world, 5)
    before = policy._posteriors.particles.copy(), policy._posteriors.rng.copy()
    policy.start(np.array([False, True, False]))
    assert policy._posteriors.known.tolist() == [10, 0, 10]
    np.testing.assert_array_equal(policy._posteriors.mass[1], 1 / 8)
    for old, new in zip(before, (policy._posteriors.particles, policy._posteriors.rng), strict=True):
        assert [np.array_equal(*pair) for pair in zip(old, new, strict=True)] == [True, False, True]


def test_other_contexts_are_refused() -> None:
    with pytest.raises(ValueError, match="the recommender with context_dim=2"):
        begun(PeakBayes(), context_dim=3)
