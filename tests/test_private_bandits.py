"""Bandits that are private with a trusted curator: indices against independent computations, episodes by hand, the loss
of the pulls, and jumps against steps."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize, special, stats

import taciturn
from taciturn.envs import federated_bandit_v0
from taciturn.policies import DPIMED, DPKLUCB, DPUCB, AdaPKLUCB, AdaPUCB, DPSuccessiveElimination
from taciturn.policies.classic import private_bandits, private_indices
from taciturn.validation import Array, Floats

EPISODES: tuple[Any, ...] = (AdaPUCB, AdaPKLUCB, DPKLUCB, DPIMED)
ALL = (*EPISODES, DPUCB, DPSuccessiveElimination)


def kl(p: Any, q: Any) -> Any:
    return special.rel_entr(p, q) + special.rel_entr(1 - np.asarray(p), 1 - np.asarray(q))


def divergence(p: float, q: float, epsilon: float) -> float:
    """By its definition: the smallest of a fine grid of z."""
    z = np.linspace(p, q, 20_001)
    return float((epsilon * (z - p) + kl(z, q)).min())


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize(("p", "q"), [(0.1, 0.9), (0.4, 0.5), (0.02, 0.3), (0.6, 0.6)])
def test_the_private_divergence_is_the_least_of_its_definition(p: float, q: float, epsilon: float) -> None:
    found = private_indices.private_divergence(np.array(p), np.array(q), epsilon)
    assert found == pytest.approx(divergence(p, q, epsilon), abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("mean", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("n", [5, 40, 3000])
def test_the_private_bound_is_the_root_of_the_private_divergence(mean: float, n: int, epsilon: float) -> None:
    def excess(q: float) -> float:
        return n * float(private_indices.private_divergence(np.array(mean), np.array(q), epsilon)) - 9.0

    (found,) = private_indices.private_upper_bound(np.array([n]), np.array([mean]), 9.0, epsilon)
    root = optimize.brentq(excess, mean + 1e-12, 1 - 1e-12) if excess(1 - 1e-12) > 0 else 1.0
    assert found == pytest.approx(root, abs=1e-7)


def test_indices_by_hand() -> None:
    n, means = np.array([50, 0]), np.array([0.4, 0.9])
    first, second = private_indices.adap_ucb_index(n, means, 100, 0.5, 3.1)
    assert first == pytest.approx(0.4 + np.sqrt(3.1 * np.log(200) / 100) + 3.1 * np.log(100) / 25)
    assert second == np.inf
    # The mean is raised to 1 by the noise's share, so that the bound is 1.
    assert private_indices.adap_klucb_index(n, means, 100, 0.1, 3.1)[0] == 1.0
    raised = 0.4 + 3.1 * np.log(100) / 5000
    root = optimize.brentq(lambda q: 50 * kl(raised, q) - 3.1 * np.log(100), raised, 1 - 1e-12)
    assert private_indices.adap_klucb_index(n, means, 100, 100.0, 3.1)[0] == pytest.approx(root, abs=1e-9)
    bound = private_indices.tree_bound(1000, 2.0, 0.1)
    assert bound == pytest.approx(np.log(10) * np.log(1000) ** 1.5 / 2)
    assert private_indices.dp_ucb_index(n, means, 100, bound)[0] == pytest.approx(
        0.4 + np.sqrt(2 * np.log(100) / 50) + bound / 50
    )
    best, worse = private_indices.dp_imed_index(np.array([20, 50]), np.array([0.7, 0.4]), 0.5)
    assert best == pytest.approx(np.log(20))
    assert worse == pytest.approx(50 * divergence(0.4, 0.7, 0.5) + np.log(50))


def test_lower_bounds_by_hand() -> None:
    means = np.array([0.8, 0.1, 0.5])
    at_1 = 0.7 / divergence(0.1, 0.8, 1.0) + 0.3 / divergence(0.5, 0.8, 1.0)
    assert private_indices.regret_lower_bound(means, 1.0) == pytest.approx(at_1)
    for epsilon, private in ((1.0, False), (0.01, True)):
        by_hand = sum(gap / (6 * epsilon * gap if private else kl(0.8 - gap, 0.8)) for gap in (0.7, 0.3))
        assert private_indices.first_lower_bound(means, epsilon) == pytest.approx(by_hand)


def played(policy: Any, rewards: Floats, replicas: int = 1) -> tuple[Array, Floats, Floats]:
    """One agent in `replicas` replicas that all see the same rewards [T, K]: the arms int64[T, B], its pulls and
    sums."""
    slots, arms = rewards.shape
    policy.rng = np.random.default_rng(0)
    policy.start((replicas, 1, arms), slots)
    counts, sums = np.zeros((replicas, 1, arms)), np.zeros((replicas, 1, arms))
    pulled, every = np.zeros((slots, replicas), np.int64), np.arange(replicas)
    for t in range(slots):
        pulled[t] = policy.choose(counts, sums / np.maximum(counts, 1))[:, 0]
        counts[every, 0, pulled[t]] += 1
        sums[every, 0, pulled[t]] += rewards[t, pulled[t]]
    return pulled, counts, sums


@pytest.mark.parametrize("kind", EPISODES)
def test_episodes_and_their_sums_by_hand(kind: Any) -> None:
    """Without noise a sum is that of the arm's last episode, or of all; episodes double, or grow by the ratio."""
    rewards = (np.random.default_rng(1).random((700, 3)) < [0.3, 0.6, 0.5]).astype(float)
    policy = kind(1e9)
    pulled = played(policy, rewards)[0][:, 0]
    n, at, sums = np.zeros(3, int), 0, [[], [], []]  # type: ignore[var-annotated]
    while at < len(pulled):
        arm = pulled[at]
        length = max(1, n[arm] if policy.forgets else int(np.ceil(0.5 * n[arm])))
        assert (pulled[at : at + length] == arm).all()
        if at + length < len(pulled):
            sums[arm].append((length, rewards[at : at + length, arm].sum()))
        n[arm] += length
        at += length
    assert n.min() > 1
    for arm, every in enumerate(sums):
        counted = every[-1:] if policy.forgets else every
        assert policy._counts[0, 0, arm] == sum(one for one, _ in counted)
        assert policy._noisy[0, 0, arm] == pytest.approx(sum(one for _, one in counted), abs=1e-6)


