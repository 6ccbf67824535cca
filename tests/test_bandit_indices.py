"""Indices of classic bandit algorithms against independent solutions of their definitions."""

import numpy as np
import pytest
from scipy.optimize import brentq

from taciturn.policies import KLUCB
from taciturn.policies.classic import private_bandits as private
from taciturn.policies.families import bandit_indices as index


def table(seed: int, shape: tuple[int, ...] = (3, 4, 5)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 500, shape)
    return counts, rng.binomial(counts, rng.random(shape)) / counts


def test_ucb1_by_hand() -> None:
    got = index.ucb1_index(np.array([4, 1, 0]), np.array([0.5, 1.0, 0.0]), 5)
    assert got[:2] == pytest.approx([0.5 + np.sqrt(np.log(5) / 2), 1 + np.sqrt(2 * np.log(5))])
    assert np.isinf(got[2])
    assert index.ucb1_index(np.array([1]), np.array([0.25]), 1) < np.inf


def test_kl_ucb_solves_its_equation() -> None:
    for seed in range(20):
        counts, means = table(seed)
        means.flat[:2] = 0.0, 1.0
        counts.flat[:6] = 1, 1, 1, 2, 3, 10**6
        t = float(counts.sum())
        for c in (0.0, 3.0):
            got = index.kl_upper_bound(counts, means, index.kl_ucb_budget(t, c))
            assert ((got >= means) & (got <= 1)).all()
            for n, p, q in zip(counts.flat, means.flat, got.flat, strict=True):
                right = (np.log(t) + c * np.log(np.log(t))) / n
                short = index.bernoulli_divergence(p, np.array(1 - 1e-15)) < right
                root = (
                    1.0
                    if short
                    else brentq(lambda x, p=p, b=right: index.bernoulli_divergence(p, x) - b, p + 1e-15, 1 - 1e-15)
                )
                assert q == pytest.approx(root, abs=1e-10)
    assert np.isinf(index.kl_upper_bound(np.array([0, 3]), np.array([0.0, 0.5]), np.log(3))[0])


def test_kl_ucb_chooses_by_its_index() -> None:
    # The choice must be the same although few indices are computed.
    for seed in range(50):
        counts, means = table(seed, (2, 6, 40))
        means.flat[:3], counts.flat[-3:] = (0.0, 1.0, 1.0), 0
        t = counts.sum(-1, keepdims=True)
        for c in (0.0, 3.0):
            budget = index.kl_ucb_budget(t, c)
            by_index = index.kl_upper_bound(counts, means, budget)
            assert (index.pinsker_bound(counts, means, budget) >= by_index - 1e-12).all()
            assert (KLUCB(c).choose(counts, means) == by_index.argmax(-1)).all()


def test_moss_by_hand() -> None:
    got = index.moss_index(np.array([2, 50, 0]), np.array([0.5, 0.25, 0.0]), 100, 3)
    assert got[:2] == pytest.approx([0.5 + np.sqrt(np.log(100 / 6) / 2), 0.25])
    assert np.isinf(got[2])


def test_elimination_radius_covers_hoeffding_at_all_times() -> None:
    n = np.arange(1, 100_000)
    # By the union bound, the probability that any of 7 means ever deviates by a radius is at most delta.
    assert 0.5 * 0.01 < 7 * (2 * np.exp(-2 * n * index.elimination_radius(n, 7, 0.01) ** 2)).sum() <= 0.01


def test_private_epoch_by_hand() -> None:
    epoch = private.dp_elimination_epoch(np.array([1, 2]), np.array([10, 4]), 0.1, 0.01)
    assert epoch.pulls.tolist() == [
        int(np.ceil(max(32 * np.log(8000) * 4, 8 * np.log(4000) * 2 / 0.1) + 1)),
        int(np.ceil(max(32 * np.log(12800) * 16, 8 * np.log(6400) * 4 / 0.1) + 1)),
    ]
    assert epoch.pulls.tolist() == [1329, 4844]
    assert epoch.threshold[0] == pytest.approx(2 * np.sqrt(np.log(8000) / 2658) + 2 * np.log(4000) / 132.9)
    # If no mean deviates by h_e + c_e, the epoch eliminates arms at twice its gap, and not the best arm.
    assert (epoch.threshold <= 0.5 ** np.array([1, 2])).all()


def test_fed2_ucb_by_hand() -> None:
    got = index.fed2_ucb_radius(np.array([2.0, 4.0]), np.array([10.0, 30.0]), 1000.0, 0.5, 0.2)
    eta = (2 / 40 + 4 / 30) / 36
    assert got == pytest.approx(np.sqrt(1.5 * eta * np.log(1000)) + np.sqrt(0.24 * np.log(1000) / 6))


def test_consensus_indices_by_hand() -> None:
    pulls, rewards = np.array([2.0, 0.0]), np.array([1.0, 0.0])
    coop = index.coop_ucb2_index(pulls, rewards, 9, 5, 1.5, 0.5, 2.0)
    log = np.log(9)
    assert coop[0] == pytest.approx(0.5 + 0.5 * np.sqrt(3 / 0.75 * (2 + np.sqrt(log)) / 10 * log / 2))
    delayed = index.dducb_index(pulls, rewards, 9, 5, 0.5, 2.0)
    assert delayed[0] == pytest.approx(0.5 + np.sqrt(4 * 0.25 * log / 10))
    gossip = index.gossip_ucb_index(np.array([2, 0]), np.array([0.5, 0.0]), 9, 5)
    assert gossip[0] == pytest.approx(0.5 + np.sqrt(10 * log / 2))
    for last in (coop, delayed, gossip):
        assert np.isinf(last[1])
