"""One recommender, round by round, in the form required by `taciturn.envs.core.hooks.Hooks`: items shown, feedbacks,
requests and answers."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from taciturn.compiling.counter_streams import fill
from taciturn.envs.core import fields, private, uniform
from taciturn.envs.recommender.instances import (
    CENTRES,
    CONTEXT_CLUSTERS,
    ITEM_CLUSTERS,
    ITEMS,
    REWARDS,
    draw_catalogue,
    draw_instance,
    draw_repositories,
    next_user,
    numbers_of_a_point,
    numbers_of_an_instance,
)
from taciturn.envs.recommender.rewards import BLOCK, BUMPS, ITEM_DIMS, OWN, arrange, look_ahead, mean_reward
from taciturn.validation import Array, Bools, Floats, Ints

AGENTS = attrgetter("num_agents")


@dataclass(frozen=True)
class State:
    """A recommender with its next users; from outside, each field has a leading axis [B]."""

    items: Floats = fields.public(lambda p: (p.num_items, ITEM_DIMS))  # the catalogue's features
    codes: Ints = fields.public(lambda p: p.num_items)  # see `geometry.item_code`
    middles: Floats = fields.hidden(lambda p: (ITEM_CLUSTERS, ITEM_DIMS))  # centres of the item clusters
    order: Array = fields.hidden()  # this and the next three: see `rewards.arrange`; empty for a user-defined family
    place: Array = fields.hidden()
    scale: Floats = fields.hidden(lambda p: ITEM_DIMS)
    near: Array = fields.hidden()
    least: Array = fields.hidden()
    greatest: Array = fields.hidden()
    reach: Floats = fields.hidden()  # [blocks], and the next: see `rewards.best_at_hand`
    score: Floats = fields.hidden(lambda p: BLOCK)
    held: Array = fields.hidden()  # unsigned[W, repository]: the agents' items in the order of their arrival
    at_hand: Ints = fields.public()  # how many of them have arrived
    active: Bools = fields.public()  # [W, K]: the arrived items
    item_luck: Floats = fields.hidden(lambda p: numbers_of_a_point(ITEM_DIMS))  # for one item
    instance_luck: Floats = fields.hidden(lambda p: numbers_of_an_instance(p.context_dim))
    user_luck: Floats = fields.hidden(lambda p: numbers_of_a_point(p.context_dim))  # for one user
    weights: Floats = fields.hidden(lambda p: ITEM_DIMS)  # this and the next three: `rewards.Instance`
    directions: Floats = fields.hidden(lambda p: (len(BUMPS), ITEM_DIMS, p.context_dim))
    phases: Floats = fields.hidden(lambda p: (len(BUMPS), ITEM_DIMS))
    matrix: Floats = fields.hidden(lambda p: (ITEM_DIMS, p.context_dim + 1))
    centres: Floats = fields.hidden(lambda p: (CONTEXT_CLUSTERS, p.context_dim))  # centres of the context clusters
    contexts: Floats = fields.public(attrgetter("num_agents", "context_dim"))  # contexts of the next users
    goals: Floats = fields.hidden()  # [W, bumps, 5]: see `rewards.look_ahead`
    values: Floats = fields.hidden()  # [W, K]: mean rewards in these contexts, for a user-defined family
    best: Ints = fields.hidden(AGENTS)  # each agent's best available item in them
    most: Floats = fields.hidden(AGENTS)  # and its mean reward
    served: Floats = fields.public(attrgetter("num_agents", "context_dim"))  # the contexts of the last round
    shown: Ints = fields.public(AGENTS)  # the items shown in it, -1: none
    cluster: Ints = fields.public(AGENTS)  # clusters of these items
    cell: Ints = fields.public(AGENTS)  # cells of these contexts
    mu: Floats = fields.hidden(AGENTS)  # mean rewards
    lost: Floats = fields.hidden(AGENTS)  # shortfall from the best item's mean reward
    knew: Bools = fields.public(AGENTS)  # whether the agent had its neighbours' statistics in the last round
    records: Ints = fields.public(AGENTS)  # number of feedbacks available to it
    asks: Bools = fields.public(AGENTS)  # whether it requested statistics for the next round
    consulted: Bools = fields.public(AGENTS)  # whether the third party has already answered in this round
    selected: Bools = fields.public()  # whether the next items shown were selected through the channel
    bare: Bools = fields.public()  # whether the last items shown were not
    own_counts: Ints = fields.own(attrgetter("num_agents", "cells", "clusters"))  # feedbacks so far
    own_sums: Ints = fields.own(attrgetter("num_agents", "cells", "clusters"))
    answered: Bools = fields.received(AGENTS)
    counts: Floats = fields.received(attrgetter("num_agents", "clusters"))  # the answer
    means: Floats = fields.received(attrgetter("num_agents", "clusters"))
    exposed: Ints = fields.public()  # items shown without selection, by each agent
    sent: Ints = fields.public(AGENTS)  # messages about feedbacks
    earned: Floats = fields.hidden()  # sums over agents and rounds
    expected_reward: Floats = fields.hidden()
    regret: Floats = fields.hidden()
    shared: Ints = fields.hidden()  # agent-rounds with an answer
    time: Ints = fields.public()


class Constants(NamedTuple):
    """The `params` of a recommender's functions."""

    num_agents: int
    num_items: int
    shift: int  # shifting a code by this gives the item's cluster
    horizon: int
    homogeneous: bool
    starts: Ints  # [G]: the rounds in which items arrive
    sizes: Ints  # [G + 1]: and the number of items of each agent then
    goods: Floats  # [K, 5]: the items of a given catalogue; empty without one
    users: Floats  # [n, d]: its contexts
    bumps: int  # see `rewards.number_of_bumps`
    heights: Floats
    radii: Floats
    first: Ints  # [W + 1]: where each agent's neighbours begin
    neighbours: Ints  # in this list
    plain: bool  # whether the channels have no mechanism, fault or budget


