"""Cooperative baselines for `federated_bandit_v0`: centralised samples, a server, or exchange between neighbours on a
graph."""

import numpy as np

from taciturn.envs.core import Array, PublicView, choice, number
from taciturn.envs.federated_bandit.fast import AgentKnowledge
from taciturn.graph import Graph
from taciturn.policies.classic.bandits import ArmPolicy, kl_ucb_choice
from taciturn.policies.families.bandit_indices import (
    coop_ucb2_index,
    dducb_index,
    fed2_ucb_radius,
    gossip_ucb_index,
    horizon_budget,
    kl_upper_bound,
)
from taciturn.validation import Bools, Floats, Ints


class CentralisedOracle(ArmPolicy):
    """KL-UCB on the pulls of all agents together, immediate and free: an upper bound on the gain from communication.

    All agents pull the same arm; they first divide arms without any pulls among themselves. No channel carries the
    samples.
    """

    centralised = True
    fast = ArmPolicy.epochs

    def choose(self, counts: Array, means: Floats) -> Ints:
        centralised = counts.sum(1)
        best = kl_ucb_choice(centralised, (counts * means).sum(1) / np.maximum(centralised, 1))
        arms = np.broadcast_to(best[:, None], counts.shape[:2])
        unpulled = centralised == 0
        if unpulled.any():
            left = np.maximum(unpulled.sum(-1), 1)
            place = np.arange(counts.shape[1]) % left[:, None]
            shared = np.take_along_axis(np.argsort(~unpulled, axis=-1, kind="stable"), place, axis=-1)
            arms = np.where(unpulled.any(-1)[:, None], shared, arms)
        return arms


class CentralisedKLUCB(ArmPolicy):
    """`HorizonKLUCB` on the pulls of all agents together; the agents divide the arms of a slot among themselves.

    The M agents choose one after another in each slot. An arm that j of them have already chosen in this slot has the
    index

        largest q with (n + j + 2) kl((1 + s) / (n + 2), q) <= a ln(1 + c left / (n + j + 2)),

    where n pulls by all agents earned s, and `left` = M (T - t) pulls remain. It falls with j. So a slot tries several
    arms while several may be the best, and with M = 1 this is `HorizonKLUCB`. No channel carries the samples: it is a
    reference for cooperation without privacy. `a` and `c` were tuned on training streams.

    Args:
        a, c: constants of the index, > 0.
    """

    centralised = True
    fast = ArmPolicy.epochs

    def __init__(self, a: float = 0.8, c: float = 0.3) -> None:
        self.a, self.c = number("a", a, above=0), number("c", c, above=0)

    def choose(self, counts: Array, means: Floats) -> Ints:
        agents, n = counts.shape[1], counts.sum(1)
        left = agents * self._horizon - n.sum(-1)[:, None]
        return divided(n, (counts * means).sum(1), left, agents, self.a, self.c)


def divided(
    counts: Array, sums: Floats, left: Array, agents: int, a: float, c: float, each: Floats | float = 1.0
) -> Ints:
    """The arms that agents take one after another, int64[B, M], by the index of `CentralisedKLUCB`.

    The index of an arm falls with the number of agents that have taken it, so the M choices are the M highest of the
    indices [B, K, M] for 0 to M - 1 such agents. In most slots all agents take one arm, which two indices show: that
    of the arm for the last agent, and the highest of the other arms for the first one.

    Args:
        counts, sums: pulls and sums of rewards so far, [B, K].
        left: number of remaining pulls, broadcasts with `counts`.
        agents: M.
        a, c: constants of the index.
        each: pulls for which one agent's choice counts, broadcasts with `counts`.
    """
    n, mean = counts + 2.0, (1 + sums) / (counts + 2.0)
    left, each = np.broadcast_to(left, n.shape), np.broadcast_to(np.asarray(each, np.float64), n.shape)

    def index(n: Floats, mean: Floats, left: Array) -> Floats:
        return kl_upper_bound(n, mean, horizon_budget(n, left, a, c), steps=6)

    first = index(n, mean, left)
    best = first.argmax(-1)
    of_best = np.arange(len(n)), best
    last = index(n[of_best] + (agents - 1) * each[of_best], mean[of_best], left[of_best])
    first[of_best] = -np.inf
    several = np.flatnonzero(last <= first.max(-1))
    chosen = np.repeat(best[:, None], agents, axis=1)
    if several.size:
        pending = n[several, :, None] + np.arange(agents) * each[several, :, None]
        wide = np.broadcast_to(mean[several, :, None], pending.shape)
        found = index(pending, wide, left[several, :, None]).reshape(several.size, -1)
        chosen[several] = np.argsort(-found, axis=-1, kind="stable")[:, :agents] // agents
    return chosen


