"""Baselines for `federated_bandit_v0`, one arm a slot: alone, by talk, and with everything pooled.

The single-agent ones are run by every agent for itself. Of equal arms the first is pulled. All hold arrays [B, M, K]; none loops
over agents. A replica in which nothing was pulled yet begins afresh.
"""

import numpy as np

from taciturn.envs.core import Array, PublicView, number
from taciturn.envs.core.graph import Graph
from taciturn.envs.federated_bandit.world import EpochPlan, FederatedBandit, Seen
from taciturn.policies.base import Policy
from taciturn.policies.classic.bandit_indices import (
    coop_ucb2_index,
    dducb_index,
    dp_elimination_epoch,
    elimination_radius,
    fed2_ucb_radius,
    gossip_ucb_index,
    kl_ucb_index,
    moss_index,
    pinsker_index,
    ucb1_index,
    ucb1_narrow,
    ucb1_width,
)

__all__ = [
    "DDUCB",
    "KLUCB",
    "MOSS",
    "UCB1",
    "ArmPolicy",
    "CentralisedOracle",
    "CoopUCB2",
    "DPSuccessiveElimination",
    "Fed2UCB",
    "GossipUCB",
    "SuccessiveElimination",
    "ThompsonSampling",
]


class ArmPolicy(Policy):
    """Base of policies that pull by their own samples: `choose` an arm from counts and means. Nothing is uploaded."""

    def begin(self, view: PublicView) -> None:
        if not issubclass(view.world, FederatedBandit):
            raise ValueError(f"{type(self).__name__} acts in the federated bandit, not in {view.name!r}")
        self._layout = view.roles[self.role].layout
        self.start((view.num_envs, view.params.num_agents, view.params.arms), view.params.horizon)

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        """Prepare for B replicas of M agents with K arms, `shape`, and T slots."""
        self._shape, self._horizon = shape, horizon

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        part = self._layout.slices
        counts = obs[..., part["counts"]].astype(np.float64)
        # Means come in single precision; rewards are 0 or 1, which tells them exactly.
        return self.choose(counts, np.rint(counts * obs[..., part["means"]]) / np.maximum(counts, 1))

    def epochs(self, view: PublicView) -> EpochPlan:
        """The fast form: `plan`."""
        return EpochPlan(self.plan)

    def plan(self, seen: Seen, room: Array) -> tuple[Array, Array]:
        """The same as `act` from what is not rounded: the arms of one slot, and nobody to upload."""
        return self.choose(seen.counts, seen.means), np.zeros(room.shape, np.bool_)

    def choose(self, counts: Array, means: Array) -> Array:
        """Arms int64[B, M], by each agent's own pulls and sample means, float64[B, M, K]."""
        raise NotImplementedError


class UCB1(ArmPolicy):
    """Auer, Cesa-Bianchi & Fischer 2002: the highest upper confidence bound."""

    fast = ArmPolicy.epochs

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._row = np.arange(shape[0] * shape[1]).reshape(shape[:2]) * shape[2]
        self._time = np.full(shape[0], -2)  # of the last plan, after which `_pulled`
        self._pulled = self._row
        self._means = self._narrow = self._index = np.zeros(shape)

    def choose(self, counts: Array, means: Array) -> Array:
        return ucb1_index(counts, means, counts.sum(-1, keepdims=True)).argmax(-1)

    def plan(self, seen: Seen, room: Array) -> tuple[Array, Array]:
        """As `choose`, to the bit, but the means and 1 / sqrt(n) are kept, and brought up to date where the last plan pulled."""
        time, counts, sums = seen.time[:, 0], seen.counts, seen.sums
        if (time == self._time + 1).all():
            n = counts.reshape(-1)[self._pulled]
            self._means.reshape(-1)[self._pulled] = sums.reshape(-1)[self._pulled] / n
            self._narrow.reshape(-1)[self._pulled] = 1.0 / np.sqrt(n)
        else:
            self._means, self._narrow, self._index = seen.means, ucb1_narrow(counts), np.empty(counts.shape)
        np.multiply(self._narrow, ucb1_width(time)[:, None, None], out=self._index)
        self._index += self._means
        arms = self._index.argmax(-1)
        self._time, self._pulled = time.copy(), self._row + arms
        return arms, np.zeros(room.shape, np.bool_)