def begin(state: Any, arrays: Any, params: Any, rng: Any) -> None:
    draw_catalogue(arrays, params, rng)
    draw_repositories(state, arrays, params, rng)
    draw_instance(arrays, rng)
    fill(arrays.centres, rng, CENTRES)
    arrange(arrays, params)
    for i in range(params.num_agents):
        next_user(arrays, params, i, rng)
        for d in range(arrays.contexts.shape[1]):
            arrays.served[i, d] = arrays.contexts[i, d]
        arrays.shown[i] = -1
        if params.bumps != OWN:
            look_ahead(state, arrays, params, i)


def cell_of(context: Any) -> int:
    """The cell of a context for requests of statistics: it halves the first two dimensions."""
    cell = 1 if context[0] >= 0.5 else 0
    return cell + 2 if len(context) > 1 and context[1] >= 0.5 else cell


def show(arrays: Any, params: Any, i: int, item: int, cluster: int, rng: Any) -> None:
    """Agent i shows an item (nothing for -1 or an item that it lacks) to its user, and the next user arrives."""
    shows = item >= 0 and arrays.active[i, max(item, 0)]
    mu = mean_reward(arrays, params, i, item) if shows else 0.0
    likes = 1 if private(i, uniform(rng, REWARDS) < mu) and shows else 0
    cell = cell_of(arrays.contexts[i])
    arrays.own_counts[i, cell, cluster] += 1 if shows else 0
    arrays.own_sums[i, cell, cluster] += likes
    arrays.shown[i], arrays.cluster[i], arrays.cell[i] = item if shows else -1, cluster, cell
    arrays.mu[i], arrays.lost[i], arrays.reward[i] = mu, arrays.most[i] - mu, likes
    for d in range(arrays.contexts.shape[1]):
        arrays.served[i, d] = arrays.contexts[i, d]
    next_user(arrays, params, i, rng)


def by_item(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """A round with items as actions."""
    for i in range(params.num_agents):
        item = int(actions[i] % params.num_items)
        arrays.asks[i] = actions[i] >= params.num_items
        show(arrays, params, i, item, arrays.codes[item] >> params.shift, rng)
    move_on(state, arrays, params)


def by_cluster(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """A round with clusters as actions; random items of the chosen clusters are shown."""
    clusters = arrays.counts.shape[1]
    for i in range(params.num_agents):
        cluster, luck, inside, item = int(actions[i] % clusters), uniform(rng, ITEMS), 0, -1
        arrays.asks[i] = actions[i] >= clusters
        for m in range(state.at_hand):
            inside += arrays.codes[arrays.held[i, m]] >> params.shift == cluster
        place = int(luck * inside)
        for m in range(state.at_hand):
            if arrays.codes[arrays.held[i, m]] >> params.shift == cluster:
                if place == 0:
                    item = int(arrays.held[i, m])
                place -= 1
        show(arrays, params, i, item, cluster, rng)
    move_on(state, arrays, params)


def move_on(state: Any, arrays: Any, params: Any) -> None:
    """Add up the round, and let due items arrive."""
    for i in range(params.num_agents):
        arrays.knew[i] = arrays.answered[i] or arrays.consulted[i]
        arrays.consulted[i] = False
        state.shared += arrays.knew[i]
        degree = params.first[i + 1] - params.first[i]
        arrays.records[i] = state.time * (1 + degree) if arrays.knew[i] else state.time
        state.earned += arrays.reward[i]
        state.expected_reward += arrays.mu[i]
        state.regret += arrays.lost[i]
    state.bare, state.selected = not state.selected, False
    state.exposed += state.bare
    state.time += 1
    for g in range(len(params.starts)):
        if state.time == params.starts[g]:
            state.at_hand = params.sizes[g + 1]
            for i in range(params.num_agents):
                for m in range(state.at_hand):
                    arrays.active[i, arrays.held[i, m]] = True


def answer(arrays: Any, params: Any, i: int, cell: int) -> None:
    """The exact statistics of agent i's neighbours for a cell."""
    clusters = arrays.counts.shape[1]
    for c in range(clusters):
        arrays.counts[i, c], arrays.means[i, c] = 0.0, 0.0
    if not arrays.answered[i]:
        return
    for at in range(params.first[i], params.first[i + 1]):
        j = params.neighbours[at]
        arrays.sent[j] += 1
        for c in range(clusters):
            arrays.counts[i, c] += arrays.own_counts[j, cell, c]
            arrays.means[i, c] += arrays.own_sums[j, cell, c]
    for c in range(clusters):
        arrays.means[i, c] /= max(arrays.counts[i, c], 1.0)


def listen(state: Any, arrays: Any, params: Any, rng: Any, reward: Any) -> tuple[bool, bool]:
    """Answer the agents' requests for their next users, unless the third party has (`Recommender.between`)."""
    over = state.time >= params.horizon
    for i in range(params.num_agents):
        if params.plain:
            arrays.answered[i] = arrays.asks[i] and params.first[i + 1] > params.first[i] and not over
            answer(arrays, params, i, cell_of(arrays.contexts[i]))
        if params.bumps != OWN:
            look_ahead(state, arrays, params, i)
    return False, over


def observe(seen: Any, params: Any, out: Any) -> None:
    dims, clusters = seen.contexts.shape[1], len(seen.counts)
    for d in range(dims):
        out[d] = seen.contexts[seen.agent, d]
    out[dims], out[dims + 1] = seen.time, seen.answered
    for c in range(clusters):
        out[dims + 2 + c], out[dims + 2 + clusters + c] = seen.counts[c], seen.means[c]
