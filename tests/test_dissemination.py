"""Where copies end: the walks against the powers of their matrix, and the closed laws against one another and against
single copies.

Every check has a fixed seed and a false-alarm rate of at most 1e-4 by itself (ALARM); the mistakes it is there to find
are shown to fail it.
"""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from laws import fits, same_law, same_moments
from scipy import stats

from taciturn.envs.core import Array
from taciturn.envs.core.graph import Graph, random_graph
from taciturn.envs.social_bandit import dissemination
from taciturn.policies.families.social import sample
from taciturn.policies.reference.private_social_learning import popularity_estimate
from taciturn.wrappers import (
    BitwiseRandomizedResponse,
)

ALARM = 1e-4
Spreader = Callable[[Array, int, int, np.random.Generator], tuple[Array, Array]]


# The walks.

GRAPHS: dict[str, Graph] = {
    "star and triangle": random_graph("star_triangle", 6),
    "odd ring": random_graph("ring", 7),
    "complete": Graph.of("complete", 5),
    "triangle": Graph.of("complete", 3),
    "Erdos-Renyi": random_graph("erdos_renyi", 12, 3),
    "Barabasi-Albert": random_graph("barabasi_albert", 10, 1),
    "Watts-Strogatz": random_graph("watts_strogatz", 11, 2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_transition_matrix_of_equation_2(name: str) -> None:
    graph = GRAPHS[name]
    psi = dissemination.metropolis_hastings(graph)
    for i, j in itertools.product(range(graph.num_nodes), repeat=2):
        if i != j:
            linked = j in graph.neighbours(i).tolist()
            assert psi[i, j] == (min(1 / graph.degrees[i], 1 / graph.degrees[j]) if linked else 0)
    np.testing.assert_allclose(psi, psi.T)
    np.testing.assert_allclose(psi.sum(0), 1)
    assert (psi >= -1e-15).all()
    assert dissemination.mobility(graph) == pytest.approx(1 - np.trace(psi) / graph.num_nodes)


def ends(
    graph: Graph, length: int, copies: int, spread: Callable[..., Any] = dissemination.spread_walks, **more: Any
) -> Any:
    """Where walks from every agent end, int64[N, N] by origin and end: each agent's vector names it."""
    n = graph.num_nodes
    rng = np.random.default_rng(5)
    return spread(np.eye(n, dtype=bool), np.arange(n), copies, graph, length, *more.values(), rng)


@pytest.mark.parametrize("length", [1, 2, 3, 6])
@pytest.mark.parametrize("name", GRAPHS)
def test_walks_follow_the_powers_of_the_matrix(name: str, length: int) -> None:
    graph = GRAPHS[name]
    got = ends(graph, length, 20_000)
    power = np.linalg.matrix_power(dissemination.metropolis_hastings(graph), length)
    np.testing.assert_array_equal(got.counts.sum(0), 20_000)
    np.testing.assert_array_equal(got.counts.sum(1), got.received)
    for origin in range(graph.num_nodes):
        assert fits(got.counts[:, origin], np.maximum(power[origin], 0)) > ALARM / graph.num_nodes
    moves = graph.num_nodes * 20_000 * length
    assert abs(got.hops - moves * dissemination.mobility(graph)) <= 4 * np.sqrt(moves)


def test_a_walk_that_always_accepts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simple random walk prefers hubs."""

    def simple(place: Array, uniform: Array, indptr: Array, indices: Array, degrees: Array) -> Array:
        return indices[indptr[place] + (uniform * degrees[place]).astype(np.int64)]

    monkeypatch.setattr(dissemination, "walk_step", simple)
    monkeypatch.setattr(dissemination, "walker", lambda: dissemination.walk_block)
    graph = GRAPHS["star and triangle"]
    got = ends(graph, 6, 20_000)
    power = np.linalg.matrix_power(dissemination.metropolis_hastings(graph), 6)
    assert fits(got.counts[:, 0], power[0]) < ALARM


@pytest.mark.parametrize("name", ["star and triangle", "Erdos-Renyi"])
def test_compiled_walks_have_the_same_bits(name: str) -> None:
    graph, rng = GRAPHS[name], np.random.default_rng(0)
    start, uniform = rng.integers(0, graph.num_nodes, 500), rng.random((9, 500))
    kernels: list[Callable[..., int]] = [dissemination.walk_block, dissemination._walk_block_loop]
    if dissemination.walker() is not dissemination.walk_block:
        kernels.append(dissemination.walker())
    found = []
    for kernel in kernels:
        place = start.copy()
        hops = kernel(place, uniform, graph.indptr, graph.indices, graph.degrees)
        found.append((hops, place.tolist()))
    assert all(one == found[0] for one in found)


def test_walks_are_stationary_where_they_have_mixed_and_only_there() -> None:
    rng = np.random.default_rng(1)

    def p_values(graph: Graph, length: int) -> tuple[float, float]:
        """Of the copies of one agent against a uniform law, and of how many end with agent 0 in many rounds against
        `spread_uniform`."""
        n = graph.num_nodes
        one = np.ones((1, 2), np.bool_)
        got = dissemination.spread_walks(one, np.zeros(1, np.int64), 20_000, graph, length, rng)
        vectors, copies = np.eye(n, 3, dtype=bool), 4
        walked = [
            dissemination.spread_walks(vectors, np.arange(n), copies, graph, length, rng).counts[0, 0]
            for _ in range(800)
        ]
        thrown = [dissemination.spread_uniform(vectors, np.full(n, copies), n, rng)[0][0, 0] for _ in range(800)]
        return fits(got.received, np.full(n, 1 / n)), same_law(np.array(walked), np.array(thrown))

    for graph, length in ((Graph.of("complete", 15), 20), (random_graph("erdos_renyi", 15, 2, probability=0.6), 40)):
        assert min(p_values(graph, length)) > ALARM
    assert max(p_values(random_graph("ring", 15), 4)) < ALARM


def test_queues_delay_walks_and_do_not_bend_them() -> None:
    graph = GRAPHS["star and triangle"]
    got = ends(graph, 3, 3_000, dissemination.spread_queued, slots=None)
    power = np.linalg.matrix_power(dissemination.metropolis_hastings(graph), 3)
    assert got.slots > 3
    for origin in range(graph.num_nodes):
        assert fits(got.counts[:, origin], np.maximum(power[origin], 0)) > ALARM
    late = ends(graph, 3, 3_000, dissemination.spread_queued, slots=3)
    assert late.slots == 3
    assert 0 < late.received.sum() < got.received.sum() == 6 * 3_000


def test_an_agent_forwards_no_more_than_its_share_of_a_slot() -> None:
    """On a ring every step moves. In the first slot each agent forwards its own T copies; after it, T tokens an agent
    at most."""
    graph = random_graph("ring", 5)
    for slots in range(1, 8):
        got = ends(graph, 6, 50, dissemination.spread_queued, slots=slots)
        assert got.hops <= slots * 5 * 50
        assert (got.received.sum() == 0) == (slots < 6)


# Dissemination: what the closed laws keep.


def one_by_one(vectors: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """`stationary`, copy by copy."""
    counts, received = np.zeros((num_agents, vectors.shape[1]), np.int64), np.zeros(num_agents, np.int64)
    for vector in vectors:
        for end in rng.integers(0, num_agents, copies):
            counts[end] += vector
            received[end] += 1
    return counts, received


def thrown(vectors: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    return dissemination.spread_uniform(vectors, np.full(len(vectors), copies), num_agents, rng)


def normal(vectors: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    drawn = dissemination.spread_gaussian(vectors, copies, num_agents, rng).astype(np.int64)
    return drawn[1:].T, drawn[0]


def samples(spread: Spreader, vectors: Array, copies: int, num_agents: int, size: int, seed: int) -> Array:
    """Draws of all that the agents receive, int64[size, N (K + 1)]."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(size):
        counts, received = spread(vectors, copies, num_agents, rng)
        rows.append(np.concatenate([counts, received[:, None]], axis=1).ravel())
    return np.array(rows)


BITS = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]], np.bool_)


