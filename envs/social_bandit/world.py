"""Can agents that remember only a preference learn the best option from one another's noisy preferences?

Description
    `N` agents on a graph choose among `K` options in rounds. At the start of a round, every agent with a preference
    perturbs its one-hot vector once and sends `T` copies of it on random walks of `L` steps. Agent i receives the `V_i`
    copies that end their walks at i; their bits sum to `B_ij`. It then chooses an option to try, and decides for each
    value of the option's signal (0 or 1) whether to adopt the option. The signal is drawn, and the agent adopts the
    option or is left without a preference.

Paper
    Tao et al. 2023, "A distributed privacy-preserving learning dynamics in general social networks": the four stages of
    section 4, the regret of equation 1, the walks of equation 2. Its infinite-population limit, equation 34, is
    `multiplicative_weights`.

Agents
    N agents, `agent_0 ...`, acting simultaneously.

Observation
    Box float32 `[counts(K), received, own(K), p, q]`: the sums B_i of the copies received, their number V_i, the
    agent's preference one-hot (all 0: none), and the probabilities that the installed mechanism answers 1 if a bit is 1
    (p) or 0 (q). If agents choose the epsilon of their messages, p and q are means over the messages of the round.

Action
    MultiDiscrete([K + 1, 2, 2]): the option to try (K: none), whether to adopt it on signal 0, and whether on signal 1.
    An agent that does not adopt its option has no preference. With `flat_actions`, Discrete(4 (K + 1)), encoded as 4 *
    option + 2 * (adopt on 0) + (adopt on 1).

Reward
    The signal of the option that the agent held when the round began, not of an option that it adopts in this round; 0
    if it held none. A policy's `update` gets the observation before the action as `obs`, so `own` in it is the rewarded
    option.

Termination
    Truncated after `horizon` rounds.

Info
    `regret` (time average so far, equation 1), `signals` ([K]: each option's signal; with `signals="per_agent"` the
    share of agents with signal 1), `adopters` (share of the agents that now hold an option), `hops` (moves of copies
    between agents so far), `slots` (the time slots that the last dissemination took).

Privacy channels
    `preference` (one_hot, to neighbours): before each round, every agent that holds an option sends one message, or one
    per copy under `per_token`. The copies of one message carry the same bits, so more copies have no additional privacy
    cost. A message lost on the channel is lost with all its copies. Nothing bounds the total privacy loss: every round
    in which an agent sends costs it epsilon once more.

    In the paper's form, "silent", agents without a preference send nothing. The mechanism then hides an agent's option,
    but the senders and the number of copies reveal which agents adopted one, so epsilon is infinite. With "zeros" all
    agents send in all rounds. A vector of zeros differs from a one-hot vector in one bit, whereas two one-hot vectors
    differ in two, so the mechanism's epsilon also bounds the privacy loss of such a message. Other agents' observations
    and rewards then depend on an agent only through its messages. `info` is for evaluation and shows hidden truth
    (`adopters`, `regret`).

Arguments
    - num_agents: N >= 3.
    - graph: anything that `taciturn.graph.Graph.of` reads; connected and not bipartite, so long walks
      forget their origin.
    - qualities: eta: "uniform" (drawn from [0, 1] at each reset, independently, as in the paper), "tao2023" (K/(K+1)
      down to 1/(K+1), the means of K ordered uniform draws, since the paper does not state its draws), or K >= 2
      probabilities.
    - num_options: K >= 2; None: the number of listed qualities, otherwise 5.
    - shuffle: whether each run permutes listed or named qualities. If not, a learner could memorise the best option.
    - copies: T >= 1; `copies_of_paper(N)` gives the paper's number.
    - walk_length: L >= 1.
    - dissemination: "walk": every step of every copy is drawn. "stationary": every copy ends at a uniformly random
      agent, the limit of long walks. "aggregated": like "stationary", in a computing time that does not grow with T.
      Without noise it is exact. With noise it preserves all means and covariances of received messages, and ignores
      skewness and higher cumulants; see `taciturn.envs.social_bandit.dissemination.aggregate`.
    - perturbation: "per_round" (one noise for all copies of an agent) or "per_token" (fresh noise for each copy, at T
      times the privacy cost).
    - congestion: in a slot, an agent forwards only the T copies that arrived first; "walk" only.
    - slots: the number of slots after which copies still under way are lost (None: a round lasts until all have
      arrived); with congestion only.
    - exact_below: with "aggregated", if an agent receives at most this many copies on average, they are drawn one by
      one.
    - signals: "shared" (one Phi_j for all agents) or "per_agent".
    - initial_preferences: "even" (agent i holds option i mod K), "random", "none", or the N options (K: none).
    - without_preference: agents without a preference send nothing before a round ("silent", the paper's form) or a
      message that names no option ("zeros").
    - flat_actions: whether the action is Discrete.
    - horizon: number of rounds; `options={"horizon": x}` at reset replaces it.
    - message_levels: the mechanism sets the epsilon of messages ("installed"), or each agent chooses it before each
      turn by a separate action, in an additional role `communicator` ("chosen"; `taciturn.envs.core.LevelChoice`).
      "chosen" needs `without_preference="zeros"`.
    - levels: the epsilons to choose from, of which the first is 0; with "chosen" only.
    - epsilon_budget: privacy budget of an agent for a run (None: unlimited); with "chosen" only.

Deviations from the paper
    - If no agent holds an option, the popularities Q^r are 0/0 in the paper; here such a round earns nothing.
    - The paper's regret averages over agents that hold an option, so agents without one cost nothing. The measure
      `popularity_regret`, which the benchmark uses to compare agents, counts all agents, with quality 0 for those
      without an option.
    - `copies` and `walk_length` replace the paper's constants g, h, sigma and L = O(log N). The paper does not say
      which L its simulations used.
    - A step in which a walk stays where it is counts towards L. A round lasts until all copies have arrived, which the
      paper bounds by O(log^2 N) slots with high probability only; copies that arrive in the same slot are queued in
      random order. Queues delay copies but do not change where they end, so `congestion` matters only with `slots`.
    - On a complete graph the end of a walk is drawn from its closed-form distribution, elsewhere step by step.
    - An agent's own copies count if they end with it, as in section 4.2.
    - The initial preferences are even if K divides N, and nearly so otherwise.
    - "aggregated" is the only approximation and is off by default. "stationary" is the exact limit of long
      walks, at any size.
    - The policy decides what the paper leaves to the agents: mu, beta, and what to do if the estimate is empty or all
      zero.

Registered configurations
    `taciturn/SocialBandit-v0` (PettingZoo): 100 agents on a complete graph, 5 options with qualities drawn at each
    reset.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from taciturn.channels.replies import read_distribution
from taciturn.envs.core import (
    ChannelConfig,
    Functions,
    Layout,
    LevelChoiceParams,
    Replicas,
    Role,
    World,
    fields,
    preferences,
    private,
    uniform,
)
from taciturn.envs.core.preferences import InitialPreferences, SocialPopulation, best_options, led_by_wrong
from taciturn.envs.core.qualities import Instances, OptionParams, fill_qualities
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.social_bandit import drawing
from taciturn.envs.social_bandit.dissemination import (
    PREFERENCES,
    QUALITIES,
    SIGNALS,
    SOURCES,
    aggregate,
    mobility,
    queue,
    scratch,
    throw,
    walk,
    walk_complete,
)
from taciturn.envs.social_bandit.paper import copies_of_paper, multiplicative_weights, ordered_means, popularity, regret
from taciturn.graph import Graph
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, shown


@dataclass(frozen=True, kw_only=True)
class Params(OptionParams, LevelChoiceParams):
    """See 'Arguments' above.

    Raises:
        ValueError: a parameter is outside its range, or the graph is not connected or is bipartite.
    """

    named: ClassVar[Instances] = {"tao2023": ordered_means}
    usual_options: ClassVar[int] = 5

    num_agents: int = 100
    graph: Any = "complete"
    copies: int = 50
    walk_length: int = 20
    dissemination: str = "stationary"
    perturbation: str = "per_round"
    congestion: bool = False
    slots: int | None = None
    exact_below: int = 200
    signals: str = "shared"
    initial_preferences: InitialPreferences = "even"
    without_preference: str = preferences.SILENT
    flat_actions: bool = False
    horizon: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        agents = integer("num_agents", self.num_agents, at_least=3, at_most=MOST_NUMBERS)
        rounds = integer("horizon", self.horizon, at_least=1, at_most=2**53)
        integer("walk_length", self.walk_length, at_least=1, at_most=2**31)
        choice("dissemination", self.dissemination, ("walk", "stationary", "aggregated"))
        fresh = choice("perturbation", self.perturbation, ("per_round", "per_token")) == "per_token"
        # All copies of a round are counted, and with fresh noise each is a message.
        integer("copies", self.copies, at_least=1, at_most=2**62 // (agents * (rounds if fresh else 1)))
        choice("congestion", self.congestion, (False, True))
        if self.congestion and self.dissemination != "walk":
            raise ValueError(f"congestion needs dissemination 'walk', not {self.dissemination!r}")
        if self.slots is not None:
            integer("slots", self.slots, at_least=1)
            if not self.congestion:
                raise ValueError(f"slots has no effect without congestion, but it is {shown(self.slots)}: leave it out")
        integer("exact_below", self.exact_below, at_least=0)
        choice("signals", self.signals, ("shared", "per_agent"))
        preferences.check_society(self)
        self.network.require_connected()
        if self.network.bipartite():
            raise ValueError(
                "graph must not be bipartite, because walks would never forget the side they started on: add an edge "
                "within a side"
            )

    @cached_property
    def network(self) -> Graph:
        return Graph.of(self.graph, self.num_agents)


@dataclass(frozen=True)
class State:
    """A society; from outside, each field has a leading axis [B]."""

    qualities: Floats = fields.hidden(lambda p: p.num_options)  # eta
    preference: Ints = fields.own(lambda p: p.num_agents)  # K for none
    holders: Ints = fields.hidden(lambda p: p.num_options)  # D_j, number of agents that hold each option
    # B_ij, the sums of the copies that ended with each agent,
    counts: Ints = fields.received(lambda p: (p.num_agents, p.num_options))
    received: Ints = fields.received(lambda p: p.num_agents)  # and V_i, their number
    read: Floats = fields.public(lambda p: 2)  # means of (p, q) over their messages
    signals: Floats = fields.hidden(lambda p: p.num_options)  # Phi of the last round
    plans: Ints = fields.hidden(lambda p: p.num_agents)  # last round: 4 option + 2 (adopt on 0) + (adopt on 1)
    arrives: Bools = fields.hidden(lambda p: p.num_agents)  # whether the agent's message arrived on the channel
    bits: Array = fields.hidden()  # int8[N, K]: these messages, if the channel has a mechanism or fault
    sent: Ints = fields.hidden()  # [N]: otherwise the number of messages of each agent so far
    total_reward: Floats = fields.hidden()  # sum of Q^{r-1} . Phi^r
    expected_reward: Floats = fields.hidden()  # sum of Q^{r-1} . eta
    held_quality: Floats = fields.hidden()  # sum of the mean of eta over all agents, 0 for those without an option
    regret: Floats = fields.hidden()  # equation 1
    adopters: Floats = fields.hidden()  # share of the agents that hold an option
    hops: Floats = fields.hidden()  # moves of copies between agents
    slots: Ints = fields.public()  # slots used by the last dissemination
    time: Ints = fields.public()  # rounds


# One society, in the form required by `taciturn.envs.core.hooks.Hooks`.


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw the qualities and the first preferences."""
    options, holding = params.num_options, 0
    fill_qualities(arrays.qualities, params.distribution, rng, QUALITIES)
    for i in range(params.num_agents):
        first = int(uniform(rng, PREFERENCES) * options) if params.random else params.first[i]
        arrays.preference[i] = private(i, first)
        if arrays.preference[i] < options:
            arrays.holders[arrays.preference[i]] += 1
            holding += 1
    state.adopters = holding / params.num_agents
    arrays.read[0], arrays.read[1] = params.p, params.q


