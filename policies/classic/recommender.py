"""Baselines for `recommender_v0`: bandits of items, and linear bandits."""

import math

import numpy as np

from taciturn.envs.core import choice, number
from taciturn.policies.families.bandit_indices import ucb1_narrow, ucb1_width
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints

KINDS = ("shared", "disjoint", "hybrid")


class OracleItem(ItemPolicy):
    """The available item with the highest mean reward, which is hidden truth: regret 0."""

    needs_truth = True
    public_schedule = True

    def start(self, fresh: Bools) -> None:
        pass

    def choose(self, contexts: Floats) -> Ints:
        best: Ints = self._view.truth.best_at_hand()
        return best


class ItemUCB1(ItemPolicy):
    """UCB1 (Auer, Cesa-Bianchi & Fischer 2002) on single items, ignoring contexts, each agent independently.

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
        """The counts and sums [B, W, K] known to each agent."""
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


def affine(points: Floats) -> Floats:
    """(1, 2x - 1) of points x [..., n] in the unit cube, [..., n + 1]."""
    return np.concatenate([np.ones((*points.shape[:-1], 1)), 2 * points - 1], -1)


def features(contexts: Floats, items: Floats) -> Floats:
    """All products of (1, 2c - 1) and (1, 2x - 1), [..., (d + 1) * 6], divided by sqrt((d + 1) * 6), so their length is
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


class LinUCB(ItemPolicy):
    """LinUCB (Li, Chu, Langford & Schapire 2010): ridge regression with an upper confidence bound, each agent
    independently.

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
            # The inverses of A_0 and A_a, b_0, b_a, and B_a. Items never shown have A_a = ridge I and B_a = 0.
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
        units of the noise variance."""
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
    """The inverse of A + x x', given the inverse of A (Sherman & Morrison)."""
    ahead = inverse @ x
    return inverse - np.outer(ahead, ahead) / (1 + x @ ahead)
