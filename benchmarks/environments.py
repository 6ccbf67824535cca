"""Python environments of their own, for packages whose pins conflict with ours or that only a comparison needs."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def quiet() -> dict[str, str]:
    """The variables of the programs that are run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return kept | own | {"RAY_worker_niceness": "0"}  # 15 by default: behind everything else on a busy machine


def called(*command: object, timeout: float = 1200) -> tuple[int, str]:
    """The exit status of a program and what it printed."""
    try:
        done = subprocess.run(
            list(map(str, command)),
            cwd=ROOT,
            env=quiet(),
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        return 124, f"TimeoutExpired: more than {timeout:.0f} s"
    return done.returncode, done.stdout


def environment(
    group: str, packages: Sequence[str], tools: Sequence[str] = ("setuptools>=77", "wheel")
) -> tuple[Path, str | None]:
    """The Python of an environment with these packages and this one, made if it is not there, and the error if it
    cannot be.

    `tools` are installed first, for packages that are built without isolation.
    """
    folder = ROOT / ".venv-libraries" / group
    python, mark = folder / "bin/python", folder.with_suffix(".installed")
    wanted = "\n".join(packages)
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return python, None
    print(f"installing {', '.join(packages)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    for asked in (tools, ["--no-build-isolation", *packages, "--editable", ".[data]"]):
        status, printed = called(python, "-m", "pip", "install", "--quiet", *asked)
        if status:
            return python, last_error(printed)
    mark.write_text(wanted, encoding="utf-8")
    return python, None


def last_error(printed: str) -> str:
    """The line of an output that says what went wrong."""
    lines = [line.strip() for line in printed.splitlines() if re.search(r"(?<!\w)[\w.]*(Error|Expired)\b.*: ?", line)]
    return lines[-1] if lines else printed.strip().splitlines()[-1]
