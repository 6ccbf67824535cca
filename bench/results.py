"""Cells and their results: the data that studies, the store and the report share."""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import taciturn
from taciturn.bench.statistics import Floats

if TYPE_CHECKING:
    import pyarrow as pa

Config = dict[str, Any]
Progress = Callable[[float], None]

TUNING_SEEDS = range(1_000_000, 2_000_000)
"""The seeds on which settings of policies may be tuned. No cell of a study may have one of them."""

RUNS = "runs"
"""The curve of a result that holds the score of every single run: (number of the run, score)."""

MOST_ROWS = 250_000
"""Most metrics and points of curves in a result."""


@dataclass(frozen=True)
class Cell:
    """One unit of work: a configuration (JSON values only; tuples become lists) and a seed."""

    study: str
    config: Config
    seed: int

    def __post_init__(self) -> None:
        try:
            canonical(self.config)
        except (TypeError, ValueError) as error:
            raise ValueError(f"config of study {self.study!r} must hold finite JSON values: {error}") from error
        if self.seed in TUNING_SEEDS:
            first, last = TUNING_SEEDS[0], TUNING_SEEDS[-1]
            raise ValueError(
                f"seed of study {self.study!r} must not be {self.seed}: settings are tuned on {first} to {last}"
            )
        object.__setattr__(self, "config", json.loads(json.dumps(self.config)))

    @cached_property
    def key(self) -> str:
        """Hash of everything that determines the result: study, configuration, seed and version of taciturn."""
        text = canonical([self.study, self.config, self.seed, taciturn.__version__])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def label(self) -> str:
        """Configuration and seed on one line."""
        return f"{self.study}: {describe({**flatten(self.config), 'seed': self.seed})}"

    @property
    def brief(self) -> str:
        """Policy, environment, privacy budget and seed, for a line of progress; `label` if it has none of these."""
        if not {"policy", "env"} <= self.config.keys():
            return self.label
        budget = self.config.get("budget")
        limit = f"@{budget:g}" if isinstance(budget, float) else ""
        return f"{self.study}: {self.config['policy']} in {self.config['env']}{limit}, seed {self.seed}"


@dataclass(frozen=True)
class Result:
    """Result of a cell: metrics (possibly infinite, never NaN) and curves `(x[n], y[n])`, both by name (see
    `file_name`)."""

    metrics: Mapping[str, float]
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("metrics must name at least one number")
        metrics = {str(name): float(value) for name, value in self.metrics.items()}
        for name, value in metrics.items():
            if math.isnan(value):
                raise ValueError(f"metric {name!r} must be a number, not NaN")
        curves = {}
        for name, (x, y) in self.curves.items():
            curves[file_name("curve", name, 100)] = xs, ys = np.array(x, dtype=float), np.array(y, dtype=float)
            if xs.ndim != 1 or xs.shape != ys.shape:
                raise ValueError(f"curve {name!r} must be two vectors of one length, not {xs.shape} and {ys.shape}")
            if np.isnan(xs).any() or np.isnan(ys).any():
                raise ValueError(f"curve {name!r} must hold numbers, not NaN")
        if (rows := len(metrics) + sum(len(x) for x, _ in curves.values())) > MOST_ROWS:
            raise ValueError(f"metrics and points of curves must be at most {MOST_ROWS:,}, not {rows:,}")
        object.__setattr__(self, "metrics", metrics)
        object.__setattr__(self, "curves", curves)


@dataclass(frozen=True)
class Group:
    """The finished cells of one configuration, in increasing order of seed; `origins` are the positions of the commands
    that made them in the list of a stored file (`Submission.origins`), or None if one command made them all."""

    config: Config
    seeds: NDArray[np.int64]
    metrics: dict[str, Floats]
    curves: dict[str, list[tuple[Floats, Floats]]]
    wall_seconds: Floats
    origins: NDArray[np.int64] | None = None

    @cached_property
    def flat(self) -> Config:
        """The configuration with nested entries named by dots: `{"policy_params.k": 10}`."""
        return flatten(self.config)

    @property
    def made_by(self) -> NDArray[np.int64]:
        """`origins`, and 0 for each cell if one command made them all."""
        return np.zeros(self.seeds.size, np.int64) if self.origins is None else self.origins

    def mean(self, metric: str) -> float:
        """Mean of a metric over the seeds."""
        return float(self.metrics[metric].mean())

    def at(self, places: Any) -> "Group":
        """The cells at these positions."""
        metrics = {name: values[places] for name, values in self.metrics.items()}
        curves = {name: [curve[i] for i in places] for name, curve in self.curves.items()}
        origins = None if self.origins is None else self.origins[places]
        return Group(self.config, self.seeds[places], metrics, curves, self.wall_seconds[places], origins)

    def shared_seeds(self, other: "Group") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions, in this group and in the other, of the seeds that both have finished."""
        _, mine, theirs = np.intersect1d(self.seeds, other.seeds, return_indices=True)
        return mine, theirs

    def paired(self, other: "Group", metric: str) -> tuple[Floats, Floats]:
        """A metric of this group and of the other, at the seeds that both have finished."""
        mine, theirs = self.shared_seeds(other)
        return self.metrics[metric][mine], other.metrics[metric][theirs]


class Results:
    """The finished cells of one study, one `Group` per configuration, in the order the study declares them."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.groups = tuple(groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def select(self, **entries: object) -> "Results":
        """The groups with all these entries in their configuration (see `matches`)."""
        whole, parts = _wanted(entries)
        return Results(group for group in self if whole <= group.config.items() and parts <= group.flat.items())

    def one(self, **entries: object) -> Group:
        """The only group with these configuration entries. Raises ValueError if there is none, or several."""
        result = self.select(**entries)
        if len(result) != 1:
            raise ValueError(f"one configuration must match {entries}, but {len(result)} do")
        return result.groups[0]

    def find(self, config: Config) -> Group | None:
        """The group with this configuration, or else the first that contains each of its top-level entries as a whole,
        or None."""
        wanted = json.loads(json.dumps(config))
        exact = (group for group in self if wanted == group.config)
        return next(exact, None) or next((group for group in self if wanted.items() <= group.config.items()), None)

    def get(self, config: Config) -> Group:
        """As `find`, but raises ValueError if there is none."""
        result = self.find(config)
        if result is None:
            raise ValueError(f"no results for {config}")
        return result

    @cached_property
    def varying(self) -> list[str]:
        """Names of the (flattened) configuration entries that differ between groups."""
        flats = [group.flat for group in self]
        names = dict.fromkeys(name for flat in flats for name in flat)
        return [name for name in names if len({canonical(flat.get(name)) for flat in flats}) > 1]

    @cached_property
    def constant(self) -> Config:
        """The configuration entries that all groups share."""
        return {name: v for name, v in self.groups[0].flat.items() if name not in self.varying} if self.groups else {}

    @classmethod
    def from_table(cls, table: "pa.Table") -> "Results":
        """Gather the rows of one study (see `taciturn.bench.store.schema`); the rows of a cell must be contiguous."""
        column = {name: table[name].to_numpy() for name in table.column_names}
        size = table.num_rows
        changed = np.zeros(size + 1, dtype=bool)
        changed[[0, size]] = True
        for name in ("key", "kind", "name"):
            changed[1:-1] |= column[name][1:] != column[name][:-1]
        edges = np.flatnonzero(changed) if size else np.zeros(1, dtype=np.int64)
        first: dict[str, str] = {}
        same = {text: first.setdefault(canonical(json.loads(text)), text) for text in dict.fromkeys(column["config"])}
        cells: dict[str, dict[int, _CellRows]] = {}
        for start, stop in itertools.pairwise(edges):
            seeds = cells.setdefault(same[column["config"][start]], {})
            rows = seeds.setdefault(int(column["seed"][start]), _CellRows(float(column["wall_seconds"][start])))
            name = str(column["name"][start])
            if column["kind"][start] == "metric":
                rows.metrics[name] = float(column["value"][start])
            else:
                rows.curves[name] = (column["x"][start:stop], column["value"][start:stop])
        return cls(_group(json.loads(config), dict(sorted(seeds.items()))) for config, seeds in cells.items())


@dataclass
class _CellRows:
    wall_seconds: float
    metrics: dict[str, float] = field(default_factory=dict)
    curves: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)


def _group(config: Config, cells: dict[int, _CellRows]) -> Group:
    """Drop metrics and curves that some seed lacks, since their means would be over other seeds."""
    rows = list(cells.values())
    metrics = [name for name in rows[0].metrics if all(name in row.metrics for row in rows)]
    curves = [name for name in rows[0].curves if all(name in row.curves for row in rows)]
    return Group(
        config=config,
        seeds=np.array(list(cells)),
        metrics={name: np.array([row.metrics[name] for row in rows]) for name in metrics},
        curves={name: [row.curves[name] for row in rows] for name in curves},
        wall_seconds=np.array([row.wall_seconds for row in rows]),
    )


def file_name(what: str, name: Any, longest: int = 200) -> str:
    """A name that may be part of a file's name: letters, digits and `_.+=@-`, starting with a letter, digit or `_`.
    Raises ValueError."""
    if not (isinstance(name, str) and len(name) <= longest and re.fullmatch(r"\w[\w.+=@-]*", name, re.ASCII)):
        raise ValueError(f"name of a {what} must be up to {longest} letters, digits and '_.+=@-', not {name!r}")
    return name


def canonical(value: object) -> str:
    """The canonical JSON text of a value. Raises ValueError or TypeError for values that JSON lacks, including
    infinities."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def flatten(config: Config, prefix: str = "") -> Config:
    """Nested dictionaries as one, with dotted names."""
    flat: Config = {}
    for name, value in config.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def matches(config: Config, entries: Config) -> bool:
    """Whether a configuration holds all these entries, nested or named with dots; an empty dictionary matches only
    itself."""
    whole, parts = _wanted(entries)
    return whole <= config.items() and parts <= flatten(config).items()


def _wanted(entries: Config) -> tuple[ItemsView[str, Any], ItemsView[str, Any]]:
    """The entries that a configuration must contain, whole and flattened."""
    return {name: value for name, value in entries.items() if value == {}}.items(), flatten(entries).items()


def describe(entries: Config) -> str:
    """Entries on one line, long values truncated: `policy=FixedCount, k=10`."""
    texts = {name: value if isinstance(value, str) else canonical(value) for name, value in entries.items()}
    return ", ".join(f"{name}={text if len(text) <= 40 else text[:39] + '…'}" for name, text in texts.items())


def short(flat: Config) -> Config:
    """Dotted names reduced to their last parts."""
    return {name.rpartition(".")[2]: value for name, value in flat.items()}
