"""Plant semantic mistakes, one at a time, and see which of them the tests catch.

`python tools mutations [part of a name ...]`

The mistakes are in `mistakes.toml`: the name of a function, class or module (as much of its dotted name as tells it
from others), code that occurs there once, whatever its line breaks, the mistaken code, and the tests that should see
it, as pytest takes them (slow ones only if they ask for them by `-m`, or name no others); `why` explains one that
cannot be seen. Each is planted in a copy of the committed files, never in the working tree. A run over all of them
takes about half an hour of two cores and is made by hand, where all tests pass: a test that fails anyway would count as
one that sees the mistake. `results/mutations.json` says of each whether it was caught, and at which commit.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any

from common import record

ROOT = Path(__file__).parents[1]
MISTAKES = Path(__file__).with_name("mistakes.toml")
RESULTS = Path(__file__).parent / "results" / "mutations.json"


def load(parts: list[str]) -> dict[str, dict[str, str]]:
    """`{name: {in, correct, wrong, tests}}` of the mistakes whose names contain one of `parts` (all if there are
    none)."""
    known: dict[str, dict[str, str]] = tomllib.loads(MISTAKES.read_text(encoding="utf-8"))
    return {name: one for name, one in known.items() if not parts or any(part in name for part in parts)}


@cache
def definitions(root: Path) -> list[tuple[str, Path, int, int]]:
    """The modules, classes and functions of the package: dotted name, file, first and last line."""
    results = []

    def add(node: ast.AST, name: str, file: Path) -> None:
        for child in ast.iter_child_nodes(node):
            inside = name
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                inside = f"{name}.{child.name}"
                first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
                results.append((inside, file, first, child.end_lineno or first))
            add(child, inside, file)

    for folder in ("envs", "policies", "wrappers", "bench", "src/taciturn", "papers/src"):
        for file in sorted((root / folder).rglob("*.py")):
            if file.resolve() != file.absolute():
                continue  # the links to packages in src/taciturn
            text = file.read_text(encoding="utf-8")
            name = ".".join(file.relative_to(root).with_suffix("").parts).removeprefix("papers.").removeprefix("src.")
            results.append((name, file, 1, text.count("\n") + 1))
            add(ast.parse(text), name, file)
    return results


def words(text: str) -> list[tuple[str, int, int]]:
    """What a text says, however its lines are broken: words and signs with their places, without comments, final
    commas, and the quotes between two parts of one string."""
    results: list[tuple[str, int, int]] = []
    for match in re.finditer(r"(?:^|  )#[^\n]*|\w+|[^\w\s]", text, re.MULTILINE):
        word = match[0]
        if word.lstrip().startswith("#") and len(word) > 1:
            continue
        if word in ")]}" and results and results[-1][0] == ",":
            results.pop()
        results.append((word, match.start(), match.end()))
        for parts in (2, 3):
            first, *middle, last = results[-parts:] if len(results) >= parts else [("", 0, 0)] * parts
            apart = last[1] > first[2] + 1
            if first[0] == last[0] == '"' and apart and all(one[0] in ("f", "rf") for one in middle):
                del results[-parts:]
                break
    return results


def place(root: Path, mistake: dict[str, str]) -> tuple[Path, str, str]:
    """The file that holds a mistake's correct code, and its text before and after. ValueError if the code is not there
    exactly once."""
    name, wanted = mistake["in"], [word for word, _, _ in words(mistake["correct"])]
    homes = [definition for definition in definitions(root) if f".{definition[0]}".endswith(f".{name}")]
    results = []
    for _, file, first, last in homes:
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        skipped = sum(map(len, lines[: first - 1]))
        said = words("".join(lines[first - 1 : last]))
        starts = range(len(said) - len(wanted) + 1)
        here = [i for i in starts if [word for word, _, _ in said[i : i + len(wanted)]] == wanted]
        results += [(file, text, skipped + said[i][1], skipped + said[i + len(wanted) - 1][2]) for i in here]
    if len(results) != 1:
        raise ValueError(
            f"{name} ({len(homes)} definitions) must hold once, not {len(results)} times: {mistake['correct']!r}"
        )
    file, text, start, end = results[0]
    wrong = mistake["wrong"].rstrip()
    if wrong.startswith(" "):  # whole lines, whose indentation is that of the place
        column = start - text.rfind("\n", 0, start) - 1
        wrong = textwrap.indent(textwrap.dedent(wrong), " " * column).lstrip()
    return file, text, text[:start] + wrong + text[end:]


def plant(root: Path, mistake: dict[str, str]) -> tuple[Path, str]:
    """Plant a mistake below `root`; returns the file and its text before."""
    file, before, after = place(root, mistake)
    file.write_text(after, encoding="utf-8")
    return file, before


def caught(root: Path, tests: str) -> bool:
    """Whether the tests fail on the code below `root`; no test at all sees nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    env = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root / 'papers/src'}"}
    for marker in ("not slow", ""):
        done = subprocess.run(
            [*command, "-m", marker, *shlex.split(tests)],
            cwd=root,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 5:  # some tests were selected
            break
    if done.returncode not in (0, 1, 5):
        raise RuntimeError(f"pytest {tests} could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def main(arguments: list[str]) -> None:
    mistakes = load(arguments)
    copies: Queue[Path] = Queue()

    def seen(mistake: dict[str, str]) -> bool:
        root = copies.get()
        try:
            file, before = plant(root, mistake)
            result = caught(root, mistake["tests"])
            file.write_text(before, encoding="utf-8")
        finally:
            copies.put(root)
        return result

    cores = os.cpu_count() or 1
    head = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    results = {name: one for name, one in earlier().items() if name in load([])}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(cores) as pool:
        for core in range(cores):
            root = Path(folder) / str(core)
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(root)], check=True)
            copies.put(root)
        for name, result in zip(mistakes, pool.map(seen, mistakes.values()), strict=True):
            print(f"{'caught' if result else 'MISSED'}  {name}", flush=True)
            results[name] = {"caught": result, "commit": head.stdout.strip()}
            record("mutations", {"mistakes": dict(sorted(results.items()))}, folder=RESULTS.parent)
    missed = [name for name, one in results.items() if not one["caught"]]
    print(
        f"caught {1 - len(missed) / len(results):.1%} of {len(results)} mistakes; missed: {', '.join(missed) or 'none'}"
    )


def earlier() -> dict[str, Any]:
    """What `results/mutations.json` holds."""
    result: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))["mistakes"] if RESULTS.exists() else {}
    return result
