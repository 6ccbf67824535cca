"""Rivals of section 5.2 that learn about single items, a tree of items, balls of contexts and items, or a linear
model."""

import math

import numpy as np

from taciturn.envs.core import PublicView, integer, number
from taciturn.envs.recommender.sharing import Request
from taciturn.policies.classic.recommender import ItemUCB1, affine, features, linear_forecast
from taciturn.policies.classic.tree_search import OptimisticTree, TreeSearch
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints


class DUCB(ItemUCB1):
    """UCB1 on single items with the neighbours' records (Buccapatnam, Eryilmaz & Shroff 2013); it ignores contexts.

    All agents ask for exact records in every round: a mechanism on `statistics` or `counts` is refused.

    Args:
        width: as in `ItemUCB1`.
    """

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if any(view.channels[name].mechanism is not None for name in ("statistics", "counts")):
            raise ValueError(
                "DUCB asks for exact statistics of single items: no mechanism may be installed on 'statistics' or "
                "'counts'"
            )
        self._consult = view.consult

    def known(self) -> tuple[Floats, Floats]:
        network = self._network
        asked = np.broadcast_to(network.degrees > 0, self._shape[:2])
        nothing = np.zeros((*self._shape[:2], 1), np.uint64)

        def messages(who: Bools) -> Ints:
            return network.neighbour_sums(who.astype(np.int64))

        counts, sums = (own + network.neighbour_sums(own) for own in (self._counts, self._sums))
        request = Request(asked, sums, counts, nothing, messages, network.degrees + 1, lambda who, reader: ())
        sums, counts, answered = self._consult(request)
        got = answered[..., None]
        return np.where(got, counts, self._counts), np.where(got, sums, self._sums)


class HighConfidenceTree(OptimisticTree):
    """The tree of HCT: a reward counts only in the last cluster of the path, and the path continues below a cluster,
    expanding it if needed, once the cluster has been tried often enough for its size.

    Args:
        codes, nu, rho: as in `OptimisticTree`.
        c: > 0, weight of the confidence width.
        delta: in (0, 1).
    """

    def __init__(self, codes: Ints, nu: float, rho: float, c: float, delta: float) -> None:
        self.c, self.delta, self.time = c, delta, 1
        self.c1 = (rho / (3 * nu)) ** (1 / 8)
        super().__init__(codes, nu, rho)

    def confidence(self, least: float) -> float:
        """ln(1 / delta~), at the current power of two."""
        power = 2.0 ** math.ceil(math.log2(self.time))
        return -math.log(min(least, self.c1 * self.delta / power))

    def path(self) -> list[int]:
        node, path = 0, [0]
        log = self.confidence(0.5)
        while (kids := self.kids[node]) is not None and self.counts[node] >= self.enough(node, log):
            node = self.better(kids)
            path.append(node)
        return path

    def enough(self, node: int, log: float) -> float:
        """tau: how often a node is tried before its children are."""
        depth = self.depth[node]
        return math.ceil(self.c**2 * log * self.rho ** (-2 * depth) / self.nu**2) if depth else 0

    def learn(self, path: list[int], reward: float) -> None:
        end = path[-1]
        log, enough = self.c**2 * self.confidence(1.0), self.enough(end, self.confidence(0.5))
        if self.time == 2.0 ** math.ceil(math.log2(self.time)):
            for node in range(len(self.first)):
                self.refresh(node, log)
            self.back_up(list(range(len(self.first))))
        self.counts[end] += 1
        self.sums[end] += reward
        self.time += 1
        self.refresh(end, log)
        self.back_up(path)
        if self.counts[end] >= enough and self.kids[end] is None:
            self.expand(end)


class HCT(TreeSearch):
    """High-confidence tree (Azar, Lazaric & Brunskill 2014, HCT-iid); it ignores contexts and is the base of POO, the
    paper's "Poo-Loc".

    Args:
        nu, rho: as in `HOO`.
        c: in (0, 1e6], weight of the confidence width.
        delta: in [1e-12, 1), the probability of failure.
    """

    def __init__(self, nu: float = 1.0, rho: float = 0.85, c: float = 0.3, delta: float = 0.1) -> None:
        self.nu = number("nu", nu, at_least=1e-6, at_most=1e6)
        self.rho = number("rho", rho, at_least=0.01, below=1)
        self.c = number("c", c, above=0, at_most=1e6)
        self.delta = number("delta", delta, at_least=1e-12, below=1)

    public_schedule = True

    def make_tree(self, codes: Ints) -> OptimisticTree:
        return HighConfidenceTree(codes, self.nu, self.rho, self.c, self.delta)


