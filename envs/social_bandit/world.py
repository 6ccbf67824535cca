"""Can agents who remember only a preference learn the best option from one another's noisy preferences?

Description
    `N` agents on a graph choose among `K` options in rounds. At the start of a round, every agent with a preference
    perturbs its one-hot vector once and sends `T` copies of it on random walks of `L` steps. Agent i receives the `V_i`
    copies whose walks end with it; their bits sum to `B_ij`. It then names an option and a plan for it. The option's
    signal is drawn, and by the plan the agent adopts the option or is left without a preference.

Paper
    Tao et al. 2023, "A distributed privacy-preserving learning dynamics in general social networks": the four stages of
    section 4, the regret of equation 1, the walks of equation 2. Its infinite-population limit, equation 34, is
    `multiplicative_weights`.

Agents
    N of them, `agent_0 ...`, all at once.

Observation
    Box float32 `[counts(K), received, own(K), p, q]`: the sums B_i of the copies received, their number V_i, the
    agent's preference one-hot (all 0: none), and the probabilities that the installed mechanism answers 1 if a bit is 1
    and if it is 0 (if agents choose their levels, their means over the messages of the round).

Action
    MultiDiscrete([K + 1, 2, 2]): the option to try (K: none), whether to adopt it on signal 0, and whether on signal 1.
    An agent that does not adopt its option has no preference. With `flat_actions`, Discrete(4 (K + 1)): 4 option
    + 2 (adopt on 0) + (adopt on 1).

Reward
    The signal of the option that the agent held when the round began; 0 if it held none.

Termination
    Truncated after `horizon` rounds.

Info
    `regret` (time average so far, equation 1), `signals` ([K]: Phi, or the share of agents whose signal was 1),
    `adopters` (share of the agents that now hold an option), `hops` (moves of copies between agents so far), `slots`
    (used by the last dissemination).

Privacy channels
    `preference` (one_hot, to neighbours): before each round, every agent that holds an option sends one message, or one
    per copy under `per_token`. All copies of a message carry the same bits and cost nothing more. A message lost on the
    channel is lost with all its copies. Nothing bounds the total privacy loss: every round in which an agent sends
    costs it epsilon once more.

    In the paper's form, "silent", agents without a preference send nothing. The mechanism then hides which option an
    agent holds, but the senders and the number of copies reveal who adopted one, so totals are infinite. With
    "zeros" all agents send in all rounds. A vector of zeros differs from a one-hot vector in one bit, where two one-hot
    vectors differ in two, so epsilon of a message is still an upper bound. Other agents' observations and rewards then
    depend on an agent only through what it sent. `info` is for evaluation and shows hidden truth
    (`adopters`, `regret`).

Arguments
    - num_agents: N >= 3.
    - graph: anything that `taciturn.envs.core.graph.Graph.of` reads; connected and not bipartite, so that long walks
      forget their origin.
    - qualities: eta: "uniform" (drawn from [0, 1] at each reset, independently, as in the paper), "tao2023" (K/(K+1)
      down to 1/(K+1), the means of K ordered uniform draws, in place of the paper's own draws, which it does not
      state), or K >= 2 probabilities.
    - num_options: K >= 2; None: the number of listed qualities, otherwise 5.
    - shuffle: whether each run permutes listed or named qualities. If not, a learner could learn by heart which option
      is best.
    - copies: T >= 1; `copies_of_paper(N)` gives the paper's.
    - walk_length: L >= 1.
    - dissemination: "walk": every copy walks, exactly. "stationary": every copy ends at a uniformly random agent, the
      limit of long walks. "aggregated": the law of "stationary" at a cost that does not grow with T; see
      `spread_aggregated` of `taciturn.envs.social_bandit.dissemination`.
    - perturbation: "per_round" (one noise for all copies of an agent) or "per_token" (fresh noise for each copy, at T
      times the privacy cost).
    - congestion: in a slot, an agent forwards only the T copies that arrived first; "walk" only.
    - slots: copies still under way after this many slots are lost (None: a round lasts until all have arrived); with
      congestion only.
    - exact_below: "aggregated" draws single copies if an agent expects at most this many.
    - signals: "shared" (one Phi_j for all agents) or "per_agent".
    - initial_preferences: "even" (agent i holds option i mod K), "random", "none", or the N options (K: none).
    - without_preference: what agents without a preference send before a round: nothing ("silent", the paper's form) or
      a message that names no option ("zeros").
    - flat_actions: whether the action is Discrete.
    - horizon: number of rounds; `options={"horizon": x}` at reset replaces it.
    - speaks: "installed" or "chosen": whether each agent chooses the level of its next message, by a role `speaker`
      whose turn comes first (`taciturn.envs.core.Speaking`). It needs `without_preference="zeros"`.
    - levels: the epsilons to choose from, the first 0; with "chosen" only.
    - total: of epsilon, what an agent may spend in a run (None: any amount); with "chosen" only.

Deviations from the paper
    - If nobody holds an option, Q^r is 0/0 in the paper; here such a round earns nothing.
    - The paper's g, h, sigma and L = O(log N) enter as `copies` and `walk_length`. It does not say which L its
      simulations used.
    - A step in which a walk stays counts as a step. A round lasts until all copies have arrived, which the paper bounds
      by O(log^2 N) slots with high probability only; copies that arrive at once queue in random order. Queues delay
      copies but do not change where they end, so `congestion` matters only with `slots`.
    - On a complete graph the end of a walk is drawn from its closed-form law, elsewhere step by step.
    - An agent's own copies count if they end with it, as in section 4.2.
    - The initial preferences are even if K divides N, and nearly so otherwise.
    - `spread_aggregated` is the only approximation and is off by default. "stationary" is the exact limit of long
      walks, at any size.
    - What the paper leaves to the agents (an empty or all-zero estimate, mu, beta) is up to the policy.

Registered configurations
    `taciturn/SocialBandit-v0` (PettingZoo): 100 agents on a complete graph, 5 options whose qualities are drawn at each
    reset.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import (
    Acts,
    ChannelConfig,
    Fast,
    Layout,
    Role,
    SpeakingParams,
    Transition,
    World,
    fields,
    preferences,
    select,
    updated,
)
from taciturn.envs.core.graph import Graph
from taciturn.envs.core.preferences import (
    InitialPreferences,
    SocialPopulation,
    best_options,
    count_holders,
    led_by_wrong,
)
from taciturn.envs.core.qualities import Instances, OptionParams
from taciturn.envs.core.replies import read_law
from taciturn.envs.core.world import K, P, Q
from taciturn.envs.social_bandit import dissemination, drawing
from taciturn.envs.social_bandit.rounds import SocialRule, play_round
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number, shown


def ordered_means(num_options: int) -> list[float]:
    """The means of K ordered uniform draws, in decreasing order."""
    return [round(j / (num_options + 1), 10) for j in range(num_options, 0, -1)]


@dataclass(frozen=True, kw_only=True)
class Params(OptionParams, SpeakingParams):
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
        choice("without_preference", self.without_preference, (preferences.SILENT, preferences.ZEROS))
        choice("flat_actions", self.flat_actions, (False, True))
        preferences.require_words(self)
        preferences.require_preferences(self.initial_preferences, agents, self.num_options)
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
    """B societies."""

    qualities: Floats = fields.hidden()  # [B, K]: eta
    preference: Ints = fields.own()  # [B, N]: K for none
    counts: Ints = fields.received()  # [B, N, K]: B_ij, the sums of the copies that ended with each agent
    received: Ints = fields.received()  # [B, N]: V_i, the number of those copies
    signals: Floats = fields.hidden()  # [B, K]: Phi of the last round
    total_reward: Floats = fields.hidden()  # [B]: sum of Q^{r-1} . Phi^r
    expected_reward: Floats = fields.hidden()  # [B]: sum of Q^{r-1} . eta
    hops: Floats = fields.hidden()  # [B]: moves of copies between agents
    slots: Ints = fields.public()  # [B]: used by the last dissemination
    time: Ints = fields.public()  # [B]: rounds


def copies_of_paper(num_agents: int, growth: str = "log_squared", h: float = 485.0) -> int:
    """Number of copies T = floor(h g(N)), with g(N) = ln^2 N ("log_squared") or sqrt N ("root").

    The paper's h is 16 sigma / (1 - beta), 485 in section 6.
    """
    n = integer("num_agents", num_agents, at_least=3)
    choice("growth", growth, ("log_squared", "root"))
    g = np.log(n) ** 2 if growth == "log_squared" else np.sqrt(n)
    return int(number("h", h, above=0) * g)


def popularity(preference: Ints, num_options: int) -> Floats:
    """Q_j = D_j / D, the share of the agents with a preference that hold each option, [B, K]; 0 if nobody holds an
    option."""
    holders = count_holders(preference, num_options)
    return holders / np.maximum(holders.sum(1, keepdims=True), 1)


def regret(total_reward: Floats, time: Array, eta: Floats) -> Floats:
    """eta_1 minus the time average of Q^{r-1} . Phi^r, [B], for qualities [B, K] or [K]; 0 before the first round
    [Tao 1]."""
    return np.where(time > 0, eta.max(-1) - total_reward / np.maximum(time, 1), 0.0)


def multiplicative_weights(signals: Array, beta: float, mu: float, initial: Array | None = None) -> Floats:
    """Normalised weights P^0 ... P^R, [R + 1, ..., K], of an infinite population given the signals Phi^1 ... Phi^R
    [Tao 34].

    Args:
        signals: zeros and ones, [R, ..., K].
        beta: probability of adopting an option whose signal is 1; 1 - beta if it is 0.
        mu: probability of a uniformly random option.
        initial: P^0 (default: uniform).
    """
    phi = np.asarray(signals, np.float64)
    weights = np.broadcast_to(1.0 / phi.shape[-1] if initial is None else initial, phi.shape[1:])
    path = [weights]
    for now in phi:
        weights = ((1 - mu) * weights + mu / phi.shape[-1]) * np.where(now == 1, beta, 1 - beta)
        weights = weights / weights.sum(-1, keepdims=True)
        path.append(weights)
    return np.stack(path)


class SocialBandit(SocialPopulation[State]):
    __doc__ = __doc__
    name = "social_bandit"
    params: Params
    hidden = frozenset({"qualities", "quality_law"})
    jumps: Mapping[str, type[Fast]] = {"agent": SocialRule}

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
        """`reply_scale`, the divisor of `counts` and `received` in observations, and `reply_law`, (p, q)."""
        return {"reply_scale": 1, "reply_law": self.reply_law}

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        super().check_channel(channel, config)
        law = config.mechanism
        closed = law is None or (law.closed_counts and not law.stateful)
        plain = closed and not config.faults and config.budget is None
        if self.params.perturbation == "per_token" and not plain:
            raise ValueError(
                "perturbation 'per_token' needs a mechanism with perturb_counts that remembers nothing, and no fault "
                "or budget, on channel "
                f"{channel!r}, not {config!r}"
            )

    def initial(self) -> State:
        size = (self.num_envs, self.params.num_agents)
        nothing, none = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        state = State(
            qualities=self.params.draw_qualities(self.num_envs, self.stream("qualities")),
            preference=self.first_preferences(),
            counts=np.zeros((*size, self.num_options), np.int64),
            received=np.zeros(size, np.int64),
            signals=np.zeros((self.num_envs, self.num_options)),
            total_reward=nothing,
            expected_reward=nothing,
            hops=nothing,
            slots=none,
            time=none,
        )
        return self.disseminate(state)

    def disseminate(self, state: State) -> State:
        """Stages 1 and 2: perturb the preferences and spread the copies, unless the run is over."""
        p, channel = self.params, self.channels["preference"]
        speaks = (state.preference < self.num_options) | self.zeros
        senders = speaks & (channel.live & (state.time < self.params.horizon))[:, None]
        one_hot = state.preference[:, :, None] == np.arange(self.num_options)
        if p.perturbation == "per_token":
            channel.record(each=p.copies * senders)
            vectors, delivered = one_hot, senders
        else:
            vectors, delivered = channel.send(one_hot, senders)
        counts, received, hops, slots = self.spread_all(vectors, delivered)
        return updated(state, counts=counts, received=received, hops=state.hops + hops, slots=slots)

    def spread_all(self, vectors: Array, senders: Bools) -> tuple[Array, ...]:
        """Spread copies of the bits [B, N, K] of the `senders` [B, N]: B_ij, V_i, moves and slots of each society."""
        spreads = [
            self.spread(rows[who].astype(np.bool_), np.flatnonzero(who))
            for rows, who in zip(vectors, senders, strict=True)
        ]
        return tuple(
            np.asarray(part[0])[None] if self.num_envs == 1 else np.stack(part) for part in zip(*spreads, strict=True)
        )

    def spread(self, vectors: Bools, origins: Ints) -> dissemination.Spread:
        """Spread copies of the bits [A, K] of the agents `origins` [A] of one society; `per_token` noise is added on
        arrival."""
        p, rng = self.params, self.stream("dissemination")
        if not origins.size:
            nothing = np.zeros((p.num_agents, self.num_options), np.int64)
            return dissemination.Spread(nothing, nothing[:, 0].copy(), 0.0, 0)
        if p.dissemination == "walk":
            if p.congestion:
                done = dissemination.spread_queued(vectors, origins, p.copies, p.network, p.walk_length, p.slots, rng)
            else:
                done = dissemination.spread_walks(vectors, origins, p.copies, p.network, p.walk_length, rng)
            return done._replace(counts=self.perturb_tokens(done.counts, done.received))
        # The mean number of moves of walks of that length.
        hops = float(len(vectors)) * p.copies * p.walk_length * self.mobility
        whole = self.spread_uniformly(vectors).T.astype(np.int64, order="C")
        return dissemination.Spread(whole[:, 1:], whole[:, 0], hops, p.walk_length)

    def spread_uniformly(self, vectors: Bools) -> Floats:
        """Let the copies of the bits [A, K] end at uniformly random agents: V and B, whole numbers, [1 + K, N]."""
        p, rng = self.params, self.stream("dissemination")
        fresh = p.perturbation == "per_token" and not self.noiseless
        if p.dissemination == "aggregated" and not fresh:
            return dissemination.spread_aggregated(vectors, p.copies, p.num_agents, rng, p.exact_below, self.scratch)
        if p.dissemination == "aggregated" and len(vectors) * p.copies > p.exact_below * p.num_agents:
            held, law, noise = vectors.sum(0), self.reply_law, self.channels["preference"].rng
            assert noise is not None
            zeros = len(vectors) - int(held.sum())
            return dissemination.spread_gaussian_fresh(held, p.copies, p.num_agents, law, noise, self.scratch, zeros)
        counts, received = dissemination.spread_uniform(vectors, np.full(len(vectors), p.copies), p.num_agents, rng)
        return dissemination.stacked((self.perturb_tokens(counts, received), received))

    def perturb_tokens(self, counts: Ints, received: Ints) -> Ints:
        """Add the noise of `per_token` to `counts` [N, K], the copies for each option among the `received` [N]."""
        law, rng = self.channels["preference"].config.mechanism, self.channels["preference"].rng
        if self.params.perturbation == "per_round" or law is None or rng is None:
            return counts
        return law.perturb_counts(counts, rng, received)

    @cached_property
    def mobility(self) -> float:
        return dissemination.mobility(self.params.network)

    def draw_signals(self, eta: Floats) -> tuple[Floats, Callable[[Ints], Bools]]:
        """Draw Phi, [B, K], by the qualities [B, K]; return it with a function that maps options [B, N] to signals (0
        for K, none)."""
        p, size, rng = self.params, self.num_envs, self.stream("signals")
        none = np.zeros((size, 1), np.bool_)
        if p.signals == "shared":
            phi = np.concatenate([rng.random((size, self.num_options)) < eta, none], axis=1)
            return phi[:, :-1].astype(np.float64), lambda options: np.take_along_axis(phi, options, 1)
        each = rng.random((size, p.num_agents, self.num_options)) < eta[:, None]
        padded = np.concatenate([each, np.broadcast_to(none[:, None], (size, p.num_agents, 1))], axis=2)
        return each.mean(1), lambda options: np.take_along_axis(padded, options[:, :, None], 2)[:, :, 0]

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:
        self.record_popularity(state)
        new, reward = self.adopt(state, actions["agent"])
        new = self.disseminate(new)
        over, info = new.time >= self.params.horizon, partial(self.inform, new)
        return new, {"agent": reward}, np.zeros(self.num_envs, np.bool_), over, info

    def empty_info(self) -> dict[str, Any]:
        return {"regret": 0.0, "signals": np.zeros(self.num_options), "adopters": 0.0, "hops": 0.0, "slots": 0}

    def inform(self, state: State) -> dict[str, Any]:
        """The info of the round that led to `state`."""
        return {
            "regret": regret(state.total_reward, state.time, state.qualities),
            "signals": state.signals,
            "adopters": (state.preference < self.num_options).mean(1),
            "hops": state.hops,
            "slots": state.slots,
        }

    def adopt(self, state: State, plan: Array) -> tuple[State, Floats]:
        """Stage 4: the state after the agents followed their plans [B, N, ...], and their rewards [B, N]."""
        p = self.params
        option, on_zero, on_one = preferences.split_plan(plan, p.flat_actions)
        phi, signals = self.draw_signals(state.qualities)
        reward, signal = signals(state.preference), self.private(signals(option))
        adopts = np.where(signal, on_one, on_zero) == 1
        adopters = np.maximum((state.preference < self.num_options).sum(1), 1)
        new = updated(
            state,
            preference=np.where(adopts, option, self.num_options),
            signals=phi,
            total_reward=state.total_reward + reward.sum(1) / adopters,
            expected_reward=state.expected_reward
            + np.vecdot(popularity(state.preference, self.num_options), state.qualities),
            time=state.time + 1,
        )
        return new, reward.astype(np.float64)

    def can_jump(self, until: float) -> bool:
        """Requires copies that end uniformly, shared signals, and live replicas that have all played the same number of
        rounds."""
        p, times = self.params, np.unique(self.state.time[~self.done])
        until = min(until, float(p.horizon))
        uniform = p.dissemination != "walk" and p.signals == "shared"
        return uniform and len(times) == 1 and until == np.floor(until) and until > times[0]

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play several rounds, without computing observations, with agents that follow a `SocialRule`.

        `act` plays the first round, since its copies are already drawn.
        """
        (policy,), (rule,), channel, live = policies.values(), forms.values(), self.channels["preference"], ~self.done
        until, first = min(until, float(self.params.horizon)), int(self.state.time[live][0])
        channel.live = live
        self.record_popularity(self.state)
        state, _ = self.adopt(self.state, policy.act(self.observe()))
        sent = np.zeros(state.preference.shape, np.int64)
        for _ in range(first + 1, int(until)):
            self.record_popularity(state)
            state = play_round(self, state, rule, live, sent)
        channel.record(each=sent)
        self._state = select(~live, self.state, self.disseminate(state))
        self.truncated = self.truncated | (self._state.time >= self.params.horizon)

    def record_popularity(self, state: State) -> None:
        self.history.record(
            lambda: state.time.astype(np.float64), lambda: popularity(state.preference, self.num_options)
        )

    @property
    def noiseless(self) -> bool:
        """Whether messages pass without noise."""
        law = self.channels["preference"].config.mechanism
        return law is None or law.kind == "none"

    @cached_property
    def scratch(self) -> Floats:
        """Working memory of `spread_uniformly`."""
        return np.empty((2, 1 + self.num_options, self.params.num_agents))

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        own = state.preference[:, :, None] == np.arange(self.num_options)
        channel = self.channels["preference"]
        law = (x[:, None] for x in read_law(channel)) if channel.takes_levels else self.reply_law
        p, q = (np.broadcast_to(np.float64(x), state.received.shape) for x in law)
        return self.roles[role].layout.pack(counts=state.counts, received=state.received, own=own, p=p, q=q)

    def measures(self) -> dict[str, Callable[[], Array]]:
        s = self.state
        return {
            "popularity": lambda: popularity(s.preference, self.num_options),
            "wrong_option": lambda: led_by_wrong(popularity(s.preference, self.num_options), best_options(s.qualities)),
            "adopters": lambda: (s.preference < self.num_options).mean(1),
            "regret": lambda: regret(s.total_reward, s.time, s.qualities),
            "pseudo_regret": lambda: regret(s.expected_reward, s.time, s.qualities),
            "signals": lambda: s.signals,
            "hops": lambda: s.hops,
        }

    def outcome(self) -> dict[str, Array]:
        """`regret` (equation 1), `pseudo_regret` (with eta in place of Phi), `best_share` (Q of the best options),
        `wrong_option` (whether more agents hold some other option than any best one), `adopters`, `hops`."""
        best = (self.measure("popularity") * best_options(self.state.qualities)).sum(1)
        names = ("regret", "pseudo_regret", "wrong_option", "adopters", "hops")
        return {name: self.measure(name).astype(np.float64) for name in names} | {"best_share": best}

    describe, draw = drawing.describe, drawing.draw


class _World(World[P, Q, K]):
    copies_of_paper = staticmethod(copies_of_paper)
    multiplicative_weights = staticmethod(multiplicative_weights)


social_bandit_v0 = _World(SocialBandit, Params)
