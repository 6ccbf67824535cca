"""Stronger references than `HoldTheBest`, which has an index with two tuned numbers: the exact Bayes plan of an agent
alone in `gossip_bandit_v0`, the Gittins index of an agent alone in `social_bandit_v0` and `federated_bandit_v0`, and
the knowledge gradient of all agents together in `gossip_bandit_v0`. All of them use uniform priors."""

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np

from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.policies.classic.bandits import ArmPolicy
from taciturn.policies.designed.social import TIES, CentralisedHoldTheBest, Remembering, always
from taciturn.validation import Floats, Ints

Signals = tuple[int, int]  # of an option: ones, zeros
Plan = tuple[float, Signals, bool, bool, bool]  # value, the option to pull, not the one held?, adopt it on 0?, on 1?

GRID = 200  # known arms with which the Gittins index compares
LONGEST = 200  # rounds: the time to compute the indices grows with the third power
LEVELS = 200  # steps from 0 to 1 of the charges by which `stopping_indices` finds an index
LONGEST_RUN = 4000  # pulls: the time and the memory for the tables grow with the second power


@cache
def bayes_plan(ticks: int, expected: float) -> Callable[[Signals, tuple[Signals, ...], int], Plan]:
    """The plan of an agent that holds an option with the signals `held`, and knows the signals of the others (in
    increasing order), at tick n: it maximises the expected time integral of the held option's quality over the first
    `ticks` ticks of a Poisson number with mean `expected`. Then the agent keeps what it holds.

    The expected time between ticks n and n + 1, in mean intervals, is the probability of more than n ticks.
    """
    from scipy.special import gammainc

    weights = gammainc(np.arange(ticks + 1) + 1, expected).tolist()
    weights.append(expected - sum(weights))

    @cache
    def plan(held: Signals, others: tuple[Signals, ...], n: int) -> Plan:
        now = weights[n] * (1 + held[0]) / (2 + sum(held))
        if n > ticks:
            return now, held, False, True, True
        plans: list[Plan] = []
        for k, (ones, zeros) in enumerate((held, *others)):
            low, high = (ones, zeros + 1), (ones + 1, zeros)
            mean = (1 + ones) / (2 + ones + zeros)
            if k == 0:
                after = [plan(one, others, n + 1)[0] for one in (low, high)]
                plans.append((now + (1 - mean) * after[0] + mean * after[1], held, False, True, True))
                continue
            rest = others[: k - 1] + others[k:]
            keep = [plan(held, tuple(sorted((*rest, one))), n + 1)[0] for one in (low, high)]
            adopt = [plan(one, tuple(sorted((*rest, held))), n + 1)[0] for one in (low, high)]
            best = [max(pair) for pair in zip(keep, adopt, strict=True)]
            value = now + (1 - mean) * best[0] + mean * best[1]
            plans.append((value, (ones, zeros), True, adopt[0] > keep[0], adopt[1] > keep[1]))
        return max(plans)

    return plan


class BayesPlan(Remembering):
    """Each agent of `gossip_bandit_v0` acts alone, by the exact Bayes plan for up to four options with uniform priors
    (`bayes_plan`, by backward induction). The reference without communication.

    Args:
        ticks: the number of ticks that it plans; after them it looks one tick ahead.
    """

    def __init__(self, ticks: int = 17) -> None:
        self.ticks = integer("ticks", ticks, at_least=1, at_most=25)

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        self.require(not self._rounds and self._options <= 4, "gossip_bandit with at most 4 options", view)
        self._plan = bayes_plan(self.ticks, self._ends)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        held = self.read_messages(obs).own
        ones, zeros = self.own()
        chosen = [
            self._one(*each)
            for each in zip(held.ravel().tolist(), *(x.reshape(-1, x.shape[-1]) for x in (ones, zeros)), strict=True)
        ]
        option, low, high = (np.reshape(each, held.shape) for each in zip(*chosen, strict=True))
        return self.pull(option, held, (low, high))

    def _one(self, held: int, ones: Ints, zeros: Ints) -> tuple[int, bool, bool]:
        """The option that an agent pulls, and whether it adopts it on 0 and on 1."""
        options = list(zip(ones.tolist(), zeros.tolist(), strict=True))
        others = tuple(sorted(options[:held] + options[held + 1 :]))
        _, pulled, other, low, high = self._plan(options[held], others, min(int(ones.sum() + zeros.sum()), self.ticks))
        if not other:
            return held, low, high
        alike = [k for k, one in enumerate(options) if one == pulled and k != held]
        return alike[self.rng.integers(len(alike))], low, high


