"""The logistic bandit of the recommender, alone, pooled, and with sums that are released block by block: its model,
what it asks and hears, what that costs, and what others are worth."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import taciturn
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array
from taciturn.policies import BlockListener, CentralisedLogistic, LogisticBandit, PeakBayes, PeakListener, Random
from taciturn.policies.designed.recommender import LEAST, RIDGE, features, logistic, logistic_fit, wave
from taciturn.policies.families.block_sums import dominating_set, k_means, shrunk
from taciturn.wrappers import Blocks, LossyChannel, NoPrivacy
from taciturn.wrappers.channels import Faulty

SHOP: dict[str, Any] = {"num_agents": 6, "num_items": 60, "repository": 30, "horizon": 60}
BRIEF: dict[str, Any] = {"worlds": 20, "rounds": 20}


def test_features_by_hand() -> None:
    np.testing.assert_array_equal(
        LogisticBandit(2).waves(2), [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]], "lowest sums first"
    )
    assert LogisticBandit(3).waves(9).shape == (16, 9), "at most 16"
    b: Any = wave(np.array([1 / 3, 1.0]), LogisticBandit(2).waves(2))
    np.testing.assert_allclose(b, [1, 0.5, -1, -0.5, -0.5, 1])
    item: Any = np.array([0.5, 1.0, 0.0, 0.75, 0.5])
    f: Any = features(b[:2], item)
    np.testing.assert_allclose(f, [1, 0.5, 0, 0, 1, 0.5, -1, -0.5, 0.5, 0.25, 0, 0, 0, 1, 1, 0.25, 0])


def test_scores_are_those_of_the_features() -> None:
    """The quick way to compute f'w agrees with the features, and only own items are shown."""
    env = recommender_v0.population(3, **SHOP)
    policy = LogisticBandit(**BRIEF, explore=0.0)
    obs, _ = env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    policy._mean[:] = np.random.default_rng(0).standard_normal(policy._mean.shape)
    mask = env.action_mask("agent")
    assert mask is not None
    action, contexts = policy.act(obs, mask), env.state.contexts
    items = np.broadcast_to(env.state.items[:, None], (3, 6, 60, 5))
    f = features(wave(contexts, policy._waves)[:, :, None], items)
    score = np.einsum("bwkm,bwm->bwk", f, policy._mean)
    np.testing.assert_array_equal(action, np.where(env.state.active, score, -np.inf).argmax(-1))


def test_the_filter_is_a_gaussian_update_of_the_linearised_model() -> None:
    """S^-1 grows by h f f', and the mean moves by S f (y - p), with the new S."""
    env = recommender_v0.population(2, **SHOP)
    env.reset(seed=0)
    policy = LogisticBandit(**BRIEF)
    policy.reset(env, env.stream("policy"))
    rng, before = np.random.default_rng(0), (policy._mean.copy(), policy._spread.copy())
    f: Any = rng.standard_normal(before[0].shape)
    likes = rng.integers(0, 2, f.shape[:2]).astype(float)
    real: Any = rng.random(f.shape[:2]) < 0.7
    policy._filter(f, likes, real)
    for at in np.ndindex(real.shape):
        mean, spread = before[0][at], before[1][at]
        p = logistic(f[at] @ mean)
        h = max(p * (1 - p), LEAST)
        new = np.linalg.inv(np.linalg.inv(spread) + real[at] * h * np.outer(f[at], f[at]))
        np.testing.assert_allclose(policy._spread[at], new, atol=1e-8)
        np.testing.assert_allclose(policy._mean[at], mean + real[at] * new @ f[at] * (likes[at] - p), atol=1e-8)


def test_a_fit_is_where_the_gradient_is_zero() -> None:
    rng = np.random.default_rng(0)
    f, w = rng.standard_normal((4000, 4)), np.array([1.0, -2.0, 0.5, 0.0])
    found = logistic_fit(f, logistic(f @ w))
    np.testing.assert_allclose(f.T @ (logistic(f @ w) - logistic(f @ found)), RIDGE * found, atol=1e-6)
    np.testing.assert_allclose(found, w, atol=0.02)


def test_points_are_near_their_centres() -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(place, 0.01, (50, 2)) for place in (0.0, 5.0, 9.0)])
    centres = k_means(points, 20, rng)
    assert centres.shape == (20, 2)
    assert np.linalg.norm(points[:, None] - centres, axis=-1).min(1).mean() < 0.01
    (middle,) = k_means(points, 1, rng)
    np.testing.assert_allclose(middle, points.mean(0))