class KLUCB(ArmPolicy):
    """Garivier & Cappe 2011: the bound that Bernoulli's law gives; `c` weighs ln ln t (their proof takes 3, their advice is 0)."""

    fast = ArmPolicy.epochs

    def __init__(self, c: float = 0.0) -> None:
        self.c = number("c", c, at_least=0)

    def choose(self, counts: Array, means: Array) -> Array:
        return kl_ucb_choice(counts, means, self.c)


def kl_ucb_choice(counts: Array, means: Array, c: float = 0.0) -> Array:
    """The arms of highest KL-UCB index, int64[...], for counts and means [..., K].

    Only arms are looked into whose bound by Pinsker's inequality, which lies above, reaches the index of the arm where that bound is
    highest: the others cannot be chosen.
    """
    t = counts.sum(-1, keepdims=True)
    above = pinsker_index(counts, means, t, c)
    top = above.argmax(-1)[..., None]
    least = kl_ucb_index(np.take_along_axis(counts, top, -1), np.take_along_axis(means, top, -1), t, c)
    some = above >= least
    index = np.full(counts.shape, -np.inf)
    index[some] = kl_ucb_index(counts[some], means[some], np.broadcast_to(t, counts.shape)[some], c)
    return index.argmax(-1)


class MOSS(ArmPolicy):
    """Audibert & Bubeck 2009: minimax optimal, knowing T."""

    fast = ArmPolicy.epochs

    def choose(self, counts: Array, means: Array) -> Array:
        return moss_index(counts, means, self._horizon, self._shape[2]).argmax(-1)


class ThompsonSampling(ArmPolicy):
    """Thompson 1933, with uniform priors: the arm that is best in a draw from the posteriors Beta(1 + successes, 1 + failures)."""

    fast = ArmPolicy.epochs

    def choose(self, counts: Array, means: Array) -> Array:
        successes = counts * means
        return self.rng.beta(1 + successes, 1 + np.maximum(counts - successes, 0)).argmax(-1)


class SuccessiveElimination(ArmPolicy):
    """Even-Dar, Mannor & Mansour 2006, Algorithm 3: pull all active arms in turn, and drop those two radii below the best.

    Args:
        delta: the chance of ever dropping the best arm; None: 1/T.
    """

    fast = ArmPolicy.epochs

    def __init__(self, delta: float | None = None) -> None:
        self.delta = None if delta is None else number("delta", delta, above=0, below=1)

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._active = np.ones(shape, np.bool_)

    def choose(self, counts: Array, means: Array) -> Array:
        self._active[counts.sum((1, 2)) == 0] = True
        pulled = np.where(self._active, counts, np.inf)
        least = pulled.min(-1)
        even = (least == np.where(self._active, counts, 0).max(-1)) & (least > 0)
        if even.any():
            delta = 1 / self._horizon if self.delta is None else self.delta
            best = np.where(self._active, means, -np.inf).max(-1)
            threshold = np.where(even, best - 2 * elimination_radius(least, self._shape[2], delta), -np.inf)
            self._active &= means > threshold[:, :, None]
            pulled = np.where(self._active, counts, np.inf)
        return pulled.argmin(-1)


