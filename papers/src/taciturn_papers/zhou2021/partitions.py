"""Baselines for `recommender_v0` that partition contexts and items: a static grid, and adaptive cells with fixed
clusters."""

import math

import numpy as np

from taciturn.envs.core import choice, integer, number
from taciturn.envs.recommender.geometry import DEPTH
from taciturn.policies.families.cluster_policy import ClusterPolicy
from taciturn.policies.families.cluster_tree import expand
from taciturn.policies.families.context_cells import deepest_level
from taciturn.validation import Bools, Floats


class _FixedClusters(ClusterPolicy):
    """Base of policies with fixed clusters of items: the largest cluster is halved until there are enough."""

    clusters: int
    public_schedule = ClusterPolicy.public_schedule

    def set_rules(self, context_dim: int) -> None:
        self._bonus, self._explored = np.zeros(DEPTH + 1), np.full(DEPTH + 1, np.inf)
        self._crowded = self.arrivals(context_dim)

    def arrivals(self, context_dim: int) -> Floats:
        """For each level, the number of arrivals, over ln n, after which a cell is split."""
        raise NotImplementedError

    def prepare(self, fresh: Bools) -> None:
        self._tree.make_room(0)
        for model in np.flatnonzero(np.repeat(fresh, len(self._owners))):
            for _ in range(self.clusters - 2):
                tree = self._tree.arrays
                count = int(tree.num_leaves[model])
                size = tree.leaf_hi[model, :count] - tree.leaf_lo[model, :count]
                size = np.where(tree.leaf_depth[model, :count] < DEPTH, size, 0)
                if size.max() < 2:
                    break
                expand(tree, int(model), int(size.argmax()), 0)
                self._tree.make_room(0)


class DSC(_FixedClusters):
    """Distributed learning on a static grid of contexts (Tekin & van der Schaar 2013): UCB over fixed clusters, with
    the records of all neighbours.

    All agents ask in every round. Results depend strongly on the grid: sweep `level` before ranking this policy.

    Args:
        level: how many times each dimension of the contexts is halved.
        clusters: number of clusters of items.
        xi: > 0; the index is mean + sqrt(xi ln n / (8 Q)), UCB1 for 16.

    Deviations from the paper: a UCB index replaces its phases of training, exploration and exploitation. A cell of the
    grid is split at the first arrival in it, one level per round.
    """

    threshold = math.inf

    def __init__(self, level: int = 2, clusters: int = 64, xi: float = 0.5) -> None:
        self.level = integer("level", level, at_least=0, at_most=6)
        self.clusters = integer("clusters", clusters, at_least=2, at_most=10_000)
        self.xi = number("xi", xi, above=0)

    public_schedule = ClusterPolicy.public_schedule

    def arrivals(self, context_dim: int) -> Floats:
        levels = np.arange(deepest_level(context_dim, self.bisect) + 1)
        return np.where(levels < self.level, 0.0, np.inf)


class ACR(_FixedClusters):
    """Adaptive context partition with fixed clusters of items (Song, Tekin & van der Schaar 2016); each agent learns
    separately.

    A cell of level l is split after rate 2^(power l) ln n arrivals. With `bisect`, l is the number of halvings divided
    by the number of dimensions.

    Args:
        clusters: number of clusters of items, K; the paper uses 90.
        xi: > 0; the index is mean + sqrt(xi ln n / (8 Q)).
        rate: > 0.
        power: > 0.
        bisect: whether cells are halved in one dimension at a time.

    Deviations from the paper: the paper builds clusters from single items upwards, and its thresholds have no ln n.
    """

    threshold = -math.inf

    def __init__(
        self, clusters: int = 90, xi: float = 0.5, rate: float = 20.0, power: float = 3.0, bisect: bool = False
    ) -> None:
        self.clusters = integer("clusters", clusters, at_least=2, at_most=10_000)
        self.xi = number("xi", xi, above=0)
        self.rate = number("rate", rate, above=0)
        self.power = number("power", power, above=0)
        self.bisect = bool(choice("bisect", bisect, (False, True)))

    public_schedule = ClusterPolicy.public_schedule

    def arrivals(self, context_dim: int) -> Floats:
        levels = np.arange(deepest_level(context_dim, self.bisect) + 1)
        return self.rate * 2.0 ** (self.power * levels / (context_dim if self.bisect else 1))
