"""How much do agents that play the same bandit gain by talking, and what do the talk and its privacy cost?

Description
    `M` agents play the same `K` Bernoulli arms for `T` slots; in each slot each of them pulls one. What an agent hears of an arm it tells
    the others as a mean: an upload passes, over the channel `means`, the mean of every arm over the agent's pulls since its last upload
    (of those arms that anybody has pulled since the last round), and what is heard of an agent is kept as one mean over all that it has
    uploaded (equation 6). A communication round averages these means over the agents that were heard, and all learn the average.

    - Server: a round begins and ends in any slot in which somebody uploads; agents that do not upload in it take no part.
    - Graph: a round begins when all agents have uploaded. Information sharing (GIS, Algorithm 2) then takes `delay` slots.
    - Components with a server (hybrid): likewise; the agents of a component pass their means to its sink agent (SAC, Algorithm 4),
      the sinks theirs to the server.

    While a round is under way nobody can upload, and what is pulled enters no mean. A slot is the unit of `step`. Policies that plan
    ahead (`plan`) are played many slots at once by `Population.fast_forward`: a sum of Bernoulli rewards is then drawn as the binomial it is.

Paper
    Li & Song, Privacy-Preserving Communication-Efficient Federated Multi-Armed Bandits: sections III-VI, Algorithms 1-5. The
    algorithms are in `taciturn.policies`: CDPMAB, DDPMAB, HDPMAB.

Agents
    `M` agents (`agent_0` ...), all at once. What the server does is fixed: it averages and tells all.

Observation
    Box float32. For each arm: the agent's own `counts` and `means` of all its pulls (0 without any); `private`, the mean that others have
    of it, and `broadcast`, the last round's average (both within [-10, 11]: noise leaves [0, 1]); `active`, whether that round renewed
    it (1 before the first). Then `time` and `time_left` in slots, `rounds` so far, `phase_left`, the slots until the round under way
    ends (0: none is), and `held`, the share of the M agents' means that has reached the agent in that round (1 without one).

Action
    Discrete(2K): pull arm `a mod K`; `a >= K`: and upload at the end of the slot. Uploads are masked while a round is under way, and,
    where all agents must upload, for those that wait for the others; a masked upload is not made.

Reward
    The Bernoulli draw, less the cost of the links the agent used in the slot (`server_link_cost` an upload to the server,
    `agent_link_cost` a message to an agent).

Termination
    Never; truncated after `horizon` slots.

Info
    `regret`, the sum over agents and slots of mu* - mu_a, with the means over all agents; `local_regret`, with each agent's own means
    and best arm; `cost` of links; `messages` sent by agents; the counts `upload`, `broadcast`, `adv`, `req`, `data`, `sac`, and
    `neighbour`, what policies tell neighbours slot by slot, outside of rounds (`tell_neighbours`; not in the reward); `rounds`;
    `phase` (0 exploring, 1 communicating); `active_arms`; `last_round` [K], the round in which each arm's mean was last renewed;
    `epsilon`, of the costliest message (inf without a mechanism).

Privacy channels
    `means`, read by the server (on graphs by all), unit: an event, one reward. A mean of n rewards has sensitivity 1/n, stated as it is
    sent. Each reward enters one mean only, so that an agent's total at event level is that of one message. This holds where the pulls
    between two rounds do not depend on the rewards between them, as in the paper's algorithms; other agents also tell by their counts.
    An upload after rounds without the agent stands for as many messages as there were rounds, each with its own noise.

Arguments
    - num_agents: M >= 1.
    - num_arms: K >= 1; None: as many as `qualities` tells, else 100.
    - qualities: "grid" (mu_k = (k + 0.5) / K), "uniform" (drawn from [0, 1] at each reset, alike for all agents), "heterogeneous" (drawn
      for each agent), or the means themselves, [K] or [M, K], in [0, 1].
    - horizon: T, 1 to 2^24 slots.
    - topology: "server"; a graph, as `Graph.of` reads it; or a list of graphs, the components of a hybrid, whose agents are numbered
      one component after the other, whatever their nodes are called (a component "ring" of 20 is `("ring", 20)`).
    - server_link_cost, agent_link_cost: c1 and c2, >= 0.
    - delay: "diameter-1", the first exchange falls in the slot of the upload; or "diameter".
    - weighting: of a hybrid's components, "agents" (by size) or "components" (the paper's unweighted mean).

Deviations from the paper
    Logarithms are natural. S(r) is rounded up and grows by at least 1 a round; C(r) uses the rounded one. N = ceil(pM), and the noise has
    scale 1/(N epsilon n): a message is (N epsilon)-DP, not epsilon-DP, as Theorem 1 says of M. Old noise is kept, never drawn again. An
    epoch runs only if it and its communication fit before T; otherwise the rest explores in turn and nothing is uploaded. Aggregation is
    over ybar, as in the proof of Theorem 3; Algorithm 3, line 9 says yhat (`DDPMAB(aggregate="epoch")`). Hybrids weight components by
    size: the unweighted mean can pick a wrong arm for ever when components differ in size and agents in their means. The delay is
    diameter - 1 in Algorithm 2, line 4 of Algorithm 4 and the regret of Theorems 3 and 4, and the diameter in line 5 of Algorithm 4 and
    the cost of Theorem 3. While they wait, agents play the arm that is best by their own ybar, ties at random. `cost` counts messages
    sent, and `cost_bound` the paper's: every edge in every slot of a round (Theorem 3). A broadcast is counted and costs nothing, as in
    the paper. With R rounds, epochs need the true smallest gap. The paper never states T: the default is 10^5.

    Errors of the paper: case 2 of Table II sums to 110 agents; by the proof of Theorem 4 a round of case 3 costs less than one of cases
    1 and 2 (Figure 11 needs the bound); epsilon = 1 is not 'non-private'; the privacy term of S(r) never binds at M = 50 and epsilon >=
    0.1; Remark 2, Corollary 1, equation 22 and Table I (ring) hold slips of algebra; R = 4 equals R = 5 (Figure 6) only with a gap
    larger than 100 uniform arms have.

Registered configurations
    None in Gymnasium, which has one agent; in PettingZoo `taciturn/FederatedBandit-v0`: M = 50, K = 100, the server.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import gymnasium
import numpy as np

from taciturn.envs.core import (
    Acts,
    Array,
    Channel,
    ChannelConfig,
    Fast,
    Layout,
    Population,
    Role,
    World,
    choice,
    integer,
    number,
)
from taciturn.envs.core.graph import Graph
from taciturn.envs.federated_bandit.protocol import (
    DELAYS,
    Collection,
    Sharing,
    collection,
    delay,
    information_sharing,
    link_cost,
    sink_agents,
)

__all__ = [
    "FederatedBandit",
    "Params",
    "Seen",
    "State",
    "Talk",
    "eliminate",
    "federated_bandit_v0",
    "in_turn",
    "smallest_gap",
]

QUALITIES = ("grid", "uniform", "heterogeneous")
WEIGHTINGS = ("agents", "components")
KINDS = ("upload", "broadcast", "adv", "req", "data", "sac")
LONGEST = 2**24  # slots that float32 counts one by one
REACH = (-10.0, 11.0)  # of means with noise, as they are observed
SURE = 0.9  # share of the pulls since the last round that says the best arm is found


@dataclass(frozen=True, kw_only=True)
class Params:
    """The world's parameters.

    Attributes:
        num_agents, num_arms, qualities, horizon, topology, server_link_cost, agent_link_cost, delay, weighting: as in the world's
            docstring; `num_arms` is known and given qualities are an array after construction.
        components: the graph, or those of a hybrid, whose agents are numbered on; none: the server alone.

    Raises:
        ValueError: a parameter out of range, a graph that is not connected or not of M agents.
    """

    num_agents: int = 50
    num_arms: int | None = None
    qualities: Any = "grid"
    horizon: int = 100_000
    topology: Any = "server"
    server_link_cost: float = 25.0
    agent_link_cost: float = 1.0
    delay: str = "diameter-1"
    weighting: str = "agents"

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1)
        if isinstance(self.qualities, str):
            choice("qualities", self.qualities, QUALITIES)
            arms = 100 if self.num_arms is None else integer("num_arms", self.num_arms, at_least=1)
        else:
            object.__setattr__(self, "qualities", self._means())
            arms = self.qualities.shape[-1]
        object.__setattr__(self, "num_arms", arms)
        integer("horizon", self.horizon, at_least=1, at_most=LONGEST)
        number("server_link_cost", self.server_link_cost, at_least=0)
        number("agent_link_cost", self.agent_link_cost, at_least=0)
        choice("delay", self.delay, DELAYS)
        choice("weighting", self.weighting, WEIGHTINGS)
        _ = self.components

    def _means(self) -> Array:
        """The given qualities as float64 [K] or [M, K]."""
        try:
            means = np.array(self.qualities, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"qualities must be one of {', '.join(map(repr, QUALITIES))} or means, not {self.qualities!r}"
            ) from error
        wanted = "K" if self.num_arms is None else str(integer("num_arms", self.num_arms, at_least=1))
        right = means.ndim in (1, 2) and means.size > 0 and (means.ndim == 1 or len(means) == self.num_agents)
        if not right or (self.num_arms is not None and means.shape[-1] != self.num_arms):
            raise ValueError(
                f"qualities must have the shape [{wanted}] or [{self.num_agents}, {wanted}], not {list(means.shape)}"
            )
        if not ((means >= 0) & (means <= 1)).all():
            raise ValueError(f"qualities must be means in [0, 1], not {means[~((means >= 0) & (means <= 1))][0]}")
        return means

    @property
    def arms(self) -> int:
        """K."""
        assert self.num_arms is not None
        return self.num_arms

    @property
    def hybrid(self) -> bool:
        """Whether there are components and a server."""
        return isinstance(self.topology, list | tuple) and not _edges(self.topology)

    @cached_property
    def components(self) -> tuple[Graph, ...]:
        """One graph; those of a hybrid; or none, where there is only the server."""
        if isinstance(self.topology, str) and self.topology == "server":
            return ()
        graphs: tuple[Graph, ...]
        if not self.hybrid:
            graphs = (Graph.of(self.topology, self.num_agents, name="topology"),)
        else:
            graphs = tuple(_component(graph, f"topology[{q}]") for q, graph in enumerate(self.topology))
            sizes = [graph.num_nodes for graph in graphs]
            if sum(sizes) != self.num_agents or 0 in sizes:
                raise ValueError(
                    f"topology must hold components of at least 1 and together num_agents={self.num_agents} agents, not of {sizes}"
                )
        for q, graph in enumerate(graphs):
            graph.require_connected(f"topology[{q}]" if self.hybrid else "topology")
        return graphs


def _edges(value: Any) -> bool:
    """Whether a list is one of edges, pairs of numbers, or an adjacency matrix: one graph."""
    return (
        bool(value)
        and all(isinstance(row, list | tuple | np.ndarray) and np.ndim(row) == 1 for row in value)
        and all(np.asarray(row).dtype.kind in "biuf" for row in value)
    )


def _component(value: Any, name: str) -> Graph:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return Graph.of(value[0], integer(f"{name} size", value[1], at_least=1), name=name)
    return Graph.of(value, name=name)


@dataclass(frozen=True)
class State:
    """B federations of M agents and K arms."""

    quality: Array  # float64[B, 1 or M, K]: the arms' means, for each agent where they differ
    counts: Array  # int64[B, M, K]: pulls
    sums: Array  # int64[B, M, K]: rewards
    used_counts: Array  # int64[B, M, K]: pulls that enter no further mean, uploaded or made during a round
    used_sums: Array  # int64[B, M, K]: their rewards
    weight: Array  # float64[B, M, K]: S, pulls that `private` is the mean of
    private: Array  # float64[B, M, K]: ybar_i, what is heard of each agent
    missed: Array  # int64[B, M]: rounds since the agent's last upload
    offered: Array  # bool[B, M]: who has uploaded for the round that is coming or under way
    heard: Array  # bool[B, M, K]: of which arms it has been heard in that round
    broadcast: Array  # float64[B, K]: ybar, the last round's average
    last_round: Array  # int64[B, K]: in which the arm's average was last renewed
    mark: Array  # int64[B, K]: all agents' pulls of each arm when the last round ended
    time: Array  # int64[B]
    since: Array  # int64[B]: when the last round ended
    rounds: Array  # int64[B]: ended
    phase_left: Array  # int64[B]: slots until the round under way ends; 0: none is
    uploads: Array  # int64[B]: to the server


TALK = ("used_counts", "used_sums", "weight", "private", "heard")
"""Arrays [B, M, K] that change only where agents talk."""


S = TypeVar("S", bound=State)


def own(state: S, talks: bool = True) -> S:
    """The state with arrays of its own; those that change by talk alone only if somebody `talks`."""
    shared = ("quality",) if talks else ("quality", *TALK)
    return replace(state, **{f.name: getattr(state, f.name).copy() for f in fields(state) if f.name not in shared})


def draw_quality(params: Params, size: int, rng: np.random.Generator) -> Array:
    """Arm means, float64[size, 1 or M, K]."""
    agents, arms = params.num_agents, params.arms
    if not isinstance(params.qualities, str):
        means = params.qualities
    elif params.qualities == "grid":
        means = (np.arange(arms) + 0.5) / arms
    else:
        return rng.random((size, agents if params.qualities == "heterogeneous" else 1, arms))
    return np.tile(np.atleast_2d(means), (size, 1, 1))


def gaps(quality: Array) -> Array:
    """Delta_k = mu* - mu_k of the means over agents (section III-A; heterogeneous: VI-D), float64[B, K]."""
    mean = quality.mean(1)
    return np.asarray(mean.max(-1, keepdims=True) - mean)


def local_gaps(quality: Array) -> Array:
    """Gaps to each agent's own best arm, float64[B, 1 or M, K]."""
    return np.asarray(quality.max(-1, keepdims=True) - quality)


def smallest_gap(quality: Array) -> Array:
    """Delta, the smallest gap above 0, float64[B]; 1 where all arms are best."""
    gap = gaps(quality)
    return np.where(gap > 1e-12, gap, 1.0).min(-1)


def historical_mean(before: Array, weight: Array, mean: Array, pulls: Array) -> Array:
    """Equation 6: ybar(r) = S(r-1)/S(r) ybar(r-1) + n(r)/S(r) yhat(r), where anything was heard; S(r) = `weight` + `pulls`."""
    total = weight + pulls
    return np.where(pulls > 0, (weight * before + pulls * mean) / np.where(total > 0, total, 1.0), before)


def average(private: Array, known: Array, group: Array | None = None) -> tuple[Array, Array]:
    """ybar_k, the mean over agents (Algorithm 1, line 12), or over the groups' means (Algorithm 5, lines 9 and 14).

    Args:
        private: float64[B, M, K].
        known: which of them, bool[B, M, K].
        group: int64[M], the component of each agent; None: all agents count alike.

    Returns:
        (mean float64[B, K], of how many agents int64[B, K]); 0 where there are none.
    """
    number_known = known.sum(1)
    if group is None:
        return np.where(known, private, 0.0).sum(1) / np.maximum(number_known, 1), number_known
    member = (group == np.arange(group.max() + 1)[:, None]).astype(np.float64)
    size, total = member @ known, member @ np.where(known, private, 0.0)
    means, some = total / np.maximum(size, 1), size > 0
    return means.sum(1) / np.maximum(some.sum(1), 1), number_known


