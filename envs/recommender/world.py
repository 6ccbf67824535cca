"""How much do service providers gain from sharing user feedback, and what does it cost in privacy?

Description
    `W` service providers (agents) on a graph each serve one user a round. A context arrives, the agent shows an item
    from its repository, and the user likes it or not: a feedback of 0 or 1. Each agent has a part of one catalogue of
    items with public features. Agents can ask a trusted third party for the sums and numbers of their
    neighbours' feedbacks, by context and item.

Paper
    Zhou, Wang, Guo, Gong and Zheng, "A privacy-preserving distributed contextual federated online learning framework
    with big data support in social recommender systems": the system of section 2, the tree of item clusters and the
    sharing of sections 2.1, 3.1 and 3.3. The algorithms are the policies `TPriDO` and `DTPriDO`.

Agents
    `agent_0` to `agent_{W-1}`, simultaneously.

Observation
    Box float32: `context` [d], of the next user; `time`, rounds played so far; `answered`, 1 if the agent asked in its
    last action and got an answer; and this answer: for each of the 2^D clusters of items of depth D, the `counts` of
    the neighbours' feedbacks in the context's cell and their `means` (0 without any). The context space has at most
    four cells: each of its first two dimensions is split in half.

Action
    Discrete(2 K): show item `a mod K` of the catalogue; if `a >= K`, also ask for the neighbours' statistics in the
    next observation. Items that the agent does not have are masked; choosing one shows nothing. With
    `actions="cluster"`, Discrete(2 * 2^D): show a random item of the agent in that cluster; clusters without any are
    masked.

Reward
    The feedback, Bernoulli of the mean reward mu(context, item); 0 if nothing was shown.

Termination
    Never; truncated after `horizon` rounds.

Info
    For each agent: `mu`, the mean reward of the item shown; `regret` of this round, relative to the agent's best
    current item; `cluster` of the item (at depth D) and `cell` of the context; `shared`, whether it got its neighbours'
    statistics before it acted; `records`, the number of feedbacks available to it then.

Privacy channels
    An event is the value of one feedback, given the shown items: two adjacent runs have the same users, contexts and
    shown items, and differ in the value (0 or 1) of one feedback. Nothing else is protected: contexts, shown items,
    visits and their numbers are public. The epsilon of the channels `statistics` and `counts` (below) bounds what the
    answers reveal in addition to the shown items. An agent that learns from its own feedbacks also reveals them by the
    items that it shows, and these items determine the sums that later feedbacks enter. The channel `selection` accounts
    for what the shown items reveal; without a mechanism there, its epsilon is infinite. So the epsilon of all three
    channels together holds without conditions, and that of `statistics` and `counts` alone holds given the shown items,
    as if these came from a fixed log. (The latter also holds without conditions if the shown items follow from answers,
    public numbers and fresh randomness, as for a T-PriDO that always asks.)

    - `statistics` (stream, to neighbours): sums of feedbacks. Whenever an agent gets an answer, each of its neighbours
      has sent one message. The channel takes `TreeAggregation`: the third party draws noise once for each asking agent,
      cell, cluster and block of feedbacks, so a repeated request gets the same answer. A feedback costs epsilon for
      each stream (asking agent, cell, cluster) in which it was released, and the accountant charges an agent the exact
      cost of its costliest feedback. If a policy asks about sums that include the asking agent's own feedbacks, these
      are released too. A request reveals the cell of the agent's context; contexts are public. The answers to an agent
      with the fault `Byzantine` are false, and have noise and costs separate from those of correct answers.
      `statistics` also takes `Blocks`: a block then holds the feedbacks since the stream was last requested, and gets
      noise of scale 1/epsilon once. This is less noise if requests are rare.
    - `counts` (stream, to neighbours): numbers of feedbacks, released with the sums. They follow from the shown items.
      The paper adds no noise; the accountant then reports no protection (inf). `TreeAggregation` or `Blocks` add noise,
      and are charged as on `statistics`; a stream then has one entry for each round, even if the round's visit is
      elsewhere. Visits stay unprotected: moving a visit to another cell or cluster changes two streams on each channel,
      and requests may depend on shown items.
    - `selection` (scores, public): the item shown. `Exponential` selects by the scores that a policy passes through
      `select`. Where it is installed, items shown without `select` are charged as infinite.

    In the paper's algorithms an agent sends a request when its own results are bad, so a request reveals that they are.
    Epsilon of `statistics` and `counts` is therefore infinite, at event level too, unless a policy declares a public
    schedule (`Policy.public_schedule`), such as asking always or never.

Arguments
    - num_agents: W >= 1.
    - graph: the neighbourhood: "none", or anything that `taciturn.graph.Graph.of` reads, connected or not.
    - context_dim: d, 1 to 9; None: 2, or as in `family`.
    - family: family of mean rewards: "peak", "bumps", "linear", or a function of (contexts [..., d], items [..., 5])
      with values in [0, 1]; see `taciturn.envs.recommender.rewards`. Its random parts are drawn at each reset. The
      family can also be a simulator fitted to ratings (`taciturn.logged.fit_ratings`), which brings a catalogue and the
      users' contexts; learners are then trained in `peak` environments of the same size.
    - num_items: size of the catalogue, K; None: 4,000, or as in `family`.
    - repository: number of items of an agent, drawn from the catalogue; None: half of it.
    - homogeneous: whether all agents have the same items.
    - growth: [(round, fraction), ...]: this fraction of each repository arrives only at the beginning of that round
      (counted from 0).
    - cluster_depth: D, 1 to 8.
    - actions: "item" or "cluster".
    - horizon: number of rounds, at most 2^24.

Deviations from the paper
    The paper's data, 100 million photos, is replaced by a synthetic catalogue: items in [0, 1]^5 in 12 Gaussian
    clusters (standard deviation 0.1) with 30% uniform ones, contexts in [0, 1]^d in 8 clusters (0.08) with 25% uniform
    ones, both clipped. Mean rewards are Lipschitz, as in Assumption 1. The children of (h, i) are (h + 1, 2i - 1) and
    (h + 1, 2i); in the paper one of them is 2i + 1. Regret is relative to the best item in the agent's repository, not
    the best of all. Theorem 2 says that a feedback costs a user epsilon once; here it costs epsilon for every cluster
    in which it is released, since clusters are split and past feedbacks are counted again in the parts.

Registered configurations
    `taciturn/Recommender-v0` (PettingZoo): 8 agents on a star, contexts of 2 dimensions, the family `peak`, 20,000
    rounds.

Version history
    v0: first version.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import gymnasium
import numpy as np

from taciturn.envs.core import Functions, Layout, Role, World
from taciturn.envs.recommender import drawing, rounds
from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.envs.recommender.exchange import Exchange
from taciturn.envs.recommender.geometry import DEPTH
from taciturn.envs.recommender.instances import SOURCES
from taciturn.envs.recommender.rewards import BLOCK, BUMPS, FAMILIES, ITEM_DIMS, OWN, means, number_of_bumps
from taciturn.envs.recommender.rounds import Constants, State
from taciturn.envs.recommender.sharing import CHANNELS, Released, ThirdParty
from taciturn.graph import Graph
from taciturn.validation import MOST_NUMBERS, Array, Bools, Floats, Ints, choice, integer, number, shown

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
        choice("actions", self.actions, ("item", "cluster"))
        integer("horizon", self.horizon, at_least=1, at_most=MAX_HORIZON)
        object.__setattr__(self, "growth", read_growth(self.growth))
        _ = self.network

    def _complete(self) -> None:
        """Set the sizes that were not given; ValueError if one differs from the size of the catalogue in `family`."""
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

    @property
    def clusters(self) -> int:
        """The number of clusters of items of depth D."""
        return 1 << self.cluster_depth

    @property
    def cells(self) -> int:
        """The number of cells of contexts for requests of statistics."""
        return 1 << min(self.context_dim, 2)

    def available(self, time: Ints) -> Ints:
        """The number of items that an agent has in round `time`, same shape as `time`; at least one."""
        late = np.zeros(time.shape)
        for start, fraction in self.growth:
            late = late + np.where(time < start, fraction, 0.0)
        return np.maximum(np.rint(self.repository * (1 - late)).astype(np.int64), 1)


def read_growth(growth: Any) -> tuple[tuple[int, float], ...]:
    """The pairs (round, fraction) in the order of their rounds; ValueError if they are not such pairs, or the fractions
    add up to 1 or more."""
    wanted = "growth must be pairs (round >= 1, fraction > 0), with fractions that add up to less than 1"
    try:
        pairs = [(start, fraction) for start, fraction in growth]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}, not {shown(growth)}") from error
    result = sorted(
        (integer("round in growth", start, at_least=1), number("fraction in growth", fraction, above=0))
        for start, fraction in pairs
    )
    if sum(fraction for _, fraction in result) >= 1:
        raise ValueError(f"{wanted}, not {shown(growth)}")
    return tuple(result)


class Recommender(Exchange[State]):
    __doc__ = __doc__
    name = "recommender"
    params: Params
    hidden = frozenset({"family", "bumps", "heights", "radii", "users"})
    state_type: ClassVar[Any] = State
    sources = SOURCES
    info_by_agent: ClassVar[Mapping[str, tuple[str, str]]] = {
        "mu": ("agent", "mu"), "regret": ("agent", "lost"), "cluster": ("agent", "cluster"), "cell": ("agent", "cell"),
        "shared": ("agent", "knew"), "records": ("agent", "records"),
    }  # fmt: skip
    counts: ClassVar[Mapping[str, tuple[str, str]]] = {
        "statistics": ("", "sent"), "counts": ("", "sent"), "selection": ("exposed", ""),
    }  # fmt: skip

    def __init__(self, params: Params, num_envs: int = 1, first_replica: int = 0) -> None:
        super().__init__(params, num_envs, first_replica)
        self.third_party = ThirdParty(num_envs, params.num_agents)
        self._released: dict[str, Released] = {}
        self._catalogue: tuple[Floats, Ints] | None = None
        self._mask: tuple[Any, Array] | None = None
        self._sketch: Callable[[int, int, Floats], drawing.Sketch] | None = None

    @property
    def functions(self) -> Functions:
        serve = rounds.by_item if self.params.actions == "item" else rounds.by_cluster
        return Functions(reset=rounds.begin, act=serve, receive=rounds.listen, observe=rounds.observe)

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
            # A memoryless draw, as there is a number for each agent and item.
            "held": np.broadcast_to(np.zeros((), held), (p.num_agents, p.repository)),
            "active": np.broadcast_to(np.zeros((), np.bool_), (p.num_agents, p.num_items)),
        }

    def make_roles(self) -> tuple[Role, ...]:
        p, longest = self.params, float(self.params.horizon)
        layout = Layout(
            context=(p.context_dim, 0, 1),
            time=(1, 0, longest),
            answered=(1, 0, 1),
            counts=(self.params.clusters, 0, longest * p.num_agents),
            means=(self.params.clusters, 0, 1),
        )
        space = gymnasium.spaces.Discrete(2 * (p.num_items if p.actions == "item" else p.clusters))
        return (Role("agent", p.num_agents, layout, space),)

    def public(self) -> dict[str, Any]:
        """`catalogue`; `consult`, to ask the third party for chosen statistics; `select`, to select by scores;
        `draw_with`, to set the knowledge of an agent that pictures show."""
        return {
            "catalogue": self.catalogue,
            "consult": self.consult,
            "select": self.select,
            "draw_with": self.draw_with,
        }

    def catalogue(self) -> tuple[Floats, Ints]:
        """The items [B, K, 5] and their codes [B, K] in the present runs; new arrays when a run begins."""
        self._require_reset()
        if self._catalogue is None:
            self._catalogue = self.column("items").copy(), self.column("codes").copy()
        return self._catalogue

    def practice_params(self) -> Params:
        return replace(self.params, family="peak") if callable(self.params.family) else self.params

    def draw_with(self, sketch: Callable[[int, int, Floats], drawing.Sketch] | None) -> None:
        """Until the next run, draw the knowledge that `sketch` returns for a replica, an agent and its context [d]."""
        self._sketch = sketch

    def sketch(self, replica: int, agent: int, context: Floats) -> drawing.Sketch:
        """The knowledge of an agent to draw: from the policy if it gives any, else its own feedbacks by cluster in the
        context's cell."""
        if self._sketch is not None:
            return self._sketch(replica, agent, context)
        s, codes, cell = self.state, np.sort(self.state.codes[replica]), rounds.cell_of(context)
        edges = np.searchsorted(codes, np.arange(self.params.clusters + 1) << (DEPTH - self.params.cluster_depth))
        counts, sums = s.own_counts[replica, agent, cell], s.own_sums[replica, agent, cell]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        low = np.array(list(np.ndindex(*(2,) * min(len(context), 2)))) / 2
        low = np.pad(low, ((0, 0), (0, len(context) - low.shape[1])))
        sides = np.where(np.arange(len(context)) < 2, 0.5, 1.0)
        return drawing.Sketch(np.stack([edges[:-1], edges[1:]], 1), means, np.stack([low, low + sides], 1))

    # Runs.

    def on_reset(self, where: Bools) -> None:
        """Forget the answers in these replicas; copies of this population forget nothing."""
        if where.all():
            shape = self.num_envs, self.params.num_agents
            self.third_party, self._sketch = ThirdParty(*shape), None
            sizes = *shape, self.params.cells, self.params.clusters
            self._released = {} if self.plain else {name: Released(*sizes) for name in CHANNELS}
        self.third_party.start(where, self.channels)
        for released in self._released.values():
            released.start(where)
        self._catalogue = self._mask = None
        if self.appraises:
            self.appraise(where)

    @property
    def appraises(self) -> bool:
        """Whether mean rewards come from a user-defined function; a log has none."""
        family = self.params.family
        return callable(family) and not (isinstance(family, Catalogue) and type(family).__call__ is Catalogue.__call__)

    def appraise(self, where: Bools) -> None:
        """Compute the mean rewards of all items in the present contexts, and each agent's best available item."""
        contexts, items = self.column("contexts")[where][:, :, None], self.column("items")[where][:, None]
        values = means(self.params.family, contexts, items, {})
        own = np.where(self.column("active")[where], values, -np.inf)
        self.column("values")[where], self.column("best")[where] = values, own.argmax(-1)
        self.column("most")[where] = own.max(-1)

    def splits(self) -> bool:
        return super().splits() or callable(self.params.family)

    def between(self, live: Bools) -> None:
        """Send the shown items, and the answers to requests, through the channels."""
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

    # Mean rewards.

    def instance(self, state: State) -> dict[str, Floats]:
        return {name: getattr(state, name) for name in ("weights", "directions", "phases", "matrix")}

    def best_at_hand(self) -> Ints:
        """Each agent's item with the highest mean reward for its next user, int64[B, W]."""
        self._require_reset()
        return self.column("best").copy()

    # Observations and metrics.

    def action_mask(self, role: str) -> Array:
        """See `Population`; read-only, and the same array until items arrive."""
        p = self.params
        self._require_reset()
        moment = self.column("at_hand").tobytes() if p.growth else b""
        if self._mask is None or self._mask[0] != moment:
            active = self.column("active")
            mask = np.zeros((*active.shape[:2], 2 * (p.num_items if p.actions == "item" else p.clusters)), np.int8)
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
        self._require_reset()
        return self.column("time").astype(np.float64)

    def measures(self) -> dict[str, Callable[[], Array]]:
        """Means per agent and round so far, [B]."""
        self._require_reset()
        played = np.maximum(self.column("time"), 1) * self.params.num_agents
        names = {"reward": "earned"} | {name: name for name in ("expected_reward", "regret", "shared")}
        return {name: partial(np.divide, self.column(field), played) for name, field in names.items()}

    def outcome(self) -> dict[str, Array]:
        """Means per agent and round, [B]: `reward`, `expected_reward` (mu of the shown item), `regret` (relative to the
        best item that the agent had), and `shared`, the share of rounds in which agents had their neighbours'
        statistics."""
        return {name: np.asarray(value(), np.float64) for name, value in self.measures().items()}

    describe, draw = drawing.describe, drawing.draw


recommender_v0 = World(Recommender, Params)
