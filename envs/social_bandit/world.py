"""Can agents who remember nothing but what they prefer learn the best option from each other's noisy preferences?

Description
    `N` agents on a graph choose among `K` options in rounds. In round r, whoever holds a preference perturbs its one-hot vector once
    and sets `T` copies of it off on random walks of `L` steps. Each agent counts what ends with it: `V_i` copies, whose bits add up to
    `B_ij`. It names an option and what to do with it; the option's signal is drawn, and the agent takes the option up, or holds
    nothing.

Paper
    Tao et al. 2023, "A distributed privacy-preserving learning dynamics in general social networks": the four stages of section 4, the
    regret of equation 1, the walks of equation 2. How the options of a round turn into multiplicative weights: equation 34,
    `multiplicative_weights`.

Agents
    N of them, `agent_0 ...`, all at once.

Observation
    Box float32 `[counts(K), received, own(K), keep, flip]`: the sums B_i of the copies that ended with the agent, their number V_i, its
    own preference one-hot (all 0: none), and with which probability the installed mechanism answers 1 where the bit
    is 1, and where it is 0.

Action
    MultiDiscrete([K + 1, 2, 2]): the option to try (K: none), whether to take it up if its signal is 0, whether if it is 1. Who does
    not take up an option holds none. With `flat_actions`, Discrete(4 (K + 1)): 4 option + 2 (take up at 0) + (take up at 1).

Reward
    The signal of the option that the agent held when the round began; 0 if it held none.

Termination
    Truncated after `horizon` rounds.

Info
    `regret` (time average so far, equation 1), `signals` ([K]: Phi, or the share of agents whose signal was 1), `adopters` (share of
    the agents that now hold an option), `messages` (perturbed vectors sent so far), `epsilon` (what the agent that spent most has
    spent, summed; inf without a mechanism), `hops` (moves of the copies between agents so far), `slots` (that the last dissemination
    took).

Privacy channels
    `preference` (one_hot, to neighbours): one message of each agent that holds an option a round, before the round; one a copy under
    `per_token`. All copies of a message carry its bits and cost nothing more. A message lost on the channel is lost with all its
    copies. Who holds nothing is silent, and that silence is seen: the mechanism hides which option an agent holds, not whether.
    Nothing bounds what an agent spends: every round in which it speaks costs it epsilon once more.

Arguments
    - num_agents: N >= 3.
    - graph: what `taciturn.envs.core.graph.Graph.of` reads; connected and not bipartite, as walks must be to forget where they began.
    - qualities: eta, K >= 2 probabilities.
    - copies: T >= 1; `copies_of_paper(N)` gives the paper's.
    - walk_length: L >= 1.
    - dissemination: "walk": every copy walks, exactly. "stationary": every copy ends at a uniformly random agent, which is what long
      walks do. "aggregated": the law of "stationary", drawn at a cost that does not grow with T; see `spread_aggregated` of
      `taciturn.envs.social_bandit.dissemination`.
    - perturbation: "per_round" (one noise for all copies of an agent) or "per_token" (fresh noise for each copy, at T times the privacy
      cost).
    - congestion: in a slot an agent forwards only the T copies that came first; "walk" only.
    - slots: copies still on their way after so many slots are lost (None: a round lasts until all have arrived); with congestion only.
    - exact_below: "aggregated" draws single copies when an agent expects no more than this many.
    - signals: "shared" (one Phi_j of all agents) or "per_agent".
    - initial_preferences: "even" (agent i holds option i mod K), "random", "none", or the N options (K: none).
    - flat_actions: whether the action is Discrete.
    - horizon: rounds; `options={"horizon": x}` at reset replaces it.

Deviations from the paper
    - Q^r of a round in which nobody holds an option is 0/0 in the paper; here it earns nothing.
    - The paper's g, h, sigma and L = O(log N) enter as `copies` and `walk_length`. What its simulations took for L, it does not say.
    - A walk's stay uses up a step. A round lasts until all copies have arrived, which the paper bounds by O(log^2 N) slots with high
      probability only; copies that come at once queue in random order. Queues delay copies and do not change where they end, so
      `congestion` matters only to `slots`.
    - On a complete graph the end of a walk is drawn from its closed law, and otherwise step by step.
    - An agent's own copies count when they end with it, as in section 4.2.
    - The initial preferences are even where K divides N, and nearly so elsewhere.
    - `spread_aggregated` is the one approximation; it is off by default, and "stationary" is exact at any size. "stationary" itself is the
      limit of long walks.
    - What is open to the agents (what an agent does with no copies or with an estimate that is 0 everywhere, mu, beta) is the policy's.

Registered configurations
    `taciturn/SocialBandit-v0`: 100 agents, all acquainted, 5 options.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
    select,
    vector,
)
from taciturn.envs.core.graph import Graph
from taciturn.envs.core.replies import reply_law
from taciturn.envs.social_bandit.dissemination import (
    Spread,
    mobility,
    pick_tokens,
    spread_aggregated,
    spread_gaussian_fresh,
    spread_queued,
    spread_uniform,
    spread_walks,
    stacked,
)

__all__ = [
    "Params",
    "SocialBandit",
    "SocialRule",
    "State",
    "copies_of_paper",
    "multiplicative_weights",
    "social_bandit_v0",
]

BANDS = 120  # moments of a run that a picture shows


def copies_of_paper(num_agents: int, growth: str = "log_squared", h: float = 485.0) -> int:
    """T = floor(h g(N)) with g(N) = ln^2 N ("log_squared") or sqrt N ("root"); the paper's h is 16 sigma / (1 - beta), 485 (section 6)."""
    n = integer("num_agents", num_agents, at_least=3)
    choice("growth", growth, ("log_squared", "root"))
    g = np.log(n) ** 2 if growth == "log_squared" else np.sqrt(n)
    return int(number("h", h, above=0) * g)