def eliminate(active: Array, mean: Array, threshold: Array) -> Array:
    """The arms that stay, bool[..., K]: those less than a `threshold`, 2 C(r), below the best active one (Algorithm 1, lines 13-15)."""
    best = np.where(active, mean, -np.inf).max(-1, keepdims=True)
    return np.asarray(active & (best - mean < threshold[..., None]))


def in_turn(active: Array, played: Array, slots: Array) -> Array:
    """Pulls of each arm in the next `slots` of a phase that pulls the active arms in turn, of which `played` slots have passed."""
    number, rank = active.sum(-1, keepdims=True), np.cumsum(active, -1) - 1

    def until(slot: Array) -> Array:
        return np.maximum(slot[..., None] - rank + number - 1, 0) // number

    return np.where(active, until(played + slots) - until(played), 0)


class Talk:
    """What a communication round over graphs sends, and when; all zeros where there is only the server.

    Attributes:
        slots: that the protocols take; delay: that agents wait for them.
        sent: `{kind: int64[slots + 1]}`, messages of all agents after so many slots of the protocols.
        by_agent: int64[slots + 1, M], messages of each agent after so many.
        held: int64[slots + 1, M], how many agents' means each agent holds after so many.
        sinks: int64[Q], who uploads to the server (hybrid).
        group: int64[M], the component of each agent.
        bound: link cost of a round between agents by the paper's bound, in units of c2.
    """

    def __init__(self, params: Params) -> None:
        graphs, hybrid, agents = params.components, params.hybrid, params.num_agents
        sizes = [graph.num_nodes for graph in graphs]
        first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        protocols: list[Sharing | Collection] = []
        self.sinks: Array = np.zeros(0, np.int64)
        if hybrid:
            places = sink_agents(graphs)
            protocols = [collection(graph, place) for graph, place in zip(graphs, places, strict=True)]
            self.sinks = first[:-1] + places
        elif graphs:
            protocols = [information_sharing(graphs[0])]
        self.slots = max((protocol.slots for protocol in protocols), default=0)
        self.delay = delay(self.slots, params.delay)
        self.group = np.repeat(np.arange(len(sizes)), sizes)
        self.bound = sum(link_cost(protocol, 1.0, "edges") for protocol in protocols)
        self.by_agent = np.zeros((self.slots + 1, agents), np.int64)
        self.held = np.full((self.slots + 1, agents), 0 if graphs and not hybrid else 1)
        self.sent = {kind: np.zeros(self.slots + 1, np.int64) for kind in ("adv", "req", "data", "sac")}
        for protocol, start in zip(protocols, first, strict=False):
            for kind, total in self.sent.items():
                if hasattr(protocol, kind):
                    slots, members = getattr(protocol, kind).shape
                    part = np.zeros((self.slots + 1, members), np.int64)
                    part[1 : slots + 1] = getattr(protocol, kind)
                    part = np.cumsum(part, 0)
                    self.by_agent[:, start : start + members] += part
                    total += part.sum(1)
            if isinstance(protocol, Sharing):
                when, who = protocol.arrival, np.arange(agents)[:, None]
            else:
                when, who = protocol.hops, start + protocol.sink
                self.held[:, who] = 0
            arrivals = np.zeros_like(self.held)
            np.add.at(arrivals, (when, np.broadcast_to(who, when.shape)), 1)
            self.held += np.cumsum(arrivals, 0)


