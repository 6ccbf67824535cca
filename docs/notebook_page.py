"""A page of the documentation as a Jupyter notebook: its files and commands become cells that run."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```(bash|text|\{code-block\} python\n:caption: (\S+)\n)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
SETUP = """\
import os
import sys
from pathlib import Path

# Commands of this kernel's environment, without progress bars.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["TERM"] = "dumb"
"""
HERE, IMAGE = Path(__file__).parent, re.compile(r"\((_static/\S+\.png)\)")
ROLE = re.compile(r"\{\w+(?::\w+)?\}`([^`]*?)(?: <[^`]*>)?`")


def cells(page: str) -> Iterator[tuple[str, str]]:
    """Kind and text of the cells: `file`, whose first line `%%writefile` names it; `run`, commands, each after a `!`;
    `shown`, lines that these print; and `text`."""
    end = 0
    for found in BLOCK.finditer(page):
        yield "text", page[end : found.start()]
        end = found.end()
        language, file, block = found.groups()
        if file:
            yield "file", f"%%writefile {file}\n{block}"
        elif language.startswith("bash"):
            yield "run", re.sub(r"^(?=\S)", "!", block, flags=re.MULTILINE)
        else:
            yield "shown", f"```text\n{block}```\n"
    yield "text", page[end:]


def readable(text: str) -> str:
    """Markdown without the roles and labels of Sphinx, and with the images themselves."""
    text = ROLE.sub(r"\1", re.sub(r"^\(\w+\)=\n", "", text, flags=re.MULTILINE))
    return IMAGE.sub(
        lambda found: f"(data:image/png;base64,{b64encode((HERE / found[1]).read_bytes()).decode()})", text
    ).strip()


def notebook(page: str) -> bytes:
    """The notebook of a page in MyST Markdown, in format 4.5."""
    made: list[dict[str, Any]] = []
    introduction, *rest = cells(page)
    for kind, text in (introduction, ("file", SETUP), *rest):
        code = kind in ("file", "run")
        if source := text.rstrip("\n") if code else readable(text):
            about = {"id": f"cell-{len(made)}", "metadata": {}, "source": source.splitlines(keepends=True)}
            own: dict[str, Any] = {"execution_count": None, "outputs": []} if code else {}
            made.append({"cell_type": "code" if code else "markdown", **about, **own})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}, indent=1
    ).encode()
