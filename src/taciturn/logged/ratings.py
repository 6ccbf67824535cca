"""A simulator of mean rewards from a file of ratings, for every policy of the recommender.

For an item that a user never rated the simulator only guesses: policies are compared in an environment similar to the
data, not on the data. The simulator records its error on later ratings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taciturn.envs.core import Array, integer, number
from taciturn.logged.reading import Progress, Table, nothing, with_signs
from taciturn.logged.simulator import HARMONICS, HeldOut, Simulator, cosines
from taciturn.validation import Bools, Floats

ITEM_DIMS = 5
MOST_CONTEXT_DIMS = 1 + ITEM_DIMS
NAMES = {"user": ("userId",), "item": ("itemId", "movieId"), "rating": (), "timestamp": ("time",)}
PRIOR = 5.0  # ratings, all equal to the mean, that a user is assumed to have given before the first one
PENALTIES = 10.0 ** np.arange(0, 6)
ROWS = 20_000  # of the features in one block
POOL = 50_000  # contexts


@dataclass(frozen=True, eq=False)
class _Ratings:
    """Ratings sorted by user, and by time for each user."""

    user: Array
    item: Array
    like: Array
    time: Array


def fit_ratings(
    path: str | Path,
    *,
    like: float = 4.0,
    context_dim: int = 3,
    num_items: int = 4000,
    held_out: float = 0.2,
    columns: Mapping[str, str] | None = None,
    progress: Progress = nothing,
) -> Simulator:
    """Fit a simulator to a file of ratings; `recommender_v0.population(family=fit_ratings("ratings.csv"))` uses it.

    The file has one row per rating, `user,item,rating,timestamp`, with or without a header (such as
    `userId,movieId,rating,timestamp`; other columns are ignored; file formats: `taciturn.logged.reading.Table`). The
    order of rows does not matter. The latest ratings are held out; all other quantities are computed from the rest, the
    train split.

    - Reward: 1 if the rating is at least `like`, 0 otherwise.
    - Item features: the first five principal components of the ratings of each item by user (standardised, 0 for
      missing ratings, scaled to length 1), scaled to [0, 1].
    - Context of a user at a rating: from the user's earlier ratings only, as 1 (like) or 0 minus the share of likes in
      the train split: the mean of these values, and the means of their products with each item feature, all shrunk
      towards 0 as if by five more ratings. The context is the first `context_dim` of these six numbers, scaled to
      [0, 1] (three standard deviations to either side of the mean).
    - Mean rewards: ridge regression on all products of the cosines of context and item (`Simulator`), with the penalty
      that is best for the last tenth of the train split. In the environment, users have the contexts of held-out
      ratings.

    Args:
        path: the file.
        like: the lowest rating that counts as a like.
        context_dim: d, 1 to 6.
        num_items: the largest number of items to keep: those with most ratings in the train split.
        held_out: share of the ratings, the latest, in (0, 1).
        columns: `{"user": "customer"}` if a header names the column differently.
        progress: called with the share done.

    Raises:
        ValueError: a row is malformed (the message has its line), columns are missing, or nothing can be fitted: all
            ratings have the same time, or all or none of them are at least `like`.
        OSError: the file cannot be read.
    """
    number("like", like)
    integer("context_dim", context_dim, at_least=1, at_most=MOST_CONTEXT_DIMS)
    integer("num_items", num_items, at_least=2, at_most=10**6)
    number("held_out", held_out, above=0, below=1)
    user, item, rating, time = _read(path, columns, progress)
    start = np.partition(time, int((1 - held_out) * time.size))[int((1 - held_out) * time.size)]
    train = time < start
    if not train.any():
        raise ValueError(
            f"{path}: the first {1 - held_out:.0%} of the ratings in time must be earlier than the others, and all "
            "timestamps up to there are equal"
        )
    # Keep the items with most ratings in the train split; others have no features.
    counts = np.bincount(item[train], minlength=int(item.max()) + 1)
    best = np.argsort(-counts, kind="stable")[:num_items]
    best = best[counts[best] > 0]
    place = np.full(counts.size, -1, np.int32)
    place[best] = np.arange(best.size, dtype=np.int32)
    item = place[item]
    known = item >= 0
    user, item, rating, time, train = (values[known] for values in (user, item, rating, time, train))
    likes = rating >= like
    mean = float(likes[train].mean())
    if not 0 < mean < 1 or train.all():
        share = "no held-out rating is of an item that was rated before" if train.all() else f"{mean:.0%} are"
        raise ValueError(
            f"{path}: some ratings of the train split must be at least like, which is {like:g}, and some below it, and "
            "later ones must be held out; "
            f"{share}"
        )
    progress(0.0, "principal components")
    items = _item_features(user[train], item[train], rating[train], best.size)
    del rating
    order = np.lexsort((time, user))
    found = _Ratings(user[order], item[order], likes[order], time[order])
    del user, item, likes, time, train, order
    return _fit(found, items, start, mean, context_dim, Path(path).name, progress)


def _read(path: str | Path, columns: Mapping[str, str] | None, progress: Progress) -> tuple[Array, Array, Array, Array]:
    """Users and items by number, int32[n], ratings float32[n], times float64[n]."""
    table = Table(path, NAMES, plain=tuple(NAMES), chosen=columns, progress=progress)
    table.require(NAMES)
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    parts = [
        (
            np.array([users.setdefault(name, len(users)) for name in chunk.ids("user")], np.int32),
            np.array([items.setdefault(name, len(items)) for name in chunk.ids("item")], np.int32),
            chunk.numbers("rating").astype(np.float32),
            chunk.times("timestamp"),
        )
        for chunk in table.chunks(tuple(NAMES))
    ]
    user, item, rating, time = (np.concatenate(column) for column in zip(*parts, strict=True))
    return user, item, rating, time


def _item_features(user: Array, item: Array, rating: Array, num_items: int) -> Floats:
    """Item features [K, 5] in [0, 1]: principal components of rows of length 1; missing dimensions are 0.5."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import LinearOperator, svds

    average, spread = float(rating.mean(dtype=np.float64)), float(rating.std(dtype=np.float64)) or 1.0
    users, column = np.unique(user, return_inverse=True)
    table: Any = csr_array(((rating - average) / spread, (item, column)), shape=(num_items, users.size))
    length = np.sqrt((table.multiply(table)).sum(1))
    table = (table.multiply(1 / np.maximum(length, 1e-12)[:, None])).tocsr()
    middle = np.asarray(table.sum(0)).ravel() / num_items
    if min(table.shape) <= 4 * ITEM_DIMS:
        left, size, _ = np.linalg.svd(table.toarray() - middle, full_matrices=False)
    else:
        transposed = table.T.tocsr()
        centred = LinearOperator(
            table.shape,
            matvec=lambda x: table @ x.ravel() - middle @ x.ravel(),
            rmatvec=lambda y: transposed @ y.ravel() - middle * y.sum(),
            dtype=np.float64,
        )
        left, size, _ = svds(centred, ITEM_DIMS, v0=np.ones(min(table.shape)))
    largest = np.argsort(-size, kind="stable")[:ITEM_DIMS]
    largest = largest[size[largest] > 1e-9]
    score = with_signs(left[:, largest] * size[largest])
    low, high = score.min(0), score.max(0)
    features = np.full((num_items, ITEM_DIMS), 0.5)
    features[:, : largest.size] = (score - low) / np.maximum(high - low, 1e-12)
    return features


