"""Baselines for `recommender_v0`: bandits of items, linear bandits, and fixed or adaptive partitions."""

import math

import numpy as np

from taciturn.envs.core import PublicView, choice, integer, number
from taciturn.envs.recommender.sharing import Request
from taciturn.policies.classic.bandit_indices import ucb1_narrow, ucb1_width
from taciturn.policies.families.optimistic_tree import OptimisticTree
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints

KINDS = ("shared", "disjoint", "hybrid")


class OracleItem(ItemPolicy):
    """The item at hand with the highest mean reward, which is hidden truth: regret 0."""

    needs_truth = True
    public_schedule = True

    def start(self, fresh: Bools) -> None:
        pass

    def choose(self, contexts: Floats) -> Ints:
        best: Ints = self._view.truth.best_at_hand()
        return best


class ItemUCB1(ItemPolicy):
    """UCB1 (Auer, Cesa-Bianchi & Fischer 2002) on single items, blind to contexts, each agent on its own.

    Args:
        width: > 0; the index is mean + width sqrt(2 ln n / Q).
    """

    def __init__(self, width: float = 1.0) -> None:
        self.width = number("width", width, above=0)

    def start(self, fresh: Bools) -> None:
        if fresh.all():
            self._counts, self._sums = np.zeros(self._shape), np.zeros(self._shape)
        self._counts[fresh], self._sums[fresh] = 0, 0

    def known(self) -> tuple[Floats, Floats]:
        """The counts and sums [B, W, K] that each agent knows of."""
        return self._counts, self._sums

    def choose(self, contexts: Floats) -> Ints:
        counts, sums = self.known()
        wide = self.width * ucb1_width(counts.sum(-1, keepdims=True))
        index = np.where(counts > 0, sums / np.maximum(counts, 1) + wide * ucb1_narrow(np.maximum(counts, 1)), np.inf)
        return self.best(index)

    public_schedule = True

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        b, w = np.nonzero(real)
        self._counts[b, w, items[b, w]] += 1
        self._sums[b, w, items[b, w]] += likes[b, w]


