"""Where copies end: the walks against the powers of their matrix, and the closed laws against one another and against
single copies.

Every check has a fixed seed and a false-alarm rate of at most 1e-4 by itself (ALARM).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest
from distributions import fits, same_distribution, same_moments
from scipy import stats

from taciturn.compiling import compiled
from taciturn.compiling.counter_streams import normal, sources_of
from taciturn.envs import social_bandit_v0
from taciturn.envs.core import Array, ChannelConfig, Fault
from taciturn.envs.social_bandit import dissemination
from taciturn.graph import Graph, random_graph
from taciturn.policies.families.social import sample
from taciturn.policies.reference.private_social_learning import popularity_estimate
from taciturn.wrappers import BitwiseRandomizedResponse, UnaryEncoding

ALARM = 1e-4


@pytest.fixture(autouse=True)
def compiles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "COMPILE_FROM", 0)


@dataclass(frozen=True, eq=False)
class Says(Fault):
    """The messages [A, K] of the first A agents, or [B, A, K], in place of everybody's; the others' are lost."""

    order = 2
    bits: Any = None

    def deliver(
        self, y: Array, sent: Array, sending: Array, memory: dict[str, Array], rng: np.random.Generator
    ) -> tuple[Array, Array]:
        told = np.broadcast_to(self.bits, (len(y), *self.bits.shape[-2:]))
        y, some = np.zeros_like(y), np.zeros_like(sent)
        y[:, : told.shape[1]], some[:, : told.shape[1]] = told, True
        return y, some


def society(size: int, num_agents: int, options: int, copies: int, seed: int, config: Any = None, **params: Any) -> Any:
    """The state of `size` societies after their first messages are spread."""
    env = social_bandit_v0.population(size, num_agents=num_agents, num_options=options, copies=copies, **params)
    env.reset(seed=seed, options={"channels": {"preference": config or ChannelConfig()}})
    return env.state


def spread(vectors: Array, copies: int, num_agents: int, size: int, seed: int, **params: Any) -> Any:
    """The same, where the first agents' messages are `vectors` [A, K] or [B, A, K]."""
    said = ChannelConfig(faults=(Says(np.asarray(vectors, np.int8)),))
    zeros = {"without_preference": "zeros"}
    return society(size, num_agents, vectors.shape[-1], copies, seed, said, **zeros | params)


def flat(state: Any, agents: int = 5) -> Array:
    """All that the first agents receive, int64[size, agents (K + 1)]."""
    both = np.concatenate([state.counts, state.received[:, :, None]], axis=2)[:, :agents]
    return both.reshape(len(both), -1)


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


def ends(graph: Graph, length: int, copies: int, size: int = 1, **params: Any) -> Any:
    """Where walks from every agent end: each agent's option is its number, so that `counts` is by end and origin."""
    n = graph.num_nodes
    own = {"initial_preferences": np.arange(n), "graph": graph, "walk_length": length, "dissemination": "walk"}
    return society(size, n, n, copies, 5, **own | params)


@pytest.mark.parametrize("length", [1, 2, 3, 6])
@pytest.mark.parametrize("name", GRAPHS)
def test_walks_follow_the_powers_of_the_matrix(name: str, length: int) -> None:
    graph = GRAPHS[name]
    got = ends(graph, length, 20_000)
    power = np.linalg.matrix_power(dissemination.metropolis_hastings(graph), length)
    np.testing.assert_array_equal(got.counts.sum(1), 20_000)
    np.testing.assert_array_equal(got.counts.sum(2), got.received)
    for origin in range(graph.num_nodes):
        assert fits(got.counts[0, :, origin], np.maximum(power[origin], 0)) > ALARM / graph.num_nodes
    moves = graph.num_nodes * 20_000 * length
    assert abs(got.hops[0] - moves * dissemination.mobility(graph)) <= 4 * np.sqrt(moves)


