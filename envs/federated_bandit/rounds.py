"""Topologies, and what one communication round over them sends, slot by slot."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from taciturn.envs.core.graph import Graph
from taciturn.envs.federated_bandit.protocol import (
    Collection,
    Sharing,
    collection,
    delay,
    information_sharing,
    link_cost,
    sink_agents,
)
from taciturn.validation import Ints, integer

__all__ = ["RoundTraffic", "is_hybrid", "read_components"]


def is_hybrid(topology: Any) -> bool:
    """True if the topology is a list of graphs, the components, rather than one graph or the server alone."""
    return isinstance(topology, list | tuple) and not is_one_graph(topology)


def is_one_graph(rows: Sequence[Any]) -> bool:
    """True if a list holds edges (pairs of numbers) or the rows of an adjacency matrix."""
    return (
        bool(rows)
        and all(isinstance(row, list | tuple | np.ndarray) and np.ndim(row) == 1 for row in rows)
        and all(np.asarray(row).dtype.kind in "biuf" for row in rows)
    )


def read_components(topology: Any, num_agents: int) -> tuple[Graph, ...]:
    """One graph, the components of a hybrid, or none for the server alone; ValueError if they do not fit `num_agents`."""
    if isinstance(topology, str) and topology == "server":
        return ()
    hybrid = is_hybrid(topology)
    if hybrid:
        graphs = tuple(read_component(graph, f"topology[{q}]") for q, graph in enumerate(topology))
        sizes = [graph.num_nodes for graph in graphs]
        if sum(sizes) != num_agents or 0 in sizes:
            raise ValueError(
                f"topology must have components of at least 1 agent each and num_agents={num_agents} in all, not of {sizes}"
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
        graphs: one graph, whose agents share all means (GIS), or the components of a hybrid, each with a sink agent (SAC).
        hybrid: whether they are the latter.
        num_agents: M.
        count: how the delay is counted, see `taciturn.envs.federated_bandit.protocol.delay`.

    Attributes:
        slots: duration of the protocols.
        delay: slots for which agents wait for the result.
        sent: `{kind: int64[slots + 1]}`, messages by all agents in the first 0, 1, ... slots.
        by_agent: int64[slots + 1, M], messages by each agent in the first 0, 1, ... slots.
        coverage: int64[slots + 1, M], the number of agents whose means each agent holds after 0, 1, ... slots.
        sinks: int64[Q], the agents that upload to the server (hybrid).
        group: int64[M], the component of each agent.
        bound: the paper's bound on the cost of a round's links between agents, in units of c2.
    """

    def __init__(self, graphs: Sequence[Graph], hybrid: bool, num_agents: int, count: str) -> None:
        sizes = [graph.num_nodes for graph in graphs]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        protocols: list[Sharing | Collection] = []
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
        self.bound = sum(link_cost(protocol, 1.0, "edges") for protocol in protocols)
        self.by_agent: Ints = np.zeros((self.slots + 1, num_agents), np.int64)
        self.coverage: Ints = np.full((self.slots + 1, num_agents), 0 if graphs and not hybrid else 1)
        self.sent = {kind: np.zeros(self.slots + 1, np.int64) for kind in ("adv", "req", "data", "sac")}
        for protocol, start in zip(protocols, first, strict=False):
            for kind, sent in protocol.sent.items():
                # From slot 0 to the end of the longest protocol.
                so_far = np.cumsum(np.pad(sent, ((1, self.slots - protocol.slots), (0, 0))), 0)
                self.by_agent[:, start : start + sent.shape[1]] += so_far
                self.sent[kind] += so_far.sum(1)
            if isinstance(protocol, Sharing):
                when, who = protocol.arrival, np.arange(num_agents)[:, None]
            else:
                when, who = protocol.hops, start + protocol.sink
                self.coverage[:, who] = 0
            arrivals = np.zeros_like(self.coverage)
            np.add.at(arrivals, (when, np.broadcast_to(who, when.shape)), 1)
            self.coverage += np.cumsum(arrivals, 0)

    def elapsed(self, phase_left: Ints) -> Ints:
        """Slots of the protocols played so far in a round that ends in `phase_left` slots, int64[B]; 0 if none is under way."""
        return np.where(phase_left > 0, self.slots - phase_left, 0)
