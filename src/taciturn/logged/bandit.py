"""Logs of a bandit in the form of the Open Bandit Dataset."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from taciturn.envs.core import integer
from taciturn.envs.recommender.catalogue import Catalogue
from taciturn.logged.reading import Chunk, Progress, Table, as_id, as_number, nothing, with_signs
from taciturn.validation import Array, Bools, Floats, Ints, shown

NAMES = {
    "action": ("item_id",), "click": ("reward",), "propensity": ("propensity_score", "pscore"), "position": (),
    "timestamp": (),
}  # fmt: skip
CONTEXT_PREFIXES = ("context", "user_feature", "user-item_affinity")
MOST_LEVELS = 1000
MOST_CONTEXT_DIMS = 9
ITEM_DIMS = 5
SMALLEST = 1e-12  # propensity: one reward would count a million million times
EQUAL = 1e-6  # relative tolerance of equal propensities


@dataclass(frozen=True, eq=False, repr=False)
class BanditLog:
    """Rows that a policy has logged, in the order of their times.

    Attributes:
        catalogue: the actions as items, and the contexts float64[n, d] of the rows.
        names: the actions' names in the log (`taciturn.logged.reading.as_id`).
        action: int64[n], the logged actions.
        click: bool[n].
        propensity: float64[n] in [1e-12, 1].
        positions: `{position: rows}`; empty if the log has none.
    """

    catalogue: Catalogue
    names: list[str]
    action: Ints
    click: Bools
    propensity: Floats
    positions: dict[str, int] = field(default_factory=dict)

    @property
    def uniform(self) -> bool:
        """Whether every row has the propensity of a uniform choice among the actions."""
        return bool(np.allclose(self.propensity * len(self.names), 1.0, rtol=EQUAL, atol=0))

    def __len__(self) -> int:
        return self.action.size

    def __repr__(self) -> str:
        p = self.propensity
        spread = f"{p.min():.4g} (uniform)" if self.uniform else f"{p.min():.4g} to {p.max():.4g}"
        shown_at = f", positions {', '.join(self.positions)}" if self.positions else ""
        return (
            f"<{self.catalogue.source}: {len(self):,} rows, {len(self.names)} actions, contexts of "
            f"{self.catalogue.contexts.shape[1]} dimensions{shown_at}, propensities {spread}, {self.click.mean():.4g} "
            f"clicks a row>"
        )


def read_bandit(
    path: str | Path,
    *,
    context: list[str] | None = None,
    context_dim: int = 5,
    items: str | Path | None = None,
    position: str | None = None,
    sort: bool = False,
    columns: Mapping[str, str] | None = None,
    progress: Progress = nothing,
) -> BanditLog:
    """Read a log of a bandit, one row per round, with a header (file formats: `taciturn.logged.reading.Table`).

    Columns: `action` (or `item_id`), `click` (0 or 1, or False or True; or `reward`), `propensity_score` (or
    `propensity`, `pscore`), and the context; optionally `position`, and `timestamp` in order (see `sort`). A column
    without a name, an index, is ignored.

    Contexts are the numbers of their columns; a column of text gives a 0/1 indicator for each of its texts. At most
    `context_dim` numbers without text are used directly; otherwise contexts are `context_dim` principal components.
    Both are scaled to [0, 1]. Scaling uses the contexts of all rows, but no click.

    Args:
        path: the file.
        context: names of the context columns, others are ignored; None: columns with names that begin with `context`,
            `user_feature` or `user-item_affinity`, and then no unknown column may be present.
        context_dim: the largest dimension of contexts, 1 to 9.
        items: a file of item features, `item_id` and columns of numbers, with one row per item; their principal
            components become the five item features. Without it, items are arbitrary distinct points, and learning
            about one item gives no information about another.
        position: keep only rows with this position; None: all rows; the policy never sees positions.
        sort: sort rows by `timestamp` instead of refusing a file that is out of order.
        columns: `{"click": "bought"}` if a header names the column differently.
        progress: called with the share done.

    Raises:
        ValueError: the file is empty; a row has a missing or malformed number, a click other than 0 or 1, or a
            propensity outside [1e-12, 1] (the message has its line); a column is missing, or unknown; timestamps are
            out of order; there is only one action.
        OSError: a file cannot be read.
    """
    integer("context_dim", context_dim, at_least=1, at_most=MOST_CONTEXT_DIMS)
    table = Table(path, NAMES, chosen=columns, progress=progress)
    table.require(("action", "click", "propensity"))
    own = _context_columns(table, context)
    optional = [name for name in ("position", "timestamp") if name in table.columns]
    for name, asked in (("position", position is not None), ("timestamp", sort)):
        table.require((name,) * asked, f", which --{'sort' if sort else name} needs")
    known: dict[str, int] = {}
    texts: dict[str, dict[str, int]] = {}
    parts: list[tuple[Array, ...]] = []
    places: list[Array] = []
    before = -np.inf
    for chunk in table.chunks([*dict.fromkeys(["action", "click", "propensity", *optional, *own])]):
        if not parts:
            texts = {name: {} for name in own if _is_text(chunk.cells[name])}
        time = chunk.times("timestamp") if "timestamp" in optional else np.zeros(len(chunk.lines))
        if not sort:
            back = np.flatnonzero(np.diff(time, prepend=before) < 0)
            if back.size:
                wanted = "at least that of the row before (or ask for rows to be sorted by it)"
                chunk.refuse(int(back[0]), "timestamp", wanted)
            before = time[-1]
        parts.append(
            (
                np.array([known.setdefault(name, len(known)) for name in chunk.ids("action")], np.int64),
                chunk.flags("click"),
                chunk.numbers("propensity", f"a number >= {SMALLEST:g} and <= 1", lambda x: (x >= SMALLEST) & (x <= 1)),
                time,
                _raw_contexts(chunk, own, texts),
            )
        )
        if "position" in optional:
            places.append(np.array([as_id(cell) for cell in chunk.cells["position"]]))
    action, click, propensity, time, raw = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(time, kind="stable") if sort else np.arange(time.size)
    at = np.concatenate(places) if places else None
    if position is not None and at is not None:
        order = order[at[order] == as_id(str(position))]
        if not order.size:
            raise ValueError(f"position must be one of {', '.join(np.unique(at))}, which {path} has, not {position!r}")
    positions = (
        {} if at is None else {str(k): int(v) for k, v in zip(*np.unique(at[order], return_counts=True), strict=True)}
    )
    if len(known) < 2:
        raise ValueError(
            f"{path}: there must be at least 2 actions to choose from, and there is only {next(iter(known))!r}"
        )
    names = list(known)
    features = _spread_out(len(names)) if items is None else _item_features(items, names, columns or {})
    contexts = _unit(raw[order], [len(texts[name]) if name in texts else 0 for name in own], context_dim)
    catalogue = Catalogue(features, contexts, Path(path).name)
    return BanditLog(catalogue, names, action[order], click[order], propensity[order], positions)


def _context_columns(table: Table, asked: list[str] | None) -> list[str]:
    if asked is not None:
        table.require(asked, " for a context")
        return list(dict.fromkeys(asked))
    rest = [name for name in table.columns if name and name not in NAMES]
    unknown = [name for name in rest if not name.lower().startswith(CONTEXT_PREFIXES)]
    if unknown:
        raise ValueError(
            f"{table.path}, line 1: column {unknown[0]!r} is unknown; name the context columns (--context), and others "
            "are ignored"
        )
    return rest


def _is_text(cells: tuple[str, ...]) -> bool:
    """Whether fewer than half of the cells are numbers; otherwise the cells that are not numbers are reported later as
    mistakes."""
    return 2 * sum(as_number(cell) == as_number(cell) for cell in cells) < len(cells)


def _raw_contexts(chunk: Chunk, columns: list[str], texts: dict[str, dict[str, int]]) -> Array:
    """The columns as numbers, texts by their order of appearance, float32[rows, columns]."""
    found = np.zeros((len(chunk.lines), len(columns)), np.float32)
    for i, name in enumerate(columns):
        if name not in texts:
            found[:, i] = chunk.numbers(name)
            continue
        levels, given = texts[name], [cell.strip() for cell in chunk.cells[name]]
        if "" in given:
            chunk.refuse(given.index(""), name, "given")
        found[:, i] = [levels.setdefault(cell, len(levels)) for cell in given]
        if len(levels) > MOST_LEVELS:
            raise ValueError(
                f"{chunk.path}: column {name!r} must have at most {MOST_LEVELS} different texts to be a context, and "
                "has more"
            )
    return found


def _unit(raw: Array, levels: list[int], dims: int) -> Floats:
    """Contexts [n, d] in [0, 1] from `_raw_contexts`; `levels` is the number of texts of a column, 0 for a column of
    numbers."""
    if not levels:
        return np.full((len(raw), 1), 0.5)
    if not any(levels) and len(levels) <= dims:
        return _scaled(raw.astype(np.float64))
    # A few rows at a time, because a column of text becomes a column for each of its texts.
    blocks = [slice(i, i + 20_000) for i in range(0, len(raw), 20_000)]
    wide = sum(max(level, 1) for level in levels)
    count, sums, products = len(raw), np.zeros(wide), np.zeros((wide, wide))
    number_columns = np.repeat([not level for level in levels], [max(level, 1) for level in levels])
    middle = _one_hot(raw[blocks[0]], levels).mean(0)
    for where in blocks:
        rows = _one_hot(raw[where], levels) - middle
        sums, products = sums + rows.sum(0), products + rows.T @ rows
    shift = sums / count
    covariance = products / count - np.outer(shift, shift)
    scale = np.where(number_columns, 1 / np.sqrt(np.maximum(np.diag(covariance), 1e-12)), 1.0)
    size, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    kept = [i for i in np.argsort(-size, kind="stable")[:dims] if size[i] > 1e-9] or [int(np.argmax(size))]
    turn = with_signs(vectors[:, kept])
    return _scaled(
        np.concatenate([((_one_hot(raw[where], levels) - middle - shift) * scale) @ turn for where in blocks])
    )


def _one_hot(raw: Array, levels: list[int]) -> Floats:
    parts = [
        np.equal.outer(raw[:, i], np.arange(level)).astype(np.float64)
        if level
        else raw[:, i : i + 1].astype(np.float64)
        for i, level in enumerate(levels)
    ]
    return np.concatenate(parts, 1)


def _scaled(x: Floats) -> Floats:
    """Each column in [0, 1]; 0.5 if it is constant."""
    low, high = x.min(0), x.max(0)
    return np.where(high > low, (x - low) / np.where(high > low, high - low, 1.0), 0.5)


def _spread_out(num_items: int) -> Floats:
    """Distinct points in [0, 1]^5: multiples of the powers of a root of x^6 = x + 1, modulo 1 (the additive recurrence
    R_5)."""
    root = 1.0
    for _ in range(60):
        root = (1 + root) ** (1 / (ITEM_DIMS + 1))
    return np.asarray((0.5 + np.arange(1, num_items + 1)[:, None] * root ** -np.arange(1.0, ITEM_DIMS + 1)) % 1)


def _item_features(path: str | Path, names: list[str], headers: Mapping[str, str]) -> Floats:
    table = Table(path, {"item_id": ("action", "item", *([headers["action"]] if "action" in headers else []))})
    table.require(("item_id",))
    columns = [name for name in table.columns if name and name != "item_id"]
    if not columns:
        raise ValueError(f"{path}, line 1: there must be columns of item features in addition to item_id")
    rows: dict[str, Array] = {}
    texts: dict[str, dict[str, int]] = {}
    for chunk in table.chunks(["item_id", *columns]):
        if not rows:
            texts = {name: {} for name in columns if _is_text(chunk.cells[name])}
        for i, (name, features) in enumerate(
            zip(chunk.ids("item_id"), _raw_contexts(chunk, columns, texts), strict=True)
        ):
            if name in rows:
                chunk.refuse(i, "item_id", "in one row only")
            rows[name] = features
    missing = [name for name in names if name not in rows]
    if missing:
        raise ValueError(
            f"{path}: there must be a row for every action of the log, and there is none for {shown(missing[0])}"
        )
    raw = np.array([rows[name] for name in names])
    found = _unit(raw, [len(texts[name]) if name in texts else 0 for name in columns], ITEM_DIMS)
    return np.concatenate([found, np.full((len(names), ITEM_DIMS - found.shape[1]), 0.5)], 1)
