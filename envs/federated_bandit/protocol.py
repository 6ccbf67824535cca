"""How agents on a graph tell each other what they know: everyone to everyone (GIS), or all to one (SAC).

Li & Song, section V-A2 with Algorithm 2, and section VI-A2 with Algorithm 4. What passes are vectors, one of each agent. Everything
here is a function of the graph alone, so that a world needs to ask once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.envs.core.graph import Graph
from taciturn.validation import Array, choice, integer, number

__all__ = [
    "ACCOUNTINGS",
    "DELAYS",
    "Collection",
    "Sharing",
    "collection",
    "delay",
    "eccentricities",
    "information_sharing",
    "link_cost",
    "sink_agents",
]

ACCOUNTINGS = ("messages", "links", "edges")
DELAYS = ("diameter-1", "diameter")
PAIRS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Sharing:
    """What a communication round of Algorithm 2 (GIS) sent, in the slots 0 .. slots - 1, by each of M agents.

    Attributes:
        slots: until everyone holds all M vectors: the graph's diameter.
        adv, req, data: messages sent, int64[slots, M].
        vectors: in the DATA messages sent, int64[slots, M].
        links: edges over which anything passed, int64[slots].
        arrival: int64[M, M], slots after which agent i holds the vector of agent j; 0 for its own.
        num_edges: of the graph.
    """

    slots: int
    adv: Array
    req: Array
    data: Array
    vectors: Array
    links: Array
    arrival: Array
    num_edges: int

    @cached_property
    def counts(self) -> dict[str, int]:
        """Messages of the round by kind."""
        return {kind: int(sent.sum()) for kind, sent in self.per_agent.items()}

    @cached_property
    def per_agent(self) -> dict[str, Array]:
        """Messages that each agent sent in the round, by kind, int64[M]."""
        return {"adv": self.adv.sum(0), "req": self.req.sum(0), "data": self.data.sum(0)}

    def known(self, slots: int) -> Array:
        """Whose vectors each agent holds after so many slots, bool[M, M]."""
        return self.arrival <= slots


@dataclass(frozen=True)
class Collection:
    """What one-way collection (SAC) sent towards a sink, in the slots 0 .. slots - 1, by each of M agents.

    Attributes:
        sink: who collects.
        slots: until the sink holds all M vectors: its eccentricity.
        towards: int64[M], to whom each agent sends, the lowest-numbered neighbour nearer to the sink; the sink: to itself.
        hops: int64[M], that each agent's vector takes, which is the slots after which the sink holds it.
        sac: vectors sent on, int64[slots, M]; each is a message.
        links: edges over which anything passed, int64[slots].
        num_edges: of the graph.
    """

    sink: int
    slots: int
    towards: Array
    hops: Array
    sac: Array
    links: Array
    num_edges: int

    @cached_property
    def counts(self) -> dict[str, int]:
        """Messages of the collection by kind: sum_i sd(i, sink), as the proof of Theorem 4 counts them."""
        return {"sac": int(self.hops.sum())}

    @cached_property
    def per_agent(self) -> dict[str, Array]:
        """Messages that each agent sent, its own vector's and those it passed on, by kind, int64[M]."""
        return {"sac": self.sac.sum(0)}


def information_sharing(graph: Any) -> Sharing:
    """Algorithm 2 (GIS), handshake by handshake, until every agent holds all M vectors.

    In each slot, every agent that gained vectors in the slot before (at first: its own) sends ADV with their labels to all its
    neighbours, who gave them or not; who lacks some answers REQ; the advertiser sends those in one DATA. The paper does not say
    whom to ask when several neighbours advertise the same vector: here the lowest-numbered of them, so that nobody is sent a
    vector twice. The round ends, by the paper's synchronising clock, when all hold all; what came last is not advertised.

    Args:
        graph: a connected `Graph` of M agents, or what `Graph.of` reads.

    Raises:
        ValueError: a graph that is not connected.

    Cost:
        O(M E log M): 3 ms for a ring of 50 agents, 0.3 s for one of 1,000.
    """
    graph = connected(graph, "graph")
    m = graph.num_nodes
    arrival = np.zeros((m, m), np.int64)
    source = np.where(np.eye(m, dtype=np.bool_), 0, -1)
    holders = labels = np.arange(m)
    adv, req, data, vectors, links = [], [], [], [], []
    lacking = m * (m - 1)
    while lacking:
        advertises = np.bincount(holders, minlength=m) > 0
        receivers, gained, providers = requests(graph, holders, labels, source)
        asking, asked = np.divmod(np.unique(receivers * m + providers), m)
        adv.append(graph.degrees * advertises)
        req.append(np.bincount(asking, minlength=m))
        data.append(np.bincount(asked, minlength=m))
        vectors.append(np.bincount(providers, minlength=m))
        links.append(touched(graph, advertises))
        arrival[receivers, gained] = len(adv)
        lacking -= receivers.size
        holders, labels = receivers, gained
    slots = len(adv)
    by_agent = {"adv": adv, "req": req, "data": data, "vectors": vectors}
    sent = {name: np.array(rows, np.int64).reshape(slots, m) for name, rows in by_agent.items()}
    return Sharing(slots, **sent, links=np.array(links, np.int64), arrival=arrival, num_edges=graph.num_edges)


