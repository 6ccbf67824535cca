"""How long `import taciturn` takes in a fresh interpreter, against the packages that it needs: `python benchmarks/import_time.py`.

The interpreter's own start is taken off both; the two run in turns.
"""

import statistics
import subprocess
import sys
import time
from typing import Any

from common import record

REPEATS = 15
NEEDED = "numpy, gymnasium, pettingzoo"
STATEMENTS = {"interpreter": "pass", "needed": f"import {NEEDED}", "taciturn": "import taciturn"}


def seconds(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - started


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for statement in STATEMENTS.values():
        seconds(statement)
    for _ in range(REPEATS):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    start = statistics.median(times["interpreter"])
    result: dict[str, Any] = {"interpreter_s": round(start, 4), "repeats": REPEATS}
    for name in ("needed", "taciturn"):
        result[f"import_{name}_s"] = round(statistics.median(times[name]) - start, 4)
        result[f"import_{name}_range_s"] = [round(x(times[name]) - start, 4) for x in (min, max)]
    result["ratio"] = round(result["import_taciturn_s"] / result["import_needed_s"], 2)
    print(f"import taciturn {result['import_taciturn_s']:.3f} s, {result['ratio']} times import {NEEDED}")
    record("import_time", result)


if __name__ == "__main__":
    main()
