"""Optimistic search in a binary tree of items, blind to contexts: HOO and HCT, for one agent."""

import math

import numpy as np

from taciturn.envs.recommender.geometry import DEPTH
from taciturn.validation import Ints


class OptimisticTree:
    """A tree of item clusters with optimistic values; the search follows the highest values from the root.

    Args:
        codes: of the agent's items, in increasing order, int64[M]; see `taciturn.envs.recommender.geometry`.
        nu: > 0, diameter of the whole space in units of reward.
        rho: in (0, 1), the factor between the diameters of one level and the next.
        rounds: T, for HOO; None for HCT.
        c: > 0, weight of HCT's confidence width.
        delta: in (0, 1), of HCT.

    The truncated HOO (Bubeck, Munos, Stoltz & Szepesvari 2011) counts a reward in all clusters on the path and expands
    every leaf that it reaches, to a depth of (ln T / 2 - ln(1 / nu)) / ln(1 / rho). HCT (Azar, Lazaric & Brunskill
    2014, HCT-iid) counts it only in the last cluster, and passes through and expands a cluster once it has been tried
    often enough for its size. Ties go to the right child. Clusters without items are never entered, and clusters
    of one item not expanded.
    """

    def __init__(self, codes: Ints, nu: float, rho: float, rounds: int | None, c: float, delta: float) -> None:
        self.codes, self.nu, self.rho, self.rounds, self.c, self.delta = codes, nu, rho, rounds, c, delta
        self.time = 1
        self.first, self.last, self.depth = [0], [len(codes)], [0]
        self.kids: list[tuple[int, int] | None] = [None]
        self.counts, self.sums = [0], [0.0]
        self.upper, self.value = [math.inf], [math.inf]
        self.c1 = (rho / (3 * nu)) ** (1 / 8)
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

    def confidence(self, least: float) -> float:
        """ln(1 / delta~) of HCT, at the current power of two."""
        power = 2.0 ** math.ceil(math.log2(self.time))
        return -math.log(min(least, self.c1 * self.delta / power))

    def path(self) -> list[int]:
        """The nodes from the root to the one that is chosen."""
        node, path = 0, [0]
        log = 0.0 if self.rounds else self.confidence(0.5)
        while (kids := self.kids[node]) is not None:
            if not self.rounds and self.counts[node] < self.enough(node, log):
                break
            left, right = kids
            node = right if self.value[right] >= self.value[left] else left
            path.append(node)
        return path

    def enough(self, node: int, log: float) -> float:
        """tau: how often HCT tries a node before moving on to its children."""
        depth = self.depth[node]
        return math.ceil(self.c**2 * log * self.rho ** (-2 * depth) / self.nu**2) if depth else 0

    def learn(self, path: list[int], reward: float) -> None:
        """Learn from a reward at the end of a path."""
        end = path[-1]
        if self.rounds:
            for node in path:
                self.counts[node] += 1
                self.sums[node] += reward
                self.refresh(node, math.log(self.rounds) * 2)
            deepest = math.ceil((math.log(self.rounds) / 2 - math.log(1 / self.nu)) / math.log(1 / self.rho))
            if self.depth[end] <= deepest:
                self.expand(end)
            self.back_up(path)
            return
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
        """The places of the items of a node."""
        return np.arange(self.first[node], self.last[node])
