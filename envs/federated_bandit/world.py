"""How much do agents with the same bandit gain from communication, and at what cost in messages and privacy?

Description
    `M` agents face the same `K` Bernoulli arms for `T` slots, and each of them pulls one arm in each slot. Agents share
    their knowledge as means: an upload sends, over the channel `means`, an agent's mean reward since its last upload,
    for every arm that any agent has pulled since the last round. For each agent and arm, the receiver combines all
    uploads so far into one mean (equation 6 of Li & Song). A communication round averages these combined means over the
    agents that uploaded, and all agents learn the average.

    - Server: each slot with an upload is a complete round; agents that do not upload in that slot take no part.
    - Graph: a round begins when all agents have uploaded. Information sharing (GIS, Algorithm 2) then takes `delay`
      slots.
    - Components with a server (hybrid): as on a graph, but the agents of a component send their means to its sink agent
      (SAC, Algorithm 4), and the sink agents send theirs to the server.

    During a round no agent can upload, and rewards received in that time enter no mean. A step is one slot. For
    policies that plan ahead (`EpochPlan`), one call of `Population.fast_forward` plays many slots and draws sums of
    Bernoulli rewards as binomials.

Paper
    Li & Song, Privacy-Preserving Communication-Efficient Federated Multi-Armed Bandits: sections III-VI, Algorithms
    1-5. The algorithms are the policies `CDPMAB`, `DDPMAB` and `HDPMAB`.

Agents
    `M` agents (`agent_0` ...), acting simultaneously. The server is part of the environment: it averages, and
    broadcasts the result.

Observation
    Box float32. For each arm: `counts` and `means` of the agent's own pulls (0 without any); `private`, the mean over
    its uploads; and `broadcast`, the last round's average (both clipped to [-10, 11], since noise can exceed [0, 1]);
    `active`, 1 if the last round renewed the average (1 before the first round). Then `time` and `time_left` in slots;
    `rounds` that have ended; `phase_left`, the slots until the current round ends (0 if there is none); and `coverage`,
    the share of the M agents' means that has reached the agent in that round (1 if there is none).

Action
    Discrete(2K): pull arm `a mod K`; if `a >= K`, also upload at the end of the slot. Uploads are masked during a
    round, and for agents that have uploaded and wait for the others; a masked upload is not made.

Reward
    The Bernoulli draw, minus the cost of the links that the agent used in the slot (`server_link_cost` per upload to
    the server, `agent_link_cost` per message to another agent).

Termination
    Never; truncated after `horizon` slots.

Info
    `regret`, the sum over agents and slots of mu* - mu_a, where means are averages over all agents; `local_regret`, the
    same with each agent's own means and best arm; `cost` of links; `transmissions`, all messages over links (`messages`
    counts those on the private channel), and by kind `upload`, `adv`, `req`, `data`, `sac` and `neighbour`; messages of
    this last kind are sent by policies outside of rounds, and their cost is not in the reward; `broadcast`, messages
    from the server; `rounds`; `phase` (0 exploring, 1 communicating); `active_arms`; `last_round` [K], the round in
    which each arm's average was last renewed.

Privacy channels
    `means`, observed by the server (on a graph or hybrid: public); unit: an event, which is one reward. A mean of n
    rewards is sent with its sensitivity, 1/n. Each reward enters one mean only, so at event level an agent spends no
    more epsilon in a whole run than for one message. This holds if the public schedule (who uploads, when, and after
    how many pulls) follows from earlier received messages, as in the paper's algorithms. Epsilon is finite under
    policies that declare this (`Policy.public_schedule`), and infinite under all others. Link costs and rounds follow
    from the uploads; an agent's pulls and rewards of a slot are visible to that agent alone. An upload after m missed
    rounds is sent as m + 1 messages of the same mean, each with independent noise, and spends m + 1 times the epsilon
    of one message.

    `exchange`, on a graph or hybrid; observed by neighbours; unit: a user, because all of its rewards may enter every
    message. Policies send any numbers there, outside of rounds (`neighbour_exchange`). The effect of a reward on them
    is unbounded, so no mechanism fits, and after such a message epsilon is infinite.

Arguments
    - num_agents: M >= 1.
    - num_arms: K >= 1; None: the number of given `qualities`, otherwise 100.
    - qualities: "uniform" (drawn from [0, 1] at each reset, the same for all agents), "heterogeneous" (drawn for each
      agent), "grid" (the fixed instance of the paper's experiments, mu_k = (k + 0.5) / K), or the means themselves, [K]
      or [M, K], in [0, 1].
    - shuffle: whether each run permutes the arms of a grid or of listed means. If not, a learner could memorise the
      best arm.
    - horizon: T, 1 to 2^24 slots.
    - topology: "server"; a graph, as `Graph.of` reads it; or a list of graphs, the components of a hybrid. Agents are
      numbered component by component, whatever the node names in the graphs; ("ring", 20) is a component of 20 agents.
    - server_link_cost, agent_link_cost: c1 and c2, >= 0.
    - delay: "diameter-1" (the first exchange takes place in the slot of the upload) or "diameter".
    - weighting: weights in an average: "agents" (all agents equal), "components" (all components of a hybrid equal, as
      in the paper), or "pulls": an upload is weighted by the number of pulls behind each mean; it carries this number,
      which every agent sees anyhow.
    - message_levels: the mechanism sets the epsilon of messages ("installed"), or each agent chooses it before each
      turn by a separate action, in an additional role `communicator` ("chosen"; `taciturn.envs.core.LevelChoice`).
    - levels: the epsilons to choose from, of which the first is 0; with "chosen" only.
    - epsilon_budget: privacy budget of an agent for a run (None: unlimited); with "chosen" only.

Deviations from the paper
    Logarithms are natural. The pulls per arm S(r) are rounded up and grow by at least 1 per round, and the confidence
    radius C(r) uses the rounded value. N = ceil(pM) agents upload (a share p of all), and the noise has scale 1/(N
    epsilon n): a message is (N epsilon)-DP, as Theorem 1 says for N = M. The noise of an upload is drawn once and stays
    in later averages of it. An epoch runs only if it and its communication end by T; otherwise agents cycle through the
    active arms to T and upload nothing. Averages are over ybar, the mean of all uploads, as in the proof of Theorem 3;
    `DDPMAB(aggregate="epoch")` averages yhat, the last upload, as in line 9 of Algorithm 3. Components of a hybrid are
    weighted by size: the unweighted mean can settle on a wrong arm if components have different sizes and agents have
    different means. The delay is diameter - 1 in Algorithm 2, line 4 of Algorithm 4 and the regret of Theorems 3 and 4,
    but the diameter in line 5 of Algorithm 4 and the cost of Theorem 3. While they wait, agents play the arm that is
    best by their own ybar, with ties broken at random. `cost` counts messages sent; `cost_bound` is the paper's bound,
    every edge in every slot of a round (Theorem 3). A broadcast is counted but costs nothing, as in the paper. An
    algorithm that is limited to R rounds must know the true smallest gap. The paper does not state T, though its
    'log(T) = 4' (section VII-A2) implies 10^4 and a common logarithm; the default is 10^5.

    Errors in the paper: the agents of case 2 in Table II add up to 110; by the proof of Theorem 4 a round costs less in
    case 3 than in cases 1 and 2, and Figure 11 shows this only because its costs are the bound of Theorem 3; epsilon =
    1 is 'the non-private case' for the regret, but messages are M epsilon-DP; Remark 2, Corollary 1, equation 22 and
    Table I (lambda_2 of the Laplacian) contain algebraic slips; R = 4 and R = 5 give the same results (Figure 6) only
    if the smallest gap is larger than for 100 uniform arms.

Registered configurations
    None in Gymnasium, which has single-agent environments only; in PettingZoo `taciturn/FederatedBandit-v0`: M = 50, K
    = 100, means drawn at each reset, topology "server".

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import numpy as np

from taciturn.envs.core import (
    Acts,
    Channel,
    ChannelConfig,
    Fast,
    Functions,
    Layout,
    LevelChoiceParams,
    MessageSpec,
    Replicas,
    Role,
    World,
)
from taciturn.envs.core.public import Passing
from taciturn.envs.core.qualities import QualityDistribution
from taciturn.envs.federated_bandit import drawing, federation, model
from taciturn.envs.federated_bandit.fast import EpochPlan, jump
from taciturn.envs.federated_bandit.federation import KINDS, SOURCES, listen
from taciturn.envs.federated_bandit.model import QUALITIES, State, communication_cost
from taciturn.envs.federated_bandit.protocol import DELAYS, RoundTraffic, is_hybrid, read_components
from taciturn.graph import Graph
from taciturn.privacy.mechanisms import Laplace
from taciturn.validation import MOST_ARMS, MOST_NUMBERS, Array, Bools, Floats, choice, integer, number

WEIGHTINGS = ("agents", "components", "pulls")
MAX_HORIZON = 2**24  # float32 represents every whole number of slots up to here
MEAN_BOUNDS = (-10.0, 11.0)  # of noisy means in observations


@dataclass(frozen=True, kw_only=True)
class Params(LevelChoiceParams):
    """See 'Arguments' above. After construction `num_arms` is a number, and given qualities are an array.

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
        self.check_level_choice()
        _ = self.components

    @property
    def arms(self) -> int:
        """K."""
        assert self.num_arms is not None
        return self.num_arms

    @property
    def distribution(self) -> QualityDistribution:
        """The distribution of the arms' means in a run."""
        return model.distribution_of_means(self.qualities, self.num_agents, self.arms, self.shuffle)

    @property
    def hybrid(self) -> bool:
        """True if the topology has components and a server."""
        return is_hybrid(self.topology)

    @cached_property
    def components(self) -> tuple[Graph, ...]:
        """The graph, or the components of a hybrid; empty for the server alone."""
        return read_components(self.topology, self.num_agents)


