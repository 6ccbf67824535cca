"""A study: its declared cells, the function that runs one, and the evaluation of its results."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from taciturn.bench.results import Cell, Config, Group, Progress, Result, Results, canonical, describe, file_name, short
from taciturn.bench.statistics import Estimate
from taciturn.envs.core.descriptor import Descriptor
from taciturn.policies import Learner, Policy
from taciturn.registry import entry, own_policies, policy_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGREES, IN_KIND, DIFFERS, UNDECIDED, NOT_COMPUTED = VERDICTS = (
    "agrees",
    "qualitative",
    "differs",
    "undecided",
    "cannot be computed",
)


@dataclass(frozen=True)
class Score:
    """The headline metric of a study."""

    metric: str
    higher_is_better: bool = True
    label: str = ""

    @property
    def title(self) -> str:
        """Axis label."""
        return self.label or self.metric.replace("_", " ")

    @property
    def direction(self) -> str:
        """The direction in which the score improves."""
        return "higher is better" if self.higher_is_better else "lower is better"


@dataclass(frozen=True)
class Verdict:
    """A claim of a paper and the computed numbers; `labels` name them if there are several.

    `verdict` is one of `VERDICTS`, and `reason` explains it. `quote` holds the paper's words; `tolerance` states the
    source of the limits of agreement. `own`: a check of ours, not a claim of the paper.
    """

    quantity: str
    paper: float | str
    numbers: Sequence[Estimate]
    verdict: str
    reason: str = ""
    labels: Sequence[str] = ("",)
    quote: str = ""
    tolerance: str = ""
    own: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, not {self.verdict!r}")


def centralised(group: Group) -> bool:
    """Whether the agents of a group are centralised: a check before a run found it, or a policy of this package
    declares it."""
    kind = own_policies().get(str(group.config.get("policy")))
    return declares(kind, "centralised", group.config) or bool(np.any(group.metrics.get(CENTRALISED, 0)))


def declares(kind: Any, name: str, config: Config) -> bool:
    """Whether a policy of this class, with the parameters in a configuration, declares `name`."""
    return kind is not None and name in _declared(kind, canonical(config.get("policy_params", {})))


@lru_cache(1024)
def _declared(kind: Any, parameters: str) -> frozenset[str]:
    """The flags among `needs_truth`, `centralised` and `memoryless` that a policy declares. The policy is constructed,
    since they may depend on its parameters (JSON)."""
    try:
        policy = kind(**json.loads(parameters))
    except (TypeError, ValueError):  # parameters of another version, or wrong ones
        return frozenset()
    return frozenset(
        name for name in ("needs_truth", "centralised", "memoryless") if getattr(policy, name, False) is True
    )


@dataclass(frozen=True)
class Table:
    """A table of text. Columns with indices in `words` are left-aligned, the others (numbers) right-aligned.

    If `explained`, the last entry of each row is a sentence shown below that row. A terminal that is too narrow for all
    columns leaves out columns in the order in which `spare` names them.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    words: frozenset[int] = frozenset({0})
    explained: bool = False
    spare: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plot:
    """A figure, the stem of its file names (see `taciturn.bench.results.file_name`), its caption, and a version for
    narrow screens, if it has one."""

    name: str
    figure: "Figure"
    caption: str
    narrow: "Figure | None" = None

    def __post_init__(self) -> None:
        file_name("figure", self.name)


