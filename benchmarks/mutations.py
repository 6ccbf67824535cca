"""Plant semantic mistakes, one at a time, and see which of them the tests catch: `python benchmarks/mutations.py [part of a name ...]`.

The mistakes are in `mistakes.toml`: a file, a text that occurs there once, the mistaken text, and the tests that should see it, as pytest
takes them (slow ones only if they ask for them by `-m`); `why` explains one that cannot be seen. Each is planted in a copy of the committed
files, never in the working tree. A run over all of them takes about half an hour of two cores and is made by hand, where all tests pass: a
test that fails anyway would count as one that sees the mistake. `results/mutations.json` says of each whether it was caught, and at which
commit.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

from common import record

ROOT = Path(__file__).parents[1]
MISTAKES = Path(__file__).with_name("mistakes.toml")


def load(parts: list[str]) -> dict[str, dict[str, str]]:
    """`{name: {file, correct, wrong, tests}}` of the mistakes whose names contain one of `parts` (all if there are none)."""
    known: dict[str, dict[str, str]] = tomllib.loads(MISTAKES.read_text(encoding="utf-8"))
    return {name: one for name, one in known.items() if not parts or any(part in name for part in parts)}


def plant(root: Path, mistake: dict[str, str]) -> str:
    """Plant a mistake below `root`; returns the text of the file before. Raises ValueError if the correct text is not there once."""
    file = root / mistake["file"]
    text = file.read_text(encoding="utf-8")
    if text.count(mistake["correct"]) != 1:
        raise ValueError(
            f"{mistake['file']} must hold once, not {text.count(mistake['correct'])} times: {mistake['correct']!r}"
        )
    file.write_text(text.replace(mistake["correct"], mistake["wrong"]), encoding="utf-8")
    return text


def caught(root: Path, tests: str) -> bool:
    """Whether the tests fail on the code below `root`; no test at all sees nothing."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow"]
    env = os.environ | {"PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [*command, *shlex.split(tests)], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1, 5):
        raise RuntimeError(f"pytest {tests} could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def main(parts: list[str]) -> None:
    mistakes = load(parts)
    copies: Queue[Path] = Queue()

    def seen(mistake: dict[str, str]) -> bool:
        root = copies.get()
        before = plant(root, mistake)
        found = caught(root, mistake["tests"])
        (root / mistake["file"]).write_text(before, encoding="utf-8")
        copies.put(root)
        return found

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
        for name, found in zip(mistakes, pool.map(seen, mistakes.values()), strict=True):
            print(f"{'caught' if found else 'MISSED'}  {name}", flush=True)
            results[name] = {"caught": found, "commit": head.stdout.strip()}
            record("mutations", {"mistakes": dict(sorted(results.items()))})
    missed = [name for name, one in results.items() if not one["caught"]]
    print(
        f"caught {1 - len(missed) / len(results):.1%} of {len(results)} mistakes; missed: {', '.join(missed) or 'none'}"
    )


def earlier() -> dict[str, Any]:
    """What `results/mutations.json` holds."""
    file = Path(__file__).with_name("results") / "mutations.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["mistakes"] if file.exists() else {}
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
