"""The papers' studies: all are declared, cells are distinct and sufficient, quick ones run, and the verdicts use the
exact solver's values."""

import inspect
import json
import pkgutil
import re
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from study_checks import check_cells_differ, check_seeds, check_settings, first

import taciturn_papers
from taciturn.bench.catalogue import figures, load_studies, matching
from taciturn.bench.report import write_report
from taciturn.bench.results import Cell, Group, Result, Results
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store
from taciturn.bench.study import DIFFERS, IN_KIND, Study
from taciturn.bench.tables import ours
from taciturn.policies import OptimalStopping
from taciturn.testing import check_study
from taciturn_papers.chen2021.settings import LIMIT

ROOT = Path(__file__).parents[2]
DECLARED = distribution("taciturn-papers").entry_points.select(group="taciturn.studies")
STUDIES = {name: study for name, study in load_studies().items() if name in DECLARED.names}


def test_every_study_is_declared() -> None:
    """Of each paper that has a folder, all that are named."""
    names = [module.name for module in pkgutil.walk_packages(taciturn_papers.__path__, "taciturn_papers.")]
    kinds = {one for name in names for _, one in inspect.getmembers(import_module(name), inspect.isclass)}
    written = {one for one in kinds if issubclass(one, Study) and one.__module__ in names and "name" in vars(one)}
    assert {type(study) for study in STUDIES.values()} == written
    papers = {name.partition("-")[0] for name in STUDIES}
    assert papers == {name.split(".")[1] for name in names if name.count(".") == 2}
    for name, study in STUDIES.items():
        assert study.figures
        assert all(figure.startswith(name.partition("-")[0] + "/") for figure in study.figures)


