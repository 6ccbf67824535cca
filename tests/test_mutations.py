"""The list of mistakes that `benchmarks/mutations.py` plants fits the code: a mistake that cannot be planted tests nothing."""

import json
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MISTAKES = tomllib.loads((ROOT / "benchmarks" / "mistakes.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_can_be_planted_in_one_place_and_has_tests(name: str) -> None:
    mistake = MISTAKES[name]
    assert {"file", "correct", "wrong", "tests"} <= mistake.keys() <= {"file", "correct", "wrong", "tests", "why"}
    text = (ROOT / mistake["file"]).read_text(encoding="utf-8")
    assert text.count(mistake["correct"]) == 1
    wrong = text.replace(mistake["correct"], mistake["wrong"])
    assert wrong != text
    compile(wrong, mistake["file"], "exec")  # what does not run is found by anything
    files = [part.partition("::")[0] for part in shlex.split(mistake["tests"]) if part.startswith("tests/")]
    assert files
    for file in files:
        assert (ROOT / file).is_file(), file


def test_nearly_all_were_caught_and_the_others_are_explained() -> None:
    """As `benchmarks/mutations.py` has recorded it."""
    results = json.loads((ROOT / "benchmarks/results/mutations.json").read_text(encoding="utf-8"))["mistakes"]
    assert results.keys() == MISTAKES.keys(), "all have been planted"
    missed = {name for name, one in results.items() if not one["caught"]}
    assert len(missed) <= 0.05 * len(MISTAKES)
    assert missed == {name for name, one in MISTAKES.items() if "why" in one}


def test_there_are_mistakes_in_every_part() -> None:
    assert len(MISTAKES) >= 65
    parts = {str(Path(mistake["file"]).parent) for mistake in MISTAKES.values()}
    worlds = {f"envs/{file.parent.name}" for file in (ROOT / "envs").glob("*/*.py")}
    policies = {f"policies/{kind}" for kind in ("reference", "classic", "learned", "families")}
    papers = {
        f"src/taciturn/bench/papers/{file.parent.name}" for file in (ROOT / "src/taciturn/bench/papers").glob("*/*.py")
    }
    others = {"wrappers", "src/taciturn", "src/taciturn/privacy", "src/taciturn/bench"}
    assert worlds | policies | papers | others <= parts
