"""Cells, results and how they are gathered."""

import math
from typing import Any

import numpy as np
import pytest

import taciturn
from taciturn.bench import study as module
from taciturn.bench.study import Cell, Result, Study, describe, flatten, load_studies, register


def cell(config: dict[str, Any], seed: int = 0) -> Cell:
    return Cell("s", config, seed)


def test_key_depends_on_what_determines_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell({"a": 1, "b": {"c": (1, 2)}})
    assert one.key == cell({"b": {"c": [1, 2]}, "a": 1}).key
    assert one.config == {"a": 1, "b": {"c": [1, 2]}}
    different = {one.key, cell({"a": 2}).key, cell({"a": 1}).key, cell({"a": 1}, 1).key, Cell("t", {"a": 1}, 0).key}
    assert len(different) == 5
    monkeypatch.setattr(taciturn, "__version__", "999")
    assert cell({"a": 1}).key not in different


@pytest.mark.parametrize("value", [math.inf, math.nan, np.int64(1), np.ones(2), {1, 2}])
def test_config_must_be_json(value: Any) -> None:
    with pytest.raises(ValueError, match="config of study 's' must hold finite JSON values"):
        cell({"a": value})


def test_result_is_checked() -> None:
    Result({"a": math.inf}, {"c": (range(3), [1.0, 2.0, math.inf])})
    with pytest.raises(ValueError, match="metric 'a' must be a number, not NaN"):
        Result({"a": math.nan})
    with pytest.raises(ValueError, match="at least one"):
        Result({})
    with pytest.raises(ValueError, match="curve 'c' must be two vectors of one length"):
        Result({"a": 1.0}, {"c": ([0, 1], [0])})
    with pytest.raises(ValueError, match="curve 'c' must hold numbers, not NaN"):
        Result({"a": 1.0}, {"c": ([0], [math.nan])})


def test_names() -> None:
    assert flatten({"a": 1, "b": {"c": 2, "d": {}}}) == {"a": 1, "b.c": 2}
    assert describe({"a": "x", "b.c": 1.5, "d": [1, 2], "e": "y" * 60}) == f"a=x, b.c=1.5, d=[1,2], e={'y' * 39}…"


def test_registry_refuses_bad_and_taken_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tiny(Study):
        name = "tiny"

    monkeypatch.setattr(module, "STUDIES", {})
    assert register(Tiny) is Tiny
    assert isinstance(module.STUDIES["tiny"], Tiny)
    with pytest.raises(ValueError, match="'tiny' is taken"):
        register(Tiny)
    with pytest.raises(ValueError, match=r"not '\.\./x'"):
        register(type("Bad", (Study,), {"name": "../x"}))


def test_real_studies_are_found_and_well_formed() -> None:
    for name, study in load_studies().items():
        assert study.name == name
        assert study.title
        assert study.score.metric
        for quick in (True, False):
            cells = study.cells(quick)
            assert cells
            assert len({cell.key for cell in cells}) == len(cells)
            assert {cell.study for cell in cells} == {name}
