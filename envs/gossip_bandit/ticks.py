"""A population of gossiping agents, tick by tick, in the form required by `taciturn.envs.core.hooks.Hooks`."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from taciturn.envs.core import fields, private, uniform
from taciturn.envs.core.qualities import fill_qualities
from taciturn.envs.gossip_bandit.rule import Behaviour, ReplyNoise, add_reply_noise, choose
from taciturn.validation import Array, Bools, Floats, Ints

# The sources of random numbers.
SOURCES = ("qualities", "preferences", "clock", "peers", "pulls", "rewards", "choices", "noise")
QUALITIES, PREFERENCES, CLOCK, PEERS, PULLS, REWARDS, CHOICES, NOISE = range(len(SOURCES))


@dataclass(frozen=True)
class State:
    """A population with its next tick; from outside, each field has a leading axis [B]."""

    qualities: Floats = fields.hidden(lambda p: p.num_options)  # phi of equation 1
    preference: Array = fields.own()  # int16[N]: C_i, -1 for none
    holders: Ints = fields.hidden(lambda p: p.num_options)  # number of agents that prefer each option
    time: Floats = fields.public()  # time of the last tick
    ticker: Ints = fields.public(lambda p: 1)  # the agent that ticks next
    due: Floats = fields.hidden()  # time of the next tick
    comes: Bools = fields.hidden()  # whether the next tick is within the run
    # Replies to the next ticker in which each bit is set, N H of equation 6,
    counts: Ints = fields.received(lambda p: p.num_options, each=False)
    received: Ints = fields.received(each=False)  # number of these replies
    read_q: Floats = fields.public(lambda p: 1)  # the probability that a 0 bit is read as 1 (the mean)
    peer: Ints = fields.public()  # the agent asked, if only one is
    sent: Ints = fields.public()  # requests answered by all agents
    answered: Ints = fields.public()  # [N]: additional answers of each agent
    ticks: Ints = fields.public()
    requests: Array = fields.public()  # int32[N]: ticks of each agent
    most_requests: Ints = fields.public()  # the largest of these
    pulls: Ints = fields.hidden(lambda p: p.num_options)
    holder_ticks: Ints = fields.hidden(lambda p: p.num_options)  # sum of `holders` over ticks
    successes: Ints = fields.hidden()  # pulls with signal 1
    all_zero_ticks: Ints = fields.hidden()  # ticks at which every debiased count was at most 0
    agreed_at: Floats = fields.hidden()  # time of the first consensus, inf: never
    agreed_on: Ints = fields.hidden()  # the option agreed on, -1: none
    departed_at: Floats = fields.hidden()  # time at which a consensus first ended, inf: never
    departures: Ints = fields.hidden()  # number of times that a consensus ended
    all_zero: Bools = fields.hidden()  # last tick: whether every debiased count was at most 0
    pulled: Bools = fields.hidden()  # last tick: whether an option was pulled
    option: Ints = fields.hidden()  # last tick: the option
    signal: Ints = fields.hidden()  # last tick: its signal
    agrees: Bools = fields.hidden()  # last tick: whether it created a consensus
    departs: Bools = fields.hidden()  # last tick: whether it ended one
    left: Ints = fields.hidden()  # last tick: the option of the ended consensus


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw the qualities, the first preferences, and the first tick."""
    fill_qualities(arrays.qualities, params.distribution, rng, QUALITIES)
    options = len(arrays.qualities)
    for i in range(params.num_agents):
        first = int(uniform(rng, PREFERENCES) * options) if params.random else params.first[i]
        arrays.preference[i] = private(i, first)
        if arrays.preference[i] >= 0:
            arrays.holders[arrays.preference[i]] += 1
    arrays.read_q[0] = params.q
    state.agreed_at, state.agreed_on, state.departed_at = math.inf, -1, math.inf
    for k in range(options):
        if arrays.holders[k] == params.num_agents:
            state.agreed_at, state.agreed_on = 0.0, k
    schedule(state, arrays, params, rng)