class GaussLinUCB(ItemPolicy):
    """Linear UCB that is jointly differentially private, with Gaussian noise on a tree of Gram matrices (Shariff &
    Sheffet 2018).

    Each agent regresses on its own `features`. Every sum of (z, y)(z, y)' over a block of the binary mechanism gets a
    symmetric Gaussian matrix as noise, and the diagonal is shifted to keep the sum positive definite (section 4.2). The
    items shown to a user are then private towards all other users. The policy adds this noise itself: nothing is sent
    over a channel, and the accountant does not record it.

    Args:
        epsilon: > 0, of the whole run.
        delta: in (0, 1); None: 1 / horizon.
        alpha: > 0, weight of the confidence width.
        failure: in (0, 1), the probability that the shifted noise is not positive definite.
        shift: share of the paper's shift of the diagonal, in (0, 1]; a smaller one weakens the regret bound but not
            privacy.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | None = None,
        alpha: float = 0.3,
        failure: float = 0.05,
        shift: float = 1.0,
    ) -> None:
        self.epsilon = number("epsilon", epsilon, at_least=1e-9)
        self.delta = None if delta is None else number("delta", delta, at_least=1e-12, below=1)
        self.alpha = number("alpha", alpha, above=0)
        self.failure = number("failure", failure, at_least=1e-12, below=1)
        self.shift = number("shift", shift, above=0, at_most=1)

    public_schedule = True

    @property
    def noise(self) -> tuple[float, float]:
        """The standard deviation of the entries of a block's noise, and the shift of the diagonal, Upsilon."""
        dims, levels = (self._dims + 1) * 6, math.floor(math.log2(self._horizon)) + 1
        delta = 1 / self._horizon if self.delta is None else self.delta
        # The length of (z, y) is at most sqrt(2).
        sigma = 4 * math.sqrt(levels) * 2 * math.log(4 / delta) / self.epsilon
        return sigma, sigma * math.sqrt(2 * levels) * (
            4 * math.sqrt(dims) + 2 * math.log(2 * self._horizon / self.failure)
        )

    def start(self, fresh: Bools) -> None:
        size, agents, _ = self._shape
        k, levels = (self._dims + 1) * 6 + 1, math.floor(math.log2(self._horizon)) + 1
        if fresh.all():
            self._gram = np.zeros((size, agents, k, k))
            self._blocks = np.zeros((size, agents, levels, k, k))
            self._seen = np.zeros((size, agents), np.int64)
        self._columns = np.ascontiguousarray(np.swapaxes(affine(self._items), 1, 2))
        self._gram[fresh], self._blocks[fresh], self._seen[fresh] = 0, 0, 0

    def choose(self, contexts: Floats) -> Ints:
        _, upsilon = self.noise
        noisy = self._gram + self._blocks.sum(2)
        a = noisy[..., :-1, :-1] + 2 * self.shift * upsilon * np.eye(noisy.shape[-1] - 1)
        inverse = np.linalg.inv(a)
        beta = (inverse @ noisy[..., :-1, -1:])[..., 0]
        index = np.empty(self._shape)
        for b in range(self._shape[0]):
            for w in range(self._shape[1]):
                mean, variance = linear_forecast(contexts[b, w], self._columns[b], beta[b, w], inverse[b, w])
                index[b, w] = mean + self.alpha * np.sqrt(np.maximum(variance, 0))
        return self.best(index)

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        sigma, _ = self.noise
        for b, w in zip(*np.nonzero(real), strict=True):
            row = np.append(features(contexts[b, w], self._items[b, items[b, w]]), likes[b, w])
            self._gram[b, w] += np.outer(row, row)
            self._seen[b, w] += 1
            ended = int(self._seen[b, w] & -self._seen[b, w]).bit_length() - 1
            drawn = self.rng.normal(0, sigma, self._gram.shape[2:])
            self._blocks[b, w, :ended] = 0
            self._blocks[b, w, ended] = (drawn + drawn.T) / math.sqrt(2)


