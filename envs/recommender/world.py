"""How much do service providers gain from telling one another what users liked, and what does it cost in privacy?

Description
    `W` service providers (agents) on a graph each serve one user a round. A context arrives, the agent shows an item of
    its own repository, and the user likes it or not: a feedback of 0 or 1. Each agent has a part of one catalogue of
    items with public features. Agents can ask a trusted third party for the sums and numbers of their
    neighbours' feedbacks, by context and item.

Paper
    Zhou, Wang, Guo, Gong and Zheng, "A privacy-preserving distributed contextual federated online learning framework
    with big data support in social recommender systems": the system of section 2, the tree of item clusters and the
    sharing of sections 2.1, 3.1 and 3.3. The algorithms are the policies `TPriDO` and `DTPriDO`.

Agents
    `agent_0` to `agent_{W-1}`, all at once.

Observation
    Box float32: `context` [d], of the user to be served; `time`, rounds played so far; `answered`, 1 if the agent asked
    in its last action and got an answer; and this answer: for each of the 2^D clusters of items of depth D, the
    `counts` of the neighbours' feedbacks in the context's cell and their `means` (0 without any). There are at most
    four cells, which halve the first two dimensions of the context.

Action
    Discrete(2 K): show item `a mod K` of the catalogue; if `a >= K`, also ask for the neighbours' statistics in the
    next observation. Items that the agent does not have are masked; if one is chosen, nothing is shown. With
    `actions="cluster"`, Discrete(2 * 2^D): a random own item of that cluster, where clusters without any are masked.
    With `actions="point"`, Box(6): the own item nearest to the first five numbers; the agent asks if the sixth is at
    least 0.5.

Reward
    The feedback, Bernoulli of the mean reward mu(context, item); 0 if nothing was shown.

Termination
    Never; truncated after `horizon` rounds.

Info
    For each agent: `mu`, the mean reward of the item shown; `regret` of this round, against the best item that it has
    now; `cluster` of the item (at depth D) and `cell` of the context; `shared`, whether it got statistics of its
    neighbours before it acted; `records`, the number of feedbacks that it could then know of.

Privacy channels
    An event is the value of one feedback, given what was shown: in two adjacent runs the same users come in the same
    contexts and are shown the same items, and one of them gives the other feedback. Nothing else is protected: contexts
    and what is shown are public, and so are visits and their numbers. Totals of `statistics` and `counts` say how much
    the answers tell beyond what is shown. An agent that learns from its own feedbacks tells by what it shows, too, and
    what it shows decides which streams later feedbacks enter; this is charged on `selection`, and is infinite where
    that has no mechanism. So a total of all three channels holds as it is; one of `statistics` and `counts` alone holds
    given what was shown, as for a logged policy. (It also holds as it is if what is shown follows from answers, public
    numbers and fresh randomness, as the choice of a T-PriDO that always asks does.)

    - `statistics` (stream, to neighbours): sums of feedbacks. Whenever an agent gets an answer, each of its neighbours
      has sent one message. It takes `TreeAggregation`: the third party adds noise once, as a function of the asking
      agent, the cell, the cluster and the block of feedbacks, so a repeated question gets the same answer. A feedback
      costs epsilon for each stream (asking agent, cell, cluster) in which it was released, and the ledger charges an
      agent exactly for its costliest feedback. If a policy asks about sums that include the asking agent's own
      feedbacks, these are released too. A question says which cell it is about. Answers to liars have noise, and costs,
      of their own. It also takes `Blocks`: then a block of a stream is what has come since anybody last asked about it,
      and gets noise once, of scale 1/epsilon, which is less where agents ask seldom.
    - `counts` (stream, to neighbours): numbers of feedbacks, released with the sums. They follow from what was shown.
      The paper adds no noise; the ledger then says that nothing is hidden (inf). `TreeAggregation` or `Blocks` add
      noise, and are charged like those of `statistics`; sums and counts are then streams of rounds. A visit stays
      unprotected: one that is replaced changes two streams on each channel, and what agents ask about may follow from
      what they have shown.
    - `selection` (scores, public): the item shown. `Exponential` selects by the scores that a policy passes through
      `select`. Where it is installed, items shown without `select` are charged as infinite.

    An agent of the paper's algorithms asks if its own results are bad, which reveals that they are. So totals of
    `statistics` and `counts` are infinite, at event level too, unless a policy declares a public schedule
    (`Policy.public_schedule`), such as asking always or never.

Arguments
    - num_agents: W >= 1.
    - graph: who are neighbours: "none", or anything that `taciturn.envs.core.graph.Graph.of` reads, connected or not.
    - context_dim: d, 1 to 9; None: 2, or that of `family`.
    - family: of mean rewards: "peak", "bumps", "linear", or a function of (contexts [..., d], items [..., 5]) with
      values in [0, 1]; see `taciturn.envs.recommender.rewards`. Its random parts are drawn at each reset. Or a
      simulator fitted to ratings (`taciturn.logged.fit_ratings`), with its own catalogue and the users' contexts to
      draw from; learners then practise in `peak` worlds of the same size.
    - num_items: size of the catalogue, K; None: 4,000, or that of `family`.
    - repository: number of items of an agent, drawn from the catalogue; None: half of it.
    - homogeneous: whether all agents have the same items.
    - growth: [(round, fraction), ...]: this fraction of each repository arrives only at the beginning of that round
      (counted from 0).
    - cluster_depth: D, 1 to 8.
    - actions: "item", "cluster" or "point".
    - horizon: number of rounds, at most 2^24.

Deviations from the paper
    The paper's data, 100 million photos, is replaced by a synthetic catalogue: items in [0, 1]^5 in 12 Gaussian
    clusters (standard deviation 0.1) with 30% uniform ones, contexts in [0, 1]^d in 8 clusters (0.08) with 25% uniform
    ones, both clipped. Mean rewards are Lipschitz, as in Assumption 1. The children of (h, i) are (h + 1, 2i - 1) and
    (h + 1, 2i); one of the paper's says 2i + 1. Regret is against the best item in the agent's repository, not against
    the best of all. Theorem 2 says that a record costs a user epsilon once; here it costs epsilon for every region in
    which it is released, since regions are refined and the history is recounted.

Registered configurations
    `taciturn/Recommender-v0` (PettingZoo): 8 agents on a star, contexts of 2 dimensions, the family `peak`, 20,000
    rounds.

Version history
    v0: first version.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np

from taciturn.envs.core import Layout, Role, World, fields, private, uniform
from taciturn.envs.core.counter_streams import fill
from taciturn.envs.core.graph import Graph
from taciturn.envs.recommender import drawing
from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.envs.recommender.geometry import DEPTH
from taciturn.envs.recommender.instances import (
    CENTRES,
    CONTEXT_CLUSTERS,
    ITEM_CLUSTERS,
    ITEMS,
    REWARDS,
    SOURCES,
    draw_catalogue,
    draw_instance,
    draw_repositories,
    next_user,
    numbers_of_a_point,
    numbers_of_an_instance,
)
from taciturn.envs.recommender.rewards import (
    BLOCK,
    BUMPS,
    FAMILIES,
    ITEM_DIMS,
    OWN,
    arrange,
    look_ahead,
    mean_reward,
    means,
    number_of_bumps,
)
from taciturn.envs.recommender.sharing import CHANNELS, Released, ThirdParty
from taciturn.envs.recommender.telling import Telling
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number, shown

ACTIONS = ("item", "cluster", "point")
MAX_HORIZON = 2**24  # float32 represents every whole number of rounds up to here
MOST_DIMS = 9


@dataclass(frozen=True, kw_only=True)
class Params:
    """See 'Arguments' above.

    Raises:
        ValueError: a parameter is outside its range, or the graph has another number of nodes.
    """

    num_agents: int = 8
    graph: Any = "star"
    context_dim: Any = None
    family: Any = "peak"
    num_items: Any = None
    repository: Any = None
    homogeneous: bool = False
    growth: Any = ()
    cluster_depth: int = 3
    actions: str = "item"
    horizon: int = 20_000

    def __post_init__(self) -> None:
        agents = integer("num_agents", self.num_agents, at_least=1, at_most=MOST_NUMBERS)
        self._complete()
        integer("context_dim", self.context_dim, at_least=1, at_most=MOST_DIMS)
        if not callable(self.family):
            choice("family", self.family, FAMILIES)
        items = integer("num_items", self.num_items, at_least=1, at_most=10**6)
        integer("num_agents * num_items", agents * items, at_least=1, at_most=MOST_NUMBERS)
        if integer("repository", self.repository, at_least=1) > items:
            raise ValueError(f"repository must be at most num_items, which is {items}, not {shown(self.repository)}")
        choice("homogeneous", self.homogeneous, (False, True))
        integer("cluster_depth", self.cluster_depth, at_least=1, at_most=8)
        choice("actions", self.actions, ACTIONS)
        integer("horizon", self.horizon, at_least=1, at_most=MAX_HORIZON)
        object.__setattr__(self, "growth", read_growth(self.growth))
        _ = self.network

    def _complete(self) -> None:
        """Set the sizes that were not given; ValueError if one differs from that of the catalogue that `family`
        brings."""
        brought = isinstance(self.family, Catalogue)
        sizes = (self.family.contexts.shape[1], len(self.family.items)) if brought else (2, 4000)
        for name, size in zip(("context_dim", "num_items"), sizes, strict=True):
            given = getattr(self, name)
            if given is None:
                object.__setattr__(self, name, size)
            elif brought and given != size:
                raise ValueError(f"{name} must be that of family, which is {size}, not {shown(given)}")
        if self.repository is None and isinstance(self.num_items, int | np.integer):
            object.__setattr__(self, "repository", (self.num_items + 1) // 2)

    @cached_property
    def network(self) -> Graph:
        if isinstance(self.graph, str) and self.graph == "none":
            return Graph(self.num_agents, np.zeros((0, 2), np.int64))
        return Graph.of(self.graph, self.num_agents)

    def available(self, time: Ints) -> Ints:
        """The number of items that an agent has in round `time`, of its shape; at least one."""
        late = np.zeros(time.shape)
        for start, fraction in self.growth:
            late = late + np.where(time < start, fraction, 0.0)
        return np.maximum(np.rint(self.repository * (1 - late)).astype(np.int64), 1)


def read_growth(growth: Any) -> tuple[tuple[int, float], ...]:
    """The pairs (round, fraction) in the order of their rounds; ValueError if they are not such pairs, or the fractions
    add up to 1 or more."""
    wanted = "growth must be pairs (round >= 1, fraction > 0) whose fractions add up to less than 1"
    try:
        pairs = [(start, fraction) for start, fraction in growth]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, not {shown(growth)}") from error
    found = sorted(
        (integer("round in growth", start, at_least=1), number("fraction in growth", fraction, above=0))
        for start, fraction in pairs
    )
    if sum(fraction for _, fraction in found) >= 1:
        raise ValueError(f"{wanted}, not {shown(growth)}")
    return tuple(found)


def agents(p: Params, *more: int) -> tuple[int, ...]:
    return (p.num_agents, *more)


def clusters(p: Params) -> int:
    """The number of clusters of items of depth D."""
    return 1 << p.cluster_depth


def cells(p: Params) -> int:
    """The number of cells of contexts for which statistics can be asked."""
    return 1 << min(p.context_dim, 2)


@dataclass(frozen=True)
class State:
    """A recommender with its next users; seen from outside, each field leads with [B]."""

    items: Floats = fields.public(lambda p: (p.num_items, ITEM_DIMS))  # the catalogue's features
    codes: Ints = fields.public(lambda p: p.num_items)  # see `geometry.item_code`
    middles: Floats = fields.hidden(lambda p: (ITEM_CLUSTERS, ITEM_DIMS))  # of the clusters of items
    order: Array = fields.hidden()  # this and the next three: see `rewards.arrange`; empty for a family of one's own
    place: Array = fields.hidden()
    scale: Floats = fields.hidden(lambda p: ITEM_DIMS)
    near: Array = fields.hidden()
    least: Array = fields.hidden()
    greatest: Array = fields.hidden()
    reach: Floats = fields.hidden()  # [blocks], and the next: see `rewards.best_at_hand`
    score: Floats = fields.hidden(lambda p: BLOCK)
    held: Array = fields.hidden()  # unsigned[W, repository]: the agents' items in the order of their arrival
    at_hand: Ints = fields.public()  # the number of them that have arrived
    active: Bools = fields.public()  # [W, K]: these items
    item_luck: Floats = fields.hidden(lambda p: numbers_of_a_point(ITEM_DIMS))  # of one item, and of one user
    instance_luck: Floats = fields.hidden(lambda p: numbers_of_an_instance(p.context_dim))
    user_luck: Floats = fields.hidden(lambda p: numbers_of_a_point(p.context_dim))
    weights: Floats = fields.hidden(lambda p: ITEM_DIMS)  # this and the next three: `rewards.Instance`
    directions: Floats = fields.hidden(lambda p: (len(BUMPS), ITEM_DIMS, p.context_dim))
    phases: Floats = fields.hidden(lambda p: (len(BUMPS), ITEM_DIMS))
    matrix: Floats = fields.hidden(lambda p: (ITEM_DIMS, p.context_dim + 1))
    centres: Floats = fields.hidden(lambda p: (CONTEXT_CLUSTERS, p.context_dim))  # of the clusters of contexts
    contexts: Floats = fields.public(lambda p: agents(p, p.context_dim))  # of the users to be served
    goals: Floats = fields.hidden()  # [W, bumps, 5]: see `rewards.look_ahead`
    values: Floats = fields.hidden()  # [W, K]: mean rewards in these contexts, of a family of the user's own
    best: Ints = fields.hidden(agents)  # each agent's best item at hand in them,
    most: Floats = fields.hidden(agents)  # and its mean reward
    served: Floats = fields.public(lambda p: agents(p, p.context_dim))  # the contexts of the last round
    shown: Ints = fields.public(agents)  # what was shown in it, -1: nothing;
    cluster: Ints = fields.public(agents)  # the cluster of that item,
    cell: Ints = fields.public(agents)  # the cell of the context,
    mu: Floats = fields.hidden(agents)  # the mean reward,
    lost: Floats = fields.hidden(agents)  # and how much less it is than that of the best item
    knew: Bools = fields.public(agents)  # whether the agent had statistics of its neighbours in the last round
    records: Ints = fields.public(agents)  # and the number of feedbacks that it could know of
    asks: Bools = fields.public(agents)  # whether it asked for the next one
    consulted: Bools = fields.public(agents)  # whether the third party has already answered in this round
    selected: Bools = fields.public()  # whether what is shown next was selected through the channel
    bare: Bools = fields.public()  # whether what was shown last was not
    own_counts: Ints = fields.own(lambda p: agents(p, cells(p), clusters(p)))  # feedbacks so far
    own_sums: Ints = fields.own(lambda p: agents(p, cells(p), clusters(p)))
    answered: Bools = fields.received(agents)
    counts: Floats = fields.received(lambda p: agents(p, clusters(p)))  # the answer
    means: Floats = fields.received(lambda p: agents(p, clusters(p)))
    exposed: Ints = fields.public()  # items shown without selection, by each agent
    sent: Ints = fields.public(agents)  # messages about feedbacks
    earned: Floats = fields.hidden()  # sums over agents and rounds
    expected_reward: Floats = fields.hidden()
    regret: Floats = fields.hidden()
    shared: Ints = fields.hidden()  # agent-rounds with an answer
    time: Ints = fields.public()


class Constants(NamedTuple):
    """What the functions of a recommender know as `params`."""

    num_agents: int
    num_items: int
    shift: int  # a code without its last bits names the item's cluster
    horizon: int
    homogeneous: bool
    starts: Ints  # [G]: the rounds in which items arrive,
    sizes: Ints  # [G + 1]: and how many each agent then has
    goods: Floats  # [K, 5]: the items of a catalogue that was not drawn; empty without one
    users: Floats  # [n, d]: and its contexts
    bumps: int  # see `rewards.number_of_bumps`
    heights: Floats
    radii: Floats
    first: Ints  # [W + 1]: where each agent's neighbours begin,
    neighbours: Ints  # in this list
    plain: bool  # whether nothing stands on the channels


# One recommender, as `taciturn.envs.core.Replicas` says.


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
    """The cell of a context for which statistics can be asked: it halves the first two dimensions."""
    cell = 1 if context[0] >= 0.5 else 0
    return cell + 2 if len(context) > 1 and context[1] >= 0.5 else cell


def show(arrays: Any, params: Any, i: int, item: int, cluster: int, rng: Any) -> None:
    """Agent i shows an item (-1, or one that it does not have: nothing) to its user, and the next user comes."""
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
    """A round, by the numbers of items."""
    for i in range(params.num_agents):
        item = int(actions[i] % params.num_items)
        arrays.asks[i] = actions[i] >= params.num_items
        show(arrays, params, i, item, arrays.codes[item] >> params.shift, rng)
    move_on(state, arrays, params)


def by_cluster(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """A round, by the numbers of clusters, of which random items are shown."""
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


def by_point(state: Any, arrays: Any, actions: Any, params: Any, rng: Any) -> None:
    """A round, by points near which items are shown."""
    for i in range(params.num_agents):
        item, least = 0, math.inf
        arrays.asks[i] = actions[i, ITEM_DIMS] >= 0.5
        for m in range(state.at_hand):
            away, k = 0.0, int(arrays.held[i, m])
            for d in range(ITEM_DIMS):
                away += (arrays.items[k, d] - float(actions[i, d])) ** 2
            if away < least:
                item, least = k, away
        show(arrays, params, i, item, arrays.codes[item] >> params.shift, rng)
    move_on(state, arrays, params)


def move_on(state: Any, arrays: Any, params: Any) -> None:
    """Add up the round; the items that are due arrive."""
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
    """What the neighbours of agent i know of a cell, exactly."""
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
    """Answer those who ask, for their next users, unless the third party has (`Recommender.between`)."""
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


class Recommender(Telling[State]):
    __doc__ = __doc__
    name = "recommender"
    params: Params
    hidden = frozenset({"family", "bumps", "heights", "radii", "users"})
    state_type: ClassVar[Any] = State
    sources = SOURCES
    tells_each: ClassVar[Mapping[str, tuple[str, str]]] = {
        "mu": ("agent", "mu"), "regret": ("agent", "lost"), "cluster": ("agent", "cluster"), "cell": ("agent", "cell"),
        "shared": ("agent", "knew"), "records": ("agent", "records"),
    }  # fmt: skip
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {
        "statistics": ("", "sent"), "counts": ("", "sent"), "selection": ("exposed", ""),
    }  # fmt: skip
    begin, heard, observe_one = staticmethod(begin), staticmethod(listen), staticmethod(observe)

    def __init__(self, params: Params, num_envs: int = 1, first_replica: int = 0) -> None:
        self.clusters, self.cells = clusters(params), cells(params)
        super().__init__(params, num_envs, first_replica)
        self.third_party = ThirdParty(num_envs, params.num_agents)
        self._released: dict[str, Released] = {}
        self._catalogue: tuple[Floats, Ints] | None = None
        self._mask: tuple[Any, Array] | None = None
        self._sketch: Callable[[int, int, Floats], drawing.Sketch] | None = None

    @property
    def said(self) -> Callable[..., None]:
        return {"item": by_item, "cluster": by_cluster, "point": by_point}[self.params.actions]

    def constants(self) -> Constants:
        p, network = self.params, self.params.network
        brought = isinstance(p.family, Catalogue)
        starts = np.unique(np.array([start for start, _ in p.growth], np.int64))
        heights, radii = (np.array(x) for x in zip(*BUMPS, strict=True))
        return Constants(
            p.num_agents,
            p.num_items,
            DEPTH - p.cluster_depth,
            p.horizon,
            bool(p.homogeneous),
            starts,
            p.available(np.append(0, starts)),
            p.family.items if brought else np.zeros((0, ITEM_DIMS)),
            p.family.contexts if brought else np.zeros((0, p.context_dim)),
            number_of_bumps(p.family),
            heights,
            radii,
            np.append(0, np.cumsum(network.degrees)).astype(np.int64),
            np.asarray(network.indices, np.int64),
            self.plain,
        )

    def arrays(self) -> dict[str, Any]:
        p, bumps = self.params, number_of_bumps(self.params.family)
        searched = 0 if bumps == OWN else p.num_items
        blocks = -(-searched // BLOCK)
        held = np.uint16 if p.num_items <= 2**16 else np.uint32
        return super().arrays() | {
            "order": np.zeros(blocks * BLOCK, held),
            "place": np.zeros(searched, held),
            "near": np.zeros((blocks, ITEM_DIMS, BLOCK), np.float32),
            "least": np.zeros((ITEM_DIMS, blocks), np.float32),
            "greatest": np.zeros((ITEM_DIMS, blocks), np.float32),
            "reach": blocks,
            "goals": (p.num_agents, max(bumps, 1), ITEM_DIMS),
            "values": (p.num_agents, p.num_items if bumps == OWN else 0),
            # Without memory, as there is a number for each agent and item.
            "held": np.broadcast_to(np.zeros((), held), (p.num_agents, p.repository)),
            "active": np.broadcast_to(np.zeros((), np.bool_), (p.num_agents, p.num_items)),
        }

    def make_roles(self) -> tuple[Role, ...]:
        p, longest = self.params, float(self.params.horizon)
        layout = Layout(
            context=(p.context_dim, 0, 1),
            time=(1, 0, longest),
            answered=(1, 0, 1),
            counts=(self.clusters, 0, longest * p.num_agents),
            means=(self.clusters, 0, 1),
        )
        if p.actions == "point":
            space: Any = gymnasium.spaces.Box(0, 1, (ITEM_DIMS + 1,), np.float32)
        else:
            space = gymnasium.spaces.Discrete(2 * (p.num_items if p.actions == "item" else self.clusters))
        return (Role("agent", p.num_agents, layout, space),)

    def public(self) -> dict[str, Any]:
        """`catalogue`; `consult`, to ask the third party for statistics of one's choice; `select`, to select by scores;
        `draw_with`, to say what pictures show of an agent's knowledge."""
        return {
            "catalogue": self.catalogue,
            "consult": self.consult,
            "select": self.select,
            "draw_with": self.draw_with,
        }

    def catalogue(self) -> tuple[Floats, Ints]:
        """The items [B, K, 5] and their codes [B, K] in the present runs; other arrays when a run begins."""
        self._begun()
        if self._catalogue is None:
            self._catalogue = self.column("items").copy(), self.column("codes").copy()
        return self._catalogue

    def practice_params(self) -> Params:
        return replace(self.params, family="peak") if callable(self.params.family) else self.params

    def draw_with(self, sketch: Callable[[int, int, Floats], drawing.Sketch] | None) -> None:
        """Until the next run, draw the knowledge that `sketch` returns for a replica, an agent and its context [d]."""
        self._sketch = sketch

    def sketch(self, replica: int, agent: int, context: Floats) -> drawing.Sketch:
        """The knowledge of an agent to draw: as the policy says, else its own feedbacks by cluster in the context's
        cell."""
        if self._sketch is not None:
            return self._sketch(replica, agent, context)
        s, codes, cell = self.state, np.sort(self.state.codes[replica]), cell_of(context)
        edges = np.searchsorted(codes, np.arange(self.clusters + 1) << (DEPTH - self.params.cluster_depth))
        counts, sums = s.own_counts[replica, agent, cell], s.own_sums[replica, agent, cell]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        low = np.array(list(np.ndindex(*(2,) * min(len(context), 2)))) / 2
        low = np.pad(low, ((0, 0), (0, len(context) - low.shape[1])))
        sides = np.where(np.arange(len(context)) < 2, 0.5, 1.0)
        return drawing.Sketch(np.stack([edges[:-1], edges[1:]], 1), means, np.stack([low, low + sides], 1))

    # Runs.

    def begun(self, where: Bools) -> None:
        """Forget what was told in these replicas; copies of this population forget nothing."""
        if where.all():
            shape = self.num_envs, self.params.num_agents
            self.third_party, self._sketch = ThirdParty(*shape), None
            sizes = *shape, self.cells, self.clusters
            self._released = {} if self.plain else {name: Released(*sizes) for name in CHANNELS}
        self.third_party.start(where, self.channels)
        for released in self._released.values():
            released.start(where)
        self._catalogue = self._mask = None
        if self.appraises:
            self.appraise(where)

    @property
    def appraises(self) -> bool:
        """Whether mean rewards come from a function of the user's own; a log has none."""
        family = self.params.family
        return callable(family) and not (isinstance(family, Catalogue) and type(family).__call__ is Catalogue.__call__)

    def appraise(self, where: Bools) -> None:
        """The mean rewards of all items in the present contexts, and each agent's best item at hand."""
        contexts, items = self.column("contexts")[where][:, :, None], self.column("items")[where][:, None]
        values = means(self.params.family, contexts, items, {})
        own = np.where(self.column("active")[where], values, -np.inf)
        self.column("values")[where], self.column("best")[where] = values, own.argmax(-1)
        self.column("most")[where] = own.max(-1)

    def splits(self) -> bool:
        return super().splits() or callable(self.params.family)

    def between(self, live: Bools) -> None:
        """Send what was shown, and the answers to those who ask, through the channels."""
        if callable(self.params.family):
            self.appraise(live)
        if self.plain:
            for channel in self.channels.values():
                channel.times += 1
            return
        self.expose(live)
        answers = self.answers(live[:, None] & self.column("asks"))
        for name, values in zip(("answered", "counts", "means"), answers, strict=True):
            self.column(name)[live] = values[live]

    def show_context(self, contexts: Floats, time: int) -> None:
        """After `time` rounds, show these contexts [B, W, d], of users in a log, instead of the drawn ones."""
        self.column("contexts")[...], self.column("time")[...] = contexts, time
        self._moved()

    # What is known of mean rewards.

    def instance(self, state: State) -> dict[str, Floats]:
        return {name: getattr(state, name) for name in ("weights", "directions", "phases", "matrix")}

    def best_at_hand(self) -> Ints:
        """The item with the highest mean reward that each agent has for the user to be served, int64[B, W]."""
        self._begun()
        return self.column("best").copy()

    # Observations and metrics.

    def action_mask(self, role: str) -> Array | None:
        """See `Population`; read-only, and the same array until items arrive."""
        p = self.params
        if p.actions == "point":
            return None
        self._begun()
        moment = self.column("at_hand").tobytes() if p.growth else b""
        if self._mask is None or self._mask[0] != moment:
            active = self.column("active")
            mask = np.zeros((*active.shape[:2], 2 * (p.num_items if p.actions == "item" else self.clusters)), np.int8)
            width = mask.shape[2] // 2
            if p.actions == "item":
                mask[..., :width] = mask[..., width:] = active
            else:
                b, w, k = np.nonzero(active)
                cluster = self.column("codes")[b, k] >> (DEPTH - p.cluster_depth)
                mask[b, w, cluster] = mask[b, w, width + cluster] = 1
            mask.flags.writeable = False
            self._mask = moment, mask
        return self._mask[1]

    def clock(self) -> Floats:
        self._begun()
        return self.column("time").astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        """Means per agent and round so far, [B]."""
        self._begun()
        played = np.maximum(self.column("time"), 1) * self.params.num_agents
        names = {"reward": "earned"} | {name: name for name in ("expected_reward", "regret", "shared")}
        return {name: partial(np.divide, self.column(field), played) for name, field in names.items()}

    def outcome(self) -> dict[str, Array]:
        """Means per agent and round, [B]: `reward`, `expected_reward` (mu of what was shown), `regret` (against the
        best item that the agent had), and `shared`, the share of rounds in which agents had statistics of their
        neighbours."""
        return {name: np.asarray(value(), np.float64) for name, value in self.measures().items()}

    describe, draw = drawing.describe, drawing.draw


recommender_v0 = World(Recommender, Params)
