"""Checks of a study: its cells are declared well, and a cell reproduces its score."""

from collections.abc import Iterable

from taciturn.bench.catalogue import studies_named
from taciturn.bench.results import Cell
from taciturn.bench.study import Study


def check_study(study: Study | str, cells: Iterable[Cell] | None = None) -> None:
    """Check a study, given as an object, by name or as `module:Class`. Each of `cells`, by default the first quick one,
    is run twice."""
    if isinstance(study, str):
        (study,) = studies_named([study])
    assert study.title
    assert study.score.metric
    for quick in (False, True):
        declared = study.cells(quick)
        assert declared
        assert len({cell.key for cell in declared}) == len(declared), "cells must differ in their configuration or seed"
        assert {cell.study for cell in declared} == {study.name}
    for cell in declared[:1] if cells is None else cells:
        result, again = study.run(cell), study.run(cell)
        assert result.metrics == again.metrics, "a cell must draw from its seed alone"
        assert study.score.metric in result.metrics or "mean_duration" in result.metrics
