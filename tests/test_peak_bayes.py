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


@pytest.mark.parametrize("rounds", [10, 40])
def test_the_posterior_is_that_of_importance_sampling(rounds: int) -> None:
    """Over ten other seeds, the root mean square error was .007 (standard deviation .003) after 10 rounds, and .006
    (.002) after 40, so the limit is five deviations above; with the likelihood of 1 - y it was .16 and .26. The seeds
    are fixed."""
    policy = PeakBayes(1000, steps=60)
    world = begun(policy, num_agents=1, graph="none")
    play(policy, world, rounds, np.random.default_rng(5))
    g, rng = policy._posteriors, np.random.default_rng(6)
    known = g.data[0, :, : g.known[0]].T
    assert len(known) == rounds
    drawn = rng.random((DRAWS, 15)) * np.repeat([1.0, 2.0, 1.0], 5)
    drawn[:, 10:] = np.array(WEIGHTS)[drawn[:, 10:].argsort(-1)]
    log = np.zeros(DRAWS)
    for one in known:
        mu = modelled(drawn, one[:2] + 0.5, one[None, 2:7])[:, 0]
        log += np.log(np.where(one[7] == 0, mu, 1 - mu))
    likely = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    few = rng.choice(DRAWS, 4000, p=likely)
    context, items = np.array([0.3, 0.6]), world.view().catalogue()[0][0]
    expected = modelled(drawn[few], context, items).mean(0)
    found = g.mass[0] @ modelled(g.particles[0], context, items)
    assert np.sqrt(((found - expected) ** 2).mean()) < 0.02


def test_exponentials() -> None:
    for x in (0.0, 1e-9, 0.3, 1.0, 7.0, 39.0):
        assert peak_bayes.decay(x) == pytest.approx(math.exp(-x), rel=1e-10)
    assert 0 < peak_bayes.decay(1e300) < 1e-290


def test_the_posterior_with_what_was_heard_is_that_of_importance_sampling() -> None:
    """Over eight other seeds, the root mean square error was .006 (standard deviation .0015). Here it was .047 if
    nothing was heard, and .032 without the agent's own pairs. The seeds are fixed."""
    policy = PeakListener(5, particles=1000, steps=60, slack=0.1, first=1000)
    world = begun(policy, num_agents=1, graph="none")
    play(policy, world, 8, np.random.default_rng(5))
    g, rng = policy._posteriors, np.random.default_rng(6)
    truth = peak_bayes.instances(np.random.default_rng(9).random((1, 15)))
    drawn = peak_bayes.instances(rng.random((DRAWS, 15)))
    known, cells = g.data[0, :, :8].T, g.cells[0, :8]

    def predicted(particles: Array) -> Array:
        """The mean rewards of the cells, [P, 5]."""
        result = []
        for cell in range(5):
            own = [modelled(particles, one[:2] + 0.5, one[None, 2:7])[:, 0] for one in known[cells == cell]]
            pairs = g.pairs[0, :, 2 * cell : 2 * cell + 2].T
            a, b = (modelled(particles, one[:2] + 0.5, one[None, 2:])[:, 0] for one in pairs)
            result.append((sum(own) + (a**3 + b**3) / (a**2 + b**2)) / (len(own) + 1))
        return np.stack(result, 1)

    g.real[...], g.measured[1], g.measured[0] = True, 40.0, predicted(truth)
    peak_bayes.remember(g._replace(measured=np.zeros_like(g.measured)))
    peak_bayes.played(peak_bayes.reweigh, g)
    variance = 1 / 40 + 2 * 0.1**2 / (np.bincount(cells, minlength=5) + 2)
    log = -((predicted(drawn) - g.measured[0, 0]) ** 2 / variance).sum(1) / 2
    for one in known:
        mu = modelled(drawn, one[:2] + 0.5, one[None, 2:7])[:, 0]
        log += np.log(np.where(one[7] == 0, mu, 1 - mu))
    likely = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    few = rng.choice(DRAWS, 4000, p=likely)
    context, items = np.array([0.3, 0.6]), world.view().catalogue()[0][0]
    expected = modelled(drawn[few], context, items).mean(0)
    found = g.mass[0] @ modelled(g.particles[0], context, items)
    assert np.sqrt(((found - expected) ** 2).mean()) < 0.015


def test_the_others_mean_rewards_are_heard() -> None:
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
        monkeypatch.setattr(peak_bayes, "SEEN", [seen])
        policy = kind()
        world = begun(policy, 2)
        results.append((np.array(play(policy, world, 40)), policy._posteriors.particles, policy._posteriors.mass))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(peak_bayes.ENTRIES) >= 2


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