class Synchronised(ArmPolicy):
    """All agents pull the same arm, chosen from the averages of all their rewards, and then upload.

    The arm has the highest draw from the posteriors Beta(1 + hits, 1 + misses) (Thompson 1933), or the highest index of
    KL-UCB (Garivier & Cappe 2011), for the rewards of all M agents together. Every agent counts M pulls per slot, since
    all follow the same plan, and all draw the same numbers from a shared seed. An arm with n pulls is pulled until it
    has `growth` n of them (at least one more), and then all agents upload: growth = 1 uploads in each slot, 2 after
    each doubling of an arm's pulls. Noise and lost uploads are ignored.

    Args:
        index: "thompson" or "kl-ucb".
        growth: factor of an arm's pulls between uploads, >= 1.
    """

    public_schedule = True

    def __init__(self, index: str = "thompson", growth: float = 1.0) -> None:
        self.index = choice("index", index, ("thompson", "kl-ucb"))
        self.growth = number("growth", growth, at_least=1, at_most=1e6)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if view.params.components:
            raise ValueError(f"Synchronised needs the topology 'server', not {view.params.topology!r}")

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._pulls = np.zeros((shape[0], shape[2]), np.int64)  # pulls of each arm by each agent
        self._arm, self._left = np.zeros(shape[0], np.int64), np.zeros(shape[0], np.int64)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs.astype(np.float64))
        fresh = seen["time"][:, 0] == 0
        self._pulls[fresh], self._left[fresh] = 0, 0
        due = np.flatnonzero(self._left == 0)
        if due.size:
            n = self._pulls[due]
            arm = self._best(obs.shape[1] * n, np.clip(seen["broadcast"][due, 0].reshape(n.shape), 0, 1))
            now = n[np.arange(due.size), arm]
            self._arm[due], self._left[due] = arm, np.maximum(np.ceil(self.growth * now).astype(np.int64) - now, 1)
            self._pulls[due, arm] += self._left[due]
        self._left -= 1
        return np.repeat((self._arm + self._shape[2] * (self._left == 0))[:, None], obs.shape[1], axis=1)

    def _best(self, counts: Ints, means: Floats) -> Ints:
        if self.index == "kl-ucb":
            return kl_ucb_choice(counts, means)
        return self.rng.beta(1 + counts * means, 1 + counts * (1 - means)).argmax(-1)