@dataclass(frozen=True, kw_only=True)
class Params:
    """See the module's 'Arguments'.

    Raises:
        ValueError: a parameter outside its range, a graph that is in parts or bipartite.
    """

    num_agents: int = 100
    graph: Any = "complete"
    qualities: Sequence[float] | Array = (0.9, 0.7, 0.5, 0.3, 0.1)
    copies: int = 50
    walk_length: int = 20
    dissemination: str = "stationary"
    perturbation: str = "per_round"
    congestion: bool = False
    slots: int | None = None
    exact_below: int = 200
    signals: str = "shared"
    initial_preferences: str | Sequence[int] | Array = "even"
    flat_actions: bool = False
    horizon: int = 500

    def __post_init__(self) -> None:
        agents = integer("num_agents", self.num_agents, at_least=3)
        eta = vector("qualities", self.qualities)
        if eta.size < 2 or (eta < 0).any() or (eta > 1).any():
            raise ValueError(f"qualities must be at least 2 probabilities, not {self.qualities!r}")
        integer("copies", self.copies, at_least=1, at_most=2**62 // agents)
        integer("walk_length", self.walk_length, at_least=1)
        choice("dissemination", self.dissemination, ("walk", "stationary", "aggregated"))
        choice("perturbation", self.perturbation, ("per_round", "per_token"))
        choice("congestion", self.congestion, (False, True))
        if self.congestion and self.dissemination != "walk":
            raise ValueError(f"congestion needs dissemination 'walk', not {self.dissemination!r}")
        if self.slots is not None:
            integer("slots", self.slots, at_least=1)
            if not self.congestion:
                raise ValueError(f"slots has no meaning without congestion, but it is {self.slots!r}: leave it out")
        integer("exact_below", self.exact_below, at_least=0)
        choice("signals", self.signals, ("shared", "per_agent"))
        choice("flat_actions", self.flat_actions, (False, True))
        integer("horizon", self.horizon, at_least=1)
        if isinstance(self.initial_preferences, str):
            choice("initial_preferences", self.initial_preferences, ("even", "random", "none"))
        else:
            held = np.asarray(self.initial_preferences)
            if held.shape != (agents,) or held.dtype.kind not in "iu" or held.min() < 0 or held.max() > eta.size:
                raise ValueError(
                    f"initial_preferences must be 'even', 'random', 'none' or {agents} options from 0 to {eta.size} ({eta.size}: none), "
                    f"not {self.initial_preferences!r}"
                )
        self.network.require_connected()
        if self.network.bipartite():
            raise ValueError(
                "graph must not be bipartite, or walks never forget which side they began on: add an edge inside a side"
            )

    @property
    def num_options(self) -> int:
        """K."""
        return len(self.qualities)

    @cached_property
    def eta(self) -> Array:
        """float64[K]."""
        return vector("qualities", self.qualities)

    @cached_property
    def network(self) -> Graph:
        return Graph.of(self.graph, self.num_agents)


@dataclass(frozen=True)
class State:
    """B societies."""

    preference: Array  # int64[B, N]: the option held, K for none
    counts: Array  # int64[B, N, K]: B_ij, the sums of the copies that ended with each agent
    received: Array  # int64[B, N]: V_i
    signals: Array  # float64[B, K]: Phi of the last round
    earned: Array  # float64[B]: sum of Q^{r-1} . Phi^r
    expected: Array  # float64[B]: sum of Q^{r-1} . eta
    hops: Array  # float64[B]: moves of copies between agents
    slots: Array  # int64[B]: that the last dissemination took
    time: Array  # int64[B]: rounds
    history: Array  # float32[B, BANDS, K]: popularity at evenly spaced rounds, NaN where still to come


# The equations.


def histogram(preference: Array, num_options: int) -> Array:
    """D_j, how many hold each option: int64[B, K] for int64[B, N]."""
    size, wide = len(preference), num_options + 1
    flat = (preference + wide * np.arange(size)[:, None]).ravel()
    return np.bincount(flat, minlength=size * wide).reshape(size, wide)[:, :num_options]


def popularity(preference: Array, num_options: int) -> Array:
    """Q_j = D_j / D, float64[B, K]; 0 where nobody holds an option."""
    held = histogram(preference, num_options)
    return held / np.maximum(held.sum(1, keepdims=True), 1)


def regret(earned: Array, time: Array, eta: Array) -> Array:
    """Equation 1: eta_1 less the time average of Q^{r-1} . Phi^r, [B]; 0 before the first round."""
    return np.where(time > 0, eta.max() - earned / np.maximum(time, 1), 0.0)


def multiplicative_weights(signals: Array, beta: float, mu: float, initial: Array | None = None) -> Array:
    """Equation 34, normalised: P^0 ... P^R float64[R + 1, ..., K] of an infinite population that sees Phi^1 ... Phi^R = signals[R, ..., K].

    Args:
        signals: zeros and ones.
        beta: probability of taking up an option whose signal is 1; 1 - beta where it is 0.
        mu: probability of a uniformly random option.
        initial: P^0 (default: uniform).
    """
    phi = np.asarray(signals, np.float64)
    weights = (
        np.full(phi.shape[1:], 1.0 / phi.shape[-1]) if initial is None else np.broadcast_to(initial, phi.shape[1:])
    )
    path = [weights]
    for now in phi:
        weights = ((1 - mu) * weights + mu / phi.shape[-1]) * np.where(now == 1, beta, 1 - beta)
        weights = weights / weights.sum(-1, keepdims=True)
        path.append(weights)
    return np.stack(path)


def cumulate(drawn: Array, flip: float) -> Array:
    """Equations 7 and 8 from V and B in float64[1 + K, N], in place: the running sums of max(B / V - q, 0), float64[K, N]."""
    edges: Array = drawn[1:]
    edges /= np.maximum(drawn[0], 1)
    edges -= flip
    np.maximum(edges, 0, out=edges)
    for k in range(1, len(edges)):
        edges[k] += edges[k - 1]
    return edges


@dataclass(frozen=True)
class SocialRule(Fast):
    """How agents without memory act who follow stages 3 and 4."""

    keep: float  # p and q of the estimate (equation 7)
    flip: float
    beta: float  # probabilities of taking up an option whose signal is 1, and is 0 (equation 9)
    alpha: float
    mu: float  # of a uniformly random option (equation 13)
    uniform: bool  # whether who knows nothing tries any option; else none


# The world.


class SocialBandit(Population[State]):
    __doc__ = __doc__
    name = "social_bandit"
    params: Params
    hidden = frozenset({"qualities", "eta"})
    jumps: Mapping[str, type[Fast]] = {"agent": SocialRule}

    def make_roles(self) -> tuple[Role, ...]:
        p, options = self.params, self.num_options
        most = float(p.num_agents) * p.copies
        layout = Layout(
            counts=(options, 0, most), received=(1, 0, most), own=(options, 0, 1), keep=(1, 0, 1), flip=(1, 0, 1)
        )
        plan = [options + 1, 2, 2]
        space: Any = gymnasium.spaces.MultiDiscrete(plan)
        if p.flat_actions:
            space = gymnasium.spaces.Discrete(int(np.prod(plan)))
        return (Role("agent", p.num_agents, layout, space),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("preference", "one_hot", observer="neighbour", unit="event"),)

    @property
    def num_options(self) -> int:
        """K."""
        return self.params.num_options

    def public(self) -> dict[str, Any]:
        """`reply_scale`, what `counts` and `received` in an observation are divided by; `reply_law`, (p, q)."""
        return {"reply_scale": 1, "reply_law": reply_law(self.channels["preference"])}

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        if config.mechanism is not None and config.mechanism.kind not in ("none", "randomized_response"):
            raise ValueError(
                f"channel {channel!r} needs a mechanism that answers bit by bit, as BitwiseRandomizedResponse and UnaryEncoding do, "
                f"not {config.mechanism!r}"
            )
        if self.params.perturbation == "per_token":
            law = config.mechanism
            if (
                config.faults
                or config.budget is not None
                or (law is not None and (law.stateful or not law.closed_counts))
            ):
                raise ValueError(
                    "perturbation 'per_token' needs a mechanism with perturb_counts that remembers nothing, and no fault or budget, "
                    f"on channel {channel!r}, not {config!r}"
                )

    def initial(self) -> State:
        p, size = self.params, (self.num_envs, self.params.num_agents)
        if not isinstance(p.initial_preferences, str):
            held = np.broadcast_to(np.asarray(p.initial_preferences, np.int64), size).copy()
        elif p.initial_preferences == "random":
            held = self.stream("preferences").integers(0, self.num_options, size)
        else:
            every = np.arange(p.num_agents) % self.num_options
            held = np.broadcast_to(every if p.initial_preferences == "even" else self.num_options, size).copy()
        nothing, none = np.zeros(self.num_envs), np.zeros(self.num_envs, np.int64)
        history = np.full((self.num_envs, BANDS, self.num_options), np.nan, np.float32)
        history[:, 0] = popularity(held, self.num_options)
        state = State(
            preference=held, counts=np.zeros((*size, self.num_options), np.int64), received=np.zeros(size, np.int64),
            signals=np.zeros((self.num_envs, self.num_options)), earned=nothing, expected=nothing, hops=nothing, slots=none, time=none,
            history=history,
        )  # fmt: skip
        return self.disseminate(state)

    def disseminate(self, state: State) -> State:
        """Stages 1 and 2: perturb the preferences, and spread them, where another round is to come."""
        p, channel = self.params, self.channels["preference"]
        senders = (state.preference < self.num_options) & (channel.live & (state.time < self.params.horizon))[:, None]
        one_hot = state.preference[:, :, None] == np.arange(self.num_options)
        if p.perturbation == "per_token":
            channel.record(each=p.copies * senders)
            vectors, heard = one_hot, senders
        else:
            vectors, heard = channel.send(one_hot, senders)
        spreads = [
            self.spread(rows[who].astype(np.bool_), np.flatnonzero(who))
            for rows, who in zip(vectors, heard, strict=True)
        ]
        counts, received, hops, slots = (
            np.asarray(part[0])[None] if self.num_envs == 1 else np.stack(part) for part in zip(*spreads, strict=True)
        )
        return replace(state, counts=counts, received=received, hops=state.hops + hops, slots=slots)

    def spread(self, vectors: Array, origins: Array) -> Spread:
        """Disseminate one society's bits bool[A, K] of the agents `origins` int64[A]; those of single copies are still to be perturbed."""
        p, rng = self.params, self.stream("dissemination")
        if not origins.size:
            nothing = np.zeros((p.num_agents, self.num_options), np.int64)
            return Spread(nothing, nothing[:, 0].copy(), 0.0, 0)
        if p.dissemination == "walk":
            if p.congestion:
                done = spread_queued(vectors, origins, p.copies, p.network, p.walk_length, p.slots, rng)
            else:
                done = spread_walks(vectors, origins, p.copies, p.network, p.walk_length, rng)
            return done._replace(counts=self.perturb_tokens(done.counts, done.received))
        # What walks that long would have done, on average.
        hops = float(len(vectors)) * p.copies * p.walk_length * self.mobility
        whole = self.hear(vectors).T.astype(np.int64, order="C")
        return Spread(whole[:, 1:], whole[:, 0], hops, p.walk_length)

    def hear(self, vectors: Array) -> Array:
        """Where copies of the bits bool[A, K] end uniformly: V and B, whole numbers in float64[1 + K, N]."""
        p, rng = self.params, self.stream("dissemination")
        fresh = p.perturbation == "per_token" and not self.silent
        if p.dissemination == "aggregated" and not fresh:
            return spread_aggregated(vectors, p.copies, p.num_agents, rng, p.exact_below, self.scratch)
        if p.dissemination == "aggregated" and len(vectors) * p.copies > p.exact_below * p.num_agents:
            law = reply_law(self.channels["preference"])
            return spread_gaussian_fresh(vectors.sum(0), p.copies, p.num_agents, law, rng, self.scratch)
        counts, received = spread_uniform(vectors, np.full(len(vectors), p.copies), p.num_agents, rng)
        return stacked((self.perturb_tokens(counts, received), received))

    def perturb_tokens(self, counts: Array, received: Array) -> Array:
        """Under `per_token`: what agents read who received `counts` int64[N, K] copies for each option, among `received` int64[N]."""
        law, rng = self.channels["preference"].config.mechanism, self.channels["preference"].rng
        if self.params.perturbation == "per_round" or law is None or rng is None:
            return counts
        return law.perturb_counts(counts, rng, received)

    @cached_property
    def mobility(self) -> float:
        return mobility(self.params.network)

    def signal(self) -> tuple[Array, Callable[[Array], Array]]:
        """Stage 4: draw Phi; float64[B, K], and a function that gives agents the signal of an option each [B, N] (of K, none: 0)."""
        p, size, rng = self.params, self.num_envs, self.stream("signals")
        none = np.zeros((size, 1), np.bool_)
        if p.signals == "shared":
            phi = np.concatenate([rng.random((size, self.num_options)) < p.eta, none], axis=1)
            return phi[:, :-1].astype(np.float64), lambda options: np.take_along_axis(phi, options, 1)
        each = rng.random((size, p.num_agents, self.num_options)) < p.eta
        padded = np.concatenate([each, np.broadcast_to(none[:, None], (size, p.num_agents, 1))], axis=2)
        return each.mean(1), lambda options: np.take_along_axis(padded, options[:, :, None], 2)[:, :, 0]

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        new, reward = self.adopt(state, actions["agent"])
        new = self.disseminate(self.remember(new))
        info = {
            "regret": regret(new.earned, new.time, self.params.eta),
            "signals": new.signals,
            "adopters": (new.preference < self.num_options).mean(1),
            "hops": new.hops,
            "slots": new.slots,
        }
        return new, {"agent": reward}, np.zeros(self.num_envs, np.bool_), new.time >= self.params.horizon, info

    def adopt(self, state: State, plan: Array) -> tuple[State, Array]:
        """Stage 4: the state after the plans [B, N, ...] met their signals, and what agents earn, float64[B, N]."""
        p = self.params
        if p.flat_actions:
            plan = np.stack(np.unravel_index(plan, (self.num_options + 1, 2, 2)), axis=-1)
        option = plan[:, :, 0].astype(np.int64)
        phi, seen_by = self.signal()
        reward, seen = seen_by(state.preference), seen_by(option)
        takes = np.where(seen, plan[:, :, 2], plan[:, :, 1]) == 1
        adopters = np.maximum((state.preference < self.num_options).sum(1), 1)
        new = replace(
            state,
            preference=np.where(takes, option, self.num_options),
            signals=phi,
            earned=state.earned + reward.sum(1) / adopters,
            expected=state.expected + popularity(state.preference, self.num_options) @ p.eta,
            time=state.time + 1,
        )
        return new, reward.astype(np.float64)

    def can_jump(self, until: float) -> bool:
        """Copies end uniformly, and all live replicas have played as many whole rounds."""
        p, times = self.params, np.unique(self.state.time[~self.done])
        until = min(until, float(p.horizon))
        spoken = p.dissemination == "walk" or p.signals == "per_agent"
        return not spoken and len(times) == 1 and until == np.floor(until) and until > times[0]

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Rounds in a row, without showing the agents what they see, where they follow a `SocialRule`.

        Without noise an agent's option is that of a random copy it received, which `pick_tokens` draws for all agents at once, exactly.
        """
        (policy,), (rule,), channel, live = policies.values(), forms.values(), self.channels["preference"], ~self.done
        until, first = min(until, float(self.params.horizon)), int(self.state.time[live][0])
        channel.live = live
        state, _ = self.adopt(self.state, policy.act(self.observe()))
        state = self.remember(state)
        sent = np.zeros(state.preference.shape, np.int64)
        for _ in range(first + 1, int(until)):
            state = self.remember(self.round(state, rule, live, sent))
        channel.record(each=sent)
        self._state = select(~live, self.state, self.disseminate(state))
        self.truncated = self.truncated | (self._state.time >= self.params.horizon)

    def round(self, state: State, rule: SocialRule, live: Array, sent: Array) -> State:
        """All four stages, in the replicas `live` bool[B]; adds to `sent` int64[B, N] the messages."""
        p, size, options, rng = self.params, self.num_envs, self.num_options, self.stream("rounds")
        held = histogram(state.preference, options)
        phi = self.stream("signals").random((size, options)) < p.eta
        taken_up = np.concatenate([np.where(phi, rule.beta, rule.alpha), np.zeros((size, 1))], axis=1)
        preference = np.full_like(state.preference, options)
        for b in np.flatnonzero(live):
            sent[b] += (p.copies if p.perturbation == "per_token" else 1) * (state.preference[b] < options)
            option = self.choose(state.preference[b], held[b], rule, rng)
            takes = rng.random(p.num_agents) < taken_up[b, option]
            preference[b, takes] = option[takes]
        share = held / np.maximum(held.sum(1, keepdims=True), 1)
        return replace(
            state,
            preference=preference,
            signals=phi.astype(np.float64),
            earned=state.earned + (share * phi).sum(1),
            expected=state.expected + share @ p.eta,
            hops=state.hops + held.sum(1).astype(np.float64) * p.copies * p.walk_length * self.mobility,
            time=state.time + 1,
        )

    def choose(self, preference: Array, held: Array, rule: SocialRule, rng: np.random.Generator) -> Array:
        """Stages 1 to 3 of one society, int64[N]: the options that agents try (K: none) who prefer `preference` int64[N]."""
        p, channel, options = self.params, self.channels["preference"], self.num_options
        if rule.keep == 1 and rule.flip == 0 and self.silent:
            option = pick_tokens(held * p.copies, p.num_agents, rng)
        else:
            vectors = preference[preference < options][:, None] == np.arange(options)
            if p.perturbation == "per_round" and not self.silent:
                assert channel.config.mechanism is not None
                assert channel.rng is not None
                vectors = channel.config.mechanism.perturb(vectors, channel.rng)
            edges = cumulate(self.hear(vectors), rule.flip)
            point = rng.random(p.num_agents) * edges[-1]
            option = np.minimum((edges <= point).sum(0), options - 1)
            option[edges[-1] <= 0] = options
        explores = rng.random(p.num_agents) < rule.mu
        if rule.uniform:
            explores |= option == options
        option[explores] = rng.integers(0, options, int(explores.sum()))
        return option

    @property
    def silent(self) -> bool:
        """Whether no mechanism adds noise."""
        law = self.channels["preference"].config.mechanism
        return law is None or law.kind == "none"

    @cached_property
    def scratch(self) -> Array:
        """Memory that `hear` works in."""
        return np.empty((2, 1 + self.num_options, self.params.num_agents))

    def remember(self, state: State) -> State:
        """Note the popularity where a round is one of those that a picture shows."""
        band = np.minimum((BANDS - 1) * state.time // self.params.horizon, BANDS - 1).astype(np.int64)
        before = ((BANDS - 1) * (state.time - 1) // self.params.horizon).astype(np.int64)
        if (band == before).all():
            return state
        history = state.history.copy()
        history[np.arange(self.num_envs), band] = popularity(state.preference, self.num_options)
        return replace(state, history=history)

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        own = state.preference[:, :, None] == np.arange(self.num_options)
        law = reply_law(self.channels["preference"])
        keep, flip = (np.broadcast_to(np.float64(x), state.received.shape) for x in law)
        return self.roles[role].layout.pack(counts=state.counts, received=state.received, own=own, keep=keep, flip=flip)

    def clock(self) -> Array:
        return self.state.time.astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        s, p = self.state, self.params
        return {
            "popularity": lambda: popularity(s.preference, self.num_options),
            "adopters": lambda: (s.preference < self.num_options).mean(1),
            "regret": lambda: regret(s.earned, s.time, p.eta),
            "pseudo_regret": lambda: regret(s.expected, s.time, p.eta),
            "signals": lambda: s.signals,
            "hops": lambda: s.hops,
        }

    def outcome(self) -> dict[str, Array]:
        """`regret` (equation 1, with Phi), `pseudo_regret` (with eta), `best_share` (Q of the best), `adopters` and `hops`."""
        p = self.params
        best = self.measure("popularity")[:, p.eta == p.eta.max()].sum(1)
        names = ("regret", "pseudo_regret", "adopters", "hops")
        return {name: self.measure(name).astype(np.float64) for name in names} | {"best_share": best}

    def describe(self, replica: int = 0) -> str:
        s, i = self.state, replica
        held = histogram(s.preference[i : i + 1], self.num_options)[0]
        shares = " ".join(f"{x:.3f}" for x in held / max(held.sum(), 1))
        value = regret(s.earned, s.time, self.params.eta)[i]
        return (
            f"round {s.time[i]:5d}  Q = {shares}  adopters {held.sum()} of {self.params.num_agents}  regret {value:.4f}"
        )

    def draw(self, axes: Any, replica: int = 0) -> None:
        """The graph coloured by preference (up to 60 agents; else who holds what), and the popularity so far as bands."""
        from matplotlib import colormaps

        s, p, i, options = self.state, self.params, replica, self.num_options
        colours = [colormaps["tab10" if options <= 10 else "tab20"](k % 20) for k in range(options)] + ["#e3e3e3"]
        axes.set_axis_off()
        held = s.preference[i] < options
        value = regret(s.earned, s.time, p.eta)[i]
        title = f"round {s.time[i]} of {self.params.horizon:g}: {held.sum()} of {p.num_agents} hold an option, regret {value:.3f}"
        axes.set_title(title, loc="left")
        left, right = axes.inset_axes((0, 0.02, 0.42, 0.9)), axes.inset_axes((0.52, 0.12, 0.46, 0.8))
        if p.num_agents <= 60:
            x, y = self.places.T
            for a, b in p.network.edges if p.network.edges is not None else ():
                left.plot(x[[a, b]], y[[a, b]], color="#b9bec6", linewidth=0.6, zorder=1)
            fill = [colours[k] for k in s.preference[i]]
            left.scatter(
                x,
                y,
                c=fill,
                s=900 / p.num_agents**0.75 + 12,
                edgecolors="#333",
                linewidths=0.6,
                zorder=2,
            )
            left.set_aspect("equal", adjustable="datalim")
            left.margins(0.1)
            left.set_axis_off()
        else:
            counts = histogram(s.preference[i : i + 1], options)[0]
            left.bar([*range(options), options + 0.5], [*counts, p.num_agents - counts.sum()], color=colours)
            left.set_xticks([options + 0.5], ["none"])
            left.set_title("agents by option", fontsize="medium")
            left.spines[["top", "right"]].set_visible(False)
        now = ~np.isnan(s.history[i, :, 0])
        rounds = np.append(np.flatnonzero(now) * self.params.horizon / (BANDS - 1), s.time[i] if s.time[i] else 1)
        shares = np.concatenate([s.history[i, now], popularity(s.preference[i : i + 1], options)])
        labels = [f"{k}: {eta:.2g}" if options <= 10 else "_" for k, eta in enumerate(p.eta)]
        right.stackplot(rounds, shares.T, colors=colours[:-1], labels=labels)
        right.set_xlim(0, self.params.horizon)
        right.set_ylim(0, 1)
        right.set_xlabel("round")
        right.set_title("popularity Q (option: quality)", fontsize="medium")
        if options <= 10:
            right.legend(loc="upper right", fontsize="small", framealpha=0.85)
        right.spines[["top", "right"]].set_visible(False)

    @cached_property
    def places(self) -> Array:
        """Where a picture puts the agents, float64[N, 2]: the complete graph on a circle, its edges left out."""
        if self.params.network.edges is None:
            angle = np.linspace(0, 2 * np.pi, self.params.num_agents, endpoint=False)
            return np.stack([np.cos(angle), np.sin(angle)], axis=1)
        import networkx as nx

        graph = nx.Graph(self.params.network.edges.tolist())
        layout = nx.kamada_kawai_layout(graph)
        return np.array([layout[node] for node in range(self.params.num_agents)])


class _World(World[SocialBandit, Params]):
    copies_of_paper = staticmethod(copies_of_paper)
    multiplicative_weights = staticmethod(multiplicative_weights)


social_bandit_v0 = _World(SocialBandit, Params)