def test_noisy_counts_are_shrunk_to_the_best_linear_estimate() -> None:
    """Against the least squares line through the true numbers; noise of variance 8, numbers of variance 20."""
    rng = np.random.default_rng(0)
    true = 100 + rng.gamma(5.0, 2.0, 100_000)
    noisy = true + rng.laplace(0, 2, true.size)
    found, error = shrunk(noisy, true.mean(), 8.0)
    slope, start = np.polyfit(noisy, true, 1)
    np.testing.assert_allclose(found, start + slope * noisy, atol=0.5)
    assert error == pytest.approx(((found - true) ** 2).mean(), rel=0.03)
    np.testing.assert_array_equal(shrunk(np.array([3.0, -1.0]), 2.0, 0.0)[0], [3, 0])
    np.testing.assert_allclose(shrunk(np.array([1e6, -1e6]), 2.0, 1e11)[0], 2.0, atol=1e-3)


# What is asked and heard.


class Noted(BlockListener):
    """Keeps what it asks and hears."""

    public_schedule = True

    def start(self, fresh: Any) -> None:
        super().start(fresh)
        self.asked: list[tuple[int, Array, Array, Array]] = []
        self.heard: list[tuple[int, int, int, int, Array, Array]] = []

    def ask(self, asks: Any) -> None:
        consult = self._view.consult

        def noted(request: Any) -> Any:
            self.asked.append((int(self._rounds[0]), request.asked, request.streams, request.counts))
            return consult(request)

        with mock.patch.dict(self._view._extra, consult=noted):
            super().ask(asks)

    def receive(self, b: int, w: int, sums: Any, counts: Any) -> None:
        self.heard.append((int(self._rounds[b]), b, w, int(self._blocks[b, w]), sums, counts))
        super().receive(b, w, sums, counts)


def noted(graph: Any = "star", *, env: Any = None, **given: Any) -> tuple[Noted, Any]:
    policy = Noted(8, **BRIEF, **{"first": 10, "growth": 1.5} | given)
    env = recommender_v0.population(2, **SHOP, graph=graph) if env is None else env
    return policy, taciturn.simulate(env, policy, seed=3)