class Fed2UCB(ArmPolicy):
    """Elimination in phases by a server that gradually admits more clients (Shi & Shen 2021).

    In phase p the server admits 2^p more agents (up to M), all agents pull each active arm f(p) times, and the admitted
    ones upload; arms two radii below the best average are eliminated. With `sigma_c = 0` and `admit_all` this is
    Fed1-UCB, for the paper's exact model. Agents not yet admitted pull like the others (in the paper they do not play);
    once admitted, they also upload their earlier pulls, which the radius does not count.

    The authors' code has 4, 2 or 1 in place of the paper's 6 before sigma^2 (`fed2_ucb_radius`); to use another factor
    c, multiply `sigma` and `sigma_c` by sqrt(c / 6).

    Args:
        pulls: f(p) = ceil(pulls ln T).
        sigma_c: standard deviation of the agents' means about the global mean, 0 for homogeneous rewards; ignored once
            all are admitted.
        admit_all: admit all agents in the first phase.
        sigma: sub-Gaussian parameter of a reward given its arm.
    """

    fast = ArmPolicy.epochs
    public_schedule = True

    def __init__(self, pulls: float = 1.0, sigma_c: float = 0.0, admit_all: bool = False, sigma: float = 0.5) -> None:
        self.pulls = number("pulls", pulls, above=0, at_most=1e9)
        self.sigma_c = number("sigma_c", sigma_c, at_least=0, at_most=1e9)
        self.admit_all = bool(admit_all)
        self.sigma = number("sigma", sigma, above=0, at_most=1e9)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if view.params.components:
            raise ValueError(f"Fed2UCB needs the topology 'server', not {view.params.topology!r}")

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._each = int(np.ceil(self.pulls * np.log(max(horizon, 2))))
        self._active = np.ones((shape[0], shape[2]), np.bool_)
        self._started = np.zeros(shape[0], np.int64)  # slot in which the phase began
        self._rounds = np.zeros(shape[0], np.int64)
        self._radii: dict[int, float] = {}

    def admitted(self, phase: Ints) -> Ints:
        """M(p): number of agents that upload in phase p = 1, 2, ..."""
        agents = self._shape[1]
        if self.admit_all:
            return np.full(phase.shape, agents)
        return np.minimum(2 ** np.minimum(phase + 1, 40) - 2, agents)

    def radius(self, phase: int) -> float:
        """The confidence radius in phase p; arms two radii below the best are eliminated."""
        if phase not in self._radii:
            total = self.admitted(np.arange(phase + 1)).astype(np.float64)
            total[0] = 0.0
            each = np.full(phase, float(self._each))
            spread = 0.0 if total[-1] == self._shape[1] else self.sigma_c
            self._radii[phase] = fed2_ucb_radius(np.diff(total), each, self._horizon, self.sigma, spread)
        return self._radii[phase]

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        time, rounds = (seen[name][:, 0].astype(np.int64) for name in ("time", "rounds"))
        broadcast = obs[:, 0, self._layout.slices["broadcast"]]
        pulls, uploads = self.schedule(time, rounds, broadcast, np.ones(len(time), np.int64))
        return pulls.argmax(-1)[:, None] + self._shape[2] * uploads

    def plan(self, knowledge: AgentKnowledge, room: Ints) -> tuple[Ints, Bools]:
        """The rest of the phase."""
        time, rounds, broadcast = (getattr(knowledge, name)[:, 0] for name in ("time", "rounds", "broadcast"))
        pulls, uploads = self.schedule(time, rounds, broadcast, room[:, 0])
        return np.broadcast_to(pulls[:, None], self._shape), uploads

    def schedule(self, time: Ints, rounds: Ints, broadcast: Array, room: Ints) -> tuple[Ints, Bools]:
        """The slots to the end of the phase, at most `room`.

        Args:
            time, rounds, room: int64[B].
            broadcast: float[B, K], the last round's average.

        Returns:
            (pulls by every agent, int64[B, K]; agents that upload after these slots, bool[B, M]).
        """
        fresh = time == 0
        self._active[fresh], self._started[fresh], self._rounds[fresh] = True, 0, 0
        ended = rounds > self._rounds
        if ended.any():
            radius = np.array([self.radius(phase) for phase in np.maximum(rounds, 1).tolist()])
            average = np.where(self._active, broadcast, -np.inf)
            self._active &= (average > (average.max(-1) - 2 * radius)[:, None]) | ~ended[:, None]
            self._started = np.where(ended, time, self._started)
            self._rounds = np.where(ended, rounds, self._rounds)
        size = self._active.sum(-1)
        place = time - self._started
        until = place + np.where(size > 1, np.minimum(room, size * self._each - place), room)
        # Slots place .. until - 1 of the phase cycle through the active arms; the arm of rank r has the slots r, r +
        # size, ...
        rank = np.where(self._active, np.cumsum(self._active, axis=-1) - 1, 0)
        pulls = (until[:, None] - 1 - rank) // size[:, None] - (place[:, None] - 1 - rank) // size[:, None]
        ends = (size > 1) & (until == size * self._each)
        uploads = ends[:, None] & (np.arange(self._shape[1]) < self.admitted(rounds + 1)[:, None])
        return np.where(self._active, pulls, 0), uploads


def communication_matrix(graph: Graph) -> Floats:
    """P = I - L / (d_max + 1), float64[M, M]: doubly stochastic, with weight 1 / (d_max + 1) for each neighbour."""
    adjacency = graph.matrix().toarray()
    return np.eye(graph.num_nodes) + (adjacency - np.diag(graph.degrees)) / (graph.degrees.max() + 1)


