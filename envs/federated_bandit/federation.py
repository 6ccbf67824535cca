"""One federation, slot by slot, in the form required by `taciturn.envs.core.hooks.Hooks`: pulls, uploads and rounds."""

from typing import Any

from taciturn.compiling.compiled import private
from taciturn.compiling.counter_streams import binomial, uniform
from taciturn.envs.core.qualities import fill_rows
from taciturn.envs.federated_bandit.model import (
    average,
    communication_cost,
    fill_gaps,
    find_active,
    historical_mean,
    local_regret,
    regret,
    renewed,
)

# The sources of random numbers.
SOURCES = ("qualities", "rewards", "participation")
QUALITY, REWARDS, PARTICIPATION = range(len(SOURCES))
KINDS = ("adv", "req", "data", "sac")  # the kinds of messages in a round


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Draw the means of the arms."""
    fill_rows(arrays.quality, params.distribution, rng, QUALITY)
    fill_gaps(arrays)
    find_open(state, arrays, params, rng)


def mean_of(arrays: Any, agent: int, arm: int) -> float:
    """The mean of an arm, which may differ between agents."""
    return arrays.quality[agent if len(arrays.quality) > 1 else 0, arm]


def earn(state: Any, arrays: Any, agent: int, arm: int, pulls: int, rewards: int) -> None:
    """Record `pulls` of an arm and the sum of their rewards; pulls made during a round enter no mean."""
    arrays.counts[agent, arm] += pulls
    arrays.sums[agent, arm] += rewards
    arrays.pulled[arm] += pulls
    if state.phase_left > 0:
        arrays.used_counts[agent, arm] += pulls
        arrays.used_sums[agent, arm] += rewards


def pull(state: Any, arrays: Any, agent: int, arm: int, rng: Any) -> None:
    """An agent pulls an arm once."""
    drawn = uniform(rng, REWARDS)
    reward = 1 if private(agent, drawn < mean_of(arrays, agent, arm)) else 0
    earn(state, arrays, agent, arm, 1, reward)
    arrays.earned[agent] = reward


def pull_arms(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Every agent pulls its entry of `arms`."""
    for i in range(params.num_agents):
        pull(state, arrays, i, arrays.arms[i], rng)