def test_the_docs_name_every_paper_and_nothing_unknown() -> None:
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([a-z]+20\d\d(?:/[\w.-]+)?)`", page))
    known = figures(STUDIES)
    assert {figure.partition("/")[0] for name in names for figure in matching(name, known)} == {
        figure.partition("/")[0] for figure in known
    }


@pytest.mark.parametrize("name", STUDIES)
def test_cells_are_different(name: str) -> None:
    check_cells_differ(STUDIES[name])


@pytest.mark.parametrize("name", STUDIES)
def test_studies_have_enough_seeds(name: str) -> None:
    # The cells of two studies of Tao et al. take minutes, and their seeds differ by far less than what is claimed.
    fewest = 3 if name in ("tao2023-4", "tao2023-variants") else 5
    check_seeds(
        STUDIES[name],
        fewest=fewest,
        more=name in ("chen2021-2", "tao2023-2", "tao2023-variants"),
        certain=(LIMIT,),  # a calculation
    )


# Names of networks that these studies make themselves.
READ_OTHERWISE = {"li2022-10", "li2022-11", "li2022-12"}


@pytest.mark.parametrize("name", sorted(STUDIES.keys() - READ_OTHERWISE))
def test_every_setting_is_one_that_its_world_allows(name: str) -> None:
    check_settings(STUDIES[name])


@pytest.mark.parametrize(
    "cell",
    [
        first(STUDIES["jiang2020-3-2"]),
        first(STUDIES["jiang2020-3-5"], env="round_stopping_v0", policy="FixedCount"),
        first(STUDIES["li2022-4"]),
        first(STUDIES["chen2021-5"], policy="PPCL"),
        first(STUDIES["chen2021-6"], policy=LIMIT),
        first(STUDIES["tao2023-fast"]),
        first(STUDIES["azize2022-2"], policy="DPIMED"),
        first(STUDIES["chowdhury2023-1"], policy="DistRDPSE"),
        first(STUDIES["zhou2021-10"], policy="DTPriDO", privacy={"statistics": "TreeAggregation:2"}),
        first(STUDIES["jiang2020-2"], cost="quadratic", num_individuals=100),
        first(STUDIES["jiang2020-2-crowd"], payment="WINTALL-20"),
    ],
    ids=lambda cell: cell.study,
)
def test_a_cell_gives_its_score_and_the_same_one_again(cell: Cell) -> None:
    check_study(STUDIES[cell.study], [cell])


def test_verdicts_on_wintall() -> None:
    """The payments that the paper reports follow from its own counts; what a deviation gains and where it does not
    vanish."""
    crowd = {v.quantity: v for v in STUDIES["jiang2020-2-crowd"].verdicts(Results([]))}
    (cuts,) = (one for name, one in crowd.items() if name.startswith("Figure 2.4: payment"))
    assert [one.value for one in cuts.numbers] == pytest.approx([30.0, 24.4], abs=0.05)
    study = STUDIES["jiang2020-2"]
    cells = [c for c in study.cells(True) if c.seed < 3 and c.config["num_individuals"] in (10, 3000)]
    groups: dict[str, list[tuple[Cell, Result]]] = {}
    for cell in cells:
        groups.setdefault(json.dumps(cell.config), []).append((cell, study.run(cell)))
    found = Results(
        Group(
            pairs[0][0].config,
            np.array([cell.seed for cell, _ in pairs]),
            {name: np.array([result.metrics[name] for _, result in pairs]) for name in pairs[0][1].metrics},
            {},
            np.zeros(len(pairs)),
        )
        for pairs in groups.values()
    )
    verdicts = {v.quantity: v for v in study.verdicts(found)}
    (equilibrium,) = (one for name, one in verdicts.items() if "is a Nash equilibrium" in name)
    assert equilibrium.verdict == IN_KIND
    assert "if all individuals choose eps = 0, no deviation gains" in equilibrium.reason
    (pays,) = (one for name, one in verdicts.items() if name.startswith("Section 2.3: with many individuals"))
    numbers = dict(zip(pays.labels, pays.numbers, strict=True))
    assert numbers["two values, linear, exact"].value < 1.03 < numbers["four values, linear, exact"].value
    assert pays.verdict == DIFFERS  # with 3,000 individuals and four values
    assert not any("logarithmic" in label for one in verdicts.values() for label in one.labels)


def test_exact_numbers_in_the_verdicts_are_the_solvers() -> None:
    verdicts = {v.quantity.partition(" (")[0]: v for v in STUDIES["jiang2020-3-3"].verdicts(Results([]))}
    solution = OptimalStopping.solve()
    rate = verdicts["Section 3.4.1: lambda* is 0.01209"]
    upper = verdicts["Section 3.4.1: lambda has the upper bound 0.01234"]
    thresholds = verdicts["Section 3.4.1: thresholds k* and k0* are 10 and 8"]
    assert rate.numbers[0].value == solution.rate
    assert ours(thresholds) == "k*: {}; k0*: {}".format(*solution.thresholds)
    assert upper.numbers[0].value == solution.bounds[1]
    assert "0.01209" in rate.reason
    assert "0.01234" in upper.reason
    assert "(10, 8)" in thresholds.reason


def test_figures_are_reproduced_in_little(tmp_path: "object") -> None:
    """One seed of every configuration of Figures 3.3 and 3.4, to the report."""
    study = STUDIES["jiang2020-3-3"]

    class Little(type(study)):  # type: ignore[misc]
        name = "little"

        def cells(self, quick: bool) -> list[Cell]:
            cells = []
            for cell in super().cells(True):
                if cell.seed < 2:
                    trained = cell.config["env"] == "federated_training_v0"
                    params = {**cell.config["env_params"], **({"horizon": 40.0} if trained else {})}
                    cells.append(Cell("little", {**cell.config, "env_params": params}, cell.seed))
            return cells

    store = Store(str(tmp_path))
    run_study([Little()], store, quick=True, progress=False)
    page = write_report(store, str(tmp_path), [Little()]).read_text()
    assert page.count("<svg") == 2
    for said in ("0.01203", "differs", "mean time of a round", "lower loss than k = 10"):
        assert said in page
    times = next(
        v for v in Little().verdicts(store.results("little")) if v.quantity.startswith("Section 3.4.1: rounds")
    )
    assert ours(times).startswith("(10, 8): 3.4")
    assert "exact means are (10, 8): 3.448, k=10: 3.549, k=100: 28.93" in times.reason
