"""What a study is: declared cells, a function that runs one, and how to read the results."""

import hashlib
import importlib
import itertools
import json
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

import taciturn

if TYPE_CHECKING:
    import pyarrow as pa

    from taciturn.bench.figures import Plot
    from taciturn.bench.tables import Table

Floats = NDArray[np.float64]
Config = dict[str, Any]
Progress = Callable[[float], None]


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
        object.__setattr__(self, "config", json.loads(json.dumps(self.config)))

    @cached_property
    def key(self) -> str:
        """Hash of what determines the result: study, configuration, seed and version of taciturn."""
        return hashlib.sha256(
            canonical([self.study, self.config, self.seed, taciturn.__version__]).encode()
        ).hexdigest()

    @property
    def label(self) -> str:
        """Configuration and seed on one line."""
        return f"{self.study}: {describe({**flatten(self.config), 'seed': self.seed})}"


@dataclass(frozen=True)
class Result:
    """What a cell gives: numbers by name (infinite is allowed, NaN is not) and curves `(x[n], y[n])` by name."""

    metrics: Mapping[str, float]
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ValueError("metrics must name at least one number, not none")
        for name, value in self.metrics.items():
            if math.isnan(value):
                raise ValueError(f"metric {name!r} must be a number, not NaN")
        for name, (x, y) in self.curves.items():
            xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
            if xs.ndim != 1 or xs.shape != ys.shape:
                raise ValueError(f"curve {name!r} must be two vectors of one length, not {xs.shape} and {ys.shape}")
            if np.isnan(xs).any() or np.isnan(ys).any():
                raise ValueError(f"curve {name!r} must hold numbers, not NaN")


@dataclass(frozen=True)
class Score:
    """The headline metric of a study."""

    metric: str
    higher_is_better: bool = True
    label: str = ""

    @property
    def title(self) -> str:
        """What to write on an axis."""
        return self.label or self.metric.replace("_", " ")

    @property
    def direction(self) -> str:
        """Which way the score improves."""
        return "higher is better" if self.higher_is_better else "lower is better"


@dataclass(frozen=True)
class Verdict:
    """One claim of a paper beside what was computed. `verdict`: "agrees", "does not follow" or other short words."""

    quantity: str
    paper: float | str
    ours: float | str
    verdict: str
    reason: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Group:
    """The finished cells of one configuration, in increasing order of seed."""

    config: Config
    seeds: NDArray[np.int64]
    metrics: dict[str, Floats]
    curves: dict[str, list[tuple[Floats, Floats]]]
    wall_seconds: Floats

    @property
    def flat(self) -> Config:
        """The configuration with nested entries named by dots: `{"policy_params.k": 10}`."""
        return flatten(self.config)


class Results:
    """The finished cells of one study, one `Group` per configuration, in the order the study declares them."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self.groups = tuple(groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def select(self, **entries: Any) -> "Results":
        """The groups whose configuration holds all these entries."""
        return Results(group for group in self if matches(group.config, entries))

    def one(self, **entries: Any) -> Group:
        """The only group whose configuration holds these entries. Raises ValueError if there is none, or several."""
        found = self.select(**entries)
        if len(found) != 1:
            raise ValueError(f"one configuration must match {entries}, and {len(found)} do")
        return found.groups[0]

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
        """Gather the rows of one study (see `taciturn.bench.store.SCHEMA`), where each cell's rows lie together."""
        column = {
            name: table[name].to_numpy()
            for name in ("key", "config", "seed", "kind", "name", "x", "value", "wall_seconds")
        }
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
            rows = cells.setdefault(same[column["config"][start]], {}).setdefault(
                int(column["seed"][start]), _CellRows(float(column["wall_seconds"][start]))
            )
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
    """Metrics and curves that some seed has no value of are left out: a mean over the others would not be of these seeds."""
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