def test_walks_are_stationary_where_they_have_mixed_and_only_there() -> None:
    def p_values(graph: Graph, length: int) -> tuple[float, float]:
        """Of the copies of one agent against a uniform law, and of how many end with agent 0 in many rounds against
        those that are thrown."""
        n = graph.num_nodes
        got = ends(graph, length, 20_000)
        few = {"graph": graph, "walk_length": length, "initial_preferences": np.minimum(np.arange(n), 3)}
        walked, thrown = (
            society(800, n, 3, 4, seed, dissemination=kind, **few).counts[:, 0, 0]
            for seed, kind in enumerate(("walk", "stationary"))
        )
        return fits(got.counts[0, :, 0], np.full(n, 1 / n)), same_distribution(walked, thrown)

    for graph, length in ((Graph.of("complete", 15), 20), (Graph.of(nx.gnp_random_graph(15, 0.6, seed=2)), 40)):
        assert min(p_values(graph, length)) > ALARM
    assert max(p_values(random_graph("ring", 15), 4)) < ALARM


def test_queues_delay_walks_and_do_not_bend_them() -> None:
    graph = GRAPHS["star and triangle"]
    got = ends(graph, 3, 3_000, congestion=True)
    power = np.linalg.matrix_power(dissemination.metropolis_hastings(graph), 3)
    assert got.slots[0] > 3
    for origin in range(graph.num_nodes):
        assert fits(got.counts[0, :, origin], np.maximum(power[origin], 0)) > ALARM
    late = ends(graph, 3, 3_000, congestion=True, slots=3)
    assert late.slots[0] == 3
    assert 0 < late.received.sum() < got.received.sum() == 6 * 3_000


def test_an_agent_forwards_no_more_than_its_share_of_a_slot() -> None:
    """On a ring every step moves. In the first slot each agent forwards its own T copies; after it, T tokens an agent
    at most."""
    graph = random_graph("ring", 5)
    for slots in range(1, 8):
        got = ends(graph, 6, 50, congestion=True, slots=slots)
        assert got.hops[0] <= slots * 5 * 50
        assert (got.received.sum() == 0) == (slots < 6)


def test_queues_serve_what_arrives_at_once_in_random_order() -> None:
    """Agents that are alike lose equally many copies to queues, whatever their numbers."""
    runs = 3000
    arrived = ends(Graph.of("complete", 4), 3, 2, runs, congestion=True, slots=3).counts.sum(1)
    assert 0.05 < 1 - arrived.mean() / 2 < 0.9, "some are lost"
    for a, b in ((0, 3), (1, 2), (0, 1)):
        difference = arrived[:, a] - arrived[:, b]
        assert abs(difference.mean()) < 4 * difference.std() / runs**0.5


def queued(copies: int, slots: int, size: int, agents: int = 4, steps: int = 3) -> Array:
    """Copies that queues let arrive in time, by sender and receiver and slot by slot, played with lists: a second
    implementation, on a complete graph."""
    rng, found = np.random.default_rng(0), np.zeros((size, agents), np.int64)
    for i in range(size):
        lines = [[[agent, steps] for _ in range(copies)] for agent in range(agents)]
        for _ in range(slots):
            goes = [(agent, line.pop(0)) for agent, line in enumerate(lines) for _ in range(min(copies, len(line)))]
            for k in rng.permutation(len(goes)).tolist():
                agent, (owner, left) = goes[k]
                other = (agent + int(rng.integers(1, agents))) % agents
                if left == 1:
                    found[i, other] += 1
                else:
                    lines[other].append([owner, left - 1])
    return found


def test_queues_serve_first_what_came_first() -> None:
    """How much arrives, where queues hold several copies, is what lists give; longer queues are found."""
    for slots in (3, 4, 5):
        ours = ends(Graph.of("complete", 4), 3, 2, 3000, congestion=True, slots=slots).received
        assert same_distribution(ours, queued(2, slots, 3000)) > ALARM
        assert (same_distribution(ours, queued(2, slots + 1, 3000)) < ALARM) == (slots < 5), "in 5 slots all arrive"


# Dissemination: what the closed laws keep.


def one_by_one(vectors: Array, copies: int, num_agents: int, size: int, seed: int) -> Array:
    """What the first five agents receive if every copy is thrown by itself, and NumPy draws."""
    rng, found = np.random.default_rng(seed), []
    bits = np.concatenate([vectors, np.ones((len(vectors), 1), np.int64)], axis=1)
    for _ in range(size):
        ended = np.stack([np.bincount(rng.integers(0, num_agents, copies), minlength=num_agents) for _ in vectors])
        found.append((ended.T @ bits)[:5].ravel())
    return np.array(found)


