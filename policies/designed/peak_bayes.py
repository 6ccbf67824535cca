"""Agents for `recommender_v0` that know how the instances of its family `peak` are drawn: alone, centralised, and with
the sums of other agents' feedbacks (`PeakListener`)."""

import math
from typing import Any, NamedTuple

import numpy as np

from taciturn.compiling.compiled import Functions
from taciturn.compiling.counter_streams import KEY, PLACE, REPLICA, SIZE, uniform
from taciturn.envs.core import Array, PublicView, integer
from taciturn.envs.recommender.rewards import FLOOR, ITEM_DIMS, RADIUS, SPAN, WEIGHTS
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints

ANGLE, PHASE, WEIGHT, NUMBERS = 0, 5, 10, 15  # where the parts of a particle begin, and its numbers
LABEL = 2 + ITEM_DIMS  # the row of the labels in the data
SINE = tuple((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(6))
SWAPS, FRESH, WIDTH = 0.2, 0.1, 0.5  # shares of two kinds of steps, and the largest width of the third
TINY, TOGETHER = 1e-9, 16  # TOGETHER: likelihoods multiplied before a division
HALVINGS = 10  # of an exponent
FUNCTIONS = Functions()  # of this file; their work is a number of likelihoods


class Posteriors(NamedTuple):
    """M posteriors with their data, and a round of B replicas."""

    agents: int  # with the same posterior
    steps: int
    particles: Floats  # [M, P, 15]: angles / pi, phases, weights
    mass: Floats  # [M, P], adds up to 1
    spare: Floats  # [P, 15]
    known: Ints  # [M], numbers of feedbacks
    data: Floats  # [M, 8, T]: contexts - .5, items, 1 - labels
    squares: Floats  # [6, T]: (x - g(c))^2 in five dimensions, and a proposal
    rows: Ints  # [6]: where these are in `squares`
    chance: Floats  # [T], of the labels
    proposed: Floats  # [T]
    rng: Array  # uint64[M, 1, 8]
    contexts: Floats  # [B, W, 2]
    items: Floats  # [B, 5, K]
    have: Bools  # [B, W, K]
    here: Floats  # [5, K]: an agent's items
    likes: Floats  # [3, K]: their mu under a particle, and the sums of mu and mu^2
    shown: Ints  # [B, W]
    labels: Floats  # [B, W], 0 or 1
    real: Bools  # [B, W]
    # What was received about J cells, each of which R pairs stand for; PeakBayes has none.
    pairs: Floats  # [B, 7, R J]: contexts - .5, items
    apart: Floats  # [6, R J]: as `squares`
    cells: Ints  # [M, T], of the feedbacks
    own: Floats  # [M, J], numbers of own feedbacks in the cells
    parts: Floats  # [3, J]: sums of mu over these, and of mu^3 and mu^2 over the pairs that stand for a cell
    measured: Floats  # [2, M, J]: the mean reward of a cell, and its precision
    energies: Floats  # [M, P], by the last answer
    slack: float


def sine(u: Any) -> Any:
    """sin(pi u) to 1e-7, with the same bits on every processor."""
    v = u - 0.5
    v = 0.5 - abs(v - 2.0 * np.floor(0.5 * v + 0.5))
    z = v * v
    return v * (SINE[0] + z * (SINE[1] + z * (SINE[2] + z * (SINE[3] + z * (SINE[4] + z * SINE[5])))))


def goal(one: Any, d: int, x: Any, y: Any) -> Any:
    """g(c) of a particle in dimension d, for c = (x, y) + .5."""
    angle = one[ANGLE + d]
    return 0.5 + 0.42 * sine(sine(angle + 0.5) * x + sine(angle) * y + one[PHASE + d])


def mean_reward(squared: float) -> float:
    """mu at a squared weighted distance."""
    return FLOOR + SPAN * max(0.0, 1.0 - math.sqrt(squared) / RADIUS)


def decay(x: float) -> float:
    """e^-x for x >= 0, to 1e-10 up to x = 40, with the same bits on every processor."""
    z = min(x, 700.0) / 2**HALVINGS
    y = 1.0 - z * (1.0 - z / 2.0 * (1.0 - z / 3.0 * (1.0 - z / 4.0 * (1.0 - z / 5.0 * (1.0 - z / 6.0)))))
    for _ in range(HALVINGS):
        y *= y
    return y


def choose(g: Any) -> None:
    """Each agent's item with the least squared expected regret for its information."""
    likes, here = g.likes, g.here
    for b in range(g.shown.shape[0]):
        for i in range(g.shown.shape[1]):
            m, many = (b * g.shown.shape[1] + i) // g.agents, 0
            x, y, most = g.contexts[b, i, 0] - 0.5, g.contexts[b, i, 1] - 0.5, 0.0
            for k in range(g.have.shape[2]):
                if g.have[b, i, k]:
                    for d in range(ITEM_DIMS):
                        here[d, many] = g.items[b, d, k]
                    likes[1, many], likes[2, many] = 0.0, 0.0
                    many += 1
            for p in range(g.mass.shape[1]):
                one, mass, best = g.particles[m, p], g.mass[m, p], 0.0
                for k in range(many):
                    likes[0, k] = 0.0
                for d in range(ITEM_DIMS):
                    weight, centre = one[WEIGHT + d], goal(one, d, x, y)
                    for k in range(many):
                        apart = weight * (here[d, k] - centre)
                        likes[0, k] += apart * apart
                for k in range(many):
                    mu = mean_reward(likes[0, k])
                    likes[0, k] = mu
                    likes[1, k] += mass * mu
                    likes[2, k] += mass * mu * mu
                for k in range(many):
                    best = max(best, likes[0, k])
                most += mass * best
            least, many = math.inf, 0
            for k in range(g.have.shape[2]):
                if g.have[b, i, k]:
                    mean = likes[1, many]
                    informs = max(likes[2, many] - mean * mean, 0.0) + TINY
                    ratio = (most - mean) * (most - mean) * mean * (1.0 - mean) / informs
                    many += 1
                    if ratio < least:
                        g.shown[b, i], least = k, ratio


def learn(g: Any) -> None:
    """Weigh the particles by the feedbacks of a round; resample and move them where few have most of the mass."""
    size = g.mass.shape[1]
    for b in range(g.shown.shape[0]):
        for i in range(g.shown.shape[1]):
            if g.real[b, i]:
                m, total = (b * g.shown.shape[1] + i) // g.agents, 0.0
                n, data, x, y = g.known[m], g.data[m], g.contexts[b, i, 0] - 0.5, g.contexts[b, i, 1] - 0.5
                data[0, n], data[1, n], data[LABEL, n] = x, y, 1.0 - g.labels[b, i]
                for d in range(ITEM_DIMS):
                    data[2 + d, n] = g.items[b, d, g.shown[b, i]]
                for p in range(size):
                    squared, one = 0.0, g.particles[m, p]
                    for d in range(ITEM_DIMS):
                        apart = one[WEIGHT + d] * (data[2 + d, n] - goal(one, d, x, y))
                        squared += apart * apart
                    g.mass[m, p] *= abs(data[LABEL, n] - mean_reward(squared))
                    total += g.mass[m, p]
                for p in range(size):
                    g.mass[m, p] /= total
                g.known[m] = n + 1
    for m in range(len(g.mass)):
        squares = 0.0
        for p in range(size):
            squares += g.mass[m, p] * g.mass[m, p]
        if squares * size > 2.0:  # an effective sample size of less than a half
            resample(g, m)
            for p in range(size):
                move(g, m, p)


def resample(g: Any, m: int) -> None:
    """Systematic resampling of the particles of a posterior."""
    size, luck, p, below = g.mass.shape[1], uniform(g.rng[m], 0), 0, g.mass[m, 0]
    for q in range(size):
        while below * size < q + luck and p < size - 1:
            p += 1
            below += g.mass[m, p]
        for d in range(NUMBERS):
            g.spare[q, d] = g.particles[m, p, d]
    for q in range(size):
        g.mass[m, q] = 1.0 / size
        for d in range(NUMBERS):
            g.particles[m, q, d] = g.spare[q, d]


def measure(data: Any, first: int, last: int, d: int, angle: float, phase: float, out: Any) -> None:
    """(x - g(c))^2 in dimension d for the data from `first` to `last`."""
    along, across = sine(angle + 0.5), sine(angle)
    for t in range(first, last):
        apart = data[2 + d, t] - 0.5 - 0.42 * sine(along * data[0, t] + across * data[1, t] + phase)
        out[t] = apart * apart


def judge(squares: Any, rows: Any, w: Any, labels: Any, first: int, last: int, out: Any) -> None:
    """The probabilities of these labels."""
    a, b, c, d, e = squares[rows[0]], squares[rows[1]], squares[rows[2]], squares[rows[3]], squares[rows[4]]
    v, w, x, y, z = w[0] * w[0], w[1] * w[1], w[2] * w[2], w[3] * w[3], w[4] * w[4]
    for t in range(first, last):
        out[t] = abs(labels[t] - mean_reward(v * a[t] + w * b[t] + x * c[t] + y * d[t] + z * e[t]))


def accepted(new: Any, old: Any, first: int, last: int, luck: float) -> bool:
    """Whether luck is below the ratio of two likelihoods. (Logarithms differ between processors.)"""
    ratio, huge = 1.0, 0
    for start in range(first, last, TOGETHER):
        above, below = 1.0, 1.0
        for t in range(start, min(start + TOGETHER, last)):
            above *= new[t]
            below *= old[t]
        ratio *= above / below
        if ratio > 1e100:
            ratio, huge = ratio * 1e-100, huge + 1
        elif ratio < 1e-100:
            ratio, huge = ratio * 1e100, huge - 1
    return huge > 0 or (huge == 0 and luck < ratio)


def energy(g: Any, m: int, w: Any, chance: Any) -> Any:
    """Half the weighted squared distance between the measured means of the cells and their means under a particle with
    weights w, whose squares are in `apart`, and for which the probabilities of the labels are `chance`."""
    cells, rows, s, total = g.measured.shape[2], g.rows, g.apart, 0.0
    if cells == 0:
        return total
    g.parts[...] = 0.0
    for t in range(g.known[m]):
        g.parts[0, g.cells[m, t]] += abs(g.data[m, LABEL, t] - chance[t])
    v, u, x, y, z = w[0] * w[0], w[1] * w[1], w[2] * w[2], w[3] * w[3], w[4] * w[4]
    a, b, c, d, e = s[rows[0]], s[rows[1]], s[rows[2]], s[rows[3]], s[rows[4]]
    for first in range(0, s.shape[1], cells):
        for j in range(cells):
            t = first + j
            mu = mean_reward(v * a[t] + u * b[t] + x * c[t] + y * d[t] + z * e[t])
            g.parts[1, j] += mu * mu * mu
            g.parts[2, j] += mu * mu
    for j in range(cells):
        own, precision = g.own[m, j], g.measured[1, m, j]
        error = (g.parts[0, j] + g.parts[1, j] / g.parts[2, j]) / (own + 1.0) - g.measured[0, m, j]
        g.parts[2, j] = error * error * precision / (1.0 + precision * g.slack * 2.0 / (own + 2.0))
    for j in range(cells):
        total += 0.5 * g.parts[2, j]
    return total


def energy_of(g: Any, m: int, p: int) -> Any:
    """`energy` of a particle."""
    one, pairs = g.particles[m, p], g.pairs[m * g.agents // g.shown.shape[1]]
    for d in range(ITEM_DIMS):
        g.rows[d] = d
        measure(g.data[m], 0, g.known[m], d, one[ANGLE + d], one[PHASE + d], g.squares[d])
        measure(pairs, 0, pairs.shape[1], d, one[ANGLE + d], one[PHASE + d], g.apart[d])
    judge(g.squares, g.rows, one[WEIGHT:], g.data[m, LABEL], 0, g.known[m], g.chance)
    return energy(g, m, one[WEIGHT:], g.chance)


def remember(g: Any) -> None:
    """Store the energies of the posteriors of agents where `real`, before they receive more."""
    for b in range(g.shown.shape[0]):
        for i in range(g.shown.shape[1]):
            if g.real[b, i]:
                m = (b * g.shown.shape[1] + i) // g.agents
                for p in range(g.mass.shape[1]):
                    g.energies[m, p] = energy_of(g, m, p)


def reweigh(g: Any) -> None:
    """Weigh the particles of agents where `real` by what they have newly received; resample and move them."""
    size = g.mass.shape[1]
    for b in range(g.shown.shape[0]):
        for i in range(g.shown.shape[1]):
            if g.real[b, i]:
                m, least, total = (b * g.shown.shape[1] + i) // g.agents, math.inf, 0.0
                for p in range(size):
                    g.energies[m, p] = energy_of(g, m, p) - g.energies[m, p]
                    least = min(least, g.energies[m, p])
                for p in range(size):
                    g.mass[m, p] *= decay(g.energies[m, p] - least)
                    total += g.mass[m, p]
                for p in range(size):
                    g.mass[m, p] /= total
                resample(g, m)
                for p in range(size):
                    move(g, m, p)


def move(g: Any, m: int, p: int) -> None:
    """Metropolis steps of a particle: two weights exchanged, or the angle and phase of a dimension drawn again or
    changed by little. A proposal is judged by a quarter of the data, then by the rest, and then by what was received
    (Christen & Fox 2005)."""
    one, rng, n, data, rows, squares = g.particles[m, p], g.rng[m], g.known[m], g.data[m], g.rows, g.squares
    w, labels, spare = one[WEIGHT:], data[LABEL], ITEM_DIMS
    for d in range(ITEM_DIMS + 1):
        rows[d] = d
    for d in range(ITEM_DIMS):
        measure(data, 0, n, d, one[ANGLE + d], one[PHASE + d], squares[d])
    judge(squares, rows, w, labels, 0, n, g.chance)
    cells, apart, pairs = g.measured.shape[2], g.apart, g.pairs[m * g.agents // g.shown.shape[1]]
    for d in range(ITEM_DIMS):
        measure(pairs, 0, pairs.shape[1], d, one[ANGLE + d], one[PHASE + d], apart[d])
    now, then = energy(g, m, w, g.chance), 0.0
    for _ in range(g.steps):
        kind, d = uniform(rng, 0), int(uniform(rng, 0) * ITEM_DIMS)
        e, angle, phase = (d + 1 + int(uniform(rng, 0) * (ITEM_DIMS - 1))) % ITEM_DIMS, one[ANGLE + d], one[PHASE + d]
        if kind < SWAPS:
            w[d], w[e] = w[e], w[d]
        else:
            rows[d], rows[spare] = rows[spare], rows[d]
            if kind < SWAPS + FRESH:
                angle, phase = uniform(rng, 0), 2.0 * uniform(rng, 0)
            else:
                luck = uniform(rng, 0)
                angle += WIDTH * luck * luck * (uniform(rng, 0) - 0.5)
                phase += WIDTH * luck * luck * (uniform(rng, 0) - 0.5)
        good = True
        for first, last in ((0, n // 4), (n // 4, n)):
            if good:
                if kind >= SWAPS:
                    measure(data, first, last, d, angle, phase, squares[rows[d]])
                judge(squares, rows, w, labels, first, last, g.proposed)
                good = accepted(g.proposed, g.chance, first, last, uniform(rng, 0))
        if good and cells > 0:
            if kind >= SWAPS:
                measure(pairs, 0, pairs.shape[1], d, angle, phase, apart[rows[d]])
            then = energy(g, m, w, g.proposed)
            good = then <= now or uniform(rng, 0) < decay(then - now)
        if good:
            now = then
            for t in range(n):
                g.chance[t] = g.proposed[t]
            one[ANGLE + d], one[PHASE + d] = angle, phase
        elif kind < SWAPS:
            w[d], w[e] = w[e], w[d]
        else:
            rows[d], rows[spare] = rows[spare], rows[d]


def played(function: Any, given: Posteriors) -> None:
    """Call a function of this file."""
    FUNCTIONS.play(function, given, given.mass.size * given.likes.shape[1])


def instances(u: Floats) -> Floats:
    """Particles [..., 15] drawn from the prior, by uniform random numbers."""
    drawn: Floats = u * np.repeat([1.0, 2.0, 1.0], ITEM_DIMS)
    drawn[..., WEIGHT:] = np.array(WEIGHTS)[drawn[..., WEIGHT:].argsort(-1)]
    return drawn


class PeakBayes(ItemPolicy):
    """Information-directed sampling with the posterior of the instance, whose prior is that of the family `peak`.

    An instance has an angle and a phase in each of the items' five dimensions, and an order of the weights. Its
    posterior is a set of weighted particles. A feedback multiplies their mass by its likelihood; when the effective
    sample size falls below a half, they are resampled and moved by Metropolis steps with all data (`move`). In every
    round an agent shows the item that minimises

        (E[max_k mu_k] - E[mu])^2 / I,    I = Var[mu] / (E[mu] (1 - E[mu])),

    with all moments over the particles: squared expected regret for the information of a feedback. Each agent is
    independent and asks no other agent. The reference without communication.

    The family is not public, so no error says that an environment has another one, in which the policy's model is
    wrong.

    Args:
        particles: their number, >= 2.
        steps: Metropolis steps of a particle after each resampling, >= 0.

    Source:
        Resampling and moves: Chopin 2002, "A sequential particle filter method for static models". The rule: Russo &
        Van Roy 2018, "Learning to optimize via information-directed sampling", with variance in place of information.
    """

    public_schedule = True
    slack = 0.0

    def __init__(self, particles: int = 128, *, steps: int = 60) -> None:
        self.particles = integer("particles", particles, at_least=2, at_most=10**5)
        self.steps = integer("steps", steps, at_least=0, at_most=10**6)

    @property
    def num_cells(self) -> int:
        """The number of cells about which an agent receives sums."""
        return 0

    @property
    def num_pairs(self) -> int:
        """The number of pairs that stand for them."""
        return 0

    def begin(self, view: PublicView) -> None:
        fits = getattr(view.params, "context_dim", 2) == 2
        self.require(fits, "the recommender with context_dim=2", view)
        super().begin(view)

    def start(self, fresh: Bools) -> None:
        replicas, agents, items = self._shape
        together = agents if self.centralised else 1
        posteriors, size, longest = replicas * agents // together, self.particles, 64
        if fresh.all():
            self._posteriors = Posteriors(
                agents=together,
                steps=self.steps,
                particles=np.zeros((posteriors, size, NUMBERS)),
                mass=np.zeros((posteriors, size)),
                spare=np.zeros((size, NUMBERS)),
                known=np.zeros(posteriors, np.int64),
                data=np.zeros((posteriors, LABEL + 1, longest)),
                squares=np.zeros((ITEM_DIMS + 1, longest)),
                rows=np.zeros(ITEM_DIMS + 1, np.int64),
                chance=np.zeros(longest),
                proposed=np.zeros(longest),
                rng=np.zeros((posteriors, 1, SIZE), np.uint64),
                contexts=np.zeros((replicas, agents, 2)),
                items=np.zeros((replicas, ITEM_DIMS, items)),
                have=np.zeros(self._shape, np.bool_),
                here=np.zeros((ITEM_DIMS, items)),
                likes=np.zeros((3, items)),
                shown=np.zeros((replicas, agents), np.int64),
                labels=np.zeros((replicas, agents)),
                real=np.zeros((replicas, agents), np.bool_),
                pairs=np.zeros((replicas, LABEL, self.num_pairs)),
                apart=np.zeros((ITEM_DIMS + 1, self.num_pairs)),
                cells=np.zeros((posteriors, longest), np.int64),
                own=np.zeros((posteriors, self.num_cells)),
                parts=np.zeros((3, self.num_cells)),
                measured=np.zeros((2, posteriors, self.num_cells)),
                energies=np.zeros((posteriors, size)),
                slack=self.slack**2,
            )
        g, new = self._posteriors, np.repeat(fresh, posteriors // replicas)
        drawn = instances(self.rng.random(g.particles.shape))
        g.particles[new], g.mass[new], g.known[new] = drawn[new], 1 / size, 0
        g.measured[:, new], g.own[new], g.rng[new, 0] = 0, 0, 0
        g.rng[new, 0, KEY] = self.rng.integers(2**63, size=posteriors, dtype=np.uint64)[new]
        g.rng[new, 0, REPLICA], g.rng[new, 0, PLACE] = np.flatnonzero(new), 4
        g.items[...] = self._items.swapaxes(1, 2)

    def choose(self, contexts: Floats) -> Ints:
        g = self._posteriors
        g.contexts[...], g.have[...] = contexts, self._have
        played(choose, g)
        return g.shown.copy()

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        g = self._posteriors
        if g.known.max() + g.agents > len(g.chance):
            longer = {name: getattr(g, name) for name in ("data", "squares", "chance", "proposed", "cells")}
            more = len(g.chance) + g.agents
            longer = {k: np.pad(v, [(0, 0)] * (v.ndim - 1) + [(0, more)]) for k, v in longer.items()}
            g = self._posteriors = g._replace(**longer)
        g.contexts[...], g.shown[...], g.labels[...], g.real[...] = contexts, items, likes, real
        played(learn, g)


class CentralisedPeakBayes(PeakBayes):
    """`PeakBayes` with one posterior for all agents of a replica, which gets every feedback immediately and exactly.

    It measures the value of other agents' private data; agents with private data could not play it. The reference with
    full information.

    Args:
        particles, steps: as for `PeakBayes`.
    """

    centralised = True