@cache
def gittins_indices(rounds: int) -> Floats:
    """The finite-horizon Gittins index of a Bernoulli arm with a uniform prior, float64[left, ones, zeros]: the mean of
    a known arm at which an optimal player of `left` rounds is indifferent between the two (Gittins 1979), to 1/GRID."""
    known, (ones, zeros) = np.arange(1, GRID + 1) / (GRID + 1), np.indices((rounds + 2, rounds + 2))
    mean = ((1 + ones) / (2 + ones + zeros))[..., None]
    value, results = np.zeros((*ones.shape, GRID)), [np.zeros(ones.shape)]
    for left in range(1, rounds + 1):
        grown = np.pad(value, ((0, 1), (0, 1), (0, 0)), mode="edge")
        plays = mean * (1 + grown[1:, :-1]) + (1 - mean) * grown[:-1, 1:]
        results.append((plays >= left * known).sum(-1) / (GRID + 1) + TIES * mean[..., 0])
        value = np.maximum(plays, left * known)
    return np.array(results)


class GittinsIndex(Remembering):
    """Each agent of `social_bandit_v0` acts alone, and adopts the option with the largest Gittins index for the rounds
    that are left (`gittins_indices`). The signal of the option that it holds is still to come, so that option has the
    expected index after that signal. The reference without communication."""

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        fits = self._rounds and self._ends <= LONGEST
        self.require(fits, f"social_bandit with a horizon of at most {LONGEST}", view)
        self._indices = gittins_indices(int(self._ends))

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        held = self.read_messages(obs).own
        ones, zeros = self.own()
        left = np.maximum(int(self._ends) - self._ticks[self.at()] - 1, 1)[..., None]
        indices, mean = self._indices, (1 + ones) / (2 + ones + zeros)
        expected = mean * indices[left, ones + 1, zeros] + (1 - mean) * indices[left, ones, zeros + 1]
        index = np.where(np.arange(self._options) == held[..., None], expected, indices[left, ones, zeros])
        option = np.argmax(index + TIES * self.rng.random(index.shape), -1)
        return self.pull(option, held, always(option))


