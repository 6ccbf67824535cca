"""What `tools/mutants.py` draws: mistakes in code that runs, and none in what is only said."""

import ast
import json
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("libcst")

import libcst
import mutants

SOURCE = '''
"""A docstring of 1 line."""
from __future__ import annotations


def mean(values: list[int] = [], start: int = 2) -> float:
    """The mean, 0 of none."""
    if not values and start > 0:
        raise ValueError(f"values must have 1 entry, not {len(values) + 1}")
    total = start
    for one in values:
        total += one
    return max(total / len(values), divided(total, start, by=one))


def __repr__(self) -> str:
    return 1 + 1
'''


def test_places_and_mistakes() -> None:
    tree = libcst.parse_module(SOURCE)
    visitor = mutants.Places("module")
    tree.visit(visitor)
    assert {place.name for place in visitor.found} == {"module.mean"}
    made = []
    for place in visitor.found:
        for _, other in place.mistakes:
            changed = tree.deep_replace(place.node, other)
            assert isinstance(changed, libcst.Module)
            ast.parse(changed.code)
            made += [line.strip() for line in changed.code.splitlines() if line not in SOURCE.splitlines()]
    for wrong in (
        "if values and start > 0:",
        "if not values or start > 0:",
        "if not values and start >= 0:",
        "if not values:",
        "pass",
        "total -= one",
        "total = one",
        "return min(total / len(values), divided(total, start, by=one))",
        "return max(total * len(values), divided(total, start, by=one))",
        "return max(divided(total, start, by=one), total / len(values))",
        "return max(total / len(values), divided(start, total, by=one))",
        "return max(total / len(values), divided(total, start))",
    ):
        assert wrong in made
    assert all("entry" not in line and "docstring" not in line and "list[" not in line.split("=")[-1] for line in made)


def test_the_statement_of_a_line() -> None:
    assert mutants.statement(SOURCE, 8) == {8}
    assert mutants.statement("f(\n    1,\n    2,\n)\n", 2) == {1, 2, 3, 4}


def test_shares_are_of_what_is_kept() -> None:
    kept = json.loads(mutants.RESULTS.read_text(encoding="utf-8"))["mutants"]
    caught = sum(one["caught"] for one in kept)
    assert f"caught {caught} of {len(kept)}" in mutants.summary(kept)
    assert mutants.share(90, 100) == "90 of 100, 90% (95% interval 82% to 95%)"  # binom.test of R: 0.8238, 0.9510


def test_equivalent_mistakes_are_among_the_survivors_and_have_reasons() -> None:
    named = tomllib.loads((Path(mutants.HERE) / "equivalent.toml").read_text(encoding="utf-8"))["equivalent"]
    assert all(one.keys() == {"name", "diff", "why"} and one["why"] for one in named)
    kept = json.loads(mutants.RESULTS.read_text(encoding="utf-8"))["mutants"]
    assert sum(bool(mutants.equivalent(one)) for one in kept if not one["caught"]) == len(named)
