"""Undirected graphs as arrays."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.validation import Array, Ints, choice, integer, shown


@dataclass(frozen=True)
class Graph:
    """An undirected graph without loops; a complete graph stores no edges.

    Attributes:
        num_nodes: N.
        edges: int64[E, 2], each edge once with the lower node first, sorted; None: all pairs.
    """

    num_nodes: int
    edges: Array | None

    @classmethod
    def of(cls, value: Any, num_nodes: int | None = None, name: str = "graph") -> "Graph":
        """Make a graph from the name of a shape, a networkx graph, a square symmetric 0/1 array, or a list of edges.

        Args:
            value: any of these, or a Graph. Shapes are "complete", "ring", "star", "star_triangle"; loops and repeated
                edges are dropped. Nodes of networkx with the labels 0 to N - 1, as numbers or texts, are the agents of
                these numbers; other whole numbers are sorted by size, and other labels keep the order of the graph.
            num_nodes: the required number of nodes; shapes need it, a list of edges may leave it out (highest
                node + 1).
            name: name of the parameter in errors.

        Raises:
            ValueError: `value` is none of these, has a different number of nodes, weights other than 1, or an edge to a
                node that does not exist.
        """
        if isinstance(value, str):
            choice(name, value, SHAPES)
            if num_nodes is None:
                raise ValueError(f"{name} {value!r} needs num_nodes")
            return SHAPES[value](integer("num_nodes", num_nodes, at_least=1))
        if isinstance(value, Graph):
            graph = value
        elif hasattr(value, "number_of_nodes") and hasattr(value, "edges"):
            if value.is_directed():
                raise ValueError(f"{name} must be undirected, but it is a {type(value).__name__}")
            for a, b, weight in value.edges(data="weight", default=1):
                if not (isinstance(weight, int | float | np.number) and weight == 1):
                    told = f"edge {shown((a, b))} has weight {shown(weight)}"
                    raise ValueError(f"{name} must have no weights but 1, since agents meet or do not, and {told}")
            # Tables of edges with another column of fractions have labels such as 1.0.
            texts = {node: str(node).removesuffix(".0" * isinstance(node, float)) for node in value.nodes}
            whole = all(re.fullmatch(r"-?\d{1,18}", text, re.ASCII) for text in texts.values())
            ordered = sorted(texts, key=lambda node: int(texts[node])) if whole else value.nodes
            places = {node: i for i, node in enumerate(ordered)}
            graph = cls._of_edges([(places[a], places[b]) for a, b, *_ in value.edges], value.number_of_nodes(), name)
        else:
            graph = cls._of_array(value, num_nodes, name)
        if num_nodes is not None and graph.num_nodes != num_nodes:
            raise ValueError(f"{name} must have {num_nodes} nodes, one per agent, but it has {graph.num_nodes}")
        return graph

    @classmethod
    def _of_array(cls, value: Any, num_nodes: int | None, name: str) -> "Graph":
        wanted = (
            f"{name} must be {', '.join(map(repr, SHAPES))}, a networkx graph, a square symmetric 0/1 array or a list "
            "of edges"
        )
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{wanted}, not {shown(value)}") from error
        if array.dtype.kind not in "biuf" or array.ndim != 2:
            raise ValueError(f"{wanted}, not {shown(value)}")
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
        """A hashable key, unique among graphs of this size: the edges, or None if it is complete."""
        return None if self.edges is None or self.is_complete else self.edges.tobytes()

    @cached_property
    def is_complete(self) -> bool:
        return self.edges is None or len(self.edges) == self.num_nodes * (self.num_nodes - 1) // 2

    @property
    def num_edges(self) -> int:
        return self.num_nodes * (self.num_nodes - 1) // 2 if self.edges is None else len(self.edges)

    @cached_property
    def degrees(self) -> Ints:
        """The number of neighbours of each node, [N]."""
        if self.edges is None:
            return np.full(self.num_nodes, self.num_nodes - 1)
        return np.bincount(self.edges.ravel(), minlength=self.num_nodes)

    @cached_property
    def indptr(self) -> Ints:
        """[N + 1]: the neighbours of i are `indices[indptr[i]:indptr[i + 1]]`, in increasing order."""
        return np.concatenate([[0], np.cumsum(self.degrees)])

    @cached_property
    def indices(self) -> Ints:
        """The neighbours of all nodes, [2 E]; see `indptr`."""
        if self.edges is None:
            others = np.arange(self.num_nodes - 1)
            return (others + (others >= np.arange(self.num_nodes)[:, None])).ravel()
        both = np.concatenate([self.edges, self.edges[:, ::-1]])
        return np.ascontiguousarray(both[np.lexsort((both[:, 1], both[:, 0])), 1])

    def neighbours(self, node: int) -> Ints:
        """The neighbours of a node, in increasing order."""
        if self.edges is None:
            return np.delete(np.arange(self.num_nodes), node)
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def neighbour_sums(self, x: Array) -> Array:
        """Sum x [B, N, ...] over the neighbours of each node; the same shape and type."""
        if self.is_complete:
            return np.asarray(x.sum(1, keepdims=True) - x)
        by_node = np.swapaxes(x, 0, 1)
        result = self._links @ by_node.reshape(self.num_nodes, -1)
        return np.swapaxes(result.reshape(by_node.shape), 0, 1).astype(x.dtype)

    def closed_neighbourhoods(self, nodes: Ints) -> Any:
        """The nodes int64[n] with their neighbours, a SciPy CSR array of ones, [n, N], with columns in increasing
        order."""
        from scipy.sparse import csr_array, eye_array

        if self.edges is None:
            shape = (len(nodes), self.num_nodes)
            columns = np.tile(np.arange(self.num_nodes), len(nodes))
            return csr_array((np.ones(columns.size), columns, np.arange(len(nodes) + 1) * self.num_nodes), shape=shape)
        result = (self._links + eye_array(self.num_nodes, format="csr"))[nodes]
        result.sort_indices()
        return result

    @cached_property
    def _links(self) -> Any:
        return self.matrix()

    def matrix(self) -> Any:
        """The adjacency matrix, a SciPy CSR array of ones, [N, N]."""
        from scipy.sparse import csr_array

        shape = (self.num_nodes, self.num_nodes)
        return csr_array((np.ones(len(self.indices)), self.indices, self.indptr), shape=shape)

    @cached_property
    def components(self) -> Ints:
        """The index of the connected component of each node, [N]."""
        if self.is_complete:
            return np.zeros(self.num_nodes, np.int64)
        from scipy.sparse.csgraph import connected_components

        labels: Array = connected_components(self.matrix(), directed=False)[1]
        return labels.astype(np.int64)

    def connected(self) -> bool:
        return bool((self.components == 0).all())

    def require_connected(self, name: str = "graph") -> None:
        """Raise ValueError unless the graph is connected."""
        if not self.connected():
            apart = int(np.argmax(self.components != 0))
            raise ValueError(
                f"{name} must be connected, but it has {self.components.max() + 1} components: no path joins nodes 0 "
                f"and {apart}"
            )

    def distances(self, nodes: Ints | None = None) -> Ints:
        """Numbers of edges on shortest paths, [N, N], or [n, N] from the `nodes` int64[n]; -1 if there is no path."""
        from scipy.sparse.csgraph import shortest_path

        hops = shortest_path(self.matrix(), unweighted=True, directed=False, indices=nodes)
        return np.where(np.isinf(hops), -1, hops).astype(np.int64)

    def bipartite(self) -> bool:
        """Whether the nodes can be split into two sets without an edge inside either."""
        if self.edges is None:
            return self.num_nodes <= 2
        import networkx as nx

        return bool(nx.is_bipartite(nx.from_scipy_sparse_array(self.matrix())))


def _star_triangle(n: int) -> Graph:
    """A star with an edge between its last two leaves, which makes it not bipartite."""
    if n < 3:
        raise ValueError(f"num_nodes must be at least 3 for a triangle, not {n}")
    return Graph._of_edges([(0, i) for i in range(1, n)] + [(n - 2, n - 1)], n, "graph")


SHAPES: dict[str, Callable[[int], Graph]] = {
    "complete": lambda n: Graph(n, None),
    "ring": lambda n: Graph._of_edges([(i, (i + 1) % n) for i in range(n)], n, "graph"),
    "star": lambda n: Graph._of_edges([(0, i) for i in range(1, n)], n, "graph"),
    "star_triangle": _star_triangle,
}
# The networkx function that draws a random graph of n nodes, and its arguments other than n.
FAMILIES: dict[str, tuple[str, Callable[[int], tuple[float, ...]]]] = {
    "erdos_renyi": ("fast_gnp_random_graph", lambda n: (min(1.0, 2 * np.log(max(n, 2)) / n),)),
    "watts_strogatz": ("watts_strogatz_graph", lambda n: (4, 0.1)),
    "barabasi_albert": ("barabasi_albert_graph", lambda n: (2,)),
}
GRAPHS = (*SHAPES, *FAMILIES)


def random_graph(kind: str, num_nodes: int, seed: int = 0) -> Graph:
    """Draw a connected graph of a family; `Graph.of` reads graphs that networkx draws with other parameters.

    Args:
        kind: a shape of `Graph.of`, or "erdos_renyi" (with edge probability 2 ln N / N), "watts_strogatz" (degree 4, of
            which a share of 0.1 is rewired), "barabasi_albert" (2 edges for each new node).
        num_nodes: N.
        seed: determines the graph of a random family.

    Raises:
        ValueError: the family is unknown, or has no graph of so few nodes.
    """
    choice("kind", kind, GRAPHS)
    n = integer("num_nodes", num_nodes, at_least=1)
    if kind in SHAPES:
        return SHAPES[kind](n)
    import networkx as nx

    rng = np.random.default_rng(integer("seed", seed, at_least=0))
    draw, parameters = FAMILIES[kind]
    while True:
        try:
            graph = Graph.of(getattr(nx, draw)(n, *parameters(n), seed=rng))
        except nx.NetworkXError as error:
            raise ValueError(f"no {kind} graph has {n} nodes: {error}") from error
        if graph.connected():
            return graph
