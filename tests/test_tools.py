"""The maintainers' tools have one command line, `python tools NAME`, which says what there is."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def told(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "tools", *words], capture_output=True, text=True, check=False)


def test_every_tool_is_listed_with_what_it_does() -> None:
    done = told()
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split(maxsplit=1) for line in done.stdout.splitlines()[1:]]
    used = {"who_runs_what", "findings"}  # by `mutants` and by `summary`
    assert {name for name, _ in rows} == {file.stem for file in (ROOT / "tools").glob("[a-z]*.py")} - used
    assert all(line.endswith(".") for _, line in rows), "a sentence each"


def test_an_unknown_tool_is_refused_with_those_there_are() -> None:
    done = told("tuna")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("there is no tool 'tuna'; there are: auditor ")


def test_a_tool_gets_its_arguments() -> None:
    done = told("interval_coverage", "table")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in (ROOT / "docs/intervals.md").read_text(encoding="utf-8")
