"""What every benchmark and tool notes beside its numbers, and where they go."""

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from taciturn.bench.store import processor

RESULTS = Path(__file__).parent / "results"


def record(
    name: str | Path,
    result: dict[str, Any],
    packages: tuple[str, ...] = ("taciturn", "numpy", "gymnasium"),
    by_line: Mapping[str, Any] = MappingProxyType({}),
    folder: Path = RESULTS,
) -> None:
    """Write `result` to `<name>.json` in a folder, with the machine and the versions it was measured on, and the
    entries `by_line`, if there are any, as `entries`, a line each."""
    noted = result | {
        "machine": {"processor": processor(), "cpus": os.cpu_count(), "platform": platform.platform()},
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
    }
    file = folder / f"{name}.json"
    folder.mkdir(exist_ok=True)
    text = json.dumps(noted, indent=2)
    if by_line:
        lines = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in by_line.items())
        text = f'{text[:-2]},\n  "entries": {{\n{lines}\n  }}\n}}'
    file.write_text(text + "\n", encoding="utf-8")