class Study:
    """A declared sweep with a score: subclass it in a module, give `name`, `title`, `score`, `cells` and `run`.

    `reference` holds the configuration entries that mark the row which others are compared with, `facets` names the
    entries that split the study into panels (rows are compared within one), `color` the entry that gives a row its
    colour. Entries may be nested: "policy_params.k". `figures` names the figures of papers that the study runs again
    ("004/3.3"). Studies and their cells travel to worker processes by pickle.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str] = ""
    score: ClassVar[Score]
    reference: ClassVar[Config] = {}
    facets: ClassVar[tuple[str, ...]] = ()
    color: ClassVar[str] = "policy"
    figures: ClassVar[tuple[str, ...]] = ()

    def cells(self, quick: bool) -> list[Cell]:
        """All cells, in the order in which tables show them; `quick` asks for the few that take about a minute."""
        raise NotImplementedError

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        """Compute one cell, from its configuration and seed alone. `progress` takes the fraction done."""
        raise NotImplementedError

    def tables(self, results: Results) -> "list[Table]":
        """Tables of the report; extend the standard ones or replace them."""
        from taciturn.bench.tables import standard_tables

        return standard_tables(self, results)

    def plots(self, results: Results) -> "list[Plot]":
        """Plots of the report; extend the standard ones or replace them."""
        from taciturn.bench.figures import standard_plots

        return standard_plots(self, results)

    def verdicts(self, results: Results) -> list[Verdict]:
        """A paper's claims beside the computed values, where the study reproduces one."""
        return []

    def sweep(self, configs: Iterable[Config], seeds: Iterable[int]) -> list[Cell]:
        """Every configuration with every seed."""
        seeds = list(seeds)
        return [Cell(self.name, config, seed) for config in configs for seed in seeds]

    def panels(self, results: Results) -> list[tuple[str, Results]]:
        """The results split by `facets`: [("time_law=pareto", results), ...]; one unnamed panel without facets."""
        panels: dict[str, list[Group]] = {}
        for group in results:
            panels.setdefault(describe(short({name: group.flat.get(name) for name in self.facets})), []).append(group)
        return [(title, Results(groups)) for title, groups in panels.items()]

    def reference_group(self, panel: Results) -> Group | None:
        """The group that the others of a panel are compared with, or None if it is not there."""
        return panel.one(**self.reference) if self.reference and len(panel.select(**self.reference)) else None

    def row_label(self, group: Group, results: Results) -> str:
        """What tells this group from the others within its panel."""
        names = [name for name in results.varying if name not in self.facets and group.flat.get(name) is not None]
        kind = str(group.flat[self.color]) if self.color in names else ""
        others = describe(short({name: group.flat[name] for name in names if name != self.color}))
        return ", ".join(filter(None, [kind, others])) or "all"


STUDIES: dict[str, Study] = {}
S = TypeVar("S", bound=Study)


def register(study: type[S]) -> type[S]:
    """Class decorator: put a study into `STUDIES`."""
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", study.name):
        raise ValueError(f"name of a study must be lower-case letters, digits, '_' and '-', not {study.name!r}")
    if study.name in STUDIES:
        raise ValueError(f"name of a study must be new, and {study.name!r} is taken")
    STUDIES[study.name] = study()
    return study


def load_studies() -> dict[str, Study]:
    """Import every module of `taciturn.bench.papers` and `taciturn.bench.comparisons`; return the registered studies by name."""
    for name in ("taciturn.bench.comparisons", "taciturn.bench.papers"):
        package = importlib.import_module(name)
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return STUDIES


def canonical(value: Any) -> str:
    """The one JSON text of a value. Raises ValueError or TypeError for what JSON lacks, infinities included."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def flatten(config: Config, prefix: str = "") -> Config:
    """Nested dictionaries as one, with dotted names."""
    flat: Config = {}
    for name, value in config.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def matches(config: Config, entries: Config) -> bool:
    """Whether a configuration holds all these entries, named with dots where nested."""
    flat, wanted = flatten(config), flatten(entries)
    return all(name in flat and flat[name] == value for name, value in wanted.items())


def describe(entries: Config) -> str:
    """`policy=FixedCount, k=10`: entries on one line, long values cut."""
    texts = {name: value if isinstance(value, str) else canonical(value) for name, value in entries.items()}
    return ", ".join(f"{name}={text if len(text) <= 40 else text[:39] + '…'}" for name, text in texts.items())


def short(flat: Config) -> Config:
    """Dotted names cut to their last parts."""
    return {name.rpartition(".")[2]: value for name, value in flat.items()}
