"""The tutorial, word by word: its files and commands in order in an empty folder, and what it shows beside what they
print."""

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taciturn import cli

PAGE = Path(__file__).parent.parent / "docs/tutorial.md"
BLOCK = re.compile(r"^```(bash|text|\{code-block\} python\n:caption: (\S+)\n)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?")
TRAINED = "results/agent"
SPREAD = 0.15  # trainings differ between processors, and what they reach by a few percent


def blocks() -> Iterator[tuple[str, str, str]]:
    """Kind, name of the file, and text of the blocks; those of the installation have no kind."""
    for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        yield found[1].partition("\n")[0], found[2], found[3]


def execute(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of the page, in this process."""
    program, *arguments = words
    if program == "python":
        runpy.run_path(arguments[0], run_name="__main__")
        return
    assert program == "taciturn"
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code


def alike(shown: str, printed: str, spread: float) -> bool:
    """Whether two lines have the same words, and numbers that differ by no more than this share."""
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(float(a.replace(",", "")) == pytest.approx(float(b.replace(",", "")), rel=spread) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*mini-batch:UserWarning")
def test_the_tutorial_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    printed: list[str] = []
    counts = {"bash": 0, "text": 0, "{code-block} python": 0}
    learned = False
    for kind, file, text in blocks():
        counts[kind] += 1
        if file:
            Path(file).write_text(text, encoding="utf-8")
            learned |= TRAINED in text
        elif kind == "bash":
            learned |= TRAINED in text
            for command in text.replace("\\\n", " ").splitlines():
                execute(shlex.split(command), monkeypatch)
            printed = capsys.readouterr().out.splitlines()
        else:
            rest = iter(printed)
            for line in text.splitlines():
                spread = SPREAD if learned else 0
                assert any(alike(line, other, spread) for other in rest), f"{line!r} is not in {printed}"
            learned = False
    assert min(counts.values()) > 1