def loss(policy: Any, slots: int) -> tuple[float, float]:
    """An interval of the largest loss of any sequence of pulls if the first reward changes, at 4 standard errors."""
    rewards = np.tile([0.0, 1.0], (slots, 1))
    changed = rewards.copy()
    changed[0, 0] = 1.0
    found = [played(policy, one, 40_000)[0] for one in (rewards, changed)]
    codes = [np.bincount((one.T @ (1 << np.arange(slots))), minlength=1 << slots) for one in found]
    often = (codes[0] > 200) & (codes[1] > 200)
    ratio = np.abs(np.log(codes[0][often] / codes[1][often]))
    error = 4 * np.sqrt(1 / codes[0][often] + 1 / codes[1][often])
    return float((ratio - error).max()), float((ratio + error).max())


@pytest.mark.parametrize("kind", EPISODES)
def test_pulls_lose_no_more_than_epsilon(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # False alarm rate below 1e-3 (4 standard errors, few sequences). The test detects noise of a quarter of the scale.
    policy = kind(1.0, 0.01) if kind in (AdaPUCB, AdaPKLUCB) else kind(1.0)
    assert loss(policy, 9)[0] <= 1.0
    monkeypatch.setattr(policy, "epsilon", 4.0)
    assert loss(policy, 9)[0] > 1.0


@pytest.mark.parametrize("n", [1, 6, 12, 13])
def test_a_tree_has_a_node_for_each_digit(n: int) -> None:
    policy = DPUCB(1.0)
    played(policy, np.ones((n, 1)), 4000)
    policy.choose(np.full((4000, 1, 1), float(n)), np.ones((4000, 1, 1)))
    nodes = policy._nodes[:, 0, 0]
    digits = [n >> level & 1 == 1 for level in range(nodes.shape[1])]
    assert (nodes != 0).all(0).tolist() == digits
    # Of scale L / epsilon; false alarm rate 1e-4 (Kolmogorov-Smirnov). L - 1 levels are detected.
    drawn = nodes[:, np.array(digits)].ravel()
    for levels, right in ((nodes.shape[1], True), (0.8 * nodes.shape[1], False)):
        assert (stats.kstest(drawn, stats.laplace(scale=levels).cdf).pvalue > 1e-4) == right


def test_the_nodes_of_a_tree_stay() -> None:
    """The node of the first four pulls has the same noise at the sixth."""
    policy = DPUCB(1.0)
    played(policy, np.ones((16, 1)))
    policy.start((1, 1, 1), 16)
    seen = []
    for n in range(7):
        policy.choose(np.full((1, 1, 1), float(n)), np.ones((1, 1, 1)))
        seen.append(policy._nodes[0, 0, 0].copy())
    assert seen[4][2] == seen[5][2] == seen[6][2] != 0
    assert seen[6][1] != seen[2][1]
    assert (seen[4][:2] == 0).all()


def regrets(
    policy: Any, means: tuple[float, ...], runs: int, seed: int, *, fast: bool = True, horizon: int = 1000
) -> Floats:
    """The regret of each run, at two times."""
    env = federated_bandit_v0.population(runs, num_agents=2, qualities=means, horizon=horizon)
    run = taciturn.simulate(env, policy, seed=seed, fast=fast, until=[500, horizon], record=["regret"])
    return run.trace["regret"]


@pytest.mark.parametrize("kind", ALL)
def test_jumps_are_steps_where_nothing_is_random(kind: Any) -> None:
    """Rewards are certain, there is no noise, and the run is cut in the midst of episodes: equal pulls of each arm."""
    # Private elimination ends its first epoch after some 4,000 pulls.
    horizon = 8000 if kind is DPSuccessiveElimination else 1000
    found = []
    for fast in (True, False):
        env = federated_bandit_v0.population(2, num_agents=2, qualities=(1.0, 0.0, 1.0), horizon=horizon)
        taciturn.simulate(env, kind(1e9), seed=0, fast=fast, until=[7, 21, 23, 47, 210, horizon], record=["regret"])
        found.append(env.state.counts)
    assert (found[0] == found[1]).all()
    assert found[0].min() > 0


def test_without_numba_the_stretches_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = regrets(DPUCB(), (0.2, 0.8), 3, 5)
    monkeypatch.setattr(private_bandits, "compiled", lambda function: function)
    assert (regrets(DPUCB(), (0.2, 0.8), 3, 5) == found).all()