def schedule(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw the next tick and ask for its agent; no agent is asked after the end of the run."""
    state.due = state.time - math.log1p(-uniform(rng, CLOCK)) / (params.num_agents * params.rate)
    ticker = int(uniform(rng, CLOCK) * params.num_agents)
    state.comes = state.due <= params.horizon
    if state.comes:
        arrays.ticker[0] = ticker
        ask(state, arrays, params, rng)


def ask(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """The replies to the next ticker [Chen 4, 6], and who sent them."""
    options = len(arrays.holders)
    if params.one_peer:
        state.peer = int(uniform(rng, PEERS) * params.num_agents)
        preference = arrays.preference[state.peer]
        for k in range(options):
            arrays.counts[k] = preference == k
        state.received = 1 if preference >= 0 or params.zeros else 0
        arrays.answered[state.peer] += state.received
        return
    state.received = 0
    for k in range(options):
        arrays.counts[k] = arrays.holders[k]
        state.received += arrays.holders[k]
    if params.zeros or state.received == params.num_agents:
        state.received = params.num_agents
        state.sent += 1
        return
    for i in range(params.num_agents):
        arrays.answered[i] += arrays.preference[i] >= 0


def nobody_counts(counts: Any, received: int, q: float) -> bool:
    """Whether every debiased count is at most 0."""
    positive = 0
    for k in range(len(counts)):
        positive += counts[k] - q * received > 0.0
    return positive == 0


def draw_signal(option: int, qualities: Any, rng: Any, source: int) -> bool:
    """The signal theta of an option, Bernoulli of its quality; false for no option [Chen 1]."""
    drawn = uniform(rng, source)
    return 0 <= option < len(qualities) and drawn < qualities[option]


def adopt(state: Any, arrays: Any, agent: int, option: int, params: Any) -> None:
    """An agent changes its preference to `option`."""
    own = arrays.preference[agent]
    if own >= 0:
        state.departs = arrays.holders[own] == params.num_agents
        arrays.holders[own] -= 1
    if state.departs:
        state.left = own
        state.departures += 1
        state.departed_at = min(state.departed_at, state.time)
    arrays.preference[agent] = option
    arrays.holders[option] += 1
    state.agrees = arrays.holders[option] == params.num_agents
    if state.agrees and state.agreed_on < 0:
        state.agreed_at, state.agreed_on = state.time, option


def tick(state: Any, arrays: Any, option: int, on_zero: bool, on_one: bool, params: Any, rng: Any) -> None:
    """The ticking agent pulls `option` (K: none), and adopts it or not depending on its signal."""
    agent, options = arrays.ticker[0], len(arrays.holders)
    state.time = state.due
    state.ticks += 1
    arrays.requests[agent] += 1
    state.most_requests = max(state.most_requests, arrays.requests[agent])
    state.all_zero = nobody_counts(arrays.counts, state.received, arrays.read_q[0])
    state.all_zero_ticks += state.all_zero
    for k in range(options):
        arrays.holder_ticks[k] += arrays.holders[k]
    state.pulled, state.agrees, state.departs = option < options, False, False
    signal = private(agent, draw_signal(option, arrays.qualities, rng, PULLS))
    if state.pulled:
        state.option, state.signal = option, signal
        arrays.pulls[option] += 1
        state.successes += signal
        if (on_one if signal else on_zero) and option != arrays.preference[agent]:
            adopt(state, arrays, agent, option, params)
    arrays.reward[0] = signal
    if params.fresh_reward:
        arrays.reward[0] = draw_signal(arrays.preference[agent], arrays.qualities, rng, REWARDS)


def act(state: Any, arrays: Any, option: int, on_zero: bool, on_one: bool, params: Any, rng: Any) -> None:
    """Play the next tick, unless it comes after the end of the run, and make the request of the following tick."""
    state.all_zero, state.pulled, state.agrees, state.departs = False, False, False, False
    if state.comes:
        tick(state, arrays, option, on_zero, on_one, params, rng)
        schedule(state, arrays, params, rng)


def plan(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """`act` with an action (option, adopt on 0, adopt on 1)."""
    act(state, arrays, actions[0, 0], actions[0, 1] == 1, actions[0, 2] == 1, params, rng)


def flat_plan(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """`act` with an action 4 option + 2 (adopt on 0) + (adopt on 1)."""
    act(state, arrays, actions[0] // 4, actions[0] // 2 % 2 == 1, actions[0] % 2 == 1, params, rng)


def ends(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """(terminated, truncated): truncated if no clock ticks again."""
    return False, not state.comes


class ManyTicks(NamedTuple):
    """The `params` of `play`."""

    world: Any  # the constants of steps
    rule: Behaviour
    noise: ReplyNoise
    until: float


def play(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Play on to a time with agents that follow a rule; the first agent to act already has its replies."""
    rule, world = params.rule, params.world
    while state.comes and state.due <= params.until:
        agent = arrays.ticker[0]
        option = choose(arrays.counts, arrays.preference[agent], rule, uniform(rng, CHOICES))
        tick(state, arrays, option, rule.adopts_on_zero, rule.adopts_on_one, world, rng)
        schedule(state, arrays, world, rng)
        if params.noise.some and state.comes:
            add_reply_noise(arrays.counts, state.received, params.noise, rng, NOISE)


def observe(seen: Any, params: Any, out: Any) -> None:
    options = len(seen.counts)
    hears = 1.0 / params.num_agents if seen.agent == seen.ticker[0] else 0.0
    for k in range(options):
        out[k] = hears * seen.counts[k]
        out[options + 1 + k] = seen.preference == k
    out[options] = hears * seen.received
    out[2 * options + 1] = seen.read_q[0]


def regret(arrays: Any) -> float:
    """Sum over pulls of (best quality - quality)."""
    best, total = 0.0, 0.0
    for k in range(len(arrays.pulls)):
        best = max(best, arrays.qualities[k])
    for k in range(len(arrays.pulls)):
        total += arrays.pulls[k] * (best - arrays.qualities[k])
    return total


def fill_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    for k in range(len(arrays.holders)):
        arrays.popularity[k] = arrays.holders[k] / params.num_agents
    info.time, info.all_zero, info.regret = state.time, state.all_zero, regret(arrays)
    if state.most_requests > 0:
        info.epsilon_per_requester = state.most_requests * params.epsilon
    if state.pulled:
        info.option, info.signal = state.option, state.signal
    if state.agrees:
        info.consensus = arrays.preference[0]
    if state.departs:
        info.departure = state.left


def popularity(holders: Ints, num_agents: int) -> Floats:
    """F, the share of the agents that prefer each option, [B, K] [Chen 3]."""
    return holders / num_agents