def stopping_indices(pulls: int, rows: int) -> Array:
    """The finite-horizon Gittins indices, float32[rows (rows + 1) / 2], of Bernoulli arms with a uniform prior that
    have n < `rows` pulls and s rewards of 1, at n (n + 1) / 2 + s, if pulls - n pulls are left; the mean if none is.

    For each charge c a pull costs, backward induction finds the gain V of an optimal player that may stop,

        V(n, s) = max(0, m (1 + V(n + 1, s + 1)) + (1 - m) V(n + 1, s) - c),    m = (1 + s) / (2 + n),

    and the index is the c at which the second term is 0, by linear interpolation.
    """
    charges = np.linspace(0, 1, LEVELS + 1, dtype=np.float32)[:, None]
    counts, ones = np.tril_indices(rows)
    value, result = np.zeros((LEVELS + 1, pulls + 1), np.float32), ((1 + ones) / (2 + counts)).astype(np.float32)
    for n in range(pulls - 1, -1, -1):
        ones = np.arange(n + 1)
        low = value[:, :-1]
        plays = value[:, 1:] - low
        plays += 1
        plays *= ((1 + ones) / (2 + n)).astype(np.float32)
        plays += low
        plays -= charges
        if n < rows:
            above = np.count_nonzero(plays > 0, axis=0)
            last, first = plays[above - 1, ones], plays[above, ones]
            result[n * (n + 1) // 2 :][: n + 1] = (above - 1 + last / (last - first)) / LEVELS
        value = np.maximum(plays, 0, out=plays)
    return result


@lru_cache(maxsize=2)
def tables_of_indices(pulls: int, rows: int) -> tuple[Ints, Ints, Array]:
    """The tables `stopping_indices` for 1 to `pulls` pulls, each about 1.5 times the one before: their numbers of
    pulls, the place of each table, and all tables in one array. A table has the rows that lie below the next one."""
    ends = [1]
    while ends[-1] < pulls:
        ends.append(min(max(ends[-1] + 1, 3 * ends[-1] // 2), pulls))
    tables = [stopping_indices(*each) for each in zip(ends, np.minimum([*ends[1:], rows], rows).tolist(), strict=True)]
    places = np.cumsum([0] + [len(table) for table in tables[:-1]])
    return np.array(ends), places, np.concatenate(tables)


class FiniteHorizonGittins(ArmPolicy):
    """Each agent of `federated_bandit_v0` acts alone, and pulls the arm with the largest Gittins index for a finite
    horizon (Bradt, Johnson & Karlin 1956; Nino-Mora 2011, "Computing a classic index for finite-horizon bandits";
    Lattimore 2016, "Regret analysis of the finite-horizon Gittins index strategy").

    The index of an arm is the largest expected reward per expected pull, over rules that stop,

        max over tau <= m of E[sum of the arm's next tau rewards] / E[tau],    m = 1 + stretch (left - 1),

    under a uniform prior, where `left` slots remain. It is interpolated between tables (`stopping_indices`), by the
    arm's pulls plus m. With stretch = 1 this is the strategy of the papers; it is not optimal for several unknown arms,
    and a longer horizon, which explores a little more, is slightly better. The reference without communication.

    For T <= 4000 slots. The tables take about (T/1000)^2 s and 9 (T/1000)^2 MB; making them takes 28 (T/1000)^2 MB.

    Args:
        stretch: how much longer the horizon of an index is than the run, in [1, 2]; tuned on other instances (5 arms,
            1000 slots).
    """

    fast = ArmPolicy.epochs
    public_schedule = True

    def __init__(self, stretch: float = 1.5) -> None:
        self.stretch = number("stretch", stretch, at_least=1, at_most=2)

    def begin(self, view: PublicView) -> None:
        super().begin(view)
        self.require(self._horizon <= LONGEST_RUN, f"federated_bandit with a horizon of at most {LONGEST_RUN}", view)
        pulls = math.ceil(self.stretch * self._horizon) + 2
        self._ends, self._places, self._indices = tables_of_indices(pulls, self._horizon + 1)
        self._below = np.searchsorted(self._ends, np.arange(pulls), "right") - 1

    def choose(self, counts: Array, means: Floats) -> Ints:
        n, ones = counts.astype(np.int64), np.rint(counts * means).astype(np.int64)
        left = np.maximum(self._horizon - n.sum(-1, keepdims=True), 1)
        end = n + 1 + self.stretch * (left - 1)
        table, place = self._below[end.astype(np.int64)], n * (n + 1) // 2 + ones
        share = (end - self._ends[table]) / (self._ends[table + 1] - self._ends[table])
        below, above = (self._indices[self._places[one] + place] for one in (table, table + 1))
        return (below + share * (above - below)).argmax(-1)


def knowledge_gradient(mean: Floats, n: Array, signals: float) -> Floats:
    """By how much the best of the options' means [..., K] is expected to rise through further signals of one option, a
    share `signals` of the n + 2 that it has (its prior counts as two), in a normal approximation and per signal
    (Frazier, Powell & Dayanik 2008)."""
    from scipy.special import ndtr

    ordered = np.sort(mean, -1)
    rival = np.where(mean == ordered[..., -1:], ordered[..., -2:-1], ordered[..., -1:])
    spread = np.sqrt(mean * (1 - mean) / (3 + n) * signals / (1 + signals))
    z = -np.abs(mean - rival) / spread
    gradient: Floats = spread * (np.exp(-z * z / 2) / math.sqrt(2 * math.pi) + z * ndtr(z)) / (signals * (n + 2))
    return gradient


class CentralisedKnowledgeGradient(CentralisedHoldTheBest):
    """Centralised: all agents of `gossip_bandit_v0` use the signals of all, immediately and without privacy.

    An agent pulls the option with the largest

        E[quality held next] + c (1 - t/T)^f KG_k,

    where it adopts the pulled option if that option's mean is then larger than that of the option held, KG_k is the
    knowledge gradient of all agents' signals, and t of T expected ticks of all agents have passed. A reference for full
    information. It is centralised, so it has no rank.

    Args:
        weight: c, >= 0.
        fading: f, >= 0; 0: the weight lasts.
        signals: further signals that the gradient counts, as a share of those known, > 0.
    """

    def __init__(self, weight: float = 20.0, fading: float = 0.5, signals: float = 8.0) -> None:
        super().__init__()
        self.weight = number("weight", weight, at_least=0, at_most=1e6)
        self.fading = number("fading", fading, at_least=0, at_most=1000)
        self.signals = number("signals", signals, above=0, at_most=1e6)

    def prepare(self, view: PublicView) -> None:
        super().prepare(view)
        self.require(not self._rounds, "gossip_bandit", view)

    def act(self, obs: Array, mask: Array | None = None) -> Array:
        held = self.read_messages(obs).own
        ones, zeros = self.known(held)
        n, own = ones + zeros, np.arange(self._options) == held[..., None]
        mean = (1 + ones) / (2 + n)
        holding = (mean * own).sum(-1, keepdims=True)
        low, high = (1 + ones) / (3 + n), (2 + ones) / (3 + n)  # the mean after signal 0, and after 1
        gain = (1 - mean) * np.maximum(low, holding) + mean * np.maximum(high, holding)
        passed = self._ticks.sum(1)[:, None, None] / (self._ends * self._shape[1])
        left = np.maximum(1 - passed, 0) ** self.fading
        index = np.where(own, holding, gain) + self.weight * left * knowledge_gradient(mean, n, self.signals)
        option = np.argmax(index + TIES * self.rng.random(index.shape), -1)
        adopts = (np.take_along_axis(x, option[..., None], -1) > holding for x in (low, high))
        on_zero, on_one = (each[..., 0] for each in adopts)
        return self.pull(option, held, (on_zero, on_one))
