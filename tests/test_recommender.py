"""The recommender, its third party, and the policies that act in it."""

import hashlib
import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from cases import AlwaysAsks
from scipy import stats

import taciturn
from taciturn import policies
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array, ChannelConfig
from taciturn.envs.recommender import geometry, rewards
from taciturn.graph import Graph
from taciturn.policies import (
    LinUCB,
    OracleItem,
    Policy,
    Random,
    TPriDO,
)
from taciturn.policies.classic.tree_search import TruncatedTree
from taciturn.policies.families.block_sums import dominating_set
from taciturn.policies.families.context_cells import digit_of, grid
from taciturn.policies.reference.t_prido import partition_rate
from taciturn.privacy.stateful import address_laplace
from taciturn.wrappers import Exponential, NoPrivacy, TreeAggregation

ALARM = 1e-5  # false-alarm rate of each statistical test
SMALL: dict[str, Any] = {"num_agents": 4, "num_items": 60, "repository": 30, "horizon": 40}


def small(num_envs: int = 2, **params: Any) -> Any:
    return recommender_v0.population(num_envs, **SMALL | params)


# Geometry and mean rewards.


def test_item_codes_by_hand() -> None:
    items = np.array([[0.75, 0.3, 0.0, 0.9, 1.0], [0.25, 0.3, 0.0, 0.9, 0.5]])
    codes = [geometry.item_code(item) for item in items]
    # The first halves of the five dimensions, then their quarters.
    assert [format(int(c), "040b")[:10] for c in codes] == ["10011" + "11011", "00011" + "11010"]


def test_cells_by_hand() -> None:
    steps = grid(np.array([[0.8, 0.3], [1.0, 0.0]]))

    def digits(level: int, bisect: bool) -> list[int]:
        return [digit_of(one, level, bisect) for one in steps]

    assert digits(0, bisect=False) == [1, 1]
    assert digits(1, bisect=False) == [3, 1]
    assert digits(0, bisect=True) == [1, 1]
    assert digits(1, bisect=True) == [0, 0]


def by_definition(family: str, context: Array, item: Array, instance: dict[str, Array]) -> float:
    """The mean reward of one item, number by number, in replica 0."""
    if family == "linear":
        m, c = instance["matrix"][0], [1, *(2 * context - 1)]
        return 0.5 + 0.45 * sum((2 * item[i] - 1) * m[i, j] * c[j] for i in range(5) for j in range(len(c)))
    best = 0.0
    for k, (height, radius) in enumerate(rewards.BUMPS[: 1 if family == "peak" else None]):
        away = 0.0
        for i in range(5):
            turned = sum(instance["directions"][0, k, i, j] * (x - 0.5) for j, x in enumerate(context))
            g = 0.5 + 0.42 * math.sin(math.pi * (turned + instance["phases"][0, k, i]))
            away += (instance["weights"][0, i] * (item[i] - g)) ** 2
        best = max(best, height * max(0.0, 1 - math.sqrt(away) / radius))
    return 0.05 + 0.9 * best


@pytest.mark.parametrize("family", rewards.FAMILIES)
@pytest.mark.parametrize("dims", [1, 3])
def test_means_and_best_items_by_definition(family: str, dims: int) -> None:
    env = small(1, family=family, context_dim=dims)
    env.reset(seed=4)
    state = env.state
    instance, best = env.instance(state), env.best_at_hand()
    for agent in range(4):
        context = state.contexts[0, agent]
        mu = [by_definition(family, context, item, instance) for item in state.items[0]]
        assert all(0 <= x <= 1 for x in mu)
        own = np.flatnonzero(state.active[0, agent])
        assert mu[best[0, agent]] == pytest.approx(max(mu[k] for k in own), rel=1e-12)
        assert state.most[0, agent] == pytest.approx(max(mu[k] for k in own), rel=1e-12)
        found = rewards.means(family, np.repeat(context[None, None], 60, 1), state.items, instance)
        np.testing.assert_allclose(found[0], mu, rtol=1e-12)


# The world.


def test_the_oracle_has_no_regret_and_nobody_has_less() -> None:
    runs = {
        kind: taciturn.simulate(small(family="bumps", growth=[(20, 0.3)]), kind(), seed=2)
        for kind in (OracleItem, Random)
    }
    np.testing.assert_allclose(runs[OracleItem].metrics["regret"], 0, atol=1e-12)
    assert (runs[Random].metrics["regret"] > 0.1).all()