class DPSuccessiveElimination(ArmPolicy):
    """DP-SE (Sajed & Sheffet 2019, Algorithm 2): elimination by epochs, on means of the epoch alone, with noise.

    What it does is epsilon-differentially private in the rewards: each enters one noisy mean. The noise is the policy's own; nothing
    passes a channel, and the ledger knows nothing of it.

    Args:
        epsilon: > 0.
        beta: the chance of failure; None: 1/T.
    """

    fast = ArmPolicy.epochs

    def __init__(self, epsilon: float = 1.0, beta: float | None = None) -> None:
        self.epsilon = number("epsilon", epsilon, above=0)
        self.beta = None if beta is None else number("beta", beta, above=0, below=1)

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._active = np.ones(shape, np.bool_)
        self._begun = np.zeros(shape)  # pulls when the epoch began
        self._sums = np.zeros(shape)  # and rewards
        self._epoch = np.zeros(shape[:2], np.int64)
        self._pulls = np.zeros(shape[:2])  # of every active arm in the epoch; inf: one is left

    def choose(self, counts: Array, means: Array) -> Array:
        fresh = counts.sum((1, 2)) == 0
        if fresh.any():
            for memory, value in (
                (self._active, True),
                (self._begun, 0),
                (self._sums, 0),
                (self._epoch, 0),
                (self._pulls, 0),
            ):
                memory[fresh] = value
        pulled = np.where(self._active, counts - self._begun, np.inf)
        over = pulled.min(-1) >= self._pulls
        if over.any():
            self.next_epoch(np.nonzero(over), counts, means)
            pulled = np.where(self._active, counts - self._begun, np.inf)
        return pulled.argmin(-1)

    def next_epoch(self, who: tuple[Array, ...], counts: Array, means: Array) -> None:
        """The agents `who` drop what their epoch, if they had one, shows to be worse, and begin the next."""
        n, epoch, active = counts[who], self._epoch[who], self._active[who]
        beta = 1 / self._horizon if self.beta is None else self.beta
        sums = np.rint(n * means[who])
        before = dp_elimination_epoch(np.maximum(epoch, 1), active.sum(-1), self.epsilon, beta)
        noise = self.rng.laplace(0.0, 1.0, active.shape) * before.scale[:, None]
        noisy = np.where(active, (sums - self._sums[who]) / before.pulls[:, None] + noise, -np.inf)
        kept = noisy >= noisy.max(-1, keepdims=True) - before.threshold[:, None]
        active &= kept | (epoch == 0)[:, None]
        after = dp_elimination_epoch(epoch + 1, active.sum(-1), self.epsilon, beta)
        self._active[who], self._epoch[who] = active, epoch + 1
        self._begun[who], self._sums[who] = n, sums
        self._pulls[who] = np.where(active.sum(-1) > 1, after.pulls, np.inf)


class CentralisedOracle(ArmPolicy):
    """What talk could gain at most: KL-UCB on the pulls of all agents together, which all see at once and for nothing.

    Agents pull alike; while arms are left that nobody has pulled, they share them out. No channel carries what they see.
    """

    fast = ArmPolicy.epochs

    def choose(self, counts: Array, means: Array) -> Array:
        pooled = counts.sum(1)
        best = kl_ucb_choice(pooled, (counts * means).sum(1) / np.maximum(pooled, 1))
        arms = np.broadcast_to(best[:, None], counts.shape[:2])
        unpulled = pooled == 0
        if unpulled.any():
            left = np.maximum(unpulled.sum(-1), 1)
            place = np.arange(counts.shape[1]) % left[:, None]
            shared = np.take_along_axis(np.argsort(~unpulled, axis=-1, kind="stable"), place, axis=-1)
            arms = np.where(unpulled.any(-1)[:, None], shared, arms)
        return arms


