"""Public names are the field's words: the vocabulary of CONTRIBUTING, 'Words'."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import habits
import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("envs", "policies", "wrappers", "bench", "src/taciturn", "papers/src")
LIBRARIES = {"tell"}  # what others call so: the end of a file's `seek`, and half of evolution's ask and tell


def old_words() -> dict[str, str]:
    """`{word: the field's word}`, by the table of CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| (.+) \|$", text.partition("| not | but |")[2].partition("\n\n")[0], re.MULTILINE)
    return {word: new for old, new in rows[1:] for word in old.split(", ")}


def public_names(tree: ast.AST) -> Iterator[str]:
    """The names of classes, functions, their arguments, and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.arg):
            yield node.arg
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        if isinstance(node, ast.ClassDef):
            yield from (
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            )


def parts(name: str) -> list[str]:
    """The words of a name, `takes_part` or `TakesPart`."""
    return re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", name).lower())


def wrong(source: str) -> list[str]:
    """The public names in a source that have an old word."""
    words = old_words()
    return [
        f"{name} ({', '.join(words[part] for part in parts(name) if part in words)})"
        for name in public_names(ast.parse(source))
        if not name.startswith("_") and name not in LIBRARIES and words.keys() & set(parts(name))
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_public_names_are_the_fields_words(folder: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*.py") if not file.is_symlink()]
    assert files
    found = {str(file.relative_to(ROOT)): wrong(file.read_text(encoding="utf-8")) for file in files}
    assert not {file: names for file, names in found.items() if names}


@pytest.mark.parametrize("planted", ["def f(seat): ...", "class Twin: ...", "class A:\n    deaf: int", "self.laws = 1"])
def test_an_old_word_is_found(planted: str) -> None:
    assert wrong(planted)
    assert not wrong("def restore(kept): ...")


def test_habits_that_tire_readers_are_rare() -> None:
    """Ceilings of `python tools habits`: there were 509 in the pages and 1,566 in the docstrings."""
    for files, read, most in ((habits.pages(), habits.prose, 100), (habits.modules(), habits.docstrings, 250)):
        found = habits.counted(read(file.read_text(encoding="utf-8")) for file in files)
        assert found["words"] > 20_000
        assert sum(found[name] for name in habits.HABITS) <= most, dict(found)


@pytest.mark.parametrize(
    ("text", "habit"),
    [("It says what it found.", "what as a noun"), ("An agent whose clock ticks.", "whose"),
     ("The channel on which it is sent.", "preposition + which"), ("`what` it is.\n\n```\nwhat\n```", "")],
)  # fmt: skip
def test_a_habit_is_counted(text: str, habit: str) -> None:
    found = habits.counted([habits.prose(text)])
    assert sum(found[name] for name in habits.HABITS) == bool(habit)
    assert not habit or found[habit] == 1


def unfilled(page: str) -> list[str]:
    """Placeholders of a format string that no value replaced, outside of code."""
    return re.findall(r"\{[A-Z_]{2,}(?::[^}]*)?\}", habits.prose(page))


def test_no_page_shows_an_unfilled_placeholder() -> None:
    assert unfilled("Runs with a score below {FAILS:g} fail.")
    pages = {file.name: unfilled(file.read_text(encoding="utf-8")) for file in habits.pages()}
    assert len(pages) > 20
    assert not {name: found for name, found in pages.items() if found}
