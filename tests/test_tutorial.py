"""The tutorials, word by word: their files and commands in order in an empty folder, and what they show beside what
these print. The commands are those of the notebook."""

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from notebook_page import SETUP, cells, notebook

from taciturn import cli

DOCS = Path(__file__).parent.parent / "docs"
PAGES = ("tutorial", "tutorial_paper")
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[+-]\d+)?")
SCORE = re.compile(r"^  score +(\S+)", re.MULTILINE)
TRAINED = "results/agent"
SPREAD = 0.15  # trainings differ between processors, and what they reach by a few percent; scores by about 0.1


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


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
    """Whether two lines have the same words, and numbers that differ by no more than this share, or scores by this."""
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", printed).split():
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    either = spread if SCORE.match(shown) else 0
    return all(
        float(a.replace(",", "")) == pytest.approx(float(b.replace(",", "")), rel=spread, abs=either) for a, b in pairs
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_tutorial_does_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    printed: list[str] = []
    counts = {"text": 0, "file": 0, "run": 0, "shown": 0}
    scores: dict[str, float] = {}
    learned = False
    for kind, text in cells(text_of(page)):
        counts[kind] += 1
        if kind == "file":
            first, _, code = text.partition("\n")
            Path(first.removeprefix("%%writefile ")).write_text(code, encoding="utf-8")
            learned |= TRAINED in code
        elif kind == "run":
            learned |= TRAINED in text
            printed = []
            for command in text.replace("\\\n", " ").splitlines():
                execute(shlex.split(command.removeprefix("!")), monkeypatch)
                out = capsys.readouterr().out
                printed += out.splitlines()
                scores |= {" ".join(command.split()[2:5:2]): float(found) for found in SCORE.findall(out)}
        elif kind == "shown":
            rest = iter(printed)
            for line in text.splitlines()[1:-1]:
                spread = SPREAD if learned else 0
                assert any(alike(line, other, spread) for other in rest), f"{line!r} is not in {printed}"
            learned = False
    assert min(counts.values()) > 1
    if page == "tutorial":
        task = "social_bandit/standard"
        assert scores[f"{task} {TRAINED}"] > 0.4 + max(0, scores[f"{task} my_agent:act"]), "the trained agent wins"
        assert scores[f"social_bandit/crowd {TRAINED}"] > 0.4


def test_the_notebook_holds_all_of_the_page() -> None:
    found = json.loads(notebook(text_of("tutorial")))
    page = list(cells(text_of("tutorial")))
    code = ["".join(one["source"]) + "\n" for one in found["cells"] if one["cell_type"] == "code"]
    assert code == [SETUP] + [text for kind, text in page if kind in ("file", "run")]
    said = "\n\n".join("".join(one["source"]) for one in found["cells"] if one["cell_type"] == "markdown")
    assert [line for line in said.splitlines() if line.startswith("#")] == [
        line for kind, text in page if kind == "text" for line in text.splitlines() if line.startswith("#")
    ]
    assert "{doc}" not in said
    assert "_static" not in said
    assert "](data:image/png;base64,iVBOR" in said
    assert "the leaderboard" in said
    assert len({one["id"] for one in found["cells"]}) == len(found["cells"])