class Fed2UCB(ArmPolicy):
    """Shi & Shen 2021: phases of equal pulls of all active arms, a server that admits ever more clients, two uncertainties.

    In phase p the server admits 2^p more agents (until it has all M), all agents pull each active arm `pulls` times, and the admitted
    ones upload; arms two radii below the best average are dropped. With `sigma_c = 0` and `admit_all` this is the paper's exact
    model, Fed1-UCB. Agents that are not admitted yet pull like the others (in the paper they do not play); when they are, they
    upload what they pulled before too, which the radius does not count.

    Args:
        pulls: of each active arm in phase p, f(p) = ceil(pulls ln T).
        sigma_c: spread of the agents' means about the global one, 0 for homogeneous rewards. It no longer counts once all are admitted.
        admit_all: admit everyone in the first phase.
        sigma: of a reward given its arm.
    """

    fast = ArmPolicy.epochs

    def __init__(self, pulls: float = 1.0, sigma_c: float = 0.0, admit_all: bool = False, sigma: float = 0.5) -> None:
        self.pulls = number("pulls", pulls, above=0)
        self.sigma_c = number("sigma_c", sigma_c, at_least=0)
        self.admit_all = bool(admit_all)
        self.sigma = number("sigma", sigma, above=0)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if view.params.components:
            raise ValueError(f"Fed2UCB needs the topology 'server', not {view.params.topology!r}")

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._each = int(np.ceil(self.pulls * np.log(max(horizon, 2))))
        self._active = np.ones((shape[0], shape[2]), np.bool_)
        self._begun = np.zeros(shape[0], np.int64)  # slot in which the phase began
        self._rounds = np.zeros(shape[0], np.int64)
        self._radii: dict[int, float] = {}

    def admitted(self, phase: Array) -> Array:
        """M(p): how many agents upload in phase p = 1, 2, ..."""
        agents = self._shape[1]
        if self.admit_all:
            return np.full(phase.shape, agents)
        return np.minimum(2 ** np.minimum(phase + 1, 40) - 2, agents)

    def radius(self, phase: int) -> float:
        """Half of what the arms of phase p are dropped for."""
        if phase not in self._radii:
            total = self.admitted(np.arange(phase + 1)).astype(np.float64)
            total[0] = 0.0
            some = np.diff(total)
            spread = 0.0 if total[-1] == self._shape[1] else self.sigma_c
            self._radii[phase] = fed2_ucb_radius(
                some, np.full(phase, float(self._each)), self._horizon, self.sigma, spread
            )
        return self._radii[phase]

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        seen = self._layout.unpack(obs)
        time, rounds = (seen[name][:, 0].astype(np.int64) for name in ("time", "rounds"))
        broadcast = obs[:, 0, self._layout.slices["broadcast"]]
        pulls, uploads = self.schedule(time, rounds, broadcast, np.ones(len(time), np.int64))
        return pulls.argmax(-1)[:, None] + self._shape[2] * uploads

    def plan(self, seen: Seen, room: Array) -> tuple[Array, Array]:
        """The rest of the phase."""
        pulls, uploads = self.schedule(seen.time[:, 0], seen.rounds[:, 0], seen.broadcast[:, 0], room[:, 0])
        return np.broadcast_to(pulls[:, None], self._shape), uploads

    def schedule(self, time: Array, rounds: Array, broadcast: Array, room: Array) -> tuple[Array, Array]:
        """The next slots, at most `room` and to the end of the phase: everyone's pulls int64[B, K], and who uploads then, bool[B, M].

        Args:
            time, rounds, room: int64[B].
            broadcast: float[B, K], the last round's average.
        """
        fresh = time == 0
        self._active[fresh], self._begun[fresh], self._rounds[fresh] = True, 0, 0
        ended = rounds > self._rounds
        if ended.any():
            radius = np.array([self.radius(phase) for phase in np.maximum(rounds, 1).tolist()])
            average = np.where(self._active, broadcast, -np.inf)
            self._active &= (average > (average.max(-1) - 2 * radius)[:, None]) | ~ended[:, None]
            self._begun = np.where(ended, time, self._begun)
            self._rounds = np.where(ended, rounds, self._rounds)
        size = self._active.sum(-1)
        place = time - self._begun
        until = place + np.where(size > 1, np.minimum(room, size * self._each - place), room)
        # Slots place .. until - 1 of the phase, in turn: those that fall to the active arm of each rank.
        rank = np.where(self._active, np.cumsum(self._active, axis=-1) - 1, 0)
        pulls = (until[:, None] - 1 - rank) // size[:, None] - (place[:, None] - 1 - rank) // size[:, None]
        ends = (size > 1) & (until == size * self._each)
        uploads = ends[:, None] & (np.arange(self._shape[1]) < self.admitted(rounds + 1)[:, None])
        return np.where(self._active, pulls, 0), uploads


def communication_matrix(graph: Graph) -> Array:
    """P = I - L / (d_max + 1), float64[M, M]: doubly stochastic, with the neighbours' weights 1 / (d_max + 1)."""
    adjacency = graph.matrix().toarray()
    return np.eye(graph.num_nodes) + (adjacency - np.diag(graph.degrees)) / (graph.degrees.max() + 1)


