"""Sphinx settings, and the reference pages made from docstrings, one for each module."""

import ast
import inspect
import re
import sys
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing
from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
PAGES = Path(__file__).parent / "api"
FILMS = PAGES / "films"

project = "taciturn"
author = "taciturn contributors"
project_copyright = "2026, taciturn contributors"
release = re.search(r'__version__ = "(.+)"', (ROOT / "src/taciturn/__init__.py").read_text(encoding="utf-8"))[1]  # type: ignore[index]
version = release

sys.path.insert(0, str(Path(__file__).parent))  # for `gallery`, `mathml`, `notebook_page` and `world_pages`
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "mathml"]
html_math_renderer = "mathml"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "taciturn"
html_static_path = ["_static", "api/films"]
html_css_files = ["taciturn.css"]
html_js_files = ["page.js"]
html_logo = html_favicon = "_static/logo.svg"
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
html_baseurl = URLS.get("Documentation", "")
html_theme_options = {
    "footer_icons": [
        {"name": name, "url": URLS[name], "html": name, "class": ""} for name in ("Source", "Issues") if name in URLS
    ]
}
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
autodoc_mock_imports = ["flwr"]  # its pins and those of the other tools exclude each other
napoleon_numpy_docstring = False
napoleon_attr_annotations = False
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_custom_sections = [("Class Attributes", "Attributes")]

# References without a target: a build without a network cannot link to other libraries. Names without a dot are
# imported for the type checker only; type variables and private base classes have no pages.
OTHERS = (
    "abc|argparse|collections|concurrent|contextlib|enum|gymnasium|importlib|inspect|io|matplotlib|multiprocessing|networkx|np|numpy|os|pa|pathlib|"
    "pettingzoo|pyarrow|rich|scipy|sklearn|stable_baselines3|sb3_contrib|torch|typer|types|typing|zipfile"
)
nitpick_ignore_regex = [
    ("py:.*", rf"({OTHERS})\..+"),
    ("py:(class|obj)", r"\w+|taciturn(_papers)?\..+\.([A-Z]|_\w+)"),
]

# Further pictures on the pages of worlds, `_static/<name>.png`, and their captions.
PICTURES = {
    "recommender": (
        "T-PriDO's first agent, which always asks its neighbours, after 1 to 5,000 rounds "
        "(`examples/recommender_tree.py`). Above, the mean rewards of its items in the context of the round, and the "
        "mean of the feedbacks that its model has of each cluster in the cell of that context; below, the cells of its "
        "partition."
    ),
}

SECTIONS = {
    "worlds": ("Worlds", "envs", "taciturn.envs", "*/*.py"),
    "policies": ("Policies", "policies", "taciturn.policies", "**/*.py"),
    "logged": ("Logged data", "src/taciturn/logged", "taciturn.logged", "*.py"),
    "privacy": ("Privacy", "src/taciturn/privacy", "taciturn.privacy", "*.py"),
    "wrappers": ("Wrappers", "wrappers", "taciturn.wrappers", "**/*.py"),
    "bench": ("Benchmark", "bench", "taciturn.bench", "**/*.py"),
    "papers": ("Papers", "papers/src/taciturn_papers", "taciturn_papers", "**/*.py"),
    "channels": ("Channels", "src/taciturn/channels", "taciturn.channels", "*.py"),
    "compiling": ("Compilation", "src/taciturn/compiling", "taciturn.compiling", "*.py"),
    "core": ("Internals", "envs/core", "taciturn.envs.core", "**/*.py"),
    "testing": ("Testing", "src/taciturn/testing", "taciturn.testing", "*.py"),
    "taciturn": ("Top level", "src/taciturn", "taciturn", "*.py"),
}


def write(path: Path, content: bytes) -> None:
    """Write a page or a picture if it changed, so that a second build rereads little."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_bytes() != content:
        path.write_bytes(content)


def summary(docstring: str) -> str:
    """The first sentence or line of a docstring."""
    return plain(docstring.strip().split("\n\n")[0].replace("\n", " "))


def deviations(docstring: str) -> str:
    """The 'Deviations from the paper' section of a world's docstring, without its heading."""
    found = re.search(
        r"^Deviations from the paper:?\n(?:[-=~]+\n)?(.*?)(?=^\S|\Z)", docstring, re.MULTILINE | re.DOTALL
    )
    return "\n".join(map(plain, textwrap.dedent(found[1]).strip().splitlines())) if found else ""


