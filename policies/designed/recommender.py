"""Agents for `recommender_v0` with a logistic model of contexts and items: independent, centralised, and with sums
released block by block."""

import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.envs.core import Array, PublicView, integer, number
from taciturn.envs.recommender.rewards import ITEM_DIMS
from taciturn.envs.recommender.sharing import Reader, Request
from taciturn.policies.base import Learner, Random
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.policies.reference.t_prido import dominating_set
from taciturn.privacy.mechanisms import Blocks, Mechanism
from taciturn.validation import Bools, Floats, Ints

LEAST = 0.02  # lower limit for the variance of a feedback, so no single one overturns the estimates
MOST_WAVES = 16
RIDGE, NEWTON = 0.5, 8
AGENTS = 8  # agents in a practice environment: rows per round
PAIRS = 6000
PASSES = 10


class LogisticBandit(ItemPolicy, Learner):
    """Thompson sampling with a logistic model, linear and quadratic in the item, and a prior fitted in practice
    environments.

    For a context c and an item x, with z = 2x - 1 and waves b(c), the mean reward is modelled as

        mu = s(f(c, x)' w),    s(u) = 1 / (1 + e^-u),    f(c, x) = ((1, z) (x) b(c), z_1^2, ..., z_5^2),

    where (x) is the outer product. The waves are b(c) = prod_i cos(pi k_i c_i) for whole k_i >= 0 with a sum of at most
    `degree`; if there are more than 16, the 16 with the lowest sums. So the log-odds fall with a weighted squared
    distance of the item from an ideal point that moves smoothly with the context, or are bilinear.

    The prior of w is Gaussian, with the mean and covariance of w over practice environments; in each, w is fitted to
    the mean rewards of random items by logistic regression with a ridge. A run then learns by the extended Kalman
    filter: after a feedback y at f, with p = s(f'm) and h = max(p (1 - p), 0.02),

        k = S f / (1 + h f'S f),    m <- m + k (y - p),    S <- S - h k f'S.

    In every round an agent draws w from N(m, explore^2 S), and shows its item with the highest f'w. Each agent is
    independent and asks no other agent.

    Args:
        degree: largest sum of wave numbers, >= 0.
        explore: factor on the posterior's standard deviation, >= 0.
        worlds: number of practice environments, >= 2.
        rounds: random rounds played in each of them, by eight agents; >= 1.
        seed: seed of the practice.

    Practice environments do not show the instance of the run. With a mechanism on `selection`, shown items are charged
    as infinite.

    Source:
        Bayesian logistic regression with a Gaussian approximation, for Thompson sampling: Chapelle & Li 2011, "An
        empirical evaluation of Thompson sampling", section 3; a prior from practice: Harrison, Sharma & Pavone 2018.
    """

    def __init__(
        self, degree: int = 2, *, explore: float = 0.4, worlds: int = 200, rounds: int = 100, seed: int = 0
    ) -> None:
        self.degree = integer("degree", degree, at_least=0, at_most=8)
        self.explore = number("explore", explore, at_least=0)
        self.worlds = integer("worlds", worlds, at_least=2)
        self.rounds = integer("rounds", rounds, at_least=1)
        self.seed = integer("seed", seed, at_least=0)
        self._learned: tuple[Floats, Floats, Floats] | None = None

    def __getstate__(self) -> dict[str, Any]:
        kept = {"role", "_learned"}
        return {k: v for k, v in super().__getstate__().items() if not k.startswith("_") or k in kept}

    # Practice.

    def fit(self, view: PublicView) -> None:
        """Find the prior: its mean [m], its covariance [m, m], and features of random pairs [n, m]."""
        world = view.practice(self.worlds, num_agents=AGENTS, graph="none", growth=(), horizon=self.rounds)
        world.reset(seed=self.seed)
        player, result, likes = Random(), [], []
        player.reset(world, world.stream("policy"))
        where, replica = world.roles[player.role].layout.slices["context"], np.arange(self.worlds)[:, None]
        items, waves = world.view().catalogue()[0], self.waves(view.params.context_dim)
        for done in range(self.rounds):
            obs = world.observe()
            action = player.act(obs, world.action_mask(player.role))
            shown = items[replica, action % items.shape[1]]
            result.append(features(wave(obs[..., where].astype(np.float64), waves), shown))
            likes.append(world.step(action).info["mu"][player.role])
            if self.progress is not None:
                self.progress((done + 1) / self.rounds)
        f, mu = np.concatenate(result, 1), np.concatenate(likes, 1)
        w = np.stack([logistic_fit(*one) for one in zip(f, mu, strict=True)])
        spread = np.cov(w.T) + 1e-3 * np.eye(w.shape[1])
        rng = np.random.default_rng(self.seed)
        pairs = f.reshape(-1, f.shape[2])[rng.permutation(f.shape[0] * f.shape[1])[:PAIRS]]
        self._learned = w.mean(0), spread, pairs

    def waves(self, dims: int) -> Ints:
        """The wave numbers k, int64[n, dims], in increasing order of their sums."""
        results = []
        for total in range(self.degree + 1):
            for places in itertools.combinations_with_replacement(range(dims), total):
                results.append(np.bincount(np.array(places, np.int64), minlength=dims))
                if len(results) == MOST_WAVES:
                    return np.array(results)
        return np.array(results)

    # A run.

    public_schedule = True

    def begin(self, view: PublicView) -> None:
        if self._learned is None:
            self.fit(view)
        assert self._learned is not None
        self._waves = self.waves(view.params.context_dim)
        size = (1 + ITEM_DIMS) * len(self._waves) + ITEM_DIMS
        if len(self._learned[0]) != size:
            raise ValueError(
                f"{type(self).__name__} was trained with {len(self._learned[0])} features, and contexts of "
                f"{view.params.context_dim} dimensions have {size}"
            )
        super().begin(view)

    @property
    def memories(self) -> int:
        """The number of posteriors in a replica."""
        return self._shape[1]

    def start(self, fresh: Bools) -> None:
        assert self._learned is not None
        mean, spread, _ = self._learned
        if fresh.all():
            shape = (self._shape[0], self.memories, len(mean))
            self._mean, self._spread = np.zeros(shape), np.zeros((*shape, len(mean)))
        self._mean[fresh], self._spread[fresh] = mean, spread
        z = 2 * self._items - 1
        self._columns = np.concatenate([np.ones((*z.shape[:2], 1)), z, z**2], -1).swapaxes(1, 2)  # [B, 11, K]

    def choose(self, contexts: Floats) -> Ints:
        luck = self.rng.standard_normal((*self._shape[:2], self._mean.shape[-1]))
        root = np.linalg.cholesky(self._spread)
        w = self._mean + self.explore * (root @ luck[..., None])[..., 0]
        b = wave(contexts, self._waves)
        linear = w[..., :-ITEM_DIMS].reshape(*w.shape[:2], 1 + ITEM_DIMS, -1)
        rows = np.concatenate([(linear @ b[..., None])[..., 0], w[..., -ITEM_DIMS:]], -1)
        return np.where(self._have, rows @ self._columns, -np.inf).argmax(-1)

    def shown(self, contexts: Floats, items: Ints) -> Floats:
        """The features [B, W, m] of the shown items."""
        return features(wave(contexts, self._waves), self._items[np.arange(self._shape[0])[:, None], items])

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        self._filter(self.shown(contexts, items), likes, real)

    def _filter(self, f: Floats, likes: Floats, real: Bools) -> None:
        """Update each posterior by a feedback: f [B, n, m], likes and real [B, n]."""
        p = logistic((f * self._mean).sum(-1))
        h = np.where(real, np.maximum(p * (1 - p), LEAST), 0.0)
        ahead = (self._spread @ f[..., None])[..., 0]
        k = ahead / (1 + h * (f * ahead).sum(-1))[..., None]
        self._mean += k * np.where(real, likes - p, 0.0)[..., None]
        self._spread -= (h[..., None] * k)[..., None] * ahead[..., None, :]