def pull_plan(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Every agent pulls each arm as often as `plan` says: a sum of n Bernoulli(mu) rewards is Binomial(n, mu)."""
    for k in range(params.num_arms):
        for i in range(params.num_agents):
            pulls = arrays.plan[i, k]
            if pulls > 0:
                mean = private(i, mean_of(arrays, i, k))
                earn(state, arrays, i, k, pulls, binomial(pulls, mean, rng, REWARDS))


def may_upload(state: Any, arrays: Any, agent: int) -> bool:
    """Whether an agent can upload now."""
    return state.phase_left == 0 and not arrays.uploaded[agent]


def slot(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """A slot: every agent pulls an arm, and the uploading agents report their means."""
    for i in range(params.num_agents):
        pull(state, arrays, i, actions[i] % params.num_arms, rng)
        arrays.asks[i] = actions[i] >= params.num_arms and may_upload(state, arrays, i)
    state.time += 1
    state.slots = 1
    send(state, arrays, params, rng)


def message(arrays: Any, agent: int, arm: int) -> tuple[float, float]:
    """An agent's report on an arm: (mean of its pulls since its last upload, number of pulls per message).

    Agents report the arms that any of them has pulled since the last round (the active ones). After m missed rounds, an
    agent's pulls are divided evenly among m + 1 messages, each with the noise of one epoch.
    """
    pulls = arrays.counts[agent, arm] - arrays.used_counts[agent, arm]
    if pulls == 0 or arrays.pulled[arm] == arrays.counts_at_round[arm]:
        return 0.0, 0.0
    rewards = arrays.sums[agent, arm] - arrays.used_sums[agent, arm]
    return rewards / pulls, pulls / (arrays.missed_rounds[agent] + 1)


def send(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """The uploading agents report the means of their pulls since their last upload (Algorithm 1, lines 8-11).

    With a mechanism or fault on the channel, `FederatedBandit.between` sends these reports instead, since late messages
    may arrive from agents that send nothing now.
    """
    some = False
    for i in range(params.num_agents):
        some = some or arrays.asks[i]
    if not some:
        return
    for i in range(params.num_agents):
        parts = arrays.missed_rounds[i] + 1 if arrays.asks[i] else 0
        if params.plain:
            arrays.sent_messages[i] += parts
        for k in range(params.num_arms):
            if parts > 0 or not params.plain:
                mean, pulls = message(arrays, i, k)
                if not params.plain:
                    arrays.mean[i, k], arrays.share[i, k] = mean, pulls
                elif pulls > 0.0:
                    for _ in range(parts):
                        learn(arrays, i, k, mean, pulls)


def learn(arrays: Any, agent: int, arm: int, mean: float, pulls: float) -> None:
    """Add a mean of `pulls` > 0 rewards to an agent's upload history."""
    before, weight = arrays.private[agent, arm], arrays.weight[agent, arm]
    arrays.private[agent, arm] = historical_mean(before, weight, mean, pulls)
    arrays.weight[agent, arm] = weight + pulls
    arrays.reported[agent, arm] = True


def listen(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Add the received part of each agent's message to its history."""
    for i in range(params.num_agents):
        if arrays.delivered[i]:
            for k in range(params.num_arms):
                if arrays.share[i, k] > 0.0:
                    learn(arrays, i, k, arrays.received_means[i, k], arrays.share[i, k])


def elapsed(state: Any, params: Any) -> int:
    """Slots of the protocols played so far in the current round; 0 if there is none."""
    return params.slots - state.phase_left if state.phase_left > 0 else 0


def file_uploads(arrays: Any, params: Any) -> tuple[int, bool]:
    """Record the uploads: (the number of agents that upload now, whether all have)."""
    number, everyone = 0, True
    for i in range(params.num_agents):
        if arrays.asks[i]:
            number += 1
            arrays.uploaded[i], arrays.missed_rounds[i] = True, 0
            for k in range(params.num_arms):
                arrays.used_counts[i, k], arrays.used_sums[i, k] = arrays.counts[i, k], arrays.sums[i, k]
        everyone = everyone and arrays.uploaded[i]
    return number, everyone


def communicate(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Process the uploads at the end of `slots` slots, which may not extend beyond the end of a current round.

    The cost of links is subtracted from the agents' earnings.
    """
    before, under_way = elapsed(state, params), state.phase_left > 0
    if under_way:
        state.phase_left -= state.slots
    ends = under_way and state.phase_left == 0
    number, everyone = file_uploads(arrays, params)
    if number > 0 and (everyone or not params.graph):
        under_way, state.phase_left = True, params.delay
        ends = params.delay == 0
    if not params.graph:
        state.uploads += number
        for i in range(params.num_agents):
            arrays.earned[i] -= params.server_price * arrays.asks[i]
    if params.slots > 0 and under_way:
        after = params.slots if ends else elapsed(state, params)
        for i in range(params.num_agents):
            arrays.earned[i] -= params.link_price * (params.by_agent[after, i] - params.by_agent[before, i])
    if ends:
        end_round(state, arrays, params)
        state.uploads += len(params.sinks)
        for q in range(len(params.sinks)):
            arrays.earned[params.sinks[q]] -= params.server_price


def end_round(state: Any, arrays: Any, params: Any) -> None:
    """Give all agents the average over those that uploaded."""
    state.rounds += 1
    state.round_time = state.time
    for k in range(params.num_arms):
        mean, number = average(arrays.private, arrays.reported, arrays.weight, k, params.group, params.by_pulls)
        if number > 0:
            arrays.broadcast[k], arrays.last_round[k] = mean, state.rounds
        arrays.counts_at_round[k] = arrays.pulled[k]
        for i in range(params.num_agents):
            arrays.reported[i, k] = False
    for i in range(params.num_agents):
        arrays.missed_rounds[i] += not arrays.uploaded[i]
        arrays.uploaded[i] = False


def find_open(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    """Find the arms that agents still play, and the actions that have an effect: all pulls, and the uploads of agents
    that can upload."""
    find_active(state, arrays)
    for i in range(len(arrays.mask)):
        can = may_upload(state, arrays, i)
        for k in range(params.num_arms):
            arrays.mask[i, params.num_arms + k] = can


def end_slot(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Pay each agent its earnings; returns (terminated, truncated)."""
    communicate(state, arrays, params, rng)
    find_open(state, arrays, params, rng)
    for i in range(params.num_agents):
        reward[i] = arrays.earned[i]
    return False, state.time >= params.horizon


def observe(seen: Any, params: Any, out: Any) -> None:
    arms = params.num_arms
    for k in range(arms):
        out[k] = seen.counts[k]
        out[arms + k] = seen.sums[k] / seen.counts[k] if seen.counts[k] > 0 else 0.0
        out[2 * arms + k] = seen.private[k]
        out[3 * arms + k] = seen.broadcast[k]
        out[4 * arms + k] = renewed(seen.last_round[k], seen.rounds)
    out[5 * arms] = seen.time
    out[5 * arms + 1] = params.horizon - seen.time
    out[5 * arms + 2] = seen.rounds
    out[5 * arms + 3] = seen.phase_left
    held = params.coverage[elapsed(seen, params), seen.agent] / params.num_agents
    out[5 * arms + 4] = held if seen.phase_left > 0 else 1.0


def sent_between(state: Any, params: Any, kind: int) -> int:
    """Messages of one kind between agents in all rounds so far."""
    return state.rounds * params.sent[kind, params.slots] + params.sent[kind, elapsed(state, params)]


def fill_info(state: Any, arrays: Any, params: Any, info: Any) -> None:
    info.regret, info.local_regret = regret(arrays), local_regret(arrays)
    info.upload, info.broadcast, info.neighbour = state.uploads, state.rounds * params.receivers, state.neighbour
    info.adv, info.req = sent_between(state, params, 0), sent_between(state, params, 1)
    info.data, info.sac = sent_between(state, params, 2), sent_between(state, params, 3)
    links = info.neighbour + info.adv + info.req + info.data + info.sac
    info.transmissions = state.uploads + links
    info.cost = communication_cost(state.uploads, links, params.server_price, params.link_price)
    info.rounds = state.rounds
    info.phase = 1 if state.phase_left > 0 else 0
    info.active_arms = 0
    for k in range(params.num_arms):
        info.active_arms += arrays.active[k]
