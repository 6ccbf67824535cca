"""Policies of the recommender that learn from sums of other agents' feedbacks, released block by block."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView
from taciturn.envs.recommender.sharing import Reader, Request
from taciturn.graph import Graph
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.privacy.mechanisms import Blocks, Mechanism
from taciturn.validation import Bools, Floats, Ints

PASSES = 10  # of Lloyd's algorithm


class BlockSums(ItemPolicy):
    """Base of policies that divide all pairs of a context and an item into cells, and ask for the sums and counts of
    all cells over their group.

    First after `first` rounds, and then after blocks that grow by the factor `growth`, every agent asks the third
    party. Groups are as in `DTPriDO`: an agent belongs to the member of a greedy dominating set that it follows. So,
    given the shown items, each feedback enters one stream and one block of it. Schedule and subject of all requests are
    public. An agent's shown items also follow from its own feedbacks and reveal them; no epsilon of `statistics` and
    `counts` bounds this.

    A subclass calls `record` for each round, and gets in `receive` what its group's other members did since the last
    answer: the answer's increment minus the agent's own feedbacks, which it knows exactly.

    Attributes, of a run: `scales`, the scales of the noise in a block's sums and counts; `cell` int64[B, W, T], the
    cell of each round's feedback, -1 for none; `since` int64[B, W], the rounds played by the last answer; `blocks`
    int64[B, W], the blocks released since then; `merged` int64[W], the size of each agent's group.
    """

    first: int
    growth: float
    share: float

    @property
    def num_cells(self) -> int:
        raise NotImplementedError

    def receive(self, b: int, w: int, sums: Floats, noisy: Floats) -> None:
        """Learn from the sums and noisy counts [cells] of the others since the last answer to agent w of replica b."""
        raise NotImplementedError

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Mechanism]:
        """`Blocks` on both channels, at levels share * budget and (1 - share) * budget: every feedback enters one
        stream on each. Together they also hide whether a feedback was given at all."""
        return {"statistics": Blocks(self.share * epsilon_budget), "counts": Blocks((1 - self.share) * epsilon_budget)}

    def organise(self) -> None:
        """Form the groups, and set the rounds in which they ask."""
        scales = []
        for name in ("statistics", "counts"):
            mechanism: Any = self._view.channels[name].mechanism
            known = mechanism is not None and mechanism.kind != "none"
            # At any time, the difference of two sums of a tree has noise from at most as many blocks as the tree has
            # levels.
            many = mechanism.levels(self._horizon) if known and mechanism.kind == "tree" else 1
            scales.append(float(mechanism.block_scale(self._horizon, 1.0)) * many**0.5 if known else 0.0)
        self._scales = scales
        members, follows = dominating_set(self._network)
        self._group = follows
        self._of_group = follows == np.arange(len(members))[:, None]  # bool[G, W]
        self._merged = self._of_group.sum(1)[follows]
        ends, length = [self.first], float(self.first)
        while ends[-1] < self._horizon:
            length *= self.growth
            ends.append(ends[-1] + max(1, round(length)))
        self._ends = np.array(ends[:-1], np.int64)

    def start(self, fresh: Bools) -> None:
        if fresh.all():
            self.organise()
        super().start(fresh)
        size, agents = self._shape[:2]
        if fresh.all():
            shape = (size, agents, self.num_cells)
            self._sums, self._counts = np.zeros(shape), np.zeros(shape, np.int64)  # over each agent's feedbacks
            self._received = np.zeros((2, *shape))  # the last answer, sums and counts
            self._own = np.zeros((2, *shape))  # the agent's own part of it
            self._since = np.zeros((size, agents), np.int64)
            self._blocks = np.zeros((size, agents), np.int64)
            self._cell = np.full((size, agents, self._horizon), -1)
            self._received_at: dict[Reader, Ints] = {}
        for values in (self._sums, self._counts, self._since, self._blocks):
            values[fresh] = 0
        self._received[:, fresh], self._own[:, fresh], self._cell[fresh] = 0, 0, -1
        for rounds in self._received_at.values():
            rounds[fresh] = 0

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        time = obs[:, 0, self._layout.slices["time"].start].astype(np.int64)
        self.begin_anew(time)
        asks = np.isin(time, self._ends) & ~self._over
        if asks.any():
            self.ask(asks)
        return super().act(obs, mask)

    def record(self, cells: Ints, values: Floats, real: Bools) -> None:
        """Add this round's feedbacks, as `values` [B, W] in [-1, 1], to the sums of `cells` int64[B, W]."""
        b, w = np.nonzero(real)
        self._sums[b, w, cells[b, w]] += values[b, w]
        self._counts[b, w, cells[b, w]] += 1
        self._cell[b, w, self._rounds[b]] = cells[b, w]

    def ask(self, asks: Bools) -> None:
        """Ask for the sums and counts of the groups in the replicas `asks` bool[B], and learn from the answers."""
        size, agents, cells = self._sums.shape
        asked = np.repeat(asks[:, None], agents, 1)
        sums, counts = (
            np.einsum("gw,bwj->bgj", self._of_group.astype(own.dtype), own)[:, self._group]
            for own in (self._sums, self._counts)
        )
        names = (self._group[:, None] * cells + np.arange(cells)).astype(np.uint64)
        streams = np.broadcast_to(names, (size, agents, cells))
        request = Request(asked, sums, counts, streams, self._messages, self._merged, self._entered)
        received_sums, counted, answered = self._view.consult(request)
        self._blocks += asked
        for b, w in zip(*np.nonzero(answered & (self._merged > 1)), strict=True):
            heard, own = (
                np.stack([received_sums[b, w], counted[b, w]]),
                np.stack([self._sums[b, w], self._counts[b, w]]),
            )
            others = (heard - self._received[:, b, w]) - (own - self._own[:, b, w])
            self.receive(int(b), int(w), *others)
            self._received[:, b, w], self._own[:, b, w] = heard, own
        self._since[answered], self._blocks[answered] = np.repeat(self._rounds[:, None], agents, 1)[answered], 0

    def noise(self, b: int, w: int) -> tuple[float, float]:
        """The variances of the noise in the sums and in the counts that `receive` gets."""
        of_sums, of_counts = (2 * scale**2 * int(self._blocks[b, w]) for scale in self._scales)
        return of_sums, of_counts

    def counted(self, b: int, w: int, noisy: Floats) -> tuple[Floats, float]:
        """Estimates of the others' numbers of feedbacks [cells], and the variance of their errors."""
        expected = (self._merged[w] - 1) * int(self._rounds[b] - self._since[b, w]) / len(noisy)
        return shrunk(noisy, expected, self.noise(b, w)[1])

    def _messages(self, who: Bools) -> Ints:
        """The number of messages that each agent sends for answers to `who` bool[B, W]: one for each other asking
        member."""
        asked = who.astype(np.int64)
        result: Ints = (asked @ self._of_group.T.astype(np.int64))[:, self._group] - asked
        return result

    def _entered(self, who: Bools, reader: Reader) -> Iterator[tuple[Array, Array, Array]]:
        """The feedbacks that answers to `who` bool[B, W] release to `reader` for the first time."""
        seen_at = self._received_at.setdefault(reader, np.zeros((self._shape[0], len(self._of_group)), np.int64))
        for b, g in zip(*np.nonzero(who @ self._of_group.T), strict=True):
            since, now = seen_at[b, g], self._rounds[b]
            for agent in np.flatnonzero(self._of_group[g]):
                when = since + np.flatnonzero(self._cell[b, agent, since:now] >= 0)
                yield np.full(when.size, b), np.full(when.size, agent), when
            seen_at[b, g] = now


