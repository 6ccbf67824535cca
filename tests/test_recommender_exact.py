"""T-PriDO and DT-PriDO equal a twin that keeps nothing but the raw history and counts it afresh for every number that
it needs."""

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

import taciturn
from taciturn.envs import recommender_v0
from taciturn.envs.core import Array
from taciturn.envs.recommender.sharing import Request
from taciturn.policies import DTPriDO, Policy, TPriDO
from taciturn.policies.families.block_sums import dominating_set
from taciturn.policies.families.cluster_tree import _name
from taciturn.policies.reference.t_prido import partition_rate
from taciturn.wrappers import Exponential, TreeAggregation

SMALL: dict[str, Any] = {"num_agents": 4, "num_items": 60, "repository": 30, "horizon": 64}
QUICK: dict[str, Any] = {"rate": 0.4, "xi": 0.3, "psi": 0.4, "gamma": 0.8}
Cell = tuple[tuple[float, float], ...]
Box = tuple[tuple[float, float], ...]


def halves(box: Box, dims: list[int]) -> list[Box]:
    """The boxes into which a box is divided by halving it in these dimensions; the first dimension varies fastest."""
    found = []
    for upper in itertools.product((0, 1), repeat=len(dims)):
        sides = list(box)
        for dim, up in zip(dims, upper[::-1], strict=True):
            low, high = box[dim]
            middle = (low + high) / 2
            sides[dim] = (middle, high) if up else (low, middle)
        found.append(tuple(sides))
    return found


def inside(box: Box, point: Array) -> bool:
    return all(low <= x < high or x == high == 1 for (low, high), x in zip(box, point, strict=True))


class Recount(Policy):
    """T-PriDO by its description. One replica. Leaves are (depth, box, number) and cells (level, box, number), in the
    order of the paper.

    It shares with `TPriDO` the random numbers, the names of streams and the third party, and nothing else.
    """

    def __init__(self, like: TPriDO) -> None:
        self.like = like

    def begin(self, view: Any) -> None:
        self.view, p = view, view.params
        self.agents, self.dims, self.items = p.num_agents, p.context_dim, p.num_items
        self.features = view.catalogue()[0][0]
        network = p.network
        neighbours = network.matrix().toarray() > 0
        if isinstance(self.like, DTPriDO):
            owners, follows = dominating_set(network)
            self.owners, self.follows = owners.tolist(), follows.tolist()
        else:
            self.owners = self.follows = list(range(self.agents))
        self.groups = [[b for b in range(self.agents) if b == a or neighbours[a, b]] for a in self.owners]
        half = halves(((0, 1),) * 5, [0])
        self.leaves = [[(1, half[0], 2), (1, half[1], 3)] for _ in self.owners]
        self.cells: list[list[Any]] = [[(0, ((0, 1),) * self.dims, 1)] for _ in self.owners]
        self.records: list[list[tuple[Array, int, float]]] = [[] for _ in range(self.agents)]
        self.before = [0.0] * len(self.owners)
        self.told: dict[tuple[Any, int], set[tuple[int, int]]] = {}
        self.seen: list[Any] = []

    def of_group(self, model: int, cell: Any, leaf: Any) -> list[tuple[int, int, float]]:
        """The records (agent, round, feedback) in a cell and a leaf."""
        return [
            (b, t, like)
            for b in self.groups[model]
            for t, (context, item, like) in enumerate(self.records[b])
            if inside(cell[1], context) and inside(leaf[1], self.features[item])
        ]

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        assert mask is not None
        like, view, n = self.like, self.view, len(self.records[0]) + 1
        self.luck = self.rng.random((1, self.agents, 2))[0]
        self.contexts = obs[0, :, : self.dims].astype(np.float64)
        self.have = mask[0, :, : self.items] > 0
        cells = [
            next(c for c in self.cells[m] if inside(c[1], x)) for m, x in zip(self.follows, self.contexts, strict=True)
        ]
        follower = [a != self.owners[m] for a, m in enumerate(self.follows)]
        peers = [[b for b in self.groups[m] if b != a] for a, m in enumerate(self.follows)]
        copies = getattr(like, "follow", "") == "leaf"
        asks = [
            bool(peers[a])
            and (self.before[m] < like.threshold or (follower[a] and not copies))
            and not (follower[a] and copies)
            for a, m in enumerate(self.follows)
        ]
        width = max(map(len, self.leaves))
        sums, counts = np.zeros((2, self.agents, width))
        names = np.zeros((self.agents, width), np.uint64)
        members: list[list[list[tuple[int, int, float]]]] = []
        for a, m in enumerate(self.follows):
            members.append([self.of_group(m, cells[a], leaf) for leaf in self.leaves[m]])
            for s, found in enumerate(members[a]):
                sums[a, s], counts[a, s] = sum(f for *_, f in found), len(found)
                # A cell without records has no name yet.
                cell = cells[a][2] if any(members[a]) or cells[a][0] == 0 else 0
                names[a, s] = _name(*(np.array([x]) for x in (self.owners[m], cell, self.leaves[m][s][2])))[0]
        told, counted, answered = sums, counts, np.array(asks)
        if any(asks):
            senders = np.array([[int(b in peers[a]) for b in range(self.agents)] for a in range(self.agents)])
            merged = np.array([len(self.groups[m]) for m in self.follows])

            def entered(who: Array, reader: Any) -> Any:
                for a, m in enumerate(self.follows):
                    for s in range(len(self.leaves[m])) if who[0, a] else ():
                        old = self.told.setdefault((reader, int(names[a, s])), set())
                        new = {(b, t) for b, t, _ in members[a][s]} - old
                        old |= new
                        for b, t in new:
                            yield np.array([0]), np.array([b]), np.array([t])

            request = Request(
                np.array([asks]),
                sums[None],
                counts[None].astype(np.int64),
                names[None],
                lambda who: who @ senders,
                merged,
                entered,
            )
            told, counted, answered = (x[0] for x in view.consult(request))
        index = np.full((self.agents, width), -np.inf)
        self.used = np.zeros((self.agents, width))
        possible = np.zeros((self.agents, width), np.bool_)
        for a, m in enumerate(self.follows):
            for s, leaf in enumerate(self.leaves[m]):
                own = [f for b, _, f in members[a][s] if b == self.owners[m]]
                total, q = (told[a, s], counted[a, s]) if answered[a] else (sum(own), len(own))
                if not answered[a] and like.biased:
                    q = counts[a, s]
                q = q if q >= 1 else 0
                self.used[a, s] = q
                possible[a, s] = any(inside(leaf[1], self.features[i]) for i in np.flatnonzero(self.have[a]))
                mean = min(max(total / q, 0), 1) if q else 0
                bonus = like.psi * like.gamma ** leaf[0]
                index[a, s] = mean + math.sqrt(like.xi * math.log(n) / (8 * q)) + bonus if q else np.inf
        cap = 1 + math.sqrt(like.xi * math.log(n) / 8) + like.psi
        if view.channels["selection"].mechanism is not None:
            # As wide as the other's arrays, which the noise depends on.
            chosen = view.select(np.minimum(index, cap)[None], possible[None], np.array([[[cap]]]))[0].tolist()
        else:
            chosen = [self.pick(index[a] == index[a][possible[a]].max(), possible[a], a) for a in range(self.agents)]
        if copies:
            for a, m in enumerate(self.follows):
                if follower[a]:
                    leader = chosen[self.owners[m]]
                    chosen[a] = leader if possible[a, leader] else self.pick(possible[a], possible[a], a)
        self.cell_of, self.leaf_of = cells, chosen
        self.seen.append((index.copy(), list(chosen), np.array(answered)))
        return np.array([[self.item(a, self.leaves[self.follows[a]][chosen[a]]) for a in range(self.agents)]])

    def pick(self, best: Array, possible: Array, a: int) -> int:
        ties = np.flatnonzero(best & possible)
        return int(ties[int(self.luck[a, 0] * len(ties))])

    def code(self, item: int) -> str:
        """The path to an item in the tree, by halving boxes."""
        path = ""
        box: Box = ((0.0, 1.0),) * 5
        for h in range(40):
            low, high = halves(box, [h % 5])
            path, box = (path + "0", low) if inside(low, self.features[item]) else (path + "1", high)
        return path

    def item(self, a: int, leaf: Any) -> int:
        own = [i for i in np.flatnonzero(self.have[a]) if inside(leaf[1], self.features[i])]
        own.sort(key=lambda i: (self.code(int(i)), i))
        return int(own[int(self.luck[a, 1] * len(own))])

    def update(self, obs: Array, action: Array, reward: Array, done: Array) -> None:
        like = self.like
        for a in range(self.agents):
            self.records[a].append((self.contexts[a], int(action[0, a]), float(reward[0, a])))
        n = len(self.records[0])
        power = (partition_rate(self.dims) + like.eta) * (1 if like.bisect else self.dims)
        todo = []
        for m, a in enumerate(self.owners):
            cell, slot = self.cell_of[a], self.leaf_of[a]
            leaf = self.leaves[m][slot]
            own = [f for b, _, f in self.of_group(m, cell, leaf) if b == a]
            self.before[m] = sum(own) / len(own)
            visits = sum(inside(cell[1], context) for context, _, _ in self.records[a])
            todo.append((m, a, cell, slot, leaf, visits))
        for m, a, cell, slot, leaf, visits in todo:
            if visits >= like.rate * 2 ** (power * cell[0]) * math.log(n):
                dims = [cell[0] % self.dims] if like.bisect else list(range(self.dims))
                parts = halves(cell[1], dims)
                width = len(parts)
                self.cells[m].remove(cell)
                self.cells[m] += [(cell[0] + 1, part, cell[2] * width + k) for k, part in enumerate(parts)]
            holds = sum(inside(leaf[1], self.features[i]) for i in np.flatnonzero(self.have[a]))
            need = like.xi * math.log(n) / (8 * (like.psi * like.gamma ** leaf[0]) ** 2)
            if self.used[a, slot] >= need and holds > 1:
                low, high = halves(leaf[1], [leaf[0] % 5])
                self.leaves[m][slot] = (leaf[0] + 1, low, 2 * leaf[2])
                self.leaves[m].append((leaf[0] + 1, high, 2 * leaf[2] + 1))


