"""The studies: cells are distinct and sufficient, quick ones run, and the verdicts use the exact solver's values."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from taciturn.bench.catalogue import figures, load_studies, matching
from taciturn.bench.papers.chen2021.settings import LIMIT
from taciturn.bench.play import learns
from taciturn.bench.report import write_report
from taciturn.bench.results import Cell, Group, Result, Results
from taciturn.bench.runner import run_study
from taciturn.bench.store import Store
from taciturn.bench.study import DIFFERS, IN_KIND
from taciturn.bench.tables import ours
from taciturn.bench.tasks.contest import PLAIN_PPO
from taciturn.policies import OptimalStopping
from taciturn.registry import entry
from taciturn.testing import check_study

ROOT = Path(__file__).parents[1]
STUDIES = {
    name: study
    for name, study in load_studies().items()
    if type(study).__module__.startswith(("taciturn.bench.comparisons.", "taciturn.bench.papers."))
}


def test_every_study_is_found() -> None:
    """Of each paper that has a folder, and of each module that registers one."""
    papers = {name.partition("-")[0] for name, study in STUDIES.items() if study.figures}
    bench = ROOT / "src/taciturn/bench"
    assert papers == {file.parent.name for file in bench.glob("papers/*/__init__.py")}
    written = sum(file.read_text(encoding="utf-8").count("\n@register\n") for file in bench.rglob("*.py"))
    assert len(STUDIES) == written
    for name, study in STUDIES.items():
        assert all(figure.startswith(name.partition("-")[0] + "/") for figure in study.figures)


def test_the_docs_name_every_paper_and_nothing_unknown() -> None:
    page = (ROOT / "docs/command_line.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([a-z]+20\d\d(?:/[\w.-]+)?)`", page))
    known = figures(STUDIES)
    assert {figure.partition("/")[0] for name in names for figure in matching(name, known)} == {
        figure.partition("/")[0] for figure in known
    }


def test_cells_are_different() -> None:
    for name, study in STUDIES.items():
        for quick in (True, False):
            cells = study.cells(quick)
            assert len({cell.key for cell in cells}) == len(cells), (name, quick)


def wrong_seeds(name: str) -> list[str]:
    """The configurations of a study that have too few seeds, or others than declared."""
    declared = getattr(STUDIES[name], "seeds", (5, 20))[1]
    # The cells of two studies of Tao et al. take minutes, and their seeds differ by far less than what is claimed.
    enough = declared >= (3 if name in ("tao2023-4", "tao2023-variants") else 5)
    seeds: dict[str, set[int]] = {}
    for cell in STUDIES[name].cells(False):
        seeds.setdefault(json.dumps(cell.config), set()).add(cell.seed)
    wrong = []
    for config, found in seeds.items():
        if "trials" in json.loads(config):  # an audit, which plays thousands of runs for one certificate
            right = found == {0}
        else:
            policy = str(json.loads(config).get("policy"))
            trained = learns(policy) or policy == PLAIN_PPO
            # A limit is a calculation, which has nothing to draw.
            expected = 1 if policy == LIMIT else 10 if trained else declared
            more = ("chen2021-2", "tao2023-2", "tao2023-variants")  # some settings have more seeds
            right = len(found) >= expected if name in more else len(found) == expected
            right &= enough and found == set(range(len(found)))
        if not right:
            wrong.append(config)
    return wrong


def test_studies_have_enough_seeds() -> None:
    found = {name: wrong for name in STUDIES if (wrong := wrong_seeds(name))}
    assert not found, found


# Names of networks that these studies make themselves, and clients without data.
READ_OTHERWISE = {"federated-bandit", "li2022-10", "li2022-11", "li2022-12", "leakage"}


@pytest.mark.parametrize("name", sorted(STUDIES.keys() - READ_OTHERWISE))
def test_every_setting_is_one_that_its_world_allows(name: str) -> None:
    """Settings that only full runs play, too: qualities are probabilities, and names are those of parameters."""
    settings = {}
    for quick in (True, False):
        for cell in STUDIES[name].cells(quick):
            if "env" in cell.config and "env_params" in cell.config:
                settings[json.dumps([cell.config["env"], cell.config["env_params"]])] = cell.config
    for config in settings.values():
        assert entry(config["env"]).world.population(**config["env_params"]).num_envs == 1


def first(name: str, **entries: object) -> Cell:
    return next(c for c in STUDIES[name].cells(True) if entries.items() <= c.config.items())


@pytest.mark.parametrize(
    "cell",
    [
        first("round-stopping", policy="OptimalStopping"),
        first("federated-training", policy="Fraction"),
        first("jiang2020-3-2"),
        first("jiang2020-3-5", env="round_stopping_v0", policy="FixedCount"),
        first("li2022-4"),
        first("chen2021-5", policy="PPCL"),
        first("social-learning", policy="PrivateSocialLearning"),
        first("chen2021-6", policy=LIMIT),
        first("federated-bandit", policy="UCB1"),
        first("tao2023-fast"),
        first("azize2022-2", policy="DPIMED"),
        first("chowdhury2023-1", policy="DistRDPSE"),
        first("zhou2021-10", policy="DTPriDO", privacy={"statistics": "TreeAggregation:2"}),
        first("jiang2020-2", cost="quadratic", num_individuals=100),
        first("jiang2020-2-crowd", payment="WINTALL-20"),
        first("elicitation", crowd="mixed", platform="PeerTruthSerum"),
    ],
    ids=lambda cell: cell.study,
)
def test_a_cell_gives_its_score_and_the_same_one_again(cell: Cell) -> None:
    check_study(STUDIES[cell.study], [cell])


def test_verdicts_on_wintall() -> None:
    """The payments that the paper reports follow from its own counts; what a deviation gains and where it does not
    vanish."""
    crowd = {v.quantity: v for v in STUDIES["jiang2020-2-crowd"].verdicts(Results([]))}
    cuts = crowd["Figure 2.4: payment below Flat (%, from the paper's own counts of very good answers)"]
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
    equilibrium = verdicts["Theorem 2: the target is a Nash equilibrium (best deviation's gain over the bound, exact)"]
    assert equilibrium.verdict == IN_KIND
    assert "if everyone is at eps = 0, no deviation gains more than" in equilibrium.reason
    pays = verdicts["Section 2.3: with many individuals the payment is close to the bound (over (2.19), N = 30,000)"]
    numbers = dict(zip(pays.labels, pays.numbers, strict=True))
    assert numbers["two values, linear, exact"].value < 1.03 < numbers["four values, linear, exact"].value
    assert pays.verdict == DIFFERS  # with 3,000 individuals and four values
    assert not any("logarithmic" in label for one in verdicts.values() for label in one.labels)


def test_exact_numbers_in_the_verdicts_are_the_solvers() -> None:
    verdicts = {v.quantity: v for v in STUDIES["jiang2020-3-3"].verdicts(Results([]))}
    solution = OptimalStopping.solve()
    rate = verdicts["Section 3.4.1: lambda*, the optimal rate"]
    assert rate.numbers[0].value == solution.rate
    assert ours(verdicts["Section 3.4.1: thresholds k* and k0*"]) == "k*: {}; k0*: {}".format(*solution.thresholds)
    assert verdicts["Section 3.4.1: lambda, upper bound"].numbers[0].value == solution.bounds[1]
    assert "0.01209" in rate.reason
    assert "0.01234" in verdicts["Section 3.4.1: lambda, upper bound"].reason
    assert "(10, 8)" in verdicts["Section 3.4.1: thresholds k* and k0*"].reason


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
    for said in ("0.01203", "differs", "mean time of a round (s)", "loss of k=10"):
        assert said in page
    verdicts = {v.quantity: v for v in Little().verdicts(store.results("little"))}
    times = verdicts["Section 3.4.1: mean time of a round (s)"]
    assert ours(times).startswith("(10, 8): 3.4")
    assert "xactly (10, 8): 3.448, k=10: 3.549, k=100: 28.93" in times.reason
