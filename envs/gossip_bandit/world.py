"""Can agents that remember only a preference find the best option by asking one another, if every answer is noisy?

Description
    N agents each prefer one of K options of unknown quality. Each has a Poisson clock. When it ticks, the agent asks
    all others (or one of them) for their preferences and receives perturbed replies. It may then pull an option and
    adopt it as its new preference, and forgets everything else. One step is one tick of one agent; the time between
    ticks is exponential with rate `N rate`.

Paper
    Chen, Tao, Yu, Li, Gong and Cheng 2021, Privacy-preserving collaborative learning for multiarmed bandits in IoT: the
    model of section III, popularity (equation 3), messages (equations 4 to 6). Asking one peer: the CBL of section VI,
    after Su, Zubeldia and Lynch 2018.

Agents
    `agent_0` to `agent_{N-1}`. One acts at a time: the agent with the next tick, uniform among all. In the array API
    each parallel environment gives one observation a step, that of the acting agent, so a learner that trains on
    `RowsVecEnv` sees one trajectory with the turns of all agents.

Observation
    Box float32, all fields in [0, 1]: `counts` [K], for each option the number of received replies in which its bit is
    1, over N; `received`, the number of received replies, over N; `own` [K], the agent's preference, one-hot (zeros:
    none); `q`, the probability that a 0 bit of a message is read as 1 (if agents choose the epsilon of their messages,
    its mean over the replies). Only the ticking agent receives replies.

Action
    MultiDiscrete [K + 1, 2, 2], a plan: the option to pull (K: none), whether to adopt it on signal 0, and whether on
    signal 1. With `flat_actions`, Discrete(4 (K + 1)), encoded as 4 * option + 2 * (adopt on 0) + (adopt on 1).

Reward
    To the ticking agent. With `reward="pull"`, the signal of the option that it pulls (equation 1), 0 if it pulls none.
    With "preference", a fresh signal of the option that it prefers afterwards, so the reward evaluates the decision
    immediately.

Termination
    Never, since a consensus may dissolve again. Truncated when the next tick would be later than `horizon`. If even the
    first tick is later, the first step does nothing and truncates the run.

Info
    `time`, of this tick; `option`, `signal`: the option pulled and its signal (-1: none); `all_zero`: true if every
    debiased count is at most 0; `consensus`: the option on which all agents reached agreement at this tick;
    `departure`: the option on which their agreement ended at this tick (-1: none); `popularity` [K], shares of the
    agents (hidden from them); `epsilon_per_requester`, the largest privacy loss of one agent to a single requester;
    `regret`: the sum over pulls so far of (best quality - quality). In PettingZoo also `acting`: whether the agent
    ticks next.

Privacy channels
    `preference`: one-hot vectors, read by the agent that asks. The unit is one message (event level). A tick charges
    every agent one reply, including the ticking agent; with `asks="one"`, only the agent asked. Mechanisms: those that
    answer bit by bit, and `Memoized`, with which agents repeat an answer until their preference changes. With
    `Memoized`, epsilon is finite only if the privacy budget of an agent covers at most one answer. With `Scheduled`,
    each agent draws one answer at a public time and repeats it.

    In the paper's form, "silent", agents without preference do not reply. The replies then reveal which agents have a
    preference, so epsilon is infinite, unless all agents begin with a preference, which they can change but not lose.
    With "zeros" all reply. A vector of zeros differs from a one-hot vector in one bit, whereas two one-hot vectors
    differ in two, so the mechanism's epsilon also bounds the privacy loss of such a message. The ticks, and the agents
    asked, depend on no preference, and an agent receives only its own reward and the replies to its own requests.
    `info` is for evaluation and shows hidden truth (`popularity`, `consensus`).

Arguments
    - num_agents: N >= 2.
    - qualities: phi of equation 1: "uniform" (drawn from [0, 1] at each reset, independently), "chen2021" (the paper's,
      for K = 2, 4 or 8, best first), or K >= 2 numbers in [0, 1].
    - num_options: K >= 2; None: the number of listed qualities, otherwise 4.
    - shuffle: whether each run permutes listed or named qualities. If not, a learner could memorise the best option.
    - rate: ticks of one agent's clock per unit of time, > 0.
    - horizon: length of a run in units of time, > 0; `options={"horizon": x}` at reset replaces it.
    - asks: "all" or "one" (one uniformly random agent, which may be the requester).
    - initial_preferences: "even" (agent i prefers option i mod K), "random", "none", or the N options (K: none).
    - without_preference: the reply of agents without a preference: none ("silent", the paper's form) or a message that
      names no option ("zeros").
    - reward: "pull" or "preference".
    - flat_actions: whether the action is Discrete.
    - message_levels: the mechanism sets the epsilon of messages ("installed"), or each agent chooses it before each
      turn by a separate action, in an additional role `communicator` ("chosen"; `taciturn.envs.core.LevelChoice`).
      "chosen" needs `without_preference="zeros"`.
    - levels: the epsilons to choose from, of which the first is 0; with "chosen" only.
    - epsilon_budget: privacy budget of an agent for a run (None: unlimited); with "chosen" only.

Deviations from the paper
    Consensus is not absorbing under finite epsilon: the estimate of an option without supporters can be positive by
    chance, and supporters of the best option can estimate its share below the adoption threshold of Algorithm 1.
    Theorem 1 (equation 36) can therefore hold only as a statement on first passage (`agreed_at`, `agreed_on`), or
    without noise; the K absorbing states of section V-A belong to the noiseless chain. The proof uses one estimate for
    all agents; here, as in Algorithm 1, every request gets a fresh answer. An agent also perturbs its reply to itself,
    as in line 4. The caption of Figure 1 and its text give different K (4 and 2); four qualities are listed, so K = 4.
    The text on Figure 2b says "when there are four agents"; its caption has K = 4 and no such N, so four arms are
    meant. For gap 0.3, Figure 4 has the configuration of Figure 2b, but the text gives around 30 rounds to convergence
    for Figure 4 and around 20 for Figure 2b; neither number reproduces. Theorem 2 concerns one message: nothing in the
    paper bounds the total privacy loss, and each tick of any agent costs every agent epsilon once more.

Registered configurations
    `taciturn/GossipBandit-v0` (PettingZoo): N=400, K=4, rate 1, qualities drawn at each reset. `qualities="chen2021"`,
    (.95, .65, .35, .05), gives the paper's baseline.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taciturn.channels.replies import read_distribution, reply_sums
from taciturn.envs.core import (
    Acts,
    Channel,
    Fast,
    Functions,
    Layout,
    LevelChoiceParams,
    Replicas,
    Role,
    World,
    preferences,
)
from taciturn.envs.core.preferences import InitialPreferences, SocialPopulation, best_options, led_by_wrong
from taciturn.envs.core.qualities import Instances, OptionParams
from taciturn.envs.gossip_bandit import drawing, ticks
from taciturn.envs.gossip_bandit.rule import Behaviour, GossipRule, reply_noise
from taciturn.envs.gossip_bandit.ticks import ManyTicks, State, popularity
from taciturn.privacy.spending import basic_cost
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number

# The paper's qualities, by K.
CHEN2021: dict[int, tuple[float, ...]] = {
    2: (0.8, 0.2),
    4: (0.95, 0.65, 0.35, 0.05),
    8: (0.92, 0.80, 0.68, 0.56, 0.44, 0.32, 0.20, 0.08),
}


@dataclass(frozen=True, kw_only=True)
class Params(OptionParams, LevelChoiceParams):
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
        choice("reward", self.reward, ("pull", "preference"))
        preferences.check_society(self)
        if not isinstance(self.initial_preferences, str):
            object.__setattr__(self, "initial_preferences", tuple(np.asarray(self.initial_preferences).tolist()))


def one_hot(preference: Array, num_options: int) -> Array:
    """The messages U before perturbation, int8[B, N, K]; zeros for no preference [Chen 4]."""
    return (preference[..., None] == np.arange(num_options)).astype(np.int8)


class GossipBandit(SocialPopulation[State], Replicas[State]):
    __doc__ = __doc__
    name = "gossip_bandit"
    params: Params
    clock_unit = "time"
    forgets = False
    hidden = frozenset({"qualities", "quality_distribution", "distribution"})
    jumps: Mapping[str, type[Fast]] = {"agent": GossipRule}
    state_type: ClassVar[Any] = State
    sources = ticks.SOURCES
    noise: ClassVar[Mapping[str, str]] = {"noise": "preference"}
    acts = "ticker"
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {"preference": ("sent", "answered")}
    info_valid_if: ClassVar[Mapping[str, str]] = {
        "option": "pulled", "signal": "pulled", "consensus": "agrees", "departure": "departs",
    }  # fmt: skip

    @property
    def functions(self) -> Functions:
        act = ticks.flat_plan if self.params.flat_actions else ticks.plan
        return Functions(reset=ticks.begin, act=act, receive=ticks.ends, observe=ticks.observe, info=ticks.fill_info)

    def make_channels(self) -> tuple[Channel, ...]:
        counted = self.params.asks == "all"  # then all agents answer all agents
        return (Channel("preference", "one_hot", observer="neighbour", unit="event", counted=counted),)

    def make_roles(self) -> tuple[Role, ...]:
        p = self.params
        layout = Layout(counts=(p.num_options, 0, 1), received=(1, 0, 1), own=(p.num_options, 0, 1), q=(1, 0, 1))
        return (Role("agent", p.num_agents, layout, preferences.plan_space(p.num_options, p.flat_actions)),)

    def public(self) -> dict[str, Any]:
        """`reply_scale`, the divisor of `counts` and `received` in observations, and `reply_distribution`, (p, q)."""
        return {"reply_scale": self.params.num_agents, "reply_distribution": self.reply_distribution}

    @property
    def given(self) -> Ints:
        """The first preferences that are fixed (not drawn), int64[N], K for none."""
        return preferences.given_options(
            self.params.initial_preferences, self.params.num_agents, self.params.num_options
        )

    def constants(self) -> Any:
        p, given = self.params, self.given
        return self.numbers(
            rate=float(p.rate),
            horizon=float(p.horizon),
            distribution=p.quality_distribution,
            first=np.where(given < p.num_options, given, -1),  # [N]: the preferences at the start, -1 for none
            random=isinstance(p.initial_preferences, str) and p.initial_preferences == "random",  # drawn at random
            one_peer=p.asks == "one",
            zeros=self.zeros,
            fresh_reward=p.reward == "preference",
            q=float(self.reply_distribution[1]),  # the probability that a 0 bit is read as 1
            epsilon=float(self.basic_epsilon(np.ones(1))[0]),  # epsilon of a reply, at most
        )

    def arrays(self) -> dict[str, Any]:
        p = self.params
        some_reply = p.asks == "one" or (not self.zeros and bool((self.given == p.num_options).any()))
        return super().arrays() | {
            "preference": np.zeros(p.num_agents, np.int16),
            "requests": np.zeros(p.num_agents, np.int32),
            "popularity": p.num_options,  # for infos; not in the State
            "answered": p.num_agents if some_reply else 0,
        }

    def on_reset(self, where: Bools) -> None:
        self.note_silence(self.column("preference"))
        if self.splits():
            self.between(where)

    def between(self, live: Bools) -> None:
        """Send the replies to the next requests through the channel: number with each bit set, [B, K], and number
        received, [B]."""
        channel, p = self.channels["preference"], self.params
        comes = live & self.column("comes")
        channel.live = comes
        preference, holders = self.column("preference"), self.column("holders")
        replies = None if self.zeros else preference >= 0
        if p.asks == "one":
            asked = np.arange(p.num_agents) == self.column("peer")[:, None]
            replies = asked if replies is None else replies & asked
        if p.asks == "all" and (replies is None or (replies.all(1) | ~comes).all()):
            zeros = p.num_agents - holders.sum(1) if self.zeros else None
            counts, received = channel.tally(holders, lambda: one_hot(preference, p.num_options), zeros)
        else:
            bits, delivered = channel.send(one_hot(preference, p.num_options), replies)
            counts, received = bits.sum(1, dtype=np.int64), delivered.sum(1)  # [Chen 6]
        self.column("counts")[comes] = counts[comes]
        self.column("received")[comes] = received[comes]
        if channel.takes_levels:
            self.column("read_q")[comes, 0] = read_distribution(channel)[1][comes]

    def remember(self) -> None:
        self.history.record(
            lambda: self.column("time").copy(), lambda: popularity(self.column("holders"), self.params.num_agents)
        )

    def empty_info(self) -> dict[str, Any]:
        events = dict.fromkeys(("option", "signal", "consensus", "departure"), -1)
        popularity = np.zeros(self.params.num_options)
        totals = {"popularity": popularity, "epsilon_per_requester": 0.0, "regret": 0.0, "all_zero": False}
        return {"time": 0.0} | events | totals

    def clock(self) -> Array:
        self._require_reset()
        return self.column("time").copy()

    def can_jump(self, until: float) -> bool:
        """False if agents without preference stay silent, since the replies then do not all have the same
        distribution."""
        everyone = self.column("holders").sum(1) == self.params.num_agents
        return bool(np.all(self.done | everyone | self.zeros | (self.params.asks == "one")))

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play on to `until` with agents that follow a `GossipRule`, drawing the sum of all replies to a request in one
        draw."""
        channel, p, distribution = self.channels["preference"], self.params, self.reply_distribution
        until, live, rule = min(until, p.horizon), ~self.done, forms["agent"]
        self.remember()
        sums = reply_sums(p.num_agents, *distribution) if p.asks == "all" and distribution != (1.0, 0.0) else None
        behaviour = Behaviour(
            np.ascontiguousarray(rule.weights, np.float64),
            float(rule.threshold),
            float(rule.explore),
            *map(bool, rule.adopts),
        )
        before = {name: self.column(name).copy() for name in ("sent", "answered")}
        known = ManyTicks(self._constants, behaviour, reply_noise(distribution, sums), float(until))
        ticks_left = p.num_agents * p.rate * float(np.maximum(until - self.column("time"), 0).mean())
        self.apply(ticks.play, live, known, ticks_left)
        channel.live = live
        if self.plain:
            channel.times += 1
        else:
            each = self.column("answered") - before["answered"]
            channel.record(self.column("sent") - before["sent"], each if each.any() else None)
        self.truncated = self.truncated | ~self.column("comes")

    def basic_epsilon(self, replies: Array) -> Floats:
        """Privacy loss of `replies` replies of one agent under basic composition, same shape as `replies`."""
        return basic_cost(self.channels["preference"].config.mechanism, replies)

    def agreed_on_best(self, state: State) -> Bools:
        """Whether the first consensus was on a best option, bool[B]."""
        on_best = np.take_along_axis(best_options(state.qualities), np.maximum(state.agreed_on, 0)[:, None], 1)[:, 0]
        return np.asarray(on_best & (state.agreed_on >= 0))

    def regret(self, state: State) -> Floats:
        """Sum over pulls of (best quality - quality), [B]."""
        return (state.pulls * (state.qualities.max(1, keepdims=True) - state.qualities)).sum(1)

    def popularity_regret(self, state: State) -> Floats:
        """Mean over ticks of (best quality - mean quality of the agents' preferences), [B]; no preference has quality
        0."""
        quality = (state.holder_ticks * state.qualities).sum(1)
        return state.qualities.max(1) - quality / (np.maximum(state.ticks, 1) * self.params.num_agents)

    def measures(self) -> dict[str, Callable[[], Array]]:
        """The quantities in `outcome`, [B]; `popularity` [B, K]; and by agent, [B, N]: `preference` (-1: none),
        `requests` (the agent's ticks), and `epsilon_per_requester`, the largest privacy loss of another agent to this
        one.
        """
        s, n = self.state, self.params.num_agents
        return {
            "popularity": lambda: popularity(s.holders, n),
            "best": lambda: (s.holders * best_options(s.qualities)).sum(1) / n,
            "wrong_option": lambda: led_by_wrong(s.holders, best_options(s.qualities)),
            "consensus": lambda: s.holders.max(1) == n,
            "agreed_on_best": lambda: self.agreed_on_best(s),
            "agreed_at": lambda: s.agreed_at,
            "departed_at": lambda: s.departed_at,
            "departures": lambda: s.departures,
            "regret": lambda: self.regret(s),
            "popularity_regret": lambda: self.popularity_regret(s),
            "reward": lambda: s.successes,
            "ticks": lambda: s.ticks,
            "pulls": lambda: s.pulls.sum(1),
            "all_zero": lambda: s.all_zero_ticks,
            "replies": lambda: self.channels["preference"].messages().max(1),
            "preference": lambda: s.preference,
            "requests": lambda: s.requests,
            "epsilon_per_requester": lambda: self.basic_epsilon(s.requests),
        }

    def outcome(self) -> dict[str, Array]:
        """The result of a run, [B].

        `best`: share of the agents that prefer a best option; `wrong_option`: whether another option has more
        supporters; `consensus`: whether all agents agree; `agreed_on_best`: whether the first consensus was on a best
        option; `agreed_at`, `departed_at`: when a consensus first began and first ended (inf: never); `departures`:
        number of consensuses that ended; `regret`: over pulls; `popularity_regret`: mean over ticks; `reward`: number
        of pulls with signal 1; `ticks`, `pulls`: number of ticks and of pulls; `all_zero`: number of ticks at which
        every debiased count is at most 0; `replies`: the largest number sent by one agent; `epsilon_per_requester`: the
        largest privacy loss of one agent to a single requester.
        """
        by_agent = ("popularity", "preference", "requests", "epsilon_per_requester")
        results = {
            name: np.array(value(), np.float64) for name, value in self.measures().items() if name not in by_agent
        }
        return results | {"epsilon_per_requester": self.basic_epsilon(self.state.requests.max(1))}

    describe, draw = drawing.describe, drawing.draw


gossip_bandit_v0 = World(GossipBandit, Params)