@dataclass(frozen=True)
class EpochPlan(Fast):
    """What every agent pulls in its next slots, in place of asking slot by slot.

    Args:
        plan: from (what agents see, `Seen`; how many slots each may plan, int64[B, M]) to (pulls int64[B, M, K], or the arms int64[B, M] of
            one slot; who uploads at the end of these slots, bool[B, M]). Agents that do not upload may differ in the slots they plan.
    """

    plan: Callable[["Seen", Array], tuple[Array, Array]]


class Seen:
    """What agents see of a state, by the names of the observation's fields, worked out when asked for: [B, M or 1, K] or [B, M or 1]."""

    def __init__(self, state: State, horizon: int, talk: Talk) -> None:
        self._state, self._horizon, self._talk = state, horizon, talk

    @property
    def active(self) -> Array:
        return renewed(self._state)[:, None]

    @property
    def counts(self) -> Array:
        return self._state.counts

    @property
    def sums(self) -> Array:
        return self._state.sums

    @property
    def means(self) -> Array:
        return self._state.sums / np.maximum(self._state.counts, 1)

    @property
    def private(self) -> Array:
        return self._state.private

    @property
    def broadcast(self) -> Array:
        return self._state.broadcast[:, None]

    @property
    def time(self) -> Array:
        return self._state.time[:, None]

    @property
    def time_left(self) -> Array:
        return self._horizon - self._state.time[:, None]

    @property
    def rounds(self) -> Array:
        return self._state.rounds[:, None]

    @property
    def phase_left(self) -> Array:
        return self._state.phase_left[:, None]

    @property
    def held(self) -> Array:
        share = self._talk.held[progress(self._state, self._talk)] / self._state.counts.shape[1]
        return np.where(self._state.phase_left[:, None] > 0, share, 1.0)


