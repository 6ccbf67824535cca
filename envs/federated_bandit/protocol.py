"""Protocols by which agents on a graph share vectors, with all agents (GIS) or with one sink agent (SAC), and a
round's messages by slot.

Li & Song, section V-A2 with Algorithm 2, and section VI-A2 with Algorithm 4. Every agent begins with one vector. All
results depend on the graph alone, so an environment computes them once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.graph import Graph
from taciturn.validation import Ints, choice, integer

DELAYS = ("diameter-1", "diameter")


@dataclass(frozen=True)
class Exchange:
    """The messages of a protocol among the M agents of a graph in its slots 0 .. slots - 1.

    Attributes:
        slots: duration of the protocol.
        sent: messages sent by each agent in each slot, by kind, int64[slots, M].
        gathers: int64[G], the agents that hold all M vectors in the end.
        arrival: int64[G, M], slots until each of these agents holds the vector of agent j; 0 for its own.
    """

    slots: int
    sent: dict[str, Ints]
    gathers: Ints
    arrival: Ints

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of messages by kind."""
        return {kind: int(sent.sum()) for kind, sent in self.sent.items()}


def information_sharing(graph: Any) -> Exchange:
    """A round of Algorithm 2 (GIS), which lasts as many slots as the graph's diameter: every agent then holds all M
    vectors.

    In each slot, every agent that gained vectors in the slot before (in the first slot: its own) sends ADV with their
    labels to all its neighbours, including their sources. A neighbour that lacks some of them answers REQ, and the
    advertiser sends it these in one DATA message. The paper does not say which neighbour to ask if several advertise
    the same vector: here it is the one with the lowest number, so no agent receives a vector twice. By the paper's
    synchronising clock, the round ends when all agents hold all vectors; the last arrivals are not advertised.

    Args:
        graph: a connected `Graph` of M agents, or anything that `Graph.of` reads.

    Returns:
        The messages `adv`, `req` and `data`.

    Raises:
        ValueError: the graph is not connected.

    Cost:
        O(M E log M): 2 ms for a ring of 50 agents, 0.3 s for one of 1,000.
    """
    graph = connected(graph, "graph")
    m = graph.num_nodes
    hops, towards = shortest_paths(graph, np.arange(m))
    last = hops.max(1, initial=0)  # the slot in which an agent has nothing left to gain
    slots = int(last.max())

    def by_agent(slot: Ints, agent: Ints) -> Ints:
        return np.bincount(slot * m + agent, minlength=slots * m).reshape(slots, m)

    receivers, labels = np.nonzero(hops)
    slot, providers = hops[receivers, labels] - 1, towards[receivers, labels]
    pairs = np.sort((slot * m + receivers) * m + providers)
    requests, asked = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], m)  # one request per neighbour
    sent = {
        "adv": graph.degrees * (np.arange(slots)[:, None] <= last),
        "req": by_agent(*np.divmod(requests, m)),
        "data": by_agent(requests // m, asked),
    }
    return Exchange(slots, sent, np.arange(m), hops)


def eccentricities(graph: Graph) -> Ints:
    """Distance of each agent to the farthest agent, int64[M], in a connected graph."""
    if graph.is_complete:
        return np.full(graph.num_nodes, min(graph.num_nodes - 1, 1))
    return graph.distances().max(1)


def sink_agents(components: Sequence[Any]) -> tuple[int, ...]:
    """Sink agents by Algorithm 4: the agent of minimum eccentricity in each component; ties go to the lowest number
    (our choice).

    Args:
        components: connected graphs, each a `Graph` or anything that `Graph.of` reads.

    Returns:
        One agent per component, by its number within the component.

    Raises:
        ValueError: a component is not connected.
    """
    graphs = [connected(graph, f"components[{q}]") for q, graph in enumerate(components)]
    return tuple(int(eccentricities(graph).argmin()) for graph in graphs)


def collection(graph: Any, sink: int) -> Exchange:
    """Collection of all agents' vectors at the sink (SAC, section VI-A2), in as many slots as the sink's eccentricity:
    each vector moves one hop per slot on a shortest path, in a separate message.

    An agent sends to the lowest-numbered of its neighbours that are nearer to the sink. The number of messages is the
    sum of the hops, as in the proof of Theorem 4.

    Args:
        graph: a connected `Graph`, or anything that `Graph.of` reads.
        sink: the number of an agent.

    Returns:
        The messages `sac`.

    Raises:
        ValueError: the graph is not connected, or has no such agent.
    """
    graph = connected(graph, "graph")
    m = graph.num_nodes
    sink = integer("sink", sink, at_least=0, at_most=m - 1)
    hops, towards = (result[:, 0] for result in shortest_paths(graph, np.array([sink])))
    slots = int(hops.max())
    sac, place = np.zeros((slots, m), np.int64), np.arange(m)
    for slot in range(slots):
        sac[slot] = np.bincount(place[place != sink], minlength=m)
        place = towards[place]
    return Exchange(slots, {"sac": sac}, np.array([sink]), hops[None])


def shortest_paths(graph: Graph, sinks: Ints) -> tuple[Ints, Ints]:
    """(hops to each sink, lowest-numbered neighbour on a shortest path to it; for a sink, itself) for each agent,
    int64[M, sinks]."""
    agents = np.arange(graph.num_nodes)
    if graph.is_complete:
        return (agents[:, None] != sinks).astype(np.int64), np.tile(sinks, (graph.num_nodes, 1))
    ends = np.repeat(agents, graph.degrees)
    hops, towards = graph.distances(sinks), np.repeat(sinks[:, None], graph.num_nodes, 1)
    for far, result in zip(hops, towards, strict=True):
        nearer = np.flatnonzero(far[graph.indices] < far[ends])[::-1]  # the last assignment wins
        result[ends[nearer]] = graph.indices[nearer]
    return np.ascontiguousarray(hops.T), np.ascontiguousarray(towards.T)


def delay(slots: int, count: str = "diameter-1") -> int:
    """Number of slots that agents spend waiting (and exploiting) during a protocol of `slots` slots.

    The paper has both versions: the first exchange takes place in the last slot of exploration ("diameter-1": the
    counter of Algorithm 2 starts at 0; line 4 of Algorithm 4; regret in Theorems 3 and 4), or in a separate slot
    ("diameter": line 5 of Algorithm 4; cost in Theorem 3).
    """
    return max(slots - 1, 0) if choice("delay", count, DELAYS) == "diameter-1" else slots


def connected(graph: Any, name: str) -> Graph:
    """The graph as a `Graph`; ValueError if it is not connected or has no node."""
    graph = Graph.of(graph, name=name)
    if graph.num_nodes == 0:
        raise ValueError(f"{name} must have at least 1 node, not 0")
    graph.require_connected(name)
    return graph


def is_hybrid(topology: Any) -> bool:
    """True if the topology is a list of graphs, the components, rather than one graph or the server alone."""
    return isinstance(topology, list | tuple) and not is_one_graph(topology)


def is_one_graph(rows: Sequence[Any]) -> bool:
    """True if a list holds edges (pairs of numbers) or the rows of an adjacency matrix."""
    flat = all(isinstance(row, list | tuple | np.ndarray) and np.ndim(row) == 1 for row in rows)
    return bool(rows) and flat and all(np.asarray(row).dtype.kind in "biuf" for row in rows)


def read_components(topology: Any, num_agents: int) -> tuple[Graph, ...]:
    """One graph, the components of a hybrid, or none for the server alone; ValueError if they do not match
    `num_agents`."""
    if isinstance(topology, str) and topology == "server":
        return ()
    hybrid = is_hybrid(topology)
    if hybrid:
        graphs = tuple(read_component(graph, f"topology[{q}]") for q, graph in enumerate(topology))
        sizes = [graph.num_nodes for graph in graphs]
        if sum(sizes) != num_agents or 0 in sizes:
            raise ValueError(
                f"topology must have components of at least 1 agent each and num_agents={num_agents} in all, not of "
                f"{sizes}"
            )
    else:
        graphs = (Graph.of(topology, num_agents, name="topology"),)
    for q, graph in enumerate(graphs):
        graph.require_connected(f"topology[{q}]" if hybrid else "topology")
    return graphs


def read_component(value: Any, name: str) -> Graph:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return Graph.of(value[0], integer(f"{name} size", value[1], at_least=1), name=name)
    return Graph.of(value, name=name)


class RoundTraffic:
    """Messages of one communication round over graphs, and their timing; all zeros if there is only the server.

    Args:
        graphs: one graph of agents that share all means (GIS), or the components of a hybrid, each with a sink agent
            (SAC).
        hybrid: whether the graphs are components of a hybrid.
        num_agents: M.
        count: how the delay is counted, see `delay`.

    Attributes:
        slots: duration of the protocols.
        delay: slots that agents wait for the result.
        sent: `{kind: int64[slots + 1]}`, messages by all agents in the first 0, 1, ... slots.
        by_agent: int64[slots + 1, M], messages by each agent in the first 0, 1, ... slots.
        coverage: int64[slots + 1, M], the number of agents' means that each agent holds after 0, 1, ... slots.
        sinks: int64[Q], the agents that upload to the server (hybrid).
        group: int64[M], the component of each agent.
        bound: the paper's bound on the cost of the links between agents in one round, in units of c2.
    """

    def __init__(self, graphs: Sequence[Graph], hybrid: bool, num_agents: int, count: str) -> None:
        sizes = [graph.num_nodes for graph in graphs]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        protocols: list[Exchange] = []
        self.sinks: Ints = np.zeros(0, np.int64)
        if hybrid:
            places = sink_agents(graphs)
            protocols = [collection(graph, place) for graph, place in zip(graphs, places, strict=True)]
            self.sinks = first[:-1] + places
        elif graphs:
            protocols = [information_sharing(graphs[0])]
        self.slots = max((protocol.slots for protocol in protocols), default=0)
        self.delay = delay(self.slots, count)
        self.group: Ints = np.repeat(np.arange(len(sizes)), sizes)
        # Every edge in every slot: d_G sum_i d_i / 2 for GIS (Theorem 3).
        edges = [protocol.slots * graph.num_edges for protocol, graph in zip(protocols, graphs, strict=True)]
        self.bound = float(sum(edges))
        self.by_agent: Ints = np.zeros((self.slots + 1, num_agents), np.int64)
        self.coverage: Ints = np.ones((self.slots + 1, num_agents), np.int64)
        self.sent = {kind: np.zeros(self.slots + 1, np.int64) for kind in ("adv", "req", "data", "sac")}
        for protocol, start in zip(protocols, first, strict=False):
            for kind, sent in protocol.sent.items():
                # From slot 0 to the end of the longest protocol.
                so_far = np.cumsum(np.pad(sent, ((1, self.slots - protocol.slots), (0, 0))), 0)
                self.by_agent[:, start : start + sent.shape[1]] += so_far
                self.sent[kind] += so_far.sum(1)
            who, arrives = start + protocol.gathers, np.zeros_like(self.coverage)
            np.add.at(arrives, (protocol.arrival, np.broadcast_to(who[:, None], protocol.arrival.shape)), 1)
            self.coverage[:, who] = np.cumsum(arrives, 0)[:, who]
