"""Can agents who remember nothing but what they prefer find the best option by asking each other, when every answer is noisy?

Description
    N agents each prefer one of K options, of unknown qualities. Each has a Poisson clock; when it ticks, the agent asks all others (or
    one of them) what they prefer, hears perturbed answers, may pull an option, and may take it up as its new preference. Then it forgets
    all else. One step is one tick of one agent; time between ticks is exponential with rate `N rate`.

Paper
    Chen, Tao, Yu, Li, Gong and Cheng 2021, Privacy-preserving collaborative learning for multiarmed bandits in IoT: the model of section
    III, popularity (3), messages (4)-(6). One peer asked: the CBL of section VI, after Su, Zubeldia and Lynch 2018.

Agents
    `agent_0` to `agent_{N-1}`. One acts at a time: the one whose clock ticks next, uniform among all. As arrays a replica has one row, of
    another agent at every step: what a learner sees in a row (`RowsVecEnv`) is the team's run, not one agent's.

Observation
    Box float32, everything in [0, 1]: `counts` [K], how many of the replies that arrived have the bit of each option set, over N;
    `received`, how many replies arrived, over N; `own` [K], one-hot, the agent's preference (zeros: none); `flip`, the probability that a
    bit of a message that is 0 is read as 1. Agents whose clock does not tick hear nothing.

Action
    MultiDiscrete [K + 1, 2, 2], a plan: which option to pull (K: none), whether to take it up on signal 0, whether on signal 1. With
    `flat_actions`, Discrete(4 (K + 1)): 4 option + 2 (take up at 0) + (take up at 1).

Reward
    Of the agent that ticks. `pull`: the signal of the option it pulls, Bernoulli of its quality (1), 0 if it pulls none. `preference`: a
    fresh signal of the option it prefers afterwards, which says at once what a decision was worth.

Termination
    Never: a consensus may dissolve again. Truncated when the next tick would be later than `horizon`. A run whose very first tick would
    be that late is truncated by its first step, which does nothing.

Info
    `time`, of this tick; `option`, `signal`: what was pulled and what came of it, if something was; `all_zero`: whether the replies, less
    their bias, left no option anything; `consensus`, `departure`: the option, when this tick made all agents prefer it, or ended that;
    `popularity` [K], shares of the agents (hidden from them); `epsilon_per_requester`, the most that one requester can have got
    of it from one agent; `regret`, of the pulls so far: the sum over pulls of (best quality - quality).

Privacy channels
    `preference`: one-hot vectors, read by a neighbour, an event each. A tick charges every agent one reply, the one who ticks included;
    with `asks="one"` the one peer that is asked. Agents without preference stay silent. Mechanisms: those that answer bit by bit, and
    `Memoized`, under which agents repeat an answer for as long as their preference stays.

Arguments
    - num_agents: N >= 2.
    - qualities: K >= 2 numbers in [0, 1], phi of (1).
    - rate: of one agent's clock, > 0, ticks per unit of time.
    - horizon: > 0, in units of time; `options={"horizon": x}` at reset replaces it.
    - asks: "all" or "one" (a uniform one, maybe itself).
    - initial_preferences: "even" (agent i prefers option i mod K), "random", "none", or the N options (K: none).
    - reward: "pull" or "preference".
    - flat_actions: whether the action is Discrete.
    - shuffle: whether each run hands the qualities out to the options anew; a learner could otherwise learn by heart which option is best.

Deviations from the paper
    Consensus is not absorbing under finite epsilon: an extinct option keeps a positive estimate by chance, and so do the holders of the
    best one lose their share of it below the threshold. Theorem 1 (36) can hold as a statement on first passage only (`agreed_at`,
    `agreed_on`), or without noise; section V-A's K absorbing states are those of the noiseless chain. Its proof takes one estimate for all
    agents; here, as in Algorithm 1, every request is answered afresh. An agent that answers itself perturbs that answer too, as line 4 has
    it. Figure 1's caption and its text differ in K (4 and 2); four qualities are listed, and K = 4 is taken.
    Nothing in the paper bounds what an agent spends: each tick of each agent costs every agent epsilon once more.

Registered configurations
    `taciturn/GossipBandit-v0` (PettingZoo): the paper's baseline, N=400, K=4, qualities (.95, .65, .35, .05), rate 1.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
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
    vector,
)
from taciturn.envs.core.replies import reply_law, reply_sums, require_bits
from taciturn.envs.gossip_bandit import ticks as fused
from taciturn.envs.gossip_bandit.ticks import GossipRule, Tally
from taciturn.privacy.spending import basic_cost

__all__ = ["GossipBandit", "Params", "State", "gossip_bandit_v0"]


@dataclass(frozen=True, kw_only=True)
class Params:
    """The world's parameters."""

    num_agents: int = 400
    qualities: Sequence[float] = (0.95, 0.65, 0.35, 0.05)
    rate: float = 1.0
    horizon: float = 50.0
    asks: str = "all"
    initial_preferences: str | Sequence[int] = "even"
    reward: str = "pull"
    flat_actions: bool = False
    shuffle: bool = False

    def __post_init__(self) -> None:
        integer("num_agents", self.num_agents, at_least=2)
        qualities = vector("qualities", self.qualities)
        if not 2 <= qualities.size <= 1000:
            raise ValueError(f"qualities must be 2 to 1000 numbers, not {qualities.size}")
        for k, quality in enumerate(qualities.tolist()):
            number(f"qualities[{k}]", quality, at_least=0, at_most=1)
        object.__setattr__(self, "qualities", tuple(qualities.tolist()))
        number("rate", self.rate, above=0)
        number("horizon", self.horizon, above=0)
        choice("asks", self.asks, ("all", "one"))
        choice("reward", self.reward, ("pull", "preference"))
        choice("flat_actions", self.flat_actions, (False, True))
        choice("shuffle", self.shuffle, (False, True))
        if isinstance(self.initial_preferences, str):
            choice("initial_preferences", self.initial_preferences, ("even", "random", "none"))
        else:
            given = np.asarray(self.initial_preferences)
            if (
                given.shape != (self.num_agents,)
                or given.dtype.kind not in "iu"
                or given.min() < 0
                or given.max() > qualities.size
            ):
                raise ValueError(
                    f"initial_preferences must be 'even', 'random', 'none' or {self.num_agents} options from 0 to {qualities.size} "
                    f"({qualities.size}: none), not {self.initial_preferences!r}"
                )
            object.__setattr__(self, "initial_preferences", tuple(given.tolist()))

    @property
    def num_options(self) -> int:
        """K."""
        return len(self.qualities)


@dataclass(frozen=True)
class State:
    """B populations, each with the tick that comes next."""

    qualities: Array  # float64[B, K]: phi of (1)
    preference: Array  # int16[B, N]: C_i, -1 for none
    holders: Array  # int64[B, K]: how many prefer each option, N F of (3)
    time: Array  # float64[B]: of the last tick
    ticker: Array  # int64[B, 1]: who ticks next
    due: Array  # float64[B]: when
    counts: Array  # int64[B, K]: what it hears, N H of (6)
    received: Array  # int64[B]: replies that it hears
    ticks: Array  # int64[B]
    requests: Array  # int32[B, N]: ticks of each agent
    pulls: Array  # int64[B, K]
    held: Array  # int64[B, K]: sum of `holders` over ticks
    earned: Array  # int64[B]: signals of 1
    blanks: Array  # int64[B]: ticks whose replies left no option anything
    agreed_at: Array  # float64[B]: when all first preferred one option, inf: never
    agreed_on: Array  # int64[B]: which, -1: none
    departed_at: Array  # float64[B]: when a consensus first ended, inf: never
    departures: Array  # int64[B]: how often one did


def initial_preference(params: Params, size: int, rng: np.random.Generator) -> Array:
    """int16[size, N], -1 for none; `even` is line 2 of Algorithm 1."""
    options, shape, given = params.num_options, (size, params.num_agents), params.initial_preferences
    if given == "random":
        return rng.integers(0, options, shape).astype(np.int16)
    if isinstance(given, str):
        chosen = np.arange(params.num_agents) % options if given == "even" else np.full(params.num_agents, -1)
    else:
        chosen = np.where(np.array(given) < options, given, -1)
    return np.broadcast_to(chosen.astype(np.int16), shape).copy()


def count_holders(preference: Array, num_options: int) -> Array:
    """int64[B, K] of [B, N]."""
    return np.stack([(preference == k).sum(1) for k in range(num_options)], 1)


def one_hot(preference: Array, num_options: int) -> Array:
    """U of (4), int8[B, N, K]; zeros for no preference."""
    return (preference[..., None] == np.arange(num_options)).astype(np.int8)