def test_growth_changes_the_mask_and_nothing_that_is_drawn() -> None:
    plain, growing = small(), small(growth=[(10, 0.4), (20, 0.2)])
    for env in (plain, growing):
        env.reset(seed=3)
    for t in range(30):
        for env in (plain, growing):
            np.testing.assert_array_equal(env.state.time, t)
        np.testing.assert_array_equal(plain.state.contexts, growing.state.contexts)
        mask = growing.action_mask("agent")
        assert mask.shape == (2, 4, 120)
        np.testing.assert_array_equal(mask[..., :60].sum(-1), 12 if t < 10 else 24 if t < 20 else 30)
        assert (mask[..., :60] <= plain.action_mask("agent")[..., :60]).all()
        for env in (plain, growing):
            env.step(env.action_mask("agent").argmax(-1))


def test_privacy_and_policies_leave_contexts_and_repositories_alone() -> None:
    env, states = small(), []
    for policy, privacy in (
        (Random(), None),
        (TPriDO(2.0), {"statistics": TreeAggregation(1.0), "selection": Exponential(1.0)}),
        (TPriDO(0.0), None),
    ):
        taciturn.simulate(env, policy, seed=4, privacy=privacy)
        states.append(env.state)
    for state in states[1:]:
        for name in ("contexts", "items", "active", "weights", "phases"):
            np.testing.assert_array_equal(getattr(state, name), getattr(states[0], name))


def test_instances_are_drawn_at_each_reset() -> None:
    env = small()
    first = env.reset(seed=5) and env.state
    second = env.reset() and env.state
    for name in ("items", "active", "weights", "directions", "phases", "matrix", "contexts"):
        assert not np.array_equal(getattr(first, name), getattr(second, name)), name
        assert not np.array_equal(getattr(first, name)[0], getattr(first, name)[1]), name


def test_observations_show_nothing_of_the_mean_rewards() -> None:
    """Two worlds that differ in the family alone look the same until a feedback differs."""
    envs = [small(family=family, horizon=10) for family in rewards.FAMILIES]
    seen = [env.reset(seed=6)[0] for env in envs]
    for other in seen[1:]:
        np.testing.assert_array_equal(seen[0], other)
    # What was asked for are sums of feedbacks, which are all 0 if nobody likes anything.
    quiet = [
        small(family=lambda c, x, low=low: np.full(np.broadcast_shapes(c.shape, (*x.shape[:-1], 1))[:-1], low))
        for low in (0.0,)
    ]
    for env in quiet:
        env.reset(seed=6)
        env.step(env.action_mask("agent").argmax(-1) + 60)
        part = env.roles["agent"].layout.slices["means"]
        assert (env.observe()[..., part] == 0).all()


@pytest.mark.parametrize("graph", ["star", "ring", "none", nx.path_graph(4)])
def test_what_was_asked_for_is_in_the_next_observation(graph: Any) -> None:
    env = small(graph=graph, cluster_depth=2)
    env.reset(seed=8)
    records: list[tuple[Array, Array, Array]] = []
    rng, layout = np.random.default_rng(0), env.roles["agent"].layout
    links = env.params.network.matrix().toarray() > 0
    for _ in range(15):
        state, mask = env.state, env.action_mask("agent")
        items = (mask[..., :60] * rng.random((2, 4, 60))).argmax(-1)
        asks = rng.random((2, 4)) < 0.5
        step = env.step(items + 60 * asks)
        records.append((state.contexts, items, step.reward))
        seen, now = layout.unpack(step.observation), env.state
        for b, w in itertools.product(range(2), range(4)):
            got = asks[b, w] and links[w].any()
            assert seen["answered"][b, w] == got
            counts, sums = np.zeros(4), np.zeros(4)
            for contexts, shown, likes in records if got else ():
                for other in np.flatnonzero(links[w]):
                    if ((contexts[b, other] >= 0.5) == (now.contexts[b, w] >= 0.5)).all():
                        x = now.items[b, shown[b, other]]
                        cluster = 2 * (x[0] >= 0.5) + (x[1] >= 0.5)
                        counts[int(cluster)] += 1
                        sums[int(cluster)] += likes[b, other]
            np.testing.assert_array_equal(seen["counts"][b, w], counts)
            np.testing.assert_allclose(seen["means"][b, w], sums / np.maximum(counts, 1), rtol=1e-6)


