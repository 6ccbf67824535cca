"""The list of mistakes that `benchmarks/mutations.py` plants fits the code: a mistake that cannot be planted tests
nothing."""

import json
import shlex
import tomllib
from pathlib import Path

import mutations
import pytest

ROOT = Path(__file__).parents[1]
MISTAKES = tomllib.loads((ROOT / "benchmarks" / "mistakes.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_can_be_planted_in_one_place_and_has_tests(name: str) -> None:
    mistake = MISTAKES[name]
    assert {"in", "correct", "wrong", "tests"} <= mistake.keys() <= {"in", "correct", "wrong", "tests", "why"}
    file, before, after = mutations.place(ROOT, mistake)
    assert after != before
    compile(after, file, "exec")  # what does not run is found by anything
    files = [part.partition("::")[0] for part in shlex.split(mistake["tests"]) if part.startswith("tests/")]
    assert files
    for test in files:
        assert (ROOT / test).is_file(), test


def test_code_is_found_however_its_lines_are_broken() -> None:
    one = mutations.words('raise ValueError(f"{name} must be one of {known}, not {value}", 1)  # said once')
    many = mutations.words("""raise ValueError(
        f"{name} must be one of "  # or None
        f"{known}, not {value}",
        1,
    )""")
    assert [word for word, _, _ in one] == [word for word, _, _ in many]
    assert [word for word, _, _ in one] != [word for word, _, _ in mutations.words('raise ValueError(f"{name} must be')]


def test_nearly_all_were_caught_and_the_others_are_explained() -> None:
    """As `benchmarks/mutations.py` has recorded it."""
    results = json.loads((ROOT / "benchmarks/results/mutations.json").read_text(encoding="utf-8"))["mistakes"]
    assert results.keys() == MISTAKES.keys(), "all have been planted"
    missed = {name for name, one in results.items() if not one["caught"]}
    assert len(missed) <= 0.05 * len(MISTAKES)
    assert missed == {name for name, one in MISTAKES.items() if "why" in one}


def test_there_are_mistakes_in_every_part() -> None:
    assert len(MISTAKES) >= 65
    files = {mutations.place(ROOT, mistake)[0] for mistake in MISTAKES.values()}
    parts = {str(file.parent.relative_to(ROOT)) for file in files}
    worlds = {f"envs/{file.parent.name}" for file in (ROOT / "envs").glob("*/*.py")}
    policies = {f"policies/{kind}" for kind in ("reference", "classic", "learned", "families")}
    papers = {
        f"src/taciturn/bench/papers/{file.parent.name}" for file in (ROOT / "src/taciturn/bench/papers").glob("*/*.py")
    }
    others = {"wrappers", "src/taciturn", "src/taciturn/privacy", "src/taciturn/bench"}
    assert worlds | policies | papers | others <= parts
