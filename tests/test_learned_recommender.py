"""The learners of the recommender: the neural bandit, options by rank with requests and masks, the study, and what
pictures show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import taciturn
from taciturn.bench.catalogue import load_studies
from taciturn.bench.results import Cell
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array, picture
from taciturn.envs.recommender.rewards import means
from taciturn.envs.recommender.rounds import cell_of
from taciturn.policies import NeuralBandit, Random, TPriDO, TrainedAgent
from taciturn.validation import Bools, Floats, Ints
from taciturn.wrappers import Exponential

pytest.importorskip("sb3_contrib")

SMALL: dict[str, Any] = {"num_agents": 2, "num_items": 60, "repository": 30, "horizon": 40}
ALARM = 1e-4


def shop(num_envs: int = 2, **params: Any) -> Any:
    return recommender_v0.population(num_envs, **SMALL | params)


def whole_network(policy: NeuralBandit, contexts: Floats, items: Floats) -> Floats:
    """phi of contexts [n, d] and items [n, 5], by the formula."""
    p = {name: x.numpy() for name, x in policy._learned.items()}  # type: ignore[union-attr]
    x = 2 * np.concatenate([contexts, items], -1) - 1
    hidden = np.maximum(x @ p["weight0"] + p["bias0"], 0)
    return np.asarray(np.tanh(hidden @ p["weight1"] + p["bias1"]), np.float64)


class Noted(NeuralBandit):
    """Keeps its records."""

    def begin(self, view: Any) -> None:
        self.records: list[tuple[Floats, Ints, Floats]] = []
        super().begin(view)

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        self.records.append((contexts, items, likes))
        super().learn(contexts, items, likes, real)


def test_online_it_is_bayesian_linear_regression_on_the_last_layer() -> None:
    """Its mean is that of ridge regression towards the prior, written out from the raw records of each agent."""
    policy = Noted(3, hidden=16, features=8, num_envs=4, rounds=20, explore=0.0, seed=1)
    env = shop()
    taciturn.simulate(env, policy, seed=0)
    prior, scale = (np.asarray(policy._learned[name], np.float64) for name in ("prior", "scale"))  # type: ignore[index]
    for b, w in np.ndindex(2, 2):
        x = np.array([contexts[b, w] for contexts, _, _ in policy.records])
        y = np.array([likes[b, w] for _, _, likes in policy.records])
        shown = np.array([items[b, w] for _, items, _ in policy.records])
        assert len(y) == 40
        phi = whole_network(policy, x, env.state.items[b, shown])

        def mean(n: int, phi: Floats = phi, y: Floats = y) -> Floats:
            """After n records."""
            weights = np.diag(np.exp(scale)) + phi[:n].T @ phi[:n]
            return np.asarray(np.linalg.solve(weights, np.exp(scale) * prior + phi[:n].T @ y[:n]), np.float64)

        mine = np.linalg.solve(policy._precision[b, w], policy._weighted[b, w])
        np.testing.assert_allclose(mine, mean(40), rtol=0, atol=1e-4)
        # Without exploration it shows the item at hand with the highest expected reward.
        own = np.flatnonzero(env.state.active[b, w])
        for n in (0, 7, 39):
            score = whole_network(policy, np.tile(x[n], (len(own), 1)), env.state.items[b, own]) @ mean(n)
            assert shown[n] in own
            assert score[np.flatnonzero(own == shown[n])[0]] > score.max() - 1e-5


def test_it_draws_from_the_posterior() -> None:
    """Scores of one item over 2,000 replicas of the same state: their mean and variance, by z and chi-square at
    1e-4."""
    policy = NeuralBandit(0, explore=2.0, features=4, hidden=8)
    env = recommender_v0.population(2000, num_agents=1, num_items=2, repository=2, horizon=5, graph="none")
    env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    drawn = []

    def best(index: Floats) -> Ints:
        drawn.append(index)
        return np.zeros(index.shape[:2], np.int64)

    policy.best = best  # type: ignore[method-assign]
    contexts = np.full((2000, 1, 2), 0.3)
    policy._of_items = policy._of_items[:1].expand(2000, -1, -1)
    policy._precision[:] = precision = np.array([[9.0, 5, 3, 1], [5, 8, 2, 0], [3, 2, 3, 0], [1, 0, 0, 1]])
    policy.choose(contexts)
    (phi,) = whole_network(policy, contexts[0], env.state.items[0, :1])
    variance = (
        (2.0 * 0.4) ** 2 * phi @ np.linalg.solve(precision, phi)
    )  # 0.4: the noise of an untrained one, whose mean is 0
    z = drawn[0][:, 0, 0] / np.sqrt(variance)
    assert stats.norm.sf(abs(z.mean()) * np.sqrt(2000)) > ALARM
    assert stats.chi2.sf((z**2).sum(), 2000) > ALARM
    assert stats.chi2.cdf((z**2).sum(), 2000) > ALARM


class Forgets(NeuralBandit):
    """Learns nothing online."""

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        pass


@pytest.fixture(scope="module")
def trained() -> NeuralBandit:
    return NeuralBandit(150, hidden=32, features=16, num_envs=16, rounds=128, learning_rate=0.01, seed=3).train(shop())


def regrets(policy: Any, **how: Any) -> Array:
    """Of 40 runs on instances that no training has met."""
    env = shop(40, num_agents=1, graph="none", num_items=100, repository=100, horizon=60)
    return np.asarray(taciturn.simulate(env, policy, seed=9, **how).metrics["regret"])


def test_what_it_learns_in_practice_and_online_helps(trained: NeuralBandit) -> None:
    """In practice errors fall, always on worlds that it has not met; online regret is smaller over 40 paired runs, by
    t-tests at 1e-4."""
    assert np.mean(trained.history[1:]) < 0.9 * trained.history[0]
    online = regrets(trained)
    forgets = Forgets()
    forgets._learned = trained._learned
    for worse in (forgets, Random()):
        assert stats.ttest_rel(regrets(worse), online, alternative="greater").pvalue < ALARM


def test_a_trained_bandit_is_kept_and_saved(tmp_path: Path) -> None:
    env, small = shop(), {"num_envs": 2, "rounds": 8}
    makes = [NeuralBandit(3, **small, seed=seed) for seed in (0, 0, 1)]
    first, same, other = (taciturn.simulate(env, one, seed=3).metrics["expected_reward"] for one in makes)
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()
    makes[0].save(tmp_path / "bandit.pkl")
    again = NeuralBandit.load(tmp_path / "bandit.pkl")
    learned = again._learned
    np.testing.assert_array_equal(taciturn.simulate(env, again, seed=3).metrics["expected_reward"], first)
    assert again._learned is learned
    assert (tmp_path / "bandit.pkl").stat().st_size < 50_000  # no world is in it
    with pytest.raises(ValueError, match="contexts of 2 dimensions, and recommender has 3"):
        taciturn.simulate(shop(context_dim=3), again, seed=0)


def test_its_scores_pass_the_mechanism_on_selections(trained: NeuralBandit) -> None:
    """All that it shows is charged, once a round, and noise makes it choose worse; by a t-test over 40 runs at 1e-4."""
    run = taciturn.simulate(shop(), trained, seed=0, privacy={"selection": Exponential(0.5)})
    np.testing.assert_array_equal(
        run.accountant.epsilon(0, "agent", "basic", unit="event", channel="selection"), 0.5 * 40
    )
    noisy = regrets(trained, privacy={"selection": Exponential(0.1)})
    assert stats.ttest_rel(noisy, regrets(trained), alternative="greater").pvalue < ALARM


# Masked PPO on clusters.


def test_ppo_never_chooses_a_masked_cluster() -> None:
    """With 3 items of an agent in 16 clusters most are masked; a masked one would show nothing."""
    env = shop(2, num_items=12, repository=3, cluster_depth=4, actions="cluster", horizon=10)
    policy = TrainedAgent(600, settings={"num_envs": 2, "turns": 16})
    env.reset(seed=0)
    policy.reset(env, env.stream("policy"))
    while not env.done.all():
        env.advance(policy, steps=1)
        assert (env.state.shown >= 0).all()


# The study.


def cell(policy: str, level: str, **own: Any) -> Cell:
    """A quick cell of the study, even smaller."""
    (found,) = (
        one
        for one in load_studies()["social-recommender"].cells(quick=True)
        if (one.config["policy"], one.config["level"], one.seed) == (policy, level, 0)
        and one.config["policy_params"].items() >= own.items()
    )
    return Cell(found.study, found.config | {"env_params": found.config["env_params"] | {"horizon": 30}}, 0)


def test_runs_are_set_beside_random_play_on_the_same_instance() -> None:
    study = load_studies()["social-recommender"]
    chance, best = (study.run(cell(name, "no noise")).metrics for name in ("Random", "OracleItem"))
    assert chance["worse_than_random"] == best["worse_than_random"] == best["regret"] == 0
    one = cell("ItemUCB1", "no noise")
    found, regret, worlds = study.run(one), {}, []
    for name, form in (("ItemUCB1", "item"), ("Random", "item"), ("Random", "cluster")):
        env = recommender_v0.population(4, **one.config["env_params"] | {"actions": form})
        env.purpose = "evaluation"
        regret[name, form] = taciturn.simulate(env, name, seed=0).metrics["regret"]
        worlds.append(env.state)
    worse = (regret["ItemUCB1", "item"] > regret["Random", "item"]).mean()
    assert found.metrics["worse_than_random"] == worse
    assert 0 < worse < 1
    for other in worlds[1:]:
        for field in ("items", "active", "served", "phases"):
            np.testing.assert_array_equal(getattr(worlds[0], field), getattr(other, field))


def test_epsilons_of_the_study_are_totals_of_runs() -> None:
    study = load_studies()["social-recommender"]
    open_, private = (
        study.run(cell("TPriDO", level, threshold=2.0)).metrics for level in ("no noise", "noise on everything")
    )
    told = "epsilon_statistics_and_counts"
    assert open_[told] == open_["epsilon_zcdp"] == np.inf
    assert 4 <= private[told] < np.inf
    assert private["epsilon_zcdp"] == pytest.approx(20 * 30 + private[told]), "selections cost 20 each"
    alone = study.run(cell("ItemUCB1", "no noise")).metrics
    assert (alone[told], alone["epsilon_zcdp"]) == (0, np.inf)


# Pictures.


@pytest.mark.parametrize("bisect", [False, True])
def test_a_sketch_shows_the_model_of_the_agent(bisect: bool) -> None:
    """Leaves partition the items, cells the contexts, and means are those of the closed neighbourhood's records,
    counted again."""
    env = shop(2, num_agents=3, graph="complete", num_items=200, repository=200, context_dim=6, horizon=100)
    policy = TPriDO(2.0, rate=2.0, bisect=bisect)
    taciturn.simulate(env, policy, seed=1)
    tree, (b, w) = policy.tree, (1, 2)
    context = env.state.served[b, w]
    known = env.sketch(b, w, context)
    assert len(known.cells) > 4
    assert len(known.leaves) > 4
    np.testing.assert_array_equal(
        np.concatenate([np.arange(*leaf) for leaf in sorted(known.leaves.tolist())]), np.arange(200)
    )
    assert np.prod(known.cells[:, 1] - known.cells[:, 0], -1).sum() == 1
    places = np.random.default_rng(0).random((1000, 6))
    inside = ((known.cells[:, None, 0] <= places) & (places < known.cells[:, None, 1])).all(-1)
    assert (inside.sum(0) == 1).all()
    context = np.minimum(context, 1 - 2.0**-16)
    (box,) = known.cells[((known.cells[:, 0] <= context) & (context < known.cells[:, 1])).all(-1)]
    low, high = box
    actors = b * 3 + np.arange(3)
    contexts = tree.log_steps[actors, :100] / 2.0**16
    here = ((low <= contexts) & (contexts < high)).all(-1)
    for (first, last), mean in zip(known.leaves, known.means, strict=True):
        of_leaf = here & (tree.log_place[actors, :100] >= first) & (tree.log_place[actors, :100] < last)
        likes = tree.log_likes[actors, :100][of_leaf]
        np.testing.assert_equal(mean, likes.mean() if likes.size else np.nan)


def test_without_a_policys_word_pictures_show_the_worlds_own_clusters() -> None:
    env = shop(1, horizon=30, context_dim=3)
    taciturn.simulate(env, TPriDO(2.0), seed=1)
    taciturn.simulate(env, Random(), seed=1)  # what the first policy knew is gone
    context = env.state.served[0, 0]
    known = env.sketch(0, 0, context)
    assert len(known.leaves) == 8
    assert known.leaves[0, 0] == 0
    assert known.leaves[-1, 1] == 60
    assert np.prod(known.cells[:, 1] - known.cells[:, 0], -1).tolist() == [0.25] * 4
    counts, sums = (values[0, 0, cell_of(context)] for values in (env.state.own_counts, env.state.own_sums))
    np.testing.assert_equal(known.means, np.where(counts > 0, sums / np.maximum(counts, 1), np.nan))
    order = env.state.codes[0].argsort(kind="stable")
    for k, (first, last) in enumerate(known.leaves):
        assert (env.state.codes[0, order[first:last]] >> 37 == k).all()


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("fast", [False, True])
def test_the_picture_marks_what_was_shown_in_the_context_that_was_served(dims: int, fast: bool) -> None:
    from matplotlib.figure import Figure

    env = shop(2, context_dim=dims)
    last: list[Any] = []

    class Noted(TPriDO):
        def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
            last[:] = [obs[1, 0, :dims].astype(np.float64), int(action[1, 0])]
            super().update(obs, action, reward, done)

    taciturn.simulate(env, Noted(), seed=2, fast=False)
    if fast:
        taciturn.simulate(env, TPriDO(), seed=2)
    np.testing.assert_array_equal(env.state.served[1, 0], last[0])
    axes = Figure().add_subplot()
    env.draw(axes, 1)
    panels: list[Any] = list(axes.child_axes)
    left, right = panels
    marks = {line.get_label(): line for line in left.get_lines()}
    one = {name: values[1:2] for name, values in env.instance(env.state).items()}
    mu = means("peak", last[0][None, None], env.state.items[1, last[1]][None, None], one)[0, 0]
    (x,), (y,) = (np.atleast_1d(values) for values in marks["shown"].get_data())
    assert y == pytest.approx(mu)
    own = np.flatnonzero(env.state.active[1, 0])
    assert own[env.state.codes[1, own].argsort(kind="stable")][int(x)] == last[1]
    assert right.get_title() == f"{len(env.sketch(1, 0, last[0]).cells)} cells of contexts"
    assert picture(env).std() > 0