def renewed(state: State) -> Array:
    """The arms whose average the last round renewed, all before the first, bool[B, K]."""
    return np.asarray(state.last_round == state.rounds[:, None])


def progress(state: State, talk: Talk) -> Array:
    """Slots of the protocols that have been played in the round under way, int64[B] (0: none is)."""
    return np.where(state.phase_left > 0, talk.slots - state.phase_left, 0)


class FederatedBandit(Population[State]):
    __doc__ = __doc__
    name = "federated_bandit"
    params: Params
    hidden = frozenset({"qualities"})
    jumps: Mapping[str, type[Fast]] = {"agent": EpochPlan}
    jump_sends_messages = True

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        arms, longest = p.arms, float(p.horizon)
        self.talk = Talk(p)
        self.asides = np.zeros(self.num_envs, np.int64)
        self._replica = np.arange(self.num_envs)[:, None] * arms
        self._row = np.arange(self.num_envs * p.num_agents).reshape(self.num_envs, p.num_agents) * arms
        layout = Layout(
            counts=(arms, 0, longest),
            means=(arms, 0, 1),
            private=(arms, *REACH),
            broadcast=(arms, *REACH),
            active=(arms, 0, 1),
            time=(1, 0, longest),
            time_left=(1, 0, longest),
            rounds=(1, 0, longest),
            phase_left=(1, 0, longest),
            held=(1, 0, 1),
        )
        return (Role("agent", p.num_agents, layout, gymnasium.spaces.Discrete(2 * arms)),)

    def make_channels(self) -> tuple[Channel, ...]:
        observer: Any = "public" if self.params.components else "server"
        return (Channel("means", "vector", observer=observer, unit="event", disjoint=True),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        law = config.mechanism
        if law is not None and (law.stateful or law.kind not in ("none", "laplace", "gaussian")):
            raise ValueError(
                f"channel {channel!r} carries means, which need additive noise without memory, not {law!r}"
            )

    def public(self) -> dict[str, Any]:
        """`delay`, slots that agents wait for a round's result; `tell_neighbours`, by which agents on a graph exchange what they like."""
        return {"delay": self.talk.delay, "tell_neighbours": self.tell_neighbours}

    def initial(self) -> State:
        p, size = self.params, self.num_envs
        agents, arms = p.num_agents, p.arms
        self.asides = np.where(self.channels["means"].live, 0, self.asides)
        whole = np.zeros((size, agents, arms), np.int64)
        real = np.zeros((size, agents, arms))
        none = np.zeros(size, np.int64)
        return State(
            quality=draw_quality(p, size, self.stream("qualities")),
            counts=whole, sums=whole, used_counts=whole, used_sums=whole, weight=real, private=real,
            missed=whole[:, :, 0], offered=np.zeros((size, agents), np.bool_), heard=whole > 0,
            broadcast=np.zeros((size, arms)), last_round=np.zeros((size, arms), np.int64), mark=np.zeros((size, arms), np.int64),
            time=none, since=none, rounds=none, phase_left=none, uploads=none,
        )  # fmt: skip

    # Playing. These write into the arrays of a state, which is their caller's own.

    def pull(self, state: State, arms: Array) -> Array:
        """Everyone pulls once, `arms` int64[B, M]: the rewards, bool[B, M]."""
        at = self._row + arms
        alike = state.quality.shape[1] == 1
        mu = state.quality.reshape(-1)[self._replica + arms if alike else at]
        drawn = self.stream("rewards").random(arms.shape) < mu
        state.counts.reshape(-1)[at] += 1
        state.sums.reshape(-1)[at] += drawn
        if np.count_nonzero(state.phase_left):
            waiting = state.phase_left[:, None] > 0
            state.used_counts.reshape(-1)[at] += waiting
            state.used_sums.reshape(-1)[at] += drawn & waiting
        return drawn

    def pull_many(self, state: State, pulls: Array) -> None:
        """Everyone pulls many times, `pulls` int64[B, M, K]: a sum of n Bernoulli(mu) rewards is Binomial(n, mu)."""
        # Agents last: those that pull alike follow one another, for which NumPy need not start anew.
        n = np.ascontiguousarray(pulls.transpose(0, 2, 1))
        mu = np.broadcast_to(state.quality, pulls.shape).transpose(0, 2, 1)
        drawn = self.stream("rewards").binomial(n, mu).transpose(0, 2, 1)
        state.counts[:] += pulls
        state.sums[:] += drawn
        waiting = np.flatnonzero(state.phase_left > 0)
        if waiting.size:
            state.used_counts[waiting] += pulls[waiting]
            state.used_sums[waiting] += drawn[waiting]

    def communicate(self, state: State, asks: Array, slots: Array) -> Array:
        """Pass uploads and messages at the end of `slots` int64[B] slots: the cost of each agent's links, float64[B, M].

        Args:
            asks: who uploads, bool[B, M]; only where `may_upload`.
            slots: played since this was last called, not beyond the end of a round under way.
        """
        p, talk = self.params, self.talk
        before, under_way = progress(state, talk), state.phase_left > 0
        state.phase_left[:] -= np.where(under_way, slots, 0)
        ends = under_way & (state.phase_left == 0)
        cost = np.zeros(asks.shape)
        if asks.any():
            self.upload(state, asks)
            starts = state.offered.all(1) & asks.any(1) if p.components else asks.any(1)
            state.phase_left[:] = np.where(starts, talk.delay, state.phase_left)
            ends |= starts & (talk.delay == 0)
            if not p.components:
                state.uploads[:] += asks.sum(1)
                cost += p.server_link_cost * asks
            under_way = under_way | starts
        if talk.slots and under_way.any():
            after = np.where(ends, talk.slots, progress(state, talk))
            sent = talk.by_agent[after] - talk.by_agent[before]
            cost += p.agent_link_cost * np.where(under_way[:, None], sent, 0)
        if ends.any():
            self.end_round(state, ends)
            if p.hybrid:
                state.uploads[:] += ends * len(talk.sinks)
                cost[:, talk.sinks] += p.server_link_cost * ends[:, None]
        return cost

    def upload(self, state: State, asks: Array) -> None:
        """The agents in `asks` bool[B, M] pass the means of their pulls since their last upload (Algorithm 1, lines 8-11).

        They tell of the arms that anybody has pulled since the last round, which are the active ones. After m rounds that an agent missed,
        its pulls are shared out over m + 1 messages, each with the noise that one epoch's has.
        """
        current = (state.counts.sum(1) > state.mark)[:, None]
        pulls, rewards = (state.counts - state.used_counts) * current, (state.sums - state.used_sums) * current
        parts = state.missed + 1
        share = pulls / parts[:, :, None]
        mean = rewards / np.maximum(pulls, 1)
        sensitivity = 1.0 / np.where(share > 0, share, 1.0)
        # At user level: the most rewards that any of these messages is about.
        events = max(1, math.ceil(share.sum(2)[asks].max()))
        for part in range(int(parts[asks].max())):
            said, delivered = self.channels["means"].send(mean, asks & (parts > part), sensitivity, events=events)
            said_pulls = np.where(delivered[:, :, None], share, 0.0)
            state.private[:] = historical_mean(state.private, state.weight, said, said_pulls)
            state.weight[:] += said_pulls
            state.heard[:] |= said_pulls > 0
        state.used_counts[asks] = state.counts[asks]
        state.used_sums[asks] = state.sums[asks]
        state.missed[asks] = 0
        state.offered[:] |= asks

    def end_round(self, state: State, ends: Array) -> None:
        """All learn the average of the agents that were heard, where `ends` bool[B]."""
        p = self.params
        group = self.talk.group if p.hybrid and p.weighting == "components" else None
        mean, known = average(state.private, state.heard & ends[:, None, None], group)
        new = known > 0
        state.rounds[:] += ends
        state.broadcast[:] = np.where(new, mean, state.broadcast)
        state.last_round[:] = np.where(new, state.rounds[:, None], state.last_round)
        state.missed[:] += ends[:, None] & ~state.offered
        state.offered[ends] = False
        state.heard[ends] = False
        state.mark[:] = np.where(ends[:, None], state.counts.sum(1), state.mark)
        state.since[:] = np.where(ends, state.time, state.since)

    def tell_neighbours(self, x: Array, live: Array) -> tuple[Array, Array]:
        """A policy's agents all say `x` float64[B, M, P] to their neighbours, where `live` bool[B]: what is heard, and of whom, bool[B, M].

        A message a link each way, counted as `neighbour`, at the next reset from 0 again.
        """
        self.asides = self.asides + np.where(live, sum(2 * graph.num_edges for graph in self.params.components), 0)
        speak = None if live.all() else np.broadcast_to(live[:, None], x.shape[:2])
        return self.channels["means"].send(x, speak, 1.0)

    def may_upload(self, state: State) -> Array:
        """Who can upload now, bool[B, M]."""
        return (state.phase_left == 0)[:, None] & ~state.offered

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        arms = self.params.arms
        action = actions["agent"]
        asks = (action >= arms) & self.may_upload(state)
        new = own(state, talks=bool(asks.any() or (state.phase_left > 0).any()))
        drawn = self.pull(new, action % arms)
        new.time[:] += 1
        reward = drawn - self.communicate(new, asks, np.ones(self.num_envs, np.int64))
        nobody = np.zeros(self.num_envs, np.bool_)
        return new, {"agent": reward}, nobody, new.time >= self.params.horizon, self.inform(new)

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play agents that plan (`EpochPlan`): sums of the Bernoulli rewards of many pulls are drawn as binomials."""
        plan = forms["agent"].plan
        channel, live, arms = self.channels["means"], ~self.done, self.params.arms
        state = own(self.state)
        seen = Seen(state, self.params.horizon, self.talk)
        clock = np.repeat(state.time[:, None], self.params.num_agents, axis=1)
        end = np.where(live, int(min(self.params.horizon, until + 1e-9)), 0)[:, None]
        while (room := end - clock).max() > 0:
            if np.count_nonzero(state.phase_left):
                left = state.phase_left[:, None]
                room = np.where(left > 0, np.minimum(room, left), room)
            pulls, asks = plan(seen, np.maximum(room, 0))
            all_go = room.min() > 0
            if pulls.ndim == 2 and all_go:
                self.pull(state, pulls)
                clock += 1
                state.time[:] += 1
                slots = np.ones(self.num_envs, np.int64)
            else:
                if pulls.ndim == 2:
                    pulls = (pulls[:, :, None] == np.arange(arms)) * (room > 0)[:, :, None]
                each = pulls.sum(-1)
                if (each > np.maximum(room, 0)).any() or (each < (room > 0)).any():
                    raise ValueError(
                        f"{policies['agent']!r} must plan 1 to {room.max()} slots, not {each.min()} to {each.max()}"
                    )
                self.pull_many(state, pulls)
                clock += each
                slots, state.time[:] = each.max(1), clock.max(1)
            if np.count_nonzero(asks) or np.count_nonzero(state.phase_left):
                channel.live = live
                self.communicate(state, asks & (room > 0) & self.may_upload(state), slots)
                live = live & ~channel.stopped
                end = np.where(live[:, None], end, 0)
        self._state = state
        self.truncated = self.truncated | (state.time >= self.params.horizon) | channel.stopped

    # Showing.

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        layout, seen = self.roles[role].layout, Seen(state, self.params.horizon, self.talk)
        return layout.pack(**{name: getattr(seen, name) for name in layout.fields})

    def action_mask(self, role: str) -> Array:
        state, arms = self.state, self.params.arms
        mask = np.ones((*state.offered.shape, 2 * arms), np.int8)
        mask[:, :, arms:] = self.may_upload(state)[:, :, None]
        return mask

    def counted(self, state: State) -> dict[str, Array]:
        """Messages so far by kind, int64[B] each."""
        told = self.params.num_agents if self.params.hybrid or not self.params.components else 0
        counts = {"upload": state.uploads.copy(), "broadcast": state.rounds * told, "neighbour": self.asides}
        done = progress(state, self.talk)
        return counts | {kind: state.rounds * total[-1] + total[done] for kind, total in self.talk.sent.items()}

    def cost(self, state: State) -> tuple[Array, Array]:
        """(transmissions over links int64[B]; c1 an upload to the server and c2 a message to an agent, equation 2, float64[B])."""
        p = self.params
        between = sum(count for kind, count in self.counted(state).items() if kind not in ("upload", "broadcast"))
        return state.uploads + between, p.server_link_cost * state.uploads + p.agent_link_cost * between

    def cost_bound(self, state: State) -> Array:
        """The same by the paper's bound, every edge in every slot of a round (Theorem 3), float64[B]."""
        p = self.params
        return p.server_link_cost * state.uploads + p.agent_link_cost * self.talk.bound * state.rounds

    def playing(self, state: State) -> Array:
        """The arms that are still played, bool[B, K]."""
        return in_play(state)

    def inform(self, state: State) -> dict[str, Any]:
        transmissions, cost = self.cost(state)
        return {
            "regret": regret(state),
            "local_regret": local_regret(state),
            "cost": cost,
            "transmissions": transmissions,
            **self.counted(state),
            "rounds": state.rounds,
            "phase": (state.phase_left > 0).astype(np.int64),
            "active_arms": self.playing(state).sum(-1),
            "last_round": state.last_round,
        }

    def clock(self) -> Array:
        return self.state.time.astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        s, agents = self.state, self.params.num_agents
        return {
            "regret": lambda: regret(s),
            "regret_per_agent": lambda: regret(s) / agents,
            "local_regret": lambda: local_regret(s),
            "reward": lambda: s.sums.sum((1, 2)).astype(np.float64),
            "cost": lambda: self.cost(s)[1],
            "cost_bound": lambda: self.cost_bound(s),
            "transmissions": lambda: self.cost(s)[0],
            "rounds": lambda: s.rounds,
            "active_arms": lambda: self.playing(s).sum(-1),
            "identified": lambda: identified(s),
        }

    def outcome(self) -> dict[str, Array]:
        """All that is measured, and the counts by kind.

        `identified`: of the pulls since the last round (since the start, without one), nine tenths are of a best arm. `active_arms`:
        those still played.
        """
        values = {name: value() for name, value in self.measures().items()} | self.counted(self.state)
        return {name: np.asarray(value, np.float64) for name, value in values.items()}

    def phase(self, replica: int) -> str:
        if self.state.phase_left[replica]:
            return "communicating"
        return "exploring" if self.playing(self.state)[replica].sum() > 1 else "exploiting"

    def describe(self, replica: int = 0) -> str:
        s, i = self.state, replica
        playing = self.playing(s)[i]
        shown = "".join("#" if arm else "." for arm in playing[:60]) + ("..." if len(playing) > 60 else "")
        phase = self.phase(replica)
        return (
            f"t={s.time[i]:6d}  rounds {s.rounds[i]:2d}  {phase}  arms {playing.sum()} [{shown}]  "
            f"regret {regret(s)[i]:.2f}  cost {self.cost(s)[1][i]:g}"
        )

    def draw(self, axes: Any, replica: int = 0) -> None:
        s, i = self.state, replica
        playing, arms = self.playing(s)[i], np.arange(s.counts.shape[2])
        heard = s.weight[i].sum(0)
        mean = s.broadcast[i] if s.rounds[i] else s.sums[i].sum(0) / np.maximum(s.counts[i].sum(0), 1)
        pulls = heard if s.rounds[i] else s.counts[i].sum(0)
        spread = 2 * np.sqrt(np.clip(mean * (1 - mean), 0, None) / np.maximum(pulls, 1))
        for chosen, colour, label in (
            (~playing & (pulls > 0), "#c9ced6", "dropped"),
            (playing & (pulls > 0), "#2a6f4e", "in play"),
        ):
            if chosen.any():
                axes.errorbar(
                    arms[chosen],
                    mean[chosen],
                    spread[chosen],
                    fmt="o",
                    ms=4,
                    color=colour,
                    label=f"{label} ({chosen.sum()})",
                )
        axes.plot(arms, s.quality[i].mean(0), "_", ms=8, color="#e0a526", label="true mean")
        axes.set_xlabel("arm")
        axes.set_ylabel("mean over agents, two standard errors")
        axes.set_ylim(-0.05, 1.05)
        axes.set_title(
            f"slot {s.time[i]} of {self.params.horizon}, {self.phase(i)}, after {s.rounds[i]} rounds\n"
            f"regret {regret(s)[i]:.1f}, cost of links {self.cost(s)[1][i]:g}"
        )
        axes.legend(loc="lower right", frameon=False)
        axes.spines[["top", "right"]].set_visible(False)


def regret(state: State) -> Array:
    """Equation 1 with means in place of rewards: sum over agents and slots of mu* - mu_a, float64[B]."""
    return np.asarray((state.counts.sum(1) * gaps(state.quality)).sum(-1))


def local_regret(state: State) -> Array:
    """The same with each agent's own means and best arm, float64[B]."""
    if state.quality.shape[1] == 1:
        return regret(state)
    return np.asarray((state.counts * local_gaps(state.quality)).sum((1, 2)))


def in_play(state: State) -> Array:
    """Arms that agents still play, bool[B, K]: those pulled since the last round, if it left time to pull all it renewed; else these."""
    last, pulled = renewed(state), state.counts.sum(1) > state.mark
    return np.where((state.time - state.since >= last.sum(-1))[:, None], pulled, last)


def identified(state: State) -> Array:
    """Whether a best arm takes nine tenths of the pulls since the last round, or is all that it renewed, bool[B]."""
    best = gaps(state.quality) <= 1e-12
    pulls = state.counts.sum(1) - state.mark
    total = pulls.sum(-1)
    return np.where(total > 0, (pulls * best).sum(-1) >= SURE * total, ~(renewed(state) & ~best).any(-1))


federated_bandit_v0 = World(FederatedBandit, Params)
