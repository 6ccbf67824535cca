"""Sphinx settings, and the pages made from docstrings: one a world, one a module of everything else."""

import ast
import re
import textwrap
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
PAGES = Path(__file__).parent / "api"

project = "tacit"
author = "tacit contributors"
project_copyright = "2026, tacit contributors"
release = re.search(r'__version__ = "(.+)"', (ROOT / "src/tacit/__init__.py").read_text(encoding="utf-8"))[1]  # type: ignore[index]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "tacit"
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False

default_role = "code"
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# A build without a network cannot link to other libraries' pages. The rest are no pages either: names that only the
# type checker imports (no dot), type variables, and private bases.
OTHERS = (
    "abc|argparse|collections|concurrent|enum|gymnasium|matplotlib|multiprocessing|networkx|np|numpy|os|pa|pathlib|pettingzoo|"
    "pyarrow|rich|scipy|sklearn|stable_baselines3|sb3_contrib|torch|typer|types|typing"
)
nitpick_ignore_regex = [
    ("py:.*", rf"({OTHERS})\..+"),
    ("py:(class|obj)", r"\w+|tacit\..+\.([A-Z]|_\w+)"),
]

SECTIONS = {
    "worlds": ("Worlds", "envs", "tacit.envs", "*.py"),
    "policies": ("Policies", "policies", "tacit.policies", "**/*.py"),
    "wrappers": ("Wrappers", "wrappers", "tacit.wrappers", "**/*.py"),
    "bench": ("Benchmark", "src/tacit/bench", "tacit.bench", "**/*.py"),
    "core": ("Core", "envs/core", "tacit.envs.core", "*.py"),
    "tacit": ("Top level", "src/tacit", "tacit", "*.py"),
}


def write(path: Path, text: str) -> None:
    """Write a page if it changed, so that a second build rereads little."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def summary(docstring: str) -> str:
    """The first sentence or line of a docstring."""
    return docstring.strip().split("\n\n")[0].replace("\n", " ")


def deviations(docstring: str) -> str:
    """The 'Deviations from the paper' section of a world's docstring, without its heading."""
    found = re.search(
        r"^Deviations from the paper:?\n(?:[-=~]+\n)?(.*?)(?=^\S|\Z)", docstring, re.MULTILINE | re.DOTALL
    )
    return textwrap.dedent(found[1]).strip() if found else ""


def make_pages() -> None:
    """Write api/<section>/<module>.md for every module, and an index of each section."""
    known: set[Path] = set()
    departures = []
    for section, (title, folder, package, pattern) in SECTIONS.items():
        rows = []
        for file in sorted((ROOT / folder).glob(pattern)):
            docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
            parts = [part for part in file.relative_to(ROOT / folder).with_suffix("").parts if part != "__init__"]
            if not parts or parts[-1].startswith("_"):
                continue
            module, page = ".".join([package, *parts]), PAGES / section / f"{'.'.join(parts)}.md"
            heading = parts[-1].replace("_", " ").capitalize() if section == "worlds" else module
            write(page, f"# {heading}\n\n```{{eval-rst}}\n.. automodule:: {module}\n```\n")
            known.add(page)
            rows.append(f"- [{heading}]({page.relative_to(PAGES).as_posix()}): {summary(docstring)}")
            if section == "worlds" and (text := deviations(docstring)):
                departures.append(
                    f"## [{heading}]({page.relative_to(PAGES).as_posix()})\n\n```{{eval-rst}}\n{text}\n```\n"
                )
        if not rows:
            continue
        index = PAGES / f"{section}.md"
        write(index, f"# {title}\n\n" + "\n".join(rows) + f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n{section}/*\n```\n")
        known.add(index)
    write(
        PAGES / "deviations.md",
        "# Deviations from the papers\n\nEach world's own page says the same.\n\n" + "\n".join(departures),
    )
    known.add(PAGES / "deviations.md")
    for page in set(PAGES.rglob("*.md")) - known:
        page.unlink()


def plain(text: str) -> str:
    """Escape what plain text means literally and reStructuredText does not: a lone `*` or a final `_`."""
    text = re.sub(r"(?<![\w*\\])(\*{1,2})(?=\w)(?!.*\w\*)", lambda found: r"\*" * len(found[1]), text)
    return re.sub(r"(?<=\w)_(?!\w)", r"\_", text)


def read_plain(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Take docstrings for the plain text they are."""
    for i, line in enumerate(lines):
        parts = line.split("`")
        lines[i] = "`".join(part if j % 2 else plain(part) for j, part in enumerate(parts))
    if what in ("attribute", "data", "property") and lines:
        # Else napoleon reads 'Hash of what matters: a, b' as the type 'Hash of what matters'.
        lines[0] = f": {lines[0]}"


def shorten(app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str) -> Any:
    """Write arrays as `ndarray`: their docstrings give shape and kind."""
    array = re.compile(r"(~?numpy\.ndarray)\[~?tuple\[[^]]*\], ~?numpy\.dtype\[[^]]*\]\]")
    return tuple(text and array.sub(r"\1", text) for text in (signature, returns))


def setup(app: Sphinx) -> None:
    make_pages()
    app.connect("autodoc-process-docstring", read_plain, priority=400)
    app.connect("autodoc-process-signature", shorten)
