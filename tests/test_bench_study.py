"""Cells, results and how they are gathered."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import taciturn
from taciturn.bench import study as module
from taciturn.bench.catalogue import load_studies, matching
from taciturn.bench.results import Cell, Group, Result, Results, describe, flatten, matches
from taciturn.bench.store import Store
from taciturn.bench.study import CENTRALISED, Score, Study, register
from taciturn.policies import Policy
from taciturn.registry import UnknownName
from taciturn.testing import check_study

FIGURES = ["jiang2020/2.1", "jiang2020/3.2", "jiang2020/3.3", "chen2021/1", "chen2021/10", "li2022/4", "li2022/table-1"]


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


@pytest.mark.parametrize(
    ("name", "selected"),
    [
        ("jiang2020/3.3", ["jiang2020/3.3"]),
        ("jiang2020/3", ["jiang2020/3.2", "jiang2020/3.3"]),
        ("jiang2020", ["jiang2020/2.1", "jiang2020/3.2", "jiang2020/3.3"]),
        ("chen2021", ["chen2021/1", "chen2021/10"]),
        ("chen2021/1", ["chen2021/1"]),
        ("li2022/table-1", ["li2022/table-1"]),
    ],
)
def test_a_name_selects_a_figure_a_chapter_or_a_paper(name: str, selected: list[str]) -> None:
    assert matching(name, FIGURES) == selected


@pytest.mark.parametrize(
    ("name", "near"),
    [("li2022/5", "li2022/4"), ("li2021", "li2022"), ("jiang2020/4", "jiang2020/3"), ("3.3", "jiang2020/3.3")],
)
def test_an_unknown_figure_is_answered_with_near_names(name: str, near: str) -> None:
    with pytest.raises(UnknownName, match=rf"unknown figure '{name}'.*{near}"):
        matching(name, FIGURES)


def group(config: dict[str, Any], seeds: list[int]) -> Group:
    metrics = {"value": np.array(seeds, dtype=float)}
    return Group(config, np.array(seeds), metrics, {}, np.zeros(len(seeds)))


def test_groups_are_paired_by_seed() -> None:
    one, other = group({}, [0, 1, 3]), group({}, [1, 2, 3])
    mine, theirs = one.shared_seeds(other)
    assert (mine.tolist(), theirs.tolist()) == ([1, 2], [0, 2])
    assert [values.tolist() for values in one.paired(other, "value")] == [[1.0, 3.0], [1.0, 3.0]]


def test_seeds_of_a_group_ascend_in_whatever_order_they_finished(tmp_path: Path) -> None:
    tables = []
    for seed in (2, 0, 1):
        store = Store(tmp_path)
        store.cells.mkdir(exist_ok=True)
        one = cell({"a": 1}, seed)
        store.write(one, Result({"value": float(seed)}), 0.0)
        tables.append(store._read(one.key))
    (found,) = Results.from_table(pa.concat_tables(tables))
    assert found.seeds.tolist() == [0, 1, 2]
    assert found.metrics["value"].tolist() == [0.0, 1.0, 2.0]


def test_find_takes_entries_as_a_whole_and_matches_takes_parts() -> None:
    plain, limited = {"policy_params": {}, "runs": 3}, {"policy_params": {"k": 1, "levels": [1, 2]}, "runs": 3}
    results = Results([group(limited, [0]), group(plain, [0])])
    assert results.get({"policy_params": {}}).config == plain
    assert results.get({"policy_params": {"k": 1, "levels": (1, 2)}}).config == limited
    assert results.find({"policy_params": {"k": 1}}) is None
    with pytest.raises(ValueError, match="no results for"):
        results.get({"policy_params": {"k": 1}})
    assert results.one(policy_params={"k": 1}).config == limited
    assert results.one(**{"policy_params.k": 1}).config == limited
    assert results.one(policy_params={}).config == plain
    noisy = plain | {"privacy": "paper"}
    assert Results([group(noisy, [0]), group(plain, [0])]).get(plain).config == plain
    assert Results([group(noisy, [0])]).get(plain).config == noisy
    assert not matches(limited, {"policy_params": {}})


def test_real_studies_are_found_and_well_formed() -> None:
    for name, study in load_studies().items():
        assert study.name == name
        check_study(study, cells=())


def test_tables_mark_policies_that_know_the_truth() -> None:
    def group(policy: str, **parameters: Any) -> Group:
        one = np.ones(1)
        return Group({"policy": policy, "policy_params": parameters}, np.zeros(1, np.int64), {"score": one}, {}, one)

    rows = Results(
        [group("OracleOption"), group("Uniform"), group("CDPMAB", rounds=3), group("CDPMAB", rounds=3, gap=0.1)]
    )
    marked = [Study().label(row, rows).endswith("(knows the hidden truth)") for row in rows]
    assert marked == [True, False, True, False]


def test_tables_make_a_policy_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(Policy):
        centralised = True

        def __init__(self, k: int = 1) -> None:
            made.append(k)

    monkeypatch.setattr("taciturn.bench.study.policy_class", {"Counted": Counted}.get)
    monkeypatch.setattr("taciturn.bench.study.own_policies", lambda: {"Counted": Counted})
    one = np.ones(2)
    configs = [{"policy": "Counted", "policy_params": {"k": k}} for k in (1, 2)]
    rows = Results(Group(config, np.arange(2), {"score": one}, {}, one) for config in configs)
    labels = [Study().label(row, rows) for _ in range(3) for row in rows]
    assert labels == ["k=1 (centralised)", "k=2 (centralised)"] * 3
    assert made == [1, 2]


def test_who_pools_is_never_best() -> None:
    """Declared by the policy, or found by the check before a run."""

    def scored(policy: str, score: float, **more: float) -> Group:
        metrics = {name: np.full(2, value) for name, value in ({"score": score} | more).items()}
        return Group({"policy": policy, "policy_params": {}}, np.arange(2), metrics, {}, np.zeros(2))

    honest, worse, oracle = scored("PPCL", 0.5), scored("Voter", 0.4), scored("CentralisedOracle", 0.9)
    panel = Results([worse, oracle, honest, scored("mine", 0.8, **{CENTRALISED: 1.0})])

    class Higher(Study):
        score = Score("score")

    assert Higher().best(panel) is honest
    assert Higher().best(Results([oracle])) is None
