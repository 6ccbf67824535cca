"""Who knows whom: an undirected graph as arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.validation import Array, choice, integer

__all__ = ["GRAPHS", "Graph", "random_graph"]


@dataclass(frozen=True)
class Graph:
    """An undirected graph without loops; the complete one holds no list of its edges until it is asked for them.

    Attributes:
        num_nodes: N.
        edges: int64[E, 2], each once, lower node first, sorted; None: all of them.
    """

    num_nodes: int
    edges: Array | None

    @classmethod
    def of(cls, value: Any, num_nodes: int | None = None, name: str = "graph") -> "Graph":
        """Read "complete", "ring", "star" (their size is `num_nodes`), a networkx graph, a square symmetric 0/1 array, or a list of edges.

        Args:
            value: any of these, or a Graph.
            num_nodes: how many nodes it must have; for a list of edges, how many it has (default: up to the highest named).
            name: what to call it in errors.

        Raises:
            ValueError: none of these, another number of nodes, or a node beyond them. Loops and repeated edges are left out.
        """
        if isinstance(value, str):
            choice(name, value, SHAPES)
            if num_nodes is None:
                raise ValueError(f"{name} {value!r} needs to be told its number of nodes")
            return SHAPES[value](integer("num_nodes", num_nodes, at_least=1))
        if isinstance(value, Graph):
            graph = value
        elif hasattr(value, "number_of_nodes") and hasattr(value, "edges"):
            if value.is_directed():
                raise ValueError(f"{name} must be undirected, but it is a {type(value).__name__}")
            places = {node: i for i, node in enumerate(value.nodes)}
            graph = cls._of_edges([(places[a], places[b]) for a, b, *_ in value.edges], value.number_of_nodes(), name)
        else:
            graph = cls._of_array(value, num_nodes, name)
        if num_nodes is not None and graph.num_nodes != num_nodes:
            raise ValueError(f"{name} must have {num_nodes} nodes, one an agent, but it has {graph.num_nodes}")
        return graph

    @classmethod
    def _of_array(cls, value: Any, num_nodes: int | None, name: str) -> "Graph":
        wanted = f"{name} must be {', '.join(map(repr, SHAPES))}, a networkx graph, a square symmetric 0/1 array or a list of edges"
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{wanted}, not {value!r}") from error
        if array.dtype.kind not in "biuf" or array.ndim != 2:
            raise ValueError(f"{wanted}, not {value!r}")
        if array.shape[0] == array.shape[1] and np.isin(array, (0, 1)).all() and (array == array.T).all():
            return cls._of_edges(np.argwhere(np.triu(array, 1)), array.shape[0], name)
        if array.shape[1] != 2 or array.dtype.kind not in "iu":
            raise ValueError(f"{wanted}, not an array of {array.dtype}{list(array.shape)}")
        return cls._of_edges(array, int(array.max()) + 1 if num_nodes is None else num_nodes, name)

    @classmethod
    def _of_edges(cls, pairs: Any, num_nodes: int, name: str) -> "Graph":
        edges = np.asarray(pairs, np.int64).reshape(-1, 2)
        if edges.size and (edges.min() < 0 or edges.max() >= num_nodes):
            bad = edges[((edges < 0) | (edges >= num_nodes)).any(1)][0]
            raise ValueError(f"{name} must join nodes 0 to {num_nodes - 1}, but it has the edge {tuple(bad.tolist())}")
        edges = np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1)
        return cls(num_nodes, np.unique(edges, axis=0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.num_nodes == other.num_nodes and self.key == other.key

    def __hash__(self) -> int:
        return hash((self.num_nodes, self.key))

    @cached_property
    def key(self) -> bytes | None:
        """What tells it from other graphs of its size: its edges; None where there are all of them."""
        return None if self.edges is None or self.is_complete else self.edges.tobytes()

    @cached_property
    def is_complete(self) -> bool:
        return self.edges is None or len(self.edges) == self.num_nodes * (self.num_nodes - 1) // 2

    @property
    def num_edges(self) -> int:
        return self.num_nodes * (self.num_nodes - 1) // 2 if self.edges is None else len(self.edges)

    @cached_property
    def degrees(self) -> Array:
        """int64[N]."""
        if self.edges is None:
            return np.full(self.num_nodes, self.num_nodes - 1)
        return np.bincount(self.edges.ravel(), minlength=self.num_nodes)

    @cached_property
    def indptr(self) -> Array:
        """int64[N + 1]: the neighbours of i are `indices[indptr[i]:indptr[i + 1]]`, in increasing order."""
        return np.concatenate([[0], np.cumsum(self.degrees)])

    @cached_property
    def indices(self) -> Array:
        """int64[2 E]."""
        edges = np.stack(np.triu_indices(self.num_nodes, 1), axis=1) if self.edges is None else self.edges
        both = np.concatenate([edges, edges[:, ::-1]])
        return np.ascontiguousarray(both[np.lexsort((both[:, 1], both[:, 0])), 1])

    def neighbours(self, node: int) -> Array:
        """int64[degree]."""
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def matrix(self) -> Any:
        """The adjacency matrix, a SciPy CSR array of ones, [N, N]."""
        from scipy.sparse import csr_array

        shape = (self.num_nodes, self.num_nodes)
        return csr_array((np.ones(len(self.indices)), self.indices, self.indptr), shape=shape)

    @cached_property
    def components(self) -> Array:
        """int64[N]: the number of the connected component that each node lies in."""
        if self.is_complete:
            return np.zeros(self.num_nodes, np.int64)
        from scipy.sparse.csgraph import connected_components

        labels: Array = connected_components(self.matrix(), directed=False)[1]
        return labels.astype(np.int64)

    def connected(self) -> bool:
        return bool((self.components == 0).all())

    def require_connected(self, name: str = "graph") -> None:
        """Raise ValueError unless every node can be reached from every other."""
        if not self.connected():
            apart = int(np.argmax(self.components != 0))
            raise ValueError(
                f"{name} must be connected, but it has {self.components.max() + 1} components: no path joins nodes 0 and {apart}"
            )

    def distances(self) -> Array:
        """Hops on a shortest path, int64[N, N]; -1 where there is none."""
        from scipy.sparse.csgraph import shortest_path

        hops = shortest_path(self.matrix(), unweighted=True, directed=False)
        return np.where(np.isinf(hops), -1, hops).astype(np.int64)

    def bipartite(self) -> bool:
        """Whether its nodes fall into two sets with no edge inside either."""
        if self.edges is None:
            return self.num_nodes <= 2
        from scipy.sparse.csgraph import breadth_first_order

        matrix, colour = self.matrix(), np.full(self.num_nodes, -1)
        for start in np.unique(self.components, return_index=True)[1]:
            order, before = breadth_first_order(matrix, start, directed=False)
            colour[start] = 0
            for node in order[1:]:
                colour[node] = 1 - colour[before[node]]
        return bool((colour[self.edges[:, 0]] != colour[self.edges[:, 1]]).all())


def _ring(n: int) -> Graph:
    return Graph._of_edges([(i, (i + 1) % n) for i in range(n)], n, "graph")


def _star(n: int) -> Graph:
    return Graph._of_edges([(0, i) for i in range(1, n)], n, "graph")


def _star_triangle(n: int) -> Graph:
    """A star whose last two leaves know each other, so that it is not bipartite."""
    if n < 3:
        raise ValueError(f"num_nodes must be at least 3 for a triangle, not {n}")
    return Graph._of_edges([(0, i) for i in range(1, n)] + [(n - 2, n - 1)], n, "graph")


SHAPES: dict[str, Callable[[int], Graph]] = {
    "complete": lambda n: Graph(n, None),
    "ring": _ring,
    "star": _star,
    "star_triangle": _star_triangle,
}
GRAPHS = (*SHAPES, "erdos_renyi", "watts_strogatz", "barabasi_albert")


def random_graph(kind: str, num_nodes: int, seed: int = 0, **parameters: Any) -> Graph:
    """A connected graph of a family, the same for the same seed.

    Args:
        kind: a fixed shape, or "erdos_renyi" (`probability`, default 2 ln N / N), "watts_strogatz" (`degree` 4, `rewiring` 0.1),
            "barabasi_albert" (`attachments` 2).
        num_nodes: N.
        seed: of the random families.
        **parameters: of the family.

    Raises:
        ValueError: an unknown family or parameter, or none connected in 100 draws.
    """
    choice("kind", kind, GRAPHS)
    n = integer("num_nodes", num_nodes, at_least=1)
    known = {
        "erdos_renyi": {"probability": min(1.0, 2 * np.log(max(n, 2)) / n)},
        "watts_strogatz": {"degree": 4, "rewiring": 0.1},
        "barabasi_albert": {"attachments": 2},
    }.get(kind, {})
    for name in parameters:
        if name not in known:
            raise ValueError(f"{kind} graphs have no parameter {name!r}; they have {', '.join(known) or 'none'}")
    p = known | parameters
    if kind in SHAPES:
        return SHAPES[kind](n)
    import networkx as nx

    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    for _ in range(100):
        try:
            if kind == "erdos_renyi":
                drawn = nx.fast_gnp_random_graph(n, p["probability"], seed=rng)
            elif kind == "watts_strogatz":
                drawn = nx.watts_strogatz_graph(n, p["degree"], p["rewiring"], seed=rng)
            else:
                drawn = nx.barabasi_albert_graph(n, p["attachments"], seed=rng)
        except nx.NetworkXError as error:
            raise ValueError(f"no {kind} graph has {n} nodes and {p}: {error}") from error
        graph = Graph.of(drawn)
        if graph.connected():
            return graph
    raise ValueError(f"{kind} graphs of {n} nodes with {p} are too seldom connected: none in 100 draws was")