class FederatedBandit(Replicas[State]):
    __doc__ = __doc__
    name = "federated_bandit"
    params: Params
    hidden = frozenset({"qualities", "distribution"})
    jumps: Mapping[str, type[Fast]] = {"agent": EpochPlan}
    jump_sends_messages = True
    agents_decide: ClassVar[bool] = True  # agents decide when to upload
    passes: Mapping[str, Passing] = {"neighbour_exchange": Passing(lambda x, live: x, to="all")}
    state_type: ClassVar[Any] = State
    sources = SOURCES
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {"means": ("", "sent_messages")}
    functions = Functions(
        reset=federation.begin,
        act=federation.slot,
        receive=federation.end_slot,
        observe=federation.observe,
        info=federation.fill_info,
    )

    @cached_property
    def traffic(self) -> RoundTraffic:
        """The messages of a round."""
        p = self.params
        return RoundTraffic(p.components, p.hybrid, p.num_agents, p.delay)

    def practice_params(self) -> Params:
        """Parameters with permuted arms, so memorising the index of the best arm does not help."""
        return replace(self.params, shuffle=True)

    def make_roles(self) -> tuple[Role, ...]:
        arms, longest = self.params.arms, float(self.params.horizon)
        layout = Layout(
            counts=(arms, 0, longest),
            means=(arms, 0, 1),
            private=(arms, *MEAN_BOUNDS),
            broadcast=(arms, *MEAN_BOUNDS),
            active=(arms, 0, 1),
            time=(1, 0, longest),
            time_left=(1, 0, longest),
            rounds=(1, 0, longest),
            phase_left=(1, 0, longest),
            coverage=(1, 0, 1),
        )
        return (Role("agent", self.params.num_agents, layout, gymnasium.spaces.Discrete(2 * arms)),)

    def make_channels(self) -> tuple[Channel, ...]:
        observer: Any = "public" if self.params.components else "server"
        senders: Any = {"sender": "agent", "num_senders": self.params.num_agents}
        senders["agents_decide"] = self.agents_decide
        kind: Any = {"unit": "event", "disjoint": True, "additive": True, "averaged": not self.params.components}
        means = Channel("means", "vector", observer=observer, **kind, **senders)
        if not self.params.components:
            return (means,)
        return means, Channel("exchange", "vector", observer="neighbour", unit="user", **senders)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        if channel == "exchange" and config.mechanism is not None and config.mechanism.kind != "none":
            raise ValueError(
                "mechanism on channel 'exchange' must be NoPrivacy, because its messages are unbounded, not "
                f"{config.mechanism!r}"
            )

    def message_spec(self) -> MessageSpec:
        return MessageSpec("means", Laplace, False, self.params.arms, *MEAN_BOUNDS)

    def public(self) -> dict[str, Any]:
        """`delay`, the slots that agents wait for a round's result; `neighbour_exchange`, which sends vectors between
        neighbours on a graph."""
        return {"delay": self.traffic.delay, "neighbour_exchange": self.neighbour_exchange}

    def constants(self) -> Any:
        p, t = self.params, self.traffic
        by_component = p.hybrid and p.weighting == "components"
        return self.numbers(
            distribution=p.distribution,
            server_price=float(p.server_link_cost),
            link_price=float(p.agent_link_cost),
            graph=bool(p.components),  # whether agents share means over links: on a graph or in components
            receivers=p.num_agents if p.hybrid or not p.components else 0,  # of the server's broadcasts
            delay=t.delay,
            slots=t.slots,
            sent=np.stack([t.sent[kind] for kind in KINDS]),  # [4, slots + 1]
            by_agent=t.by_agent,
            coverage=t.coverage,
            sinks=t.sinks,
            # [M]: components of the agents, if each component has equal weight; otherwise all 0
            group=t.group if by_component else np.zeros(p.num_agents, np.int64),
            by_pulls=p.weighting == "pulls",
            plain=self.plain,
        )

    def arrays(self) -> dict[str, Any]:
        unused: dict[str, Any] = {"sent_messages": 0}
        if self.plain:
            unused = dict.fromkeys(("mean", "share", "received_means"), (0, 0)) | {"delivered": 0}
        mask = np.ones((self.params.num_agents, 2 * self.params.arms), np.int8)
        return super().arrays() | unused | {"mask": mask}

    def between(self, live: Bools) -> None:
        """Send the agents' reports through the channel, message by message."""
        asks, parts = self.column("asks") & live[:, None], self.column("missed_rounds") + 1
        if not asks.any():
            return
        share = self.column("share")
        sensitivity = model.mean_sensitivity(share)
        # At user level, a message costs as much as all its rewards: charge for the message with the most.
        events = max(1, math.ceil(share.sum(2)[asks].max()))
        for part in range(int(parts[asks].max())):
            says = asks & (parts > part)
            sent: Any = {"senders": says, "sensitivity": sensitivity, "events": events, "weights": share}
            self.column("delivered")[live] = self.deliver("means", "mean", "received_means", live, **sent)[live]
            self.play_on(listen, live)

    def play_on(self, function: Any, live: Bools) -> None:
        """Call a function for a federation in the replicas `live` bool[B]."""
        self.apply(function, live, self._constants, self._effort)

    def neighbour_exchange(self, x: Floats, live: Bools) -> tuple[Floats, Bools]:
        """Every agent sends its row of `x` float64[B, M, P] to all its neighbours, in the replicas `live` bool[B].

        Each link carries a message in both directions, counted as `neighbour` until the next reset. The messages use
        the channel `exchange`.

        Returns:
            (x as received, float64[B, M, P]; agents with a delivered message, bool[B, M]).
        """
        self.column("neighbour")[live] += sum(2 * graph.num_edges for graph in self.params.components)
        self._moved()
        senders = None if live.all() else np.broadcast_to(live[:, None], x.shape[:2])
        return self.channels["exchange"].send(x, senders)

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        jump(self, forms["agent"].plan, policies["agent"], until)
        self.channels["means"].times += 1
        over = (self.column("time") >= self.params.horizon) | self.channels["means"].stopped
        self.truncated = self.truncated | over

    # Observations and measures.

    def clock(self) -> Array:
        self._require_reset()
        return self.column("time").astype(np.float64)

    def action_mask(self, role: str) -> Array | None:
        return self.column("mask").copy()

    def empty_info(self) -> dict[str, Any]:
        counts = ("transmissions", "upload", "broadcast", "neighbour", *KINDS, "rounds", "phase", "active_arms")
        reals = dict.fromkeys(("regret", "local_regret", "cost"), 0.0)
        return reals | dict.fromkeys(counts, 0) | {"last_round": np.zeros(self.params.arms, np.int64)}

    def cost_bound(self) -> Floats:
        """The cost by the paper's bound, every edge in every slot of a round (Theorem 3), float64[B]."""
        p, bound = self.params, self.column("rounds") * self.traffic.bound
        result: Floats = communication_cost(self.column("uploads"), bound, p.server_link_cost, p.agent_link_cost)
        return result

    def measures(self) -> dict[str, Callable[[], Array]]:
        current_info = ("regret", "local_regret", "cost", "transmissions", "rounds", "active_arms")
        return {name: lambda name=name: self.current_info()[name] for name in current_info} | {
            "regret_per_agent": lambda: self.current_info()["regret"] / self.params.num_agents,
            "reward": lambda: self.column("sums").sum((1, 2)).astype(np.float64),
            "cost_bound": self.cost_bound,
            "identified": lambda: model.identified(self.state),
            "wrong_option": lambda: model.wrong_option(self.state),
        }

    def outcome(self) -> dict[str, Array]:
        """All measures, and the transmissions by kind.

        `identified` is 1 if the best arms have nine tenths of the pulls since the last round (without a round, since
        the start); `wrong_option` is 1 if a suboptimal arm has the most of these pulls; `active_arms` is the number of
        arms that are still played.
        """
        current_info = self.current_info()
        kinds = {kind: current_info[kind] for kind in ("upload", "broadcast", "neighbour", *KINDS)}
        values = {name: value() for name, value in self.measures().items()} | kinds
        return {name: np.asarray(value, np.float64) for name, value in values.items()}

    describe, draw = drawing.describe, drawing.draw


federated_bandit_v0 = World(FederatedBandit, Params)