class _Contexts:
    """Contexts of users at their ratings, from their ratings at earlier times.

    Args:
        ratings: all ratings.
        items: item features [K, 5].
        mean: share of likes.
        dims: dimension of a context.
    """

    def __init__(self, ratings: _Ratings, items: Floats, mean: float, dims: int) -> None:
        self._ratings, self._mean, self._dims = ratings, mean, dims
        self._tastes = (items - items.mean(0))[:, : dims - 1]
        n = ratings.user.size
        first = np.flatnonzero(np.r_[True, ratings.user[1:] != ratings.user[:-1]])
        # Whole users, about ROWS ratings at a time.
        cuts = first[np.unique(np.searchsorted(first, np.arange(0, n, ROWS)).clip(max=first.size - 1))]
        self._blocks = list(zip(cuts, [*cuts[1:], n], strict=True))
        self.centre, self.spread = np.zeros(dims), np.ones(dims)

    def blocks(self, progress: Progress, what: str) -> Iterator[tuple[slice, Floats]]:
        """(Which ratings, their contexts [n, d] before scaling)."""
        for done, (start, stop) in enumerate(self._blocks):
            progress(done / len(self._blocks), what)
            where = slice(start, stop)
            yield where, self._raw(where)

    def _raw(self, where: slice) -> Floats:
        r = self._ratings
        user, time, deviation = r.user[where], r.time[where], r.like[where] - self._mean
        terms = np.concatenate(
            [np.ones((user.size, 1)), deviation[:, None], deviation[:, None] * self._tastes[r.item[where]]], 1
        )
        before = np.concatenate([np.zeros((1, terms.shape[1])), terms.cumsum(0)])
        new_user = np.r_[True, user[1:] != user[:-1]]
        new_time = new_user | np.r_[True, time[1:] != time[:-1]]
        # Sums up to the user's first rating at the same time, minus the sums of earlier users.
        at, since = (np.maximum.accumulate(np.where(new, np.arange(user.size), 0)) for new in (new_time, new_user))
        past = before[at] - before[since]
        found: Floats = past[:, 1:] / (past[:, :1] + PRIOR)
        return found

    def scaled(self, raw: Floats) -> Floats:
        """Scaled to [0, 1], in single precision, as in the environment."""
        unit = np.clip(0.5 + (raw - self.centre) / (6 * self.spread), 0, 1)
        return unit.astype(np.float32).astype(np.float64)