BITS = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]], np.int64)


@pytest.mark.parametrize("copies", [2, 40, 120])
@pytest.mark.parametrize("agents", [5, 160])
def test_thrown_copies_have_the_law_of_single_ones(copies: int, agents: int) -> None:
    """Few copies are thrown one by one, many as counts by message and agent: by a table or by binomials; the exact
    joint law of agents 0 and 1 by chi-square."""
    copies *= 1 if agents == 5 else 6
    sets = [
        flat(spread(BITS, copies, agents, 6000, 0)).astype(float),
        one_by_one(BITS, copies, agents, 6000, 1).astype(float),
    ]
    assert same_moments(*sets) > ALARM
    for columns in ((0, 1), (0, 4), (3, 7), (2, 6)):
        joint = np.unique(np.concatenate(sets)[:, columns], axis=0, return_inverse=True)[1].ravel()
        assert same_distribution(joint[:6000], joint[6000:]) > ALARM


@pytest.mark.parametrize("agents", [3, 10, 200])
@pytest.mark.parametrize("copies", [1, 7, 100, 12_345, 10**6])
def test_throws_add_up(agents: int, copies: int) -> None:
    state = society(1, agents, 2, copies, 0, initial_preferences=np.zeros(agents, np.int64))
    assert state.received.sum() == state.counts[:, :, 0].sum() == copies * agents
    assert state.counts[:, :, 1].sum() == 0


@pytest.mark.parametrize(("agents", "copies"), [(10, 100), (300, 5), (300, 2000), (3000, 41_142)])
def test_a_throw_is_multinomial(agents: int, copies: int) -> None:
    """The number with one agent is binomial, and so is that with half of them; and the squares of all (four errors)."""
    size = 4000 if agents < 1000 else 400
    found = society(size, agents, 2, copies, 0, initial_preferences=np.zeros(agents, np.int64)).received
    distribution = stats.binom(copies * agents, 1 / agents)
    most = int(distribution.ppf(1 - 1e-12)) + 1
    for agent in (0, agents // 2, agents - 1):
        assert fits(np.bincount(found[:, agent], minlength=most)[:most], distribution.pmf(np.arange(most))) > ALARM
    squares = ((found - copies) ** 2).mean(1) / distribution.var() - 1
    assert abs(squares.mean()) < 4 * squares.std() / size**0.5
    shares = np.arange(agents) < agents // 2
    half = stats.binom(copies * agents, shares.mean())
    assert stats.kstest(found[:, shares].sum(1), half.cdf).pvalue > ALARM / 10


def test_normal_numbers_are_normal() -> None:
    """By Kolmogorov and Smirnov, and their tails; numbers that are 5% too large are found."""
    rng = sources_of(0, "", ("any",), np.arange(1))[0]
    drawn = np.array([normal(rng, 0) for _ in range(60_000)])
    assert stats.kstest(drawn, "norm").pvalue > ALARM
    assert stats.binomtest(int((np.abs(drawn) > 3.0).sum()), drawn.size, 2 * stats.norm.sf(3.0)).pvalue > ALARM
    assert stats.kstest(drawn * 1.05, "norm").pvalue < ALARM


def perturbed(adopters: int, epsilon: float, seed: int, options: int = 4) -> Array:
    one_hot = np.arange(adopters)[:, None] % options == np.arange(options)
    return BitwiseRandomizedResponse(epsilon).perturb(one_hot.astype(np.int64), np.random.default_rng(seed))


PER_TOKEN = {"perturbation": "per_token"}
NORMAL: dict[str, Any] = {"dissemination": "aggregated", "exact_below": 0}


def test_gaussian_form_keeps_the_joint_law_of_options_and_agents() -> None:
    """Given the perturbed bits: means and all covariances, over options and agents, are those of the tokens; totals are
    as sent."""
    vectors, copies, agents = perturbed(60, 1.0, 3, options=5), 720, 60
    exact = one_by_one(vectors, copies, agents, 4000, 0).astype(float)
    state = spread(vectors, copies, agents, 4000, 1, **NORMAL)
    close = flat(state).astype(float)
    assert same_moments(exact, close) > ALARM
    totals = np.concatenate([state.counts.sum(1), state.received.sum(1)[:, None]], axis=1)
    assert np.abs(totals - copies * np.append(vectors.sum(0), 60)).max() <= agents / 2
    assert np.abs(totals - copies * np.append(vectors.sum(0), 60)).max() > 0, "approximated"

    bits = np.concatenate([vectors, np.ones((60, 1))], axis=1)
    distribution = np.kron(np.eye(5) - 1 / agents, copies / agents * bits.T @ bits)
    scale = np.sqrt(np.diag(distribution))
    assert np.abs((np.cov(close.T) - distribution) / np.outer(scale, scale)).max() < 8 / np.sqrt(4000), (
        "5.6 errors of a variance"
    )
    assert stats.ks_2samp(exact[:, 0], close[:, 0], method="asymp").pvalue > ALARM


def choices(adopters: int, copies: int, agents: int, rounds: int, seed: int, fresh: bool = False, **params: Any) -> Any:
    """What the agents of many societies draw from their estimates, int64[rounds, agents], each with its own noise; with
    `fresh` bits, each agent hears other messages than the rest, so that the noise that agents share is gone."""
    rng, distribution = np.random.default_rng(seed), BitwiseRandomizedResponse(1.0)
    one_hot = np.broadcast_to(np.arange(adopters)[:, None] % 5 == np.arange(5), (rounds, adopters, 5))
    state = spread(distribution.perturb(one_hot.astype(np.int64), rng), copies, agents, rounds, seed, **params)
    counts, received = state.counts, state.received
    if fresh:
        counts, received = (
            np.stack([np.roll(x[:, i], i, axis=0) for i in range(agents)], 1) for x in (counts, received)
        )
    return sample(popularity_estimate(counts, received, distribution.p, distribution.q), rng)[0]


def joint_choice(chosen: Array) -> Array:
    """What two agents draw, as one number."""
    return 5 * chosen[:, 0] + chosen[:, 1]


def agreement(chosen: Array) -> Array:
    """How many of a society draw its first option: what noise that agents share spreads out."""
    return (chosen == 0).sum(1)


@pytest.mark.parametrize("statistic", [joint_choice, agreement])
def test_what_agents_draw_has_the_law_of_the_tokens(statistic: Callable[[Array], Array]) -> None:
    exact = statistic(choices(40, 240, 40, 3000, 0))
    close = statistic(choices(40, 240, 40, 3000, 1, **NORMAL))
    assert same_distribution(exact, close) > ALARM


def test_agents_share_the_noise_of_the_bits_they_hear() -> None:
    exact = agreement(choices(40, 240, 40, 3000, 0))
    assert same_distribution(exact, agreement(choices(40, 240, 40, 3000, 1, fresh=True, **NORMAL))) < ALARM


def test_aggregated_form_is_exact_where_it_says_so() -> None:
    few = np.arange(100)[:, None] % 4 == np.arange(4)
    for vectors, copies, below in ((few, 3000, 0), (perturbed(100, 1.0, 0, options=12), 2, 10)):
        exact = spread(vectors, copies, 100, 2, 1)
        drawn = spread(vectors, copies, 100, 2, 1, dissemination="aggregated", exact_below=below)
        np.testing.assert_array_equal(exact.counts, drawn.counts)
        np.testing.assert_array_equal(exact.received, drawn.received)
    many = spread(perturbed(100, 1.0, 0, options=12), 3000, 100, 2, 1, dissemination="aggregated", exact_below=10)
    assert (many.counts.sum(1) % 3000 != 0).any()
    assert (many.counts >= 0).all()
    assert (many.counts <= many.received[:, :, None]).all()


def fresh(holders: list[int], copies: int, size: int, seed: int, **params: Any) -> Array:
    """`per_token`: so many agents hold each option, the last ones none."""
    held = np.repeat(np.arange(len(holders)), holders)
    own: dict[str, Any] = PER_TOKEN | {"initial_preferences": held}
    noise = ChannelConfig(BitwiseRandomizedResponse(1.0))
    return flat(society(size, len(held), len(holders) - 1, copies, seed, noise, **own | params)).astype(float)


def fresh_tokens(holders: list[int], copies: int, size: int, seed: int, zeros: bool) -> Array:
    """The same, drawn by NumPy."""
    rng, distribution, agents = np.random.default_rng(seed), BitwiseRandomizedResponse(1.0), sum(holders)
    sent = np.array(holders) * copies * np.append(np.ones(len(holders) - 1, np.int64), int(zeros))
    ended = np.stack([rng.multinomial(n, np.full(agents, 1 / agents), size) for n in sent], axis=2)[:, :5]
    received = ended.sum(2)
    counts = distribution.perturb_counts(ended[:, :, :-1], rng, received)
    return np.concatenate([counts, received[:, :, None]], axis=2).reshape(size, -1).astype(float)


HOLDERS = [20, 9, 0, 3, 8]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("form", ["stationary", "aggregated"])
def test_fresh_noise_of_copies_keeps_the_joint_law(form: str, zeros: bool) -> None:
    """Against NumPy's draws; copies that are not counted, and noise that all copies share, are found."""
    words = {"without_preference": "zeros" if zeros else "silent"}
    exact = fresh_tokens(HOLDERS, 400, 4000, 0, zeros)
    found = fresh(HOLDERS, 400, 4000, 1, dissemination=form, exact_below=0, **words)
    assert same_moments(exact, found) > ALARM
    assert stats.ks_2samp(exact[:, 0], found[:, 0], method="asymp").pvalue > ALARM
    assert same_moments(exact, fresh_tokens(HOLDERS, 400, 4000, 2, not zeros)) < ALARM
    stale = {"dissemination": form, "exact_below": 0, "perturbation": "per_round"}
    assert same_moments(exact, fresh(HOLDERS, 400, 4000, 1, **stale | words)) < ALARM


def test_no_agent_counts_more_bits_than_copies() -> None:
    """Where copies are few and bits nearly all 1, the normal law by itself would often give more; and nothing is below
    0."""
    vectors = np.random.default_rng(0).random((60, 6)) < 0.9
    distribution = spread(vectors, 2, 60, 50, 0, **NORMAL)
    noise = ChannelConfig(BitwiseRandomizedResponse(3.0))
    token = society(50, 60, 2, 2, 0, noise, initial_preferences=np.zeros(60, np.int64), **NORMAL | PER_TOKEN)
    for drawn in (distribution, token):
        assert (drawn.counts >= 0).all()
        assert (drawn.counts <= drawn.received[:, :, None]).all()
        assert (drawn.counts == drawn.received[:, :, None]).any()


def test_many_options_are_told_apart() -> None:
    """Messages are grouped by all of their bits."""
    vectors = np.random.default_rng(0).random((50, 200)) < 0.5
    env = social_bandit_v0.population(1, num_agents=100, num_options=200, copies=3, without_preference="zeros")
    said = ChannelConfig(faults=(Says(np.concatenate([vectors, vectors]).astype(np.int8)),))
    env.reset(seed=0, options={"channels": {"preference": said}})
    group = env.column("group")[0]
    np.testing.assert_array_equal(group[:50], group[50:])
    assert np.unique(group).size == 50
    np.testing.assert_array_equal(env.column("balls")[0, :50], 6)


def test_fresh_noise_has_the_variance_of_ones_and_of_zeros() -> None:
    """A bit is read as 1 with probability 0.5 if it is 1 and 0.05 if it is 0, so that a copy's variance is 0.25 or
    0.045.

    Against the law by hand. 12,000 counts an option, nearly independent and normal: six standard errors of the variance
    are 8%; with the two variances exchanged it is at least 40% off.
    """
    agents, copies, rounds, mechanism = 200, 100, 60, UnaryEncoding(3.0)
    p, q, held = mechanism.p, mechanism.q, np.repeat([0, 1], [10, 190])
    shares = np.array([10, 190]) * copies / agents
    spread = 1 - 1 / agents
    mean = p * shares + q * shares[::-1]
    distribution = p * (1 - p) * shares + q * (1 - q) * shares[::-1] + (p**2 * shares + q**2 * shares[::-1]) * spread
    for kind in (NORMAL, {"dissemination": "stationary"}):
        params: dict[str, Any] = {"initial_preferences": held} | PER_TOKEN | kind
        found = society(rounds, agents, 2, copies, 0, ChannelConfig(mechanism), **params).counts
        assert np.abs(found.mean((0, 1)) - mean).max() < 0.3
        assert np.abs(found.var((0, 1)) / distribution - 1).max() < 0.08
