"""`PeakBayes` that also learns from noisy sums of the other agents' feedbacks."""

import numpy as np

from taciturn.envs.core import integer, number
from taciturn.envs.recommender.rewards import FLOOR, ITEM_DIMS, RADIUS, SPAN
from taciturn.policies.designed.peak_bayes import (
    NUMBERS,
    WEIGHT,
    PeakBayes,
    goal,
    instances,
    played,
    remember,
    reweigh,
)
from taciturn.policies.families.block_sums import BlockSums, k_means, nearest
from taciturn.validation import Bools, Floats, Ints

DRAWS, POOL, STANDING = 48, 3000, 2  # instances that tell pairs apart; random pairs; pairs that stand for a cell
FEEDBACK, CELL = 0.2, 0.05  # assumed variances of a feedback and, under the prior, of a cell's mean reward


class PeakListener(BlockSums, PeakBayes):
    """`PeakBayes` that also learns from sums of the other agents' feedbacks, released block by block (`Blocks`).

    All pairs of a context and an item of the catalogue are divided into cells: a pair belongs to the centre nearest
    to its mean rewards in 48 instances drawn from the prior. (The centres come from random pairs, by k-means, under a
    seed that all agents know.) Each feedback y enters the sum of one cell, as y - p_j, where p_j is the mean of the
    centre. When agents ask, and for what: `BlockSums`.

    An answer tells an agent the sums R_j and estimates of the numbers N_j of the others' feedbacks in the cells j. It
    measures the mean reward of what the others showed there, r_j, with the noise variance

        v_j / N_j^2,    v_j = 0.2 N_j + 2 b^2 n + 0.05 e,

    where n is the number of blocks, b the scale of the noise in sums, and e the variance of the error of N_j. Answers
    add up: with precisions a = N_j^2 / v_j, the measurements of a cell have the mean h_j and the precision a_j. A
    particle predicts the mean r_j of mu over the pairs that the agent itself has shown in the cell, with a further one
    that stands for it: of two random pairs, with weights mu^2, since agents prefer good items. Its likelihood is

        exp(-sum_j (r_j - h_j)^2 / 2 (1/a_j + 2 slack^2 / (m_j + 2))),

    where m_j is the number of own pairs; `slack` accounts for other pairs shown by the others. The likelihood reweights
    the particles and enters their Metropolis steps.

    Args:
        cells: largest number of cells, from 1 to 3,000. There are fewer if otherwise the noise in the sum of a cell and
            a block would have a larger variance than the feedbacks in it.
        first: rounds of the first block, >= 1.
        growth: growth factor of the length of blocks, >= 1.
        slack: >= 0, standard deviation.
        share: share of the epsilon budget for the sums, in (0, 1); the counts get the rest.
        particles, steps: as for `PeakBayes`.
    """

    public_schedule = True

    def __init__(
        self,
        cells: int = 300,
        *,
        first: int = 40,
        growth: float = 1.7,
        slack: float = 0.15,
        share: float = 0.7,
        particles: int = 128,
        steps: int = 60,
    ) -> None:
        super().__init__(particles, steps=steps)
        self.cells = integer("cells", cells, at_least=1, at_most=POOL)
        self.first = integer("first", first, at_least=1)
        self.growth = number("growth", growth, at_least=1, at_most=1e6)
        self.slack = number("slack", slack, at_least=0)
        self.share = number("share", share, above=0, below=1)

    @property
    def num_cells(self) -> int:
        noise, others = 2 * self._scales[0] ** 2, int(self._merged.max()) - 1
        if noise == 0:
            return self.cells
        return max(1, min(self.cells, int(FEEDBACK * others * self._horizon / max(len(self._ends), 1) / noise)))

    @property
    def num_pairs(self) -> int:
        return STANDING * self.num_cells

    def start(self, fresh: Bools) -> None:
        super().start(fresh)
        size, agents = self._shape[:2]
        if fresh.all():
            self._drawn = instances(np.random.default_rng(0).random((DRAWS, NUMBERS)))
            self._centres = np.zeros((size, self.num_cells, DRAWS))
            self._measured = np.zeros((2, size, agents, self.num_cells))  # the sums of a h_j and of a
        self._measured[:, fresh] = 0
        for b in np.flatnonzero(fresh):
            self._centres[b], self._posteriors.pairs[b] = self._divided(self._items[b])

    def _divided(self, items: Floats) -> tuple[Floats, Floats]:
        """The centres [cells, DRAWS] of a catalogue [K, 5], and the pairs that stand for the cells, [7,
        STANDING * cells]."""
        rng = np.random.default_rng(1)
        contexts, shown = rng.random((POOL, 2)), items[rng.integers(len(items), size=POOL)]
        points = self._means(contexts, shown)
        centres = k_means(points, self.num_cells, rng)
        cells = nearest(points, centres)
        order, count = cells.argsort(kind="stable"), np.bincount(cells, minlength=self.num_cells)
        place = count.cumsum() - count + np.arange(STANDING)[:, None] % np.maximum(count, 1)
        chosen = order[np.minimum(place, POOL - 1)]
        chosen[:, count == 0] = nearest(centres[count == 0], points)
        return centres, np.concatenate([contexts - 0.5, shown], 1)[chosen.ravel()].T

    def _means(self, contexts: Floats, items: Floats) -> Floats:
        """mu of pairs [..., 2], [..., 5] in the instances drawn, [..., DRAWS]."""
        one, x, y = self._drawn.T, contexts[..., :1] - 0.5, contexts[..., 1:] - 0.5
        squared = sum((one[WEIGHT + d] * (items[..., d, None] - goal(one, d, x, y))) ** 2 for d in range(ITEM_DIMS))
        result: Floats = FLOOR + SPAN * np.maximum(0.0, 1.0 - np.sqrt(squared) / RADIUS)
        return result

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        points = self._means(contexts, self._items[np.arange(self._shape[0])[:, None], items])
        cells = np.stack([nearest(*one) for one in zip(points, self._centres, strict=True)])
        self.record(cells, likes - np.take_along_axis(self._centres.mean(-1), cells, 1), real)
        super().learn(contexts, items, likes, real)
        g, (b, w) = self._posteriors, np.nonzero(real)
        m = b * self._shape[1] + w
        g.cells[m, g.known[m] - 1] = cells[b, w]
        g.own[m, cells[b, w]] += 1

    def ask(self, asks: Bools) -> None:
        g = self._posteriors
        g.real[...] = False
        super().ask(asks)
        played(remember, g)
        total, precision = self._measured
        mean = self._centres.mean(-1)[:, None] + total / np.maximum(precision, 1e-12)
        g.measured[...] = np.stack([mean, precision]).reshape(g.measured.shape)
        played(reweigh, g)

    def receive(self, b: int, w: int, sums: Floats, noisy: Floats) -> None:
        counts, uncertain = self.counted(b, w, noisy)
        weight = counts / (FEEDBACK * counts + self.noise(b, w)[0] + CELL * uncertain + 1e-12)
        self._measured[:, b, w] += weight * sums, weight * counts
        self._posteriors.real[b, w] = True