def draw_signal(option: Array, qualities: Array, rng: np.random.Generator) -> Array:
    """Signals (1) of options int[B], of qualities float64[B, K]: bool[B]; none (-1 or K) gives none."""
    some = (option >= 0) & (option < qualities.shape[1])
    return some & (rng.random(option.shape) < qualities[np.arange(len(option)), np.where(some, option, 0)])


def decode(action: Array) -> tuple[Array, Array, Array]:
    """(option, take up at 0, at 1) of flat actions."""
    return action // 4, action // 2 % 2, action % 2


def tick(state: State, option: Array, signal: Array, takes: Array, happens: Array) -> State:
    """The state after the ticks that are due, in the replicas where one `happens` bool[B].

    Args:
        state: before; `ticker` and `due` say whose tick it is, and when.
        option: int64[B], pulled; K for none.
        signal: bool[B].
        takes: bool[B], whether the option is taken up.
        happens: bool[B].
    """
    agents, options = state.preference.shape[1], state.holders.shape[1]
    rows, who = np.arange(len(option)), state.ticker[:, 0]
    own = state.preference[rows, who].astype(np.int64)
    pulls = happens & (option < options)
    moves = np.flatnonzero(pulls & takes & (option != own))
    losers = moves[own[moves] >= 0]
    preference, holders, requests = state.preference.copy(), state.holders.copy(), state.requests.copy()
    preference[moves, who[moves]] = option[moves]
    holders[losers, own[losers]] -= 1
    holders[moves, option[moves]] += 1
    requests[rows, who] += happens
    done_pulls = state.pulls.copy()
    done_pulls[rows, np.where(pulls, option, 0)] += pulls
    agreed, agrees = state.holders.max(1) == agents, holders.max(1) == agents
    first = agrees & (state.agreed_on < 0)
    departs = agreed & (holders != state.holders).any(1)
    time = np.where(happens, state.due, state.time)
    return replace(
        state,
        preference=preference,
        holders=holders,
        time=time,
        ticks=state.ticks + happens,
        requests=requests,
        pulls=done_pulls,
        held=state.held + state.holders * happens[:, None],
        earned=state.earned + (pulls & signal),
        agreed_at=np.where(first, time, state.agreed_at),
        agreed_on=np.where(first, holders.argmax(1), state.agreed_on),
        departed_at=np.where(departs & ~np.isfinite(state.departed_at), time, state.departed_at),
        departures=state.departures + departs,
    )


def tick_times(
    marks: Sequence[Array], ticks: Array, since: Array, until: float, rng: np.random.Generator
) -> list[Array]:
    """When some of the `ticks` int64[B] that fell into (since, until] did: order statistics of uniform times, drawn one after another.

    Args:
        marks: which ticks, int64[B] counted from 1, none below the one before it; 0 gives `since`.
        ticks: how many there were.
        since: float64[B].
        until: the end.
        rng: draws them.
    """
    place, time, times = np.zeros_like(ticks), np.broadcast_to(since, ticks.shape).astype(np.float64), []
    for mark in marks:
        later = mark > place
        share = rng.beta(np.where(later, mark - place, 1), np.where(later, ticks - mark + 1, 1))
        time = np.where(later, time + (until - time) * share, time)
        place = np.maximum(place, mark)
        times.append(time)
    return times


class Trail:
    """What pictures show of the past: every so often, the time and who held what; at most `most` of them, evenly over steps."""

    def __init__(self, most: int = 400) -> None:
        self.most, self.stride, self.seen = most, 1, 0
        self.states: list[tuple[Array, Array]] = []

    def note(self, state: State) -> None:
        """Keep it, if it is its turn."""
        if self.seen % self.stride == 0:
            self.states.append((state.time, state.holders))
            if len(self.states) == self.most:
                self.states, self.stride = self.states[::2], 2 * self.stride
        self.seen += 1

    def of(self, state: State, replica: int) -> tuple[Array, Array]:
        """Times, and holders [times, K], of one replica's run up to `state`."""
        past = [*self.states, (state.time, state.holders)]
        times, holders = (np.array([part[i][replica] for part in past]) for i in (0, 1))
        begun = np.flatnonzero(np.diff(times) < 0)
        first = begun[-1] + 1 if begun.size else 0
        return times[first:], holders[first:]