class DUCB(ItemUCB1):
    """UCB1 on single items with the records of the neighbours (Buccapatnam, Eryilmaz & Shroff 2013), blind to contexts.

    All agents ask for these records in every round, without noise: a mechanism on `statistics` or `counts` is refused.

    Args:
        width: as for `ItemUCB1`.
    """

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        if any(view.channels[name].mechanism is not None for name in ("statistics", "counts")):
            raise ValueError(
                "DUCB asks for statistics of single items without noise: no mechanism can stand on 'statistics' or "
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


def affine(points: Floats) -> Floats:
    """(1, 2x - 1) of points x [..., n] in the unit cube, [..., n + 1]."""
    return np.concatenate([np.ones((*points.shape[:-1], 1)), 2 * points - 1], -1)


def features(contexts: Floats, items: Floats) -> Floats:
    """All products of (1, 2c - 1) and (1, 2x - 1), [..., (d + 1) * 6], over sqrt((d + 1) * 6), so that their length is
    at most 1."""
    c, x = affine(contexts), affine(items)
    product = c[..., :, None] * x[..., None, :]
    return np.asarray(product.reshape(*product.shape[:-2], -1) / math.sqrt(product.shape[-2] * product.shape[-1]))


def linear_forecast(context: Floats, columns: Floats, beta: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """z beta and z' A^-1 z for the `features` z of items in one context [d], without computing z; float64[n] each.

    The columns [6, n] are (1, 2x - 1) of the items x.
    """
    c = affine(context)
    dims = (len(c), len(columns))
    mean = (c @ beta.reshape(dims)) @ columns / math.sqrt(math.prod(dims))
    form = np.tensordot(c, np.tensordot(inverse.reshape(*dims, *dims), c, (2, 0)), (0, 0)) / math.prod(dims)
    return mean, np.einsum("jn,jn->n", form @ columns, columns)


class _TreeSearch(ItemPolicy):
    """Base of the policies that search a tree of items for each agent, blind to contexts, and show a random item of the
    last cluster on the path."""

    def make_tree(self, codes: Ints) -> OptimisticTree:
        """The tree of an agent whose items have these codes, in increasing order."""
        raise NotImplementedError

    def start(self, fresh: Bools) -> None:
        if fresh.all():
            self._trees: list[OptimisticTree | None] = [None] * (self._shape[0] * self._shape[1])
            self._paths: list[list[int]] = [[]] * len(self._trees)
            self._order: list[Ints] = [np.zeros(0, np.int64)] * len(self._trees)
        for agent in np.flatnonzero(np.repeat(fresh, self._shape[1])):
            self._trees[agent] = None

    def arrive(self) -> None:
        """Items have arrived: restart the search of the agents that got some."""
        codes = self._view.catalogue()[1]
        for agent, have in enumerate(self._have.reshape(-1, self._shape[2])):
            own = np.flatnonzero(have)
            if self._trees[agent] is None or own.size != self._order[agent].size:
                own_codes = codes[agent // self._shape[1], own]
                self._order[agent] = own[own_codes.argsort(kind="stable")]
                self._trees[agent] = self.make_tree(np.sort(own_codes))

    def choose(self, contexts: Floats) -> Ints:
        self.arrive()
        luck, items = self.rng.random(len(self._trees)), np.zeros(len(self._trees), np.int64)
        for agent, tree in enumerate(self._trees):
            assert tree is not None
            self._paths[agent] = tree.path()
            inside = tree.items(self._paths[agent][-1])
            items[agent] = self._order[agent][inside[int(luck[agent] * inside.size)]]
        return items.reshape(self._shape[:2])

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        for agent in np.flatnonzero(real.ravel()):
            tree = self._trees[agent]
            assert tree is not None
            if items.ravel()[agent] in self._order[agent][tree.items(self._paths[agent][-1])]:
                tree.learn(self._paths[agent], float(likes.ravel()[agent]))


class HOO(_TreeSearch):
    """Hierarchical optimistic optimisation, truncated (Bubeck, Munos, Stoltz & Szepesvari 2011), blind to contexts.

    Args:
        nu: in [1e-6, 1e6], diameter of the item space in units of reward.
        rho: in [0.01, 1), the factor between the diameters of one level and the next.
    """

    def __init__(self, nu: float = 1.0, rho: float = 0.85) -> None:
        self.nu = number("nu", nu, at_least=1e-6, at_most=1e6)
        self.rho = number("rho", rho, at_least=0.01, below=1)

    public_schedule = True

    def make_tree(self, codes: Ints) -> OptimisticTree:
        return OptimisticTree(codes, self.nu, self.rho, max(self._horizon, 2), 1.0, 0.5)


class HCT(_TreeSearch):
    """High-confidence tree (Azar, Lazaric & Brunskill 2014, HCT-iid), blind to contexts; the base of POO, the paper's
    "Poo-Loc".

    Args:
        nu, rho: as for `HOO`.
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
        return OptimisticTree(codes, self.nu, self.rho, None, self.c, self.delta)


class LinUCB(ItemPolicy):
    """LinUCB (Li, Chu, Langford & Schapire 2010): ridge regression with an upper confidence bound, each agent on its
    own.

    Args:
        kind: "disjoint" (a model for each item, linear in (1, 2c - 1); Algorithm 1), "shared" (one model for all items,
            linear in `features`), or "hybrid" (the sum of both; Algorithm 2).
        alpha: > 0, weight of the confidence width.
        ridge: in [1e-9, 1e9], added to the diagonals; 1 in the paper.
    """

    def __init__(self, kind: str = "hybrid", alpha: float = 0.3, ridge: float = 1.0) -> None:
        self.kind = choice("kind", kind, KINDS)
        self.alpha = number("alpha", alpha, above=0)
        self.ridge = number("ridge", ridge, at_least=1e-9, at_most=1e9)

    public_schedule = True

    def start(self, fresh: Bools) -> None:
        size, agents, items = self._shape
        d, k = self._dims + 1, (self._dims + 1) * 6
        if fresh.all():
            # The inverses of A_0 and A_a, b_0, b_a, and B_a. Items that were never shown have A_a = ridge I and B_a =
            # 0.
            self._shared_inverse, self._shared_b = np.zeros((size, agents, k, k)), np.zeros((size, agents, k))
            own = (size, agents, items) if self.kind != "shared" else (size, agents, 0)
            self._inverse, self._b = np.zeros((*own, d, d)), np.zeros((*own, d))
            self._cross = np.zeros((*own, d, k)) if self.kind == "hybrid" else np.zeros((*own, d, 0))
            self._shown = np.zeros(own, np.bool_)
        self._columns = np.ascontiguousarray(np.swapaxes(affine(self._items), 1, 2))
        self._shared_inverse[fresh], self._shared_b[fresh] = np.eye(k) / self.ridge, 0
        self._inverse[fresh], self._b[fresh], self._cross[fresh] = np.eye(d) / self.ridge, 0, 0
        self._shown[fresh] = False

    def choose(self, contexts: Floats) -> Ints:
        index = np.empty(self._shape)
        for b in range(self._shape[0]):
            for w in range(self._shape[1]):
                mean, variance = self.predict(b, w, contexts[b, w])
                index[b, w] = mean + self.alpha * np.sqrt(np.maximum(variance, 0))
        return self.best(index)

    def predict(self, b: int, w: int, context: Floats) -> tuple[Floats, Floats]:
        """Estimates of the mean rewards of all items in a context, by agent w of replica b, and their variances in
        units of the noise's."""
        x, shared = affine(context), self._shared_inverse[b, w]
        mean, variance = np.zeros((2, self._shape[2]))
        if self.kind != "disjoint":
            beta = shared @ self._shared_b[b, w]
            mean, variance = linear_forecast(context, self._columns[b], beta, shared)
            if self.kind == "shared":
                return mean, variance
        variance += (x @ x) / self.ridge
        which = np.flatnonzero(self._shown[b, w])
        if which.size and self.kind == "disjoint":
            ahead = self._inverse[b, w, which] @ x
            mean[which], variance[which] = (self._b[b, w, which] * ahead).sum(-1), ahead @ x
        elif which.size:
            z = features(context, self._items[b, which])
            inverse, cross = self._inverse[b, w, which], self._cross[b, w, which]
            theta = (inverse @ (self._b[b, w, which] - cross @ beta)[..., None])[..., 0]
            ahead = inverse @ x
            turned = (np.swapaxes(cross, -1, -2) @ ahead[..., None])[..., 0]  # B' A^-1 x
            mean[which] += theta @ x
            pair = turned @ shared
            variance[which] = ((z @ shared) * z).sum(-1) - 2 * (pair * z).sum(-1) + ahead @ x + (pair * turned).sum(-1)
        return mean, variance

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        for b, w in zip(*np.nonzero(real), strict=True):
            item, like = items[b, w], likes[b, w]
            x = affine(contexts[b, w])
            z = features(contexts[b, w], self._items[b, item])
            if self.kind == "shared":
                self._shared_inverse[b, w] = _rank_one(self._shared_inverse[b, w], z)
                self._shared_b[b, w] += like * z
                continue
            if self.kind == "hybrid":
                # A_0 gains z z' plus the decrease of B' A^-1 B of the item shown.
                inverse, cross = self._inverse[b, w, item], self._cross[b, w, item]
                a0 = np.linalg.inv(self._shared_inverse[b, w])
                a0 += cross.T @ inverse @ cross
                self._shared_b[b, w] += cross.T @ inverse @ self._b[b, w, item]
            self._inverse[b, w, item] = _rank_one(self._inverse[b, w, item], x)
            self._b[b, w, item] += like * x
            self._shown[b, w, item] = True
            if self.kind == "hybrid":
                self._cross[b, w, item] += np.outer(x, z)
                inverse, cross = self._inverse[b, w, item], self._cross[b, w, item]
                a0 += np.outer(z, z) - cross.T @ inverse @ cross
                self._shared_b[b, w] += like * z - cross.T @ inverse @ self._b[b, w, item]
                self._shared_inverse[b, w] = np.linalg.inv(a0)


def _rank_one(inverse: Floats, x: Floats) -> Floats:
    """The inverse of A + x x', from that of A (Sherman & Morrison)."""
    ahead = inverse @ x
    return inverse - np.outer(ahead, ahead) / (1 + x @ ahead)


class GaussLinUCB(ItemPolicy):
    """Linear UCB that is jointly differentially private, with Gaussian noise on a tree of Gram matrices (Shariff &
    Sheffet 2018).

    Each agent on its own regresses on `features`. All sums of (z, y)(z, y)' over the blocks of the binary mechanism get
    a symmetric Gaussian matrix, and the diagonal is shifted so that the sum stays positive definite (section 4.2). The
    items shown to a user are then private towards all other users. The policy adds this noise itself: nothing is sent
    over a channel, and the ledger does not record it.

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
    """Contextual zooming (Slivkins 2011, 2014): balls in the product of contexts and items, finer where rewards are
    high.

    Each agent on its own. A ball of radius r belongs to the points that no smaller ball covers. Among the balls that
    contain one of the agent's items in the present context, the policy chooses the one with the highest index and shows
    a random such item; if the ball's confidence radius is at most r, it opens a ball of half the radius around the
    point.

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
        """r + min over balls B' of (mean + r' + confidence' + distance to B') of the `relevant` balls [n],
        float64[n]."""
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