class Consensus(ArmPolicy):
    """Base of algorithms with estimates that neighbours on a graph exchange in every slot.

    Their messages use the channel `exchange`, where faults apply, and the environment counts them as `neighbour`. They
    mix the sums of many agents, and no mechanism accounts for that; a mechanism on `means`, which they do not use,
    raises ValueError.

    Attributes:
        memories: the names of the arrays [B, ...] that are zero at the start of a run.
    """

    memories: tuple[str, ...] = ()

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if len(view.params.components) != 1 or view.params.hybrid:
            raise ValueError(f"{type(self).__name__} needs one graph as topology, not {view.params.topology!r}")
        self._send, self._channel = view.neighbour_exchange, view.channels["exchange"]
        if view.channels["means"].mechanism is not None:
            raise ValueError(f"{type(self).__name__} exchanges mixed sums, which no mechanism on 'means' accounts for")
        self._graph = view.params.components[0]
        self._mix = communication_matrix(self._graph)
        self.prepare()

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._last = np.zeros((*shape[:2], 2 * shape[2]))  # pulls, then rewards, of each arm
        self._time = np.zeros(shape[0], np.int64)

    def prepare(self) -> None:
        """Compute the parts that depend on the graph."""

    def exchange(self, slot: Floats, live: Bools) -> None:
        """Exchange estimates in the replicas `live` bool[B], after a slot with pulls and rewards `slot` float64[B, M, 2
        K]."""
        raise NotImplementedError

    def index(self, counts: Array) -> Floats:
        """Indices float64[B, M, K]; the arm with the highest index is pulled."""
        raise NotImplementedError

    def mixed(self, x: Floats, live: Bools) -> Floats:
        """P x for `x` float64[B, M, P], by messages; an agent replaces lost messages by its own x."""
        received, delivered = self._send(x, live)
        if not (self._channel.faulty or self._channel.budgeted):
            return self._mix @ received
        others = self._mix - np.diag(np.diag(self._mix))
        arrived = delivered[:, :, None]
        return x * (1 - others @ arrived) + others @ np.where(arrived, received, 0.0)

    def choose(self, counts: Array, means: Floats) -> Ints:
        time = counts[:, 0].sum(-1).astype(np.int64)
        total = np.concatenate([counts, np.rint(counts * means)], axis=-1)
        fresh, live = time == 0, time > self._time
        if fresh.any():
            for name in ("_last", *self.memories):
                getattr(self, name)[fresh] = 0
        self._time = time
        if live.any():
            self.exchange(total - self._last, live)
            self._last = total
        arms = self.index(counts).argmax(-1)
        first = time < self._shape[2]
        return np.where(first[:, None], time[:, None], arms) if first.any() else arms


class CoopUCB2(Consensus):
    """coop-UCB2 (Landgren, Srivastava & Leonard 2016): UCB on a running consensus, n <- P (n + pulls), s <- P (s +
    rewards).

    Args:
        gamma: > 1.
        eta: in (0, 4).
        sigma: sub-Gaussian parameter of a reward.
    """

    fast = ArmPolicy.epochs
    memories = ("_known",)

    def __init__(self, gamma: float = 1.01, eta: float = 2.0, sigma: float = 0.5) -> None:
        self.gamma = number("gamma", gamma, above=1)
        self.eta = number("eta", eta, above=0, below=4)
        self.sigma = number("sigma", sigma, above=0)

    def prepare(self) -> None:
        self._known = np.zeros(self._last.shape)

    def exchange(self, slot: Floats, live: Bools) -> None:
        self._known = np.where(live[:, None, None], self.mixed(self._known + slot, live), self._known)

    def index(self, counts: Array) -> Floats:
        pulls, rewards = np.split(self._known, 2, axis=-1)
        t = self._time[:, None, None]
        return coop_ucb2_index(pulls, rewards, t, self._shape[1], self.gamma, self.sigma, self.eta)