class GossipBandit(Population[State]):
    __doc__ = __doc__
    name = "gossip_bandit"
    params: Params
    clock_unit = "time"
    hidden = frozenset({"qualities"})
    jumps: Mapping[str, type[Fast]] = {"agent": GossipRule}

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        layout = Layout(counts=(p.num_options, 0, 1), received=(1, 0, 1), own=(p.num_options, 0, 1), flip=(1, 0, 1))
        spaces = gymnasium.spaces
        plan, flat = spaces.MultiDiscrete([p.num_options + 1, 2, 2]), spaces.Discrete(4 * (p.num_options + 1))
        return (Role("agent", p.num_agents, layout, flat if p.flat_actions else plan),)

    def make_channels(self) -> tuple[Channel, ...]:
        return (Channel("preference", "one_hot", observer="neighbour", unit="event"),)

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        require_bits(channel, config)

    def public(self) -> dict[str, Any]:
        """`reply_scale`, what `counts` and `received` in an observation are divided by; `reply_law`, (p, q)."""
        return {"reply_scale": self.params.num_agents, "reply_law": self.reply_law}

    def practice_params(self) -> Params:
        return replace(self.params, shuffle=True)

    @property
    def reply_law(self) -> tuple[float, float]:
        """(p, q): the probabilities that a bit of a message is read as 1 where it is 1, and where it is 0."""
        return reply_law(self.channels["preference"])

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None, where: Array | None = None
    ) -> tuple[Any, dict[str, Any]]:
        begun = super().reset(seed=seed, options=options, where=where)
        if where is None:
            self._trail = Trail()
        return begun

    # Ticks, one at a time.

    def initial(self) -> State:
        p, size = self.params, self.num_envs
        preference = initial_preference(p, size, self.stream("preferences"))
        holders = count_holders(preference, p.num_options)
        agreed = holders.max(1) == p.num_agents
        none, never = np.zeros(size, np.int64), np.full(size, np.inf)
        qualities = np.broadcast_to(np.array(p.qualities), (size, p.num_options)).copy()
        if p.shuffle:
            qualities = self.stream("qualities").permuted(qualities, axis=1)
        state = State(
            qualities=qualities, preference=preference, holders=holders, time=np.zeros(size), ticker=none[:, None], due=np.zeros(size),
            counts=np.zeros_like(holders), received=none, ticks=none, requests=np.zeros(preference.shape, np.int32),
            pulls=np.zeros_like(holders), held=np.zeros_like(holders), earned=none, blanks=none,
            agreed_at=np.where(agreed, 0.0, never), agreed_on=np.where(agreed, holders.argmax(1), -1), departed_at=never,
            departures=none,
        )  # fmt: skip
        return self.schedule(state, np.zeros(size))

    def schedule(self, state: State, since: Array) -> State:
        """Draw the first tick after `since` float64[B], and what its agent hears; nothing is asked after the end."""
        clock = self.stream("clock")
        due = since + clock.standard_exponential(self.num_envs) / (self.params.num_agents * self.params.rate)
        ticker = clock.integers(0, self.params.num_agents, (self.num_envs, 1))
        comes = due <= self.params.horizon
        channel = self.channels["preference"]
        channel.live = channel.live & comes
        counts, received = self.ask(state)
        return replace(
            state,
            due=due,
            ticker=np.where(comes[:, None], ticker, state.ticker),
            counts=np.where(comes[:, None], counts, state.counts),
            received=np.where(comes, received, state.received),
        )

    def ask(self, state: State) -> tuple[Array, Array]:
        """What an agent hears that ticks now: bits set, int64[B, K] (6), and replies, int64[B]."""
        channel, p = self.channels["preference"], self.params
        has = state.preference >= 0
        if p.asks == "one":
            peer = self.stream("peers").integers(0, p.num_agents, (self.num_envs, 1))
            has &= np.arange(p.num_agents) == peer
        elif (has.all(1) | ~channel.live).all():
            return channel.tally(state.holders, lambda: one_hot(state.preference, p.num_options))
        said, delivered = channel.send(one_hot(state.preference, p.num_options), has)
        return (said * delivered[..., None]).sum(1, dtype=np.int64), delivered.sum(1)

    def all_zero(self, state: State) -> Array:
        """Whether no option has more bits set than chance alone would, bool[B]."""
        excess: Array = state.counts - self.reply_law[1] * state.received[:, None]
        return np.asarray((excess <= 0).all(1))

    def transition(
        self, state: State, actions: dict[str, Array]
    ) -> tuple[State, dict[str, Array], Array, Array, dict[str, Any]]:
        p, action = self.params, actions["agent"][:, 0]
        option, on_zero, on_one = decode(action) if p.flat_actions else action.T
        happens = state.due <= self.params.horizon
        self._trail.note(state)
        signal = draw_signal(option, state.qualities, self.stream("pulls"))
        all_zero = happens & self.all_zero(state)
        after = tick(state, option, signal, np.where(signal, on_one, on_zero) == 1, happens)
        after = replace(after, blanks=state.blanks + all_zero)
        reward = signal & happens
        if p.reward == "preference":
            mine = after.preference[np.arange(self.num_envs), state.ticker[:, 0]]
            reward = draw_signal(mine, state.qualities, self.stream("rewards")) & happens
        new = self.schedule(after, np.where(happens, after.time, np.inf))
        truncated = new.due > self.params.horizon
        info = self.inform(state, new, option, signal, happens) | {"all_zero": all_zero}
        return new, {"agent": reward[:, None].astype(np.float64)}, np.zeros(self.num_envs, np.bool_), truncated, info

    def inform(self, before: State, new: State, option: Array, signal: Array, happens: Array) -> dict[str, Any]:
        """The info of a step, [B, ...]."""
        pulls = happens & (option < self.params.num_options)
        agreed, agrees = before.holders.max(1) == self.params.num_agents, new.holders.max(1) == self.params.num_agents
        return {
            "time": new.time,
            "option": option,
            "_option": pulls,
            "signal": signal.astype(np.int64),
            "_signal": pulls,
            "consensus": new.holders.argmax(1),
            "_consensus": agrees & ~agreed,
            "departure": before.holders.argmax(1),
            "_departure": agreed & ~agrees,
            "popularity": new.holders / self.params.num_agents,
            "epsilon_per_requester": self.spent(new.requests.max(1)),
            "regret": self.regret(new),
        }

    def acting(self, role: str) -> Array:
        return self.state.ticker

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        agents, options = self.params.num_agents, self.params.num_options
        rows = np.broadcast_to(np.arange(agents), state.preference.shape) if rows is None else rows
        hears = (rows == state.ticker) / agents
        return self.roles[role].layout.pack(
            counts=hears[..., None] * state.counts[:, None],
            received=hears * state.received[:, None],
            own=one_hot(np.take_along_axis(state.preference, rows, 1), options),
            flip=np.full(rows.shape, self.reply_law[1]),
        )

    def clock(self) -> Array:
        return self.state.time

    # Many ticks at once.

    def can_jump(self, until: float) -> bool:
        """Who has no preference stays silent, and then not every reply has the same law."""
        heard_by_all = self.params.asks == "one" or self.state.holders.sum(1) == self.params.num_agents
        return bool(np.all(self.done | heard_by_all))

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play on to `until` where agents follow a `GossipRule`.

        The tick that is due is played as ever. How many follow it in the time that is left is Poisson; what is heard at each has the law
        (5)-(6), drawn for all agents at once by `ReplySums`; `taciturn.envs.gossip_bandit.ticks` plays them.
        """
        (policy,), channel, p = policies.values(), self.channels["preference"], self.params
        rule, state, until = forms["agent"], self.state, min(until, self.params.horizon)
        self._trail.note(state)
        happens = ~self.done & (state.due <= until)
        state = self._first(state, policy, happens)
        ticks = np.where(
            happens, self.stream("clock").poisson(p.num_agents * p.rate * np.maximum(until - state.time, 0)), 0
        )
        state, replies = self._ticks(state, policy, rule, ticks, until)
        channel.live = happens
        if p.asks == "all":
            channel.record(everyone=ticks)
        else:
            channel.record(each=replies)
        coming = self.schedule(state, np.full(self.num_envs, until))
        pending = {name: getattr(coming, name) for name in ("due", "ticker", "counts", "received")}
        kept = {name: np.where(_as(happens, new), new, getattr(state, name)) for name, new in pending.items()}
        self._state = replace(state, **kept)
        self.truncated = self.truncated | (self._state.due > self.params.horizon)

    def _first(self, state: State, policy: Acts, happens: Array) -> State:
        """Play the tick that is due, where it `happens`."""
        if not happens.any():
            return state
        p, action = self.params, policy.act(self.observe())[:, 0]
        option, on_zero, on_one = decode(action) if p.flat_actions else action.T
        signal = draw_signal(option, state.qualities, self.stream("pulls"))
        after = tick(state, option, signal, np.where(signal, on_one, on_zero) == 1, happens)
        return replace(after, blanks=state.blanks + (happens & self.all_zero(state)))

    def _ticks(self, state: State, policy: Any, rule: GossipRule, ticks: Array, until: float) -> tuple[State, Array]:
        """The state after `ticks` int64[B] more, by `until`, and how often each agent was asked alone."""
        p, mechanism = self.params, self.channels["preference"].config.mechanism
        live = np.flatnonzero(ticks)
        one_peer = p.asks == "one"
        law, none = self.reply_law, np.zeros(live.size, np.int64)
        asked = np.zeros((self.num_envs, p.num_agents if one_peer else 0), np.int64)
        tally = Tally(
            state.preference[live], state.holders[live], state.requests[live], asked[live], state.pulls[live], state.held[live],
            state.earned[live], state.blanks[live], state.departures[live], none, none - 1, none.copy(),
        )  # fmt: skip
        noise = self.channels["preference"].rng
        assert noise is not None
        fused.play(
            tally,
            ticks[live],
            rule,
            None if mechanism is None or law == (1.0, 0.0) else reply_sums(1 if one_peer else p.num_agents, *law),
            state.qualities[live],
            one_peer=one_peer,
            chance=int(law[1] * (1 if one_peer else p.num_agents)),
            streams=(self.stream("clock"), noise, policy.rng, self.stream("pulls")),
            fast=ticks.sum() >= COMPILE_FROM and find_spec("numba") is not None,
        )
        first = (tally.agreed > 0) & (state.agreed_on[live] < 0)
        # A consensus that is not the first may follow the first departure.
        marks = np.where(first, tally.agreed, 0), tally.departed, ticks[live]
        agreed, departed, last = tick_times(marks, ticks[live], state.time[live], until, self.stream("clock"))
        leaves = (tally.departed > 0) & ~np.isfinite(state.departed_at[live])
        new = {field.name: getattr(state, field.name).copy() for field in fields(state)}
        for name in ("preference", "holders", "requests", "pulls", "held", "earned", "blanks", "departures"):
            new[name][live] = getattr(tally, name)
        asked[live] = tally.replies
        new["time"][live], new["ticks"] = last, state.ticks + ticks
        new["agreed_at"][live] = np.where(first, agreed, state.agreed_at[live])
        new["agreed_on"][live] = np.where(first, tally.agreed_on, state.agreed_on[live])
        new["departed_at"][live] = np.where(leaves, departed, state.departed_at[live])
        return State(**new), asked

    # What came of it.

    def spent(self, replies: Array) -> Array:
        """What so many replies of one agent cost under basic composition: float64 of their shape."""
        return basic_cost(self.channels["preference"].config.mechanism, replies)

    def regret(self, state: State) -> Array:
        """The sum over pulls of (best quality - quality), float64[B]."""
        return (state.pulls * (state.qualities.max(1, keepdims=True) - state.qualities)).sum(1)

    def popularity_regret(self, state: State) -> Array:
        """The mean over ticks of (best quality - mean quality of what agents prefer), float64[B]; no preference has quality 0."""
        earned = (state.held * state.qualities).sum(1)
        return state.qualities.max(1) - earned / (np.maximum(state.ticks, 1) * self.params.num_agents)

    def measures(self) -> dict[str, Callable[[], Array]]:
        """What `outcome` explains, [B], `popularity` [B, K], and by agent [B, N]: `preference` (-1: none), `requests` (its ticks) and
        `epsilon_per_requester`, the most that it can have got from one agent.
        """
        s, n = self.state, self.params.num_agents
        return {
            "popularity": lambda: s.holders / n,
            "best": lambda: _of_best(s) / n,
            "consensus": lambda: s.holders.max(1) == n,
            "ticks": lambda: s.ticks,
            "departures": lambda: s.departures,
            "regret": lambda: self.regret(s),
            "popularity_regret": lambda: self.popularity_regret(s),
            "all_zero": lambda: s.blanks,
            "preference": lambda: s.preference,
            "requests": lambda: s.requests,
            "epsilon_per_requester": lambda: self.spent(s.requests),
        }

    def outcome(self) -> dict[str, Array]:
        """How a run ended, [B].

        `best`: share of the agents that prefer the best option; `consensus`: whether all agree, `agreed_on_best`: whether the first option
        they agreed on is the best, `agreed_at`, `departed_at`: when they first did and first stopped to (inf: never), `departures`;
        `regret` of the pulls; `popularity_regret`, mean over ticks; `reward`, the signals of 1 among the pulls; `ticks`, `pulls`,
        `all_zero` ticks; `replies`: of the agent that sent most; `epsilon_per_requester`: the most that one
        requester can have got from one agent.
        """
        s, n = self.state, self.params.num_agents
        return {
            "best": _of_best(s) / n,
            "consensus": (s.holders.max(1) == n).astype(np.float64),
            "agreed_on_best": (s.agreed_on == s.qualities.argmax(1)).astype(np.float64),
            "agreed_at": s.agreed_at.copy(),
            "departed_at": s.departed_at.copy(),
            "departures": s.departures.astype(np.float64),
            "regret": self.regret(s),
            "popularity_regret": self.popularity_regret(s),
            "reward": s.earned.astype(np.float64),
            "ticks": s.ticks.astype(np.float64),
            "pulls": s.pulls.sum(1).astype(np.float64),
            "all_zero": s.blanks.astype(np.float64),
            "replies": self.channels["preference"].messages().max(1).astype(np.float64),
            "epsilon_per_requester": self.spent(s.requests.max(1)),
        }

    def describe(self, replica: int = 0) -> str:
        s, i = self.state, replica
        shares = " ".join(f"{share:.3f}" for share in s.holders[i] / self.params.num_agents)
        heard = " ".join(map(str, s.counts[i].tolist()))
        return (
            f"t={s.time[i]:9.4f}  ticks {s.ticks[i]:6d}  shares [{shares}]  next agent_{s.ticker[i, 0]}, "
            f"who prefers {s.preference[i, s.ticker[i, 0]]}, hears [{heard}] of {s.received[i]}"
        )

    def draw(self, axes: Any, replica: int = 0) -> None:
        """Agents as dots coloured by what they prefer (2,500 of them at most), and the shares so far as bands."""
        from matplotlib import colormaps

        s, p, i, options = self.state, self.params, replica, self.params.num_options
        colours = [
            COLOURS[k] if options <= len(COLOURS) else colormaps["turbo"](k / (options - 1)) for k in range(options)
        ]
        axes.set_axis_off()
        title = f"t = {s.time[i]:.2f} of {self.params.horizon:g}: {_of_best(s)[i] / p.num_agents:.1%} prefer the best option"
        axes.set_title(title, loc="left")
        dots, bands = axes.inset_axes((0, 0.02, 0.44, 0.94)), axes.inset_axes((0.54, 0.13, 0.45, 0.8))
        shown = np.unique(np.linspace(0, p.num_agents - 1, min(p.num_agents, 2500)).astype(int))
        side = int(np.ceil(np.sqrt(shown.size)))
        x, y = np.arange(shown.size) % side, -(np.arange(shown.size) // side)
        dots.scatter(
            x, y, s=(150 / side) ** 2, c=[[*colours, "#dddddd"][k] for k in s.preference[i, shown]], linewidths=0
        )
        dots.set_xlim(-0.6, side - 0.4)
        dots.set_ylim(0.4 - side, 0.6)
        dots.set_aspect("equal")
        dots.set_axis_off()
        times, holders = self._trail.of(s, i)
        labels = [f"{k}: {quality:g}" if options <= len(COLOURS) else "_" for k, quality in enumerate(s.qualities[i])]
        bands.stackplot(times, (holders / p.num_agents).T, colors=colours, labels=labels)
        bands.set_xlim(0, self.params.horizon)
        bands.set_ylim(0, 1)
        bands.set_xlabel("time")
        bands.set_title("shares (option: quality)", fontsize="medium")
        bands.spines[["top", "right"]].set_visible(False)
        if options <= len(COLOURS):
            bands.legend(loc="lower right", fontsize="small")


# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")

# Ticks for which compiling the loop, about 2 s, is worth it.
COMPILE_FROM = 500_000


def _of_best(state: State) -> Array:
    """How many agents prefer the best option, int64[B]."""
    return state.holders[np.arange(len(state.holders)), state.qualities.argmax(1)]


def _as(mask: Array, like: Array) -> Array:
    return mask.reshape(-1, *[1] * (like.ndim - 1))


gossip_bandit_v0 = World(GossipBandit, Params)