def _fit(
    ratings: _Ratings, items: Floats, start: float, mean: float, dims: int, source: str, progress: Progress
) -> Simulator:
    contexts = _Contexts(ratings, items, mean, dims)
    train = ratings.time < start
    sums, squares = np.zeros(dims), np.zeros(dims)
    for where, raw in contexts.blocks(progress, "contexts"):
        early = raw[train[where]]
        sums, squares = sums + early.sum(0), squares + (early**2).sum(0)
    contexts.centre = sums / train.sum()
    contexts.spread = np.sqrt(np.maximum(squares / train.sum() - contexts.centre**2, 1e-12))
    weights = _weights(ratings, contexts, items, train, mean, progress)
    fitted = Simulator(items, np.full((1, dims), 0.5), source, weights, HeldOut(0, 0, 0.0, 0.0, 0.0, 0.0))
    late = int((~train).sum())
    gain, ours, theirs, pool, seen = [], 0.0, 0.0, [], 0
    for where, raw in contexts.blocks(progress, "held-out error"):
        mask = ~train[where]
        if not mask.any():
            continue
        seen_by = contexts.scaled(raw[mask])
        like, item, user = ratings.like[where][mask], ratings.item[where][mask], ratings.user[where][mask]
        error, plain = (like - fitted(seen_by, fitted.items[item])) ** 2, (like - mean) ** 2
        ours, theirs = ours + error.sum(), theirs + plain.sum()
        which = np.unique(user, return_inverse=True)[1]
        gain.append(np.stack([np.bincount(which, plain - error), np.bincount(which)], 1))
        every = max(-(-late // POOL), 1)
        pool.append(seen_by[-seen % every :: every])
        seen += like.size
    by_user = np.concatenate(gain)
    middle = by_user[:, 0].sum() / late
    error = np.sqrt(((by_user[:, 0] - middle * by_user[:, 1]) ** 2).sum()) / late
    from scipy.special import stdtrit

    half = stdtrit(len(by_user) - 1, 0.975) * error if len(by_user) > 1 else np.inf
    held_out = HeldOut(late, len(by_user), float(ours / late), float(theirs / late), middle - half, middle + half)
    return Simulator(items, np.concatenate(pool), source, weights, held_out)


def _weights(
    ratings: _Ratings, contexts: _Contexts, items: Floats, train: Bools, mean: float, progress: Progress
) -> Floats:
    """Ridge regression of centred likes on products of cosines."""
    early = ratings.time[train]
    tenth = np.partition(early, int(0.9 * early.size))[int(0.9 * early.size)]
    p, q = 1 + HARMONICS * contexts.centre.size, 1 + HARMONICS * ITEM_DIMS
    waves = cosines(items.astype(np.float32).astype(np.float64))
    gram, product = np.zeros((2, p * q, p * q)), np.zeros((2, p * q))
    for where, raw in contexts.blocks(progress, "fitting"):
        for last, part in enumerate((ratings.time[where] < tenth, ratings.time[where] >= tenth)):
            mask = part & train[where]
            seen = cosines(contexts.scaled(raw[mask]))
            rows = (seen[:, :, None] * waves[ratings.item[where][mask]][:, None]).reshape(-1, p * q)
            gram[last] += rows.T @ rows
            product[last] += rows.T @ (ratings.like[where][mask] - mean)
    unit = np.eye(p * q)
    tried = [np.linalg.solve(gram[0] + penalty * unit, product[0]) for penalty in PENALTIES]
    loss = [w @ gram[1] @ w - 2 * w @ product[1] for w in tried]
    weights = np.linalg.solve(gram.sum(0) + PENALTIES[int(np.argmin(loss))] * unit, product.sum(0))
    weights[0] += mean
    found: Floats = weights.reshape(p, q)
    return found