def plan(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """`adopt` by actions (option, adopt on 0, adopt on 1)."""
    for i in range(params.num_agents):
        arrays.plans[i] = 4 * actions[i, 0] + 2 * actions[i, 1] + actions[i, 2]
    adopt(state, arrays, params, rng)


def flat_plan(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """`adopt` by actions 4 option + 2 (adopt on 0) + (adopt on 1)."""
    for i in range(params.num_agents):
        arrays.plans[i] = actions[i]
    adopt(state, arrays, params, rng)


def adopt(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Stages 3 and 4: draw the signals; agents earn the signal of the option that they hold, and follow their plans."""
    n, options, earned, expected, adopters = params.num_agents, params.num_options, 0.0, 0.0, 0
    for k in range(options):
        expected += arrays.holders[k] * arrays.qualities[k]
        adopters += arrays.holders[k]
        arrays.holders[k] = 0
        arrays.signals[k] = 0.0
        if params.shared and uniform(rng, SIGNALS) < arrays.qualities[k]:
            arrays.signals[k] = n
    for i in range(n):
        held, option = arrays.preference[i], arrays.plans[i] // 4
        own = params.shared and held < options and arrays.signals[held] > 0.0
        tried = params.shared and option < options and arrays.signals[option] > 0.0
        if not params.shared:
            for k in range(options):
                signal = uniform(rng, SIGNALS) < arrays.qualities[k]
                arrays.signals[k] += signal
                own = own or (signal and k == held)
                tried = tried or (signal and k == option)
        arrays.reward[i] = own
        earned += own
        adopts = arrays.plans[i] % 2 if private(i, tried) else arrays.plans[i] // 2 % 2
        arrays.preference[i] = option if adopts == 1 else options
        if arrays.preference[i] < options:
            arrays.holders[arrays.preference[i]] += 1
    state.held_quality += expected / n
    note_round(state, arrays, earned / max(adopters, 1), expected / max(adopters, 1), n)


def note_round(state: Any, arrays: Any, earned: float, expected: float, num_agents: int) -> None:
    """Add up the results of a round in which agents that held an option earned `earned` on average."""
    best, adopters = 0.0, 0
    for k in range(len(arrays.qualities)):
        best = max(best, arrays.qualities[k])
        adopters += arrays.holders[k]
        arrays.signals[k] /= num_agents
    state.total_reward += earned
    state.expected_reward += expected
    state.time += 1
    state.regret = best - state.total_reward / state.time
    state.adopters = adopters / num_agents


def observe(seen: Any, params: Any, out: Any) -> None:
    options = params.num_options
    for k in range(options):
        out[k] = seen.counts[k]
        out[options + 1 + k] = seen.preference == k
    out[options] = seen.received
    out[2 * options + 1], out[2 * options + 2] = seen.read[0], seen.read[1]


class SocialBandit(SocialPopulation[State], Replicas[State]):
    __doc__ = __doc__
    name = "social_bandit"
    params: Params
    hidden = frozenset({"qualities", "quality_distribution", "distribution"})
    state_type: ClassVar[Any] = State
    sources: ClassVar[tuple[str, ...]] = SOURCES
    noise: ClassVar[Mapping[str, str]] = {"noise": "preference"}
    info_fields = ("regret", "adopters", "hops", "slots")
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {"preference": ("", "sent")}
    opens = True

    @property
    def functions(self) -> Functions:
        act = flat_plan if self.params.flat_actions else plan
        return Functions(reset=begin, act=act, receive=self.spread, observe=observe)

    @property
    def spread(self) -> Callable[..., tuple[bool, bool]]:
        """The function that disseminates messages."""
        p = self.params
        if p.dissemination != "walk":
            return throw if p.dissemination == "stationary" else aggregate
        if p.congestion:
            return queue
        return walk_complete if p.network.is_complete else walk

    def make_roles(self) -> tuple[Role, ...]:
        p, options = self.params, self.num_options
        most = float(p.num_agents) * p.copies
        layout = Layout(counts=(options, 0, most), received=(1, 0, most), own=(options, 0, 1), p=(1, 0, 1), q=(1, 0, 1))
        return (Role("agent", p.num_agents, layout, preferences.plan_space(options, p.flat_actions)),)

    @property
    def num_options(self) -> int:
        """K."""
        return self.params.num_options

    def public(self) -> dict[str, Any]:
        """`reply_scale`, the divisor of `counts` and `received` in observations, and `reply_distribution`, (p, q)."""
        return {"reply_scale": 1, "reply_distribution": self.reply_distribution}

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        super().check_channel(channel, config)
        mechanism = config.mechanism
        closed = mechanism is None or (mechanism.closed_counts and not mechanism.stateful)
        plain = closed and not config.faults and config.budget is None
        if self.params.perturbation == "per_token" and not plain:
            raise ValueError(
                "perturbation 'per_token' needs a mechanism with perturb_counts that remembers nothing, and no fault "
                "or budget, on channel "
                f"{channel!r}, not {config!r}"
            )

    @property
    def fresh(self) -> bool:
        """Whether each copy is a separate message."""
        return self.params.perturbation == "per_token"

    def constants(self) -> Any:
        p, (one, zero), graph = self.params, self.reply_distribution, self.params.network
        walks = p.dissemination == "walk" and not graph.is_complete
        nothing = np.zeros(0, np.int64)
        return self.numbers(
            slot_limit=2**62 if p.slots is None else p.slots,
            distribution=p.quality_distribution,
            # [N]: the preferences at the start, K for none; unused if `random`
            first=preferences.given_options(p.initial_preferences, p.num_agents, p.num_options),
            random=isinstance(p.initial_preferences, str) and p.initial_preferences == "random",
            zeros=self.zeros,
            shared=p.signals == "shared",
            plain=not self.splits(),
            one_hot=self.fresh
            or not self.splits(),  # whether copies carry preferences, or bits that passed the channel
            fresh=self.fresh and (one, zero) != (1.0, 0.0),  # whether noise is added to each copy
            tokens=p.copies if self.fresh else 1,  # messages that an agent sends in a round
            # The mean number of moves of an agent's copies, used if moves are not counted.
            moves=0.0 if p.congestion or walks else float(p.copies) * p.walk_length * mobility(graph),
            p=float(one),
            q=float(zero),
            complete=graph.is_complete,
            # The neighbours of agent i begin at index i of `neighbours`; `degrees` has their numbers.
            neighbours=graph.indices if walks else nothing,
            places=graph.indptr if walks else nothing,
            degrees=graph.degrees if walks else nothing,
        )

    def arrays(self) -> dict[str, Any]:
        p = self.params
        bits = np.zeros((p.num_agents if not self._constants.one_hot else 0, p.num_options), np.int8)
        own = {"bits": bits, "sent": p.num_agents if self._constants.plain else 0}
        return super().arrays() | scratch(p) | own

    def draws(self) -> float:
        p = self.params
        each = p.copies * (p.walk_length if self.spread in (walk, queue) else 1)
        return float(p.num_agents) * (min(each, p.num_options**2) if self.spread is aggregate else each)

    def on_reset(self, where: Bools) -> None:
        preference = self.column("preference")
        self.note_silence(np.where(preference < self.num_options, preference, -1))

    def between(self, live: Bools) -> None:
        """Stage 1: send the preferences through the channel, unless the run is over."""
        channel, preference = self.channels["preference"], self.column("preference")
        senders = (preference < self.num_options) | self.zeros
        senders &= (live & (self.column("time") < self.params.horizon))[:, None]
        if self.fresh:
            channel.record(each=self.params.copies * senders)
            self.column("arrives")[live] = senders[live]
            return
        one_hot = (preference[:, :, None] == np.arange(self.num_options)).astype(np.int8)
        bits, arrives = channel.send(one_hot, senders)
        self.column("bits")[live], self.column("arrives")[live] = bits[live], arrives[live]
        if channel.takes_levels:
            self.column("read")[live] = np.stack(read_distribution(channel), 1)[live]

    def remember(self) -> None:
        self.history.record(self.clock, lambda: popularity(self.column("holders")))

    def clock(self) -> Floats:
        self._require_reset()
        return self.column("time").astype(np.float64)

    def empty_info(self) -> dict[str, Any]:
        return super().empty_info() | {"signals": np.zeros(self.num_options)}

    def measures(self) -> dict[str, Callable[[], Array]]:
        s = self.state
        return {
            "popularity": lambda: popularity(s.holders),
            "wrong_option": lambda: led_by_wrong(popularity(s.holders), best_options(s.qualities)),
            "adopters": lambda: s.adopters,
            "regret": lambda: s.regret,
            "pseudo_regret": lambda: regret(s.expected_reward, s.time, s.qualities),
            "popularity_regret": lambda: regret(s.held_quality, s.time, s.qualities),
            "signals": lambda: s.signals,
            "hops": lambda: s.hops,
        }

    def outcome(self) -> dict[str, Array]:
        """`regret` (equation 1), `pseudo_regret` (with eta in place of Phi), `popularity_regret` (the same over all
        agents, not only those with an option), `best_share` (Q of the best options), `wrong_option` (whether more
        agents hold some suboptimal option than any best one), `adopters`, `hops`."""
        best = (self.measure("popularity") * best_options(self.state.qualities)).sum(1)
        names = ("regret", "pseudo_regret", "popularity_regret", "wrong_option", "adopters", "hops")
        return {name: self.measure(name).astype(np.float64) for name in names} | {"best_share": best}

    describe, draw = drawing.describe, drawing.draw


class _World(World[P, Q, K]):
    copies_of_paper = staticmethod(copies_of_paper)
    multiplicative_weights = staticmethod(multiplicative_weights)


social_bandit_v0 = _World(SocialBandit, Params)