def exports(package: Path) -> list[str]:
    """A package's `__all__`."""
    text = (package / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r"^__all__ = (\[.*?\])", text, re.MULTILINE | re.DOTALL)
    return list(ast.literal_eval(found[1])) if found else []


def usage(file: Path, folder: Path, package: str, module: str) -> str:
    """The import statement for a module: of the names that its package exports, or else of the module."""
    text = file.read_text(encoding="utf-8")
    names = [name for name in exports(folder) if re.search(rf"^(class |def )?{name}\b", text, re.MULTILINE)]
    return f"from {package} import {', '.join(names)}" if names else f"import {module}"


def plain(line: str) -> str:
    """Escape what reStructuredText would read as markup outside backticks: a lone `*`, a final `_`, `|`, an initial
    such as `M.`."""
    parts = re.split(r"(``.*?``|`[^`]*`)", line)
    for i, part in enumerate(parts):
        parts[i] = part if i % 2 else re.sub(r"^(?=[\w\[({])", r"\\ ", escape(part)) if i else escape(part)
    return "".join(parts)


def escape(text: str) -> str:
    text = re.sub(r"(?<![\w*\\])(\*{1,2})(?=\w)(?!.*\w\*)", lambda found: r"\*" * len(found[1]), text)
    text = re.sub(r"(?<=\w)_(?!\w)", r"\_", text)
    text = text.replace("|", r"\|")
    return re.sub(r"(^\s*|: )([A-Za-z])\.(?!\w)", r"\1\2\\.", text)


def heading(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}\n\n"


def contents(title: str, rows: list[tuple[str, str]], table: str) -> str:
    """A page of pages and their summaries, below a table if there is one."""
    names, lines = zip(*rows, strict=True)
    return (
        heading(title, "=")
        + (table and table + heading("Modules", "-"))
        + "".join(lines)
        + "\n.. toctree::\n   :hidden:\n\n"
        + "".join(f"   {name}\n" for name in names)
    )


def make_pages() -> None:
    """Write a page for every module, api/<section>/<module>.rst, an index of each section, the list of deviations, and
    the notebook of the tutorial."""
    from gallery import films, gallery  # not before `AnyArray` has taken its place
    from notebook_page import notebook
    from world_pages import WORLDS, about, algorithms

    from taciturn.registry import entry

    tutorial = (Path(__file__).parent / "tutorial.md").read_text(encoding="utf-8")
    pages = {PAGES / "tutorial.ipynb": notebook(tutorial)}
    departures = []
    cards: dict[str, tuple[str, str]] = {}
    inside: list[tuple[str, str]] = []
    for section, (title, folder, package, pattern) in SECTIONS.items():
        rows: list[tuple[str, str]] = []
        for file in sorted((ROOT / folder).glob(pattern)):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            found = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
            defines = any(not node.name.startswith("__") for node in found)
            if (file.name.startswith("_") and not defines) or (section == "worlds" and file.parent.name == "core"):
                continue
            docstring = ast.get_docstring(tree) or ""
            parts = (file.parent if file.stem == "__init__" else file.with_suffix("")).relative_to(ROOT / folder).parts
            module, name = ".".join([package, *parts]), ".".join(parts)
            # The page of a world takes the name of its folder; pages of the other files of that folder name both.
            *outer, last = parts[:-1] if len(parts) > 1 and parts[-1] == "world" else parts
            label = " ".join([last.replace("_", " ").capitalize(), *(f"({part.replace('_', ' ')})" for part in outer)])
            code = f".. code-block:: python\n\n   {usage(file, ROOT / folder, package, module)}\n\n"
            if module in WORLDS:
                world = WORLDS[module]
                pages |= {FILMS / f"{world}.{end}": content for end, content in films(world).items()}
                cards[world] = f"api/{section}/{name}.html", " ".join(docstring.split("\n\n")[0].split())
                code = f"{summary(docstring)}\n\n{about(world, plain)}"
                if last in PICTURES:
                    code += f".. figure:: /_static/{last}.png\n\n   {PICTURES[last]}\n\n"
                code += heading("In full", "-")
            text = heading(label, "=") + code + f".. automodule:: {module}\n" + "   :no-members:\n" * (not defines)
            pages[PAGES / section / f"{name}.rst"] = text.encode()
            line = f"- :doc:`{label} <{section}/{name}>`: {summary(docstring)}\n"
            (inside if section == "worlds" and module not in WORLDS else rows).append((f"{section}/{name}", line))
            if section == "worlds" and (departure := deviations(docstring)):
                departures.append(heading(label, "-") + f"From :doc:`its page <worlds/{name}>`.\n\n{departure}\n")
        if section == "core":
            rows += inside
        table = algorithms(plain) if section == "policies" else ""
        pages[PAGES / f"{section}.rst"] = contents(title, rows, table).encode()
    order = sorted(cards, key=lambda world: entry(world).others is None)  # worlds of many alike agents stand first
    pages[PAGES / "gallery.html"] = gallery({world: cards[world] for world in order}).encode()
    pages[PAGES / "deviations.rst"] = (heading("Deviations from the papers", "=") + "\n".join(departures)).encode()
    for page, content in pages.items():
        write(page, content)
    for page in set(PAGES.rglob("*.*")) - set(pages):
        page.unlink()


