"""How much do agents that face the same bandit gain from communication, and what do communication and privacy cost?

Description
    `M` agents face the same `K` Bernoulli arms for `T` slots, and each of them pulls one arm in each slot. Agents share what they have
    learned as means: an upload sends, over the channel `means`, an agent's mean reward of every arm since its last upload (of the arms
    that any agent has pulled since the last round). All uploads of an agent are combined into one mean per arm (equation 6 of Li & Song).
    A communication round averages these means over the agents that uploaded, and all agents learn the average.

    - Server: a round begins and ends in any slot with an upload; agents that do not upload in that slot take no part.
    - Graph: a round begins when all agents have uploaded. Information sharing (GIS, Algorithm 2) then takes `delay` slots.
    - Components with a server (hybrid): as on a graph, but the agents of a component send their means to its sink agent (SAC,
      Algorithm 4), and the sink agents send theirs to the server.

    While a round is under way nobody can upload, and rewards received in that time enter no mean. A step is one slot. Policies that plan
    ahead (`EpochPlan`) are played many slots at once by `Population.fast_forward`, which draws sums of Bernoulli rewards as binomials.

Paper
    Li & Song, Privacy-Preserving Communication-Efficient Federated Multi-Armed Bandits: sections III-VI, Algorithms 1-5. The
    algorithms are the policies `CDPMAB`, `DDPMAB` and `HDPMAB`.

Agents
    `M` agents (`agent_0` ...), acting simultaneously. The server is part of the world: it averages, and broadcasts the result.

Observation
    Box float32. For each arm: `counts` and `means` of the agent's own pulls (0 without any); `private`, the mean over its uploads; and
    `broadcast`, the last round's average (both clipped to [-10, 11], since noise can exceed [0, 1]); `active`, 1 if the last round
    renewed the average (1 before the first round). Then `time` and `time_left` in slots; `rounds` that have ended; `phase_left`, the
    slots until the round under way ends (0 if there is none); and `coverage`, the share of the M agents' means that has reached the
    agent in that round (1 if there is none).

Action
    Discrete(2K): pull arm `a mod K`; if `a >= K`, also upload at the end of the slot. Uploads are masked while a round is under way, and
    for agents that have uploaded and wait for the others to do so; a masked upload is not made.

Reward
    The Bernoulli draw, minus the cost of the links that the agent used in the slot (`server_link_cost` per upload to the server,
    `agent_link_cost` per message to another agent).

Termination
    Never; truncated after `horizon` slots.

Info
    `regret`, the sum over agents and slots of mu* - mu_a, with means over all agents; `local_regret`, with each agent's own means and
    best arm; `cost` of links; `transmissions`, all messages over links (`messages` counts what passed the private channel); of these, by
    kind, `upload`, `adv`, `req`, `data`, `sac`, and `neighbour`, which policies send slot by slot, outside of rounds (their cost is not
    in the reward); `broadcast`, messages from the server; `rounds`; `phase` (0 exploring, 1 communicating); `active_arms`; `last_round`
    [K], the round in which each arm's average was last renewed.

Privacy channels
    `means`, observed by the server (on a graph or hybrid: public); unit: an event, which is one reward. A mean of n rewards is sent with
    its sensitivity, 1/n. Each reward enters one mean only, so that at event level an agent spends over a run what one message costs. This
    holds if who uploads and when, and the numbers of pulls between two uploads, which are public, follow from what was received before,
    as in the paper's algorithms. Policies that declare it (`Policy.public_schedule`) have finite totals; under all others totals are
    infinite. Link costs and rounds follow from the uploads; the pulls of one slot and their rewards are shown to the agent alone. An
    upload after m missed rounds is sent as m + 1 messages, each with noise of its own.

Arguments
    - num_agents: M >= 1.
    - num_arms: K >= 1; None: the number of given `qualities`, otherwise 100.
    - qualities: "uniform" (drawn from [0, 1] at each reset, the same for all agents), "heterogeneous" (drawn for each agent), "grid" (the
      fixed instance of the paper's experiments, mu_k = (k + 0.5) / K), or the means themselves, [K] or [M, K], in [0, 1].
    - shuffle: whether each run permutes the arms of a grid or of listed means, which otherwise stay in their order, so that a learner
      could learn by heart which arm is best.
    - horizon: T, 1 to 2^24 slots.
    - topology: "server"; a graph, as `Graph.of` reads it; or a list of graphs, the components of a hybrid. Agents are numbered component
      by component, whatever the graphs call their nodes; ("ring", 20) is a component of 20 agents.
    - server_link_cost, agent_link_cost: c1 and c2, >= 0.
    - delay: "diameter-1", where the first exchange takes place in the slot of the upload; or "diameter".
    - weighting: of a hybrid's components, "agents" (by size) or "components" (the paper's unweighted mean).

Deviations from the paper
    Logarithms are natural. S(r) is rounded up and grows by at least 1 per round, and C(r) uses the rounded value. N = ceil(pM), and the
    noise has scale 1/(N epsilon n): a message is (N epsilon)-DP, as Theorem 1 says for N = M. Noise is drawn once and kept. An
    epoch runs only if it and its communication end by T; otherwise agents cycle through the active arms to T and upload nothing.
    Averages are over ybar, as in the proof of Theorem 3; line 9 of Algorithm 3 says yhat (`DDPMAB(aggregate="epoch")`). Components of a
    hybrid are weighted by size: the unweighted mean can settle on a wrong arm if components differ in size and agents in their means.
    The delay is diameter - 1 in Algorithm 2, line 4 of Algorithm 4 and the regret of Theorems 3 and 4, but the diameter in line 5 of
    Algorithm 4 and the cost of Theorem 3. While they wait, agents play the arm that is best by their own ybar, with ties broken at
    random. `cost` counts messages sent; `cost_bound` is the paper's bound, every edge in every slot of a round (Theorem 3). A broadcast
    is counted but costs nothing, as in the paper. Epochs limited to R rounds need the true smallest gap. The paper does not state T; the
    default is 10^5.

    Errors in the paper: the agents of case 2 in Table II add up to 110; by the proof of Theorem 4 a round of case 3 costs less than one
    of cases 1 and 2 (Figure 11 needs the bound); epsilon = 1 is not 'non-private'; the privacy term of S(r) never binds at M = 50 and
    epsilon >= 0.1; Remark 2, Corollary 1, equation 22 and Table I (ring) contain algebraic slips; R = 4 equals R = 5 (Figure 6) only if
    the smallest gap is larger than 100 uniform arms have.

Registered configurations
    None in Gymnasium, whose environments have one agent; in PettingZoo `taciturn/FederatedBandit-v0`: M = 50, K = 100, means
    drawn at each reset, the server.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import gymnasium
import numpy as np

from taciturn.envs.core import Acts, Channel, ChannelConfig, Fast, Layout, Population, Role, Transition, World
from taciturn.envs.core.graph import Graph
from taciturn.envs.core.public import Passing
from taciturn.envs.federated_bandit import drawing, model
from taciturn.envs.federated_bandit.fast import AgentKnowledge, EpochPlan, jump
from taciturn.envs.federated_bandit.model import QUALITIES, State, historical_mean, own_copy, regret
from taciturn.envs.federated_bandit.protocol import DELAYS, RoundTraffic, is_hybrid, read_components
from taciturn.validation import MOST_ARMS, MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number

__all__ = ["FederatedBandit", "Params", "federated_bandit_v0"]

WEIGHTINGS = ("agents", "components")
MAX_HORIZON = 2**24  # float32 represents every whole number of slots up to here
MEAN_BOUNDS = (-10.0, 11.0)  # of noisy means in observations


@dataclass(frozen=True, kw_only=True)
class Params:
    """The world's parameters.

    Attributes:
        num_agents, num_arms, qualities, shuffle, horizon, topology, server_link_cost, agent_link_cost, delay, weighting: as in the
            world's docstring; after construction `num_arms` is a number, and given qualities are an array.
        components: the graph, or the components of a hybrid; empty for the server alone.

    Raises:
        ValueError: a parameter is out of range, or a graph is not connected or does not have M agents.
    """

    num_agents: int = 50
    num_arms: int | None = None
    qualities: Any = "uniform"
    shuffle: bool = False
    horizon: int = 100_000
    topology: Any = "server"
    server_link_cost: float = 25.0
    agent_link_cost: float = 1.0
    delay: str = "diameter-1"
    weighting: str = "agents"

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=1, at_most=MOST_NUMBERS)
        if isinstance(self.qualities, str):
            choice("qualities", self.qualities, QUALITIES)
            arms = 100 if self.num_arms is None else integer("num_arms", self.num_arms, at_least=1, at_most=MOST_ARMS)
        else:
            object.__setattr__(self, "qualities", model.read_means(self.qualities, self.num_agents, self.num_arms))
            arms = self.qualities.shape[-1]
        choice("shuffle", self.shuffle, (False, True))
        integer("num_agents * num_arms", self.num_agents * arms, at_least=1, at_most=MOST_NUMBERS)
        object.__setattr__(self, "num_arms", arms)
        integer("horizon", self.horizon, at_least=1, at_most=MAX_HORIZON)
        number("server_link_cost", self.server_link_cost, at_least=0)
        number("agent_link_cost", self.agent_link_cost, at_least=0)
        choice("delay", self.delay, DELAYS)
        choice("weighting", self.weighting, WEIGHTINGS)
        _ = self.components

    @property
    def arms(self) -> int:
        """K."""
        assert self.num_arms is not None
        return self.num_arms

    @property
    def hybrid(self) -> bool:
        """True if the topology has components and a server."""
        return is_hybrid(self.topology)

    @cached_property
    def components(self) -> tuple[Graph, ...]:
        return read_components(self.topology, self.num_agents)


class FederatedBandit(Population[State]):
    __doc__ = __doc__
    name = "federated_bandit"
    params: Params
    hidden = frozenset({"qualities"})
    hidden_state = frozenset({"quality"})
    jumps: Mapping[str, type[Fast]] = {"agent": EpochPlan}
    jump_sends_messages = True
    agents_decide: ClassVar[bool] = True  # when to upload
    passes: Mapping[str, Passing] = {"neighbour_exchange": Passing(lambda x, live: x, to="all")}

    def __init__(self, params: Params, num_envs: int = 1) -> None:
        super().__init__(params, num_envs)
        agents, arms = params.num_agents, params.arms
        self.traffic = RoundTraffic(params.components, params.hybrid, agents, params.delay)
        self.neighbour_messages: Ints = np.zeros(self.num_envs, np.int64)
        # Where a replica's and an agent's arms begin in a flattened array.
        self._replica = np.arange(self.num_envs)[:, None] * arms
        self._agent = np.arange(self.num_envs * agents).reshape(self.num_envs, agents) * arms

    def practice_params(self) -> Params:
        """A fixed instance is permuted: who learns the number of the best arm by heart gains nothing by it."""
        return replace(self.params, shuffle=True)

    def make_roles(self) -> tuple[Role, ...]:
        arms, longest = self.params.arms, float(self.params.horizon)
        layout = Layout(
            counts=(arms, 0, longest), means=(arms, 0, 1), private=(arms, *MEAN_BOUNDS), broadcast=(arms, *MEAN_BOUNDS),
            active=(arms, 0, 1), time=(1, 0, longest), time_left=(1, 0, longest), rounds=(1, 0, longest),
            phase_left=(1, 0, longest), coverage=(1, 0, 1),
        )  # fmt: skip
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(2 * arms)),)

    def make_channels(self) -> tuple[Channel, ...]:
        observer: Any = "public" if self.params.components else "server"
        senders: Any = {"sender": "agent", "num_senders": self.params.num_agents}
        senders["agents_decide"] = self.agents_decide
        return (Channel("means", "vector", observer=observer, unit="event", disjoint=True, **senders),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        law = config.mechanism
        if law is not None and (law.stateful or law.kind not in ("none", "laplace", "gaussian")):
            raise ValueError(
                f"channel {channel!r} carries means, which need additive noise without memory, not {law!r}"
            )

    def public(self) -> dict[str, Any]:
        """`delay`, the slots for which agents wait for a round's result; `neighbour_exchange`, by which agents on a graph send vectors."""
        return {"delay": self.traffic.delay, "neighbour_exchange": self.neighbour_exchange}

    def initial(self) -> State:
        p, size = self.params, self.num_envs
        agents, arms = p.num_agents, p.arms
        self.neighbour_messages = np.where(self.channels["means"].live, 0, self.neighbour_messages)
        whole = np.zeros((size, agents, arms), np.int64)
        real = np.zeros((size, agents, arms))
        none = np.zeros(size, np.int64)
        return State(
            quality=model.draw_quality(p.qualities, (size, agents, arms), self.stream("qualities"), p.shuffle),
            counts=whole, sums=whole, used_counts=whole, used_sums=whole, weight=real, private=real,
            missed_rounds=whole[:, :, 0], uploaded=np.zeros((size, agents), np.bool_), reported=whole > 0,
            broadcast=np.zeros((size, arms)), last_round=np.zeros((size, arms), np.int64),
            counts_at_round=np.zeros((size, arms), np.int64),
            time=none, round_time=none, rounds=none, phase_left=none, uploads=none,
        )  # fmt: skip

    # Pulls and rounds. These methods write into the arrays of a state that their caller has copied.

    def pull(self, state: State, arms: Ints) -> Bools:
        """Every agent pulls once, `arms` int64[B, M]; returns the rewards, bool[B, M]."""
        at = self._agent + arms
        alike = state.quality.shape[1] == 1
        mu = state.quality.reshape(-1)[self._replica + arms if alike else at]
        drawn = self.private(self.stream("rewards").random(arms.shape) < mu)
        state.counts.reshape(-1)[at] += 1
        state.sums.reshape(-1)[at] += drawn
        if np.count_nonzero(state.phase_left):
            waiting = state.phase_left[:, None] > 0
            state.used_counts.reshape(-1)[at] += waiting
            state.used_sums.reshape(-1)[at] += drawn & waiting
        return np.asarray(drawn)

    def pull_many(self, state: State, pulls: Ints) -> None:
        """Every agent pulls many times, `pulls` int64[B, M, K]: a sum of n Bernoulli(mu) rewards is Binomial(n, mu)."""
        # Agents last: neighbouring entries then have equal n and mu, for which NumPy need not set up its sampler again.
        n = np.ascontiguousarray(pulls.transpose(0, 2, 1))
        mu = self.private(np.broadcast_to(state.quality, pulls.shape)).transpose(0, 2, 1)
        drawn = self.stream("rewards").binomial(n, mu).transpose(0, 2, 1)
        state.counts[:] += pulls
        state.sums[:] += drawn
        waiting = np.flatnonzero(state.phase_left > 0)
        if waiting.size:
            state.used_counts[waiting] += pulls[waiting]
            state.used_sums[waiting] += drawn[waiting]

    def communicate(self, state: State, asks: Bools, slots: Ints) -> Floats:
        """Send uploads and messages at the end of `slots` int64[B] slots; returns the cost of each agent's links, float64[B, M].

        Args:
            state: is changed in place.
            asks: agents that upload, bool[B, M]; all of them may (`may_upload`).
            slots: played since the last call; these do not extend beyond the end of a round under way.
        """
        p, traffic = self.params, self.traffic
        before, under_way = traffic.elapsed(state.phase_left), state.phase_left > 0
        state.phase_left[:] -= np.where(under_way, slots, 0)
        ends = under_way & (state.phase_left == 0)
        cost = np.zeros(asks.shape)
        if asks.any():
            self.upload(state, asks)
            starts = state.uploaded.all(1) & asks.any(1) if p.components else asks.any(1)
            state.phase_left[:] = np.where(starts, traffic.delay, state.phase_left)
            ends |= starts & (traffic.delay == 0)
            if not p.components:
                state.uploads[:] += asks.sum(1)
                cost += p.server_link_cost * asks
            under_way = under_way | starts
        if traffic.slots and under_way.any():
            after = np.where(ends, traffic.slots, traffic.elapsed(state.phase_left))
            sent = traffic.by_agent[after] - traffic.by_agent[before]
            cost += p.agent_link_cost * np.where(under_way[:, None], sent, 0)
        if ends.any():
            self.end_round(state, ends)
            if p.hybrid:
                state.uploads[:] += ends * len(traffic.sinks)
                cost[:, traffic.sinks] += p.server_link_cost * ends[:, None]
        return cost

    def upload(self, state: State, asks: Bools) -> None:
        """The agents in `asks` bool[B, M] send the means of their pulls since their last upload (Algorithm 1, lines 8-11).

        They report the arms that any agent has pulled since the last round, which are the active ones. After m missed rounds, an agent's
        pulls are divided evenly among m + 1 messages, each with the noise of one epoch.
        """
        current = (state.counts.sum(1) > state.counts_at_round)[:, None]
        pulls, rewards = (state.counts - state.used_counts) * current, (state.sums - state.used_sums) * current
        parts = state.missed_rounds + 1
        share = pulls / parts[:, :, None]
        mean, sensitivity = rewards / np.maximum(pulls, 1), model.mean_sensitivity(share)
        # At user level, a message costs as much as all its rewards: charge for the longest of these messages.
        events = max(1, math.ceil(share.sum(2)[asks].max()))
        for part in range(int(parts[asks].max())):
            sending = asks & (parts > part)
            received, delivered = self.channels["means"].send(mean, sending, sensitivity, events=events)
            received_pulls = np.where(delivered[:, :, None], share, 0.0)
            state.private[:] = historical_mean(state.private, state.weight, received, received_pulls)
            state.weight[:] += received_pulls
            state.reported[:] |= received_pulls > 0
        state.used_counts[asks] = state.counts[asks]
        state.used_sums[asks] = state.sums[asks]
        state.missed_rounds[asks] = 0
        state.uploaded[:] |= asks

    def end_round(self, state: State, ends: Bools) -> None:
        """All agents learn the average over those that uploaded, in the replicas `ends` bool[B]."""
        p = self.params
        group = self.traffic.group if p.hybrid and p.weighting == "components" else None
        mean, known = model.average(state.private, state.reported & ends[:, None, None], group)
        new = known > 0
        state.rounds[:] += ends
        state.broadcast[:] = np.where(new, mean, state.broadcast)
        state.last_round[:] = np.where(new, state.rounds[:, None], state.last_round)
        state.missed_rounds[:] += ends[:, None] & ~state.uploaded
        state.uploaded[ends] = False
        state.reported[ends] = False
        state.counts_at_round[:] = np.where(ends[:, None], state.counts.sum(1), state.counts_at_round)
        state.round_time[:] = np.where(ends, state.time, state.round_time)

    def neighbour_exchange(self, x: Floats, live: Bools) -> tuple[Floats, Bools]:
        """Every agent sends its row of `x` float64[B, M, P] to all its neighbours, in the replicas `live` bool[B].

        Each link carries a message in both directions, counted as `neighbour` until the next reset.

        Returns:
            (x as received, float64[B, M, P]; agents whose message was delivered, bool[B, M]).
        """
        links = sum(2 * graph.num_edges for graph in self.params.components)
        self.neighbour_messages = self.neighbour_messages + np.where(live, links, 0)
        senders = None if live.all() else np.broadcast_to(live[:, None], x.shape[:2])
        return self.channels["means"].send(x, senders, 1.0)

    def may_upload(self, state: State) -> Bools:
        """Agents that can upload now, bool[B, M]."""
        return np.asarray((state.phase_left == 0)[:, None] & ~state.uploaded)

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:
        arms = self.params.arms
        action = actions["agent"]
        asks = (action >= arms) & self.may_upload(state)
        new = own_copy(state, communicates=bool(asks.any() or (state.phase_left > 0).any()))
        drawn = self.pull(new, action % arms)
        new.time[:] += 1
        reward = drawn - self.communicate(new, asks, np.ones(self.num_envs, np.int64))
        nobody = np.zeros(self.num_envs, np.bool_)
        info = partial(self.inform, new, self.neighbour_messages)
        return new, {"agent": reward}, nobody, new.time >= self.params.horizon, info

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        self._state = jump(self, forms["agent"].plan, policies["agent"], until)
        over = (self._state.time >= self.params.horizon) | self.channels["means"].stopped
        self.truncated = self.truncated | over

    # Observations and measures.

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        layout, knowledge = self.roles[role].layout, AgentKnowledge(state, self.params.horizon, self.traffic)
        return layout.pack(**{name: getattr(knowledge, name) for name in layout.fields})

    def action_mask(self, role: str) -> Array:
        state, arms = self.state, self.params.arms
        mask = np.ones((*state.uploaded.shape, 2 * arms), np.int8)
        mask[:, :, arms:] = self.may_upload(state)[:, :, None]
        return mask

    def transmissions(self, state: State, neighbour: Ints | None = None) -> dict[str, Ints]:
        """Messages over links so far by kind, int64[B] each; `neighbour` of that kind (None: those until now)."""
        receivers = self.params.num_agents if self.params.hybrid or not self.params.components else 0
        server = {"upload": state.uploads.copy(), "broadcast": state.rounds * receivers}
        elapsed = self.traffic.elapsed(state.phase_left)
        rounds = {kind: state.rounds * total[-1] + total[elapsed] for kind, total in self.traffic.sent.items()}
        return server | {"neighbour": self.neighbour_messages if neighbour is None else neighbour} | rounds

    def cost(self, state: State, kinds: dict[str, Ints] | None = None) -> tuple[Ints, Floats]:
        """(Messages over links but for broadcasts, int64[B]; their cost by equation 2 of Li & Song, float64[B]); `kinds` are the
        `transmissions` so far."""
        p, kinds = self.params, self.transmissions(state) if kinds is None else kinds
        between = sum(count for kind, count in kinds.items() if kind not in ("upload", "broadcast"))
        cost = model.communication_cost(state.uploads, np.asarray(between), p.server_link_cost, p.agent_link_cost)
        return state.uploads + between, cost

    def cost_bound(self, state: State) -> Floats:
        """The cost by the paper's bound, every edge in every slot of a round (Theorem 3), float64[B]."""
        p = self.params
        return model.communication_cost(
            state.uploads, state.rounds, p.server_link_cost, p.agent_link_cost * self.traffic.bound
        )

    def playing(self, state: State) -> Bools:
        """Arms that are still played, bool[B, K]."""
        return model.in_play(state)

    def empty_info(self) -> dict[str, Any]:
        kinds = ("upload", "broadcast", "neighbour", *self.traffic.sent)
        counts = ("transmissions", *kinds, "rounds", "phase", "active_arms")
        reals = dict.fromkeys(("regret", "local_regret", "cost"), 0.0)
        return reals | dict.fromkeys(counts, 0) | {"last_round": np.zeros(self.params.arms, np.int64)}

    def inform(self, state: State, neighbour: Ints) -> dict[str, Any]:
        """The info of a step after which the state is `state`, and `neighbour` int64[B] messages have gone to neighbours."""
        kinds = self.transmissions(state, neighbour)
        transmissions, cost = self.cost(state, kinds)
        return {
            "regret": regret(state), "local_regret": model.local_regret(state), "cost": cost, "transmissions": transmissions,
            **kinds, "rounds": state.rounds, "phase": (state.phase_left > 0).astype(np.int64),
            "active_arms": self.playing(state).sum(-1), "last_round": state.last_round,
        }  # fmt: skip

    def measures(self) -> dict[str, Callable[[], Array]]:
        s, agents = self.state, self.params.num_agents
        return {
            "regret": lambda: regret(s), "regret_per_agent": lambda: regret(s) / agents,
            "local_regret": lambda: model.local_regret(s), "reward": lambda: s.sums.sum((1, 2)).astype(np.float64),
            "cost": lambda: self.cost(s)[1], "cost_bound": lambda: self.cost_bound(s),
            "transmissions": lambda: self.cost(s)[0], "rounds": lambda: s.rounds,
            "active_arms": lambda: self.playing(s).sum(-1), "identified": lambda: model.identified(s),
            "wrong_option": lambda: model.wrong_option(s),
        }  # fmt: skip

    def outcome(self) -> dict[str, Array]:
        """All measures, and the transmissions by kind.

        `identified` is 1 if best arms have nine tenths of the pulls since the last round (without a round, since the start);
        `wrong_option` is 1 if the arm with the most of these pulls is not a best one; `active_arms` is the number of arms that are still
        played.
        """
        values = {name: value() for name, value in self.measures().items()} | self.transmissions(self.state)
        return {name: np.asarray(value, np.float64) for name, value in values.items()}

    describe, draw = drawing.describe, drawing.draw


federated_bandit_v0 = World(FederatedBandit, Params)
