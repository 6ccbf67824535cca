"""Optimistic search in a binary tree of items for `recommender_v0`, ignoring contexts: HOO, and a base class."""

import math

import numpy as np

from taciturn.envs.core import number
from taciturn.envs.recommender.geometry import DEPTH
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints


class OptimisticTree:
    """A tree of one agent's item clusters with optimistic values; the search follows the highest values from the root.

    Ties go to the right child. Clusters without items are never entered, and clusters of one item not expanded.

    Args:
        codes: codes of the agent's items, in increasing order, int64[M]; see `taciturn.envs.recommender.geometry`.
        nu: > 0, diameter of the whole space in units of reward.
        rho: in (0, 1), ratio of the diameters of consecutive levels.
    """

    def __init__(self, codes: Ints, nu: float, rho: float) -> None:
        self.codes, self.nu, self.rho = codes, nu, rho
        self.first, self.last, self.depth = [0], [len(codes)], [0]
        self.kids: list[tuple[int, int] | None] = [None]
        self.counts, self.sums = [0], [0.0]
        self.upper, self.value = [math.inf], [math.inf]
        self.expand(0)

    def expand(self, node: int) -> None:
        """Give a node its two children."""
        first, last, depth = self.first[node], self.last[node], self.depth[node]
        if last - first < 2 or depth >= DEPTH:
            return
        bit = self.codes[first:last] >> (DEPTH - 1 - depth) & 1
        middle = first + int((bit == 0).sum())
        self.kids[node] = (len(self.first), len(self.first) + 1)
        for low, high in ((first, middle), (middle, last)):
            self.first.append(low)
            self.last.append(high)
            self.depth.append(depth + 1)
            self.kids.append(None)
            self.counts.append(0)
            self.sums.append(0.0)
            self.upper.append(math.inf)
            self.value.append(math.inf if high > low else -math.inf)

    def path(self) -> list[int]:
        """The nodes from the root to the chosen one."""
        node, path = 0, [0]
        while (kids := self.kids[node]) is not None:
            node = self.better(kids)
            path.append(node)
        return path

    def better(self, kids: tuple[int, int]) -> int:
        """The child with the higher value."""
        left, right = kids
        return right if self.value[right] >= self.value[left] else left

    def learn(self, path: list[int], reward: float) -> None:
        """Learn from a reward at the end of a path."""
        raise NotImplementedError

    def refresh(self, node: int, log: float) -> None:
        """U: the mean, a confidence width sqrt(log / n), and the diameter."""
        n = self.counts[node]
        if n:
            self.upper[node] = self.sums[node] / n + self.nu * self.rho ** self.depth[node] + math.sqrt(log / n)

    def back_up(self, nodes: list[int]) -> None:
        """B: the smaller of U and the larger B of the children; children come after their parents in `nodes`."""
        for node in reversed(nodes):
            kids = self.kids[node]
            below = math.inf if kids is None else max(self.value[kids[0]], self.value[kids[1]])
            if self.last[node] > self.first[node]:
                self.value[node] = min(self.upper[node], below)

    def items(self, node: int) -> Ints:
        """The indices of the items of a node."""
        return np.arange(self.first[node], self.last[node])


class TruncatedTree(OptimisticTree):
    """The tree of the truncated HOO (Bubeck, Munos, Stoltz & Szepesvari 2011): a reward counts in all clusters on the
    path, and every leaf reached is expanded, to a depth of (ln T / 2 - ln(1 / nu)) / ln(1 / rho).

    Args:
        codes, nu, rho: as for `OptimisticTree`.
        rounds: T.
    """

    def __init__(self, codes: Ints, nu: float, rho: float, rounds: int) -> None:
        super().__init__(codes, nu, rho)
        self.rounds = rounds

    def learn(self, path: list[int], reward: float) -> None:
        for node in path:
            self.counts[node] += 1
            self.sums[node] += reward
            self.refresh(node, math.log(self.rounds) * 2)
        deepest = math.ceil((math.log(self.rounds) / 2 - math.log(1 / self.nu)) / math.log(1 / self.rho))
        if self.depth[path[-1]] <= deepest:
            self.expand(path[-1])
        self.back_up(path)


class TreeSearch(ItemPolicy):
    """Base of the policies that search a tree of items for each agent, ignoring contexts, and show a random item of the
    last cluster on the path."""

    def make_tree(self, codes: Ints) -> OptimisticTree:
        """The tree of an agent, given the codes of its items in increasing order."""
        raise NotImplementedError

    def start(self, fresh: Bools) -> None:
        if fresh.all():
            self._trees: list[OptimisticTree | None] = [None] * (self._shape[0] * self._shape[1])
            self._paths: list[list[int]] = [[]] * len(self._trees)
            self._order: list[Ints] = [np.zeros(0, np.int64)] * len(self._trees)
        for agent in np.flatnonzero(np.repeat(fresh, self._shape[1])):
            self._trees[agent] = None

    def arrive(self) -> None:
        """Restart the search of agents with newly arrived items."""
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


class HOO(TreeSearch):
    """Hierarchical optimistic optimisation, truncated (Bubeck, Munos, Stoltz & Szepesvari 2011), ignoring contexts.

    Args:
        nu: in [1e-6, 1e6], diameter of the item space in units of reward.
        rho: in [0.01, 1), ratio of the diameters of consecutive levels.
    """

    def __init__(self, nu: float = 1.0, rho: float = 0.85) -> None:
        self.nu = number("nu", nu, at_least=1e-6, at_most=1e6)
        self.rho = number("rho", rho, at_least=0.01, below=1)

    public_schedule = True

    def make_tree(self, codes: Ints) -> OptimisticTree:
        return TruncatedTree(codes, self.nu, self.rho, max(self._horizon, 2))