def requests(graph: Graph, holders: Array, labels: Array, source: Array) -> tuple[Array, Array, Array]:
    """Who asks for what, and whom, int64[n] each, when `holders` int64[p] advertise the vectors `labels` int64[p] to all their neighbours.

    `source` int64[M, M], whom each agent has each vector from (-1: it lacks it), is filled in; it is the lowest-numbered advertiser.
    """
    order = np.argsort(holders, kind="stable")
    holders, labels = holders[order], labels[order]
    offers = int(graph.degrees[holders].sum())
    found = []
    for part in np.array_split(np.arange(len(holders)), -(-offers // PAIRS_AT_ONCE)):
        degrees = graph.degrees[holders[part]]
        begins = graph.indptr[holders[part]] - (np.cumsum(degrees) - degrees)
        receivers = graph.indices[np.repeat(begins, degrees) + np.arange(degrees.sum())]
        offered, senders = np.repeat(labels[part], degrees), np.repeat(holders[part], degrees)
        lacks = source[receivers, offered] < 0
        receivers, offered, senders = receivers[lacks], offered[lacks], senders[lacks]
        first = np.unique(receivers * graph.num_nodes + offered, return_index=True)[1]
        receivers, offered, senders = receivers[first], offered[first], senders[first]
        source[receivers, offered] = senders
        found.append((receivers, offered, senders))
    receivers, offered, senders = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return receivers, offered, senders


def touched(graph: Graph, active: Array) -> int:
    """How many edges have an end among the `active` bool[M]."""
    idle = ~active[graph.indices]
    between_idle = int((idle & np.repeat(~active, graph.degrees)).sum()) // 2
    return graph.num_edges - between_idle


def eccentricities(graph: Graph) -> Array:
    """The distance of each agent from the farthest other, int64[M], in a connected graph."""
    if graph.is_complete:
        return np.full(graph.num_nodes, min(graph.num_nodes - 1, 1))
    return graph.distances().max(1)


def sink_agents(components: Sequence[Any]) -> tuple[int, ...]:
    """Algorithm 4: in each component the agent of minimum eccentricity; of several, the lowest-numbered (the paper does not say).

    Args:
        components: connected graphs, each a `Graph` or what `Graph.of` reads.

    Returns:
        One agent a component, by its number within it.

    Raises:
        ValueError: a component that is not connected.
    """
    graphs = [connected(graph, f"components[{q}]") for q, graph in enumerate(components)]
    return tuple(int(eccentricities(graph).argmin()) for graph in graphs)


def collection(graph: Any, sink: int) -> Collection:
    """Collect the vectors of all agents at the sink (SAC, section VI-A2): each moves one hop a slot on a shortest path.

    Args:
        graph: a connected `Graph`, or what `Graph.of` reads.
        sink: an agent of it.

    Raises:
        ValueError: a graph that is not connected, or an agent beyond it.
    """
    graph = connected(graph, "graph")
    m = graph.num_nodes
    sink = integer("sink", sink, at_least=0, at_most=m - 1)
    hops, towards = shortest_paths(graph, sink)
    slots = int(hops.max())
    sac, links = np.zeros((slots, m), np.int64), np.zeros(slots, np.int64)
    place = np.arange(m)
    for slot in range(slots):
        sac[slot] = np.bincount(place[place != sink], minlength=m)
        links[slot] = np.count_nonzero(sac[slot])
        place = towards[place]
    return Collection(sink, slots, towards, hops, sac, links, graph.num_edges)


def shortest_paths(graph: Graph, sink: int) -> tuple[Array, Array]:
    """By breadth-first search: each agent's hops to the sink, and its lowest-numbered neighbour on a shortest path; int64[M] each."""
    hops, towards = np.full(graph.num_nodes, -1), np.full(graph.num_nodes, graph.num_nodes)
    hops[sink], towards[sink] = 0, sink
    border = np.array([sink])
    while border.size:
        farther = []
        for agent in border:
            near = graph.neighbours(agent)
            near = near[(hops[near] < 0) | (hops[near] == hops[agent] + 1)]
            hops[near] = hops[agent] + 1
            towards[near] = np.minimum(towards[near], agent)
            farther.append(near)
        border = np.unique(np.concatenate(farther))
    return hops, towards


def delay(slots: int, count: str = "diameter-1") -> int:
    """How many slots agents wait, and exploit, while a protocol of so many slots runs.

    The paper has both: the first exchange falls into the last slot of exploration ("diameter-1": the counter of Algorithm 2 starts at 0,
    line 4 of Algorithm 4, regret in Theorems 3 and 4), or takes one of its own ("diameter": line 5 of Algorithm 4, cost in Theorem 3).
    """
    return max(slots - 1, 0) if choice("delay", count, DELAYS) == "diameter-1" else slots


def link_cost(protocol: Sharing | Collection, price: float, accounting: str = "messages") -> float:
    """What one round costs at `price` >= 0 a link between agents (c2).

    Args:
        protocol: as it went.
        price: c2.
        accounting: "messages": each that was sent; "links": each edge in each slot in which anything passed over it (equation 2);
            "edges": every edge in every slot, the paper's bound, d_G sum_i d_i / 2 for GIS (Theorem 3).
    """
    number("price", price, at_least=0)
    choice("accounting", accounting, ACCOUNTINGS)
    if accounting == "edges":
        return price * protocol.slots * protocol.num_edges
    return price * (sum(protocol.counts.values()) if accounting == "messages" else int(protocol.links.sum()))


def connected(graph: Any, name: str) -> Graph:
    """The graph as a `Graph`; ValueError unless it is connected and has a node."""
    graph = Graph.of(graph, name=name)
    if graph.num_nodes == 0:
        raise ValueError(f"{name} must have at least 1 node, not 0")
    graph.require_connected(name)
    return graph