def test_clusters_show_own_items() -> None:
    cluster = small(actions="cluster")
    cluster.reset(seed=9)
    mask, state = cluster.action_mask("agent")[..., :8], cluster.state
    chosen = mask.argmax(-1)
    items = []
    for _ in range(30):
        info = cluster.step(chosen).info
        items.append(cluster.state.shown)
        np.testing.assert_array_equal(info["cluster"]["agent"], chosen)
    for b, w in itertools.product(range(2), range(4)):
        held = {int(code) >> 37 for code in state.codes[b, state.active[b, w]]}
        assert held == set(np.flatnonzero(mask[b, w]).tolist())
        inside = state.active[b, w] & (state.codes[b] >> 37 == chosen[b, w])
        shown = {int(item[b, w]) for item in items}
        assert shown <= set(np.flatnonzero(inside).tolist())
        assert len(shown) > 1 or inside.sum() < 3


def test_a_family_of_the_users_own() -> None:
    def nearness(contexts: Array, items: Array) -> Array:
        return np.clip(1 - np.abs(contexts[..., 0] - items[..., 0]), 0, 1)

    env = small(family=nearness)
    assert taciturn.simulate(env, OracleItem(), seed=0).metrics["regret"] == pytest.approx([0, 0], abs=1e-12)
    with pytest.raises(ValueError, match=r"family must return mean rewards in \[0, 1\].*not [12]"):
        taciturn.simulate(small(family=lambda c, x: nearness(c, x) + 1 + (x[..., 0] > -1)), Random(), seed=0)


# Privacy.


def test_noise_follows_from_its_address() -> None:
    distribution, key = TreeAggregation(1.0), np.uint64(7)
    streams, times = np.arange(50, dtype=np.uint64)[:, None], np.arange(40)
    noise = distribution.noise_at(key, streams, times)
    np.testing.assert_array_equal(noise, distribution.noise_at(key, streams, times))
    np.testing.assert_array_equal(noise[7:9, [5, 3]], distribution.noise_at(key, streams[7:9], times[[5, 3]]))
    assert not np.any(noise[:, 1:] == distribution.noise_at(np.uint64(8), streams, times)[:, 1:])
    assert (noise[:, 0] == 0).all()
    # The first 13 values are the blocks that end at 8, 12 and 13.
    ends = [address_laplace(key, streams[:, 0], np.uint64(end)) for end in (8, 12, 13)]
    np.testing.assert_allclose(noise[:, 13], sum(ends))


def test_the_law_of_the_noise() -> None:
    """Blocks are Laplace and uncorrelated; sums have the law of the mechanism's own streams. Each test fails by chance
    once in 1e5."""
    streams, key = np.arange(40_000, dtype=np.uint64), np.uint64(12345)
    blocks = [address_laplace(key, streams, np.uint64(end)) for end in (1, 2, 3, 64)]
    for block in blocks:
        assert stats.kstest(block, "laplace").pvalue > ALARM
    for one, other in itertools.combinations(blocks, 2):
        assert stats.spearmanr(one, other).pvalue > ALARM
    assert stats.spearmanr(blocks[0][:-1], blocks[0][1:]).pvalue > ALARM, "neighbouring streams"
    distribution = TreeAggregation(0.5, horizon=100)
    drawn = distribution.perturb(np.zeros((20_000, 100)), np.random.default_rng(0), 1.0)[:, [10, 62]]
    ours = distribution.noise_at(key, streams[:20_000, None], np.array([11, 63])) * distribution.block_scale(100, 1.0)
    for i in range(2):
        assert stats.ks_2samp(drawn[:, i], ours[:, i]).pvalue > ALARM
    assert distribution.block_scale(np.array([100, 7]), 1.0).tolist() == [7 / 0.5, 7 / 0.5]
    assert TreeAggregation(0.5).block_scale(np.array([100, 128, 1]), 2.0).tolist() == [28.0, 32.0, 4.0]
    with pytest.raises(ValueError, match=r"horizon of .* must be at least 101"):
        distribution.block_scale(101, 1.0)


def test_what_answers_cost_in_closed_form() -> None:
    """Who always asks learns every neighbour's first feedback in one stream; so it costs epsilon for each neighbour."""
    for graph, degrees in (
        ("complete", [3, 3, 3, 3]),
        ("star", [3, 1, 1, 1]),
        ("ring", [2, 2, 2, 2]),
        ("none", [0] * 4),
    ):
        env = small(graph=graph, horizon=400, cluster_depth=1)
        run = taciturn.simulate(env, AlwaysAsks(), seed=0, privacy={"statistics": TreeAggregation(0.5)})
        spent = run.accountant.epsilon(channel="statistics", delta=0.0, method="basic", unit="event")
        np.testing.assert_allclose(spent, np.tile(np.array(degrees) * 0.5, (2, 1)))
        sent = env.channels["statistics"].messages()
        np.testing.assert_array_equal(sent, np.tile(np.array(degrees) * 399, (2, 1)))
        if graph != "none":
            assert np.isinf(run.accountant.epsilon(channel="statistics", delta=0.0, method="basic", unit="user")).all()
            assert np.isinf(run.accountant.epsilon(channel="counts", delta=0.0, method="basic")).all(), (
                "counts are not perturbed"
            )


