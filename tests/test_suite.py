"""The suite itself: it can be run between two edits, and what is known of its costs is fresh."""

import json
from collections import Counter
from pathlib import Path

import pytest

FAST = 480
"""CPU seconds of the fast part together: five minutes of two cores, with room."""
NEW = 0.05
"""The share of tests that may be newer than the record of their costs."""
RECORD = "record the costs anew: `make record`"


@pytest.fixture(scope="module")
def costs() -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(__file__).with_name("slow.json").read_text(encoding="utf-8"))
    return found


def test_the_fast_part_keeps_its_budget(costs: dict[str, int]) -> None:
    assert costs["fast_cpu_seconds"] <= FAST, f"make tests cheaper, then {RECORD}"


def test_costs_are_fresh(costs: dict[str, dict[str, int]], collected: Counter[str]) -> None:
    """Tests that were added since the record may be slow and run in the fast part."""
    known = costs["tests"]
    added = {name: count - known.get(name, 0) for name, count in collected.items() if count > known.get(name, 0)}
    assert sum(added.values()) <= NEW * sum(known.values()), f"{added} are new; {RECORD}"


def test_slow_tests_are_there(costs: dict[str, list[str]]) -> None:
    files = {name.partition("::")[0] for name in costs["slow"]}
    assert not [name for name in files if not (Path(__file__).parents[1] / name).is_file()], RECORD
