"""The Python in the hand-written pages runs, block after block."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text("utf-8")], ids=lambda p: p.name
)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], str(page), "exec"), names)


def test_the_readme_tells_the_speeds_that_were_measured() -> None:
    table = runpy.run_path(str(ROOT / "benchmarks/summary.py"))["table"]()
    assert table in PAGES[0].read_text(encoding="utf-8")