def test_repeated_questions_get_the_same_answer() -> None:
    """Between two questions without a new record in its streams, an agent reads the same noise."""
    env = small(graph="complete", horizon=5)
    env.reset(seed=0, options={"channels": {"statistics": ChannelConfig(TreeAggregation(0.1))}})
    for _ in range(3):
        env.step(env.action_mask("agent").argmax(-1))
    asks = np.ones((2, 4), np.bool_)
    answers = [env.answers(asks)[2] for _ in range(2)]
    np.testing.assert_array_equal(*answers)
    exact = small(graph="complete", horizon=5)
    exact.reset(seed=0)
    for _ in range(3):
        exact.step(exact.action_mask("agent").argmax(-1))
    assert not np.array_equal(exact.answers(asks)[2], answers[0]), "there is noise"


def test_selection_past_the_channel_is_charged_as_infinite() -> None:
    private = {"selection": Exponential(3.0)}
    past = taciturn.simulate(small(graph="none"), Random(), seed=0, privacy=private)
    through = taciturn.simulate(small(graph="none"), TPriDO(0.0), seed=0, privacy=private)
    total = {"channel": "selection", "delta": 0.0, "method": "basic"}
    assert np.isinf(past.accountant.epsilon(**total)).all()
    np.testing.assert_allclose(through.accountant.epsilon(**total), 3.0 * 40)


# T-PriDO and DT-PriDO; see also test_recommender_exact.py.


def test_no_privacy_plays_like_no_mechanism() -> None:
    """On all channels: what is shown and earned is the same, and all that is charged is infinite."""
    env = recommender_v0.population(3, graph="complete", **SMALL)
    bare = taciturn.simulate(env, TPriDO(), seed=0).metrics
    told = taciturn.simulate(env, TPriDO(), seed=0, privacy=dict.fromkeys(env.channels, NoPrivacy())).metrics
    for name in ("reward", "expected_reward", "regret", "shared"):
        np.testing.assert_allclose(bare[name], told[name], rtol=1e-12)
    scores = np.array([[[0.1, 0.9, 0.5]] * 4] * 3)
    env.reset(seed=0, options={"channels": {"selection": ChannelConfig(NoPrivacy())}})
    assert (env.select(scores, scores < 0.8, np.ones((3, 1, 1))) == 2).all()


def test_the_rate_of_partitions_by_hand() -> None:
    assert partition_rate(2) == pytest.approx(math.sqrt(1.5))
    assert partition_rate(1) == pytest.approx((1 + math.sqrt(13)) / 2)
    p = partition_rate(9, 0.5)
    assert 9 * p**2 + 7 * p - 2.5 == pytest.approx(0, abs=1e-12)


def test_dominating_sets() -> None:
    def found(graph: nx.Graph) -> tuple[list[int], list[int]]:
        members, follows = dominating_set(Graph.of(graph))
        return members.tolist(), follows.tolist()

    assert found(nx.star_graph(4)) == ([0], [0] * 5)
    assert found(nx.empty_graph(3)) == ([0, 1, 2], [0, 1, 2])
    assert found(nx.path_graph(5)) == ([1, 3], [0, 0, 0, 1, 1])
    for seed in range(5):
        graph = nx.gnp_random_graph(20, 0.15, seed=seed)
        members, follows = found(graph)
        assert nx.is_dominating_set(graph, members)
        left, greedy = set(graph), []
        while left:
            reached = [len(left & {a, *graph[a]}) for a in graph]
            greedy.append(reached.index(max(reached)))
            left -= {greedy[-1], *graph[greedy[-1]]}
        assert members == greedy
        assert all(members[f] == a or graph.has_edge(a, members[f]) for a, f in enumerate(follows))


# What sharing and noise do, on replicas that share all luck. Each comparison errs with probability 1e-4 if there is no
# difference.


def regret(policy: Policy, rounds: int = 500, privacy: Any = None, num_envs: int = 10, **params: Any) -> Array:
    env = recommender_v0.population(num_envs, horizon=rounds, **params)
    return taciturn.simulate(env, policy, seed=1, privacy=privacy).metrics["regret"]


def surely_less(less: Array, more: Array) -> bool:
    """Whether the paired differences are positive at the level of 1e-4."""
    return bool(stats.ttest_rel(less, more, alternative="less").pvalue < 1e-4)