@pytest.mark.parametrize("copies", [2, 40])
def test_thrown_copies_have_the_law_of_single_ones(copies: int) -> None:
    """Few copies are thrown one by one, many as counts by pattern and agent; the exact joint law of agents 0 and 1 by
    chi-square."""
    assert (copies * len(BITS) > 4 * 3) == (copies == 40)
    sets = [samples(s, BITS, copies, 3, 6000, seed) for seed, s in enumerate((thrown, one_by_one))]
    assert same_moments(*(s.astype(float) for s in sets)) > ALARM
    for columns in ((0, 1), (0, 4), (3, 7), (2, 6)):
        joint = [np.unique(s[:, columns], axis=0, return_inverse=True)[1].ravel() for s in (np.concatenate(sets),)]
        assert same_law(joint[0][:6000], joint[0][6000:]) > ALARM


def test_throws_add_up() -> None:
    rng = np.random.default_rng(0)
    for balls in (0, 1, 7, 100, 12345, 10**6):
        assert dissemination.throw(balls, 10, rng).sum() == balls
    cells = np.array([dissemination.throw(1000, 10, rng)[0] for _ in range(4000)])
    assert fits(np.bincount(cells, minlength=1001), stats.binom.pmf(np.arange(1001), 1000, 0.1)) > ALARM


def perturbed(adopters: int, epsilon: float, seed: int, options: int = 4) -> Array:
    one_hot = np.arange(adopters)[:, None] % options == np.arange(options)
    return BitwiseRandomizedResponse(epsilon).perturb(one_hot, np.random.default_rng(seed))


def test_gaussian_form_keeps_the_joint_law_of_options_and_agents() -> None:
    """Given the perturbed bits: means and all covariances, over options and agents, are those of the tokens; totals are
    as sent."""
    vectors, copies, agents = perturbed(60, 1.0, 3), 60, 5
    exact = samples(thrown, vectors, copies, agents, 5000, 0).astype(float)
    close = samples(normal, vectors, copies, agents, 5000, 1).astype(float)
    assert same_moments(exact, close) > ALARM
    totals = close.reshape(5000, agents, -1).sum(1) - copies * np.append(vectors.sum(0), len(vectors))
    assert np.abs(totals).max() <= agents / 2

    bits = np.concatenate([vectors, np.ones((60, 1))], axis=1)
    law = np.kron(np.eye(agents) - 1 / agents, copies / agents * bits.T @ bits)
    scale = np.sqrt(np.diag(law))
    assert np.abs((np.cov(close.T) - law) / np.outer(scale, scale)).max() < 5 / np.sqrt(5000)
    assert stats.ks_2samp(exact[:, 0], close[:, 0], method="asymp").pvalue > ALARM


def shuffled(drawn: tuple[Array, Array], rng: np.random.Generator) -> tuple[Array, Array]:
    """Options drawn independently of one another: each option's counts from agents of other draws."""
    counts, received = drawn
    return np.stack([rng.permutation(column) for column in counts.T], axis=1), received