class Watching(TPriDO):
    """Keeps what it did."""

    def begin(self, view: Any) -> None:
        super().begin(view)
        self.seen: list[Any] = []

    def choose(self, obs: Array, luck: Array) -> Array:
        items = super().choose(obs, luck)
        self.seen.append((self.tree.index.copy(), self.tree.leaf.tolist()))
        return items


class Watched(Watching, TPriDO):
    pass


class WatchedFollowers(Watching, DTPriDO):
    pass


TREE = {"statistics": TreeAggregation(3.0)}
PATH = nx.path_graph(4)
CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any], Any]] = {
    "complete, always shared": (Watched, {"threshold": 2.0}, {"graph": "complete"}, None),
    "star, threshold": (Watched, {"threshold": 0.5}, {"graph": "star", "context_dim": 1}, None),
    "ring, tree noise": (Watched, {"threshold": 2.0}, {"graph": "ring"}, TREE),
    "star, threshold, noise on everything": (
        Watched,
        {"threshold": 0.6},
        {"graph": "star"},
        {**TREE, "counts": TreeAggregation(20.0), "selection": Exponential(40.0)},
    ),
    "followers": (WatchedFollowers, {"threshold": 0.7}, {"graph": PATH}, None),
    "followers, tree noise": (WatchedFollowers, {"threshold": 0.7}, {"graph": "star"}, TREE),
    "followers of leaves": (WatchedFollowers, {"threshold": 0.7, "follow": "leaf"}, {"graph": "star"}, None),
    "growth": (Watched, {"threshold": 0.5}, {"graph": "ring", "growth": [(20, 0.3), (45, 0.3)]}, None),
    "one dimension at a time": (Watched, {"threshold": 0.5, "bisect": True}, {"graph": "ring", "context_dim": 3}, None),
    "biased": (Watched, {"threshold": 0.3, "biased": True}, {"graph": "complete", "family": "bumps"}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_policy_equals_one_that_recounts_raw_history(name: str) -> None:
    kind, parameters, world, privacy = CASES[name]
    env = recommender_v0.population(1, **SMALL | world)
    policy = kind(**QUICK | parameters)
    reference_implementation = Recount(kind(**QUICK | parameters))
    quick = taciturn.simulate(env, policy, seed=3, privacy=privacy, fast=False)
    slow = taciturn.simulate(env, reference_implementation, seed=3, privacy=privacy)
    assert len(policy.seen) == len(reference_implementation.seen) == SMALL["horizon"]
    for (index, leaf), (expected, chosen, _) in zip(policy.seen, reference_implementation.seen, strict=True):
        width = expected.shape[1]
        known = np.isfinite(expected)
        np.testing.assert_allclose(
            np.where(known, index[:, :width], 0), np.where(known, expected, 0), rtol=1e-12, atol=1e-12
        )
        assert leaf == chosen
    for metric, values in quick.metrics.items():
        np.testing.assert_allclose(values, slow.metrics[metric], rtol=1e-12, err_msg=metric)
    if privacy is not None:
        for channel in ("statistics", "counts", "selection"):
            np.testing.assert_array_equal(quick.accountant.messages(channel), slow.accountant.messages(channel))
    # The configuration exercises what it is there for.
    assert max(cell[0] for cells in reference_implementation.cells for cell in cells) >= 2
    assert max(leaf[0] for leaves in reference_implementation.leaves for leaf in leaves) >= 3
    shared = np.array([asked for *_, asked in reference_implementation.seen])
    assert 0 < shared.mean() <= 1
    if parameters["threshold"] < 1:
        assert 0 < shared.mean() < 1