def dominating_set(network: Graph) -> tuple[Ints, Ints]:
    """A greedy dominating set, int64[G], and for each agent the member that it follows, as an index into the set,
    int64[W].

    The next member is the first agent that dominates the most agents not yet dominated. An agent follows the earliest
    member among its neighbours.
    """
    gain = network.degrees + 1  # number of agents not yet dominated that each agent would dominate
    members: list[int] = []
    follows = np.full(network.num_nodes, -1)
    while gain.any():
        best = int(gain.argmax())
        near = np.append(network.neighbours(best), best)
        new = near[follows[near] < 0]
        follows[new] = len(members)
        members.append(best)
        gain[new] -= 1
        for one in new:
            gain[network.neighbours(one)] -= 1
    follows[members] = np.arange(len(members))
    return np.array(members, np.int64), follows.astype(np.int64)


def shrunk(noisy: Floats, mean: float, noise: float) -> tuple[Floats, float]:
    """Numbers >= 0 with unbiased estimates `noisy` [n] of variance `noise`, shrunk towards their known mean: the best
    linear estimates if the numbers' own variance is the variance of the estimates minus the noise. The numbers' own
    variance is capped at mean^2 (n - 1), its value if one of them were n times the mean and the others 0.

    Returns:
        The numbers [n], and the variance of their errors.
    """
    if noise == 0:
        return np.maximum(noisy, 0), 0.0
    own = max(0.0, float(((noisy - mean) ** 2).mean()) - noise)
    own = min(own, mean**2 * (len(noisy) - 1))
    trust = own / (own + noise)
    return np.maximum(mean + (noisy - mean) * trust, 0), trust * noise


def nearest(points: Floats, centres: Floats) -> Ints:
    """The index of the centre [k, m] nearest to each of the points [..., m]."""
    result: Ints = ((centres**2).sum(1) - 2 * points @ centres.T).argmin(-1)
    return result


def k_means(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Centres [k, m] of points [n, m], n >= k, by `PASSES` passes of Lloyd's algorithm from random points; a centre
    without any nearest point stays."""
    centres = points[rng.choice(len(points), k, replace=False)]
    for _ in range(PASSES):
        cells = nearest(points, centres)
        counts = np.bincount(cells, minlength=k)
        sums = np.zeros_like(centres)
        np.add.at(sums, cells, points)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres
