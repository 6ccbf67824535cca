"""Messages of GIS and SAC and their cost, against breadth-first search by networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taciturn.envs.federated_bandit.protocol import (
    DELAYS,
    RoundTraffic,
    collection,
    delay,
    eccentricities,
    information_sharing,
    sink_agents,
)
from taciturn.graph import Graph


@st.composite
def connected_graphs(draw: st.DrawFn) -> nx.Graph:
    """A random tree with additional random edges."""
    n = draw(st.integers(1, 14))
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from((i, draw(st.integers(0, i - 1))) for i in range(1, n))
    pairs = [(a, b) for a in range(n) for b in range(a)]
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else [])
    return graph


def hops_between(graph: nx.Graph) -> np.ndarray:
    found = dict(nx.all_pairs_shortest_path_length(graph))
    return np.array([[found[a][b] for b in range(len(graph))] for a in range(len(graph))])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(connected_graphs())
def test_sharing_agrees_with_breadth_first_search(graph: nx.Graph) -> None:
    m, shared, hops = len(graph), information_sharing(graph), hops_between(graph)
    degrees = np.array([graph.degree(i) for i in range(m)])
    diameter = nx.diameter(graph)
    assert shared.slots == diameter
    assert (shared.arrival == hops).all()
    for slot in range(diameter):
        # Agents that gained vectors in the slot before advertise them: those with some agent at exactly that distance.
        gained = (hops == slot).any(1)
        assert (shared.sent["adv"][slot] == degrees * gained).all()
        arriving = hops == slot + 1
        asked = np.zeros((m, m), bool)
        for i, f in np.argwhere(arriving):
            provider = min(j for j in graph[i] if hops[j, f] == slot)
            asked[i, provider] = True
        assert (shared.sent["req"][slot] == asked.sum(1)).all()
        assert (shared.sent["data"][slot] == asked.sum(0)).all()
    # Each request is answered.
    assert shared.counts["adv"] == (degrees * np.minimum(hops.max(1) + 1, diameter)).sum()
    assert shared.counts["req"] == shared.counts["data"] <= m * (m - 1)
    assert shared.counts == {kind: sent.sum() for kind, sent in shared.sent.items()}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(connected_graphs())
def test_sinks_minimise_eccentricity_and_collect_everything(graph: nx.Graph) -> None:
    (sink,) = sink_agents([graph])
    eccentricity = nx.eccentricity(graph)
    assert eccentricities(Graph.of(graph)).tolist() == [eccentricity[i] for i in range(len(graph))]
    assert eccentricity[sink] == nx.radius(graph)
    assert sink == min(nx.center(graph))
    for target in range(len(graph)):
        collected, hops = collection(graph, target), hops_between(graph)[target]
        assert (collected.gathers.tolist(), collected.arrival.tolist()) == ([target], [hops.tolist()])
        assert collected.slots == eccentricity[target]
        assert collected.counts == {"sac": hops.sum()} == {"sac": collected.sent["sac"].sum()}
        place = np.arange(len(graph))
        for slot in range(collected.slots):
            moves = place != target
            assert (collected.sent["sac"][slot] == np.bincount(place[moves], minlength=len(graph))).all()
            place = np.array([min(graph[a], key=lambda b: (hops[b], b)) if a != target else a for a in place])
        assert (place == target).all()


def test_by_hand_on_a_path_of_three() -> None:
    shared = information_sharing([(0, 1), (1, 2)])
    assert shared.sent["adv"].tolist() == [[1, 2, 1], [1, 2, 1]]
    assert shared.sent["req"].tolist() == [[1, 2, 1], [1, 0, 1]]
    assert shared.sent["data"].tolist() == [[1, 2, 1], [0, 2, 0]]
    assert shared.counts == {"adv": 8, "req": 6, "data": 6}
    # The vector of the far end takes two hops; the middle agent sends its own vector first.
    collected = collection([(0, 1), (1, 2)], 2)
    assert collected.sent["sac"].tolist() == [[1, 1, 0], [0, 1, 0]]


def test_a_vector_is_asked_of_the_lowest_numbered_who_has_it() -> None:
    ring = information_sharing(Graph.of("ring", 4))
    # Agents 1 and 3 lie between 0 and 2, agents 0 and 2 between 1 and 3.
    assert ring.sent["data"].tolist() == [[2, 2, 2, 2], [2, 2, 0, 0]]


@pytest.mark.parametrize(("agents", "slots"), [(1, 0), (2, 1), (7, 1)])
def test_who_all_know_each_other_need_one_slot(agents: int, slots: int) -> None:
    shared = information_sharing(Graph.of("complete", agents))
    assert shared.slots == slots
    assert shared.counts == dict.fromkeys(("adv", "req", "data"), agents * (agents - 1))
    assert [delay(shared.slots, count) for count in DELAYS] == [0, slots]
    assert sink_agents([Graph.of("complete", agents)]) == (0,)
    alone = collection(Graph.of("complete", agents), agents - 1)
    assert (alone.slots, alone.counts["sac"]) == (slots, agents - 1)


def bound_of(graphs: list[Graph], hybrid: bool = False) -> float:
    return RoundTraffic(graphs, hybrid, sum(graph.num_nodes for graph in graphs), "diameter").bound


def test_the_papers_bound_for_its_graphs() -> None:
    # Theorem 3's d_G sum_i d_i / 2 with M = 50, whose order is in Table I; then cases 1 and 3 of Table II for one
    # round.
    bound = {kind: bound_of([Graph.of(kind, 50)]) for kind in ("star", "ring", "complete")}
    assert bound == {"star": 2 * 49, "ring": 25 * 50, "complete": 50 * 49 / 2}
    whole, part = (collection(Graph.of("complete", n), 0) for n in (100, 20))
    # With links to the server at 50 each, case 3 costs less by messages and more by edges (Figure 11).
    by_messages = [whole.counts["sac"] + 50, 5 * (part.counts["sac"] + 50)]
    by_edges = [bound_of([Graph.of("complete", n)] * times, True) + 50 * times for n, times in ((100, 1), (20, 5))]
    assert by_messages == [99 + 50, 95 + 250]
    assert by_edges == [4950 + 50, 950 + 250]
    assert delay(information_sharing(Graph.of("ring", 50)).slots) == 24


def test_a_thousand_agents() -> None:
    for graph in (Graph.of("ring", 1000), Graph.of("complete", 1000), Graph.of("star", 1000)):
        shared = information_sharing(graph)
        assert shared.counts["req"] == shared.counts["data"] <= 1000 * 999
    sink_agents([Graph.of("complete", 1000)] * 100)


def test_mistakes() -> None:
    apart = Graph.of([(0, 1), (2, 3)])
    with pytest.raises(ValueError, match="graph must be connected, but it has 2 components"):
        information_sharing(apart)
    with pytest.raises(ValueError, match=r"components\[1\] must be connected"):
        sink_agents([Graph.of("ring", 3), apart])
    with pytest.raises(ValueError, match="graph must be connected"):
        collection(apart, 0)
    with pytest.raises(ValueError, match="sink must be an integer >= 0 and <= 2, not 3"):
        collection(Graph.of("ring", 3), 3)
    with pytest.raises(ValueError, match="graph must have at least 1 node"):
        information_sharing(nx.Graph())
    with pytest.raises(ValueError, match="delay must be one of 'diameter-1', 'diameter', not 'radius'"):
        delay(3, "radius")
