"""The list of mistakes that `tools/mutations.py` plants fits the code: a mistake that cannot be planted tests
nothing."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import mutations

ROOT = Path(__file__).parents[1]
MISTAKES = tomllib.loads((ROOT / "tools" / "mistakes.toml").read_text(encoding="utf-8"))


def wrong_with(mistake: dict[str, str]) -> str:
    """Why a mistake cannot be planted in one place, or has no tests; empty if it can and has."""
    if not {"in", "correct", "wrong", "tests"} <= mistake.keys() <= {"in", "correct", "wrong", "tests", "why"}:
        return f"it has the entries {sorted(mistake)}"
    try:
        file, before, after = mutations.place(ROOT, mistake)
        compile(after, file, "exec")  # what does not run is found by anything
    except (SyntaxError, ValueError) as error:
        return str(error)
    if after == before:
        return "it changes nothing"
    files = [
        part.partition("::")[0]
        for part in shlex.split(mistake["tests"])
        if part.startswith(("tests/", "papers/tests/"))
    ]
    missing = [test for test in files if not (ROOT / test).is_file()]
    return f"there is no {missing}" if missing else "" if files else "it names no tests"


def test_each_mistake_can_be_planted_in_one_place_and_has_tests() -> None:
    found = {name: wrong for name, mistake in MISTAKES.items() if (wrong := wrong_with(mistake))}
    assert not found, "\n".join(f"{name}: {wrong}" for name, wrong in found.items())


def test_what_cannot_be_planted_is_told() -> None:
    good = next(iter(MISTAKES.values()))
    assert not wrong_with(good)
    for change, told in (
        ({"correct": "no such code"}, "must hold once, not 0 times"),
        ({"wrong": good["correct"]}, "it changes nothing"),
        ({"wrong": "return ("}, "never closed"),
        ({"tests": "tests/test_nothing.py"}, r"there is no \['tests/test_nothing.py'\]"),
        ({"tests": "-k nothing"}, "it names no tests"),
        ({"because": "of it"}, "it has the entries"),
    ):
        assert re.search(told, wrong_with(good | change)), told


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
    """As `tools/mutations.py` has recorded it."""
    results = json.loads((ROOT / "tools/results/mutations.json").read_text(encoding="utf-8"))["mistakes"]
    assert results.keys() == MISTAKES.keys(), "all have been planted"
    missed = {name for name, one in results.items() if not one["caught"]}
    assert len(missed) <= 0.05 * len(MISTAKES)
    assert missed == {name for name, one in MISTAKES.items() if "why" in one}


def test_there_are_mistakes_in_every_part() -> None:
    assert len(MISTAKES) >= 65
    homes = {mistake["in"] for mistake in MISTAKES.values()}
    files = {
        file
        for name, file, _, _ in mutations.definitions(ROOT)
        for i in range(len(name))
        if (not i or name[i - 1] == ".") and name[i:] in homes
    }
    parts = {str(file.parent.relative_to(ROOT)) for file in files}
    worlds = {f"envs/{file.parent.name}" for file in (ROOT / "envs").glob("*/*.py")}
    policies = {f"policies/{kind}" for kind in ("reference", "classic", "learned", "families")}
    papers = {str(file.parent.relative_to(ROOT)) for file in (ROOT / "papers/src").glob("taciturn_papers/*/*.py")}
    others = {"wrappers", "src/taciturn", "src/taciturn/privacy", "bench"}
    assert worlds | policies | papers | others <= parts