def test_all_ask_for_all_cells_of_their_group_at_public_rounds() -> None:
    policy, run = noted()
    assert [time for time, *_ in policy.asked] == [10, 25, 47], "blocks of 10, 15, 22 and 34 rounds"
    for time, asked, streams, counts in policy.asked:
        assert asked.all()
        np.testing.assert_array_equal(streams, np.broadcast_to(np.arange(8), (2, 6, 8)))
        np.testing.assert_array_equal(counts.sum(-1), 6 * time)
    np.testing.assert_allclose(run.metrics["shared"], 3 / 60)
    policy, _ = noted("ring")
    groups = policy._group
    assert len(np.unique(groups)) > 1
    for _, _, streams, counts in policy.asked:
        np.testing.assert_array_equal(streams[0, :, 0] // 8, groups)
        sizes = np.bincount(groups)[groups]
        np.testing.assert_array_equal(counts.sum(-1) % sizes, 0)
    leaders, _ = dominating_set(policy._network)
    for agent, leader in enumerate(leaders[groups]):
        assert agent == leader or leader in policy._network.neighbours(agent)


def test_what_is_heard_is_what_only_the_others_have_done_in_the_block() -> None:
    """By the records of each agent, counted anew."""
    policy, _ = noted()
    assert len(policy.heard) == 3 * 2 * 6
    began = {10: 0, 25: 10, 47: 25}
    for time, b, w, blocks, sums, counts in policy.heard:
        cells = np.delete(policy._cell[b, :, began[time] : time], w, 0)
        np.testing.assert_array_equal(counts, np.bincount(cells.ravel(), minlength=8))
        assert (np.abs(sums) <= counts + 1e-9).all()
        assert blocks == 1


def test_a_lost_answer_is_made_good_by_the_next() -> None:
    """Sums are running ones; then what came in two blocks has the noise of both."""
    env = Faulty(recommender_v0.population(4, **SHOP), "statistics", LossyChannel(0.5))
    policy, _ = noted(env=env)
    seen = {blocks for *_, blocks, _, _ in policy.heard}
    assert seen >= {1, 2}
    total = np.zeros((4, 6))
    last = np.zeros((4, 6), np.int64)
    for time, b, w, _, _, counts in policy.heard:
        total[b, w] += counts.sum()
        last[b, w] = time
    np.testing.assert_array_equal(total, 5 * last)


@pytest.mark.parametrize("graph", ["star", "ring", "complete"])
@pytest.mark.parametrize(
    "policy", [BlockListener(8, first=10, share=0.6, **BRIEF), PeakListener(8, first=10, share=0.6, particles=8)]
)
def test_a_run_costs_the_total_and_each_feedback_enters_one_stream(policy: Any, graph: str) -> None:
    env = recommender_v0.population(2, **SHOP, graph=graph)
    distributions = policy.within(env.view(policy), 3.0)
    assert distributions == {"statistics": Blocks(3.0 * 0.6), "counts": Blocks(3.0 * 0.4)}
    run = taciturn.simulate(env, policy, seed=0, privacy=distributions)
    spent = [run.accountant.epsilon(0.0, "agent", "basic", unit="event", channel=name) for name in distributions]
    alone = np.bincount(policy._group, minlength=6)[policy._group] == 1
    np.testing.assert_allclose(sum(spent), np.broadcast_to(3.0, (2, 6)))
    assert not alone.any() or graph == "ring"


def test_noise_is_believed_less() -> None:
    """With so much noise that nothing is heard, the posterior is the agent's own."""
    env = recommender_v0.population(3, **SHOP)
    own, deaf = LogisticBandit(**BRIEF), BlockListener(8, first=10, **BRIEF)
    runs = []
    for policy, distributions in ((own, None), (deaf, dict.fromkeys(("statistics", "counts"), Blocks(1e-6)))):
        taciturn.simulate(env, policy, seed=0, privacy=distributions, fast=False)
        runs.append((policy._mean, policy._spread))
    np.testing.assert_allclose(runs[0][0], runs[1][0], atol=1e-4)
    np.testing.assert_allclose(runs[0][1], runs[1][1], atol=1e-4)


# What it is worth. Paired runs on training streams, by differences of more than four standard errors.


@pytest.fixture(scope="module")
def worth() -> dict[str, Array]:
    """Regrets of 8 runs of each, by name."""
    env = recommender_v0.population(8, num_agents=16, num_items=100, repository=50, horizon=120)
    env.purpose = "training"
    practice: Any = {"worlds": 50, "rounds": 40}
    listener = BlockListener(100, first=15, **practice)
    made: Any = {
        "alone": LogisticBandit(**practice),
        "centralised": CentralisedLogistic(**practice),
        "heard": listener,
        "noisy": listener,
        "random": Random(),
        "peak alone": PeakBayes(64),
        "peak noisy": PeakListener(particles=64, first=15),
    }
    found = {}
    for name, policy in made.items():
        distributions = policy.within(env.view(policy), 3.0) if "noisy" in name else None
        found[name] = taciturn.simulate(env, policy, seed=77, privacy=distributions).metrics["regret"]
    return found


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("centralised", "heard"),
        ("heard", "alone"),
        ("noisy", "alone"),
        ("alone", "random"),
        ("peak noisy", "peak alone"),
    ],
)
def test_others_are_worth_something_with_noise_too(worth: dict[str, Array], better: str, worse: str) -> None:
    gain = worth[worse] - worth[better]
    assert gain.mean() > 4 * gain.std(ddof=1) / len(gain) ** 0.5


# The rest.


def test_a_trained_policy_is_kept_and_saved(tmp_path: Path) -> None:
    env = recommender_v0.population(2, **SHOP)
    policy = BlockListener(8, first=10, **BRIEF)
    first = taciturn.simulate(env, policy, seed=3).metrics["regret"]
    policy.save(tmp_path / "listener.pkl")
    again = BlockListener.load(tmp_path / "listener.pkl")
    learned = again._learned
    np.testing.assert_array_equal(taciturn.simulate(env, again, seed=3).metrics["regret"], first)
    assert again._learned is learned
    other = recommender_v0.population(2, **SHOP, context_dim=1)
    with pytest.raises(ValueError, match="was trained with 41 features, and contexts of 1 dimensions have 23"):
        taciturn.simulate(other, again, seed=0)


def test_what_is_shown_without_selecting_is_charged() -> None:
    env = recommender_v0.population(2, **SHOP)
    run = taciturn.simulate(env, LogisticBandit(**BRIEF), seed=0, privacy={"selection": NoPrivacy()})
    assert np.isinf(run.accountant.epsilon(0.0, "agent", "basic", channel="selection")).all()