class CentralisedLogistic(LogisticBandit):
    """`LogisticBandit` with one posterior for all agents of a replica, which gets every feedback immediately and
    exactly.

    It measures the value of other agents' private data; agents with private data could not play it.

    Args:
        degree, explore, worlds, rounds, seed: as for `LogisticBandit`; finer waves pay off with more data.
    """

    def __init__(
        self, degree: int = 4, *, explore: float = 0.4, worlds: int = 200, rounds: int = 100, seed: int = 0
    ) -> None:
        super().__init__(degree, explore=explore, worlds=worlds, rounds=rounds, seed=seed)

    centralised = True
    public_schedule = True

    @property
    def memories(self) -> int:
        return 1

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        f = self.shown(contexts, items)
        for agent in range(self._shape[1]):
            one = slice(agent, agent + 1)
            self._filter(f[:, one], likes[:, one], real[:, one])


class BlockListener(LogisticBandit):
    """`LogisticBandit` that also learns from sums of the other agents' feedbacks, released block by block (`Blocks`).

    All pairs of a context and an item are divided into fixed `cells` around as many centres: a pair belongs to the
    centre nearest to its L'f, where L L' is the prior's covariance. (In this distance, near pairs have similar mean
    rewards; the centres come from practice, by k-means.) Each feedback enters the sum of one cell, as y - s(f'm_0),
    which lies between -1 and 1; m_0 is the prior's mean. First after `first` rounds, and then after blocks that grow by
    the factor `growth`, every agent asks the third party for the sums and counts of all cells over its group. Groups
    are as in `DTPriDO`: an agent belongs to the member of a greedy dominating set that it follows. So, given the shown
    items, each feedback enters one stream and one block of it. Schedule and subject of all requests are public. An
    agent's shown items also follow from its own feedbacks and reveal them; no epsilon of `statistics` and `counts`
    bounds this.

    From an answer an agent takes the increment since the answer before, and subtracts its own feedbacks, which it knows
    exactly. There remain the sums R_j and the noisy numbers of the others' feedbacks in the cells j. The numbers N_j
    are estimated by shrinking the noisy numbers towards their known mean M, to

        N_j = max(0, M + (noisy_j - M) t / (t + u)),    u = 2 b'^2 n,

    with an error of variance e = t u / (t + u), where t, their own variance, is the mean of (noisy_j - M)^2 minus u
    (`shrunk`). The sums are modelled as

        R_j = N_j r_j + noise,    r_j = mean_i (s(f_i'w) - s(f_i'm_0)),
        variance  v_j = N_j q_j + 2 b^2 n + e r_j^2 + (slack N_j)^2,

    where f_i are the features of the items that the agent showed in that block and cell, and, with weight `prior`, the
    cell's centre; q_j is the mean of s (1 - s); n is the number of blocks; b and b' are the scales of the noise in sums
    and counts; and `slack` accounts for other items shown by the others in that cell. Three Gauss-Newton steps from its
    own posterior N(m, S) give the new one, with precision S^-1 + sum_j g_j g_j' / v_j, where g_j is the derivative of
    N_j r_j.

    Args:
        cells: number of cells, >= 1.
        first: rounds of the first block, >= 1.
        growth: growth factor of the length of blocks, >= 1.
        slack: >= 0, per feedback.
        prior: weight of a cell's centre, in own feedbacks, > 0.
        share: share of the epsilon budget for the sums, in (0, 1); the counts get the rest.
        degree, explore, worlds, rounds, seed: as for `LogisticBandit`.
    """

    def __init__(
        self,
        cells: int = 300,
        *,
        first: int = 30,
        growth: float = 1.5,
        slack: float = 0.07,
        prior: float = 1.0,
        share: float = 0.6,
        degree: int = 2,
        explore: float = 0.4,
        worlds: int = 200,
        rounds: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__(degree, explore=explore, worlds=worlds, rounds=rounds, seed=seed)
        self.cells = integer("cells", cells, at_least=1, at_most=PAIRS)
        self.first = integer("first", first, at_least=1)
        self.growth = number("growth", growth, at_least=1, at_most=1e6)
        self.slack = number("slack", slack, at_least=0)
        self.prior = number("prior", prior, above=0)
        self.share = number("share", share, above=0, below=1)

    public_schedule = True

    def within(self, view: PublicView, epsilon_budget: float) -> dict[str, Mechanism]:
        """`Blocks` on both channels, at levels share * budget and (1 - share) * budget: every feedback enters one
        stream on each. Together they also hide whether a feedback was given at all."""
        return {"statistics": Blocks(self.share * epsilon_budget), "counts": Blocks((1 - self.share) * epsilon_budget)}

    def begin(self, view: PublicView) -> None:
        scales = []
        for name in ("statistics", "counts"):
            mechanism: Any = view.channels[name].mechanism
            known = mechanism is not None and mechanism.kind != "none"
            # At any time, the difference of two sums of a tree has noise from at most as many blocks as the tree has
            # levels.
            many = mechanism.levels(int(view.horizon)) if known and mechanism.kind == "tree" else 1
            scales.append(float(mechanism.block_scale(int(view.horizon), 1.0)) * many**0.5 if known else 0.0)
        self._scales = scales
        super().begin(view)
        members, follows = dominating_set(self._network)
        self._group = follows
        self._of_group = follows == np.arange(len(members))[:, None]  # bool[G, W]
        self._merged = self._of_group.sum(1)[follows]
        ends, length = [self.first], float(self.first)
        while ends[-1] < self._horizon:
            length *= self.growth
            ends.append(ends[-1] + max(1, round(length)))
        self._ends = np.array(ends[:-1], np.int64)

    @cached_property
    def _centres(self) -> tuple[Floats, Floats]:
        """The cells' centres: L'f and f, [cells, m] each."""
        assert self._learned is not None
        _, spread, pairs = self._learned
        root = np.linalg.cholesky(spread)
        centres = k_means(pairs @ root, self.cells, np.random.default_rng(self.seed))
        return centres, centres @ np.linalg.inv(root)

    def fit(self, view: PublicView) -> None:
        super().fit(view)
        vars(self).pop("_centres", None)

    def start(self, fresh: Bools) -> None:
        super().start(fresh)
        assert self._learned is not None
        size, agents = self._shape[:2]
        cells = len(self._centres[0])
        if fresh.all():
            self._root = np.linalg.cholesky(self._learned[1])
            shape = (size, agents, cells)
            self._sums, self._counts = np.zeros(shape), np.zeros(shape, np.int64)  # over each agent's feedbacks
            self._received = np.zeros((2, *shape))  # the last answer, sums and counts
            self._own = np.zeros((2, *shape))  # the agent's own part of it
            self._since = np.zeros((size, agents), np.int64)  # rounds played by then
            self._blocks = np.zeros((size, agents), np.int64)  # blocks released since then
            self._cell = np.full((size, agents, self._horizon), -1)  # the cell of each round's feedback; -1: none
            self._contexts_of = np.zeros((size, agents, self._horizon, self._dims))
            self._shown_of = np.zeros((size, agents, self._horizon), np.int64)
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
            self._ask(asks)
        return super().act(obs, mask)

    def _ask(self, asks: Bools) -> None:
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
            self._receive(int(b), int(w), *others)
            self._received[:, b, w], self._own[:, b, w] = heard, own
        self._since[answered], self._blocks[answered] = np.repeat(self._rounds[:, None], agents, 1)[answered], 0

    def _receive(self, b: int, w: int, sums: Floats, noisy: Floats) -> None:
        """Update one agent by the sums and noisy counts [cells] of the others since its last answer."""
        assert self._learned is not None
        since, now = int(self._since[b, w]), int(self._rounds[b])
        cells = self._cell[b, w, since:now]
        of_sums, of_counts = (2 * scale**2 * int(self._blocks[b, w]) for scale in self._scales)
        expected = (self._merged[w] - 1) * (now - since) / len(noisy)
        counts, uncertain = shrunk(noisy, expected, of_counts)
        some = counts > 0  # the others report nothing
        if not some.any():
            return
        centres, sums, counts, place = self._centres[1][some], sums[some], counts[some], some.cumsum() - 1
        when = since + np.flatnonzero(some[cells] & (cells >= 0))
        own = features(wave(self._contexts_of[b, w, when], self._waves), self._items[b, self._shown_of[b, w, when]])
        f = np.concatenate([own, centres])
        cell = np.concatenate([place[self._cell[b, w, when]], np.arange(len(centres))])
        weight = np.concatenate([np.ones(len(f) - len(centres)), np.full(len(centres), self.prior)])
        order = np.argsort(cell, kind="stable")
        f, weight, cell = f[order], weight[order], cell[order]
        first = np.searchsorted(cell, np.arange(len(centres)))
        weight = weight / np.add.reduceat(weight, first)[cell]

        def mean(values: Floats) -> Floats:
            result: Floats = np.add.reduceat(values, first, axis=0)
            return result

        began = logistic(f @ self._learned[0])
        precision, m = np.linalg.inv(self._spread[b, w]), self._mean[b, w]
        w_now = m
        for _ in range(3):
            s = logistic(f @ w_now)
            q = s * (1 - s)
            r = mean(weight * (s - began))
            slope = counts[:, None] * mean((weight * np.maximum(q, LEAST))[:, None] * f)
            v = counts * np.maximum(mean(weight * q), LEAST) + of_sums + uncertain * r**2 + (self.slack * counts) ** 2
            result = precision + (slope / v[:, None]).T @ slope
            rise = slope.T @ ((sums - counts * r) / v) - precision @ (w_now - m)
            w_now = w_now + np.linalg.solve(result, rise)
        spread = np.linalg.inv(result)
        self._mean[b, w], self._spread[b, w] = w_now, (spread + spread.T) / 2

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

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        assert self._learned is not None
        f = self.shown(contexts, items)
        centres = self._centres[0]
        cell = ((centres**2).sum(1) - 2 * (f @ self._root) @ centres.T).argmin(-1)
        residual = likes - logistic(f @ self._learned[0])
        b, w = np.nonzero(real)
        at = (b, w, cell[b, w])
        self._sums[at] += residual[b, w]
        self._counts[at] += 1
        when = (b, w, self._rounds[b])
        self._cell[when], self._contexts_of[when], self._shown_of[when] = cell[b, w], contexts[b, w], items[b, w]
        self._filter(f, likes, real)


def wave(contexts: Floats, waves: Ints) -> Floats:
    """prod_i cos(pi k_i c_i) of contexts [..., d] for the rows k of `waves` [n, d], float64[..., n]."""
    result: Floats = np.cos(np.pi * contexts[..., None, :] * waves).prod(-1)
    return result


def features(b: Floats, items: Floats) -> Floats:
    """((1, z) (x) b, z^2) with z = 2x - 1, for waves b [..., n] and items x [..., 5]; float64[..., 6 n + 5]."""
    z = 2 * items - 1
    one = np.concatenate([np.ones((*z.shape[:-1], 1)), z], -1)
    product = one[..., :, None] * b[..., None, :]
    return np.concatenate([product.reshape(*product.shape[:-2], product.shape[-2] * product.shape[-1]), z**2], -1)


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


def logistic(u: Floats) -> Floats:
    """1 / (1 + e^-u)."""
    result: Floats = 0.5 * (1 + np.tanh(u / 2))
    return result


def logistic_fit(f: Floats, mu: Floats) -> Floats:
    """The w [m] that maximises sum_i mu_i log s(f_i'w) + (1 - mu_i) log(1 - s(f_i'w)) - RIDGE |w|^2 / 2, by Newton's
    method, given features [n, m] and mean rewards [n]."""
    w, ridge = np.zeros(f.shape[1]), RIDGE * np.eye(f.shape[1])
    for _ in range(NEWTON):
        p = logistic(f @ w)
        curve = (f * (p * (1 - p))[:, None]).T @ f + ridge
        w = w + np.linalg.solve(curve, f.T @ (mu - p) - RIDGE * w)
    return w


def k_means(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Centres [k, m] of points [n, m], n >= k, by ten passes of Lloyd's algorithm from random points; a centre without
    any nearest point stays."""
    centres = points[rng.choice(len(points), k, replace=False)]
    for _ in range(PASSES):
        nearest = ((centres**2).sum(1) - 2 * points @ centres.T).argmin(1)
        counts = np.bincount(nearest, minlength=k)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres
