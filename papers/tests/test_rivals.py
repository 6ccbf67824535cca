"""The rivals of Zhou et al. 2021: trees and balls against other implementations, noise by its formula, and play."""

import hashlib
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.agents import bring
from taciturn.compiling import compiled
from taciturn.envs import recommender_v0
from taciturn.policies import Random
from taciturn.registry import make_world
from taciturn.validation import Array
from taciturn_papers.zhou2021.item_bandits import ContextualZooming, GaussLinUCB, HighConfidenceTree

SHOP: dict[str, Any] = {"num_agents": 4, "horizon": 20}

# The cells, in units of 2^-13, that PyXAB 0.3.0 (HCT with nu 1, rho 0.75, 300 rounds, c 0.3, delta 0.1, on [0, 1])
# tried with the rewards below. It expands clusters again that have children, and forgets what it knew of them; it was
# kept from doing so.
PYXAB = "37561086e79bd39f5d6ae199548f7c2068c617dab8e6c7e8d5e348facccc5c64"


def test_hct_tries_what_pyxab_tries() -> None:
    tree = HighConfidenceTree(np.arange(2**12) << 28, 1.0, 0.75, 0.3, 0.1)
    tried = []
    for t in range(1, 301):
        path = tree.path()
        cell = tree.first[path[-1]] + tree.last[path[-1]]
        tried.append(cell)
        tree.learn(path, float(t * 7919 % 1000 / 1000 < 1 - abs(cell / 2**13 - 0.37)))
    assert hashlib.sha256(str(tried).encode()).hexdigest() == PYXAB


def test_private_linear_bandits_add_the_noise_that_they_state() -> None:
    env = recommender_v0.population(1, num_agents=1, num_items=6, repository=6, context_dim=1, horizon=1000)
    policy = GaussLinUCB(2.0, delta=1e-3)
    taciturn.simulate(env, policy, seed=0, until=13)
    policy._horizon = 1000
    sigma, upsilon = policy.noise
    # m = 10 levels, rows of length sqrt(2), 12 features.
    assert sigma == pytest.approx(math.sqrt(16 * 10 * 2**2 * math.log(4 / 1e-3) ** 2) / 2.0)
    assert upsilon == pytest.approx(sigma * math.sqrt(20) * (4 * math.sqrt(12) + 2 * math.log(2 * 1000 / 0.05)))
    # Of 13 = 8 + 4 + 1 records, three blocks are noisy.
    used = np.abs(policy._blocks[0, 0]).sum((1, 2)) > 0
    assert np.flatnonzero(used).tolist() == [0, 2, 3]
    np.testing.assert_array_equal(policy._blocks, np.swapaxes(policy._blocks, -1, -2))


@pytest.mark.parametrize("delta", [1e-3, None])
def test_noise_on_gram_matrices_is_that_of_the_paper(delta: float | None) -> None:
    """Shariff & Sheffet 2018, section 4.2: each of the m = floor(log2 T) + 1 levels of the tree has Gaussian noise of
    variance 16 m L^4 ln(4 / delta)^2 / epsilon^2, where L^2 = 2 bounds the square of (z, y)."""
    policy = GaussLinUCB(0.5, delta)
    env = make_world("recommender").population(1, **SHOP)
    env.reset(seed=0)
    policy.reset(env, np.random.default_rng(0))
    m, used = math.floor(math.log2(20)) + 1, 1 / 20 if delta is None else delta
    assert policy.noise[0] ** 2 == pytest.approx(16 * m * 4 * math.log(4 / used) ** 2 / 0.5**2)


class ZoomsByDefinition(ContextualZooming):
    """Compares every choice with one that computes what belongs to which ball, and all indices, afresh."""

    choices = 0

    def choose(self, contexts: Array) -> Array:
        items = super().choose(contexts)
        for b, w in np.ndindex(items.shape):
            n = self._balls[b, w]
            centres, radius = self._centres[b, w, :n], self._radius[b, w, :n]
            own = np.flatnonzero(self._have[b, w])
            points = np.concatenate([np.tile(contexts[b, w], (own.size, 1)), self._items[b, own]], 1)
            inside = self.scale * np.abs(points[:, None] - centres).max(-1) <= radius
            belongs = np.where(inside, radius, np.inf).argmin(1)
            mean = self._sums[b, w, :n] / np.maximum(self._counts[b, w, :n], 1)
            bound = mean + radius + self.confidence(self._counts[b, w, :n])
            apart = self.scale * np.abs(centres[:, None] - centres).max(-1)
            index = radius + (bound + apart).min(1)
            relevant = np.unique(belongs)
            best = relevant[index[relevant].argmax()]
            assert self._chosen[b, w] == best
            assert belongs[own == items[b, w]] == best
            self.choices += int(n > 3)
        return items


def test_contextual_zooming_by_definition() -> None:
    policy = ZoomsByDefinition(0.3)
    env = recommender_v0.population(2, num_agents=4, num_items=60, repository=30, horizon=150)
    taciturn.simulate(env, policy, seed=2)
    assert policy.choices > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DUCB", "HCT", "ContextualZooming", "DSC", "ACR"])
def test_rivals_beat_random(name: str) -> None:
    """False alarm rate 1e-4 (paired t-test)."""
    rounds = 300 if name == "ContextualZooming" else 600  # that takes long
    world: dict[str, Any] = {"num_agents": 4, "num_items": 100, "repository": 50, "graph": "complete"}
    ours, chance = (
        taciturn.simulate(recommender_v0.population(10, horizon=rounds, **world), policy, seed=1).metrics["regret"]
        for policy in (bring(name), Random())
    )
    assert stats.ttest_rel(ours, chance, alternative="less").pvalue < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "own", "world"),
    [("DSC", {"clusters": 8}, {"graph": "ring"}), ("ACR", {"clusters": 8, "rate": 0.5}, {})],
)
def test_partitions_give_the_same_bits_compiled_or_not(
    name: str, own: dict[str, Any], world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for compile_from in (math.inf, 0):
        monkeypatch.setattr(compiled, "COMPILE_FROM", compile_from)
        env = recommender_v0.population(2, num_agents=4, num_items=60, repository=30, horizon=100, **world)
        policy = bring(name, **own)
        runs.append(taciturn.simulate(env, policy, seed=1).metrics)
        assert policy.tree.arrays.size[1] > 2
    np.testing.assert_equal(runs[1], runs[0])


@pytest.mark.parametrize(
    ("name", "given"),
    [("HCT", {"nu": 1e-308}), ("HCT", {"rho": 1e-308}), ("HCT", {"c": 1e308})]
    + [("GaussLinUCB", {parameter: 1e-308}) for parameter in ("epsilon", "delta", "failure")],
)
def test_parameters_that_would_fail_in_play_are_refused_before(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        bring(name, **given)
