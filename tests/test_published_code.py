"""Comparisons with published code, those whose peers are installed here, and the page that reports all of them."""

import json

import published_code
import pytest
from test_packaging import ROOT

from taciturn.policies.classic.tree_search import OptimisticTree


def test_the_tree_search_agrees_with_pyxab_and_a_wrong_width_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = published_code.pyxab(seeds=1)
    assert row.agree == row.cases == 6
    right = OptimisticTree.refresh
    monkeypatch.setattr(OptimisticTree, "refresh", lambda tree, node, log: right(tree, node, log / 2))
    (row,) = published_code.pyxab(seeds=1)
    assert row.agree == 0


def test_the_gaussian_mechanism_agrees_with_dp_accounting() -> None:
    (row,) = published_code.dp_accounting()
    assert row.agree == row.cases == 100


def test_the_page_shows_what_was_recorded() -> None:
    results = json.loads(published_code.RESULTS.read_text(encoding="utf-8"))
    assert set(results) == set(published_code.PEERS)
    text = (ROOT / "docs/published_code.md").read_text(encoding="utf-8")
    shown = text.partition(published_code.BEGIN)[2].partition(published_code.END)[0]
    for found in results.values():
        for row in found["rows"]:
            assert f"| {row['agree']} of {row['cases']} |" in shown
            assert f"`{row['theirs']}`" in shown
    assert shown == published_code.table(results)