@pytest.mark.slow
def test_neighbours_and_thresholds_help() -> None:
    graphs = ("complete", "ring", "none")
    complete, ring, none = (regret(TPriDO(2.0), 1500, num_envs=20, graph=graph) for graph in graphs)
    assert surely_less(complete, ring)
    assert surely_less(ring, none)
    assert surely_less(none[:10], regret(Random(), 200, graph="none"))
    never, always = (regret(TPriDO(level), 1500, num_envs=20, graph="star") for level in (0.0, 2.0))
    assert surely_less(always, never)


@pytest.mark.slow
def test_noise_hurts() -> None:
    few: dict[str, Any] = {"num_envs": 20, "num_agents": 4, "graph": "complete"}
    strong, weak = (regret(TPriDO(2.0), 300, {"statistics": TreeAggregation(level)}, **few) for level in (2.0, 1000.0))
    exact, chance = regret(TPriDO(2.0), 300, **few), regret(Random(), 300, **few)
    gain = (chance - exact).mean()
    # The smallest noise sends runs on other ways: their means differ by a twentieth of the gain, as two samples of 20
    # do.
    assert abs((weak - exact).mean()) < 0.2 * gain, "epsilon = 1,000 is as good as no noise"
    assert (chance - strong).mean() < 0.35 * gain, "epsilon = 2 takes most of what can be learned"


# Baselines.


@pytest.mark.parametrize("kind", ["shared", "disjoint", "hybrid"])
def test_linucb_is_one_ridge_regression(kind: str) -> None:
    """Estimates and variances are those of one ridge regression with a column for each model's coefficient."""
    env = recommender_v0.population(1, num_agents=1, num_items=6, repository=6, context_dim=1, horizon=30)
    policy = LinUCB(kind, ridge=0.7)
    taciturn.simulate(env, policy, seed=3)
    rng = np.random.default_rng(0)
    policy.start(np.ones(1, np.bool_))
    rows, likes = [], []

    def columns(context: Array, item: int) -> Array:
        x = np.concatenate([[1.0], 2 * context - 1])
        own = np.zeros((6, 2))
        own[item] = x
        shared = np.outer(x, np.concatenate([[1.0], 2 * env.state.items[0, item] - 1])).ravel() / math.sqrt(12)
        return np.concatenate({"shared": [shared], "disjoint": [own.ravel()], "hybrid": [shared, own.ravel()]}[kind])

    for _ in range(25):
        context, item, like = (
            rng.random((1, 1, 1)),
            rng.integers(0, 5, (1, 1)),
            rng.integers(0, 2, (1, 1)).astype(float),
        )
        policy.learn(context, item, like, np.ones((1, 1), np.bool_))
        rows.append(columns(context[0, 0], int(item[0, 0])))
        likes.append(like[0, 0])
    design = np.array(rows)
    inverse = np.linalg.inv(design.T @ design + 0.7 * np.eye(design.shape[1]))
    context = rng.random(1)
    mean, variance = policy.predict(0, 0, context)
    for each in range(6):  # the last was never shown
        row = columns(context, each)
        assert mean[each] == pytest.approx(row @ inverse @ design.T @ likes, rel=1e-9, abs=1e-12)
        assert variance[each] == pytest.approx(row @ inverse @ row, rel=1e-9)


# The cells, in units of 2^-13, that PyXAB 0.3.0 (T_HOO with nu 1, rho 0.75, 300 rounds, on [0, 1]) tried with the
# rewards below.
PYXAB = "b304036dd4b9cd076fbae136daae543fceb7ce53da44bf22dea0fb3ac13921f6"


def test_hoo_tries_what_pyxab_tries() -> None:
    tree = TruncatedTree(np.arange(2**12) << 28, 1.0, 0.75, 300)
    tried = []
    for t in range(1, 301):
        path = tree.path()
        cell = tree.first[path[-1]] + tree.last[path[-1]]
        tried.append(cell)
        tree.learn(path, float(t * 7919 % 1000 / 1000 < 1 - abs(cell / 2**13 - 0.37)))
    assert hashlib.sha256(str(tried).encode()).hexdigest() == PYXAB


@pytest.mark.slow
@pytest.mark.parametrize("name", ["LinUCB", "HOO", "TPriDO", "DTPriDO"])
def test_policies_beat_random(name: str) -> None:
    params: dict[str, Any] = {"num_agents": 4, "num_items": 100, "repository": 50, "graph": "complete"}
    rounds = 300 if name == "LinUCB" else 600  # that takes long
    found = regret(getattr(policies, name)(), rounds, **params)
    assert surely_less(found, regret(Random(), rounds, **params))
