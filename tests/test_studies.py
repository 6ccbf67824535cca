"""The suite's own studies: cells are distinct and sufficient, and quick ones run."""

from pathlib import Path

import pytest
from study_checks import check_cells_differ, check_seeds, check_settings, first

from taciturn.bench.catalogue import own_studies
from taciturn.bench.results import Cell
from taciturn.testing import check_study

STUDIES = {name: study for name, study in own_studies().items() if type(study).__module__.startswith("taciturn.")}


def test_every_study_is_found() -> None:
    bench = Path(__file__).parents[1] / "bench"
    written = sum(file.read_text(encoding="utf-8").count("\n@register\n") for file in bench.rglob("*.py"))
    assert len(STUDIES) == written
    assert not [name for name, study in STUDIES.items() if study.figures], "papers have a distribution of their own"


@pytest.mark.parametrize("name", STUDIES)
def test_cells_are_different(name: str) -> None:
    check_cells_differ(STUDIES[name])


@pytest.mark.parametrize("name", STUDIES)
def test_studies_have_enough_seeds(name: str) -> None:
    check_seeds(STUDIES[name], more=name == "agents")  # papers' agents play the seeds of the trainings


# Clients have no data there.
READ_OTHERWISE = {"leakage"}


@pytest.mark.parametrize("name", sorted(STUDIES.keys() - READ_OTHERWISE))
def test_every_setting_is_one_that_its_world_allows(name: str) -> None:
    check_settings(STUDIES[name])


@pytest.mark.parametrize(
    "cell",
    [
        first(STUDIES["agents"], policy="OptimalStopping"),
        first(STUDIES["agents"], policy="Wintall"),
        first(STUDIES["agents"], policy="DividedPlan", budget=3.0),
        first(STUDIES["social-recommender"], policy="TPriDO", level="noise on everything"),
    ],
    ids=lambda cell: f"{cell.study} {cell.config.get('policy', '')}".strip(),
)
def test_a_cell_gives_its_score_and_the_same_one_again(cell: Cell) -> None:
    check_study(STUDIES[cell.study], [cell])