class Study:
    """A declared sweep with a score: subclass it in a module, and give `name`, `title`, `score`, `cells` and `run`.

    Each configuration is a row of tables and plots. `reference` holds the entries of the configuration that the others
    are compared with. `facets` names the entries that split the study into panels (rows are compared within a panel),
    `color` names the entry that determines a row's colour, and `rows` names the entries that label a row (default: all
    that vary). With `headline` the study is part of the standing benchmark: its `answers` and its first table open the
    report. Nested entries are named with dots: "policy_params.k". `figures` names the published figures and tables that
    the study reproduces ("jiang2020/3.3"), and `world` names the environment if configurations do not. With
    `only_own_seeds` only the seeds in `cells` are valid. Studies and cells are pickled to reach worker processes.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str] = ""
    score: ClassVar[Score]
    reference: ClassVar[Config] = {}
    facets: ClassVar[tuple[str, ...]] = ()
    color: ClassVar[str] = "policy"
    rows: ClassVar[tuple[str, ...]] = ()
    headline: ClassVar[bool] = False
    only_own_seeds: ClassVar[bool] = False
    world: ClassVar[str] = ""
    figures: ClassVar[tuple[str, ...]] = ()

    def cells(self, quick: bool) -> list[Cell]:
        """All cells, in the order in which tables show them; with `quick`, a few that take about a minute."""
        raise NotImplementedError

    def run(self, cell: Cell, progress: Progress | None = None) -> Result:
        """Compute one cell from its configuration and seed alone. `progress` is called with the fraction done."""
        raise NotImplementedError

    def tolerance(self, config: Config) -> float:
        """The largest relative difference between a cell's real-valued metrics on two processors, as its environment
        declares. Counts and choices must be equal."""
        return entry(str(config["env"])).tolerance if "env" in config else Descriptor.tolerance

    def drawn_since(self, config: Config) -> int:
        """The earliest version of the random streams in which a cell's seed gives the same runs as now."""
        world = str(config.get("env", self.world))
        return entry(world).drawn_since if world else Descriptor.drawn_since

    def trains(self, config: Config) -> bool:
        """Whether a cell trains its agent. The last digits of sums affect the learned weights, so the weights differ
        between processors."""
        return issubclass(policy_class(str(config.get("policy"))) or Policy, Learner)

    def match_stored(self, group: Group) -> None:
        """From now on run the cells of this configuration by the design of the stored results, even if the present one
        asks for more (such as more runs per seed)."""

    def answers(self, results: Results) -> list[str]:
        """The findings in whole sentences, which open the report."""
        return []

    def tables(self, results: Results) -> list[Table] | None:
        """Tables of the report; None for the standard ones (`taciturn.bench.tables.standard_tables`)."""
        return None

    def plots(self, results: Results) -> list[Plot] | None:
        """Plots of the report; None for the standard ones (`taciturn.bench.figures.standard_plots`)."""
        return None

    def verdicts(self, results: Results) -> list[Verdict]:
        """The claims of the paper that the study reproduces, if any, with the computed values."""
        return []

    def sweep(self, configs: Iterable[Config], seeds: Iterable[int]) -> list[Cell]:
        """Every configuration with every seed."""
        seeds = list(seeds)
        return [Cell(self.name, config, seed) for config in configs for seed in seeds]

    def panels(self, results: Results) -> list[tuple[str, Results]]:
        """The results split by `facets`: [("time_law=pareto", results), ...]; without facets, one untitled panel."""
        panels: dict[str, list[Group]] = {}
        for group in results:
            panels.setdefault(describe(short({name: group.flat.get(name) for name in self.facets})), []).append(group)
        return [(title, Results(groups)) for title, groups in panels.items()]

    def reference_group(self, panel: Results) -> Group | None:
        """The group to compare the others of a panel with, or None if it was not run."""
        return panel.one(**self.reference) if self.reference and len(panel.select(**self.reference)) else None

    def best(self, panel: Results) -> Group | None:
        """The group with the best mean score in a panel, among non-centralised ones; None if none has the score."""
        sign = 1 if self.score.higher_is_better else -1
        known = [group for group in panel if self.score.metric in group.metrics and not centralised(group)]
        return max(known, key=lambda group: sign * group.mean(self.score.metric), default=None)

    def label(self, group: Group, results: Results) -> str:
        """`row_label`, with a note if the policy knows hidden truth, or is centralised."""
        known = self.knows_truth(group.config)
        return self.row_label(group, results) + KNOWS_TRUTH * known + CENTRALISED_LABEL * centralised(group)

    def knows_truth(self, config: Config) -> bool:
        """Whether the policy of a configuration knows hidden truth. Imports no module, since the results may come from
        someone else."""
        name = str(config.get("policy"))
        module, colon, _ = name.partition(":")
        kind = policy_class(name) if not colon or module in sys.modules else None
        return declares(kind, "needs_truth", config)

    def row_label(self, group: Group, results: Results) -> str:
        """The configuration entries in which this group differs from the others of its panel, as text."""
        if self.rows:
            return ", ".join(str(group.flat[name]) for name in self.rows)
        names = [name for name in results.varying if name not in self.facets and group.flat.get(name) is not None]
        kind = str(group.flat[self.color]) if self.color in names else ""
        others = describe(short({name: group.flat[name] for name in names if name != self.color}))
        return ", ".join(filter(None, [kind, others])) or "all"


KNOWS_TRUTH, CENTRALISED_LABEL = " (knows the hidden truth)", " (centralised)"
CENTRALISED = "centralised"
"""The metric with the outcome of the centralisation check (`taciturn.centralisation`), 0 or 1."""
STUDY_NAMES = "[a-z][a-z0-9_-]*"
STUDIES: dict[str, Study] = {}
S = TypeVar("S", bound=Study)


def register(study: type[S]) -> type[S]:
    """Class decorator: add a study to `STUDIES`."""
    if not re.fullmatch(STUDY_NAMES, study.name):
        raise ValueError(f"name of a study must be lower-case letters, digits, '_' and '-', not {study.name!r}")
    if study.name in STUDIES:
        raise ValueError(f"name of a study must be new, but {study.name!r} is taken")
    STUDIES[study.name] = study()
    return study