class Consensus(ArmPolicy):
    """Base of algorithms in which neighbours on a graph exchange estimates slot by slot.

    What they say passes the channel `means`, where faults strike, and is counted by the world as `neighbour`. Mixtures of everybody's
    sums are no means of own rewards, and a mechanism is refused: nothing would account for them.
    """

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if len(view.params.components) != 1 or view.params.hybrid:
            raise ValueError(f"{type(self).__name__} needs one graph as topology, not {view.params.topology!r}")
        self._tell, self._channel = view.tell_neighbours, view.channels["means"]
        if self._channel.mechanism is not None:
            raise ValueError(f"{type(self).__name__} exchanges mixed sums, for which no mechanism on 'means' accounts")
        self._graph = view.params.components[0]
        self._mix = communication_matrix(self._graph)
        self.prepare()

    def start(self, shape: tuple[int, int, int], horizon: int) -> None:
        super().start(shape, horizon)
        self._last = np.zeros((*shape[:2], 2 * shape[2]))  # pulls, then rewards, of each arm
        self._time = np.zeros(shape[0], np.int64)

    def prepare(self) -> None:
        """Make what depends on the graph."""

    def forget(self, fresh: Array) -> None:
        """Begin the replicas `fresh` bool[B] anew."""

    def exchange(self, slot: Array, live: Array) -> None:
        """Neighbours exchange, after a slot of pulls and rewards `slot` float64[B, M, 2 K], where `live` bool[B]."""
        raise NotImplementedError

    def index(self, counts: Array) -> Array:
        """float64[B, M, K]; the highest is pulled."""
        raise NotImplementedError

    def mixed(self, x: Array, live: Array) -> Array:
        """P x for `x` float64[B, M, P], by messages; who does not hear a neighbour keeps its own x in that place."""
        said, came = self._tell(x, live)
        if not (self._channel.faulty or self._channel.budgeted):
            return self._mix @ x
        others = self._mix - np.diag(np.diag(self._mix))
        heard = came[:, :, None]
        return x * (1 - others @ heard) + others @ np.where(heard, said, 0.0)

    def choose(self, counts: Array, means: Array) -> Array:
        time = counts[:, 0].sum(-1).astype(np.int64)
        total = np.concatenate([counts, np.rint(counts * means)], axis=-1)
        fresh, live = time == 0, time > self._time
        if fresh.any():
            self._last[fresh] = 0
            self.forget(fresh)
        self._time = time
        if live.any():
            self.exchange(total - self._last, live)
            self._last = total
        arms = self.index(counts).argmax(-1)
        first = time < self._shape[2]
        return np.where(first[:, None], time[:, None], arms) if first.any() else arms


class CoopUCB2(Consensus):
    """coop-UCB2 (Landgren, Srivastava & Leonard 2016): UCB on running consensus, n <- P (n + pulls), s <- P (s + rewards).

    Args:
        gamma: > 1.
        eta: in (0, 4).
        sigma: of a reward.
    """

    fast = ArmPolicy.epochs

    def __init__(self, gamma: float = 1.01, eta: float = 2.0, sigma: float = 0.5) -> None:
        self.gamma = number("gamma", gamma, above=1)
        self.eta = number("eta", eta, above=0, below=4)
        self.sigma = number("sigma", sigma, above=0)

    def prepare(self) -> None:
        self._known = np.zeros(self._last.shape)

    def forget(self, fresh: Array) -> None:
        self._known[fresh] = 0

    def exchange(self, slot: Array, live: Array) -> None:
        self._known = np.where(live[:, None, None], self.mixed(self._known + slot, live), self._known)

    def index(self, counts: Array) -> Array:
        pulls, rewards = np.split(self._known, 2, axis=-1)
        t = self._time[:, None, None]
        return coop_ucb2_index(pulls, rewards, t, self._shape[1], self.gamma, self.sigma, self.eta)


