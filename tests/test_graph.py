"""Graphs read from every form, and what is asked of them, against networkx."""

import re

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taciturn.graph import GRAPHS, Graph, random_graph


@st.composite
def graphs(draw: st.DrawFn) -> nx.Graph:
    n = draw(st.integers(1, 12))
    pairs = [(a, b) for a in range(n) for b in range(a)]
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs))) if pairs else [])
    return graph


@given(graphs())
@example(nx.cycle_graph(4))
@example(nx.cycle_graph(5))
def test_agrees_with_networkx(drawn: nx.Graph) -> None:
    graph = Graph.of(drawn)
    assert (graph.num_nodes, graph.num_edges) == (drawn.number_of_nodes(), drawn.number_of_edges())
    assert graph.degrees.tolist() == [drawn.degree(i) for i in drawn]
    for i in drawn:
        assert graph.neighbours(i).tolist() == sorted(drawn.neighbors(i))
    dense, numbers = nx.to_numpy_array(drawn), np.random.default_rng(0).integers(0, 99, (2, len(drawn), 3))
    np.testing.assert_array_equal(graph.neighbour_sums(numbers), np.einsum("ij,bjk->bik", dense, numbers))
    assert graph.neighbour_sums(numbers[..., 0]).dtype == np.int64
    nodes = np.arange(len(drawn))[::-2]
    closed = graph.closed_neighbourhoods(nodes)
    np.testing.assert_array_equal(closed.toarray(), (dense + np.eye(len(drawn)))[nodes])
    assert closed.has_sorted_indices
    assert graph.connected() == nx.is_connected(drawn)
    assert graph.bipartite() == nx.is_bipartite(drawn)
    hops = np.full((len(drawn), len(drawn)), -1)
    for a, found in nx.all_pairs_shortest_path_length(drawn):
        for b, length in found.items():
            hops[a, b] = length
    assert (graph.distances() == hops).all()
    if graph.num_edges:
        assert Graph.of(nx.to_numpy_array(drawn)) == graph == Graph.of(list(drawn.edges), len(drawn))
    assert hash(Graph.of(graph)) == hash(graph)


def test_the_complete_graph_is_one_however_it_is_told() -> None:
    whole = Graph.of("complete", 6)
    assert whole == Graph.of(nx.complete_graph(6))
    assert whole.is_complete
    assert whole.edges is None
    assert whole.degrees.tolist() == [5] * 6
    listed = Graph.of(nx.complete_graph(6))
    assert whole.neighbours(2).tolist() == [0, 1, 3, 4, 5] == listed.neighbours(2).tolist()
    np.testing.assert_array_equal(whole.indices, listed.indices)
    for nodes in (np.arange(6), np.array([4, 1])):
        one, other = whole.closed_neighbourhoods(nodes), listed.closed_neighbourhoods(nodes)
        np.testing.assert_array_equal(one.indptr, other.indptr)
        np.testing.assert_array_equal(one.indices, other.indices)
    assert whole.neighbour_sums(np.arange(6)[None]).tolist() == [[15, 14, 13, 12, 11, 10]]
    assert Graph.of("complete", 1_000_000).connected()
    assert not whole.bipartite()
    assert Graph.of("complete", 2).bipartite()


@pytest.mark.parametrize(
    ("drawn", "edges"),
    [
        (nx.Graph([(1, 0), (2, 0), (3, 0)]), [[0, 1], [0, 2], [0, 3]]),
        (
            nx.parse_edgelist(["10 0", "2 0", *(f"{i} 0" for i in (1, 3, 4, 5, 6, 7, 8, 9))]),
            [[0, i] for i in range(1, 11)],
        ),
        (nx.Graph([(np.int64(2), np.int64(1)), (np.int64(1), np.int64(0))]), [[0, 1], [1, 2]]),
        (nx.Graph([(1.0, 0.0), (2.0, 0.0), (np.float64(10), 0.0)]), [[0, 1], [0, 2], [0, 3]]),
        (nx.Graph([(0.5, 0.0), (2.0, 0.0)]), [[0, 1], [1, 2]]),
        (nx.Graph([(30, 7), (7, 12)]), [[0, 1], [0, 2]]),
        (nx.Graph([("z", "a"), ("a", "m")]), [[0, 1], [1, 2]]),
        (nx.Graph([((0, 1), (0, 0)), ((0, 0), "7")]), [[0, 1], [1, 2]]),
        (nx.MultiGraph([(1, 0), (1, 0), (2, 0)]), [[0, 1], [0, 2]]),
        (nx.from_numpy_array(np.ones((2, 2))), [[0, 1]]),
    ],
)
def test_labels_of_nodes_that_are_numbers_are_kept(drawn: nx.Graph, edges: list[list[int]]) -> None:
    assert Graph.of(drawn) == Graph.of(edges, len(drawn))


@pytest.mark.parametrize("kind", GRAPHS)
def test_families_are_connected_and_follow_their_seed(kind: str) -> None:
    first, again, other = random_graph(kind, 30, 1), random_graph(kind, 30, 1), random_graph(kind, 30, 2)
    assert first.num_nodes == 30
    assert first.connected()
    assert first == again
    assert (first == other) == (kind in ("complete", "ring", "star", "star_triangle"))


@pytest.mark.parametrize(
    ("value", "nodes", "message"),
    [
        ("torus", 4, "graph must be one of 'complete'"),
        ("ring", None, "needs num_nodes"),
        (nx.path_graph(3), 4, "must have 4 nodes, one per agent, but it has 3"),
        (nx.DiGraph([(0, 1)]), None, "graph must be undirected"),
        (
            nx.parse_edgelist(["0 1 .5"], data=[("weight", float)]),
            None,
            "no weights but 1, since agents meet or do not, and edge ('0', '1') has",
        ),
        *(
            (nx.MultiGraph([(0, 1, {"weight": weight})]), None, f"edge (0, 1) has weight {weight!r}")
            for weight in (0, None, "1", np.array([1, 1]))
        ),
        ([(0, 5)], 3, "must join nodes 0 to 2, but it has the edge (0, 5)"),
        ([(0, -1)], 3, "must join nodes 0 to 2"),
        (np.ones((2, 3)), None, "not an array of float64[2, 3]"),
        (np.array([[0, 1], [np.nan, 0]]), None, "graph must be"),
        ([[1, 2], [3]], None, "graph must be"),
        (7, None, "graph must be"),
    ],
)
def test_what_is_no_graph_is_refused(value: object, nodes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Graph.of(value, nodes)


def test_what_is_apart_is_named() -> None:
    with pytest.raises(ValueError, match="has 2 components: no path joins nodes 0 and 2"):
        Graph.of([(0, 1), (2, 3)]).require_connected()


@pytest.mark.parametrize(
    ("kind", "message"),
    [("petersen", "kind must be one of"), ("barabasi_albert", "no barabasi_albert graph has 2 nodes")],
)
def test_families_that_cannot_be_drawn(kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_graph(kind, 2)
