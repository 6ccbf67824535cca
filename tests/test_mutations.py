"""The list of mistakes that `benchmarks/mutations.py` plants fits the code: a mistake that cannot be planted tests nothing."""

import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MISTAKES = tomllib.loads((ROOT / "benchmarks" / "mistakes.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_can_be_planted_in_one_place(name: str) -> None:
    mistake = MISTAKES[name]
    assert mistake.keys() == {"file", "correct", "wrong", "tests"}
    assert mistake["correct"] != mistake["wrong"]
    text = (ROOT / mistake["file"]).read_text(encoding="utf-8")
    assert text.count(mistake["correct"]) == 1
    wrong = text.replace(mistake["correct"], mistake["wrong"])
    compile(wrong, mistake["file"], "exec")  # a mistake that does not run is found by anything


@pytest.mark.parametrize("name", MISTAKES)
def test_the_tests_of_a_mistake_are_there(name: str) -> None:
    files = [part.partition("::")[0] for part in shlex.split(MISTAKES[name]["tests"]) if part.startswith("tests/")]
    assert files
    for file in files:
        assert (ROOT / file).is_file(), file


def test_there_are_many_mistakes_over_all_modules() -> None:
    assert len(MISTAKES) >= 65
    folders = {Path(mistake["file"]).parent for mistake in MISTAKES.values()}
    for package in ("envs", "policies", "wrappers", "src/taciturn"):
        holding = {
            file.parent.relative_to(ROOT) for file in (ROOT / package).rglob("*.py") if file.name != "__init__.py"
        }
        assert {folder for folder in holding if "envs" not in folder.parts or package == "envs"} - folders <= {
            Path("src/taciturn/bench/comparisons")
        }