def sections(lines: list[str]) -> list[str]:
    """Turn each title over an indented block into a section, and add a last section for the module's objects."""
    out: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        title = line[:1].isalpha() and after.startswith("    ") and (not out or not out[-1])
        out += [line, "-" * len(line), ""] if title else [line.removeprefix("    ") if "---" in "".join(out) else line]
    return [*out, "Interface", "---------", ""] if "---" in "".join(out) else out


def read_plain(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape docstrings, which are plain text; in that of a module, a line over an indented block becomes a heading."""
    from world_pages import WORLDS, without

    if what == "module":
        lines[:] = sections(without(lines) if name in WORLDS else lines)
    elif inspect.getdoc(sys.modules.get(name.rpartition(".")[0])) == inspect.getdoc(obj):
        # A world's class and constructors repeat the docstring of their module, which the page shows already.
        del lines[1:]
    # Napoleon knows a section by its exact title.
    lines[:] = [plain(re.sub(r"^Class attributes\b.*:$", "Class Attributes:", line)) for line in lines]
    for i in range(len(lines) - 1, 0, -1):
        indent = re.match(r" *(?=- )", lines[i])
        if indent and re.match(rf"{indent[0]}(?![ -]).", lines[i - 1]):
            lines.insert(i, "")  # reStructuredText wants a blank line before a list
    # Without a leading colon, napoleon would read 'Hash of the settings: a, b' as a value of type 'Hash of the
    # settings'.
    texts = [i for i, line in enumerate(lines[1:], 1) if lines[i - 1].strip() == "Returns:"]
    for i in texts + [0] * (what in ("attribute", "data", "property")):
        lines[i] = re.sub(r"(?=\S)", ": ", lines[i], count=1)


def readable(app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str, returns: str) -> Any:
    """Replace the default factories of dataclasses, which Sphinx cannot parse."""
    return signature and signature.replace("<factory>", "..."), returns


def skip_members(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out the fields of named tuples, which the signature shows already, and the hooks by which an environment is
    written, which the core calls."""
    from world_pages import hooks

    module = getattr(obj.fget if isinstance(obj, property) else obj, "__module__", None)
    own = str(module).startswith("taciturn.envs.") and not str(module).startswith("taciturn.envs.core")
    internal = what == "class" and own and name in hooks()
    return True if internal or str(obj.__doc__).startswith("Alias for field number") else None


class AnyArray:
    """Stands for `NDArray` while the documentation is built; the docstrings give shapes and dtypes.

    Each dtype has a type of its own, by which worlds tell the fields of their State, and all have one name.
    """

    @classmethod
    @cache
    def __class_getitem__(cls, item: Any) -> type:
        return type("ndarray", (np.ndarray,), {"__module__": "numpy"})


def setup(app: Sphinx) -> None:
    numpy.typing.NDArray = AnyArray  # type: ignore[assignment]
    numpy.typing.ArrayLike = type("ArrayLike", (), {"__module__": "numpy.typing"})  # type: ignore[assignment]
    make_pages()
    app.connect("autodoc-process-docstring", read_plain, priority=400)
    app.connect("autodoc-process-signature", readable)
    app.connect("autodoc-skip-member", skip_members)
