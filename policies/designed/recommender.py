"""Agents for `recommender_v0` with a logistic model of contexts and items: independent, centralised, and with sums
released block by block."""

import itertools
from functools import cached_property
from typing import Any

import numpy as np

from taciturn.envs.core import PublicView, integer, number
from taciturn.envs.recommender.rewards import ITEM_DIMS
from taciturn.policies.base import Learner, Random
from taciturn.policies.families.block_sums import BlockSums, k_means, nearest
from taciturn.policies.families.recommender import ItemPolicy
from taciturn.validation import Bools, Floats, Ints

LEAST = 0.02  # lower limit for the variance of a feedback, so no single one overturns the estimates
MOST_WAVES = 16
RIDGE, NEWTON = 0.5, 8
AGENTS = 8  # agents in a practice environment: rows per round
PAIRS = 6000


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


class BlockListener(BlockSums, LogisticBandit):
    """`LogisticBandit` that also learns from sums of the other agents' feedbacks, released block by block (`Blocks`).

    All pairs of a context and an item are divided into fixed `cells` around as many centres: a pair belongs to the
    centre nearest to its L'f, where L L' is the prior's covariance. (In this distance, near pairs have similar mean
    rewards; the centres come from practice, by k-means.) Each feedback enters the sum of one cell, as y - s(f'm_0),
    which lies between -1 and 1; m_0 is the prior's mean. When agents ask, and for what: `BlockSums`.

    An answer tells an agent the sums R_j and the noisy numbers of the others' feedbacks in the cells j. The numbers N_j
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

    @property
    def num_cells(self) -> int:
        return len(self._centres[0])

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
        if fresh.all():
            self._root = np.linalg.cholesky(self._learned[1])
            shape = (*self._shape[:2], self._horizon)
            self._contexts_of, self._shown_of = np.zeros((*shape, self._dims)), np.zeros(shape, np.int64)

    def receive(self, b: int, w: int, sums: Floats, noisy: Floats) -> None:
        assert self._learned is not None
        since, now = int(self._since[b, w]), int(self._rounds[b])
        cells = self._cell[b, w, since:now]
        of_sums, (counts, uncertain) = self.noise(b, w)[0], self.counted(b, w, noisy)
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

    def learn(self, contexts: Floats, items: Ints, likes: Floats, real: Bools) -> None:
        assert self._learned is not None
        f = self.shown(contexts, items)
        cell = nearest(f @ self._root, self._centres[0])
        self.record(cell, likes - logistic(f @ self._learned[0]), real)
        b, w = np.nonzero(real)
        when = (b, w, self._rounds[b])
        self._contexts_of[when], self._shown_of[when] = contexts[b, w], items[b, w]
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
