"""Agents for `recommender_v0` that know how the instances of its family `peak` are drawn: alone, and centralised."""

import math
from typing import Any, NamedTuple

import numpy as np

from taciturn.compiling.compiled import COMPILE_FROM, function_of, may_compile
from taciturn.compiling.counter_streams import KEY, PLACE, REPLICA, SIZE, uniform
from taciturn.envs.core import Array, PublicView, integer
from taciturn.envs.recommender.rewards import FLOOR, ITEM_DIMS, RADIUS, SPAN, WEIGHTS
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints

TURN, PHASE, WEIGHT, SIZE_OF_ONE = 0, 5, 10, 15  # where a particle's parts begin, and its numbers
LABEL = 2 + ITEM_DIMS  # the row of the labels in the data
SINE = tuple((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(6))
SEEN = [0]  # likelihoods computed in this process, in a shared list
ENTRIES: dict[Any, Any] = {}  # compiled functions


class Minds(NamedTuple):
    """The posteriors [M, ...] and data of M minds, and a round of B replicas with W agents."""

    particles: Floats  # [M, P, 15]: angles / pi, phases, and weights
    mass: Floats  # [M, P]
    spare: Floats  # [P, 15]
    known: Ints  # [M], numbers of feedbacks
    data: Floats  # [M, 8, T]: context - .5, item, 1 - label
    squares: Floats  # [6, T]: squared distances in each dimension, and a proposal
    rows: Ints  # [6]: where they are in `squares`
    chance: Floats  # [T], of the labels
    proposed: Floats  # [T]
    rng: Array  # uint64[M, 1, 8]
    agents: int  # in a mind
    votes: int
    bonus: float
    steps: int
    least: float
    fresh: float
    swaps: float
    jump: float
    jitter: float
    contexts: Floats  # [B, W, 2]
    items: Floats  # [B, 5, K]
    have: Bools  # [B, W, K]
    likes: Floats  # [K]
    spread: Floats  # [K]
    shown: Ints  # [B, W]
    labels: Floats  # [B, W]
    real: Bools  # [B, W]


def sine(u: float) -> float:
    """sin(pi u), to 1e-7 and with the same bits on every processor."""
    v = u - 0.5
    v = 0.5 - abs(v - 2.0 * np.floor(0.5 * v + 0.5))
    z = v * v
    return v * (SINE[0] + z * (SINE[1] + z * (SINE[2] + z * (SINE[3] + z * (SINE[4] + z * SINE[5])))))


def mean_reward(squared: float) -> float:
    """mu at a squared weighted distance."""
    return FLOOR + SPAN * max(0.0, 1.0 - math.sqrt(squared) / RADIUS)


def measure(data: Any, n: int, d: int, turn: float, phase: float, out: Any) -> None:
    """The squared distances (x - g(c))^2 in dimension d of all n data."""
    along, across = sine(turn + 0.5), sine(turn)
    for t in range(n):
        apart = data[2 + d, t] - 0.5 - 0.42 * sine(along * data[0, t] + across * data[1, t] + phase)
        out[t] = apart * apart


def judge(squares: Any, rows: Any, w: Any, labels: Any, n: int, out: Any) -> None:
    """The probabilities of all n labels."""
    a, b, c, d, e = squares[rows[0]], squares[rows[1]], squares[rows[2]], squares[rows[3]], squares[rows[4]]
    v0, v1, v2, v3, v4 = w[0] * w[0], w[1] * w[1], w[2] * w[2], w[3] * w[3], w[4] * w[4]
    for t in range(n):
        squared = v0 * a[t] + v1 * b[t] + v2 * c[t] + v3 * d[t] + v4 * e[t]
        out[t] = abs(labels[t] - mean_reward(squared))


def goal(one: Any, d: int, x: float, y: float) -> float:
    """g(c) of a particle in dimension d, for c = (x, y) + .5."""
    along, across = sine(one[TURN + d] + 0.5), sine(one[TURN + d])
    return 0.5 + 0.42 * sine(along * x + across * y + one[PHASE + d])


def choose(g: Any) -> None:
    """Each agent's item with the highest mean of some draws, plus a bonus for their standard deviation."""
    for b in range(g.shown.shape[0]):
        for i in range(g.shown.shape[1]):
            m = (b * g.shown.shape[1] + i) // g.agents
            x, y, items = g.contexts[b, i, 0] - 0.5, g.contexts[b, i, 1] - 0.5, g.items[b]
            likes, spread = g.likes, g.spread
            for k in range(len(likes)):
                likes[k], spread[k] = 0.0, 0.0
            luck, p, below = uniform(g.rng[m], 0), 0, g.mass[m, 0]
            for v in range(g.votes):
                while below * g.votes < v + luck and p < g.mass.shape[1] - 1:
                    p += 1
                    below += g.mass[m, p]
                one = g.particles[m, p]
                g0, g1, g2, g3, g4 = (
                    goal(one, 0, x, y), goal(one, 1, x, y), goal(one, 2, x, y), goal(one, 3, x, y), goal(one, 4, x, y)
                )  # fmt: skip
                w0, w1, w2, w3, w4 = one[10], one[11], one[12], one[13], one[14]
                for k in range(len(likes)):
                    a, c, d = w0 * (items[0, k] - g0), w1 * (items[1, k] - g1), w2 * (items[2, k] - g2)
                    e, f = w3 * (items[3, k] - g3), w4 * (items[4, k] - g4)
                    mu = mean_reward(a * a + c * c + d * d + e * e + f * f)
                    likes[k] += mu
                    spread[k] += mu * mu
            best, top = 0, -1.0
            for k in range(len(likes)):
                mean = likes[k] / g.votes
                index = mean + g.bonus * math.sqrt(max(0.0, spread[k] / g.votes - mean * mean))
                if g.have[b, i, k] and index > top:
                    best, top = k, index
            g.shown[b, i] = best


def learn(g: Any) -> None:
    """Weigh the particles by the feedbacks of a round, and renew those of minds where few count."""
    for b in range(g.shown.shape[0]):
        for i in range(g.shown.shape[1]):
            if g.real[b, i]:
                m = (b * g.shown.shape[1] + i) // g.agents
                x, y, n, data, total = g.contexts[b, i, 0] - 0.5, g.contexts[b, i, 1] - 0.5, g.known[m], g.data[m], 0.0
                data[0, n], data[1, n], data[LABEL, n] = x, y, 1.0 - g.labels[b, i]
                for d in range(ITEM_DIMS):
                    data[2 + d, n] = g.items[b, d, g.shown[b, i]]
                for p in range(g.mass.shape[1]):
                    squared, one = 0.0, g.particles[m, p]
                    for d in range(ITEM_DIMS):
                        apart = one[WEIGHT + d] * (data[2 + d, n] - goal(one, d, x, y))
                        squared += apart * apart
                    g.mass[m, p] *= abs(data[LABEL, n] - mean_reward(squared))
                    total += g.mass[m, p]
                for p in range(g.mass.shape[1]):
                    g.mass[m, p] /= total
                g.known[m] = n + 1
    for m in range(len(g.mass)):
        doubled = 0.0
        for p in range(g.mass.shape[1]):
            doubled += g.mass[m, p] * g.mass[m, p]
        if doubled * g.least * g.mass.shape[1] > 1.0:
            resample(g, m)
            for p in range(g.mass.shape[1]):
                move(g, m, p)


def resample(g: Any, m: int) -> None:
    """Systematic resampling."""
    size, luck, p = g.mass.shape[1], uniform(g.rng[m], 0), 0
    below = g.mass[m, 0]
    for q in range(size):
        while below * size < q + luck and p < size - 1:
            p += 1
            below += g.mass[m, p]
        for d in range(SIZE_OF_ONE):
            g.spare[q, d] = g.particles[m, p, d]
    for q in range(size):
        g.mass[m, q] = 1.0 / size
        for d in range(SIZE_OF_ONE):
            g.particles[m, q, d] = g.spare[q, d]


def move(g: Any, m: int, p: int) -> None:
    """Steps of Metropolis: weights exchanged, or the angle and phase of a dimension drawn anew or moved by a part of
    the difference of two particles."""
    one, rng, n, data, size, rows = g.particles[m, p], g.rng[m], g.known[m], g.data[m], g.mass.shape[1], g.rows
    for d in range(ITEM_DIMS):
        rows[d] = d
        measure(data, n, d, one[TURN + d], one[PHASE + d], g.squares[d])
    rows[ITEM_DIMS] = ITEM_DIMS
    w, spare = one[WEIGHT:], ITEM_DIMS
    judge(g.squares, rows, w, data[LABEL], n, g.chance)
    for _ in range(g.steps):
        kind, d = uniform(rng, 0), int(uniform(rng, 0) * ITEM_DIMS)
        e, turn, phase = (d + 1 + int(uniform(rng, 0) * (ITEM_DIMS - 1))) % ITEM_DIMS, one[TURN + d], one[PHASE + d]
        swaps = kind < g.swaps
        if swaps:
            w[d], w[e] = w[e], w[d]
        else:
            if kind < g.swaps + g.fresh:
                turn, phase = uniform(rng, 0), 2.0 * uniform(rng, 0)
            else:
                other, another = (
                    g.particles[m, int(uniform(rng, 0) * size)],
                    g.particles[m, int(uniform(rng, 0) * size)],
                )
                part = g.jump * uniform(rng, 0)
                turn += part * (other[TURN + d] - another[TURN + d]) + g.jitter * (uniform(rng, 0) - 0.5)
                phase += part * (other[PHASE + d] - another[PHASE + d]) + g.jitter * (uniform(rng, 0) - 0.5)
            rows[d], rows[spare] = rows[spare], rows[d]
            measure(data, n, d, turn, phase, g.squares[rows[d]])
        judge(g.squares, rows, w, data[LABEL], n, g.proposed)
        if accepted(g.proposed, g.chance, n, uniform(rng, 0)):
            for t in range(n):
                g.chance[t] = g.proposed[t]
            one[TURN + d], one[PHASE + d] = turn, phase
        elif swaps:
            w[d], w[e] = w[e], w[d]
        else:
            rows[d], rows[spare] = rows[spare], rows[d]


def accepted(new: Any, old: Any, n: int, luck: float) -> bool:
    """Whether luck is below the ratio of two likelihoods. (Logarithms differ between processors.)"""
    ratio, huge = 1.0, 0
    for t in range(n):
        ratio *= new[t] / old[t]
        if ratio > 1e100:
            ratio, huge = ratio * 1e-100, huge + 1
        elif ratio < 1e-100:
            ratio, huge = ratio * 1e100, huge - 1
    return huge > 0 or (huge == 0 and luck < ratio)


def played(function: Any, given: Any, work: int) -> None:
    """Call a function of this file, compiled after enough work in this process."""
    SEEN[0] += work
    if SEEN[0] < COMPILE_FROM or not may_compile():
        function(given)
        return
    if function not in ENTRIES:
        ENTRIES[function] = function_of(function, given)
    ENTRIES[function](given)


class PeakBayes(ItemPolicy):
    """x"""

    centralised = False
    public_schedule = True

    def __init__(
        self, particles: int = 128, *, votes: int = 3, steps: int = 30, bonus: float = 0.0, least: float = 0.5,
        fresh: float = 0.1, swaps: float = 0.2, jump: float = 1.5, jitter: float = 0.02,
    ) -> None:  # fmt: skip
        self.particles = integer("particles", particles, at_least=2, at_most=10**5)
        self.votes = integer("votes", votes, at_least=1)
        self.steps = integer("steps", steps, at_least=0)
        self.bonus, self.least, self.fresh, self.swaps = bonus, least, fresh, swaps
        self.jump, self.jitter = jump, jitter

    def begin(self, view: PublicView) -> None:
        super().begin(view)

    def start(self, fresh: Bools) -> None:
        replicas, agents, items = self._shape
        per = agents if self.centralised else 1
        minds = replicas * agents // per
        again = np.repeat(fresh, minds // replicas)
        if fresh.all():
            size, longest, ints = self.particles, 64, np.int64
            self._minds = Minds(
                np.zeros((minds, size, SIZE_OF_ONE)), np.zeros((minds, size)), np.zeros((size, SIZE_OF_ONE)),
                np.zeros(minds, ints), np.zeros((minds, LABEL + 1, longest)), np.zeros((ITEM_DIMS + 1, longest)),
                np.zeros(ITEM_DIMS + 1, ints), np.zeros(longest), np.zeros(longest), np.zeros((minds, 1, SIZE), np.uint64),
                per, self.votes, self.bonus, self.steps, self.least, self.fresh, self.swaps, self.jump, self.jitter,
                np.zeros((replicas, agents, 2)), np.zeros((replicas, ITEM_DIMS, items)),
                np.zeros(self._shape, np.bool_), np.zeros(items), np.zeros(items), np.zeros((replicas, agents), ints),
                np.zeros((replicas, agents)), np.zeros((replicas, agents), np.bool_),
            )  # fmt: skip
        g = self._minds
        drawn = self.rng.random(g.particles.shape) * np.repeat([1.0, 2.0, 1.0], ITEM_DIMS)
        drawn[..., WEIGHT:] = np.array(WEIGHTS)[drawn[..., WEIGHT:].argsort(-1)]
        keys = self.rng.integers(2**63, size=minds, dtype=np.uint64)
        g.particles[again], g.mass[again], g.known[again] = drawn[again], 1 / self.particles, 0
        g.rng[again, 0, KEY], g.rng[:, 0, REPLICA], g.rng[again, 0, PLACE] = keys[again], np.arange(minds), 4
        g.items[...] = self._items.swapaxes(1, 2)

    def choose(self, contexts: Floats) -> Ints:
        g = self._minds
        g.contexts[...], g.have[...] = contexts, self._have
        played(choose, g, self.votes * g.have.size)
        return g.shown.copy()

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        g = self._minds
        if g.known.max() + g.agents > len(g.chance):
            more = len(g.chance) + g.agents
            longer = {
                name: np.pad(getattr(g, name), [(0, 0)] * (getattr(g, name).ndim - 1) + [(0, more)])
                for name in ("data", "squares", "chance", "proposed")
            }
            g = self._minds = g._replace(**longer)
        g.contexts[...], g.shown[...], g.labels[...], g.real[...] = contexts, items, likes, real
        played(learn, g, g.real.size * self.particles)


class CentralisedPeakBayes(PeakBayes):
    """y"""

    centralised = True