class DDUCB(Consensus):
    """DDUCB (Martinez-Rubio, Kanade & Rebeschini 2019, Algorithm 1): samples of one stage of C slots are mixed in the
    next.

    Mixing is accelerated by Chebyshev polynomials of P, C = ceil(ln(2 M / accuracy) / sqrt(2 ln(1 / |lambda_2|))).
    In the authors' code two arrays are the same object, so an agent's own samples of a stage count twice; here they
    count once.

    Args:
        eta: > 1.
        sigma: sub-Gaussian parameter of a reward.
        accuracy: the accuracy to which a stage mixes, epsilon in the paper.
    """

    fast = ArmPolicy.epochs
    memories = ("_known", "_mixed", "_new", "_mixing", "_mixing_before", "_covered")

    def __init__(self, eta: float = 2.0, sigma: float = 0.5, accuracy: float = 1 / 22) -> None:
        self.eta = number("eta", eta, above=1)
        self.sigma = number("sigma", sigma, above=0)
        self.accuracy = number("accuracy", accuracy, above=0, below=1)

    def prepare(self) -> None:
        agents = self._shape[1]
        modulus = np.sort(np.abs(np.linalg.eigvalsh(self._mix)))
        # A complete graph mixes in one step: its second eigenvalue is 0.
        self._second = max(float(modulus[-2]), 1e-3) if agents > 1 else 1e-3
        self._stage = int(np.ceil(np.log(2 * agents / self.accuracy) / np.sqrt(2 * np.log(1 / self._second))))
        shape = self._last.shape
        self._known, self._mixed, self._new = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._mixing, self._mixing_before = np.zeros(shape), np.zeros(shape)
        self._covered = np.zeros(shape[0])

    def weight(self, step: Ints) -> Floats:
        """w_r = T_r(1 / |lambda_2|), the Chebyshev polynomial."""
        return np.cosh(step * np.arccosh(1 / self._second))

    def accelerate(self, step: Ints, live: Bools) -> Floats:
        """y_{r+1} = (2 w_r / |lambda_2| P y_r - w_{r-1} y_{r-1}) / w_{r+1} for `step` r int64[B], and y_1 = P y_0."""
        after = self.weight(step + 1)
        now = np.where(step == 0, 1.0, 2 * self.weight(step) / (self._second * after))
        before = np.where(step == 0, 0.0, self.weight(step - 1) / after)
        mixed = self.mixed(self._mixing, live)
        return now[:, None, None] * mixed - before[:, None, None] * self._mixing_before

    def exchange(self, slot: Floats, live: Bools) -> None:
        arms, agents = self._shape[2], self._shape[1]
        at = live[:, None, None]
        self._new += slot * at
        self._known += slot * at / agents
        self._covered += live
        played = self._time - arms  # slots after each arm was pulled once
        mixes = live & (played > 0)
        if mixes.any():
            mixed = self.accelerate((played - 1) % self._stage, mixes)
            self._mixing_before = np.where(mixes[:, None, None], self._mixing, self._mixing_before)
            self._mixing = np.where(mixes[:, None, None], mixed, self._mixing)
        ends = live & (played >= 0) & (played % self._stage == 0)
        if ends.any():
            later = ends & (played > 0)
            self._mixed[later] += self._mixing[later]
            self._known[later] = self._mixed[later]
            self._covered[later] = (self._time[later] - self._stage) * agents
            self._mixing[ends], self._new[ends] = self._new[ends], 0

    def index(self, counts: Array) -> Floats:
        pulls, rewards = np.split(self._known, 2, axis=-1)
        return dducb_index(pulls, rewards, self._covered[:, None, None], self._shape[1], self.sigma, self.eta)


class GossipUCB(Consensus):
    """Gossip_UCB (Zhu, Zhu, Liu & Liu 2021): in each slot, two neighbours average their estimates of the means over
    agents.

    If some arms are more than M pulls behind the largest count that the agent knows of, it pulls one of them at random;
    otherwise it pulls the arm with the highest index. In each slot one uniformly drawn edge averages its estimates;
    counts are sent over all edges.
    """

    fast = ArmPolicy.epochs
    memories = ("_estimates", "_own", "_most")

    def prepare(self) -> None:
        self._estimates, self._own = np.zeros(self._shape), np.zeros(self._shape)
        self._most = np.zeros(self._shape)  # most pulls by any agent, as far as known
        edges = np.argwhere(np.triu(self._graph.matrix().toarray()))
        self._edges = edges if len(edges) else np.zeros((1, 2), np.int64)

    def exchange(self, slot: Floats, live: Bools) -> None:
        size, agents, arms = self._shape
        total = self._last + slot
        counts, means = total[..., :arms], total[..., arms:] / np.maximum(total[..., :arms], 1)
        received, delivered = self._send(np.concatenate([self._estimates, self._most], axis=-1), live)
        estimates, most = self._estimates.copy(), np.maximum(self._most, counts)
        if agents > 1:
            replicas = np.arange(size)
            one, other = self._edges[self.rng.integers(0, len(self._edges), size)].T
            for receiver, sender in ((one, other), (other, one)):
                mean = (self._estimates[replicas, receiver] + received[replicas, sender, :arms]) / 2
                arrived = delivered[replicas, sender, None]
                estimates[replicas, receiver] = np.where(arrived, mean, estimates[replicas, receiver])
            reported = np.where(delivered[:, :, None], received[..., arms:], 0)[:, self._graph.indices]
            most = np.maximum(most, np.maximum.reduceat(reported, self._graph.indptr[:-1], axis=1))
        at = live[:, None, None]
        self._estimates = np.where(at, estimates + means - self._own, self._estimates)
        self._own, self._most = np.where(at, means, self._own), np.where(at, most, self._most)

    def index(self, counts: Array) -> Floats:
        agents = self._shape[1]
        index = gossip_ucb_index(counts, self._estimates, self._time[:, None, None], agents)
        behind = counts < self._most - agents
        if not behind.any():
            return index
        lagging = behind * (1.0 + self.rng.random(behind.shape))
        return np.where(behind.any(-1, keepdims=True), lagging, index)