class DDUCB(Consensus):
    """DDUCB (Martinez-Rubio, Kanade & Rebeschini 2019, Algorithm 1): stages of C slots; what was pulled in one is mixed in the next.

    Mixing is accelerated by Chebyshev polynomials of P, C = ceil(ln(2 M / accuracy) / sqrt(2 ln(1 / |lambda_2|))).

    Args:
        eta: > 1.
        sigma: of a reward.
        accuracy: to which a stage mixes, the paper's epsilon.
    """

    fast = ArmPolicy.epochs

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

    def forget(self, fresh: Array) -> None:
        for memory in (self._known, self._mixed, self._new, self._mixing, self._mixing_before, self._covered):
            memory[fresh] = 0

    def weight(self, step: Array) -> Array:
        """w_r = T_r(1 / |lambda_2|), the Chebyshev polynomial."""
        return np.cosh(step * np.arccosh(1 / self._second))

    def accelerate(self, step: Array, live: Array) -> Array:
        """y_{r+1} = (2 w_r / |lambda_2| P y_r - w_{r-1} y_{r-1}) / w_{r+1} for `step` r int64[B], and y_1 = P y_0."""
        after = self.weight(step + 1)
        now = np.where(step == 0, 1.0, 2 * self.weight(step) / (self._second * after))
        before = np.where(step == 0, 0.0, self.weight(step - 1) / after)
        mixed = self.mixed(self._mixing, live)
        return now[:, None, None] * mixed - before[:, None, None] * self._mixing_before

    def exchange(self, slot: Array, live: Array) -> None:
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

    def index(self, counts: Array) -> Array:
        pulls, rewards = np.split(self._known, 2, axis=-1)
        return dducb_index(pulls, rewards, self._covered[:, None, None], self._shape[1], self.sigma, self.eta)


class GossipUCB(Consensus):
    """Gossip_UCB (Zhu, Zhu, Liu & Liu 2021): two neighbours a slot average their estimates of the means over agents.

    An agent that has pulled an arm M times less than it hears that anybody has pulls such an arm, at random; else the highest index. In
    each slot one edge, drawn uniformly, gossips; counts pass over all.
    """

    fast = ArmPolicy.epochs

    def prepare(self) -> None:
        self._estimates, self._own = np.zeros(self._shape), np.zeros(self._shape)
        self._most = np.zeros(self._shape)  # pulls that anybody was heard to have made
        edges = np.argwhere(np.triu(self._graph.matrix().toarray()))
        self._edges = edges if len(edges) else np.zeros((1, 2), np.int64)

    def forget(self, fresh: Array) -> None:
        for memory in (self._estimates, self._own, self._most):
            memory[fresh] = 0

    def exchange(self, slot: Array, live: Array) -> None:
        size, agents, arms = self._shape
        total = self._last + slot
        counts, means = total[..., :arms], total[..., arms:] / np.maximum(total[..., :arms], 1)
        said, came = self._tell(np.concatenate([self._estimates, self._most], axis=-1), live)
        estimates, most = self._estimates.copy(), np.maximum(self._most, counts)
        if agents > 1:
            replicas = np.arange(size)
            one, other = self._edges[self.rng.integers(0, len(self._edges), size)].T
            for hears, speaks in ((one, other), (other, one)):
                half = (self._estimates[replicas, hears] + said[replicas, speaks, :arms]) / 2
                estimates[replicas, hears] = np.where(came[replicas, speaks, None], half, estimates[replicas, hears])
            heard = np.where(came[:, :, None], said[..., arms:], 0)[:, self._graph.indices]
            most = np.maximum(most, np.maximum.reduceat(heard, self._graph.indptr[:-1], axis=1))
        at = live[:, None, None]
        self._estimates = np.where(at, estimates + means - self._own, self._estimates)
        self._own, self._most = np.where(at, means, self._own), np.where(at, most, self._most)

    def index(self, counts: Array) -> Array:
        agents = self._shape[1]
        index = gossip_ucb_index(counts, self._estimates, self._time[:, None, None], agents)
        behind = counts < self._most - agents
        if not behind.any():
            return index
        lagging = behind * (1.0 + self.rng.random(behind.shape))
        return np.where(behind.any(-1, keepdims=True), lagging, index)
