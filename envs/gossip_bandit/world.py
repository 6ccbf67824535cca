"""Can agents who remember only a preference find the best option by asking one another, when every answer is noisy?

Description
    N agents each prefer one of K options of unknown quality. Each has a Poisson clock. When it ticks, the agent asks all others (or one of
    them) for their preferences and receives perturbed replies. It may then pull an option and adopt it as its new preference, and forgets
    everything else. One step is one tick of one agent; the time between ticks is exponential with rate `N rate`.

Paper
    Chen, Tao, Yu, Li, Gong and Cheng 2021, Privacy-preserving collaborative learning for multiarmed bandits in IoT: the model of section
    III, popularity (equation 3), messages (equations 4 to 6). Asking one peer: the CBL of section VI, after Su, Zubeldia and Lynch 2018.

Agents
    `agent_0` to `agent_{N-1}`. One acts at a time: the agent whose clock ticks next, uniform among all. In the array form a replica has
    one row, which belongs to another agent at every step, so a learner that follows a row (`RowsVecEnv`) sees the trajectory of the team.

Observation
    Box float32, all fields in [0, 1]: `counts` [K], the number of received replies in which the bit of each option is set, over N;
    `received`, the number of received replies, over N; `own` [K], the agent's preference, one-hot (zeros: none); `q`, the probability
    that a bit of a message is read as 1 if it is 0. Agents whose clock does not tick receive nothing.

Action
    MultiDiscrete [K + 1, 2, 2], a plan: the option to pull (K: none), whether to adopt it on signal 0, and whether on signal 1. With
    `flat_actions`, Discrete(4 (K + 1)): 4 option + 2 (adopt on 0) + (adopt on 1).

Reward
    To the agent whose clock ticks. `pull`: the signal of the option that it pulls (equation 1), 0 if it pulls none. `preference`: a fresh
    signal of the option that it prefers afterwards, so the reward evaluates the decision at once.

Termination
    Never, since a consensus may dissolve again. Truncated when the next tick would be later than `horizon`. If that holds for the very
    first tick, the first step does nothing and truncates the run.

Info
    `time`, of this tick; `option`, `signal`: the option pulled and its signal (-1: none); `all_zero`: true if every debiased count is at
    most 0; `consensus`, `departure`: the option, if this tick made all agents prefer it, or ended that (-1: no); `popularity` [K],
    shares of the agents (hidden from them); `epsilon_per_requester`, the largest privacy loss of one agent to a single requester;
    `regret`: the sum over pulls so far of (best quality - quality). In the PettingZoo forms `acting`: whether the agent ticks next.

Privacy channels
    `preference`: one-hot vectors, read by a neighbour, each an event. A tick charges every agent one reply, including the one that
    ticks; with `asks="one"`, only the peer that is asked. Mechanisms: those that answer bit by bit, and `Memoized`, with which agents
    repeat an answer until their preference changes, and which has a finite total only under a budget smaller than two answers.

    In the paper's form, "silent", agents without preference do not reply. Who replies, and how many do, then reveals who has one, so
    totals are infinite, unless all agents begin with a preference, which they can change but not lose. With "zeros" all
    reply. A vector of zeros differs from a one-hot vector in one bit, where two one-hot vectors differ in two, so epsilon of a message is
    still an upper bound. Who ticks, when, and whom it asks depends on no preference, and an agent receives nothing but its own reward and
    the replies to it. `info` is for evaluation and shows hidden truth (`popularity`, `consensus`).

Arguments
    - num_agents: N >= 2.
    - qualities: phi of equation 1: "uniform" (drawn from [0, 1] at each reset, independently), "chen2021" (the paper's, for K = 2, 4 or 8,
      best first), or K >= 2 numbers in [0, 1].
    - num_options: K >= 2; None: the number of listed qualities, otherwise 4.
    - shuffle: whether each run permutes listed or named qualities, which otherwise stay in their order, so that a learner could learn by
      heart which option is best.
    - rate: ticks of one agent's clock per unit of time, > 0.
    - horizon: length of a run in units of time, > 0; `options={"horizon": x}` at reset replaces it.
    - asks: "all" or "one" (one uniformly random agent, which may be the requester).
    - initial_preferences: "even" (agent i prefers option i mod K), "random", "none", or the N options (K: none).
    - without_preference: what agents without a preference reply: nothing ("silent", the paper's form) or, like everyone else, a message,
      which names no option ("zeros").
    - reward: "pull" or "preference".
    - flat_actions: whether the action is Discrete.

Deviations from the paper
    Consensus is not absorbing under finite epsilon: the estimate of an option without supporters can be positive by chance, and supporters
    of the best option can estimate its share below the threshold. Theorem 1 (equation 36) can therefore hold only as a statement on first
    passage (`agreed_at`, `agreed_on`), or without noise; the K absorbing states of section V-A are those of the noiseless chain. The proof
    uses one estimate for all agents; here, as in Algorithm 1, every request is answered afresh. An agent also perturbs its reply to
    itself, as in line 4. The caption of Figure 1 and its text give different K (4 and 2); four qualities are listed, so K = 4.
    Nothing in the paper bounds the total privacy loss: each tick of any agent costs every agent epsilon once more.

Registered configurations
    `taciturn/GossipBandit-v0` (PettingZoo): N=400, K=4, rate 1, qualities drawn at each reset. With `qualities="chen2021"`, which are
    (.95, .65, .35, .05), it is the paper's baseline.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from taciturn.envs.core import Acts, Fast, Layout, Role, Transition, World, preferences, select, updated
from taciturn.envs.core.preferences import (
    InitialPreferences,
    SocialPopulation,
    best_options,
    count_holders,
    led_by_wrong,
)
from taciturn.envs.core.qualities import Instances, OptionParams
from taciturn.envs.core.replies import reply_sums
from taciturn.envs.gossip_bandit import drawing
from taciturn.envs.gossip_bandit.ticks import GossipRule, many_ticks
from taciturn.privacy.base import Mechanism
from taciturn.privacy.spending import basic_cost
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number

__all__ = ["CHEN2021", "GossipBandit", "Params", "State", "gossip_bandit_v0"]

# The paper's qualities, by K.
CHEN2021: dict[int, tuple[float, ...]] = {
    2: (0.8, 0.2),
    4: (0.95, 0.65, 0.35, 0.05),
    8: (0.92, 0.80, 0.68, 0.56, 0.44, 0.32, 0.20, 0.08),
}


@dataclass(frozen=True, kw_only=True)
class Params(OptionParams):
    """See 'Arguments' above."""

    named: ClassVar[Instances] = {"chen2021": CHEN2021.get}
    usual_options: ClassVar[int] = 4

    num_agents: int = 400
    rate: float = 1.0
    horizon: float = 50.0
    asks: str = "all"
    initial_preferences: InitialPreferences = "even"
    without_preference: str = preferences.SILENT
    reward: str = "pull"
    flat_actions: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("num_agents", self.num_agents, at_least=2, at_most=MOST_NUMBERS)
        number("rate", self.rate, above=0)
        number("horizon", self.horizon, above=0)
        number(
            "num_agents * rate * horizon, the ticks of a run,",
            self.num_agents * self.rate * self.horizon,
            at_most=2.0**53,
        )
        choice("asks", self.asks, ("all", "one"))
        choice("without_preference", self.without_preference, (preferences.SILENT, preferences.ZEROS))
        choice("reward", self.reward, ("pull", "preference"))
        choice("flat_actions", self.flat_actions, (False, True))
        preferences.require_preferences(self.initial_preferences, self.num_agents, self.num_options)
        if not isinstance(self.initial_preferences, str):
            object.__setattr__(self, "initial_preferences", tuple(np.asarray(self.initial_preferences).tolist()))


@dataclass(frozen=True)
class State:
    """B populations, each with its next tick."""

    qualities: Floats  # [B, K]: phi of equation 1
    preference: Array  # int16[B, N]: C_i, -1 for none
    holders: Ints  # [B, K]: number of agents that prefer each option
    time: Floats  # [B]: of the last tick
    ticker: Ints  # [B, 1]: the agent that ticks next
    due: Floats  # [B]: time of the next tick
    counts: Ints  # [B, K]: replies to the next ticker in which each bit is set, N H of equation 6
    received: Ints  # [B]: number of those replies
    ticks: Ints  # [B]
    requests: Array  # int32[B, N]: ticks of each agent
    pulls: Ints  # [B, K]
    holder_ticks: Ints  # [B, K]: sum of `holders` over ticks
    successes: Ints  # [B]: pulls with signal 1
    all_zero_ticks: Ints  # [B]: ticks at which every debiased count was at most 0
    agreed_at: Floats  # [B]: time of the first consensus, inf: never
    agreed_on: Ints  # [B]: its option, -1: none
    departed_at: Floats  # [B]: time at which a consensus first ended, inf: never
    departures: Ints  # [B]: number of times that a consensus ended


def popularity(holders: Ints, num_agents: int) -> Floats:
    """F, the share of the agents that prefer each option, [B, K] [Chen 3]."""
    return holders / num_agents


def one_hot(preference: Array, num_options: int) -> Array:
    """The messages U before perturbation, int8[B, N, K]; zeros for no preference [Chen 4]."""
    return (preference[..., None] == np.arange(num_options)).astype(np.int8)


def draw_signal(option: Array, qualities: Floats, rng: np.random.Generator) -> Bools:
    """Signals theta of options int[B], Bernoulli of their qualities [B, K]; false for no option (-1 or K) [Chen 1]."""
    some = (option >= 0) & (option < qualities.shape[1])
    return some & (rng.random(option.shape) < qualities[np.arange(len(option)), np.where(some, option, 0)])


def add_replies(bits: Array, delivered: Bools) -> tuple[Ints, Ints]:
    """N H, the sums of the delivered replies `bits` [B, N, K], and their number [Chen 6]."""
    return (bits * delivered[..., None]).sum(1, dtype=np.int64), delivered.sum(1)


def all_zero(state: State, q: float) -> Bools:
    """Whether every debiased count of the next ticker is at most 0, [B]."""
    return np.asarray((state.counts - q * state.received[:, None] <= 0).all(1))


def tick(state: State, option: Ints, signal: Bools, adopts: Bools, happens: Bools) -> State:
    """The state after the next tick of the replicas in which it `happens` [B].

    The agent pulls `option` [B] (K: none), whose signal is `signal` [B], and `adopts` [B] it or not.
    """
    agents, options = state.preference.shape[1], state.holders.shape[1]
    rows, who = np.arange(len(option)), state.ticker[:, 0]
    own = state.preference[rows, who].astype(np.int64)
    pulls = happens & (option < options)
    moves = np.flatnonzero(pulls & adopts & (option != own))
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
    return updated(
        state, preference=preference, holders=holders, time=time, ticks=state.ticks + happens, requests=requests,
        pulls=done_pulls, holder_ticks=state.holder_ticks + state.holders * happens[:, None],
        successes=state.successes + (pulls & signal), agreed_at=np.where(first, time, state.agreed_at),
        agreed_on=np.where(first, holders.argmax(1), state.agreed_on),
        departed_at=np.where(departs & ~np.isfinite(state.departed_at), time, state.departed_at),
        departures=state.departures + departs,
    )  # fmt: skip


class GossipBandit(SocialPopulation[State]):
    __doc__ = __doc__
    name = "gossip_bandit"
    params: Params
    clock_unit = "time"
    forgets = False
    hidden = frozenset({"qualities"})
    jumps: Mapping[str, type[Fast]] = {"agent": GossipRule}

    @classmethod
    def length_of_cycles(cls, params: Any) -> tuple[float, str]:
        return 1 / (params.num_agents * params.rate), ""

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        layout = Layout(counts=(p.num_options, 0, 1), received=(1, 0, 1), own=(p.num_options, 0, 1), q=(1, 0, 1))
        return (Role("agent", p.num_agents, layout, preferences.plan_space(p.num_options, p.flat_actions)),)

    def public(self) -> dict[str, Any]:
        """`reply_scale`, by which `counts` and `received` are divided in observations, and `reply_law`, (p, q)."""
        return {"reply_scale": self.params.num_agents, "reply_law": self.reply_law}

    def initial(self) -> State:
        p, size = self.params, self.num_envs
        options = self.first_preferences()
        preference = np.where(options < p.num_options, options, -1).astype(np.int16)
        holders = count_holders(options, p.num_options)
        agreed = holders.max(1) == p.num_agents
        none, never = np.zeros(size, np.int64), np.full(size, np.inf)
        state = State(
            qualities=p.draw_qualities(size, self.stream("qualities")),
            preference=preference, holders=holders, time=np.zeros(size), ticker=none[:, None], due=np.zeros(size),
            counts=np.zeros_like(holders), received=none, ticks=none, requests=np.zeros(preference.shape, np.int32),
            pulls=np.zeros_like(holders), holder_ticks=np.zeros_like(holders), successes=none, all_zero_ticks=none,
            agreed_at=np.where(agreed, 0.0, never), agreed_on=np.where(agreed, holders.argmax(1), -1), departed_at=never,
            departures=none,
        )  # fmt: skip
        return self.schedule(state, np.zeros(size))

    def schedule(self, state: State, since: Array) -> State:
        """Draw the first tick after `since` [B] and the replies to its agent; nobody is asked after the end of the run."""
        clock = self.stream("clock")
        due = since + clock.standard_exponential(self.num_envs) / (self.params.num_agents * self.params.rate)
        ticker = clock.integers(0, self.params.num_agents, (self.num_envs, 1))
        comes = due <= self.params.horizon
        channel = self.channels["preference"]
        channel.live = channel.live & comes
        counts, received = self.ask(state)
        return updated(
            state, due=due, ticker=np.where(comes[:, None], ticker, state.ticker),
            counts=np.where(comes[:, None], counts, state.counts), received=np.where(comes, received, state.received),
        )  # fmt: skip

    def ask(self, state: State) -> tuple[Ints, Ints]:
        """The replies to the next ticker: number with each bit set, [B, K], and number received, [B]."""
        channel, p = self.channels["preference"], self.params
        replies = (state.preference >= 0) | self.zeros
        if p.asks == "one":
            peer = self.stream("peers").integers(0, p.num_agents, (self.num_envs, 1))
            replies &= np.arange(p.num_agents) == peer
        elif (replies.all(1) | ~channel.live).all():
            zeros = p.num_agents - state.holders.sum(1) if self.zeros else None
            return channel.tally(state.holders, lambda: one_hot(state.preference, p.num_options), zeros)
        return add_replies(*channel.send(one_hot(state.preference, p.num_options), replies))

    def tick(self, state: State, action: Array, happens: Bools) -> tuple[State, Ints, Bools]:
        """The state after the next tick with plans `action` [B, ...] where it `happens` [B], the options pulled, and their signals."""
        option, on_zero, on_one = preferences.split_plan(action, self.params.flat_actions)
        drawn = draw_signal(option, state.qualities, self.stream("pulls"))
        signal = self.private(drawn[:, None], state.ticker)[:, 0]
        after = tick(state, option, signal, np.where(signal, on_one, on_zero) == 1, happens)
        all_zero_ticks = state.all_zero_ticks + (happens & all_zero(state, self.reply_law[1]))
        return updated(after, all_zero_ticks=all_zero_ticks), option, signal

    def record_popularity(self, state: State) -> None:
        self.history.record(state.time, lambda: popularity(state.holders, self.params.num_agents))

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:
        happens = state.due <= self.params.horizon
        self.record_popularity(state)
        after, option, signal = self.tick(state, actions["agent"][:, 0], happens)
        reward = signal & happens
        if self.params.reward == "preference":
            own = after.preference[np.arange(self.num_envs), state.ticker[:, 0]]
            reward = draw_signal(own, state.qualities, self.stream("rewards")) & happens
        new = self.schedule(after, np.where(happens, after.time, np.inf))
        mechanism = self.channels["preference"].config.mechanism
        info = partial(self.inform, state, new, option, signal, happens, mechanism)
        truncated = new.due > self.params.horizon
        return new, {"agent": reward[:, None].astype(np.float64)}, np.zeros(self.num_envs, np.bool_), truncated, info

    def empty_info(self) -> dict[str, Any]:
        events = dict.fromkeys(("option", "signal", "consensus", "departure"), -1)
        popularity = np.zeros(self.params.num_options)
        totals = {"popularity": popularity, "epsilon_per_requester": 0.0, "regret": 0.0, "all_zero": False}
        return {"time": 0.0} | events | totals

    def inform(
        self, before: State, new: State, option: Ints, signal: Bools, happens: Bools, mechanism: Mechanism | None
    ) -> dict[str, Any]:
        """The info of a step; see the module's docstring."""
        n = self.params.num_agents
        pulls = happens & (option < self.params.num_options)
        agreed, agrees = before.holders.max(1) == n, new.holders.max(1) == n
        return {
            "time": new.time, "option": option, "_option": pulls, "signal": signal.astype(np.int64), "_signal": pulls,
            "consensus": new.holders.argmax(1), "_consensus": agrees & ~agreed, "departure": before.holders.argmax(1),
            "_departure": agreed & ~agrees, "popularity": popularity(new.holders, n),
            "epsilon_per_requester": basic_cost(mechanism, new.requests.max(1)), "regret": self.regret(new),
            "all_zero": new.all_zero_ticks > before.all_zero_ticks,
        }  # fmt: skip

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
            q=np.full(rows.shape, self.reply_law[1]),
        )

    def can_jump(self, until: float) -> bool:
        """Where agents without preference stay silent, the replies do not all have the same law."""
        heard_by_all = self.zeros or self.params.asks == "one" or self.state.holders.sum(1) == self.params.num_agents
        return bool(np.all(self.done | heard_by_all))

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play on to `until` with agents that follow a `GossipRule`.

        The next tick has been drawn already and is played as a step. The number of further ticks is Poisson; `many_ticks` plays them, with
        the sums of all replies to a request drawn at once.
        """
        channel, p, state = self.channels["preference"], self.params, self.state
        policy: Any = policies["agent"]
        until, law, replies = min(until, p.horizon), self.reply_law, 1 if p.asks == "one" else p.num_agents
        self.record_popularity(state)
        happens = ~self.done & (state.due <= until)
        if happens.any():
            state, _, _ = self.tick(state, policy.act(self.observe())[:, 0], happens)
        assert channel.rng is not None
        clock = self.stream("clock")
        ticks = np.where(happens, clock.poisson(p.num_agents * p.rate * np.maximum(until - state.time, 0)), 0)
        noisy = channel.config.mechanism is not None and law != (1.0, 0.0)
        changes, asked = many_ticks(
            state, ticks, until, forms["agent"], reply_sums(replies, *law) if noisy else None, one_peer=p.asks == "one",
            zeros=self.zeros, chance=int(law[1] * replies), streams=(clock, channel.rng, policy.rng, self.stream("pulls")),
        )  # fmt: skip
        state = updated(state, **changes)
        channel.live = happens
        if p.asks == "all":
            channel.record(everyone=ticks)
        else:
            channel.record(each=asked)
        coming = self.schedule(state, np.full(self.num_envs, until))
        self._state = select(happens, coming, state)
        self.truncated = self.truncated | (self._state.due > self.params.horizon)

    def basic_epsilon(self, replies: Array) -> Floats:
        """Privacy loss of `replies` replies of one agent under basic composition, of their shape."""
        return basic_cost(self.channels["preference"].config.mechanism, replies)

    def agreed_on_best(self, state: State) -> Bools:
        """Whether the first consensus was on such an option, bool[B]."""
        on_best = np.take_along_axis(best_options(state.qualities), np.maximum(state.agreed_on, 0)[:, None], 1)[:, 0]
        return np.asarray(on_best & (state.agreed_on >= 0))

    def regret(self, state: State) -> Floats:
        """Sum over pulls of (best quality - quality), [B]."""
        return (state.pulls * (state.qualities.max(1, keepdims=True) - state.qualities)).sum(1)

    def popularity_regret(self, state: State) -> Floats:
        """Mean over ticks of (best quality - mean quality of the agents' preferences), [B]; no preference has quality 0."""
        quality = (state.holder_ticks * state.qualities).sum(1)
        return state.qualities.max(1) - quality / (np.maximum(state.ticks, 1) * self.params.num_agents)

    def measures(self) -> dict[str, Callable[[], Array]]:
        """The quantities of `outcome`, [B]; `popularity` [B, K]; and by agent, [B, N]: `preference` (-1: none), `requests` (the agent's
        ticks), and `epsilon_per_requester`, the largest privacy loss of another agent to this one.
        """
        s, n = self.state, self.params.num_agents
        return {
            "popularity": lambda: popularity(s.holders, n),
            "best": lambda: (s.holders * best_options(s.qualities)).sum(1) / n,
            "wrong_option": lambda: led_by_wrong(s.holders, best_options(s.qualities)),
            "consensus": lambda: s.holders.max(1) == n, "agreed_on_best": lambda: self.agreed_on_best(s),
            "agreed_at": lambda: s.agreed_at, "departed_at": lambda: s.departed_at, "departures": lambda: s.departures,
            "regret": lambda: self.regret(s), "popularity_regret": lambda: self.popularity_regret(s),
            "reward": lambda: s.successes, "ticks": lambda: s.ticks, "pulls": lambda: s.pulls.sum(1),
            "all_zero": lambda: s.all_zero_ticks, "replies": lambda: self.channels["preference"].messages().max(1),
            "preference": lambda: s.preference, "requests": lambda: s.requests,
            "epsilon_per_requester": lambda: self.basic_epsilon(s.requests),
        }  # fmt: skip

    def outcome(self) -> dict[str, Array]:
        """The result of a run, [B].

        `best`: share of the agents that prefer the best option, or one of several; `wrong_option`: whether more agents prefer another
        one; `consensus`: whether all agents agree; `agreed_on_best`: whether the first consensus was on such an option; `agreed_at`,
        `departed_at`: when a consensus first began and first ended (inf: never); `departures`: number of consensuses that ended; `regret`
        of the pulls; `popularity_regret`, mean over ticks; `reward`: number of pulls with signal 1; `ticks`, `pulls`, `all_zero` ticks;
        `replies`: of the agent that sent most; `epsilon_per_requester`: the largest privacy loss of one agent to a single requester.
        """
        by_agent = ("popularity", "preference", "requests", "epsilon_per_requester")
        found = {name: np.array(value(), np.float64) for name, value in self.measures().items() if name not in by_agent}
        return found | {"epsilon_per_requester": self.basic_epsilon(self.state.requests.max(1))}

    describe, draw = drawing.describe, drawing.draw


gossip_bandit_v0 = World(GossipBandit, Params)
