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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import gymnasium
import numpy as np

from taciturn.envs.core import (
    Acts,
    Channel,
    ChannelConfig,
    Fast,
    Layout,
    Population,
    Role,
    Transition,
    World,
    fields,
    updated,
)
from taciturn.envs.core.graph import Graph
from taciturn.envs.core.public import Passing
from taciturn.envs.recommender import drawing
from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.envs.recommender.fast import Block, RoundPlan
from taciturn.envs.recommender.geometry import DEPTH, cell_digits, grid, item_codes
from taciturn.envs.recommender.rewards import FAMILIES, ITEM_DIMS, Ahead, best_items, draw_instance, means
from taciturn.envs.recommender.sharing import (
    CHANNELS,
    OWN_NAMES,
    STREAMS,
    Reader,
    Released,
    Request,
    ThirdParty,
    is_plain,
)
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number, shown

ITEM_CLUSTERS, ITEM_SPREAD, ITEM_UNIFORM = 12, 0.1, 0.3
CONTEXT_CLUSTERS, CONTEXT_SPREAD, CONTEXT_UNIFORM = 8, 0.08, 0.25
ACTIONS = ("item", "cluster", "point")
MAX_HORIZON = 2**24  # float32 represents every whole number of rounds up to here
MOST_DIMS = 9
IMPOSSIBLE = -1e9  # the score of what cannot be selected
BLOCK_NUMBERS, FEW_NUMBERS = 2**21, 2**16  # numbers drawn at a time, for contexts and repositories


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


@dataclass(frozen=True)
class State:
    """B recommenders."""

    items: Floats = fields.public()  # [B, K, 5]: the catalogue's features
    codes: Ints = fields.public()  # [B, K]: see `geometry.item_codes`
    # unsigned[B, W, K]: place of the item among the agent's in the order of their arrival, the largest number: not in
    # its repository;
    rank: Array = fields.hidden()  # [B, W, 0] if all are there from the start
    active: Bools = fields.public()  # [B, W, K]: the items that the agent has now
    weights: Floats = fields.hidden()  # [B, 5]; this and the next three: `rewards.draw_instance`
    directions: Floats = fields.hidden()  # [B, bumps, 5, d]
    phases: Floats = fields.hidden()  # [B, bumps, 5]
    matrix: Floats = fields.hidden()  # [B, 5, d + 1]
    centres: Floats = fields.hidden()  # [B, 8, d]: of the clusters of contexts
    contexts: Floats = fields.public()  # [B, W, d]: of the users to be served
    served: Floats = fields.public()  # [B, W, d]: the contexts of the last round
    shown: Ints = fields.public()  # [B, W]: what was shown in it, -1: nothing
    own_counts: Ints = fields.own()  # [B, W, cells, clusters]: feedbacks so far
    own_sums: Ints = fields.own()  # [B, W, cells, clusters]
    answered: Bools = fields.received()  # [B, W]
    counts: Floats = fields.received()  # [B, W, clusters]: the answer
    means: Floats = fields.received()  # [B, W, clusters]
    reward: Floats = fields.hidden()  # [B]: sums over agents and rounds
    expected_reward: Floats = fields.hidden()  # [B]
    regret: Floats = fields.hidden()  # [B]
    shared: Ints = fields.hidden()  # [B]: agent-rounds with an answer
    time: Ints = fields.public()  # [B]


def _clipped_clusters(
    shape: tuple[int, ...],
    centres: Floats,
    spread: float,
    uniform: float,
    which: Floats,
    noise: Floats,
    anywhere: Floats,
) -> Floats:
    """Points [..., d] of `shape` from Gaussian clusters around `centres` [..., c, d], or anywhere, clipped to [0,
    1]."""
    cluster = np.minimum(
        (np.maximum(which - uniform, 0) / (1 - uniform) * centres.shape[-2]).astype(np.int64), centres.shape[-2] - 1
    )
    middle = np.take_along_axis(centres, cluster.reshape(len(centres), -1)[..., None], -2).reshape(shape)
    points = np.where((which < uniform)[..., None], anywhere, middle + spread * noise)
    # In single precision, as observations show them.
    return np.clip(points, 0, 1).astype(np.float32).astype(np.float64)


class Recommender(Population[State]):
    __doc__ = __doc__
    name = "recommender"
    params: Params
    hidden = frozenset({"family"})
    jumps: Mapping[str, type[Fast]] = {"agent": RoundPlan}
    passes: Mapping[str, Passing] = {
        "consult": Passing(lambda request: request.asked),
        "select": Passing(lambda scores, possible, sensitivity: np.where(possible, scores, 0.0)),
    }

    def __init__(self, params: Params, num_envs: int = 1) -> None:
        super().__init__(params, num_envs)
        self.third_party = ThirdParty(num_envs, params.num_agents)
        shape = (num_envs, params.num_agents)
        self._consulted, self._selected = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        self._released = {name: Released(*shape, self.cells, self.clusters) for name in CHANNELS}
        self._mask: tuple[Any, Array] | None = None
        self._ahead: tuple[Any, Ahead] | None = None
        self._sketch: Callable[[int, int, Floats], drawing.Sketch] | None = None

    @property
    def clusters(self) -> int:
        """2^D."""
        return 1 << self.params.cluster_depth

    @property
    def cells(self) -> int:
        """The number of cells of contexts for which statistics can be asked."""
        return 1 << min(self.params.context_dim, 2)

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

    def make_channels(self) -> tuple[Channel, ...]:
        tell: Any = {"observer": "neighbour", "unit": "event", "agents_decide": True, "given": "what was shown"}
        return (
            Channel("statistics", "stream", **tell),
            Channel("counts", "stream", **tell),
            Channel("selection", "scores", observer="public", unit="event"),
        )

    def check_channel(self, channel: str, config: ChannelConfig) -> None:
        law = config.mechanism
        fitting = ("exponential",) if channel == "selection" else STREAMS
        if law is not None and law.kind not in ("none", *fitting):
            wanted = "Exponential" if channel == "selection" else "TreeAggregation or Blocks"
            raise ValueError(f"mechanism on channel {channel!r} must be {wanted}, not {law!r}")
        if law is not None and law.kind in STREAMS:
            if law.sampler != "fast":  # type: ignore[attr-defined]
                raise ValueError(
                    f"sampler must be 'fast' on channel {channel!r}, where noise follows from its address, not {law!r}"
                )
            law.block_scale(self.params.horizon, 1.0)  # type: ignore[attr-defined]
        if channel != "selection" and config.budget is not None:
            raise ValueError(
                f"budget must be None on channel {channel!r}, where a request costs what it newly reveals, not "
                f"{config.budget!r}"
            )

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
        """The items [B, K, 5] and their codes [B, K] in the present runs."""
        return self.state.items, self.state.codes

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
        s, codes, cell = self.state, np.sort(self.state.codes[replica]), self.cell_of(context)
        edges = np.searchsorted(codes, np.arange(self.clusters + 1) << (DEPTH - self.params.cluster_depth))
        counts, sums = s.own_counts[replica, agent, cell], s.own_sums[replica, agent, cell]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        low = np.array(list(np.ndindex(*(2,) * min(len(context), 2)))) / 2
        low = np.pad(low, ((0, 0), (0, len(context) - low.shape[1])))
        sides = np.where(np.arange(len(context)) < 2, 0.5, 1.0)
        return drawing.Sketch(np.stack([edges[:-1], edges[1:]], 1), means, np.stack([low, low + sides], 1))

    # Random draws.

    def initial(self) -> State:
        p, size, rng = self.params, self.num_envs, self.stream("catalogue")
        k, d, w = p.num_items, p.context_dim, p.num_agents
        self.begin_run(self.channels["statistics"].live)
        if isinstance(p.family, Catalogue):
            items = np.repeat(p.family.items[None], size, 0)
        else:
            items = _clipped_clusters(
                (size, k, ITEM_DIMS),
                rng.random((size, ITEM_CLUSTERS, ITEM_DIMS)),
                ITEM_SPREAD,
                ITEM_UNIFORM,
                rng.random((size, k)),
                rng.standard_normal((size, k, ITEM_DIMS)),
                rng.random((size, k, ITEM_DIMS)),
            )
        rank, active = self.draw_repositories()
        none, zero = np.zeros(size, np.int64), np.zeros(size)
        own = np.zeros((size, w, self.cells, self.clusters), np.int64)
        told = np.zeros((size, w, self.clusters))
        centres = self.stream("context clusters").random((size, CONTEXT_CLUSTERS, d))
        contexts = self.draw_contexts(centres, 1)[0]
        return State(
            items=items,
            codes=item_codes(items),
            rank=rank,
            active=active,
            **draw_instance(p.family, size, d, self.stream("instance")),
            centres=centres,
            contexts=contexts,
            served=contexts,
            shown=np.full((size, w), -1),
            own_counts=own,
            own_sums=own,
            answered=np.zeros((size, w), np.bool_),
            counts=told,
            means=told,
            reward=zero,
            expected_reward=zero,
            regret=zero,
            shared=none,
            time=none,
        )

    def draw_repositories(self) -> tuple[Array, Bools]:
        """`State.rank` and `State.active` at the start, drawn for a few agents at a time to save memory."""
        p, rng = self.params, self.stream("repositories")
        k, drawn = p.num_items, 1 if p.homogeneous else p.num_agents
        rows = self.num_envs * drawn
        rank = np.empty((rows, k if p.growth else 0), np.uint16 if k < 2**16 else np.uint32)
        active = np.zeros((rows, k), np.bool_)
        places = np.where(np.arange(k) < p.repository, np.arange(k), np.iinfo(rank.dtype).max).astype(rank.dtype)
        now, few = int(p.available(np.zeros((), np.int64))), max(FEW_NUMBERS // k, 1)
        for first in range(0, rows, few):
            some = slice(first, first + few)
            order = rng.random((len(active[some]), k)).argsort(-1)
            np.put_along_axis(active[some], order[:, :now], True, -1)
            if p.growth:
                np.put_along_axis(rank[some], order, np.broadcast_to(places, order.shape), -1)

        def of_all(array: Array) -> Array:
            width = array.shape[1]
            each = array.reshape(self.num_envs, drawn, width)
            return np.ascontiguousarray(np.broadcast_to(each, (self.num_envs, p.num_agents, width)))

        return of_all(rank), of_all(active)

    def begin_run(self, fresh: Bools) -> None:
        """Forget what was told in the replicas `fresh` bool[B]; copies of this population forget nothing."""
        if fresh.all():
            shape = (self.num_envs, self.params.num_agents)
            self.third_party = ThirdParty(*shape)
            self._released = {name: Released(*shape, self.cells, self.clusters) for name in CHANNELS}
            self._sketch = None
        self.third_party.start(fresh, self.channels)
        for released in self._released.values():
            released.start(fresh)
        self._consulted, self._selected = self._consulted & ~fresh[:, None], self._selected & ~fresh[:, None]

    def draw_contexts(self, centres: Floats, rounds: int) -> Floats:
        """The contexts of the next users, [rounds, B, W, d], from their own streams."""
        p, size = self.params, (rounds, self.num_envs, self.params.num_agents)
        which = self.stream("contexts").random(size)
        if isinstance(p.family, Catalogue):
            return p.family.contexts[(which * len(p.family.contexts)).astype(np.int64)]
        noise = self.stream("contexts/normal").standard_normal((*size, p.context_dim))
        anywhere = self.stream("contexts/uniform").random((*size, p.context_dim))
        by_replica = [np.swapaxes(part, 0, 1) for part in (which, noise, anywhere)]
        shape = (self.num_envs, rounds, p.num_agents, p.context_dim)
        return np.swapaxes(_clipped_clusters(shape, centres, CONTEXT_SPREAD, CONTEXT_UNIFORM, *by_replica), 0, 1)

    def show_context(self, contexts: Floats, time: int) -> None:
        """After `time` rounds, show these contexts [B, W, d], of users in a log, instead of the drawn ones."""
        self._state = updated(self.state, contexts=contexts, time=np.full(self.num_envs, time))

    def instance(self, state: State) -> dict[str, Floats]:
        return {name: getattr(state, name) for name in ("weights", "directions", "phases", "matrix")}

    def mean_rewards(self, state: State, contexts: Floats, items: Ints) -> tuple[Floats, Floats]:
        """mu of items [..., B, W] (numbers in the catalogue) in contexts [..., B, W, d], and mu of the agents' best
        items."""
        best = self.best_at_hand(contexts, state)
        features = state.items[np.arange(self.num_envs)[:, None], np.concatenate([items, best], -1)]
        both = means(self.params.family, np.concatenate([contexts, contexts], -2), features, self.instance(state))
        return both[..., : items.shape[-1]], both[..., items.shape[-1] :]

    def best_at_hand(self, contexts: Floats, state: State | None = None) -> Ints:
        """The item with the highest mean reward that each agent has in `state` (None: now), int64[..., B, W]."""
        state = self.state if state is None else state
        family, instance = self.params.family, self.instance(state)
        if self._ahead is None or self._ahead[0] is not state.active:
            self._ahead = (state.active, Ahead.of(family, state.items, state.active, instance))
        return best_items(family, contexts, self._ahead[1], instance)

    # Actions.

    def cluster_of(self, codes: Ints) -> Ints:
        return codes >> (DEPTH - self.params.cluster_depth)

    def cell_of(self, contexts: Floats) -> Ints:
        """The cell of contexts [..., d] for which the neighbours' statistics can be asked."""
        steps = grid(contexts[..., :2])
        return cell_digits(steps, np.zeros(steps.shape[:-1], np.int64), bisect=False)

    def choose(self, state: State, action: Array) -> tuple[Ints, Bools]:
        """The items int64[B, W] that the agents want to show, and who asks, bool[B, W]."""
        p = self.params
        if p.actions == "item":
            return action % p.num_items, action >= p.num_items
        if p.actions == "point":
            own = np.where(state.active, _squared_distances(action[..., :ITEM_DIMS], state.items), np.inf)
            return own.argmin(-1), action[..., ITEM_DIMS] >= 0.5
        inside = state.active & (self.cluster_of(state.codes)[:, None] == (action % self.clusters)[:, :, None])
        luck = self.stream("items").random(action.shape)
        place = (luck * inside.sum(-1)).astype(np.int64)
        return (inside.cumsum(-1) > place[:, :, None]).argmax(-1), action >= self.clusters

    def transition(self, state: State, actions: dict[str, Array]) -> Transition[State]:
        replica, agent = np.arange(self.num_envs)[:, None], np.arange(self.params.num_agents)
        item, asks = self.choose(state, actions["agent"])
        if self.params.actions == "cluster":
            shows = self._clusters_at_hand(state)[replica, agent, actions["agent"] % self.clusters]
        else:
            shows = state.active[replica, agent, item]
        mu, best = self.mean_rewards(state, state.contexts, item)
        mu = mu * shows
        likes = self.private(self.stream("rewards").random(mu.shape) < mu) & shows
        cell, cluster = self.cell_of(state.contexts), self.cluster_of(state.codes)[replica, item]
        self.show(cluster)
        counts, sums = state.own_counts.copy(), state.own_sums.copy()
        counts[replica, agent, cell, cluster] += shows
        sums[replica, agent, cell, cluster] += likes
        shared = state.answered | self._consulted
        new = self.moved_on(
            updated(
                state,
                served=state.contexts,
                shown=np.where(shows, item, -1),
                own_counts=counts,
                own_sums=sums,
                reward=state.reward + likes.sum(1),
                expected_reward=state.expected_reward + mu.sum(1),
                regret=state.regret + (best - mu).sum(1),
                shared=state.shared + shared.sum(1),
                time=state.time + 1,
            ),
            self.draw_contexts(state.centres, 1)[0],
        )
        new = self.tell(new, asks)
        known = state.time[:, None] * (1 + shared * self.params.network.degrees)
        info = {
            "mu": {"agent": mu}, "regret": {"agent": best - mu}, "cluster": {"agent": cluster}, "cell": {"agent": cell},
            "shared": {"agent": shared}, "records": {"agent": known},
        }  # fmt: skip
        nobody = np.zeros(self.num_envs, np.bool_)
        return new, {"agent": likes.astype(np.float64)}, nobody, new.time >= self.params.horizon, info

    def moved_on(self, state: State, contexts: Floats) -> State:
        """The state after the next users, and the items due this round, have arrived."""
        self._consulted = np.zeros_like(self._consulted)
        before, now = self.params.available(state.time - 1), self.params.available(state.time)
        if (before == now).all():
            return updated(state, contexts=contexts)
        return updated(state, contexts=contexts, active=state.rank < now[:, None, None])

    def show(self, cluster: Ints) -> None:
        """Everyone sees what is shown: items that were not selected through the channel are exposed."""
        channel = self.channels["selection"]
        bare = ~self._selected & channel.live[:, None]
        self._selected = np.zeros_like(self._selected)
        if channel.config.mechanism is None or channel.config.mechanism.kind == "none":
            channel.send(cluster[:, :, None], None if bare.all() else bare)
        else:
            channel.expose(bare.astype(np.int64))

    def tell(self, state: State, asks: Bools) -> State:
        """Answer the agents in `asks` bool[B, W] for their next contexts."""
        if not (asks.any() or state.answered.any()):
            return state
        p, network = self.params, self.params.network
        asks = asks & (state.time < p.horizon)[:, None] & (network.degrees > 0)
        cell = self.cell_of(state.contexts)
        told = [
            np.take_along_axis(network.neighbour_sums(own), cell[:, :, None, None], 2)[:, :, 0]
            for own in (state.own_sums, state.own_counts)
        ]
        streams = (np.arange(p.num_agents) * self.cells + cell)[:, :, None] * self.clusters
        names = OWN_NAMES + (streams + np.arange(self.clusters)).astype(np.uint64)

        def messages(who: Bools) -> Ints:
            return network.neighbour_sums(who.astype(np.int64))

        def entered(who: Bools, reader: Reader) -> Ints:
            # Here an agent's streams are its own, so nobody else gets lies about them.
            return self._released[reader[0]].entered(who, cell, state.own_counts > 0, network)

        request = Request(asks, told[0], told[1], names, messages, network.degrees, entered)
        sums, counts, answered = self.third_party.answer(request, self.channels, state.time, p.horizon)
        counts = np.where(answered[:, :, None], np.maximum(counts, 0), 0)
        means = np.where(counts > 0, np.clip(sums / np.maximum(counts, 1), 0, 1), 0)
        return updated(state, answered=answered, counts=counts, means=means)

    def consult(self, request: Request) -> tuple[Floats, Floats, Bools]:
        """Ask the third party for statistics before acting; see `ThirdParty.answer`. `info` counts agents with an
        answer as `shared`."""
        if (request.streams >= OWN_NAMES).any():
            raise ValueError(f"streams must have names below 2^63, not {request.streams.max()}")
        state = self.state
        sums, counts, answered = self.third_party.answer(request, self.channels, state.time, self.params.horizon)
        self._consulted |= answered
        return sums, counts, answered

    def select(self, scores: Floats, possible: Bools, sensitivity: Array) -> Ints:
        """Select options by scores over the channel `selection`.

        Args:
            scores: float64[B, W, K], clipped to [0, sensitivity], so that it holds whatever they are.
            possible: the options to select from, bool[B, W, K]; public.
            sensitivity: how far one feedback can change a score, an array that broadcasts against [B, W, 1]; public.

        Returns:
            The options int64[B, W]; -1 where the selection was lost.
        """
        channel = self.channels["selection"]
        scores = np.where(possible, np.clip(scores, 0, sensitivity), IMPOSSIBLE)
        option, arrived = channel.send(scores, None, sensitivity)
        if option.ndim == scores.ndim:  # without noise the scores arrive unchanged
            option = option.argmax(-1)
        self._selected |= channel.live[:, None]
        return np.where(arrived, option, -1)

    # Many rounds at once.

    def can_jump(self, until: float) -> bool:
        """Requires live replicas that have all played the same number of rounds, a named family, and channels without
        mechanisms."""
        times, p = np.unique(self.state.time[~self.done]), self.params
        until = min(until, float(p.horizon))
        named = not callable(p.family) and p.actions == "item"
        bare = all(channel.config.mechanism is None for channel in self.channels.values()) and is_plain(self.channels)
        return (
            named and bare and not self.done.any() and len(times) == 1 and until == np.floor(until) and until > times[0]
        )

    def jump(self, forms: Mapping[str, Any], policies: Mapping[str, Acts], until: float) -> None:
        """Play several rounds with agents that follow a `RoundPlan`; the same bits as steps, except for rounding in the
        metrics."""
        p, state, form = self.params, self.state, forms["agent"]
        last, time = int(min(until, float(p.horizon))), int(state.time[0])
        marks = sorted({last, *(start for start, _ in p.growth if time < start < last)})
        size = self.num_envs * p.num_agents
        while time < last:
            stop = min(
                next(mark for mark in marks if mark > time), time + max(BLOCK_NUMBERS // (size * p.context_dim), 1)
            )
            rounds = stop - time
            coming = self.draw_contexts(state.centres, rounds)
            contexts = np.concatenate([state.contexts[None], coming[:-1]])
            luck = self.stream("rewards").random(contexts.shape[:-1])
            self._state = state = self.play_block(state, form, contexts, luck, coming[-1])
            time = stop
        self.truncated = self.truncated | (state.time >= p.horizon)

    def play_block(self, state: State, form: RoundPlan, contexts: Floats, luck: Floats, then: Floats) -> State:
        """Play rounds with these contexts [T, B, W, d]; the uniform numbers [T, B, W] decide who likes the item
        shown."""
        rounds, replica = len(contexts), np.arange(self.num_envs)[:, None]
        family, instance = self.params.family, self.instance(state)
        item, likes, shared, messages = form.play(
            Block(int(state.time[0]), contexts, luck, state.active, family, instance, state.items)
        )
        for name in ("statistics", "counts"):
            self.channels[name].record(each=messages)
        self.channels["selection"].record(np.full(self.num_envs, rounds))
        agent = np.arange(self.params.num_agents)
        where = (replica, agent, self.cell_of(contexts), self.cluster_of(state.codes)[replica, item])
        counts, sums = state.own_counts.copy(), state.own_sums.copy()
        np.add.at(counts, where, 1)
        np.add.at(sums, where, likes)
        mu, best = (values.sum((0, 2)) for values in self.mean_rewards(state, contexts, item))
        new = updated(
            state,
            served=contexts[-1],
            shown=item[-1],
            own_counts=counts,
            own_sums=sums,
            reward=state.reward + likes.sum((0, 2)),
            expected_reward=state.expected_reward + mu,
            regret=state.regret + best - mu,
            shared=state.shared + shared.sum((0, 2)),
            time=state.time + rounds,
        )
        return self.moved_on(new, then)

    # Observations and metrics.

    def observe_role(self, state: State, role: str, rows: Array | None = None) -> Array:
        time = np.broadcast_to(state.time[:, None].astype(np.float64), state.answered.shape)
        return self.roles[role].layout.pack(
            context=state.contexts,
            time=time,
            answered=state.answered.astype(np.float64),
            counts=state.counts,
            means=state.means,
        )

    def _clusters_at_hand(self, state: State) -> Bools:
        """The clusters in which agents have items, bool[B, W, clusters]."""
        at_hand = np.zeros((*state.answered.shape, self.clusters), np.bool_)
        b, w, k = np.nonzero(state.active)
        at_hand[b, w, self.cluster_of(state.codes)[b, k]] = True
        return at_hand

    def action_mask(self, role: str) -> Array | None:
        p, active = self.params, self.state.active
        if p.actions == "point":
            return None
        if self._mask is None or self._mask[0] is not active:
            own = active if p.actions == "item" else self._clusters_at_hand(self.state)
            self._mask = (active, np.concatenate([own, own], -1).view(np.int8))
        return self._mask[1].copy()

    def empty_info(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {"mu": 0.0, "regret": 0.0, "cluster": 0, "cell": 0, "shared": False, "records": 0}
        return {name: {"agent": value} for name, value in nothing.items()}

    def measures(self) -> dict[str, Callable[[], Array]]:
        """Means per agent and round so far, [B]."""
        s = self.state
        played = np.maximum(s.time, 1) * self.params.num_agents
        names = ("reward", "expected_reward", "regret", "shared")
        return {name: partial(np.divide, getattr(s, name), played) for name in names}

    def outcome(self) -> dict[str, Array]:
        """Means per agent and round, [B]: `reward`, `expected_reward` (mu of what was shown), `regret` (against the
        best item that the agent had), and `shared`, the share of rounds in which agents had statistics of their
        neighbours."""
        return {name: np.asarray(value(), np.float64) for name, value in self.measures().items()}

    describe, draw = drawing.describe, drawing.draw


def _squared_distances(points: Array, items: Floats) -> Floats:
    """Squared distances of points [B, W, 5] to items [B, K, 5], [B, W, K], up to a constant for each point."""
    product = points.astype(np.float64) @ np.swapaxes(items, 1, 2)
    return np.asarray((items**2).sum(-1)[:, None] - 2 * product)


recommender_v0 = World(Recommender, Params)
