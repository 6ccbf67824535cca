"""All benchmarks of speed, and the table of what was asked and measured: `make speed`, or `python benchmarks/speed.py [NAME ...]`.

Each script that is named in `SCRIPTS` runs by itself and records its results, with machine and versions, in `results/`. Peers whose pins
conflict with ours get environments of their own in `.venv-libraries/`; one that cannot be installed is skipped, and its row says so.
`--table` only prints the table, from what was recorded, and writes it to `docs/speed.md`.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from environments import ROOT, called, environment

RESULTS, PAGE = ROOT / "benchmarks/results", ROOT / "docs/speed.md"
BEGIN, END = "<!-- table: written by benchmarks/speed.py -->\n", "<!-- end of table -->\n"
OURS = (
    "steps", "array_step", "parallel_view", "social", "gossip", "federated_bandit", "federated_round", "recommender", "elicitation",
    "import_time", "kernels", "mechanisms", "ledger", "solver", "scaling",
)  # fmt: skip
SCRIPTS: dict[str, tuple[str, ...]] = dict.fromkeys(OURS, ()) | {
    "ucb_peer": ("SMPyBandits==0.9.7", "scipy<1.14", "numpy<2.3"),
    "gymnax_peer": ("gymnax==1.0.1", "six"),
}
"""Each script, and the packages of its environment if that is not ours."""


class Row(NamedTuple):
    """A line of the table: what is timed, beside which peer, the ratios that were measured, and what is asked of the worst of them."""

    work: str
    peer: str
    ratios: Callable[[], list[float]]
    at_most: float | None = None  # our time in units of the peer's
    at_least: float | None = None  # the peer's time in units of ours


def load(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def steps(*starts: str) -> Callable[[], list[float]]:
    """The ratios of the rows of `steps.py` whose names begin so."""
    return lambda: [row["ratio"] for name, row in load("steps")["rows"].items() if name.startswith(starts)]


def smpybandits() -> list[float]:
    seconds = load("ucb_peer")["seconds"]
    return [seconds["SMPyBandits loop"] / seconds["taciturn steps"]]


ROWS = [
    Row("single step, RoundStopping-v0", "CartPole-v1", steps("single, RoundStopping"), at_most=3),
    Row("single step, ArmElimination-v0", "CartPole-v1", steps("single, ArmElimination"), at_most=10),
    Row("single step, Elicitation-v0", "CartPole-v1", steps("single, Elicitation"), at_most=10),
    Row("Parallel step, 3 agents", "simple_spread, N=3", steps("parallel, 3 "), at_most=0.5),
    Row("Parallel step, 10 agents", "simple_spread, N=10", steps("parallel, 10 "), at_most=0.1),
    Row("Parallel step, 1,000 agents who vote", "by hand with dicts", lambda: [load("parallel_view")["times_faster"]], at_least=5),
    Row(
        "Parallel step, 1,000 agents, social bandit", "by hand with dicts", lambda: [load("social")["view_1000_agents"]["times_faster"]],
        at_least=5,
    ),
    Row("AEC cycle, 10 agents", "simple_spread as AEC, N=10", steps("cycle"), at_most=0.3),
    Row(
        "array step, 10,000 replicas, NumPy", "gymnax's Bernoulli bandit, jit and vmap",
        lambda: [row["ratio"] for name, row in load("gymnax_peer")["rows"].items() if not name.startswith("gymnax")], at_most=0.5,
    ),
    Row(
        "array step, 10,000 replicas", "SyncVectorEnv over as many lean environments",
        lambda: [load("array_step")["10000 lean environments"]["array_is_times_faster"]], at_least=100,
    ),
    Row(
        "array step, 10,000 replicas", "SyncVectorEnv over 100 lean environments",
        lambda: [load("array_step")["100 lean environments"]["array_is_times_faster"]], at_least=100,
    ),
    Row("UCB1, 50 agents, 100 arms, 10,000 steps with observations", "SMPyBandits", smpybandits, at_least=15),
    Row(
        "a federated round, 100 clients", "the same functions, client by client", lambda: [load("federated_round")["times_faster"]],
    ),
    Row("import taciturn", "numpy, gymnasium and pettingzoo", lambda: [load("import_time")["ratio"]], at_most=1.4),
]  # fmt: skip


def line(row: Row) -> tuple[str, ...]:
    """Work, peer, what was measured, what is asked, and whether the worst of it suffices."""
    try:
        found = row.ratios()
    except (OSError, KeyError):
        found = []
    if not found:
        return row.work, row.peer, "not measured", asked(row), "-"
    worst = min(found) if row.at_least else max(found)
    faster = row.at_most is None
    shown = " to ".join(dict.fromkeys(f"{x:.3g}" for x in (min(found), max(found))))
    measured = f"{shown} times as fast" if faster else f"{shown} times its time"
    if row.at_most is None and row.at_least is None:
        return row.work, row.peer, measured, "-", "-"
    reached = worst <= row.at_most if row.at_most is not None else worst >= (row.at_least or 0)
    return row.work, row.peer, measured, asked(row), "yes" if reached else "no"


def asked(row: Row) -> str:
    return (
        f"at most {row.at_most:g}" if row.at_most is not None else f"at least {row.at_least:g}" if row.at_least else "-"
    )


def table() -> str:
    """The table in Markdown."""
    columns = ("work", "peer, in the same run", "measured", "asked", "reached")
    lines = [columns, ("---",) * len(columns), *map(line, ROWS)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def run(name: str) -> str | None:
    """Run a script; what went wrong, if something did."""
    packages = SCRIPTS[name]
    python: Path | str = sys.executable
    if packages:
        python, error = environment(name, packages)
        if error:
            return f"its peer cannot be installed: {error}"
    status, printed = called(python, ROOT / f"benchmarks/{name}.py", timeout=1800)
    print(printed, end="", flush=True)
    return f"exit status {status}" if status else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    parser.add_argument("--table", action="store_true", help="only print and write the table")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(SCRIPTS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    wrong = {}
    for name in [] if chosen.table else chosen.names or SCRIPTS:
        begun = time.perf_counter()
        print(f"== {name}", flush=True)
        if error := run(name):
            wrong[name] = error
            print(f"{name}: {error}", flush=True)
        print(f"{time.perf_counter() - begun:.0f} s", flush=True)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(f"{text.partition(BEGIN)[0]}{BEGIN}{table()}{END}{text.partition(END)[2]}", encoding="utf-8")
    print(table())
    for name, error in wrong.items():
        print(f"{name} was not measured anew: {error}")


if __name__ == "__main__":
    main()