def by_option(vectors: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    received = thrown(vectors, copies, num_agents, rng)[1]
    return rng.binomial(received[:, None], vectors.mean(0)), received


def by_agent(vectors: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    drawn = [thrown(vectors, copies, num_agents, rng) for _ in range(num_agents)]
    return np.stack([c[0] for c, _ in drawn]), np.array([r[0] for _, r in drawn])


@pytest.mark.parametrize("wrong", [by_option, by_agent, lambda *a: shuffled(thrown(*a), a[-1])])
def test_options_or_agents_drawn_independently_are_found(wrong: Spreader) -> None:
    vectors, copies, agents = perturbed(60, 1.0, 3), 60, 5
    exact = samples(thrown, vectors, copies, agents, 3000, 0).astype(float)
    assert same_moments(exact, samples(wrong, vectors, copies, agents, 3000, 1).astype(float)) < ALARM


def choices(
    spread: Spreader, adopters: int, copies: int, agents: int, rounds: int, seed: int, epsilon: float = 1.0
) -> Array:
    """What the agents of many societies draw from their estimates, int64[rounds, agents], each round with fresh
    noise."""
    rng, law = np.random.default_rng(seed), BitwiseRandomizedResponse(epsilon)
    one_hot = np.arange(adopters)[:, None] % 4 == np.arange(4)
    found = []
    for _ in range(rounds):
        counts, received = spread(law.perturb(one_hot, rng), copies, agents, rng)
        weights = popularity_estimate(counts, received, law.p, law.q)
        found.append(sample(weights, rng)[0])
    return np.array(found)


def joint_choice(chosen: Array) -> Array:
    """What two agents draw, as one number."""
    return 4 * chosen[:, 0] + chosen[:, 1]


def agreement(chosen: Array) -> Array:
    """How many of a society draw its first option: what noise that agents share spreads out."""
    return (chosen == 0).sum(1)


@pytest.mark.parametrize("statistic", [joint_choice, agreement])
def test_what_agents_draw_has_the_law_of_the_tokens(statistic: Callable[[Array], Array]) -> None:
    exact = statistic(choices(thrown, 40, 60, 10, 3000, 0))
    close = statistic(choices(normal, 40, 60, 10, 3000, 1))
    assert same_law(exact, close) > ALARM


def fresh_copies(vectors: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Independent bits in each copy, with the same chances: the noise that agents share is gone."""
    every = (rng.random((len(vectors) * copies, vectors.shape[1])) < 0.25 * 0.6225 + 0.75 * 0.3775).astype(bool)
    return dissemination.spread_uniform(every, np.ones(len(every), np.int64), num_agents, rng)


@pytest.mark.parametrize("wrong", [fresh_copies, by_option])
def test_agents_share_the_noise_of_the_bits_they_hear(wrong: Spreader) -> None:
    exact = agreement(choices(thrown, 40, 60, 10, 1500, 0))
    found = same_law(exact, agreement(choices(wrong, 40, 60, 10, 1500, 1)))
    # Given the bits, options drawn apart keep the shared noise, so only fresh bits change how much agents agree.
    assert (found < ALARM) == (wrong is fresh_copies)


def test_aggregated_form_is_exact_where_it_says_so() -> None:
    rng = np.random.default_rng
    few = np.arange(400)[:, None] % 4 == np.arange(4)
    for vectors, copies, below in ((few, 3000, 0), (perturbed(400, 1.0, 0, options=12), 2, 10)):
        counts, received = thrown(vectors, copies, 200, rng(1))
        drawn = dissemination.spread_aggregated(vectors, copies, 200, rng(1), below)
        np.testing.assert_array_equal(counts.T, drawn[1:])
        np.testing.assert_array_equal(received, drawn[0])
    many = perturbed(400, 1.0, 0, options=12)
    drawn = dissemination.spread_aggregated(many, 3000, 200, rng(1), 10)
    np.testing.assert_array_equal(drawn, dissemination.spread_gaussian(many, 3000, 200, rng(1)))
    assert (drawn >= 0).all()
    assert (drawn <= drawn[0]).all()


def fresh_tokens(holders: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """`per_token`, exactly: the copies for each option, then fresh noise on each."""
    law = BitwiseRandomizedResponse(1.0)
    counts, received = dissemination.spread_uniform(np.eye(len(holders), dtype=bool), holders * copies, num_agents, rng)
    return law.perturb_counts(counts, rng, received), received


def fresh_normal(holders: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    law = BitwiseRandomizedResponse(1.0)
    drawn = dissemination.spread_gaussian_fresh(holders, copies, num_agents, (law.p, law.q), rng).astype(np.int64)
    return drawn[1:].T, drawn[0]


def zeros_tokens(holders: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """`fresh_tokens`, where the holders of the first option hold none."""
    law = BitwiseRandomizedResponse(1.0)
    counts, received = dissemination.spread_uniform(np.eye(len(holders), dtype=bool), holders * copies, num_agents, rng)
    return law.perturb_counts(counts[:, 1:], rng, received), received


def zeros_normal(holders: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    law, none = BitwiseRandomizedResponse(1.0), int(holders[0])
    drawn = dissemination.spread_gaussian_fresh(holders[1:], copies, num_agents, (law.p, law.q), rng, zeros=none)
    return drawn[1:].T.astype(np.int64), drawn[0].astype(np.int64)


def silent_normal(holders: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    return fresh_normal(holders[1:], copies, num_agents, rng)


def stale_normal(holders: Array, copies: int, num_agents: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The noise of `per_round` in place of fresh noise."""
    one_hot = np.repeat(np.eye(len(holders), dtype=bool), holders, axis=0)
    return normal(BitwiseRandomizedResponse(1.0).perturb(one_hot, rng), copies, num_agents, rng)


def test_gaussian_form_of_fresh_noise_keeps_the_joint_law() -> None:
    exact, close, stale = (
        samples(s, np.array([20, 9, 0, 3]), 80, 5, 4000, seed).astype(float)
        for seed, s in enumerate((fresh_tokens, fresh_normal, stale_normal))
    )
    assert same_moments(exact, close) > ALARM > same_moments(exact, stale)
    assert stats.ks_2samp(exact[:, 0], close[:, 0], method="asymp").pvalue > ALARM


def test_gaussian_form_of_fresh_noise_counts_copies_for_no_option() -> None:
    exact, close, silent = (
        samples(s, np.array([12, 9, 0, 8]), 80, 5, 4000, seed).astype(float)
        for seed, s in enumerate((zeros_tokens, zeros_normal, silent_normal))
    )
    assert same_moments(exact, close) > ALARM > same_moments(exact, silent)
    assert stats.ks_2samp(exact[:, 0], close[:, 0], method="asymp").pvalue > ALARM


def test_no_agent_counts_more_bits_than_copies() -> None:
    """Where copies are few and bits nearly all 1, the normal law by itself would often give more; and nothing is below
    0."""
    vectors = np.ones((30, 3), np.bool_)
    vectors[0] = False
    law = dissemination.spread_gaussian(vectors, 2, 60, np.random.default_rng(0))
    fresh = dissemination.spread_gaussian_fresh(np.array([20, 6, 4]), 2, 60, (0.95, 0.9), np.random.default_rng(0))
    for drawn in (law, fresh):
        assert (drawn >= 0).all()
        assert (drawn[1:] <= drawn[0]).all()
        assert (drawn[1:] == drawn[0]).any()


def test_many_options_are_told_apart() -> None:
    vectors = np.random.default_rng(0).random((50, 200)) < 0.5
    twice = np.concatenate([vectors, vectors])
    rows, tokens = dissemination.distinct(twice, np.full(100, 3))
    assert len(rows) == 50
    np.testing.assert_array_equal(tokens, 6)
    assert {row.tobytes() for row in rows} == {row.tobytes() for row in vectors}


@pytest.mark.parametrize("below", [10, 10**10])
def test_picked_tokens_are_a_sample_without_replacement(below: int) -> None:
    rng = np.random.default_rng(0)
    drawn = np.stack([dissemination.distinct_integers(below, 8, rng) for _ in range(3000)])
    assert all(len(set(row)) == 8 for row in drawn.tolist())
    for column in (0, 7):
        assert fits(np.bincount(drawn[:, column] * 10 // below, minlength=10), np.full(10, 0.1)) > ALARM


@pytest.mark.parametrize("copies", [1, 40, 10**9])
def test_pick_tokens(copies: int) -> None:
    """Against dealing out the copies; with many of them, against a multinomial draw."""
    rng, holders, agents = np.random.default_rng(0), np.array([3, 1, 0, 2]), 6
    picked = np.stack([dissemination.pick_tokens(holders * copies, agents, rng) for _ in range(4000)])
    if copies > 40:
        assert fits(np.bincount(picked[:, 0], minlength=5), np.append(holders, 0) / 6) > ALARM
        return
    dealt = []
    for _ in range(4000):
        pool, ends = np.repeat(np.arange(4), holders * copies), rng.integers(0, agents, 6 * copies)
        own = [pool[ends == i] for i in range(agents)]
        dealt.append([rng.choice(o) if len(o) else 4 for o in own])
    counts = [np.stack([(x == k).sum(1) for k in range(5)], axis=1) for x in (picked, np.array(dealt))]
    assert same_moments(*(c.astype(float) for c in counts)) > ALARM
    assert same_law(5 * picked[:, 0] + picked[:, 1], 5 * np.array(dealt)[:, 0] + np.array(dealt)[:, 1]) > ALARM


def test_fresh_noise_has_the_variance_of_ones_and_of_zeros() -> None:
    """A bit is read as 1 with probability 0.9 if it is 1 and 0.4 if it is 0, so that a copy's variance is 0.09 or 0.24.

    Against the law by hand, and against single copies. 12,000 counts an option, nearly independent and normal: six
    standard errors of the variance are 8%; with the two variances exchanged it is 30% smaller for the rare option.
    """
    (p, q), agents, copies, rounds = (0.9, 0.4), 200, 100, 60
    holders, rng = np.array([10, 190]), np.random.default_rng(0)
    shares = holders * copies / agents
    spread = 1 - 1 / agents
    mean = p * shares + q * shares[::-1]
    law = p * (1 - p) * shares + q * (1 - q) * shares[::-1] + (p**2 * shares + q**2 * shares[::-1]) * spread
    drawn = np.stack(
        [dissemination.spread_gaussian_fresh(holders, copies, agents, (p, q), rng)[1:].copy() for _ in range(rounds)]
    )
    single = np.zeros((rounds, 2, agents))
    for one in single:
        for option, number in enumerate(holders * copies):
            ended = rng.integers(0, agents, number)
            for k in range(2):
                one[k] += np.bincount(ended[rng.random(number) < (p if k == option else q)], minlength=agents)
    for found in (drawn, single):
        assert np.abs(found.mean((0, 2)) - mean).max() < 0.3
        assert np.abs(found.var((0, 2)) / law - 1).max() < 0.08
