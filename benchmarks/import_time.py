"""How long it takes to start, in fresh interpreters: `python benchmarks/import_time.py`.

`import taciturn` in seconds, against the packages that it needs; the interpreter's own start is taken off both. And
whole commands, in CPU seconds of user and system. All run in turns, with their bytecode cached.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

from common import record

REPEATS = 15
NEEDED = "numpy, gymnasium, pettingzoo"
STATEMENTS = {"interpreter": "pass", "needed": f"import {NEEDED}", "taciturn": "import taciturn"}
COMMANDS = {
    "--help": ("--help",),
    "list": ("list",),
    "run": ("run", "taciturn/RoundStopping-v0", "--policy", "OneStepLookAhead", "--seeds", "2", "--set", "horizon=10"),
}
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def start(*arguments: str) -> tuple[float, float]:
    """Seconds and CPU seconds of an interpreter with these arguments."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    passed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    starts: dict[str, tuple[str, ...]] = {name: ("-c", statement) for name, statement in STATEMENTS.items()}
    starts |= {name: ("-m", "taciturn", *arguments) for name, arguments in COMMANDS.items()}
    for arguments in starts.values():
        start(*arguments)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in starts}
    for _ in range(REPEATS):
        for name, arguments in starts.items():
            results[name].append(start(*arguments))
    times = {name: [passed for passed, _ in results[name]] for name in STATEMENTS}
    begins = statistics.median(times["interpreter"])
    result: dict[str, Any] = {"interpreter_s": round(begins, 4), "repeats": REPEATS}
    for name in ("needed", "taciturn"):
        result[f"import_{name}_s"] = round(statistics.median(times[name]) - begins, 4)
        result[f"import_{name}_range_s"] = [round(x(times[name]) - begins, 4) for x in (min, max)]
    result["ratio"] = round(result["import_taciturn_s"] / result["import_needed_s"], 2)
    print(f"import taciturn {result['import_taciturn_s']:.3f} s, {result['ratio']} times import {NEEDED}")
    result["cpu_s"], result["cpu_range_s"] = {}, {}
    for name in COMMANDS:
        cpu = [used for _, used in results[name]]
        result["cpu_s"][name] = round(statistics.median(cpu), 3)
        result["cpu_range_s"][name] = [round(min(cpu), 3), round(max(cpu), 3)]
        print(f"taciturn {name}: {result['cpu_s'][name]} CPU s, {result['cpu_range_s'][name]}")
    record("import_time", result, ("taciturn", "numpy", "gymnasium", "typer"))


if __name__ == "__main__":
    main()