class ContextualZooming(ItemPolicy):
    """Contextual zooming (Slivkins 2011, 2014): balls in the product of contexts and items, smaller where rewards are
    high.

    Each agent learns separately. A ball of radius r covers the points in it that no smaller ball covers. Among the
    balls that cover one of the agent's items in the present context, the policy chooses the ball with the highest index
    and shows a random such item. If the ball's confidence radius is at most r, it opens a ball of half the radius
    around the point.

    Args:
        width: > 0; the confidence radius is width sqrt(ln T / (1 + n)), 4 in the paper.
        scale: > 0, reward per unit of distance (the largest difference of coordinates).
        most: the largest number of balls of an agent.
    """

    def __init__(self, width: float = 0.3, scale: float = 1.0, most: int = 500) -> None:
        self.width = number("width", width, above=0)
        self.scale = number("scale", scale, above=0)
        self.most = integer("most", most, at_least=1)

    public_schedule = True

    def start(self, fresh: Bools) -> None:
        size, agents, num_items = self._shape
        if fresh.all():
            room = (size, agents, 16)
            self._covers = np.zeros((*room, num_items), np.bool_)  # whether an item is within the radius of a ball
            self._apart = np.zeros((*room, 16))  # distances between balls
            self._centres = np.zeros((*room, self._dims + 5))
            self._radius, self._counts, self._sums = np.zeros(room), np.zeros(room), np.zeros(room)
            self._balls = np.ones((size, agents), np.int64)
            self._chosen = np.zeros((size, agents), np.int64)
        self._balls[fresh] = 1
        self._centres[fresh, :, 0], self._radius[fresh, :, 0] = 0.5, self.scale / 2
        self._counts[fresh], self._sums[fresh] = 0, 0
        self._covers[fresh, :, 0] = True

    def confidence(self, counts: Floats) -> Floats:
        return np.asarray(self.width * np.sqrt(math.log(max(self._horizon, 2)) / (1 + counts)))

    def choose(self, contexts: Floats) -> Ints:
        size, agents, _ = self._shape
        items = np.zeros((size, agents), np.int64)
        luck = self.rng.random((size, agents))
        for b in range(size):
            for w in range(agents):
                n = self._balls[b, w]
                centres, radius = self._centres[b, w, :n], self._radius[b, w, :n]
                near = np.flatnonzero(self.scale * np.abs(centres[:, : self._dims] - contexts[b, w]).max(-1) <= radius)
                index = self.indices(b, w, near)
                smallest = near[np.argsort(radius[near], kind="stable")]
                # The first ball covers everything, so some ball always contains an item.
                for ball in near[np.argsort(-index, kind="stable")]:
                    inside = np.flatnonzero(self._covers[b, w, ball] & self._have[b, w])
                    for smaller in smallest[: np.flatnonzero(smallest == ball)[0]]:
                        inside = inside[~self._covers[b, w, smaller, inside]]
                    if inside.size:
                        break
                items[b, w], self._chosen[b, w] = inside[int(luck[b, w] * inside.size)], ball
        return items

    def indices(self, b: int, w: int, relevant: Ints) -> Floats:
        """The indices float64[n] of the `relevant` balls [n]: r + the minimum over balls B' of (mean + r' + confidence'
        + distance to B')."""
        n = self._balls[b, w]
        counts, radius = self._counts[b, w, :n], self._radius[b, w, :n]
        before = self._sums[b, w, :n] / np.maximum(counts, 1) + radius + self.confidence(counts)
        return np.asarray(radius[relevant] + (before[None] + self._apart[b, w, relevant, :n]).min(1))

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        for b, w in zip(*np.nonzero(real), strict=True):
            ball, n = self._chosen[b, w], self._balls[b, w]
            point = np.concatenate([contexts[b, w], self._items[b, items[b, w]]])
            if self.scale * np.abs(self._centres[b, w, ball] - point).max() > self._radius[b, w, ball]:
                continue  # another policy acted for the agent
            self._counts[b, w, ball] += 1
            self._sums[b, w, ball] += likes[b, w]
            if self.confidence(self._counts[b, w, ball]) <= self._radius[b, w, ball] and n < self.most:
                if n == self._radius.shape[2]:
                    for name in ("_centres", "_radius", "_counts", "_sums", "_covers", "_apart"):
                        old = getattr(self, name)
                        setattr(self, name, np.concatenate([old, np.zeros_like(old)], 2))
                    self._apart = np.concatenate([self._apart, np.zeros_like(self._apart)], 3)
                self._centres[b, w, n], self._radius[b, w, n] = point, self._radius[b, w, ball] / 2
                self._counts[b, w, n] = self._sums[b, w, n] = 0
                away = np.abs(self._items[b] - point[self._dims :]).max(-1)
                distance = self.scale * np.abs(self._centres[b, w, : n + 1] - point).max(-1)
                self._apart[b, w, n, : n + 1] = self._apart[b, w, : n + 1, n] = distance
                self._covers[b, w, n] = self.scale * away <= self._radius[b, w, n]
                self._balls[b, w] = n + 1
