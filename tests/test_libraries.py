"""The examples with learning libraries are short, and their page shows what was kept of their last run."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from taciturn import registry

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "examples/libraries"
STORED = json.loads((ROOT / "examples/libraries/results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / "run.py"))


def test_the_page_is_made_of_what_was_kept(script: dict[str, Any]) -> None:
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"](STORED)


def test_each_library_runs_or_is_listed_with_the_reason(script: dict[str, Any]) -> None:
    names = {library.name: library.plays for library in script["LIBRARIES"]}
    assert len(names) > 8
    assert set(STORED["libraries"]) == set(names)
    worlds = {entry.name for entry in registry.WORLDS}
    for name, plays in names.items():
        one = STORED["libraries"][name]
        if "error" in one:
            assert name in script["UPSTREAM"], "what cannot run has a thread upstream"
        else:
            assert len(one["printed"]) >= 3, "its own score, and those of a reference policy and of Random"
            assert set(one.get("worlds", ())) <= worlds
            assert bool(one.get("worlds")) == plays


def test_examples_are_short(script: dict[str, Any]) -> None:
    files = {file.stem.removeprefix("with_"): file for file in FOLDER.glob("with_*.py")}
    assert set(files) == {name for name, one in STORED["libraries"].items() if "error" not in one}
    for name, file in files.items():
        lines = file.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 65, file
        assert script["blocks"](lines), f"{name} marks the lines that matter"


def test_every_way_in_which_a_library_fails_is_told(script: dict[str, Any]) -> None:
    found = json.loads(json.dumps(STORED))
    found["libraries"]["sb3"] = {"version": "1", "error": "ImportError: no such thing"}
    found["libraries"]["skrl"]["worlds"]["gossip_bandit_v0"] = {"error": "ValueError: not that"}
    text = script["page"](found)
    assert "`ImportError: no such thing`" in text
    assert "ValueError: not that" in text
    assert (
        script["last_error"]("a\nurllib.error.URLError: <urlopen error>\n  note: b\n")
        == "urllib.error.URLError: <urlopen error>"
    )
